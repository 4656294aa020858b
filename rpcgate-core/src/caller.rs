//! The caller: a key, its project, its tenant, and all other inputs of the layers' decisions.

use crate::chain::ChainName;
use crate::clock::Time;
use crate::plan::{Plan, PlanQuota};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                uuid(self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                uuid(self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = NotUuid;

            fn from_str(s: &str) -> Result<Self, NotUuid> {
                parse_uuid(s).map(Self)
            }
        }
    };
}

id! {
    /// The id of an API key, a UUID. It is not the key.
    KeyId
}
id! {
    /// The id of a project, a UUID.
    ProjectId
}
id! {
    /// The id of a tenant (an organisation), a UUID.
    TenantId
}
id! {
    /// The id of an operator's custom plan, a UUID.
    CustomPlanId
}
id! {
    /// The id of a request, a UUID of version 7: the value of `x-request-id`.
    RequestId
}

pub(crate) fn uuid_text(id: u128) -> [u8; 36] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    /// The position of each byte's two digits.
    const OFFSETS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let mut text = [b'-'; 36];
    for (byte, offset) in id.to_be_bytes().into_iter().zip(OFFSETS) {
        text[offset] = HEX[usize::from(byte >> 4)];
        text[offset + 1] = HEX[usize::from(byte & 15)];
    }
    text
}

fn uuid(id: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(std::str::from_utf8(&uuid_text(id)).unwrap_or_default())
}

/// The error for a text that is not a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotUuid;

impl fmt::Display for NotUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a UUID")
    }
}

impl std::error::Error for NotUuid {}

fn parse_uuid(s: &str) -> Result<u128, NotUuid> {
    let bytes = s.as_bytes();
    if bytes.len() != 36 {
        return Err(NotUuid);
    }
    let mut id = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if *byte != b'-' {
                return Err(NotUuid);
            }
            continue;
        }
        let nibble = (*byte as char).to_digit(16).ok_or(NotUuid)?;
        id = id << 4 | u128::from(nibble);
    }
    Ok(id)
}

/// The chains that a key may use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Scope {
    /// Every chain that is served.
    #[default]
    All,
    /// The chains with these canonical path names.
    Only(BTreeSet<Box<str>>),
}

impl Scope {
    /// Reports whether `chain` is in the scope.
    pub fn allows(&self, chain: ChainName) -> bool {
        match self {
            Scope::All => true,
            Scope::Only(chains) => chains.contains(chain.as_str()),
        }
    }
}

/// A project's method lists. They match both the metered name of a method and the name as sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MethodLists {
    /// If not empty, only these methods pass.
    pub allowed: BTreeSet<Box<[u8]>>,
    /// These methods never pass.
    pub blocked: BTreeSet<Box<[u8]>>,
}

impl MethodLists {
    /// Reports whether both lists are empty.
    pub fn is_empty(&self) -> bool {
        self.allowed.is_empty() && self.blocked.is_empty()
    }

    /// Reports whether a call passes that is metered as `metered` and was sent as `sent`.
    pub fn allows(&self, metered: &[u8], sent: &[u8]) -> bool {
        let on = |list: &BTreeSet<Box<[u8]>>| list.contains(metered) || list.contains(sent);
        !on(&self.blocked) && (self.allowed.is_empty() || on(&self.allowed))
    }
}

/// The quota of a project: its own, or that of its plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProjectQuota {
    /// Compute Units in any rolling 24 hours; 0 refuses every call that costs something.
    pub cu_per_day: u64,
    /// Recorded, not enforced.
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of the project.
    pub rps_limit: Option<u64>,
    /// True if an operator set the quota for this project.
    pub has_row: bool,
}

impl ProjectQuota {
    /// Returns the quota of a project without its own.
    pub const fn of_plan(quota: PlanQuota) -> Self {
        let PlanQuota { cu_per_day, cu_per_month, rps_limit } = quota;
        ProjectQuota { cu_per_day, cu_per_month, rps_limit, has_row: false }
    }

    /// Returns this quota if it was set for the project, otherwise that of the plan.
    ///
    /// ```
    /// use rpcgate_core::caller::ProjectQuota;
    /// use rpcgate_core::plan::PlanQuota;
    ///
    /// let plan = PlanQuota { cu_per_day: 7, ..PlanQuota::DEFAULT };
    /// let own = ProjectQuota { cu_per_day: 5, has_row: true, ..ProjectQuota::default() };
    /// assert_eq!(own.or_of_plan(plan).cu_per_day, 5);
    /// assert_eq!(ProjectQuota::default().or_of_plan(plan).cu_per_day, 7);
    /// ```
    #[must_use]
    pub const fn or_of_plan(self, plan: PlanQuota) -> Self {
        if self.has_row { self } else { Self::of_plan(plan) }
    }
}

impl Default for ProjectQuota {
    fn default() -> Self {
        Self::of_plan(PlanQuota::DEFAULT)
    }
}

