//! A private server on a free port, with its folder, gone when dropped.

use crate::resp::Conn;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where to find what is measured.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The server program: `RL_SERVER`, or redis-server.
    pub program: String,
    /// The module: `RL_MODULE`, or the release build.
    pub module: PathBuf,
    /// Another module to compare with: `REDIS_CELL`.
    pub cell: Option<PathBuf>,
    /// The module that makes the server's calls and decides nothing: `FLOOR`, or the one built beside this
    /// program. None: it is not measured.
    pub floor: Option<PathBuf>,
}

impl Setup {
    pub fn from_env() -> io::Result<Self> {
        let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let target = var("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let built = || Path::new(&target).join("release/libredis_rl.so");
        let whole = |path: PathBuf| {
            path.canonicalize().map_err(|e| io::Error::other(format!("{}: {e}", path.display())))
        };
        let program = std::env::current_exe()?;
        let beside = || Some(program.with_file_name("libredis_rl_floor.so")).filter(|p| p.exists());
        Ok(Self {
            program: var("RL_SERVER").unwrap_or_else(|| "redis-server".into()),
            module: whole(var("RL_MODULE").map_or_else(built, PathBuf::from))?,
            cell: var("REDIS_CELL").map(|p| whole(p.into())).transpose()?,
            floor: var("FLOOR").map(PathBuf::from).or_else(beside).map(whole).transpose()?,
        })
    }
}

/// A running server.
pub struct Server {
    child: Child,
    dir: PathBuf,
    pub port: u16,
}

impl Server {
    /// Starts a server with our module, and with the floor if there is one. `aof`: write an append-only
    /// file, synced every second.
    pub fn start(setup: &Setup, aof: bool) -> io::Result<Self> {
        let modules = std::iter::once(&setup.module).chain(&setup.floor);
        Self::start_from(&setup.program, modules, aof, None)
    }

    /// Starts a server with redis-cell in place of our module.
    pub fn start_with_cell(setup: &Setup, aof: bool) -> io::Result<Self> {
        Self::start_from(&setup.program, &setup.cell, aof, None)
    }

    /// Starts a server with our module that first loads the commands of an append-only file.
    pub fn start_loaded(setup: &Setup, commands: &[u8]) -> io::Result<Self> {
        Self::start_from(&setup.program, [&setup.module], false, Some(commands))
    }

    fn start_from<'m>(
        program: &str,
        modules: impl IntoIterator<Item = &'m PathBuf>,
        aof: bool,
        load: Option<&[u8]>,
    ) -> io::Result<Self> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let dir =
            std::env::temp_dir().join(format!("redis-rl-bench-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        if let Some(commands) = load {
            std::fs::write(dir.join("appendonly.aof"), commands)?;
        }
        // The server must not outlive a measurement that is broken off.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", program]);
        command.current_dir(&dir).stdin(Stdio::null()).stdout(Stdio::null());
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args([
            "--databases",
            "64",
            "--maxclients",
            "2000",
            "--enable-debug-command",
            "yes",
        ]);
        command.args(["--logfile", "log", "--appendfsync", "everysec"]);
        command.args(["--auto-aof-rewrite-percentage", "0"]);
        command.args(["--appendonly", if aof || load.is_some() { "yes" } else { "no" }]);
        for module in modules {
            command.arg("--loadmodule").arg(module);
        }
        let child = command.spawn().map_err(|e| io::Error::other(format!("{program}: {e}")))?;
        let mut server = Self { child, dir, port };
        server.wait_until_ready()?;
        if load.is_some() && !aof {
            server.conn()?.ask(&["CONFIG", "SET", "appendonly", "no"])?;
        }
        Ok(server)
    }

    /// Lets the server keep a stream of its changes, as one with replicas does. Without that, and without
    /// an append-only file, it would drop whatever a command gives it to replicate.
    pub fn keep_stream(&self) -> io::Result<()> {
        let mut conn = self.conn()?;
        conn.ask(&["CONFIG", "SET", "repl-diskless-sync", "yes"])?;
        conn.ask(&["CONFIG", "SET", "repl-diskless-sync-delay", "1000"])?;
        conn.ask(&["CONFIG", "SET", "repl-backlog-ttl", "0"])?;
        // A replica that asks for everything and is gone before anything is sent.
        let mut replica = TcpStream::connect(("127.0.0.1", self.port))?;
        replica.write_all(b"PSYNC ? -1\r\n")?;
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            if conn.info("replication", "repl_backlog_active")?.as_deref() == Some("1") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(io::Error::other("the server keeps no stream for replicas"))
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(120) {
            if self.child.try_wait()?.is_some() {
                break;
            }
            if self.conn().and_then(|mut c| c.ask(&["PING"])).is_ok_and(|r| r == "+PONG\r\n") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        Err(io::Error::other(format!("the server did not start:\n{log}")))
    }

    pub fn conn(&self) -> io::Result<Conn> {
        Conn::open(self.port)
    }

    /// Name and version, as the server says.
    pub fn version(&self) -> io::Result<String> {
        let mut conn = self.conn()?;
        if let Some(version) = conn.info("server", "valkey_version")? {
            return Ok(format!("Valkey {version}"));
        }
        Ok(format!("Redis {}", conn.info("server", "redis_version")?.unwrap_or_default()))
    }

    /// Seconds of processor time that the server has used, all its threads together.
    pub fn cpu(conn: &mut Conn) -> io::Result<f64> {
        let all = conn.ask(&["INFO", "cpu"])?;
        let field = |name: &str| {
            let value = all.lines().find_map(|l| l.strip_prefix(name));
            value.and_then(|v| v.trim().parse::<f64>().ok()).unwrap_or(0.0)
        };
        Ok(field("used_cpu_user:") + field("used_cpu_sys:"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
