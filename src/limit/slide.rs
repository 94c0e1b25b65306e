//! SLIDE: at most `limit` cost in any trailing `window`, by an exact log of charges.
//!
//! ```text
//!          now - window                         now
//!   ──x─x──────|──x────xx───────x──x────────────|──▶ t
//!     run out     └ these count: sum <= limit ┘
//! ```
//!
//! A charge is stamped with its time rounded up to a millisecond and counts while
//! `now < stamp + window`. The retry time is exact because entries leave in order: the first entry
//! through which the running total covers the shortfall is the last that has to leave, and it
//! leaves at a known millisecond.
//!
//! With BLOCKS the same log holds one entry per block of time, stamped with the block's end (see
//! `blocks`); all that differs is how a time becomes a stamp.
//!
//! Nothing here changes a log. A decision works on [`Seen`], the log as it counts now; what a write
//! does to the log is said by an [`Edit`], which the server that decided and its replicas apply alike.

use super::blocks::{self, Shape};
use super::log::Log;
use super::time::{ceil_ms, floor_ms, ms_until, start_of_ms, Micros, Millis};
use super::{in_range, MAX_AMOUNT, MAX_BLOCKS, MAX_COUNT, MAX_DURATION_MS};

/// The settings of a SLIDE rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slide {
    limit: u64,
    window_ms: u64,
    blocks: Option<u16>,
}

impl Slide {
    /// `limit` 1 to 10^12, `window_ms` 1 to 3650 days, `blocks` 1 to 1000; else `None`.
    #[must_use]
    pub fn new(limit: u64, window_ms: u64, blocks: Option<u16>) -> Option<Self> {
        let ok = in_range(limit, MAX_AMOUNT)
            && in_range(window_ms, MAX_DURATION_MS)
            && blocks.is_none_or(|n| in_range(u64::from(n), u64::from(MAX_BLOCKS)));
        ok.then_some(Self { limit, window_ms, blocks })
    }

    /// Cost that any trailing window takes.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The window in milliseconds.
    #[must_use]
    pub const fn window_ms(&self) -> u64 {
        self.window_ms
    }

    /// Number of blocks a window is cut into; `None`: the exact log.
    #[must_use]
    pub const fn blocks(&self) -> Option<u16> {
        self.blocks
    }

    /// How times become stamps under these settings.
    pub(super) fn shape(&self) -> Shape {
        Shape::new(self.window_ms, self.blocks)
    }

    fn window(&self) -> Millis {
        i64::try_from(self.window_ms).unwrap_or(i64::MAX)
    }

    /// The largest stamp that no longer counts at `now`.
    fn run_out(&self, now: Micros) -> Millis {
        floor_ms(now).saturating_sub(self.window())
    }

    /// Milliseconds in which a full window is as good as new.
    pub(super) fn full_reset_ms(&self) -> u64 {
        self.window_ms.saturating_add(self.shape().width())
    }
}

/// A log as it counts at one moment: what has run out is skipped, what lies in the future (the
/// clock stepped back) counts as of now, and other settings are read in.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Entries `from..to` count with their own stamps.
    from: usize,
    to: usize,
    /// The cost of entries from `to` on, whose stamps lie in the future; counts at `late_stamp`.
    late: u64,
    late_stamp: Millis,
    /// All of that in another shape, which then counts instead.
    reshaped: Option<Box<Reshaped>>,
}

/// A log in the shape that a call asks for; its entries from `from` on count.
#[derive(Clone, Debug)]
struct Reshaped {
    log: Log,
    from: usize,
}

/// What a write does to a log, in this order. It holds numbers that were computed where the call
/// was decided, so that applying it needs no clock and no settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Keep this many entries and put the cost of the others at this stamp (a stepped clock).
    pub repair: Option<(usize, Millis)>,
    /// Drop this many of the oldest entries.
    pub drop: usize,
    /// Stamp the entries anew.
    pub reshape: Option<(Shape, Shape, Millis)>,
    /// Drop this many of the oldest entries after that.
    pub drop_after: usize,
    /// Take this cost off the newest of the first so many entries.
    pub take: Option<(usize, u64)>,
    /// Add cost at a stamp.
    pub add: Option<(Millis, u64)>,
    /// Do not add an entry but grow the newest and move it.
    pub merge: bool,
}

impl Edit {
    /// Whether a refund leaves nothing in `log`.
    pub(super) fn empties(&self, log: &Log) -> bool {
        let counts = log.sum(self.drop, log.len());
        self.add.is_none() && self.take.is_some_and(|(_, cost)| cost >= counts)
    }

