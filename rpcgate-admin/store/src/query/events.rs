//! Single events, read from their blocks.

use super::value::{moment, unreadable};
use crate::entity::block_keys::{Column, Entity};
use crate::entity::blocks;
use crate::{StoreError, UsageStore};
use rpcgate_core::backend::usage_sink::{OwnedRecord, Phase};
use rpcgate_core::caller::{KeyId, RequestId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::journal::{Event, Reader};
use rpcgate_core::usage::Block;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use std::cmp::Reverse;
use uuid::Uuid;

const MAX_LAST: u64 = 1_000;

impl UsageStore {
    /// Returns the event of a tenant's request, which arrived in the millisecond that its id contains. For a stream
    /// this is its start, or its end if that was recorded under the same id.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; [`StoreError::Unreadable`] for a damaged block.
    pub async fn event(&self, tenant: TenantId, id: RequestId) -> Result<Option<OwnedRecord>, StoreError> {
        // The first 48 bits of a version 7 UUID (RFC 9562, section 5.7).
        let millis = (id.0 >> 80) as u64;
        let from = Time::from_millis(millis);
        let to = Time::from_millis(millis + 1);
        // A block ends within the hour in which it begins.
        let hour_end = Time::from_secs((from.hour() + 1).saturating_mul(3_600));
        let blocks: Vec<Uuid> = self
            .read(async |database| {
                let covering = Entity::find()
                    .select_only()
                    .column(Column::Block)
                    .distinct()
                    .filter(Column::Tenant.eq(tenant))
                    .filter(Column::Last.gte(from))
                    .filter(Column::Last.lt(hour_end))
                    .filter(Column::First.lt(to));
                Ok(covering.into_tuple().all(database).await?)
            })
            .await?;
        let mut found = Vec::new();
        for block in blocks {
            let is_it = |reader: &Reader, event: &Event| {
                event.request == id && reader.party(event.party).is_some_and(|party| party.tenant == tenant)
            };
            found.extend(self.events_in(block, is_it).await?);
        }
        Ok(found.into_iter().max_by_key(|event| match event.phase {
            Phase::Pushed => 0,
            Phase::Begin => 1,
            Phase::End => 2,
            Phase::Complete => 3,
        }))
    }

    /// Returns the last events of a tenant's key by arrival, the newest first: at most `limit`, and at most 1,000.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; [`StoreError::Unreadable`] for a damaged block.
    pub async fn last_events(
        &self,
        tenant: TenantId,
        key: KeyId,
        limit: u64,
    ) -> Result<Vec<OwnedRecord>, StoreError> {
        let limit = limit.min(MAX_LAST);
        // Each of these blocks holds an event of the key that is no older than its `last`, so no further blocks are
        // needed.
        let blocks: Vec<(Uuid, i64)> = self
            .read(async |database| {
                let newest = Entity::find()
                    .select_only()
                    .columns([Column::Block, Column::Last])
                    .filter(Column::Tenant.eq(tenant))
                    .filter(Column::Key.eq(key))
                    .order_by_desc(Column::Last)
                    .order_by_desc(Column::Block)
                    .limit(limit);
                Ok(newest.into_tuple().all(database).await?)
            })
            .await?;
        let limit = limit as usize;
        let mut found: Vec<OwnedRecord> = Vec::new();
        for (block, last) in blocks {
            if found.len() == limit && found.last().is_some_and(|oldest| moment(oldest.arrival) > last) {
                break;
            }
            let is_its = |reader: &Reader, event: &Event| {
                let party = reader.party(event.party);
                party.is_some_and(|party| party.tenant == tenant && party.key == key)
            };
            found.extend(self.events_in(block, is_its).await?);
            found.sort_by_key(|event| Reverse((event.arrival, event.request)));
            found.truncate(limit);
        }
        Ok(found)
    }

    /// Returns the events of a block that match `wanted`; none if the block was removed.
    async fn events_in(
        &self,
        block: Uuid,
        wanted: impl FnMut(&Reader, &Event) -> bool,
    ) -> Result<Vec<OwnedRecord>, StoreError> {
        let Some(bytes) = self.bytes_of(block).await? else { return Ok(Vec::new()) };
        Block::events(&bytes, wanted).map_err(|error| unreadable("block", format!("{block}: {error}")))
    }

    pub(super) async fn bytes_of(&self, block: Uuid) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(async |database| {
            let bytes = blocks::Entity::find_by_id(block).select_only().column(blocks::Column::Bytes);
            Ok(bytes.into_tuple().one(database).await?)
        })
        .await
    }
}
