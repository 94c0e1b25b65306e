//! The bytes of a list of rules with their states.
//!
//! ```text
//!   packed  = header [ count asked [names versions] ] rule+ ;  header = format << 4 | flags
//!   rule    = tag sizes sizes a b c d [ state ]             ;  tag = algorithm | flags
//!
//!             a         b       c         d            state
//!   TOKEN     capacity  rate    period    used         mark [ used / 2^64 ] [ cut ]
//!   LEAKY     capacity  rate    period    used         mark [ used / 2^64 ] [ cut ]
//!   FIXED     limit     window  [offset]  count        begin
//!   SLIDE     limit     window  [blocks]  -            a log, which stands elsewhere
//! ```
//!
//! The numbers a to d take as many bytes as they need, low ones first; `sizes` says how many, four
//! bits each. Marks take eight bytes. So a state is read and written by a few whole words, and yet
//! a limiter is small. Count, names and whatever is rare are LEB128. What is read is checked
//! against the same bounds as an argument; bytes that break one are refused as a whole. A list of
//! one rule without policies, by far the most common, goes without count and names.

use super::bytes::{size, unzigzag, zigzag, Bytes, Reader};
use super::few::Few;
use super::fixed::{Count, Fixed};
use super::level::{Bucket, Level, MAX_LEVEL};
use super::log::{self, Log};
use super::slide::Slide;
use super::{Algorithm, Rule, MAX_COUNT, MAX_RULES};

/// The format that this version writes, and the newest that it reads.
const FORMAT: u8 = 1;
const FLAG_LIST: u8 = 1;
const FLAG_TRAIL: u8 = 2;
/// The rule is not as good as new.
const TAG_STATE: u8 = 4;
/// ALIGN or BLOCKS was given; a bucket has a part cut off.
const TAG_OPTION: u8 = 8;
/// The used part of a bucket exceeds 64 bits.
const TAG_WIDE: u8 = 16;
/// Stamps of a log lie within this many milliseconds of the epoch (140,000 years).
const MAX_STAMP: u64 = 1 << 52;
/// A policy's name has at most this many bytes.
pub const MAX_NAME: usize = 64;

/// A list as it is stored.
#[derive(Clone, Debug)]
pub struct List<'a> {
    /// Rules and states by position.
    pub slots: Few<Slot>,
    /// How many positions the last stored charge asked for.
    pub asked: usize,
    /// The policies it named.
    pub trail: Trail<'a>,
}

/// One rule of a list with its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The kept settings.
    pub rule: Rule,
    /// What is used.
    pub state: State,
}

/// What is used of a rule, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As good as new.
    Fresh,
    /// TOKEN and LEAKY.
    Level(Level),
    /// FIXED.
    Count(Count),
    /// SLIDE: the log of this number among the logs of the list.
    Log(usize),
}

impl State {
    /// The log of this state among those of its list, an empty one if it has none.
    #[inline]
    pub(super) fn log<'a>(&self, logs: &'a [Log]) -> &'a Log {
        match self {
            Self::Log(i) => logs.get(*i).unwrap_or(&log::EMPTY),
            _ => &log::EMPTY,
        }
    }
}

/// The policies that a call or a stored charge names: where, which, and in which version.
/// `names` holds (place, length, bytes) each, the place counted in rules as written, `versions` one number each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trail<'a> {
    /// Places and names.
    pub names: &'a [u8],
    /// Versions in the same order.
    pub versions: &'a [u8],
}

impl PartialEq for Trail<'_> {
    /// Nothing is not compared with nothing: where memory is compared by masked vector loads, the
    /// address of an empty slice, which is no address, costs hundreds of cycles.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &[u8], b: &[u8]| a.len() == b.len() && (a.is_empty() || a == b);
        same(self.names, other.names) && same(self.versions, other.versions)
    }
}

impl Eq for Trail<'_> {}

impl<'a> Trail<'a> {
    /// The place and name of each policy, in order.
    pub fn each(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let mut rest = Reader(self.names);
        std::iter::from_fn(move || {
            let at = rest.byte()?;
            let len = rest.byte()?;
            Some((usize::from(at), rest.take(usize::from(len))?))
        })
    }

    fn valid(&self, positions: usize) -> bool {
        let mut versions = Reader(self.versions);
        let (mut next, mut bytes) = (0, 0_usize);
        for (at, name) in self.each() {
            let named = (1..=MAX_NAME).contains(&name.len());
            if at < next || at >= positions || !named || versions.u64().is_none() {
                return false;
            }
            next = at.saturating_add(1);
            bytes = bytes.saturating_add(name.len()).saturating_add(2);
        }
        bytes == self.names.len() && versions.0.is_empty()
    }
}

