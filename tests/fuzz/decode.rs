//! Bytes that nobody wrote. What is taken is taken whole and gives the same bytes again, decides without a
//! panic whatever the clock says, and takes no more memory than its length allows.
//!
//! ```text
//!   0 value               the bytes of a key, without their checksum
//!   1 value               the same, with whatever checksum it ends with
//!   2 len value change    a change (rl.x) to a key that holds value; len has two bytes, low one first
//!   3 change              a change to the policies (rl.p)
//!   4 policies            the policies of an RDB
//! ```

use crate::limit::bytes::Bytes;
use crate::limit::change::{apply, Applied, Refused};
use crate::limit::codec::Trail;
use crate::limit::few::Few;
use crate::limit::inspect::{inspect, kept_rules};
use crate::limit::refund::{refund, standing, Costs};
use crate::limit::steady::Steady;
use crate::limit::time::ceil_ms;
use crate::limit::{decide, solo, Ask, Limiter, Micros, Request, MAX_RULES};
use crate::policy;

/// CRC-32C, which ends a value.
fn sealed(inner: &[u8]) -> Vec<u8> {
    let step = |c: u32, _| if c & 1 == 1 { (c >> 1) ^ 0x82f6_3b78 } else { c >> 1 };
    let sum = !inner.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step));
    [inner, &sum.to_le_bytes()].concat()
}

/// What `len` bytes may become: an entry of a log takes two bytes or more and becomes eight; a rule takes
/// three or more and becomes some hundred.
fn memory(len: usize) -> usize {
    4096 + 64 * len
}

#[cfg(fuzzing)]
use crate::alloc::at_most;

/// Without the watched allocator the fuzzer alone knows.
#[cfg(not(fuzzing))]
fn at_most<T>(_: usize, code: impl FnOnce() -> T) -> T {
    code()
}

fn saved(limiter: &Limiter) -> Vec<u8> {
    let mut bytes = Vec::new();
    limiter.encode(&mut bytes);
    bytes
}

fn load(bytes: &[u8]) -> Option<Limiter> {
    let limiter = at_most(memory(bytes.len()), || Limiter::decode(bytes))?;
    assert!(limiter.heap_bytes() <= memory(bytes.len()), "{} bytes", limiter.heap_bytes());
    assert_eq!(saved(&limiter), bytes, "other bytes than were read");
    Some(limiter)
}

pub fn run(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    match kind {
        0 => drop(load(&sealed(data)).map(use_up)),
        1 => drop(load(data).map(use_up)),
        2 => change(data),
        3 => policy_change(data),
        4 => policies(data),
        _ => {}
    }
}

fn change(data: &[u8]) {
    let Some((len, rest)) = data.split_first_chunk::<2>() else { return };
    let len = usize::from(u16::from_le_bytes(*len));
    let Some((value, bytes)) = rest.split_at_checked(len) else { return };
    let mut held = load(&sealed(value));
    if held.is_none() && len > 0 {
        return;
    }
    let before = held.as_ref().map(saved);
    let applied = at_most(memory(rest.len()), || apply(bytes, held.as_mut()));
    match applied {
        Ok(Applied { limiter, .. }) => {
            let loaded = load(&saved(&limiter)).expect("what was applied is a value");
            assert_eq!(loaded, limiter);
            // Applied once more it fits again, or is refused: never a panic.
            let mut again = limiter.clone();
            let _ = apply(bytes, Some(&mut again));
            use_up(limiter);
        }
        Err(Refused::Malformed | Refused::OtherState) => {
            assert_eq!(held.as_ref().map(saved), before, "refused, and yet changed");
        }
    }
}

fn policy_change(bytes: &[u8]) {
    policy::clear();
    let before = policy::save(true);
    if !at_most(memory(bytes.len()), || policy::apply(bytes)) {
        assert_eq!(policy::save(true), before, "refused, and yet changed");
        return;
    }
    stable_policies();
}

fn policies(bytes: &[u8]) {
    policy::clear();
    if at_most(memory(bytes.len()), || policy::load(bytes)) {
        stable_policies();
    }
}

