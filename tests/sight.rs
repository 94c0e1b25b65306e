//! What an operator sees: RL.TOP, the counters of INFO, keyspace events, and the spread of retries.

mod support;

use std::collections::BTreeMap;

use redis::Value;
use support::client::{events, layers, show};
use support::{Client, Server};

#[test]
fn top_counts_keys_whose_own_live_rule_denied() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("RL.POLICY SET dry FIXED 1 1h SHADOW");
    let mut after = |lines: &[&str], rows: &str| {
        lines.iter().for_each(|line| drop(client.call(line)));
        assert_eq!(show(&client.ok("RL.TOP")), rows, "{lines:?}");
    };
    after(&["RL.FIXED a 1 1h", "RL.TOKEN b 1 1 PER 1h", "RL.PEEK a COST 9"], "[]");
    after(&["RL.FIXED a 1 1h"], "[[a 1 0]]");
    // A call that can never pass is denied, and leaves no key behind.
    after(&["RL.FIXED big 1 1h COST 2", "RL.SLIDE big 1 1h COST 2"], "[[big 2 0] [a 1 0]]");
    after(
        &["RL.FIXED a 1 1h FORCE", "RL.FIXED a 1 x", "RL.CHARGE a POLICY none"],
        "[[big 2 0] [a 1 0]]",
    );
    // Several rules, one denial; several keys, those that denied.
    after(&["RL.CHARGE c FIXED 1 1h TOKEN 1 1 COST 2"], "[[big 2 0] [a 1 0] [c 1 0]]");
    after(
        &["RL.MCHARGE 3 a free c FIXED 1 1h FIXED 9 1h FIXED 1 1h COST 2"; 2],
        "[[a 3 0] [c 3 0] [big 2 0]]",
    );
    after(&["RL.CHARGE s POLICY dry", "RL.CHARGE s POLICY dry"], "[[a 3 0] [c 3 0] [big 2 0]]");
    after(&["RL.CHARGE s POLICY dry FIXED 1 1h COST 1 2"], "[[a 3 0] [c 3 0] [big 2 0] [s 1 0]]");
    // The same name in another database is another key. redis-cell's command counts too.
    after(
        &[
            "SELECT 3",
            "CL.THROTTLE a 0 1 60",
            "CL.THROTTLE a 0 1 60",
            "RL.TOKEN \\0\\xff 1 1 COST 2",
            "SELECT 0",
        ],
        "[[a 3 0] [c 3 0] [big 2 0] [s 1 0] [\0\u{fffd} 1 3] [a 1 3]]",
    );
    after(
        &["FLUSHALL", "MULTI", "RL.FIXED s 1 1h COST 2", "RL.FIXED s 1 1h COST 2", "EXEC"],
        "[[a 3 0] [c 3 0] [s 3 0] [big 2 0] [\0\u{fffd} 1 3] [a 1 3]]",
    );
}

#[test]
fn top_takes_count_and_reset() {
    let server = Server::start();
    let mut client = server.client();
    for number in 1..=15 {
        for _ in 0..number {
            client.ok(&format!("RL.TOKEN k{number} 1 1 COST 2"));
        }
    }
    let rows = |reply: &Value| match reply {
        Value::Array(rows) => rows.len(),
        _ => panic!("{}", show(reply)),
    };
    assert_eq!(rows(&client.ok("RL.TOP")), 10);
    assert_eq!(rows(&client.ok("RL.TOP COUNT 1000000000000")), 15);
    assert_eq!(show(&client.ok("rl.top count 2")), "[[k15 15 0] [k14 14 0]]");
    for line in [
        "RL.TOP COUNT 0",
        "RL.TOP COUNT -1",
        "RL.TOP COUNT 01",
        "RL.TOP COUNT x",
        "RL.TOP RESET COUNT 1.5",
    ] {
        assert!(client.error(line).starts_with("ERR count must be"), "{line}");
    }
    for line in
        ["RL.TOP COUNT", "RL.TOP 5", "RL.TOP RESET RESET", "RL.TOP COUNT 1 COUNT 1", "RL.TOP k"]
    {
        assert_eq!(client.error(line), "ERR syntax error", "{line}");
    }
    assert_eq!(rows(&client.ok("RL.TOP COUNT 100")), 15, "an error resets nothing");
    assert_eq!(show(&client.ok("RL.TOP RESET COUNT 1")), "[[k15 15 0]]");
    assert_eq!(show(&client.ok("RL.TOP")), "[]");
    client.ok("RL.TOKEN k1 1 1 COST 2");
    assert_eq!(show(&client.ok("RL.TOP")), "[[k1 1 0]]");
}

