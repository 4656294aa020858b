//! Accounts and the token: their balances at each of the last blocks.

use super::network::{Address, DEVELOPERS, MULTICALL, Network};
use crate::ledger::History;
use crate::seed::Seed;
use std::collections::HashMap;

/// The number of blocks whose state a pruned node keeps.
pub(crate) const KEPT: u64 = 128;
/// Accounts that make the chain's own traffic.
const RESIDENTS: u64 = 64;
/// The number of blocks after which a resident sends again.
const TURN: u64 = 16;
const ETHER: u128 = 1_000_000_000_000_000_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// The nonce of its next transaction.
    pub(crate) nonce: u64,
    /// In wei.
    pub(crate) balance: u128,
    /// In the token's smallest unit.
    pub(crate) tokens: u128,
}

#[derive(Debug)]
pub(crate) struct Accounts {
    residents: Vec<Address>,
    unit: u128,
    token: Address,
    /// Contracts that only write logs.
    collections: [Address; 2],
    changed: History<Address, Account>,
    allowances: HashMap<(Address, Address), u128>,
    codes: HashMap<Address, (u64, Vec<u8>)>,
}

impl Accounts {
    /// Creates the state before any transaction of a client.
    pub(crate) fn new(network: &Network, seed: Seed) -> Self {
        Accounts {
            residents: (0..RESIDENTS).map(|n| seed.bytes("resident", n)).collect(),
            unit: 10u128.pow(u32::from(network.token_decimals)),
            token: network.token,
            collections: [seed.bytes("collection", 0), seed.bytes("collection", 1)],
            changed: History::default(),
            allowances: HashMap::new(),
            codes: HashMap::new(),
        }
    }

    /// Returns the resident that sends transaction `index` (below 4) of block `height`, and its nonce.
    pub(crate) fn resident_turn(&self, height: u64, index: u64) -> (Address, u64) {
        (self.resident(height % TURN * 4 + index), height / TURN)
    }

    pub(crate) fn resident(&self, n: u64) -> Address {
        self.residents[(n % RESIDENTS) as usize]
    }

    /// Returns an account after block `height`.
    pub(crate) fn account(&self, address: &Address, height: u64) -> Account {
        let mut account = self.changed.at(address, height).copied().unwrap_or_else(|| self.origin(address));
        if let Some(place) = self.residents.iter().position(|resident| resident == address) {
            let turn = place as u64 / 4;
            account.nonce = (height + TURN - turn) / TURN;
        }
        account
    }

    fn origin(&self, address: &Address) -> Account {
        if DEVELOPERS.contains(address) {
            Account { nonce: 0, balance: 10_000 * ETHER, tokens: 1_000_000 * self.unit }
        } else if self.residents.contains(address) {
            Account { nonce: 0, balance: 1_000 * ETHER, tokens: 5_000_000 * self.unit }
        } else if [self.token, MULTICALL].contains(address) || self.collections.contains(address) {
            Account { nonce: 1, ..Account::default() }
        } else {
            Account::default()
        }
    }

    /// Returns the two contracts whose tokens have ids, one ERC-721 and one ERC-1155. Their transfers are only in logs.
    pub(crate) fn collections(&self) -> [Address; 2] {
        self.collections
    }

    pub(crate) fn supply(&self) -> u128 {
        (DEVELOPERS.len() as u128 * 1_000_000 + u128::from(RESIDENTS) * 5_000_000) * self.unit
    }

    /// Changes an account as of block `height`, and forgets state that a pruned node would not have.
    pub(crate) fn change(&mut self, address: &Address, height: u64, by: impl FnOnce(&mut Account)) {
        let mut account = self.account(address, height);
        by(&mut account);
        self.changed.set(*address, height, account).forget_before(height.saturating_sub(KEPT));
    }

    /// Returns the amount of an owner's tokens that a spender may move.
    pub(crate) fn allowance(&self, owner: Address, spender: Address) -> u128 {
        self.allowances.get(&(owner, spender)).copied().unwrap_or(0)
    }

    /// Sets an allowance.
    pub(crate) fn allow(&mut self, owner: Address, spender: Address, amount: u128) {
        self.allowances.insert((owner, spender), amount);
    }

    /// Puts code at an address. Contracts do not run here, so the code is the creation code.
    pub(crate) fn deploy(&mut self, address: Address, height: u64, code: &[u8]) {
        self.codes.insert(address, (height, code.to_vec()));
    }

    /// Returns the code at an address after block `height`; empty without code.
    pub(crate) fn code(&self, address: &Address, height: u64) -> Vec<u8> {
        if [self.token, MULTICALL].contains(address) || self.collections.contains(address) {
            // The dispatcher that Solidity puts before a contract: enough for clients that check whether code exists.
            return hex::decode(TOKEN_CODE).unwrap_or_default();
        }
        match self.codes.get(address) {
            Some((since, code)) if *since <= height => code.clone(),
            _ => Vec::new(),
        }
    }
}

const TOKEN_CODE: &str = "60806040526004361061004a5760003560e01c806306fdde031461004f57600080fd5b600080fd";
