//! A PostgreSQL server for each test process, from the installed binaries.
//!
//! This file uses only std and nothing of rpcgate, so that unit tests of any crate can include it by its path.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// The package to install.
pub const MISSING: &str = "needs postgresql (apt install postgresql)";

/// The folders of Debian's packages, which are not in `PATH`.
const FOLDERS: &str = "/usr/lib/postgresql";
const USER: &str = "rpcgate";
const PASSWORD: &str = "not a secret";
const ENCODED: &str = "not%20a%20secret";
/// The user `nobody`: the server does not run as root.
const NOBODY: u32 = 65_534;
/// The number of polls for an expected event: half a minute in total.
const LOOKS: u32 = 1_500;
const PAUSE: Duration = Duration::from_millis(20);

/// Runs the server, and ends it when standard input ends or delivers a word, which also happens when the test process
/// is killed. Then removes all files of the server, unless the word is `keep`.
const KEEPER: &str = r#"
    trap '' INT TERM HUP
    "$1/postgres" -D "$2/data" -p "$3" -c listen_addresses=127.0.0.1 -c unix_socket_directories='' \
        -c fsync=off -c full_page_writes=off -c shared_buffers=32MB -c max_connections=200 &
    server=$!
    echo $server
    read word
    kill -QUIT $server
    kill -CONT $server
    wait $server
    [ "$word" = keep ] || rm -rf "$2"
"#;

/// Returns the folder with the server's binaries: in `PATH`, or Debian's newest.
pub fn binaries() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<PathBuf> =
        fs::read_dir(FOLDERS).into_iter().flatten().flatten().map(|found| found.path().join("bin")).collect();
    debian.sort();
    std::env::split_paths(&path).chain(debian.into_iter().rev()).find_map(|folder| {
        let server = folder.join("postgres").canonicalize().ok()?;
        let folder = server.parent()?;
        ["initdb", "createdb"].iter().all(|name| folder.join(name).is_file()).then(|| folder.to_owned())
    })
}

/// A server. It ends when this is dropped, or with the process.
#[derive(Debug)]
pub struct Postgres {
    binaries: PathBuf,
    folder: PathBuf,
    port: u16,
    /// The script that runs it, and the server's process.
    keeper: Option<(Child, u32)>,
    databases: AtomicU32,
}

