//! Fifty clients at three times the limit for as long as you like: `make soak`, 20 minutes if not told
//! otherwise (`MINUTES=60`). In real time, so it is no part of `cargo test`.

mod support;

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::client::{show, six, split};
use support::crowd::{assert_all_expire, assert_equal};
use support::{Client, Server};

const CLIENTS: usize = 50;
const MINUTE: Duration = Duration::from_secs(60);

/// What each limit lets pass in a minute.
const LIMIT: f64 = 10_000.0;
/// Each client asks so often in a second, the limits in turn: three times the limit over all clients.
const CALLS: u32 = 60;
/// One in two hundred more or less.
const TOLERANCE: f64 = 0.005;

const LIMITS: [(&str, &str); 6] = [
    ("TOKEN", "RL.TOKEN soak:token 1000 10000 PER 1m"),
    ("LEAKY", "RL.LEAKY soak:leaky 1000 10000 PER 1m"),
    // Windows that are used up in their first third: a crowd that is held up by a busy machine for a moment
    // is still through before the minute is over.
    ("SLIDE", "RL.SLIDE soak:slide 5000 30s"),
    // The crowd of the next window may come one block later: 30 ms.
    ("BLOCKS", "RL.SLIDE soak:blocks 5000 30s BLOCKS 1000"),
    ("FIXED", "RL.FIXED soak:fixed 5000 30s"),
    // The first binds; what passes there never fills the others.
    ("CHARGE", "RL.CHARGE soak:charge SLIDE 5000 30s TOKEN 7000 14000 PER 1m FIXED 60000 5m"),
];

/// What happened in a minute.
#[derive(Default)]
struct Minute {
    /// How many passed, by limit.
    passed: [AtomicI64; LIMITS.len()],
    /// How far a call was behind its time, at most, in ms. A machine that does not let the clients ask at three
    /// times the limit cannot tell whether that much passes.
    late: AtomicI64,
}

/// Minutes with calls later than this are shown and not judged.
const LATE_MS: i64 = 1000;

fn ask(mut client: Client, number: usize, start: Instant, minutes: &[Minute]) -> i64 {
    let words = LIMITS.map(|(_, line)| split(line));
    let step = Duration::from_secs(1) / CALLS;
    let mut turn = 0;
    loop {
        // The clients are spread over a step. One that comes late makes up for it.
        let due = start + step * turn + step * number as u32 / CLIENTS as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let late = Instant::now().duration_since(due).as_millis() as i64;
        let limit = (turn as usize + number) % LIMITS.len();
        let reply = client.run(&words[limit]);
        let decision = six(&reply).unwrap_or_else(|| panic!("{}", show(&reply)));
        let minute = start.elapsed().as_secs() / MINUTE.as_secs();
        let Some(minute) = minutes.get(minute as usize) else { return i64::from(turn) };
        minute.passed[limit].fetch_add(decision[0], Relaxed);
        minute.late.fetch_max(late, Relaxed);
        turn += 1;
    }
}

/// Used and resident bytes: the most that was seen within the minute.
fn memory_until(client: &mut Client, end: Instant) -> [i64; 2] {
    let mut most = [0, 0];
    while Instant::now() < end {
        for (most, field) in most.iter_mut().zip(["used_memory", "used_memory_rss"]) {
            *most = client.info_int("memory", field).max(*most);
        }
        std::thread::sleep(Duration::from_secs(2).min(end - Instant::now().min(end)));
    }
    most
}

#[test]
#[ignore = "takes its time: make soak"]
fn fifty_clients_at_three_times_the_limit() {
    let count = std::env::var("MINUTES").ok().and_then(|n| n.parse().ok()).unwrap_or(20).max(2);
    let mut server = Server::build().running_clock(0).start();
    let mut replica = Server::build().running_clock(0).replica_of(&server).start();
    server.wait_for(&replica);
    let minutes: Arc<Vec<Minute>> = Arc::new((0..count).map(|_| Minute::default()).collect());
    let clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    let mut observer = server.client();
    // A bucket gives its capacity besides, once: used up before the first minute.
    for (_, line) in &LIMITS[..2] {
        let line = format!("{line} COST 1000");
        assert_eq!(observer.six(&line)[0], 1, "{line}");
    }
    let start = Instant::now();
    let start_one = |(number, client)| {
        let minutes = minutes.clone();
        std::thread::spawn(move || ask(client, number, start, &minutes))
    };
    let workers: Vec<_> = clients.into_iter().enumerate().map(start_one).collect();

    let head: String = LIMITS.map(|(name, _)| format!("{name:>7}")).concat();
    println!("minute {head} used_memory      rss late_ms");
    let mut memory = Vec::new();
    for (number, minute) in minutes.iter().enumerate() {
        let [used, resident] = memory_until(&mut observer, start + MINUTE * (number as u32 + 1));
        memory.push([used, resident]);
        let row: String = minute.passed.iter().map(|n| format!("{:>7}", n.load(Relaxed))).collect();
        let late = minute.late.load(Relaxed);
        println!("{:>6} {row} {used:>11} {resident:>8} {late:>7}", number + 1);
    }
    let calls: i64 = workers.into_iter().map(|w| w.join().expect("a client")).sum();
    println!("{calls} calls, {:.0} per second", calls as f64 / (60 * count) as f64);

    let in_time: Vec<(usize, &Minute)> =
        (1..).zip(minutes.iter()).filter(|(_, m)| m.late.load(Relaxed) < LATE_MS).collect();
    assert!(in_time.len() * 2 >= count, "the machine was too busy for the clients");
    for (limit, (name, _)) in LIMITS.iter().enumerate() {
        let shares: Vec<(usize, f64)> = in_time
            .iter()
            .map(|(number, m)| (*number, m.passed[limit].load(Relaxed) as f64 / LIMIT))
            .collect();
        let mean = shares.iter().map(|(_, share)| share).sum::<f64>() / shares.len() as f64;
        println!("{name}: {mean:.4} of the limit");
        for (number, share) in shares {
            let told = format!("{name}: {share} of the limit in minute {number}");
            assert!((share - 1.0).abs() <= TOLERANCE, "{told}");
        }
    }
    // The first minutes are for buffers to find their size.
    let settled = memory[(count - 1).min(2)];
    let last = memory[count - 1];
    assert!(last[0] - settled[0] < 200_000, "used_memory from {} to {}", settled[0], last[0]);
    assert!(last[1] - settled[1] < 1_000_000, "resident from {} to {}", settled[1], last[1]);
    let errors = observer.info_int("rl_stats", "rl_errors");
    assert_eq!(errors, 0);
    assert_all_expire(&server);
    assert_equal(&server, &mut replica);
    server.assert_well();
}
