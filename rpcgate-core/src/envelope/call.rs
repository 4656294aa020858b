//! The request of a client: one call or a batch.

use std::fmt;

use super::members::{Member, UnknownMembers, same_but_case};
use crate::json::{Cursor, Span, SyntaxError, Text, unescape};

/// The limits of a body.
///
/// ```
/// use rpcgate_core::envelope::Limits;
///
/// assert_eq!(Limits::default().with_batch(10).batch, 10);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The maximum nesting, including the array of a batch; at most [`DEEPEST`](crate::json::DEEPEST).
    pub depth: usize,
    /// The maximum number of items in a batch.
    pub batch: usize,
    /// The maximum length of a method name in bytes, with resolved escapes.
    pub method: usize,
    /// Accepts `command` instead of `method`, as on streams of XRP ledger servers ("Request Formatting" in their API).
    pub commands: bool,
}

impl Default for Limits {
    /// 128 levels, 100 items, and names of 256 bytes.
    fn default() -> Self {
        Limits { depth: 128, batch: 100, method: 256, commands: false }
    }
}

impl Limits {
    /// Sets the depth.
    #[must_use]
    pub const fn with_depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// Sets the number of items in a batch.
    #[must_use]
    pub const fn with_batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Sets the length of a method name.
    #[must_use]
    pub const fn with_method(mut self, method: usize) -> Self {
        self.method = method;
        self
    }

    /// Accepts `command` as another name of `method`, but not both. The parameters are then the other members, so
    /// [`Envelope::params`] is the whole object.
    ///
    /// ```
    /// use rpcgate_core::envelope::{Limits, ParsedBody, parse};
    ///
    /// let frame = br#"{"id":1,"command":"ledger_current"}"#;
    /// let Ok(ParsedBody::Single(Ok(call))) = parse(frame, &Limits::default().with_commands()) else { panic!("a call") };
    /// assert_eq!(call.method.text(frame), "ledger_current");
    /// assert!(matches!(parse(frame, &Limits::default()), Ok(ParsedBody::Single(Err(_)))));
    /// ```
    #[must_use]
    pub const fn with_commands(mut self) -> Self {
        self.commands = true;
        self
    }
}

/// The name of a method.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Name {
    /// The name as in the body, without the quotes.
    Plain(Span),
    /// A name with its escapes resolved.
    Resolved(Box<str>),
}

impl Name {
    /// Returns the name. `body` is the body that it was parsed from; any other gives an empty result.
    #[inline]
    pub fn text<'a>(&'a self, body: &'a [u8]) -> &'a str {
        match self {
            Name::Plain(span) => std::str::from_utf8(span.of(body)).unwrap_or_default(),
            Name::Resolved(text) => text,
        }
    }

    /// Returns the bytes of the name; see [`text`](Name::text).
    #[inline]
    pub fn bytes<'a>(&'a self, body: &'a [u8]) -> &'a [u8] {
        match self {
            Name::Plain(span) => span.of(body),
            Name::Resolved(text) => text.as_bytes(),
        }
    }
}

/// A well-formed call. Every [`Span`] refers to the body that the call was parsed from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The whole object.
    pub span: Span,
    /// `jsonrpc` as JSON text; absent in version 1.0.
    pub version: Option<Span>,
    /// `id` as JSON text, of any type.
    pub id: Option<Span>,
    /// `method`.
    pub method: Name,
    /// `params` as JSON text, of any type.
    pub params: Option<Span>,
}

impl Envelope {
    /// Reports whether the call is a notification, which gets no reply: version 2.0 without an `id` (JSON-RPC 2.0,
    /// section 4.1). A call of version 1.0 always gets a reply.
    #[inline]
    pub fn is_notification(&self, body: &[u8]) -> bool {
        if self.id.is_some() {
            return false;
        }
        let version = self.version.map_or(&[][..], |span| span.of(body));
        version == b"\"2.0\"" || (version.contains(&b'\\') && unescape(version).as_deref() == Some("2.0"))
    }
}

/// Valid JSON that is not a valid call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadItem {
    /// The whole value.
    pub span: Span,
    /// Its `id` as JSON text, if it is unambiguous for all parsers.
    pub id: Option<Span>,
}

