//! The events of a Cardano block's transactions.

use crate::activity::Activity;
use crate::answer::TEXT_BYTES;
use rpcgate_core::event::{ChainEvent, EventFilter, EventType};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

/// The native coin's name in transfers.
const LOVELACE: &str = "lovelace";

/// Amounts by policy and name; those of the native coin are at `ada` and `lovelace`.
type Assets<T> = BTreeMap<String, BTreeMap<String, T>>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Transaction {
    id: String,
    spends: Spends,
    inputs: Vec<Reference>,
    outputs: Vec<Output>,
    #[serde(default)]
    collaterals: Vec<Reference>,
    #[serde(default)]
    collateral_return: Option<Output>,
    #[serde(default)]
    mint: Assets<i64>,
    #[serde(default)]
    scripts: BTreeMap<String, Script>,
    #[serde(default)]
    redeemers: Vec<Redeemer>,
}

/// The spent part of a transaction.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Spends {
    Inputs,
    /// A script has failed: only the collateral is spent.
    Collaterals,
}

#[derive(Deserialize)]
struct Reference {
    transaction: TransactionId,
    index: u64,
}

#[derive(Deserialize)]
struct TransactionId {
    id: String,
}

#[derive(Deserialize)]
struct Output {
    address: String,
    value: Assets<u64>,
}

#[derive(Deserialize)]
struct Script {
    language: String,
}

#[derive(Deserialize)]
struct Redeemer {
    redeemer: String,
    validator: Validator,
}

#[derive(Deserialize)]
struct Validator {
    purpose: String,
    index: u64,
}

fn token(policy: &str, asset: &str) -> String {
    match (policy, asset) {
        ("ada", _) => LOVELACE.to_owned(),
        (policy, "") => policy.to_owned(),
        (policy, asset) => format!("{policy}.{asset}"),
    }
}

impl Output {
    fn lovelace(&self) -> u64 {
        self.value.get("ada").and_then(|ada| ada.get(LOVELACE)).copied().unwrap_or(0)
    }
}

/// The outputs of the block's earlier transactions: transaction and index to address and lovelace.
type Made<'a> = HashMap<(&'a str, u64), (&'a str, u64)>;

pub(super) fn events(transactions: &[Transaction], filter: &EventFilter, out: &mut Vec<ChainEvent>) {
    let mut made = Made::new();
    for tx in transactions {
        tx.events(filter, &mut made, out);
    }
}

impl Transaction {
    fn is_success(&self) -> bool {
        self.spends == Spends::Inputs
    }

    /// Returns the spent outputs, and the new ones with the index by which they will be spent.
    fn effects(&self) -> (&[Reference], Vec<(u64, &Output)>) {
        if self.is_success() {
            (&self.inputs, (0..).zip(&self.outputs).collect())
        } else {
            let change = self.collateral_return.iter();
            (&self.collaterals, change.map(|output| (self.outputs.len() as u64, output)).collect())
        }
    }

    fn events<'a>(&'a self, filter: &EventFilter, made: &mut Made<'a>, out: &mut Vec<ChainEvent>) {
        let event = |kind| ChainEvent::new(kind).with("tx_hash", &*self.id);
        let (spent, outputs) = self.effects();
        if filter.wants(EventType::AddressActivity) {
            let mut activity = Activity::default();
            for reference in spent {
                if let Some((address, lovelace)) = made.get(&(&*reference.transaction.id, reference.index)) {
                    activity.pays(address, "", Some((*lovelace).into()));
                }
            }
            for (index, output) in &outputs {
                activity.is_paid(&output.address, "", Some(output.lovelace().into()));
                made.insert((&*self.id, *index), (&*output.address, output.lovelace()));
            }
            let event = event(EventType::AddressActivity).with("success", self.is_success());
            activity.events(&event, filter, out);
        }
        if filter.wants(EventType::TokenTransfer) && self.is_success() {
            for (index, output) in &outputs {
                for (policy, assets) in &output.value {
                    for (asset, amount) in assets {
                        let event = event(EventType::TokenTransfer)
                            .with("index", *index)
                            .with("token", token(policy, asset))
                            .with("to", &*output.address);
                        out.push(event.with("value", amount.to_string()));
                    }
                }
            }
        }
        if filter.wants(EventType::ContractEvent) {
            self.contracts(&event(EventType::ContractEvent).with("success", self.is_success()), out);
        }
    }

    fn contracts(&self, event: &ChainEvent, out: &mut Vec<ChainEvent>) {
        for (hash, script) in &self.scripts {
            let event = event.clone().with("kind", "script").with("script", &**hash);
            out.push(event.with("language", &*script.language));
        }
        for Redeemer { redeemer, validator } in &self.redeemers {
            let mut event = event.clone().with("kind", "redeemer").with("purpose", &*validator.purpose);
            event = event.with("index", validator.index);
            // Policies are numbered in their order.
            let index = usize::try_from(validator.index).unwrap_or(usize::MAX);
            if validator.purpose == "mint"
                && let Some(policy) = self.mint.keys().nth(index)
            {
                event = event.with("script", &**policy);
            }
            if redeemer.len() <= TEXT_BYTES {
                event = event.with("redeemer", &**redeemer);
            }
            out.push(event);
        }
        if !self.is_success() {
            return;
        }
        for (policy, assets) in &self.mint {
            for (asset, amount) in assets {
                let event = event.clone().with("kind", "mint").with("script", &**policy);
                out.push(event.with("token", token(policy, asset)).with("value", amount.to_string()));
            }
        }
    }
}
