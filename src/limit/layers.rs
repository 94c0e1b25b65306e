//! Lists of rules on one key, decided all or nothing.
//!
//! ```text
//!   kept   [ TOKEN ][ FIXED ][ SLIDE ]      asked for [ TOKEN ][ FIXED ]
//!             │        │        └ stays, undecided, until it is as good as new
//!             └────────┴ common positions carry on; the algorithms must agree
//! ```
//!
//! `decide` reads: it brings every position to `now`, reads changed settings in, and asks each
//! rule how long the call would have to wait. `Decision::rows` tells what the reply shows;
//! `Decision::write` prepares what is stored, and only what changed: the states that the reply
//! shows are the states that are stored.

use super::algorithm::Charge;
use super::codec::{List, Slot, Trail};
use super::few::Few;
use super::limiter::Limiter;
use super::log::Log;
use super::position::{Asked, NextSlot, Position, Settled};
use super::time::Micros;
use super::write::Write;
use super::{Algorithm, Ask, Row, Wait};

/// A call on one key.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The rules in order, 1 to 16.
    pub asks: &'a [Ask],
    /// The policies that they came from.
    pub trail: Trail<'a>,
    /// A plain command, which fits only a key of one rule.
    pub plain: bool,
    /// The cost has already happened.
    pub force: bool,
    /// `rl.slide-max-log`: a log keeps at most this many entries, or its limit if that is more.
    pub max_log: u64,
}

/// The key holds other algorithms than those asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The algorithms that the key holds.
    pub holds: Vec<Algorithm>,
    /// The algorithms asked for.
    pub asked: Vec<Algorithm>,
}

/// A stored list that cannot be read back, or that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// See [`Misfit`].
    Misfit(Misfit),
    /// The stored bytes are damaged.
    Damaged,
}

/// A call decided, not yet written.
#[derive(Clone, Debug)]
pub struct Decision<'l, 'r> {
    /// The positions asked for, then those only kept.
    positions: Few<Position>,
    request: Request<'r>,
    logs: &'l [Log],
    now: Micros,
    /// The stored slots; none if the key holds nothing that counts.
    kept: Few<Slot>,
    /// How many positions the last stored charge asked for.
    asked: usize,
}

/// Decides `request` on what the key holds.
///
/// # Errors
/// The list asked for does not fit the kept one, or the stored bytes are damaged.
pub fn decide<'l, 'r>(
    limiter: Option<&'l Limiter>,
    request: Request<'r>,
    now: Micros,
) -> Result<Decision<'l, 'r>, Refusal> {
    let logs = limiter.map_or(&[] as &[Log], Limiter::logs);
    let stored = Stored::read(limiter, now)?;
    let asks = request.asks;
    let mut length = asks.len();
    if let Some(stored) = &stored {
        if !stored.edited_since(&request.trail) {
            stored.fits(&request).map_err(Refusal::Misfit)?;
            length = length.max(stored.list.slots.len());
        }
    }
    let positions = Few::make(length, |i| {
        let stored = stored.as_ref().and_then(|s| s.at(i));
        match asks.get(i) {
            Some(ask) => {
                let common = stored.filter(|(slot, _, binds)| {
                    *binds && slot.rule.algorithm() == ask.rule.algorithm()
                });
                let carried = common.map(|(slot, settled, _)| (slot, settled));
                Some(Position::asked(ask, carried, logs, now, request.force))
            }
            None => stored.map(|(slot, settled, _)| Position::only_kept(slot, settled)),
        }
    });
    let positions = positions.ok_or(Refusal::Damaged)?;
    let (kept, asked) = match stored {
        Some(stored) => (stored.list.slots, stored.list.asked),
        None => (Few::none(), 0),
    };
    Ok(Decision { positions, request, logs, now, kept, asked })
}

/// A stored list and its states at `now`; never one of which nothing counts.
pub(super) struct Stored<'a> {
    pub list: List<'a>,
    pub states: Few<Settled>,
}

impl<'a> Stored<'a> {
    /// `None` if the key is missing or as good as new, which is the same to every command.
    pub fn read(limiter: Option<&'a Limiter>, now: Micros) -> Result<Option<Self>, Refusal> {
        let Some(limiter) = limiter else { return Ok(None) };
        let mut list = limiter.list().ok_or(Refusal::Damaged)?;
        let logs = limiter.logs();
        let slots = &list.slots;
        let states = Few::make(slots.len(), |i| Settled::of(slots.get(i)?, logs, now));
        let mut states = states.ok_or(Refusal::Damaged)?;
        if states.all().iter().all(|s| s.base.is_fresh()) {
            return Ok(None);
        }
        // Fresh rules at the end, beyond those that the last charge asked for, are gone.
        if let (Few::Many(slots), Few::Many(states)) = (&mut list.slots, &mut states) {
            while slots.len() > list.asked && states.last().is_some_and(|s| s.base.is_fresh()) {
                slots.pop();
                states.pop();
            }
        }
        Ok(Some(Self { list, states }))
    }

