//! A configuration as one line per setting, which can be stored and compared.

use super::Config;
use super::fields::{Fields, Listed, Names, Table};
use super::fingerprint::SecretFingerprints;
use super::masking::{MASK, Masking, fingerprint_at, without_fingerprints};
use super::problem::Problem;
use super::reading::Reading;
use super::toml_text::{key, quote};
use super::tree::Item;
use super::url::Url;
use rpcgate_core::url_secrets::shown_user;
use std::collections::BTreeMap;
use std::fmt;

/// A configuration as lines such as `gateway.listen = "127.0.0.1:8080"`, without secrets and chains without settings.
///
/// ```
/// use rpcgate_config::{Config, ConfigLines};
///
/// let before = Config::default().lines(None);
/// let text = before.to_string().replace("cache.bytes = \"256MiB\"", "cache.bytes = \"1GiB\"");
/// let after = ConfigLines::parse(&text).unwrap_or_default();
/// let changes: Vec<String> = before.changes(&after).iter().map(ToString::to_string).collect();
/// assert_eq!(changes, ["cache.bytes: \"256MiB\" -> \"1GiB\""]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfigLines(Vec<(String, String)>);

/// A setting that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangedSetting {
    /// The key.
    pub key: String,
    /// The old value; `None` if it was not set.
    pub before: Option<String>,
    /// The new value; `None` if it is no longer set.
    pub after: Option<String>,
}

impl ChangedSetting {
    /// Reports whether only fingerprints of secrets differ.
    pub fn is_masked(&self) -> bool {
        let plain = |value: &Option<String>| value.as_deref().map(without_fingerprints);
        self.before.is_some() && plain(&self.before) == plain(&self.after)
    }

    /// Reports whether both values have fingerprints of their secrets.
    pub fn has_fingerprints(&self) -> bool {
        let has =
            |value: &Option<String>| value.as_deref().is_some_and(|value| fingerprint_at(value).is_some());
        has(&self.before) && has(&self.after)
    }
}

impl fmt::Display for ChangedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".into());
        write!(f, "{}: {} -> {}", self.key, value(&self.before), value(&self.after))
    }
}

impl fmt::Display for ConfigLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(key, value)| writeln!(f, "{key} = {value}"))
    }
}

impl FromIterator<(String, String)> for ConfigLines {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(lines: I) -> Self {
        ConfigLines(lines.into_iter().collect())
    }
}

impl Config {
    /// Returns the configuration as lines, with `fingerprints` instead of the secrets, or else with `***`.
    pub fn lines(&self, fingerprints: Option<&SecretFingerprints>) -> ConfigLines {
        match fingerprints {
            Some(fingerprints) => {
                self.written(Masking::Fingerprint(&|secret: &str| fingerprints.tag(secret)))
            }
            None => self.written(Masking::Plain),
        }
    }

    /// Returns the settings that differ in `other`, including secrets. Must not be shown.
    pub(super) fn exact_changes(&self, other: &Config) -> Vec<ChangedSetting> {
        self.written(Masking::Exact).changes(&other.written(Masking::Exact))
    }

    fn written(&self, masking: Masking<'_>) -> ConfigLines {
        let mut flat = LineWriter { path: String::new(), masking, lines: Vec::new() };
        self.clone().fields(&mut flat);
        ConfigLines(flat.lines)
    }
}

impl ConfigLines {
    /// Parses the output of [`Display`](fmt::Display); `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let line = |line: &str| line.split_once(" = ").map(|(key, value)| (key.to_owned(), value.to_owned()));
        text.lines().map(line).collect::<Option<_>>().map(ConfigLines)
    }

    /// Returns the settings and their values, in writing order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns the value of a setting.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Returns the settings whose keys `keep` selects.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&str) -> bool) -> Self {
        self.0.iter().filter(|(key, _)| keep(key)).cloned().collect()
    }

    /// Removes the fingerprints, for a comparison with a text whose fingerprints were made with another key.
    #[must_use]
    pub fn without_fingerprints(&self) -> Self {
        self.iter().map(|(key, value)| (key.to_owned(), without_fingerprints(value))).collect()
    }

    /// Masks every secret of node URLs, for a text of an earlier version, which masked fewer of them.
    #[must_use]
    pub fn with_masked_nodes(&self) -> Self {
        let line = |(key, value): (&str, &str)| {
            (key.to_owned(), masked_node(key, value).unwrap_or_else(|| value.to_owned()))
        };
        self.iter().map(line).collect()
    }

    /// Returns the settings that differ in `other`, by key.
    pub fn changes(&self, other: &ConfigLines) -> Vec<ChangedSetting> {
        let mut both: BTreeMap<&str, [Option<&str>; 2]> = BTreeMap::new();
        for (at, lines) in [self, other].into_iter().enumerate() {
            for (key, value) in lines.iter() {
                both.entry(key).or_default()[at] = Some(value);
            }
        }
        let changed = both.into_iter().filter(|(_, [before, after])| before != after);
        let owned = |(key, [before, after]): (&str, [Option<&str>; 2])| ChangedSetting {
            key: key.to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        };
        changed.map(owned).collect()
    }

    /// Formats a configuration file. Each secret is `***`, which reading refuses, followed by its fingerprint.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut current = None;
        for (key, value) in self.iter() {
            let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
            if current != Some(table) {
                current = Some(table);
                let header = match table.rsplit_once('[') {
                    Some((list, _)) => format!("[[{list}]]"),
                    None => format!("[{table}]"),
                };
                text.push_str(if text.is_empty() { "" } else { "\n" });
                text.push_str(&header);
                text.push('\n');
            }
            text.push_str(&format!("{name} = {}", without_fingerprints(value)));
            if value.contains(MASK) {
                let known =
                    fingerprint_at(value).map(|tag| format!(" (fingerprint {tag})")).unwrap_or_default();
                text.push_str(&format!("  # put the secret here{known}"));
            }
            text.push('\n');
        }
        text
    }
}

