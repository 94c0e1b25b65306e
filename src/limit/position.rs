//! One position of a list under decision: a rule, what its state amounts to, and what follows.

use super::algorithm::{Base, Charge, Next};
use super::codec::{Slot, State};
use super::log::{self, Log};
use super::slide::Edit;
use super::time::Micros;
use super::{Ask, Rule, Wait};

/// One position of a list under decision.
#[derive(Clone, Debug)]
pub struct Position {
    /// The settings it is decided under.
    pub rule: Rule,
    pub base: Base,
    /// The stored slot that carries on here.
    pub kept: Option<Slot>,
    pub repaired: bool,
    pub changed: bool,
    /// What the call asks for here; `None` at a position that is only kept.
    pub ask: Option<Asked>,
}

/// What a call asks for at a position, and how long it would have to wait.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub cost: u64,
    pub shadow: bool,
    pub wait: Wait,
}

impl Position {
    /// A stored slot brought to `now` under its own settings; `None` if its bytes are damaged.
    #[inline]
    pub fn stored(slot: Slot, logs: &[Log], now: Micros) -> Option<Self> {
        let (base, repaired) = slot.rule.settle(&slot.state, slot.state.log(logs), now)?;
        Some(Self { base, kept: Some(slot), repaired, ..Self::new(slot.rule) })
    }

    /// A position of which nothing is stored.
    pub const fn new(rule: Rule) -> Self {
        Self { rule, base: Base::Fresh, kept: None, repaired: false, changed: false, ask: None }
    }

    /// Reads the position under the settings of `ask`, of the same algorithm, and asks it.
    #[inline]
    pub fn ask(&mut self, ask: &Ask, logs: &[Log], now: Micros, force: bool) {
        let rule = ask.rule;
        if self.rule != rule {
            let base = std::mem::replace(&mut self.base, Base::Fresh);
            self.base = base.carry(&self.rule, &rule, self.log(logs), now);
            self.changed = true;
            self.rule = rule;
        }
        let wait = if force || ask.cost == 0 {
            Wait::Now
        } else {
            rule.wait(&self.base, self.log(logs), ask.cost, now)
        };
        self.ask = Some(Asked { cost: ask.cost, shadow: ask.shadow, wait });
    }

    /// The number of the log that carries on here.
    pub const fn log_index(&self) -> Option<usize> {
        match self.kept {
            Some(Slot { state: State::Log(i), .. }) => Some(i),
            _ => None,
        }
    }

    /// The log that carries on here, else an empty one.
    pub fn log<'a>(&self, logs: &'a [Log]) -> &'a Log {
        self.kept.as_ref().map_or(&log::EMPTY, |slot| slot.state.log(logs))
    }

    pub fn standing(&self, logs: &[Log], now: Micros) -> (u64, u64) {
        self.rule.standing(&self.base, self.log(logs), now)
    }

    /// What is stored here after the call; a cost of 0 charges nothing.
    pub fn next(&self, logs: &[Log], charge: Charge, now: Micros) -> NextSlot {
        if let Some(slot) = &self.kept {
            if charge.cost == 0 && !self.repaired && !self.changed {
                return NextSlot::same(slot);
            }
        }
        let kept = self.kept.as_ref().map(|slot| &slot.rule);
        let state = match self.rule.next(kept, &self.base, self.log(logs), charge, now) {
            Next::Small(state) => NextState::Small(state),
            Next::Log(edit) => NextState::Log(self.log_index(), edit),
        };
        NextSlot { rule: self.rule, state }
    }
}

/// What a position holds after a write.
#[derive(Clone, Copy, Debug)]
pub struct NextSlot {
    pub rule: Rule,
    pub state: NextState,
}

#[derive(Clone, Copy, Debug)]
pub enum NextState {
    /// As stored.
    Same(State),
    /// A state without a log.
    Small(State),
    /// The stored log of this number, or an empty one, edited.
    Log(Option<usize>, Edit),
}

impl NextSlot {
    /// Whether nothing is used here after the write.
    pub fn is_fresh(&self, log: &Log) -> bool {
        match &self.state {
            NextState::Same(state) | NextState::Small(state) => *state == State::Fresh,
            NextState::Log(_, edit) => edit.empties(log),
        }
    }

    pub const fn same(slot: &Slot) -> Self {
        Self { rule: slot.rule, state: NextState::Same(slot.state) }
    }
}