    /// Applies the edit to `log`.
    pub fn apply(&self, log: &mut Log) {
        if let Some((keep, stamp)) = self.repair {
            let late = log.sum(keep, log.len());
            log.truncate(keep);
            log.add(stamp, late);
        }
        log.drop_front(self.drop);
        if let Some((from, to, now)) = self.reshape {
            *log = blocks::reshape(log, 0, log.len(), from, to, now);
        }
        log.drop_front(self.drop_after);
        if let Some((to, cost)) = self.take {
            log.take_back(0, to, cost);
        }
        match self.add {
            Some((stamp, cost)) if self.merge => log.grow_newest(stamp, cost),
            Some((stamp, cost)) => log.add(stamp, cost),
            None => {}
        }
    }
}

/// Reads `log` at `now` under the settings it was kept with; `None` if nothing counts. The flag
/// tells that a stamp lies in the future.
pub(super) fn settle(kept: &Slide, log: &Log, now: Micros) -> (Option<Seen>, bool) {
    let from = log.count_through(kept.run_out(now));
    if from >= log.len() {
        return (None, false);
    }
    let to = log.count_through(kept.shape().latest(now));
    let late = log.sum(to, log.len());
    let late_stamp = kept.shape().stamp(now);
    (Some(Seen { from, to, late, late_stamp, reshaped: None }), late > 0)
}

/// Reads what is `seen` under the settings `kept` with other settings; `None` if nothing counts.
pub(super) fn carry(kept: &Slide, new: &Slide, seen: Seen, log: &Log, now: Micros) -> Option<Seen> {
    let (old_shape, shape) = (kept.shape(), new.shape());
    if old_shape == shape {
        let from = log.count_through(new.run_out(now)).clamp(seen.from, seen.to);
        return (from < seen.to || seen.late > 0).then_some(Seen { from, ..seen });
    }
    let at = ceil_ms(now);
    // What cannot count in the new window is not stamped anew: no stamp moves on by more than a block.
    let out = new.run_out(now).saturating_sub_unsigned(shape.width());
    let seen = Seen { from: log.count_through(out).clamp(seen.from, seen.to), ..seen };
    let mut whole = blocks::reshape(log, seen.from, seen.to, old_shape, shape, at);
    whole.add(blocks::restamp(seen.late_stamp, old_shape, shape, at), seen.late);
    let from = whole.count_through(new.run_out(now));
    let alive = from < whole.len();
    let reshaped = Some(Box::new(Reshaped { log: whole, from }));
    alive.then_some(Seen { reshaped, ..seen })
}

/// The entries `from..to` of `log`, and cost beside them at a stamp of its own.
struct Counting<'a> {
    log: &'a Log,
    from: usize,
    to: usize,
    late: u64,
    late_stamp: Millis,
}

impl Counting<'_> {
    /// Cost of the entries, without the late one.
    fn stamped(&self) -> u64 {
        self.log.sum(self.from, self.to)
    }

    /// Stamp of the last entry.
    fn last(&self) -> Option<Millis> {
        let last = self.to.checked_sub(1).filter(|_| self.to > self.from);
        last.map(|i| self.log.stamp(i))
    }

    /// Whether something counts at exactly `stamp`.
    fn holds(&self, stamp: Millis) -> bool {
        let through = self.log.count_through(stamp).min(self.to);
        let own = through.checked_sub(1).filter(|_| through > self.from);
        own.is_some_and(|i| self.log.stamp(i) == stamp)
            || (self.late > 0 && self.late_stamp == stamp)
    }
}

impl Seen {
    fn counting<'a>(&'a self, log: &'a Log) -> Counting<'a> {
        match &self.reshaped {
            Some(own) => Counting {
                log: &own.log,
                from: own.from,
                to: own.log.len(),
                late: 0,
                late_stamp: self.late_stamp,
            },
            None => Counting {
                log,
                from: self.from,
                to: self.to,
                late: self.late,
                late_stamp: self.late_stamp,
            },
        }
    }

    /// The cost that counts.
    pub(super) fn used(&self, log: &Log) -> u64 {
        let c = self.counting(log);
        c.stamped().saturating_add(c.late)
    }

    /// Number of entries that count, with the oldest and the newest stamp.
    pub(super) fn extent(&self, log: &Log) -> (usize, Millis, Millis) {
        let c = self.counting(log);
        let apart = c.late > 0 && !Counting { late: 0, ..c }.holds(c.late_stamp);
        let n = c.to.saturating_sub(c.from).saturating_add(usize::from(apart));
        let own = (c.to > c.from).then(|| c.log.stamp(c.from));
        let oldest = match own {
            Some(stamp) if c.late > 0 => stamp.min(c.late_stamp),
            Some(stamp) => stamp,
            None => c.late_stamp,
        };
        (n, oldest, self.newest(log))
    }

    /// The stamp of the newest entry that counts.
    pub(super) fn newest(&self, log: &Log) -> Millis {
        let c = self.counting(log);
        match c.last() {
            Some(stamp) if c.late > 0 => stamp.max(c.late_stamp),
            Some(stamp) => stamp,
            None => c.late_stamp,
        }
    }

