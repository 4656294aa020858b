//! Reads final blocks and the events of their transactions.

use super::shapes::shapes;
use super::standard::account;
use super::transaction::{STATUS, Tx, TxStatus};
use crate::answer::read;
use crate::following::at_height;
use crate::form::base58;
use crate::kinds::{KINDS, wants_transactions};
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventFilter, EventShape, EventType, NodeCalls, ReadError,
};
use serde::Deserialize;

const BLOCK: &str = "not a block of NEAR";
const CHUNK: &str = "not a chunk of NEAR";

/// The maximum number of consecutive heights without a block that are searched.
const SKIPPED: u64 = 100;
/// The maximum number of chunks of a block; the chain has nine shards.
const CHUNKS: usize = 128;
/// The maximum number of a block's transactions whose outcome is requested.
const STATUSES: usize = 1_000;
/// The maximum number of concurrent calls.
const AT_ONCE: usize = 16;
/// The number of later final blocks at which a block's transactions are requested: most receipts have run by then.
const SETTLING: u64 = 4;
/// The number of later final blocks after which a block no longer waits for receipts that have not run.
const PATIENCE: u64 = 50;

/// Reads the final blocks of NEAR, which no reorganisation reverts.
///
/// The receipts of a transaction run in later blocks. Its events belong to the block with the transaction. That block
/// is read once the receipts have run, at the latest after [`PATIENCE`] final blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct NearBlocks;

#[derive(Debug, Deserialize)]
struct BlockAnswer {
    header: Header,
    chunks: Vec<ChunkHeader>,
}

#[derive(Debug, Deserialize)]
struct Header {
    height: u64,
    prev_height: Option<u64>,
    hash: String,
    prev_hash: String,
    timestamp_nanosec: String,
}

#[derive(Debug, Deserialize)]
struct ChunkHeader {
    chunk_hash: String,
    /// Differs from the block's height if the shard has no new chunk.
    height_included: u64,
}

#[derive(Debug, Deserialize)]
struct ChunkAnswer {
    transactions: Vec<Tx>,
}

struct Block {
    reference: BlockRef,
    /// The height of the previous block, if the node includes it.
    previous: Option<u64>,
    chunks: Vec<String>,
}

impl BlockAnswer {
    fn checked(self) -> Option<Block> {
        let Header { height, prev_height, hash, prev_hash, timestamp_nanosec } = self.header;
        let nanos: u64 = timestamp_nanosec.parse().ok()?;
        if self.chunks.len() > CHUNKS || hash.is_empty() {
            return None;
        }
        let new = self.chunks.into_iter().filter(|chunk| chunk.height_included == height);
        Some(Block {
            reference: BlockRef::new(height, hash, prev_hash, i64::try_from(nanos / 1_000_000_000).ok()?),
            previous: prev_height,
            chunks: new.map(|chunk| chunk.chunk_hash).collect(),
        })
    }
}

async fn block(node: &dyn NodeCalls, params: String) -> Result<Block, ReadError> {
    let answer = node.call("block", params).await?;
    read::<BlockAnswer>(&answer, BLOCK)?.checked().ok_or(ReadError::Unreadable(BLOCK))
}

