//! From words to rules and costs: one parser for all commands.
//!
//! Two passes, so that errors come in the promised order: first the shape of the whole call, then
//! the ranges from left to right.

use super::error::{Argument, Error};
use crate::limit::few::Few;
use crate::limit::{
    Algorithm, Ask, Bucket, Fixed, Rule, Slide, MAX_AMOUNT, MAX_BLOCKS, MAX_DURATION_MS,
    MAX_OFFSET_MS, MAX_RULES,
};
use crate::policy::is_name;

/// The words of a call.
pub(crate) trait Words {
    /// Word `i`; empty beyond the end.
    fn word(&self, i: usize) -> &[u8];
    /// How many words.
    fn count(&self) -> usize;
}

impl Words for crate::server::Call {
    #[inline]
    fn word(&self, i: usize) -> &[u8] {
        self.arg(i)
    }

    #[inline]
    fn count(&self) -> usize {
        self.argc()
    }
}

/// Where the words of one rule stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RuleWords {
    /// `None`: `POLICY name`.
    algorithm: Option<Algorithm>,
    /// The first word after the keyword.
    at: usize,
    /// Whether PER, BLOCKS or ALIGN follows its two words, with its value.
    option: bool,
}

/// Where the words of a call of one rule without a keyword stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    rule: RuleWords,
    options: Options,
}

/// Where the words of a call with a list of rules stand.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    rules: Few<RuleWords>,
    options: Options,
}

/// Where the words after the rules stand.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    force: bool,
    /// The words of COST: from, to.
    cost: Option<(usize, usize)>,
    shadow: bool,
    age: Option<usize>,
}

/// Which words a command takes after its key or keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grammar {
    /// Rules with keywords.
    pub(crate) rules: bool,
    pub(crate) force: bool,
    pub(crate) cost: CostWords,
    pub(crate) shadow: bool,
    pub(crate) age: bool,
}

/// How many numbers COST takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CostWords {
    None,
    One,
    Many,
}

impl Grammar {
    /// RL.TOKEN and its like, after the rule.
    pub(crate) const PLAIN: Self =
        Self { rules: false, force: true, cost: CostWords::One, shadow: false, age: false };
    /// RL.CHARGE and RL.MCHARGE.
    pub(crate) const CHARGE: Self =
        Self { rules: true, force: true, cost: CostWords::Many, shadow: false, age: false };
    /// RL.PEEK.
    pub(crate) const PEEK: Self = Self { force: false, ..Self::CHARGE };
    /// RL.REFUND.
    pub(crate) const REFUND: Self =
        Self { rules: false, force: false, cost: CostWords::Many, shadow: false, age: true };
    /// RL.POLICY SET.
    pub(crate) const POLICY: Self =
        Self { rules: true, force: false, cost: CostWords::None, shadow: true, age: false };
}

/// A rule as given: settings, or the word that names a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Rule(Rule),
    Policy(usize),
}

impl Given {
    /// The settings, unless a policy is named.
    pub(crate) const fn rule(&self) -> Option<Rule> {
        match self {
            Self::Rule(rule) => Some(*rule),
            Self::Policy(_) => None,
        }
    }
}

fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

/// The algorithm that a keyword names; their first letters differ.
fn keyword(word: &[u8]) -> Option<Algorithm> {
    let first = word.first()?.to_ascii_uppercase();
    let named = |a: &Algorithm| a.name().as_bytes().first() == Some(&first);
    Algorithm::ALL.into_iter().find(named).filter(|a| is(word, a.name()))
}

impl Plain {
    /// The shape of a call whose rule begins at word `at`.
    pub(crate) fn read(words: &impl Words, algorithm: Algorithm, at: usize) -> Result<Self, Error> {
        let mut rule = RuleWords { algorithm: Some(algorithm), at, option: false };
        let mut next = at.saturating_add(2);
        if next > words.count() {
            return Err(Error::Syntax);
        }
        rule.take_option(words, &mut next)?;
        Ok(Self { rule, options: Options::read(words, next, Grammar::PLAIN)? })
    }

    /// Whether FORCE was given.
    pub(crate) const fn force(&self) -> bool {
        self.options.force
    }

