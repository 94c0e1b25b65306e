//! Carrying a decided write out on a limiter.

use super::bytes::Bytes;
use super::change::{self, Change, LogPart, Totals};
use super::codec::{self, Slot, State, Trail};
use super::few::Few;
use super::limiter::Limiter;
use super::log::Log;
use super::position::{NextSlot, NextState};
use super::time::{ms_until, Micros};
use super::{slide, Rule};

/// A write prepared: it no longer needs the limiter it was decided on, which is about to change.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    pub(super) slots: Few<NextSlot>,
    pub(super) asked: usize,
    /// The policies to store; `None` keeps those stored.
    pub(super) trail: Option<Trail<'a>>,
    /// Nothing stored carries on.
    pub(super) afresh: bool,
    /// Settings that differ from the kept ones are stored.
    pub changed: bool,
    /// A stepped clock was repaired.
    pub repaired: bool,
    /// Something was charged or given back.
    pub charged: bool,
    pub(super) now: Micros,
}

impl Write<'_> {
    /// Makes a limiter where there was none.
    #[must_use]
    pub fn create(&self) -> (Limiter, Change) {
        let mut logs = Vec::new();
        let (slots, change) = self.settle_logs(&mut logs);
        let mut packed = Bytes::default();
        codec::pack(&mut packed, slots.all(), self.asked, self.trail.unwrap_or_default());
        (Limiter::new(packed.as_slice(), logs), change)
    }

    /// Changes a limiter, the one that the call was decided on.
    pub fn update(&self, limiter: &mut Limiter) -> Change {
        let mut logs = limiter.take_logs();
        if self.afresh {
            logs.clear();
        }
        let (slots, change) = self.settle_logs(&mut logs);
        let mut packed = Bytes::default();
        let trail = match self.trail {
            Some(trail) => trail,
            None => limiter.list().map_or_else(Trail::default, |list| list.trail),
        };
        codec::pack(&mut packed, slots.all(), self.asked, trail);
        limiter.put(packed.as_slice(), logs);
        change
    }

    /// Edits the logs, drops those that no rule owns any more, and numbers them anew. The logs of
    /// the positions that carry on stand in the order of the positions, before and after.
    fn settle_logs(&self, logs: &mut Vec<Log>) -> (Few<Slot>, Change) {
        let mut parts = Few::none();
        let (mut reset_ms, mut full_reset_ms, mut slack_ms) = (0, 0, 0);
        // The next free place among the logs, and how many of the old ones are dealt with.
        let (mut place, mut done) = (0, 0);
        let slots = Few::make(self.slots.len(), |i| {
            let NextSlot { rule, state } = *self.slots.get(i)?;
            let slot = match state {
                NextState::Same(State::Log(old)) => {
                    drop_until(logs, place, &mut done, old);
                    parts.push(LogPart::Same(logs.get(place).map(Totals::of)?));
                    place = place.saturating_add(1);
                    Slot { rule, state: State::Log(place.saturating_sub(1)) }
                }
                NextState::Same(state) | NextState::Small(state) => Slot { rule, state },
                NextState::Log(old, edit) => {
                    match old {
                        Some(old) => drop_until(logs, place, &mut done, old),
                        None => {
                            // Exactly one more: a log's header is large beside a short log.
                            logs.reserve_exact(1);
                            logs.insert(place, Log::new());
                        }
                    }
                    let log = logs.get_mut(place)?;
                    let before = Totals::of(log);
                    edit.apply(log);
                    if log.is_empty() {
                        logs.remove(place);
                        Slot { rule, state: State::Fresh }
                    } else {
                        parts.push(match old {
                            Some(_) => LogPart::Edited(before, edit, Totals::of(log)),
                            None => LogPart::Whole,
                        });
                        place = place.saturating_add(1);
                        Slot { rule, state: State::Log(place.saturating_sub(1)) }
                    }
                }
            };
            reset_ms = reset_ms.max(reset_of(&slot, logs, self.now));
            full_reset_ms = full_reset_ms.max(rule.full_reset_ms());
            slack_ms = slack_ms.max(change::slack_ms(&rule));
            Some(slot)
        });
        logs.truncate(place);
        let change = Change { logs: parts, reset_ms, full_reset_ms, slack_ms };
        (slots.unwrap_or_else(Few::none), change)
    }
}

/// Removes the old logs before number `old`, of positions that no longer own one.
fn drop_until(logs: &mut Vec<Log>, place: usize, done: &mut usize, old: usize) {
    while *done < old && place < logs.len() {
        logs.remove(place);
        *done = done.saturating_add(1);
    }
    *done = old.saturating_add(1);
}

/// Milliseconds until a stored slot is as good as new.
fn reset_of(slot: &Slot, logs: &[Log], now: Micros) -> u64 {
    match (slot.rule, slot.state) {
        (Rule::Token(b) | Rule::Leaky(b), State::Level(level)) => {
            b.reset_ms(b.settle(level, now).0)
        }
        (Rule::Fixed(f), State::Count(count)) => f.reset_ms(f.settle(count, now).0, now),
        (Rule::Slide(s), State::Log(i)) => {
            logs.get(i).map_or(0, |log| ms_until(now, slide::gone(&s, log.newest())))
        }
        _ => 0,
    }
}
