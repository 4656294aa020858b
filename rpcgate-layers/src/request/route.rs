//! The route: from a path to its chain, and the answer to CORS preflights.
//!
//! The layer comes first, before the caller is known, so a request that it refuses has no rate headers and no usage
//! record. It also checks the limits for the URI and the headers. The layer refuses with [`Refusal::NoRoute`],
//! [`Refusal::NoStream`], [`Refusal::MethodNotAllowed`], [`Refusal::InvalidPath`], [`Refusal::UriTooLong`] and
//! [`Refusal::HeadersTooLarge`].
//!
//! ```
//! use rpcgate_core::{caller::RequestId, chain::Chain, clock::Time, refusal::Refusal, toy::Toy};
//! use rpcgate_layers::request::message::{PendingResponse, Received, Routed};
//! use rpcgate_layers::request::route::RouteLayer;
//! use std::{convert::Infallible, sync::Arc, time::Duration};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! // The rest of the stack: it requires a key.
//! let inner = service_fn(async |routed: Routed<()>| {
//!     assert_eq!(routed.chain.name().as_str(), "toy");
//!     Ok::<_, Infallible>(PendingResponse::refused(Refusal::NoKey))
//! });
//! let service = RouteLayer::of([Arc::new(Chain::deployed(Arc::new(Toy)))]).layer(inner);
//! for (method, path, status) in [
//!     ("POST", "/toy", 401),
//!     ("POST", "/toy/", 401),
//!     ("GET", "/toy", 405),
//!     ("POST", "/other", 404),
//!     ("OPTIONS", "/toy", 204),
//! ] {
//!     let request = Box::new(http::Request::builder().method(method).uri(path).body(()).unwrap());
//!     let received = Received {
//!         request,
//!         id: RequestId::default(),
//!         arrival: Time::default(),
//!         started: Duration::ZERO,
//!     };
//!     assert_eq!(service.clone().oneshot(received).await.unwrap().status, status);
//! }
//! # });
//! ```

use super::admission::{AdmissionResponse, Denied};
use super::message::{Received, Routed, Target};
use crate::future::ResponseFuture;
use arc_swap::ArcSwap;
use http::header::{HOST, HeaderMap};
use http::{Method, Request};
use rpcgate_core::adapter::Surface;
use rpcgate_core::chain::{Chain, Chains};
use rpcgate_core::grpc::GrpcPath;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::rest::Path;
use rpcgate_core::tally::Transport;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// The limits for the head of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HeadLimits {
    /// The maximum number of bytes of path and query.
    pub uri: usize,
    /// The maximum number of header fields.
    pub fields: usize,
    /// The maximum number of bytes of all header names and values together.
    pub bytes: usize,
}

impl Default for HeadLimits {
    /// Allows 8 KiB of path and query, and 100 header fields with 16 KiB in total.
    fn default() -> Self {
        HeadLimits { uri: 8 * 1024, fields: 100, bytes: 16 * 1024 }
    }
}

impl HeadLimits {
    /// Sets the maximum size of path and query in bytes.
    #[must_use]
    pub const fn with_uri(mut self, uri: usize) -> Self {
        self.uri = uri;
        self
    }

    /// Sets the maximum number of header fields.
    #[must_use]
    pub const fn with_fields(mut self, fields: usize) -> Self {
        self.fields = fields;
        self
    }

    /// Sets the maximum total size of header names and values in bytes.
    #[must_use]
    pub const fn with_bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }
}

/// Finds the chain of a request.
#[derive(Clone, Debug)]
pub struct RouteLayer {
    chains: Arc<ArcSwap<Chains>>,
    limits: HeadLimits,
    entrance: Entrance,
}

