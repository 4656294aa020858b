//! The JSON of refusals.

use crate::chain::Dialect;
use crate::json::write_string;

/// Writes an object with one field.
pub(super) fn write_field(name: &str, text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    write_string(out, text);
    out.push(b'}');
}

/// Writes an error in the form of the chain's dialect.
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
