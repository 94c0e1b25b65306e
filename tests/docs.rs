//! The documentation is true: every session in it is run against a real server and compared, and every link
//! leads somewhere.
//!
//! A session stands in a fenced block without a language. `> ` begins a command, what follows is what
//! `redis-cli` prints; `# 10s later` moves the clock. Each page has a server of its own, whose clock stands
//! still, and is run from top to bottom; commands between two moves of the clock share a connection.
//!
//! Three words in place of the language make another session of it: `cluster` runs on a cluster of one node,
//! `newer` only where modules may have an ACL category, `subscriber` listens while the next session is run.

mod support;

use redis::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use support::server::Kind;
use support::wait::patience;
use support::{until, Client, Server};

/// README.md and all below docs/.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("docs") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// A block of a page that holds a session: its word, its lines with their numbers.
type Session<'a> = (&'a str, Vec<(usize, &'a str)>);

/// The sessions of a page.
fn sessions(text: &str) -> Vec<Session<'_>> {
    let mut found = Vec::new();
    let mut open: Option<Session> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let Some(language) = line.strip_prefix("```") else {
            if let Some((_, lines)) = &mut open {
                lines.push((number, line));
            }
            continue;
        };
        match open.take() {
            None => open = Some((language.trim(), Vec::new())),
            Some(block) if ["", "cluster", "newer", "subscriber"].contains(&block.0) => {
                found.push(block);
            }
            Some((language, lines)) => {
                let mut starts = lines.iter().map(|(_, line)| line.get(..2).unwrap_or(""));
                assert!(
                    starts.all(|start| start != "> "),
                    "line {number}: {language} hides a session"
                );
            }
        }
    }
    assert!(open.is_none(), "a fence that is never closed");
    found
}

