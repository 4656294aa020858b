//! `rpcgate-admin check`: prints the effective configuration, or the changes that a reload would make.

use super::{configuration, with_origin};
use rpcgate_config::ConfigProgram;
use rpcgate_process::acme::CertificateOrders;
use rpcgate_process::tls::CertificatePaths;
use rpcgate_process::{Failure, host_name, origin, warnings};
use rpcgate_store::{ComparisonError, ReloadPlan, StoreError, compare_with_running};
use std::io::Write;
use std::path::Path;

/// Checks the configuration in `file` and the environment, and writes the effective one to `out` with its secrets
/// masked. Each setting without effect gets a line in `messages`.
///
/// # Errors
/// [`Failure::Configuration`], displayed as one line per fault.
pub fn execute(file: &Path, out: &mut dyn Write, messages: &mut dyn Write) -> Result<(), Failure> {
    let config = configuration(file)?;
    if let Some(paths) = CertificatePaths::of_management(&config.admin.tls, &config.acme) {
        paths.load().map_err(|bad| with_origin(file, bad))?;
    }
    if config.admin.tls.acme {
        CertificateOrders::check(&config.acme).map_err(|bad| with_origin(file, bad))?;
    }
    out.write_all(config.to_toml_masked().as_bytes())?;
    out.flush()?;
    warnings(file, &config).iter().try_for_each(|warning| writeln!(messages, "{warning}"))?;
    Ok(())
}

/// Prints the changes that a reload with the configuration in `file` would make in the management side on this machine.
///
/// # Errors
/// [`Failure::Configuration`], and those of [`compare_with_running`].
pub async fn against(file: &Path, out: &mut dyn Write) -> Result<ReloadPlan, Failure> {
    let config = configuration(file)?;
    let host = host_name();
    let location = origin(&host, Some(file));
    let compared =
        compare_with_running(ConfigProgram::Management, &config, Some(&location), &host, out).await;
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
    use rpcgate_core::clock::Time;
    use rpcgate_store::{AcceptedConfig, ConfigScope, Store, url_of};

    fn check(text: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.toml");
        std::fs::write(&file, text).unwrap();
        let mut out = Vec::new();
        match execute(&file, &mut out, &mut Vec::new()) {
            Ok(()) => Ok(String::from_utf8(out).unwrap()),
            Err(failure) => Err(failure.to_string().replace(&*dir.path().to_string_lossy(), "DIR")),
        }
    }

    #[test]
    fn the_effective_configuration_is_printed_without_secrets() {
        let shown = check("[admin.jwt]\nsecret = \"0123456789abcdef0123456789abcdef\"\n").unwrap();
        assert!(
            shown.contains("listen = \"127.0.0.1:8081\"") && shown.contains("secret = \"***\""),
            "{shown}"
        );
        assert!(!shown.contains("0123456789abcdef"), "{shown}");
    }

    // Shows (Commands and configuration).
    #[test]
    fn every_fault_has_a_line_with_its_location() {
        let text = check("[admin]\nlisen = 1\nauth_per_minute = 0\n").unwrap_err();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("DIR/rpcgate.toml:2: unknown key admin.lisen"), "{text}");
        assert!(lines[1].starts_with("DIR/rpcgate.toml:3: admin.auth_per_minute"), "{text}");
    }

    #[tokio::test]
    async fn a_check_compares_with_the_management_side_of_this_machine() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.toml");
        let url = url_of(&dir.path().join("rpcgate.db"));
        let write = |per_minute: u32| {
            let text = format!("[database]\nurl = \"{url}\"\n[admin]\nauth_per_minute = {per_minute}\n");
            std::fs::write(&file, text).unwrap();
        };
        let check = async || {
            let mut out = Vec::new();
            let done = against(&file, &mut out).await.map_err(|failure| failure.code());
            (done, String::from_utf8(out).unwrap())
        };
        write(10);
        assert_eq!(check().await.0, Err(1), "a check makes no database");
        let store = Store::open(&url, true).await.unwrap();
        assert_eq!(check().await.0, Err(3), "nothing has run here");
        let host = host_name();
        let at = Time::from_secs(1);
        let location = origin(&host, Some(&file));
        let scope = ConfigScope::Management(location.clone());
        let config = configuration(&file).unwrap();
        let accepted = AcceptedConfig::new(&config, scope, (host, location), true, at);
        store.record_config(&accepted, at).await.unwrap();
        assert_eq!(check().await.0, Ok(ReloadPlan::Nothing));
        write(9);
        let (plan, shown) = check().await;
        assert_eq!(plan, Ok(ReloadPlan::Reload), "{shown}");
        assert!(shown.contains("reload   admin.auth_per_minute: 10 -> 9\n"), "{shown}");
    }

    #[test]
    fn an_unreadable_certificate_is_a_fault_with_its_location() {
        let text = "[admin.tls]\ncert = \"/none/c.pem\"\nkey = \"/none/k.pem\"\n";
        let fault = check(text).unwrap_err();
        assert!(fault.starts_with("DIR/rpcgate.toml:2: admin.tls.cert: /none/c.pem: "), "{fault}");
    }

    #[test]
    fn an_ordered_certificate_may_be_missing_but_the_settings_of_its_orders_may_not() {
        let folder = tempfile::tempdir().unwrap();
        let text = |more: &str| {
            let dir = folder.path().join("acme");
            format!("[acme]\ndomains = [\"a.example\"]\ndir = {dir:?}\n{more}[admin.tls]\nacme = true\n")
        };
        assert!(check(&text("")).unwrap().contains("acme = true"));
        assert!(!folder.path().join("acme").exists(), "a check makes nothing");
        let fault = check(&text("ca_file = \"/none/ca.pem\"\n")).unwrap_err();
        assert!(fault.starts_with("DIR/rpcgate.toml:4: acme.ca_file: /none/ca.pem: "), "{fault}");
        let fault = check(&text("eab_key_id = \"a\"\neab_key = \"no+base64+url+at+all\"\n")).unwrap_err();
        assert!(fault.starts_with("DIR/rpcgate.toml:5: acme.eab_key: must be base64url"), "{fault}");
    }

    #[test]
    fn chains_are_known_to_the_management_side_too() {
        assert!(check("[chains.eth]\nenabled = false\n").is_ok());
        assert!(check("[chains.ether]\nenabled = false\n").unwrap_err().contains("eth"));
    }
}
