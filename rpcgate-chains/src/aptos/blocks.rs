//! Blocks of Aptos and their events.
//!
//! The API does not name a block's parent, and a committed block is final: [`BlockRef::parent`] is empty.
//!
//! **Addresses** have `0x` and 64 lower-case digits, special ones (`0x0` to `0xf`) one digit.
//!
//! **Activity**: the sender, other signers and the fee payer, accounts that send or receive coins or fungible assets,
//! and accounts and objects whose resources change. `value` is the moved amount of APT.
//!
//! **Transfers**: deposits are matched with the withdrawals of the same transaction ([`Moves`]). A withdrawal or
//! deposit of a fungible asset names a store, whose asset and owner come from the changes of the transaction. Without
//! the asset there is no transfer; without the owner the transfer names only the store. Failed transactions transfer
//! nothing.

use super::Aptos;
use super::shapes::shapes;
use super::transaction::{Transaction, address};
use crate::answer::{number, read};
use crate::form::lower_hex;
use crate::kinds::{KINDS, wants_transactions};
use http::Method;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventFilter, EventShape, EventType, NodeCalls, ReadError,
};
use serde::Deserialize;

/// The maximum number of transactions read per block. Nodes limit blocks to fewer.
const TRANSACTIONS: u64 = 100_000;

#[derive(Deserialize)]
struct Ledger {
    #[serde(deserialize_with = "number")]
    block_height: u64,
}

#[derive(Deserialize)]
struct Block {
    #[serde(deserialize_with = "number")]
    block_height: u64,
    block_hash: String,
    /// In microseconds.
    #[serde(deserialize_with = "number")]
    block_timestamp: u64,
    #[serde(deserialize_with = "number")]
    first_version: u64,
    #[serde(deserialize_with = "number")]
    last_version: u64,
    #[serde(default)]
    transactions: Option<Vec<Transaction>>,
}

impl Block {
    fn at(&self) -> BlockRef {
        let secs = (self.block_timestamp / 1_000_000).cast_signed();
        BlockRef::new(self.block_height, &*self.block_hash, "", secs)
    }

    fn count(&self) -> Result<u64, ReadError> {
        let count = self.last_version.checked_sub(self.first_version).and_then(|rest| rest.checked_add(1));
        count.filter(|count| *count <= TRANSACTIONS).ok_or(ReadError::Unreadable("versions of a block"))
    }
}

/// Returns the block at a height; `None` if it does not exist yet.
async fn block(node: &dyn NodeCalls, height: u64, is_full: bool) -> Result<Option<Block>, ReadError> {
    let path = format!("/v1/blocks/by_height/{height}?with_transactions={is_full}");
    let answer = match node.request(Method::GET, path, String::new()).await {
        Err(ReadError::Refused { code: 404, .. }) => return Ok(None),
        answer => answer?,
    };
    let block: Block = read(&answer, "a block")?;
    if block.block_height == height {
        Ok(Some(block))
    } else {
        Err(ReadError::Unreadable("a block's height"))
    }
}

/// Returns all transactions of a block. A node truncates a long list; the rest is read by versions.
async fn transactions(node: &dyn NodeCalls, block: &mut Block) -> Result<Vec<Transaction>, ReadError> {
    const WRONG: ReadError = ReadError::Unreadable("transactions of a block");
    let count = block.count()?;
    let mut all = block.transactions.take().ok_or(WRONG)?;
    while (all.len() as u64) < count {
        let start = block.first_version + all.len() as u64;
        let path = format!("/v1/transactions?start={start}&limit={}", (count - all.len() as u64).min(100));
        let answer = node.request(Method::GET, path, String::new()).await?;
        let page: Vec<Transaction> = read(&answer, "transactions")?;
        if page.is_empty() {
            return Err(WRONG);
        }
        all.extend(page);
    }
    let are_theirs = (block.first_version..=block.last_version).eq(all.iter().map(|tx| tx.version));
    if are_theirs { Ok(all) } else { Err(WRONG) }
}

impl BlockReader for Aptos {
    fn kinds(&self) -> &'static [EventType] {
        KINDS
    }

    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        shapes(kind)
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(async move {
            let answer = node.request(Method::GET, "/v1".into(), String::new()).await?;
            let ledger: Ledger = read(&answer, "the state of the ledger")?;
            let block = block(node, ledger.block_height, false).await?;
            block.map(|block| block.at()).ok_or(ReadError::Unreadable("the newest block"))
        })
    }

    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(async move { Ok(block(node, known.height, false).await?.map(|block| block.at())) })
    }

    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        filter: &'a EventFilter,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
        Box::pin(async move {
            let is_full = wants_transactions(filter);
            let Some(height) = known.height.checked_add(1) else { return Ok(None) };
            let Some(mut block) = block(node, height, is_full).await? else { return Ok(None) };
            let mut events = Vec::new();
            if filter.wants(EventType::NewBlock) {
                let event = ChainEvent::new(EventType::NewBlock).with("transactions", block.count()?);
                events.push(
                    event.with("first_version", block.first_version).with("last_version", block.last_version),
                );
            }
            if is_full {
                for tx in transactions(node, &mut block).await? {
                    tx.events(filter, &mut events)?;
                }
            }
            Ok(Some(BlockEvents { block: block.at(), events }))
        })
    }

    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        match key {
            "address" | "from" | "to" | "account" | "from_store" | "to_store" => address(value),
            // A coin is named by its type, a fungible asset by its address.
            "token" if !value.contains("::") => address(value),
            "token" | "type" => is_type(value).then(|| value.to_owned()),
            "tx_hash" | "block_hash" => hash(value),
            _ => Some(value.to_owned()),
        }
    }
}

/// Reports whether a text can be a Move type as the API writes it, such as `0x1::coin::CoinStore<0x1::a::B>`. The API
/// truncates long ones, so the brackets may be open.
fn is_type(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_:<>, ".contains(&byte);
    if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '0') || !text.bytes().all(is_of_name) {
        return false;
    }
    let Some((outer, rest)) = text.split_once("::") else { return !text.contains(' ') };
    let package = outer.rsplit('<').next().unwrap_or(outer);
    let is_module = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    package.starts_with("0x") && address(package).is_some() && is_module
}

fn hash(text: &str) -> Option<String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    lower_hex(digits, 64).map(|digits| format!("0x{digits}"))
}
