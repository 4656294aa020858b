//! Calls that create or use state at one node, such as filters.

use super::*;
use crate::nodes::{HedgePolicy, NodeDrains, NodeUrl};
use rpcgate_core::call::Payload;
use rpcgate_core::chain::ChainName;
use rpcgate_core::tally::Transport;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A node that stores its state under ids that begin with `mark`.
async fn keeping(mark: &'static str) -> ScriptedNode {
    ScriptedNode::serve_on(tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(), keeper(mark))
}

fn keeper(
    mark: &'static str,
) -> impl Fn(usize, Wire) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send {
    let made = Arc::new(AtomicUsize::new(0));
    move |_, mut wire: Wire| {
        let made = made.clone();
        Box::pin(async move {
            while let Some(request) = wire.request().await {
                wire.write(answer(&stored(request.split_once("\r\n\r\n").unwrap().1, mark, &made))).await;
            }
        })
    }
}

fn stored(body: &str, mark: &str, made: &AtomicUsize) -> String {
    let Ok(ParsedBody::Single(Ok(call))) = parse(body.as_bytes(), &Limits::default()) else {
        panic!("such calls travel alone: {body}")
    };
    let of = |span: rpcgate_core::json::Span| std::str::from_utf8(span.of(body.as_bytes())).unwrap();
    let id = call.id.map_or("null", of);
    let params = call.params.map_or("", of);
    let answer = match call.method.text(body.as_bytes()) {
        "toy_make" => format!("\"result\":\"0x{mark}{:02x}\"", made.fetch_add(1, SeqCst)),
        "toy_use" if (0..made.load(SeqCst)).any(|n| params == format!("[\"0x{mark}{n:02x}\"]")) => {
            format!("\"result\":\"of {mark}\"")
        }
        "toy_use" => "\"error\":{\"code\":-32000,\"message\":\"unknown at the node\"}".to_owned(),
        _ => "\"result\":7".to_owned(),
    };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}")
}

const MAKE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"toy_make","params":[{"x":1}]}"#;
const NOT_FOUND: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"filter not found"}}"#;

fn using(id: &str) -> &'static str {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"toy_use","params":["{id}"]}}"#).leak()
}

/// Creates a filter, and returns its id.
async fn make(site: &Site) -> String {
    let (status, text) = site.send(MAKE).await;
    let id =
        text.strip_prefix(r#"{"jsonrpc":"2.0","id":1,"result":""#).and_then(|rest| rest.strip_suffix("\"}"));
    assert_eq!(status, 200);
    id.unwrap_or_else(|| panic!("{text}")).to_owned()
}

async fn is_at(site: &Site, id: &str, mark: &str) {
    let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"of {mark}"}}"#);
    assert_eq!(site.send(using(id)).await, (200, answer), "{id}");
}

// Shows (Nodes and cache): The calls of a filter reach the node that made it, at every gateway, after a restart and
// while the node is drained (promise 80).
#[tokio::test]
async fn a_filter_is_used_at_the_node_that_made_it_and_each_id_names_its_node() {
    let a = keeping("a").await;
    let b = keeping("b").await;
    let site = Site::new(&[&a, &b]);
    let mut ids = Vec::new();
    let mut marks = Vec::new();
    for _ in 0..8 {
        let id = make(&site).await;
        assert_eq!(id.len(), 2 + 8 + 3, "{id}");
        marks.push(if &id[10..11] == "a" { "a" } else { "b" });
        ids.push(id);
    }
    assert!(marks.contains(&"a") && marks.contains(&"b"), "both nodes make some");
    for _ in 0..3 {
        for (id, mark) in ids.iter().zip(&marks) {
            is_at(&site, id, mark).await;
        }
    }
    // Another gateway that lists the nodes in another order, and the same gateway after a restart.
    let other = Site::new(&[&b, &a]);
    for (id, mark) in ids.iter().zip(&marks) {
        is_at(&other, id, mark).await;
        let upper = format!("0x{}{}", id[2..10].to_uppercase(), &id[10..]);
        is_at(&Site::new(&[&a, &b]), &upper, mark).await;
    }
    assert!(site.lines().iter().all(|line| line.2 == Outcome::Answered && [2, 3].contains(&line.0)));
}

