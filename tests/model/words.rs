//! Random settings, and settings as words of a call.

use super::algorithms::{Bucket, Settings};
use super::args::check_refill;
use super::numbers::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::Rng;

/// A keyword, sometimes in lower or mixed case.
pub fn cased(rng: &mut StdRng, keyword: &str) -> Vec<u8> {
    match rng.random_range(0..10) {
        0 => keyword.to_ascii_lowercase().into_bytes(),
        1 => {
            let mixed = keyword.char_indices();
            let mixed = mixed.map(|(i, c)| if i % 2 == 0 { c } else { c.to_ascii_lowercase() });
            mixed.collect::<String>().into_bytes()
        }
        _ => keyword.as_bytes().to_vec(),
    }
}

/// A duration in one of the units that can say it.
pub fn duration(rng: &mut StdRng, ms: i64) -> Vec<u8> {
    let units = [(1, "ms"), (1000, "s"), (60_000, "m"), (3_600_000, "h"), (DAY_MS, "d")];
    let fits: Vec<_> = units.iter().filter(|(u, _)| ms % u == 0).collect();
    let (unit, name) = fits.choose(rng).expect("ms always fits");
    format!("{}{name}", ms / unit).into_bytes()
}

/// The words of settings after the algorithm.
pub fn of(rng: &mut StdRng, s: &Settings) -> Vec<Vec<u8>> {
    let number = |n: i64| n.to_string().into_bytes();
    match s {
        Settings::Token(b) | Settings::Leaky(b) => {
            let mut words = vec![number(b.capacity), number(b.rate)];
            if b.period_us != 1_000_000 || rng.random_bool(0.3) {
                words.extend([cased(rng, "PER"), duration(rng, b.period_us / 1000)]);
            }
            words
        }
        Settings::Slide { limit, window_ms, blocks } => {
            let mut words = vec![number(*limit), duration(rng, *window_ms)];
            if let Some(n) = blocks {
                words.extend([cased(rng, "BLOCKS"), number(*n)]);
            }
            words
        }
        Settings::Fixed { limit, window_ms, align_ms } => {
            let mut words = vec![number(*limit), duration(rng, *window_ms)];
            if let Some(offset) = align_ms {
                let mut word = if *offset < 0 { b"-".to_vec() } else { vec![] };
                match offset {
                    0 => word.push(b'0'),
                    _ => word.extend(duration(rng, offset.abs())),
                }
                words.extend([cased(rng, "ALIGN"), word]);
            }
            words
        }
    }
}

/// A capacity, limit or rate.
fn number(rng: &mut StdRng, small: bool) -> i64 {
    match rng.random_range(0..20) {
        0..=3 => 1,
        4..=11 => rng.random_range(1..=10),
        12..=16 => rng.random_range(1..=1000),
        _ if small => rng.random_range(1..=100),
        17 => rng.random_range(1..=MAX_NUMBER),
        18 => MAX_NUMBER - rng.random_range(0..2),
        _ => rng.random_range(1..=100_000_000),
    }
}

/// A period or window in ms.
fn span(rng: &mut StdRng, small: bool) -> i64 {
    match rng.random_range(0..20) {
        0 => 1,
        1 => rng.random_range(1..=3),
        2..=4 => rng.random_range(1..=100),
        5..=8 => 1000,
        9..=11 => rng.random_range(1..=10_000),
        12..=13 => 60_000,
        14 => 3_600_000,
        15 => rng.random_range(1..=60) * 1000,
        _ if small => rng.random_range(1..=3_600_000),
        16 => DAY_MS,
        17 => 7 * DAY_MS,
        18 => rng.random_range(1..=MAX_DURATION_MS),
        _ => MAX_DURATION_MS,
    }
}

fn blocks(rng: &mut StdRng) -> i64 {
    match rng.random_range(0..8) {
        0 => 1,
        1 => 1000,
        2 => rng.random_range(1..=1000),
        _ => rng.random_range(2..=12),
    }
}

fn offset(rng: &mut StdRng) -> i64 {
    match rng.random_range(0..5) {
        0 => 0,
        1 => 8 * 3_600_000,
        2 => 80 * 3_600_000,
        3 => -rng.random_range(1..=7 * DAY_MS),
        _ => rng.random_range(1..=7 * DAY_MS),
    }
}

