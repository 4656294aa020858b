//! `[tenants.<name>]`: the customers.

use super::fields::{Fields, Table};
use super::toml_text::quote;
use super::value::word;
use rpcgate_core::caller::TenantId;
use rpcgate_core::plan::Tier;

/// `[tenants.<name>]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TenantSettings {
    /// The id; by default derived from the name.
    pub id: TenantId,
    /// The plan.
    pub plan: Tier,
    /// Refuses its calls with 402.
    pub suspended: bool,
}

impl Default for TenantSettings {
    fn default() -> Self {
        TenantSettings { id: TenantId(0), plan: Tier::Free, suspended: false }
    }
}

impl Table for TenantSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("id", &mut self.id);
        f.leaf("plan", &mut self.plan, word, |plan, _| Some(quote(plan.name())));
        f.value("suspended", &mut self.suspended);
    }
}
