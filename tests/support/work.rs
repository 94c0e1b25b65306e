//! Random calls of every kind with a fixed seed, to fill a server with states worth comparing.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Client, Server};

/// A stream of command lines over a few keys per shape of limiter.
pub struct Work {
    rng: StdRng,
}

impl Work {
    pub fn new(seed: u64) -> Work {
        Work { rng: StdRng::seed_from_u64(seed) }
    }

    /// Sends `calls` commands: plain ones, in MULTI and from Lua, while the clock moves on by 0 to 2 s.
    pub fn run(&mut self, server: &Server, client: &mut Client, calls: usize) {
        let mut sent = 0;
        while sent < calls {
            server.clock.advance(self.rng.random_range(0..2_000_000));
            match self.rng.random_range(0..10) {
                0 => {
                    let lines: Vec<String> = (0..3).map(|_| self.line()).collect();
                    client.ok("MULTI");
                    for line in &lines {
                        client.ok(line);
                    }
                    whole(&client.ok("EXEC"));
                    sent += 3;
                }
                1 => {
                    let line = self.line();
                    let words: Vec<&str> = line.split(' ').collect();
                    let script = "return redis.pcall(unpack(ARGV))";
                    let mut eval = vec!["EVAL", script, "0"];
                    eval.extend(words);
                    whole(&client.run(&eval));
                    sent += 1;
                }
                _ => {
                    let line = self.line();
                    client.ok(&line);
                    sent += 1;
                }
            }
        }
    }

    /// One command line. Settings change now and then, costs are mostly small, some calls are forced,
    /// some give back, some change the key from outside.
    pub fn line(&mut self) -> String {
        let number = self.rng.random_range(0..4);
        let cost = self.rng.random_range(1..4);
        let limit = if self.rng.random_ratio(1, 12) { 12 } else { 20 };
        let force = if self.rng.random_ratio(1, 15) { " FORCE" } else { "" };
        let tail = format!("{force} COST {cost}");
        match self.rng.random_range(0..14) {
            0 => format!("RL.TOKEN token:{number} {limit} 3 PER 7s{tail}"),
            1 => format!("RL.LEAKY leaky:{number} {limit} 7 PER 3s{tail}"),
            2 => format!("RL.SLIDE slide:{number} {limit} 60s{tail}"),
            3 => format!("RL.SLIDE blocks:{number} {limit} 60s BLOCKS 7{tail}"),
            4 => format!("RL.FIXED fixed:{number} {limit} 60s{tail}"),
            5 => format!("RL.FIXED align:{number} {limit} 5m ALIGN -90s{tail}"),
            6 => format!("RL.CHARGE list:{number} SLIDE 5 10s TOKEN {limit} 1 FIXED 60 5m{force}"),
            7 => format!(
                "RL.CHARGE list:{number} SLIDE 5 10s TOKEN {limit} 1 FIXED 60 5m COST 1 0 {cost}"
            ),
            8 => format!(
                "RL.MCHARGE 2 left:{number} right:{number} SLIDE {limit} 30s LEAKY 9 1{tail}"
            ),
            9 => format!("RL.REFUND slide:{number} COST {cost}"),
            10 => format!("RL.REFUND token:{number} AGE 2s COST {cost}"),
            11 => format!("RL.PEEK list:{number}"),
            12 => format!("CL.THROTTLE cell:{number} 15 30 60 {cost}"),
            _ => match self.rng.random_range(0..6) {
                0 => format!("PEXPIRE slide:{number} 100000"),
                1 => format!("PERSIST fixed:{number}"),
                2 => format!("DEL blocks:{number}"),
                3 => format!("SET plain:{number} {cost}"),
                4 => format!("RL.SLIDE slide:{number} {limit} 90s BLOCKS 9{tail}"),
                _ => format!("COPY token:{number} copy:{number} REPLACE"),
            },
        }
    }
}

/// None of these calls is wrong: an error would mean that less is tested than it seems.
fn whole(reply: &redis::Value) {
    use super::client::{is_error, show};
    let inner = match reply {
        redis::Value::Array(items) => items.iter().any(is_error),
        other => is_error(other),
    };
    assert!(!inner, "{}", show(reply));
}

/// What a key is on a server: its bytes, its expiry and the server's own digest of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    pub key: String,
    pub digest: String,
    pub dump: Option<Vec<u8>>,
    pub expires_at: i64,
}

/// Every key of database 0, in order. DUMP and PEXPIRETIME are empty where this server takes the key for
/// expired; the digest is not.
pub fn pictures(client: &mut Client, keys: &[String]) -> Vec<Picture> {
    let picture = |key: &String| Picture {
        key: key.clone(),
        digest: super::client::show(&client.call(&format!("DEBUG DIGEST-VALUE {key}"))),
        dump: match client.call(&format!("DUMP {key}")) {
            redis::Value::BulkString(bytes) => Some(bytes),
            _ => None,
        },
        expires_at: client.int(&format!("PEXPIRETIME {key}")),
    };
    keys.iter().map(picture).collect()
}

/// The names of all keys that the server has and does not take for expired, in order.
pub fn keys(client: &mut Client) -> Vec<String> {
    let mut keys = super::client::texts(&client.call("KEYS *"));
    keys.sort();
    keys
}

/// The policies of a server with everything that is replicated: name, rules, shadow, version.
pub fn policies(client: &mut Client) -> Vec<(String, Vec<String>, i64, i64)> {
    use super::client::{entry, texts};
    let names = texts(&client.ok("RL.POLICY LIST"));
    let int = |reply: &redis::Value, field: &str| match entry(reply, field) {
        Some(redis::Value::Int(n)) => n,
        other => panic!("{field}: {other:?}"),
    };
    let one = |name: String| {
        let get = client.ok(&format!("RL.POLICY GET {name}"));
        let rules = texts(&entry(&get, "rules").expect("rules"));
        (name, rules, int(&get, "shadow"), int(&get, "version"))
    };
    names.into_iter().map(one).collect()
}

/// A few policies, some edited, some deleted.
pub fn set_policies(client: &mut Client) {
    for line in [
        "RL.POLICY SET gold TOKEN 100 10 SLIDE 1000 1h BLOCKS 60",
        "RL.POLICY SET dry FIXED 5 1d ALIGN -8h SHADOW",
        "RL.POLICY SET gone LEAKY 5 1",
        "RL.POLICY SET gold TOKEN 200 10 PER 2s",
        "RL.POLICY DEL gone",
    ] {
        client.ok(line);
    }
    for number in 0..3 {
        client.ok(&format!("RL.CHARGE policy:{number} POLICY gold POLICY dry"));
    }
}
