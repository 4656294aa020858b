//! Reads final blocks and the events of their transactions.

use super::standard::{LogPlace, LoggedEvent, account};
use crate::activity::Activity;
use crate::answer::read;
use crate::following::at_height;
use crate::kinds::{KINDS, wants_transactions};
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventType, NodeCalls, ReadError, Wanted,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::HashMap;

const BLOCK: &str = "not a block of NEAR";
const CHUNK: &str = "not a chunk of NEAR";
const STATUS: &str = "not the status of a transaction of NEAR";

/// The most heights in a row without a block that are searched.
const SKIPPED: u64 = 100;
/// The most chunks of a block; the chain has nine shards.
const CHUNKS: usize = 128;
/// The most transactions of a block whose outcome is asked for.
const STATUSES: usize = 1_000;
/// The account that the system's own receipts come from.
const SYSTEM: &str = "system";
/// The most calls at a time.
const AT_ONCE: usize = 16;
/// The number of final blocks after a block at which its transactions are asked for: most receipts have run by then.
const SETTLING: u64 = 4;
/// The number of final blocks after which a block no longer waits for receipts that have not run.
const PATIENCE: u64 = 50;

/// Reads the final blocks of NEAR, which no reorganisation takes back.
///
/// The receipts of a transaction run in the blocks after its own. Its events belong to the block that has the transaction,
/// and that block is read once its receipts have run, at the latest after [`PATIENCE`] final blocks.
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
    /// Another height than the block's if the shard has no new chunk.
    height_included: u64,
}

#[derive(Debug, Deserialize)]
struct ChunkAnswer {
    transactions: Vec<Tx>,
}

#[derive(Debug, Deserialize)]
struct Tx {
    hash: String,
    signer_id: String,
    receiver_id: String,
    actions: Vec<Action>,
}

/// An action: its name alone, or an object with one member of its name.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Action {
    Named(#[expect(dead_code, reason = "no such action moves or runs anything")] String),
    Body(Box<ActionBody>),
}

#[derive(Debug, Deserialize)]
struct ActionBody {
    #[serde(rename = "Transfer")]
    transfer: Option<Deposit>,
    #[serde(rename = "FunctionCall")]
    call: Option<Deposit>,
    #[serde(rename = "Delegate")]
    delegate: Option<IgnoredAny>,
    #[serde(rename = "DeleteAccount")]
    deletion: Option<Deletion>,
}

/// The coins of a deleted account go to a beneficiary.
#[derive(Debug, Deserialize)]
struct Deletion {
    beneficiary_id: String,
}

#[derive(Debug, Deserialize)]
struct Deposit {
    deposit: String,
}

#[derive(Debug, Deserialize)]
struct TxStatus {
    final_execution_status: Option<String>,
    status: Option<Status>,
    transaction: Option<Tx>,
    transaction_outcome: Option<OutcomeOf>,
    #[serde(default)]
    receipts_outcome: Vec<OutcomeOf>,
    #[serde(default)]
    receipts: Vec<Receipt>,
}

#[derive(Debug, Deserialize)]
struct OutcomeOf {
    id: String,
    outcome: Outcome,
}

