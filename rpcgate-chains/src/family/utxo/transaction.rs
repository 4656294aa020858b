//! Transactions of UTXO chains and their events.

use super::Utxo;
use super::amount::smallest_units;
use crate::form::{is_hex, whole_number};
use rpcgate_core::event::{ChainEvent, EventFilter, EventType, ReadError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

const WRONG_TRANSACTION: ReadError = ReadError::Unreadable("a transaction is not as its API says");
const WRONG_OUTPUT: ReadError = ReadError::Unreadable("an output is not as its API says");

#[derive(Deserialize)]
pub(super) struct Transaction<'a> {
    pub(super) txid: String,
    #[serde(borrow)]
    pub(super) vin: Vec<Input<'a>>,
    #[serde(borrow)]
    pub(super) vout: Vec<Output<'a>>,
}

/// An input. That of a coinbase, of Litecoin's extension blocks or of a peg into Liquid spends no output of this chain.
#[derive(Deserialize)]
pub(super) struct Input<'a> {
    txid: Option<String>,
    vout: Option<u32>,
    coinbase: Option<IgnoredAny>,
    ismweb: Option<bool>,
    is_pegin: Option<bool>,
    #[serde(borrow)]
    prevout: Option<Output<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Output<'a> {
    n: Option<u32>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    /// Liquid's asset, unless it is confidential.
    asset: Option<String>,
    valuecommitment: Option<IgnoredAny>,
    assetcommitment: Option<IgnoredAny>,
    #[serde(rename = "scriptPubKey")]
    script: Option<Script>,
    ismweb: Option<bool>,
    #[serde(rename = "tokenData")]
    token_data: Option<TokenData>,
}

#[derive(Deserialize)]
struct Script {
    hex: String,
    address: Option<String>,
    /// The form of nodes before Bitcoin Core 22.
    addresses: Option<Vec<String>>,
}

/// Bitcoin Cash's tokens in an output (CashTokens).
#[derive(Deserialize)]
struct TokenData {
    category: String,
    amount: Option<String>,
    nft: Option<Nft>,
}

#[derive(Deserialize)]
struct Nft {
    commitment: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spent {
    address: Option<String>,
    value: Option<u64>,
    asset: Option<String>,
}

/// An output by the id of its transaction and its number.
pub(super) type OutPoint = (String, u32);

#[derive(Default)]
struct Sums {
    paid: Option<u128>,
    got: Option<u128>,
    /// A part of it is confidential.
    sealed: bool,
}

impl Input<'_> {
    /// Returns the spent output, if it is one of this chain.
    pub(super) fn out_point(&self) -> Result<Option<OutPoint>, ReadError> {
        if self.coinbase.is_some() || self.ismweb == Some(true) || self.is_pegin == Some(true) {
            return Ok(None);
        }
        match (&self.txid, self.vout) {
            (Some(txid), Some(vout)) if is_hex(txid, 64) => Ok(Some((txid.clone(), vout))),
            _ => Err(WRONG_TRANSACTION),
        }
    }

    /// Returns the spent output's content, if the node includes it. A confidential value is left out there.
    pub(super) fn named_output(&self, chain: &Utxo) -> Result<Option<Spent>, ReadError> {
        let Some(output) = &self.prevout else { return Ok(None) };
        let value = if output.value.is_some() { output.value()? } else { None };
        Ok(Some(Spent { address: output.address(chain)?, value, asset: output.asset()? }))
    }
}

