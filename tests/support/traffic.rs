//! Writers that charge limiters of every kind again and again, and count what they were allowed.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::JoinHandle;

use redis::Value;

use super::client::{is_error, show, six, split};

/// One way to write a limit of `limit` that does not refill within a test. All keys share a hash tag.
pub fn lines(tag: &str, limit: i64) -> Vec<String> {
    [
        "RL.TOKEN {#}:token @ 1 PER 5d",
        "RL.LEAKY {#}:leaky @ 1 PER 5d",
        "RL.SLIDE {#}:slide @ 1d",
        "RL.SLIDE {#}:blocks @ 1d BLOCKS 24",
        "RL.FIXED {#}:fixed @ 1d",
        "RL.CHARGE {#}:rules SLIDE @ 1d FIXED @ 2d TOKEN 7300 1 PER 5d COST 1 1 0",
        "RL.MCHARGE 2 {#}:left {#}:right SLIDE @ 1d TOKEN @ 1 PER 5d",
    ]
    .map(|line| line.replace('#', tag).replace('@', &limit.to_string()))
    .into()
}

/// The key that tells how much of a line is used (the first of MCHARGE).
pub fn key(line: &str) -> &str {
    let words: Vec<&str> = line.split(' ').collect();
    if words[0] == "RL.MCHARGE" {
        words[2]
    } else {
        words[1]
    }
}

/// Something that sends a command and returns its reply; errors come as values, a lost link as `None`.
pub trait Link: Send {
    fn ask(&mut self, words: &[Vec<u8>]) -> Option<Value>;
}

impl Link for redis::cluster::ClusterConnection {
    fn ask(&mut self, words: &[Vec<u8>]) -> Option<Value> {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word.as_slice());
        }
        match command.query::<Value>(self) {
            Ok(reply) => Some(reply),
            Err(error) if error.is_io_error() || error.is_connection_dropped() => None,
            Err(error) => panic!("{}: {error}", String::from_utf8_lossy(&words[0])),
        }
    }
}

/// What was allowed, by line.
pub struct Counts {
    pub allowed: Vec<AtomicI64>,
    /// Replies of any kind, all lines together.
    answered: AtomicI64,
    stop: AtomicBool,
}

impl Counts {
    pub fn allowed(&self, line: usize) -> i64 {
        self.allowed[line].load(Relaxed)
    }

    pub fn answered(&self) -> i64 {
        self.answered.load(Relaxed)
    }

    pub fn total(&self) -> i64 {
        self.allowed.iter().map(|n| n.load(Relaxed)).sum()
    }
}

/// Writers at work.
pub struct Traffic {
    pub counts: Arc<Counts>,
    writers: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Starts one writer per link. Each goes round all lines until it is stopped, and then on until every
    /// line has said no to it.
    pub fn start(lines: &[String], links: Vec<Box<dyn Link>>) -> Traffic {
        let allowed = lines.iter().map(|_| AtomicI64::new(0)).collect();
        let (answered, stop) = (AtomicI64::new(0), AtomicBool::new(false));
        let counts = Arc::new(Counts { allowed, answered, stop });
        let words: Vec<Vec<Vec<u8>>> = lines.iter().map(|line| split(line)).collect();
        let writer = |mut link: Box<dyn Link>| {
            let (counts, words) = (counts.clone(), words.clone());
            std::thread::spawn(move || write(&mut *link, &words, &counts))
        };
        let writers = links.into_iter().map(writer).collect();
        Traffic { counts, writers }
    }

    /// Lets the writers use up what is left, and waits for them.
    pub fn finish(self) -> Arc<Counts> {
        self.counts.stop.store(true, Relaxed);
        for writer in self.writers {
            writer.join().expect("a writer");
        }
        self.counts
    }
}

fn write(link: &mut dyn Link, lines: &[Vec<Vec<u8>>], counts: &Counts) {
    let mut open: Vec<usize> = (0..lines.len()).collect();
    while !open.is_empty() {
        let last_round = counts.stop.load(Relaxed);
        open.retain(|line| {
            let Some(reply) = link.ask(&lines[*line]) else { return true };
            assert!(!is_error(&reply), "{}", show(&reply));
            let decision = six(&reply).expect("a decision");
            counts.allowed[*line].fetch_add(decision[0], Relaxed);
            counts.answered.fetch_add(1, Relaxed);
            !last_round || decision[0] == 1
        });
    }
}
