//! Stores shipments: rollups, charges, notifications, blocks and marks, in one transaction.

use super::summed::Summed;
use super::usage_rows::{ROWS, statement_error, stored, values};
use super::value::{count, moment};
use super::{days, ledger, notifications};
use crate::entity::{block_keys, blocks, marks, rollups};
use crate::{ShipError, StoreError, UsageStore};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::journal::{GatewayId, HEAD, SegmentId};
use rpcgate_core::usage::bound::StoredRows;
use rpcgate_core::usage::method::{self, MethodScope, UnseenMethods};
use rpcgate_core::usage::{Block, Mark, Rollup, Shipment, Stream};
use sea_orm::sea_query::{Alias, Expr, ExprTrait, InsertStatement, OnConflict, Query};
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

impl UsageStore {
    /// Returns the positions up to which a gateway's segments are shipped, from segment `oldest` on. A segment without
    /// shipped records has no mark. Marks outlive their segments, so that a segment that reappears, for instance from a
    /// backup, is recognised while anything shipped from it is billed; then [`retain`](UsageStore::retain) removes
    /// them.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn marks(
        &self,
        gateway: GatewayId,
        oldest: SegmentId,
    ) -> BoxFuture<'_, Result<Vec<(SegmentId, u64)>, StoreError>> {
        Box::pin(async move {
            self.read(async |database| {
                let wanted = marks::Entity::find()
                    .filter(marks::Column::Gateway.eq(Uuid::from_u128(gateway.0)))
                    .filter(marks::Column::Segment.gte(Uuid::from_u128(oldest.0)));
                let rows = wanted.all(database).await?;
                rows.into_iter()
                    .map(|row| Ok((SegmentId(row.segment.as_u128()), count("mark", row.position)?)))
                    .collect()
            })
            .await
        })
    }

    /// Stores a shipment in one transaction: adds its rollups and charges to the stored ones, replaces blocks with the
    /// same id, and moves the marks.
    ///
    /// Distinguishes only a limited number of methods per project and hour, those that are stored first (contract,
    /// "Usage"); adds the others up under one name. Drops usage of hours whose charges [`retain`](UsageStore::retain)
    /// has removed, because it may come from a segment whose mark was removed with them.
    ///
    /// # Errors
    /// [`ShipError::Moved`] if a mark is not at the start of the shipment; otherwise a [`StoreError`].
    pub async fn ship(&self, shipment: &Shipment) -> Result<(), ShipError> {
        self.ship_with_allowances(shipment, &BTreeMap::new()).await
    }

    /// Like [`ship`](UsageStore::ship), and also raises the notifications that the shipment makes due. `allowances` are
    /// the requests per day that the plans allow all keys of a tenant. Notifications of a tenant without an allowance
    /// here are left to [`remind`](UsageStore::remind).
    ///
    /// # Errors
    /// Those of [`ship`](UsageStore::ship).
    pub fn ship_with_allowances<'a>(
        &'a self,
        shipment: &'a Shipment,
        allowances: &'a BTreeMap<TenantId, u64>,
    ) -> BoxFuture<'a, Result<(), ShipError>> {
        Box::pin(async move {
            let mut unknown = Some(self.known().unknown(&shipment.folded.rollups));
            let (settled, summed) = self
                .write(async |transaction| {
                    for mark in &shipment.marks {
                        advance(transaction, shipment.gateway, mark, shipment.folded.newest.hour()).await?;
                    }
                    // Read after the marks: if one was removed meanwhile, this shows the hours with which it was
                    // removed.
                    let summed = Summed::read(transaction).await?;
                    let folded = shipment.folded.since(summed.first());
                    let unknown = match &folded {
                        Cow::Borrowed(_) => unknown.take().unwrap_or_default(),
                        Cow::Owned(folded) => self.known().unknown(&folded.rollups),
                    };
                    let (unseen, settled) = self.settle(transaction, unknown).await?;
                    let rollups = self.bound(transaction, method::merge(&folded.rollups, &unseen)).await?;
                    for chunk in rollups.chunks(ROWS) {
                        transaction.execute(&add(chunk)?).await?;
                    }
                    summed.add(transaction, &rollups).await?;
                    ledger::charge(transaction, &folded.charges).await?;
                    notifications::note(transaction, &folded, allowances).await?;
                    days::prepare(transaction, &days::of(&shipment.blocks)).await?;
                    for block in &shipment.blocks {
                        put_block(transaction, block).await?;
                    }
                    Ok::<_, ShipError>((settled, summed))
                })
                .await?;
            // Only after the commit, because rolled-back rows are not stored.
            self.learn(settled);
            self.sum_after(&summed, shipment.folded.newest).await;
            Ok(())
        })
    }

    fn learn(&self, settled: Vec<(MethodScope, BTreeSet<String>)>) {
        let mut known = self.known();
        for (scope, names) in settled {
            known.learn(scope, names.iter().map(String::as_str));
        }
    }

    /// Returns the rollups, without a method where their tenant has reached the row limit of the hour.
    async fn bound<'r>(
        &self,
        transaction: &DatabaseTransaction,
        rollups: Cow<'r, [Rollup]>,
    ) -> Result<Cow<'r, [Rollup]>, StoreError> {
        let unknown = self.rows().unknown(&rollups);
        let mut stored = Vec::new();
        for (tenant, hour) in unknown {
            let counts = rollups::Entity::find()
                .select_only()
                .column_as(rollups::Column::Hour.count(), "rows")
                .column_as(Expr::col(rollups::Column::Key).count_distinct(), "keys")
                .filter(rollups::Column::Hour.eq(self::stored(hour)))
                .filter(rollups::Column::Tenant.eq(tenant));
            let (rows, keys) = counts.into_tuple::<(i64, i64)>().one(transaction).await?.unwrap_or_default();
            stored
                .push(((tenant, hour), StoredRows { rows: rows.unsigned_abs(), keys: keys.unsigned_abs() }));
        }
        let mut rows = self.rows();
        rows.learn(stored);
        Ok(rows.bound(rollups))
    }

    /// Returns the methods of a project that are stored separately in an hour.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn methods(
        &self,
        tenant: TenantId,
        project: ProjectId,
        hour: u64,
    ) -> Result<BTreeSet<String>, StoreError> {
        self.read(async |database| methods(database, &(tenant, project, hour)).await).await
    }

    /// Splits `unknown` into methods that must not be stored separately, and, by scope, the methods that will be stored
    /// after this shipment.
    async fn settle(
        &self,
        transaction: &DatabaseTransaction,
        unknown: UnseenMethods,
    ) -> Result<(UnseenMethods, Vec<(MethodScope, BTreeSet<String>)>), StoreError> {
        let mut unseen = UnseenMethods::new();
        let mut settled = Vec::new();
        for (scope, names) in unknown {
            if self.known().is_full(&scope) {
                unseen.insert(scope, names);
                continue;
            }
            let mut stored_methods = methods(transaction, &scope).await?;
            let rest = method::admit(&mut stored_methods, names);
            if !rest.is_empty() {
                unseen.insert(scope, rest);
            }
            settled.push((scope, stored_methods));
        }
        Ok((unseen, settled))
    }
}

