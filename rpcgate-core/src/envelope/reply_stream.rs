//! Checking of a node's reply while it streams through, and replacement of its id.

use super::wire::{ReplyNumber, reply_number};
use crate::json::{JsonStream, SyntaxError, WatchMembers};
use bytes::Bytes;
use smallvec::SmallVec;

/// The maximum length of an id that spans chunks, in bytes. Every spelling of a number is shorter.
const LONGEST_ID: usize = 64;

/// A part of the reply that the client gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplyPart {
    /// Text from the node.
    Text(Bytes),
    /// The position of the client's id, where the node wrote the gateway's number.
    Id,
    /// The position of an id before the last brace, because the node wrote none.
    Missing,
}

/// The parts of one chunk.
pub type ReplyParts = SmallVec<[ReplyPart; 4]>;

/// A checker of a node's streamed reply to one call: that it is a whole JSON object and answers this call.
///
/// A repeated `id`, `result` or `error` is an error, as in [`replies`](super::replies). So is an escaped name in the
/// outermost object, which clients may read as one of these.
///
/// ```
/// use bytes::Bytes;
/// use rpcgate_core::envelope::{ReplyPart, ReplyStream};
///
/// let mut reply = ReplyStream::new(640);
/// let parts = reply.read(&Bytes::from_static(br#"{"result":[1],"id":640}"#)).unwrap();
/// assert_eq!(parts[1], ReplyPart::Id);
/// assert!(reply.is_complete());
/// assert!(ReplyStream::new(640).read(&Bytes::from_static(br#"{"id":7,"result":1}"#)).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct ReplyStream {
    json: JsonStream,
    members: OuterMembers,
}

#[derive(Clone, Debug)]
struct OuterMembers {
    /// The number of the sent call.
    number: usize,
    name: SmallVec<[u8; 8]>,
    has_id: bool,
    has_result: bool,
    has_error: bool,
    /// Set if a name is repeated or escaped.
    is_bad: bool,
    /// Set while the current value is the id.
    is_in_id: bool,
    /// The part of the id from earlier chunks.
    id: SmallVec<[u8; 24]>,
    id_begin: Option<usize>,
    id_end: Option<usize>,
    /// The position of the last brace in this chunk.
    close: Option<usize>,
}

impl WatchMembers for OuterMembers {
    fn name(&mut self, part: &[u8]) {
        // Longer names are always other members.
        self.name.extend(part.iter().copied().take(8_usize.saturating_sub(self.name.len())));
        self.is_bad |= part == b"\\";
    }

    fn begin(&mut self, offset: usize) {
        let seen = match &self.name[..] {
            b"id" => {
                (self.is_in_id, self.id_begin) = (true, Some(offset));
                &mut self.has_id
            }
            b"result" => &mut self.has_result,
            b"error" => &mut self.has_error,
            _ => &mut false,
        };
        self.is_bad |= std::mem::replace(seen, true);
        self.name.clear();
    }

    fn end(&mut self, offset: usize) {
        if std::mem::take(&mut self.is_in_id) {
            self.id_end = Some(offset);
        }
    }

    fn close(&mut self, offset: usize) {
        self.close = Some(offset);
    }
}

impl ReplyStream {
    /// Creates a checker for the reply to the call that was sent under `number`.
    pub fn new(number: usize) -> Self {
        ReplyStream {
            json: JsonStream::new(),
            members: OuterMembers {
                number,
                name: SmallVec::new(),
                has_id: false,
                has_result: false,
                has_error: false,
                is_bad: false,
                is_in_id: false,
                id: SmallVec::new(),
                id_begin: None,
                id_end: None,
                close: None,
            },
        }
    }

    /// Reports whether the chunks so far are a whole reply.
    pub fn is_complete(&self) -> bool {
        self.json.is_complete()
    }

