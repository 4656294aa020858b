//! Nodes on local sockets. Your own gateway has real ones.

use crate::server::serve;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode, Uri};
use parking_lot::Mutex;
use rpcgate_core::clock::Clock;
use rpcgate_simulate::SimulatedRequest;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Starts the simulated node of a chain in the catalog (`eth`, `btc`, …) and returns its URL: `http://127.0.0.1:…`.
///
/// # Errors
/// If the chain has no simulated node, or the machine has no free port.
pub async fn simulated(chain: &str, clock: Arc<dyn Clock>) -> io::Result<String> {
    let node = rpcgate_simulate::node(chain, 7).ok_or(io::ErrorKind::NotFound)?;
    let node = Arc::new(Mutex::new(node));
    start(Router::new().fallback(async move |method: Method, uri: Uri, body: Bytes| -> Response {
        let request = SimulatedRequest { method: &method, path: uri.path(), body: &body };
        let reply = node.lock().handle(&request, clock.now());
        let status = StatusCode::from_u16(reply.status).unwrap_or_default();
        (status, [(CONTENT_TYPE, reply.content_type)], reply.body).into_response()
    }))
    .await
}

/// Starts any node that is written as an axum router.
///
/// # Errors
/// If the machine has no free port.
pub async fn start(node: Router) -> io::Result<String> {
    Ok(format!("http://{}", serve(node).await?))
}

/// Returns a weather service, which numbers its answers.
pub fn weather() -> Router {
    let asked = Arc::new(AtomicU64::new(0));
    Router::new().fallback(async move || format!("{{\"forecast\":{}}}", asked.fetch_add(1, Relaxed)))
}

/// Returns a node that echoes the method of a call and does not accept arrays.
pub fn without_batches() -> Router {
    Router::new().fallback(async |Json(call): Json<Value>| match call.get("method") {
        Some(method) => Json(json!({"jsonrpc": "2.0", "id": call["id"], "result": method})),
        None => Json(
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "one call, please"}}),
        ),
    })
}

/// The number of entries that the marina's node has written.
pub const MARINA_LENGTH: u64 = 100;

/// Returns the node of the marina in `custom_chain.rs`. It numbers its answers, so that a cached answer differs from a
/// new one.
pub fn marina() -> Router {
    let asked = Arc::new(AtomicU64::new(0));
    Router::new().fallback(async move |Json(body): Json<Value>| {
        Json(match body {
            Value::Array(calls) => calls.iter().map(|call| of_marina(call, &asked)).collect(),
            call => of_marina(&call, &asked),
        })
    })
}

fn of_marina(call: &Value, asked: &AtomicU64) -> Value {
    let answer = asked.fetch_add(1, Relaxed);
    let result = match (call["method"].as_str().unwrap_or_default(), call["params"][0].as_u64()) {
        ("marina_length", _) => json!(MARINA_LENGTH),
        ("marina_name", _) => json!("Port Example"),
        ("marina_tide", _) => json!({"centimetres": 212, "answer": answer}),
        ("marina_entry", Some(height)) if height <= MARINA_LENGTH => {
            json!({"height": height, "cargo": "tea", "answer": answer})
        }
        ("marina_entry", Some(_)) => Value::Null,
        ("marina_search" | "watch_ships", _) => json!([4, 8, 15]),
        ("marina_file", _) => json!(MARINA_LENGTH + 1),
        _ => {
            let error = json!({"code": 1, "message": "the marina does not do that"});
            return json!({"jsonrpc": "2.0", "id": call["id"], "error": error});
        }
    };
    json!({"jsonrpc": "2.0", "id": call["id"], "result": result})
}
