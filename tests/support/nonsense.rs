//! Words that no client should send, and what every reply to them must look like.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use redis::Value;

use super::client::{is_error, show};

/// Codes with which an error may begin: our own, and those of the server that these tests can provoke.
const CODES: &[&str] = &[
    "ERR",
    "WRONGTYPE",
    "NOPOLICY",
    "OOM",
    "READONLY",
    "EXECABORT",
    "BUSYKEY",
    "NOREPLICAS",
    "MISCONF",
    "NOSCRIPT",
];

/// How many of so many turns to take: one in `RL_SHARE`, where servers are watched and slow.
pub fn share(turns: usize) -> usize {
    turns / std::env::var("RL_SHARE").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// A reply as any reply must be: no sign of a fault, errors in ASCII with a code, decisions in range.
#[track_caller]
pub fn check(words: &[Vec<u8>], reply: &Value) {
    if let Err(why) = look(reply) {
        let shown: Vec<String> = words.iter().map(|word| brief(word)).collect();
        panic!("{why}: {} -> {}", shown.join(" "), show(reply));
    }
}

fn look(reply: &Value) -> Result<(), String> {
    if is_error(reply) {
        let text = show(reply);
        let code = text.split(' ').next().unwrap_or("");
        return if text.contains("internal error") {
            Err("a fault".into())
        } else if !text.is_ascii() || text.contains(['\r', '\n']) {
            Err("not ASCII".into())
        } else if text.len() > 1000 {
            Err("an endless error".into())
        } else if CODES.contains(&code) {
            Ok(())
        } else {
            Err(format!("the code {code}"))
        };
    }
    let Value::Array(items) = reply else { return Ok(()) };
    let numbers = super::client::ints(reply);
    if numbers.len() >= 6 {
        let [allowed, remaining, retry, reset, limit, delay, ..] = numbers[..] else {
            return Ok(());
        };
        let retry_fits = if allowed == 1 { retry == 0 } else { retry == -1 || retry >= 1 };
        if !(0..=1).contains(&allowed) || !retry_fits {
            return Err("no decision".into());
        }
        if remaining < 0 || reset < 0 || limit < 1 || delay < 0 || remaining > limit {
            return Err("out of range".into());
        }
        // No wait is longer than the settings allow: 36500 days, for a debt of one capacity twice that.
        const LONGEST_MS: i64 = 2 * 36_500 * 86_400_000 + 60_001;
        if [retry, reset, delay].iter().any(|wait| *wait > LONGEST_MS) {
            return Err("an endless wait".into());
        }
    }
    items.iter().try_for_each(look)
}

/// Makes printable what the server itself would echo as it is: an unknown subcommand, and the words of a
/// command that it hides from clients.
pub fn spare_the_server(words: &mut [Vec<u8>], hides_internal: bool) {
    let name = words[0].to_ascii_lowercase();
    let echoed = match name.as_slice() {
        b"rl.policy" => 1..words.len().min(2),
        b"rl.x" | b"rl.p" if hides_internal => 1..words.len(),
        _ => return,
    };
    for word in &mut words[echoed] {
        word.truncate(100);
        word.iter_mut().for_each(|b| *b = if b.is_ascii_graphic() { *b } else { b'?' });
    }
}

/// A word for a message: printable, and not the whole megabyte.
fn brief(word: &[u8]) -> String {
    let shown = word[..word.len().min(60)].escape_ascii().to_string();
    if word.len() > 60 {
        format!("{shown}...({} bytes)", word.len())
    } else {
        shown
    }
}

/// Random words: numbers and durations at and beyond every edge, keywords, names, bytes, masses of bytes.
pub struct Nonsense {
    pub rng: StdRng,
}

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "5",
    "10",
    "16",
    "17",
    "64",
    "65",
    "1000",
    "1001",
    "100000",
    "100001",
    "999999999999",
    "1000000000000",
    "1000000000001",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "4611686018427387904",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "-1",
    "-0",
    "-9223372036854775808",
    "+1",
    "01",
    " 1",
    "1 ",
    "1.5",
    "1e3",
    "0x10",
    "nan",
    "inf",
    "",
    "\u{0661}",
];

