//! Reads blocks of EVM chains and their events.
//!
//! A block comes from `eth_getBlockByNumber`. Its logs come from `eth_getLogs` by the block's hash, so they are those
//! of this block or an error. For address activity `eth_getBlockReceipts` replaces them where a node has it: receipts
//! also have the logs, and show which transactions failed and moved nothing.
//!
//! A node may have a block before its receipts and logs. So an incomplete list of receipts, and missing logs in a block
//! whose bloom filter has some, count as no answer: the block is read again.

use super::Evm;
use super::logs::{Log, RawLog};
use super::shapes::shapes;
use super::text;
use crate::answer::read;
use crate::following::{at_height, new_block};
use crate::kinds::{KINDS, wants_transactions};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventFilter, EventShape, EventType, HeadSubscription,
    NodeCalls, ReadError,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::HashMap;

const WRONG_BLOCK: ReadError = ReadError::Unreadable("a block is not as its API says");
const WRONG_TRANSACTION: ReadError = ReadError::Unreadable("a transaction is not as its API says");
const WRONG_RECEIPT: ReadError = ReadError::Unreadable("a receipt is not as its API says");
const OTHER_BLOCK: ReadError = ReadError::Unreadable("a receipt is of another block");
const NO_RECEIPT: ReadError = ReadError::Unreadable("the node lacks a receipt of the block");
const NO_LOGS: ReadError = ReadError::Unreadable("the node lacks the logs of the block");

/// The error of Avalanche nodes for a block above the newest one, where others answer `null`.
const NOT_YET: &str = "cannot query unfinalized data";

/// The sender of transactions that a chain makes itself.
const NOBODY: &str = "0x0000000000000000000000000000000000000000";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block<T> {
    number: String,
    hash: String,
    parent_hash: String,
    timestamp: String,
    gas_used: Option<String>,
    miner: Option<String>,
    logs_bloom: Option<String>,
    transactions: Vec<T>,
}

/// A transaction. Those that a chain makes itself, such as Polygon's state syncs, may lack a sender and a value.
#[derive(Deserialize)]
struct Transaction {
    hash: String,
    from: Option<String>,
    to: Option<String>,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Receipt<'a> {
    transaction_hash: String,
    block_hash: String,
    status: Option<String>,
    contract_address: Option<String>,
    #[serde(borrow)]
    logs: Vec<RawLog<'a>>,
}

struct Outcome {
    succeeded: Option<bool>,
    created: Option<String>,
}

impl<T> Block<T> {
    fn reference(&self) -> Result<BlockRef, ReadError> {
        let height = text::quantity(&self.number).ok_or(WRONG_BLOCK)?;
        let hash = text::hash(&self.hash).ok_or(WRONG_BLOCK)?;
        let parent = text::hash(&self.parent_hash).ok_or(WRONG_BLOCK)?;
        let time = text::quantity(&self.timestamp).and_then(|time| i64::try_from(time).ok());
        Ok(BlockRef::new(height, hash, parent, time.ok_or(WRONG_BLOCK)?))
    }

    fn has_logs(&self) -> bool {
        let bloom = self.logs_bloom.as_deref().unwrap_or_default();
        bloom.bytes().skip(2).any(|digit| digit != b'0')
    }

    fn new_block(&self, block: &BlockRef) -> Result<ChainEvent, ReadError> {
        let mut event = new_block(block, self.transactions.len());
        if let Some(gas) = &self.gas_used {
            event = event.with("gas_used", text::quantity(gas).ok_or(WRONG_BLOCK)?);
        }
        if let Some(miner) = &self.miner {
            event = event.with("miner", text::address(miner).ok_or(WRONG_BLOCK)?);
        }
        Ok(event)
    }
}

