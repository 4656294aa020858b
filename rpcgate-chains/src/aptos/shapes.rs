//! The members of Aptos events (docs/webhooks-data.md).

use crate::kinds::DIRECTION;
use rpcgate_core::event::{EventMember, EventShape, EventType, MemberForm};

const BLOCK: EventShape = EventShape::of(&[
    EventMember::number("transactions"),
    EventMember::number("first_version"),
    EventMember::number("last_version"),
]);
const ACTIVITY: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::number("version"),
    EventMember::text("address"),
    DIRECTION,
    EventMember::amount("value"),
    EventMember::amount("paid"),
    EventMember::amount("received"),
    EventMember::flag("success"),
]);
const ASSETS: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::number("version"),
    EventMember::number("index"),
    EventMember::text("token"),
    EventMember::amount("value"),
    EventMember::text("from"),
    EventMember::text("to"),
    EventMember::text("from_store"),
    EventMember::text("to_store"),
]);
const MOVE_EVENT: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::number("version"),
    EventMember::number("index"),
    EventMember::text("type"),
    EventMember::text("account"),
    EventMember::number("creation_number"),
    EventMember::number("sequence_number"),
    EventMember { name: "data", form: MemberForm::Scalar },
])
.and_others("data_");

pub(super) fn shapes(kind: EventType) -> Option<&'static [EventShape]> {
    Some(match kind {
        EventType::NewBlock => &[BLOCK],
        EventType::AddressActivity => &[ACTIVITY],
        EventType::TokenTransfer => &[ASSETS],
        EventType::ContractEvent => &[MOVE_EVENT],
        _ => return None,
    })
}
