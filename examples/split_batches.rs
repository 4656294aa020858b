//! How do I offer JSON-RPC batches in front of a node that does not support them?
//!
//! `SplitBatchLayer` sends each call of a batch as a separate request, with a limit of parallel ones, and joins the
//! answers in the order of the calls. It needs no callers, no chains and no accounts. The example is an axum
//! application with a node that answers only single calls.
//!
//! Run it with `cargo run -p rpcgate-examples --example split_batches`.
#![expect(clippy::print_stdout, reason = "it prints what to try")]

use axum::{Json, Router, routing::post};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use rpcgate_examples::{BoxError, client, node};
use rpcgate_layers::prelude::*;
use serde_json::{Value, json};
use std::{convert::Infallible, net::Ipv4Addr, net::SocketAddr};
use tokio::net::TcpListener;
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
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    tokio::spawn(axum::serve(listener, Router::new().fallback_service(split)).into_future());
    Ok(addr)
}

/// Starts a node that echoes the method of a call and does not accept arrays.
async fn simple_node() -> Result<SocketAddr, BoxError> {
    let answer = async |Json(call): Json<Value>| match call.get("method") {
        Some(method) => Json(json!({"jsonrpc": "2.0", "id": call["id"], "result": method})),
        None => Json(
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "one call, please"}}),
        ),
    };
    let url = node::start(Router::new().route("/", post(answer))).await?;
    Ok(url.trim_start_matches("http://").parse()?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let addr = start(simple_node().await?).await?;
    println!("A node that takes no batches, behind a service that splits them. Try:\n");
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":"x","method":"b"}]"#;
    println!("    curl http://{addr}/ -H 'content-type: application/json' -d '{batch}'");
    tokio::signal::ctrl_c().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_batch_is_answered_call_by_call_in_order_and_a_single_call_as_before() {
        let node = simple_node().await.unwrap();
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
