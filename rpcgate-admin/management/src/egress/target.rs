//! The URL of a request.

use super::egress_error::EgressError;
use http::Uri;
use http::header::HeaderValue;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const MAX_URL: usize = 2_048;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum EgressHost {
    /// A name in lower case, without a trailing dot.
    Name(String),
    /// An address in any notation.
    Address(IpAddr),
}

impl EgressHost {
    pub(super) fn text(&self) -> String {
        match self {
            EgressHost::Name(name) => name.clone(),
            EgressHost::Address(IpAddr::V4(address)) => address.to_string(),
            EgressHost::Address(IpAddr::V6(address)) => format!("[{address}]"),
        }
    }
}

/// The origin of a URL. A connection serves only one origin.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Origin {
    pub(super) tls: bool,
    pub(super) host: EgressHost,
    pub(super) port: u16,
}

/// A parsed URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EgressTarget {
    pub(super) origin: Origin,
    pub(super) host: HeaderValue,
    pub(super) path: String,
}

impl EgressTarget {
    /// Parses a URL: `http` or `https`, in printable ASCII, without a user. As in browsers, a host whose last label is
    /// a number is an IPv4 address, in any of its notations.
    ///
    /// ```
    /// use rpcgate_management::egress::EgressTarget;
    ///
    /// assert!(EgressTarget::parse("https://hooks.example.com/in?tenant=7").is_ok());
    /// assert!(EgressTarget::parse("https://user@hooks.example.com/").is_err());
    /// ```
    ///
    /// # Errors
    /// [`EgressError::Url`].
    pub fn parse(url: &str) -> Result<Self, EgressError> {
        if url.len() > MAX_URL {
            return Err(EgressError::Url("is longer than 2,048 bytes"));
        }
        if url.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'\\') {
            return Err(EgressError::Url("has a character that must be escaped"));
        }
        let url: Uri = url.parse().map_err(|_| EgressError::Url("cannot be read"))?;
        let tls = match url.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(EgressError::Url("must begin with https:// or http://")),
        };
        let authority = url.authority().ok_or(EgressError::Url("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(EgressError::Url("must not contain a user"));
        }
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match authority.port_u16() {
            Some(0) => return Err(EgressError::Url("has a port that does not exist")),
            Some(port) => port,
            None if has_port => return Err(EgressError::Url("has a port that does not exist")),
            None if tls => 443,
            None => 80,
        };
        let origin = Origin { tls, host: host(authority.host())?, port };
        let host = HeaderValue::from_str(authority.as_str());
        Ok(EgressTarget {
            origin,
            host: host.map_err(|_| EgressError::Url("cannot be read"))?,
            path: path(&url),
        })
    }
}

