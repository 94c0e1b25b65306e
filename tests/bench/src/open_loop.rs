//! An open loop: commands leave by the clock, whether or not replies have come. Latency counts from
//! the moment a command was meant to leave, so that a stall delays nothing but the figures.

use crate::cases::Scripts;
use crate::load::{Load, Random};
use crate::options::Options;
use crate::resp::{Counter, Template};
use crate::server::{Server, Setup};
use crate::table::Table;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// Calls a second, unless `RATE` says otherwise. A machine that does not keep up is asked for half of
/// that, and then for half again.
const RATE: u64 = 48_000;
const HALVINGS: u32 = 2;
const CONNECTIONS: usize = 400;
const KEYS: u64 = 100_000;
/// A generator this late in one of a hundred commands measures itself.
const LAG_LIMIT_US: u64 = 2_000;
/// A server that uses this part of a core has none left.
const FULL: f64 = 0.95;

struct Conn {
    stream: TcpStream,
    counter: Counter,
    /// When the commands under way were meant to leave.
    under_way: VecDeque<Instant>,
    unsent: Vec<u8>,
}

/// Latencies in microseconds.
pub struct Measured {
    pub name: String,
    /// Calls a second.
    pub rate: u64,
    latencies: Vec<u64>,
    /// How late the commands left.
    lags: Vec<u64>,
    /// Part of a core that the server used.
    pub server_cpu: f64,
}

impl Measured {
    fn at(sorted: &[u64], part: f64) -> u64 {
        let index = (sorted.len() as f64 * part) as usize;
        sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
    }

    /// Why the figures would say nothing of the command: the server had no time left, or the
    /// generator did not keep to its schedule.
    fn fault(&self) -> Option<&'static str> {
        let full = self.server_cpu >= FULL || self.latencies.len() != self.lags.len();
        let late = Self::at(&self.lags, 0.99) > LAG_LIMIT_US;
        full.then_some("full").or_else(|| late.then_some("late"))
    }
}

/// Runs each command for `seconds`.
pub fn run(setup: &Setup, options: &Options, seconds: u64) -> io::Result<Vec<Measured>> {
    let server = Server::start(setup, false)?;
    server.keep_stream()?;
    let mut load = Load::connect(&server)?;
    let scripts = Scripts::load(&mut load)?;
    let bucket = format!("EVALSHA {} 1 key 1000000 0.0166667 1", scripts.bucket);
    let calls = [
        ("INCR", "INCR key", "SET key 1 EX 360000"),
        ("RL.TOKEN denied", "RL.TOKEN key 1000000 1", "RL.TOKEN key 1000000 1 FORCE COST 2000000"),
        ("RL.TOKEN allowed", "RL.TOKEN key 1000000000 1", "RL.TOKEN key 1000000000 1 COST 1000000"),
        ("RL.SLIDE allowed", "RL.SLIDE key 10000 1h", "RL.SLIDE key 10000 1h"),
        (crate::cases::LUA_BUCKET, &bucket, &bucket),
    ];
    let given = std::env::var("RATE").ok().and_then(|v| v.parse().ok());
    let full: u64 = given.unwrap_or(RATE);
    let mut all = Vec::new();
    for (name, call, warm) in calls.into_iter().filter(|(name, ..)| options.wants(name)) {
        for halving in 0..=HALVINGS {
            load.control().ask(&["FLUSHALL", "SYNC"])?;
            load.each_key(&Template::new(warm), KEYS)?;
            let before = Server::cpu(load.control())?;
            let (rate, start) = (full >> halving, Instant::now());
            let (latencies, lags) = generate(server.port, Template::new(call), rate, seconds)?;
            let cpu = Server::cpu(load.control())? - before;
            let server_cpu = cpu / start.elapsed().as_secs_f64();
            let measured = Measured { name: name.into(), rate, latencies, lags, server_cpu };
            let fault = measured.fault();
            all.push(measured);
            if fault.is_none() {
                break;
            }
        }
    }
    Ok(all)
}

/// Sends by the clock; returns latencies and lags, sorted.
fn generate(
    port: u16,
    mut call: Template,
    rate: u64,
    seconds: u64,
) -> io::Result<(Vec<u64>, Vec<u64>)> {
    let mut poll = Poll::new()?;
    let mut conns = connect(&poll, port)?;
    let mut events = Events::with_capacity(CONNECTIONS);
    let mut random = Random::new(7);
    let total = rate * seconds;
    let (mut latencies, mut lags) = (Vec::new(), Vec::new());
    let mut sent = 0;
    let mut buffer = vec![0; 1 << 16];
    let start = Instant::now() + Duration::from_millis(10);
    let due_at = |n: u64| start + Duration::from_nanos(n * 1_000_000_000 / rate);
    let patience = due_at(total) + Duration::from_secs(20);
    while (latencies.len() as u64) < total {
        let now = Instant::now();
        if now > patience {
            break;
        }
        while sent < total && due_at(sent) <= now {
            let conn = &mut conns[(sent % CONNECTIONS as u64) as usize];
            call.write(&mut conn.unsent, random.below(KEYS), KEYS);
            conn.under_way.push_back(due_at(sent));
            conn.flush()?;
            lags.push((Instant::now() - due_at(sent)).as_micros() as u64);
            sent += 1;
        }
        // No wait: the next command is due in 20 microseconds, and a wait is a millisecond at least.
        poll.poll(&mut events, Some(Duration::ZERO))?;
        for event in &events {
            let conn = &mut conns[event.token().0];
            if event.is_writable() {
                conn.flush()?;
            }
            conn.receive(&mut buffer, &mut latencies)?;
        }
    }
    latencies.sort_unstable();
    lags.sort_unstable();
    Ok((latencies, lags))
}

fn connect(poll: &Poll, port: u16) -> io::Result<Vec<Conn>> {
    let mut conns = Vec::new();
    for i in 0..CONNECTIONS {
        let stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(i), interest)?;
        conns.push(Conn {
            stream,
            counter: Counter::default(),
            under_way: VecDeque::new(),
            unsent: Vec::new(),
        });
    }
    Ok(conns)
}

impl Conn {
    fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(n) => drop(self.unsent.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], latencies: &mut Vec<u64>) -> io::Result<()> {
        loop {
            let n = match self.stream.read(buffer) {
                Ok(0) => return Err(io::Error::other("the server closed a connection")),
                Ok(n) => n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            };
            let now = Instant::now();
            for _ in 0..self.counter.feed(&buffer[..n])? {
                if let Some(due) = self.under_way.pop_front() {
                    latencies.push((now - due).as_micros() as u64);
                }
            }
        }
    }
}

pub fn table(all: &[Measured]) -> Table {
    let mut table = Table::new([
        "command",
        "calls/s",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "server CPU",
        "sent late, p99 µs",
    ]);
    for m in all {
        let quantile = |part| match m.fault() {
            None => Measured::at(&m.latencies, part).to_string(),
            Some(fault) => format!("n/a ({fault})"),
        };
        table.row([
            m.name.clone(),
            m.rate.to_string(),
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            format!("{:.0} %", m.server_cpu * 100.0),
            Measured::at(&m.lags, 0.99).to_string(),
        ]);
    }
    table
}
