//! RL.REFUND: gives cost back.
//!
//! ```text
//!   RL.REFUND key [AGE age] [COST n [n ...]]
//! ```

use super::args::{Grammar, Shape};
use super::effect;
use super::error::{Argument, Error};
use super::reply;
use crate::limit::refund::{self, Costs};
use crate::limit::time::ceil_ms;
use crate::server::{Call, Opened};

pub(crate) fn refund(call: &Call) {
    if let Err(error) = give_back(call) {
        error.answer(call);
    }
}

fn give_back(call: &Call) -> Result<(), Error> {
    let shape = Shape::list(call, 2, Grammar::REFUND)?;
    let (age_ms, costs) = shape.age_and_costs(call, Argument::NoRefund)?;
    let now = call.now();
    // The charge was stamped with its time rounded up.
    let moment = age_ms.map(|ms| ceil_ms(now).saturating_sub_unsigned(ms));
    let mut key = call.open_write(1);
    if key.opened() == Opened::Foreign {
        return Err(Error::WrongType);
    }
    let Some(limiter) = key.value() else {
        call.null_array();
        return Ok(());
    };
    let decided = refund::refund(limiter, Costs(costs.all()), moment, now);
    let decided = decided.map_err(|error| match error {
        refund::Error::CostCount => Error::of(Argument::CostCount),
        refund::Error::Damaged => Error::Bug,
    })?;
    let Some(decided) = decided else {
        call.null_array();
        return Ok(());
    };
    let blob = decided.write.as_ref().map(|write| effect::store(&mut key, write, now));
    let rows = match key.value() {
        Some(limiter) => {
            refund::standing(limiter, decided.rules.all(), now).map_err(|_| Error::Bug)?
        }
        None => Vec::new(),
    };
    drop(key);
    if let (Some(blob), Some(write)) = (blob, decided.write) {
        effect::publish(call, 1, &blob, write.charged.then_some(c"rl.refund"));
    }
    reply::layers(call, &rows, 0);
    Ok(())
}
