//! The events that modules emit in a transaction (ABCI events), with their addresses and coins.

use crate::activity::Activity;
use bech32::Bech32;
use bech32::primitives::decode::CheckedHrpstring;
use rpcgate_core::event::{ChainEvent, EventType};
use serde::Deserialize;
use serde_json::{Value, json};

/// The prefixes of the chain's addresses: accounts, operators of validators, and keys of validators.
const PREFIXES: [&str; 3] = ["cosmos", "cosmosvaloper", "cosmosvalcons"];
/// The maximum length of an address: 255 bytes in bech32, after the longest prefix.
const LONGEST: usize = 13 + 1 + 408 + 6;

/// The module accounts that collect fees (`fee_collector`, `feemarket-fee-collector`). Their payments are not transfers
/// of users.
const FEES: [&str; 2] =
    ["cosmos17xpfvakm2amg962yls6f84z3kell8c5lserqta", "cosmos13pxn9n3qw79e03844rdadagmg0nshmwf7qvuye"];

/// Attributes whose value is the address that acts, by the type of their event.
const SENDERS: &[(&str, &str)] = &[
    ("message", "sender"),
    ("tx", "fee_payer"),
    ("transfer", "sender"),
    ("coin_spent", "spender"),
    ("delegate", "delegator"),
    ("unbond", "delegator"),
    ("redelegate", "delegator"),
    ("ibc_transfer", "sender"),
];

/// Attributes whose value is the address that is acted on, by the type of their event.
const RECEIVERS: &[(&str, &str)] = &[
    ("transfer", "recipient"),
    ("coin_received", "receiver"),
    ("delegate", "validator"),
    ("unbond", "validator"),
    ("redelegate", "destination_validator"),
    ("redelegate", "source_validator"),
    ("withdraw_rewards", "delegator"),
    ("fungible_token_packet", "receiver"),
];

#[derive(Debug, Deserialize)]
pub(super) struct AbciEvent {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    attributes: Vec<Attribute>,
}

#[derive(Debug, Deserialize)]
struct Attribute {
    #[serde(default)]
    key: String,
    value: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct CoinTransfer {
    from: Option<String>,
    to: Option<String>,
    denom: String,
    value: String,
}

pub(super) fn address(text: &str) -> Option<String> {
    if text.len() > LONGEST {
        return None;
    }
    let checked = CheckedHrpstring::new::<Bech32>(text).ok()?;
    PREFIXES.contains(&checked.hrp().to_lowercase().as_str()).then(|| text.to_ascii_lowercase())
}

fn is_fee(address: Option<&str>) -> bool {
    address.is_some_and(|address| FEES.contains(&address))
}

/// Parses coins as the SDK writes them: `5uatom,7ibc/27394FB0…`.
fn coins(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split(',').filter_map(|coin| {
        let coin = coin.trim();
        let (digits, denom) = coin.split_at(coin.find(|c: char| !c.is_ascii_digit())?);
        let value = digits.trim_start_matches('0');
        (!value.is_empty()).then(|| (value.to_owned(), denom.to_owned()))
    })
}

impl AbciEvent {
    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().map(|pair| (pair.key.as_str(), pair.value.as_deref().unwrap_or_default()))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.pairs().find(|(key, value)| *key == name && !value.is_empty()).map(|(_, value)| value)
    }

    /// Returns the transfers of a bank event, one for each coin, without fees. An event of older SDK versions may have
    /// several transfers, each ending with its amount.
    pub(super) fn transfers(&self) -> Vec<CoinTransfer> {
        let mut transfers = Vec::new();
        if self.kind != "transfer" {
            return transfers;
        }
        let mut from = None;
        let mut to = None;
        for (key, value) in self.pairs() {
            match key {
                "sender" => from = address(value),
                "recipient" => to = address(value),
                "amount" => {
                    let from = from.take();
                    let to = to.take();
                    if is_fee(from.as_deref()) || is_fee(to.as_deref()) || from.is_none() && to.is_none() {
                        continue;
                    }
                    transfers.extend(coins(value).map(|(value, denom)| CoinTransfer {
                        from: from.clone(),
                        to: to.clone(),
                        denom,
                        value,
                    }));
                }
                _ => {}
            }
        }
        transfers
    }

