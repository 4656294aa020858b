//! Detects the servers installed on this machine, so that tests that need a missing one are reported as ignored. With
//! `RPCGATE_REQUIRE_SERVICES=1` they run nevertheless, and fail.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the mail server in Debian's package.
const AIOSMTPD: &str = "/usr/lib/python3/dist-packages/aiosmtpd";
/// The first version of systemd that checks a unit which is not installed.
const JUDGES: u32 = 250;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(have_postgres)");
    println!("cargo::rustc-check-cfg=cfg(have_redis)");
    println!("cargo::rustc-check-cfg=cfg(have_aiosmtpd)");
    println!("cargo::rustc-check-cfg=cfg(have_haproxy)");
    println!("cargo::rustc-check-cfg=cfg(have_pebble)");
    println!("cargo::rustc-check-cfg=cfg(have_systemd_analyze)");
    println!("cargo::rerun-if-changed={AIOSMTPD}");
    println!("cargo::rerun-if-env-changed=RPCGATE_REQUIRE_SERVICES");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-changed=build.rs");
    let is_required = std::env::var("RPCGATE_REQUIRE_SERVICES").is_ok_and(|value| value == "1");
    if is_required || has_postgres() {
        println!("cargo::rustc-cfg=have_postgres");
    }
    if is_required || has_redis() {
        println!("cargo::rustc-cfg=have_redis");
    }
    if is_required || Path::new(AIOSMTPD).is_dir() {
        println!("cargo::rustc-cfg=have_aiosmtpd");
    }
    if is_required || has_program("haproxy") {
        println!("cargo::rustc-cfg=have_haproxy");
    }
    if is_required || (has_program("pebble") && has_program("pebble-challtestsrv")) {
        println!("cargo::rustc-cfg=have_pebble");
    }
    // Never required: containers have no systemd.
    if systemd_version().is_some_and(|version| version >= JUDGES) {
        println!("cargo::rustc-cfg=have_systemd_analyze");
    }
}

fn path() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}

/// Reports whether the server and the programs that create its databases are in `PATH` or in the folders of Debian's
/// packages.
fn has_postgres() -> bool {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = debian.map(|found| found.path().join("bin"));
    let folder = |server: PathBuf| Some(server.canonicalize().ok()?.parent()?.to_owned());
    let has_all = |folder: &Path| ["initdb", "createdb"].iter().all(|name| folder.join(name).is_file());
    path()
        .into_iter()
        .chain(debian)
        .filter_map(|found| folder(found.join("postgres")))
        .any(|folder| has_all(&folder))
}

/// Returns the version of `systemd-analyze`: 252 of `systemd 252 (252.38-1~deb12u1)`.
fn systemd_version() -> Option<u32> {
    let output = Command::new("systemd-analyze").arg("--version").output().ok()?;
    String::from_utf8(output.stdout).ok()?.split_whitespace().nth(1)?.parse().ok()
}

fn has_redis() -> bool {
    has_program("redis-server")
}

/// Reports whether a program is in `PATH`, or in the folders of packages that only root has in its `PATH`.
fn has_program(name: &str) -> bool {
    let folders = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin"]
        .map(PathBuf::from);
    path().into_iter().chain(folders).any(|folder| folder.join(name).is_file())
}
