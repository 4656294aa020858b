//! What the demo says in its gateway's configuration: its own settings, which a file may change, and what was said on
//! the command line, which nothing changes.

use super::chosen::{self, ChosenNode};
use super::dir::Dir;
use super::state::{State, StateError};
use super::{DemoError, NAME};
use crate::command::demo::DemoOptions;
use crate::command::load;
use rpcgate_core::config::{Config, Secret, Setting};
use rpcgate_core::plan::Tier;
use rpcgate_core::secret::KeyForge;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where the gateway listens if nobody says anything else.
const GATEWAY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
/// The plan of the account if nobody says anything else.
const PLAN: Tier = Tier::Enterprise;
/// Who gives the demo's own settings, in messages about them.
const OWN: &str = "the demo";

/// Everything that the configuration is read from, as often as need be.
#[derive(Debug)]
pub(super) struct Settings {
    base: Vec<Setting>,
    flags: Vec<Setting>,
    chosen: Vec<ChosenNode>,
    file: Option<PathBuf>,
}

impl Settings {
    /// Settings of a demo with this state, whose simulated nodes are at these URLs, by chain.
    pub(super) fn new(
        options: &DemoOptions,
        chosen: Vec<ChosenNode>,
        state: &State,
        simulated: &[(&str, String)],
    ) -> Settings {
        let own = |path: &str, value: String| Setting::new(OWN, path, value);
        let mut base = vec![
            own("gateway.key_secret", state.key_secret.clone()),
            own("tenants.demo.id", state.tenant.to_string()),
            own("projects.demo.id", state.project.to_string()),
            own("projects.demo.tenant", NAME.into()),
            own("keys.demo.id", state.key.to_string()),
            own("keys.demo.key", state.api_key.clone()),
            own("keys.demo.project", NAME.into()),
            own("telemetry.log_format", "text".into()),
            // What was printed for pasting should not scroll away.
            own("telemetry.log_filter", "warn".into()),
        ];
        base.extend(simulated.iter().map(|(chain, url)| own(&format!("chains.{chain}.nodes"), url.clone())));
        let mut flags = chosen::flags(&chosen);
        // An option that was left alone is the demo's own setting; one that was given is a flag.
        let mut option = |name: &str, is_default: bool, path: &str, value: String| {
            let list = if is_default { &mut base } else { &mut flags };
            list.push(Setting::new(if is_default { OWN } else { name }, path, value));
        };
        option("--gateway", options.gateway == GATEWAY, "gateway.listen", options.gateway.to_string());
        option("--plan", options.plan == PLAN, "tenants.demo.plan", options.plan.name().into());
        Settings { base, flags, chosen, file: options.config.clone() }
    }

    /// The configuration as it is now: the file is read again.
    pub(super) fn read(&self) -> Result<Config, DemoError> {
        let mut config = load(self.file.as_deref(), &self.base, &self.flags)?;
        chosen::replace_parts(&self.chosen, &mut config)?;
        Ok(config)
    }
}

