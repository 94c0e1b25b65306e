//! The four algorithms as one rule with its settings and its state.
//!
//! Every function is a plain reading of SPEC section 3. A [`Rule`] is first
//! *repaired* (marks after `now`), then brought *to now* under its kept
//! settings, then, where the settings asked for differ, *changed*; only then it
//! is decided, charged, refunded or shown.

use super::numbers::*;
pub use super::settings::{Bucket, Settings};

/// One piece of a SLIDE log: a stamp (log) or the first ms of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at_ms: i64,
    pub cost: i64,
}

/// What a rule remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// As good as new: nothing is remembered.
    Fresh,
    /// TOKEN: capacity - level; LEAKY: level; as it stood at `mark_us`.
    /// `cut` is the part that a lowered capacity has cut off.
    Used { used: Rat, cut: Rat, mark_us: i64 },
    /// SLIDE: oldest first. With BLOCKS `at_ms` is the first ms of a block.
    Log(Vec<Entry>),
    /// FIXED: when the count began and the count.
    Count { begin_us: i64, count: i64 },
}

/// One rule of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub settings: Settings,
    pub state: State,
}

/// What a rule says to a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Passes; the delay is that of LEAKY.
    Pass { delay_ms: i64 },
    /// Denied; passes after this wait.
    Wait { retry_ms: i64 },
    /// Denied, and never passes.
    Never,
}

impl Rule {
    /// A rule that has not been used.
    pub fn fresh(settings: Settings) -> Self {
        Rule { settings, state: State::Fresh }
    }

    fn with(&self, state: State) -> Self {
        Rule { settings: self.settings.clone(), state }
    }

    /// The width of a block, 1 for the exact log: then a "block" is one ms and
    /// its end is the first ms after it.
    pub(super) fn width(settings: &Settings) -> i64 {
        match settings {
            Settings::Slide { window_ms, blocks: Some(n), .. } => div_up(*window_ms, *n),
            _ => 1,
        }
    }

    /// The first moment (ms) at which an entry no longer counts.
    fn over_ms(settings: &Settings, entry: &Entry) -> i64 {
        match settings {
            // log: e + window
            Settings::Slide { window_ms, blocks: None, .. } => entry.at_ms + window_ms,
            // blocks: block end + window
            Settings::Slide { window_ms, .. } => entry.at_ms + Self::width(settings) + window_ms,
            _ => unreachable!("only SLIDE has entries"),
        }
    }

    /// Where a stamp is kept: itself, or the first ms of the block that holds it.
    pub(super) fn place(settings: &Settings, stamp_ms: i64) -> i64 {
        aligned_start(stamp_ms, Self::width(settings), 0)
    }

    /// The window of a FIXED count: first moment and first moment after it, in us.
    fn window_us(settings: &Settings, begin_us: i64) -> (i64, i64) {
        match settings {
            Settings::Fixed { window_ms, align_ms: None, .. } => {
                (begin_us, begin_us + window_ms * 1000)
            }
            Settings::Fixed { window_ms, align_ms: Some(offset), .. } => {
                let start = aligned_start(begin_us, window_ms * 1000, offset * 1000);
                (start, start + window_ms * 1000)
            }
            _ => unreachable!("only FIXED has a window"),
        }
    }

    /// The repair of a stepped clock: `None` when no mark lies after `now`.
    pub fn repaired(&self, now_us: i64) -> Option<Rule> {
        match &self.state {
            State::Used { used, cut, mark_us } if *mark_us > now_us => {
                Some(self.with(State::Used {
                    used: used.clone(),
                    cut: cut.clone(),
                    mark_us: now_us,
                }))
            }
            State::Count { begin_us, count } if *begin_us > now_us => {
                Some(self.with(State::Count { begin_us: now_us, count: *count }))
            }
            // A stamp, or the first ms of a block, more than 1 ms after now.
            State::Log(entries) if entries.iter().any(|e| e.at_ms * 1000 > now_us + 1000) => {
                let place = Self::place(&self.settings, ms_up(now_us));
                let moved = entries.iter().map(|e| Entry {
                    at_ms: if e.at_ms * 1000 > now_us + 1000 { place } else { e.at_ms },
                    cost: e.cost,
                });
                Some(self.with(State::Log(self.in_order(moved.collect()))))
            }
            _ => None,
        }
    }