/// One call of a body, or an invalid item.
pub type Item = Result<Envelope, BadItem>;

/// The content of a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParsedBody {
    /// One call: any value that is not an array.
    Single(Item),
    /// The items of an array, in order; never empty.
    Batch(Vec<Item>),
}

/// The reason why a whole body is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// The body is not JSON, or nested too deeply: -32700.
    Syntax(SyntaxError),
    /// The body is an array without items: -32600.
    EmptyBatch,
    /// The array has more items than [`Limits::batch`]. The rest of the body was not read.
    BatchTooLarge,
}

impl From<SyntaxError> for ParseError {
    fn from(error: SyntaxError) -> Self {
        ParseError::Syntax(error)
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Syntax(error) => error.fmt(f),
            ParseError::EmptyBatch => f.write_str("batch without items"),
            ParseError::BatchTooLarge => f.write_str("batch too large"),
        }
    }
}

impl std::error::Error for ParseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ParseError::Syntax(error) => Some(error),
            ParseError::EmptyBatch | ParseError::BatchTooLarge => None,
        }
    }
}

/// Parses a body in one pass.
///
/// The whole body must be JSON. A single call is refused ([`BadItem`]) if it is not an object; if a member name is
/// repeated, undecodable, contains a NUL, or differs from a known one only in case, so that no other parser can find
/// another call in it; if it has more than 32 unknown members; or if `method` is missing, not a string, empty, too
/// long, undecodable or contains a NUL. Other unknown members are skipped.
///
/// Only the list of a batch and names with escapes are allocated.
///
/// ```
/// use rpcgate_core::envelope::{Limits, ParsedBody, parse};
///
/// let body = br#"{"jsonrpc":"2.0","id":7,"method":"eth_chainId"}"#;
/// let Ok(ParsedBody::Single(Ok(call))) = parse(body, &Limits::default()) else { panic!("a valid call") };
/// assert_eq!(call.method.text(body), "eth_chainId");
/// assert_eq!(call.id.map(|id| id.of(body)), Some(&b"7"[..]));
/// ```
pub fn parse(body: &[u8], limits: &Limits) -> Result<ParsedBody, ParseError> {
    let mut reader =
        Reader { body, limits, cursor: Cursor::new(body, limits.depth), unknown: UnknownMembers::default() };
    if reader.cursor.peek() == Some(b'[') {
        return reader.batch();
    }
    let item = reader.item()?;
    reader.cursor.end()?;
    Ok(ParsedBody::Single(item))
}

const MOST: usize = 1024;

struct Reader<'a> {
    body: &'a [u8],
    limits: &'a Limits,
    cursor: Cursor<'a>,
    unknown: UnknownMembers,
}

