//! What the core promises, over random sequences of calls: replicas that only get changes hold the
//! same bytes, stored bytes come back the same or not at all, and a large log costs little.

use super::bytes::Bytes;
use super::change::{apply, Change, Refused};
use super::codec::Trail;
use super::log::visits;
use super::refund::{refund, Costs};
use super::time::ceil_ms;
use super::write::Write;
use super::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

pub(super) const START: Micros = 1_900_000_000_000_000;

fn request(asks: &[Ask], force: bool) -> Request<'_> {
    Request { asks, trail: Trail::default(), plain: false, force, max_log: 50 }
}

/// Stores what was decided, and returns what replicas get.
pub(super) fn store(held: &mut Option<Limiter>, write: &Write<'_>) -> Change {
    match held {
        Some(limiter) => write.update(limiter),
        None => {
            let (limiter, change) = write.create();
            *held = Some(limiter);
            change
        }
    }
}

/// Makes the call and returns (allowed, bytes for replicas).
fn call(held: &mut Option<Limiter>, asks: &[Ask], force: bool, now: Micros) -> (bool, Vec<u8>) {
    let decision = decide(held.as_ref(), request(asks, force), now).expect("fits");
    let pass = decision.passes();
    let Some(write) = decision.write(pass) else { return (pass, Vec::new()) };
    let change = store(held, &write);
    let mut out = Bytes::default();
    change.encode(held.as_ref().expect("stored"), None, &mut out);
    (pass, out.as_slice().to_vec())
}

fn payload(held: Option<&Limiter>) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(limiter) = held {
        limiter.encode(&mut out);
    }
    out
}

fn random_rule(rng: &mut SmallRng, algorithm: Algorithm) -> Rule {
    let big = rng.random_range(0..4) == 0;
    let amount = |rng: &mut SmallRng| {
        if big {
            rng.random_range(1..=MAX_AMOUNT)
        } else {
            rng.random_range(1..=9)
        }
    };
    let ms = |rng: &mut SmallRng| {
        if big {
            rng.random_range(1..=MAX_DURATION_MS)
        } else {
            rng.random_range(1..=3_000)
        }
    };
    loop {
        let (a, b, c) = (amount(rng), amount(rng), ms(rng));
        let rule = match algorithm {
            Algorithm::Token => Bucket::new(a, b, c).map(Rule::Token),
            Algorithm::Leaky => Bucket::new(a, b, c).map(Rule::Leaky),
            Algorithm::Slide => {
                let blocks = rng.random_bool(0.5).then(|| rng.random_range(1..=20));
                Slide::new(a, c, blocks).map(Rule::Slide)
            }
            Algorithm::Fixed => {
                let align = rng.random_bool(0.5).then(|| rng.random_range(-9_000..9_000));
                Fixed::new(a, c, align).map(Rule::Fixed)
            }
        };
        if let Some(rule) = rule {
            return rule;
        }
    }
}

fn random_step(rng: &mut SmallRng, now: Micros) -> Micros {
    let step = match rng.random_range(0..8) {
        0 => 0,
        1 => rng.random_range(0..2_000),
        2..=4 => rng.random_range(0..1_000_000),
        5 => rng.random_range(0..10_000_000),
        6 => -rng.random_range(0..3_000),
        _ => -rng.random_range(0..5_000_000),
    };
    now + step
}

#[test]
fn a_replica_that_gets_only_changes_holds_the_same_bytes() {
    for seed in 0..200 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let algorithms: Vec<_> =
            (0..rng.random_range(1..=4)).map(|_| Algorithm::ALL[rng.random_range(0..4)]).collect();
        let mut rules: Vec<_> = algorithms.iter().map(|a| random_rule(&mut rng, *a)).collect();
        let (mut primary, mut replica): (Option<Limiter>, Option<Limiter>) = (None, None);
        let mut now = START;
        for n in 0..150 {
            now = random_step(&mut rng, now);
            if rng.random_range(0..6) == 0 {
                let i = rng.random_range(0..rules.len());
                rules[i] = random_rule(&mut rng, algorithms[i]);
            }
            let asked = rng.random_range(1..=rules.len());
            let bytes = if rng.random_range(0..8) == 0 {
                give_back(&mut primary, &mut rng, now)
            } else {
                let asks: Vec<_> = rules[..asked]
                    .iter()
                    .map(|rule| {
                        let cost = rng.random_range(0..=rule.limit().min(5));
                        Ask { rule: *rule, cost, shadow: false }
                    })
                    .collect();
                call(&mut primary, &asks, rng.random_bool(0.2), now).1
            };
            if !bytes.is_empty() {
                let applied = apply(&bytes, replica.as_mut()).expect("fits");
                replica = Some(applied.limiter);
            }
            let (a, b) = (payload(primary.as_ref()), payload(replica.as_ref()));
            assert_eq!(a, b, "seed {seed}, call {n}");
            assert_eq!(payload(Limiter::decode(&a).as_ref()), a, "seed {seed}, call {n}");
        }
    }
}

