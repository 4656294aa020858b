//! Reads blocks of UTXO chains and their events.
//!
//! The addresses and values of inputs are those of the outputs that they spend. Bitcoin Core since 23, Elements since
//! 23 and Bitcoin Cash Node since 24 include them in a block (`getblock` with verbosity 3). From other nodes the
//! transactions with these outputs are read one by one, if the node has a transaction index and only up to
//! [`MOST_LOOK_UPS`] per block. Events of a transaction with an unknown input say `inputs_known: false`.

use super::Utxo;
use super::shapes::shapes;
use super::transaction::{OutPoint, Spent, Transaction};
use crate::answer::read;
use crate::following::{at_height, new_block};
use crate::form::{direction, hex_bytes, is_hex, lower_hex, whole_number};
use crate::kinds::{KINDS, wants_transactions};
use bytes::Bytes;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, EventFilter, EventShape, EventType, NodeCalls, ReadError,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};

/// The chain with CashTokens, and the one with issued assets. Tokens of both are named by a hash.
const CASH_TOKENS: &str = "bch";
const ASSETS: &str = "liquid";

/// The maximum number of transactions read for the inputs of one block.
const MOST_LOOK_UPS: usize = 2_000;
/// The maximum number of a block's transactions read one by one, from a node that only lists their ids.
const MOST_OF_BLOCK: usize = 10_000;

const WRONG_BLOCK: &str = "a block is not as its API says";
const WRONG_HASH: ReadError = ReadError::Unreadable("a block's hash is not as its API says");
const WRONG_TRANSACTION: &str = "a transaction is not as its API says";

/// A header, or a block with its transactions or their ids.
#[derive(Deserialize)]
struct Block<'a> {
    hash: String,
    height: u64,
    time: i64,
    previousblockhash: Option<String>,
    #[serde(borrow)]
    tx: Option<Vec<&'a RawValue>>,
}

impl Block<'_> {
    fn reference(&self) -> Result<BlockRef, ReadError> {
        let parent = match &self.previousblockhash {
            Some(parent) if is_hex(parent, 64) => parent.to_ascii_lowercase(),
            None if self.height == 0 => String::new(),
            _ => return Err(WRONG_HASH),
        };
        if !is_hex(&self.hash, 64) {
            return Err(WRONG_HASH);
        }
        Ok(BlockRef::new(self.height, self.hash.to_ascii_lowercase(), parent, self.time))
    }
}

fn hash(answer: &[u8]) -> Result<String, ReadError> {
    let hash: String = read(answer, "a block's hash is not as its API says")?;
    lower_hex(&hash, 64).ok_or(WRONG_HASH)
}

