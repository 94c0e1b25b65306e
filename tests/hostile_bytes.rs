//! Values and changes that nobody wrote, with every checksum right, so that only their readers stand between
//! them and the arithmetic: in RESTORE, in an append-only file, and from a primary that is none.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use redis::Value;
use support::client::{entry, is_error, show, split, text, Client};
use support::clock::START_US;
use support::nonsense::{check, share};
use support::stream::{self, Words};
use support::work::Work;
use support::{mutate, payload, until, Server};

const YEAR_US: i64 = 365 * 86_400_000_000;

/// Values of every shape, as DUMP gives them.
fn dumps(client: &mut Client) -> Vec<Vec<u8>> {
    client.ok("CONFIG SET rdbcompression no");
    client.ok("RL.POLICY SET gold TOKEN 100 10 SLIDE 1000 1h");
    let lines = [
        "RL.TOKEN a 5 3 PER 7s COST 2",
        "RL.TOKEN a 3 3 PER 7s",
        "RL.LEAKY b 5 3 FORCE COST 9",
        "RL.SLIDE c 50 1h COST 3",
        "RL.SLIDE d 5000000000 1h BLOCKS 9 COST 4000000000",
        "RL.FIXED e 5 1h",
        "RL.FIXED f 5 1d ALIGN -8h",
        "RL.CHARGE g SLIDE 5 1h TOKEN 9 1 FIXED 3 1d LEAKY 7 1 SLIDE 9 1m BLOCKS 3 COST 1 0 2 3 1",
        "RL.CHARGE h POLICY gold FIXED 7 1m",
    ];
    for line in lines {
        client.ok(line);
    }
    ["a", "b", "c", "d", "e", "f", "g", "h"]
        .map(|key| match client.ok(&format!("DUMP {key}")) {
            Value::BulkString(bytes) => bytes,
            other => panic!("{}", show(&other)),
        })
        .into()
}

/// Everything that a client can do to a key, under clocks years apart.
fn use_up(server: &Server, client: &mut Client, key: &str) {
    let kept = kept_rules(client, key);
    let mut lines: Vec<String> = [
        "RL.PEEK #",
        "RL.INSPECT #",
        "RL.PEEK # TOKEN 5 1",
        "RL.TOKEN # 5 1 FORCE COST 1000000000000",
        "RL.LEAKY # 1000000000000 1 PER 1ms FORCE",
        "RL.SLIDE # 5 3650d BLOCKS 7",
        "RL.SLIDE # 7 1ms",
        "RL.FIXED # 1000000000000 3650d ALIGN -7d",
        "RL.REFUND # COST 2",
        "RL.REFUND # AGE 3650d COST 1000000000000",
        "CL.THROTTLE # 4 1 1",
        "RL.CHARGE # SLIDE 5 1h TOKEN 9 1",
        "RL.PEEK #",
    ]
    .map(|line| line.replace('#', key))
    .into();
    if let Some(kept) = kept {
        for tail in ["", " FORCE COST 1000000000000", " COST 2"] {
            lines.insert(2, format!("RL.CHARGE {key} {kept}{tail}"));
        }
        lines.insert(2, format!("RL.PEEK {key} {kept}"));
    }
    for shift in [0, 1_000_000, -1_000_000, 10 * YEAR_US, -10 * YEAR_US, 0] {
        server.clock.set(START_US + shift);
        for line in &lines {
            check(&split(line), &client.call(line));
        }
        if let Value::BulkString(dump) = client.call(&format!("DUMP {key}")) {
            let words = [b"RESTORE".as_slice(), b"again", b"0", &dump, b"REPLACE"];
            let reply = client.run(&words);
            assert_eq!(reply, Value::Okay, "what was saved: {}", show(&reply));
            assert_eq!(client.ok("DUMP again"), Value::BulkString(dump));
        }
    }
    server.clock.set(START_US);
}

