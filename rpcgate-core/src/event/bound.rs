//! The size limit of event bodies.

use super::{BlockRef, ChainEvent};
use serde_json::Value;

/// The largest body, in bytes. Usual events are far smaller, and receivers accept this size (many servers stop at 1 MiB
/// by default). It bounds memory for events whose size nodes and contracts choose.
pub const MAX_EVENT_BODY: usize = 256 << 10;

/// The length to which a text is cut, in bytes. Smaller members stay.
const MAX_STORED: usize = 1 << 10;

/// The member that marks a truncated event.
const TRUNCATED: &str = "truncated";

impl ChainEvent {
    /// Returns the [body](ChainEvent::body) of its deliveries. Above [`MAX_EVENT_BODY`], the largest members of the
    /// innermost `data` are cut (a text to 1,024 bytes) or removed (lists and objects), with `"truncated": true`.
    ///
    /// ```
    /// use rpcgate_core::event::{BlockRef, ChainEvent, EventType, MAX_EVENT_BODY};
    ///
    /// let event = ChainEvent::new(EventType::ContractEvent).with("address", "0xa1").with("data", "f".repeat(1 << 20));
    /// let body = event.bounded_body("eth", &BlockRef::new(7, "0xb7", "0xb6", 1_700_000_000));
    /// let body: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    /// let data = &body["data"]["data"];
    /// assert_eq!((&data["address"], &data["truncated"]), (&"0xa1".into(), &true.into()));
    /// assert_eq!(data["data"].as_str().map(str::len), Some(1_024));
    /// ```
    pub fn bounded_body(&self, chain: &str, block: &BlockRef) -> Vec<u8> {
        let body = self.body(chain, block);
        if body.len() <= MAX_EVENT_BODY {
            return body;
        }
        let mut cut = self.clone().with(TRUNCATED, true);
        let mut excess = cut.body(chain, block).len().saturating_sub(MAX_EVENT_BODY);
        let mut members: Vec<_> = self.data.iter().map(|(name, value)| (written(value), name)).collect();
        members.sort_unstable_by(|one, other| other.cmp(one));
        for (size, name) in &members {
            if excess == 0 || *size <= MAX_STORED {
                break;
            }
            let left = match self.data.get(*name) {
                Some(Value::String(text)) => Some(Value::from(&text[..text.floor_char_boundary(MAX_STORED)])),
                _ => None,
            };
            excess = excess.saturating_sub(size.saturating_sub(left.as_ref().map_or(0, written)));
            match left {
                Some(left) => cut.data.insert((*name).clone(), left),
                None => cut.data.remove(*name),
            };
        }
        let body = cut.body(chain, block);
        if body.len() <= MAX_EVENT_BODY {
            return body;
        }
        // Too many members, or too long names, for cutting to suffice.
        ChainEvent::new(self.kind).with(TRUNCATED, true).body(chain, block)
    }
}

fn written(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(0, |written| written.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventType;
    use serde_json::json;

    fn block() -> BlockRef {
        BlockRef::new(3, "h", "p", 4)
    }

    fn data(event: &ChainEvent) -> (usize, Value) {
        let body = event.bounded_body("cosmos", &block());
        let mut parsed: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&parsed["chain"], &parsed["data"]["block_num"]), (&json!("cosmos"), &json!(3)));
        (body.len(), parsed["data"]["data"].take())
    }

    // Shows (Webhooks): A body has at most 256 KiB; the largest data of a larger event are cut and marked.
    #[test]
    fn a_body_of_the_largest_size_stays_whole_and_one_byte_more_is_cut() {
        let event = |size: usize| ChainEvent::new(EventType::ContractEvent).with("data", "x".repeat(size));
        let around = event(0).body("cosmos", &block()).len();
        let whole = event(MAX_EVENT_BODY - around);
        assert_eq!(whole.bounded_body("cosmos", &block()), whole.body("cosmos", &block()));
        let (size, cut) = data(&event(MAX_EVENT_BODY - around + 1));
        assert!(size < 2 * MAX_STORED);
        assert_eq!(cut, json!({"data": "x".repeat(MAX_STORED), "truncated": true}));
    }

    // Shows (Webhooks).
    #[test]
    fn the_largest_members_are_cut_and_the_others_stay() {
        let event = ChainEvent::new(EventType::ContractEvent)
            .with("attributes", json!({"memo": "m".repeat(400_000)}))
            .with("topics", json!(["t".repeat(2_000)]))
            .with("data", "ü\"".repeat(100_000))
            .with("memo", "z".repeat(100_000))
            .with("success", true)
            .with("value", "5");
        let (size, cut) = data(&event);
        assert!(size <= MAX_EVENT_BODY && size > 100_000);
        assert_eq!(cut["data"].as_str().unwrap().len(), MAX_STORED - 1, "no letter is torn");
        assert_eq!(cut["memo"], event.data["memo"]);
        assert_eq!(cut["topics"], event.data["topics"]);
        assert_eq!(
            (&cut["success"], &cut["value"], &cut["truncated"]),
            (&json!(true), &json!("5"), &json!(true))
        );
        assert_eq!(cut.get("attributes"), None);
    }

    // Shows (Webhooks).
    #[test]
    fn the_body_of_any_event_is_bounded() {
        let many = (0..2_000).fold(ChainEvent::new(EventType::ContractEvent), |event, number| {
            event.with(&format!("name{number}"), "v".repeat(1_000))
        });
        assert_eq!(data(&many).1, json!({"truncated": true}));
        let long = ChainEvent::new(EventType::NewBlock).with(&"n".repeat(MAX_EVENT_BODY), 1);
        assert_eq!(data(&long).1, json!({"truncated": true}));
        let control = ChainEvent::new(EventType::NewBlock).with("data", "\u{1}".repeat(MAX_EVENT_BODY));
        let (size, cut) = data(&control);
        assert!(size <= MAX_EVENT_BODY);
        assert_eq!(cut["data"], "\u{1}".repeat(MAX_STORED));
    }
}