#[test]
fn top_has_as_much_room_as_it_is_given() {
    let server = Server::build().args("--rl.top-keys 0").start();
    let mut client = server.client();
    let deny = |client: &mut Client, key: &str, times: usize| {
        let line = format!("RL.TOKEN {key} 1 1 COST 2");
        client.pipeline(&vec![line; times]);
    };
    deny(&mut client, "a", 5);
    assert_eq!(show(&client.ok("RL.TOP")), "[]");
    client.ok("CONFIG SET rl.top-keys 3");
    assert_eq!(show(&client.ok("RL.TOP")), "[]");
    for (key, times) in [("a", 5), ("b", 4), ("c", 3)] {
        deny(&mut client, key, times);
    }
    // A fourth key is let in only when it was denied more often than the least.
    deny(&mut client, "d", 3);
    assert_eq!(show(&client.ok("RL.TOP")), "[[a 5 0] [b 4 0] [c 3 0]]");
    deny(&mut client, "d", 1);
    assert_eq!(show(&client.ok("RL.TOP")), "[[a 5 0] [b 4 0] [d 4 0]]");
    client.ok("CONFIG SET rl.top-keys 2");
    assert_eq!(show(&client.ok("RL.TOP")), "[[a 5 0] [b 4 0]]");
    client.ok("CONFIG SET rl.top-keys 10000");
    deny(&mut client, "e", 6);
    assert_eq!(show(&client.ok("RL.TOP")), "[[e 6 0] [a 5 0] [b 4 0]]");
    client.ok("CONFIG SET rl.top-keys 0");
    deny(&mut client, "a", 5);
    client.ok("CONFIG SET rl.top-keys 128");
    assert_eq!(show(&client.ok("RL.TOP")), "[]", "switched off, it forgets");
}

#[test]
fn heavy_keys_stand_out_of_a_flood() {
    let server = Server::start();
    let mut client = server.client();
    for batch in 0..40 {
        let mut lines: Vec<String> =
            (0..500).map(|n| format!("RL.TOKEN random:{batch}:{n} 1 1 COST 2")).collect();
        for heavy in 0..3 {
            lines.extend(vec![format!("RL.TOKEN heavy:{heavy} 1 1 COST 2"); 10 - heavy]);
        }
        client.pipeline(&lines);
    }
    let Value::Array(rows) = client.ok("RL.TOP COUNT 3") else { panic!("TOP") };
    for (heavy, row) in rows.iter().enumerate() {
        let Value::Array(row) = row else { panic!("{}", show(row)) };
        assert_eq!(show(&row[0]), format!("heavy:{heavy}"));
        let (Value::Int(denied), most) = (&row[1], 40 * (10 - heavy as i64)) else {
            panic!("count")
        };
        assert!(*denied <= most && *denied >= most - 20, "{denied} of {most}");
    }
    assert_eq!(client.int("DBSIZE"), 0);
}

#[test]
fn long_keys_are_shown_by_their_beginning() {
    let server = Server::start();
    let mut client = server.client();
    let key = "x".repeat(100_000);
    for _ in 0..2 {
        client.ok(&format!("RL.TOKEN {key} 1 1 COST 2"));
    }
    client.ok(&format!("RL.TOKEN {key}y 1 1 COST 2"));
    assert_eq!(show(&client.ok("RL.TOP")), format!("[[{0} 2 0] [{0} 1 0]]", &key[..512]));
}

/// All fields that count, by name.
fn fields(client: &mut Client) -> BTreeMap<String, i64> {
    let all = client.text("INFO rl_stats");
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.strip_prefix("rl_")?.to_owned(), value.trim().parse().ok()?))
    };
    all.lines().filter_map(field).collect()
}

