//! Random calls of every kind, from the generator that also drives the exact model: whatever they are, and
//! whatever the clocks do, every copy of a key is the same to the bit.

mod model;
mod support;

use model::gen::{Options, Scenario};
use redis::Value;
use support::client::{is_error, show, six};
use support::stream;
use support::work::{keys, pictures, policies, Picture};
use support::{until, Client, Server};

const THIRTY_SECONDS: i64 = 30_000_000;

fn calls() -> usize {
    std::env::var("RL_RANDOM_CALLS").ok().and_then(|n| n.parse().ok()).unwrap_or(4000)
}

fn many_keys() -> Options {
    Options { keys: 40, ..Options::default() }
}

/// Sends the calls of a scenario: plain, in MULTI, and from Lua.
struct Driver {
    scenario: Scenario,
    sent: usize,
}

impl Driver {
    fn new(seed: u64, options: Options) -> Driver {
        Driver { scenario: Scenario::new(seed, options), sent: 0 }
    }

    fn run(&mut self, server: &Server, client: &mut Client, calls: usize) {
        let until = self.sent + calls;
        while self.sent < until {
            let (now, words) = self.scenario.next_call();
            server.clock.set(now);
            self.sent += 1;
            // Deterministic, and every kind of call meets every kind of sender.
            match self.sent % 11 {
                3 => {
                    let mut eval = vec![
                        b"EVAL".to_vec(),
                        b"return redis.pcall(unpack(ARGV))".to_vec(),
                        b"0".to_vec(),
                    ];
                    eval.extend(words);
                    client.run(&eval);
                }
                7 => {
                    client.ok("MULTI");
                    client.run(&words);
                    // The clock stands through all of it, as in a transaction of a moment.
                    let (_, more) = self.scenario.next_call();
                    client.run(&more);
                    client.ok("SET plain 1");
                    let reply = client.call("EXEC");
                    assert!(!show(&reply).contains("internal error"), "{}", show(&reply));
                    self.sent += 1;
                }
                _ => drop(client.run(&words)),
            }
        }
    }
}

/// Compares the keys on another server; answers how many were compared by all that they have. A key that is
/// over at `now` (ms, by the other clock) is compared by digest, which needs no expiry.
#[track_caller]
fn assert_same(ours: &[Picture], other: &Server, now: i64, gone_is_fine: bool) -> usize {
    let names: Vec<String> = ours.iter().map(|picture| picture.key.clone()).collect();
    let theirs = pictures(&mut other.client(), &names);
    let mut whole = 0;
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let alive = ours.expires_at == -1 || ours.expires_at > now;
        if alive {
            assert_eq!(ours, theirs);
            whole += 1;
        } else if !(gone_is_fine && theirs.dump.is_none()) {
            assert_eq!(ours.digest, theirs.digest, "{}", ours.key);
        }
    }
    whole
}

fn picture_all(server: &Server) -> Vec<Picture> {
    let mut client = server.client();
    let names = keys(&mut client);
    pictures(&mut client, &names)
}

fn assert_nothing_refused(server: &Server) {
    server.assert_log_clean();
    let log = server.whole_log();
    for word in [" was refused", ": refused"] {
        assert!(!log.contains(word), "{}", server.log());
    }
}

#[test]
fn replicas_and_their_files() {
    let primary = Server::build().append_only().start();
    let ahead = Server::build().append_only().replica_of(&primary).start();
    let behind = Server::build().replica_of(&primary).start();
    let last = Server::build().append_only().replica_of(&behind).start();
    for replica in [&ahead, &behind] {
        primary.wait_for(replica);
    }
    let offsets = [(&ahead, THIRTY_SECONDS), (&behind, -THIRTY_SECONDS), (&last, 7_000_000)];
    let mut client = primary.client();
    let mut driver = Driver::new(101, many_keys());
    let mut compared = 0;
    for batch in 0..calls() / 100 {
        driver.run(&primary, &mut client, 100);
        for (replica, offset) in offsets {
            replica.clock.set(primary.clock.us() + offset);
        }
        if batch % 7 == 3 {
            client.ok("CLIENT KILL TYPE replica");
        }
        if batch % 2 == 1 {
            client.ok(&format!("SET end {batch}"));
            let ours = picture_all(&primary);
            for replica in [&ahead, &behind] {
                primary.wait_for(replica);
                assert_eq!(policies(&mut client), policies(&mut replica.client()));
            }
            let mut there = last.client();
            until("the end of the chain", || show(&there.call("GET end")) == batch.to_string());
            for replica in [&ahead, &behind, &last] {
                compared += assert_same(&ours, replica, replica.clock.ms(), false);
            }
        }
    }
    println!("{compared} keys were compared whole");
    assert!(compared > calls() / 100, "only {compared} keys were alive when compared");
    for mut server in [ahead, last] {
        assert_nothing_refused(&server);
        server.clock.set(primary.clock.us());
        let ours = picture_all(&primary);
        server.add_args("--replicaof no one");
        server.restart();
        assert_same(&ours, &server, server.clock.ms(), true);
        assert_nothing_refused(&server);
    }
    assert_nothing_refused(&behind);
}

