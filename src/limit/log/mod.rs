//! The log behind SLIDE: stamps in order with running totals, 8 bytes an entry.
//!
//! ```text
//!   ring of words      head                      head + len
//!   [ . . . . . . . . . e0 e1 e2 e3 ... en-1 . . . . . ]
//!
//!   one word           | running total mod 2^24 | stamp mod 2^40 (ms) |
//! ```
//!
//! An entry holds the total of all costs *through* it, so the cost between any two entries is one
//! subtraction, and both questions of a sliding window are binary searches: which entries have
//! run out (by stamp), and which entry must leave before a cost fits (by total). Entries that have
//! run out are dropped by the next write; until then a decision skips them by the same search.
//!
//! Stamps are unwrapped from the newest (the ring spans far less than 2^40 ms = 34 years), totals
//! from the total before the first. Should a log ever hold more than 2^24 in all (FORCE, or blocks
//! turned into a log), it goes over to two words an entry, stamp and total in full.
//!
//! The ring grows by a sixteenth and shrinks again when more than that is free: at most 8.5 bytes
//! an entry, while each entry is moved a bounded number of times (amortised O(1)).

use super::time::Millis;
use super::MAX_COUNT;

const STAMP_BITS: u32 = 40;
const STAMP_MASK: u64 = (1 << STAMP_BITS) - 1;
/// Totals in one word are exact modulo this.
const NARROW_TOTAL: u64 = 1 << (64 - STAMP_BITS);
/// Stamps in one word are exact modulo this.
const NARROW_SPAN: u64 = 1 << STAMP_BITS;
/// Slots that a small log may have free whatever its length.
const SPARE: usize = 4;

/// Entries in order of their stamps, each stamp once. See the module's text.
#[derive(Debug, Default)]
pub struct Log {
    /// The ring; all its words count as slots. One word a slot, or two when `wide`.
    words: Vec<u64>,
    head: usize,
    len: usize,
    wide: bool,
    /// Stamp of the last entry.
    newest: Millis,
    /// The total through the last entry, and before the first.
    end: u64,
    base: u64,
}

/// A log without entries.
pub static EMPTY: Log =
    Log { words: Vec::new(), head: 0, len: 0, wide: false, newest: 0, end: 0, base: 0 };

impl Clone for Log {
    fn clone(&self) -> Self {
        visit(self.len);
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
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of entries, those that have run out but were not dropped included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The cost of all entries.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.end.saturating_sub(self.base)
    }

    /// Stamp of the newest entry; 0 if there is none.
    #[must_use]
    pub const fn newest(&self) -> Millis {
        if self.len == 0 {
            0
        } else {
            self.newest
        }
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.words.capacity().saturating_mul(8)
    }

    /// The heap block, for a server that moves memory to defragment it.
    pub fn block_mut(&mut self) -> &mut Vec<u64> {
        &mut self.words
    }

