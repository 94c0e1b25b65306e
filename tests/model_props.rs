//! Properties of the model itself: what the contract promises about any sequence
//! of calls must hold for the model that the servers are compared with.

mod model;

use model::gen::{Options, Scenario};
use model::{Model, Reply};

/// Runs scenarios and hands every call with the model after it to `check`.
fn each(
    seeds: std::ops::Range<u64>,
    calls: usize,
    options: &Options,
    mut check: impl FnMut(&Model, i64, &[&[u8]], &Reply),
) {
    for seed in seeds {
        let mut model = Model::new();
        for (now_us, call) in Scenario::new(seed, options.clone()).take(calls) {
            let args: Vec<&[u8]> = call.iter().map(|w| w.as_slice()).collect();
            let reply = model.call(now_us, &args);
            check(&model, now_us, &args, &reply);
        }
    }
}

/// The first six, and whether the call was a charge.
fn six(reply: &Reply) -> Option<[i64; 6]> {
    match reply {
        Reply::Six(six) | Reply::Layers(six, _) => Some(*six),
        _ => None,
    }
}

fn show(args: &[&[u8]]) -> String {
    args.iter().map(|w| String::from_utf8_lossy(w)).collect::<Vec<_>>().join(" ")
}

fn is_charge(args: &[&[u8]]) -> bool {
    !matches!(args[0], b"RL.PEEK" | b"RL.REFUND" | b"RL.POLICY" | b"DEL" | b"CL.THROTTLE")
}

#[test]
fn a_wait_is_exact() {
    let (mut waits, mut nevers) = (0, 0);
    each(0..150, 300, &Options::default(), |model, now_us, args, reply| {
        let Some([0, _, retry, ..]) = six(reply) else {
            return;
        };
        if !is_charge(args) {
            return;
        }
        let allowed_at = |later_us: i64| six(&model.clone().call(later_us, args)).map(|s| s[0]);
        let what = || format!("{} at {now_us}: {reply:?}", show(args));
        if retry == -1 {
            assert_eq!(allowed_at(now_us + 200 * 365 * 86_400_000_000), Some(0), "{}", what());
            nevers += 1;
            return;
        }
        assert!(retry >= 1, "{}", what());
        assert_eq!(allowed_at(now_us + retry * 1000), Some(1), "{}", what());
        assert_eq!(allowed_at(now_us + (retry - 1) * 1000), Some(0), "{}", what());
        waits += 1;
    });
    assert!(waits > 1000 && nevers > 100, "{waits} waits, {nevers} nevers");
}

#[test]
fn remaining_calls_pass_and_no_more() {
    let mut seen = 0;
    each(1000..1100, 300, &Options::default(), |model, now_us, args, reply| {
        let Some([_, remaining, ..]) = six(reply) else {
            return;
        };
        // The same rules at cost 1; shadow rules are left out of `remaining`.
        let shadow = model.policies.values().any(|p| p.shadow);
        if !is_charge(args) || remaining > 30 || shadow {
            return;
        }
        let is = |w: &[u8]| w.eq_ignore_ascii_case(b"COST") || w.eq_ignore_ascii_case(b"FORCE");
        let end = (2..args.len()).find(|i| is(args[*i])).unwrap_or(args.len());
        let mut model = model.clone();
        for _ in 0..remaining {
            assert_eq!(six(&model.call(now_us, &args[..end])).unwrap()[0], 1, "{}", show(args));
        }
        assert_eq!(six(&model.call(now_us, &args[..end])).unwrap()[0], 0, "{}", show(args));
        seen += 1;
    });
    assert!(seen > 1000, "{seen}");
}

#[test]
fn reset_is_when_it_is_as_good_as_new() {
    let mut seen = 0;
    each(2000..2080, 300, &Options::default(), |model, now_us, args, reply| {
        if six(reply).is_none() || !model.wrote_last() || !args[0].starts_with(b"RL.") {
            return;
        }
        let Some((reset, most)) = model.bounds(args[1], now_us) else {
            return;
        };
        assert!(1 <= reset && reset <= most, "{} {reset} {most}", show(args));
        let live_at = |ms: i64| model.bounds(args[1], now_us + ms * 1000).is_some();
        assert!(!live_at(reset) && live_at(reset - 1), "{}: {reset}", show(args));
        if let Reply::Six(six) = reply {
            assert_eq!(six[3], reset, "{}", show(args));
        }
        seen += 1;
    });
    assert!(seen > 1000, "{seen}");
}

