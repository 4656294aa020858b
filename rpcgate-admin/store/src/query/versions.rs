//! Versions of objects that several people change, so that no user unknowingly overwrites a colleague's change.

use super::id::{ContractId, UserId, WebhookId};
use super::live_tenants::live_tenants;
use super::scheduled_changes;
use crate::entity::{
    chain_switches, contracts, custom_plans, plans, projects, quotas, tenants, users, webhooks, weights,
};
use crate::{Store, StoreError};
use rpcgate_core::caller::{CustomPlanId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use rpcgate_core::secret::KeyHash;
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder};
use std::collections::BTreeMap;
use std::fmt;

/// An object that several people change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Versioned {
    /// A tenant.
    Tenant(TenantId),
    /// A member of a tenant.
    Member(TenantId, UserId),
    /// The profile of a user: its name.
    Profile(UserId),
    /// A project of a tenant.
    Project(TenantId, ProjectId),
    /// A webhook endpoint of a tenant.
    Webhook(TenantId, WebhookId),
    /// The quota of a project.
    Quota(ProjectId),
    /// A contract with a tenant.
    Contract(TenantId, ContractId),
    /// A custom plan.
    CustomPlan(CustomPlanId),
    /// The limits of a plan that operators set, at this time.
    Plan(Tier, Time),
    /// The operators' weight of a chain's method.
    Weight(String, String),
    /// All operators' weights of a chain's methods.
    Weights(String),
    /// The switch of a chain, by its path.
    Chain(String),
}

/// A version, derived from the contents: it changes with them, and an object that is changed back has its former
/// version again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version(pub [u8; 16]);

impl Version {
    fn of(fields: &impl fmt::Debug) -> Self {
        let mut version = [0; 16];
        version.copy_from_slice(&KeyHash::of(&format!("{fields:?}")).0[..16]);
        Version(version)
    }

    /// Returns the version of the profile of a user with this name.
    pub fn of_profile(user: UserId, name: &str) -> Self {
        Version::of(&(user, name))
    }

    /// Returns the version of a member, which a new password does not change.
    fn of_member(row: &users::Model) -> Self {
        Version::of(&(row.id, row.tenant_id, &row.email, &row.name, &row.role, row.confirmed_at))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({})", hex::encode(self.0))
    }
}

/// The condition of a write: the version must be one of these.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The object.
    pub of: Versioned,
    /// The accepted versions.
    pub versions: Vec<Version>,
}

/// Returns the current version, or `None` for an object that does not exist. A quota, a plan, a weight or a switch
/// always exists, with the default if it was never set.
async fn current(database: &impl ConnectionTrait, of: &Versioned) -> Result<Option<Version>, StoreError> {
    Ok(match of {
        Versioned::Tenant(id) => {
            let row = live_tenants().filter(tenants::Column::Id.eq(*id)).one(database).await?;
            row.map(|row| Version::of(&row))
        }
        Versioned::Member(tenant, id) => {
            let row = users::Entity::find_by_id(*id).filter(users::Column::TenantId.eq(*tenant));
            row.one(database).await?.map(|row| Version::of_member(&row))
        }
        Versioned::Profile(id) => {
            let row = users::Entity::find_by_id(*id).one(database).await?;
            row.map(|row| Version::of_profile(*id, &row.name))
        }
        Versioned::Project(tenant, id) => {
            let row = super::projects::live()
                .filter(projects::Column::Id.eq(*id))
                .filter(projects::Column::TenantId.eq(*tenant));
            row.one(database).await?.map(|row| Version::of(&row))
        }
        Versioned::Webhook(tenant, id) => {
            let row = super::webhooks::of_tenant(*tenant).filter(webhooks::Column::Id.eq(*id));
            // Excludes the columns that deliveries change.
            row.one(database).await?.map(|row| {
                let secrets = (row.secret, row.next_secret, row.next_secret_at);
                Version::of(&(row.id, row.url, row.active, row.standard_headers, secrets))
            })
        }
        Versioned::Quota(id) => Some(Version::of(&quotas::Entity::find_by_id(*id).one(database).await?)),
        Versioned::Contract(tenant, id) => {
            let row = contracts::Entity::find_by_id(*id).filter(contracts::Column::TenantId.eq(*tenant));
            row.one(database).await?.map(|row| Version::of(&row))
        }
        Versioned::CustomPlan(id) => {
            let row = custom_plans::Entity::find_by_id(*id).filter(custom_plans::Column::DeletedAt.is_null());
            row.one(database).await?.map(|row| Version::of(&row))
        }
        Versioned::Plan(tier, now) => {
            let row = plans::Entity::find_by_id(*tier).one(database).await?;
            Some(match scheduled_changes::rows(database, *tier).await? {
                none if none.is_empty() => Version::of(&row),
                scheduled => {
                    // A scheduled change counts from its time on, even before it is settled.
                    let due = scheduled.iter().filter(|change| change.effective_at <= *now).count();
                    Version::of(&(row, scheduled, due))
                }
            })
        }
        Versioned::Weight(chain, method) => {
            let row = weights::Entity::find_by_id((chain.clone(), method.clone())).one(database).await?;
            Some(Version::of(&row))
        }
        Versioned::Weights(chain) => {
            let set = weights::Entity::find().filter(weights::Column::Chain.eq(chain));
            Some(Version::of(&set.order_by_asc(weights::Column::Method).all(database).await?))
        }
        Versioned::Chain(chain) => {
            Some(Version::of(&chain_switches::Entity::find_by_id(chain.clone()).one(database).await?))
        }
    })
}

/// Checks the condition of a write in its own transaction. An object that does not exist is left to the write, which
/// reports it.
pub(crate) async fn check(transaction: &DatabaseTransaction, expected: &Expected) -> Result<(), StoreError> {
    match current(transaction, &expected.of).await? {
        Some(version) if !expected.versions.contains(&version) => Err(StoreError::Changed),
        _ => Ok(()),
    }
}

impl Store {
    /// Returns this store, but each of its writes is refused with [`StoreError::Changed`] unless `expected` holds.
    pub fn expecting(&self, expected: Expected) -> Store {
        Store { expected: Some(expected.into()), ..self.clone() }
    }

    /// Returns the current version, or `None` for an object that does not exist.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn version(&self, of: &Versioned) -> Result<Option<Version>, StoreError> {
        self.read(async |database| current(database, of).await).await
    }

    /// Returns the versions of all members of a tenant, in one query.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn member_versions(&self, tenant: TenantId) -> Result<BTreeMap<UserId, Version>, StoreError> {
        self.read(async |database| {
            let its = users::Entity::find().filter(users::Column::TenantId.eq(tenant));
            let rows = its.all(database).await?;
            Ok(rows.iter().map(|row| (row.id, Version::of_member(row))).collect())
        })
        .await
    }

    /// Returns the versions of the quotas of all projects of a tenant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn quota_versions(&self, tenant: TenantId) -> Result<BTreeMap<ProjectId, Version>, StoreError> {
        self.read(async |database| {
            let its = super::projects::live()
                .filter(projects::Column::TenantId.eq(tenant))
                .find_also_related(quotas::Entity);
            let rows = its.all(database).await?;
            let version = |(project, quota): (projects::Model, Option<quotas::Model>)| {
                (project.id, Version::of(&quota))
            };
            Ok(rows.into_iter().map(version).collect())
        })
        .await
    }
}
