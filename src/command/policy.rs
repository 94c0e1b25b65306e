//! RL.POLICY: named lists of rules.
//!
//! ```text
//!   RL.POLICY SET name rule [rule ...] [SHADOW] | GET name | DEL name [name ...] | LIST | HELP
//! ```

use super::args::{rules_fit, Given, Grammar, Shape};
use super::error::{Argument, Error};
use crate::limit::{Bucket, Rule};
use crate::policy::{self, Policy, Set};
use crate::server::{config, Call};
use std::sync::atomic::Ordering::Relaxed;

pub(crate) fn set(call: &Call) {
    match store(call) {
        Ok(()) => call.ok(),
        Err(error) => error.answer(call),
    }
}

fn store(call: &Call) -> Result<(), Error> {
    let shape = Shape::list(call, 3, Grammar::POLICY)?;
    if shape.rule_count() == 0 {
        return Err(Error::Syntax);
    }
    if shape.names_policy() {
        return Err(Error::of(Argument::PolicyInPolicy));
    }
    let name = name(call, 2)?;
    let kept = policy::get(name);
    let is_kept = |i: usize, rule: &Rule| {
        kept.as_ref().is_some_and(|policy| policy.rules.get(i) == Some(rule))
    };
    let given = shape.rules(call, config::slide_max_log(), is_kept)?;
    rules_fit(given.len())?;
    let rules: Vec<Rule> = given.all().iter().filter_map(Given::rule).collect();
    let most = config::max_policies();
    match policy::set(name, &rules, shape.shadow(), most) {
        Set::Unchanged => Ok(()),
        Set::Full => Err(Error::of(Argument::TooManyPolicies(most))),
        Set::Changed(change) => {
            call.replicate_policy(&change);
            Ok(())
        }
    }
}

/// The word as a name that a policy may have.
fn name(call: &Call, word: usize) -> Result<&[u8], Error> {
    let name = call.arg(word);
    if policy::is_name(name) {
        Ok(name)
    } else {
        Err(Error::of(Argument::PolicyName))
    }
}

pub(crate) fn get(call: &Call) {
    match name(call, 2).map(policy::get) {
        Ok(Some(policy)) => show(call, &policy),
        Ok(None) => call.null_array(),
        Err(error) => error.answer(call),
    }
}

fn show(call: &Call, policy: &Policy) {
    let int = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    call.map(6);
    call.bytes(b"rules");
    call.array(policy.rules.len());
    for rule in &policy.rules {
        call.bytes(text(rule).as_bytes());
    }
    let counters = &policy.counters;
    for (name, value) in [
        ("shadow", u64::from(policy.shadow)),
        ("version", policy.version),
        ("allowed", counters.allowed.load(Relaxed)),
        ("denied", counters.denied.load(Relaxed)),
        ("shadow_denied", counters.shadow_denied.load(Relaxed)),
    ] {
        call.bytes(name.as_bytes());
        call.int(int(value));
    }
}

pub(crate) fn del(call: &Call) {
    let names: Result<Vec<_>, _> = (2..call.argc()).map(|i| name(call, i)).collect();
    match names {
        Ok(names) => {
            let (gone, change) = policy::delete(names.into_iter());
            if gone > 0 {
                call.replicate_policy(&change);
            }
            call.int(gone);
        }
        Err(error) => error.answer(call),
    }
}

pub(crate) fn list(call: &Call) {
    let names = policy::names();
    call.array(names.len());
    for name in &names {
        call.bytes(name);
    }
}

pub(crate) fn help(call: &Call) {
    const LINES: [&std::ffi::CStr; 13] = [
        c"RL.POLICY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        c"SET <name> <rule> [<rule> ...] [SHADOW]",
        c"    Create or change a named list of 1 to 16 rules; SHADOW decides and counts,",
        c"    but never denies. Use it by RL.CHARGE <key> POLICY <name>.",
        c"GET <name>",
        c"    Show its rules and version, and what this server allowed and denied by it.",
        c"DEL <name> [<name> ...]",
        c"    Delete policies; calls that still name them get NOPOLICY.",
        c"LIST",
        c"    Show all names in byte order.",
        c"HELP",
        c"    Print this help.",
        c"In a cluster set a policy on every primary: redis-cli --cluster call.",
    ];
    call.array(LINES.len());
    for line in LINES {
        call.status(line);
    }
}

/// A rule in the words of SET.
fn text(rule: &Rule) -> String {
    let name = rule.algorithm().name();
    let bucket = |b: &Bucket| {
        let period = duration(b.period_ms());
        format!("{name} {} {} PER {period}", b.capacity(), b.rate())
    };
    match rule {
        Rule::Token(b) | Rule::Leaky(b) => bucket(b),
        Rule::Slide(s) => {
            let head = format!("{name} {} {}", s.limit(), duration(s.window_ms()));
            s.blocks().map_or(head.clone(), |n| format!("{head} BLOCKS {n}"))
        }
        Rule::Fixed(f) => {
            let head = format!("{name} {} {}", f.limit(), duration(f.window_ms()));
            f.align_ms().map_or(head.clone(), |ms| {
                let sign = if ms < 0 { "-" } else { "" };
                let offset = if ms == 0 { "0".to_owned() } else { duration(ms.unsigned_abs()) };
                format!("{head} ALIGN {sign}{offset}")
            })
        }
    }
}

/// A duration in the largest unit that gives a whole number.
fn duration(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let whole = units.iter().find(|(size, _)| ms.is_multiple_of(*size));
    let (size, unit) = whole.copied().unwrap_or((1, "ms"));
    format!("{}{unit}", ms.checked_div(size).unwrap_or(ms))
}
