//! Writing of calls for a node.

use super::call::{Envelope, Name};
use crate::json::write_string;

/// The id that a call has at the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireId<'a> {
    /// The client's own id, byte for byte; none if the client sent none.
    Own,
    /// The index of the call in a request to a node, which [`parse_index`] reads.
    Index(usize),
    /// This JSON text.
    Raw(&'a [u8]),
}

impl Envelope {
    /// Appends `jsonrpc`, `id`, `method` and `params`, each only if the client sent it, version and params byte for
    /// byte. Without unknown members, a node reads exactly the call that was parsed here. A notification never gets an
    /// id. A call of version 1.0 without one does, unless `id` is [`WireId::Own`].
    pub fn write(&self, body: &[u8], id: WireId<'_>, out: &mut Vec<u8>) {
        out.push(b'{');
        if let Some(version) = self.version {
            out.extend_from_slice(b"\"jsonrpc\":");
            out.extend_from_slice(version.of(body));
            out.push(b',');
        }
        self.write_id(body, id, out);
        self.write_rest(body, out);
    }

    /// Appends the call with only its own method and params, and this version (JSON text) and index as id, or neither.
    /// For calls that other clients may wait for: one client's odd envelope would become another client's error.
    pub fn write_anonymous(&self, body: &[u8], version: Option<&str>, index: usize, out: &mut Vec<u8>) {
        out.push(b'{');
        if let Some(version) = version {
            out.extend_from_slice(b"\"jsonrpc\":");
            out.extend_from_slice(version.as_bytes());
            out.extend_from_slice(b",\"id\":");
            write_index(out, index);
            out.push(b',');
        }
        self.write_rest(body, out);
    }

    fn write_rest(&self, body: &[u8], out: &mut Vec<u8>) {
        const BETWEEN: &[u8] = b"\",\"params\":";
        if let (Name::Plain(name), Some(params)) = (&self.method, self.params)
            && body.get(name.end()..params.start()) == Some(BETWEEN)
            && let Some(both) = body.get(name.start()..params.end())
        {
            // The spelling of nearly every client: one piece to copy.
            out.extend_from_slice(b"\"method\":\"");
            out.extend_from_slice(both);
            out.push(b'}');
            return;
        }
        out.extend_from_slice(b"\"method\":");
        match &self.method {
            Name::Plain(span) => {
                out.push(b'"');
                out.extend_from_slice(span.of(body));
                out.push(b'"');
            }
            Name::Resolved(text) => write_string(out, text),
        }
        if let Some(params) = self.params {
            out.extend_from_slice(b",\"params\":");
            out.extend_from_slice(params.of(body));
        }
        out.push(b'}');
    }

    fn write_id(&self, body: &[u8], id: WireId<'_>, out: &mut Vec<u8>) {
        const MEMBER: &[u8] = b"\"id\":";
        match id {
            WireId::Own => {
                let Some(own) = self.id else { return };
                out.extend_from_slice(MEMBER);
                out.extend_from_slice(own.of(body));
            }
            _ if self.is_notification(body) => return,
            WireId::Index(index) => {
                out.extend_from_slice(MEMBER);
                write_index(out, index);
            }
            WireId::Raw(raw) => {
                out.extend_from_slice(MEMBER);
                out.extend_from_slice(raw);
            }
        }
        out.push(b',');
    }
}

fn write_index(out: &mut Vec<u8>, index: usize) {
    out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
}

/// Parses a [`WireId::Index`]. `None` for any other JSON text, including other spellings of the same number.
///
/// ```
/// use rpcgate_core::envelope::parse_index;
///
/// assert_eq!(parse_index(b"12"), Some(12));
/// assert_eq!(parse_index(b"012"), None);
/// ```
pub fn parse_index(id: &[u8]) -> Option<usize> {
    if let [b'0', _, ..] | [] = id {
        return None;
    }
    let digit = |byte: &u8| Some(usize::from(byte.wrapping_sub(b'0'))).filter(|digit| *digit <= 9);
    if id.len() < usize::MAX.ilog10() as usize {
        // Too short to overflow.
        return id.iter().try_fold(0, |value, byte| Some(value * 10 + digit(byte)?));
    }
    id.iter().try_fold(0_usize, |value, byte| value.checked_mul(10)?.checked_add(digit(byte)?))
}

/// The relation of a reply's id to the number of the sent call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyNumber {
    /// The number as sent.
    Same,
    /// The number in another spelling: `"1"` or `1.0` for `1`.
    Respelled,
    /// Absent or null: some nodes drop ids, and others write null if they could not read one.
    Absent,
    /// Another id: the reply answers another call.
    Other,
}

/// Compares the id of a reply with the number of the sent call.
///
/// ```
/// use rpcgate_core::envelope::{ReplyNumber, reply_number};
///
/// assert_eq!(reply_number(Some(b"640"), 640), ReplyNumber::Same);
/// assert_eq!(reply_number(Some(b"640.0"), 640), ReplyNumber::Respelled);
/// assert_eq!(reply_number(Some(b"641"), 640), ReplyNumber::Other);
/// ```
pub fn reply_number(id: Option<&[u8]>, number: usize) -> ReplyNumber {
    let Some(id) = id.filter(|id| *id != b"null") else { return ReplyNumber::Absent };
    if parse_index(id) == Some(number) {
        return ReplyNumber::Same;
    }
    if read_number(id) == Some(number) { ReplyNumber::Respelled } else { ReplyNumber::Other }
}

