//! Clusters of three primaries: clients find the right node, and limits hold while slots and roles move.

mod model;
mod support;

use model::gen::{Options, Scenario};
use redis::Value;
use support::client::{error, is_error, show, six, split, Client};
use support::server::Kind;
use support::traffic::{key, lines, Link, Traffic};
use support::work::{keys, pictures};
use support::{skip, until, Cluster, Server};

const WRITERS: usize = 8;
const LIMIT: i64 = 2000;

#[test]
fn one_key_commands_are_moved() {
    let cluster = Cluster::start(0);
    for line in [
        "RL.TOKEN KEY 5 1",
        "RL.LEAKY KEY 5 1",
        "RL.SLIDE KEY 5 1s",
        "RL.FIXED KEY 5 1s",
        "RL.CHARGE KEY FIXED 5 1h SLIDE 5 1h",
        "RL.PEEK KEY",
        "RL.REFUND KEY",
        "RL.INSPECT KEY",
        "RL.MCHARGE 1 KEY FIXED 5 1h",
        "CL.THROTTLE KEY 4 1 1",
    ] {
        let key = format!("key:{}", line.len());
        let line = line.replace("KEY", &key);
        let owner = cluster.owner(&key).port;
        for node in &cluster.primaries {
            let mut client = node.client();
            let foreign = node.port != owner;
            let reply = show(&client.call(&line));
            assert_eq!(reply.starts_with("MOVED"), foreign, "{line}: {reply}");
            client.ok("MULTI");
            let reply = show(&client.call(&line));
            assert_eq!(reply.starts_with("MOVED"), foreign, "MULTI {line}: {reply}");
            let exec = client.call("EXEC");
            assert_eq!(show(&exec).starts_with("EXECABORT"), foreign, "{line}: {}", show(&exec));
        }
    }
}

/// MCHARGE carries a number of keys: the server has to know them all, wherever the call comes from.
#[test]
fn keys_of_two_slots_are_refused_everywhere() {
    let cluster = Cluster::start(0);
    let same = "RL.MCHARGE 2 {u}:a {u}:b FIXED 5 1h FIXED 5 1h";
    let apart = "RL.MCHARGE 2 {u}:a {v}:b FIXED 5 1h FIXED 5 1h";
    // A script that declares a key of its node and reaches for one that is elsewhere.
    let script =
        "return redis.call('RL.MCHARGE', 2, KEYS[1], ARGV[1], 'FIXED', 5, '1h', 'FIXED', 5, '1h')";
    let owner = cluster.owner("{u}:a");
    owner.client().ok(same);
    for node in &cluster.primaries {
        let mut client = node.client();
        let here = node.port == owner.port;
        // First of all: once a script was refused for a key of another slot, Valkey 9.1 refuses scripts that
        // are right as well, with native commands too.
        let reply = client.run(&["EVAL", script, "1", "{u}:a", "{u}:b"]);
        assert_eq!(is_error(&reply), !here, "{}", show(&reply));
        assert!(client.error(apart).starts_with("CROSSSLOT"));
        client.ok("MULTI");
        assert!(client.error(apart).starts_with("CROSSSLOT"));
        assert!(client.error("EXEC").starts_with("EXECABORT"));
        let reply = client.run(&["EVAL", script, "1", "{u}:a", "{v}:b"]);
        assert!(is_error(&reply), "{}", show(&reply));
        let reply = client.run(&["EVAL", script, "2", "{u}:a", "{v}:b", "{v}:b"]);
        assert!(error(&reply).is_some_and(|e| e.starts_with("CROSSSLOT")), "{}", show(&reply));

        let reply = show(&client.call(same));
        assert_eq!(reply.starts_with("MOVED"), !here, "{reply}");
        client.ok("MULTI");
        assert_eq!(is_error(&client.call(same)), !here);
        assert_eq!(is_error(&client.call("EXEC")), !here);
    }
    // Four went through, and none of the refused ones took anything.
    for key in ["{u}:a", "{u}:b"] {
        assert_eq!(owner.client().six(&format!("RL.PEEK {key}"))[1], 1, "{key}");
    }
    let other = cluster.owner("{v}:b");
    assert_eq!(other.client().call("RL.PEEK {v}:b"), Value::Nil);
}

