//! The gateway as a separate process, which can be killed and started again in the same folder.
//!
//! No path to the gateway's binary is valid in every build, so a test binary is its own gateway: its root contains a
//! test with the name [`SERVE`], which calls [`serve`]. That does nothing unless a [`Site`] has started the process;
//! then it does the same as `rpcgate-server run`.

#![expect(clippy::unwrap_used, reason = "a gateway of the tests that cannot start fails its test")]

use crate::client::TestClient;
use crate::gateway::{Setup, key};
use crate::{TIMEOUT, until};
use rpcgate_config::Config;
use rpcgate_core::clock::Clock;
use rpcgate_server::command::run;
use rpcgate_server::journal::JournalError;
use rpcgate_server::state::State;
use rpcgate_server::{Gateway, StartError, StartOptions};
use rpcgate_store::url_of;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;

/// The name of the test that runs the gateway of a test binary.
pub const SERVE: &str = "serve_where_a_site_asks_for_it";

/// The name of the test that runs the management side of a test binary, if it has one.
pub const MANAGE: &str = "manage_where_a_site_asks_for_it";

/// The variable that names the configuration file. It lacks the prefix of the gateway's own variables, which are
/// settings.
const FILE: &str = "TEST_GATEWAY_CONFIG";

/// Runs the gateway if a [`Site`] has started this process; otherwise does nothing.
///
/// # Panics
/// When the gateway cannot start.
pub fn serve() {
    be(async |file| run::execute(file).await.map_err(|failure| failure.to_string()));
}

/// Runs the management side if a [`Site`] has started this process; otherwise does nothing.
///
/// # Panics
/// When it cannot start.
pub fn manage() {
    be(async |file| {
        rpcgate_admin::command::run::execute(file, &[]).await.map_err(|failure| failure.to_string())
    });
}

