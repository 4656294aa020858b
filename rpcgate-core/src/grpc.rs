//! gRPC calls: their paths in the only form that reaches a node, and their metered names.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The path of a gRPC call, `/package.Service/Method` (gRPC, "PROTOCOL-HTTP2", Requests).
///
/// Nodes and proxies disagree on unusual spellings, so only the form that protobuf compilers generate is accepted,
/// undecoded: package labels of letters, digits and underscores, the first with a small initial, and a service and a
/// method with capital initials.
///
/// ```
/// use rpcgate_core::grpc::GrpcPath;
///
/// let path = GrpcPath::parse("/cosmos.bank.v1beta1.Query/SupplyOf").unwrap();
/// assert_eq!((path.package(), path.service(), path.method()), ("cosmos.bank.v1beta1", "Query", "SupplyOf"));
/// assert!(path.is_of("cosmos") && path.is_of("cosmos.bank") && !path.is_of("cos"));
/// assert_eq!(GrpcPath::parse("/protocol.Wallet/../protocol.Wallet/GetNowBlock"), None);
/// assert_eq!(GrpcPath::parse("/protocol.Wallet/Get%4eowBlock"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrpcPath<'a> {
    full: &'a str,
    package: &'a str,
    service: &'a str,
    method: &'a str,
}

/// The maximum length of a path, in bytes.
const LONGEST: usize = 1024;

impl<'a> GrpcPath<'a> {
    /// Parses the path of a request; `None` if it has another form.
    pub fn parse(path: &'a str) -> Option<Self> {
        // This runs twice for each call, so it searches bytes and not characters.
        let find = |text: &str, byte| text.bytes().position(|found| found == byte);
        let last = |text: &str, byte| text.bytes().rposition(|found| found == byte);
        let named = path.strip_prefix('/')?;
        let (service, method) = named.split_at_checked(find(named, b'/')?)?;
        let (package, service) = service.split_at_checked(last(service, b'.')?)?;
        let method = method.get(1..)?;
        let service = service.get(1..)?;
        let is_sound = path.len() <= LONGEST
            && package.starts_with(|first: char| first.is_ascii_lowercase())
            && package.as_bytes().split(|byte| *byte == b'.').all(is_word)
            && [service, method]
                .map(str::as_bytes)
                .iter()
                .all(|name| is_word(name) && name[0].is_ascii_uppercase());
        is_sound.then_some(GrpcPath { full: path, package, service, method })
    }

    /// Returns the whole path.
    pub const fn as_str(&self) -> &'a str {
        self.full
    }

    /// Returns the proto package, such as `cosmos.bank.v1beta1`.
    pub const fn package(&self) -> &'a str {
        self.package
    }

    /// Returns the service without its package.
    pub const fn service(&self) -> &'a str {
        self.service
    }

    /// Returns the method as it was sent.
    pub const fn method(&self) -> &'a str {
        self.method
    }

    /// Reports whether the service belongs to `package` or to a package below it. Labels are compared whole.
    pub fn is_of(&self, package: &str) -> bool {
        let below = self.package.strip_prefix(package);
        !package.is_empty() && below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
    }
}