/// The transport of requests, and the rules that map their paths to chains.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entrance {
    /// The transport of every tally.
    pub transport: Transport,
    /// Finds the chain of a request by its HTTP method and path.
    pub route: fn(&Chains, &Method, &str) -> RouteMatch,
    /// Finds the target of a request whose host belongs to a chain, by its HTTP method and path. It is called if the
    /// path alone matches nothing.
    pub at_host: fn(&Arc<Chain>, &Method, &str) -> RouteMatch,
}

impl Entrance {
    /// HTTP requests: `/<chain>`, and paths below it on chains that have paths ([`route`]).
    pub const HTTP: Entrance = Entrance { at_host: route_below, ..Entrance::new(Transport::Http, route) };

    /// Handshakes of WebSocket streams: `/ws/<chain>` ([`route_stream`]), or `/` at the chain's own host.
    pub const WS: Entrance =
        Entrance { at_host: route_stream_at_host, ..Entrance::new(Transport::Ws, route_stream) };

    /// gRPC calls: `/package.Service/Method` ([`route_grpc`]).
    pub const GRPC: Entrance = Entrance::new(Transport::Grpc, route_grpc);

    /// Creates an entrance for `transport` that maps paths with `route` and ignores the host.
    pub const fn new(transport: Transport, route: fn(&Chains, &Method, &str) -> RouteMatch) -> Self {
        Entrance { transport, route, at_host: |_, _, _| RouteMatch::Nowhere(Refusal::NoRoute) }
    }
}

impl RouteLayer {
    /// Creates a layer that serves `chains` over HTTP and follows replacements of the set.
    pub fn new(chains: Arc<ArcSwap<Chains>>) -> Self {
        RouteLayer { chains, limits: HeadLimits::default(), entrance: Entrance::HTTP }
    }

    /// Creates a layer for chains that are never replaced.
    pub fn of(chains: impl IntoIterator<Item = Arc<Chain>>) -> Self {
        RouteLayer::new(Arc::new(ArcSwap::from_pointee(chains.into_iter().collect())))
    }

    /// Sets the entrance, for requests over a different transport.
    #[must_use]
    pub fn with_entrance(mut self, entrance: Entrance) -> Self {
        self.entrance = entrance;
        self
    }

    /// Sets the limits of the head.
    #[must_use]
    pub fn with_limits(mut self, limits: HeadLimits) -> Self {
        self.limits = limits;
        self
    }
}

impl<S> Layer<S> for RouteLayer {
    type Service = Route<S>;

    fn layer(&self, inner: S) -> Route<S> {
        Route { inner, chains: self.chains.clone(), limits: self.limits, entrance: self.entrance }
    }
}

/// A service that finds the chain before `inner`.
#[derive(Clone, Debug)]
pub struct Route<S> {
    inner: S,
    chains: Arc<ArcSwap<Chains>>,
    limits: HeadLimits,
    entrance: Entrance,
}

impl<S, B> Service<Received<B>> for Route<S>
where
    S: Service<Routed<B>, Response: AdmissionResponse>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, received: Received<B>) -> Self::Future {
        let answer = |response| ResponseFuture::own(Ok(response));
        let denied = |refusal| answer(S::Response::denied(Denied::unknown(refusal)));
        let request = &received.request;
        if let Err(refusal) = self.limits.check(request.uri(), request.headers()) {
            return denied(refusal);
        }
        let transport = self.entrance.transport;
        match self.entrance.find(&self.chains.load(), request) {
            RouteMatch::Chain(chain, target) => {
                ResponseFuture::inner(self.inner.call(Routed { received, chain, transport, target }))
            }
            RouteMatch::Preflight => answer(S::Response::preflight(request.headers())),
            RouteMatch::Nowhere(refusal) => denied(refusal),
        }
    }
}

