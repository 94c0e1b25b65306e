//! HeavyKeeper: counts of keys whose names it does not hold.
//!
//! Two rows of cells. A key has one cell in each; the cell holds a mark (32 bits of the hash) and a
//! count. The owner of the mark adds 1. Anybody else takes 1 off with probability 1.08^-count, and who
//! takes the last one becomes the owner: small counts soon make room, large ones hardly ever shrink.

/// Cells per listed key, in each row.
const CELLS_PER_KEY: usize = 8;
/// The fewest cells of a row: with a short list it must still tell many keys apart.
const MIN_CELLS: usize = 4096;

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    mark: u32,
    count: u32,
}

#[derive(Debug)]
pub(super) struct Sketch {
    rows: [Box<[Cell]>; 2],
    mask: usize,
    random: u64,
}

/// How often, out of 2^32 times, a stranger takes 1 off a cell of that count: 2^32 * 1.08^-count, in
/// whole numbers. Beyond the end it never happens.
#[allow(clippy::indexing_slicing)] // computed while compiling: a slip would not compile
const DECAY: [u32; 288] = {
    let mut table = [0; 288];
    // 24 more bits than are kept, so that rounding does not add up.
    let (mut i, mut chance) = (0, (u32::MAX as u64) << 24);
    while i < table.len() {
        table[i] = (chance >> 24) as u32;
        chance = (chance / 108).saturating_mul(100);
        i = i.saturating_add(1);
    }
    table
};

impl Sketch {
    /// For a list of so many keys: 16 bytes a cell of both rows, 64 KiB at least.
    pub(super) fn new(keys: usize, random: u64) -> Self {
        let cells = keys.saturating_mul(CELLS_PER_KEY).max(MIN_CELLS).next_power_of_two();
        let row = || vec![Cell::default(); cells].into_boxed_slice();
        Self { rows: [row(), row()], mask: cells.wrapping_sub(1), random }
    }

    /// Counts a key and answers its count, at least 1. No count grows beyond `least` + 1: a key that
    /// has more is in the list, so a cell that has more belongs to another key with the same mark.
    pub(super) fn add(&mut self, hash: u64, least: u64) -> u64 {
        let least = u32::try_from(least).unwrap_or(u32::MAX);
        let (mark, places) = (mark(hash), self.places(hash));
        let mut most = 1;
        for (row, place) in self.rows.iter_mut().zip(places) {
            let Some(cell) = row.get_mut(place) else { continue };
            if cell.count == 0 {
                *cell = Cell { mark, count: 1 };
            } else if cell.mark == mark {
                if cell.count <= least {
                    cell.count = cell.count.saturating_add(1);
                    most = most.max(cell.count);
                }
            } else {
                // Knuth's constants for a linear congruential generator; its high bits are good.
                self.random = self
                    .random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let chance = usize::try_from(cell.count).ok().and_then(|c| DECAY.get(c));
                if ((self.random >> 32) as u32) < chance.copied().unwrap_or(0) {
                    cell.count = cell.count.saturating_sub(1);
                    if cell.count == 0 {
                        *cell = Cell { mark, count: 1 };
                    }
                }
            }
        }
        u64::from(most)
    }

    /// Takes back the count of a key that has left the list, where it is more than what is there.
    pub(super) fn put_back(&mut self, hash: u64, count: u64) {
        let (mark, places) = (mark(hash), self.places(hash));
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        for (row, place) in self.rows.iter_mut().zip(places) {
            if let Some(cell) = row.get_mut(place).filter(|cell| cell.count < count) {
                *cell = Cell { mark, count };
            }
        }
    }

    /// The key's cell in each row, by the low half of the hash and by all of it stirred again.
    fn places(&self, hash: u64) -> [usize; 2] {
        [hash as usize & self.mask, (super::mix(hash) >> 20) as usize & self.mask]
    }
}

/// The high half of the hash.
const fn mark(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decay_is_a_power() {
        for (count, chance) in DECAY.iter().enumerate() {
            let exact = 4_294_967_296.0 * 1.08_f64.powi(-i32::try_from(count).unwrap());
            assert!((f64::from(*chance) - exact).abs() <= 2.0, "{count}: {chance} {exact}");
        }
    }

    #[test]
    fn a_key_alone_is_counted_exactly() {
        let mut sketch = Sketch::new(1, 1);
        for count in 1..=1000 {
            assert_eq!(sketch.add(77, u64::MAX), count);
        }
    }

    #[test]
    fn a_cell_above_the_least_belongs_to_another() {
        let mut sketch = Sketch::new(1, 1);
        for _ in 0..10 {
            sketch.add(77, u64::MAX);
        }
        assert_eq!(sketch.add(77, 9), 1);
        assert_eq!(sketch.add(77, 10), 11);
        assert_eq!(sketch.add(77, 10), 1);
    }

    #[test]
    fn strangers_wear_a_small_count_down_and_hardly_a_large_one() {
        let hash = |n: u64| super::super::mix(n.wrapping_add(1) << 17);
        let mut sketch = Sketch::new(1, 1);
        for _ in 0..1000 {
            sketch.add(hash(0), u64::MAX);
        }
        for _ in 0..2 {
            sketch.add(hash(1), u64::MAX);
        }
        // About 250 strangers in each cell.
        for n in 2..1_000_000 {
            sketch.add(hash(n), u64::MAX);
        }
        assert!(sketch.add(hash(0), u64::MAX) > 995);
        assert!(sketch.add(hash(1), u64::MAX) <= 3);
    }
}
