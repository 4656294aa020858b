//! gRPC status numbers (google.rpc.Code).

pub(super) const INVALID_ARGUMENT: u8 = 3;
pub(super) const DEADLINE_EXCEEDED: u8 = 4;
pub(super) const NOT_FOUND: u8 = 5;
pub(super) const PERMISSION_DENIED: u8 = 7;
pub(super) const RESOURCE_EXHAUSTED: u8 = 8;
pub(super) const UNIMPLEMENTED: u8 = 12;
pub(super) const UNAVAILABLE: u8 = 14;
pub(super) const UNAUTHENTICATED: u8 = 16;
const UNKNOWN: u8 = 2;

/// Maps an HTTP status (gRPC, "HTTP to gRPC Status Code Mapping"), more specifically for the gateway's limits.
pub(super) const fn of(status: http::StatusCode) -> u8 {
    match status.as_u16() {
        400 => INVALID_ARGUMENT,
        401 => UNAUTHENTICATED,
        402 | 403 | 451 => PERMISSION_DENIED,
        404 | 405 | 501 => UNIMPLEMENTED,
        413 | 429 => RESOURCE_EXHAUSTED,
        502..=504 => UNAVAILABLE,
        _ => UNKNOWN,
    }
}
