//! Loads the configuration: a file, the environment, and the settings of a command.

use super::Failure;
use clap::{Args, ValueEnum};
use rpcgate_config::{Config, LoadError, Setting, Sources};
use rpcgate_core::adapter::Adapter;
use rpcgate_core::chain::Facts;
use rpcgate_core::clock::{Clock, SystemClock};
use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// The option of every command that reads a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct ConfigFile {
    /// The configuration file
    #[arg(long, value_name = "FILE", env = "RPCGATE_CONFIG")]
    pub config: PathBuf,
}

/// The reference for the comparison of `check`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CheckedAgainst {
    /// The configuration in force of the process on this machine
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

/// Loads the configuration: `file` overrides `base`, the environment overrides the file, and `flags` override the
/// environment.
///
/// # Errors
/// [`LoadError`] with everything that is wrong.
#[expect(clippy::redundant_closure_for_method_calls, reason = "the method itself is not general enough")]
pub fn load(file: Option<&Path>, base: &[Setting], flags: &[Setting]) -> Result<Config, LoadError> {
    with_sources(file, base, flags, |sources| sources.load())
}

/// Like [`load`] for a file, and also returns the names of all files that were read: the configuration and its secrets.
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

/// Adds the position of the key, file and line or a variable, to a failure that begins with a configuration key.
pub fn placed(file: Option<&Path>, failure: impl Into<Failure>) -> Failure {
    let location = |text: String| with_sources(file, &[], &[], |sources| sources.placed(&text));
    match failure.into() {
        Failure::Configuration(text) => Failure::Configuration(location(text)),
        Failure::Other(text) => Failure::Other(location(text)),
        failure => failure,
    }
}

/// Returns the settings in `config` that have no effect, a line for each: `rpcgate.toml:3: warning: redis.prefix: …`.
pub fn warnings(file: &Path, config: &Config) -> Vec<String> {
    let adapters: Vec<_> = rpcgate_chains::catalog().collect();
    let adapters: Vec<&dyn Adapter> = adapters.iter().map(AsRef::as_ref).collect();
    with_sources(Some(file), &[], &[], |sources| {
        let line = |warning: String| {
            let placed = sources.placed(&warning);
            let location = placed.strip_suffix(&warning).unwrap_or_default();
            format!("{location}warning: {warning}")
        };
        let now = SystemClock::new().now();
        config.warnings(&adapters, now).iter().map(|warning| line(warning.to_string())).collect()
    })
}

/// Logs the [`warnings`] of a configuration that comes into force.
pub fn log_warnings(file: &Path, config: &Config) {
    for warning in warnings(file, config) {
        tracing::warn!("{warning}");
    }
}

/// Calls `act` with the sources of a configuration for the chains of this build and the environment of this process.
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

    fn warnings_of(text: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f.toml");
        std::fs::write(&file, text).unwrap();
        let config = load(Some(&file), &[], &[]).unwrap();
        let shown = |line: String| line.replace(&*file.to_string_lossy(), "f.toml");
        warnings(&file, &config).into_iter().map(shown).collect()
    }

    // Shows (Commands and configuration).
    #[test]
    fn unknown_methods_and_transports_of_a_chain_are_warnings_with_their_lines() {
        let node = "nodes = [\"http://10.0.0.1:1\"]\n";
        for (text, warning) in [
            (
                format!("[chains.bsc]\n{node}cu = {{ eth_cal = 3 }}\n"),
                "f.toml:3: warning: chains.bsc.cu.eth_cal: no such method is known; the nearest is eth_call",
            ),
            (
                format!("[chains.bsc]\n{node}ttl = {{ foo_bar = \"5s\" }}\n"),
                "f.toml:3: warning: chains.bsc.ttl.foo_bar: no such method is known",
            ),
            (
                format!("[chains.btc]\n{node}blocked_methods = [\"getblok\"]\n"),
                "f.toml:3: warning: chains.btc.blocked_methods: names getblok, and no such method is known; the nearest is getblock",
            ),
            (
                format!("[chains.tron]\n{node}cu = {{ getnowblok = 3 }}\n"),
                "f.toml:3: warning: chains.tron.cu.getnowblok: no such method is known; the nearest is getnowblock",
            ),
            (
                "[[chains.eth.nodes]]\nurl = \"http://10.0.0.1:1\"\nmethods = [\"eth_cal\"]\n".to_owned(),
                "f.toml:1: warning: chains.eth.nodes: names eth_cal in number 1, and no such method is known; the nearest is eth_call",
            ),
            (
                "[[chains.btc.nodes]]\nurl = \"http://10.0.0.1:1\"\nws = \"ws://10.0.0.1:2\"\n".to_owned(),
                "f.toml:1: warning: chains.btc.nodes: has ws in number 1, but the chain has no such transport",
            ),
            (
                format!("[chains.btc]\n{node}[chains.btc.batching]\nenabled = true\n"),
                "f.toml:3: warning: chains.btc.batching: has no effect: calls of this chain are never sent together",
            ),
            (
                "[projects.default]\nallowed_methods = [\"eth_cal\", \"eth_call\"]\n".to_owned(),
                "f.toml:2: warning: projects.default.allowed_methods: names eth_cal, and no such method is known; the nearest is eth_call",
            ),
            (
                "[projects.default]\nblocked_methods = [\"debug_traceCal\", \"eth_getlogs\"]\n".to_owned(),
                "f.toml:2: warning: projects.default.blocked_methods: names eth_getlogs, and no such method is known; the nearest is eth_getLogs",
            ),
        ] {
            assert_eq!(warnings_of(&text), [warning]);
        }
        for (chain, is_named) in
            [("xrp", true), ("tron", true), ("solana", true), ("eth", false), ("near", false)]
        {
            let text = format!("[chains.{chain}]\n{node}[chains.{chain}.batching]\nenabled = true\n");
            assert_eq!(warnings_of(&text).len(), usize::from(is_named), "{chain}");
        }
    }

    #[test]
    fn methods_of_the_tables_and_their_families_are_known() {
        let text = "[chains.eth]\nnodes = [\"http://10.0.0.1:1\"]\nblocked_methods = [\"eth_getLogs\"]\nopen_methods = \
                    [\"trace_*\", \"debug_traceCall\"]\n[chains.cosmos]\nnodes = [\"http://10.0.0.2:1\"]\ncu = { proposals = 2 }\n[projects.default]\nallowed_methods = [\"node_info\", \
                    \"proposals\", \"blocks\", \"eth_call\", \"debug_traceCall\", \"getblock\"]\n";
        assert_eq!(warnings_of(text), [""; 0]);
    }

    #[test]
    fn the_files_that_a_configuration_names_for_its_secrets_are_noted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.toml");
        let secret = dir.path().join("secret");
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
