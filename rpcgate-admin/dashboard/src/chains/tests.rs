//! Tests of the chains as a browser sees them.

use crate::projects::tests::{ProjectFixture, expect_sound};
use rpcgate_store::{GatewayReport, NodeState};

impl ProjectFixture {
    /// Stores a gateway's report about one node of a chain.
    async fn report(&self, chain: &str, standing: &str, height: u64) {
        let node = NodeState {
            chain: chain.into(),
            node: "http://10.0.0.7:8545/a-node-of-ours".into(),
            standing: standing.into(),
            height: Some(height),
            ..NodeState::default()
        };
        let report = GatewayReport { id: 1, at: self.site.app.now(), nodes: vec![node] };
        self.site.app.store.put_report(&report, &[]).await.unwrap();
    }
}

// Shows (Dashboard): Chains show their URLs, the costs of their methods and their state, and nothing about nodes.
#[tokio::test]
async fn the_list_shows_callable_chains_and_their_health() {
    let fixture = ProjectFixture::new().await;
    let all = rpcgate_chains::catalog().count();
    let page = fixture.get("/chains").await;
    assert!(page.text.contains(&format!("1 of {all} chains are served here")), "{}", page.text);
    assert!(
        page.text.contains("href=\"chains/eth\">Ethereum</a>") && page.text.contains("not known"),
        "{}",
        page.text
    );
    fixture.report("eth", "well", 26_452_218).await;
    let page = fixture.get("/chains?served=yes").await;
    assert!(page.text.contains("Healthy") && page.text.contains("26,452,218"), "{}", page.text);
    assert!(!page.text.contains("href=\"chains/btc\"") && !page.text.contains("10.0.0.7"), "{}", page.text);
    fixture.report("eth", "behind", 7).await;
    assert!(fixture.get("/chains").await.text.contains("<span class=\"badge bad\">Degraded</span>"));
    let page = fixture.get("/chains/eth").await;
    assert!(page.text.contains("No node of this chain is healthy at the moment"), "{}", page.text);
    assert!(!page.text.contains("10.0.0.7"), "nodes are nobody else's business: {}", page.text);
    let page = fixture.get("/chains?q=ETHER").await;
    assert!(page.text.contains("chains/eth\"") && !page.text.contains("chains/btc\""), "{}", page.text);
    assert!(fixture.get("/chains?q=nosuchchain").await.text.contains("No chain matches"));
}

// Shows (Dashboard).
#[tokio::test]
async fn a_chain_has_its_urls_and_what_its_methods_cost() {
    let fixture = ProjectFixture::new().await;
    fixture.site.app.store.put_weight("eth", "eth_call", 77, fixture.site.app.now()).await.unwrap();
    let page = fixture.get("/chains/eth").await;
    for part in [
        "<code class=\"id grow\">http://127.0.0.1:8080/eth</code>",
        "<code class=\"id grow\">ws://127.0.0.1:8080/ws/eth</code>",
        "<th scope=\"row\" class=\"id\">eth_call</th><td class=\"num\">77</td>",
        "Any other method costs 1 CU.",
        "value=\"Rust\"",
        "YOUR_API_KEY",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let one = fixture.get("/chains/eth?q=ETH_CALL").await;
    assert!(one.text.contains(">eth_call<") && !one.text.contains(">eth_getLogs<"), "{}", one.text);
    let by_cost = fixture.get("/chains/eth?sort=cu&closed=yes").await;
    let costs = by_cost.text.split("<td class=\"num\">").skip(1).map(|rest| rest.split('<').next().unwrap());
    let costs: Vec<u32> = costs.map(|cost| cost.replace(',', "").parse().unwrap()).collect();
    assert!(costs.len() > 20 && costs.is_sorted_by(|one, other| one >= other), "{costs:?}");
    assert!(by_cost.text.contains(">Closed</span>"), "{}", by_cost.text);
    assert!(!page.text.contains(">Closed</span>"), "{}", page.text);
    assert!(fixture.get("/chains/eth?q=nosuchmethod").await.text.contains("No method matches"));
}

#[tokio::test]
async fn every_chain_has_a_page() {
    let fixture = ProjectFixture::new().await;
    for adapter in rpcgate_chains::catalog() {
        let path = format!("/chains/{}", adapter.facts().name);
        let page = fixture.get(&path).await;
        expect_sound(&page, &path);
        assert!(page.text.len() < 150_000, "{path} has {} bytes", page.text.len());
    }
}
