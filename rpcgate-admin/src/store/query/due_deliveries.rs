//! Deliveries that are due. A dispatcher claims a delivery before it makes an attempt: until its lease is over no other
//! dispatcher gets it, and if the dispatcher was killed, the delivery is due again then.
//!
//! A claim takes what has been due for longest, but from no endpoint and no project more than there is room for, so that
//! one of them cannot fill all places. If the deliveries that have been due for longest are nearly all of endpoints
//! without room, because one of them has many, the claim goes from endpoint to endpoint instead: its cost then depends on the number
//! of endpoints with deliveries, and not on the number of those.

use super::id::{ChainEventId, DeliveryId, WebhookId};
use super::value::{moment, time, unreadable};
use super::webhooks::Webhook;
use crate::store::entity::deliveries::{Column, Entity, Model};
use crate::store::entity::{chain_events, projects, tenants, webhooks};
use crate::store::{Store, StoreError};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Condition, Expr, LockBehavior, LockType};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseConnection, DatabaseTransaction, EntityTrait, JoinType,
    QueryFilter, QueryOrder, QueryResult, QuerySelect, RelationTrait, Select, Statement,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The status of a delivery that is due at some time.
pub(super) const PENDING: &str = "pending";
/// The status of a delivery that was given up.
pub(super) const FAILED: &str = "failed";
/// Due deliveries that a claim looks at, for each one that it may take.
const LOOKED_AT: u64 = 4;
/// Endpoints that a claim takes from one by one.
const ENDPOINTS: usize = 256;

/// A delivery that this dispatcher is to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DueDelivery {
    /// Its identifier.
    pub id: DeliveryId,
    /// The endpoint.
    pub webhook: Arc<Webhook>,
    /// The event that it tells of.
    pub event: ChainEventId,
    /// The body, which is the same in each attempt.
    pub body: Arc<[u8]>,
    /// Whether it repeats an earlier delivery.
    pub replay: bool,
    /// The attempts that have ended.
    pub attempts: u32,
    /// When it was made.
    pub created_at: Time,
    /// When it became due, which is its place among those that wait.
    pub due_at: Time,
    /// When other dispatchers may claim it.
    pub leased_until: Time,
}

/// A claimed delivery that is given back without an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReleasedDelivery {
    /// Its identifier.
    pub id: DeliveryId,
    /// When it was due before it was claimed.
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

/// How many deliveries of each endpoint, and of all endpoints of each project, there is room for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRoom {
    /// Of an endpoint that is not listed.
    pub each: usize,
    /// Of these endpoints; 0 claims none.
    pub listed: HashMap<WebhookId, usize>,
    /// Of a project that is not in `projects`.
    pub each_project: usize,
    /// Of these projects.
    pub projects: HashMap<ProjectId, usize>,
}

impl ClaimRoom {
    fn of(&self, endpoint: Endpoint) -> usize {
        self.listed.get(&WebhookId(endpoint.webhook.as_u128())).copied().unwrap_or(self.each)
    }

    fn of_project(&self, endpoint: Endpoint) -> usize {
        let project = ProjectId(endpoint.project.as_u128());
        self.projects.get(&project).copied().unwrap_or(self.each_project)
    }
}

/// An endpoint that gets deliveries, with its project.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Endpoint {
    webhook: Uuid,
    project: Uuid,
}

/// What a claim takes: from no endpoint and no project more than there is room for.
struct Choice<'r> {
    room: &'r ClaimRoom,
    most: usize,
    taken: HashMap<Uuid, usize>,
    of_projects: HashMap<Uuid, usize>,
    chosen: Vec<Uuid>,
}

impl<'r> Choice<'r> {
    fn new(room: &'r ClaimRoom, most: usize) -> Self {
        Choice { room, most, taken: HashMap::new(), of_projects: HashMap::new(), chosen: Vec::new() }
    }

