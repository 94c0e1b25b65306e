//! The commands: words in, decision, reply out.
//!
//! `args` and `asks` turn words into what is asked, `effect` is what a decision does to the server,
//! `reply` and `error` are what the client reads. The other files are the commands by family;
//! `table` is what the server knows of them.

mod args;
mod asks;
mod charge;
mod effect;
mod error;
mod inspect;
mod internal;
mod mcharge;
mod peek;
mod policy;
mod refund;
mod reply;
pub(crate) mod spec;
pub(crate) mod table;
mod throttle;
mod top;
