//! Where the server calls us: no panic crosses it.
//!
//! Our code is written not to panic. If it does all the same, the server must live: it is caught here,
//! logged with its place, and answered `ERR internal error`.

use super::call::Call;
use super::log;
use redis_module::raw;
use std::ffi::c_int;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};

/// Runs code that the server called; a panic answers `fallback`.
#[inline]
pub(super) fn guarded<T>(fallback: T, code: impl FnOnce() -> T) -> T {
    panic::catch_unwind(AssertUnwindSafe(code)).unwrap_or_else(|payload| {
        // Dropping a payload runs code that may panic in turn.
        if let Err(second) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(second);
        }
        fallback
    })
}

/// Sends what a panic says to the server's log instead of standard error.
pub(super) fn log_panics() {
    panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let message = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        match info.location() {
            Some(place) => log::warning(format_args!("rl: internal error at {place}: {message}")),
            None => log::warning(format_args!("rl: internal error: {message}")),
        }
    }));
}

/// A command's code in the form that the server calls. Each command gets its own entry, compiled together
/// with its code, because the server hands a command nothing that would tell it apart.
#[derive(Clone, Copy)]
pub(crate) struct Handler(
    unsafe extern "C" fn(
        *mut raw::RedisModuleCtx,
        *mut *mut raw::RedisModuleString,
        c_int,
    ) -> c_int,
);

impl Handler {
    /// The handler for a plain function (or a closure that captures nothing).
    pub(crate) const fn of<F: Fn(&Call) + Copy + 'static>(_code: F) -> Self {
        assert!(size_of::<F>() == 0, "a handler captures nothing");
        Handler(enter::<F>)
    }

    /// The pointer for the server.
    pub(super) fn pointer(self) -> raw::RedisModuleCmdFunc {
        Some(self.0)
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

unsafe extern "C" fn enter<F: Fn(&Call) + Copy + 'static>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: F has no size, so there is nothing to initialize; `Handler::of`, the only maker of this entry,
    // was given an F, so the type has a value; it is Copy, so conjuring another one is no theft.
    let code: F = unsafe { std::mem::zeroed() };
    // SAFETY: the server passes a live context and argc arguments, all valid until this function returns.
    let call = unsafe { Call::new(ctx, argv, argc) };
    if !guarded(false, || {
        code(&call);
        true
    }) {
        call.error("ERR internal error");
    }
    // The reply has been sent, an error too; REDISMODULE_ERR would say nothing more.
    raw::REDISMODULE_OK as c_int
}
