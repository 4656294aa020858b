//! The server loop of nodes that speak JSON-RPC, from the bytes of a body to the bytes of the answer. A node adds its
//! methods and its dialect: the texts of its errors and the form of its answers.

use super::NodeReply;
use super::envelope::{Body, Fault, Request};
use super::json::Json;
use rpcgate_core::clock::Time;
use serde_json::Value;

/// A node's methods, and its dialect of JSON-RPC.
pub(crate) trait JsonRpc {
    type Error;

    /// A text that the node writes after every answer.
    const END: &'static str = "";
    /// The answer to an empty batch, if the node does not refuse it.
    const EMPTY_BATCH: &'static str = "";

    fn run(&mut self, method: &str, params: Value, now: Time) -> Result<Json, Self::Error>;

    /// Runs the call of `request` with its method and parameters. Returns `None` if it is not answered now.
    fn run_request(
        &mut self,
        _request: &Request,
        method: &str,
        params: Value,
        now: Time,
    ) -> Option<Result<Json, Self::Error>> {
        Some(self.run(method, params, now))
    }

    fn unreadable() -> Self::Error;

    /// Returns the error for a value that is not a call, alone or in a batch.
    fn not_a_call(request: &Request, is_alone: bool) -> Self::Error;

    /// Returns the error for a batch of this many calls; `None` if the node accepts it.
    fn refused_batch(_calls: usize) -> Option<Self::Error> {
        None
    }

    /// Reports whether the node runs the request without an answer.
    fn is_notification(_request: &Request) -> bool {
        false
    }

    /// Returns the HTTP status of an answer that consists of this error alone.
    fn status(_error: &Self::Error) -> u16 {
        200
    }

    /// Writes one answer. The parameters of `request` have been taken out; it is empty if no request could be read.
    fn write(request: &Request, result: Result<Json, Self::Error>, out: &mut String);
}

/// Answers the body of an HTTP request.
pub(crate) fn serve<N: JsonRpc>(node: &mut N, body: &[u8], now: Time) -> NodeReply {
    let (status, out) = written(node, body, now);
    NodeReply::json(status, out)
}

/// Answers a body or a message. Returns the HTTP status and the text, which is empty without an answer.
pub(crate) fn written<N: JsonRpc>(node: &mut N, body: &[u8], now: Time) -> (u16, String) {
    let mut out = String::new();
    let status = match Body::read(body) {
        Body::Unreadable => refuse::<N>(N::unreadable(), &mut out),
        Body::Single(request) => answer(node, request, true, now, &mut out).unwrap_or(200),
        Body::Batch(calls) => match N::refused_batch(calls.len()) {
            Some(error) => refuse::<N>(error, &mut out),
            None => {
                batch(node, calls, now, &mut out);
                200
            }
        },
    };
    out.push_str(N::END);
    (status, out)
}

fn batch<N: JsonRpc>(node: &mut N, calls: Vec<Request>, now: Time, out: &mut String) {
    if calls.is_empty() {
        out.push_str(N::EMPTY_BATCH);
        return;
    }
    for call in calls {
        let before = out.len();
        out.push(if before == 0 { '[' } else { ',' });
        if answer(node, call, false, now, out).is_none() {
            out.truncate(before);
        }
    }
    if !out.is_empty() {
        out.push(']');
    }
}

/// Runs one request, writes its answer and returns the HTTP status; `None` for a notification, and for a call that is
/// not answered now.
fn answer<N: JsonRpc>(
    node: &mut N,
    mut request: Request,
    is_alone: bool,
    now: Time,
    out: &mut String,
) -> Option<u16> {
    let params = std::mem::take(&mut request.params);
    let result = match request.method.as_str() {
        Some(method) if request.object => node.run_request(&request, method, params, now)?,
        _ => Err(N::not_a_call(&request, is_alone)),
    };
    if N::is_notification(&request) {
        return None;
    }
    let status = result.as_ref().map_or_else(N::status, |_| 200);
    N::write(&request, result, out);
    Some(status)
}

