//! Replicas hold what the primary decided, whatever their clocks say; nobody decides twice.

mod support;

use redis::Value;
use support::client::show;
use support::work::{keys, pictures, policies, set_policies, Picture, Work};
use support::{until, Client, Server};

const CALLS: usize = 3000;
const THIRTY_SECONDS: i64 = 30_000_000;

/// Random calls in batches; after each, the replicas' clocks follow, as far off as they were.
fn work(
    seed: u64,
    calls: usize,
    primary: &Server,
    replicas: &[(&Server, i64)],
    mut between: impl FnMut(usize),
) {
    let mut client = primary.client();
    let mut work = Work::new(seed);
    for batch in 0..calls / 100 {
        work.run(primary, &mut client, 100);
        for (replica, offset) in replicas {
            replica.clock.set(primary.clock.us() + offset);
        }
        between(batch);
    }
}

/// Every key of the primary is the same on the replica: bytes and expiry where the replica takes it for
/// alive, the server's digest of it in any case.
#[track_caller]
fn assert_same(primary: &Server, replica: &Server) {
    primary.wait_for(replica);
    let different = differences(primary, replica);
    assert!(different.is_empty(), "{different:#?}");
    assert_eq!(policies(&mut primary.client()), policies(&mut replica.client()));
}

/// The keys that differ, as they are here and there. A key that the other server takes for expired is
/// compared by digest, which needs no expiry.
fn differences(primary: &Server, other: &Server) -> Vec<(Picture, Picture)> {
    let (mut here, mut there) = (primary.client(), other.client());
    let names = keys(&mut here);
    assert!(names.len() > 20, "{names:?}");
    let ours = pictures(&mut here, &names);
    let pairs = ours.into_iter().zip(pictures(&mut there, &names));
    let same = |ours: &Picture, theirs: &Picture| {
        let alive = ours.expires_at == -1 || ours.expires_at > other.clock.ms();
        ours == theirs || (!alive && ours.digest == theirs.digest)
    };
    pairs.filter(|(ours, theirs)| !same(ours, theirs)).collect()
}

#[test]
fn replicas_with_clocks_ahead_and_behind_are_equal() {
    let primary = Server::start();
    let ahead = Server::build().append_only().replica_of(&primary).start();
    let behind = Server::build().append_only().replica_of(&primary).start();
    let mut replicas = [ahead, behind];
    {
        let pairs = [(&replicas[0], THIRTY_SECONDS), (&replicas[1], -THIRTY_SECONDS)];
        work(11, CALLS, &primary, &pairs, |_| ());
    }
    set_policies(&mut primary.client());
    for replica in &replicas {
        assert_same(&primary, replica);
    }
    // Their own append-only files hold the same. Alone in the world, a server drops what its clock calls
    // expired: only what it keeps is compared.
    for replica in &mut replicas {
        replica.add_args("--replicaof no one");
        replica.restart();
        for (ours, theirs) in differences(&primary, replica) {
            let over = ours.expires_at != -1 && ours.expires_at <= replica.clock.ms();
            assert!(over && theirs.dump.is_none(), "{ours:#?} {theirs:#?}");
        }
        replica.assert_well();
    }
}

#[test]
fn a_broken_link_resumes() {
    let primary = Server::start();
    let replica = Server::build().replica_of(&primary).start();
    primary.wait_for(&replica);
    let mut admin = primary.client();
    work(12, CALLS, &primary, &[(&replica, THIRTY_SECONDS)], |batch| {
        if batch % 5 == 2 {
            admin.ok("CLIENT KILL TYPE replica");
        }
    });
    assert_same(&primary, &replica);
    let stats = |admin: &mut Client, field: &str| admin.info_int("stats", field);
    assert_eq!(stats(&mut admin, "sync_full"), 1, "the link resumed by a full sync");
    assert!(stats(&mut admin, "sync_partial_ok") >= 1);
}

#[test]
fn a_stopped_link_catches_up_with_a_full_sync() {
    let primary = Server::build().args("--repl-backlog-size 16kb").start();
    let replica = Server::build().replica_of(&primary).start();
    work(13, 500, &primary, &[(&replica, -THIRTY_SECONDS)], |_| ());
    set_policies(&mut primary.client());
    assert_same(&primary, &replica);
    let mut client = replica.client();
    client.ok("REPLICAOF 127.0.0.1 1");
    work(14, 2000, &primary, &[(&replica, -THIRTY_SECONDS)], |_| ());
    primary.client().ok("RL.POLICY DEL gold");
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    assert_same(&primary, &replica);
}

