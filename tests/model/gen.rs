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
struct Plan {
    name: Vec<u8>,
    /// Used with the plain commands.
    plain: bool,
    /// The policy that stands before the rules.
    policy: Option<Vec<u8>>,
    rules: Vec<Settings>,
    /// The settings before the last change, to take turns with.
    other: Vec<Settings>,
}

/// An endless sequence of calls.
pub struct Scenario {
    rng: StdRng,
    options: Options,
    model: Model,
    now_us: i64,
    plans: Vec<Plan>,
    last: Option<Vec<Vec<u8>>>,
    /// Waits of the last reply, in ms.
    waits: Vec<i64>,
    /// How many policies were set to begin with.
    policies_set: usize,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn new(seed: u64, options: Options) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let plans = (0..options.keys).map(|i| plan(&mut rng, &options, i)).collect();
        let now_us = START_US + rng.random_range(0..3) * rng.random_range(0..2000);
        Scenario { rng, options, model: Model::new(), now_us, plans, last: None, waits: vec![], policies_set: 0 }
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
                self.now_us += wait * 1000 + [0, 0, 0, -1000, -1000, -1, 1, 1000].choose(rng).unwrap();
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
                    if let Some(at) = (!plan.rules.is_empty()).then(|| rng.random_range(0..plan.rules.len())) {
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

    /// The words of a plan's rules.
    fn rule_words(&mut self, plan: &Plan) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        if let Some(name) = &plan.policy {
            words.extend([b"POLICY".to_vec(), name.clone()]);
        }
        for s in &plan.rules {
            words.push(words::cased(&mut self.rng, s.algorithm()));
            words.extend(words::of(&mut self.rng, s));
        }
        words
    }

    /// How many rules a plan asks for, policies unfolded.
    fn count(&self, plan: &Plan) -> usize {
        let policy = plan.policy.as_ref().and_then(|n| self.model.policies.get(n));
        plan.rules.len() + policy.map_or(0, |p| p.rules.len())
    }

    /// A cost for a limit.
    fn cost(&mut self, limit: i64) -> i64 {
        let rng = &mut self.rng;
        match rng.random_range(0..20) {
            0..=9 => 1,
            10..=13 => rng.random_range(1..=limit.min(5)),
            14..=15 => limit,
            16 => (limit - 1).max(1),
            17 => (limit / 2).max(1),
            18 => rng.random_range(1..=limit),
            _ => (limit + rng.random_range(1..3)).min(1_000_000_000_000),
        }
    }

    /// `COST` with one number or a list, or nothing.
    fn cost_words(&mut self, limits: &[i64], list: bool) -> Vec<Vec<u8>> {
        let smallest = limits.iter().copied().min().unwrap_or(1);
        if self.rng.random_bool(0.4) {
            return vec![];
        }
        let mut words = vec![words::cased(&mut self.rng, "COST")];
        if list && limits.len() > 1 && self.rng.random_bool(0.5) {
            for limit in limits {
                let zero = self.rng.random_bool(0.25);
                let cost = if zero { 0 } else { self.cost(*limit) };
                words.push(cost.to_string().into_bytes());
            }
        } else {
            words.push(self.cost(smallest).to_string().into_bytes());
        }
        words
    }

    /// The limits of a plan's rules, policies unfolded.
    fn limits(&self, plan: &Plan) -> Vec<i64> {
        let policy = plan.policy.as_ref().and_then(|n| self.model.policies.get(n));
        let unfolded = policy.iter().flat_map(|p| &p.rules);
        unfolded.chain(&plan.rules).map(|s| s.limit()).collect()
    }

    /// FORCE and COST, in either order.
    fn tail(&mut self, limits: &[i64], list: bool) -> Vec<Vec<u8>> {
        let mut words = self.cost_words(limits, list);
        if !self.options.no_force && self.rng.random_bool(0.08) {
            let at = if self.rng.random_bool(0.5) { 0 } else { words.len() };
            words.insert(at, words::cased(&mut self.rng, "FORCE"));
        }
        words
    }

    fn charge(&mut self, plan: &Plan) -> Vec<Vec<u8>> {
        let limits = self.limits(plan);
        if plan.plain && plan.rules.len() == 1 && plan.policy.is_none() {
            let name = format!("RL.{}", plan.rules[0].algorithm());
            let mut call = vec![name.into_bytes(), plan.name.clone()];
            call.extend(words::of(&mut self.rng, &plan.rules[0]));
            call.extend(self.tail(&limits, false));
            return call;
        }
        let mut call = vec![b"RL.CHARGE".to_vec(), plan.name.clone()];
        call.extend(self.rule_words(plan));
        call.extend(self.tail(&limits, true));
        call
    }

    fn peek(&mut self, plan: &Plan) -> Vec<Vec<u8>> {
        let mut call = vec![b"RL.PEEK".to_vec(), plan.name.clone()];
        call.extend(self.rule_words(plan));
        call.extend(self.cost_words(&self.limits(plan), true));
        call
    }

    fn peek_kept(&mut self, plan: &Plan) -> Vec<Vec<u8>> {
        let mut call = vec![b"RL.PEEK".to_vec(), plan.name.clone()];
        if self.rng.random_bool(0.3) {
            call.extend(self.cost_words(&self.limits(plan), true));
        }
        call
    }

