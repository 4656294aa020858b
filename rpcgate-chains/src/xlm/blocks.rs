//! Reads the number, hash and time of a core node's newest ledger. The node has no older ledgers and no transactions to
//! read, so ledgers that close between two polls are not reported.

use super::Xlm;
use crate::answer::read;
use crate::form::lower_hex;
use http::Method as Verb;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventFilter, EventShape, EventType, NodeCalls, ReadError,
};
use serde::Deserialize;

const WRONG: &str = "the status of the node is not as its API says";

#[derive(Deserialize)]
struct Status {
    info: Info,
}

#[derive(Deserialize)]
struct Info {
    ledger: Ledger,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ledger {
    num: u64,
    hash: String,
    close_time: i64,
}

async fn newest(node: &dyn NodeCalls) -> Result<BlockRef, ReadError> {
    let answer = node.request(Verb::GET, "/info".to_owned(), String::new()).await?;
    let Status { info: Info { ledger } } = read(&answer, WRONG)?;
    let hash = lower_hex(&ledger.hash, 64).ok_or(ReadError::Unreadable(WRONG))?;
    Ok(BlockRef::new(ledger.num, hash, "", ledger.close_time))
}

impl BlockReader for Xlm {
    fn kinds(&self) -> &'static [EventType] {
        &[EventType::NewBlock]
    }

    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        // A ledger has no members of its own.
        const LEDGER: EventShape = EventShape::of(&[]);
        (kind == EventType::NewBlock).then_some(&[LEDGER])
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(newest(node))
    }

    /// A closed ledger is final.
    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(async move {
            let newest = newest(node).await?;
            Ok(match known.height.cmp(&newest.height) {
                std::cmp::Ordering::Less => Some(known.clone()),
                std::cmp::Ordering::Equal => Some(newest),
                std::cmp::Ordering::Greater => None,
            })
        })
    }

    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        filter: &'a EventFilter,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
        Box::pin(async move {
            let block = newest(node).await?;
            if block.height <= known.height {
                return Ok(None);
            }
            let wants_blocks = filter.wants(EventType::NewBlock);
            let events = wants_blocks.then(|| ChainEvent::new(EventType::NewBlock)).into_iter().collect();
            Ok(Some(BlockEvents { block, events }))
        })
    }

    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        match key {
            "block_hash" => lower_hex(value, 64),
            _ => Some(value.to_owned()),
        }
    }
}
