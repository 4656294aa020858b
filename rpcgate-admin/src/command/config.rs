//! `rpcgate-admin config`: former configurations and former operators' settings.

use super::command_error::CommandError;
use super::configuration;
use super::console::Console;
use super::out_file::new_file;
use super::printer::{Printable, printable};
use crate::cli::config::{ConfigCommand, ConfigDiffArgs, ConfigHistoryArgs, ConfigRollbackArgs};
use rpcgate_config::{ChangedSetting, Config, ConfigProgram, SecretFingerprints, moment_text};
use rpcgate_management::action::operator::config_versions::{
    self, ComparableLines, ListedVersion, VersionChanges,
};
use rpcgate_management::action::operator::rollback::{self, RolledBack};
use rpcgate_management::shape::operator::config_versions::{
    ConfigChangesJson, ConfigVersionJson, WholeVersionJson,
};
use rpcgate_process::{Failure, host_name};
use rpcgate_store::{ConfigScope, ConfigVersion, ConfigVersionFilter, RunningConfig};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// The number of versions that are read at a time.
const PAGE: u64 = 100;

/// The argument for the configuration in force.
const RUNNING: &str = "running";

impl Printable for ConfigVersionJson {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("VERSION", 8), ("TIME", 28), ("ABOUT", 12), ("CHANGES", 8), ("WHO", 36), ("PLACE", 0)];

    fn cells(&self) -> Vec<String> {
        vec![
            self.number.to_string(),
            self.at.to_string(),
            self.source.clone(),
            self.changes.map_or_else(|| "first".into(), |changes| changes.to_string()),
            self.who.clone(),
            // Versions of the management side have the file as their author.
            if self.place == self.who { String::new() } else { self.place.clone() },
        ]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("version", self.number.to_string()),
            ("time", self.at.to_string()),
            ("about", self.source.clone()),
            ("place", self.place.clone()),
            ("machine", self.host.clone()),
            ("who", self.who.clone()),
            ("changed", self.changed.join("\n")),
        ]
    }
}

impl Printable for WholeVersionJson {
    const COLUMNS: &'static [(&'static str, usize)] = ConfigVersionJson::COLUMNS;

    fn cells(&self) -> Vec<String> {
        self.version.cells()
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = self.version.fields();
        fields.push(("settings", self.text.clone()));
        fields
    }
}

pub(super) async fn execute(console: &mut Console<'_>, command: &ConfigCommand) -> Result<(), CommandError> {
    match command {
        ConfigCommand::History(args) => history(console, args).await,
        ConfigCommand::Show(args) => {
            let version = config_versions::get(&console.app, args.version).await?;
            Ok(console.printer.object(&WholeVersionJson::from(version))?)
        }
        ConfigCommand::Diff(args) => diff(console, args).await,
        ConfigCommand::Rollback(args) => roll_back(console, args).await,
    }
}

async fn history(console: &mut Console<'_>, args: &ConfigHistoryArgs) -> Result<(), CommandError> {
    let source = args.of.map(|of| of.name().to_owned());
    let filter = ConfigVersionFilter { source, place: args.place.clone(), host: args.host.clone() };
    let mut left = args.length.limit.unwrap_or(u64::MAX);
    let mut before = None;
    while left > 0 {
        let page = config_versions::list(&console.app, &filter, before, left.min(PAGE)).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.version.number);
        left = left.saturating_sub(page.len() as u64);
        for version in page {
            console.printer.entry(&ConfigVersionJson::from(version))?;
        }
    }
    Ok(())
}

enum Side {
    Version(ConfigVersion),
    Running,
    File(String, Box<Config>),
}

impl Side {
    async fn of(console: &Console<'_>, text: &str) -> Result<Self, CommandError> {
        if text == RUNNING {
            return Ok(Side::Running);
        }
        if let Ok(number) = text.parse() {
            return Ok(Side::Version(config_versions::get(&console.app, number).await?.version));
        }
        let config = configuration(Path::new(text)).map_err(Failure::from)?;
        Ok(Side::File(text.to_owned(), Box::new(config)))
    }

    fn version(&self) -> Option<&ConfigVersion> {
        match self {
            Side::Version(version) => Some(version),
            Side::Running | Side::File(..) => None,
        }
    }
}

fn label(version: &ConfigVersion) -> String {
    format!("version {} of {} ({})", version.number, version.scope, moment_text(version.at))
}

