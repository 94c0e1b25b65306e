//! A queue of words that takes little more memory than they do, at any length.
//!
//! ```text
//!   few words    one block:     [ gone | words ... | room ]
//!   many words   chunks of 64:  [ gone | words ][ words ]...[ words | room ]
//! ```
//!
//! A single growing block would be moved again and again, and allocators round large blocks up by as
//! much as a quarter. Chunks are of a size that they do not round; they are never moved, come one by
//! one as words arrive, and go one by one as words leave.

use std::collections::VecDeque;

/// Words of a chunk.
pub(super) const CHUNK: usize = 64;
/// A small block grows by so many words.
pub(super) const STEP: usize = 4;

/// Sixty-four words.
pub type Chunk = [u64; CHUNK];

#[derive(Clone, Debug)]
enum Store {
    Few(Vec<u64>),
    Chunks(VecDeque<Box<Chunk>>),
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    store: Store,
    /// Words at the front of the first block that are gone, fewer than a chunk.
    gone: u8,
    /// Places at the end of the last chunk that are free, fewer than a chunk.
    room: u8,
}

/// A block on the heap, for a server that moves memory to defragment it.
#[derive(Debug)]
pub enum Block<'a> {
    /// A block of any size.
    Words(&'a mut Vec<u64>),
    /// A chunk.
    Chunk(&'a mut Box<Chunk>),
}

impl Ring {
    pub const fn new() -> Self {
        Self { store: Store::Few(Vec::new()), gone: 0, room: 0 }
    }

    #[inline]
    pub fn len(&self) -> usize {
        let places = match &self.store {
            Store::Few(words) => words.len(),
            Store::Chunks(chunks) => {
                chunks.len().saturating_mul(CHUNK).saturating_sub(usize::from(self.room))
            }
        };
        places.saturating_sub(usize::from(self.gone))
    }

    fn place(&self, i: usize) -> usize {
        i.saturating_add(usize::from(self.gone))
    }

    /// The word at `i`; 0 beyond the end.
    #[inline]
    pub fn get(&self, i: usize) -> u64 {
        let at = self.place(i);
        let word = match &self.store {
            Store::Few(words) => words.get(at),
            Store::Chunks(chunks) => chunks.get(at / CHUNK).and_then(|c| c.get(at % CHUNK)),
        };
        word.copied().unwrap_or(0)
    }

    /// Changes the word at `i`; nothing beyond the end.
    #[inline]
    pub fn set(&mut self, i: usize, word: u64) {
        let at = self.place(i);
        let place = match &mut self.store {
            Store::Few(words) => words.get_mut(at),
            Store::Chunks(chunks) => chunks.get_mut(at / CHUNK).and_then(|c| c.get_mut(at % CHUNK)),
        };
        if let Some(place) = place {
            *place = word;
        }
    }

    /// Appends a word.
    #[inline]
    pub fn push(&mut self, word: u64) {
        match &mut self.store {
            Store::Few(words) => {
                if words.len() == words.capacity() {
                    return self.push_with_room(word);
                }
                words.push(word);
            }
            Store::Chunks(chunks) => {
                if self.room == 0 {
                    if chunks.len() == chunks.capacity() {
                        chunks.reserve_exact((chunks.len() >> 4).saturating_add(STEP));
                    }
                    chunks.push_back(Box::new([0; CHUNK]));
                    self.room = CHUNK as u8;
                }
                let at = CHUNK.saturating_sub(usize::from(self.room));
                if let Some(place) = chunks.back_mut().and_then(|c| c.get_mut(at)) {
                    *place = word;
                }
                self.room = self.room.saturating_sub(1);
            }
        }
    }

    /// Appends to a full block: what is gone makes room, or a larger block, or chunks.
    fn push_with_room(&mut self, word: u64) {
        if let Store::Few(words) = &mut self.store {
            if self.gone > 0 {
                words.drain(..usize::from(self.gone));
                self.gone = 0;
            } else if words.len() < CHUNK {
                words.reserve_exact(STEP);
            } else {
                let mut all = Self { store: Store::Chunks(VecDeque::new()), gone: 0, room: 0 };
                for word in words {
                    all.push(*word);
                }
                *self = all;
            }
        }
        self.push(word);
    }

    /// Drops the first `n` words.
    pub fn drop_front(&mut self, n: usize) {
        let gone = self.place(n.min(self.len()));
        match &mut self.store {
            Store::Few(_) => self.gone = u8::try_from(gone).unwrap_or(u8::MAX),
            Store::Chunks(chunks) => {
                chunks.drain(..(gone / CHUNK).min(chunks.len()));
                self.gone = (gone % CHUNK) as u8;
            }
        }
        self.give_back();
    }

    /// Keeps the first `n` words.
    pub fn truncate(&mut self, n: usize) {
        let end = self.place(n.min(self.len()));
        match &mut self.store {
            Store::Few(words) => words.truncate(end),
            Store::Chunks(chunks) => {
                chunks.truncate(end.div_ceil(CHUNK));
                self.room = (end.wrapping_neg() % CHUNK) as u8;
            }
        }
        self.give_back();
    }

    /// Gives memory back where much is free.
    fn give_back(&mut self) {
        let len = self.len();
        match &mut self.store {
            Store::Few(words) => {
                let most = len.saturating_mul(2).saturating_add(2 * STEP);
                if len == 0 || words.capacity() > most {
                    words.drain(..usize::from(self.gone).min(words.len()));
                    self.gone = 0;
                    if words.capacity() > most {
                        words.shrink_to(len.saturating_add(STEP));
                    }
                }
            }
            Store::Chunks(_) if len <= CHUNK / 2 => {
                let mut words = Vec::with_capacity(len.saturating_add(STEP));
                words.extend((0..len).map(|i| self.get(i)));
                *self = Self { store: Store::Few(words), gone: 0, room: 0 };
            }
            Store::Chunks(chunks) => {
                let room = chunks.capacity().saturating_sub(chunks.len());
                if room > (chunks.len() >> 3).saturating_add(2 * STEP) {
                    chunks.shrink_to(chunks.len().saturating_add(STEP));
                }
            }
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        match &self.store {
            Store::Few(words) => words.capacity().saturating_mul(size_of::<u64>()),
            Store::Chunks(chunks) => {
                let list = chunks.capacity().saturating_mul(size_of::<Box<Chunk>>());
                chunks.len().saturating_mul(size_of::<Chunk>()).saturating_add(list)
            }
        }
    }

    /// How many blocks there are on the heap.
    pub fn blocks(&self) -> usize {
        match &self.store {
            Store::Few(_) => 1,
            Store::Chunks(chunks) => chunks.len().saturating_add(1),
        }
    }

    /// Hands out all blocks but the list of chunks.
    pub fn for_each_block(&mut self, each: &mut dyn FnMut(Block<'_>)) {
        match &mut self.store {
            Store::Few(words) => each(Block::Words(words)),
            Store::Chunks(chunks) => chunks.iter_mut().for_each(|c| each(Block::Chunk(c))),
        }
    }
}

#[cfg(test)]
mod tests {
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

    /// How many chunks there are, and for how many the list has room.
    fn chunks(ring: &Ring) -> (usize, usize) {
        match &ring.store {
            Store::Few(_) => (0, 0),
            Store::Chunks(chunks) => (chunks.len(), chunks.capacity()),
        }
    }

    #[test]
    fn a_small_block_grows_by_steps_and_shrinks_below_half() {
        for words in 1..=64 {
            assert_eq!(of(words).heap_bytes(), words.next_multiple_of(4) as usize * 8);
        }
        let mut ring = of(40);
        ring.truncate(16);
        assert_eq!(ring.heap_bytes(), 40 * 8);
        ring.truncate(15);
        assert_eq!(ring.heap_bytes(), 19 * 8);
        // What has gone at the front stays until it matters.
        ring.drop_front(2);
        assert_eq!((ring.gone, ring.len()), (2, 13));
        ring.drop_front(13);
        assert_eq!((ring.gone, ring.len()), (0, 0));
        assert_eq!(ring.blocks(), 1);
    }

    #[test]
    fn chunks_come_and_go_one_by_one() {
        let mut ring = of(200);
        ring.truncate(33);
        assert_eq!(chunks(&ring).0, 1);
        ring.truncate(32);
        assert_eq!((chunks(&ring).0, ring.heap_bytes()), (0, 36 * 8));

        let mut ring = of(64);
        for words in 65..40_000 {
            ring.push(words);
            let (n, room) = chunks(&ring);
            assert_eq!(n, words.div_ceil(64) as usize);
            assert!(room <= n + n / 16 + STEP, "room for {room} of {n}");
            assert_eq!((ring.blocks(), ring.heap_bytes()), (n + 1, n * 512 + room * 8));
        }
        while chunks(&ring).0 > 2 {
            let (n, room) = chunks(&ring);
            ring.truncate((n - 1) * CHUNK);
            let left = n - 1;
            let shrunk = if room - left > left / 8 + 2 * STEP { left + STEP } else { room };
            assert_eq!(chunks(&ring), (left, shrunk));
        }
    }

    #[test]
    fn beyond_the_end_is_nothing() {
        let mut ring = Ring::new();
        ring.set(0, 5);
        ring.drop_front(3);
        ring.truncate(3);
        assert_eq!((ring.len(), ring.get(0), ring.heap_bytes()), (0, 0, 0));
    }
}
