//! The addresses that a transaction involves, with their roles and amounts.

use rpcgate_core::event::{ChainEvent, EventFilter};
use std::collections::{BTreeMap, HashMap};

/// The amounts of one token that an address received and sent; `None` for a sum that is unknown or exceeds 128 bits.
#[derive(Debug)]
struct Amounts {
    received: Option<u128>,
    sent: Option<u128>,
}

#[derive(Debug)]
struct Party {
    address: String,
    sends: bool,
    receives: bool,
    /// By token; the empty text is the native coin of chains whose events do not name it.
    amounts: BTreeMap<String, Amounts>,
}

/// The addresses of one transaction, each once, in order of appearance.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    parties: Vec<Party>,
    positions: HashMap<String, usize>,
}

impl Activity {
    /// Adds an address that neither acts nor is acted on.
    pub(crate) fn touches(&mut self, address: &str) {
        self.change(address, |_| {});
    }

    /// Adds an address that acts, pays or calls.
    pub(crate) fn sends(&mut self, address: &str) {
        self.change(address, |party| party.sends = true);
    }

    /// Adds an address that is paid, called or otherwise acted on.
    pub(crate) fn receives(&mut self, address: &str) {
        self.change(address, |party| party.receives = true);
    }

    /// Adds a payment by the address; `value` is `None` if it is unknown.
    pub(crate) fn pays(&mut self, address: &str, token: &str, value: Option<u128>) {
        self.change(address, |party| {
            party.sends = true;
            party.adds(token, value, |amounts| &mut amounts.sent);
        });
    }

    /// Adds a payment to the address; `value` is `None` if it is unknown.
    pub(crate) fn is_paid(&mut self, address: &str, token: &str, value: Option<u128>) {
        self.change(address, |party| {
            party.receives = true;
            party.adds(token, value, |amounts| &mut amounts.received);
        });
    }

    fn change(&mut self, address: &str, change: impl FnOnce(&mut Party)) {
        let position = match self.positions.get(address) {
            Some(position) => *position,
            None => {
                let position = self.parties.len();
                self.positions.insert(address.to_owned(), position);
                self.parties.push(Party {
                    address: address.to_owned(),
                    sends: false,
                    receives: false,
                    amounts: BTreeMap::new(),
                });
                position
            }
        };
        if let Some(party) = self.parties.get_mut(position) {
            change(party);
        }
    }

    /// Adds an event per watched address: `event` with `address`, `direction`, and the amount if only one token moved.
    pub(crate) fn events(self, event: &ChainEvent, filter: &EventFilter, out: &mut Vec<ChainEvent>) {
        let watched = self.parties.into_iter().filter(|party| filter.watches(&party.address));
        out.extend(watched.map(|party| party.event(event.clone())));
    }
}

impl Party {
    fn adds(&mut self, token: &str, value: Option<u128>, sum: fn(&mut Amounts) -> &mut Option<u128>) {
        if value == Some(0) {
            return;
        }
        let amounts = self.amounts.entry(token.to_owned());
        let sum = sum(amounts.or_insert(Amounts { received: Some(0), sent: Some(0) }));
        *sum = sum.zip(value).and_then(|(sum, value)| sum.checked_add(value));
    }

    fn event(self, event: ChainEvent) -> ChainEvent {
        let mut event = event.with("address", self.address);
        let direction = match (self.sends, self.receives) {
            (true, true) => Some("self"),
            (true, false) => Some("out"),
            (false, true) => Some("in"),
            (false, false) => None,
        };
        if let Some(direction) = direction {
            event = event.with("direction", direction);
        }
        let mut amounts = self.amounts.into_iter();
        if let (Some((token, Amounts { received: Some(received), sent: Some(sent) })), None) =
            (amounts.next(), amounts.next())
        {
            event = event.with("value", received.abs_diff(sent).to_string());
            if direction == Some("self") {
                event = event.with("paid", sent.to_string()).with("received", received.to_string());
            }
            if !token.is_empty() {
                event = event.with("token", token);
            }
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::event::EventType;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn shown(activity: Activity, filter: &EventFilter) -> Vec<Value> {
        let mut out = Vec::new();
        activity.events(&ChainEvent::new(EventType::AddressActivity), filter, &mut out);
        out.into_iter().map(|event| event.data.into()).collect()
    }

    fn every() -> EventFilter {
        EventFilter::new([EventType::AddressActivity])
    }

    // Shows (Events of chains): Activity of addresses is reported in the same way on every chain: once per address,
    // with both sums and their difference if it does both, and without an invalid amount.
    #[test]
    fn an_address_is_reported_once_with_the_sum_it_sent_or_received() {
        let mut activity = Activity::default();
        activity.sends("z");
        activity.pays("a", "", Some(5));
        activity.is_paid("b", "", Some(11));
        activity.pays("a", "", Some(6));
        activity.is_paid("c", "t", Some(1));
        activity.receives("d");
        activity.touches("e");
        activity.touches("d");
        assert_eq!(
            shown(activity, &every()),
            [
                json!({"address": "z", "direction": "out"}),
                json!({"address": "a", "direction": "out", "value": "11"}),
                json!({"address": "b", "direction": "in", "value": "11"}),
                json!({"address": "c", "direction": "in", "value": "1", "token": "t"}),
                json!({"address": "d", "direction": "in"}),
                json!({"address": "e"}),
            ]
        );
    }

    // Shows (Events of chains).
    #[test]
    fn an_address_that_does_both_is_reported_with_both_sums_and_their_difference() {
        let mut activity = Activity::default();
        activity.pays("a", "", Some(5));
        activity.is_paid("a", "", Some(u128::MAX));
        activity.is_paid("b", "t", Some(7));
        activity.sends("b");
        let most = u128::MAX.to_string();
        let difference = (u128::MAX - 5).to_string();
        assert_eq!(
            shown(activity, &every()),
            [
                json!({"address": "a", "direction": "self", "value": difference, "paid": "5", "received": most}),
                json!({
                    "address": "b", "direction": "self", "value": "7", "paid": "0", "received": "7", "token": "t",
                }),
            ]
        );
    }

    // Shows (Events of chains).
    #[test]
    fn an_amount_of_several_sums_is_omitted() {
        let mut activity = Activity::default();
        activity.pays("many", "t", Some(5));
        activity.pays("many", "u", Some(5));
        activity.is_paid("large", "", Some(u128::MAX));
        activity.is_paid("large", "", Some(1));
        activity.is_paid("unknown", "", None);
        activity.is_paid("unknown", "", Some(1));
        activity.is_paid("nothing", "", Some(0));
        assert_eq!(
            shown(activity, &every()),
            [
                json!({"address": "many", "direction": "out"}),
                json!({"address": "large", "direction": "in"}),
                json!({"address": "unknown", "direction": "in"}),
                json!({"address": "nothing", "direction": "in"}),
            ]
        );
    }

    // Shows (Events of chains).
    #[test]
    fn only_watched_addresses_have_events() {
        let mut activity = Activity::default();
        activity.sends("a");
        activity.sends("b");
        let filter = every().with_addresses(Arc::new(|address| address == "b"));
        assert_eq!(shown(activity, &filter), [json!({"address": "b", "direction": "out"})]);
    }
}
