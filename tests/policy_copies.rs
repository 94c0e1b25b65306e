//! Policies belong to no key, and still every copy of the data has them: files, replicas, a cluster.

mod support;

use std::fs;
use std::process::Command;

use redis::Value;
use support::client::{entry, layers, show, texts};
use support::work::policies;
use support::{until, Client, Cluster, Server};

type Listed = Vec<(String, Vec<String>, i64, i64)>;

/// Policies of every kind, one of them edited, one deleted.
fn fill(client: &mut Client) -> Listed {
    for line in [
        "RL.POLICY SET api TOKEN 100 10 SLIDE 1000 1h BLOCKS 60",
        "RL.POLICY SET dry FIXED 5 1d ALIGN -8h LEAKY 3 2 PER 7s SHADOW",
        "RL.POLICY SET gone LEAKY 5 1",
        "RL.POLICY SET api TOKEN 200 10 PER 90s",
        "RL.POLICY SET A.b_c-9 SLIDE 1000000000000 3650d BLOCKS 1000 FIXED 7 7d ALIGN 0",
        "RL.POLICY DEL gone",
    ] {
        client.ok(line);
    }
    let all = policies(client);
    assert_eq!(all.len(), 3);
    all
}

fn listed(server: &Server) -> Listed {
    policies(&mut server.client())
}

/// A change made now has a version above all there have been.
#[track_caller]
fn assert_grows(server: &Server, before: &Listed) {
    let most = before.iter().map(|policy| policy.3).max().unwrap_or(0);
    let mut client = server.client();
    client.ok("RL.POLICY SET newest FIXED 1 1s");
    let version = entry(&client.ok("RL.POLICY GET newest"), "version");
    assert!(matches!(version, Some(Value::Int(n)) if n > most), "{version:?} after {most}");
}

/// All incremental append-only files.
fn incremental(server: &Server) -> Vec<u8> {
    let folder = fs::read_dir(server.dir.join("appendonlydir")).expect("append-only folder");
    let mut names: Vec<_> = folder.map(|f| f.expect("file").path()).collect();
    names.retain(|path| path.to_string_lossy().contains(".incr."));
    names.sort();
    names.iter().flat_map(|path| fs::read(path).unwrap_or_default()).collect()
}

fn occurrences(bytes: &[u8], word: &[u8]) -> usize {
    bytes.windows(word.len()).filter(|w| w.eq_ignore_ascii_case(word)).count()
}

fn rewritten(client: &mut Client) {
    until("rewrite", || {
        client.info_int("persistence", "aof_rewrite_in_progress") == 0
            && client.info_int("persistence", "aof_rewrite_scheduled") == 0
    });
    let status = client.info("persistence", "aof_last_bgrewrite_status");
    assert_eq!(status.as_deref(), Some("ok"));
}

#[test]
fn a_snapshot_holds_them() {
    let mut server = Server::start();
    let before = fill(&mut server.client());
    // No key at all: policies alone make a snapshot.
    assert_eq!(server.client().int("DBSIZE"), 0);
    server.client().ok("DEBUG RELOAD");
    assert_eq!(listed(&server), before);
    server.shutdown("SAVE");
    server.restart();
    assert_eq!(listed(&server), before);
    let get = server.client().ok("RL.POLICY GET api");
    assert_eq!(entry(&get, "allowed"), Some(Value::Int(0)));
    assert_grows(&server, &before);
    // Deleted from the server, they are gone from its next snapshot.
    server.client().ok("RL.POLICY DEL api dry A.b_c-9 newest");
    server.shutdown("SAVE");
    server.restart();
    assert_eq!(listed(&server), []);
    server.assert_well();
}

