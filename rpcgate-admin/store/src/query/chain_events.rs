//! The log of events that matched a project's subscriptions.

use super::delivery_status::WITHHELD;
use super::id::ChainEventId;
use super::subscriptions::kind;
use super::value::{count, moment, time};
use crate::entity::chain_events::{Column, Entity, Model};
use crate::entity::{deliveries, project_events, projects, webhooks};
use crate::{Store, StoreError};
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::event::EventType;
use sea_orm::sea_query::Condition;
use sea_orm::{
    ColumnTrait, DatabaseConnection, EntityTrait, JoinType, QueryFilter, QueryOrder, QuerySelect,
    RelationTrait, Select,
};
use std::collections::HashSet;
use uuid::Uuid;

const IDS: usize = 500;

const STEP: u64 = 100;

const MAX_BYTES: usize = 4 << 20;

/// The number of log entries that one page scans, which bounds the cost of a selective filter.
const MAX_SCANNED: u64 = 20_000;

/// An event that a subscription matched, or a test event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedEvent {
    /// Its identifier.
    pub id: ChainEventId,
    /// The path of the chain.
    pub chain: String,
    /// Its type.
    pub kind: EventType,
    /// The number of its block.
    pub block_num: u64,
    /// The hash of its block.
    pub block_hash: String,
    /// True if it takes back an earlier event, whose block is no longer part of the chain.
    pub removed: bool,
    /// The exact body of its deliveries.
    pub body: Vec<u8>,
    /// The time when it was stored.
    pub created_at: Time,
}

impl TryFrom<Model> for LoggedEvent {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(LoggedEvent {
            id: ChainEventId(row.id.as_u128()),
            kind: kind(&row.event_type)?,
            chain: row.chain,
            block_num: count("number of a block", row.block_num)?,
            block_hash: row.block_hash,
            removed: row.removed,
            body: row.body,
            created_at: time(row.created_at),
        })
    }
}

/// The filter of an event log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChainEventFilter {
    /// The path of the chain.
    pub chain: Option<String>,
    /// The type.
    pub kind: Option<EventType>,
    /// The start of the period, inclusive.
    pub from: Option<Time>,
    /// The end of the period, exclusive.
    pub to: Option<Time>,
}

/// A position in the log: the time, and among events of the same time, the identifier.
pub type LogPosition = (Time, ChainEventId);

/// A page of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogPage {
    /// The events, the newest first.
    pub events: Vec<LoggedEvent>,
    /// The events that were withheld from an endpoint of the project; a replay sends them.
    pub withheld: HashSet<ChainEventId>,
    /// The position to continue from, unless this is the last page.
    pub next: Option<LogPosition>,
}

fn behind((at, id): LogPosition) -> Condition {
    use project_events::Column::{CreatedAt, EventId};
    let at = moment(at);
    let id = Uuid::from_u128(id.0);
    let same_time = Condition::all().add(CreatedAt.eq(at)).add(EventId.lt(id));
    Condition::any().add(CreatedAt.lt(at)).add(same_time)
}

fn entries(
    tenant: TenantId,
    project: ProjectId,
    filter: &ChainEventFilter,
) -> Select<project_events::Entity> {
    use project_events::Column::{CreatedAt, EventId, ProjectId};
    let mut its = project_events::Entity::find()
        .inner_join(projects::Entity)
        .filter(projects::Column::TenantId.eq(tenant))
        .filter(projects::Column::DeletedAt.is_null())
        .filter(ProjectId.eq(project));
    if let Some(from) = filter.from {
        its = its.filter(CreatedAt.gte(from));
    }
    if let Some(to) = filter.to {
        its = its.filter(CreatedAt.lt(to));
    }
    its.order_by_desc(CreatedAt).order_by_desc(EventId)
}

fn position(entry: &project_events::Model) -> LogPosition {
    (time(entry.created_at), ChainEventId(entry.event_id.as_u128()))
}

async fn finished(
    database: &DatabaseConnection,
    project: ProjectId,
    events: Vec<LoggedEvent>,
    next: Option<LogPosition>,
) -> Result<LogPage, StoreError> {
    use deliveries::Column::{EventId, Status};
    let mut withheld = HashSet::new();
    for some in events.chunks(IDS) {
        let found = deliveries::Entity::find()
            .select_only()
            .column(EventId)
            .distinct()
            .inner_join(webhooks::Entity)
            .filter(webhooks::Column::ProjectId.eq(project))
            .filter(EventId.is_in(some.iter().map(|event| Uuid::from_u128(event.id.0))))
            .filter(Status.eq(WITHHELD))
            .into_tuple::<Uuid>();
        withheld.extend(found.all(database).await?.into_iter().map(|id| ChainEventId(id.as_u128())));
    }
    Ok(LogPage { events, withheld, next })
}

async fn page(
    database: &DatabaseConnection,
    (project, all): (ProjectId, Select<project_events::Entity>),
    filter: &ChainEventFilter,
    before: Option<LogPosition>,
    limit: u64,
) -> Result<LogPage, StoreError> {
    let after = |at: Option<LogPosition>| match at {
        Some(at) => all.clone().filter(behind(at)),
        None => all.clone(),
    };
    // The last entry that this page scans, if there are more.
    let last = if filter.chain.is_none() && filter.kind.is_none() {
        None
    } else {
        after(before).offset(MAX_SCANNED - 1).limit(1).one(database).await?.as_ref().map(position)
    };
    let mut matching = Condition::all();
    if let Some(chain) = &filter.chain {
        matching = matching.add(Column::Chain.eq(chain.as_str()));
    }
    if let Some(kind) = filter.kind {
        matching = matching.add(Column::EventType.eq(kind.name()));
    }
    if let Some(last) = last {
        matching = matching.add(behind(last).not());
    }
    let mut events = Vec::new();
    let mut at = before;
    let mut bytes = 0;
    loop {
        let step = limit.saturating_sub(events.len() as u64).min(STEP);
        if step == 0 || bytes >= MAX_BYTES {
            return finished(database, project, events, at).await;
        }
        let some = after(at)
            .join(JoinType::InnerJoin, project_events::Relation::Event.def())
            .filter(matching.clone())
            .select_also(Entity)
            .limit(step);
        let some = some.all(database).await?;
        let are_all = (some.len() as u64) < step;
        for (entry, event) in some {
            at = Some(position(&entry));
            let Some(event) = event else { continue };
            bytes += event.body.len();
            events.push(event.try_into()?);
        }
        if are_all {
            return finished(database, project, events, last).await;
        }
    }
}

impl Store {
    /// Returns a page of the log of a tenant's project after `before`, with at most `limit` events that match `filter`.
    /// A page can have fewer events, even none, although another follows: its bytes and scanned entries are bounded.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn project_events(
        &self,
        tenant: TenantId,
        project: ProjectId,
        filter: &ChainEventFilter,
        before: Option<LogPosition>,
        limit: u64,
    ) -> Result<LogPage, StoreError> {
        let all = entries(tenant, project, filter);
        self.read(async |database| page(database, (project, all), filter, before, limit).await).await
    }
}
