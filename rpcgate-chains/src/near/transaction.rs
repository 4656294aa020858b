//! Transactions, the receipts that they cause, and the events of both.

use super::standard::{LogPosition, LoggedEvent};
use crate::activity::Activity;
use rpcgate_core::event::{ChainEvent, EventFilter, EventType, ReadError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::HashMap;

pub(super) const STATUS: &str = "not the status of a transaction of NEAR";
/// The account that the system's own receipts come from.
const SYSTEM: &str = "system";

#[derive(Debug, Deserialize)]
pub(super) struct Tx {
    pub(super) hash: String,
    pub(super) signer_id: String,
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
pub(super) struct TxStatus {
    final_execution_status: Option<String>,
    status: Option<Status>,
    pub(super) transaction: Option<Tx>,
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

impl Status {
    fn is_success(&self) -> bool {
        matches!(self, Status::Ended(ended) if ended.value.is_some() || ended.receipt.is_some())
    }
}

impl Action {
    fn runs(&self) -> bool {
        matches!(self, Action::Body(body) if body.call.is_some() || body.delegate.is_some())
    }

    fn beneficiary(&self) -> Option<&str> {
        let Action::Body(body) = self else { return None };
        body.deletion.as_ref().map(|deletion| &*deletion.beneficiary_id)
    }

    fn deposit(&self) -> Result<u128, ReadError> {
        let Action::Body(body) = self else { return Ok(0) };
        match body.transfer.as_ref().or(body.call.as_ref()) {
            Some(Deposit { deposit }) => deposit.parse().map_err(|_| ReadError::Unreadable(STATUS)),
            None => Ok(0),
        }
    }
}

/// Returns the sum of the moved coins; `None` beyond 128 bits.
fn deposits(actions: &[Action]) -> Result<Option<u128>, ReadError> {
    let mut sum = Some(0u128);
    for action in actions {
        let deposit = action.deposit()?;
        sum = sum.and_then(|sum| sum.checked_add(deposit));
    }
    Ok(sum)
}

impl TxStatus {
    /// Reports whether all receipts have run. Nodes that do not include the status wait for that before they answer.
    pub(super) fn is_complete(&self) -> bool {
        let stage = self.final_execution_status.as_deref();
        stage.is_none_or(|stage| matches!(stage, "EXECUTED_OPTIMISTIC" | "EXECUTED" | "FINAL"))
    }

    /// Returns the deleted accounts whose coins receipts of the system move, by the ids of these receipts.
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
            // Refunded gas comes after it.
            let paid = made.and_then(|of| of.outcome.receipt_ids.iter().find(pays));
            deleted.extend(paid.map(|id| (id.as_str(), account)));
        }
        deleted
    }

    pub(super) fn push_events(
        &self,
        filter: &EventFilter,
        events: &mut Vec<ChainEvent>,
    ) -> Result<(), ReadError> {
        // A transaction that no block had executed after [`PATIENCE`] blocks has no events.
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
                // The system refunds what was not used, and moves the remaining coins of a deleted account.
                SYSTEM => deleted.get(receipt.receipt_id.as_str()).copied(),
                from => Some(from),
            };
            if let Some(from) = from {
                pay(from, &receipt.receiver_id, &action.actions, &receipt.receipt_id)?;
            }
        }
        let mut transfers = Vec::new();
        let mut logged = Vec::new();
        for OutcomeOf { id, outcome } in &self.receipts_outcome {
            if !outcome.status.is_success() {
                continue;
            }
            for (index, log) in outcome.logs.iter().enumerate() {
                let Some(event) = LoggedEvent::read(log) else { continue };
                let position =
                    LogPosition { contract: &outcome.executor_id, tx_hash: &tx.hash, receipt: id, index };
                let moves = event.transfers();
                let is_one = moves.len() == 1;
                for (index, transfer) in moves.into_iter().enumerate() {
                    transfer.from.iter().for_each(|from| activity.sends(from));
                    transfer.to.iter().for_each(|to| activity.receives(to));
                    // A log may contain two equal transfers.
                    let event = transfer.event(position);
                    transfers.push(if is_one { event } else { event.with("index", index) });
                }
                logged.push(event.shown(position));
            }
        }
        let success = self.status.as_ref().is_some_and(Status::is_success);
        let event = ChainEvent::new(EventType::AddressActivity)
            .with("tx_hash", tx.hash.as_str())
            .with("success", success)
            .with("from", tx.signer_id.as_str())
            .with("to", tx.receiver_id.as_str());
        activity.events(&event, filter, events);
        if filter.wants(EventType::TokenTransfer) {
            events.append(&mut transfers);
        }
        if filter.wants(EventType::ContractEvent) {
            events.append(&mut logged);
        }
        Ok(())
    }
}

impl Tx {
    pub(super) fn matches(&self, filter: &EventFilter) -> bool {
        let concerns_others = |action: &Action| action.runs() || action.beneficiary().is_some();
        self.actions.iter().any(concerns_others)
            || filter.watches(&self.signer_id)
            || filter.watches(&self.receiver_id)
    }
}
