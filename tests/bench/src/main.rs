//! Measures redis-rl on a real server, prints tables and writes docs/benchmarks.md and
//! docs/scaling.md. `make bench` runs all parts; named parts alone only print.
//!
//! ```text
//!   redis-rl-bench [speed] [memory] [growth] [open] [split]
//! ```

mod cases;
mod chart;
mod growth;
mod load;
mod memory;
mod open_loop;
mod options;
mod page;
mod resp;
mod server;
mod speed;
mod split;
mod table;
mod windows;

use options::Options;
use server::Setup;
use speed::Measured;
use std::io;
use std::path::Path;
use table::{thousands, Table};

const PARTS: [&str; 5] = ["speed", "memory", "growth", "open", "split"];

/// A limit that splits badly.
const SMALL: u64 = 100;

fn main() -> io::Result<()> {
    let parts: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = parts.iter().find(|p| !PARTS.contains(&p.as_str())) {
        return Err(io::Error::other(format!("{unknown}: not one of {}", PARTS.join(" "))));
    }
    let wants = |part: &str| parts.is_empty() || parts.iter().any(|p| p == part);
    let (setup, options) = (Setup::from_env()?, Options::from_env());
    let machine = page::machine(&setup)?;
    println!("{machine}\n");

    let mut benchmarks = vec![("machine", machine.clone())];
    let mut scaling = vec![("machine", machine)];
    let mut pictures = Vec::new();
    let section = |name: &'static str, table: &Table| {
        println!("{name}\n\n{table}");
        (name, table.to_string())
    };
    if wants("speed") {
        let plain = speed::run(&setup, &options, false)?;
        let aof = speed::run(&setup, &options, true)?;
        benchmarks.push(section("speed", &speed::table(&plain, &aof)));
        benchmarks.push(("keys", thousands(options.keys)));
        benchmarks.push(("rounds", options.rounds.to_string()));
        benchmarks.push(("calls", thousands(options.calls)));
        benchmarks.push(("noise", speed::noise(&plain)));
        benchmarks.push(("cell", cell_note(&setup)));
        scaling.push(section("cores", &per_core(&plain, &aof)));
        pictures.push(("img/benchmarks.svg".to_owned(), speed_chart(&plain)));
    }
    if wants("memory") {
        benchmarks.push(section("memory", &memory::key_table(&memory::keys(&setup, &options)?)));
        let entries = memory::entries(&setup, &options)?;
        benchmarks.push(("memory_keys", thousands(options.keys)));
        benchmarks.push(("log_entries", entries.first().map_or(0, |e| e.entries).to_string()));
        benchmarks.push(section("entries", &memory::entry_table(&entries)));
    }
    if wants("growth") {
        benchmarks.push(section("by_keys", &growth::by_keys(&setup, &options)?));
        benchmarks.push(section("by_limit", &growth::by_limit(&setup, &options)?));
        benchmarks.push(section("by_rules", &growth::by_rules(&setup, &options)?));
    }
    if wants("open") {
        let seconds = if options.quick { 3 } else { 15 };
        benchmarks.push(("seconds", seconds.to_string()));
        benchmarks
            .push(section("open", &open_loop::table(&open_loop::run(&setup, &options, seconds)?)));
    }
    if wants("split") {
        for (name, percent) in [("split_100", 100_u32), ("split_200", 200)] {
            let curves = split::curves(f64::from(percent) / 100.0);
            scaling.push(section(name, &split::table(&curves)));
            pictures.push((format!("img/split-{percent}.svg"), split_chart(&curves, percent)));
        }
        let (heavy, light) = (split::rounding(SMALL, 4.0), split::rounding(SMALL, 1.25));
        scaling.push(section("rounding", &split::rounding_table(SMALL, &heavy)));
        for (name, curves, percent) in [("", &heavy, 400), ("-125", &light, 125)] {
            let name = format!("img/split-rounding{name}.svg");
            pictures.push((name, rounding_chart(curves, percent)));
        }
        scaling.push(section("windows", &windows::table(SMALL)));
    }
    if parts.is_empty() && options.is_full() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let benchmarks = page::fill(include_str!("../pages/benchmarks.md"), &benchmarks);
        page::write(&docs, "benchmarks.md", &benchmarks)?;
        let scaling = page::fill(include_str!("../pages/scaling.md"), &scaling);
        page::write(&docs, "scaling.md", &scaling)?;
        for (name, picture) in &pictures {
            page::write(&docs, name, picture)?;
        }
    }
    Ok(())
}

