//! The opening handshake of a WebSocket: with clients (RFC 6455, section 4, over HTTP/1.1; RFC 8441, section 5, over
//! HTTP/2) and with nodes (over HTTP/1.1).
//!
//! The gateway reads the handshake of a client, makes its own handshake with a node, and answers the client only after
//! the node has answered. Sub-protocols are forwarded, and the node chooses. Extensions are declined on both sides,
//! because frames are forwarded unchanged: a node must not compress frames for a client that has not agreed to it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::ext::Protocol;
use rpcgate_core::secret::{NoRandomness, random_text};
use sha1::{Digest, Sha1};

/// The text that is appended to the key of a handshake before it is hashed (RFC 6455, section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
const UPGRADE_TOKEN: HeaderValue = HeaderValue::from_static("Upgrade");
const VERSION: HeaderValue = HeaderValue::from_static("13");

/// The length of a key in bytes before it is encoded.
const KEY: usize = 16;

/// A valid handshake of a client.
///
/// ```
/// use http::{Request, Response};
/// use rpcgate_layers::transport::ws::{ClientHandshake, NodeHandshake};
///
/// let to_node = NodeHandshake::new()?;
/// let mut request = Request::new(());
/// to_node.write(&["graphql-ws".parse()?], request.headers_mut());
///
/// let from_client = ClientHandshake::read(&request)?;
/// let response = from_client.response(Some("graphql-ws".parse()?));
/// assert_eq!(response.status(), 101);
/// assert_eq!(to_node.check(&response, from_client.protocols())?, Some("graphql-ws".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientHandshake {
    /// The answer to the client's key. Over HTTP/2 there is no key.
    accept: Option<HeaderValue>,
    protocols: Vec<HeaderValue>,
}

/// The reason why a request is not a valid handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BadHandshake {
    /// The request does not ask for a WebSocket: it is neither a `GET` over HTTP/1.1 with `Upgrade: websocket`, nor a
    /// `CONNECT` over HTTP/2 whose `:protocol` is `websocket`.
    NotWebSocket,
    /// The request asks for a protocol version other than 13.
    Version,
    /// Over HTTP/1.1: `Sec-WebSocket-Key` is missing, is present twice, or is not 16 bytes in Base64.
    Key,
}

impl std::fmt::Display for BadHandshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BadHandshake::NotWebSocket => "this path takes WebSocket handshakes",
            BadHandshake::Version => "the version of WebSocket is 13",
            BadHandshake::Key => "Sec-WebSocket-Key must be 16 bytes in Base64",
        })
    }
}

impl std::error::Error for BadHandshake {}

impl ClientHandshake {
    /// Reads the handshake in `request`. Over HTTP/2 its `:protocol` is in the extensions, as hyper's [`Protocol`].
    ///
    /// # Errors
    /// [`BadHandshake`] if the request is not a valid handshake.
    pub fn read<B>(request: &Request<B>) -> Result<Self, BadHandshake> {
        let headers = request.headers();
        let is_connect = request.version() == Version::HTTP_2;
        let asks = if is_connect {
            let protocol = request.extensions().get::<Protocol>();
            request.method() == Method::CONNECT
                && protocol.is_some_and(|protocol| protocol.as_str().eq_ignore_ascii_case("websocket"))
        } else {
            request.method() == Method::GET
                && request.version() == Version::HTTP_11
                && has_token(headers, &UPGRADE, "websocket")
                && has_token(headers, &CONNECTION, "upgrade")
        };
        if !asks {
            return Err(BadHandshake::NotWebSocket);
        }
        if single(headers, &SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
            return Err(BadHandshake::Version);
        }
        let protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().cloned().collect();
        if is_connect {
            return Ok(ClientHandshake { accept: None, protocols });
        }
        let key = single(headers, &SEC_WEBSOCKET_KEY).ok_or(BadHandshake::Key)?;
        let bytes = BASE64_STANDARD.decode(key.as_bytes()).map_err(|_| BadHandshake::Key)?;
        if bytes.len() != KEY {
            return Err(BadHandshake::Key);
        }
        Ok(ClientHandshake { accept: Some(accept(key.as_bytes())), protocols })
    }

    /// Reports whether the stream shares its connection with others, over HTTP/2.
    pub fn is_multiplexed(&self) -> bool {
        self.accept.is_none()
    }

