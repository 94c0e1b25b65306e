//! Short lists without an allocation.

use std::fmt;

/// So many have room in the list itself.
pub const ROOM: usize = 4;

/// A few items: a list of rules is mostly short, and then costs no allocation.
#[derive(Clone)]
pub struct Few<T> {
    /// The first `len` count, while `many` is empty; the others are copies that fill the room.
    few: Option<[T; ROOM]>,
    len: usize,
    /// All of them, once there were more than there is room for.
    many: Vec<T>,
}

impl<T> Few<T> {
    /// None at all.
    #[must_use]
    pub const fn none() -> Self {
        Self { few: None, len: 0, many: Vec::new() }
    }

    /// All as a slice.
    #[inline]
    #[must_use]
    pub fn all(&self) -> &[T] {
        match &self.few {
            Some(few) => few.get(..self.len).unwrap_or(&[]),
            None => &self.many,
        }
    }

    /// All as a slice, to be changed.
    #[inline]
    pub fn all_mut(&mut self) -> &mut [T] {
        match &mut self.few {
            Some(few) => few.get_mut(..self.len).unwrap_or(&mut []),
            None => &mut self.many,
        }
    }

    /// Keeps the first `n`.
    pub fn truncate(&mut self, n: usize) {
        self.len = self.len.min(n);
        self.many.truncate(n);
    }

    /// The one at `i`.
    #[inline]
    #[must_use]
    pub fn get(&self, i: usize) -> Option<&T> {
        self.all().get(i)
    }

    /// How many.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Clone> Few<T> {
    /// Just one.
    #[inline]
    #[must_use]
    pub fn one(one: T) -> Self {
        let mut all = Self::none();
        all.push(one);
        all
    }

    /// Makes `n` by `make`; `None` as soon as it does.
    #[inline]
    pub fn make(n: usize, mut make: impl FnMut(usize) -> Option<T>) -> Option<Self> {
        let mut all = Self::none();
        for i in 0..n {
            all.push(make(i)?);
        }
        Some(all)
    }

    /// Appends one.
    #[inline]
    pub fn push(&mut self, next: T) {
        match &mut self.few {
            None if self.many.is_empty() => {
                self.few = Some(std::array::from_fn(|_| next.clone()));
                self.len = 1;
            }
            None => self.many.push(next),
            Some(few) => match few.get_mut(self.len) {
                Some(free) => {
                    *free = next;
                    self.len = self.len.saturating_add(1);
                }
                None => self.spill(next),
            },
        }
    }

    #[cold]
    fn spill(&mut self, next: T) {
        if let Some(few) = self.few.take() {
            self.many.extend(few);
            self.many.push(next);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Few<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_what_was_pushed_whatever_its_length() {
        for n in 0..3 * ROOM {
            let want: Vec<_> = (0..n).collect();
            let mut few = Few::make(n, Some).unwrap();
            assert_eq!((few.all(), few.len(), few.is_empty()), (&want[..], n, n == 0));
            assert_eq!(few.get(n), None);
            for x in few.all_mut() {
                *x += 1;
            }
            for keep in (0..=n + 1).rev() {
                few.truncate(keep);
                let want: Vec<_> = (1..=n).take(keep).collect();
                assert_eq!(few.all(), want);
                let mut more = few.clone();
                more.push(99);
                assert_eq!(more.all().split_last(), Some((&99, &want[..])));
            }
        }
    }

    #[test]
    fn making_stops_at_the_first_none() {
        assert!(Few::make(9, |i| (i < 5).then_some(i)).is_none());
        assert_eq!(Few::one(7).all(), [7]);
    }
}
