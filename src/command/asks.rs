//! From the rules of a call to what is asked of each position: policies unfolded, costs dealt out.

use super::args::{rules_fit, Given, Shape};
use super::error::{Argument, Error};
use crate::limit::bytes::Bytes;
use crate::limit::codec::Trail;
use crate::limit::few::Few;
use crate::limit::layers::Request;
use crate::limit::{Ask, Row, Rule, MAX_RULES};
use crate::policy::{self, Counters, Policy};
use crate::server::{config, Call};
use crate::stats;
use std::sync::Arc;

/// What a call asks of one key.
#[derive(Debug)]
pub(crate) struct Asks {
    asks: Few<Ask>,
    names: Option<Box<(Bytes, Bytes)>>,
    /// The policies named, each with the position of its first rule.
    policies: Vec<(usize, Arc<Policy>)>,
    force: bool,
    /// A plain command, which fits only a key of one rule.
    plain: bool,
}

impl Asks {
    /// Nothing yet.
    pub(crate) const fn empty(force: bool) -> Self {
        Self { asks: Few::none(), names: None, policies: Vec::new(), force, plain: false }
    }

    /// The one rule of a plain command.
    pub(crate) fn one(ask: Ask, force: bool) -> Self {
        Self { asks: Few::one(ask), plain: true, ..Self::empty(force) }
    }

    /// Takes the rules and costs of RL.CHARGE, at least one rule.
    pub(crate) fn read(
        &mut self,
        call: &Call,
        shape: &Shape,
        log_ok: impl Fn(usize, &Rule) -> bool,
    ) -> Result<(), Error> {
        if shape.rule_count() == 0 {
            return Err(Error::Syntax);
        }
        let max_log = config::slide_max_log();
        let costs = if shape.names_policy() {
            let given = shape.rules(call, max_log, log_ok)?;
            let costs = shape.costs(call, Argument::NoCost)?;
            self.unfold(call, given.all())?;
            costs
        } else {
            shape.each_rule(call, max_log, log_ok, |given| {
                given.rule().into_iter().for_each(|rule| self.push(rule, false))
            })?;
            let costs = shape.costs(call, Argument::NoCost)?;
            rules_fit(self.asks.len())?;
            costs
        };
        self.deal(&mut costs.all().iter().copied(), costs.len())
    }

    /// Takes one rule more. Once there are too many the call will be refused, and no more are taken: a call of a
    /// million words must not cost memory for them all.
    fn push(&mut self, rule: Rule, shadow: bool) {
        if self.asks.len() <= MAX_RULES {
            self.asks.push(Ask { rule, cost: 1, shadow });
        }
    }

    /// The rules that a key keeps, for a peek without any.
    pub(crate) fn kept(rules: &[Rule], costs: &[u64]) -> Result<Self, Error> {
        let mut asks = Self::empty(false);
        rules.iter().for_each(|rule| asks.push(*rule, false));
        asks.deal(&mut costs.iter().copied(), costs.len())?;
        Ok(asks)
    }

    fn unfold(&mut self, call: &Call, given: &[Given]) -> Result<(), Error> {
        for (place, one) in given.iter().enumerate() {
            match one {
                Given::Rule(rule) => self.push(*rule, false),
                Given::Policy(word) => self.unfold_policy(place, call.arg(*word))?,
            }
        }
        rules_fit(self.asks.len())
    }

    fn unfold_policy(&mut self, place: usize, name: &[u8]) -> Result<(), Error> {
        let policy = policy::get(name).ok_or(Error::NoPolicy)?;
        if self.asks.len() > MAX_RULES {
            return Ok(());
        }
        let (names, versions) = &mut **self.names.get_or_insert_with(Box::default);
        names.byte(u8::try_from(place).unwrap_or(u8::MAX));
        names.byte(u8::try_from(name.len()).unwrap_or(u8::MAX));
        names.bytes(name);
        versions.u64(policy.edition);
        let first = self.asks.len();
        for rule in &policy.rules {
            self.push(*rule, policy.shadow);
        }
        self.policies.push((first, policy));
        Ok(())
    }

    /// Gives every rule its cost: `costs` yields one for all, or as many as there are rules.
    fn deal(&mut self, costs: &mut dyn Iterator<Item = u64>, count: usize) -> Result<(), Error> {
        let one = if count == 1 { costs.next() } else { None };
        if one.is_none() && count != self.asks.len() {
            return Err(Error::of(Argument::CostCount));
        }
        for ask in self.asks.all_mut() {
            ask.cost = one.or_else(|| costs.next()).unwrap_or(1);
        }
        Ok(())
    }