/// Returns the name and the settings of a side. The other side decides which program `running` means.
async fn resolved(
    console: &Console<'_>,
    side: &Side,
    other: &Side,
    program: ConfigProgram,
) -> Result<(String, Compared), CommandError> {
    Ok(match side {
        Side::Version(version) => (label(version), Compared::Lines(version.into())),
        Side::Running => match other.version().map(|version| &version.scope) {
            Some(scope @ (ConfigScope::Service | ConfigScope::Tenant(_))) => {
                let filter = ConfigVersionFilter {
                    source: Some(scope.source().into()),
                    place: Some(scope.location()),
                    host: None,
                };
                let newest = console.app.store.config_versions(&filter, None, 1).await;
                let newest = newest.map_err(rpcgate_management::error::ActionError::from)?.pop();
                let newest = newest.ok_or_else(|| CommandError::not_found("there is no version of it"))?;
                (format!("running: {}", label(&newest)), Compared::Lines((&newest).into()))
            }
            Some(ConfigScope::Gateway(place)) => {
                in_force(console, ConfigProgram::Gateway, Some(place)).await?
            }
            Some(ConfigScope::Management(place)) => {
                in_force(console, ConfigProgram::Management, Some(place)).await?
            }
            None => in_force(console, program, None).await?,
        },
        Side::File(name, config) => (name.clone(), Compared::File(config.clone())),
    })
}

/// The settings of a side. The fingerprints of a file's secrets use the key of the other side.
enum Compared {
    Lines(ComparableLines),
    File(Box<Config>),
}

impl Compared {
    /// Returns the settings. Those of a file have fingerprints with the key `key`, if the file has it.
    fn lines(self, key: Option<&str>) -> ComparableLines {
        match self {
            Compared::Lines(lines) => lines,
            Compared::File(config) => {
                let known = SecretFingerprints::of(&config);
                let chosen = known.iter().find(|one| Some(one.id()) == key).or_else(|| known.first());
                let fingerprint_key = chosen.map_or_else(String::new, |one| one.id().to_owned());
                ComparableLines { lines: config.lines(chosen), fingerprint_key }
            }
        }
    }

    fn key(&self) -> Option<String> {
        match self {
            Compared::Lines(lines) => Some(lines.fingerprint_key.clone()),
            Compared::File(_) => None,
        }
    }
}

/// Returns the configuration in force of the program at `place`, or of the only one on this machine.
async fn in_force(
    console: &Console<'_>,
    program: ConfigProgram,
    place: Option<&str>,
) -> Result<(String, Compared), CommandError> {
    let host = host_name();
    let found = console.app.store.running_configs(program, place, &host).await;
    let mut found = found.map_err(rpcgate_management::error::ActionError::from)?;
    if found.len() > 1 {
        let places: Vec<_> = found.iter().map(|one| one.version.number.to_string()).collect();
        let text = format!("several run on {host}: name the version of one, {}", places.join(" or "));
        return Err(CommandError::usage(text));
    }
    let Some(RunningConfig { version, lines, .. }) = found.pop() else {
        let name = program.name();
        return Err(CommandError::not_found(format!("no version of a {name} on {host} is known")));
    };
    let lines = ComparableLines { lines, fingerprint_key: version.fingerprint_key.clone() };
    Ok((format!("running: {}", label(&version)), Compared::Lines(lines)))
}

async fn diff(console: &mut Console<'_>, args: &ConfigDiffArgs) -> Result<(), CommandError> {
    let one = Side::of(console, &args.a).await?;
    let (one, other) = match (&args.b, one) {
        (Some(b), one) => (one, Side::of(console, b).await?),
        (None, Side::Version(version)) => {
            let before = console.app.store.config_version_before(&version).await;
            let before = before.map_err(rpcgate_management::error::ActionError::from)?;
            let before = before.ok_or_else(|| {
                CommandError::not_found(format!("version {} is the first one that is stored", version.number))
            })?;
            (Side::Version(before), Side::Version(version))
        }
        (None, Side::File(name, config)) => (Side::Running, Side::File(name, config)),
        (None, Side::Running) => {
            return Err(CommandError::usage("compare `running` with a version or a file"));
        }
    };
    if let (Some(one), Some(other)) = (one.version(), other.version()) {
        config_versions::expect_comparable(one, other)?;
    }
    let program = args.program.into();
    let (from, before) = resolved(console, &one, &other, program).await?;
    let (to, after) = resolved(console, &other, &one, program).await?;
    let key = before.key();
    let other_key = after.key();
    let before = before.lines(other_key.as_deref());
    let key = key.unwrap_or_else(|| before.fingerprint_key.clone());
    let changes = VersionChanges::between(&before, &after.lines(Some(&key)));
    print_diff(console, &from, &to, changes)
}

