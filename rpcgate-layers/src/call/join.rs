//! Joins settled calls into one response: the answer to each entry under its own id, in the dialect of the chain.

use super::pieces::Pieces;
use crate::request::message::PendingResponse;
use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use rpcgate_core::call::{CallState, Calls, Entry, Settled};
use rpcgate_core::chain::Dialect;
use rpcgate_core::refusal::{BackendFailure, Refusal};
use rpcgate_core::reply::{CompleteReply, Form, Inner, Reply};
use rpcgate_core::tally::Tally;

/// The minimum size of an answer that is counted in the memory of all bodies. Counting each small answer would cost
/// more than its memory does.
pub(crate) const HELD: usize = 16 << 10;

/// The maximum initial allocation for the response to a batch.
const USUAL: usize = 64 << 10;

/// Joins a set into its response. The response to a batch has at most `most` bytes: an answer that does not fit, or
/// that exceeds the memory of all bodies, is replaced by a refusal.
pub fn join(calls: Calls<Settled>, most: usize) -> PendingResponse {
    let mut tally = calls.into_tally();
    let dialect = tally.chain.facts().dialect;
    let pending = if let (Some(refusal), true) = (tally.refused, tally.batch) {
        let mut pending = PendingResponse::refused(refusal);
        let mut body = Vec::new();
        refusal.write_alone(dialect, None, &mut body);
        if let Some(first) = tally.entries.first_mut() {
            first.bytes_out = body.len() as u32;
        }
        pending.body = body.into();
        pending
    } else if tally.batch {
        batch(&mut tally, dialect, most)
    } else {
        single(&mut tally, dialect)
    };
    PendingResponse { tally: Some(tally), rated: true, ..pending }
}

fn answer(status: StatusCode, headers: HeaderMap, body: Bytes) -> PendingResponse {
    PendingResponse { is_json: true, ..plain(status, headers, body) }
}

/// Builds a response whose content type is in `headers`.
fn plain(status: StatusCode, headers: HeaderMap, body: Bytes) -> PendingResponse {
    PendingResponse {
        status,
        headers,
        is_json: false,
        body,
        rest: Vec::new(),
        flow: None,
        tally: None,
        windows: None,
        rated: false,
        refusal: None,
    }
}

fn in_pieces(status: StatusCode, headers: HeaderMap, pieces: Pieces) -> PendingResponse {
    let (first, rest) = pieces.split();
    PendingResponse { rest, ..answer(status, headers, first) }
}

fn single(tally: &mut Tally, dialect: Dialect) -> PendingResponse {
    let Tally { entries, body, passing, memory, .. } = tally;
    let Some(entry) = entries.first_mut() else {
        return answer(StatusCode::OK, HeaderMap::new(), Bytes::new());
    };
    let length = capacity_for(entry, body);
    if length >= HELD && memory.take_up_to(length).is_err() {
        entry.state = CallState::Refused(Refusal::Overloaded);
    }
    let notification = entry.call.is_notification(body);
    let dialect = entry.call.dialect(dialect);
    let id = entry.call.id(body);
    let mut out = Vec::new();
    let pending = match &mut entry.state {
        CallState::Refused(refusal) => {
            refusal.write_alone(dialect, id, &mut out);
            let pending = answer(refusal.status(), HeaderMap::new(), out.into());
            PendingResponse { refusal: Some(*refusal), ..pending }
        }
        CallState::Answered(Reply { form: Form::Nothing, .. }) => nothing(),
        CallState::Answered(_) if notification => nothing(),
        CallState::Answered(Reply { form: Form::Complete(complete), .. }) => {
            let pieces = with_id(complete, id);
            entry.bytes_out = length_of(pieces.len());
            return in_pieces(complete.status, std::mem::take(passing), pieces);
        }
        CallState::Answered(Reply { form: Form::Rest(rest), .. }) => {
            plain(rest.status, std::mem::take(&mut rest.headers), rest.body.clone())
        }
        CallState::Answered(Reply { form: Form::Stream(streamed), .. }) => {
            let status = streamed.status;
            let headers = std::mem::take(&mut streamed.headers);
            let head = if dialect == Dialect::Rest { plain } else { answer };
            PendingResponse { flow: streamed.take(), ..head(status, headers, Bytes::new()) }
        }
        CallState::Answered(Reply { form, .. }) => {
            let method = entry.call.sent(body);
            let mut pieces = Pieces::default();
            write_form(form, dialect, id, method, &mut pieces);
            let status = match form {
                Form::Failure(_, status) | Form::Error(_, status) => *status,
                _ => StatusCode::OK,
            };
            let bytes = pieces.len();
            let pending = in_pieces(status, std::mem::take(passing), pieces);
            entry.bytes_out = length_of(bytes);
            return pending;
        }
        CallState::Failed(_) | CallState::Open | CallState::Parked | CallState::Sent => {
            BackendFailure.write(dialect, id, &mut out);
            answer(BackendFailure.status(dialect), HeaderMap::new(), out.into())
        }
    };
    entry.bytes_out = length_of(pending.body.len());
    pending
}

