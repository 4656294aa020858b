//! Transactions: their encoding, their identity and the checks that need no chain.

use super::cbor::{Item, Kind};
use super::network::{FEE, FEE_PER_BYTE, ada};
use crate::json::{Json, object};
use bech32::{Bech32, Hrp};
use blake2::Blake2b;
use blake2::digest::Digest;
use blake2::digest::consts::{U28, U32};
use ring::signature::{ED25519, UnparsedPublicKey};

/// The name of the only token.
const TOKEN: &[u8] = b"SIM";

/// A reference to an output: its transaction, and its index there.
pub(super) type Reference = ([u8; 32], u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    pub(super) address: Vec<u8>,
    pub(super) lovelace: u64,
    /// The amount of the only token that there is, and the hash of its policy; `None` for an output of clients.
    pub(super) tokens: Option<(u64, [u8; 28])>,
}

#[derive(Debug, Clone)]
pub(crate) struct Tx {
    /// The hash of its body.
    pub(super) id: [u8; 32],
    /// The length of its encoding, in bytes.
    pub(super) size: usize,
    pub(super) inputs: Vec<Reference>,
    pub(super) outputs: Vec<Output>,
    pub(super) fee: u64,
    /// The validity interval in slots: the first valid slot, and the first slot after it that is not valid.
    pub(super) valid: (Option<u64>, Option<u64>),
    /// Public keys and their signatures.
    pub(super) signatures: Vec<(Vec<u8>, Vec<u8>)>,
    /// `true` if it contains tokens or any field that is not simulated.
    pub(super) is_more: bool,
    /// `true` if it would run scripts.
    pub(super) has_scripts: bool,
}

pub(super) fn hash32(bytes: &[u8]) -> [u8; 32] {
    Blake2b::<U32>::digest(bytes).into()
}

pub(super) fn hash28(bytes: &[u8]) -> [u8; 28] {
    Blake2b::<U28>::digest(bytes).into()
}

/// Writes bytes in bech32 with the prefix `word`.
pub(super) fn bech32(word: &str, bytes: &[u8]) -> String {
    let text = Hrp::parse(word).ok().and_then(|word| bech32::encode::<Bech32>(word, bytes).ok());
    text.unwrap_or_default()
}

/// Reads an address of this network; `None` for any other text.
pub(super) fn address(text: &str) -> Option<Vec<u8>> {
    let (word, bytes) = bech32::decode(text).ok()?;
    let is_ours = word.as_str() == "addr" && matches!(bytes.len(), 29 | 57) && bytes[0] & 0x0f == 1;
    is_ours.then_some(bytes)
}

/// Reads the hash of a stake key: in hex, or as the reward account of this network that it makes.
pub(super) fn reward_credential(text: &str) -> Option<[u8; 28]> {
    if let Ok(bytes) = hex::decode(text) {
        return bytes.try_into().ok();
    }
    let (word, bytes) = bech32::decode(text).ok()?;
    let (kind, hash) = bytes.split_first()?;
    (word.as_str() == "stake" && *kind == 0xe1).then_some(hash)?.try_into().ok()
}

/// Returns an amount of the token by its name.
pub(super) fn assets(amount: u64) -> Json {
    Json::Object(vec![(hex::encode(TOKEN).into(), amount.into())])
}

impl Output {
    /// Returns the output as Ogmios shows it.
    pub(super) fn json(&self, (id, index): &Reference) -> Json {
        object! {
            "transaction": object! { "id": hex::encode(id) },
            "index": *index,
            "address": bech32("addr", &self.address),
            "value": self.value(),
        }
    }

    pub(super) fn value(&self) -> Json {
        let mut value = ada(self.lovelace);
        if let (Json::Object(members), Some((amount, policy))) = (&mut value, self.tokens) {
            members.push((hex::encode(policy).into(), assets(amount)));
        }
        value
    }

