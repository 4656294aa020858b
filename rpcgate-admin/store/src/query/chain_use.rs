//! The usage of chains and of their methods by all tenants.

use super::source::union_all;
use super::summed::Summed;
use super::sums::Dimensions;
use super::usage_of_all::{AllQuery, NamedSum, id, number, part_of};
use crate::entity::rollups::Column;
use crate::{StoreError, UsageStore};
use rpcgate_core::caller::TenantId;
use sea_orm::sea_query::{Alias, Condition, Expr, ExprTrait, Order, SelectStatement};
use std::collections::BTreeMap;
use std::ops::Range;

/// The calls of all tenants on a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChainUse {
    /// The number of tenants that called it.
    pub tenants: u64,
    /// Calls.
    pub calls: u64,
    /// Calls without success, refused by a node or the gateway.
    pub errors: u64,
}

/// The calls of a method by all tenants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MethodTotal {
    /// The method.
    pub method: String,
    /// Calls.
    pub calls: u64,
    /// Compute Units charged.
    pub units: u64,
}

const CALLS: Dimensions = Dimensions { project: false, key: false, call: true };

impl UsageStore {
    /// Returns the calls of all tenants on each chain in `hours`, by the path of the chain.
    ///
    /// # Errors
    /// [`StoreError::TooWide`], [`StoreError::Busy`], [`StoreError::Unavailable`].
    pub async fn chain_use(&self, hours: Range<u64>) -> Result<BTreeMap<String, ChainUse>, StoreError> {
        let most = self.bounds.max;
        let columns = [Column::Tenant, Column::Chain];
        let named = [("all_calls", Expr::col(Column::Requests)), ("all_errors", Expr::col(Column::Errors))];
        let rows = self
            .for_operator(async |database| {
                let query = AllQuery { summed: Summed::read(database).await?, hours, only: None, most };
                let parts = [query.sums(CALLS, 1), query.unsummed_hours()]
                    .map(|part| part_of(part, 1, &columns, &named));
                let select = total(parts.into(), &columns, &named);
                let read = |row: &sea_orm::QueryResult| {
                    let chain: String = row.try_get_by_index(1)?;
                    Ok((TenantId(id(row, 0)?), chain, number(row, 2)?, number(row, 3)?))
                };
                query.rows(database, select, read).await
            })
            .await?;
        let mut chains: BTreeMap<String, ChainUse> = BTreeMap::new();
        for (_, chain, calls, errors) in rows.into_iter().filter(|(_, _, calls, _)| *calls > 0) {
            let sum = chains.entry(chain).or_default();
            sum.tenants += 1;
            sum.calls = sum.calls.saturating_add(calls);
            sum.errors = sum.errors.saturating_add(errors);
        }
        Ok(chains)
    }

    /// Returns the methods of a chain with the most calls in `hours`, at most `limit`, in descending order. Methods
    /// without any successful call are left out, because a client may name anything. The first hour begins at a UTC
    /// midnight.
    ///
    /// # Errors
    /// Those of [`chain_use`](UsageStore::chain_use).
    pub async fn method_totals(
        &self,
        chain: &str,
        hours: Range<u64>,
        limit: u64,
    ) -> Result<Vec<MethodTotal>, StoreError> {
        let columns = [Column::Method];
        let named = [
            ("all_calls", Expr::col(Column::Requests)),
            ("all_units", Expr::col(Column::BillableUnits)),
            ("all_rejected", Expr::col(Column::Rejected)),
        ];
        let sum = |name: &'static str| Expr::col(Alias::new(name)).sum();
        let is_served =
            Condition::any().add(sum("all_calls").gt(sum("all_rejected"))).add(sum("all_units").gt(0i64));
        let wanted = Condition::all().add(Expr::col(Column::Chain).eq(chain));
        self.for_operator(async |database| {
            let summed = Summed::read(database).await?;
            let query = AllQuery { summed, hours, only: None, most: limit };
            let mut select = total(query.by_day(CALLS, &wanted, &columns, &named), &columns, &named);
            select
                .cond_having(is_served)
                .order_by_expr(sum("all_calls"), Order::Desc)
                .order_by(Column::Method, Order::Asc);
            let read = |row: &sea_orm::QueryResult| {
                let method = row.try_get_by_index(0)?;
                Ok(MethodTotal { method, calls: number(row, 1)?, units: number(row, 2)? })
            };
            query.first_rows(database, select, read).await
        })
        .await
    }
}

fn total(parts: Vec<SelectStatement>, columns: &[Column], named: &[NamedSum]) -> SelectStatement {
    let mut select = union_all(parts);
    for column in columns {
        select.column(*column).group_by_col(*column);
    }
    for (name, _) in named {
        // PostgreSQL's sum of bigints is a numeric.
        select.expr(Expr::col(Alias::new(*name)).sum().cast_as("bigint"));
    }
    select
}

#[cfg(test)]
#[cfg(have_postgres)]
#[expect(clippy::duplicate_mod, reason = "the same tests, on the other database")]
#[path = "chain_use/tests.rs"]
mod on_postgres;
#[cfg(test)]
mod tests;