/// The settings of a key as rules of a call, from RL.INSPECT.
fn kept_rules(client: &mut Client, key: &str) -> Option<String> {
    let Some(Value::Array(rules)) = entry(&client.call(&format!("RL.INSPECT {key}")), "rules")
    else {
        return None;
    };
    let rule = |rule: &Value| {
        let get = |name: &str| match entry(rule, name) {
            Some(Value::Int(n)) => n,
            _ => 0,
        };
        let algorithm = entry(rule, "algorithm").and_then(|a| text(&a)).unwrap_or_default();
        match algorithm.as_str() {
            "TOKEN" | "LEAKY" => {
                format!(
                    "{algorithm} {} {} PER {}ms",
                    get("capacity"),
                    get("rate"),
                    get("period_ms")
                )
            }
            "SLIDE" if get("blocks") > 0 => {
                format!("SLIDE {} {}ms BLOCKS {}", get("limit"), get("window_ms"), get("blocks"))
            }
            _ => format!("{algorithm} {} {}ms", get("limit"), get("window_ms")),
        }
    };
    Some(rules.iter().map(rule).collect::<Vec<_>>().join(" "))
}

#[test]
fn values_with_a_right_checksum_and_wrong_numbers() {
    let mut server = Server::start();
    let mut client = server.client();
    let replica = Server::build().replica_of(&server).start();
    server.wait_for(&replica);
    let models = dumps(&mut client);
    let inner: Vec<Vec<u8>> = models.iter().map(|dump| payload::open(dump)).collect();
    for (inner, dump) in inner.iter().zip(&models) {
        assert_eq!(&payload::close(inner, dump), dump);
    }
    let mut rng = StdRng::seed_from_u64(1);
    let mut accepted = 0;
    let turns = share(16_000);
    for number in 0..turns {
        let one = inner.choose(&mut rng).expect("a value");
        let two = inner.choose(&mut rng).expect("a value");
        let bytes = if number % 4 == 0 {
            mutate::value(&mut rng)
        } else {
            mutate::mutate(&mut rng, one, two)
        };
        let dump = payload::close(&bytes, &models[0]);
        let reply = client.run(&[b"RESTORE".as_slice(), b"victim", b"0", &dump]);
        if is_error(&reply) {
            assert!(show(&reply).contains("Bad data format"), "{}", show(&reply));
            continue;
        }
        // What is taken is taken whole: it is given out again to the bit.
        let back = client.ok("DUMP victim");
        assert_eq!(back, Value::BulkString(dump), "{}", bytes.escape_ascii());
        if number % 8 < 4 {
            use_up(&server, &mut client, "victim");
        }
        accepted += 1;
        client.ok("DEL victim");
    }
    println!("{accepted} of {turns} made-up values were whole values");
    assert!(accepted > share(300), "only {accepted} values got past the reader");
    server.wait_for(&replica);
    server.assert_well();
    assert_eq!(server.client().ok("DEBUG DIGEST"), replica.client().ok("DEBUG DIGEST"));
    assert!(!replica.whole_log().contains(" was refused"), "{}", replica.log());
    replica.assert_log_clean();
}

/// The commands of a real stream, and what becomes of them by mutation.
fn changes(seed: u64, count: usize) -> Vec<Words> {
    let server = Server::build().append_only().start();
    let mut client = server.client();
    dumps(&mut client);
    Work::new(seed).run(&server, &mut client, 800);
    let real: Vec<Words> = stream::commands(&stream::aof(&server))
        .into_iter()
        .filter(|words| words[0].starts_with(b"rl."))
        .collect();
    assert!(real.len() > 300);
    let mut rng = StdRng::seed_from_u64(seed);
    let keys: Vec<String> = (0..6).map(|n| format!("victim:{n}")).collect();
    let mut all = vec![split("SET string 5")];
    while all.len() < count {
        let mut words = real.choose(&mut rng).expect("a change").clone();
        let other = real.choose(&mut rng).expect("a change");
        let donor = other.last().expect("a blob");
        if words[0] == b"rl.p" {
            words[1] = mutate::mutate(&mut rng, &words[1], donor);
            all.push(words);
            continue;
        }
        for pair in words[1..].chunks_mut(2) {
            pair[0] = keys.choose(&mut rng).expect("a key").clone().into_bytes();
            match rng.random_range(0..10) {
                0..=2 => {}
                3 => {
                    // A whole list in place of a change, with and without a time to live.
                    let head = if rng.random_bool(0.5) {
                        vec![0]
                    } else {
                        [vec![1], mutate::leb(2 * 1_899_936_100_000)].concat()
                    };
                    pair[1] = [head, mutate::value(&mut rng)].concat();
                }
                _ => pair[1] = mutate::mutate(&mut rng, &pair[1], donor),
            }
        }
        match rng.random_range(0..50) {
            // Not below three: a server may refuse a file for the number of words alone.
            0 if words.len() > 3 => drop(words.pop()),
            1 => words[1] = b"string".to_vec(),
            2 => words.extend((0..rng.random_range(0..9)).map(|_| donor.clone())),
            _ => {}
        }
        // Some are dealt to a key that holds what the change was made to.
        all.push(words);
    }
    // A key that must get through whatever came before.
    all.push(split("SET end mark"));
    all
}

