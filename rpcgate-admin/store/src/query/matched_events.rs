//! Stores the events of a block with the subscriptions that they matched: the log of their projects, and deliveries.
//!
//! All identifiers are derived from the content, so that storing a row twice has no effect. A block that is too large
//! for one transaction is stored in several, and after a crash from the start.

use super::delivery_status::{HELD, PENDING, WITHHELD};
use super::id::{ChainEventId, DeliveryId, SubscriptionId, WebhookId};
use super::value::moment;
use super::withheld_events::note_withheld;
use crate::StoreError;
use crate::entity::{chain_events, deliveries, project_events, projects, tenants, webhooks};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::event::{BlockRef, ChainEvent};
use rpcgate_core::secret::KeyHash;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, JoinType, QueryFilter, QuerySelect, RelationTrait, Select,
};
use std::collections::{BTreeSet, HashMap, HashSet};
use uuid::Uuid;

/// The number of deliveries that one transaction makes. It must end within the deadline of writes, and others wait for
/// it.
pub(super) const AT_ONCE: usize = 2_000;

pub(super) const BYTES_AT_ONCE: usize = 4 << 20;

/// The number of rows per statement, limited by the number of values that SQLite takes.
const ROWS: usize = 500;

/// An event with the subscriptions that it matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatchedEvent {
    /// The event.
    pub event: ChainEvent,
    /// The body of its deliveries.
    pub body: Vec<u8>,
    /// The subscriptions that it matches.
    pub matched: Vec<MatchedSubscription>,
}

/// A subscription that an event matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatchedSubscription {
    /// The subscription.
    pub subscription: SubscriptionId,
    /// Its endpoint.
    pub webhook: WebhookId,
    /// The endpoint's project.
    pub project: ProjectId,
    /// The number of blocks on top of the event's block before it is delivered.
    pub confirmations: u32,
    /// True if it is delivered. Otherwise, because too many deliveries of the endpoint wait, it is in the project's
    /// log, and its delivery is marked as withheld until a replay sends it.
    pub is_delivered: bool,
}

/// The events of a block, with the time that locates them later.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventRows<'e> {
    pub(super) chain: &'e str,
    pub(super) block: &'e BlockRef,
    pub(super) events: &'e [MatchedEvent],
}

/// Splits a block into parts that are stored in one transaction each: pairs of an event and one of its subscriptions.
pub(super) fn parts(events: &[MatchedEvent], most: usize) -> Vec<Vec<(usize, usize)>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut bytes = 0;
    for (at, event) in events.iter().enumerate() {
        for (number, _) in event.matched.iter().enumerate() {
            let more = if number == 0 || part.is_empty() { event.body.len() } else { 0 };
            if !part.is_empty() && (part.len() >= most || bytes + more > BYTES_AT_ONCE) {
                parts.push(std::mem::take(&mut part));
                bytes = event.body.len();
            } else {
                bytes += more;
            }
            part.push((at, number));
        }
    }
    // The last part, which may be empty, also finishes the block.
    parts.push(part);
    parts
}

/// Returns a version 7 UUID with this time, and the beginning of the digest of `content` instead of random bits.
fn derived(at: Time, content: &str) -> u128 {
    let digest = KeyHash::of(content).0;
    let mut high = [0; 8];
    let mut low = [0; 8];
    high.copy_from_slice(&digest[..8]);
    low.copy_from_slice(&digest[8..16]);
    let time = u128::from(at.millis() & 0xffff_ffff_ffff) << 80;
    let version = 7 << 76 | u128::from(u64::from_be_bytes(high) & 0xfff) << 64;
    time | version | 0b10 << 62 | u128::from(u64::from_be_bytes(low) >> 2)
}

pub(super) fn event_ids(events: &[MatchedEvent], appended_at: Time) -> Vec<ChainEventId> {
    // Events with the same content are distinguished by their number.
    let mut seen: HashMap<&[u8], u32> = HashMap::new();
    let id = |event| {
        let MatchedEvent { body, .. }: &MatchedEvent = event;
        let number = seen.entry(body).or_default();
        *number += 1;
        let content = format!("{} {number} {}", appended_at.micros(), String::from_utf8_lossy(body));
        ChainEventId(derived(appended_at, &content))
    };
    events.iter().map(id).collect()
}

