//! Writes, and the bytes in which they travel.
//!
//! Replicas, AOF and slot imports get the *result* of a call: every rule with its state in full,
//! but a log only as what was done to it, with its totals before. A change that does not fit what
//! the other side holds is refused as a whole. Stamps are told by their distance to the newest.
//!
//! ```text
//!   change = flags [ expire at ms ] packed list, then one part per log:
//!            0 totals                  the log as it is
//!            1 log                     the whole log
//!            2 totals edit             the log, edited
//! ```

use super::blocks::Shape;
use super::bytes::{Bytes, Reader};
use super::checksum::crc32c;
use super::codec::{self, Slot, State};
use super::few::Few;
use super::limiter::Limiter;
use super::log::Log;
use super::slide::Edit;
use super::time::Millis;
use super::Rule;

const FLAG_EXPIRE: u8 = 1;
const PART_SAME: u8 = 0;
const PART_WHOLE: u8 = 1;
const PART_EDITED: u8 = 2;

const EDIT_REPAIR: u8 = 1;
const EDIT_RESHAPE: u8 = 2;
const EDIT_TAKE: u8 = 4;
const EDIT_ADD: u8 = 8;
const EDIT_MERGE: u8 = 16;

/// What tells one log from another: entries, cost and newest stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    entries: usize,
    cost: u64,
    newest: Millis,
}

impl Totals {
    pub fn of(log: &Log) -> Self {
        Self { entries: log.len(), cost: log.total(), newest: log.newest() }
    }

    fn write(&self, out: &mut Bytes) {
        out.size(self.entries);
        out.u64(self.cost);
        out.i64(self.newest);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { entries: from.size()?, cost: from.u64()?, newest: from.i64()? })
    }
}

/// What a write did to one log.
#[derive(Clone, Copy, Debug)]
pub(super) enum LogPart<'e> {
    Same(Totals),
    Whole,
    Edited(Totals, &'e Edit),
}

/// What a write did to a limiter.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// What was done to each log, as it travels.
    pub(super) logs: Bytes,
    /// Milliseconds until every rule is as good as new.
    pub reset_ms: u64,
    /// The same of a limiter of which everything is used.
    pub full_reset_ms: u64,
    /// How far ahead of need the TTL may be set. None for a fixed window, whose end does not move.
    pub slack_ms: u64,
}

impl Change {
    /// The bytes for replicas and AOF. `limiter` is the one changed.
    pub fn encode(&self, limiter: &Limiter, expire_at: Option<Millis>, out: &mut Bytes) {
        encode_head(expire_at, out);
        out.bytes(limiter.packed());
        out.bytes(self.logs.as_slice());
    }
}

impl LogPart<'_> {
    pub fn encode(&self, log: &Log, out: &mut Bytes) {
        match self {
            Self::Same(totals) => {
                out.byte(PART_SAME);
                totals.write(out);
            }
            Self::Whole => {
                out.byte(PART_WHOLE);
                codec::pack_log(out, log);
            }
            Self::Edited(before, edit) => {
                out.byte(PART_EDITED);
                before.write(out);
                encode_edit(edit, before.newest, out);
            }
        }
    }
}

/// What a TTL may be set ahead of need: an eighth of a full reset, so that a busy key sends a new
/// TTL only now and then; nothing for a fixed window, whose end does not move.
pub(super) fn slack_ms(rule: &Rule) -> u64 {
    match rule {
        Rule::Fixed(_) => 0,
        _ => rule.full_reset_ms() >> 3,
    }
}

/// Begins a change; the packed list follows.
#[inline]
pub(super) fn encode_head(expire_at: Option<Millis>, out: &mut Bytes) {
    out.byte(if expire_at.is_some() { FLAG_EXPIRE } else { 0 });
    if let Some(at) = expire_at {
        out.i64(at);
    }
}

/// The bytes that set a key to `limiter` whatever it holds (a rewritten AOF).
pub fn encode_whole(limiter: &Limiter, out: &mut Bytes) {
    encode_head(None, out);
    out.bytes(limiter.packed());
    for log in limiter.logs() {
        LogPart::Whole.encode(log, out);
    }
}

