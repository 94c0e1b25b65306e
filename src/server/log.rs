//! Lines for the server's log.

use std::ffi::{c_char, CStr};
use std::fmt::{self, Write};
use std::ptr;

/// Room for one line. A fixed buffer, because a panic is logged too, and then the heap is not to be asked.
const LINE: usize = 512;

/// A line as the C side wants it: ASCII, no control characters, NUL at the end; what is too long is cut.
pub(super) struct Line {
    bytes: [u8; LINE],
    used: usize,
}

impl Line {
    /// An empty line.
    pub(super) fn new() -> Self {
        Line { bytes: [0; LINE], used: 0 }
    }

    /// The line as C reads it.
    pub(super) fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The last byte stays NUL.
        let free = self.bytes.get_mut(self.used..LINE.saturating_sub(1)).unwrap_or_default();
        let mut written = 0usize;
        for (to, from) in free.iter_mut().zip(text.bytes()) {
            *to = if (0x20..0x7f).contains(&from) { from } else { b'?' };
            written = written.saturating_add(1);
        }
        self.used = self.used.saturating_add(written);
        Ok(())
    }
}

fn log(level: &CStr, message: fmt::Arguments<'_>) {
    let mut line = Line::new();
    if write!(line, "{message}").is_err() {
        return;
    }
    if let Some(log) = api!(RedisModule_Log) {
        // SAFETY: level, format and line end with NUL, and `%s` takes one string. Without a context the
        // server logs for "module", from any thread.
        unsafe { log(ptr::null_mut(), level.as_ptr(), c"%s".as_ptr(), line.as_ptr()) };
    }
}

/// Tells the operator of something worth knowing.
pub(crate) fn notice(message: fmt::Arguments<'_>) {
    log(c"notice", message);
}

/// Tells the operator of something that is wrong.
pub(crate) fn warning(message: fmt::Arguments<'_>) {
    log(c"warning", message);
}