    /// Entries sorted, oldest first; equal blocks merged (log entries are not).
    fn in_order(&self, entries: Vec<Entry>) -> Vec<Entry> {
        Self::sorted(&self.settings, entries)
    }

    pub(super) fn sorted(settings: &Settings, mut entries: Vec<Entry>) -> Vec<Entry> {
        entries.sort_by_key(|e| e.at_ms);
        if matches!(settings, Settings::Slide { blocks: Some(_), .. }) {
            let mut merged: Vec<Entry> = Vec::new();
            for e in entries {
                match merged.last_mut() {
                    Some(last) if last.at_ms == e.at_ms => last.cost += e.cost,
                    _ => merged.push(e),
                }
            }
            return merged;
        }
        entries
    }

    /// The state at `now` under the kept settings: refilled, drained, what is
    /// over dropped, and `Fresh` when it is as good as new. Marks in the future
    /// must have been repaired.
    pub fn at(&self, now_us: i64) -> Rule {
        let state = match &self.state {
            State::Fresh => State::Fresh,
            State::Used { used, cut, mark_us } => {
                let b = self.settings.bucket().expect("a bucket");
                let back = rat(b.rate) * rat(now_us - mark_us) / rat(b.period_us);
                let used = used - back;
                if used > zero() {
                    State::Used { used, cut: cut.clone(), mark_us: now_us }
                } else {
                    State::Fresh
                }
            }
            State::Log(entries) => {
                let kept: Vec<Entry> = entries
                    .iter()
                    .filter(|e| now_us < Self::over_ms(&self.settings, e) * 1000)
                    .cloned()
                    .collect();
                if kept.is_empty() {
                    State::Fresh
                } else {
                    State::Log(kept)
                }
            }
            State::Count { begin_us, count } => {
                let (_, end_us) = Self::window_us(&self.settings, *begin_us);
                if now_us < end_us && *count > 0 {
                    State::Count { begin_us: *begin_us, count: *count }
                } else {
                    State::Fresh
                }
            }
        };
        self.with(state)
    }

    /// Repaired and brought to now.
    pub fn seen(&self, now_us: i64) -> Rule {
        self.repaired(now_us).unwrap_or_else(|| self.clone()).at(now_us)
    }

    /// As good as new at `now` under the kept settings.
    pub fn is_fresh(&self, now_us: i64) -> bool {
        self.seen(now_us).state == State::Fresh
    }

    /// What is used: a level, a total, or a count.
    fn used(&self) -> Rat {
        match &self.state {
            State::Fresh => zero(),
            State::Used { used, .. } => used.clone(),
            State::Log(entries) => rat(entries.iter().map(|e| e.cost).sum()),
            State::Count { count, .. } => rat(*count),
        }
    }

    /// How many calls of cost 1 would pass now.
    pub fn remaining(&self) -> i64 {
        floor(&(rat(self.settings.limit()) - self.used())).max(0)
    }

    /// Until as good as new, in ms, rounded up.
    pub fn reset_ms(&self, now_us: i64) -> i64 {
        match &self.state {
            State::Fresh => 0,
            State::Used { used, .. } => self.settings.bucket().unwrap().ms_for(used),
            State::Log(entries) => {
                let last = entries.iter().map(|e| Self::over_ms(&self.settings, e)).max().unwrap();
                ms_up(last * 1000 - now_us)
            }
            State::Count { begin_us, .. } => {
                ms_up(Self::window_us(&self.settings, *begin_us).1 - now_us)
            }
        }
    }

