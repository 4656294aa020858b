//! All refusals of the gateway, and the table with their wire forms.

mod deadline;
mod form;
mod grpc;

pub use deadline::DeadlineExceeded;

use crate::chain::Dialect;
use crate::json::{Cursor, DEEPEST};
use form::{write_error, write_field};
use http::StatusCode;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;

/// A refusal: the gateway rejects a call or a request. The failure of a node is a [fault](crate::fault).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// The path does not exist.
    NoRoute,
    /// A WebSocket path of a chain that has no stream here.
    NoStream,
    /// A stream request that is not a WebSocket handshake of version 13.
    UpgradeRequired,
    /// A WebSocket handshake without a valid key.
    BadHandshake,
    /// The project or the key has reached the number of open streams that its plan allows.
    TooManyStreams,
    /// More calls per second on a stream than the operator allows.
    StreamRate,
    /// The path exists, but not for this HTTP method.
    MethodNotAllowed {
        /// The value of the `Allow` header.
        allow: &'static str,
    },
    /// A path with more than one possible reading.
    InvalidPath,
    /// A URI above the limit.
    UriTooLong,
    /// Headers above the limit, in number or size.
    HeadersTooLarge,
    /// A head that is not HTTP or gives the body length twice.
    BadHead,
    /// The request has no API key.
    NoKey,
    /// An API key that is forged, unknown, expired or revoked.
    InvalidKey,
    /// An unknown key while the key store is unreachable.
    DirectoryAway,
    /// The tenant is suspended.
    Suspended,
    /// The key is not scoped to this chain.
    OutOfScope,
    /// A body above the limit.
    BodyTooLarge,
    /// A body that arrives too slowly.
    BodyTooSlow,
    /// A body in an unsupported content coding.
    UnknownCoding {
        /// The value of the `Accept-Encoding` header.
        accept: &'static str,
    },
    /// The gateway reached a limit: of bodies in memory, calls in flight, or unwritten records.
    Overloaded,
    /// The chain is overloaded and much slower than usual, and the project has used its share.
    Shed,
    /// No node is known to have reached the height that the client has seen.
    HeadNotReached,
    /// Every suitable node has reached its rate limit for this second or its budget for this month.
    NodesAtLimit,
    /// The node that created the filter is gone, or the id is unknown.
    FilterNotFound,
    /// The gateway is shutting down, and the drain time is over.
    Stopping,
    /// A body that is not JSON, or is nested too deep.
    ParseError,
    /// JSON that is not a call, or an empty batch.
    InvalidRequest,
    /// More items than a batch may have.
    BatchTooLarge,
    /// A batch for a chain that does not accept batches.
    BatchNotSupported,
    /// A method that is on the project's block list, missing from its allow list, or blocked by the operator.
    NotPermitted,
    /// A debugging method on a chain that forbids them outright.
    DebugForbidden,
    /// A plan window, or the project's requests per second, is exhausted.
    Window {
        /// Seconds until every exhausted window starts again.
        retry_after: u64,
    },
    /// A REST path of a chain that is not served here.
    NoChain,
    /// A path that the chain's nodes do not serve over HTTP.
    NotImplemented,
    /// A batch for a chain that does not answer with an array.
    UnexpectedFormat,
    /// The chain is not served here.
    NotServed,
    /// A second call of a paced method within the minute.
    Paced {
        /// Seconds until the minute ends.
        retry_after: u64,
    },
    /// The heavy budget is exhausted.
    Heavy {
        /// Seconds until the minute ends.
        retry_after: u64,
    },
    /// A method that is closed to all callers.
    Closed,
    /// The project's Compute Units are exhausted.
    Quota,
    /// An answer that exceeds the size limit of its batch's answer.
    ReplyTooLarge,
    /// A refusal of an embedder's own layer: see [`Refusal::other`].
    Other {
        /// The HTTP status of a refused single call or a refused request.
        status: StatusCode,
        /// The JSON-RPC error number.
        code: i32,
        /// The message.
        text: &'static str,
    },
}

