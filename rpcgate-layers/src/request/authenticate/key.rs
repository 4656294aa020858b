//! The key of a request.
//!
//! The first of these that is present is the key: the headers `apikey` and `x-api-key`, the query parameter `apikey`,
//! the credentials in `authorization`, then the chain's own header and query parameter. Credentials are `Bearer <key>`,
//! or Basic credentials for clients that support nothing else (bitcoin's): the password, or the user name if there is
//! no password. Other schemes carry no key.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::header::{AUTHORIZATION, HeaderValue};
use http::{HeaderMap, Request, Uri};
use rpcgate_core::adapter::KeySources;
use std::borrow::Cow;

const HEADERS: [&str; 2] = ["apikey", "x-api-key"];
const PARAMETER: &str = "apikey";
/// A key that no directory has. It replaces a header value or credentials that are not text.
const NO_TEXT: &str = "\u{fffd}";

/// Returns the key of a request, or `None`. An empty key counts as absent.
pub fn key_of<B>(request: &Request<B>, sources: KeySources) -> Option<Cow<'_, str>> {
    key_in(request.headers(), request.uri(), sources)
}

pub(crate) fn key_in<'r>(headers: &'r HeaderMap, uri: &'r Uri, sources: KeySources) -> Option<Cow<'r, str>> {
    in_usual_sources(headers, uri)
        .or_else(|| in_credentials(headers))
        .or_else(|| in_header(headers, sources.header?))
        .or_else(|| in_query(uri, sources.query?))
}

/// Returns the user name of Basic credentials whose password was taken as the key but is not a key. Many clients
/// require both fields, and their user chooses the field for the key. Returns `None` if the key was sent elsewhere, or
/// without a user name.
pub(super) fn user_of(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    if in_usual_sources(headers, uri).is_some() {
        return None;
    }
    let Some(Credentials::Basic(encoded)) = Credentials::of(headers) else { return None };
    let login = decoded(encoded)?;
    let (user, password) = login.split_once(':')?;
    (!user.is_empty() && !password.is_empty()).then(|| user.to_owned())
}

/// Returns Basic credentials with only a user name, which [`key_of`] reads as the key.
pub(super) fn credentials_of(user: &str) -> Option<HeaderValue> {
    let encoded = BASE64.encode(format!("{user}:"));
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn in_usual_sources<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> Option<Cow<'r, str>> {
    HEADERS.iter().find_map(|name| in_header(headers, name)).or_else(|| in_query(uri, PARAMETER))
}

fn in_header<'r>(headers: &'r HeaderMap, name: &str) -> Option<Cow<'r, str>> {
    let value = headers.get(name).filter(|value| !value.is_empty())?;
    Some(Cow::Borrowed(value.to_str().unwrap_or(NO_TEXT)))
}

fn in_query<'r>(uri: &'r Uri, parameter: &str) -> Option<Cow<'r, str>> {
    let mut pairs = form_urlencoded::parse(uri.query()?.as_bytes());
    pairs.find(|(name, value)| name == parameter && !value.is_empty()).map(|(_, value)| value)
}

fn in_credentials(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    match Credentials::of(headers)? {
        Credentials::Bearer(token) => Some(Cow::Borrowed(token)),
        Credentials::Basic(encoded) => {
            let login = decoded(encoded)?;
            let (user, password) = login.split_once(':').unwrap_or((&login, ""));
            let key = if password.is_empty() { user } else { password };
            (!key.is_empty()).then(|| Cow::Owned(key.to_owned()))
        }
    }
}

