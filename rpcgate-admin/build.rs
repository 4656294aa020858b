//! Detects the programs that tests need, so that these tests are reported as ignored where a program is missing: those that
//! run the examples of the documentation, and the PostgreSQL server. With `RPCGATE_REQUIRE_SERVICES=1` the tests on the
//! server run nevertheless, and fail.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-env-changed=RPCGATE_REQUIRE_SERVICES");
    println!("cargo::rerun-if-env-changed=PATH");
    let is_required = std::env::var("RPCGATE_REQUIRE_SERVICES").is_ok_and(|value| value == "1");
    let has_postgres = is_required || is_installed("postgres") || Path::new("/usr/lib/postgresql").is_dir();
    let found = [
        ("have_postgres", has_postgres),
        ("have_python", is_installed("python3")),
        ("have_node", is_installed("node")),
        ("have_go", is_installed("go")),
    ];
    for (cfg, is_found) in found {
        println!("cargo::rustc-check-cfg=cfg({cfg})");
        if is_found {
            println!("cargo::rustc-cfg={cfg}");
        }
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
