//! RL.MCHARGE: several keys, all or nothing.
//!
//! ```text
//!   RL.MCHARGE numkeys key [key ...] rule [rule ...] [FORCE] [COST n [n ...]]
//! ```

use super::args::{self, Grammar, Shape};
use super::asks::{self, Asks};
use super::charge::{decide_on, denied, jitter, keeps, CHARGED};
use super::effect;
use super::error::{Argument, Error};
use super::reply;
use crate::limit::bytes::Bytes;
use crate::limit::few::{Few, ROOM};
use crate::limit::steady::Steady;
use crate::limit::{Decision, Row, Rule};
use crate::server::{Access, Call, Key, Opened};

/// The most keys of one call.
const MAX_KEYS: usize = 64;

/// The word of key `i` of RL.MCHARGE.
const fn key_word(i: usize) -> usize {
    i.saturating_add(2)
}

/// How many keys RL.MCHARGE names: 1 to 64, and as many words must follow.
fn key_count(call: &Call) -> Result<usize, Error> {
    let count = args::integer(call.arg(1), 1, MAX_KEYS as u64);
    let count = count.and_then(|n| usize::try_from(n).ok()).ok_or(Error::of(Argument::NumKeys))?;
    if count.saturating_add(2) <= call.argc() {
        Ok(count)
    } else {
        Err(Error::Syntax)
    }
}

pub(crate) fn mcharge(call: &Call) {
    if call.is_keys_position_request() {
        // The server asks where the keys are; key specs alone do not route a call everywhere.
        for i in 0..key_count(call).unwrap_or(0) {
            call.key_at(key_word(i), Access::Update);
        }
        return;
    }
    if let Err(error) = charge_keys(call) {
        error.answer(call);
    }
}