#[test]
fn a_cluster_client_finds_every_key() {
    let cluster = Cluster::start(0);
    for node in &cluster.primaries {
        node.client().ok("RL.POLICY SET p FIXED 3 1d");
    }
    let mut client = cluster.client();
    let mut ask = |line: &str| client.ask(&split(line)).expect("a reply");
    for number in 0..200 {
        let key = format!("{{user:{number}}}");
        for (name, line) in [
            ("a", format!("RL.TOKEN {key}:a 3 1 PER 1d")),
            ("b", format!("RL.CHARGE {key}:b POLICY p")),
            ("c", format!("RL.MCHARGE 2 {key}:c {key}:d SLIDE 3 1d POLICY p")),
        ] {
            let allowed: i64 = (0..5).map(|_| six(&ask(&line)).expect("a decision")[0]).sum();
            assert_eq!(allowed, 3, "{line}");
            assert_eq!(
                six(&ask(&format!("RL.PEEK {key}:{name}"))).expect("a decision")[..2],
                [0, 0]
            );
        }
    }
    let spread: Vec<i64> =
        cluster.primaries.iter().map(|node| node.client().int("DBSIZE")).collect();
    assert!(spread.iter().all(|keys| *keys > 100), "{spread:?}");
}

/// Starts writers on a cluster; answers when every line has been allowed some.
fn traffic(cluster: &Cluster, tag: &str) -> (Vec<String>, Traffic) {
    let lines = lines(tag, LIMIT);
    let links = (0..WRITERS).map(|_| Box::new(cluster.client()) as Box<dyn Link>).collect();
    let traffic = Traffic::start(&lines, links);
    until("traffic", || (0..lines.len()).all(|line| traffic.counts.allowed(line) > 20));
    (lines, traffic)
}

/// Every key of the owner is the same on its replica, and every line is used up.
fn assert_kept(primary: &Server, replica: &Server, lines: &[String]) {
    primary.wait_for(replica);
    let mut names: Vec<String> = lines.iter().map(|line| key(line).to_owned()).collect();
    names.extend(lines.last().and_then(|line| line.split(' ').nth(3)).map(str::to_owned));
    let mut there = replica.client();
    there.ok("READONLY");
    let ours = pictures(&mut primary.client(), &names);
    assert!(ours.iter().all(|picture| picture.dump.is_some()), "{ours:#?}");
    assert_eq!(ours, pictures(&mut there, &names));
    for line in lines {
        assert_eq!(primary.client().six(line)[0], 0, "{line}");
    }
}

/// Node ids, the slot of a tag and the numbers of two primaries: the one that has it, and another.
struct Move {
    slot: i64,
    from: usize,
    to: usize,
    ids: Vec<String>,
}

impl Move {
    fn of(cluster: &Cluster, tag: &str) -> Move {
        let key = format!("{{{tag}}}");
        let port = cluster.owner(&key).port;
        let from = cluster.primaries.iter().position(|p| p.port == port).expect("a primary");
        let slot = cluster.primaries[0].client().int(&format!("CLUSTER KEYSLOT {key}"));
        let ids = cluster.primaries.iter().map(|p| p.client().text("CLUSTER MYID")).collect();
        Move { slot, from, to: (from + 1) % 3, ids }
    }

    fn done(&self, cluster: &Cluster, tag: &str) -> bool {
        cluster.primaries.iter().enumerate().all(|(number, node)| {
            let here = !is_error(&node.client().run(&["EXISTS".to_owned(), format!("{{{tag}}}")]));
            here == (number == self.to)
        })
    }
}

/// A way to have a slot at its new node, or on its way there.
type Way = fn(&Cluster, &Move);

/// Runs `way` under traffic; exactly the limit passes, and the new owner has what the old one had.
fn a_move(way: Way) {
    let cluster = Cluster::start(1);
    let (lines, traffic) = traffic(&cluster, "m");
    let slot = Move::of(&cluster, "m");
    let before = traffic.counts.total();
    way(&cluster, &slot);
    until("the slot at its new node", || slot.done(&cluster, "m"));
    let during = traffic.counts.total() - before;
    let counts = traffic.finish();
    println!("allowed before the move {before}, during it {during}, in all {}", counts.total());
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(counts.allowed(number), LIMIT, "{line}");
    }
    assert_kept(&cluster.primaries[slot.to], cluster.replica(slot.to), &lines);
    assert_eq!(cluster.primaries[slot.from].client().int("DBSIZE"), 0);
    assert_nothing_refused(&cluster);
}

