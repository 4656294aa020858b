//! A REST path with a name, for adapters that distinguish their paths by more than the last segment.

use crate::cache_rule::CacheRule;
use crate::chain::{Flags, Method};
use crate::rest::Path;

/// One row of a REST chain's method table: a verb, the template of a path, and the rule of the calls that match.
///
/// A call that matches is known by the row's name to method lists, weights, cache lifetimes and usage, and in an
/// operator's configuration. The name is the template itself unless the row is
/// [`named`](RestMethod::named).
///
/// A template consists of segments: each is a literal, in the canonical form of [`Path`], or a parameter `{address}`,
/// which matches any one segment. A last parameter written `{path...}` matches one or more segments. Rows are tried in
/// order, and the first match applies.
///
/// Rows with the same name share one rule, the strictest of theirs: the highest weight, every mark, and no cache unless
/// their cache classes agree. If one path reads by `GET` and submits by `POST`, give one of the two a name.
///
/// ```
/// use rpcgate_core::cache_rule::CacheRule;
/// use rpcgate_core::rest::Path;
/// use rpcgate_core::rest_method::RestMethod;
///
/// const ACCOUNT: RestMethod = RestMethod::get("/v2/accounts/{address}", 5).cached(CacheRule::secs(3));
///
/// let path = |text| Path::canonical(text).unwrap();
/// assert!(ACCOUNT.matches(&http::Method::GET, &path("/v2/accounts/ABC")));
/// assert!(!ACCOUNT.matches(&http::Method::POST, &path("/v2/accounts/ABC")));
/// assert!(!ACCOUNT.matches(&http::Method::GET, &path("/v2/accounts/ABC/assets")));
/// assert_eq!(ACCOUNT.row().name, "/v2/accounts/{address}");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RestMethod {
    template: &'static str,
    is_posted: bool,
    row: Method,
}

impl RestMethod {
    /// A path that is read by `GET` and `HEAD`. Such a call has a weight of `cu` Compute Units, is not cached and has no marks.
    ///
    /// # Panics
    /// If the template does not consist of segments as [`RestMethod`] describes them. In a constant, this is a compile
    /// error.
    pub const fn get(template: &'static str, cu: u32) -> Self {
        RestMethod::new(template, false, cu)
    }

    /// A path to which clients post input for a computation: the call changes nothing and may be repeated.
    ///
    /// # Panics
    /// As [`get`](RestMethod::get).
    pub const fn post(template: &'static str, cu: u32) -> Self {
        RestMethod::new(template, true, cu)
    }

    /// A path to which clients post a transaction: a [`BROADCAST`](Flags::BROADCAST), which is never sent twice.
    ///
    /// # Panics
    /// As [`get`](RestMethod::get).
    pub const fn submit(template: &'static str, cu: u32) -> Self {
        RestMethod::new(template, true, cu).marked(Flags::BROADCAST)
    }

    const fn new(template: &'static str, is_posted: bool, cu: u32) -> Self {
        assert!(is_template(template.as_bytes()), "not a template of a path");
        RestMethod { template, is_posted, row: Method::new(template, cu) }
    }

    /// The same row with a name of its own: 1 to 256 bytes without blanks and without `*`.
    #[must_use]
    pub const fn named(mut self, name: &'static str) -> Self {
        self.row.name = name;
        self.row.metered = name;
        self
    }

    /// The same row with a cache class.
    #[must_use]
    pub const fn cached(mut self, cache: CacheRule) -> Self {
        self.row = self.row.cached(cache);
        self
    }

    /// The same row with more marks.
    #[must_use]
    pub const fn marked(mut self, flags: Flags) -> Self {
        self.row = self.row.marked(flags);
        self
    }

    /// The row of the method table: the name, and the rule of the calls that match.
    pub const fn row(&self) -> Method {
        self.row
    }

