//! A limiter behaves as any key of the server does, and its commands as any command.

mod support;

use redis::Value;
use support::client::{entry, ints, pairs, show, text, texts};
use support::{until, Server};

#[test]
fn both_protocols_say_the_same() {
    let servers = [Server::start(), Server::start()];
    let mut clients = [servers[0].client(), servers[1].client()];
    clients[0].hello(2);
    clients[1].hello(3);
    for line in [
        "RL.TOKEN t 5 1",
        "RL.CHARGE c SLIDE 1 60s LEAKY 5 1",
        "RL.CHARGE c SLIDE 1 60s LEAKY 5 1",
        "RL.MCHARGE 2 a b FIXED 5 1s FIXED 5 1s",
        "RL.PEEK c",
        "RL.PEEK none",
        "RL.REFUND t",
        "RL.REFUND none",
        "RL.INSPECT none",
        "RL.POLICY SET p SLIDE 5 60s BLOCKS 4 TOKEN 3 1 PER 2s",
        "RL.POLICY LIST",
        "RL.POLICY GET none",
        "RL.TOP",
        "CL.THROTTLE u 15 30 60",
        "RL.TOKEN t 0 1",
    ] {
        let [old, new] = clients.each_mut().map(|c| c.call(line));
        assert_eq!(old, new, "{line}");
    }
    // Maps are flat arrays in RESP2; what is in them is the same.
    let [old, new] = clients.each_mut().map(|c| c.ok("RL.POLICY GET p"));
    assert_eq!(pairs(&old), pairs(&new));
    assert!(matches!((&old, &new), (Value::Array(_), Value::Map(_))));
    let [old, new] = clients.each_mut().map(|c| c.ok("RL.INSPECT c"));
    let rules = |reply: &Value| match entry(reply, "rules") {
        Some(Value::Array(rules)) => rules.iter().map(pairs).collect::<Vec<_>>(),
        _ => panic!("{}", show(reply)),
    };
    assert_eq!(rules(&old), rules(&new));
    assert_eq!(rules(&old).len(), 2);
    for field in ["algorithm", "used", "remaining", "reset_after_ms"] {
        assert!(rules(&old)[0].iter().any(|(name, _)| name == field), "{field}: {}", show(&old));
    }
}

#[test]
fn policy_get_tells_rules_that_set_takes_again() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("RL.POLICY SET p slide 5 60s blocks 4 token 3 1 FIXED 9 1d ALIGN -8h LEAKY 2 3 PER 5m SHADOW");
    let get = client.ok("RL.POLICY GET p");
    let rules = texts(&entry(&get, "rules").expect("rules"));
    assert_eq!(rules.len(), 4, "{rules:?}");
    assert_eq!(entry(&get, "shadow"), Some(Value::Int(1)));
    let version = entry(&get, "version").expect("version");
    client.ok(&format!("RL.POLICY SET p {} SHADOW", rules.join(" ")));
    assert_eq!(
        entry(&client.ok("RL.POLICY GET p"), "version"),
        Some(version),
        "unchanged rules change nothing"
    );
    client.ok(&format!("RL.POLICY SET q {}", rules.join(" ")));
    assert_eq!(texts(&entry(&client.ok("RL.POLICY GET q"), "rules").expect("rules")), rules);
    client.ok("FLUSHALL");
    assert_eq!(client.text("RL.POLICY SET p FIXED 1 1s"), "OK");
    assert_eq!(texts(&client.ok("RL.POLICY LIST")), ["p", "q"]);
    for (line, counts) in [
        ("RL.CHARGE k POLICY p", (1, 0)),
        ("RL.CHARGE k POLICY p", (1, 1)),
        ("RL.PEEK k POLICY p", (1, 1)),
    ] {
        client.ok(line);
        let get = client.ok("RL.POLICY GET p");
        let count = |name: &str| entry(&get, name);
        assert_eq!(
            (count("allowed"), count("denied")),
            (Some(Value::Int(counts.0)), Some(Value::Int(counts.1))),
            "{line}"
        );
    }
}

