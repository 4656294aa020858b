//! From a REST request to the one call that it is.

use bytes::Bytes;
use http::HeaderName;
use http::header::HeaderMap;
use http::request::Parts;
use rpcgate_core::call::{Call, Entry};
use rpcgate_core::chain::{Chain, Flags};
use rpcgate_core::rest::{KEY_PARAMETERS, Path, RestCall, query_without};
use rpcgate_core::tally::Tally;
use smallvec::SmallVec;

/// The call of `path`, its body still to come: without the caller's key, with those of its headers that the chain's
/// nodes read. `None` if it is too long for a target.
pub(super) fn call(chain: &Chain, head: &Parts, path: &Path) -> Option<RestCall> {
    let adapter = chain.adapter();
    let names: SmallVec<[&str; 8]> =
        KEY_PARAMETERS.iter().copied().chain(adapter.key_places().query).collect();
    let query = query_without(head.uri.query().unwrap_or_default(), &names);
    let mut headers = HeaderMap::new();
    for name in adapter.headers() {
        let name = HeaderName::from_static(name);
        for value in head.headers.get_all(&name) {
            headers.append(name.clone(), value.clone());
        }
    }
    RestCall::new(head.method.clone(), path, &query, headers)
}

/// The call at the start of its way, now that its body is there.
pub(super) fn entry(tally: &Tally, call: RestCall, body: &Bytes) -> Entry {
    let chain = &tally.chain;
    let found = match chain.listed(call.name()) {
        Some(found) => found,
        None => chain.look_up(&String::from_utf8_lossy(call.name())),
    };
    let call = if found.rule.cache.is_cached() {
        let body = sent(&call, body);
        call.in_full(&body)
    } else {
        call
    };
    let mut call = Call::rest(call, found);
    if call.rule.flags.has(Flags::COMMANDS) {
        call.rule = chain.adapter().narrow(call.view(body, chain.name()));
    }
    Entry::open(call)
}

/// What a node gets of a request's body: whoever only reads has none.
pub(crate) fn sent(call: &RestCall, body: &Bytes) -> Bytes {
    if call.has_body() { body.clone() } else { Bytes::new() }
}
