//! The query for the usage of all tenants, and the rows of its result.

use crate::entity::rollups::Column;
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::usage::Amount;
use sea_orm::sea_query::{Condition, Expr, ExprTrait};
use std::collections::BTreeMap;
use std::ops::Range;
use uuid::Uuid;

/// The query for the usage of all tenants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UsageOfAllAsk {
    /// The hours by their numbers. The first begins at a UTC midnight.
    pub hours: Range<u64>,
    /// The methods whose calls are counted, each with its chain.
    pub methods: Vec<(String, String)>,
    /// The keys to list; `None` lists no keys.
    pub keys: Option<KeysAsk>,
    /// The tenant, for a query about one.
    pub only: Option<TenantId>,
}

/// The filter of the listed keys: those near the windows in question, of the tenants with these windows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeysAsk {
    /// The requests in an hour above which a key is listed.
    pub above_in_hour: u64,
    /// The requests in a day above which a key is listed.
    pub above_in_day: u64,
    /// The tenants of the keys.
    pub of: TenantSet,
}

/// A subset of the tenants. A list has at most [`TenantSet::MAX`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TenantSet {
    /// All tenants.
    All,
    /// Only these tenants.
    Only(Vec<TenantId>),
    /// All tenants except these.
    Except(Vec<TenantId>),
}

impl TenantSet {
    /// The maximum number of tenants in a list. A statement has the list several times, and SQLite takes 32,766
    /// parameters.
    pub const MAX: usize = 5_000;

    /// Returns the set of the tenants in question, or a superset if both they and the others are too many for a list.
    pub fn of(in_question: Vec<TenantId>, others: Vec<TenantId>) -> Self {
        if in_question.len() <= TenantSet::MAX {
            TenantSet::Only(in_question)
        } else if others.len() <= TenantSet::MAX {
            TenantSet::Except(others)
        } else {
            TenantSet::All
        }
    }

    pub(super) fn condition(&self) -> Condition {
        let ids = |tenants: &[TenantId]| -> Vec<Uuid> {
            tenants.iter().map(|tenant| Uuid::from_u128(tenant.0)).collect()
        };
        match self {
            TenantSet::All => Condition::all(),
            TenantSet::Only(tenants) => Condition::all().add(Expr::col(Column::Tenant).is_in(ids(tenants))),
            TenantSet::Except(tenants) => {
                Condition::all().add(Expr::col(Column::Tenant).is_not_in(ids(tenants)))
            }
        }
    }
}

/// The units of a project in a day or an hour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProjectUnits {
    /// The first hour.
    pub hour: u64,
    /// The project's tenant.
    pub tenant: TenantId,
    /// The project.
    pub project: ProjectId,
    /// Compute Units charged.
    pub units: u64,
}

/// The calls of a method by a project in a day or an hour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MethodUse {
    /// The first hour.
    pub hour: u64,
    /// The project's tenant.
    pub tenant: TenantId,
    /// The project.
    pub project: ProjectId,
    /// The path of the chain.
    pub chain: String,
    /// The method.
    pub method: String,
    /// Calls that were charged, including those of a free method that would have been.
    pub calls: u64,
    /// Compute Units charged.
    pub units: u64,
}

/// The requests of a key in a day or an hour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyUse {
    /// The first hour.
    pub hour: u64,
    /// The key's tenant.
    pub tenant: TenantId,
    /// The key.
    pub key: KeyId,
    /// Requests that its windows have counted.
    pub admitted: u64,
    /// Calls that were refused with 429.
    pub refused: u64,
}

/// The usage of all tenants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UsageOfAll {
    /// The units of the projects, by day.
    pub projects: Vec<ProjectUnits>,
    /// The calls of the methods, by day.
    pub methods: Vec<MethodUse>,
    /// The keys above the floor of the hour, by hour.
    pub key_hours: Vec<KeyUse>,
    /// The keys above the floor of the day, by day.
    pub key_days: Vec<KeyUse>,
    /// The amounts charged to the tenants, at the prices of the time.
    pub charged: BTreeMap<TenantId, Amount>,
}
