//! What the demo says in its gateway's configuration: its own settings, which a file may change, and what was said on
//! the command line, which nothing changes.

use super::DemoError;
use super::chosen::{self, ChosenNode};
use super::dir::{Dir, DirError};
use crate::command::demo::DemoOptions;
use crate::command::load;
use rpcgate_admin::store::url_of;
use rpcgate_core::config::{Config, Setting};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where the gateway listens if nobody says anything else.
const GATEWAY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
/// The database and the folder of usage that is not in it yet, in the demo's folder.
const DATABASE: &str = "rpcgate.db";
const JOURNAL: &str = "journal";
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
    /// Settings of a demo in `dir` with this secret for its keys, whose simulated nodes are at these URLs, by chain.
    ///
    /// # Errors
    /// [`DirError`] for a folder whose name a setting cannot hold.
    pub(super) fn new(
        options: &DemoOptions,
        chosen: Vec<ChosenNode>,
        dir: &Dir,
        key_secret: &str,
        simulated: &[(&str, String)],
    ) -> Result<Settings, DirError> {
        let own = |path: &str, value: String| Setting::new(OWN, path, value);
        // Whole paths: they are the demo's folder wherever somebody is who reads them.
        let (database, journal) = (dir.absolute(DATABASE)?, dir.absolute(JOURNAL)?);
        let mut base = vec![
            own("gateway.key_secret", key_secret.to_owned()),
            own("database.url", url_of(database.as_ref())),
            own("journal.dir", journal),
            own("telemetry.log_format", "text".into()),
            // What was printed for pasting should not scroll away.
            own("telemetry.log_filter", "warn".into()),
        ];
        base.extend(simulated.iter().map(|(chain, url)| own(&format!("chains.{chain}.nodes"), url.clone())));
        let mut flags = chosen::flags(&chosen);
        // An option that was left alone is the demo's own setting; one that was given is a flag.
        let listen = options.gateway.to_string();
        if options.gateway == GATEWAY {
            base.push(own("gateway.listen", listen));
        } else {
            flags.push(Setting::new("--gateway", "gateway.listen", listen));
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
            admin: GATEWAY,
            grpc: GATEWAY,
            nodes: Vec::new(),
            plan: None,
            config: None,
        }
    }

    fn config(options: &DemoOptions, dir: &Dir) -> Config {
        let chosen = options.nodes.iter().map(ChosenNode::new).collect::<Result<_, _>>().unwrap();
        let simulated = [("eth", "http://s:1".to_owned()), ("btc", "http://s:2".to_owned())];
        Settings::new(options, chosen, dir, "a secret of the demo", &simulated).unwrap().read().unwrap()
    }

    fn urls(config: &Config, chain: &str) -> Vec<String> {
        config.chains[chain].nodes.iter().flat_map(|node| &node.url).map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_changes_what_was_left_alone_and_options_beat_it() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path()).unwrap();
        let alone = config(&options(), &dir);
        assert_eq!(alone.gateway.listen, GATEWAY);
        assert_eq!((urls(&alone, "eth"), urls(&alone, "bsc").len()), (vec!["http://s:1".to_owned()], 0));

        let file = home.path().join("rpcgate.toml");
        let text = "[gateway]\nlisten = \"127.0.0.1:1\"\n[database]\nurl = \"sqlite://f.db\"\n[journal]\ndir = \"f\"\n\
                    [chains]\nbsc.nodes = [\"http://f:1\"]\neth.nodes = [\"http://f:2\"]\nbtc.nodes = []\n";
        std::fs::write(&file, text).unwrap();
        let with_file = DemoOptions { config: Some(file), ..options() };
        let filed = config(&with_file, &dir);
        assert_eq!(filed.gateway.listen.port(), 1);
        assert_eq!((filed.database.url(), filed.journal.dir.as_path()), ("sqlite://f.db", Path::new("f")));
        assert_eq!([urls(&filed, "bsc"), urls(&filed, "eth")], [["http://f:1"], ["http://f:2"]]);
        assert!(urls(&filed, "btc").is_empty());

        let node = ("eth".to_owned(), "url".to_owned(), "http://o:1".to_owned());
        let gateway = "127.0.0.1:0".parse().unwrap();
        let given = config(&DemoOptions { gateway, nodes: vec![node], ..with_file }, &dir);
        assert_eq!(given.gateway.listen.port(), 0);
        assert_eq!([urls(&given, "bsc"), urls(&given, "eth")], [["http://f:1"], ["http://o:1"]]);
    }

    #[test]
    fn no_key_stands_in_the_configuration() {
        let home = tempfile::tempdir().unwrap();
        let config = config(&options(), &Dir::open(home.path()).unwrap());
        assert!(config.callers().is_empty());
        assert_eq!(config.gateway.key_secret.unwrap().expose(), "a secret of the demo");
    }

    #[test]
    fn database_and_journal_are_in_the_folder_however_it_is_named() {
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
            for (file, name) in [(Path::new(&file), "rpcgate.db"), (&config.journal.dir, "journal")] {
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
        let error = Settings::new(&options(), Vec::new(), &dir, "s", &[]).unwrap_err().to_string();
        assert!(error.starts_with("--dir ") && error.contains("not UTF-8"), "{error}");
    }
}
