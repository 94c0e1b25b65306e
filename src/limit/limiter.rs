//! What a key holds: a list of rules with their states.
//!
//! The states lie in memory as the very bytes that travel to replicas (see `codec`), because a
//! limiter's cost is its allocations, and how many of them a call has to visit: the common limiter,
//! one TOKEN, LEAKY or FIXED rule, fits into 32 bytes without a second block. Only the logs of SLIDE
//! rules live beside the bytes.
//!
//! ```text
//!   Small   bytes                          one rule without a log
//!   Logged  bytes, log ─▶ Log              one SLIDE rule
//!   Packed  bytes ─▶                       a list without a log
//!   Listed  ─▶ bytes, Log                  a few rules, one of them SLIDE
//!   Large   ─▶ bytes ─▶, logs ─▶ Log...    whatever else there is
//! ```

use super::change;
use super::codec::{self, List};
use super::log::{Log, Visitor};

/// Bytes that fit beside the tag and the length.
const INLINE: usize = 30;
/// Bytes that fit beside those and a log: more than any single SLIDE rule takes.
const INLINE_LOGGED: usize = 22;
/// Bytes that fit into one block with a log: those of three or four rules.
const INLINE_LISTED: usize = 79;

/// The value of a key.
#[derive(Clone, Debug)]
pub struct Limiter(Repr);

impl PartialEq for Limiter {
    fn eq(&self, other: &Self) -> bool {
        self.packed() == other.packed() && self.logs() == other.logs()
    }
}

impl Eq for Limiter {}

#[derive(Clone, Debug)]
enum Repr {
    Small { len: u8, bytes: [u8; INLINE] },
    Logged { len: u8, bytes: [u8; INLINE_LOGGED], log: Box<Log> },
    Packed(Vec<u8>),
    Listed(Box<Listed>),
    Large(Box<Large>),
}

#[derive(Clone, Debug)]
struct Listed {
    len: u8,
    bytes: [u8; INLINE_LISTED],
    log: Log,
}

#[derive(Clone, Debug)]
struct Large {
    packed: Vec<u8>,
    logs: Vec<Log>,
}

impl Limiter {
    /// A limiter of `packed` bytes and the logs that they name, in order. Allocates nothing if
    /// there is no log and the bytes are few.
    #[must_use]
    pub(super) fn new(packed: &[u8], mut logs: Vec<Log>) -> Self {
        let form = Form::of(packed, &logs);
        let inlined = match (form, logs.pop()) {
            (Form::Small, _) => inline(packed).map(|(len, bytes)| Repr::Small { len, bytes }),
            (Form::Logged, Some(log)) => {
                let log = Box::new(log);
                inline(packed).map(|(len, bytes)| Repr::Logged { len, bytes, log })
            }
            (Form::Packed, _) => Some(Repr::Packed(packed.to_vec())),
            (Form::Listed, Some(log)) => inline(packed)
                .map(|(len, bytes)| Repr::Listed(Box::new(Listed { len, bytes, log }))),
            (_, log) => {
                logs.extend(log);
                None
            }
        };
        Self(
            inlined
                .unwrap_or_else(|| Repr::Large(Box::new(Large { packed: packed.to_vec(), logs }))),
        )
    }

