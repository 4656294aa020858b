//! Reads TRON blocks and their events by the HTTP API.

use super::address::{canonical, of_hex};
use super::shapes::shapes;
use super::token::Log;
use crate::activity::Activity;
use crate::answer::{read, refused};
use crate::following::{at_height, new_block};
use crate::form::{hex_bytes, lower_hex, program_name};
use crate::kinds::{KINDS, wants_transactions};
use http::Method as Verb;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventFilter, EventShape, EventType, NodeCalls, ReadError,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;

const BLOCK: &str = "not a block of TRON";
const RESULTS: &str = "not the results of a block of TRON";

/// Address members of an operation, and whether the address acts.
const ADDRESSES: &[(&str, bool)] = &[
    ("owner_address", true),
    ("to_address", false),
    ("contract_address", false),
    ("receiver_address", false),
    ("account_address", false),
];

/// The kinds of internal transactions that move their value: `call`, `create`, `suicide`.
const MOVES: [&str; 3] = ["63616c6c", "637265617465", "73756963696465"];

/// Reads the blocks of TRON.
///
/// A transaction's events come from its operation and from its result. One more call gets the results of the whole
/// block, only if events of transactions are wanted. A failed transaction moves nothing: its activity has no value.
#[derive(Clone, Copy, Debug)]
pub(super) struct TronBlocks;

