//! Live changes: other settings on a rule that is in use (SPEC section 3).

use super::algorithms::{Entry, Rule, Settings, State};
use super::numbers::*;

impl Rule {
    /// The live change of a rule that was brought to now to other settings of
    /// the same algorithm.
    pub fn changed(&self, new: &Settings, now_us: i64) -> Rule {
        if self.settings == *new {
            return self.clone();
        }
        let state = match &self.state {
            State::Fresh => State::Fresh,
            State::Used { used, cut, .. } => {
                let (old_b, new_b) = (self.settings.bucket().unwrap(), new.bucket().unwrap());
                let mut used = ceil_to_multiple(used, new_b.period_us);
                let mut cut = ceil_to_multiple(cut, new_b.period_us);
                // READING: "a later raise gives it back to used first": only a
                // larger capacity gives the cut-off part back, all of it that
                // fits below the new capacity.
                if new_b.capacity > old_b.capacity {
                    used += cut;
                    cut = zero();
                }
                // READING: "where the new capacity is smaller than what is used"
                // holds for a debt made by FORCE too, even when only the rate
                // changes: the debt becomes the cut-off part.
                let capacity = rat(new_b.capacity);
                if used > capacity {
                    cut += &used - &capacity;
                    used = capacity;
                }
                State::Used { used, cut, mark_us: now_us }
            }
            State::Log(entries) => {
                let in_blocks = |s: &Settings| matches!(s, Settings::Slide { blocks: Some(_), .. });
                let same_place = in_blocks(&self.settings) == in_blocks(new)
                    && Self::width(&self.settings) == Self::width(new);
                let moved: Vec<Entry> = entries
                    .iter()
                    .map(|e| {
                        // READING: a block that keeps its length stays where it
                        // is; every other change stamps it anew.
                        let at_ms = if same_place {
                            e.at_ms
                        } else if matches!(self.settings, Settings::Slide { blocks: None, .. }) {
                            Self::place(new, e.at_ms)
                        } else {
                            let last_ms = e.at_ms + Self::width(&self.settings) - 1;
                            Self::place(new, last_ms.min(ms_up(now_us)))
                        };
                        Entry { at_ms, cost: e.cost }
                    })
                    .collect();
                State::Log(Self::sorted(new, moved))
            }
            State::Count { begin_us, count } => match new {
                Settings::Fixed { window_ms, .. } if now_us >= begin_us + window_ms * 1000 => {
                    State::Fresh
                }
                Settings::Fixed { window_ms, align_ms, .. } => {
                    let begin_us = match align_ms {
                        Some(offset) => {
                            aligned_start(now_us, window_ms * 1000, offset * 1000).max(*begin_us)
                        }
                        None => *begin_us,
                    };
                    State::Count { begin_us, count: *count }
                }
                _ => unreachable!("same algorithm"),
            },
        };
        // Drops what is over under the new settings.
        Rule { settings: new.clone(), state }.at(now_us)
    }
}
