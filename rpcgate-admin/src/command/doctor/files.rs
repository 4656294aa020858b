//! Checks the access to the configuration and to the files that it names.

use super::examination::Examination;
use super::finding::{CheckGroup, Finding};
use rpcgate_config::{Config, Secret, Url};
use rpcgate_process::acme::AcmeFolder;
use rpcgate_store::files_of;
use std::fs;
use std::path::Path;

const CHECK: CheckGroup = CheckGroup::Files;

/// Checks the files with secrets, those that must be readable, and the secrets that both binaries need.
pub(super) fn check(examination: &Examination) -> Vec<Finding> {
    let config = &examination.config;
    let mut findings = needed(config);
    for (place, file) in examination.files.iter().enumerate() {
        findings.push(match place {
            0 => configuration(file, config),
            _ => secret("a secret of the configuration", file),
        });
    }
    if let Some((_, key)) = config.gateway.tls.pair() {
        findings.push(secret("gateway.tls.key", key));
    }
    if let Some((_, key)) = config.admin.tls.pair() {
        findings.push(secret("admin.tls.key", key));
    }
    if config.gateway.tls.acme || config.admin.tls.acme {
        let folder = AcmeFolder::new(&config.acme.dir);
        let secrets = [folder.certificate(), folder.account_file()];
        findings.extend(secrets.iter().filter(|file| file.exists()).map(|file| secret("acme.dir", file)));
    }
    if let Ok(Some(files)) = files_of(config.database.url()) {
        findings.extend(files.iter().filter(|file| file.exists()).map(|file| secret("database.url", file)));
    }
    let readable = [
        ("gateway.tls.cert", config.gateway.tls.cert.as_deref()),
        ("gateway.grpc_descriptors", config.gateway.grpc_descriptors.as_deref()),
        ("admin.tls.cert", config.admin.tls.cert.as_deref()),
        ("admin.tls.client_ca", config.admin.tls.client_ca.as_deref()),
        ("acme.ca_file", config.acme.ca_file.as_deref()),
        ("admin.mail.smtp_ca", config.admin.mail.smtp_ca.as_deref()),
        ("webhooks.ca_file", config.webhooks.ca_file.as_deref()),
        ("telemetry.otlp.ca_file", config.telemetry.otlp.ca_file.as_deref()),
    ];
    findings.extend(readable.into_iter().filter_map(|(key, file)| Some(readability(key, file?))));
    findings
}

fn needed(config: &Config) -> Vec<Finding> {
    let secrets = [
        ("gateway.key_secret", &config.gateway.key_secret, "forged keys cost a query each"),
        ("admin.jwt.secret", &config.admin.jwt.secret, "users cannot log in"),
    ];
    let missing = secrets.iter().filter(|(_, secret, _)| secret.is_none());
    missing
        .map(|(key, _, why)| {
            let text = format!("is not set: rpcgate-admin run does not start, and {why}");
            let advice = "set it to the content of a file with 32 random bytes: { file = \"…\" }; not needed on a host that \
                          runs a gateway alone, without keys of a database";
            Finding::warning(CheckGroup::Configuration, *key, text, advice)
        })
        .collect()
}

fn readability(key: &str, file: &Path) -> Finding {
    let subject = format!("{key} {}", file.display());
    match fs::read(file) {
        Ok(_) => Finding::ok(CHECK, subject, "can be read"),
        Err(error) => {
            let advice = "create the file, or let the account of the service read it";
            Finding::failure(CHECK, subject, format!("cannot be read: {error}"), advice)
        }
    }
}

/// Checks a file that only its owner and its group may read, and only its owner may change.
fn secret(what: &str, file: &Path) -> Finding {
    let subject = format!("{what} {}", file.display());
    match exposure(file) {
        Err(error) => {
            let advice = "create the file, or let the account of the service read it";
            Finding::failure(CHECK, subject, format!("cannot be read: {error}"), advice)
        }
        Ok(Ok(readers)) => Finding::ok(CHECK, subject, readers),
        Ok(Err(exposure)) => {
            let advice = format!("chmod 600 {}, or 640 if a group of the service reads it", file.display());
            Finding::failure(CHECK, subject, exposure, advice)
        }
    }
}

/// Checks the configuration file, which all may read if it contains no secret.
fn configuration(file: &Path, config: &Config) -> Finding {
    let text = fs::read_to_string(file).unwrap_or_default();
    if secrets_in(config).iter().any(|secret| text.contains(secret)) {
        return secret("the configuration, which holds secrets,", file);
    }
    let subject = format!("the configuration {}", file.display());
    match exposure(file) {
        Ok(Err(exposure)) if exposure.contains("change") => {
            let advice = format!("chmod 644 {}", file.display());
            Finding::failure(CHECK, subject, exposure, advice)
        }
        _ => Finding::ok(CHECK, subject, "holds no secret"),
    }
}

