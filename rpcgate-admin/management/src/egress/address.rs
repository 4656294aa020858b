//! Decides whether an address is public.
//!
//! An IPv6 address can be public only in the range for global unicast (2000::/3), except for reserved parts. An address
//! that contains an IPv4 address is public if that one is. The sources are the IANA registries of special-purpose
//! addresses of IPv4 and IPv6 (RFC 6890).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IPv4 ranges that are not public, with the length of their prefix and a description.
const IPV4: [(Ipv4Addr, u8, &str); 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "of this network"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "of a carrier's network"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "of this machine"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "of a cloud's machinery"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(255, 255, 255, 255), 32, "broadcast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

/// The ranges of 2000::/3 that are not public. Teredo (2001::/32) and 6to4 (2002::/16) contain IPv4 addresses and are
/// abandoned, so none of their addresses is public.
const IPV6: [(Ipv6Addr, u8, &str); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "reserved"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "for documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "reserved"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "for documentation"),
];

/// The prefix of addresses that contain an IPv4 address, for networks without IPv4 (NAT64, RFC 6052).
const NAT64: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

/// Returns the reason why an address is not public, as the end of the sentence "the address is", or `None` for a public
/// address.
///
/// ```
/// use rpcgate_management::egress::refusal;
///
/// assert_eq!(refusal("10.1.2.3".parse()?), Some("private"));
/// assert_eq!(refusal("::ffff:127.0.0.1".parse()?), Some("of this machine"));
/// assert_eq!(refusal("8.8.8.8".parse()?), None);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => of_ipv4(address),
        IpAddr::V6(address) => of_ipv6(address),
    }
}

fn of_ipv4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = u32::from(address);
    let is_within = |network: Ipv4Addr, prefix: u8| {
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        bits & mask == u32::from(network)
    };
    IPV4.iter().find(|(network, prefix, _)| is_within(*network, *prefix)).map(|(_, _, what)| *what)
}

fn of_ipv6(address: Ipv6Addr) -> Option<&'static str> {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return of_ipv4(mapped);
    }
    if is_within(address, NAT64, 96) {
        let [.., a, b, c, d] = address.octets();
        return of_ipv4(Ipv4Addr::new(a, b, c, d));
    }
    if let Some((_, _, what)) = IPV6.iter().find(|(network, prefix, _)| is_within(address, *network, *prefix))
    {
        return Some(what);
    }
    match address.octets() {
        [first, ..] if first & 0xe0 == 0x20 => None,
        _ if address.is_loopback() => Some("of this machine"),
        [0xff, ..] => Some("multicast"),
        [0xfe, second, ..] if second & 0xc0 == 0x80 => Some("link-local"),
        [0xfe, second, ..] if second & 0xc0 == 0xc0 => Some("site-local"),
        [first, ..] if first & 0xfe == 0xfc => Some("private"),
        _ => Some("reserved"),
    }
}

fn is_within(address: Ipv6Addr, network: Ipv6Addr, prefix: u8) -> bool {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
    u128::from(address) & mask == u128::from(network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(address: &str) -> Option<&'static str> {
        refusal(address.parse().unwrap())
    }

    // Shows (Webhooks).
    #[test]
    fn the_ends_of_each_range_are_refused_and_their_neighbours_are_not() {
        for (first, last, before, after) in [
            ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
            ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
            ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
            ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
            ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
            ("192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"),
            ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
            ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
            ("0.0.0.0", "0.255.255.255", "1.0.0.0", "1.0.0.1"),
            ("224.0.0.0", "255.255.255.255", "223.255.255.255", "223.255.255.254"),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db7::", "2001:db9::"),
            ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::", "2003::1"),
            ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::", "2001:200::1"),
            ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3ffe::", "3fff:1000::"),
        ] {
            assert!(of(first).is_some() && of(last).is_some(), "{first} {last}");
            assert_eq!((of(before), of(after)), (None, None), "{before} {after}");
        }
    }

    proptest! {
        // Shows (Webhooks).
        #[test]
        fn an_address_of_ipv4_within_one_of_ipv6_is_as_public_as_itself(bits: u32) {
            let [a, b, c, d] = bits.to_be_bytes();
            let alone = refusal(Ipv4Addr::from(bits).into());
            prop_assert_eq!(refusal(Ipv4Addr::from(bits).to_ipv6_mapped().into()), alone);
            let nat64 = Ipv6Addr::from([0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]);
            prop_assert_eq!(refusal(nat64.into()), alone);
            let compatible = Ipv6Addr::from(u128::from(bits));
            prop_assert!(refusal(compatible.into()).is_some());
        }

        #[test]
        fn outside_2000_3_only_ipv6_addresses_that_contain_a_public_ipv4_one_are_public(bits: u128) {
            let address = Ipv6Addr::from(bits);
            if bits >> 125 != 1 && address.to_ipv4_mapped().is_none() && bits >> 32 != u128::from(NAT64) >> 32 {
                prop_assert!(refusal(address.into()).is_some());
            }
        }
    }
}
