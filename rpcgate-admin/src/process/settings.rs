//! Loading the configuration: a file, the environment, and the settings of a command.

use super::Failure;
use clap::{Args, ValueEnum};
use rpcgate_core::chain::Facts;
use rpcgate_core::config::{Config, LoadError, Setting, Sources};
use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// The option of every command that reads a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ConfigFile {
    /// The configuration file
    #[arg(long, value_name = "FILE", env = "RPCGATE_CONFIG")]
    pub config: PathBuf,
}

/// What `check` compares the configuration with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CheckedAgainst {
    /// What the process on this machine has in force
    Running,
}

/// The options of `check`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
#[command(
    after_help = "Exit codes: 0 the configuration can be used, and with --against nothing would change; 10 a \
    reload would apply all changes; 11 a change needs a restart; 2 the configuration cannot be used; 3 nothing is \
    known of a process on this machine; 5 the database cannot be reached now; 1 anything else."
)]
pub struct CheckArgs {
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// Print, setting by setting, what a reload would change compared with what runs on this machine
    #[arg(long, value_name = "WHAT")]
    pub against: Option<CheckedAgainst>,
}

/// Loads the configuration: `base` is overridden by `file`, that by the environment, and that by `flags`.
///
/// # Errors
/// [`LoadError`] with everything that is wrong.
#[expect(clippy::redundant_closure_for_method_calls, reason = "the method itself is not general enough")]
pub fn load(file: Option<&Path>, base: &[Setting], flags: &[Setting]) -> Result<Config, LoadError> {
    with_sources(file, base, flags, |sources| sources.load())
}

/// Like [`load`] for a file, and returns besides the names of all files that were read: the configuration, and those with its
/// secrets.
pub fn load_noting(file: &Path) -> (Result<Config, LoadError>, Vec<PathBuf>) {
    let noted = RefCell::new(Vec::new());
    let config = with_sources(Some(file), &[], &[], |sources| {
        let read = |name: &str| {
            noted.borrow_mut().push(PathBuf::from(name));
            (sources.read)(name)
        };
        Sources { read: &read, ..*sources }.load()
    });
    (config, noted.into_inner())
}

/// Adds to a failure that begins with a configuration key where that key was given: file and line, or a variable.
pub fn placed(file: Option<&Path>, failure: impl Into<Failure>) -> Failure {
    let place = |text: String| with_sources(file, &[], &[], |sources| sources.placed(&text));
    match failure.into() {
        Failure::Configuration(text) => Failure::Configuration(place(text)),
        Failure::Other(text) => Failure::Other(place(text)),
        failure => failure,
    }
}

/// Hands `act` the sources of a configuration for the chains of this build and the environment of this process.
pub fn with_sources<T>(
    file: Option<&Path>,
    base: &[Setting],
    flags: &[Setting],
    act: impl FnOnce(&Sources<'_>) -> T,
) -> T {
    let env: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let adapters: Vec<_> = rpcgate_chains::catalog().collect();
    let chains: Vec<&Facts> = adapters.iter().map(|adapter| adapter.facts()).collect();
    let name = file.map(Path::to_string_lossy);
    let read = |name: &str| std::fs::read_to_string(name).map_err(|error| error.to_string());
    act(&Sources { file: name.as_deref(), chains: &chains, base, env: &env, flags, read: &read })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_a_configuration_names_for_its_secrets_are_noted() {
        let dir = tempfile::tempdir().unwrap();
        let (file, secret) = (dir.path().join("rpcgate.toml"), dir.path().join("secret"));
        let text = format!("[gateway]\nkey_secret = {{ file = {:?} }}\n", secret.display().to_string());
        std::fs::write(&file, text).unwrap();
        std::fs::write(&secret, "0123456789abcdef\n").unwrap();
        let (config, read) = load_noting(&file);
        assert_eq!(config.unwrap().gateway.key_secret.unwrap().expose(), "0123456789abcdef");
        assert_eq!(read, [file, secret.clone()]);
        std::fs::remove_file(&secret).unwrap();
        assert!(load_noting(&dir.path().join("rpcgate.toml")).0.is_err());
    }

    #[test]
    fn a_failure_about_a_key_names_the_line_that_gives_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.toml");
        std::fs::write(&file, "\n[gateway]\nlisten = \"127.0.0.1:1\"\n").unwrap();
        let failure = placed(Some(&file), Failure::Other("gateway.listen: taken".into()));
        assert_eq!(failure, Failure::Other(format!("{}:3: gateway.listen: taken", file.display())));
        assert_eq!(load(Some(&file), &[], &[]).unwrap().gateway.listen.port(), 1);
        let missing = Failure::from(load(Some(&dir.path().join("none.toml")), &[], &[]).unwrap_err());
        assert!(missing.code() == 2 && missing.to_string().contains("none.toml"), "{missing}");
    }
}
