//! Carrying a decided write out on a limiter.

use super::bytes::Bytes;
use super::change::{self, Change, LogPart, Totals};
use super::codec::{self, Slot, State, Trail};
use super::few::Few;
use super::limiter::Limiter;
use super::log::Log;
use super::position::{NextSlot, NextState};
use super::slide::{self, Edit};
use super::time::{ms_until, Micros};
use super::Rule;

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
        let (mut logs, mut packed) = (Vec::new(), Bytes::default());
        let change = self.pack(&mut logs, self.trail.unwrap_or_default(), &mut packed);
        (Limiter::new(packed.as_slice(), logs), change)
    }

    /// Changes a limiter, the one that the call was decided on.
    pub fn update(&self, limiter: &mut Limiter) -> Change {
        let (mut logs, mut packed) = (limiter.take_logs(), Bytes::default());
        if self.afresh {
            logs.clear();
        }
        let trail = self.trail.or_else(|| codec::unpack_trail(limiter.packed()));
        let change = self.pack(&mut logs, trail.unwrap_or_default(), &mut packed);
        limiter.put(packed.as_slice(), logs);
        change
    }

    /// Packs the list, edits the logs, drops those that no rule owns any more, and numbers them
    /// anew. The logs of the positions that carry on stand in the order of the positions, before
    /// and after.
    fn pack(&self, logs: &mut Vec<Log>, trail: Trail<'_>, packed: &mut Bytes) -> Change {
        let mut change = Change::default();
        // What is as good as new at the end of the list, and was not asked for, counts no more.
        let mut counting = self.asked;
        // The next free place among the logs, and how many of the old ones are dealt with.
        let (mut place, mut done) = (0, 0);
        codec::pack_head(packed, self.slots.len(), self.asked, trail);
        for (i, NextSlot { rule, state }) in self.slots.all().iter().enumerate() {
            let state = match state {
                NextState::Same(State::Log(old)) => {
                    drop_until(logs, place, &mut done, *old);
                    if let Some(log) = logs.get(place) {
                        LogPart::Same(Totals::of(log)).encode(log, &mut change.logs);
                    }
                    State::Log(place)
                }
                NextState::Same(state) | NextState::Small(state) => *state,
                NextState::Log(old, edit) => {
                    match old {
                        Some(old) => drop_until(logs, place, &mut done, *old),
                        None => {
                            // Exactly one more: a log's header is large beside a short log.
                            logs.reserve_exact(1);
                            logs.insert(place, Log::new());
                        }
                    }
                    let log = logs.get_mut(place);
                    let lives = log.map(|l| edit_log(l, edit, old.is_some(), &mut change.logs));
                    if lives == Some(false) {
                        logs.remove(place);
                    }
                    if lives == Some(true) {
                        State::Log(place)
                    } else {
                        State::Fresh
                    }
                }
            };
            if let State::Log(_) = state {
                place = place.saturating_add(1);
            }
            let slot = Slot { rule: *rule, state };
            codec::pack_slot(packed, &slot);
            let reset_ms = reset_of(&slot, logs, self.now);
            change.reset_ms = change.reset_ms.max(reset_ms);
            if reset_ms > 0 {
                counting = counting.max(i.saturating_add(1));
            }
        }
        for NextSlot { rule, .. } in self.slots.all().iter().take(counting) {
            change.full_reset_ms = change.full_reset_ms.max(rule.full_reset_ms());
            change.slack_ms = change.slack_ms.max(change::slack_ms(rule));
        }
        logs.truncate(place);
        change
    }
}

/// Edits a log and says so in `out`; false if nothing is left of it.
fn edit_log(log: &mut Log, edit: &Edit, kept: bool, out: &mut Bytes) -> bool {
    let before = Totals::of(log);
    edit.apply(log);
    if log.is_empty() {
        return false;
    }
    if kept {
        LogPart::Edited(before, edit).encode(log, out);
    } else {
        LogPart::Whole.encode(log, out);
    }
    true
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
