//! The chain: blocks, accounts and submitted transactions.

use super::address::{Address, from_base58, long, short};
use super::network::FOUNDATION;
use super::token::{self, TOKEN};
use super::tx::{Body, Contract, Tx, address_of};
use crate::hash::sha256;
use crate::ledger::{BlockRules, Ledger, LedgerState};
use crate::seed::Seed;
use k256::ecdsa::SigningKey;
use rpcgate_core::clock::Time;
use std::collections::HashMap;

/// The id of the first block of the main network.
const GENESIS: [u8; 32] = [
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1e, 0xbf, 0x88, 0x50, 0x8a, 0x03, 0x86, 0x5c, 0x71,
    0xd4, 0x52, 0xe2, 0x5f, 0x4d, 0x51, 0x19, 0x41, 0x96, 0xa1, 0xd2, 0x2b, 0x66, 0x53, 0xdc,
];

/// The height at the epoch.
const BASE: u64 = 78_800_000;
/// The time between blocks: exactly three seconds.
const SLOT_MS: u64 = 3_000;
/// The number of block producers, which take turns.
pub(super) const WITNESSES: u64 = 27;
/// The number of blocks by which the newest solid block lies behind.
pub(super) const SOLID_DEPTH: u64 = 19;
/// The number of accounts that make the chain's own traffic.
const RESIDENTS: u64 = 48;
/// The length of a cycle: the second half takes back the traffic of the first half in reverse order. Balances move, and
/// are known at any height without a walk from the first block.
const CYCLE: u64 = 64;
pub(super) const TRX: i64 = 1_000_000;
/// The free bandwidth of every account in a day, in bytes.
pub(super) const FREE_NET: i64 = 600;
/// The time in which bandwidth recovers, in milliseconds.
const DAY_MS: u64 = 86_400_000;

/// The result of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Revert,
    OutOfEnergy,
}

/// The cost and effect of a transaction.
#[derive(Debug, Clone)]
pub(crate) struct Receipt {
    pub(super) outcome: Outcome,
    /// The total of burnt sun.
    pub(super) fee: i64,
    pub(super) net_usage: i64,
    pub(super) net_fee: i64,
    /// The energy used; 0 if no contract ran.
    pub(super) energy: i64,
    /// Sun burnt for energy; 0 if staked coins paid for it.
    pub(super) energy_fee: i64,
    /// Tokens that moved: sender, receiver, amount.
    pub(super) moved: Option<(Address, Address, i64)>,
}

/// A transaction in a block, with its result.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(super) tx: Tx,
    pub(super) receipt: Receipt,
}

/// The changes of an account by clients' transactions.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Change {
    pub(super) sun: i64,
    pub(super) tokens: i64,
    pub(super) created: Option<u64>,
    pub(super) last: u64,
    pub(super) net: i64,
}

/// The state of an account at some moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    pub(super) balance: i64,
    /// Unix time in milliseconds.
    pub(super) created: u64,
    /// The time at which it last sent something, in milliseconds; 0 for never.
    pub(super) last: u64,
    /// The free bandwidth used, in bytes, at that time.
    pub(super) net: i64,
    pub(super) witness: bool,
}

#[derive(Debug)]
pub(crate) struct Accounts {
    developers: Vec<Address>,
    residents: Vec<Address>,
    /// Accounts of the first block: name and balance.
    foundation: Vec<(Address, &'static str, i64)>,
    pub(super) witnesses: Vec<Address>,
    pub(super) changes: HashMap<Address, Change>,
}

pub(super) type Chain = Ledger<Accounts>;

impl LedgerState for Accounts {
    type Entry = Entry;

    fn resubmit(chain: &mut Chain, raw: &[u8], moment: Time) {
        if let Ok(tx) = Tx::read(raw) {
            let _ = chain.submit(tx, moment);
        }
    }
}

/// Returns the address of the secret key that is the number `n`.
fn developer(n: u8) -> Option<Address> {
    let mut secret = [0; 32];
    secret[31] = n;
    Some(address_of(SigningKey::from_slice(&secret).ok()?.verifying_key()))
}

impl Chain {
    pub(super) fn of_seed(seed: u64) -> Self {
        let seed = Seed::of("tron", seed);
        let accounts = Accounts {
            developers: (1..=10).filter_map(developer).collect(),
            residents: (0..RESIDENTS).map(|n| seed.bytes("resident", n)).collect(),
            foundation: FOUNDATION
                .iter()
                .filter_map(|(address, name, sun)| Some((short(&from_base58(address)?)?, *name, *sun)))
                .collect(),
            witnesses: (0..WITNESSES).map(|n| seed.bytes("witness", n)).collect(),
            changes: HashMap::new(),
        };
        let rules = BlockRules { slot_ms: SLOT_MS, jitter_ms: 1, ..BlockRules::of(BASE) };
        Ledger::new(seed, rules, accounts)
    }