/// Returns the value of a node setting with its secrets masked; `None` for other settings.
fn masked_node(key: &str, value: &str) -> Option<String> {
    let (_, name) = key.strip_prefix("chains.")?.split_once(".nodes[")?.1.split_once("].")?;
    let text = value.strip_prefix('"')?.strip_suffix('"')?;
    match name {
        "url" | "ws" | "grpc" if text.contains("://") => Some(quote(&Url::masked_again(text))),
        "user" => Some(quote(shown_user(text, MASK))),
        _ => None,
    }
}

struct LineWriter<'m> {
    path: String,
    masking: Masking<'m>,
    lines: Vec<(String, String)>,
}

impl LineWriter<'_> {
    fn at(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let before = self.path.len();
        if before > 0 && !name.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(name);
        visit(self);
        self.path.truncate(before);
    }
}

impl Fields for LineWriter<'_> {
    fn leaf<T>(
        &mut self,
        key: &'static str,
        slot: &mut T,
        _: impl FnOnce(&Item, &mut Reading<'_>) -> Option<T>,
        write: impl FnOnce(&T, &Masking<'_>) -> Option<String>,
    ) {
        if let Some(value) = write(slot, &self.masking) {
            self.at(key, |flat| flat.lines.push((flat.path.clone(), value)));
        }
    }

    fn table<T: Table>(&mut self, key: &'static str, slot: &mut T) {
        self.at(key, |flat| slot.fields(flat));
    }

    fn named<T: Table + Default + PartialEq>(
        &mut self,
        name: &'static str,
        slot: &mut BTreeMap<String, T>,
        names: Names,
    ) {
        self.at(name, |flat| {
            for (name, one) in slot {
                if names == Names::Own || *one != T::default() {
                    flat.at(&key(name), |flat| one.fields(flat));
                }
            }
        });
    }

    fn list<T: Listed>(&mut self, key: &'static str, slot: &mut Vec<T>) {
        self.at(key, |flat| {
            for (index, one) in slot.iter_mut().enumerate() {
                flat.at(&format!("[{index}]"), |flat| one.fields(flat));
            }
        });
    }

    fn wrong(&mut self, _: &[&'static str], _: impl FnOnce(String) -> Problem) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::changes;
    use crate::{Input, Secret};

    const SECRETS: &str = "[gateway]\nkey_secret = \"a secret of the gateway\"\n[admin.jwt]\n\
        secret = \"0123456789abcdef0123456789abcdef\"\n[database]\nurl = \"postgres://u:hunter2@h/db\"\n\
        [[chains.eth.nodes]]\nurl = \"http://h/?key=hunter3\"\nheaders = { x = \"hunter4\" }\n[[chains.eth.nodes]]\n\
        url = \"http://u:hunter5@h\"\n";

    fn config(text: &str) -> Config {
        Config::read(&Input { chains: &["eth", "btc"], file: Some(("f", text)), ..Input::default() }).unwrap()
    }

    fn lines(config: &Config) -> ConfigLines {
        config.lines(SecretFingerprints::of(config).first())
    }

    // Shows (Commands and configuration): No version shows a secret, but each shows that one has changed.
    #[test]
    fn no_secret_is_in_the_lines_and_each_changed_one_is_seen() {
        let first = config(SECRETS);
        let shown = lines(&first).to_string();
        for secret in ["hunter", "a secret of the gateway", "0123456789abcdef0123456789abcdef"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        assert!(shown.contains("chains.eth.nodes[1].url = \"http://h\""), "{shown}");
        assert!(!shown.contains("chains.btc"), "{shown}");
        for (old, key) in [
            ("hunter2", "database.url"),
            ("hunter3", "chains.eth.nodes[0].url"),
            ("hunter4", "chains.eth.nodes[0].headers"),
            ("hunter5", "chains.eth.nodes[1].password"),
            ("0123456789abcdef0123456789abcdef", "admin.jwt.secret"),
        ] {
            let other = config(&SECRETS.replace(old, "fedcba9876543210fedcba9876543210"));
            let changed = lines(&first).changes(&lines(&other));
            let [change] = &changed[..] else { panic!("{old}: {changed:?}") };
            assert_eq!((change.key.as_str(), change.is_masked()), (key, true));
        }
    }

    #[test]
    fn every_setting_has_a_line_of_its_own() {
        for (key, before, after) in changes() {
            let changed = before.exact_changes(&after);
            let listed = changed.iter().any(|change| {
                let parts: Vec<_> = change.key.split(['.', '[']).collect();
                let expected: Vec<_> = key.split('.').collect();
                parts.len() == expected.len()
                    && parts.iter().zip(&expected).all(|(part, name)| *name == "*" || part == name)
            });
            assert!(listed, "{key}: {:?}", changed.iter().map(|change| &change.key).collect::<Vec<_>>());
            assert!(after.exact_changes(&after).is_empty());
        }
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        let written = lines(&config(SECRETS));
        assert_eq!(ConfigLines::parse(&written.to_string()), Some(written.clone()));
        assert_eq!(ConfigLines::parse("no setting\n"), None);
        assert_eq!(written.get("cache.bytes"), Some("\"256MiB\""));
        assert_eq!(written.filtered(|key| key == "cache.bytes").to_string(), "cache.bytes = \"256MiB\"\n");
    }

    // Shows (Commands and configuration).
    #[test]
    fn a_text_of_an_earlier_version_is_shown_with_todays_masks() {
        let stored = "chains.eth.nodes[0].url = \"https://h/v2/planted/x?a=***-0123456789ab&b=planted\"\n\
                      chains.eth.nodes[0].user = \"planted1\"\nchains.\"a.b\".nodes[10].ws = \"wss://h/***-0123456789ab\"\n\
                      chains.eth.nodes[1].user = \"rpc\"\nchains.eth.nodes[1].url = \"***\"\nadmin.url = \"https://h/v1/x\"\n";
        let shown = "chains.eth.nodes[0].url = \"https://h/v2/***/x?a=***-0123456789ab&b=***\"\n\
                     chains.eth.nodes[0].user = \"***\"\nchains.\"a.b\".nodes[10].ws = \"wss://h/***-0123456789ab\"\n\
                     chains.eth.nodes[1].user = \"rpc\"\nchains.eth.nodes[1].url = \"***\"\nadmin.url = \"https://h/v1/x\"\n";
        let masked = ConfigLines::parse(stored).unwrap().with_masked_nodes();
        assert_eq!(masked.to_string(), shown);
        let now =
            lines(&config("[[chains.eth.nodes]]\nurl = \"https://u:planted@h/v2/planted/?b=planted\"\n"));
        assert_eq!(now.with_masked_nodes(), now, "a text of today is not changed");
    }

    #[test]
    fn the_written_file_is_read_back_once_the_secrets_are_set() {
        let first = config(SECRETS);
        let file = lines(&first).to_toml();
        let again = |text: &str| {
            Config::read(&Input { chains: &["eth", "btc"], file: Some(("f", text)), ..Input::default() })
        };
        let refused = again(&file).unwrap_err().to_string();
        assert_eq!(refused.lines().count(), 6, "{refused}\n{file}");
        assert!(refused.lines().all(|line| line.contains("is masked: ***")), "{refused}");
        assert!(file.contains("secret = \"***\"  # put the secret here (fingerprint "), "{file}");
        let mut whole = file;
        for (location, secret) in [
            ("key_secret = \"***\"", "key_secret = \"a secret of the gateway\""),
            ("\nsecret = \"***\"", "\nsecret = \"0123456789abcdef0123456789abcdef\""),
            ("u:***@h/db", "u:hunter2@h/db"),
            ("?key=***", "?key=hunter3"),
            ("x = \"***\"", "x = \"hunter4\""),
            ("password = \"***\"", "password = \"hunter5\""),
        ] {
            assert!(whole.contains(location), "{location}: {whole}");
            whole = whole.replace(location, secret);
        }
        assert_eq!(again(&whole).unwrap(), first);
        assert_eq!(first.gateway.key_secret, Some(Secret::new("a secret of the gateway")));
    }
}
