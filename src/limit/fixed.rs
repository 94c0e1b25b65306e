//! FIXED: a window with a count.
//!
//! ```text
//!  plain:   first charge opens ──┐             the next charge after it opens another
//!                                ├── window ──┤        ├── window ──┤
//!  ALIGN:   |<-- window -->|<-- window -->|<-- window -->|   turns by the clock, whoever calls
//! ```
//!
//! At most `limit` inside a window; across the turn up to twice that can pass in a short time, which
//! SLIDE forbids. The retry time is exact because a window's end is fixed by the time its count
//! began (`begin`), which no later charge moves.

use super::time::{ms_until, start_of_ms, Micros};
use super::{in_range, MAX_AMOUNT, MAX_COUNT, MAX_DURATION_MS, MAX_OFFSET_MS};

/// The settings of a FIXED rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    limit: u64,
    window_ms: u64,
    align_ms: Option<i64>,
}

/// What a fixed window holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// When the count began: the first charge, or the aligned start that a change of settings
    /// moved it up to.
    pub begin: Micros,
    /// Cost counted since, at least 1, at most 2^62.
    pub count: u64,
}

impl Fixed {
    /// `limit` 1 to 10^12, `window_ms` 1 to 3650 days, `align_ms` (how far the aligned clock runs
    /// ahead of UTC) within 7 days either way; else `None`.
    #[must_use]
    pub fn new(limit: u64, window_ms: u64, align_ms: Option<i64>) -> Option<Self> {
        let ok = in_range(limit, MAX_AMOUNT)
            && in_range(window_ms, MAX_DURATION_MS)
            && align_ms.is_none_or(|o| o.unsigned_abs() <= MAX_OFFSET_MS);
        ok.then_some(Self { limit, window_ms, align_ms })
    }

    /// Cost that one window takes.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The window in milliseconds.
    #[must_use]
    pub const fn window_ms(&self) -> u64 {
        self.window_ms
    }

    /// The offset in milliseconds of an aligned rule.
    #[must_use]
    pub const fn align_ms(&self) -> Option<i64> {
        self.align_ms
    }

    fn window_us(&self) -> i64 {
        i64::try_from(self.window_ms).unwrap_or(i64::MAX).saturating_mul(1_000)
    }

    /// Start of the window that holds a count begun at `begin`.
    pub(super) fn start(&self, begin: Micros) -> Micros {
        match self.align_ms {
            None => begin,
            Some(offset_ms) => {
                let offset = start_of_ms(offset_ms);
                let local = begin.saturating_add(offset);
                let into = local.checked_rem_euclid(self.window_us()).unwrap_or(0);
                begin.saturating_sub(into)
            }
        }
    }

    /// The first microsecond after the window that holds a count begun at `begin`.
    pub(super) fn end(&self, begin: Micros) -> Micros {
        self.start(begin).saturating_add(self.window_us())
    }

    /// Brings `kept` to `now`; `None` if its window is over. The flag tells that its beginning
    /// lay in the future (the clock stepped back): it is set to `now`, the count stays.
    pub(super) fn settle(&self, kept: Count, now: Micros) -> (Option<Count>, bool) {
        if kept.count == 0 {
            return (None, false);
        }
        if kept.begin > now {
            return (Some(Count { begin: now, ..kept }), true);
        }
        ((now < self.end(kept.begin)).then_some(kept), false)
    }

    /// Carries a settled count over to `new` settings: it stays while `now` is within the new
    /// window of its beginning. Under ALIGN it counts in the aligned window of `now`.
    pub(super) fn carry(new: &Self, kept: Count, now: Micros) -> Option<Count> {
        if now >= kept.begin.saturating_add(new.window_us()) {
            return None;
        }
        let begin = match new.align_ms {
            Some(_) => kept.begin.max(new.start(now)),
            None => kept.begin,
        };
        Some(Count { begin, ..kept })
    }

    /// Milliseconds until `cost` fits (0: now); `None`: it never will.
    pub(super) fn wait_ms(&self, kept: Option<Count>, cost: u64, now: Micros) -> Option<u64> {
        if cost > self.limit {
            return None;
        }
        match kept {
            Some(c) if c.count.saturating_add(cost) > self.limit => {
                Some(ms_until(now, self.end(c.begin)))
            }
            _ => Some(0),
        }
    }

    /// The count with `cost` more in it.
    pub(super) fn charge(kept: Option<Count>, cost: u64, now: Micros) -> Count {
        let Count { begin, count } = kept.unwrap_or(Count { begin: now, count: 0 });
        Count { begin, count: count.saturating_add(cost).min(MAX_COUNT) }
    }

    /// The count with `cost` taken off, unless the charge at `moment` belongs to an earlier window.
    pub(super) fn refund(&self, kept: Count, cost: u64, moment: Option<Micros>) -> Option<Count> {
        if moment.is_some_and(|m| self.start(kept.begin) > m) {
            return Some(kept);
        }
        let count = kept.count.saturating_sub(cost);
        (count > 0).then_some(Count { count, ..kept })
    }

    /// Calls of cost 1 that would pass now.
    pub(super) fn remaining(&self, kept: Option<Count>) -> u64 {
        self.limit.saturating_sub(kept.map_or(0, |c| c.count))
    }

    /// Milliseconds, rounded up, until the window turns; 0 without one.
    pub(super) fn reset_ms(&self, kept: Option<Count>, now: Micros) -> u64 {
        kept.map_or(0, |c| ms_until(now, self.end(c.begin)))
    }
}
