//! A queue of words that seldom touches more memory than its own.
//!
//! ```text
//!      on the heap                  in the ring itself
//!    [ w0 w1 w2 ... wn-1 ]          [ wn wn+1 | room ]
//!            store                        tail
//! ```
//!
//! New words come into the tail and go to the store four at a time: most charges find all that they
//! read and write of a log in the block of the log, and a short log has no other.

use super::store::{Store, Visitor, STEP};

/// Words that have room in the ring itself: as many as a small store grows by, so that it grows once
/// for them all.
const TAIL: usize = STEP;

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// Beside its words: how many there are in the tail.
    store: Store,
    /// The words after those of the store, and places that are free.
    tail: [u64; TAIL],
}

impl Ring {
    pub const fn new() -> Self {
        Self { store: Store::new(), tail: [0; TAIL] }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.store.len().saturating_add(usize::from(self.store.beside))
    }

    /// The word at `i`; 0 beyond the end.
    #[inline]
    pub fn get(&self, i: usize) -> u64 {
        let Some(at) = i.checked_sub(self.store.len()) else {
            return self.store.get(i);
        };
        let word = self.tail.get(..usize::from(self.store.beside)).and_then(|tail| tail.get(at));
        word.copied().unwrap_or(0)
    }

    /// Changes the word at `i`; nothing beyond the end.
    #[inline]
    pub fn set(&mut self, i: usize, word: u64) {
        let Some(at) = i.checked_sub(self.store.len()) else {
            return self.store.set(i, word);
        };
        let tail = self.tail.get_mut(..usize::from(self.store.beside));
        if let Some(place) = tail.and_then(|tail| tail.get_mut(at)) {
            *place = word;
        }
    }

    /// Appends a word.
    #[inline]
    pub fn push(&mut self, word: u64) {
        if usize::from(self.store.beside) == TAIL {
            self.store_tail();
        }
        if let Some(place) = self.tail.get_mut(usize::from(self.store.beside)) {
            *place = word;
            self.store.beside = self.store.beside.saturating_add(1);
        }
    }

    /// Moves the words of the tail into the store.
    fn store_tail(&mut self) {
        for word in self.tail.iter().take(usize::from(self.store.beside)) {
            self.store.push(*word);
        }
        self.store.beside = 0;
    }

    /// Drops the first `n` words.
    pub fn drop_front(&mut self, n: usize) {
        let Some(of_tail) = n.checked_sub(self.store.len()) else {
            return self.store.drop_front(n);
        };
        self.store.clear();
        let of_tail = of_tail.min(usize::from(self.store.beside));
        self.tail.copy_within(of_tail.., 0);
        self.store.beside = self.store.beside.saturating_sub(of_tail as u8);
    }

    /// Keeps the first `n` words.
    pub fn truncate(&mut self, n: usize) {
        match n.checked_sub(self.store.len()) {
            None => {
                self.store.beside = 0;
                self.store.truncate(n);
            }
            Some(left) => {
                self.store.beside = u8::try_from(left).unwrap_or(u8::MAX).min(self.store.beside);
            }
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.store.heap_bytes()
    }

    /// How many blocks there are on the heap.
    pub fn heap_blocks(&self) -> usize {
        self.store.heap_blocks()
    }

    /// Shows all blocks but the list of chunks.
    pub fn show_heap(&mut self, to: &mut impl Visitor) {
        self.store.show_heap(to);
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::{Chunk, CHUNK};
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use std::collections::VecDeque;

    #[test]
    fn agrees_with_a_queue_at_every_length() {
        for seed in 0..20 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let (mut ring, mut plain) = (Ring::new(), VecDeque::new());
            let most = [3, 20, 70, 400][seed as usize % 4];
            for step in 0..6_000 {
                match rng.random_range(0..8) {
                    0..=4 => {
                        for _ in 0..rng.random_range(1..=4) {
                            ring.push(step);
                            plain.push_back(step);
                        }
                    }
                    5 if !plain.is_empty() => {
                        let i = rng.random_range(0..plain.len());
                        ring.set(i, step);
                        plain[i] = step;
                    }
                    6 => {
                        let n = rng.random_range(0..=plain.len().min(most));
                        ring.drop_front(n);
                        plain.drain(..n);
                    }
                    _ => {
                        let n = plain.len() - rng.random_range(0..=plain.len().min(most / 3));
                        ring.truncate(n);
                        plain.truncate(n);
                    }
                }
                if plain.len() > most * 2 {
                    ring.drop_front(most);
                    plain.drain(..most);
                }
                assert_eq!(ring.len(), plain.len());
                assert!((0..plain.len()).all(|i| ring.get(i) == plain[i]));
                let bytes = plain.len() * 8 * if plain.len() <= CHUNK { 2 } else { 1 };
                let bytes = bytes + bytes / 32 + 2 * size_of::<Chunk>();
                assert!(ring.heap_bytes() <= bytes, "{} of {}", ring.heap_bytes(), plain.len());
            }
        }
    }

    fn of(words: u64) -> Ring {
        let mut ring = Ring::new();
        (0..words).for_each(|word| ring.push(word));
        ring
    }

    #[test]
    fn the_heap_is_asked_for_once_in_four_words_and_not_at_all_for_the_first() {
        for words in 0..=CHUNK {
            let stored = words.saturating_sub(1) / TAIL * TAIL;
            let ring = of(words as u64);
            assert_eq!((ring.store.len(), ring.heap_bytes()), (stored, stored * 8));
            assert_eq!(ring.heap_blocks(), usize::from(stored > 0));
        }
    }

    #[test]
    fn a_store_of_which_nothing_is_left_gives_its_memory_back() {
        for gone in 4..=7 {
            let mut ring = of(7);
            ring.drop_front(gone);
            let left: Vec<_> = (0..ring.len()).map(|i| ring.get(i)).collect();
            assert_eq!(left, (gone as u64..7).collect::<Vec<_>>());
            assert_eq!((ring.heap_bytes(), ring.heap_blocks()), (0, 0));
        }
        let mut ring = of(7);
        ring.drop_front(3);
        assert_eq!((ring.len(), ring.get(0), ring.heap_blocks()), (4, 3, 1));
    }

    #[test]
    fn beyond_the_end_is_nothing() {
        for words in [0, 1, 3, 4, 5, 6] {
            let mut ring = of(words);
            ring.set(words as usize, 9);
            ring.truncate(words as usize + 1);
            assert_eq!((ring.len(), ring.get(words as usize)), (words as usize, 0));
            ring.drop_front(words as usize + 9);
            assert_eq!((ring.len(), ring.get(0)), (0, 0));
            ring.push(7);
            assert_eq!((ring.len(), ring.get(0)), (1, 7));
        }
    }
}
