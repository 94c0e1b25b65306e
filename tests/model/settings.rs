//! The settings of a rule.

use super::numbers::*;

/// The settings of one rule. Two settings are the same when all numbers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settings {
    Token(Bucket),
    Leaky(Bucket),
    Slide { limit: i64, window_ms: i64, blocks: Option<i64> },
    Fixed { limit: i64, window_ms: i64, align_ms: Option<i64> },
}

/// The settings of TOKEN and LEAKY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub capacity: i64,
    pub rate: i64,
    pub period_us: i64,
}

impl Bucket {
    /// How long `amount` takes to refill or drain, in whole ms, rounded up.
    pub fn ms_for(&self, amount: &Rat) -> i64 {
        ceil(&(amount * frac(self.period_us, self.rate) / rat(1000)))
    }
}

impl Settings {
    /// The word that names the algorithm.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Settings::Token(_) => "TOKEN",
            Settings::Leaky(_) => "LEAKY",
            Settings::Slide { .. } => "SLIDE",
            Settings::Fixed { .. } => "FIXED",
        }
    }

    /// The capacity or limit.
    pub fn limit(&self) -> i64 {
        match self {
            Settings::Token(b) | Settings::Leaky(b) => b.capacity,
            Settings::Slide { limit, .. } | Settings::Fixed { limit, .. } => *limit,
        }
    }

    /// The settings of TOKEN or LEAKY.
    pub fn bucket(&self) -> Option<&Bucket> {
        match self {
            Settings::Token(b) | Settings::Leaky(b) => Some(b),
            _ => None,
        }
    }

    /// What a full (used up) limiter needs until it is as good as new, in ms,
    /// at most. A log entry lives up to 1 ms longer than the window because its
    /// stamp is rounded up; a block up to one block longer.
    pub fn full_reset_ms(&self) -> i64 {
        match self {
            Settings::Token(b) | Settings::Leaky(b) => b.ms_for(&rat(b.capacity)),
            Settings::Slide { window_ms, blocks: None, .. } => window_ms + 1,
            Settings::Slide { window_ms, blocks: Some(n), .. } => {
                window_ms + div_up(*window_ms, *n)
            }
            Settings::Fixed { window_ms, .. } => *window_ms,
        }
    }
}