/// A key was charged under a policy that is deleted afterwards, the last one. Whatever is later made of the
/// name is an edit to that key, however often the server was started from a snapshot between.
#[test]
fn a_snapshot_of_keys_holds_the_version_without_policies() {
    let mut server = Server::start();
    let mut client = server.client();
    client.ok("RL.POLICY SET api TOKEN 5 1 PER 1h");
    client.ok("RL.CHARGE k POLICY api");
    client.ok("RL.POLICY DEL api");
    for _ in 0..2 {
        server.shutdown("SAVE");
        server.restart();
    }
    let mut client = server.client();
    client.ok("RL.POLICY SET api FIXED 5 1h");
    let rows = layers(&client.ok("RL.CHARGE k POLICY api"));
    assert_eq!(rows.map(|rows| rows[0][..3].to_vec()), Some(vec![1, 4, 0]));
    assert_eq!(entry(&client.ok("RL.POLICY GET api"), "version"), Some(Value::Int(2)));
    server.assert_well();
}

#[test]
fn a_snapshot_without_policies_and_keys_needs_no_module() {
    let mut server = Server::start();
    let (kind, major, minor) = server.version();
    if (kind, major, minor) < (support::server::Kind::Redis, 7, 2) {
        return support::skip("Redis 7.0 writes an empty field of the module");
    }
    let mut client = server.client();
    fill(&mut client);
    // Keys that were charged, and have gone each in a way of its own, are none.
    for key in ["kept", "deleted", "unlinked", "expired"] {
        client.ok(&format!("RL.CHARGE {key} POLICY api"));
    }
    client.ok("COPY kept copied");
    client.ok("RL.POLICY DEL api dry A.b_c-9");
    client.ok("DEL deleted");
    client.ok("PEXPIRE expired -1");
    client.ok("DEBUG RELOAD");
    client.ok("UNLINK unlinked");
    client.ok("FLUSHALL ASYNC");
    client.ok("SET k v");
    until("freed", || client.info_int("memory", "lazyfree_pending_objects") == 0);
    server.shutdown("SAVE");
    let plain = Server::build().without_module().start();
    let mut client = plain.client();
    fs::copy(server.dir.join("dump.rdb"), plain.dir.join("dump.rdb")).expect("copy");
    client.ok("DEBUG RELOAD NOSAVE");
    assert_eq!(client.text("GET k"), "v");
}

#[test]
fn an_append_only_file_holds_them_rewritten_or_not() {
    for preamble in ["yes", "no"] {
        let builder = Server::build().append_only().option("aof-use-rdb-preamble", preamble);
        let mut server = builder.start();
        let before = fill(&mut server.client());
        server.restart();
        assert_eq!(listed(&server), before, "replayed, preamble {preamble}");
        for round in 0..2 {
            let mut client = server.client();
            client.ok("BGREWRITEAOF");
            rewritten(&mut client);
            until("policies in the new file", || {
                occurrences(&incremental(&server), b"\r\nrl.p\r\n") > 0
            });
            server.restart();
            assert_eq!(listed(&server), before, "rewritten, preamble {preamble}, round {round}");
        }
        // What is deleted after the rewrite stays deleted, what is edited stays edited.
        let mut client = server.client();
        client.ok("RL.POLICY DEL dry");
        client.ok("RL.POLICY SET api FIXED 1 1s");
        let after = policies(&mut client);
        server.restart();
        assert_eq!(listed(&server), after);
        assert_grows(&server, &before);
        server.assert_well();
    }
}

/// After the last one is deleted and the file rewritten, a policy made anew still has a higher version.
#[test]
fn the_version_outlasts_the_policies() {
    let builder = Server::build().append_only().option("aof-use-rdb-preamble", "no");
    let mut server = builder.start();
    let mut client = server.client();
    let before = fill(&mut client);
    client.ok("RL.POLICY DEL api dry A.b_c-9");
    client.ok("BGREWRITEAOF");
    rewritten(&mut client);
    until("the new file", || occurrences(&incremental(&server), b"\r\nrl.p\r\n") == 1);
    server.restart();
    assert_eq!(listed(&server), []);
    assert_grows(&server, &before);
}