    /// How many more may be taken of an endpoint.
    fn left(&self, endpoint: Endpoint) -> usize {
        let taken = |of: &HashMap<Uuid, usize>, id| of.get(&id).copied().unwrap_or_default();
        let its = self.room.of(endpoint).saturating_sub(taken(&self.taken, endpoint.webhook));
        let project = self.room.of_project(endpoint);
        let project = project.saturating_sub(taken(&self.of_projects, endpoint.project));
        its.min(project).min(self.most.saturating_sub(self.chosen.len()))
    }

    fn take(&mut self, id: Uuid, endpoint: Endpoint) {
        if self.left(endpoint) > 0 {
            *self.taken.entry(endpoint.webhook).or_default() += 1;
            *self.of_projects.entry(endpoint.project).or_default() += 1;
            self.chosen.push(id);
        }
    }
}

/// The endpoints that get deliveries: those that are switched on, of tenants that are not suspended.
fn served() -> Select<webhooks::Entity> {
    webhooks::Entity::find()
        .join(JoinType::InnerJoin, webhooks::Relation::Project.def())
        .join(JoinType::InnerJoin, projects::Relation::Tenant.def())
        .filter(webhooks::Column::Active.eq(true))
        .filter(tenants::Column::Suspended.eq(false))
}

/// Those of them that have due deliveries, the one that has waited longest first.
async fn waiting_endpoints(database: &DatabaseConnection, now: Time) -> Result<Vec<Endpoint>, StoreError> {
    let now = moment(now);
    // Each step is one look into an index by status and endpoint.
    let sql = format!(
        "WITH RECURSIVE due(webhook_id) AS ( \
           SELECT (SELECT d.webhook_id FROM deliveries d WHERE d.status = '{PENDING}' \
                   ORDER BY d.webhook_id LIMIT 1) \
           UNION ALL \
           SELECT (SELECT d.webhook_id FROM deliveries d WHERE d.status = '{PENDING}' \
                   AND d.webhook_id > due.webhook_id ORDER BY d.webhook_id LIMIT 1) \
           FROM due WHERE due.webhook_id IS NOT NULL) \
         SELECT found.webhook_id, found.project_id FROM ( \
           SELECT due.webhook_id AS webhook_id, w.project_id AS project_id, ( \
             SELECT d.due_at FROM deliveries d WHERE d.status = '{PENDING}' \
             AND d.webhook_id = due.webhook_id ORDER BY d.due_at LIMIT 1) AS first \
           FROM due JOIN webhooks w ON w.id = due.webhook_id \
           JOIN projects p ON p.id = w.project_id JOIN tenants t ON t.id = p.tenant_id \
           WHERE w.active AND NOT t.suspended) AS found \
         WHERE found.first <= {now} ORDER BY found.first"
    );
    let statement = Statement::from_string(database.get_database_backend(), sql);
    let rows = database.query_all_raw(statement).await?;
    let endpoint = |row: &QueryResult| {
        Ok(Endpoint { webhook: row.try_get_by_index(0)?, project: row.try_get_by_index(1)? })
    };
    rows.iter().map(endpoint).collect()
}

/// Those of these endpoints that get deliveries.
async fn served_of(
    database: &DatabaseConnection,
    endpoints: HashSet<Uuid>,
) -> Result<HashMap<Uuid, Endpoint>, StoreError> {
    let found = served()
        .select_only()
        .columns([webhooks::Column::Id, webhooks::Column::ProjectId])
        .filter(webhooks::Column::Id.is_in(endpoints));
    let found: Vec<(Uuid, Uuid)> = found.into_tuple().all(database).await?;
    Ok(found.into_iter().map(|(webhook, project)| (webhook, Endpoint { webhook, project })).collect())
}

