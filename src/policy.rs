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
    /// Grows with every change of any policy on this server.
    pub(crate) version: u64,
    /// What a key keeps of it, to tell at its next charge whether the policy was edited since: another one
    /// for every version, and, since a key may move to a node that counts versions of its own, for other
    /// rules under the same version (but for one chance in 2^32).
    pub(crate) edition: u64,
    pub(crate) counters: Arc<Counters>,
}

impl Policy {
    fn new(rules: Vec<Rule>, shadow: bool, version: u64, counters: Arc<Counters>) -> Self {
        let digest = digest(FNV_START, shadow, &rules);
        let edition = version.rotate_left(32) ^ (digest >> 32);
        Self { rules, shadow, version, edition, counters }
    }
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

#[derive(Debug, Default)]
struct Table {
    policies: BTreeMap<Vec<u8>, Arc<Policy>>,
    /// The version of the newest change.
    version: u64,
    /// The counters of the policies that were there when the last load began: a reload or a full sync
    /// is no start of this server, so names that come back go on counting.
    counted: BTreeMap<Vec<u8>, Arc<Counters>>,
}

static TABLE: RwLock<Table> = RwLock::new(Table::new());

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

/// Whether a name is one: 1 to 64 of `A-Z a-z 0-9 _ . -`.
pub(crate) fn is_name(word: &[u8]) -> bool {
    (1..=codec::MAX_NAME).contains(&word.len())
        && word.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
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
    write().set(name, rules, shadow, most)
}

/// Deletes policies; how many went, and the bytes for replicas and AOF if any did.
pub(crate) fn delete<'a>(names: impl Iterator<Item = &'a [u8]>) -> (i64, Vec<u8>) {
    write().delete(names)
}

/// Number of policies, and a digest of names, rules and shadow: alike on nodes that agree. Versions are
/// left out: they tell how a node got there.
pub(crate) fn summary() -> (u64, u64) {
    read().summary()
}

/// Applies the bytes of a change that was made elsewhere; false if they are malformed, and then
/// nothing has changed.
pub(crate) fn apply(bytes: &[u8]) -> bool {
    write().apply(bytes)
}

/// All policies for the RDB, with the version of the newest change. Nothing if there are none and no `keys`
/// to compare it with either, so that a file without policies and keys loads without the module.
pub(crate) fn save(keys: bool) -> Vec<u8> {
    let table = read();
    if table.policies.is_empty() && !(keys && table.version > 0) {
        return Vec::new();
    }
    let mut out = Bytes::default();
    table.encode(&mut out);
    out.as_slice().to_vec()
}

/// Takes the policies of an RDB in place of all others; false if they are malformed, and then nothing has
/// changed.
pub(crate) fn load(bytes: &[u8]) -> bool {
    bytes.is_empty() || write().replace(bytes)
}

/// Forgets all policies: an RDB, an AOF or a full sync is about to bring its own.
pub(crate) fn clear() {
    write().clear();
}

/// The change that makes any server's policies what they are here, for an AOF that begins anew; none if
/// there have never been any.
pub(crate) fn whole() -> Option<Vec<u8>> {
    let table = read();
    if table.version == 0 {
        return None;
    }
    let mut out = Bytes::default();
    out.byte(OP_ALL);
    table.encode(&mut out);
    Some(out.as_slice().to_vec())
}

impl Table {
    const fn new() -> Self {
        Self { policies: BTreeMap::new(), version: 0, counted: BTreeMap::new() }
    }

    fn set(&mut self, name: &[u8], rules: &[Rule], shadow: bool, most: u64) -> Set {
        let count = u64::try_from(self.policies.len()).unwrap_or(u64::MAX);
        match self.policies.get(name) {
            Some(old) if old.rules == rules && old.shadow == shadow => return Set::Unchanged,
            None if count >= most => return Set::Full,
            _ => {}
        }
        self.put(name, rules.to_vec(), shadow, self.version.saturating_add(1));
        let mut out = Bytes::default();
        if let Some(policy) = self.policies.get(name) {
            out.byte(OP_SET);
            encode_policy(name, policy, &mut out);
        }
        Set::Changed(out.as_slice().to_vec())
    }

