//! Versions of configurations: those that programs accepted at a start or a reload, and the settings of operators after
//! each change. A version is never changed; a text that comes back gets a new number.

use super::id::UserId;
use super::keyset::page;
use super::removal::remove;
use super::value::unreadable;
use crate::entity::config_versions::{ActiveModel, Column, Entity, Model};
use crate::{Store, StoreError};
use rpcgate_config::{Config, ConfigLines, SecretFingerprints};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait,
};
use std::fmt;
use std::time::Duration;

/// The number of versions kept of each program: with a reload a day, more than half a year.
const KEPT_OF_PROGRAM: u64 = 200;

/// The number of versions kept of the global settings. A script that sets every weight of every chain makes a thousand,
/// and the state before it must still be there.
const KEPT_OF_SERVICE: u64 = 2_000;

const KEPT_OF_TENANT: u64 = 200;

/// The time that versions are kept, the same as for the audit. The newest version of each program and tenant stays,
/// because it is in force.
const KEPT: Duration = Duration::from_secs(400 * 86_400);

const MAX_RETURNED: u64 = 1_000;

/// The subject of a sequence of versions.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ConfigScope {
    /// The global settings of operators.
    Service,
    /// The agreements of operators with a tenant.
    Tenant(TenantId),
    /// The configuration of a gateway, by its identifier.
    Gateway(String),
    /// The configuration of a process of the management side, by its host and its file.
    Management(String),
}

impl ConfigScope {
    /// Returns the kind of the subject in one word.
    pub const fn source(&self) -> &'static str {
        match self {
            ConfigScope::Service => "settings",
            ConfigScope::Tenant(_) => "tenant",
            ConfigScope::Gateway(_) => "gateway",
            ConfigScope::Management(_) => "management",
        }
    }

    /// Returns the identifier within the kind, or an empty text.
    pub fn location(&self) -> String {
        match self {
            ConfigScope::Service => String::new(),
            ConfigScope::Tenant(tenant) => tenant.to_string(),
            ConfigScope::Gateway(place) | ConfigScope::Management(place) => place.clone(),
        }
    }

    fn read(source: &str, place: &str) -> Option<Self> {
        Some(match source {
            "settings" => ConfigScope::Service,
            "tenant" => ConfigScope::Tenant(place.parse().ok()?),
            "gateway" => ConfigScope::Gateway(place.to_owned()),
            "management" => ConfigScope::Management(place.to_owned()),
            _ => return None,
        })
    }

    const fn retained_versions(&self) -> u64 {
        match self {
            ConfigScope::Service => KEPT_OF_SERVICE,
            ConfigScope::Tenant(_) => KEPT_OF_TENANT,
            ConfigScope::Gateway(_) | ConfigScope::Management(_) => KEPT_OF_PROGRAM,
        }
    }

    /// Reports whether operators make it through the management side, so that it can be rolled back there.
    pub const fn is_of_operators(&self) -> bool {
        matches!(self, ConfigScope::Service | ConfigScope::Tenant(_))
    }

    fn condition(&self) -> Condition {
        Condition::all().add(Column::Source.eq(self.source())).add(Column::Place.eq(self.location()))
    }
}

impl fmt::Display for ConfigScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigScope::Service => f.write_str("settings"),
            other => write!(f, "{} {}", other.source(), other.location()),
        }
    }
}

/// A version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigVersion {
    /// Its number, over all scopes.
    pub number: u64,
    /// The subject.
    pub scope: ConfigScope,
    /// The machine of the program, or empty.
    pub host: String,
    /// The time when it was accepted.
    pub at: Time,
    /// The time when the program last had it.
    pub seen_at: Time,
    /// The operator who made the change.
    pub user: Option<UserId>,
    /// Its origin: an address, the command line with an account, or a file; empty for the first one of a sequence.
    pub who: String,
    /// The settings.
    pub lines: ConfigLines,
    /// The identifier of the key of the secrets' fingerprints, or empty.
    pub fingerprint_key: String,
    /// The version with which the program that has this one was started.
    pub started: Option<u64>,
}

impl TryFrom<Model> for ConfigVersion {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        let invalid = || unreadable("version of a configuration", row.number);
        let scope = ConfigScope::read(&row.source, &row.place).ok_or_else(invalid)?;
        let lines = ConfigLines::parse(&row.text).ok_or_else(invalid)?;
        // Earlier versions of the programs stored some keys in the URLs of nodes.
        let lines = if scope.is_of_operators() { lines } else { lines.with_masked_nodes() };
        Ok(ConfigVersion {
            number: row.number.unsigned_abs(),
            scope,
            at: row.at,
            seen_at: row.seen_at,
            user: row.user_id,
            lines,
            host: row.host,
            who: row.who,
            fingerprint_key: row.fingerprint_key,
            started: row.started.map(i64::unsigned_abs),
        })
    }
}

