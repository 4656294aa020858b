//! A TCP balancer that sends its clients' addresses to the server and ends with the process that started it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a server of the tests that cannot start fails its test"
)]

use super::postgres::free_port;
use std::fmt::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Folders in addition to `PATH` that may contain the program.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];

fn binary() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join("haproxy")).find(|file| file.is_file())
}

/// A running balancer.
#[derive(Debug)]
pub struct Haproxy {
    /// The addresses at which it listens, one for each option that it was started with.
    pub addrs: Vec<SocketAddr>,
    shell: Child,
    /// Closed when this process ends, even if it is killed; then the shell kills the balancer.
    leash: Option<ChildStdin>,
    _folder: TempDir,
}

impl Haproxy {
    /// Starts a balancer that forwards connections to `server` and checks it every 50 ms. It listens at one address for
    /// each of `options`, the words after the server's own in the configuration.
    ///
    /// # Panics
    /// When it is not installed, or does not start.
    pub fn before(server: SocketAddr, options: &[&str]) -> Haproxy {
        for _ in 0..10 {
            // Another process may have taken a port.
            if let Some(balancer) = Haproxy::start(server, options) {
                return balancer;
            }
        }
        panic!("haproxy does not start");
    }

    fn start(server: SocketAddr, options: &[&str]) -> Option<Haproxy> {
        let program = binary().expect("needs haproxy (apt install haproxy)");
        let addrs: Vec<_> = options.iter().map(|_| SocketAddr::from(([127, 0, 0, 1], free_port()))).collect();
        let mut text =
            "defaults\nmode tcp\ntimeout connect 5s\ntimeout client 60s\ntimeout server 60s\n".to_owned();
        for (number, (addr, option)) in addrs.iter().zip(options).enumerate() {
            write!(text, "listen l{number}\nbind {addr}\nserver s {server} check inter 50ms {option}\n")
                .unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(&file, text).unwrap();
        let script = "\"$0\" -db -f \"$1\" >/dev/null 2>&1 & pid=$!; read _; kill -9 $pid; wait";
        let mut shell = Command::new("sh");
        shell.args([Path::new("-c"), Path::new(script), &program, &file]);
        let mut shell = shell.stdin(Stdio::piped()).spawn().unwrap();
        let leash = shell.stdin.take();
        let balancer = Haproxy { addrs, shell, leash, _folder: folder };
        balancer.is_up().then_some(balancer)
    }

    fn is_up(&self) -> bool {
        (0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            self.addrs.iter().all(|addr| TcpStream::connect(addr).is_ok())
        })
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        self.leash = None;
        let _ = self.shell.wait();
    }
}
