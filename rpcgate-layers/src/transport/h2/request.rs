use crate::nodes::config::NodeConfig;
use crate::nodes::url::NodeUrl;
use crate::transport::h1::template::node_headers;
use crate::transport::h1::{is_gateways, is_hop_by_hop};
use http::header::{ACCEPT_ENCODING, HOST, TE};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};

pub(crate) struct GrpcRequest<'a, M> {
    /// The target. A query is left out, because gRPC calls have none.
    pub(crate) uri: &'a Uri,
    /// The metadata of the client. Headers that only the gateway may send are left out.
    pub(crate) metadata: &'a HeaderMap,
    /// The header in which clients of this chain send their key. It is left out too.
    pub(crate) key_header: Option<&'static str>,
    /// The remaining time of the call, in the form of its header.
    pub(crate) timeout: Option<HeaderValue>,
    /// The messages. An error in them resets the stream.
    pub(crate) messages: M,
}

/// The header with the remaining time of a call.
pub(crate) const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The common part of all calls to one node.
pub(super) struct GrpcTemplate {
    url: NodeUrl,
    scheme: Scheme,
    authority: Option<Authority>,
    headers: HeaderMap,
}

impl GrpcTemplate {
    pub(super) fn new(config: &NodeConfig, url: &NodeUrl) -> Self {
        let mut headers = node_headers(config, url);
        // `Host` is a part of the URI, and gRPC has its own header for encodings.
        headers.remove(HOST);
        headers.remove(ACCEPT_ENCODING);
        // Required of every gRPC request.
        headers.insert(TE, HeaderValue::from_static("trailers"));
        let authority = url.authority.to_str().ok().and_then(|text| text.parse().ok());
        let scheme = if url.tls { Scheme::HTTPS } else { Scheme::HTTP };
        GrpcTemplate { url: url.clone(), scheme, authority, headers }
    }

    /// Returns the head of the HTTP request; `None` if its target cannot be written as a URI.
    pub(super) fn head<M>(&self, call: &GrpcRequest<'_, M>) -> Option<Request<()>> {
        let path = match call.uri.path_and_query() {
            Some(path) if path.query().is_none() => self.url.below(path)?,
            _ => self.url.below(&call.uri.path().parse().ok()?)?,
        };
        let mut uri = path.into_parts();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = Some(self.authority.clone()?);
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = Uri::from_parts(uri).ok()?;
        let headers = request.headers_mut();
        *headers = self.headers.clone();
        for (name, value) in call.metadata {
            let is_own = is_gateways(name)
                || is_hop_by_hop(name)
                || *name == TIMEOUT
                || call.key_header.is_some_and(|key| name == key);
            if !is_own && !self.headers.contains_key(name) {
                headers.append(name.clone(), value.clone());
            }
        }
        if let Some(timeout) = &call.timeout {
            headers.insert(TIMEOUT, timeout.clone());
        }
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::tally::Transport;

    fn request(url: &str, metadata: &[(&'static str, &'static str)]) -> Request<()> {
        let url = NodeUrl::parse(url, Transport::Grpc).unwrap();
        let mut config = NodeConfig::new(url.clone());
        config.headers.push((HeaderName::from_static("x-operator"), HeaderValue::from_static("o")));
        let metadata = metadata
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let timeout = Some(HeaderValue::from_static("9S"));
        let uri = Uri::from_static("http://gateway/protocol.Wallet/Get?x=1");
        let call = GrpcRequest {
            uri: &uri,
            metadata: &metadata,
            key_header: Some("x-chain-token"),
            timeout,
            messages: (),
        };
        GrpcTemplate::new(&config, &url).head(&call).unwrap()
    }

    // Shows (Keys): A node gets the metadata of a gRPC call, but no key, no credential and no address.
    #[test]
    fn a_node_gets_the_metadata_of_the_client_but_no_key_no_credential_and_no_address() {
        let request = request(
            "grpc://u:p@node:9090",
            &[
                ("apikey", "rpcg_secret"),
                ("x-api-key", "rpcg_secret"),
                ("api-key", "rpcg_secret"),
                ("api_key", "rpcg_secret"),
                ("apikey-bin", "cnBjZ19zZWNyZXQ"),
                ("tron-pro-api-key", "rpcg_secret"),
                ("x-chain-token", "rpcg_secret"),
                ("x-forwarded-for", "203.0.113.9"),
                ("forwarded", "for=203.0.113.9"),
                ("x-real-ip", "203.0.113.9"),
                ("authorization", "Bearer mine"),
                ("proxy-authorization", "Basic x"),
                ("cookie", "a=b"),
                ("host", "gateway"),
                ("content-length", "5"),
                ("connection", "close"),
                ("grpc-timeout", "1M"),
                ("user-agent", "grpc-go/1"),
                ("x-operator", "mine"),
                ("te", "gzip"),
                ("content-type", "application/grpc+proto"),
                ("grpc-encoding", "gzip"),
                ("x-cosmos-block-height", "7"),
            ],
        );
        assert_eq!(request.uri(), "http://node:9090/protocol.Wallet/Get");
        let mut seen: Vec<_> = request
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        seen.sort();
        let agent = concat!("user-agent: rpcgate/", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            seen,
            [
                "authorization: Basic dTpw",
                "content-type: application/grpc+proto",
                "grpc-encoding: gzip",
                "grpc-timeout: 9S",
                "te: trailers",
                agent,
                "x-cosmos-block-height: 7",
                "x-operator: o",
            ]
        );
    }

    #[test]
    fn a_path_lies_below_that_of_the_nodes_url() {
        assert_eq!(request("grpcs://h/a/", &[]).uri(), "https://h/a/protocol.Wallet/Get");
    }
}