fn refuse<N: JsonRpc>(error: N::Error, out: &mut String) -> u16 {
    let status = N::status(&error);
    N::write(&Request::default(), Err(error), out);
    status
}

/// Writes an answer as JSON-RPC 2.0 with the id after the result or the error.
pub(crate) fn write_id_last(id: Option<&str>, result: Result<Json, Json>, out: &mut String) {
    out.push_str("{\"jsonrpc\":\"2.0\",");
    out.push_str(if result.is_ok() { "\"result\":" } else { "\"error\":" });
    result.unwrap_or_else(|error| error).write(out);
    out.push_str(",\"id\":");
    out.push_str(id.unwrap_or("null"));
    out.push('}');
}

/// Writes an answer as JSON-RPC 2.0 with the id before the result, as go-ethereum and Sui do.
pub(crate) fn write_id_first(id: Option<&str>, result: Result<Json, Fault>, out: &mut String) {
    out.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    out.push_str(id.unwrap_or("null"));
    match result {
        Ok(value) => {
            out.push_str(",\"result\":");
            value.write(out);
        }
        Err(fault) => {
            out.push_str(",\"error\":");
            fault.json().write(out);
        }
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node with the method `sum`; requests without an id are notifications.
    struct Adder(i64);

    impl JsonRpc for Adder {
        type Error = Fault;
        const END: &'static str = "\n";

        fn run(&mut self, method: &str, params: Value, _: Time) -> Result<Json, Fault> {
            if method != "sum" {
                return Err(Fault::new(-32601, "unknown"));
            }
            self.0 += params.as_i64().unwrap_or(0);
            Ok(self.0.into())
        }

        fn unreadable() -> Fault {
            Fault::new(-32700, "no JSON")
        }

        fn not_a_call(_: &Request, is_alone: bool) -> Fault {
            Fault::new(-32600, if is_alone { "alone" } else { "in a batch" })
        }

        fn refused_batch(calls: usize) -> Option<Fault> {
            (calls > 4).then(|| Fault::new(-32600, "too many"))
        }

        fn is_notification(request: &Request) -> bool {
            request.object && request.id.is_none()
        }

        fn status(error: &Fault) -> u16 {
            if error.code == -32600 { 400 } else { 200 }
        }

        fn write(request: &Request, result: Result<Json, Fault>, out: &mut String) {
            out.push_str(request.id.as_deref().unwrap_or("null"));
            match result {
                Ok(value) => value.write(out),
                Err(fault) => out.push_str(&fault.message),
            }
        }
    }

    fn served(body: &str) -> (u16, String) {
        let reply = serve(&mut Adder(0), body.as_bytes(), Time::default());
        (reply.status, String::from_utf8(reply.body).expect("UTF-8"))
    }

    #[test]
    fn a_body_that_is_not_a_call_gets_the_nodes_own_error() {
        assert_eq!(served("{"), (200, "nullno JSON\n".into()));
        assert_eq!(served("1"), (400, "nullalone\n".into()));
        assert_eq!(served("[1]"), (200, "[nullin a batch]\n".into()));
        assert_eq!(served("[1,1,1,1,1]"), (400, "nulltoo many\n".into()));
        assert_eq!(served("{\"id\":1,\"method\":\"x\"}"), (200, "1unknown\n".into()));
    }

    #[test]
    fn a_notification_runs_and_is_not_answered() {
        assert_eq!(served("{\"method\":\"sum\",\"params\":1}"), (200, "\n".into()));
        let batch = "[{\"method\":\"sum\",\"params\":2},{\"id\":1,\"method\":\"sum\",\"params\":3},{\"method\":\"sum\"}]";
        assert_eq!(served(batch), (200, "[15]\n".into()));
        assert_eq!(served("[{\"method\":\"sum\"}]"), (200, "\n".into()));
        assert_eq!(served("[]"), (200, "\n".into()));
    }
}
