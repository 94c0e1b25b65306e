//! TOKEN: a full bucket that refills continuously.
//!
//! ```text
//!  level
//!  capacity ┐     ┌──────   full: refilling stops
//!           └┐  ／            each charge takes n at once
//!            └┐／             in between the level rises by rate per period
//!  0 ─────────┴────────▶ t
//! ```
//!
//! In any span `t` at most `capacity + rate x t / period` is allowed: what is there at the start
//! and what comes back meanwhile. The retry time is exact because the level is: the shortfall, in
//! 1/period of a unit, shrinks by exactly `rate` each microsecond, so the first millisecond at
//! which it is gone is a division rounded up. It is the generic cell rate algorithm (ITU-T I.371)
//! kept as a level instead of a theoretical arrival time, so that a change of rate keeps what has
//! been used instead of a time debt read with a new interval.

use super::level::{Bucket, Level};

/// A charge that passes leaves at once: a token bucket never asks for a delay.
pub(super) const fn delay_ms(_: &Bucket, _: Option<Level>) -> u64 {
    0
}
