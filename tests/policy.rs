//! Named rule lists: what they stand for, how they change under live keys, what they count, and SHADOW.

mod support;

use redis::Value;
use support::client::{entry, error, layers, show, texts};
use support::{Client, Server};

fn number(client: &mut Client, name: &str, field: &str) -> i64 {
    let get = client.ok(&format!("RL.POLICY GET {name}"));
    match entry(&get, field) {
        Some(Value::Int(n)) => n,
        other => panic!("{field} of {name}: {other:?} in {}", show(&get)),
    }
}

/// Allowed, denied and denied by shadow rules alone.
fn counts(client: &mut Client, name: &str) -> [i64; 3] {
    ["allowed", "denied", "shadow_denied"].map(|field| number(client, name, field))
}

fn rows(client: &mut Client, line: &str) -> Vec<[i64; 6]> {
    let reply = client.ok(line);
    layers(&reply).unwrap_or_else(|| panic!("{line}: {}", show(&reply)))
}

fn algorithms(client: &mut Client, key: &str) -> Vec<String> {
    let Some(Value::Array(rules)) = entry(&client.ok(&format!("RL.INSPECT {key}")), "rules") else {
        panic!("INSPECT {key}")
    };
    let name = |rule| support::client::text(&entry(rule, "algorithm").expect("algorithm"));
    rules.iter().filter_map(name).collect()
}

#[test]
fn a_policy_stands_for_its_rules() {
    let server = Server::start();
    let mut client = server.client();
    let rules = "SLIDE 3 1m TOKEN 5 1 PER 1h LEAKY 4 1 FIXED 9 1d ALIGN -8h";
    client.ok(&format!("RL.POLICY SET p {rules}"));
    for form in [
        "RL.CHARGE KEY RULES",
        "RL.CHARGE KEY FIXED 7 1h RULES TOKEN 8 1",
        "RL.CHARGE KEY RULES COST 2",
        "RL.CHARGE KEY RULES FORCE COST 1 0 2 5",
        "RL.CHARGE KEY RULES COST 4",
        "RL.PEEK KEY RULES",
        "RL.PEEK KEY RULES COST 3 0 0 1",
    ] {
        let named = form.replace("KEY", &format!("n{}", form.len())).replace("RULES", "POLICY p");
        let spelled = form.replace("KEY", &format!("s{}", form.len())).replace("RULES", rules);
        for _ in 0..4 {
            let [named, spelled] = [&named, &spelled].map(|line| client.ok(line));
            assert_eq!(show(&named), show(&spelled), "{form}");
        }
    }
    // In MCHARGE it is the one rule of its key and puts all of its own on it.
    let many = rows(&mut client, "RL.MCHARGE 2 m1 m2 POLICY p FIXED 9 1h COST 1 0 1 1 2");
    assert_eq!(many.iter().map(|row| row[1]).collect::<Vec<_>>(), [2, 5, 3, 8, 7]);
    assert_eq!(algorithms(&mut client, "m1"), ["SLIDE", "TOKEN", "LEAKY", "FIXED"]);
    assert_eq!(algorithms(&mut client, "m2"), ["FIXED"]);
    // A key charged by name is the same limiter as one charged by the rules spelled out.
    client.ok("RL.CHARGE both POLICY p");
    assert_eq!(client.six(&format!("RL.CHARGE both {rules}"))[..2], [1, 1]);
    assert_eq!(client.six("RL.CHARGE both policy p")[..2], [1, 0]);
}

