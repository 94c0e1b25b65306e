//! Calls made of bytes: each byte chooses, so that every input is a scenario without errors of syntax, and
//! a small change of the input is a small change of the scenario.

use crate::pair::{Pair, Words};

const AMOUNTS: [u64; 12] =
    [1, 2, 3, 5, 7, 10, 50, 1000, 100_000, 5_000_000, 999_999_999_999, 1_000_000_000_000];
const SPANS: [&str; 12] =
    ["1ms", "2ms", "7ms", "100ms", "1s", "1001ms", "7s", "1m", "1h", "1d", "7d", "3650d"];
const OFFSETS: [&str; 6] = ["0", "8h", "-5h", "80h", "7d", "-1ms"];
const STEPS_US: [i64; 12] = [
    1,
    999,
    1_000,
    1_001,
    500_000,
    1_000_000,
    6_999_999,
    60_000_000,
    3_600_000_000,
    86_400_000_000,
    -1,
    -1_001,
];
const BACK_US: [i64; 4] = [1_000, 1_000_000, 3_600_000_000, 315_360_000_000_000];
const POLICIES: [&str; 3] = ["p", "Q_1", "s.h-a"];
const KEYS: u8 = 3;
/// Longer scenarios find nothing that shorter ones do not.
const MOST_CALLS: usize = 120;

/// The bytes; 0 beyond their end.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, n: u8) -> usize {
        usize::from(self.byte() % n)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    /// The words of a rule after its keyword.
    fn settings(&mut self, algorithm: usize) -> Words {
        let (first, second) = (self.one_of(&AMOUNTS), self.byte());
        let span = |byte: u8| SPANS[usize::from(byte) % SPANS.len()].to_owned();
        let (second, option) = match algorithm {
            0 | 1 => {
                let rate = AMOUNTS[usize::from(second) % AMOUNTS.len()].to_string();
                (rate, Some(("PER", self.one_of(&SPANS).to_owned())))
            }
            2 => {
                let blocks = self.byte();
                let blocks = match blocks % 4 {
                    0 => None,
                    1 => Some(1),
                    2 => Some(1000),
                    _ => Some(u32::from(blocks >> 2) + 1),
                };
                (span(second), blocks.map(|n| ("BLOCKS", n.to_string())))
            }
            _ => {
                let offset = self.below(1 + OFFSETS.len() as u8);
                (span(second), OFFSETS.get(offset).map(|offset| ("ALIGN", (*offset).to_owned())))
            }
        };
        let mut words = vec![first.to_string().into_bytes(), second.into_bytes()];
        if let Some((keyword, value)) = option {
            words.extend([keyword.into(), value.into_bytes()]);
        }
        words
    }
}

const ALGORITHMS: [&str; 4] = ["TOKEN", "LEAKY", "SLIDE", "FIXED"];

/// The rules that a scenario chooses from, each with its keyword.
struct Palette(Vec<Words>);

impl Palette {
    fn rule(source: &mut Source<'_>) -> Words {
        let algorithm = source.below(4);
        let mut words = vec![ALGORITHMS[algorithm].into()];
        words.extend(source.settings(algorithm));
        words
    }

    /// Other settings of the same algorithm.
    fn change(&mut self, source: &mut Source<'_>) {
        let at = source.below(self.0.len() as u8);
        let rule = &mut self.0[at];
        let algorithm = ALGORITHMS.iter().position(|a| a.as_bytes() == rule[0]).unwrap_or(0);
        rule.truncate(1);
        rule.extend(source.settings(algorithm));
    }

    /// One to four rules that follow each other in the palette, or a policy before them. Always the same
    /// for the same byte, so that a key sees the same list again.
    fn list(&self, choice: u8) -> (Words, usize) {
        let (from, count) = (usize::from(choice >> 4), usize::from(choice & 3) + 1);
        let mut words = Vec::new();
        if choice & 12 == 12 {
            words.extend(["POLICY".into(), POLICIES[from % POLICIES.len()].into()]);
        }
        for i in from..from + count {
            words.extend(self.0[i % self.0.len()].iter().cloned());
        }
        (words, count)
    }
}

fn key(source: &mut Source<'_>) -> Vec<u8> {
    vec![b'a' + source.byte() % KEYS]
}