async fn methods(
    database: &impl ConnectionTrait,
    (tenant, project, hour): &MethodScope,
) -> Result<BTreeSet<String>, StoreError> {
    let names = rollups::Entity::find()
        .select_only()
        .column(rollups::Column::Method)
        .distinct()
        .filter(rollups::Column::Hour.eq(stored(*hour)))
        .filter(rollups::Column::Tenant.eq(*tenant))
        .filter(rollups::Column::Project.eq(*project))
        .filter(rollups::Column::Stream.eq(i16::from(Stream::Call.code())))
        .filter(rollups::Column::Method.ne(method::OTHER));
    Ok(names.into_tuple::<String>().all(database).await?.into_iter().collect())
}

/// Moves a mark from its expected position, for a shipment of events up to `hour`.
async fn advance(
    transaction: &DatabaseTransaction,
    gateway: GatewayId,
    mark: &Mark,
    hour: u64,
) -> Result<(), ShipError> {
    let gateway = Uuid::from_u128(gateway.0);
    let segment = Uuid::from_u128(mark.segment.0);
    if mark.to < mark.from {
        return Err(ShipError::Moved);
    }
    let later = Expr::case(marks::Column::Hour.lt(stored(hour)), stored(hour))
        .finally(Expr::col(marks::Column::Hour));
    let update = marks::Entity::update_many()
        .col_expr(marks::Column::Position, Expr::value(stored(mark.to)))
        .col_expr(marks::Column::Hour, later.into())
        .filter(marks::Column::Gateway.eq(gateway))
        .filter(marks::Column::Segment.eq(segment))
        .filter(marks::Column::Position.eq(stored(mark.from)));
    if update.exec(transaction).await?.rows_affected == 1 {
        return Ok(());
    }
    if mark.from > HEAD as u64 {
        return Err(ShipError::Moved);
    }
    let insert = Query::insert()
        .into_table(marks::Entity)
        .columns([
            marks::Column::Gateway,
            marks::Column::Segment,
            marks::Column::Position,
            marks::Column::Hour,
        ])
        .values([gateway.into(), segment.into(), stored(mark.to).into(), stored(hour).into()])
        .map_err(statement_error)?
        .on_conflict(
            OnConflict::columns([marks::Column::Gateway, marks::Column::Segment]).do_nothing().to_owned(),
        )
        .to_owned();
    match transaction.execute(&insert).await?.rows_affected() {
        1 => Ok(()),
        _ => Err(ShipError::Moved),
    }
}

