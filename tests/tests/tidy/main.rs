//! The rules of this repository that a machine can check: `cargo test -p rpcgate-tests --test tidy`.
//!
//! A rule is a plain function from sources (or the workspace's metadata) to findings. One test applies it to the
//! repository, others to planted lines, to show that it can fail. Exceptions are listed here by name, with a reason.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what cannot be read fails it")]

mod alerts;
mod boundaries;
mod circles;
mod contract;
mod crates;
mod deploy;
mod example;
mod layers;
mod names;
mod packages;
mod phrases;
mod repository;
mod size;
mod source;
mod tree;

/// Fails with all findings and with advice.
#[track_caller]
fn none(findings: &[String], advice: &str) {
    assert!(findings.is_empty(), "\n{}\n\n{advice}\n", findings.join("\n"));
}
