//! What a client sends: one call or a batch of them.

use std::fmt;

use super::members::{Member, Strangers};
use crate::json::{Cursor, Span, SyntaxError, Text, unescape};

/// How much of a body is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Arrays and objects inside each other, a batch's own array counted; [`DEEPEST`](crate::json::DEEPEST) at most.
    pub depth: usize,
    /// Items of a batch.
    pub batch: usize,
    /// Bytes of a method's name, escapes resolved.
    pub method: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            depth: 128,
            batch: 100,
            method: 256,
        }
    }
}

/// A method's name as the client meant it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Name {
    /// It stands in the body just so; the quotes are left out.
    Plain(Span),
    /// It was written with escapes, which are resolved here.
    Resolved(Box<str>),
}

impl Name {
    /// The name; `body` is the body it was read from (empty if it is another).
    #[inline]
    pub fn text<'a>(&'a self, body: &'a [u8]) -> &'a str {
        match self {
            Name::Plain(span) => std::str::from_utf8(span.of(body)).unwrap_or_default(),
            Name::Resolved(text) => text,
        }
    }

    /// The bytes of the name; see [`text`](Name::text).
    #[inline]
    pub fn bytes<'a>(&'a self, body: &'a [u8]) -> &'a [u8] {
        match self {
            Name::Plain(span) => span.of(body),
            Name::Resolved(text) => text.as_bytes(),
        }
    }
}

/// A well-formed call; every [`Span`] is of the body that it was read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The whole object.
    pub whole: Span,
    /// `jsonrpc` as JSON text; version 1.0 has none.
    pub version: Option<Span>,
    /// `id` as JSON text, of any kind.
    pub id: Option<Span>,
    /// `method`.
    pub method: Name,
    /// `params` as JSON text, of any kind.
    pub params: Option<Span>,
}

impl Envelope {
    /// Whether no reply is wanted: version 2.0 without an `id` (JSON-RPC 2.0, section 4.1). A call of version 1.0
    /// always gets its reply.
    #[inline]
    pub fn is_notification(&self, body: &[u8]) -> bool {
        if self.id.is_some() {
            return false;
        }
        let version = self.version.map_or(&[][..], |span| span.of(body));
        version == b"\"2.0\"" || (version.contains(&b'\\') && unescape(version).as_deref() == Some("2.0"))
    }
}

/// Valid JSON that is no valid call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadItem {
    /// The whole value.
    pub whole: Span,
    /// Its `id` as JSON text, if every reader would find the same one.
    pub id: Option<Span>,
}

/// One call of a body, or what stands in its place.
pub type Item = Result<Envelope, BadItem>;

/// What a body holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// One call; any value that is no array.
    Single(Item),
    /// An array, in its order, never empty.
    Batch(Vec<Item>),
}

/// Why a body is refused as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Not JSON, or nested too deeply: -32700.
    Syntax(SyntaxError),
    /// An array without items: -32600.
    EmptyBatch,
    /// More items than [`Limits::batch`]. The rest of the body was not looked at.
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

/// Reads a body in one pass.
///
/// The whole body must be JSON, whatever its items are. A call is refused on its own ([`BadItem`]) if it is no
/// object; if a member's name is repeated, cannot be decoded, or differs from one of the four known names in case
/// alone, so that no reader behind us can find another call in it than we did; if it has more than 32 unknown
/// members; or if `method` is missing, no string, empty, too long or not decodable. Other unknown members are passed over.
///
/// Nothing is allocated but the list of a batch and names that hold escapes.
///
/// ```
/// use rpcgate_core::envelope::{Limits, Parsed, parse};
///
/// let body = br#"{"jsonrpc":"2.0","id":7,"method":"eth_chainId"}"#;
/// let Ok(Parsed::Single(Ok(call))) = parse(body, &Limits::default()) else { panic!("a valid call") };
/// assert_eq!(call.method.text(body), "eth_chainId");
/// assert_eq!(call.id.map(|id| id.of(body)), Some(&b"7"[..]));
/// ```
pub fn parse(body: &[u8], limits: &Limits) -> Result<Parsed, ParseError> {
    let mut reader = Reader {
        body,
        limits,
        cursor: Cursor::new(body, limits.depth),
        strangers: Strangers::default(),
    };
    if reader.cursor.peek() == Some(b'[') {
        return reader.batch();
    }
    let item = reader.item()?;
    reader.cursor.end()?;
    Ok(Parsed::Single(item))
}

