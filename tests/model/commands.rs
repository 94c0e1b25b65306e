//! The commands: from words to targets, in the order of checks of SPEC section 1.

use super::algorithms::{Bucket, Settings};
use super::args::{self, Allowed, GivenRule, RawRule, Res};
use super::decision::{first_six, Row};
use super::lists::{self, Asked, Target};
use super::numbers::*;
use super::targets::{cost_count, numbered, rule_count, spread, Written, MAX_RULES};
use super::{Model, Policy, Reply};
use std::collections::BTreeSet;

impl Model {
    pub(crate) fn dispatch(&mut self, now_us: i64, args: &[&[u8]]) -> Res<Reply> {
        let name = args.first().map(|w| w.to_ascii_uppercase()).unwrap_or_default();
        match name.as_slice() {
            b"RL.TOKEN" | b"RL.LEAKY" | b"RL.SLIDE" | b"RL.FIXED" => {
                self.plain(now_us, &name[3..], args)
            }
            b"RL.CHARGE" => self.charge(now_us, args),
            b"RL.MCHARGE" => self.mcharge(now_us, args),
            b"RL.PEEK" => self.peek(now_us, args),
            b"RL.REFUND" => self.refund(now_us, args),
            b"RL.POLICY" => self.policy(args),
            b"CL.THROTTLE" => self.throttle(now_us, args),
            // What the server's DEL answers depends on its expiry: Other.
            b"DEL" | b"UNLINK" => {
                for key in &args[1..] {
                    self.wrote |= self.del(key);
                }
                Ok(Reply::Other)
            }
            _ => Ok(Reply::Other),
        }
    }

    fn plain(&mut self, now_us: i64, algorithm: &[u8], args: &[&[u8]]) -> Res<Reply> {
        if args.len() < 4 {
            return Err(args::arity());
        }
        let mut words = &args[2..];
        let rule = args::raw_rule(algorithm, &mut words)?;
        let tail =
            args::raw_tail(words, Allowed { force: true, cost: true, ..Default::default() })?;
        let written = [Written { key: args[1], rules: vec![rule] }];
        let (targets, costs) = self.targets(&written, &tail.costs, true, now_us)?;
        let d = self.decide(&targets, &costs, tail.force, now_us)?;
        let rows = self.commit(&d, &targets, &costs, now_us);
        Ok(Reply::Six(rows[0].six))
    }

    fn charge(&mut self, now_us: i64, args: &[&[u8]]) -> Res<Reply> {
        if args.len() < 4 {
            return Err(args::arity());
        }
        let mut words = &args[2..];
        let rules = args::raw_rules(&mut words)?;
        let tail = args::raw_tail(words, LIST)?;
        if rules.is_empty() {
            return Err(args::syntax());
        }
        self.charge_all(now_us, vec![Written { key: args[1], rules }], tail)
    }

    fn mcharge(&mut self, now_us: i64, args: &[&[u8]]) -> Res<Reply> {
        if args.len() < 5 {
            return Err(args::arity());
        }
        // READING: a bad numkeys is an error at once, the words after it cannot
        // be told apart without it; a numkeys that leaves no words is a syntax
        // error; one that is not the number of rules, no rule included, is an
        // error of numkeys.
        let numkeys = args::integer("numkeys", args[1], 1, 64)? as usize;
        if args.len() < 2 + numkeys {
            return Err(args::syntax());
        }
        let keys = &args[2..2 + numkeys];
        let mut words = &args[2 + numkeys..];
        let rules = args::raw_rules(&mut words)?;
        let tail = args::raw_tail(words, LIST)?;
        if rules.len() != numkeys {
            return Err("ERR numkeys must be the number of rules, 1 to 64".into());
        }
        let written = keys.iter().zip(rules).map(|(key, r)| Written { key, rules: vec![r] });
        self.charge_all(now_us, written.collect(), tail)
    }

    fn charge_all(
        &mut self,
        now_us: i64,
        written: Vec<Written>,
        tail: args::RawTail,
    ) -> Res<Reply> {
        let (targets, costs) = self.targets(&written, &tail.costs, false, now_us)?;
        let names: BTreeSet<_> = targets.iter().map(|t| &t.key).collect();
        if names.len() != targets.len() {
            return Err("ERR keys must be distinct".into());
        }
        let d = self.decide(&targets, &costs, tail.force, now_us)?;
        let rows = self.commit(&d, &targets, &costs, now_us);
        Ok(layers(&rows, d.allowed))
    }

