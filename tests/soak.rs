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
    ("SLIDE", "RL.SLIDE soak:slide 1000 6s"),
    ("BLOCKS", "RL.SLIDE soak:blocks 1000 6s BLOCKS 60"),
    ("FIXED", "RL.FIXED soak:fixed 1000 6s"),
    // The first binds; what passes there never fills the others.
    ("CHARGE", "RL.CHARGE soak:charge SLIDE 1000 6s TOKEN 2000 2000 PER 6s FIXED 60000 5m"),
];

/// How many passed, by minute and limit.
type Passed = Vec<[AtomicI64; LIMITS.len()]>;

fn ask(mut client: Client, number: usize, start: Instant, passed: &Passed) -> i64 {
    let words = LIMITS.map(|(_, line)| split(line));
    let step = Duration::from_secs(1) / CALLS;
    let mut turn = 0;
    loop {
        // The clients are spread over a step. One that comes late makes up for it.
        let due = start + step * turn + step * number as u32 / CLIENTS as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let limit = (turn as usize + number) % LIMITS.len();
        let reply = client.run(&words[limit]);
        let decision = six(&reply).unwrap_or_else(|| panic!("{}", show(&reply)));
        let minute = start.elapsed().as_secs() / MINUTE.as_secs();
        let Some(row) = passed.get(minute as usize) else { return i64::from(turn) };
        row[limit].fetch_add(decision[0], Relaxed);
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
    let minutes = std::env::var("MINUTES").ok().and_then(|n| n.parse().ok()).unwrap_or(20).max(2);
    let mut server = Server::build().running_clock(0).start();
    let mut replica = Server::build().running_clock(0).replica_of(&server).start();
    server.wait_for(&replica);
    let passed: Arc<Passed> = Arc::new((0..minutes).map(|_| Default::default()).collect());
    let clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    let mut observer = server.client();
    let start = Instant::now();
    let start_one = |(number, client)| {
        let passed = passed.clone();
        std::thread::spawn(move || ask(client, number, start, &passed))
    };
    let workers: Vec<_> = clients.into_iter().enumerate().map(start_one).collect();

    let head: String = LIMITS.map(|(name, _)| format!("{name:>7}")).concat();
    println!("minute {head} used_memory      rss");
    let mut memory = Vec::new();
    for minute in 0..minutes {
        memory.push(memory_until(&mut observer, start + MINUTE * (minute as u32 + 1)));
        let row: String =
            passed[minute].iter().map(|n| format!("{:>7}", n.load(Relaxed))).collect();
        println!("{:>6} {row} {:>11} {:>8}", minute + 1, memory[minute][0], memory[minute][1]);
    }
    let calls: i64 = workers.into_iter().map(|w| w.join().expect("a client")).sum();
    println!("{calls} calls, {:.0} per second", calls as f64 / (60 * minutes) as f64);

    for (number, (name, _)) in LIMITS.iter().enumerate() {
        let counts: Vec<f64> =
            passed.iter().map(|row| row[number].load(Relaxed) as f64 / LIMIT).collect();
        // A bucket is full at first, or empty.
        let first = usize::from(number < 2);
        let total = counts.iter().skip(first).sum::<f64>() / (minutes - first) as f64;
        println!("{name}: {total:.4} of the limit");
        for (minute, share) in counts.iter().enumerate().skip(first) {
            let told = format!("{name}: {share} of the limit in minute {}", minute + 1);
            assert!(*share <= 1.0 + TOLERANCE, "{told}");
            // The next crowd of a blocks limiter may come one block of 60 later, each time.
            assert!(*share >= 1.0 - TOLERANCE || *name == "BLOCKS", "{told}");
        }
        let least = if *name == "BLOCKS" { 60.0 / 61.0 } else { 1.0 };
        assert!(total >= least * (1.0 - TOLERANCE), "{name}: {total} of the limit");
    }
    // The first minutes are for buffers to find their size.
    let settled = memory[(minutes - 1).min(2)];
    let last = memory[minutes - 1];
    assert!(last[0] - settled[0] < 200_000, "used_memory from {} to {}", settled[0], last[0]);
    assert!(last[1] - settled[1] < 1_000_000, "resident from {} to {}", settled[1], last[1]);
    let errors = observer.info_int("rl_stats", "rl_errors");
    assert_eq!(errors, 0);
    assert_all_expire(&server);
    assert_equal(&server, &mut replica);
    server.assert_well();
}
