//! JSON shapes of versions of configurations and of operators' settings.

use crate::action::operator::config_versions::{ListedVersion, VersionChanges};
use crate::shape::moment::Moment;
use rpcgate_config::ChangedSetting;
use serde::Serialize;
use utoipa::ToSchema;

/// The maximum number of changed settings that a list entry names.
pub(crate) const MAX_NAMED: usize = 20;

/// A version of a configuration or of operators' settings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = ConfigVersion)]
pub struct ConfigVersionJson {
    /// Its number.
    pub number: u64,
    /// The time at which it was accepted.
    #[schema(value_type = String, format = "date-time")]
    pub at: Moment,
    /// The subject: the operators' global `settings`, the agreements with a `tenant`, or the configuration of a
    /// `gateway` or of the `management` side.
    #[schema(example = "settings")]
    pub source: String,
    /// The tenant, the gateway, or the file of the management side; or empty.
    pub place: String,
    /// The host of the program, or empty.
    pub host: String,
    /// The author: an operator and the address, the account at a command line, or the file of a program.
    pub who: String,
    /// The operator who made it, if any.
    #[schema(format = "uuid")]
    pub user_id: Option<String>,
    /// The number of settings that differ from the previous version; null for the oldest stored version.
    pub changes: Option<u64>,
    /// The first 20 of these settings.
    pub changed: Vec<String>,
}

impl From<ListedVersion> for ConfigVersionJson {
    fn from(listed: ListedVersion) -> Self {
        let who = listed.who();
        let ListedVersion { version, changes, .. } = listed;
        let settings = changes.as_ref().map(|changes| changes.settings.as_slice());
        let named = settings.unwrap_or_default().iter().take(MAX_NAMED);
        ConfigVersionJson {
            number: version.number,
            at: version.at.into(),
            source: version.scope.source().into(),
            place: version.scope.location(),
            host: version.host,
            who,
            user_id: version.user.map(|id| id.to_string()),
            changes: settings.map(|settings| settings.len() as u64),
            changed: named.map(|change| change.key.clone()).collect(),
        }
    }
}

/// A setting that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = ChangedSetting)]
pub struct ChangedSettingJson {
    /// Its key.
    #[schema(example = "plans.free.per_minute")]
    pub key: String,
    /// The previous value, as written; null if it was not set.
    pub before: Option<String>,
    /// The new value; null if it is no longer set.
    pub after: Option<String>,
}

impl From<ChangedSetting> for ChangedSettingJson {
    fn from(change: ChangedSetting) -> Self {
        let ChangedSetting { key, before, after } = change;
        ChangedSettingJson { key, before, after }
    }
}

/// The differences between two versions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = ConfigChanges)]
pub struct ConfigChangesJson {
    /// The settings that differ.
    pub changes: Vec<ChangedSettingJson>,
    /// The number of secrets that cannot be compared because their fingerprints were made with different keys.
    pub unknown: u64,
}

impl From<VersionChanges> for ConfigChangesJson {
    fn from(changes: VersionChanges) -> Self {
        let VersionChanges { settings, unknown } = changes;
        ConfigChangesJson {
            changes: settings.into_iter().map(ChangedSettingJson::from).collect(),
            unknown: unknown as u64,
        }
    }
}

/// A version with all its settings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = WholeConfigVersion)]
pub struct WholeVersionJson {
    /// The version.
    #[serde(flatten)]
    pub version: ConfigVersionJson,
    /// Its settings, one per line. Secrets are replaced by `***` and a fingerprint.
    #[schema(example = "plans.free.per_minute = 20\n")]
    pub text: String,
}

impl From<ListedVersion> for WholeVersionJson {
    fn from(listed: ListedVersion) -> Self {
        let text = listed.version.lines.to_string();
        WholeVersionJson { version: listed.into(), text }
    }
}
