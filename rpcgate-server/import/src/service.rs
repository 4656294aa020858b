//! Another gateway's process settings: its addresses, certificate, log and shared counters.

use super::document::Node;
use super::draft::{Draft, Holds, TomlValue};
use super::note::NoteKind;
use super::value::Given;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Sets `header.listen` to host and port. A host name is left out, because we listen at addresses.
pub(super) fn set_listen(
    draft: &mut Draft,
    header: &str,
    host: Option<&Node>,
    port: Option<&Node>,
    port_if_absent: u16,
) {
    let Some(from) = port.or(host) else { return };
    let ours = format!("{header}.listen");
    let name = draft.plain(host, &ours);
    let address = match name.as_deref().map(|name| name.trim_matches(['[', ']'])) {
        None | Some("") => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        Some("localhost") => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        Some(name) => name.parse().ok(),
    };
    let number = match port {
        Some(node) => draft.number(port, &ours).and_then(|number| {
            let number = u16::try_from(number).ok();
            if number.is_none() {
                draft.notes.left_out(node, format!("it is no port: set {ours}"));
            }
            number
        }),
        None => Some(port_if_absent),
    };
    match (address, number) {
        (Some(address), Some(number)) => {
            let text = SocketAddr::new(address, number).to_string();
            draft.set(header, "listen", TomlValue::Text(text), from);
        }
        (None, _) => {
            let text = format!("rpcgate listens at an address, not at a name: set {ours}");
            draft.notes.left_out(host.unwrap_or(from), text);
        }
        (_, None) => {}
    }
}

/// Sets certificate and key; both, or neither.
pub(super) fn set_tls(draft: &mut Draft, cert: Option<&Node>, key: Option<&Node>) {
    let cert_file = draft.plain(cert, "gateway.tls.cert");
    let key_file = draft.plain(key, "gateway.tls.key");
    if let (Some(cert), Some(key), Some(cert_file), Some(key_file)) = (cert, key, cert_file, key_file) {
        draft.set("gateway.tls", "cert", TomlValue::Text(cert_file), cert);
        draft.set("gateway.tls", "key", TomlValue::Text(key_file), key);
    } else if let Some(node) = cert.or(key) {
        draft.notes.left_out(node, "gateway.tls needs a certificate and a key: set both");
    }
}

pub(super) fn log_level(node: Option<&Node>, draft: &mut Draft) {
    let Some(level) = draft.plain(node, "telemetry.log_filter") else { return };
    let Some(node) = node else { return };
    let level = level.to_lowercase();
    match level.as_str() {
        "trace" | "debug" | "info" | "warn" | "error" => {
            draft.set("telemetry", "log_filter", TomlValue::Text(level), node);
        }
        _ => draft.notes.left_out(node, "telemetry.log_filter takes trace, debug, info, warn or error"),
    }
}

/// Sets `redis.url` to an address; to a variable if there is a password.
pub(super) fn redis_url(
    draft: &mut Draft,
    text: &str,
    login: bool,
    number: Option<u64>,
    node: &Node,
) -> TomlValue {
    let private = login || text.contains('@') || text.contains('?');
    match draft.form.read(text) {
        Given::Variable(name) if !login => draft.variable(name, Holds::RedisUrl),
        Given::Text(text) if !private => {
            let url = if text.contains("://") { text } else { format!("redis://{text}") };
            let path = url.splitn(4, '/').nth(3).unwrap_or_default();
            let number = number.filter(|number| *number > 0 && path.is_empty());
            let slash = if url.ends_with('/') { "" } else { "/" };
            TomlValue::Text(number.map_or_else(|| url.clone(), |number| format!("{url}{slash}{number}")))
        }
        _ => {
            let text =
                "redis://user:password@host:port/number with the values of these lines, which are not copied";
            draft.new_variable("REDIS_URL", Holds::RedisUrl, node, text)
        }
    }
}

/// Notes each of `parts`, which are not copied, as a part of the Redis URL that `value` names.
pub(super) fn note_parts_of_redis_url<'n>(
    draft: &mut Draft,
    value: &TomlValue,
    parts: impl Iterator<Item = &'n Node>,
) {
    let TomlValue::Env(name) = value else { return };
    for part in parts.filter(|part| !part.is_nothing()) {
        part.settle();
        let text = format!("it is a part of the URL in {name}");
        draft.notes.add(NoteKind::ToSet, part.at, &part.path, text);
    }
}
