//! What happens to one server while twelve writers ask for more than is allowed: it is killed, its disk fills,
//! it reloads, its clock steps, its memory runs out. Each time it lives or comes back, no more is allowed than
//! the limit and what the documentation says may be lost, and its replica holds the same.
//!
//! Short by default; `make faults` repeats each fault (`RL_FAULT_ROUNDS`).

mod support;

use std::collections::HashMap;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use support::client::{six, split, texts};
use support::crowd::{assert_all_expire, assert_equal, rounds, Crowd, WRITERS};
use support::{traffic, until, Server};

const DAY_US: i64 = 86_400_000_000;

/// A primary that appends, on a disk of its own, and a replica. Their clocks run.
fn pair(fsync: &str) -> (Server, Server) {
    let primary = Server::build()
        .running_clock(0)
        .own_disk()
        .args(&format!("--appendonly yes --appendfsync {fsync}"))
        .start();
    let replica = Server::build().running_clock(0).replica_of(&primary).start();
    primary.wait_for(&replica);
    (primary, replica)
}

#[test]
fn killed_with_each_write_on_disk() {
    (0..rounds()).for_each(|_| killed_on_a_careful_disk());
}

fn killed_on_a_careful_disk() {
    const CALLS: i64 = 200;
    let kills = 5;
    let (mut primary, mut replica) = pair("always");
    let limit = CALLS * kills as i64 * 3;
    let mut crowd = Crowd::start(&primary, "kill", limit, &["LOADING"]);
    for _ in 0..kills {
        crowd.more(CALLS);
        crowd.leave(|| primary.kill());
        primary.restart();
        let lost = crowd.come_back(&primary);
        assert_eq!(lost.iter().sum::<i64>(), 0, "{lost:?}");
    }
    crowd.finish(&mut primary, kills * WRITERS);
    assert_equal(&primary, &mut replica);
}

/// The file is written to before anybody is answered; only while the disk is busy it is put off, for at most
/// two seconds. So little is lost that way, and what is lost was allowed at the very end.
#[test]
fn killed_with_the_disk_synced_every_second() {
    (0..rounds()).for_each(|_| killed_on_a_slow_disk());
}

fn killed_on_a_slow_disk() {
    const SYNC: Duration = Duration::from_millis(1200);
    /// While the disk is busy nothing is written; the second from one sync to the next comes on top.
    const WINDOW: Duration = Duration::from_millis(1200 + 1000);
    /// Of all lines together, before the window.
    const CALLS: i64 = 1000;
    const LIMIT: i64 = 6000;
    let kills = 4;
    let (mut primary, mut replica) = pair("everysec");
    primary.disk().sync_takes(SYNC);
    let mut crowd = Crowd::start(&primary, "slow", LIMIT, &["LOADING"]);
    // Slow enough for the limit to outlast the windows.
    crowd.pace(Duration::from_millis(5));
    for _ in 0..kills {
        let counts = crowd.traffic.counts.clone();
        let begin = counts.total();
        let mut samples = vec![(Instant::now(), begin)];
        let mut written = begin;
        until("traffic for longer than the window", || {
            if samples.last().is_some_and(|(when, _)| when.elapsed() >= Duration::from_millis(50)) {
                samples.push((Instant::now(), counts.total()));
            }
            let old = samples.iter().rev().find(|(when, _)| when.elapsed() >= WINDOW);
            written = old.map_or(begin, |(_, total)| *total);
            written > begin + CALLS
        });
        crowd.leave(|| primary.kill());
        let total = counts.total();
        primary.restart();
        let lost: i64 = crowd.come_back(&primary).iter().sum();
        println!(
            "everysec: {lost} lost of {} allowed, {} of them within the window",
            total - begin,
            total - written
        );
        assert!(lost <= total - written, "{lost} lost, {} allowed in the window", total - written);
        assert!(total < LIMIT * crowd.lines.len() as i64, "the limit was reached before the kill");
    }
    primary.disk().sync_takes(Duration::ZERO);
    crowd.pace(Duration::ZERO);
    crowd.finish(&mut primary, kills * WRITERS);
    assert_equal(&primary, &mut replica);
}

