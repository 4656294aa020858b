//! From a file's name to a configuration: the way that both binaries go.

use super::{Config, ConfigErrors, ConfigLocation, Input, Setting};
use crate::chain::Facts;
use std::fmt;

/// Where a binary has its configuration from.
#[derive(Clone, Copy)]
pub struct Sources<'s> {
    /// The file's name; none: everything has its default unless something else sets it.
    pub file: Option<&'s str>,
    /// The chains that exist.
    pub chains: &'s [&'s Facts],
    /// The demo's own settings, weaker than the file.
    pub base: &'s [Setting],
    /// The whole environment.
    pub env: &'s [(String, String)],
    /// What was said on the command line, the strongest.
    pub flags: &'s [Setting],
    /// Reads a file, the configuration itself or one that holds a secret; the error says why not.
    pub read: &'s dyn Fn(&str) -> Result<String, String>,
}

impl fmt::Debug for Sources<'_> {
    /// Values are left out: there are secrets among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Sources<'_> {
    /// Reads the file, if one is named, and everything else, and checks it all.
    ///
    /// # Errors
    /// [`LoadError`]: the file cannot be read, or something in any of the sources is wrong.
    ///
    /// ```
    /// use rpcgate_core::config::Sources;
    ///
    /// let read = |name: &str| match name {
    ///     "rpcgate.toml" => Ok("[shutdown]\ngrace = \"5s\"\n".to_owned()),
    ///     _ => Err("no such file".to_owned()),
    /// };
    /// let sources =
    ///     Sources { file: Some("rpcgate.toml"), chains: &[], base: &[], env: &[], flags: &[], read: &read };
    /// assert_eq!(sources.load()?.shutdown.grace.as_secs(), 5);
    /// let missing = Sources { file: Some("other.toml"), ..sources }.load().unwrap_err();
    /// assert_eq!(missing.to_string(), "other.toml: cannot be read: no such file");
    /// # Ok::<(), rpcgate_core::config::LoadError>(())
    /// ```
    pub fn load(&self) -> Result<Config, LoadError> {
        let text = match self.file {
            Some(name) => (self.read)(name)
                .map(Some)
                .map_err(|why| LoadError::Unreadable { file: name.to_owned(), why })?,
            None => None,
        };
        self.with_input(text.as_deref(), |input| Config::read(input).map_err(LoadError::Wrong))
    }

    /// A message that begins with a key, such as `gateway.tls.cert: c.pem: no such file`, with the place in front of it
    /// where a file or a variable gives that key. Any other message stays as it is.
    ///
    /// ```
    /// use rpcgate_core::config::Sources;
    ///
    /// let read = |_: &str| Ok("[journal]\ndir = \"/x\"\n".to_owned());
    /// let sources = Sources { file: Some("r.toml"), chains: &[], base: &[], env: &[], flags: &[], read: &read };
    /// assert_eq!(sources.placed("journal.dir /x: full"), "r.toml:2: journal.dir /x: full");
    /// assert_eq!(sources.placed("shutdown.grace: too long"), "shutdown.grace: too long");
    /// ```
    pub fn placed(&self, message: &str) -> String {
        let key = message.split([':', ' ']).next().unwrap_or_default();
        let text = self.file.and_then(|name| (self.read)(name).ok());
        match self.with_input(text.as_deref(), |input| input.place(key)) {
            Some(place @ (ConfigLocation::File { .. } | ConfigLocation::Env(_))) => {
                format!("{place}: {message}")
            }
            _ => message.to_owned(),
        }
    }

    /// What the sources come to, the file's text given.
    fn with_input<T>(&self, text: Option<&str>, read: impl FnOnce(&Input<'_>) -> T) -> T {
        let chains: Vec<&str> = self.chains.iter().map(|facts| facts.name.as_str()).collect();
        let aliases: Vec<(&str, &str)> = self
            .chains
            .iter()
            .flat_map(|facts| facts.aliases.iter().map(|alias| (*alias, facts.name.as_str())))
            .collect();
        let input = Input {
            chains: &chains,
            aliases: &aliases,
            base: self.base,
            file: self.file.zip(text),
            env: self.env,
            flags: self.flags,
            secret_file: self.read,
        };
        read(&input)
    }
}

/// Why there is no configuration. Displayed one fault to a line, each with the place it stands at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// The file could not be read.
    Unreadable {
        /// Its name.
        file: String,
        /// Why not.
        why: String,
    },
    /// What was read is wrong.
    Wrong(ConfigErrors),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Unreadable { file, why } => write!(f, "{file}: cannot be read: {why}"),
            LoadError::Wrong(errors) => errors.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}
