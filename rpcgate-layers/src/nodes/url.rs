use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Uri};
use rpcgate_core::tally::Transport;
use rpcgate_core::url_secrets::{shown_login, shown_target};
use std::fmt;

/// The address of a node for one protocol, with user and password if the node requires them. `FromStr` reads an
/// `http://` or `https://` URL, and [`NodeUrl::parse`] a URL of any protocol.
///
/// `Display` omits the secrets that [`url_secrets`](rpcgate_core::url_secrets) lists.
///
/// ```
/// use rpcgate_core::tally::Transport;
/// use rpcgate_layers::nodes::NodeUrl;
///
/// let url: NodeUrl = "https://rpc:hunter2@node.example:8545/v3?apikey=abc".parse()?;
/// assert_eq!(url.to_string(), "https://rpc:***@node.example:8545/v3?apikey=***");
/// let url = NodeUrl::parse("grpcs://node.example:9090", Transport::Grpc)?;
/// assert_eq!((url.transport(), url.to_string().as_str()), (Transport::Grpc, "grpcs://node.example:9090"));
/// # Ok::<(), rpcgate_layers::nodes::BadUrl>(())
/// ```
#[derive(Clone)]
pub struct NodeUrl {
    pub(crate) transport: Transport,
    pub(crate) tls: bool,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
    /// The value of `Host`: with the port unless it is the default of the scheme.
    pub(crate) authority: HeaderValue,
    path: PathAndQuery,
    /// The value of `Authorization` if the URL names a user: RFC 7617.
    pub(crate) login: Option<HeaderValue>,
    shown: Box<str>,
}

/// The reason why a text is not the URL of a node. It does not repeat the text, which may contain a password.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BadUrl {
    /// The text does not begin with a scheme of the protocol; see [`NodeUrl::parse`].
    Scheme,
    /// The host or the port cannot be read.
    Authority,
    /// The path or the query has a character that is not allowed there, or the URL has a fragment.
    Path,
    /// The user or the password has a broken percent-escape.
    Login,
}

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadUrl::Scheme => {
                "a node's URL begins with a scheme of its protocol, such as http:// or https://"
            }
            BadUrl::Authority => "the URL names no host, or its port is no number from 1 to 65535",
            BadUrl::Path => "the path or query of the URL cannot be read",
            BadUrl::Login => "user or password of the URL have a broken percent-escape",
        })
    }
}

impl std::error::Error for BadUrl {}

impl std::str::FromStr for NodeUrl {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Self, BadUrl> {
        NodeUrl::parse(text, Transport::Http)
    }
}

/// Returns the schemes of a protocol, and whether each means TLS.
fn schemes(transport: Transport) -> &'static [(&'static str, bool)] {
    match transport {
        Transport::Http => &[("http", false), ("https", true)],
        Transport::Ws => &[("ws", false), ("wss", true)],
        Transport::Grpc => &[("grpc", false), ("grpcs", true), ("http", false), ("https", true)],
    }
}

impl NodeUrl {
    /// Reads the address of a node for this protocol. The schemes are `http` and `https` for HTTP, `ws` and `wss` for
    /// WebSocket, `grpc` and `http` for gRPC without TLS, `grpcs` and `https` for gRPC over TLS. The default port is
    /// 80, or 443 over TLS.
    ///
    /// # Errors
    /// [`BadUrl`] says which part of the text is wrong.
    pub fn parse(text: &str, transport: Transport) -> Result<Self, BadUrl> {
        let (scheme, rest) = text.split_once("://").ok_or(BadUrl::Scheme)?;
        let known = schemes(transport).iter().find(|(known, _)| scheme.eq_ignore_ascii_case(known));
        let (scheme, tls) = *known.ok_or(BadUrl::Scheme)?;
        if rest.contains('#') {
            return Err(BadUrl::Path);
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (login, host) = match authority.rsplit_once('@') {
            Some((login, host)) => (Some(login), host),
            None => (None, authority),
        };
        let port = port(host, tls)?;
        let host: Authority =
            host.strip_suffix(':').unwrap_or(host).parse().map_err(|_| BadUrl::Authority)?;
        let bare = host.host().trim_start_matches('[').trim_end_matches(']');
        if bare.is_empty() {
            return Err(BadUrl::Authority);
        }
        let default = if tls { 443 } else { 80 };
        let shown_host =
            if port == default { host.host().to_owned() } else { format!("{}:{port}", host.host()) };
        let path: PathAndQuery = match path {
            "" => PathAndQuery::from_static("/"),
            query if query.starts_with('?') => format!("/{query}").parse().map_err(|_| BadUrl::Path)?,
            path => path.parse().map_err(|_| BadUrl::Path)?,
        };
        Ok(NodeUrl {
            transport,
            tls,
            shown: shown(scheme, login, &shown_host, &path).into(),
            host: bare.into(),
            port,
            authority: HeaderValue::from_str(&shown_host).map_err(|_| BadUrl::Authority)?,
            path,
            login: login.map(basic).transpose()?,
        })
    }

    /// Returns the host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the protocol of this address.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Returns the target of a request to the URL itself.
    pub(crate) fn target(&self) -> Uri {
        Uri::from(self.path.clone())
    }

    /// Returns the target of a request to `path` below the URL. Both queries are kept, the URL's own first. `None` if
    /// the result is too long for a URI.
    pub(crate) fn below(&self, path: &PathAndQuery) -> Option<Uri> {
        if self.path == "/" {
            return Some(Uri::from(path.clone()));
        }
        let mut joined = String::with_capacity(self.path.as_str().len() + path.as_str().len() + 1);
        joined.push_str(self.path.path().trim_end_matches('/'));
        joined.push_str(path.path());
        let queries = [self.path.query(), path.query()];
        for (query, mark) in queries.into_iter().flatten().filter(|query| !query.is_empty()).zip(["?", "&"]) {
            joined.push_str(mark);
            joined.push_str(query);
        }
        PathAndQuery::try_from(joined).ok().map(Uri::from)
    }
}

/// Returns the port of `host[:port]`, or the default port.
fn port(host: &str, tls: bool) -> Result<u16, BadUrl> {
    match host.rsplit_once(':') {
        Some((_, digits)) if !digits.ends_with(']') && !digits.is_empty() => match digits.parse() {
            Ok(0) | Err(_) => Err(BadUrl::Authority),
            Ok(port) => Ok(port),
        },
        _ => Ok(if tls { 443 } else { 80 }),
    }
}

fn basic(login: &str) -> Result<HeaderValue, BadUrl> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let mut pair = unescaped(user).ok_or(BadUrl::Login)?;
    pair.push(b':');
    pair.extend(unescaped(password).ok_or(BadUrl::Login)?);
    let value = format!("Basic {}", BASE64_STANDARD.encode(pair));
    let mut value = HeaderValue::from_str(&value).map_err(|_| BadUrl::Login)?;
    value.set_sensitive(true);
    Ok(value)
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = tail;
    }
    Some(bytes)
}

