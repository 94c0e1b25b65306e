//! LEAKY: an empty bucket that drains continuously.
//!
//! ```text
//!  level
//!  capacity ─ ─ ─ ─ ─ ─    above this a charge is denied
//!        ┌╲    ┌╲
//!      ┌─┘ ╲ ┌─┘ ╲         each charge pours n in, the level drains by rate per period
//!  0 ──┘    ╲┘    ╲──▶ t
//!      delay = time to drain what was found: callers that wait it leave at exactly `rate`
//! ```
//!
//! The retry time is exact for the reason given at TOKEN: both share one exact level. What LEAKY
//! adds is the delay, the drain time of the level *found*: the k-th caller of a burst is told
//! (k-1) intervals, so that callers who wait form an even queue and the server never blocks.
//! Callers that ignore the delay get the bucket as a meter (ITU-T I.371, Annex A).

use super::level::{Bucket, Level};

/// Milliseconds, rounded up, that a passing caller waits before it goes ahead.
pub(super) fn delay_ms(bucket: &Bucket, found: Option<Level>) -> u64 {
    bucket.reset_ms(found)
}
