//! Waiting for what a server does in the background (replication, saves), never for time to pass in a limiter.

use std::time::{Duration, Instant};

/// So long, and so many times longer as `RL_PATIENCE` says, where servers are watched and slow.
pub fn patience(seconds: u64) -> Duration {
    let times = std::env::var("RL_PATIENCE").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    Duration::from_secs(seconds * times)
}

/// Asks `done` again and again until it says yes, at most a minute of monotonic time.
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let (start, patience) = (Instant::now(), patience(60));
    while !done() {
        assert!(start.elapsed() < patience, "waited {patience:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
