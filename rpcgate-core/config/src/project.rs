//! `[projects.<name>]`: the units of metering.

use super::fields::{Fields, Table};
use super::method_names::methods;
use super::problem::Problem;
use rpcgate_core::caller::{MethodLists, ProjectId, ProjectQuota};
use rpcgate_core::plan::PlanQuota;

/// The implicit project of keys and tenant of projects. Both exist even if the file does not define them.
pub const DEFAULT_NAME: &str = "default";

/// `[projects.<name>]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ProjectSettings {
    /// The id; by default derived from the name.
    pub id: ProjectId,
    /// The name of its tenant.
    pub tenant: String,
    /// Compute Units in any rolling 24 hours; the plan's if the project sets no limit of the quota.
    pub cu_per_day: Option<u64>,
    /// Recorded, not enforced.
    pub cu_per_month: Option<u64>,
    /// Requests per second; no limit if absent.
    pub rps_limit: Option<u64>,
    /// If not empty, only these methods pass.
    pub allowed_methods: Vec<String>,
    /// These methods never pass.
    pub blocked_methods: Vec<String>,
}

impl Default for ProjectSettings {
    fn default() -> Self {
        ProjectSettings {
            id: ProjectId(0),
            tenant: DEFAULT_NAME.into(),
            cu_per_day: None,
            cu_per_month: None,
            rps_limit: None,
            allowed_methods: Vec::new(),
            blocked_methods: Vec::new(),
        }
    }
}

impl ProjectSettings {
    /// Returns its quota, or `plan` if it sets no limit. Without `cu_per_day`, the plan's applies.
    pub fn quota(&self, plan: PlanQuota) -> ProjectQuota {
        let own = ProjectQuota {
            cu_per_day: self.cu_per_day.unwrap_or(plan.cu_per_day),
            cu_per_month: self.cu_per_month,
            rps_limit: self.rps_limit,
            has_row: self.cu_per_day.is_some() || self.cu_per_month.is_some() || self.rps_limit.is_some(),
        };
        own.or_of_plan(plan)
    }

    /// Returns its method lists.
    pub fn lists(&self) -> MethodLists {
        let set = |names: &[String]| names.iter().map(|name| name.as_bytes().into()).collect();
        MethodLists { allowed: set(&self.allowed_methods), blocked: set(&self.blocked_methods) }
    }
}

impl Table for ProjectSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("id", &mut self.id);
        f.value("tenant", &mut self.tenant);
        f.value("cu_per_day", &mut self.cu_per_day);
        f.value("cu_per_month", &mut self.cu_per_month);
        f.value("rps_limit", &mut self.rps_limit);
        f.value("allowed_methods", &mut self.allowed_methods);
        f.value("blocked_methods", &mut self.blocked_methods);
        methods(f, "allowed_methods", self.allowed_methods.iter(), false);
        methods(f, "blocked_methods", self.blocked_methods.iter(), false);
        some_requests(f, self.rps_limit);
    }
}

pub(super) fn some_requests<F: Fields>(f: &mut F, rps_limit: Option<u64>) {
    if rps_limit == Some(0) {
        f.wrong(&["rps_limit"], |key| Problem::Invalid {
            key,
            why: "must not be 0: leave it out for no bound".into(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_has_a_row_once_anything_is_set_and_is_that_of_the_plan_before() {
        let plan = PlanQuota { cu_per_day: 9, cu_per_month: Some(7), rps_limit: None };
        assert_eq!(ProjectSettings::default().quota(plan), ProjectQuota::of_plan(plan));
        let set = ProjectSettings { rps_limit: Some(5), ..ProjectSettings::default() };
        let own = ProjectQuota { cu_per_day: 9, cu_per_month: None, rps_limit: Some(5), has_row: true };
        assert_eq!(set.quota(plan), own);
    }
}
