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

/// A call of at most `N` rules on one key: made, looked at, concluded, and then applied.
#[derive(Clone, Debug)]
pub struct Steady<'r, const N: usize> {
    held: [Option<Held>; N],
    request: Request<'r>,
    now: Micros,
    /// Whether the whole call passes.
    pass: bool,
    /// Milliseconds until every rule is as good as new.
    pub reset_ms: u64,
}

/// What the key holds of one rule.
#[derive(Clone, Debug)]
struct Held {
    state: State,
    base: Base,
    wait: Wait,
}

impl<'r, const N: usize> Steady<'r, N> {
    /// A call to be decided.
    #[must_use]
    pub const fn new(request: Request<'r>, now: Micros) -> Self {
        Self { held: [const { None }; N], request, now, pass: false, reset_ms: 0 }
    }

    /// Whether what the key holds lets the call pass; `None` if that is not this simple.
    #[inline]
    pub fn look(&mut self, limiter: Option<&Limiter>) -> Option<bool> {
        let limiter = limiter?;
        let (logs, asks) = (limiter.logs(), self.request.asks);
        let mut places = self.held.iter_mut().zip(asks);
        let (mut count, mut live, mut pass) = (0_usize, false, true);
        let (asked, trail) = codec::unpack_each(limiter.packed(), |slot| {
            let (place, ask) = places.next()?;
            let log = slot.state.log(logs);
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
            pass &= ask.shadow || wait == Wait::Now;
            count = count.saturating_add(1);
            *place = Some(Held { state: slot.state, base, wait });
            Some(())
        })?;
        let whole = count == asks.len() && asked == count && trail == self.request.trail;
        (whole && live).then_some(pass)
    }

    /// What is charged to a rule.
    fn cost(&self, held: &Held, asked: u64) -> u64 {
        if self.pass && held.wait == Wait::Now {
            asked
        } else {
            0
        }
    }

    /// Takes the verdict on the whole call, other keys considered; what the reply shows goes to
    /// `rows`.
    pub fn conclude(&mut self, limiter: Option<&Limiter>, pass: bool, rows: &mut Few<Row>) {
        self.pass = pass;
        let logs = limiter.map_or(&[] as &[Log], Limiter::logs);
        let mut reset_ms = 0;
        for (held, ask) in self.held.iter().flatten().zip(self.request.asks) {
            let (rule, log) = (&ask.rule, held.state.log(logs));
            let cost = self.cost(held, ask.cost);
            let taken = Taken { cost, delayed: cost > 0 && !self.request.force };
            let verdict = (held.wait, ask.shadow);
            let row = rule.row(&held.base, log, verdict, taken, self.now);
            reset_ms = row.reset_ms.max(reset_ms);
            rows.push(row);
        }
        self.reset_ms = reset_ms;
    }

    /// Whether the call charges anything; else it writes nothing.
    #[must_use]
    pub fn charges(&self) -> bool {
        let mut asks = self.held.iter().flatten().zip(self.request.asks);
        asks.any(|(held, ask)| self.cost(held, ask.cost) > 0)
    }

    /// Milliseconds until a limiter of which everything is used is as good as new.
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
