//! Checks the certificates of the gateway and of the management side: the key, the expiry, the chain and the names.

mod ordered;

use super::examination::Examination;
use super::finding::{CheckGroup, Finding, Verdict};
use rpcgate_config::{Config, Url};
use rpcgate_core::clock::Time;
use rpcgate_process::tls::validity;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const CHECK: CheckGroup = CheckGroup::Certificates;

const DAY: Duration = Duration::from_secs(86_400);

/// The time before expiry within which a certificate should have been renewed.
const SOON: Duration = Duration::from_secs(30 * 86_400);

/// A time that is longer than the validity of any certificate.
const FAR: Duration = Duration::from_secs(200 * 366 * 86_400);

/// A name that no certificate has. The error about it lists the names of the certificate.
const NOBODY: &str = "nobody.invalid";

pub(super) fn check(examination: &Examination) -> Vec<Finding> {
    let config = &examination.config;
    let now = examination.clock.now();
    let mut findings = match config.gateway.tls.pair() {
        _ if config.gateway.tls.acme => ordered::look("gateway.tls.acme", config, &served(config), now),
        Some((cert, private)) => look("gateway.tls.cert", cert, private, &served(config), now),
        None => {
            let text = "not configured: the gateway serves without TLS, as behind a proxy that adds it";
            vec![Finding::ok(CHECK, "gateway.tls", text)]
        }
    };
    // A proxy may be in front of the management side too, so its certificate need not have the name of any URL.
    if config.admin.tls.acme {
        findings.extend(ordered::look("admin.tls.acme", config, &[], now));
    }
    findings.extend(
        config
            .admin
            .tls
            .pair()
            .into_iter()
            .flat_map(|(cert, private)| look("admin.tls.cert", cert, private, &[], now)),
    );
    findings.extend(clients(config, now));
    findings
}

fn look(key: &str, cert: &Path, private: &Path, urls: &[(&'static str, &Url)], now: Time) -> Vec<Finding> {
    let subject = format!("{key} {}", cert.display());
    match Certified::read(cert, private) {
        Ok(certified) => {
            let expires = certified.own().and_then(|own| certified.expires(&own, now));
            let advice =
                "append the intermediate certificates (fullchain.pem), unless the authority is your own";
            judge(&certified, &subject, urls, expiry(expires, &subject, now), advice, now)
        }
        Err(why) => {
            let advice = "put the certificate with its chain and the key that belongs to it, both in PEM, into these files";
            vec![Finding::failure(CHECK, subject, why, advice)]
        }
    }
}

/// Checks the expiry of the authorities of clients' certificates.
fn clients(config: &Config, now: Time) -> Vec<Finding> {
    let Some(file) = &config.admin.tls.client_ca else { return Vec::new() };
    let subject = format!("admin.tls.client_ca {}", file.display());
    let authorities = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let advice =
        "put the certificates of the authorities that sign client certificates, in PEM, into this file";
    let authorities = match authorities {
        Ok(authorities) if !authorities.is_empty() => authorities,
        Ok(_) => return vec![Finding::failure(CHECK, subject, "holds no certificate in PEM", advice)],
        Err(error) => return vec![Finding::failure(CHECK, subject, error.to_string(), advice)],
    };
    // All authorities that do not expire soon share one line.
    let mut findings: Vec<_> = authorities
        .iter()
        .map(|authority| expiry(validity(authority).map(|valid| valid.end), &subject, now))
        .filter(|finding| finding.verdict != Verdict::Ok)
        .collect();
    if findings.is_empty() {
        findings.push(Finding::ok(
            CHECK,
            subject,
            format!("authorities of clients' certificates: {}", authorities.len()),
        ));
    }
    findings
}

struct Certified {
    leaf: CertificateDer<'static>,
    above: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Certified {
    /// Reads both files, and checks that they belong together.
    fn read(cert: &Path, key: &Path) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let named = |file: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let chain: Vec<_> = CertificateDer::pem_file_iter(cert)
            .and_then(Iterator::collect)
            .map_err(|error| named(cert, &error))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| named(key, &error))?;
        let [leaf, above @ ..] = &chain[..] else { return Err(named(cert, &"holds no certificate in PEM")) };
        let leaf = leaf.clone();
        let above = above.to_vec();
        CertifiedKey::from_der(chain.clone(), private, &provider).map_err(|error| match error {
            Error::InconsistentKeys(_) => format!("does not belong to the key in {}", key.display()),
            error => error.to_string(),
        })?;
        Ok(Certified { leaf, above, provider })
    }

    /// Verifies the chain at this time with these trusted authorities. Returns `None` if it is valid.
    fn chain_error(&self, roots: RootCertStore, now: Time) -> Option<Error> {
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.into(), self.provider.clone()).build();
        let verifier = match verifier {
            Ok(verifier) => verifier,
            Err(error) => return Some(Error::General(error.to_string())),
        };
        let name = ServerName::try_from(NOBODY).ok()?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now.secs()));
        // The name is checked last, and the certificate cannot have it.
        verifier.verify_server_cert(&self.leaf, &self.above, &name, &[], now).err().filter(|error| {
            !matches!(error, Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. }))
        })
    }

    /// Returns the certificate's names if it is not valid for `name`.
    fn other_names(&self, name: &str) -> Option<Vec<String>> {
        let name = ServerName::try_from(name.to_owned()).ok()?;
        let parsed = ParsedCertificate::try_from(&self.leaf).ok()?;
        match verify_server_name(&parsed, &name) {
            Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                presented, ..
            })) => Some(presented.iter().map(|name| bare(name).to_owned()).collect()),
            Err(_) => Some(Vec::new()),
            Ok(()) => None,
        }
    }

    fn public() -> RootCertStore {
        RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
    }

    /// Returns the last certificate of the file as the only authority, so that only the file's contents are checked.
    fn own(&self) -> Option<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.above.last().unwrap_or(&self.leaf).clone()).ok()?;
        Some(roots)
    }

    /// Returns the time at which the first certificate of the chain expires. Times are verified before authorities.
    fn expires(&self, roots: &RootCertStore, now: Time) -> Option<Time> {
        match self.chain_error(roots.clone(), now.plus(FAR)) {
            Some(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
                Some(Time::from_secs(not_after.as_secs()))
            }
            _ => None,
        }
    }
}