const DURATIONS: &[&str] = &[
    "1ms",
    "2ms",
    "999ms",
    "1000ms",
    "1s",
    "7s",
    "60s",
    "1m",
    "5m",
    "1h",
    "1d",
    "7d",
    "3650d",
    "3651d",
    "315360000000ms",
    "315360000001ms",
    "87600h",
    "0s",
    "0ms",
    "-1s",
    "-7d",
    "-8h",
    "8h",
    "80h",
    "168h",
    "169h",
    "1w",
    "1y",
    "1us",
    "1S",
    "s",
    "ms",
    "1",
    "1.5s",
    "01s",
    "+1s",
    "9223372036854775807ms",
    "9223372036854775807d",
    "18446744073709551616d",
    "99999999999999999999999999d",
];

const KEYWORDS: &[&str] = &[
    "TOKEN", "LEAKY", "SLIDE", "FIXED", "POLICY", "PER", "BLOCKS", "ALIGN", "FORCE", "COST", "AGE",
    "SHADOW", "COUNT", "RESET", "SET", "GET", "DEL", "LIST", "HELP", "token", "cOsT", "NX", "*",
    "?",
];

pub const KEYS: &[&[u8]] = &[
    b"k",
    b"j",
    b"{t}:a",
    b"{t}:b",
    b"",
    b"\0",
    b"a\0b",
    b"\xff\xfe",
    b"with space",
    b"line\r\nbreak",
    b"string",
    b"list",
    b"hash",
    b"long-key-long-key-long-key-long-key-long-key-long-key-long-key-long-key",
];

/// The four algorithms as rules that are right, at the edges of what is right.
pub const RULES: &[&str] = &[
    "TOKEN 5 1",
    "TOKEN 5 3 PER 7s",
    "TOKEN 1000000000000 1000000000000 PER 1ms",
    "TOKEN 10 1 PER 3650d",
    "TOKEN 1 1000000000000 PER 3650d",
    "TOKEN 36500 1 PER 1d",
    "LEAKY 5 1",
    "LEAKY 3 7 PER 3s",
    "LEAKY 1000000000000 1000000000000",
    "LEAKY 10 1 PER 3650d",
    "SLIDE 5 60s",
    "SLIDE 1 1ms",
    "SLIDE 100000 3650d",
    "SLIDE 1000000000000 3650d BLOCKS 1000",
    "SLIDE 5 1ms BLOCKS 1",
    "SLIDE 1000000000000 7s BLOCKS 1000",
    "SLIDE 5 60s BLOCKS 6",
    "FIXED 5 60s",
    "FIXED 1 1ms",
    "FIXED 1000000000000 3650d",
    "FIXED 5 3650d ALIGN -7d",
    "FIXED 5 1d ALIGN 8h",
    "FIXED 5 7s ALIGN 0",
    "POLICY p",
    "POLICY q",
];

const COSTS: &[&str] = &["1", "2", "5", "1000000000000", "999999999999", "100000"];

impl Nonsense {
    pub fn new(seed: u64) -> Nonsense {
        Nonsense { rng: StdRng::seed_from_u64(seed) }
    }

    fn one_of(&mut self, from: &[&str]) -> Vec<u8> {
        from.choose(&mut self.rng).expect("a word").as_bytes().to_vec()
    }

    pub fn key(&mut self) -> Vec<u8> {
        KEYS.choose(&mut self.rng).expect("a key").to_vec()
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.rng.random_range(0..=most);
        (0..length).map(|_| self.rng.random()).collect()
    }

    /// Any word; about one in 4000 has megabytes.
    pub fn word(&mut self) -> Vec<u8> {
        match self.rng.random_range(0..4000) {
            0 => vec![b'9'; self.rng.random_range(1 << 20..4 << 20)],
            1..=40 => self.bytes(2000),
            41..=400 => self.bytes(12),
            401..=1400 => self.one_of(NUMBERS),
            1401..=2200 => self.one_of(DURATIONS),
            2201..=3300 => self.one_of(KEYWORDS),
            3301..=3400 => b"p".to_vec(),
            _ => self.key(),
        }
    }