/// Each line with the fields it moves, and by how much; no other field moves.
#[test]
fn info_counts_exactly() {
    let server = Server::start();
    let mut client = server.client();
    for line in [
        "RL.POLICY SET dry SLIDE 1 1h SHADOW",
        "RL.POLICY SET live FIXED 1 1h LEAKY 5 1 PER 1h",
        "CONFIG SET rl.slide-max-log 1000",
    ] {
        client.ok(line);
    }
    for (line, moves) in [
        ("RL.TOKEN t 2 1 PER 1h", "allowed 1 token_allowed 1"),
        ("RL.TOKEN t 2 1 PER 1h COST 2", "denied 1 token_denied 1"),
        ("RL.TOKEN t 2 1 PER 1h FORCE COST 2", "allowed 1 token_allowed 1"),
        ("RL.LEAKY l 1 1 PER 1h", "allowed 1 leaky_allowed 1"),
        ("RL.LEAKY l 1 1 PER 1h", "denied 1 leaky_denied 1"),
        ("RL.SLIDE s 1 1h BLOCKS 2", "allowed 1 slide_allowed 1"),
        ("RL.FIXED f 1 1h COST 9", "denied 1 fixed_denied 1"),
        ("CL.THROTTLE c 0 1 60", "allowed 1 token_allowed 1"),
        ("CL.THROTTLE c 0 1 60", "denied 1 token_denied 1"),
        ("CL.THROTTLE c 0 1 60 0", ""),
        // One per command in all, one per rule by algorithm.
        ("RL.CHARGE r TOKEN 9 1 TOKEN 9 1 FIXED 1 1h", "allowed 1 token_allowed 2 fixed_allowed 1"),
        ("RL.CHARGE r TOKEN 9 1 TOKEN 9 1 FIXED 1 1h", "denied 1 fixed_denied 1"),
        (
            "RL.CHARGE r TOKEN 9 1 TOKEN 9 1 FIXED 1 1h COST 9 1 1",
            "denied 1 token_denied 1 fixed_denied 1",
        ),
        ("RL.MCHARGE 2 m n LEAKY 9 1 SLIDE 1 1h", "allowed 1 leaky_allowed 1 slide_allowed 1"),
        ("RL.MCHARGE 2 m n LEAKY 9 1 SLIDE 1 1h", "denied 1 slide_denied 1"),
        ("RL.CHARGE p POLICY live", "allowed 1 fixed_allowed 1 leaky_allowed 1"),
        ("RL.CHARGE p POLICY live", "denied 1 fixed_denied 1"),
        ("RL.CHARGE d POLICY dry", "allowed 1 slide_allowed 1"),
        ("RL.CHARGE d POLICY dry", "allowed 1 shadow_denied 1 slide_denied 1"),
        ("RL.CHARGE d POLICY dry FIXED 1 1h COST 1 2", "denied 1 slide_denied 1 fixed_denied 1"),
        // Looking, giving back, generic commands and replies of null count nothing.
        ("RL.PEEK r", ""),
        ("RL.PEEK r TOKEN 9 1", ""),
        ("RL.INSPECT r", ""),
        ("RL.REFUND s", ""),
        ("RL.REFUND none", ""),
        ("RL.TOP", ""),
        ("RL.POLICY GET none", ""),
        ("DEL r", ""),
        ("RL.TOKEN t 0 1", "errors 1"),
        ("RL.TOKEN t 5 1 COST", "errors 1"),
        ("RL.SLIDE t 5 1h", "errors 1"),
        ("RL.SLIDE n 5000 1h", "errors 1"),
        ("RL.CHARGE t POLICY none", "errors 1"),
        ("RL.PEEK t SLIDE 5 1h", "errors 1"),
        ("RL.REFUND t COST 0", "errors 1"),
        ("RL.POLICY SET no/ne FIXED 1 1s", "errors 1"),
        ("RL.POLICY GET no/ne", "errors 1"),
        ("RL.TOP COUNT 0", "errors 1"),
        // Changed settings, stored by an allowed and by a denied call; the clock is stepped below.
        ("RL.FIXED g 5 1h", "allowed 1 fixed_allowed 1"),
        ("RL.FIXED g 6 1h", "allowed 1 fixed_allowed 1 settings_changes 1"),
        ("RL.FIXED g 1 1h", "denied 1 fixed_denied 1 settings_changes 1"),
        ("RL.FIXED g 1 1h", "denied 1 fixed_denied 1"),
        ("RL.CHARGE h FIXED 1 1h LEAKY 9 1", "allowed 1 fixed_allowed 1 leaky_allowed 1"),
        ("RL.CHARGE h FIXED 1 1h LEAKY 8 1", "denied 1 fixed_denied 1 settings_changes 1"),
        ("RL.POLICY SET third FIXED 1 1h", "policies 1"),
        ("RL.POLICY DEL dry third", "policies -2"),
    ] {
        let before = fields(&mut client);
        client.call(line);
        let mut after = fields(&mut client);
        let mut expected = before;
        let words: Vec<&str> = moves.split_whitespace().collect();
        for pair in words.chunks(2) {
            *expected.get_mut(pair[0]).expect(pair[0]) += pair[1].parse::<i64>().expect("a number");
        }
        for all in [&mut expected, &mut after] {
            if line.contains("POLICY") {
                all.remove("policies_digest");
            }
        }
        assert_eq!(after, expected, "{line}");
    }
    server.clock.advance(-10_000_000);
    let steps = |client: &mut Client| fields(client)["clock_steps"];
    client.ok("RL.FIXED g 1 1h");
    assert_eq!(steps(&mut client), 1, "a denied call repairs the mark");
    client.ok("RL.FIXED g 1 1h");
    assert_eq!(steps(&mut client), 1, "once");
    client.ok("RL.CHARGE h FIXED 1 1h LEAKY 8 1");
    assert_eq!(steps(&mut client), 2, "of a list, too");
    let version = env!("CARGO_PKG_VERSION")
        .split('.')
        .fold(0, |all, part| all * 100 + part.parse::<i64>().expect("a number"));
    assert_eq!(fields(&mut client)["version"], version);
    assert!(fields(&mut client)["policies_digest"] < 1 << 53, "exact in a float");
}