#[test]
fn an_append_only_file_switched_on_at_run_time_holds_them() {
    for preamble in ["yes", "no"] {
        let mut server = Server::build().option("aof-use-rdb-preamble", preamble).start();
        let mut client = server.client();
        let before = fill(&mut client);
        client.ok("CONFIG SET appendonly yes");
        rewritten(&mut client);
        until("policies in the new file", || {
            occurrences(&incremental(&server), b"\r\nrl.p\r\n") > 0
        });
        server.add_args("--appendonly yes");
        server.restart();
        assert_eq!(listed(&server), before, "preamble {preamble}");
        server.assert_well();
    }
}

/// A rewrite is this server's own business: its replicas hear nothing of it.
#[test]
fn a_rewrite_sends_them_to_the_file_alone() {
    let quiet = "--repl-ping-replica-period 3600";
    let primary = Server::build().append_only().args(quiet).start();
    let replica = Server::build().append_only().replica_of(&primary).start();
    let before = fill(&mut primary.client());
    primary.wait_for(&replica);
    let offset = |c: &mut Client| c.info_int("replication", "master_repl_offset");
    for server in [&primary, &replica] {
        let mut client = server.client();
        // A replica begins a file of its own after a sync.
        rewritten(&mut client);
        let (sent, was) = (offset(&mut client), occurrences(&incremental(server), b"rl.p"));
        // They may have reached the replica with its sync, before any stream.
        assert!(was > 0 || server.port == replica.port);
        client.ok("BGREWRITEAOF");
        rewritten(&mut client);
        // The file before this rewrite goes; the new one holds them all in one command.
        until("policies in the new file", || {
            occurrences(&incremental(server), b"\r\nrl.p\r\n") == 1
        });
        assert_eq!(offset(&mut client), sent);
        assert_eq!(occurrences(&incremental(server), b"MULTI"), 0);
        assert_eq!(listed(server), before);
        // A snapshot starts a child, too, and sends nothing.
        client.ok("BGSAVE");
        until("the snapshot", || client.info_int("persistence", "rdb_bgsave_in_progress") == 0);
        client.ok("CONFIG SET hz 100");
        client.ok("PING");
        assert_eq!(occurrences(&incremental(server), b"\r\nrl.p\r\n"), 1);
    }
}

/// While clients are paused nothing may be propagated: a server would die of it.
#[test]
fn a_rewrite_under_a_pause_sends_them_after_it() {
    let mut server = Server::build().append_only().args("--aof-use-rdb-preamble no").start();
    let mut client = server.client();
    let before = fill(&mut client);
    client.ok("CLIENT PAUSE 1000000 WRITE");
    client.ok("BGREWRITEAOF");
    rewritten(&mut client);
    let sent = || occurrences(&incremental(&server), b"\r\nrl.p\r\n");
    // The server is asked again and again whether it may be.
    for _ in 0..10 {
        server.clock.advance(200_000);
        client.ok("DEBUG SLEEP 0.01");
        assert_eq!(sent(), 0);
    }
    client.ok("CLIENT UNPAUSE");
    server.clock.advance(200_000);
    until("policies in the new file", || sent() == 1);
    server.kill();
    server.restart();
    assert_eq!(listed(&server), before);
}

#[test]
fn replicas_follow_every_change() {
    let primary = Server::start();
    let replica = Server::build().append_only().replica_of(&primary).start();
    let last = Server::build().replica_of(&replica).start();
    let mut client = primary.client();
    fill(&mut client);
    client.ok("MULTI");
    client.ok("RL.POLICY SET tx FIXED 1 1s");
    client.ok("RL.POLICY SET tx FIXED 2 1s SHADOW");
    client.ok("EXEC");
    let script = "redis.call('RL.POLICY', 'SET', 'lua', 'FIXED', 3, '1h') \
        redis.call('RL.POLICY', 'DEL', 'dry')";
    client.run(&["EVAL", script, "0"]);
    client.ok("SET end mark");
    let all = policies(&mut client);
    assert_eq!(all.len(), 4);
    for server in [&replica, &last] {
        let mut there = server.client();
        until("the end of the stream", || show(&there.call("GET end")) == "mark");
        assert_eq!(policies(&mut there), all);
    }
    // Counters are each node's own, and carried out decisions are nobody's.
    client.ok("RL.CHARGE k POLICY api");
    primary.wait_for(&replica);
    let allowed = |c: &mut Client| entry(&c.ok("RL.POLICY GET api"), "allowed");
    assert_eq!(allowed(&mut client), Some(Value::Int(1)));
    assert_eq!(allowed(&mut replica.client()), Some(Value::Int(0)));
    assert_eq!(replica.client().six("RL.PEEK k POLICY api")[1], 199);
    // The replica's own append-only file has them.
    let mut replica = replica;
    replica.add_args("--replicaof no one");
    replica.restart();
    assert_eq!(listed(&replica), all);
}