/// The shape of a refusal's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Body {
    /// `{"message": …}`
    Message,
    /// `{"error": …}`
    Error,
    /// A JSON-RPC error in the chain's dialect.
    Rpc,
    /// A gRPC status as a REST gateway writes it: `{"code": …, "message": …}`.
    Status,
}

struct Row {
    status: StatusCode,
    body: Body,
    /// The JSON-RPC error number: in batches, and alone if the body is a JSON-RPC error.
    code: i32,
    grpc: u8,
    message: &'static str,
}

/// The answer of an XRP ledger server to a caller that is not an administrator.
const NO_PERMISSION: &[u8] = br#"{"result":{"error":"noPermission","error_code":6,"error_message":"You don't have permission for this command.","status":"error"}}"#;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INTERNAL: i32 = -32603;
/// The number of most node-defined errors (JSON-RPC 2.0, section 5.1).
const SERVER_ERROR: i32 = -32000;
const NOT_PERMITTED: i32 = -32004;
const QUOTA: i32 = -32005;
const HEAVY: i32 = -32029;

impl Refusal {
    /// One of each of the gateway's own refusals, for documentation and tests. Retry times are 1 s.
    pub const ALL: [Refusal; 41] = [
        Refusal::NoRoute,
        Refusal::NoStream,
        Refusal::UpgradeRequired,
        Refusal::BadHandshake,
        Refusal::TooManyStreams,
        Refusal::StreamRate,
        Refusal::NoChain,
        Refusal::NotImplemented,
        Refusal::UnexpectedFormat,
        Refusal::MethodNotAllowed { allow: "POST" },
        Refusal::InvalidPath,
        Refusal::UriTooLong,
        Refusal::HeadersTooLarge,
        Refusal::BadHead,
        Refusal::NoKey,
        Refusal::InvalidKey,
        Refusal::DirectoryAway,
        Refusal::Suspended,
        Refusal::OutOfScope,
        Refusal::BodyTooLarge,
        Refusal::BodyTooSlow,
        Refusal::UnknownCoding { accept: "gzip" },
        Refusal::Overloaded,
        Refusal::Shed,
        Refusal::HeadNotReached,
        Refusal::NodesAtLimit,
        Refusal::FilterNotFound,
        Refusal::Stopping,
        Refusal::ParseError,
        Refusal::InvalidRequest,
        Refusal::BatchTooLarge,
        Refusal::BatchNotSupported,
        Refusal::NotPermitted,
        Refusal::DebugForbidden,
        Refusal::Window { retry_after: 1 },
        Refusal::NotServed,
        Refusal::Paced { retry_after: 1 },
        Refusal::Heavy { retry_after: 1 },
        Refusal::Closed,
        Refusal::Quota,
        Refusal::ReplyTooLarge,
    ];

    /// Creates a refusal for an embedder's own layer, with the HTTP status of a call that is refused alone and a
    /// JSON-RPC error. It is recorded like any other refusal.
    ///
    /// ```
    /// use http::StatusCode;
    /// use rpcgate_core::{chain::Dialect, refusal::Refusal};
    ///
    /// const SANCTIONED: Refusal = Refusal::other(StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS, -32_010, "address is blocked");
    /// let mut body = Vec::new();
    /// SANCTIONED.write_alone(Dialect::JsonRpc2, Some(b"7"), &mut body);
    /// assert_eq!(SANCTIONED.status(), 451);
    /// assert_eq!(body, br#"{"jsonrpc":"2.0","id":7,"error":{"code":-32010,"message":"address is blocked"}}"#);
    /// ```
    pub const fn other(status: StatusCode, code: i32, text: &'static str) -> Self {
        Refusal::Other { status, code, text }
    }

