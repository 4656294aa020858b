//! Reads parameters, and refuses them with go-ethereum's messages.

use super::network::{Address, Word};
use crate::envelope::Fault;
use serde_json::Value;

#[derive(Debug, Clone)]
pub(crate) struct Params(Vec<Value>);

/// The block that a parameter selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockId {
    Earliest,
    Finalized,
    Safe,
    Latest,
    Pending,
    Number(u64),
    Hash(Word),
}

pub(crate) fn invalid(index: usize, why: impl std::fmt::Display) -> Fault {
    Fault::new(-32602, format!("invalid argument {index}: {why}"))
}

/// Reads bytes from hex with `0x`.
pub(crate) fn bytes(text: &str) -> Result<Vec<u8>, &'static str> {
    let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) else {
        return Err(if text.is_empty() { "empty hex string" } else { "hex string without 0x prefix" });
    };
    if digits.len() % 2 == 1 {
        return Err("hex string of odd length");
    }
    hex::decode(digits).map_err(|_| "invalid hex string")
}

/// Reads a number from hex with `0x`; leading zeros are refused.
pub(crate) fn quantity(text: &str) -> Result<u128, &'static str> {
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(if text.is_empty() { "empty hex string" } else { "hex string without 0x prefix" });
    };
    match digits.as_bytes() {
        [] => Err("hex string \"0x\""),
        [b'0', _, ..] => Err("hex number with leading zero digits"),
        _ if digits.starts_with('+') => Err("invalid hex string"),
        _ if digits.len() > 64 => Err("hex number > 256 bits"),
        // More than any account has.
        _ if digits.len() > 32 && digits.bytes().all(|b| b.is_ascii_hexdigit()) => Ok(u128::MAX),
        _ => u128::from_str_radix(digits, 16).map_err(|_| "invalid hex string"),
    }
}

/// Reads exactly `N` bytes.
pub(crate) fn fixed<const N: usize>(value: &Value) -> Result<[u8; N], String> {
    let text = value.as_str().ok_or("json: cannot unmarshal non-string")?;
    let bytes = bytes(text)?;
    let length = 2 * bytes.len();
    bytes.try_into().map_err(|_| format!("hex string has length {length}, want {}", 2 * N))
}

/// Reads a member or argument that is a number.
pub(crate) fn number(value: &Value) -> Result<u128, String> {
    let text = value.as_str().ok_or("json: cannot unmarshal non-string")?;
    Ok(quantity(text)?)
}

/// Reads a block by tag, number or hash, also as the object of EIP-1898.
pub(crate) fn block(value: &Value) -> Result<BlockId, String> {
    if let Some(members) = value.as_object() {
        return match (members.get("blockNumber"), members.get("blockHash")) {
            (Some(_), Some(_)) => {
                Err("cannot specify both BlockHash and BlockNumber, choose one or the other".into())
            }
            (Some(number), None) => block(number),
            (None, Some(hash)) => Ok(BlockId::Hash(fixed(hash)?)),
            (None, None) => Err("invalid block number or hash".into()),
        };
    }
    match value.as_str().ok_or("json: cannot unmarshal non-string")? {
        "earliest" => Ok(BlockId::Earliest),
        "finalized" => Ok(BlockId::Finalized),
        "safe" => Ok(BlockId::Safe),
        "latest" | "" => Ok(BlockId::Latest),
        "pending" => Ok(BlockId::Pending),
        text if text.len() == 66 => Ok(BlockId::Hash(fixed(value)?)),
        text => u64::try_from(quantity(text)?)
            .map(BlockId::Number)
            .map_err(|_| "block number larger than int64".into()),
    }
}

impl Params {
    /// Takes `required` to `most` parameters; null means that one is omitted.
    pub(crate) fn take(params: Value, required: usize, most: usize) -> Result<Self, Fault> {
        let list = match params {
            Value::Null => Vec::new(),
            Value::Array(list) => list,
            _ => return Err(Fault::new(-32602, "non-array args")),
        };
        if list.len() > most {
            return Err(Fault::new(-32602, format!("too many arguments, want at most {most}")));
        }
        match (0..required).find(|index| list.get(*index).is_none_or(Value::is_null)) {
            Some(index) => Err(Fault::new(-32602, format!("missing value for required argument {index}"))),
            None => Ok(Params(list)),
        }
    }

    /// Returns argument `index`; null if it is omitted.
    pub(crate) fn get(&self, index: usize) -> &Value {
        self.0.get(index).unwrap_or(&Value::Null)
    }

    pub(crate) fn address(&self, index: usize) -> Result<Address, Fault> {
        fixed(self.get(index)).map_err(|why| invalid(index, format!("{why} for common.Address")))
    }

    pub(crate) fn hash(&self, index: usize) -> Result<Word, Fault> {
        fixed(self.get(index)).map_err(|why| invalid(index, format!("{why} for common.Hash")))
    }

    pub(crate) fn number(&self, index: usize) -> Result<u64, Fault> {
        let number = number(self.get(index)).map_err(|why| invalid(index, why))?;
        u64::try_from(number).map_err(|_| invalid(index, "hex number > 64 bits"))
    }

    pub(crate) fn data(&self, index: usize) -> Result<Vec<u8>, Fault> {
        let text =
            self.get(index).as_str().ok_or_else(|| invalid(index, "json: cannot unmarshal non-string"))?;
        bytes(text).map_err(|why| invalid(index, why))
    }

    pub(crate) fn flag(&self, index: usize) -> Result<bool, Fault> {
        match self.get(index) {
            Value::Null => Ok(false),
            value => value
                .as_bool()
                .ok_or_else(|| invalid(index, "json: cannot unmarshal into Go value of type bool")),
        }
    }

    /// Reads a block; the newest if the argument is omitted.
    pub(crate) fn block(&self, index: usize) -> Result<BlockId, Fault> {
        match self.get(index) {
            Value::Null => Ok(BlockId::Latest),
            value => block(value).map_err(|why| invalid(index, why)),
        }
    }

    /// Reads a block by tag or number only.
    pub(crate) fn block_number(&self, index: usize) -> Result<BlockId, Fault> {
        match self.block(index)? {
            BlockId::Hash(_) => Err(invalid(index, "hex number > 64 bits")),
            id => Ok(id),
        }
    }
}
