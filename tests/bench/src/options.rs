//! Options, from the environment.

/// How much is measured, and what.
#[derive(Clone, Debug)]
pub struct Options {
    /// `ROUNDS`: how often each case is measured.
    pub rounds: usize,
    /// `CALLS`: commands per case and round.
    pub calls: u64,
    /// `KEYS`: how many keys a case has.
    pub keys: u64,
    /// `ONLY`: only cases whose name holds this.
    only: Option<String>,
    /// `QUICK=1`: a short run, for development.
    pub quick: bool,
}

impl Options {
    pub fn from_env() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let number = |name: &str, quick: u64, full: u64, is_quick: bool| {
            let preset = if is_quick { quick } else { full };
            text(name).map_or(preset, |v| v.parse().unwrap_or_else(|_| panic!("{name}: a number")))
        };
        let quick = text("QUICK").is_some_and(|v| v != "0");
        Self {
            rounds: number("ROUNDS", 3, 7, quick).max(1) as usize,
            calls: number("CALLS", 30_000, 100_000, quick),
            keys: number("KEYS", 20_000, 100_000, quick),
            only: text("ONLY").map(|v| v.to_lowercase()),
            quick,
        }
    }

    /// Whether a case of this name is asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.to_lowercase().contains(only))
    }

    /// Whether all cases are asked for: only then are pages written.
    pub fn is_full(&self) -> bool {
        self.only.is_none() && !self.quick
    }
}
