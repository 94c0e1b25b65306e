//! How cost grows: with the number of keys, with the length of a log, with the number of rules.

use crate::cases::{charge_line, charge_warm};
use crate::load::Load;
use crate::options::Options;
use crate::resp::{key_name, Template};
use crate::server::{Server, Setup};
use crate::table::{median, thousands, Table};
use redis_rl::limit::codec::Trail;
use redis_rl::limit::{decide, Ask, Limiter, Request, Rule, Slide};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// One thing measured at several sizes, in turn.
struct Row {
    label: String,
    keys: u64,
    calls: Vec<Template>,
}

/// The medians of each row's calls. Every row has a database of its own, filled before.
fn rounds(load: &mut Load, rows: &[Row], options: &Options) -> io::Result<Vec<Vec<f64>>> {
    let mut costs: Vec<Vec<Vec<f64>>> =
        rows.iter().map(|row| vec![Vec::new(); row.calls.len()]).collect();
    for _ in 0..options.rounds {
        for (db, (row, costs)) in rows.iter().zip(&mut costs).enumerate() {
            load.select(db)?;
            for (call, costs) in row.calls.iter().zip(costs) {
                costs.push(load.measure(call, row.keys, options.calls)?.cpu_ns);
            }
        }
    }
    Ok(costs.into_iter().map(|row| row.into_iter().map(median).collect()).collect())
}

fn table(head: &[&str], rows: &[Row], costs: &[Vec<f64>]) -> Table {
    let mut table = Table::new(head.iter().copied());
    for (row, costs) in rows.iter().zip(costs) {
        let cells = costs.iter().map(|ns| format!("{ns:.0}"));
        table.row(std::iter::once(row.label.clone()).chain(cells));
    }
    table
}

/// From a thousand to a million keys: INCR, TOKEN allowed and denied on keys that exist.
pub fn by_keys(setup: &Setup, options: &Options) -> io::Result<Table> {
    let server = Server::start(setup, false)?;
    server.keep_stream()?;
    let mut load = Load::connect(&server)?;
    let sizes: &[u64] =
        if options.quick { &[1_000, 10_000] } else { &[1_000, 10_000, 100_000, 1_000_000] };
    let mut rows = Vec::new();
    for (i, keys) in sizes.iter().enumerate() {
        let lines = ["INCR key", "RL.TOKEN key 1000000000 1", "RL.TOKEN key 1000000 1"];
        // Each kind in a database of its own, all of the same size. The last is twice empty.
        let warm = [
            "SET key 1 EX 360000",
            "RL.TOKEN key 1000000000 1 COST 1000000",
            "RL.TOKEN key 1000000 1 FORCE COST 2000000",
        ];
        for (kind, (line, warm)) in lines.iter().zip(warm).enumerate() {
            load.select(i * lines.len() + kind)?;
            load.each_key(&Template::new(warm), *keys)?;
            rows.push(Row {
                label: thousands(*keys),
                keys: *keys,
                calls: vec![Template::new(line)],
            });
        }
    }
    let costs = rounds(&mut load, &rows, options)?;
    let mut table = Table::new(["keys", "INCR", "TOKEN allowed", "TOKEN denied"]);
    for (rows, costs) in rows.chunks(3).zip(costs.chunks(3)) {
        let cells = costs.iter().map(|c| format!("{:.0}", c[0]));
        table.row(std::iter::once(rows[0].label.clone()).chain(cells));
    }
    Ok(table)
}

/// One to eight rules on a key.
pub fn by_rules(setup: &Setup, options: &Options) -> io::Result<Table> {
    let server = Server::start(setup, false)?;
    server.keep_stream()?;
    let mut load = Load::connect(&server)?;
    let mut rows = Vec::new();
    for n in 1..=8 {
        let call = Template::new(&charge_line(n));
        load.select(rows.len())?;
        load.each_key(&Template::new(&charge_warm(n)), options.keys)?;
        rows.push(Row { label: n.to_string(), keys: options.keys, calls: vec![call] });
    }
    let costs = rounds(&mut load, &rows, options)?;
    Ok(table(&["rules", "CHARGE allowed"], &rows, &costs))
}

