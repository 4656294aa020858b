//! From settled calls to one answer: each entry under its own id, in the chain's dialect.

use crate::request::travel::Departure;
use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use rpcgate_core::call::{Calls, Entry, Settled, State};
use rpcgate_core::chain::Dialect;
use rpcgate_core::refusal::BackendFailure;
use rpcgate_core::reply::{Form, Reply};
use rpcgate_core::tally::Tally;

/// The answer to a set.
pub fn join(calls: Calls<Settled>) -> Departure {
    let mut tally = calls.into_tally();
    let dialect = tally.chain.facts().dialect;
    let departure = if let (Some(refusal), true) = (tally.refused, tally.batch) {
        let mut departure = Departure::refused(refusal);
        let mut body = Vec::new();
        refusal.write_alone(dialect, None, &mut body);
        if let Some(first) = tally.entries.first_mut() {
            first.bytes_out = body.len() as u32;
        }
        departure.body = body.into();
        departure
    } else if tally.batch {
        answer(StatusCode::OK, HeaderMap::new(), batch(&mut tally, dialect))
    } else {
        single(&mut tally, dialect)
    };
    Departure { tally: Some(tally), rated: true, ..departure }
}

fn answer(status: StatusCode, headers: HeaderMap, body: Bytes) -> Departure {
    Departure { is_json: true, ..plain(status, headers, body) }
}

/// An answer whose headers say themselves of what type it is.
fn plain(status: StatusCode, headers: HeaderMap, body: Bytes) -> Departure {
    Departure { status, headers, is_json: false, body, flow: None, tally: None, rated: false, refusal: None }
}

fn single(tally: &mut Tally, dialect: Dialect) -> Departure {
    let name = tally.chain.name();
    let Tally { entries, body, passing, .. } = tally;
    let Some(entry) = entries.first_mut() else {
        return answer(StatusCode::OK, HeaderMap::new(), Bytes::new());
    };
    let notification = entry.call.is_notification(body);
    let dialect = entry.call.dialect(dialect);
    let id = entry.call.id(body);
    let mut out = Vec::new();
    let departure = match &mut entry.state {
        State::Refused(refusal) => {
            refusal.write_alone(dialect, id, &mut out);
            let departure = answer(refusal.status(), HeaderMap::new(), out.into());
            Departure { refusal: Some(*refusal), ..departure }
        }
        State::Answered(Reply { form: Form::Nothing, .. }) => nothing(),
        State::Answered(_) if notification => nothing(),
        State::Answered(Reply { form: Form::Whole(whole), .. }) => {
            answer(whole.status, std::mem::take(passing), whole.body.clone())
        }
        State::Answered(Reply { form: Form::Rest(rest), .. }) => {
            plain(rest.status, std::mem::take(&mut rest.headers), rest.body.clone())
        }
        State::Answered(Reply { form: Form::Stream(streamed), .. }) => {
            let (status, headers) = (streamed.status, std::mem::take(&mut streamed.headers));
            let head = if dialect == Dialect::Rest { plain } else { answer };
            Departure { flow: streamed.take(), ..head(status, headers, Bytes::new()) }
        }
        State::Answered(Reply { form, .. }) => {
            let method = entry.call.view(body, name).sent;
            write_form(form, dialect, (id, method), &mut out);
            let status = match form {
                Form::Error(_, status) => *status,
                _ => StatusCode::OK,
            };
            answer(status, std::mem::take(passing), out.into())
        }
        State::Failed(_) | State::Open | State::Parked | State::Sent => {
            BackendFailure.write(dialect, id, &mut out);
            answer(BackendFailure.status(dialect), HeaderMap::new(), out.into())
        }
    };
    entry.bytes_out = departure.body.len() as u32;
    departure
}

/// What a lone notification gets: HTTP wants an answer, JSON-RPC wants none.
fn nothing() -> Departure {
    plain(StatusCode::OK, HeaderMap::new(), Bytes::new())
}

