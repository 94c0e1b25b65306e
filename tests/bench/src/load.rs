//! A closed loop: many connections, each with a full pipeline under way.

use crate::resp::{Conn, Template};
use crate::server::Server;
use std::io;
use std::time::Instant;

pub const CONNECTIONS: usize = 50;
pub const PIPELINE: usize = 32;

/// A fast generator of random numbers (xorshift64*): measuring needs no better one.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// What one command cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Nanoseconds of the server's processor time.
    pub cpu_ns: f64,
    /// Nanoseconds from the first command to the last reply.
    pub wall_ns: f64,
}

/// The connections of a run.
pub struct Load {
    conns: Vec<Conn>,
    control: Conn,
    pub random: Random,
    batch: Vec<u8>,
}

impl Load {
    pub fn connect(server: &Server) -> io::Result<Self> {
        let conns = (0..CONNECTIONS).map(|_| server.conn()).collect::<io::Result<_>>()?;
        let control = server.conn()?;
        Ok(Self { conns, control, random: Random::new(1), batch: Vec::new() })
    }

    /// The connection for questions beside the load.
    pub fn control(&mut self) -> &mut Conn {
        &mut self.control
    }

    /// Moves all connections to a database.
    pub fn select(&mut self, db: usize) -> io::Result<()> {
        let number = db.to_string();
        self.control.ask(&["SELECT", &number])?;
        for conn in &mut self.conns {
            conn.ask(&["SELECT", &number])?;
        }
        Ok(())
    }

    /// The command once on every key, in order.
    pub fn each_key(&mut self, template: &Template, keys: u64) -> io::Result<()> {
        let mut next = 0;
        self.drive(template, keys, keys, &mut |_| {
            next += 1;
            next - 1
        })?;
        Ok(())
    }

    /// The command on random keys; at least `calls` times, in whole pipelines.
    pub fn measure(&mut self, template: &Template, keys: u64, calls: u64) -> io::Result<Cost> {
        let before = Server::cpu(&mut self.control)?;
        let start = Instant::now();
        let made = self.drive(template, keys, calls, &mut |random| random.below(keys))?;
        let wall = start.elapsed().as_secs_f64();
        let cpu = Server::cpu(&mut self.control)? - before;
        let per_call = 1e9 / made as f64;
        Ok(Cost { cpu_ns: cpu * per_call, wall_ns: wall * per_call })
    }

    fn drive(
        &mut self,
        template: &Template,
        keys: u64,
        calls: u64,
        key: &mut dyn FnMut(&mut Random) -> u64,
    ) -> io::Result<u64> {
        let mut template = template.clone();
        let batches = calls.div_ceil(PIPELINE as u64);
        let mut sent = 0;
        let mut busy = vec![false; self.conns.len()];
        loop {
            for (conn, busy) in self.conns.iter_mut().zip(&mut busy) {
                if *busy {
                    conn.wait(PIPELINE)?;
                }
                *busy = sent < batches;
                if *busy {
                    self.batch.clear();
                    for _ in 0..PIPELINE {
                        template.write(&mut self.batch, key(&mut self.random), keys);
                    }
                    conn.send(&self.batch)?;
                    sent += 1;
                }
            }
            if !busy.contains(&true) {
                return Ok(batches * PIPELINE as u64);
            }
        }
    }
}