    fn delete<'a>(&mut self, names: impl Iterator<Item = &'a [u8]>) -> (i64, Vec<u8>) {
        let mut gone = 0_i64;
        let mut out = Bytes::default();
        out.byte(OP_DELETE);
        for name in names {
            if self.forget(name) {
                gone = gone.saturating_add(1);
                encode_name(name, &mut out);
            }
        }
        (gone, out.as_slice().to_vec())
    }

    /// Takes a policy away, and its counters: one that is made anew under this name is another one.
    fn forget(&mut self, name: &[u8]) -> bool {
        self.counted.remove(name);
        self.policies.remove(name).is_some()
    }

    fn put(&mut self, name: &[u8], rules: Vec<Rule>, shadow: bool, version: u64) {
        let here = self.policies.get(name).map(|policy| &policy.counters);
        let counters = here.or_else(|| self.counted.get(name)).cloned().unwrap_or_default();
        let policy = Policy::new(rules, shadow, version, counters);
        self.policies.insert(name.to_vec(), Arc::new(policy));
        self.version = self.version.max(version);
    }

    fn clear(&mut self) {
        let counters = |(name, policy): (Vec<u8>, Arc<Policy>)| (name, policy.counters.clone());
        self.counted = std::mem::take(&mut self.policies).into_iter().map(counters).collect();
    }

    fn summary(&self) -> (u64, u64) {
        let count = u64::try_from(self.policies.len()).unwrap_or(u64::MAX);
        let mut digest = FNV_START;
        for (name, policy) in &self.policies {
            digest = fnv(digest, &name.len().to_le_bytes());
            digest = fnv(digest, name);
            digest = self::digest(digest, policy.shadow, &policy.rules);
        }
        // Monitoring keeps numbers as floats, which hold 53 bits exactly.
        (count, if count == 0 { 0 } else { digest >> 11 })
    }

    fn apply(&mut self, bytes: &[u8]) -> bool {
        let mut from = Reader(bytes);
        match from.byte() {
            Some(OP_SET) => match decode_policy(&mut from) {
                Some((name, rules, shadow, version)) if from.0.is_empty() => {
                    self.put(name, rules, shadow, version);
                    true
                }
                _ => false,
            },
            Some(OP_DELETE) => {
                let mut names = Vec::new();
                while !from.0.is_empty() {
                    let Some(name) = decode_name(&mut from) else { return false };
                    names.push(name);
                }
                for name in names {
                    self.forget(name);
                }
                true
            }
            Some(OP_ALL) => self.replace(from.0),
            _ => false,
        }
    }

    fn encode(&self, out: &mut Bytes) {
        out.u64(self.version);
        out.size(self.policies.len());
        for (name, policy) in &self.policies {
            encode_policy(name, policy, out);
        }
    }

    /// Takes what `encode` wrote in place of all policies. The version never falls, whatever comes: a
    /// policy of this server that is edited later must differ from all that its keys have seen.
    fn replace(&mut self, bytes: &[u8]) -> bool {
        let mut new = Self::new();
        let mut from = Reader(bytes);
        let (Some(version), Some(count)) = (decode_version(&mut from), from.size()) else {
            return false;
        };
        for _ in 0..count {
            let Some((name, rules, shadow, own)) = decode_policy(&mut from) else { return false };
            new.put(name, rules, shadow, own);
        }
        if !from.0.is_empty() || new.policies.len() != count {
            return false;
        }
        let old = std::mem::take(&mut self.policies);
        self.version = self.version.max(version);
        for (name, policy) in new.policies {
            if let Some(old) = old.get(&name) {
                self.counted.insert(name.clone(), old.counters.clone());
            }
            self.put(&name, policy.rules.clone(), policy.shadow, policy.version);
        }
        true
    }
}

const OP_SET: u8 = 1;
const OP_DELETE: u8 = 2;
const OP_ALL: u8 = 3;

fn pack_rules(rules: &[Rule], out: &mut Bytes) {
    codec::pack_head(out, rules.len(), rules.len(), Trail::default());
    for rule in rules {
        codec::pack_slot(out, &Slot { rule: *rule, state: State::Fresh });
    }
}

fn encode_name(name: &[u8], out: &mut Bytes) {
    out.size(name.len());
    out.bytes(name);
}

fn encode_policy(name: &[u8], policy: &Policy, out: &mut Bytes) {
    encode_name(name, out);
    out.byte(u8::from(policy.shadow));
    out.u64(policy.version);
    pack_rules(&policy.rules, out);
}

fn decode_name<'a>(from: &mut Reader<'a>) -> Option<&'a [u8]> {
    let len = from.size()?;
    from.take(len).filter(|name| is_name(name))
}

/// A version that leaves room: after the largest number there is, no edit could be told from the one before.
fn decode_version(from: &mut Reader<'_>) -> Option<u64> {
    from.u64().filter(|version| *version <= u64::MAX / 4)
}

