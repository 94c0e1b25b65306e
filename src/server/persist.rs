//! Policies in RDB and AOF, where they belong to no key.

use super::boundary::guarded;
use super::keytype::{self, Loaded};
use super::{log, replicate};
use crate::policy;
use redis_module::raw;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// For Redis 7.0, which asks aux_load for whatever it is: there must be a string, if an empty one.
pub(super) unsafe extern "C" fn aux_save_always(io: *mut raw::RedisModuleIO, _when: c_int) {
    guarded((), || {
        let bytes = policy::save(keytype::any_live());
        // SAFETY: the server passes a live `io`.
        unsafe { keytype::save(io, &bytes) };
    });
}

/// For the others: where there is nothing to write, nothing is written, so that such a file loads without us.
pub(super) unsafe extern "C" fn aux_save_if_any(io: *mut raw::RedisModuleIO, _when: c_int) {
    guarded((), || {
        let bytes = policy::save(keytype::any_live());
        if !bytes.is_empty() {
            // SAFETY: the server passes a live `io`.
            unsafe { keytype::save(io, &bytes) };
        }
    });
}

pub(super) unsafe extern "C" fn aux_load(
    io: *mut raw::RedisModuleIO,
    encoding: c_int,
    _when: c_int,
) -> c_int {
    let refused = raw::REDISMODULE_ERR as c_int;
    guarded(refused, || {
        let loaded = if encoding == keytype::ENCODING {
            // SAFETY: the server passes a live `io`.
            unsafe { Loaded::read(io) }
        } else {
            None
        };
        let good =
            loaded.is_some_and(|loaded| loaded.bytes().is_empty() || policy::load(loaded.bytes()));
        if good {
            raw::REDISMODULE_OK as c_int
        } else {
            log::warning(format_args!(
                "rl: the saved policies are damaged or of a newer version: refused"
            ));
            refused
        }
    })
}

/// Asks to be told of loads and forks. Nothing may fail after this: a server that gives up a load does not
/// forget the callbacks.
///
/// # Safety
/// The context of a module that is being loaded.
pub(super) unsafe fn subscribe(ctx: *mut raw::RedisModuleCtx) {
    let wanted: [(u64, raw::RedisModuleEventCallback); 2] = [
        (raw::REDISMODULE_EVENT_LOADING, Some(on_loading)),
        (raw::REDISMODULE_EVENT_FORK_CHILD, Some(on_fork)),
    ];
    for (id, callback) in wanted {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        // SAFETY: the caller passes the context.
        unsafe { call_api!(RedisModule_SubscribeToServerEvent(ctx, event, callback) else 0) };
    }
}

/// A file without policies calls no aux_load at all, yet it means "no policies": so they go when a load
/// begins.
unsafe extern "C" fn on_loading(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    what: u64,
    _data: *mut c_void,
) {
    guarded((), || {
        if matches!(
            what,
            raw::REDISMODULE_SUBEVENT_LOADING_RDB_START
                | raw::REDISMODULE_SUBEVENT_LOADING_AOF_START
                | raw::REDISMODULE_SUBEVENT_LOADING_REPL_START
        ) {
            policy::clear();
        }
    });
}

/// Whether the policies are still to be sent to the new AOF.
static OWED: AtomicBool = AtomicBool::new(false);

/// How long to wait before the server is asked again whether anything may be propagated.
const AGAIN_MS: i64 = 100;

/// A rewritten AOF without RDB preamble has room for keys only. The fork of the rewrite happens after the
/// next incremental file is open, so policies sent from now on (to the AOF alone) stand in it.
///
/// They are sent by a timer and not here: a command may have asked for the rewrite, and the server sees
/// something propagated while it runs as a change that the command has made. `CONFIG SET appendonly yes`
/// and `BGREWRITEAOF` themselves would go to all replicas.
unsafe extern "C" fn on_fork(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    what: u64,
    _data: *mut c_void,
) {
    guarded((), || {
        // SAFETY: the server passes a live context.
        unsafe {
            if what == raw::REDISMODULE_SUBEVENT_FORK_CHILD_BORN
                && aof_rewrite_runs(ctx)
                && !OWED.swap(true, Ordering::Relaxed)
            {
                send_later(ctx, 0);
            }
        }
    });
}

/// # Safety
/// A live context.
unsafe fn send_later(ctx: *mut raw::RedisModuleCtx, after_ms: i64) {
    // SAFETY: the context is live; the callback takes no data.
    unsafe {
        call_api!(RedisModule_CreateTimer(ctx, after_ms, Some(send_to_aof), ptr::null_mut()) else 0);
    }
}

unsafe extern "C" fn send_to_aof(ctx: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    guarded((), || {
        // SAFETY: the server passes a live context.
        unsafe {
            // While clients are paused (a failover, perhaps) the server dies of anything propagated.
            if call_api!(RedisModule_AvoidReplicaTraffic() else 0) != 0 {
                return send_later(ctx, AGAIN_MS);
            }
            OWED.store(false, Ordering::Relaxed);
            // All in one: the server would wrap several commands into a MULTI that goes to replicas too.
            if let Some(all) = policy::whole() {
                replicate::send_policy(ctx, c"bR", &all);
            }
        }
    });
}

/// Whether the child is an AOF rewrite; the same event announces the others.
///
/// # Safety
/// A live context.
unsafe fn aof_rewrite_runs(ctx: *mut raw::RedisModuleCtx) -> bool {
    // SAFETY: the context is live, the names end with NUL, the answer is freed once.
    unsafe {
        let info =
            call_api!(RedisModule_GetServerInfo(ctx, c"persistence".as_ptr()) else ptr::null_mut());
        if info.is_null() {
            return false;
        }
        let mut missing: c_int = 0;
        let runs = call_api!(RedisModule_ServerInfoGetFieldUnsigned(
            info,
            c"aof_rewrite_in_progress".as_ptr(),
            &mut missing
        ) else 0);
        call_api!(RedisModule_FreeServerInfo(ctx, info) else ());
        missing == 0 && runs == 1
    }
}