    /// Returns the hash of the key that may spend it; `None` for a script.
    pub(super) fn key(&self) -> Option<&[u8]> {
        let is_key = self.address.first().is_some_and(|head| head >> 4 & 1 == 0);
        if is_key { self.address.get(1..29) } else { None }
    }
}

impl Tx {
    /// Reads a transaction. An error is the reason why its bytes are invalid.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let whole = Item::read(bytes)?;
        let parts = whole.items().filter(|parts| (3..=4).contains(&parts.len()));
        let parts = parts.ok_or("expected a list of a body, witnesses, validity and auxiliary data")?;
        let body = &parts[0];
        let witnesses = &parts[1];
        let part =
            |key: u64, name: &str| body.under(key).ok_or_else(|| format!("missing field {key}: {name}"));
        let mut is_more = false;
        let inputs = part(0, "inputs")?.items().ok_or("inputs are no list")?;
        let inputs = inputs.iter().map(reference).collect::<Option<Vec<_>>>().ok_or("malformed input")?;
        let items = part(1, "outputs")?.items().ok_or("outputs are no list")?;
        let mut outputs = Vec::new();
        for item in items {
            let (output, is_plain) = output(item).ok_or("malformed output")?;
            is_more |= !is_plain;
            outputs.push(output);
        }
        if let Kind::Map(pairs) = &body.kind {
            // Certificates, withdrawals, minting, collateral, votes, proposals and donations.
            let special = |key: Option<u64>| !matches!(key, Some(0..=3 | 7 | 8 | 14 | 15));
            is_more |= pairs.iter().any(|(key, _)| special(key.number()));
        }
        let mut signatures = Vec::new();
        for witness in witnesses.under(0).and_then(Item::items).unwrap_or_default() {
            let pair = witness.items().and_then(|pair| match pair {
                [key, signature] => Some((key.data()?.to_vec(), signature.data()?.to_vec())),
                _ => None,
            });
            signatures.push(pair.ok_or("malformed witness")?);
        }
        Ok(Tx {
            id: hash32(body.bytes),
            size: bytes.len(),
            inputs,
            outputs,
            fee: part(2, "fee")?.number().ok_or("malformed fee")?,
            valid: (body.under(8).and_then(Item::number), body.under(3).and_then(Item::number)),
            signatures,
            is_more,
            has_scripts: witnesses.under(5).is_some(),
        })
    }

    /// Returns the keys whose signatures do not match.
    pub(super) fn forged(&self) -> Vec<String> {
        let is_good = |key: &[u8], signature: &[u8]| {
            UnparsedPublicKey::new(&ED25519, key).verify(&self.id, signature).is_ok()
        };
        let forged = self.signatures.iter().filter(|(key, signature)| !is_good(key, signature));
        forged.map(|(key, _)| hex::encode(key)).collect()
    }

    /// Returns the smallest fee for its size.
    pub(super) fn least_fee(&self) -> u64 {
        FEE_PER_BYTE * self.size as u64 + FEE
    }
}

fn reference(item: &Item<'_>) -> Option<Reference> {
    match item.items()? {
        [id, index] => Some((id.data()?.try_into().ok()?, index.number()?)),
        _ => None,
    }
}

/// Reads an output in its old or new form. Also returns whether it is only coins at an address.
fn output(item: &Item<'_>) -> Option<(Output, bool)> {
    let (address, value, rest) = match item.items() {
        Some([address, value, rest @ ..]) => (address, value, !rest.is_empty()),
        Some(_) => return None,
        None => (item.under(0)?, item.under(1)?, item.under(2).or(item.under(3)).is_some()),
    };
    let (lovelace, has_tokens) = match (value.number(), value.items()) {
        (Some(lovelace), _) => (lovelace, false),
        (None, Some([lovelace, _])) => (lovelace.number()?, true),
        _ => return None,
    };
    let address = address.data().filter(|address| matches!(address.len(), 29 | 57))?.to_vec();
    Some((Output { address, lovelace, tokens: None }, !rest && !has_tokens))
}
