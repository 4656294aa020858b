//! The effects of a reload: the single list of settings that need a restart.

use super::Config;
use super::lines::ChangedSetting;
use ReloadEffect::{Live, Restart, Unused};

/// A program that reads the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConfigProgram {
    /// `rpcgate-server`.
    Gateway,
    /// `rpcgate-admin`.
    Management,
}

/// The effect of a reload on a changed setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReloadEffect {
    /// The program applies it.
    Live,
    /// The program keeps the old value until a restart.
    Restart,
    /// The program does not use it.
    Unused,
}

/// The keys, and what the gateway and the management side do with a change. The longest key with which a setting begins
/// decides. `docs/configuring.md` has the same table.
const EFFECTS: &[(&str, ReloadEffect, ReloadEffect)] = &[
    ("gateway", Restart, Unused),
    ("gateway.tls", Live, Unused),
    ("gateway.tls.acme", Restart, Unused),
    ("gateway.tls.grpc_only", Restart, Unused),
    ("gateway.key_secret", Live, Live),
    ("gateway.former_key_secrets", Live, Live),
    ("gateway.trusted_proxies", Unused, Live),
    ("admin", Unused, Live),
    ("admin.listen", Unused, Restart),
    ("admin.tls", Unused, Live),
    ("admin.tls.acme", Unused, Restart),
    ("admin.proxy_protocol", Unused, Restart),
    ("acme", Restart, Restart),
    ("database", Restart, Restart),
    ("telemetry", Restart, Restart),
    ("redis", Restart, Unused),
    ("cache", Restart, Unused),
    ("journal", Restart, Unused),
    ("retention", Live, Unused),
    ("safeguard", Live, Unused),
    ("tenants", Live, Unused),
    ("projects", Live, Unused),
    ("keys", Live, Unused),
    ("plans", Live, Live),
    ("plans.batch_counts", Restart, Unused),
    ("chains", Live, Live),
    ("shutdown", Live, Restart),
    ("billing", Unused, Live),
    ("webhooks", Unused, Live),
];

/// The certificate files, which may be replaced by others, but not added or removed.
const CERTIFICATES: [&str; 4] = ["gateway.tls.cert", "gateway.tls.key", "admin.tls.cert", "admin.tls.key"];

impl ConfigProgram {
    /// Returns the name of the binary.
    pub const fn name(self) -> &'static str {
        match self {
            ConfigProgram::Gateway => "rpcgate-server",
            ConfigProgram::Management => "rpcgate-admin",
        }
    }

    fn row(self, change: &ChangedSetting) -> (&'static str, ReloadEffect) {
        let begins = |name: &str| {
            let rest = change.key.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let rows = EFFECTS.iter().filter(|(name, ..)| begins(name));
        // A key of a later version, read from a stored text, counts as unused.
        let Some((name, gateway, management)) = rows.max_by_key(|(name, ..)| name.len()) else {
            return ("", Unused);
        };
        let effect = match self {
            ConfigProgram::Gateway => *gateway,
            ConfigProgram::Management => *management,
        };
        let is_first_or_last = change.before.is_none() || change.after.is_none();
        match effect {
            Live if is_first_or_last && CERTIFICATES.contains(&change.key.as_str()) => (*name, Restart),
            effect => (*name, effect),
        }
    }

    /// Returns the effect of a reload of this program on a change.
    ///
    /// ```
    /// use rpcgate_config::{ChangedSetting, ConfigProgram, ReloadEffect};
    ///
    /// let change = ChangedSetting {
    ///     key: "gateway.listen".into(),
    ///     before: Some("\"127.0.0.1:8080\"".into()),
    ///     after: Some("\"0.0.0.0:8080\"".into()),
    /// };
    /// assert_eq!(ConfigProgram::Gateway.effect(&change), ReloadEffect::Restart);
    /// assert_eq!(ConfigProgram::Management.effect(&change), ReloadEffect::Unused);
    /// ```
    pub fn effect(self, change: &ChangedSetting) -> ReloadEffect {
        self.row(change).1
    }

    /// Reports whether this program keeps the old value of a changed setting until a restart.
    pub fn keeps(self, key: &str) -> bool {
        let value = || Some(String::new());
        self.effect(&ChangedSetting { key: key.to_owned(), before: value(), after: value() }) == Restart
    }

    /// Returns the listed keys whose change from `old` to `new` requires a restart of this program.
    pub fn needs_restart(self, old: &Config, new: &Config) -> Vec<&'static str> {
        let changes = old.exact_changes(new);
        let rows: Vec<_> = changes.iter().map(|change| self.row(change)).collect();
        let differs = |name: &&'static str| rows.contains(&(*name, Restart));
        EFFECTS.iter().map(|(name, ..)| *name).filter(differs).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Commands and configuration).
    #[test]
    fn every_known_key_is_in_the_list() {
        for key in Config::known_keys() {
            let key = key.replace(".*", "");
            let change = ChangedSetting { key, before: None, after: None };
            assert_ne!(ConfigProgram::Gateway.row(&change).0, "", "{}", change.key);
        }
    }

    #[test]
    fn adding_or_removing_the_only_certificate_needs_a_restart_and_other_files_do_not() {
        let none = Config::default();
        let with = |cert: &str, key: &str| {
            let mut config = Config::default();
            (config.gateway.tls.cert, config.gateway.tls.key) = (Some(cert.into()), Some(key.into()));
            config
        };
        let some = with("a", "b");
        let other = with("c", "d");
        let needs = |old, new| ConfigProgram::Gateway.needs_restart(old, new);
        assert_eq!((needs(&none, &some), needs(&some, &none)), (vec!["gateway.tls"], vec!["gateway.tls"]));
        assert!(needs(&some, &other).is_empty());
        let with = |cert: &str, key: &str| {
            let mut config = Config::default();
            (config.admin.tls.cert, config.admin.tls.key) = (Some(cert.into()), Some(key.into()));
            config
        };
        let some = with("a", "b");
        let mut other = with("c", "d");
        other.admin.tls.client_ca = Some("e".into());
        let needs = |old, new| ConfigProgram::Management.needs_restart(old, new);
        assert_eq!((needs(&none, &some), needs(&some, &none)), (vec!["admin.tls"], vec!["admin.tls"]));
        assert!(needs(&some, &other).is_empty());
    }

    #[test]
    fn the_longest_key_decides_and_a_shared_prefix_does_not() {
        assert!(ConfigProgram::Gateway.keeps("gateway.listen"));
        assert!(!ConfigProgram::Gateway.keeps("gateway.key_secret"));
        assert!(!ConfigProgram::Gateway.keeps("chains.eth.nodes[0].url"));
        assert!(!ConfigProgram::Gateway.keeps("gateways.listen"));
        assert!(ConfigProgram::Management.keeps("admin.listen"));
        assert!(!ConfigProgram::Management.keeps("admin.listener"));
    }
}
