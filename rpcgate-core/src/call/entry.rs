//! A call in its set, and its progress.

use super::single::Call;
use crate::fault::Fault;
use crate::refusal::Refusal;
use crate::reply::Reply;

/// A call and its progress.
#[derive(Debug)]
pub struct Entry {
    /// The call.
    pub call: Call,
    /// Its progress.
    pub state: CallState,
    /// The length of the client's answer in bytes, set when the answer is written.
    pub bytes_out: u32,
}

/// The progress of a call.
#[derive(Debug)]
pub enum CallState {
    /// In progress.
    Open,
    /// In progress, and a node may have received it. It is charged regardless of its outcome.
    Sent,
    /// Waiting for the answer to an identical call.
    Parked,
    /// Refused by a layer.
    Refused(Refusal),
    /// Not answered by any node.
    Failed(Fault),
    /// Answered.
    Answered(Reply),
}

impl Entry {
    /// Creates an open call.
    pub fn open(call: Call) -> Self {
        Entry { call, state: CallState::Open, bytes_out: 0 }
    }

    /// Creates a call that is refused at once.
    pub fn refused(call: Call, refusal: Refusal) -> Self {
        Entry { call, state: CallState::Refused(refusal), bytes_out: 0 }
    }

    /// Reports whether the call still has to be sent to a node.
    pub fn is_open(&self) -> bool {
        matches!(self.state, CallState::Open)
    }
}
