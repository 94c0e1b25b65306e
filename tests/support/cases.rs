//! The runner of case files. A file is read line by line; a line is
//!
//! ```text
//! # a comment (an empty line is one too)
//! !clear                                    empties the server; the clock stays until the next @
//! @MS [xN] COMMAND -> REPLY                 sets the clock, sends (N times), compares the last reply
//! @MS [xN] COMMAND => REPLY                 the same, and every one of the N replies must agree
//! ```
//!
//! `MS` is a decimal number of milliseconds (down to the microsecond, may be negative) after
//! 2030-03-17T00:00:00Z. Words of the command are split at spaces: `""` is the empty word, `\0` a NUL, `\_`
//! a space, `\xHH` any byte. REPLY is one of
//!
//! ```text
//! 1 4 0 _ 5                  the first integers of the decision ('_': any)
//! 1 4 0 | 1 _ 0 | 1 4        the same, then one row per rule, as many as the reply has
//! ERR rate                   an error reply that holds all these words (WRONGTYPE ..., ERR WRONGTYPE ... too)
//! nil                        the null array
//! = value                    the reply is exactly this integer, text or [list]
//! in 180 1400                an integer from 180 to 1400
//! has word word              the reply, shown as text, holds all these words
//! ```
//!
//! With a decision the reply's shape is checked too: exactly six integers for a plain command, a seventh
//! element with rows of six for CHARGE, MCHARGE, PEEK and REFUND.

use redis::Value;

use super::client::{error, layers, show, six, split, texts, Client};
use super::clock::START_US;
use super::Server;

/// Runs one case file in both protocols, each against a server of its own.
pub fn run(name: &str, source: &str) {
    for protocol in [2, 3] {
        let mut server = Server::start();
        let mut client = server.client();
        client.hello(protocol);
        let (count, faults) = run_on(&server, &mut client, name, source);
        assert!(count > 0, "{name} holds no case");
        server.assert_well();
        let of = faults.len();
        let faults = faults.join("\n");
        assert!(of == 0, "RESP{protocol}: {of} of {count} lines of {name} failed:\n{faults}");
    }
}

/// Runs all lines of a source; answers how many there were, and what was wrong with which.
pub fn run_on(
    server: &Server,
    client: &mut Client,
    name: &str,
    source: &str,
) -> (usize, Vec<String>) {
    let mut faults = Vec::new();
    let mut count = 0;
    for (number, line) in source.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        count += 1;
        if let Err(fault) = run_line(server, client, line) {
            faults.push(format!("{name}:{}\n    {line}\n    {fault}", number + 1));
        }
    }
    (count, faults)
}

fn run_line(server: &Server, client: &mut Client, line: &str) -> Result<(), String> {
    if line == "!clear" {
        let reply = client.call("FLUSHALL");
        return if reply == Value::Okay { Ok(()) } else { Err(show(&reply)) };
    }
    let case = Case::parse(line).ok_or("not a line of a case file")?;
    server.clock.set(START_US + case.at_us);
    let words = split(case.command);
    let name = String::from_utf8_lossy(&words[0]).to_uppercase();
    for turn in 1..=case.times {
        let reply = client.run(&words);
        if turn == case.times || case.every {
            compare(&name, case.expected, &reply).map_err(|why| {
                let turn = if case.times > 1 { format!(" (call {turn})") } else { String::new() };
                format!("expected {}, got {}{turn}: {why}", case.expected, show(&reply))
            })?;
        }
    }
    Ok(())
}

struct Case<'a> {
    at_us: i64,
    times: usize,
    every: bool,
    command: &'a str,
    expected: &'a str,
}