/// Microseconds of a line like `# 10s later`.
fn pause(line: &str) -> Option<i64> {
    let span = line.strip_prefix("# ")?.strip_suffix(" later")?;
    let digits = span.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = span.split_at(digits);
    let unit = match unit {
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    Some(number.parse::<i64>().ok()? * unit)
}

/// What redis-cli prints for these command lines.
fn redis_cli(port: u16, commands: &[&str]) -> String {
    let mut cli = Command::new("redis-cli")
        .args(["--no-raw", "-p", &port.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-cli");
    let mut input = cli.stdin.take().expect("input");
    for command in commands {
        writeln!(input, "{command}").expect("input");
    }
    drop(input);
    let output = cli.wait_with_output().expect("redis-cli");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Lines without what nobody sees, and without the time that redis-cli tells where a busy machine made it wait.
fn seen<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let time = |line: &str| {
        let inner = line.strip_prefix('(').and_then(|rest| rest.strip_suffix("s)"));
        inner.is_some_and(|number| number.parse::<f64>().is_ok())
    };
    lines.map(str::trim_end).filter(|line| !line.is_empty() && !time(line)).collect()
}

fn run(server: &Server, page: &Path, lines: &[(usize, &str)]) {
    let mut rest = lines;
    while let Some(((number, line), after)) = rest.split_first() {
        if let Some(us) = pause(line) {
            server.clock.advance(us);
            rest = after;
            continue;
        }
        let end = rest.iter().position(|(_, line)| pause(line).is_some()).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        let (commands, replies): (Vec<_>, Vec<_>) =
            part.iter().map(|(_, line)| *line).partition(|line| line.starts_with("> "));
        assert!(!commands.is_empty(), "{}:{number}: a session without a command", page.display());
        let commands: Vec<&str> = commands.iter().map(|line| &line[2..]).collect();
        let printed = redis_cli(server.port, &commands);
        assert_eq!(
            seen(replies.into_iter()),
            seen(printed.lines()),
            "{}:{number}: {commands:#?}",
            page.display()
        );
        rest = after;
    }
}

/// A node that has all slots.
fn cluster_of_one() -> Server {
    let node = Server::build().running_clock(0).cluster().start();
    let mut client = node.client();
    client.ok("CLUSTER ADDSLOTSRANGE 0 16383");
    until("cluster state ok", || client.text("CLUSTER INFO").contains("cluster_state:ok"));
    node
}

fn has_module_categories(server: &Server) -> bool {
    match server.version() {
        (Kind::Redis, major, minor) => (major, minor) >= (7, 4),
        (Kind::Valkey, major, _) => major >= 8,
    }
}

/// A `redis-cli` that listens, and what it is to hear.
struct Subscriber<'a> {
    cli: Child,
    heard: PathBuf,
    first: usize,
    expected: Vec<&'a str>,
}

impl<'a> Subscriber<'a> {
    fn start(server: &Server, lines: &[(usize, &'a str)]) -> Subscriber<'a> {
        let [(first, command), expected @ ..] = lines else {
            panic!("a subscriber without a line")
        };
        let words = command.strip_prefix("> ").expect("a command").split(' ');
        let heard = server.dir.join("heard");
        let cli = Command::new("redis-cli")
            .args(["--no-raw", "-p", &server.port.to_string()])
            .args(words)
            .stdin(Stdio::null())
            .stdout(fs::File::create(&heard).expect("file"))
            .spawn()
            .expect("redis-cli");
        let mut client = server.client();
        until("a subscriber", || client.int("PUBSUB NUMPAT") == 1);
        let expected = expected.iter().map(|(_, line)| *line).collect();
        Subscriber { cli, heard, first: *first, expected }
    }

    /// Whether `Ctrl-C` alone ends it is for each version of `redis-cli` to say.
    fn told<'b>(lines: impl Iterator<Item = &'b str>) -> Vec<&'b str> {
        seen(lines.filter(|line| !line.starts_with("Reading messages")))
    }

    fn assert_heard(self, page: &Path) {
        let expected = Self::told(self.expected.iter().copied());
        let deadline = Instant::now() + patience(30);
        loop {
            let heard = fs::read_to_string(&self.heard).expect("heard");
            let heard = Self::told(heard.lines());
            if heard == expected {
                break;
            }
            let place = format!("{}:{}", page.display(), self.first);
            assert!(Instant::now() < deadline, "{place}: heard {heard:#?}, not {expected:#?}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for Subscriber<'_> {
    fn drop(&mut self) {
        let _ = self.cli.kill();
        let _ = self.cli.wait();
    }
}

#[test]
fn every_session_is_what_a_server_answers() {
    let mut commands = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("page");
        let sessions = sessions(&text);
        let lines = sessions.iter().flat_map(|(_, lines)| lines);
        commands += lines.filter(|(_, line)| line.starts_with("> ")).count();
        if sessions.is_empty() {
            continue;
        }
        let mut server = Server::start();
        let mut subscriber = None;
        for (word, session) in &sessions {
            match *word {
                "subscriber" => {
                    subscriber = Some(Subscriber::start(&server, session));
                    continue;
                }
                "cluster" => run(&cluster_of_one(), &page, session),
                "newer" if !has_module_categories(&server) => {}
                _ => run(&server, &page, session),
            }
            if let Some(subscriber) = subscriber.take() {
                subscriber.assert_heard(&page);
            }
        }
        assert!(subscriber.is_none(), "{}: nothing is said to the subscriber", page.display());
        server.assert_well();
    }
    assert!(commands > 150, "only {commands} commands found: is the form of the sessions another?");
}

/// What stands between backticks, with its line number.
fn spans(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    (1..).zip(text.lines()).flat_map(move |(number, line)| {
        let fence = line.starts_with("```");
        code ^= fence;
        let line = if code || fence { "" } else { line };
        line.split('`').skip(1).step_by(2).map(move |span| (number, span))
    })
}

/// Commands within a sentence are no sessions, but a server takes them.
#[test]
fn every_command_within_a_sentence_is_taken() {
    let mut taken = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("page");
        let mut server = None;
        for (number, span) in spans(&text) {
            let ours = span.starts_with("RL.") || span.starts_with("CL.");
            let named_only = span.chars().all(|c| c.is_ascii_uppercase() || c == '.' || c == ' ');
            if !ours || named_only || span.contains("...") || span.contains(['[', '|']) {
                continue;
            }
            let Some((name, rest)) = span.split_once(' ') else { continue };
            let values = rest.split(' ').map(|word| match word {
                "n" | "B" | "C" | "P" | "Q" | "Burst" | "Rate" => "2",
                "B+1" => "3",
                "Ps" | "Period" => "2s",
                word => word,
            });
            let words: Vec<&str> = std::iter::once(name).chain(values).collect();
            let server = server.get_or_insert_with(Server::start);
            let mut client = server.client();
            client.ok("FLUSHALL");
            let reply = client.run(&words);
            let refused = support::client::error(&reply).filter(|text| text.starts_with("ERR"));
            assert_eq!(refused, None, "{}:{number}: {span}", page.display());
            taken += 1;
        }
    }
    assert!(taken > 20, "only {taken} commands found: is the form of the pages another?");
}

/// The table of errors has every text of ours: each is caused once, and looked up.
#[test]
fn every_error_is_in_the_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reply.md");
    let text = fs::read_to_string(page).expect("page");
    let (_, table) = text.split_once("## Errors").expect("the section");
    let server = Server::build().module_args("max-policies 1").start();
    let mut client = server.client();
    client.ok("RL.POLICY SET one TOKEN 1 1");
    client.ok("RL.CHARGE two SLIDE 1 1m FIXED 1 1m");
    client.ok("SET text 1");
    let many = format!("RL.CHARGE k{}", " TOKEN 1 1".repeat(17));
    for call in [
        "RL.TOKEN k 1 1 1",
        "RL.TOKEN k 0 1",
        "RL.TOKEN k 1 1 PER 1",
        "RL.FIXED k 1 1m ALIGN 8d",
        "RL.SLIDE k 1 1m BLOCKS 0",
        "RL.TOKEN k 1000000000000 1",
        "RL.SLIDE k 100001 1m",
        "RL.TOKEN k 1 1 COST 0",
        "RL.REFUND k COST 0",
        "RL.CHARGE k TOKEN 1 1 TOKEN 1 1 COST 0 x",
        "RL.CHARGE k TOKEN 1 1 COST 1 1",
        &many,
        "RL.MCHARGE 0 k TOKEN 1 1",
        "RL.MCHARGE 2 k k TOKEN 1 1 TOKEN 1 1",
        "RL.POLICY SET a/b TOKEN 1 1",
        "RL.POLICY SET two POLICY one",
        "RL.POLICY SET two TOKEN 1 1",
        "RL.TOP COUNT 0",
        "RL.CHARGE k POLICY none",
        "RL.TOKEN two 1 1",
        "RL.TOKEN text 1 1",
        "CL.THROTTLE k -1 1 1",
        "CL.THROTTLE k 1 0 1",
        "CL.THROTTLE k 1 1 0",
        "CL.THROTTLE k 1 1 1 -1",
        "rl.p k",
    ] {
        let error = client.error(call);
        // Redis 8.0 and later hide it altogether.
        if call == "rl.p k" && error.starts_with("ERR unknown command") {
            assert!(server.is_redis(8, 0), "{error}");
            continue;
        }
        // The table has the figures of the defaults, and the name of one of the arguments that share a text.
        let error = error.replace("at most 1 ", "at most 1024 ");
        let known = table.contains(&format!("`{error}`")) || {
            let amount = error.strip_suffix(" must be an integer from 1 to 1000000000000");
            let name = amount.and_then(|start| start.strip_prefix("ERR "));
            name.is_some_and(|name| table.contains(&format!("`{name}`")))
        };
        assert!(known, "{call}: {error}");
    }
}

/// The short lines of the first page are parts of the whole ones, which are run.
#[test]
fn the_calls_of_the_first_page_are_those_of_the_clients() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let clients = fs::read_to_string(root.join("docs/clients.md")).expect("clients");
    let readme = fs::read_to_string(root.join("README.md")).expect("README");
    let section = readme.split("## From your language").nth(1).expect("the section");
    let table = section.split("\n\n").nth(2).expect("the table");
    let mut found = 0;
    for (_, span) in spans(table) {
        for part in span.split("...").filter(|part| part.len() > 3) {
            assert!(clients.contains(part), "{span}: {part} is not on the page about clients");
        }
        found += 1;
    }
    assert!(found >= 10, "{found} calls: is the form of the table another?");
}

#[test]
fn every_link_leads_somewhere() {
    for page in pages() {
        let text = fs::read_to_string(&page).expect("page");
        let folder = page.parent().expect("folder");
        for (_, link) in text.match_indices("](").map(|(at, _)| (at, &text[at + 2..])) {
            let link = link.split(')').next().unwrap_or("");
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { folder.join(path) };
            let found = fs::read_to_string(&target);
            let found = found.unwrap_or_else(|e| panic!("{}: {link}: {e}", page.display()));
            assert!(
                anchor.is_empty() || found.lines().any(|line| heading(line) == anchor),
                "{}: {link}: no such heading",
                page.display()
            );
        }
    }
}

/// The old scripts on the page about moving over run as they stand there, and decide as the new line beside them; the
/// one of blocks lets too much through, as the page says.
#[test]
fn the_old_scripts_do_what_is_said_of_them() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/migrate.md");
    let text = fs::read_to_string(page).expect("page");
    let scripts: Vec<&str> =
        text.split("```lua\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [counter, sorted_set, blocks, hash, string] = scripts[..] else {
        panic!("{} scripts", scripts.len())
    };
    let mut server = Server::start();
    let mut client = Client::connect(server.port);
    let mut old = |script: &str, key: &str, args: &[&str]| {
        let mut words = vec!["EVAL", script, "1", key];
        words.extend(args);
        match client.run(&words) {
            Value::Int(answer) => answer,
            other => panic!("{key}: {other:?}"),
        }
    };
    let mut client = Client::connect(server.port);
    let mut passed = [0; 4];
    for step in 0..200_i64 {
        // Bursts and pauses of up to 31 s.
        server.clock.advance(if step % 5 == 0 { step * 7 % 32 } else { 0 } * 1_000_000);
        let seconds = (server.clock.us() / 1_000_000).to_string();
        let unique = step.to_string();
        let leaky = client.six("RL.LEAKY n:string 8 4");
        let pairs = [
            (old(counter, "o:counter", &["3", "60"]), client.six("RL.FIXED n:counter 3 60s")[0]),
            (
                old(sorted_set, "o:set", &["7", "60000", &unique]),
                client.six("RL.SLIDE n:set 7 60s")[0],
            ),
            (
                old(hash, "o:hash", &["10", "1", "2", &seconds]),
                client.six("RL.TOKEN n:hash 10 1 COST 2")[0],
            ),
            (old(string, "o:string", &["8", "250"]), if leaky[0] == 1 { leaky[5] } else { -1 }),
        ];
        for (number, (before, now)) in pairs.into_iter().enumerate() {
            assert_eq!(before, now, "script {number}, step {step}");
            passed[number] += i32::from(now != 0);
        }
    }
    assert!(passed[..3].iter().all(|n| (20..180).contains(n)), "{passed:?}");

    // The end of the first of six blocks, and the beginning of the first after them: 51 s.
    let into = server.clock.us() % 60_000_000;
    server.clock.advance(60_000_000 - into + 9_000_000);
    let call = "RL.SLIDE n:blocks 5 60s BLOCKS 6";
    let mut burst = || {
        let pairs = [(); 6].map(|()| (old(blocks, "o:blocks", &["5"]), client.six(call)[0]));
        pairs.iter().fold((0, 0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1))
    };
    assert_eq!(burst(), (5, 5));
    server.clock.advance(51_000_000);
    assert_eq!(burst(), (5, 0));
    server.assert_well();
}

/// The anchor that a heading gets; empty for other lines.
fn heading(line: &str) -> String {
    let Some(text) = line.strip_prefix('#') else { return String::new() };
    text.trim_start_matches('#')
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() })
        .collect()
}