    pub(super) fn solid(&self) -> u64 {
        self.head.saturating_sub(SOLID_DEPTH)
    }

    /// Returns the id of block `height`: its height and bytes that look like the tail of a hash. The id does not cover
    /// the block, so that the chain need not be computed from its first block. Clients identify the network by the id
    /// of block 0.
    pub(super) fn id(&self, height: u64) -> [u8; 32] {
        if height == 0 {
            return GENESIS;
        }
        let mut id = [0; 32];
        id[..8].copy_from_slice(&height.to_be_bytes());
        id[8..].copy_from_slice(&self.seed.bytes::<24>("block", height));
        id
    }

    /// Returns the producer of block `height`: producers take turns by the clock.
    pub(super) fn witness(&self, height: u64) -> Address {
        self.state.witnesses[(self.millis(height) / SLOT_MS % WITNESSES) as usize]
    }

    /// Returns the producer's signature of block `height`.
    pub(super) fn signature(&self, height: u64) -> Vec<u8> {
        signature(self.seed, "sealed", height)
    }

    /// Returns the block to which a transaction created now refers.
    pub(super) fn reference(&self, height: u64) -> (Vec<u8>, Vec<u8>) {
        (height.to_be_bytes()[6..].to_vec(), self.id(height)[8..16].to_vec())
    }

    /// Reports whether a transaction refers to one of the last 65,536 blocks of this chain.
    pub(super) fn knows(&self, body: &Body) -> bool {
        let Ok(low) = <[u8; 2]>::try_from(body.ref_bytes.as_slice()) else {
            return false;
        };
        let low = u64::from(u16::from_be_bytes(low));
        let back = (self.head & 0xffff).wrapping_sub(low) & 0xffff;
        self.head.checked_sub(back).is_some_and(|height| self.reference(height).1 == body.ref_hash)
    }

    /// Returns the number of the chain's own transactions in block `height`.
    fn traffic(&self, height: u64) -> u64 {
        let first = mirrored(height);
        if first == 0 { 0 } else { self.seed.below("traffic", first, 6) }
    }

    /// Returns the payer, payee and amount in millionths of a transaction of the chain's traffic, and whether it pays
    /// tokens.
    fn payment(&self, height: u64, index: u64) -> (Address, Address, i64, bool) {
        let first = mirrored(height);
        let id = first << 8 | index;
        let from = self.seed.below("from", id, RESIDENTS);
        let to = (from + 1 + self.seed.below("to", id, RESIDENTS - 1)) % RESIDENTS;
        let amount = 1 + self.seed.below("amount", id, 2_000_000_000).cast_signed();
        let (from, to) = if first == height { (from, to) } else { (to, from) };
        (self.state.residents[from as usize], self.state.residents[to as usize], amount, index % 2 == 1)
    }

    fn resident_entry(&self, height: u64, index: u64) -> Entry {
        let id = height << 8 | index;
        let (from, to, amount, is_token) = self.payment(height, index);
        let (ref_bytes, ref_hash) = self.reference(height.saturating_sub(SOLID_DEPTH + 2));
        let made = self.millis(height).saturating_sub(SLOT_MS + self.seed.below("made", id, 2_000));
        let contract = if is_token {
            let data = token::transfer(&to, amount);
            Contract::Trigger { owner: long(&from), contract: long(&TOKEN), value: 0, data }
        } else {
            Contract::Transfer { owner: long(&from), to: long(&to), amount }
        };
        let mut tx = Tx::new(Body {
            ref_bytes,
            ref_hash,
            expiration: made.cast_signed() + 60_000,
            timestamp: made.cast_signed(),
            fee_limit: if is_token { 30 * TRX } else { 0 },
            data: Vec::new(),
            contracts: vec![contract],
        });
        tx.id = self.seed.hide("transaction", id);
        tx.signatures.push(signature(self.seed, "signed", id));
        let receipt = Receipt {
            outcome: Outcome::Success,
            fee: 0,
            net_usage: net(&tx),
            net_fee: 0,
            energy: if is_token { token::SEND_ENERGY } else { 0 },
            energy_fee: 0,
            moved: is_token.then_some((from, to, amount)),
        };
        Entry { tx, receipt }
    }

    pub(super) fn entries(&self, height: u64) -> Vec<Entry> {
        let own = (0..self.traffic(height)).map(|index| self.resident_entry(height, index));
        own.chain(self.included(height).iter().cloned()).collect()
    }