#[test]
fn what_is_wrong_is_said_and_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("RL.POLICY SET p FIXED 5 1h");
    let eight = "TOKEN 5 1 ".repeat(8);
    client.ok(&format!("RL.POLICY SET eight {eight}"));
    client.ok(&format!("RL.POLICY SET sixteen {eight} {eight}"));
    let before = support::work::policies(&mut client);
    let long = "n".repeat(65);
    for (line, start) in [
        ("RL.CHARGE k POLICY none", "NOPOLICY no such policy"),
        ("RL.CHARGE k POLICY P", "NOPOLICY no such policy"),
        ("RL.CHARGE k FIXED 5 1h POLICY none", "NOPOLICY no such policy"),
        ("RL.MCHARGE 2 k j FIXED 5 1h POLICY none", "NOPOLICY no such policy"),
        ("RL.PEEK k POLICY none", "NOPOLICY no such policy"),
        ("RL.CHARGE k POLICY no/ne", "ERR name must be"),
        ("RL.CHARGE k FIXED 5 1h POLICY", "ERR syntax error"),
        ("RL.CHARGE k POLICY sixteen FIXED 5 1h", "ERR rules must be 1 to 16"),
        ("RL.CHARGE k POLICY eight POLICY eight POLICY p", "ERR rules must be 1 to 16"),
        ("RL.MCHARGE 1 k POLICY eight COST 1 1", "ERR cost must be one number or one per rule"),
        ("RL.POLICY SET q POLICY p", "ERR"),
        ("RL.POLICY SET q FIXED 5 1h POLICY p", "ERR"),
        ("RL.POLICY SET q SHADOW", "ERR"),
        ("RL.POLICY SET q FIXED 5 1h SHADOW SHADOW", "ERR syntax error"),
        ("RL.POLICY SET q FIXED 5 60", "ERR window must be 1ms to 3650d with a unit"),
        ("RL.POLICY SET p FIXED 5 1h TOKEN 0 1", "ERR capacity must be"),
        (
            "RL.POLICY SET p\\0 FIXED 5 1h",
            "ERR name must be 1 to 64 characters of A-Z a-z 0-9 _ . -",
        ),
        ("RL.POLICY GET \"\"", "ERR name must be"),
        ("RL.POLICY GET a\\_b", "ERR name must be"),
        ("RL.POLICY DEL p no/ne", "ERR name must be"),
        ("RL.POLICY DEL \\xff", "ERR name must be"),
        ("RL.POLICY GET", "ERR wrong number of arguments"),
        ("RL.POLICY LIST p", "ERR wrong number of arguments"),
        ("RL.POLICY CLEAR", "ERR unknown subcommand"),
    ] {
        let text = client.error(line);
        assert!(text.starts_with(start), "{line}: {text}");
    }
    assert!(client.error(&format!("RL.POLICY GET {long}")).starts_with("ERR name must be"));
    assert!(client
        .error(&format!("RL.POLICY SET p {eight} {eight} FIXED 1 1s"))
        .contains("1 to 16"));
    assert_eq!(support::work::policies(&mut client), before);
    assert_eq!(client.int("DBSIZE"), 0);
    assert_eq!(client.ok("RL.POLICY GET none"), Value::Nil);
    assert_eq!(client.int("RL.POLICY DEL none nobody"), 0);
    client.ok("RL.CHARGE k POLICY eight POLICY eight");
}

#[test]
fn a_change_acts_on_the_next_call_and_what_is_used_stays() {
    let server = Server::start();
    let mut client = server.client();
    // Raised: what was used stays used.
    client.ok("RL.POLICY SET p TOKEN 10 10 PER 20s");
    assert_eq!(client.six("RL.CHARGE k POLICY p COST 2")[..2], [1, 8]);
    client.ok("RL.POLICY SET p TOKEN 1000 1000 PER 20s");
    assert_eq!(client.six("RL.PEEK k POLICY p")[1], 998);
    assert_eq!(client.six("RL.CHARGE k POLICY p")[..2], [1, 997]);
    // Lowered below what is used: exhausted, and raised again: nothing gained.
    client.ok("RL.POLICY SET p TOKEN 2 2 PER 20s");
    assert_eq!(client.six("RL.CHARGE k POLICY p"), [0, 0, 10_000, 20_000, 2, 0]);
    client.ok("RL.POLICY SET p TOKEN 1000 1000 PER 20s");
    assert_eq!(client.six("RL.PEEK k POLICY p")[1], 997);
    // Another list: the first rule carries on, the second is another algorithm and starts fresh.
    client.ok("RL.POLICY SET q SLIDE 5 1h TOKEN 5 1 PER 1h LEAKY 5 1 PER 1h");
    client.ok("RL.CHARGE j POLICY q COST 2");
    client.ok("RL.POLICY SET q SLIDE 6 1h FIXED 9 1h");
    let list = rows(&mut client, "RL.CHARGE j POLICY q");
    assert_eq!(list.iter().map(|row| row[1]).collect::<Vec<_>>(), [3, 8]);
    assert_eq!(algorithms(&mut client, "j"), ["SLIDE", "FIXED"]);
    // The exception is for the policy edited, not for another list or the same rules spelled out.
    client.ok("RL.POLICY SET other TOKEN 9 1");
    for line in
        ["RL.CHARGE j POLICY other", "RL.CHARGE j TOKEN 9 1", "RL.CHARGE j POLICY other POLICY q"]
    {
        let text = client.error(line);
        assert!(text.starts_with("WRONGTYPE key holds SLIDE FIXED, not"), "{line}: {text}");
    }
    // Deleted and made anew it is edited too.
    client.ok("RL.POLICY DEL q");
    assert!(client.error("RL.CHARGE j POLICY q").starts_with("NOPOLICY"));
    client.ok("RL.POLICY SET q LEAKY 9 1 PER 1h");
    assert_eq!(client.six("RL.CHARGE j POLICY q")[..2], [1, 8]);
    assert_eq!(algorithms(&mut client, "j"), ["LEAKY"]);
}

