//! The configuration of both binaries, parsed into typed tables.
//!
//! Each value comes from the last of these sources that sets it: its default, the settings of the demo, the file, the
//! environment (`RPCGATE_GATEWAY__LISTEN`, two underscores between levels), flags. In variables and flags, lists are
//! separated by commas and tables of methods are written `eth_call=15,eth_getLogs=75`. Both replace the previous value,
//! while tables of settings are merged key by key. An empty variable removes an optional value. A secret is a text, `{
//! file = "…" }` or `{ env = "…" }` (as variables: `RPCGATE_GATEWAY__KEY_SECRET__FILE`).
//!
//! This crate opens no file and reads no environment: the binaries pass everything in. Tests compare it with
//! [`docs/rpcgate.example.toml`](https://github.com/rpcgate/rpcgate/blob/main/docs/rpcgate.example.toml), which shows
//! every key with its default.
//!
//! ```
//! use rpcgate_config::{Config, Input};
//!
//! let input = Input { chains: &["eth"], file: Some(("rpcgate.toml", "[gateway]\nlisen = 1\n")), ..Input::default() };
//! let errors = Config::read(&input).unwrap_err();
//! assert_eq!(
//!     errors.to_string(),
//!     "rpcgate.toml:2: unknown key gateway.lisen; the nearest known key is gateway.listen"
//! );
//! ```

mod access_log;
mod account;
mod acme;
mod admin;
mod admin_tls;
mod batching;
mod billing;
mod cache;
mod chain;
mod database;
mod duration;
mod effect;
mod fields;
mod fingerprint;
mod gateway;
mod hedge;
mod ineffective;
mod journal;
mod key;
mod lines;
mod load;
mod mail_server;
mod masking;
mod method_names;
mod moment;
mod nearest;
mod node;
mod otlp;
mod overlay;
mod overload;
mod plans;
mod problem;
mod project;
mod read;
mod reading;
mod retention;
mod safeguard;
mod scalar;
mod secret;
mod shutdown;
mod size;
#[cfg(any(test, feature = "suite"))]
pub mod suite;
mod telemetry;
mod tenant;
#[cfg(test)]
mod tests;
mod toml_text;
mod tree;
mod units;
mod url;
mod value;
mod webhooks;
mod write;
mod ws;

pub use access_log::AccessLogSettings;
pub use account::KnownKey;
pub use acme::{AcmeChallenge, AcmeSettings};
pub use admin::{Admin, ChallengeKind, ChallengeSettings, Jwt, MailSettings, TicketSettings};
pub use admin_tls::{AdminTls, ClientAuth};
pub use batching::BatchingSettings;
pub use billing::{BillingSettings, MonthlyFees, StripeSettings};
pub use cache::CacheSettings;
pub use chain::ChainSettings;
pub use database::{Database, Redis};
pub use effect::{ConfigProgram, ReloadEffect};
pub use fingerprint::SecretFingerprints;
pub use gateway::{GatewaySettings, LimitSettings, Tls};
pub use hedge::HedgeSettings;
pub use ineffective::ConfigWarning;
pub use journal::{JournalSettings, OnFull};
pub use key::KeySettings;
pub use lines::{ChangedSetting, ConfigLines};
pub use load::{LoadError, Sources};
pub use mail_server::{MailEncryption, MailServerUrl, MailTls};
pub use moment::{parse as parse_moment, text as moment_text};
pub use node::{ANY_NETWORK, NodeSettings};
pub use otlp::{OtlpSettings, TraceRatio};
pub use overlay::{Overlay, ScheduledChange};
pub use overload::{OverloadSettings, TierWeights};
pub use plans::Plans;
pub use problem::{ConfigError, ConfigErrors, ConfigLocation, Problem};
pub use project::{DEFAULT_NAME, ProjectSettings};
pub use retention::Retention;
pub use safeguard::SafeguardSettings;
pub use secret::{Secret, secret_of};
pub use shutdown::Shutdown;
pub use telemetry::{LogFormat, Telemetry};
pub use tenant::TenantSettings;
pub use toml_text::{key as toml_key, quote as toml_quote};
pub use url::Url;
pub use webhooks::Webhooks;
pub use ws::WsSettings;

pub use rpcgate_core::plan::{CountsChange, PlanChange, QuotaChange};

use fields::{Fields, Lister, Names, Table};
use reading::Reading;
use std::collections::BTreeMap;
use std::fmt;
use write::Writer;

