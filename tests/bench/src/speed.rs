//! What a command costs: all cases in turn, several rounds, medians.

use crate::cases::{self, Beside, Case, Expect, Scripts, BASE};
use crate::load::{Cost, Load};
use crate::options::Options;
use crate::server::{Server, Setup};
use crate::table::{median, Table};
use std::io;

/// One case measured.
pub struct Measured {
    pub name: String,
    pub cpu_ns: f64,
    pub wall_ns: f64,
    /// Processor time against INCR, measured right before; the median of all rounds.
    pub to_incr: f64,
    /// Processor time of INCR right before each round.
    base: Vec<f64>,
    /// Processor time of the script that does the same, against this.
    pub twin: Option<f64>,
    /// This, against the processor time of the server's own calls.
    pub floor: Option<f64>,
    pub target: Option<f64>,
}

/// Measures all cases that are asked for.
pub fn run(setup: &Setup, options: &Options, aof: bool) -> io::Result<Vec<Measured>> {
    let server = Server::start(setup, aof)?;
    server.keep_stream()?;
    let mut ours = Load::connect(&server)?;
    let cell = setup.cell.as_ref().map(|_| Server::start_with_cell(setup, aof)).transpose()?;
    cell.as_ref().map_or(Ok(()), Server::keep_stream)?;
    let mut theirs = cell.as_ref().map(Load::connect).transpose()?;
    let scripts = Scripts::load(&mut ours)?;
    // No case pays for keys of another that expire, in time or in the stream.
    ours.control().ask(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"])?;
    let mut cases =
        cases::all(&scripts, Beside { cell: cell.is_some(), floor: setup.floor.is_some() });
    let wanted = |c: &Case| options.wants(&c.name);
    let others = |c: &Case| [c.twin, c.floor];
    let needed: Vec<_> = cases.iter().filter(|c| wanted(c)).flat_map(others).flatten().collect();
    cases.retain(|c| c.name == BASE || wanted(c) || needed.contains(&c.name.as_str()));
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); cases.len()];
    for round in 0..=options.rounds {
        for (db, case) in cases.iter().enumerate() {
            if round == 0 {
                let load = match &mut theirs {
                    Some(theirs) if case.on_cell => theirs,
                    _ => &mut ours,
                };
                case.prepare(load, db, options.keys)?;
                continue;
            }
            // Right before, so that both see the same neighbours on the machine.
            ours.select(0)?;
            let base = ours.measure(&cases[0].call, options.keys, options.calls)?.cpu_ns;
            let load = match &mut theirs {
                Some(theirs) if case.on_cell => theirs,
                _ => &mut ours,
            };
            load.select(db)?;
            rounds[db].push(Round { base, cost: measure(load, case, options)? });
        }
        eprint!("{}", if round == 0 { "rounds" } else { " ." });
    }
    eprintln!();
    Ok(sum_up(&cases, &rounds))
}

/// One measurement of a case, and of INCR right before.
#[derive(Clone, Copy)]
struct Round {
    base: f64,
    cost: Cost,
}

fn sum_up(cases: &[Case], rounds: &[Vec<Round>]) -> Vec<Measured> {
    let ratio = |i: usize| median(rounds[i].iter().map(|r| r.cost.cpu_ns / r.base).collect());
    let place = |name: Option<&str>| cases.iter().position(|c| Some(c.name.as_str()) == name);
    let row = |(i, case): (usize, &Case)| {
        Measured {
            name: case.name.clone(),
            cpu_ns: median(rounds[i].iter().map(|r| r.cost.cpu_ns).collect()),
            wall_ns: median(rounds[i].iter().map(|r| r.cost.wall_ns).collect()),
            // The baseline is measured against itself; what differs is the machine's noise.
            to_incr: if case.name == BASE { 1.0 } else { ratio(i) },
            base: rounds[i].iter().map(|r| r.base).collect(),
            twin: place(case.twin).map(|twin| ratio(twin) / ratio(i)),
            floor: place(case.floor).map(|floor| ratio(i) / ratio(floor)),
            target: case.target,
        }
    };
    cases.iter().enumerate().map(row).collect()
}

fn measure(load: &mut Load, case: &Case, options: &Options) -> io::Result<Cost> {
    let (before, from) = (decided(load)?, streamed(load)?);
    let cost = load.measure(&case.call, options.keys, options.calls)?;
    let (after, to) = (decided(load)?, streamed(load)?);
    let (allowed, denied) = (after.0 - before.0, after.1 - before.1);
    let right = match case.expect {
        Expect::Uncounted => allowed == 0.0 && denied == 0.0,
        // No command takes fewer than 30 bytes of the stream.
        Expect::Allowed => {
            allowed >= options.calls as f64 && denied == 0.0 && to - from > 30.0 * allowed
        }
        Expect::Denied => allowed == 0.0 && denied >= options.calls as f64 && to == from,
    };
    assert!(right, "{}: {allowed} allowed, {denied} denied, {} bytes", case.name, to - from);
    Ok(cost)
}

/// How many calls were allowed and denied so far.
fn decided(load: &mut Load) -> io::Result<(f64, f64)> {
    let allowed = load.control().info_number("rl_stats", "rl_allowed")?;
    Ok((allowed, load.control().info_number("rl_stats", "rl_denied")?))
}

/// How many bytes went into the stream for replicas so far.
fn streamed(load: &mut Load) -> io::Result<f64> {
    load.control().info_number("replication", "master_repl_offset")
}

/// How much INCR itself differed from measurement to measurement.
pub fn noise(all: &[Measured]) -> String {
    let mut base: Vec<f64> = all.iter().flat_map(|m| m.base.iter().copied()).collect();
    base.sort_by(f64::total_cmp);
    let at = |part: usize| base.get(base.len() * part / 10).copied().unwrap_or_default();
    format!(
        "INCR was measured {} times; eight tenths lie between {:.0} and {:.0} ns",
        base.len(),
        at(1),
        at(9)
    )
}

/// The table of one or two runs: without and with an append-only file.
pub fn table(plain: &[Measured], aof: &[Measured]) -> Table {
    let mut table = Table::new([
        "command",
        "ns CPU",
        "ns wall",
        "INCR = 1",
        "target",
        "floor = 1",
        "script / this",
        "AOF: ns CPU",
        "AOF: INCR = 1",
    ]);
    let some = |value: Option<f64>, digits: usize| {
        value.map_or_else(String::new, |v| format!("{v:.digits$}"))
    };
    for row in plain {
        let with_aof = aof.iter().find(|m| m.name == row.name);
        table.row([
            row.name.clone(),
            format!("{:.0}", row.cpu_ns),
            format!("{:.0}", row.wall_ns),
            format!("{:.2}", row.to_incr),
            some(row.target, 2),
            some(row.floor, 2),
            some(row.twin, 1),
            some(with_aof.map(|m| m.cpu_ns), 0),
            some(with_aof.map(|m| m.to_incr), 2),
        ]);
    }
    table.drop_empty_columns();
    table
}
