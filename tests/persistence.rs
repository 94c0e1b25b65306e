//! What a server saves is what it loads, whenever that is; what is no whole value is not loaded at all.

mod support;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use redis::Value;
use support::client::{is_error, show};
use support::payload::{seal, unseal};
use support::work::{keys, pictures, policies, set_policies, Picture, Work};
use support::{until, Client, Server};

const CALLS: usize = 3000;

/// Everything that must come back.
struct State {
    pictures: Vec<Picture>,
    policies: Vec<(String, Vec<String>, i64, i64)>,
}

impl State {
    fn of(server: &Server) -> State {
        let mut client = server.client();
        let keys = keys(&mut client);
        State { pictures: pictures(&mut client, &keys), policies: policies(&mut client) }
    }

    /// Compares with what the server holds now. A key whose time is over may have gone; where the server has
    /// not dropped it yet, it is the same to the bit.
    #[track_caller]
    fn assert_back(&self, server: &Server) {
        let mut client = server.client();
        let names: Vec<String> = self.pictures.iter().map(|p| p.key.clone()).collect();
        let now = pictures(&mut client, &names);
        let mut alive = 0;
        for (before, after) in self.pictures.iter().zip(&now) {
            if before.expires_at == -1 || before.expires_at > server.clock.ms() {
                assert_eq!(before, after);
                alive += 1;
            } else if after.dump.is_some() {
                assert_eq!(before.digest, after.digest, "{}", before.key);
            }
        }
        assert!(alive > 0, "nothing was compared");
        assert_eq!(policies(&mut client), self.policies);
    }
}

fn filled(builder: support::server::Builder, seed: u64) -> Server {
    let server = builder.start();
    let mut client = server.client();
    Work::new(seed).run(&server, &mut client, CALLS);
    set_policies(&mut client);
    assert!(keys(&mut client).len() > 20, "{:?}", keys(&mut client));
    server
}

fn rewrite(client: &mut Client) {
    client.ok("BGREWRITEAOF");
    until("rewrite of the append-only file", || {
        client.info_int("persistence", "aof_rewrite_in_progress") == 0
            && client.info_int("persistence", "aof_rewrite_scheduled") == 0
    });
    assert_eq!(client.info("persistence", "aof_last_bgrewrite_status").as_deref(), Some("ok"));
}

#[test]
fn debug_reload() {
    let mut server = filled(Server::build(), 1);
    let before = State::of(&server);
    server.client().ok("DEBUG RELOAD");
    before.assert_back(&server);
    server.assert_well();
}

#[test]
fn restart_from_a_snapshot_at_once_and_later() {
    let mut server = filled(Server::build(), 2);
    let before = State::of(&server);
    server.shutdown("SAVE");
    server.restart();
    before.assert_back(&server);
    server.shutdown("SAVE");
    server.clock.advance(30_000_000);
    server.restart();
    before.assert_back(&server);
}

#[test]
fn replay_of_the_append_only_file_at_once_and_later() {
    let mut server = filled(Server::build().append_only(), 3);
    let before = State::of(&server);
    server.restart();
    before.assert_back(&server);
    server.clock.advance(45_000_000);
    server.restart();
    before.assert_back(&server);
    server.clock.advance(-90_000_000);
    server.restart();
    server.assert_well();
}

#[test]
fn rewrite_with_and_without_preamble() {
    for preamble in ["yes", "no"] {
        let builder = Server::build().append_only().option("aof-use-rdb-preamble", preamble);
        let mut server = filled(builder, 4);
        let before = State::of(&server);
        rewrite(&mut server.client());
        server.restart();
        before.assert_back(&server);
        // The rewritten file is continued, and rewritten again.
        let mut client = server.client();
        Work::new(5).run(&server, &mut client, 300);
        let before = State::of(&server);
        rewrite(&mut client);
        server.clock.advance(10_000_000);
        server.restart();
        before.assert_back(&server);
        server.assert_well();
    }
}