    #[rustfmt::skip]
    const fn row(self) -> Row {
        use Body::{Error, Message, Rpc, Status};
        const fn row(status: StatusCode, body: Body, code: i32, grpc: u8, message: &'static str) -> Row {
            Row { status, body, code, grpc, message }
        }
        match self {
            Refusal::NoRoute => row(StatusCode::NOT_FOUND, Message, METHOD_NOT_FOUND, grpc::UNIMPLEMENTED, "no Route matched with those values"),
            Refusal::NoStream => row(StatusCode::NOT_FOUND, Message, METHOD_NOT_FOUND, grpc::UNIMPLEMENTED, "chain not available at this location"),
            Refusal::UpgradeRequired => row(StatusCode::UPGRADE_REQUIRED, Message, INVALID_REQUEST, grpc::UNIMPLEMENTED, "this path takes WebSocket handshakes of version 13"),
            Refusal::BadHandshake => row(StatusCode::BAD_REQUEST, Message, INVALID_REQUEST, grpc::INVALID_ARGUMENT, "invalid WebSocket handshake"),
            Refusal::TooManyStreams => row(StatusCode::TOO_MANY_REQUESTS, Message, HEAVY, grpc::RESOURCE_EXHAUSTED, "stream limit reached for your plan"),
            Refusal::StreamRate => row(StatusCode::TOO_MANY_REQUESTS, Rpc, QUOTA, grpc::RESOURCE_EXHAUSTED, "stream call rate exceeded"),
            Refusal::NoChain => row(StatusCode::NOT_FOUND, Message, METHOD_NOT_FOUND, grpc::UNIMPLEMENTED, "chain not available at this location"),
            Refusal::NotImplemented => row(StatusCode::NOT_IMPLEMENTED, Status, METHOD_NOT_FOUND, grpc::UNIMPLEMENTED, "Not Implemented"),
            Refusal::UnexpectedFormat => row(StatusCode::OK, Rpc, INTERNAL, grpc::UNAVAILABLE, "unexpected backend response format"),
            Refusal::MethodNotAllowed { .. } => row(StatusCode::METHOD_NOT_ALLOWED, Message, INVALID_REQUEST, grpc::UNIMPLEMENTED, "method not allowed"),
            Refusal::InvalidPath => row(StatusCode::BAD_REQUEST, Message, INVALID_REQUEST, grpc::UNIMPLEMENTED, "invalid path"),
            Refusal::UriTooLong => row(StatusCode::URI_TOO_LONG, Message, INVALID_REQUEST, grpc::INVALID_ARGUMENT, "URI too long"),
            Refusal::HeadersTooLarge => row(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, Message, INVALID_REQUEST, grpc::INVALID_ARGUMENT, "request headers too large"),
            Refusal::BadHead => row(StatusCode::BAD_REQUEST, Message, INVALID_REQUEST, grpc::INVALID_ARGUMENT, "bad request"),
            Refusal::NoKey => row(StatusCode::UNAUTHORIZED, Message, INVALID_REQUEST, grpc::UNAUTHENTICATED, "No API key found in request"),
            Refusal::InvalidKey => row(StatusCode::UNAUTHORIZED, Message, INVALID_REQUEST, grpc::UNAUTHENTICATED, "Invalid authentication credentials"),
            Refusal::DirectoryAway => row(StatusCode::SERVICE_UNAVAILABLE, Message, INTERNAL, grpc::UNAVAILABLE, "key cannot be checked now, retry later"),
            Refusal::Suspended => row(StatusCode::PAYMENT_REQUIRED, Message, INVALID_REQUEST, grpc::PERMISSION_DENIED, "account suspended — contact your administrator"),
            Refusal::OutOfScope => row(StatusCode::FORBIDDEN, Message, INVALID_REQUEST, grpc::PERMISSION_DENIED, "API key not permitted for this chain"),
            Refusal::BodyTooLarge => row(StatusCode::PAYLOAD_TOO_LARGE, Rpc, INVALID_REQUEST, grpc::RESOURCE_EXHAUSTED, "request too large"),
            Refusal::BodyTooSlow => row(StatusCode::REQUEST_TIMEOUT, Rpc, INVALID_REQUEST, grpc::INVALID_ARGUMENT, "request body too slow"),
            Refusal::UnknownCoding { .. } => row(StatusCode::UNSUPPORTED_MEDIA_TYPE, Rpc, INVALID_REQUEST, grpc::INVALID_ARGUMENT, "unsupported content coding"),
            Refusal::Overloaded => row(StatusCode::SERVICE_UNAVAILABLE, Rpc, INTERNAL, grpc::UNAVAILABLE, "overloaded, retry later"),
            Refusal::Shed => row(StatusCode::SERVICE_UNAVAILABLE, Rpc, INTERNAL, grpc::UNAVAILABLE, "chain overloaded, retry later"),
            Refusal::HeadNotReached => row(StatusCode::SERVICE_UNAVAILABLE, Rpc, INTERNAL, grpc::UNAVAILABLE, "no node has reached the block that you have seen, retry later"),
            Refusal::NodesAtLimit => row(StatusCode::SERVICE_UNAVAILABLE, Rpc, INTERNAL, grpc::UNAVAILABLE, "all nodes are at their limits, retry later"),
            Refusal::FilterNotFound => row(StatusCode::OK, Rpc, SERVER_ERROR, grpc::NOT_FOUND, "filter not found"),
            Refusal::Stopping => row(StatusCode::SERVICE_UNAVAILABLE, Rpc, INTERNAL, grpc::UNAVAILABLE, "the gateway is stopping, call again"),
            Refusal::ParseError => row(StatusCode::BAD_REQUEST, Rpc, PARSE_ERROR, grpc::INVALID_ARGUMENT, "parse error"),
            Refusal::InvalidRequest => row(StatusCode::BAD_REQUEST, Rpc, INVALID_REQUEST, grpc::INVALID_ARGUMENT, "invalid request"),
            Refusal::BatchTooLarge => row(StatusCode::PAYLOAD_TOO_LARGE, Rpc, INVALID_REQUEST, grpc::INVALID_ARGUMENT, "batch too large"),
            Refusal::BatchNotSupported => row(StatusCode::BAD_REQUEST, Rpc, INVALID_REQUEST, grpc::INVALID_ARGUMENT, "batch not supported"),
            Refusal::NotPermitted => row(StatusCode::FORBIDDEN, Rpc, NOT_PERMITTED, grpc::PERMISSION_DENIED, "method not permitted for this project"),
            Refusal::DebugForbidden => row(StatusCode::FORBIDDEN, Error, METHOD_NOT_FOUND, grpc::PERMISSION_DENIED, "debug methods not permitted"),
            Refusal::Window { .. } => row(StatusCode::TOO_MANY_REQUESTS, Message, HEAVY, grpc::RESOURCE_EXHAUSTED, "API rate limit exceeded"),
            Refusal::NotServed => row(StatusCode::OK, Rpc, METHOD_NOT_FOUND, grpc::UNIMPLEMENTED, "chain not available at this location"),
            Refusal::Paced { .. } => row(StatusCode::TOO_MANY_REQUESTS, Message, HEAVY, grpc::RESOURCE_EXHAUSTED, "Heavy method rate limit: 1/min for eth_getLogs"),
            Refusal::Heavy { .. } => row(StatusCode::TOO_MANY_REQUESTS, Rpc, HEAVY, grpc::RESOURCE_EXHAUSTED, "heavy method rate limit exceeded for your plan, retry later"),
            Refusal::Closed => row(StatusCode::OK, Rpc, METHOD_NOT_FOUND, grpc::UNIMPLEMENTED, "method not available"),
            Refusal::Quota => row(StatusCode::OK, Rpc, QUOTA, grpc::RESOURCE_EXHAUSTED, "compute unit quota exceeded"),
            Refusal::Other { status, code, text } => row(status, Rpc, code, grpc::of(status), text),
            Refusal::ReplyTooLarge => row(StatusCode::OK, Rpc, QUOTA, grpc::RESOURCE_EXHAUSTED, "batch response too large"),
        }
    }