fn be(program: impl AsyncFnOnce(&Path) -> Result<(), String>) {
    let Some(file) = std::env::var_os(FILE) else { return };
    std::thread::spawn(|| {
        // Ends with its parent process, even if that is killed.
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::abort();
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if let Err(failure) = runtime.block_on(program(file.as_ref())) {
        panic!("{failure}");
    }
}

/// The state of a gateway: a folder with its configuration, journal and databases. It outlives the processes.
#[derive(Debug)]
pub struct Site {
    folder: TempDir,
    databases: PathBuf,
    /// The database's URL, if the database is not a file in the folder.
    url: Option<String>,
    setup: Setup,
    before: Vec<String>,
}

impl Site {
    /// Creates a folder for gateways of `setup`.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn new(setup: Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let databases = folder.path().join("state");
        Site { folder, databases, url: None, setup, before: Vec::new() }
    }

    /// Creates a folder for gateways of `setup` whose database is at `url`.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn on(url: &str, setup: Setup) -> Self {
        Site { url: Some(url.into()), ..Site::new(setup) }
    }

    /// Creates another gateway of the same setup, with its own folder, on the same databases.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn beside(other: &Site) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Site {
            folder,
            databases: other.databases.clone(),
            url: other.url.clone(),
            setup: other.setup.clone(),
            before: other.before.clone(),
        }
    }

    /// Starts processes through this command, which gets the real command as additional arguments.
    #[must_use]
    pub fn through(mut self, command: &[&str]) -> Self {
        self.before = command.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Sets the configuration of the next process.
    pub fn change(&mut self, setup: Setup) {
        self.setup = setup;
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the folder of the journal.
    pub fn journal(&self) -> PathBuf {
        self.path().join("journal")
    }

    /// Returns the file of the management database. The name of the usage database is derived from it.
    pub fn database(&self) -> PathBuf {
        self.databases.join("rpcgate.db")
    }

    /// Returns the file of the usage database.
    pub fn usage_database(&self) -> PathBuf {
        self.databases.join("rpcgate-usage.db")
    }

    /// Returns the journal's segments, oldest first.
    ///
    /// # Panics
    /// When the folder cannot be read.
    pub fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.journal()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut segments: Vec<_> =
            paths.filter(|path| path.extension() == Some(OsStr::new("segment"))).collect();
        segments.sort();
        segments
    }

    /// Copies the journal to another site, as a copy of its disk would.
    ///
    /// # Panics
    /// When it cannot be copied.
    pub fn copy_journal(&self, to: &Site) {
        fs::create_dir_all(to.journal()).unwrap();
        for entry in fs::read_dir(self.journal()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), to.journal().join(entry.file_name())).unwrap();
        }
    }

    /// Starts a gateway with this clock in this process instead of a separate one. Waits until it is ready.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn within(&self, clock: Arc<dyn Clock>) -> Gateway {
        fs::create_dir_all(&self.databases).unwrap();
        let look = async {
            loop {
                // Other tests start processes at the same time. Until such a process executes its own program, it holds
                // the open files of this one, including the lock of the journal.
                match State::open(&self.config(), clock.clone()) {
                    Err(StartError::Journal(JournalError::InUse { .. })) => {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    state => return Arc::new(state.unwrap()),
                }
            }
        };
        let Ok(state) = timeout(TIMEOUT, look).await else { panic!("the journal is in use") };
        let options = StartOptions { clock, state: Some(state.clone()), ..StartOptions::default() };
        let gateway = Gateway::start(self.config(), options).await.unwrap();
        assert_eq!(timeout(TIMEOUT, state.ready()).await, Ok(true), "the gateway is not ready");
        gateway
    }

    /// Returns the configuration of the processes.
    pub fn config(&self) -> Config {
        self.full_setup().config()
    }

    fn full_setup(&self) -> Setup {
        let url = self.url.clone().unwrap_or_else(|| url_of(&self.database()));
        let dir = self.journal();
        self.setup
            .clone()
            .set("database", &format!("url = \"{url}\""))
            .set("journal", &format!("dir = \"{}\"", dir.display()))
    }

    /// Starts a process and waits until it is ready.
    ///
    /// # Panics
    /// When it does not.
    pub async fn start(&self) -> Process {
        fs::create_dir_all(&self.databases).unwrap();
        let process = self.begin().await;
        process.ready().await;
        process
    }

    /// Starts a process and waits until it listens. Does not create the folder of the databases.
    ///
    /// # Panics
    /// When it ends before that.
    pub async fn begin(&self) -> Process {
        self.spawn().listening().await
    }

    /// Writes the configuration file of the processes.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self) -> PathBuf {
        let file = self.path().join("rpcgate.toml");
        fs::write(&file, self.full_setup().text()).unwrap();
        file
    }

    /// Starts a process.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn spawn(&self) -> Process {
        self.run(SERVE)
    }

    /// Starts a process of the management side and waits until it listens.
    ///
    /// # Panics
    /// When it ends before that.
    pub async fn manage(&self) -> Process {
        self.run(MANAGE).listening().await
    }

    /// Waits for the one mail of the management side and returns the token in its link.
    ///
    /// # Panics
    /// When no mail comes, or it has no link.
    pub async fn mailed(&self) -> String {
        let outbox = self.path().join("outbox");
        let file = || {
            let files = fs::read_dir(&outbox).ok()?.map(|file| file.unwrap().path());
            files.into_iter().find(|file| file.extension().is_some_and(|ending| ending == "eml"))
        };
        until("a mail comes", || file().is_some()).await;
        let mail = fs::read_to_string(file().unwrap()).unwrap();
        let link = mail.lines().find(|line| line.contains("?token=")).unwrap();
        link.split_once("?token=").unwrap().1.trim().to_owned()
    }

    fn run(&self, test: &str) -> Process {
        let file = self.write();
        let own = std::env::current_exe().unwrap();
        let mut words: Vec<&OsStr> = self.before.iter().map(OsStr::new).collect();
        words.push(own.as_os_str());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args([test, "--exact", "--nocapture", "--test-threads=1"]);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("RPCGATE_") {
                command.env_remove(name);
            }
        }
        command.env(FILE, &file).current_dir(self.path());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Log::of(child.stderr.take().unwrap());
        Process { child, log, addr: SocketAddr::from(([127, 0, 0, 1], 0)) }
    }
}

