//! What a frame says, and the numbers that stand for its words.

use crate::backend::usage_sink::{Outcome, Phase, Record};
use crate::caller::{KeyId, ProjectId, RequestId, TenantId};
use crate::clock::Time;
use crate::plan::{Price, Tier};
use crate::tally::Transport;
use std::fmt;
use std::time::Duration;

/// The most bytes that a frame holds after its length and checksum.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// The most bytes of a method's or a chain's name that are kept.
pub const MAX_NAME: usize = 1_024;

/// How many callers, chains and methods get a number, of each. What comes later is written out every time, so that
/// a flood of made-up methods costs neither the writer nor the reader more memory than this.
pub const TABLE: usize = 16_384;

/// How many bytes the names that have a number have together, of chains and of methods.
pub(super) const TABLE_TEXT: usize = 1 << 20;

/// Length and checksum of the payload, in front of it.
pub(super) const FRAME_HEAD: usize = 8;

// The bits of a payload's first byte: the phase, the transport above it, then this.
pub(super) const TRANSPORT_SHIFT: u32 = 2;
pub(super) const WINDOWED: u8 = 1 << 4;

// The bits of a line's first byte: the outcome, then these.
pub(super) const CACHED: u8 = 1 << 3;
pub(super) const STATUS: u8 = 1 << 4;
pub(super) const CALLS: u8 = 1 << 5;

/// What a line has where it gives none: most have.
pub(super) const USUAL_STATUS: u16 = 200;

/// Who called, and on what terms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Party {
    /// Whose key.
    pub key: KeyId,
    /// The key's project.
    pub project: ProjectId,
    /// The project's tenant.
    pub tenant: TenantId,
    /// The tenant's tier at the time.
    pub tier: Tier,
    /// The price of a Compute Unit at the time.
    pub price: Price,
}

impl From<&Record<'_>> for Party {
    fn from(record: &Record<'_>) -> Self {
        Party {
            key: record.key,
            project: record.project,
            tenant: record.tenant,
            tier: record.tier,
            price: record.price,
        }
    }
}

/// A record as it was read, without its lines. Its `party` and `chain` are numbers for the reader that it is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What part of a life it tells.
    pub phase: Phase,
    /// The request.
    pub request: RequestId,
    /// Who called: see [`Reader::party`](super::Reader::party).
    pub party: u32,
    /// The chain: see [`Reader::chain`](super::Reader::chain).
    pub chain: u32,
    /// How it came.
    pub transport: Transport,
    /// When it came.
    pub arrival: Time,
    /// From its arrival to its answer, in whole microseconds.
    pub latency: Duration,
    /// As how many requests it was counted in the plan windows.
    pub windowed: u32,
}

/// A line as it was read. Its `method` is a number for the reader that it is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventLine {
    /// The metered method: see [`Reader::method`](super::Reader::method).
    pub method: u32,
    /// Compute Units charged.
    pub cu: u32,
    /// The HTTP status the call would have had alone.
    pub status: u16,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether no node was asked for it.
    pub cached: bool,
    /// How many calls the line stands for.
    pub calls: u32,
    /// Its part of the request's body, in bytes.
    pub bytes_in: u32,
    /// Its part of the answer's body, in bytes.
    pub bytes_out: u32,
}

/// Bytes that are no frame as a writer leaves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Torn {
    /// It says a length that no frame has.
    Length,
    /// They are not what was written.
    Checksum,
    /// They are what was written, and say nothing: their writer was another program, or they stand elsewhere than
    /// where they were written.
    Content,
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Torn::Length => "no frame has the length it says",
            Torn::Checksum => "the frame is damaged: its checksum is wrong",
            Torn::Content => "the frame cannot be understood",
        })
    }
}

impl std::error::Error for Torn {}
