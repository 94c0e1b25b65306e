//! RL.PEEK: whether a charge would pass now, without making it.
//!
//! ```text
//!   RL.PEEK key [rule ...] [COST n [n ...]]
//! ```

use super::args::{Grammar, Shape};
use super::asks::{position, Asks};
use super::charge::{decide_on, keeps};
use super::error::{Argument, Error};
use super::reply;
use crate::limit::inspect::kept_rules;
use crate::limit::Rule;
use crate::server::{Call, Key, Opened};

pub(crate) fn peek(call: &Call) {
    if let Err(error) = look(call) {
        error.answer(call);
    }
}

fn look(call: &Call) -> Result<(), Error> {
    let shape = Shape::list(call, 2, Grammar::PEEK)?;
    if shape.rule_count() > 0 {
        let kept = |i: usize, rule: &Rule| {
            keeps(call, &call.open_read(1), position(call, &shape, i), rule)
        };
        let mut asks = Asks::empty(false);
        asks.read(call, &shape, kept)?;
        return show(call, &call.open_read(1), &asks);
    }
    let costs = shape.costs(call, Argument::NoCost)?;
    let key = call.open_read(1);
    if key.opened() == Opened::Foreign {
        return Err(Error::WrongType);
    }
    let rules = match key.value() {
        Some(limiter) => kept_rules(limiter, call.now()).map_err(|_| Error::Bug)?,
        None => Vec::new(),
    };
    if rules.is_empty() {
        call.null_array();
        return Ok(());
    }
    show(call, &key, &Asks::kept(&rules, costs.all())?)
}

fn show(call: &Call, key: &Key<'_>, asks: &Asks) -> Result<(), Error> {
    let decision = decide_on(key, asks, call.now())?;
    let rows = reply::collect(decision.rows(decision.passes(), false));
    reply::layers(call, rows.all(), 0);
    Ok(())
}
