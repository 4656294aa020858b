//! Detects a PostgreSQL server on this machine, so that tests that need one are reported as ignored without it. With
//! `RPCGATE_REQUIRE_SERVICES=1` they run nevertheless, and fail.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(have_postgres)");
    println!("cargo::rerun-if-env-changed=RPCGATE_REQUIRE_SERVICES");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-changed=/usr/lib/postgresql");
    let is_required = std::env::var("RPCGATE_REQUIRE_SERVICES").is_ok_and(|value| value == "1");
    if is_required || has_postgres() {
        println!("cargo::rustc-cfg=have_postgres");
    }
}

/// Looks for the server and its programs in the path and where Debian's packages put them.
fn has_postgres() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = debian.map(|found| found.path().join("bin"));
    let folder = |server: PathBuf| Some(server.canonicalize().ok()?.parent()?.to_owned());
    let folders =
        std::env::split_paths(&path).chain(debian).filter_map(|found| folder(found.join("postgres")));
    let has_all = |folder: &Path| ["initdb", "createdb"].iter().all(|name| folder.join(name).is_file());
    folders.into_iter().any(|folder| has_all(&folder))
}
