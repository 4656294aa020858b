//! A Redis server for a test, which ends with the process that started it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a server of the tests that cannot start fails its test"
)]

use super::postgres::free_port;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Folders in addition to `PATH` that may contain the server.
const FOLDERS: [&str; 4] = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"];

fn binary() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join("redis-server")).find(|file| file.is_file())
}

/// A running server. It writes nothing to a disk, and ends when this is dropped or when this process ends in any way.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    tls: Option<Tls>,
    shell: Child,
    /// Closed when this process ends, even if it is killed; then the shell kills the server.
    leash: Option<ChildStdin>,
    pid: u32,
}

#[derive(Clone, Debug)]
struct Tls {
    port: u16,
    /// The files of the server's certificate, its key, and the authority of client certificates.
    files: [PathBuf; 3],
    requires_client_certificate: bool,
}

impl RedisServer {
    /// Starts a server.
    ///
    /// # Panics
    /// When it is not installed, or does not start.
    pub fn start() -> RedisServer {
        RedisServer::somewhere(&|_| None)
    }

    /// Starts a server with TLS at [`secure_port`](Self::secure_port), with the certificate in the first file and the
    /// key in the second. With `requires_client_certificate` it requires client certificates from the authority in the
    /// third. The harness itself uses another port.
    ///
    /// # Panics
    /// When it is not installed, or does not start.
    pub fn secure(files: &[PathBuf; 3], requires_client_certificate: bool) -> RedisServer {
        RedisServer::somewhere(&|port| Some(Tls { port, files: files.clone(), requires_client_certificate }))
    }

    fn somewhere(tls: &dyn Fn(u16) -> Option<Tls>) -> RedisServer {
        for _ in 0..10 {
            // Another process may have taken a port.
            if let Some(redis) = RedisServer::on(free_port(), tls(free_port())) {
                return redis;
            }
        }
        panic!("redis-server does not start");
    }

    /// Returns the server of all tests of this process that do not disturb it. Each must use keys with its own
    /// [`prefix`].
    pub fn common() -> &'static RedisServer {
        static COMMON: OnceLock<RedisServer> = OnceLock::new();
        COMMON.get_or_init(RedisServer::start)
    }

    fn on(port: u16, tls: Option<Tls>) -> Option<RedisServer> {
        let server = binary().expect("needs redis-server (apt install redis-server)");
        let script = "\"$0\" --bind 127.0.0.1 --save '' --appendonly no --dir / --port \"$@\" >/dev/null 2>&1 & \
                      pid=$!; echo $pid; read _; kill -9 $pid; wait";
        let mut shell = Command::new("sh");
        shell.args([Path::new("-c"), Path::new(script), &server, Path::new(&port.to_string())]);
        if let Some(Tls { port, files: [certificate, key, authority], requires_client_certificate }) = &tls {
            shell.args(["--tls-port", &port.to_string()]);
            shell.arg("--tls-cert-file").arg(certificate).arg("--tls-key-file").arg(key);
            shell.arg("--tls-ca-cert-file").arg(authority);
            shell.args(["--tls-auth-clients", if *requires_client_certificate { "yes" } else { "no" }]);
        }
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let leash = shell.stdin.take();
        let mut out = shell.stdout.take().unwrap();
        let mut text = String::new();
        let mut byte = [0];
        while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            text.push(byte[0].into());
        }
        let redis = RedisServer { port, tls, shell, leash, pid: text.parse().unwrap() };
        redis.is_up().then_some(redis)
    }

    /// Waits until it answers; returns `false` if it has ended.
    fn is_up(&self) -> bool {
        for _ in 0..3_000 {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                let mut answer = [0; 5];
                let asked = stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut answer));
                if asked.is_ok() && &answer == b"+PONG" {
                    return true;
                }
            }
            if !self.signal("0") {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Returns the server's URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Returns the port of the TLS listener.
    ///
    /// # Panics
    /// When it has none.
    pub fn secure_port(&self) -> u16 {
        self.tls.as_ref().expect("it has no certificate").port
    }

    /// Suspends the server: connections stay open without answers.
    pub fn freeze(&self) {
        assert!(self.signal("STOP"));
    }

    /// Resumes the server after [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        assert!(self.signal("CONT"));
    }

    /// Kills the server, which loses its data. The port stays reserved.
    pub fn kill(&mut self) {
        self.leash = None;
        let _ = self.shell.wait();
    }

    /// Starts the server again after [`kill`](Self::kill), empty, at the same port.
    ///
    /// # Panics
    /// When it does not start.
    pub fn revive(&mut self) {
        self.kill();
        *self = RedisServer::on(self.port, self.tls.clone()).expect("redis-server does not start again");
    }

    /// Sends one line and returns the first line of the answer.
    ///
    /// # Panics
    /// When it is not running.
    pub fn say(&self, line: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut answer = vec![0; 1 << 16];
        let read = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..read]).into_owned()
    }

    fn signal(&self, signal: &str) -> bool {
        let pid = self.pid.to_string();
        let kill = Command::new("kill").args([&format!("-{signal}"), &pid]).stderr(Stdio::null()).status();
        kill.is_ok_and(|status| status.success())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a unique prefix for the key names of a test.
pub fn prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("t{}:", NEXT.fetch_add(1, Relaxed))
}