impl<'a> Case<'a> {
    fn parse(line: &'a str) -> Option<Case<'a>> {
        let (at, rest) = line.strip_prefix('@')?.split_once(' ')?;
        let (call, expected, every) = match rest.split_once(" -> ") {
            Some((call, expected)) => (call, expected, false),
            None => rest.split_once(" => ").map(|(call, expected)| (call, expected, true))?,
        };
        let call = call.trim();
        let (times, command) = match call.strip_prefix('x').and_then(|c| c.split_once(' ')) {
            Some((count, command)) => (count.parse().ok().filter(|n| *n > 0)?, command),
            None => (1, call),
        };
        Some(Case {
            at_us: micros(at)?,
            times,
            every,
            command: command.trim(),
            expected: expected.trim(),
        })
    }
}

/// Decimal milliseconds with up to three decimals, as microseconds.
fn micros(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 3 {
        return None;
    }
    let part: i64 = format!("{part:0<3}").parse().ok()?;
    let whole_us = whole.parse::<i64>().ok()? * 1000;
    Some(if whole.starts_with('-') { whole_us - part } else { whole_us + part })
}

/// Commands whose decision carries one row per rule.
const LAYERED: &[&str] = &["RL.CHARGE", "RL.MCHARGE", "RL.PEEK", "RL.REFUND"];

pub fn compare(command: &str, expected: &str, reply: &Value) -> Result<(), String> {
    let (first, rest) = expected.split_once(' ').unwrap_or((expected, ""));
    let needs = |yes: bool, why: &str| if yes { Ok(()) } else { Err(why.to_owned()) };
    match first {
        "ok" => needs(show(reply) == "OK", "not OK"),
        "nil" => needs(*reply == Value::Nil, "not null"),
        "=" => needs(show(reply) == rest.trim(), "not equal"),
        "has" => {
            let text = if texts(reply).is_empty() { show(reply) } else { texts(reply).join(" ") };
            missing_word(&text, rest)
        }
        "in" => {
            let bounds: Vec<i64> = rest.split(' ').filter_map(|n| n.parse().ok()).collect();
            let Value::Int(n) = reply else {
                return Err("not an integer".into());
            };
            needs(bounds.len() == 2 && (bounds[0]..=bounds[1]).contains(n), "out of range")
        }
        _ if first.starts_with(|c: char| c.is_ascii_uppercase()) => match error(reply) {
            // `ERR` before another code only says that an error is expected.
            Some(text) => match rest.split_whitespace().next() {
                Some("WRONGTYPE" | "NOPOLICY") if first == "ERR" => missing_word(&text, rest),
                _ => missing_word(&text, expected),
            },
            None => Err("not an error".into()),
        },
        _ if command == "CL.THROTTLE" => {
            let got = super::client::ints(reply);
            needs(got.len() == 5, "not five integers")?;
            row(expected, &got)
        }
        _ => decision(LAYERED.contains(&command), expected, reply),
    }
}

fn decision(layered: bool, expected: &str, reply: &Value) -> Result<(), String> {
    let got = six(reply).ok_or("not a decision")?;
    let rows = layers(reply);
    if layered != rows.is_some() {
        return Err("wrong shape: rows belong to CHARGE, MCHARGE, PEEK and REFUND alone".into());
    }
    let mut parts = expected.split('|');
    row(parts.next().unwrap_or(""), &got)?;
    let wanted: Vec<&str> = parts.collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let rows = rows.ok_or("no rows")?;
    if rows.len() != wanted.len() {
        return Err(format!("{} rows", rows.len()));
    }
    for (number, (want, got)) in wanted.iter().zip(&rows).enumerate() {
        row(want, got).map_err(|why| format!("row {}: {why}", number + 1))?;
    }
    Ok(())
}

fn row(expected: &str, got: &[i64]) -> Result<(), String> {
    const NAMES: [&str; 6] = ["allowed", "remaining", "retry", "reset", "limit", "delay"];
    let words: Vec<&str> = expected.split_whitespace().collect();
    if words.is_empty() || words.len() > got.len() {
        return Err("expected integers".into());
    }
    for (place, word) in words.iter().enumerate() {
        if *word == "_" {
            continue;
        }
        let want: i64 = word.parse().map_err(|_| format!("what is {word}?"))?;
        if got[place] != want {
            return Err(format!("{} is {}, not {want}", NAMES[place], got[place]));
        }
    }
    Ok(())
}

fn missing_word(text: &str, words: &str) -> Result<(), String> {
    match words.split_whitespace().find(|word| !text.contains(word)) {
        Some(word) => Err(format!("lacks {word}")),
        None => Ok(()),
    }
}
