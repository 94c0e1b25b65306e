//! A key: its list of rules, which lists fit it, and how many positions count
//! (SPEC section 3, "Which rules fit a key").

use super::algorithms::{Rule, Settings};

/// The use of a policy by the last stored charge: which of the written rules it
/// was, its name, and its version then.
/// READING: "the same places" are places among the rules as written, not as
/// unfolded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyUse {
    pub place: usize,
    pub name: Vec<u8>,
    pub version: u64,
}

/// What is stored under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub rules: Vec<Rule>,
    /// How many positions the last stored charge asked for.
    pub asked: usize,
    pub policies: Vec<PolicyUse>,
}

/// One rule that a call asks for.
#[derive(Clone, Debug)]
pub struct Asked {
    pub settings: Settings,
    pub shadow: bool,
}

/// What a call asks of one key.
#[derive(Clone, Debug)]
pub struct Target {
    pub key: Vec<u8>,
    pub rules: Vec<Asked>,
    pub policies: Vec<PolicyUse>,
    /// A command that fits only a key of one rule.
    pub plain: bool,
}

/// How a list fits a key.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Per position asked: whether the kept rule carries on.
    pub carries: Vec<bool>,
    /// The edited policies: positions beyond the list asked are dropped.
    pub drops_surplus: bool,
}

impl Key {
    /// The length of the list without fresh rules at its end that the last
    /// charge did not ask for; 0 if the key is as good as new.
    pub fn len_at(&self, now_us: i64) -> usize {
        if self.rules.iter().all(|r| r.is_fresh(now_us)) {
            return 0;
        }
        let mut len = self.rules.len();
        while len > self.asked && self.rules[len - 1].is_fresh(now_us) {
            len -= 1;
        }
        len
    }

    /// Whether the rule at a position is still there: asked for by the last
    /// charge, or not as good as new.
    pub fn is_there(&self, i: usize, now_us: i64) -> bool {
        i < self.rules.len() && (i < self.asked || !self.rules[i].is_fresh(now_us))
    }

    /// The algorithms of the list, for the WRONGTYPE text.
    /// READING: fresh rules that only keep their place are named too.
    fn algorithms(&self, now_us: i64) -> String {
        let names: Vec<_> =
            self.rules[..self.len_at(now_us)].iter().map(|r| r.settings.algorithm()).collect();
        names.join(" ")
    }

    /// Whether `target` names exactly the policies of the last stored charge and
    /// at least one of them was edited since.
    fn edited(&self, target: &Target) -> bool {
        let names = |uses: &[PolicyUse]| -> Vec<(usize, Vec<u8>)> {
            uses.iter().map(|u| (u.place, u.name.clone())).collect()
        };
        !self.policies.is_empty()
            && names(&self.policies) == names(&target.policies)
            && self.policies.iter().zip(&target.policies).any(|(a, b)| a.version != b.version)
    }
}

/// Whether and how the list of `target` fits what the key holds.
pub fn fit(key: Option<&Key>, target: &Target, now_us: i64) -> Result<Fit, String> {
    let asked = &target.rules;
    let none = Fit { carries: vec![false; asked.len()], drops_surplus: true };
    let Some(key) = key else { return Ok(none) };
    let len = key.len_at(now_us);
    if len == 0 {
        return Ok(none);
    }
    let same = |i: usize| key.rules[i].settings.algorithm() == asked[i].settings.algorithm();
    let there: Vec<bool> = (0..asked.len()).map(|i| i < len && key.is_there(i, now_us)).collect();
    if key.edited(target) {
        let carries = (0..asked.len()).map(|i| there[i] && same(i)).collect();
        return Ok(Fit { carries, drops_surplus: true });
    }
    if (0..asked.len()).any(|i| there[i] && !same(i)) || (target.plain && len != 1) {
        let names: Vec<_> = asked.iter().map(|a| a.settings.algorithm()).collect();
        let (held, wanted) = (key.algorithms(now_us), names.join(" "));
        return Err(format!("WRONGTYPE key holds {held}, not {wanted}"));
    }
    Ok(Fit { carries: there, drops_surplus: false })
}

/// The rule asked for at a position as it stands at `now`: repaired, brought to
/// now and changed if it carries on, else fresh.
pub fn seen(key: Option<&Key>, i: usize, carries: bool, asked: &Asked, now_us: i64) -> Rule {
    match key {
        Some(key) if carries => key.rules[i].seen(now_us).changed(&asked.settings, now_us),
        _ => Rule::fresh(asked.settings.clone()),
    }
}

/// What a call that charges nothing on this key leaves: the repair of a stepped
/// clock at all positions, and changed settings at common ones.
pub fn without_charge(key: &Key, target: Option<(&Target, &Fit)>, now_us: i64) -> Key {
    let mut left = key.clone();
    // A key that is as good as new has nothing to repair or to change.
    if key.len_at(now_us) == 0 {
        return left;
    }
    for rule in &mut left.rules {
        if let Some(repaired) = rule.repaired(now_us) {
            // A stored write of a rule drops what is over.
            *rule = repaired.at(now_us);
        }
    }
    if let Some((target, fit)) = target {
        for (i, asked) in target.rules.iter().enumerate() {
            if fit.carries[i] && key.rules[i].settings != asked.settings {
                left.rules[i] = seen(Some(key), i, true, asked, now_us);
            }
        }
    }
    left
}

/// What a charge leaves. `charged[i]` is the rule after its charge, `None`
/// where the position was not charged.
pub fn after_charge(
    key: Option<&Key>,
    target: &Target,
    fit: &Fit,
    charged: &[Option<Rule>],
    now_us: i64,
) -> Key {
    let base = key.map(|k| without_charge(k, Some((target, fit)), now_us));
    let mut rules = Vec::new();
    for (i, asked) in target.rules.iter().enumerate() {
        rules.push(match (&charged[i], &base) {
            (Some(rule), _) => rule.clone(),
            // Not charged: untouched but for repair and changed settings.
            (None, Some(base)) if fit.carries[i] => base.rules[i].clone(),
            (None, _) => Rule::fresh(asked.settings.clone()),
        });
    }
    let asked = rules.len();
    if let Some(base) = base.filter(|_| !fit.drops_surplus) {
        // READING: a fresh rule that keeps its place is stored untouched, so
        // that it may count again after a step back.
        rules.extend(base.rules.into_iter().skip(asked));
        while rules.len() > asked && rules.last().unwrap().is_fresh(now_us) {
            rules.pop();
        }
    }
    Key { rules, asked, policies: target.policies.clone() }
}
