//! The members of TON events (docs/webhooks-data.md).

use crate::kinds::DIRECTION;
use rpcgate_core::event::{EventMember, EventShape, EventType};

const BLOCK: EventShape = EventShape::of(&[EventMember::text("parent_hash")]);
const ACTIVITY: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::number("lt"),
    EventMember::text("address"),
    DIRECTION,
    EventMember::amount("value"),
    EventMember::amount("paid"),
    EventMember::amount("received"),
    EventMember::flag("success"),
]);
const COINS: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::number("lt"),
    EventMember::one_of("token", &["TON"]),
    EventMember::amount("value"),
    EventMember::text("from"),
    EventMember::text("to"),
]);
const JETTONS: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::number("lt"),
    EventMember::one_of("token", &["jetton"]),
    EventMember::amount("value"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::text("jetton_wallet"),
]);
const MESSAGE: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::number("lt"),
    EventMember::text("address"),
    EventMember::number("index"),
    EventMember::text("opcode"),
    EventMember::text("body"),
]);

pub(super) fn shapes(kind: EventType) -> Option<&'static [EventShape]> {
    Some(match kind {
        EventType::NewBlock => &[BLOCK],
        EventType::AddressActivity => &[ACTIVITY],
        EventType::TokenTransfer => &[COINS, JETTONS],
        EventType::ContractEvent => &[MESSAGE],
        _ => return None,
    })
}