impl Output<'_> {
    /// Returns the number in the transaction; `None` in Litecoin's extension block, which hides payments.
    pub(super) fn number(&self) -> Result<Option<u32>, ReadError> {
        if self.ismweb == Some(true) {
            return Ok(None);
        }
        self.n.map(Some).ok_or(WRONG_OUTPUT)
    }

    pub(super) fn spent(&self, chain: &Utxo) -> Result<Spent, ReadError> {
        Ok(Spent { address: self.address(chain)?, value: self.value()?, asset: self.asset()? })
    }

    fn script(&self) -> Result<&Script, ReadError> {
        self.script.as_ref().ok_or(WRONG_OUTPUT)
    }

    /// Returns the paid address; `None` for a script without one, or with several.
    fn address(&self, chain: &Utxo) -> Result<Option<String>, ReadError> {
        let script = self.script()?;
        let address = match (&script.address, script.addresses.as_deref()) {
            (Some(address), _) => Some(address),
            (None, Some([address])) => Some(address),
            _ => None,
        };
        Ok(address.map(|address| chain.addresses().of_node(address).into_owned()))
    }

    /// Returns the value in 10^-8 coins; `None` if it is confidential. A public amount is dropped while its asset is
    /// hidden: without an asset, a worthless one would pass for the chain's coin.
    fn value(&self) -> Result<Option<u64>, ReadError> {
        match self.value {
            Some(_) if self.asset.is_none() && self.assetcommitment.is_some() => Ok(None),
            Some(value) => smallest_units(value.get()).map(Some).ok_or(WRONG_OUTPUT),
            None if self.valuecommitment.is_some() => Ok(None),
            None => Err(WRONG_OUTPUT),
        }
    }

    fn asset(&self) -> Result<Option<String>, ReadError> {
        match &self.asset {
            Some(asset) if is_hex(asset, 64) => Ok(Some(asset.to_ascii_lowercase())),
            Some(_) => Err(WRONG_OUTPUT),
            None => Ok(None),
        }
    }

    /// Returns the script that begins with `OP_RETURN`, and its data.
    fn returned(&self) -> Result<Option<(String, String)>, ReadError> {
        let script = &self.script()?.hex;
        if !script.starts_with("6a") && !script.starts_with("6A") {
            return Ok(None);
        }
        let bytes = hex::decode(script).map_err(|_| WRONG_OUTPUT)?;
        let after = bytes.get(1..).unwrap_or_default();
        let data = pushed(after).unwrap_or_else(|| after.to_vec());
        Ok(Some((script.to_ascii_lowercase(), hex::encode(data))))
    }
}

/// Returns the bytes that a script pushes, concatenated; `None` if it ends within a push.
fn pushed(script: &[u8]) -> Option<Vec<u8>> {
    let mut rest = script;
    let mut out = Vec::new();
    while let Some((op, after)) = rest.split_first() {
        let width = match op {
            0x4c..=0x4e => 1 << (op - 0x4c),
            _ => 0,
        };
        let (size, after) = after.split_at_checked(width)?;
        let length = match op {
            0x01..=0x4b => usize::from(*op),
            _ => size.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
        };
        let (data, after) = after.split_at_checked(length)?;
        out.extend_from_slice(data);
        rest = after;
    }
    Some(out)
}

