//! The pure core: rules, states, decisions and their encoding. No Redis type, no clock, no float.
//!
//! A decision is a function of the rules asked for, what the key holds, the time and the costs:
//!
//! ```text
//!   Limiter (what a key holds) ─┐
//!   Asks (rules and costs)      ├─▶ layers::decide ─▶ Decision ─▶ rows for the reply
//!   now                         ┘                        └─ write ─▶ Limiter', Change (for replicas)
//! ```
//!
//! One file per algorithm: `token` and `leaky` share the exact arithmetic of `level`; `slide` and
//! `blocks` share the ring of `log`; `fixed` stands alone. `layers` decides lists of rules all or
//! nothing; `solo` does the same for one rule without a list, and `steady` for a list as the key keeps it. `codec` holds the bytes of a stored list, `change` those that travel to replicas.

mod algorithm;
pub mod blocks;
pub mod bytes;
pub mod change;
mod checksum;
pub mod codec;
pub mod few;
pub mod fixed;
pub mod inspect;
pub mod layers;
mod leaky;
pub mod level;
pub mod limiter;
pub mod log;
#[cfg(test)]
mod logged;
mod position;
#[cfg(test)]
mod proofs;
pub mod refund;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod shortcuts;
pub mod slide;
pub mod solo;
pub mod steady;
pub mod time;
mod token;
pub mod write;

pub use fixed::Fixed;
pub use layers::{decide, Decision, Misfit, Request};
pub use level::Bucket;
pub use limiter::Limiter;
pub use slide::Slide;
pub use time::{Micros, Millis};

/// The largest capacity, limit, rate and cost.
pub const MAX_AMOUNT: u64 = 1_000_000_000_000;
/// The longest period, window and age: 3650 days in milliseconds.
pub const MAX_DURATION_MS: u64 = 3650 * 86_400_000;
/// The largest offset of an aligned window either way: 7 days in milliseconds.
pub const MAX_OFFSET_MS: u64 = 7 * 86_400_000;
/// A bucket must be as good as new within 36500 days.
pub const MAX_RESET_MS: u64 = 36_500 * 86_400_000;
/// The most blocks a window is cut into.
pub const MAX_BLOCKS: u16 = 1000;
/// The most rules on one key.
pub const MAX_RULES: usize = 16;
/// Counts of SLIDE and FIXED stop here.
pub const MAX_COUNT: u64 = 1 << 62;

/// Whether `value` is 1 to `max`.
const fn in_range(value: u64, max: u64) -> bool {
    value >= 1 && value <= max
}

/// One limit: an algorithm and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A bucket that refills.
    Token(Bucket),
    /// A bucket that drains, and tells how long to wait.
    Leaky(Bucket),
    /// A trailing window.
    Slide(Slide),
    /// A window that turns.
    Fixed(Fixed),
}

/// The algorithm of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// `TOKEN`
    Token,
    /// `LEAKY`
    Leaky,
    /// `SLIDE`, with or without BLOCKS
    Slide,
    /// `FIXED`, with or without ALIGN
    Fixed,
}

impl Algorithm {
    /// All, in the order of their numbers in stored bytes.
    pub const ALL: [Self; 4] = [Self::Token, Self::Leaky, Self::Slide, Self::Fixed];

    /// The keyword of the commands.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Token => "TOKEN",
            Self::Leaky => "LEAKY",
            Self::Slide => "SLIDE",
            Self::Fixed => "FIXED",
        }
    }
}

impl Rule {
    /// The rule's algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Token(_) => Algorithm::Token,
            Self::Leaky(_) => Algorithm::Leaky,
            Self::Slide(_) => Algorithm::Slide,
            Self::Fixed(_) => Algorithm::Fixed,
        }
    }

    /// The capacity or limit.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        match self {
            Self::Token(b) | Self::Leaky(b) => b.capacity(),
            Self::Slide(s) => s.limit(),
            Self::Fixed(f) => f.limit(),
        }
    }

    /// Milliseconds in which a limiter of which everything is used is as good as new.
    #[must_use]
    pub fn full_reset_ms(&self) -> u64 {
        match self {
            Self::Token(b) | Self::Leaky(b) => b.full_reset_ms(),
            Self::Slide(s) => s.full_reset_ms(),
            Self::Fixed(f) => f.window_ms(),
        }
    }
}

/// A rule that a call asks for, and what it charges there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The limit.
    pub rule: Rule,
    /// Its cost, 0 to 10^12; 0 shows the rule without charging it.
    pub cost: u64,
    /// The rule belongs to a shadow policy: it never makes a call fail.
    pub shadow: bool,
}

/// When the same call passes if nobody else asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It passes now.
    Now,
    /// After this many milliseconds, at least 1, and not 1 ms earlier.
    After(u64),
    /// Its cost is above the capacity or limit.
    Never,
}

impl Wait {
    const fn of(wait_ms: Option<u64>) -> Self {
        match wait_ms {
            Some(0) => Self::Now,
            Some(ms) => Self::After(ms),
            None => Self::Never,
        }
    }

    /// For comparing waits: never is the longest.
    #[must_use]
    pub const fn rank(self) -> u64 {
        match self {
            Self::Now => 0,
            Self::After(ms) => ms,
            Self::Never => u64::MAX,
        }
    }
}

/// What one rule says of a call; the reply shows it as six integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// When the call passes this rule.
    pub wait: Wait,
    /// Calls of cost 1 that would pass now.
    pub remaining: u64,
    /// Milliseconds until the rule is as good as new.
    pub reset_ms: u64,
    /// The capacity or limit asked for.
    pub limit: u64,
    /// Milliseconds that the caller waits before it goes ahead (LEAKY).
    pub delay_ms: u64,
    /// Whether the rule belongs to a shadow policy.
    pub shadow: bool,
}

impl Row {
    /// Whether the rule denies the call.
    #[must_use]
    pub fn denies(&self) -> bool {
        self.wait != Wait::Now
    }
}
