//! What a node answers.

use crate::json::{Cursor, DEEPEST, Span, SyntaxError, Text};

/// The places of a reply's members in its body, each as JSON text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyMembers {
    /// The whole object.
    pub whole: Span,
    /// `id`.
    pub id: Option<Span>,
    /// `result`, `null` as well.
    pub result: Option<Span>,
    /// `error`; one that is `null` counts as absent.
    pub error: Option<Span>,
}

/// What the body of a node's answer holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replies {
    /// One object.
    Single(ReplyMembers),
    /// An array of objects, in the node's order, possibly empty.
    Many(Vec<ReplyMembers>),
}

/// Reads a node's whole answer, nested no deeper than `depth`.
///
/// Anything but an object or an array of objects is an error, and so is a second `id`, `result` or `error`: which of
/// the two a client would take is unknown. Other members are passed over.
///
/// ```
/// use rpcgate_core::envelope::{Replies, replies};
///
/// let body = br#"{"result":{"a":1},"error":null,"id":1}"#;
/// let Ok(Replies::Single(reply)) = replies(body, 512) else { panic!("a valid reply") };
/// assert_eq!(reply.result.map(|result| result.of(body)), Some(&br#"{"a":1}"#[..]));
/// assert_eq!(reply.error, None);
/// ```
pub fn replies(body: &[u8], depth: usize) -> Result<Replies, SyntaxError> {
    let mut cursor = Cursor::new(body, depth);
    let replies = if cursor.peek() == Some(b'[') {
        let mut many = Vec::new();
        cursor.enter_array()?;
        while cursor.next_item()? {
            many.push(reply(&mut cursor, body)?);
        }
        Replies::Many(many)
    } else {
        Replies::Single(reply(&mut cursor, body)?)
    };
    cursor.end()?;
    Ok(replies)
}

#[inline]
fn reply(cursor: &mut Cursor<'_>, body: &[u8]) -> Result<ReplyMembers, SyntaxError> {
    cursor.enter_object()?;
    let start = cursor.offset() - 1;
    let (mut id, mut result, mut error) = (None, None, None);
    while let Some(name) = cursor.next_member()? {
        let slot = match Member::of(name, body) {
            Member::Id => &mut id,
            Member::Result => &mut result,
            Member::Error => &mut error,
            Member::Other => {
                cursor.value()?;
                continue;
            }
        };
        if slot.replace(cursor.value()?).is_some() {
            return Err(SyntaxError::at(name.raw().start()));
        }
    }
    let whole = Span::new(start, cursor.offset());
    Ok(ReplyMembers {
        whole,
        id,
        result,
        error: error.filter(|error| error.of(body) != b"null"),
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Member {
    Id,
    Result,
    Error,
    Other,
}

impl Member {
    #[inline]
    fn of(name: Text, body: &[u8]) -> Self {
        if name.is_escaped() {
            return name
                .resolve(body)
                .map_or(Member::Other, |name| Member::named(name.as_bytes()));
        }
        Member::named(name.inner().of(body))
    }

    #[inline]
    fn named(name: &[u8]) -> Self {
        match name {
            b"id" => Member::Id,
            b"result" => Member::Result,
            b"error" => Member::Error,
            _ => Member::Other,
        }
    }
}

/// What the first bytes of a reply tell about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    /// It carries a result.
    Result,
    /// It carries an error that is not `null`.
    Error,
    /// Not to be told yet; an array of replies never is.
    Undecided,
    /// It is no reply, whatever follows.
    Bad,
}

/// Whether a reply of which only the first bytes are at hand is a result or an error. A member counts as soon as its
/// value starts with anything but `null`; two members that are both `null` make a result of `null`.
///
/// ```
/// use rpcgate_core::envelope::{Head, reply_head};
///
/// assert_eq!(reply_head(br#"{"error":null,"result":[{"a"#), Head::Result);
/// assert_eq!(reply_head(br#"{"result":null,"err"#), Head::Undecided);
/// ```
pub fn reply_head(prefix: &[u8]) -> Head {
    let (text, cut) = match std::str::from_utf8(prefix) {
        Ok(text) => (text.as_bytes(), true),
        // A character may be cut in two, but it may not be wrong.
        Err(error) => (
            prefix.get(..error.valid_up_to()).unwrap_or_default(),
            error.error_len().is_none(),
        ),
    };
    match look(text) {
        Ok(head) => head,
        Err(error) if cut && error.offset() >= text.len() => Head::Undecided,
        Err(_) => Head::Bad,
    }
}

fn look(text: &[u8]) -> Result<Head, SyntaxError> {
    let mut cursor = Cursor::new(text, DEEPEST);
    if cursor.peek() == Some(b'[') {
        return Ok(Head::Undecided);
    }
    cursor.enter_object()?;
    let (mut result, mut error) = (false, false);
    while let Some(name) = cursor.next_member()? {
        let (seen, head) = match Member::of(name, text) {
            Member::Result => (&mut result, Head::Result),
            Member::Error => (&mut error, Head::Error),
            Member::Id | Member::Other => {
                cursor.value()?;
                continue;
            }
        };
        if std::mem::replace(seen, true) {
            return Ok(Head::Bad);
        }
        if let Some(b'"' | b'{' | b'[' | b'-' | b'0'..=b'9' | b't' | b'f') = cursor.peek() {
            return Ok(head);
        }
        cursor.value()?;
    }
    cursor.end()?;
    Ok(if result { Head::Result } else { Head::Bad })
}