impl Transaction {
    /// Returns the transaction's result. It must be in the block's receipts, because an incomplete list would hide
    /// events. Nodes may leave out those of transactions that the chain makes itself.
    fn outcome<'o>(
        &self,
        outcomes: Option<&'o HashMap<String, Outcome>>,
    ) -> Result<Option<&'o Outcome>, ReadError> {
        let Some(outcomes) = outcomes else { return Ok(None) };
        let outcome = text::hash(&self.hash).and_then(|hash| outcomes.get(&hash));
        let is_somebodys = self.from.as_deref().is_some_and(|from| from != NOBODY);
        if outcome.is_none() && is_somebodys { Err(NO_RECEIPT) } else { Ok(outcome) }
    }

    /// Adds the activity of the sender and of the recipient, or of the created contract.
    fn push_events(
        &self,
        index: usize,
        outcome: Option<&Outcome>,
        filter: &EventFilter,
        events: &mut Vec<ChainEvent>,
    ) -> Result<(), ReadError> {
        let address = |text: &Option<String>| {
            text.as_deref().map(|text| text::address(text).ok_or(WRONG_TRANSACTION)).transpose()
        };
        let tx_hash = text::hash(&self.hash).ok_or(WRONG_TRANSACTION)?;
        let succeeded = outcome.and_then(|outcome| outcome.succeeded);
        let value = match &self.value {
            Some(value) => Some(text::amount(value).ok_or(WRONG_TRANSACTION)?),
            None => None,
        };
        // A failed transaction has moved nothing.
        let value = value.filter(|_| succeeded != Some(false));
        let from = address(&self.from)?;
        let created = outcome.and_then(|outcome| outcome.created.clone());
        let to = match address(&self.to)? {
            Some(to) => Some(to),
            None => created.filter(|_| succeeded != Some(false)),
        };
        let is_self = from.is_some() && from == to;
        for (address, direction) in
            [(&from, "out"), (&to, "in")].into_iter().take(if is_self { 1 } else { 2 })
        {
            let Some(address) = address.as_ref().filter(|address| filter.watches(address)) else { continue };
            let mut event = ChainEvent::new(EventType::AddressActivity)
                .with("address", address.as_str())
                .with("direction", if is_self { "self" } else { direction })
                .with("kind", "native")
                .with("tx_hash", tx_hash.as_str())
                .with("index", index);
            for (name, part) in [("from", &from), ("to", &to), ("value", &value)] {
                if let Some(part) = part {
                    event = event.with(name, part.as_str());
                }
            }
            if let Some(succeeded) = succeeded {
                event = event.with("success", succeeded);
            }
            events.push(event);
        }
        Ok(())
    }
}

/// Reports whether a node lacks a method, rather than refusing this call: development nodes use other codes.
fn lacks_method(error: &ReadError) -> bool {
    match error {
        ReadError::Refused { code: -32601 | -32004, .. } => true,
        ReadError::Refused { message, .. } => {
            ["does not exist", "not supported", "not available"].iter().any(|part| message.contains(part))
        }
        _ => false,
    }
}

/// The results of a block's transactions by hash; `None` if the node has no receipts.
type Outcomes = Option<HashMap<String, Outcome>>;

