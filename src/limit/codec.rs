//! The bytes of a list of rules with their states.
//!
//! ```text
//!   packed  = header [ count asked [names versions] ] rule+ ;  header = format << 4 | flags
//!   rule    = tag settings [ state ]             ;  tag = algorithm | has state | has option
//!   TOKEN, LEAKY  capacity rate period           ;  state: used mark [ cut ]
//!   SLIDE         limit window [ blocks ]        ;  state: a log, which stands elsewhere
//!   FIXED         limit window [ offset ]        ;  state: begin count
//! ```
//!
//! Numbers are LEB128: seven bits a byte, low ones first. Whatever is read is checked against the
//! same bounds as an argument; bytes that break one are refused as a whole. A list of one rule
//! without policies, by far the most common, goes without count and names.

use super::bytes::{Bytes, Reader};
use super::few::Few;
use super::fixed::{Count, Fixed};
use super::level::{Bucket, Level, MAX_LEVEL};
use super::log::Log;
use super::slide::Slide;
use super::{Algorithm, Rule, MAX_COUNT, MAX_RULES};

/// The format that this version writes, and the newest that it reads.
const FORMAT: u8 = 1;
const FLAG_LIST: u8 = 1;
const FLAG_TRAIL: u8 = 2;
const TAG_STATE: u8 = 4;
const TAG_OPTION: u8 = 8;
/// Stamps of a log lie within this many milliseconds of the epoch (140,000 years).
const MAX_STAMP: u64 = 1 << 52;
/// A policy's name has at most this many bytes.
const MAX_NAME: usize = 64;

/// Whether `word` is a policy's name: 1 to 64 of `A-Z a-z 0-9 _ . -`.
#[must_use]
pub fn is_name(word: &[u8]) -> bool {
    (1..=MAX_NAME).contains(&word.len())
        && word.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// A list as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// The policies that a call or a stored charge names: where, which, and in which version.
/// `names` holds (place, length, bytes) each, the place counted in rules as written, `versions` one number each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trail<'a> {
    /// Places and names.
    pub names: &'a [u8],
    /// Versions in the same order.
    pub versions: &'a [u8],
}

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
            if at < next || at >= positions || !is_name(name) || versions.u64().is_none() {
                return false;
            }
            next = at.saturating_add(1);
            bytes = bytes.saturating_add(name.len()).saturating_add(2);
        }
        bytes == self.names.len() && versions.0.is_empty()
    }
}

/// Writes a list.
pub fn pack(out: &mut Bytes, slots: &[Slot], asked: usize, trail: Trail<'_>) {
    let named = !trail.names.is_empty();
    let list = slots.len() != 1 || named;
    let flags = if list { FLAG_LIST } else { 0 } | if named { FLAG_TRAIL } else { 0 };
    out.byte(FORMAT << 4 | flags);
    if list {
        out.size(slots.len());
        out.size(asked);
    }
    if named {
        out.size(trail.names.len());
        out.bytes(trail.names);
        out.size(trail.versions.len());
        out.bytes(trail.versions);
    }
    for slot in slots {
        pack_slot(out, slot);
    }
}

fn pack_slot(out: &mut Bytes, slot: &Slot) {
    let state = if slot.state == State::Fresh { 0 } else { TAG_STATE };
    let option = |given: bool| if given { TAG_OPTION } else { 0 };
    let tag = slot.rule.algorithm() as u8 | state;
    match slot.rule {
        Rule::Token(b) | Rule::Leaky(b) => {
            let cut = matches!(slot.state, State::Level(l) if l.cut > 0);
            out.byte(tag | option(cut));
            out.u64(b.capacity());
            out.u64(b.rate());
            out.u64(b.period_ms());
        }
        Rule::Slide(s) => {
            out.byte(tag | option(s.blocks().is_some()));
            out.u64(s.limit());
            out.u64(s.window_ms());
            if let Some(blocks) = s.blocks() {
                out.u64(u64::from(blocks));
            }
        }
        Rule::Fixed(f) => {
            out.byte(tag | option(f.align_ms().is_some()));
            out.u64(f.limit());
            out.u64(f.window_ms());
            if let Some(offset) = f.align_ms() {
                out.i64(offset);
            }
        }
    }
    match slot.state {
        State::Fresh | State::Log(_) => {}
        State::Level(l) => {
            out.u128(l.used);
            out.i64(l.mark);
            if l.cut > 0 {
                out.u128(l.cut);
            }
        }
        State::Count(c) => {
            out.i64(c.begin);
            out.u64(c.count);
        }
    }
}

/// Reads a list that fills `bytes` to the end.
#[must_use]
pub fn unpack(bytes: &[u8]) -> Option<List<'_>> {
    let mut from = Reader(bytes);
    let list = read_list(&mut from)?;
    from.0.is_empty().then_some(list)
}

/// Reads a list; what follows it stays in `from`.
pub fn read_list<'a>(from: &mut Reader<'a>) -> Option<List<'a>> {
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
    let mut logs = 0;
    let slots = Few::make(count, |_| read_slot(from, &mut logs))?;
    Some(List { slots, asked, trail })
}

fn read_slot(from: &mut Reader<'_>, logs: &mut usize) -> Option<Slot> {
    let tag = from.byte()?;
    if tag & !(3 | TAG_STATE | TAG_OPTION) != 0 {
        return None;
    }
    let option = tag & TAG_OPTION != 0;
    let algorithm = *Algorithm::ALL.get(usize::from(tag & 3))?;
    let first = from.u64()?;
    let second = from.u64()?;
    let rule = match algorithm {
        Algorithm::Token => Rule::Token(Bucket::new(first, second, from.u64()?)?),
        Algorithm::Leaky => Rule::Leaky(Bucket::new(first, second, from.u64()?)?),
        Algorithm::Slide => {
            let blocks = if option { Some(u16::try_from(from.u64()?).ok()?) } else { None };
            Rule::Slide(Slide::new(first, second, blocks)?)
        }
        Algorithm::Fixed => {
            let align = if option { Some(from.i64()?) } else { None };
            Rule::Fixed(Fixed::new(first, second, align)?)
        }
    };
    let state = match algorithm {
        _ if tag & TAG_STATE == 0 => {
            let cut = option && matches!(algorithm, Algorithm::Token | Algorithm::Leaky);
            if cut {
                return None;
            }
            State::Fresh
        }
        Algorithm::Token | Algorithm::Leaky => {
            let used = from.u128()?;
            let mark = from.i64()?;
            let cut = if option { from.u128()? } else { 0 };
            let (Rule::Token(bucket) | Rule::Leaky(bucket)) = rule else { return None };
            if used > bucket.deepest() || cut > MAX_LEVEL || option != (cut > 0) {
                return None;
            }
            State::Level(Level { used, cut, mark })
        }
        Algorithm::Slide => {
            let log = *logs;
            *logs = logs.saturating_add(1);
            State::Log(log)
        }
        Algorithm::Fixed => {
            let begin = from.i64()?;
            let count = from.u64()?;
            if count > MAX_COUNT {
                return None;
            }
            State::Count(Count { begin, count })
        }
    };
    Some(Slot { rule, state })
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
