//! Transactions: their encoding, their JSON, their id and their signers.

use super::address::{Address, base58, from_base58, long, short, shown};
use super::proto::{Broken, Message, fields};
use crate::hash::sha256;
use crate::json::{Json, object};
use k256::ecdsa::{RecoveryId, Signature, VerifyingKey};
use serde_json::Value;
use sha3::{Digest, Keccak256};

/// The operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Contract {
    /// A transfer of coins, in sun (10^-6 TRX).
    Transfer { owner: Vec<u8>, to: Vec<u8>, amount: i64 },
    /// A call of a contract.
    Trigger { owner: Vec<u8>, contract: Vec<u8>, value: i64, data: Vec<u8> },
    /// Any other operation, by its number.
    Other(i64),
}

/// The body of a transaction: the signed part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Body {
    /// The last two bytes of the height of a recent block.
    pub(super) ref_bytes: Vec<u8>,
    /// Eight bytes of that block's id.
    pub(super) ref_hash: Vec<u8>,
    /// The Unix time in milliseconds after which no block may include it.
    pub(super) expiration: i64,
    /// The Unix time in milliseconds that the sender wrote.
    pub(super) timestamp: i64,
    /// The maximum cost of energy, in sun.
    pub(super) fee_limit: i64,
    pub(super) data: Vec<u8>,
    pub(super) contracts: Vec<Contract>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tx {
    pub(super) body: Body,
    /// The body's bytes, as they were sent.
    pub(super) raw: Vec<u8>,
    pub(super) signatures: Vec<Vec<u8>>,
    /// SHA-256 of the body.
    pub(super) id: [u8; 32],
}

/// Returns the name of a contract type: `type.googleapis.com/protocol.` and this name is the type of its parameter.
fn name(kind: i64) -> &'static str {
    match kind {
        1 => "TransferContract",
        31 => "TriggerSmartContract",
        _ => "",
    }
}

