//! An independent, slow and exact model of the rate limiter commands.
//!
//! It is written from the contract alone and shares no code with the crate: it
//! keeps plain lists and exact fractions and asks for nothing but clarity. Tests
//! replay the same calls against it and a server and compare the replies.
//!
//! The model has no expiry: a key that is as good as new stays stored (it "may
//! count again after a step back") until it is charged anew. Where a server has
//! removed a key, the test says so with [`Model::del`].
//!
//! Places where the contract can be read in more than one way carry a
//! `READING:` comment.

#![allow(dead_code)]

pub mod algorithms;
pub mod args;
mod calls;
mod changes;
pub mod commands;
pub mod decision;
pub mod gen;
pub mod lists;
pub mod numbers;
pub mod settings;
mod targets;
pub mod words;

use algorithms::Settings;
use lists::Key;
use std::collections::BTreeMap;

/// What a call answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// TOKEN LEAKY SLIDE FIXED.
    Six([i64; 6]),
    /// CHARGE MCHARGE PEEK REFUND.
    Layers([i64; 6], Vec<[i64; 6]>),
    Null,
    /// CL.THROTTLE.
    Five([i64; 5]),
    /// The text of an error; compare it with [`same_error`].
    Error(String),
    /// `RL.POLICY SET`.
    Ok,
    /// `RL.POLICY DEL`.
    Int(i64),
    /// A command the model does not answer (it changes nothing).
    Other,
}

/// A named list of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub rules: Vec<Settings>,
    pub shadow: bool,
    pub version: u64,
}

/// The whole state of a server, as far as the limiter is concerned.
#[derive(Clone, Debug)]
pub struct Model {
    pub keys: BTreeMap<Vec<u8>, Key>,
    /// Keys of another data type (strings).
    pub foreign: BTreeMap<Vec<u8>, Vec<u8>>,
    pub policies: BTreeMap<Vec<u8>, Policy>,
    /// `rl.slide-max-log`.
    pub slide_max_log: i64,
    /// `rl.max-policies`.
    pub max_policies: usize,
    last_version: u64,
    wrote: bool,
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Model {
    /// An empty server with the default configuration.
    pub fn new() -> Self {
        Model {
            keys: BTreeMap::new(),
            foreign: BTreeMap::new(),
            policies: BTreeMap::new(),
            slide_max_log: 100_000,
            max_policies: 1024,
            last_version: 0,
            wrote: false,
        }
    }

    /// Runs one call at `now_us` (microseconds since the epoch); `args[0]` is
    /// the command.
    pub fn call(&mut self, now_us: i64, args: &[&[u8]]) -> Reply {
        self.wrote = false;
        match self.dispatch(now_us, args) {
            Ok(reply) => reply,
            Err(text) => Reply::Error(text),
        }
    }

    /// Whether the last call stored anything (SPEC 4.1).
    pub fn wrote_last(&self) -> bool {
        self.wrote
    }

    /// The smallest and largest PTTL in ms that a key may have right after it was
    /// written at `now_us` (SPEC 4.2); `None` if it is missing or as good as new.
    /// READING: "a full limiter" is one used up to its capacity or limit, without
    /// debt; of several rules the slowest one.
    pub fn bounds(&self, key: &[u8], now_us: i64) -> Option<(i64, i64)> {
        let key = self.keys.get(key)?;
        let rules = &key.rules[..key.len_at(now_us)];
        let min = rules.iter().map(|r| r.seen(now_us).reset_ms(now_us)).max()?;
        let full = rules.iter().map(|r| r.settings.full_reset_ms()).max()?;
        Some((min, 2 * full + 1000))
    }

    /// Forgets a key, of whatever type.
    pub fn del(&mut self, key: &[u8]) -> bool {
        let limiter = self.keys.remove(key).is_some();
        self.foreign.remove(key).is_some() || limiter
    }

    /// Stores a string under a name, as SET does.
    pub fn set_foreign(&mut self, key: &[u8], value: &[u8]) {
        self.keys.remove(key);
        self.foreign.insert(key.to_vec(), value.to_vec());
    }

    /// Stores `new` under `name` if it differs from what is there.
    /// READING: rules at the end, beyond those asked for, that were fresh before the
    /// write or became so by it are gone: they do not count again after a step back.
    pub(crate) fn store(&mut self, name: &[u8], mut new: Key, now_us: i64) {
        let old = self.keys.get(name);
        if old != Some(&new) {
            if let Some(old) = old {
                new.rules.truncate(old.len_at(now_us).max(new.asked));
                let emptied = |new: &Key, i: usize| {
                    new.rules[i].is_fresh(now_us) && !old.rules[i].is_fresh(now_us)
                };
                while new.rules.len() > new.asked && emptied(&new, new.rules.len() - 1) {
                    new.rules.pop();
                }
            }
            self.keys.insert(name.to_vec(), new);
            self.wrote = true;
        }
    }
}

/// What decides about an error text: its code and the words that the contract
/// fixes (the name of the argument, the rule's number, the lists).
fn decisive(text: &str) -> String {
    let code = text.split(' ').next().unwrap_or("");
    if text.starts_with("WRONGTYPE key holds") {
        return text.to_string();
    }
    if code != "ERR" {
        return code.to_string();
    }
    if text.contains("wrong number of arguments") || text.contains("syntax error") {
        return "ERR words".into();
    }
    let rule = text.rfind(" (rule ").map_or("", |at| &text[at..]);
    if text.contains("36500 days") {
        return format!("ERR refill{rule}");
    }
    if text.starts_with("ERR cost must be one number or one per rule") {
        return "ERR cost count".into();
    }
    match text.find(" must ") {
        Some(at) => {
            let name = match &text[4..at] {
                "n" | "BLOCKS" | "BLOCKS n" => "blocks",
                "policy" => "name",
                name => name,
            };
            format!("ERR {name} must{rule}")
        }
        None => "ERR".into(),
    }
}

/// Whether two error texts say the same as far as the contract fixes it.
pub fn same_error(a: &str, b: &str) -> bool {
    decisive(a) == decisive(b)
}
