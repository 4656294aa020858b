//! The network configuration: some of its parameters, as a dictionary of cells.

use super::cell::{Builder, Cell, dictionary};
use std::sync::Arc;

/// Masterchain contracts that the configuration names: addresses of one repeated byte.
const CONTRACTS: [(u64, u8); 3] = [(0, 0x55), (1, 0x33), (2, 0x34)];

/// Returns all simulated parameters by number: 0 to 2 the contracts of configuration, elections and minting, 8 the
/// version, 9 and 10 the mandatory parameters, 15 to 17 the election of validators.
fn parameters() -> Vec<(u64, Arc<Cell>)> {
    let mut out: Vec<_> = CONTRACTS
        .iter()
        .map(|(number, byte)| (*number, Builder::default().bytes(&[*byte; 32]).done()))
        .collect();
    out.push((8, Builder::default().number(0xc4, 8).number(11, 32).number(1_006, 64).done()));
    let none = Builder::default().done();
    let required = [0, 1, 8, 15, 16, 17].map(|number| (number, none.clone()));
    for number in [9, 10] {
        let keys = dictionary(&required.clone().map(|(key, _)| (key, none.clone())), 32);
        out.push((number, keys.into_iter().fold(Builder::default(), Builder::reference).done()));
    }
    let times = Builder::default().number(65_536, 32).number(32_768, 32).number(8_192, 32).number(32_768, 32);
    out.push((15, times.done()));
    out.push((16, Builder::default().number(400, 16).number(100, 16).number(75, 16).done()));
    let stakes = Builder::default().coins(300_000_000_000_000).coins(10_000_000_000_000_000);
    out.push((17, stakes.coins(75_000_000_000_000_000).number(196_608, 32).done()));
    out
}

pub(super) fn all() -> Arc<Cell> {
    dictionary(&parameters(), 32).unwrap_or_default()
}

pub(super) fn one(number: i64) -> Option<Arc<Cell>> {
    parameters().into_iter().find(|(key, _)| key.cast_signed() == number).map(|(_, cell)| cell)
}
