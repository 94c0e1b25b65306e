//! A denial, a peek and an error leave no trace anywhere; an allowed call leaves exactly one.

mod support;

use redis::Value;
use support::client::{error, show, text, texts, Client};
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

#[test]
fn watch_is_broken_by_a_charge_and_by_nothing_else() {
    let server = Server::start();
    let (mut watcher, mut other) = (server.client(), server.client());
    let mut exec_after = |line: &str| {
        watcher.ok("WATCH k");
        other.call(line);
        watcher.ok("MULTI");
        watcher.ok("PING");
        watcher.call("EXEC")
    };
    assert_eq!(exec_after("RL.SLIDE k 2 1h"), Value::Nil);
    assert_eq!(exec_after("RL.SLIDE k 2 1h"), Value::Nil);
    for line in [
        "RL.SLIDE k 2 1h",
        "RL.PEEK k",
        "RL.INSPECT k",
        "RL.TOKEN k 5 1",
        "RL.SLIDE k 0 1h",
        "RL.REFUND k AGE 2h",
    ] {
        assert_eq!(
            exec_after(line),
            Value::Array(vec![Value::SimpleString("PONG".into())]),
            "{line}"
        );
    }
    assert_eq!(exec_after("RL.REFUND k"), Value::Nil);
}

#[test]
fn client_tracking_hears_of_a_charge_and_of_nothing_else() {
    let server = Server::start();
    let (mut reader, mut other) = (server.client(), server.client());
    reader.hello(3);
    reader.ok("CLIENT TRACKING ON");
    let mut pushes_after = |line: &str| {
        reader.ok("EXISTS k");
        other.call(line);
        reader.ok("PING");
        std::mem::take(&mut reader.pushes).len()
    };
    assert_eq!(pushes_after("RL.FIXED k 2 1h"), 1);
    assert_eq!(pushes_after("RL.FIXED k 2 1h"), 1);
    for line in ["RL.FIXED k 2 1h", "RL.PEEK k", "RL.INSPECT k", "RL.TOKEN k 5 1", "RL.FIXED k 2 x"]
    {
        assert_eq!(pushes_after(line), 0, "{line}");
    }
    assert_eq!(pushes_after("RL.REFUND k"), 1);
}

/// The keyspace events that `line` causes, as `event key`.
fn events(client: &mut Client, subscriber: &mut Client, line: &str) -> Vec<String> {
    client.call(line);
    client.ok("PUBLISH end x");
    let mut seen = Vec::new();
    loop {
        let message = subscriber.receive();
        let words = texts(&message);
        match words.as_slice() {
            [_, _, channel, _] if channel == "end" => return seen,
            [_, _, channel, key] => {
                seen.push(format!("{} {key}", channel.trim_start_matches("__keyevent@0__:")));
            }
            _ => panic!("not a message: {}", show(&message)),
        }
    }
}

#[test]
fn events_are_one_per_changed_key() {
    let server = Server::build().args("--notify-keyspace-events AE").start();
    let mut client = server.client();
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
    assert_eq!(after("RL.MCHARGE 2 a b FIXED 2 1h FIXED 2 1h"), ["rl.charge a", "rl.charge b"]);
    assert_eq!(after("RL.REFUND a"), ["rl.refund a"]);
    assert!(after("RL.REFUND none").is_empty());
    assert_eq!(after("DEL k"), ["del k"]);
    assert!(after("CONFIG SET rl.notify-denied yes").is_empty());
    assert!(after("RL.FIXED b 2 1h").ends_with(&["rl.charge b".into()]));
    assert_eq!(after("RL.FIXED b 2 1h"), ["rl.denied b"]);
}

#[test]
fn a_flood_of_denials_grows_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for charge in ["RL.SLIDE k 10 15m", "RL.SLIDE k 10 15m BLOCKS 10", "RL.TOKEN k 10 1 PER 1h"] {
        client.ok("FLUSHALL");
        (0..10).for_each(|_| drop(client.ok(charge)));
        let before = client.int("MEMORY USAGE k");
        let batch = vec![charge; 1000];
        for _ in 0..100 {
            server.clock.advance(1000);
            let replies = client.pipeline(&batch);
            assert!(replies.iter().all(|r| support::client::ints(r).first() == Some(&0)));
        }
        assert_eq!(client.int("MEMORY USAGE k"), before, "{charge}");
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
