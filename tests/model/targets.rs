//! From written rules to what a call asks of each key, with one cost per rule.

use super::algorithms::Settings;
use super::args::{self, GivenRule, RawRule, Res};
use super::lists::{Asked, PolicyUse, Target};
use super::Model;

/// The most rules of one key.
pub(super) const MAX_RULES: usize = 16;

/// Rules as written for one key.
pub(super) struct Written<'a> {
    pub(super) key: &'a [u8],
    pub(super) rules: Vec<RawRule<'a>>,
}

impl Model {
    /// Refuses a log above `rl.slide-max-log`, unless the settings are the kept ones.
    pub(super) fn check_log(&self, given: GivenRule, kept: Option<&Settings>) -> Res<GivenRule> {
        if let GivenRule::Settings(s @ Settings::Slide { limit, blocks: None, .. }) = &given {
            if *limit > self.slide_max_log && kept != Some(s) {
                let max = self.slide_max_log;
                return Err(format!(
                    "ERR limit must be 1 to {max} without BLOCKS, use BLOCKS n for more"
                ));
            }
        }
        Ok(given)
    }

    /// Ranges, unknown policies, number of rules, number of costs: the targets of
    /// a call and one cost per unfolded rule.
    pub(super) fn targets(
        &self,
        written: &[Written],
        raw_costs: &Option<Vec<&[u8]>>,
        plain: bool,
        now_us: i64,
    ) -> Res<(Vec<Target>, Vec<i64>)> {
        let total: usize = written.iter().map(|w| w.rules.len()).sum();
        let mut given: Vec<Vec<GivenRule>> = Vec::new();
        let mut number = 0;
        for w in written {
            let key = self.keys.get(w.key);
            let mut list = Vec::new();
            let mut position = 0;
            for raw in &w.rules {
                let kept = key
                    .filter(|k| position < k.len_at(now_us) && k.is_there(position, now_us))
                    .map(|k| &k.rules[position].settings);
                let rule = args::rule(raw).and_then(|g| self.check_log(g, kept));
                let rule = rule.map_err(|e| numbered(e, number, total))?;
                position += match &rule {
                    GivenRule::Settings(_) => 1,
                    GivenRule::Policy(name) => self.policies.get(name).map_or(0, |p| p.rules.len()),
                };
                number += 1;
                list.push(rule);
            }
            given.push(list);
        }
        let costs = args::costs(raw_costs)?;
        let mut targets = Vec::new();
        for (w, list) in written.iter().zip(given) {
            let mut target = Target { key: w.key.to_vec(), rules: vec![], policies: vec![], plain };
            for (place, rule) in list.into_iter().enumerate() {
                match rule {
                    GivenRule::Settings(settings) => {
                        target.rules.push(Asked { settings, shadow: false })
                    }
                    GivenRule::Policy(name) => {
                        let p = self.policies.get(&name).ok_or("NOPOLICY no such policy")?;
                        let rules = p.rules.iter().cloned();
                        target
                            .rules
                            .extend(rules.map(|settings| Asked { settings, shadow: p.shadow }));
                        target.policies.push(PolicyUse { place, name, version: p.version });
                    }
                }
            }
            targets.push(target);
        }
        // READING: too many rules (written or unfolded) is checked after unknown
        // policies and before the cost count.
        if targets.iter().any(|t| t.rules.len() > MAX_RULES) {
            return Err(rule_count());
        }
        let unfolded = targets.iter().map(|t| t.rules.len()).sum();
        Ok((targets, spread(costs, unfolded)?))
    }
}

/// Adds the number of the rule where more than one is given.
pub(super) fn numbered(error: String, index: usize, total: usize) -> String {
    if total > 1 {
        format!("{error} (rule {})", index + 1)
    } else {
        error
    }
}

pub(super) fn rule_count() -> String {
    format!("ERR rules must be 1 to {MAX_RULES} per key, policies unfolded")
}

pub(super) fn cost_count() -> String {
    "ERR cost must be one number or one per rule".into()
}

/// One cost for all, or one per rule.
pub(super) fn spread(costs: Vec<i64>, rules: usize) -> Res<Vec<i64>> {
    match costs.as_slice() {
        [one] => Ok(vec![*one; rules]),
        list if list.len() == rules => Ok(costs),
        _ => Err(cost_count()),
    }
}
