//! The core alone: nanoseconds and allocations of one decision, without a server. Decide, tell the
//! rows of the reply, store, and encode what replicas get.

use divan::counter::ItemsCount;
use divan::{black_box, AllocProfiler, Bencher};
use redis_rl::limit::bytes::Bytes;
use redis_rl::limit::codec::Trail;
use redis_rl::limit::{decide, Ask, Bucket, Fixed, Limiter, Micros, Request, Rule, Slide};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const START: Micros = 1_900_000_000_000_000;
const DAY_MS: u64 = 86_400_000;

fn main() {
    divan::main();
}

/// A key's limiter and the calls made on it, at a clock that moves on a millisecond per call.
struct Caller {
    held: Option<Limiter>,
    asks: Vec<Ask>,
    now: Micros,
}

impl Caller {
    fn new(rules: &[Rule]) -> Self {
        let asks = rules.iter().map(|rule| Ask { rule: *rule, cost: 1, shadow: false }).collect();
        Self { held: None, asks, now: START }
    }

    /// A limiter of which so much is used already.
    fn used(rules: &[Rule], cost: u64) -> Self {
        let mut caller = Self::new(rules);
        caller.asks.iter_mut().for_each(|ask| ask.cost = cost);
        caller.call();
        caller.asks.iter_mut().for_each(|ask| ask.cost = 1);
        caller
    }

    fn call(&mut self) -> bool {
        self.now += 1000;
        let trail = Trail::default();
        let plain = self.asks.len() == 1;
        let request = Request { asks: &self.asks, trail, plain, force: false, max_log: 100_000 };
        let Ok(decision) = decide(self.held.as_ref(), request, self.now) else { unreachable!() };
        let pass = decision.passes();
        for row in decision.rows(pass, true) {
            black_box(row);
        }
        let Some(write) = decision.write(pass) else { return pass };
        let change = match &mut self.held {
            Some(limiter) => write.update(limiter),
            none => {
                let (limiter, change) = write.create();
                *none = Some(limiter);
                change
            }
        };
        let mut out = Bytes::default();
        if let Some(limiter) = &self.held {
            change.encode(limiter, None, &mut out);
        }
        black_box(out.as_slice());
        pass
    }

    /// Calls that all are answered so.
    fn bench(mut self, bencher: Bencher, allowed: bool) {
        assert_eq!(self.call(), allowed);
        bencher.counter(ItemsCount::new(1_usize)).bench_local(|| {
            assert_eq!(self.call(), allowed);
        });
    }
}

fn bucket(capacity: u64) -> Bucket {
    Bucket::new(capacity, 1, 10 * 3_600_000).expect("in range")
}

/// A bucket that is never empty and never as good as new.
fn deep() -> Bucket {
    Bucket::new(1_000_000_000_000, 20_000, 60_000).expect("in range")
}

fn slide(limit: u64, blocks: Option<u16>) -> Rule {
    Rule::Slide(Slide::new(limit, DAY_MS, blocks).expect("in range"))
}

fn fixed(limit: u64) -> Rule {
    Rule::Fixed(Fixed::new(limit, DAY_MS, None).expect("in range"))
}

#[divan::bench]
fn token_allowed(bencher: Bencher) {
    Caller::new(&[Rule::Token(deep())]).bench(bencher, true);
}

#[divan::bench]
fn token_denied(bencher: Bencher) {
    Caller::used(&[Rule::Token(bucket(5))], 5).bench(bencher, false);
}

#[divan::bench]
fn leaky_allowed(bencher: Bencher) {
    Caller::new(&[Rule::Leaky(deep())]).bench(bencher, true);
}

#[divan::bench]
fn leaky_denied(bencher: Bencher) {
    Caller::used(&[Rule::Leaky(bucket(5))], 5).bench(bencher, false);
}

/// The window is as long as the log: each charge drops one entry and adds one.
#[divan::bench(args = [10, 1_000, 100_000])]
fn slide_allowed(bencher: Bencher, entries: u64) {
    let rule = Rule::Slide(Slide::new(entries + 2, entries, None).expect("in range"));
    let mut caller = Caller::new(&[rule]);
    for _ in 0..entries {
        assert!(caller.call());
    }
    caller.bench(bencher, true);
}

#[divan::bench]
fn slide_denied(bencher: Bencher) {
    Caller::used(&[slide(5, None)], 5).bench(bencher, false);
}

#[divan::bench]
fn slide_blocks_allowed(bencher: Bencher) {
    Caller::new(&[slide(1_000_000_000, Some(60))]).bench(bencher, true);
}

#[divan::bench]
fn slide_blocks_denied(bencher: Bencher) {
    Caller::used(&[slide(5, Some(60))], 5).bench(bencher, false);
}

#[divan::bench]
fn fixed_allowed(bencher: Bencher) {
    Caller::new(&[fixed(1_000_000_000)]).bench(bencher, true);
}

#[divan::bench]
fn fixed_denied(bencher: Bencher) {
    Caller::used(&[fixed(5)], 5).bench(bencher, false);
}

/// TOKEN, SLIDE with blocks and FIXED on one key.
#[divan::bench]
fn charge_3_rules_allowed(bencher: Bencher) {
    Caller::new(&[Rule::Token(deep()), slide(1_000_000_000, Some(60)), fixed(1_000_000_000)])
        .bench(bencher, true);
}

#[divan::bench]
fn charge_3_rules_denied(bencher: Bencher) {
    Caller::used(&[Rule::Token(bucket(5)), slide(5, None), fixed(5)], 5).bench(bencher, false);
}