fn cell_note(setup: &Setup) -> String {
    match setup.cell {
        Some(_) => {
            let version = std::env::var("REDIS_CELL_VERSION").unwrap_or_default();
            format!("redis-cell {version} runs on a server of its own, in the same rounds.")
        }
        None => String::new(),
    }
}

/// Decisions per second that fill one core.
fn per_core(plain: &[Measured], aof: &[Measured]) -> Table {
    let mut table = Table::new(["command", "decisions/s per core", "with an append-only file"]);
    let shown = [
        "INCR",
        "TOKEN, allowed",
        "TOKEN, denied",
        "LEAKY, allowed",
        "SLIDE, allowed",
        "SLIDE, denied",
        "FIXED, allowed",
        "CHARGE, 3 rules, allowed",
        cases::LUA_BUCKET,
        cases::LUA_WINDOW,
    ];
    let per_second = |all: &[Measured], name: &str| {
        let found = all.iter().find(|m| m.name == name);
        found.map(|m| format!("{},000", thousands((1e6 / m.cpu_ns).round() as u64)))
    };
    for name in shown {
        if let Some(plain) = per_second(plain, name) {
            table.row([name.to_owned(), plain, per_second(aof, name).unwrap_or_default()]);
        }
    }
    table
}

fn speed_chart(all: &[Measured]) -> String {
    let colour = |m: &Measured| match m.name.as_str() {
        cases::BASE => chart::COLOURS[2],
        name if name.starts_with("floor") => chart::COLOURS[3],
        name if name.starts_with("Lua") || name.starts_with("redis-cell") => chart::COLOURS[1],
        _ => chart::COLOURS[0],
    };
    let bar = |m: &Measured| chart::Bar {
        label: m.name.clone(),
        value: m.to_incr,
        note: format!("{:.2}", m.to_incr),
        colour: colour(m),
        target: m.target,
    };
    let bars: Vec<_> = all.iter().map(bar).collect();
    let note = "INCR on a key with a TTL = 1 (dashed line); pipelined, existing keys, replication included; black marks: targets";
    chart::bars("Server time of one call", note, &bars)
}

fn split_chart(curves: &[(split::Routing, Vec<f64>)], percent: u32) -> String {
    let lines: Vec<_> = curves
        .iter()
        .enumerate()
        .map(|(n, (routing, values))| chart::Line {
            name: routing.name().to_owned(),
            values: values.clone(),
            colour: chart::COLOURS[n % chart::COLOURS.len()],
            dash: chart::DASHES[n % chart::DASHES.len()],
        })
        .collect();
    let places: Vec<_> = split::PARTS.iter().map(u64::to_string).collect();
    let title = format!("Admitted by a split key, traffic at {percent} % of the limit");
    chart::lines(&title, "percent of what one key admits", &places, 100, &lines)
}

/// A colour for each way to share, a dash for each kind of traffic.
fn rounding_chart(curves: &[split::Rounding], percent: u32) -> String {
    let line = |curve: &split::Rounding| chart::Line {
        name: curve.name(),
        values: curve.values.clone(),
        colour: chart::COLOURS[curve.shares as usize],
        dash: chart::DASHES[usize::from(curve.routing.skewed())],
    };
    let lines: Vec<_> = curves.iter().map(line).collect();
    let places: Vec<_> = split::parts_of(SMALL).map(|n| n.to_string()).collect();
    let title = format!("Admitted by a split key, limit {SMALL}, traffic at {percent} %");
    let note = "percent of what one key admits, a second try allowed; above 100 %: too much passes";
    chart::lines(&title, note, &places, 150, &lines)
}