#[test]
fn versions_only_grow_and_only_with_a_change() {
    let server = Server::build().append_only().start();
    let mut client = server.client();
    let mut last = 0;
    for line in [
        "RL.POLICY SET p FIXED 5 1h",
        "RL.POLICY SET p FIXED 5 1h SHADOW",
        "RL.POLICY SET p FIXED 5 1h",
        "RL.POLICY SET p FIXED 6 1h",
        "RL.POLICY SET p FIXED 6 1h FIXED 6 1h",
        "RL.POLICY SET p SLIDE 6 1h",
        "RL.POLICY SET p SLIDE 6 1h BLOCKS 6",
    ] {
        client.ok(line);
        let version = number(&mut client, "p", "version");
        assert!(version > last, "{line}: {version} after {last}");
        last = version;
    }
    let still = |client: &mut Client| {
        ["rdb_changes_since_last_save", "aof_current_size"]
            .map(|f| client.info_int("persistence", f))
    };
    let before = still(&mut client);
    assert!(before[1] > 0);
    for line in [
        "RL.POLICY SET p slide 6 60m blocks 6",
        "RL.POLICY DEL none",
        "RL.POLICY GET p",
        "RL.POLICY LIST",
        "RL.POLICY HELP",
    ] {
        client.ok(line);
    }
    assert_eq!(client.text("RL.POLICY SET p SLIDE 6 1h BLOCKS 6"), "OK");
    client.call("RL.POLICY SET p SLIDE 0 1h");
    assert_eq!(still(&mut client), before, "nothing has changed, nothing is written");
    assert_eq!(number(&mut client, "p", "version"), last);
    client.ok("RL.POLICY SET q FIXED 5 1h");
    assert_eq!(number(&mut client, "p", "version"), last, "another policy is none of its business");
    client.ok("RL.POLICY DEL p");
    assert_ne!(still(&mut client), before);
    client.ok("RL.POLICY SET p SLIDE 6 1h BLOCKS 6");
    assert!(number(&mut client, "p", "version") > last, "a new policy of the old name");
}

