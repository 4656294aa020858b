//! Due deliveries. A dispatcher claims a delivery before it makes an attempt. No other dispatcher gets it until the
//! lease ends; if the dispatcher was killed, the delivery is due again then.
//!
//! A claim takes the deliveries that have been due for longest, within the free slots of each endpoint, project and
//! tenant, so that none of them can fill all slots. If nearly all of these belong to endpoints without free slots,
//! because one of them has many, the claim goes from endpoint to endpoint instead.
//!
//! It visits those with ready deliveries. A new delivery is ready at once; a claimed one or one that waits for its next
//! attempt is not, until a claim finds that it is due. The cost of a claim therefore depends on the due deliveries, and
//! not on those that wait for a later time.

use super::claim_capacity::{ClaimCapacity, ClaimChoice, DueEndpoint};
use super::delivery_status::{FAILED, PENDING};
use super::id::{ChainEventId, DeliveryId};
use super::value::{moment, time, unreadable};
use super::webhooks::Webhook;
use crate::entity::deliveries::{Column, Entity, Model};
use crate::entity::{chain_events, projects, tenants, webhooks};
use crate::{Store, StoreError};
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, Expr, LockBehavior, LockType, SimpleExpr};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseConnection, DatabaseTransaction, EntityTrait, JoinType,
    QueryFilter, QueryOrder, QueryResult, QuerySelect, RelationTrait, Select, Statement,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The number of due deliveries that a claim looks at for each one that it may take.
const LOOKED_AT: u64 = 4;
const COME_DUE: u64 = 2_048;
const ENDPOINTS: usize = 256;
/// The number of endpoints without service whose deliveries are searched at once.
const UNSERVED: usize = 500;

/// A delivery that this dispatcher must make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DueDelivery {
    /// Its identifier.
    pub id: DeliveryId,
    /// The endpoint.
    pub webhook: Arc<Webhook>,
    /// The tenant of its project.
    pub tenant: TenantId,
    /// The event that it reports.
    pub event: ChainEventId,
    /// The body, the same in each attempt.
    pub body: Arc<[u8]>,
    /// True if it repeats an earlier delivery.
    pub replay: bool,
    /// The number of ended attempts.
    pub attempts: u32,
    /// The creation time.
    pub created_at: Time,
    /// The due time, which orders the waiting deliveries.
    pub due_at: Time,
    /// The time from which other dispatchers may claim it.
    pub leased_until: Time,
}

/// A claimed delivery that is released without an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReleasedDelivery {
    /// Its identifier.
    pub id: DeliveryId,
    /// Its due time before it was claimed.
    pub due_at: Time,
    /// The end of its lease.
    pub leased_until: Time,
}

impl From<&DueDelivery> for ReleasedDelivery {
    fn from(delivery: &DueDelivery) -> Self {
        let DueDelivery { id, due_at, leased_until, .. } = *delivery;
        ReleasedDelivery { id, due_at, leased_until }
    }
}

/// Selects the endpoints that get deliveries: active ones of tenants that are not suspended.
fn served() -> Select<webhooks::Entity> {
    webhooks::Entity::find()
        .join(JoinType::InnerJoin, webhooks::Relation::Project.def())
        .join(JoinType::InnerJoin, projects::Relation::Tenant.def())
        .filter(webhooks::Column::Active.eq(true))
        .filter(tenants::Column::Suspended.eq(false))
}

/// Matches deliveries whether they are ready or not: this column comes before the endpoint in an index.
pub(super) fn any_position() -> SimpleExpr {
    Column::Ready.is_in([true, false])
}

/// Selects due deliveries that are not ready yet, the longest due first.
fn come_due(now: Time) -> Select<Entity> {
    Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::Status.eq(PENDING))
        .filter(Column::Ready.eq(false))
        .filter(Column::DueAt.lte(now))
        .order_by_asc(Column::DueAt)
}

