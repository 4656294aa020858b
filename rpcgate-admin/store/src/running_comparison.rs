//! The changes that a reload would make, for `check --against running`.

use crate::{RunningConfig, Store, StoreError};
use rpcgate_config::{ChangedSetting, Config, ConfigProgram, ReloadEffect, SecretFingerprints, moment_text};
use std::io::{self, Write};

/// The effect of a reload, expressed as an exit code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ReloadPlan {
    /// No effective setting changes: exit code 0.
    Nothing,
    /// A reload applies all changes: exit code 10.
    Reload,
    /// A change needs a restart: exit code 11.
    Restart,
}

impl ReloadPlan {
    /// Returns the exit code.
    pub const fn code(self) -> u8 {
        match self {
            ReloadPlan::Nothing => 0,
            ReloadPlan::Reload => 10,
            ReloadPlan::Restart => 11,
        }
    }
}

/// The difference between a configuration and the one that a program has in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningComparison {
    /// The settings that differ, each with the effect of a reload.
    pub changes: Vec<(ChangedSetting, ReloadEffect)>,
    /// The number of secrets that cannot be compared.
    pub unknown: usize,
}

impl RunningComparison {
    /// Compares `config` with the configuration that `program` has in force.
    pub fn new(program: ConfigProgram, running: &RunningConfig, config: &Config) -> Self {
        let known = SecretFingerprints::of(config);
        let key = known.iter().find(|one| one.id() == running.version.fingerprint_key);
        let all = running.lines.changes(&config.lines(key));
        let is_known = |change: &ChangedSetting| !change.is_masked() || change.has_fingerprints();
        let unknown = all.iter().filter(|change| !is_known(change)).count();
        let with_effect = |change: ChangedSetting| {
            let effect = program.effect(&change);
            (change, effect)
        };
        RunningComparison { changes: all.into_iter().filter(is_known).map(with_effect).collect(), unknown }
    }

    fn count(&self, wanted: ReloadEffect) -> usize {
        self.changes.iter().filter(|(_, effect)| *effect == wanted).count()
    }

    /// Returns the effect of a reload.
    pub fn plan(&self) -> ReloadPlan {
        match (self.count(ReloadEffect::Restart), self.count(ReloadEffect::Live)) {
            (0, 0) => ReloadPlan::Nothing,
            (0, _) => ReloadPlan::Reload,
            _ => ReloadPlan::Restart,
        }
    }

    fn write(&self, program: ConfigProgram, running: &RunningConfig, out: &mut dyn Write) -> io::Result<()> {
        let version = &running.version;
        let number = version.number;
        let since = moment_text(version.at);
        writeln!(
            out,
            "compared with version {number}, accepted by {} at {since} ({})",
            program.name(),
            version.who
        )?;
        if !running.waiting.is_empty() {
            writeln!(out, "it waits for a restart with: {}", running.waiting.join(", "))?;
        }
        for (change, effect) in &self.changes {
            let effect = match effect {
                ReloadEffect::Live => "reload ",
                ReloadEffect::Restart => "RESTART",
                ReloadEffect::Unused => "unused ",
            };
            writeln!(out, "{effect}  {change}")?;
        }
        let [live, restart, unused] = [ReloadEffect::Live, ReloadEffect::Restart, ReloadEffect::Unused]
            .map(|effect| self.count(effect));
        match self.plan() {
            ReloadPlan::Nothing => writeln!(out, "a reload would change nothing")?,
            _ => writeln!(out, "settings that a reload applies: {live}; that need a restart: {restart}")?,
        }
        if unused > 0 {
            writeln!(out, "settings that {} does not use: {unused}", program.name())?;
        }
        if self.unknown > 0 {
            let why = "their fingerprints were made with another key, or without one";
            writeln!(out, "secrets that cannot be compared: {} ({why})", self.unknown)?;
        }
        Ok(())
    }
}

