//! The corpus, and what becomes of it by some mutations: what the fuzzer does for hours, in seconds.
//! `RL_FUZZ_RUNS` says how many mutations per target.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::SeedableRng;
use std::panic::{catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

#[path = "../support/mutate.rs"]
mod mutate;

/// There is one table of policies.
static ONE: Mutex<()> = Mutex::new(());

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target);
    let files = std::fs::read_dir(&dir).expect("a corpus");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let read = |path: PathBuf| (path.clone(), std::fs::read(path).expect("a file"));
    paths.into_iter().map(read).collect()
}

/// Runs an input; where it fails, it is told how to run it again.
fn run(code: fn(&[u8]), input: &[u8], name: &str) {
    if let Err(payload) = catch_unwind(|| code(input)) {
        eprintln!("{name}: {}", input.escape_ascii());
        resume_unwind(payload);
    }
}

fn replay(target: &str, code: fn(&[u8])) {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let corpus = corpus(target);
    assert!(corpus.len() >= 10, "{} files", corpus.len());
    for (path, input) in &corpus {
        run(code, input, &path.display().to_string());
    }
    let runs = std::env::var("RL_FUZZ_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    let mut rng = StdRng::seed_from_u64(1);
    for number in 0..runs {
        let (one, two) = (corpus.choose(&mut rng).unwrap(), corpus.choose(&mut rng).unwrap());
        let input = mutate::mutate(&mut rng, &one.1, &two.1);
        run(code, &input, &format!("mutation {number} of {}", one.0.display()));
    }
}

#[test]
fn stored_and_sent_bytes() {
    replay("decode", crate::decode::run);
}

#[test]
fn words_of_calls() {
    replay("words", crate::words::run);
}

#[test]
fn sequences_of_calls() {
    replay("calls", crate::calls::run);
}
