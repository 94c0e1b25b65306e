//! The log behind SLIDE: stamps in order with running totals, 8 bytes an entry.
//!
//! ```text
//!   queue of words     first                    last
//!                      [ e0 e1 e2 e3 ... en-1 ]
//!
//!   one word           | running total mod 2^24 | stamp mod 2^40 (ms) |
//! ```
//!
//! An entry holds the total of all costs *through* it, so the cost between any two entries is one
//! subtraction, and both questions of a sliding window are binary searches: which entries have
//! run out (by stamp), and which entry must leave before a cost fits (by total). Entries that have
//! run out are dropped by the next write; until then a decision skips them by the same search.
//!
//! Stamps are unwrapped from the newest (a log spans far less than 2^40 ms = 34 years), totals from
//! the total before the first. Should a log ever hold more than 2^24 in all (FORCE, or blocks turned
//! into a log), it goes over to two words an entry, stamp and total in full, and comes back when
//! the entries of that time have left.
//!
//! How the words lie in memory is the business of `ring` and `store`: about 8.25 bytes an entry in
//! long logs.

mod ring;
mod store;

use super::time::Millis;
use super::MAX_COUNT;
use ring::Ring;
pub use store::Visitor;

const STAMP_BITS: u32 = 40;
const STAMP_MASK: u64 = (1 << STAMP_BITS) - 1;
/// Totals in one word are exact modulo this.
const NARROW_TOTAL: u64 = 1 << (64 - STAMP_BITS);
/// Stamps in one word are exact modulo this.
const NARROW_SPAN: u64 = 1 << STAMP_BITS;

/// Entries in order of their stamps, each stamp once. See the module's text.
#[derive(Debug)]
pub struct Log {
    /// One word an entry, or two when `wide`.
    words: Ring,
    wide: bool,
    /// How many of the first entries are still of the time when the log became wide.
    old: u32,
    /// Stamps of the first and the last entry, so that most decisions look at no entry at all.
    oldest: Millis,
    newest: Millis,
    /// The total through the last entry, and before the first.
    end: u64,
    base: u64,
}

/// A log without entries.
pub static EMPTY: Log = Log::new();

impl Default for Log {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for Log {
    fn clone(&self) -> Self {
        visit(self.len());
        Self { words: self.words.clone(), ..*self }
    }
}

impl PartialEq for Log {
    fn eq(&self, other: &Self) -> bool {
        self.entries().eq(other.entries())
    }
}

impl Eq for Log {}

impl Log {
    /// An empty log.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Ring::new(), wide: false, old: 0, oldest: 0, newest: 0, end: 0, base: 0 }
    }

