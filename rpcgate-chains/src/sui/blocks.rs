//! Reads checkpoints and the events of their transactions.

use super::address::{address, is_name, type_name};
use super::shapes::shapes;
use crate::activity::Activity;
use crate::answer::read;
use crate::following::{at_height, new_block, unless_above};
use crate::form::base58;
use crate::kinds::{KINDS, wants_transactions};
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, ChainEvent, EventFilter, EventShape, EventType, NodeCalls, ReadError,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const CHECKPOINT: &str = "not a checkpoint of Sui";
const TRANSACTIONS: &str = "not the transactions of a checkpoint of Sui";

/// The maximum number of transactions that a node returns at once.
const PAGE: usize = 50;
/// The coin type that pays for gas.
const SUI: &str = "0x2::sui::SUI";
/// The maximum number of Move event members in an event's data.
const FIELDS: usize = 64;
/// Names that have a meaning in every event, so that no Move event may use them.
const RESERVED: [&str; 8] =
    ["block_hash", "block_num", "chain", "event_type", "removed", "reorganized", "timestamp", "truncated"];

/// Reads the checkpoints of Sui, which are final.
///
/// Nodes report coins as the change of each owner's balance in a transaction; the gas is subtracted from it. Objects
/// that are not coins do not count.
#[derive(Clone, Copy, Debug)]
pub(super) struct SuiBlocks;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CheckpointAnswer {
    sequence_number: String,
    digest: String,
    previous_digest: Option<String>,
    timestamp_ms: String,
    transactions: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TxAnswer {
    digest: String,
    transaction: TxInput,
    effects: Effects,
    balance_changes: Option<Vec<BalanceChange>>,
    events: Option<Vec<MoveEvent>>,
}

#[derive(Debug, Deserialize)]
struct TxInput {
    data: TxData,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TxData {
    sender: String,
    gas_data: GasData,
}

#[derive(Debug, Deserialize)]
struct GasData {
    owner: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Effects {
    status: EffectsStatus,
    gas_used: GasUsed,
}

#[derive(Debug, Deserialize)]
struct EffectsStatus {
    status: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GasUsed {
    computation_cost: String,
    storage_cost: String,
    storage_rebate: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BalanceChange {
    owner: Owner,
    coin_type: String,
    amount: String,
}

/// The owner of a coin: an address, an object, or none (`Immutable`, `Shared`).
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Owner {
    One {
        #[serde(rename = "AddressOwner", alias = "ObjectOwner")]
        address: String,
    },
    Consensus {
        #[serde(rename = "ConsensusAddressOwner")]
        owner: ConsensusOwner,
    },
    Other(serde::de::IgnoredAny),
}

#[derive(Debug, Deserialize)]
struct ConsensusOwner {
    owner: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MoveEvent {
    id: EventId,
    package_id: String,
    transaction_module: String,
    sender: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    parsed_json: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventId {
    event_seq: String,
}

struct Checkpoint {
    reference: BlockRef,
    transactions: Vec<String>,
}

impl CheckpointAnswer {
    fn checked(self) -> Option<Checkpoint> {
        let millis: i64 = self.timestamp_ms.parse().ok()?;
        if self.digest.is_empty() {
            return None;
        }
        let parent = self.previous_digest.unwrap_or_default();
        let height = self.sequence_number.parse().ok()?;
        let reference = BlockRef::new(height, self.digest, parent, millis.div_euclid(1_000));
        Some(Checkpoint { reference, transactions: self.transactions })
    }
}

async fn newest(node: &dyn NodeCalls) -> Result<u64, ReadError> {
    let answer = node.call("sui_getLatestCheckpointSequenceNumber", "[]".to_owned()).await?;
    let number: String = read(&answer, CHECKPOINT)?;
    number.parse().map_err(|_| ReadError::Unreadable(CHECKPOINT))
}

async fn checkpoint(node: &dyn NodeCalls, number: u64) -> Result<Checkpoint, ReadError> {
    let answer = node.call("sui_getCheckpoint", format!("[\"{number}\"]")).await?;
    let found = read::<CheckpointAnswer>(&answer, CHECKPOINT)?.checked();
    let Checkpoint { reference, transactions } = found.ok_or(ReadError::Unreadable(CHECKPOINT))?;
    Ok(Checkpoint { reference: at_height(reference, number)?, transactions })
}

/// Returns the transactions of a page with their wanted parts.
async fn transactions(
    node: &dyn NodeCalls,
    digests: &[String],
    filter: &EventFilter,
) -> Result<Vec<TxAnswer>, ReadError> {
    let coins = filter.wants(EventType::AddressActivity) || filter.wants(EventType::TokenTransfer);
    let logged = filter.wants(EventType::ContractEvent);
    let options = json!({
        "showInput": true, "showEffects": true, "showBalanceChanges": coins, "showEvents": logged,
    });
    let params = json!([digests, options]).to_string();
    let found: Vec<TxAnswer> =
        read(&node.call("sui_multiGetTransactionBlocks", params).await?, TRANSACTIONS)?;
    let is_complete = found.len() == digests.len()
        && found.iter().zip(digests).all(|(tx, digest)| {
            tx.digest == *digest
                && (!coins || tx.balance_changes.is_some())
                && (!logged || tx.events.is_some())
        });
    if is_complete { Ok(found) } else { Err(ReadError::Unreadable(TRANSACTIONS)) }
}

/// The changes of balances in a transaction: by type of coin, then by owner.
type Changes = BTreeMap<String, BTreeMap<String, i128>>;

impl TxAnswer {
    /// Returns the changes of balances without the gas; `None` if the node's numbers are invalid.
    fn changes(&self) -> Option<Changes> {
        let mut changes = Changes::new();
        let mut add = |token: String, owner: String, amount: i128| {
            let sum = changes.entry(token).or_default().entry(owner).or_default();
            *sum = sum.checked_add(amount)?;
            Some(())
        };
        for change in self.balance_changes.iter().flatten() {
            let owner = match &change.owner {
                Owner::One { address } => address,
                Owner::Consensus { owner } => &owner.owner,
                Owner::Other(_) => continue,
            };
            add(type_name(&change.coin_type)?, address(owner)?, change.amount.parse().ok()?)?;
        }
        let GasUsed { computation_cost, storage_cost, storage_rebate } = &self.effects.gas_used;
        let cost = |digits: &String| digits.parse::<u64>().ok().map(i128::from);
        let gas = cost(computation_cost)? + cost(storage_cost)? - cost(storage_rebate)?;
        add(SUI.to_owned(), address(&self.transaction.data.gas_data.owner)?, gas)?;
        for owners in changes.values_mut() {
            owners.retain(|_, sum| *sum != 0);
        }
        Some(changes)
    }

    fn push_events(&self, filter: &EventFilter, events: &mut Vec<ChainEvent>) -> Option<()> {
        let changes = if self.balance_changes.is_some() { self.changes()? } else { Changes::new() };
        let mut activity = Activity::default();
        let sender = address(&self.transaction.data.sender)?;
        // The validators make transactions of address 0.
        if sender.bytes().skip(2).any(|digit| digit != b'0') {
            activity.sends(&sender);
        }
        for (token, owners) in &changes {
            for (owner, sum) in owners {
                let value = Some(sum.unsigned_abs());
                if *sum < 0 {
                    activity.pays(owner, token, value);
                } else {
                    activity.is_paid(owner, token, value);
                }
            }
        }
        let success = self.effects.status.status == "success";
        let event = ChainEvent::new(EventType::AddressActivity)
            .with("tx_hash", self.digest.as_str())
            .with("success", success);
        activity.events(&event, filter, events);
        if filter.wants(EventType::TokenTransfer) {
            for (token, owners) in &changes {
                events.extend(
                    transfers(owners).into_iter().map(|transfer| transfer.event(token, &self.digest)),
                );
            }
        }
        if filter.wants(EventType::ContractEvent) {
            for event in self.events.iter().flatten() {
                events.push(event.shown(&self.digest)?);
            }
        }
        Some(())
    }
}

#[derive(Debug, PartialEq, Eq)]
struct BalanceTransfer<'a> {
    from: Option<&'a str>,
    to: Option<&'a str>,
    value: u128,
}

/// Returns the transfers behind the balance changes of one coin type. Each owner that gained gets one, from the owner
/// that lost if that is the only one and it lost enough. What no owner gained is a transfer without a receiver (it went
/// into an object, or was burned).
fn transfers(owners: &BTreeMap<String, i128>) -> Vec<BalanceTransfer<'_>> {
    let gained = owners.iter().filter(|(_, sum)| **sum > 0);
    let lost: Vec<_> = owners.iter().filter(|(_, sum)| **sum < 0).collect();
    let total = gained.clone().map(|(_, sum)| sum.unsigned_abs()).fold(0, u128::saturating_add);
    let payer = match lost[..] {
        [(owner, sum)] if sum.unsigned_abs() >= total => Some((owner.as_str(), sum.unsigned_abs() - total)),
        _ => None,
    };
    let from = payer.map(|(owner, _)| owner);
    let mut out: Vec<_> = gained
        .map(|(to, sum)| BalanceTransfer { from, to: Some(to.as_str()), value: sum.unsigned_abs() })
        .collect();
    match payer {
        Some((_, 0)) => {}
        Some((owner, value)) => out.push(BalanceTransfer { from: Some(owner), to: None, value }),
        None => out.extend(lost.into_iter().map(|(owner, sum)| BalanceTransfer {
            from: Some(owner.as_str()),
            to: None,
            value: sum.unsigned_abs(),
        })),
    }
    out
}

impl BalanceTransfer<'_> {
    fn event(&self, token: &str, tx_hash: &str) -> ChainEvent {
        let mut event = ChainEvent::new(EventType::TokenTransfer).with("token", token);
        for (name, owner) in [("from", self.from), ("to", self.to)] {
            if let Some(owner) = owner {
                event = event.with(name, owner);
            }
        }
        event.with("value", self.value.to_string()).with("tx_hash", tx_hash)
    }
}

/// Reports whether event data keeps a member of a Move event: numbers beyond 32 bits are texts there.
fn is_scalar(value: &Value) -> bool {
    match value {
        Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => !number.is_f64(),
        _ => false,
    }
}

impl MoveEvent {
    /// Returns the webhook event. Scalar members of the Move event keep their names, unless already in use.
    fn shown(&self, tx_hash: &str) -> Option<ChainEvent> {
        let mut event = ChainEvent::new(EventType::ContractEvent)
            .with("address", address(&self.package_id)?)
            .with("module", self.transaction_module.as_str())
            .with("type", type_name(&self.kind)?)
            .with("sender", address(&self.sender)?)
            .with("tx_hash", tx_hash)
            .with("index", self.id.event_seq.parse::<u64>().ok()?);
        let fields = self.parsed_json.as_object().into_iter().flatten().filter(|(_, value)| is_scalar(value));
        for (name, value) in fields.take(FIELDS) {
            if !event.data.contains_key(name) && !RESERVED.contains(&name.as_str()) {
                event.data.insert(name.clone(), value.clone());
            }
        }
        Some(event)
    }
}

impl BlockReader for SuiBlocks {
    fn kinds(&self) -> &'static [EventType] {
        KINDS
    }

    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        shapes(kind)
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(async move { Ok(checkpoint(node, newest(node).await?).await?.reference) })
    }

    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(async move {
            let found = checkpoint(node, known.height).await.map(|found| found.reference);
            unless_above(found, known.height, newest(node)).await
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
            let found = checkpoint(node, known.height.saturating_add(1)).await?;
            let mut events = Vec::new();
            if filter.wants(EventType::NewBlock) {
                events.push(new_block(&found.reference, found.transactions.len()));
            }
            if wants_transactions(filter) {
                for digests in found.transactions.chunks(PAGE) {
                    for tx in transactions(node, digests, filter).await? {
                        tx.push_events(filter, &mut events).ok_or(ReadError::Unreadable(TRANSACTIONS))?;
                    }
                }
            }
            Ok(Some(BlockEvents { block: found.reference, events }))
        })
    }

