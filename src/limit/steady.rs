//! A short list of rules that the key keeps exactly as asked for: nearly every call of RL.CHARGE.
//!
//! It does what `layers` does for such a list, by the same functions of `algorithm`, but charges in
//! place: nothing is carried over, repaired or left aside, so that no list has to be built anew.
//! Whatever is not that simple is left to `layers`.

use super::algorithm::{Base, Charge, Next, Taken};
use super::bytes::Bytes;
use super::change::{encode_head, slack_ms, LogPart, Totals};
use super::codec::{self, Slot, State};
use super::few::Few;
use super::layers::Request;
use super::limiter::Limiter;
use super::log::{self, Log};
use super::time::{Micros, Millis};
use super::{Row, Rule, Wait};

/// So many rules at most.
const ROOM: usize = 4;

/// A call decided, not yet written.
#[derive(Clone, Debug)]
pub struct Steady<'r> {
    held: [Option<Held>; ROOM],
    request: Request<'r>,
    now: Micros,
    /// Whether every live rule lets the call pass.
    pub pass: bool,
    /// What the reply shows, one row per rule.
    pub rows: Few<Row>,
}

/// What the key holds of one rule.
#[derive(Clone, Debug)]
struct Held {
    state: State,
    base: Base,
    wait: Wait,
}

/// The log of a state, an empty one if it has none.
fn log_of<'a>(state: &State, logs: &'a [Log]) -> &'a Log {
    match state {
        State::Log(i) => logs.get(*i).unwrap_or(&log::EMPTY),
        _ => &log::EMPTY,
    }
}

impl<'r> Steady<'r> {
    /// A call to be decided.
    #[must_use]
    pub const fn new(request: Request<'r>, now: Micros) -> Self {
        Self { held: [const { None }; ROOM], request, now, pass: true, rows: Few::none() }
    }

    /// Decides the call on what the key holds; `None` if that is not this simple.
    #[inline]
    pub fn decide(&mut self, limiter: Option<&Limiter>) -> Option<()> {
        let limiter = limiter?;
        let (logs, asks) = (limiter.logs(), self.request.asks);
        let mut places = self.held.iter_mut().zip(asks);
        let (mut count, mut live) = (0_usize, false);
        let (asked, trail) = codec::unpack_each(limiter.packed(), |slot| {
            let (place, ask) = places.next()?;
            let log = log_of(&slot.state, logs);
            let (base, repaired) = slot.rule.settle(&slot.state, log, self.now)?;
            let starts_a_log = matches!((slot.rule, slot.state), (Rule::Slide(_), State::Fresh));
            if slot.rule != ask.rule || repaired || starts_a_log {
                return None;
            }
            let wait = if self.request.force || ask.cost == 0 {
                Wait::Now
            } else {
                ask.rule.wait(&base, log, ask.cost, self.now)
            };
            live |= !base.is_fresh();
            self.pass &= ask.shadow || wait == Wait::Now;
            count = count.saturating_add(1);
            *place = Some(Held { state: slot.state, base, wait });
            Some(())
        })?;
        let whole = count == asks.len() && asked == count && trail == self.request.trail;
        (whole && live).then(|| self.show(logs))
    }

    /// What is charged to a rule.
    fn cost(&self, held: &Held, asked: u64) -> u64 {
        if self.pass && held.wait == Wait::Now {
            asked
        } else {
            0
        }
    }

    fn show(&mut self, logs: &[Log]) {
        for (held, ask) in self.held.iter().flatten().zip(self.request.asks) {
            let (rule, log) = (&ask.rule, log_of(&held.state, logs));
            let cost = self.cost(held, ask.cost);
            let taken = Taken { cost, delayed: cost > 0 && !self.request.force };
            let verdict = (held.wait, ask.shadow);
            self.rows.push(rule.row(&held.base, log, verdict, taken, self.now));
        }
    }

    /// Whether the call charges anything; else it writes nothing.
    #[must_use]
    pub fn charges(&self) -> bool {
        let mut asks = self.held.iter().flatten().zip(self.request.asks);
        asks.any(|(held, ask)| self.cost(held, ask.cost) > 0)
    }

    /// Milliseconds until every rule is as good as new.
    #[must_use]
    pub fn reset_ms(&self) -> u64 {
        self.rows.all().iter().map(|row| row.reset_ms).max().unwrap_or(0)
    }

    /// The same of a limiter of which everything is used.
    #[must_use]
    pub fn full_reset_ms(&self) -> u64 {
        self.request.asks.iter().map(|ask| ask.rule.full_reset_ms()).max().unwrap_or(0)
    }

    /// How far ahead of need the TTL may be set.
    #[must_use]
    pub fn slack_ms(&self) -> u64 {
        self.request.asks.iter().map(|ask| slack_ms(&ask.rule)).max().unwrap_or(0)
    }

    /// Charges `limiter`, the one that the call was decided on, and writes the change for replicas
    /// and AOF.
    pub fn apply(&self, limiter: &mut Limiter, expire_at: Option<Millis>, out: &mut Bytes) {
        encode_head(expire_at, out);
        let start = out.as_slice().len();
        let count = self.request.asks.len();
        codec::pack_head(out, count, count, self.request.trail);
        for (held, ask) in self.held.iter().flatten().zip(self.request.asks) {
            let cost = self.cost(held, ask.cost);
            let state = match held.state {
                State::Log(_) => held.state,
                _ if cost == 0 => held.state,
                _ => {
                    match ask.rule.next(None, &held.base, &log::EMPTY, self.charge(cost), self.now)
                    {
                        Next::Small(state) => state,
                        Next::Log(_) => held.state,
                    }
                }
            };
            codec::pack_slot(out, &Slot { rule: ask.rule, state });
        }
        limiter.set_packed(out.as_slice().get(start..).unwrap_or(&[]));
        for (held, ask) in self.held.iter().flatten().zip(self.request.asks) {
            let State::Log(i) = held.state else { continue };
            let Some(log) = limiter.log_mut(i) else { continue };
            let before = Totals::of(log);
            let cost = self.cost(held, ask.cost);
            if cost == 0 {
                LogPart::Same(before).encode(log, out);
            } else if let Next::Log(edit) =
                ask.rule.next(None, &held.base, log, self.charge(cost), self.now)
            {
                edit.apply(log);
                LogPart::Edited(before, &edit).encode(log, out);
            }
        }
    }

    const fn charge(&self, cost: u64) -> Charge {
        Charge { cost, max_log: self.request.max_log }
    }
}
