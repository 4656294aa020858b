//! JSON shapes of tenants.

use crate::action;
use crate::action::actor::Actor;
use crate::action::plans::PlanNames;
use crate::app_state::AppState;
use crate::error::ActionError;
use crate::shape::moment::Moment;
use rpcgate_core::plan;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The name of a built-in plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Tier)]
pub enum TierJson {
    /// Metered and free of charge.
    Free,
    /// The smallest paid plan.
    Standard,
    /// Larger than standard.
    Premium,
    /// The largest plan.
    Enterprise,
}

impl From<plan::Tier> for TierJson {
    fn from(tier: plan::Tier) -> Self {
        match tier {
            plan::Tier::Free => TierJson::Free,
            plan::Tier::Standard => TierJson::Standard,
            plan::Tier::Premium => TierJson::Premium,
            plan::Tier::Enterprise => TierJson::Enterprise,
        }
    }
}

impl From<TierJson> for plan::Tier {
    fn from(tier: TierJson) -> Self {
        match tier {
            TierJson::Free => plan::Tier::Free,
            TierJson::Standard => plan::Tier::Standard,
            TierJson::Premium => plan::Tier::Premium,
            TierJson::Enterprise => plan::Tier::Enterprise,
        }
    }
}

/// The status of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TenantStatus {
    /// Its calls are served.
    Active,
    /// Its calls are refused with 402. Its keys are kept.
    Suspended,
}

/// An organisation that pays for its usage.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Tenant)]
pub struct TenantJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// Its name.
    pub name: String,
    /// The name of its plan.
    #[schema(example = "standard")]
    pub plan: String,
    /// The built-in plan, or the base of a custom plan.
    pub tier: TierJson,
    /// Its status.
    pub status: TenantStatus,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl TenantJson {
    /// Returns a tenant, with the name of its plan from `names`.
    pub fn of(tenant: rpcgate_store::Tenant, names: &PlanNames) -> Self {
        TenantJson {
            id: tenant.id.to_string(),
            plan: names.of(tenant.plan()).to_owned(),
            name: tenant.name,
            tier: tenant.tier.into(),
            status: if tenant.suspended { TenantStatus::Suspended } else { TenantStatus::Active },
            created_at: tenant.created_at.into(),
        }
    }

    /// Returns a tenant with the name of its plan.
    ///
    /// # Errors
    /// [`ActionError::Unavailable`].
    pub async fn named(app: &AppState, tenant: rpcgate_store::Tenant) -> Result<Self, ActionError> {
        Ok(TenantJson::of(tenant, &PlanNames::read(app).await?))
    }
}

/// A tenant with its details for invoices.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = TenantProfile)]
pub struct TenantProfileJson {
    /// The tenant.
    #[serde(flatten)]
    pub tenant: TenantJson,
    /// Its name on invoices; null if it is the tenant's name.
    pub billing_name: Option<String>,
    /// The lines of its address on invoices.
    pub billing_address: Vec<String>,
    /// Its tax number on invoices, or null.
    pub billing_tax_id: Option<String>,
}

impl TenantProfileJson {
    /// Returns a tenant with its details for invoices.
    pub fn of(tenant: TenantJson, party: rpcgate_store::BillingParty) -> Self {
        let rpcgate_store::BillingParty { name, address, tax_id } = party;
        TenantProfileJson { tenant, billing_name: name, billing_address: address, billing_tax_id: tax_id }
    }

    /// Reads a tenant with what operators see of it.
    pub async fn read(
        app: &AppState,
        actor: &Actor,
        tenant: rpcgate_store::Tenant,
    ) -> Result<Self, ActionError> {
        let party = action::tenants::billing_party(app, actor, tenant.id).await?;
        Ok(TenantProfileJson::of(TenantJson::named(app, tenant).await?, party))
    }
}

/// A change to the caller's tenant. Fields that are absent or null stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantProfileChange {
    /// Its name, at most 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// Its name on invoices, at most 200 characters; an empty text for the tenant's name.
    #[schema(max_length = 200)]
    pub billing_name: Option<String>,
    /// The lines of its address on invoices: at most 10 of at most 200 characters each.
    #[schema(max_items = 10)]
    pub billing_address: Option<Vec<String>>,
    /// Its tax number on invoices, at most 200 characters; an empty text removes it.
    #[schema(max_length = 200)]
    pub billing_tax_id: Option<String>,
}
