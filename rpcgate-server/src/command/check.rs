//! `rpcgate-server check`: what a configuration comes to.

use super::{Failure, load};
use crate::gateway::dry_run;
use std::io::Write;
use std::path::Path;

/// Reads and checks the configuration in `file`, the files it names included, and writes what is in force to `out`,
/// secrets masked.
///
/// # Errors
/// [`Failure::Configuration`] with one line for each fault.
pub fn execute(file: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let config = load(Some(file), &[], &[])?;
    dry_run(&config)?;
    out.write_all(config.to_toml_masked().as_bytes())?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<String, Failure> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.toml");
        std::fs::write(&file, text).unwrap();
        let mut out = Vec::new();
        execute(&file, &mut out).map(|()| String::from_utf8(out).unwrap()).map_err(|failure| match failure {
            Failure::Configuration(text) => {
                Failure::Configuration(text.replace(&*dir.path().to_string_lossy(), "DIR"))
            }
            other => other,
        })
    }

    #[test]
    fn what_is_in_force_is_printed_without_its_secrets() {
        let shown =
            check("[keys.k]\nkey = \"a-very-secret-key\"\n[chains.eth]\nnodes = [\"http://u:hunter2@h/\"]\n");
        let shown = shown.unwrap();
        assert!(shown.contains("listen = \"127.0.0.1:8080\""), "{shown}");
        assert!(shown.contains("[keys.k]") && shown.contains("[[chains.eth.nodes]]"), "{shown}");
        assert!(!shown.contains("a-very-secret-key") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn every_fault_has_a_line_with_its_place() {
        let failure = check("[gateway]\nlisen = 1\n[shutdown]\ngrace = \"soon\"\n").unwrap_err();
        assert_eq!(failure.code(), 2);
        let text = failure.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("DIR/rpcgate.toml:2: unknown key gateway.lisen"), "{text}");
        assert!(lines[1].starts_with("DIR/rpcgate.toml:4: shutdown.grace"), "{text}");
    }

    #[test]
    fn a_file_that_is_not_there_is_a_fault_of_the_configuration() {
        let failure = execute(Path::new("/nowhere/rpcgate.toml"), &mut Vec::new()).unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(failure.to_string().starts_with("/nowhere/rpcgate.toml: cannot be read: "), "{failure}");
    }

    #[test]
    fn a_database_and_a_journal_that_there_cannot_be_are_faults() {
        let failure = check("[database]\nurl = \"postgres://u:hunter2@h/db?sslmode=hunter2\"\n").unwrap_err();
        let text = failure.to_string();
        assert!(failure.code() == 2 && text.starts_with("database.url: cannot be read"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        let failure = check("[journal]\ndir = \"/dev/null\"\n").unwrap_err();
        assert_eq!(
            (failure.code(), failure.to_string()),
            (2, "journal.dir /dev/null: is not a folder".to_owned())
        );
        check("[journal]\ndir = \"/nowhere/yet\"\n").unwrap();
        assert!(!Path::new("/nowhere").exists(), "a check makes nothing");
    }

    #[test]
    fn certificates_are_looked_at() {
        let failure =
            check("[gateway.tls]\ncert = \"/nowhere/c.pem\"\nkey = \"/nowhere/k.pem\"\n").unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(failure.to_string().starts_with("gateway.tls.cert: /nowhere/c.pem"), "{failure}");
    }
}
