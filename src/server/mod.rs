//! The server's module API, and everything unsafe. What leaves this folder is safe to use, and decides
//! nothing.
//!
//! The API is a table of function pointers that the server fills at load; a server that lacks a function
//! leaves its pointer empty. What the floor (Redis 7.0) has is checked once in `entry`; the rest is looked
//! up where it is used, and done without.

#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks, clippy::missing_safety_doc)]

#[macro_use]
mod api;

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
