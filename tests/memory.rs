//! What the server does to values on its own account: evict, expire, free, move about in memory, measure.

mod support;

use support::client::{show, Client};
use support::{until, Server};

/// Some keys of each shape, small and large.
fn fill(client: &mut Client, from: usize, to: usize) {
    for number in from..to {
        let lines = [
            "RL.TOKEN t:# 5 1 PER 1d",
            "RL.LEAKY l:# 5 1 PER 1d",
            "RL.FIXED f:# 5 1d",
            "RL.SLIDE s:# 50 1d",
            "RL.SLIDE s:# 50 1d COST 3",
            "RL.SLIDE b:# 500 1d BLOCKS 24 COST 7",
            "RL.CHARGE c:# SLIDE 5 1d TOKEN 5 1 PER 1d SLIDE 9 1d BLOCKS 5",
        ]
        .map(|line| line.replace('#', &number.to_string()));
        for reply in client.pipeline(&lines) {
            assert_eq!(support::client::ints(&reply)[0], 1, "{}", show(&reply));
        }
    }
}

/// A log of many entries, each a millisecond after the one before.
fn large_log(server: &Server, client: &mut Client, key: &str, entries: usize) {
    let line = format!("RL.SLIDE {key} 100000 1d");
    for _ in 0..entries {
        server.clock.advance(1000);
        client.ok(&line);
    }
}

/// The server cannot know a limiter from a cache entry: an evicted one is as good as new, nothing worse.
#[test]
fn eviction_forgets_and_nothing_else() {
    for policy in ["volatile-ttl", "allkeys-random", "volatile-lru"] {
        let mut server = Server::build()
            .args(&format!("--maxmemory-policy {policy} --maxmemory-samples 10"))
            .start();
        let mut client = server.client();
        fill(&mut client, 0, 100);
        (0..5).for_each(|_| drop(client.call("RL.FIXED drained 5 1d")));
        assert_eq!(client.six("RL.FIXED drained 5 1d")[0], 0);
        let used = client.info_int("memory", "used_memory");
        client.ok(&format!("CONFIG SET maxmemory {}", used + 100_000));
        let value = "x".repeat(200);
        let mut number = 0;
        until("all limiters to be evicted", || {
            let lines: Vec<String> =
                (0..500).map(|n| format!("SET cache:{} {value} EX 1000000", number + n)).collect();
            number += 500;
            client.pipeline(&lines);
            client.int("EXISTS drained") == 0 && client.info_int("stats", "evicted_keys") > 700
        });
        client.ok("CONFIG SET maxmemory 0");
        let fresh = client.six("RL.FIXED drained 5 1d");
        assert_eq!(fresh[..2], [1, 4], "{policy}: as good as new");
        server.assert_well();
    }
}

/// A limiter that is used lives on where only unused keys go.
#[test]
fn what_never_expires_soon_is_evicted_last() {
    let server =
        Server::build().args("--maxmemory-policy volatile-ttl --maxmemory-samples 64").start();
    let mut client = server.client();
    (0..6).for_each(|_| drop(client.call("RL.FIXED long 5 30d")));
    let used = client.info_int("memory", "used_memory");
    client.ok(&format!("CONFIG SET maxmemory {}", used + 300_000));
    for batch in 0..20 {
        let lines: Vec<String> =
            (0..500).map(|n| format!("SET cache:{batch}:{n} {} EX 60", "x".repeat(100))).collect();
        client.pipeline(&lines);
    }
    assert!(client.info_int("stats", "evicted_keys") > 1000);
    assert_eq!(client.six("RL.FIXED long 5 30d")[0], 0, "still used up");
}

#[test]
fn expiry_by_the_server_and_by_access() {
    let mut server = Server::start();
    let mut client = server.client();
    client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
    for line in ["RL.SLIDE k 2 10s", "RL.SLIDE k 2 10s", "RL.CHARGE c SLIDE 5 10s FIXED 5 10s"] {
        client.ok(line);
    }
    assert_eq!(client.six("RL.SLIDE k 2 10s")[0], 0);
    server.clock.advance(60_000_000);
    assert_eq!(client.int("DBSIZE"), 2, "nobody has looked yet");
    assert_eq!(client.six("RL.SLIDE k 2 10s")[..2], [1, 1]);
    assert_eq!(client.call("RL.PEEK c"), redis::Value::Nil);
    client.ok("DEBUG SET-ACTIVE-EXPIRE 1");
    server.clock.advance(3_600_000_000);
    until("active expiry", || client.int("DBSIZE") == 0);
    server.assert_well();
}

