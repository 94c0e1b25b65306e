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
use super::codec::{self, List, Trail};
use super::few::Few;
use super::limiter::Limiter;
use super::log::Log;
use super::position::{Asked, NextSlot, Position};
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
    limiter: Option<&'l Limiter>,
    now: Micros,
    /// How many stored slots count; 0 if the key holds nothing that counts.
    kept: usize,
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
    let (mut positions, mut kept, mut asked) = (Few::none(), 0, 0);
    if let Some(mut stored) = read(limiter, now)? {
        (kept, asked) = (stored.slots.len(), stored.asked);
        if edited_since(&stored, &request.trail) {
            stored.slots.truncate(request.asks.len());
        } else {
            fits(&stored, &request).map_err(Refusal::Misfit)?;
        }
        positions = stored.slots;
    }
    for (i, ask) in request.asks.iter().enumerate() {
        match positions.all_mut().get_mut(i) {
            Some(position) => {
                let same = position.rule.algorithm() == ask.rule.algorithm();
                if !(same && binds(position, i, asked)) {
                    *position = Position::new(ask.rule);
                }
                position.ask(ask, logs, now, request.force);
            }
            None => {
                let mut position = Position::new(ask.rule);
                position.ask(ask, logs, now, request.force);
                positions.push(position);
            }
        }
    }
    Ok(Decision { positions, request, limiter, now, kept, asked })
}

/// Reads what a key holds, its states brought to `now`. `None` if the key is missing or as good as
/// new, which is the same to every command.
pub(super) fn read(
    limiter: Option<&Limiter>,
    now: Micros,
) -> Result<Option<List<'_, Position>>, Refusal> {
    let Some(limiter) = limiter else { return Ok(None) };
    let logs = limiter.logs();
    let stored = codec::unpack_into(limiter.packed(), |slot| Position::stored(slot, logs, now));
    let mut stored = stored.ok_or(Refusal::Damaged)?;
    // Fresh rules at the end, beyond those that the last charge asked for, are gone.
    let fresh = |position: &&Position| position.base.is_fresh();
    let gone = stored.slots.all().iter().rev().take_while(fresh).count();
    let live = stored.slots.len().saturating_sub(gone);
    stored.slots.truncate(live.max(stored.asked));
    Ok((live > 0).then_some(stored))
}

/// Whether the algorithm kept at position `i` binds a call: not that of a fresh rule beyond those
/// that the last charge asked for, even if a live one stands after it.
const fn binds(position: &Position, i: usize, asked: usize) -> bool {
    i < asked || !position.base.is_fresh()
}

/// Whether a call names exactly the policies of the last charge, edited since: then states carry
/// over wherever the algorithm is the same.
fn edited_since(stored: &List<'_, Position>, trail: &Trail<'_>) -> bool {
    let kept = &stored.trail;
    !trail.names.is_empty() && trail.names == kept.names && trail.versions != kept.versions
}

fn fits(stored: &List<'_, Position>, request: &Request<'_>) -> Result<(), Misfit> {
    let kept = stored.slots.all();
    let agree = kept.iter().zip(request.asks).enumerate().all(|(i, (position, ask))| {
        position.rule.algorithm() == ask.rule.algorithm() || !binds(position, i, stored.asked)
    });
    if agree && !(request.plain && kept.len() > 1) {
        return Ok(());
    }
    Err(Misfit {
        holds: kept.iter().map(|position| position.rule.algorithm()).collect(),
        asked: request.asks.iter().map(|ask| ask.rule.algorithm()).collect(),
    })
}

impl<'r> Decision<'_, 'r> {
    fn logs(&self) -> &[Log] {
        self.limiter.map_or(&[], Limiter::logs)
    }

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
                position.charged(self.logs(), ask.cost, self.now)
            } else {
                position.standing(self.logs(), self.now)
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
        let next = |p: &Position| p.next(self.logs(), Charge { cost: cost(p), max_log }, self.now);
        let slots = if charged {
            let asked = self.request.asks.len();
            let live =
                all.iter().rposition(|p| !p.base.is_fresh()).map_or(0, |i| i.saturating_add(1));
            Few::make(live.max(asked), |i| all.get(i).map(next))?
        } else {
            // A denied call stores changed settings and repairs at positions that the key already
            // has; it changes neither the length of the list nor the policies.
            let stored = self.limiter.and_then(Limiter::list);
            Few::make(self.kept, |i| {
                let own = all.get(i).filter(|p| p.kept.is_some());
                own.map(next).or_else(|| stored.as_ref()?.slots.get(i).map(NextSlot::same))
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
            afresh: self.kept == 0,
            changed,
            repaired,
            charged,
            now: self.now,
        })
    }
}
