//! Named REST paths, for adapters that distinguish paths by more than the last segment.

use crate::cache_rule::CacheRule;
use crate::chain::{Flags, Method};
use crate::rest::Path;

/// One row of a REST chain's method table: a verb, a path template, and the rule of the matching calls.
///
/// A matching call is known by the row's name: the template, unless the row is [`named`](RestMethod::named).
///
/// Each segment of a template is a literal, in the canonical form of [`Path`], or a parameter `{address}` for any one
/// segment. A last parameter `{path...}` matches one or more segments. The first matching row applies.
///
/// Rows with the same name share the strictest rule: the highest weight, every flag, and no cache unless they agree. If
/// a path reads by `GET` and submits by `POST`, give one of the two its own name.
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
    /// Creates a path that is read by `GET` and `HEAD`, weighs `cu` Compute Units, is not cached and has no flags.
    ///
    /// # Panics
    /// Panics if the template has another form than [`RestMethod`] describes. In a constant, this is a compile error.
    pub const fn get(template: &'static str, cu: u32) -> Self {
        RestMethod::new(template, false, cu)
    }

    /// Creates a path for posted computations: the call changes nothing and may be repeated.
    ///
    /// # Panics
    /// Panics like [`get`](RestMethod::get).
    pub const fn post(template: &'static str, cu: u32) -> Self {
        RestMethod::new(template, true, cu)
    }

    /// Creates a path for posted transactions: a [`BROADCAST`](Flags::BROADCAST), which is never sent twice.
    ///
    /// # Panics
    /// Panics like [`get`](RestMethod::get).
    pub const fn submit(template: &'static str, cu: u32) -> Self {
        RestMethod::new(template, true, cu).marked(Flags::BROADCAST)
    }

    const fn new(template: &'static str, is_posted: bool, cu: u32) -> Self {
        assert!(is_template(template.as_bytes()), "not a template of a path");
        RestMethod { template, is_posted, row: Method::new(template, cu) }
    }

    /// Sets the name: 1 to 256 bytes without blanks and without `*`.
    #[must_use]
    pub const fn named(mut self, name: &'static str) -> Self {
        self.row.name = name;
        self.row.metered = name;
        self
    }

    /// Sets the cache class.
    #[must_use]
    pub const fn cached(mut self, cache: CacheRule) -> Self {
        self.row = self.row.cached(cache);
        self
    }

    /// Adds flags.
    #[must_use]
    pub const fn marked(mut self, flags: Flags) -> Self {
        self.row = self.row.marked(flags);
        self
    }

    /// Returns the row of the method table: the name, and the rule of the matching calls.
    pub const fn row(&self) -> Method {
        self.row
    }

    /// Returns the path template.
    pub const fn template(&self) -> &'static str {
        self.template
    }

    pub(crate) const fn allow(&self) -> &'static str {
        if self.is_posted { "POST, OPTIONS" } else { "GET, OPTIONS" }
    }

    /// Reports whether the row applies to this HTTP method and path.
    pub fn matches(&self, verb: &http::Method, path: &Path) -> bool {
        let is_verb = match *verb {
            http::Method::GET | http::Method::HEAD => !self.is_posted,
            http::Method::POST => self.is_posted,
            _ => false,
        };
        is_verb && self.has_path(path)
    }

    /// Reports whether the path matches the template, for any HTTP method.
    pub fn has_path(&self, path: &Path) -> bool {
        let mut found = path.segments();
        for expected in self.template.split('/').skip(1) {
            let Some(segment) = found.next() else { return false };
            match expected.strip_prefix('{') {
                Some(parameter) if parameter.ends_with("...}") => return true,
                Some(_) => {}
                None if expected != segment => return false,
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
    let mut start = 1;
    let mut at = 1;
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

/// Reports whether the segment is a literal or a parameter. `{path...}` is valid only at the end.
const fn is_template_segment(text: &[u8], start: usize, end: usize) -> bool {
    if start == end {
        return false;
    }
    let mut from = start;
    let mut to = end;
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
        let get = RestMethod::get("/tx", 1);
        let submit = RestMethod::submit("/tx", 20);
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
