//! Waiting for what a server does in the background (replication, saves), never for time to pass in a limiter.

use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Asks `done` again and again until it says yes, at most a minute of monotonic time.
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
