//! One call of any protocol, and the set of calls that passes through the stack.

use crate::chain::{ChainName, Dialect, Found, MethodRule};
use crate::envelope::{BadItem, Envelope};
use crate::fault::Fault;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::rest::RestCall;
use crate::tally::Tally;
use std::fmt;
use std::marker::PhantomData;

/// One call: its position in the body, and its rule.
#[derive(Debug)]
pub struct Call {
    /// The content of the call.
    pub payload: Payload,
    /// The rule of its method.
    pub rule: MethodRule,
    /// The name under which it is metered; `None`: the name under which it was sent.
    pub metered: Option<&'static str>,
}

/// The content of a call, by protocol. All spans refer to the request's body.
#[derive(Debug)]
#[non_exhaustive]
pub enum Payload {
    /// A JSON-RPC call.
    JsonRpc(Envelope),
    /// A REST call; its body is the request's.
    Rest(Box<RestCall>),
    /// Something that is not a call; it is answered and counted nevertheless.
    Bad(BadItem),
    /// A request that was refused before its body was read.
    Unread,
}

/// The method name, in usage, of something that is not a call.
pub const NO_METHOD: &str = "-";

/// The method name, in usage, of a REST call whose own is longer than a name may be.
const LONG_METHOD: &str = "(other)";

impl Call {
    /// A JSON-RPC call with the rule of its method.
    pub fn json_rpc(envelope: Envelope, found: Found) -> Self {
        Call { payload: Payload::JsonRpc(envelope), rule: found.rule, metered: found.metered }
    }

    /// A REST call with the rule of its name.
    pub fn rest(call: RestCall, found: Found) -> Self {
        let metered = if call.has_long_name() { Some(LONG_METHOD) } else { found.metered };
        Call { payload: Payload::Rest(Box::new(call)), rule: found.rule, metered }
    }

    /// The placeholder for a call that could not be read.
    pub fn unread(payload: Payload) -> Self {
        Call { payload, rule: MethodRule { cu: 0, ..MethodRule::UNLISTED }, metered: Some(NO_METHOD) }
    }

    /// The raw JSON of its id.
    pub fn id<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        match &self.payload {
            Payload::JsonRpc(envelope) => envelope.id.map(|id| id.of(body)),
            Payload::Bad(item) => item.id.map(|id| id.of(body)),
            Payload::Rest(_) | Payload::Unread => None,
        }
    }

    /// Whether it expects no answer (JSON-RPC 2.0, section 4.1).
    pub fn is_notification(&self, body: &[u8]) -> bool {
        match &self.payload {
            Payload::JsonRpc(envelope) => envelope.is_notification(body),
            _ => false,
        }
    }

    /// The shape of its answer on a chain with this dialect.
    pub fn dialect(&self, chain: Dialect) -> Dialect {
        match self.payload {
            Payload::Rest(_) => Dialect::Rest,
            _ => chain,
        }
    }

    /// The length of its own slice of the body, in bytes. A REST call has no slice: the whole body is its own.
    pub fn len(&self) -> usize {
        match &self.payload {
            Payload::JsonRpc(envelope) => envelope.whole.len(),
            Payload::Bad(item) => item.whole.len(),
            Payload::Rest(_) | Payload::Unread => 0,
        }
    }

    /// Whether it has no slice of the body.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name under which it was sent, with resolved escapes.
    pub fn sent<'a>(&'a self, body: &'a [u8]) -> &'a [u8] {
        match &self.payload {
            Payload::JsonRpc(envelope) => envelope.method.bytes(body),
            Payload::Rest(call) => call.name(),
            _ => NO_METHOD.as_bytes(),
        }
    }

    /// The name under which it is metered.
    pub fn method<'a>(&'a self, body: &'a [u8]) -> &'a [u8] {
        self.metered.map_or_else(|| self.sent(body), str::as_bytes)
    }

    /// The view of the call for gates and adapters.
    #[inline]
    pub fn view<'a>(&'a self, body: &'a [u8], chain: ChainName) -> CallView<'a> {
        let (params, posted, is_rest) = match &self.payload {
            Payload::JsonRpc(envelope) => {
                (envelope.params.map_or(&b""[..], |params| params.of(body)), &b""[..], false)
            }
            Payload::Rest(call) => (call.line(), if call.has_body() { body } else { &[] }, true),
            _ => (&b""[..], &b""[..], false),
        };
        let sent = self.sent(body);
        let method = self.metered.map_or(sent, str::as_bytes);
        CallView { chain, method, sent, params, body: posted, is_rest, rule: self.rule }
    }
}

