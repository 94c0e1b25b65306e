//! A rate limiter for Redis 7.0 and later and Valkey 7.2 and later.
//!
//! [`limit`] decides and knows nothing of the server; `command` turns arguments into a decision and a
//! decision into a reply; `server` is the only place that speaks the module API, and the only one with
//! `unsafe`.

#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::panic
    )
)]

pub mod limit;

#[cfg(feature = "module")]
mod command;
#[cfg(feature = "module")]
mod policy;
#[cfg(feature = "module")]
mod server;
#[cfg(feature = "module")]
mod stats;
#[cfg(feature = "module")]
mod top;

/// The server accounts for our memory (`maxmemory`, `INFO memory`) only if it is the server's own.
#[cfg(feature = "module")]
#[global_allocator]
static ALLOCATOR: server::ServerAlloc = server::ServerAlloc;