#[test]
fn transactions_scripts_and_functions_answer_as_plain_calls() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("MULTI");
    (0..3).for_each(|_| drop(client.ok("RL.TOKEN m 2 1")));
    client.ok("RL.PEEK m");
    let Value::Array(replies) = client.ok("EXEC") else { panic!("EXEC") };
    let remaining: Vec<Vec<i64>> = replies.iter().map(|r| ints(r)[..2].to_vec()).collect();
    assert_eq!(remaining, [[1, 1], [1, 0], [0, 0], [0, 0]]);

    let script = "return redis.call('RL.SLIDE', KEYS[1], 2, '1s')";
    let eval = |client: &mut support::Client| ints(&client.run(&["EVAL", script, "1", "e"]));
    assert_eq!(eval(&mut client), [1, 1, 0, 1000, 2, 0]);
    assert_eq!(eval(&mut client), [1, 0, 0, 1000, 2, 0]);
    assert_eq!(eval(&mut client), [0, 0, 1000, 1000, 2, 0]);
    let reply = client.run(&["EVAL_RO", "return redis.call('RL.PEEK', KEYS[1])", "1", "e"]);
    assert_eq!(ints(&reply), [0, 0, 1000, 1000, 2, 0]);
    let reply = client.run(&["EVAL_RO", script, "1", "e"]);
    assert!(support::client::is_error(&reply), "{}", show(&reply));

    let library = "#!lua name=limits\nredis.register_function('hit', function(keys) return redis.call('RL.FIXED', keys[1], 2, '1s') end)";
    client.run(&["FUNCTION", "LOAD", library]);
    assert_eq!(client.six("FCALL hit 1 f"), [1, 1, 0, 1000, 2, 0]);
}

#[test]
fn above_maxmemory_charges_are_refused_and_the_rest_works() {
    let server = Server::build().args("--maxmemory-policy noeviction").start();
    let mut client = server.client();
    client.ok("RL.TOKEN k 5 1 COST 3");
    client.ok("RL.POLICY SET p FIXED 1 1s");
    client.ok("CONFIG SET maxmemory 1");
    for line in [
        "RL.TOKEN k 5 1",
        "RL.LEAKY n 5 1",
        "RL.SLIDE n 5 1s",
        "RL.FIXED n 5 1s FORCE",
        "RL.CHARGE k TOKEN 5 1",
        "RL.MCHARGE 1 k TOKEN 5 1",
        "CL.THROTTLE n 15 30 60",
        "RL.POLICY SET q FIXED 1 1s",
    ] {
        let text = client.error(line);
        assert!(text.starts_with("OOM"), "{line}: {text}");
    }
    for line in [
        "RL.PEEK k",
        "RL.INSPECT k",
        "RL.REFUND k",
        "RL.TOP",
        "RL.POLICY GET p",
        "INFO rl_stats",
        "RL.POLICY DEL p",
        "DEL k",
    ] {
        client.ok(line);
    }
}

#[test]
fn a_replica_reads_and_does_not_charge() {
    let server = Server::start();
    let replica = Server::build().replica_of(&server).start();
    server.client().ok("RL.TOKEN k 5 1");
    server.wait_for(&replica);
    let mut client = replica.client();
    for line in [
        "RL.TOKEN k 5 1",
        "RL.CHARGE k TOKEN 5 1",
        "RL.REFUND k",
        "RL.POLICY SET p FIXED 1 1s",
        "CL.THROTTLE k 4 1 1",
    ] {
        let text = client.error(line);
        assert!(text.starts_with("READONLY"), "{line}: {text}");
    }
    assert_eq!(client.six("RL.PEEK k"), [1, 4, 0, 1000, 5, 0]);
    client.ok("RL.INSPECT k");
    client.ok("RL.TOP");
    client.ok("RL.POLICY LIST");
}

