//! The floor: what the server's own calls cost a limiter, whatever it decides.
//!
//! ```text
//!   floor.allowed key word ...    the calls of an allowed charge of one rule
//!   floor.denied  key word ...    the calls of a denied charge of one rule
//!   floor.three   key word ...    the calls of an allowed charge of three rules
//!   floor.nothing key word ...    one integer as the reply, and nothing else
//!   fl.x          key blob        what the others replicate; does nothing
//! ```
//!
//! Each command reads its words, the clock and its key, and answers what a limiter would answer, but parses
//! nothing and decides nothing. A limiter that takes as long as this takes no time of its own.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]

/// As the module calls the server.
#[macro_use]
#[path = "../../../../src/server/api.rs"]
mod api;

use redis_module::raw;
use std::ffi::{c_char, c_int, c_long, c_void, CStr};
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const OK: c_int = raw::REDISMODULE_OK as c_int;
const ERR: c_int = raw::REDISMODULE_ERR as c_int;
/// As the limiter's commands have it.
const CHARGE_FLAGS: &CStr = c"write deny-oom fast";
/// The command that is replicated: its name is as long as the limiter's.
const KEYS: &CStr = c"fl.x";
/// No key of a benchmark expires while it runs.
const FAR_MS: i64 = 4_000_000_000_000;

/// What one command is a floor of.
struct Shape {
    /// Bytes of the stored value.
    value: usize,
    /// Bytes that are replicated; none if the charge is denied.
    blob: Option<&'static [u8]>,
    /// The six integers of a rule, as long as those of the benchmark's calls.
    six: [i64; 6],
    /// Rules that have an array of their own in the reply.
    rows: usize,
}

/// A command by the shape of its calls.
trait Floor {
    const SHAPE: Shape;
}

struct Allowed;

impl Floor for Allowed {
    const SHAPE: Shape = Shape {
        value: 32,
        blob: Some(&[b'x'; 30]),
        six: [1, 998_999_999, 0, 1_000_000_999, 1_000_000_000, 0],
        rows: 0,
    };
}

struct Denied;

impl Floor for Denied {
    const SHAPE: Shape = Shape {
        value: 32,
        blob: None,
        six: [0, 0, 1_000_000_999, 2_000_000_999, 1_000_000, 0],
        rows: 0,
    };
}

struct Three;

impl Floor for Three {
    const SHAPE: Shape = Shape {
        value: 72,
        blob: Some(&[b'x'; 90]),
        six: [1, 998_999, 0, 604_800_000, 1_000_000, 0],
        rows: 3,
    };
}

static TYPE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// One word of a call; null where there is none.
///
/// # Safety
/// `argv` has `argc` entries.
unsafe fn word(
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    index: c_int,
) -> *mut raw::RedisModuleString {
    match usize::try_from(index) {
        // SAFETY: the index lies within the array.
        Ok(at) if index < argc => unsafe { *argv.add(at) },
        _ => ptr::null_mut(),
    }
}

/// Reads all words behind the key, and the clock as the limiter does.
///
/// # Safety
/// `argv` has `argc` live strings.
#[inline]
unsafe fn read_call(argv: *mut *mut raw::RedisModuleString, argc: c_int) {
    for index in 2..argc {
        let mut len = 0usize;
        // SAFETY: the word is live, and `len` receives its length.
        black_box(unsafe {
            call_api!(RedisModule_StringPtrLen(word(argv, argc, index), &mut len) else ptr::null())
        });
    }
    black_box(match api!(RedisModule_CachedMicroseconds) {
        // SAFETY: takes nothing and reads one number.
        Some(cached) => unsafe { cached() },
        None => SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX)),
    });
}

/// An open key's value; a missing key gets one, and a TTL. Null if the key is of another type.
///
/// # Safety
/// A key that is open for writing.
#[inline]
unsafe fn value_of(key: *mut raw::RedisModuleKey, bytes: usize) -> *mut u8 {
    let ours = TYPE.load(Ordering::Relaxed);
    // SAFETY: the key is open; a value of our type is a block of ours, and the server takes a new one over.
    unsafe {
        let found = call_api!(RedisModule_ModuleTypeGetType(key) else ptr::null_mut());
        if !found.is_null() {
            let value = call_api!(RedisModule_ModuleTypeGetValue(key) else ptr::null_mut());
            return if found == ours { value.cast() } else { ptr::null_mut() };
        }
        if call_api!(RedisModule_KeyType(key) else 0) != raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
            return ptr::null_mut();
        }
        let value = block(bytes);
        if call_api!(RedisModule_ModuleTypeSetValue(key, ours, value) else ERR) != OK {
            call_api!(RedisModule_Free(value) else ());
            return ptr::null_mut();
        }
        call_api!(RedisModule_SetAbsExpire(key, FAR_MS) else ERR);
        value.cast()
    }
}

fn block(bytes: usize) -> *mut c_void {
    // SAFETY: the server's allocator takes any size.
    unsafe { call_api!(RedisModule_Calloc(1, bytes) else ptr::null_mut()) }
}