/// The prefix of all variables that set a key.
pub const PREFIX: &str = "RPCGATE_";

/// Variables that set no key, in lower case without the prefix: the file name, the log filter until the configuration
/// is read, and whether tests require their services.
const RESERVED: [&str; 3] = ["config", "log", "require_services"];

/// Reports whether a variable (in lower case, without the prefix) is one that Kubernetes or container links set for a
/// service named `rpcgate`. No key has these names.
fn is_of_a_service(path: &str) -> bool {
    matches!(path, "port" | "service_host") || path.starts_with("port_") || path.starts_with("service_port")
}

/// A value for one key from another source than the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The source for error messages, such as `--gateway`.
    pub from: String,
    /// The key, such as `gateway.listen`.
    pub path: String,
    /// The value, in the form of a variable.
    pub value: String,
}

impl Setting {
    /// Creates a setting.
    pub fn new(from: impl Into<String>, path: impl Into<String>, value: impl Into<String>) -> Self {
        Setting { from: from.into(), path: path.into(), value: value.into() }
    }
}

/// All input of a configuration.
#[derive(Clone, Copy)]
pub struct Input<'i> {
    /// The known chains, by path.
    pub chains: &'i [&'i str],
    /// Other names for chains in the scope of a key: (alias, path).
    pub aliases: &'i [(&'i str, &'i str)],
    /// The settings of the demo, which the file overrides.
    pub base: &'i [Setting],
    /// The file's name, for error messages, and its text.
    pub file: Option<(&'i str, &'i str)>,
    /// The whole environment. Settings are found by their prefix, secrets by their names.
    pub env: &'i [(String, String)],
    /// The settings from the command line, which override all others.
    pub flags: &'i [Setting],
    /// Reads a file that contains a secret. The error is the reason.
    pub secret_file: &'i dyn Fn(&str) -> Result<String, String>,
}

impl Default for Input<'_> {
    /// Returns an input without chains, settings and secret files.
    fn default() -> Self {
        Input {
            chains: &[],
            aliases: &[],
            base: &[],
            file: None,
            env: &[],
            flags: &[],
            secret_file: &|_| Err("there is no way to read files here".into()),
        }
    }
}

impl fmt::Debug for Input<'_> {
    /// Omits the values, because some are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.map(|(name, _)| name);
        f.debug_struct("Input").field("chains", &self.chains).field("file", &file).finish_non_exhaustive()
    }
}

/// The effective configuration. [`Default`] has no chains.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Config {
    /// `[gateway]`.
    pub gateway: GatewaySettings,
    /// `[admin]`.
    pub admin: Admin,
    /// `[acme]`.
    pub acme: AcmeSettings,
    /// `[database]`.
    pub database: Database,
    /// `[redis]`.
    pub redis: Redis,
    /// `[cache]`.
    pub cache: CacheSettings,
    /// `[journal]`.
    pub journal: JournalSettings,
    /// `[retention]`.
    pub retention: Retention,
    /// `[safeguard]`.
    pub safeguard: SafeguardSettings,
    /// `[webhooks]`.
    pub webhooks: Webhooks,
    /// `[billing]`.
    pub billing: BillingSettings,
    /// `[shutdown]`.
    pub shutdown: Shutdown,
    /// `[telemetry]`.
    pub telemetry: Telemetry,
    /// `[plans]`.
    pub plans: Plans,
    /// `[chains.<path>]`: every known chain, even if the file omits it.
    pub chains: BTreeMap<String, ChainSettings>,
    /// `[tenants.<name>]`.
    pub tenants: BTreeMap<String, TenantSettings>,
    /// `[projects.<name>]`.
    pub projects: BTreeMap<String, ProjectSettings>,
    /// `[keys.<name>]`.
    pub keys: BTreeMap<String, KeySettings>,
}