/// Checks the chain and the names of a certificate after its expiry. `advice` is for a certificate that no public
/// authority has signed.
fn judge(
    certified: &Certified,
    subject: &str,
    urls: &[(&'static str, &Url)],
    expiry: Finding,
    advice: &str,
    now: Time,
) -> Vec<Finding> {
    let Some(own) = certified.own() else {
        let advice = "make sure that the file has only valid certificates";
        return vec![Finding::failure(CHECK, subject, "its chain cannot be read", advice)];
    };
    let mut findings = vec![expiry];
    match certified.chain_error(own, now) {
        // An expired certificate already has a line.
        None | Some(Error::InvalidCertificate(CertificateError::ExpiredContext { .. })) => {}
        // A single certificate that is not self-signed. A check below reports whether a public authority has signed it.
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) if certified.above.is_empty() => {}
        Some(error) => {
            let text = format!("its chain is wrong: {error}");
            let advice = "the file must have the gateway's certificate first, then each one that signed the one before it";
            findings.push(Finding::failure(CHECK, subject, text, advice));
        }
    }
    if let Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) =
        certified.chain_error(Certified::public(), now)
    {
        let text = "no public authority is found above it: clients refuse it unless they trust its authority";
        findings.push(Finding::warning(CHECK, subject, text, advice));
    }
    findings.extend(names(certified, subject, urls));
    findings
}

fn names(certified: &Certified, subject: &str, urls: &[(&'static str, &Url)]) -> Vec<Finding> {
    let shown = certified.other_names(NOBODY).filter(|names| !names.is_empty());
    let shown = shown.map_or_else(|| "no name".to_owned(), |names| names.join(", "));
    let mut findings = Vec::new();
    for (key, url) in urls {
        let host = host(url);
        if certified.other_names(&host).is_some() {
            let text = format!("is not for {host}, the host of {key}, but for {shown}");
            let advice =
                format!("get a certificate for {host}, or correct {key}: clients refuse the connection");
            findings.push(Finding::failure(CHECK, subject, text, advice));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, subject, format!("is for {shown}")));
    }
    findings
}

fn expiry(expires: Option<Time>, subject: &str, now: Time) -> Finding {
    let Some(expires) = expires else {
        let advice = "look at it with openssl x509 -noout -dates";
        return Finding::warning(CHECK, subject, "its expiry cannot be read", advice);
    };
    let left = expires.since(now);
    let days = left.as_secs() / DAY.as_secs();
    let advice = "renew it and replace the file: the new one is in use within seconds";
    if left.is_zero() {
        let text = format!("has expired {} days ago", now.since(expires).as_secs() / DAY.as_secs());
        return Finding::failure(CHECK, subject, text, advice);
    }
    if left < SOON {
        return Finding::warning(CHECK, subject, format!("expires in {days} days"), advice);
    }
    Finding::ok(CHECK, subject, format!("belongs to its key, expires in {days} days"))
}

/// Returns the URLs, by their keys, at which clients reach a listener with this certificate.
fn served(config: &Config) -> Vec<(&'static str, &Url)> {
    let admin = &config.admin;
    let tls = &config.gateway.tls;
    let http = admin.gateway_url.as_ref().filter(|url| url.scheme() == "https" && tls.covers_http());
    let grpc = admin.grpc_url.as_ref().filter(|url| url.scheme() == "https");
    [("admin.gateway_url", http), ("admin.grpc_url", grpc)]
        .into_iter()
        .filter_map(|(key, url)| Some((key, url?)))
        .collect()
}

/// Returns a name without its kind: the library writes `DnsName("gate.example")`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

fn host(url: &Url) -> String {
    let url: Option<http::Uri> = url.expose().parse().ok();
    let host = url.as_ref().and_then(http::Uri::host).unwrap_or_default();
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

#[cfg(test)]
mod tests;
