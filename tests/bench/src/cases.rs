//! What is measured: each case has its keys in a database of its own.

use crate::load::Load;
use crate::resp::Template;
use std::io;

/// What every call of a case must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Not a charge of ours: nothing is counted.
    Uncounted,
    Allowed,
    Denied,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    /// Makes the keys: once on each, in order.
    warm: Vec<Template>,
    pub call: Template,
    pub expect: Expect,
    /// The name of the script that does the same work.
    pub twin: Option<&'static str>,
    /// The name of the case that makes the same calls of the server, and decides nothing.
    pub floor: Option<&'static str>,
    /// The ratio to INCR that this case is to stay within.
    pub target: Option<f64>,
    /// Runs on the server that has redis-cell.
    pub on_cell: bool,
}

pub const BASE: &str = "INCR";
pub const LUA_BUCKET: &str = "Lua: token bucket in a hash";
pub const LUA_BUCKET_DENIED: &str = "Lua: token bucket, denied";
pub const LUA_WINDOW: &str = "Lua: window in a sorted set";
pub const LUA_WINDOW_DENIED: &str = "Lua: sorted set, denied";
pub const LUA_COUNTER: &str = "Lua: INCR + EXPIRE";

pub const FLOOR: &str = "floor: one rule, allowed";
pub const FLOOR_DENIED: &str = "floor: one rule, denied";
pub const FLOOR_THREE: &str = "floor: 3 rules, allowed";

/// A bucket that lets everything pass, and is never as good as new once [`USED`] is.
const LONG_BUCKET: &str = "1000000000 1";
/// A bucket that denies for days, once it is in debt.
const SHORT_BUCKET: &str = "1000000 1";
/// Seconds for which a bucket of rate 1 is not as good as new.
const USED: &str = "COST 1000000";

impl Case {
    fn new(name: &str, warm: &[&str], call: &str, expect: Expect) -> Self {
        Self {
            name: name.into(),
            warm: warm.iter().map(|line| Template::new(line)).collect(),
            call: Template::new(call),
            expect,
            twin: None,
            floor: None,
            target: None,
            on_cell: false,
        }
    }

    fn allowed(name: &str, call: &str) -> Self {
        // Twice: the first call makes the key, the second is like all that follow.
        Self::new(&format!("{name}, allowed"), &[call, call], call, Expect::Allowed)
    }

    /// `call` with `COST used` uses the limit up, then the same call is denied.
    fn denied(name: &str, call: &str, used: u64) -> Self {
        let warm = format!("{call} COST {used}");
        Self::new(&format!("{name}, denied"), &[&warm], call, Expect::Denied)
    }

    fn twin(mut self, name: &'static str) -> Self {
        self.twin = Some(name);
        self
    }

    fn floor(mut self, name: &'static str) -> Self {
        self.floor = Some(name);
        self
    }

    fn target(mut self, ratio: f64) -> Self {
        self.target = Some(ratio);
        self
    }

    fn on_cell(mut self) -> Self {
        self.on_cell = true;
        self
    }

    /// Makes the case's keys in database `db`.
    pub fn prepare(&self, load: &mut Load, db: usize, keys: u64) -> io::Result<()> {
        load.select(db)?;
        for template in &self.warm {
            load.each_key(template, keys)?;
        }
        Ok(())
    }
}

/// The digests of the scripts, which must be loaded into the server.
pub struct Scripts {
    pub bucket: String,
    pub window: String,
    pub counter: String,
}

impl Scripts {
    pub fn load(load: &mut Load) -> io::Result<Self> {
        let mut digest = |text: &str| -> io::Result<String> {
            let reply = load.control().ask(&["SCRIPT", "LOAD", text])?;
            Ok(reply.lines().nth(1).unwrap_or_default().to_owned())
        };
        Ok(Self {
            bucket: digest(include_str!("../lua/bucket.lua"))?,
            window: digest(include_str!("../lua/window.lua"))?,
            counter: digest(include_str!("../lua/counter.lua"))?,
        })
    }
}

