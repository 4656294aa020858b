//! `X-Forwarded-For`: a peer that is not a trusted proxy is the client, whatever it sends, and no client can change the
//! address that trusted proxies report by a prefix of the header.
#![no_main]

use http::header::{HeaderMap, HeaderName, HeaderValue};
use ipnet::IpNet;
use libfuzzer_sys::fuzz_target;
use rpcgate_management::identity::address::client;
use std::net::IpAddr;
use std::sync::LazyLock;

static TRUSTED: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    ["10.0.0.0/8", "fd00::/8"].iter().map(|net| net.parse().expect("a network")).collect()
});

fn headers(lines: &[HeaderValue]) -> HeaderMap {
    lines.iter().map(|line| (HeaderName::from_static("x-forwarded-for"), line.clone())).collect()
}

fuzz_target!(|input: (bool, u32, Vec<&[u8]>)| {
    let (is_proxy, address, lines) = input;
    let bits = if is_proxy { 10 << 24 | address >> 8 } else { address };
    let peer = IpAddr::V4(bits.into());
    let lines: Vec<_> = lines.iter().take(64).filter_map(|line| HeaderValue::from_bytes(line).ok()).collect();
    let is_trusted = |address: &IpAddr| TRUSTED.iter().any(|net| net.contains(address));
    let found = client(peer, &headers(&lines), &TRUSTED);
    assert_eq!(found, found.to_canonical());
    if !is_trusted(&peer) {
        assert_eq!(found, peer);
    }
    if !is_trusted(&found) {
        let forged = HeaderValue::from_static("203.0.113.9");
        let more: Vec<_> = [forged].into_iter().chain(lines).collect();
        assert_eq!(client(peer, &headers(&more), &TRUSTED), found);
    }
});
