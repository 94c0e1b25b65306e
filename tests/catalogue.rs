//! What the server tells about the commands (COMMAND INFO, DOCS, GETKEYS) and what its ACL makes of it.

mod support;

use redis::Value;
use support::client::{entry, ints, pairs, show, texts, Client};
use support::Server;

struct Command {
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    categories: &'static [&'static str],
    /// Calls, each with the keys that it touches.
    keys: &'static [(&'static str, &'static str)],
}

const CHARGE: &[&str] = &["write", "denyoom", "fast"];
const READ: &[&str] = &["readonly", "fast"];
const WRITE_FAST: &[&str] = &["@write", "@fast"];
const READ_FAST: &[&str] = &["@read", "@fast"];

#[rustfmt::skip]
const COMMANDS: &[Command] = &[
    Command { name: "rl.token", arity: -4, flags: CHARGE, categories: WRITE_FAST,
        keys: &[("RL.TOKEN k 5 1", "k"), ("RL.TOKEN k 5 1 PER 1s FORCE COST 2", "k")] },
    Command { name: "rl.leaky", arity: -4, flags: CHARGE, categories: WRITE_FAST, keys: &[("RL.LEAKY k 5 1", "k")] },
    Command { name: "rl.slide", arity: -4, flags: CHARGE, categories: WRITE_FAST,
        keys: &[("RL.SLIDE k 5 1s BLOCKS 4", "k")] },
    Command { name: "rl.fixed", arity: -4, flags: CHARGE, categories: WRITE_FAST, keys: &[("RL.FIXED k 5 1s", "k")] },
    Command { name: "rl.charge", arity: -4, flags: &["write", "denyoom"], categories: &["@write"],
        keys: &[("RL.CHARGE k SLIDE 1 60s FIXED 10 1d ALIGN 8h COST 1 2", "k"), ("RL.CHARGE k POLICY p", "k")] },
    Command { name: "rl.mcharge", arity: -5, flags: &["write", "denyoom"], categories: &["@write"],
        keys: &[("RL.MCHARGE 1 k TOKEN 5 1", "k"), ("RL.MCHARGE 2 k j TOKEN 5 1 POLICY p", "k j"),
            ("RL.MCHARGE 10 a b c d e f g h i j TOKEN 5 1", "a b c d e f g h i j")] },
    Command { name: "rl.peek", arity: -2, flags: READ, categories: READ_FAST,
        keys: &[("RL.PEEK k", "k"), ("RL.PEEK k TOKEN 5 1", "k")] },
    Command { name: "rl.refund", arity: -2, flags: &["write", "fast"], categories: WRITE_FAST,
        keys: &[("RL.REFUND k AGE 1s COST 2", "k")] },
    Command { name: "rl.inspect", arity: 2, flags: READ, categories: READ_FAST, keys: &[("RL.INSPECT k", "k")] },
    Command { name: "rl.top", arity: -1, flags: READ, categories: &["@read", "@admin", "@dangerous"], keys: &[] },
    Command { name: "rl.policy", arity: -2, flags: &[], categories: &[], keys: &[] },
    Command { name: "rl.policy|set", arity: -4, flags: &["write", "denyoom"],
        categories: &["@write", "@admin", "@dangerous"], keys: &[] },
    Command { name: "rl.policy|del", arity: -3, flags: &["write"],
        categories: &["@write", "@admin", "@dangerous"], keys: &[] },
    Command { name: "rl.policy|get", arity: 3, flags: &["readonly"], categories: &["@read"], keys: &[] },
    Command { name: "rl.policy|list", arity: 2, flags: &["readonly"], categories: &["@read"], keys: &[] },
    Command { name: "cl.throttle", arity: -5, flags: CHARGE, categories: WRITE_FAST,
        keys: &[("CL.THROTTLE k 15 30 60", "k"), ("CL.THROTTLE k 15 30 60 2", "k")] },
];

/// Whether the server lets modules choose ACL categories, and make one of their own.
fn category_support(server: &Server) -> (bool, bool) {
    let valkey = server.is_valkey();
    (valkey || server.is_redis(7, 2), server.is_redis(7, 4) || (valkey && server.version().1 >= 8))
}

fn info(client: &mut Client, name: &str) -> Vec<Value> {
    let reply = client.ok(&format!("COMMAND INFO {name}"));
    let Value::Array(rows) = &reply else { panic!("COMMAND INFO: {}", show(&reply)) };
    let Some(Value::Array(fields)) = rows.first() else {
        panic!("{name} is not known to the server")
    };
    fields.clone()
}