/// The reason why a configuration cannot be compared with one in force.
#[derive(Debug, thiserror::Error)]
pub enum ComparisonError {
    /// The database has no version of such a process, or has several.
    #[error("{0}")]
    NotFound(String),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The comparison cannot be written.
    #[error("{0}")]
    Output(String),
}

/// Compares `config` with the configuration that `program` has in force, and writes the comparison to `out`. The
/// process is the one at `place`, or the only one on the machine `host`. Reads the database that `config` names and
/// does not touch its schema.
///
/// # Errors
/// [`ComparisonError`].
pub async fn compare_with_running(
    program: ConfigProgram,
    config: &Config,
    place: Option<&str>,
    host: &str,
    out: &mut dyn Write,
) -> Result<ReloadPlan, ComparisonError> {
    let store = Store::open(config.database.url(), false).await?;
    let found = store.running_configs(program, place, host).await;
    store.close().await;
    let found = found?;
    let running = match &found[..] {
        [running] => running,
        [] => {
            let name = program.name();
            let database = config.database.masked_url();
            return Err(ComparisonError::NotFound(format!(
                "{database} has no version of a {name} on {host}"
            )));
        }
        several => {
            let places: Vec<_> = several.iter().map(|one| one.version.scope.location()).collect();
            return Err(ComparisonError::NotFound(format!(
                "there are several processes of {} on {host}, and the configuration names none of them: {}",
                program.name(),
                places.join(", ")
            )));
        }
    };
    let comparison = RunningComparison::new(program, running, config);
    let written = comparison.write(program, running, out).and_then(|()| out.flush());
    written.map_err(|error| ComparisonError::Output(error.to_string()))?;
    Ok(comparison.plan())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AcceptedConfig, ConfigScope, url_of};
    use rpcgate_config::Input;
    use rpcgate_core::clock::Time;
    use tempfile::TempDir;

    const START: Time = Time::from_secs(1_798_718_400);

    struct Fixture {
        dir: TempDir,
        store: Store,
    }

    impl Fixture {
        async fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(&url_of(&dir.path().join("rpcgate.db")), true).await.unwrap();
            Fixture { dir, store }
        }

        fn config(&self, text: &str) -> Config {
            let text =
                format!("[database]\nurl = \"{}\"\n{text}", url_of(&self.dir.path().join("rpcgate.db")));
            Config::read(&Input { chains: &["eth"], file: Some(("f", &text)), ..Input::default() }).unwrap()
        }

        async fn accept(&self, place: &str, text: &str, is_start: bool) {
            let scope = ConfigScope::Gateway(place.into());
            let origin = ("web-1".into(), "web-1: a.toml".into());
            let accepted = AcceptedConfig::new(&self.config(text), scope, origin, is_start, START);
            self.store.record_config(&accepted, START).await.unwrap();
        }

        async fn check(&self, place: Option<&str>, text: &str) -> (Option<ReloadPlan>, String) {
            let config = self.config(text);
            let mut out = Vec::new();
            let done = compare_with_running(ConfigProgram::Gateway, &config, place, "web-1", &mut out).await;
            let shown = String::from_utf8(out).unwrap();
            match done {
                Ok(plan) => (Some(plan), shown),
                Err(ComparisonError::NotFound(text)) => (None, text),
                Err(error) => panic!("{error}"),
            }
        }
    }

    const KEY: &str = "[gateway]\nkey_secret = \"a secret of keys\"\n";

    // Shows (Commands and configuration): `check` shows what a reload would change and what needs a restart, also after
    // a reload that left a setting waiting.
    #[tokio::test]
    async fn each_setting_that_differs_is_shown_with_what_a_reload_does() {
        let fixture = Fixture::new().await;
        fixture.accept("one", KEY, true).await;
        let (plan, shown) = fixture.check(Some("one"), KEY).await;
        assert_eq!(plan, Some(ReloadPlan::Nothing), "{shown}");
        assert!(shown.ends_with("a reload would change nothing\n"), "{shown}");
        let (plan, shown) =
            fixture.check(Some("one"), &format!("{KEY}[plans.free]\nper_minute = 20\n")).await;
        assert_eq!(plan, Some(ReloadPlan::Reload));
        assert!(shown.contains("reload   plans.free.per_minute: 10 -> 20\n"), "{shown}");
        let changed = format!("{KEY}listen = \"0.0.0.0:80\"\n[admin]\nauth_per_minute = 9\n");
        let (plan, shown) = fixture.check(None, &changed).await;
        assert_eq!((plan, plan.map(ReloadPlan::code)), (Some(ReloadPlan::Restart), Some(11)));
        assert!(shown.starts_with("compared with version 1, accepted by rpcgate-server at 2026-12-31T12:00:00Z (web-1: a.toml)\n"), "{shown}");
        assert!(shown.contains("RESTART  gateway.listen: \"127.0.0.1:8080\" -> \"0.0.0.0:80\"\n"), "{shown}");
        assert!(shown.contains("unused   admin.auth_per_minute: 10 -> 9\n"), "{shown}");
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn a_setting_that_waits_for_a_restart_is_not_in_force() {
        let fixture = Fixture::new().await;
        let reloaded = format!("{KEY}listen = \"0.0.0.0:80\"\n[plans.free]\nper_minute = 20\n");
        fixture.accept("one", KEY, true).await;
        fixture.accept("one", &reloaded, false).await;
        let (plan, shown) = fixture.check(Some("one"), KEY).await;
        assert_eq!(plan, Some(ReloadPlan::Reload), "the listener is still the old one: {shown}");
        assert!(shown.contains("it waits for a restart with: gateway.listen\n"), "{shown}");
        let (plan, _) = fixture.check(Some("one"), &reloaded).await;
        assert_eq!(plan, Some(ReloadPlan::Restart));
        fixture.accept("one", &reloaded, true).await;
        assert_eq!(fixture.check(Some("one"), &reloaded).await.0, Some(ReloadPlan::Nothing));
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn a_changed_secret_is_seen_and_not_shown_also_in_a_rotation() {
        let fixture = Fixture::new().await;
        let node = |secret: &str| {
            format!("[[chains.eth.nodes]]\nurl = \"http://h\"\nheaders = {{ x = \"{secret}\" }}\n")
        };
        fixture.accept("one", &format!("{KEY}{}", node("hunter2")), true).await;
        let (plan, shown) = fixture.check(Some("one"), &format!("{KEY}{}", node("hunter3"))).await;
        assert_eq!(plan, Some(ReloadPlan::Reload), "{shown}");
        assert!(shown.contains("chains.eth.nodes[0].headers: ") && !shown.contains("hunter"), "{shown}");
        let rotated = "[gateway]\nkey_secret = \"another secret of keys\"\nformer_key_secrets = [\"a secret of keys\"]\n";
        let (_, shown) = fixture.check(Some("one"), &format!("{rotated}{}", node("hunter2"))).await;
        assert!(!shown.contains("chains.eth"), "the former key makes the same fingerprints: {shown}");
        let other = "[gateway]\nkey_secret = \"another secret of keys\"\n";
        let (_, shown) = fixture.check(Some("one"), &format!("{other}{}", node("hunter2"))).await;
        assert!(shown.contains("secrets that cannot be compared: 2 "), "{shown}");
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn a_process_that_is_not_known_or_not_the_only_one_is_reported() {
        let fixture = Fixture::new().await;
        let (plan, text) = fixture.check(None, "").await;
        assert!(plan.is_none() && text.ends_with("has no version of a rpcgate-server on web-1"), "{text}");
        fixture.accept("one", "", true).await;
        fixture.accept("two", "[cache]\nbytes = 0\n", true).await;
        let (plan, text) = fixture.check(None, "").await;
        assert!(plan.is_none() && text.ends_with(": two, one"), "{text}");
        assert_eq!(fixture.check(Some("one"), "").await.0, Some(ReloadPlan::Nothing));
    }
}