impl Table for Config {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.table("gateway", &mut self.gateway);
        f.table("admin", &mut self.admin);
        f.table("acme", &mut self.acme);
        f.table("database", &mut self.database);
        f.table("redis", &mut self.redis);
        f.table("cache", &mut self.cache);
        f.table("journal", &mut self.journal);
        f.table("retention", &mut self.retention);
        f.table("safeguard", &mut self.safeguard);
        f.table("webhooks", &mut self.webhooks);
        f.table("billing", &mut self.billing);
        f.table("shutdown", &mut self.shutdown);
        f.table("telemetry", &mut self.telemetry);
        f.table("plans", &mut self.plans);
        f.named("chains", &mut self.chains, Names::Chains);
        f.named("tenants", &mut self.tenants, Names::Own);
        f.named("projects", &mut self.projects, Names::Own);
        f.named("keys", &mut self.keys, Names::Own);
        let users = [("gateway.tls.acme", self.gateway.tls.acme), ("admin.tls.acme", self.admin.tls.acme)];
        for (key, _) in users.into_iter().filter(|(_, is_used)| *is_used && self.acme.domains.is_empty()) {
            let why = "= true needs acme.domains, the names that the certificate is for".into();
            f.wrong(&[key], |key| Problem::Invalid { key, why });
        }
    }
}

impl Config {
    /// Reads and checks all of `input`. Overridden values are not checked.
    pub fn read(input: &Input<'_>) -> Result<Config, ConfigErrors> {
        let mut errors = Vec::new();
        let base = settings(input.base, &mut errors);
        let file = input.file.map(|(name, text)| tree::parse(name, text, &mut errors)).unwrap_or_default();
        let env = variables(input.env, &mut errors);
        let flags = settings(input.flags, &mut errors);
        let mut reading = Reading::new(input.env, input.secret_file, input.chains, errors);
        let mut config = Config::default();
        reading.table(vec![&base, &file, &env, &flags], &mut config);
        let accounts = account::Accounts {
            tenants: &mut config.tenants,
            projects: &mut config.projects,
            keys: &mut config.keys,
        };
        accounts.settle(&mut reading, input.aliases);
        for (path, problem) in chain::shared_hosts(&config.chains) {
            reading.wrong_at(&path, problem);
        }
        if reading.errors.is_empty() { Ok(config) } else { Err(ConfigErrors::new(reading.errors)) }
    }

    /// Returns the configuration as TOML with every effective value. Secrets are `***`, which cannot be read back.
    /// Chains without any setting are omitted.
    pub fn to_toml_masked(&self) -> String {
        let mut writer = Writer::default();
        self.clone().fields(&mut writer);
        writer.text
    }

    /// Returns the keys of the configuration, for an in-memory directory.
    pub fn callers(&self) -> Vec<KnownKey> {
        account::callers(&self.tenants, &self.projects, &self.keys, &self.plans)
    }

    /// Returns the paths of all keys, in printing order. `*` means a name or a list index.
    pub fn known_keys() -> Vec<String> {
        let mut lister = Lister::default();
        Config::default().fields(&mut lister);
        lister.keys
    }
}

impl Input<'_> {
    /// Returns the location that sets `key`, the strongest if there are several; `None` for a default.
    pub fn location(&self, key: &str) -> Option<ConfigLocation> {
        let mut errors = Vec::new();
        let file = self.file.map(|(name, text)| tree::parse(name, text, &mut errors)).unwrap_or_default();
        let env = variables(self.env, &mut errors);
        let layers = [settings(self.flags, &mut errors), env, file, settings(self.base, &mut errors)];
        layers.iter().find_map(|layer| tree::location(layer, key))
    }
}

fn settings(settings: &[Setting], errors: &mut Vec<ConfigError>) -> tree::Table {
    let mut root = tree::Table::new();
    for Setting { from, path, value } in settings {
        let location = ConfigLocation::Flag(from.as_str().into());
        let keys: Vec<&str> = path.split('.').collect();
        if tree::insert(&mut root, &keys, value, &location, true).is_err() {
            errors.push(ConfigError {
                location,
                problem: Problem::UnknownKey { key: path.clone(), nearest: None },
            });
        }
    }
    root
}

fn variables(env: &[(String, String)], errors: &mut Vec<ConfigError>) -> tree::Table {
    let mut root = tree::Table::new();
    for (name, value) in env {
        let Some(path) = name.strip_prefix(PREFIX).map(str::to_lowercase) else {
            continue;
        };
        if RESERVED.contains(&path.as_str()) || is_of_a_service(&path) {
            continue;
        }
        let location = ConfigLocation::Env(name.as_str().into());
        let keys: Vec<&str> = path.split("__").collect();
        if tree::insert(&mut root, &keys, value, &location, false).is_err() {
            errors.push(ConfigError { location, problem: Problem::Duplicate { key: keys.join(".") } });
        }
    }
    root
}
