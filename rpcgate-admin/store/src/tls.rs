//! TLS options of the connection to a PostgreSQL server, from the parameters of `database.url`.
//!
//! The driver trusts the compiled-in public certificate authorities and in addition those of `sslrootcert`.
//! `verify-full` is therefore recommended: with it, a public certificate for another host cannot impersonate the
//! server.

use sea_orm::sqlx::postgres::PgSslMode;
use std::fs;
use std::path::PathBuf;

/// The parameters that name a file, in the spellings that the driver accepts.
const ROOTS: [&str; 3] = ["sslrootcert", "ssl-root-cert", "ssl-ca"];
const CERTIFICATES: [&str; 2] = ["sslcert", "ssl-cert"];
const KEYS: [&str; 2] = ["sslkey", "ssl-key"];

const SYSTEM: &str = "system";

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TlsOptions {
    mode: Mode,
    roots: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    None,
    /// Accepts a certificate of any trusted authority, for any name.
    Authority,
    /// Requires a certificate for the server's name.
    Full,
}

impl TlsOptions {
    /// Reads the parameters of `url`, from which the driver has parsed `mode`.
    ///
    /// # Errors
    /// The end of a sentence that begins with the name of the setting: the parameters promise more than the driver
    /// would verify.
    pub(super) fn read(url: &str, mode: PgSslMode) -> Result<Self, &'static str> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let file = |names: &[&str]| {
            let named = |(name, _): &(_, _)| names.contains(&AsRef::<str>::as_ref(name));
            // The last one counts, as in the driver.
            let file = form_urlencoded::parse(query.as_bytes()).filter(named).last()?.1;
            Some(PathBuf::from(file.into_owned()))
        };
        let mode = match mode {
            PgSslMode::VerifyFull => Mode::Full,
            PgSslMode::VerifyCa => Mode::Authority,
            _ => Mode::None,
        };
        let roots = file(&ROOTS);
        let certificate = file(&CERTIFICATES);
        let key = file(&KEYS);
        let own = roots.as_ref().filter(|file| file.as_os_str() != SYSTEM);
        match (mode, &roots, own) {
            (Mode::None, Some(_), _) => Err(
                "has an sslrootcert, but an sslmode that verifies no certificate: write sslmode=verify-full",
            ),
            (Mode::Authority, _, None) => {
                Err("has sslmode=verify-ca without an authority of its own (sslrootcert=/file), so that any \
                 certificate of a public authority would do: write sslmode=verify-full")
            }
            _ if certificate.is_some() != key.is_some() => Err("has only one of sslcert and sslkey"),
            _ => Ok(TlsOptions { mode, roots: own.cloned(), certificate, key }),
        }
    }

    /// Returns `url` without the parameters whose value the driver would mistake for a file name.
    pub(super) fn without_system_roots(url: &str) -> String {
        let Some((head, query)) = url.split_once('?') else { return url.to_owned() };
        let is_system = |pair: &&str| {
            pair.split_once('=').is_some_and(|(name, value)| ROOTS.contains(&name) && value == SYSTEM)
        };
        let kept: Vec<&str> = query.split('&').filter(|pair| !is_system(pair)).collect();
        if kept.is_empty() { head.to_owned() } else { format!("{head}?{}", kept.join("&")) }
    }

    /// Checks the files. The driver reads them only when it connects, and its errors do not name the file.
    ///
    /// # Errors
    /// The error in one of the files.
    pub(super) fn check(&self) -> Result<(), String> {
        for (name, file, holds) in [
            ("sslrootcert", &self.roots, Some(CERTIFICATE)),
            ("sslcert", &self.certificate, Some(CERTIFICATE)),
            ("sslkey", &self.key, None),
        ] {
            let Some(file) = file else { continue };
            let text = fs::read(file).map_err(|error| format!("{name}={}: {error}", file.display()))?;
            if holds.is_some_and(|holds| !String::from_utf8_lossy(&text).contains(holds)) {
                return Err(format!("{name}={}: holds no certificate", file.display()));
            }
        }
        Ok(())
    }

    /// Warns about options that verify less than they seem to.
    pub(super) fn warning(&self) -> Option<&'static str> {
        (self.mode == Mode::Authority).then_some(
            "sslmode=verify-ca does not check the server's name, and the public authorities are trusted besides \
             that of sslrootcert: any holder of a certificate can impersonate the server. Use \
             sslmode=verify-full if the server's certificate has its name",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sea_orm::sqlx::postgres::PgConnectOptions;

    fn read(query: &str) -> Result<TlsOptions, &'static str> {
        let url = format!("postgres://u:secret@h/db{query}");
        let options: PgConnectOptions = TlsOptions::without_system_roots(&url).parse().unwrap();
        TlsOptions::read(&url, options.get_ssl_mode())
    }

    #[test]
    fn files_are_those_that_the_driver_reads() {
        for (query, mode, roots) in [
            ("", Mode::None, None),
            ("?sslmode=disable", Mode::None, None),
            ("?sslmode=require&channel_binding=require", Mode::None, None),
            ("?sslmode=verify-full", Mode::Full, None),
            ("?sslmode=verify-full&sslrootcert=system", Mode::Full, None),
            ("?sslrootcert=/a%20b/c.pem&sslmode=verify-full", Mode::Full, Some("/a b/c.pem")),
            ("?sslmode=verify-ca&ssl-ca=/1&sslrootcert=/2", Mode::Authority, Some("/2")),
        ] {
            let wish = read(query).unwrap();
            assert_eq!((wish.mode, wish.roots), (mode, roots.map(PathBuf::from)), "{query}");
        }
        let wish = read("?sslmode=verify-full&sslcert=/c&sslkey=/k").unwrap();
        assert_eq!((wish.certificate, wish.key), (Some("/c".into()), Some("/k".into())));
    }

    #[test]
    fn options_that_verify_less_than_they_promise_are_refused() {
        let none = "an sslmode that verifies no certificate: write sslmode=verify-full";
        for (query, why) in [
            ("?sslrootcert=/ca.pem", none),
            ("?sslmode=require&sslrootcert=/ca.pem", none),
            ("?sslmode=require&sslrootcert=system", none),
            (
                "?sslmode=verify-ca",
                "any certificate of a public authority would do: write sslmode=verify-full",
            ),
            ("?sslmode=verify-ca&sslrootcert=system", "write sslmode=verify-full"),
            ("?sslmode=verify-full&sslcert=/c", "has only one of sslcert and sslkey"),
        ] {
            let error = read(query).unwrap_err();
            assert!(error.ends_with(why), "{query}: {error}");
        }
    }

    #[test]
    fn only_the_value_that_is_not_a_file_is_withheld_from_the_driver() {
        for (url, without_system_roots) in [
            ("postgres://h/db", "postgres://h/db"),
            ("postgres://h/db?sslrootcert=system", "postgres://h/db"),
            ("postgres://h/db?a=b&sslrootcert=system&c=system", "postgres://h/db?a=b&c=system"),
            ("postgres://h/db?sslrootcert=/system", "postgres://h/db?sslrootcert=/system"),
        ] {
            assert_eq!(TlsOptions::without_system_roots(url), without_system_roots);
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        let missing = folder.path().join("missing.pem");
        fs::write(&empty, "nothing").unwrap();
        for (name, file, why) in
            [("sslrootcert", &empty, "holds no certificate"), ("sslrootcert", &missing, "No such file")]
        {
            let wish = read(&format!("?sslmode=verify-full&{name}={}", file.display())).unwrap();
            let error = wish.check().unwrap_err();
            assert!(
                error.starts_with(&format!("{name}={}: ", file.display())) && error.contains(why),
                "{error}"
            );
        }
        assert_eq!(read("?sslmode=verify-full").unwrap().check(), Ok(()));
    }

    #[test]
    fn trust_in_any_name_causes_a_warning() {
        assert!(read("?sslmode=verify-ca&sslrootcert=/ca.pem").unwrap().warning().is_some());
        assert!(read("?sslmode=verify-full&sslrootcert=/ca.pem").unwrap().warning().is_none());
    }
}