/// Answers whether the primary now refuses to write.
fn disk_is_full(primary: &Server) -> bool {
    primary.client().info("persistence", "aof_last_write_status").as_deref() == Some("err")
}

/// While nothing can be written nothing is charged; what was allowed before is written when there is room.
#[test]
fn a_full_disk_synced_every_second() {
    (0..rounds()).for_each(|_| full_disk_and_refusals());
}

fn full_disk_and_refusals() {
    let (mut primary, mut replica) = pair("everysec");
    let fills = 2;
    let limit = 1500 * fills as i64;
    let mut crowd = Crowd::start(&primary, "full", limit, &["LOADING", "MISCONF"]);
    for fill in 0..fills {
        crowd.more(200);
        // So small that some write is cut in the middle.
        primary.disk().room(7777);
        until("the disk to be full", || disk_is_full(&primary));
        let refused = crowd.refused();
        until("refusals", || crowd.refused() > refused + 2 * WRITERS);
        let stopped = crowd.known(&primary);
        let mut client = primary.client();
        let text = client.error(&crowd.lines[0]);
        assert!(text.starts_with("MISCONF") && text.contains("No space left"), "{text}");
        assert_eq!(crowd.known(&primary), stopped, "charged without being written");
        if fill % 2 == 0 {
            primary.disk().free();
            until("the file to be written", || !disk_is_full(&primary));
        } else {
            // Lost with the server: what was allowed in the one turn in which the disk turned out to be full.
            crowd.leave(|| primary.kill());
            primary.disk().free();
            primary.restart();
            let lost = crowd.come_back(&primary);
            println!("full disk and killed: lost {lost:?}");
            assert!(lost.iter().sum::<i64>() <= WRITERS as i64, "{lost:?}");
        }
    }
    crowd.finish(&mut primary, fills * WRITERS);
    assert_equal(&primary, &mut replica);
}

/// Told to confirm nothing that is not on disk, a server that cannot write gives up, and nothing is lost.
#[test]
fn a_full_disk_with_each_write_on_disk() {
    (0..rounds()).for_each(|_| full_disk_and_the_end());
}

fn full_disk_and_the_end() {
    let (mut primary, mut replica) = pair("always");
    let fills = 2;
    let mut crowd = Crowd::start(&primary, "full", 1000 * fills as i64, &["LOADING", "MISCONF"]);
    for _ in 0..fills {
        crowd.more(200);
        crowd.leave(|| {
            primary.disk().room(7777);
            until("the server to give up", || !primary.alive());
        });
        assert!(primary.log().contains("Can't recover from AOF write error"), "{}", primary.log());
        primary.disk().free();
        primary.restart();
        let lost = crowd.come_back(&primary);
        assert_eq!(lost.iter().sum::<i64>(), 0, "{lost:?}");
    }
    crowd.finish(&mut primary, fills * WRITERS);
    assert_equal(&primary, &mut replica);
}

#[test]
fn reloaded_again_and_again() {
    (0..rounds()).for_each(|_| reloads());
}

fn reloads() {
    let (mut primary, mut replica) = pair("everysec");
    let reloads = 20;
    let crowd = Crowd::start(&primary, "load", 120 * reloads as i64, &["LOADING"]);
    let mut client = primary.client();
    for number in 0..reloads {
        crowd.more(40);
        client.ok(if number % 2 == 0 { "DEBUG RELOAD" } else { "DEBUG LOADAOF" });
    }
    crowd.finish(&mut primary, 0);
    assert_equal(&primary, &mut replica);
}

/// No step back refills anything, and steps forward that stay within the window do not either.
#[test]
fn clock_steps_that_refill_nothing() {
    (0..rounds()).for_each(|_| steps_within_the_window());
}

fn steps_within_the_window() {
    let (mut primary, mut replica) = pair("everysec");
    let seconds =
        [1, -1, 30, -60, 600, -3600, 3600, -86_400, 7200, -3 * 86_400, 20_000, -30 * 86_400];
    let forward: i64 = seconds.iter().filter(|s| **s > 0).sum();
    assert!(forward < 86_400);
    let steps = seconds.len();
    let crowd = Crowd::start(&primary, "clock", 150 * steps as i64, &[]);
    for (number, step) in seconds.iter().enumerate() {
        crowd.more(50);
        primary.clock.advance(step * 1_000_000);
        // The replica's clock goes its own way.
        replica.clock.advance(seconds[steps - 1 - number] * 1_000_000);
    }
    crowd.more(50);
    crowd.finish(&mut primary, 0);
    let repaired = primary.client().info_int("rl_stats", "rl_clock_steps");
    assert!(repaired > 0, "no limiter noticed");
    replica.clock.set(primary.clock.us());
    assert_equal(&primary, &mut replica);
}

