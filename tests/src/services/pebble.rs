//! A certificate authority that speaks ACME, and a name server that sends all its checks to this host. Both end with
//! the process that started them.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a server of the tests that cannot start fails its test"
)]

use crate::certificate::TestCertificate;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The lifetime of its certificates in seconds: 90 days.
const LIFE: u64 = 7_776_000;

/// The address and the requirements of an authority. A restart erases all its data.
#[derive(Debug)]
pub struct Pebble {
    /// The port at which it checks names over TLS.
    pub tls_port: u16,
    /// The port at which it checks names over HTTP.
    pub http_port: u16,
    api: u16,
    management: u16,
    names: u16,
    names_management: u16,
    /// The identifier and the key of the account that clients need, if it requires one.
    account: Option<(String, String)>,
    certificate: TestCertificate,
    folder: TempDir,
}

impl Default for Pebble {
    fn default() -> Self {
        Self::new()
    }
}

impl Pebble {
    /// Creates an authority that is not started yet, with ports that are free now.
    ///
    /// # Panics
    /// When no ports are free.
    pub fn new() -> Self {
        let free: Vec<_> = (0..6).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let ports: Vec<_> = free.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        let [tls_port, http_port, api, management, names, names_management] = ports[..] else {
            unreachable!("there are six")
        };
        let certificate = TestCertificate::new();
        let folder = tempfile::tempdir().unwrap();
        Pebble {
            tls_port,
            http_port,
            api,
            management,
            names,
            names_management,
            account: None,
            certificate,
            folder,
        }
    }

    /// Requires an account with this identifier and key, in base64url, of its clients.
    #[must_use]
    pub fn with_account(mut self, id: &str, key: &str) -> Self {
        self.account = Some((id.into(), key.into()));
        self
    }

    /// Returns the URL of its directory.
    pub fn directory_url(&self) -> String {
        format!("https://localhost:{}/dir", self.api)
    }

    /// Returns the file with the certificate of its own servers.
    pub fn ca_file(&self) -> PathBuf {
        let [certificate, _] = self.certificate.files();
        certificate
    }

    /// Returns the address of its management interface, which shows its certificates.
    pub fn management(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.management).into()
    }

    /// Starts the authority.
    ///
    /// # Panics
    /// When it is not installed, or does not start.
    pub fn run(&self) -> PebbleProcess {
        let [certificate, key] = self.certificate.files();
        let at = |port: u16| format!("127.0.0.1:{port}");
        let account: serde_json::Map<_, _> =
            self.account.iter().map(|(id, key)| (id.clone(), key.clone().into())).collect();
        let config = json!({ "pebble": {
            "listenAddress": at(self.api),
            "managementListenAddress": at(self.management),
            "certificate": certificate,
            "privateKey": key,
            "httpPort": self.http_port,
            "tlsPort": self.tls_port,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": self.account.is_some(),
            "externalAccountMACKeys": account,
            "certificateValidityPeriod": LIFE,
        } });
        let file = self.folder.path().join("pebble.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let script = "\"$0\" -config \"$2\" -dnsserver \"$3\" >/dev/null 2>&1 & pebble=$!; \
                      \"$1\" -defaultIPv6 '' -dns01 \"$3\" -http01 '' -https01 '' -tlsalpn01 '' -management \"$4\" \
                      >/dev/null 2>&1 & names=$!; read _; kill -9 $pebble $names; wait";
        let mut shell = Command::new("sh");
        shell.args([
            Path::new("-c"),
            Path::new(script),
            &binary("pebble"),
            &binary("pebble-challtestsrv"),
            &file,
        ]);
        shell.args([at(self.names), at(self.names_management)]);
        // By default it waits at random before it checks a name, does not check again what it has checked, and refuses
        // requests at random.
        shell.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_AUTHZREUSE", "0").env("PEBBLE_WFE_NONCEREJECT", "0");
        let mut shell = shell.stdin(Stdio::piped()).spawn().unwrap();
        let leash = shell.stdin.take();
        let process = PebbleProcess { shell, leash };
        let all = [self.api, self.management, self.names, self.names_management];
        let is_up = (0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            all.iter().all(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok())
        });
        assert!(is_up, "pebble does not start");
        process
    }
}

/// The running authority. Once this is dropped its ports refuse connections.
#[derive(Debug)]
pub struct PebbleProcess {
    shell: Child,
    /// Closed when this process ends, even if it is killed; then the shell kills the servers and waits for their end: a
    /// server that is about to die still accepts connections, and resets them.
    leash: Option<ChildStdin>,
}

impl Drop for PebbleProcess {
    fn drop(&mut self) {
        self.leash = None;
        let _ = self.shell.wait();
    }
}

/// Finds the program of this name, which must be installed.
fn binary(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/bin")]);
    let found = folders.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()));
    found.expect("needs pebble (apt install pebble)")
}
