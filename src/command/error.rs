//! Errors as the client reads them: few, ASCII, with a code, naming the argument and its range,
//! never echoing what was sent.

use crate::limit::{Misfit, MAX_AMOUNT, MAX_BLOCKS, MAX_RULES};
use crate::server::Call;
use crate::stats;
use std::fmt::Write;

/// Why a call is not decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// The words do not form a call.
    Syntax,
    /// An argument is out of range; the rule it belongs to, where several were given.
    Argument(Argument, Option<usize>),
    /// No policy of that name.
    NoPolicy,
    /// The key holds another data type.
    WrongType,
    /// The key holds other algorithms.
    Misfit(Misfit),
    /// An internal command from somebody who is not the primary.
    Internal,
    /// A change that does not fit what the key holds.
    OtherState,
    /// Something that cannot happen.
    Bug,
}

/// An argument, and with it what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// An integer of this name, 1 to 10^12.
    Amount(&'static str),
    /// An integer of this name and range.
    Integer(&'static str, u64, u64),
    /// A duration of this name.
    Duration(&'static str),
    Offset,
    /// Capacity, rate and period together.
    Refill,
    /// The number of blocks.
    Blocks,
    /// A limit that asks for BLOCKS: the largest log.
    Log(u64),
    /// A cost that charges nothing.
    NoCost,
    /// A refund of nothing.
    NoRefund,
    CostCount,
    RuleCount,
    NumKeys,
    RepeatedKey,
    PolicyName,
    PolicyInPolicy,
    TooManyPolicies(u64),
}

impl Argument {
    fn write(self, out: &mut String) -> std::fmt::Result {
        match self {
            Self::Amount(name) => write!(out, "{name} must be an integer from 1 to {MAX_AMOUNT}"),
            Self::Integer(name, min, max) => {
                write!(out, "{name} must be an integer from {min} to {max}")
            }
            Self::Duration(name) => {
                write!(out, "{name} must be 1ms to 3650d with a unit: 500ms 60s 5m 2h 7d")
            }
            Self::Offset => {
                write!(out, "offset must be -7d to 7d with a unit, or 0: 0 8h -5h 90m")
            }
            Self::Refill => write!(out, "capacity must refill within 36500 days at this rate"),
            Self::Blocks => write!(out, "blocks must be an integer from 1 to {MAX_BLOCKS}"),
            Self::Log(max) => write!(
                out,
                "limit must be 1 to {max} for an exact log (rl.slide-max-log): add BLOCKS n"
            ),
            Self::NoCost => write!(
                out,
                "cost must be an integer from 1 to {MAX_AMOUNT}: to look without charging use RL.PEEK"
            ),
            Self::NoRefund => write!(
                out,
                "cost must be an integer from 1 to {MAX_AMOUNT}: to look without giving back use RL.PEEK"
            ),
            Self::CostCount => write!(out, "cost must be one number or one per rule"),
            Self::RuleCount => {
                write!(out, "rules must be 1 to {MAX_RULES} on one key, those of policies counted")
            }
            Self::NumKeys => {
                write!(out, "numkeys must be 1 to 64, followed by as many keys and as many rules")
            }
            Self::RepeatedKey => write!(out, "keys must be different from each other"),
            Self::PolicyName => {
                write!(out, "name must be 1 to 64 characters of A-Z a-z 0-9 _ . -")
            }
            Self::PolicyInPolicy => write!(out, "rules must not name another policy"),
            Self::TooManyPolicies(max) => {
                write!(out, "policies must be at most {max} (rl.max-policies): delete some first")
            }
        }
    }
}

impl Error {
    /// An argument of a call with one rule, or of none of its rules.
    pub(crate) const fn of(argument: Argument) -> Self {
        Self::Argument(argument, None)
    }

    fn text(&self) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        match self {
            Self::Syntax => write!(out, "ERR syntax error")?,
            Self::Argument(argument, rule) => {
                write!(out, "ERR ")?;
                argument.write(&mut out)?;
                if let Some(rule) = rule {
                    write!(out, " (rule {})", rule.saturating_add(1))?;
                }
            }
            Self::NoPolicy => write!(out, "NOPOLICY no such policy")?,
            Self::WrongType => write!(out, "WRONGTYPE")?,
            Self::Misfit(misfit) => {
                write!(out, "WRONGTYPE key holds")?;
                for algorithm in &misfit.holds {
                    write!(out, " {}", algorithm.name())?;
                }
                write!(out, ", not")?;
                for algorithm in &misfit.asked {
                    write!(out, " {}", algorithm.name())?;
                }
            }
            Self::Internal => write!(out, "ERR internal command")?,
            Self::OtherState => write!(out, "ERR this change was made to another state")?,
            Self::Bug => write!(out, "ERR internal error")?,
        }
        Ok(out)
    }

    /// Answers the call.
    pub(crate) fn answer(&self, call: &Call) {
        stats::error();
        match self {
            Self::WrongType => call.wrong_type(),
            _ => call.error(self.text().as_deref().unwrap_or("ERR internal error")),
        }
    }
}