#[test]
fn a_full_sync_replaces_all_of_them() {
    let primary = Server::start();
    let before = fill(&mut primary.client());
    let other = Server::start();
    let mut client = other.client();
    for line in ["RL.POLICY SET own FIXED 1 1s", "RL.POLICY SET api FIXED 1 1s"] {
        client.ok(line);
    }
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    primary.wait_for(&other);
    assert_eq!(policies(&mut client), before);
    // From a primary that has none.
    let bare = Server::start();
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", bare.port));
    bare.wait_for(&other);
    assert_eq!(policies(&mut client), []);
    assert_eq!(client.info_int("rl_stats", "rl_policies_digest"), 0);
}

#[test]
fn a_promoted_replica_keeps_and_edits_them() {
    let primary = Server::start();
    let replica = Server::build().replica_of(&primary).start();
    let before = fill(&mut primary.client());
    primary.client().ok("RL.CHARGE k POLICY api COST 7");
    primary.wait_for(&replica);
    let mut client = replica.client();
    client.ok("REPLICAOF NO ONE");
    assert_eq!(policies(&mut client), before);
    assert_eq!(client.six("RL.CHARGE k POLICY api")[1], 192);
    assert_grows(&replica, &before);
    client.ok("RL.POLICY SET api TOKEN 300 10 PER 90s");
    assert_eq!(client.six("RL.CHARGE k POLICY api")[1], 291);
    // The old primary comes back as a replica of the new one.
    primary.client().ok(&format!("REPLICAOF 127.0.0.1 {}", replica.port));
    replica.wait_for(&primary);
    assert_eq!(listed(&primary), policies(&mut client));
}

#[test]
fn emptying_databases_leaves_them() {
    let server = Server::build().append_only().start();
    let replica = Server::build().replica_of(&server).start();
    let mut client = server.client();
    let before = fill(&mut client);
    for line in ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHALL SYNC", "FLUSHDB", "SWAPDB 0 1", "SELECT 1"]
    {
        client.ok("RL.CHARGE k POLICY api");
        client.ok(line);
        assert_eq!(policies(&mut client), before, "{line}");
    }
    server.wait_for(&replica);
    assert_eq!(listed(&replica), before);
    let mut server = server;
    server.restart();
    assert_eq!(listed(&server), before);
}