/// Writes all of a list but its `count` slots, which follow.
pub fn pack_head(out: &mut Bytes, count: usize, asked: usize, trail: Trail<'_>) {
    let named = !trail.names.is_empty();
    let list = count != 1 || named;
    let flags = if list { FLAG_LIST } else { 0 } | if named { FLAG_TRAIL } else { 0 };
    out.byte(FORMAT << 4 | flags);
    if list {
        out.size(count);
        out.size(asked);
    }
    if named {
        out.size(trail.names.len());
        out.bytes(trail.names);
        out.size(trail.versions.len());
        out.bytes(trail.versions);
    }
}

/// Writes a list of one rule without policies.
#[inline]
pub fn pack_one(out: &mut Bytes, slot: &Slot) {
    out.byte(FORMAT << 4);
    pack_slot(out, slot);
}

/// Writes one slot of a list.
#[inline]
pub fn pack_slot(out: &mut Bytes, slot: &Slot) {
    let (a, b, c, option) = match slot.rule {
        Rule::Token(b) | Rule::Leaky(b) => {
            let cut = matches!(slot.state, State::Level(l) if l.cut > 0);
            (b.capacity(), b.rate(), b.period_ms(), cut)
        }
        Rule::Slide(s) => {
            let blocks = s.blocks();
            (s.limit(), s.window_ms(), u64::from(blocks.unwrap_or(0)), blocks.is_some())
        }
        Rule::Fixed(f) => {
            let offset = f.align_ms();
            (f.limit(), f.window_ms(), zigzag(offset.unwrap_or(0)), offset.is_some())
        }
    };
    let mut tag = slot.rule.algorithm() as u8;
    if option {
        tag |= TAG_OPTION;
    }
    let (mut d, mut wide) = (0, 0);
    match slot.state {
        State::Fresh => {}
        State::Log(_) => tag |= TAG_STATE,
        State::Level(l) => {
            tag |= TAG_STATE;
            (d, wide) = (l.used as u64, (l.used >> 64) as u64);
            if wide > 0 {
                tag |= TAG_WIDE;
            }
        }
        State::Count(count) => {
            tag |= TAG_STATE;
            d = count.count;
        }
    }
    let (na, nb, nc, nd) = (size(a), size(b), size(c), size(d));
    out.byte(tag);
    out.byte((na | nb << 4) as u8);
    out.byte((nc | nd << 4) as u8);
    out.le(a, na);
    out.le(b, nb);
    out.le(c, nc);
    out.le(d, nd);
    match slot.state {
        State::Fresh | State::Log(_) => {}
        State::Level(l) => {
            out.le(l.mark.cast_unsigned(), 8);
            if wide > 0 {
                out.le(wide, 8);
            }
            if l.cut > 0 {
                out.u128(l.cut);
            }
        }
        State::Count(count) => out.le(count.begin.cast_unsigned(), 8),
    }
}

/// Reads a list of one rule without policies; `None` if it is another list.
#[inline]
#[must_use]
pub fn unpack_one(bytes: &[u8]) -> Option<Slot> {
    let mut from = Reader(bytes);
    if from.byte()? != FORMAT << 4 {
        return None;
    }
    let slot = read_slot(&mut from, &mut 0)?;
    from.0.is_empty().then_some(slot)
}

/// Reads a list that fills `bytes` to the end.
#[must_use]
pub fn unpack(bytes: &[u8]) -> Option<List<'_>> {
    let mut from = Reader(bytes);
    let list = read_list(&mut from)?;
    from.0.is_empty().then_some(list)
}

/// The same, each slot handed to `each`; `None` as soon as `each` says so. How many positions the
/// last stored charge asked for, and the policies it named.
#[inline]
pub fn unpack_each(
    bytes: &[u8],
    mut each: impl FnMut(Slot) -> Option<()>,
) -> Option<(usize, Trail<'_>)> {
    let mut from = Reader(bytes);
    let (count, asked, trail) = read_head(&mut from)?;
    let mut logs = 0;
    for _ in 0..count {
        each(read_slot(&mut from, &mut logs)?)?;
    }
    from.0.is_empty().then_some((asked, trail))
}

/// Reads a list; what follows it stays in `from`.
pub fn read_list<'a>(from: &mut Reader<'a>) -> Option<List<'a>> {
    let (count, asked, trail) = read_head(from)?;
    let mut logs = 0;
    let slots = Few::make(count, |_| read_slot(from, &mut logs))?;
    Some(List { slots, asked, trail })
}

/// The policies that a list names.
#[must_use]
pub fn unpack_trail(bytes: &[u8]) -> Option<Trail<'_>> {
    read_head(&mut Reader(bytes)).map(|(_, _, trail)| trail)
}