fn encode_edit(edit: &Edit, newest: Millis, out: &mut Bytes) {
    let distance = |stamp: Millis| stamp.wrapping_sub(newest);
    let flag = |given: bool, flag: u8| if given { flag } else { 0 };
    out.byte(
        flag(edit.repair.is_some(), EDIT_REPAIR)
            | flag(edit.reshape.is_some(), EDIT_RESHAPE)
            | flag(edit.take.is_some(), EDIT_TAKE)
            | flag(edit.add.is_some(), EDIT_ADD)
            | flag(edit.merge, EDIT_MERGE),
    );
    if let Some((keep, stamp)) = edit.repair {
        out.size(keep);
        out.i64(distance(stamp));
    }
    out.size(edit.drop);
    if let Some((from, to, now)) = edit.reshape {
        out.u64(from.width());
        out.u64(to.width());
        out.i64(distance(now));
        out.size(edit.drop_after);
    }
    if let Some((to, cost)) = edit.take {
        out.size(to);
        out.u64(cost);
    }
    if let Some((stamp, cost)) = edit.add {
        out.i64(distance(stamp));
        out.u64(cost);
    }
}

fn decode_edit(from: &mut Reader<'_>, newest: Millis) -> Option<Edit> {
    let stamp = |distance: Option<i64>| Some(newest.wrapping_add(distance?));
    let flags = from.byte()?;
    if flags & !(EDIT_REPAIR | EDIT_RESHAPE | EDIT_TAKE | EDIT_ADD | EDIT_MERGE) != 0 {
        return None;
    }
    let mut edit = Edit::default();
    if flags & EDIT_REPAIR != 0 {
        edit.repair = Some((from.size()?, stamp(from.i64())?));
    }
    edit.drop = from.size()?;
    if flags & EDIT_RESHAPE != 0 {
        let (old, new) = (Shape::of_width(from.u64()?)?, Shape::of_width(from.u64()?)?);
        edit.reshape = Some((old, new, stamp(from.i64())?));
        edit.drop_after = from.size()?;
    }
    if flags & EDIT_TAKE != 0 {
        edit.take = Some((from.size()?, from.u64()?));
    }
    if flags & EDIT_ADD != 0 {
        edit.add = Some((stamp(from.i64())?, from.u64()?));
    }
    edit.merge = flags & EDIT_MERGE != 0;
    let stamps = [edit.repair.map(|r| r.1), edit.reshape.map(|r| r.2), edit.add.map(|a| a.0)];
    stamps.into_iter().flatten().all(codec::stamp_ok).then_some(edit)
}

/// Why a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The bytes are not a change.
    Malformed,
    /// The change was made to another state than the one held here.
    OtherState,
}

/// A change from elsewhere, applied.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The limiter as it is now.
    pub limiter: Limiter,
    /// When the key expires, in ms since the epoch; `None`: as before.
    pub expire_at: Option<Millis>,
}

enum Incoming {
    Same(Totals),
    Whole(Log),
    Edited(Totals, Edit),
}

impl Incoming {
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        match from.byte()? {
            PART_SAME => Some(Self::Same(Totals::read(from)?)),
            PART_WHOLE => Some(Self::Whole(codec::read_log(from)?)),
            PART_EDITED => {
                let before = Totals::read(from)?;
                Some(Self::Edited(before, decode_edit(from, before.newest)?))
            }
            _ => None,
        }
    }
}

