//! The addresses at which gRPC is served.

use crate::node::Simulated;
use crate::wire::{NEWEST, Raw, Site, keyed};
use http::uri::PathAndQuery;
use rpcgate_tests::gateway::Setup;
use tonic::client::Grpc;
use tonic::transport::Endpoint;

fn setup(node: &Simulated) -> Setup {
    Setup::new().set("chains.tron", &format!("nodes = [\"{}\"]", node.url))
}

// Shows (Streams): gRPC is served on both entries, without TLS only where configured; health needs no key.
#[tokio::test]
async fn both_addresses_serve_grpc() {
    let node = Simulated::of("tron");
    let site = Site::new(setup(&node)).await;
    for addr in [site.gateway.addr(), site.grpc()] {
        site.connect(addr).await.unary(NEWEST, b"").await.unwrap();
    }
}

// Shows (Streams).
#[tokio::test]
async fn without_tls_grpc_is_served_only_where_it_is_configured() {
    let node = Simulated::of("tron");
    for (setting, is_served) in [("h2c = false", false), ("h2c = true", true)] {
        let gateway = setup(&node).set("gateway", setting).start().await;
        let endpoint = Endpoint::from_shared(format!("http://{}", gateway.addr())).unwrap();
        let answer = async {
            let mut client = Grpc::new(endpoint.connect().await.ok()?);
            client.ready().await.ok()?;
            client.unary(keyed(Vec::new()), PathAndQuery::from_static(NEWEST), Raw).await.ok()
        };
        assert_eq!(answer.await.is_some(), is_served, "{setting}");
    }
}
