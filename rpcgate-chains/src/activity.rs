//! The addresses that a transaction involves.

use rpcgate_core::event::{ChainEvent, Wanted};
use std::collections::HashMap;

#[derive(Debug)]
struct Involved {
    address: String,
    is_sender: bool,
    is_receiver: bool,
    sent: u128,
    received: u128,
    has_value: bool,
}

/// The addresses of one transaction, in the order in which they are met, each once. Amounts are those of the chain's own
/// coin.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    involved: Vec<Involved>,
    places: HashMap<String, usize>,
}

impl Activity {
    /// Notes an address from which nothing moves and to which nothing moves.
    pub(crate) fn touch(&mut self, address: &str) {
        self.row(address);
    }

    /// Notes a sender; `amount` is what it sends of the chain's own coin, if it is known.
    pub(crate) fn send(&mut self, address: &str, amount: Option<u128>) {
        if let Some(row) = self.row(address) {
            row.is_sender = true;
            row.sent = row.sent.saturating_add(amount.unwrap_or(0));
            row.has_value |= amount.is_some();
        }
    }

    /// Notes a receiver; `amount` is what it receives of the chain's own coin, if it is known.
    pub(crate) fn receive(&mut self, address: &str, amount: Option<u128>) {
        if let Some(row) = self.row(address) {
            row.is_receiver = true;
            row.received = row.received.saturating_add(amount.unwrap_or(0));
            row.has_value |= amount.is_some();
        }
    }

    fn row(&mut self, address: &str) -> Option<&mut Involved> {
        let place = match self.places.get(address) {
            Some(place) => *place,
            None => {
                self.places.insert(address.to_owned(), self.involved.len());
                self.involved.push(Involved {
                    address: address.to_owned(),
                    is_sender: false,
                    is_receiver: false,
                    sent: 0,
                    received: 0,
                    has_value: false,
                });
                self.involved.len() - 1
            }
        };
        self.involved.get_mut(place)
    }

    /// The events of the watched addresses: `event` with `address`, `direction`, and `value`, the difference between what
    /// it receives and what it sends.
    pub(crate) fn events(self, event: &ChainEvent, wanted: &Wanted, out: &mut Vec<ChainEvent>) {
        let watched = self.involved.into_iter().filter(|row| wanted.watches(&row.address));
        out.extend(watched.map(|row| {
            let direction = match (row.is_sender, row.is_receiver) {
                (true, true) => Some("self"),
                (true, false) => Some("out"),
                (false, true) => Some("in"),
                (false, false) => None,
            };
            let mut event = event.clone().with("address", row.address);
            if let Some(direction) = direction {
                event = event.with("direction", direction);
            }
            if row.has_value {
                event = event.with("value", row.received.abs_diff(row.sent).to_string());
            }
            event
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::event::EventType;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn shown(activity: Activity, wanted: &Wanted) -> Vec<Value> {
        let mut out = Vec::new();
        activity.events(&ChainEvent::new(EventType::AddressActivity).with("tx_hash", "t"), wanted, &mut out);
        out.into_iter().map(|event| event.data.into()).collect()
    }

    #[test]
    fn an_address_has_one_event_with_the_difference_of_what_moved() {
        let mut activity = Activity::default();
        activity.send("a", Some(5));
        activity.receive("b", Some(7));
        activity.receive("a", Some(u128::MAX));
        activity.receive("c", None);
        activity.touch("d");
        activity.touch("b");
        let all = Wanted::new([EventType::AddressActivity]);
        assert_eq!(
            shown(activity, &all),
            [
                json!({"tx_hash": "t", "address": "a", "direction": "self", "value": (u128::MAX - 5).to_string()}),
                json!({"tx_hash": "t", "address": "b", "direction": "in", "value": "7"}),
                json!({"tx_hash": "t", "address": "c", "direction": "in"}),
                json!({"tx_hash": "t", "address": "d"}),
            ]
        );
    }

    #[test]
    fn only_watched_addresses_have_events() {
        let mut activity = Activity::default();
        activity.send("a", None);
        activity.send("b", None);
        let wanted =
            Wanted::new([EventType::AddressActivity]).with_addresses(Arc::new(|address| address == "b"));
        assert_eq!(shown(activity, &wanted), [json!({"tx_hash": "t", "address": "b", "direction": "out"})]);
    }
}