impl Entrance {
    /// Finds the target of a request. The path has precedence, so that it leads to the same chain at every host. At a
    /// chain's own host its API is at the root, and an API path may begin with the chain's name:
    /// `/cosmos/bank/v1beta1/params`.
    fn find<B>(self, chains: &Chains, request: &Request<B>) -> RouteMatch {
        let method = request.method();
        let path = request.uri().path();
        let found = (self.route)(chains, method, path);
        let Some(chain) = host_of(request).and_then(|host| chains.at_host(host)) else { return found };
        let is_free = match &found {
            RouteMatch::Nowhere(Refusal::NoRoute | Refusal::NoStream) => true,
            RouteMatch::Chain(other, _) => Arc::ptr_eq(chain, other) && !names_twice(path, chain),
            RouteMatch::Preflight | RouteMatch::Nowhere(_) => false,
        };
        if !is_free {
            return found;
        }
        match (self.at_host)(chain, method, path) {
            RouteMatch::Nowhere(Refusal::NoRoute | Refusal::NoStream) => found,
            at_host => at_host,
        }
    }
}

/// Reports whether a path begins with the chain's name twice, so that the first one is the gateway's own path.
fn names_twice(path: &str, chain: &Chain) -> bool {
    let mut segments = path.split('/').skip(1);
    let name = chain.name().as_str();
    segments.next() == Some(name) && segments.next() == Some(name)
}

/// Returns the host of a request, with its port if present: from the URI (`:authority` over HTTP/2), or from the `Host`
/// header.
pub fn host_of<B>(request: &Request<B>) -> Option<&str> {
    match request.uri().host() {
        Some(host) => Some(host),
        None => request.headers().get(HOST)?.to_str().ok(),
    }
}

impl HeadLimits {
    fn check(&self, uri: &http::Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        if uri.path_and_query().map_or(0, |p| p.as_str().len()) > self.uri {
            return Err(Refusal::UriTooLong);
        }
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if headers.len() > self.fields || bytes > self.bytes {
            return Err(Refusal::HeadersTooLarge);
        }
        Ok(())
    }
}

/// The result of matching a path.
#[derive(Debug)]
#[non_exhaustive]
pub enum RouteMatch {
    /// A chain, and the target on it.
    Chain(Arc<Chain>, Target),
    /// A CORS preflight.
    Preflight,
    /// No match, or not for this HTTP method.
    Nowhere(Refusal),
}

/// Maps `path` to a chain for a request with this HTTP method. The name of the chain is compared literally: another
/// spelling is another path, which does not exist. On chains with paths of their own, the rest of the path is brought
/// into its [canonical form](Path), or refused with [`Refusal::InvalidPath`] if it has none.
pub fn route(chains: &Chains, method: &Method, path: &str) -> RouteMatch {
    if method == Method::OPTIONS {
        return RouteMatch::Preflight;
    }
    let Some(path) = path.strip_prefix('/') else { return RouteMatch::Nowhere(Refusal::NoRoute) };
    let (name, below) = path.split_at(path.bytes().position(|byte| byte == b'/').unwrap_or(path.len()));
    let Some(chain) = chains.get(name) else {
        let is_stream = path.starts_with("ws/");
        return RouteMatch::Nowhere(if is_stream { Refusal::NoStream } else { Refusal::NoRoute });
    };
    route_below(chain, method, below)
}

/// Maps the part of a path below the chain's own path. On chains whose calls are paths it is brought into its
/// [canonical form](Path), or refused with [`Refusal::InvalidPath`] if it has none. On other chains such a path does
/// not exist.
pub fn route_below(chain: &Arc<Chain>, method: &Method, below: &str) -> RouteMatch {
    let canonical = match below {
        "" | "/" => Some(Path::default()),
        _ => Path::canonical(below).and_then(|path| aliased(chain, path)),
    };
    let Some(canonical) = canonical else {
        let is_rest = chain.facts().rest;
        return RouteMatch::Nowhere(if is_rest { Refusal::InvalidPath } else { Refusal::NoRoute });
    };
    match chain.adapter().surface(method, &canonical) {
        Ok(Surface::JsonRpc) => RouteMatch::Chain(chain.clone(), Target::JsonRpc),
        Ok(Surface::Rest) => RouteMatch::Chain(chain.clone(), Target::Rest(canonical)),
        Ok(Surface::Nothing { because }) => RouteMatch::Chain(chain.clone(), Target::Nothing(because)),
        Err(refusal) => RouteMatch::Nowhere(refusal),
    }
}