/// All data about the holder of a key. It is built once, shared, and replaced after a change.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Caller {
    /// The key.
    pub key: KeyId,
    /// The part of the key that a log may show: its first 12 characters.
    pub prefix: Box<str>,
    /// The project that is metered.
    pub project: ProjectId,
    /// The organisation that is billed.
    pub tenant: TenantId,
    /// The tenant's plan.
    pub plan: Plan,
    /// True if the tenant is suspended, for example for unpaid invoices.
    pub suspended: bool,
    /// The chains that the key may use.
    pub scope: Scope,
    /// The project's method lists.
    pub lists: MethodLists,
    /// The project's quota.
    pub quota: ProjectQuota,
    /// The expiry time of the key, if it has one.
    pub expires_at: Option<Time>,
}

impl Caller {
    /// Creates a caller for a program without projects and tenants: the key, project and tenant have the number `user`.
    ///
    /// ```
    /// use rpcgate_core::prelude::*;
    ///
    /// let ann = Caller::of(7, Plan::of(Tier::Free));
    /// assert_eq!((ann.key, ann.project, ann.tenant), (KeyId(7), ProjectId(7), TenantId(7)));
    /// ```
    pub fn of(user: u128, plan: Plan) -> Self {
        Caller::new(KeyId(user), ProjectId(user), TenantId(user), plan)
    }

    /// Creates a caller with default settings: active, all chains, no lists, the quota of the plan.
    pub fn new(key: KeyId, project: ProjectId, tenant: TenantId, plan: Plan) -> Self {
        Caller {
            key,
            prefix: "".into(),
            project,
            tenant,
            plan,
            suspended: false,
            scope: Scope::All,
            lists: MethodLists::default(),
            quota: ProjectQuota::of_plan(plan.quota),
            expires_at: None,
        }
    }

    /// Sets the first characters of the key, which logs may show.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<Box<str>>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the plan.
    #[must_use]
    pub fn with_plan(mut self, plan: Plan) -> Self {
        self.plan = plan;
        self
    }

    /// Sets whether the tenant is suspended.
    #[must_use]
    pub fn with_suspended(mut self, suspended: bool) -> Self {
        self.suspended = suspended;
        self
    }

    /// Sets the chains that the key may use.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets the method lists.
    #[must_use]
    pub fn with_lists(mut self, lists: MethodLists) -> Self {
        self.lists = lists;
        self
    }

    /// Sets the quota.
    #[must_use]
    pub fn with_quota(mut self, quota: ProjectQuota) -> Self {
        self.quota = quota;
        self
    }

    /// Sets or removes the expiry time of the key.
    #[must_use]
    pub fn with_expiry(mut self, expires_at: impl Into<Option<Time>>) -> Self {
        self.expires_at = expires_at.into();
        self
    }
}

/// The caller of a request: borrowed from the request, or shared with a table of callers.
#[derive(Clone, Debug)]
pub enum CallerRef<'a> {
    /// A borrow from an owner that outlives the reference.
    Borrowed(&'a Caller),
    /// Shared with other owners.
    Shared(Arc<Caller>),
}

impl Deref for CallerRef<'_> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        match self {
            CallerRef::Borrowed(caller) => caller,
            CallerRef::Shared(caller) => caller,
        }
    }
}

impl<'a> From<&'a Caller> for CallerRef<'a> {
    fn from(caller: &'a Caller) -> Self {
        CallerRef::Borrowed(caller)
    }
}

impl<'a> From<&'a Arc<Caller>> for CallerRef<'a> {
    fn from(caller: &'a Arc<Caller>) -> Self {
        CallerRef::Borrowed(caller)
    }
}

impl From<Arc<Caller>> for CallerRef<'_> {
    fn from(caller: Arc<Caller>) -> Self {
        CallerRef::Shared(caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_and_read_as_uuids() {
        let text = "0190163d-8694-739b-aea5-966c26f8ad91";
        let id: KeyId = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        for bad in
            ["", "0190163d", "0190163d-8694-739b-aea5-966c26f8ad9g", "0190163d08694-739b-aea5-966c26f8ad91"]
        {
            assert_eq!(bad.parse::<KeyId>(), Err(NotUuid), "{bad}");
        }
    }

    #[test]
    fn a_list_matches_the_metered_and_the_sent_name() {
        let set = |names: &[&str]| names.iter().map(|n| Box::from(n.as_bytes())).collect();
        let block = MethodLists { blocked: set(&["a"]), ..Default::default() };
        assert!(!block.allows(b"a", b"x") && !block.allows(b"x", b"a") && block.allows(b"x", b"x"));
        let allow = MethodLists { allowed: set(&["a", "b"]), blocked: set(&["b"]) };
        assert!(allow.allows(b"a", b"x") && allow.allows(b"x", b"a"));
        assert!(!allow.allows(b"x", b"x"), "not on the allow list");
        assert!(!allow.allows(b"b", b"b"), "the block list wins");
        assert!(MethodLists::default().allows(b"x", b"x"));
    }
}