    /// Reads rule and cost. `log_ok`: see [`Shape::rules`].
    pub(crate) fn ask(
        &self,
        words: &impl Words,
        max_log: u64,
        log_ok: impl Fn(&Rule) -> bool,
    ) -> Result<Ask, Error> {
        let Given::Rule(rule) = self.rule.read(words).map_err(Error::of)? else {
            return Err(Error::Syntax);
        };
        log_fits(&rule, max_log, log_ok).map_err(Error::of)?;
        let cost = match self.options.cost {
            None => 1,
            Some((at, _)) => match words.word(at) {
                b"0" => return Err(Error::of(Argument::NoCost)),
                word => amount(word).ok_or(Error::of(Argument::Amount("cost")))?,
            },
        };
        Ok(Ask { rule, cost, shadow: false })
    }
}

/// Whether an exact log may be as large as its limit; `log_ok` is asked where it is not.
fn log_fits(rule: &Rule, max_log: u64, log_ok: impl Fn(&Rule) -> bool) -> Result<(), Argument> {
    match rule {
        Rule::Slide(s) if s.blocks().is_none() && s.limit() > max_log && !log_ok(rule) => {
            Err(Argument::Log(max_log))
        }
        _ => Ok(()),
    }
}

impl Shape {
    /// The shape of a list of rules and what follows it, from word `at` on.
    pub(crate) fn list(words: &impl Words, at: usize, grammar: Grammar) -> Result<Self, Error> {
        let mut rules = Few::none();
        let mut next = at;
        while grammar.rules && next < words.count() {
            let word = words.word(next);
            let algorithm = keyword(word);
            if algorithm.is_none() && !is(word, "POLICY") {
                break;
            }
            let mut rule = RuleWords { algorithm, at: next.saturating_add(1), option: false };
            next = rule.at.saturating_add(if algorithm.is_some() { 2 } else { 1 });
            if next > words.count() {
                return Err(Error::Syntax);
            }
            rule.take_option(words, &mut next)?;
            rules.push(rule);
        }
        Ok(Self { rules, options: Options::read(words, next, grammar)? })
    }

    /// How many rules are given.
    pub(crate) fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// For each rule the word that names its policy; none for a rule with settings of its own.
    pub(crate) fn policy_words(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        self.rules.all().iter().map(|rule| rule.algorithm.is_none().then_some(rule.at))
    }

    /// Whether any of the rules is a policy.
    pub(crate) fn names_policy(&self) -> bool {
        self.policy_words().any(|word| word.is_some())
    }

    /// Whether FORCE was given.
    pub(crate) const fn force(&self) -> bool {
        self.options.force
    }

    /// Whether SHADOW was given.
    pub(crate) const fn shadow(&self) -> bool {
        self.options.shadow
    }

    /// Reads the rules, one after the other. `log_ok` is asked for an exact log above `max_log`:
    /// whether the key, the position and the settings are as kept.
    pub(crate) fn each_rule(
        &self,
        words: &impl Words,
        max_log: u64,
        log_ok: impl Fn(usize, &Rule) -> bool,
        mut each: impl FnMut(Given),
    ) -> Result<(), Error> {
        let several = self.rules.len() > 1;
        for (i, rule) in self.rules.all().iter().enumerate() {
            let read = rule.read(words).and_then(|given| {
                if let Given::Rule(rule) = &given {
                    log_fits(rule, max_log, |rule| log_ok(i, rule))?;
                }
                Ok(given)
            });
            each(read.map_err(|argument| Error::Argument(argument, several.then_some(i)))?);
        }
        Ok(())
    }

    /// The same, all at once.
    pub(crate) fn rules(
        &self,
        words: &impl Words,
        max_log: u64,
        log_ok: impl Fn(usize, &Rule) -> bool,
    ) -> Result<Few<Given>, Error> {
        let mut all = Few::none();
        self.each_rule(words, max_log, log_ok, |given| all.push(given))?;
        Ok(all)
    }

