//! Reads Cosmos blocks and their events by the REST API.

use super::event::{AbciEvent, address};
use super::shapes::shapes;
use crate::activity::Activity;
use crate::answer::read;
use crate::following::{at_height, new_block, unless_above};
use crate::form::{is_hex, program_name};
use crate::kinds::{KINDS, wants_transactions};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method as Verb;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventFilter, EventShape, EventType, HeadSubscription,
    NodeCalls, ReadError,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

const BLOCK: &str = "not a block of the Cosmos Hub";
const TRANSACTIONS: &str = "not the transactions of a block of the Cosmos Hub";
/// The maximum number of transactions that a node returns at once.
const PAGE: usize = 100;

/// Reads the blocks of the Cosmos Hub.
///
/// A transaction's events come from the node's index of transactions, which is a little behind the newest block.
/// Modules also emit events at the end of a block (the end of unbonding, rewards of validators); the API does not show
/// them.
#[derive(Clone, Copy, Debug)]
pub(super) struct CosmosBlocks;

#[derive(Debug, Deserialize)]
struct BlockAnswer {
    block_id: BlockId,
    block: BlockBody,
}

#[derive(Debug, Default, Deserialize)]
struct BlockId {
    /// In base64; the first block's parent has none.
    #[serde(default)]
    hash: String,
}

#[derive(Debug, Deserialize)]
struct BlockBody {
    header: Header,
    data: BlockData,
}

#[derive(Debug, Deserialize)]
struct Header {
    height: String,
    time: String,
    last_block_id: Option<BlockId>,
}