impl Postgres {
    /// Returns the server that all tests of a process share.
    ///
    /// # Panics
    /// When it is not installed, or does not start.
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<Postgres> = OnceLock::new();
        SERVER.get_or_init(Self::launch)
    }

    /// Starts a separate server, which may be stopped or frozen.
    ///
    /// # Panics
    /// When it is not installed, or does not start.
    pub fn launch() -> Self {
        Self::launch_with(None)
    }

    /// Starts a separate server that accepts only TLS, with this certificate and key as PEM text.
    ///
    /// # Panics
    /// When it is not installed, or does not start.
    #[allow(dead_code, reason = "not every crate that takes this file in needs it")]
    pub fn secure(certificate: &str, key: &str) -> Self {
        Self::launch_with(Some((certificate, key)))
    }

    fn launch_with(tls: Option<(&str, &str)>) -> Self {
        let Some(binaries) = binaries() else { panic!("{MISSING}") };
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("rpcgate-postgres-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        sound("make its folder", fs::create_dir(&folder));
        if is_root(&folder) {
            sound("give its folder away", chown(&folder, Some(NOBODY), Some(NOBODY)));
        }
        sound("close its folder", fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)));
        let mut server = Postgres { binaries, folder, port: 0, keeper: None, databases: AtomicU32::new(0) };
        let password = server.folder.join("password");
        hand_over(&password, PASSWORD);
        let mut initdb = server.command("initdb");
        initdb.args([
            "--no-sync",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--username",
            USER,
        ]);
        initdb.arg("--pwfile").arg(&password).arg("--pgdata").arg(server.folder.join("data"));
        if let Err(why) = done(&mut initdb) {
            panic!("initdb failed: {why}");
        }
        if let Some((certificate, key)) = tls {
            let data = server.folder.join("data");
            hand_over(&data.join("server.crt"), certificate);
            hand_over(&data.join("server.key"), key);
            hand_over(&data.join("postgresql.auto.conf"), "ssl = on\n");
            hand_over(&data.join("pg_hba.conf"), "hostssl all all 127.0.0.1/32 scram-sha-256\n");
        }
        server.start();
        server
    }

    /// Starts it again after a stop, at the same address.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(&mut self) {
        assert!(self.keeper.is_none(), "it runs");
        let was = self.port;
        for _ in 0..8 {
            // Another process may take the port.
            let port = if was == 0 { free_port() } else { was };
            let mut keeper = self.nobody(Command::new("sh"));
            let log = sound("make its log", fs::File::create(self.folder.join("log")));
            keeper.arg("-c").arg(KEEPER).arg("keeper").arg(&self.binaries).arg(&self.folder);
            keeper.arg(port.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
            // Ctrl-C is meant for the tests, and the server must outlive them.
            let mut keeper = sound("start", keeper.process_group(0).spawn());
            let mut line = String::new();
            if let Some(stdout) = keeper.stdout.as_mut() {
                sound("report its process", BufReader::new(stdout).read_line(&mut line));
            }
            let process = sound("report its process", line.trim().parse());
            self.port = port;
            self.keeper = Some((keeper, process));
            if self.answers() {
                return;
            }
            let said = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(said.contains("Address already in use"), "the server does not start: {said}");
            self.stop();
        }
        panic!("no free port for a server");
    }

    /// Stops the server at once, as if it had crashed. Committed data is there when it is started again.
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop(&mut self) {
        self.end("keep\n");
    }

    /// Suspends all processes of the server: connections stay open without answers.
    ///
    /// # Panics
    /// When that is not possible here.
    pub fn freeze(&self) {
        let Some((_, server)) = self.keeper else { panic!("it does not run") };
        // The first process creates the others, so it is suspended before they are listed.
        signal("STOP", &[server]);
        signal("STOP", &children(server));
    }

    /// Resumes it.
    ///
    /// # Panics
    /// When that is not possible here.
    pub fn thaw(&self) {
        let Some((_, server)) = self.keeper else { panic!("it does not run") };
        signal("CONT", &children(server));
        signal("CONT", &[server]);
    }

    /// Creates an empty database and returns its URL.
    ///
    /// # Panics
    /// When it cannot be created.
    pub fn database(&self) -> String {
        self.new_database(&[])
    }

    /// Creates a copy of the database at `url`, which is on this server and has no open connections. Returns the copy's
    /// URL.
    ///
    /// # Panics
    /// When it cannot be created.
    #[allow(dead_code, reason = "not every crate that takes this file in needs it")]
    pub fn copy_of(&self, url: &str) -> String {
        self.new_database(&["--template", name_in(url)])
    }

    fn new_database(&self, options: &[&str]) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        if let Err(why) = self.create(&name, options) {
            panic!("createdb failed: {why}");
        }
        format!("postgres://{USER}:{ENCODED}@{}/{name}", self.address())
    }

    /// Returns the variables by which PostgreSQL's own programs find the database at `url`, one of this server.
    #[allow(dead_code, reason = "not every crate that takes this file in needs it")]
    pub fn variables(&self, url: &str) -> [(&'static str, String); 5] {
        [
            ("PGHOST", self.address().ip().to_string()),
            ("PGPORT", self.port.to_string()),
            ("PGUSER", USER.to_owned()),
            ("PGPASSWORD", PASSWORD.to_owned()),
            ("PGDATABASE", name_in(url).to_owned()),
        ]
    }

    /// Returns the server's address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn answers(&self) -> bool {
        for _ in 0..LOOKS {
            match self.create("ready", &[]) {
                Ok(()) => return true,
                Err(why) if why.contains("already exists") => return true,
                Err(_) if self.keeper.as_ref().is_none_or(|(_, server)| has_ended(*server)) => return false,
                Err(_) => sleep(PAUSE),
            }
        }
        false
    }

    fn create(&self, name: &str, options: &[&str]) -> Result<(), String> {
        // A command that runs as another user is forked from the test process, which copies the page tables of a
        // gigabyte.
        let mut createdb = self.in_folder(Command::new(self.binaries.join("createdb")));
        createdb.args(["--host", "127.0.0.1", "--port", &self.port.to_string(), "--username", USER]);
        createdb
            .args(options)
            .args(["--no-password", name])
            .env("PGPASSWORD", PASSWORD)
            .env("PGCONNECT_TIMEOUT", "10");
        done(&mut createdb)
    }

    fn command(&self, name: &str) -> Command {
        let mut path = OsString::from(&self.binaries);
        path.push("/");
        path.push(name);
        self.nobody(Command::new(path))
    }

    fn in_folder(&self, mut command: Command) -> Command {
        // The server must not read the certificates of the user who runs the tests, and may have no access to them.
        command.current_dir(&self.folder).env("LC_ALL", "C").env("HOME", &self.folder);
        command
    }

    /// Returns a command in the server's folder that does not run as root, because the server refuses to.
    fn nobody(&self, command: Command) -> Command {
        let mut command = self.in_folder(command);
        if is_root(Path::new("/proc/self")) {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn end(&mut self, word: &str) {
        let Some((mut keeper, _)) = self.keeper.take() else { return };
        if let Some(mut stdin) = keeper.stdin.take() {
            let _ = stdin.write_all(word.as_bytes());
        }
        sound("end", keeper.wait());
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end("");
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Writes a file that only the server may read.
fn hand_over(file: &Path, text: &str) {
    sound("write its files", fs::write(file, text));
    sound("close its files", fs::set_permissions(file, fs::Permissions::from_mode(0o600)));
    if is_root(file) {
        sound("give its files away", chown(file, Some(NOBODY), Some(NOBODY)));
    }
}

fn name_in(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

fn is_root(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.uid() == 0)
}

/// Returns a free port below those that the system gives to outgoing connections: otherwise, while the server is down,
/// a connection of another test could take its port, and it could not start there again.
///
/// # Panics
/// When there is none.
pub fn free_port() -> u16 {
    const PORTS: Range<u64> = 20_000..32_000;
    let random = || PORTS.start + RandomState::new().hash_one(0_u8) % (PORTS.end - PORTS.start);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let mut ports = (0..1_000).filter_map(|_| u16::try_from(random()).ok());
    let Some(port) = ports.find(is_free) else { panic!("no free port for a server") };
    port
}

/// Returns the fields of `/proc/PID/stat` after the name, which may contain anything: first the state, then the parent.
fn stat(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.trim_start().to_owned())
}

/// Reports whether a process has ended, possibly as a zombie.
fn has_ended(process: u32) -> bool {
    stat(process).is_none_or(|stat| stat.starts_with('Z'))
}

fn children(parent: u32) -> Vec<u32> {
    let parent_of = |process: &u32| stat(*process)?.split_whitespace().nth(1)?.parse().ok();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = all.filter_map(|found| found.file_name().to_str()?.parse().ok());
    all.filter(|process| parent_of(process) == Some(parent)).collect()
}

fn signal(name: &str, processes: &[u32]) {
    let processes: Vec<String> = processes.iter().map(u32::to_string).collect();
    let mut kill = Command::new("sh");
    kill.arg("-c").arg(format!("kill -{name} {}", processes.join(" ")));
    // A process may have ended.
    let _ = done(&mut kill);
}

fn done(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

fn sound<T, E: Display>(what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("the server cannot {what}: {error}"))
}
