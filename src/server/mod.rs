//! The server's module API, and everything unsafe. What leaves this folder is safe to use, and decides
//! nothing.
//!
//! The API is a table of function pointers that the server fills at load; a server that lacks a function
//! leaves its pointer empty. What the floor (Redis 7.0) has is checked once in `entry`; the rest is looked
//! up where it is used, and done without.

#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc)]

/// The pointer of one API function, or none where this server (or no server) offers it.
macro_rules! api {
    ($name:ident) => {{
        #[allow(unused_unsafe)] // it also stands in unsafe code
        // SAFETY: written only while the server loads the module, before any other code of ours runs, and
        // only read afterwards; this copies the pointer and makes no reference to the static.
        let function = unsafe { redis_module::raw::$name };
        function
    }};
}

/// Calls one API function; answers the fallback where the server lacks it.
/// The caller answers for the arguments, so this is to be used inside `unsafe`.
macro_rules! call_api {
    ($name:ident($($arg:expr),* $(,)?) else $fallback:expr) => {
        match api!($name) {
            Some(function) => function($($arg),*),
            None => $fallback,
        }
    };
}

mod alloc;
mod boundary;
mod call;
pub(crate) mod config;
mod entry;
mod info;
mod key;
mod keytype;
mod log;
mod persist;
mod register;
mod replicate;

pub(crate) use alloc::ServerAlloc;
pub(crate) use boundary::Handler;
pub(crate) use call::{Access, Call};
pub(crate) use entry::version;
pub(crate) use key::{Key, Opened};
pub(crate) use log::warning;
