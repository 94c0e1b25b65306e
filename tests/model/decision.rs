//! Deciding a call: rows, the binding rule, all or nothing.

use super::algorithms::{Rule, Verdict};
use super::lists::{self, Asked, Fit, Target};
use super::Model;

/// One rule of a reply.
#[derive(Clone, Debug)]
pub struct Row {
    pub six: [i64; 6],
    pub shadow: bool,
}

/// A decided call, before anything is stored.
pub struct Decision {
    pub allowed: bool,
    /// Per target: how its list fits.
    pub fits: Vec<Fit>,
    /// Per target and position: the rule as it stands.
    pub before: Vec<Vec<Rule>>,
    pub verdicts: Vec<Vec<Verdict>>,
}

/// How long a verdict makes the caller wait; 0 if it passes.
fn retry(verdict: &Verdict) -> i64 {
    match verdict {
        Verdict::Pass { .. } => 0,
        Verdict::Wait { retry_ms } => *retry_ms,
        Verdict::Never => -1,
    }
}

/// Retries by size: -1 beats all.
fn weight(retry: i64) -> i64 {
    if retry == -1 {
        i64::MAX
    } else {
        retry
    }
}

/// The row of a rule that stands as `rule`; `allowed` tells of the whole call.
fn row(rule: &Rule, verdict: &Verdict, allowed: bool, now_us: i64) -> [i64; 6] {
    let (passes, delay) = match verdict {
        Verdict::Pass { delay_ms } => (1, if allowed { *delay_ms } else { 0 }),
        _ => (0, 0),
    };
    let reset = rule.reset_ms(now_us);
    [passes, rule.remaining(), retry(verdict), reset, rule.settings.limit(), delay]
}

/// The verdict of `rule` on `cost`; 0 always passes without delay.
pub fn verdict(rule: &Rule, cost: i64, force: bool, now_us: i64) -> Verdict {
    if cost == 0 || force {
        return Verdict::Pass { delay_ms: 0 };
    }
    rule.decide(cost, now_us)
}

/// The first six integers of a reply of several rules.
pub fn first_six(rows: &[Row], allowed: bool) -> [i64; 6] {
    let live: Vec<&Row> = rows.iter().filter(|r| !r.shadow).collect();
    let only_shadow = live.is_empty();
    let counted: Vec<&Row> = if only_shadow { rows.iter().collect() } else { live };
    let binding = counted
        .iter()
        .min_by_key(|r| (r.six[1], -weight(r.six[2]), -r.six[3]))
        .expect("a reply has a rule");
    let longest = counted.iter().map(|r| r.six[2]).max_by_key(|r| weight(*r)).unwrap();
    let delay = counted.iter().map(|r| r.six[5]).max().unwrap();
    [
        allowed as i64,
        binding.six[1],
        if allowed { 0 } else { longest },
        binding.six[3],
        binding.six[4],
        // Shadow rules add no delay, also when there is no other rule.
        if allowed && !only_shadow { delay } else { 0 },
    ]
}

impl Model {
    /// Decides `targets`; `costs` has one cost per unfolded rule of all targets.
    pub fn decide(
        &self,
        targets: &[Target],
        costs: &[i64],
        force: bool,
        now_us: i64,
    ) -> Result<Decision, String> {
        for t in targets {
            self.check_type(&t.key)?;
        }
        let mut costs = costs.iter();
        let mut d = Decision { allowed: true, fits: vec![], before: vec![], verdicts: vec![] };
        for t in targets {
            let key = self.keys.get(&t.key);
            let fit = lists::fit(key, t, now_us)?;
            let mut before = Vec::new();
            let mut verdicts = Vec::new();
            for (i, asked) in t.rules.iter().enumerate() {
                let rule = lists::seen(key, i, fit.carries[i], asked, now_us);
                let verdict =
                    verdict(&rule, *costs.next().expect("one cost per rule"), force, now_us);
                d.allowed &= asked.shadow || matches!(verdict, Verdict::Pass { .. });
                before.push(rule);
                verdicts.push(verdict);
            }
            d.fits.push(fit);
            d.before.push(before);
            d.verdicts.push(verdicts);
        }
        Ok(d)
    }

    /// The rows of a peek, or of a charge that was denied.
    pub fn rows_before(d: &Decision, targets: &[Target], now_us: i64) -> Vec<Row> {
        let mut rows = Vec::new();
        for (t, target) in targets.iter().enumerate() {
            for (i, Asked { shadow, .. }) in target.rules.iter().enumerate() {
                let six = row(&d.before[t][i], &d.verdicts[t][i], d.allowed, now_us);
                rows.push(Row { six, shadow: *shadow });
            }
        }
        rows
    }

    /// Stores what a decided charge leaves and answers its rows.
    pub fn commit(
        &mut self,
        d: &Decision,
        targets: &[Target],
        costs: &[i64],
        now_us: i64,
    ) -> Vec<Row> {
        if !d.allowed {
            for (t, target) in targets.iter().enumerate() {
                self.store_without_charge(target, &d.fits[t], now_us);
            }
            return Self::rows_before(d, targets, now_us);
        }
        let mut rows = Vec::new();
        let mut costs = costs.iter();
        for (t, target) in targets.iter().enumerate() {
            let mut charged: Vec<Option<Rule>> = Vec::new();
            for (i, asked) in target.rules.iter().enumerate() {
                let cost = *costs.next().expect("one cost per rule");
                let (before, verdict) = (&d.before[t][i], &d.verdicts[t][i]);
                let passes = matches!(verdict, Verdict::Pass { .. });
                let after =
                    (cost > 0 && passes).then(|| before.charged(cost, now_us, self.slide_max_log));
                let six = row(after.as_ref().unwrap_or(before), verdict, true, now_us);
                rows.push(Row { six, shadow: asked.shadow });
                charged.push(after);
            }
            // READING: a key of which nothing is charged (only costs of 0, or only
            // shadow rules that would deny) sees no stored charge: its list, the
            // positions asked and the policies stay.
            if charged.iter().all(Option::is_none) {
                self.store_without_charge(target, &d.fits[t], now_us);
                continue;
            }
            let key = self.keys.get(&target.key);
            let after = lists::after_charge(key, target, &d.fits[t], &charged, now_us);
            self.keys.insert(target.key.clone(), after);
            self.wrote = true;
        }
        rows
    }

    fn store_without_charge(&mut self, target: &Target, fit: &Fit, now_us: i64) {
        if let Some(key) = self.keys.get(&target.key) {
            let left = lists::without_charge(key, Some((target, fit)), now_us);
            self.store(&target.key, left, now_us);
        }
    }

    /// The server's own error for a key of another data type.
    pub fn check_type(&self, key: &[u8]) -> Result<(), String> {
        if self.foreign.contains_key(key) {
            return Err("WRONGTYPE Operation against a key holding the wrong kind of value".into());
        }
        Ok(())
    }
}
