//! `rpcgate-server check`: prints the effective configuration, or the changes that a reload would make.

use crate::gateway::dry_run;
use crate::journal::known_gateway;
use rpcgate_config::ConfigProgram;
use rpcgate_process::{Failure, host_name, load, placed, warnings};
use rpcgate_store::{ComparisonError, ReloadPlan, StoreError, compare_with_running};
use std::io::Write;
use std::path::Path;

/// Checks the configuration in `file` and the files it names, and writes the effective configuration with masked
/// secrets to `out`. Settings without effect are listed on `messages`.
///
/// # Errors
/// [`Failure::Configuration`] with one line for each fault.
pub fn execute(file: &Path, out: &mut dyn Write, messages: &mut dyn Write) -> Result<(), Failure> {
    let config = load(Some(file), &[], &[])?;
    dry_run(&config).map_err(|error| placed(Some(file), error))?;
    out.write_all(config.to_toml_masked().as_bytes())?;
    out.flush()?;
    warnings(file, &config).iter().try_for_each(|warning| writeln!(messages, "{warning}"))?;
    Ok(())
}

/// Prints the changes that a reload with `file` would make to the gateway on this machine.
///
/// # Errors
/// [`Failure::Configuration`], and those of [`compare_with_running`].
pub async fn against(file: &Path, out: &mut dyn Write) -> Result<ReloadPlan, Failure> {
    let config = load(Some(file), &[], &[])?;
    dry_run(&config).map_err(|error| placed(Some(file), error))?;
    let gateway = known_gateway(&config.journal.dir).map(|gateway| gateway.to_string());
    let compared =
        compare_with_running(ConfigProgram::Gateway, &config, gateway.as_deref(), &host_name(), out).await;
    compared.map_err(failure)
}

fn failure(error: ComparisonError) -> Failure {
    match error {
        ComparisonError::NotFound(text) => Failure::NotFound(text),
        ComparisonError::Store(StoreError::Unavailable(_)) => Failure::Unavailable(error.to_string()),
        _ => Failure::new(matches!(error, ComparisonError::Store(StoreError::Url(_))), &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<String, Failure> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.toml");
        std::fs::write(&file, text).unwrap();
        let mut out = Vec::new();
        execute(&file, &mut out, &mut Vec::new()).map(|()| String::from_utf8(out).unwrap()).map_err(
            |failure| match failure {
                Failure::Configuration(text) => {
                    Failure::Configuration(text.replace(&*dir.path().to_string_lossy(), "DIR"))
                }
                other => other,
            },
        )
    }

    // Shows (Commands and configuration): `check` prints the effective configuration with masked secrets; a mistake
    // exits with 2 and its location.
    #[test]
    fn the_effective_configuration_is_printed_without_secrets() {
        let shown =
            check("[keys.k]\nkey = \"a-very-secret-key\"\n[chains.eth]\nnodes = [\"http://u:hunter2@h/\"]\n");
        let shown = shown.unwrap();
        assert!(shown.contains("listen = \"127.0.0.1:8080\""), "{shown}");
        assert!(shown.contains("[keys.k]") && shown.contains("[[chains.eth.nodes]]"), "{shown}");
        assert!(!shown.contains("a-very-secret-key") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn a_setting_that_can_have_no_effect_is_a_warning_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.toml");
        let text = "[chains.bsc]\nnodes = [\"http://10.0.0.1:8545\"]\n[chains.bsc.cu]\neth_cal = 5\n";
        std::fs::write(&file, text).unwrap();
        let mut messages = Vec::new();
        execute(&file, &mut Vec::new(), &mut messages).unwrap();
        let line = "rpcgate.toml:4: warning: chains.bsc.cu.eth_cal: no such method is known; the nearest is eth_call\n";
        let messages = String::from_utf8(messages).unwrap();
        assert!(messages.ends_with(line) && messages.lines().count() == 1, "{messages}");
    }

    // Shows (Commands and configuration).
    #[test]
    fn every_fault_has_a_line_with_its_location() {
        let failure = check("[gateway]\nlisen = 1\n[shutdown]\ngrace = \"soon\"\n").unwrap_err();
        assert_eq!(failure.code(), 2);
        let text = failure.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("DIR/rpcgate.toml:2: unknown key gateway.lisen"), "{text}");
        assert!(lines[1].starts_with("DIR/rpcgate.toml:4: shutdown.grace"), "{text}");
    }

    // Shows (Commands and configuration): An unreadable file that a key names is reported with the configuration's file
    // and line.
    #[test]
    fn the_error_for_an_unreadable_file_names_the_line_of_its_key() {
        for (text, line) in [
            (
                "[gateway]\n\ntls.cert = \"/none/c.pem\"\ntls.key = \"/none/k.pem\"\n",
                "3: gateway.tls.cert: /none/c.pem: ",
            ),
            ("[gateway]\nkey_secret = { file = \"/none/secret\" }\n", "2: gateway.key_secret "),
            ("[journal]\ndir = \"/dev/null\"\n", "2: journal.dir /dev/null: is not a folder"),
        ] {
            let failure = check(text).unwrap_err();
            assert_eq!(failure.code(), 2, "{text}");
            let reported = failure.to_string();
            assert!(reported.starts_with(&format!("DIR/rpcgate.toml:{line}")), "{reported}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_a_fault_of_the_configuration() {
        let failure =
            execute(Path::new("/nowhere/rpcgate.toml"), &mut Vec::new(), &mut Vec::new()).unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(failure.to_string().starts_with("/nowhere/rpcgate.toml: cannot be read: "), "{failure}");
    }

    // Shows (Commands and configuration).
    #[test]
    fn an_impossible_database_or_journal_is_a_configuration_fault() {
        let failure = check("[database]\nurl = \"postgres://u:hunter2@h/db?sslmode=hunter2\"\n").unwrap_err();
        let text = failure.to_string();
        assert!(
            failure.code() == 2 && text.starts_with("DIR/rpcgate.toml:2: database.url: cannot be read"),
            "{text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
        let failure = check("[journal]\ndir = \"/dev/null\"\n").unwrap_err();
        assert_eq!(
            (failure.code(), failure.to_string()),
            (2, "DIR/rpcgate.toml:2: journal.dir /dev/null: is not a folder".to_owned())
        );
        check("[journal]\ndir = \"/nowhere/yet\"\n").unwrap();
        assert!(!Path::new("/nowhere").exists(), "a check makes nothing");
    }

    #[test]
    fn certificates_are_verified() {
        let failure =
            check("[gateway.tls]\ncert = \"/nowhere/c.pem\"\nkey = \"/nowhere/k.pem\"\n").unwrap_err();
        assert_eq!(failure.code(), 2);
        let text = failure.to_string();
        assert!(text.starts_with("DIR/rpcgate.toml:2: gateway.tls.cert: /nowhere/c.pem"), "{text}");
    }
}
