//! Shipments: the store takes all of one, or nothing.

use super::block::Block;
use super::fold::Folded;
use crate::journal::{GatewayId, SegmentId};

/// The usage that was read from a gateway's journal since the last shipment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shipment {
    /// Whose journal.
    pub gateway: GatewayId,
    /// The parts of it that were read.
    pub marks: Vec<Mark>,
    /// The sums of what was read.
    pub folded: Folded,
    /// The events that were read, one by one.
    pub blocks: Vec<Block>,
}

/// A part of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The segment.
    pub segment: SegmentId,
    /// Where the part begins: `to` of the last shipment of this segment. In a segment of which nothing was shipped yet
    /// it is the end of its head, or 0.
    pub from: u64,
    /// Where the part ends.
    pub to: u64,
}
