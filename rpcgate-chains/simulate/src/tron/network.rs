//! Constants of the network that no transaction changes here.

/// Returns the chain parameters by their names in `getchainparameters`; a value of 0 is not shown.
pub(super) fn parameters() -> impl Iterator<Item = (&'static str, i64)> {
    let rows = include_str!("parameters.txt").lines().filter_map(|line| line.split_once(' '));
    rows.filter_map(|(name, value)| Some((name, value.parse().ok()?)))
}

/// Accounts of the first block: the address, the name, and the balance in sun. The last one receives burnt coins; its
/// balance started at the lowest possible value.
pub(super) const FOUNDATION: &[(&str, &str, i64)] = &[
    ("TLLM21wteSPs4hKjbxgmH1L6poyMjeTbHm", "Zion", 99_000_000_000_000_000),
    ("TXmVpin5vq5gdZsciyyjdZgKRUju4st1wM", "Sun", 0),
    ("TLsV52sRDL79HXGGm9yzwKibb6BeruhUzy", "Blackhole", i64::MIN),
];

/// The history of energy prices: Unix milliseconds and sun.
pub(super) const ENERGY_PRICES: &str = "0:100,1542607200000:20,1544724000000:10,1606240800000:40,1613044800000:140,\
    1635422400000:280,1669219200000:420,1726747200000:210,1756454400000:100";

/// The history of prices for a byte of bandwidth.
pub(super) const BANDWIDTH_PRICES: &str = "0:10,1606537500000:40,1614238080000:140,1626581880000:1000";

/// The operations that the active permission of an account allows.
pub(super) const OPERATIONS: &str = "7fff1fc0033ec30f000000000000000000000000000000000000000000000000";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_file_is_a_parameter() {
        assert_eq!(parameters().count(), include_str!("parameters.txt").lines().count());
        assert_eq!(parameters().next(), Some(("getMaintenanceTimeInterval", 21_600_000)));
    }
}
