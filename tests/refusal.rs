//! Where the module cannot work it says so in one clear line and does not load; the server decides the rest.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use redis::Value;
use support::client::{is_error, show, texts, Client};
use support::server::module_path;
use support::{until, Server};

/// A server below the floor: `RL_SERVER_OLD`, or where the script for other servers puts one.
fn old_server() -> Option<PathBuf> {
    if let Ok(path) = std::env::var("RL_SERVER_OLD") {
        return Some(PathBuf::from(path));
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let found = [target, &here].map(|folder| folder.join("servers/bin/redis-6.2.14"));
    found.into_iter().find(|path| path.is_file())
}

#[test]
fn below_the_floor_one_line_tells_what_is_needed() {
    let Some(program) = old_server() else {
        return support::skip("no Redis 6.2 here; RL_SERVER_OLD may name one");
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("old-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    // On a socket, so that no port is needed. Told to load a module that refuses, the server gives up.
    let output = Command::new(&program)
        .args(["--port", "0", "--unixsocket", "socket", "--save", "", "--dir"])
        .arg(&folder)
        .arg("--loadmodule")
        .arg(module_path())
        .output()
        .expect("the old server");
    let _ = fs::remove_dir_all(&folder);
    let log = String::from_utf8_lossy(&output.stdout);
    let ours: Vec<&str> = log.lines().filter(|line| line.contains("rl needs")).collect();
    assert_eq!(ours.len(), 1, "{log}");
    let expected = "rl needs Redis 7.0 or later or Valkey 7.2 or later; this server is 6.2";
    assert!(ours[0].contains(expected) && ours[0].ends_with(": not loaded"), "{}", ours[0]);
    assert!(!log.contains("BUG REPORT") && !log.contains("panicked"), "{log}");
    assert!(!output.status.success());
}

/// A module in C that takes the names it is told: a data type, or commands.
fn namesake() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let built = folder.join(format!("namesake-{}.so", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/namesake.c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let status = Command::new(compiler)
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .args([&built, &source])
            .status()
            .expect("a C compiler");
        assert!(status.success());
        built
    })
}

/// A server without the module that may load modules later.
fn open_server() -> Server {
    Server::build().without_module().args("--enable-module-command yes").start()
}

/// Loads a module at run time; its error, if any.
fn load(server: &Server, path: &Path, args: &[&str]) -> Option<String> {
    let mut words = vec!["MODULE", "LOAD", path.to_str().expect("a path")];
    words.extend(args);
    let reply = server.client().run(&words);
    is_error(&reply).then(|| show(&reply))
}

/// After a load was refused the server goes on as if nothing had been.
fn assert_untouched(server: &mut Server) {
    let mut client = server.client();
    assert!(!texts(&client.ok("COMMAND LIST FILTERBY PATTERN rl.*"))
        .iter()
        .any(|n| n == "rl.token"));
    assert!(is_error(&client.call("RL.TOKEN k 5 1")));
    client.ok("SET k v");
    client.ok("DEBUG RELOAD");
    client.ok("INFO everything");
    client.ok("CONFIG GET *");
    client.ok("BGREWRITEAOF");
    until("rewrite", || client.info_int("persistence", "aof_rewrite_in_progress") == 0);
    client.ok("FLUSHALL");
    server.assert_well();
}

#[test]
fn a_taken_name_fails_the_load() {
    for taken in ["rl.peek", "rl.policy", "rl.x", "ratelimit"] {
        let mut server = open_server();
        assert_eq!(load(&server, namesake(), &["other", taken]), None);
        assert!(load(&server, &module_path(), &[]).is_some(), "{taken} was taken");
        let log = server.whole_log();
        let ours: Vec<&str> = log.lines().filter(|line| line.ends_with(": not loaded")).collect();
        assert_eq!(ours.len(), 1, "{log}");
        assert!(ours[0].contains(taken), "{}", ours[0]);
        assert_untouched(&mut server);
    }
}

/// redis-cell was here first: its command stays its own, all others are ours.
#[test]
fn redis_cells_name_may_be_taken() {
    let mut server = open_server();
    assert_eq!(load(&server, namesake(), &["other", "cl.throttle"]), None);
    assert_eq!(load(&server, &module_path(), &[]), None);
    assert!(server.whole_log().contains("cl.throttle"), "{}", server.log());
    let mut client = server.client();
    assert_eq!(client.text("CL.THROTTLE k 5 1 1"), "namesake");
    assert_eq!(client.six("RL.TOKEN k 5 1")[..2], [1, 4]);
    server.assert_well();
    // The other way round it is the other module that fails.
    let server = Server::build().args("--enable-module-command yes").start();
    assert!(load(&server, namesake(), &["other", "cl.throttle"]).is_some());
    assert_eq!(server.client().six("RL.TOKEN k 5 1")[..2], [1, 4]);
}

#[test]
fn a_second_load_is_refused() {
    let mut server = Server::build().args("--enable-module-command yes").start();
    let mut client = server.client();
    client.ok("RL.TOKEN k 5 1 PER 1h");
    client.ok("RL.POLICY SET p FIXED 1 1s");
    assert!(load(&server, &module_path(), &[]).is_some());
    let copy = server.dir.join("copy.so");
    fs::copy(module_path(), &copy).expect("a copy");
    assert!(load(&server, &copy, &[]).is_some());
    assert!(is_error(&client.call("MODULE UNLOAD rl")), "a module with a data type stays");
    assert_eq!(client.six("RL.TOKEN k 5 1 PER 1h")[..2], [1, 3]);
    assert_eq!(texts(&client.ok("RL.POLICY LIST")), ["p"]);
    client.ok("DEBUG RELOAD");
    server.assert_well();
}

#[test]
fn wrong_module_arguments_fail_the_load() {
    for (args, word) in [
        ("nonsense 1", "nonsense"),
        ("slide-max-log", "has no value"),
        ("slide-max-log 0", "1 to 1000000"),
        ("rl.top-keys many", "0 to 10000"),
        ("notify-denied maybe", "yes or no"),
        ("max-policies 5 max-policies -1", "0 to 65536"),
    ] {
        let mut server = open_server();
        let words: Vec<&str> = args.split(' ').collect();
        assert!(load(&server, &module_path(), &words).is_some(), "{args}");
        let log = server.whole_log();
        let ours: Vec<&str> = log.lines().filter(|line| line.ends_with(": not loaded")).collect();
        assert_eq!(ours.len(), 1, "{log}");
        assert!(ours[0].contains(word), "{}", ours[0]);
        assert_untouched(&mut server);
        // With the mistake put right it loads, with none of what was refused.
        assert_eq!(load(&server, &module_path(), &["max-policies", "7"]), None);
        assert_eq!(server.client().config("rl.max-policies").as_deref(), Some("7"));
        assert_eq!(server.client().config("rl.slide-max-log").as_deref(), Some("100000"));
        let started = Server::build().module_args(args).try_start();
        assert!(started.is_err_and(|log| log.contains(word)), "{args}");
    }
}

/// A replica without the module: a snapshot with limiters it does not take, a stream it reports loudly.
#[test]
fn a_replica_without_the_module_does_not_pretend() {
    let primary = Server::start();
    let mut client = primary.client();
    client.ok("RL.TOKEN k 5 1 PER 1h");
    let replica = Server::build().without_module().replica_of(&primary).try_start();
    if let Ok(mut replica) = replica {
        until("the replica to refuse the snapshot", || {
            !replica.alive() || replica.whole_log().contains("ratelimit")
        });
        assert!(replica.whole_log().contains("ratelimit"), "{}", replica.log());
        // Redis 7.0 gives up altogether, later ones ask again; none has a part of it.
        let found = Client::try_connect(replica.port).ok().and_then(|mut there| {
            there.try_send(&["EXISTS", "k"])?;
            there.try_receive()
        });
        assert_ne!(found, Some(Value::Int(1)));
    }
    assert_eq!(client.six("RL.TOKEN k 5 1 PER 1h")[..2], [1, 3]);

    // From 7.2 on a snapshot without limiters loads anywhere; what follows is then unknown to the replica.
    if primary.is_redis(7, 2) || primary.is_valkey() {
        client.ok("FLUSHALL");
        let replica = Server::build().without_module().replica_of(&primary).start();
        primary.wait_for(&replica);
        client.ok("RL.TOKEN k 5 1 PER 1h");
        until("the replica to complain", || {
            replica.whole_log().to_lowercase().contains("unknown command")
        });
        assert_eq!(replica.client().int("EXISTS k"), 0);
    }
}