    /// The slot at a position with its state, and whether its algorithm binds a call.
    fn at(&self, i: usize) -> Option<(Slot, &Settled, bool)> {
        Some((*self.list.slots.get(i)?, self.states.get(i)?, self.binds(i)))
    }

    /// Whether the algorithm kept at a position binds a call: not that of a fresh rule beyond
    /// those that the last charge asked for, even if a live one stands after it.
    fn binds(&self, i: usize) -> bool {
        i < self.list.asked || self.states.get(i).is_some_and(|s| !s.base.is_fresh())
    }

    /// Whether a call names exactly the policies of the last charge, edited since: then states
    /// carry over wherever the algorithm is the same.
    fn edited_since(&self, trail: &Trail<'_>) -> bool {
        let kept = &self.list.trail;
        !trail.names.is_empty() && trail.names == kept.names && trail.versions != kept.versions
    }

    fn fits(&self, request: &Request<'_>) -> Result<(), Misfit> {
        let slots = self.list.slots.all();
        let agree = slots.iter().zip(request.asks).enumerate().all(|(i, (slot, ask))| {
            slot.rule.algorithm() == ask.rule.algorithm() || !self.binds(i)
        });
        if agree && !(request.plain && slots.len() > 1) {
            return Ok(());
        }
        Err(Misfit {
            holds: slots.iter().map(|slot| slot.rule.algorithm()).collect(),
            asked: request.asks.iter().map(|ask| ask.rule.algorithm()).collect(),
        })
    }
}

impl<'r> Decision<'_, 'r> {
    fn asked_for(&self) -> impl Iterator<Item = (&Position, Asked)> {
        self.positions.all().iter().filter_map(|p| Some((p, p.ask?)))
    }

    /// Whether every live rule lets the call pass. Shadow rules are not asked.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.asked_for().all(|(_, ask)| ask.shadow || ask.wait == Wait::Now)
    }

    /// One row per rule asked for. `pass` tells whether the whole call passes, `charge` whether it
    /// is then charged: a peek shows the limiters as they stand.
    pub fn rows(&self, pass: bool, charge: bool) -> impl Iterator<Item = Row> + '_ {
        self.asked_for().map(move |(position, ask)| {
            let taken = pass && ask.wait == Wait::Now && ask.cost > 0;
            let (remaining, reset_ms) = if taken && charge {
                position.charged(self.logs, ask.cost, self.now)
            } else {
                position.standing(self.logs, self.now)
            };
            let delay_ms = if taken && !self.request.force { position.delay_ms() } else { 0 };
            let limit = position.rule.limit();
            Row { wait: ask.wait, remaining, reset_ms, limit, delay_ms, shadow: ask.shadow }
        })
    }

    /// What the call writes: `None` if nothing changes.
    #[must_use]
    pub fn write(&self, pass: bool) -> Option<Write<'r>> {
        let cost = |position: &Position| match position.ask {
            Some(ask) if pass && ask.wait == Wait::Now => ask.cost,
            _ => 0,
        };
        let all = self.positions.all();
        let charged = all.iter().any(|p| cost(p) > 0);
        let repaired = all.iter().any(|p| p.repaired);
        let changed = all.iter().any(|p| p.changed);
        if !charged && !repaired && !changed {
            return None;
        }
        let max_log = self.request.max_log;
        let next = |p: &Position| p.next(self.logs, Charge { cost: cost(p), max_log }, self.now);
        let slots = if charged {
            let asked = self.request.asks.len();
            let live =
                all.iter().rposition(|p| !p.base.is_fresh()).map_or(0, |i| i.saturating_add(1));
            Few::make(live.max(asked), |i| all.get(i).map(next))?
        } else {
            // A denied call stores changed settings and repairs at positions that the key already
            // has; it changes neither the length of the list nor the policies.
            Few::make(self.kept.len(), |i| {
                let own = all.get(i).filter(|p| p.kept.is_some());
                own.map(next).or_else(|| self.kept.get(i).map(NextSlot::same))
            })?
        };
        let (asked, trail) = if charged {
            (self.request.asks.len(), Some(self.request.trail))
        } else {
            (self.asked, None)
        };
        Some(Write {
            slots,
            asked,
            trail,
            afresh: self.kept.is_empty(),
            changed,
            repaired,
            charged,
            now: self.now,
        })
    }
}
