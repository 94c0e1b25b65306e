//! A client library made for redis-cell drives CL.THROTTLE unchanged.

mod support;

use redis_cell_rs::{AllowedDetails, BlockedDetails, Cmd, Policy, Verdict};
use std::time::Duration;
use support::Server;

/// Bursts of 3 above the one that always passes; one comes back every minute.
const POLICY: Policy = Policy::new(3, 1, Duration::from_secs(60), 1);

fn ask(connection: &mut redis::Connection, key: &str, policy: &Policy) -> Verdict {
    let command: redis::Cmd = Cmd::new(&key.into(), policy).into();
    command.query(connection).expect("a verdict")
}

#[test]
fn redis_cell_rs_reads_our_replies() {
    let mut server = Server::start();
    let client =
        redis::Client::open(format!("redis://127.0.0.1:{}/", server.port)).expect("address");
    let mut connection = client.get_connection().expect("connection");
    for left in (0..4).rev() {
        let Verdict::Allowed(AllowedDetails { total, remaining, reset_after, .. }) =
            ask(&mut connection, "user:1", &POLICY)
        else {
            panic!("blocked with {left} left");
        };
        assert_eq!((total, remaining), (4, left));
        assert_eq!(reset_after, 60 * (4 - left as u64));
    }
    let Verdict::Blocked(BlockedDetails { total, remaining, reset_after, retry_after, .. }) =
        ask(&mut connection, "user:1", &POLICY)
    else {
        panic!("allowed above the limit");
    };
    assert_eq!((total, remaining, reset_after, retry_after), (4, 0, 240, 60));
    // A second before the announced wait is over, and when it is.
    server.clock.advance(59_000_000);
    assert!(matches!(ask(&mut connection, "user:1", &POLICY), Verdict::Blocked(_)));
    server.clock.advance(1_000_000);
    assert!(matches!(ask(&mut connection, "user:1", &POLICY), Verdict::Allowed(_)));
    // Several at once, and a rate that redis-cell refuses.
    let several = POLICY.apply_tokens(4);
    assert!(matches!(ask(&mut connection, "user:2", &several), Verdict::Allowed(_)));
    let fast = Policy::from_tokens_per_second(2_000).max_burst(0);
    assert!(matches!(ask(&mut connection, "user:3", &fast), Verdict::Allowed(_)));
    let Verdict::Blocked(blocked) = ask(&mut connection, "user:3", &fast) else {
        panic!("allowed above the limit");
    };
    assert_eq!(blocked.retry_after, 1);
    server.assert_well();
}
