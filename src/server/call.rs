//! One call of a command: its arguments, its clock sample, its reply.

use super::key::Key;
use super::log::Line;
use redis_module::raw;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_long, CStr};
use std::fmt::Write;
use std::slice;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the server says of the AOF loader, which has no connection of its own.
const AOF_CLIENT: u64 = u64::MAX;

/// What a command does with a key, for the server's routing and access control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads it.
    Read,
    /// Reads and changes it.
    Update,
}

impl Access {
    /// The key flags of the module API.
    pub(super) fn flags(self) -> u32 {
        match self {
            Access::Read => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
            Access::Update => {
                raw::REDISMODULE_CMD_KEY_RW
                    | raw::REDISMODULE_CMD_KEY_ACCESS
                    | raw::REDISMODULE_CMD_KEY_UPDATE
            }
        }
    }
}

/// One call of a command. Lives only as long as the call, owns nothing, allocates nothing.
pub(crate) struct Call {
    pub(super) ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: usize,
    /// The clock sample in microseconds; the smallest number before it is taken.
    now: Cell<i64>,
}

impl Call {
    /// # Safety
    /// A live context with `argc` valid arguments, all of which outlive the value.
    #[inline]
    pub(super) unsafe fn new(
        ctx: *mut raw::RedisModuleCtx,
        argv: *mut *mut raw::RedisModuleString,
        argc: c_int,
    ) -> Self {
        Call { ctx, argv, argc: usize::try_from(argc).unwrap_or(0), now: Cell::new(i64::MIN) }
    }

    /// The number of words, the command's name included.
    #[inline]
    pub(crate) fn argc(&self) -> usize {
        self.argc
    }

    /// The server's string of one word, for API calls; none where there is no such word.
    #[inline]
    pub(super) fn raw_arg(&self, index: usize) -> Option<*mut raw::RedisModuleString> {
        if index >= self.argc {
            return None;
        }
        // SAFETY: index < argc, and the server's array has argc entries.
        Some(unsafe { *self.argv.add(index) })
    }

    /// One word, read in place; empty where there is no such word. Word 0 is the command's name.
    #[inline]
    pub(crate) fn arg(&self, index: usize) -> &[u8] {
        let Some(string) = self.raw_arg(index) else {
            return &[];
        };
        let mut len = 0usize;
        // SAFETY: the argument is valid, and `len` receives its length. The bytes stay where they are until
        // the call ends, which the borrow of `self` does not outlive.
        unsafe {
            let bytes = call_api!(RedisModule_StringPtrLen(string, &mut len) else return &[]);
            if bytes.is_null() {
                return &[];
            }
            slice::from_raw_parts(bytes.cast(), len)
        }
    }

    /// Microseconds since the epoch: one sample for the whole command. The server's command time where it is
    /// offered, so that EXEC and scripts see one moment; else (Redis 7.0) the wall clock.
    #[inline]
    pub(crate) fn now(&self) -> i64 {
        if self.now.get() == i64::MIN {
            self.now.set(match api!(RedisModule_CachedMicroseconds) {
                // SAFETY: takes nothing and reads one number.
                Some(cached) => unsafe { cached() },
                None => wall_clock(),
            });
        }
        self.now.get()
    }

    /// The number of the database that the client has selected.
    #[inline]
    pub(crate) fn db(&self) -> i32 {
        // SAFETY: the context is live.
        unsafe { call_api!(RedisModule_GetSelectedDb(self.ctx) else 0) }
    }

    /// Whether the call carries somebody else's decision, to be carried out and not to be judged: it comes
    /// from the primary, from a slot import, or from an AOF that is being loaded.
    pub(crate) fn must_obey(&self) -> bool {
        // SAFETY: the context is live.
        unsafe {
            let flags = call_api!(RedisModule_GetContextFlags(self.ctx) else 0);
            flags.cast_unsigned() & raw::REDISMODULE_CTX_FLAGS_REPLICATED != 0
                || call_api!(RedisModule_GetClientId(self.ctx) else 0) == AOF_CLIENT
        }
    }

