//! The test harness itself, on a server without the module: what the other tests lean on must hold first.

mod support;

use redis::Value;
use support::clock::START_US;
use support::{payload, Cluster, Server};

fn plain() -> support::server::Builder {
    Server::build().without_module()
}

/// After a set, the very next command sees the new time, to the microsecond, forward and back.
#[test]
fn a_set_clock_is_seen_by_the_next_command() {
    let server = plain().start();
    let mut client = server.client();
    for step in 0..2000_i64 {
        let us = START_US + (step * 7_919_317_001) % 10_000_000_000 - 5_000_000_000;
        server.clock.set(us);
        let time = support::client::texts(&client.ok("TIME"));
        assert_eq!(time, [(us / 1_000_000).to_string(), (us % 1_000_000).to_string()]);
        client.ok("SET k v PX 100000");
        assert_eq!(client.int("PEXPIRETIME k"), us / 1000 + 100_000);
    }
}

#[test]
fn a_standing_clock_stands_and_a_running_one_runs() {
    let standing = plain().start();
    let mut client = standing.client();
    let first = client.ok("TIME");
    (0..2000).for_each(|_| assert_eq!(client.ok("TIME"), first));

    let running = plain().running_clock(-3_600_000).start();
    let mut client = running.client();
    let first = client.ok("TIME");
    support::until("the clock to run", || client.ok("TIME") != first);
    let before = seconds(&first);
    running.clock.set(3_600_000_000);
    let after = seconds(&client.ok("TIME"));
    assert!((7199..7300).contains(&(after - before)), "{before} {after}");
}

fn seconds(time: &Value) -> i64 {
    support::client::texts(time)[0].parse().expect("seconds")
}

#[test]
fn a_replica_follows_while_both_clocks_stand() {
    let primary = plain().start();
    let replica = plain().replica_of(&primary).start();
    replica.clock.advance(30_000_000);
    primary.client().ok("SET k v PX 100000");
    primary.wait_for(&replica);
    assert_eq!(replica.client().int("PEXPIRETIME k"), primary.client().int("PEXPIRETIME k"));
}

#[test]
fn a_server_comes_back_in_the_same_folder() {
    let mut server = plain().append_only().start();
    server.client().ok("SET k v");
    server.restart();
    assert_eq!(server.client().text("GET k"), "v");
    server.assert_well();
    server.kill();
    assert!(!server.alive());
}

#[test]
fn a_cluster_forms() {
    let cluster = Cluster::start_without_module(1);
    for key in ["a", "b", "c", "d", "e", "f"] {
        cluster.owner(key).client().ok(&format!("SET {key} 1"));
    }
}

#[test]
fn a_frame_made_here_is_taken_by_the_server() {
    assert_eq!(payload::crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    let server = plain().start();
    let mut client = server.client();
    client.ok("SET k value");
    let Value::BulkString(dump) = client.ok("DUMP k") else { panic!("no dump") };
    let (body, version) = payload::unseal(&dump);
    assert_eq!(payload::seal(&body, version), dump);
    let broken = [dump.clone(), vec![0]].concat();
    let reply = client.run(&[b"RESTORE".as_slice(), b"j", b"0", &broken]);
    assert!(support::client::is_error(&reply));
}

#[test]
fn words_of_a_case_may_be_any_bytes() {
    let words = support::client::split(r#"A "" x\0y a\_b \xff\x0d z\"#);
    let expected: Vec<&[u8]> = vec![b"A", b"", b"x\0y", b"a b", b"\xff\r", b"z\\"];
    assert_eq!(words, expected);
}

/// The runner of cases says yes to what fits and no to everything else.
#[test]
fn cases_can_fail() {
    let server = plain().start();
    let mut client = server.client();
    let good = "# comment\n\n@0 SET k 5 PX 1000 -> = OK\n@999 GET k -> = 5\n@1001 GET k -> nil\n@0.25 TIME -> = [1899936000 250]\n\
        @5 x3 INCR n -> = 3\n@5 x3 ECHO a => = a\n@5 INCR n -> in 4 4\n@5 NONSENSE -> ERR unknown command\n\
        !clear\n@5 EXISTS n -> = 0\n@-0.001 TIME -> = [1899935999 999999]\n@0 ECHO a\\_b -> has b a";
    let (count, faults) = support::cases::run_on(&server, &mut client, "good", good);
    assert_eq!((count, faults), (12, Vec::new()));
    let bad = "@0 ECHO a -> = b\n@0 ECHO a -> nil\n@0 ECHO a -> ERR a\n@0 GET none -> = 5\n@0 x2 INCR n => = 2\n\
        @0 DBSIZE -> in 2 3\n@0 ECHO a -> 1\n@0 NONSENSE -> ERR known rate\n@0 ECHO a\nECHO a -> = a\n@x ECHO a -> = a\n\
        @0.1234 ECHO a -> = a\n@0 x0 ECHO a -> = a\n@0 ECHO ab -> has a c";
    let (count, faults) = support::cases::run_on(&server, &mut client, "bad", bad);
    assert_eq!(count, faults.len(), "{faults:#?}");
    assert!(faults[4].starts_with("bad:5\n"), "{}", faults[4]);
}

#[test]
fn decisions_are_compared_in_value_and_shape() {
    use support::cases::compare;
    let row = |numbers: &[i64]| Value::Array(numbers.iter().map(|n| Value::Int(*n)).collect());
    let layered = |first: &[i64], rows: &[&[i64]]| {
        let mut items: Vec<Value> = first.iter().map(|n| Value::Int(*n)).collect();
        items.push(Value::Array(rows.iter().map(|r| row(r)).collect()));
        Value::Array(items)
    };
    let plain = row(&[1, 4, 0, 1000, 5, 0]);
    let charge = layered(&[0, 0, 9, 9, 1, 0], &[&[1, 4, 0, 0, 5, 0], &[0, 0, 9, 9, 1, 0]]);
    for (command, expected, reply) in [
        ("RL.TOKEN", "1 4 0 1000 5 0", &plain),
        ("RL.TOKEN", "1 _ 0", &plain),
        ("RL.CHARGE", "0 0", &charge),
        ("RL.PEEK", "0 0 9 | 1 4 | 0 0 9 9", &charge),
        ("CL.THROTTLE", "0 16 15 -1 2", &row(&[0, 16, 15, -1, 2])),
    ] {
        assert_eq!(compare(command, expected, reply), Ok(()), "{expected}");
    }
    for (command, expected, reply) in [
        ("RL.TOKEN", "0", &plain),
        ("RL.TOKEN", "1 4 0 1000 5 1", &plain),
        ("RL.TOKEN", "1 4 0 1000 5 0 0", &plain),
        ("RL.TOKEN", "", &plain),
        ("RL.CHARGE", "1 4", &plain),
        ("RL.TOKEN", "0 0", &charge),
        ("RL.CHARGE", "0 0 | 1 4", &charge),
        ("RL.CHARGE", "0 0 | 1 4 | 1", &charge),
        ("RL.CHARGE", "0 0 | 1 4 | 0 0 | 1", &charge),
        ("RL.TOKEN", "1", &row(&[1, 4, 0])),
        ("RL.TOKEN", "1", &row(&[1, 4, 0, 1000, 5, 0, 7])),
        ("CL.THROTTLE", "0 16", &row(&[0, 16, 15, -1])),
        ("RL.TOKEN", "nil", &plain),
        ("RL.TOKEN", "ERR", &Value::Nil),
        ("RL.TOKEN", "1", &Value::Nil),
    ] {
        assert!(compare(command, expected, reply).is_err(), "{command} {expected}");
    }
}
