//! Turns a REST request into its one call.

use bytes::Bytes;
use http::HeaderName;
use http::header::HeaderMap;
use http::request::Parts;
use rpcgate_core::call::{Call, Entry, Payload};
use rpcgate_core::chain::{Chain, Flags};
use rpcgate_core::rest::{KEY_PARAMETERS, Path, RestCall, query_without};
use rpcgate_core::tally::Tally;
use smallvec::SmallVec;

/// Returns the call of `path`, before its body is read: without the caller's key, and with only the headers that the
/// chain's nodes read. Returns `None` if its target is too long.
pub(super) fn call(chain: &Chain, head: &Parts, path: &Path) -> Option<RestCall> {
    let adapter = chain.adapter();
    let names: SmallVec<[&str; 8]> =
        KEY_PARAMETERS.iter().copied().chain(adapter.key_sources().query).collect();
    let query = query_without(head.uri.query().unwrap_or_default(), &names);
    let mut headers = HeaderMap::new();
    for name in adapter.headers() {
        let name = HeaderName::from_static(name);
        for value in head.headers.get_all(&name) {
            headers.append(name.clone(), value.clone());
        }
    }
    let call = RestCall::new(head.method.clone(), path, &query, headers)?;
    Some(match chain.rest_name(&head.method, path) {
        Some(name) => call.named(name),
        None => call,
    })
}

/// Returns the entry of the call after its body has been read.
pub(super) fn entry(tally: &Tally, call: RestCall, body: &Bytes) -> Entry {
    let chain = &tally.chain;
    let found = match chain.listed(call.name()) {
        Some(found) => found,
        None => chain.look_up(&String::from_utf8_lossy(call.name())),
    };
    let mut call = Call::rest(call, found);
    if call.rule.flags.has(Flags::COMMANDS) {
        call.rule = chain.narrow(call.view(body, chain.name()));
    }
    // Only the final rule says whether the answer may be cached. If so, the line must distinguish the call from all
    // others.
    if call.rule.cache.is_cached()
        && let Payload::Rest(rest) = &mut call.payload
    {
        let body = sent(rest, body);
        rest.complete(&body);
    }
    Entry::open(call)
}

/// Returns the part of a request body that a node gets: nothing with an HTTP method that only reads.
pub(crate) fn sent(call: &RestCall, body: &Bytes) -> Bytes {
    if call.has_body() { body.clone() } else { Bytes::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use http::Request;
    use rpcgate_core::adapter::{Adapter, NodeStatus, Permanence, Probe};
    use rpcgate_core::cache_rule::CacheRule;
    use rpcgate_core::call::CallView;
    use rpcgate_core::chain::{Facts, Finality, Method, MethodRule};
    use rpcgate_core::rest_method::RestMethod;
    use rpcgate_core::toy::Toy;
    use std::sync::Arc;

    /// An adapter that decides by the call, and not by its method, that the answer is cached.
    #[derive(Debug)]
    struct Late;

    impl Adapter for Late {
        fn facts(&self) -> &Facts {
            Toy.facts()
        }

        fn methods(&self) -> Vec<Method> {
            vec![Method::new("view", 1).marked(Flags::COMMANDS)]
        }

        fn rest_methods(&self) -> &[RestMethod] {
            const ROWS: &[RestMethod] = &[RestMethod::get("/accounts/{address}", 7)];
            ROWS
        }

        fn narrow(&self, call: CallView<'_>) -> MethodRule {
            call.rule.cached(CacheRule::secs(2))
        }

        fn settled(&self, call: CallView<'_>, result: &[u8], finality: &Finality) -> Permanence {
            Toy.settled(call, result, finality)
        }

        fn probe(&self) -> Probe {
            Toy.probe()
        }

        fn seen(&self, answer: &[u8]) -> Option<NodeStatus> {
            Toy.seen(answer)
        }
    }

    #[test]
    fn a_call_of_a_named_path_is_metered_by_its_template_others_by_their_last_segment() {
        let fixture = Fixture { chain: Arc::new(Chain::deployed(Arc::new(Late))), ..Fixture::new() };
        for (path, name, cu) in [
            ("/accounts/0x1", "/accounts/{address}", 7),
            ("/accounts/0x2", "/accounts/{address}", 7),
            ("/accounts/0x2/assets", "assets", 1),
        ] {
            let (head, ()) = Request::get(path).body(()).unwrap().into_parts();
            let tally = fixture.tally();
            let call = call(&tally.chain, &head, &Path::canonical(path).unwrap()).unwrap();
            assert_eq!(call.target().as_str(), path);
            let entry = entry(&tally, call, &Bytes::new());
            assert_eq!((entry.call.method(b""), entry.call.rule.cu), (name.as_bytes(), cu), "{path}");
        }
    }

    #[test]
    fn calls_with_a_late_cache_class_are_distinguished_by_body_and_headers() {
        let fixture = Fixture { chain: Arc::new(Chain::deployed(Arc::new(Late))), ..Fixture::new() };
        let line = |accept: &str, body: &'static str| {
            let request = Request::post("/view").header("accept", accept).body(()).unwrap();
            let (head, ()) = request.into_parts();
            let tally = fixture.tally();
            let call = call(&tally.chain, &head, &Path::canonical("/view").unwrap()).unwrap();
            let entry = entry(&tally, call, &Bytes::from_static(body.as_bytes()));
            assert!(entry.call.rule.cache.is_cached());
            let Payload::Rest(call) = &entry.call.payload else { panic!("a REST call") };
            call.line().to_vec()
        };
        assert_ne!(line("a/b", "one"), line("a/b", "two"));
        assert_ne!(line("a/b", "one"), line("c/d", "one"));
        assert_eq!(line("a/b", "one"), line("a/b", "one"));
    }
}