    /// Reads the next chunk.
    ///
    /// # Errors
    /// Returns an error if the reply is not JSON or answers another call.
    pub fn read(&mut self, chunk: &Bytes) -> Result<ReplyParts, SyntaxError> {
        let members = &mut self.members;
        let was_in_id = members.is_in_id;
        self.json.watched(chunk, members)?;
        let begin = members.id_begin.take();
        let end = members.id_end.take();
        let close = members.close.take();
        if members.is_bad {
            return Err(SyntaxError::at(0));
        }
        let mut parts = ReplyParts::new();
        let mut text = |from: usize, to: usize| {
            if from < to {
                parts.push(ReplyPart::Text(chunk.slice(from..to)));
            }
        };
        let mut from = 0;
        let start = if was_in_id { Some(0) } else { begin };
        if let Some(start) = start {
            text(0, start);
            let until = end.unwrap_or(chunk.len());
            let piece = chunk.get(start..until).unwrap_or_default();
            if members.id.len() + piece.len() > LONGEST_ID {
                return Err(SyntaxError::at(start));
            }
            members.id.extend_from_slice(piece);
            let Some(end) = end else { return Ok(parts) };
            if reply_number(Some(&members.id), members.number) == ReplyNumber::Other {
                return Err(SyntaxError::at(start));
            }
            parts.push(ReplyPart::Id);
            from = end;
        } else if let Some(close) = close.filter(|_| !members.has_id) {
            text(0, close);
            parts.push(ReplyPart::Missing);
            from = close;
        }
        if from < chunk.len() {
            parts.push(ReplyPart::Text(chunk.slice(from..)));
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Replies, replies};
    use crate::json::DEEPEST;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Returns the reply for a client with the id `"mine"`, from chunks that end at `cuts`.
    fn rewritten(reply: &str, cuts: &[usize]) -> Option<String> {
        let bytes = Bytes::copy_from_slice(reply.as_bytes());
        let mut cuts: Vec<_> =
            cuts.iter().map(|cut| cut % (reply.len() + 1)).chain([0, reply.len()]).collect();
        cuts.sort_unstable();
        let mut stream = ReplyStream::new(640);
        let mut out = Vec::new();
        for cut in cuts.windows(2) {
            for part in stream.read(&bytes.slice(cut[0]..cut[1])).ok()? {
                match part {
                    ReplyPart::Text(text) => out.extend_from_slice(&text),
                    ReplyPart::Id => out.extend_from_slice(b"\"mine\""),
                    ReplyPart::Missing => out.extend_from_slice(b",\"id\":\"mine\""),
                }
            }
        }
        stream.is_complete().then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_id_is_replaced_in_every_position() {
        for (reply, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":640,"result":{"id":1}}"#,
                r#"{"jsonrpc":"2.0","id":"mine","result":{"id":1}}"#,
            ),
            (r#"{"result":[{"id":2}] , "id" : 640 }"#, r#"{"result":[{"id":2}] , "id" : "mine" }"#),
            (r#"{"id":"640","error":{}}"#, r#"{"id":"mine","error":{}}"#),
            (r#"{"id":640.0,"result":1}"#, r#"{"id":"mine","result":1}"#),
            (r#"{"id":null,"result":1}"#, r#"{"id":"mine","result":1}"#),
            (r#"{"result":1}"#, r#"{"result":1,"id":"mine"}"#),
        ] {
            for cut in 0..reply.len() {
                assert_eq!(rewritten(reply, &[cut]).as_deref(), Some(expected), "{reply} {cut}");
            }
            assert_eq!(rewritten(reply, &(0..reply.len()).collect::<Vec<_>>()).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_reply_to_another_call_or_of_unclear_meaning_is_refused() {
        for reply in [
            r#"{"id":641,"result":1}"#,
            r#"{"result":1,"id":64}"#,
            r#"{"result":1,"id":"x"}"#,
            r#"{"result":1,"id":[640]}"#,
            r#"{"id":640,"result":1,"id":640}"#,
            r#"{"id":640,"result":1,"result":2}"#,
            r#"{"id":640,"error":{},"error":{}}"#,
            r#"{"\u0069d":7,"result":1,"id":640}"#,
            r#"{"id":6400000000000000000000000000000000000000000000000000000000000000000,"result":1}"#,
            r#"{"id":640,"result":1"#,
            r#"{"id":640,"result":1}}"#,
        ] {
            for cut in 0..reply.len() {
                assert_eq!(rewritten(reply, &[cut]), None, "{reply} {cut}");
            }
        }
    }

    proptest! {
        // Shows (Nodes and cache).
        #[test]
        fn a_streamed_reply_is_accepted_where_a_whole_one_is(
            members in vec(prop::sample::select(vec![
                r#""id":640"#, r#""id":64"#, r#""id":null"#, r#""result":[{"id":7}]"#, r#""result":null"#, r#""error":{}"#,
                r#""ids":1"#, r#""resultresult":"id""#, r#""x":"\"id\":7""#,
            ]), 1..5),
            cuts in vec(any::<usize>(), 0..5),
        ) {
            let reply = format!("{{{}}}", members.join(","));
            let is_good = matches!(replies(reply.as_bytes(), DEEPEST), Ok(Replies::Single(_))) && !reply.contains("\"id\":64,") && !reply.ends_with("\"id\":64}");
            prop_assert_eq!(rewritten(&reply, &cuts).is_some(), is_good, "{}", reply);
        }
    }
}
