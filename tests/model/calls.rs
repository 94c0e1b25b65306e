//! The calls of a scenario, from what a key is used with to words.

use super::algorithms::Settings;
use super::gen::{policy_names, Plan, Scenario};
use super::words;
use rand::seq::IndexedRandom;
use rand::Rng;

impl Scenario {
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

    pub(super) fn charge(&mut self, plan: &Plan) -> Vec<Vec<u8>> {
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

    pub(super) fn peek(&mut self, plan: &Plan) -> Vec<Vec<u8>> {
        let mut call = vec![b"RL.PEEK".to_vec(), plan.name.clone()];
        call.extend(self.rule_words(plan));
        call.extend(self.cost_words(&self.limits(plan), true));
        call
    }

    pub(super) fn peek_kept(&mut self, plan: &Plan) -> Vec<Vec<u8>> {
        let mut call = vec![b"RL.PEEK".to_vec(), plan.name.clone()];
        if self.rng.random_bool(0.3) {
            call.extend(self.cost_words(&self.limits(plan), true));
        }
        call
    }

    pub(super) fn refund(&mut self, plan: &Plan) -> Vec<Vec<u8>> {
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

    pub(super) fn mcharge(&mut self) -> Vec<Vec<u8>> {
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

    pub(super) fn throttle(&mut self, plan: &Plan) -> Vec<Vec<u8>> {
        let (burst, count, period) = match plan.rules.first() {
            Some(Settings::Token(b)) if b.period_us % 1_000_000 == 0 => {
                (b.capacity - 1, b.rate, b.period_us / 1_000_000)
            }
            _ => (
                self.rng.random_range(0..20),
                self.rng.random_range(1..50),
                self.rng.random_range(1..90),
            ),
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
    pub(super) fn policy_edit(&mut self) -> Vec<Vec<u8>> {
        let name = policy_names().choose(&mut self.rng).unwrap().clone();
        if self.rng.random_bool(0.07) {
            return vec![b"RL.POLICY".to_vec(), b"DEL".to_vec(), name];
        }
        self.policy_set(name)
    }

    pub(super) fn policy_set(&mut self, name: Vec<u8>) -> Vec<Vec<u8>> {
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
                _ if rules.len() < 4 => {
                    rules.push(words::random_settings(&mut self.rng, o.small_only, blocks))
                }
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
    pub(super) fn wrong(&mut self, plan: &Plan) -> Vec<Vec<u8>> {
        let mut call = self.charge(plan);
        let at = self.rng.random_range(2..call.len());
        let bad: &[&[u8]] = &[
            b"0",
            b"-1",
            b"+1",
            b"01",
            b" 1",
            b"1.5",
            b"1e3",
            b"",
            b"9223372036854775808",
            b"\xff\xfe",
            b"1000000000001",
            b"0s",
            b"01s",
            b"1S",
            b"3651d",
            b"COST",
            b"FORCE",
            b"PER",
            b"BLOCKS",
            b"TOKEN",
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
