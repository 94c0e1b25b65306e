//! Throwaway: shows that the server layer works. Not to be merged.

#![allow(
    clippy::all,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use crate::limit::Limiter;
use crate::policy;
use crate::server::{config, Access, Call, Opened};

fn store(call: &Call, at: usize, blob: &[u8]) {
    let mut key = call.open_write(at);
    if let Some(limiter) = key.value_mut() {
        limiter.bytes = blob.to_vec();
        limiter.words.push(7);
    } else {
        key.create(Limiter {
            bytes: blob.to_vec(),
            words: vec![1, 2, 3],
        });
    }
    key.set_expire_at(call.now() / 1000 + 100_000);
}

/// k a b: "deny" writes nothing, "panic" panics, anything else stores.
pub(super) fn charge(call: &Call) {
    match call.arg(2) {
        b"panic" => {
            let nothing: Vec<u8> = Vec::new();
            call.int(i64::from(nothing[call.argc()]));
        }
        b"error" => return call.error(&"ERR something\r\nwith breaks ".repeat(60)),
        _ => {}
    }
    let mut key = call.open_write(1);
    let mut blob = Vec::new();
    let expire;
    match key.opened() {
        Opened::Foreign => return call.wrong_type(),
        _ if call.arg(2) == b"delete" => {
            key.delete();
            return call.int(key.opened() as i64);
        }
        _ if call.arg(2) == b"deny" => {
            key.value();
            expire = key.expire_at();
        }
        Opened::Missing | Opened::Ours => {
            drop(key);
            store(call, 1, call.arg(2));
            let key = call.open_write(1);
            key.value().unwrap().encode(&mut blob);
            expire = key.expire_at();
            blob.extend_from_slice(&expire.unwrap_or(0).to_le_bytes());
            drop(key);
            call.signal_modified(1);
            call.replicate(1, &blob);
            call.notify(c"rl.charge", 1);
        }
    }
    call.array(6);
    for n in [1, 2, 3, 4, expire.unwrap_or(-1), call.now()] {
        call.int(n);
    }
}

/// Bare cost: open, six integers, replicate.
pub(super) fn mcharge(call: &Call) {
    let count = std::str::from_utf8(call.arg(1))
        .ok()
        .and_then(|t| t.parse::<usize>().ok())
        .filter(|n| (1..=64).contains(n) && n + 2 <= call.argc());
    if call.is_keys_position_request() {
        for i in 0..count.unwrap_or(0) {
            call.key_at(2 + i, Access::Update);
        }
        return;
    }
    let Some(count) = count else {
        return call.error("ERR numkeys must be 1 to 64");
    };
    let mut blobs = Vec::new();
    for i in 0..count {
        store(call, 2 + i, b"m");
        let key = call.open_write(2 + i);
        let mut blob = Vec::new();
        key.value().unwrap().encode(&mut blob);
        blob.extend_from_slice(&key.expire_at().unwrap_or(0).to_le_bytes());
        blobs.push((2 + i, blob));
    }
    for (i, _) in &blobs {
        call.signal_modified(*i);
    }
    call.replicate_many(
        &blobs
            .iter()
            .map(|(i, b)| (*i, b.as_slice()))
            .collect::<Vec<_>>(),
    );
    call.int(count as i64);
}

pub(super) fn peek(call: &Call) {
    let key = call.open_read(1);
    match key.opened() {
        Opened::Missing => call.null_array(),
        Opened::Foreign => call.wrong_type(),
        Opened::Ours => call.bytes(&key.value().unwrap().bytes),
    }
}

pub(super) fn inspect(call: &Call) {
    let key = call.open_read(1);
    let Some(limiter) = key.value() else {
        return call.null_array();
    };
    call.map(2);
    call.bytes(b"words");
    call.int(limiter.words.len() as i64);
    call.bytes(b"db");
    call.int(call.db().into());
}

pub(super) fn refund(call: &Call) {
    call.replicate_verbatim();
    call.int(i64::from(call.must_obey()));
}

pub(super) fn apply(call: &Call) {
    if !call.must_obey() {
        return call.error("ERR internal command");
    }
    for i in (1..call.argc()).step_by(2) {
        let blob = call.arg(i + 1);
        let (state, ttl) = match Limiter::decode(blob) {
            Some(l) => (l, None),
            None => {
                let (s, t) = blob.split_at(blob.len() - 8);
                (
                    Limiter::decode(s).unwrap(),
                    Some(i64::from_le_bytes(t.try_into().unwrap())),
                )
            }
        };
        let mut key = call.open_write(i);
        assert!(key.create(state));
        if let Some(ttl) = ttl {
            key.set_expire_at(ttl);
        }
        drop(key);
        call.signal_modified(i);
    }
    call.replicate_verbatim();
    call.ok();
}

pub(super) fn apply_policy(call: &Call) {
    if !call.must_obey() {
        return call.error("ERR internal command");
    }
    policy::add(call.arg(1));
    call.replicate_verbatim();
    call.ok();
}

pub(super) fn policy_set(call: &Call) {
    policy::add(call.arg(2));
    call.replicate_policy(call.arg(2));
    call.ok();
}

pub(super) fn policy_get(call: &Call) {
    let mut found = false;
    policy::for_each_blob(&mut |b| found |= b == call.arg(2));
    call.int(found.into());
}

pub(super) fn policy_del(call: &Call) {
    policy::clear();
    call.int(1);
}

pub(super) fn policy_list(call: &Call) {
    let mut all = Vec::new();
    policy::for_each_blob(&mut |b| all.push(b.to_vec()));
    call.array(all.len());
    for p in &all {
        call.bytes(p);
    }
}

pub(super) fn policy_help(call: &Call) {
    call.array(1);
    call.status(c"no help");
}

pub(super) fn top(call: &Call) {
    call.array(5);
    for n in [
        config::slide_max_log(),
        config::max_policies(),
        config::notify_denied().into(),
        config::top_keys(),
        config::retry_jitter_ms(),
    ] {
        call.int(n as i64);
    }
}