    /// The rules and states; `None` only if memory was damaged.
    #[must_use]
    pub fn list(&self) -> Option<List<'_>> {
        codec::unpack(self.packed())
    }

    #[inline]
    pub(super) fn packed(&self) -> &[u8] {
        match &self.0 {
            Repr::Small { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or(bytes),
            Repr::Logged { len, bytes, .. } => bytes.get(..usize::from(*len)).unwrap_or(bytes),
            Repr::Packed(packed) => packed,
            Repr::Listed(listed) => {
                listed.bytes.get(..usize::from(listed.len)).unwrap_or(&listed.bytes)
            }
            Repr::Large(large) => &large.packed,
        }
    }

    /// Where what does not lie in the value itself begins, and its bytes; what lies apart from that in turn
    /// is not told. For those who want it fetched before it is read.
    #[inline]
    #[must_use]
    pub fn apart(&self) -> (*const u8, usize) {
        match &self.0 {
            Repr::Small { .. } => (std::ptr::null(), 0),
            Repr::Logged { log, .. } => (std::ptr::from_ref(&**log).cast(), size_of::<Log>()),
            Repr::Packed(packed) => (packed.as_ptr(), packed.len()),
            Repr::Listed(list) => (std::ptr::from_ref(&**list).cast(), size_of::<Listed>()),
            Repr::Large(large) => (std::ptr::from_ref(&**large).cast(), size_of::<Large>()),
        }
    }

    /// The logs, in the order of the rules that own them.
    #[inline]
    #[must_use]
    pub fn logs(&self) -> &[Log] {
        match &self.0 {
            Repr::Small { .. } | Repr::Packed(_) => &[],
            Repr::Logged { log, .. } => std::slice::from_ref(log),
            Repr::Listed(listed) => std::slice::from_ref(&listed.log),
            Repr::Large(large) => &large.logs,
        }
    }

    /// The log of this number, to be changed in place.
    #[inline]
    pub(super) fn log_mut(&mut self, number: usize) -> Option<&mut Log> {
        match &mut self.0 {
            Repr::Small { .. } | Repr::Packed(_) => None,
            Repr::Logged { log, .. } => std::slice::from_mut(&mut **log).get_mut(number),
            Repr::Listed(listed) => std::slice::from_mut(&mut listed.log).get_mut(number),
            Repr::Large(large) => large.logs.get_mut(number),
        }
    }

    /// Replaces the bytes of a limiter that keeps its logs.
    pub(super) fn set_packed(&mut self, packed: &[u8]) {
        if !self.fits(Form::of(packed, self.logs())) || !self.replace(packed) {
            let logs = self.take_logs();
            *self = Self::new(packed, logs);
        }
    }

    /// Takes the logs out, to be changed and put back with `put`.
    pub(super) fn take_logs(&mut self) -> Vec<Log> {
        match &mut self.0 {
            Repr::Small { .. } | Repr::Packed(_) => Vec::new(),
            Repr::Logged { log, .. } => vec![std::mem::take(&mut **log)],
            Repr::Listed(listed) => vec![std::mem::take(&mut listed.log)],
            Repr::Large(large) => std::mem::take(&mut large.logs),
        }
    }

    /// Replaces bytes and logs, in place where they fit.
    pub(super) fn put(&mut self, packed: &[u8], mut logs: Vec<Log>) {
        if self.fits(Form::of(packed, &logs)) && self.replace(packed) {
            match &mut self.0 {
                Repr::Small { .. } | Repr::Packed(_) => {}
                Repr::Logged { log, .. } => **log = logs.pop().unwrap_or_default(),
                Repr::Listed(listed) => listed.log = logs.pop().unwrap_or_default(),
                Repr::Large(large) => large.logs = logs,
            }
        } else {
            *self = Self::new(packed, logs);
        }
    }

    const fn fits(&self, form: Form) -> bool {
        matches!(
            (&self.0, form),
            (Repr::Small { .. }, Form::Small)
                | (Repr::Logged { .. }, Form::Logged)
                | (Repr::Packed(_), Form::Packed)
                | (Repr::Listed(_), Form::Listed)
                | (Repr::Large(_), Form::Large)
        )
    }

    /// Replaces the bytes alone; false if there is no room for them.
    fn replace(&mut self, packed: &[u8]) -> bool {
        let (len, room) = match &mut self.0 {
            Repr::Small { len, bytes } => (len, bytes.as_mut_slice()),
            Repr::Logged { len, bytes, .. } => (len, bytes.as_mut_slice()),
            Repr::Listed(listed) => (&mut listed.len, listed.bytes.as_mut_slice()),
            Repr::Packed(bytes) => return refill(bytes, packed),
            Repr::Large(large) => return refill(&mut large.packed, packed),
        };
        let (Some(to), Ok(new)) = (room.get_mut(..packed.len()), u8::try_from(packed.len())) else {
            return false;
        };
        to.copy_from_slice(packed);
        *len = new;
        true
    }

    /// Bytes on the heap beside the value itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Small { .. } => 0,
            Repr::Logged { log, .. } => size_of::<Log>().saturating_add(log.heap_bytes()),
            Repr::Packed(packed) => packed.capacity(),
            Repr::Listed(listed) => size_of::<Listed>().saturating_add(listed.log.heap_bytes()),
            Repr::Large(large) => {
                let logs = large.logs.iter().map(Log::heap_bytes).sum::<usize>();
                size_of::<Large>()
                    .saturating_add(large.packed.capacity())
                    .saturating_add(large.logs.capacity().saturating_mul(size_of::<Log>()))
                    .saturating_add(logs)
            }
        }
    }

    /// Blocks to be freed, at least 1: a server frees values of many blocks in the background.
    #[must_use]
    pub fn free_effort(&self) -> usize {
        self.logs().iter().map(Log::heap_blocks).sum::<usize>().saturating_add(1)
    }

    /// Shows all blocks but the lists of chunks.
    pub fn show_heap(&mut self, to: &mut impl Visitor) {
        match &mut self.0 {
            Repr::Small { .. } => {}
            Repr::Logged { log, .. } => {
                to.boxed(log);
                log.show_heap(to);
            }
            Repr::Packed(packed) => to.vec(packed),
            Repr::Listed(listed) => {
                to.boxed(listed);
                listed.log.show_heap(to);
            }
            Repr::Large(large) => {
                to.boxed(large);
                to.vec(&mut large.packed);
                to.vec(&mut large.logs);
                large.logs.iter_mut().for_each(|log| log.show_heap(to));
            }
        }
    }
}

