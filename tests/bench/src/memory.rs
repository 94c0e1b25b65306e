//! What a key takes: the server's memory before and after, divided by the number of keys.

use crate::cases::Scripts;
use crate::load::Load;
use crate::options::Options;
use crate::resp::{key_name, Template};
use crate::server::{Server, Setup};
use crate::table::Table;
use std::io;
use std::thread::sleep;
use std::time::Duration;

/// Bytes of one kind of key.
pub struct KeySize {
    pub name: String,
    /// All of the server's memory, tables of the key space included.
    pub bytes: f64,
    /// What MEMORY USAGE says of one key.
    pub usage: i64,
    pub target: Option<f64>,
}

/// Bytes of one more logged charge.
pub struct EntrySize {
    pub name: String,
    pub bytes: f64,
    pub entries: u64,
    pub target: Option<f64>,
}

/// Measures single keys of all kinds.
pub fn keys(setup: &Setup, options: &Options) -> io::Result<Vec<KeySize>> {
    let server = Server::start(setup, false)?;
    let mut load = Load::connect(&server)?;
    let scripts = Scripts::load(&mut load)?;
    let bucket = format!("EVALSHA {} 1 key 100 0.000278 1", scripts.bucket);
    let window = format!("EVALSHA {} 1 key 100 3600000", scripts.window);
    let kinds: [(&str, &str, Option<f64>); 11] = [
        ("string with a TTL (INCR)", "SET key 1 EX 36000", None),
        ("RL.TOKEN", "RL.TOKEN key 100 1 PER 1h", Some(176.0)),
        ("CL.THROTTLE", "CL.THROTTLE key 99 1 3600", None),
        ("RL.LEAKY", "RL.LEAKY key 100 1 PER 1h", None),
        ("RL.FIXED", "RL.FIXED key 100 1d", None),
        ("RL.SLIDE, one entry", "RL.SLIDE key 100 1d", None),
        ("RL.SLIDE BLOCKS 60, one entry", "RL.SLIDE key 100 1d BLOCKS 60", None),
        ("RL.CHARGE TOKEN FIXED", "RL.CHARGE key TOKEN 100 1 PER 1h FIXED 100 1d", None),
        (
            "RL.CHARGE TOKEN SLIDE FIXED",
            "RL.CHARGE key TOKEN 100 1 PER 1h SLIDE 100 1d FIXED 100 1d",
            None,
        ),
        ("hash (Lua token bucket)", &bucket, None),
        ("sorted set (Lua window), one entry", &window, None),
    ];
    let mut sizes = Vec::new();
    for (name, line, target) in kinds {
        let call = Template::new(line);
        sizes.push(measure(&mut load, name, &call, options.keys, target)?);
    }
    if setup.cell.is_some() {
        let server = Server::start_with_cell(setup, false)?;
        let call = Template::new("CL.THROTTLE key 99 1 3600");
        let mut load = Load::connect(&server)?;
        sizes.push(measure(&mut load, "redis-cell", &call, options.keys, None)?);
    }
    Ok(sizes)
}

fn measure(
    load: &mut Load,
    name: &str,
    call: &Template,
    keys: u64,
    target: Option<f64>,
) -> io::Result<KeySize> {
    load.control().ask(&["FLUSHALL", "SYNC"])?;
    // Buffers of the connections grow with the first load; they are no part of a key.
    load.each_key(call, keys)?;
    load.control().ask(&["FLUSHALL", "SYNC"])?;
    let before = settled(load)?;
    load.each_key(call, keys)?;
    load.each_key(call, keys)?;
    let bytes = (settled(load)? - before) / keys as f64;
    let usage = load.control().int(&["MEMORY", "USAGE", &key_name(keys / 2)])?;
    Ok(KeySize { name: name.into(), bytes, usage, target })
}

/// The memory in use, once the server has put its buffers away.
fn settled(load: &mut Load) -> io::Result<f64> {
    let mut last = f64::MAX;
    for _ in 0..60 {
        sleep(Duration::from_millis(500));
        let used = load.control().info_number("memory", "used_memory")?;
        // A reading differs by a few hundred bytes from the next, and clients' buffers shrink late.
        let clients = load.control().info_number("memory", "mem_clients_normal")?;
        if (last - (used - clients)).abs() < 2048.0 {
            return Ok(used - clients);
        }
        last = used - clients;
    }
    Ok(last)
}

/// Measures what one more entry of a log takes, up to `entries` per key.
pub fn entries(setup: &Setup, options: &Options) -> io::Result<Vec<EntrySize>> {
    let server = Server::start(setup, false)?;
    let mut load = Load::connect(&server)?;
    let scripts = Scripts::load(&mut load)?;
    let (keys, entries) = if options.quick { (200, 300) } else { (1000, 1000) };
    let window = format!("EVALSHA {} 1 key 100000 86400000", scripts.window);
    let kinds = [
        ("RL.SLIDE", "RL.SLIDE key 100000 1d", Some(8.5)),
        ("sorted set (Lua window)", window.as_str(), None),
    ];
    let mut sizes = Vec::new();
    for (name, line, target) in kinds {
        load.control().ask(&["FLUSHALL", "SYNC"])?;
        let call = Template::new(line);
        load.each_key(&call, keys)?;
        let before = settled(&mut load)?;
        for _ in 1..entries {
            // Charges of one millisecond share an entry.
            sleep(Duration::from_millis(2));
            load.each_key(&call, keys)?;
        }
        let bytes = (settled(&mut load)? - before) / (keys * (entries - 1)) as f64;
        sizes.push(EntrySize { name: name.into(), bytes, entries, target });
    }
    Ok(sizes)
}

pub fn key_table(sizes: &[KeySize]) -> Table {
    let mut table = Table::new(["key", "bytes in all", "MEMORY USAGE", "target"]);
    for size in sizes {
        let target = size.target.map_or_else(String::new, |t| format!("{t:.0}"));
        table.row([
            size.name.clone(),
            format!("{:.0}", size.bytes),
            size.usage.to_string(),
            target,
        ]);
    }
    table.drop_empty_columns();
    table
}

pub fn entry_table(sizes: &[EntrySize]) -> Table {
    let mut table = Table::new(["log", "entries", "bytes per entry", "target"]);
    for size in sizes {
        let target = size.target.map_or_else(String::new, |t| t.to_string());
        table.row([
            size.name.clone(),
            size.entries.to_string(),
            format!("{:.1}", size.bytes),
            target,
        ]);
    }
    table.drop_empty_columns();
    table
}
