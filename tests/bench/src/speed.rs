//! What a command costs: all cases in turn, several rounds, medians.

use crate::cases::{self, Case, Expect, Scripts, BASE};
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
    /// Processor time of the script that does the same, against this.
    pub twin: Option<f64>,
    pub target: Option<f64>,
}

/// Measures all cases that are asked for.
pub fn run(setup: &Setup, options: &Options, aof: bool) -> io::Result<Vec<Measured>> {
    let server = Server::start(setup, aof)?;
    let mut ours = Load::connect(&server)?;
    let cell = setup.cell.as_ref().map(|_| Server::start_with_cell(setup, aof)).transpose()?;
    let mut theirs = cell.as_ref().map(Load::connect).transpose()?;
    let scripts = Scripts::load(&mut ours)?;
    let mut cases = cases::all(&scripts, cell.is_some());
    let wanted = |c: &Case| options.wants(&c.name);
    let needed: Vec<_> = cases.iter().filter(|c| wanted(c)).filter_map(|c| c.twin).collect();
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
    let row = |(i, case): (usize, &Case)| {
        let twin = case.twin.and_then(|name| cases.iter().position(|c| c.name == name));
        Measured {
            name: case.name.clone(),
            cpu_ns: median(rounds[i].iter().map(|r| r.cost.cpu_ns).collect()),
            wall_ns: median(rounds[i].iter().map(|r| r.cost.wall_ns).collect()),
            to_incr: ratio(i),
            twin: twin.map(|twin| ratio(twin) / ratio(i)),
            target: case.target,
        }
    };
    cases.iter().enumerate().map(row).collect()
}

fn measure(load: &mut Load, case: &Case, options: &Options) -> io::Result<Cost> {
    let before = decided(load)?;
    let cost = load.measure(&case.call, options.keys, options.calls)?;
    let after = decided(load)?;
    let (allowed, denied) = (after.0 - before.0, after.1 - before.1);
    let right = match case.expect {
        Expect::Uncounted => allowed == 0.0 && denied == 0.0,
        Expect::Allowed => allowed >= options.calls as f64 && denied == 0.0,
        Expect::Denied => allowed == 0.0 && denied >= options.calls as f64,
    };
    assert!(right, "{}: {allowed} allowed, {denied} denied", case.name);
    Ok(cost)
}

/// How many calls were allowed and denied so far.
fn decided(load: &mut Load) -> io::Result<(f64, f64)> {
    let allowed = load.control().info_number("rl_stats", "rl_allowed")?;
    Ok((allowed, load.control().info_number("rl_stats", "rl_denied")?))
}

/// The table of one or two runs: without and with an append-only file.
pub fn table(plain: &[Measured], aof: &[Measured]) -> Table {
    let mut table = Table::new([
        "command",
        "ns CPU",
        "ns wall",
        "INCR = 1",
        "target",
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
            some(row.twin, 1),
            some(with_aof.map(|m| m.cpu_ns), 0),
            some(with_aof.map(|m| m.to_incr), 2),
        ]);
    }
    table.drop_empty_columns();
    table
}