/// A step over a whole window gives at most one limit more; buckets fill for the time that was stepped over.
fn steps_over_whole_windows() {
    const LIMIT: i64 = 400;
    let (mut primary, mut replica) = pair("everysec");
    let crowd = Crowd::start(&primary, "days", LIMIT, &[]);
    crowd.more(LIMIT);
    let (mut forward, mut windows) = (0, 0);
    for days in [-1, 3, -10, 2, 1, -2, 30] {
        primary.clock.advance(days * DAY_US);
        forward += days.max(0);
        windows += i64::from(days > 0);
        let goal = crowd.traffic.counts.answered() + 1000;
        until("calls", || crowd.traffic.counts.answered() > goal);
    }
    let lines = crowd.lines;
    let counts = crowd.traffic.finish();
    for (number, line) in lines.iter().enumerate() {
        let allowed = counts.allowed(number);
        // RL.CHARGE does not charge its bucket, RL.MCHARGE is held back by its.
        let bucket = line.contains(&format!("{LIMIT} 1 PER 5d"));
        let refilled = if bucket { forward / 5 } else { windows * LIMIT };
        assert!(allowed <= LIMIT + refilled, "{line}: {allowed} allowed");
        assert!(bucket || allowed > LIMIT, "{line}: {allowed} allowed, no window ever closed");
    }
    assert_all_expire(&primary);
    primary.assert_well();
    replica.clock.set(primary.clock.us());
    assert_equal(&primary, &mut replica);
}

#[test]
fn clock_steps_over_whole_windows() {
    (0..rounds()).for_each(|_| steps_over_whole_windows());
}

/// Listens to the server's own word on what it evicts, until it hears `end`.
fn evictions(primary: &Server) -> JoinHandle<HashMap<String, i64>> {
    let mut client = primary.client();
    client.ok("CONFIG SET notify-keyspace-events Ee");
    client.ok("SUBSCRIBE __keyevent@0__:evicted");
    std::thread::spawn(move || {
        let mut evicted = HashMap::new();
        loop {
            let key = texts(&client.receive()).pop().expect("a key");
            if key == "end" {
                return evicted;
            }
            *evicted.entry(key).or_insert(0) += 1;
        }
    })
}

/// Each eviction of a limiter gives at most one limit more, and without eviction it holds.
fn memory_runs_out(primary: &mut Server, replica: &mut Server, policy: &str) {
    const LIMIT: i64 = 300;
    let mut client = primary.client();
    client.ok("FLUSHALL");
    client.ok(&format!("CONFIG SET maxmemory-policy {policy}"));
    client.ok("CONFIG RESETSTAT");
    let listener = evictions(primary);
    let crowd = Crowd::start(primary, policy, LIMIT, &["OOM"]);
    crowd.more(LIMIT / 3);
    let used = client.info_int("memory", "used_memory");
    // Room for what buffers take by themselves, too. The backlog is one of them, and as large as all that
    // by default on some servers.
    client.ok("CONFIG SET repl-backlog-size 1mb");
    client.ok(&format!("CONFIG SET maxmemory {}", used + 3_000_000));
    let value = "x".repeat(1000);
    let enough = if policy == "noeviction" { 0 } else { 3000 };
    let mut number = 0;
    until("memory to be short", || {
        // They outlive the limiters: volatile-ttl takes those first.
        let lines: Vec<String> =
            (0..200).map(|n| format!("SET cache:{} {value} EX 500000000", number + n)).collect();
        number += 200;
        client.pipeline(&lines);
        let evicted = client.info_int("stats", "evicted_keys");
        evicted >= enough && (enough > 0 || crowd.refused() > 2 * WRITERS)
    });
    if policy == "noeviction" {
        // Looking is no writing: RL.PEEK answers while charges do not.
        assert!(crowd.known(primary).iter().all(|known| *known > 0));
    }
    client.ok("CONFIG SET maxmemory 0");
    let lines = crowd.lines;
    let counts = crowd.traffic.finish();
    client.ok("PUBLISH __keyevent@0__:evicted end");
    let evicted = listener.join().expect("the listener");
    let of = |key: &str| evicted.get(key).copied().unwrap_or(0);
    let mut limiters = 0;
    for (number, line) in lines.iter().enumerate() {
        let keys = line.split(' ').filter(|word| word.starts_with('{'));
        let times = keys.map(of).min().unwrap_or(0);
        let allowed = counts.allowed(number);
        assert!(
            allowed <= LIMIT * (times + 1),
            "{policy}: {line}: {allowed}, evicted {times} times"
        );
        assert!(allowed >= LIMIT, "{policy}: {line}: {allowed}");
        limiters += times;
    }
    println!("{policy}: {} evicted, limiters {limiters} times", evicted.values().sum::<i64>());
    assert!(limiters == 0 || policy != "noeviction");
    assert!(limiters > 0 || policy != "volatile-ttl");
    assert_all_expire(primary);
    primary.assert_well();
    assert_equal(primary, replica);
}