    /// The stamp of the last entry that must leave before `need` of the cost is gone.
    fn leaves(&self, log: &Log, need: u64) -> Millis {
        let c = self.counting(log);
        // Late cost counts before an entry that lies up to a millisecond after now.
        let after = c.late > 0 && c.last().is_some_and(|stamp| stamp > c.late_stamp);
        let early = c.to.saturating_sub(usize::from(after));
        let before = c.log.sum(c.from, early);
        if need <= before {
            c.log.stamp(c.log.reaches(c.from, early, need))
        } else if need <= before.saturating_add(c.late) || !after {
            c.late_stamp
        } else {
            c.log.stamp(early)
        }
    }

    /// The edit that stores the log as seen, without a charge.
    fn stored(&self) -> Edit {
        let repair = (self.late > 0).then_some((self.to, self.late_stamp));
        Edit { repair, drop: self.from, ..Edit::default() }
    }
}

/// Milliseconds until `cost` fits (0: now); `None`: it never will.
pub(super) fn wait_ms(
    rule: &Slide,
    seen: Option<&Seen>,
    log: &Log,
    cost: u64,
    now: Micros,
) -> Option<u64> {
    if cost > rule.limit {
        return None;
    }
    let Some(seen) = seen else { return Some(0) };
    let need = seen.used(log).saturating_add(cost).saturating_sub(rule.limit);
    if need == 0 {
        return Some(0);
    }
    Some(ms_until(now, gone(rule, seen.leaves(log, need))))
}

/// When an entry of `stamp` no longer counts.
pub(super) fn gone(rule: &Slide, stamp: Millis) -> Micros {
    start_of_ms(stamp.saturating_add(rule.window()))
}

/// Calls of cost 1 that would pass now, and milliseconds until nothing counts.
pub(super) fn standing(rule: &Slide, seen: Option<&Seen>, log: &Log, now: Micros) -> (u64, u64) {
    seen.map_or((rule.limit, 0), |seen| {
        let reset = ms_until(now, gone(rule, seen.newest(log)));
        (rule.limit.saturating_sub(seen.used(log)), reset)
    })
}

/// The same after `cost` more was charged.
pub(super) fn charged(
    rule: &Slide,
    seen: Option<&Seen>,
    log: &Log,
    cost: u64,
    now: Micros,
) -> (u64, u64) {
    let stamp = rule.shape().stamp(now);
    let (used, newest) = seen.map_or((0, stamp), |s| (s.used(log), s.newest(log)));
    // A log that takes no more keeps its newest entry where it is.
    let last = if used < MAX_COUNT { newest.max(stamp) } else { newest };
    let reset = ms_until(now, gone(rule, last));
    (rule.limit.saturating_sub(used.saturating_add(cost)), reset)
}

/// What a write does: bring the log to what is seen, and add `cost` unless it is 0. `kept` are the
/// settings the log was made under; at most `most` entries are kept.
pub(super) fn edit(
    rule: &Slide,
    kept: &Slide,
    seen: Option<&Seen>,
    log: &Log,
    cost: u64,
    now: Micros,
    most: u64,
) -> Edit {
    let stamp = rule.shape().stamp(now);
    let mut edit = match seen {
        Some(seen) => seen.stored(),
        None => Edit { drop: log.len(), ..Edit::default() },
    };
    if let Some(own) = seen.and_then(|seen| seen.reshaped.as_ref()) {
        edit.reshape = Some((kept.shape(), rule.shape(), ceil_ms(now)));
        edit.drop_after = own.from;
    }
    if cost > 0 {
        edit.add = Some((stamp, cost));
        edit.merge = seen.is_some_and(|seen| {
            let entries = u64::try_from(seen.extent(log).0).unwrap_or(u64::MAX);
            rule.blocks.is_none() && entries >= most && !seen.counting(log).holds(stamp)
        });
    }
    edit
}

/// The edit that gives `cost` back: off the newest entries, or off the newest not later than the
/// one that holds `moment`. `None` if there is nothing to give back.
pub(super) fn refund(
    rule: &Slide,
    seen: &Seen,
    log: &Log,
    cost: u64,
    moment: Option<Millis>,
) -> Option<Edit> {
    let mut edit = seen.stored();
    let repaired;
    // The log as it will be when the cost is taken off, and where its entries begin to count.
    let (own, from) = if edit.repair.is_some() {
        let mut copy = log.clone();
        edit.apply(&mut copy);
        repaired = copy;
        (&repaired, 0)
    } else {
        (log, seen.from)
    };
    let to = moment.map_or(own.len(), |m| own.count_through(rule.shape().holding(m))).max(from);
    let taken = cost.min(own.sum(from, to));
    edit.take = Some((to.saturating_sub(from), taken));
    (taken > 0).then_some(edit)
}
