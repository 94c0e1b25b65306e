//! The commands: words in, decision, reply out.

mod probe;
pub(crate) mod spec;
pub(crate) mod table;
