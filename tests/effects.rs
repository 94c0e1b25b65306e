//! A denial, a peek and an error leave no trace anywhere; an allowed call leaves exactly one.

mod support;

use redis::Value;
use support::client::{error, events, show, text, texts, Client};
use support::stream::{self, aof, names};
use support::{until, Server};

/// One way to write a limiter that is used up by `charges` calls and says no from then on.
struct Limiter {
    name: &'static str,
    charge: &'static str,
    /// Calls that must leave no trace once the limiter is used up.
    quiet: &'static [&'static str],
}

const LIMITERS: &[Limiter] = &[
    Limiter {
        name: "token",
        charge: "RL.TOKEN k 2 1 PER 1h",
        quiet: &["RL.PEEK k", "RL.PEEK k TOKEN 9 1", "RL.LEAKY k 2 1"],
    },
    Limiter {
        name: "leaky",
        charge: "RL.LEAKY k 2 1 PER 1h",
        quiet: &["RL.PEEK k", "RL.INSPECT k", "RL.TOKEN k 2 1"],
    },
    Limiter {
        name: "slide",
        charge: "RL.SLIDE k 2 1h",
        quiet: &["RL.PEEK k", "RL.SLIDE k 2 1h COST 9"],
    },
    Limiter {
        name: "blocks",
        charge: "RL.SLIDE k 2 1h BLOCKS 4",
        quiet: &["RL.PEEK k", "RL.INSPECT k"],
    },
    Limiter {
        name: "fixed",
        charge: "RL.FIXED k 2 1h",
        quiet: &["RL.PEEK k", "RL.REFUND k AGE 2h"],
    },
    Limiter {
        name: "aligned",
        charge: "RL.FIXED k 2 1h ALIGN 5m",
        quiet: &["RL.PEEK k", "RL.TOKEN k 2 1"],
    },
    Limiter {
        name: "rules",
        charge: "RL.CHARGE k FIXED 5 1h SLIDE 2 1h",
        quiet: &[
            "RL.PEEK k",
            "RL.PEEK k FIXED 1 1m",
            "RL.CHARGE k FIXED 5 1h SLIDE 2 1h COST 0 1",
            "RL.CHARGE k SLIDE 5 1h FIXED 2 1h",
        ],
    },
    Limiter {
        name: "keys",
        charge: "RL.MCHARGE 2 k j FIXED 2 1h SLIDE 5 1h",
        quiet: &["RL.PEEK j COST 9"],
    },
    Limiter {
        name: "throttle",
        charge: "CL.THROTTLE k 1 1 3600",
        quiet: &["CL.THROTTLE k 1 1 3600 0", "RL.SLIDE k 2 1s"],
    },
];

/// Calls that fail or find nothing, whatever the key holds; `none` is a missing key.
const FRUITLESS: &[&str] = &[
    "RL.TOKEN k 0 1",
    "RL.TOKEN k 2 1 PER 1h COST 0",
    "RL.SLIDE k 2 1h NONSENSE",
    "RL.CHARGE k POLICY none",
    "RL.MCHARGE 2 k k FIXED 5 1h FIXED 5 1h",
    "RL.PEEK none",
    "RL.PEEK none TOKEN 5 1",
    "RL.PEEK none TOKEN 5 1 COST 6",
    "RL.TOKEN none 5 1 COST 6",
    "RL.SLIDE none 5 1s COST 6",
    "RL.REFUND none",
    "RL.INSPECT none",
    "RL.X k x",
];

/// The counters that any write moves.
#[derive(Debug, PartialEq)]
struct Trace {
    dirty: i64,
    aof_bytes: u64,
    offset: i64,
    expires_at: Vec<i64>,
    keys: i64,
    memory: Value,
    digest: Value,
}

fn trace(server: &Server, client: &mut Client) -> Trace {
    Trace {
        dirty: client.info_int("persistence", "rdb_changes_since_last_save"),
        aof_bytes: aof(server).len() as u64,
        offset: client.info_int("replication", "master_repl_offset"),
        expires_at: ["k", "j", "none"]
            .map(|key| client.int(&format!("PEXPIRETIME {key}")))
            .to_vec(),
        keys: client.int("DBSIZE"),
        memory: client.call("MEMORY USAGE k"),
        digest: client.call("DEBUG DIGEST"),
    }
}

/// A primary with an append-only file and a replica, so that every stream is on. The primary sends its
/// replica nothing on its own account: the period of its pings is longer than any test.
fn watched() -> (Server, Server) {
    let server = Server::build().append_only().args("--repl-ping-replica-period 3600").start();
    let replica = Server::build().replica_of(&server).start();
    server.wait_for(&replica);
    (server, replica)
}

