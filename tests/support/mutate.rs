//! Bytes that a value or a change could be: near misses, and the module's own grammar filled with extremes.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::Rng;

/// Numbers at which arithmetic breaks.
const EDGES: &[u64] = &[
    0,
    1,
    2,
    3,
    127,
    128,
    999,
    1000,
    1001,
    65_535,
    65_536,
    1_000_000_000_000,
    1_000_000_000_001,
    315_360_000_000,
    315_360_000_001,
    1 << 31,
    1 << 52,
    (1 << 53) + 1,
    1 << 62,
    (1 << 62) + 1,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// A number as the module writes it: seven bits a byte, low ones first.
pub fn leb(mut value: u128) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn edge(rng: &mut StdRng) -> Vec<u8> {
    match rng.random_range(0..20) {
        0 => leb(u128::MAX >> rng.random_range(0..64)),
        1 => vec![0x80; rng.random_range(1..12)],
        2..=6 => leb(u128::from(rng.random_range(0..2000_u64))),
        // Times near those of the tests, in ms and in us, as signed numbers are written.
        7 => leb(2 * 1_899_936_000_000 + u128::from(rng.random_range(0..4_000_000_u64))),
        8 => leb(2 * 1_899_936_000_000_000 + u128::from(rng.random_range(0..4_000_000_000_u64))),
        _ => leb(u128::from(*EDGES.choose(rng).expect("a number"))),
    }
}

/// Where the numbers of a text begin, if all of it were numbers.
fn numbers(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut from = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte < 0x80 {
            found.push((from, at + 1));
            from = at + 1;
        }
    }
    found
}

/// One to four changes; numbers are replaced whole, so that what follows them keeps its place.
pub fn mutate(rng: &mut StdRng, original: &[u8], donor: &[u8]) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..rng.random_range(1..5) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..12) {
            0..=5 => {
                let Some((from, to)) = numbers(&bytes).choose(rng).copied() else { continue };
                bytes.splice(from..to, edge(rng));
            }
            6 => bytes[at] ^= 1 << rng.random_range(0..8),
            7 => bytes[at] = rng.random(),
            8 => bytes.truncate(at),
            9 => bytes.insert(at, rng.random_range(0..16)),
            10 => drop(bytes.remove(at)),
            _ => {
                let from = rng.random_range(0..=donor.len());
                bytes.truncate(at);
                bytes.extend(&donor[from..]);
            }
        }
    }
    bytes
}

/// A list of rules in the module's grammar, every number an edge, with the logs that it needs.
pub fn value(rng: &mut StdRng) -> Vec<u8> {
    let count = if rng.random_bool(0.6) { 1 } else { rng.random_range(2..5) };
    let mut bytes = list_head(count, rng);
    let mut logs = 0;
    (0..count).for_each(|_| logs += rule(rng, &mut bytes));
    (0..logs).for_each(|_| log(rng, &mut bytes));
    bytes
}

fn list_head(count: u8, rng: &mut StdRng) -> Vec<u8> {
    if count == 1 {
        vec![0x10]
    } else {
        vec![0x11, count, rng.random_range(1..=count)]
    }
}

/// A capacity, limit or rate that is mostly in range.
fn amount(rng: &mut StdRng) -> u64 {
    const SOME: &[u64] =
        &[1, 1, 2, 5, 1000, 999_999_999_999, 1_000_000_000_000, 1_000_000_000_001, 0];
    *SOME.choose(rng).expect("one")
}

fn span_ms(rng: &mut StdRng) -> u64 {
    const SOME: &[u64] = &[1, 2, 1000, 60_000, 86_400_000, 315_360_000_000, 315_360_000_001];
    *SOME.choose(rng).expect("one")
}

/// A time in microseconds: near those of the tests, or where arithmetic breaks.
fn mark(rng: &mut StdRng) -> u64 {
    match rng.random_range(0..3) {
        0 => 1_899_936_000_000_000 + rng.random_range(0..4_000_000_000),
        1 => (1_899_936_000_000_000 - rng.random_range(0..4_000_000_000_i64)).cast_unsigned(),
        _ => *EDGES.choose(rng).expect("one"),
    }
}

/// One rule with a state: tag, sizes of four numbers, the numbers, and what follows. Answers how many logs
/// it owns.
fn rule(rng: &mut StdRng, out: &mut Vec<u8>) -> usize {
    const STATE: u8 = 4;
    const OPTION: u8 = 8;
    const WIDE: u8 = 16;
    let algorithm = rng.random_range(0..4_u8);
    let (option, wide) = (rng.random_bool(0.4), algorithm < 2 && rng.random_bool(0.2));
    let a = amount(rng);
    let most = 1_u64 << rng.random_range(0..41);
    let few = rng.random_range(0..=most);
    let some = if rng.random_bool(0.8) { few } else { *EDGES.choose(rng).expect("one") };
    let (b, c, d) = match algorithm {
        0 | 1 => (amount(rng), span_ms(rng), some),
        2 => (span_ms(rng), if option { few % 1002 } else { 0 }, 0),
        _ => (span_ms(rng), if option { few % 1_300_000_000 } else { 0 }, some),
    };
    let numbers = [a, b, c, d].map(|n| {
        let bytes = n.to_le_bytes();
        bytes[..8 - n.leading_zeros() as usize / 8].to_vec()
    });
    let size = |n: usize| numbers[n].len() as u8;
    let flags = STATE | if option { OPTION } else { 0 } | if wide { WIDE } else { 0 };
    out.extend([algorithm | flags, size(0) | size(1) << 4, size(2) | size(3) << 4]);
    numbers.iter().for_each(|number| out.extend(number));
    if algorithm == 2 {
        return 1;
    }
    out.extend(mark(rng).to_le_bytes());
    if wide {
        out.extend(rng.random_range(0..1_u64 << 30).to_le_bytes());
    }
    if option && algorithm < 2 {
        out.extend(edge(rng));
    }
    0
}

fn log(rng: &mut StdRng, out: &mut Vec<u8>) {
    let entries = rng.random_range(1..5_u8);
    out.push(entries);
    for number in 0..entries {
        out.extend(if number == 0 {
            edge(rng)
        } else {
            leb(2 * u128::from(rng.random_range(1..9_u8)))
        });
        out.extend(if rng.random_bool(0.7) {
            leb(u128::from(rng.random_range(1..9_u8)))
        } else {
            edge(rng)
        });
    }
}