/// FORCE and COST.
fn tail(source: &mut Source<'_>, force: bool, rules: usize) -> Words {
    let choice = source.byte();
    let mut words = Vec::new();
    if force && choice & 15 == 15 {
        words.push("FORCE".into());
    }
    match choice >> 4 {
        0..=5 => {}
        6..=12 => words.extend(["COST".into(), source.one_of(&AMOUNTS).to_string().into()]),
        _ => {
            words.push("COST".into());
            let costs = [0, 1, 1, 2, 3, 5, 50, 1_000_000_000_000_u64];
            words.extend((0..rules).map(|_| source.one_of(&costs).to_string().into_bytes()));
        }
    }
    words
}

pub fn run(data: &[u8]) {
    let mut source = Source(data);
    let max_log = source.one_of(&[5, 50, 100_000]);
    let mut pair = Pair::new(max_log);
    let mut palette = Palette((0..4).map(|_| Palette::rule(&mut source)).collect());
    for _ in 0..MOST_CALLS {
        if source.0.is_empty() {
            break;
        }
        clock(&mut source, &mut pair);
        let words = match source.byte() % 32 {
            0 => return_nothing(|| palette.change(&mut source)),
            1 => return_nothing(|| pair.expire()),
            2 => return_nothing(|| pair.reload()),
            3 => return_nothing(|| pair.rewrite()),
            4 => return_nothing(|| pair.delete(&key(&mut source))),
            5 => {
                let name = source.one_of(&POLICIES);
                let (rules, _) = palette.list(source.byte() & !12);
                let mut words: Words = vec!["RL.POLICY".into(), "SET".into(), name.into()];
                words.extend(rules);
                words.extend((source.byte() & 1 == 1).then(|| "SHADOW".into()));
                words
            }
            6 => vec!["RL.POLICY".into(), "DEL".into(), source.one_of(&POLICIES).into()],
            7 => vec!["RL.POLICY".into(), "GET".into(), source.one_of(&POLICIES).into()],
            8 => vec!["RL.INSPECT".into(), key(&mut source)],
            9 => vec!["RL.PEEK".into(), key(&mut source)],
            10 | 11 => {
                let mut words = vec!["RL.PEEK".into(), key(&mut source)];
                let (rules, count) = palette.list(source.byte());
                words.extend(rules);
                words.extend(tail(&mut source, false, count));
                words
            }
            12..=14 => {
                let mut words = vec!["RL.REFUND".into(), key(&mut source)];
                let choice = source.byte();
                if choice & 1 == 1 {
                    words.extend(["AGE".into(), source.one_of(&SPANS).into()]);
                }
                words.extend(tail(&mut source, false, usize::from(choice >> 1 & 3) + 1));
                words
            }
            15 => {
                let choice = source.byte();
                let mut words: Words =
                    vec!["RL.MCHARGE".into(), "2".into(), "a".into(), "b".into()];
                for half in [choice & 0xf0, choice << 4] {
                    words.extend(palette.list(half).0);
                }
                words.extend(tail(&mut source, true, 2));
                words
            }
            16 => {
                let mut words: Words = vec!["CL.THROTTLE".into(), key(&mut source)];
                words.extend((0..4).map(|_| source.one_of(&AMOUNTS[..8]).to_string().into_bytes()));
                words
            }
            17..=24 => {
                let mut words = vec!["RL.CHARGE".into(), key(&mut source)];
                let (rules, count) = palette.list(source.byte());
                words.extend(rules);
                words.extend(tail(&mut source, true, count));
                words
            }
            _ => {
                let key = key(&mut source);
                let mut rule = palette.list(source.byte() & 0xf0).0;
                let name = [b"RL.".as_slice(), &rule.remove(0)].concat();
                let mut words = vec![name, key];
                words.extend(rule);
                words.extend(tail(&mut source, true, 1));
                words
            }
        };
        if !words.is_empty() {
            pair.call(&words);
        }
    }
}

fn return_nothing(act: impl FnOnce()) -> Words {
    act();
    Words::new()
}

/// Mostly the clock stands, or goes to the edge of a wait.
fn clock(source: &mut Source<'_>, pair: &mut Pair) {
    let choice = source.byte();
    match choice >> 4 {
        0..=5 => {}
        6..=9 => {
            let wait = pair.waits.get(usize::from(choice & 3)).or(pair.waits.first());
            let beside = [0, -1, -1_000, 1][usize::from(choice >> 2 & 3)];
            pair.move_clock(wait.map_or(0, |ms| ms.saturating_mul(1000).saturating_add(beside)));
        }
        10..=14 => pair.move_clock(STEPS_US[usize::from(choice) % STEPS_US.len()]),
        _ => pair.move_clock(-BACK_US[usize::from(choice) % BACK_US.len()]),
    }
}
