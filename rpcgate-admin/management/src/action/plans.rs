//! Plans in force.

use super::actor::Actor;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_config::Plans;
use rpcgate_core::caller::CustomPlanId;
use rpcgate_core::plan::{Plan, Tier};
use rpcgate_store::{CustomPlan, TenantPlan};

/// A plan that a caller may see.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedPlan {
    /// The plan, as tenants on it refer to it.
    pub of: TenantPlan,
    /// The name.
    pub name: String,
    /// The figures.
    pub plan: Plan,
    /// The monthly fee in cents.
    pub monthly_fee: u64,
}

/// Returns the four plans in force: the configuration with the settings of operators applied over it.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn in_force(app: &AppState) -> Result<Plans, ActionError> {
    Ok(app.config_in_force().await?.plans)
}

/// Lists the four plans in force, the smallest first, followed by the custom plans that the caller may see, the oldest
/// first: visible ones, and the one that the caller's tenant is on.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn plans(app: &AppState, actor: &Actor) -> Result<Vec<ListedPlan>, ActionError> {
    let config = app.config_in_force().await?;
    let own = match actor.user.tenant {
        Some(tenant) => app.store.tenant(tenant).await?.and_then(|tenant| tenant.custom_plan),
        None => None,
    };
    let fees = &config.billing.fees;
    let four = Tier::ALL.map(|tier| ListedPlan {
        of: tier.into(),
        name: tier.name().to_owned(),
        plan: config.plans.of_tenant(tier),
        monthly_fee: fees.of(tier),
    });
    let listed = |custom: CustomPlan| ListedPlan {
        of: custom.plan(),
        plan: custom.figures.plan(config.plans.of_tenant(custom.base)),
        monthly_fee: custom.figures.plan.monthly_fee.unwrap_or(fees.of(custom.base)),
        name: custom.name,
    };
    let custom = app.store.custom_plans().await?.into_iter();
    let custom = custom.filter(|plan| plan.is_visible || actor.user.is_operator() || Some(plan.id) == own);
    Ok(four.into_iter().chain(custom.map(listed)).collect())
}

/// A plan that a member requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestedPlan {
    /// One of the four.
    Tier(Tier),
    /// A custom plan, by its name or its identifier.
    Custom(String),
}

impl RequestedPlan {
    /// Parses the name of a plan or the identifier of a custom one.
    pub fn of(text: String) -> Self {
        text.parse::<Tier>().map_or(RequestedPlan::Custom(text), RequestedPlan::Tier)
    }

    /// Finds the plan among those that the caller may see.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] about `field`, [`ActionError::Unavailable`].
    pub(super) async fn find(
        &self,
        app: &AppState,
        actor: &Actor,
        field: &'static str,
    ) -> Result<ListedPlan, ActionError> {
        let is_it = |plan: &ListedPlan| match self {
            RequestedPlan::Tier(tier) => plan.of == (*tier).into(),
            RequestedPlan::Custom(text) => {
                let id = text.parse::<CustomPlanId>().ok();
                plan.of.custom.is_some() && (plan.name == *text || (id.is_some() && plan.of.custom == id))
            }
        };
        let found = plans(app, actor).await?.into_iter().find(is_it);
        found.ok_or_else(|| ActionError::named(field, "names no plan that `GET /plans` lists"))
    }
}

/// The names of plans.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanNames(Vec<CustomPlan>);

impl PlanNames {
    /// Reads the current names. A deleted custom plan keeps its name while invoices may need it.
    ///
    /// # Errors
    /// [`ActionError::Unavailable`].
    pub async fn read(app: &AppState) -> Result<Self, ActionError> {
        Ok(PlanNames(app.store.billed_custom_plans().await?))
    }

    /// Returns the name of a plan.
    pub fn of(&self, plan: TenantPlan) -> &str {
        let custom = self.0.iter().find(|custom| Some(custom.id) == plan.custom);
        custom.map_or(plan.tier.name(), |custom| custom.name.as_str())
    }
}
