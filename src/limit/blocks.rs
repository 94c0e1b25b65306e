//! BLOCKS: the sliding log in bounded memory, never looser, at most one block stricter.
//!
//! ```text
//!   |<- width ->|
//!   ├──── a ────┼──── b ────┼──── c ────┼─ ─ now
//!               ^ a's cost is stamped with the end of a and counts while now < end + window
//! ```
//!
//! Time is cut into blocks of `width = ceil(window / n)` milliseconds that start at multiples of
//! the width since the epoch. A block is one entry of the log, stamped with the first millisecond
//! after it. Every charge thus counts at least as long as in the exact log and at most one width
//! longer, and a log never holds more than n + 1 live entries.

use super::log::Log;
use super::time::{ceil_ms, floor_ms, Micros, Millis};

/// How a time becomes a stamp: the exact log (width 0) or blocks of a width in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    width: Millis,
}

impl Shape {
    /// The shape of a window cut into `blocks`, or of the exact log.
    pub(super) fn new(window_ms: u64, blocks: Option<u16>) -> Self {
        let width = blocks.map_or(0, |n| window_ms.div_ceil(u64::from(n.max(1))));
        Self { width: i64::try_from(width).unwrap_or(i64::MAX) }
    }

    /// The shape whose width is `width`, as [`Shape::width`] gave it.
    pub(super) fn of_width(width: u64) -> Option<Self> {
        let width = i64::try_from(width).ok()?;
        (width.unsigned_abs() <= super::MAX_DURATION_MS).then_some(Self { width })
    }

    /// Milliseconds of a block; 0 for the exact log.
    pub(super) const fn width(self) -> u64 {
        self.width.unsigned_abs()
    }

    /// The stamp of the entry that holds millisecond `at`.
    pub(super) const fn holding(self, at: Millis) -> Millis {
        match at.checked_rem_euclid(self.width) {
            Some(into) => at.saturating_sub(into).saturating_add(self.width),
            None => at,
        }
    }

    /// The stamp of a charge at `now`.
    pub(super) const fn stamp(self, now: Micros) -> Millis {
        self.holding(ceil_ms(now))
    }

    /// The largest stamp that does not lie in the future at `now`: the entry, or the first
    /// millisecond of the block, is at most 1 ms after it.
    pub(super) const fn latest(self, now: Micros) -> Millis {
        floor_ms(now).saturating_add(1).saturating_add(self.width)
    }

    /// The millisecond as of which an entry counts when it changes its shape.
    const fn moment(self, stamp: Millis, now: Millis) -> Millis {
        if self.width == 0 {
            return stamp;
        }
        let last = stamp.saturating_sub(1);
        if last < now {
            last
        } else {
            now
        }
    }
}

/// The stamp in shape `to` of an entry stamped in shape `from`.
pub(super) const fn restamp(stamp: Millis, from: Shape, to: Shape, now: Millis) -> Millis {
    to.holding(from.moment(stamp, now))
}

/// The entries `first..last` of `log` in another shape. `now` is rounded up. Work grows with the
/// number of entries that come out, not with those that go in.
pub(super) fn reshape(
    log: &Log,
    first: usize,
    last: usize,
    from: Shape,
    to: Shape,
    now: Millis,
) -> Log {
    let mut out = Log::new();
    let mut i = first;
    while i < last {
        let stamp = restamp(log.stamp(i), from, to, now);
        let next = if to.width > 0 && from.width == 0 {
            // All entries before the end of this block.
            log.count_through(stamp.saturating_sub(1)).clamp(i.saturating_add(1), last)
        } else {
            i.saturating_add(1)
        };
        out.add(stamp, log.sum(i, next));
        i = next;
    }
    out
}