    /// Opens the key that a word names, to read it. A missing key counts as a miss, as with GET.
    #[inline]
    pub(crate) fn open_read(&self, index: usize) -> Key<'_> {
        Key::open(self, index, raw::REDISMODULE_READ)
    }

    /// Opens the key that a word names, to read and to change it. Opening alone changes nothing and tells
    /// nobody. A key must not be open twice at a time: look for repeated names first.
    #[inline]
    pub(crate) fn open_write(&self, index: usize) -> Key<'_> {
        Key::open(self, index, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE)
    }

    /// Whether the server only asks where the keys are (flag `getkeys-api`): then answer with
    /// [`Call::key_at`] and do nothing else.
    #[inline]
    pub(crate) fn is_keys_position_request(&self) -> bool {
        // SAFETY: the context is live.
        unsafe { call_api!(RedisModule_IsKeysPositionRequest(self.ctx) else 0) != 0 }
    }

    /// Answers that this word is a key.
    pub(crate) fn key_at(&self, index: usize, access: Access) {
        let Ok(position) = c_int::try_from(index) else {
            return;
        };
        // SAFETY: the context is live; the server ignores the call outside a key position request.
        unsafe {
            call_api!(RedisModule_KeyAtPosWithFlags(self.ctx, position, access.flags().cast_signed()) else ());
        }
    }

    /// Tells the server that the key of this word has changed: WATCH and client tracking hear of it. To be
    /// called after the key is closed, and only if it has changed.
    #[inline]
    pub(crate) fn signal_modified(&self, index: usize) {
        if let Some(name) = self.raw_arg(index) {
            // SAFETY: context and name are live.
            unsafe { call_api!(RedisModule_SignalModifiedKey(self.ctx, name) else 0) };
        }
    }

    /// Publishes a keyspace event of our class for the key of this word. Others may act on it at once, so no
    /// key may be open.
    #[inline]
    pub(crate) fn notify(&self, event: &CStr, index: usize) {
        if let Some(name) = self.raw_arg(index) {
            // SAFETY: context and name are live, and the event's name ends with NUL.
            unsafe {
                call_api!(RedisModule_NotifyKeyspaceEvent(
                    self.ctx,
                    raw::REDISMODULE_NOTIFY_MODULE,
                    event.as_ptr(),
                    name
                ) else 0)
            };
        }
    }
}

/// Replies, written straight to the client. Each function is one item of the reply, in order.
impl Call {
    /// An integer.
    #[inline]
    pub(crate) fn int(&self, value: i64) {
        // SAFETY: the context is live.
        unsafe { call_api!(RedisModule_ReplyWithLongLong(self.ctx, value) else 0) };
    }

    /// The head of an array: that many items follow.
    #[inline]
    pub(crate) fn array(&self, len: usize) {
        let len = c_long::try_from(len).unwrap_or(0);
        // SAFETY: the context is live.
        unsafe { call_api!(RedisModule_ReplyWithArray(self.ctx, len) else 0) };
    }

    /// The head of a map: that many pairs follow, each of two items. RESP2 shows a flat array.
    #[inline]
    pub(crate) fn map(&self, len: usize) {
        let len = c_long::try_from(len).unwrap_or(0);
        // SAFETY: the context is live.
        unsafe { call_api!(RedisModule_ReplyWithMap(self.ctx, len) else 0) };
    }

    /// The null array: `*-1` in RESP2, `_` in RESP3.
    #[inline]
    pub(crate) fn null_array(&self) {
        // SAFETY: the context is live.
        unsafe { call_api!(RedisModule_ReplyWithNullArray(self.ctx) else 0) };
    }

    /// A string of any bytes.
    #[inline]
    pub(crate) fn bytes(&self, value: &[u8]) {
        // SAFETY: the context is live, and the server copies the bytes.
        unsafe {
            call_api!(RedisModule_ReplyWithStringBuffer(self.ctx, value.as_ptr().cast(), value.len()) else 0)
        };
    }

    /// A status line, such as `OK` or a line of help.
    #[inline]
    pub(crate) fn status(&self, text: &CStr) {
        // SAFETY: the context is live, and the text ends with NUL.
        unsafe { call_api!(RedisModule_ReplyWithSimpleString(self.ctx, text.as_ptr()) else 0) };
    }

    /// `OK`.
    #[inline]
    pub(crate) fn ok(&self) {
        self.status(c"OK");
    }

    /// An error, which begins with its code. What is not printable ASCII becomes `?`: a line break would end
    /// the reply early. It is copied to the stack, and cut after 511 bytes.
    pub(crate) fn error(&self, text: &str) {
        let mut line = Line::new();
        // `Line` never refuses: what is too long is cut.
        let _ = line.write_str(text);
        self.raw_error(line.as_ptr());
    }

    /// The server's own error for a key of another data type.
    pub(crate) fn wrong_type(&self) {
        self.raw_error(raw::REDISMODULE_ERRORMSG_WRONGTYPE.as_ptr().cast());
    }

    fn raw_error(&self, text: *const c_char) {
        // SAFETY: the context is live, and both callers pass text that ends with NUL.
        unsafe { call_api!(RedisModule_ReplyWithError(self.ctx, text) else 0) };
    }
}

/// Microseconds since the epoch by the system's clock.
fn wall_clock() -> i64 {
    let micros = |d: std::time::Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => micros(before.duration()).saturating_neg(),
    }
}