/// How many slots follow, how many the last charge asked for, and which policies it named.
fn read_head<'a>(from: &mut Reader<'a>) -> Option<(usize, usize, Trail<'a>)> {
    let header = from.byte()?;
    let flags = header & 0x0f;
    if header >> 4 != FORMAT || flags & !(FLAG_LIST | FLAG_TRAIL) != 0 || flags == FLAG_TRAIL {
        return None;
    }
    let (mut count, mut asked, mut trail) = (1, 1, Trail::default());
    if flags & FLAG_LIST != 0 {
        count = from.size()?;
        asked = from.size()?;
    }
    if flags & FLAG_TRAIL != 0 {
        let names = from.size()?;
        trail.names = from.take(names)?;
        let versions = from.size()?;
        trail.versions = from.take(versions)?;
    }
    // The short form is the only one for a list that it can hold.
    let short = flags == FLAG_LIST && count == 1;
    let named = flags & FLAG_TRAIL != 0;
    let trail_ok = trail.valid(asked) && named != trail.names.is_empty();
    if short || !(1..=MAX_RULES).contains(&count) || !(1..=count).contains(&asked) || !trail_ok {
        return None;
    }
    Some((count, asked, trail))
}

#[inline]
fn read_slot(from: &mut Reader<'_>, logs: &mut usize) -> Option<Slot> {
    let tag = from.byte()?;
    if tag & !(3 | TAG_STATE | TAG_OPTION | TAG_WIDE) != 0 {
        return None;
    }
    let (stateful, option, wide) =
        (tag & TAG_STATE != 0, tag & TAG_OPTION != 0, tag & TAG_WIDE != 0);
    let (low, high) = (from.byte()?, from.byte()?);
    let a = from.le(usize::from(low & 15))?;
    let b = from.le(usize::from(low >> 4))?;
    let c = from.le(usize::from(high & 15))?;
    let d = from.le(usize::from(high >> 4))?;
    let algorithm = *Algorithm::ALL.get(usize::from(tag & 3))?;
    match algorithm {
        Algorithm::Token | Algorithm::Leaky => {
            let bucket = Bucket::new(a, b, c)?;
            let rule = match algorithm {
                Algorithm::Token => Rule::Token(bucket),
                _ => Rule::Leaky(bucket),
            };
            if !stateful {
                return (!option && !wide && d == 0).then_some(Slot { rule, state: State::Fresh });
            }
            let mark = from.le_fixed()?.cast_signed();
            let high = if wide { from.le_fixed()? } else { 0 };
            let cut = if option { from.u128()? } else { 0 };
            let used = u128::from(high) << 64 | u128::from(d);
            let ok = used <= bucket.deepest()
                && cut <= MAX_LEVEL
                && option == (cut > 0)
                && wide == (high > 0);
            ok.then_some(Slot { rule, state: State::Level(Level { used, cut, mark }) })
        }
        Algorithm::Fixed => {
            let align = option.then_some(unzigzag(c));
            let rule = Rule::Fixed(Fixed::new(a, b, align)?);
            if wide || (!option && c != 0) || (!stateful && d != 0) || d > MAX_COUNT {
                return None;
            }
            let state = if stateful {
                State::Count(Count { begin: from.le_fixed()?.cast_signed(), count: d })
            } else {
                State::Fresh
            };
            Some(Slot { rule, state })
        }
        Algorithm::Slide => {
            let blocks = if option { Some(u16::try_from(c).ok()?) } else { None };
            let rule = Rule::Slide(Slide::new(a, b, blocks)?);
            if wide || d != 0 || (!option && c != 0) {
                return None;
            }
            let state = if stateful { State::Log(*logs) } else { State::Fresh };
            *logs = logs.saturating_add(usize::from(stateful));
            Some(Slot { rule, state })
        }
    }
}

/// Writes a whole log: how many entries, then each one's distance to the one before, and its cost.
pub fn pack_log(out: &mut Bytes, log: &Log) {
    out.size(log.len());
    let mut before = 0;
    for (stamp, cost) in log.entries() {
        out.i64(stamp.wrapping_sub(before));
        out.u64(cost);
        before = stamp;
    }
}

/// Whether a stamp lies where no arithmetic on it can overflow.
pub(super) const fn stamp_ok(stamp: i64) -> bool {
    stamp.unsigned_abs() <= MAX_STAMP
}

/// Reads a whole log. Entries are in order, none is empty, and the total stays within 2^62.
pub fn read_log(from: &mut Reader<'_>) -> Option<Log> {
    let len = from.size()?;
    // Every entry takes two bytes or more: a length that lies is refused before memory is taken.
    if len == 0 || len > from.0.len() >> 1 {
        return None;
    }
    let mut log = Log::new();
    let mut before: Option<i64> = None;
    for _ in 0..len {
        let step = from.i64()?;
        let cost = from.u64()?;
        let stamp = before.unwrap_or(0).checked_add(step)?;
        let in_order = before.is_none_or(|b| stamp > b);
        if !in_order
            || !stamp_ok(stamp)
            || cost == 0
            || cost > MAX_COUNT.saturating_sub(log.total())
        {
            return None;
        }
        log.add(stamp, cost);
        before = Some(stamp);
    }
    Some(log)
}