impl Reader<'_> {
    fn batch(&mut self) -> Result<ParsedBody, ParseError> {
        let mut items: Vec<Item> = Vec::new();
        self.cursor.enter_array()?;
        while self.cursor.next_item()? {
            if items.len() >= self.limits.batch {
                // A trailing comma does not exceed the limit.
                return Err(match self.cursor.peek() {
                    Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                        ParseError::BatchTooLarge
                    }
                    _ => SyntaxError::at(self.cursor.offset()).into(),
                });
            }
            let from = self.cursor.offset();
            let item = self.item()?;
            if items.is_empty() {
                items.reserve(self.cursor.items_like(from, self.limits.batch.min(MOST)));
            }
            items.push(item);
        }
        self.cursor.end()?;
        if items.is_empty() { Err(ParseError::EmptyBatch) } else { Ok(ParsedBody::Batch(items)) }
    }

    #[inline]
    fn member(&mut self) -> Result<Member, SyntaxError> {
        // The spelling of nearly every client.
        let usual = match self.cursor.second() {
            Some(b'j') if self.cursor.take(b"\"jsonrpc\":") => Some(Member::Version),
            Some(b'i') if self.cursor.take(b"\"id\":") => Some(Member::Id),
            Some(b'm') if self.cursor.take(b"\"method\":") => Some(Member::Method),
            Some(b'p') if self.cursor.take(b"\"params\":") => Some(Member::Params),
            _ => None,
        };
        if let Some(member) = usual {
            return Ok(member);
        }
        let name = self.cursor.name()?;
        if self.limits.commands
            && let Some(text) = name.resolve(self.body)
            && same_but_case(&text, "command")
        {
            return Ok(if text == "command" { Member::Method } else { Member::Refused });
        }
        Ok(self.unknown.classify(name, self.body))
    }

    fn item(&mut self) -> Result<Item, SyntaxError> {
        if self.cursor.peek() != Some(b'{') {
            return Ok(Err(BadItem { span: self.cursor.value()?, id: None }));
        }
        let start = self.cursor.offset();
        self.cursor.enter_object()?;
        self.unknown.clear();
        let mut draft = Draft::default();
        while self.cursor.next_name()? {
            match self.member()? {
                Member::Version => {
                    let version = self.cursor.value_likely(b"\"2.0\"")?;
                    draft.good &= draft.version.replace(version).is_none();
                }
                Member::Params => draft.good &= draft.params.replace(self.cursor.value()?).is_none(),
                Member::Id => draft.id_clear &= draft.id.replace(self.cursor.value_number()?).is_none(),
                Member::Method => {
                    let repeated = std::mem::replace(&mut draft.has_method, true);
                    if self.cursor.peek() == Some(b'"') {
                        draft.method = Some(self.cursor.string()?);
                        draft.good &= !repeated;
                    } else {
                        self.cursor.value()?;
                        draft.good = false;
                    }
                }
                Member::AlmostId => {
                    self.cursor.value()?;
                    draft.id_clear = false;
                }
                Member::Refused => {
                    self.cursor.value()?;
                    draft.good = false;
                }
                Member::Unknown => {
                    self.cursor.value()?;
                }
            }
        }
        Ok(draft.finish(Span::new(start, self.cursor.offset()), self.body, self.limits))
    }
}

/// The members read so far. A refused object is read to its end: the rest may be malformed, and the id may follow.
struct Draft {
    version: Option<Span>,
    id: Option<Span>,
    method: Option<Text>,
    has_method: bool,
    params: Option<Span>,
    good: bool,
    id_clear: bool,
}

impl Default for Draft {
    #[inline]
    fn default() -> Self {
        Draft {
            version: None,
            id: None,
            method: None,
            has_method: false,
            params: None,
            good: true,
            id_clear: true,
        }
    }
}

impl Draft {
    #[inline]
    fn finish(self, span: Span, body: &[u8], limits: &Limits) -> Item {
        let Draft { version, id, method, params, good, id_clear, .. } = self;
        match method.and_then(|method| name(method, body, limits.method)) {
            Some(method) if good && id_clear => {
                // The parameters are the members next to the command.
                let params = if limits.commands { Some(span) } else { params };
                Ok(Envelope { span, version, id, method, params })
            }
            _ => Err(BadItem { span, id: id.filter(|_| id_clear) }),
        }
    }
}