/// The deliveries to claim.
async fn candidates(
    database: &DatabaseConnection,
    most: usize,
    room: &ClaimRoom,
    now: Time,
) -> Result<Vec<Uuid>, StoreError> {
    let due = || {
        let due = Entity::find().select_only().filter(Column::Status.eq(PENDING));
        due.filter(Column::DueAt.lte(moment(now)))
    };
    let window = (most as u64).saturating_mul(LOOKED_AT);
    let oldest = due().columns([Column::Id, Column::WebhookId]).order_by_asc(Column::DueAt).limit(window);
    let oldest: Vec<(Uuid, Uuid)> = oldest.into_tuple().all(database).await?;
    let is_all = (oldest.len() as u64) < window;
    let endpoints = served_of(database, oldest.iter().map(|(_, webhook)| *webhook).collect()).await?;
    let mut choice = Choice::new(room, most);
    for (id, webhook) in oldest {
        if let Some(endpoint) = endpoints.get(&webhook) {
            choice.take(id, *endpoint);
        }
    }
    if is_all || choice.chosen.len() * 2 >= most {
        return Ok(choice.chosen);
    }
    let mut choice = Choice::new(room, most);
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

async fn claim(
    transaction: &DatabaseTransaction,
    chosen: Vec<Uuid>,
    lease: Duration,
    now: Time,
) -> Result<Vec<DueDelivery>, StoreError> {
    // What another dispatcher has locked, it is claiming.
    let due = Entity::find()
        .filter(Column::Id.is_in(chosen))
        .filter(Column::Status.eq(PENDING))
        .filter(Column::DueAt.lte(moment(now)))
        .order_by_asc(Column::DueAt)
        .order_by_asc(Column::Id)
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked);
    let mut due = due.all(transaction).await?;
    let ids: HashSet<Uuid> = due.iter().map(|row| row.webhook_id).collect();
    let endpoints = served().filter(webhooks::Column::Id.is_in(ids));
    let endpoints: HashMap<Uuid, Arc<Webhook>> =
        endpoints.all(transaction).await?.into_iter().map(|row| (row.id, Arc::new(row.into()))).collect();
    due.retain(|row| endpoints.contains_key(&row.webhook_id));
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let leased_until = now.plus(lease);
    Entity::update_many()
        .col_expr(Column::DueAt, Expr::value(moment(leased_until)))
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
        let body = bodies.get(&row.event_id).cloned();
        Ok(DueDelivery {
            id: DeliveryId(row.id.as_u128()),
            webhook: endpoints.get(&row.webhook_id).cloned().ok_or(StoreError::NotFound("webhook"))?,
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
    /// Claims up to `most` of the deliveries that are due at `now`, to endpoints that are switched on and whose tenants are
    /// not suspended, as far as there is `room`: until
    /// `lease` is over, no other dispatcher gets them.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn claim_deliveries(
        &self,
        most: usize,
        room: &ClaimRoom,
        lease: Duration,
        now: Time,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        // Read outside of the transaction, so that looking takes no lock.
        let chosen = self.read(async |database| candidates(database, most, room, now).await).await?;
        if chosen.is_empty() {
            return Ok(Vec::new());
        }
        let claim = async |transaction: &DatabaseTransaction| claim(transaction, chosen, lease, now).await;
        self.database.transact_beside(claim).await
    }

    /// Makes claimed deliveries due again as they were before, because no attempt was made. Nothing is done for those that
    /// another dispatcher has claimed since.
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
            .transact_beside(async |transaction| {
                for ((leased_until, due_at), ids) in alike {
                    Entity::update_many()
                        .col_expr(Column::DueAt, Expr::value(due_at))
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

    /// Gives up the deliveries that were made before `made_before` and wait for an endpoint that is switched off, or whose
    /// tenant is suspended, up to `most` of them, and returns their number.
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
        let old = self.read(async |database| {
            let old = Entity::find()
                .select_only()
                .column(Column::Id)
                .inner_join(webhooks::Entity)
                .join(JoinType::InnerJoin, webhooks::Relation::Project.def())
                .join(JoinType::InnerJoin, projects::Relation::Tenant.def())
                .filter(
                    Condition::any()
                        .add(webhooks::Column::Active.eq(false))
                        .add(tenants::Column::Suspended.eq(true)),
                )
                .filter(Column::Status.eq(PENDING))
                .filter(Column::CreatedAt.lt(moment(made_before)))
                .filter(Column::DueAt.lte(moment(now)))
                .limit(most);
            Ok::<_, StoreError>(old.into_tuple::<Uuid>().all(database).await?)
        });
        let old = old.await?;
        if old.is_empty() {
            return Ok(0);
        }
        self.database
            .transact_beside(async |transaction| {
                let done = Entity::update_many()
                    .col_expr(Column::Status, Expr::value(FAILED))
                    .col_expr(Column::LastError, Expr::value(why))
                    .col_expr(Column::FinishedAt, Expr::value(moment(now)))
                    .filter(Column::Id.is_in(old))
                    .filter(Column::Status.eq(PENDING))
                    .filter(Column::DueAt.lte(moment(now)))
                    .exec(transaction)
                    .await?;
                Ok(done.rows_affected)
            })
            .await
    }

    /// When the delivery that has been due for longest became due, if any is due at `now`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn oldest_due_delivery(&self, now: Time) -> Result<Option<Time>, StoreError> {
        let oldest = Entity::find()
            .select_only()
            .column(Column::DueAt)
            .filter(Column::Status.eq(PENDING))
            .filter(Column::DueAt.lte(moment(now)))
            .order_by_asc(Column::DueAt);
        self.read(async |database| Ok(oldest.into_tuple::<i64>().one(database).await?.map(time))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_claim_takes_what_waited_longest_within_the_room_of_each_endpoint_and_project(
            due in proptest::collection::vec(0_u128..5, 0..40),
            each in 0_usize..4,
            listed in proptest::collection::hash_map(0_u128..5, 0_usize..6, 0..4),
            each_project in 0_usize..8,
            projects in proptest::collection::hash_map(0_u128..2, 0_usize..10, 0..2),
            most in 0_usize..20,
        ) {
            let endpoint = |webhook: u128| Endpoint {
                webhook: Uuid::from_u128(webhook),
                project: Uuid::from_u128(webhook % 2),
            };
            let rows: Vec<_> =
                due.iter().enumerate().map(|(id, webhook)| (Uuid::from_u128(id as u128), *webhook)).collect();
            let listed = listed.into_iter().map(|(id, room)| (WebhookId(id), room)).collect();
            let projects = projects.into_iter().map(|(id, room)| (ProjectId(id), room)).collect();
            let room = ClaimRoom { each, listed, each_project, projects };
            let mut choice = Choice::new(&room, most);
            for (id, webhook) in &rows {
                choice.take(*id, endpoint(*webhook));
            }
            let chosen = choice.chosen;
            prop_assert!(chosen.len() <= most && chosen.is_sorted());
            let its = |so: &dyn Fn(u128) -> bool| -> Vec<Uuid> {
                rows.iter().filter(|(_, of)| so(*of)).map(|(id, _)| *id).collect()
            };
            let taken = |all: &[Uuid]| all.iter().filter(|id| chosen.contains(id)).copied().collect::<Vec<_>>();
            for webhook in 0..5 {
                let all = its(&|of| of == webhook);
                let taken = taken(&all);
                prop_assert!(taken.len() <= room.of(endpoint(webhook)));
                prop_assert_eq!(&taken, &all[..taken.len()], "its oldest");
            }
            let mut could = 0;
            for project in 0..2 {
                let most = room.of_project(endpoint(project));
                prop_assert!(taken(&its(&|of| of % 2 == project)).len() <= most);
                let its = (0..5).filter(|webhook| webhook % 2 == project);
                let its = its.map(|webhook| its_count(&due, webhook).min(room.of(endpoint(webhook))));
                could += its.sum::<usize>().min(most);
            }
            prop_assert_eq!(chosen.len(), could.min(most));
        }
    }

    fn its_count(due: &[u128], webhook: u128) -> usize {
        due.iter().filter(|of| **of == webhook).count()
    }
}