    fn peek(&mut self, now_us: i64, args: &[&[u8]]) -> Res<Reply> {
        if args.len() < 2 {
            return Err(args::arity());
        }
        let mut words = &args[2..];
        let rules = args::raw_rules(&mut words)?;
        let tail =
            args::raw_tail(words, Allowed { cost: true, cost_list: true, ..Default::default() })?;
        if !rules.is_empty() {
            let written = [Written { key: args[1], rules }];
            let (targets, costs) = self.targets(&written, &tail.costs, false, now_us)?;
            let d = self.decide(&targets, &costs, false, now_us)?;
            return Ok(layers(&Self::rows_before(&d, &targets, now_us), d.allowed));
        }
        let costs = args::costs(&tail.costs)?;
        // READING: without rules the number of costs can only be checked against
        // the key, so a missing key (null) and a foreign one come first.
        self.check_type(args[1])?;
        let Some(key) = self.keys.get(args[1]) else {
            return Ok(Reply::Null);
        };
        let len = key.len_at(now_us);
        if len == 0 {
            return Ok(Reply::Null);
        }
        // READING: one cost per kept position shown; shadow is not kept with the
        // key, all rows count.
        let costs = spread(costs, len)?;
        let rules = key.rules[..len].iter();
        let asked = rules.map(|r| Asked { settings: r.settings.clone(), shadow: false });
        let target = Target {
            key: args[1].to_vec(),
            rules: asked.collect(),
            policies: vec![],
            plain: false,
        };
        // Fresh rules that only keep their place are shown as fresh.
        let d = self.decide(std::slice::from_ref(&target), &costs, false, now_us)?;
        Ok(layers(&Self::rows_before(&d, &[target], now_us), d.allowed))
    }

    fn refund(&mut self, now_us: i64, args: &[&[u8]]) -> Res<Reply> {
        if args.len() < 2 {
            return Err(args::arity());
        }
        let allowed = Allowed { age: true, cost: true, cost_list: true, ..Default::default() };
        let tail = args::raw_tail(&args[2..], allowed)?;
        // READING: of two wrong options the first one is told.
        let early = if tail.age_last { args::costs(&tail.costs)? } else { Vec::new() };
        let age_ms = tail.age.map(|w| args::duration("age", w)).transpose()?;
        let costs = if tail.age_last { early } else { args::costs(&tail.costs)? };
        self.check_type(args[1])?;
        let Some(key) = self.keys.get(args[1]) else {
            return Ok(Reply::Null);
        };
        let len = key.len_at(now_us);
        if len == 0 {
            return Ok(Reply::Null);
        }
        let back: Vec<i64> = match costs.as_slice() {
            [one] => (0..len).map(|i| if i < key.asked { *one } else { 0 }).collect(),
            list if list.len() <= len => {
                (0..len).map(|i| list.get(i).copied().unwrap_or(0)).collect()
            }
            _ => return Err(cost_count()),
        };
        let moment_ms = age_ms.map(|age| ms_up(now_us - age * 1000));
        // READING: a refund stores the repair of a stepped clock even when it
        // gives nothing back.
        let mut left = lists::without_charge(key, None, now_us);
        let mut rows = Vec::new();
        for (i, cost) in back.iter().enumerate() {
            let before = key.rules[i].seen(now_us);
            let after = before.refunded(*cost, moment_ms, now_us);
            if after != before {
                left.rules[i] = after.clone();
            }
            let six = [1, after.remaining(), 0, after.reset_ms(now_us), after.settings.limit(), 0];
            rows.push(Row { six, shadow: false });
        }
        self.store(args[1], left, now_us);
        Ok(layers(&rows, true))
    }

