//! Versions of configurations and of operators' settings, with the changes in each.

use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_config::{ChangedSetting, ConfigLines};
use rpcgate_store::{ConfigScope, ConfigVersion, ConfigVersionFilter, UserId};
use std::collections::BTreeMap;

/// The lines of a version or of a file, for comparison with others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ComparableLines {
    /// The settings.
    pub lines: ConfigLines,
    /// The identifier of the key of the secrets' fingerprints, or an empty text.
    pub fingerprint_key: String,
}

impl From<&ConfigVersion> for ComparableLines {
    fn from(version: &ConfigVersion) -> Self {
        let lines = version.lines.clone();
        let fingerprint_key = version.fingerprint_key.clone();
        ComparableLines { lines, fingerprint_key }
    }
}

/// The differences of two texts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VersionChanges {
    /// The settings that differ, by key.
    pub settings: Vec<ChangedSetting>,
    /// The number of secrets that cannot be compared, because their fingerprints were made with different keys.
    pub unknown: usize,
}

impl VersionChanges {
    /// Compares two texts.
    pub fn between(before: &ComparableLines, after: &ComparableLines) -> Self {
        let has_one_key = before.fingerprint_key == after.fingerprint_key;
        let is_known =
            |change: &ChangedSetting| !change.is_masked() || (has_one_key && change.has_fingerprints());
        let (settings, unknown): (Vec<_>, Vec<_>) =
            before.lines.changes(&after.lines).into_iter().partition(is_known);
        VersionChanges { settings, unknown: unknown.len() }
    }

    /// Reports whether there is no known difference.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }
}

/// A version and its changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedVersion {
    /// The version.
    pub version: ConfigVersion,
    /// The name of the operator who made it, if known.
    pub user: Option<String>,
    /// The differences from the preceding version; `None` for the first stored version.
    pub changes: Option<VersionChanges>,
}

impl ListedVersion {
    /// Returns the author's displayed name.
    pub fn who(&self) -> String {
        match (&self.user, self.version.who.as_str()) {
            (Some(user), "") => user.clone(),
            (Some(user), who) => format!("{user} ({who})"),
            (None, "") => "as it was before the first change".into(),
            (None, who) => who.to_owned(),
        }
    }
}

async fn names(app: &AppState, versions: &[ConfigVersion]) -> Result<BTreeMap<UserId, String>, ActionError> {
    let mut ids: Vec<UserId> = versions.iter().filter_map(|version| version.user).collect();
    ids.sort_unstable();
    ids.dedup();
    Ok(app.store.user_names(&ids).await?)
}

/// Lists at most `limit` versions that match `filter`, the newest first, before the number `before`.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn list(
    app: &AppState,
    filter: &ConfigVersionFilter,
    before: Option<u64>,
    limit: u64,
) -> Result<Vec<ListedVersion>, ActionError> {
    let versions = app.store.config_versions(filter, before, limit).await?;
    let names = names(app, &versions).await?;
    let mut listed = Vec::with_capacity(versions.len());
    for (index, version) in versions.iter().enumerate() {
        let older = versions.iter().skip(index + 1).find(|older| older.scope == version.scope);
        let former = match older {
            Some(older) => Some(older.clone()),
            None => app.store.config_version_before(version).await?,
        };
        let changes = former.map(|former| VersionChanges::between(&(&former).into(), &version.into()));
        let user = version.user.and_then(|id| names.get(&id).cloned());
        listed.push(ListedVersion { version: version.clone(), user, changes });
    }
    Ok(listed)
}

/// Returns the version with this number, and its changes.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Unavailable`].
pub async fn get(app: &AppState, number: u64) -> Result<ListedVersion, ActionError> {
    let version = app.store.config_version(number).await?.ok_or(ActionError::NotFound("version"))?;
    let former = app.store.config_version_before(&version).await?;
    let changes = former.map(|former| VersionChanges::between(&(&former).into(), &(&version).into()));
    let mut names = names(app, std::slice::from_ref(&version)).await?;
    let user = version.user.and_then(|id| names.remove(&id));
    Ok(ListedVersion { version, user, changes })
}

/// Returns a version of operators' settings, and the changes that a rollback to it would make now.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Conflict`] for the configuration of a program,
/// [`ActionError::Unavailable`].
pub async fn from_running(
    app: &AppState,
    number: u64,
) -> Result<(ListedVersion, VersionChanges), ActionError> {
    let listed = get(app, number).await?;
    let lines = match listed.version.scope {
        ConfigScope::Service => app.store.service_settings().await?.lines(),
        ConfigScope::Tenant(tenant) => app.store.tenant_agreements(tenant, app.now()).await?.lines(),
        ConfigScope::Gateway(_) | ConfigScope::Management(_) => {
            return Err(ActionError::Conflict(
                "this is the configuration of a program, which only its host can change",
            ));
        }
    };
    let running = ComparableLines { lines, fingerprint_key: String::new() };
    let changes = VersionChanges::between(&running, &(&listed.version).into());
    Ok((listed, changes))
}