/// Logs of 10 to 100,000 entries: charges that pass, and charges that fail. Each round has a fresh
/// server, since the charges make the logs longer.
pub fn by_limit(setup: &Setup, options: &Options) -> io::Result<Table> {
    // How many keys: as many as memory lets, so that the charges add little to each log.
    let sizes: &[(u64, u64)] = match options.quick {
        true => &[(10, 20_000), (1_000, 1_000)],
        false => &[(10, 20_000), (100, 10_000), (1_000, 1_000), (10_000, 1_000), (100_000, 300)],
    };
    let calls = options.calls.min(100_000);
    let mut table = Table::new([
        "entries in the log",
        "keys",
        "INCR",
        "SLIDE allowed",
        "INCR = 1",
        "SLIDE denied",
        "INCR = 1",
    ]);
    for (entries, keys) in sizes {
        let limit = entries + calls;
        let blob = filled(*entries, limit)?;
        let mut commands = packed(&[b"SELECT", b"0"]);
        for key in 0..*keys {
            commands.extend(packed(&[b"rl.x", key_name(key).as_bytes(), &blob]));
        }
        let lines = [
            "INCR key".to_owned(),
            format!("RL.SLIDE key {limit} 10d"),
            format!("RL.SLIDE key {limit} 10d COST {limit}"),
        ];
        let mut costs = [const { Vec::new() }; 3];
        for _ in 0..options.rounds.min(3) {
            let server = Server::start_loaded(setup, &commands)?;
            server.keep_stream()?;
            let mut load = Load::connect(&server)?;
            load.control().ask(&["CONFIG", "SET", "rl.slide-max-log", "1000000"])?;
            load.select(1)?;
            load.each_key(&Template::new("SET key 1 EX 360000"), *keys)?;
            for (i, line) in lines.iter().enumerate() {
                load.select(usize::from(i == 0))?;
                costs[i].push(load.measure(&Template::new(line), *keys, calls)?.cpu_ns);
            }
        }
        let ratio = |i: usize| {
            let ratios = costs[i].iter().zip(&costs[0]).map(|(a, b)| a / b);
            format!("{:.2}", median(ratios.collect()))
        };
        let ns = |i: usize| format!("{:.0}", median(costs[i].clone()));
        table.row([thousands(*entries), thousands(*keys), ns(0), ns(1), ratio(1), ns(2), ratio(2)]);
    }
    Ok(table)
}

/// The bytes of a log with that many entries, as an append-only file holds them. The entries lie
/// one millisecond apart and end a minute ago.
fn filled(entries: u64, limit: u64) -> io::Result<Vec<u8>> {
    const TEN_DAYS_MS: u64 = 10 * 86_400_000;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    let end = since.as_micros() as i64 - 60_000_000;
    let slide = Slide::new(limit, TEN_DAYS_MS, None).ok_or_else(|| io::Error::other("limit"))?;
    let asks = [Ask { rule: Rule::Slide(slide), cost: 1, shadow: false }];
    let request =
        Request { asks: &asks, trail: Trail::default(), plain: true, force: false, max_log: limit };
    let mut held: Option<Limiter> = None;
    for i in 0..entries {
        let now = end - (entries - i) as i64 * 1000;
        let decision = decide(held.as_ref(), request, now);
        let decision = decision.map_err(|_| io::Error::other("the log was refused"))?;
        if let Some(write) = decision.write(true) {
            match &mut held {
                Some(limiter) => drop(write.update(limiter)),
                none => *none = Some(write.create().0),
            }
        }
    }
    let mut blob = Vec::new();
    if let Some(limiter) = held {
        limiter.encode_full_op(&mut blob);
    }
    Ok(blob)
}

/// A command of any bytes.
fn packed(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend_from_slice(word);
        bytes.extend(b"\r\n");
    }
    bytes
}
