//! The location of a database, parsed from `database.url`.

use super::error::StoreError;
use super::server::Server;
use std::fmt;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub(super) enum DatabaseLocation {
    File(PathBuf),
    Server(Box<Server>),
}

impl DatabaseLocation {
    /// Parses `database.url`: `sqlite://` and a file name, relative to the working directory unless it begins with a
    /// slash, or `postgres://user:password@host:port/name?sslmode=…`. Characters that a URL cannot contain are written
    /// as `%XX`.
    ///
    /// # Errors
    /// [`StoreError::Url`].
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let wrong = |why: &str| StoreError::Url(why.to_owned());
        let (scheme, rest) = url.split_once(':').unwrap_or_default();
        match scheme {
            "sqlite" => {}
            "postgres" | "postgresql" => {
                let server = Server::parse(url).map_err(wrong)?;
                return Ok(DatabaseLocation::Server(Box::new(server)));
            }
            _ => {
                return Err(wrong("must begin with sqlite:// or postgres://, as in sqlite://rpcgate.db"));
            }
        }
        let name = rest.strip_prefix("//").unwrap_or(rest);
        if name.contains('?') {
            return Err(wrong("takes no parameters (?…)"));
        }
        let name = decode(name).ok_or_else(|| wrong("has a broken percent-escape"))?;
        if name.is_empty() || name == ":memory:" {
            return Err(wrong("must name a file, as in sqlite://rpcgate.db"));
        }
        Ok(DatabaseLocation::File(name.into()))
    }

    /// Returns the location of the usage database: a file next to this one (`rpcgate.db` → `rpcgate-usage.db`), or the
    /// same database on the server.
    pub(super) fn usage(&self) -> DatabaseLocation {
        let DatabaseLocation::File(file) = self else { return self.clone() };
        let mut name = file.file_stem().unwrap_or_default().to_owned();
        name.push("-usage");
        if let Some(extension) = file.extension() {
            name.push(".");
            name.push(extension);
        }
        DatabaseLocation::File(file.with_file_name(name))
    }
}

impl fmt::Display for DatabaseLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseLocation::File(file) => file.display().fmt(f),
            DatabaseLocation::Server(server) => server.fmt(f),
        }
    }
}

/// Creates the file if it is missing, readable by its owner alone, because it holds key hashes and e-mail addresses.
/// SQLite gives its log the same permissions.
pub(super) fn create(file: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(file) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && file.is_dir() => {
            Err(refused(file, "is a folder"))
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = file.parent().unwrap_or(Path::new(""));
            Err(refused(file, &format!("the folder {} does not exist", folder.display())))
        }
        Err(error) => Err(refused(file, &format!("cannot be created: {error}"))),
    }
}

pub(super) fn refused(file: &Path, why: &str) -> StoreError {
    StoreError::File { file: file.display().to_string(), why: why.to_owned() }
}

/// The `database.url` of a database in `file`.
///
/// ```
/// use rpcgate_store::url_of;
///
/// assert_eq!(url_of("/srv/my gate/rpcgate.db".as_ref()), "sqlite:///srv/my%20gate/rpcgate.db");
/// ```
pub fn url_of(file: &Path) -> String {
    let mut url = "sqlite://".to_owned();
    for c in file.to_string_lossy().chars() {
        if matches!(c, '%' | '?' | '#') || c.is_whitespace() || c.is_control() {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| url.push_str(&format!("%{byte:02X}")));
        } else {
            url.push(c);
        }
    }
    url
}

fn decode(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let byte = digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(digits)?;
        bytes.push(u8::from_str_radix(byte, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Checks that a URL names something that could be opened, without opening it.
///
/// # Errors
/// [`StoreError::Url`].
///
/// ```
/// use rpcgate_store::check_url;
///
/// assert!(check_url("postgres://gate:secret@db.example/gate").is_ok());
/// let error = check_url("sqlite://gate.db?mode=ro").unwrap_err();
/// assert_eq!(error.to_string(), "database.url: takes no parameters (?…)");
/// ```
pub fn check_url(url: &str) -> Result<(), StoreError> {
    DatabaseLocation::parse(url).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(place: &DatabaseLocation) -> &Path {
        match place {
            DatabaseLocation::File(file) => file,
            DatabaseLocation::Server(server) => panic!("{server}"),
        }
    }

    #[test]
    fn a_url_names_a_file() {
        for (url, name, usage) in [
            ("sqlite://rpcgate.db", "rpcgate.db", "rpcgate-usage.db"),
            ("sqlite:rpcgate.db", "rpcgate.db", "rpcgate-usage.db"),
            ("sqlite:///var/lib/gate.d/state", "/var/lib/gate.d/state", "/var/lib/gate.d/state-usage"),
            ("sqlite://./a%20b/%C3%A9.x.db", "./a b/é.x.db", "./a b/é.x-usage.db"),
        ] {
            let place = DatabaseLocation::parse(url).unwrap();
            assert_eq!((file(&place), file(&place.usage())), (name.as_ref(), usage.as_ref()));
        }
        for name in ["rpcgate.db", "/a b/c", "/100%/what?/#1/%20/é\n.db"] {
            assert_eq!(file(&DatabaseLocation::parse(&url_of(name.as_ref())).unwrap()), Path::new(name));
        }
    }

    #[test]
    fn a_url_names_a_database_of_a_server_and_its_password_is_not_shown() {
        for (url, name) in [
            ("postgres://u:secret@db.example/gate", "db.example:5432/gate"),
            ("postgresql://u:se%20cret@10.0.0.1:6000/a%2Fb", "10.0.0.1:6000/a/b"),
            ("postgres://gate:secret@[::1]:7", "[::1]:7/gate"),
        ] {
            let place = DatabaseLocation::parse(url).unwrap();
            assert_eq!((place.to_string(), place.usage().to_string()), (name.into(), name.into()));
            assert!(!format!("{place:?}").contains("cret"), "{place:?}");
        }
    }

    #[test]
    fn an_invalid_url_is_refused_without_being_repeated() {
        let begin = "must begin with sqlite:// or postgres://, as in sqlite://rpcgate.db";
        let server = "cannot be read: write postgres://user:password@host:5432/name";
        for (url, why) in [
            ("postgres://u:secret@h:port/db", server),
            ("postgresql://u:secret@h/db?sslmode=secret", server),
            (
                "postgres://u:secret@h/db?sslmode=require&sslrootcert=/secret",
                "has an sslrootcert, but an sslmode that verifies no certificate: write sslmode=verify-full",
            ),
            ("mysql://u:secret@h/db", begin),
            ("secret.db", begin),
            ("sqlite://secret.db?mode=ro", "takes no parameters (?…)"),
            ("sqlite://secret%zz", "has a broken percent-escape"),
            ("sqlite://secret%+1", "has a broken percent-escape"),
            ("sqlite://secret%ff", "has a broken percent-escape"),
            ("sqlite://", "must name a file, as in sqlite://rpcgate.db"),
            ("sqlite::memory:", "must name a file, as in sqlite://rpcgate.db"),
        ] {
            assert_eq!(DatabaseLocation::parse(url).unwrap_err().to_string(), format!("database.url: {why}"));
        }
    }
}