#[test]
fn what_changes_nothing_leaves_no_trace() {
    let (mut server, replica) = watched();
    let mut client = server.client();
    for limiter in LIMITERS {
        client.ok("FLUSHALL");
        (0..2).for_each(|_| drop(client.ok(limiter.charge)));
        server.wait_for(&replica);
        let before = trace(&server, &mut client);
        for line in [limiter.charge].iter().chain(limiter.quiet).chain(FRUITLESS) {
            (0..20).for_each(|_| drop(client.call(line)));
            let after = trace(&server, &mut client);
            assert_eq!(
                after,
                before,
                "{}: {line} left a trace: {}",
                limiter.name,
                show(&client.call(line))
            );
        }
    }
    server.assert_well();
}

#[test]
fn an_allowed_call_is_one_change_and_one_command_in_the_stream() {
    let (server, replica) = watched();
    let mut client = server.client();
    for limiter in LIMITERS {
        client.ok("FLUSHALL");
        for _ in 0..2 {
            let before = trace(&server, &mut client);
            let written = aof(&server).len();
            client.ok(limiter.charge);
            let after = trace(&server, &mut client);
            assert_eq!(after.dirty, before.dirty + 1, "{}", limiter.name);
            assert!(after.offset > before.offset, "{}", limiter.name);
            let names = commands(&aof(&server)[written..]);
            assert_eq!(names, ["rl.x"], "{}", limiter.name);
        }
        server.wait_for(&replica);
        assert_eq!(replica.client().ok("DUMP k"), client.ok("DUMP k"), "{}", limiter.name);
    }
}

/// The command names in a piece of an append-only file.
fn commands(bytes: &[u8]) -> Vec<String> {
    names(&stream::commands(bytes))
}

#[test]
fn a_transaction_is_one_unit_in_the_stream() {
    let (server, _replica) = watched();
    let mut client = server.client();
    let written = aof(&server).len();
    client.ok("MULTI");
    for line in [
        "RL.TOKEN a 5 1",
        "SET s 1",
        "RL.SLIDE b 1 1h",
        "RL.SLIDE b 1 1h",
        "RL.MCHARGE 2 c d FIXED 5 1h FIXED 5 1h",
    ] {
        client.ok(line);
    }
    client.ok("EXEC");
    assert_eq!(
        commands(&aof(&server)[written..]),
        ["multi", "rl.x", "set", "rl.x", "rl.x", "exec"]
    );
    let written = aof(&server).len();
    let script = "redis.call('RL.TOKEN', KEYS[1], 5, 1) return redis.call('RL.TOKEN', KEYS[1], 5, 1, 'COST', 9)";
    client.run(&["EVAL", script, "1", "e"]);
    let names: Vec<String> = commands(&aof(&server)[written..])
        .into_iter()
        .filter(|n| n != "multi" && n != "exec")
        .collect();
    assert_eq!(names, ["rl.x"]);
}

/// Uses each limiter up, then makes calls that change nothing, then one that gives back. `heard` tells
/// whether somebody who looks at a key hears of a call.
fn by_changes_alone(server: &Server, mut heard: impl FnMut(&str, &str) -> bool) {
    let mut client = server.client();
    for limiter in LIMITERS {
        let keys = if limiter.charge.contains(" k j ") { &["k", "j"][..] } else { &["k"] };
        for key in keys {
            client.ok("FLUSHALL");
            let told = |line: &str| format!("{}: {key}: {line}", limiter.name);
            for _ in 0..2 {
                assert!(heard(key, limiter.charge), "{}", told(limiter.charge));
            }
            for line in
                [limiter.charge, "RL.INSPECT k"].iter().chain(limiter.quiet).chain(FRUITLESS)
            {
                assert!(!heard(key, line), "{}", told(line));
            }
            let refund = format!("RL.REFUND {key}");
            assert!(heard(key, &refund), "{}", told(&refund));
        }
    }
}

#[test]
fn watch_is_broken_by_a_change_and_by_nothing_else() {
    let server = Server::start();
    let (mut watcher, mut other) = (server.client(), server.client());
    by_changes_alone(&server, |key, line| {
        watcher.ok(&format!("WATCH {key}"));
        other.call(line);
        watcher.ok("MULTI");
        watcher.ok("PING");
        match watcher.call("EXEC") {
            Value::Nil => true,
            reply => {
                assert_eq!(reply, Value::Array(vec![Value::SimpleString("PONG".into())]));
                false
            }
        }
    });
}