/// Where bytes and logs lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Small,
    Logged,
    Packed,
    Listed,
    Large,
}

impl Form {
    /// The smallest one that takes them.
    const fn of(packed: &[u8], logs: &[Log]) -> Self {
        match (logs, packed.len()) {
            ([], 0..=INLINE) => Self::Small,
            ([_], 0..=INLINE_LOGGED) => Self::Logged,
            ([], _) => Self::Packed,
            ([_], 0..=INLINE_LISTED) => Self::Listed,
            _ => Self::Large,
        }
    }
}

fn refill(bytes: &mut Vec<u8>, packed: &[u8]) -> bool {
    bytes.clear();
    bytes.reserve_exact(packed.len());
    bytes.extend_from_slice(packed);
    true
}

/// The bytes with their length, if they fit.
#[inline]
fn inline<const N: usize>(packed: &[u8]) -> Option<(u8, [u8; N])> {
    let mut bytes = [0; N];
    bytes.get_mut(..packed.len())?.copy_from_slice(packed);
    Some((u8::try_from(packed.len()).ok()?, bytes))
}

/// For the server's type callbacks.
impl Limiter {
    /// Appends the whole state, with a version and a checksum of its own.
    pub fn encode(&self, out: &mut Vec<u8>) {
        change::encode_payload(self, out);
    }

