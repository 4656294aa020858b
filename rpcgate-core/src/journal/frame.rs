//! The content of a frame, and the limits and bits of its encoding.

use crate::backend::usage_sink::{Outcome, Phase, Record};
use crate::caller::{KeyId, ProjectId, RequestId, TenantId};
use crate::clock::Time;
use crate::plan::{Price, Tier};
use crate::transport::Transport;
use std::fmt;
use std::time::Duration;

/// The largest payload of a frame, in bytes, without length and checksum.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// The maximum length of a stored method or chain name, in bytes. Longer names are cut.
pub const MAX_NAME: usize = 1_024;

/// The numbers of callers, chains and methods that get a number. Others are written out every time, which bounds the
/// memory against a flood of invented methods.
pub const TABLE: usize = 16_384;

/// The total length of the numbered names of chains, and of those of methods, in bytes.
pub(super) const TABLE_TEXT: usize = 1 << 20;

/// The length and the checksum in front of the payload, in bytes.
pub(super) const FRAME_HEAD: usize = 8;

// The bits of a payload's first byte: the phase, the transport above it, then this.
pub(super) const TRANSPORT_SHIFT: u32 = 2;
pub(super) const WINDOWED: u8 = 1 << 4;

// The bits of a line's first byte: the outcome, then these.
pub(super) const CACHED: u8 = 1 << 3;
pub(super) const STATUS: u8 = 1 << 4;
pub(super) const CALLS: u8 = 1 << 5;

/// The status of a line without an explicit one. Most lines have it.
pub(super) const USUAL_STATUS: u16 = 200;

/// The caller of a record, and the terms of its plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Party {
    /// The key.
    pub key: KeyId,
    /// The key's project.
    pub project: ProjectId,
    /// The project's tenant.
    pub tenant: TenantId,
    /// The tenant's tier at that time.
    pub tier: Tier,
    /// The price of a Compute Unit at that time.
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

/// A parsed record without its lines. `party` and `chain` are indices of its reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The part of a request or stream that it records.
    pub phase: Phase,
    /// The id of the request.
    pub request: RequestId,
    /// The caller: see [`Reader::party`](super::Reader::party).
    pub party: u32,
    /// The chain: see [`Reader::chain`](super::Reader::chain).
    pub chain: u32,
    /// The transport of the request.
    pub transport: Transport,
    /// The arrival of the request.
    pub arrival: Time,
    /// The time from arrival to answer, in whole microseconds.
    pub latency: Duration,
    /// The number of requests that the plan windows counted.
    pub windowed: u32,
}

/// A parsed line. `method` is an index of its reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventLine {
    /// The metered method: see [`Reader::method`](super::Reader::method).
    pub method: u32,
    /// Compute Units charged.
    pub cu: u32,
    /// The HTTP status that the call would have had alone.
    pub status: u16,
    /// The outcome of the call.
    pub outcome: Outcome,
    /// True if the answer came from the cache.
    pub cached: bool,
    /// The number of calls that the line sums.
    pub calls: u32,
    /// The call's part of the request's body, in bytes.
    pub bytes_in: u32,
    /// The call's part of the answer's body, in bytes.
    pub bytes_out: u32,
}

/// The error for bytes that are not a frame from a writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// The length is impossible.
    Length,
    /// The checksum does not match: the bytes changed after they were written.
    Checksum,
    /// The checksum matches, but the content has no meaning: another program wrote it, or it was moved.
    Content,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrameError::Length => "no frame has the length it says",
            FrameError::Checksum => "the frame is damaged: its checksum is wrong",
            FrameError::Content => "the frame cannot be understood",
        })
    }
}

impl std::error::Error for FrameError {}
