//! The log against the plainest log there is.

use super::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The plainest log there is.
#[derive(Default)]
struct Plain(Vec<(Millis, u64)>);

impl Plain {
    fn add(&mut self, stamp: Millis, cost: u64) {
        match self.0.iter_mut().find(|e| e.0 == stamp) {
            Some(entry) => entry.1 += cost,
            None => self.0.push((stamp, cost)),
        }
        self.0.sort_unstable();
    }

    fn take_back(&mut self, from: usize, to: usize, cost: u64) {
        let mut left = cost;
        for entry in self.0[from..to].iter_mut().rev() {
            let part = left.min(entry.1);
            entry.1 -= part;
            left -= part;
        }
        self.0.retain(|e| e.1 > 0);
    }
}

fn check(log: &Log, plain: &Plain) {
    assert_eq!(log.entries().collect::<Vec<_>>(), plain.0);
    assert_eq!(log.len(), plain.0.len());
    assert_eq!(log.total(), plain.0.iter().map(|e| e.1).sum::<u64>());
    assert_eq!(log.newest(), plain.0.last().map_or(0, |e| e.0));
}

fn random_run(seed: u64, largest: u64, step: i64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut log, mut plain) = (Log::new(), Plain::default());
    let mut now = 1_900_000_000_000;
    for _ in 0..4_000 {
        now += rng.random_range(0..=step);
        let len = plain.0.len();
        match rng.random_range(0..20) {
            0..=11 => {
                let stamp = now - rng.random_range(0..=1) * rng.random_range(0..=1);
                let cost = rng.random_range(1..=largest);
                log.add(stamp, cost);
                plain.add(stamp, cost);
            }
            12..=14 => {
                let n = rng.random_range(0..=len.min(9));
                log.drop_front(n);
                plain.0.drain(..n);
            }
            15 => {
                let n = len - rng.random_range(0..=len.min(3));
                log.truncate(n);
                plain.0.truncate(n);
            }
            16 if len > 0 => {
                let cost = rng.random_range(1..=largest);
                log.grow_newest(now, cost);
                let last = plain.0.last_mut().unwrap();
                *last = (last.0.max(now), last.1 + cost);
            }
            17 => {
                let to = rng.random_range(0..=len);
                let from = rng.random_range(0..=to);
                let most: u64 = plain.0[from..to].iter().map(|e| e.1).sum();
                let cost = rng.random_range(0..=largest * 3);
                assert_eq!(log.take_back(from, to, cost), cost.min(most));
                plain.take_back(from, to, cost);
            }
            _ => {
                let at = now - rng.random_range(0..=step * 40);
                let through = plain.0.iter().filter(|e| e.0 <= at).count();
                assert_eq!(log.count_through(at), through);
                let rest: u64 = plain.0[through..].iter().map(|e| e.1).sum();
                assert_eq!(log.sum(through, len), rest);
                if rest > 0 {
                    let need = rng.random_range(1..=rest);
                    let mut sum = 0;
                    let first = plain.0[through..].iter().position(|e| {
                        sum += e.1;
                        sum >= need
                    });
                    assert_eq!(log.reaches(through, len, need), through + first.unwrap());
                }
            }
        }
        check(&log, &plain);
    }
}

#[test]
fn agrees_with_a_plain_log() {
    for seed in 0..6 {
        random_run(seed, 3, 2);
        random_run(seed, 1 << 23, 5);
        random_run(seed, 1 << 50, 1 << 37);
    }
}

/// What a log of `len` entries may take: chunks partly filled at either end come on top.
fn most_bytes(len: usize) -> usize {
    if len > store::CHUNK / 2 {
        len * 33 / 4 + 2 * size_of::<store::Chunk>() + 8 * 2 * store::STEP
    } else {
        len * 16 + 8 * 2 * store::STEP
    }
}

#[test]
fn eight_and_a_quarter_bytes_an_entry_and_memory_comes_back() {
    let mut log = Log::new();
    let check = |log: &Log| {
        let (bytes, len) = (log.heap_bytes(), log.len());
        assert!(bytes <= most_bytes(len), "{bytes} bytes for {len} entries");
    };
    for i in 0..100_000 {
        log.add(i, 1);
        check(&log);
    }
    // So no more than 8.5 at any length from 5,000 on, whatever was dropped before.
    assert!(most_bytes(5_000) * 2 <= 5_000 * 17);
    while log.len() > 7 {
        log.drop_front(7);
        check(&log);
    }
}

#[test]
fn a_wide_log_becomes_narrow_when_its_time_is_over() {
    let mut log = Log::new();
    for i in 0..1_000 {
        log.add(i, if i == 500 { NARROW_TOTAL } else { 1 });
    }
    assert!(log.wide && log.len() == 1_000);
    for i in 1_000..1_900 {
        log.add(i, 1);
        log.drop_front(1);
    }
    assert!(!log.wide && log.len() == 1_000 && log.total() == 1_000);
}

#[test]
fn counts_stop_at_two_to_the_62() {
    let mut log = Log::new();
    log.add(1, MAX_COUNT - 5);
    log.add(2, 9);
    assert_eq!(log.total(), MAX_COUNT);
    log.grow_newest(3, 1);
    log.add(4, 1);
    assert_eq!(log.entries().collect::<Vec<_>>(), [(1, MAX_COUNT - 5), (2, 5)]);
    let mut log = Log::new();
    log.add(1, MAX_COUNT - 5);
    log.grow_newest(3, 9);
    assert_eq!(log.entries().collect::<Vec<_>>(), [(3, MAX_COUNT)]);
}

#[test]
fn a_wide_log_lives_for_ever() {
    let mut log = Log::new();
    for i in 0..2_000 {
        log.add(i, MAX_COUNT >> 6);
        if log.len() > 20 {
            log.drop_front(1);
        }
        assert_eq!(log.total(), log.entries().map(|e| e.1).sum::<u64>());
    }
}

#[test]
fn a_wide_log_is_written_anew_when_its_totals_grow_too_large() {
    let mut log = Log::new();
    (0..1_000).for_each(|i| log.add(i, 1));
    log.add(1_000, NARROW_TOTAL);
    log.truncate(1);
    for i in 2_000..2_100 {
        log.add(i, MAX_COUNT >> 1);
        log.drop_front(1);
        assert_eq!(log.entries().collect::<Vec<_>>(), [(i, MAX_COUNT >> 1)]);
    }
}

#[test]
fn dropping_from_a_wide_log_costs_what_is_dropped() {
    let mut log = Log::new();
    (0..9_999).for_each(|i| log.add(i, 1));
    log.add(9_999, NARROW_TOTAL);
    let (looked_at, ()) = visits(|| {
        for i in 10_000..10_100 {
            log.add(i, 1);
            log.drop_front(1);
        }
    });
    assert!(log.wide && looked_at < 2_000, "{looked_at} entries looked at");
}