#[test]
fn each_call_counts_once_for_the_policies_it_names() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("RL.POLICY SET p FIXED 3 1h");
    client.ok("RL.POLICY SET q FIXED 2 1h");
    client.ok("RL.POLICY SET idle FIXED 1 1h");
    for (line, p, q) in [
        ("RL.CHARGE k POLICY p", [1, 0, 0], [0, 0, 0]),
        ("RL.CHARGE k2 POLICY p POLICY q", [2, 0, 0], [1, 0, 0]),
        // q denies, and that counts for p as well.
        ("RL.CHARGE k2 POLICY p POLICY q COST 1 2", [2, 1, 0], [1, 1, 0]),
        // Named twice, on one key or on two: one call.
        ("RL.CHARGE k3 POLICY p POLICY p", [3, 1, 0], [1, 1, 0]),
        ("RL.MCHARGE 2 m1 m2 POLICY p POLICY p", [4, 1, 0], [1, 1, 0]),
        ("RL.MCHARGE 2 m1 m2 POLICY p POLICY q COST 9", [4, 2, 0], [1, 2, 0]),
        ("RL.CHARGE k POLICY p FORCE COST 9", [5, 2, 0], [1, 2, 0]),
        ("RL.PEEK k POLICY p POLICY q", [5, 2, 0], [1, 2, 0]),
        ("RL.REFUND k", [5, 2, 0], [1, 2, 0]),
        // The same rules without the name.
        ("RL.CHARGE k FIXED 3 1h", [5, 2, 0], [1, 2, 0]),
    ] {
        client.ok(line);
        assert_eq!((counts(&mut client, "p"), counts(&mut client, "q")), (p, q), "{line}");
    }
    client.error("RL.CHARGE k POLICY p COST 1 1");
    client.error("RL.CHARGE k TOKEN 5 1 POLICY p");
    assert_eq!(counts(&mut client, "p"), [5, 2, 0]);
    assert_eq!(counts(&mut client, "idle"), [0, 0, 0]);
    // An edit is the same policy, a reload no start; a policy deleted and made anew is another.
    client.ok("RL.POLICY SET p FIXED 4 1h SHADOW");
    assert_eq!(counts(&mut client, "p"), [5, 2, 0]);
    client.ok("DEBUG RELOAD");
    assert_eq!(counts(&mut client, "p"), [5, 2, 0]);
    client.ok("RL.POLICY DEL p");
    client.ok("RL.POLICY SET p FIXED 3 1h");
    assert_eq!(counts(&mut client, "p"), [0, 0, 0]);
}

#[test]
fn shadow_rules_are_decided_and_never_deny() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("RL.POLICY SET dry FIXED 1 1h SHADOW");
    client.ok("RL.POLICY SET slow LEAKY 5 1 PER 1h SHADOW");
    // Beside a live rule: the first six are the live rule's.
    let line = "RL.CHARGE k FIXED 3 1h POLICY dry";
    for (six, shadow) in [
        ([1, 2, 0, 3_600_000, 3, 0], [1, 0, 0, 3_600_000, 1, 0]),
        ([1, 1, 0, 3_600_000, 3, 0], [0, 0, 3_600_000, 3_600_000, 1, 0]),
        ([1, 0, 0, 3_600_000, 3, 0], [0, 0, 3_600_000, 3_600_000, 1, 0]),
        // The live rule denies: the shadow rule shows its own truth all the same.
        ([0, 0, 3_600_000, 3_600_000, 3, 0], [0, 0, 3_600_000, 3_600_000, 1, 0]),
    ] {
        let reply = client.ok(line);
        assert_eq!(support::client::six(&reply), Some(six));
        assert_eq!(layers(&reply).expect("rows")[1], shadow);
    }
    assert_eq!(counts(&mut client, "dry"), [3, 1, 2]);
    // When a live rule denies, a shadow rule that would have passed is not charged.
    client.ok("RL.CHARGE n FIXED 1 1h POLICY slow");
    for _ in 0..3 {
        let rows = rows(&mut client, "RL.CHARGE n FIXED 1 1h POLICY slow");
        assert_eq!(rows[1][..2], [1, 4]);
    }
    assert_eq!(counts(&mut client, "slow"), [1, 3, 0]);
    // Alone: allowed, no wait and no delay, whatever its rules say.
    client.ok("RL.POLICY SET two FIXED 1 1h LEAKY 5 1 SHADOW");
    assert_eq!(client.six("RL.CHARGE a POLICY two"), [1, 0, 0, 3_600_000, 1, 0]);
    let reply = client.ok("RL.CHARGE a POLICY two");
    assert_eq!(support::client::six(&reply), Some([1, 0, 0, 3_600_000, 1, 0]));
    // The leaky rule would have passed: it is charged, and its own row tells the delay.
    let rows2 = layers(&reply).expect("rows");
    assert_eq!((rows2[0][0], rows2[1]), (0, [1, 3, 0, 2000, 5, 1000]));
    assert_eq!(counts(&mut client, "two"), [2, 0, 1]);
    // A cost above its limit never passes, and still never denies.
    let reply = client.ok("RL.CHARGE b POLICY dry COST 2");
    assert_eq!(support::client::six(&reply).expect("six")[..3], [1, 1, 0]);
    assert_eq!(layers(&reply).expect("rows")[0][..3], [0, 1, -1]);
    assert_eq!(client.six("RL.PEEK k FIXED 9 1h POLICY dry")[..3], [1, 6, 0]);
    // Live from one call to the next.
    client.ok("RL.POLICY SET dry FIXED 1 1h");
    assert_eq!(client.six("RL.CHARGE k FIXED 9 1h POLICY dry")[..3], [0, 0, 3_600_000]);
}

