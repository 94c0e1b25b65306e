//! A replica is promoted, as Sentinel does it, while writers ask for several times what is allowed. In the
//! whole run no more is allowed than the limit and what the lost primary had allowed but not yet passed on.

mod support;

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;
use support::client::{show, six, split, Client};
use support::stream;
use support::traffic::{key, lines, Link, Traffic};
use support::wait::patience;
use support::{until, Server};

const WRITERS: usize = 12;
const LIMIT: i64 = 6000;
/// So many charges of each line begin the run.
const START: i64 = 500;

/// What Sentinel tells its clients.
#[derive(Default)]
struct Directions {
    /// Whom to ask; 0: nobody for the moment.
    port: AtomicU16,
    /// To wait after each charge until a replica has it: only then it counts as allowed.
    wait: AtomicBool,
    /// How many clients have seen that there is nobody: all that they were allowed before is counted.
    idle: AtomicUsize,
}

/// A client that follows the directions. An answer that got lost with its server is nobody's: the call is not
/// made again.
struct Follower {
    to: Arc<Directions>,
    connected: Option<(u16, Client)>,
    idle: bool,
}

impl Follower {
    fn client(&mut self) -> Option<&mut Client> {
        let port = self.to.port.load(Relaxed);
        if self.connected.as_ref().is_none_or(|(known, _)| *known != port) {
            if port == 0 && !self.idle {
                self.idle = true;
                self.to.idle.fetch_add(1, Relaxed);
            }
            self.connected = None;
            match if port == 0 { None } else { Client::try_connect(port).ok() } {
                Some(client) => self.connected = Some((port, client)),
                // A moment until the next look, not to keep the machine busy.
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        self.connected.as_mut().map(|(_, client)| client)
    }

    fn try_ask(&mut self, words: &[Vec<u8>]) -> Option<Value> {
        let wait = self.to.wait.load(Relaxed);
        let client = self.client()?;
        client.try_send(words)?;
        let reply = client.try_receive()?;
        if wait && six(&reply).is_some_and(|decision| decision[0] == 1) {
            client.try_send(&split("WAIT 1 0"))?;
            let confirmed = client.try_receive()?;
            if confirmed == Value::Int(0) {
                return None;
            }
        }
        // The replica before it is promoted, and a link of a replica that is just being promoted.
        let text = show(&reply);
        if text.starts_with("READONLY") || text.starts_with("UNBLOCKED") {
            return None;
        }
        Some(reply)
    }
}

impl Link for Follower {
    fn ask(&mut self, words: &[Vec<u8>]) -> Option<Value> {
        let reply = self.try_ask(words);
        if reply.is_none() {
            self.connected = None;
        }
        reply
    }
}

struct Pair {
    primary: Server,
    replica: Server,
    directions: Arc<Directions>,
    lines: Vec<String>,
    /// The replica's place in the stream when its primary was gone.
    reached: i64,
}

/// What was allowed by a moment, and the primary's place in the stream after it.
struct Sample {
    when: Instant,
    allowed: Vec<i64>,
    offset: i64,
}

impl Pair {
    fn start() -> Pair {
        let primary = Server::build().running_clock(0).start();
        // The replica keeps a file of what it got: the measure of what reached it.
        let replica = Server::build()
            .running_clock(0)
            .args("--appendonly yes --appendfsync no")
            .replica_of(&primary);
        let replica = replica.start();
        // After a sync the stream begins only with the replica's first word, up to a second later: the first
        // key may have come with the sync, the second comes by the stream.
        for name in ["first", "second"] {
            primary.client().ok(&format!("SET {name} 1"));
            until("the stream to flow", || replica.client().int(&format!("EXISTS {name}")) == 1);
        }
        // Until then the replica's file is one of another name.
        let mut there = replica.client();
        until("the replica's file to be begun", || {
            there.info_int("persistence", "aof_rewrite_in_progress") == 0
                && there.info_int("persistence", "aof_rewrite_scheduled") == 0
        });
        let directions = Arc::new(Directions::default());
        directions.port.store(primary.port, Relaxed);
        Pair { primary, replica, directions, lines: lines("f", LIMIT), reached: 0 }
    }

    /// Starts the writers; answers when they are well under way.
    fn traffic(&self) -> Traffic {
        let link = || Follower { to: self.directions.clone(), connected: None, idle: false };
        let links = (0..WRITERS).map(|_| Box::new(link()) as Box<dyn Link>).collect();
        let traffic = Traffic::start(&self.lines, links);
        until("traffic", || (0..self.lines.len()).all(|n| traffic.counts.allowed(n) > START));
        traffic
    }

    /// How much of each line the replica knows of, by its own state.
    fn known(&self) -> Vec<i64> {
        let mut client = self.replica.client();
        let used = |line: &String| match client.call(&format!("RL.PEEK {}", key(line))) {
            Value::Nil => 0,
            reply => LIMIT - six(&reply).expect("a decision")[1],
        };
        self.lines.iter().map(used).collect()
    }

    /// How many charges of each line reached the replica, by the file that it wrote.
    fn received(&self) -> Vec<i64> {
        let commands = stream::commands(&stream::aof(&self.replica));
        let of = |line: &String| {
            let name = key(line).as_bytes();
            commands.iter().filter(|words| words[0] == b"rl.x" && words[1] == name).count() as i64
        };
        self.lines.iter().map(of).collect()
    }

    /// Kills the primary and promotes the replica; answers per line what the clients had been allowed by
    /// then, and what of it the replica has.
    fn fail_over(&mut self, traffic: &Traffic) -> (Vec<i64>, Vec<i64>) {
        self.primary.kill();
        let mut client = self.replica.client();
        until("the replica to see that its primary is gone", || {
            client.info("replication", "master_link_status").as_deref() == Some("down")
        });
        self.directions.port.store(0, Relaxed);
        until("the writers to notice", || self.directions.idle.load(Relaxed) == WRITERS);
        let acknowledged = (0..self.lines.len()).map(|n| traffic.counts.allowed(n)).collect();
        self.reached = client.info_int("replication", "slave_repl_offset");
        let received = self.received();
        assert_eq!(received, self.known(), "the replica's state and what it was sent");
        client.ok("REPLICAOF NO ONE");
        // The new primary has no replica that anybody could wait for.
        self.directions.wait.store(false, Relaxed);
        self.directions.port.store(self.replica.port, Relaxed);
        (acknowledged, received)
    }

    fn report(
        &mut self,
        name: &str,
        traffic: Traffic,
        acknowledged: &[i64],
        received: &[i64],
    ) -> i64 {
        let counts = traffic.finish();
        let mut lost_in_all = 0;
        for (number, line) in self.lines.iter().enumerate() {
            let lost = (acknowledged[number] - received[number]).max(0);
            let allowed = counts.allowed(number);
            println!(
                "{name}: {line}: limit {LIMIT}, allowed {allowed}, of them {} before the failover, {lost} \
                 lost with the primary",
                acknowledged[number]
            );
            assert!(allowed <= LIMIT + lost, "{line}: {allowed} with {lost} lost");
            // What the old primary took without answering is used up, not given out again.
            assert!(allowed >= LIMIT - WRITERS as i64, "{line}: {allowed}");
            assert_eq!(self.replica.client().six(line)[0], 0, "{line}");
            lost_in_all += lost;
        }
        self.replica.assert_well();
        lost_in_all
    }
}

/// While the link is up the replica is a moment behind, no more: what is lost was allowed in that moment.
#[test]
fn a_primary_killed_under_load() {
    let mut pair = Pair::start();
    let traffic = pair.traffic();
    let (mut here, mut there) = (pair.primary.client(), pair.replica.client());
    let (begin, mut samples) = (Instant::now(), Vec::new());
    let enough = LIMIT * pair.lines.len() as i64 * 5 / 6;
    until("traffic for a second, and the replica not far behind", || {
        let allowed = (0..pair.lines.len()).map(|n| traffic.counts.allowed(n)).collect();
        let offset = here.info_int("replication", "master_repl_offset");
        samples.push(Sample { when: Instant::now(), allowed, offset });
        let reached = there.info_int("replication", "slave_repl_offset");
        let known = samples.iter().rfind(|sample| sample.offset <= reached);
        let near = known.is_some_and(|sample| sample.when.elapsed() < patience(1) / 4);
        near && (begin.elapsed() > Duration::from_secs(1) || traffic.counts.total() > enough)
    });
    let killed = Instant::now();
    let (acknowledged, received) = pair.fail_over(&traffic);
    let lost = pair.report("killed", traffic, &acknowledged, &received);
    let before: i64 = acknowledged.iter().sum();
    let last = samples.iter().rfind(|sample| sample.offset <= pair.reached).expect("a sample");
    let lag = killed.duration_since(last.when);
    println!("killed: {lost} of {before} acknowledged calls were in flight, all within {lag:?}");
    assert!(lag < patience(1) / 4, "the replica was {lag:?} behind");
    for ((line, received), allowed) in pair.lines.iter().zip(&received).zip(&last.allowed) {
        assert!(
            received >= allowed,
            "{line}: {received} there, {allowed} allowed by {lag:?} before"
        );
    }
}

/// The replica had lost its link for a while: the loss is what was allowed since, and not one more.
#[test]
fn a_primary_killed_while_its_replica_was_cut_off() {
    let mut pair = Pair::start();
    let traffic = pair.traffic();
    pair.replica.client().ok("REPLICAOF 127.0.0.1 1");
    let before = traffic.counts.total();
    until("more traffic", || traffic.counts.total() > before + 500);
    let (acknowledged, received) = pair.fail_over(&traffic);
    let lost = pair.report("cut off", traffic, &acknowledged, &received);
    assert!(lost >= 500, "only {lost} were lost");
}

/// Callers who wait for the replica after each charge lose nothing at all.
#[test]
fn with_wait_the_limit_holds_exactly() {
    let mut pair = Pair::start();
    pair.directions.wait.store(true, Relaxed);
    let traffic = pair.traffic();
    let (acknowledged, received) = pair.fail_over(&traffic);
    for ((line, acknowledged), received) in pair.lines.iter().zip(&acknowledged).zip(&received) {
        assert!(acknowledged <= received, "{line}: {acknowledged} confirmed, {received} there");
    }
    let counts = traffic.finish();
    for (number, line) in pair.lines.iter().enumerate() {
        let allowed = counts.allowed(number);
        assert!(allowed <= LIMIT, "{line}: {allowed}");
    }
}

/// Cut off from all its replicas, a primary that is told to stops charging, and says so by an error.
#[test]
fn without_replicas_a_careful_primary_does_not_charge() {
    let primary = Server::build()
        .running_clock(0)
        .args("--min-replicas-to-write 1 --min-replicas-max-lag 2")
        .start();
    let mut replica = Server::build().running_clock(0).replica_of(&primary).start();
    primary.wait_for(&replica);
    let mut client = primary.client();
    until("the replica to count", || {
        client.info("replication", "min_slaves_good_slaves").as_deref() == Some("1")
    });
    assert_eq!(client.six("RL.TOKEN k 5 1 PER 1d")[..2], [1, 4]);
    replica.kill();
    until("the replica to be missed", || show(&client.call("SET x 1")).starts_with("NOREPLICAS"));
    for line in [
        "RL.TOKEN k 5 1 PER 1d",
        "RL.CHARGE k TOKEN 5 1 PER 1d",
        "RL.REFUND k",
        "CL.THROTTLE j 4 1 1",
    ] {
        let text = client.error(line);
        assert!(text.starts_with("NOREPLICAS"), "{line}: {text}");
    }
    assert_eq!(client.six("RL.PEEK k")[..2], [1, 4]);
    replica.restart();
    until("the replica to count again", || {
        !show(&client.call("SET x 1")).starts_with("NOREPLICAS")
    });
    assert_eq!(client.six("RL.TOKEN k 5 1 PER 1d")[..2], [1, 3]);
}