async fn newest(node: &dyn NodeCalls) -> Result<Block, ReadError> {
    block(node, r#"{"finality":"final"}"#.to_owned()).await
}

/// Returns the block at a height; the inner error if the node says that it does not have one.
async fn block_at(node: &dyn NodeCalls, height: u64) -> Result<Result<Block, ReadError>, ReadError> {
    match block(node, format!("{{\"block_id\":{height}}}")).await {
        Ok(Block { reference, previous, chunks }) => {
            Ok(Ok(Block { reference: at_height(reference, height)?, previous, chunks }))
        }
        // The code of every error of a handler: nothing else distinguishes an unknown block from the others.
        Err(refusal @ ReadError::Refused { code: -32_000, .. }) => Ok(Err(refusal)),
        Err(error) => Err(error),
    }
}

/// Returns the first block above `height`, up to `top`, the newest final one.
async fn first_above(node: &dyn NodeCalls, height: u64, top: Block) -> Result<Block, ReadError> {
    let last = top.reference.height;
    for candidate in height.saturating_add(1)..last.min(height.saturating_add(SKIPPED)) {
        if let Ok(block) = block_at(node, candidate).await? {
            return Ok(block);
        }
    }
    if last <= height.saturating_add(SKIPPED) {
        return Ok(top);
    }
    Err(ReadError::Unreadable("the node has no block at the next heights"))
}

async fn transactions(node: &dyn NodeCalls, block: &Block) -> Result<Vec<Tx>, ReadError> {
    let chunk = |hash: &String| {
        let params = serde_json::json!({ "chunk_id": hash }).to_string();
        async move { read::<ChunkAnswer>(&node.call("chunk", params).await?, CHUNK) }
    };
    let calls: Vec<_> = block.chunks.iter().map(chunk).collect();
    let chunks: Vec<ChunkAnswer> = iter(calls).buffered(AT_ONCE).try_collect().await?;
    Ok(chunks.into_iter().flat_map(|chunk| chunk.transactions).collect())
}

async fn statuses(node: &dyn NodeCalls, requested: &[Tx]) -> Result<Vec<TxStatus>, ReadError> {
    let status = |tx: &Tx| {
        let params = serde_json::json!({
            "tx_hash": tx.hash, "sender_account_id": tx.signer_id, "wait_until": "NONE",
        });
        let hash = tx.hash.clone();
        async move {
            let answer = node.call("EXPERIMENTAL_tx_status", params.to_string()).await?;
            let status: TxStatus = read(&answer, STATUS)?;
            let is_its = status.transaction.as_ref().is_none_or(|named| named.hash == hash);
            if is_its {
                Ok(status)
            } else {
                Err(ReadError::Unreadable("the status is another transaction's"))
            }
        }
    };
    let calls: Vec<_> = requested.iter().map(status).collect();
    iter(calls).buffered(AT_ONCE).try_collect().await
}

impl BlockReader for NearBlocks {
    fn kinds(&self) -> &'static [EventType] {
        KINDS
    }

    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        shapes(kind)
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(async move { Ok(newest(node).await?.reference) })
    }

    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(async move {
            let refusal = match block_at(node, known.height).await? {
                Ok(block) => return Ok(Some(block.reference)),
                Err(refusal) => refusal,
            };
            let top = newest(node).await?;
            if top.reference.height <= known.height {
                return Ok((top.reference.height == known.height).then_some(top.reference));
            }
            // The height was skipped if the next block's parent is below it.
            let next = first_above(node, known.height, top).await?;
            if next.previous.is_some_and(|height| height < known.height) { Ok(None) } else { Err(refusal) }
        })
    }

    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        filter: &'a EventFilter,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
        Box::pin(async move {
            let top = newest(node).await?;
            let head = top.reference.height;
            let is_executed = wants_transactions(filter);
            let above = if is_executed { SETTLING } else { 0 };
            if head <= known.height.saturating_add(above) {
                return Ok(None);
            }
            let block = first_above(node, known.height, top).await?;
            let height = block.reference.height;
            if block.previous.is_some_and(|previous| previous > known.height) {
                return Err(ReadError::Unreadable("the node leaves out a block"));
            }
            if is_executed && head < height.saturating_add(SETTLING) {
                return Ok(None);
            }
            let mut events = Vec::new();
            if filter.wants(EventType::NewBlock) {
                events.push(
                    ChainEvent::new(EventType::NewBlock)
                        .with("chunks", block.chunks.len())
                        .with("parent_hash", block.reference.parent.as_str()),
                );
            }
            if is_executed {
                let mut requested = transactions(node, &block).await?;
                requested.retain(|tx| tx.matches(filter));
                requested.truncate(STATUSES);
                let all = statuses(node, &requested).await?;
                if head < height.saturating_add(PATIENCE) && !all.iter().all(TxStatus::is_complete) {
                    return Ok(None);
                }
                for status in &all {
                    status.push_events(filter, &mut events)?;
                }
            }
            Ok(Some(BlockEvents { block: block.reference, events }))
        })
    }

    /// Account ids are in lower case, also the hex of implicit accounts. A token is the account of its contract.
    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        match key {
            "address" | "from" | "to" | "token" => account(value),
            "tx_hash" | "receipt_id" | "block_hash" | "parent_hash" => base58(value, 32),
            _ => Some(value.to_owned()),
        }
    }
}
