//! The refusal of heads that hyper accepts and other servers may read as another request or for another host.

use http::header::{HOST, TRANSFER_ENCODING};
use http::{Request, Version};
use http_body::Body;

/// Reports whether a head has exactly one meaning: a valid host (RFC 9112, section 3.2) and no transfer coding except
/// one `chunked` (section 6.1). Hyper reads a body by the last coding alone.
pub(super) fn is_unambiguous<B: Body>(request: &Request<B>) -> bool {
    has_one_host(request) && (request.body().size_hint().exact().is_some() || is_chunked_once(request))
}

fn has_one_host<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => is_host(host.as_bytes()),
        (None, _) => request.version() != Version::HTTP_11,
        (Some(_), Some(_)) => false,
    }
}

/// HTTP/2 has no such header; hyper resets a stream that sends it.
fn is_chunked_once<B>(request: &Request<B>) -> bool {
    let mut codings = request.headers().get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (Some(coding), None) => coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (None, _) => true,
        (Some(_), Some(_)) => false,
    }
}

/// Reports whether a value is a host and port (RFC 3986, section 3.2.2); it may be empty, without an authority.
fn is_host(value: &[u8]) -> bool {
    let (is_name, port) = match value.strip_prefix(b"[") {
        Some(rest) => {
            let end = rest.iter().position(|byte| *byte == b']');
            let Some((address, after)) = end.and_then(|end| rest.split_at_checked(end)) else { return false };
            let is_address =
                address.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
            (is_address && !address.is_empty(), after.get(1..).unwrap_or_default())
        }
        None => {
            let end = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
            let (name, port) = value.split_at(end);
            (name.iter().all(is_of_name), port)
        }
    };
    let is_port = match port.split_first() {
        None => true,
        Some((b':', digits)) => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    };
    is_name && is_port
}

/// Reports whether a byte may be in a host name. `%` may not: no client sends escapes, and servers differ about them.
fn is_of_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;

    #[test]
    fn the_value_of_a_host_header_is_a_name_or_an_address_and_a_port() {
        for host in ["a", "", "btc.example.com", "a_b:80", "127.0.0.1:8080", "[::1]", "[::1]:443", "a:", "a."]
        {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in [
            "a b", "a, b", "a/b", "user@a", "a:b", "a:80:80", "a:123456", "[::1", "[]", "::1", "[::1]x",
            "[g]", "a?b", "a#b", "a%2fb", "http://a", "a\tb", "\u{e4}",
        ] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }

    fn request(version: Version, headers: &[(&str, &str)]) -> Request<Streaming> {
        let mut request = Request::post("/eth").version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(http_body_util::StreamBody::new(futures_util::stream::empty())).unwrap()
    }

    type Streaming = http_body_util::StreamBody<
        futures_util::stream::Empty<Result<http_body::Frame<bytes::Bytes>, std::convert::Infallible>>,
    >;

    // Shows (Hostile and odd traffic).
    #[test]
    fn http_1_1_needs_one_host_and_other_versions_may_have_one() {
        for (version, hosts, is_right) in [
            (Version::HTTP_11, &[("host", "a")][..], true),
            (Version::HTTP_11, &[], false),
            (Version::HTTP_11, &[("host", "a"), ("host", "a")], false),
            (Version::HTTP_11, &[("host", "a b")], false),
            (Version::HTTP_10, &[], true),
            (Version::HTTP_10, &[("host", "a"), ("host", "b")], false),
            (Version::HTTP_2, &[], true),
            (Version::HTTP_2, &[("host", "a"), ("host", "b")], false),
        ] {
            assert_eq!(is_unambiguous(&request(version, hosts)), is_right, "{version:?} {hosts:?}");
        }
        let whole = Request::post("/").header("host", "a").body(Full::new(bytes::Bytes::new())).unwrap();
        assert!(is_unambiguous(&whole));
    }

    // Shows (Hostile and odd traffic).
    #[test]
    fn the_only_transfer_coding_is_one_chunked() {
        for (codings, is_right) in [
            (&["chunked"][..], true),
            (&["Chunked "], true),
            (&["gzip, chunked"], false),
            (&["chunked, chunked"], false),
            (&["chunked", "chunked"], false),
            (&["gzip", "chunked"], false),
            (&["identity, chunked"], false),
            (&[", chunked"], false),
            (&["chunked;q=1"], false),
        ] {
            let mut headers = vec![("host", "a")];
            headers.extend(codings.iter().map(|coding| ("transfer-encoding", *coding)));
            assert_eq!(is_unambiguous(&request(Version::HTTP_11, &headers)), is_right, "{codings:?}");
        }
    }
}