struct Reader<'a> {
    body: &'a [u8],
    limits: &'a Limits,
    cursor: Cursor<'a>,
    strangers: Strangers,
}

impl Reader<'_> {
    fn batch(&mut self) -> Result<Parsed, ParseError> {
        let mut items: Vec<Item> = Vec::new();
        self.cursor.enter_array()?;
        while self.cursor.next_item()? {
            if items.len() >= self.limits.batch {
                // A comma alone does not make one item too many.
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
                items.reserve(self.guess(from));
            }
            items.push(item);
        }
        self.cursor.end()?;
        if items.is_empty() {
            Err(ParseError::EmptyBatch)
        } else {
            Ok(Parsed::Batch(items))
        }
    }

    /// How many items there are if all are as long as the first, which started at `from`.
    fn guess(&self, from: usize) -> usize {
        const MOST: usize = 1024;
        let read = self.cursor.offset();
        let left = self.body.len().saturating_sub(read);
        (left / (read - from).max(1) + 1).min(self.limits.batch).min(MOST)
    }

    #[inline]
    fn member(&mut self) -> Result<Member, SyntaxError> {
        // How nearly every client spells them.
        if self.cursor.take(b"\"jsonrpc\":") {
            return Ok(Member::Version);
        }
        if self.cursor.take(b"\"id\":") {
            return Ok(Member::Id);
        }
        if self.cursor.take(b"\"method\":") {
            return Ok(Member::Method);
        }
        if self.cursor.take(b"\"params\":") {
            return Ok(Member::Params);
        }
        let name = self.cursor.name()?;
        Ok(self.strangers.classify(name, self.body))
    }

    fn item(&mut self) -> Result<Item, SyntaxError> {
        if self.cursor.peek() != Some(b'{') {
            return Ok(Err(BadItem {
                whole: self.cursor.value()?,
                id: None,
            }));
        }
        let start = self.cursor.offset();
        self.cursor.enter_object()?;
        self.strangers.clear();
        let mut draft = Draft::default();
        while self.cursor.next_name()? {
            match self.member()? {
                Member::Version => draft.good &= draft.version.replace(self.cursor.value()?).is_none(),
                Member::Params => draft.good &= draft.params.replace(self.cursor.value()?).is_none(),
                Member::Id => draft.id_clear &= draft.id.replace(self.cursor.value()?).is_none(),
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
                Member::Stranger => {
                    self.cursor.value()?;
                }
            }
        }
        Ok(draft.finish(Span::new(start, self.cursor.offset()), self.body, self.limits))
    }
}

/// What is known of an object while it is read. It is read to its end even when it is refused: the rest may be
/// malformed, and its id may be still to come.
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
    fn finish(self, whole: Span, body: &[u8], limits: &Limits) -> Item {
        let Draft {
            version,
            id,
            method,
            params,
            good,
            id_clear,
            ..
        } = self;
        match method.and_then(|method| name(method, body, limits.method)) {
            Some(method) if good && id_clear => Ok(Envelope {
                whole,
                version,
                id,
                method,
                params,
            }),
            _ => Err(BadItem {
                whole,
                id: id.filter(|_| id_clear),
            }),
        }
    }
}

#[inline]
fn name(method: Text, body: &[u8], longest: usize) -> Option<Name> {
    if !method.is_escaped() {
        let plain = method.inner();
        return (1..=longest).contains(&plain.len()).then_some(Name::Plain(plain));
    }
    let text = method.resolve(body)?;
    (1..=longest)
        .contains(&text.len())
        .then(|| Name::Resolved(text.into_owned().into_boxed_str()))
}
