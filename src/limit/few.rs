//! Short lists without an allocation for one.

/// One or a few: a list of rules mostly has one, and then costs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Few<T> {
    /// Just one.
    One(T),
    /// Any number.
    Many(Vec<T>),
}

impl<T> Few<T> {
    /// All as a slice.
    #[must_use]
    pub fn all(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    /// All as a slice, to be changed.
    pub fn all_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(one) => std::slice::from_mut(one),
            Self::Many(many) => many,
        }
    }

    /// Makes `n` by `make`; `None` as soon as it does.
    pub fn make(n: usize, mut make: impl FnMut(usize) -> Option<T>) -> Option<Self> {
        if n == 1 {
            return make(0).map(Self::One);
        }
        (0..n).map(make).collect::<Option<Vec<_>>>().map(Self::Many)
    }

    /// Keeps the first `n`.
    pub fn truncate(&mut self, n: usize) {
        match self {
            Self::Many(many) => many.truncate(n),
            Self::One(_) if n == 0 => *self = Self::none(),
            Self::One(_) => {}
        }
    }

    /// None at all.
    #[must_use]
    pub const fn none() -> Self {
        Self::Many(Vec::new())
    }

    /// Appends one.
    pub fn push(&mut self, next: T) {
        *self = match std::mem::replace(self, Self::none()) {
            Self::One(one) => Self::Many(vec![one, next]),
            Self::Many(many) if many.is_empty() => Self::One(next),
            Self::Many(mut many) => {
                many.push(next);
                Self::Many(many)
            }
        };
    }

    /// The one at `i`.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<&T> {
        self.all().get(i)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }
}
