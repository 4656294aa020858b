//! A node's answer to a handshake opens a stream only if RFC 6455, section 4.1, allows it.
#![no_main]

use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use libfuzzer_sys::fuzz_target;
use rpcgate_layers::transport::ws::{BadNodeHandshake, NodeHandshake};
use tungstenite::handshake::derive_accept_key;

const NAMES: [&str; 6] = [
    "upgrade", "connection", "sec-websocket-accept", "sec-websocket-protocol", "sec-websocket-extensions", "server",
];

/// Values that random bytes do not contain; the last is the answer to the key.
const VALUES: [&str; 6] = ["websocket", "Upgrade", "a", "b", "a, b", ""];

fn tokens<'a>(response: &'a Response<()>, name: &str) -> Vec<&'a str> {
    let values = response.headers().get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).collect()
}

fuzz_target!(|input: (u16, bool, Vec<(u8, u8, &[u8])>, &[u8])| {
    let (status, is_usual, rows, offered) = input;
    let handshake = NodeHandshake::new().expect("there is randomness");
    let mut request = Request::new(());
    let offered: Vec<_> = offered
        .split(|byte| *byte == 0)
        .filter_map(|value| HeaderValue::from_bytes(value).ok())
        .chain([HeaderValue::from_static("a,b")])
        .collect();
    handshake.write(&offered, request.headers_mut());
    let accept = derive_accept_key(request.headers()["sec-websocket-key"].as_bytes());

    let mut response = Response::new(());
    *response.status_mut() =
        if is_usual { StatusCode::SWITCHING_PROTOCOLS } else { StatusCode::from_u16(status).unwrap_or_default() };
    for (name, value, own) in rows {
        let name = HeaderName::from_static(NAMES[usize::from(name) % NAMES.len()]);
        let value = match VALUES.get(usize::from(value) % (VALUES.len() + 1)) {
            None => HeaderValue::from_bytes(own).ok(),
            Some(&"") => HeaderValue::from_str(&accept).ok(),
            Some(text) => Some(HeaderValue::from_static(text)),
        };
        let Some(value) = value else { continue };
        if response.headers_mut().try_append(name, value).is_err() {
            return;
        }
    }

    let checked = handshake.check(&response, &offered);
    let all = |name| response.headers().get_all(name).iter().collect::<Vec<_>>();
    let has = |name, word: &str| tokens(&response, name).iter().any(|token| token.eq_ignore_ascii_case(word));
    let chosen = all("sec-websocket-protocol");
    let offers: Vec<_> =
        offered.iter().filter_map(|list| list.to_str().ok()).flat_map(|list| list.split(',')).map(str::trim).filter(|offer| !offer.is_empty()).collect();
    let may_choose = match chosen[..] {
        [] => true,
        [one] => offers.iter().any(|offer| one == offer),
        _ => false,
    };
    let opens = response.status() == 101
        && has("upgrade", "websocket")
        && has("connection", "upgrade")
        && all("sec-websocket-accept") == [accept.as_str()]
        && all("sec-websocket-extensions").is_empty()
        && may_choose;
    assert_eq!(checked.is_ok(), opens, "{response:?}: {checked:?}");
    match checked {
        Ok(protocol) => assert_eq!(protocol.as_ref(), chosen.first().copied()),
        Err(BadNodeHandshake::Status(status)) => assert_eq!(status, response.status()),
        Err(_) => assert_eq!(response.status(), 101),
    }
});
