//! Random scenarios: calls with their times, mostly at the edges.
//!
//! A [`Scenario`] runs its own [`Model`] only to know the waits, so that the next
//! call can come exactly when a wait is over, 1 ms before, or 1 us beside it.

use super::algorithms::Settings;
use super::words;
use super::{Model, Reply};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// 2030-03-17T00:00:00Z in microseconds since the epoch.
pub const START_US: i64 = 1_899_936_000_000_000;
const YEAR_US: i64 = 365 * 86_400_000_000;

/// Which classes of calls a scenario has.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of keys.
    pub keys: usize,
    /// Only TOKEN, LEAKY, SLIDE and FIXED commands.
    pub plain_only: bool,
    /// The clock never goes back.
    pub no_steps_back: bool,
    /// Settings of a key stay as they are.
    pub no_changes: bool,
    pub no_force: bool,
    pub no_refund: bool,
    pub no_peek: bool,
    pub no_blocks: bool,
    pub no_mcharge: bool,
    pub no_policies: bool,
    pub no_throttle: bool,
    /// No calls that are wrong by syntax, range or count of costs.
    pub no_errors: bool,
    /// No other algorithm on a live key.
    pub no_wrongtype: bool,
    pub no_del: bool,
    /// Nothing above 1000 and one hour.
    pub small_only: bool,
}

impl Default for Options {
    /// Everything on, four keys.
    fn default() -> Self {
        Options {
            keys: 4,
            plain_only: false,
            no_steps_back: false,
            no_changes: false,
            no_force: false,
            no_refund: false,
            no_peek: false,
            no_blocks: false,
            no_mcharge: false,
            no_policies: false,
            no_throttle: false,
            no_errors: false,
            no_wrongtype: false,
            no_del: false,
            small_only: false,
        }
    }
}

impl Options {
    /// Only plain charges.
    pub fn plain() -> Self {
        Options { plain_only: true, ..Default::default() }
    }
}

/// A call and when it is made.
pub type Call = (i64, Vec<Vec<u8>>);

/// What a key is used with.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) name: Vec<u8>,
    /// Used with the plain commands.
    pub(super) plain: bool,
    /// The policy that stands before the rules.
    pub(super) policy: Option<Vec<u8>>,
    pub(super) rules: Vec<Settings>,
    /// The settings before the last change, to take turns with.
    pub(super) other: Vec<Settings>,
}

