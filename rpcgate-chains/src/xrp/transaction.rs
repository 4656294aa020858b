//! Transactions of a validated ledger and their events.

use crate::answer::read;
use crate::form::{is_hex, whole_number};
use rpcgate_core::event::{ChainEvent, EventFilter, EventType, ReadError};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

const WRONG: &str = "a transaction is not as its API says";
const WRONG_TRANSACTION: ReadError = ReadError::Unreadable(WRONG);

/// A payment that may deliver less than its amount.
const PARTIAL: u64 = 0x0002_0000;
const SUCCESS: &str = "tesSUCCESS";

/// A transaction in a ledger's list, with its members inline, or in `tx_json` from API version 2 on.
#[derive(Deserialize)]
struct Listed<'a> {
    hash: Option<String>,
    #[serde(borrow)]
    tx_json: Option<&'a RawValue>,
    #[serde(rename = "metaData")]
    old_meta: Option<Meta>,
    meta: Option<Meta>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Fields {
    transaction_type: String,
    account: String,
    destination: Option<String>,
    amount: Option<Value>,
    /// The name of a payment's amount from API version 2 on.
    deliver_max: Option<Value>,
    flags: Option<u64>,
    fee: Option<String>,
    /// The account that signs for the sender, and pays the fee.
    delegate: Option<String>,
    #[serde(rename = "NFTokenID")]
    nftoken: Option<String>,
    #[serde(rename = "hash")]
    hash: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Meta {
    transaction_index: u64,
    transaction_result: String,
    affected_nodes: Vec<Affected>,
    /// The amount that servers derive from the other members.
    #[serde(rename = "delivered_amount")]
    delivered: Option<Value>,
    delivered_amount: Option<Value>,
    #[serde(rename = "nftoken_id")]
    nftoken: Option<String>,
}

/// An entry of the ledger that a transaction created, changed or deleted.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Affected {
    created_node: Option<Node>,
    modified_node: Option<Node>,
    deleted_node: Option<Node>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    ledger_entry_type: String,
    new_fields: Option<NodeFields>,
    final_fields: Option<NodeFields>,
    previous_fields: Option<NodeFields>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NodeFields {
    account: Option<String>,
    owner: Option<String>,
    destination: Option<String>,
    balance: Option<Value>,
    high_limit: Option<Limit>,
    low_limit: Option<Limit>,
}

/// A side of a trust line.
#[derive(Deserialize)]
struct Limit {
    issuer: String,
}

struct Amount {
    token: String,
    value: String,
}

pub(super) struct Transaction {
    hash: String,
    fields: Fields,
    meta: Meta,
}

/// Parses an amount: drops of XRP as text, or an object.
fn amount(json: &Value) -> Result<Amount, ReadError> {
    if let Some(drops) = json.as_str() {
        let drops = whole_number(drops).ok_or(WRONG_TRANSACTION)?;
        return Ok(Amount { token: "XRP".to_owned(), value: drops });
    }
    let text = |name: &str| json.get(name).and_then(Value::as_str);
    let value = text("value").ok_or(WRONG_TRANSACTION)?.to_owned();
    let token = match (text("mpt_issuance_id"), text("currency"), text("issuer")) {
        (Some(id), _, _) => id.to_ascii_uppercase(),
        (None, Some(currency), Some(issuer)) => format!("{currency}.{issuer}"),
        _ => return Err(WRONG_TRANSACTION),
    };
    Ok(Amount { token, value })
}

/// Returns the balance of an account root, in drops.
fn drops(fields: Option<&NodeFields>) -> Option<i128> {
    fields?.balance.as_ref()?.as_str()?.parse().ok()
}

impl Node {
    fn after(&self) -> Option<&NodeFields> {
        self.new_fields.as_ref().or(self.final_fields.as_ref())
    }

    fn accounts(&self) -> impl Iterator<Item = &str> {
        let fields = self.after();
        let named =
            fields.into_iter().flat_map(|fields| [&fields.account, &fields.owner, &fields.destination]);
        let limits = fields.into_iter().flat_map(|fields| [&fields.high_limit, &fields.low_limit]);
        named
            .filter_map(|name| name.as_deref())
            .chain(limits.filter_map(|limit| limit.as_ref().map(|limit| limit.issuer.as_str())))
    }

    /// Returns the change of an account's balance, in drops.
    fn gain(&self, is_new: bool) -> i128 {
        if self.ledger_entry_type != "AccountRoot" {
            return 0;
        }
        let after = drops(self.after()).unwrap_or(0);
        if is_new {
            return after;
        }
        drops(self.previous_fields.as_ref()).map_or(0, |before| after.saturating_sub(before))
    }
}

impl Transaction {
    /// Returns the transactions of a ledger in the order in which they changed it; servers list them in another order.
    pub(super) fn in_order(listed: &[&RawValue]) -> Result<Vec<Self>, ReadError> {
        let mut out = listed.iter().map(|listed| Transaction::read(listed)).collect::<Result<Vec<_>, _>>()?;
        out.sort_by_key(|transaction| transaction.meta.transaction_index);
        Ok(out)
    }

    fn read(json: &RawValue) -> Result<Self, ReadError> {
        let listed: Listed<'_> = read(json.get().as_bytes(), WRONG)?;
        let fields: Fields = read(listed.tx_json.unwrap_or(json).get().as_bytes(), WRONG)?;
        let meta = listed.old_meta.or(listed.meta).ok_or(WRONG_TRANSACTION)?;
        let hash = listed.hash.as_ref().or(fields.hash.as_ref()).filter(|hash| is_hex(hash, 64));
        let hash = hash.ok_or(WRONG_TRANSACTION)?.to_ascii_uppercase();
        Ok(Transaction { hash, fields, meta })
    }

    fn succeeded(&self) -> bool {
        self.meta.transaction_result == SUCCESS
    }

    /// Returns a payment's delivered amount; `None` if it failed, and for old partial payments without that record.
    fn delivered(&self) -> Result<Option<Amount>, ReadError> {
        if self.fields.transaction_type != "Payment" || !self.succeeded() {
            return Ok(None);
        }
        let delivered = self.meta.delivered.as_ref().or(self.meta.delivered_amount.as_ref());
        if let Some(delivered) = delivered {
            return if delivered == "unavailable" { Ok(None) } else { amount(delivered).map(Some) };
        }
        let is_partial = self.fields.flags.unwrap_or(0) & PARTIAL != 0;
        let sent = self.fields.deliver_max.as_ref().or(self.fields.amount.as_ref());
        match sent.filter(|_| !is_partial) {
            Some(sent) => amount(sent).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn push_events(
        &self,
        filter: &EventFilter,
        events: &mut Vec<ChainEvent>,
    ) -> Result<(), ReadError> {
        let delivered = self.delivered()?;
        if filter.wants(EventType::AddressActivity) {
            self.push_activity(delivered.as_ref(), filter, events);
        }
        let is_payment = self.fields.transaction_type == "Payment";
        if filter.wants(EventType::TokenTransfer)
            && is_payment
            && self.succeeded()
            && let Some(to) = &self.fields.destination
        {
            let event = self.event(EventType::TokenTransfer).with("from", self.fields.account.as_str());
            events.push(with_amount(event.with("to", to.as_str()), delivered.as_ref()));
        }
        if filter.wants(EventType::ContractEvent) && !is_payment {
            let mut event = self
                .event(EventType::ContractEvent)
                .with("tx_type", self.fields.transaction_type.as_str())
                .with("address", self.fields.account.as_str())
                .with("success", self.succeeded())
                .with("result", self.meta.transaction_result.as_str());
            if let Some(to) = &self.fields.destination {
                event = event.with("to", to.as_str());
            }
            if let Some(id) = self.fields.nftoken.as_ref().or(self.meta.nftoken.as_ref()) {
                event = event.with("nftoken_id", id.as_str());
            }
            events.push(event);
        }
        Ok(())
    }

    fn event(&self, kind: EventType) -> ChainEvent {
        ChainEvent::new(kind).with("tx_hash", self.hash.as_str()).with("index", self.meta.transaction_index)
    }

    fn payer(&self) -> &str {
        self.fields.delegate.as_deref().unwrap_or(&self.fields.account)
    }

    /// Returns the fee in drops; `None` if it is missing or not a number. Events then have no fee.
    fn fee(&self) -> Option<u64> {
        self.fields.fee.as_ref()?.parse().ok()
    }

    /// Returns the change of the XRP balance of each concerned account, without the fee.
    fn gains(&self) -> BTreeMap<&str, i128> {
        let mut gains: BTreeMap<&str, i128> = BTreeMap::new();
        for affected in &self.meta.affected_nodes {
            let nodes = [&affected.created_node, &affected.modified_node, &affected.deleted_node];
            for (node, is_new) in nodes.into_iter().zip([true, false, false]) {
                let Some(node) = node else { continue };
                let gain = node.gain(is_new);
                for account in node.accounts() {
                    let sum = gains.entry(account).or_default();
                    *sum = sum.saturating_add(gain);
                }
            }
        }
        let fee = self.fee().map_or(0, i128::from);
        gains.entry(&self.fields.account).or_default();
        let payer = gains.entry(self.payer()).or_default();
        *payer = payer.saturating_add(fee);
        if let Some(to) = &self.fields.destination {
            gains.entry(to).or_default();
        }
        gains
    }

    fn push_activity(&self, delivered: Option<&Amount>, filter: &EventFilter, events: &mut Vec<ChainEvent>) {
        let sender = self.fields.account.as_str();
        let to = self.fields.destination.as_deref();
        for (address, gain) in self.gains() {
            if !filter.watches(address) {
                continue;
            }
            let is_party = address == sender || Some(address) == to;
            let paid = delivered.filter(|_| is_party);
            let direction = match (address == sender, Some(address) == to) {
                (true, true) => Some("self"),
                // A check or an escrow may pay the account that cashes it.
                (true, false) if gain > 0 && paid.is_none() => Some("in"),
                (true, false) => Some("out"),
                (false, true) => Some("in"),
                (false, false) if gain == 0 => None,
                (false, false) => Some(if gain > 0 { "in" } else { "out" }),
            };
            let mut event = self
                .event(EventType::AddressActivity)
                .with("address", address)
                .with("tx_type", self.fields.transaction_type.as_str())
                .with("success", self.succeeded())
                .with("result", self.meta.transaction_result.as_str());
            if let Some(direction) = direction {
                event = event.with("direction", direction);
            }
            if is_party {
                event = event.with("from", sender);
                if let Some(to) = to {
                    event = event.with("to", to);
                }
            }
            if address == self.payer()
                && let Some(fee) = self.fee()
            {
                event = event.with("fee", fee.to_string());
            }
            let change = (gain != 0)
                .then(|| Amount { token: "XRP".to_owned(), value: gain.unsigned_abs().to_string() });
            events.push(with_amount(event, paid.or(change.as_ref())));
        }
    }
}

fn with_amount(event: ChainEvent, amount: Option<&Amount>) -> ChainEvent {
    match amount {
        Some(Amount { token, value }) => event.with("token", token.as_str()).with("value", value.as_str()),
        None => event,
    }
}