/// Returns the secrets of a configuration that its file could contain. Shorter ones are omitted, because they might
/// occur by chance.
fn secrets_in(config: &Config) -> Vec<&str> {
    let gateway = &config.gateway;
    let admin = &config.admin;
    let stripe = &config.billing.stripe;
    let named = [
        &gateway.key_secret,
        &admin.jwt.secret,
        &admin.challenge.secret,
        &stripe.secret_key,
        &stripe.webhook_secret,
        &config.acme.eab_key,
    ];
    let nodes = || config.chains.values().flat_map(|chain| &chain.nodes);
    let passwords = nodes().filter_map(|node| node.password.as_ref());
    let headers = nodes().flat_map(|node| node.headers.values());
    let keys = config.keys.values().filter_map(|key| key.key.as_ref());
    let secrets = named.into_iter().flatten().chain(passwords).chain(headers).chain(keys).map(Secret::expose);
    // A URL with a password differs from its masked form.
    let urls = [&config.redis.url, &admin.mail.smtp].into_iter().flatten();
    let urls = urls.filter(|url| url.masked() != url.expose()).map(Url::expose);
    let database = (config.database.masked_url() != config.database.url()).then(|| config.database.url());
    secrets.chain(urls).chain(database).filter(|text| text.len() >= 4).collect()
}

/// Describes the accounts that may read a file. The error describes excessive rights.
#[cfg(unix)]
fn exposure(file: &Path) -> std::io::Result<Result<&'static str, &'static str>> {
    use std::os::unix::fs::PermissionsExt;
    fs::File::open(file)?;
    let mode = fs::metadata(file)?.permissions().mode();
    Ok(match mode {
        mode if mode & 0o022 != 0 => Err("users other than its owner may change it"),
        mode if mode & 0o004 != 0 => Err("all users of this machine may read it"),
        mode if mode & 0o040 != 0 => Ok("only its owner and its group may read it"),
        _ => Ok("only its owner may read it"),
    })
}

/// Other systems do not keep access rights in a mode.
#[cfg(not(unix))]
fn exposure(file: &Path) -> std::io::Result<Result<&'static str, &'static str>> {
    fs::File::open(file).map(|_| Ok("can be read"))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::examination::tests::examination;
    use super::super::finding::Verdict;
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    /// Returns the findings about a configuration with this text, whose file and secret have these modes.
    fn found(text: &str, mode: u32, secret_mode: u32) -> Vec<(Verdict, String)> {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str, mode: u32| -> PathBuf {
            let file = dir.path().join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            file
        };
        let files = [write("rpcgate.toml", text, mode), write("secret", SECRET, secret_mode)].into();
        let of_files = Examination { files, ..examination(text) };
        let findings = check(&of_files).into_iter().filter(|finding| finding.check == CHECK);
        findings.map(|finding| (finding.verdict, finding.to_string())).collect()
    }

    // Shows (Commands and configuration).
    #[test]
    fn a_secret_that_others_may_read_or_change_is_a_failure() {
        let alone = "only its owner may read it";
        let group = "only its owner and its group may read it";
        for (mode, verdict, text) in [
            (0o600, Verdict::Ok, alone),
            (0o640, Verdict::Ok, group),
            (0o400, Verdict::Ok, alone),
            (0o440, Verdict::Ok, group),
            (0o644, Verdict::Failure, "all users of this machine may read it"),
            (0o660, Verdict::Failure, "users other than its owner may change it"),
            (0o602, Verdict::Failure, "users other than its owner may change it"),
        ] {
            let findings = found("", 0o600, mode);
            assert_eq!(findings[1].0, verdict, "{mode:o} {findings:?}");
            assert!(findings[1].1.contains(text), "{mode:o} {findings:?}");
            assert_eq!(findings[1].1.contains("chmod 600"), verdict == Verdict::Failure, "{findings:?}");
        }
    }

    #[test]
    fn a_configuration_may_be_readable_by_all_unless_it_contains_a_secret() {
        let inline = format!("[admin.jwt]\nsecret = \"{SECRET}\"\n");
        let login = "[chains.eth]\nnodes = [\"http://u:hunter2@h/\"]\n";
        let database = "[database]\nurl = \"postgres://u:hunter2@h/db\"\n";
        for (text, mode, verdict) in [
            ("", 0o644, Verdict::Ok),
            ("", 0o666, Verdict::Failure),
            (inline.as_str(), 0o644, Verdict::Failure),
            (inline.as_str(), 0o640, Verdict::Ok),
            (login, 0o644, Verdict::Failure),
            (database, 0o644, Verdict::Failure),
            (database, 0o600, Verdict::Ok),
        ] {
            let findings = found(text, mode, 0o600);
            assert_eq!(findings[0].0, verdict, "{text} {mode:o} {findings:?}");
            assert!(!findings[0].1.contains(SECRET) && !findings[0].1.contains("hunter2"), "{findings:?}");
        }
    }

    #[test]
    fn files_that_cannot_be_read_and_secrets_that_are_missing_are_named() {
        let text = "[admin.mail]\nsmtp_ca = \"/nowhere/ca.pem\"\n[webhooks]\nca_file = \"/nowhere/b.pem\"\n\
                    [telemetry.otlp]\nca_file = \"/nowhere/c.pem\"\n";
        let findings = check(&examination(text));
        let line = |key: &str| findings.iter().find(|finding| finding.subject.starts_with(key)).unwrap();
        assert_eq!(line("admin.mail.smtp_ca /nowhere").verdict, Verdict::Failure);
        assert_eq!(line("webhooks.ca_file /nowhere").verdict, Verdict::Failure);
        assert_eq!(line("telemetry.otlp.ca_file /nowhere").verdict, Verdict::Failure);
        for key in ["gateway.key_secret", "admin.jwt.secret"] {
            assert_eq!(line(key).verdict, Verdict::Warning);
        }
        let set = format!("[gateway]\nkey_secret = \"{SECRET}\"\n[admin.jwt]\nsecret = \"{SECRET}\"\n");
        assert_eq!(check(&examination(&set)), []);
    }
}