fn is_word(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// One gRPC call with any number of messages.
#[derive(Clone)]
pub struct GrpcCall {
    path: Box<str>,
    /// The offset of the method name in `path`.
    method: usize,
    name: Box<str>,
    received: Arc<AtomicUsize>,
}

impl GrpcCall {
    /// Creates the call of `path`. `received` counts the bytes of its messages as they arrive from the client.
    pub fn new(path: GrpcPath<'_>, received: Arc<AtomicUsize>) -> Self {
        GrpcCall {
            path: path.full.into(),
            method: path.full.len() - path.method.len(),
            name: metered(path).into(),
            received,
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the method as it was sent.
    pub fn sent(&self) -> &str {
        &self.path[self.method..]
    }

    /// Returns the metered name: the method in lower case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of message bytes received so far.
    pub fn received(&self) -> usize {
        self.received.load(Relaxed)
    }
}

impl fmt::Debug for GrpcCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcCall").field("path", &self.path).field("received", &self.received()).finish()
    }
}

/// Returns the metered name: the method in lower case, as the HTTP APIs of the same nodes spell it.
pub fn metered(path: GrpcPath<'_>) -> String {
    path.method.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule as a regular expression, without empty labels: `^/[a-z][A-Za-z0-9_.]*\.[A-Z]\w*/[A-Z]\w*$`.
    fn is_regular(path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else { return false };
        let parts: Vec<&str> = path.split('/').collect();
        let [service, method] = parts[..] else { return false };
        let named = |name: &str| {
            name.chars().next().is_some_and(|first| first.is_ascii_uppercase())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let labels: Vec<&str> = service.split('.').collect();
        let Some((last, package)) = labels.split_last() else { return false };
        let all = package
            .iter()
            .all(|label| !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        let first = package.first().and_then(|label| label.chars().next());
        named(last) && named(method) && all && first.is_some_and(|first| first.is_ascii_lowercase())
    }

    // Shows (Hostile and odd traffic).
    #[test]
    fn a_path_has_one_form() {
        for path in [
            "/protocol.Wallet/GetNowBlock",
            "/cosmos.tx.v1beta1.Service/BroadcastTx",
            "/grpc.health.v1.Health/Check",
            "/a_b.c9.S_1/M_2",
        ] {
            assert!(GrpcPath::parse(path).is_some() && is_regular(path), "{path}");
        }
        for path in [
            "",
            "/",
            "protocol.Wallet/GetNowBlock",
            "//protocol.Wallet/GetNowBlock",
            "/protocol.Wallet",
            "/protocol.Wallet/",
            "/protocol.Wallet/GetNowBlock/",
            "/protocol.Wallet//GetNowBlock",
            "/protocol.Wallet/../cosmos.Query/Get",
            "/./protocol.Wallet/GetNowBlock",
            "/protocol.wallet/GetNowBlock",
            "/protocol.Wallet/getNowBlock",
            "/Protocol.Wallet/GetNowBlock",
            "/Wallet/GetNowBlock",
            "/.Wallet/GetNowBlock",
            "/protocol..Wallet/GetNowBlock",
            "/.protocol.Wallet/GetNowBlock",
            "/protocol.Wallet./GetNowBlock",
            "/protocol.Wallet%2FGetNowBlock",
            "/protocol%2eWallet/GetNowBlock",
            "/protocol.Wallet/Get NowBlock",
            "/protocol.Wallet/GetNowBlock;a",
            "/protocol.Wallet/GetNow\u{0}Block",
            "/protocol.Wallet/GetNöwBlock",
            "/protocol\\Wallet/GetNowBlock",
            "/9protocol.Wallet/GetNowBlock",
        ] {
            assert!(GrpcPath::parse(path).is_none() && !is_regular(path), "{path}");
        }
        let long = format!("/a.B/C{}", "c".repeat(LONGEST));
        assert!(GrpcPath::parse(&long).is_none());
    }

    // Shows (Hostile and odd traffic).
    #[test]
    fn packages_are_compared_label_by_label() {
        let path = GrpcPath::parse("/protocol.sub.Wallet/Get").unwrap();
        assert!(path.is_of("protocol") && path.is_of("protocol.sub"));
        for other in
            ["", "p", "protoco", "protocol.", "protocol.s", "protocol.sub.Wallet", "protocolx", "sub"]
        {
            assert!(!path.is_of(other), "{other}");
        }
        let longer = GrpcPath::parse("/protocolx.Wallet/Get").unwrap();
        assert!(!longer.is_of("protocol"));
    }

    #[test]
    fn a_call_has_the_name_that_was_sent_and_one_to_meter() {
        let received = Arc::new(AtomicUsize::new(0));
        let call = GrpcCall::new(GrpcPath::parse("/protocol.Wallet/GetNowBlock").unwrap(), received.clone());
        received.store(9, Relaxed);
        assert_eq!((call.sent(), call.name(), call.received()), ("GetNowBlock", "getnowblock", 9));
        assert_eq!(call.path(), "/protocol.Wallet/GetNowBlock");
    }
}
