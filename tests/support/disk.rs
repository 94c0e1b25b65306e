//! A disk that a test fills or slows down. See `disk.c` for how the server comes to believe it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use super::preload;

const NO_LIMIT: i64 = -1;

/// What the append-only files of one server are written to.
pub struct Disk {
    path: PathBuf,
    file: File,
}

impl Disk {
    pub fn new(path: &Path) -> Disk {
        let disk = Disk { path: path.to_owned(), file: File::create(path).expect("disk file") };
        disk.free();
        disk.sync_takes(Duration::ZERO);
        disk
    }

    fn write(&self, offset: u64, number: i64) {
        self.file.write_all_at(&number.to_ne_bytes(), offset).expect("disk file");
    }

    /// Only so many bytes more fit.
    pub fn room(&self, bytes: i64) {
        self.write(0, bytes);
    }

    /// There is room again.
    pub fn free(&self) {
        self.write(0, NO_LIMIT);
    }

    /// How long the disk takes to confirm what was written.
    pub fn sync_takes(&self, time: Duration) {
        self.write(8, time.as_micros() as i64);
    }

    /// Makes `command` start a server on this disk; answers what has to be preloaded.
    pub fn prepare(&self, command: &mut Command) -> &'static Path {
        static SHIM: OnceLock<PathBuf> = OnceLock::new();
        command.env("RL_DISK_FILE", &self.path);
        SHIM.get_or_init(|| preload::build("disk", include_str!("disk.c")))
    }
}