/// CHARGE with `n` rules: TOKEN, SLIDE and FIXED in turn, which all let the call pass.
pub fn charge_line(n: usize) -> String {
    let rules = [&format!("TOKEN {LONG_BUCKET}"), "SLIDE 10000 1h", "FIXED 1000000 7d"];
    let list: Vec<_> = (0..n).map(|i| rules[i % rules.len()]).collect();
    format!("RL.CHARGE key {}", list.join(" "))
}

/// The costs of a first such call: much from the buckets, so that no rule is as good as new from then on.
fn charge_costs(n: usize) -> String {
    let costs: Vec<_> = (0..n).map(|i| if i % 3 == 0 { "1000000" } else { "1" }).collect();
    format!("COST {}", costs.join(" "))
}

/// The first such call.
pub fn charge_warm(n: usize) -> String {
    format!("{} {}", charge_line(n), charge_costs(n))
}

/// CHARGE with `n` rules of which the buckets are in debt, and the call that brings them there.
fn charge_denied(n: usize) -> (String, String) {
    let call = charge_line(n).replace(LONG_BUCKET, SHORT_BUCKET);
    let debt = format!("{call} FORCE {}", charge_costs(n));
    (call, debt)
}

/// The server's own calls, with as many words as the cases they are the floor of.
fn floors() -> Vec<Case> {
    let case = |name: &str, call: &str| Case::new(name, &[call], call, Expect::Uncounted);
    let three = charge_line(3).replace("RL.CHARGE", "FLOOR.THREE");
    vec![
        case("floor: nothing but a reply", &format!("FLOOR.NOTHING key {LONG_BUCKET}")),
        case(FLOOR, &format!("FLOOR.ALLOWED key {LONG_BUCKET}")),
        case(FLOOR_DENIED, &format!("FLOOR.DENIED key {SHORT_BUCKET}")),
        case(FLOOR_THREE, &three),
    ]
}

/// Which modules there are beside ours.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    pub cell: bool,
    pub floor: bool,
}