/// Applies a change to what the key holds, which is left as it is if the change is refused.
///
/// # Errors
/// See [`Refused`].
pub fn apply(bytes: &[u8], held: Option<&mut Limiter>) -> Result<Applied, Refused> {
    let (packed, expire_at, incoming) = read(bytes).ok_or(Refused::Malformed)?;
    let new = codec::unpack(packed).ok_or(Refused::Malformed)?;
    let mut incoming = incoming.into_iter();
    // First see whether every part fits, then change: all or nothing.
    let mut plan = Vec::new();
    let old = match held.as_deref() {
        Some(limiter) => Some((limiter.list().ok_or(Refused::OtherState)?, limiter.logs())),
        None => None,
    };
    for (i, _) in owners(&new.slots) {
        let part = incoming.next().ok_or(Refused::Malformed)?;
        let own = old.as_ref().and_then(|(list, logs)| match list.slots.get(i)?.state {
            State::Log(n) => Some((n, logs.get(n)?)),
            _ => None,
        });
        plan.push((part.fits(own.map(|(_, log)| log))?, own.map(|(n, _)| n)));
    }
    if incoming.next().is_some() {
        return Err(Refused::Malformed);
    }
    let mut old: Vec<Option<Log>> =
        held.map_or_else(Vec::new, Limiter::take_logs).into_iter().map(Some).collect();
    let mut logs = Vec::with_capacity(plan.len());
    for (part, own) in plan {
        let mut take = || own.and_then(|n| old.get_mut(n)?.take()).unwrap_or_default();
        logs.push(match part {
            Incoming::Whole(log) => log,
            Incoming::Same(_) => take(),
            Incoming::Edited(_, edit) => {
                let mut log = take();
                edit.apply(&mut log);
                log
            }
        });
    }
    Ok(Applied { limiter: Limiter::new(packed, logs), expire_at })
}

impl Incoming {
    /// Whether the part applies to the log held: it was made to a log of the same totals.
    fn fits(self, held: Option<&Log>) -> Result<Self, Refused> {
        let ok = match (&self, held) {
            (Self::Whole(_), _) => true,
            (Self::Same(before), Some(log)) => Totals::of(log) == *before,
            // A log that nothing is left of is no state of its own: the rule would be fresh.
            (Self::Edited(before, edit), Some(log)) => {
                Totals::of(log) == *before && leaves_some(log, edit)
            }
            (_, None) => false,
        };
        if ok {
            Ok(self)
        } else {
            Err(Refused::OtherState)
        }
    }
}

/// Whether an edit leaves anything in the log; for a charge without touching it.
fn leaves_some(log: &Log, edit: &Edit) -> bool {
    if edit.add.is_some_and(|(_, cost)| cost > 0) {
        return true;
    }
    let mut copy = log.clone();
    edit.apply(&mut copy);
    !copy.is_empty()
}

fn owners(slots: &Few<Slot>) -> impl Iterator<Item = (usize, &Slot)> {
    slots.all().iter().enumerate().filter(|(_, slot)| matches!(slot.state, State::Log(_)))
}

type Read<'a> = (&'a [u8], Option<Millis>, Vec<Incoming>);

fn read(bytes: &[u8]) -> Option<Read<'_>> {
    let mut from = Reader(bytes);
    let flags = from.byte()?;
    if flags & !FLAG_EXPIRE != 0 {
        return None;
    }
    let expire_at = if flags & FLAG_EXPIRE != 0 { Some(from.i64()?) } else { None };
    let body = from.0;
    let list = codec::read_list(&mut from)?;
    let packed = body.get(..body.len().saturating_sub(from.0.len()))?;
    let mut parts = Vec::new();
    for _ in owners(&list.slots) {
        parts.push(Incoming::read(&mut from)?);
    }
    from.0.is_empty().then_some((packed, expire_at, parts))
}

/// The bytes of DUMP and RDB: the list, its logs, and a checksum over both.
pub fn encode_payload(limiter: &Limiter, out: &mut Vec<u8>) {
    let mut bytes = Bytes::default();
    bytes.bytes(limiter.packed());
    for log in limiter.logs() {
        codec::pack_log(&mut bytes, log);
    }
    out.extend_from_slice(bytes.as_slice());
    out.extend_from_slice(&crc32c(bytes.as_slice()).to_le_bytes());
}

/// Reads the bytes of DUMP and RDB; `None` if they are cut, damaged or of a newer version.
#[must_use]
pub fn decode_payload(bytes: &[u8]) -> Option<Limiter> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if crc32c(body).to_le_bytes() != *sum {
        return None;
    }
    let mut from = Reader(body);
    let list = codec::read_list(&mut from)?;
    let packed = body.get(..body.len().saturating_sub(from.0.len()))?;
    let mut logs = Vec::new();
    for _ in owners(&list.slots) {
        logs.push(codec::read_log(&mut from)?);
    }
    from.0.is_empty().then(|| Limiter::new(packed, logs))
}
