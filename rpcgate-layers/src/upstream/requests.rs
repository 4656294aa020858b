//! The requests in which the open JSON-RPC calls of a set travel to the nodes.

use super::classify::Expected;
use super::index::first_index;
use super::round::Round;
use crate::nodes::Pool;
use crate::nodes::node_set::NodeSet;
use rpcgate_core::call::Payload;
use rpcgate_core::chain::Flags;
use rpcgate_core::envelope::WireId;
use rpcgate_core::tally::Tally;
use smallvec::SmallVec;

/// One request to a node: its body, and the places of the calls in it.
pub(super) struct OutgoingRequest {
    pub(super) places: SmallVec<[usize; 1]>,
    pub(super) body: Vec<u8>,
    /// The nodes that take all of the calls.
    pub(super) among: NodeSet,
    /// Its method, if it is one call that may be hedged; empty: one that is not listed.
    pub(super) hedge: Option<&'static str>,
    pub(super) is_broadcast: bool,
    /// Whether the body is an array of calls.
    pub(super) is_array: bool,
    /// Whether the answer must be held whole.
    pub(super) is_held: bool,
}

impl OutgoingRequest {
    /// The answer that is expected from the node.
    pub(super) fn expected(&self, tally: &Tally) -> Expected {
        let is_notification = |place: &usize| tally.entries[*place].call.is_notification(&tally.body);
        match self.is_array {
            _ if self.places.iter().all(is_notification) => Expected::Nothing,
            false => Expected::Single,
            true => Expected::Array,
        }
    }
}

/// Splits the open calls into requests, in arrays of at most as many calls as the nodes of the pool take where the chain
/// takes arrays. Calls that other nodes take are in other arrays.
pub(super) fn split(pool: &Pool, tally: &Tally, round: Round) -> SmallVec<[OutgoingRequest; 1]> {
    let max_batch = pool.max_batch();
    let takes_arrays = tally.chain.facts().batch && max_batch > 1;
    let mut requests: SmallVec<[OutgoingRequest; 1]> = SmallVec::new();
    let mut open = 0;
    let mut arrays: SmallVec<[OutgoingRequest; 1]> = SmallVec::new();
    for (place, entry) in tally.entries.iter().enumerate().filter(|(_, entry)| entry.is_open()) {
        if !matches!(entry.call.payload, Payload::JsonRpc(_)) {
            continue;
        }
        open += 1;
        let among = round.takers(pool, &entry.call, &tally.body);
        let is_broadcast = entry.call.rule.flags.has(Flags::BROADCAST);
        if is_broadcast || !takes_arrays || !tally.batch {
            let mut body = Vec::with_capacity(entry.call.len() + 32);
            let id = entry.call.id(&tally.body);
            let is_notification = tally.batch && id.is_none();
            let is_odd = id.is_some_and(is_odd);
            let id = if is_notification || is_odd {
                WireId::Index(first_index(tally) + place)
            } else {
                WireId::Own
            };
            write(tally, place, id, &mut body);
            // Others may wait for an answer that can be cached, and cannot wait for a stream. The answer to a call that was
            // sent under another id has to be rewritten.
            let is_held = tally.batch || is_odd || entry.call.rule.cache.is_cached();
            let places = SmallVec::from_buf([place]);
            let hedge = if is_broadcast { None } else { hedge(tally, place, round) };
            let is_array = false;
            requests.push(OutgoingRequest { places, body, among, hedge, is_broadcast, is_array, is_held });
            continue;
        }
        let has_room = |array: &OutgoingRequest| array.among == among && array.places.len() < max_batch;
        let at = arrays.iter().rposition(has_room).unwrap_or_else(|| {
            arrays.push(OutgoingRequest {
                places: SmallVec::with_capacity((tally.entries.len() - place).min(max_batch)),
                body: Vec::with_capacity(tally.body.len() + 64),
                among,
                hedge: None,
                is_broadcast: false,
                is_array: true,
                is_held: true,
            });
            arrays.len() - 1
        });
        let array = &mut arrays[at];
        array.body.push(if array.places.is_empty() { b'[' } else { b',' });
        write(tally, place, WireId::Index(first_index(tally) + place), &mut array.body);
        array.places.push(place);
    }
    requests.extend(arrays);
    for request in requests.iter_mut().filter(|request| request.is_array) {
        if let [place] = request.places[..] {
            // Nodes answer a single call faster than an array of one, and some say more in its HTTP status.
            request.is_array = false;
            request.hedge = hedge(tally, place, round);
            request.body.clear();
            write(tally, place, WireId::Index(first_index(tally) + place), &mut request.body);
        } else {
            request.body.push(b']');
        }
    }
    debug_assert_eq!(open, requests.iter().map(|request| request.places.len()).sum::<usize>());
    requests
}

/// The method of the call at `place`, which only reads, if it may be hedged.
fn hedge(tally: &Tally, place: usize, round: Round) -> Option<&'static str> {
    round.choice.is_none().then(|| tally.entries[place].call.metered.unwrap_or_default())
}

/// Whether an id is neither a string, a number nor null (JSON-RPC 2.0, section 4). Nodes refuse such ids: geth does not accept
/// a call with an object or an array as its id.
fn is_odd(id: &[u8]) -> bool {
    matches!(id.first(), Some(b'{' | b'[' | b't' | b'f'))
}

/// Writes the call at `place` for a node.
fn write(tally: &Tally, place: usize, id: WireId<'_>, out: &mut Vec<u8>) {
    let call = &tally.entries[place].call;
    let Payload::JsonRpc(envelope) = &call.payload else { return };
    if call.rule.cache.is_cached() && !envelope.is_notification(&tally.body) {
        let version = tally.chain.facts().dialect.version();
        envelope.write_anonymous(&tally.body, version, first_index(tally) + place, out);
    } else {
        envelope.write(&tally.body, id, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::PoolLimits;
    use crate::testing::Fixture;
    use crate::testing::scripted_node::{PoolFixture, Refusing};
    use rpcgate_core::node_try::NodeChoice;

    #[tokio::test]
    async fn a_single_read_may_be_hedged_and_a_broadcast_or_an_array_may_not() {
        let fixture = PoolFixture::with(&[Refusing::new().url()], PoolLimits::default());
        let hedges = |body: &'static str, round: Round| {
            let calls = Fixture::new().calls(body.as_bytes());
            let requests = split(&fixture.pool, calls.tally(), round);
            requests.iter().map(|request| request.hedge).collect::<Vec<_>>()
        };
        let one = r#"{"id":1,"method":"toy_read"}"#;
        assert_eq!(hedges(one, Round::FIRST), [Some("toy_read")]);
        assert_eq!(hedges(r#"{"id":1,"method":"made_up"}"#, Round::FIRST), [Some("")]);
        assert_eq!(hedges(r#"{"id":1,"method":"toy_send"}"#, Round::FIRST), [None]);
        let again = Round { choice: Some(NodeChoice::Archive), ..Round::FIRST };
        assert_eq!(hedges(one, again), [None], "it was sent before");
        let array =
            r#"[{"id":1,"method":"toy_read"},{"id":2,"method":"toy_send"},{"id":3,"method":"toy_id"}]"#;
        assert_eq!(hedges(array, Round::FIRST), [None, None]);
    }
}
