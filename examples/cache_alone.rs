//! How do I put only the cache in front of my own client?
//!
//! A weather service is slow and gets the same requests many times. This proxy caches its answers for ten seconds and
//! joins equal requests in flight. It has no callers, no chains and no JSON-RPC: the layer needs only a function that
//! names the *call* of a request. The call's name is the cache key, and its rule sets the answer's lifetime. A request
//! for which the function returns `None` is passed on.
//!
//! Run it with `cargo run -p rpcgate-examples --example cache_alone`.
#![expect(clippy::print_stdout, reason = "it prints what to try")]

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rpcgate_core::prelude::*;
use rpcgate_examples::{BoxError, client, node};
use rpcgate_layers::prelude::*;
use std::{net::SocketAddr, sync::Arc};
use tower::{Layer, Service, ServiceExt, service_fn};

/// Calls need the name of a chain; without chains, any name will do.
const WEATHER: ChainName = ChainName::new("weather");
const KEPT: MethodRule = MethodRule::UNLISTED.cached(CacheRule::secs(10));
const LARGEST_BODY: usize = 64 << 10;

fn forecast(request: &Request<Bytes>) -> Option<CallView<'_>> {
    (request.method() == Method::GET).then(|| CallView::new(WEATHER, request.uri().path(), KEPT))
}

/// Wraps the client in its cache. Clones share the cached answers.
fn cached(
    weather: SocketAddr,
    clock: Arc<dyn Clock>,
) -> impl Service<Request<Bytes>, Response = Response<Bytes>, Error = BoxError, Future: Send> + Clone {
    let client = service_fn(move |request| client::send(weather, request));
    let cache = CacheLayer::new(Arc::new(BoundedReplies::new(1 << 20)), clock).with_call(forecast);
    cache.layer(client)
}

/// Starts the proxy on its own socket, served by hyper.
async fn start(weather: SocketAddr, clock: Arc<dyn Clock>) -> Result<SocketAddr, BoxError> {
    let client = cached(weather, clock);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let client = client.clone();
            let proxy = service_fn(move |request: Request<Incoming>| {
                let client = client.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = Limited::new(body, LARGEST_BODY).collect().await?.to_bytes();
                    let response = client.oneshot(Request::from_parts(head, body)).await?;
                    Ok::<_, BoxError>(response.map(Full::new))
                }
            });
            let http = http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(proxy)));
        }
    });
    Ok(addr)
}

/// Starts the weather service, which numbers its answers.
async fn weather() -> Result<SocketAddr, BoxError> {
    let asked = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let answer = async move || {
        let number = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        format!("{{\"forecast\":{number}}}")
    };
    let url = node::start(axum::Router::new().fallback(answer)).await?;
    Ok(url.trim_start_matches("http://").parse()?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let addr = start(weather().await?, Arc::new(SystemClock::new())).await?;
    println!("A weather service that numbers its answers, behind a cache. Try, twice within ten seconds:\n");
    println!("    curl http://{addr}/oslo");
    tokio::signal::ctrl_c().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn an_answer_is_cached_for_its_time_by_path_and_only_for_get() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let proxy = start(weather().await.unwrap(), clock.clone()).await.unwrap();
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