/// A call as a layer sees it for its decision. It can be built for calls of any other type.
#[derive(Clone, Copy, Debug)]
pub struct CallView<'a> {
    /// The chain of the call.
    pub chain: ChainName,
    /// The name under which it is metered.
    pub method: &'a [u8],
    /// The name under which it was sent, with resolved escapes.
    pub sent: &'a [u8],
    /// Its parameters as raw JSON; empty if there are none. For a REST call, its [line](RestCall::line).
    pub params: &'a [u8],
    /// The body of a posted REST call; empty otherwise.
    pub body: &'a [u8],
    /// Whether it is a REST call.
    pub is_rest: bool,
    /// The rule of its method.
    pub rule: MethodRule,
}

impl<'a> CallView<'a> {
    /// A call of `method` on `chain` without parameters, metered as it is sent.
    pub const fn new(chain: ChainName, method: &'a str, rule: MethodRule) -> Self {
        CallView {
            chain,
            method: method.as_bytes(),
            sent: method.as_bytes(),
            params: b"",
            body: b"",
            is_rest: false,
            rule,
        }
    }
}

/// A call and its progress.
#[derive(Debug)]
pub struct Entry {
    /// The call.
    pub call: Call,
    /// Its progress.
    pub state: CallState,
    /// The length of the answer that the client gets for it, in bytes; set when the answer is written.
    pub bytes_out: u32,
}

/// The progress of a call.
#[derive(Debug)]
pub enum CallState {
    /// In progress.
    Open,
    /// In progress, and a node may have received it: it is charged regardless of its outcome.
    Sent,
    /// Waiting for the answer to an identical call.
    Parked,
    /// Refused by a layer.
    Refused(Refusal),
    /// No node answered.
    Failed(Fault),
    /// Answered.
    Answered(Reply),
}

impl Entry {
    /// A new call.
    pub fn open(call: Call) -> Self {
        Entry { call, state: CallState::Open, bytes_out: 0 }
    }

    /// A call that is refused at once.
    pub fn refused(call: Call, refusal: Refusal) -> Self {
        Entry { call, state: CallState::Refused(refusal), bytes_out: 0 }
    }

    /// Whether it still has to be sent to a node.
    pub fn is_open(&self) -> bool {
        matches!(self.state, CallState::Open)
    }
}

/// A set of calls on the stack: one to a hundred of them, for one chain, from one caller. `At` is the layer that it
/// has passed last, so that layers in a wrong order do not compile.
pub struct Calls<At = Parsed> {
    tally: Box<Tally>,
    at: PhantomData<fn() -> At>,
}

impl Calls<Parsed> {
    /// A set at the start of the stack.
    pub fn new(tally: Box<Tally>) -> Self {
        Calls { tally, at: PhantomData }
    }
}

impl<At> Calls<At> {
    /// The set's account.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The set's account, mutable.
    pub fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// The account alone, at the end of the stack.
    pub fn into_tally(self) -> Box<Tally> {
        self.tally
    }

    /// The same set, after one or more further layers.
    pub fn at<B>(self) -> Calls<B>
    where
        At: Before<B>,
    {
        Calls { tally: self.tally, at: PhantomData }
    }
}

impl<At> fmt::Debug for Calls<At> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Calls").field(&self.tally).finish()
    }
}

/// States that a layer precedes layer `B` on the stack.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not lie before `{B}` on the stack",
    label = "calls that have passed the layer of `{Self}` cannot enter the layer of `{B}`",
    note = "the order of the layers is fixed; see the documentation of the stack"
)]
pub trait Before<B> {}

macro_rules! stack {
    ($($(#[$doc:meta])* $layer:ident)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub enum $layer {}
        )*
        stack!(@pairs $($layer)*);
    };
    (@pairs $first:ident $($later:ident)*) => {
        $(impl Before<$later> for $first {})*
        stack!(@pairs $($later)*);
    };
    (@pairs) => {};
}

stack! {
    /// Read and parsed.
    Parsed
    /// Checked against the project's method lists and the chain's blocked methods.
    Listed
    /// Counted in the plan windows.
    Windowed
    /// For a chain that is served here.
    Served
    /// Checked against the per-key pace.
    Paced
    /// Counted in the heavy budget.
    Budgeted
    /// Not a closed method.
    Opened
    /// Reserved in the project's quota.
    Reserved
    /// Looked up in the cache.
    Cached
    /// No call is open any more.
    Settled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Chain;
    use crate::envelope::{Limits, Parsed as Body, parse};
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
