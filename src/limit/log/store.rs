//! Words on the heap, in order, in little more memory than they take, at any length.
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
pub(super) type Chunk = [u64; CHUNK];

#[derive(Clone, Debug)]
enum Heap {
    Few(Vec<u64>),
    Chunks(VecDeque<Box<Chunk>>),
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Store {
    heap: Heap,
    /// Words at the front of the first block that are gone, fewer than a chunk.
    gone: u8,
    /// Places at the end of the last chunk that are free, fewer than a chunk.
    room: u8,
    /// A number of the owner's, who would need eight bytes for it: here it takes none.
    pub(super) beside: u8,
}

/// Somebody who wants to see every block on the heap, to move it elsewhere or to count it.
pub trait Visitor {
    /// A box, which is never empty.
    fn boxed<T>(&mut self, block: &mut Box<T>);
    /// A vector, which may have no block.
    fn vec<T>(&mut self, block: &mut Vec<T>);
}

impl Store {
    pub const fn new() -> Self {
        Self { heap: Heap::Few(Vec::new()), gone: 0, room: 0, beside: 0 }
    }

    /// Takes other blocks, all of whose places are in use.
    fn replace(&mut self, heap: Heap) {
        *self = Self { heap, gone: 0, room: 0, ..*self };
    }

    /// Drops all words.
    pub fn clear(&mut self) {
        self.replace(Heap::Few(Vec::new()));
    }

