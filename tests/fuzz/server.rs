//! A server that is a map: what commands use of `src/server`, in plain Rust and without unsafe code.

use crate::limit::Limiter;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fmt;
use std::rc::Rc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Update,
}

/// A command's code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handler(pub(crate) fn(&Call));

impl Handler {
    pub(crate) const fn of(code: fn(&Call)) -> Self {
        Self(code)
    }
}

/// One item of a reply, in the order in which a command writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Int(i64),
    Array(usize),
    Map(usize),
    NullArray,
    Bytes(Vec<u8>),
    Status(String),
    Error(String),
}

/// A key: a limiter with its TTL, or a value of another type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Ours(Limiter, Option<i64>),
    Foreign,
}

/// All keys of a server; `None` while one is open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store(RefCell<BTreeMap<Vec<u8>, Option<Entry>>>);

impl Store {
    pub(crate) fn get(&self, name: &[u8]) -> Option<Entry> {
        self.0.borrow().get(name).cloned().flatten()
    }

    pub(crate) fn set(&self, name: &[u8], entry: Option<Entry>) {
        match entry {
            Some(entry) => drop(self.0.borrow_mut().insert(name.to_vec(), Some(entry))),
            None => drop(self.0.borrow_mut().remove(name)),
        }
    }

    fn is_closed(&self, name: &[u8]) -> bool {
        !matches!(self.0.borrow().get(name), Some(None))
    }

    pub(crate) fn names(&self) -> Vec<Vec<u8>> {
        self.0.borrow().keys().cloned().collect()
    }
}

/// One call, and all that it does.
pub(crate) struct Call {
    words: Vec<Vec<u8>>,
    store: Rc<Store>,
    now: i64,
    obey: bool,
    /// What the caller reads.
    pub(crate) reply: RefCell<Vec<Item>>,
    /// Commands for replicas.
    pub(crate) sent: RefCell<Vec<Vec<Vec<u8>>>>,
    /// Keys reported as changed.
    pub(crate) signalled: RefCell<BTreeSet<Vec<u8>>>,
}

impl Call {
    /// A call from a client, or one from the primary, to be obeyed.
    pub(crate) fn new(words: &[Vec<u8>], store: &Rc<Store>, now: i64, obey: bool) -> Self {
        Self {
            words: words.to_vec(),
            store: store.clone(),
            now,
            obey,
            reply: RefCell::default(),
            sent: RefCell::default(),
            signalled: RefCell::default(),
        }
    }

    pub(crate) fn argc(&self) -> usize {
        self.words.len()
    }

    pub(crate) fn arg(&self, index: usize) -> &[u8] {
        self.words.get(index).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    pub(crate) fn db(&self) -> i32 {
        0
    }

    pub(crate) fn must_obey(&self) -> bool {
        self.obey
    }

    pub(crate) fn open_read(&self, index: usize) -> Key<'_> {
        Key::open(self, index)
    }

