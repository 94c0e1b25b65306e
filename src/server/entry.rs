//! Where the server finds us.

use super::boundary::{guarded, log_panics};
use super::{config, info, keytype, log, persist, register};
use crate::command::table::COMMANDS;
use redis_module::raw;
use std::ffi::{c_int, CStr};
use std::fmt;
use std::ptr;
use std::slice;

/// What `MODULE LIST` shows, and what the server puts before our settings and INFO fields.
const NAME: &CStr = c"rl";

/// The first Redis that has what we cannot do without. Valkey counts on from Redis 7.2.
const FLOOR: c_int = 0x0007_0000;

/// Atomic slot migration, a promise that Valkey 9 asks of modules and the header does not know yet: our keys
/// travel by AOF rewrite, and `rl.x` is obeyed from the importing connection.
const OPTION_SLOT_MIGRATION: u32 = 1 << 5;

#[no_mangle]
unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // Not a byte may be allocated before this: memory would go back to an allocator it did not come from.
    // SAFETY: the server passes a live context, and loads a module only once.
    let found = unsafe {
        raw::Export_RedisModule_Init(
            ctx,
            NAME.as_ptr(),
            version(),
            raw::REDISMODULE_APIVER_1 as c_int,
        )
    };
    if found != raw::REDISMODULE_OK as c_int {
        return raw::REDISMODULE_ERR as c_int;
    }
    let loaded = guarded(false, || {
        log_panics();
        // SAFETY: as the server passes them.
        unsafe { load(ctx, argv, argc) }
    });
    (if loaded { raw::REDISMODULE_OK } else { raw::REDISMODULE_ERR }) as c_int
}

/// The package's version as one number: 1.2.3 is 10203. Counted by hand, since parsing may allocate.
pub(crate) const fn version() -> c_int {
    const fn number(text: &str) -> c_int {
        let (bytes, mut at, mut value) = (text.as_bytes(), 0usize, 0 as c_int);
        while let Some((_, [digit, ..])) = bytes.split_at_checked(at) {
            value = value.wrapping_mul(10).wrapping_add(digit.wrapping_sub(b'0') as c_int);
            at = at.wrapping_add(1);
        }
        value
    }
    const VERSION: c_int = number(env!("CARGO_PKG_VERSION_MAJOR"))
        .wrapping_mul(100)
        .wrapping_add(number(env!("CARGO_PKG_VERSION_MINOR")))
        .wrapping_mul(100)
        .wrapping_add(number(env!("CARGO_PKG_VERSION_PATCH")));
    VERSION
}

unsafe fn load(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> bool {
    // SAFETY: all take the context of a module that is being loaded, and the words that came with it. What
    // cannot be taken back (events) comes last.
    unsafe {
        if !has_floor() {
            let server = Server::ask(ctx);
            log::warning(format_args!(
                "rl needs Redis 7.0 or later or Valkey 7.2 or later; this server is {server}: not loaded"
            ));
            return false;
        }
        set_options(ctx);
        if !keytype::register(ctx) {
            log::warning(format_args!(
                "rl: the data type ratelimit is taken by another module: not loaded"
            ));
            return false;
        }
        if let Err(reason) = register::commands(ctx, COMMANDS) {
            log::warning(format_args!("rl: {reason}: not loaded"));
            return false;
        }
        if !config::register(ctx) {
            log::warning(format_args!(
                "rl: the server does not take the configuration: not loaded"
            ));
            return false;
        }
        if !config::apply_words(&words(argv, argc)) {
            return false;
        }
        info::register(ctx);
        persist::subscribe(ctx);
    }
    true
}

/// Whether the server is new enough. The number alone would be a promise; what counts is what is there.
fn has_floor() -> bool {
    let number = match api!(RedisModule_GetServerVersion) {
        // SAFETY: takes nothing and answers a number.
        Some(version) => unsafe { version() },
        None => 0,
    };
    number >= FLOOR
        && api!(RedisModule_CreateSubcommand).is_some()
        && api!(RedisModule_SetCommandInfo).is_some()
        && api!(RedisModule_GetCommand).is_some()
        && api!(RedisModule_GetAbsExpire).is_some()
        && api!(RedisModule_SetAbsExpire).is_some()
        && api!(RedisModule_ReplyWithMap).is_some()
        && api!(RedisModule_KeyAtPosWithFlags).is_some()
        && api!(RedisModule_RegisterNumericConfig).is_some()
        && api!(RedisModule_RegisterBoolConfig).is_some()
        && api!(RedisModule_LoadConfigs).is_some()
}

/// Which server this is, for people.
struct Server {
    ctx: *mut raw::RedisModuleCtx,
    info: *mut raw::RedisModuleServerInfoData,
}

impl Server {
    /// # Safety
    /// A live context, which outlives the value.
    unsafe fn ask(ctx: *mut raw::RedisModuleCtx) -> Self {
        // SAFETY: the context is live.
        let info = unsafe {
            call_api!(RedisModule_GetServerInfo(ctx, c"server".as_ptr()) else ptr::null_mut())
        };
        Server { ctx, info }
    }

    fn field(&self, name: &CStr) -> Option<&str> {
        if self.info.is_null() {
            return None;
        }
        // SAFETY: the answer is live, and so is the text in it as long as it is.
        unsafe {
            let text = call_api!(RedisModule_ServerInfoGetFieldC(self.info, name.as_ptr()) else ptr::null());
            if text.is_null() {
                None
            } else {
                CStr::from_ptr(text).to_str().ok()
            }
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.field(c"valkey_version"), self.field(c"redis_version")) {
            (Some(version), _) => write!(f, "Valkey {version}"),
            (None, Some(version)) => f.write_str(version),
            (None, None) => f.write_str("unknown"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.info.is_null() {
            // SAFETY: given by this context, and freed only here.
            unsafe { call_api!(RedisModule_FreeServerInfo(self.ctx, self.info) else ()) };
        }
    }
}

/// Broken input is an error and not a crash; a key that was only looked at has not changed. Not
/// HANDLE_REPL_ASYNC_LOAD: that would need the policies twice.
unsafe fn set_options(ctx: *mut raw::RedisModuleCtx) {
    let known = match api!(RedisModule_GetModuleOptionsAll) {
        // SAFETY: takes nothing and answers a number.
        Some(all) => unsafe { all() }.cast_unsigned(),
        None => 0,
    };
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        | (known & OPTION_SLOT_MIGRATION);
    // SAFETY: the caller passes the context.
    unsafe { call_api!(RedisModule_SetModuleOptions(ctx, options.cast_signed()) else ()) };
}

/// The words after `loadmodule`.
///
/// # Safety
/// As the server passes them; they live until the load ends, and so must the answer.
unsafe fn words<'w>(argv: *mut *mut raw::RedisModuleString, argc: c_int) -> Vec<&'w [u8]> {
    let argc = usize::try_from(argc).unwrap_or(0);
    if argv.is_null() {
        return Vec::new();
    }
    // SAFETY: argc valid strings, whose bytes stay where they are.
    unsafe {
        slice::from_raw_parts(argv, argc)
            .iter()
            .map(|word| {
                let mut len = 0usize;
                let bytes = call_api!(RedisModule_StringPtrLen(*word, &mut len) else ptr::null());
                if bytes.is_null() {
                    &[][..]
                } else {
                    slice::from_raw_parts(bytes.cast::<u8>(), len)
                }
            })
            .collect()
    }
}