#[test]
fn replicated_decisions_are_counted_where_they_were_made() {
    let server = Server::start();
    let replica = Server::build().replica_of(&server).start();
    let mut client = server.client();
    for line in
        ["RL.FIXED k 1 1h", "RL.FIXED k 1 1h", "RL.FIXED k 2 1h", "RL.POLICY SET p FIXED 1 1h"]
    {
        client.ok(line);
    }
    server.wait_for(&replica);
    let mut there = fields(&mut replica.client());
    assert_eq!(there.remove("policies"), Some(1));
    assert_eq!(there.remove("policies_digest"), fields(&mut client).remove("policies_digest"));
    there.remove("version");
    assert!(there.values().all(|value| *value == 0), "{there:?}");
    assert_eq!(show(&replica.client().ok("RL.TOP")), "[]");
}

#[test]
fn denials_are_published_where_that_is_switched_on() {
    let server = Server::build().args("--notify-keyspace-events Ed").start();
    let mut client = server.client();
    let mut subscriber = server.client();
    subscriber.send(&["PSUBSCRIBE", "*"]);
    subscriber.receive();
    let mut after = |line: &str| events(&mut client, &mut subscriber, line);
    assert!(after("RL.POLICY SET dry FIXED 1 1h SHADOW").is_empty());
    assert!(after("RL.FIXED k 1 1h COST 2").is_empty(), "off until switched on");
    after("CONFIG SET rl.notify-denied yes");
    assert_eq!(after("RL.FIXED k 1 1h"), ["rl.charge k"]);
    assert_eq!(after("RL.FIXED k 1 1h"), ["rl.denied k"]);
    assert_eq!(after("RL.FIXED never 1 1h COST 2"), ["rl.denied never"]);
    assert_eq!(after("RL.CHARGE k FIXED 1 1h TOKEN 5 1"), ["rl.denied k"]);
    assert_eq!(after("CL.THROTTLE cell 0 1 60 2"), ["rl.denied cell"]);
    // Of many keys, those whose own rule denied.
    assert_eq!(
        after("RL.MCHARGE 3 k free m FIXED 1 1h FIXED 9 1h TOKEN 1 1 COST 2"),
        ["rl.denied k", "rl.denied m"]
    );
    // All of them keep their rules.
    assert_eq!(after("RL.FIXED free 9 1h"), ["rl.charge free"]);
    assert_eq!(after("RL.MCHARGE 2 free k FIXED 9 1h FIXED 1 1h"), ["rl.denied k"]);
    // A denial that stores changed settings is one event, and not one of a change.
    assert_eq!(after("RL.FIXED k 1 2h"), ["rl.denied k"]);
    for line in
        ["RL.PEEK k", "RL.PEEK k FIXED 1 2h", "RL.TOKEN k 5 1", "RL.FIXED k 0 1h", "RL.REFUND none"]
    {
        assert!(after(line).is_empty(), "{line}");
    }
    // What only shadow rules would have denied was not denied.
    assert_eq!(after("RL.CHARGE s POLICY dry"), ["rl.charge s"]);
    assert!(after("RL.CHARGE s POLICY dry").is_empty());
    assert_eq!(after("RL.FIXED k 1 2h FORCE"), ["rl.charge k"]);
    after("CONFIG SET rl.notify-denied no");
    assert!(after("RL.FIXED k 1 2h").is_empty());
}

