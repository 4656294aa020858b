//! Logs of contracts, including transfers of TRC-20 and TRC-721 tokens.

use super::address::{base58, of_hex};
use rpcgate_core::event::{ChainEvent, EventType};
use serde::Deserialize;

/// The hash of `Transfer(address,address,uint256)`.
const TRANSFER: &str = "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

/// A contract's log in a transaction's result: in hex, with addresses without `41`.
#[derive(Debug, Deserialize)]
pub(super) struct Log {
    address: String,
    #[serde(default)]
    topics: Vec<String>,
    #[serde(default)]
    data: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct LoggedTransfer {
    pub(super) token: String,
    pub(super) from: String,
    pub(super) to: String,
    standard: &'static str,
    /// The amount of a TRC-20 token, or the id of a TRC-721 one.
    number: String,
}

impl Log {
    /// Returns the contract's address; `None` if the node's text is invalid.
    pub(super) fn contract(&self) -> Option<String> {
        of_hex(&self.address)
    }

    /// Returns the log's token transfer, if it has that form.
    pub(super) fn transfer(&self) -> Option<LoggedTransfer> {
        let (kind, from, to, id) = match &self.topics[..] {
            [kind, from, to] => (kind, from, to, None),
            [kind, from, to, id] => (kind, from, to, Some(id)),
            _ => return None,
        };
        if !kind.eq_ignore_ascii_case(TRANSFER) {
            return None;
        }
        let (standard, number) = match id {
            Some(id) if self.data.is_empty() => ("trc721", id),
            None => ("trc20", &self.data),
            Some(_) => return None,
        };
        Some(LoggedTransfer {
            token: self.contract()?,
            from: account(from)?,
            to: account(to)?,
            standard,
            number: decimal(number)?,
        })
    }

    pub(super) fn event(&self, tx_hash: &str, index: usize) -> Option<ChainEvent> {
        let topics: Vec<String> = self.topics.iter().map(|topic| topic.to_ascii_lowercase()).collect();
        let mut event = ChainEvent::new(EventType::ContractEvent)
            .with("address", self.contract()?)
            .with("tx_hash", tx_hash)
            .with("log_index", index);
        if let Some(first) = topics.first() {
            event = event.with("topic0", first.as_str());
        }
        Some(event.with("topics", topics).with("data", self.data.to_ascii_lowercase()))
    }
}

impl LoggedTransfer {
    pub(super) fn event(self, tx_hash: &str, index: usize) -> ChainEvent {
        ChainEvent::new(EventType::TokenTransfer)
            .with("token", self.token)
            .with("standard", self.standard)
            .with("from", self.from)
            .with("to", self.to)
            .with(if self.standard == "trc721" { "token_id" } else { "value" }, self.number)
            .with("tx_hash", tx_hash)
            .with("log_index", index)
    }
}

/// Returns the address in the last 20 bytes of a word. Some contracts put `41` before them.
fn account(word: &str) -> Option<String> {
    let bytes: [u8; 32] = hex::decode(word).ok()?.try_into().ok()?;
    let (before, account) = bytes.split_last_chunk::<20>()?;
    let (last, zeros) = before.split_last()?;
    let is_address = zeros.iter().all(|byte| *byte == 0) && matches!(last, 0 | 0x41);
    is_address.then(|| base58(account))
}

/// Returns the decimal digits of a 32-byte number in hex.
fn decimal(word: &str) -> Option<String> {
    /// The largest power of ten in a limb.
    const PART: u64 = 1_000_000_000;
    let bytes: [u8; 32] = hex::decode(word).ok()?.try_into().ok()?;
    let (chunks, _) = bytes.as_chunks::<4>();
    let mut limbs: Vec<u32> = chunks.iter().map(|chunk| u32::from_be_bytes(*chunk)).collect();
    let mut parts = Vec::new();
    while limbs.iter().any(|limb| *limb != 0) {
        let mut rest = 0;
        for limb in &mut limbs {
            let current = rest << 32 | u64::from(*limb);
            *limb = (current / PART) as u32;
            rest = current % PART;
        }
        parts.push(rest);
    }
    let first = parts.pop().unwrap_or(0).to_string();
    Some(parts.iter().rev().fold(first, |text, part| format!("{text}{part:09}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "0000000000000000000000007e5f4552091a69125d5dfcb7b8c2659029395bdf";
    const TO: &str = "0000000000000000000000411111111111111111111111111111111111111111";

    fn log(topics: &[&str], data: &str) -> Log {
        Log {
            address: "a614f803b6fd780986a42c78ec9c7f77e6ded13c".into(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            data: data.into(),
        }
    }

    #[test]
    fn amounts_of_any_size_are_exact() {
        let word = |digits: &str| format!("{digits:0>64}");
        for (hex, digits) in [
            ("0", "0"),
            ("9", "9"),
            ("3b9aca00", "1000000000"),
            ("de0b6b3a7640000", "1000000000000000000"),
            (
                &"f".repeat(64),
                "115792089237316195423570985008687907853269984665640564039457584007913129639935",
            ),
        ] {
            assert_eq!(decimal(&word(hex)).as_deref(), Some(digits));
        }
        for wrong in ["", "00", "zz", &"0".repeat(66)] {
            assert_eq!(decimal(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn transfers_are_distinguished_by_their_topics() {
        let amount = format!("{:0>64}", "64");
        let coin = log(&[TRANSFER, FROM, TO], &amount).transfer().unwrap();
        assert_eq!((coin.standard, coin.number.as_str()), ("trc20", "100"));
        assert_eq!(coin.token, "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t");
        assert_eq!((coin.from.len(), coin.to.len()), (34, 34));
        let item = log(&[TRANSFER, FROM, TO, &amount], "").transfer().unwrap();
        assert_eq!((item.standard, item.number.as_str()), ("trc721", "100"));
    }

    // Shows (Events of chains).
    #[test]
    fn a_log_that_only_resembles_a_transfer_is_not_a_transfer() {
        let amount = format!("{:0>64}", "64");
        for (topics, data) in [
            (&[TRANSFER, FROM][..], amount.as_str()),
            (&[TRANSFER, FROM, TO], ""),
            (&[TRANSFER, FROM, TO], "64"),
            (&[TRANSFER, FROM, TO, &amount], &amount),
            (&[TRANSFER, FROM, TO, &amount, &amount], ""),
            (&[TRANSFER, &"f".repeat(64), TO], &amount),
            (&[FROM, FROM, TO], &amount),
            (&[TRANSFER, "x", TO], &amount),
            (&[], ""),
        ] {
            assert_eq!(log(topics, data).transfer(), None, "{topics:?}");
        }
    }
}