/// Returns the served endpoints that have due deliveries, the one that has waited longest first.
async fn waiting_endpoints(database: &DatabaseConnection, now: Time) -> Result<Vec<DueEndpoint>, StoreError> {
    let now = moment(now);
    // Each step is one look-up in an index by status, readiness and endpoint.
    let sql = format!(
        "WITH RECURSIVE due(webhook_id) AS ( \
           SELECT (SELECT d.webhook_id FROM deliveries d WHERE d.status = '{PENDING}' AND d.ready = TRUE \
                   ORDER BY d.webhook_id LIMIT 1) \
           UNION ALL \
           SELECT (SELECT d.webhook_id FROM deliveries d WHERE d.status = '{PENDING}' \
                   AND d.ready = TRUE AND d.webhook_id > due.webhook_id ORDER BY d.webhook_id LIMIT 1) \
           FROM due WHERE due.webhook_id IS NOT NULL) \
         SELECT found.webhook_id, found.project_id, found.tenant_id FROM ( \
           SELECT due.webhook_id AS webhook_id, w.project_id AS project_id, p.tenant_id AS tenant_id, ( \
             SELECT d.due_at FROM deliveries d WHERE d.status = '{PENDING}' \
             AND d.ready = TRUE AND d.webhook_id = due.webhook_id ORDER BY d.due_at LIMIT 1) AS first \
           FROM due JOIN webhooks w ON w.id = due.webhook_id \
           JOIN projects p ON p.id = w.project_id JOIN tenants t ON t.id = p.tenant_id \
           WHERE w.active AND NOT t.suspended) AS found \
         WHERE found.first <= {now} ORDER BY found.first"
    );
    let statement = Statement::from_string(database.get_database_backend(), sql);
    let rows = database.query_all_raw(statement).await?;
    let endpoint = |row: &QueryResult| {
        Ok(DueEndpoint {
            webhook: row.try_get_by_index(0)?,
            project: row.try_get_by_index(1)?,
            tenant: row.try_get_by_index(2)?,
        })
    };
    rows.iter().map(endpoint).collect()
}

async fn served_of(
    database: &DatabaseConnection,
    endpoints: HashSet<Uuid>,
) -> Result<HashMap<Uuid, DueEndpoint>, StoreError> {
    let found = served()
        .select_only()
        .columns([webhooks::Column::Id, webhooks::Column::ProjectId])
        .column(projects::Column::TenantId)
        .filter(webhooks::Column::Id.is_in(endpoints));
    let found: Vec<(Uuid, Uuid, Uuid)> = found.into_tuple().all(database).await?;
    let endpoint = |(webhook, project, tenant)| (webhook, DueEndpoint { webhook, project, tenant });
    Ok(found.into_iter().map(endpoint).collect())
}

async fn candidates(
    database: &DatabaseConnection,
    most: usize,
    room: &ClaimCapacity,
    now: Time,
) -> Result<Vec<Uuid>, StoreError> {
    let due = || {
        let due = Entity::find().select_only().filter(Column::Status.eq(PENDING));
        due.filter(Column::Ready.eq(true)).filter(Column::DueAt.lte(now))
    };
    let window = (most as u64).saturating_mul(LOOKED_AT);
    let oldest = due().columns([Column::Id, Column::WebhookId]).order_by_asc(Column::DueAt).limit(window);
    let oldest: Vec<(Uuid, Uuid)> = oldest.into_tuple().all(database).await?;
    let is_all = (oldest.len() as u64) < window;
    let endpoints = served_of(database, oldest.iter().map(|(_, webhook)| *webhook).collect()).await?;
    let mut choice = ClaimChoice::new(room, most);
    for (id, webhook) in oldest {
        if let Some(endpoint) = endpoints.get(&webhook) {
            choice.take(id, *endpoint);
        }
    }
    if is_all || choice.chosen.len() * 2 >= most {
        return Ok(choice.chosen);
    }
    let mut choice = ClaimChoice::new(room, most);
    let mut asked = 0;
    for endpoint in waiting_endpoints(database, now).await? {
        let left = choice.left(endpoint);
        if left == 0 {
            continue;
        }
        let its = due().column(Column::Id).filter(Column::WebhookId.eq(endpoint.webhook));
        let its = its.order_by_asc(Column::DueAt).limit(left as u64);
        for id in its.into_tuple::<Uuid>().all(database).await? {
            choice.take(id, endpoint);
        }
        asked += 1;
        if asked == ENDPOINTS {
            break;
        }
    }
    Ok(choice.chosen)
}

/// Returns the first deliveries whose bodies together fit into the byte limit, each body counted once; at least one
/// delivery.
async fn fitting(
    transaction: &DatabaseTransaction,
    due: Vec<Model>,
    bytes: usize,
) -> Result<Vec<Model>, StoreError> {
    let events: HashSet<Uuid> = due.iter().map(|row| row.event_id).collect();
    // Neither database reads a body to find its length.
    let length = Expr::cust("CAST(length(body) AS bigint)");
    let lengths = chain_events::Entity::find()
        .select_only()
        .column(chain_events::Column::Id)
        .column_as(length, "length")
        .filter(chain_events::Column::Id.is_in(events));
    let lengths: Vec<(Uuid, i64)> = lengths.into_tuple().all(transaction).await?;
    let lengths: HashMap<_, _> = lengths.into_iter().collect();
    let mut read = HashSet::new();
    let mut sum = 0_usize;
    let fits = |row: &Model| {
        if read.contains(&row.event_id) {
            return true;
        }
        let length = lengths.get(&row.event_id).copied().unwrap_or_default();
        let with = sum.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
        let fits = read.is_empty() || with <= bytes;
        if fits {
            read.insert(row.event_id);
            sum = with;
        }
        fits
    };
    Ok(due.into_iter().filter(fits).collect())
}