    /// A command with words that have nothing to do with it; sometimes thousands of them.
    pub fn call(&mut self, command: &str) -> Vec<Vec<u8>> {
        let count = match self.rng.random_range(0..400) {
            0 => self.rng.random_range(100..3000),
            1..=20 => self.rng.random_range(10..100),
            _ => self.rng.random_range(0..10),
        };
        let mut words = split_command(command);
        if self.rng.random_bool(0.7) {
            words.push(self.key());
        }
        words.extend((0..count).map(|_| self.word()));
        words
    }

    /// A rule that is right.
    pub fn rule(&mut self) -> Vec<Vec<u8>> {
        let rule = self.one_of(RULES);
        rule.split(|b| *b == b' ').map(<[u8]>::to_vec).collect()
    }

    /// A command in its right form, with settings at the edges.
    pub fn good_call(&mut self) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = Vec::new();
        let rules = self.rng.random_range(1..4);
        let mut add = |line: &str| words.extend(line.split(' ').map(|w| w.as_bytes().to_vec()));
        match self.rng.random_range(0..20) {
            0..=6 => {
                let rule = self.rule();
                if rule[0] == b"POLICY" {
                    add("RL.CHARGE");
                    words.push(self.key());
                    words.extend(rule);
                } else {
                    words.push([b"RL.", rule[0].as_slice()].concat());
                    words.push(self.key());
                    words.extend(rule[1..].iter().cloned());
                }
            }
            7..=9 => {
                add("RL.CHARGE");
                words.push(self.key());
                (0..rules).for_each(|_| words.extend(self.rule()));
            }
            10 | 11 => {
                add(&format!("RL.MCHARGE {rules}"));
                (0..rules).for_each(|_| words.push(self.key()));
                (0..rules).for_each(|_| words.extend(self.rule()));
            }
            12 => {
                add("RL.PEEK");
                words.push(self.key());
                (0..rules - 1).for_each(|_| words.extend(self.rule()));
            }
            13 | 14 => {
                add("RL.REFUND");
                words.push(self.key());
                if self.rng.random_bool(0.5) {
                    words.extend([b"AGE".to_vec(), self.one_of(DURATIONS)]);
                }
            }
            15 => {
                add("RL.INSPECT");
                words.push(self.key());
                return words;
            }
            16 => {
                add("RL.POLICY SET");
                words.push(self.one_of(&["p", "q", "r"]));
                (0..rules).for_each(|_| words.extend(self.rule()));
                return words;
            }
            17 => {
                add("RL.POLICY DEL");
                words.push(self.one_of(&["p", "q", "r"]));
                return words;
            }
            18 => {
                add("CL.THROTTLE");
                words.push(self.key());
                (0..3).for_each(|_| words.push(self.one_of(NUMBERS)));
            }
            _ => return ["RL.TOP", "COUNT", "10", "RESET"].map(|w| w.as_bytes().to_vec()).to_vec(),
        }
        if words[0] != b"CL.THROTTLE" {
            if self.rng.random_bool(0.25) {
                words.push(b"FORCE".to_vec());
            }
            if self.rng.random_bool(0.5) {
                words.push(b"COST".to_vec());
                words.push(self.one_of(COSTS));
            }
        }
        words
    }

    /// A right call with something wrong about it: a word lost, doubled, moved, or another in its place.
    pub fn spoil(&mut self, words: &mut Vec<Vec<u8>>) {
        for _ in 0..self.rng.random_range(1..3) {
            let at = self.rng.random_range(0..words.len());
            match self.rng.random_range(0..6) {
                0 if words.len() > 1 && at > 0 => drop(words.remove(at)),
                1 if at > 0 => words.insert(at, words[at].clone()),
                2 if at > 0 => {
                    let other = self.rng.random_range(1..words.len());
                    words.swap(at, other);
                }
                3 if at > 0 => {
                    let word = self.word();
                    words.insert(at, word);
                }
                _ if at > 0 => words[at] = self.word(),
                _ => words.push(self.word()),
            }
        }
    }
}

/// `rl.policy|set` as words.
fn split_command(name: &str) -> Vec<Vec<u8>> {
    name.split('|').map(|word| word.as_bytes().to_vec()).collect()
}