/// The filter of a list of versions. A version must match all given fields.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfigVersionFilter {
    /// The kind of the subject in one word.
    pub source: Option<String>,
    /// The identifier within the kind.
    pub place: Option<String>,
    /// The machine.
    pub host: Option<String>,
}

/// A configuration that a program has accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcceptedConfig {
    /// The program.
    pub scope: ConfigScope,
    /// Its machine.
    pub host: String,
    /// Its file, on the machine.
    pub who: String,
    /// The settings, with fingerprints for each key that the program has, the preferred key first.
    pub texts: Vec<(String, ConfigLines)>,
    /// True at a start of the program, false at a reload.
    pub is_start: bool,
    /// The time when it was accepted.
    pub at: Time,
}

impl AcceptedConfig {
    /// Creates the record of a configuration that was accepted at `at`.
    pub fn new(
        config: &Config,
        scope: ConfigScope,
        (host, who): (String, String),
        is_start: bool,
        at: Time,
    ) -> Self {
        let with = |one: &SecretFingerprints| (one.id().to_owned(), config.lines(Some(one)));
        let mut texts: Vec<_> = SecretFingerprints::of(config).iter().map(with).collect();
        if texts.is_empty() {
            texts.push((String::new(), config.lines(None)));
        }
        AcceptedConfig { scope, host, who, texts, is_start, at }
    }

    fn text(&self, key: &str) -> (String, String) {
        let found = self.texts.iter().find(|(known, _)| known == key).or_else(|| self.texts.first());
        found.map(|(key, lines)| (key.clone(), lines.to_string())).unwrap_or_default()
    }
}

async fn newest(database: &impl ConnectionTrait, scope: &ConfigScope) -> Result<Option<Model>, StoreError> {
    let newest = Entity::find().filter(scope.condition()).order_by_desc(Column::Number).limit(1);
    Ok(newest.one(database).await?)
}

pub(super) struct NewVersion<'n> {
    pub(super) scope: &'n ConfigScope,
    pub(super) user: Option<UserId>,
    pub(super) who: &'n str,
    pub(super) text: String,
    pub(super) at: Time,
}

impl NewVersion<'_> {
    fn row(self) -> ActiveModel {
        let tenant = match self.scope {
            ConfigScope::Tenant(tenant) => Some(*tenant),
            _ => None,
        };
        ActiveModel {
            number: NotSet,
            source: Set(self.scope.source().into()),
            place: Set(self.scope.location()),
            host: Set(String::new()),
            tenant_id: Set(tenant),
            at: Set(self.at),
            seen_at: Set(self.at),
            user_id: Set(self.user),
            who: Set(self.who.to_owned()),
            text: Set(self.text),
            fingerprint_key: Set(String::new()),
            started: Set(None),
        }
    }
}

pub(super) async fn newest_text(
    transaction: &DatabaseTransaction,
    scope: &ConfigScope,
) -> Result<Option<String>, StoreError> {
    Ok(newest(transaction, scope).await?.map(|row| row.text))
}

pub(super) async fn append(
    transaction: &DatabaseTransaction,
    version: NewVersion<'_>,
) -> Result<(), StoreError> {
    let scope = version.scope;
    Entity::insert(version.row()).exec_without_returning(transaction).await?;
    trim(transaction, scope).await
}

async fn trim(transaction: &DatabaseTransaction, scope: &ConfigScope) -> Result<(), StoreError> {
    let excess = Entity::find()
        .select_only()
        .column(Column::Number)
        .filter(scope.condition())
        .order_by_desc(Column::Number)
        .offset(scope.retained_versions())
        .limit(1);
    let Some(last): Option<i64> = excess.into_tuple().one(transaction).await? else { return Ok(()) };
    let started = newest(transaction, scope).await?.and_then(|row| row.started).unwrap_or_default();
    let old = scope.condition().add(Column::Number.lte(last)).add(Column::Number.ne(started));
    Entity::delete_many().filter(old).exec(transaction).await?;
    Ok(())
}

/// Selects versions that are too old: superseded ones, and all of programs that have been gone for that long.
pub(super) fn are_old(now: Time) -> Condition {
    let then = now.minus(KEPT);
    let newest = Entity::find()
        .select_only()
        .column_as(Column::Number.max(), "newest")
        .group_by(Column::Source)
        .group_by(Column::Place)
        .into_query();
    // The versions with which running programs were started.
    let started = Entity::find()
        .select_only()
        .column(Column::Started)
        .filter(Column::Started.is_not_null())
        .filter(Column::SeenAt.gt(then))
        .into_query();
    let programs = [ConfigScope::Gateway(String::new()), ConfigScope::Management(String::new())];
    let is_gone = Condition::all()
        .add(Column::SeenAt.lte(then))
        .add(Column::Source.is_in(programs.map(|scope| scope.source())));
    let is_followed = Condition::all().add(Column::At.lte(then)).add(Column::Number.not_in_subquery(newest));
    Condition::all()
        .add(Condition::any().add(is_followed).add(is_gone))
        .add(Column::Number.not_in_subquery(started))
}