/// Returns the next endpoints that get no deliveries, by identifier. A search for their deliveries must begin with
/// them; otherwise it would read all waiting ones.
async fn unserved(database: &DatabaseConnection, after: Option<Uuid>) -> Result<Vec<Uuid>, StoreError> {
    let is_off = webhooks::Column::Active.eq(false);
    let mut next = webhooks::Entity::find()
        .select_only()
        .column(webhooks::Column::Id)
        .join(JoinType::InnerJoin, webhooks::Relation::Project.def())
        .join(JoinType::InnerJoin, projects::Relation::Tenant.def())
        .filter(Condition::any().add(is_off).add(tenants::Column::Suspended.eq(true)))
        .order_by_asc(webhooks::Column::Id)
        .limit(UNSERVED as u64);
    if let Some(after) = after {
        next = next.filter(webhooks::Column::Id.gt(after));
    }
    Ok(next.into_tuple().all(database).await?)
}

async fn claim(
    transaction: &DatabaseTransaction,
    chosen: Vec<Uuid>,
    bytes: usize,
    lease: Duration,
    now: Time,
) -> Result<Vec<DueDelivery>, StoreError> {
    // Deliveries that another dispatcher has locked are being claimed by it.
    let due = Entity::find()
        .filter(Column::Id.is_in(chosen))
        .filter(Column::Status.eq(PENDING))
        .filter(Column::DueAt.lte(now))
        .order_by_asc(Column::DueAt)
        .order_by_asc(Column::Id)
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked);
    let mut due = due.all(transaction).await?;
    let ids: HashSet<Uuid> = due.iter().map(|row| row.webhook_id).collect();
    let endpoints = served().filter(webhooks::Column::Id.is_in(ids)).select_also(projects::Entity);
    let endpoint = |(row, project): (webhooks::Model, Option<projects::Model>)| {
        Some((row.id, (Arc::new(Webhook::from(row)), project?.tenant_id)))
    };
    let endpoints: HashMap<Uuid, (Arc<Webhook>, TenantId)> =
        endpoints.all(transaction).await?.into_iter().filter_map(endpoint).collect();
    due.retain(|row| endpoints.contains_key(&row.webhook_id));
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let due = fitting(transaction, due, bytes).await?;
    let leased_until = now.plus(lease);
    Entity::update_many()
        .col_expr(Column::DueAt, Expr::value(leased_until))
        .col_expr(Column::Ready, Expr::value(false))
        .filter(Column::Id.is_in(due.iter().map(|row| row.id)))
        .exec(transaction)
        .await?;
    let events: HashSet<Uuid> = due.iter().map(|row| row.event_id).collect();
    let bodies = chain_events::Entity::find()
        .select_only()
        .columns([chain_events::Column::Id, chain_events::Column::Body])
        .filter(chain_events::Column::Id.is_in(events));
    let bodies: Vec<(Uuid, Vec<u8>)> = bodies.into_tuple().all(transaction).await?;
    let bodies: HashMap<Uuid, Arc<[u8]>> = bodies.into_iter().map(|(id, body)| (id, body.into())).collect();
    let claimed = |row: Model| {
        let endpoint = endpoints.get(&row.webhook_id).cloned();
        let (webhook, tenant) = endpoint.ok_or(StoreError::NotFound("webhook"))?;
        let body = bodies.get(&row.event_id).cloned();
        Ok(DueDelivery {
            id: DeliveryId(row.id.as_u128()),
            webhook,
            tenant,
            event: ChainEventId(row.event_id.as_u128()),
            body: body.ok_or(StoreError::NotFound("event"))?,
            replay: row.replay,
            attempts: u32::try_from(row.attempts)
                .map_err(|_| unreadable("number of attempts", row.attempts))?,
            created_at: time(row.created_at),
            due_at: time(row.due_at),
            leased_until,
        })
    };
    due.into_iter().map(claimed).collect()
}

