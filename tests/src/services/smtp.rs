//! A mail server (aiosmtpd) for a test, which ends with the process that started it.

#![expect(clippy::unwrap_used, reason = "a server of the tests that cannot start fails its test")]

use crate::TIMEOUT;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

/// The Python for which Debian's package installs the server.
const PYTHON: &str = "/usr/bin/python3";

/// A running server. Its user is `post`, with the password `p:w%`. It refuses recipients whose address begins with
/// `gone@`.
#[derive(Debug)]
pub struct SmtpServer {
    port: u16,
    is_implicit_tls: bool,
    /// Its standard input is closed when this process ends, even if it is killed; then the server ends.
    server: Child,
    mails: UnboundedReceiver<Value>,
}

impl SmtpServer {
    /// Starts a server without encryption and log-in at this port.
    ///
    /// # Panics
    /// When it is not installed, or does not start.
    pub fn plain_at(port: u16) -> Self {
        SmtpServer::start(port, &[Path::new("plain")])
    }

    /// Starts a server that accepts mails only after STARTTLS and a log-in, with the certificate and the key in these
    /// files.
    ///
    /// # Panics
    /// When it is not installed, or does not start.
    pub fn starttls([certificate, key]: [&Path; 2]) -> Self {
        SmtpServer::start(0, &[Path::new("starttls"), certificate, key])
    }

    /// Starts a server with TLS from the first byte that accepts mails only after a log-in, with the certificate and
    /// the key in these files.
    ///
    /// # Panics
    /// When it is not installed, or does not start.
    pub fn implicit_tls([certificate, key]: [&Path; 2]) -> Self {
        SmtpServer::start(0, &[Path::new("implicit"), certificate, key])
    }

    fn start(port: u16, arguments: &[&Path]) -> Self {
        let mut command = Command::new(PYTHON);
        command.args(["-c", include_str!("smtp_server.py"), &port.to_string()]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let Some(Ok(port)) = lines.next() else { panic!("needs aiosmtpd (apt install python3-aiosmtpd)") };
        let (sender, mails) = unbounded_channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        let is_implicit_tls = arguments[0] == Path::new("implicit");
        SmtpServer { port: port.parse().unwrap(), is_implicit_tls, server, mails }
    }

    /// Returns the port at which it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reports whether it uses TLS from the first byte.
    pub fn is_implicit_tls(&self) -> bool {
        self.is_implicit_tls
    }

    /// Returns the next mail: `from`, `to`, `encrypted`, `user` and `content`.
    ///
    /// # Panics
    /// When none comes.
    pub async fn mail(&mut self) -> Value {
        timeout(TIMEOUT, self.mails.recv()).await.unwrap().unwrap()
    }

    /// Returns the mails that have arrived and were not read yet.
    pub fn rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.mails.try_recv().ok()).collect()
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
