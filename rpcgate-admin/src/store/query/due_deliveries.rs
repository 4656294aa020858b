//! Deliveries that are due. A dispatcher claims a delivery before it makes an attempt: until its lease is over no other
//! dispatcher gets it, and if the dispatcher was killed, the delivery is due again then.
//!
//! A claim takes what has been due for longest, but from no endpoint more than there is room for, so that one endpoint
//! cannot fill all places. If the deliveries that have been due for longest are nearly all of endpoints without room,
//! because one of them has many, the claim goes from endpoint to endpoint instead: its cost then depends on the number
//! of endpoints with deliveries, and not on the number of those.

use super::id::{ChainEventId, DeliveryId, WebhookId};
use super::value::{moment, time, unreadable};
use super::webhooks::Webhook;
use crate::store::entity::deliveries::{Column, Entity, Model};
use crate::store::entity::{chain_events, webhooks};
use crate::store::{Store, StoreError};
use rpcgate_core::clock::Time;
use sea_orm::sea_query::{Expr, LockBehavior, LockType};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseConnection, DatabaseTransaction, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect, Statement,
};
use std::collections::{HashMap, HashSet};
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
    /// When other dispatchers may claim it.
    pub leased_until: Time,
}

/// How many deliveries of each endpoint there is room for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRoom {
    /// Of an endpoint that is not listed.
    pub each: usize,
    /// Of these endpoints; 0 claims none.
    pub listed: HashMap<WebhookId, usize>,
}

impl ClaimRoom {
    fn of(&self, webhook: Uuid) -> usize {
        self.listed.get(&WebhookId(webhook.as_u128())).copied().unwrap_or(self.each)
    }
}

/// Takes from `due`, in its order, at most `most`, and from no endpoint more than there is room for.
fn choose(due: Vec<(Uuid, Uuid)>, room: &ClaimRoom, most: usize) -> Vec<Uuid> {
    let mut taken: HashMap<Uuid, usize> = HashMap::new();
    let mut chosen = Vec::new();
    for (id, webhook) in due {
        let count = taken.entry(webhook).or_default();
        if *count < room.of(webhook) && chosen.len() < most {
            *count += 1;
            chosen.push(id);
        }
    }
    chosen
}

/// Endpoints that are switched on and have due deliveries, the one that has waited longest first.
async fn waiting_endpoints(database: &DatabaseConnection, now: Time) -> Result<Vec<Uuid>, StoreError> {
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
         SELECT found.webhook_id FROM ( \
           SELECT due.webhook_id AS webhook_id, ( \
             SELECT d.due_at FROM deliveries d WHERE d.status = '{PENDING}' \
             AND d.webhook_id = due.webhook_id ORDER BY d.due_at LIMIT 1) AS first \
           FROM due JOIN webhooks w ON w.id = due.webhook_id WHERE w.active) AS found \
         WHERE found.first <= {now} ORDER BY found.first"
    );
    let statement = Statement::from_string(database.get_database_backend(), sql);
    let rows = database.query_all_raw(statement).await?;
    rows.iter().map(|row| Ok(row.try_get_by_index(0)?)).collect()
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
    let endpoints: HashSet<Uuid> = oldest.iter().map(|(_, webhook)| *webhook).collect();
    let inactive = webhooks::Entity::find()
        .select_only()
        .column(webhooks::Column::Id)
        .filter(webhooks::Column::Active.eq(false))
        .filter(webhooks::Column::Id.is_in(endpoints));
    let inactive: HashSet<Uuid> = inactive.into_tuple().all(database).await?.into_iter().collect();
    let oldest = oldest.into_iter().filter(|(_, webhook)| !inactive.contains(webhook)).collect();
    let mut chosen = choose(oldest, room, most);
    if is_all || chosen.len() * 2 >= most {
        return Ok(chosen);
    }
    chosen.clear();
    let waiting = waiting_endpoints(database, now).await?;
    let with_room = waiting.into_iter().filter(|webhook| room.of(*webhook) > 0);
    for webhook in with_room.take(ENDPOINTS) {
        let left = most.saturating_sub(chosen.len()).min(room.of(webhook));
        if left == 0 {
            break;
        }
        let its = due().column(Column::Id).filter(Column::WebhookId.eq(webhook));
        let its = its.order_by_asc(Column::DueAt).limit(left as u64);
        chosen.extend(its.into_tuple::<Uuid>().all(database).await?);
    }
    Ok(chosen)
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
    let endpoints = webhooks::Entity::find()
        .filter(webhooks::Column::Id.is_in(ids))
        .filter(webhooks::Column::Active.eq(true));
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
            leased_until,
        })
    };
    due.into_iter().map(claimed).collect()
}

impl Store {
    /// Claims up to `most` of the deliveries to active endpoints that are due at `now`, as far as there is `room`: until
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

    /// Makes deliveries that were claimed until `leased_until` due again, because no attempt was made. Nothing is done for
    /// those that another dispatcher has claimed since.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn release_deliveries(
        &self,
        deliveries: &[DeliveryId],
        leased_until: Time,
        now: Time,
    ) -> Result<(), StoreError> {
        let ids: Vec<_> = deliveries.iter().map(|id| Uuid::from_u128(id.0)).collect();
        self.database
            .transact_beside(async |transaction| {
                Entity::update_many()
                    .col_expr(Column::DueAt, Expr::value(moment(now)))
                    .filter(Column::Id.is_in(ids))
                    .filter(Column::Status.eq(PENDING))
                    .filter(Column::DueAt.eq(moment(leased_until)))
                    .exec(transaction)
                    .await?;
                Ok(())
            })
            .await
    }

    /// Gives up the deliveries that were made before `made_before` and wait for an endpoint that is switched off, up to
    /// `most` of them, and returns their number.
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
                .filter(webhooks::Column::Active.eq(false))
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
        fn a_claim_takes_what_waited_longest_within_the_room_of_each_endpoint(
            due in proptest::collection::vec(0_u128..5, 0..40),
            each in 0_usize..4,
            listed in proptest::collection::hash_map(0_u128..5, 0_usize..6, 0..4),
            most in 0_usize..20,
        ) {
            let rows: Vec<_> = due
                .iter()
                .enumerate()
                .map(|(id, webhook)| (Uuid::from_u128(id as u128), Uuid::from_u128(*webhook)))
                .collect();
            let listed = listed.into_iter().map(|(id, room)| (WebhookId(id), room)).collect();
            let room = ClaimRoom { each, listed };
            let chosen = choose(rows.clone(), &room, most);
            prop_assert!(chosen.len() <= most && chosen.is_sorted());
            for webhook in (0..5).map(Uuid::from_u128) {
                let its = |id: &Uuid| rows.iter().any(|(row, of)| row == id && *of == webhook);
                let taken: Vec<_> = chosen.iter().copied().filter(its).collect();
                prop_assert!(taken.len() <= room.of(webhook));
                let all = rows.iter().filter(|(_, of)| *of == webhook).map(|(id, _)| *id);
                prop_assert_eq!(&taken, &all.take(taken.len()).collect::<Vec<_>>(), "its oldest");
            }
            let could: usize = (0..5)
                .map(Uuid::from_u128)
                .map(|webhook| rows.iter().filter(|(_, of)| *of == webhook).count().min(room.of(webhook)))
                .sum();
            prop_assert_eq!(chosen.len(), could.min(most));
        }
    }
}