    pub(super) fn concern(&self, activity: &mut Activity) {
        let named = |rows: &[(&str, &str)], key: &str| rows.contains(&(self.kind.as_str(), key));
        for (key, value) in self.pairs() {
            let acts = named(SENDERS, key);
            let is_acted_on = named(RECEIVERS, key);
            let address = (acts || is_acted_on).then(|| address(value)).flatten();
            let Some(address) = address.filter(|address| !is_fee(Some(address.as_str()))) else { continue };
            if acts {
                activity.sends(&address);
            } else {
                activity.receives(&address);
            }
        }
        for CoinTransfer { from, to, denom, value } in self.transfers() {
            let value = value.parse().ok();
            if let Some(from) = from {
                activity.pays(&from, &denom, value);
            }
            if let Some(to) = to {
                activity.is_paid(&to, &denom, value);
            }
        }
    }

    /// Returns the webhook event. That of a CosmWasm contract has the contract's address.
    pub(super) fn shown(&self, tx_hash: &str, index: usize) -> ChainEvent {
        let mut event = ChainEvent::new(EventType::ContractEvent)
            .with("type", self.kind.as_str())
            .with("tx_hash", tx_hash)
            .with("index", index);
        if let Some(contract) = self.get("_contract_address").and_then(address) {
            event = event.with("address", contract);
        }
        let attributes = self.pairs().map(|(key, value)| json!({ "key": key, "value": value }));
        event.with("attributes", attributes.collect::<Vec<Value>>())
    }
}

impl CoinTransfer {
    /// Returns the event of a transfer; `index` is that of the module's event.
    pub(super) fn event(self, tx_hash: &str, index: usize) -> ChainEvent {
        let mut event = ChainEvent::new(EventType::TokenTransfer).with("token", self.denom);
        for (name, address) in [("from", self.from), ("to", self.to)] {
            if let Some(address) = address {
                event = event.with(name, address);
            }
        }
        event.with("value", self.value).with("tx_hash", tx_hash).with("index", index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "cosmos1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnrk363e";
    const B: &str = "cosmos1qurswpc8qurswpc8qurswpc8qurswpc8nn86qp";

    fn event(kind: &str, pairs: &[(&str, &str)]) -> AbciEvent {
        let pair = |(key, value): &(&str, &str)| json!({ "key": key, "value": value, "index": true });
        let attributes: Vec<_> = pairs.iter().map(pair).collect();
        serde_json::from_value(json!({ "type": kind, "attributes": attributes })).unwrap()
    }

    #[test]
    fn addresses_of_this_chain_alone_are_addresses() {
        assert_eq!(address(A).as_deref(), Some(A));
        assert_eq!(address(&A.to_uppercase()).as_deref(), Some(A));
        let operator = "cosmosvaloper1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnxz90a2";
        assert_eq!(address(operator).as_deref(), Some(operator));
        for wrong in [
            "",
            "cosmos",
            "osmo1qqqsyqcyq5rqwzqfpg9scrgwpugpzysntdz28t",
            "cosmos1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnrk363f",
            "cosmos1QQQSYQCYQ5RQWZQFPG9SCRGWPUGPZYSNRK363E",
            &"q".repeat(5_000),
        ] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_transfer_is_reported_once_for_each_coin() {
        let both = event(
            "transfer",
            &[("recipient", B), ("sender", A), ("amount", "5uatom,007ibc/27A"), ("msg_index", "0")],
        );
        let rows: Vec<_> = both.transfers().into_iter().map(|one| (one.value, one.denom)).collect();
        assert_eq!(rows, [("5".into(), "uatom".into()), ("7".into(), "ibc/27A".into())]);
        // Outputs of `MsgMultiSend` name no sender, and older versions put all of them in one event.
        let outputs = event(
            "transfer",
            &[("recipient", B), ("amount", "1uatom"), ("recipient", A), ("amount", "2uatom")],
        );
        let rows: Vec<_> = outputs.transfers().into_iter().map(|one| (one.from, one.to, one.value)).collect();
        assert_eq!(rows, [(None, Some(B.into()), "1".into()), (None, Some(A.into()), "2".into())]);
    }

    #[test]
    fn fees_and_other_movements_are_not_reported_as_transfers() {
        for (kind, pairs) in [
            ("transfer", &[("recipient", FEES[0]), ("sender", A), ("amount", "5uatom")][..]),
            ("transfer", &[("recipient", A), ("sender", FEES[1]), ("amount", "5uatom")]),
            ("transfer", &[("recipient", B), ("sender", A), ("amount", "")]),
            ("transfer", &[("recipient", B), ("sender", A), ("amount", "uatom")]),
            ("transfer", &[("recipient", B), ("sender", A), ("amount", "0uatom")]),
            ("transfer", &[("recipient", B), ("sender", A), ("amount", "17")]),
            ("transfer", &[("amount", "17uatom")]),
            ("coin_spent", &[("spender", A), ("amount", "17uatom")]),
        ] {
            assert_eq!(event(kind, pairs).transfers(), [], "{kind} {pairs:?}");
        }
    }
}