/// Changes the value of the first word's key, or only looks at it; false if it is of another type.
///
/// # Safety
/// As the server passes them, with a key among the words.
#[inline]
unsafe fn charge(
    ctx: *mut raw::RedisModuleCtx,
    name: *mut raw::RedisModuleString,
    shape: &Shape,
) -> bool {
    // SAFETY: context and name are live, and the key is closed before anybody else is called. A value of
    // ours has at least one byte.
    unsafe {
        let mode = (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE).cast_signed();
        let key = call_api!(RedisModule_OpenKey(ctx, name, mode) else ptr::null_mut());
        let value = value_of(key, shape.value);
        if value.is_null() {
            call_api!(RedisModule_CloseKey(key) else ());
            return false;
        }
        let Some(blob) = shape.blob else {
            black_box(*value);
            call_api!(RedisModule_CloseKey(key) else ());
            return true;
        };
        black_box(call_api!(RedisModule_GetAbsExpire(key) else 0));
        *value = (*value).wrapping_add(1);
        call_api!(RedisModule_CloseKey(key) else ());
        call_api!(RedisModule_SignalModifiedKey(ctx, name) else ERR);
        // `s` takes a string of the server, `b` a pointer and a size_t; the server copies both.
        call_api!(RedisModule_Replicate(
            ctx,
            KEYS.as_ptr(),
            c"sb".as_ptr(),
            name,
            blob.as_ptr().cast::<c_char>(),
            blob.len()
        ) else ERR);
        call_api!(RedisModule_NotifyKeyspaceEvent(
            ctx,
            raw::REDISMODULE_NOTIFY_MODULE,
            c"fl.charge".as_ptr(),
            name
        ) else ERR);
    }
    true
}

/// The head of an array and six integers; `more` items are to follow.
///
/// # Safety
/// A live context.
#[inline]
unsafe fn six(ctx: *mut raw::RedisModuleCtx, values: &[i64; 6], more: c_long) {
    // SAFETY: the context is live.
    unsafe {
        call_api!(RedisModule_ReplyWithArray(ctx, more.saturating_add(6)) else ERR);
        for value in values {
            call_api!(RedisModule_ReplyWithLongLong(ctx, *value) else ERR);
        }
    }
}

/// A whole call.
///
/// # Safety
/// As the server passes them.
#[inline]
unsafe fn call(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    shape: &Shape,
) -> c_int {
    // SAFETY: the server passes a live context and argc live words.
    unsafe {
        let name = word(argv, argc, 1);
        if name.is_null() {
            return call_api!(RedisModule_WrongArity(ctx) else ERR);
        }
        read_call(argv, argc);
        if !charge(ctx, name, shape) {
            let wrong = raw::REDISMODULE_ERRORMSG_WRONGTYPE.as_ptr().cast();
            return call_api!(RedisModule_ReplyWithError(ctx, wrong) else ERR);
        }
        six(ctx, &shape.six, c_long::from(shape.rows > 0));
        if shape.rows > 0 {
            let rows = c_long::try_from(shape.rows).unwrap_or(0);
            call_api!(RedisModule_ReplyWithArray(ctx, rows) else ERR);
            for _ in 0..shape.rows {
                six(ctx, &shape.six, 0);
            }
        }
    }
    OK
}

unsafe extern "C" fn enter<F: Floor>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: as the server passes them.
    unsafe { call(ctx, argv, argc, &F::SHAPE) }
}

/// Both what costs nothing but its dispatch, and what a replica or an AOF is given.
unsafe extern "C" fn nothing(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: the context is live.
    unsafe { call_api!(RedisModule_ReplyWithLongLong(ctx, 1) else ERR) }
}

/// A value keeps nothing, so nothing is saved.
unsafe extern "C" fn rdb_save(_io: *mut raw::RedisModuleIO, _value: *mut c_void) {}

unsafe extern "C" fn rdb_load(_io: *mut raw::RedisModuleIO, _encoding: c_int) -> *mut c_void {
    block(Three::SHAPE.value)
}

unsafe extern "C" fn aof_rewrite(
    _aof: *mut raw::RedisModuleIO,
    _key: *mut raw::RedisModuleString,
    _value: *mut c_void,
) {
}

unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: the server gives the value up, and it is a block of the server's allocator.
    unsafe { call_api!(RedisModule_Free(value) else ()) };
}

/// # Safety
/// The context of a module that is being loaded.
unsafe fn register(ctx: *mut raw::RedisModuleCtx) -> bool {
    let mut methods = raw::RedisModuleTypeMethods {
        version: u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION),
        rdb_load: Some(rdb_load),
        rdb_save: Some(rdb_save),
        aof_rewrite: Some(aof_rewrite),
        free: Some(free),
        // SAFETY: plain C data, for which zeros mean "nothing".
        ..unsafe { std::mem::zeroed() }
    };
    let commands: [(&CStr, raw::RedisModuleCmdFunc, &CStr); 5] = [
        (c"floor.allowed", Some(enter::<Allowed>), CHARGE_FLAGS),
        (c"floor.denied", Some(enter::<Denied>), CHARGE_FLAGS),
        (c"floor.three", Some(enter::<Three>), CHARGE_FLAGS),
        (c"floor.nothing", Some(nothing), CHARGE_FLAGS),
        (KEYS, Some(nothing), c"write fast"),
    ];
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED;
    // SAFETY: the caller passes the context; all texts end with NUL, and the server copies them and the table.
    unsafe {
        call_api!(RedisModule_SetModuleOptions(ctx, options.cast_signed()) else ());
        let made = call_api!(RedisModule_CreateDataType(ctx, c"ratefloor".as_ptr(), 1, &mut methods)
            else ptr::null_mut());
        TYPE.store(made, Ordering::Relaxed);
        !made.is_null()
            && commands.iter().all(|(name, code, flags)| {
                let done = call_api!(RedisModule_CreateCommand(ctx, name.as_ptr(), *code, flags.as_ptr(), 1, 1, 1)
                    else ERR);
                done == OK
            })
    }
}

#[no_mangle]
unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    let version = raw::REDISMODULE_APIVER_1 as c_int;
    // SAFETY: the server passes a live context, and loads a module only once.
    let loaded = unsafe {
        raw::Export_RedisModule_Init(ctx, c"floor".as_ptr(), 1, version) == OK && register(ctx)
    };
    if loaded {
        OK
    } else {
        ERR
    }
}