/// Freed at once or by another thread, a value leaves nothing behind.
#[test]
fn freeing_in_the_background() {
    let mut server = Server::start();
    let mut client = server.client();
    let empty = client.info_int("memory", "used_memory");
    large_log(&server, &mut client, "big", 5000);
    fill(&mut client, 0, 50);
    // A server frees in the background what takes long.
    let freed = |client: &mut Client| client.info_int("memory", "lazyfreed_objects");
    large_log(&server, &mut client, "little", 500);
    assert_eq!((client.int("UNLINK little"), freed(&mut client)), (1, 0));
    assert_eq!(client.int("UNLINK big"), 1);
    until("the log to be freed", || freed(&mut client) == 1);
    large_log(&server, &mut client, "big", 2000);
    client.ok("CONFIG RESETSTAT");
    client.ok("FLUSHALL ASYNC");
    until("all to be freed", || {
        client.info_int("memory", "lazyfreed_objects") >= 300
            && client.info_int("memory", "lazyfree_pending_objects") == 0
    });
    for round in 0..20 {
        fill(&mut client, 0, 50);
        client.ok(if round % 2 == 0 { "FLUSHALL ASYNC" } else { "FLUSHALL SYNC" });
    }
    until("memory to come back", || {
        client.info_int("memory", "lazyfree_pending_objects") == 0
            && client.info_int("memory", "used_memory") - empty < 300_000
    });
    // Overwritten and restored over, too.
    for _ in 0..50 {
        client.ok("RL.CHARGE k SLIDE 5 1d TOKEN 5 1 PER 1d");
        client.ok("SET k over");
        client.ok("DEL k");
    }
    server.assert_well();
}

#[test]
fn memory_usage_tells_what_a_key_takes() {
    let server = Server::start();
    let mut client = server.client();
    let usage = |client: &mut Client, key: &str| client.int(&format!("MEMORY USAGE {key}"));
    client.ok("RL.TOKEN token 5 1");
    let token = usage(&mut client, "token");
    assert!((50..250).contains(&token), "{token} bytes");
    client.ok("RL.SLIDE log 100000 1d");
    let one = usage(&mut client, "log");
    large_log(&server, &mut client, "log", 4000);
    let many = usage(&mut client, "log");
    // An entry is a stamp and a running total; room grows ahead of need, but not without bound.
    assert!((4000 * 4..4000 * 40).contains(&(many - one)), "{one} {many}");
    // The server's own count agrees: what a thousand copies add is what they say they take.
    let before = client.info_int("memory", "used_memory");
    for number in 0..200 {
        assert_eq!(client.int(&format!("COPY log copy:{number}")), 1);
    }
    let real = (client.info_int("memory", "used_memory") - before) / 200;
    let told = usage(&mut client, "copy:7");
    assert!((told - real).abs() < real / 3, "{told} told, {real} taken");
}

/// Moved about in memory, a value stays what it is.
#[test]
fn defragmentation_changes_nothing() {
    let mut server = Server::build().running_clock(0).start();
    let mut client = server.client();
    if support::client::is_error(&client.call("CONFIG SET activedefrag yes")) {
        return support::skip("this server has no active defragmentation");
    }
    client.ok("CONFIG SET activedefrag no");
    fill(&mut client, 0, 4000);
    // Logs in one block beside their own, and in chunks.
    for number in 0..60 {
        large_log(&server, &mut client, &format!("mid:{number}"), 5 + number);
        large_log(&server, &mut client, &format!("big:{number}"), 200);
    }
    assert!(client.int("MEMORY USAGE big:7") > 200 * 8);
    // Holes of every size.
    for number in 0..4000 {
        if number % 4 != 0 {
            let lines: Vec<String> = ["t", "l", "f", "s", "b", "c", "mid", "big"]
                .map(|name| format!("DEL {name}:{number}"))
                .into();
            client.pipeline(&lines);
        }
    }
    let keys = support::work::keys(&mut client);
    assert!(keys.len() > 5000);
    let before = support::work::pictures(&mut client, &keys);
    for line in [
        "CONFIG SET active-defrag-ignore-bytes 1",
        "CONFIG SET active-defrag-threshold-lower 1",
        "CONFIG SET active-defrag-threshold-upper 2",
        "CONFIG SET active-defrag-cycle-min 40",
        "CONFIG SET active-defrag-cycle-max 60",
        "CONFIG SET activedefrag yes",
    ] {
        client.ok(line);
    }
    let start = client.info_int("stats", "active_defrag_key_hits");
    until("values to be moved", || {
        client.info_int("stats", "active_defrag_key_hits") > start + 2000
    });
    assert_eq!(support::work::pictures(&mut client, &keys), before);
    // Charges on values that move.
    fill(&mut client, 10_000, 10_500);
    for number in 0..4000 {
        client
            .call(&format!("RL.CHARGE c:{number} SLIDE 5 1d TOKEN 5 1 PER 1d SLIDE 9 1d BLOCKS 5"));
    }
    println!("{} keys had parts moved", client.info_int("stats", "active_defrag_key_hits") - start);
    client.ok("DEBUG RELOAD");
    server.assert_well();
}