/// Removes a prefix that [has no meaning](rpcgate_core::adapter::Adapter::path_alias) from the path.
fn aliased(chain: &Chain, path: Path) -> Option<Path> {
    let rest = chain.adapter().path_alias().and_then(|alias| path.as_str().strip_prefix(alias));
    match rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        Some(rest) => Path::canonical(rest),
        None => Some(path),
    }
}

/// Maps `/package.Service/Method` to the chain of the package, as a gRPC call. A path in another form, or of an unknown
/// package, matches nothing.
pub fn route_grpc(chains: &Chains, method: &Method, path: &str) -> RouteMatch {
    let path = GrpcPath::parse(path).filter(|_| method == Method::POST);
    match path.and_then(|path| chains.iter().find(|chain| chain.has_grpc(path))) {
        Some(chain) => RouteMatch::Chain(chain.clone(), Target::Grpc),
        None => RouteMatch::Nowhere(Refusal::NoRoute),
    }
}

/// Maps `/ws/<chain>` to a stream of JSON-RPC messages. Handshakes are `GET` over HTTP/1.1 and `CONNECT` over HTTP/2. A
/// chain [without a stream](rpcgate_core::chain::Facts::ws) is refused like an unknown one.
pub fn route_stream(chains: &Chains, method: &Method, path: &str) -> RouteMatch {
    let name = path.strip_prefix("/ws/").map(|name| name.strip_suffix('/').unwrap_or(name));
    let is_handshake = method == Method::GET || method == Method::CONNECT;
    let chain = name.filter(|_| is_handshake).and_then(|name| chains.get(name));
    match chain.filter(|chain| chain.facts().ws) {
        Some(chain) => RouteMatch::Chain(chain.clone(), Target::JsonRpc),
        None => RouteMatch::Nowhere(Refusal::NoStream),
    }
}