    /// Returns the HTTP status of a refused single call or a refused request.
    pub const fn status(self) -> StatusCode {
        self.row().status
    }

    /// Returns the JSON-RPC error number: in batches, and alone if the body is a JSON-RPC error.
    pub const fn code(self) -> i32 {
        self.row().code
    }

    /// Returns the gRPC status number.
    pub const fn grpc(self) -> u8 {
        self.row().grpc
    }

    /// Returns the message, which is the same in every form.
    pub const fn message(self) -> &'static str {
        self.row().message
    }

    /// Returns the value of the `Retry-After` header, in seconds.
    pub const fn retry_after(self) -> Option<u64> {
        match self {
            Refusal::Window { retry_after }
            | Refusal::Paced { retry_after }
            | Refusal::Heavy { retry_after } => Some(retry_after),
            Refusal::DirectoryAway
            | Refusal::Overloaded
            | Refusal::Shed
            | Refusal::HeadNotReached
            | Refusal::NodesAtLimit
            | Refusal::Stopping
            | Refusal::TooManyStreams
            | Refusal::StreamRate => Some(1),
            _ => None,
        }
    }

    /// Returns the value of the `Allow` header.
    pub const fn allow(self) -> Option<&'static str> {
        match self {
            Refusal::MethodNotAllowed { allow } => Some(allow),
            _ => None,
        }
    }

    /// Returns the value of the `Accept-Encoding` header (RFC 9110, section 15.5.16).
    pub const fn accept_encoding(self) -> Option<&'static str> {
        match self {
            Refusal::UnknownCoding { accept } => Some(accept),
            _ => None,
        }
    }

    /// Reports whether the answer names the required protocol (`Upgrade`, RFC 9110 section 15.5.22, and
    /// `Sec-WebSocket-Version`, RFC 6455 section 4.4).
    pub const fn asks_for_upgrade(self) -> bool {
        matches!(self, Refusal::UpgradeRequired)
    }

    /// Reports whether the answer has a `WWW-Authenticate` header.
    pub const fn asks_for_key(self) -> bool {
        matches!(self, Refusal::NoKey | Refusal::InvalidKey)
    }

    /// Reports whether the connection must close after the answer, because the rest of the request is not read.
    pub const fn closes(self) -> bool {
        matches!(
            self,
            Refusal::BodyTooLarge
                | Refusal::BodyTooSlow
                | Refusal::UriTooLong
                | Refusal::HeadersTooLarge
                | Refusal::BadHead
        )
    }

    /// Writes the HTTP body of a refused single call or a refused request. `id` is the call's id as raw JSON, if known.
    pub fn write_alone(self, dialect: Dialect, id: Option<&[u8]>, out: &mut Vec<u8>) {
        match self.row().body {
            Body::Message => write_field("message", self.message(), out),
            Body::Error => write_field("error", self.message(), out),
            Body::Status => {
                out.extend_from_slice(b"{\"code\":");
                out.extend_from_slice(itoa::Buffer::new().format(self.grpc()).as_bytes());
                out.extend_from_slice(b",\"message\":");
                crate::json::write_string(out, self.message());
                out.push(b'}');
            }
            Body::Rpc if self == Refusal::Closed && dialect == Dialect::Xrp => {
                out.extend_from_slice(NO_PERMISSION);
            }
            Body::Rpc => self.write_item(dialect, id, out),
        }
    }

    /// Writes the refusal as an item of a batch's answer.
    pub fn write_item(self, dialect: Dialect, id: Option<&[u8]>, out: &mut Vec<u8>) {
        write_error(dialect, id, self.code(), self.message(), out);
    }

    /// Writes the refusal as a JSON-RPC error on a stream, alone or in an array. XRP ledger servers have their own form
    /// and names of errors on streams ("Error Formatting" in their API).
    pub fn write_frame(self, dialect: Dialect, id: Option<&[u8]>, out: &mut Vec<u8>) {
        if dialect != Dialect::Xrp {
            return self.write_item(dialect, id, out);
        }
        let (name, code, message) = match self {
            Refusal::Closed => ("noPermission", 6, "You don't have permission for this command."),
            _ if self.retry_after().is_some() => ("slowDown", self.code(), self.message()),
            Refusal::ParseError => ("jsonInvalid", self.code(), self.message()),
            Refusal::InvalidRequest | Refusal::BatchNotSupported => {
                ("invalidParams", self.code(), self.message())
            }
            _ => ("noPermission", self.code(), self.message()),
        };
        out.extend_from_slice(b"{\"id\":");
        out.extend_from_slice(id.unwrap_or(b"null"));
        out.extend_from_slice(b",\"status\":\"error\",\"type\":\"response\",\"error\":\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\",\"error_code\":");
        out.extend_from_slice(itoa::Buffer::new().format(code).as_bytes());
        out.extend_from_slice(b",\"error_message\":");
        crate::json::write_string(out, message);
        out.push(b'}');
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl Error for Refusal {}

impl From<Infallible> for Refusal {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Converts the error of a tower service between the layers, such as a timeout: to the refusal in it, or else to
/// [`Refusal::Overloaded`].
impl From<Box<dyn Error + Send + Sync>> for Refusal {
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        error.downcast_ref().copied().unwrap_or(Refusal::Overloaded)
    }
}

/// The only form in which a client sees any fault. It reveals nothing about nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackendFailure;

impl BackendFailure {
    const MESSAGE: &'static str = "backend request failed";

    /// Returns the HTTP status of a call that failed alone.
    pub const fn status(self, dialect: Dialect) -> StatusCode {
        match dialect {
            Dialect::Rest => StatusCode::BAD_GATEWAY,
            _ => StatusCode::OK,
        }
    }

    /// Returns the gRPC status number.
    pub const fn grpc(self) -> u8 {
        grpc::UNAVAILABLE
    }

    /// Returns the message, which is the same in every form.
    pub const fn message(self) -> &'static str {
        Self::MESSAGE
    }

    /// Writes the answer, alone or as an item.
    pub fn write(self, dialect: Dialect, id: Option<&[u8]>, out: &mut Vec<u8>) {
        match dialect {
            Dialect::Rest => write_field("message", Self::MESSAGE, out),
            _ => write_error(dialect, id, INTERNAL, Self::MESSAGE, out),
        }
    }
}