    /// Stamps and costs in order.
    pub fn entries(&self) -> impl Iterator<Item = (Millis, u64)> + '_ {
        let mut before = 0;
        (0..self.len).map(move |i| {
            let through = self.sum_to(i.saturating_add(1));
            let cost = through.saturating_sub(before);
            before = through;
            (self.stamp(i), cost)
        })
    }

    /// Slots of the ring.
    fn slots(&self) -> usize {
        if self.wide {
            self.words.len() >> 1
        } else {
            self.words.len()
        }
    }

    /// Where entry `i` lies in the ring, in slots.
    fn slot(&self, i: usize) -> usize {
        let at = self.head.saturating_add(i);
        let slots = self.slots();
        if at >= slots {
            at.saturating_sub(slots)
        } else {
            at
        }
    }

    fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }

    /// Stamp of entry `i`.
    #[must_use]
    pub fn stamp(&self, i: usize) -> Millis {
        visit(1);
        let at = self.slot(i);
        if self.wide {
            return self.word(at << 1).cast_signed();
        }
        let back = self.newest.cast_unsigned().wrapping_sub(self.word(at)) & STAMP_MASK;
        self.newest.wrapping_sub(back.cast_signed())
    }

    /// The cost of the first `n` entries.
    #[must_use]
    pub fn sum_to(&self, n: usize) -> u64 {
        if n == 0 {
            return 0;
        }
        if n >= self.len {
            return self.total();
        }
        visit(1);
        let at = self.slot(n.saturating_sub(1));
        if self.wide {
            self.word((at << 1) | 1).saturating_sub(self.base)
        } else {
            (self.word(at) >> STAMP_BITS).wrapping_sub(self.base) & (NARROW_TOTAL - 1)
        }
    }

    /// The cost of entries `from..to`.
    #[must_use]
    pub fn sum(&self, from: usize, to: usize) -> u64 {
        self.sum_to(to).saturating_sub(self.sum_to(from))
    }

    /// How many entries have a stamp of at most `stamp`. Nothing run out and all run out, the two
    /// common cases, are looked at first.
    #[must_use]
    pub fn count_through(&self, stamp: Millis) -> usize {
        if self.is_empty() || self.stamp(0) > stamp {
            return 0;
        }
        if self.newest <= stamp {
            return self.len;
        }
        self.search(1, self.len, |i| self.stamp(i) <= stamp)
    }

    /// The first entry at or after `from` through which the cost since `from` reaches `need`.
    /// `need` must not exceed the cost of `from..to`.
    #[must_use]
    pub fn reaches(&self, from: usize, to: usize, need: u64) -> usize {
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
        if n >= self.len {
            self.clear();
            return;
        }
        let dropped = self.sum_to(n);
        self.head = self.slot(n);
        self.len = self.len.saturating_sub(n);
        self.base = self.base.saturating_add(dropped);
        if !self.wide {
            // Only differences count: keep the totals small for ever.
            let wraps = self.base & !(NARROW_TOTAL - 1);
            self.base = self.base.saturating_sub(wraps);
            self.end = self.end.saturating_sub(wraps);
        } else if self.base > MAX_COUNT {
            self.rebuild(self.slots(), true);
        }
        self.give_back();
    }

    /// Keeps the oldest `n` entries.
    pub fn truncate(&mut self, n: usize) {
        if n == 0 {
            self.clear();
        } else if n < self.len {
            self.end = self.base.saturating_add(self.sum_to(n));
            self.newest = self.stamp(n.saturating_sub(1));
            self.len = n;
            self.give_back();
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
        if self.is_empty() || stamp > self.newest {
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

    /// Adds `cost` to the newest entry and moves it to `stamp` if that is later.
    pub fn grow_newest(&mut self, stamp: Millis, cost: u64) {
        let Some(last) = self.len.checked_sub(1) else {
            return self.add(stamp, cost);
        };
        let total = self.total().saturating_add(cost).min(MAX_COUNT);
        let at = stamp.max(self.newest);
        self.widen_for(at, total);
        self.newest = at;
        self.end = self.base.saturating_add(total);
        self.write(self.slot(last), at, self.end);
    }

    /// Takes up to `cost` off the newest of the first `to` entries, and returns what was taken.
    pub fn take_back(&mut self, from: usize, to: usize, cost: u64) -> u64 {
        let to = to.min(self.len);
        let taken = cost.min(self.sum(from, to));
        if taken == 0 {
            return 0;
        }
        let later: Vec<_> = self.entries().skip(to).collect();
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
        let mut first = self.len;
        while first > 0 && self.stamp(first.saturating_sub(1)) > stamp {
            first = first.saturating_sub(1);
        }
        let mut later = Vec::new();
        for i in first..self.len {
            later.push((self.stamp(i), self.sum(i, i.saturating_add(1))));
        }
        self.truncate_quietly(first);
        later
    }

    /// `truncate` without giving memory back: an entry is about to be pushed.
    fn truncate_quietly(&mut self, n: usize) {
        if n < self.len {
            self.end = self.base.saturating_add(self.sum_to(n));
            if let Some(last) = n.checked_sub(1) {
                self.newest = self.stamp(last);
            }
            self.len = n;
        }
    }

    fn clear(&mut self) {
        *self = Self::new();
    }

    /// Appends an entry; `stamp` is after the newest.
    fn push(&mut self, stamp: Millis, cost: u64) {
        if self.is_empty() {
            self.newest = stamp;
        }
        let total = self.total().saturating_add(cost);
        self.widen_for(stamp, total);
        if self.len >= self.slots() {
            let more = self.len >> 4;
            self.rebuild(self.len.saturating_add(more.max(SPARE)), self.wide);
        }
        self.newest = stamp;
        self.end = self.base.saturating_add(total);
        let at = self.slot(self.len);
        self.len = self.len.saturating_add(1);
        self.write(at, stamp, self.end);
    }

    /// Goes over to two words an entry if `total` or a newest entry at `stamp` asks for it.
    fn widen_for(&mut self, stamp: Millis, total: u64) {
        if self.wide || self.is_empty() && total < NARROW_TOTAL {
            return;
        }
        if total >= NARROW_TOTAL || stamp.abs_diff(self.stamp(0)) >= NARROW_SPAN {
            self.rebuild(self.len, true);
        }
    }

    fn write(&mut self, at: usize, stamp: Millis, through: u64) {
        visit(1);
        if self.wide {
            if let Some(word) = self.words.get_mut(at << 1) {
                *word = stamp.cast_unsigned();
            }
            if let Some(word) = self.words.get_mut((at << 1) | 1) {
                *word = through;
            }
        } else if let Some(word) = self.words.get_mut(at) {
            *word = (through << STAMP_BITS) | (stamp.cast_unsigned() & STAMP_MASK);
        }
    }

    /// Shrinks a ring of which more than a sixteenth is free.
    fn give_back(&mut self) {
        let free = self.slots().saturating_sub(self.len);
        if free > (self.len >> 4).saturating_add(SPARE) {
            let fits = self.total() < NARROW_TOTAL
                && self.is_empty() | (self.newest.abs_diff(self.stamp(0)) < NARROW_SPAN);
            self.rebuild(self.len.saturating_add(self.len >> 6), !fits);
        }
    }

    /// Lays the entries out from the start of a ring of `slots`.
    fn rebuild(&mut self, slots: usize, wide: bool) {
        let slots = slots.max(self.len);
        if wide == self.wide && slots > self.slots() {
            return self.widen_ring(slots);
        }
        let mut next = Self { wide, newest: self.newest, ..Self::new() };
        let size = if wide { slots.saturating_mul(2) } else { slots };
        next.words.reserve_exact(size);
        next.words.resize(size, 0);
        for i in 0..self.len {
            let through = self.sum_to(i.saturating_add(1));
            next.write(i, self.stamp(i), through);
        }
        next.len = self.len;
        next.end = self.total();
        *self = next;
    }

    /// Grows the ring in place: the part that ran on from the ring's end moves up to its new end.
    fn widen_ring(&mut self, slots: usize) {
        let unit: usize = if self.wide { 2 } else { 1 };
        let old = self.slots();
        let size = slots.saturating_mul(unit);
        self.words.reserve_exact(size.saturating_sub(self.words.len()));
        self.words.resize(size, 0);
        let run = old.saturating_sub(self.head);
        if run < self.len {
            let to = slots.saturating_sub(run);
            let from = self.head.saturating_mul(unit);
            self.words.copy_within(from..old.saturating_mul(unit), to.saturating_mul(unit));
            visit(run);
            self.head = to;
        }
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
