//! Writers that outlive their server: they come back to it, count what they were allowed, and at the end it is
//! told whether that was too much.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::client::{show, six, texts};
use super::traffic::{key, lines, Link, Traffic};
use super::work::pictures;
use super::{until, Client, Server};

pub const WRITERS: usize = 12;

/// How many times over the faults happen: `RL_FAULT_ROUNDS`, set by `make faults`.
pub fn rounds() -> usize {
    std::env::var("RL_FAULT_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// What the writers of one server share.
struct Door {
    port: u16,
    /// While it is shut nobody connects.
    shut: AtomicBool,
    /// How many are without a connection: all that they were allowed before is counted.
    outside: AtomicUsize,
    /// Error replies that the test expects, by how they begin; such a call is made again.
    expected: &'static [&'static str],
    refused: AtomicUsize,
    /// How many microseconds a writer rests before each call.
    rest_us: AtomicU64,
}

/// One writer. An answer that got lost with the server is nobody's.
struct Writer {
    door: Arc<Door>,
    client: Option<Client>,
}

impl Writer {
    fn new(door: &Arc<Door>) -> Writer {
        door.outside.fetch_add(1, Relaxed);
        Writer { door: door.clone(), client: None }
    }

    fn client(&mut self) -> Option<&mut Client> {
        if self.client.is_none() && !self.door.shut.load(Relaxed) {
            self.client = Client::try_connect(self.door.port).ok();
            if self.client.is_some() {
                self.door.outside.fetch_sub(1, Relaxed);
            }
        }
        self.client.as_mut()
    }
}

/// A moment until the next try, not to keep the machine busy.
fn moment() {
    std::thread::sleep(Duration::from_millis(2));
}

impl Link for Writer {
    fn ask(&mut self, words: &[Vec<u8>]) -> Option<Value> {
        let rest_us = self.door.rest_us.load(Relaxed);
        let Some(client) = self.client() else {
            moment();
            return None;
        };
        if rest_us > 0 {
            std::thread::sleep(Duration::from_micros(rest_us));
        }
        let Some(reply) = client.try_send(words).and_then(|()| client.try_receive()) else {
            self.client = None;
            self.door.outside.fetch_add(1, Relaxed);
            return None;
        };
        let text = show(&reply);
        if self.door.expected.iter().any(|start| text.starts_with(start)) {
            self.door.refused.fetch_add(1, Relaxed);
            moment();
            return None;
        }
        Some(reply)
    }
}

/// Twelve writers on limiters of every kind that do not refill within the test.
pub struct Crowd {
    pub lines: Vec<String>,
    limit: i64,
    pub traffic: Traffic,
    door: Arc<Door>,
    /// Per line: allowed to a client, and later unknown to the server.
    pub lost: Vec<i64>,
    /// Per line: what clients had been allowed and what the server knew when that was compared last.
    compared: Vec<(i64, i64)>,
}

impl Crowd {
    /// Starts the writers. Replies that begin with one of `expected` are errors that belong to the fault.
    pub fn start(
        server: &Server,
        tag: &str,
        limit: i64,
        expected: &'static [&'static str],
    ) -> Crowd {
        let lines = lines(tag, limit);
        let door = Arc::new(Door {
            port: server.port,
            shut: AtomicBool::new(false),
            outside: AtomicUsize::new(0),
            expected,
            refused: AtomicUsize::new(0),
            rest_us: AtomicU64::new(0),
        });
        let links = (0..WRITERS).map(|_| Box::new(Writer::new(&door)) as Box<dyn Link>).collect();
        let traffic = Traffic::start(&lines, links);
        let count = lines.len();
        Crowd { lines, limit, traffic, door, lost: vec![0; count], compared: vec![(0, 0); count] }
    }

    pub fn allowed(&self) -> Vec<i64> {
        (0..self.lines.len()).map(|line| self.traffic.counts.allowed(line)).collect()
    }

    pub fn refused(&self) -> usize {
        self.door.refused.load(Relaxed)
    }

    /// From now on each writer rests so long before each call.
    pub fn pace(&self, rest: Duration) {
        self.door.rest_us.store(rest.as_micros() as u64, Relaxed);
    }

    /// Waits until each line has been allowed so many times more, or used up.
    #[track_caller]
    pub fn more(&self, calls: i64) {
        let goals: Vec<i64> =
            self.allowed().iter().map(|now| (now + calls).min(self.limit)).collect();
        until("more calls", || self.allowed().iter().zip(&goals).all(|(now, goal)| now >= goal));
    }

    /// Nobody comes back to a server that is gone; waits until everybody has noticed that it is.
    #[track_caller]
    pub fn leave(&self, gone: impl FnOnce()) {
        self.door.shut.store(true, Relaxed);
        gone();
        until("the writers to notice", || self.door.outside.load(Relaxed) == WRITERS);
    }

    /// How much of each line the server knows of, by its own state.
    pub fn known(&self, server: &Server) -> Vec<i64> {
        let mut client = server.client();
        let used = |line: &String| match client.call(&format!("RL.PEEK {}", key(line))) {
            Value::Nil => 0,
            reply => self.limit - six(&reply).expect("a decision")[1],
        };
        self.lines.iter().map(used).collect()
    }

    /// The server is back, and lets in again who left. Answers how much of what it had allowed since the last
    /// time it no longer knows, per line.
    pub fn come_back(&mut self, server: &Server) -> Vec<i64> {
        let now: Vec<(i64, i64)> = self.allowed().into_iter().zip(self.known(server)).collect();
        let lost = |((allowed, known), before): (&(i64, i64), &(i64, i64))| {
            ((allowed - before.0) - (known - before.1)).max(0)
        };
        let lost: Vec<i64> = now.iter().zip(&self.compared).map(lost).collect();
        self.lost.iter_mut().zip(&lost).for_each(|(sum, lost)| *sum += lost);
        self.compared = now;
        self.door.shut.store(false, Relaxed);
        lost
    }

    /// Uses up every line. No more was allowed than the limit and what got lost, and no less than the limit
    /// but for `unanswered` calls that were charged and whose answers went with the server.
    #[track_caller]
    pub fn finish(self, server: &mut Server, unanswered: usize) {
        let counts = self.traffic.finish();
        for (number, line) in self.lines.iter().enumerate() {
            let (allowed, lost) = (counts.allowed(number), self.lost[number]);
            assert!(allowed <= self.limit + lost, "{line}: {allowed} allowed, {lost} lost");
            assert!(allowed >= self.limit - unanswered as i64, "{line}: {allowed} allowed");
            assert_eq!(server.client().six(line)[0], 0, "{line}");
        }
        assert_all_expire(server);
        server.assert_well();
    }
}

