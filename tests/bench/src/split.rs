//! One key hotter than a core, split over sub-keys with a share of the limit each: what the split
//! lets through, against what one key would have let through.
//!
//! ```text
//!   limit 1000 on one key    →    key:0 .. key:7 with 125 each, a call goes to one of them
//! ```
//!
//! Shares whose sum is the limit never let more through, but a sub-key may be used up while another
//! has room: under-admission. Shares rounded up may let more through: over-admission.

use crate::load::Random;
use crate::table::Table;
use redis_rl::limit::codec::Trail;
use redis_rl::limit::{decide, Ask, Bucket, Limiter, Request, Rule};

/// Tokens per second and capacity of the limiter that is split.
const RATE: u64 = 1000;
const SECONDS: u64 = 60;
pub const START_US: i64 = 1_900_000_000_000_000;
pub const PARTS: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// How calls find their sub-key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// At random for each call.
    Random,
    /// At random; a denied call asks one more.
    SecondTry,
    /// Each front end has its own sub-key, and traffic is skewed among them (Zipf, exponent 1).
    Skewed,
    /// As skewed; a denied call asks a random other one.
    SkewedSecondTry,
}

impl Routing {
    pub const ALL: [Self; 4] = [Self::Random, Self::SecondTry, Self::Skewed, Self::SkewedSecondTry];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random sub-key",
            Self::SecondTry => "random, a second try",
            Self::Skewed => "own sub-key, skewed",
            Self::SkewedSecondTry => "skewed, a second try",
        }
    }

    /// The two that are as good as a split gets: calls that come evenly, and calls that do not.
    const BEST: [Self; 2] = [Self::SecondTry, Self::SkewedSecondTry];

    pub const fn skewed(self) -> bool {
        matches!(self, Self::Skewed | Self::SkewedSecondTry)
    }

    const fn second_try(self) -> bool {
        matches!(self, Self::SecondTry | Self::SkewedSecondTry)
    }
}

/// How a limit that the number of sub-keys does not divide is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shares {
    Down,
    /// The first sub-keys get one more, so that the sum is the limit.
    DealtOut,
    Up,
}

impl Shares {
    const ALL: [Self; 3] = [Self::Down, Self::DealtOut, Self::Up];

    const fn name(self) -> &'static str {
        match self {
            Self::Down => "rounded down",
            Self::DealtOut => "dealt out",
            Self::Up => "rounded up",
        }
    }

    pub const fn of(self, limit: u64, parts: u64, i: u64) -> u64 {
        match self {
            Self::Down => limit / parts,
            Self::DealtOut => limit / parts + (i < limit % parts) as u64,
            Self::Up => limit.div_ceil(parts),
        }
    }
}

/// A limiter of the core.
pub struct Kept {
    held: Option<Limiter>,
    ask: [Ask; 1],
}

impl Kept {
    pub fn new(rule: Rule) -> Self {
        Self { held: None, ask: [Ask { rule, cost: 1, shadow: false }] }
    }

    /// A bucket of this share, refilled once a second.
    fn bucket(share: u64) -> Self {
        Self::new(Rule::Token(Bucket::new(share, share, 1000).expect("a share is within range")))
    }

    pub fn charge(&mut self, now: i64) -> bool {
        let trail = Trail::default();
        let request = Request { asks: &self.ask, trail, plain: true, force: false, max_log: 1000 };
        let decision = decide(self.held.as_ref(), request, now).expect("the rule never changes");
        let pass = decision.passes();
        if let Some(write) = decision.write(pass) {
            match &mut self.held {
                Some(limiter) => drop(write.update(limiter)),
                none => *none = Some(write.create().0),
            }
        }
        pass
    }
}