fn batch(tally: &mut Tally, dialect: Dialect) -> Bytes {
    let name = tally.chain.name();
    let Tally { entries, body, .. } = tally;
    let mut out = Vec::with_capacity(2 + entries.iter().map(|entry| room_for(entry, body)).sum::<usize>());
    out.push(b'[');
    for entry in entries.iter_mut() {
        if entry.call.is_notification(body) {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        let before = out.len();
        let id = entry.call.id(body);
        match &entry.state {
            State::Refused(refusal) => refusal.write_item(dialect, id, &mut out),
            State::Answered(reply) => {
                let method = entry.call.view(body, name).sent;
                write_form(&reply.form, dialect, (id, method), &mut out);
            }
            State::Failed(_) | State::Open | State::Parked | State::Sent => {
                BackendFailure.write(dialect, id, &mut out);
            }
        }
        entry.bytes_out = (out.len() - before) as u32;
    }
    if out.len() == 1 {
        // Nothing but notifications: nothing at all is answered (JSON-RPC 2.0, section 6).
        return Bytes::new();
    }
    out.push(b']');
    let spare = out.len() - entries.iter().map(|entry| entry.bytes_out as usize).sum::<usize>();
    if let Some(first) = entries.first_mut() {
        first.bytes_out += spare as u32;
    }
    out.into()
}

/// Bytes that an entry's answer will take, or a little more.
fn room_for(entry: &Entry, body: &[u8]) -> usize {
    let content = match &entry.state {
        State::Answered(Reply { form: Form::Result(bytes) | Form::Error(bytes, _), .. }) => bytes.len(),
        State::Answered(Reply { form: Form::Whole(whole), .. }) => whole.body.len(),
        _ => 120,
    };
    content + entry.call.id(body).map_or(4, <[u8]>::len) + 44
}

/// Writes an answer to the call with this id and method.
fn write_form(form: &Form, dialect: Dialect, (id, method): (Option<&[u8]>, &[u8]), out: &mut Vec<u8>) {
    let id = id.unwrap_or(b"null");
    let (result, error): (&[u8], Option<&[u8]>) = match form {
        Form::Whole(whole) => match &whole.inner {
            Ok(result) => (result, None),
            Err(error) => (b"null", Some(error)),
        },
        Form::Result(result) => (result, None),
        Form::Error(error, _) => (b"null", Some(error)),
        Form::Nothing | Form::Rest(_) | Form::Stream(_) => (b"null", None),
    };
    out.reserve(result.len() + error.map_or(0, <[u8]>::len) + id.len() + 44);
    match (dialect, error) {
        (Dialect::Utxo, _) => {
            out.extend_from_slice(b"{\"result\":");
            out.extend_from_slice(result);
            out.extend_from_slice(b",\"error\":");
            out.extend_from_slice(error.unwrap_or(b"null"));
            out.extend_from_slice(b",\"id\":");
            out.extend_from_slice(id);
        }
        (Dialect::Xrp, _) => {
            out.extend_from_slice(b"{\"result\":");
            out.extend_from_slice(error.unwrap_or(result));
        }
        (Dialect::Ton, _) => {
            match error {
                None => {
                    out.extend_from_slice(b"{\"ok\":true,\"result\":");
                    out.extend_from_slice(result);
                }
                Some(error) => {
                    out.extend_from_slice(b"{\"ok\":false,\"error\":");
                    out.extend_from_slice(error);
                    if let Form::Error(_, status) = form
                        && !status.is_success()
                    {
                        out.extend_from_slice(b",\"code\":");
                        out.extend_from_slice(status.as_str().as_bytes());
                    }
                }
            }
            out.extend_from_slice(b",\"jsonrpc\":\"2.0\",\"id\":");
            out.extend_from_slice(id);
        }
        (Dialect::Ogmios, _) => {
            out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
            rpcgate_core::json::write_string(out, &String::from_utf8_lossy(method));
            let (member, content) =
                error.map_or((&b",\"result\":"[..], result), |error| (b",\"error\":", error));
            out.extend_from_slice(member);
            out.extend_from_slice(content);
            out.extend_from_slice(b",\"id\":");
            out.extend_from_slice(id);
        }
        (_, None) => {
            out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
            out.extend_from_slice(id);
            out.extend_from_slice(b",\"result\":");
            out.extend_from_slice(result);
        }
        (_, Some(error)) => {
            out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
            out.extend_from_slice(id);
            out.extend_from_slice(b",\"error\":");
            out.extend_from_slice(error);
        }
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Desk;
    use rpcgate_core::call::{Cached, Parsed};
    use rpcgate_core::fault::{Cause, Fault};
    use rpcgate_core::refusal::Refusal;
    use rpcgate_core::reply::{Source, Whole};

    fn settled(desk: &Desk, body: &'static [u8], states: Vec<State>) -> Departure {
        let mut calls: Calls<Parsed> = desk.calls(body);
        for (entry, state) in calls.tally_mut().entries.iter_mut().zip(states) {
            if entry.is_open() {
                entry.state = state;
            }
        }
        join(calls.at::<Cached>().at())
    }

    fn result(text: &'static str) -> State {
        State::Answered(Reply {
            form: Form::Result(Bytes::from_static(text.as_bytes())),
            from: Source::Stored,
        })
    }

    #[test]
    fn a_batch_keeps_its_places_and_leaves_notifications_out() {
        let desk = Desk::new();
        let body = br#"[{"id":"x","method":"a"},{"jsonrpc":"2.0","method":"n"},{"id":7,"method":"b"},{"id":{},"method":"c"},5]"#;
        let departure = settled(
            &desk,
            body,
            vec![
                result("1"),
                State::Answered(Reply { form: Form::Nothing, from: Source::Node }),
                State::Refused(Refusal::Quota),
                State::Failed(Fault::sent(Cause::Broken)),
            ],
        );
        assert_eq!(departure.status, 200);
        assert_eq!(
            departure.body,
            concat!(
                r#"[{"jsonrpc":"2.0","id":"x","result":1},"#,
                r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32005,"message":"compute unit quota exceeded"}},"#,
                r#"{"jsonrpc":"2.0","id":{},"error":{"code":-32603,"message":"backend request failed"}},"#,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}]"#,
            )
        );
        let length = departure.body.len();
        drop(departure);
        let lines = &desk.ledger.records()[0].lines;
        assert_eq!(lines.iter().map(|line| line.bytes_out as usize).sum::<usize>(), length);
        assert_eq!(lines[1].bytes_out, 0);
    }

    #[test]
    fn a_batch_refused_as_a_whole_is_one_answer() {
        let desk = Desk::new();
        let mut calls = desk.calls(br#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#);
        calls.tally_mut().refuse(Refusal::Window { retry_after: 9 });
        let departure = join(calls.at());
        assert_eq!(
            (departure.status.as_u16(), departure.refusal),
            (429, Some(Refusal::Window { retry_after: 9 }))
        );
        assert_eq!(departure.body, r#"{"message":"API rate limit exceeded"}"#);
    }

    #[test]
    fn a_nodes_own_answer_passes_as_it_is() {
        let whole = Whole {
            status: StatusCode::NOT_FOUND,
            body: Bytes::from_static(br#"{"result":null,"error":{"code":-32601},"id":1 }"#),
            inner: Err(Bytes::from_static(br#"{"code":-32601}"#)),
        };
        let body = whole.body.clone();
        let state = State::Answered(Reply { form: Form::Whole(whole), from: Source::Node });
        let mut calls: Calls<Parsed> = Desk::new().calls(br#"{"id":1,"method":"a"}"#);
        calls.tally_mut().entries[0].state = state;
        calls.tally_mut().passing.insert("x-node", http::HeaderValue::from_static("1"));
        let departure = join(calls.at::<Cached>().at());
        assert_eq!((departure.status.as_u16(), departure.body), (404, body));
        assert_eq!(departure.headers["x-node"], "1");
    }

    #[test]
    fn a_lone_notification_gets_an_empty_200() {
        let departure = settled(&Desk::new(), br#"{"jsonrpc":"2.0","method":"a"}"#, vec![result("1")]);
        assert_eq!((departure.status.as_u16(), departure.body.len()), (200, 0));
    }

    #[test]
    fn nothing_but_notifications_is_answered_with_nothing() {
        let body = br#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]"#;
        let departure = settled(&Desk::new(), body, vec![result("1"), result("2")]);
        assert_eq!((departure.status.as_u16(), departure.body.len()), (200, 0));
    }

    #[test]
    fn a_call_of_version_1_without_an_id_is_answered_with_a_null_one() {
        let departure = settled(&Desk::new(), br#"{"method":"a"}"#, vec![result("1")]);
        assert_eq!(departure.body, r#"{"jsonrpc":"2.0","id":null,"result":1}"#);
    }

    #[test]
    fn utxo_answers_always_have_all_three_members() {
        let mut out = Vec::new();
        write_form(&Form::Result(Bytes::from_static(b"5")), Dialect::Utxo, (Some(b"1"), b"m"), &mut out);
        assert_eq!(out, br#"{"result":5,"error":null,"id":1}"#);
        out.clear();
        let error = Form::Error(Bytes::from_static(b"{}"), StatusCode::OK);
        write_form(&error, Dialect::Utxo, (None, b"m"), &mut out);
        assert_eq!(out, br#"{"result":null,"error":{},"id":null}"#);
    }
}
