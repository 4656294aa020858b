//! REST calls: their paths in the only form that a node may see, and their identity in the cache.

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use std::borrow::Cow;
use std::ops::Range;

/// A path without the chain's own segment, in canonical form: empty, or `/` and segments that are neither empty nor
/// dots, with only the necessary escapes.
///
/// A path with more than one possible reading has no canonical form: parsers that resolve escapes once or twice, or
/// remove dot segments or not, must see the same path.
///
/// ```
/// use rpcgate_core::rest::Path;
///
/// let path = |text| Path::canonical(text).map(|path| path.as_str().to_owned());
/// assert_eq!(path("/v1/blocks/by_height/7").as_deref(), Some("/v1/blocks/by_height/7"));
/// assert_eq!(path("/v1/%62locks/").as_deref(), Some("/v1/blocks"));
/// assert_eq!(path("/v1/%2e%2e/admin"), None);
/// assert_eq!(path("/v1/a%252fb"), None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Path(String);

impl Path {
    /// Returns the canonical form of `path`, which is empty or begins with a slash; one trailing slash is ignored.
    /// `None` for dot segments in any spelling, `//`, an encoded slash or backslash, `;`, control characters, text that
    /// is not UTF-8 after decoding (overlong forms), an invalid escape, and an escape inside an escape.
    pub fn canonical(path: &str) -> Option<Path> {
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.is_empty() {
            return Some(Path(String::new()));
        }
        if is_plainly_canonical(path) {
            return Some(Path(path.to_owned()));
        }
        let mut out = String::with_capacity(path.len());
        for segment in path.strip_prefix('/')?.split('/') {
            let bytes = decoded(segment)?;
            let text = std::str::from_utf8(&bytes).ok()?;
            if matches!(text, "" | "." | "..") || text.chars().any(is_ambiguous) {
                return None;
            }
            out.push('/');
            for byte in text.bytes() {
                if PLAIN[usize::from(byte)] {
                    out.push(char::from(byte));
                } else {
                    out.push('%');
                    out.push(hex_digit(byte >> 4));
                    out.push(hex_digit(byte & 15));
                }
            }
        }
        Some(Path(out))
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the segments, with their escapes.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').skip(1)
    }
}

/// Reports whether `path` is obviously canonical: without escapes, empty segments and segments that begin with a dot.
fn is_plainly_canonical(path: &str) -> bool {
    let mut starts = false;
    let are_fine = path.bytes().all(|byte| {
        let is_fine = match (byte, starts) {
            (b'/' | b'.', true) => false,
            (b'/', false) => true,
            (byte, _) => PLAIN[usize::from(byte)],
        };
        starts = byte == b'/';
        is_fine
    });
    are_fine && !starts && path.starts_with('/')
}

/// Reports whether some parser treats the character as more than a part of a name.
fn is_ambiguous(c: char) -> bool {
    matches!(c, '/' | '\\' | ';' | '%') || c.is_control()
}

/// Reports whether a path may contain the byte unescaped: `pchar` of RFC 3986, without `;`.
const fn is_plain(byte: u8) -> bool {
    let marks = b"-._~!$&'()*+,=:@";
    let mut at = 0;
    while at < marks.len() {
        if marks[at] == byte {
            return true;
        }
        at += 1;
    }
    byte.is_ascii_alphanumeric()
}

/// [`is_plain`] for each byte.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        plain[byte] = is_plain(byte as u8);
        byte += 1;
    }
    plain
};

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0').to_ascii_uppercase()
}

/// Resolves the escapes of `text`; `None` if one is invalid.
fn decoded(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            out.push(*first);
            rest = after;
            continue;
        }
        let [high, low, after @ ..] = after else { return None };
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        out.push((digit(high)? * 16 + digit(low)?) as u8);
        rest = after;
    }
    Some(Cow::Owned(out))
}

/// Query parameters that contain keys. No node gets them, because clients written for another gateway send its key.
pub const KEY_PARAMETERS: &[&str] = &["apikey", "api_key", "api-key", "x-api-key"];

