//! Time as the core sees it: whole microseconds since the Unix epoch, handed in by the caller.
//!
//! Decisions are made in microseconds; what a caller is told, and the stamps of a sliding log, are
//! whole milliseconds, always rounded *up*: a wait that is announced is never too short.

/// Microseconds since the Unix epoch. Negative only before 1970.
pub type Micros = i64;

/// Milliseconds since the Unix epoch.
pub type Millis = i64;

/// Microseconds in a millisecond.
const US: i64 = 1_000;

/// `us` rounded up to a whole millisecond.
#[must_use]
pub const fn ceil_ms(us: Micros) -> Millis {
    let floor = us.div_euclid(US);
    if us.rem_euclid(US) == 0 {
        floor
    } else {
        floor.saturating_add(1)
    }
}

/// `us` rounded down to a whole millisecond.
#[must_use]
pub const fn floor_ms(us: Micros) -> Millis {
    us.div_euclid(US)
}

/// The microsecond at which millisecond `ms` begins.
#[must_use]
pub const fn start_of_ms(ms: Millis) -> Micros {
    ms.saturating_mul(US)
}

/// Milliseconds from `now` until `then`, rounded up; 0 if `then` is not after `now`.
#[must_use]
pub const fn ms_until(now: Micros, then: Micros) -> u64 {
    let wait = ceil_ms(then.saturating_sub(now));
    if wait > 0 {
        wait.unsigned_abs()
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_up_for_waits_and_down_for_marks() {
        assert_eq!([ceil_ms(0), ceil_ms(1), ceil_ms(1000), ceil_ms(1001)], [0, 1, 1, 2]);
        assert_eq!([ceil_ms(-1), ceil_ms(-1000), floor_ms(-1)], [0, -1, -1]);
        assert_eq!([ms_until(300, 1_001_000), ms_until(5, 5), ms_until(9, 5)], [1001, 0, 0]);
        assert_eq!(ms_until(i64::MIN, i64::MAX), i64::MAX.unsigned_abs() / 1000 + 1);
    }
}
