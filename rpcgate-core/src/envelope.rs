//! JSON-RPC envelopes of calls and replies, parsed in place.
//!
//! Versions 1.0, 1.1 and 2.0 are parsed in the same way. This module knows no method and no chain.

mod call;
mod members;
mod reply;
mod reply_stream;
mod wire;

pub use call::{BadItem, Envelope, Item, Limits, Name, ParseError, ParsedBody, parse};
pub use reply::{Replies, ReplyId, ReplyKind, ReplyMembers, replies, reply_head, reply_id};
pub use reply_stream::{ReplyPart, ReplyParts, ReplyStream};
pub use wire::{ReplyNumber, WireId, parse_index, read_number, reply_number};
