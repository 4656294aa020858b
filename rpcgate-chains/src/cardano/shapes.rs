//! The members of Cardano events (docs/webhooks-data.md).

use crate::kinds::DIRECTION;
use rpcgate_core::event::{EventMember, EventShape, EventType, MemberForm};

const BLOCK: EventShape = EventShape::of(&[
    EventMember::text("parent_hash"),
    EventMember::number("transactions"),
    EventMember::number("slot"),
]);
const ACTIVITY: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::text("address"),
    DIRECTION,
    EventMember::amount("value"),
    EventMember::amount("paid"),
    EventMember::amount("received"),
    EventMember::flag("success"),
]);
const ASSETS: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::text("token"),
    EventMember::amount("value"),
    EventMember::text("to"),
    EventMember::number("index"),
]);
const SCRIPT: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::flag("success"),
    EventMember::one_of("kind", &["script"]),
    EventMember::text("script"),
    EventMember::text("language"),
]);
const REDEEMER: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::flag("success"),
    EventMember::one_of("kind", &["redeemer"]),
    EventMember::text("purpose"),
    EventMember::number("index"),
    EventMember::text("script"),
    EventMember::text("redeemer"),
]);
const MINT: EventShape = EventShape::of(&[
    EventMember::text("tx_hash"),
    EventMember::flag("success"),
    EventMember::one_of("kind", &["mint"]),
    EventMember::text("script"),
    EventMember::text("token"),
    EventMember { name: "value", form: MemberForm::SignedAmount },
]);

pub(super) fn shapes(kind: EventType) -> Option<&'static [EventShape]> {
    Some(match kind {
        EventType::NewBlock => &[BLOCK],
        EventType::AddressActivity => &[ACTIVITY],
        EventType::TokenTransfer => &[ASSETS],
        EventType::ContractEvent => &[SCRIPT, REDEEMER, MINT],
        _ => return None,
    })
}