#[derive(Serialize)]
struct Difference {
    from: String,
    to: String,
    #[serde(flatten)]
    changes: ConfigChangesJson,
}

fn print_diff(
    console: &mut Console<'_>,
    from: &str,
    to: &str,
    changes: VersionChanges,
) -> Result<(), CommandError> {
    if console.printer.is_json() {
        let from = from.to_owned();
        let to = to.to_owned();
        return Ok(console.printer.json(&Difference { from, to, changes: changes.into() })?);
    }
    for line in unified(from, to, &changes) {
        console.printer.text(&printable(&line))?;
    }
    Ok(())
}

/// Formats changes like a unified diff: a heading for each table, and its settings before and after.
fn unified(from: &str, to: &str, changes: &VersionChanges) -> Vec<String> {
    let mut lines = vec![format!("--- {from}"), format!("+++ {to}")];
    let mut current = None;
    for ChangedSetting { key, before, after } in &changes.settings {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        if current != Some(table) {
            current = Some(table);
            lines.push(format!("@@ {table} @@"));
        }
        lines.extend(before.iter().map(|value| format!("-{name} = {value}")));
        lines.extend(after.iter().map(|value| format!("+{name} = {value}")));
    }
    if changes.is_empty() {
        lines.push("no setting differs".into());
    }
    if changes.unknown > 0 {
        let why = "their fingerprints were made with different keys";
        lines.push(format!("secrets that cannot be compared: {} ({why})", changes.unknown));
    }
    lines
}

async fn roll_back(console: &mut Console<'_>, args: &ConfigRollbackArgs) -> Result<(), CommandError> {
    let listed = config_versions::get(&console.app, args.version).await?;
    if let Some(path) = &args.out {
        return write_out(console, &listed, path);
    }
    let version = &listed.version;
    if !version.scope.is_of_operators() {
        let number = version.number;
        let who = &version.who;
        return Err(Failure::Refused(format!(
            "version {number} is the configuration of a program, which can only be changed on its machine ({who}). \
             Write it to a file with --out FILE, replace each *** by the secret, check it there with `check --config \
             FILE --against running`, replace the present file by it, and reload with SIGHUP"
        ))
        .into());
    }
    let (_, changes) = config_versions::from_running(&console.app, version.number).await?;
    if !console.printer.is_json() {
        for line in unified(RUNNING, &label(version), &changes) {
            console.printer.text(&printable(&line))?;
        }
        console.printer.flush()?;
    }
    console.confirm(args.confirmation, &format!("Restore the settings of version {}?", version.number))?;
    let done = rollback::roll_back(&console.app, &console.actor(), version.number).await?;
    print_rolled_back(console, done)
}

#[derive(Serialize)]
struct RollbackOutcome {
    done: Vec<String>,
    left: Vec<String>,
}

fn print_rolled_back(console: &mut Console<'_>, outcome: RolledBack) -> Result<(), CommandError> {
    let RolledBack { done, left } = outcome;
    let left: Vec<_> = left.into_iter().map(|(what, why)| format!("{what}: {why}")).collect();
    if console.printer.is_json() {
        console.printer.json(&RollbackOutcome { done, left: left.clone() })?;
    } else {
        for what in &done {
            console.printer.text(&printable(&format!("done: {what}")))?;
        }
        if done.is_empty() && left.is_empty() {
            console.printer.text("nothing needed to be changed")?;
        }
    }
    match &left[..] {
        [] => Ok(()),
        left => Err(Failure::Refused(format!("not done: {}", left.join("; "))).into()),
    }
}

