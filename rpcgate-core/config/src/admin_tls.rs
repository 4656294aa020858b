//! `[admin.tls]`: the certificates of the management side and of its clients.

use super::fields::{Fields, Table};
use super::problem::Problem;
use super::value::Word;
use std::path::{Path, PathBuf};

/// `[admin.tls]`: PEM files, or a certificate by ACME. With either, the management side serves over TLS.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct AdminTls {
    /// The certificate with its chain.
    pub cert: Option<PathBuf>,
    /// The private key.
    pub key: Option<PathBuf>,
    /// Orders the certificate by `[acme]` instead of reading these files.
    pub acme: bool,
    /// The authorities of client certificates. Without them, clients are not asked for one.
    pub client_ca: Option<PathBuf>,
    /// The requirement for a client certificate.
    pub client_auth: ClientAuth,
}

/// The requirement for a client certificate from `client_ca`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ClientAuth {
    /// Refuses a client without one.
    #[default]
    Required,
    /// Accepts a client without one, and refuses a certificate of another authority.
    Optional,
}

impl Word for ClientAuth {
    const WORDS: &'static [(&'static str, Self)] =
        &[("required", ClientAuth::Required), ("optional", ClientAuth::Optional)];
}

impl AdminTls {
    /// Reports whether the management side serves over TLS.
    pub fn is_served(&self) -> bool {
        self.acme || self.pair().is_some()
    }

    /// Returns the files of certificate and key, if both are given.
    pub fn pair(&self) -> Option<(&Path, &Path)> {
        Some((self.cert.as_deref()?, self.key.as_deref()?))
    }
}

impl Table for AdminTls {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("cert", &mut self.cert);
        f.value("key", &mut self.key);
        f.value("acme", &mut self.acme);
        f.value("client_ca", &mut self.client_ca);
        f.word("client_auth", &mut self.client_auth);
        for (given, is_set, other, missing) in [
            ("cert", self.cert.is_some(), &self.key, "key"),
            ("key", self.key.is_some(), &self.cert, "cert"),
            ("client_ca", self.client_ca.is_some() && !self.acme, &self.cert, "cert"),
        ] {
            if is_set && other.is_none() {
                let why = format!("needs admin.tls.{missing} beside it");
                f.wrong(&[given], |key| Problem::Invalid { key, why });
            }
        }
        if self.acme && (self.cert.is_some() || self.key.is_some()) {
            let why =
                "= true takes the place of admin.tls.cert and admin.tls.key: give one or the other".into();
            f.wrong(&["acme"], |key| Problem::Invalid { key, why });
        }
        if self.client_auth != ClientAuth::Required && self.client_ca.is_none() {
            let why = "needs admin.tls.client_ca beside it".into();
            f.wrong(&["client_auth"], |key| Problem::Invalid { key, why });
        }
    }
}