/// Parses the number in an id, in any spelling: `1`, `"1"`, `1.0`. `None` if it is not a whole number of at least 0.
///
/// ```
/// use rpcgate_core::envelope::read_number;
///
/// assert_eq!((read_number(b"12.0"), read_number(b"\"12\""), read_number(b"[12]")), (Some(12), Some(12), None));
/// ```
pub fn read_number(id: &[u8]) -> Option<usize> {
    /// A float represents all smaller whole numbers exactly, and call numbers are smaller.
    const EXACT: f64 = (1_u64 << 53) as f64;
    if let Some(index) = parse_index(id) {
        return Some(index);
    }
    let bare = id.strip_prefix(b"\"").and_then(|id| id.strip_suffix(b"\"")).unwrap_or(id);
    let float = || {
        let value: f64 = std::str::from_utf8(bare).ok()?.parse().ok()?;
        ((0.0..EXACT).contains(&value) && value.fract() == 0.0).then_some(value as usize)
    };
    parse_index(bare).or_else(float)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::envelope::{Limits, ParsedBody, parse};

    #[test]
    fn an_anonymous_call_has_only_the_method_and_params_of_its_client() {
        let body = br#"{"jsonrpc":"3.0","id":{"odd":1},"x":2,"method":"toy_r\u0065ad","params":[1.0]}"#;
        let Ok(ParsedBody::Single(Ok(call))) = parse(body, &Limits::default()) else { panic!("a call") };
        let mut out = Vec::new();
        call.write_anonymous(body, Some("\"2.0\""), 7, &mut out);
        assert_eq!(out, br#"{"jsonrpc":"2.0","id":7,"method":"toy_read","params":[1.0]}"#);
    }

    fn written(body: &str, id: WireId<'_>) -> String {
        let Ok(ParsedBody::Single(Ok(call))) = parse(body.as_bytes(), &Limits::default()) else {
            panic!("no call: {body}")
        };
        let mut out = Vec::new();
        call.write(body.as_bytes(), id, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_call_is_written_in_one_order_without_unknown_members() {
        let body = r#" { "params" : [ 1.0,  1e2 ] , "version":"1.1", "m\u0065thod":"g\u0065t\"x" ,"id": {"a": 1} ,"jsonrpc":"2.0" } "#;
        assert_eq!(
            written(body, WireId::Own),
            r#"{"jsonrpc":"2.0","id":{"a": 1},"method":"get\"x","params":[ 1.0,  1e2 ]}"#
        );
        assert_eq!(
            written(body, WireId::Index(10)),
            r#"{"jsonrpc":"2.0","id":10,"method":"get\"x","params":[ 1.0,  1e2 ]}"#
        );
        assert_eq!(
            written(body, WireId::Raw(b"\"x\"")),
            r#"{"jsonrpc":"2.0","id":"x","method":"get\"x","params":[ 1.0,  1e2 ]}"#
        );
    }

    #[test]
    fn a_notification_never_gets_an_id() {
        for body in [r#"{"jsonrpc":"2.0","method":"a"}"#, r#"{"jsonrpc":"2\u002e0","method":"a"}"#] {
            for id in [WireId::Own, WireId::Index(3), WireId::Raw(b"3")] {
                assert_eq!(written(body, id), body);
            }
        }
    }

    #[test]
    fn a_call_of_version_1_without_id_gets_the_gateways_id() {
        assert_eq!(written(r#"{"method":"a"}"#, WireId::Own), r#"{"method":"a"}"#);
        assert_eq!(written(r#"{"method":"a"}"#, WireId::Index(0)), r#"{"id":0,"method":"a"}"#);
        assert_eq!(
            written(r#"{"method":"a","jsonrpc":"1.0","params":null}"#, WireId::Raw(b"7")),
            r#"{"jsonrpc":"1.0","id":7,"method":"a","params":null}"#
        );
    }

    #[test]
    fn a_reply_is_matched_to_its_call_in_any_spelling_of_the_number() {
        for (id, expected) in [
            (Some("640"), ReplyNumber::Same),
            (Some("\"640\""), ReplyNumber::Respelled),
            (Some("640.0"), ReplyNumber::Respelled),
            (Some("6.4e2"), ReplyNumber::Respelled),
            (Some("null"), ReplyNumber::Absent),
            (None, ReplyNumber::Absent),
            (Some("641"), ReplyNumber::Other),
            (Some("64"), ReplyNumber::Other),
            (Some("\"x\""), ReplyNumber::Other),
            (Some("[640]"), ReplyNumber::Other),
            (Some("{}"), ReplyNumber::Other),
            (Some("\"null\""), ReplyNumber::Other),
        ] {
            assert_eq!(reply_number(id.map(str::as_bytes), 640), expected, "{id:?}");
        }
    }

    #[test]
    fn only_the_written_spelling_is_an_index() {
        for other in [
            "",
            "-1",
            "+1",
            "01",
            "00",
            "1.0",
            "1e1",
            " 1",
            "1 ",
            "\"1\"",
            "null",
            "18446744073709551616",
            "٣",
        ] {
            assert_eq!(parse_index(other.as_bytes()), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn an_index_reads_back(index in prop_oneof![any::<usize>(), 0..200_usize, Just(usize::MAX)]) {
            let mut out = Vec::new();
            write_index(&mut out, index);
            prop_assert_eq!(&out, &index.to_string().into_bytes());
            prop_assert_eq!(parse_index(&out), Some(index));
        }
    }
}
