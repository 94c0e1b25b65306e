//! Giving cost back, under the settings that the key holds.

use super::algorithm::{Base, Charge};
use super::codec::State;
use super::few::Few;
use super::layers::{self, Refusal};
use super::limiter::Limiter;
use super::log::Log;
use super::position::{NextSlot, NextState, Position};
use super::slide;
use super::time::{start_of_ms, Micros, Millis};
use super::write::Write;
use super::{Row, Rule, Wait};

/// What is given back: one cost at every position that the last charge asked for, or one each.
#[derive(Clone, Copy, Debug)]
pub struct Costs<'a>(pub &'a [u64]);

impl Costs<'_> {
    fn at(&self, position: usize, asked: usize) -> u64 {
        match self.0 {
            [one] if position < asked => *one,
            [_] => 0,
            list => list.get(position).copied().unwrap_or(0),
        }
    }
}

/// Why nothing was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// More costs than rules.
    CostCount,
    /// The stored bytes are damaged.
    Damaged,
}

/// A refund decided, not yet written.
#[derive(Clone, Debug)]
pub struct Refund {
    /// The rules that the reply shows.
    pub rules: Few<Rule>,
    /// `None` if nothing is given back.
    pub write: Option<Write<'static>>,
}

/// Decides a refund of a charge made at `moment` (`None`: whenever); `None` if the key holds
/// nothing that counts.
///
/// # Errors
/// See [`Error`].
pub fn refund(
    limiter: &Limiter,
    costs: Costs<'_>,
    moment: Option<Millis>,
    now: Micros,
) -> Result<Option<Refund>, Error> {
    let mut kept = Few::none();
    let stored = layers::read(Some(limiter), now, &mut kept);
    let Some(stored) = stored.map_err(|_: Refusal| Error::Damaged)? else { return Ok(None) };
    let length = kept.len();
    if costs.0.len() > length.max(1) {
        return Err(Error::CostCount);
    }
    let (mut given, mut repaired) = (false, false);
    // Positions that the last charge did not ask for go as soon as they are as good as new.
    let mut live = stored.asked;
    let slots = Few::make(length, |i| {
        let position = kept.get(i)?;
        let cost = costs.at(i, stored.asked);
        repaired |= position.repaired;
        let next = match give_back(position, limiter.logs(), cost, moment) {
            Some(state) => {
                given = true;
                NextSlot { rule: position.rule, state }
            }
            None => position.next(limiter.logs(), Charge { cost: 0, max_log: 0 }, now),
        };
        if !next.is_fresh(position.log(limiter.logs())) {
            live = live.max(i.saturating_add(1));
        }
        Some(next)
    });
    let mut slots = slots.ok_or(Error::Damaged)?;
    slots.truncate(live);
    let rules = Few::make(length, |i| kept.get(i).map(|position| position.rule));
    let rules = rules.ok_or(Error::Damaged)?;
    let write = (given || repaired).then_some(Write {
        slots,
        asked: stored.asked,
        trail: None,
        afresh: false,
        changed: false,
        repaired,
        charged: given,
        now,
    });
    Ok(Some(Refund { rules, write }))
}

/// What the position holds after `cost` was given back; `None` if that changes nothing.
fn give_back(
    position: &Position,
    logs: &[Log],
    cost: u64,
    moment: Option<Millis>,
) -> Option<NextState> {
    if cost == 0 {
        return None;
    }
    match (&position.rule, &position.base) {
        (Rule::Token(b) | Rule::Leaky(b), Base::Level(level)) => {
            let state = b.refund(*level, cost).map_or(State::Fresh, State::Level);
            Some(NextState::Small(state))
        }
        (Rule::Fixed(f), Base::Count(count)) => {
            let left = f.refund(*count, cost, moment.map(start_of_ms));
            let state = left.map_or(State::Fresh, State::Count);
            (left != Some(*count)).then_some(NextState::Small(state))
        }
        (Rule::Slide(s), Base::Log(seen)) => {
            let edit = slide::refund(s, seen, position.log(logs), cost, moment)?;
            Some(NextState::Log(position.log_index(), edit))
        }
        _ => None,
    }
}

/// How `rules` stand on a key that holds them, or the first of them: the others are as good as new.
///
/// # Errors
/// The stored bytes are damaged.
pub fn standing(limiter: &Limiter, rules: &[Rule], now: Micros) -> Result<Vec<Row>, Refusal> {
    let list = limiter.list().ok_or(Refusal::Damaged)?;
    let rows = rules.iter().enumerate().map(|(i, rule)| {
        let position = match list.slots.get(i) {
            Some(slot) => Position::stored(*slot, limiter.logs(), now)?,
            None => Position::new(*rule),
        };
        let (remaining, reset_ms) = position.standing(limiter.logs(), now);
        let limit = rule.limit();
        Some(Row { wait: Wait::Now, remaining, reset_ms, limit, delay_ms: 0, shadow: false })
    });
    rows.collect::<Option<Vec<_>>>().ok_or(Refusal::Damaged)
}