    /// Reads the costs; one of 1 if none is given. `nothing` is the error for costs that are all 0.
    pub(crate) fn costs(&self, words: &impl Words, nothing: Argument) -> Result<Few<u64>, Error> {
        let Some((from, to)) = self.options.cost else { return Ok(Few::one(1)) };
        let count = to.saturating_sub(from);
        let costs = Few::make(count, |i| match words.word(from.saturating_add(i)) {
            b"0" => Some(0),
            word => amount(word),
        });
        match costs {
            Some(costs) if costs.all().iter().all(|cost| *cost == 0) => Err(Error::of(nothing)),
            Some(costs) => Ok(costs),
            None => Err(Error::of(if count == 1 {
                Argument::Amount("cost")
            } else {
                Argument::Integer("cost", 0, MAX_AMOUNT)
            })),
        }
    }

    /// Reads AGE, in milliseconds, and the costs: from left to right, as they were given.
    pub(crate) fn age_and_costs(
        &self,
        words: &impl Words,
        nothing: Argument,
    ) -> Result<(Option<u64>, Few<u64>), Error> {
        let age = match self.options.age {
            None => Ok(None),
            Some(at) => match duration_ms(words.word(at)) {
                Some(ms) => Ok(Some(ms)),
                None => Err(Error::of(Argument::Duration("age"))),
            },
        };
        let costs = self.costs(words, nothing);
        match (self.options.age, self.options.cost) {
            (Some(at), Some((first, _))) if first < at => costs.and_then(|c| Ok((age?, c))),
            _ => age.and_then(|a| Ok((a, costs?))),
        }
    }
}

impl Options {
    /// What follows the rules, in any order, each once.
    fn read(words: &impl Words, from: usize, grammar: Grammar) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut next = from;
        while next < words.count() {
            let word = words.word(next);
            next = next.saturating_add(1);
            if grammar.force && !options.force && is(word, "FORCE") {
                options.force = true;
            } else if grammar.shadow && !options.shadow && is(word, "SHADOW") {
                options.shadow = true;
            } else if grammar.age
                && options.age.is_none()
                && is(word, "AGE")
                && next < words.count()
            {
                options.age = Some(next);
                next = next.saturating_add(1);
            } else if grammar.cost != CostWords::None && options.cost.is_none() && is(word, "COST")
            {
                let first = next;
                while next < words.count() && !grammar.ends_costs(words, next, first) {
                    next = next.saturating_add(1);
                }
                if next == first {
                    return Err(Error::Syntax);
                }
                options.cost = Some((first, next));
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(options)
    }
}

impl Grammar {
    /// Whether word `i` no longer belongs to the costs, which begin at word `first`.
    fn ends_costs(self, words: &impl Words, i: usize, first: usize) -> bool {
        let word = words.word(i);
        (self.cost == CostWords::One && i > first)
            || is(word, "COST")
            || (self.force && is(word, "FORCE"))
            || (self.age && is(word, "AGE"))
    }
}

impl RuleWords {
    /// The keyword of the option that follows a rule of this algorithm.
    const fn option_keyword(algorithm: Algorithm) -> &'static str {
        match algorithm {
            Algorithm::Token | Algorithm::Leaky => "PER",
            Algorithm::Slide => "BLOCKS",
            Algorithm::Fixed => "ALIGN",
        }
    }

    fn take_option(&mut self, words: &impl Words, next: &mut usize) -> Result<(), Error> {
        let Some(algorithm) = self.algorithm else { return Ok(()) };
        if *next < words.count() && is(words.word(*next), Self::option_keyword(algorithm)) {
            let value = next.saturating_add(1);
            if value >= words.count() {
                return Err(Error::Syntax);
            }
            self.option = true;
            *next = value.saturating_add(1);
        }
        Ok(())
    }

    fn read(&self, words: &impl Words) -> Result<Given, Argument> {
        let Some(algorithm) = self.algorithm else {
            return match is_name(words.word(self.at)) {
                true => Ok(Given::Policy(self.at)),
                false => Err(Argument::PolicyName),
            };
        };
        let (first, second) = (words.word(self.at), words.word(self.at.saturating_add(1)));
        let option = self.option.then(|| words.word(self.at.saturating_add(3)));
        Ok(Given::Rule(match algorithm {
            Algorithm::Token => Rule::Token(bucket(first, second, option)?),
            Algorithm::Leaky => Rule::Leaky(bucket(first, second, option)?),
            Algorithm::Slide => Rule::Slide(slide(first, second, option)?),
            Algorithm::Fixed => Rule::Fixed(fixed(first, second, option)?),
        }))
    }
}

