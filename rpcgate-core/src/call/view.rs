//! A call as layers and adapters see it.

use crate::chain::{ChainName, MethodRule};

/// A call as a layer or an adapter sees it. Its constructors build one for calls of any other type.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CallView<'a> {
    /// The chain of the call.
    pub chain: ChainName,
    /// The metered name.
    pub method: &'a [u8],
    /// The name as sent, with resolved escapes.
    pub sent: &'a [u8],
    /// The parameters as raw JSON; empty if absent. For a REST call, its [line](crate::rest::RestCall::line); for a
    /// gRPC call, its [path](crate::grpc::GrpcCall::path).
    pub params: &'a [u8],
    /// The body of a posted REST call, or the first message of a gRPC call if it is held; otherwise empty.
    pub body: &'a [u8],
    /// True for a REST call.
    pub is_rest: bool,
    /// True for a gRPC call.
    pub is_grpc: bool,
    /// The rule of its method.
    pub rule: MethodRule,
}

impl<'a> CallView<'a> {
    /// Creates a call of `method` on `chain` without parameters, metered as sent.
    pub const fn new(chain: ChainName, method: &'a str, rule: MethodRule) -> Self {
        CallView::of_bytes(chain, method.as_bytes(), rule)
    }

    /// Creates a call like [`new`](Self::new), for a name that may not be UTF-8.
    pub const fn of_bytes(chain: ChainName, method: &'a [u8], rule: MethodRule) -> Self {
        CallView { chain, method, sent: method, params: b"", body: b"", is_rest: false, is_grpc: false, rule }
    }

    /// Sets the parameters: raw JSON, or the line of a REST call.
    #[must_use]
    pub const fn with_params(mut self, params: &'a [u8]) -> Self {
        self.params = params;
        self
    }

    /// Makes it a REST call with this line, which posts `body`.
    #[must_use]
    pub const fn with_rest(mut self, line: &'a [u8], body: &'a [u8]) -> Self {
        (self.params, self.body, self.is_rest) = (line, body, true);
        self
    }

    /// Makes it a gRPC call of this path, with `message` as its first message.
    #[must_use]
    pub const fn with_grpc(mut self, path: &'a str, message: &'a [u8]) -> Self {
        (self.params, self.body, self.is_grpc) = (path.as_bytes(), message, true);
        self
    }

    /// Sets the rule.
    #[must_use]
    pub const fn with_rule(mut self, rule: MethodRule) -> Self {
        self.rule = rule;
        self
    }
}
