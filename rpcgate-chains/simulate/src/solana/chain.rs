//! The chain: its slots, accounts and transfers.

use crate::barter::{Barter, Turn};
use crate::seed::Seed;
use crate::timeline::Timeline;
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

#[derive(Debug)]
pub(super) struct Chain {
    pub(super) seed: Seed,
    timeline: Timeline,
    /// The newest slot.
    pub(super) head: u64,
    barter: Barter,
}

impl Chain {
    pub(super) fn new(seed: u64) -> Self {
        let seed = Seed::of("solana", seed);
        Chain {
            seed,
            timeline: Timeline::paced(seed, BASE, SLOT_MS, JITTER_MS),
            head: 0,
            barter: Barter::new(seed, 16, 2, FIRST, 900_000_000),
        }
    }

    pub(super) fn advance(&mut self, now: Time) {
        self.head = self.slot_at(now);
    }

    /// Returns the newest slot at `now`.
    pub(super) fn slot_at(&self, now: Time) -> u64 {
        // A clock before the first traffic shows its slot, so that every slot has a root.
        self.timeline.height(now).max(self.head).max(FIRST + FINALIZED)
    }

    pub(super) fn time(&self, slot: u64) -> Time {
        self.timeline.time(slot)
    }

    pub(super) fn hash(&self, slot: u64) -> String {
        base58(&self.seed.hide("block", slot))
    }

    /// Returns the number of blocks up to a slot.
    pub(super) fn block_height(slot: u64) -> u64 {
        slot - SKIPPED
    }

    pub(super) fn turns(&self, slot: u64) -> impl Iterator<Item = Turn> {
        self.barter.of_block(slot)
    }

    pub(super) fn transactions(&self, slot: u64) -> u64 {
        self.barter.passed(slot)
    }

    pub(super) fn residents(&self) -> u64 {
        self.barter.residents()
    }

    pub(super) fn resident(&self, n: u64) -> Key {
        self.seed.bytes("resident", n)
    }

    /// Returns the lamports of an account as of a slot; 0 if it does not exist.
    pub(super) fn lamports(&self, key: &Key, slot: u64) -> u64 {
        let Some(n) = (0..self.residents()).find(|n| self.resident(*n) == *key) else { return 0 };
        let standing = self.barter.standing(n, self.barter.passed(slot));
        // Residents sometimes earn back their fees.
        let paid = standing.sent * FEE % (RESIDENT_BALANCE / 4);
        (RESIDENT_BALANCE - paid).saturating_add_signed(standing.gain)
    }

    /// Returns a resident's tokens at a slot. Each resident starts with `start`, and only transfers change the amount.
    pub(super) fn tokens(&self, start: u64, n: u64, slot: u64) -> u64 {
        start.saturating_add_signed(self.barter.standing(n, self.barter.passed(slot)).gain)
    }

    pub(super) fn signature(&self, turn: Turn) -> TransactionSignature {
        let mut out = [0; 64];
        out[..32].copy_from_slice(&self.seed.hide("transaction", turn.number));
        out[32..].copy_from_slice(&self.seed.bytes::<32>("signature", turn.number));
        out
    }

    /// Returns the slot of a transfer, by its signature, if its status is still known.
    pub(super) fn slot_of(&self, signature: &TransactionSignature) -> Option<u64> {
        let (first, _) = signature.split_first_chunk::<32>()?;
        let (slot, _) = self.barter.place(self.seed.reveal("transaction", first)?);
        (slot + STATUSES > self.head && slot <= self.head).then_some(slot)
    }
}

pub(super) fn base58(bytes: &[u8]) -> String {
    bs58::encode(bytes).into_string()
}

/// Reads exactly `N` bytes in base58.
pub(super) fn from_base58<const N: usize>(text: &str) -> Option<[u8; N]> {
    bs58::decode(text).into_vec().ok()?.try_into().ok()
}