fn delivery_id(event: ChainEventId, webhook: WebhookId, confirmations: u32, at: Time) -> DeliveryId {
    DeliveryId(derived(at, &format!("{event} {webhook} {confirmations}")))
}

pub(super) fn taking_back(id: Uuid) -> Uuid {
    Uuid::from_u128(id.as_u128() ^ 1)
}

/// Selects the endpoints that get deliveries: active ones of undeleted projects and tenants that are not suspended.
fn subscribed_webhooks() -> Select<webhooks::Entity> {
    webhooks::Entity::find()
        .join(JoinType::InnerJoin, webhooks::Relation::Project.def())
        .join(JoinType::InnerJoin, projects::Relation::Tenant.def())
        .filter(webhooks::Column::Active.eq(true))
        .filter(projects::Column::DeletedAt.is_null())
        .filter(tenants::Column::Suspended.eq(false))
}

pub(super) async fn active_webhooks(
    transaction: &DatabaseTransaction,
    webhooks: HashSet<Uuid>,
) -> Result<HashSet<Uuid>, StoreError> {
    let all: Vec<_> = webhooks.into_iter().collect();
    let mut active = HashSet::with_capacity(all.len());
    for some in all.chunks(ROWS) {
        let found = subscribed_webhooks().select_only().column(webhooks::Column::Id);
        let found = found.filter(webhooks::Column::Id.is_in(some.iter().copied()));
        active.extend(found.into_tuple::<Uuid>().all(transaction).await?);
    }
    Ok(active)
}

pub(super) async fn store(
    transaction: &DatabaseTransaction,
    rows: EventRows<'_>,
    ids: &[ChainEventId],
    part: &[(usize, usize)],
    (appended_at, now): (Time, Time),
) -> Result<(), StoreError> {
    let EventRows { chain, block, events } = rows;
    let matched = || {
        part.iter().filter_map(|(at, number)| {
            let event = events.get(*at)?;
            let id = ids.get(*at)?;
            Some((event, *id, event.matched.get(*number)?))
        })
    };
    let active = active_webhooks(
        transaction,
        matched().map(|(_, _, matched)| Uuid::from_u128(matched.webhook.0)).collect(),
    )
    .await?;
    let active_matched =
        || matched().filter(|(_, _, matched)| active.contains(&Uuid::from_u128(matched.webhook.0)));
    let created_at = moment(appended_at);
    let mut stored = HashSet::new();
    let mut logged = HashSet::new();
    let mut withheld = BTreeSet::new();
    let mut event_rows = Vec::new();
    let mut log_rows = Vec::new();
    let mut delivery_rows = Vec::new();
    for (event, id, matched) in active_matched() {
        if stored.insert(id) {
            event_rows.push(chain_events::ActiveModel {
                id: Set(Uuid::from_u128(id.0)),
                chain: Set(chain.to_owned()),
                event_type: Set(event.event.kind.name().to_owned()),
                block_num: Set(height(block.height)),
                block_hash: Set(block.hash.clone()),
                removed: Set(false),
                body: Set(event.body.clone()),
                created_at: Set(created_at),
            });
        }
        if logged.insert((matched.project, id)) {
            log_rows.push(project_events::ActiveModel {
                project_id: Set(Uuid::from_u128(matched.project.0)),
                event_id: Set(Uuid::from_u128(id.0)),
                created_at: Set(created_at),
            });
        }
        delivery_rows.push(delivery(chain, block, (id, matched), (appended_at, now)));
        if !matched.is_delivered {
            withheld.insert(Uuid::from_u128(matched.webhook.0));
        }
    }
    insert_new(transaction, event_rows, &[chain_events::Column::Id]).await?;
    let pair = [project_events::Column::ProjectId, project_events::Column::EventId];
    insert_new(transaction, log_rows, &pair).await?;
    insert_new(transaction, delivery_rows, &[deliveries::Column::Id]).await?;
    note_withheld(transaction, withheld, now).await
}