fn bucket(capacity: &[u8], rate: &[u8], period: Option<&[u8]>) -> Result<Bucket, Argument> {
    let capacity = amount(capacity).ok_or(Argument::Amount("capacity"))?;
    let rate = amount(rate).ok_or(Argument::Amount("rate"))?;
    let period = match period {
        None => 1_000,
        Some(word) => duration_ms(word).ok_or(Argument::Duration("period"))?,
    };
    Bucket::new(capacity, rate, period).ok_or(Argument::Refill)
}

fn slide(limit: &[u8], window: &[u8], blocks: Option<&[u8]>) -> Result<Slide, Argument> {
    let limit = amount(limit).ok_or(Argument::Amount("limit"))?;
    let window = duration_ms(window).ok_or(Argument::Duration("window"))?;
    let blocks = match blocks {
        None => None,
        Some(word) => {
            let n = amount(word).and_then(|n| u16::try_from(n).ok()).filter(|n| *n <= MAX_BLOCKS);
            Some(n.ok_or(Argument::Blocks)?)
        }
    };
    Slide::new(limit, window, blocks).ok_or(Argument::Amount("limit"))
}

fn fixed(limit: &[u8], window: &[u8], offset: Option<&[u8]>) -> Result<Fixed, Argument> {
    let limit = amount(limit).ok_or(Argument::Amount("limit"))?;
    let window = duration_ms(window).ok_or(Argument::Duration("window"))?;
    let offset = match offset {
        None => None,
        Some(word) => Some(offset_ms(word).ok_or(Argument::Offset)?),
    };
    Fixed::new(limit, window, offset).ok_or(Argument::Amount("limit"))
}

/// Decimal digits without sign, space or leading zero, at most `max`. Zero is `0`.
fn digits(word: &[u8], max: u64) -> Option<u64> {
    let leading_zero = word.len() > 1 && word.first() == Some(&b'0');
    if word.is_empty() || word.len() > 18 || leading_zero {
        return None;
    }
    let mut value = 0_u64;
    for byte in word {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.saturating_mul(10).saturating_add(u64::from(digit));
    }
    (value <= max).then_some(value)
}

/// 1 to 10^12.
pub(crate) fn amount(word: &[u8]) -> Option<u64> {
    digits(word, MAX_AMOUNT).filter(|n| *n > 0)
}

/// An integer of a range.
pub(crate) fn integer(word: &[u8], min: u64, max: u64) -> Option<u64> {
    digits(word, max).filter(|n| *n >= min)
}

/// 1 ms to 3650 days with a unit.
pub(crate) fn duration_ms(word: &[u8]) -> Option<u64> {
    let (number, unit) = match word {
        [number @ .., b'm', b's'] => (number, 1),
        [number @ .., b's'] => (number, 1_000),
        [number @ .., b'm'] => (number, 60_000),
        [number @ .., b'h'] => (number, 3_600_000),
        [number @ .., b'd'] => (number, 86_400_000),
        _ => return None,
    };
    let ms = digits(number, MAX_DURATION_MS)?.checked_mul(unit)?;
    (1..=MAX_DURATION_MS).contains(&ms).then_some(ms)
}

/// A duration of at most 7 days, negative too, or `0`.
fn offset_ms(word: &[u8]) -> Option<i64> {
    let (ahead, word) = match word {
        b"0" => return Some(0),
        [b'-', word @ ..] => (false, word),
        word => (true, word),
    };
    let ms = duration_ms(word).filter(|ms| *ms <= MAX_OFFSET_MS)?;
    let ms = i64::try_from(ms).ok()?;
    Some(if ahead { ms } else { ms.saturating_neg() })
}

/// Whether this many rules fit on one key.
pub(crate) fn rules_fit(count: usize) -> Result<(), Error> {
    if (1..=MAX_RULES).contains(&count) {
        Ok(())
    } else {
        Err(Error::of(Argument::RuleCount))
    }
}