/// Writes the client's id over the gateway's number in a node's own answer. A large answer is not copied.
fn with_id(complete: &CompleteReply, id: Option<&[u8]>) -> Pieces {
    let CompleteReply { body, .. } = complete;
    let mut pieces = Pieces::default();
    let Some(span) = complete.id else {
        pieces.content(body);
        return pieces;
    };
    let id = id.unwrap_or(b"null");
    if Pieces::shares(body.len()) {
        pieces.content(&body.slice(..span.start()));
        pieces.text.extend_from_slice(id);
        pieces.content(&body.slice(span.end()..));
    } else {
        let before = body.get(..span.start());
        let behind = body.get(span.end()..);
        pieces.text.reserve_exact(body.len() - span.len() + id.len());
        for part in [before.unwrap_or_default(), id, behind.unwrap_or_default()] {
            pieces.text.extend_from_slice(part);
        }
    }
    pieces
}

fn length_of(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Returns the response to a single notification: HTTP requires a response, JSON-RPC forbids an answer.
fn nothing() -> PendingResponse {
    plain(StatusCode::OK, HeaderMap::new(), Bytes::new())
}

fn batch(tally: &mut Tally, dialect: Dialect, most: usize) -> PendingResponse {
    let Tally { entries, body, memory, .. } = tally;
    // The answers of a batch usually have similar lengths.
    let first =
        entries.first().map(|entry| capacity_for(entry, body)).filter(|length| !Pieces::shares(*length));
    let mut out = Pieces::with_capacity((first.unwrap_or(200) * entries.len()).min(USUAL).min(most));
    out.text.push(b'[');
    for entry in entries.iter_mut() {
        if entry.call.is_notification(body) {
            continue;
        }
        if matches!(entry.state, CallState::Answered(_)) {
            let length = out.len() + capacity_for(entry, body);
            if length > most || length >= HELD && memory.take_up_to(length).is_err() {
                entry.state = CallState::Refused(Refusal::ReplyTooLarge);
            }
        }
        if out.len() > 1 {
            out.text.push(b',');
        }
        let before = out.len();
        let id = entry.call.id(body);
        match &entry.state {
            CallState::Refused(refusal) => refusal.write_item(dialect, id, &mut out.text),
            CallState::Answered(reply) => {
                let method = entry.call.sent(body);
                write_form(&reply.form, dialect, id, method, &mut out);
            }
            CallState::Failed(_) | CallState::Open | CallState::Parked | CallState::Sent => {
                BackendFailure.write(dialect, id, &mut out.text);
            }
        }
        entry.bytes_out = length_of(out.len() - before);
    }
    if out.len() == 1 {
        // A batch of notifications alone has no answer (JSON-RPC 2.0, section 6).
        return answer(StatusCode::OK, HeaderMap::new(), Bytes::new());
    }
    out.text.push(b']');
    let spare = out.len() - entries.iter().map(|entry| entry.bytes_out as usize).sum::<usize>();
    if let Some(first) = entries.first_mut() {
        first.bytes_out = first.bytes_out.saturating_add(length_of(spare));
    }
    in_pieces(StatusCode::OK, HeaderMap::new(), out)
}

/// Returns an upper estimate of the answer's size in bytes.
fn capacity_for(entry: &Entry, body: &[u8]) -> usize {
    let content = match &entry.state {
        CallState::Answered(Reply {
            form: Form::Result(bytes) | Form::Failure(bytes, _) | Form::Error(bytes, _),
            ..
        }) => bytes.len(),
        CallState::Answered(Reply { form: Form::Complete(complete), .. }) => complete.body.len(),
        CallState::Answered(Reply { form: Form::Rest(rest), .. }) => rest.body.len(),
        _ => 120,
    };
    // The longest frame around a result is that of Ogmios, which also contains the method.
    content + entry.call.id(body).map_or(4, <[u8]>::len) + entry.call.sent(body).len() + 48
}

/// Writes an answer to the call with this id and method.
fn write_form(form: &Form, dialect: Dialect, id: Option<&[u8]>, method: &[u8], pieces: &mut Pieces) {
    let id = id.unwrap_or(b"null");
    let (result, error) = match form {
        Form::Complete(complete) => match &complete.inner {
            Inner::Result(result) | Inner::Failure(result) => (Some(result), None),
            Inner::Error(error) => (None, Some(error)),
        },
        Form::Result(result) | Form::Failure(result, _) => (Some(result), None),
        Form::Error(error, _) => (None, Some(error)),
        Form::Nothing | Form::Rest(_) | Form::Stream(_) => (None, None),
    };
    let content = error.or(result);
    let copied = content.map_or(4, |content| if Pieces::shares(content.len()) { 0 } else { content.len() });
    pieces.text.reserve(copied + id.len() + 44);
    write_before(&mut pieces.text, dialect, id, method, error.is_some());
    match content {
        Some(content) => pieces.content(content),
        None => pieces.text.extend_from_slice(b"null"),
    }
    write_after(&mut pieces.text, dialect, id, form);
}

fn write_before(out: &mut Vec<u8>, dialect: Dialect, id: &[u8], method: &[u8], is_error: bool) {
    match (dialect, is_error) {
        (Dialect::Utxo, true) => out.extend_from_slice(b"{\"result\":null,\"error\":"),
        (Dialect::Utxo, false) | (Dialect::Xrp, _) => out.extend_from_slice(b"{\"result\":"),
        (Dialect::Ton, true) => out.extend_from_slice(b"{\"ok\":false,\"error\":"),
        (Dialect::Ton, false) => out.extend_from_slice(b"{\"ok\":true,\"result\":"),
        (Dialect::Ogmios, _) => {
            out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
            rpcgate_core::json::write_string(out, &String::from_utf8_lossy(method));
            out.extend_from_slice(if is_error { &b",\"error\":"[..] } else { b",\"result\":" });
        }
        (_, _) => {
            out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
            out.extend_from_slice(id);
            out.extend_from_slice(if is_error { &b",\"error\":"[..] } else { b",\"result\":" });
        }
    }
}

fn write_after(out: &mut Vec<u8>, dialect: Dialect, id: &[u8], form: &Form) {
    match dialect {
        Dialect::Utxo => {
            out.extend_from_slice(if form.is_error() {
                &b",\"id\":"[..]
            } else {
                b",\"error\":null,\"id\":"
            });
            out.extend_from_slice(id);
        }
        Dialect::Ton => {
            if let Form::Error(_, status) = form
                && !status.is_success()
            {
                out.extend_from_slice(b",\"code\":");
                out.extend_from_slice(status.as_str().as_bytes());
            }
            out.extend_from_slice(b",\"jsonrpc\":\"2.0\",\"id\":");
            out.extend_from_slice(id);
        }
        Dialect::Ogmios => {
            out.extend_from_slice(b",\"id\":");
            out.extend_from_slice(id);
        }
        _ => {}
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use rpcgate_core::call::{Cached, Parsed};
    use rpcgate_core::fault::{Cause, Fault};
    use rpcgate_core::json::Span;
    use rpcgate_core::memory::{MemoryBudget, MemoryPermit};
    use rpcgate_core::reply::Source;

    fn settled(fixture: &Fixture, body: &'static [u8], states: Vec<CallState>) -> PendingResponse {
        let mut calls: Calls<Parsed> = fixture.calls(body);
        for (entry, state) in calls.tally_mut().entries.iter_mut().zip(states) {
            if entry.is_open() {
                entry.state = state;
            }
        }
        join(calls.at::<Cached>().at(), usize::MAX)
    }

    fn result(text: &'static str) -> CallState {
        CallState::Answered(Reply {
            form: Form::Result(Bytes::from_static(text.as_bytes())),
            from: Source::Stored,
        })
    }

    #[test]
    fn a_batch_keeps_its_order_and_omits_notifications() {
        let fixture = Fixture::new();
        let body = br#"[{"id":"x","method":"a"},{"jsonrpc":"2.0","method":"n"},{"id":7,"method":"b"},{"id":{},"method":"c"},5]"#;
        let pending = settled(
            &fixture,
            body,
            vec![
                result("1"),
                CallState::Answered(Reply { form: Form::Nothing, from: Source::Node }),
                CallState::Refused(Refusal::Quota),
                CallState::Failed(Fault::sent(Cause::Broken)),
            ],
        );
        assert_eq!(pending.status, 200);
        assert_eq!(
            pending.body,
            concat!(
                r#"[{"jsonrpc":"2.0","id":"x","result":1},"#,
                r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32005,"message":"compute unit quota exceeded"}},"#,
                r#"{"jsonrpc":"2.0","id":{},"error":{"code":-32603,"message":"backend request failed"}},"#,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}]"#,
            )
        );
        let length = pending.body.len();
        drop(pending);
        let lines = &fixture.sink.records()[0].lines;
        assert_eq!(lines.iter().map(|line| line.bytes_out as usize).sum::<usize>(), length);
        assert_eq!(lines[1].bytes_out, 0);
    }

    /// Returns the answers to a batch of three calls with `bytes` bytes each, and the charges and records.
    fn three(
        bytes: usize,
        most: usize,
        memory: usize,
    ) -> (PendingResponse, Fixture, std::sync::Arc<MemoryBudget>) {
        let fixture = Fixture::new();
        let memory = MemoryBudget::new(memory);
        let mut calls: Calls<Parsed> =
            fixture.calls(br#"[{"id":1,"method":"a"},{"id":2,"method":"a"},{"id":3,"method":"a"}]"#);
        calls.tally_mut().memory = MemoryPermit::of(memory.clone());
        let result = Bytes::from(vec![b'7'; bytes]);
        for entry in &mut calls.tally_mut().entries {
            entry.state =
                CallState::Answered(Reply { form: Form::Result(result.clone()), from: Source::Shared });
        }
        (join(calls.at::<Cached>().at(), most), fixture, memory)
    }

    fn text(pending: &PendingResponse) -> String {
        let pieces: Vec<&[u8]> =
            std::iter::once(&pending.body).chain(&pending.rest).map(|piece| &piece[..]).collect();
        String::from_utf8(pieces.concat()).unwrap()
    }

    // Shows (Hostile and odd traffic).
    #[test]
    fn answers_beyond_the_memory_of_their_batch_are_refused_in_position_and_not_charged() {
        const NO_ROOM: &str = r#""error":{"code":-32005,"message":"batch response too large"}}"#;
        for (bytes, most, memory) in
            [(30_000, 70_000, usize::MAX), (30_000, usize::MAX, 70_000), (9_000, 20_000, 1 << 20)]
        {
            let (pending, fixture, _) = three(bytes, most, memory);
            let answers = text(&pending);
            assert!(
                answers.len() < 70_000
                    && answers.ends_with(&format!(r#"{{"jsonrpc":"2.0","id":3,{NO_ROOM}]"#))
            );
            assert_eq!((answers.matches("result").count(), answers.matches(NO_ROOM).count()), (2, 1));
            let tally = pending.tally.as_ref().unwrap();
            let units: u64 = tally.entries.iter().map(|entry| u64::from(entry.call.rule.cu)).sum();
            assert_eq!(tally.charged() * 3, units * 2);
            let length = answers.len();
            drop(pending);
            let lines = &fixture.sink.records()[0].lines;
            assert_eq!(lines.iter().map(|line| line.bytes_out as usize).sum::<usize>(), length);
        }
    }

    // Shows (Hostile and odd traffic).
    #[test]
    fn large_answers_are_held_and_not_copied() {
        let (pending, _, memory) = three(30_000, usize::MAX, 1 << 20);
        assert!(memory.held() >= 90_000);
        assert_eq!(pending.rest[0].as_ptr(), pending.rest[2].as_ptr(), "all three share one result");
        assert_eq!(text(&pending).matches(&"7".repeat(30_000)).count(), 3);
        let (_, _, memory) = three(1_000, usize::MAX, 1 << 20);
        assert_eq!(memory.held(), 0, "small ones are not counted");
    }

    // Shows (Hostile and odd traffic).
    #[test]
    fn a_large_answer_beyond_the_memory_budget_is_refused_with_retry_after() {
        let fixture = Fixture::new();
        let mut calls: Calls<Parsed> = fixture.calls(br#"{"id":1,"method":"a"}"#);
        calls.tally_mut().memory = MemoryPermit::of(MemoryBudget::new(20_000));
        let form = Form::Result(Bytes::from(vec![b'7'; 30_000]));
        calls.tally_mut().entries[0].state = CallState::Answered(Reply { form, from: Source::Stored });
        let pending = join(calls.at::<Cached>().at(), usize::MAX);
        assert_eq!((pending.status.as_u16(), pending.refusal), (503, Some(Refusal::Overloaded)));
        assert_eq!(pending.tally.unwrap().charged(), 0);
    }

    #[test]
    fn a_batch_refused_as_a_whole_is_one_answer() {
        let fixture = Fixture::new();
        let mut calls = fixture.calls(br#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#);
        calls.tally_mut().refuse(Refusal::Window { retry_after: 9 });
        let pending = join(calls.at(), usize::MAX);
        assert_eq!(
            (pending.status.as_u16(), pending.refusal),
            (429, Some(Refusal::Window { retry_after: 9 }))
        );
        assert_eq!(pending.body, r#"{"message":"API rate limit exceeded"}"#);
    }

    #[test]
    fn a_nodes_own_answer_passes_with_the_id_of_its_client() {
        let complete = CompleteReply {
            status: StatusCode::NOT_FOUND,
            body: Bytes::from_static(br#"{"result":null,"error":{"code":-32601},"id":640 }"#),
            id: Some(Span::new(44, 47)),
            inner: Inner::Error(Bytes::from_static(br#"{"code":-32601}"#)),
        };
        let state = CallState::Answered(Reply { form: Form::Complete(complete), from: Source::Node });
        let mut calls: Calls<Parsed> = Fixture::new().calls(br#"{"id":1,"method":"a"}"#);
        calls.tally_mut().entries[0].state = state;
        calls.tally_mut().passing.insert("x-node", http::HeaderValue::from_static("1"));
        let pending = join(calls.at::<Cached>().at(), usize::MAX);
        let body = br#"{"result":null,"error":{"code":-32601},"id":1 }"#;
        assert_eq!((pending.status.as_u16(), &pending.body[..]), (404, &body[..]));
        assert_eq!(pending.headers["x-node"], "1");
    }

    #[test]
    fn the_id_in_a_large_answer_is_replaced_without_a_copy_of_the_answer() {
        let body = Bytes::from([&b"{\"id\":640,\"result\":\""[..], &[b'x'; 100_000], b"\"}"].concat());
        let inner = Inner::Result(body.slice(20..body.len() - 1));
        let complete =
            CompleteReply { status: StatusCode::OK, body: body.clone(), id: Some(Span::new(6, 9)), inner };
        let pieces = with_id(&complete, Some(b"\"mine\""));
        let (first, rest) = pieces.split();
        assert_eq!((&first[..], rest.len()), (&b"{\"id\":\"mine\""[..], 1));
        assert_eq!(rest[0].as_ptr(), body[9..].as_ptr());
        let unknown = CompleteReply { id: None, ..complete };
        assert_eq!(with_id(&unknown, Some(b"1")).split().0.as_ptr(), body.as_ptr());
    }

    #[test]
    fn a_lone_notification_gets_an_empty_200() {
        let pending = settled(&Fixture::new(), br#"{"jsonrpc":"2.0","method":"a"}"#, vec![result("1")]);
        assert_eq!((pending.status.as_u16(), pending.body.len()), (200, 0));
    }

    #[test]
    fn a_batch_of_notifications_has_an_empty_answer() {
        let body = br#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]"#;
        let pending = settled(&Fixture::new(), body, vec![result("1"), result("2")]);
        assert_eq!((pending.status.as_u16(), pending.body.len()), (200, 0));
    }

    #[test]
    fn a_call_of_version_1_without_an_id_is_answered_with_a_null_one() {
        let pending = settled(&Fixture::new(), br#"{"method":"a"}"#, vec![result("1")]);
        assert_eq!(pending.body, r#"{"jsonrpc":"2.0","id":null,"result":1}"#);
    }

    #[test]
    fn utxo_answers_always_have_all_three_members() {
        let mut out = Pieces::default();
        write_form(&Form::Result(Bytes::from_static(b"5")), Dialect::Utxo, Some(b"1"), b"m", &mut out);
        assert_eq!(out.text, br#"{"result":5,"error":null,"id":1}"#);
        out.text.clear();
        let error = Form::Error(Bytes::from_static(b"{}"), StatusCode::OK);
        write_form(&error, Dialect::Utxo, None, b"m", &mut out);
        assert_eq!(out.text, br#"{"result":null,"error":{},"id":null}"#);
    }
}