/// All cases, the baseline first.
pub fn all(scripts: &Scripts, beside: Beside) -> Vec<Case> {
    let free =
        |name: &str, warm: &[&str], call: &str| Case::new(name, warm, call, Expect::Uncounted);
    let slide = |n: u64| format!("RL.SLIDE key {n} 1h");
    let blocks = |n: u64| format!("RL.SLIDE key {n} 1h BLOCKS 60");
    let long = |name: &str, command: &str| {
        let call = format!("{command} key {LONG_BUCKET}");
        Case::new(&format!("{name}, allowed"), &[&format!("{call} {USED}")], &call, Expect::Allowed)
            .floor(FLOOR)
    };
    let short = |name: &str, command: &str| {
        let call = format!("{command} key {SHORT_BUCKET}");
        let (empty, debt) = (format!("{call} {USED}"), format!("{call} FORCE {USED}"));
        Case::new(&format!("{name}, denied"), &[&empty, &debt], &call, Expect::Denied)
            .floor(FLOOR_DENIED)
    };
    let mut cases = vec![free(BASE, &["SET key 1 EX 360000"], "INCR key")];
    if beside.floor {
        cases.extend(floors());
    }
    cases.extend([
        long("TOKEN", "RL.TOKEN").twin(LUA_BUCKET).target(1.55),
        short("TOKEN", "RL.TOKEN").twin(LUA_BUCKET_DENIED).target(1.35),
        Case::allowed("TOKEN, full buckets", "RL.TOKEN key 6000 6000 PER 60s").twin(LUA_BUCKET),
        long("LEAKY", "RL.LEAKY").twin(LUA_BUCKET).target(1.55),
        short("LEAKY", "RL.LEAKY").twin(LUA_BUCKET_DENIED).target(1.35),
        Case::allowed("SLIDE", &slide(10_000)).floor(FLOOR).twin(LUA_WINDOW).target(1.65),
        Case::denied("SLIDE", &slide(5), 5)
            .floor(FLOOR_DENIED)
            .twin(LUA_WINDOW_DENIED)
            .target(1.35),
        Case::allowed("SLIDE BLOCKS 60", &blocks(1_000_000)).twin(LUA_WINDOW),
        Case::denied("SLIDE BLOCKS 60", &blocks(5), 5).twin(LUA_WINDOW_DENIED),
        Case::allowed("FIXED", "RL.FIXED key 1000000 7d")
            .floor(FLOOR)
            .twin(LUA_COUNTER)
            .target(1.55),
        Case::denied("FIXED", "RL.FIXED key 5 7d", 5)
            .floor(FLOOR_DENIED)
            .twin(LUA_COUNTER)
            .target(1.35),
        free("PEEK", &[&format!("RL.TOKEN key {LONG_BUCKET} {USED}")], "RL.PEEK key"),
    ]);
    for n in [1, 3, 8] {
        let name = format!("CHARGE, {n} rule{}", if n == 1 { "" } else { "s" });
        let call = charge_line(n);
        let case =
            Case::new(&format!("{name}, allowed"), &[&charge_warm(n)], &call, Expect::Allowed);
        cases.push(if n == 3 { case.floor(FLOOR_THREE).target(2.3) } else { case });
        let (call, debt) = charge_denied(n);
        let name = format!("{name}, denied");
        cases.push(Case::new(&name, &[&debt, &debt], &call, Expect::Denied));
    }
    for n in [2, 4] {
        let line = |bucket: &str| {
            let rules = format!(" TOKEN {bucket}").repeat(n);
            format!("RL.MCHARGE {n}{}{rules}", " key".repeat(n))
        };
        let call = line(LONG_BUCKET);
        let (name, warm) = (format!("MCHARGE, {n} keys, allowed"), format!("{call} {USED}"));
        cases.push(Case::new(&name, &[&warm], &call, Expect::Allowed));
        let call = line(SHORT_BUCKET);
        let (name, debt) = (format!("MCHARGE, {n} keys, denied"), format!("{call} FORCE {USED}"));
        cases.push(Case::new(&name, &[&debt, &debt], &call, Expect::Denied));
    }
    let throttle =
        |burst: u64, period: u64, n: u64| format!("CL.THROTTLE key {burst} 1 {period} {n}");
    let (pass, fail) = (throttle(1_000_000, 60, 1), throttle(4, 36_000, 1));
    let used = throttle(4, 36_000, 5);
    cases.push(Case::new("CL.THROTTLE, allowed", &[&pass, &pass], &pass, Expect::Allowed));
    cases.push(Case::new("CL.THROTTLE, denied", &[&used], &fail, Expect::Denied));
    if beside.cell {
        cases.push(free("redis-cell, allowed", &[&pass, &pass], &pass).on_cell());
        cases.push(free("redis-cell, denied", &[&used], &fail).on_cell());
    }
    let bucket = |settings: &str| format!("EVALSHA {} 1 key {settings}", scripts.bucket);
    let window = |settings: &str| format!("EVALSHA {} 1 key {settings}", scripts.window);
    let counter = format!("EVALSHA {} 1 key 1000000 3600000", scripts.counter);
    let (pass, fail) = (bucket("1000000 0.0166667 1"), bucket("5 0.0000278 1"));
    cases.push(free(LUA_BUCKET, &[&pass, &pass], &pass));
    cases.push(free(LUA_BUCKET_DENIED, &[&bucket("5 0.0000278 5")], &fail));
    let (pass, fail) = (window("10000 3600000"), window("1 3600000"));
    cases.push(free(LUA_WINDOW, &[&pass, &pass], &pass));
    cases.push(free(LUA_WINDOW_DENIED, &[&fail], &fail));
    cases.push(free(LUA_COUNTER, &[&counter], &counter));
    cases
}