/// A running gateway. It is killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: Log,
    addr: SocketAddr,
}

impl Process {
    /// Returns the address at which it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns a client with the key called `default`.
    pub fn client(&self) -> TestClient {
        TestClient::new(self.addr, Some(&key("default")))
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Waits until it listens.
    ///
    /// # Panics
    /// When it ends before that.
    #[must_use]
    pub async fn listening(mut self) -> Self {
        let look = async {
            loop {
                if let Some(line) = self.log.lines("serving").first() {
                    let addr = line["addr"].as_str().or_else(|| line["listen"].as_str());
                    break addr.unwrap().parse().unwrap();
                }
                assert!(!self.log.has_ended(), "it did not start:\n{}", self.log.text());
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let Ok(addr) = timeout(TIMEOUT, look).await else {
            panic!("it does not listen:\n{}", self.log.text())
        };
        self.addr = addr;
        self
    }

    /// Waits until it is ready.
    ///
    /// # Panics
    /// When it does not.
    pub async fn ready(&self) {
        let look = async {
            while self.health().await != 200 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        assert!(timeout(TIMEOUT, look).await.is_ok(), "it is not ready:\n{}", self.log.text());
    }

    /// Returns the HTTP status of the readiness check.
    pub async fn health(&self) -> u16 {
        TestClient::new(self.addr, None).send("GET", "/readyz", &[], b"").await.status
    }

    /// Kills the process with SIGKILL, as the kernel does when it is out of memory.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Suspends the process: its connections stay open, and it does nothing.
    ///
    /// # Panics
    /// When it cannot be stopped.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Resumes the process.
    ///
    /// # Panics
    /// When it cannot be resumed.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// Makes the process read its configuration again.
    ///
    /// # Panics
    /// When the signal cannot be sent.
    pub fn hang_up(&self) {
        self.signal("HUP");
    }

    fn signal(&self, name: &str) {
        // The shell's built-in `kill`: not every machine has a program of that name.
        let command = format!("kill -{name} $0");
        let sent = Command::new("sh").args(["-c", &command, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Sends SIGTERM and waits until the process has ended.
    ///
    /// # Panics
    /// When it does not.
    pub async fn stop(mut self) -> (ExitStatus, Log) {
        self.signal("TERM");
        let look = async {
            loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    break status;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let Ok(status) = timeout(2 * TIMEOUT, look).await else {
            panic!("it does not end:\n{}", self.log.text());
        };
        (status, self.log.clone())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The standard error of a process, line by line.
#[derive(Clone, Debug)]
pub struct Log(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    lines: Vec<String>,
    has_ended: bool,
}

impl Log {
    fn of(source: impl Read + Send + 'static) -> Self {
        let log = Log(Arc::default());
        let own = log.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(source).lines().map_while(Result::ok) {
                own.lock(|heard| heard.lines.push(line));
            }
            own.lock(|heard| heard.has_ended = true);
        });
        log
    }

    fn lock<T>(&self, look: impl FnOnce(&mut Heard) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn has_ended(&self) -> bool {
        self.lock(|heard| heard.has_ended)
    }

    /// Returns the whole text.
    pub fn text(&self) -> String {
        self.lock(|heard| heard.lines.join("\n"))
    }

    /// Returns the lines whose message contains `words`, as JSON.
    pub fn lines(&self, words: &str) -> Vec<Value> {
        let parsed: Vec<Value> = self
            .lock(|heard| heard.lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect());
        parsed
            .into_iter()
            .filter(|line| line["message"].as_str().is_some_and(|text| text.contains(words)))
            .collect()
    }

    /// Returns the sum of a number in these lines.
    pub fn sum(&self, words: &str, field: &str) -> u64 {
        self.lines(words).iter().map(|line| line[field].as_u64().unwrap_or_default()).sum()
    }
}