// Shows (Nodes and cache): An id that names no node is `filter not found` and reaches no node; one call never makes or
// reads a filter twice, and a filter is never cached (promise 80).
#[tokio::test]
async fn an_id_that_names_no_node_is_not_found_and_reaches_no_node() {
    let a = keeping("a").await;
    let b = keeping("b").await;
    let site = Site::new(&[&a, &b]);
    let id = make(&site).await;
    let only_a = Site::new(&[&a]);
    let only_b = Site::new(&[&b]);
    let gone = if &id[10..11] == "a" { &only_b } else { &only_a };
    assert_eq!(gone.send(using(&id)).await, (200, NOT_FOUND.to_owned()), "its node is gone");
    let seen = a.seen().len() + b.seen().len();
    for wrong in [
        &id[10..],
        &format!("0x{}", &id[10..]),
        &id[..10],
        "0x",
        "",
        "0xzz345678a0",
        "0x12345678a00",
        "\\u0030x1",
    ] {
        assert_eq!(site.send(using(wrong)).await, (200, NOT_FOUND.to_owned()), "{wrong}");
    }
    for params in ["[]", "[7]", "{\"id\":1}", "[null]", "[[]]"] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"toy_use","params":{params}}}"#);
        assert_eq!(site.send(call.leak()).await, (200, NOT_FOUND.to_owned()), "{params}");
    }
    let none = r#"{"jsonrpc":"2.0","id":1,"method":"toy_use"}"#;
    assert_eq!(site.send(none).await, (200, NOT_FOUND.to_owned()));
    assert_eq!(
        a.seen().len() + b.seen().len(),
        seen,
        "no node can be asked for what another client has made"
    );
    let refused: Vec<_> = site.lines().into_iter().filter(|line| line.2 == Outcome::Refused).collect();
    assert_eq!(refused, [(0, 200, Outcome::Refused); 14]);
    // A node that has forgotten the filter says so itself.
    let forgotten = format!("{}ff", &id[..10]);
    let (_, text) = site.send(using(&forgotten)).await;
    assert!(text.contains("unknown at the node"), "{text}");
}

