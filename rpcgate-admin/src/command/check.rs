//! `rpcgate-admin check`: what a configuration comes to.

use rpcgate_core::chain::Facts;
use rpcgate_core::config::{LoadError, Sources};
use std::io::Write;
use std::path::Path;
use std::{fmt, io};

/// Why a check came to no good end.
#[derive(Debug)]
pub enum Failure {
    /// The configuration cannot be used.
    Configuration(LoadError),
    /// What is in force could not be written.
    Output(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Configuration(error) => error.fmt(f),
            Failure::Output(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

/// Reads and checks the configuration in `file` and the environment, and writes what is in force to `out`, secrets
/// masked.
///
/// # Errors
/// [`Failure::Configuration`], displayed as one line for each fault.
pub fn execute(file: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let env: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let chains: Vec<&Facts> = rpcgate_chains::catalog().map(|adapter| adapter.facts()).collect();
    let read = |name: &str| std::fs::read_to_string(name).map_err(|error| error.to_string());
    let name = file.to_string_lossy();
    let sources =
        Sources { file: Some(&name), chains: &chains, base: &[], env: &env, flags: &[], read: &read };
    let config = sources.load().map_err(Failure::Configuration)?;
    let written = out.write_all(config.to_toml_masked().as_bytes()).and_then(|()| out.flush());
    written.map_err(Failure::Output)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.toml");
        std::fs::write(&file, text).unwrap();
        let mut out = Vec::new();
        match execute(&file, &mut out) {
            Ok(()) => Ok(String::from_utf8(out).unwrap()),
            Err(failure) => Err(failure.to_string().replace(&*dir.path().to_string_lossy(), "DIR")),
        }
    }

    #[test]
    fn what_is_in_force_is_printed_without_its_secrets() {
        let shown = check("[admin.jwt]\nsecret = \"0123456789abcdef0123456789abcdef\"\n").unwrap();
        assert!(
            shown.contains("listen = \"127.0.0.1:8081\"") && shown.contains("secret = \"***\""),
            "{shown}"
        );
        assert!(!shown.contains("0123456789abcdef"), "{shown}");
    }

    #[test]
    fn every_fault_has_a_line_with_its_place() {
        let text = check("[admin]\nlisen = 1\nauth_per_minute = 0\n").unwrap_err();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("DIR/rpcgate.toml:2: unknown key admin.lisen"), "{text}");
        assert!(lines[1].starts_with("DIR/rpcgate.toml:3: admin.auth_per_minute"), "{text}");
    }

    #[test]
    fn chains_are_known_to_the_management_side_too() {
        assert!(check("[chains.eth]\nenabled = false\n").is_ok());
        assert!(check("[chains.ether]\nenabled = false\n").unwrap_err().contains("eth"));
    }
}