#[test]
fn memory_runs_out_under_each_policy() {
    let (mut primary, mut replica) = pair("everysec");
    let policies = [
        "noeviction",
        "allkeys-random",
        "volatile-lru",
        "volatile-ttl",
        "allkeys-lru",
        "allkeys-lfu",
        "volatile-lfu",
        "volatile-random",
    ];
    let count = if rounds() > 1 { policies.len() } else { 4 };
    for _ in 0..rounds() {
        for policy in &policies[..count] {
            memory_runs_out(&mut primary, &mut replica, policy);
        }
    }
}

/// How many files this process may hold open; asks for `wanted`.
fn open_files(wanted: usize) -> usize {
    let limits = || {
        let text = std::fs::read_to_string("/proc/self/limits").expect("limits");
        let line = text.lines().find(|l| l.starts_with("Max open files")).expect("open files");
        let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<usize>().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(usize::MAX))
    };
    let (now, most) = limits();
    if now < wanted {
        let to = wanted.min(most);
        let _ = Command::new("prlimit")
            .arg(format!("--pid={}", std::process::id()))
            .arg(format!("--nofile={to}:{most}"))
            .status();
    }
    limits().0
}

/// Thousands of connections ask at once: exactly the limit passes, and those that hang up without reading
/// their answer harm nobody.
#[test]
fn many_connections() {
    const SPARE: usize = 300;
    let wanted = if rounds() > 1 { 10_000 } else { 2000 };
    let count = wanted.min(open_files(wanted + SPARE).saturating_sub(SPARE));
    let mut server =
        Server::build().running_clock(0).args(&format!("--maxclients {}", wanted + 100)).start();
    let mut replica = Server::build().running_clock(0).replica_of(&server).start();
    server.wait_for(&replica);
    let most = server.client().config("maxclients").and_then(|n| n.parse().ok()).unwrap_or(0);
    let count = count.min(most - 50);
    if count < wanted {
        println!("{count} connections in place of {wanted}: no more files may be open");
        assert!(rounds() == 1, "{count} connections are too few");
    }
    let mut clients: Vec<_> = (0..count).map(|_| server.client()).collect();
    let limit = count as i64 / 2;
    for line in traffic::lines("many", limit) {
        let words = split(&line);
        clients.iter_mut().for_each(|client| client.send(&words));
        let passed: i64 =
            clients.iter_mut().map(|client| six(&client.receive()).expect("a decision")[0]).sum();
        assert_eq!(passed, limit, "{line} from {count} connections");
    }
    let words = split("RL.FIXED left 1000000 1d");
    clients.iter_mut().for_each(|client| client.send(&words));
    let mut last = clients.pop().expect("a connection");
    drop(clients);
    last.receive();
    let mut client = server.client();
    until("the others to be gone", || client.info_int("clients", "connected_clients") == 2);
    assert_eq!(last.six("RL.FIXED left 1000000 1d")[0], 1);
    println!("{count} connections");
    assert_all_expire(&server);
    server.assert_well();
    assert_equal(&server, &mut replica);
}
