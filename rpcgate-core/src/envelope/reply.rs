//! Parsing of node answers.

use crate::json::{Cursor, DEEPEST, Span, SyntaxError, Text};

/// The spans of a reply's members in its body, each as JSON text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyMembers {
    /// The whole object.
    pub span: Span,
    /// `id`.
    pub id: Option<Span>,
    /// `result`, which may be `null`.
    pub result: Option<Span>,
    /// `error`; `null` counts as absent.
    pub error: Option<Span>,
}

/// The content of the body of a node's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replies {
    /// One object.
    Single(ReplyMembers),
    /// An array of objects in the node's order, possibly empty.
    Many(Vec<ReplyMembers>),
}

/// Parses a node's whole answer, nested no deeper than `depth`.
///
/// Anything but objects is an error. So is a second `id`, `result` or `error`, because clients may disagree on which
/// one counts. Other members are skipped.
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
            let from = cursor.offset();
            let reply = reply(&mut cursor, body)?;
            if many.is_empty() {
                many.reserve(cursor.items_like(from, MOST));
            }
            many.push(reply);
        }
        Replies::Many(many)
    } else {
        Replies::Single(reply(&mut cursor, body)?)
    };
    cursor.end()?;
    Ok(replies)
}

const MOST: usize = 128;

#[inline]
fn reply(cursor: &mut Cursor<'_>, body: &[u8]) -> Result<ReplyMembers, SyntaxError> {
    cursor.enter_object()?;
    let start = cursor.offset() - 1;
    let mut id = None;
    let mut result = None;
    let mut error = None;
    while cursor.next_name()? {
        let name = cursor.offset();
        let slot = match Member::next(cursor, body)? {
            Member::Id => {
                if id.replace(cursor.value_number()?).is_some() {
                    return Err(SyntaxError::at(name));
                }
                continue;
            }
            Member::Result => &mut result,
            Member::Error => &mut error,
            Member::Other => {
                cursor.value_likely(b"\"2.0\"")?;
                continue;
            }
        };
        if slot.replace(cursor.value()?).is_some() {
            return Err(SyntaxError::at(name));
        }
    }
    let span = Span::new(start, cursor.offset());
    Ok(ReplyMembers { span, id, result, error: error.filter(|error| error.of(body) != b"null") })
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
    fn next(cursor: &mut Cursor<'_>, body: &[u8]) -> Result<Self, SyntaxError> {
        // The spelling of nearly every node.
        Ok(match cursor.second() {
            Some(b'j') if cursor.take(b"\"jsonrpc\":") => Member::Other,
            Some(b'i') if cursor.take(b"\"id\":") => Member::Id,
            Some(b'r') if cursor.take(b"\"result\":") => Member::Result,
            Some(b'e') if cursor.take(b"\"error\":") => Member::Error,
            _ => Member::of(cursor.name()?, body),
        })
    }

    #[inline]
    fn of(name: Text, body: &[u8]) -> Self {
        if name.is_escaped() {
            return name.resolve(body).map_or(Member::Other, |name| Member::named(name.as_bytes()));
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

/// The kind of a reply, known from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyKind {
    /// The reply has a result.
    Result,
    /// The reply has an error that is not `null`.
    Error,
    /// Undecided so far. An array of replies is never decided.
    Undecided,
    /// Not a reply, regardless of the rest.
    Bad,
}

/// Classifies a reply by its first bytes. A member counts as soon as its value starts with anything but `null`. A reply
/// with two `null` members is a result.
///
/// ```
/// use rpcgate_core::envelope::{ReplyKind, reply_head};
///
/// assert_eq!(reply_head(br#"{"error":null,"result":[{"a"#), ReplyKind::Result);
/// assert_eq!(reply_head(br#"{"result":null,"err"#), ReplyKind::Undecided);
/// ```
pub fn reply_head(prefix: &[u8]) -> ReplyKind {
    // A prefix may have hundreds of kilobytes, all from one socket read, and the scan would cover all of them.
    match prefix.get(..SOON).map_or(ReplyKind::Undecided, head_of) {
        ReplyKind::Undecided => head_of(prefix),
        head => head,
    }
}

/// Nearly every reply is decided within this number of bytes.
const SOON: usize = 256;

fn head_of(prefix: &[u8]) -> ReplyKind {
    let (text, cut) = match std::str::from_utf8(prefix) {
        Ok(text) => (text.as_bytes(), true),
        // The last character may be incomplete, but not invalid.
        Err(error) => (prefix.get(..error.valid_up_to()).unwrap_or_default(), error.error_len().is_none()),
    };
    match look(text) {
        Ok(head) => head,
        Err(error) if cut && error.offset() >= text.len() => ReplyKind::Undecided,
        Err(_) => ReplyKind::Bad,
    }
}

fn look(text: &[u8]) -> Result<ReplyKind, SyntaxError> {
    let mut cursor = Cursor::new(text, DEEPEST);
    if cursor.peek() == Some(b'[') {
        return Ok(ReplyKind::Undecided);
    }
    cursor.enter_object()?;
    let mut result = false;
    let mut error = false;
    while let Some(name) = cursor.next_member()? {
        let (seen, head) = match Member::of(name, text) {
            Member::Result => (&mut result, ReplyKind::Result),
            Member::Error => (&mut error, ReplyKind::Error),
            Member::Id | Member::Other => {
                cursor.value()?;
                continue;
            }
        };
        if std::mem::replace(seen, true) {
            return Ok(ReplyKind::Bad);
        }
        if let Some(b'"' | b'{' | b'[' | b'-' | b'0'..=b'9' | b't' | b'f') = cursor.peek() {
            return Ok(head);
        }
        cursor.value()?;
    }
    cursor.end()?;
    Ok(if result { ReplyKind::Result } else { ReplyKind::Bad })
}

/// The call that a node's message on a stream answers, from its first members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyId {
    /// `id` as JSON text: of the message, or of the first item of an array.
    pub id: Span,
    /// True if the message is an array.
    pub is_array: bool,
    /// True if an `error` that is not `null` comes before a result.
    pub is_error: bool,
}

/// Reads the id of a node's message on a stream. `None` without an id, or if it is not a JSON object up to its id.
///
/// Reads only up to the id, because answers are large and most nodes write their id first.
///
/// ```
/// use rpcgate_core::envelope::reply_id;
///
/// let answer = br#"{"jsonrpc":"2.0","id":7,"result":"0x1"}"#;
/// assert_eq!(reply_id(answer).map(|reply| reply.id.of(answer)), Some(&b"7"[..]));
/// assert_eq!(reply_id(br#"{"jsonrpc":"2.0","method":"eth_subscription","params":{}}"#), None);
/// ```
pub fn reply_id(message: &[u8]) -> Option<ReplyId> {
    read_id(message).ok().flatten()
}

fn read_id(message: &[u8]) -> Result<Option<ReplyId>, SyntaxError> {
    let mut cursor = Cursor::new(message, DEEPEST);
    let is_array = cursor.peek() == Some(b'[');
    if is_array {
        cursor.enter_array()?;
        if !cursor.next_item()? {
            return Ok(None);
        }
    }
    cursor.enter_object()?;
    let mut id = None;
    let mut kind = None;
    while cursor.next_name()? {
        match Member::next(&mut cursor, message)? {
            Member::Id => id = Some(cursor.value()?),
            member @ (Member::Result | Member::Error) => {
                let is_null = cursor.peek() == Some(b'n');
                if !is_null {
                    kind.get_or_insert(member == Member::Error);
                }
                if id.is_some() && kind.is_some() {
                    break;
                }
                cursor.value()?;
            }
            Member::Other => {
                cursor.value_likely(b"\"2.0\"")?;
            }
        }
    }
    let id = id.filter(|id| id.of(message) != b"null");
    Ok(id.map(|id| ReplyId { id, is_array, is_error: kind == Some(true) }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::tests::json_text;

    type Facts<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>);

    fn facts<'a>(members: &ReplyMembers, body: &'a str) -> Facts<'a> {
        let text =
            |span: Option<Span>| span.map(|span| std::str::from_utf8(span.of(body.as_bytes())).unwrap());
        (text(members.id), text(members.result), text(members.error))
    }

    #[test]
    fn the_members_of_a_reply_are_found() {
        for (body, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":"0x1"}"#, (Some("1"), Some("\"0x1\""), None)),
            (
                r#" { "result" : null , "error" : {"code":-1} , "id" : "a" } "#,
                (Some("\"a\""), Some("null"), Some(r#"{"code":-1}"#)),
            ),
            (r#"{"result":null,"error":null,"id":null}"#, (Some("null"), Some("null"), None)),
            (r#"{"r\u0065sult":1,"\u0069d":2,"\ud800":3}"#, (Some("2"), Some("1"), None)),
            (r#"{"warnings":[],"warnings":[],"Result":1}"#, (None, None, None)),
            ("{}", (None, None, None)),
        ] {
            let Ok(Replies::Single(members)) = replies(body.as_bytes(), 512) else { panic!("{body}") };
            assert_eq!(facts(&members, body), expected, "{body}");
            assert_eq!(members.span.of(body.as_bytes()), body.trim().as_bytes());
        }
    }

    #[test]
    fn an_array_of_replies_keeps_its_order() {
        let body = r#"[{"id":1,"result":2} , {"error":{},"id":0}]"#;
        let Ok(Replies::Many(many)) = replies(body.as_bytes(), 512) else { panic!("an array") };
        let seen: Vec<_> = many.iter().map(|members| facts(members, body)).collect();
        assert_eq!(seen, [(Some("1"), Some("2"), None), (Some("0"), None, Some("{}"))]);
        assert_eq!(
            many.last().map(|last| last.span.of(body.as_bytes())),
            Some(&br#"{"error":{},"id":0}"#[..])
        );
        assert_eq!(replies(b"[]", 512), Ok(Replies::Many(Vec::new())));
    }

    #[test]
    fn anything_but_a_reply_is_an_error() {
        for body in [
            "",
            "1",
            "null",
            "\"a\"",
            "[1]",
            "[{},[]]",
            "[{},]",
            "{\"id\":1",
            "{}{}",
            "<html>",
            "{\"result\":01}",
            r#"{"id":1,"id":1}"#,
            r#"{"result":1,"r\u0065sult":1}"#,
            r#"{"error":null,"error":{}}"#,
            r#"[{"id":1},{"id":1,"id":2}]"#,
        ] {
            assert!(replies(body.as_bytes(), 512).is_err(), "{body}");
        }
        assert!(replies(b"{\"result\":\"\xff\"}", 512).is_err());
    }

    #[test]
    fn the_caller_chooses_the_depth() {
        let body = |levels: usize| format!("{{\"result\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(replies(body(511).as_bytes(), 512).is_ok());
        assert!(replies(body(512).as_bytes(), 512).is_err());
        assert!(replies(body(100_000).as_bytes(), 512).is_err());
    }

    #[test]
    fn the_id_of_a_message_is_found_in_every_position_and_pushes_have_none() {
        let read = |text: &str| {
            reply_id(text.as_bytes()).map(|reply| {
                let id = String::from_utf8(reply.id.of(text.as_bytes()).to_vec()).unwrap();
                (id, reply.is_array, reply.is_error)
            })
        };
        let found = |id: &str, is_array, is_error| Some((id.to_owned(), is_array, is_error));
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":1}"#, found("7", false, false)),
            (r#"{"result":{"id":8},"id":7}"#, found("7", false, false)),
            (r#"{"id":{"requestId":"a"},"error":{"code":1}}"#, found(r#"{"requestId":"a"}"#, false, true)),
            (r#"{"error":null,"result":1,"id":"x"}"#, found("\"x\"", false, false)),
            (r#"{"error":"noPermission","id":3,"status":"error"}"#, found("3", false, true)),
            (r#"[{"id":1,"result":2},{"id":2,"result":3}]"#, found("1", true, false)),
            (r#"{"id":7,"result":tru"#, found("7", false, false)),
            (r#"{"id":null,"error":{}}"#, None),
            (r#"{"method":"slotNotification","params":{"id":7}}"#, None),
            ("[]", None),
            ("7", None),
            ("", None),
            (r#"{"id":"#, None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn the_beginning_of_a_reply_distinguishes_result_from_error() {
        for (prefix, head) in [
            ("", ReplyKind::Undecided),
            (" {", ReplyKind::Undecided),
            (r#"{"id":1,"res"#, ReplyKind::Undecided),
            (r#"{"result""#, ReplyKind::Undecided),
            (r#"{"result":"#, ReplyKind::Undecided),
            (r#"{"result":n"#, ReplyKind::Undecided),
            (r#"{"result":null"#, ReplyKind::Undecided),
            (r#"{"result":null,"id":"abc"#, ReplyKind::Undecided),
            (r#"{"id":{"result":1,"#, ReplyKind::Undecided),
            ("[{\"result\":1", ReplyKind::Undecided),
            (r#"{"result":[{"error":1"#, ReplyKind::Result),
            (r#"{"result":"ab"#, ReplyKind::Result),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"#, ReplyKind::Result),
            (r#"{"error":null,"result":{"#, ReplyKind::Result),
            (r#"{"r\u0065sult":-"#, ReplyKind::Result),
            (r#"{"result":null,"error":null,"id":1}"#, ReplyKind::Result),
            (r#"{"error":{"#, ReplyKind::Error),
            (r#"{"result":null,"error":{"code""#, ReplyKind::Error),
            (r#"{"error":"too"#, ReplyKind::Error),
            ("<html>", ReplyKind::Bad),
            ("1", ReplyKind::Bad),
            (r#"{"result":null,"result":1"#, ReplyKind::Bad),
            (r#"{"error":null}"#, ReplyKind::Bad),
            (r#"{"id":1}"#, ReplyKind::Bad),
            (r#"{"result":x"#, ReplyKind::Bad),
            (r#"{"result":nope"#, ReplyKind::Bad),
            (r#"{"id" 1"#, ReplyKind::Bad),
            (r#"{"error":null,"result":null}x"#, ReplyKind::Bad),
        ] {
            assert_eq!(reply_head(prefix.as_bytes()), head, "{prefix}");
        }
        assert_eq!(reply_head(b"{\"id\":\"\xc3"), ReplyKind::Undecided);
        assert_eq!(reply_head(b"{\"id\":\"\xff"), ReplyKind::Bad);
        assert_eq!(reply_head(b"{\"id\":\"\xc3\","), ReplyKind::Bad);
        assert_eq!(reply_head(b"{\"result\":\"\xff"), ReplyKind::Result);
    }

    #[test]
    fn a_reply_is_decided_after_a_long_member_even_if_a_character_is_cut() {
        for length in 0..400 {
            let id = format!("{}\u{20ac}", "x".repeat(length));
            for (rest, head) in [
                (r#""result":["#, ReplyKind::Result),
                (r#""error":{"#, ReplyKind::Error),
                (r#""result":null"#, ReplyKind::Undecided),
                (r#""result":nope"#, ReplyKind::Bad),
            ] {
                let body = format!(r#"{{"id":"{id}",{rest}"#);
                assert_eq!(reply_head(body.as_bytes()), head, "{body}");
                let more = [body.as_bytes(), &[b' '; 2 * SOON]].concat();
                assert_eq!(reply_head(&more), head, "{body} and spaces");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn a_head_never_contradicts_the_whole_reply(
            value in json_text(),
            kind in 0..3_u8,
            null_first in any::<bool>(),
            other in json_text(),
        ) {
            let (member, twin) = if kind == 0 { ("error", "result") } else { ("result", "error") };
            let value = if kind == 2 { "null".to_owned() } else { value };
            let body = match null_first {
                true => format!(r#"{{"{twin}":null,"other":{other},"{member}":{value},"id":1}}"#),
                false => format!(r#"{{"id":1,"{member}":{value},"other":{other},"{twin}":null}}"#),
            };
            let Ok(Replies::Single(members)) = replies(body.as_bytes(), 512) else {
                return Err(TestCaseError::fail(body));
            };
            let verdict = if members.error.is_some() { ReplyKind::Error } else { ReplyKind::Result };
            prop_assert_eq!(members.result.map(|span| span.of(body.as_bytes())).is_some(), true);
            prop_assert_eq!(reply_head(body.as_bytes()), verdict);
            for cut in 0..body.len() {
                let head = reply_head(&body.as_bytes()[..cut]);
                prop_assert!(head == verdict || head == ReplyKind::Undecided, "{:?} at {} of {}", head, cut, body);
            }
        }
    }
}
