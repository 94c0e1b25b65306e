//! Tests that cannot run on a server.

use std::io::Write;

/// Says in the log that the test of this thread stops here, and why. The script that adds up results counts
/// these lines.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("a test"));
    // Past the test runner, which shows what a test prints only where it fails.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