#[test]
fn client_tracking_hears_of_a_change_and_of_nothing_else() {
    let server = Server::start();
    let (mut reader, mut other) = (server.client(), server.client());
    reader.hello(3);
    reader.ok("CLIENT TRACKING ON");
    by_changes_alone(&server, |key, line| {
        reader.ok(&format!("EXISTS {key}"));
        // What it heard until here was the end of the limiter before.
        reader.pushes.clear();
        other.call(line);
        reader.ok("PING");
        let pushes = std::mem::take(&mut reader.pushes).len();
        assert!(pushes < 2, "{line}: {pushes} messages");
        pushes == 1
    });
}

#[test]
fn events_are_one_per_changed_key() {
    let server = Server::build().args("--notify-keyspace-events AE").start();
    let mut client = server.client();
    let mut dump = server.client();
    let mut subscriber = server.client();
    subscriber.send(&["PSUBSCRIBE", "*"]);
    subscriber.receive();
    let mut after = |line: &str| events(&mut client, &mut subscriber, line);
    assert_eq!(after("RL.TOKEN k 2 1 PER 1h"), ["rl.charge k"]);
    assert_eq!(after("RL.TOKEN k 2 1 PER 1h"), ["rl.charge k"]);
    assert!(after("RL.TOKEN k 2 1 PER 1h").is_empty());
    assert!(after("RL.PEEK k").is_empty());
    assert!(after("RL.INSPECT k").is_empty());
    assert!(after("RL.SLIDE k 5 1h").is_empty());
    assert!(
        after("RL.TOKEN k 2 1 PER 2h").is_empty(),
        "changed settings of a denied call are stored in silence"
    );
    // Keys that are new, and keys that keep their rules.
    for _ in 0..2 {
        assert_eq!(after("RL.MCHARGE 2 a b FIXED 3 1h FIXED 3 1h"), ["rl.charge a", "rl.charge b"]);
        assert_eq!(after("RL.CHARGE l FIXED 9 1h FIXED 2 1h"), ["rl.charge l"]);
    }
    assert!(
        after("RL.MCHARGE 2 k a TOKEN 2 1 PER 3h FIXED 9 1h").is_empty(),
        "on one of many keys, too"
    );
    assert_eq!(after("RL.REFUND a"), ["rl.refund a"]);
    assert!(after("RL.REFUND none").is_empty());
    server.clock.advance(-5_000_000);
    let before = dump.ok("DUMP a");
    assert!(after("RL.REFUND a AGE 1d").is_empty(), "a repair of the clock is stored in silence");
    assert_ne!(dump.ok("DUMP a"), before);
    assert_eq!(after("DEL k"), ["del k"]);
    assert!(after("CONFIG SET rl.notify-denied yes").is_empty());
    assert!(after("RL.FIXED b 3 1h").ends_with(&["rl.charge b".into()]));
    assert_eq!(after("RL.FIXED b 3 1h"), ["rl.denied b"]);
}

/// What the server has allocated when only one client is there.
fn used_memory(client: &mut Client) -> i64 {
    until("the others to be gone", || client.info_int("clients", "connected_clients") == 1);
    client.info_int("memory", "used_memory")
}

#[test]
fn a_flood_of_denials_grows_nothing() {
    const CALLS: usize = 12_000;
    /// For buffers of the server's own. Eight bytes per call would be more.
    const SLACK: i64 = 64 * 1024;
    const { assert!(CALLS * LIMITERS.len() >= 100_000 && SLACK < 8 * CALLS as i64) };
    let server = Server::build().args("--slowlog-log-slower-than -1").start();
    let mut client = server.client();
    let flood = |limiter: &Limiter, calls: usize| {
        let mut client = server.client();
        let batch = vec![limiter.charge; 1000];
        for _ in 0..calls / batch.len() {
            server.clock.advance(1000);
            let replies = client.pipeline(&batch);
            let denied = |reply| match support::client::ints(reply)[..] {
                // CL.THROTTLE says 1 where it denies, and answers five integers.
                [first, .., _] if support::client::six(reply).is_none() => first == 1,
                [first, ..] => first == 0,
                [] => false,
            };
            assert!(replies.iter().all(denied), "{}", limiter.name);
        }
    };
    for limiter in LIMITERS {
        client.ok("FLUSHALL");
        (0..2).for_each(|_| drop(client.ok(limiter.charge)));
        // What a first time takes for good is no growth.
        flood(limiter, 2000);
        let sizes = ["MEMORY USAGE k", "MEMORY USAGE j"];
        let size = sizes.map(|line| client.call(line));
        let used = used_memory(&mut client);
        flood(limiter, CALLS);
        assert_eq!(sizes.map(|line| client.call(line)), size, "{}", limiter.name);
        let grown = used_memory(&mut client) - used;
        assert!(grown < SLACK, "{}: {grown} bytes", limiter.name);
        println!("{}: {grown} bytes", limiter.name);
    }
}

