//! The demo's configuration: its own settings, which a file may override, and those of the command line, which override
//! everything.

use super::DemoError;
use super::chosen::{self, ChosenNode};
use super::dir::{Dir, DirError};
use super::state::DemoState;
use crate::demo_options::DemoOptions;
use rpcgate_admin::process::load;
use rpcgate_admin::store::url_of;
use rpcgate_core::config::{Config, Setting};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The default addresses of the gateway and the management API.
const GATEWAY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);
/// The names in the demo's folder of the database, of the journal and of the folder for mails.
const DATABASE: &str = "rpcgate.db";
const JOURNAL: &str = "journal";
const OUTBOX: &str = "outbox";
/// The source of the demo's own settings, as messages name it.
const OWN: &str = "the demo";

/// The sources of the configuration, which is read again at each reload.
#[derive(Debug)]
pub(super) struct Settings {
    base: Vec<Setting>,
    flags: Vec<Setting>,
    chosen: Vec<ChosenNode>,
    file: Option<PathBuf>,
}

impl Settings {
    /// Settings of a demo in `dir` with the secrets of `state`, whose simulated nodes are at these URLs, by chain.
    ///
    /// # Errors
    /// [`DirError`] for a folder whose name cannot be part of a setting.
    pub(super) fn new(
        options: &DemoOptions,
        chosen: Vec<ChosenNode>,
        dir: &Dir,
        state: &DemoState,
        simulated: &[(&str, String)],
    ) -> Result<Settings, DirError> {
        let own = |path: &str, value: String| Setting::new(OWN, path, value);
        // Absolute paths: they name the demo's folder from any working directory.
        let (database, journal) = (dir.absolute(DATABASE)?, dir.absolute(JOURNAL)?);
        let mut base = vec![
            own("gateway.key_secret", state.key_secret.clone()),
            own("admin.jwt.secret", state.jwt_secret.clone()),
            own("admin.mail.outbox", dir.absolute(OUTBOX)?),
            own("database.url", url_of(database.as_ref())),
            own("journal.dir", journal),
            own("telemetry.log_format", "text".into()),
            // By default the log is quiet, so that the printed lines do not scroll away.
            own("telemetry.log_filter", "warn".into()),
        ];
        base.extend(simulated.iter().map(|(chain, url)| own(&format!("chains.{chain}.nodes"), url.clone())));
        let mut flags = chosen::flags(&chosen);
        // A default is one of the demo's own settings; a given option is a flag.
        for (option, path, listen, alone) in [
            ("--gateway", "gateway.listen", options.gateway, GATEWAY),
            ("--admin", "admin.listen", options.admin, ADMIN),
        ] {
            if listen == alone {
                base.push(own(path, listen.to_string()));
            } else {
                flags.push(Setting::new(option, path, listen.to_string()));
            }
        }
        Ok(Settings { base, flags, chosen, file: options.config.clone() })
    }

    /// The configuration as it is now: the file is read again.
    pub(super) fn read(&self) -> Result<Config, DemoError> {
        let mut config = load(self.file.as_deref(), &self.base, &self.flags)?;
        chosen::replace_parts(&self.chosen, &mut config)?;
        Ok(config)
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
            grpc: GATEWAY,
            nodes: Vec::new(),
            plan: None,
            config: None,
        }
    }

    fn config(options: &DemoOptions, dir: &Dir) -> Config {
        let chosen = options.nodes.iter().map(ChosenNode::new).collect::<Result<_, _>>().unwrap();
        let simulated = [("eth", "http://s:1".to_owned()), ("btc", "http://s:2".to_owned())];
        Settings::new(options, chosen, dir, &DemoState::open(dir).unwrap(), &simulated)
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

    #[test]
    fn no_key_stands_in_the_configuration_and_the_secrets_are_those_that_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let (config, state) = (config(&options(), &dir), DemoState::open(&dir).unwrap());
        assert!(config.callers().is_empty());
        assert_eq!(config.gateway.key_secret.unwrap().expose(), state.key_secret);
        assert_eq!(config.admin.jwt.secret.unwrap().expose(), state.jwt_secret);
    }

    #[test]
    fn database_journal_and_outbox_are_in_the_folder_however_it_is_named() {
        let home = tempfile::tempdir().unwrap();
        let name = "a demo, 100% #1";
        // The way up to the root and down again, seen from here.
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
    fn a_folder_whose_name_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(&home.path().join(std::ffi::OsStr::from_bytes(b"d\xff"))).unwrap();
        let state = DemoState::open(&dir).unwrap();
        let error = Settings::new(&options(), Vec::new(), &dir, &state, &[]).unwrap_err().to_string();
        assert!(error.starts_with("--dir ") && error.contains("not UTF-8"), "{error}");
    }
}
