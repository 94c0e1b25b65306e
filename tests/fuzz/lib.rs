//! What is fuzzed, and what must then be true.
//!
//! The files of `src/command` and `src/policy.rs` are compiled here a second time, as they are, against
//! `server`: a map that offers the functions of `src/server` which commands use. So whole commands run
//! from words to reply without a server, millions in a minute.
//!
//! - `decode`: bytes that a key, a change or a policy could be.
//! - `words`: calls as text, against the exact model; finds what the parsers let through.
//! - `calls`: calls made of bytes, none of them wrong by syntax, against the exact model and a replica.
//!
//! The same file is the root of the fuzzer's library and of the test `fuzz`, which replays the corpus.

#![allow(dead_code, unexpected_cfgs)] // `fuzzing` is set by cargo-fuzz

pub use redis_rl::limit;

#[cfg(fuzzing)]
mod alloc;
pub mod calls;
#[path = "../../src/command/mod.rs"]
mod command;
pub mod decode;
#[path = "../model/mod.rs"]
mod model;
mod pair;
#[path = "../../src/policy.rs"]
mod policy;
#[cfg(test)]
mod replay;
mod server;
#[path = "../../src/stats.rs"]
mod stats;
pub mod words;

/// The list of the most denied keys, which counts by chance, in plain.
mod top {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    pub(crate) struct Row {
        pub(crate) key: Vec<u8>,
        pub(crate) denied: u64,
        pub(crate) db: i32,
    }

    thread_local! {
        static DENIED: RefCell<BTreeMap<Vec<u8>, u64>> = const { RefCell::new(BTreeMap::new()) };
    }

    pub(crate) fn denied(_: i32, key: &[u8]) {
        DENIED.with_borrow_mut(|all| *all.entry(key.to_vec()).or_default() += 1);
    }

    pub(crate) fn most_denied(count: usize) -> Vec<Row> {
        let row = |(key, n): (&Vec<u8>, &u64)| Row { key: key.clone(), denied: *n, db: 0 };
        DENIED.with_borrow(|all| all.iter().take(count).map(row).collect())
    }

    pub(crate) fn reset() {
        DENIED.with_borrow_mut(BTreeMap::clear);
    }
}
