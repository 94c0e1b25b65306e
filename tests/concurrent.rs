//! Two hundred clients at once on a limit of a hundred: exactly a hundred get through, every time.

mod support;

use std::sync::{Arc, Barrier};

use redis::Value;
use support::{client, Server};

const CLIENTS: usize = 200;
const LIMIT: usize = 100;
const ROUNDS: usize = 20;

/// Sends `line`, with `{}` replaced by a key of the round, from all clients at the same moment.
fn exactly_the_limit_passes(line: &str) {
    let mut server = Server::start();
    let start = Arc::new(Barrier::new(CLIENTS));
    let workers: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (start, line) = (start.clone(), line.to_owned());
            let mut connection = server.client();
            std::thread::spawn(move || {
                let round = |number: usize| {
                    let words = client::split(&line.replace("{}", &format!("key:{number}")));
                    start.wait();
                    connection.run(&words)
                };
                (0..ROUNDS).map(round).collect::<Vec<Value>>()
            })
        })
        .collect();
    let replies: Vec<Vec<Value>> = workers.into_iter().map(|w| w.join().expect("client")).collect();
    for round in 0..ROUNDS {
        let decisions = replies.iter().map(|of_client| {
            let reply = &of_client[round];
            client::six(reply).unwrap_or_else(|| panic!("not a decision: {}", client::show(reply)))
        });
        // Every allowed caller saw a remaining of its own, 99 down to 0.
        let (passed, denied): (Vec<_>, Vec<_>) = decisions.partition(|six| six[0] == 1);
        let mut remaining: Vec<i64> = passed.iter().map(|six| six[1]).collect();
        remaining.sort_unstable();
        assert_eq!(remaining, (0..LIMIT as i64).collect::<Vec<_>>(), "round {round} of {line}");
        assert!(
            denied.iter().all(|six| six[0] == 0 && six[1] == 0 && six[2] >= 1),
            "round {round} of {line}"
        );
    }
    server.assert_well();
}

macro_rules! limiters {
    ($($name:ident: $line:literal)*) => {$(
        #[test]
        fn $name() {
            exactly_the_limit_passes($line);
        }
    )*};
}

limiters! {
    token: "RL.TOKEN {} 100 1"
    leaky: "RL.LEAKY {} 100 1"
    slide: "RL.SLIDE {} 100 60s"
    slide_blocks: "RL.SLIDE {} 100 60s BLOCKS 10"
    fixed: "RL.FIXED {} 100 60s"
    fixed_aligned: "RL.FIXED {} 100 60s ALIGN 8h"
    two_rules: "RL.CHARGE {} SLIDE 100 60s TOKEN 150 1"
    two_keys: "RL.MCHARGE 2 {} other:{} FIXED 100 60s LEAKY 150 1"
}
