//! The data type `ratelimit`: a boxed [`Limiter`] per key, and what the server asks of it.
//!
//! There is no `unlink` callback (nothing outside a value refers to it), and nothing here keeps state per
//! thread: the server frees values, and saves them, off the main thread or in a child.

use super::alloc::SERVER_ALIGN;
use super::boundary::guarded;
use super::{log, persist, replicate};
use crate::limit::log::Visitor;
use crate::limit::Limiter;
use redis_module::raw;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Nine letters, as the server demands; what `TYPE` prints.
const NAME: &std::ffi::CStr = c"ratelimit";

/// The version of the frame around a value: one string. The value carries a version of its own.
pub(super) const ENCODING: c_int = 1;

/// A larger alignment would put a pointer of ours before each block (see `alloc`), and a block that the
/// server moves on its own would lose it.
const _: () = assert!(align_of::<Limiter>() <= SERVER_ALIGN);

static TYPE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// How many limiters the server holds. Values that it frees in the background count until they are gone.
static LIVE: AtomicU64 = AtomicU64::new(0);

/// Whether the server holds a limiter.
pub(super) fn any_live() -> bool {
    LIVE.load(Ordering::Relaxed) > 0
}

/// A limiter as the server keeps it for a key.
pub(super) fn give(limiter: Limiter) -> *mut Limiter {
    LIVE.fetch_add(1, Ordering::Relaxed);
    Box::into_raw(Box::new(limiter))
}

/// Frees what `give` made.
///
/// # Safety
/// The server has given the value up, or never took it.
pub(super) unsafe fn discard(value: *mut Limiter) {
    LIVE.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: as the caller says; only `give` makes values of our type.
    drop(unsafe { Box::from_raw(value) });
}

/// The server's handle of our type.
#[inline]
pub(super) fn handle() -> *mut raw::RedisModuleType {
    TYPE.load(Ordering::Relaxed)
}

/// Registers the type; false if the server refuses.
///
/// # Safety
/// The context of a module that is being loaded.
pub(super) unsafe fn register(ctx: *mut raw::RedisModuleCtx) -> bool {
    let mut methods = raw::RedisModuleTypeMethods {
        version: u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION),
        rdb_load: Some(rdb_load),
        rdb_save: Some(rdb_save),
        aof_rewrite: Some(aof_rewrite),
        mem_usage: Some(mem_usage),
        digest: Some(digest),
        free: Some(free),
        aux_load: Some(persist::aux_load),
        aux_save: Some(persist::aux_save_always),
        aux_save_triggers: raw::REDISMODULE_AUX_BEFORE_RDB as c_int,
        free_effort: Some(free_effort),
        unlink: None,
        copy: Some(copy),
        defrag: Some(defrag),
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: Some(persist::aux_save_if_any),
    };
    // SAFETY: the caller passes the context; the name ends with NUL, and the server copies the table, reading
    // as much of it as it knows.
    let made = unsafe {
        call_api!(RedisModule_CreateDataType(ctx, NAME.as_ptr(), ENCODING, &mut methods) else ptr::null_mut())
    };
    TYPE.store(made, Ordering::Relaxed);
    !made.is_null()
}

/// Writes one string.
///
/// # Safety
/// A live `io` in a save callback.
pub(super) unsafe fn save(io: *mut raw::RedisModuleIO, bytes: &[u8]) {
    // SAFETY: `io` is live, the server copies the bytes.
    unsafe {
        call_api!(RedisModule_SaveStringBuffer(io, bytes.as_ptr().cast(), bytes.len()) else ())
    };
}

/// A string that the server has read for us.
pub(super) struct Loaded {
    bytes: *mut c_char,
    len: usize,
}

impl Loaded {
    /// Reads one string; none if the input ends or is broken.
    ///
    /// # Safety
    /// A live `io` in a load callback.
    pub(super) unsafe fn read(io: *mut raw::RedisModuleIO) -> Option<Self> {
        let mut len = 0usize;
        // SAFETY: `io` is live, and `len` receives the length.
        let bytes =
            unsafe { call_api!(RedisModule_LoadStringBuffer(io, &mut len) else ptr::null_mut()) };
        if bytes.is_null() {
            return None;
        }
        let loaded = Loaded { bytes, len };
        // SAFETY: `io` is live.
        let broken = unsafe { call_api!(RedisModule_IsIOError(io) else 1) != 0 };
        (!broken).then_some(loaded)
    }

    /// What was read.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: not null, `len` bytes, ours until dropped.
        unsafe { slice::from_raw_parts(self.bytes.cast(), self.len) }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: the server allocated it for us, and it is freed only here.
        unsafe { call_api!(RedisModule_Free(self.bytes.cast()) else ()) };
    }
}

unsafe extern "C" fn rdb_load(io: *mut raw::RedisModuleIO, encoding: c_int) -> *mut c_void {
    guarded(ptr::null_mut(), || {
        if encoding != ENCODING {
            log::warning(format_args!(
                "rl: a key was saved by another version (encoding {encoding}): refused"
            ));
            return ptr::null_mut();
        }
        // SAFETY: the server passes a live `io`.
        let Some(loaded) = (unsafe { Loaded::read(io) }) else {
            return ptr::null_mut();
        };
        match Limiter::decode(loaded.bytes()) {
            Some(limiter) => give(limiter).cast(),
            None => {
                log::warning(format_args!(
                    "rl: a saved key is damaged or of a newer version: refused"
                ));
                ptr::null_mut()
            }
        }
    })
}

