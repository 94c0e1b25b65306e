//! The words of a call: first the syntax of all of them, then the ranges from
//! left to right (SPEC section 1).

use super::algorithms::{Bucket, Settings};
use super::numbers::*;

/// An error text; the comparison of texts is [`super::same_error`].
pub type Res<T> = Result<T, String>;

/// The server's arity error.
pub fn arity() -> String {
    "ERR wrong number of arguments".into()
}

/// The error for words that do not form a call.
pub fn syntax() -> String {
    "ERR syntax error".into()
}

/// A rule as written; the words are not looked at yet.
#[derive(Clone, Debug)]
pub enum RawRule<'a> {
    Bucket { leaky: bool, capacity: &'a [u8], rate: &'a [u8], per: Option<&'a [u8]> },
    Slide { limit: &'a [u8], window: &'a [u8], blocks: Option<&'a [u8]> },
    Fixed { limit: &'a [u8], window: &'a [u8], align: Option<&'a [u8]> },
    Policy(&'a [u8]),
}

/// What follows the rules.
#[derive(Clone, Debug, Default)]
pub struct RawTail<'a> {
    pub force: bool,
    pub age: Option<&'a [u8]>,
    /// AGE stands behind COST.
    pub age_last: bool,
    pub costs: Option<Vec<&'a [u8]>>,
    pub shadow: bool,
}

/// Which words may follow the rules.
#[derive(Clone, Copy, Default)]
pub struct Allowed {
    pub force: bool,
    pub age: bool,
    pub cost: bool,
    pub cost_list: bool,
    pub shadow: bool,
}

/// A rule with its numbers.
#[derive(Clone, Debug)]
pub enum GivenRule {
    Settings(Settings),
    Policy(Vec<u8>),
}

fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

/// Reads the option `keyword value` of a rule, if it is next.
fn option<'a>(words: &mut &[&'a [u8]], keyword: &str) -> Res<Option<&'a [u8]>> {
    if !words.first().is_some_and(|w| is(w, keyword)) {
        return Ok(None);
    }
    let value = *words.get(1).ok_or_else(syntax)?;
    *words = &words[2..];
    Ok(Some(value))
}

/// One rule whose algorithm word is `name`; `words` start after it.
pub fn raw_rule<'a>(name: &[u8], words: &mut &[&'a [u8]]) -> Res<RawRule<'a>> {
    if is(name, "POLICY") {
        let policy = *words.first().ok_or_else(syntax)?;
        *words = &words[1..];
        return Ok(RawRule::Policy(policy));
    }
    if !["TOKEN", "LEAKY", "SLIDE", "FIXED"].iter().any(|k| is(name, k)) || words.len() < 2 {
        return Err(syntax());
    }
    let (first, second) = (words[0], words[1]);
    *words = &words[2..];
    Ok(if is(name, "SLIDE") {
        RawRule::Slide { limit: first, window: second, blocks: option(words, "BLOCKS")? }
    } else if is(name, "FIXED") {
        RawRule::Fixed { limit: first, window: second, align: option(words, "ALIGN")? }
    } else {
        let leaky = is(name, "LEAKY");
        RawRule::Bucket { leaky, capacity: first, rate: second, per: option(words, "PER")? }
    })
}

/// Rules as long as there are any.
pub fn raw_rules<'a>(words: &mut &[&'a [u8]]) -> Res<Vec<RawRule<'a>>> {
    let mut rules = Vec::new();
    while let Some(&name) = words.first() {
        if !["TOKEN", "LEAKY", "SLIDE", "FIXED", "POLICY"].iter().any(|k| is(name, k)) {
            break;
        }
        *words = &words[1..];
        rules.push(raw_rule(name, words)?);
    }
    Ok(rules)
}

/// Everything after the rules, to the end of the call.
/// READING: FORCE, AGE and COST may come in any order, each once.
pub fn raw_tail<'a>(mut words: &[&'a [u8]], allowed: Allowed) -> Res<RawTail<'a>> {
    let mut tail = RawTail::default();
    // READING: a word after COST that the command does not know is a bad cost.
    let keyword = |w: &[u8]| {
        is(w, "COST") || (allowed.force && is(w, "FORCE")) || (allowed.age && is(w, "AGE"))
    };
    while let Some(&word) = words.first() {
        words = &words[1..];
        if is(word, "FORCE") && allowed.force && !tail.force {
            tail.force = true;
        } else if is(word, "SHADOW") && allowed.shadow && !tail.shadow {
            tail.shadow = true;
        } else if is(word, "AGE") && allowed.age && tail.age.is_none() {
            tail.age_last = tail.costs.is_some();
            tail.age = Some(*words.first().ok_or_else(syntax)?);
            words = &words[1..];
        } else if is(word, "COST") && allowed.cost && tail.costs.is_none() {
            let most = if allowed.cost_list { usize::MAX } else { 1 };
            let n = words.iter().take_while(|w| !keyword(w)).count().min(most);
            if n == 0 {
                return Err(syntax());
            }
            tail.costs = Some(words[..n].to_vec());
            words = &words[n..];
        } else {
            return Err(syntax());
        }
    }
    Ok(tail)
}

