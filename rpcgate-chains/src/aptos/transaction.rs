//! The events of one Aptos transaction.

use crate::activity::Activity;
use crate::answer::{Amount, number, shortened};
use crate::form::is_hex;
use crate::moves::Moves;
use rpcgate_core::event::{ChainEvent, EventFilter, EventType, ReadError};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// The native coin: its type, and the address of its paired fungible asset.
const APT: [&str; 2] = ["0x1::aptos_coin::AptosCoin", "0xa"];
const STORE: &str = "0x1::coin::CoinStore<";
/// The maximum number of data members in an event.
const MEMBERS: usize = 32;

#[derive(Deserialize)]
pub(super) struct Transaction {
    #[serde(deserialize_with = "number")]
    pub(super) version: u64,
    hash: String,
    success: bool,
    #[serde(default)]
    sender: Option<String>,
    #[serde(default)]
    signature: Option<Signature>,
    #[serde(default)]
    events: Vec<MoveEvent>,
    #[serde(default)]
    changes: Vec<Change>,
}

/// The signers in addition to the sender.
#[derive(Deserialize)]
struct Signature {
    #[serde(default)]
    secondary_signer_addresses: Vec<String>,
    #[serde(default)]
    fee_payer_address: Option<String>,
}

#[derive(Deserialize)]
struct MoveEvent {
    guid: Guid,
    #[serde(deserialize_with = "number")]
    sequence_number: u64,
    #[serde(rename = "type")]
    kind: String,
    data: Value,
}

#[derive(Deserialize)]
struct Guid {
    #[serde(deserialize_with = "number")]
    creation_number: u64,
    account_address: String,
}

#[derive(Deserialize)]
struct Change {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    address: Option<String>,
    #[serde(default)]
    data: Option<Value>,
}

/// Returns the canonical form of an address; `None` for any other text.
pub(super) fn address(text: &str) -> Option<String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if !(1..=64).contains(&digits.len()) || !is_hex(digits, digits.len()) {
        return None;
    }
    let digits = digits.to_ascii_lowercase();
    Some(match digits.trim_start_matches('0') {
        "" => "0x0".to_owned(),
        short if short.len() == 1 => format!("0x{short}"),
        _ => format!("0x{digits:0>64}"),
    })
}

fn read_address(text: Option<&str>) -> Result<String, ReadError> {
    text.and_then(address).ok_or(ReadError::Unreadable("an address"))
}

/// The stores that events name, from the changes of a transaction.
#[derive(Default)]
struct Stores {
    owners: HashMap<String, String>,
    assets: HashMap<String, String>,
    /// The coin type by a store's account and the creation number of one of its event handles.
    coins: HashMap<(String, u64), String>,
}

impl Stores {
    fn read(changes: &[Change]) -> Self {
        let mut stores = Stores::default();
        for change in changes {
            let holder = change.address.as_deref().and_then(address);
            let (Some(holder), Some(resource)) = (holder, &change.data) else { continue };
            let data = &resource["data"];
            let kind = resource["type"].as_str().unwrap_or_default();
            let named = |value: &Value| value.as_str().and_then(address);
            match kind {
                "0x1::object::ObjectCore" => {
                    stores.owners.extend(named(&data["owner"]).map(|owner| (holder, owner)));
                }
                "0x1::fungible_asset::FungibleStore" => {
                    stores.assets.extend(named(&data["metadata"]["inner"]).map(|asset| (holder, asset)));
                }
                _ => {
                    let coin = kind.strip_prefix(STORE).and_then(|kind| kind.strip_suffix('>'));
                    let Some(coin) = coin else { continue };
                    for handle in ["deposit_events", "withdraw_events"] {
                        let number = &data[handle]["guid"]["id"]["creation_num"];
                        let number = number.as_str().and_then(|text| text.parse().ok());
                        stores.coins.extend(number.map(|number| ((holder.clone(), number), coin.to_owned())));
                    }
                }
            }
        }
        stores
    }
}

#[derive(Clone)]
struct Party {
    /// The account; `None` if the owner of the store is unknown.
    account: Option<String>,
    /// The store of a fungible asset.
    store: Option<String>,
}

struct Flow {
    is_deposit: bool,
    party: Party,
    token: Option<String>,
    amount: u128,
}

impl MoveEvent {
    /// Returns the event's withdrawal or deposit; `None` for any other event.
    fn flow(&self, stores: &Stores) -> Result<Option<Flow>, ReadError> {
        let name = self.kind.split('<').next().unwrap_or_default();
        let is_deposit = match name {
            "0x1::coin::CoinDeposit"
            | "0x1::coin::Deposit"
            | "0x1::coin::DepositEvent"
            | "0x1::fungible_asset::Deposit"
            | "0x1::fungible_asset::DepositEvent" => true,
            "0x1::coin::CoinWithdraw"
            | "0x1::coin::Withdraw"
            | "0x1::coin::WithdrawEvent"
            | "0x1::fungible_asset::Withdraw"
            | "0x1::fungible_asset::WithdrawEvent" => false,
            _ => return Ok(None),
        };
        let is_handle = name.ends_with("Event");
        let amount = Amount::deserialize(&self.data["amount"]);
        let Ok(Amount(amount)) = amount else { return Err(ReadError::Unreadable("an amount of an event")) };
        let address_at = |member: &str| {
            let named = self.data[member].as_str();
            read_address(if is_handle { Some(&self.guid.account_address) } else { named })
        };
        let (party, token) = if name.starts_with("0x1::coin::") {
            let account = address_at("account")?;
            let token = if is_handle {
                stores.coins.get(&(account.clone(), self.guid.creation_number)).cloned()
            } else {
                let generic = self.kind.split_once('<').and_then(|(_, rest)| rest.strip_suffix('>'));
                self.data["coin_type"].as_str().or(generic).map(str::to_owned)
            };
            (Party { account: Some(account), store: None }, token)
        } else {
            let store = address_at("store")?;
            let owner = stores.owners.get(&store).cloned();
            let asset = stores.assets.get(&store).cloned();
            (Party { account: owner, store: Some(store) }, asset)
        };
        Ok(Some(Flow { is_deposit, party, token, amount }))
    }