/// An endless sequence of calls.
pub struct Scenario {
    pub(super) rng: StdRng,
    pub(super) options: Options,
    pub(super) model: Model,
    now_us: i64,
    pub(super) plans: Vec<Plan>,
    last: Option<Vec<Vec<u8>>>,
    /// Waits of the last reply, in ms.
    pub(super) waits: Vec<i64>,
    /// How many policies were set to begin with.
    policies_set: usize,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn new(seed: u64, options: Options) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let plans = (0..options.keys).map(|i| plan(&mut rng, &options, i)).collect();
        let now_us = START_US + rng.random_range(0..3) * rng.random_range(0..2000);
        Scenario {
            rng,
            options,
            model: Model::new(),
            now_us,
            plans,
            last: None,
            waits: vec![],
            policies_set: 0,
        }
    }

    /// Tells the scenario that the server has removed a key.
    pub fn del(&mut self, key: &[u8]) {
        self.model.del(key);
    }

    /// The names of all keys.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.plans.iter().map(|p| p.name.clone()).collect()
    }

    /// The next call.
    pub fn next_call(&mut self) -> Call {
        let edge = self.step();
        let repeat = if edge { 0.8 } else { 0.35 };
        let call = match &self.last {
            Some(last) if self.rng.random_bool(repeat) => last.clone(),
            _ => self.fresh_call(),
        };
        let args: Vec<&[u8]> = call.iter().map(|w| w.as_slice()).collect();
        self.waits = match self.model.call(self.now_us, &args) {
            Reply::Six(six) => vec![six[2], six[3], six[5]],
            Reply::Layers(six, rows) => {
                let rows = rows.iter().flat_map(|r| [r[2], r[3]]);
                [six[2], six[3]].into_iter().chain(rows).collect()
            }
            Reply::Five(five) => vec![five[3] * 1000, five[4] * 1000],
            _ => vec![],
        };
        self.waits.retain(|w| *w > 0);
        let keep = self.model.policies.len() < 50 && !call[0].starts_with(b"RL.POLICY");
        self.last = keep.then(|| call.clone());
        (self.now_us, call)
    }

    /// Moves the clock; true if it moved to the edge of a wait.
    fn step(&mut self) -> bool {
        let rng = &mut self.rng;
        let back = !self.options.no_steps_back;
        let before = self.now_us;
        let mut edge = false;
        match rng.random_range(0..100) {
            0..=27 => {}
            28..=37 => self.now_us += rng.random_range(1..1500),
            38..=67 if !self.waits.is_empty() => {
                // The first wait is the call's own: the retry, if it was denied.
                let first = rng.random_bool(0.6);
                let wait = if first { self.waits[0] } else { *self.waits.choose(rng).unwrap() };
                self.now_us +=
                    wait * 1000 + [0, 0, 0, -1000, -1000, -1, 1, 1000].choose(rng).unwrap();
                edge = true;
            }
            68..=76 => self.now_us += rng.random_range(1..2000) * 1000,
            77..=84 => {
                let wait = self.waits.choose(rng).copied().unwrap_or(10).min(i64::MAX / 4000);
                self.now_us += rng.random_range(0..=wait * 1000);
            }
            85..=87 => self.now_us += rng.random_range(1..400 * 24) * 3_600_000_000,
            88..=94 if back => {
                self.now_us -= match rng.random_range(0..10) {
                    0 => 1,
                    1 => 1000,
                    2 => rng.random_range(1..1001),
                    3 => rng.random_range(1..3000),
                    4 => rng.random_range(1..10_000) * 1000,
                    5 => 1_000_000,
                    6 => 3_600_000_000,
                    7 => 10 * YEAR_US,
                    _ => self.waits.choose(rng).map_or(1001, |w| rng.random_range(0..=w * 1000)),
                };
            }
            _ => self.now_us += rng.random_range(0..50) * 1000,
        }
        // Stay between 1990 and 2230: microseconds and dates stay sane.
        if !(START_US - 40 * YEAR_US..START_US + 200 * YEAR_US).contains(&self.now_us) {
            self.now_us = if back { START_US + rng.random_range(0..1000) } else { before };
        }
        edge
    }

    /// A key, mostly one that is live.
    fn pick_key(&mut self, only_live: f64) -> usize {
        let live = |p: &Plan| self.model.bounds(&p.name, self.now_us).is_some();
        let live: Vec<usize> = (0..self.plans.len()).filter(|i| live(&self.plans[*i])).collect();
        match live.choose(&mut self.rng) {
            Some(at) if self.rng.random_bool(only_live) => *at,
            _ => self.rng.random_range(0..self.plans.len()),
        }
    }

    /// A call that is not a repetition.
    fn fresh_call(&mut self) -> Vec<Vec<u8>> {
        let o = self.options.clone();
        // The policies that keys are used with come first.
        if !o.plain_only && !o.no_policies && self.policies_set < policy_names().len() {
            self.policies_set += 1;
            return self.policy_set(policy_names()[self.policies_set - 1].clone());
        }
        let at = self.pick_key(0.5);
        self.evolve(at);
        let plan = self.plans[at].clone();
        let pick = self.rng.random_range(0..100);
        match pick {
            0..=8 if !o.plain_only && !o.no_peek => self.peek(&plan),
            9..=12 if !o.plain_only && !o.no_peek => self.peek_kept(&plan),
            13..=22 if !o.plain_only && !o.no_refund => {
                let at = self.pick_key(0.9);
                self.refund(&self.plans[at].clone())
            }
            23..=28 if !o.plain_only && !o.no_mcharge => self.mcharge(),
            29..=33 if !o.plain_only && !o.no_policies => self.policy_edit(),
            34..=35 if !o.no_wrongtype => {
                let mut other = plan;
                let blocks = !o.no_blocks;
                other.rules = vec![words::random_settings(&mut self.rng, o.small_only, blocks)];
                other.policy = None;
                self.charge(&other)
            }
            36..=37 if !o.no_errors => self.wrong(&plan),
            38 if !o.no_del => vec![b"DEL".to_vec(), plan.name],
            39..=41 if !o.plain_only && !o.no_throttle => self.throttle(&plan),
            _ => self.charge(&plan),
        }
    }

    /// Sometimes changes what a key is used with.
    fn evolve(&mut self, at: usize) {
        let o = &self.options;
        let rng = &mut self.rng;
        let plan = &mut self.plans[at];
        if !o.no_changes {
            match rng.random_range(0..100) {
                0..=7 => {
                    plan.other = plan.rules.clone();
                    if let Some(at) =
                        (!plan.rules.is_empty()).then(|| rng.random_range(0..plan.rules.len()))
                    {
                        words::change(rng, &mut plan.rules[at], o.small_only, !o.no_blocks);
                    }
                }
                8..=12 if plan.other.len() == plan.rules.len() => {
                    std::mem::swap(&mut plan.rules, &mut plan.other)
                }
                _ => {}
            }
        }
        if !plan.plain && rng.random_bool(0.08) {
            if plan.rules.len() > 1 && rng.random_bool(0.55) {
                plan.rules.pop();
            } else if plan.rules.len() < 5 {
                plan.rules.push(words::random_settings(rng, o.small_only, !o.no_blocks));
            }
        }
        // Once in a while a key gets another use altogether.
        if rng.random_bool(0.01) {
            *plan = self::plan(rng, o, at);
        }
    }
}

impl Iterator for Scenario {
    type Item = Call;

    fn next(&mut self) -> Option<Call> {
        Some(self.next_call())
    }
}

/// The names of policies that scenarios use.
pub fn policy_names() -> Vec<Vec<u8>> {
    vec![b"p".to_vec(), b"Q_1".to_vec(), b"s.h-a".to_vec()]
}

/// What a key is used with to begin with.
fn plan(rng: &mut StdRng, o: &Options, i: usize) -> Plan {
    // One name has a NUL; all share a hash tag.
    let name = if i == 2 { b"{t}:\0k2".to_vec() } else { format!("{{t}}:k{i}").into_bytes() };
    let plain = o.plain_only || rng.random_bool(0.45);
    let policy = !plain && !o.no_policies && rng.random_bool(0.4);
    let policy = policy.then(|| policy_names().choose(rng).unwrap().clone());
    let n = match (plain, policy.is_some()) {
        (true, _) => 1,
        (_, true) => rng.random_range(0..3),
        _ => rng.random_range(1..5),
    };
    let rules = (0..n).map(|_| words::random_settings(rng, o.small_only, !o.no_blocks)).collect();
    Plan { name, plain, policy, rules, other: vec![] }
}
