//! Named lists of rules, kept by the server.
//!
//! They are no keys: in a cluster every primary has its own copy, FLUSHALL leaves them, and they
//! travel by an internal command and in a part of the RDB of their own. What carries a change is
//! the result with its version, so that all copies are alike.

use crate::limit::bytes::{Bytes, Reader};
use crate::limit::codec::{self, Slot, State, Trail};
use crate::limit::Rule;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// One named list.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) rules: Vec<Rule>,
    /// Its rules are decided and counted, but never make a call fail.
    pub(crate) shadow: bool,
    /// Grows with every change of any policy on this server; tells a key that the policy was
    /// edited since its last charge.
    pub(crate) version: u64,
    pub(crate) counters: Arc<Counters>,
}

/// What this server counted for a name since its start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) allowed: AtomicU64,
    pub(crate) denied: AtomicU64,
    pub(crate) shadow_denied: AtomicU64,
}

impl Counters {
    pub(crate) fn bump(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }
}

#[derive(Default)]
struct Table {
    policies: BTreeMap<Vec<u8>, Arc<Policy>>,
    /// The version of the newest change.
    version: u64,
}

static TABLE: RwLock<Table> = RwLock::new(Table { policies: BTreeMap::new(), version: 0 });

// The table is never left half changed, so a panic elsewhere while it is locked spoils nothing.
fn read() -> RwLockReadGuard<'static, Table> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Table> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

/// What became of a SET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// The rules were these already.
    Unchanged,
    /// There are as many policies as there may be.
    Full,
    /// Changed: the bytes for replicas and AOF.
    Changed(Vec<u8>),
}

/// The policy of a name.
pub(crate) fn get(name: &[u8]) -> Option<Arc<Policy>> {
    read().policies.get(name).cloned()
}

/// All names in byte order.
pub(crate) fn names() -> Vec<Vec<u8>> {
    read().policies.keys().cloned().collect()
}

/// Sets a policy. At most `most` are kept.
pub(crate) fn set(name: &[u8], rules: &[Rule], shadow: bool, most: u64) -> Set {
    let mut table = write();
    match table.policies.get(name) {
        Some(old) if old.rules == rules && old.shadow == shadow => return Set::Unchanged,
        Some(_) => {}
        None if u64::try_from(table.policies.len()).unwrap_or(u64::MAX) >= most => {
            return Set::Full
        }
        None => {}
    }
    let version = table.version.saturating_add(1);
    table.put(name, rules.to_vec(), shadow, version);
    let mut out = Bytes::default();
    if let Some(policy) = table.policies.get(name) {
        encode_set(name, policy, &mut out);
    }
    Set::Changed(out.as_slice().to_vec())
}

/// Deletes policies; how many went, and the bytes for replicas and AOF if any did.
pub(crate) fn delete<'a>(names: impl Iterator<Item = &'a [u8]>) -> (i64, Vec<u8>) {
    let mut table = write();
    let mut gone = 0_i64;
    let mut out = Bytes::default();
    out.byte(OP_DELETE);
    for name in names {
        if table.policies.remove(name).is_some() {
            gone = gone.saturating_add(1);
            out.size(name.len());
            out.bytes(name);
        }
    }
    (gone, out.as_slice().to_vec())
}

/// Number of policies, and a digest of names, rules and shadow: alike on nodes that agree.
pub(crate) fn summary() -> (u64, u64) {
    // Also asked from a crash handler: rather no answer than a wait for a lock.
    let Ok(table) = TABLE.try_read() else { return (0, 0) };
    let mut digest = FNV_START;
    for (name, policy) in &table.policies {
        digest = fnv(digest, &name.len().to_le_bytes());
        digest = fnv(digest, name);
        digest = fnv(digest, &[u8::from(policy.shadow)]);
        let mut rules = Bytes::default();
        pack_rules(&policy.rules, &mut rules);
        digest = fnv(digest, rules.as_slice());
    }
    let count = u64::try_from(table.policies.len()).unwrap_or(u64::MAX);
    (count, if count == 0 { 0 } else { digest })
}

