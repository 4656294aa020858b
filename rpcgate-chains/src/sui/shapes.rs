//! The members of Sui events (docs/webhooks-data.md).

use crate::kinds::DIRECTION;
use rpcgate_core::event::{EventMember, EventShape, EventType};

const CHECKPOINT: EventShape =
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
]);
const MOVE_EVENT: EventShape = EventShape::of(&[
    EventMember::text("address"),
    EventMember::text("module"),
    EventMember::text("type"),
    EventMember::text("sender"),
    EventMember::text("tx_hash"),
    EventMember::number("index"),
])
.and_others("");

pub(super) fn shapes(kind: EventType) -> Option<&'static [EventShape]> {
    Some(match kind {
        EventType::NewBlock => &[CHECKPOINT],
        EventType::AddressActivity => &[ACTIVITY],
        EventType::TokenTransfer => &[COINS],
        EventType::ContractEvent => &[MOVE_EVENT],
        _ => return None,
    })
}