    pub(crate) fn open_write(&self, index: usize) -> Key<'_> {
        Key::open(self, index)
    }

    pub(crate) fn is_keys_position_request(&self) -> bool {
        false
    }

    pub(crate) fn key_at(&self, _: usize, _: Access) {}

    pub(crate) fn signal_modified(&self, index: usize) {
        assert!(self.store.is_closed(self.arg(index)), "told of a key that is still open");
        self.signalled.borrow_mut().insert(self.arg(index).to_vec());
    }

    pub(crate) fn notify(&self, _: &CStr, index: usize) {
        assert!(self.store.is_closed(self.arg(index)), "an event of a key that is still open");
    }

    pub(crate) fn replicate(&self, key: usize, blob: &[u8]) {
        self.replicate_many(&[(key, blob)]);
    }

    pub(crate) fn replicate_many(&self, changes: &[(usize, &[u8])]) {
        if changes.is_empty() {
            return;
        }
        let mut words = vec![b"rl.x".to_vec()];
        for (key, blob) in changes {
            words.extend([self.arg(*key).to_vec(), blob.to_vec()]);
        }
        self.sent.borrow_mut().push(words);
    }

    pub(crate) fn replicate_policy(&self, change: &[u8]) {
        self.sent.borrow_mut().push(vec![b"rl.p".to_vec(), change.to_vec()]);
    }

    pub(crate) fn replicate_verbatim(&self) {
        self.sent.borrow_mut().push(self.words.clone());
    }

    fn item(&self, item: Item) {
        self.reply.borrow_mut().push(item);
    }

    pub(crate) fn int(&self, value: i64) {
        self.item(Item::Int(value));
    }

    pub(crate) fn array(&self, len: usize) {
        self.item(Item::Array(len));
    }

    pub(crate) fn map(&self, len: usize) {
        self.item(Item::Map(len));
    }

    pub(crate) fn null_array(&self) {
        self.item(Item::NullArray);
    }

    pub(crate) fn bytes(&self, value: &[u8]) {
        self.item(Item::Bytes(value.to_vec()));
    }

    pub(crate) fn status(&self, text: &CStr) {
        self.item(Item::Status(text.to_string_lossy().into_owned()));
    }

    pub(crate) fn ok(&self) {
        self.status(c"OK");
    }

    pub(crate) fn error(&self, text: &str) {
        self.item(Item::Error(text.to_owned()));
    }

    pub(crate) fn wrong_type(&self) {
        self.error("WRONGTYPE Operation against a key holding the wrong kind of value");
    }
}

/// What is under the name of an opened key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    Missing,
    Foreign,
    Ours,
}

/// An open key: taken out of the map, and put back when dropped.
pub(crate) struct Key<'c> {
    call: &'c Call,
    name: Vec<u8>,
    entry: Option<Entry>,
}

impl<'c> Key<'c> {
    fn open(call: &'c Call, index: usize) -> Self {
        let name = call.arg(index).to_vec();
        assert!(call.store.is_closed(&name), "a key is open twice");
        let entry = call.store.0.borrow_mut().insert(name.clone(), None).flatten();
        Self { call, name, entry }
    }

    pub(crate) fn fetch_apart(&self) {}

    pub(crate) fn opened(&self) -> Opened {
        match self.entry {
            None => Opened::Missing,
            Some(Entry::Foreign) => Opened::Foreign,
            Some(Entry::Ours(..)) => Opened::Ours,
        }
    }

    pub(crate) fn value(&self) -> Option<&Limiter> {
        match &self.entry {
            Some(Entry::Ours(limiter, _)) => Some(limiter),
            _ => None,
        }
    }

    pub(crate) fn value_mut(&mut self) -> Option<&mut Limiter> {
        match &mut self.entry {
            Some(Entry::Ours(limiter, _)) => Some(limiter),
            _ => None,
        }
    }

    pub(crate) fn create(&mut self, limiter: Limiter) -> bool {
        match &mut self.entry {
            Some(Entry::Ours(held, _)) => *held = limiter,
            Some(Entry::Foreign) => return false,
            missing => *missing = Some(Entry::Ours(limiter, None)),
        }
        true
    }

    pub(crate) fn expire_at(&self) -> Option<i64> {
        match self.entry {
            Some(Entry::Ours(_, at)) => at,
            _ => None,
        }
    }

    pub(crate) fn set_expire_at(&mut self, at: i64) {
        if let Some(Entry::Ours(_, held)) = &mut self.entry {
            *held = Some(at.max(0));
        }
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        self.call.store.set(&self.name, self.entry.take());
    }
}

/// The configuration, of this thread.
pub(crate) mod config {
    use std::cell::Cell;

    thread_local! {
        static MAX_LOG: Cell<u64> = const { Cell::new(100_000) };
    }

    pub(crate) fn set_slide_max_log(most: u64) {
        MAX_LOG.set(most);
    }

    pub(crate) fn slide_max_log() -> u64 {
        MAX_LOG.get()
    }

    pub(crate) const fn max_policies() -> u64 {
        4
    }

    pub(crate) const fn notify_denied() -> bool {
        true
    }

    pub(crate) const fn retry_jitter_ms() -> u64 {
        0
    }
}

pub(crate) const fn version() -> i32 {
    1
}

pub(crate) fn warning(_: fmt::Arguments<'_>) {}
