//! The counters in INFO: section `rl_stats`, fields `rl_*`.

use super::boundary::guarded;
use crate::stats;
use redis_module::raw;
use std::ffi::c_int;

/// Registers the section.
///
/// # Safety
/// The context of a module that is being loaded.
pub(super) unsafe fn register(ctx: *mut raw::RedisModuleCtx) {
    // SAFETY: the caller passes the context.
    unsafe { call_api!(RedisModule_RegisterInfoFunc(ctx, Some(section)) else 0) };
}

/// The server puts `rl_` before both names. A crash report asks too, from wherever the crash was: it gets
/// nothing, because the counters may take a lock.
unsafe extern "C" fn section(ctx: *mut raw::RedisModuleInfoCtx, crash: c_int) {
    guarded((), || {
        if crash != 0 {
            return;
        }
        // SAFETY: the server passes a live context; names end with NUL. The section is refused if it was not
        // asked for.
        unsafe {
            let refused = raw::REDISMODULE_ERR as c_int;
            if call_api!(RedisModule_InfoAddSection(ctx, c"stats".as_ptr()) else refused)
                != raw::REDISMODULE_OK as c_int
            {
                return;
            }
            stats::fields(&mut |name, value| {
                call_api!(RedisModule_InfoAddFieldULongLong(ctx, name.as_ptr(), value) else 0);
            });
        }
    });
}
