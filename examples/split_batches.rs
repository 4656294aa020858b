//! How do I offer JSON-RPC batches in front of a node that does not support them?
//!
//! `SplitBatchLayer` sends each call of a batch as a separate request, with a limit of parallel ones, and joins the
//! answers in the order of the calls. It needs no callers, no chains and no accounts. The example is an axum
//! application with a node that answers only single calls.
//!
//! Run it with `cargo run -p rpcgate-examples --example split_batches`.

use axum::Router;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use rpcgate_examples::{BoxError, client, node, server};
use rpcgate_layers::prelude::*;
use std::{convert::Infallible, net::SocketAddr};
use tower::{Layer, service_fn};

async fn start(node: SocketAddr) -> Result<SocketAddr, BoxError> {
    let forward = service_fn(move |request: Request<Bytes>| async move {
        let response = client::send(node, request).await.unwrap_or_else(|_| {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        });
        Ok::<_, Infallible>(response.map(http_body_util::Full::new))
    });
    let split = SplitBatchLayer::new().with_parallel(4).layer(forward);
    Ok(server::serve(Router::new().fallback_service(split)).await?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let addr = start(server::serve(node::without_batches()).await?).await?;
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":"x","method":"b"}]"#;
    let title = "A node that takes no batches, behind a service that splits them";
    Ok(server::show(title, addr, "accept: */*", &[("/", batch)]).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::net::Ipv4Addr;

    #[tokio::test]
    async fn a_batch_is_answered_call_by_call_in_order_and_a_single_call_as_before() {
        let node = server::serve(node::without_batches()).await.unwrap();
        let split = start(node).await.unwrap();
        let calls: Vec<_> =
            (0..9).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": format!("m{id}")})).collect();
        let refused = client::post(node, "/", ("x-by", "test"), &json!(calls)).await.unwrap();
        assert_eq!(refused.json["error"]["code"], -32600, "the node itself takes none");
        let answer = client::post(split, "/", ("x-by", "test"), &json!(calls)).await.unwrap();
        let expected: Vec<_> =
            (0..9).map(|id| json!({"jsonrpc": "2.0", "id": id, "result": format!("m{id}")})).collect();
        assert_eq!((answer.status.as_u16(), answer.json), (200, json!(expected)));
        let single = client::post(split, "/", ("x-by", "test"), &calls[3]).await.unwrap();
        assert_eq!(single.json, expected[3]);
    }

    #[tokio::test]
    async fn a_call_that_the_node_does_not_answer_fails_in_position() {
        // Nothing listens on port 1.
        let split = start(SocketAddr::from((Ipv4Addr::LOCALHOST, 1))).await.unwrap();
        let batch = json!([{"jsonrpc": "2.0", "id": 7, "method": "a"}, 5]);
        let answer = client::post(split, "/", ("x-by", "test"), &batch).await.unwrap();
        assert_eq!((&answer.json[0]["id"], &answer.json[0]["error"]["code"]), (&json!(7), &json!(-32603)));
        assert_eq!(answer.json[1]["error"]["code"], -32600);
    }
}
