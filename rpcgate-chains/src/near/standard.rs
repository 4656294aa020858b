//! Events in the logs of contracts (NEP-297), including token transfers: NEP-141, NEP-171 and NEP-245.

use rpcgate_core::event::{ChainEvent, EventType};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The prefix of a log that is an event.
const EVENT: &str = "EVENT_JSON:";

/// An event in a log. Contracts write it, so none of its content can be trusted.
#[derive(Debug, Deserialize)]
pub(super) struct LoggedEvent {
    standard: String,
    #[serde(default)]
    version: String,
    event: String,
    data: Option<Box<RawValue>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LogPosition<'a> {
    pub(super) contract: &'a str,
    pub(super) tx_hash: &'a str,
    pub(super) receipt: &'a str,
    pub(super) index: usize,
}

#[derive(Debug, Deserialize)]
struct Item {
    old_owner_id: Option<String>,
    new_owner_id: Option<String>,
    owner_id: Option<String>,
    amount: Option<String>,
    token_ids: Option<Vec<String>>,
    amounts: Option<Vec<String>>,
}

/// A transfer of a token; a missing sender means minting, a missing receiver burning.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NepTransfer {
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    standard: &'static str,
    token_id: Option<String>,
    value: Option<String>,
}

pub(super) fn account(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    let is_account = (2..=64).contains(&name.len())
        && name.bytes().all(allowed)
        && name.split(['.', '-', '_']).all(|part| !part.is_empty());
    is_account.then_some(name)
}

fn amount(text: &str) -> Option<String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<u128>().ok().filter(|_| is_number).map(|amount| amount.to_string())
}

impl LoggedEvent {
    pub(super) fn read(log: &str) -> Option<Self> {
        serde_json::from_str(log.trim_start().strip_prefix(EVENT)?).ok()
    }

    /// Returns the event's transfers; items that the standard does not allow are left out.
    pub(super) fn transfers(&self) -> Vec<NepTransfer> {
        let (standard, kind) = match (self.standard.as_str(), self.event.split_once('_')) {
            ("nep141", Some(("ft", kind))) => ("nep141", kind),
            ("nep171", Some(("nft", kind))) => ("nep171", kind),
            ("nep245", Some(("mt", kind))) => ("nep245", kind),
            _ => return Vec::new(),
        };
        let data = self.data.as_ref().map_or("", |data| data.get());
        let items: Vec<Item> = serde_json::from_str(data).unwrap_or_default();
        items.into_iter().filter_map(|item| item.transfers(standard, kind)).flatten().collect()
    }

    /// Returns the webhook event, with its data as the contract wrote it.
    pub(super) fn shown(&self, position: LogPosition<'_>) -> ChainEvent {
        let event = ChainEvent::new(EventType::ContractEvent)
            .with("address", position.contract)
            .with("standard", self.standard.as_str())
            .with("version", self.version.as_str())
            .with("event", self.event.as_str())
            .with("tx_hash", position.tx_hash)
            .with("receipt_id", position.receipt)
            .with("log_index", position.index);
        match &self.data {
            Some(data) => event.with("payload", data.get()),
            None => event,
        }
    }
}

impl Item {
    fn transfers(self, standard: &'static str, kind: &str) -> Option<Vec<NepTransfer>> {
        let owner = |name: &Option<String>| name.as_deref().and_then(account);
        let (from, to) = match kind {
            "transfer" => (Some(owner(&self.old_owner_id)?), Some(owner(&self.new_owner_id)?)),
            "mint" => (None, Some(owner(&self.owner_id)?)),
            "burn" => (Some(owner(&self.owner_id)?), None),
            _ => return None,
        };
        let one = |token_id: Option<String>, value: Option<String>| NepTransfer {
            from: from.clone(),
            to: to.clone(),
            standard,
            token_id,
            value,
        };
        if standard == "nep141" {
            return Some(vec![one(None, Some(amount(&self.amount?)?))]);
        }
        let ids = self.token_ids?;
        if standard == "nep171" {
            return Some(ids.into_iter().map(|id| one(Some(id), None)).collect());
        }
        let amounts = self.amounts?;
        if amounts.len() != ids.len() {
            return None;
        }
        let pairs = ids.into_iter().zip(&amounts);
        pairs.map(|(id, text)| Some(one(Some(id), Some(amount(text)?)))).collect()
    }
}

