//! CL.THROTTLE: redis-cell's command, for its users and its client libraries.
//!
//! ```text
//!   CL.THROTTLE key max_burst count period [quantity]
//! ```
//!
//! Seconds, and a first integer that means the opposite of ours. The state is a TOKEN of capacity
//! max_burst + 1, the same limiter as RL.TOKEN with these settings.

use super::args::integer;
use super::asks::Asks;
use super::charge::{decide_on, one_rule};
use super::error::{Argument, Error};
use crate::limit::{Ask, Bucket, Row, Rule, Wait, MAX_AMOUNT, MAX_DURATION_MS};
use crate::server::Call;

/// The longest period in seconds.
const MAX_PERIOD_S: u64 = MAX_DURATION_MS / 1_000;

pub(crate) fn throttle(call: &Call) {
    match decide(call) {
        Ok((row, jitter)) => reply(call, &row, jitter),
        Err(error) => error.answer(call),
    }
}

fn decide(call: &Call) -> Result<(Row, u64), Error> {
    if call.argc() > 6 {
        return Err(Error::Syntax);
    }
    let key = call.open_write(1);
    let argument = |i: usize, name, min, max| {
        integer(call.arg(i), min, max).ok_or(Error::of(Argument::Integer(name, min, max)))
    };
    let max_burst = argument(2, "max_burst", 0, MAX_AMOUNT.saturating_sub(1))?;
    let count = argument(3, "count", 1, MAX_AMOUNT)?;
    let period = argument(4, "period", 1, MAX_PERIOD_S)?;
    let bucket = Bucket::new(max_burst.saturating_add(1), count, period.saturating_mul(1_000));
    let rule = Rule::Token(bucket.ok_or(Error::of(Argument::Refill))?);
    let quantity = if call.argc() > 5 { argument(5, "quantity", 0, MAX_AMOUNT)? } else { 1 };
    let ask = Ask { rule, cost: quantity, shadow: false };
    if quantity > 0 {
        return one_rule(call, key, ask, false);
    }
    let asks = Asks::one(ask, false);
    let row = decide_on(&key, &asks, call.now())?.rows(true, false).next();
    row.map(|row| (row, 0)).ok_or(Error::Bug)
}

fn reply(call: &Call, row: &Row, jitter: u64) {
    let int = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let seconds = |ms: u64| int(ms.div_ceil(1_000));
    call.array(5);
    call.int(i64::from(row.denies()));
    call.int(int(row.limit));
    call.int(int(row.remaining));
    call.int(match row.wait {
        Wait::After(ms) => seconds(ms.saturating_add(jitter)),
        Wait::Now | Wait::Never => -1,
    });
    call.int(seconds(row.reset_ms));
}