impl Table {
    fn put(&mut self, name: &[u8], rules: Vec<Rule>, shadow: bool, version: u64) {
        let counters = self.policies.get(name).map_or_else(Arc::default, |p| p.counters.clone());
        let policy = Policy { rules, shadow, version, counters };
        self.policies.insert(name.to_vec(), Arc::new(policy));
        self.version = self.version.max(version);
    }
}

const OP_SET: u8 = 1;
const OP_DELETE: u8 = 2;

fn pack_rules(rules: &[Rule], out: &mut Bytes) {
    let slots: Vec<_> = rules.iter().map(|r| Slot { rule: *r, state: State::Fresh }).collect();
    codec::pack(out, &slots, slots.len(), Trail::default());
}

fn encode_set(name: &[u8], policy: &Policy, out: &mut Bytes) {
    out.byte(OP_SET);
    out.size(name.len());
    out.bytes(name);
    out.byte(u8::from(policy.shadow));
    out.u64(policy.version);
    pack_rules(&policy.rules, out);
}

fn decode_name<'a>(from: &mut Reader<'a>) -> Option<&'a [u8]> {
    let len = from.size()?;
    let name = from.take(len)?;
    codec::is_name(name).then_some(name)
}

fn decode_set<'a>(from: &mut Reader<'a>) -> Option<(&'a [u8], Vec<Rule>, bool, u64)> {
    let name = decode_name(from)?;
    let shadow = match from.byte()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let version = from.u64()?;
    let list = codec::read_list(from)?;
    let fresh = list.slots.all().iter().all(|slot| slot.state == State::Fresh);
    let rules = list.slots.all().iter().map(|slot| slot.rule).collect();
    fresh.then_some((name, rules, shadow, version))
}

/// Applies the bytes of a change that was made elsewhere; false if they are malformed, and then
/// nothing has changed.
pub(crate) fn apply(bytes: &[u8]) -> bool {
    let mut from = Reader(bytes);
    match from.byte() {
        Some(OP_SET) => {
            let Some((name, rules, shadow, version)) = decode_set(&mut from) else { return false };
            if !from.0.is_empty() {
                return false;
            }
            write().put(name, rules, shadow, version);
            true
        }
        Some(OP_DELETE) => {
            let mut names = Vec::new();
            while !from.0.is_empty() {
                let Some(name) = decode_name(&mut from) else { return false };
                names.push(name);
            }
            let mut table = write();
            for name in names {
                table.policies.remove(name);
            }
            true
        }
        _ => false,
    }
}

/// All policies for the RDB; nothing if there are none.
pub(crate) fn save(out: &mut Vec<u8>) {
    let table = read();
    if table.policies.is_empty() {
        return;
    }
    let mut bytes = Bytes::default();
    bytes.u64(table.version);
    bytes.size(table.policies.len());
    for (name, policy) in &table.policies {
        encode_set(name, policy, &mut bytes);
    }
    out.extend_from_slice(bytes.as_slice());
}

/// Takes the policies of an RDB; false if they are malformed.
pub(crate) fn load(bytes: &[u8]) -> bool {
    if bytes.is_empty() {
        return true;
    }
    let mut table = Table::default();
    let mut from = Reader(bytes);
    let (Some(version), Some(count)) = (from.u64(), from.size()) else { return false };
    for _ in 0..count {
        if from.byte() != Some(OP_SET) {
            return false;
        }
        let Some((name, rules, shadow, own)) = decode_set(&mut from) else { return false };
        table.put(name, rules, shadow, own);
    }
    table.version = table.version.max(version);
    if !from.0.is_empty() || table.policies.len() != count {
        return false;
    }
    *write() = table;
    true
}

/// Forgets all policies: an RDB, an AOF or a full sync is about to bring its own.
pub(crate) fn clear() {
    write().policies.clear();
}

/// The bytes that set each policy, for an AOF that begins anew.
pub(crate) fn for_each_blob(f: &mut dyn FnMut(&[u8])) {
    let table = read();
    for (name, policy) in &table.policies {
        let mut out = Bytes::default();
        encode_set(name, policy, &mut out);
        f(out.as_slice());
    }
}

/// FNV-1a, 64 bits.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
