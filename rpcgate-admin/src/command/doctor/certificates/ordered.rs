//! Checks the certificate that the programs order by ACME: its presence, its renewal, and failed orders.

use super::{CHECK, Certified, judge};
use crate::command::doctor::finding::Finding;
use rpcgate_config::{Config, Url, moment_text};
use rpcgate_core::clock::Time;
use rpcgate_process::acme::due::{OrderReason, pause, reason, renewal};
use rpcgate_process::acme::held::HeldCertificate;
use rpcgate_process::acme::{AcmeFolder, CertificateOrders};
use std::time::Duration;

/// The time for which an order may be due before an operator has to act.
const PATIENCE: Duration = Duration::from_secs(2 * 86_400);

pub(super) fn look(key: &str, config: &Config, urls: &[(&'static str, &Url)], now: Time) -> Vec<Finding> {
    let acme = &config.acme;
    let folder = AcmeFolder::new(&config.acme.dir);
    let subject = format!("{key} {}", folder.certificate().display());
    if let Err(bad) = CertificateOrders::check(acme) {
        let advice = "correct the setting: the program does not start with it";
        return vec![Finding::failure(CHECK, subject, bad.to_string(), advice)];
    }
    let held = HeldCertificate::read(&folder.certificate());
    let state = folder.state();
    let due = reason(&held, &state, acme.directory_url(), &acme.domains, now);
    let mut findings = Vec::new();
    let last = state.order(acme.directory_url(), &acme.domains).or(state.last.as_ref());
    if let Some(last) = last.filter(|last| last.failures > 0) {
        let text = match last.failures {
            _ if last.is_unfinished() => {
                "an order runs now, or its program has ended while it ran".to_owned()
            }
            1 => format!("an order has failed: {}", last.why),
            failures => format!("{failures} orders have failed in a row: {}", last.why),
        };
        let paused =
            due.as_ref().and_then(|due| pause(&state, acme.directory_url(), &acme.domains, due, now));
        let next = match paused {
            Some(next) => format!("the next one begins at {}", moment_text(next)),
            None => "the next one begins when a program runs".to_owned(),
        };
        let advice = format!(
            "fix the reported problem; {next}, or at once if {} is removed",
            folder.path().join("state.json").display()
        );
        findings.push(Finding::warning(CHECK, subject.clone(), text, advice));
    }
    let held = match held {
        Ok(held) => held,
        Err(why) => {
            let advice = "start the program that uses it, which orders one and refuses TLS handshakes until then; if it \
                          runs, look at its log for orders that fail";
            let prefix = format!("{}: ", folder.certificate().display());
            let why = why.strip_prefix(&prefix).unwrap_or(&why);
            findings.push(Finding::failure(CHECK, subject, why, advice));
            return findings;
        }
    };
    let days = held.valid.end.since(now).as_secs() / 86_400;
    let renewed = renewal(&held.valid, &held.leaf);
    let advice = "look at the log of the program that uses it for orders of certificates that fail";
    let expiry = match &due {
        _ if held.valid.end <= now => Finding::failure(
            CHECK,
            subject.clone(),
            format!("has expired, at {}", moment_text(held.valid.end)),
            advice,
        ),
        Some(OrderReason::Renewal(_)) if renewed.plus(PATIENCE) > now => {
            Finding::ok(CHECK, subject.clone(), format!("expires in {days} days, is being renewed"))
        }
        Some(due) => {
            let text = format!("expires in {days} days, and another one should be there: {due}");
            let advice = match due {
                OrderReason::OtherNames(_) | OrderReason::OtherAuthority(_) => {
                    "restart all programs that use it, which read [acme] only at start; if they have these settings, \
                     look at their logs for orders that fail"
                }
                _ => advice,
            };
            Finding::warning(CHECK, subject.clone(), text, advice)
        }
        None => {
            let text = format!("expires in {days} days, is renewed at {}", moment_text(renewed));
            Finding::ok(CHECK, subject.clone(), text)
        }
    };
    match Certified::read(&folder.certificate(), &folder.certificate()) {
        Ok(certified) => {
            let advice = "if clients shall trust it without more, name a public authority in acme.directory_url, and not its \
                          directory for trials (staging)";
            findings.extend(judge(&certified, &subject, urls, expiry, advice, now));
        }
        // It was replaced meanwhile.
        Err(_) => findings.push(expiry),
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::doctor::examination::tests::examination;
    use crate::command::doctor::finding::Verdict;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use std::path::Path;

    const NOW: Time = Time::from_secs(1_798_718_400);

    /// Returns the findings about a certificate that is valid in these years (`None` if it does not exist), with this
    /// state of orders.
    fn found(years: Option<(i32, i32)>, state: &str) -> Vec<(Verdict, String)> {
        let dir = tempfile::tempdir().unwrap();
        if let Some((from, until)) = years {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec!["a.example".into()]).unwrap();
            (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
            let text = format!("{}{}", key.serialize_pem(), params.self_signed(&key).unwrap().pem());
            std::fs::write(dir.path().join("certificate.pem"), text).unwrap();
        }
        std::fs::write(dir.path().join("state.json"), state).unwrap();
        told(dir.path(), "")
    }

    fn told(dir: &Path, more: &str) -> Vec<(Verdict, String)> {
        let text =
            format!("[acme]\ndomains = [\"a.example\"]\ndir = {dir:?}\n{more}[admin.tls]\nacme = true\n");
        let findings = look("admin.tls.acme", &examination(&text).config, &[], NOW);
        findings.into_iter().map(|finding| (finding.verdict, finding.to_string())).collect()
    }

    #[test]
    fn an_existing_certificate_is_judged_by_its_renewal() {
        for (years, verdict, text) in [
            (Some((2026, 2030)), Verdict::Ok, "is renewed at 2028-"),
            (
                Some((2024, 2028)),
                Verdict::Warning,
                "another one should be there: the one in use ends at 2028-",
            ),
            (Some((2020, 2025)), Verdict::Failure, "has expired, at 2025-"),
            (None, Verdict::Failure, "No such file"),
        ] {
            let findings = found(years, "");
            assert_eq!(findings[0].0, verdict, "{findings:?}");
            assert!(findings[0].1.contains(text), "{text}: {findings:?}");
        }
    }

    #[test]
    fn failed_orders_are_reported_with_the_time_of_the_next_one() {
        let last = "\"domains\":[\"a.example\"],\"failures\":3,\"next\":1798722000,\"why\":\"refused it\"";
        let directory = "\"directory\":\"https://acme-v02.api.letsencrypt.org/directory\"";
        let state = format!("{{\"last\":{{{directory},{last}}}}}");
        let findings = found(Some((2024, 2028)), &state);
        assert_eq!(findings[0].0, Verdict::Warning);
        let text = &findings[0].1;
        assert!(text.contains("3 orders have failed in a row: refused it"), "{text}");
        assert!(text.contains("the next one begins at 2026-12-31T13:00:00Z"), "{text}");
    }

    #[test]
    fn a_certificate_for_other_names_wants_a_restart_and_no_chain_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["b.example".into()]).unwrap().self_signed(&key).unwrap();
        let text = format!("{}{}", key.serialize_pem(), certificate.pem());
        std::fs::write(dir.path().join("certificate.pem"), text).unwrap();
        let findings = told(dir.path(), "");
        assert!(findings[0].1.contains("is not for a.example. To do: restart all programs"), "{findings:?}");
        assert!(findings.iter().any(|(_, text)| text.contains("acme.directory_url")), "{findings:?}");
        assert!(!findings.iter().any(|(_, text)| text.contains("fullchain")), "{findings:?}");
    }

    #[test]
    fn a_setting_that_no_order_can_be_made_with_is_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let findings = told(dir.path(), "ca_file = \"/none/ca.pem\"\n");
        assert!(findings.len() == 1 && findings[0].0 == Verdict::Failure, "{findings:?}");
        assert!(findings[0].1.contains("acme.ca_file: /none/ca.pem: "), "{findings:?}");
    }
}