impl Store {
    /// Stores a configuration that a program has accepted, unless it is unchanged, and returns the number of its
    /// version.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn record_config<'a>(
        &'a self,
        accepted: &'a AcceptedConfig,
        now: Time,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            self.write(async |transaction| {
                let before = newest(transaction, &accepted.scope).await?;
                let key = before.as_ref().map_or("", |row| row.fingerprint_key.as_str());
                let (fingerprint_key, text) = accepted.text(key);
                let same = before.as_ref().filter(|row| row.text == text && row.host == accepted.host);
                let number = match same {
                    Some(row) => row.number,
                    None => {
                        let version = NewVersion {
                            scope: &accepted.scope,
                            user: None,
                            who: &accepted.who,
                            text,
                            at: accepted.at,
                        };
                        let row = ActiveModel {
                            host: Set(accepted.host.clone()),
                            fingerprint_key: Set(fingerprint_key),
                            started: Set(before.as_ref().and_then(|row| row.started)),
                            ..version.row()
                        };
                        Entity::insert(row).exec(transaction).await?.last_insert_id
                    }
                };
                let its = Column::Number.eq(number);
                let mut update = Entity::update_many().col_expr(Column::SeenAt, Expr::value(now)).filter(its);
                if accepted.is_start {
                    update = update.col_expr(Column::Started, Expr::value(Some(number)));
                }
                update.exec(transaction).await?;
                trim(transaction, &accepted.scope).await?;
                Ok(number.unsigned_abs())
            })
            .await
        })
    }

    /// Lists versions that match `filter`, the newest first, starting after `before`: at most `limit`, and at most
    /// 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn config_versions<'a>(
        &'a self,
        filter: &'a ConfigVersionFilter,
        before: Option<u64>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<ConfigVersion>, StoreError>> {
        Box::pin(async move {
            let before = before.map(|before| i64::try_from(before).unwrap_or(i64::MAX));
            let wanted = Condition::all()
                .add_option(filter.source.as_ref().map(|source| Column::Source.eq(source)))
                .add_option(filter.place.as_ref().map(|place| Column::Place.eq(place)))
                .add_option(filter.host.as_ref().map(|host| Column::Host.eq(host)));
            let rows = Entity::find().filter(wanted);
            let mut rows = page(rows, Column::Number, before, limit.min(MAX_RETURNED));
            self.read(async |database| {
                rows.desc().all(database).await?.into_iter().map(ConfigVersion::try_from).collect()
            })
            .await
        })
    }

    /// Returns the version with this number.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn config_version(&self, number: u64) -> BoxFuture<'_, Result<Option<ConfigVersion>, StoreError>> {
        Box::pin(async move {
            let Ok(number) = i64::try_from(number) else { return Ok(None) };
            self.read(async |database| {
                let found = Entity::find_by_id(number).one(database).await?;
                found.map(ConfigVersion::try_from).transpose()
            })
            .await
        })
    }

    /// Returns the newest version of each sequence of this kind, the last changed one first: of `place` alone, or of
    /// all on the machine `host`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub(super) async fn newest_configs(
        &self,
        source: &str,
        place: Option<&str>,
        host: Option<&str>,
    ) -> Result<Vec<ConfigVersion>, StoreError> {
        let newest = Entity::find()
            .select_only()
            .column_as(Column::Number.max(), "newest")
            .filter(Column::Source.eq(source))
            .group_by(Column::Place)
            .into_query();
        let wanted = Condition::all()
            .add(Column::Number.in_subquery(newest))
            .add_option(place.map(|place| Column::Place.eq(place)))
            .add_option(host.map(|host| Column::Host.eq(host)));
        let rows = Entity::find().filter(wanted).order_by_desc(Column::Number).limit(MAX_RETURNED);
        self.read(async |database| {
            rows.all(database).await?.into_iter().map(ConfigVersion::try_from).collect()
        })
        .await
    }

    /// Returns the previous version of the same scope.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn config_version_before(
        &self,
        version: &ConfigVersion,
    ) -> Result<Option<ConfigVersion>, StoreError> {
        let place = Some(version.scope.location());
        let filter = ConfigVersionFilter { source: Some(version.scope.source().into()), place, host: None };
        Ok(self.config_versions(&filter, Some(version.number), 1).await?.pop())
    }
}

pub(super) async fn remove_of_tenant(
    transaction: &DatabaseTransaction,
    tenant: TenantId,
    limit: u64,
) -> Result<u64, StoreError> {
    let its = Condition::all().add(Column::TenantId.eq(tenant));
    remove::<Entity>(transaction, Column::Number, its, limit).await
}