    fn throttle(&mut self, now_us: i64, args: &[&[u8]]) -> Res<Reply> {
        if args.len() < 5 || args.len() > 6 {
            return Err(args::arity());
        }
        let capacity = args::integer("max_burst", args[2], 0, MAX_NUMBER - 1)? + 1;
        let rate = args::integer("count", args[3], 1, MAX_NUMBER)?;
        let seconds = args::integer("period", args[4], 1, MAX_DURATION_MS / 1000)?;
        let bucket = Bucket { capacity, rate, period_us: seconds * 1_000_000 };
        // READING: the refill check stands before the quantity, as it would in a
        // rule.
        args::check_refill(&bucket)?;
        let quantity = match args.get(5) {
            Some(w) => args::integer("quantity", w, 0, MAX_NUMBER)?,
            None => 1,
        };
        let asked = Asked { settings: Settings::Token(bucket), shadow: false };
        let targets =
            [Target { key: args[1].to_vec(), rules: vec![asked], policies: vec![], plain: true }];
        let d = self.decide(&targets, &[quantity], false, now_us)?;
        let rows = if quantity == 0 {
            Self::rows_before(&d, &targets, now_us)
        } else {
            self.commit(&d, &targets, &[quantity], now_us)
        };
        let [allowed, remaining, retry, reset, limit, _] = rows[0].six;
        let retry = if allowed == 1 || retry == -1 { -1 } else { div_up(retry, 1000) };
        Ok(Reply::Five([1 - allowed, limit, remaining, retry, div_up(reset, 1000)]))
    }

    fn policy(&mut self, args: &[&[u8]]) -> Res<Reply> {
        let sub = args.get(1).map(|w| w.to_ascii_uppercase()).ok_or_else(args::arity)?;
        match sub.as_slice() {
            b"SET" => self.policy_set(args),
            b"DEL" => {
                if args.len() < 3 {
                    return Err(args::arity());
                }
                let names: Vec<_> =
                    args[2..].iter().map(|w| args::policy_name(w)).collect::<Res<_>>()?;
                let gone = names.iter().filter(|n| self.policies.remove(*n).is_some()).count();
                self.wrote = gone > 0;
                Ok(Reply::Int(gone as i64))
            }
            _ => Ok(Reply::Other),
        }
    }

    fn policy_set(&mut self, args: &[&[u8]]) -> Res<Reply> {
        if args.len() < 4 {
            return Err(args::arity());
        }
        let mut words = &args[3..];
        let raw = args::raw_rules(&mut words)?;
        let tail = args::raw_tail(words, Allowed { shadow: true, ..Default::default() })?;
        if raw.is_empty() {
            return Err(args::syntax());
        }
        // READING: POLICY inside a policy is an error of the rules, told before ranges.
        if raw.iter().any(|r| matches!(r, RawRule::Policy(_))) {
            return Err("ERR rules must not name another policy".into());
        }
        let name = args::policy_name(args[2])?;
        let held = self.policies.get(&name).cloned();
        let mut rules = Vec::new();
        for (i, r) in raw.iter().enumerate() {
            // READING: rules that the policy holds already at the same position
            // are not checked against rl.slide-max-log.
            let kept = held.as_ref().and_then(|p| p.rules.get(i));
            let given = args::rule(r).and_then(|g| self.check_log(g, kept));
            match given.map_err(|e| numbered(e, i, raw.len()))? {
                GivenRule::Settings(s) => rules.push(s),
                GivenRule::Policy(_) => unreachable!("refused above"),
            }
        }
        if rules.len() > MAX_RULES {
            return Err(rule_count());
        }
        // READING: "unchanged rules" includes SHADOW: a change of SHADOW alone is
        // a change.
        if held.as_ref().is_some_and(|p| p.rules == rules && p.shadow == tail.shadow) {
            return Ok(Reply::Ok);
        }
        if held.is_none() && self.policies.len() >= self.max_policies {
            return Err("ERR policies must be at most rl.max-policies".into());
        }
        // Versions only grow, also over DEL and SET.
        self.last_version += 1;
        let policy = Policy { rules, shadow: tail.shadow, version: self.last_version };
        self.policies.insert(name, policy);
        self.wrote = true;
        Ok(Reply::Ok)
    }
}

/// The words after the rules of CHARGE and MCHARGE.
const LIST: Allowed =
    Allowed { force: true, age: false, cost: true, cost_list: true, shadow: false };

fn layers(rows: &[Row], allowed: bool) -> Reply {
    Reply::Layers(first_six(rows, allowed), rows.iter().map(|r| r.six).collect())
}
