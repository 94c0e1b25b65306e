//! Keys with their exact counts, and which of them has the least: a hash table and a heap.

use super::{Id, KEPT_BYTES};
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A key in the list.
#[derive(Debug)]
pub(super) struct Listed {
    /// Its first bytes.
    pub(super) key: Box<[u8]>,
    pub(super) db: i32,
    len: usize,
    hash: u64,
    /// Where it stands in the heap.
    place: usize,
}

/// What the heap is ordered by stands in it, so that a step down reads one line of memory.
#[derive(Clone, Copy, Debug)]
struct Place {
    count: u64,
    /// Index in `keys`.
    key: usize,
}

#[derive(Debug)]
pub(super) struct List {
    size: usize,
    keys: Vec<Listed>,
    /// Nobody has a count below that of its parent; the children of i are 2i+1 and 2i+2.
    heap: Vec<Place>,
    /// From hash to index in `keys`.
    by_hash: HashMap<u64, usize, BuildHasherDefault<AsIs>>,
}

/// The keys of the table are hashes already.
#[derive(Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Never called for u64, but whatever is hashed must be.
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

impl Listed {
    fn new(id: &Id<'_>, place: usize) -> Self {
        Self { key: kept(id.key).into(), db: id.db, len: id.key.len(), hash: id.hash, place }
    }

    fn is(&self, id: &Id<'_>) -> bool {
        self.db == id.db && self.len == id.key.len() && *self.key == *kept(id.key)
    }
}

fn kept(key: &[u8]) -> &[u8] {
    key.get(..KEPT_BYTES).unwrap_or(key)
}

impl List {
    /// All memory but that of the keys themselves is taken here.
    pub(super) fn new(size: usize) -> Self {
        Self {
            size,
            keys: Vec::with_capacity(size),
            heap: Vec::with_capacity(size),
            by_hash: HashMap::with_capacity_and_hasher(size, BuildHasherDefault::default()),
        }
    }

    /// Counts a key, if it is listed.
    #[inline]
    pub(super) fn count(&mut self, id: &Id<'_>) -> bool {
        let Some(listed) = self.by_hash.get(&id.hash).and_then(|at| self.keys.get(*at)) else {
            return false;
        };
        if !listed.is(id) {
            return false;
        }
        let at = listed.place;
        if let Some(place) = self.heap.get_mut(at) {
            place.count = place.count.saturating_add(1);
        }
        self.sift_down(at);
        true
    }

    /// The least count, if there is no room for another key.
    pub(super) fn least_if_full(&self) -> Option<u64> {
        if self.keys.len() < self.size {
            return None;
        }
        self.heap.first().map(|place| place.count)
    }

    /// Lists a key. One that has all 64 bits of its hash in common with another stays outside.
    pub(super) fn insert(&mut self, id: &Id<'_>, count: u64) {
        if let Entry::Vacant(free) = self.by_hash.entry(id.hash) {
            let (key, place) = (self.keys.len(), self.heap.len());
            free.insert(key);
            self.keys.push(Listed::new(id, place));
            self.heap.push(Place { count, key });
            self.sift_up(place);
        }
    }

    /// Lists a key in place of the one with the least count; the hash and count of that one.
    pub(super) fn replace_least(&mut self, id: &Id<'_>, count: u64) -> Option<(u64, u64)> {
        let Entry::Vacant(free) = self.by_hash.entry(id.hash) else { return None };
        let least = self.heap.first_mut()?;
        let listed = self.keys.get_mut(least.key)?;
        free.insert(least.key);
        let gone = (listed.hash, least.count);
        *listed = Listed::new(id, 0);
        least.count = count;
        self.by_hash.remove(&gone.0);
        self.sift_down(0);
        Some(gone)
    }

    /// All keys with their counts.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Listed, u64)> {
        self.heap.iter().filter_map(|place| Some((self.keys.get(place.key)?, place.count)))
    }

    /// Takes over the keys of another list, those with the largest counts if there is not room for all.
    pub(super) fn take_most(&mut self, other: Self, most: usize) {
        let mut counted: Vec<_> = Vec::with_capacity(other.keys.len());
        for listed in other.keys {
            let count = other.heap.get(listed.place).map_or(0, |place| place.count);
            counted.push((count, listed));
        }
        counted.sort_by_key(|(count, _)| Reverse(*count));
        for (count, mut listed) in counted.into_iter().take(most) {
            let (key, place) = (self.keys.len(), self.heap.len());
            self.by_hash.insert(listed.hash, key);
            listed.place = place;
            self.keys.push(listed);
            self.heap.push(Place { count, key });
            self.sift_up(place);
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for at in [a, b] {
            let key = self.heap.get(at).map(|place| place.key);
            if let Some(listed) = key.and_then(|key| self.keys.get_mut(key)) {
                listed.place = at;
            }
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = at.wrapping_sub(1) >> 1;
            match (self.heap.get(parent), self.heap.get(at)) {
                (Some(above), Some(here)) if here.count < above.count => {}
                _ => return,
            }
            self.swap(parent, at);
            at = parent;
        }
    }

    #[inline]
    fn sift_down(&mut self, mut at: usize) {
        loop {
            let left = at.saturating_mul(2).saturating_add(1);
            let right = left.saturating_add(1);
            let (child, count) = match (self.heap.get(left), self.heap.get(right)) {
                (Some(l), Some(r)) if r.count < l.count => (right, r.count),
                (Some(l), _) => (left, l.count),
                _ => return,
            };
            match self.heap.get(at) {
                Some(here) if here.count > count => self.swap(at, child),
                _ => return,
            }
            at = child;
        }
    }

    #[cfg(test)]
    pub(super) fn assert_whole(&self) {
        assert!(self.keys.len() <= self.size);
        assert_eq!(self.keys.len(), self.heap.len());
        assert_eq!(self.keys.len(), self.by_hash.len());
        for (at, place) in self.heap.iter().enumerate() {
            assert_eq!(self.keys[place.key].place, at);
            assert_eq!(self.by_hash[&self.keys[place.key].hash], place.key);
            assert!(at == 0 || self.heap[(at - 1) / 2].count <= place.count);
        }
    }

    #[cfg(test)]
    pub(super) fn key_bytes(&self) -> usize {
        self.keys.iter().map(|listed| listed.key.len()).sum()
    }
}