    /// Returns the sub-protocols that the client offers: the values of `Sec-WebSocket-Protocol`, each a list.
    pub fn protocols(&self) -> &[HeaderValue] {
        &self.protocols
    }

    /// Returns the response that opens the stream, with the sub-protocol that the node has chosen: 101, or 200 over
    /// HTTP/2.
    pub fn response(&self, protocol: Option<HeaderValue>) -> Response<()> {
        let mut response = Response::new(());
        if let Some(accept) = &self.accept {
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            let headers = response.headers_mut();
            headers.insert(UPGRADE, WEBSOCKET);
            headers.insert(CONNECTION, UPGRADE_TOKEN);
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept.clone());
        }
        if let Some(protocol) = protocol {
            response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        response
    }
}

/// A handshake with a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeHandshake {
    key: HeaderValue,
}

/// The reason why a node's response does not open a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BadNodeHandshake {
    /// The node refused the handshake with this status.
    Status(StatusCode),
    /// The response does not switch to WebSocket although its status is 101.
    NotWebSocket,
    /// `Sec-WebSocket-Accept` does not match the key: the response is for another request, or not from a WebSocket
    /// server.
    Accept,
    /// The response uses an extension that was not offered.
    Extension,
    /// The response chooses a sub-protocol that was not offered.
    Protocol,
}

impl std::fmt::Display for BadNodeHandshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadNodeHandshake::Status(status) => write!(f, "the node refused the stream with status {status}"),
            BadNodeHandshake::NotWebSocket => f.write_str("the node does not switch to WebSocket"),
            BadNodeHandshake::Accept => f.write_str("the node's Sec-WebSocket-Accept is wrong"),
            BadNodeHandshake::Extension => f.write_str("the node uses an extension that was not offered"),
            BadNodeHandshake::Protocol => f.write_str("the node chose a sub-protocol that was not offered"),
        }
    }
}

impl std::error::Error for BadNodeHandshake {}

impl NodeHandshake {
    /// Creates a handshake with a new key.
    ///
    /// # Errors
    /// [`NoRandomness`] if the system has no randomness.
    pub fn new() -> Result<Self, NoRandomness> {
        let mut random = String::with_capacity(KEY);
        random_text(KEY, &mut random)?;
        Ok(Self::of(random.as_bytes()))
    }

    fn of(key: &[u8]) -> Self {
        NodeHandshake { key: text(&BASE64_STANDARD.encode(key)) }
    }

    /// Writes the headers of the handshake, which replace existing ones. `protocols` are offered to the node, and no
    /// extensions.
    pub fn write(&self, protocols: &[HeaderValue], headers: &mut HeaderMap) {
        headers.remove(SEC_WEBSOCKET_EXTENSIONS);
        headers.remove(SEC_WEBSOCKET_PROTOCOL);
        headers.insert(UPGRADE, WEBSOCKET);
        headers.insert(CONNECTION, UPGRADE_TOKEN);
        headers.insert(SEC_WEBSOCKET_VERSION, VERSION);
        headers.insert(SEC_WEBSOCKET_KEY, self.key.clone());
        for protocol in protocols {
            headers.append(SEC_WEBSOCKET_PROTOCOL, protocol.clone());
        }
    }

    /// Checks the node's response to the handshake, which offered `offered`. Returns the sub-protocol that the node has
    /// chosen.
    ///
    /// # Errors
    /// [`BadNodeHandshake`] if the stream is not open. The caller must close its connection.
    pub fn check<B>(
        &self,
        response: &Response<B>,
        offered: &[HeaderValue],
    ) -> Result<Option<HeaderValue>, BadNodeHandshake> {
        let headers = response.headers();
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(BadNodeHandshake::Status(response.status()));
        }
        if !has_token(headers, &UPGRADE, "websocket") || !has_token(headers, &CONNECTION, "upgrade") {
            return Err(BadNodeHandshake::NotWebSocket);
        }
        if single(headers, &SEC_WEBSOCKET_ACCEPT) != Some(&accept(self.key.as_bytes())) {
            return Err(BadNodeHandshake::Accept);
        }
        if headers.contains_key(SEC_WEBSOCKET_EXTENSIONS) {
            return Err(BadNodeHandshake::Extension);
        }
        if !headers.contains_key(SEC_WEBSOCKET_PROTOCOL) {
            return Ok(None);
        }
        let chosen = single(headers, &SEC_WEBSOCKET_PROTOCOL).ok_or(BadNodeHandshake::Protocol)?;
        let is_offered = offered.iter().flat_map(tokens).any(|token| chosen == token);
        if is_offered { Ok(Some(chosen.clone())) } else { Err(BadNodeHandshake::Protocol) }
    }
}