    /// Number of entries, those that have run out but were not dropped included.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.wide {
            self.words.len() >> 1
        } else {
            self.words.len()
        }
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.len() == 0
    }

    /// The cost of all entries.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.end.saturating_sub(self.base)
    }

    /// Stamp of the newest entry; 0 if there is none.
    #[must_use]
    pub fn newest(&self) -> Millis {
        if self.is_empty() {
            0
        } else {
            self.newest
        }
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.words.heap_bytes()
    }

    /// Blocks on the heap.
    #[must_use]
    pub fn heap_blocks(&self) -> usize {
        self.words.heap_blocks()
    }

    /// Shows all blocks but the list of chunks.
    pub fn show_heap(&mut self, to: &mut impl Visitor) {
        self.words.show_heap(to);
    }

    /// Stamps and costs in order.
    pub fn entries(&self) -> impl Iterator<Item = (Millis, u64)> + '_ {
        let mut before = 0;
        (0..self.len()).map(move |i| {
            let through = self.sum_to(i.saturating_add(1));
            let cost = through.saturating_sub(before);
            before = through;
            (self.stamp(i), cost)
        })
    }

    /// Stamp of entry `i`.
    #[inline]
    #[must_use]
    pub fn stamp(&self, i: usize) -> Millis {
        match i {
            0 => self.oldest,
            _ if i.saturating_add(1) == self.len() => self.newest,
            _ => self.read_stamp(i),
        }
    }

    /// Stamp of entry `i` from its own words.
    fn read_stamp(&self, i: usize) -> Millis {
        visit(1);
        if self.wide {
            return self.words.get(i << 1).cast_signed();
        }
        let back = self.newest.cast_unsigned().wrapping_sub(self.words.get(i)) & STAMP_MASK;
        self.newest.wrapping_sub(back.cast_signed())
    }

    /// The cost of the first `n` entries.
    #[must_use]
    pub fn sum_to(&self, n: usize) -> u64 {
        let Some(last) = n.checked_sub(1) else { return 0 };
        if n >= self.len() {
            return self.total();
        }
        visit(1);
        if self.wide {
            self.words.get((last << 1) | 1).saturating_sub(self.base)
        } else {
            (self.words.get(last) >> STAMP_BITS).wrapping_sub(self.base) & (NARROW_TOTAL - 1)
        }
    }

    /// The cost of entries `from..to`.
    #[must_use]
    pub fn sum(&self, from: usize, to: usize) -> u64 {
        self.sum_to(to).saturating_sub(self.sum_to(from))
    }

    /// How many entries have a stamp of at most `stamp`. Nothing run out and all run out, the two
    /// common cases, are looked at first; then the front, in growing steps, since every write drops
    /// what has run out.
    #[inline]
    #[must_use]
    pub fn count_through(&self, stamp: Millis) -> usize {
        if self.is_empty() || self.oldest > stamp {
            return 0;
        }
        if self.newest <= stamp {
            return self.len();
        }
        self.search_front(|i| self.stamp(i) <= stamp)
    }

    /// The first index for which `before` is false; it is true for 0 and false for the last entry.
    fn search_front(&self, before: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high, last) = (1_usize, 1_usize, self.len().saturating_sub(1));
        while high < last && before(high) {
            low = high.saturating_add(1);
            high = low.saturating_mul(2);
        }
        self.search(low, high.min(last), before)
    }

    /// The first entry at or after `from` through which the cost since `from` reaches `need`.
    /// `need` must not exceed the cost of `from..to`.
    #[must_use]
    pub fn reaches(&self, from: usize, to: usize, need: u64) -> usize {
        // No entry is without cost.
        if need <= 1 {
            return from;
        }
        let target = self.sum_to(from).saturating_add(need);
        if self.sum_to(from.saturating_add(1)) >= target {
            return from;
        }
        self.search(from.saturating_add(1), to, |i| self.sum_to(i.saturating_add(1)) < target)
    }

    /// The first index of `from..to` for which `before` is false.
    fn search(&self, from: usize, to: usize, before: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (from, to);
        while low < high {
            let middle = low.saturating_add(high.saturating_sub(low) >> 1);
            if before(middle) {
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        low
    }

    /// Drops the oldest `n` entries.
    pub fn drop_front(&mut self, n: usize) {
        if n == 0 {
            return;
        }
        if n >= self.len() {
            return self.clear();
        }
        self.base = self.base.saturating_add(self.sum_to(n));
        self.oldest = self.stamp(n);
        self.words.drop_front(if self.wide { n << 1 } else { n });
        if !self.wide {
            // Only differences count: keep the totals small for ever.
            let wraps = self.base & !(NARROW_TOTAL - 1);
            self.base = self.base.saturating_sub(wraps);
            self.end = self.end.saturating_sub(wraps);
            return;
        }
        self.old = self.old.saturating_sub(u32::try_from(n).unwrap_or(u32::MAX));
        if self.old == 0 || self.base > MAX_COUNT {
            let span = self.newest.abs_diff(self.stamp(0));
            self.rewrite(self.total() >= NARROW_TOTAL || span >= NARROW_SPAN);
        }
    }

    /// Keeps the oldest `n` entries.
    pub fn truncate(&mut self, n: usize) {
        let Some(last) = n.checked_sub(1) else { return self.clear() };
        if n < self.len() {
            self.end = self.base.saturating_add(self.sum_to(n));
            self.newest = self.stamp(last);
            self.words.truncate(if self.wide { n << 1 } else { n });
        }
    }

    /// Adds `cost` at `stamp`: to the entry of that stamp, or as a new entry in order. A stamp
    /// before the newest happens only just after a clock step of a millisecond, so the entries
    /// after it are few.
    pub fn add(&mut self, stamp: Millis, cost: u64) {
        let cost = cost.min(MAX_COUNT.saturating_sub(self.total()));
        if cost == 0 {
            return;
        }
        if stamp > self.newest {
            self.push(stamp, cost);
            return;
        }
        let later = self.split_after(stamp);
        if self.is_empty() || stamp > self.newest {
            self.push(stamp, cost);
        } else {
            self.grow_newest(stamp, cost);
        }
        for (at, cost) in later {
            self.push(at, cost);
        }
    }

    /// Adds `cost` to the newest entry and moves it to `stamp` if that is later. Like `add`, it does
    /// nothing once there is no room for any cost.
    pub fn grow_newest(&mut self, stamp: Millis, cost: u64) {
        let Some(last) = self.len().checked_sub(1) else {
            return self.add(stamp, cost);
        };
        let total = self.total().saturating_add(cost).min(MAX_COUNT);
        if total == self.total() {
            return;
        }
        let at = stamp.max(self.newest);
        self.widen_for(at, total);
        self.newest = at;
        if last == 0 {
            self.oldest = at;
        }
        self.end = self.base.saturating_add(total);
        self.write(last, at, self.end);
    }

    /// Takes up to `cost` off the newest of the first `to` entries, and returns what was taken.
    pub fn take_back(&mut self, from: usize, to: usize, cost: u64) -> u64 {
        let to = to.min(self.len());
        let taken = cost.min(self.sum(from, to));
        if taken == 0 {
            return 0;
        }
        let later = self.from(to);
        // Entries before `keep` stay whole; the one at `keep` may lose a part.
        let keep = self.sum(from, to).saturating_sub(taken);
        let whole = if keep == 0 { from } else { self.reaches(from, to, keep) };
        let part = keep.saturating_sub(self.sum(from, whole));
        let part_stamp = self.stamp(whole);
        self.truncate(whole);
        if part > 0 {
            self.push(part_stamp, part);
        }
        for (at, cost) in later {
            self.push(at, cost);
        }
        taken
    }

    /// Takes all entries after `stamp` off and returns them.
    fn split_after(&mut self, stamp: Millis) -> Vec<(Millis, u64)> {
        let mut first = self.len();
        while first > 0 && self.stamp(first.saturating_sub(1)) > stamp {
            first = first.saturating_sub(1);
        }
        let later = self.from(first);
        self.truncate(first);
        later
    }

    /// Stamps and costs of the entries from number `first` on. No other is looked at.
    fn from(&self, first: usize) -> Vec<(Millis, u64)> {
        let entry = |i: usize| (self.stamp(i), self.sum(i, i.saturating_add(1)));
        (first..self.len()).map(entry).collect()
    }

    fn clear(&mut self) {
        *self = Self::new();
    }

    /// Appends an entry; `stamp` is after the newest.
    fn push(&mut self, stamp: Millis, cost: u64) {
        if self.is_empty() {
            (self.oldest, self.newest) = (stamp, stamp);
        }
        let total = self.total().saturating_add(cost);
        self.widen_for(stamp, total);
        self.newest = stamp;
        self.end = self.base.saturating_add(total);
        self.append(stamp, self.end);
    }

    /// Goes over to two words an entry if `total` or a newest entry at `stamp` asks for it.
    fn widen_for(&mut self, stamp: Millis, total: u64) {
        if self.wide {
            return;
        }
        let span = if self.is_empty() { 0 } else { stamp.abs_diff(self.stamp(0)) };
        if total >= NARROW_TOTAL || span >= NARROW_SPAN {
            self.rewrite(true);
            // What asked for it is one of them.
            self.old = self.old.saturating_add(1);
        }
    }

    /// An entry as one word.
    const fn narrow(stamp: Millis, through: u64) -> u64 {
        (through << STAMP_BITS) | (stamp.cast_unsigned() & STAMP_MASK)
    }

    fn append(&mut self, stamp: Millis, through: u64) {
        visit(1);
        if self.wide {
            self.words.push(stamp.cast_unsigned());
            self.words.push(through);
        } else {
            self.words.push(Self::narrow(stamp, through));
        }
    }

    /// Changes entry `i`.
    fn write(&mut self, i: usize, stamp: Millis, through: u64) {
        visit(1);
        if self.wide {
            self.words.set(i << 1, stamp.cast_unsigned());
            self.words.set((i << 1) | 1, through);
        } else {
            self.words.set(i, Self::narrow(stamp, through));
        }
    }

    /// Writes all entries anew, with one word or two. Work that was paid for: a log becomes wide by
    /// a cost, and narrow again once all entries of that time were dropped.
    fn rewrite(&mut self, wide: bool) {
        let mut next = Self {
            wide,
            oldest: self.oldest,
            newest: self.newest,
            end: self.total(),
            ..Self::new()
        };
        for i in 0..self.len() {
            next.append(self.stamp(i), self.sum_to(i.saturating_add(1)));
        }
        next.old = u32::try_from(next.len()).unwrap_or(u32::MAX);
        *self = next;
    }
}

#[cfg(not(test))]
const fn visit(_: usize) {}

#[cfg(test)]
pub(super) use counting::{visit, visits};

/// Counts the entries that the code under test reads, writes or moves.
#[cfg(test)]
mod counting {
    use std::cell::Cell;
    thread_local!(static VISITS: Cell<usize> = const { Cell::new(0) });

    pub fn visit(n: usize) {
        VISITS.with(|v| v.set(v.get() + n));
    }

    /// Entries visited by `f`.
    pub fn visits<T>(f: impl FnOnce() -> T) -> (usize, T) {
        let before = VISITS.with(Cell::get);
        let out = f();
        (VISITS.with(Cell::get) - before, out)
    }
}

#[cfg(test)]
mod tests;