#[test]
fn command_info_tells_arity_flags_and_categories() {
    let server = Server::start();
    let mut client = server.client();
    let (categories, own_category) = category_support(&server);
    for command in COMMANDS {
        let fields = info(&mut client, command.name);
        assert_eq!(fields[1], Value::Int(command.arity), "arity of {}", command.name);
        let flags = texts(&fields[2]);
        for flag in ["write", "readonly", "denyoom", "fast"] {
            // Policies are for people: whether their commands count as fast is left open.
            let open = command.name.starts_with("rl.policy") && flag == "fast";
            if !command.flags.is_empty() && !open {
                let expected = command.flags.contains(&flag);
                assert_eq!(
                    flags.iter().any(|f| f == flag),
                    expected,
                    "{flag} of {}: {flags:?}",
                    command.name
                );
            }
        }
        let has = texts(&fields[6]);
        for category in command.categories.iter().filter(|_| categories) {
            assert!(has.iter().any(|c| c == category), "{category} of {}: {has:?}", command.name);
        }
        let slow_write = command.categories.contains(&"@write") && !command.flags.contains(&"fast");
        assert!(
            !slow_write || !has.iter().any(|c| c == "@fast"),
            "{} is not fast: {has:?}",
            command.name
        );
        if own_category && command.name != "rl.policy" {
            assert!(
                has.iter().any(|c| c == "@ratelimit"),
                "own category of {}: {has:?}",
                command.name
            );
        }
    }
}

#[test]
fn keys_are_found_by_the_server() {
    let server = Server::start();
    let mut client = server.client();
    for command in COMMANDS {
        for (line, keys) in command.keys {
            let reply = client.ok(&format!("COMMAND GETKEYS {line}"));
            assert_eq!(texts(&reply).join(" "), *keys, "{line}");
        }
        let specs = &info(&mut client, command.name)[8];
        assert_eq!(
            texts(specs).is_empty() && show(specs) == "[]",
            command.keys.is_empty(),
            "key specs of {}",
            command.name
        );
    }
    for line in ["RL.TOP COUNT 3", "RL.POLICY LIST", "RL.POLICY GET p"] {
        assert!(
            client.error(&format!("COMMAND GETKEYS {line}")).contains("no key arguments"),
            "{line}"
        );
    }
    for line in [
        "RL.MCHARGE 0 k TOKEN 5 1",
        "RL.MCHARGE x k TOKEN 5 1",
        "RL.MCHARGE 65 k TOKEN 5 1",
        "RL.MCHARGE -1 k TOKEN 5 1",
    ] {
        let reply = client.call(&format!("COMMAND GETKEYS {line}"));
        assert!(texts(&reply).is_empty(), "{line}: {}", show(&reply));
    }
}

/// A key spec says how a key is used: a reading command must not ask for the right to write.
#[test]
fn access_of_keys_is_declared() {
    let server = Server::start();
    let mut client = server.client();
    for (line, access) in [
        ("RL.PEEK k", "RO"),
        ("RL.INSPECT k", "RO"),
        ("RL.TOKEN k 5 1", "RW"),
        ("RL.REFUND k", "RW"),
        ("RL.CHARGE k TOKEN 5 1", "RW"),
        ("RL.MCHARGE 2 k j TOKEN 5 1 TOKEN 5 1", "RW"),
        ("CL.THROTTLE k 15 30 60", "RW"),
    ] {
        let reply = client.ok(&format!("COMMAND GETKEYSANDFLAGS {line}"));
        assert!(show(&reply).contains(access), "{line}: {}", show(&reply));
    }
}

#[test]
fn command_docs_are_full() {
    let server = Server::start();
    let mut client = server.client();
    for command in COMMANDS.iter().filter(|c| !c.name.contains('|')) {
        let reply = client.ok(&format!("COMMAND DOCS {}", command.name));
        let docs =
            entry(&reply, command.name).unwrap_or_else(|| panic!("no docs for {}", command.name));
        let subcommands = entry(&docs, "subcommands");
        has_full_docs(command.name, &docs, subcommands.is_none());
        assert_eq!(
            entry(&docs, "module").map(|v| show(&v)).as_deref(),
            Some("rl"),
            "{}",
            command.name
        );
        for (name, docs) in subcommands.iter().flat_map(pairs) {
            has_full_docs(&name, &docs, !name.ends_with("list") && !name.ends_with("help"));
        }
    }
}

fn has_full_docs(name: &str, docs: &Value, has_arguments: bool) {
    let field = |key: &str| entry(docs, key).map(|v| show(&v)).unwrap_or_default();
    assert!(field("summary").len() > 10, "summary of {name}: {}", show(docs));
    assert!(!field("since").is_empty(), "since of {name}");
    assert!(!field("complexity").is_empty(), "complexity of {name}");
    if has_arguments {
        assert!(entry(docs, "arguments").is_some(), "arguments of {name}");
    }
}

#[test]
fn policy_help_is_there() {
    let server = Server::start();
    let help = texts(&server.client().ok("RL.POLICY HELP")).join("\n");
    for word in ["SET", "GET", "DEL", "LIST"] {
        assert!(help.contains(word), "{help}");
    }
}