#[derive(Debug, Deserialize)]
struct BlockData {
    #[serde(default)]
    txs: Vec<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Found {
    tx_responses: Vec<TxResponse>,
    total: String,
}

#[derive(Debug, Deserialize)]
struct TxResponse {
    height: String,
    txhash: String,
    #[serde(default)]
    code: u32,
    events: Vec<AbciEvent>,
}

struct Block {
    reference: BlockRef,
    count: usize,
}

/// Returns a hash as CometBFT writes it: in hex, upper case.
fn hash(base64: &str) -> Option<String> {
    let bytes = STANDARD.decode(base64).ok()?;
    (bytes.len() == 32).then(|| hex::encode_upper(bytes))
}

/// Returns the seconds since 1970 of a time as Go writes it: `2026-01-01T00:00:00.123456789Z`.
fn seconds(time: &str) -> Option<i64> {
    let text = time.strip_suffix('Z')?;
    let (text, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let (date, clock) = text.split_once('T')?;
    let digits = |text: &str, length: usize| {
        let is_number = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<i64>().ok()).flatten()
    };
    let mut date = date.split('-');
    let mut clock = clock.split(':');
    let year = digits(date.next()?, 4)?;
    let month = digits(date.next()?, 2)?;
    let day = digits(date.next()?, 2)?;
    let hour = digits(clock.next()?, 2)?;
    let minute = digits(clock.next()?, 2)?;
    let second = digits(clock.next()?, 2)?;
    let is_exact = date.next().is_none() && clock.next().is_none();
    let in_range = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !is_exact || !in_range {
        return None;
    }
    // Days since 1970 (Gregorian), with years that begin in March, so that a leap day is the last of its year.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

impl BlockAnswer {
    fn checked(self) -> Option<Block> {
        let Header { height, time, last_block_id } = self.block.header;
        let parent = last_block_id.unwrap_or_default().hash;
        let parent = if parent.is_empty() { String::new() } else { hash(&parent)? };
        let reference =
            BlockRef::new(height.parse().ok()?, hash(&self.block_id.hash)?, parent, seconds(&time)?);
        Some(Block { reference, count: self.block.data.txs.len() })
    }
}

async fn block(node: &dyn NodeCalls, which: &str) -> Result<Block, ReadError> {
    let path = format!("/cosmos/base/tendermint/v1beta1/blocks/{which}");
    let answer = node.request(Verb::GET, path, String::new()).await?;
    read::<BlockAnswer>(&answer, BLOCK)?.checked().ok_or(ReadError::Unreadable(BLOCK))
}

async fn block_at(node: &dyn NodeCalls, height: u64) -> Result<Block, ReadError> {
    let Block { reference, count } = block(node, &height.to_string()).await?;
    Ok(Block { reference: at_height(reference, height)?, count })
}

/// Returns the transactions of a block in order; `None` if the node has not indexed all of them.
async fn transactions(node: &dyn NodeCalls, block: &Block) -> Result<Option<Vec<TxResponse>>, ReadError> {
    let height = block.reference.height;
    let count = block.count;
    let unreadable = || ReadError::Unreadable(TRANSACTIONS);
    let mut all: Vec<TxResponse> = Vec::new();
    for page in 1..=count.div_ceil(PAGE) {
        // Versions before 0.50 of the SDK read `events`, later ones `query`; each ignores the other.
        let path = format!(
            "/cosmos/tx/v1beta1/txs?query=tx.height%3D{height}&events=tx.height%3D{height}\
             &order_by=ORDER_BY_ASC&page={page}&limit={PAGE}"
        );
        let found: Found = read(&node.request(Verb::GET, path, String::new()).await?, TRANSACTIONS)?;
        let total: usize = found.total.parse().map_err(|_| unreadable())?;
        if total < count {
            return Ok(None);
        }
        if found.tx_responses.iter().any(|tx| tx.height.parse() != Ok(height)) {
            return Err(unreadable());
        }
        all.extend(found.tx_responses);
    }
    if all.len() == count { Ok(Some(all)) } else { Err(unreadable()) }
}

/// Adds the events of one transaction. A failed one has only those of its fee.
fn transaction(tx: &TxResponse, filter: &EventFilter, events: &mut Vec<ChainEvent>) {
    let tx_hash = tx.txhash.to_ascii_uppercase();
    let mut activity = Activity::default();
    for event in &tx.events {
        event.concern(&mut activity);
    }
    let event = ChainEvent::new(EventType::AddressActivity)
        .with("tx_hash", tx_hash.as_str())
        .with("success", tx.code == 0);
    activity.events(&event, filter, events);
    for (index, event) in tx.events.iter().enumerate() {
        if filter.wants(EventType::TokenTransfer) {
            events.extend(event.transfers().into_iter().map(|transfer| transfer.event(&tx_hash, index)));
        }
    }
    for (index, event) in tx.events.iter().enumerate() {
        if filter.wants(EventType::ContractEvent) {
            events.push(event.shown(&tx_hash, index));
        }
    }
}

impl BlockReader for CosmosBlocks {
    fn kinds(&self) -> &'static [EventType] {
        KINDS
    }

    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        shapes(kind)
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(async move { Ok(block(node, "latest").await?.reference) })
    }

    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(async move {
            let found = block_at(node, known.height).await.map(|block| block.reference);
            let newest = async { Ok(block(node, "latest").await?.reference.height) };
            unless_above(found, known.height, newest).await
        })
    }

    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        filter: &'a EventFilter,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
        Box::pin(async move {
            let newest = block(node, "latest").await?;
            let head = newest.reference.height;
            let height = known.height.saturating_add(1);
            if head < height {
                return Ok(None);
            }
            let block = if head == height { newest } else { block_at(node, height).await? };
            let mut events = Vec::new();
            if filter.wants(EventType::NewBlock) {
                events.push(new_block(&block.reference, block.count));
            }
            if wants_transactions(filter) {
                let Some(all) = transactions(node, &block).await? else {
                    if head == height {
                        return Ok(None);
                    }
                    return Err(ReadError::Unreadable("the node's index lacks transactions of the block"));
                };
                all.iter().for_each(|tx| transaction(tx, filter, &mut events));
            }
            Ok(Some(BlockEvents { block: block.reference, events }))
        })
    }

    fn head_subscription(&self) -> Option<HeadSubscription> {
        const HEADERS: &str =
            r#"{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"tm.event='NewBlockHeader'"}}"#;
        Some(HeadSubscription { subscribe: HEADERS })
    }

    /// Addresses are lower-case bech32, hashes upper-case hex without `0x`. A token is a case-sensitive denomination.
    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        match key {
            "address" | "from" | "to" => address(value),
            "tx_hash" | "block_hash" | "parent_hash" => {
                let digits = value.strip_prefix("0x").unwrap_or(value);
                is_hex(digits, 64).then(|| digits.to_ascii_uppercase())
            }
            "token" => is_denom(value).then(|| value.to_owned()),
            "type" => program_name(value),
            _ => Some(value.to_owned()),
        }
    }
}

/// Reports whether a text can be a denomination (`reDnmString` of the Cosmos SDK): `uatom`, `ibc/27394FB0…`.
fn is_denom(text: &str) -> bool {
    let is_of_denom = |byte: u8| byte.is_ascii_alphanumeric() || b"/:._-".contains(&byte);
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    begins_well && (3..=128).contains(&text.len()) && text.bytes().all(is_of_denom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_1970() {
        for (time, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2024-02-29T12:00:01.5Z", 1_709_208_001),
            ("2026-01-01T00:00:00.123456789Z", 1_767_225_600),
            ("1969-12-31T23:59:59Z", -1),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] {
            assert_eq!(seconds(time), Some(expected), "{time}");
        }
        for wrong in [
            "",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.xZ",
            "2026-01-01T00:00:00+02:00",
            "+026-01-01T00:00:00Z",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_hash_has_32_bytes() {
        assert_eq!(hash("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8="), Some(format!("{:0>64}", "FF")));
        for wrong in ["", "AAAA", "%", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8"] {
            assert_eq!(hash(wrong), None, "{wrong}");
        }
    }
}
