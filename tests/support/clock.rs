//! A wall clock per server that the test sets. See `clock.c` for how the server comes to believe it.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::preload;

/// Where a standing clock starts: 2030-03-17T00:00:00Z, a Sunday, in microseconds since the epoch.
pub const START_US: i64 = 1_899_936_000_000_000;

const STANDING: i64 = 0;
const RUNNING: i64 = 1;

/// The clock of one server, or of several that were given clones of the same file.
///
/// A set is one aligned 8-byte write to a file that the server has mapped: it is in force when `set` returns.
/// A server that caches its time reads the clock again at the start of the next command (seen with TIME and
/// PEXPIRETIME on Redis 7.0.15 to 8.2.3 and Valkey 8.1.8 and 9.1.2, the latter thanks to the shim's second
/// trick), so no further wait is needed.
pub struct Clock {
    path: PathBuf,
    file: File,
    value: Cell<i64>,
}

impl Clock {
    /// A clock that stands still at [`START_US`] until it is set.
    pub fn standing(path: &Path) -> Clock {
        Clock::create(path, STANDING, START_US)
    }

    /// A clock that runs as the machine's does, `shift_ms` ahead of it (behind it where negative).
    pub fn running(path: &Path, shift_ms: i64) -> Clock {
        Clock::create(path, RUNNING, shift_ms * 1000)
    }

    fn create(path: &Path, mode: i64, value: i64) -> Clock {
        let file = File::create(path).expect("clock file");
        let clock = Clock { path: path.to_owned(), file, value: Cell::new(value) };
        clock.write(0, mode);
        clock.write(8, value);
        clock
    }

    fn write(&self, offset: u64, number: i64) {
        self.file.write_all_at(&number.to_ne_bytes(), offset).expect("clock file");
    }

    /// Sets a standing clock to absolute microseconds, a running one to that shift.
    pub fn set(&self, us: i64) {
        self.value.set(us);
        self.write(8, us);
    }

    /// Sets a standing clock to so many milliseconds after [`START_US`].
    pub fn at_ms(&self, ms: i64) {
        self.set(START_US + ms * 1000);
    }

    /// Moves the clock on (back where negative).
    pub fn advance(&self, us: i64) {
        self.set(self.value.get() + us);
    }

    /// The absolute microseconds of a standing clock, the shift of a running one.
    pub fn us(&self) -> i64 {
        self.value.get()
    }

    /// The whole milliseconds of a standing clock, as the server's key expiry sees them.
    pub fn ms(&self) -> i64 {
        self.value.get().div_euclid(1000)
    }

    /// Makes `command` start a server under this clock; answers what has to be preloaded.
    pub fn prepare(&self, command: &mut Command) -> &'static Path {
        static SHIM: OnceLock<PathBuf> = OnceLock::new();
        command.env("RL_CLOCK_FILE", &self.path);
        SHIM.get_or_init(|| preload::build("clock", include_str!("clock.c")))
    }
}
