//! One call of any protocol.

use super::view::CallView;
use crate::chain::{ChainName, Dialect, Found, MethodRule};
use crate::envelope::{BadItem, Envelope};
use crate::grpc::GrpcCall;
use crate::json::Span;
use crate::rest::RestCall;

/// One call: its position in the body, and its rule.
#[derive(Debug)]
pub struct Call {
    /// The content of the call.
    pub payload: Payload,
    /// The rule of its method.
    pub rule: MethodRule,
    /// The metered name; `None` if it is metered as sent.
    pub metered: Option<&'static str>,
    /// The node with the state that the call uses, if it uses such state and the node was found.
    pub at_node: Option<Box<AtNode>>,
}

/// The only node that can serve a call, because it has the state that the call uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtNode {
    /// The index of the node in its pool.
    pub node: u16,
    /// The position of the node's name in the params. The node gets the call without these bytes.
    pub name: Span,
}

/// The content of a call, by protocol. All spans refer to the request's body.
#[derive(Debug)]
#[non_exhaustive]
pub enum Payload {
    /// A JSON-RPC call.
    JsonRpc(Envelope),
    /// A REST call. Its body is the request's.
    Rest(Box<RestCall>),
    /// A gRPC call. The request's body is its first message, if the gateway holds that.
    Grpc(Box<GrpcCall>),
    /// Not a call, but answered and counted nevertheless.
    Bad(BadItem),
    /// A request that was refused before its body was read.
    Unread,
}

/// The method name, in usage, of a payload that is not a call.
pub const NO_METHOD: &str = "-";

const LONGEST_NAME: usize = 256;

/// The method name, in usage, of a REST or gRPC call with a longer name.
const LONG_METHOD: &str = "(other)";

impl Call {
    /// Creates a JSON-RPC call with the rule of its method.
    pub fn json_rpc(envelope: Envelope, found: Found) -> Self {
        Call { payload: Payload::JsonRpc(envelope), rule: found.rule, metered: found.metered, at_node: None }
    }

    /// Creates a REST call with the rule of its name.
    pub fn rest(call: RestCall, found: Found) -> Self {
        let metered = if call.has_long_name() { Some(LONG_METHOD) } else { found.metered };
        Call { payload: Payload::Rest(Box::new(call)), rule: found.rule, metered, at_node: None }
    }

    /// Creates a gRPC call with the rule of its name.
    pub fn grpc(call: GrpcCall, found: Found) -> Self {
        let metered = if call.name().len() > LONGEST_NAME { Some(LONG_METHOD) } else { found.metered };
        Call { payload: Payload::Grpc(Box::new(call)), rule: found.rule, metered, at_node: None }
    }

    /// Creates the placeholder for a call that could not be read.
    pub fn unread(payload: Payload) -> Self {
        Call { payload, rule: MethodRule::new(0), metered: Some(NO_METHOD), at_node: None }
    }

    /// Returns the id as raw JSON.
    pub fn id<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        match &self.payload {
            Payload::JsonRpc(envelope) => envelope.id.map(|id| id.of(body)),
            Payload::Bad(item) => item.id.map(|id| id.of(body)),
            Payload::Rest(_) | Payload::Grpc(_) | Payload::Unread => None,
        }
    }

    /// Reports whether the call expects no answer (JSON-RPC 2.0, section 4.1).
    pub fn is_notification(&self, body: &[u8]) -> bool {
        match &self.payload {
            Payload::JsonRpc(envelope) => envelope.is_notification(body),
            _ => false,
        }
    }

    /// Returns the shape of the answer on a chain with this dialect.
    pub fn dialect(&self, chain: Dialect) -> Dialect {
        match self.payload {
            Payload::Rest(_) | Payload::Grpc(_) => Dialect::Rest,
            _ => chain,
        }
    }

    /// Returns the length of the call's slice of the body, in bytes: 0 for a REST call, which owns the whole body, and
    /// the size of the received messages for a gRPC call.
    pub fn len(&self) -> usize {
        match &self.payload {
            Payload::JsonRpc(envelope) => envelope.span.len(),
            Payload::Bad(item) => item.span.len(),
            Payload::Grpc(call) => call.received(),
            Payload::Rest(_) | Payload::Unread => 0,
        }
    }

    /// Reports whether the call has no slice of the body.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name as sent, with resolved escapes.
    pub fn sent<'a>(&'a self, body: &'a [u8]) -> &'a [u8] {
        match &self.payload {
            Payload::JsonRpc(envelope) => envelope.method.bytes(body),
            Payload::Rest(call) => call.name(),
            Payload::Grpc(call) => call.sent().as_bytes(),
            _ => NO_METHOD.as_bytes(),
        }
    }

    /// Returns the metered name.
    pub fn method<'a>(&'a self, body: &'a [u8]) -> &'a [u8] {
        match (self.metered, &self.payload) {
            (Some(name), _) => name.as_bytes(),
            (None, Payload::Grpc(call)) => call.name().as_bytes(),
            (None, _) => self.sent(body),
        }
    }

    /// Returns the view of the call for gates and adapters.
    #[inline]
    pub fn view<'a>(&'a self, body: &'a [u8], chain: ChainName) -> CallView<'a> {
        let mut is_rest = false;
        let mut is_grpc = false;
        let (params, posted) = match &self.payload {
            Payload::JsonRpc(envelope) => {
                (envelope.params.map_or(&b""[..], |params| params.of(body)), &b""[..])
            }
            Payload::Rest(call) => {
                is_rest = true;
                (call.line(), if call.has_body() { body } else { &[] })
            }
            Payload::Grpc(call) => {
                is_grpc = true;
                (call.path().as_bytes(), body)
            }
            _ => (&b""[..], &b""[..]),
        };
        let sent = self.sent(body);
        let method = self.method(body);
        CallView { chain, method, sent, params, body: posted, is_rest, is_grpc, rule: self.rule }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Chain;
    use crate::envelope::{Limits, ParsedBody as Body, parse};
    use std::sync::Arc;

    #[test]
    fn a_view_shows_the_call_as_it_lies_in_the_body() {
        let body = br#"{"jsonrpc":"2.0","id":"x","method":"toy_r\u0065ad","params":[1, 2.50]}"#;
        let Ok(Body::Single(Ok(envelope))) = parse(body, &Limits::default()) else { panic!("a call") };
        let chain = Chain::deployed(Arc::new(crate::toy::Toy));
        let found = chain.look_up(envelope.method.text(body));
        let call = Call::json_rpc(envelope, found);
        let view = call.view(body, chain.name());
        assert_eq!((view.method, view.sent), (&b"toy_read"[..], &b"toy_read"[..]));
        assert_eq!(view.params, b"[1, 2.50]");
        assert_eq!(call.id(body), Some(&b"\"x\""[..]));
        assert_eq!(call.len(), body.len());
    }

    #[test]
    fn an_unreadable_call_is_metered_as_a_dash_and_costs_nothing() {
        let call = Call::unread(Payload::Unread);
        assert_eq!(call.view(b"", ChainName::new("toy")).method, b"-");
        assert_eq!(call.rule.cu, 0);
    }
}