/// Writes that come while a child process rewrites the file are in the new one.
#[test]
fn rewrite_while_calls_come_in() {
    for preamble in ["yes", "no"] {
        let builder = Server::build().append_only().option("aof-use-rdb-preamble", preamble);
        let mut server = filled(builder.args("--rdb-key-save-delay 2000"), 6);
        let mut client = server.client();
        client.ok("BGREWRITEAOF");
        Work::new(7).run(&server, &mut client, 300);
        client.ok("RL.POLICY SET late FIXED 3 1m");
        client.ok("CONFIG SET rdb-key-save-delay 0");
        until("rewrite", || client.info_int("persistence", "aof_rewrite_in_progress") == 0);
        let before = State::of(&server);
        server.restart();
        before.assert_back(&server);
    }
}

#[test]
fn append_only_switched_on_at_run_time() {
    let mut server = filled(Server::build().option("aof-use-rdb-preamble", "no"), 8);
    let mut client = server.client();
    client.ok("CONFIG SET appendonly yes");
    until("first append-only file", || {
        client.info_int("persistence", "aof_rewrite_in_progress") == 0
            && client.info_int("persistence", "aof_rewrite_scheduled") == 0
    });
    let before = State::of(&server);
    server.add_args("--appendonly yes");
    server.restart();
    before.assert_back(&server);
}

#[test]
fn dump_and_restore() {
    let server = filled(Server::build(), 9);
    let mut client = server.client();
    let names = keys(&mut client);
    for picture in pictures(&mut client, &names) {
        let dump = picture.dump.clone().expect("a dump");
        client.ok(&format!("DEL {}", picture.key));
        let ttl = picture.expires_at.max(0).to_string();
        let words =
            [b"RESTORE".as_slice(), picture.key.as_bytes(), ttl.as_bytes(), &dump, b"ABSTTL"];
        assert_eq!(client.run(&words), Value::Okay, "{}", picture.key);
        assert_eq!(pictures(&mut client, std::slice::from_ref(&picture.key)), [picture]);
    }
}

/// One key of every shape, with some life behind it.
fn shapes(client: &mut Client) -> Vec<Vec<u8>> {
    let lines = [
        ("token", "RL.TOKEN token 5 3 PER 7s COST 2"),
        ("token", "RL.TOKEN token 3 3 PER 7s"),
        ("leaky", "RL.LEAKY leaky 5 3 FORCE COST 9"),
        ("slide", "RL.SLIDE slide 50 1h COST 3"),
        ("slide", "RL.SLIDE slide 50 1h"),
        ("blocks", "RL.SLIDE blocks 5000000000 1h BLOCKS 9 COST 4000000000"),
        ("fixed", "RL.FIXED fixed 5 1h"),
        ("aligned", "RL.FIXED aligned 5 1d ALIGN -8h"),
        ("list", "RL.CHARGE list SLIDE 5 1h TOKEN 9 1 FIXED 3 1d LEAKY 7 1 COST 1 0 2 3"),
        ("policy", "RL.CHARGE policy POLICY gold POLICY dry"),
    ];
    set_policies(client);
    for (_, line) in lines {
        client.ok(line);
    }
    let mut names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
    names.dedup();
    let dump = |name: &&str| match client.ok(&format!("DUMP {name}")) {
        Value::BulkString(bytes) => bytes,
        other => panic!("DUMP {name}: {}", show(&other)),
    };
    names.iter().map(dump).collect()
}

/// A payload is either the whole value or no value: never a crash, never something in between. The outer
/// checksum always fits, so that the module itself must notice. The first byte, the server's own mark of the
/// data type, is left alone: with another the module is not asked.
#[track_caller]
fn whole_or_nothing(
    client: &mut Client,
    original: &[u8],
    body: &[u8],
    version: [u8; 2],
    what: &str,
) {
    let payload = seal(body, version);
    let reply = client.run(&[b"RESTORE".as_slice(), b"victim", b"0", &payload]);
    if !is_error(&reply) {
        let back = client.ok("DUMP victim");
        assert!(
            matches!(&back, Value::BulkString(b) if b == original),
            "{what}: half read, {}",
            show(&back)
        );
        client.ok("DEL victim");
    }
}

