//! A real server per test, behind a guard that kills it and shows its log when the test fails.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use redis::Value;

use super::client::Client;
use super::clock::Clock;
use super::disk::Disk;
use super::preload;
use super::wait::{patience, until};

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// What the server says it is, from INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Redis,
    Valkey,
}

/// How a server is to be started.
pub struct Builder {
    module: bool,
    module_args: Vec<String>,
    args: Vec<String>,
    shift_ms: Option<i64>,
    disk: bool,
}

impl Builder {
    /// Adds server arguments, given as one line: `"--maxmemory 1mb"`.
    pub fn args(mut self, line: &str) -> Builder {
        self.args.extend(line.split_whitespace().map(str::to_owned));
        self
    }

    /// Adds one server option whose value may hold spaces or be empty.
    pub fn option(mut self, name: &str, value: &str) -> Builder {
        self.args.extend([format!("--{name}"), value.to_owned()]);
        self
    }

    /// Gives the module arguments of its own: `"slide-max-log 5"`.
    pub fn module_args(mut self, line: &str) -> Builder {
        self.module_args.extend(line.split_whitespace().map(str::to_owned));
        self
    }

    pub fn without_module(mut self) -> Builder {
        self.module = false;
        self
    }

    /// A clock that runs, shifted by `ms`, in place of one that stands still.
    pub fn running_clock(mut self, ms: i64) -> Builder {
        self.shift_ms = Some(ms);
        self
    }

    /// Append-only files on a disk that the test fills or slows down.
    pub fn own_disk(mut self) -> Builder {
        self.disk = true;
        self
    }

    pub fn append_only(self) -> Builder {
        self.args("--appendonly yes --appendfsync always")
    }

    pub fn cluster(self) -> Builder {
        self.args(
            "--cluster-enabled yes --cluster-node-timeout 5000 --cluster-config-file nodes.conf",
        )
    }

    pub fn replica_of(self, primary: &Server) -> Builder {
        self.args(&format!("--replicaof 127.0.0.1 {}", primary.port))
    }

    #[track_caller]
    pub fn start(self) -> Server {
        self.try_start().unwrap_or_else(|log| panic!("the server did not start:\n{log}"))
    }

    /// Starts the server; where it gives up, its log.
    pub fn try_start(self) -> Result<Server, String> {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("server-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("server folder");
        let clock_file = dir.join("clock");
        let clock = match self.shift_ms {
            Some(ms) => Clock::running(&clock_file, ms),
            None => Clock::standing(&clock_file),
        };
        let disk = self.disk.then(|| Disk::new(&dir.join("disk")));
        let mut server = Server { child: None, port: 0, dir, clock, disk, builder: self };
        let mut log = String::new();
        for _ in 0..5 {
            server.port = free_port();
            match server.launch() {
                Ok(()) => return Ok(server),
                Err(text) => log = text,
            }
            // Another test process was quicker to take the port: the only failure worth another try.
            if !log.contains("in use") {
                break;
            }
        }
        Err(log)
    }
}

/// A running server; killed, and its folder removed, when dropped.
pub struct Server {
    child: Option<Child>,
    pub port: u16,
    pub dir: PathBuf,
    pub clock: Clock,
    disk: Option<Disk>,
    builder: Builder,
}

impl Server {
    /// A server with the module and a clock that stands still at [`super::clock::START_US`].
    #[track_caller]
    pub fn start() -> Server {
        Server::build().start()
    }

    pub fn build() -> Builder {
        Builder {
            module: true,
            module_args: Vec::new(),
            args: Vec::new(),
            shift_ms: None,
            disk: false,
        }
    }

    fn launch(&mut self) -> Result<(), String> {
        let program = std::env::var("RL_SERVER").unwrap_or_else(|_| "redis-server".into());
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("log file");
        let mut command = Command::new(&program);
        command.arg("--port").arg(self.port.to_string()).arg("--dir").arg(&self.dir);
        for pair in COMMON {
            command.args(*pair);
        }
        command.args(&self.builder.args);
        if self.builder.module {
            command.arg("--loadmodule").arg(module_path()).args(&self.builder.module_args);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("log file")).stderr(log);
        let mut libraries = vec![self.clock.prepare(&mut command)];
        libraries.extend(self.disk.as_ref().map(|disk| disk.prepare(&mut command)));
        preload::set(&mut command, &libraries, has_own_loader(&program));
        self.child = Some(command.spawn().unwrap_or_else(|e| panic!("{program}: {e}")));
        self.wait_until_ready()
    }

