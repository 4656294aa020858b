//! Client addresses, and limits on unauthenticated requests.

use super::limit::{MinuteLimit, TooOften};
use http::HeaderMap;
use ipnet::IpNet;
use rpcgate_core::clock::Clock;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

const FORWARDED: &str = "x-forwarded-for";
/// The number of remembered attempts above which larger address groups are counted.
const CROWDED: usize = 100_000;

/// Returns the client's address: `peer`, or the address that the proxies report if `peer` is one of `trusted`
/// (`gateway.trusted_proxies`). Each proxy appends its peer's address to `X-Forwarded-For`, so the list is read from
/// its end, past the trusted proxies, to the first address that is not trusted. Earlier entries may be forged. An entry
/// that cannot be parsed ends the list, and the proxy that forwarded it counts as the client.
pub fn client(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: &IpAddr| trusted.iter().any(|net| net.contains(address));
    let mut client = peer.to_canonical();
    // Several headers count as one list.
    let lines: Vec<_> = headers.get_all(FORWARDED).iter().collect();
    let mut hops = lines.iter().rev().flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    while is_trusted(&client) {
        let Some(hop) = hops.next().and_then(read) else { break };
        client = hop;
    }
    client
}

/// The networks of the proxies whose `X-Forwarded-For` is trusted (`gateway.trusted_proxies`). Clones share them.
#[derive(Clone, Debug)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    /// Trusts the proxies in `networks`.
    pub fn new(networks: &[IpNet]) -> Self {
        TrustedProxies(networks.into())
    }

    /// Returns the client's address: see [`client`].
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        client(peer, headers, &self.0)
    }
}

/// Parses an entry of the list: an address, optionally with a port.
fn read(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim_matches([' ', '\t']);
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse().ok().map(|address: SocketAddr| address.ip()))?;
    Some(address.to_canonical())
}

/// The addresses that are counted together: one IPv4 address, or an IPv6 /64, the smallest network that a client gets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddressGroup {
    first: IpAddr,
    bits: u8,
}

impl AddressGroup {
    /// Returns the group of `address`.
    pub fn of(address: IpAddr) -> Self {
        AddressGroup::sized(address, 32, 64)
    }

    /// Returns the network of a home or an office, within which a client's address may change.
    pub fn of_site(address: IpAddr) -> Self {
        AddressGroup::sized(address, 24, 48)
    }

    /// Returns the network that is routed to one operator. There are few enough of these to fit in memory.
    fn wide(address: IpAddr) -> Self {
        AddressGroup::sized(address, 16, 32)
    }

    fn sized(address: IpAddr, v4: u8, v6: u8) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let first = address.to_bits() & (u32::MAX << (32 - u32::from(v4)));
                AddressGroup { first: Ipv4Addr::from_bits(first).into(), bits: v4 }
            }
            IpAddr::V6(address) => {
                let first = address.to_bits() & (u128::MAX << (128 - u32::from(v6)));
                AddressGroup { first: Ipv6Addr::from_bits(first).into(), bits: v6 }
            }
        }
    }
}

impl fmt::Display for AddressGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

/// A limit on the attempts of each client address: log-ins and registrations together, or other unauthenticated
/// requests.
///
/// A group of addresses may make `per_minute` attempts in any 60 seconds, also in one burst. While more than 100,000
/// attempts are remembered, whole networks are counted as one group.
#[derive(Debug)]
pub struct AddressLimit {
    limit: MinuteLimit<AddressGroup>,
    crowded_above: usize,
}

impl AddressLimit {
    /// Admits `per_minute` attempts (at least one) of each group.
    pub fn new(per_minute: u32, clock: Arc<dyn Clock>) -> Self {
        AddressLimit { limit: MinuteLimit::new(per_minute, clock), crowded_above: CROWDED }
    }