/// Every generic command works on a key of each shape.
#[test]
fn generic_key_commands_work() {
    let mut server = Server::start();
    let mut client = server.client();
    for charge in [
        "RL.TOKEN k 5 1 PER 1h",
        "RL.LEAKY k 5 1 PER 1h",
        "RL.SLIDE k 5 1h",
        "RL.SLIDE k 5 1h BLOCKS 4",
        "RL.FIXED k 5 1h ALIGN 5m",
        "RL.CHARGE k SLIDE 5 1h TOKEN 9 1",
    ] {
        client.ok("FLUSHALL");
        assert_eq!(client.six(charge)[..2], [1, 4], "{charge}");
        let peek = client.ok("RL.PEEK k");
        assert_eq!(client.text("TYPE k"), "ratelimit");
        assert_eq!(client.text("OBJECT ENCODING k"), "raw");
        assert_eq!(client.int("OBJECT REFCOUNT k"), 1);
        assert!(client.int("MEMORY USAGE k") > 0);
        let Value::Array(scan) = client.ok("SCAN 0 COUNT 100 TYPE ratelimit") else {
            panic!("SCAN")
        };
        assert_eq!(texts(&scan[1]), ["k"]);
        client.ok("SET plain 1");
        assert_eq!(client.int("EXPIRE k 100"), 1);
        assert_eq!(client.int("TTL k"), 100);
        assert_eq!(client.int("PERSIST k"), 1);
        assert_eq!(client.int("PTTL k"), -1);
        assert_eq!(client.ok("RL.PEEK k"), peek);
        client.ok("PEXPIRE k 5000000");
        assert_eq!(client.int("COPY k copy"), 1);
        assert_eq!(client.int("PTTL copy"), 5_000_000);
        client.ok("RENAME k moved");
        assert_eq!(client.ok("RL.PEEK moved"), peek);
        assert_eq!(client.ok("RL.PEEK copy"), peek);
        // A copy is a limiter of its own.
        client.ok(&charge.replace(" k ", " copy "));
        assert_eq!(client.ok("RL.PEEK moved"), peek);
        let Value::BulkString(dump) = client.ok("DUMP moved") else { panic!("DUMP") };
        assert_eq!(client.run(&[b"RESTORE".as_slice(), b"back", b"5000000", &dump]), Value::Okay);
        assert_eq!(client.ok("RL.PEEK back"), peek);
        let digest =
            |c: &mut support::Client, key: &str| show(&c.ok(&format!("DEBUG DIGEST-VALUE {key}")));
        assert_eq!(digest(&mut client, "back"), digest(&mut client, "moved"));
        assert_ne!(digest(&mut client, "copy"), digest(&mut client, "moved"));
        assert_eq!(client.int("MOVE back 1"), 1);
        assert_eq!(client.int("UNLINK copy moved"), 2);
        assert_eq!(client.int("DBSIZE"), 1);
        client.ok(charge);
        for line in ["INCR k", "GET k", "APPEND k x", "LPUSH k x", "HSET k a b"] {
            let text = client.error(line);
            assert!(text.starts_with("WRONGTYPE"), "{line}: {text}");
        }
        client.ok("SET k over");
        assert_eq!(client.text("GET k"), "over");
    }
    server.assert_well();
}

#[test]
fn keys_go_by_themselves() {
    let server = Server::start();
    let mut client = server.client();
    for number in 0..50 {
        for line in [
            "RL.TOKEN t:# 5 1",
            "RL.LEAKY l:# 5 1",
            "RL.SLIDE s:# 5 1s",
            "RL.SLIDE b:# 5 1s BLOCKS 4",
            "RL.FIXED f:# 5 1s",
        ] {
            client.ok(&line.replace('#', &number.to_string()));
        }
    }
    assert_eq!(client.int("DBSIZE"), 250);
    server.clock.at_ms(20_000);
    until("active expiry", || client.int("DBSIZE") == 0);
}

#[test]
fn settings_are_read_checked_and_obeyed() {
    let server = Server::start();
    let mut client = server.client();
    let defaults = [
        ("rl.slide-max-log", "100000", ["0", "1000001", "x"], "1000000"),
        ("rl.max-policies", "1024", ["-1", "65537", "x"], "0"),
        ("rl.top-keys", "128", ["-1", "10001", "x"], "10000"),
        ("rl.retry-jitter-ms", "0", ["-1", "60001", "x"], "60000"),
        ("rl.notify-denied", "no", ["2", "maybe", ""], "yes"),
    ];
    for (name, default, bad, good) in defaults {
        assert_eq!(client.config(name).as_deref(), Some(default), "{name}");
        for value in bad {
            assert!(
                support::client::is_error(&client.run(&["CONFIG", "SET", name, value])),
                "{name} {value}"
            );
        }
        assert_eq!(client.config(name).as_deref(), Some(default), "{name}");
        client.ok(&format!("CONFIG SET {name} {good}"));
        assert_eq!(client.config(name).as_deref(), Some(good), "{name}");
        client.ok(&format!("CONFIG SET {name} {default}"));
    }

    client.ok("RL.SLIDE kept 6 1h");
    client.ok("CONFIG SET rl.slide-max-log 5");
    assert!(client.error("RL.SLIDE k 6 1s").contains("BLOCKS"));
    client.ok("RL.SLIDE k 6 1s BLOCKS 3");
    client.ok("RL.SLIDE k2 5 1s");
    assert_eq!(
        client.six("RL.SLIDE kept 6 1h")[..2],
        [1, 4],
        "arguments equal to the kept ones are not checked"
    );
    assert!(client.error("RL.SLIDE kept 7 1h").contains("BLOCKS"));

    // In a list: as long as the position is there. Fresh, and beyond what was asked for last, it is not.
    client.ok("CONFIG SET rl.slide-max-log 6");
    client.six("RL.CHARGE list SLIDE 3 1h SLIDE 6 1h FIXED 10 1d");
    server.clock.advance(1_000_000);
    client.six("RL.CHARGE list SLIDE 3 1h");
    client.ok("CONFIG SET rl.slide-max-log 5");
    assert_eq!(client.six("RL.PEEK list SLIDE 3 1h SLIDE 6 1h")[..2], [1, 1]);
    server.clock.advance(3_599_000_000);
    assert!(client.error("RL.PEEK list SLIDE 3 1h SLIDE 6 1h").contains("(rule 2)"));
    assert!(client.error("RL.CHARGE list SLIDE 3 1h SLIDE 6 1h").contains("(rule 2)"));
    assert_eq!(client.six("RL.CHARGE list SLIDE 3 1h SLIDE 5 1h FIXED 10 1d")[..2], [1, 1]);

    client.ok("CONFIG SET rl.max-policies 1");
    client.ok("RL.POLICY SET a FIXED 1 1s");
    assert!(client.error("RL.POLICY SET b FIXED 1 1s").starts_with("ERR"));
    client.ok("RL.POLICY SET a FIXED 2 1s");

    client.ok("CONFIG SET rl.retry-jitter-ms 1000");
    client.ok("RL.FIXED j 1 10s");
    let mut retries: Vec<i64> = (0..50).map(|_| client.six("RL.FIXED j 1 10s")[2]).collect();
    assert!(retries.iter().all(|r| (10_000..=11_000).contains(r)), "{retries:?}");
    retries.sort_unstable();
    retries.dedup();
    assert!(retries.len() > 1);
}

