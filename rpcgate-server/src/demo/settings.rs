//! The demo's configuration: its own settings, overridden by a file, overridden by the command line.

use super::DemoError;
use super::certificate::{CERTIFICATE, KEY};
use super::chosen::{self, ChosenNode};
use super::dir::{Dir, DirError};
use super::state::DemoState;
use crate::demo_options::DemoOptions;
use rpcgate_config::{Config, Setting, Url};
use rpcgate_process::load;
use rpcgate_store::url_of;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The default addresses of the gateway, the management API and gRPC.
const GATEWAY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);
const GRPC: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8443);
/// The names in the demo's folder of the database, the journal and the mail folder.
const DATABASE: &str = "rpcgate.db";
const JOURNAL: &str = "journal";
const OUTBOX: &str = "outbox";
/// The file in the demo's folder from which reflection describes the gRPC services of all chains.
pub(super) const DESCRIPTORS: &str = "reflection.protoset";
/// The source of the demo's own settings in messages.
const OWN: &str = "the demo";

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SimulatedNode {
    pub(super) chain: &'static str,
    /// The HTTP URL, or the WebSocket URL for a chain that is only a stream.
    pub(super) url: String,
    /// The WebSocket URL, if the node also has HTTP.
    pub(super) ws: Option<String>,
    pub(super) grpc: Option<String>,
}

/// The sources of the configuration, which is read again at each reload.
#[derive(Debug)]
pub(super) struct Settings {
    base: Vec<Setting>,
    /// The setting that limits the demo's certificate to gRPC. It does not apply to a certificate of the file.
    grpc_only: Setting,
    certificate: PathBuf,
    simulated: Vec<SimulatedNode>,
    flags: Vec<Setting>,
    chosen: Vec<ChosenNode>,
    file: Option<PathBuf>,
}

impl Settings {
    /// Returns the settings of a demo in `dir` with the secrets of `state` and these simulated nodes.
    ///
    /// # Errors
    /// [`DirError`] for a folder whose name cannot be part of a setting.
    pub(super) fn new(
        options: &DemoOptions,
        chosen: Vec<ChosenNode>,
        dir: &Dir,
        state: &DemoState,
        simulated: Vec<SimulatedNode>,
    ) -> Result<Settings, DirError> {
        let own = |path: &str, value: String| Setting::new(OWN, path, value);
        // Absolute paths: they name the demo's folder from any working directory.
        let database = dir.absolute(DATABASE)?;
        let journal = dir.absolute(JOURNAL)?;
        let mut base = vec![
            own("gateway.key_secret", state.key_secret.clone()),
            own("admin.jwt.secret", state.jwt_secret.clone()),
            own("admin.mail.outbox", dir.absolute(OUTBOX)?),
            own("gateway.tls.cert", dir.absolute(CERTIFICATE)?),
            own("gateway.tls.key", dir.absolute(KEY)?),
            own("gateway.grpc_reflection", "true".into()),
            own("gateway.grpc_descriptors", dir.absolute(DESCRIPTORS)?),
            own("database.url", url_of(database.as_ref())),
            own("journal.dir", journal),
            // Receivers of a demo are on the same machine.
            own("webhooks.allow_private_targets", "true".into()),
            own("telemetry.log_format", "text".into()),
            // By default the log is quiet, so that the printed lines do not scroll away.
            own("telemetry.log_filter", "warn".into()),
        ];
        let nodes = |node: &SimulatedNode| own(&format!("chains.{}.nodes", node.chain), node.url.clone());
        base.extend(simulated.iter().map(nodes));
        let mut flags = chosen::flags(&chosen);
        let collector = options.otlp.as_ref();
        flags.extend(collector.map(|url| Setting::new("--otlp", "telemetry.otlp.url", url.clone())));
        // A default is one of the demo's own settings; a given option is a flag.
        for (option, path, listen, alone) in [
            ("--gateway", "gateway.listen", options.gateway, GATEWAY),
            ("--admin", "admin.listen", options.admin, ADMIN),
            ("--grpc", "gateway.grpc_listen", options.grpc, GRPC),
        ] {
            if listen == alone {
                base.push(own(path, listen.to_string()));
            } else {
                flags.push(Setting::new(option, path, listen.to_string()));
            }
        }
        let grpc_only = own("gateway.tls.grpc_only", "true".into());
        let certificate = dir.absolute(CERTIFICATE)?.into();
        let file = options.config.clone();
        Ok(Settings { base, grpc_only, certificate, simulated, flags, chosen, file })
    }

