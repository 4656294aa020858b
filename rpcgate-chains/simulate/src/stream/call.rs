//! JSON-RPC on a stream: the methods of the node, and those that need a session before them.

use super::StreamNode;
use crate::envelope::Request;
use crate::json::Json;
use crate::json_rpc::{self, JsonRpc};
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The outcome of a call on a stream.
pub(crate) enum StreamCall<E> {
    /// The call needs no session: the node answers as over HTTP. The parameters are returned.
    Ordinary(Value),
    /// A later push answers it.
    Later,
    Answer(Result<Json, E>),
}

/// A node with methods that exist only on streams.
pub(crate) trait StreamRpc: JsonRpc + StreamNode {
    /// Runs a call that needs the session.
    fn stream_call(
        &mut self,
        session: &mut Self::Session,
        request: &Request,
        method: &str,
        params: Value,
        now: Time,
    ) -> StreamCall<Self::Error>;
}

/// Answers a message, which may be a batch.
pub(crate) fn answer<N: StreamRpc>(
    node: &mut N,
    session: &mut N::Session,
    message: &[u8],
    now: Time,
    out: &mut Vec<String>,
) {
    let (_, text) = json_rpc::written(&mut OnStream { node, session }, message, now);
    if !text.is_empty() {
        out.push(text);
    }
}

struct OnStream<'a, N: StreamRpc> {
    node: &'a mut N,
    session: &'a mut N::Session,
}

impl<N: StreamRpc> JsonRpc for OnStream<'_, N> {
    type Error = N::Error;
    const END: &'static str = N::END;
    const EMPTY_BATCH: &'static str = N::EMPTY_BATCH;

    fn run(&mut self, method: &str, params: Value, now: Time) -> Result<Json, N::Error> {
        self.node.run(method, params, now)
    }

    fn run_request(
        &mut self,
        request: &Request,
        method: &str,
        params: Value,
        now: Time,
    ) -> Option<Result<Json, N::Error>> {
        match self.node.stream_call(self.session, request, method, params, now) {
            StreamCall::Ordinary(params) => self.node.run_request(request, method, params, now),
            StreamCall::Later => None,
            StreamCall::Answer(answer) => Some(answer),
        }
    }

    fn unreadable() -> N::Error {
        N::unreadable()
    }

    fn not_a_call(request: &Request, is_alone: bool) -> N::Error {
        N::not_a_call(request, is_alone)
    }

    fn refused_batch(calls: usize) -> Option<N::Error> {
        N::refused_batch(calls)
    }

    fn is_notification(request: &Request) -> bool {
        N::is_notification(request)
    }

    fn status(error: &N::Error) -> u16 {
        N::status(error)
    }

    fn write(request: &Request, result: Result<Json, N::Error>, out: &mut String) {
        N::write(request, result, out);
    }
}
