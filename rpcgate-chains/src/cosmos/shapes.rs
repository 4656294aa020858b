//! The members of Cosmos Hub events (docs/webhooks-data.md).

use crate::kinds::DIRECTION;
use rpcgate_core::event::{EventMember, EventShape, EventType};

const BLOCK: EventShape =
    EventShape::of(&[EventMember::text("parent_hash"), EventMember::number("transactions")]);
const ACTIVITY: EventShape = EventShape::of(&[
    EventMember::text("address"),
    DIRECTION,
    EventMember::amount("value"),
    EventMember::amount("paid"),
    EventMember::amount("received"),
    EventMember::text("tx_hash"),
    EventMember::flag("success"),
    EventMember::text("token"),
]);
const COINS: EventShape = EventShape::of(&[
    EventMember::text("token"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::amount("value"),
    EventMember::text("tx_hash"),
    EventMember::number("index"),
]);
const EVENT: EventShape = EventShape::of(&[
    EventMember::text("type"),
    EventMember::text("tx_hash"),
    EventMember::number("index"),
    EventMember::text("address"),
]);

pub(super) fn shapes(kind: EventType) -> Option<&'static [EventShape]> {
    Some(match kind {
        EventType::NewBlock => &[BLOCK],
        EventType::AddressActivity => &[ACTIVITY],
        EventType::TokenTransfer => &[COINS],
        EventType::ContractEvent => &[EVENT],
        _ => return None,
    })
}
