//! The WebSocket of Ogmios: the methods that it has over HTTP, and those that need a session. A client follows the chain
//! with `findIntersection` and `nextBlock`; at the tip, `nextBlock` is answered when the next block comes.
//!
//! The state of the ledger is always that of the tip: acquiring an older point succeeds and changes nothing.

use super::chain::{Chain, FIRST};
use super::{CardanoNode, invalid};
use crate::envelope::{Fault, Request};
use crate::json::{Json, object};
use crate::json_rpc::JsonRpc;
use crate::stream::{PUSHES, Sessions, StreamCall, StreamNode, StreamRpc, answer};
use rpcgate_core::clock::Time;
use serde_json::Value;
use std::collections::VecDeque;

/// The maximum number of waiting `nextBlock` calls of one client. The official client sends 100 at once.
const WAITING: usize = 1_000;
/// The number of newest blocks whose state can be acquired: the security parameter.
const ACQUIRED: u64 = 2_160;

/// The position of one client in the chain.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// The height of the last block that was sent to the client; `None` for the origin.
    told: Option<u64>,
    /// `true` once the first answer has reported the position to the client.
    is_placed: bool,
    /// The ids of the calls that wait for a block.
    waiting: VecDeque<Option<String>>,
}

impl Session {
    /// Returns the answer to `nextBlock`, if there is one at this time.
    fn next_block(&mut self, chain: &Chain) -> Option<Json> {
        let tip = chain.tip_with_height();
        if !self.is_placed {
            self.is_placed = true;
            let point = self.told.map_or_else(|| "origin".into(), |height| chain.point(height));
            return Some(object! { "direction": "backward", "point": point, "tip": tip });
        }
        let next = self.next();
        if next > chain.head {
            return None;
        }
        self.told = Some(next);
        Some(object! { "direction": "forward", "block": chain.block(next), "tip": tip })
    }

    fn next(&self) -> u64 {
        self.told.map_or(FIRST, |height| height + 1)
    }
}

/// Reads a point: the height of its block, or `None` for the origin.
fn point(chain: &Chain, value: &Value) -> Result<Option<Option<u64>>, Fault> {
    if value == "origin" {
        return Ok(Some(None));
    }
    let id = value["id"].as_str().and_then(|id| hex::decode(id).ok()).and_then(|id| id.try_into().ok());
    match (value["slot"].as_u64(), id) {
        (Some(slot), Some(id)) => Ok(chain.height_of(slot, &id).map(Some)),
        _ => Err(invalid("malformed point: a slot and an id, or \"origin\", are expected")),
    }
}

impl Chain {
    fn tip_with_height(&self) -> Json {
        let mut tip = self.tip();
        tip.put("height", self.head);
        tip
    }

    /// Moves a client to the first of its points that is in the chain.
    fn find_intersection(&self, session: &mut Session, params: &Value) -> Result<Json, Fault> {
        let origin = [Value::from("origin")];
        let points = match &params["points"] {
            Value::Null => &origin[..],
            Value::Array(points) => points,
            _ => return Err(invalid("field 'points' must be a list")),
        };
        for candidate in points {
            if let Some(height) = point(self, candidate)? {
                (session.told, session.is_placed) = (height, false);
                let shown = height.map_or_else(|| "origin".into(), |height| self.point(height));
                return Ok(object! { "intersection": shown, "tip": self.tip_with_height() });
            }
        }
        let data = object! { "tip": self.tip_with_height() };
        Err(Fault { code: 1_000, message: "No intersection found.".into(), data: Some(data) })
    }

    fn acquire(&self, params: &Value) -> Result<Json, Fault> {
        let height = point(self, &params["point"])?.flatten();
        match height.filter(|height| height + ACQUIRED > self.head) {
            Some(height) => Ok(object! { "acquired": "ledgerState", "point": self.point(height) }),
            None => Err(Fault {
                code: 2_000,
                message: "Failed to acquire requested point.".into(),
                data: Some("Target point is too old.".into()),
            }),
        }
    }
}

impl StreamRpc for CardanoNode {
    fn stream_call(
        &mut self,
        session: &mut Session,
        request: &Request,
        method: &str,
        params: Value,
        _: Time,
    ) -> StreamCall<Fault> {
        match method {
            "findIntersection" => StreamCall::Answer(self.chain.find_intersection(session, &params)),
            "nextBlock" => {
                let next = if session.waiting.is_empty() { session.next_block(&self.chain) } else { None };
                match next {
                    Some(next) => StreamCall::Answer(Ok(next)),
                    None if session.waiting.len() >= WAITING => {
                        StreamCall::Answer(Err(invalid("too many requests wait for a block")))
                    }
                    None => {
                        session.waiting.push_back(request.id.clone());
                        StreamCall::Later
                    }
                }
            }
            "acquireLedgerState" => StreamCall::Answer(self.chain.acquire(&params)),
            "releaseLedgerState" => StreamCall::Answer(Ok(object! { "released": "ledgerState" })),
            _ => StreamCall::Ordinary(params),
        }
    }
}

impl StreamNode for CardanoNode {
    type Session = Session;

    fn sessions(&mut self) -> &mut Sessions<Session> {
        &mut self.sessions
    }

    fn receive(&mut self, session: &mut Session, message: &[u8], now: Time, out: &mut Vec<String>) {
        // Blocks for waiting calls precede the answers to later calls.
        self.push(session, now, out);
        answer(self, session, message, now, out);
    }

    fn push(&mut self, session: &mut Session, _: Time, out: &mut Vec<String>) {
        while out.len() < PUSHES && !session.waiting.is_empty() {
            let Some(next) = session.next_block(&self.chain) else { break };
            let id = session.waiting.pop_front().flatten();
            let request = Request { object: true, id, method: "nextBlock".into(), params: Value::Null };
            let mut text = String::new();
            CardanoNode::write(&request, Ok(next), &mut text);
            out.push(text);
        }
    }

    fn next_push(&mut self, session: &mut Session, now: Time) -> Option<Time> {
        if session.waiting.is_empty() {
            return None;
        }
        let is_late = !session.is_placed || session.next() <= self.chain.height(now);
        Some(if is_late { now } else { self.chain.time(session.next()) })
    }

    /// Ogmios sends only answers to requests.
    fn rewind(&mut self, _: &mut Session) {}
}

#[cfg(test)]
mod tests;