fn assert_nothing_refused(cluster: &Cluster) {
    for node in cluster.nodes() {
        node.assert_log_clean();
        assert!(!node.whole_log().contains(" was refused"), "{}", node.log());
    }
}

fn key_by_key(cluster: &Cluster, slot: &Move) {
    let mut from = cluster.primaries[slot.from].client();
    let mut to = cluster.primaries[slot.to].client();
    let (number, target) = (slot.slot, &slot.ids[slot.to]);
    to.ok(&format!("CLUSTER SETSLOT {number} IMPORTING {}", slot.ids[slot.from]));
    from.ok(&format!("CLUSTER SETSLOT {number} MIGRATING {target}"));
    let port = cluster.primaries[slot.to].port;
    loop {
        let names = support::client::texts(&from.ok(&format!("CLUSTER GETKEYSINSLOT {number} 2")));
        if names.is_empty() {
            break;
        }
        from.ok(&format!("MIGRATE 127.0.0.1 {port} \"\" 0 60000 KEYS {}", names.join(" ")));
    }
    // The new owner first: nobody is ever told that the slot is nobody's.
    for node in [&mut to, &mut from] {
        node.ok(&format!("CLUSTER SETSLOT {number} NODE {target}"));
    }
}

/// Valkey 9 moves whole slots at once, if every module says that it can follow.
fn sent_at_once(cluster: &Cluster, slot: &Move) {
    let mut from = cluster.primaries[slot.from].client();
    let (number, target) = (slot.slot, &slot.ids[slot.to]);
    from.ok(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {number} {number} NODE {target}"));
}

fn can_send_at_once() -> bool {
    let (kind, major, _) = Server::start().version();
    kind == Kind::Valkey && major >= 9
}

fn fetched_at_once(cluster: &Cluster, slot: &Move) {
    let mut to = cluster.primaries[slot.to].client();
    to.ok(&format!("CLUSTER MIGRATION IMPORT {} {}", slot.slot, slot.slot));
}

fn can_fetch_at_once() -> bool {
    Server::start().is_redis(8, 4)
}

#[test]
fn a_slot_moves_key_by_key_under_traffic() {
    a_move(key_by_key);
}

#[test]
fn valkey_migrates_a_slot_at_once_under_traffic() {
    if !can_send_at_once() {
        return skip("CLUSTER MIGRATESLOTS needs Valkey 9");
    }
    a_move(sent_at_once);
}

#[test]
fn redis_imports_a_slot_at_once_under_traffic() {
    if !can_fetch_at_once() {
        return skip("CLUSTER MIGRATION IMPORT needs Redis 8.4");
    }
    a_move(fetched_at_once);
}

/// Random calls of every kind on keys that share the tag `t`: plain, in MULTI and by EVAL. Between them all
/// clocks move on together, by far less than a node waits for another one.
fn random_calls(cluster: &Cluster, owner: &Server, scenario: &mut Scenario) {
    let mut client = owner.client();
    let script = b"return redis.pcall(unpack(ARGV))";
    let (mut debts, mut refunds, mut allowed) = (0, 0, 0);
    for number in 0..900 {
        let (_, words) = scenario.next_call();
        cluster.nodes().for_each(|node| node.clock.advance(number % 7 * 700));
        let reply = match number % 11 {
            3 => {
                let mut eval =
                    vec![b"EVAL".to_vec(), script.to_vec(), b"1".to_vec(), b"{t}".to_vec()];
                eval.extend(words.iter().cloned());
                client.run(&eval)
            }
            7 => {
                client.ok("MULTI");
                client.run(&words);
                client.ok("SET {t}:plain 1");
                match client.call("EXEC") {
                    Value::Array(mut replies) => replies.swap_remove(0),
                    aborted => aborted,
                }
            }
            _ => client.run(&words),
        };
        let Some(decision) = six(&reply) else { continue };
        let forced = words.iter().any(|word| word.eq_ignore_ascii_case(b"FORCE"));
        debts += i64::from(forced && decision[1] == 0);
        refunds += i64::from(words[0] == b"RL.REFUND");
        allowed += decision[0];
    }
    assert!(allowed > 100 && debts > 5 && refunds > 10, "{allowed} {debts} {refunds}");
}

/// A move changes no byte of any value. It keeps the expiry too, but for MIGRATE: there the server sends how
/// much time is left, and the target counts from when it gets that.
#[test]
fn each_value_is_the_same_after_a_move() {
    const LATER_MS: i64 = 60_000;
    let cluster = Cluster::start(1);
    let mut ways: Vec<(Way, i64)> = vec![(key_by_key, LATER_MS)];
    ways.extend(can_send_at_once().then_some((sent_at_once as Way, 0)));
    ways.extend(can_fetch_at_once().then_some((fetched_at_once as Way, 0)));
    let mut scenario = Scenario::new(105, Options { keys: 120, ..Options::default() });
    for (number, (way, later_ms)) in ways.into_iter().enumerate() {
        let slot = Move::of(&cluster, "t");
        let from = &cluster.primaries[slot.from];
        random_calls(&cluster, from, &mut scenario);
        // What outlives the test by far, whatever the machine does.
        let mut client = from.client();
        let mut names = keys(&mut client);
        names.retain(|name| client.int(&format!("PTTL {name}")) > 20 * LATER_MS);
        let ours = pictures(&mut client, &names);
        assert!(ours.len() > 25, "way {number}: only {} keys", ours.len());
        way(&cluster, &slot);
        until("the slot at its new node", || slot.done(&cluster, "t"));
        assert_eq!(client.int("DBSIZE"), 0);
        let (to, replica) = (&cluster.primaries[slot.to], cluster.replica(slot.to));
        to.wait_for(replica);
        let mut there = replica.client();
        there.ok("READONLY");
        let theirs = pictures(&mut to.client(), &names);
        assert_eq!(theirs, pictures(&mut there, &names), "way {number}: the target's replica");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours.dump, theirs.dump, "way {number}: {}", ours.key);
            assert_eq!(ours.digest, theirs.digest, "way {number}: {}", ours.key);
            let later = theirs.expires_at - ours.expires_at;
            assert!((0..=later_ms).contains(&later), "way {number}: {} {later} ms", ours.key);
        }
        println!("way {number}: {} keys are the same", ours.len());
    }
    assert_nothing_refused(&cluster);
}

