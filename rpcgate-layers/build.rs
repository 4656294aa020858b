//! Says whether the machine has what some tests need, so that they are shown as ignored where it has not.

use std::path::PathBuf;

/// Where a server may be besides the folders of `PATH`.
const FOLDERS: [&str; 4] = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(have_redis)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-env-changed=RPCGATE_REQUIRE_SERVICES");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(FOLDERS.iter().map(PathBuf::from));
    // Where services are required, a test without its server fails instead of being ignored.
    let required = std::env::var_os("RPCGATE_REQUIRE_SERVICES").is_some_and(|value| value == "1");
    if required || folders.any(|folder| folder.join("redis-server").is_file()) {
        println!("cargo::rustc-cfg=have_redis");
    }
}