impl Transaction<'_> {
    /// Adds the wanted events. `spent` has the known outputs that its inputs spend.
    pub(super) fn push_events(
        &self,
        chain: &Utxo,
        index: usize,
        spent: &HashMap<OutPoint, Spent>,
        filter: &EventFilter,
        events: &mut Vec<ChainEvent>,
    ) -> Result<(), ReadError> {
        if !is_hex(&self.txid, 64) {
            return Err(WRONG_TRANSACTION);
        }
        let tx_hash = self.txid.to_ascii_lowercase();
        if filter.wants(EventType::AddressActivity) {
            self.push_activity(chain, index, &tx_hash, spent, filter, events)?;
        }
        for output in &self.vout {
            let Some(number) = output.number()? else { continue };
            if filter.wants(EventType::TokenTransfer) {
                self.push_payment(chain, output, number, &tx_hash, events)?;
            }
            if filter.wants(EventType::ContractEvent)
                && let Some((script, data)) = output.returned()?
            {
                let mut event = ChainEvent::new(EventType::ContractEvent)
                    .with("event", "op_return")
                    .with("data", data)
                    .with("script", script)
                    .with("tx_hash", tx_hash.as_str())
                    .with("index", number);
                if let Some(value) = output.value()? {
                    event = event.with("value", value.to_string());
                }
                events.push(event);
            }
        }
        Ok(())
    }

    fn is_coinbase(&self) -> bool {
        self.vin.iter().any(|input| input.coinbase.is_some())
    }

    /// Adds the payment to an address, and the payment of tokens in the same output.
    fn push_payment(
        &self,
        chain: &Utxo,
        output: &Output<'_>,
        number: u32,
        tx_hash: &str,
        events: &mut Vec<ChainEvent>,
    ) -> Result<(), ReadError> {
        let Some(address) = output.address(chain)? else { return Ok(()) };
        let event = || {
            let event = ChainEvent::new(EventType::TokenTransfer)
                .with("to", address.as_str())
                .with("tx_hash", tx_hash)
                .with("index", number);
            if self.is_coinbase() { event.with("coinbase", true) } else { event }
        };
        let value = output.value()?;
        let mut payment = event();
        if let Some(token) = chain.token(output.asset()?, value.is_none()) {
            payment = payment.with("token", token);
        }
        if let Some(value) = value {
            payment = payment.with("value", value.to_string());
        }
        events.push(payment);
        if let Some(tokens) = &output.token_data {
            if !is_hex(&tokens.category, 64) {
                return Err(WRONG_OUTPUT);
            }
            let value = tokens.amount.as_deref().unwrap_or("0");
            let value = whole_number(value).ok_or(WRONG_OUTPUT)?;
            let mut event = event()
                .with("standard", "cashtokens")
                .with("token", tokens.category.to_ascii_lowercase())
                .with("value", value);
            if let Some(nft) = &tokens.nft {
                event = event.with("token_id", nft.commitment.to_ascii_lowercase());
            }
            events.push(event);
        }
        Ok(())
    }

    /// Adds one event for each paying or receiving address and, on Liquid, for each of its assets.
    fn push_activity(
        &self,
        chain: &Utxo,
        index: usize,
        tx_hash: &str,
        spent: &HashMap<OutPoint, Spent>,
        filter: &EventFilter,
        events: &mut Vec<ChainEvent>,
    ) -> Result<(), ReadError> {
        let mut sums: BTreeMap<(String, Option<String>), Sums> = BTreeMap::new();
        let mut is_complete = true;
        let mut add = |spent: Cow<'_, Spent>, pays: bool| {
            let Some(address) = spent.address.as_ref().filter(|address| filter.watches(address)) else {
                return;
            };
            let sums = sums.entry((address.clone(), spent.asset.clone())).or_default();
            let sum = if pays { &mut sums.paid } else { &mut sums.got };
            *sum = Some(sum.unwrap_or(0) + u128::from(spent.value.unwrap_or(0)));
            sums.sealed |= spent.value.is_none();
        };
        for input in &self.vin {
            let Some(out_point) = input.out_point()? else { continue };
            match (input.named_output(chain)?, spent.get(&out_point)) {
                (Some(named_output), _) => add(Cow::Owned(named_output), true),
                (None, Some(known)) => add(Cow::Borrowed(known), true),
                (None, None) => is_complete = false,
            }
        }
        for output in &self.vout {
            if output.number()?.is_some() {
                add(Cow::Owned(output.spent(chain)?), false);
            }
        }
        for ((address, asset), sums) in sums {
            let direction = match (sums.paid, sums.got) {
                (Some(_), Some(_)) => "self",
                (Some(_), None) => "out",
                _ => "in",
            };
            let mut event = ChainEvent::new(EventType::AddressActivity)
                .with("address", address)
                .with("direction", direction)
                .with("tx_hash", tx_hash)
                .with("index", index);
            if let Some(token) = chain.token(asset, sums.sealed) {
                event = event.with("token", token);
            }
            if !sums.sealed {
                let paid = sums.paid.unwrap_or(0);
                let got = sums.got.unwrap_or(0);
                event = event.with("value", paid.abs_diff(got).to_string());
                if direction == "self" {
                    event = event.with("paid", paid.to_string()).with("received", got.to_string());
                }
            }
            if self.is_coinbase() {
                event = event.with("coinbase", true);
            }
            if !is_complete {
                event = event.with("inputs_known", false);
            }
            events.push(event);
        }
        Ok(())
    }
}

impl Utxo {
    /// Returns the token of an amount: the asset, or else the chain's coin; `None` if it is confidential.
    fn token(&self, asset: Option<String>, is_sealed: bool) -> Option<String> {
        match asset {
            Some(asset) => Some(asset),
            None if is_sealed => None,
            None => Some(self.facts.name.as_str().to_owned()),
        }
    }
}