fn stable_policies() {
    let saved = policy::save(true);
    let digest = policy::summary();
    assert_eq!(digest.0 as usize, policy::names().len());
    assert!(policy::load(&saved), "what was saved does not load");
    assert_eq!(policy::save(true), saved);
    if let Some(whole) = policy::whole() {
        assert!(policy::apply(&whole), "the whole is refused");
        assert_eq!((policy::save(true), policy::summary()), (saved, digest));
    }
}

/// Marks in values are read as times near this one, and far from it.
const NOWS: [Micros; 6] = [
    1_900_000_000_000_000,
    1_900_000_001_000_000,
    1_899_999_000_000_000,
    0,
    4_000_000_000_000_000,
    -1,
];

/// Everything that a client can do to a key that holds the value.
fn use_up(limiter: Limiter) {
    let held_at = |now: Micros, cost: u64, force: bool| {
        let mut limiter = limiter.clone();
        let rules = kept_rules(&limiter, now).expect("readable");
        inspect(&limiter, now).expect("readable");
        if rules.is_empty() {
            return;
        }
        let ask = |rule: &_| Ask { rule: *rule, cost, shadow: false };
        let asks: Vec<Ask> = rules.iter().map(ask).collect();
        let trail = Trail::default();
        let request = Request { asks: &asks, trail, plain: false, force, max_log: 50 };
        let decision = decide(Some(&limiter), request, now).expect("its own rules fit");
        let pass = decision.passes();
        let rows: Vec<_> = decision.rows(pass, true).collect();
        let write = decision.write(pass);
        if let [ask] = asks.as_slice() {
            let alone = solo::decide(Some(&limiter), ask, force, 50, now);
            // A list of one, or the rest of a longer one: only the first is solo's.
            if let Some(alone) = alone {
                assert_eq!(vec![alone.row], rows, "solo and layers disagree");
                let (mut one, mut sent) = (limiter.clone(), Bytes::default());
                assert_eq!(alone.write.is_some(), write.is_some());
                if let Some(write) = &alone.write {
                    if let Some(made) = write.apply(Some(&mut one), None, &mut sent) {
                        one = made;
                    }
                    round(&one);
                }
            }
        }
        let mut steady = Steady::<MAX_RULES>::new(request, now);
        let in_place = steady.look(Some(&limiter)).map(|passes| {
            let mut shown = Few::none();
            steady.conclude(Some(&limiter), passes, &mut shown);
            assert_eq!((shown.all(), passes), (rows.as_slice(), pass), "steady rows");
            assert_eq!(steady.charges(), write.is_some(), "steady writes");
            let (mut one, mut replica, mut sent) =
                (limiter.clone(), limiter.clone(), Bytes::default());
            if steady.charges() {
                steady.apply(&mut one, None, &mut sent);
                let applied = apply(sent.as_slice(), Some(&mut replica)).expect("fits");
                assert_eq!(applied.limiter, one, "the copy differs");
            }
            one
        });
        if let Some(write) = write {
            let mut replica = limiter.clone();
            let change = write.update(&mut limiter);
            round(&limiter);
            let mut sent = Bytes::default();
            change.encode(&limiter, None, &mut sent);
            let applied = apply(sent.as_slice(), Some(&mut replica)).expect("its own change fits");
            assert_eq!(applied.limiter, limiter, "the copy differs");
        }
        if let Some(one) = in_place {
            assert_eq!(one, limiter, "steady and layers disagree");
        }
        for moment in [None, Some(ceil_ms(now))] {
            let mut limiter = limiter.clone();
            let given = refund(&limiter, Costs(&[cost]), moment, now).expect("readable");
            if let Some(given) = given {
                if let Some(write) = given.write {
                    write.update(&mut limiter);
                    round(&limiter);
                }
                standing(&limiter, given.rules.all(), now).expect("readable");
            }
        }
    };
    for now in NOWS {
        for (cost, force) in [(1, false), (1_000_000_000_000, true)] {
            held_at(now, cost, force);
        }
    }
}

fn round(limiter: &Limiter) {
    let bytes = saved(limiter);
    let loaded = Limiter::decode(&bytes).expect("what was written is a value");
    assert_eq!(saved(&loaded), bytes);
}