    #[inline]
    pub fn len(&self) -> usize {
        let places = match &self.heap {
            Heap::Few(words) => words.len(),
            Heap::Chunks(chunks) => {
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
        let word = match &self.heap {
            Heap::Few(words) => words.get(at),
            Heap::Chunks(chunks) => chunks.get(at / CHUNK).and_then(|c| c.get(at % CHUNK)),
        };
        word.copied().unwrap_or(0)
    }

    /// Changes the word at `i`; nothing beyond the end.
    #[inline]
    pub fn set(&mut self, i: usize, word: u64) {
        let at = self.place(i);
        let place = match &mut self.heap {
            Heap::Few(words) => words.get_mut(at),
            Heap::Chunks(chunks) => chunks.get_mut(at / CHUNK).and_then(|c| c.get_mut(at % CHUNK)),
        };
        if let Some(place) = place {
            *place = word;
        }
    }

    /// Appends a word.
    #[inline]
    pub fn push(&mut self, word: u64) {
        match &mut self.heap {
            Heap::Few(words) => {
                if words.len() == words.capacity() {
                    return self.push_with_room(word);
                }
                words.push(word);
            }
            Heap::Chunks(chunks) => {
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
        if let Heap::Few(words) = &mut self.heap {
            if self.gone > 0 {
                words.drain(..usize::from(self.gone));
                self.gone = 0;
            } else if words.len() < CHUNK {
                words.reserve_exact(STEP);
            } else {
                let words = std::mem::take(words);
                self.replace(Heap::Chunks(VecDeque::new()));
                words.into_iter().for_each(|word| self.push(word));
            }
        }
        self.push(word);
    }

    /// Drops the first `n` words.
    pub fn drop_front(&mut self, n: usize) {
        let gone = self.place(n.min(self.len()));
        match &mut self.heap {
            Heap::Few(_) => self.gone = u8::try_from(gone).unwrap_or(u8::MAX),
            Heap::Chunks(chunks) => {
                chunks.drain(..(gone / CHUNK).min(chunks.len()));
                self.gone = (gone % CHUNK) as u8;
            }
        }
        self.give_back();
    }

    /// Keeps the first `n` words.
    pub fn truncate(&mut self, n: usize) {
        let end = self.place(n.min(self.len()));
        match &mut self.heap {
            Heap::Few(words) => words.truncate(end),
            Heap::Chunks(chunks) => {
                chunks.truncate(end.div_ceil(CHUNK));
                self.room = (end.wrapping_neg() % CHUNK) as u8;
            }
        }
        self.give_back();
    }

    /// Gives memory back where much is free.
    fn give_back(&mut self) {
        let len = self.len();
        match &mut self.heap {
            Heap::Few(words) => {
                let most = len.saturating_mul(2).saturating_add(2 * STEP);
                if len == 0 || words.capacity() > most {
                    words.drain(..usize::from(self.gone).min(words.len()));
                    self.gone = 0;
                    if words.capacity() > most {
                        words.shrink_to(len.saturating_add(STEP));
                    }
                }
            }
            Heap::Chunks(_) if len <= CHUNK / 2 => {
                let mut words = Vec::with_capacity(len.saturating_add(STEP));
                words.extend((0..len).map(|i| self.get(i)));
                self.replace(Heap::Few(words));
            }
            Heap::Chunks(chunks) => {
                let room = chunks.capacity().saturating_sub(chunks.len());
                if room > (chunks.len() >> 3).saturating_add(2 * STEP) {
                    chunks.shrink_to(chunks.len().saturating_add(STEP));
                }
            }
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        match &self.heap {
            Heap::Few(words) => words.capacity().saturating_mul(size_of::<u64>()),
            Heap::Chunks(chunks) => {
                let list = chunks.capacity().saturating_mul(size_of::<Box<Chunk>>());
                chunks.len().saturating_mul(size_of::<Chunk>()).saturating_add(list)
            }
        }
    }

    /// How many blocks there are on the heap.
    pub fn heap_blocks(&self) -> usize {
        match &self.heap {
            Heap::Few(words) => usize::from(words.capacity() > 0),
            Heap::Chunks(chunks) => chunks.len().saturating_add(1),
        }
    }

    /// Shows all blocks but the list of chunks.
    pub fn show_heap(&mut self, to: &mut impl Visitor) {
        match &mut self.heap {
            Heap::Few(words) => to.vec(words),
            Heap::Chunks(chunks) => chunks.iter_mut().for_each(|chunk| to.boxed(chunk)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: u64) -> Store {
        let mut store = Store::new();
        (0..words).for_each(|word| store.push(word));
        store
    }

    /// How many chunks there are, and for how many the list has room.
    fn chunks(store: &Store) -> (usize, usize) {
        match &store.heap {
            Heap::Few(_) => (0, 0),
            Heap::Chunks(chunks) => (chunks.len(), chunks.capacity()),
        }
    }

    #[test]
    fn a_small_block_grows_by_steps_and_shrinks_below_half() {
        for words in 1..=64 {
            assert_eq!(of(words).heap_bytes(), words.next_multiple_of(4) as usize * 8);
        }
        let mut store = of(40);
        store.truncate(16);
        assert_eq!(store.heap_bytes(), 40 * 8);
        store.truncate(15);
        assert_eq!(store.heap_bytes(), 19 * 8);
        // What has gone at the front stays until it matters.
        store.drop_front(2);
        assert_eq!((store.gone, store.len()), (2, 13));
        store.drop_front(13);
        assert_eq!((store.gone, store.len()), (0, 0));
        assert_eq!(store.heap_blocks(), 1);
    }

    #[test]
    fn chunks_come_and_go_one_by_one() {
        let mut store = of(200);
        store.truncate(33);
        assert_eq!(chunks(&store).0, 1);
        store.truncate(32);
        assert_eq!((chunks(&store).0, store.heap_bytes()), (0, 36 * 8));

        let mut store = of(64);
        for words in 65..40_000 {
            store.push(words);
            let (n, room) = chunks(&store);
            assert_eq!(n, words.div_ceil(64) as usize);
            assert!(room <= n + n / 16 + STEP, "room for {room} of {n}");
            assert_eq!((store.heap_blocks(), store.heap_bytes()), (n + 1, n * 512 + room * 8));
        }
        while chunks(&store).0 > 2 {
            let (n, room) = chunks(&store);
            store.truncate((n - 1) * CHUNK);
            let left = n - 1;
            let shrunk = if room - left > left / 8 + 2 * STEP { left + STEP } else { room };
            assert_eq!(chunks(&store), (left, shrunk));
        }
    }

    #[test]
    fn beyond_the_end_is_nothing() {
        let mut store = Store::new();
        store.set(0, 5);
        store.drop_front(3);
        store.truncate(3);
        assert_eq!((store.len(), store.get(0), store.heap_bytes()), (0, 0, 0));
    }
}
