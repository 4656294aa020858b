//! Blocks of TON and their events, by TonCenter's HTTP API, version 2.
//!
//! A block is one of the masterchain, which is final. Its events are those of the masterchain's own transactions and of
//! all shard blocks that it is the first to confirm, in the order of their numbers. A node must serve
//! `getBlockTransactionsExt`.
//!
//! **Addresses** are in raw form, `0:` and 64 lower-case digits.
//!
//! **Activity**: the account of a transaction, with `value` for the amount between it and other accounts, and the other
//! side of each of its messages, without a value, which is counted in the transaction of that account.
//!
//! **Transfers**: the value of the message that caused a transaction (token `TON`), and jettons that a wallet receives
//! by `internal_transfer` (token `jetton`, with `jetton_wallet`), unless the wallet returns the message. Anyone can
//! write such a contract. `get_wallet_data` of the wallet names its jetton, and the minter's `get_wallet_address`
//! confirms that the wallet is one of its own. The receiver is known if it is notified of the transfer.
//!
//! **Events of contracts** are messages to the outside.

use super::Ton;
use super::address::{account, hash, raw};
use super::shapes::shapes;
use super::transaction::Transaction;
use crate::answer::{number, read};
use crate::form::lower_hex;
use crate::kinds::{KINDS, wants_transactions};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventFilter, EventShape, EventType, NodeCalls, ReadError,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;

/// The shard that covers a whole workchain.
const COMPLETE: &str = "-9223372036854775808";
/// The maximum number of shard blocks that one masterchain block confirms, and of transactions of a block.
const SHARD_BLOCKS: usize = 1_024;
const TRANSACTIONS: usize = 100_000;
const PAGE: usize = 256;

#[derive(Deserialize)]
struct Envelope<T> {
    ok: bool,
    #[serde(default = "Option::default")]
    result: Option<T>,
    #[serde(default)]
    error: String,
    #[serde(default)]
    code: i64,
}

#[derive(Deserialize, Clone)]
struct BlockId {
    workchain: i32,
    shard: String,
    #[serde(deserialize_with = "number")]
    seqno: u64,
    root_hash: String,
}

#[derive(Deserialize)]
struct MasterchainInfo {
    last: BlockId,
}

#[derive(Deserialize)]
struct Shards {
    shards: Vec<BlockId>,
}

#[derive(Deserialize)]
struct Header {
    id: BlockId,
    gen_utime: i64,
    prev_blocks: Vec<BlockId>,
}

#[derive(Deserialize)]
struct Page {
    incomplete: bool,
    transactions: Vec<Transaction>,
}

async fn get<T: DeserializeOwned>(
    node: &dyn NodeCalls,
    path: String,
    what: &'static str,
) -> Result<T, ReadError> {
    let answer = node.request(Method::GET, path, String::new()).await?;
    let envelope: Envelope<T> = read(&answer, what)?;
    match envelope.result.filter(|_| envelope.ok) {
        Some(result) => Ok(result),
        None if envelope.ok => Err(ReadError::Unreadable(what)),
        None => {
            let message = envelope.error.chars().take(200).collect();
            Err(ReadError::Refused { code: envelope.code, message })
        }
    }
}

async fn newest(node: &dyn NodeCalls) -> Result<u64, ReadError> {
    let info: MasterchainInfo = get(node, "/getMasterchainInfo".into(), "the masterchain's state").await?;
    Ok(info.last.seqno)
}

async fn header(node: &dyn NodeCalls, workchain: i32, shard: &str, seqno: u64) -> Result<Header, ReadError> {
    const WHAT: &str = "the header of a block";
    // A shard that is not a number would become another part of the path.
    let shard: i64 = shard.parse().map_err(|_| ReadError::Unreadable("a shard"))?;
    let path = format!("/getBlockHeader?workchain={workchain}&shard={shard}&seqno={seqno}");
    let header: Header = get(node, path, WHAT).await?;
    let is_it = (header.id.workchain, header.id.seqno) == (workchain, seqno);
    if is_it { Ok(header) } else { Err(ReadError::Unreadable(WHAT)) }
}

async fn block(node: &dyn NodeCalls, seqno: u64) -> Result<(BlockId, BlockRef), ReadError> {
    let header = header(node, -1, COMPLETE, seqno).await?;
    let parent = header.prev_blocks.first().map(|block| &*block.root_hash);
    let parent = parent.ok_or(ReadError::Unreadable("the parent of a block"))?;
    let at = BlockRef::new(seqno, &*header.id.root_hash, parent, header.gen_utime);
    Ok((header.id, at))
}