/// All keys are usable and can be saved.
fn survey(server: &mut Server) {
    let mut client = server.client();
    client.ok("CONFIG SET rdbcompression no");
    assert_eq!(client.text("GET end"), "mark");
    assert_eq!(client.text("GET string"), "5");
    // Looked at before the clock moves: in ten years the server removes them all.
    let victims: Vec<String> = (0..6).map(|number| format!("victim:{number}")).collect();
    let lived = |key: &&String| client.text(&format!("TYPE {key}")) == "ratelimit";
    let lived = victims.iter().filter(lived).count();
    victims.iter().for_each(|key| use_up(server, &mut client, key));
    assert!(lived > 0, "no change was accepted");
    client.ok("RL.POLICY LIST");
    client.ok("INFO everything");
    client.ok("DEBUG RELOAD");
    server.assert_well();
}

#[test]
fn an_append_only_file_with_wrong_changes() {
    for seed in 0..4 {
        let mut server = Server::build().append_only().start();
        server.client().ok("SET first 1");
        server.kill();
        let path = stream::aof_tail(&server);
        let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("file");
        for words in changes(20 + seed, 3000) {
            file.write_all(&stream::pack(&words)).expect("file");
        }
        server.restart();
        let log = server.whole_log();
        assert!(log.contains("a replicated change was refused"), "{}", server.log());
        assert!(log.contains("a replicated policy was refused"), "{}", server.log());
        survey(&mut server);
    }
}

/// Changes that name their own outcome rightly, but one that no call leads to.
#[test]
fn changes_to_what_no_call_leads_to() {
    // The head of a change is the limiter without its log, which DUMP puts at the end: one entry.
    let donor = Server::build().append_only().start();
    let mut client = donor.client();
    client.ok("CONFIG SET rdbcompression no");
    client.ok("RL.SLIDE victim 50 1h");
    client.ok("RL.POLICY SET any-name TOKEN 5 1");
    let Value::BulkString(dump) = client.ok("DUMP victim") else { panic!("no dump") };
    let now_ms = (START_US / 1000) as u128;
    let signed = |n: u128| mutate::leb(2 * n);
    let one_entry = [vec![1], signed(now_ms), vec![1]].concat();
    let packed = payload::open(&dump);
    let packed = packed.strip_suffix(one_entry.as_slice()).expect("a log of one entry").to_vec();
    let whole = [vec![0], packed.clone(), vec![1], one_entry].concat();
    // The totals before, and an edit that drops the one entry there is.
    let totals = [vec![1, 1], signed(now_ms)].concat();
    let emptied = [vec![0], packed.clone(), vec![2], totals, vec![0, 1]].concat();
    let sent = stream::commands(&stream::aof(&donor));
    let mut policy =
        sent.into_iter().find(|words| words[0] == b"rl.p").expect("a policy").remove(1);
    let at = policy.windows(8).position(|w| w == b"any-name").expect("its name");
    policy[at..at + 8].copy_from_slice(b"no\r\nname");
    let rest: Words = vec![b"rl.x".to_vec(), b"victim".to_vec()];
    let change = |blob: Vec<u8>| [rest.clone(), vec![blob]].concat();
    let mut server = Server::build().append_only().start();
    server.client().ok("SET first 1");
    server.kill();
    let path = stream::aof_tail(&server);
    let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("file");
    for words in [change(whole), change(emptied), vec![b"rl.p".to_vec(), policy]] {
        file.write_all(&stream::pack(&words)).expect("file");
    }
    server.restart();
    let mut client = server.client();
    let Value::BulkString(dump) = client.ok("DUMP victim") else {
        panic!("the whole log was refused")
    };
    let reply = client.run(&[b"RESTORE".as_slice(), b"again", b"0", &dump]);
    assert_eq!(reply, Value::Okay, "{}", show(&reply));
    assert_eq!(client.six("RL.PEEK victim")[..2], [1, 49]);
    assert_eq!(show(&client.ok("RL.POLICY LIST")), "[]");
    client.ok("DEBUG RELOAD");
    server.assert_well();
}

