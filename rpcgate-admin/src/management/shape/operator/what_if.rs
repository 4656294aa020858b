//! What-if: weights and plans as they might be.

use crate::management::action::operator::what_if::{
    AffectedTenants, AskedPlan, AskedWeight, BeforeAfter, TenantEffect, UsageEffect, WhatIf, WhatIfAnswer,
};
use crate::management::error::ActionError;
use crate::management::shape::figures::FiguresJson;
use crate::management::shape::moment::Moment;
use crate::management::strict_json::{object, objects};
use rpcgate_core::usage::Amount;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A weight as it might be.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AskedWeight)]
pub struct AskedWeightJson {
    /// The chain's path.
    #[schema(example = "eth")]
    pub chain: String,
    /// The method.
    pub method: String,
    /// Compute Units of a call.
    pub cu: u32,
}

/// A plan as it might be.
#[derive(Clone, PartialEq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AskedPlan)]
pub struct AskedPlanJson {
    /// One of the four by its name, or one of one's own by its identifier or its name.
    #[schema(example = "premium")]
    pub plan: String,
    /// For one of the four, the limits that change; for one of one's own, all figures of its own.
    #[serde(deserialize_with = "object")]
    pub figures: FiguresJson,
}

/// Weights and plans as they might be.
#[derive(Clone, PartialEq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WhatIf)]
pub struct WhatIfJson {
    /// The weights, at most 100.
    #[serde(default, deserialize_with = "objects")]
    pub weights: Vec<AskedWeightJson>,
    /// The plans, at most 20.
    #[serde(default, deserialize_with = "objects")]
    pub plans: Vec<AskedPlanJson>,
}

impl WhatIfJson {
    pub(crate) fn question(self) -> Result<WhatIf, ActionError> {
        let weight = |AskedWeightJson { chain, method, cu }| AskedWeight { chain, method, cu };
        let plan = |AskedPlanJson { plan, figures }: AskedPlanJson| {
            Ok::<_, ActionError>(AskedPlan { plan, figures: figures.figures()? })
        };
        Ok(WhatIf {
            weights: self.weights.into_iter().map(weight).collect(),
            plans: self.plans.into_iter().map(plan).collect::<Result<_, _>>()?,
        })
    }
}

/// A count with the weights and plans in force, and with those in question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct CountChange {
    /// With those in force.
    pub before: u64,
    /// With those in question.
    pub after: u64,
}

impl From<BeforeAfter<u64>> for CountChange {
    fn from(BeforeAfter { before, after }: BeforeAfter<u64>) -> Self {
        CountChange { before, after }
    }
}

/// An amount in US dollars, with twelve decimals.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct AmountChange {
    /// With the weights and plans in force.
    #[schema(example = "1.250000000000")]
    pub before: String,
    /// With those in question.
    #[schema(example = "1.500000000000")]
    pub after: String,
}

impl From<BeforeAfter<Amount>> for AmountChange {
    fn from(BeforeAfter { before, after }: BeforeAfter<Amount>) -> Self {
        AmountChange { before: before.to_string(), after: after.to_string() }
    }
}

/// The effect on a tenant, or on several.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = UsageEffect)]
pub struct UsageEffectJson {
    /// What was charged, at the prices of the time, in US dollars with twelve decimals.
    #[schema(example = "1.250000000000")]
    pub charged: String,
    /// Compute Units.
    pub units: CountChange,
    /// The units at the price of the plan, or of a contract.
    pub amount: AmountChange,
    /// Requests that the plan's windows refuse, at the least.
    pub refused: CountChange,
    /// Hours of projects at whose end their quota is used up.
    pub quota_hours: CountChange,
}

impl From<UsageEffect> for UsageEffectJson {
    fn from(effect: UsageEffect) -> Self {
        let UsageEffect { charged, units, amount, refused, quota_hours } = effect;
        UsageEffectJson {
            charged: charged.to_string(),
            units: units.into(),
            amount: amount.into(),
            refused: refused.into(),
            quota_hours: quota_hours.into(),
        }
    }
}

/// The effect on one tenant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = TenantEffect)]
pub struct TenantEffectJson {
    /// The tenant.
    #[schema(format = "uuid")]
    pub tenant_id: String,
    /// Its name.
    pub name: String,
    /// The name of its plan.
    #[schema(example = "premium")]
    pub plan: String,
    /// The effect.
    pub effect: UsageEffectJson,
}

impl From<TenantEffect> for TenantEffectJson {
    fn from(TenantEffect { tenant, name, plan, effect }: TenantEffect) -> Self {
        TenantEffectJson { tenant_id: tenant.to_string(), name, plan, effect: effect.into() }
    }
}

/// How many tenants are affected, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = AffectedTenants)]
pub struct AffectedTenantsJson {
    /// Those that would pay more.
    pub pay_more: u64,
    /// Those that would pay less.
    pub pay_less: u64,
    /// Those to which more requests would be refused.
    pub refused_more: u64,
    /// Those to which fewer requests would be refused.
    pub refused_less: u64,
    /// Those whose quota would be used up for more hours.
    pub quota_more: u64,
    /// Those whose quota would be used up for fewer hours.
    pub quota_less: u64,
}

impl From<AffectedTenants> for AffectedTenantsJson {
    fn from(affected: AffectedTenants) -> Self {
        let AffectedTenants { pay_more, pay_less, refused_more, refused_less, quota_more, quota_less } =
            affected;
        AffectedTenantsJson { pay_more, pay_less, refused_more, refused_less, quota_more, quota_less }
    }
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = WhatIfAnswer)]
pub struct WhatIfAnswerJson {
    /// The beginning of the first of 30 UTC days.
    #[schema(value_type = String, format = DateTime)]
    pub from: Moment,
    /// The end of the usage: that of the current hour.
    #[schema(value_type = String, format = DateTime)]
    pub to: Moment,
    /// The tenants with the largest changes, the largest first: at most 100.
    pub tenants: Vec<TenantEffectJson>,
    /// The number of other tenants with usage.
    pub others: u64,
    /// The effect on them.
    pub of_others: UsageEffectJson,
    /// The effect on all.
    pub total: UsageEffectJson,
    /// How many tenants are affected.
    pub affected: AffectedTenantsJson,
    /// Projects whose quota was not followed, because too many come near it.
    pub unfollowed_projects: u64,
}

impl From<WhatIfAnswer> for WhatIfAnswerJson {
    fn from(answer: WhatIfAnswer) -> Self {
        WhatIfAnswerJson {
            from: answer.from.into(),
            to: answer.to.into(),
            tenants: answer.tenants.into_iter().map(TenantEffectJson::from).collect(),
            others: answer.others,
            of_others: answer.of_others.into(),
            total: answer.total.into(),
            affected: answer.affected.into(),
            unfollowed_projects: answer.unfollowed_projects,
        }
    }
}