fn delivery(
    chain: &str,
    block: &BlockRef,
    (event, matched): (ChainEventId, &MatchedSubscription),
    (appended_at, now): (Time, Time),
) -> deliveries::ActiveModel {
    let confirmations = matched.confirmations;
    let is_held = confirmations > 0 && matched.is_delivered;
    let status = match matched.is_delivered {
        false => WITHHELD,
        true if is_held => HELD,
        true => PENDING,
    };
    let id = delivery_id(event, matched.webhook, confirmations, appended_at);
    deliveries::ActiveModel {
        id: Set(Uuid::from_u128(id.0)),
        webhook_id: Set(Uuid::from_u128(matched.webhook.0)),
        subscription_id: Set(Some(Uuid::from_u128(matched.subscription.0))),
        event_id: Set(Uuid::from_u128(event.0)),
        status: Set(status.to_owned()),
        replay: Set(false),
        attempts: Set(0),
        due_at: Set(moment(now)),
        ready: Set(true),
        held_chain: Set(is_held.then(|| chain.to_owned())),
        held_until: Set(is_held.then(|| height(block.height.saturating_add(confirmations.into())))),
        last_status: Set(None),
        last_error: Set(None),
        created_at: Set(moment(appended_at)),
        finished_at: Set(None),
    }
}

pub(super) async fn insert_new<E, A>(
    transaction: &DatabaseTransaction,
    rows: Vec<A>,
    key: &[E::Column],
) -> Result<(), StoreError>
where
    E: EntityTrait,
    A: sea_orm::ActiveModelTrait<Entity = E> + Clone,
{
    let known = OnConflict::columns(key.iter().copied()).do_nothing().to_owned();
    for some in rows.chunks(ROWS) {
        let insert = E::insert_many(some.iter().cloned()).on_conflict(known.clone());
        insert.exec_without_returning(transaction).await?;
    }
    Ok(())
}

/// Returns the column value of a height. No height of a chain exceeds an `i64`.
pub(super) fn height(height: u64) -> i64 {
    i64::try_from(height).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::event::EventType;

    fn event(body: usize, matched: usize) -> MatchedEvent {
        let subscription = |number: usize| MatchedSubscription {
            subscription: SubscriptionId(number as u128),
            webhook: WebhookId(number as u128),
            project: ProjectId(1),
            confirmations: 0,
            is_delivered: true,
        };
        MatchedEvent {
            event: ChainEvent::new(EventType::NewBlock),
            body: vec![b' '; body],
            matched: (0..matched).map(subscription).collect(),
        }
    }

    #[test]
    fn parts_have_everything_once_in_its_order_and_are_bounded() {
        let events =
            [event(1, 3), event(BYTES_AT_ONCE, 1), event(1, 0), event(BYTES_AT_ONCE, 2), event(1, 9)];
        let all = parts(&events, 4);
        let sizes: Vec<_> = all.iter().map(Vec::len).collect();
        assert_eq!(sizes, [3, 1, 2, 4, 4, 1]);
        let expected = [(0, 3), (1, 1), (3, 2), (4, 9)];
        let expected: Vec<_> =
            expected.into_iter().flat_map(|(at, count)| (0..count).map(move |number| (at, number))).collect();
        assert_eq!(all.concat(), expected);
        assert_eq!(parts(&[], 4), [vec![]]);
    }

    #[test]
    fn ids_are_stable_and_differ_for_events_with_the_same_content() {
        let at = Time::from_micros(1_790_000_000_123_456);
        let events = [event(5, 1), event(5, 1), event(6, 1)];
        let ids = event_ids(&events, at);
        assert_eq!(ids, event_ids(&events, at));
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 3);
        assert_ne!(ids, event_ids(&events, Time::from_micros(at.micros() + 1)));
        let id = Uuid::from_u128(ids[0].0);
        assert_eq!((id.get_version_num(), ids[0].0 >> 80), (7, u128::from(at.millis())));
        assert_eq!((taking_back(taking_back(id)), taking_back(id) == id), (id, false));
    }
}
