//! The other place where a split could let too much through: the windows of its sub-keys, which need
//! not turn at the same time. Counted is the most that passes within one window, wherever it begins.
//!
//! ```text
//!   one key     |---- 100 ----|---- 100 ----|
//!   key:0       |---- 50 -----|---- 50 -----|
//!   key:1          |---- 50 -----|---- 50 -----|
//! ```

use crate::load::Random;
use crate::split::{parts_of, Kept, Shares, START_US};
use crate::table::Table;
use redis_rl::limit::{Bucket, Fixed, Rule, Slide};
use std::collections::VecDeque;

const WINDOW_MS: u64 = 1000;
const SECONDS: i64 = 600;

/// A rule with this limit.
type Make = fn(u64) -> Option<Rule>;

/// The limiters that are split, by name.
const RULES: [(&str, Make); 4] = [
    ("SLIDE", |n| Some(Rule::Slide(Slide::new(n, WINDOW_MS, None)?))),
    ("FIXED", |n| Some(Rule::Fixed(Fixed::new(n, WINDOW_MS, None)?))),
    ("FIXED ALIGN", |n| Some(Rule::Fixed(Fixed::new(n, WINDOW_MS, Some(0))?))),
    ("TOKEN", |n| Some(Rule::Token(Bucket::new(n, n, WINDOW_MS)?))),
];

/// The most that passes within one window, in percent of the limit.
fn most(rule: Make, parts: u64, limit: u64) -> f64 {
    let share = |i| rule(Shares::DealtOut.of(limit, parts, i)).expect("a share is within range");
    let mut keys: Vec<_> = (0..parts).map(|i| Kept::new(share(i))).collect();
    let mut random = Random::new(7);
    let (mut now, mut turn, mut load) = (0_i64, 0_i64, 1.0);
    let (mut passed, mut longest) = (VecDeque::new(), 0);
    while now < SECONDS * 1_000_000 {
        // Calls come in bursts and lulls, which is what leaves room at the end of a window.
        if now >= turn {
            load = if random.below(2) == 0 { 0.1 } else { 10.0 };
            turn = now + 100_000 + random.below(900_000) as i64;
        }
        let mean_us = 1e6 / (limit as f64 * load);
        now += 1 + (-(1.0 - random.unit()).ln() * mean_us) as i64;
        // All splits see the same calls: what they draw is the same however they answer.
        let (first, second) = (random.below(parts) as usize, random.below(parts) as usize);
        let at = START_US + now;
        let pass = keys[first].charge(at) || (second != first && keys[second].charge(at));
        if pass {
            passed.push_back(now);
            while passed.front().is_some_and(|t| now - t >= WINDOW_MS as i64 * 1000) {
                passed.pop_front();
            }
            longest = longest.max(passed.len());
        }
    }
    longest as f64 / limit as f64 * 100.0
}

/// A row per number of sub-keys, a column per algorithm.
pub fn table(limit: u64) -> Table {
    let names = RULES.iter().map(|(name, _)| *name);
    let mut table = Table::new(std::iter::once("sub-keys").chain(names));
    for parts in parts_of(limit) {
        let cells = RULES.iter().map(|(_, rule)| format!("{:.0} %", most(*rule, parts, limit)));
        table.row(std::iter::once(parts.to_string()).chain(cells));
    }
    table
}
