//! Several nodes of a chain behave like one good node.

use crate::*;
use rpcgate_tests::fault::{FaultProxy, Mode};

async fn watching(chain: &str, nodes: &[&str]) -> TestGateway {
    let setup = Setup::new().set(&format!("chains.{chain}"), "probe_interval = \"100ms\"");
    nodes.iter().fold(setup, |setup, url| setup.node(chain, url)).start().await
}

fn standings(gateway: &TestGateway) -> Vec<String> {
    gateway.server.nodes().into_iter().map(|node| node.standing).collect()
}

async fn stand(gateway: &TestGateway, expected: &[&str]) {
    until(&format!("nodes stand {expected:?}"), || standings(gateway) == expected).await;
}

/// Makes calls, which must all be answered, and returns the number at each node.
async fn asked(gateway: &TestGateway, chain: &str, nodes: &[&Node]) -> Vec<usize> {
    let before: Vec<_> = nodes.iter().map(|node| node.count("m")).collect();
    let client = gateway.client();
    for _ in 0..12 {
        assert_eq!(client.call(chain, "m", "[]").await.json()["result"], "ok");
    }
    nodes.iter().zip(before).map(|(node, before)| node.count("m") - before).collect()
}

#[tokio::test]
async fn a_lagging_node_is_not_used_until_it_has_caught_up_in_every_family() {
    for (chain, utxo) in [("eth", false), ("btc", true), ("near", false)] {
        let (one, two) = if utxo {
            (Node::utxo().await, Node::utxo().await)
        } else {
            (Node::evm().await, Node::evm().await)
        };
        if chain == "near" {
            for (node, height) in [(&one, 1_000_000), (&two, 999_900)] {
                node.result("status", &near_status(height));
            }
        } else {
            two.height(999_900);
        }
        let gateway = watching(chain, &[&one.url(), &two.url()]).await;
        stand(&gateway, &["well", "behind"]).await;
        assert_eq!(gateway.server.nodes()[1].lag, Some(100), "{chain}");
        assert!(gateway.server.nodes()[1].reason.starts_with("100 blocks behind;"), "{chain}");
        assert_eq!(asked(&gateway, chain, &[&one, &two]).await, [12, 0], "{chain}");
        if chain == "near" {
            two.result("status", &near_status(1_000_000));
        } else {
            two.height(1_000_000);
        }
        stand(&gateway, &["well", "well"]).await;
        assert!(asked(&gateway, chain, &[&one, &two]).await.iter().all(|count| *count > 0), "{chain}");
    }
}