/// What the server keeps for a key, as it comes to a callback.
///
/// # Safety
/// A value of our type, not shared mutably while the reference lives.
unsafe fn limiter<'v>(value: *const c_void) -> &'v Limiter {
    // SAFETY: values of our type are limiters (`give`).
    unsafe { &*value.cast::<Limiter>() }
}

unsafe extern "C" fn rdb_save(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    guarded((), || {
        let mut bytes = Vec::new();
        // SAFETY: the server passes a live `io` and a value of our type.
        unsafe {
            limiter(value).encode(&mut bytes);
            save(io, &bytes);
        }
    });
}

unsafe extern "C" fn aof_rewrite(
    aof: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    guarded((), || {
        let mut blob = Vec::new();
        // SAFETY: the server passes live arguments and a value of our type; `s` takes a string of the server,
        // `b` a pointer and a size_t. The server itself adds the TTL afterwards.
        unsafe {
            limiter(value).encode_full_op(&mut blob);
            call_api!(RedisModule_EmitAOF(
                aof,
                replicate::KEYS.as_ptr(),
                c"sb".as_ptr(),
                key,
                blob.as_ptr().cast::<c_char>(),
                blob.len()
            ) else ());
        }
    });
}

unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    guarded(0, || {
        // SAFETY: the server passes a value of our type.
        let limiter = unsafe { limiter(value) };
        size_of::<Limiter>().saturating_add(limiter.heap_bytes())
    })
}

unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    guarded((), || {
        let mut bytes = Vec::new();
        // SAFETY: the server passes a live digest and a value of our type.
        unsafe {
            limiter(value).encode(&mut bytes);
            call_api!(RedisModule_DigestAddStringBuffer(digest, bytes.as_ptr().cast(), bytes.len()) else ());
            call_api!(RedisModule_DigestEndSequence(digest) else ());
        }
    });
}

/// May run on another thread.
unsafe extern "C" fn free(value: *mut c_void) {
    guarded((), || {
        // SAFETY: the server gives a value of our type up.
        unsafe { discard(value.cast()) };
    });
}

/// Never 0: to the server that means "always in the background".
unsafe extern "C" fn free_effort(_key: *mut raw::RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the server passes a value of our type.
    guarded(1, || unsafe { limiter(value) }.free_effort().max(1))
}

unsafe extern "C" fn copy(
    _from: *mut raw::RedisModuleString,
    _to: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    guarded(ptr::null_mut(), || {
        // SAFETY: the server passes a value of our type.
        give(unsafe { limiter(value) }.clone()).cast()
    })
}

/// Moves blocks to where the server would rather have them.
struct Defrag(*mut raw::RedisModuleDefragCtx);

impl Defrag {
    /// Moves one block, or null: null if it stays; else it is copied, and the old one freed.
    ///
    /// # Safety
    /// A live block of an alignment up to [`SERVER_ALIGN`]: above that a pointer of ours lies before it (see
    /// `alloc`). The context is live. Whoever refers to the block refers to the new one from then on.
    unsafe fn block<T>(&self, block: *mut T) -> *mut T {
        const { assert!(align_of::<T>() <= SERVER_ALIGN) };
        // SAFETY: as the caller says.
        unsafe { call_api!(RedisModule_DefragAlloc(self.0, block.cast()) else ptr::null_mut()) }
            .cast()
    }
}

impl Visitor for Defrag {
    fn boxed<T>(&mut self, block: &mut Box<T>) {
        // SAFETY: a live block, to which nobody else refers. If it has moved, the box that led to the old one is
        // overwritten, and neither read nor dropped.
        unsafe {
            let moved = self.block(ptr::from_mut(&mut **block));
            if !moved.is_null() {
                ptr::write(block, Box::from_raw(moved));
            }
        }
    }

    fn vec<T>(&mut self, block: &mut Vec<T>) {
        let (len, capacity) = (block.len(), block.capacity());
        if capacity == 0 || size_of::<T>() == 0 {
            return;
        }
        // SAFETY: as for a box; the new block is as large, and its items are those of the old one.
        unsafe {
            let moved = self.block(block.as_mut_ptr());
            if !moved.is_null() {
                ptr::write(block, Vec::from_raw_parts(moved, len, capacity));
            }
        }
    }
}

/// Runs on the main thread only. A value is moved in one go: the largest log that settings allow has 16,000 blocks.
unsafe extern "C" fn defrag(
    ctx: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guarded(0, || {
        // SAFETY: the server passes a live context and the place where it keeps our value, and lets nobody
        // else at either; what it has moved it has copied whole.
        unsafe {
            let mut defrag = Defrag(ctx);
            let moved = defrag.block((*value).cast::<Limiter>());
            if !moved.is_null() {
                *value = moved.cast();
            }
            (*(*value).cast::<Limiter>()).show_heap(&mut defrag);
        }
        0
    })
}