#[test]
fn shadow_rules_on_one_of_many_keys() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("RL.POLICY SET dry FIXED 1 1h SHADOW");
    client.ok("RL.POLICY SET dry2 FIXED 2 1h SHADOW");
    let line = "RL.MCHARGE 3 a b c FIXED 3 1h POLICY dry POLICY dry2";
    for allowed in [[1, 1, 1], [1, 0, 1], [1, 0, 0]] {
        let reply = client.ok(line);
        assert_eq!(support::client::six(&reply).expect("six")[0], 1);
        let rows = layers(&reply).expect("rows");
        assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), allowed);
    }
    // Each policy counts what its own rules would have denied, the server each call once.
    assert_eq!(counts(&mut client, "dry"), [3, 0, 2]);
    assert_eq!(counts(&mut client, "dry2"), [3, 0, 1]);
    assert_eq!(client.info_int("rl_stats", "rl_shadow_denied"), 2);
    assert_eq!(client.six(line)[0], 0);
    assert_eq!(client.info_int("rl_stats", "rl_shadow_denied"), 2, "a live rule denied");
    assert_eq!(counts(&mut client, "dry"), [3, 1, 2]);
    // A policy on several keys counts a call once, if on any of them it would have been denied.
    client.ok("RL.MCHARGE 2 c new POLICY dry POLICY dry");
    assert_eq!(counts(&mut client, "dry"), [4, 1, 3]);
    // Keys of shadow rules alone.
    assert_eq!(client.six("RL.MCHARGE 2 b c POLICY dry POLICY dry2")[..3], [1, 0, 0]);
    assert_eq!(client.int("EXISTS a b c"), 3);
}

#[test]
fn a_log_larger_than_is_allowed_today_goes_on() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("RL.POLICY SET p SLIDE 50 1h");
    client.ok("CONFIG SET rl.slide-max-log 5");
    for left in (30..50).rev() {
        assert_eq!(client.six("RL.CHARGE k POLICY p")[..2], [1, left]);
    }
    assert_eq!(client.six("RL.CHARGE new POLICY p FORCE COST 60")[..2], [1, 0]);
    // What it holds is not checked; what comes in is.
    client.ok("RL.POLICY SET p SLIDE 50 1h");
    client.ok("RL.POLICY SET p SLIDE 50 1h SHADOW");
    client.ok("RL.POLICY SET p SLIDE 50 1h FIXED 5 1s");
    for line in [
        "RL.POLICY SET p SLIDE 51 1h FIXED 5 1s",
        "RL.POLICY SET p SLIDE 50 2h",
        "RL.POLICY SET q SLIDE 50 1h",
    ] {
        assert!(client.error(line).contains("BLOCKS"), "{line}");
    }
    client.ok("RL.POLICY SET q SLIDE 50 1h BLOCKS 10");
    client.ok("DEBUG RELOAD");
    assert_eq!(client.six("RL.CHARGE k POLICY p")[..2], [1, 4]);
}

/// A rule stands where it does when the policies before it are unfolded.
#[test]
fn a_log_behind_a_policy_goes_on_where_it_stands() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("RL.POLICY SET p FIXED 90 1h FIXED 80 1h");
    let line = "RL.CHARGE k POLICY p SLIDE 50 1h FIXED 70 1h SLIDE 60 1h";
    assert_eq!(client.six(line)[..2], [1, 49]);
    client.ok("CONFIG SET rl.slide-max-log 5");
    assert_eq!(client.six(line)[..2], [1, 48]);
    assert_eq!(client.six(&line.replace("CHARGE", "PEEK"))[..2], [1, 48]);
    for line in [
        // Where the log stood if a policy were one rule.
        "RL.CHARGE k FIXED 90 1h SLIDE 50 1h",
        "RL.CHARGE k POLICY p SLIDE 60 1h",
        "RL.CHARGE k POLICY p SLIDE 50 1h FIXED 70 1h SLIDE 50 1h",
        "RL.PEEK k POLICY p SLIDE 51 1h",
        "RL.CHARGE k POLICY nowhere SLIDE 50 1h",
        "RL.CHARGE new POLICY p SLIDE 50 1h",
    ] {
        assert!(client.error(line).contains("BLOCKS"), "{line}");
    }
    // On several keys each rule stands alone.
    assert_eq!(client.six("RL.MCHARGE 2 a b POLICY p SLIDE 5 1h")[..2], [1, 4]);
    client.ok("CONFIG SET rl.slide-max-log 4");
    assert_eq!(client.six("RL.MCHARGE 2 a b POLICY p SLIDE 5 1h")[..2], [1, 3]);
    assert!(client.error("RL.MCHARGE 2 a c POLICY p SLIDE 5 1h").contains("BLOCKS"));
}