    /// Counts an attempt from `address`.
    ///
    /// # Errors
    /// [`TooOften`] if the limit is reached. The refused attempt is not counted.
    pub fn admit(&self, address: IpAddr) -> Result<(), TooOften> {
        let is_crowded = self.limit.remembered() >= self.crowded_above;
        self.limit.admit(if is_crowded { AddressGroup::wide(address) } else { AddressGroup::of(address) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::limit::{MINUTE, SWEEP};
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;
    use rpcgate_core::clock::{ManualClock, Time};
    use std::time::Duration;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn headers(lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        headers
    }

    // Shows (Accounts and second factors): The client is the peer, or the last hop that is not trusted; IPv6 addresses
    // are grouped by /64.
    #[test]
    fn the_client_is_the_last_hop_that_is_not_trusted() {
        let trusted: Vec<IpNet> =
            ["10.0.0.0/8", "::1/128", "2001:db8::/32"].map(|net| net.parse().unwrap()).to_vec();
        for (peer, lines, found) in [
            // Only trusted proxies may report an address.
            ("203.0.113.5", vec!["198.51.100.1"], "203.0.113.5"),
            ("10.0.0.1", vec![], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1"], "198.51.100.1"),
            ("::1", vec!["198.51.100.1"], "198.51.100.1"),
            ("::ffff:10.0.0.1", vec!["::ffff:198.51.100.1"], "198.51.100.1"),
            // A client can only forge entries further left.
            ("10.0.0.1", vec!["1.2.3.4, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", vec!["1.2.3.4", "198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", vec!["10.9.9.9, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", vec!["1.2.3.4, 198.51.100.1,10.0.0.3", "10.0.0.2"], "198.51.100.1"),
            ("10.0.0.1", vec!["198.51.100.1 , 2001:db8::7"], "198.51.100.1"),
            ("10.0.0.1", vec!["10.0.0.3,10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", vec!["198.51.100.1:4711"], "198.51.100.1"),
            ("10.0.0.1", vec!["[2001:db9::1]:4711"], "2001:db9::1"),
            ("10.0.0.1", vec!["[2001:db9::1]"], "2001:db9::1"),
            ("10.0.0.1", vec!["2001:db9::1"], "2001:db9::1"),
            // An entry that cannot be parsed ends the list.
            ("10.0.0.1", vec!["198.51.100.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1,"], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1", ""], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1, _hidden, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", vec!["198.51.100.01"], "10.0.0.1"),
            ("10.0.0.1", vec!["\"198.51.100.1\""], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1;10.0.0.2"], "10.0.0.1"),
        ] {
            assert_eq!(client(ip(peer), &headers(&lines), &trusted), ip(found), "{peer} {lines:?}");
            assert_eq!(client(ip(peer), &headers(&lines), &[]), ip(peer).to_canonical());
        }
    }

    // Shows (Accounts and second factors).
    #[test]
    fn ipv6_counts_by_its_64() {
        assert_eq!(AddressGroup::of(ip("192.0.2.7")).to_string(), "192.0.2.7/32");
        assert_eq!(AddressGroup::of(ip("::ffff:192.0.2.7")), AddressGroup::of(ip("192.0.2.7")));
        assert_eq!(AddressGroup::of(ip("2001:db8:1:2:ffff::9")).to_string(), "2001:db8:1:2::/64");
        assert_ne!(AddressGroup::of(ip("2001:db8:1:2::")), AddressGroup::of(ip("2001:db8:1:3::")));
        assert_eq!(AddressGroup::wide(ip("192.0.2.7")).to_string(), "192.0.0.0/16");
        assert_eq!(AddressGroup::wide(ip("2001:db8:1:2::")).to_string(), "2001:db8::/32");
    }

    fn limit(per_minute: u32) -> (AddressLimit, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        (AddressLimit::new(per_minute, Arc::clone(&clock) as Arc<dyn Clock>), clock)
    }

    #[test]
    fn ten_attempts_pass_at_once_and_the_eleventh_when_the_first_is_a_minute_old() {
        let (limit, clock) = limit(10);
        let here = ip("192.0.2.7");
        clock.advance(Duration::from_millis(1_500));
        for _ in 0..4 {
            assert_eq!(limit.admit(here), Ok(()));
        }
        clock.advance(Duration::from_secs(20));
        for _ in 0..6 {
            assert_eq!(limit.admit(here), Ok(()));
        }
        assert_eq!(limit.admit(here), Err(TooOften { retry_after: 40 }));
        assert_eq!(limit.admit(ip("192.0.2.8")), Ok(()));
        clock.advance(Duration::from_micros(39_999_999));
        assert_eq!(limit.admit(here), Err(TooOften { retry_after: 1 }));
        clock.advance(Duration::from_micros(1));
        assert_eq!((0..20).filter(|_| limit.admit(here).is_ok()).count(), 4);
        assert_eq!(limit.admit(here), Err(TooOften { retry_after: 20 }));
        clock.advance(MINUTE);
        assert_eq!((0..20).filter(|_| limit.admit(here).is_ok()).count(), 10);
    }

    #[test]
    fn a_large_bound_is_reached_and_not_passed() {
        let (limit, _) = limit(5_000);
        assert_eq!((0..20_000).filter(|_| limit.admit(ip("192.0.2.7")).is_ok()).count(), 5_000);
    }

    #[test]
    fn simultaneous_attempts_of_one_address_are_limited_like_others() {
        let (limit, _) = limit(10);
        let here = ip("192.0.2.7");
        let admitted: usize = std::thread::scope(|scope| {
            let some = || (0..200).filter(|_| limit.admit(here).is_ok()).count();
            let all: Vec<_> = (0..8).map(|_| scope.spawn(some)).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(admitted, 10);
    }

    #[test]
    fn a_step_of_the_wall_clock_changes_nothing() {
        let (limit, clock) = limit(1);
        let here = ip("192.0.2.7");
        assert_eq!(limit.admit(here), Ok(()));
        clock.set(Time::from_secs(1_900_000_000));
        assert_eq!(limit.admit(here), Err(TooOften { retry_after: 60 }));
        clock.set(Time::from_secs(1));
        clock.advance(Duration::from_secs(60));
        assert_eq!(limit.admit(here), Ok(()));
    }

    #[test]
    fn addresses_of_one_64_share_their_attempts() {
        let (limit, _) = limit(3);
        let admitted = (0..100u128)
            .filter(|host| {
                limit.admit(Ipv6Addr::from_bits(ip_bits("2001:db8:1:2::") + (host << 32)).into()).is_ok()
            })
            .count();
        assert_eq!(admitted, 3);
    }

    fn ip_bits(text: &str) -> u128 {
        text.parse::<Ipv6Addr>().unwrap().to_bits()
    }

    #[test]
    fn an_address_without_recent_attempts_is_forgotten() {
        let (limit, clock) = limit(10);
        let last = SWEEP - 1;
        let first = 0;
        for host in first..last {
            assert_eq!(limit.admit(Ipv4Addr::from_bits(host).into()), Ok(()));
        }
        assert_eq!(limit.limit.taken(), 255);
        clock.advance(2 * MINUTE);
        assert_eq!(limit.admit(ip("192.0.2.7")), Ok(()));
        assert_eq!(limit.limit.taken(), 1);
    }

    #[test]
    fn with_many_addresses_whole_networks_are_counted_as_one() {
        let (mut limit, clock) = limit(10);
        limit.crowded_above = 200;
        for host in 0..100_000u32 {
            let _ = limit.admit(Ipv6Addr::from_bits(ip_bits("2001:db8::") + (u128::from(host) << 64)).into());
        }
        assert!(limit.limit.taken() <= 200 + SWEEP as usize, "{}", limit.limit.taken());
        assert!(limit.admit(ip("2001:db8:ffff::")).is_err());
        assert_eq!(limit.admit(ip("192.0.2.7")), Ok(()), "others are served");
        clock.advance(2 * MINUTE);
        for _ in 0..SWEEP {
            let _ = limit.admit(ip("192.0.2.7"));
        }
        assert_eq!(limit.admit(ip("2001:db8:ffff::")), Ok(()), "the crowd has gone");
        assert!(limit.limit.taken() <= 21, "{}", limit.limit.taken());
    }

    proptest! {
        #[test]
        fn in_any_60_seconds_exactly_the_allowed_number_passes(
            per_minute in 1u32..12,
            gaps in prop::collection::vec(
                prop_oneof![3 => 0u64..1_000, 2 => 0u64..20_000_000, 1 => 0u64..90_000_000],
                1..300,
            ),
        ) {
            let (limit, clock) = limit(per_minute);
            let mut passed: Vec<Duration> = Vec::new();
            for gap in gaps {
                clock.advance(Duration::from_micros(gap));
                let now = clock.elapsed();
                let recent = || passed.iter().filter(|then| now - **then < MINUTE);
                let free = recent().count() < per_minute as usize;
                let next = recent().map(|then| MINUTE - (now - *then)).min();
                match limit.admit(ip("192.0.2.7")) {
                    Ok(()) => {
                        prop_assert!(free);
                        passed.push(now);
                    }
                    Err(TooOften { retry_after }) => {
                        prop_assert!(!free);
                        let wait = next.unwrap().as_micros().div_ceil(1_000_000);
                        prop_assert_eq!(u128::from(retry_after), wait);
                    }
                }
            }
        }

        #[test]
        fn no_header_makes_the_reading_panic(lines in prop::collection::vec(".*", 0..4), peer: u32) {
            let mut headers = HeaderMap::new();
            for line in lines.iter().filter_map(|line| HeaderValue::from_bytes(line.as_bytes()).ok()) {
                headers.append(FORWARDED, line);
            }
            let peer = IpAddr::from(Ipv4Addr::from_bits(peer));
            client(peer, &headers, &["0.0.0.0/0".parse().unwrap()]);
            prop_assert_eq!(client(peer, &headers, &[]), peer);
        }
    }
}
