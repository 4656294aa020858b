//! Tests of the stacks: their order, and their inputs and outputs.

use super::*;
use crate::request::admit::{Admission, Admit};
use crate::request::message::Received;
use crate::request::route::{RouteMatch, route};
use crate::testing::{Fixture, ScriptedService, set};
use http::{Method, Request};
use rpcgate_core::backend::usage_sink::{Outcome, Phase};
use rpcgate_core::call::CallState;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Transport;
use tower_service::Service;

mod streams;

/// Returns the layers that a function of `stack.rs` mounts, in order.
fn layers(stack: &str) -> Vec<&'static str> {
    let source = include_str!("../stack.rs");
    let body = source.split(&format!("pub fn {stack}")).nth(1).unwrap();
    let body = body.split("let layers = (").nth(1).unwrap().split("\n}\n").next().unwrap();
    let mut named = Vec::new();
    for line in body.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if let Some((layer, _)) = line.split_once("Layer::") {
            named.push(layer);
        }
    }
    named
}

#[test]
fn a_stream_meets_its_layers_in_the_order_of_the_calls_of_http() {
    let all = layers("call_stack");
    for part in ["handshake_stack", "message_stack"] {
        let own = layers(part);
        let places: Vec<_> = own.iter().map(|layer| all.iter().position(|other| other == layer)).collect();
        assert!(!own.is_empty() && places.is_sorted() && places.iter().all(Option::is_some), "{part}");
    }
    assert!(!layers("message_stack").iter().any(|layer| ["Window", "Quota", "Cache"].contains(layer)));
}

const KEY: &str = "secret";

/// Routes gRPC calls: a call names a service of its chain's package, here that of the toy chain.
fn route_service(chains: &Chains, _: &Method, path: &str) -> RouteMatch {
    let is_toy = path.starts_with("/toy.");
    route(chains, &Method::POST, if is_toy { "/toy" } else { "/" })
}

async fn admit(fixture: &Fixture, entrance: Entrance, path: &str, key: &str) -> Admission<()> {
    let request = Request::get(path).header("apikey", key).body(()).unwrap();
    let received = Received::now(request, &*fixture.clock);
    let Ok(admission) = admission_stack(&fixture.parts(), entrance, Admit).call(received).await;
    admission
}

const GRPC: Entrance = Entrance::new(Transport::Grpc, route_service);

#[tokio::test]
async fn a_handshake_and_a_grpc_call_are_admitted_with_their_transport_in_the_tally() {
    let fixture = Fixture::new();
    for (entrance, path, transport) in
        [(Entrance::WS, "/ws/toy", Transport::Ws), (GRPC, "/toy.Service/Read", Transport::Grpc)]
    {
        let admitted = admit(&fixture, entrance, path, KEY).await.unwrap();
        assert_eq!((admitted.tally.transport, admitted.tally.caller.key), (transport, fixture.caller.key));
        assert_eq!(admitted.tally.chain.name(), fixture.chain.name());
    }
    assert!(fixture.sink.records().is_empty(), "unused requests are not recorded");
}

#[tokio::test]
async fn their_refusals_are_returned_unchanged_and_recorded_under_their_transport() {
    let fixture = Fixture::with_caller(|caller| caller.suspended = true);
    for (entrance, path, other) in
        [(Entrance::WS, "/ws/toy", Refusal::NoStream), (GRPC, "/toy.Service/Read", Refusal::NoRoute)]
    {
        let refusal = async |path, key| admit(&fixture, entrance, path, key).await.unwrap_err().refusal;
        assert_eq!(refusal("/elsewhere", KEY).await, other);
        assert_eq!(refusal(path, "another").await, Refusal::InvalidKey);
        assert_eq!(refusal(path, KEY).await, Refusal::Suspended);
    }
    let records = fixture.sink.records();
    let seen: Vec<_> =
        records.iter().map(|record| (record.transport, record.phase, record.lines[0].outcome)).collect();
    assert_eq!(
        seen,
        [
            (Transport::Ws, Phase::Begin, Outcome::Refused),
            (Transport::Grpc, Phase::Complete, Outcome::Refused)
        ],
        "a handshake that was refused is no call"
    );
}

#[tokio::test]
async fn a_grpc_call_takes_the_call_stack_without_http() {
    let fixture = Fixture::new();
    let mut stack = call_stack(&fixture.parts(), ScriptedService::default());
    for (method, is_answered) in [("toy_read", true), ("admin_stop", false)] {
        let admitted = admit(&fixture, GRPC, "/toy.Service/Read", KEY).await.unwrap();
        let body = format!(r#"{{"id":1,"method":"{method}"}}"#);
        let Ok(calls) = stack.call(set(admitted.tally, body.into())).await;
        let state = &calls.tally().entries[0].state;
        assert_eq!(matches!(state, CallState::Answered(_)), is_answered, "{method}: {state:?}");
    }
    let records = fixture.sink.records();
    let seen: Vec<_> = records.iter().map(|r| (r.transport, r.windowed, r.lines[0].cu > 0)).collect();
    assert_eq!(seen, [(Transport::Grpc, 1, true), (Transport::Grpc, 1, false)]);
}