/// Reload, replay at once and later and earlier, rewrite in both forms, and rewrite of what was replayed.
#[test]
fn files_in_every_form() {
    for preamble in ["yes", "no"] {
        let mut server =
            Server::build().append_only().option("aof-use-rdb-preamble", preamble).start();
        let mut client = server.client();
        let mut driver = Driver::new(102, many_keys());
        let mut compared = 0;
        for batch in 0..8 {
            driver.run(&server, &mut client, calls() / 8);
            let ours = picture_all(&server);
            let named = policies(&mut client);
            let mut latest = server.clock.ms();
            match batch % 4 {
                0 => drop(client.ok("DEBUG RELOAD")),
                1 => server.restart(),
                2 => {
                    client.ok("BGREWRITEAOF");
                    until("rewrite", || {
                        client.info_int("persistence", "aof_rewrite_in_progress") == 0
                            && client.info_int("persistence", "aof_rewrite_scheduled") == 0
                    });
                    server.restart();
                }
                _ => {
                    server.clock.advance(45_000_000);
                    latest = server.clock.ms();
                    server.restart();
                    server.clock.advance(-90_000_000);
                    server.restart();
                    server.clock.advance(45_000_000);
                }
            }
            compared += assert_same(&ours, &server, latest, true);
            client = server.client();
            assert_eq!(policies(&mut client), named);
        }
        assert!(compared > 20, "only {compared} keys were alive when compared");
        server.assert_well();
        assert_nothing_refused(&server);
    }
}

/// A value moves to another server and back by itself, without its history.
#[test]
fn dump_and_restore_elsewhere() {
    let here = Server::start();
    let there = Server::start();
    let (mut client, mut other) = (here.client(), there.client());
    let mut driver = Driver::new(103, Options { no_steps_back: true, ..many_keys() });
    let mut moved = 0;
    for _ in 0..calls() / 200 {
        driver.run(&here, &mut client, 200);
        there.clock.set(here.clock.us());
        for picture in picture_all(&here) {
            let Some(dump) = &picture.dump else { continue };
            let ttl = picture.expires_at.max(0).to_string();
            let key = picture.key.as_bytes();
            let words = [&b"RESTORE"[..], key, ttl.as_bytes(), dump, b"ABSTTL", b"REPLACE"];
            assert_eq!(other.run(&words), Value::Okay);
            assert_eq!(
                pictures(&mut other, std::slice::from_ref(&picture.key)),
                std::slice::from_ref(&picture)
            );
            // Both go on alike.
            let ask = |client: &mut Client| client.run(&[b"RL.PEEK".as_slice(), key]);
            assert_eq!(ask(&mut client), ask(&mut other), "{}", picture.key);
            moved += 1;
        }
        other.ok("FLUSHALL");
    }
    assert!(moved > 50, "only {moved} keys were alive");
}

/// In the stream a call is one command or none: one if it charged, none if it was denied and nothing else
/// was to be stored. A replica gets as many as the file.
#[test]
fn one_charge_is_one_command() {
    let server = Server::build().append_only().start();
    let mut client = server.client();
    let options = Options { no_steps_back: true, no_policies: true, no_del: true, ..many_keys() };
    let mut scenario = Scenario::new(104, options);
    let (mut written, mut charges, mut denials, mut several) = (0, 0, 0, 0);
    for _ in 0..calls() {
        let (now, words) = scenario.next_call();
        server.clock.set(now);
        let before = client.info_int("persistence", "rdb_changes_since_last_save");
        let reply = client.run(&words);
        let wrote = client.info_int("persistence", "rdb_changes_since_last_save") - before;
        let name = String::from_utf8_lossy(&words[0]).to_uppercase();
        let told = || format!("{name} wrote {wrote} times: {}", show(&reply));
        assert!((0..=1).contains(&wrote), "{}", told());
        written += wrote;
        if is_error(&reply) || name == "RL.PEEK" || name == "RL.INSPECT" {
            assert_eq!(wrote, 0, "{}", told());
        } else if name != "RL.REFUND" && name != "CL.THROTTLE" {
            let allowed = six(&reply).expect("a decision")[0];
            assert!(allowed == 0 || wrote == 1, "{}", told());
            charges += allowed;
            denials += i64::from(wrote == 0);
            several += i64::from(name == "RL.MCHARGE" && wrote == 1);
        }
    }
    let sent = stream::commands(&stream::aof(&server));
    assert_eq!(stream::count(&sent, "rl.x") as i64, written);
    // The server wraps only what goes with its own removal of an expired key.
    let removed = stream::count(&sent, "del") + stream::count(&sent, "unlink");
    assert!(stream::count(&sent, "multi") <= removed, "a call alone needs no transaction");
    assert!(charges > 500 && denials > 100 && several > 5, "{charges} {denials} {several}");
}