/// How many bytes a charge is in the stream, with a key name of 7 bytes. `docs/operations.md` tells of it.
#[test]
fn a_charge_is_a_short_command() {
    const CALLS: usize = 100;
    /// So much longer is the first one, and one that moves the expiry.
    const EXPIRY: usize = 7;
    let server = Server::build().append_only().start();
    let mut client = server.client();
    for (line, most) in [
        ("RL.TOKEN user:42 1000 10", 57),
        ("RL.LEAKY user:42 1000 10", 57),
        ("RL.SLIDE user:42 1000 1m", 58),
        ("RL.SLIDE user:42 1000 1m BLOCKS 60", 58),
        ("RL.FIXED user:42 1000 1m", 53),
        ("RL.CHARGE user:42 SLIDE 1000 1m TOKEN 1000 10", 79),
        ("RL.MCHARGE 2 user:42 user:43 SLIDE 1000 1m TOKEN 1000 10", 99),
    ] {
        client.ok("FLUSHALL");
        let before = aof(&server).len();
        for _ in 0..CALLS {
            server.clock.advance(137_731);
            client.ok(line);
        }
        let commands = stream::commands(&aof(&server)[before..]);
        let mut sizes: Vec<usize> = commands
            .iter()
            .filter(|words| words[0] == b"rl.x")
            .map(|words| stream::pack(words).len())
            .collect();
        assert_eq!(sizes.len(), CALLS, "{line}");
        sizes.sort_unstable();
        let (usual, longest) = (sizes[CALLS / 2], sizes[CALLS - 1]);
        println!("{line}: {usual} bytes, {longest} at most");
        assert!(usual <= most, "{line}: {usual} bytes");
        assert!(longest <= most + EXPIRY, "{line}: {longest} bytes");
    }
}

/// A client that asks for the replication stream as a replica does, and sees what a charge sends.
#[test]
fn the_stream_carries_results_not_calls() {
    let server = Server::build().args("--repl-ping-replica-period 3600").start();
    let mut client = server.client();
    client.ok("RL.TOKEN k 2 1 PER 1h");
    let mut replica = server.client();
    for line in ["REPLCONF listening-port 1", "REPLCONF capa psync2"] {
        replica.ok(line);
    }
    let reply = replica.call("PSYNC ? -1");
    assert!(text(&reply).is_some_and(|t| t.starts_with("FULLRESYNC")), "{}", show(&reply));
    let mut stream = std::io::BufReader::new(replica.into_stream());
    skip_snapshot(&mut stream);
    until("the replica to be on", || {
        client.info("replication", "connected_slaves").as_deref() == Some("1")
    });
    // Two denials around one allowed call: the stream holds one command, then the end mark.
    client.ok("RL.SLIDE j 1 1h");
    client.ok("RL.SLIDE j 1 1h");
    client.ok("RL.PEEK j");
    client.ok("SET end mark");
    let mut parser = redis::Parser::new();
    let mut names = Vec::new();
    while names.last().map(String::as_str) != Some("set") {
        let command = parser.parse_value(&mut stream).expect("stream");
        assert_eq!(error(&command), None);
        names.push(texts(&command)[0].to_lowercase());
    }
    names.retain(|name| name != "select" && name != "ping");
    assert_eq!(names, ["rl.x", "set"]);
}

/// Reads the snapshot of a full sync: `$LENGTH` and so many bytes, after newlines that keep the link alive.
fn skip_snapshot(stream: &mut impl std::io::BufRead) {
    let mut line = String::new();
    while line.trim().is_empty() {
        line.clear();
        assert!(stream.read_line(&mut line).expect("snapshot") > 0, "the link was closed");
    }
    let length: u64 = line
        .trim()
        .trim_start_matches('$')
        .parse()
        .expect("a length: no diskless capability was told");
    let copied = std::io::copy(&mut std::io::Read::take(stream, length), &mut std::io::sink())
        .expect("snapshot");
    assert_eq!(copied, length);
}