#[derive(Debug, Deserialize)]
struct Outcome {
    executor_id: String,
    logs: Vec<String>,
    receipt_ids: Vec<String>,
    status: Status,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Status {
    /// `Unknown`, `NotStarted`, `Started`.
    Named(#[expect(dead_code, reason = "each of these is no success")] String),
    Ended(Ended),
}

#[derive(Debug, Deserialize)]
struct Ended {
    #[serde(rename = "SuccessValue")]
    value: Option<IgnoredAny>,
    #[serde(rename = "SuccessReceiptId")]
    receipt: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Receipt {
    receipt_id: String,
    predecessor_id: String,
    receiver_id: String,
    receipt: ReceiptBody,
}

#[derive(Debug, Deserialize)]
struct ReceiptBody {
    #[serde(rename = "Action")]
    action: Option<ActionReceipt>,
}

#[derive(Debug, Deserialize)]
struct ActionReceipt {
    actions: Vec<Action>,
}

/// A block, and what its reader needs beside its reference.
struct Block {
    reference: BlockRef,
    /// The height of the block before it, if the node says so.
    previous: Option<u64>,
    /// The hashes of its new chunks.
    chunks: Vec<String>,
}

impl Status {
    fn is_success(&self) -> bool {
        matches!(self, Status::Ended(ended) if ended.value.is_some() || ended.receipt.is_some())
    }
}

impl Action {
    /// Whether a contract may run.
    fn runs(&self) -> bool {
        matches!(self, Action::Body(body) if body.call.is_some() || body.delegate.is_some())
    }

    fn beneficiary(&self) -> Option<&str> {
        let Action::Body(body) = self else { return None };
        body.deletion.as_ref().map(|deletion| &*deletion.beneficiary_id)
    }

    /// The coins that it moves, in the smallest unit.
    fn deposit(&self) -> Result<u128, ReadError> {
        let Action::Body(body) = self else { return Ok(0) };
        match body.transfer.as_ref().or(body.call.as_ref()) {
            Some(Deposit { deposit }) => deposit.parse().map_err(|_| ReadError::Unreadable(STATUS)),
            None => Ok(0),
        }
    }
}

/// The coins that actions move together; `None` for a sum that 128 bits do not hold.
fn deposits(actions: &[Action]) -> Result<Option<u128>, ReadError> {
    let mut sum = Some(0u128);
    for action in actions {
        let deposit = action.deposit()?;
        sum = sum.and_then(|sum| sum.checked_add(deposit));
    }
    Ok(sum)
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

/// The newest final block.
async fn newest(node: &dyn NodeCalls) -> Result<Block, ReadError> {
    block(node, r#"{"finality":"final"}"#.to_owned()).await
}

/// The block at a height; the refusal inside if the node says that it has none.
async fn block_at(node: &dyn NodeCalls, height: u64) -> Result<Result<Block, ReadError>, ReadError> {
    match block(node, format!("{{\"block_id\":{height}}}")).await {
        Ok(Block { reference, previous, chunks }) => {
            Ok(Ok(Block { reference: at_height(reference, height)?, previous, chunks }))
        }
        // The code of every error of a handler: nothing else tells an unknown block from the others.
        Err(refusal @ ReadError::Refused { code: -32_000, .. }) => Ok(Err(refusal)),
        Err(error) => Err(error),
    }
}

/// The first block above `height`, up to `top`, which is the newest final one.
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

/// The transactions of a block's new chunks.
async fn transactions(node: &dyn NodeCalls, block: &Block) -> Result<Vec<Tx>, ReadError> {
    let chunk = |hash: &String| {
        let params = serde_json::json!({ "chunk_id": hash }).to_string();
        async move { read::<ChunkAnswer>(&node.call("chunk", params).await?, CHUNK) }
    };
    let calls: Vec<_> = block.chunks.iter().map(chunk).collect();
    let chunks: Vec<ChunkAnswer> = iter(calls).buffered(AT_ONCE).try_collect().await?;
    Ok(chunks.into_iter().flat_map(|chunk| chunk.transactions).collect())
}

/// What has become of transactions, in their order.
async fn statuses(node: &dyn NodeCalls, asked: &[Tx]) -> Result<Vec<TxStatus>, ReadError> {
    let status = |tx: &Tx| {
        let params = serde_json::json!({
            "tx_hash": tx.hash, "sender_account_id": tx.signer_id, "wait_until": "NONE",
        });
        let hash = tx.hash.clone();
        async move {
            let answer = node.call("EXPERIMENTAL_tx_status", params.to_string()).await?;
            let status: TxStatus = read(&answer, STATUS)?;
            let is_its = status.transaction.as_ref().is_none_or(|told| told.hash == hash);
            if is_its {
                Ok(status)
            } else {
                Err(ReadError::Unreadable("the status is another transaction's"))
            }
        }
    };
    let calls: Vec<_> = asked.iter().map(status).collect();
    iter(calls).buffered(AT_ONCE).try_collect().await
}

impl TxStatus {
    /// Whether all receipts have run. Nodes that do not say wait for that before they answer.
    fn is_complete(&self) -> bool {
        let stage = self.final_execution_status.as_deref();
        stage.is_none_or(|stage| matches!(stage, "EXECUTED_OPTIMISTIC" | "EXECUTED" | "FINAL"))
    }

    /// The deleted accounts whose coins receipts of the system move, by the ids of these receipts.
    fn deleted(&self) -> HashMap<&str, &str> {
        let mut deleted = HashMap::new();
        let (Some(tx), Some(converted)) = (&self.transaction, &self.transaction_outcome) else {
            return deleted;
        };
        let first = converted.outcome.receipt_ids.first();
        let first = first.map(|id| (id.as_str(), tx.receiver_id.as_str(), tx.actions.as_slice()));
        let listed = self.receipts.iter().filter_map(|receipt| {
            let actions = receipt.receipt.action.as_ref()?.actions.as_slice();
            Some((receipt.receipt_id.as_str(), receipt.receiver_id.as_str(), actions))
        });
        for (id, account, actions) in first.into_iter().chain(listed) {
            let Some(beneficiary) = actions.iter().find_map(Action::beneficiary) else { continue };
            let of_it = |of: &&OutcomeOf| of.id == id && of.outcome.status.is_success();
            let made = self.receipts_outcome.iter().find(of_it);
            let pays = |id: &&String| {
                self.receipts.iter().any(|receipt| {
                    receipt.receipt_id == **id
                        && receipt.predecessor_id == SYSTEM
                        && receipt.receiver_id == beneficiary
                })
            };
            // Gas that is given back comes behind it.
            let paid = made.and_then(|of| of.outcome.receipt_ids.iter().find(pays));
            deleted.extend(paid.map(|id| (id.as_str(), account)));
        }
        deleted
    }

    /// Adds the events of the transaction.
    fn tell(&self, wanted: &Wanted, events: &mut Vec<ChainEvent>) -> Result<(), ReadError> {
        // A transaction that no block had executed when patience ended tells nothing.
        let (Some(tx), Some(converted)) = (&self.transaction, &self.transaction_outcome) else {
            return if self.is_complete() { Err(ReadError::Unreadable(STATUS)) } else { Ok(()) };
        };
        let succeeded: HashMap<&str, bool> =
            self.receipts_outcome.iter().map(|of| (of.id.as_str(), of.outcome.status.is_success())).collect();
        let mut activity = Activity::default();
        activity.sends(&tx.signer_id);
        activity.receives(&tx.receiver_id);
        let mut pay = |from: &str, to: &str, actions: &[Action], id: &str| -> Result<(), ReadError> {
            if succeeded.get(id) == Some(&true) {
                let value = deposits(actions)?;
                activity.pays(from, "", value);
                activity.is_paid(to, "", value);
            } else {
                activity.sends(from);
                activity.receives(to);
            }
            Ok(())
        };
        // A receipt of an account to itself may not be listed.
        let first = converted.outcome.receipt_ids.first();
        if let Some(id) = first.filter(|id| self.receipts.iter().all(|receipt| receipt.receipt_id != **id)) {
            pay(&tx.signer_id, &tx.receiver_id, &tx.actions, id)?;
        }
        let deleted = self.deleted();
        for receipt in &self.receipts {
            let Some(action) = receipt.receipt.action.as_ref() else { continue };
            let from = match receipt.predecessor_id.as_str() {
                // The system gives back what was not used, and moves what a deleted account has left.
                SYSTEM => deleted.get(receipt.receipt_id.as_str()).copied(),
                from => Some(from),
            };
            if let Some(from) = from {
                pay(from, &receipt.receiver_id, &action.actions, &receipt.receipt_id)?;
            }
        }
        let (mut transfers, mut logged) = (Vec::new(), Vec::new());
        for OutcomeOf { id, outcome } in &self.receipts_outcome {
            if !outcome.status.is_success() {
                continue;
            }
            for (index, log) in outcome.logs.iter().enumerate() {
                let Some(event) = LoggedEvent::read(log) else { continue };
                let place =
                    LogPlace { contract: &outcome.executor_id, tx_hash: &tx.hash, receipt: id, index };
                let told = event.transfers();
                let is_one = told.len() == 1;
                for (index, transfer) in told.into_iter().enumerate() {
                    transfer.from.iter().for_each(|from| activity.sends(from));
                    transfer.to.iter().for_each(|to| activity.receives(to));
                    // A log may tell of two equal transfers.
                    let event = transfer.event(place);
                    transfers.push(if is_one { event } else { event.with("index", index) });
                }
                logged.push(event.shown(place));
            }
        }
        let success = self.status.as_ref().is_some_and(Status::is_success);
        let event = ChainEvent::new(EventType::AddressActivity)
            .with("tx_hash", tx.hash.as_str())
            .with("success", success)
            .with("from", tx.signer_id.as_str())
            .with("to", tx.receiver_id.as_str());
        activity.events(&event, wanted, events);
        if wanted.wants(EventType::TokenTransfer) {
            events.append(&mut transfers);
        }
        if wanted.wants(EventType::ContractEvent) {
            events.append(&mut logged);
        }
        Ok(())
    }
}

/// Whether the outcome of a transaction may have an event that is wanted.
fn is_asked_for(tx: &Tx, wanted: &Wanted) -> bool {
    let concerns_others = |action: &Action| action.runs() || action.beneficiary().is_some();
    tx.actions.iter().any(concerns_others) || wanted.watches(&tx.signer_id) || wanted.watches(&tx.receiver_id)
}

impl BlockReader for NearBlocks {
    fn kinds(&self) -> &'static [EventType] {
        KINDS
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
            // The height was skipped if the next block follows one below it.
            let next = first_above(node, known.height, top).await?;
            if next.previous.is_some_and(|height| height < known.height) { Ok(None) } else { Err(refusal) }
        })
    }

    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        wanted: &'a Wanted,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
        Box::pin(async move {
            let top = newest(node).await?;
            let head = top.reference.height;
            let is_executed = wants_transactions(wanted);
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
            if wanted.wants(EventType::NewBlock) {
                events.push(
                    ChainEvent::new(EventType::NewBlock)
                        .with("chunks", block.chunks.len())
                        .with("parent_hash", block.reference.parent.as_str()),
                );
            }
            if is_executed {
                let mut asked = transactions(node, &block).await?;
                asked.retain(|tx| is_asked_for(tx, wanted));
                asked.truncate(STATUSES);
                let all = statuses(node, &asked).await?;
                if head < height.saturating_add(PATIENCE) && !all.iter().all(TxStatus::is_complete) {
                    return Ok(None);
                }
                for status in &all {
                    status.tell(wanted, &mut events)?;
                }
            }
            Ok(Some(BlockEvents { block: block.reference, events }))
        })
    }

    /// Account ids are in lower case, also the hex of implicit accounts. A token is the account of its contract.
    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        match key {
            "address" | "from" | "to" | "token" => account(value),
            _ => Some(value.to_owned()),
        }
    }
}
