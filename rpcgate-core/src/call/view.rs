//! A call as layers and adapters see it.

use crate::chain::{ChainName, MethodRule};

/// A call as a layer sees it for its decision. Its constructors build it for calls of any other type.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CallView<'a> {
    /// The chain of the call.
    pub chain: ChainName,
    /// The name under which it is metered.
    pub method: &'a [u8],
    /// The name under which it was sent, with resolved escapes.
    pub sent: &'a [u8],
    /// Its parameters as raw JSON; empty if there are none. For a REST call, its [line](crate::rest::RestCall::line); for a
    /// gRPC call, its [path](crate::grpc::GrpcCall::path).
    pub params: &'a [u8],
    /// The body of a posted REST call; of a gRPC call its first message, if it is held; empty otherwise.
    pub body: &'a [u8],
    /// Whether it is a REST call.
    pub is_rest: bool,
    /// Whether it is a gRPC call.
    pub is_grpc: bool,
    /// The rule of its method.
    pub rule: MethodRule,
}

impl<'a> CallView<'a> {
    /// A call of `method` on `chain` without parameters, metered as it is sent.
    pub const fn new(chain: ChainName, method: &'a str, rule: MethodRule) -> Self {
        CallView::of_bytes(chain, method.as_bytes(), rule)
    }

    /// The same for a method whose name may be no UTF-8.
    pub const fn of_bytes(chain: ChainName, method: &'a [u8], rule: MethodRule) -> Self {
        CallView { chain, method, sent: method, params: b"", body: b"", is_rest: false, is_grpc: false, rule }
    }

    /// The same with these parameters: raw JSON, or the line of a REST call.
    #[must_use]
    pub const fn with_params(mut self, params: &'a [u8]) -> Self {
        self.params = params;
        self
    }

    /// The same as a REST call with this line, which posts `body`.
    #[must_use]
    pub const fn with_rest(mut self, line: &'a [u8], body: &'a [u8]) -> Self {
        (self.params, self.body, self.is_rest) = (line, body, true);
        self
    }

    /// The same as a gRPC call of this path, whose first message is `message`.
    #[must_use]
    pub const fn with_grpc(mut self, path: &'a str, message: &'a [u8]) -> Self {
        (self.params, self.body, self.is_grpc) = (path.as_bytes(), message, true);
        self
    }

    /// The same with another rule.
    #[must_use]
    pub const fn with_rule(mut self, rule: MethodRule) -> Self {
        self.rule = rule;
        self
    }
}