    pub(super) fn count(&self, height: u64) -> usize {
        self.traffic(height) as usize + self.included(height).len()
    }

    /// Returns a transaction in a block, and the block's height.
    pub(super) fn transaction(&self, id: &[u8; 32]) -> Option<(u64, Entry)> {
        if let Some((height, entry)) = self.find(id) {
            return (height <= self.head).then(|| (height, entry.clone()));
        }
        let place = self.seed.reveal("transaction", id)?;
        let height = place >> 8;
        let index = place & 0xff;
        let is_there = height <= self.head && index < self.traffic(height);
        is_there.then(|| (height, self.resident_entry(height, index)))
    }

    /// Returns a client's transaction that is not in a block yet.
    pub(super) fn waiting(&self, id: &[u8; 32]) -> Option<&Tx> {
        let (height, entry) = self.find(id)?;
        (height > self.head).then_some(&entry.tx)
    }

    /// Returns the number of clients' transactions that are not in a block yet.
    pub(super) fn waiting_count(&self) -> usize {
        self.included_in(self.head + 1..).map(|(_, entries)| entries.len()).sum()
    }

    /// Returns an account after all sent transactions; `None` if it never received coins.
    pub(super) fn account(&self, address: &Address) -> Option<Account> {
        let change = self.state.changes.get(address).copied().unwrap_or_default();
        let witness = self.state.witnesses.contains(address);
        let origin = if self.state.developers.contains(address) {
            10_000 * TRX
        } else if self.state.residents.contains(address) {
            1_000_000 * TRX + self.swing(address).0
        } else if witness {
            50_000 * TRX
        } else if let Some((_, _, sun)) = self.state.foundation.iter().find(|(known, ..)| known == address) {
            *sun
        } else if *address == TOKEN || change.created.is_some() {
            0
        } else {
            return None;
        };
        // Accounts that exist from the start were created at some time in the years before.
        let older = 1_600_000_000_000 + u64::from(address[0]) * 86_400_000 * 3;
        Some(Account {
            balance: origin.saturating_add(change.sun),
            created: change.created.unwrap_or(older),
            last: change.last,
            net: change.net,
            witness,
        })
    }

    /// Returns the name of a genesis account.
    pub(super) fn name(&self, address: &Address) -> Option<&'static str> {
        self.state.foundation.iter().find(|(known, ..)| known == address).map(|(_, name, _)| *name)
    }

    /// Returns the tokens of an address, in millionths.
    pub(super) fn tokens(&self, address: &Address) -> i64 {
        let change = self.state.changes.get(address).map_or(0, |change| change.tokens);
        let origin = if self.state.developers.contains(address) {
            10_000 * TRX
        } else if self.state.residents.contains(address) {
            1_000_000 * TRX + self.swing(address).1
        } else {
            0
        };
        origin.saturating_add(change)
    }

    /// Returns the change of a resident's balance within the running cycle, in sun and tokens.
    fn swing(&self, address: &Address) -> (i64, i64) {
        let start = self.head - self.head % CYCLE;
        let place = self.head % CYCLE;
        let open = if place < CYCLE / 2 { place + 1 } else { CYCLE - 1 - place };
        let mut sun = 0;
        let mut tokens = 0;
        for height in start..start + open {
            for index in 0..self.traffic(height) {
                let (from, to, amount, is_token) = self.payment(height, index);
                let sum = if is_token { &mut tokens } else { &mut sun };
                *sum += if from == *address { -amount } else { 0 } + if to == *address { amount } else { 0 };
            }
        }
        (sun, tokens)
    }

    /// Returns the free bandwidth that an account has used at `moment`, in milliseconds: it recovers evenly over a day.
    pub(super) fn net_used(&self, account: &Account, moment: u64) -> i64 {
        let left = DAY_MS.saturating_sub(moment.saturating_sub(account.last));
        account.net * left.cast_signed() / DAY_MS.cast_signed()
    }
}

/// Returns the block in the first half of the cycle whose traffic block `height` repeats or reverses.
fn mirrored(height: u64) -> u64 {
    let place = height % CYCLE;
    if place < CYCLE / 2 { height } else { height - place + (CYCLE - 1 - place) }
}

/// Returns the bandwidth of a transaction: its bytes, and 64 for its result.
pub(super) fn net(tx: &Tx) -> i64 {
    tx.write(None).len() as i64 + 64
}

fn signature(seed: Seed, tag: &str, n: u64) -> Vec<u8> {
    let mut out = sha256(&seed.bytes::<32>(tag, n)).to_vec();
    out.extend_from_slice(&seed.bytes::<32>("s", n));
    out[32] &= 0x3f;
    out.push((n % 2) as u8);
    out
}
