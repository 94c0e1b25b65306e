//! What every algorithm answers, and the one place that tells them apart.
//!
//! A state is settled first: brought to `now` under the settings it is kept with. Then it may be
//! carried over to other settings of the same algorithm. Only then is it asked.

use super::codec::State;
use super::fixed::Count;
use super::level::Level;
use super::log::Log;
use super::slide::{self, Edit, Seen};
use super::time::Micros;
use super::{leaky, token, Fixed, Row, Rule, Wait};

/// What a rule's state amounts to at one moment, under the settings it is read with.
#[derive(Clone, Debug)]
pub enum Base {
    Fresh,
    Level(Level),
    Count(Count),
    Log(Seen),
}

/// What a rule holds after a write.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// A state without a log.
    Small(State),
    /// The log that was there, or an empty one, edited.
    Log(Edit),
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
    pub fn carry(self, kept: &Rule, new: &Rule, log: &Log, now: Micros) -> Self {
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

impl Rule {
    /// Brings a stored state to `now`; the flag tells that a mark lay in the future and was set to
    /// now. `None`: the state is not one of this rule.
    #[inline]
    pub(super) fn settle(&self, state: &State, log: &Log, now: Micros) -> Option<(Base, bool)> {
        match (self, state) {
            (_, State::Fresh) => Some((Base::Fresh, false)),
            (Self::Token(b) | Self::Leaky(b), State::Level(level)) => {
                let (level, repaired) = b.settle(*level, now);
                Some((level.map_or(Base::Fresh, Base::Level), repaired))
            }
            (Self::Fixed(f), State::Count(count)) => {
                let (count, repaired) = f.settle(*count, now);
                Some((count.map_or(Base::Fresh, Base::Count), repaired))
            }
            (Self::Slide(s), State::Log(_)) => {
                let (seen, repaired) = slide::settle(s, log, now);
                Some((seen.map_or(Base::Fresh, Base::Log), repaired))
            }
            _ => None,
        }
    }

    /// How long a charge of `cost` would have to wait.
    #[inline]
    pub(super) fn wait(&self, base: &Base, log: &Log, cost: u64, now: Micros) -> Wait {
        Wait::of(match self {
            Self::Token(b) | Self::Leaky(b) => b.wait_ms(base.level(), cost),
            Self::Slide(s) => slide::wait_ms(s, base.seen(), log, cost, now),
            Self::Fixed(f) => f.wait_ms(base.count(), cost, now),
        })
    }

    /// Calls of cost 1 that would pass, and milliseconds until as good as new, without a charge.
    #[inline]
    pub(super) fn standing(&self, base: &Base, log: &Log, now: Micros) -> (u64, u64) {
        match self {
            Self::Token(b) | Self::Leaky(b) => {
                (b.remaining(base.level()), b.reset_ms(base.level()))
            }
            Self::Slide(s) => slide::standing(s, base.seen(), log, now),
            Self::Fixed(f) => (f.remaining(base.count()), f.reset_ms(base.count(), now)),
        }
    }

    /// The same after `cost` more was charged.
    #[inline]
    pub(super) fn charged(&self, base: &Base, log: &Log, cost: u64, now: Micros) -> (u64, u64) {
        match self {
            Self::Token(b) | Self::Leaky(b) => {
                let level = Some(b.charge(base.level(), cost, now));
                (b.remaining(level), b.reset_ms(level))
            }
            Self::Slide(s) => slide::charged(s, base.seen(), log, cost, now),
            Self::Fixed(f) => {
                let count = Some(Fixed::charge(base.count(), cost, now));
                (f.remaining(count), f.reset_ms(count, now))
            }
        }
    }

    /// Milliseconds that a passing caller waits before it goes ahead.
    #[inline]
    pub(super) fn delay_ms(&self, base: &Base) -> u64 {
        match self {
            Self::Token(b) => token::delay_ms(b, base.level()),
            Self::Leaky(b) => leaky::delay_ms(b, base.level()),
            Self::Slide(_) | Self::Fixed(_) => 0,
        }
    }

    /// What the reply shows of the rule.
    #[inline]
    pub(super) fn row(
        &self,
        base: &Base,
        log: &Log,
        (wait, shadow): (Wait, bool),
        taken: Taken,
        now: Micros,
    ) -> Row {
        let (remaining, reset_ms) = if taken.cost > 0 {
            self.charged(base, log, taken.cost, now)
        } else {
            self.standing(base, log, now)
        };
        let delay_ms = if taken.delayed { self.delay_ms(base) } else { 0 };
        Row { wait, remaining, reset_ms, limit: self.limit(), delay_ms, shadow }
    }

    /// What is stored when `cost` is charged, or, for a cost of 0, when the state as it was read is
    /// stored. `kept` are the settings of the log that was there.
    #[inline]
    pub(super) fn next(
        &self,
        kept: Option<&Self>,
        base: &Base,
        log: &Log,
        charge: Charge,
        now: Micros,
    ) -> Next {
        let cost = charge.cost;
        match (self, base) {
            (Self::Token(b) | Self::Leaky(b), _) if cost > 0 => {
                Next::Small(State::Level(b.charge(base.level(), cost, now)))
            }
            (Self::Fixed(_), _) if cost > 0 => {
                Next::Small(State::Count(Fixed::charge(base.count(), cost, now)))
            }
            (Self::Slide(s), _) if cost > 0 || !base.is_fresh() => {
                let kept = match kept {
                    Some(Self::Slide(kept)) => kept,
                    _ => s,
                };
                let most = s.limit().max(charge.max_log);
                Next::Log(slide::edit(s, kept, base.seen(), log, cost, now, most))
            }
            (_, Base::Level(level)) => Next::Small(State::Level(*level)),
            (_, Base::Count(count)) => Next::Small(State::Count(*count)),
            (_, Base::Fresh | Base::Log(_)) => Next::Small(State::Fresh),
        }
    }
}

/// What a call takes of a rule.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The cost that is charged; 0 shows the rule as it stands.
    pub cost: u64,
    /// The caller waits before it goes ahead.
    pub delayed: bool,
}

/// A cost to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    /// 0: nothing is charged.
    pub cost: u64,
    /// `rl.slide-max-log`.
    pub max_log: u64,
}
