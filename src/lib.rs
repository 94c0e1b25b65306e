#![deny(unsafe_code)]
pub mod limit;