impl Contract {
    fn kind(&self) -> i64 {
        match self {
            Contract::Transfer { .. } => 1,
            Contract::Trigger { .. } => 31,
            Contract::Other(kind) => *kind,
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, Broken> {
        let mut kind = 0;
        let mut value = &[][..];
        for (number, field) in fields(bytes)? {
            match number {
                1 => kind = field.number(),
                2 => {
                    let any = fields(field.bytes())?;
                    value =
                        any.iter().find(|(number, _)| *number == 2).map_or(&[], |(_, field)| field.bytes());
                }
                _ => {}
            }
        }
        let parts = fields(value)?;
        let bytes = |wanted: u64| {
            let found = parts.iter().rev().find(|(number, _)| *number == wanted);
            found.map_or_else(Vec::new, |(_, field)| field.bytes().to_vec())
        };
        let number = |wanted: u64| {
            parts.iter().rev().find(|(number, _)| *number == wanted).map_or(0, |(_, field)| field.number())
        };
        Ok(match kind {
            1 => Contract::Transfer { owner: bytes(1), to: bytes(2), amount: number(3) },
            31 => Contract::Trigger { owner: bytes(1), contract: bytes(2), value: number(3), data: bytes(4) },
            kind => Contract::Other(kind),
        })
    }

    fn write(&self) -> Vec<u8> {
        let value = match self {
            Contract::Transfer { owner, to, amount } => {
                Message::default().bytes(1, owner).bytes(2, to).number(3, *amount)
            }
            Contract::Trigger { owner, contract, value, data } => {
                Message::default().bytes(1, owner).bytes(2, contract).number(3, *value).bytes(4, data)
            }
            Contract::Other(_) => Message::default(),
        };
        let url = format!("type.googleapis.com/protocol.{}", name(self.kind()));
        let any = Message::default().bytes(1, url.as_bytes()).bytes(2, &value.done()).done();
        Message::default().number(1, self.kind()).bytes(2, &any).done()
    }

    fn json(&self, visible: bool) -> Option<Json> {
        let mut value = object! {};
        match self {
            Contract::Transfer { owner, to, amount } => {
                if *amount != 0 {
                    value.put("amount", *amount);
                }
                value.put("owner_address", shown(owner, visible));
                value.put("to_address", shown(to, visible));
            }
            Contract::Trigger { owner, contract, value: sun, data } => {
                if !data.is_empty() {
                    value.put("data", hex::encode(data));
                }
                value.put("owner_address", shown(owner, visible));
                value.put("contract_address", shown(contract, visible));
                if *sun != 0 {
                    value.put("call_value", *sun);
                }
            }
            Contract::Other(_) => return None,
        }
        let name = name(self.kind());
        let url = format!("type.googleapis.com/protocol.{name}");
        Some(object! { "parameter": object! { "value": value, "type_url": url }, "type": name })
    }

    /// Reads the JSON form; `None` for an unknown type.
    fn from_json(contract: &Value, visible: bool) -> Result<Option<Self>, String> {
        let value = &contract["parameter"]["value"];
        let address = |name: &str| address_field(&value[name], visible);
        let number = |name: &str| value[name].as_i64().unwrap_or(0);
        Ok(match contract["type"].as_str() {
            Some("TransferContract") => Some(Contract::Transfer {
                owner: address("owner_address")?,
                to: address("to_address")?,
                amount: number("amount"),
            }),
            Some("TriggerSmartContract") => Some(Contract::Trigger {
                owner: address("owner_address")?,
                contract: address("contract_address")?,
                value: number("call_value"),
                data: hex_field(&value["data"])?,
            }),
            _ => None,
        })
    }
}

/// Reads an address member: hex, or Base58 if addresses are visible. Empty if it is absent.
pub(super) fn address_field(value: &Value, visible: bool) -> Result<Vec<u8>, String> {
    match value.as_str() {
        None | Some("") => Ok(Vec::new()),
        Some(text) if visible => from_base58(text).ok_or_else(|| {
            parse_error(&format!("INVALID base58 String, decode address failed, address: {text}"))
        }),
        Some(_) => hex_field(value),
    }
}

/// Reads a hex member. Empty if it is absent.
pub(super) fn hex_field(value: &Value) -> Result<Vec<u8>, String> {
    let text = value.as_str().unwrap_or_default();
    let text = text.strip_prefix("0x").unwrap_or(text);
    hex::decode(text).map_err(|_| parse_error("INVALID hex String"))
}

/// Returns the text of the exception of java-tron's JSON parser. It names line and column, here always the first.
pub(super) fn parse_error(what: &str) -> String {
    format!("class org.tron.core.services.http.JsonFormat$ParseException : 1:1: {what}")
}

impl Body {
    fn read(bytes: &[u8]) -> Result<Self, Broken> {
        let mut body = Body::default();
        for (number, field) in fields(bytes)? {
            match number {
                1 => body.ref_bytes = field.bytes().to_vec(),
                4 => body.ref_hash = field.bytes().to_vec(),
                8 => body.expiration = field.number(),
                10 => body.data = field.bytes().to_vec(),
                11 => body.contracts.push(Contract::read(field.bytes())?),
                14 => body.timestamp = field.number(),
                18 => body.fee_limit = field.number(),
                _ => {}
            }
        }
        Ok(body)
    }

    fn write(&self) -> Vec<u8> {
        let mut message = Message::default()
            .bytes(1, &self.ref_bytes)
            .bytes(4, &self.ref_hash)
            .number(8, self.expiration)
            .bytes(10, &self.data);
        for contract in &self.contracts {
            message = message.item(11, &contract.write());
        }
        message.number(14, self.timestamp).number(18, self.fee_limit).done()
    }
}

impl Tx {
    /// Creates an unsigned transaction.
    pub(super) fn new(body: Body) -> Self {
        let raw = body.write();
        Tx { id: sha256(&raw), body, raw, signatures: Vec::new() }
    }

    /// Decodes the bytes of a transaction.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Broken> {
        let mut raw = Vec::new();
        let mut signatures = Vec::new();
        for (number, field) in fields(bytes)? {
            match number {
                1 => raw = field.bytes().to_vec(),
                2 => signatures.push(field.bytes().to_vec()),
                _ => {}
            }
        }
        Ok(Tx { body: Body::read(&raw)?, id: sha256(&raw), raw, signatures })
    }

    /// Reads the JSON of a transaction. Its id is that of `raw_data`; other members are ignored.
    pub(super) fn from_json(whole: &Value, visible: bool) -> Result<Self, String> {
        let Some(data) = whole["raw_data"].as_object() else {
            return Err("class java.lang.NullPointerException : null".into());
        };
        let get = |name: &str| data.get(name).unwrap_or(&Value::Null);
        let number = |name: &str| get(name).as_i64().unwrap_or(0);
        let mut contracts = Vec::new();
        for contract in get("contract").as_array().map_or(&[][..], Vec::as_slice) {
            contracts.extend(Contract::from_json(contract, visible)?);
        }
        let mut tx = Tx::new(Body {
            ref_bytes: hex_field(get("ref_block_bytes"))?,
            ref_hash: hex_field(get("ref_block_hash"))?,
            expiration: number("expiration"),
            timestamp: number("timestamp"),
            fee_limit: number("fee_limit"),
            data: hex_field(get("data"))?,
            contracts,
        });
        for signature in whole["signature"].as_array().map_or(&[][..], Vec::as_slice) {
            tx.signatures.push(hex_field(signature)?);
        }
        Ok(tx)
    }

    /// Encodes the transaction, with the result that a block adds, if any.
    pub(super) fn write(&self, result: Option<i64>) -> Vec<u8> {
        let mut message = Message::default().item(1, &self.raw);
        for signature in &self.signatures {
            message = message.item(2, signature);
        }
        if let Some(result) = result {
            message = message.item(5, &Message::default().number(3, result).done());
        }
        message.done()
    }

    /// Returns the JSON; `ret` is the result, if any.
    pub(super) fn json(&self, ret: Option<Json>, visible: bool) -> Json {
        let body = &self.body;
        let mut data = object! {};
        if !body.data.is_empty() {
            data.put("data", hex::encode(&body.data));
        }
        let contracts = body.contracts.iter().filter_map(|contract| contract.json(visible));
        data.put("contract", contracts.collect::<Vec<_>>());
        data.put("ref_block_bytes", hex::encode(&body.ref_bytes));
        data.put("ref_block_hash", hex::encode(&body.ref_hash));
        for (name, number) in
            [("expiration", body.expiration), ("fee_limit", body.fee_limit), ("timestamp", body.timestamp)]
        {
            if number != 0 {
                data.put(name, number);
            }
        }
        let mut out = object! {};
        if let Some(ret) = ret {
            out.put("ret", vec![ret]);
        }
        if !self.signatures.is_empty() {
            out.put("signature", self.signatures.iter().map(hex::encode).collect::<Vec<_>>());
        }
        out.put("txID", hex::encode(self.id));
        out.put("raw_data", data);
        out.put("raw_data_hex", hex::encode(&self.raw));
        out
    }

    /// Returns the account that the transaction acts for; `None` if it names no valid one.
    pub(super) fn owner(&self) -> Option<Address> {
        match self.body.contracts.first()? {
            Contract::Transfer { owner, .. } | Contract::Trigger { owner, .. } => short(owner),
            Contract::Other(_) => None,
        }
    }

    /// Returns the accounts that signed it, each once; an error is java-tron's reason.
    pub(super) fn signers(&self) -> Result<Vec<Address>, String> {
        let mut signers = Vec::new();
        for bytes in &self.signatures {
            if bytes.len() < 65 {
                return Err(format!("Signature size is {}", bytes.len()));
            }
            let signer = recover(&self.id, bytes).ok_or("Header byte out of range")?;
            if !signers.contains(&signer) {
                signers.push(signer);
            }
        }
        Ok(signers)
    }

    /// Checks that the owner signed it; an error is java-tron's reason.
    pub(super) fn signed_by(&self, owner: &Address) -> Result<(), String> {
        let Some(bytes) = self.signatures.first() else {
            return Err("miss sig or contract".into());
        };
        if bytes.len() < 65 {
            return Err(format!("Signature size is {}", bytes.len()));
        }
        let signer = recover(&self.id, bytes).ok_or("Header byte out of range")?;
        if signer == *owner {
            return Ok(());
        }
        Err(format!(
            "{} is signed by {} but it is not contained of permission.",
            hex::encode(bytes),
            base58(&long(&signer))
        ))
    }
}

/// Recovers the signer of a hash: the signature is r, s and 0, 1, 27 or 28.
fn recover(hash: &[u8; 32], bytes: &[u8]) -> Option<Address> {
    let signature = Signature::from_slice(bytes.get(..64)?).ok()?;
    let id = RecoveryId::from_byte(match *bytes.get(64)? {
        v @ 27..=30 => v - 27,
        v => v,
    })?;
    Some(address_of(&VerifyingKey::recover_from_prehash(hash, &signature, id).ok()?))
}

/// Returns the address of a public key.
pub(super) fn address_of(key: &VerifyingKey) -> Address {
    let point = key.to_sec1_point(false);
    let hash: [u8; 32] = Keccak256::digest(&point.as_bytes()[1..]).into();
    let mut out = [0; 20];
    out.copy_from_slice(&hash[12..]);
    out
}