impl Store {
    /// Claims up to `most` deliveries that are due at `now`, to active endpoints of tenants that are not suspended,
    /// within `room`. No other dispatcher gets them until `lease` is over. Large bodies can reduce their number
    /// although more are due.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn claim_deliveries(
        &self,
        most: usize,
        room: &ClaimCapacity,
        lease: Duration,
        now: Time,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        self.put_in_line(now).await?;
        // Read outside of the transaction, so that looking takes no lock.
        let chosen = self.read(async |database| candidates(database, most, room, now).await).await?;
        if chosen.is_empty() {
            return Ok(Vec::new());
        }
        let claim = async |transaction: &DatabaseTransaction| {
            claim(transaction, chosen, room.bytes, lease, now).await
        };
        self.database.transact_concurrently(claim).await
    }

    async fn put_in_line(&self, now: Time) -> Result<(), StoreError> {
        let first = come_due(now).into_tuple::<Uuid>();
        if self.read(async |database| Ok(first.one(database).await?)).await?.is_none() {
            return Ok(());
        }
        self.database
            .transact_concurrently(async |transaction| {
                // Deliveries that another dispatcher has locked are made ready or claimed by it.
                let found = come_due(now).limit(COME_DUE);
                let found = found.lock_with_behavior(LockType::Update, LockBehavior::SkipLocked);
                let found: Vec<Uuid> = found.into_tuple().all(transaction).await?;
                Entity::update_many()
                    .col_expr(Column::Ready, Expr::value(true))
                    .filter(Column::Id.is_in(found))
                    .exec(transaction)
                    .await?;
                Ok(())
            })
            .await
    }

    /// Makes claimed deliveries due as before, because no attempt was made. Does nothing for those that another
    /// dispatcher has claimed since.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn release_deliveries(&self, released: &[ReleasedDelivery]) -> Result<(), StoreError> {
        let mut alike: BTreeMap<(i64, i64), Vec<Uuid>> = BTreeMap::new();
        for one in released {
            let times = (moment(one.leased_until), moment(one.due_at));
            alike.entry(times).or_default().push(Uuid::from_u128(one.id.0));
        }
        if alike.is_empty() {
            return Ok(());
        }
        self.database
            .transact_concurrently(async |transaction| {
                for ((leased_until, due_at), ids) in alike {
                    Entity::update_many()
                        .col_expr(Column::DueAt, Expr::value(due_at))
                        .col_expr(Column::Ready, Expr::value(true))
                        .filter(Column::Id.is_in(ids))
                        .filter(Column::Status.eq(PENDING))
                        .filter(Column::DueAt.eq(leased_until))
                        .exec(transaction)
                        .await?;
                }
                Ok(())
            })
            .await
    }

    /// Gives up at most `most` deliveries that were made before `made_before` and wait for an inactive endpoint or one
    /// of a suspended tenant, and returns their number.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn give_up_waiting_deliveries(
        &self,
        made_before: Time,
        why: &str,
        most: u64,
        now: Time,
    ) -> Result<u64, StoreError> {
        let mut old = Vec::new();
        let mut after = None;
        while (old.len() as u64) < most {
            let page = self.read(async |database| unserved(database, after).await).await?;
            let left = most - old.len() as u64;
            let its = Entity::find()
                .select_only()
                .column(Column::Id)
                .filter(Column::Status.eq(PENDING))
                .filter(any_position())
                .filter(Column::WebhookId.is_in(page.iter().copied()))
                .filter(Column::DueAt.lte(now))
                .filter(Column::CreatedAt.lt(made_before))
                .limit(left);
            let its = self.read(async |database| Ok(its.into_tuple::<Uuid>().all(database).await?));
            old.extend(its.await?);
            after = page.last().copied();
            if page.len() < UNSERVED {
                break;
            }
        }
        if old.is_empty() {
            return Ok(0);
        }
        self.database
            .transact_concurrently(async |transaction| {
                let done = Entity::update_many()
                    .col_expr(Column::Status, Expr::value(FAILED))
                    .col_expr(Column::LastError, Expr::value(why))
                    .col_expr(Column::FinishedAt, Expr::value(now))
                    .filter(Column::Id.is_in(old))
                    .filter(Column::Status.eq(PENDING))
                    .filter(Column::DueAt.lte(now))
                    .exec(transaction)
                    .await?;
                Ok(done.rows_affected)
            })
            .await
    }

    /// Returns the earliest due time of the deliveries that are due at `now`, if any.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn oldest_due_delivery(&self, now: Time) -> Result<Option<Time>, StoreError> {
        let oldest = |ready: bool| {
            Entity::find()
                .select_only()
                .column(Column::DueAt)
                .filter(Column::Status.eq(PENDING))
                .filter(Column::Ready.eq(ready))
                .filter(Column::DueAt.lte(now))
                .order_by_asc(Column::DueAt)
                .into_tuple::<i64>()
        };
        self.read(async |database| {
            let in_line = oldest(true).one(database).await?;
            let come_due = oldest(false).one(database).await?;
            Ok(in_line.into_iter().chain(come_due).min().map(time))
        })
        .await
    }
}
