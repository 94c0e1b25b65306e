//! Whatever clients send, under whatever clock: the server lives, replies are whole, errors are plain text.

mod model;
mod support;

use model::gen::{Options, Scenario};
use rand::seq::IndexedRandom;
use rand::Rng;
use redis::Value;
use support::client::{is_error, show, texts, Client};
use support::clock::START_US;
use support::nonsense::{check, share, spare_the_server, Nonsense, KEYS};
use support::Server;

const YEAR_US: i64 = 365 * 86_400_000_000;
const STEPS: &[i64] =
    &[1, 1000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000, YEAR_US, 10 * YEAR_US];

/// Every command of the module, as the server lists them (`rl.policy|set`), and the internal ones.
fn commands(client: &mut Client) -> Vec<String> {
    let mut names = texts(&client.ok("COMMAND LIST FILTERBY MODULE rl"));
    names.extend(["rl.x".into(), "rl.p".into()]);
    for subcommand in ["set", "get", "del", "list", "help", "nonsense"] {
        names.push(format!("rl.policy|{subcommand}"));
    }
    names.sort();
    names.dedup();
    assert!(names.len() >= 19, "{names:?}");
    names
}

/// Puts values of other types under some names.
fn foreign(client: &mut Client) {
    client.ok("SET string 5");
    client.ok("DEL list hash");
    client.ok("RPUSH list a b");
    client.ok("HSET hash f v");
}

/// Steps the clock by up to ten years in either direction, within two centuries.
fn step(server: &Server, nonsense: &mut Nonsense) {
    if nonsense.rng.random_bool(0.5) {
        return;
    }
    let step = *STEPS.choose(&mut nonsense.rng).expect("a step");
    let step = if nonsense.rng.random_bool(0.5) { step } else { -step };
    let now = server.clock.us() + step;
    let near = (START_US - 50 * YEAR_US..START_US + 150 * YEAR_US).contains(&now);
    server.clock.set(if near { now } else { START_US });
}

#[test]
fn random_words_in_every_command() {
    let mut server = Server::start();
    let mut client = server.client();
    let commands = commands(&mut client);
    let hides = server.is_redis(8, 0);
    let mut nonsense = Nonsense::new(1);
    for turn in 0..share(30_000) {
        step(&server, &mut nonsense);
        if turn % 1000 == 0 {
            foreign(&mut client);
        }
        let command = commands.choose(&mut nonsense.rng).expect("a command").clone();
        let mut words = nonsense.call(&command);
        spare_the_server(&mut words, hides);
        let reply = client.run(&words);
        check(&words, &reply);
        if command == "rl.x" || command == "rl.p" {
            assert!(is_error(&reply), "{}", show(&reply));
        }
    }
    server.assert_well();
}

/// Calls that are almost right reach deeper: most of these pass all checks but one, or all.
#[test]
fn right_calls_and_spoiled_ones() {
    let mut server = Server::start();
    let mut client = server.client();
    client.ok("RL.POLICY SET p SLIDE 5 60s BLOCKS 6 TOKEN 5 1");
    let mut nonsense = Nonsense::new(2);
    let mut passed = 0;
    for turn in 0..share(30_000) {
        step(&server, &mut nonsense);
        if turn % 1000 == 0 {
            foreign(&mut client);
        }
        let mut words = nonsense.good_call();
        if nonsense.rng.random_bool(0.4) {
            nonsense.spoil(&mut words);
            spare_the_server(&mut words, false);
        }
        let reply = client.run(&words);
        check(&words, &reply);
        passed += usize::from(!is_error(&reply));
        if turn % 100 == 0 {
            saved_is_loadable(&mut client);
        }
    }
    assert!(passed > share(5000), "only {passed} calls did anything");
    server.client().ok("DEBUG RELOAD");
    server.assert_well();
}

/// Whatever state was reached, the module takes back what it gave out.
fn saved_is_loadable(client: &mut Client) {
    for key in KEYS {
        let Value::BulkString(dump) = client.run(&[b"DUMP", *key]) else { continue };
        let reply = client.run(&[b"RESTORE".as_slice(), b"again", b"0", &dump, b"REPLACE"]);
        assert_eq!(reply, Value::Okay, "{}: {}", key.escape_ascii(), show(&reply));
        assert_eq!(client.ok("DUMP again"), Value::BulkString(dump));
        client.ok("DEL again");
    }
}

/// The same from MULTI and scripts, with calls of the kinds that applications make mixed in.
#[test]
fn nonsense_in_transactions_and_scripts() {
    let mut server = Server::start();
    let mut client = server.client();
    let mut nonsense = Nonsense::new(3);
    let mut scenario = Scenario::new(3, Options::default());
    for _ in 0..share(2000) {
        let (now, mut words) = scenario.next_call();
        server.clock.set(now);
        let mut calls = vec![words.clone()];
        nonsense.spoil(&mut words);
        spare_the_server(&mut words, false);
        calls.extend([words, nonsense.good_call()]);
        if nonsense.rng.random_bool(0.5) {
            client.ok("MULTI");
            for words in &calls {
                check(words, &client.run(words));
            }
            check(&calls[0], &client.call("EXEC"));
        } else {
            for words in &calls {
                let mut eval: Vec<Vec<u8>> =
                    [&b"EVAL"[..], b"return redis.pcall(unpack(ARGV))", b"0"]
                        .map(<[u8]>::to_vec)
                        .into();
                eval.extend(words.iter().take(4000).cloned());
                check(words, &client.run(&eval));
            }
        }
    }
    server.assert_well();
}

