use super::json_rpc;
use super::limits::ReplyLimits;
use super::rest;
use super::round::Round;
use crate::nodes::Pool;
use rpcgate_core::call::Payload;
use rpcgate_core::tally::Tally;

/// Sends the open calls of a set once, with retries, whatever their protocol.
pub(super) async fn send(pool: &Pool, tally: &mut Tally, limits: ReplyLimits, round: Round) {
    if let [entry] = &tally.entries[..]
        && matches!(entry.call.payload, Payload::Rest(_))
    {
        rest::forward(pool, tally, limits, round).await;
    } else {
        json_rpc::forward(pool, tally, limits, round).await;
    }
}