#[test]
fn jitter_is_added_to_the_first_retry_of_a_denied_charge_alone() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("CONFIG SET rl.retry-jitter-ms 5000");
    client.ok("RL.CHARGE k FIXED 1 10s FIXED 5 1h");
    client.ok("RL.FIXED one 1 10s");
    client.ok("RL.FIXED kept 5 1h");
    client.ok("CL.THROTTLE cell 0 1 10");
    client.ok("RL.POLICY SET dry FIXED 1 10s SHADOW");
    client.ok("RL.CHARGE s POLICY dry");
    for (what, line, index) in [
        ("plain", "RL.FIXED one 1 10s", 2),
        ("list", "RL.CHARGE k FIXED 1 10s FIXED 5 1h", 2),
        ("keys", "RL.MCHARGE 2 one free FIXED 1 10s FIXED 5 1h", 2),
        ("kept keys", "RL.MCHARGE 2 one kept FIXED 1 10s FIXED 5 1h", 2),
        ("cell", "CL.THROTTLE cell 0 1 10", 3),
    ] {
        let unit = if what == "cell" { 1 } else { 1000 };
        let mut first = Vec::new();
        for _ in 0..200 {
            let reply = client.ok(line);
            let ints = support::client::ints(&reply);
            assert!((10 * unit..=15 * unit).contains(&ints[index]), "{what}: {}", show(&reply));
            first.push(ints[index]);
            if let Some(rows) = layers(&reply) {
                assert_eq!(rows[0][2], 10_000, "{what}");
                assert_eq!(rows[1][2], 0, "{what}");
            }
        }
        first.sort_unstable();
        // The wait is never shortened, and spread over the whole of the range.
        assert!(first[0] < 12 * unit && first[199] > 13 * unit, "{what}: {first:?}");
    }
    for _ in 0..50 {
        for (line, retry) in [
            ("RL.PEEK one", 10_000),
            ("RL.PEEK k FIXED 1 10s FIXED 5 1h", 10_000),
            ("RL.PEEK one COST 2", -1),
            ("RL.FIXED one 1 10s COST 2", -1),
            ("RL.CHARGE k FIXED 1 10s FIXED 5 1h COST 2 1", -1),
            ("RL.FIXED free 1000 10s", 0),
            ("RL.FIXED force 1 10s FORCE", 0),
            ("RL.CHARGE s POLICY dry", 0),
            ("RL.REFUND force", 0),
        ] {
            assert_eq!(client.six(line)[2], retry, "{line}");
        }
        assert_eq!(support::client::ints(&client.ok("CL.THROTTLE cell 0 1 10 0"))[3], -1);
    }
    client.ok("CONFIG SET rl.retry-jitter-ms 0");
    assert_eq!(client.six("RL.FIXED one 1 10s")[2], 10_000);
    // Who waits as told passes.
    server.clock.advance(10_000_000);
    assert_eq!(client.six("RL.FIXED one 1 10s")[0], 1);
}