/// The internal commands from anybody who is not a primary: nothing happens.
#[test]
fn internal_commands_obey_no_client() {
    let server = Server::build().append_only().start();
    let replica = Server::build().replica_of(&server).start();
    let mut client = server.client();
    for line in ["RL.TOKEN k 5 1 PER 1h", "RL.SLIDE j 5 1h", "RL.POLICY SET p FIXED 1 1s"] {
        client.ok(line);
    }
    server.wait_for(&replica);
    let sent = support::stream::commands(&support::stream::aof(&server));
    let sent: Vec<_> = sent.into_iter().filter(|words| words[0].starts_with(b"rl.")).collect();
    assert_eq!(sent.len(), 3);
    // A server that hides the commands calls them unknown and echoes what they carry, which is no text.
    let readable = |word: Vec<u8>| if word.is_ascii() { word } else { b"bytes".to_vec() };
    let hidden = server.is_redis(8, 0);
    let sent: Vec<Vec<Vec<u8>>> = sent
        .into_iter()
        .map(|words| if hidden { words.into_iter().map(readable).collect() } else { words })
        .collect();
    replica.client().ok("CONFIG SET replica-read-only no");
    for node in [&server, &replica] {
        let mut client = node.client();
        let before = client.ok("DEBUG DIGEST");
        for words in &sent {
            assert!(is_error(&client.run(words)));
            client.ok("MULTI");
            client.run(words);
            let exec = client.call("EXEC");
            assert!(is_error(&exec) || show(&exec).contains("ERR"), "{}", show(&exec));
            for call in ["call", "pcall"] {
                let script = format!("return redis.{call}(unpack(ARGV))");
                let mut eval = vec![b"EVAL".to_vec(), script.into_bytes(), b"0".to_vec()];
                eval.extend(words.iter().cloned());
                let reply = client.run(&eval);
                assert!(is_error(&reply), "{}", show(&reply));
            }
        }
        assert_eq!(client.ok("DEBUG DIGEST"), before);
        assert_eq!(texts(&client.ok("RL.POLICY LIST")), ["p"]);
    }
}

/// The most memory that a server has taken, in KiB.
fn peak(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// A call of far too many rules takes hardly more memory than its words do.
#[test]
fn many_words_take_no_memory_beside_their_own() {
    let rules = share(200_000);
    let sixteen = "FIXED 1 1s ".repeat(16);
    for rule in ["POLICY w", "FIXED 1 1s"] {
        let peaks = ["NONSENSE", ""].map(|last| {
            let server = Server::start();
            let mut client = server.client();
            client.ok(&format!("RL.POLICY SET w {sixteen}"));
            let before = peak(&server);
            let line = format!("RL.CHARGE k {}{last}", format!("{rule} ").repeat(rules));
            let wanted = if last.is_empty() { "ERR rules must be 1 to 16" } else { "ERR syntax" };
            let error = client.error(line.trim());
            assert!(error.starts_with(wanted), "{rule}: {error}");
            peak(&server) - before
        });
        // With a wrong word at its end no rule is read. Nothing here may be measured to the byte.
        let [words, rules] = peaks;
        assert!(rules < words * 3 / 2 + 8_000, "{rule}: {rules} KiB, {words} for the words");
    }
}

/// Keys come and go under memory pressure while calls of every kind run.
#[test]
fn nonsense_above_maxmemory() {
    let policies = ["allkeys-lru", "volatile-ttl", "volatile-random", "allkeys-lfu", "noeviction"];
    for (number, policy) in policies.iter().enumerate() {
        let mut server = Server::build()
            .args(&format!("--maxmemory-policy {policy} --maxmemory-samples 10"))
            .start();
        let mut client = server.client();
        let mut nonsense = Nonsense::new(4 + number as u64);
        let mut refused = 0;
        for turn in 0..share(3000).max(300) {
            match turn % 300 {
                0 => {
                    let used = client.info_int("memory", "used_memory");
                    client.ok(&format!("CONFIG SET maxmemory {}", used + 20_000));
                }
                200 => drop(client.ok("CONFIG SET maxmemory 1")),
                250 => drop(client.ok("CONFIG SET maxmemory 0")),
                _ => {}
            }
            step(&server, &mut nonsense);
            let mut words = nonsense.good_call();
            if words.len() > 2 && nonsense.rng.random_bool(0.5) {
                let key = format!("key:{}", nonsense.rng.random_range(0..500));
                words[1] =
                    if words[0] == b"RL.MCHARGE" { words[1].clone() } else { key.into_bytes() };
            }
            let reply = client.run(&words);
            check(&words, &reply);
            refused += usize::from(show(&reply).starts_with("OOM"));
        }
        assert!(refused > 0, "{policy}: memory was never short");
        server.assert_well();
    }
}
