//! One position of a list under decision: a rule, what its state amounts to, and what follows.

use super::codec::{Slot, State};
use super::fixed::Count;
use super::layers::Ask;
use super::level::Level;
use super::log::{self, Log};
use super::slide::{self, Edit, Seen};
use super::time::Micros;
use super::{leaky, token, Fixed, Rule, Wait};

/// What a rule's state amounts to at one moment, under the settings it is read with.
#[derive(Clone, Debug)]
pub enum Base {
    Fresh,
    Level(Level),
    Count(Count),
    Log(Seen),
}

/// A stored rule brought to `now` under its own settings.
#[derive(Clone, Debug)]
pub struct Settled {
    pub base: Base,
    /// A mark lay in the future and was set to now.
    pub repaired: bool,
}

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

impl Settled {
    pub fn of(slot: &Slot, logs: &[Log], now: Micros) -> Option<Self> {
        let (base, repaired) = match (slot.rule, slot.state) {
            (_, State::Fresh) => (Base::Fresh, false),
            (Rule::Token(b) | Rule::Leaky(b), State::Level(level)) => {
                let (level, repaired) = b.settle(level, now);
                (level.map_or(Base::Fresh, Base::Level), repaired)
            }
            (Rule::Fixed(f), State::Count(count)) => {
                let (count, repaired) = f.settle(count, now);
                (count.map_or(Base::Fresh, Base::Count), repaired)
            }
            (Rule::Slide(s), State::Log(i)) => {
                let (seen, repaired) = slide::settle(&s, logs.get(i)?, now);
                (seen.map_or(Base::Fresh, Base::Log), repaired)
            }
            _ => return None,
        };
        Some(Self { base, repaired })
    }
}

impl Base {
    pub const fn is_fresh(&self) -> bool {
        matches!(self, Self::Fresh)
    }

    pub const fn level(&self) -> Option<Level> {
        match self {
            Self::Level(level) => Some(*level),
            _ => None,
        }
    }

    pub const fn count(&self) -> Option<Count> {
        match self {
            Self::Count(count) => Some(*count),
            _ => None,
        }
    }

    pub const fn seen(&self) -> Option<&Seen> {
        match self {
            Self::Log(seen) => Some(seen),
            _ => None,
        }
    }

    /// Reads the state under other settings of the same algorithm.
    fn carry(self, kept: &Rule, new: &Rule, log: &Log, now: Micros) -> Self {
        match (kept, new, self) {
            (Rule::Token(b) | Rule::Leaky(b), Rule::Token(n) | Rule::Leaky(n), Self::Level(l)) => {
                Self::Level(b.carry(n, l))
            }
            (Rule::Fixed(_), Rule::Fixed(n), Self::Count(c)) => {
                Fixed::carry(n, c, now).map_or(Self::Fresh, Self::Count)
            }
            (Rule::Slide(k), Rule::Slide(n), Self::Log(seen)) => {
                slide::carry(k, n, seen, log, now).map_or(Self::Fresh, Self::Log)
            }
            _ => Self::Fresh,
        }
    }
}

impl Position {
    pub fn asked(
        ask: &Ask,
        stored: Option<(Slot, &Settled)>,
        logs: &[Log],
        now: Micros,
        force: bool,
    ) -> Self {
        let rule = ask.rule;
        let mut position = match stored {
            Some((slot, settled)) => Self::only_kept(slot, settled),
            None => Self::new(rule),
        };
        if position.rule != rule {
            let base = std::mem::replace(&mut position.base, Base::Fresh);
            position.base = base.carry(&position.rule, &rule, position.log(logs), now);
            position.changed = true;
            position.rule = rule;
        }
        let wait = if force || ask.cost == 0 {
            Wait::Now
        } else {
            Wait::of(position.wait_ms(logs, ask.cost, now))
        };
        position.ask = Some(Asked { cost: ask.cost, shadow: ask.shadow, wait });
        position
    }

    pub const fn new(rule: Rule) -> Self {
        Self { rule, base: Base::Fresh, kept: None, repaired: false, changed: false, ask: None }
    }

    pub fn only_kept(slot: Slot, settled: &Settled) -> Self {
        let Settled { base, repaired } = settled.clone();
        Self { rule: slot.rule, base, kept: Some(slot), repaired, changed: false, ask: None }
    }

