//! Filters behind several nodes: each stays at the node that created it.

use crate::*;

async fn with_filter(id: &str, change: &str) -> Node {
    let node = Node::evm().await;
    node.result("eth_newFilter", &format!("\"{id}\""));
    node.result("eth_getFilterChanges", &format!("[\"{change}\"]"));
    node
}

// Shows (Nodes and cache).
#[tokio::test]
async fn a_filter_is_polled_at_its_node_through_two_gateways() {
    let one = with_filter("0xa1", "of one").await;
    let two = with_filter("0xb2", "of two").await;
    let urls = [one.url(), two.url()];
    let start = async |order: [usize; 2]| {
        order.iter().fold(Setup::new(), |setup, at| setup.node("bsc", &urls[*at])).start().await
    };
    let first = start([0, 1]).await;
    let second = start([1, 0]).await;
    let mut made = Vec::new();
    for _ in 0..4 {
        let id = first.client().call("bsc", "eth_newFilter", "[{}]").await.json()["result"]
            .as_str()
            .unwrap()
            .to_owned();
        let expected = if id.ends_with("a1") { "of one" } else { "of two" };
        for gateway in [&first, &second, &first, &second] {
            let changes = gateway.client().call("bsc", "eth_getFilterChanges", &format!("[\"{id}\"]")).await;
            assert_eq!(
                (changes.json()["result"][0].as_str(), changes.cache()),
                (Some(expected), "MISS"),
                "{id}"
            );
        }
        made.push(expected);
    }
    assert!(made.contains(&"of one") && made.contains(&"of two"), "both nodes make filters: {made:?}");
    for (node, own) in [(&one, "0xa1"), (&two, "0xb2")] {
        let uses: Vec<_> =
            node.calls().into_iter().filter(|call| call.method == "eth_getFilterChanges").collect();
        assert!(uses.iter().all(|call| call.params == format!("[\"{own}\"]")), "the node sees its own id");
    }
    let asked = one.requests() + two.requests();
    for unknown in ["0xa1", "0xb2", "0x12345678a1", "latest"] {
        let reply = first.client().call("bsc", "eth_uninstallFilter", &format!("[\"{unknown}\"]")).await;
        assert_eq!((reply.status, reply.code(), reply.cu()), (200, -32000, 0), "{unknown}");
        assert_eq!(reply.json()["error"]["message"], "filter not found");
    }
    assert_eq!(one.requests() + two.requests(), asked);
}
