//! Random calls on a live server under a set clock, each compared with an exact rational model that
//! was written from the contract alone: replies, what was written, and the bounds of the TTL.

mod model;
mod support;

use model::gen::{Options, Scenario};
use model::{same_error, Model, Reply};
use redis::Value;
use support::client::{error, ints, layers, show, six, Client};
use support::server::Server;

/// Calls per scenario, and the share of the whole that `RL_RANDOM_CALLS` may set.
fn calls() -> usize {
    std::env::var("RL_RANDOM_CALLS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000)
}

fn agrees(expected: &Reply, got: &Value) -> bool {
    match expected {
        Reply::Six(row) => six(got) == Some(*row) && layers(got).is_none(),
        Reply::Layers(row, rows) => six(got) == Some(*row) && layers(got).as_ref() == Some(rows),
        Reply::Five(row) => ints(got) == row.to_vec(),
        Reply::Null => *got == Value::Nil,
        Reply::Error(text) => error(got).is_some_and(|got| same_error(text, &got)),
        Reply::Ok => show(got) == "OK",
        Reply::Int(n) => *got == Value::Int(*n),
        _ => true,
    }
}

fn changes(client: &mut Client) -> i64 {
    client.info_int("persistence", "rdb_changes_since_last_save")
}

struct Run {
    server: Server,
    client: Client,
    model: Model,
    scenario: Scenario,
    recent: Vec<String>,
}

impl Run {
    fn new(seed: u64, options: Options) -> Self {
        // The model forgets a key only when it is told to: nothing may expire behind its back.
        let server = Server::start();
        let client = server.client();
        let scenario = Scenario::new(seed, options);
        Run { server, client, model: Model::new(), scenario, recent: Vec::new() }
    }

    /// Keys that the server has expired are gone from the model too.
    fn forget_expired(&mut self) {
        for key in self.scenario.keys() {
            let known = self.model.keys.contains_key(&key);
            if known && self.client.run(&[b"EXISTS".as_slice(), &key]) == Value::Int(0) {
                self.model.del(&key);
                self.scenario.del(&key);
            }
        }
    }

    fn step(&mut self, n: usize, look_at_writes: bool) {
        let (now, words) = self.scenario.next_call();
        self.server.clock.set(now);
        self.forget_expired();
        let before = if look_at_writes { changes(&mut self.client) } else { 0 };
        let got = self.client.run(&words);
        let borrowed: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let expected = self.model.call(now, &borrowed);
        let line: Vec<_> = words.iter().map(|w| String::from_utf8_lossy(w).into_owned()).collect();
        self.recent.push(format!("@{now} {} -> {}", line.join(" "), show(&got)));
        if self.recent.len() > 400 {
            self.recent.remove(0);
        }
        let told = |why: String| {
            format!("call {n}: {why}\n  expected {expected:?}\n{}", self.recent.join("\n"))
        };
        assert!(agrees(&expected, &got), "{}", told("another reply".into()));
        if look_at_writes {
            let wrote = changes(&mut self.client) > before;
            assert_eq!(wrote, self.model.wrote_last(), "{}", told("written or not".into()));
            if wrote {
                self.check_ttls(now, n);
            }
        }
    }

    fn check_ttls(&mut self, now: i64, n: usize) {
        let wrote: Vec<_> = self.scenario.keys();
        for key in wrote {
            let (Some((least, most)), Value::Int(ttl)) =
                (self.model.bounds(&key, now), self.client.run(&[b"PTTL".as_slice(), &key]))
            else {
                continue;
            };
            let last = self.recent.last().cloned().unwrap_or_default();
            let name = String::from_utf8_lossy(&key).into_owned();
            // Only the key just written is bound to fit; others are checked from below.
            assert!(ttl >= least, "call {n}: PTTL {name} is {ttl}, not {least} to {most}: {last}");
            if last.contains(&name) {
                assert!(
                    ttl <= most,
                    "call {n}: PTTL {name} is {ttl}, not {least} to {most}: {last}"
                );
            }
        }
    }
}

fn run(seed: u64, options: Options, look_at_writes: bool) {
    let mut run = Run::new(seed, options);
    for n in 0..calls() {
        run.step(n, look_at_writes);
    }
    run.server.assert_well();
}

#[test]
fn plain_commands_agree_with_the_model() {
    run(1, Options::plain(), false);
}

#[test]
fn all_commands_agree_with_the_model() {
    run(2, Options::default(), false);
}

#[test]
fn writes_and_ttls_agree_with_the_model() {
    run(3, Options { no_steps_back: true, ..Options::default() }, true);
}