fn give_back(held: &mut Option<Limiter>, rng: &mut SmallRng, now: Micros) -> Vec<u8> {
    let Some(limiter) = held else { return Vec::new() };
    let moment = rng.random_bool(0.5).then(|| ceil_ms(now) - rng.random_range(0..2_000));
    let costs = [rng.random_range(1..=6)];
    let Some(refund) = refund(limiter, Costs(&costs), moment, now).expect("reads") else {
        return Vec::new();
    };
    let Some(write) = refund.write else { return Vec::new() };
    let change = write.update(limiter);
    let mut out = Bytes::default();
    change.encode(limiter, None, &mut out);
    out.as_slice().to_vec()
}

#[test]
fn a_change_to_another_log_is_refused_and_changes_nothing() {
    let rule = Rule::Slide(Slide::new(9, 60_000, None).unwrap());
    let ask = [Ask { rule, cost: 1, shadow: false }];
    let mut primary = None;
    call(&mut primary, &ask, false, START);
    let (_, bytes) = call(&mut primary, &ask, false, START + 5_000);
    assert_eq!(apply(&bytes, None).err(), Some(Refused::OtherState));
    let mut other = None;
    call(&mut other, &ask, false, START + 1_000);
    let before = payload(other.as_ref());
    assert_eq!(apply(&bytes, other.as_mut()).err(), Some(Refused::OtherState));
    assert_eq!(payload(other.as_ref()), before);
    for cut in 0..bytes.len() {
        assert!(apply(&bytes[..cut], primary.clone().as_mut()).is_err());
    }
}

#[test]
fn damaged_payloads_are_refused_or_come_back_as_they_are() {
    let mut rng = SmallRng::seed_from_u64(7);
    for seed in 0..60 {
        let algorithm = Algorithm::ALL[seed % 4];
        let rule = random_rule(&mut rng, algorithm);
        let mut held = None;
        for i in 0..5 {
            let ask = [Ask { rule, cost: 1, shadow: false }];
            call(&mut held, &ask, true, START + i * 3_000);
        }
        let good = payload(held.as_ref());
        for cut in 0..good.len() {
            assert!(Limiter::decode(&good[..cut]).is_none());
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Limiter::decode(&bad).is_none());
        }
    }
}

/// A log of 100,000 entries, a millisecond apart.
fn large_log(blocks: Option<u16>) -> (Rule, Option<Limiter>, Micros) {
    let rule = Rule::Slide(Slide::new(100_000, 3_600_000, blocks).unwrap());
    let mut held = None;
    let mut now = START;
    for _ in 0..100_000 {
        now += 1_000;
        let (pass, _) = call(&mut held, &[Ask { rule, cost: 1, shadow: false }], false, now);
        assert!(pass);
    }
    (rule, held, now)
}

/// Calls of cost 1 and cost = limit on the log, allowed, denied and peeked: entries visited and
/// bytes sent, amortised over `n` calls from `now` on.
fn cost_of(
    rule: Rule,
    held: &mut Option<Limiter>,
    now: Micros,
    n: i64,
    cost: u64,
) -> (usize, usize) {
    let asks = [Ask { rule, cost, shadow: false }];
    let (visited, sent) = visits(|| {
        let mut most = 0;
        for i in 0..n {
            let now = now + i * 1_000;
            let peek = decide(held.as_ref(), request(&asks, false), now).expect("fits");
            std::hint::black_box(peek.rows(peek.passes(), false).count());
            most = most.max(call(held, &asks, false, now).1.len());
        }
        most
    });
    // A peek and a call each.
    (visited / usize::try_from(2 * n).unwrap(), sent)
}

