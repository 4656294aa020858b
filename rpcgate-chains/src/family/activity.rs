//! The addresses of a transaction and what each does in it, as events tell of it, and what the readers of several chains
//! share.

use rpcgate_core::event::{ChainEvent, EventType, ReadError, Wanted};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// The types of events of chains with addresses, tokens and contracts.
pub(crate) const KINDS: &[EventType] =
    &[EventType::NewBlock, EventType::AddressActivity, EventType::TokenTransfer, EventType::ContractEvent];

/// The longest text of a node's error that is kept, in bytes.
const REASON: usize = 200;

/// Reads a node's answer; `what` says what the answer is not.
pub(crate) fn read<T: DeserializeOwned>(answer: &[u8], what: &'static str) -> Result<T, ReadError> {
    serde_json::from_slice(answer).map_err(|_| ReadError::Unreadable(what))
}

/// A node's text for an error, shortened.
pub(crate) fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(REASON)].to_owned()
}

/// Whether anything is wanted that only the transactions of a block tell.
pub(crate) fn wants_transactions(wanted: &Wanted) -> bool {
    KINDS[1..].iter().any(|kind| wanted.wants(*kind))
}

/// The amounts of one token that an address received and sent; `None` for a sum that 128 bits do not hold.
#[derive(Debug, Clone, Copy)]
struct Amounts {
    received: Option<u128>,
    sent: Option<u128>,
}

#[derive(Debug, Default)]
struct Party {
    receives: bool,
    sends: bool,
    /// By token; the chain's own coin is the empty text where events do not name it.
    amounts: BTreeMap<String, Amounts>,
}

/// What the addresses of one transaction do.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    parties: BTreeMap<String, Party>,
}

impl Activity {
    fn party(&mut self, address: &str) -> &mut Party {
        self.parties.entry(address.to_owned()).or_default()
    }

    /// The address acts, pays or calls.
    pub(crate) fn sends(&mut self, address: &str) {
        self.party(address).sends = true;
    }

    /// The address is paid, called or otherwise acted on.
    pub(crate) fn receives(&mut self, address: &str) {
        self.party(address).receives = true;
    }

    /// The address sends an amount of a token; `None` for one that 128 bits do not hold.
    pub(crate) fn pays(&mut self, address: &str, token: &str, value: Option<u128>) {
        self.sends(address);
        self.adds(address, token, value, |amounts| &mut amounts.sent);
    }

    /// The address receives an amount of a token; `None` for one that 128 bits do not hold.
    pub(crate) fn is_paid(&mut self, address: &str, token: &str, value: Option<u128>) {
        self.receives(address);
        self.adds(address, token, value, |amounts| &mut amounts.received);
    }

    fn adds(
        &mut self,
        address: &str,
        token: &str,
        value: Option<u128>,
        sum: fn(&mut Amounts) -> &mut Option<u128>,
    ) {
        if value == Some(0) {
            return;
        }
        let amounts = self.party(address).amounts.entry(token.to_owned());
        let sum = sum(amounts.or_insert(Amounts { received: Some(0), sent: Some(0) }));
        *sum = sum.zip(value).and_then(|(sum, value)| sum.checked_add(value));
    }

    /// One event for each watched address, with the members `more`. An event has a value if the address received or sent,
    /// but not both, one token alone.
    pub(crate) fn events(
        self,
        wanted: &Wanted,
        tx_hash: &str,
        success: bool,
        more: &[(&'static str, &str)],
    ) -> Vec<ChainEvent> {
        let watched = self.parties.into_iter().filter(|(address, _)| wanted.watches(address));
        let event = |(address, party): (String, Party)| {
            let direction = match (party.receives, party.sends) {
                (true, true) => "self",
                (true, false) => "in",
                (false, _) => "out",
            };
            let mut event = ChainEvent::new(EventType::AddressActivity)
                .with("address", address)
                .with("tx_hash", tx_hash)
                .with("direction", direction)
                .with("success", success);
            for (name, text) in more {
                event = event.with(name, *text);
            }
            let mut amounts = party.amounts.into_iter();
            if let (Some((token, Amounts { received: Some(received), sent: Some(sent) })), None) =
                (amounts.next(), amounts.next())
                && (received == 0) != (sent == 0)
            {
                event = event.with("value", received.max(sent).to_string());
                if !token.is_empty() {
                    event = event.with("token", token);
                }
            }
            event
        };
        watched.map(event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn shown(activity: Activity) -> Vec<Value> {
        let wanted = Wanted::new([EventType::AddressActivity]);
        let events = activity.events(&wanted, "h", true, &[]);
        let member = |event: &ChainEvent, name: &str| event.data.get(name).cloned().unwrap_or_default();
        let row = |event: ChainEvent| {
            json!([
                member(&event, "address"),
                member(&event, "direction"),
                member(&event, "value"),
                member(&event, "token")
            ])
        };
        events.into_iter().map(row).collect()
    }

    #[test]
    fn an_address_is_told_of_once_with_the_sum_of_what_it_sent_or_received() {
        let mut activity = Activity::default();
        activity.pays("a", "", Some(5));
        activity.pays("a", "", Some(6));
        activity.is_paid("b", "", Some(11));
        activity.is_paid("c", "t", Some(1));
        activity.receives("d");
        assert_eq!(
            shown(activity),
            [
                json!(["a", "out", "11", null]),
                json!(["b", "in", "11", null]),
                json!(["c", "in", "1", "t"]),
                json!(["d", "in", null, null])
            ]
        );
    }

    #[test]
    fn an_amount_that_is_not_one_sum_is_left_out() {
        let mut activity = Activity::default();
        activity.pays("both", "", Some(5));
        activity.is_paid("both", "", Some(5));
        activity.pays("many", "t", Some(5));
        activity.pays("many", "u", Some(5));
        activity.is_paid("large", "", Some(u128::MAX));
        activity.is_paid("large", "", Some(1));
        activity.is_paid("unknown", "", None);
        activity.is_paid("nothing", "", Some(0));
        assert_eq!(
            shown(activity),
            [
                json!(["both", "self", null, null]),
                json!(["large", "in", null, null]),
                json!(["many", "out", null, null]),
                json!(["nothing", "in", null, null]),
                json!(["unknown", "in", null, null])
            ]
        );
    }

    #[test]
    fn a_long_error_of_a_node_is_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"ü".repeat(150)), "ü".repeat(100));
        assert_eq!(shortened(&format!("a{}", "ü".repeat(150))).len(), 199);
    }
}