fn accept(key: &[u8]) -> HeaderValue {
    text(&BASE64_STANDARD.encode(Sha1::new().chain_update(key).chain_update(GUID).finalize()))
}

/// Base64 is always a valid header value.
fn text(base64: &str) -> HeaderValue {
    HeaderValue::from_str(base64).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Returns the value of a header that is present once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

/// Reports whether a list contains a token, in any case. The list may be spread over several headers.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    headers.get_all(name).iter().flat_map(tokens).any(|one| one.eq_ignore_ascii_case(token))
}

/// Returns the members of a list. Empty ones are ignored (RFC 9110, section 5.6.1).
fn tokens(list: &HeaderValue) -> impl Iterator<Item = &str> {
    list.to_str().unwrap_or_default().split(',').map(str::trim).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455, section 1.3.
    const RFC_KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
    const RFC_ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

    fn request(rows: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::get("/ws/eth").body(()).unwrap();
        for (name, value) in rows {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().append(name, value.parse().unwrap());
        }
        request
    }

    const VALID: [(&str, &str); 4] = [
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", RFC_KEY),
    ];

    /// Returns `VALID` with another value for one header.
    fn with(name: &str, value: &str) -> Request<()> {
        request(&VALID.map(|(known, valid)| (known, if known == name { value } else { valid })))
    }

    #[test]
    fn the_example_of_the_rfc_is_answered_exactly() {
        let response = ClientHandshake::read(&request(&VALID)).unwrap().response(None);
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()["sec-websocket-accept"], RFC_ACCEPT);
        assert_eq!(response.headers()["upgrade"], "websocket");
        assert!(!response.headers().contains_key("sec-websocket-protocol"));
    }

    #[test]
    fn names_of_tokens_are_compared_in_any_spelling_and_in_lists() {
        for (name, value) in [("upgrade", "h2c, WebSocket"), ("connection", "keep-alive, upgrade")] {
            assert!(ClientHandshake::read(&with(name, value)).is_ok(), "{name}: {value}");
        }
    }

    #[test]
    fn requests_that_are_no_valid_handshake_are_refused_with_the_reason() {
        let mut rows = vec![
            (request(&[]), BadHandshake::NotWebSocket),
            (with("upgrade", "h2c"), BadHandshake::NotWebSocket),
            (with("connection", "keep-alive"), BadHandshake::NotWebSocket),
            (with("sec-websocket-version", "8"), BadHandshake::Version),
            (with("sec-websocket-key", "c2hvcnQ="), BadHandshake::Key),
            (with("sec-websocket-key", "no base64 at all, sixteen"), BadHandshake::Key),
            (request(&VALID[..3]), BadHandshake::Key),
            (request(&[&VALID[..], &VALID[3..]].concat()), BadHandshake::Key),
        ];
        let mut post = request(&VALID);
        *post.method_mut() = Method::POST;
        let mut old = request(&VALID);
        *old.version_mut() = Version::HTTP_10;
        rows.extend([(post, BadHandshake::NotWebSocket), (old, BadHandshake::NotWebSocket)]);
        for (request, why) in rows {
            assert_eq!(ClientHandshake::read(&request), Err(why), "{request:?}");
        }
    }

    /// The example of RFC 8441, section 5.1, with another `:protocol`.
    fn connect(protocol: Option<&'static str>, rows: &[(&str, &str)]) -> Request<()> {
        let mut connect = request(rows);
        *connect.method_mut() = Method::CONNECT;
        *connect.version_mut() = Version::HTTP_2;
        if let Some(protocol) = protocol {
            connect.extensions_mut().insert(Protocol::from_static(protocol));
        }
        connect
    }

    #[test]
    fn a_handshake_over_http2_has_no_key_and_is_answered_with_200() {
        let offered = [("sec-websocket-version", "13"), ("sec-websocket-protocol", "chat, superchat")];
        let handshake = ClientHandshake::read(&connect(Some("websocket"), &offered)).unwrap();
        assert!(handshake.is_multiplexed());
        assert_eq!(handshake.protocols(), ["chat, superchat"]);
        let response = handshake.response(Some(HeaderValue::from_static("chat")));
        assert_eq!((response.status(), response.headers().len()), (StatusCode::OK, 1));
        assert_eq!(response.headers()["sec-websocket-protocol"], "chat");
    }

    #[test]
    fn other_requests_of_http2_are_no_handshakes() {
        let version = [VALID[2]];
        let rows = [
            (connect(Some("connect-udp"), &version), BadHandshake::NotWebSocket),
            (connect(None, &version), BadHandshake::NotWebSocket),
            (connect(Some("websocket"), &[]), BadHandshake::Version),
            (connect(Some("websocket"), &[("sec-websocket-version", "8")]), BadHandshake::Version),
        ];
        for (request, why) in rows {
            assert_eq!(ClientHandshake::read(&request), Err(why), "{request:?}");
        }
        let mut get = connect(Some("websocket"), &VALID);
        *get.method_mut() = Method::GET;
        assert_eq!(ClientHandshake::read(&get), Err(BadHandshake::NotWebSocket));
        let mut old = connect(Some("websocket"), &VALID);
        *old.version_mut() = Version::HTTP_11;
        assert_eq!(ClientHandshake::read(&old), Err(BadHandshake::NotWebSocket));
    }

    #[test]
    fn a_request_to_a_node_offers_protocols_and_no_extensions() {
        let mut headers = HeaderMap::new();
        headers.insert(SEC_WEBSOCKET_EXTENSIONS, HeaderValue::from_static("permessage-deflate"));
        headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("that of the client"));
        let protocols = ["a, b", "c"].map(HeaderValue::from_static);
        NodeHandshake::of(b"the sample nonce").write(&protocols, &mut headers);
        assert_eq!(headers["sec-websocket-key"], RFC_KEY);
        assert!(!headers.contains_key("sec-websocket-extensions"));
        assert_eq!(headers.get_all("sec-websocket-protocol").iter().collect::<Vec<_>>(), ["a, b", "c"]);
    }

    #[test]
    fn two_handshakes_have_different_keys() {
        assert_ne!(NodeHandshake::new().unwrap(), NodeHandshake::new().unwrap());
    }

    #[test]
    fn a_nodes_response_is_believed_only_if_it_belongs_to_the_request() {
        let handshake = NodeHandshake::of(b"the sample nonce");
        let offered = ["a, b", ",,", ""].map(HeaderValue::from_static);
        let check = |status: u16, rows: &[(&str, &str)]| {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            *response.headers_mut() = request(rows).into_parts().0.headers;
            handshake.check(&response, &offered)
        };
        let valid =
            [("upgrade", "websocket"), ("connection", "Upgrade, x"), ("sec-websocket-accept", RFC_ACCEPT)];
        let and = |row| [&valid[..], &[row]].concat();
        assert_eq!(check(101, &valid), Ok(None));
        assert_eq!(
            check(101, &and(("sec-websocket-protocol", "b"))),
            Ok(Some(HeaderValue::from_static("b")))
        );
        let forbidden = BadNodeHandshake::Status(StatusCode::FORBIDDEN);
        assert_eq!(check(403, &valid), Err(forbidden));
        assert_eq!(check(101, &valid[1..]), Err(BadNodeHandshake::NotWebSocket));
        assert_eq!(check(101, &valid[..2]), Err(BadNodeHandshake::Accept));
        let empty = and(("sec-websocket-protocol", ""));
        assert_eq!(
            check(101, &empty),
            Err(BadNodeHandshake::Protocol),
            "an empty member of a list is no offer"
        );
        let other = and(("sec-websocket-accept", RFC_ACCEPT));
        assert_eq!(check(101, &other), Err(BadNodeHandshake::Accept), "it is there twice");
        let compressed = and(("sec-websocket-extensions", "permessage-deflate"));
        assert_eq!(check(101, &compressed), Err(BadNodeHandshake::Extension));
        for protocol in ["c", "a, b", ""] {
            let chosen = and(("sec-websocket-protocol", protocol));
            assert_eq!(check(101, &chosen), Err(BadNodeHandshake::Protocol), "{protocol}");
        }
    }
}