/// Removes the parameters with these `names`, escaped or not and in either case: a key must not reach a node.
///
/// ```
/// use rpcgate_core::rest::{KEY_PARAMETERS, query_without};
///
/// assert_eq!(query_without("a=%20&api%6bey=k&b&API_KEY=k", KEY_PARAMETERS), "a=%20&b");
/// ```
pub fn query_without<'q>(query: &'q str, names: &[&str]) -> Cow<'q, str> {
    let is_named = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default();
        // An invalid escape is taken literally.
        decoded(name)
            .is_some_and(|name| names.iter().any(|expected| expected.as_bytes().eq_ignore_ascii_case(&name)))
    };
    if query.is_empty() || !query.split('&').any(is_named) {
        return Cow::Borrowed(query);
    }
    let left: Vec<&str> = query.split('&').filter(|pair| !is_named(pair)).collect();
    Cow::Owned(left.join("&"))
}

/// A REST call on its way to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestCall {
    line: Bytes,
    verb: Method,
    target: PathAndQuery,
    headers: HeaderMap,
    name: CallName,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum CallName {
    /// A path segment, as a range in the line.
    Segment(Range<usize>),
    /// The name from the adapter.
    Path(&'static str),
}

/// The longest method name that is counted separately in usage. Longer segments are counted together.
const LONGEST_NAME: usize = 256;

impl RestCall {
    /// Creates the call of a non-empty `path`. `None` if path and query are too long for a request target.
    pub fn new(verb: Method, path: &Path, query: &str, headers: HeaderMap) -> Option<Self> {
        let verb_text = verb.as_str();
        let path = path.as_str();
        let mark = if query.is_empty() { "" } else { "?" };
        let mut line = Vec::with_capacity(verb_text.len() + path.len() + query.len() + 2);
        for part in [verb_text, " ", path, mark, query] {
            line.extend_from_slice(part.as_bytes());
        }
        let line = Bytes::from(line);
        let start = verb_text.len() + 1;
        let target = PathAndQuery::from_maybe_shared(line.slice(start..)).ok()?;
        let end = start + path.len();
        let name = line.get(..end)?.iter().rposition(|byte| *byte == b'/').map(|slash| slash + 1..end)?;
        Some(RestCall { line, verb, target, headers, name: CallName::Segment(name) })
    }

    /// Sets the [name](crate::chain::Chain::rest_name) that the chain's adapter gives the path.
    #[must_use]
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = CallName::Path(name);
        self
    }

    /// Extends the [line](RestCall::line) to everything that a node gets, for cached calls. Distinguishable calls have
    /// different lines, because neither targets nor headers contain line feeds.
    pub fn complete(&mut self, body: &[u8]) {
        let mut line = self.line.to_vec();
        for (name, value) in &self.headers {
            line.push(b'\n');
            line.extend_from_slice(name.as_str().as_bytes());
            line.push(b':');
            line.extend_from_slice(value.as_bytes());
        }
        line.extend_from_slice(b"\n\n");
        line.extend_from_slice(body);
        self.line = line.into();
    }

    /// Reports whether a node gets the request's body. `GET` and `HEAD` have none.
    pub fn has_body(&self) -> bool {
        !matches!(self.verb, Method::GET | Method::HEAD)
    }

    /// Returns the HTTP method.
    pub fn verb(&self) -> &Method {
        &self.verb
    }

    /// Returns the path and query below a node's URL.
    pub fn target(&self) -> &PathAndQuery {
        &self.target
    }

    /// Returns the caller's headers that a node gets.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the metered name: the last path segment, unless the adapter [names](RestCall::named) the path.
    pub fn name(&self) -> &[u8] {
        match &self.name {
            CallName::Segment(range) => self.line.get(range.clone()).unwrap_or_default(),
            CallName::Path(name) => name.as_bytes(),
        }
    }

    /// Reports whether [`name`](RestCall::name) is longer than the limit for a method.
    pub fn has_long_name(&self) -> bool {
        self.name().len() > LONGEST_NAME
    }

    /// Returns `<verb> <target>`. A [complete](RestCall::complete) call also has one line per header, an empty line,
    /// and the body. [`RestLine`] parses it.
    pub fn line(&self) -> &[u8] {
        &self.line
    }
}

