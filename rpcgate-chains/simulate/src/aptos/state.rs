//! Accounts and their coins.

use super::address::{Address, FRAMEWORK};
use super::tx::{Tx, sha3};
use crate::ledger::{GroupPayment, GroupTraffic, Mempool};
use crate::seed::Seed;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The cost of a resident's transfer: gas units, and octas per unit.
pub(crate) const RESIDENT_GAS: (u64, u64) = (9, 100);
/// The number of paying pairs in a group, by the group's number modulo 4.
const PAIRS: [u64; 4] = [1, 2, 0, 1];
const APT: u64 = 100_000_000;
/// Public keys of the developers, whose secret keys are 32 bytes 1, 32 bytes 2 and so on.
const DEVELOPERS: [&str; 5] = [
    "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c",
    "8139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b394",
    "ed4928c628d1c2c6eae90338905995612959273a5c63f93636c14614ac8737d1",
    "ca93ac1705187071d67b83c7ff0efe8108e8ec4530575d7726879333dbdabe7c",
    "6e7a1cdd29b0b78fd13af4c5598feff4ef2a97166e3ca6f2e4fbfccd80505bf1",
];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// The sequence number of its next transaction.
    pub(crate) sequence: u64,
    /// In octas, 10^-8 APT.
    pub(crate) balance: u64,
}

/// One transfer of the chain's own traffic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) key: [u8; 32],
    pub(crate) sequence: u64,
    pub(crate) amount: u64,
}

#[derive(Debug)]
pub(crate) struct State {
    seed: Seed,
    base: u64,
    pub(crate) traffic: GroupTraffic,
    /// The accounts that make the chain's own traffic, with their keys.
    residents: Vec<(Address, [u8; 32])>,
    /// Octas that clients sent to residents.
    gifts: BTreeMap<Address, u64>,
    accounts: BTreeMap<Address, Account>,
    pub(crate) waiting: Mempool<Arc<Tx>>,
    /// Transactions that arrived before those that they have to follow.
    pub(crate) parked: BTreeMap<(Address, u64), Arc<Tx>>,
    /// Heights of the clients' transactions, ascending: a binary search gives the number before a block.
    pub(crate) heights: Vec<u64>,
}

/// Returns the address of an Ed25519 key: the hash of the key and its scheme.
fn of_key(key: &[u8]) -> Address {
    sha3(&[key, &[0]].concat())
}

impl State {
    /// Creates the state before any transaction of a client, for a chain that starts at height `base`.
    pub(crate) fn new(seed: Seed, base: u64) -> Self {
        let residents = (0..GroupTraffic::RESIDENTS).map(|n| {
            let key: [u8; 32] = seed.bytes("key", n);
            (of_key(&key), key)
        });
        let developers = DEVELOPERS.iter().filter_map(|key| hex::decode(key).ok());
        let developers = developers.map(|key| (of_key(&key), Account { sequence: 0, balance: 1_000 * APT }));
        let system = (FRAMEWORK, Account::default());
        State {
            seed,
            base,
            traffic: GroupTraffic::new(seed, 20 * APT, |group| PAIRS[(group % 4) as usize]),
            residents: residents.collect(),
            gifts: BTreeMap::new(),
            accounts: developers.chain([system]).collect(),
            waiting: Mempool::default(),
            parked: BTreeMap::new(),
            heights: Vec::new(),
        }
    }

    /// Returns the chain's own transfers in block `height`.
    pub(crate) fn transfers(&self, height: u64) -> Vec<Transfer> {
        let transfer = |payment: GroupPayment| {
            let (from, key) = *self.residents.get(payment.payer as usize)?;
            let (to, _) = *self.residents.get(payment.payee as usize)?;
            Some(Transfer { from, to, key, sequence: payment.sequence, amount: payment.amount })
        };
        self.traffic.of_block(height).filter_map(transfer).collect()
    }

    fn number(&self, address: &Address) -> Option<u64> {
        self.residents.iter().position(|(known, _)| known == address).map(|n| n as u64)
    }

    /// Returns the block in which a resident sent the transaction with this sequence number.
    pub(crate) fn transfer_of(&self, address: &Address, sequence: u64) -> Option<u64> {
        self.traffic.block_of(self.number(address)?, sequence)
    }

    /// Returns an account after block `height`; `None` for an address that never received coins.
    pub(crate) fn account(&self, address: &Address, height: u64) -> Option<Account> {
        let Some(n) = self.number(address) else {
            return self.accounts.get(address).copied();
        };
        let sequence = self.traffic.sent(n, height);
        let before = self.traffic.sent(n, self.base);
        let fee = RESIDENT_GAS.0 * RESIDENT_GAS.1;
        let mut balance = 20_000 * APT + self.seed.below("wealth", n, 400_000 * APT);
        balance = balance.saturating_sub(fee * sequence.saturating_sub(before));
        balance += fee * before.saturating_sub(sequence);
        balance = balance.saturating_add_signed(self.traffic.gain(n, height));
        balance += self.gifts.get(address).copied().unwrap_or(0);
        Some(Account { sequence, balance })
    }

    /// Returns the account of a client that sends; residents send only the chain's own traffic.
    pub(crate) fn sender(&mut self, address: &Address) -> Option<&mut Account> {
        self.accounts.get_mut(address)
    }

    /// Pays octas to an address and creates the account if it does not exist.
    pub(crate) fn pay(&mut self, to: Address, amount: u64) {
        let purse = if self.number(&to).is_some() {
            self.gifts.entry(to).or_default()
        } else {
            &mut self.accounts.entry(to).or_default().balance
        };
        *purse = purse.saturating_add(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residents_pay_what_their_turns_say() {
        let state = State::new(Seed::of("aptos", 3), 1_000_000);
        for height in 1_000_000..1_000_100 {
            for (address, _) in &state.residents {
                let mut before = state.account(address, height - 1).unwrap();
                let after = state.account(address, height).unwrap();
                for transfer in state.transfers(height) {
                    if transfer.from == *address {
                        assert_eq!(transfer.sequence, before.sequence);
                        assert_eq!(state.transfer_of(address, transfer.sequence), Some(height));
                        before.balance -= transfer.amount + RESIDENT_GAS.0 * RESIDENT_GAS.1;
                        before.sequence += 1;
                    }
                    if transfer.to == *address {
                        before.balance += transfer.amount;
                    }
                }
                assert_eq!(before, after, "{height}");
            }
        }
    }

    #[test]
    fn transfers_are_counted_without_looking_at_each() {
        let state = State::new(Seed::of("aptos", 3), 1_000);
        for height in 900..1_100 {
            assert_eq!(
                state.traffic.count_below(height + 1) - state.traffic.count_below(height),
                state.transfers(height).len() as u64
            );
        }
    }
}