/// Returns the changes from one version to another.
///
/// # Errors
/// [`ActionError::NotFound`], [`ActionError::Invalid`] for versions of different things, [`ActionError::Unavailable`].
pub async fn compare(app: &AppState, from: u64, to: u64) -> Result<VersionChanges, ActionError> {
    let find = async |number| app.store.config_version(number).await?.ok_or(ActionError::NotFound("version"));
    let from = find(from).await?;
    let to = find(to).await?;
    expect_comparable(&from, &to)?;
    Ok(VersionChanges::between(&(&from).into(), &(&to).into()))
}

/// Checks that two versions have the same kind of settings: those of two gateways have, those of a gateway and a tenant
/// have not.
///
/// # Errors
/// [`ActionError::Invalid`].
pub fn expect_comparable(from: &ConfigVersion, to: &ConfigVersion) -> Result<(), ActionError> {
    let is_file = |version: &ConfigVersion| !version.scope.is_of_operators();
    if from.scope.source() == to.scope.source() || (is_file(from) && is_file(to)) {
        return Ok(());
    }
    let number = from.number;
    let scope = &from.scope;
    let other = to.number;
    let another = &to.scope;
    Err(ActionError::invalid(format!(
        "version {number} is about {scope}, and version {other} about {another}: these cannot be compared"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::actor::Actor;
    use crate::action::operator::weights;
    use crate::testing::{NOON, Site};
    use rpcgate_config::Secret;
    use rpcgate_process::LocalAccount;
    use rpcgate_store::AcceptedConfig;

    #[tokio::test]
    async fn a_change_shows_its_author_and_the_previous_value() {
        let site = Site::new().await;
        let actor = Actor::at_command_line(LocalAccount::current(), None, NOON);
        weights::put(&site.app, &actor, "eth", "eth_call", 30).await.unwrap();
        weights::put(&site.app, &actor, "eth", "eth_call", 30).await.unwrap();
        weights::put(&site.app, &actor, "eth", "eth_call", 40).await.unwrap();
        let all = list(&site.app, &ConfigVersionFilter::default(), None, 9).await.unwrap();
        let changes: Vec<_> = all
            .iter()
            .map(|one| one.changes.as_ref().map(|changes| changes.settings[0].to_string()))
            .collect();
        let expected = ["weights.eth.eth_call: 30 -> 40", "weights.eth.eth_call: not set -> 30"];
        assert_eq!(changes, [Some(expected[0].into()), Some(expected[1].into()), None]);
        assert!(all[0].who().starts_with("command line ("), "{}", all[0].who());
        assert_eq!(all[2].who(), "as it was before the first change");
        let first = all[2].version.number;
        let last = all[0].version.number;
        let compared = compare(&site.app, first, last).await.unwrap();
        assert_eq!(compared.settings[0].to_string(), "weights.eth.eth_call: not set -> 40");
        assert!(matches!(get(&site.app, 999).await, Err(ActionError::NotFound("version"))));
    }

    #[tokio::test]
    async fn secrets_are_compared_only_if_their_fingerprints_have_one_key() {
        let site = Site::new().await;
        let accept = async |secret: &str, jwt: &str| {
            let mut config = site.app.settings.config.clone();
            config.gateway.key_secret = Some(Secret::new(secret));
            config.admin.jwt.secret = Some(Secret::new(jwt));
            let scope = ConfigScope::Management("a".into());
            let accepted = AcceptedConfig::new(&config, scope, ("a".into(), "a".into()), false, NOON);
            site.app.store.record_config(&accepted, NOON).await.unwrap()
        };
        let first = accept("one secret of keys", "one secret of thirty-two bytes or so").await;
        let second = accept("one secret of keys", "two secret of thirty-two bytes or so").await;
        let third = accept("two secrets of keys", "two secret of thirty-two bytes or so").await;
        let changes = compare(&site.app, first, second).await.unwrap();
        let keys: Vec<_> = changes.settings.iter().map(|change| change.key.as_str()).collect();
        assert_eq!((keys, changes.unknown), (vec!["admin.jwt.secret"], 0));
        let changes = compare(&site.app, second, third).await.unwrap();
        assert!(changes.is_empty() && changes.unknown >= 2, "{changes:?}");
    }

    #[tokio::test]
    async fn versions_about_different_things_are_not_compared() {
        let site = Site::new().await;
        let actor = Actor::at_command_line(LocalAccount::current(), None, NOON);
        weights::put(&site.app, &actor, "eth", "eth_call", 30).await.unwrap();
        let accepted = AcceptedConfig::new(
            &site.app.settings.config,
            ConfigScope::Management("a".into()),
            ("a".into(), "a".into()),
            true,
            NOON,
        );
        let number = site.app.store.record_config(&accepted, NOON).await.unwrap();
        let refused = compare(&site.app, 1, number).await.unwrap_err().to_string();
        assert!(refused.contains("version 1 is about settings, and version"), "{refused}");
    }
}
