//! TLS to Redis: `rediss://`, and the files that URL parameters may name.
//!
//! A server is trusted if its certificate is for the name in the URL and signed by one of the public CAs, which are
//! compiled in. With `?sslrootcert=/file`, only the CAs in that file are trusted. `sslcert` and `sslkey` name the
//! client certificate for servers that request one.

use super::BadRedis;
use redis::{Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, TlsCertificates};
use rustls::crypto::{CryptoProvider, ring};
use std::borrow::Cow;
use std::fs;

const ROOTS: &str = "sslrootcert";
const CERTIFICATE: &str = "sslcert";
const KEY: &str = "sslkey";

/// The value of `sslrootcert` that means the public CAs.
const SYSTEM: &str = "system";

/// A text that every certificate file contains.
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Returns the client for `url`. Files are read once, here.
pub(super) fn client(url: &str) -> Result<Client, BadRedis> {
    let (url, files) = Files::take(url);
    // The redis crate's message about a bad URL may contain its password.
    let bad = |error: redis::RedisError| BadRedis(format!("not a Redis URL ({:?})", error.kind()));
    let info = url.into_connection_info().map_err(bad)?;
    match info.addr() {
        ConnectionAddr::TcpTls { .. } => {
            if CryptoProvider::get_default().is_none() {
                // Another thread may have installed one in the meantime, which works as well.
                let _ = ring::default_provider().install_default();
            }
            let certificates = files.read()?;
            let unusable = |error| BadRedis(format!("has certificates that cannot be used: {error}"));
            Client::build_with_tls(info, certificates).map_err(unusable)
        }
        _ if files == Files::default() => Client::open(info).map_err(bad),
        _ => Err(BadRedis("names certificates, but asks for no TLS: write rediss://".into())),
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Files {
    roots: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

impl Files {
    /// Splits these parameters from a URL.
    fn take(url: &str) -> (Cow<'_, str>, Self) {
        let mut files = Files::default();
        let Some((head, query)) = url.split_once('?') else { return (url.into(), files) };
        let mut others = Vec::new();
        for pair in query.split('&') {
            let file = match pair.split('=').next() {
                Some(ROOTS) => &mut files.roots,
                Some(CERTIFICATE) => &mut files.certificate,
                Some(KEY) => &mut files.key,
                _ => {
                    others.push(pair);
                    continue;
                }
            };
            *file = form_urlencoded::parse(pair.as_bytes()).next().map(|(_, file)| file.into_owned());
        }
        let head = if others.is_empty() { head.to_owned() } else { format!("{head}?{}", others.join("&")) };
        (head.into(), files)
    }

    fn read(self) -> Result<TlsCertificates, BadRedis> {
        let roots = self.roots.filter(|file| file != SYSTEM);
        let root_cert = roots.map(|file| certificates(ROOTS, &file)).transpose()?;
        let client_tls = match (self.certificate, self.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(ClientTlsConfig {
                client_cert: certificates(CERTIFICATE, &certificate)?,
                client_key: bytes(KEY, &key)?,
            }),
            _ => return Err(BadRedis(format!("has only one of {CERTIFICATE} and {KEY}"))),
        };
        Ok(TlsCertificates { client_tls, root_cert })
    }
}

fn bytes(name: &str, file: &str) -> Result<Vec<u8>, BadRedis> {
    fs::read(file).map_err(|error| BadRedis(format!("{name}={file}: {error}")))
}

/// Reads a file of certificates. Refuses one without a certificate, which would mean that no CA is trusted.
fn certificates(name: &str, file: &str) -> Result<Vec<u8>, BadRedis> {
    let bytes = bytes(name, file)?;
    let has_any = bytes.windows(BEGIN.len()).any(|part| part == BEGIN);
    if has_any { Ok(bytes) } else { Err(BadRedis(format!("{name}={file}: holds no certificate"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(query: &str) -> (String, Files) {
        let url = format!("rediss://u:secret@h:6380/1{query}");
        let (plain, files) = Files::take(&url);
        (plain.trim_start_matches("rediss://u:secret@h:6380/1").to_owned(), files)
    }

    #[test]
    fn files_are_removed_from_a_url_and_the_rest_is_unchanged() {
        let some = |file: &str| Some(file.to_owned());
        assert_eq!(files(""), (String::new(), Files::default()));
        assert_eq!(files("?protocol=resp3").0, "?protocol=resp3");
        let (rest, found) = files("?sslrootcert=/a%20b.pem&protocol=resp3&sslcert=/c&sslkey=/k");
        assert_eq!(rest, "?protocol=resp3");
        assert_eq!(found, Files { roots: some("/a b.pem"), certificate: some("/c"), key: some("/k") });
    }

    #[test]
    fn an_unusable_parameter_is_named_without_the_password() {
        let folder = std::env::temp_dir().join(format!("rpcgate-redis-tls-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let empty = folder.join("empty.pem");
        let bad = folder.join("bad.pem");
        fs::write(&empty, "nothing").unwrap();
        fs::write(&bad, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        let empty = empty.display();
        let bad = bad.display();
        for (url, why) in [
            ("redis://u:secret@h?sslrootcert=/ca.pem".to_owned(), "names certificates, but asks for no TLS"),
            ("rediss://u:secret@h?sslcert=/c.pem".to_owned(), "has only one of sslcert and sslkey"),
            (
                "rediss://u:secret@h?sslrootcert=/nowhere/ca.pem".to_owned(),
                "sslrootcert=/nowhere/ca.pem: No such",
            ),
            (format!("rediss://u:secret@h?sslrootcert={empty}"), "holds no certificate"),
            (format!("rediss://u:secret@h?sslrootcert={bad}"), "has certificates that cannot be used: "),
            ("rediss://u:secret@h/seven".to_owned(), "not a Redis URL"),
            ("rediss://u:secret@h/#secret".to_owned(), "not a Redis URL"),
        ] {
            let error = client(&url).unwrap_err().to_string();
            assert!(error.starts_with("redis.url: ") && error.contains(why), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn without_a_file_the_public_authorities_are_trusted() {
        for query in ["", "?sslrootcert=system"] {
            assert!(client(&format!("rediss://h{query}")).is_ok());
        }
        assert!(client("redis://h").is_ok());
    }
}