fn near_status(height: u64) -> String {
    format!(r#"{{"sync_info":{{"latest_block_height":{height},"syncing":false}}}}"#)
}

#[tokio::test]
async fn a_lying_node_and_a_silent_node_do_not_make_an_honest_node_look_behind() {
    let liar = Node::evm().await;
    let silent = Node::evm().await;
    let honest = Node::evm().await;
    liar.height(9_000_000_000);
    let proxy = FaultProxy::start(silent.addr()).await.unwrap();
    proxy.set(Mode::Garbage);
    let gateway = watching("eth", &[&liar.url(), &proxy.url(), &honest.url()]).await;
    stand(&gateway, &["well", "silent", "well"]).await;
    assert_eq!(gateway.server.nodes()[2].lag, Some(0));
    assert!(asked(&gateway, "eth", &[&liar, &silent, &honest]).await[2] > 0);
}

#[tokio::test]
async fn a_node_at_height_0_is_not_used_while_another_is_available() {
    let empty = Node::evm().await;
    let full = Node::evm().await;
    empty.height(0);
    let gateway = watching("eth", &[&empty.url(), &full.url()]).await;
    stand(&gateway, &["syncing", "well"]).await;
    assert_eq!(asked(&gateway, "eth", &[&empty, &full]).await, [0, 12]);
}

#[tokio::test]
async fn the_node_least_behind_serves_the_calls_if_none_is_healthy() {
    let reference = Node::evm().await;
    let worse = Node::evm().await;
    let bad = Node::evm().await;
    worse.height(900_000);
    bad.height(950_000);
    let proxy = FaultProxy::start(reference.addr()).await.unwrap();
    let gateway = watching("eth", &[&proxy.url(), &worse.url(), &bad.url()]).await;
    stand(&gateway, &["well", "behind", "well"]).await;
    let other = Node::evm().await;
    drop(other);
    worse.height(0);
    bad.height(0);
    proxy.set(Mode::RefuseNew);
    proxy.reset_open();
    until("none is well", || !standings(&gateway).contains(&"well".to_owned())).await;
    let counts = asked(&gateway, "eth", &[&reference, &worse, &bad]).await;
    assert_eq!((counts[0], counts.iter().sum::<usize>()), (0, 12));
}

#[tokio::test]
async fn a_fallback_is_used_only_while_no_preferred_node_is_healthy() {
    let primary = Node::evm().await;
    let fallback = Node::evm().await;
    let proxy = FaultProxy::start(primary.addr()).await.unwrap();
    let gateway = Setup::new()
        .set("chains.eth", "probe_interval = \"100ms\"")
        .node_with("eth", &fallback.url(), "priority = 1")
        .node("eth", &proxy.url())
        .start()
        .await;
    let both = [&primary, &fallback];
    assert_eq!(asked(&gateway, "eth", &both).await, [12, 0]);
    proxy.set(Mode::RefuseNew);
    proxy.reset_open();
    assert_eq!(asked(&gateway, "eth", &both).await, [0, 12], "at once, and no call is lost");
    proxy.set(Mode::Pass);
    gateway.pass(60);
    until("the primary is back", || standings(&gateway) == ["well", "well"]).await;
    assert_eq!(asked(&gateway, "eth", &both).await, [12, 0]);
}

#[tokio::test]
async fn a_gateway_starts_with_any_reachable_node() {
    let dead = Node::evm().await;
    let alive = Node::evm().await;
    let url = dead.url();
    drop(dead);
    let gateway = watching("eth", &[&url, &alive.url()]).await;
    let client = gateway.client();
    assert_eq!(client.call("eth", "m", "[]").await.json()["result"], "ok");
    stand(&gateway, &["unreachable", "well"]).await;
    assert!(gateway.server.nodes()[0].reason.starts_with("no connection"));
}

#[tokio::test]
async fn a_node_that_fails_five_times_in_a_row_is_ejected_and_tried_again_later() {
    let bad = Node::evm().await;
    let good = Node::evm().await;
    let gateway = Setup::of("eth", &bad.url()).node("eth", &good.url()).start().await;
    bad.always(Raw { status: 502, ..Raw::default() });
    let client = gateway.client();
    for _ in 0..20 {
        assert_eq!(client.call("eth", "m", "[]").await.json()["result"], "ok", "asked again elsewhere");
    }
    assert_eq!((bad.requests(), standings(&gateway)), (1, vec!["well".to_owned(), "well".to_owned()]));
    // All further calls to it are trials.
    for _ in 0..4 {
        gateway.pass(40);
        assert_eq!(client.call("eth", "m", "[]").await.json()["result"], "ok", "asked again elsewhere");
    }
    assert_eq!(standings(&gateway), ["ejected", "well"]);
    assert_eq!(bad.requests(), 5);
    bad.whole(|_| None);
    for _ in 0..3 {
        gateway.pass(40);
        assert!(asked(&gateway, "eth", &[&bad, &good]).await[0] > 0);
    }
    assert_eq!(standings(&gateway), ["well", "well"]);
}

#[tokio::test]
async fn no_call_can_eject_a_node_from_its_pool() {
    let one = Node::evm().await;
    let two = Node::evm().await;
    let gateway = Setup::of("cosmos", &one.url()).node("cosmos", &two.url()).start().await;
    let client = gateway.client();
    let page = Raw { status: 200, headers: vec![("content-type", "text/html")], body: b"<html>".to_vec() };
    let moved = Raw { status: 301, headers: vec![("location", "/elsewhere")], ..Raw::default() };
    for (raw, status) in [(page.clone(), 502), (Raw { status: 404, ..page }, 404), (moved, 502)] {
        one.always(raw.clone());
        two.always(raw.clone());
        for _ in 0..6 {
            let reply = client.send("GET", "/cosmos/swagger/index", &[], b"").await;
            assert_eq!(reply.status, status, "{raw:?}");
        }
        assert_eq!(standings(&gateway), ["well", "well"], "{raw:?}");
    }
    let gateway = Setup::of("eth", &one.url()).node("eth", &two.url()).start().await;
    let too_large =
        Raw { status: 413, headers: vec![("content-type", "text/plain")], body: b"too large".to_vec() };
    one.always(too_large.clone());
    two.always(too_large);
    let client = gateway.client();
    for _ in 0..6 {
        assert_eq!(client.call("eth", "m", "[]").await.code(), -32603);
    }
    assert_eq!(standings(&gateway), ["well", "well"]);
}

#[tokio::test]
async fn a_node_that_sends_retry_after_is_not_used_until_then() {
    let busy = Node::evm().await;
    let good = Node::evm().await;
    let gateway = Setup::of("eth", &busy.url()).node("eth", &good.url()).start().await;
    busy.always(Raw { status: 429, headers: vec![("retry-after", "7")], ..Raw::default() });
    let client = gateway.client();
    for _ in 0..10 {
        assert_eq!(client.call("eth", "m", "[]").await.json()["result"], "ok");
    }
    assert_eq!((standings(&gateway), busy.requests()), (vec!["ejected".into(), "well".into()], 1));
    busy.whole(|_| None);
    gateway.pass(6);
    assert_eq!(asked(&gateway, "eth", &[&busy, &good]).await, [0, 12]);
    // After its pause it gets one trial a second until it has proved useful.
    gateway.pass(2);
    client.call("eth", "m", "[]").await;
    gateway.pass(2);
    assert!(asked(&gateway, "eth", &[&busy, &good]).await[0] > 0);
}

#[tokio::test]
async fn rest_chains_have_the_same_pools() {
    let latest = |height: u64| {
        Raw::json(200, format!(r#"{{"block":{{"header":{{"height":"{height}"}}}},"result":"ok"}}"#))
    };
    let one = Node::evm().await;
    let two = Node::evm().await;
    one.always(latest(1_000));
    two.always(latest(900));
    let gateway = watching("cosmos", &[&one.url(), &two.url()]).await;
    stand(&gateway, &["well", "behind"]).await;
    let client = gateway.client();
    let path = "/cosmos/cosmos/bank/v1beta1/params";
    for _ in 0..6 {
        assert_eq!(client.send("GET", path, &[], b"").await.json()["result"], "ok");
    }
    let served = |node: &Node| node.seen().iter().filter(|seen| seen.target.ends_with("/params")).count();
    assert_eq!((served(&one), served(&two)), (6, 0));
    one.always(Raw { status: 503, ..Raw::default() });
    assert_eq!(client.send("GET", path, &[], b"").await.json()["result"], "ok", "a read goes elsewhere");
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_client_that_sends_the_height_that_it_has_seen_is_never_shown_an_older_head() {
    let behind = Node::evm().await;
    let ahead = Node::evm().await;
    behind.height(100);
    ahead.height(103);
    let gateway = watching("eth", &[&behind.url(), &ahead.url()]).await;
    let heights = || gateway.server.nodes().into_iter().map(|node| node.height).collect::<Vec<_>>();
    until("the heights are known", || heights() == [Some(100), Some(103)]).await;
    let client = gateway.client();
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"m","params":[]}"#;
    let send = async |seen: &str| client.send("POST", "/eth", &[("x-rpcgate-consistency", seen)], call).await;
    for _ in 0..10 {
        let reply = send("101").await;
        assert_eq!((reply.status, reply.header("x-rpcgate-head")), (200, Some("103")));
    }
    assert_eq!((behind.count("m"), ahead.count("m")), (0, 10));
    assert!(send("0").await.header("x-rpcgate-head").is_some());
    assert_eq!(client.call("eth", "m", "[]").await.header("x-rpcgate-head"), None, "it was not asked for");
    assert_eq!(send("latest").await.status, 400);
    let charged = gateway.charged();
    let refused = send("104").await;
    assert_eq!((refused.status, refused.code(), refused.number("retry-after")), (503, -32603, 1));
    assert_eq!(gateway.charged(), charged);
    ahead.height(104);
    let reply = send("104").await;
    assert_eq!((reply.status, reply.header("x-rpcgate-head")), (200, Some("104")));
}

// Shows (Nodes and cache).
#[tokio::test]
async fn reads_of_several_clients_travel_to_a_node_in_one_request_and_are_counted() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .set("chains.eth.batching", "enabled = true\nwait = \"1s\"\nmax_calls = 4\ntimeout = \"60s\"")
        .set("telemetry", "listen = \"127.0.0.1:0\"");
    let gateway = setup.start().await;
    let calls = (0..8).map(|n| {
        let client = gateway.client();
        async move { client.call("eth", "eth_getBalance", &format!(r#"["0x{n:040}","latest"]"#)).await }
    });
    for reply in futures_util::future::join_all(calls).await {
        let json = reply.json();
        assert_eq!(reply.status, 200);
        assert_eq!(json["result"], "ok");
        assert_eq!(json["id"], 1_000, "its own");
    }
    assert_eq!((gateway.lines().len(), node.count("eth_getBalance")), (8, 8));
    let metrics = TestClient::new(gateway.server.metrics_addr().unwrap(), None);
    let page = metrics.send("GET", "/metrics", &[], b"").await.text();
    let count = |name: &str| {
        let name = format!("rpcgate_node_{name}_total{{chain=\"eth\"}} ");
        let value = page.lines().find_map(|line| line.strip_prefix(&name));
        value.and_then(|value| value.parse::<u64>().ok()).unwrap_or_else(|| panic!("{name}: {page}"))
    };
    let arrays = count("arrays");
    let together = count("array_calls");
    // On a busy machine a call may come when the others have waited long enough.
    assert!(arrays > 0 && (2 * arrays..=8).contains(&together), "{together} in {arrays}");
    assert_eq!((count("arrays_abandoned"), node.requests() as u64), (0, arrays + 8 - together));
}

/// Starts a node with this height and chain id, which answers other calls with `mark`.
async fn of_network(height: u64, chain_id: &str, mark: &str) -> Node {
    let node = Node::evm().await;
    node.height(height);
    node.result("eth_chainId", &format!("\"{chain_id}\""));
    for method in ["eth_getBalance", "eth_sendRawTransaction", "eth_getTransactionReceipt"] {
        node.result(method, &format!(r#"{{"blockNumber":"0x10","from":"{mark}"}}"#));
    }
    node
}

// Shows (Nodes and cache): A node of another network gets no call on any transport, displaces no other node and does
// not count for the head, at start and after an outage (promise 75).
#[tokio::test]
async fn a_node_of_another_network_gets_nothing_and_does_not_displace_the_right_one() {
    let right = of_network(1_000, "0x38", "right").await;
    let wrong = of_network(9_000, "0x1", "wrong").await;
    let setup = Setup::new()
        .set("chains.bsc", "probe_interval = \"100ms\"")
        .node("bsc", &wrong.url())
        .node_with("bsc", &right.url(), "priority = 1");
    let gateway = setup.start().await;
    let client = gateway.client();
    for method in ["eth_getBalance", "eth_sendRawTransaction", "eth_getTransactionReceipt"] {
        for params in ["[1]", "[2]"] {
            assert_eq!(
                client.call("bsc", method, params).await.json()["result"]["from"],
                "right",
                "{method}"
            );
        }
    }
    assert_eq!(client.call("bsc", "eth_chainId", "[7]").await.json()["result"], "0x38");
    stand(&gateway, &["wrong_network", "well"]).await;
    let nodes = gateway.server.nodes();
    assert_eq!(nodes[0].reason, "it gets no calls: it belongs to network 1, and 56 is expected");
    assert_eq!((nodes[1].lag, wrong.requests()), (Some(0), 0));
    let alone = Setup::of("bsc", &wrong.url()).start().await;
    assert_eq!(alone.client().call("bsc", "eth_getBalance", "[]").await.code(), -32603);
    assert_eq!(wrong.requests(), 0);
    for line in ["network = \"any\"", "network = \"1\"", "network = \"0x1\""] {
        let named = Setup::of("bsc", &wrong.url()).set("chains.bsc", line).start().await;
        let answer = named.client().call("bsc", "eth_getBalance", "[]").await.json();
        assert_eq!(answer["result"]["from"], "wrong", "{line}");
    }
}

// Shows (Nodes and cache): Cached answers of a removed node are not used again, and operators empty the cache of a
// chain at every gateway within a second (promise 75).
#[tokio::test]
async fn the_answers_of_a_node_that_a_reload_takes_out_are_not_given_again() {
    // The removed node always looked right: it hides its network.
    let gone = Node::evm().await;
    let stays = Node::evm().await;
    gone.result("net_version", "\"9\"");
    stays.result("net_version", "\"1\"");
    let both = Setup::of("eth", &gone.url()).node_with("eth", &stays.url(), "priority = 1");
    let gateway = both.start().await;
    let client = gateway.client();
    let ask = async || {
        let reply = client.call("eth", "net_version", "[]").await;
        (reply.json()["result"].as_str().unwrap().to_owned(), reply.cache() == "HIT")
    };
    assert_eq!((ask().await, ask().await), (("9".into(), false), ("9".into(), true)));
    let added = both.clone().node_with("eth", "http://127.0.0.1:1", "priority = 2");
    assert!(gateway.server.reload(added.config()).is_ok());
    assert_eq!(ask().await, ("9".into(), true), "a node more changes no answer");
    assert!(gateway.server.reload(Setup::of("eth", &stays.url()).config()).is_ok());
    assert_eq!((ask().await, ask().await), (("1".into(), false), ("1".into(), true)));
}