/// Returns the statement that adds rollups, which must differ in their key columns.
fn add(rollups: &[Rollup]) -> Result<InsertStatement, StoreError> {
    use rollups::{Entity, KEY_COLUMNS, counts};
    let mut insert = Query::insert();
    insert.into_table(Entity).columns(KEY_COLUMNS.into_iter().chain(counts()));
    for rollup in rollups {
        insert.values(values(rollup)).map_err(statement_error)?;
    }
    let upsert = OnConflict::columns(KEY_COLUMNS)
        .values(
            counts().map(|sum| (sum, Expr::col((Entity, sum)).add(Expr::col((Alias::new("excluded"), sum))))),
        )
        .to_owned();
    Ok(insert.on_conflict(upsert).to_owned())
}

async fn put_block(transaction: &DatabaseTransaction, block: &Block) -> Result<(), StoreError> {
    use blocks::Column;
    let id = Uuid::from_u128(block.id);
    let upsert = OnConflict::column(Column::Id)
        .update_columns([Column::First, Column::Last, Column::Events, Column::Bytes])
        .to_owned();
    let insert = Query::insert()
        .into_table(blocks::Entity)
        .columns([Column::Id, Column::First, Column::Last, Column::Events, Column::Bytes])
        .values([
            id.into(),
            moment(block.from).into(),
            moment(block.to).into(),
            i64::from(block.count).into(),
            block.bytes.clone().into(),
        ])
        .map_err(statement_error)?
        .on_conflict(upsert)
        .to_owned();
    transaction.execute(&insert).await?;
    for keys in block.keys.chunks(ROWS) {
        use block_keys::Column;
        let names = [Column::Block, Column::Tenant, Column::Project, Column::Key];
        let upsert = OnConflict::columns(names).update_columns([Column::First, Column::Last]).to_owned();
        let mut insert = Query::insert();
        insert.into_table(block_keys::Entity);
        insert.columns(names.into_iter().chain([Column::First, Column::Last]));
        for key in keys {
            insert
                .values([
                    id.into(),
                    Uuid::from_u128(key.tenant.0).into(),
                    Uuid::from_u128(key.project.0).into(),
                    Uuid::from_u128(key.key.0).into(),
                    moment(key.from).into(),
                    moment(key.to).into(),
                ])
                .map_err(statement_error)?;
        }
        transaction.execute(insert.on_conflict(upsert)).await?;
    }
    Ok(())
}
