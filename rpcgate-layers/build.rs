//! Checks whether the machine has the programs that some tests need, so that these tests are ignored if it has not.

use std::path::PathBuf;

/// Folders in which a server may be, in addition to those of `PATH`.
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
