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

use super::algorithm::{Charge, Taken};
use super::codec::{self, Trail};
use super::few::Few;
use super::limiter::Limiter;
use super::log::Log;
use super::position::{Asked, Position};
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
    /// A mark was repaired in a stored rule that does not carry on here.
    repaired_aside: bool,
}

/// Decides `request` on what the key holds.
///
/// # Errors
/// The list asked for does not fit the kept one, or the stored bytes are damaged.
#[inline]
pub fn decide<'l, 'r>(
    limiter: Option<&'l Limiter>,
    request: Request<'r>,
    now: Micros,
) -> Result<Decision<'l, 'r>, Refusal> {
    let (positions, repaired_aside) = (Few::none(), false);
    let mut decision =
        Decision { positions, request, limiter, now, kept: 0, asked: 0, repaired_aside };
    let positions = &mut decision.positions;
    if let Some(stored) = read(limiter, now, positions)? {
        (decision.kept, decision.asked) = (positions.len(), stored.asked);
        if stored.edited_since(&request.trail) {
            let surplus = positions.all().iter().skip(request.asks.len());
            decision.repaired_aside = surplus.into_iter().any(|p| p.repaired);
            positions.truncate(request.asks.len());
        } else {
            stored.fits(positions.all(), &request).map_err(Refusal::Misfit)?;
        }
    }
    let logs = limiter.map_or(&[] as &[Log], Limiter::logs);
    for (i, ask) in request.asks.iter().enumerate() {
        match positions.all_mut().get_mut(i) {
            Some(position) => {
                let same = position.rule.algorithm() == ask.rule.algorithm();
                if !(same && binds(position, i, decision.asked)) {
                    decision.repaired_aside |= position.repaired;
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
    Ok(decision)
}

/// What a stored list says of its last charge.
pub(super) struct Stored<'a> {
    /// How many positions it asked for.
    pub asked: usize,
    trail: Trail<'a>,
}

/// Reads what a key holds, its states brought to `now`. `None` if the key is missing or as good as
/// new, which is the same to every command; `positions` then stays empty.
#[inline]
pub(super) fn read<'a>(
    limiter: Option<&'a Limiter>,
    now: Micros,
    positions: &mut Few<Position>,
) -> Result<Option<Stored<'a>>, Refusal> {
    let Some(limiter) = limiter else { return Ok(None) };
    let logs = limiter.logs();
    let mut live = 0;
    let stored = codec::unpack_each(limiter.packed(), |slot| {
        let position = Position::stored(slot, logs, now)?;
        let fresh = position.base.is_fresh();
        positions.push(position);
        if !fresh {
            live = positions.len();
        }
        Some(())
    });
    let (asked, trail) = stored.ok_or(Refusal::Damaged)?;
    // Fresh rules at the end, beyond those that the last charge asked for, are gone.
    positions.truncate(if live > 0 { live.max(asked) } else { 0 });
    Ok((live > 0).then_some(Stored { asked, trail }))
}

/// Whether the algorithm kept at position `i` binds a call: not that of a fresh rule beyond those
/// that the last charge asked for, even if a live one stands after it.
pub(super) const fn binds(position: &Position, i: usize, asked: usize) -> bool {
    i < asked || !position.base.is_fresh()
}

impl Stored<'_> {
    /// Whether a call names exactly the policies of the last charge, edited since: then states
    /// carry over wherever the algorithm is the same.
    fn edited_since(&self, trail: &Trail<'_>) -> bool {
        let kept = &self.trail;
        !trail.names.is_empty() && trail.names == kept.names && trail.versions != kept.versions
    }

    fn fits(&self, kept: &[Position], request: &Request<'_>) -> Result<(), Misfit> {
        let agree = kept.iter().zip(request.asks).enumerate().all(|(i, (position, ask))| {
            position.rule.algorithm() == ask.rule.algorithm() || !binds(position, i, self.asked)
        });
        if agree && !(request.plain && kept.len() > 1) {
            return Ok(());
        }
        Err(Misfit {
            holds: kept.iter().map(|position| position.rule.algorithm()).collect(),
            asked: request.asks.iter().map(|ask| ask.rule.algorithm()).collect(),
        })
    }
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
            let cost = if taken && charge { ask.cost } else { 0 };
            let taken = Taken { cost, delayed: taken && !self.request.force };
            let (rule, log) = (&position.rule, position.log(self.logs()));
            rule.row(&position.base, log, (ask.wait, ask.shadow), taken, self.now)
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
        let repaired = all.iter().any(|p| p.repaired) || (!charged && self.repaired_aside);
        let changed = all.iter().any(|p| p.changed);
        if !charged && !repaired && !changed {
            return None;
        }
        let max_log = self.request.max_log;
        let next = |p: &Position| p.next(self.logs(), Charge { cost: cost(p), max_log }, self.now);
        let mut write = Write {
            slots: Few::none(),
            asked: self.asked,
            trail: None,
            afresh: self.kept == 0,
            changed,
            repaired,
            charged,
            now: self.now,
        };
        if charged {
            write.asked = self.request.asks.len();
            write.trail = Some(self.request.trail);
            let live = all.iter().rposition(|p| !p.base.is_fresh());
            let length = live.map_or(0, |i| i.saturating_add(1)).max(write.asked);
            for position in all.iter().take(length) {
                write.slots.push(next(position));
            }
        } else {
            // A denied call stores changed settings and repairs at positions that the key already
            // has; it changes neither the length of the list nor the policies.
            let stored = self.limiter.and_then(Limiter::list)?;
            for (i, slot) in stored.slots.all().iter().take(self.kept).enumerate() {
                write.slots.push(match all.get(i).filter(|p| p.kept.is_some()) {
                    Some(own) => next(own),
                    None => next(&Position::stored(*slot, self.logs(), self.now)?),
                });
            }
        }
        Some(write)
    }
}