/// The limit of a log: at most the default of `rl.slide-max-log`, mostly.
fn log_limit(rng: &mut StdRng, small: bool) -> i64 {
    let limit = number(rng, small);
    if rng.random_bool(0.995) {
        limit.min(100_000)
    } else {
        limit
    }
}

/// Makes a bucket keep the refill limit of 36500 days, mostly.
fn tame(rng: &mut StdRng, mut b: Bucket) -> Bucket {
    while check_refill(&b).is_err() && rng.random_bool(0.99) {
        match rng.random_range(0..3) {
            0 => b.capacity = (b.capacity / 10).max(1),
            1 => b.rate = (b.rate * 10).min(MAX_NUMBER),
            _ => b.period_us = (b.period_us / 10_000).max(1) * 1000,
        }
    }
    b
}

/// Settings of a random algorithm, from tiny to the largest.
pub fn random_settings(rng: &mut StdRng, small: bool, with_blocks: bool) -> Settings {
    match rng.random_range(0..5) {
        0 | 1 => {
            let bucket = Bucket {
                capacity: number(rng, small),
                rate: number(rng, small),
                period_us: if rng.random_bool(0.3) { 1_000_000 } else { span(rng, small) * 1000 },
            };
            let bucket = tame(rng, bucket);
            if rng.random_bool(0.5) {
                Settings::Token(bucket)
            } else {
                Settings::Leaky(bucket)
            }
        }
        2 | 3 => {
            let blocks = (with_blocks && rng.random_bool(0.5)).then(|| blocks(rng));
            let limit = if blocks.is_some() { number(rng, small) } else { log_limit(rng, small) };
            Settings::Slide { limit, window_ms: span(rng, small), blocks }
        }
        _ => Settings::Fixed {
            limit: number(rng, small),
            window_ms: span(rng, small),
            align_ms: rng.random_bool(0.5).then(|| offset(rng)),
        },
    }
}

/// A number near another one, or any.
fn near(rng: &mut StdRng, n: i64, small: bool) -> i64 {
    let new = match rng.random_range(0..6) {
        0 => n + 1,
        1 => n - 1,
        2 => n * 2,
        3 => n / 2,
        4 => n / 10,
        _ => number(rng, small),
    };
    new.clamp(1, MAX_NUMBER)
}

/// A span near another one, or any.
fn near_span(rng: &mut StdRng, ms: i64, small: bool) -> i64 {
    let new = match rng.random_range(0..6) {
        0 => ms + 1,
        1 => ms - 1,
        2 => ms * 2,
        3 => ms / 2,
        4 => ms / 3,
        _ => span(rng, small),
    };
    new.clamp(1, MAX_DURATION_MS)
}

/// Changes one number or option of settings; the algorithm stays.
pub fn change(rng: &mut StdRng, settings: &mut Settings, small: bool, with_blocks: bool) {
    let what = rng.random_range(0..3);
    match settings {
        Settings::Token(b) | Settings::Leaky(b) => {
            match what {
                0 => b.capacity = near(rng, b.capacity, small),
                1 => b.rate = near(rng, b.rate, small),
                _ => b.period_us = near_span(rng, b.period_us / 1000, small) * 1000,
            }
            *b = tame(rng, b.clone());
        }
        Settings::Slide { limit, window_ms, blocks: n } => {
            match what {
                0 => *limit = near(rng, *limit, small),
                1 => *window_ms = near_span(rng, *window_ms, small),
                _ if with_blocks => *n = (n.is_none() || rng.random_bool(0.6)).then(|| blocks(rng)),
                _ => {}
            }
            if n.is_none() && *limit > 100_000 {
                *limit = log_limit(rng, small);
            }
        }
        Settings::Fixed { limit, window_ms, align_ms } => match what {
            0 => *limit = near(rng, *limit, small),
            1 => *window_ms = near_span(rng, *window_ms, small),
            _ => *align_ms = (align_ms.is_none() || rng.random_bool(0.6)).then(|| offset(rng)),
        },
    }
}
