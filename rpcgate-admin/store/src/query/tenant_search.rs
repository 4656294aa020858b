//! Search of tenants by a part of the name, the owner's address, or the beginning of the identifier.
//!
//! Addresses and identifiers are looked up by their indexes. Names are compared one by one, by identifier and in
//! limited number per call, because neither database has an index for the middle of a text.

use super::keyset::page;
use super::live_tenants::live_tenants;
use super::tenants::{Tenant, TenantFilter, on_plan};
use super::users::{Role, stored_email};
use crate::entity::tenants::{Column, Entity};
use crate::entity::users;
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use sea_orm::sea_query::{Condition, Expr, ExprTrait, Func, LikeExpr};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use uuid::Uuid;

const MAX_COMPARED: u64 = 20_000;

/// The minimum number of hexadecimal digits for the beginning of an identifier.
const MIN_DIGITS: usize = 8;

const DIGITS: usize = 32;

/// The result of a search.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FoundTenants {
    /// The tenants by ascending identifier.
    pub tenants: Vec<Tenant>,
    /// The tenant after which to continue, if there may be more.
    pub next: Option<TenantId>,
}

/// Returns the range of identifiers that begin with a text, with or without hyphens, in any case.
fn identifiers(text: &str) -> Option<RangeInclusive<u128>> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let missing = DIGITS.checked_sub(digits.len()).filter(|_| digits.len() >= MIN_DIGITS)?;
    if !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let bound = |digit: &str| u128::from_str_radix(&(digits.clone() + &digit.repeat(missing)), 16).ok();
    Some(bound("0")?..=bound("f")?)
}

/// Matches names that contain a text, in any case. SQLite only knows the case of ASCII letters, so other letters are
/// compared as typed, in lower case, in upper case, and capitalised.
fn is_named(text: &str) -> Condition {
    let small = text.to_lowercase();
    let capital = text.to_uppercase();
    let first: String = text.chars().take(1).flat_map(char::to_uppercase).collect();
    let title = first + &small.chars().skip(1).collect::<String>();
    let spellings = [small, capital, title, text.to_owned()].map(|spelling| spelling.to_ascii_lowercase());
    let mut any = Condition::any();
    for spelling in BTreeSet::from(spellings) {
        let escaped = spelling.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        let pattern = LikeExpr::new(format!("%{escaped}%")).escape('\\');
        any = any.add(Func::lower(Expr::col((Entity, Column::Name))).like(pattern));
    }
    any
}

async fn page_of(
    database: &impl ConnectionTrait,
    wanted: Select<Entity>,
    after: Option<TenantId>,
    limit: u64,
) -> Result<FoundTenants, StoreError> {
    let rows = page(wanted, Column::Id, after, limit.saturating_add(1)).all(database).await?;
    let has_more = rows.len() as u64 > limit;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let tenants: Vec<Tenant> = rows.into_iter().take(shown).map(Tenant::from).collect();
    let next = tenants.last().filter(|_| has_more).map(|last| last.id);
    Ok(FoundTenants { tenants, next })
}

impl Store {
    /// Finds tenants that match `filter`, by the address of an owner, by an identifier that begins with `text`, or else
    /// by a name that contains it: at most `limit`, by ascending identifier, starting after `after`. Stops after
    /// comparing many names; [`FoundTenants::next`] is then the position to continue from.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn search_tenants(
        &self,
        text: &str,
        filter: TenantFilter,
        after: Option<TenantId>,
        limit: u64,
    ) -> Result<FoundTenants, StoreError> {
        self.search_some(text, filter, (after, limit), MAX_COMPARED).await
    }

    async fn search_some(
        &self,
        text: &str,
        filter: TenantFilter,
        (after, limit): (Option<TenantId>, u64),
        compared: u64,
    ) -> Result<FoundTenants, StoreError> {
        let matching = Condition::all()
            .add_option(filter.plan.map(on_plan))
            .add_option(filter.suspended.map(|suspended| Column::Suspended.eq(suspended)));
        self.read(async |database| {
            if text.contains('@') {
                let owner = users::Entity::find()
                    .select_only()
                    .column(users::Column::TenantId)
                    .filter(users::Column::Email.eq(stored_email(text)))
                    .filter(users::Column::Role.eq(Role::Owner))
                    .filter(users::Column::TenantId.is_not_null());
                let owned: Vec<Uuid> = owner.into_tuple().all(database).await?;
                if !owned.is_empty() {
                    let wanted = live_tenants().filter(Column::Id.is_in(owned)).filter(matching);
                    return page_of(database, wanted, after, limit).await;
                }
            }
            if let Some(range) = identifiers(text) {
                let (first, last) = range.into_inner();
                let begins = Column::Id.between(Uuid::from_u128(first), Uuid::from_u128(last));
                if live_tenants().filter(begins.clone()).one(database).await?.is_some() {
                    let wanted = live_tenants().filter(begins).filter(matching);
                    return page_of(database, wanted, after, limit).await;
                }
            }
            let behind = Condition::all().add_option(after.map(|after| Column::Id.gt(after)));
            let last = live_tenants()
                .select_only()
                .column(Column::Id)
                .filter(behind)
                .order_by_asc(Column::Id)
                .offset(compared.saturating_sub(1))
                .limit(1);
            let last: Option<TenantId> = last.into_tuple().one(database).await?;
            let compared = Condition::all().add_option(last.map(|last| Column::Id.lte(last)));
            let wanted = live_tenants().filter(compared).filter(is_named(text)).filter(matching);
            let found = page_of(database, wanted, after, limit).await?;
            let next = found.next.or(last);
            Ok(FoundTenants { next, ..found })
        })
        .await
    }
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "tenant_search/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;