fn write_out(console: &mut Console<'_>, listed: &ListedVersion, path: &Path) -> Result<(), CommandError> {
    let version = &listed.version;
    let mut file = new_file(path)?;
    let text = if version.scope.is_of_operators() {
        version.lines.to_string()
    } else {
        format!(
            "# {}, of {}: every value in force then, including defaults and the environment.\n# Replace each *** by \
             the secret; `check --config FILE` names the lines that are left.\n\n{}",
            label(version),
            printable(&version.who),
            version.lines.to_toml()
        )
    };
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all())?;
    Ok(console.printer.object(&ConfigVersionJson::from(listed.clone()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::console::tests::run;
    use crate::testing::{NOON, Site};
    use rpcgate_config::{ConfigLines, Input};
    use rpcgate_store::AcceptedConfig;

    async fn accept(site: &Site, per_minute: u64, secret: &str) -> u64 {
        let mut config = site.app.settings.config.clone();
        config.plans.free.per_minute = per_minute;
        config.admin.jwt.secret = Some(rpcgate_config::Secret::new(secret));
        let location = "web-1: /etc/rpcgate.toml".to_owned();
        let scope = ConfigScope::Management(location.clone());
        let accepted = AcceptedConfig::new(&config, scope, ("web-1".into(), location), true, NOON);
        site.app.store.record_config(&accepted, NOON).await.unwrap()
    }

    #[tokio::test]
    async fn the_history_lists_who_changed_what() {
        let site = Site::new().await;
        assert_eq!(run(&site, None, "config history").await.out, "");
        run(&site, None, "plan set free --per-minute 20").await;
        run(&site, None, "plan set free --per-minute 30 --per-hour 40").await;
        accept(&site, 10, "0123456789abcdef0123456789abcdef").await;
        let all = run(&site, None, "config history --json").await.json();
        assert_eq!(all.len(), 4);
        let settings = run(&site, None, "config history --of settings --limit 1 --json").await.json();
        assert_eq!(settings[0]["changes"], 2);
        assert!(settings[0]["who"].as_str().unwrap().starts_with("command line ("), "{settings:?}");
        let shown = run(&site, None, "config history").await.out;
        let lines: Vec<_> = shown.lines().collect();
        assert!(lines.len() == 5 && lines[0].starts_with("VERSION   TIME"), "{shown}");
        assert!(lines[1].contains("management") && lines[1].contains("web-1: /etc/rpcgate.toml"), "{shown}");
        let whole = run(&site, None, "config show 3").await.out;
        assert!(whole.contains("  plans.free.per_hour = 40\n"), "{whole}");
        assert_eq!(run(&site, None, "config show 99").await.code, 3);
    }

    #[tokio::test]
    async fn a_diff_has_a_line_for_each_value_before_and_after() {
        let site = Site::new().await;
        run(&site, None, "plan set free --per-minute 20").await;
        run(&site, None, "plan set free --per-minute 30 --per-hour 40").await;
        let shown = run(&site, None, "config diff 3").await.out;
        let lines: Vec<_> = shown.lines().skip(2).collect();
        assert_eq!(lines, ["@@ plans.free @@", "+per_hour = 40", "-per_minute = 20", "+per_minute = 30"]);
        assert!(shown.starts_with("--- version 2 of settings ("), "{shown}");
        let shown = run(&site, None, "config diff 1 running --json").await.json();
        assert_eq!(shown[0]["changes"].as_array().unwrap().len(), 2, "{shown:?}");
        let same = run(&site, None, "config diff 3 running").await.out;
        assert!(same.ends_with("no setting differs\n"), "{same}");
        assert_eq!(run(&site, None, "config diff 1").await.code, 3, "it is the first");
        assert_eq!(run(&site, None, "config diff running").await.code, 2);
        assert_eq!(run(&site, None, "config diff /none.toml 1").await.code, 2);
    }

    #[tokio::test]
    async fn a_rollback_shows_the_changes_asks_and_applies_them() {
        let site = Site::new().await;
        run(&site, None, "plan set free --per-minute 20").await;
        run(&site, None, "plan set free --per-minute 30").await;
        assert_eq!(run(&site, None, "config rollback 2").await.code, 2, "nobody can confirm it");
        let refused = run(&site, Some("n\n"), "config rollback 2").await;
        assert!(
            refused.code == 1 && refused.out.contains("-per_minute = 30\n+per_minute = 20\n"),
            "{refused:?}"
        );
        let done = run(&site, Some("y\n"), "config rollback 2").await;
        assert!(done.code == 0 && done.out.ends_with("done: plan free\n"), "{done:?}");
        let plan = run(&site, None, "plan show free --json").await.json();
        assert_eq!(plan[0]["per_minute"], 20);
        let again = run(&site, None, "config rollback 4 --yes").await;
        assert!(again.out.ends_with("nothing needed to be changed\n"), "{again:?}");
        run(&site, None, "config rollback 1 --yes").await;
        let plan = run(&site, None, "plan show free --json").await.json();
        assert_eq!(plan[0]["per_minute"], 10, "what was not set is as configured again");
    }

    /// Stores a current configuration, and a version from an earlier program with secrets in nodes' URLs.
    async fn accept_planted(site: &Site) -> [u64; 2] {
        let text = "[gateway]\nkey_secret = \"sixteen bytes or more\"\n[[chains.eth.nodes]]\n\
                    url = \"https://planted1User:planted-word@h/v2/planted/rpc/Planted3?apikey=planted&planted\"\n\
                    ws = \"wss://h/v2/planted\"\n";
        let stored = "chains.eth.nodes[0].url = \"https://h/v2/planted/rpc/Planted3?apikey=planted&planted\"\n\
                      chains.eth.nodes[0].user = \"planted1User\"\nchains.eth.nodes[0].ws = \"wss://h/v2/planted\"\n";
        let input = Input { chains: &["eth"], file: Some(("f", text)), ..Input::default() };
        let config = Config::read(&input).unwrap();
        let place = "web-1: /etc/rpcgate.toml".to_owned();
        let scope = ConfigScope::Management(place.clone());
        let now = AcceptedConfig::new(&config, scope, ("web-1".into(), place), true, NOON);
        let lines = ConfigLines::parse(stored).unwrap();
        let before = AcceptedConfig { texts: vec![(String::new(), lines)], ..now.clone() };
        let before = site.app.store.record_config(&before, NOON).await.unwrap();
        [before, site.app.store.record_config(&now, NOON).await.unwrap()]
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn no_secret_of_a_nodes_url_is_in_a_version_a_difference_or_a_rollback() {
        let site = Site::new().await;
        let [before, now] = accept_planted(&site).await;
        assert!(before < now, "two versions");
        let dir = tempfile::tempdir().unwrap();
        let mut shown = Vec::new();
        for (n, number) in [before, now].into_iter().enumerate() {
            let path = dir.path().join(format!("{n}.toml"));
            let written =
                run(&site, None, &format!("config rollback {number} --out {}", path.display())).await;
            shown.push(("file", std::fs::read_to_string(&path).unwrap()));
            let whole = run(&site, None, &format!("config show {number}")).await;
            let json = run(&site, None, &format!("config show {number} --json")).await;
            for outcome in [written, whole, json] {
                assert_eq!(outcome.code, 0, "{outcome:?}");
                shown.push(("version", outcome.out));
            }
        }
        for line in
            ["config history".to_owned(), format!("config diff {before} {now}"), format!("config diff {now}")]
        {
            for line in [line.clone(), format!("{line} --json")] {
                let outcome = run(&site, None, &line).await;
                assert_eq!(outcome.code, 0, "{outcome:?}");
                shown.push(("difference", outcome.out + &outcome.messages));
            }
        }
        let is_node = |text: &str| text.contains("https://h/v2/***");
        assert!(shown.iter().filter(|(_, text)| is_node(text)).count() >= 4, "nodes are shown: {shown:#?}");
        for (place, text) in &shown {
            assert!(!text.to_lowercase().contains("planted"), "{place}: {text}");
        }
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn a_file_is_written_with_placeholders_for_secrets() {
        let site = Site::new().await;
        let secret = "one secret of thirty-two bytes or so";
        let number = accept(&site, 77, secret).await;
        let refused = run(&site, None, &format!("config rollback {number} --yes")).await;
        assert!(refused.code == 4 && refused.messages.contains("--out FILE"), "{refused:?}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("former.toml");
        let line = format!("config rollback {number} --out {}", path.display());
        assert_eq!(run(&site, None, &line).await.code, 0);
        assert_eq!(run(&site, None, &line).await.code, 2, "a file that exists is not replaced");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("per_minute = 77\n") && !text.contains(secret), "{text}");
        assert!(text.contains("secret = \"***\"  # put the secret here (fingerprint "), "{text}");
        let missing = configuration(&path).unwrap_err().to_string();
        assert!(
            missing.lines().count() >= 2 && missing.contains("gateway.key_secret is masked"),
            "{missing}"
        );
        let shown = run(&site, None, &format!("config diff {number} running")).await;
        assert!(shown.out.ends_with("no setting differs\n"), "{shown:?}");
    }
}