    /// Adds the event's data with the prefix `data_`: scalars as they are, other values as JSON text.
    fn with_data(&self, mut event: ChainEvent) -> ChainEvent {
        let Value::Object(members) = &self.data else {
            return match scalar(&self.data) {
                Some(data) => event.with("data", data),
                None => event,
            };
        };
        for (name, value) in members.iter().take(MEMBERS) {
            if let Some(value) = scalar(value) {
                event = event.with(&format!("data_{}", shortened(name)), value);
            }
        }
        event
    }
}

/// Returns a value as events have it; `None` for null.
fn scalar(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(_) => value.clone(),
        Value::Number(number) if !number.is_f64() => value.clone(),
        Value::String(text) => shortened(text).into(),
        other => shortened(&other.to_string()).into(),
    })
}

impl Transaction {
    pub(super) fn events(&self, filter: &EventFilter, out: &mut Vec<ChainEvent>) -> Result<(), ReadError> {
        let event = |kind| ChainEvent::new(kind).with("tx_hash", &*self.hash).with("version", self.version);
        let wants_activity = filter.wants(EventType::AddressActivity);
        let mut flows = Vec::new();
        if wants_activity || filter.wants(EventType::TokenTransfer) {
            let stores = Stores::read(&self.changes);
            for event in &self.events {
                flows.extend(event.flow(&stores)?);
            }
        }
        if wants_activity {
            let event = event(EventType::AddressActivity).with("success", self.success);
            self.activity(&flows)?.events(&event, filter, out);
        }
        if filter.wants(EventType::TokenTransfer) && self.success {
            let mut moves = Moves::new();
            for flow in flows {
                let Some(token) = flow.token else { continue };
                if flow.is_deposit {
                    moves.deposit(&token, &flow.party, flow.amount);
                } else {
                    moves.withdraw(&token, flow.party, flow.amount);
                }
            }
            for (index, made) in moves.done().into_iter().enumerate() {
                let mut event = event(EventType::TokenTransfer)
                    .with("index", index)
                    .with("token", made.token)
                    .with("value", made.amount.to_string());
                for (account, store, party) in
                    [("from", "from_store", made.from), ("to", "to_store", made.to)]
                {
                    let party = party.unwrap_or(Party { account: None, store: None });
                    for (name, value) in [(account, party.account), (store, party.store)] {
                        if let Some(value) = value {
                            event = event.with(name, value);
                        }
                    }
                }
                out.push(event);
            }
        }
        if filter.wants(EventType::ContractEvent) {
            for (index, emitted) in self.events.iter().enumerate() {
                let event = event(EventType::ContractEvent)
                    .with("index", index)
                    .with("type", shortened(&emitted.kind))
                    .with("account", read_address(Some(&emitted.guid.account_address))?)
                    .with("creation_number", emitted.guid.creation_number)
                    .with("sequence_number", emitted.sequence_number);
                out.push(emitted.with_data(event));
            }
        }
        Ok(())
    }

    fn activity(&self, flows: &[Flow]) -> Result<Activity, ReadError> {
        let mut activity = Activity::default();
        if let Some(sender) = &self.sender {
            activity.sends(&read_address(Some(sender))?);
        }
        if let Some(signature) = &self.signature {
            for signer in signature.secondary_signer_addresses.iter().chain(&signature.fee_payer_address) {
                activity.sends(&read_address(Some(signer))?);
            }
        }
        for flow in flows {
            let Some(account) = &flow.party.account else { continue };
            let is_own = flow.token.as_deref().is_some_and(|token| APT.contains(&token));
            match (flow.is_deposit, is_own) {
                (true, true) => activity.is_paid(account, "", Some(flow.amount)),
                (true, false) => activity.receives(account),
                (false, true) => activity.pays(account, "", Some(flow.amount)),
                (false, false) => activity.sends(account),
            }
        }
        let changed = self
            .changes
            .iter()
            .filter(|change| matches!(change.kind.as_str(), "write_resource" | "delete_resource"));
        for holder in changed.filter_map(|change| change.address.as_deref()) {
            activity.touches(&read_address(Some(holder))?);
        }
        Ok(activity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_form() {
        let long = format!("0x{}ab", "0".repeat(62));
        for (text, form) in [
            ("0x1", "0x1"),
            ("0xA", "0xa"),
            ("000", "0x0"),
            ("0xAB", long.as_str()),
            (long.as_str(), long.as_str()),
        ] {
            assert_eq!(address(text).as_deref(), Some(form), "{text}");
        }
        for wrong in ["", "0x", "0x0g", "é", &"1".repeat(65), "0x 1"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }
}