/// Makes another key where `config` has another secret than the one that the kept key was made with: gateways that
/// check the secret would take it for forged. Gives back whether it did.
pub(super) fn fit_key(config: &mut Config, state: &mut State, dir: &Dir) -> Result<bool, StateError> {
    let (Some(secret), Some(key)) = (&config.gateway.key_secret, config.keys.get_mut(NAME)) else {
        return Ok(false);
    };
    let forge = KeyForge::new(secret.expose().as_bytes());
    let is_kept = key.key.as_ref().is_some_and(|key| key.expose() == state.api_key);
    if !is_kept || forge.is_genuine(&state.api_key) {
        return Ok(false);
    }
    state.api_key = forge.make()?;
    state.keep(dir)?;
    key.key = Some(Secret::new(state.api_key.as_str()));
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> DemoOptions {
        DemoOptions {
            dir: PathBuf::new(),
            gateway: GATEWAY,
            admin: GATEWAY,
            grpc: GATEWAY,
            nodes: Vec::new(),
            plan: PLAN,
            config: None,
        }
    }

    fn config(options: &DemoOptions, state: &State) -> Config {
        let chosen = options.nodes.iter().map(ChosenNode::new).collect::<Result<_, _>>().unwrap();
        let simulated = [("eth", "http://s:1".to_owned()), ("btc", "http://s:2".to_owned())];
        Settings::new(options, chosen, state, &simulated).read().unwrap()
    }

    fn urls(config: &Config, chain: &str) -> Vec<String> {
        config.chains[chain].nodes.iter().flat_map(|node| &node.url).map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_changes_what_was_left_alone_and_options_beat_it() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let state = State::open(&dir).unwrap();
        let alone = config(&options(), &state);
        assert_eq!((alone.gateway.listen, alone.tenants[NAME].plan), (GATEWAY, Tier::Enterprise));
        assert_eq!((urls(&alone, "eth"), urls(&alone, "bsc").len()), (vec!["http://s:1".to_owned()], 0));

        let file = home.path().join("rpcgate.toml");
        let text = "[gateway]\nlisten = \"127.0.0.1:1\"\n[tenants.demo]\nplan = \"free\"\n\
                    [chains]\nbsc.nodes = [\"http://f:1\"]\neth.nodes = [\"http://f:2\"]\nbtc.nodes = []\n";
        std::fs::write(&file, text).unwrap();
        let with_file = DemoOptions { config: Some(file), ..options() };
        let filed = config(&with_file, &state);
        assert_eq!((filed.gateway.listen.port(), filed.tenants[NAME].plan), (1, Tier::Free));
        assert_eq!([urls(&filed, "bsc"), urls(&filed, "eth")], [["http://f:1"], ["http://f:2"]]);
        assert!(urls(&filed, "btc").is_empty());

        let node = ("eth".to_owned(), "url".to_owned(), "http://o:1".to_owned());
        let (gateway, plan) = ("127.0.0.1:0".parse().unwrap(), Tier::Premium);
        let given = config(&DemoOptions { gateway, plan, nodes: vec![node], ..with_file }, &state);
        assert_eq!((given.gateway.listen.port(), given.tenants[NAME].plan), (0, Tier::Premium));
        assert_eq!([urls(&given, "bsc"), urls(&given, "eth")], [["http://f:1"], ["http://o:1"]]);
    }

    #[test]
    fn the_callers_of_the_configuration_are_the_demos_account() {
        let home = tempfile::tempdir().unwrap();
        let state = State::open(&Dir::open(home.path()).unwrap()).unwrap();
        let callers = config(&options(), &state).callers();
        let [known] = callers.as_slice() else { panic!("one key: {callers:?}") };
        let caller = &known.caller;
        assert_eq!((caller.key, caller.project, caller.tenant), (state.key, state.project, state.tenant));
        assert_eq!(caller.plan.tier, Tier::Enterprise);
    }

    #[test]
    fn another_secret_gets_another_key_once() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let mut state = State::open(&dir).unwrap();
        let first = state.api_key.clone();
        assert!(!fit_key(&mut config(&options(), &state), &mut state, &dir).unwrap());
        assert_eq!(state.api_key, first);

        let mut other = config(&options(), &state);
        other.gateway.key_secret = Some(Secret::new("a secret of the operator"));
        assert!(fit_key(&mut other, &mut state, &dir).unwrap());
        assert_ne!(state.api_key, first);
        assert!(KeyForge::new(b"a secret of the operator").is_genuine(&state.api_key));
        assert_eq!(other.keys[NAME].key.as_ref().map(Secret::expose), Some(state.api_key.as_str()));
        assert_eq!(State::open(&dir).unwrap(), state);
        assert!(!fit_key(&mut other, &mut state, &dir).unwrap());
    }
}
