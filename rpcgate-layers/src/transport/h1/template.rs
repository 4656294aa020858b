use super::headers::{is_framing, is_hop_by_hop};
use super::request::NodeRequest;
use crate::headers::metered::number;
use crate::nodes::config::NodeConfig;
use crate::nodes::url::NodeUrl;
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, PROXY_AUTHORIZATION,
    USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use http_body_util::Full;

/// The common part of all requests to one node: its target and headers.
pub(super) struct RequestTemplate {
    url: NodeUrl,
    target: Uri,
    /// The headers of a JSON-RPC call, with a slot for the length of the body.
    headers: HeaderMap,
    /// The headers of a request whose content type comes from the caller.
    untyped: HeaderMap,
    /// The names of the headers that the operator set for the node.
    own: Vec<HeaderName>,
}

impl RequestTemplate {
    pub(super) fn new(config: &NodeConfig, url: &NodeUrl) -> Self {
        let own: Vec<_> = config.headers.iter().map(|(name, _)| name.clone()).collect();
        let untyped = node_headers(config, url);
        let mut headers = untyped.clone();
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, number(0));
        RequestTemplate { target: url.target(), url: url.clone(), headers, untyped, own }
    }

    /// Returns the HTTP request; `None` if its target is too long for a URI.
    pub(super) fn request(&self, requested: &NodeRequest) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::new(Full::new(requested.body.clone()));
        *request.method_mut() = requested.method.clone();
        match &requested.path {
            None => {
                *request.uri_mut() = self.target.clone();
                *request.headers_mut() = self.headers.clone();
                // hyper would add it otherwise, and the table would have to grow.
                request.headers_mut().insert(CONTENT_LENGTH, number(requested.body.len() as u64));
            }
            Some(path) => {
                *request.uri_mut() = self.url.below(path)?;
                *request.headers_mut() = self.merged(&requested.headers);
            }
        }
        Some(request)
    }

    fn merged(&self, requested: &HeaderMap) -> HeaderMap {
        let mut headers = self.untyped.clone();
        for (name, value) in requested {
            if !is_gateways(name) && !is_hop_by_hop(name) && !self.is_set(name) {
                headers.append(name, value.clone());
            }
        }
        headers
    }

    fn is_set(&self, name: &HeaderName) -> bool {
        name != CONTENT_TYPE && self.headers.contains_key(name) || self.own.contains(name)
    }
}

/// Returns the headers of every request to a node. Values are static or shared, so that a copy of the table copies no
/// text.
pub(crate) fn node_headers(config: &NodeConfig, url: &NodeUrl) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(5 + config.headers.len());
    headers.insert(HOST, url.authority.clone());
    // Within a network, decoding costs more than compression saves.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("rpcgate/", env!("CARGO_PKG_VERSION"))));
    if let Some(login) = &url.login {
        headers.insert(AUTHORIZATION, login.clone());
    }
    for (name, value) in &config.headers {
        if !is_framing(name) && !is_hop_by_hop(name) {
            headers.insert(name.clone(), value.clone());
        }
    }
    headers
}

/// Reports whether only the gateway itself may set a request header, or whether the header would reveal the client to
/// the node: its credentials, its keys in every spelling that gateways use, and its address.
pub(in crate::transport) fn is_gateways(name: &HeaderName) -> bool {
    is_framing(name)
        || [HOST, AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE].contains(name)
        || is_key(name.as_str())
        || is_client_address(name.as_str())
}

/// Reports whether a header contains a key: `apikey`, `x-api-key`, `api_key`, `apikey-bin`, `tron-pro-api-key`.
fn is_key(name: &str) -> bool {
    let name = name.strip_suffix("-bin").unwrap_or(name);
    name.bytes().rev().filter(|byte| !matches!(byte, b'-' | b'_')).take(b"apikey".len()).eq(*b"yekipa")
}

/// Reports whether a header contains the client's address, as those of proxies do.
fn is_client_address(name: &str) -> bool {
    name.starts_with("x-forwarded-")
        || matches!(name, "forwarded" | "x-real-ip" | "x-client-ip" | "true-client-ip" | "cf-connecting-ip")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use http::uri::PathAndQuery;

    fn template(config: &NodeConfig) -> RequestTemplate {
        RequestTemplate::new(config, config.name())
    }

    fn text(request: &Request<Full<Bytes>>, name: &str) -> Vec<String> {
        request.headers().get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn an_operators_header_replaces_ours_but_never_changes_the_framing() {
        let mut config = NodeConfig::new("http://u:p@h/".parse().unwrap());
        for (name, value) in [
            ("authorization", "Bearer t"),
            ("user-agent", "me"),
            ("x-key", "k"),
            ("content-length", "1"),
            ("connection", "close"),
        ] {
            config.headers.push((HeaderName::from_static(name), HeaderValue::from_static(value)));
        }
        let request = template(&config).request(&NodeRequest::json_rpc(Bytes::from_static(b"{}"))).unwrap();
        assert_eq!(text(&request, "authorization"), ["Bearer t"]);
        assert_eq!(text(&request, "user-agent"), ["me"]);
        assert_eq!(text(&request, "x-key"), ["k"]);
        assert_eq!(text(&request, "content-type"), ["application/json"]);
        assert_eq!(text(&request, "content-length"), ["2"], "that of the body");
        assert!(text(&request, "connection").is_empty());
    }

    #[test]
    fn no_credential_or_framing_header_of_a_caller_is_forwarded() {
        let mut config = NodeConfig::new("http://u:p@h/".parse().unwrap());
        config.headers.push((HeaderName::from_static("x-own"), HeaderValue::from_static("operator")));
        let mut requested = NodeRequest::json_rpc(Bytes::new());
        (requested.method, requested.path) = (Method::GET, Some(PathAndQuery::from_static("/x")));
        for name in [
            "authorization",
            "apikey",
            "x-api-key",
            "cookie",
            "proxy-authorization",
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "te",
            "upgrade",
            "expect",
            "x-own",
            "accept",
            "content-type",
        ] {
            requested.headers.insert(HeaderName::from_static(name), HeaderValue::from_static("client"));
        }
        let request = template(&config).request(&requested).unwrap();
        let mut passed: Vec<_> = request
            .headers()
            .iter()
            .filter(|(_, value)| *value == "client")
            .map(|(name, _)| name.as_str())
            .collect();
        passed.sort_unstable();
        assert_eq!(passed, ["accept", "content-type"]);
        assert_eq!(text(&request, "authorization"), ["Basic dTpw"]);
        assert_eq!(text(&request, "x-own"), ["operator"]);
    }
}
