//! An open key.

use super::call::Call;
use super::keytype;
use crate::limit::Limiter;
use redis_module::raw;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr;

/// What is under the name of an opened key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Nothing.
    Missing,
    /// A value of another data type.
    Foreign,
    /// A limiter.
    Ours,
}

/// An open key; closed when dropped. Neither opening nor closing tells anybody that it has changed.
pub(crate) struct Key<'c> {
    /// Null if the key was opened for reading and is missing.
    raw: *mut raw::RedisModuleKey,
    /// The stored value; null unless it is ours.
    value: *mut Limiter,
    foreign: bool,
    call: PhantomData<&'c Call>,
}

impl<'c> Key<'c> {
    #[inline]
    pub(super) fn open(call: &'c Call, index: usize, mode: u32) -> Self {
        let mut key =
            Key { raw: ptr::null_mut(), value: ptr::null_mut(), foreign: false, call: PhantomData };
        let Some(name) = call.raw_arg(index) else {
            return key;
        };
        // SAFETY: context and name are live; the handle is valid until it is closed, which happens only in
        // `drop`. Only a value of our type is taken for a limiter.
        unsafe {
            key.raw = call_api!(RedisModule_OpenKey(call.ctx, name, mode.cast_signed()) else ptr::null_mut());
            if key.raw.is_null() {
                return key;
            }
            let found = call_api!(RedisModule_ModuleTypeGetType(key.raw) else ptr::null_mut());
            if found.is_null() {
                let kind = call_api!(RedisModule_KeyType(key.raw) else 0);
                key.foreign = kind != raw::REDISMODULE_KEYTYPE_EMPTY as c_int;
            } else if found == keytype::handle() {
                key.value =
                    call_api!(RedisModule_ModuleTypeGetValue(key.raw) else ptr::null_mut()).cast();
                fetch(key.value.cast(), size_of::<Limiter>());
            } else {
                key.foreign = true;
            }
        }
        key
    }

    /// Asks the processor for what of the value lies apart: worth it some hundred instructions before it is
    /// read, and after as many since the key was opened.
    #[inline]
    pub(crate) fn fetch_apart(&self) {
        if let Some(limiter) = self.value() {
            let (at, bytes) = limiter.apart();
            fetch(at, bytes);
        }
    }

    /// What the name holds.
    #[inline]
    pub(crate) fn opened(&self) -> Opened {
        if !self.value.is_null() {
            Opened::Ours
        } else if self.foreign {
            Opened::Foreign
        } else {
            Opened::Missing
        }
    }

    /// The limiter, if the key holds one.
    #[inline]
    pub(crate) fn value(&self) -> Option<&Limiter> {
        // SAFETY: null, or the limiter that the server keeps for this key; it stays until it is deleted,
        // which needs `&mut self`. Nobody else has the key open (see `Call::open_write`).
        unsafe { self.value.as_ref() }
    }

    /// The limiter, to be changed in place. Only for a key opened for writing.
    #[inline]
    pub(crate) fn value_mut(&mut self) -> Option<&mut Limiter> {
        // SAFETY: as for `value`, and `&mut self` shuts out other references through this key.
        unsafe { self.value.as_mut() }
    }

    /// Puts a limiter into the key: a missing key is created without a TTL; a limiter already there is
    /// replaced in place and its TTL stays. False, and nothing is changed, if the key is of another type or
    /// not open for writing.
    pub(crate) fn create(&mut self, limiter: Limiter) -> bool {
        if let Some(value) = self.value_mut() {
            *value = limiter;
            return true;
        }
        if self.foreign || self.raw.is_null() {
            return false;
        }
        let value = keytype::give(limiter);
        // SAFETY: the key is open, and the value is as the type's callbacks expect.
        let answer = unsafe {
            call_api!(RedisModule_ModuleTypeSetValue(self.raw, keytype::handle(), value.cast())
                else raw::REDISMODULE_ERR as c_int)
        };
        if answer != raw::REDISMODULE_OK as c_int {
            // SAFETY: the server has refused the value, so it is still ours alone.
            unsafe { keytype::discard(value) };
            return false;
        }
        self.value = value;
        true
    }

    /// When the key expires, in milliseconds since the epoch; none if it is missing or has no TTL.
    #[inline]
    pub(crate) fn expire_at(&self) -> Option<i64> {
        // Redis 8.2 crashes if it is asked this of a missing key that is open for writing.
        if self.opened() == Opened::Missing {
            return None;
        }
        let none = i64::from(raw::REDISMODULE_NO_EXPIRE);
        // SAFETY: the key is open.
        let at = unsafe { call_api!(RedisModule_GetAbsExpire(self.raw) else none) };
        (at != none).then_some(at)
    }

    /// Sets when the key expires, in milliseconds since the epoch. Does nothing to a missing key.
    #[inline]
    pub(crate) fn set_expire_at(&mut self, at: i64) {
        if self.opened() == Opened::Missing {
            return;
        }
        // Negative times are refused by the server, but for -1, which would mean "never".
        let at = at.max(0);
        // SAFETY: the key is open.
        unsafe { call_api!(RedisModule_SetAbsExpire(self.raw, at) else 0) };
    }
}

/// Bytes that the processor fetches at once.
const LINE: usize = 64;

/// Asks the processor to fetch memory that will be read soon, at most the first four lines of it. A hint: it
/// reads nothing, and no address is wrong.
#[inline]
fn fetch(at: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..bytes.min(4 * LINE)).step_by(LINE) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: the instruction is part of every x86-64 and faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(offset).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes);
}

impl Drop for Key<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the key is open, and this is the only place that closes it.
            unsafe { call_api!(RedisModule_CloseKey(self.raw) else ()) };
        }
    }
}