#[test]
fn flipped_bits_are_refused() {
    let mut server = Server::start();
    let mut client = server.client();
    for original in shapes(&mut client) {
        let (body, version) = unseal(&original);
        for place in 1..body.len() {
            for bit in 0..8 {
                let mut broken = body.clone();
                broken[place] ^= 1 << bit;
                whole_or_nothing(
                    &mut client,
                    &original,
                    &broken,
                    version,
                    &format!("bit {bit} of byte {place}"),
                );
            }
        }
    }
    server.assert_well();
}

#[test]
fn cut_and_grown_payloads_are_refused() {
    let mut server = Server::start();
    let mut client = server.client();
    for original in shapes(&mut client) {
        let (body, version) = unseal(&original);
        for length in 1..body.len() {
            let what = format!("cut to {length} of {}", body.len());
            whole_or_nothing(&mut client, &original, &body[..length], version, &what);
        }
        // A cut by two bytes whose place the frame's own version takes.
        let short = &body[..body.len() - 2];
        let tail = [body[body.len() - 2], body[body.len() - 1]];
        whole_or_nothing(&mut client, &original, short, tail, "cut by two");
        for place in 1..body.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let grown = [&body[..place], &[byte], &body[place..]].concat();
                whole_or_nothing(
                    &mut client,
                    &original,
                    &grown,
                    version,
                    &format!("a byte more at {place}"),
                );
            }
        }
    }
    server.assert_well();
}

#[test]
fn random_payloads_are_refused() {
    let mut server = Server::start();
    let mut client = server.client();
    let mut rng = StdRng::seed_from_u64(10);
    let originals = shapes(&mut client);
    for _ in 0..20_000 {
        let original = &originals[rng.random_range(0..originals.len())];
        let other = &originals[rng.random_range(0..originals.len())];
        let (mut body, version) = unseal(original);
        let (donor, _) = unseal(other);
        let from = rng.random_range(1..body.len());
        match rng.random_range(0..3) {
            0 => (0..rng.random_range(1..6)).for_each(|_| {
                let place = rng.random_range(1..body.len());
                body[place] = rng.random();
            }),
            1 => body[from..].iter_mut().for_each(|byte| *byte = rng.random()),
            _ => {
                // The head of one value on the tail of another.
                body.truncate(from);
                body.extend(&donor[from.min(donor.len())..]);
            }
        }
        if body == donor {
            continue;
        }
        whole_or_nothing(&mut client, original, &body, version, "random bytes");
    }
    server.assert_well();
}

/// A file cut in the middle of a value stops the start with a message, it is not half loaded.
#[test]
fn a_broken_snapshot_does_not_load() {
    let mut server = Server::start();
    let mut client = server.client();
    shapes(&mut client);
    server.shutdown("SAVE");
    let path = server.dir.join("dump.rdb");
    let bytes = std::fs::read(&path).expect("snapshot");
    std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("snapshot");
    assert!(server.try_restart().is_err());
    std::fs::write(&path, &bytes).expect("snapshot");
    server.restart();
    assert!(server.client().int("DBSIZE") >= 8);
}

/// A reload takes the policies of the file, also when it holds none.
#[test]
fn a_reload_replaces_policies_even_by_none() {
    let mut server = Server::start();
    let mut client = server.client();
    client.ok("SET k v");
    client.ok("SAVE");
    client.ok("RL.POLICY SET p FIXED 1 1s");
    server.restart();
    assert_eq!(show(&server.client().ok("RL.POLICY LIST")), "[]");
    let mut client = server.client();
    client.ok("RL.POLICY SET p FIXED 1 1s");
    client.ok("FLUSHALL");
    assert_eq!(show(&client.ok("RL.POLICY LIST")), "[p]");
    client.ok("DEBUG RELOAD NOSAVE NOFLUSH");
    assert_eq!(show(&client.ok("RL.POLICY LIST")), "[]");
}