/// Maps a handshake at the chain's own host.
pub fn route_stream_at_host(chain: &Arc<Chain>, method: &Method, path: &str) -> RouteMatch {
    let is_handshake = method == Method::GET || method == Method::CONNECT;
    if path == "/" && is_handshake && chain.facts().ws {
        RouteMatch::Chain(chain.clone(), Target::JsonRpc)
    } else {
        RouteMatch::Nowhere(Refusal::NoStream)
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::PendingResponse;
    use super::*;
    use crate::testing::{Fixture, ToyVariant};
    use bytes::Bytes;
    use http::HeaderValue;
    use rpcgate_core::caller::RequestId;
    use rpcgate_core::chain::Facts;
    use rpcgate_core::clock::Time;
    use std::convert::Infallible;
    use std::time::Duration;
    use tower::service_fn;

    async fn send(request: http::Request<()>) -> PendingResponse {
        let chains = Arc::new(ArcSwap::from_pointee([Fixture::new().chain].into_iter().collect()));
        let inner = service_fn(async |routed: Routed<()>| {
            let mut pending = PendingResponse::refused(Refusal::NoKey);
            pending.body = Bytes::from_static(routed.chain.name().as_str().as_bytes());
            Ok::<_, Infallible>(pending)
        });
        let received = Received {
            request: Box::new(request),
            id: RequestId::default(),
            arrival: Time::default(),
            started: Duration::ZERO,
        };
        let Ok(pending) = RouteLayer::new(chains).layer(inner).call(received).await;
        pending
    }

    fn request(method: &str, uri: &str) -> http::Request<()> {
        http::Request::builder().method(method).uri(uri).body(()).unwrap()
    }

    #[tokio::test]
    async fn a_path_leads_to_its_chain_with_or_without_a_slash_at_its_end() {
        for uri in ["/toy", "/toy/", "/toy?x=1", "/toy/?apikey=k"] {
            assert_eq!(send(request("POST", uri)).await.body, "toy", "{uri}");
        }
    }

    #[tokio::test]
    async fn other_spellings_of_a_path_are_not_found() {
        for uri in [
            "/",
            "/toy//",
            "//toy",
            "/toy/x",
            "/TOY",
            "/t%6fy",
            "/x/../toy",
            "/toy/..",
            "/toy;a",
            "/playground",
            "/ws",
        ] {
            assert_eq!(send(request("POST", uri)).await.refusal, Some(Refusal::NoRoute), "{uri}");
        }
    }

    #[tokio::test]
    async fn streams_are_not_here() {
        assert_eq!(send(request("GET", "/ws/toy")).await.refusal, Some(Refusal::NoStream));
    }

    // Shows (Routes and bodies).
    #[test]
    fn a_chain_without_a_stream_is_refused_like_one_that_is_not_known() {
        let still = ToyVariant { facts: Facts::json_rpc("still", "Still"), more: Vec::new() };
        let chains = [Arc::new(Chain::deployed(Arc::new(still)))].into_iter().collect();
        assert!(matches!(route(&chains, &Method::POST, "/still"), RouteMatch::Chain(..)));
        for path in ["/ws/still", "/ws/still/", "/ws/unknown"] {
            let found = route_stream(&chains, &Method::GET, path);
            assert!(matches!(found, RouteMatch::Nowhere(Refusal::NoStream)), "{path}");
        }
    }

    #[test]
    fn a_streams_path_leads_to_its_chain_and_only_by_the_methods_of_handshakes() {
        let chains = [Fixture::new().chain].into_iter().collect();
        let at = |method: Method, path: &str| route_stream(&chains, &method, path);
        for path in ["/ws/toy", "/ws/toy/"] {
            assert!(
                matches!(at(Method::GET, path), RouteMatch::Chain(chain, _) if chain.name().as_str() == "toy")
            );
        }
        for path in ["/ws/other", "/ws/", "/ws/toy/x", "/toy", "/ws//toy"] {
            assert!(matches!(at(Method::GET, path), RouteMatch::Nowhere(Refusal::NoStream)), "{path}");
        }
        assert!(matches!(at(Method::CONNECT, "/ws/toy"), RouteMatch::Chain(..)));
        assert!(matches!(at(Method::POST, "/ws/toy"), RouteMatch::Nowhere(Refusal::NoStream)));
    }

    // Shows (Hostile and odd traffic): gRPC routing cannot be spoofed (promise 47).
    #[test]
    fn a_grpc_call_is_routed_by_the_whole_labels_of_its_package() {
        let facts = Facts::rest("coins", "Coins").with_grpc(&["protocol", "ibc"]);
        let coins = Chain::deployed(Arc::new(ToyVariant { facts, more: Vec::new() }));
        let chains = [Arc::new(coins), Fixture::new().chain].into_iter().collect();
        let routed = |path: &str| match route_grpc(&chains, &Method::POST, path) {
            RouteMatch::Chain(chain, Target::Grpc) => Some(chain.name().as_str()),
            RouteMatch::Nowhere(Refusal::NoRoute) => None,
            other => panic!("{path}: {other:?}"),
        };
        for path in ["/protocol.Wallet/GetNowBlock", "/protocol.a1.Wallet/Get", "/ibc.core.client.v1.Query/X"]
        {
            assert_eq!(routed(path), Some("coins"), "{path}");
        }
        for path in [
            "/protocolx.Wallet/GetNowBlock",
            "/xprotocol.Wallet/GetNowBlock",
            "/x.protocol.Wallet/GetNowBlock",
            "/protoco.Wallet/GetNowBlock",
            "/protocol.Wallet/../x",
            "/protocol.Wallet/%2e%2e/x",
            "/./protocol.Wallet/GetNowBlock",
            "//protocol.Wallet/GetNowBlock",
            "/protocol.Wallet//GetNowBlock",
            "/protocol.Wallet/GetNowBlock/",
            "/protocol.Wallet%2fGetNowBlock",
            "/protocol%2eWallet/GetNowBlock",
            "/PROTOCOL.Wallet/GetNowBlock",
            "/protocol.wallet/GetNowBlock",
            "/protocol/GetNowBlock",
            "/coins.Wallet/GetNowBlock",
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            "/coins",
        ] {
            assert_eq!(routed(path), None, "{path}");
        }
        let get = route_grpc(&chains, &Method::GET, "/protocol.Wallet/GetNowBlock");
        assert!(matches!(get, RouteMatch::Nowhere(Refusal::NoRoute)), "every gRPC call is posted");
    }

    #[tokio::test]
    async fn json_rpc_is_posted() {
        for method in ["GET", "HEAD", "PUT", "DELETE", "PATCH"] {
            let pending = send(request(method, "/toy")).await;
            assert_eq!(pending.status, 405, "{method}");
            assert_eq!(pending.refusal.and_then(Refusal::allow), Some("POST, OPTIONS"));
        }
    }

    #[tokio::test]
    async fn a_preflight_needs_no_key_and_is_cached_a_day() {
        let pending = send(request("OPTIONS", "/toy")).await;
        assert_eq!(pending.status, 204);
        assert_eq!(pending.headers["access-control-max-age"], "86400");
        let allowed = pending.headers["access-control-allow-headers"].to_str().unwrap();
        for name in
            ["apikey", "x-api-key", "authorization", "content-type", "client-sdk-type", "x-aptos-client"]
        {
            assert!(allowed.split(", ").any(|header| header == name), "{name}");
        }
    }

    // Shows (Routes and bodies).
    #[tokio::test]
    async fn a_preflight_is_allowed_up_to_64_headers_that_it_requests() {
        let allowed = async |requested: &[&str]| {
            let mut preflight = request("OPTIONS", "/toy");
            for requested in requested {
                let value = requested.parse().unwrap();
                preflight.headers_mut().append("access-control-request-headers", value);
            }
            let pending = send(preflight).await;
            assert_eq!(pending.headers["vary"], "access-control-request-headers");
            assert!(!pending.headers.contains_key("access-control-allow-credentials"));
            let allowed = pending.headers["access-control-allow-headers"].to_str().unwrap().to_owned();
            allowed.split(", ").map(str::to_owned).collect::<Vec<_>>()
        };
        let usual = allowed(&[]).await;
        let two = allowed(&["apikey, baggage,sentry-trace", "tron-pro-api-key"]).await;
        assert_eq!(two[usual.len()..], ["baggage", "sentry-trace", "tron-pro-api-key"]);
        assert_eq!(allowed(&["a b, (c), , x\"y, a@b", "ContentType:"]).await, usual, "no token");
        let many: Vec<String> = (0..100).map(|n| format!("x-n{n}")).collect();
        assert_eq!(allowed(&[&many.join(",")]).await[usual.len()..], many[..64]);
    }

    #[tokio::test]
    async fn heads_above_the_limits_are_refused() {
        let long = format!("/toy?{}", "x".repeat(8 * 1024));
        assert_eq!(send(request("POST", &long)).await.refusal, Some(Refusal::UriTooLong));
        let mut many = request("POST", "/toy");
        for n in 0..101 {
            many.headers_mut().append("x-n", HeaderValue::from(n));
        }
        assert_eq!(send(many).await.refusal, Some(Refusal::HeadersTooLarge));
        let mut large = request("POST", "/toy");
        large.headers_mut().insert("x-large", HeaderValue::from_str(&"x".repeat(16 * 1024)).unwrap());
        assert_eq!(send(large).await.refusal, Some(Refusal::HeadersTooLarge));
    }
}