    /// Addresses and packages have 64 lower-case digits, except system packages in type names (`token`, `type`).
    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        match key {
            "address" | "from" | "to" | "sender" => address(value),
            "token" | "type" => type_name(value),
            "module" => is_name(value).then(|| value.to_owned()),
            "tx_hash" | "block_hash" | "parent_hash" => base58(value, 32),
            _ => Some(value.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(rows: &[(&str, i128)]) -> BTreeMap<String, i128> {
        rows.iter().map(|(owner, sum)| ((*owner).to_owned(), *sum)).collect()
    }

    fn told(rows: &[(&str, i128)]) -> Vec<(Option<String>, Option<String>, u128)> {
        let owners = owners(rows);
        let shown =
            |one: BalanceTransfer<'_>| (one.from.map(str::to_owned), one.to.map(str::to_owned), one.value);
        transfers(&owners).into_iter().map(shown).collect()
    }

    #[test]
    fn changes_of_balances_are_transfers_from_the_only_owner_that_lost() {
        let name = |text: &str| Some(text.to_owned());
        assert_eq!(told(&[]), []);
        assert_eq!(told(&[("a", -5), ("b", 5)]), [(name("a"), name("b"), 5)]);
        assert_eq!(
            told(&[("a", -9), ("b", 5), ("c", 1)]),
            [(name("a"), name("b"), 5), (name("a"), name("c"), 1), (name("a"), None, 3)]
        );
        assert_eq!(told(&[("a", -5)]), [(name("a"), None, 5)]);
        assert_eq!(told(&[("b", 5)]), [(None, name("b"), 5)]);
        assert_eq!(told(&[("a", -5), ("b", 7)]), [(None, name("b"), 7), (name("a"), None, 5)]);
        assert_eq!(
            told(&[("a", -5), ("b", -2), ("c", 7)]),
            [(None, name("c"), 7), (name("a"), None, 5), (name("b"), None, 2)]
        );
        assert_eq!(told(&[("a", i128::MIN), ("b", i128::MAX)])[1].2, 1);
    }
}
