//! Loading of a configuration from its sources, for both binaries.

use super::{Config, ConfigErrors, ConfigLocation, Input, Setting};
use rpcgate_core::chain::Facts;
use std::fmt;

/// The sources of a binary's configuration.
#[derive(Clone, Copy)]
pub struct Sources<'s> {
    /// The name of the file; `None`: only defaults and the other sources.
    pub file: Option<&'s str>,
    /// The known chains.
    pub chains: &'s [&'s Facts],
    /// The settings of the demo, which the file overrides.
    pub base: &'s [Setting],
    /// The whole environment.
    pub env: &'s [(String, String)],
    /// The settings from the command line, which override all others.
    pub flags: &'s [Setting],
    /// Reads a file: the configuration, or one that contains a secret. The error is the reason.
    pub read: &'s dyn Fn(&str) -> Result<String, String>,
}

impl fmt::Debug for Sources<'_> {
    /// Omits the values, because some are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Sources<'_> {
    /// Reads all sources and checks the result.
    ///
    /// # Errors
    /// Returns a [`LoadError`] if the file cannot be read, or if a source contains a mistake.
    ///
    /// ```
    /// use rpcgate_config::Sources;
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
    /// # Ok::<(), rpcgate_config::LoadError>(())
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

    /// Prefixes a message that begins with a key, such as `gateway.tls.cert: c.pem: no such file`, with the location in
    /// the file or environment that sets it. Returns other messages unchanged.
    ///
    /// ```
    /// use rpcgate_config::Sources;
    ///
    /// let read = |_: &str| Ok("[journal]\ndir = \"/x\"\n".to_owned());
    /// let sources = Sources { file: Some("r.toml"), chains: &[], base: &[], env: &[], flags: &[], read: &read };
    /// assert_eq!(sources.placed("journal.dir /x: full"), "r.toml:2: journal.dir /x: full");
    /// assert_eq!(sources.placed("shutdown.grace: too long"), "shutdown.grace: too long");
    /// ```
    pub fn placed(&self, message: &str) -> String {
        let key = message.split([':', ' ']).next().unwrap_or_default();
        let text = self.file.and_then(|name| (self.read)(name).ok());
        match self.with_input(text.as_deref(), |input| input.location(key)) {
            Some(location @ (ConfigLocation::File { .. } | ConfigLocation::Env(_))) => {
                format!("{location}: {message}")
            }
            _ => message.to_owned(),
        }
    }

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

/// The reason why loading failed. Displayed as one mistake per line, each with its location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// The file could not be read.
    Unreadable {
        /// The name of the file.
        file: String,
        /// The reason.
        why: String,
    },
    /// The sources contain mistakes.
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
