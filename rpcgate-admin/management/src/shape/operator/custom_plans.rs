//! JSON shapes of custom plans.

use crate::shape::figures::FiguresJson;
use crate::shape::moment::Moment;
use crate::shape::tenants::TierJson;
use crate::strict_json::{object, optional_object};
use rpcgate_store::CustomPlan;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The visibility of a custom plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanVisibility {
    /// Visible to all tenants: `GET /plans` lists it.
    Visible,
    /// Visible only to the tenants that an operator has moved to it.
    ByInvitation,
}

impl From<bool> for PlanVisibility {
    fn from(is_visible: bool) -> Self {
        if is_visible { PlanVisibility::Visible } else { PlanVisibility::ByInvitation }
    }
}

/// A custom plan.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = CustomPlan)]
pub struct CustomPlanJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// Its name.
    #[schema(example = "startup")]
    pub name: String,
    /// The built-in plan that applies where `figures` overrides nothing.
    pub base_tier: TierJson,
    /// The visibility.
    pub visibility: PlanVisibility,
    /// The values that override those of the built-in plan.
    pub figures: FiguresJson,
    /// The creation time.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
}

impl From<CustomPlan> for CustomPlanJson {
    fn from(plan: CustomPlan) -> Self {
        CustomPlanJson {
            id: plan.id.to_string(),
            name: plan.name,
            base_tier: plan.base.into(),
            visibility: plan.is_visible.into(),
            figures: plan.figures.into(),
            created_at: plan.created_at.into(),
        }
    }
}

/// The properties of a new plan.
#[derive(Clone, PartialEq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewCustomPlan)]
pub struct NewCustomPlanJson {
    /// Its name, unique among all plans: lower-case letters, digits and hyphens, starting with a letter.
    #[schema(pattern = "^[a-z][a-z0-9-]{0,39}$", example = "startup")]
    pub name: String,
    /// The built-in plan that applies where `figures` overrides nothing.
    pub base_tier: TierJson,
    /// The visibility.
    pub visibility: PlanVisibility,
    /// The values that override those of the built-in plan.
    #[serde(deserialize_with = "object")]
    pub figures: FiguresJson,
}

/// A change to a custom plan. Fields that are left out stay as they are.
#[derive(Clone, PartialEq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CustomPlanChange)]
pub struct CustomPlanChangeJson {
    /// Its name.
    #[schema(pattern = "^[a-z][a-z0-9-]{0,39}$", example = "startup")]
    pub name: Option<String>,
    /// The visibility.
    pub visibility: Option<PlanVisibility>,
    /// The overrides, which replace all previous ones.
    #[serde(default, deserialize_with = "optional_object")]
    pub figures: Option<FiguresJson>,
}
