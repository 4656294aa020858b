//! The network of a node, read from simulated nodes of every chain.

#![expect(clippy::expect_used, reason = "all of this is a test: what goes wrong fails it")]

use rpcgate_chains::{by_path, catalog};
use rpcgate_core::adapter::{Adapter, NetworkProbe, Probe};
use rpcgate_core::clock::Time;
use rpcgate_core::envelope::{Replies, replies};
use rpcgate_core::json::DEEPEST;
use rpcgate_simulate::{SimulatedRequest, node};

const NOW: Time = Time::from_secs(1_800_000_000);

/// Returns the answer of a chain's simulated node to this probe: the `result`, or the body of a REST answer.
fn answered(adapter: &dyn Adapter, probe: Probe) -> Vec<u8> {
    let facts = adapter.facts();
    let get = http::Method::GET;
    let post = http::Method::POST;
    let mut node = node(facts.name.as_str(), 7).expect("every chain is simulated");
    let mut ask = |method: &http::Method, path: &str, body: &[u8]| {
        node.handle(&SimulatedRequest { method, path, body }, NOW).body
    };
    match probe {
        Probe::Rest { target, body: None } => ask(&get, target, b""),
        Probe::Rest { target, body: Some(body) } => ask(&post, target, body.as_bytes()),
        Probe::Rpc { method, params } => {
            let version = facts.dialect.version().map(|version| format!(r#""jsonrpc":{version},"id":1,"#));
            let params = if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
            let call = format!(r#"{{{}"method":"{method}"{params}}}"#, version.unwrap_or_default());
            let body = ask(&post, adapter.rpc_path().unwrap_or("/"), call.as_bytes());
            let Ok(Replies::Single(reply)) = replies(&body, DEEPEST) else {
                panic!("{}: {}", facts.name, String::from_utf8_lossy(&body))
            };
            reply.result.expect("a result").of(&body).to_vec()
        }
    }
}

fn network(adapter: &dyn Adapter) -> NetworkProbe {
    adapter.network().unwrap_or_else(|| panic!("{}", adapter.facts().name))
}

// Shows (Nodes and cache).
#[test]
fn a_node_of_every_chain_shows_that_it_belongs_to_its_network() {
    for adapter in catalog() {
        let network = network(&*adapter);
        let answer = answered(&*adapter, network.probe);
        let shown = String::from_utf8_lossy(&answer);
        assert_eq!(network.shown(&answer), Ok(()), "{}: {shown}", adapter.facts().name);
    }
}

// Shows (Nodes and cache).
#[test]
fn a_node_of_another_network_of_the_same_software_is_distinguished() {
    for family in
        [&["eth", "bsc", "polygon", "avax"][..], &["btc", "bch"], &["ltc", "doge", "dash", "liquid"]]
    {
        for own in family {
            for other in family.iter().filter(|other| *other != own) {
                let own = by_path(own).expect("a chain");
                let other = by_path(other).expect("a chain");
                let network = network(&*own);
                let found = network.shown(&answered(&*other, network.probe));
                assert!(matches!(found, Err(Some(_))), "{}: {found:?}", own.facts().name);
            }
        }
    }
}

// Shows (Nodes and cache).
#[test]
fn an_answer_without_a_network_does_not_count_as_another_network() {
    for adapter in catalog() {
        for answer in ["null", "{}", "[]", "\"", "", "\"ok\"", "\"answer to [0]\"", "{\"blockID\":\"x\"}"] {
            let found = network(&*adapter).shown(answer.as_bytes());
            assert!(matches!(found, Err(None)), "{} {answer}: {found:?}", adapter.facts().name);
        }
    }
}
