//! The keys that were denied most, in constant memory.
//!
//! ```text
//!   a denied key ─▶ in the list? ── yes ─▶ counted there, exactly
//!                        │ no                    ▲            │
//!                        ▼                       │ takes the place of the least,
//!                     sketch ── more than the least listed? ──┘ whose count goes back
//! ```
//!
//! The list holds `rl.top-keys` keys with exact counts. Keys outside are counted by HeavyKeeper (Gong
//! et al., "HeavyKeeper: An Accurate Algorithm for Finding Top-k Elephant Flows", USENIX ATC 2018; in
//! `sketch`), which holds no keys: a flood of keys that are denied once or twice allocates nothing and
//! drives out nobody. The paper sends every event through the sketch; here listed keys pass it by, and
//! a key that leaves the list takes its count back to the sketch (the exchange of Roy et al.,
//! "Augmented Sketch", SIGMOD 2016), so that counts in the list do not decay.
//!
//! What is true of the counts:
//! - As long as no more keys were denied than the list holds, all are exact.
//! - A count is never more than the truth, unless two keys share a cell of the sketch and the 32 bits
//!   by which it tells keys apart; then it may be too high by at most the least count in the list.
//! - A count falls short by what the key lost in the sketch before it was listed. A key that is
//!   denied more often than its cells are hit by others climbs into the list whatever the rest do.
//!
//! Of long keys the first [`KEPT_BYTES`] are kept and shown; the rest tells them apart by its hash.

mod list;
mod sketch;

use crate::server::config;
use list::List;
use sketch::Sketch;
use std::cmp::Reverse;
use std::sync::{Mutex, MutexGuard};

/// So much of a key is kept.
const KEPT_BYTES: usize = 512;

/// One of the most denied keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The key, or its first [`KEPT_BYTES`].
    pub(crate) key: Vec<u8>,
    /// How often it was denied.
    pub(crate) denied: u64,
    /// The database it was denied in.
    pub(crate) db: i32,
}

/// A denied key with its hash.
#[derive(Clone, Copy, Debug)]
struct Id<'a> {
    hash: u64,
    db: i32,
    key: &'a [u8],
}

/// The list and the sketch for one size; made by the first denial.
#[derive(Debug)]
struct Top {
    size: usize,
    seed: u64,
    list: List,
    sketch: Sketch,
}

/// Commands run on one thread, so nobody ever waits for this lock; it costs two atomic operations.
static TOP: Mutex<Option<Box<Top>>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Box<Top>>> {
    TOP.lock().unwrap_or_else(|poisoned| {
        // A panic may have left list and sketch at odds: begin anew.
        TOP.clear_poison();
        let mut top = poisoned.into_inner();
        *top = None;
        top
    })
}

/// Counts a denied key.
pub(crate) fn denied(db: i32, key: &[u8]) {
    let mut top = lock();
    if fit(&mut top, size()) {
        top.get_or_insert_with(|| Box::new(Top::new(size()))).denied(db, key);
    }
}

/// The most denied keys, at most `count`, most denied first.
pub(crate) fn most_denied(count: usize) -> Vec<Row> {
    let mut top = lock();
    fit(&mut top, size());
    top.as_ref().map_or_else(Vec::new, |top| top.most_denied(count))
}

/// Forgets all counts.
pub(crate) fn reset() {
    *lock() = None;
}

fn size() -> usize {
    usize::try_from(config::top_keys()).unwrap_or(usize::MAX)
}

/// Follows a change of `rl.top-keys`: the most denied keys stay as far as there is room. False if
/// nothing is to be counted.
fn fit(top: &mut Option<Box<Top>>, size: usize) -> bool {
    if top.as_ref().is_some_and(|top| top.size != size) {
        *top = match top.take() {
            Some(old) if size > 0 => Some(Box::new(old.resized(size))),
            _ => None,
        };
    }
    size > 0
}

impl Top {
    fn new(size: usize) -> Self {
        let (list, sketch) = (List::new(size), Sketch::new(size, rand::random()));
        Self { size, seed: rand::random(), list, sketch }
    }

    #[inline]
    fn denied(&mut self, db: i32, key: &[u8]) {
        let id = Id { hash: hash(self.seed, db, key), db, key };
        if !self.list.count(&id) {
            self.denied_outside(&id);
        }
    }

    fn denied_outside(&mut self, id: &Id<'_>) {
        let Some(least) = self.list.least_if_full() else {
            let count = self.sketch.add(id.hash, u64::MAX);
            return self.list.insert(id, count);
        };
        // A key outside has at most the least count listed, or it would be inside.
        if self.sketch.add(id.hash, least) > least {
            if let Some((hash, count)) = self.list.replace_least(id, least.saturating_add(1)) {
                self.sketch.put_back(hash, count);
            }
        }
    }

    fn most_denied(&self, count: usize) -> Vec<Row> {
        let mut all: Vec<_> = self.list.all().collect();
        all.sort_unstable_by_key(|(listed, denied)| (Reverse(*denied), listed.db, &listed.key));
        let row = |(listed, denied): (&list::Listed, u64)| Row {
            key: listed.key.to_vec(),
            denied,
            db: listed.db,
        };
        all.into_iter().take(count).map(row).collect()
    }

    /// The same counts in a list of another size. The sketch begins anew: what it holds is told apart
    /// by the least count listed, which is another now.
    fn resized(self, size: usize) -> Self {
        let mut new = Self { seed: self.seed, ..Self::new(size) };
        new.list.take_most(self.list, size);
        new
    }
}

/// An odd number with as many ones as zeros, in no pattern (the golden ratio's binary digits).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A multiplication whose high half is folded onto the low one: every bit of the input reaches every
/// bit of the answer.
#[inline]
fn mix(value: u64) -> u64 {
    let product = u128::from(value).wrapping_mul(u128::from(MULTIPLIER));
    (product as u64) ^ ((product >> 64) as u64)
}

/// A fast hash, seeded at random so that nobody can prepare keys that collide.
#[inline]
fn hash(seed: u64, db: i32, key: &[u8]) -> u64 {
    let mut hash = mix(seed ^ u64::from(db.cast_unsigned()));
    let mut words = key.chunks_exact(8);
    for word in &mut words {
        hash = mix(hash ^ word.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)));
    }
    let rest = match (words.remainder(), key.last_chunk()) {
        ([], _) => 0,
        // The last eight bytes, of which some were hashed before: quicker than to pick out the others.
        (_, Some(bytes)) => u64::from_le_bytes(*bytes),
        (short, None) => short.iter().fold(0, |word, byte| (word << 8) | u64::from(*byte)),
    };
    mix(mix(hash ^ rest) ^ u64::try_from(key.len()).unwrap_or(u64::MAX) ^ seed)
}

#[cfg(test)]
mod tests;
