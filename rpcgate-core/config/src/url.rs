//! URLs whose secrets must not appear in a log, an error or a printout.

use super::masking::{MASK, Masking};
use super::problem::Problem;
use super::reading::Reading;
use super::secret::{self, Secret};
use super::tree::Item;
use rpcgate_core::url_secrets::{shown_login, shown_target};
use std::fmt;
use std::net::IpAddr;

/// Parameters of database URLs that are not secret. All others are hidden: a driver may know further secret parameters
/// (`sslpassword`, `options`), and a misspelled name may have a secret value. URLs of other servers have no exceptions.
const HARMLESS_PARAMETERS: [&str; 21] = [
    "application_name",
    "cache",
    "connect_timeout",
    "db",
    "dbname",
    "host",
    "hostaddr",
    "immutable",
    "mode",
    "port",
    "protocol",
    "ssl-ca",
    "ssl-cert",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
    "vfs",
];

/// A URL, inline or, like a [`Secret`], as `{ file = "…" }` or `{ env = "…" }`, which makes all of it secret. `Display`
/// and `Debug` mask what [`url_secrets`](rpcgate_core::url_secrets) masks, and in a database URL the password and every
/// parameter that is not known to be harmless.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    text: String,
    hidden: bool,
}

impl Url {
    /// Parses a URL with one of `schemes`: a host (a file for `sqlite`), no fragment, no spaces, a valid port. The
    /// error is the end of a sentence that begins with the key, without the URL.
    pub fn parse(text: &str, schemes: &[&str]) -> Result<Self, String> {
        let expected = || match schemes {
            [one] => format!("must begin with {one}://"),
            many => format!("must begin with one of {}://", many.join("://, ")),
        };
        let (scheme, rest) = text.split_once(':').ok_or_else(expected)?;
        // A scheme has no case (RFC 3986, 3.1). Every later comparison sees the lower-case form.
        let scheme = scheme.to_ascii_lowercase();
        if !schemes.contains(&scheme.as_str()) {
            return Err(expected());
        }
        if text.contains('#') {
            return Err("must not have a fragment (#…)".into());
        }
        if let Some(bad) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
            return Err(format!("must not contain the character {bad:?}"));
        }
        let url = Url { text: format!("{scheme}:{rest}"), hidden: false };
        match scheme.as_str() {
            "sqlite" if rest.trim_start_matches('/').is_empty() => {
                Err("must name a file, as in sqlite://rpcgate.db".into())
            }
            "sqlite" => Ok(url),
            // A local server is reached through its Unix socket, which `?host=` names.
            "postgres" | "postgresql" if rest.starts_with("///") => Ok(url),
            _ => rest.strip_prefix("//").ok_or_else(expected).and_then(authority).map(|()| url),
        }
    }

    /// Returns the URL as given, including its password.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Returns the scheme, the part before the first colon.
    pub fn scheme(&self) -> &str {
        self.text.split(':').next().unwrap_or_default()
    }

    /// Returns the URL with its secrets masked, or only the mask if it came from a file or a variable.
    pub fn masked(&self) -> String {
        self.masked_by(MASK)
    }

    /// Masks the URL of a node in which an earlier version may have masked fewer parts.
    pub(super) fn masked_again(text: &str) -> String {
        Url { text: text.to_owned(), hidden: false }.masked_by(MASK)
    }

    fn masked_by(&self, mask: &str) -> String {
        if self.hidden {
            return mask.into();
        }
        // A file's URL may have no authority, but slashes in its query.
        let (scheme, rest) = self.text.split_once(':').unwrap_or(("", &self.text));
        let (head, rest) = match rest.strip_prefix("//") {
            Some(rest) => (format!("{scheme}://"), rest),
            None => (format!("{scheme}:"), rest),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let is_database =
            matches!(self.scheme(), "sqlite" | "postgres" | "postgresql" | "redis" | "rediss" | "unix");
        if !is_database {
            let login = authority.rsplit_once('@');
            let authority = login
                .map_or(authority.to_owned(), |(login, host)| format!("{}@{host}", shown_login(login, mask)));
            return format!("{head}{authority}{}", shown_target(path, mask));
        }
        let authority = match authority.rsplit_once('@') {
            Some((user, host)) => match user.split_once(':') {
                Some((name, _)) => format!("{name}:{mask}@{host}"),
                None => authority.to_owned(),
            },
            None => authority.to_owned(),
        };
        let path = match path.split_once('?') {
            Some((path, query)) => {
                format!(
                    "{path}?{}",
                    query.split('&').map(|pair| parameter(pair, mask)).collect::<Vec<_>>().join("&")
                )
            }
            None => path.to_owned(),
        };
        format!("{head}{authority}{path}")
    }

    /// Reports whether `other` leads to the same place, by TLS, host, port and path. Logins are not compared.
    pub(super) fn is_same_address(&self, other: &Url) -> bool {
        self.address().is_some_and(|address| other.address() == Some(address))
    }

    /// Returns whether TLS is used, the host, the port, and the path with its query. `None` if the URL has no host.
    fn address(&self) -> Option<(bool, String, u16, String)> {
        let (scheme, rest) = self.text.split_once("://")?;
        let is_tls = matches!(scheme, "https" | "wss" | "grpcs");
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()?),
            _ => (host, if is_tls { 443 } else { 80 }),
        };
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let name = bare
            .parse::<IpAddr>()
            .map_or_else(|_| bare.to_ascii_lowercase(), |address| address.to_canonical().to_string());
        let slash = if target.starts_with('/') { "" } else { "/" };
        Some((is_tls, name, port, format!("{slash}{target}")))
    }

    /// Removes user and password and returns them without percent-escapes. `Err` if they are not UTF-8.
    pub(super) fn take_login(&mut self) -> Result<Option<(String, Secret)>, String> {
        let Some((head, rest)) = self.text.split_once("//") else {
            return Ok(None);
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let Some((login, host)) = authority.rsplit_once('@') else {
            return Ok(None);
        };
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let bad = || "has a user or password with a broken percent-escape".to_owned();
        let login = (decode(user).ok_or_else(bad)?, Secret::new(decode(password).ok_or_else(bad)?));
        self.text = format!("{head}//{host}{path}");
        Ok(Some(login))
    }

    pub(super) fn quoted(&self, masking: &Masking<'_>) -> String {
        super::toml_text::quote(&self.masked_by(&masking.of(&self.text)))
    }

    pub(super) fn read(item: &Item, r: &mut Reading<'_>, schemes: &[&str]) -> Option<Self> {
        let (text, hidden) = secret::text(item, r)?;
        if text.contains(MASK) {
            return r.invalid(item, "is masked: *** stands for a secret that was left out");
        }
        match Url::parse(&text, schemes) {
            Ok(url) => Some(Url { hidden, ..url }),
            Err(why) => r.wrong(item, |key| Problem::Invalid { key, why }),
        }
    }
}

