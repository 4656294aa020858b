//! Shipments of usage, which a store accepts as a whole or not at all.

use super::block::Block;
use super::fold::HourlySums;
use crate::journal::{GatewayId, SegmentId};

/// The usage from a gateway's journal since the last shipment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shipment {
    /// The gateway that wrote the journal.
    pub gateway: GatewayId,
    /// The parts of the journal that were read.
    pub marks: Vec<Mark>,
    /// The sums of these parts.
    pub folded: HourlySums,
    /// The single events of these parts.
    pub blocks: Vec<Block>,
}

/// A part of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The segment.
    pub segment: SegmentId,
    /// The start of the part: `to` of the segment's last shipment, or else the end of its header or 0.
    pub from: u64,
    /// The end of the part.
    pub to: u64,
}