fn charge_keys(call: &Call) -> Result<(), Error> {
    let keys = key_count(call)?;
    let distinct = no_repeated_key(call, keys);
    // A few keys are opened first, so that their memory arrives while the words are read.
    let mut open = [const { None::<Key<'_>> }; ROOM];
    if keys <= ROOM && distinct.is_ok() {
        for (i, place) in open.iter_mut().enumerate().take(keys) {
            *place = Some(call.open_write(key_word(i)));
        }
    }
    let shape = Shape::list(call, key_word(keys), Grammar::CHARGE)?;
    if shape.rule_count() != keys {
        return Err(Error::of(Argument::NumKeys));
    }
    open.iter().flatten().for_each(Key::fetch_apart);
    let is_kept = |i: usize, rule: &Rule| match open.get(i) {
        Some(Some(key)) => keeps(call, key, 0, rule),
        _ => keeps(call, &call.open_write(key_word(i)), 0, rule),
    };
    if keys > ROOM || shape.names_policy() {
        let asks = asks::per_key(call, &shape, is_kept)?;
        drop(open);
        distinct?;
        return many_keys(call, &asks);
    }
    let mut asks = Asks::empty(shape.force());
    asks.read(call, &shape, is_kept)?;
    distinct?;
    match few_keys(call, open, &asks) {
        Some(()) => Ok(()),
        None => many_keys(call, &asks.split()),
    }
}

/// A key with its rule.
struct One<'c, 'a> {
    key: Key<'c>,
    steady: Steady<'a, 1>,
    /// Whether its own rule lets the call pass.
    passes: bool,
}

/// A few keys, each of which keeps its rule exactly as asked for: nearly every call. `None`, and
/// nothing is done, if that is not so.
fn few_keys(call: &Call, open: [Option<Key<'_>>; ROOM], asks: &Asks) -> Option<()> {
    let now = call.now();
    let mut all = [const { None::<One<'_, '_>> }; ROOM];
    let mut pass = true;
    let opened = open.into_iter().flatten();
    for (place, (key, request)) in all.iter_mut().zip(opened.zip(asks.each())) {
        let steady = Steady::new(request, now);
        let one = place.insert(One { key, steady, passes: true });
        one.passes = one.steady.look(one.key.value())?;
        pass &= one.passes;
    }
    let mut rows = Few::none();
    for one in all.iter_mut().flatten() {
        one.steady.conclude(one.key.value(), pass, &mut rows);
    }
    let mut blobs = [const { None::<Bytes> }; ROOM];
    let mut denies = [false; ROOM];
    for (one, (blob, denies)) in all.iter_mut().flatten().zip(blobs.iter_mut().zip(&mut denies)) {
        if one.steady.charges() {
            *blob = Some(effect::store_steady(&mut one.key, &one.steady, now));
        }
        *denies = !one.passes;
    }
    drop(all);
    let mut changes = Few::none();
    for (i, blob) in blobs.iter().enumerate() {
        if let Some(blob) = blob {
            changes.push((key_word(i), blob.as_slice()));
        }
    }
    publish_all(call, changes.all(), |_| true);
    asks.count(rows.all(), pass);
    for (i, _) in denies.iter().enumerate().filter(|(_, denies)| **denies) {
        denied(call, key_word(i));
    }
    reply::layers(call, rows.all(), jitter(pass));
    Some(())
}

fn many_keys(call: &Call, asks: &[Asks]) -> Result<(), Error> {
    let keys = asks.len();
    let now = call.now();
    let mut open: Vec<_> = (0..keys).map(|i| call.open_write(key_word(i))).collect();
    if open.iter().any(|key| key.opened() == Opened::Foreign) {
        return Err(Error::WrongType);
    }
    let mut decisions = Vec::with_capacity(keys);
    for (key, asks) in open.iter().zip(asks) {
        decisions.push(decide_on(key, asks, now)?);
    }
    let pass = decisions.iter().all(Decision::passes);
    let rows: Vec<Row> = decisions.iter().flat_map(|d| d.rows(pass, true)).collect();
    let deniers: Vec<usize> = (0..keys)
        .filter(|i| decisions.get(*i).is_some_and(|d| !d.passes()))
        .map(key_word)
        .collect();
    let writes: Vec<_> = decisions.iter().map(|d| d.write(pass)).collect();
    drop(decisions);
    let mut changes: Vec<(usize, Bytes, bool)> = Vec::with_capacity(keys);
    for (i, (key, write)) in open.iter_mut().zip(&writes).enumerate() {
        if let Some(write) = write {
            let blob = effect::store(key, write, now);
            changes.push((key_word(i), blob, write.charged));
        }
    }
    drop(open);
    let blobs: Vec<_> = changes.iter().map(|(at, blob, _)| (*at, blob.as_slice())).collect();
    publish_all(call, &blobs, |i| changes.get(i).is_some_and(|(.., charged)| *charged));
    asks::count_all(asks, &rows, pass);
    for at in deniers {
        denied(call, at);
    }
    reply::layers(call, &rows, jitter(pass));
    Ok(())
}

/// All changes as one command in the stream; `charged` tells which of them are charges.
fn publish_all(call: &Call, changes: &[(usize, &[u8])], charged: impl Fn(usize) -> bool) {
    for (at, _) in changes {
        call.signal_modified(*at);
    }
    call.replicate_many(changes);
    for (i, (at, _)) in changes.iter().enumerate() {
        if charged(i) {
            call.notify(CHARGED, *at);
        }
    }
}

fn no_repeated_key(call: &Call, keys: usize) -> Result<(), Error> {
    let name = |i: usize| call.arg(key_word(i));
    let repeated = if keys <= ROOM {
        (0..keys).any(|i| (0..i).any(|j| name(i) == name(j)))
    } else {
        let mut names: Vec<&[u8]> = (0..keys).map(name).collect();
        names.sort_unstable();
        names.windows(2).any(|pair| matches!(pair, [a, b] if a == b))
    };
    if repeated {
        Err(Error::of(Argument::RepeatedKey))
    } else {
        Ok(())
    }
}