#[test]
fn a_peek_is_the_charge_without_its_effect() {
    let options = Options { no_refund: true, no_force: true, ..Default::default() };
    let mut seen = 0;
    each(3000..3080, 300, &options, |model, now_us, args, reply| {
        if args[0] != b"RL.PEEK" {
            return;
        }
        assert!(!model.wrote_last());
        // A peek that names its rules.
        let rules = args.get(2).is_some_and(|w| !w.eq_ignore_ascii_case(b"COST"));
        let Reply::Layers(peek, peek_rows) = reply else {
            return;
        };
        if !rules {
            return;
        }
        let mut call = args.to_vec();
        call[0] = b"RL.CHARGE";
        let mut charged = model.clone();
        let Reply::Layers(charge, rows) = charged.call(now_us, &call) else {
            panic!("{}", show(args))
        };
        let pick = |s: &[i64; 6]| [s[0], s[2], s[4], s[5]];
        // limit is the binding rule's: the same rule only if nothing was charged.
        for (p, c) in peek_rows.iter().zip(&rows) {
            assert_eq!(pick(p), pick(c), "{}", show(args));
            assert!(c[1] <= p[1], "{}", show(args));
        }
        assert_eq!(
            [peek[0], peek[2], peek[5]],
            [charge[0], charge[2], charge[5]],
            "{}",
            show(args)
        );
        if charge[0] == 0 {
            assert_eq!((peek, peek_rows), (&charge, &rows), "{}", show(args));
        }
        seen += 1;
    });
    assert!(seen > 200, "{seen}");
}

/// The settings of a plain call, as numbers: limit, rate (per period), ms.
fn allowed_costs(seed: u64, command: &[&[u8]], calls: usize) -> Vec<(i64, i64)> {
    use rand::{rngs::StdRng, Rng, SeedableRng};
    let mut rng = StdRng::seed_from_u64(seed);
    let mut model = Model::new();
    let mut now_us = model::gen::START_US + rng.random_range(0..5000);
    let mut allowed = Vec::new();
    for _ in 0..calls {
        let cost = rng.random_range(1..4);
        let text = cost.to_string();
        let mut args = command.to_vec();
        args.extend([&b"COST"[..], text.as_bytes()]);
        let six = six(&model.call(now_us, &args)).unwrap();
        if six[0] == 1 {
            allowed.push((now_us, cost));
        }
        now_us += match rng.random_range(0..4) {
            0 => 0,
            1 => rng.random_range(0..1000),
            2 => six[2].max(0) * 1000,
            _ => rng.random_range(0..400_000),
        };
    }
    allowed
}

/// No span of the allowed costs is above `most(span in us)`.
fn never_above(allowed: &[(i64, i64)], most: impl Fn(i64) -> i64) {
    for (i, (start, _)) in allowed.iter().enumerate() {
        let mut total = 0;
        for (at, cost) in &allowed[i..] {
            total += cost;
            assert!(total <= most(at - start), "{total} in {} us", at - start);
        }
    }
}

#[test]
fn nothing_above_the_bound_in_any_span() {
    for seed in 0..40 {
        // 7 + 7 per 3 s, in any span t: capacity + rate * t / period
        for command in [&b"RL.TOKEN"[..], b"RL.LEAKY"] {
            let args: [&[u8]; 6] = [command, b"k", b"7", b"7", b"PER", b"3s"];
            never_above(&allowed_costs(seed, &args, 300), |us| 7 + 7 * us / 3_000_000);
        }
        // 9 in any trailing second
        for blocks in [&[][..], &[&b"BLOCKS"[..], b"1"], &[b"BLOCKS", b"4"], &[b"BLOCKS", b"1000"]]
        {
            let mut args: Vec<&[u8]> = vec![b"RL.SLIDE", b"k", b"9", b"1s"];
            args.extend(blocks);
            let allowed = allowed_costs(seed, &args, 300);
            never_above(&allowed, |us| if us < 1_000_000 { 9 } else { i64::MAX });
        }
        // 9 in each aligned second
        let args: [&[u8]; 6] = [b"RL.FIXED", b"k", b"9", b"1s", b"ALIGN", b"300ms"];
        let mut windows = std::collections::BTreeMap::new();
        for (at, cost) in allowed_costs(seed, &args, 300) {
            *windows.entry((at + 300_000).div_euclid(1_000_000)).or_insert(0) += cost;
        }
        assert!(windows.values().all(|total| *total <= 9));
    }
}

