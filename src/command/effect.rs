//! What a decided call does to the server: where keys change, and with them their TTL, the stream to
//! replicas and AOF, WATCH, client tracking and keyspace events. Calls on several keys tell of them all
//! at once (`mcharge`); what a primary has decided is only carried out (`internal`).

use crate::limit::bytes::Bytes;
use crate::limit::solo::SoloWrite;
use crate::limit::steady::Steady;
use crate::limit::time::{ceil_ms, floor_ms, Micros, Millis};
use crate::limit::write::Write;
use crate::server::{Call, Key};
use crate::stats;
use std::ffi::CStr;

/// The TTL may outlast twice a full reset by this much.
const SPARE_MS: u64 = 1_000;

/// Stores a write, renews the TTL if need be, and returns what has to be told to replicas.
pub(crate) fn store(key: &mut Key<'_>, write: &Write<'_>, now: Micros) -> Bytes {
    let change = match key.value_mut() {
        Some(limiter) => write.update(limiter),
        None => {
            let (limiter, change) = write.create();
            key.create(limiter);
            change
        }
    };
    let full = || change.full_reset_ms;
    let slack = || change.slack_ms;
    let expire_at = renewed(key.expire_at(), change.reset_ms, full, slack, now);
    if let Some(at) = expire_at {
        key.set_expire_at(at);
    }
    count(write.changed, write.repaired);
    let mut blob = Bytes::default();
    if let Some(limiter) = key.value() {
        change.encode(limiter, expire_at, &mut blob);
    }
    blob
}

/// The same for one rule on a key that holds no other.
pub(crate) fn store_solo(key: &mut Key<'_>, write: &SoloWrite, now: Micros) -> Bytes {
    let full = || write.full_reset_ms();
    let slack = || write.slack_ms();
    let expire_at = renewed(key.expire_at(), write.reset_ms, full, slack, now);
    let mut blob = Bytes::default();
    if let Some(limiter) = write.apply(key.value_mut(), expire_at, &mut blob) {
        key.create(limiter);
    }
    if let Some(at) = expire_at {
        key.set_expire_at(at);
    }
    count(write.changed, write.repaired);
    blob
}

/// The same for a list of rules that the key keeps as they are.
pub(crate) fn store_steady<const N: usize>(
    key: &mut Key<'_>,
    steady: &Steady<'_, N>,
    now: Micros,
) -> Bytes {
    let full = || steady.full_reset_ms();
    let slack = || steady.slack_ms();
    let expire_at = renewed(key.expire_at(), steady.reset_ms, full, slack, now);
    let mut blob = Bytes::default();
    if let Some(limiter) = key.value_mut() {
        steady.apply(limiter, expire_at, &mut blob);
    }
    if let Some(at) = expire_at {
        key.set_expire_at(at);
    }
    blob
}

fn count(changed: bool, repaired: bool) {
    if changed {
        stats::settings_changed();
    }
    if repaired {
        stats::clock_stepped();
    }
}

/// Tells everybody that the key of word `at` has changed. The key must be closed.
pub(crate) fn publish(call: &Call, at: usize, blob: &Bytes, event: Option<&CStr>) {
    call.signal_modified(at);
    call.replicate(at, blob.as_slice());
    if let Some(event) = event {
        call.notify(event, at);
    }
}

/// When the key is to expire, if its present TTL is too short or too long.
///
/// A key lives at least until all its rules are as good as new, and at most twice as long as a
/// full limiter needs plus a second. Within that the TTL is renewed lazily: a bucket or a log gets
/// an eighth of a full reset in advance, so that a busy key sends a new TTL only now and then and
/// a key that is used once goes soon.
fn renewed(
    expire_at: Option<Millis>,
    reset_ms: u64,
    full_reset_ms: impl Fn() -> u64,
    slack_ms: impl Fn() -> u64,
    now: Micros,
) -> Option<Millis> {
    let soonest = ceil_ms(now).saturating_add_unsigned(reset_ms);
    let latest = || {
        let most = full_reset_ms().saturating_mul(2).saturating_add(SPARE_MS);
        floor_ms(now).saturating_add_unsigned(most)
    };
    match expire_at {
        Some(at) if at >= soonest && at <= latest() => None,
        _ => Some(soonest.saturating_add_unsigned(slack_ms()).min(latest())),
    }
}