fn decode_policy<'a>(from: &mut Reader<'a>) -> Option<(&'a [u8], Vec<Rule>, bool, u64)> {
    let name = decode_name(from)?;
    let shadow = match from.byte()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let version = decode_version(from)?;
    let list = codec::read_list(from)?;
    let slots = list.slots.all();
    let bare = list.asked == slots.len() && list.trail.names.is_empty();
    let fresh = slots.iter().all(|slot| slot.state == State::Fresh);
    let rules = slots.iter().map(|slot| slot.rule).collect();
    (bare && fresh).then_some((name, rules, shadow, version))
}

fn digest(start: u64, shadow: bool, rules: &[Rule]) -> u64 {
    let mut bytes = Bytes::default();
    bytes.byte(u8::from(shadow));
    pack_rules(rules, &mut bytes);
    fnv(start, bytes.as_slice())
}

/// FNV-1a, 64 bits.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::{Bucket, Fixed, Slide};

    fn fixed(limit: u64) -> Rule {
        Rule::Fixed(Fixed::new(limit, 60_000, Some(-3_600_000)).unwrap())
    }

    fn rules() -> Vec<Rule> {
        let bucket = Bucket::new(100, 7, 3_000).unwrap();
        let slide = Slide::new(5_000_000, 60_000, Some(9)).unwrap();
        vec![Rule::Token(bucket), Rule::Leaky(bucket), Rule::Slide(slide), fixed(5)]
    }

    fn changed(set: Set) -> Vec<u8> {
        match set {
            Set::Changed(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    fn delete(table: &mut Table, names: &[&[u8]]) -> (i64, Vec<u8>) {
        table.delete(names.iter().copied())
    }

    /// Everything that is copied.
    fn picture(table: &Table) -> Vec<(Vec<u8>, Vec<Rule>, bool, u64)> {
        let one = |(name, p): (&Vec<u8>, &Arc<Policy>)| {
            (name.clone(), p.rules.clone(), p.shadow, p.version)
        };
        table.policies.iter().map(one).collect()
    }

    fn filled() -> (Table, Vec<Vec<u8>>) {
        let mut table = Table::new();
        let mut sent = vec![
            changed(table.set(b"a", &rules(), false, 9)),
            changed(table.set(b"b", &[fixed(1); 16], true, 9)),
            changed(table.set(b"c", &[fixed(1)], false, 9)),
            changed(table.set(b"a", &[fixed(2)], false, 9)),
        ];
        sent.push(delete(&mut table, &[b"c", b"none"]).1);
        (table, sent)
    }

    #[test]
    fn what_is_sent_makes_a_copy() {
        let (table, sent) = filled();
        let mut copy = Table::new();
        for bytes in &sent {
            assert!(copy.apply(bytes));
        }
        assert_eq!(picture(&copy), picture(&table));
        assert_eq!(copy.summary(), table.summary());
        // Once more: the same.
        for bytes in &sent {
            assert!(copy.apply(bytes));
        }
        assert_eq!(picture(&copy), picture(&table));
    }

    #[test]
    fn the_whole_replaces_all_and_the_version_never_falls() {
        let (table, _) = filled();
        let mut bytes = Bytes::default();
        bytes.byte(OP_ALL);
        table.encode(&mut bytes);
        let mut copy = Table::new();
        for limit in 1..=9 {
            changed(copy.set(b"own", &[fixed(limit)], false, 9));
        }
        assert!(copy.apply(bytes.as_slice()));
        assert_eq!(picture(&copy), picture(&table));
        changed(copy.set(b"a", &[fixed(3)], false, 9));
        assert_eq!(copy.policies[b"a".as_slice()].version, 10);
    }

    #[test]
    fn damaged_bytes_change_nothing() {
        let (table, mut sent) = filled();
        let mut whole = Bytes::default();
        whole.byte(OP_ALL);
        table.encode(&mut whole);
        sent.push(whole.as_slice().to_vec());
        let mut copy = Table::new();
        changed(copy.set(b"own", &rules(), true, 9));
        let before = picture(&copy);
        for bytes in &sent {
            for len in 0..bytes.len() {
                // Cut between two names, a deletion is one of fewer names.
                if bytes[0] != OP_DELETE {
                    assert!(!copy.apply(&bytes[..len]), "{len} of {bytes:?}");
                }
            }
            let longer = [bytes.as_slice(), &[0]].concat();
            assert!(!copy.apply(&longer));
        }
        for bad in
            [&[][..], &[0], &[4], &[OP_SET], &[OP_DELETE, 1, b'/'], &[OP_DELETE, 0], &[0xff; 40]]
        {
            assert!(!copy.apply(bad), "{bad:?}");
        }
        // A version after which no edit could be told from the one before.
        for (largest, taken) in [(u64::MAX / 4, true), (u64::MAX / 4 + 1, false)] {
            let source = Table { version: largest, ..Table::new() };
            let mut whole = Bytes::default();
            whole.byte(OP_ALL);
            source.encode(&mut whole);
            let mut one = Bytes::default();
            one.byte(OP_SET);
            let policy = Policy::new(rules(), false, largest, Arc::default());
            encode_policy(b"a", &policy, &mut one);
            for bytes in [one, whole] {
                let mut copy = Table::new();
                assert_eq!(copy.apply(bytes.as_slice()), taken);
                changed(copy.set(b"b", &[fixed(1)], false, 9));
                assert_eq!(copy.version, if taken { largest + 1 } else { 1 });
            }
        }
        assert_eq!(picture(&copy), before);
    }

    #[test]
    fn counters_outlast_a_load_and_not_a_deletion() {
        let (mut table, _) = filled();
        let count = |table: &Table| table.policies[b"a".as_slice()].counters.allowed.load(Relaxed);
        Counters::bump(&table.policies[b"a".as_slice()].counters.allowed);
        changed(table.set(b"a", &[fixed(7)], true, 9));
        assert_eq!(count(&table), 1);
        let mut bytes = Bytes::default();
        table.encode(&mut bytes);
        table.clear();
        assert!(table.policies.is_empty());
        assert!(table.replace(bytes.as_slice()));
        assert_eq!(count(&table), 1);
        // Without a load before: an append-only file's own command.
        assert!(table.replace(bytes.as_slice()));
        assert_eq!(count(&table), 1);
        // Here, or where the primary's deletion arrives.
        let deletion = delete(&mut table, &[b"a"]).1;
        changed(table.set(b"a", &[fixed(7)], true, 9));
        assert_eq!(count(&table), 0);
        Counters::bump(&table.policies[b"a".as_slice()].counters.allowed);
        assert!(table.replace(bytes.as_slice()));
        assert_eq!(count(&table), 1);
        assert!(table.apply(&deletion));
        changed(table.set(b"a", &[fixed(7)], true, 9));
        assert_eq!(count(&table), 0);
    }

    #[test]
    fn the_digest_sees_names_rules_and_shadow_and_no_versions() {
        let digest = |names: &[&[u8]], rules: &[Rule], shadow: bool, edits: u64| {
            let mut table = Table::new();
            for limit in 1..=edits {
                changed(table.set(names[0], &[fixed(limit + 1000)], !shadow, 9));
            }
            names.iter().for_each(|name| drop(changed(table.set(name, rules, shadow, 9))));
            table.summary().1
        };
        let base = digest(&[b"a", b"b"], &rules(), false, 0);
        assert_eq!(digest(&[b"b", b"a"], &rules(), false, 3), base);
        assert!(base > 0 && base < 1 << 53);
        assert_ne!(digest(&[b"a", b"c"], &rules(), false, 0), base);
        assert_ne!(digest(&[b"a", b"b"], &rules(), true, 0), base);
        assert_ne!(digest(&[b"a", b"b"], &rules()[1..], false, 0), base);
        assert_ne!(digest(&[b"a"], &rules(), false, 0), base);
        assert_eq!(Table::new().summary(), (0, 0));
    }

    #[test]
    fn an_edition_is_another_one_for_other_versions_and_other_rules() {
        let edition = |rules: &[Rule], shadow, version| {
            Policy::new(rules.to_vec(), shadow, version, Arc::default()).edition
        };
        let all = [
            edition(&rules(), false, 1),
            edition(&rules(), false, 2),
            edition(&rules(), false, 1 << 32),
            edition(&rules(), true, 1),
            edition(&rules()[1..], false, 1),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{i}");
        }
        assert_eq!(edition(&rules(), false, 1), all[0]);
    }

    #[test]
    fn names_are_checked_to_the_byte() {
        for name in [&b"a"[..], b"A.b_c-9", &[b'z'; 64]] {
            assert!(is_name(name));
        }
        for name in [&b""[..], b"a b", b"a/b", b"a:b", b"\xc3\xa4", b"a\0", b"a\n", &[b'z'; 65]] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
