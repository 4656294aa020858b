//! JSON shapes of what-if questions: hypothetical weights and plans.

use crate::action::operator::what_if::{
    AffectedTenants, AskedPlan, AskedWeight, BeforeAfter, TenantEffect, UsageEffect, WhatIf, WhatIfAnswer,
};
use crate::error::ActionError;
use crate::shape::figures::FiguresJson;
use crate::shape::moment::Moment;
use crate::strict_json::{object, objects};
use rpcgate_core::usage::Amount;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A hypothetical weight.
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

/// A hypothetical plan.
#[derive(Clone, PartialEq, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AskedPlan)]
pub struct AskedPlanJson {
    /// The name of a built-in plan, or the identifier or the name of a custom plan.
    #[schema(example = "premium")]
    pub plan: String,
    /// For a built-in plan, the limits that change; for a custom plan, all its overrides.
    #[serde(deserialize_with = "object")]
    pub figures: FiguresJson,
}

/// Hypothetical weights and plans.
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
    /// Returns the question that the form asks.
    pub fn question(self) -> Result<WhatIf, ActionError> {
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

/// A count under the current weights and plans, and under the hypothetical ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub struct CountChange {
    /// The count under the current ones.
    pub before: u64,
    /// The count under the hypothetical ones.
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
    /// The amount under the current weights and plans.
    #[schema(example = "1.250000000000")]
    pub before: String,
    /// The amount under the hypothetical ones.
    #[schema(example = "1.500000000000")]
    pub after: String,
}

impl From<BeforeAfter<Amount>> for AmountChange {
    fn from(BeforeAfter { before, after }: BeforeAfter<Amount>) -> Self {
        AmountChange { before: before.to_string(), after: after.to_string() }
    }
}

/// The effect on one or several tenants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = UsageEffect)]
pub struct UsageEffectJson {
    /// The amount charged at the prices of the time, in US dollars with twelve decimals.
    #[schema(example = "1.250000000000")]
    pub charged: String,
    /// Compute Units.
    pub units: CountChange,
    /// The units at the price of the plan or of a contract.
    pub amount: AmountChange,
    /// The minimum number of requests that the plan's windows refuse.
    pub refused: CountChange,
    /// Project hours that end with the quota used up.
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

/// The number of affected tenants, by effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = AffectedTenants)]
pub struct AffectedTenantsJson {
    /// Tenants that would pay more.
    pub pay_more: u64,
    /// Tenants that would pay less.
    pub pay_less: u64,
    /// Tenants with more refused requests.
    pub refused_more: u64,
    /// Tenants with fewer refused requests.
    pub refused_less: u64,
    /// Tenants whose quota would be used up for more hours.
    pub quota_more: u64,
    /// Tenants whose quota would be used up for fewer hours.
    pub quota_less: u64,
}

impl From<AffectedTenants> for AffectedTenantsJson {
    fn from(affected: AffectedTenants) -> Self {
        let AffectedTenants { pay_more, pay_less, refused_more, refused_less, quota_more, quota_less } =
            affected;
        AffectedTenantsJson { pay_more, pay_less, refused_more, refused_less, quota_more, quota_less }
    }
}

/// The answer to a what-if question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = WhatIfAnswer)]
pub struct WhatIfAnswerJson {
    /// The start of the first of 30 UTC days.
    #[schema(value_type = String, format = DateTime)]
    pub from: Moment,
    /// The end of the usage: the end of the current hour.
    #[schema(value_type = String, format = DateTime)]
    pub to: Moment,
    /// The tenants with the largest changes, the largest first: at most 100.
    pub tenants: Vec<TenantEffectJson>,
    /// The number of other tenants with usage.
    pub others: u64,
    /// The effect on the other tenants.
    pub of_others: UsageEffectJson,
    /// The effect on all tenants.
    pub total: UsageEffectJson,
    /// The number of affected tenants, by effect.
    pub affected: AffectedTenantsJson,
    /// Projects whose quota was not followed because too many projects come near their quota.
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