impl Dialect {
    /// Returns a node's HTTP status for this `error` object outside an array. UTXO daemons derive it from the number;
    /// others answer 200.
    pub fn status_alone(self, error: &[u8]) -> StatusCode {
        match self {
            Dialect::Utxo => match code(error) {
                Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
                Some(INVALID_REQUEST) => StatusCode::BAD_REQUEST,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
            _ => StatusCode::OK,
        }
    }
}

fn code(error: &[u8]) -> Option<i32> {
    let mut cursor = Cursor::new(error, DEEPEST);
    cursor.enter_object().ok()?;
    while let Some(name) = cursor.next_member().ok()? {
        let value = cursor.value().ok()?.of(error);
        if name.resolve(error).as_deref() == Some("code") {
            return std::str::from_utf8(value).ok()?.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(refusal: Refusal, dialect: Dialect) -> (u16, String) {
        let mut body = Vec::new();
        refusal.write_alone(dialect, Some(b"7"), &mut body);
        (refusal.status().as_u16(), String::from_utf8(body).unwrap())
    }

    fn item(refusal: Refusal, dialect: Dialect) -> String {
        let mut body = Vec::new();
        refusal.write_item(dialect, None, &mut body);
        String::from_utf8(body).unwrap()
    }

    // Shows (Errors): All refusals are answered as specified, alone and in a batch.
    #[test]
    fn every_row_of_the_error_table_alone() {
        let rpc = |code: i32, message: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":{code},"message":"{message}"}}}}"#)
        };
        let message = |message: &str| format!(r#"{{"message":"{message}"}}"#);
        let rows = [
            (Refusal::NotServed, 200, rpc(-32601, "chain not available at this location")),
            (Refusal::NoStream, 404, message("chain not available at this location")),
            (Refusal::Quota, 200, rpc(-32005, "compute unit quota exceeded")),
            (Refusal::Window { retry_after: 3 }, 429, message("API rate limit exceeded")),
            (
                Refusal::Heavy { retry_after: 3 },
                429,
                rpc(-32029, "heavy method rate limit exceeded for your plan, retry later"),
            ),
            (
                Refusal::Paced { retry_after: 3 },
                429,
                message("Heavy method rate limit: 1/min for eth_getLogs"),
            ),
            (Refusal::DebugForbidden, 403, r#"{"error":"debug methods not permitted"}"#.into()),
            (Refusal::Suspended, 402, message("account suspended — contact your administrator")),
            (Refusal::BatchTooLarge, 413, rpc(-32600, "batch too large")),
            (Refusal::NoRoute, 404, message("no Route matched with those values")),
            (Refusal::NoKey, 401, message("No API key found in request")),
            (Refusal::InvalidKey, 401, message("Invalid authentication credentials")),
            (Refusal::OutOfScope, 403, message("API key not permitted for this chain")),
            (Refusal::NotPermitted, 403, rpc(-32004, "method not permitted for this project")),
            (Refusal::ParseError, 400, rpc(-32700, "parse error")),
            (Refusal::InvalidRequest, 400, rpc(-32600, "invalid request")),
            (Refusal::BodyTooLarge, 413, rpc(-32600, "request too large")),
            (Refusal::BatchNotSupported, 400, rpc(-32600, "batch not supported")),
            (Refusal::Closed, 200, rpc(-32601, "method not available")),
            (Refusal::InvalidPath, 400, message("invalid path")),
            (Refusal::Shed, 503, rpc(-32603, "chain overloaded, retry later")),
        ];
        for (refusal, status, body) in rows {
            assert_eq!(alone(refusal, Dialect::JsonRpc2), (status, body), "{refusal:?}");
        }
    }

    #[test]
    fn a_refusal_of_an_embedders_own_has_its_form_in_every_dialect() {
        let own = Refusal::other(StatusCode::FORBIDDEN, -32_010, "not \"here\"");
        assert_eq!(
            alone(own, Dialect::Utxo),
            (403, r#"{"result":null,"error":{"code":-32010,"message":"not \"here\""},"id":7}"#.into())
        );
        assert_eq!((own.grpc(), own.retry_after(), own.closes()), (7, None, false));
    }

    // Shows (Errors).
    #[test]
    fn inside_a_batch_every_refusal_is_a_json_rpc_error() {
        assert_eq!(
            item(Refusal::Paced { retry_after: 1 }, Dialect::JsonRpc2),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32029,"message":"Heavy method rate limit: 1/min for eth_getLogs"}}"#
        );
        assert_eq!(
            item(Refusal::DebugForbidden, Dialect::JsonRpc2),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"debug methods not permitted"}}"#
        );
    }

    #[test]
    fn on_a_stream_every_refusal_is_an_error_in_the_form_of_the_chains_streams() {
        let frame = |refusal: Refusal, dialect| {
            let mut text = Vec::new();
            refusal.write_frame(dialect, Some(b"\"a\""), &mut text);
            String::from_utf8(text).unwrap()
        };
        let heavy = Refusal::Heavy { retry_after: 3 };
        for dialect in [Dialect::JsonRpc2, Dialect::Ogmios, Dialect::Rest] {
            assert_eq!(
                frame(heavy, dialect),
                r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32029,"message":"heavy method rate limit exceeded for your plan, retry later"}}"#
            );
        }
        assert_eq!(
            frame(heavy, Dialect::Xrp),
            r#"{"id":"a","status":"error","type":"response","error":"slowDown","error_code":-32029,"error_message":"heavy method rate limit exceeded for your plan, retry later"}"#
        );
        assert_eq!(
            frame(Refusal::ParseError, Dialect::Xrp),
            r#"{"id":"a","status":"error","type":"response","error":"jsonInvalid","error_code":-32700,"error_message":"parse error"}"#
        );
        assert_eq!(
            frame(Refusal::InvalidRequest, Dialect::Xrp),
            r#"{"id":"a","status":"error","type":"response","error":"invalidParams","error_code":-32600,"error_message":"invalid request"}"#
        );
        assert_eq!(
            frame(Refusal::NotPermitted, Dialect::Xrp),
            r#"{"id":"a","status":"error","type":"response","error":"noPermission","error_code":-32004,"error_message":"method not permitted for this project"}"#
        );
        assert_eq!(
            frame(Refusal::Closed, Dialect::Xrp),
            r#"{"id":"a","status":"error","type":"response","error":"noPermission","error_code":6,"error_message":"You don't have permission for this command."}"#
        );
    }

    #[test]
    fn an_answer_beyond_the_memory_of_its_batch_is_refused_with_the_reason() {
        assert_eq!(
            item(Refusal::ReplyTooLarge, Dialect::JsonRpc2),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"batch response too large"}}"#
        );
    }

    #[test]
    fn utxo_errors_carry_a_null_result() {
        assert_eq!(
            alone(Refusal::Closed, Dialect::Utxo).1,
            r#"{"result":null,"error":{"code":-32601,"message":"method not available"},"id":7}"#
        );
        let mut body = Vec::new();
        BackendFailure.write(Dialect::Utxo, Some(b"\"a\""), &mut body);
        assert_eq!(
            body,
            br#"{"result":null,"error":{"code":-32603,"message":"backend request failed"},"id":"a"}"#
        );
    }

    // Shows (Errors): Errors of the gateway on NEAR have the members that the chain's clients read.
    #[test]
    fn near_errors_have_the_members_that_its_clients_read() {
        assert_eq!(
            alone(Refusal::Quota, Dialect::Near).1,
            r#"{"jsonrpc":"2.0","id":7,"error":{"name":"INTERNAL_ERROR","cause":{"info":{"error_message":"compute unit quota exceeded"},"name":"INTERNAL_ERROR"},"code":-32005,"message":"compute unit quota exceeded","data":"compute unit quota exceeded"}}"#
        );
        assert_eq!(
            item(Refusal::Closed, Dialect::Near),
            r#"{"jsonrpc":"2.0","id":null,"error":{"name":"REQUEST_VALIDATION_ERROR","cause":{"info":{"error_message":"method not available"},"name":"PARSE_ERROR"},"code":-32601,"message":"method not available","data":"method not available"}}"#
        );
        let mut body = Vec::new();
        BackendFailure.write(Dialect::Near, Some(b"\"a\""), &mut body);
        assert_eq!(
            String::from_utf8(body).unwrap(),
            r#"{"jsonrpc":"2.0","id":"a","error":{"name":"INTERNAL_ERROR","cause":{"info":{"error_message":"backend request failed"},"name":"INTERNAL_ERROR"},"code":-32603,"message":"backend request failed","data":"backend request failed"}}"#
        );
    }

    #[test]
    fn the_status_of_a_utxo_error_follows_from_its_code() {
        let status = |dialect: Dialect, error: &str| dialect.status_alone(error.as_bytes()).as_u16();
        for (code, expected) in [(-32601, 404), (-32600, 400), (-5, 500), (-32700, 500)] {
            let error = format!(r#"{{"message":"x","code":{code}}}"#);
            assert_eq!(status(Dialect::Utxo, &error), expected);
            assert_eq!(status(Dialect::JsonRpc2, &error), 200);
        }
        assert_eq!(status(Dialect::Utxo, "\"strange\""), 500);
    }

    #[test]
    fn refusals_that_may_be_retried_have_a_retry_after() {
        for refusal in Refusal::ALL {
            let again = matches!(refusal.status().as_u16(), 429 | 503);
            assert_eq!(refusal.retry_after().is_some(), again, "{refusal:?}");
        }
    }

    #[test]
    fn grpc_statuses_of_the_contract() {
        for refusal in [Refusal::Suspended, Refusal::OutOfScope, Refusal::NotPermitted] {
            assert_eq!(refusal.grpc(), 7);
        }
        for refusal in [Refusal::Window { retry_after: 1 }, Refusal::Heavy { retry_after: 1 }, Refusal::Quota]
        {
            assert_eq!(refusal.grpc(), 8);
        }
        assert_eq!((Refusal::NoKey.grpc(), Refusal::NotServed.grpc(), BackendFailure.grpc()), (16, 12, 14));
        assert_eq!((Refusal::NoRoute.grpc(), Refusal::Closed.grpc(), DeadlineExceeded.grpc()), (12, 12, 4));
    }
}
