//! A call in its set, and how far it has come.

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
    /// The length of the answer that the client gets for it, in bytes; set when the answer is written.
    pub bytes_out: u32,
}

/// The progress of a call.
#[derive(Debug)]
pub enum CallState {
    /// In progress.
    Open,
    /// In progress, and a node may have received it: it is charged regardless of its outcome.
    Sent,
    /// Waiting for the answer to an identical call.
    Parked,
    /// Refused by a layer.
    Refused(Refusal),
    /// No node answered.
    Failed(Fault),
    /// Answered.
    Answered(Reply),
}

impl Entry {
    /// A new call.
    pub fn open(call: Call) -> Self {
        Entry { call, state: CallState::Open, bytes_out: 0 }
    }

    /// A call that is refused at once.
    pub fn refused(call: Call, refusal: Refusal) -> Self {
        Entry { call, state: CallState::Refused(refusal), bytes_out: 0 }
    }

    /// Whether it still has to be sent to a node.
    pub fn is_open(&self) -> bool {
        matches!(self.state, CallState::Open)
    }
}