#[test]
fn there_are_only_so_many() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("CONFIG SET rl.max-policies 2");
    client.ok("RL.POLICY SET a FIXED 1 1s");
    client.ok("RL.POLICY SET b FIXED 1 1s");
    let full = "ERR policies must be at most 2 (rl.max-policies): delete some first";
    assert_eq!(client.error("RL.POLICY SET c FIXED 1 1s"), full);
    client.ok("RL.POLICY SET b FIXED 2 1s");
    client.ok("RL.POLICY DEL a");
    client.ok("RL.POLICY SET c FIXED 1 1s");
    // Fewer than there are: none goes, none comes, and a reload brings all back.
    client.ok("CONFIG SET rl.max-policies 0");
    client.ok("RL.POLICY SET c FIXED 9 1s");
    client.ok("DEBUG RELOAD");
    assert_eq!(texts(&client.ok("RL.POLICY LIST")), ["b", "c"]);
    assert!(client.error("RL.POLICY SET d FIXED 1 1s").starts_with("ERR policies"));
    assert_eq!(client.six("RL.CHARGE k POLICY c")[1], 8);
}

#[test]
fn transactions_and_scripts_set_and_use_policies() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("MULTI");
    for line in [
        "RL.POLICY SET p FIXED 2 1h",
        "RL.CHARGE k POLICY p",
        "RL.POLICY SET p FIXED 5 1h",
        "RL.CHARGE k POLICY p",
        "RL.POLICY DEL p",
        "RL.CHARGE k POLICY p",
        "RL.POLICY SET q FIXED 1 1h",
    ] {
        client.ok(line);
    }
    let Value::Array(replies) = client.ok("EXEC") else { panic!("EXEC") };
    assert_eq!(support::client::six(&replies[1]).expect("six")[1], 1);
    assert_eq!(support::client::six(&replies[3]).expect("six")[1], 3);
    assert_eq!((&replies[0], &replies[4]), (&Value::Okay, &Value::Int(1)));
    assert_eq!(error(&replies[5]).as_deref(), Some("NOPOLICY no such policy"));
    client.ok("MULTI");
    client.ok("RL.POLICY DEL q");
    client.ok("DISCARD");
    assert_eq!(texts(&client.ok("RL.POLICY LIST")), ["q"]);

    let script = "redis.call('RL.POLICY', 'SET', 's', 'FIXED', 3, '1h') \
        local r = redis.call('RL.CHARGE', KEYS[1], 'POLICY', 's') \
        local e = redis.pcall('RL.CHARGE', KEYS[1], 'POLICY', 'none') \
        redis.call('RL.POLICY', 'DEL', 'q') \
        return {r[2], e['err'], redis.call('RL.POLICY', 'LIST')}";
    let reply = show(&client.run(&["EVAL", script, "1", "e"]));
    assert!(reply.starts_with("[2 NOPOLICY no such policy"), "{reply}");
    assert!(reply.ends_with("[s]]"), "{reply}");
    let text = show(&client.run(&["EVAL_RO", "return redis.call('RL.POLICY', 'DEL', 's')", "0"]));
    assert!(text.starts_with("ERR Write commands are not allowed"), "{text}");
    let library = "#!lua name=admin\nredis.register_function('off', function() return redis.call('RL.POLICY', 'DEL', 's') end)";
    client.run(&["FUNCTION", "LOAD", library]);
    assert_eq!(client.int("FCALL off 0"), 1);
}
