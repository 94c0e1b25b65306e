//! What goes to replicas and the AOF: always a result, never a call to be decided again.
//!
//! The functions of the server are variadic, and Rust checks nothing there: lengths are passed as `usize`
//! (`size_t`), pointers as pointers, nothing else.

use super::call::Call;
use redis_module::raw;
use std::ffi::{c_char, CStr};
use std::ptr;

/// The internal command that carries keys: `rl.x key blob [key blob ...]`.
pub(super) const KEYS: &CStr = c"rl.x";
/// The internal command that carries policies: `rl.p blob`.
pub(super) const POLICY: &CStr = c"rl.p";

/// Strings of the server that go when the call ends, whatever happens in between.
struct Strings {
    ctx: *mut raw::RedisModuleCtx,
    made: Vec<*mut raw::RedisModuleString>,
}

impl Strings {
    fn add(&mut self, bytes: &[u8]) -> *mut raw::RedisModuleString {
        // SAFETY: the context is live; the server copies the bytes.
        let string = unsafe {
            call_api!(RedisModule_CreateString(self.ctx, bytes.as_ptr().cast(), bytes.len()) else ptr::null_mut())
        };
        self.made.push(string);
        string
    }
}

impl Drop for Strings {
    fn drop(&mut self) {
        for string in &self.made {
            // SAFETY: made by this context, and freed only here.
            unsafe { call_api!(RedisModule_FreeString(self.ctx, *string) else ()) };
        }
    }
}

impl Call {
    /// Sends the new state of one key, named by its word.
    #[inline]
    pub(crate) fn replicate(&self, key: usize, blob: &[u8]) {
        let Some(name) = self.raw_arg(key) else {
            return;
        };
        // SAFETY: `s` takes a string of the server, `b` a pointer and a size_t; the server copies both.
        unsafe {
            call_api!(RedisModule_Replicate(
                self.ctx,
                KEYS.as_ptr(),
                c"sb".as_ptr(),
                name,
                blob.as_ptr().cast::<c_char>(),
                blob.len()
            ) else 0)
        };
    }

    /// Two keys without a list of words.
    fn replicate_two(&self, (key, blob): (usize, &[u8]), (other, its): (usize, &[u8])) {
        let (Some(name), Some(other)) = (self.raw_arg(key), self.raw_arg(other)) else {
            return;
        };
        // SAFETY: `s` takes a string of the server, `b` a pointer and a size_t; the server copies both.
        unsafe {
            call_api!(RedisModule_Replicate(
                self.ctx,
                KEYS.as_ptr(),
                c"sbsb".as_ptr(),
                name,
                blob.as_ptr().cast::<c_char>(),
                blob.len(),
                other,
                its.as_ptr().cast::<c_char>(),
                its.len()
            ) else 0)
        };
    }

    /// Sends the new state of several keys, each named by its word, as one command.
    pub(crate) fn replicate_many(&self, changes: &[(usize, &[u8])]) {
        match changes {
            [] => return,
            [(key, blob)] => return self.replicate(*key, blob),
            [one, two] => return self.replicate_two(*one, *two),
            _ => {}
        }
        let mut blobs = Strings { ctx: self.ctx, made: Vec::with_capacity(changes.len()) };
        let mut words = Vec::with_capacity(changes.len().saturating_mul(2));
        for (key, blob) in changes {
            if let Some(name) = self.raw_arg(*key) {
                words.push(name);
                words.push(blobs.add(blob));
            }
        }
        // SAFETY: `v` takes an array of strings of the server and a size_t; the server takes its own
        // references to them.
        unsafe {
            call_api!(RedisModule_Replicate(
                self.ctx,
                KEYS.as_ptr(),
                c"v".as_ptr(),
                words.as_mut_ptr(),
                words.len()
            ) else 0)
        };
    }

    /// Sends a change of the policies.
    pub(crate) fn replicate_policy(&self, blob: &[u8]) {
        // SAFETY: the context is live.
        unsafe { send_policy(self.ctx, c"b", blob) };
    }

    /// Sends the call on as it came: what an internal command does, or a replica's own AOF would miss it.
    pub(crate) fn replicate_verbatim(&self) {
        // SAFETY: the context is live.
        unsafe { call_api!(RedisModule_ReplicateVerbatim(self.ctx) else 0) };
    }
}

/// Sends a change of policies; `format` is `b`, with modifiers.
///
/// # Safety
/// A live context.
pub(super) unsafe fn send_policy(ctx: *mut raw::RedisModuleCtx, format: &CStr, blob: &[u8]) {
    // SAFETY: the context is live; `b` takes a pointer and a size_t, modifiers take nothing.
    unsafe {
        call_api!(RedisModule_Replicate(
            ctx,
            POLICY.as_ptr(),
            format.as_ptr(),
            blob.as_ptr().cast::<c_char>(),
            blob.len()
        ) else 0)
    };
}