/// Returns path and query for the request line. An empty path is `/` (RFC 9110, 4.2.3), also before a query.
fn path(url: &Uri) -> String {
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

fn host(text: &str) -> Result<EgressHost, EgressError> {
    if let Some(inner) = text.strip_prefix('[') {
        let address = inner.strip_suffix(']').and_then(|inner| inner.parse::<Ipv6Addr>().ok());
        let address = address.ok_or(EgressError::Url("has an address that cannot be read"))?;
        return Ok(EgressHost::Address(address.into()));
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > 253 || !name.bytes().all(is_plain) {
        return Err(EgressError::Url("has a host that cannot be read"));
    }
    let labels: Vec<_> = name.split('.').collect();
    if labels.last().is_some_and(|last| is_number(last)) {
        let address = ipv4(&labels).ok_or(EgressError::Url("has an address that cannot be read"))?;
        return Ok(EgressHost::Address(address.into()));
    }
    if labels.iter().any(|label| label.is_empty() || label.len() > 63) {
        return Err(EgressError::Url("has a host that cannot be read"));
    }
    Ok(EgressHost::Name(name))
}

/// Reports whether a name that ends with this label is an address
/// (<https://url.spec.whatwg.org/#ends-in-a-number-checker>).
fn is_number(label: &str) -> bool {
    let digits = !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit());
    digits || label.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Parses an IPv4 address (<https://url.spec.whatwg.org/#concept-ipv4-parser>): one to four decimal, octal or
/// hexadecimal numbers. The last one fills the remaining bytes.
fn ipv4(labels: &[&str]) -> Option<Ipv4Addr> {
    let numbers = labels.iter().map(|label| number(label)).collect::<Option<Vec<_>>>()?;
    let (last, first) = numbers.split_last()?;
    if first.len() > 3 || first.iter().any(|number| *number > 255) {
        return None;
    }
    let left = 4 - u32::try_from(first.len()).ok()?;
    if *last >= 256_u64.pow(left) {
        return None;
    }
    let bits = (first.iter().fold(0, |bits, number| (bits << 8) | number) << (8 * left)) | last;
    u32::try_from(bits).ok().map(Ipv4Addr::from)
}

fn number(label: &str) -> Option<u64> {
    let (digits, radix) = match label.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None if label.len() > 1 && label.starts_with('0') => (&label[1..], 8),
        None => (label, 10),
    };
    match (digits, radix) {
        ("", 16) => Some(0),
        (digits, _) if digits.starts_with('+') => None,
        (digits, radix) => u64::from_str_radix(digits, radix).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host_of(url: &str) -> String {
        EgressTarget::parse(url).unwrap().origin.host.text()
    }

    // Shows (Webhooks).
    #[test]
    fn every_spelling_of_an_address_is_that_address() {
        for host in [
            "127.0.0.1",
            "127.1",
            "127.0.1",
            "2130706433",
            "017700000001",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.01",
            "0x7F.0x0.0x0.0x1",
            "127.0.0.1.",
        ] {
            assert_eq!(host_of(&format!("http://{host}/")), "127.0.0.1", "{host}");
        }
        assert_eq!(host_of("http://[0:0:0:0:0:ffff:127.0.0.1]/"), "[::ffff:127.0.0.1]");
        assert_eq!(host_of("https://Hooks.Example.com.:8443/x"), "hooks.example.com");
        for url in
            ["http://1.2.3.4.5/", "http://256.1.1.1/", "http://4294967296/", "http://08/", "http://1..2/"]
        {
            assert!(EgressTarget::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_target_keeps_path_query_and_port_and_nothing_of_a_fragment() {
        let target = EgressTarget::parse("https://a.example:8443/in/b?c=d#e").unwrap();
        assert_eq!((target.path.as_str(), target.origin.port), ("/in/b?c=d", 8443));
        assert_eq!(target.host, "a.example:8443");
        let target = EgressTarget::parse("http://a.example").unwrap();
        assert_eq!((target.path.as_str(), target.origin.port, target.origin.tls), ("/", 80, false));
        for (url, path) in [
            ("http://a.example?token=abc", "/?token=abc"),
            ("http://a.example:81?", "/?"),
            ("https://a.example?a=/b?c", "/?a=/b?c"),
            ("https://a.example/?x", "/?x"),
        ] {
            assert_eq!(EgressTarget::parse(url).unwrap().path, path, "{url}");
        }
    }

    // Shows (Webhooks).
    #[test]
    fn a_scheme_has_no_case() {
        for (url, tls) in [("HTTPS://a.example/", true), ("Http://a.example/", false)] {
            assert_eq!(EgressTarget::parse(url).unwrap().origin.tls, tls, "{url}");
        }
    }

    // Shows (Webhooks).
    #[test]
    fn urls_that_programs_read_differently_are_refused() {
        for url in [
            "",
            "/x",
            "ftp://a.example/",
            "http:///x",
            "http://user@a.example/",
            "http://a.example@127.0.0.1/",
            "http://a.example\\@127.0.0.1/",
            "http://a.example:0/",
            "http://a.example:70000/",
            "http://a.example:x/",
            "http://127.0.0.1%2f@a.example/",
            "http://%31%32%37.0.0.1/",
            "http://ⓔxample.com/",
            "http://a b.example/",
            "http://a.example/\r\nX-Injected: 1",
            "http://a.example/\u{e9}",
            "http://[fe80::1%25eth0]/",
            "http://[127.0.0.1]/",
            "http://a..example/",
            "http://a.example/\t",
        ] {
            assert!(matches!(EgressTarget::parse(url), Err(EgressError::Url(_))), "{url:?}");
        }
        assert!(EgressTarget::parse(&format!("http://a.example/{}", "x".repeat(2_048))).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics_and_no_target_has_a_line_break(url in ".{0,80}", path in "[ -~]{0,40}") {
            for url in [url, format!("http://a.example/{path}")] {
                if let Ok(target) = EgressTarget::parse(&url) {
                    prop_assert!(!target.path.contains(['\r', '\n', ' ']));
                }
            }
        }

        #[test]
        fn a_number_is_the_address_with_these_bits(bits: u32) {
            let address = Ipv4Addr::from(bits).to_string();
            prop_assert_eq!(host_of(&format!("http://{bits}/")), address.clone());
            prop_assert_eq!(host_of(&format!("http://{bits:#x}/")), address.clone());
            prop_assert_eq!(host_of(&format!("http://0{bits:o}/")), address);
        }
    }
}
