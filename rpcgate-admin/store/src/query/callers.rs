//! Looks up the caller of a key by its hash.

use super::keys::scope;
use super::quotas::quota;
use super::terms::{self, Terms};
use super::value::names;
use crate::entity::{keys, projects, quotas, tenants};
use crate::{Store, StoreError};
use rpcgate_config::Plans;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::{Caller, CustomPlanId, KeyId, MethodLists, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use rpcgate_core::secret::KeyHash;
use sea_orm::{ColumnTrait, EntityTrait, FromQueryResult, JoinType, QueryFilter, QuerySelect, RelationTrait};

/// A stored key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredKey {
    /// Its caller.
    pub caller: Caller,
    /// The figures that override those of the tenant's tier. The caller's plan and quota include those in force.
    pub terms: Terms,
    /// True if it was revoked. The caller is returned nevertheless, so that the refusal counts on its project.
    pub revoked: bool,
}

#[derive(Debug, FromQueryResult)]
struct Row {
    key: KeyId,
    prefix: String,
    chains: Option<String>,
    expires_at: Option<Time>,
    revoked_at: Option<Time>,
    project: ProjectId,
    allowed_methods: String,
    blocked_methods: String,
    tenant: TenantId,
    tier: Tier,
    suspended: bool,
    custom_plan_id: Option<CustomPlanId>,
    cu_per_day: Option<i64>,
    cu_per_month: Option<i64>,
    rps_limit: Option<i64>,
}

impl Store {
    /// Returns the key stored under `hash`, with its caller on one of `plans` and the figures of its tenant's contracts
    /// at `now`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn caller<'a>(
        &'a self,
        hash: KeyHash,
        plans: &'a Plans,
        now: Time,
    ) -> BoxFuture<'a, Result<Option<StoredKey>, StoreError>> {
        Box::pin(async move {
            let found = self
                .read(async |database| {
                    let found = keys::Entity::find()
                        .select_only()
                        .column_as(keys::Column::Id, "key")
                        .columns([
                            keys::Column::Prefix,
                            keys::Column::Chains,
                            keys::Column::ExpiresAt,
                            keys::Column::RevokedAt,
                        ])
                        .column_as(projects::Column::Id, "project")
                        .columns([projects::Column::AllowedMethods, projects::Column::BlockedMethods])
                        .column_as(tenants::Column::Id, "tenant")
                        .columns([
                            tenants::Column::Tier,
                            tenants::Column::Suspended,
                            tenants::Column::CustomPlanId,
                        ])
                        .columns([
                            quotas::Column::CuPerDay,
                            quotas::Column::CuPerMonth,
                            quotas::Column::RpsLimit,
                        ])
                        .join(JoinType::InnerJoin, keys::Relation::Project.def())
                        .join(JoinType::InnerJoin, projects::Relation::Tenant.def())
                        .join(JoinType::LeftJoin, projects::Relation::Quota.def())
                        .filter(keys::Column::Hash.eq(hash.0.to_vec()))
                        .filter(tenants::Column::DeletedAt.is_null());
                    let Some(row) = found.into_model::<Row>().one(database).await? else { return Ok(None) };
                    let terms = terms::of_tenant_on(database, row.tenant, row.custom_plan_id, now).await?;
                    Ok(Some((row, terms)))
                })
                .await?;
            found.map(|(row, terms)| stored(row, terms, plans, now)).transpose()
        })
    }
}

fn stored(row: Row, terms: Terms, plans: &Plans, now: Time) -> Result<StoredKey, StoreError> {
    let methods = |stored: &str| -> Result<_, StoreError> {
        let names = names("method list", stored)?;
        Ok(names.into_iter().map(|name| name.into_bytes().into_boxed_slice()).collect())
    };
    let figures = row.cu_per_day.map(|cu_per_day| quotas::Model {
        project_id: row.project,
        cu_per_day,
        cu_per_month: row.cu_per_month,
        rps_limit: row.rps_limit,
    });
    let plan = terms.plan(plans.of_tenant(row.tier), now);
    let quota = quota(figures.as_ref(), plan.quota);
    let lists =
        MethodLists { allowed: methods(&row.allowed_methods)?, blocked: methods(&row.blocked_methods)? };
    let caller = Caller::new(row.key, row.project, row.tenant, plan)
        .with_prefix(row.prefix)
        .with_suspended(row.suspended)
        .with_scope(scope(row.chains.as_deref())?)
        .with_lists(lists)
        .with_quota(quota)
        .with_expiry(row.expires_at);
    Ok(StoredKey { caller, terms, revoked: row.revoked_at.is_some() })
}