enum Credentials<'r> {
    /// RFC 6750.
    Bearer(&'r str),
    /// RFC 7617, still encoded.
    Basic(&'r str),
}

impl<'r> Credentials<'r> {
    fn of(headers: &'r HeaderMap) -> Option<Self> {
        let (scheme, value) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        let value = value.trim_matches(' ');
        if value.is_empty() {
            return None;
        }
        if scheme.eq_ignore_ascii_case("bearer") {
            Some(Credentials::Bearer(value))
        } else if scheme.eq_ignore_ascii_case("basic") {
            Some(Credentials::Basic(value))
        } else {
            None
        }
    }
}

/// Base64 with optional padding, because some clients omit it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn decoded(encoded: &str) -> Option<String> {
    let login = BASE64.decode(encoded).ok()?;
    Some(String::from_utf8(login).unwrap_or_else(|_| NO_TEXT.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::get(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    fn key(uri: &str, headers: &[(&str, &str)]) -> Option<String> {
        let sources = KeySources::default().with_header("x-chain-token").with_query("api_key");
        key_of(&request(uri, headers), sources).map(Cow::into_owned)
    }

    fn basic(login: &str) -> String {
        format!("Basic {}", BASE64.encode(login))
    }

    // Shows (Keys).
    #[test]
    fn the_first_position_with_a_key_is_used() {
        let uri = "/eth?api_key=six&apikey=thr%65e";
        let login = basic("user:four");
        let mut headers = vec![
            ("apikey", "one"),
            ("x-api-key", "two"),
            ("authorization", &*login),
            ("x-chain-token", "five"),
        ];
        assert_eq!(key(uri, &headers).as_deref(), Some("one"));
        headers.remove(0);
        assert_eq!(key(uri, &headers).as_deref(), Some("two"));
        headers.remove(0);
        assert_eq!(key(uri, &headers).as_deref(), Some("three"));
        assert_eq!(key("/eth?api_key=six", &headers).as_deref(), Some("four"));
        headers.remove(0);
        assert_eq!(key("/eth?api_key=six", &headers).as_deref(), Some("five"));
        headers.remove(0);
        assert_eq!(key("/eth?api_key=six", &headers).as_deref(), Some("six"));
        assert_eq!(key("/eth?api-key=x", &[]), None);
        let elsewhere = request("/eth?api_key=six", &[("x-chain-token", "five")]);
        assert_eq!(key_of(&elsewhere, KeySources::default()), None, "the chain does not name these places");
    }

    #[test]
    fn an_empty_credential_is_skipped() {
        let none = basic(":");
        let headers = [("apikey", ""), ("authorization", &*none), ("x-chain-token", "five")];
        assert_eq!(key("/eth?apikey=", &headers).as_deref(), Some("five"));
    }

    // Shows (Keys).
    #[test]
    fn credentials_are_a_bearer_token_or_the_password_else_the_user_of_basic() {
        for (authorization, expected) in [
            ("Bearer token".to_owned(), Some("token")),
            ("bearer  token ".to_owned(), Some("token")),
            ("Bearer".to_owned(), None),
            ("Bearer ".to_owned(), None),
            (basic("user:pass"), Some("pass")),
            (basic("user:pass:word"), Some("pass:word")),
            (basic(":pass"), Some("pass")),
            (basic("user:"), Some("user")),
            (basic("user"), Some("user")),
            (basic("user:").replace('=', "").replace("Basic", "BASIC"), Some("user")),
            (basic(":"), None),
            ("Basic !".to_owned(), None),
            ("Basic /w==".to_owned(), Some(NO_TEXT)),
            ("Digest username=\"user\"".to_owned(), None),
        ] {
            assert_eq!(
                key("/btc", &[("authorization", &authorization)]).as_deref(),
                expected,
                "{authorization}"
            );
        }
    }

    #[test]
    fn the_user_name_is_a_second_guess_only_where_the_password_was_the_first() {
        let user = |uri: &str, headers: &[(&str, &str)]| {
            let request = request(uri, headers);
            user_of(request.headers(), request.uri())
        };
        let both = basic("user:pass");
        assert_eq!(user("/btc", &[("authorization", &both)]).as_deref(), Some("user"));
        assert_eq!(user("/btc", &[("authorization", &both), ("x-api-key", "k")]), None);
        assert_eq!(user("/btc?apikey=k", &[("authorization", &both)]), None);
        for alone in [basic("user:"), basic(":pass"), "Bearer token".to_owned()] {
            assert_eq!(user("/btc", &[("authorization", &alone)]), None, "{alone}");
        }
        let written = credentials_of("user").unwrap();
        assert!(written.is_sensitive());
        assert_eq!(key("/btc", &[("authorization", written.to_str().unwrap())]).as_deref(), Some("user"));
        assert_eq!(user("/btc", &[("authorization", written.to_str().unwrap())]), None);
    }

    #[test]
    fn a_key_that_is_not_text_counts_as_an_unknown_one() {
        let mut request = request("/eth", &[]);
        request.headers_mut().insert("apikey", HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(key_of(&request, KeySources::default()).as_deref(), Some(NO_TEXT));
    }
}