    /// Whether `cost` passes now.
    pub fn decide(&self, cost: i64, now_us: i64) -> Verdict {
        let limit = self.settings.limit();
        if cost > limit {
            return Verdict::Never;
        }
        let excess = self.used() + rat(cost) - rat(limit);
        if excess <= zero() {
            let delay_ms = match (&self.settings, &self.state) {
                (Settings::Leaky(b), State::Used { used, .. }) => b.ms_for(used),
                _ => 0,
            };
            return Verdict::Pass { delay_ms };
        }
        let retry_ms = match &self.state {
            State::Fresh => unreachable!("cost is at most the limit"),
            State::Used { .. } => self.settings.bucket().unwrap().ms_for(&excess),
            State::Log(entries) => {
                // Let the oldest leave, one after the other, until it is enough.
                let mut left = zero();
                let mut over = 0;
                for e in entries {
                    if left >= excess {
                        break;
                    }
                    left += rat(e.cost);
                    over = Self::over_ms(&self.settings, e);
                }
                ms_up(over * 1000 - now_us)
            }
            State::Count { .. } => self.reset_ms(now_us),
        };
        Verdict::Wait { retry_ms }
    }

    /// Books `cost` (whether or not it passes: FORCE). `max_log` is the number
    /// of entries a log may have beside its limit.
    pub fn charged(&self, cost: i64, now_us: i64, max_log: i64) -> Rule {
        let state = match &self.settings {
            Settings::Token(b) | Settings::Leaky(b) => {
                let used = (self.used() + rat(cost)).min(rat(b.capacity) * rat(2));
                let cut = match &self.state {
                    State::Used { cut, .. } => cut.clone(),
                    _ => zero(),
                };
                State::Used { used, cut, mark_us: now_us }
            }
            Settings::Slide { limit, blocks, .. } => {
                let mut entries = match &self.state {
                    State::Log(entries) => entries.clone(),
                    _ => Vec::new(),
                };
                let total: i64 = entries.iter().map(|e| e.cost).sum();
                let cost = cost.min(MAX_COUNT - total);
                let at_ms = Self::place(&self.settings, ms_up(now_us));
                // READING: charges of one stamp are one entry, also when a repair has
                // brought them together (it matters here only).
                let mut stamps: Vec<i64> = entries.iter().map(|e| e.at_ms).collect();
                stamps.dedup();
                let full = blocks.is_none() && stamps.len() as i64 >= max_log.max(*limit);
                if full && !stamps.contains(&at_ms) {
                    // The newest entry moves as a whole.
                    // READING: never back, also where it lies a millisecond after now.
                    let last_ms = stamps.last().copied().expect("not empty");
                    for entry in entries.iter_mut().filter(|e| e.at_ms == last_ms) {
                        entry.at_ms = at_ms.max(last_ms);
                    }
                    entries.last_mut().expect("not empty").cost += cost;
                } else {
                    entries.push(Entry { at_ms, cost });
                }
                State::Log(self.in_order(entries))
            }
            Settings::Fixed { .. } => match &self.state {
                State::Count { begin_us, count } => {
                    State::Count { begin_us: *begin_us, count: (count + cost).min(MAX_COUNT) }
                }
                _ => State::Count { begin_us: now_us, count: cost },
            },
        };
        self.with(state)
    }

    /// Gives `cost` back. `moment_ms` is (now - age) rounded up, if AGE was given.
    pub fn refunded(&self, cost: i64, moment_ms: Option<i64>, now_us: i64) -> Rule {
        let state = match &self.state {
            State::Fresh => State::Fresh,
            // READING: only `used` is given back, the cut-off part is not
            // touched (it is forgotten when used reaches 0).
            State::Used { used, cut, mark_us } => {
                State::Used { used: used - rat(cost), cut: cut.clone(), mark_us: *mark_us }
            }
            State::Log(entries) => {
                let mut rest = cost;
                let mut entries = entries.clone();
                for e in entries.iter_mut().rev() {
                    if moment_ms.is_none_or(|m| e.at_ms <= m) {
                        let back = rest.min(e.cost);
                        e.cost -= back;
                        rest -= back;
                    }
                }
                State::Log(entries.into_iter().filter(|e| e.cost > 0).collect())
            }
            State::Count { begin_us, count } => {
                let opened_us = Self::window_us(&self.settings, *begin_us).0;
                let back = match moment_ms {
                    Some(m) if opened_us > m * 1000 => 0,
                    _ => cost.min(*count),
                };
                State::Count { begin_us: *begin_us, count: count - back }
            }
        };
        self.with(state).at(now_us)
    }
}
