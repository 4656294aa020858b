//! Takes back the events of a block that is no longer part of its chain, in transactions that each end within the
//! deadline of writes, regardless of the number of projects and endpoints.

use super::delivery_status::{HELD, WITHHELD};
use super::keyset::page;
use super::matched_events::{BYTES_AT_ONCE, active_webhooks, insert_new, taking_back};
use super::new_deliveries::due;
use super::removal::remove;
use super::value::moment;
use crate::StoreError;
use crate::entity::followed_blocks::Model;
use crate::entity::{chain_events, deliveries, project_events};
use rpcgate_core::clock::Time;
use rpcgate_core::event::{EventType, removed_body};
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Condition;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter,
};
use uuid::Uuid;

const EVENTS_AT_ONCE: u64 = 200;

/// A position among the events of a block that is being taken back, their log entries and their deliveries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    /// The last finished event.
    event: Option<Uuid>,
    /// The last finished log entry of the events after it.
    logged: Option<LogKey>,
    /// The last finished delivery, once all log entries are finished.
    delivery: Option<Uuid>,
    is_logged: bool,
}

type LogKey = (Uuid, Uuid);

/// Takes back the events of a block after a position, and returns the next one; `None` if nothing is left.
pub(super) async fn take_back_part(
    transaction: &DatabaseTransaction,
    row: &Model,
    (position, most): (Position, u64),
    now: Time,
) -> Result<Option<Position>, StoreError> {
    use chain_events::Column as Event;
    let some = chain_events::Entity::find()
        .filter(Event::Chain.eq(row.chain.as_str()))
        .filter(Event::BlockHash.eq(row.hash.as_str()))
        .filter(Event::CreatedAt.eq(row.appended_at))
        .filter(Event::Removed.eq(false))
        .filter(Event::EventType.ne(EventType::Health.name()));
    let mut events = page(some, Event::Id, position.event, EVENTS_AT_ONCE).all(transaction).await?;
    let mut is_full = events.len() as u64 == EVENTS_AT_ONCE;
    // At least one event, within the limit on body bytes.
    let mut bytes = 0;
    let fitting = events.iter().take_while(|event| {
        let is_first = bytes == 0;
        bytes += event.body.len();
        is_first || bytes <= BYTES_AT_ONCE
    });
    let fitting = fitting.count();
    is_full |= fitting < events.len();
    events.truncate(fitting);
    let Some(last) = events.last().map(|event| event.id) else { return Ok(None) };
    let ids: Vec<_> = events.iter().map(|event| event.id).collect();
    if !position.is_logged {
        let waiting = Condition::all()
            .add(deliveries::Column::EventId.is_in(ids.iter().copied()))
            .add(deliveries::Column::Status.eq(HELD));
        if remove::<deliveries::Entity>(transaction, deliveries::Column::Id, waiting, most).await? == most {
            return Ok(Some(position));
        }
        if position.logged.is_none() {
            store_removals(transaction, events, now).await?;
        }
        if let Some(logged) = log_removals(transaction, &ids, (position.logged, most), now).await? {
            return Ok(Some(Position { logged: Some(logged), ..position }));
        }
    }
    match notify_of_removal(transaction, &ids, (position.delivery, most), now).await? {
        Some(delivery) => Ok(Some(Position { delivery: Some(delivery), is_logged: true, ..position })),
        None if is_full => Ok(Some(Position { event: Some(last), ..Position::default() })),
        None => Ok(None),
    }
}

async fn store_removals(
    transaction: &DatabaseTransaction,
    events: Vec<chain_events::Model>,
    now: Time,
) -> Result<(), StoreError> {
    let created_at = moment(now);
    let removal = |event: chain_events::Model| chain_events::ActiveModel {
        id: Set(taking_back(event.id)),
        chain: Set(event.chain),
        event_type: Set(event.event_type),
        block_num: Set(event.block_num),
        block_hash: Set(event.block_hash),
        removed: Set(true),
        body: Set(removed_body(&event.body)),
        created_at: Set(created_at),
    };
    let removals = events.into_iter().map(removal).collect();
    insert_new(transaction, removals, &[chain_events::Column::Id]).await
}

/// Stores the events that take back `events` in the log of the same projects, for at most `most` log entries after a
/// position, and returns the last; `None` if nothing is left.
async fn log_removals(
    transaction: &DatabaseTransaction,
    events: &[Uuid],
    (after, most): (Option<LogKey>, u64),
    now: Time,
) -> Result<Option<LogKey>, StoreError> {
    use project_events::Column as Place;
    let logged = project_events::Entity::find().filter(Place::EventId.is_in(events.iter().copied()));
    let logged = page(logged, (Place::EventId, Place::ProjectId), after, most).all(transaction).await?;
    let last = logged.last().map(|row| (row.event_id, row.project_id));
    let last = last.filter(|_| logged.len() as u64 == most);
    let again = |row: project_events::Model| project_events::ActiveModel {
        project_id: Set(row.project_id),
        event_id: Set(taking_back(row.event_id)),
        created_at: Set(moment(now)),
    };
    let again = logged.into_iter().map(again).collect();
    insert_new(transaction, again, &[Place::ProjectId, Place::EventId]).await?;
    Ok(last)
}

/// Makes a delivery of the removal for each delivery of these events after a position, and returns the last one looked
/// at; `None` if nothing is left.
async fn notify_of_removal(
    transaction: &DatabaseTransaction,
    events: &[Uuid],
    (after, most): (Option<Uuid>, u64),
    now: Time,
) -> Result<Option<Uuid>, StoreError> {
    use deliveries::Column as Delivery;
    let made = deliveries::Entity::find()
        .filter(Delivery::EventId.is_in(events.iter().copied()))
        .filter(Delivery::Replay.eq(false))
        .filter(Delivery::SubscriptionId.is_not_null());
    let made = page(made, Delivery::Id, after, most).all(transaction).await?;
    let last = made.last().map(|delivery| delivery.id).filter(|_| made.len() as u64 == most);
    let told_now =
        active_webhooks(transaction, made.iter().map(|delivery| delivery.webhook_id).collect()).await?;
    let is_told = |delivery: &deliveries::Model| told_now.contains(&delivery.webhook_id);
    let removal = |delivery: deliveries::Model| {
        let id = taking_back(delivery.id).as_u128();
        let removal = due(id, delivery.webhook_id, taking_back(delivery.event_id), now);
        let subscription_id = delivery.subscription_id;
        // The removal of a withheld event is withheld too: a replay sends both.
        let status = if delivery.status == WITHHELD { delivery.status } else { removal.status };
        deliveries::Model { subscription_id, status, ..removal }.into_active_model().reset_all()
    };
    let removals = made.into_iter().filter(is_told).map(removal).collect();
    insert_new(transaction, removals, &[deliveries::Column::Id]).await?;
    Ok(last)
}