    fn refund(&mut self, plan: &Plan) -> Vec<Vec<u8>> {
        let mut call = vec![b"RL.REFUND".to_vec(), plan.name.clone()];
        if self.rng.random_bool(0.4) {
            let wait = self.waits.choose(&mut self.rng).copied().unwrap_or(5).clamp(1, 86_400_000);
            let age = match self.rng.random_range(0..4) {
                0 => 1,
                1 => wait,
                2 => self.rng.random_range(1..=wait),
                _ => self.rng.random_range(1..5000),
            };
            call.push(words::cased(&mut self.rng, "AGE"));
            call.push(words::duration(&mut self.rng, age));
        }
        let mut limits = self.limits(plan);
        limits.truncate(self.rng.random_range(1..=limits.len().max(1)));
        call.extend(self.cost_words(&limits, true));
        call
    }

    fn mcharge(&mut self) -> Vec<Vec<u8>> {
        let n = self.rng.random_range(1..=self.plans.len());
        let first = self.rng.random_range(0..self.plans.len());
        let (mut keys, mut rules, mut limits) = (vec![], vec![], vec![]);
        for i in 0..n {
            let mut plan = self.plans[(first + i) % self.plans.len()].clone();
            // One rule per key: the policy if there is one, else the first rule.
            plan.rules.truncate(plan.policy.is_none() as usize);
            if plan.policy.is_none() && plan.rules.is_empty() {
                continue;
            }
            keys.push(plan.name.clone());
            rules.extend(self.rule_words(&plan));
            limits.extend(self.limits(&plan));
        }
        if keys.is_empty() {
            return vec![b"RL.PEEK".to_vec(), self.plans[first].name.clone()];
        }
        let mut call = vec![b"RL.MCHARGE".to_vec(), keys.len().to_string().into_bytes()];
        call.extend(keys);
        call.extend(rules);
        call.extend(self.tail(&limits, true));
        call
    }

    fn throttle(&mut self, plan: &Plan) -> Vec<Vec<u8>> {
        let (burst, count, period) = match plan.rules.first() {
            Some(Settings::Token(b)) if b.period_us % 1_000_000 == 0 => {
                (b.capacity - 1, b.rate, b.period_us / 1_000_000)
            }
            _ => (self.rng.random_range(0..20), self.rng.random_range(1..50), self.rng.random_range(1..90)),
        };
        let mut call = vec![b"CL.THROTTLE".to_vec(), plan.name.clone()];
        call.extend([burst, count, period].map(|n| n.to_string().into_bytes()));
        if self.rng.random_bool(0.6) {
            let quantity = if self.rng.random_bool(0.2) { 0 } else { self.cost(burst + 1) };
            call.push(quantity.to_string().into_bytes());
        }
        call
    }

    /// Sets, edits or (seldom) deletes a policy.
    fn policy_edit(&mut self) -> Vec<Vec<u8>> {
        let name = policy_names().choose(&mut self.rng).unwrap().clone();
        if self.rng.random_bool(0.07) {
            return vec![b"RL.POLICY".to_vec(), b"DEL".to_vec(), name];
        }
        self.policy_set(name)
    }

    fn policy_set(&mut self, name: Vec<u8>) -> Vec<Vec<u8>> {
        let o = self.options.clone();
        let held = self.model.policies.get(&name).cloned();
        let mut rules = held.as_ref().map(|p| p.rules.clone()).unwrap_or_default();
        for _ in 0..self.rng.random_range(0..3) {
            let blocks = !o.no_blocks;
            match self.rng.random_range(0..6) {
                0..=2 if !rules.is_empty() => {
                    let at = self.rng.random_range(0..rules.len());
                    words::change(&mut self.rng, &mut rules[at], o.small_only, blocks);
                }
                3 if rules.len() > 1 => {
                    rules.remove(self.rng.random_range(0..rules.len()));
                }
                4 if !rules.is_empty() => {
                    let at = self.rng.random_range(0..rules.len());
                    rules[at] = words::random_settings(&mut self.rng, o.small_only, blocks);
                }
                _ if rules.len() < 4 => rules.push(words::random_settings(&mut self.rng, o.small_only, blocks)),
                _ => {}
            }
        }
        if rules.is_empty() {
            rules.push(words::random_settings(&mut self.rng, o.small_only, !o.no_blocks));
        }
        let plan = Plan { name: vec![], plain: false, policy: None, rules, other: vec![] };
        let mut call = vec![b"RL.POLICY".to_vec(), b"SET".to_vec(), name];
        call.extend(self.rule_words(&plan));
        let was = held.is_some_and(|p| p.shadow);
        if if self.rng.random_bool(0.8) { was } else { self.rng.random_bool(0.4) } {
            call.push(b"SHADOW".to_vec());
        }
        call
    }

    /// A charge with one word spoilt, dropped, doubled or added.
    fn wrong(&mut self, plan: &Plan) -> Vec<Vec<u8>> {
        let mut call = self.charge(plan);
        let at = self.rng.random_range(2..call.len());
        let bad: &[&[u8]] = &[
            b"0", b"-1", b"+1", b"01", b" 1", b"1.5", b"1e3", b"", b"9223372036854775808", b"\xff\xfe",
            b"1000000000001", b"0s", b"01s", b"1S", b"3651d", b"COST", b"FORCE", b"PER", b"BLOCKS", b"TOKEN",
        ];
        let word = bad.choose(&mut self.rng).unwrap().to_vec();
        match self.rng.random_range(0..5) {
            0 => {
                call.remove(at);
            }
            1 => call.push(word),
            2 => call.insert(at, call[at].clone()),
            _ => call[at] = word,
        }
        // The command itself is wrong in one call of twenty: arity.
        if self.rng.random_bool(0.05) {
            call.truncate(2);
        }
        call
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