    /// PING answers, and the answer is not "loading". Measured by this process's monotonic clock: the
    /// server's own may stand still.
    fn wait_until_ready(&mut self) -> Result<(), String> {
        let (start, patience) = (Instant::now(), patience(30));
        while start.elapsed() < patience {
            if !self.alive() {
                return Err(self.log());
            }
            if let Ok(mut client) = Client::try_connect(self.port) {
                client.send(&["PING"]);
                if let Some(Value::SimpleString(_)) = client.try_receive() {
                    return Ok(());
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("no PONG within {patience:?}\n{}", self.log()))
    }

    pub fn client(&self) -> Client {
        Client::connect(self.port)
    }

    /// The disk of a server that was built with one.
    pub fn disk(&self) -> &Disk {
        self.disk.as_ref().expect("a disk of its own")
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Whether the process is there; false after a crash.
    pub fn alive(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// The process is there, answers, and has logged no crash.
    #[track_caller]
    pub fn assert_well(&mut self) {
        assert!(self.alive(), "the server is gone:\n{}", self.log());
        assert_eq!(self.client().text("PING"), "PONG");
        self.assert_log_clean();
    }

    /// No line of the log, from the first start on, tells of a fault.
    #[track_caller]
    pub fn assert_log_clean(&self) {
        let log = self.whole_log();
        for trace in ["panicked at", "internal error", "BUG REPORT START"] {
            if let Some(at) = log.find(trace) {
                let from = log[..at].rfind('\n').map_or(0, |end| end + 1);
                let lines: Vec<&str> = log[from..].lines().take(20).collect();
                panic!("the log tells of a fault ({trace}):\n{}", lines.join("\n"));
            }
        }
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("log")
    }

    pub fn whole_log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    /// The last lines of the server's log.
    pub fn log(&self) -> String {
        let all = self.whole_log();
        let lines: Vec<&str> = all.lines().collect();
        lines[lines.len().saturating_sub(80)..].join("\n")
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Lets the server go the way on which tools that watch it tell what they saw. One that cannot is killed.
    fn end_gently(&mut self) {
        if !self.alive() {
            return;
        }
        if let Ok(mut client) = Client::try_connect(self.port) {
            let _ = client.try_send(&["SHUTDOWN", "NOSAVE", "NOW", "FORCE"]);
            let start = Instant::now();
            while self.alive() && start.elapsed() < patience(30) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Ends the server by its own command, which saves where it is configured to or `how` is `SAVE`.
    pub fn shutdown(&mut self, how: &str) {
        self.client().send(&["SHUTDOWN", how]);
        let mut child = self.child.take().expect("a running server");
        until("SHUTDOWN", || matches!(child.try_wait(), Ok(Some(_))));
    }

    /// Starts again in the same folder, on the same port, with the clock as it is now.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        if let Err(log) = self.launch() {
            panic!("the server did not come back:\n{log}");
        }
    }

    /// As [`Server::restart`]; where the server gives up, its log.
    pub fn try_restart(&mut self) -> Result<(), String> {
        self.kill();
        self.launch()
    }

    /// Adds server arguments for the next restart.
    pub fn add_args(&mut self, line: &str) {
        self.builder.args.extend(line.split_whitespace().map(str::to_owned));
    }

    /// Kind, major and minor version, as the server itself says.
    pub fn version(&self) -> (Kind, u32, u32) {
        let mut client = self.client();
        let (kind, text) = match client.info("server", "valkey_version") {
            Some(text) => (Kind::Valkey, text),
            None => (Kind::Redis, client.info("server", "redis_version").expect("a version")),
        };
        let mut numbers = text.split('.').map(|n| n.parse().unwrap_or(0));
        (kind, numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// Whether this is Redis of at least that version (false on every Valkey).
    pub fn is_redis(&self, major: u32, minor: u32) -> bool {
        self.version() >= (Kind::Redis, major, minor) && self.version().0 == Kind::Redis
    }

    pub fn is_valkey(&self) -> bool {
        self.version().0 == Kind::Valkey
    }

    /// Waits until `replica` has everything that this primary has sent.
    #[track_caller]
    pub fn wait_for(&self, replica: &Server) {
        let (mut here, mut there) = (self.client(), replica.client());
        until("replica in step", || {
            there.info("replication", "master_link_status").as_deref() == Some("up")
                && here.info_int("replication", "master_repl_offset")
                    == there.info_int("replication", "slave_repl_offset")
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of the server on port {}:\n{}", self.port, self.log());
        }
        if std::env::var_os("RL_END_GENTLY").is_some() {
            self.end_gently();
        }
        self.kill();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// No surprise saves, no delays by wall clock (a standing clock would never end them), DEBUG allowed.
const COMMON: &[&[&str]] = &[
    &["--bind", "127.0.0.1"],
    &["--save", ""],
    &["--repl-diskless-sync-delay", "0"],
    &["--enable-debug-command", "yes"],
    &["--maxclients", "4000"],
    &["--latency-monitor-threshold", "0"],
];

/// Whether a wrapper script starts its server through an `ld.so` of its own: it then names CLOCK_SHIM.
fn has_own_loader(program: &str) -> bool {
    fs::read(program).is_ok_and(|bytes| bytes.starts_with(b"#!") && contains(&bytes, b"CLOCK_SHIM"))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|w| w == part)
}

/// A port that nobody listens on now, nor on the cluster bus port that belongs to it. Drawn below the range
/// from which the system takes ports for outgoing connections.
fn free_port() -> u16 {
    for _ in 0..500 {
        let port = rand::random_range(10_000..22_000u16);
        let free = |p: u16| TcpListener::bind(("127.0.0.1", p)).is_ok();
        if free(port) && free(port + 10_000) {
            return port;
        }
    }
    panic!("no free port");
}

/// The built module: `RL_MODULE`, or the release build of the target folder that this test was built in.
pub fn module_path() -> PathBuf {
    if let Ok(path) = std::env::var("RL_MODULE") {
        return fs::canonicalize(&path).unwrap_or_else(|e| panic!("RL_MODULE {path}: {e}"));
    }
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = tmp.parent().unwrap_or(tmp).join("release").join("libredis_rl.so");
    assert!(
        path.is_file(),
        "no {}: run `cargo build --release` first, or set RL_MODULE",
        path.display()
    );
    path
}
