//! `[acme]`: certificates that the programs order themselves.

use super::fields::{Fields, Table};
use super::problem::Problem;
use super::secret::Secret;
use super::url::Url;
use super::value::Word;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Let's Encrypt, whose certificates browsers trust.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// The maximum number of names in a certificate, as for Let's Encrypt.
const MOST_DOMAINS: usize = 100;
const MOST_CONTACTS: usize = 10;

/// `[acme]`: ordering of certificates by ACME (RFC 8555), for `[gateway.tls]` and `[admin.tls]` with `acme = true`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AcmeSettings {
    /// The names of the certificate. Each must resolve to a program that uses it.
    pub domains: Vec<String>,
    /// Mail addresses at which the authority contacts the operator; none by default.
    pub contacts: Vec<String>,
    /// The directory URL of the authority; Let's Encrypt by default.
    pub directory_url: Option<Url>,
    /// The folder of account key, certificate, its key, and failures. Programs that share it order one at a time.
    pub dir: PathBuf,
    /// The check that the names lead here.
    pub challenge: AcmeChallenge,
    /// The address that answers checks over HTTP while an order runs.
    pub http_listen: Option<SocketAddr>,
    /// A PEM file of additional authorities for the certificate of the authority's own server.
    pub ca_file: Option<PathBuf>,
    /// The id of the operator's account with the authority, if it requires one.
    pub eab_key_id: Option<String>,
    /// The key of that account, in base64url as authorities show it.
    pub eab_key: Option<Secret>,
}

/// The authority's check that a name leads to the program that orders a certificate for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum AcmeChallenge {
    /// A TLS handshake on port 443, which the listener itself answers (RFC 8737).
    #[default]
    TlsAlpn01,
    /// A request on port 80, which [`AcmeSettings::http_listen`] answers (RFC 8555, section 8.3).
    Http01,
}

impl Word for AcmeChallenge {
    const WORDS: &'static [(&'static str, Self)] =
        &[("tls-alpn-01", AcmeChallenge::TlsAlpn01), ("http-01", AcmeChallenge::Http01)];
}

impl Default for AcmeSettings {
    fn default() -> Self {
        AcmeSettings {
            domains: Vec::new(),
            contacts: Vec::new(),
            directory_url: None,
            dir: "acme".into(),
            challenge: AcmeChallenge::default(),
            http_listen: None,
            ca_file: None,
            eab_key_id: None,
            eab_key: None,
        }
    }
}

impl AcmeSettings {
    /// Returns the URL of the authority's directory.
    pub fn directory_url(&self) -> &str {
        self.directory_url.as_ref().map_or(LETS_ENCRYPT, Url::expose)
    }
}

impl Table for AcmeSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("domains", &mut self.domains);
        f.value("contacts", &mut self.contacts);
        f.url("directory_url", &mut self.directory_url, &["https"]);
        f.value("dir", &mut self.dir);
        f.word("challenge", &mut self.challenge);
        f.value("http_listen", &mut self.http_listen);
        f.value("ca_file", &mut self.ca_file);
        f.value("eab_key_id", &mut self.eab_key_id);
        f.secret("eab_key", &mut self.eab_key, 16);
        let invalid = |why: &str| {
            let why = why.to_owned();
            move |key| Problem::Invalid { key, why }
        };
        if self.domains.len() > MOST_DOMAINS || !self.domains.iter().all(|name| is_domain(name)) {
            let why = "must be at most 100 names such as rpc.example.com, in lower case; an authority checks no names with * in \
                       this way";
            f.wrong(&["domains"], invalid(why));
        }
        let is_address = |text: &String| text.contains('@') && !text.contains(char::is_whitespace);
        if self.contacts.len() > MOST_CONTACTS || !self.contacts.iter().all(is_address) {
            f.wrong(&["contacts"], invalid("must be at most 10 mail addresses"));
        }
        if self.challenge == AcmeChallenge::Http01 && self.http_listen.is_none() {
            let why =
                "= \"http-01\" needs acme.http_listen beside it, to which port 80 of the names must lead";
            f.wrong(&["challenge"], invalid(why));
        }
        for (given, is_set, has_other, missing) in [
            ("eab_key_id", self.eab_key_id.is_some(), self.eab_key.is_some(), "eab_key"),
            ("eab_key", self.eab_key.is_some(), self.eab_key_id.is_some(), "eab_key_id"),
        ] {
            if is_set && !has_other {
                f.wrong(&[given], invalid(&format!("needs acme.{missing} beside it")));
            }
        }
    }
}

/// Reports whether the text is a lower-case name of at least two labels (RFC 1123) and not an address.
fn is_domain(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last_is_no_number =
        name.rsplit('.').next().is_some_and(|last| last.bytes().any(|byte| byte.is_ascii_lowercase()));
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_label) && last_is_no_number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinguished_from_addresses_and_uncheckable_names() {
        for name in ["rpc.example.com", "a.b", "xn--bcher-kva.example", "1.example"] {
            assert!(is_domain(name), "{name}");
        }
        let long = format!("{}.example", "a".repeat(64));
        for name in [
            "",
            "localhost",
            "*.example.com",
            "RPC.example.com",
            "127.0.0.1",
            "::1",
            "a..b",
            "-a.b",
            "a-.b",
            "a.b.",
            "a b.c",
            "a.b/c",
            "../a.b",
            &long,
        ] {
            assert!(!is_domain(name), "{name}");
        }
        assert!(!is_domain(&format!("{}a", "a.".repeat(127))), "254 letters");
    }
}
