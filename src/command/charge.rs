//! RL.TOKEN, RL.LEAKY, RL.SLIDE, RL.FIXED and RL.CHARGE.
//!
//! ```text
//!   RL.TOKEN key capacity rate [PER period] [FORCE] [COST n]
//!   RL.CHARGE key rule [rule ...] [FORCE] [COST n [n ...]]
//! ```

use super::args::{Grammar, Plain, Shape};
use super::asks::{position, Asks};
use super::effect;
use super::error::Error;
use super::reply;
use crate::limit::bytes::Bytes;
use crate::limit::few::{Few, ROOM};
use crate::limit::inspect;
use crate::limit::layers::Refusal;
use crate::limit::solo::{self, Solo};
use crate::limit::steady::Steady;
use crate::limit::{decide, Algorithm, Ask, Decision, Micros, Row, Rule, MAX_RULES};
use crate::server::{config, Call, Key, Opened};
use crate::{stats, top};
use std::ffi::CStr;

pub(super) const CHARGED: &CStr = c"rl.charge";
const DENIED: &CStr = c"rl.denied";

pub(crate) fn token(call: &Call) {
    plain(call, Algorithm::Token);
}

pub(crate) fn leaky(call: &Call) {
    plain(call, Algorithm::Leaky);
}

pub(crate) fn slide(call: &Call) {
    plain(call, Algorithm::Slide);
}

pub(crate) fn fixed(call: &Call) {
    plain(call, Algorithm::Fixed);
}

fn plain(call: &Call, algorithm: Algorithm) {
    match plain_rule(call, algorithm) {
        Ok((row, jitter)) => reply::six(call, &row, jitter),
        Err(error) => error.answer(call),
    }
}

/// The key is opened first, so that its memory arrives while the words are read.
fn plain_rule(call: &Call, algorithm: Algorithm) -> Result<(Row, u64), Error> {
    let key = call.open_write(1);
    let plain = Plain::read(call, algorithm, 2)?;
    key.fetch_apart();
    let ask = plain.ask(call, config::slide_max_log(), |rule| keeps(call, &key, 0, rule))?;
    one_rule(call, key, ask, plain.force())
}

/// A plain command: one rule, which fits only a key of one rule. `key` is open for writing.
pub(super) fn one_rule(
    call: &Call,
    key: Key<'_>,
    ask: Ask,
    force: bool,
) -> Result<(Row, u64), Error> {
    let key = match alone(call, key, &ask, force) {
        Ok(decided) => return Ok(decided),
        Err(key) => key,
    };
    let first = |rows: &[Row], jitter| rows.first().map(|row| (*row, jitter));
    listed(call, key, &Asks::one(ask, force), first)?.ok_or(Error::Bug)
}

/// Charges a key of one rule, or a missing one, by a way of its own; the key comes back if that
/// does not lead to a decision.
#[inline]
fn alone<'k>(call: &Call, key: Key<'k>, ask: &Ask, force: bool) -> Result<(Row, u64), Key<'k>> {
    let now = call.now();
    if key.opened() == Opened::Foreign {
        return Err(key);
    }
    match solo::decide(key.value(), ask, force, config::slide_max_log(), now) {
        Some(solo) => Ok(carry_out(call, key, ask, &solo, now)),
        None => Err(key),
    }
}

/// What a decision of one rule does.
fn carry_out(call: &Call, mut key: Key<'_>, ask: &Ask, solo: &Solo, now: Micros) -> (Row, u64) {
    let pass = !solo.row.denies();
    if let Some(write) = &solo.write {
        let blob = effect::store_solo(&mut key, write, now);
        drop(key);
        effect::publish(call, 1, &blob, write.charged.then_some(CHARGED));
    } else {
        drop(key);
    }
    stats::decided(pass);
    stats::rule(ask.rule.algorithm(), pass);
    if !pass {
        denied(call, 1);
    }
    (solo.row, jitter(pass))
}

pub(crate) fn charge(call: &Call) {
    if let Err(error) = charge_list(call) {
        error.answer(call);
    }
}