#[test]
fn a_full_sync_replaces_policies_even_by_none() {
    let primary = Server::start();
    primary.client().ok("SET k v");
    let replica = Server::start();
    let mut client = replica.client();
    client.ok("RL.POLICY SET own FIXED 1 1s");
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    primary.wait_for(&replica);
    assert_eq!(show(&client.ok("RL.POLICY LIST")), "[]");
}

/// After a failover the new primary goes on where the old one stood.
#[test]
fn a_promoted_replica_decides_as_the_primary_would() {
    let primary = Server::start();
    let replica = Server::build().replica_of(&primary).start();
    work(15, 1000, &primary, &[(&replica, 0)], |_| ());
    assert_same(&primary, &replica);
    let (mut here, mut there) = (primary.client(), replica.client());
    there.ok("REPLICAOF NO ONE");
    for step in 0..5 {
        primary.clock.advance(step * 700_000);
        replica.clock.set(primary.clock.us());
        for line in work_lines(step) {
            assert_eq!(here.call(&line), there.call(&line), "{line}");
        }
    }
}

fn work_lines(seed: i64) -> Vec<String> {
    let mut work = Work::new(seed as u64);
    (0..200).map(|_| work.line()).collect()
}

/// A replica of a replica gets the stream as it is.
#[test]
fn a_chain_of_replicas_is_equal() {
    let primary = Server::start();
    let middle = Server::build().replica_of(&primary).start();
    let last = Server::build().append_only().replica_of(&middle).start();
    work(16, 1000, &primary, &[(&middle, 0), (&last, THIRTY_SECONDS)], |_| ());
    assert_same(&primary, &middle);
    primary.client().ok("SET end mark");
    let mut client = last.client();
    until("the end of the chain", || show(&client.call("GET end")) == "mark");
    let mut here = primary.client();
    for key in keys(&mut here) {
        let digest = |c: &mut Client| show(&c.ok(&format!("DEBUG DIGEST-VALUE {key}")));
        assert_eq!(digest(&mut here), digest(&mut client), "{key}");
    }
}

/// The one-off repair of a stepped clock and changed settings travel too, though the call is denied.
#[test]
fn what_a_denied_call_stores_is_replicated() {
    let primary = Server::start();
    let replica = Server::build().replica_of(&primary).start();
    let mut client = primary.client();
    let same = |client: &mut Client| {
        primary.wait_for(&replica);
        assert_eq!(client.ok("DUMP k"), replica.client().ok("DUMP k"));
        assert_eq!(client.int("PEXPIRETIME k"), replica.client().int("PEXPIRETIME k"));
    };
    client.ok("RL.TOKEN k 3 1 PER 1h COST 3");
    same(&mut client);
    let before = client.ok("DUMP k");
    assert_eq!(client.six("RL.TOKEN k 3 1 PER 2h")[0], 0);
    assert_ne!(client.ok("DUMP k"), before);
    same(&mut client);
    primary.clock.advance(-5_000_000);
    replica.clock.advance(-5_000_000);
    let before = client.ok("DUMP k");
    assert_eq!(client.six("RL.TOKEN k 3 1 PER 2h")[0], 0);
    assert_ne!(client.ok("DUMP k"), before);
    same(&mut client);
    let before = (client.ok("DUMP k"), client.info_int("replication", "master_repl_offset"));
    assert_eq!(client.six("RL.TOKEN k 3 1 PER 2h")[0], 0);
    let after = (client.ok("DUMP k"), client.info_int("replication", "master_repl_offset"));
    assert_eq!(before.0, after.0, "the repair is one-off");
    same(&mut client);
}

/// Those who cache or watch a key on a replica hear of what it got.
#[test]
fn clients_of_a_replica_hear_of_changes() {
    let primary = Server::start();
    let replica = Server::build().replica_of(&primary).start();
    let (mut client, mut reader, mut watcher) =
        (primary.client(), replica.client(), replica.client());
    reader.hello(3);
    reader.ok("CLIENT TRACKING ON");
    for charges in [1, 0] {
        reader.pushes.clear();
        reader.ok("EXISTS k");
        watcher.ok("WATCH k");
        assert_eq!(client.six("RL.TOKEN k 1 1 PER 1h")[0], charges);
        primary.wait_for(&replica);
        reader.ok("PING");
        assert_eq!(reader.pushes.len() as i64, charges, "messages of tracking");
        watcher.ok("MULTI");
        watcher.ok("PING");
        assert_eq!(watcher.call("EXEC") == Value::Nil, charges == 1, "a broken WATCH");
    }
}