/// Every limiter goes by itself some day.
#[track_caller]
pub fn assert_all_expire(server: &Server) {
    let mut client = server.client();
    for key in limiters(&mut client) {
        let ttl = client.int(&format!("PTTL {key}"));
        assert!(ttl > 0, "{key}: PTTL {ttl}");
    }
}

/// The names of all limiters, in order.
#[track_caller]
fn limiters(client: &mut Client) -> Vec<String> {
    let Value::Array(scan) = client.ok("SCAN 0 COUNT 1000000 TYPE ratelimit") else {
        panic!("no array")
    };
    let mut names = texts(&scan[1]);
    assert!(!names.is_empty(), "no limiter was there to look at");
    names.sort();
    names
}

/// The replica is in step and holds the same limiters and keys, to the bit.
#[track_caller]
pub fn assert_equal(primary: &Server, replica: &mut Server) {
    primary.wait_for(replica);
    let (mut here, mut there) = (primary.client(), replica.client());
    let names = limiters(&mut here);
    assert_eq!(limiters(&mut there), names);
    assert_eq!(pictures(&mut here, &names), pictures(&mut there, &names));
    assert_eq!(here.ok("DEBUG DIGEST"), there.ok("DEBUG DIGEST"));
    assert!(!replica.whole_log().contains(" was refused"), "{}", replica.log());
    replica.assert_well();
}