/// A plain decimal number without sign or leading zero, 0 included.
fn decimal(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    if text.len() > 1 && text.starts_with('0') {
        return None;
    }
    text.parse().ok()
}

/// An integer argument in a range.
pub fn integer(name: &str, word: &[u8], min: i64, max: i64) -> Res<i64> {
    decimal(word)
        .filter(|n| (min..=max).contains(n))
        .ok_or_else(|| format!("ERR {name} must be an integer from {min} to {max}"))
}

/// Milliseconds of an integer and its unit.
fn duration_ms(word: &[u8], max_ms: i64) -> Option<i64> {
    let split = word.iter().position(|b| !b.is_ascii_digit())?;
    let n = decimal(&word[..split])?;
    let unit = match &word[split..] {
        b"ms" => 1,
        b"s" => 1000,
        b"m" => 60_000,
        b"h" => 3_600_000,
        b"d" => DAY_MS,
        _ => return None,
    };
    n.checked_mul(unit).filter(|ms| (1..=max_ms).contains(ms))
}

/// A duration argument, in ms.
pub fn duration(name: &str, word: &[u8]) -> Res<i64> {
    duration_ms(word, MAX_DURATION_MS)
        .ok_or_else(|| format!("ERR {name} must be 1ms to 3650d with a unit: 500ms 60s 5m 2h 7d"))
}

/// The offset of ALIGN, in ms.
/// READING: zero is only a bare `0`; `0s`, `-0` and `-0s` are bad.
fn offset(word: &[u8]) -> Res<i64> {
    let (sign, digits) = match word.strip_prefix(b"-") {
        Some(rest) => (-1, rest),
        None => (1, word),
    };
    match word {
        b"0" => Some(0),
        _ => duration_ms(digits, 7 * DAY_MS).map(|ms| sign * ms),
    }
    .ok_or_else(|| "ERR offset must be 0 or a duration of at most 7d, may be negative".into())
}

/// The name of a policy.
/// READING: a bad name is a range error in every command, not an unknown policy.
pub fn policy_name(word: &[u8]) -> Res<Vec<u8>> {
    let good = |b: &u8| b.is_ascii_alphanumeric() || b"_.-".contains(b);
    if (1..=64).contains(&word.len()) && word.iter().all(good) {
        return Ok(word.to_vec());
    }
    Err("ERR name must be 1 to 64 of A-Z a-z 0-9 _ . -".into())
}

/// `capacity x period / rate` of a bucket.
pub fn check_refill(b: &Bucket) -> Res<()> {
    let ms = rat(b.capacity) * frac(b.period_us, 1000) / rat(b.rate);
    if ms > rat(MAX_REFILL_MS) {
        return Err("ERR capacity must refill within 36500 days at this rate".into());
    }
    Ok(())
}

/// The ranges of one rule, left to right.
/// READING: the refill check comes after the rule's own arguments and before
/// the next rule's.
pub fn rule(raw: &RawRule) -> Res<GivenRule> {
    Ok(GivenRule::Settings(match raw {
        RawRule::Bucket { leaky, capacity, rate, per } => {
            let capacity = integer("capacity", capacity, 1, MAX_NUMBER)?;
            let rate = integer("rate", rate, 1, MAX_NUMBER)?;
            let period_us = per.map_or(Ok(1000), |w| duration("period", w))? * 1000;
            let bucket = Bucket { capacity, rate, period_us };
            check_refill(&bucket)?;
            if *leaky {
                Settings::Leaky(bucket)
            } else {
                Settings::Token(bucket)
            }
        }
        RawRule::Slide { limit, window, blocks } => Settings::Slide {
            limit: integer("limit", limit, 1, MAX_NUMBER)?,
            window_ms: duration("window", window)?,
            blocks: blocks.map(|w| integer("blocks", w, 1, 1000)).transpose()?,
        },
        RawRule::Fixed { limit, window, align } => Settings::Fixed {
            limit: integer("limit", limit, 1, MAX_NUMBER)?,
            window_ms: duration("window", window)?,
            align_ms: align.map(offset).transpose()?,
        },
        RawRule::Policy(name) => return Ok(GivenRule::Policy(policy_name(name)?)),
    }))
}

/// The costs; none given is a single 1.
/// READING: zeros only is a range error, so it comes before an unknown policy
/// and before the cost count.
pub fn costs(raw: &Option<Vec<&[u8]>>) -> Res<Vec<i64>> {
    let Some(words) = raw else { return Ok(vec![1]) };
    let min = if words.len() == 1 { 1 } else { 0 };
    let mut costs = Vec::new();
    for w in words {
        costs.push(integer("cost", w, min, MAX_NUMBER).map_err(|e| {
            if *w == b"0" {
                format!("{e}, use RL.PEEK to look")
            } else {
                e
            }
        })?);
    }
    if costs.iter().all(|c| *c == 0) {
        return Err("ERR cost must be above 0 for a rule, use RL.PEEK to look".into());
    }
    Ok(costs)
}
