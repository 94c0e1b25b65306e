//! A link that breaks again and again and a replica that stands still, while twelve writers ask for more than is
//! allowed: the primary allows the limit and no more, and in the end the replica holds the same.
//!
//! Short by default; `make faults` repeats each fault (`RL_FAULT_ROUNDS`).

mod support;

use std::process::Command;

use support::crowd::{assert_equal, rounds, Crowd};
use support::{until, Server};

/// A primary that keeps so much of its stream for replicas that were away, and a replica.
fn pair(backlog: &str) -> (Server, Server) {
    let primary = Server::build()
        .running_clock(0)
        .args(&format!("--repl-backlog-size {backlog} --repl-timeout 20"))
        .start();
    let replica = Server::build().running_clock(0).replica_of(&primary).start();
    primary.wait_for(&replica);
    (primary, replica)
}

fn stat(server: &Server, name: &str) -> i64 {
    server.client().info_int("stats", name)
}

/// The link breaks `breaks` times, and every other time `missed` bytes more than the calls' own are written
/// before the replica is back; answers how often it went on where it was, and how often all was sent anew.
fn break_the_link(backlog: &str, breaks: i64, missed: usize) -> (i64, i64) {
    let (mut primary, mut replica) = pair(backlog);
    let before = (stat(&primary, "sync_partial_ok"), stat(&primary, "sync_full"));
    let crowd = Crowd::start(&primary, "link", 200 * breaks, &[]);
    let mut client = primary.client();
    for number in 0..breaks {
        crowd.more(60);
        let synced = || stat(&primary, "sync_partial_ok") + stat(&primary, "sync_full");
        let so_far = synced();
        if number % 2 == 0 {
            client.ok("CLIENT KILL TYPE replica");
        } else {
            // From the other side, and away long enough for some calls.
            let mut there = replica.client();
            there.ok("REPLICAOF 127.0.0.1 1");
            crowd.more(20);
            client.ok(&format!("SET filler {}", "x".repeat(missed.max(1))));
            there.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
        }
        until("the replica to be back", || synced() > so_far);
    }
    crowd.finish(&mut primary, 0);
    assert_equal(&primary, &mut replica);
    (stat(&primary, "sync_partial_ok") - before.0, stat(&primary, "sync_full") - before.1)
}

#[test]
fn a_link_that_breaks_goes_on_where_it_was() {
    for _ in 0..rounds() {
        let (partial, full) = break_the_link("10mb", 20, 0);
        println!("long memory: {partial} partial, {full} full syncs");
        assert!(partial >= 18, "{partial} partial, {full} full syncs");
    }
}

#[test]
fn a_link_that_breaks_and_all_is_sent_anew() {
    for _ in 0..rounds() {
        let (partial, full) = break_the_link("16kb", 10, 200_000);
        println!("short memory: {partial} partial, {full} full syncs");
        assert!(full >= 5, "{partial} partial, {full} full syncs");
    }
}

/// Sends a signal to a server.
fn signal(server: &Server, name: &str) {
    let status =
        Command::new("kill").args([&format!("-{name}"), &server.pid().to_string()]).status();
    assert!(status.expect("kill").success());
}

/// A replica that stands still is dropped when too much waits for it; it comes back to a full sync.
#[test]
fn a_replica_that_stands_still() {
    for _ in 0..rounds() {
        let (mut primary, mut replica) = pair("16kb");
        let mut client = primary.client();
        client.ok("CONFIG SET client-output-buffer-limit replica\\_2mb\\_1mb\\_1");
        let crowd = Crowd::start(&primary, "still", 3000, &[]);
        crowd.more(500);
        let full = stat(&primary, "sync_full");
        signal(&replica, "STOP");
        crowd.more(500);
        // The system itself holds some megabytes for it.
        let filler = format!("SET filler {}", "x".repeat(100_000));
        until("the replica to be dropped", || {
            client.ok(&filler);
            client.info_int("replication", "connected_slaves") == 0
        });
        crowd.more(500);
        signal(&replica, "CONT");
        until("a full sync", || stat(&primary, "sync_full") > full);
        crowd.finish(&mut primary, 0);
        assert_equal(&primary, &mut replica);
    }
}