/// A REST call as an adapter reads it from the `params` of its [`CallView`](crate::call::CallView).
///
/// ```
/// use rpcgate_core::rest::RestLine;
///
/// let line = RestLine::read(b"GET /v1/blocks/by_height/7?with_transactions=true");
/// assert_eq!((line.verb, line.path), ("GET", "/v1/blocks/by_height/7"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RestLine<'a> {
    /// The HTTP method.
    pub verb: &'a str,
    /// The canonical path below the chain's own path.
    pub path: &'a str,
    /// The query; empty if absent.
    pub query: &'a str,
    /// The body, if the call has one and is cacheable.
    pub body: &'a [u8],
}

impl<'a> RestLine<'a> {
    /// Parses `params`. Those of other calls than REST calls give an empty line.
    pub fn read(params: &'a [u8]) -> Self {
        let line = params.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let head = params.windows(2).position(|two| two == b"\n\n");
        let body = head.and_then(|end| params.get(end + 2..)).unwrap_or_default();
        let mut words =
            line.split(|byte| *byte == b' ').map(|word| std::str::from_utf8(word).unwrap_or_default());
        let (Some(verb), Some(target)) = (words.next(), words.next()) else { return RestLine::default() };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        RestLine { verb, path, query, body }
    }

    /// Reports whether `params` are those of a call with this HTTP method. Reads only their beginning.
    pub fn has_verb(params: &[u8], verb: &str) -> bool {
        params.strip_prefix(verb.as_bytes()).is_some_and(|rest| rest.starts_with(b" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(text: &str) -> Option<String> {
        Path::canonical(text).map(|path| path.0)
    }

    #[test]
    fn a_path_has_one_form_regardless_of_its_escapes() {
        for (sent, seen) in [
            ("", ""),
            ("/", ""),
            ("/v1/", "/v1"),
            ("/wallet/getnowblock", "/wallet/getnowblock"),
            ("/%77allet/getnowblock", "/wallet/getnowblock"),
            ("/a%20b", "/a%20b"),
            (
                "/0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>",
                "/0x1::coin::CoinStore%3C0x1::aptos_coin::AptosCoin%3E",
            ),
            ("/0x1%3a%3acoin%3A%3ACoinStore%3c0x1%3e", "/0x1::coin::CoinStore%3C0x1%3E"),
            ("/%c3%a9", "/%C3%A9"),
            ("/...", "/..."),
            ("/a.b", "/a.b"),
            ("/~a+b", "/~a+b"),
        ] {
            assert_eq!(path(sent).as_deref(), Some(seen), "{sent}");
        }
    }

    #[test]
    fn an_ambiguous_path_is_refused() {
        for sent in [
            "/.",
            "/..",
            "/a/../b",
            "/a/./b",
            "/%2e",
            "/%2E%2e",
            "/.%2e/x",
            "//",
            "//a",
            "/a//b",
            "/a/%2f",
            "/a%2Fb",
            "/a%5cb",
            "/a\\b",
            "/a;b",
            "/a%3bb",
            "/%00",
            "/a%0d%0ab",
            "/%7f",
            "/%c0%af",
            "/%e0%80%af",
            "/%ff",
            "/%",
            "/%4",
            "/%zz",
            "/%252f",
            "/%25",
            "/%2541",
            "/a%c2%85b",
            "a",
            "/%c0%ae%c0%ae/",
        ] {
            assert_eq!(path(sent), None, "{sent}");
        }
    }

    #[test]
    fn a_key_is_removed_from_a_query_and_all_else_is_unchanged() {
        for (query, left) in [
            ("", ""),
            ("apikey=k", ""),
            ("apikey=k&a=1", "a=1"),
            ("a=1&apikey=k&b=%2F&apikey", "a=1&b=%2F"),
            ("%61pikey=k&x", "x"),
            ("a=apikey=k", "a=apikey=k"),
            ("apikeys=1&%zz=2", "apikeys=1&%zz=2"),
            ("a&&b", "a&&b"),
            ("ApiKey=k&A=1", "A=1"),
        ] {
            assert_eq!(query_without(query, &["apikey"]), left, "{query}");
        }
        assert_eq!(query_without("api_key=k&apikey=l&a&X-Api-Key=m&api%2Dkey=n", KEY_PARAMETERS), "a");
    }

    #[test]
    fn a_call_is_named_by_its_last_segment_and_keyed_by_verb_target_and_body() {
        let path = Path::canonical("/v1/view").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("accept", "application/x-bcs, */*".parse().unwrap());
        let mut call = RestCall::new(Method::POST, &path, "ledger_version=7", headers).unwrap();
        assert_eq!((call.name(), call.line()), (&b"view"[..], &b"POST /v1/view?ledger_version=7"[..]));
        assert_eq!(call.target().as_str(), "/v1/view?ledger_version=7");
        call.complete(b"{\n\n}");
        assert_eq!(call.line(), b"POST /v1/view?ledger_version=7\naccept:application/x-bcs, */*\n\n{\n\n}");
        let line = RestLine::read(call.line());
        assert_eq!((line.verb, line.path, line.query), ("POST", "/v1/view", "ledger_version=7"));
        assert_eq!((line.body, call.name()), (&b"{\n\n}"[..], &b"view"[..]));
        let long = Path::canonical(&format!("/{}", "x".repeat(257))).unwrap();
        assert!(RestCall::new(Method::GET, &long, "", HeaderMap::new()).unwrap().has_long_name());
        assert_eq!(RestLine::read(br#"["0x1"]"#), RestLine::default());
        assert!(RestLine::has_verb(call.line(), line.verb));
        for other in ["", "POS", "POST /v1", "GET"] {
            assert!(!RestLine::has_verb(call.line(), other), "{other}");
        }
    }

    #[test]
    fn a_call_of_a_named_path_keeps_its_name_when_its_line_is_completed() {
        let path = Path::canonical("/v2/accounts/ABC").unwrap();
        let call = RestCall::new(Method::GET, &path, "", HeaderMap::new()).unwrap();
        assert_eq!(call.name(), b"ABC");
        let mut call = call.named("/v2/accounts/{address}");
        call.complete(b"");
        assert_eq!(call.name(), b"/v2/accounts/{address}");
        assert_eq!(RestLine::read(call.line()).path, "/v2/accounts/ABC");
    }

    /// Headers and bodies that would make one call look like another if merely concatenated.
    // Shows (Nodes and cache): REST calls that a node can distinguish share no answer.
    #[test]
    fn calls_that_a_node_can_distinguish_have_different_lines() {
        let full = |query: &str, headers: &[(&'static str, &str)], body: &[u8]| {
            let path = Path::canonical("/v1/view").unwrap();
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, value.parse().unwrap());
            }
            let mut call = RestCall::new(Method::POST, &path, query, map).unwrap();
            call.complete(body);
            call.line().to_vec()
        };
        let lines = [
            full("", &[], b""),
            full("", &[], b"\n"),
            full("", &[], b"accept:a\n\n"),
            full("", &[("accept", "a")], b""),
            full("", &[("accept", "a content-type:b")], b""),
            full("", &[("accept", "a"), ("content-type", "b")], b""),
            full("", &[("accept", "a"), ("accept", "b")], b""),
            full("", &[("accept", "a accept:b")], b""),
            full("", &[("accept", "a")], b"content-type:b\n\n"),
            full("accept:a", &[], b""),
        ];
        for (at, line) in lines.iter().enumerate() {
            assert!(!lines[..at].contains(line), "{}", String::from_utf8_lossy(line));
        }
    }

    proptest! {
        #[test]
        fn a_canonical_path_is_stable_and_has_nothing_that_a_parser_could_fold(sent in "(/|%2e|%2F|%25|%5c|\\.|;|[a-z%/]|[ -~]|\\PC){0,12}") {
            if let Some(once) = path(&format!("/{sent}")) {
                let again = path(&once);
                prop_assert_eq!(again.as_deref(), Some(&*once));
                prop_assert!(!once.contains("//") && !once.contains(';') && !once.contains('\\'));
                prop_assert!(once.split('/').skip(1).all(|segment| !matches!(segment, "" | "." | "..")));
                let bytes = decoded(&once).unwrap();
                prop_assert!(!bytes.contains(&b'%') && bytes.iter().filter(|byte| **byte == b'/').count() == once.matches('/').count());
                prop_assert!(once.parse::<PathAndQuery>().is_ok() || once.is_empty());
            }
        }
    }
}