impl NepTransfer {
    pub(super) fn event(self, position: LogPosition<'_>) -> ChainEvent {
        let mut event = ChainEvent::new(EventType::TokenTransfer)
            .with("token", position.contract)
            .with("standard", self.standard);
        let members =
            [("from", self.from), ("to", self.to), ("token_id", self.token_id), ("value", self.value)];
        for (name, text) in members {
            if let Some(text) = text {
                event = event.with(name, text);
            }
        }
        event
            .with("tx_hash", position.tx_hash)
            .with("receipt_id", position.receipt)
            .with("log_index", position.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sender, receiver, id and amount.
    type Row = [Option<String>; 4];

    fn transfers(log: &str) -> Vec<Row> {
        let event = LoggedEvent::read(log).expect("an event");
        event.transfers().into_iter().map(|one| [one.from, one.to, one.token_id, one.value]).collect()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn transfers_of_every_standard_are_read() {
        assert_eq!(
            transfers(
                r#"EVENT_JSON:{"standard":"nep141","version":"1.0.0","event":"ft_transfer","data":[{"old_owner_id":"a.near","new_owner_id":"b.near","amount":"0340282366920938463463374607431768211455","memo":"x"}]}"#
            ),
            [[some("a.near"), some("b.near"), None, some("340282366920938463463374607431768211455")]]
        );
        assert_eq!(
            transfers(
                r#"EVENT_JSON: {"standard":"nep171","event":"nft_mint","data":[{"owner_id":"a.near","token_ids":["1","2"]}]}"#
            ),
            [[None, some("a.near"), some("1"), None], [None, some("a.near"), some("2"), None]]
        );
        assert_eq!(
            transfers(
                r#"EVENT_JSON:{"standard":"nep245","event":"mt_burn","data":[{"owner_id":"a.near","token_ids":["x"],"amounts":["7"]}]}"#
            ),
            [[some("a.near"), None, some("x"), some("7")]]
        );
    }

    // Shows (Events of chains).
    #[test]
    fn an_invented_event_of_a_contract_is_no_transfer() {
        for data in [
            "null",
            "{}",
            "[1]",
            "[{}]",
            r#"[{"old_owner_id":"a.near","new_owner_id":"b.near"}]"#,
            r#"[{"old_owner_id":"a.near","new_owner_id":"b.near","amount":5}]"#,
            r#"[{"old_owner_id":"a.near","new_owner_id":"b.near","amount":"-5"}]"#,
            r#"[{"old_owner_id":"a.near","new_owner_id":"b.near","amount":"+5"}]"#,
            r#"[{"old_owner_id":"a.near","new_owner_id":"b.near","amount":"1e5"}]"#,
            r#"[{"old_owner_id":"a near","new_owner_id":"b.near","amount":"5"}]"#,
        ] {
            let log = format!(r#"EVENT_JSON:{{"standard":"nep141","event":"ft_transfer","data":{data}}}"#);
            assert!(transfers(&log).is_empty(), "{data}");
        }
        let uneven = r#"EVENT_JSON:{"standard":"nep245","event":"mt_burn","data":[{"owner_id":"a.near","token_ids":["x"],"amounts":[]}]}"#;
        assert!(transfers(uneven).is_empty());
        let other = r#"EVENT_JSON:{"standard":"nep141","event":"nft_mint","data":[{"owner_id":"a.near","token_ids":["1"]}]}"#;
        assert!(transfers(other).is_empty());
        for log in [
            "",
            "plain words",
            "EVENT_JSON:",
            "EVENT_JSON:{}",
            "EVENT_JSON:[]",
            "EVENT_JSON:{\"standard\":1}",
        ] {
            assert!(LoggedEvent::read(log).is_none(), "{log}");
        }
    }

    #[test]
    fn account_ids_are_in_lower_case() {
        assert_eq!(account("Bob.NEAR").as_deref(), Some("bob.near"));
        assert_eq!(account(&"F".repeat(64)), Some("f".repeat(64)));
        for wrong in ["", "a", ".near", "a..b", "a-.b", "ä.near", &"f".repeat(65)] {
            assert_eq!(account(wrong), None, "{wrong}");
        }
    }
}
