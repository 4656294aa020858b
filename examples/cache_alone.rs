//! How do I put only the cache in front of my own client?
//!
//! A weather service is slow and gets the same requests many times. This proxy caches its answers for ten seconds and
//! joins equal requests in flight. It has no callers, no chains and no JSON-RPC: the layer needs only a function that
//! returns the *key* of a request, and a lifetime. A request without a key is passed on.
//!
//! Run it with `cargo run -p rpcgate-examples --example cache_alone`.

use axum::{Router, body::Body, response::IntoResponse};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, request::Parts};
use rpcgate_core::prelude::*;
use rpcgate_examples::{BoxError, client, node, server};
use rpcgate_layers::prelude::*;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tower::{Layer, Service, ServiceExt, service_fn};

/// Wraps the client in its cache. Clones share the cached answers.
fn cached(
    weather: SocketAddr,
    clock: Arc<dyn Clock>,
) -> impl Service<Request<Bytes>, Response = Response<Bytes>, Error = BoxError, Future: Send> + Clone {
    CacheLayer::keyed(
        |request: &Request<Bytes>| {
            (request.method() == Method::GET).then(|| request.uri().to_string().into())
        },
        Duration::from_secs(10),
    )
    .with_clock(clock)
    .with_capacity(1 << 20)
    .layer(service_fn(move |request| client::send(weather, request)))
}

/// Starts the proxy on its own socket.
async fn start(weather: SocketAddr, clock: Arc<dyn Clock>) -> Result<SocketAddr, BoxError> {
    let client = cached(weather, clock);
    let proxy =
        async move |head: Parts, body: Bytes| match client.oneshot(Request::from_parts(head, body)).await {
            Ok(response) => response.map(Body::from),
            Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
        };
    Ok(server::serve(Router::new().fallback(proxy)).await?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let weather = server::serve(node::weather()).await?;
    let addr = start(weather, Arc::new(SystemClock::new())).await?;
    let title = "A weather service that numbers its answers, behind a cache of ten seconds";
    Ok(server::show(title, addr, "accept: */*", &[("/oslo", "")]).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_cached_for_its_time_by_path_and_only_for_get() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let proxy = start(server::serve(node::weather()).await.unwrap(), clock.clone()).await.unwrap();
        let ask = async |method: Method, path: &str| {
            let request = Request::builder().method(method).uri(path).body(Bytes::new()).unwrap();
            let body = client::send(proxy, request).await.unwrap().into_body();
            String::from_utf8(body.to_vec()).unwrap()
        };
        assert_eq!(ask(Method::GET, "/oslo").await, r#"{"forecast":0}"#);
        assert_eq!(ask(Method::GET, "/oslo").await, r#"{"forecast":0}"#);
        assert_eq!(ask(Method::GET, "/rome").await, r#"{"forecast":1}"#);
        assert_eq!(ask(Method::POST, "/oslo").await, r#"{"forecast":2}"#, "only GET is cached");
        clock.advance(Duration::from_secs(10));
        assert_eq!(ask(Method::GET, "/oslo").await, r#"{"forecast":3}"#);
    }
}