async fn shards(node: &dyn NodeCalls, seqno: u64) -> Result<Vec<BlockId>, ReadError> {
    let found: Shards = get(node, format!("/shards?seqno={seqno}"), "the shards of a block").await?;
    Ok(found.shards)
}

/// Returns the shard blocks that masterchain block `seqno` is the first to confirm: the ancestors of its shards' newest
/// blocks down to those of the previous masterchain block, through all splits and merges of shards.
async fn confirmed(node: &dyn NodeCalls, seqno: u64) -> Result<Vec<BlockId>, ReadError> {
    let mut open = shards(node, seqno).await?;
    let before = shards(node, seqno.saturating_sub(1)).await?;
    let mut seen: HashSet<String> = before.into_iter().map(|block| block.root_hash).collect();
    let mut found = Vec::new();
    while let Some(block) = open.pop() {
        if block.seqno == 0 || !seen.insert(block.root_hash.clone()) {
            continue;
        }
        if found.len() >= SHARD_BLOCKS {
            return Err(ReadError::Unreadable("the blocks of shards"));
        }
        let header = header(node, block.workchain, &block.shard, block.seqno).await?;
        if header.id.root_hash != block.root_hash {
            return Err(ReadError::Unreadable("a block of a shard"));
        }
        open.extend(header.prev_blocks);
        found.push(block);
    }
    found.sort_by(|one, other| {
        (one.workchain, one.seqno, &one.shard).cmp(&(other.workchain, other.seqno, &other.shard))
    });
    Ok(found)
}

async fn transactions(node: &dyn NodeCalls, block: &BlockId) -> Result<Vec<Transaction>, ReadError> {
    const WHAT: &str = "the transactions of a block";
    let shard: i64 = block.shard.parse().map_err(|_| ReadError::Unreadable("a shard"))?;
    let workchain = block.workchain;
    let seqno = block.seqno;
    let mut all: Vec<Transaction> = Vec::new();
    loop {
        let mut path = format!(
            "/getBlockTransactionsExt?workchain={workchain}&shard={shard}&seqno={seqno}&count={PAGE}"
        );
        if let Some(last) = all.last() {
            // The page begins after this transaction, named by its account and its logical time.
            let account = account(&last.account()?).ok_or(ReadError::Unreadable(WHAT))?;
            let account = account.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
            path.push_str(&format!("&after_lt={}&after_hash={account}", last.lt()));
        }
        let page: Page = get(node, path, WHAT).await?;
        if page.incomplete && page.transactions.is_empty() || all.len() > TRANSACTIONS {
            return Err(ReadError::Unreadable(WHAT));
        }
        all.extend(page.transactions);
        if !page.incomplete {
            return Ok(all);
        }
    }
}

impl BlockReader for Ton {
    fn kinds(&self) -> &'static [EventType] {
        KINDS
    }

    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        shapes(kind)
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(async move {
            let (_, at) = block(node, newest(node).await?).await?;
            Ok(at)
        })
    }

    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(async move {
            if known.height > newest(node).await? {
                return Ok(None);
            }
            let (_, at) = block(node, known.height).await?;
            Ok(Some(at))
        })
    }

    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        filter: &'a EventFilter,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
        Box::pin(async move {
            if newest(node).await? <= known.height {
                return Ok(None);
            }
            let (id, at) = block(node, known.height + 1).await?;
            let mut events = Vec::new();
            if filter.wants(EventType::NewBlock) {
                events.push(ChainEvent::new(EventType::NewBlock).with("parent_hash", &*at.parent));
            }
            if wants_transactions(filter) {
                let mut blocks = confirmed(node, at.height).await?;
                blocks.insert(0, id);
                for block in blocks {
                    for tx in transactions(node, &block).await? {
                        tx.events(filter, &mut events)?;
                    }
                }
            }
            Ok(Some(BlockEvents { block: at, events }))
        })
    }

    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        match key {
            "address" | "from" | "to" | "jetton_wallet" => raw(value),
            "tx_hash" | "block_hash" | "parent_hash" => hash(value),
            "body" => STANDARD.decode(value).is_ok_and(|body| !body.is_empty()).then(|| value.to_owned()),
            "opcode" => {
                let digits = value.strip_prefix("0x").unwrap_or(value);
                lower_hex(digits, 8).map(|digits| format!("0x{digits}"))
            }
            _ => Some(value.to_owned()),
        }
    }
}
