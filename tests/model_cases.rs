//! Runs the handed cases against the model, without a server.

mod model;

use model::{Model, Reply};

/// 2030-03-17T00:00:00Z, a Sunday, in microseconds since the epoch.
const START_US: i64 = 1_899_936_000_000_000;

/// `@ms`, with up to three decimals, as microseconds.
fn micros(text: &str) -> i64 {
    let (ms, part) = text.split_once('.').unwrap_or((text, ""));
    ms.parse::<i64>().unwrap() * 1000 + format!("{part:0<3}").parse::<i64>().unwrap()
}

/// The few server commands that the cases use; the others are the model's.
fn server(model: &mut Model, now_us: i64, words: &[&str]) -> Result<String, Reply> {
    let key = words.get(1).map_or(&b""[..], |w| w.as_bytes());
    let live = model.bounds(key, now_us).is_some();
    let foreign = model.foreign.get(key).cloned();
    let text = match words[0] {
        "EXISTS" => ((live || foreign.is_some()) as i64).to_string(),
        "DEL" => {
            model.del(key);
            ((live || foreign.is_some()) as i64).to_string()
        }
        "PERSIST" => (live as i64).to_string(),
        "TYPE" if live => "ratelimit".into(),
        "SET" => {
            model.set_foreign(key, words[2].as_bytes());
            "OK".into()
        }
        "GET" => String::from_utf8(foreign.expect("a string")).unwrap(),
        "INCR" if live => return Err(Reply::Error("WRONGTYPE Operation".into())),
        _ => {
            let args: Vec<&[u8]> = words.iter().map(|w| w.as_bytes()).collect();
            if words[0] == "RL.INSPECT" && !live {
                return Err(Reply::Null);
            }
            return Err(model.call(now_us, &args));
        }
    };
    Ok(text)
}

/// The integers of a decision.
fn integers(reply: &Reply) -> Vec<i64> {
    match reply {
        Reply::Six(six) | Reply::Layers(six, _) => six.to_vec(),
        Reply::Five(five) => five.to_vec(),
        other => panic!("not a decision: {other:?}"),
    }
}

fn check(reply: Result<String, Reply>, want: &str) -> Result<(), String> {
    let ok = match (&reply, want.strip_prefix("= "), want.strip_prefix("ERR")) {
        (Ok(text), Some(value), _) => text == value,
        (Err(Reply::Null), _, _) => want == "nil",
        (Err(Reply::Ok), _, _) => want == "ok",
        // Every word must occur; the case's ERR stands for any code.
        (Err(Reply::Error(text)), _, Some(words)) => {
            words.split_whitespace().all(|w| text.contains(w))
        }
        (Err(reply @ (Reply::Six(_) | Reply::Layers(..) | Reply::Five(_))), None, None)
            if want != "nil" =>
        {
            let got = integers(reply);
            let want: Vec<&str> = want.split_whitespace().collect();
            want.len() <= got.len()
                && want.iter().zip(&got).all(|(w, g)| *w == "_" || w.parse() == Ok(*g))
        }
        _ => false,
    };
    if ok {
        Ok(())
    } else {
        Err(format!("got {reply:?}"))
    }
}

fn run(text: &str) {
    let mut model = Model::new();
    let mut failed = Vec::new();
    let mut lines = 0;
    for line in text.lines().map(str::trim) {
        if line == "!clear" {
            model = Model::new();
        }
        let Some((left, want)) = line.strip_prefix('@').and_then(|l| l.split_once(" -> ")) else {
            continue;
        };
        let mut words: Vec<&str> = left.split_whitespace().collect();
        let now_us = START_US + micros(words.remove(0));
        let times = match words[0].strip_prefix('x').and_then(|n| n.parse::<u32>().ok()) {
            Some(n) => {
                words.remove(0);
                n
            }
            None => 1,
        };
        let mut reply = server(&mut model, now_us, &words);
        for _ in 1..times {
            reply = server(&mut model, now_us, &words);
        }
        lines += 1;
        if let Err(why) = check(reply, want) {
            failed.push(format!("{line}\n    {why}"));
        }
    }
    assert!(lines > 0, "no cases");
    assert!(failed.is_empty(), "{} of {lines} failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn core_cases() {
    run(include_str!("cases/core.txt"));
}

#[test]
fn readings_cases() {
    run(include_str!("cases/readings.txt"));
}

#[test]
fn layers_cases() {
    run(include_str!("cases/layers.txt"));
}