#[inline]
fn name(method: Text, body: &[u8], longest: usize) -> Option<Name> {
    if !method.is_escaped() {
        let plain = method.inner();
        return (1..=longest).contains(&plain.len()).then_some(Name::Plain(plain));
    }
    // A six-byte escape yields at least one byte of the name, so most names that are too long need not be decoded.
    if method.inner().len() / 6 > longest {
        return None;
    }
    let text = method.resolve(body)?;
    // A node that keeps names in C strings would read another name, which ends before the NUL.
    let is_name = (1..=longest).contains(&text.len()) && !text.contains('\0');
    is_name.then(|| Name::Resolved(text.into_owned().into_boxed_str()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::envelope::WireId;
    use crate::json::tests::{json_text, string_text};

    fn read(body: &str) -> Result<ParsedBody, ParseError> {
        parse(body.as_bytes(), &Limits::default())
    }

    fn single(body: &str) -> Item {
        match read(body) {
            Ok(ParsedBody::Single(item)) => item,
            other => panic!("{body}: {other:?}"),
        }
    }

    fn good(body: &str) -> Envelope {
        single(body).unwrap_or_else(|bad| panic!("{body}: {bad:?}"))
    }

    fn kept_id(body: &str) -> Option<&str> {
        let bad = single(body).expect_err(body);
        bad.id.map(|id| std::str::from_utf8(id.of(body.as_bytes())).unwrap())
    }

    fn is_syntax_error(body: &str) -> bool {
        matches!(read(body), Err(ParseError::Syntax(_)))
    }

    #[test]
    fn the_members_of_a_call_are_found_in_any_order() {
        let body = "\r\n{ \"params\" : [\"0x1\", {\"id\":5,\"method\":\"x\"}],\"id\":\"a\\n\" ,\n\"jsonrpc\":\"2.0\",\"method\":\"eth_call\"}\t";
        let call = good(body);
        let of = |span: Option<Span>| span.map(|span| span.of(body.as_bytes()));
        assert_eq!(of(call.params), Some(&br#"["0x1", {"id":5,"method":"x"}]"#[..]));
        assert_eq!(of(call.id), Some(&br#""a\n""#[..]));
        assert_eq!(of(call.version), Some(&b"\"2.0\""[..]));
        assert_eq!(call.method.text(body.as_bytes()), "eth_call");
        assert!(matches!(call.method, Name::Plain(_)));
        assert_eq!(call.span.of(body.as_bytes()), body.trim().as_bytes());
        assert!(!call.is_notification(body.as_bytes()));
    }

    #[test]
    fn a_call_needs_only_a_method() {
        let call = good(r#"{"method":"getinfo"}"#);
        assert_eq!((call.version, call.id, call.params), (None, None, None));
    }

    #[test]
    fn ids_of_any_kind_stay_byte_for_byte() {
        for id in [
            "0",
            "-1",
            "1.50",
            "1E3",
            "9007199254740993",
            "123456789012345678901234567890",
            "null",
            "true",
            "\"\"",
            "\"\\u0041\"",
            "\"\\ud800\"",
            "{\"b\": 1, \"a\":[ ]}",
            "[1,2]",
        ] {
            let body = format!("{{\"method\":\"a\",\"id\":{id}}}");
            assert_eq!(good(&body).id.map(|span| span.of(body.as_bytes())), Some(id.as_bytes()));
        }
    }

    #[test]
    fn a_command_names_the_method_where_commands_are_known_and_only_one_name_is_allowed() {
        let limits = Limits::default().with_commands();
        let read = |body: &str| match parse(body.as_bytes(), &limits) {
            Ok(ParsedBody::Single(Ok(call))) => Some(call.method.text(body.as_bytes()).to_owned()),
            _ => None,
        };
        assert_eq!(read(r#"{"id":1,"command":"stop"}"#).as_deref(), Some("stop"));
        assert_eq!(read(r#"{"id":1,"\u0063ommand":"stop"}"#).as_deref(), Some("stop"));
        assert_eq!(read(r#"{"id":1,"method":"stop"}"#).as_deref(), Some("stop"));
        for two in [r#""method":"ping","command":"stop""#, r#""command":"ping","command":"stop""#] {
            assert_eq!(read(&format!("{{\"id\":1,{two}}}")), None, "{two}");
        }
        assert_eq!(read(r#"{"id":1,"command":7}"#), None);
    }

    #[test]
    fn escapes_in_names_and_methods_resolve() {
        let body = r#"{"\u006ds":0,"m\u0065thod":"debug\u005ftrace","\u0069d":4,"p\u0061rams":[],"json\u0072pc":"2.0"}"#;
        let call = good(body);
        assert_eq!(call.method, Name::Resolved("debug_trace".into()));
        assert_eq!(call.method.text(body.as_bytes()), "debug_trace");
        assert_eq!(call.id.map(|id| id.of(body.as_bytes())), Some(&b"4"[..]));
        assert!(call.params.is_some() && call.version.is_some());
    }

    #[test]
    fn a_notification_is_version_2_without_id() {
        for (body, notification) in [
            (r#"{"jsonrpc":"2.0","method":"a"}"#, true),
            (r#"{"jsonrpc":"\u0032.0","method":"a"}"#, true),
            (r#"{"jsonrpc":"2.0","method":"a","id":null}"#, false),
            (r#"{"jsonrpc":"1.0","method":"a"}"#, false),
            (r#"{"jsonrpc":2.0,"method":"a"}"#, false),
            (r#"{"method":"a"}"#, false),
        ] {
            assert_eq!(good(body).is_notification(body.as_bytes()), notification, "{body}");
        }
    }

    #[test]
    fn an_invalid_call_is_refused_and_keeps_a_readable_id() {
        for (body, id) in [
            ("1", None),
            ("null", None),
            (r#""method""#, None),
            ("{}", None),
            (r#"{"id":1}"#, Some("1")),
            (r#"{"id":1,"method":null}"#, Some("1")),
            (r#"{"id":1,"method":["a"]}"#, Some("1")),
            (r#"{"id":1,"method":""}"#, Some("1")),
            (r#"{"id":1,"method":"\ud800"}"#, Some("1")),
            (r#"{"method":"\ud800\u0041","id":{"a":2}}"#, Some(r#"{"a":2}"#)),
            (r#"{"method":"a","method":"b","id":1}"#, Some("1")),
            (r#"{"method":"a","m\u0065thod":"a","id":1}"#, Some("1")),
            (r#"{"method":5,"method":"b","id":1}"#, Some("1")),
            (r#"{"method":"b","method":5,"id":1}"#, Some("1")),
            (r#"{"method":"a","id":1,"id":1}"#, None),
            (r#"{"method":"a","id":1,"\u0069d":2}"#, None),
            (r#"{"method":"a","id":1,"ID":2}"#, None),
            (r#"{"method":"a","Id":2}"#, None),
            (r#"{"method":"a","\u0049d":2,"id":1}"#, None),
            (r#"{"method":"a","id":1,"jsonrpc":"2.0","jsonrpc":"2.0"}"#, Some("1")),
            (r#"{"method":"a","id":1,"params":[],"params":null}"#, Some("1")),
            (r#"{"method":"a","id":1,"Method":"b"}"#, Some("1")),
            (r#"{"id":1,"METHOD":"b"}"#, Some("1")),
            (r#"{"method":"a","id":1,"m\u0045thod":"b"}"#, Some("1")),
            (r#"{"method":"a","id":1,"paramS":[]}"#, Some("1")),
            (r#"{"method":"a","id":1,"JSONRPC":"2.0"}"#, Some("1")),
            (r#"{"method":"a","id":1,"paramſ":[]}"#, Some("1")),
            (r#"{"method":"a","id":1,"j\u017Fonrpc":"2.0"}"#, Some("1")),
            (r#"{"method":"a","id":1,"x":1,"x":1}"#, Some("1")),
            (r#"{"method":"a","id":1,"x":1,"\u0078":1}"#, Some("1")),
            (r#"{"method":"a","id":1,"\u0078":1,"x":1}"#, Some("1")),
            (r#"{"method":"a","id":1,"\u0078":1,"\u00078":1,"\u0078":1}"#, Some("1")),
            (r#"{"method":"a","\udfff":0,"id":1}"#, Some("1")),
        ] {
            assert_eq!(kept_id(body), id, "{body}");
        }
    }

    // Shows (Hostile and odd traffic).
    #[test]
    fn names_with_a_nul_or_in_another_case_are_refused_where_a_node_may_read_a_command() {
        let limits = Limits::default().with_commands();
        let is_call = |body: &str| matches!(parse(body.as_bytes(), &limits), Ok(ParsedBody::Single(Ok(_))));
        assert!(is_call(r#"{"command":"ping","x":1}"#));
        for body in [
            r#"{"command":"ping\u0000"}"#,
            r#"{"method":"ping\u0000x"}"#,
            r#"{"command":"ping","Command":"stop"}"#,
            r#"{"method":"ping","COMMAND":"stop"}"#,
            r#"{"method":"ping","command\u0000":"stop"}"#,
            r#"{"method":"ping","method\u0000x":"stop"}"#,
            r#"{"method":"ping","x\u0000":1}"#,
        ] {
            assert!(!is_call(body), "{body}");
        }
    }

    #[test]
    fn unknown_members_are_skipped() {
        for name in ["version", "", "ids", "i", "Methods", "param", "x\\n", "method ", "é", "ıd"] {
            let body = format!(r#"{{"{name}":{{"method":"x","method":"y"}},"method":"a","id":1}}"#);
            assert_eq!(good(&body).method.text(body.as_bytes()), "a", "{name}");
        }
    }

    #[test]
    fn a_call_with_more_than_thirty_two_unknown_members_is_refused() {
        for escaped in [false, true] {
            let body = |count: usize| {
                let name = |i| {
                    if escaped && i % 2 == 0 { format!("\\u006e{i}") } else { format!("n{i}") }
                };
                let members: String = (0..count).map(|i| format!("\"{}\":{i},", name(i))).collect();
                format!(r#"{{{members}"method":"a","id":9}}"#)
            };
            assert!(single(&body(32)).is_ok());
            assert_eq!(kept_id(&body(33)), Some("9"));
            assert_eq!(kept_id(&body(5_000)), Some("9"));
        }
    }

    #[test]
    fn unknown_members_are_counted_for_each_item_alone() {
        let item = r#"{"method":"a","x":1,"\u0079":1}"#;
        let Ok(ParsedBody::Batch(items)) = read(&format!("[{item},{item},{item}]")) else {
            panic!("a batch")
        };
        assert!(items.iter().all(Result::is_ok));
    }

    #[test]
    fn a_method_is_at_most_256_bytes_long_when_decoded() {
        let body = |method: &str| format!(r#"{{"method":"{method}","id":1}}"#);
        assert!(single(&body(&"m".repeat(256))).is_ok());
        assert!(single(&body(&"\\u006d".repeat(256))).is_ok());
        assert!(single(&body(&"é".repeat(128))).is_ok());
        assert_eq!(kept_id(&body(&"m".repeat(257))), Some("1"));
        assert_eq!(kept_id(&body(&"\\u006d".repeat(257))), Some("1"));
        assert_eq!(kept_id(&body(&"\\u00e9".repeat(129))), Some("1"));
    }

    #[test]
    fn a_batch_keeps_its_order_and_its_bad_items() {
        let body = r#"[{"method":"a","id":1}, 5 ,{"id":[2]},[{"method":"x"}],{"method":"b"}]"#;
        let Ok(ParsedBody::Batch(items)) = read(body) else { panic!("a batch") };
        let of = |span: Span| std::str::from_utf8(span.of(body.as_bytes())).unwrap();
        let seen: Vec<_> = items
            .iter()
            .map(|item| match item {
                Ok(call) => (of(call.span), call.id.map(of)),
                Err(bad) => (of(bad.span), bad.id.map(of)),
            })
            .collect();
        assert_eq!(
            seen,
            [
                (r#"{"method":"a","id":1}"#, Some("1")),
                ("5", None),
                (r#"{"id":[2]}"#, Some("[2]")),
                (r#"[{"method":"x"}]"#, None),
                (r#"{"method":"b"}"#, None),
            ]
        );
        assert_eq!(items.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, false, false, true]);
    }

    #[test]
    fn an_empty_batch_is_distinguished_from_a_malformed_one() {
        assert_eq!(read(" [ ] "), Err(ParseError::EmptyBatch));
        for body in ["[", "[]]", "[] x", "[,]", "[\u{feff}]"] {
            assert!(is_syntax_error(body), "{body}");
        }
    }

    #[test]
    fn one_malformed_item_spoils_the_body() {
        let good = r#"{"method":"a","id":1}"#;
        for tail in [
            "{",
            "{}",
            "nul]",
            "{\"id\":1 \"method\":2}]",
            "{\"id\":01}]",
            "\"\\q\"]",
            "{}]]",
            "{\"method\":\"\n\"}]",
            "",
        ] {
            assert!(is_syntax_error(&format!("[{good},{good},{tail}")), "{tail}");
        }
        let mut body = format!("[{good},\"").into_bytes();
        body.extend_from_slice(b"\xff\"]");
        assert!(matches!(parse(&body, &Limits::default()), Err(ParseError::Syntax(_))));
        assert!(is_syntax_error(&format!("\u{feff}{good}")));
        assert!(is_syntax_error(&format!("{good}{good}")));
        assert!(is_syntax_error(r#"{"method":"a","method":"b","id":tru}"#));
        assert!(is_syntax_error(""));
    }

    #[test]
    fn a_batch_is_bounded() {
        let body =
            |count: usize, tail: &str| format!("[{}{tail}", vec![r#"{"method":"a"}"#; count].join(","));
        let Ok(ParsedBody::Batch(items)) = read(&body(100, "]")) else { panic!("a batch") };
        assert_eq!(items.len(), 100);
        assert_eq!(read(&body(101, "]")), Err(ParseError::BatchTooLarge));
        assert_eq!(read(&body(5_000, "")), Err(ParseError::BatchTooLarge));
        assert!(is_syntax_error(&body(100, ",]")));
        assert!(is_syntax_error(&body(100, ",")));
        assert!(is_syntax_error(&body(100, " {}]")));
        let loose = Limits { batch: usize::MAX, ..Limits::default() };
        assert!(
            matches!(parse(body(5_000, "]").as_bytes(), &loose), Ok(ParsedBody::Batch(items)) if items.len() == 5_000)
        );
    }

    #[test]
    fn nesting_beyond_128_is_a_syntax_error() {
        let call = |levels: usize| {
            format!(r#"{{"method":"a","params":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
        };
        assert!(single(&call(127)).is_ok());
        assert!(is_syntax_error(&call(128)));
        assert!(matches!(read(&format!("[{}]", call(126))), Ok(ParsedBody::Batch(_))));
        assert!(is_syntax_error(&format!("[{}]", call(127))));
        let objects = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        assert!(single(&objects(128)).is_err());
        assert!(is_syntax_error(&objects(129)));
        assert!(is_syntax_error(&call(100_000)));
        assert!(is_syntax_error(&objects(100_000)));
        assert!(is_syntax_error(&"[".repeat(100_000)));
        assert!(is_syntax_error(&"[{\"a\":".repeat(100_000)));
    }

    /// One member as written: name literal, value text.
    type Spelt = (String, String);

    fn member() -> impl Strategy<Value = Spelt> {
        let name = prop_oneof![
            12 => prop::sample::select(vec!["jsonrpc", "id", "method", "params"]).prop_map(|name| format!("\"{name}\"")),
            2 => prop::sample::select(vec![
                r#""m\u0065thod""#, r#""\u0069d""#, r#""paramſ""#, r#""Method""#, r#""ID""#, r#""j\u0053onrpc""#,
                r#""\u0070arams""#, r#""\ud800""#, r#""version""#, r#""vers\u0069on""#, r#""x""#, r#""y""#, r#""""#,
            ]).prop_map(String::from),
            1 => string_text(),
        ];
        let value = prop_oneof![
            3 => prop::sample::select(vec![r#""2.0""#, r#""eth_call""#, r#""d\u0065bug_x""#, r#""\ud800""#, "1", "null", r#""""#])
                .prop_map(String::from),
            1 => json_text(),
        ];
        (name, value)
    }

    fn object_of(members: &[Spelt]) -> String {
        let members: Vec<_> = members.iter().map(|(name, value)| format!("{name} :{value}")).collect();
        format!("{{{}}}", members.join(" , "))
    }

    fn decoded(literal: &str) -> Option<String> {
        serde_json::from_str(literal).ok()
    }

    /// Folds names like Go's `encoding/json`.
    fn go_fold(name: &str) -> String {
        name.chars()
            .map(|c| match c {
                'ſ' => 's',
                '\u{212a}' => 'k',
                c => c.to_ascii_lowercase(),
            })
            .collect()
    }

    fn must_be_accepted(members: &[Spelt]) -> bool {
        const KNOWN: [&str; 4] = ["jsonrpc", "id", "method", "params"];
        let Some(names) = members.iter().map(|(name, _)| decoded(name)).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let unique = names.iter().collect::<BTreeSet<_>>().len() == names.len();
        let no_variant = names
            .iter()
            .all(|name| KNOWN.contains(&name.as_str()) || !KNOWN.contains(&go_fold(name).as_str()));
        let no_nul = names.iter().all(|name| !name.contains('\0'));
        let method = members
            .iter()
            .zip(&names)
            .find(|(_, name)| *name == "method")
            .and_then(|((_, value), _)| decoded(value));
        let is_name = |method: String| (1..=256).contains(&method.len()) && !method.contains('\0');
        unique && no_variant && no_nul && method.is_some_and(is_name)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn three_other_parsers_find_the_same_call_in_every_accepted_body(members in vec(member(), 0..6)) {
            let body = object_of(&members);
            let bytes = body.as_bytes();
            let item = single(&body);
            prop_assert_eq!(item.is_ok(), must_be_accepted(&members), "{}", body);
            let Ok(call) = item else { return Ok(()) };

            let named = |known: &'static str, fold: bool| members.iter().filter(move |(name, _)| {
                decoded(name).is_some_and(|name| if fold { go_fold(&name) == known } else { name == known })
            }).map(|(_, value)| value.as_bytes());
            for (known, ours) in [("jsonrpc", call.version), ("id", call.id), ("params", call.params)] {
                let ours = ours.map(|span| span.of(bytes));
                prop_assert_eq!(named(known, false).next(), ours);
                prop_assert_eq!(named(known, false).next_back(), ours);
                prop_assert_eq!(named(known, true).next_back(), ours);
            }
            let method = Some(call.method.text(bytes).to_owned());
            let as_text = |value: Option<&[u8]>| value.and_then(|value| serde_json::from_slice::<String>(value).ok());
            prop_assert_eq!(&as_text(named("method", false).next()), &method);
            prop_assert_eq!(&as_text(named("method", false).next_back()), &method);
            prop_assert_eq!(&as_text(named("method", true).next_back()), &method);
        }

        #[test]
        fn a_written_call_is_read_back_as_the_same_call(members in vec(member(), 0..6), method in string_text()) {
            let mut members = members;
            members.retain(|(name, _)| decoded(name).as_deref() != Some("method"));
            members.push(("\"method\"".into(), method));
            let body = object_of(&members);
            let Ok(call) = single(&body) else { return Ok(()) };

            let facts = |call: &Envelope, body: &str| {
                let text = |span: Option<Span>| span.map(|span| String::from_utf8_lossy(span.of(body.as_bytes())).into_owned());
                (text(call.version), text(call.id), call.method.text(body.as_bytes()).to_owned(), text(call.params),
                    call.is_notification(body.as_bytes()))
            };
            let write = |id| {
                let mut out = Vec::new();
                call.write(body.as_bytes(), id, &mut out);
                String::from_utf8(out).unwrap()
            };
            let own = write(WireId::Own);
            prop_assert_eq!(facts(&good(&own), &own), facts(&call, &body));

            let indexed = write(WireId::Index(41));
            let mut expected = facts(&call, &body);
            if !expected.4 {
                expected.1 = Some("41".into());
            }
            prop_assert_eq!(facts(&good(&indexed), &indexed), expected);
        }

        #[test]
        fn a_batch_is_its_items(objects in vec(vec(member(), 0..4), 1..6)) {
            let texts: Vec<_> = objects.iter().map(|members| object_of(members)).collect();
            let body = format!("[{}]", texts.join(", "));
            let Ok(ParsedBody::Batch(items)) = read(&body) else { return Err(TestCaseError::fail(body)) };
            prop_assert_eq!(items.len(), texts.len());
            for (item, text) in items.iter().zip(&texts) {
                let (span, id) = match item {
                    Ok(call) => (call.span, call.id),
                    Err(bad) => (bad.span, bad.id),
                };
                let alone = single(text);
                prop_assert_eq!(span.of(body.as_bytes()), text.as_bytes());
                prop_assert_eq!(item.is_ok(), alone.is_ok());
                let alone = alone.map_or_else(|bad| bad.id, |call| call.id);
                prop_assert_eq!(id.map(|id| id.of(body.as_bytes())), alone.map(|id| id.of(text.as_bytes())));
            }
        }

        #[test]
        fn any_body_is_refused_as_malformed_exactly_when_serde_json_refuses_it(text in json_text(), cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut body = text.into_bytes();
            let at = cut.index(body.len());
            body[at] = byte;
            let valid = serde_json::from_slice::<&serde_json::value::RawValue>(&body).is_ok();
            prop_assert_eq!(matches!(parse(&body, &Limits::default()), Err(ParseError::Syntax(_))), !valid);
        }
    }
}