/// A change for a key of another type leaves it, and does not keep the others of its call from their keys.
#[test]
fn changes_to_keys_of_other_types() {
    let donor = Server::build().append_only().start();
    donor.client().ok("RL.MCHARGE 3 a b c FIXED 5 1h FIXED 5 1h FIXED 5 1h");
    let sent = stream::commands(&stream::aof(&donor)).pop().expect("a change");
    assert_eq!((sent.len(), sent[0].as_slice()), (7, b"rl.x".as_slice()));
    let mut server = Server::build().append_only().start();
    server.client().ok("MSET a string c string");
    server.kill();
    let path = stream::aof_tail(&server);
    let mut file = std::fs::OpenOptions::new().append(true).open(path).expect("file");
    file.write_all(&stream::pack(&sent)).expect("file");
    server.restart();
    let mut client = server.client();
    assert_eq!(client.text("GET a") + &client.text("GET c"), "stringstring");
    assert_eq!(client.six("RL.PEEK b")[..2], [1, 4]);
    assert!(server.whole_log().contains("a replicated change was refused"), "{}", server.log());
}

/// A primary that sends what no primary would: the replica refuses what does not fit, says so, and lives.
#[test]
fn a_false_primary() {
    let mut donor = Server::start();
    donor.client().ok("SET first 1");
    donor.shutdown("SAVE");
    let snapshot = std::fs::read(donor.dir.join("dump.rdb")).expect("snapshot");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("address").port();
    let mut replica = Server::start();
    let mut client = replica.client();
    client.ok(&format!("REPLICAOF 127.0.0.1 {port}"));
    let sent = changes(30, 4000);
    let serving = std::thread::spawn(move || serve(&listener, &snapshot, &sent));
    until("the end of the stream", || show(&client.call("GET end")) == "mark");
    let log = replica.whole_log();
    assert!(log.contains("a replicated change was refused"), "{}", replica.log());
    assert!(log.contains("a replicated policy was refused"), "{}", replica.log());
    client.ok("REPLICAOF NO ONE");
    serving.join().expect("the false primary");
    survey(&mut replica);
}

/// Plays a primary to the first replica that asks for a full sync, until it hangs up.
fn serve(listener: &TcpListener, snapshot: &[u8], sent: &[Words]) {
    for connection in listener.incoming() {
        let mut to = connection.expect("a replica");
        let mut from = BufReader::new(to.try_clone().expect("a socket"));
        let mut line = String::new();
        loop {
            line.clear();
            // The words of a command come as bulk strings: only those that open one count.
            if from.read_line(&mut line).unwrap_or(0) == 0 {
                break;
            }
            match line.trim().to_uppercase().as_str() {
                "PING" => to.write_all(b"+PONG\r\n").expect("reply"),
                "REPLCONF" => to.write_all(b"+OK\r\n").expect("reply"),
                "PSYNC" => {
                    let head =
                        format!("+FULLRESYNC {} 0\r\n${}\r\n", "f".repeat(40), snapshot.len());
                    to.write_all(head.as_bytes()).expect("sync");
                    to.write_all(snapshot).expect("sync");
                    for words in sent {
                        to.write_all(&stream::pack(words)).expect("stream");
                    }
                    // The replica tells how far it is until it is told to stop.
                    while from.read_line(&mut line).unwrap_or(0) > 0 {
                        line.clear();
                    }
                    return;
                }
                _ => {}
            }
        }
    }
}