/// A user who may do only some things, and what the server says to the rest.
#[test]
fn acl_goes_by_command_key_and_subcommand() {
    let server = Server::start();
    server.client().ok("RL.POLICY SET p FIXED 9 1h");
    server.client().ok(
        "ACL SETUSER web on >secret resetkeys ~web:* %R~seen:* +rl.slide +rl.mcharge +rl.peek +rl.policy|get",
    );
    let mut client = server.client();
    client.ok("AUTH web secret");
    for line in [
        "RL.SLIDE web:1 5 1s",
        "RL.MCHARGE 2 web:a web:b FIXED 5 1s FIXED 5 1s",
        "RL.PEEK web:1",
        "RL.PEEK seen:1",
        "RL.POLICY GET p",
    ] {
        client.ok(line);
    }
    for line in [
        "RL.SLIDE other:1 5 1s",
        "RL.SLIDE seen:1 5 1s",
        "RL.MCHARGE 2 web:a other:b FIXED 5 1s FIXED 5 1s",
        "RL.MCHARGE 2 other:a web:b FIXED 5 1s FIXED 5 1s",
        "RL.PEEK other:1",
        "RL.TOKEN web:2 5 1",
        "RL.POLICY DEL p",
        "RL.POLICY SET p FIXED 1 1h",
        "RL.TOP",
    ] {
        let text = client.error(line);
        assert!(text.starts_with("NOPERM"), "{line}: {text}");
    }
}

#[test]
fn acl_goes_by_category_where_the_server_has_them() {
    let server = Server::start();
    let (categories, own_category) = category_support(&server);
    if !categories {
        return support::skip("modules cannot have ACL categories before Redis 7.2");
    }
    let mut root = server.client();
    root.ok("ACL SETUSER reader on nopass ~* +@read");
    root.ok("ACL SETUSER writer on nopass ~* +@write -@dangerous");
    root.ok("ACL SETUSER careful on nopass ~* +@all -@dangerous");
    let attempt = |user: &str, line: &str| {
        let mut client = server.client();
        client.ok(&format!("AUTH {user} x"));
        !show(&client.call(line)).starts_with("NOPERM")
    };
    assert!(attempt("reader", "RL.PEEK k"));
    assert!(!attempt("reader", "RL.TOKEN k 5 1"));
    assert!(attempt("writer", "RL.TOKEN k 5 1"));
    assert!(!attempt("writer", "RL.POLICY SET p FIXED 1 1h"));
    assert!(attempt("careful", "RL.POLICY GET p"));
    assert!(!attempt("careful", "RL.POLICY DEL p"));
    assert!(!attempt("careful", "RL.TOP"));
    if own_category {
        root.ok("ACL SETUSER limiter on nopass ~* +@ratelimit");
        assert!(attempt("limiter", "RL.SLIDE s 5 1s"));
        assert!(attempt("limiter", "RL.PEEK s"));
        assert!(!attempt("limiter", "SET s 1"));
    }
}

#[test]
fn the_module_is_listed_by_its_name() {
    let server = Server::start();
    let modules = show(&server.client().ok("MODULE LIST"));
    assert!(modules.contains("name rl "), "{modules}");
}

/// The internal command is nobody's: hidden where the server can hide it, refused everywhere.
#[test]
fn the_internal_command_is_refused() {
    let server = Server::start();
    let replica = Server::build().replica_of(&server).args("--replica-read-only no").start();
    server.client().ok("RL.TOKEN k 5 1");
    server.wait_for(&replica);
    let hidden = server.is_redis(8, 0);
    for node in [&server, &replica] {
        let mut client = node.client();
        if hidden {
            assert_eq!(show(&client.ok("COMMAND INFO rl.x")), "[nil]");
        }
        let before = client.ok("DUMP k");
        let refused = |text: &str| {
            text.contains("internal command")
                || text.contains("unknown command")
                || text.contains("not allowed from script")
                || text.contains("Unknown Redis command")
        };
        for line in ["rl.x k x", "rl.x", "RL.X k", "rl.x k x j y"] {
            let text = show(&client.call(line));
            assert!(refused(&text) || text.contains("wrong number"), "{line}: {text}");
        }
        client.ok("MULTI");
        let queued = show(&client.call("rl.x k x"));
        let done = show(&client.call("EXEC"));
        assert!(refused(&queued) || refused(&done), "{queued} {done}");
        let reply =
            show(&client.run(&["EVAL", "return redis.call('rl.x', KEYS[1], 'x')", "1", "k"]));
        assert!(refused(&reply), "{reply}");
        assert_eq!(client.ok("DUMP k"), before);
        assert_eq!(ints(&client.ok("RL.PEEK k")).first(), Some(&1));
    }
}