#[test]
fn settings_that_take_turns_create_no_room() {
    // At one instant, whatever the settings in between: never more than the
    // largest limit that was asked for.
    use rand::{rngs::StdRng, seq::IndexedRandom, SeedableRng};
    let families: [&[&str]; 4] = [
        &[
            "RL.TOKEN k 100 1 PER 1h",
            "RL.TOKEN k 50 1 PER 1h",
            "RL.TOKEN k 77 3 PER 7s",
            "RL.TOKEN k 3 1000",
        ],
        &[
            "RL.LEAKY k 100 1 PER 1h",
            "RL.LEAKY k 50 1 PER 1h",
            "RL.LEAKY k 77 3 PER 7s",
            "RL.LEAKY k 3 1000",
        ],
        &[
            "RL.SLIDE k 100 1h",
            "RL.SLIDE k 50 1h BLOCKS 7",
            "RL.SLIDE k 77 1s",
            "RL.SLIDE k 3 1s BLOCKS 1000",
        ],
        &[
            "RL.FIXED k 100 1h",
            "RL.FIXED k 50 1d ALIGN 8h",
            "RL.FIXED k 77 1m ALIGN 0",
            "RL.FIXED k 3 1m",
        ],
    ];
    for (seed, family) in (0..40).flat_map(|s| families.iter().map(move |f| (s, f))) {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut model = Model::new();
        let mut total = 0;
        for _ in 0..300 {
            let call = *family.choose(&mut rng).unwrap();
            let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
            total += six(&model.call(model::gen::START_US + 123_456, &args)).unwrap()[0];
        }
        assert_eq!(total, 100, "{family:?}");
    }
}

#[test]
fn a_denial_writes_at_most_once() {
    // Only the repair of a stepped clock and changed settings are stored: the
    // same call again finds them and writes nothing. An error never writes.
    let mut seen = 0;
    each(4000..4060, 300, &Options::default(), |model, now_us, args, reply| {
        if matches!(reply, Reply::Error(_)) {
            assert!(!model.wrote_last(), "{}", show(args));
        }
        if !is_charge(args) || six(reply).is_none_or(|s| s[0] == 1) {
            return;
        }
        let mut again = model.clone();
        assert_eq!(again.call(now_us, args), *reply, "{}", show(args));
        assert!(!again.wrote_last() && again.keys == model.keys, "{}", show(args));
        seen += 1;
    });
    assert!(seen > 1000, "{seen}");
}

#[test]
fn scenarios_reach_every_corner() {
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    let mut last_us = 0;
    each(5000..5100, 300, &Options::default(), |model, now_us, args, reply| {
        let name = String::from_utf8_lossy(args[0]).to_string();
        let kind = match reply {
            Reply::Error(text) => text.split(' ').take(2).collect::<Vec<_>>().join(" "),
            Reply::Null => "null".into(),
            Reply::Five(five) => format!("limited {}", five[0]),
            _ => match six(reply) {
                Some([0, _, -1, ..]) => "never".into(),
                Some([0, ..]) if model.wrote_last() => "denied and wrote".into(),
                Some([0, ..]) => "denied".into(),
                Some(_) => "allowed".into(),
                None => "other".into(),
            },
        };
        *seen.entry(format!("{name} {kind}")).or_insert(0) += 1;
        *seen
            .entry(format!("clock {}", if now_us < last_us { "back" } else { "on" }))
            .or_insert(0) += 1;
        last_us = now_us;
    });
    println!("{seen:#?}");
    for name in ["TOKEN", "LEAKY", "SLIDE", "FIXED", "CHARGE", "MCHARGE"] {
        for kind in ["allowed", "denied", "denied and wrote", "never", "WRONGTYPE key"] {
            let what = format!("RL.{name} {kind}");
            assert!(seen.get(&what).is_some_and(|n| *n > 3), "{what}: {:?}", seen.get(&what));
        }
    }
    for what in [
        "RL.PEEK null",
        "RL.PEEK denied",
        "RL.REFUND allowed",
        "RL.CHARGE NOPOLICY no",
        "clock back",
    ] {
        assert!(seen.get(what).is_some_and(|n| *n > 20), "{what}: {:?}", seen.get(what));
    }
}