#[test]
fn settings_may_come_with_the_start() {
    let server = Server::build().args("--rl.slide-max-log 7 --rl.notify-denied yes").start();
    let mut client = server.client();
    assert_eq!(client.config("rl.slide-max-log").as_deref(), Some("7"));
    assert_eq!(client.config("rl.notify-denied").as_deref(), Some("yes"));
    assert!(Server::build().args("--rl.slide-max-log 0").try_start().is_err());
}

#[test]
fn info_counts() {
    let server = Server::start();
    let mut client = server.client();
    let names = "rl_allowed rl_denied rl_shadow_denied rl_errors rl_settings_changes rl_clock_steps rl_policies \
        rl_policies_digest rl_version rl_token_allowed rl_token_denied rl_leaky_allowed rl_leaky_denied \
        rl_slide_allowed rl_slide_denied rl_fixed_allowed rl_fixed_denied";
    for section in ["rl_stats", "modules", "everything"] {
        for name in names.split_whitespace() {
            let value =
                client.info(section, name).unwrap_or_else(|| panic!("{name} in INFO {section}"));
            assert!(value.parse::<u64>().is_ok(), "{name}:{value}");
        }
    }
    let counts = |c: &mut support::Client| -> Vec<i64> {
        [
            "rl_allowed",
            "rl_denied",
            "rl_slide_allowed",
            "rl_slide_denied",
            "rl_fixed_allowed",
            "rl_fixed_denied",
            "rl_errors",
        ]
        .map(|name| c.info_int("rl_stats", name))
        .to_vec()
    };
    assert_eq!(counts(&mut client), [0; 7]);
    client.ok("RL.CHARGE k SLIDE 1 1h FIXED 5 1h");
    assert_eq!(counts(&mut client), [1, 0, 1, 0, 1, 0, 0]);
    client.ok("RL.CHARGE k SLIDE 1 1h FIXED 5 1h");
    assert_eq!(counts(&mut client), [1, 1, 1, 1, 1, 0, 0]);
    client.ok("RL.PEEK k");
    client.call("RL.TOKEN k 0 1");
    assert_eq!(counts(&mut client), [1, 1, 1, 1, 1, 0, 1]);
    client.ok("RL.POLICY SET p FIXED 1 1h");
    assert_eq!(client.info_int("rl_stats", "rl_policies"), 1);
    client.ok("RL.FIXED s 1 1h");
    client.ok("RL.FIXED s 2 1h");
    assert_eq!(client.info_int("rl_stats", "rl_settings_changes"), 1);
    server.clock.advance(-10_000_000);
    client.ok("RL.FIXED s 2 1h");
    assert!(client.info_int("rl_stats", "rl_clock_steps") >= 1);
}

#[test]
fn top_lists_the_most_denied() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(show(&client.ok("RL.TOP")), "[]");
    for (key, calls) in [("a", 3), ("b", 6), ("c", 1)] {
        (0..calls).for_each(|_| drop(client.ok(&format!("RL.FIXED {key} 1 1h"))));
    }
    assert_eq!(show(&client.ok("RL.TOP")), "[[b 5 0] [a 2 0]]");
    assert_eq!(show(&client.ok("RL.TOP COUNT 1 RESET")), "[[b 5 0]]");
    assert_eq!(show(&client.ok("RL.TOP")), "[]");
    assert_eq!(text(&client.ok("PING")).as_deref(), Some("PONG"));
}