#[test]
fn a_large_log_costs_little() {
    for blocks in [None, Some(1000)] {
        for cost in [1, 100_000] {
            // All live: denied.
            let (rule, held, now) = large_log(blocks);
            let (visited, sent) = cost_of(rule, &mut held.clone(), now, 1_000, cost);
            assert!(visited <= 40, "denied: {visited} entries");
            assert_eq!(sent, 0);
            // Asked for in another shape: a shorter window reads only its own part.
            for new in [None, Some(100), Some(3)].into_iter().filter(|new| *new != blocks) {
                let rule = Rule::Slide(Slide::new(10, 100, new).unwrap());
                let asks = [Ask { rule, cost, shadow: false }];
                let (visited, pass) = visits(|| {
                    decide(held.as_ref(), request(&asks, false), now).expect("fits").passes()
                });
                assert!(!pass && visited <= 5_000, "another shape: {visited} entries");
            }
            // Leaving one by one, an entry each millisecond: allowed at cost 1.
            let (visited, sent) = cost_of(rule, &mut held.clone(), now + 3_500_000_000, 100_000, 1);
            assert!(visited <= 40, "sliding: {visited} entries");
            assert!(sent <= 64, "sliding: {sent} bytes");
            // All over, not trimmed: allowed, and then denied again.
            let later = now + 4_000_000_000;
            let (visited, sent) = cost_of(rule, &mut held.clone(), later, 1_000, cost);
            assert!(visited <= 40, "all over: {visited} entries");
            assert!(sent <= 64, "all over: {sent} bytes");
            let small = {
                let mut held = held.clone();
                call(&mut held, &[Ask { rule, cost, shadow: false }], false, later);
                held.unwrap().heap_bytes()
            };
            assert!(small < 400, "memory comes back: {small} bytes");
            // Given back: of the newest, and of one with ten after it.
            for moment in [None, Some(ceil_ms(now) - 10)] {
                let mut held = held.clone();
                let limiter = held.as_mut().expect("a log");
                let (visited, gone) = visits(|| {
                    let refund = refund(limiter, Costs(&[1]), moment, now).expect("reads");
                    let write = refund.expect("a limiter").write.expect("something to give back");
                    write.update(limiter);
                    write.charged
                });
                assert!(gone && visited <= 150, "given back: {visited} entries");
            }
        }
    }
    // Building it up.
    let (visited, _) = visits(|| large_log(None));
    assert!(visited / 100_000 <= 40, "building: {} entries", visited / 100_000);
}

#[test]
fn a_replica_follows_a_large_log_at_little_cost() {
    for blocks in [None, Some(1000)] {
        let (rule, mut primary, now) = large_log(blocks);
        let mut replica = primary.clone();
        let ask = [Ask { rule, cost: 1, shadow: false }];
        // Half have left; four calls in each millisecond, so that most grow the newest entry.
        let later = now + 3_550_000_000;
        let mut both = |now| {
            let (pass, bytes) = call(&mut primary, &ask, false, now);
            assert!(pass);
            let applied = apply(&bytes, replica.as_mut()).expect("fits");
            replica = Some(applied.limiter);
        };
        // The first one drops that half at once: those entries have paid for it.
        both(later);
        let (visited, ()) = visits(|| (4..4_004).for_each(|i| both(later + i / 4 * 1_000)));
        // Both sides together.
        assert!(visited / 4_000 <= 80, "{} entries a call", visited / 4_000);
        assert_eq!(payload(primary.as_ref()), payload(replica.as_ref()));
    }
}

#[test]
fn bytes_of_a_small_limiter_need_no_block_of_their_own() {
    let rules = [
        Rule::Token(Bucket::new(1_000_000, 1_000_000, 86_400_000).unwrap()),
        Rule::Leaky(Bucket::new(100, 10, 1_000).unwrap()),
        Rule::Fixed(Fixed::new(1_000_000, 86_400_000, Some(28_800_000)).unwrap()),
    ];
    for rule in rules {
        let mut held = None;
        call(&mut held, &[Ask { rule, cost: 7, shadow: false }], false, START);
        assert_eq!(held.unwrap().heap_bytes(), 0, "{rule:?}");
    }
    assert_eq!(size_of::<Limiter>(), 32);
}

#[test]
fn a_ttl_is_set_an_eighth_of_a_full_reset_ahead() {
    let bucket = Bucket::new(80, 1, 1_000).unwrap();
    let slide = Slide::new(5, 80_000, None).unwrap();
    for rule in [Rule::Token(bucket), Rule::Leaky(bucket)] {
        assert_eq!((rule.full_reset_ms(), change::slack_ms(&rule)), (80_000, 10_000));
    }
    let slide = Rule::Slide(slide);
    assert_eq!(change::slack_ms(&slide), slide.full_reset_ms() / 8);
    // The end of a fixed window does not move.
    assert_eq!(change::slack_ms(&Rule::Fixed(Fixed::new(5, 80_000, None).unwrap())), 0);
}