/// Calls admitted by a split into `parts`, against one key under the same calls, in percent.
/// `load` is the traffic against the rate.
pub fn admitted(parts: u64, load: f64, routing: Routing, limit: u64, shares: Shares) -> f64 {
    let mut whole = Kept::bucket(limit);
    let mut split: Vec<_> = (0..parts).map(|i| Kept::bucket(shares.of(limit, parts, i))).collect();
    let weights: Vec<f64> = (1..=parts).map(|i| 1.0 / i as f64).collect();
    let sum: f64 = weights.iter().sum();
    let mut random = Random::new(parts ^ limit);
    let zipf = |random: &mut Random| {
        let mut left = random.unit() * sum;
        weights.iter().position(|w| {
            left -= w;
            left < 0.0
        })
    };
    let (mut now, mut one, mut many) = (0.0, 0_u64, 0_u64);
    let mean_us = 1e6 / (limit as f64 * load);
    while now < (SECONDS * 1_000_000) as f64 {
        // Calls that come independently of each other.
        now -= (1.0 - random.unit()).ln() * mean_us;
        let at = START_US + now as i64;
        one += u64::from(whole.charge(at));
        let any = |random: &mut Random| random.below(parts) as usize;
        let first = match routing.skewed() {
            true => zipf(&mut random).unwrap_or(0),
            false => any(&mut random),
        };
        let mut pass = split[first].charge(at);
        if !pass && routing.second_try() {
            let second = any(&mut random);
            pass = second != first && split[second].charge(at);
        }
        many += u64::from(pass);
    }
    many as f64 / one as f64 * 100.0
}

/// Percent admitted, a column per routing, a row per number of sub-keys.
pub fn curves(load: f64) -> Vec<(Routing, Vec<f64>)> {
    let curve = |routing| {
        PARTS.iter().map(|n| admitted(*n, load, routing, RATE, Shares::DealtOut)).collect()
    };
    Routing::ALL.iter().map(|routing| (*routing, curve(*routing))).collect()
}

/// How a small limit fares, shared in one way.
pub struct Rounding {
    pub shares: Shares,
    pub routing: Routing,
    /// Percent admitted, one for each of [`parts_of`].
    pub values: Vec<f64>,
}

impl Rounding {
    pub fn name(&self) -> String {
        let traffic = if self.routing.skewed() { "skewed" } else { "random" };
        format!("{}, {traffic}", self.shares.name())
    }
}

/// Into how many sub-keys a limit can be split so that the least of them has a share.
pub fn parts_of(limit: u64) -> impl Iterator<Item = u64> {
    PARTS.into_iter().filter(move |n| *n <= limit)
}

/// Percent admitted of a small limit under `load` times as much traffic, a denied call with a second try.
pub fn rounding(limit: u64, load: f64) -> Vec<Rounding> {
    let curve = |routing, shares| {
        let percent = |parts| admitted(parts, load, routing, limit, shares);
        Rounding { shares, routing, values: parts_of(limit).map(percent).collect() }
    };
    let of = |routing| Shares::ALL.map(|shares| curve(routing, shares));
    Routing::BEST.into_iter().flat_map(of).collect()
}

pub fn rounding_table(limit: u64, curves: &[Rounding]) -> Table {
    let names = curves.iter().map(Rounding::name);
    let mut table = Table::new(std::iter::once("sub-keys".to_owned()).chain(names));
    for (i, parts) in parts_of(limit).enumerate() {
        let cells = curves.iter().map(|curve| format!("{:.0} %", curve.values[i]));
        table.row(std::iter::once(parts.to_string()).chain(cells));
    }
    table
}

pub fn table(curves: &[(Routing, Vec<f64>)]) -> Table {
    let names = curves.iter().map(|(routing, _)| routing.name());
    let mut table = Table::new(std::iter::once("sub-keys").chain(names));
    for (i, parts) in PARTS.iter().enumerate() {
        let cells = curves.iter().map(|(_, values)| format!("{:.1} %", values[i]));
        table.row(std::iter::once(parts.to_string()).chain(cells));
    }
    table
}