/// One call of the cluster tool; it answers with each node's reply.
fn cluster_call(cluster: &Cluster, words: &str) -> String {
    let program = std::env::var("RL_CLI").unwrap_or_else(|_| "redis-cli".into());
    let output = Command::new(&program)
        .args(["--cluster", "call", &format!("127.0.0.1:{}", cluster.primaries[0].port)])
        .args(words.split(' '))
        .arg("--cluster-only-masters")
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn a_cluster_is_set_by_one_call_and_shows_which_node_differs() {
    let cluster = Cluster::start(0);
    let digests = || -> Vec<i64> {
        let digest = |node: &Server| node.client().info_int("rl_stats", "rl_policies_digest");
        cluster.primaries.iter().map(digest).collect()
    };
    assert_eq!(digests(), [0, 0, 0]);
    let answer = cluster_call(&cluster, "RL.POLICY SET api TOKEN 5 1 PER 1h FIXED 9 1d ALIGN 8h");
    assert_eq!(answer.matches(": OK").count(), 3, "{answer}");
    cluster_call(&cluster, "RL.POLICY SET dry FIXED 5 1h SHADOW");
    let agreed = digests();
    assert!(agreed[0] > 0 && agreed.iter().all(|digest| *digest == agreed[0]), "{agreed:?}");
    for key in ["a", "b", "c", "d"] {
        let owner = cluster.owner(key);
        assert_eq!(owner.client().six(&format!("RL.CHARGE {key} POLICY api"))[1], 4);
    }
    // The node that has another rule, shadow or name differs from the rest, and agrees again when it is
    // mended, whatever its versions are.
    let mut odd = cluster.primaries[1].client();
    for line in [
        "RL.POLICY SET dry FIXED 6 1h SHADOW",
        "RL.POLICY SET dry FIXED 5 1h",
        "RL.POLICY DEL dry",
        "RL.POLICY SET extra FIXED 5 1h",
    ] {
        odd.ok(line);
        let now = digests();
        assert_eq!((now[0], now[2]), (agreed[0], agreed[2]));
        assert_ne!(now[1], agreed[1], "{line}");
        odd.ok("RL.POLICY DEL extra");
        odd.ok("RL.POLICY SET dry FIXED 5 1h SHADOW");
        assert_eq!(digests(), agreed, "{line}, mended");
    }
    for node in &cluster.primaries {
        assert_eq!(texts(&node.client().ok("RL.POLICY LIST")), ["api", "dry"]);
    }
    let answer = cluster_call(&cluster, "RL.POLICY DEL api dry");
    assert_eq!(answer.matches(": 2").count(), 3, "{answer}");
    assert_eq!(digests(), [0, 0, 0]);
}

/// A pipe of keys carries no policy: the other server says so, and never guesses.
#[test]
fn a_key_without_its_policy_is_not_guessed_at() {
    let [here, there] = [Server::start(), Server::start()];
    let mut client = here.client();
    client.ok("RL.POLICY SET p FIXED 5 1h");
    client.ok("RL.CHARGE k POLICY p");
    let Value::BulkString(dump) = client.ok("DUMP k") else { panic!("DUMP") };
    let mut other = there.client();
    other.run(&[b"RESTORE".as_slice(), b"k", b"0", &dump]);
    assert_eq!(other.error("RL.CHARGE k POLICY p"), "NOPOLICY no such policy");
    assert_eq!(other.six("RL.PEEK k")[1], 4);
    other.ok("RL.POLICY SET p FIXED 6 1h");
    assert_eq!(other.six("RL.CHARGE k POLICY p")[1], 4);
}

/// Versions are counted by each node for itself, so a key that moves may meet its policy with the version
/// that it knows and other rules.
#[test]
fn a_key_that_moves_sees_the_edits_of_the_other_node() {
    let (here, there) = (Server::start(), Server::start());
    let (mut client, mut other) = (here.client(), there.client());
    client.ok("RL.POLICY SET p SLIDE 3 1h");
    other.ok("RL.POLICY SET p FIXED 3 1h");
    assert_eq!(client.six("RL.CHARGE k POLICY p")[..2], [1, 2]);
    let Value::BulkString(dump) = client.ok("DUMP k") else { panic!("no dump") };
    assert_eq!(other.run(&[b"RESTORE".as_slice(), b"k", b"0", &dump]), Value::Okay);
    assert_eq!(other.six("RL.CHARGE k POLICY p")[..2], [1, 2], "the rule starts afresh");
    // The same rules under another version: the key goes on.
    other.ok("RL.POLICY SET p SLIDE 3 1h");
    other.ok("RL.POLICY SET p SLIDE 3 1h SHADOW");
    other.ok("RL.POLICY SET p SLIDE 3 1h");
    assert_eq!(other.run(&[b"RESTORE".as_slice(), b"k", b"0", &dump, b"REPLACE"]), Value::Okay);
    assert_eq!(other.six("RL.CHARGE k POLICY p")[..2], [1, 1]);
}