async fn hash_at(node: &dyn NodeCalls, height: u64) -> Result<Option<String>, ReadError> {
    match node.call("getblockhash", format!("[{height}]")).await {
        Ok(answer) => hash(&answer).map(Some),
        // "Block height out of range".
        Err(ReadError::Refused { code: -8, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn header(node: &dyn NodeCalls, hash: &str) -> Result<BlockRef, ReadError> {
    let answer = node.call("getblockheader", format!("[\"{hash}\",true]")).await?;
    let block: Block<'_> = read(&answer, WRONG_BLOCK)?;
    of_hash(block.reference()?, hash)
}

fn of_hash(block: BlockRef, hash: &str) -> Result<BlockRef, ReadError> {
    if block.hash == hash {
        Ok(block)
    } else {
        Err(ReadError::Unreadable("a block has another hash than the one that was asked for"))
    }
}

/// Returns a block with as much of its transactions as possible. Old nodes accept only a boolean verbosity.
async fn block(node: &dyn NodeCalls, hash: &str, verbosities: &[&str]) -> Result<Bytes, ReadError> {
    let mut refusal = ReadError::Unreadable(WRONG_BLOCK);
    for verbosity in verbosities {
        match node.call("getblock", format!("[\"{hash}\",{verbosity}]")).await {
            Err(error @ ReadError::Refused { code: -1 | -3 | -8, .. }) => refusal = error,
            other => return other,
        }
    }
    Err(refusal)
}

async fn transaction(node: &dyn NodeCalls, txid: &str) -> Result<Bytes, ReadError> {
    node.call("getrawtransaction", format!("[\"{txid}\",true]")).await
}

/// Reads the transactions of a block one by one, by their ids.
async fn read_ids(node: &dyn NodeCalls, listed: &[&RawValue]) -> Result<Vec<Bytes>, ReadError> {
    let mut out = Vec::new();
    for id in listed.iter().filter(|listed| listed.get().starts_with('"')) {
        if out.len() == MOST_OF_BLOCK {
            return Err(ReadError::Unreadable("a block has too many transactions to read them one by one"));
        }
        let id = hash(id.get().as_bytes())?;
        out.push(transaction(node, &id).await?);
    }
    Ok(out)
}

impl Utxo {
    /// Reads the outputs that these transactions spend and that the block does not describe fully.
    async fn spent(
        &self,
        node: &dyn NodeCalls,
        transactions: &[Transaction<'_>],
    ) -> Result<HashMap<OutPoint, Spent>, ReadError> {
        let mut outputs: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for input in transactions.iter().flat_map(|transaction| &transaction.vin) {
            if let Some((txid, vout)) = input.out_point()?
                && input.named_output(self)?.is_none()
            {
                outputs.entry(txid).or_default().push(vout);
            }
        }
        let mut out = HashMap::new();
        for transaction in transactions {
            if let Some(numbers) = outputs.remove(&transaction.txid) {
                self.collect(transaction, &numbers, &mut out)?;
            }
        }
        for (txid, numbers) in outputs.into_iter().take(MOST_LOOK_UPS) {
            let answer = match transaction(node, &txid).await {
                Ok(answer) => answer,
                // The node has no transaction index, so it will not find the others either.
                Err(ReadError::Refused { .. }) => break,
                Err(error) => return Err(error),
            };
            let spent: Transaction<'_> = read(&answer, WRONG_TRANSACTION)?;
            if spent.txid != txid {
                return Err(ReadError::Unreadable(
                    "a transaction is another one than that which was asked for",
                ));
            }
            self.collect(&spent, &numbers, &mut out)?;
        }
        Ok(out)
    }

    fn collect(
        &self,
        transaction: &Transaction<'_>,
        numbers: &[u32],
        out: &mut HashMap<OutPoint, Spent>,
    ) -> Result<(), ReadError> {
        for output in &transaction.vout {
            if let Some(number) = output.number()?.filter(|number| numbers.contains(number)) {
                out.insert((transaction.txid.clone(), number), output.spent(self)?);
            }
        }
        Ok(())
    }

    async fn next(
        &self,
        node: &dyn NodeCalls,
        known: &BlockRef,
        filter: &EventFilter,
    ) -> Result<Option<BlockEvents>, ReadError> {
        let Some(height) = known.height.checked_add(1) else { return Ok(None) };
        let Some(hash) = hash_at(node, height).await? else { return Ok(None) };
        let with_inputs = filter.wants(EventType::AddressActivity);
        let with_transactions = wants_transactions(filter);
        let verbosities: &[&str] = match (with_inputs, with_transactions) {
            (true, _) => &["3", "2", "true"],
            (false, true) => &["2", "true"],
            _ => &["true"],
        };
        let answer = self::block(node, &hash, verbosities).await?;
        let found: Block<'_> = read(&answer, WRONG_BLOCK)?;
        let block = at_height(of_hash(found.reference()?, &hash)?, height)?;
        let listed = found.tx.ok_or(ReadError::Unreadable(WRONG_BLOCK))?;
        let mut events = Vec::new();
        if filter.wants(EventType::NewBlock) {
            events.push(new_block(&block, listed.len()));
        }
        if !with_transactions {
            return Ok(Some(BlockEvents { block, events }));
        }
        let apart = read_ids(node, &listed).await?;
        let mut ids = apart.iter();
        let mut transactions: Vec<Transaction<'_>> = Vec::with_capacity(listed.len());
        for part in &listed {
            let json = match part.get() {
                id if id.starts_with('"') => ids.next().map_or(&[][..], |read| &read[..]),
                json => json.as_bytes(),
            };
            transactions.push(read(json, WRONG_TRANSACTION)?);
        }
        let spent = if with_inputs { self.spent(node, &transactions).await? } else { HashMap::new() };
        for (index, transaction) in transactions.iter().enumerate() {
            transaction.push_events(self, index, &spent, filter, &mut events)?;
        }
        Ok(Some(BlockEvents { block, events }))
    }
}

impl Utxo {
    /// Reports whether amounts can be of other assets than the chain's coin.
    fn has_assets(&self) -> bool {
        matches!(self.facts.name.as_str(), CASH_TOKENS | ASSETS)
    }
}

impl BlockReader for Utxo {
    fn kinds(&self) -> &'static [EventType] {
        KINDS
    }

    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        shapes(kind, self.facts.name.as_str() == CASH_TOKENS)
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(async move {
            let answer = node.call("getbestblockhash", "[]".to_owned()).await?;
            header(node, &hash(&answer)?).await
        })
    }

    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(async move {
            match hash_at(node, known.height).await? {
                // The hash covers the header.
                Some(hash) if hash == known.hash => Ok(Some(known.clone())),
                Some(hash) => header(node, &hash).await.map(Some),
                None => Ok(None),
            }
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

    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        match key {
            "address" | "from" | "to" => self.addresses().canonical(value),
            "tx_hash" | "block_hash" | "parent_hash" => lower_hex(value, 64),
            // The coin, or the id of an asset.
            "token" if is_hex(value, 64) => self.has_assets().then(|| value.to_ascii_lowercase()),
            "token" => (value == self.facts.name.as_str()).then(|| value.to_owned()),
            "data" | "script" | "token_id" => hex_bytes(value),
            "value" | "paid" | "received" => whole_number(value),
            "direction" => direction(value),
            _ => Some(value.to_owned()),
        }
    }
}