fn shown(scheme: &str, login: Option<&str>, host: &str, path: &PathAndQuery) -> String {
    let mut shown = format!("{scheme}://");
    if let Some(login) = login {
        shown.extend([shown_login(login, "***").as_str(), "@"]);
    }
    shown.push_str(host);
    if path.as_str() != "/" {
        shown.push_str(&shown_target(path.as_str(), "***"));
    }
    shown
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> NodeUrl {
        text.parse().unwrap()
    }

    #[test]
    fn host_port_and_target_are_read() {
        for (text, host, port, authority, target) in [
            ("http://h", "h", 80, "h", "/"),
            ("HTTPS://h:443/", "h", 443, "h", "/"),
            ("https://h:8443/a/b?c=d", "h", 8443, "h:8443", "/a/b?c=d"),
            ("http://[::1]:8545?x", "::1", 8545, "[::1]:8545", "/?x"),
            ("http://[::1]/", "::1", 80, "[::1]", "/"),
            ("http://u:p@10.0.0.1:1/", "10.0.0.1", 1, "10.0.0.1:1", "/"),
        ] {
            let url = url(text);
            assert_eq!(
                (&*url.host, url.port, url.authority.to_str().unwrap()),
                (host, port, authority),
                "{text}"
            );
            assert_eq!(url.target().to_string(), target, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_the_url_of_a_node_is_refused_by_its_fault() {
        for (text, why) in [
            ("ws://h", BadUrl::Scheme),
            ("h:80", BadUrl::Scheme),
            ("http://", BadUrl::Authority),
            ("http://:80", BadUrl::Authority),
            ("http://h:0", BadUrl::Authority),
            ("http://h:65536", BadUrl::Authority),
            ("http://a b/", BadUrl::Authority),
            ("http://h/#x", BadUrl::Path),
            ("http://h/a b", BadUrl::Path),
            ("http://u:%zz@h", BadUrl::Login),
            ("http://u:%2@h", BadUrl::Login),
            ("http://u:%+1@h", BadUrl::Login),
        ] {
            assert_eq!(text.parse::<NodeUrl>().unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn each_protocol_has_its_schemes() {
        for (text, transport, tls) in [
            ("ws://h", Transport::Ws, false),
            ("WSS://h", Transport::Ws, true),
            ("grpc://h", Transport::Grpc, false),
            ("grpcs://h", Transport::Grpc, true),
            ("http://h", Transport::Grpc, false),
            ("https://h", Transport::Grpc, true),
        ] {
            let url = NodeUrl::parse(text, transport).unwrap();
            assert_eq!((url.transport, url.tls, url.port), (transport, tls, if tls { 443 } else { 80 }));
            assert_eq!(url.to_string(), text.to_lowercase());
        }
        for (text, transport) in
            [("http://h", Transport::Ws), ("grpc://h", Transport::Http), ("ws://h", Transport::Grpc)]
        {
            assert_eq!(NodeUrl::parse(text, transport).err(), Some(BadUrl::Scheme), "{text}");
        }
    }

    #[test]
    fn user_and_password_become_a_basic_login() {
        let login = |text: &str| url(text).login.map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(
            login("http://Aladdin:open%20sesame@h").as_deref(),
            Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
        );
        assert_eq!(login("http://u@h").as_deref(), Some("Basic dTo="));
        assert_eq!(login("http://h"), None);
    }

    // Shows (Keys).
    #[test]
    fn nothing_secret_is_shown() {
        for (text, shown) in [
            ("http://h/", "http://h"),
            ("http://u:p%40@h:1/", "http://u:***@h:1"),
            ("https://h/v3/0123456789abcdef0123/x", "https://h/v3/***/x"),
            ("https://h/?a=b&cd&e=", "https://h/?a=***&***&e=***"),
        ] {
            assert_eq!(format!("{0} {0:?}", url(text)), format!("{shown} {shown}"));
        }
    }

    #[test]
    fn a_path_is_joined_below_the_urls_own() {
        let below = |base: &str, path: &'static str| {
            url(base).below(&PathAndQuery::from_static(path)).unwrap().to_string()
        };
        assert_eq!(below("http://h", "/a?x=1"), "/a?x=1");
        assert_eq!(below("http://h/api/?key=k", "/a"), "/api/a?key=k");
        assert_eq!(below("http://h/api?key=k", "/a/b?x=1"), "/api/a/b?key=k&x=1");
    }
}
