//! TLS on the way to a PostgreSQL server: what the parameters of `database.url` ask for.
//!
//! The driver trusts the web's authorities, which are compiled in, and those of `sslrootcert` beside them. That is why
//! `verify-full` is the mode to have: whoever has some host's certificate from one of the web's authorities does not
//! pass for the server by it.

use sea_orm::sqlx::postgres::PgSslMode;
use std::fs;
use std::path::PathBuf;

/// The parameters that name a file, in the spellings that the driver knows.
const ROOTS: [&str; 3] = ["sslrootcert", "ssl-root-cert", "ssl-ca"];
const CERTIFICATES: [&str; 2] = ["sslcert", "ssl-cert"];
const KEYS: [&str; 2] = ["sslkey", "ssl-key"];

/// What stands for a file where the web's authorities will do.
const SYSTEM: &str = "system";

/// What every file of certificates has in it.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

/// What a URL says of TLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wish {
    mode: Mode,
    roots: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// How far a server has to prove who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Not at all.
    Unproved,
    /// By any certificate of an authority.
    Authority,
    /// By one for its name.
    Full,
}

impl Wish {
    /// Reads what `url` says, of which the driver has understood `mode`.
    ///
    /// # Errors
    /// The end of a sentence that begins with the key: parameters that promise more than would be kept.
    pub(super) fn read(url: &str, mode: PgSslMode) -> Result<Self, &'static str> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let file = |names: &[&str]| {
            let named = |(name, _): &(_, _)| names.contains(&AsRef::<str>::as_ref(name));
            // The last one counts, as it does to the driver.
            let file = form_urlencoded::parse(query.as_bytes()).filter(named).last()?.1;
            Some(PathBuf::from(file.into_owned()))
        };
        let mode = match mode {
            PgSslMode::VerifyFull => Mode::Full,
            PgSslMode::VerifyCa => Mode::Authority,
            _ => Mode::Unproved,
        };
        let (roots, certificate, key) = (file(&ROOTS), file(&CERTIFICATES), file(&KEYS));
        let own = roots.as_ref().filter(|file| file.as_os_str() != SYSTEM);
        match (mode, &roots, own) {
            (Mode::Unproved, Some(_), _) => Err(
                "has an sslrootcert, but an sslmode that looks at no certificate: write sslmode=verify-full",
            ),
            (Mode::Authority, _, None) => Err(
                "has sslmode=verify-ca without an authority of its own (sslrootcert=/file), so that anybody's \
                     certificate would do: write sslmode=verify-full",
            ),
            _ if certificate.is_some() != key.is_some() => Err("has only one of sslcert and sslkey"),
            _ => Ok(Wish { mode, roots: own.cloned(), certificate, key }),
        }
    }

    /// `url` without what the driver would take for the name of a file.
    pub(super) fn plain(url: &str) -> String {
        let Some((head, query)) = url.split_once('?') else { return url.to_owned() };
        let is_system = |pair: &&str| {
            pair.split_once('=').is_some_and(|(name, value)| ROOTS.contains(&name) && value == SYSTEM)
        };
        let kept: Vec<&str> = query.split('&').filter(|pair| !is_system(pair)).collect();
        if kept.is_empty() { head.to_owned() } else { format!("{head}?{}", kept.join("&")) }
    }

    /// Looks at the files, which the driver does only when it connects, and then without saying which.
    ///
    /// # Errors
    /// What is wrong with one of them.
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

    /// What whoever set it may not know of it.
    pub(super) fn doubt(&self) -> Option<&'static str> {
        (self.mode == Mode::Authority).then_some(
            "sslmode=verify-ca looks at no name, and the web's authorities are trusted beside that of sslrootcert: \
             anybody with a certificate can pass for the server. Use sslmode=verify-full if the server's \
             certificate has its name",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sea_orm::sqlx::postgres::PgConnectOptions;

    fn read(query: &str) -> Result<Wish, &'static str> {
        let url = format!("postgres://u:secret@h/db{query}");
        let options: PgConnectOptions = Wish::plain(&url).parse().unwrap();
        Wish::read(&url, options.get_ssl_mode())
    }

    #[test]
    fn files_are_those_that_the_driver_reads() {
        for (query, mode, roots) in [
            ("", Mode::Unproved, None),
            ("?sslmode=disable", Mode::Unproved, None),
            ("?sslmode=require&channel_binding=require", Mode::Unproved, None),
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
    fn what_would_prove_less_than_it_says_is_refused() {
        let none = "an sslmode that looks at no certificate: write sslmode=verify-full";
        for (query, why) in [
            ("?sslrootcert=/ca.pem", none),
            ("?sslmode=require&sslrootcert=/ca.pem", none),
            ("?sslmode=require&sslrootcert=system", none),
            ("?sslmode=verify-ca", "anybody's certificate would do: write sslmode=verify-full"),
            ("?sslmode=verify-ca&sslrootcert=system", "write sslmode=verify-full"),
            ("?sslmode=verify-full&sslcert=/c", "has only one of sslcert and sslkey"),
        ] {
            let error = read(query).unwrap_err();
            assert!(error.ends_with(why), "{query}: {error}");
        }
    }

    #[test]
    fn only_the_word_that_is_no_file_is_kept_from_the_driver() {
        for (url, plain) in [
            ("postgres://h/db", "postgres://h/db"),
            ("postgres://h/db?sslrootcert=system", "postgres://h/db"),
            ("postgres://h/db?a=b&sslrootcert=system&c=system", "postgres://h/db?a=b&c=system"),
            ("postgres://h/db?sslrootcert=/system", "postgres://h/db?sslrootcert=/system"),
        ] {
            assert_eq!(Wish::plain(url), plain);
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (empty, missing) = (folder.path().join("empty.pem"), folder.path().join("missing.pem"));
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
    fn who_trusts_any_name_is_told() {
        assert!(read("?sslmode=verify-ca&sslrootcert=/ca.pem").unwrap().doubt().is_some());
        assert!(read("?sslmode=verify-full&sslrootcert=/ca.pem").unwrap().doubt().is_none());
    }
}