    /// The state that `encode` wrote; `None` if the bytes are anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        change::decode_payload(bytes)
    }

    /// Appends the change that sets a key to this state, whatever it holds.
    pub fn encode_full_op(&self, out: &mut Vec<u8>) {
        let mut bytes = super::bytes::Bytes::default();
        change::encode_whole(self, &mut bytes);
        out.extend_from_slice(bytes.as_slice());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes and numbers of entries: one of each form, from the smallest to the largest.
    const FORMS: [(usize, &[u64]); 7] = [
        (30, &[]),
        (22, &[3]),
        (22, &[9]),
        (31, &[]),
        (79, &[900]),
        (80, &[1, 500]),
        (12, &[2, 2, 2]),
    ];
    /// Entries that lie in the log itself.
    const TAIL: u64 = 4;

    fn made((bytes, logs): (usize, &[u64]), fill: u8) -> Limiter {
        let log = |entries: &u64| {
            let mut log = Log::new();
            (1..=*entries).for_each(|i| log.add(i.cast_signed(), i));
            log
        };
        Limiter::new(&vec![fill; bytes], logs.iter().map(log).collect())
    }

    /// A block of such a size takes no more than that of common allocators.
    #[test]
    fn blocks_are_of_sizes_that_are_not_rounded_up() {
        assert_eq!((size_of::<Limiter>(), size_of::<Log>(), size_of::<Listed>()), (32, 112, 192));
    }

    #[test]
    fn equal_if_bytes_and_logs_are() {
        for form in FORMS {
            assert_eq!(made(form, 1), made(form, 1));
            assert_ne!(made(form, 1), made(form, 2));
        }
        assert_ne!(made((22, &[3]), 1), made((22, &[4]), 1));
        assert_ne!(made((22, &[3]), 1), made((23, &[3]), 1));
    }

    #[test]
    fn bytes_of_the_same_form_are_changed_where_they_are() {
        let place = |limiter: &Limiter| match &limiter.0 {
            Repr::Small { .. } => None,
            Repr::Packed(packed) => Some(packed.as_ptr()),
            _ => Some(limiter.logs().as_ptr().cast()),
        };
        for (bytes, logs) in FORMS {
            let mut limiter = made((bytes, logs), 1);
            let before = place(&limiter);
            // Where the old block lay, another one must not come to lie by chance.
            let _others: Vec<_> = (0..9).map(|_| made((bytes, logs), 3)).collect();
            limiter.set_packed(&vec![2; bytes]);
            assert_eq!(place(&limiter), before, "{bytes} bytes, {logs:?}");
            assert_eq!(limiter, made((bytes, logs), 2));
            // Into every other form and back, with the same logs.
            for other in [5, 30, 60, 300] {
                limiter.set_packed(&vec![3; other]);
                assert_eq!(limiter, made((other, logs), 3));
            }
            limiter.set_packed(&vec![2; bytes]);
            assert_eq!(limiter, made((bytes, logs), 2));
        }
    }

    #[test]
    fn what_lies_apart_is_told_where_it_lies() {
        for (bytes, logs) in FORMS {
            let limiter = made((bytes, logs), 1);
            let (at, len) = limiter.apart();
            let place = at.addr()..at.addr() + len;
            let log = limiter.logs().first().map_or(0, |log| std::ptr::from_ref(log).addr());
            let packed = limiter.packed().as_ptr().addr();
            match &limiter.0 {
                Repr::Small { .. } => assert_eq!(place, 0..0),
                Repr::Logged { .. } => assert_eq!(place, log..log + size_of::<Log>()),
                Repr::Packed(_) => assert_eq!(place, packed..packed + bytes),
                Repr::Listed(_) => assert!(place.contains(&packed) && place.contains(&log)),
                Repr::Large(large) => assert!(place.contains(&(&raw const large.packed).addr())),
            }
        }
    }

    /// Counts blocks and their bytes.
    #[derive(Default)]
    struct Count {
        blocks: usize,
        bytes: usize,
    }

    impl Visitor for Count {
        fn boxed<T>(&mut self, _: &mut Box<T>) {
            self.blocks += 1;
            self.bytes += size_of::<T>();
        }

        fn vec<T>(&mut self, block: &mut Vec<T>) {
            self.blocks += usize::from(block.capacity() > 0);
            self.bytes += block.capacity() * size_of::<T>();
        }
    }

    #[test]
    fn memory_and_blocks_are_told_as_they_are() {
        for (bytes, logs) in FORMS {
            let mut limiter = made((bytes, logs), 1);
            let mut shown = Count::default();
            limiter.show_heap(&mut shown);
            let apart = if limiter.apart().1 > 0 { bytes } else { 0 };
            let entries = logs.iter().map(|n| n.saturating_sub(TAIL)).sum::<u64>() as usize;
            assert!(shown.bytes >= apart + 8 * entries, "{bytes} bytes, {logs:?}: {}", shown.bytes);
            // The lists of chunks alone are not shown.
            let told = limiter.heap_bytes();
            let lists = told.checked_sub(shown.bytes).expect("no more is shown than is told");
            let chunked = logs.iter().filter(|entries| **entries > 64).count();
            assert!(
                (8 * chunked..=16 * 8 * chunked).contains(&lists),
                "{bytes} bytes, {logs:?}: {lists}"
            );
            // Beside what the logs have: the value itself, or the blocks between it and them.
            let of_logs = limiter.logs().iter().map(Log::heap_blocks).sum::<usize>();
            let own = match &limiter.0 {
                Repr::Small { .. } => 0,
                Repr::Large(_) => 2 + usize::from(!logs.is_empty()),
                _ => 1,
            };
            assert_eq!(shown.blocks + chunked, own + of_logs, "{bytes} bytes, {logs:?}");
            assert_eq!(limiter.free_effort(), 1 + of_logs, "{bytes} bytes, {logs:?}");
        }
    }
}