/// The answer to a block request: the block, nothing, or an error with status 200.
#[derive(Debug, Deserialize)]
struct BlockAnswer {
    #[serde(rename = "blockID")]
    id: Option<String>,
    block_header: Option<Header>,
    #[serde(default)]
    transactions: Vec<Tx>,
    #[serde(rename = "Error")]
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Header {
    raw_data: HeaderData,
}

/// The encoding leaves out a zero.
#[derive(Debug, Deserialize)]
struct HeaderData {
    #[serde(default)]
    number: u64,
    #[serde(rename = "parentHash")]
    parent: String,
    /// In milliseconds.
    #[serde(default)]
    timestamp: i64,
}

#[derive(Debug, Deserialize)]
struct Tx {
    #[serde(rename = "txID")]
    id: String,
    #[serde(default)]
    ret: Vec<TxReturn>,
    raw_data: TxData,
}

#[derive(Debug, Deserialize)]
struct TxReturn {
    #[serde(rename = "contractRet")]
    contract: Option<String>,
}

#[derive(Debug, Deserialize)]
struct TxData {
    #[serde(default)]
    contract: Vec<Operation>,
}

#[derive(Debug, Deserialize)]
struct Operation {
    #[serde(rename = "type")]
    kind: String,
    parameter: Parameter,
}

#[derive(Debug, Deserialize)]
struct Parameter {
    #[serde(default)]
    value: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct TxResult {
    id: String,
    #[serde(rename = "blockNumber", default)]
    number: u64,
    /// `FAILED`, or absent.
    result: Option<String>,
    /// The contract that ran or was created.
    contract_address: Option<String>,
    #[serde(default)]
    log: Vec<Log>,
    #[serde(default)]
    internal_transactions: Vec<Internal>,
}

/// Coins or TRC-10 tokens that a contract moved, staked or delegated, if the node records that.
#[derive(Debug, Deserialize)]
struct Internal {
    #[serde(default)]
    caller_address: String,
    #[serde(rename = "transferTo_address", default)]
    to: String,
    /// The kind, in hex.
    #[serde(default)]
    note: String,
    #[serde(rename = "callValueInfo", default)]
    values: Vec<CallValue>,
    #[serde(default)]
    rejected: bool,
}

#[derive(Debug, Deserialize)]
struct CallValue {
    #[serde(rename = "callValue", default)]
    value: u64,
    #[serde(rename = "tokenId")]
    token: Option<String>,
}

#[derive(Debug)]
struct Block {
    reference: BlockRef,
    transactions: Vec<Tx>,
}

fn hash(text: &str) -> Option<String> {
    lower_hex(text, 64)
}

async fn block(node: &dyn NodeCalls, method: &str, body: String) -> Result<Option<Block>, ReadError> {
    let answer = node.request(Verb::POST, format!("/wallet/{method}"), body).await?;
    let answer: BlockAnswer = read(&answer, BLOCK)?;
    if let Some(error) = answer.error {
        return Err(refused(200, &error));
    }
    let (id, header) = match (answer.id, answer.block_header) {
        (Some(id), Some(Header { raw_data })) => (id, raw_data),
        (None, None) => return Ok(None),
        _ => return Err(ReadError::Unreadable(BLOCK)),
    };
    let unreadable = || ReadError::Unreadable(BLOCK);
    let (id, parent) = hash(&id).zip(hash(&header.parent)).ok_or_else(unreadable)?;
    let reference = BlockRef::new(header.number, id, parent, header.timestamp.div_euclid(1_000));
    Ok(Some(Block { reference, transactions: answer.transactions }))
}

async fn block_at(node: &dyn NodeCalls, height: u64) -> Result<Option<Block>, ReadError> {
    let found = block(node, "getblockbynum", format!("{{\"num\":{height}}}")).await?;
    let Some(Block { reference, transactions }) = found else { return Ok(None) };
    Ok(Some(Block { reference: at_height(reference, height)?, transactions }))
}

async fn results(node: &dyn NodeCalls, block: &Block) -> Result<Vec<TxResult>, ReadError> {
    if block.transactions.is_empty() {
        return Ok(Vec::new());
    }
    let height = block.reference.height;
    let path = "/wallet/gettransactioninfobyblocknum".to_owned();
    let answer = node.request(Verb::POST, path, format!("{{\"num\":{height}}}")).await?;
    let found: Vec<TxResult> = read(&answer, RESULTS)?;
    let mut by_id: HashMap<String, TxResult> =
        found.into_iter().map(|result| (result.id.clone(), result)).collect();
    let of = |tx: &Tx| by_id.remove(&tx.id).filter(|result| result.number == height);
    let all: Option<Vec<TxResult>> = block.transactions.iter().map(of).collect();
    // The block was replaced between the two calls, or the node does not keep results.
    all.ok_or(ReadError::Unreadable("the node has no results of the block's transactions"))
}

/// Returns an address member; `None` if it is absent or not an account's.
fn address(value: &Map<String, Value>, name: &str) -> Result<Option<String>, ReadError> {
    match value.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(of_hex(text)),
        Some(_) => Err(ReadError::Unreadable(BLOCK)),
    }
}

/// Returns an amount member; 0 if it is absent.
fn amount(value: &Map<String, Value>, name: &str) -> Result<u64, ReadError> {
    match value.get(name) {
        None => Ok(0),
        Some(value) => value.as_u64().ok_or(ReadError::Unreadable(BLOCK)),
    }
}

/// Returns the id of a TRC-10 token, which is the hex of its digits; older ones have a name.
fn asset(value: &Map<String, Value>) -> Option<String> {
    String::from_utf8(hex::decode(value.get("asset_name")?.as_str()?).ok()?).ok()
}

/// Returns the TRC-10 token that a call sends to a contract, and its amount.
fn call_asset(value: &Map<String, Value>) -> Result<Option<(String, u64)>, ReadError> {
    let token = amount(value, "token_id")?;
    Ok((token > 0).then_some((token.to_string(), amount(value, "call_token_value")?)))
}

struct TransactionEvents {
    activity: Activity,
    transfers: Vec<ChainEvent>,
    logged: Vec<ChainEvent>,
}

impl TransactionEvents {
    /// Adds the effect of an operation. `contract` is the one that ran or was created.
    fn operation(
        &mut self,
        operation: &Operation,
        contract: Option<&str>,
        success: bool,
        tx_hash: &str,
    ) -> Result<(), ReadError> {
        let value = &operation.parameter.value;
        for (name, acts) in ADDRESSES {
            if let Some(address) = address(value, name)? {
                if *acts { self.activity.sends(&address) } else { self.activity.receives(&address) }
            }
        }
        if !success {
            return Ok(());
        }
        let owner = address(value, "owner_address")?;
        let (to, coins, asset) = match operation.kind.as_str() {
            "TransferContract" | "ParticipateAssetIssueContract" => {
                (address(value, "to_address")?, amount(value, "amount")?, None)
            }
            "TransferAssetContract" => {
                let asset = asset(value).zip(Some(amount(value, "amount")?));
                (address(value, "to_address")?, 0, asset)
            }
            "TriggerSmartContract" => {
                (address(value, "contract_address")?, amount(value, "call_value")?, call_asset(value)?)
            }
            "CreateSmartContract" => {
                let made = value.get("new_contract").and_then(Value::as_object);
                let coins = made.map_or(Ok(0), |made| amount(made, "call_value"))?;
                (contract.map(str::to_owned), coins, call_asset(value)?)
            }
            _ => return Ok(()),
        };
        if let Some((from, to)) = owner.zip(to) {
            self.coins(&from, &to, coins);
            if let Some((token, value)) = asset.filter(|(_, value)| *value > 0) {
                self.asset(&token, &from, &to, value, tx_hash);
            }
        }
        Ok(())
    }

    fn coins(&mut self, from: &str, to: &str, value: u64) {
        self.activity.pays(from, "", Some(value.into()));
        self.activity.is_paid(to, "", Some(value.into()));
    }

