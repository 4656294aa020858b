//! Watches the files of the certificate and loads a new one without a reload, once it can be used.

use super::{Certificate, CertificateFiles, Content};
use rpcgate_config::moment_text;
use rpcgate_core::clock::{Clock, Time};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// The interval of the checks. Certificates are renewed days before their end.
const EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct CertificateWatch {
    /// The last contents found, if they were not those in use.
    found: Option<Content>,
    refused: Option<Content>,
    /// The start of their validity, if they were refused because it is in the future.
    valid_from: Option<Time>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Look {
    /// The files have not changed, are changing right now, or were refused before.
    Nothing,
    Renewed {
        until: Option<Time>,
    },
    /// The new certificate cannot be used, so the old one stays.
    Refused(String),
}

impl CertificateWatch {
    /// Checks the files, and loads a new certificate that can be used at `now`. It must be the same at two checks,
    /// because the certificate and its key are written one after the other.
    fn look(&mut self, certificate: &Certificate, now: Time) -> Look {
        let former = certificate.loaded();
        let files = CertificateFiles::read(&former.paths);
        let content = files.content();
        if content == former.content {
            *self = CertificateWatch::default();
            return Look::Nothing;
        }
        let was_refused = self.refused == Some(content) && self.valid_from.is_none_or(|from| now < from);
        if self.found.replace(content) != Some(content) || was_refused {
            return Look::Nothing;
        }
        self.valid_from = None;
        let refused = match files.load() {
            Ok(loaded) => match &loaded.valid {
                Some(valid) if valid.end <= now => {
                    format!("it has expired, at {}", moment_text(valid.end))
                }
                Some(valid) if valid.start > now => {
                    self.valid_from = Some(valid.start);
                    format!("it is valid only from {}, and in use then", moment_text(valid.start))
                }
                valid => {
                    let until = valid.as_ref().map(|valid| valid.end);
                    *self = CertificateWatch::default();
                    // A reload may have named other files meanwhile.
                    let is_renewed = certificate.renew(&former, loaded);
                    return if is_renewed { Look::Renewed { until } } else { Look::Nothing };
                }
            },
            Err(bad) => bad.to_string(),
        };
        self.refused = Some(content);
        Look::Refused(refused)
    }
}

fn expired(valid: Option<&Range<Time>>, now: Time) -> Option<Time> {
    valid.map(|valid| valid.end).filter(|end| *end <= now)
}

/// Watches the files of `certificate` until that is dropped.
pub async fn watch(certificate: Weak<Certificate>, clock: Arc<dyn Clock>) {
    if let Some(certificate) = certificate.upgrade() {
        let loaded = certificate.loaded();
        // A program starts with it nevertheless: some clients do not mind.
        if let Some(end) = expired(loaded.valid.as_ref(), clock.now()) {
            let until = moment_text(end);
            let table = loaded.paths.table;
            tracing::error!(until, table, "the certificate in use has expired: clients refuse it");
        }
    }
    let mut watch = CertificateWatch::default();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(certificate) = certificate.upgrade() else { return };
        let watched = certificate.clone();
        let now = clock.now();
        // A network folder may be slow.
        let looked = tokio::task::spawn_blocking(move || {
            let look = watch.look(&watched, now);
            (watch, look)
        });
        let (again, look) = match looked.await {
            Ok(looked) => looked,
            Err(error) => {
                tracing::error!(%error, "the files of the certificate are not watched any more");
                return;
            }
        };
        watch = again;
        match look {
            Look::Nothing => {}
            Look::Renewed { until } => {
                certificate.counts.done.fetch_add(1, Relaxed);
                let until = until.map(moment_text);
                let table = certificate.loaded().paths.table;
                tracing::info!(until, table, "a changed certificate is in use, for new connections");
            }
            Look::Refused(why) => {
                certificate.counts.refused.fetch_add(1, Relaxed);
                tracing::error!("a changed certificate cannot be used, the old one stays in use: {why}");
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::tls::CertificatePaths;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use rpcgate_config::{AcmeSettings, AdminTls, parse_moment};
    use std::path::PathBuf;
    use tempfile::TempDir;

    pub(in crate::tls) const NOON: Time = Time::from_secs(1_798_718_400);

    struct Fixture {
        dir: TempDir,
        certificate: Certificate,
        watch: CertificateWatch,
    }

    /// Returns the PEM texts of a certificate that is valid in these years, and of its key.
    fn made(from: i32, until: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn at([cert, key]: &[PathBuf; 2]) -> CertificatePaths {
        let mut tls = AdminTls::default();
        (tls.cert, tls.key) = (Some(cert.clone()), Some(key.clone()));
        CertificatePaths::of_management(&tls, &AcmeSettings::default()).unwrap()
    }

    impl Fixture {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let (cert, key) = made(2020, 2030);
            let paths = [dir.path().join("cert.pem"), dir.path().join("key.pem")];
            std::fs::write(&paths[0], cert).unwrap();
            std::fs::write(&paths[1], key).unwrap();
            let certificate = Certificate::load(&at(&paths)).unwrap();
            Fixture { dir, certificate, watch: CertificateWatch::default() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn put(&self, cert: &str, key: &str) {
            std::fs::write(self.path("cert.pem"), cert).unwrap();
            std::fs::write(self.path("key.pem"), key).unwrap();
        }

        fn look(&mut self) -> Look {
            self.watch.look(&self.certificate, NOON)
        }

        fn in_use(&self) -> Content {
            self.certificate.loaded().content
        }
    }

    // Shows (Commands and configuration): A changed certificate is used without a reload and ends no connection; an
    // unusable one changes nothing.
    #[test]
    fn a_new_pair_is_in_use_at_the_second_look() {
        let mut fixture = Fixture::new();
        let before = fixture.in_use();
        assert_eq!([fixture.look(), fixture.look()], [Look::Nothing, Look::Nothing]);
        let (cert, key) = made(2020, 2031);
        fixture.put(&cert, &key);
        assert_eq!(fixture.look(), Look::Nothing, "it may be changing right now");
        let Look::Renewed { until: Some(until) } = fixture.look() else { panic!("it is in use") };
        assert_eq!(moment_text(until), "2031-01-01T00:00:01Z");
        assert_ne!(fixture.in_use(), before);
        assert_eq!(fixture.look(), Look::Nothing);
    }

    #[test]
    fn a_certificate_whose_key_comes_later_waits_for_it() {
        let mut fixture = Fixture::new();
        let before = fixture.in_use();
        let old_key = std::fs::read_to_string(fixture.path("key.pem")).unwrap();
        let (cert, key) = made(2020, 2031);
        fixture.put(&cert, &old_key);
        fixture.look();
        let Look::Refused(why) = fixture.look() else { panic!("the key does not fit") };
        assert!(why.contains("cert.pem"), "{why}");
        assert_eq!(fixture.look(), Look::Nothing, "it is reported once");
        assert_eq!(fixture.in_use(), before);
        fixture.put(&cert, &key);
        fixture.look();
        assert!(matches!(fixture.look(), Look::Renewed { .. }));
    }

    #[test]
    fn a_certificate_has_expired_at_its_end_and_no_sooner() {
        let end = Time::from_secs(9);
        let before = Time::from_secs(8);
        let valid = Time::from_secs(1)..end;
        assert_eq!(expired(Some(&valid), end), Some(end));
        assert_eq!((expired(Some(&valid), before), expired(None, end)), (None, None));
    }

    // Shows (Commands and configuration).
    #[test]
    fn an_unusable_certificate_is_refused_and_the_old_one_stays_in_use() {
        let mut fixture = Fixture::new();
        let before = fixture.in_use();
        let (good_cert, good_key) = made(2020, 2031);
        let (expired, expired_key) = made(2020, 2026);
        let (early, early_key) = made(2028, 2031);
        for (cert, key, expected) in [
            (expired.as_str(), expired_key.as_str(), "it has expired, at 2026-01-01T00:00:01Z"),
            (&early, &early_key, "it is valid only from 2028-01-01T00:00:00Z"),
            (&good_cert[..40], &good_key, "cert.pem"),
            ("", &good_key, "holds no certificate in PEM"),
            (&good_cert, "", "holds no private key in PEM"),
        ] {
            fixture.put(cert, key);
            fixture.look();
            let look = fixture.look();
            let Look::Refused(why) = look else { panic!("{expected}: {look:?}") };
            assert!(why.contains(expected), "{why}");
            assert_eq!(fixture.in_use(), before, "{expected}");
        }
        std::fs::remove_file(fixture.path("key.pem")).unwrap();
        fixture.look();
        assert!(matches!(fixture.look(), Look::Refused(_)));
        fixture.put(&good_cert, &good_key);
        fixture.look();
        assert!(matches!(fixture.look(), Look::Renewed { .. }), "a later one that is good is used");
    }

    // Shows (Commands and configuration).
    #[test]
    fn a_certificate_that_is_not_valid_yet_is_reported_once_and_used_when_it_is() {
        let mut fixture = Fixture::new();
        let (cert, key) = made(2028, 2031);
        fixture.put(&cert, &key);
        fixture.look();
        assert!(matches!(fixture.look(), Look::Refused(_)));
        let begin = parse_moment("2028-01-01T00:00:00Z").unwrap();
        for early in [NOON, Time::from_secs(begin.secs() - 1)] {
            assert_eq!(fixture.watch.look(&fixture.certificate, early), Look::Nothing);
        }
        assert!(matches!(fixture.watch.look(&fixture.certificate, begin), Look::Renewed { .. }));
        assert_eq!(fixture.watch.look(&fixture.certificate, begin), Look::Nothing);
    }

    // Shows (Commands and configuration).
    #[test]
    fn the_first_ordered_certificate_is_used_at_once_and_a_broken_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut tls = AdminTls::default();
        let mut acme = AcmeSettings::default();
        (tls.acme, acme.dir) = (true, dir.path().to_owned());
        let certificate = Certificate::load(&CertificatePaths::of_management(&tls, &acme).unwrap()).unwrap();
        let mut watch = CertificateWatch::default();
        assert_eq!(watch.look(&certificate, NOON), Look::Nothing);
        let file = dir.path().join("certificate.pem");
        std::fs::write(&file, super::super::tests::ordered(2031)).unwrap();
        watch.look(&certificate, NOON);
        assert!(matches!(watch.look(&certificate, NOON), Look::Renewed { .. }));
        assert!(!certificate.loaded().is_awaited());
        std::fs::write(&file, "broken").unwrap();
        watch.look(&certificate, NOON);
        let Look::Refused(why) = watch.look(&certificate, NOON) else { panic!("it cannot be used") };
        assert!(why.starts_with("admin.tls.acme: ") && !certificate.loaded().is_awaited(), "{why}");
    }

    // Shows (Commands and configuration).
    #[test]
    fn changed_client_authorities_are_used_and_unusable_ones_are_not() {
        let mut fixture = Fixture::new();
        let mut tls = AdminTls::default();
        (tls.cert, tls.key) = (Some(fixture.path("cert.pem")), Some(fixture.path("key.pem")));
        tls.client_ca = Some(fixture.path("clients.pem"));
        std::fs::write(fixture.path("clients.pem"), made(2020, 2030).0).unwrap();
        let paths = CertificatePaths::of_management(&tls, &AcmeSettings::default()).unwrap();
        fixture.certificate.replace(paths.load().unwrap());
        assert_eq!([fixture.look(), fixture.look()], [Look::Nothing, Look::Nothing]);
        std::fs::write(fixture.path("clients.pem"), made(2020, 2030).0).unwrap();
        assert_eq!(fixture.look(), Look::Nothing);
        assert!(matches!(fixture.look(), Look::Renewed { .. }));
        let before = fixture.in_use();
        std::fs::write(fixture.path("clients.pem"), "nothing").unwrap();
        fixture.look();
        let Look::Refused(why) = fixture.look() else { panic!("it has no authority") };
        assert!(why.starts_with("admin.tls.client_ca: ") && why.ends_with("no certificate in PEM"), "{why}");
        assert_eq!(fixture.in_use(), before);
    }
}
