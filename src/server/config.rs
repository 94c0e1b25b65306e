//! The configuration: `CONFIG SET rl.<name>`, the same in the server's file, and words after `loadmodule`.
//!
//! Words after `loadmodule` are pairs of name and value, with or without the prefix:
//! `loadmodule redis_rl.so slide-max-log 500 rl.notify-denied yes`. They win over the server's file.

use super::boundary::guarded;
use super::log;
use redis_module::raw;
use std::ffi::{c_char, c_int, c_longlong, c_void, CStr};
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};

/// One setting. A switch is a number from 0 to 1.
struct Setting {
    name: &'static CStr,
    default: i64,
    min: i64,
    max: i64,
    switch: bool,
    value: AtomicI64,
}

impl Setting {
    const fn number(name: &'static CStr, default: i64, min: i64, max: i64) -> Self {
        Setting { name, default, min, max, switch: false, value: AtomicI64::new(default) }
    }

    const fn switch(name: &'static CStr) -> Self {
        Setting { name, default: 0, min: 0, max: 1, switch: true, value: AtomicI64::new(0) }
    }

    fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }

    /// The value that a word means, if it is one.
    fn parse(&self, word: &[u8]) -> Option<i64> {
        if self.switch {
            return if word.eq_ignore_ascii_case(b"yes") {
                Some(1)
            } else if word.eq_ignore_ascii_case(b"no") {
                Some(0)
            } else {
                None
            };
        }
        let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
        let value: i64 = std::str::from_utf8(word).ok()?.parse().ok()?;
        (digits && (self.min..=self.max).contains(&value)).then_some(value)
    }
}

static SLIDE_MAX_LOG: Setting = Setting::number(c"slide-max-log", 100_000, 1, 1_000_000);
static MAX_POLICIES: Setting = Setting::number(c"max-policies", 1024, 0, 65_536);
static NOTIFY_DENIED: Setting = Setting::switch(c"notify-denied");
static TOP_KEYS: Setting = Setting::number(c"top-keys", 128, 0, 10_000);
static RETRY_JITTER_MS: Setting = Setting::number(c"retry-jitter-ms", 0, 0, 60_000);

static ALL: [&Setting; 5] =
    [&SLIDE_MAX_LOG, &MAX_POLICIES, &NOTIFY_DENIED, &TOP_KEYS, &RETRY_JITTER_MS];

fn unsigned(setting: &Setting) -> u64 {
    u64::try_from(setting.get()).unwrap_or(0)
}

/// `rl.slide-max-log`: the largest limit of an exact log.
pub(crate) fn slide_max_log() -> u64 {
    unsigned(&SLIDE_MAX_LOG)
}

/// `rl.max-policies`: how many policies there may be.
pub(crate) fn max_policies() -> u64 {
    unsigned(&MAX_POLICIES)
}

/// `rl.notify-denied`: whether a denial publishes an event.
pub(crate) fn notify_denied() -> bool {
    NOTIFY_DENIED.get() != 0
}

/// `rl.top-keys`: how many keys the list of the most denied has room for; 0 switches it off.
pub(crate) fn top_keys() -> u64 {
    unsigned(&TOP_KEYS)
}

/// `rl.retry-jitter-ms`: up to how much is added to the retry time of a denial; 0 adds nothing.
pub(crate) fn retry_jitter_ms() -> u64 {
    unsigned(&RETRY_JITTER_MS)
}

/// Registers the settings and lets the server give them their values; false if it refuses.
///
/// # Safety
/// The context of a module that is being loaded.
pub(super) unsafe fn register(ctx: *mut raw::RedisModuleCtx) -> bool {
    let refused = raw::REDISMODULE_ERR as c_int;
    let good = raw::REDISMODULE_OK as c_int;
    let flags = raw::REDISMODULE_CONFIG_DEFAULT;
    for setting in ALL {
        let name = setting.name.as_ptr();
        let data = ptr::from_ref(setting).cast_mut().cast::<c_void>();
        // SAFETY: the caller passes the context; names end with NUL; the data pointer is to a static, which
        // the callbacks only read through a shared reference.
        let answer = unsafe {
            if setting.switch {
                let default = c_int::from(setting.default != 0);
                call_api!(RedisModule_RegisterBoolConfig(
                    ctx, name, default, flags, Some(get_switch), Some(set_switch), None, data
                ) else refused)
            } else {
                call_api!(RedisModule_RegisterNumericConfig(
                    ctx, name, setting.default, flags, setting.min, setting.max, Some(get), Some(set), None, data
                ) else refused)
            }
        };
        if answer != good {
            return false;
        }
    }
    // SAFETY: the caller passes the context.
    unsafe { call_api!(RedisModule_LoadConfigs(ctx) else refused) == good }
}

