//! The exact level that TOKEN and LEAKY share: how much of a bucket is used.
//!
//! A bucket of `capacity` units gives back `rate` units per `period`. Counted in units of
//! 1/period (the period in microseconds), one microsecond gives back exactly `rate`, so every
//! level at every microsecond is a whole number: nothing is rounded, nothing drifts.
//!
//! ```text
//!   used:  0 ........................ capacity ........................ 2 x capacity
//!          as good as new             nothing left                      the deepest debt
//! ```
//!
//! TOKEN shows `capacity - used` (negative in debt), LEAKY shows `used`; the arithmetic is the same.
//! The largest level, 2 x 10^12 units at a period of 3650 days, is below 2^90.

use super::time::Micros;
use super::{in_range, MAX_AMOUNT, MAX_DURATION_MS, MAX_RESET_MS};

/// The settings of a TOKEN or LEAKY rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    capacity: u64,
    rate: u64,
    period_ms: u64,
}

/// What a bucket holds: units used, in 1/period of a unit, as of `mark`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Used at `mark`; above the capacity while there is a debt made by FORCE.
    pub used: u128,
    /// What a lowered capacity cut off; a later raise gives it back to `used`.
    pub cut: u128,
    /// When `used` was exact.
    pub mark: Micros,
}

/// Cut-off parts are kept up to this bound, far above what any sequence of settings reaches.
pub(super) const MAX_LEVEL: u128 = 1 << 120;

impl Bucket {
    /// `capacity` and `rate` 1 to 10^12, `period_ms` 1 to 3650 days, and an empty bucket must be
    /// full again within 36500 days; else `None`.
    #[must_use]
    pub fn new(capacity: u64, rate: u64, period_ms: u64) -> Option<Self> {
        let ok = in_range(capacity, MAX_AMOUNT)
            && in_range(rate, MAX_AMOUNT)
            && in_range(period_ms, MAX_DURATION_MS)
            && Self::resets_in_time(capacity, rate, period_ms);
        ok.then_some(Self { capacity, rate, period_ms })
    }

    /// Whether `capacity` units come back within 36500 days.
    #[must_use]
    pub fn resets_in_time(capacity: u64, rate: u64, period_ms: u64) -> bool {
        let need = u128::from(capacity).saturating_mul(u128::from(period_ms));
        need <= u128::from(rate).saturating_mul(u128::from(MAX_RESET_MS))
    }

    /// Units that fit.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Units given back per period.
    #[must_use]
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// The period in milliseconds.
    #[must_use]
    pub const fn period_ms(&self) -> u64 {
        self.period_ms
    }

    /// The period in microseconds, the denominator of a level.
    pub(super) fn period_us(&self) -> u128 {
        u128::from(self.period_ms.saturating_mul(1_000))
    }

    /// `units` as a level.
    fn scaled(&self, units: u64) -> u128 {
        u128::from(units).saturating_mul(self.period_us())
    }

    /// The level of a bucket of which everything is used.
    fn full(&self) -> u128 {
        self.scaled(self.capacity)
    }

    /// The deepest level, a debt of one capacity.
    pub(super) fn deepest(&self) -> u128 {
        self.full().saturating_mul(2)
    }

    /// Milliseconds, rounded up, in which `level` is given back.
    fn ms_for(&self, level: u128) -> u64 {
        let per_ms = u128::from(self.rate).saturating_mul(1_000);
        u64::try_from(level.div_ceil(per_ms)).unwrap_or(u64::MAX)
    }

    /// Milliseconds in which a full bucket is as good as new.
    pub(super) fn full_reset_ms(&self) -> u64 {
        self.ms_for(self.full())
    }

    /// Brings `level` to `now`; `None` if it is then as good as new. The flag tells that the mark
    /// lay in the future (the clock stepped back): it is set to `now` and nothing is given back.
    pub(super) fn settle(&self, level: Level, now: Micros) -> (Option<Level>, bool) {
        if level.mark > now {
            let alive = level.used > 0;
            return (alive.then_some(Level { mark: now, ..level }), alive);
        }
        let elapsed = u128::from(now.abs_diff(level.mark));
        let back = elapsed.saturating_mul(u128::from(self.rate));
        let used = level.used.saturating_sub(back);
        ((used > 0).then_some(Level { used, cut: level.cut, mark: now }), false)
    }

    /// Carries what is used over to `new` settings. What does not fit the new capacity is cut off
    /// and kept beside the level, and a raised capacity gives it back to `used` first. `level`
    /// must be settled.
    pub(super) fn carry(&self, new: &Self, level: Level) -> Level {
        let (used, cut) = (self.rescale(level.used, new), self.rescale(level.cut, new));
        let raised = new.capacity > self.capacity;
        let wanted = if raised { used.saturating_add(cut) } else { used };
        let kept = wanted.min(new.full());
        let beside = if raised { 0 } else { cut };
        let cut = wanted.saturating_sub(kept).saturating_add(beside).min(MAX_LEVEL);
        Level { used: kept, cut, mark: level.mark }
    }

    /// `level` in parts of the new period, rounded up. Whole units first: used x period would
    /// need 138 bits.
    fn rescale(&self, level: u128, new: &Self) -> u128 {
        let (old, new) = (self.period_us(), new.period_us());
        let units = level.checked_div(old).unwrap_or(0);
        let part = level.checked_rem(old).unwrap_or(0);
        units.saturating_mul(new).saturating_add(part.saturating_mul(new).div_ceil(old.max(1)))
    }

    /// Milliseconds until `cost` fits beside `level` (0: it fits now); `None`: it never will.
    pub(super) fn wait_ms(&self, level: Option<Level>, cost: u64) -> Option<u64> {
        if cost > self.capacity {
            return None;
        }
        let wanted = used(level).saturating_add(self.scaled(cost));
        Some(self.ms_for(wanted.saturating_sub(self.full())))
    }

    /// `level` with `cost` more used. A forced cost may dig a debt of one capacity, no deeper.
    pub(super) fn charge(&self, level: Option<Level>, cost: u64, now: Micros) -> Level {
        let cut = level.map_or(0, |l| l.cut);
        let sum = used(level).saturating_add(self.scaled(cost));
        Level { used: sum.min(self.deepest()), cut, mark: now }
    }

    /// `level` with `cost` given back, down to as good as new (`None`).
    pub(super) fn refund(&self, level: Level, cost: u64) -> Option<Level> {
        let used = level.used.saturating_sub(self.scaled(cost));
        (used > 0).then_some(Level { used, ..level })
    }

    /// Whole units that would pass now.
    pub(super) fn remaining(&self, level: Option<Level>) -> u64 {
        let room = self.full().saturating_sub(used(level));
        u64::try_from(room.checked_div(self.period_us()).unwrap_or(0)).unwrap_or(u64::MAX)
    }

    /// Milliseconds, rounded up, until everything used has come back.
    pub(super) fn reset_ms(&self, level: Option<Level>) -> u64 {
        self.ms_for(used(level))
    }

    /// Units used, rounded up.
    pub(super) fn used_units(&self, level: Option<Level>) -> u64 {
        self.units(used(level))
    }

    /// Units cut off by a lowered capacity, rounded up.
    pub(super) fn cut_units(&self, level: Option<Level>) -> u64 {
        self.units(level.map_or(0, |l| l.cut))
    }

    fn units(&self, level: u128) -> u64 {
        u64::try_from(level.div_ceil(self.period_us().max(1))).unwrap_or(u64::MAX)
    }
}

fn used(level: Option<Level>) -> u128 {
    level.map_or(0, |l| l.used)
}