    /// Moves a TRC-10 token. `index` distinguishes two equal transfers of a transaction.
    fn asset(&mut self, token: &str, from: &str, to: &str, value: u64, tx_hash: &str) {
        self.activity.pays(from, token, Some(value.into()));
        self.activity.is_paid(to, token, Some(value.into()));
        let index = self.transfers.len();
        self.transfers.push(
            ChainEvent::new(EventType::TokenTransfer)
                .with("index", index)
                .with("token", token)
                .with("standard", "trc10")
                .with("from", from)
                .with("to", to)
                .with("value", value.to_string())
                .with("tx_hash", tx_hash),
        );
    }

    fn internal(&mut self, transfer: &Internal, tx_hash: &str) {
        let Some((from, to)) = of_hex(&transfer.caller_address).zip(of_hex(&transfer.to)) else {
            return;
        };
        self.activity.sends(&from);
        self.activity.receives(&to);
        if !MOVES.contains(&transfer.note.as_str()) {
            return;
        }
        for CallValue { value, token } in transfer.values.iter().filter(|transfer| transfer.value > 0) {
            match token.as_deref().filter(|token| !token.is_empty()) {
                None => self.coins(&from, &to, *value),
                Some(token) => self.asset(token, &from, &to, *value, tx_hash),
            }
        }
    }

    fn log(&mut self, log: &Log, index: usize, tx_hash: &str) -> Result<(), ReadError> {
        if let Some(transfer) = log.transfer() {
            self.activity.sends(&transfer.from);
            self.activity.receives(&transfer.to);
            self.transfers.push(transfer.event(tx_hash, index));
        }
        self.logged.push(log.event(tx_hash, index).ok_or(ReadError::Unreadable(RESULTS))?);
        Ok(())
    }
}

fn transaction(
    tx: &Tx,
    result: &TxResult,
    filter: &EventFilter,
    events: &mut Vec<ChainEvent>,
) -> Result<(), ReadError> {
    let tx_hash = hash(&tx.id).ok_or(ReadError::Unreadable(BLOCK))?;
    let returned = tx.ret.first().and_then(|ret| ret.contract.as_deref());
    let success = returned.is_none_or(|ret| ret == "SUCCESS") && result.result.as_deref() != Some("FAILED");
    let mut made =
        TransactionEvents { activity: Activity::default(), transfers: Vec::new(), logged: Vec::new() };
    let contract = result.contract_address.as_deref().and_then(of_hex);
    for operation in &tx.raw_data.contract {
        made.operation(operation, contract.as_deref(), success, &tx_hash)?;
    }
    if let Some(contract) = &contract {
        made.activity.receives(contract);
    }
    if success {
        for transfer in result.internal_transactions.iter().filter(|transfer| !transfer.rejected) {
            made.internal(transfer, &tx_hash);
        }
        for (index, log) in result.log.iter().enumerate() {
            made.log(log, index, &tx_hash)?;
        }
    }
    let kind = tx.raw_data.contract.first().map_or("", |operation| operation.kind.as_str());
    let event = ChainEvent::new(EventType::AddressActivity)
        .with("tx_hash", tx_hash.as_str())
        .with("success", success)
        .with("tx_type", kind);
    made.activity.events(&event, filter, events);
    if filter.wants(EventType::TokenTransfer) {
        events.append(&mut made.transfers);
    }
    if filter.wants(EventType::ContractEvent) {
        events.append(&mut made.logged);
    }
    Ok(())
}

impl BlockReader for TronBlocks {
    fn kinds(&self) -> &'static [EventType] {
        KINDS
    }

    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        shapes(kind)
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(async move {
            let newest = block(node, "getnowblock", "{}".to_owned()).await?;
            newest.map(|block| block.reference).ok_or(ReadError::Unreadable(BLOCK))
        })
    }

    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(async move { Ok(block_at(node, known.height).await?.map(|block| block.reference)) })
    }

    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        filter: &'a EventFilter,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
        Box::pin(async move {
            let Some(block) = block_at(node, known.height.saturating_add(1)).await? else {
                return Ok(None);
            };
            let mut events = Vec::new();
            if filter.wants(EventType::NewBlock) {
                events.push(new_block(&block.reference, block.transactions.len()));
            }
            if wants_transactions(filter) {
                let results = results(node, &block).await?;
                for (tx, result) in block.transactions.iter().zip(&results) {
                    transaction(tx, result, filter, &mut events)?;
                }
            }
            Ok(Some(BlockEvents { block: block.reference, events }))
        })
    }

    /// Addresses are Base58Check, hashes lower-case without `0x`. A token is a contract's address or a TRC-10 id.
    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        match key {
            "address" | "from" | "to" => canonical(value),
            "token" if (1..20).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(value.to_owned())
            }
            "token" => canonical(value),
            "tx_hash" | "block_hash" | "parent_hash" | "topic0" => {
                hash(value.strip_prefix("0x").unwrap_or(value))
            }
            "data" => hex_bytes(value.strip_prefix("0x").unwrap_or(value)),
            "tx_type" => program_name(value),
            _ => Some(value.to_owned()),
        }
    }
}