/// Applies the words after `loadmodule`; false, with a line in the log, if one makes no sense. To be called
/// after [`register`], which sets everything to the file's values.
pub(super) fn apply_words(words: &[&[u8]]) -> bool {
    for (number, pair) in words.chunks(2).enumerate() {
        let number = number.saturating_mul(2).saturating_add(1);
        let (name, value) = match pair {
            [name, value] => (*name, *value),
            _ => {
                log::warning(format_args!("rl: module argument {number} has no value: not loaded"));
                return false;
            }
        };
        let bare = match name.split_at_checked(3) {
            Some((prefix, rest)) if prefix.eq_ignore_ascii_case(b"rl.") => rest,
            _ => name,
        };
        let Some(setting) = ALL.iter().find(|s| s.name.to_bytes().eq_ignore_ascii_case(bare))
        else {
            let name = String::from_utf8_lossy(name);
            log::warning(format_args!("rl: unknown module argument {number} ({name}): not loaded"));
            return false;
        };
        let Some(value) = setting.parse(value) else {
            let name = setting.name.to_string_lossy();
            if setting.switch {
                log::warning(format_args!(
                    "rl: module argument {name} must be yes or no: not loaded"
                ));
            } else {
                let (min, max) = (setting.min, setting.max);
                log::warning(format_args!(
                    "rl: module argument {name} must be {min} to {max}: not loaded"
                ));
            }
            return false;
        };
        setting.value.store(value, Ordering::Relaxed);
    }
    true
}

/// # Safety
/// The data pointer that `register` gave.
unsafe fn setting<'s>(data: *mut c_void) -> &'s Setting {
    // SAFETY: `register` gave a pointer to a static.
    unsafe { &*data.cast_const().cast::<Setting>() }
}

unsafe extern "C" fn get(_name: *const c_char, data: *mut c_void) -> c_longlong {
    // SAFETY: the server passes the data pointer of `register`.
    guarded(0, || unsafe { setting(data) }.get())
}

/// The server has checked the range.
unsafe extern "C" fn set(
    _name: *const c_char,
    value: c_longlong,
    data: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guarded(raw::REDISMODULE_ERR as c_int, || {
        // SAFETY: the server passes the data pointer of `register`.
        unsafe { setting(data) }.value.store(value, Ordering::Relaxed);
        raw::REDISMODULE_OK as c_int
    })
}

unsafe extern "C" fn get_switch(_name: *const c_char, data: *mut c_void) -> c_int {
    // SAFETY: the server passes the data pointer of `register`.
    guarded(0, || c_int::from(unsafe { setting(data) }.get() != 0))
}

unsafe extern "C" fn set_switch(
    _name: *const c_char,
    value: c_int,
    data: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guarded(raw::REDISMODULE_ERR as c_int, || {
        // SAFETY: the server passes the data pointer of `register`.
        unsafe { setting(data) }.value.store(i64::from(value != 0), Ordering::Relaxed);
        raw::REDISMODULE_OK as c_int
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_strictly() {
        assert_eq!(TOP_KEYS.parse(b"0"), Some(0));
        assert_eq!(TOP_KEYS.parse(b"10000"), Some(10_000));
        for bad in [&b"10001"[..], b"-1", b"+1", b"", b"1 ", b"x", b"\xff", b"99999999999999999999"]
        {
            assert_eq!(TOP_KEYS.parse(bad), None);
        }
        assert_eq!(NOTIFY_DENIED.parse(b"Yes"), Some(1));
        assert_eq!(NOTIFY_DENIED.parse(b"1"), None);
    }

    #[test]
    fn names_come_with_or_without_prefix() {
        assert!(apply_words(&[b"max-policies", b"7", b"RL.retry-jitter-ms", b"5"]));
        assert_eq!((max_policies(), retry_jitter_ms()), (7, 5));
        for bad in [
            &[&b"max-policies"[..]][..],
            &[b"what", b"1"],
            &[b"rl.", b"1"],
            &[b"top-keys", b"x"],
            &[b"", b""],
        ] {
            assert!(!apply_words(bad));
        }
    }
}