fn charge_list(call: &Call) -> Result<(), Error> {
    let key = call.open_write(1);
    let shape = Shape::list(call, 2, Grammar::CHARGE)?;
    key.fetch_apart();
    let mut asks = Asks::empty(shape.force());
    asks.read(call, &shape, |i, rule| keeps(call, &key, position(call, &shape, i), rule))?;
    let answer = |rows: &[Row], jitter| reply::layers(call, rows, jitter);
    let Some(ask) = asks.single() else {
        return listed(call, key, &asks, answer);
    };
    match alone(call, key, ask, asks.force()) {
        Ok((row, jitter)) => answer(&[row], jitter),
        Err(key) => listed(call, key, &asks, answer)?,
    }
    Ok(())
}

/// Whether an open key keeps exactly this rule at this position.
pub(super) fn keeps(call: &Call, key: &Key<'_>, position: usize, rule: &Rule) -> bool {
    let kept = key.value().map(|limiter| inspect::keeps(limiter, position, rule, call.now()));
    matches!(kept, Some(Ok(true)))
}

/// Decides on an open key.
#[inline]
pub(super) fn decide_on<'k, 'a>(
    key: &'k Key<'_>,
    asks: &'a Asks,
    now: i64,
) -> Result<Decision<'k, 'a>, Error> {
    if key.opened() == Opened::Foreign {
        return Err(Error::WrongType);
    }
    decide(key.value(), asks.request(), now).map_err(|refusal| match refusal {
        Refusal::Misfit(misfit) => Error::Misfit(misfit),
        Refusal::Damaged => Error::Bug,
    })
}

/// Charges one key by way of a list of rules; `answer` gets the rows and the jitter of the wait.
fn listed<T>(
    call: &Call,
    mut key: Key<'_>,
    asks: &Asks,
    answer: impl FnOnce(&[Row], u64) -> T,
) -> Result<T, Error> {
    let now = call.now();
    let (mut rows, mut blob) = (Few::none(), None);
    let in_place = match asks.request().asks.len() {
        0..=ROOM => in_place::<ROOM>(&mut key, asks, now, &mut rows, &mut blob),
        _ => in_place::<MAX_RULES>(&mut key, asks, now, &mut rows, &mut blob),
    };
    if let Some(pass) = in_place {
        drop(key);
        if let Some(blob) = blob {
            effect::publish(call, 1, &blob, Some(CHARGED));
        }
        return Ok(answer(rows.all(), decided(call, asks, rows.all(), pass)));
    }
    let decision = decide_on(&key, asks, now)?;
    let pass = decision.passes();
    let rows = reply::collect(decision.rows(pass, true));
    let write = decision.write(pass);
    if let Some(write) = &write {
        let blob = effect::store(&mut key, write, now);
        drop(key);
        effect::publish(call, 1, &blob, write.charged.then_some(CHARGED));
    } else {
        drop(key);
    }
    Ok(answer(rows.all(), decided(call, asks, rows.all(), pass)))
}

/// Charges a key that keeps its rules exactly as asked for: whether the call passes, with what the
/// reply shows and what has to be told to replicas. `None`, and nothing is done, if that is not so.
#[inline]
fn in_place<const N: usize>(
    key: &mut Key<'_>,
    asks: &Asks,
    now: Micros,
    rows: &mut Few<Row>,
    blob: &mut Option<Bytes>,
) -> Option<bool> {
    let mut steady = Steady::<N>::new(asks.request(), now);
    let pass = steady.look(key.value())?;
    steady.conclude(key.value(), pass, rows);
    if steady.charges() {
        *blob = Some(effect::store_steady(key, &steady, now));
    }
    Some(pass)
}

/// Counts a decided call on one key; answers the jitter of its wait.
fn decided(call: &Call, asks: &Asks, rows: &[Row], pass: bool) -> u64 {
    asks.count(rows, pass);
    if !pass {
        denied(call, 1);
    }
    jitter(pass)
}

/// Notes a key whose own live rule denied.
pub(super) fn denied(call: &Call, at: usize) {
    top::denied(call.db(), call.arg(at));
    if config::notify_denied() {
        call.notify(DENIED, at);
    }
}

/// What is added to the first wait of a denied call, to spread a crowd.
pub(super) fn jitter(pass: bool) -> u64 {
    match config::retry_jitter_ms() {
        most if most > 0 && !pass => rand::random_range(0..=most),
        _ => 0,
    }
}
