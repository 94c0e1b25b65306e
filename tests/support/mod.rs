//! What the tests against a real server share: the server itself, its clock, a client, the runner of case
//! files and the frame of a DUMP payload.
//!
//! Environment: `RL_SERVER` names the server to start (default `redis-server` from PATH; may be a wrapper
//! script), `RL_MODULE` the built module (default: `release/libredis_rl.so` in the target folder).

// Each test file compiles this module for itself and uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod cases;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod crowd;
pub mod disk;
pub mod mutate;
pub mod nonsense;
pub mod payload;
pub mod preload;
pub mod server;
pub mod skip;
pub mod stream;
pub mod traffic;
pub mod wait;
pub mod work;

pub use client::Client;
pub use clock::Clock;
pub use cluster::Cluster;
pub use crowd::Crowd;
pub use server::Server;
pub use skip::skip;
pub use wait::until;
