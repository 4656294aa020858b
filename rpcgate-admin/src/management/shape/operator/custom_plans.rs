//! Plans of operators' own, beside the four.

use crate::management::shape::figures::FiguresJson;
use crate::management::shape::moment::Moment;
use crate::management::shape::tenants::TierJson;
use crate::management::strict_json::{object, optional_object};
use rpcgate_store::CustomPlan;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who sees a plan of an operator's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanVisibility {
    /// All tenants: `GET /plans` lists it.
    Visible,
    /// The tenants that an operator has moved to it.
    ByInvitation,
}

impl From<bool> for PlanVisibility {
    fn from(is_visible: bool) -> Self {
        if is_visible { PlanVisibility::Visible } else { PlanVisibility::ByInvitation }
    }
}

/// A plan of an operator's own.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[schema(as = CustomPlan)]
pub struct CustomPlanJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// Its name.
    #[schema(example = "startup")]
    pub name: String,
    /// The plan whose figures it has where it has none of its own.
    pub base_tier: TierJson,
    /// Who sees it.
    pub visibility: PlanVisibility,
    /// The figures of its own.
    pub figures: FiguresJson,
    /// When it was made.
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
    /// Its name, which no other plan has: lower-case letters, digits and hyphens, of which the first is a letter.
    #[schema(pattern = "^[a-z][a-z0-9-]{0,39}$", example = "startup")]
    pub name: String,
    /// The plan whose figures it has where it has none of its own.
    pub base_tier: TierJson,
    /// Who sees it.
    pub visibility: PlanVisibility,
    /// The figures of its own.
    #[serde(deserialize_with = "object")]
    pub figures: FiguresJson,
}

/// A change to a plan of an operator's own. Fields that are left out stay as they are.
#[derive(Clone, PartialEq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CustomPlanChange)]
pub struct CustomPlanChangeJson {
    /// Its name.
    #[schema(pattern = "^[a-z][a-z0-9-]{0,39}$", example = "startup")]
    pub name: Option<String>,
    /// Who sees it.
    pub visibility: Option<PlanVisibility>,
    /// All figures of its own, which replace the former ones.
    #[serde(default, deserialize_with = "optional_object")]
    pub figures: Option<FiguresJson>,
}
