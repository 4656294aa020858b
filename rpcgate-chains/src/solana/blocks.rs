//! Blocks of Solana and their events.
//!
//! Only finalized blocks are read, which the chain never reverts; they are about 13 seconds old. A block's number is
//! its slot. Slots may be skipped.
//!
//! **Nodes**: blocks come from `getBlock` and `getBlocksWithLimit`. A validator answers them only over HTTP, so its
//! node needs a `url` in addition to its `ws` address. Without a `url` the same calls are tried over the WebSocket,
//! which some providers answer. A validator has only subscriptions there, and its default ones do not include a block's
//! hash or transactions, so such a node cannot be followed.
//!
//! **Activity**: accounts whose balance of lamports changes (`value`), and owners whose token balances change. Fees are
//! a change, so failed transactions have activity too, with `success` false, and nothing else.
//!
//! **Transfers**: of the native coin (token `SOL`) by the system program's instructions Transfer, TransferWithSeed,
//! CreateAccount and CreateAccountWithSeed. Of tokens (by mint) by the change of each owner's balances: losses of some
//! owners are matched with gains of others, in the order of their accounts. A surplus is minted (no `from`), a deficit
//! burned (no `to`).
//!
//! **Events of contracts**: each instruction of a program and the instructions that it calls, then the programs' logs;
//! not those of the system, vote and compute budget programs.

use super::Solana;
use super::program::public_key;
use super::shapes::shapes;
use super::transaction::Transaction;
use crate::answer::read;
use crate::following::new_block;
use crate::form::base58;
use crate::kinds::{KINDS, wants_transactions};
use bytes::Bytes;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, EventFilter, EventShape, EventType, HeadSubscription, NodeCalls,
    ReadError,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The number of slots before the newest one in which its block is searched.
const NEWEST: u64 = 32;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block {
    blockhash: String,
    previous_blockhash: String,
    parent_slot: u64,
    /// `None` if the node does not know it.
    block_time: Option<i64>,
    block_height: Option<u64>,
    #[serde(default)]
    transactions: Option<Vec<Transaction>>,
    #[serde(default)]
    signatures: Option<Vec<IgnoredAny>>,
}

impl Block {
    fn at(&self, slot: u64) -> BlockRef {
        let time = self.block_time.unwrap_or(0);
        BlockRef::new(slot, &*self.blockhash, &*self.previous_blockhash, time)
    }
}

enum Slot {
    Block(Block),
    /// Permanently empty.
    Skipped,
    /// Unknown to the node.
    Unknown,
}

async fn call(node: &dyn NodeCalls, method: &str, params: String) -> Result<Bytes, ReadError> {
    match node.call(method, params.clone()).await {
        Err(ReadError::Unreachable(why)) => match node.stream_call(method, params).await {
            Err(ReadError::Unreachable(_)) => Err(ReadError::Unreachable(why)),
            answer => answer,
        },
        answer => answer,
    }
}

async fn newest(node: &dyn NodeCalls) -> Result<u64, ReadError> {
    read(&call(node, "getSlot", r#"[{"commitment":"finalized"}]"#.into()).await?, "a slot")
}

async fn block(node: &dyn NodeCalls, slot: u64, details: &str) -> Result<Slot, ReadError> {
    let params = format!(
        r#"[{slot},{{"encoding":"json","transactionDetails":"{details}","maxSupportedTransactionVersion":0,"rewards":false,"commitment":"finalized"}}]"#
    );
    match call(node, "getBlock", params).await {
        Err(ReadError::Refused { code: -32_007 | -32_009, .. }) => Ok(Slot::Skipped),
        Err(ReadError::Refused { code: -32_004 | -32_014, .. }) => Ok(Slot::Unknown),
        answer => {
            let answer = answer?;
            let is_none = answer.trim_ascii() == b"null";
            if is_none { Ok(Slot::Unknown) } else { Ok(Slot::Block(read(&answer, "a block")?)) }
        }
    }
}

impl BlockReader for Solana {
    fn kinds(&self) -> &'static [EventType] {
        KINDS
    }

    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        shapes(kind)
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(async move {
            let newest = newest(node).await?;
            for slot in (newest.saturating_sub(NEWEST)..=newest).rev() {
                if let Slot::Block(block) = block(node, slot, "none").await? {
                    return Ok(block.at(slot));
                }
            }
            Err(ReadError::Unreadable("the newest block"))
        })
    }

    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(async move {
            match block(node, known.height, "none").await? {
                Slot::Block(block) => Ok(Some(block.at(known.height))),
                Slot::Skipped | Slot::Unknown => Ok(None),
            }
        })
    }

    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        filter: &'a EventFilter,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
        Box::pin(async move {
            let is_full = wants_transactions(filter);
            let details = if is_full { "full" } else { "signatures" };
            let first = known.height.saturating_add(1);
            // One would be enough, except for a slot whose block the node has lost.
            let params = format!(r#"[{first},4,{{"commitment":"finalized"}}]"#);
            let answer = call(node, "getBlocksWithLimit", params).await?;
            let slots: Vec<u64> = read(&answer, "slots with blocks")?;
            if !slots.is_sorted() || slots.first().is_some_and(|slot| *slot < first) || slots.len() > 4 {
                return Err(ReadError::Unreadable("slots with blocks"));
            }
            for slot in slots {
                match block(node, slot, details).await? {
                    Slot::Block(block) => return events(block, slot, filter, is_full).map(Some),
                    Slot::Skipped => {}
                    Slot::Unknown => break,
                }
            }
            Ok(None)
        })
    }

    fn head_subscription(&self) -> Option<HeadSubscription> {
        Some(HeadSubscription { subscribe: r#"{"jsonrpc":"2.0","id":1,"method":"rootSubscribe"}"# })
    }

    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        match key {
            "address" | "from" | "to" | "program" => public_key(value),
            "token" if value != "SOL" => public_key(value),
            "block_hash" | "parent_hash" => base58(value, 32),
            "tx_hash" => base58(value, 64),
            // In base58 or Base64.
            "data" => {
                let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
                value.bytes().all(is_digit).then(|| value.to_owned())
            }
            _ => Some(value.to_owned()),
        }
    }
}

fn events(block: Block, slot: u64, filter: &EventFilter, is_full: bool) -> Result<BlockEvents, ReadError> {
    const WRONG: ReadError = ReadError::Unreadable("the transactions of a block");
    let at = block.at(slot);
    let mut events = Vec::new();
    let transactions = if is_full { block.transactions.ok_or(WRONG)? } else { Vec::new() };
    if filter.wants(EventType::NewBlock) {
        let count = if is_full { transactions.len() } else { block.signatures.ok_or(WRONG)?.len() };
        let mut event = new_block(&at, count).with("parent_slot", block.parent_slot);
        if let Some(height) = block.block_height {
            event = event.with("block_height", height);
        }
        events.push(event);
    }
    for tx in transactions {
        tx.events(filter, &mut events)?;
    }
    Ok(BlockEvents { block: at, events })
}
