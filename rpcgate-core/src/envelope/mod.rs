//! The JSON-RPC envelope around a call or a reply, read in place.
//!
//! Versions 1.0, 1.1 and 2.0 of JSON-RPC are read in the same way. This module knows no method and no chain.

mod call;
mod members;
mod reply;
mod wire;

pub use call::{BadItem, Envelope, Item, Limits, Name, ParseError, ParsedBody, parse};
pub use reply::{Replies, ReplyId, ReplyKind, ReplyMembers, replies, reply_head, reply_id};
pub use wire::{WireId, parse_index};