    pub(super) fn read(&self) -> Result<Config, DemoError> {
        let mut config = load(self.file.as_deref(), &self.base, &self.flags)?;
        if self.has_own_certificate(&config) {
            let base = [&self.base[..], std::slice::from_ref(&self.grpc_only)].concat();
            config = load(self.file.as_deref(), &base, &self.flags)?;
        }
        self.complete_nodes(&mut config);
        chosen::replace_parts(&self.chosen, &mut config)?;
        Ok(config)
    }

    /// Reports whether `config` has the certificate that the demo creates, and none of the file.
    pub(super) fn has_own_certificate(&self, config: &Config) -> bool {
        config.gateway.tls.cert.as_deref() == Some(&*self.certificate)
    }

    /// Adds their other addresses to the simulated nodes.
    fn complete_nodes(&self, config: &mut Config) {
        for simulated in &self.simulated {
            let nodes = config.chains.get_mut(simulated.chain).map(|chain| chain.nodes.iter_mut());
            let of_url = |url: &Url| url.expose() == simulated.url;
            if let Some(node) = nodes.into_iter().flatten().find(|node| node.url.as_ref().is_some_and(of_url))
            {
                node.ws = simulated.ws.as_ref().and_then(|ws| Url::parse(ws, &["ws"]).ok());
                node.grpc = simulated.grpc.as_ref().and_then(|grpc| Url::parse(grpc, &["grpc"]).ok());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn options() -> DemoOptions {
        DemoOptions {
            dir: PathBuf::new(),
            gateway: GATEWAY,
            admin: ADMIN,
            grpc: GRPC,
            nodes: Vec::new(),
            plan: None,
            config: None,
            webhook_echo: None,
            otlp: None,
        }
    }

    fn config(options: &DemoOptions, dir: &Dir) -> Config {
        let chosen = options.nodes.iter().map(ChosenNode::new).collect::<Result<_, _>>().unwrap();
        let node = |chain, url: &str, ws: Option<&str>, grpc: Option<&str>| SimulatedNode {
            chain,
            url: url.into(),
            ws: ws.map(str::to_owned),
            grpc: grpc.map(str::to_owned),
        };
        let simulated = vec![
            node("eth", "http://s:1", Some("ws://s:1"), None),
            node("btc", "http://s:2", None, None),
            node("tron", "http://s:3", None, Some("grpc://s:4")),
            node("solana", "ws://s:5", None, None),
        ];
        Settings::new(options, chosen, dir, &DemoState::open(dir).unwrap(), simulated)
            .unwrap()
            .read()
            .unwrap()
    }

    fn urls(config: &Config, chain: &str) -> Vec<String> {
        config.chains[chain].nodes.iter().flat_map(|node| &node.url).map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_overrides_defaults_and_options_override_the_file() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let alone = config(&options(), &dir);
        assert_eq!((alone.gateway.listen, alone.admin.listen), (GATEWAY, ADMIN));
        assert_eq!((urls(&alone, "eth"), urls(&alone, "bsc").len()), (vec!["http://s:1".to_owned()], 0));

        let file = home.path().join("rpcgate.toml");
        let text = "[gateway]\nlisten = \"127.0.0.1:1\"\n[admin]\nlisten = \"127.0.0.1:2\"\nmail.outbox = \"f\"\n\
                    jwt.secret = \"a secret of the file, long enough\"\n[database]\nurl = \"sqlite://f.db\"\n[journal]\ndir = \"f\"\n\
                    [chains]\nbsc.nodes = [\"http://f:1\"]\neth.nodes = [\"http://f:2\"]\nbtc.nodes = []\n";
        std::fs::write(&file, text).unwrap();
        let with_file = DemoOptions { config: Some(file), ..options() };
        let filed = config(&with_file, &dir);
        assert_eq!((filed.gateway.listen.port(), filed.admin.listen.port()), (1, 2));
        assert_eq!(filed.admin.mail.outbox, Path::new("f"));
        assert_eq!(filed.admin.jwt.secret.as_ref().unwrap().expose(), "a secret of the file, long enough");
        assert_eq!((filed.database.url(), filed.journal.dir.as_path()), ("sqlite://f.db", Path::new("f")));
        assert_eq!([urls(&filed, "bsc"), urls(&filed, "eth")], [["http://f:1"], ["http://f:2"]]);
        assert!(urls(&filed, "btc").is_empty());

        let node = ("eth".to_owned(), "url".to_owned(), "http://o:1".to_owned());
        let free = "127.0.0.1:0".parse().unwrap();
        let given = config(&DemoOptions { gateway: free, admin: free, nodes: vec![node], ..with_file }, &dir);
        assert_eq!((given.gateway.listen.port(), given.admin.listen.port()), (0, 0));
        assert_eq!([urls(&given, "bsc"), urls(&given, "eth")], [["http://f:1"], ["http://o:1"]]);
    }

    // Shows (Traces, logs and metrics): `demo --otlp URL` sends the traces of the demo to a collector.
    #[test]
    fn traces_are_sent_only_to_the_address_of_the_option() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        assert_eq!(config(&options(), &dir).telemetry.otlp.url, None);
        let given = DemoOptions { otlp: Some("http://127.0.0.1:4317".into()), ..options() };
        let url = config(&given, &dir).telemetry.otlp.url.unwrap();
        assert_eq!(url.expose(), "http://127.0.0.1:4317");
        let wrong = DemoOptions { otlp: Some("127.0.0.1:hunter2".into()), ..options() };
        let settings = Settings::new(&wrong, Vec::new(), &dir, &DemoState::open(&dir).unwrap(), Vec::new());
        let error = settings.unwrap().read().unwrap_err().to_string();
        assert!(error.contains("--otlp") && error.contains("telemetry.otlp.url"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn the_configuration_contains_no_key_and_the_secrets_are_the_stored_ones() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let config = config(&options(), &dir);
        let state = DemoState::open(&dir).unwrap();
        assert!(config.callers().is_empty());
        assert_eq!(config.gateway.key_secret.unwrap().expose(), state.key_secret);
        assert_eq!(config.admin.jwt.secret.unwrap().expose(), state.jwt_secret);
    }

    #[test]
    fn database_journal_and_outbox_are_in_the_folder_for_any_spelling_of_it() {
        let home = tempfile::tempdir().unwrap();
        let name = "a demo, 100% #1";
        // The way up to the root and down again, from the working directory.
        let up: PathBuf = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
        let relative = up.join(home.path().strip_prefix("/").unwrap()).join(name);
        assert!(relative.is_relative());
        for path in [relative, home.path().join(name)] {
            let config = config(&options(), &Dir::open(&path).unwrap());
            let file = config.database.url().strip_prefix("sqlite://").unwrap();
            let file = file.replace("%20", " ").replace("%23", "#").replace("%25", "%");
            for (file, name) in [
                (Path::new(&file), "rpcgate.db"),
                (&config.journal.dir, "journal"),
                (&config.admin.mail.outbox, "outbox"),
            ] {
                assert!(file.is_absolute(), "{}", file.display());
                let folder = file.parent().unwrap().canonicalize().unwrap();
                assert_eq!(folder, path.canonicalize().unwrap());
                assert_eq!(file.file_name().unwrap(), name);
            }
        }
    }

    #[test]
    fn a_folder_whose_name_is_not_text_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(&home.path().join(std::ffi::OsStr::from_bytes(b"d\xff"))).unwrap();
        let state = DemoState::open(&dir).unwrap();
        let error = Settings::new(&options(), Vec::new(), &dir, &state, Vec::new()).unwrap_err().to_string();
        assert!(error.starts_with("--dir ") && error.contains("not UTF-8"), "{error}");
    }

    // Shows (Commands and configuration).
    #[test]
    fn a_simulated_node_has_a_stream_until_it_or_this_part_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let streams = |config: &Config, chain: &str| -> Vec<_> {
            let shown = |url: &Option<Url>| url.as_ref().map_or_else(String::new, ToString::to_string);
            config.chains[chain].nodes.iter().map(|node| (node.url.is_some(), shown(&node.ws))).collect()
        };
        let with = |part: &str, url: &str| {
            config(&DemoOptions { nodes: vec![("eth".into(), part.into(), url.into())], ..options() }, &dir)
        };
        let own = config(&options(), &dir);
        assert_eq!(streams(&own, "eth"), [(true, "ws://s:1".to_owned())]);
        assert_eq!(streams(&own, "solana"), [(false, "ws://s:5".to_owned())]);
        assert_eq!(streams(&own, "btc"), [(true, String::new())]);
        assert_eq!(streams(&with("url", "http://r:1"), "eth"), [(true, String::new())]);
        let replaced = with("ws", "ws://r:2");
        assert_eq!(streams(&replaced, "eth"), [(true, String::new()), (false, "ws://r:2".to_owned())]);
    }

    fn grpc(config: &Config) -> Vec<(bool, String)> {
        let nodes = config.chains["tron"].nodes.iter();
        let shown = |url: &Option<Url>| url.as_ref().map_or_else(String::new, ToString::to_string);
        nodes.map(|node| (node.url.is_some(), shown(&node.grpc))).collect()
    }

    #[test]
    fn a_simulated_node_has_grpc_until_it_or_this_part_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let with = |part: &str, url: &str| {
            config(&DemoOptions { nodes: vec![("tron".into(), part.into(), url.into())], ..options() }, &dir)
        };
        assert_eq!(grpc(&config(&options(), &dir)), [(true, "grpc://s:4".into())]);
        assert_eq!(grpc(&with("url", "http://r:1")), [(true, String::new())]);
        let replaced = with("grpc", "grpc://r:2");
        assert_eq!(grpc(&replaced), [(true, String::new()), (false, "grpc://r:2".into())]);
    }

    #[test]
    fn the_demos_certificate_is_only_for_grpc_and_the_files_for_everything() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let own = config(&options(), &dir).gateway;
        assert_eq!(own.tls.pair(), Some((&*dir.file(CERTIFICATE), &*dir.file(KEY))));
        assert_eq!((own.tls.covers_http(), own.grpc_listen), (false, Some(GRPC)));

        let file = home.path().join("rpcgate.toml");
        let with_file = |text: &str| {
            std::fs::write(&file, text).unwrap();
            config(&DemoOptions { config: Some(file.clone()), ..options() }, &dir).gateway
        };
        let pair = "cert = \"c.pem\"\nkey = \"k.pem\"\n";
        let given = with_file(&format!("[gateway]\ngrpc_listen = \"127.0.0.1:1\"\n[gateway.tls]\n{pair}"));
        assert!(
            given.tls.covers_http() && given.tls.pair().is_some_and(|(cert, _)| cert == Path::new("c.pem"))
        );
        assert_eq!(given.grpc_listen.map(|listen| listen.port()), Some(1));
        assert!(!with_file(&format!("[gateway.tls]\ngrpc_only = true\n{pair}")).tls.covers_http());
        let flagged = DemoOptions { grpc: "127.0.0.1:0".parse().unwrap(), ..options() };
        assert_eq!(config(&flagged, &dir).gateway.grpc_listen.map(|listen| listen.port()), Some(0));
    }
}
