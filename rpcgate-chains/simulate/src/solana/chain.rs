//! The chain: its slots, accounts and transfers.

use crate::hash::base58;
use crate::ledger::{BlockRules, Ledger, LedgerState, Payment, ResidentTraffic};
use crate::seed::Seed;
use rpcgate_core::clock::Time;

/// The slot at the epoch of the simulated chains.
const BASE: u64 = 390_000_000;
/// The first slot with traffic; older ones are not kept.
pub(super) const FIRST: u64 = BASE - 5_000_000;
/// The time between slots, and by how much one may be late.
const SLOT_MS: u64 = 400;
const JITTER_MS: u64 = 100;
/// Slots that had no block before the epoch.
const SKIPPED: u64 = 21_850_000;
pub(super) const EPOCH_SLOTS: u64 = 432_000;
/// The number of slots by which the newest confirmed and finalized slots are behind the newest processed one.
const CONFIRMED: u64 = 1;
const FINALIZED: u64 = 31;
const RESIDENT_BALANCE: u64 = 500_000_000_000;
/// The fee of a signature, in lamports.
pub(super) const FEE: u64 = 5_000;
/// The signatures of this many slots are known by their status alone.
const STATUSES: u64 = 300;

pub(super) type Key = [u8; 32];
pub(super) type TransactionSignature = [u8; 64];

/// The program that owns plain accounts.
pub(super) const SYSTEM: Key = [0; 32];

/// The commitment that a request requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commitment {
    Processed,
    Confirmed,
    Finalized,
}

impl Commitment {
    /// Returns the number of slots by which it is behind the newest.
    pub(super) fn lag(self) -> u64 {
        match self {
            Commitment::Processed => 0,
            Commitment::Confirmed => CONFIRMED,
            Commitment::Finalized => FINALIZED,
        }
    }
}

pub(super) type Chain = Ledger<ResidentTraffic>;

impl LedgerState for ResidentTraffic {
    type Entry = ();

    fn resubmit(_: &mut Chain, _: &[u8], _: Time) {}
}

impl Chain {
    pub(super) fn of_seed(seed: u64) -> Self {
        let seed = Seed::of("solana", seed);
        // A clock before the first traffic shows a slot that has a root.
        let first = FIRST + FINALIZED;
        let rules = BlockRules { base: BASE, slot_ms: SLOT_MS, jitter_ms: JITTER_MS, first, kept: u64::MAX };
        Ledger::new(seed, rules, ResidentTraffic::new(seed, 16, 2, FIRST, 900_000_000))
    }

    pub(super) fn hash(&self, slot: u64) -> String {
        base58(&self.block_hash(slot))
    }

    /// Returns the number of blocks up to a slot.
    pub(super) fn block_height(slot: u64) -> u64 {
        slot - SKIPPED
    }

    pub(super) fn payments(&self, slot: u64) -> impl Iterator<Item = Payment> {
        self.state.of_block(slot)
    }

    pub(super) fn transactions(&self, slot: u64) -> u64 {
        self.state.count_at(slot)
    }

    pub(super) fn residents(&self) -> u64 {
        self.state.residents()
    }

    pub(super) fn resident(&self, n: u64) -> Key {
        self.seed.bytes("resident", n)
    }

    /// Returns the lamports of an account as of a slot; 0 if it does not exist.
    pub(super) fn lamports(&self, key: &Key, slot: u64) -> u64 {
        let Some(n) = (0..self.residents()).find(|n| self.resident(*n) == *key) else { return 0 };
        let balance = self.state.balance(n, self.state.count_at(slot));
        // Residents sometimes earn back their fees.
        let paid = balance.sent * FEE % (RESIDENT_BALANCE / 4);
        (RESIDENT_BALANCE - paid).saturating_add_signed(balance.gain)
    }

    /// Returns a resident's tokens at a slot. Each resident starts with `start`, and only transfers change the amount.
    pub(super) fn tokens(&self, start: u64, n: u64, slot: u64) -> u64 {
        start.saturating_add_signed(self.state.balance(n, self.state.count_at(slot)).gain)
    }

    pub(super) fn signature(&self, payment: Payment) -> TransactionSignature {
        let mut out = [0; 64];
        out[..32].copy_from_slice(&self.seed.hide("transaction", payment.number));
        out[32..].copy_from_slice(&self.seed.bytes::<32>("signature", payment.number));
        out
    }

    /// Returns the slot of a transfer, by its signature, if its status is still known.
    pub(super) fn slot_of(&self, signature: &TransactionSignature) -> Option<u64> {
        let (first, _) = signature.split_first_chunk::<32>()?;
        let (slot, _) = self.state.position(self.seed.reveal("transaction", first)?);
        (slot + STATUSES > self.head && slot <= self.head).then_some(slot)
    }
}