/// Masks a parameter of a database URL. One without a name is hidden as a whole.
fn parameter(pair: &str, mask: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if HARMLESS_PARAMETERS.iter().any(|known| name.eq_ignore_ascii_case(known)) => {
            pair.to_owned()
        }
        Some((name, _)) => format!("{name}={mask}"),
        None => mask.to_owned(),
    }
}

fn authority(rest: &str) -> Result<(), String> {
    let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    if name.is_empty() {
        return Err("must name a host".into());
    }
    if let Some(port) = port
        && !port.parse::<u16>().is_ok_and(|port| port > 0)
    {
        // This may be a part of a password with a slash, so the text is not shown.
        return Err("has a port that is not between 1 and 65535".into());
    }
    match format!("http://{rest}").parse::<http::Uri>() {
        Ok(_) => Ok(()),
        Err(_) => Err("is not a URL".into()),
    }
}

pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let mut byte = [0];
            hex::decode_to_slice(tail.get(..2)?, &mut byte).ok()?;
            bytes.push(byte[0]);
            rest = tail.get(2..)?;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[&str] = &["http", "https", "ws", "postgres", "sqlite", "redis"];

    fn why(text: &str) -> String {
        Url::parse(text, ALL).unwrap_err()
    }

    #[test]
    fn urls_of_every_kind_are_accepted() {
        for good in [
            "http://127.0.0.1:8545",
            "https://u:p%40@h.example/a/b?c=d",
            "http://[::1]:80/",
            "sqlite://a.db?mode=rwc",
            "sqlite::memory:",
            "sqlite:///var/lib/a.db",
            "postgres://u:p@h/db",
            "postgres:///db?host=/run/pg",
            "redis://h:6379/0",
        ] {
            assert_eq!(Url::parse(good, ALL).map(|u| u.expose().to_owned()), Ok(good.to_owned()));
        }
    }

    #[test]
    fn each_mistake_is_named() {
        assert_eq!(why("http://h/#x"), "must not have a fragment (#…)");
        assert_eq!(why("http://h:0/"), "has a port that is not between 1 and 65535");
        assert_eq!(why("http://h:99999"), "has a port that is not between 1 and 65535");
        assert_eq!(why("http://user:pass/word@h"), "has a port that is not between 1 and 65535");
        assert_eq!(why("http://"), "must name a host");
        assert_eq!(why("http:///x"), "must name a host");
        assert_eq!(why("http://a b"), "must not contain the character ' '");
        assert_eq!(why("http://h<>/"), "is not a URL");
        assert_eq!(why("sqlite://"), "must name a file, as in sqlite://rpcgate.db");
        assert_eq!(Url::parse("ftp://h", &["http"]), Err("must begin with http://".into()));
        assert_eq!(Url::parse("h:1", &["ws", "wss"]), Err("must begin with one of ws://, wss://".into()));
    }

    #[test]
    fn secrets_are_masked_everywhere() {
        for (given, shown) in [
            ("postgres://u:p@ss@h/db", "postgres://u:***@h/db"),
            ("postgres://h/db?host=/run/pg&Password=x", "postgres://h/db?host=/run/pg&Password=***"),
            (
                "postgres://u:p@h/db?sslmode=verify-full&sslpassword=x&%70assword=x&options=x&sslkey=x",
                "postgres://u:***@h/db?sslmode=verify-full&sslpassword=***&%70assword=***&options=***&sslkey=***",
            ),
            ("postgres://h/db?x&bad=a=b&", "postgres://h/db?***&bad=***&***"),
            ("redis://h/0?protocol=3&pass=x", "redis://h/0?protocol=3&pass=***"),
            ("sqlite:a.db?mode=rwc&key=x//y@z", "sqlite:a.db?mode=rwc&key=***"),
            ("http://u@h/", "http://***@h/"),
            ("http://u:p@h/", "http://u:***@h/"),
            ("http://h/p?dkey=x&a=b&c", "http://h/p?dkey=***&a=***&***"),
            ("https://h/v2/Qk3vB7nX9pLs2Rt5/x", "https://h/v2/***/x"),
            (
                "sqlite:///var/lib/a-long-name-of-a-folder/a.db",
                "sqlite:///var/lib/a-long-name-of-a-folder/a.db",
            ),
            ("sqlite::memory:", "sqlite::memory:"),
        ] {
            let url = Url::parse(given, ALL).unwrap();
            assert_eq!(format!("{url} {url:?}"), format!("{shown} {shown}"));
        }
    }

    #[test]
    fn two_spellings_of_one_address_are_the_same_address() {
        let is_same = |one: &str, other: &str| {
            let url = |text| Url::parse(text, &["http", "https", "grpc", "grpcs"]).unwrap();
            url(one).is_same_address(&url(other))
        };
        for (one, other) in [
            ("http://a:1", "http://a:1/"),
            ("HTTP://A.example:1", "http://a.Example:1"),
            ("https://a", "https://a:443/"),
            ("http://a:80?x=1", "http://a/?x=1"),
            ("http://u:p@a/b", "http://a/b"),
            ("http://[::1]:1", "http://[0:0::1]:1/"),
            ("http://[::ffff:10.0.0.1]:1", "http://10.0.0.1:1"),
            ("grpc://a:1", "http://a:1"),
        ] {
            assert!(is_same(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("http://a", "https://a"),
            ("http://a:1", "http://a:2"),
            ("http://a/x", "http://a/x/"),
            ("http://a/x", "http://a/X"),
            ("http://a/?x=1", "http://a/?x=2"),
            ("http://a:443", "https://a:443"),
        ] {
            assert!(!is_same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn user_and_password_are_removed_with_resolved_escapes() {
        let mut url = Url::parse("http://us%65r:p%40ss@h:1/x?y=z", ALL).unwrap();
        assert_eq!(url.take_login(), Ok(Some(("user".into(), Secret::new("p@ss")))));
        assert_eq!(url.take_login(), Ok(None));
        assert_eq!(url.expose(), "http://h:1/x?y=z");
        let mut bad = Url::parse("http://u:%zz@h", ALL);
        assert!(bad.as_mut().is_ok_and(|url| url.take_login().is_err()));
    }
}
