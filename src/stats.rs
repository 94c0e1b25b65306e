//! Counters of this server since its start, as INFO shows them.
//!
//! Only the main thread counts and asks: plain loads and stores of atomics are enough, and cost nothing.

use crate::limit::Algorithm;
use crate::policy;
use crate::server::version;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static ALLOWED: AtomicU64 = AtomicU64::new(0);
static DENIED: AtomicU64 = AtomicU64::new(0);
static SHADOW_DENIED: AtomicU64 = AtomicU64::new(0);
static ERRORS: AtomicU64 = AtomicU64::new(0);
static SETTINGS_CHANGES: AtomicU64 = AtomicU64::new(0);
static CLOCK_STEPS: AtomicU64 = AtomicU64::new(0);
static BY_ALGORITHM: [[AtomicU64; 2]; 4] = [const { [const { AtomicU64::new(0) }; 2] }; 4];

fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
}

/// A charge command was decided.
pub(crate) fn decided(allowed: bool) {
    bump(if allowed { &ALLOWED } else { &DENIED });
}

/// Only shadow rules would have denied a call.
pub(crate) fn shadow_denied() {
    bump(&SHADOW_DENIED);
}

/// A rule let a charge pass or denied it.
pub(crate) fn rule(algorithm: Algorithm, allowed: bool) {
    let [denied, passed] = match algorithm {
        Algorithm::Token => &BY_ALGORITHM[0],
        Algorithm::Leaky => &BY_ALGORITHM[1],
        Algorithm::Slide => &BY_ALGORITHM[2],
        Algorithm::Fixed => &BY_ALGORITHM[3],
    };
    bump(if allowed { passed } else { denied });
}

/// A command answered an error.
pub(crate) fn error() {
    bump(&ERRORS);
}

/// A call stored settings that differ from the kept ones.
pub(crate) fn settings_changed() {
    bump(&SETTINGS_CHANGES);
}

/// A mark that lay in the future was repaired.
pub(crate) fn clock_stepped() {
    bump(&CLOCK_STEPS);
}

/// All fields, without the prefix that the server puts before them.
pub(crate) fn fields(show: &mut dyn FnMut(&CStr, u64)) {
    let (policies, digest) = policy::summary();
    let single: [(&CStr, u64); 9] = [
        (c"allowed", ALLOWED.load(Relaxed)),
        (c"denied", DENIED.load(Relaxed)),
        (c"shadow_denied", SHADOW_DENIED.load(Relaxed)),
        (c"errors", ERRORS.load(Relaxed)),
        (c"settings_changes", SETTINGS_CHANGES.load(Relaxed)),
        (c"clock_steps", CLOCK_STEPS.load(Relaxed)),
        (c"policies", policies),
        (c"policies_digest", digest),
        (c"version", u64::from(version().unsigned_abs())),
    ];
    for (name, value) in single {
        show(name, value);
    }
    let names: [[&CStr; 2]; 4] = [
        [c"token_denied", c"token_allowed"],
        [c"leaky_denied", c"leaky_allowed"],
        [c"slide_denied", c"slide_allowed"],
        [c"fixed_denied", c"fixed_allowed"],
    ];
    for (names, counters) in names.iter().zip(&BY_ALGORITHM) {
        for (name, counter) in names.iter().zip(counters).rev() {
            show(name, counter.load(Relaxed));
        }
    }
}