/// Returns the logs of a block, and the results of its transactions.
async fn logs(
    node: &dyn NodeCalls,
    hash: &str,
    with_results: bool,
) -> Result<(Vec<Log>, Outcomes), ReadError> {
    if with_results {
        match node.call("eth_getBlockReceipts", format!("[\"{hash}\"]")).await {
            Ok(answer) => return receipts(&answer, hash),
            Err(error) if lacks_method(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let answer = node.call("eth_getLogs", format!("[{{\"blockHash\":\"{hash}\"}}]")).await?;
    let logs: Vec<RawLog<'_>> = read(&answer, "logs are not as their API says")?;
    let logs = logs.into_iter().map(|log| log.of_block(hash)).collect::<Result<_, _>>()?;
    Ok((logs, None))
}

fn receipts(answer: &[u8], hash: &str) -> Result<(Vec<Log>, Outcomes), ReadError> {
    // `null` means that the node does not have the block: it was reverted since.
    let receipts: Vec<Receipt<'_>> = read(answer, "receipts are not as their API says")?;
    let mut logs = Vec::new();
    let mut outcomes = HashMap::with_capacity(receipts.len());
    for receipt in receipts {
        if !receipt.block_hash.eq_ignore_ascii_case(hash) {
            return Err(OTHER_BLOCK);
        }
        for log in receipt.logs {
            logs.push(log.of_block(hash)?);
        }
        let succeeded = match receipt.status.as_deref() {
            Some(status) => Some(text::quantity(status).ok_or(WRONG_RECEIPT)? == 1),
            None => None,
        };
        let created = match receipt.contract_address.as_deref() {
            Some(address) => Some(text::address(address).ok_or(WRONG_RECEIPT)?),
            None => None,
        };
        let tx_hash = text::hash(&receipt.transaction_hash).ok_or(WRONG_RECEIPT)?;
        outcomes.insert(tx_hash, Outcome { succeeded, created });
    }
    Ok((logs, Some(outcomes)))
}

/// Returns the block at a height with its transactions, if it exists.
async fn block<T: for<'de> Deserialize<'de>>(
    node: &dyn NodeCalls,
    height: u64,
    full: bool,
) -> Result<Option<(BlockRef, Block<T>)>, ReadError> {
    let answer = match node.call("eth_getBlockByNumber", format!("[\"{height:#x}\",{full}]")).await {
        Err(ReadError::Refused { message, .. }) if message.contains(NOT_YET) => return Ok(None),
        answer => answer?,
    };
    let Some(found): Option<Block<T>> = read(&answer, "a block is not as its API says")? else {
        return Ok(None);
    };
    Ok(Some((at_height(found.reference()?, height)?, found)))
}

impl Evm {
    async fn next(
        &self,
        node: &dyn NodeCalls,
        known: &BlockRef,
        filter: &EventFilter,
    ) -> Result<Option<BlockEvents>, ReadError> {
        let Some(height) = known.height.checked_add(1) else { return Ok(None) };
        let with_activity = filter.wants(EventType::AddressActivity);
        let mut events = Vec::new();
        let (block, transactions, has_logs) = if with_activity {
            let Some((block, found)) = self::block::<Transaction>(node, height, true).await? else {
                return Ok(None);
            };
            if filter.wants(EventType::NewBlock) {
                events.push(found.new_block(&block)?);
            }
            let has_logs = found.has_logs();
            (block, found.transactions, has_logs)
        } else {
            let Some((block, found)) = self::block::<IgnoredAny>(node, height, false).await? else {
                return Ok(None);
            };
            if filter.wants(EventType::NewBlock) {
                events.push(found.new_block(&block)?);
            }
            (block, Vec::new(), found.has_logs())
        };
        if !wants_transactions(filter) {
            return Ok(Some(BlockEvents { block, events }));
        }
        let (logs, outcomes) = logs(node, &block.hash, with_activity).await?;
        if logs.is_empty() && has_logs {
            return Err(NO_LOGS);
        }
        let mut logs = logs.iter().peekable();
        for (index, transaction) in transactions.iter().enumerate() {
            let outcome = transaction.outcome(outcomes.as_ref())?;
            transaction.push_events(index, outcome, filter, &mut events)?;
            while let Some(log) = logs.next_if(|log| log.tx_index <= index as u64) {
                log.push_events(filter, &mut events);
            }
        }
        // Without the transactions all logs; else only those of transactions that the block does not list.
        logs.for_each(|log| log.push_events(filter, &mut events));
        Ok(Some(BlockEvents { block, events }))
    }
}

impl BlockReader for Evm {
    fn kinds(&self) -> &'static [EventType] {
        KINDS
    }

    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        shapes(kind)
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(async move {
            let answer = node.call("eth_getBlockByNumber", "[\"latest\",false]".to_owned()).await?;
            let head: Block<IgnoredAny> = read(&answer, "the newest block is not as its API says")?;
            head.reference()
        })
    }

    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(async move {
            let found = block::<IgnoredAny>(node, known.height, false).await?;
            Ok(found.map(|(block, _)| block))
        })
    }

    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        filter: &'a EventFilter,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
        Box::pin(self.next(node, known, filter))
    }

    fn head_subscription(&self) -> Option<HeadSubscription> {
        Some(HeadSubscription {
            subscribe: r#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#,
        })
    }

    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        text::canonical(key, value)
    }
}
