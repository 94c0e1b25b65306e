//! What a key holds: a list of rules with their states.
//!
//! The states lie in memory as the very bytes that travel to replicas (see `codec`), because a
//! limiter's cost is its allocations, and how many of them a call has to visit: the common limiter,
//! one TOKEN, LEAKY or FIXED rule, fits into 32 bytes without a second block. Only the logs of SLIDE
//! rules live beside the bytes; one log with few bytes goes without a list of logs.

use super::change;
use super::codec::{self, List};
use super::log::{Block, Log};

/// Bytes that fit beside the tag and the length.
const INLINE: usize = 30;
/// Bytes that fit beside those and a log: more than any single SLIDE rule takes.
const INLINE_LOGGED: usize = 22;

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limiter(Repr);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Repr {
    Small { len: u8, bytes: [u8; INLINE] },
    Logged { len: u8, bytes: [u8; INLINE_LOGGED], log: Box<Log> },
    Large(Box<Large>),
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Large {
    packed: Vec<u8>,
    logs: Vec<Log>,
}

impl Limiter {
    /// A limiter of `packed` bytes and the logs that they name, in order. Allocates nothing if
    /// there is no log and the bytes are few.
    #[must_use]
    pub(super) fn new(packed: &[u8], mut logs: Vec<Log>) -> Self {
        if !is_large(packed, &logs) {
            let few = match logs.pop() {
                None => inline(packed).map(|(len, bytes)| Repr::Small { len, bytes }),
                Some(log) => {
                    let log = Box::new(log);
                    inline(packed).map(|(len, bytes)| Repr::Logged { len, bytes, log })
                }
            };
            if let Some(few) = few {
                return Self(few);
            }
        }
        Self(Repr::Large(Box::new(Large { packed: packed.to_vec(), logs })))
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
            Repr::Large(large) => &large.packed,
        }
    }

    /// The logs, in the order of the rules that own them.
    #[inline]
    #[must_use]
    pub fn logs(&self) -> &[Log] {
        match &self.0 {
            Repr::Small { .. } => &[],
            Repr::Logged { log, .. } => std::slice::from_ref(log),
            Repr::Large(large) => &large.logs,
        }
    }

    /// The first log, to be changed in place.
    #[inline]
    pub(super) fn log_mut(&mut self) -> Option<&mut Log> {
        match &mut self.0 {
            Repr::Small { .. } => None,
            Repr::Logged { log, .. } => Some(log),
            Repr::Large(large) => large.logs.first_mut(),
        }
    }

    /// Replaces the bytes of a limiter that keeps its logs.
    pub(super) fn set_packed(&mut self, packed: &[u8]) {
        let logs = self.take_logs();
        self.put(packed, logs);
    }

    /// Takes the logs out, to be changed and put back with `put`.
    pub(super) fn take_logs(&mut self) -> Vec<Log> {
        match &mut self.0 {
            Repr::Small { .. } => Vec::new(),
            Repr::Logged { log, .. } => vec![std::mem::take(&mut **log)],
            Repr::Large(large) => std::mem::take(&mut large.logs),
        }
    }

    /// Replaces bytes and logs, in place where they fit.
    pub(super) fn put(&mut self, packed: &[u8], logs: Vec<Log>) {
        match &mut self.0 {
            Repr::Large(large) if is_large(packed, &logs) => {
                large.logs = logs;
                large.packed.clear();
                large.packed.reserve_exact(packed.len());
                large.packed.extend_from_slice(packed);
            }
            _ => *self = Self::new(packed, logs),
        }
    }

    /// Bytes on the heap beside the value itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Small { .. } => 0,
            Repr::Logged { log, .. } => size_of::<Log>().saturating_add(log.heap_bytes()),
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
        self.logs().iter().map(Log::blocks).sum::<usize>().saturating_add(1)
    }

    /// Hands out the heap blocks, for a server that moves memory to defragment it.
    pub fn for_each_block(
        &mut self,
        bytes: &mut dyn FnMut(&mut Vec<u8>),
        words: &mut dyn FnMut(Block<'_>),
    ) {
        match &mut self.0 {
            Repr::Small { .. } => {}
            Repr::Logged { log, .. } => log.for_each_block(words),
            Repr::Large(large) => {
                bytes(&mut large.packed);
                for log in &mut large.logs {
                    log.for_each_block(words);
                }
            }
        }
    }
}

/// Whether bytes and logs need the large form.
fn is_large(packed: &[u8], logs: &[Log]) -> bool {
    match logs {
        [] => packed.len() > INLINE,
        [_] => packed.len() > INLINE_LOGGED,
        _ => true,
    }
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
