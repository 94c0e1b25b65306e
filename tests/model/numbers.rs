//! Exact numbers: rationals for bucket levels, and rounding of times.
//!
//! Times are microseconds since the epoch in an `i64`; SLIDE stamps are whole
//! milliseconds. The largest time that can occur (some 10^16 us) leaves ample room.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};

/// An exact rational number.
pub type Rat = BigRational;

/// Milliseconds of one day.
pub const DAY_MS: i64 = 86_400_000;
/// The largest capacity, limit, rate and cost.
pub const MAX_NUMBER: i64 = 1_000_000_000_000;
/// The longest duration: 3650 days.
pub const MAX_DURATION_MS: i64 = 3650 * DAY_MS;
/// The longest time a bucket may need from empty to full: 36500 days.
pub const MAX_REFILL_MS: i64 = 36_500 * DAY_MS;
/// Where counts stop.
pub const MAX_COUNT: i64 = 1 << 62;

/// A whole number as a rational.
pub fn rat(n: i64) -> Rat {
    Rat::from_integer(BigInt::from(n))
}

/// The fraction `num / den`.
pub fn frac(num: i64, den: i64) -> Rat {
    Rat::new(BigInt::from(num), BigInt::from(den))
}

/// Zero.
pub fn zero() -> Rat {
    Rat::zero()
}

/// The largest whole number not above `r`.
pub fn floor(r: &Rat) -> i64 {
    r.floor().to_integer().to_i64().expect("fits i64")
}

/// The smallest whole number not below `r`.
pub fn ceil(r: &Rat) -> i64 {
    r.ceil().to_integer().to_i64().expect("fits i64")
}

/// `r` rounded up to a multiple of `1 / den`.
pub fn ceil_to_multiple(r: &Rat, den: i64) -> Rat {
    (r * rat(den)).ceil() / rat(den)
}

/// `a / b` rounded up, for any sign of `a` and a positive `b`.
pub fn div_up(a: i64, b: i64) -> i64 {
    -(-a).div_euclid(b)
}

/// A time or a span in microseconds as whole milliseconds, rounded up.
pub fn ms_up(us: i64) -> i64 {
    div_up(us, 1000)
}

/// The start of the piece of `width` that holds `t`, where pieces start at
/// multiples of `width` on a clock that runs `offset` ahead (all in one unit).
pub fn aligned_start(t: i64, width: i64, offset: i64) -> i64 {
    (t + offset).div_euclid(width) * width - offset
}