// Shows (Nodes and cache).
#[tokio::test]
async fn the_items_of_a_batch_go_each_to_its_node_and_the_others_as_usual() {
    let a = keeping("a").await;
    let b = keeping("b").await;
    let at_a = Site::new(&[&a]);
    let at_b = Site::new(&[&b]);
    let one = make(&at_a).await;
    let two = make(&at_b).await;
    let site = Site::new(&[&a, &b]);
    let item = |n: usize, method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{n},"method":"{method}","params":[{params}]}}"#)
    };
    let uses = |n, id: &str| item(n, "toy_use", &format!("\"{id}\""));
    let batch = [
        uses(1, &one),
        uses(2, &two),
        item(3, "toy_make", ""),
        uses(4, "0x1"),
        item(5, "x", ""),
        uses(6, &two),
    ];
    let states = site.states_of(format!("[{}]", batch.join(",")).leak()).await;
    assert_eq!(states[..2], ["\"of a\"", "\"of b\""]);
    assert_eq!(states[3..], ["Refused(FilterNotFound)", "7", "\"of b\""]);
    let made = states[2].trim_matches('"').to_owned();
    let mark = if &made[10..11] == "a" { "a" } else { "b" };
    is_at(&site, &made, mark).await;
    // More calls than the number of tries that a set records.
    let many: Vec<_> = (0..100).map(|n| item(n, "toy_make", "")).collect();
    let states = site.states_of(format!("[{}]", many.join(",")).leak()).await;
    for id in &states {
        let mark = if &id[11..12] == "a" { "a" } else { "b" };
        is_at(&site, id.trim_matches('"'), mark).await;
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_drained_node_still_serves_what_it_has_made_and_makes_nothing_new() {
    let a = keeping("a").await;
    let b = keeping("b").await;
    let id = make(&Site::new(&[&a])).await;
    let drains = NodeDrains::default();
    let node = |node: &ScriptedNode| {
        let config = NodeConfig::new(node.url().parse().unwrap());
        let drain = drains.of(ChainName::new("toy"), &config.name().to_string());
        config.with_drain(drain)
    };
    let site = Site::of(Fixture::new(), PoolFixture::of(vec![node(&a), node(&b)], PoolLimits::default()));
    drains.set([("toy".to_owned(), a.url())].into());
    for _ in 0..4 {
        is_at(&site, &id, "a").await;
        assert_eq!(&make(&site).await[10..11], "b");
    }
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_stateful_call_is_never_repeated_hedged_or_sent_to_several_nodes() {
    for body in [MAKE, using("WILL_BE_SET")] {
        let silent = ScriptedNode::serve(|_, mut wire: Wire| async move {
            let _ = wire.request().await;
        })
        .await;
        let well = keeping("b").await;
        let limits = PoolLimits::default().with_broadcast_nodes(2).with_hedge(Some(HedgePolicy::default()));
        let site = Site::of(Fixture::new(), PoolFixture::with(&[silent.url(), well.url()], limits));
        let id = NodeConfig::new(silent.url().parse().unwrap()).digits;
        let id = format!("0x{}a00", std::str::from_utf8(id.as_bytes()).unwrap());
        let body: &'static str = body.replace("WILL_BE_SET", &id).leak();
        let mut failed = 0;
        for _ in 0..2 {
            let states = site.states_of(body).await;
            failed += usize::from(states == ["Broken"]);
        }
        let reached = (silent.seen().len(), well.seen().len());
        assert_eq!((failed, reached.0), (reached.0, failed), "each failed call was sent once: {body}");
        assert!(failed > 0 && failed + reached.1 == 2, "{failed} {reached:?}");
    }
}

#[tokio::test]
async fn a_node_without_http_is_not_found_by_http() {
    let a = keeping("a").await;
    let stream = NodeConfig::new(NodeUrl::parse("ws://127.0.0.1:1", Transport::Ws).unwrap());
    let id = format!("0x{}a00", std::str::from_utf8(stream.digits.as_bytes()).unwrap());
    let nodes = vec![stream, NodeConfig::new(a.url().parse().unwrap())];
    let site = Site::of(Fixture::new(), PoolFixture::of(nodes, PoolLimits::default()));
    assert_eq!(site.send(using(&id)).await, (200, NOT_FOUND.to_owned()));
}

#[tokio::test]
async fn an_unreachable_node_fails_and_is_not_reported_to_have_forgotten() {
    let gone = Refusing::new();
    let well = keeping("b").await;
    let id = NodeConfig::new(gone.url().parse().unwrap()).digits;
    let id = format!("0x{}a00", std::str::from_utf8(id.as_bytes()).unwrap());
    let site = Site::of(Fixture::new(), PoolFixture::with(&[gone.url(), well.url()], PoolLimits::default()));
    for _ in 0..3 {
        assert_eq!(site.states_of(using(&id)).await, ["Connect"]);
    }
    assert!(well.seen().is_empty());
}

#[test]
fn a_call_without_an_id_in_its_place_is_not_bound() {
    let fixture = Fixture::new();
    let calls = fixture.calls(MAKE.as_bytes());
    let entry = &calls.tally().entries[0];
    assert!(matches!(entry.call.payload, Payload::JsonRpc(_)) && entry.call.at_node.is_none());
    assert_eq!(crate::nodes::node_state::named_node(&fixture.chain, &entry.call, MAKE.as_bytes()), None);
}