    pub fn log_index(&self) -> Option<usize> {
        match self.kept {
            Some(Slot { state: State::Log(i), .. }) => Some(i),
            _ => None,
        }
    }

    /// The log that carries on here, else an empty one.
    pub fn log<'a>(&self, logs: &'a [Log]) -> &'a Log {
        self.log_index().and_then(|i| logs.get(i)).unwrap_or(&log::EMPTY)
    }

    fn wait_ms(&self, logs: &[Log], cost: u64, now: Micros) -> Option<u64> {
        match &self.rule {
            Rule::Token(b) | Rule::Leaky(b) => b.wait_ms(self.base.level(), cost),
            Rule::Slide(s) => slide::wait_ms(s, self.base.seen(), self.log(logs), cost, now),
            Rule::Fixed(f) => f.wait_ms(self.base.count(), cost, now),
        }
    }

    /// Calls of cost 1 that would pass, and milliseconds until as good as new, without a charge.
    pub fn standing(&self, logs: &[Log], now: Micros) -> (u64, u64) {
        match &self.rule {
            Rule::Token(b) | Rule::Leaky(b) => {
                let level = self.base.level();
                (b.remaining(level), b.reset_ms(level))
            }
            Rule::Slide(s) => slide::standing(s, self.base.seen(), self.log(logs), now),
            Rule::Fixed(f) => {
                let count = self.base.count();
                (f.remaining(count), f.reset_ms(count, now))
            }
        }
    }

    /// The same after `cost` more was charged.
    pub fn charged(&self, logs: &[Log], cost: u64, now: Micros) -> (u64, u64) {
        match &self.rule {
            Rule::Token(b) | Rule::Leaky(b) => {
                let level = Some(b.charge(self.base.level(), cost, now));
                (b.remaining(level), b.reset_ms(level))
            }
            Rule::Slide(s) => slide::charged(s, self.base.seen(), self.log(logs), cost, now),
            Rule::Fixed(f) => {
                let count = Some(Fixed::charge(self.base.count(), cost, now));
                (f.remaining(count), f.reset_ms(count, now))
            }
        }
    }

    pub fn delay_ms(&self) -> u64 {
        match &self.rule {
            Rule::Token(b) => token::delay_ms(b, self.base.level()),
            Rule::Leaky(b) => leaky::delay_ms(b, self.base.level()),
            Rule::Slide(_) | Rule::Fixed(_) => 0,
        }
    }

    /// What is stored here after the call; `cost` is 0 where nothing is charged.
    pub fn next(&self, logs: &[Log], cost: u64, now: Micros, max_log: u64) -> Next {
        let touched = self.repaired || self.changed;
        let state = match (&self.rule, self.kept) {
            (_, Some(slot)) if cost == 0 && !touched => NextState::Same(slot.state),
            (Rule::Token(b) | Rule::Leaky(b), _) if cost > 0 => {
                NextState::Small(State::Level(b.charge(self.base.level(), cost, now)))
            }
            (Rule::Fixed(_), _) if cost > 0 => {
                NextState::Small(State::Count(Fixed::charge(self.base.count(), cost, now)))
            }
            (Rule::Slide(s), kept) if cost > 0 || !self.base.is_fresh() => {
                let kept = match kept {
                    Some(Slot { rule: Rule::Slide(kept), .. }) => kept,
                    _ => *s,
                };
                let (seen, log) = (self.base.seen(), self.log(logs));
                let most = s.limit().max(max_log);
                NextState::Log(self.log_index(), slide::edit(s, &kept, seen, log, cost, now, most))
            }
            _ => NextState::Small(match &self.base {
                Base::Level(level) => State::Level(*level),
                Base::Count(count) => State::Count(*count),
                Base::Fresh | Base::Log(_) => State::Fresh,
            }),
        };
        Next { rule: self.rule, state }
    }
}

/// What a position holds after a write.
#[derive(Clone, Copy, Debug)]
pub struct Next {
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

impl Next {
    /// Whether nothing is used here after the write.
    pub fn is_fresh(&self, log: &Log) -> bool {
        match &self.state {
            NextState::Same(state) | NextState::Small(state) => *state == State::Fresh,
            NextState::Log(_, edit) => edit.empties(log),
        }
    }

    pub fn same(slot: &Slot) -> Self {
        Self { rule: slot.rule, state: NextState::Same(slot.state) }
    }
}