fn is_primary(client: &mut Client) -> bool {
    client.info("replication", "role").as_deref() == Some("master")
}

#[test]
fn a_planned_failover_under_traffic_loses_nothing() {
    let cluster = Cluster::start(1);
    let (lines, traffic) = traffic(&cluster, "m");
    let slot = Move::of(&cluster, "m");
    let (old, new) = (&cluster.primaries[slot.from], cluster.replica(slot.from));
    let mut client = new.client();
    let mut asked = 0;
    until("the replica to take over", || {
        // A request is given up after five seconds, should the machine be too busy.
        if asked % 1500 == 0 && !is_primary(&mut client) {
            client.call("CLUSTER FAILOVER");
        }
        asked += 1;
        is_primary(&mut client)
    });
    let counts = traffic.finish();
    for (number, line) in lines.iter().enumerate() {
        // A client that lost its link at the wrong moment may have asked twice.
        let allowed = counts.allowed(number);
        assert!((LIMIT - WRITERS as i64..=LIMIT).contains(&allowed), "{line}: {allowed}");
    }
    assert_kept(new, old, &lines);
    assert!(!new.whole_log().contains(" was refused"), "{}", new.log());
}

#[test]
fn limits_outlive_a_primary_that_is_killed() {
    let mut cluster = Cluster::start(1);
    let (lines, traffic) = traffic(&cluster, "m");
    let slot = Move::of(&cluster, "m");
    traffic.finish();
    cluster.primaries[slot.from].wait_for(cluster.replica(slot.from));
    Cluster::wait_for_file(&cluster.primaries[slot.from]);
    cluster.primaries[slot.from].kill();
    let new = cluster.replica(slot.from);
    let mut client = new.client();
    until("the replica to take over", || is_primary(&mut client));
    until("the cluster to agree", || client.text("CLUSTER INFO").contains("cluster_state:ok"));
    for line in &lines {
        assert_eq!(client.six(line)[0], 0, "{line}");
    }
    // The one that comes back follows and agrees.
    cluster.primaries[slot.from].restart();
    let (old, new) = (&cluster.primaries[slot.from], cluster.replica(slot.from));
    until("the old primary to follow", || !is_primary(&mut old.client()));
    assert_kept(new, old, &lines);
}
