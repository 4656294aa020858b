//! The JSON of refusals.

use super::{INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR};
use crate::chain::Dialect;
use crate::json::write_string;

pub(super) fn write_field(name: &str, text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    write_string(out, text);
    out.push(b'}');
}

pub(super) fn write_error(dialect: Dialect, id: Option<&[u8]>, code: i32, message: &str, out: &mut Vec<u8>) {
    let id = id.unwrap_or(b"null");
    let error = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"{\"code\":");
        out.extend_from_slice(code.to_string().as_bytes());
        out.extend_from_slice(b",\"message\":");
        write_string(out, message);
        out.push(b'}');
    };
    match dialect {
        Dialect::Near => {
            out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
            out.extend_from_slice(id);
            out.extend_from_slice(b",\"error\":");
            write_near_error(code, message, out);
        }
        Dialect::JsonRpc2 | Dialect::Xrp | Dialect::Ogmios | Dialect::Ton | Dialect::Rest => {
            out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
            out.extend_from_slice(id);
            out.extend_from_slice(b",\"error\":");
            error(out);
        }
        Dialect::Utxo => {
            out.extend_from_slice(b"{\"result\":null,\"error\":");
            error(out);
            out.extend_from_slice(b",\"id\":");
            out.extend_from_slice(id);
        }
    }
    out.push(b'}');
}

/// Writes a NEAR error object. NEAR clients show the cause's `error_message` or the `data`, and fail without them.
fn write_near_error(code: i32, message: &str, out: &mut Vec<u8>) {
    let (name, cause) = match code {
        PARSE_ERROR | INVALID_REQUEST | METHOD_NOT_FOUND => ("REQUEST_VALIDATION_ERROR", "PARSE_ERROR"),
        _ => ("INTERNAL_ERROR", "INTERNAL_ERROR"),
    };
    out.extend_from_slice(b"{\"name\":\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\",\"cause\":{\"info\":{\"error_message\":");
    write_string(out, message);
    out.extend_from_slice(b"},\"name\":\"");
    out.extend_from_slice(cause.as_bytes());
    out.extend_from_slice(b"\"},\"code\":");
    out.extend_from_slice(code.to_string().as_bytes());
    out.extend_from_slice(b",\"message\":");
    write_string(out, message);
    out.extend_from_slice(b",\"data\":");
    write_string(out, message);
    out.push(b'}');
}