    /// The rule of a list of one without policies.
    pub(crate) fn single(&self) -> Option<&Ask> {
        match (self.asks.all(), &self.names, self.plain) {
            ([ask], None, false) => Some(ask),
            _ => None,
        }
    }

    /// Whether the cost has already happened.
    pub(crate) const fn force(&self) -> bool {
        self.force
    }

    /// For the core.
    pub(crate) fn request(&self) -> Request<'_> {
        let trail = self.names.as_ref().map_or_else(Trail::default, |both| Trail {
            names: both.0.as_slice(),
            versions: both.1.as_slice(),
        });
        Request {
            asks: self.asks.all(),
            trail,
            plain: self.plain,
            force: self.force,
            max_log: config::slide_max_log(),
        }
    }

    /// The same for as many keys as there are rules, none of them of a policy.
    pub(crate) fn each(&self) -> impl Iterator<Item = Request<'_>> {
        let request = self.request();
        self.asks.all().chunks(1).map(move |asks| Request { asks, ..request })
    }

    /// As many as there are rules, none of them of a policy.
    pub(crate) fn split(&self) -> Vec<Self> {
        let one = |ask: &Ask| Self { asks: Few::one(*ask), ..Self::empty(self.force) };
        self.asks.all().iter().map(one).collect()
    }

    /// Counts a decided charge.
    pub(crate) fn count(&self, rows: &[Row], pass: bool) {
        count_all(std::slice::from_ref(self), rows, pass);
    }
}

/// Where rule `i` of a list stands when the policies before it are unfolded.
pub(crate) fn position(call: &Call, shape: &Shape, i: usize) -> usize {
    let rules = |policy: Option<usize>| match policy {
        None => 1,
        Some(word) => policy::get(call.arg(word)).map_or(0, |policy| policy.rules.len()),
    };
    shape.policy_words().take(i).map(rules).sum()
}

/// The rules of RL.MCHARGE: one per key, which may be a policy.
pub(crate) fn per_key(
    call: &Call,
    shape: &Shape,
    log_ok: impl Fn(usize, &Rule) -> bool,
) -> Result<Vec<Asks>, Error> {
    let given = shape.rules(call, config::slide_max_log(), log_ok)?;
    let costs = shape.costs(call, Argument::NoCost)?;
    let mut all = Vec::with_capacity(given.len());
    for one in given.all() {
        let mut asks = Asks::empty(shape.force());
        asks.unfold(call, std::slice::from_ref(one))?;
        all.push(asks);
    }
    let rules: usize = all.iter().map(|asks| asks.asks.len()).sum();
    if costs.len() != 1 && costs.len() != rules {
        return Err(Error::of(Argument::CostCount));
    }
    let mut rest = costs.all().iter().copied();
    for asks in &mut all {
        let count = asks.asks.len();
        match costs.all() {
            [one] => asks.deal(&mut std::iter::once(*one), 1)?,
            _ => asks.deal(&mut rest.by_ref().take(count), count)?,
        }
    }
    Ok(all)
}

/// Counts a decided charge: once in all, once per rule, and once per policy named.
pub(crate) fn count_all(all: &[Asks], rows: &[Row], pass: bool) {
    stats::decided(pass);
    let asks = all.iter().flat_map(|asks| asks.asks.all());
    let mut shadow_denied = false;
    for (ask, row) in asks.zip(rows) {
        let denies = row.denies();
        // What only shadow rules would have denied passes all the same.
        shadow_denied |= pass && denies && ask.shadow;
        if pass || denies {
            stats::rule(ask.rule.algorithm(), !denies);
        }
    }
    if shadow_denied {
        stats::shadow_denied();
    }
    count_policies(all, rows, pass);
}

/// One call counts once for a policy, however often it names it.
fn count_policies(all: &[Asks], rows: &[Row], pass: bool) {
    let mut counted: Vec<(&Arc<Policy>, bool)> = Vec::new();
    let mut before = 0_usize;
    for asks in all {
        for (first, policy) in &asks.policies {
            let own = rows.iter().skip(before.saturating_add(*first)).take(policy.rules.len());
            let denies = pass && policy.shadow && own.into_iter().any(Row::denies);
            match counted.iter_mut().find(|(known, _)| Arc::ptr_eq(known, policy)) {
                Some((_, denied)) => *denied |= denies,
                None => counted.push((policy, denies)),
            }
        }
        before = before.saturating_add(asks.asks.len());
    }
    for (policy, shadow_denied) in counted {
        let counters = &policy.counters;
        Counters::bump(if pass { &counters.allowed } else { &counters.denied });
        if shadow_denied {
            Counters::bump(&counters.shadow_denied);
        }
    }
}