    /// The template of the path.
    pub const fn template(&self) -> &'static str {
        self.template
    }

    /// The HTTP methods that a client may use, as the `Allow` header lists them.
    pub(crate) const fn allow(&self) -> &'static str {
        if self.is_posted { "POST, OPTIONS" } else { "GET, OPTIONS" }
    }

    /// Whether the row applies to a call with this HTTP method for this path.
    pub fn matches(&self, verb: &http::Method, path: &Path) -> bool {
        let is_verb = match *verb {
            http::Method::GET | http::Method::HEAD => !self.is_posted,
            http::Method::POST => self.is_posted,
            _ => false,
        };
        is_verb && self.has_path(path)
    }

    /// Whether the path matches the template, whatever the HTTP method.
    pub fn has_path(&self, path: &Path) -> bool {
        let mut found = path.segments();
        for wanted in self.template.split('/').skip(1) {
            let Some(segment) = found.next() else { return false };
            match wanted.strip_prefix('{') {
                Some(parameter) if parameter.ends_with("...}") => return true,
                Some(_) => {}
                None if wanted != segment => return false,
                None => {}
            }
        }
        found.next().is_none()
    }
}

const fn is_template(text: &[u8]) -> bool {
    if text.is_empty() || text[0] != b'/' {
        return false;
    }
    let (mut start, mut at) = (1, 1);
    while at <= text.len() {
        if at == text.len() || text[at] == b'/' {
            if !is_template_segment(text, start, at) {
                return false;
            }
            start = at + 1;
        }
        at += 1;
    }
    true
}

/// Whether the segment from `start` to `end` is a literal or a parameter; the rest of a path only at its end.
const fn is_template_segment(text: &[u8], start: usize, end: usize) -> bool {
    if start == end {
        return false;
    }
    let (mut from, mut to) = (start, end);
    if text[start] == b'{' && text[end - 1] == b'}' {
        from += 1;
        to -= 1;
        let is_rest = to >= from + 3 && text[to - 1] == b'.' && text[to - 2] == b'.' && text[to - 3] == b'.';
        if is_rest {
            to -= 3;
        }
        if from >= to || (is_rest && end != text.len()) {
            return false;
        }
    }
    while from < to {
        if matches!(text[from], b'{' | b'}' | b'?' | b'#' | b'*') || !text[from].is_ascii_graphic() {
            return false;
        }
        from += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method as Verb;

    fn path(text: &str) -> Path {
        Path::canonical(text).expect("a path")
    }

    #[test]
    fn a_parameter_takes_one_segment_and_the_last_one_may_take_the_rest() {
        let account = RestMethod::get("/v2/accounts/{address}", 1);
        for (text, expected) in [
            ("/v2/accounts/a", true),
            ("/v2/accounts/%61%20b/", true),
            ("/v2/accounts", false),
            ("/v2/accounts/a/b", false),
            ("/v2/account/a", false),
            ("/", false),
        ] {
            assert_eq!(account.matches(&Verb::GET, &path(text)), expected, "{text}");
        }
        let rest = RestMethod::post("/x/{path...}", 1);
        assert!(
            rest.has_path(&path("/x/a")) && rest.has_path(&path("/x/a/b/c")) && !rest.has_path(&path("/x"))
        );
    }

    #[test]
    fn a_row_is_for_its_verb() {
        let (get, submit) = (RestMethod::get("/tx", 1), RestMethod::submit("/tx", 20));
        for (verb, expected) in [
            (Verb::GET, (true, false)),
            (Verb::HEAD, (true, false)),
            (Verb::POST, (false, true)),
            (Verb::PUT, (false, false)),
        ] {
            let matched = (get.matches(&verb, &path("/tx")), submit.matches(&verb, &path("/tx")));
            assert_eq!(matched, expected, "{verb}");
        }
        assert!(submit.row().rule.flags.has(Flags::BROADCAST) && !get.row().rule.flags.has(Flags::BROADCAST));
    }

    #[test]
    fn a_row_may_have_a_name_of_its_own() {
        let row = RestMethod::get("/tx/{id}", 3).named("transaction").cached(CacheRule::Static).row();
        assert_eq!((row.name, row.metered, row.rule.cu), ("transaction", "transaction", 3));
        assert_eq!(row.rule.cache, CacheRule::Static);
    }

    #[test]
    fn an_invalid_template_is_found_when_it_is_written() {
        for good in ["/a", "/a/{b}", "/{a}/b", "/a/{b...}", "/a.b/-/c~d", "/a%20b"] {
            assert!(is_template(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "a",
            "/",
            "/a/",
            "//a",
            "/{}",
            "/{...}",
            "/a{b}",
            "/{b}a",
            "/{a...}/b",
            "/a?b",
            "/*",
            "/a b",
            "/é",
        ] {
            assert!(!is_template(bad.as_bytes()), "{bad}");
        }
    }
}
