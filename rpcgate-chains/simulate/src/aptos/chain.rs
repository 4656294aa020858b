//! The chain: the transactions of each block, and their outcomes.

use super::address::Address;
use super::fault::Fault;
use super::state::{RESIDENT_GAS, State, Transfer};
use super::tx::{CHAIN, Tx};
use crate::ledger::{BlockRules, Ledger, LedgerState};
use crate::seed::Seed;
use rpcgate_core::clock::Time;
use std::sync::Arc;

/// The number of blocks that a node keeps: about two months of them.
pub(crate) const KEPT: u64 = 20_000_000;
/// The height at the epoch.
const BASE: u64 = 575_000_000;
/// The offset of the newest version from the count of blocks and transfers.
const VERSIONS: u64 = 2_300_000_000;
const SLOT_MS: u64 = 250;
const JITTER_MS: u64 = 100;
/// Blocks in an epoch of two hours.
const EPOCH_BLOCKS: u64 = 28_800;
const EPOCHS_LESS: u64 = 6_000;
/// Gas units: of a transfer, of a transfer that creates an account, and the minimum and maximum that a sender may set.
const TRANSFER_GAS: u64 = 9;
const ACCOUNT_GAS: u64 = 520;
const LEAST_PRICE: u64 = 100;
const MOST_GAS: u64 = 2_000_000;
/// The largest index in a block.
const LAST: u64 = 0xff_ffff;

/// The kind of transaction at a version of the ledger.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// The metadata at the start of the block.
    Metadata,
    /// A transfer of a resident.
    Resident(Transfer),
    Client(Arc<Tx>),
    Epilogue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) gas_used: u64,
    /// The error; empty if the transaction succeeded.
    pub(crate) failure: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) version: u64,
    pub(crate) height: u64,
    pub(crate) hash: [u8; 32],
    pub(crate) kind: Kind,
    pub(crate) outcome: Outcome,
}

pub(crate) type Chain = Ledger<State>;

impl LedgerState for State {
    type Entry = (Arc<Tx>, Outcome);

    fn advance(chain: &mut Chain, height: u64) {
        chain.head = height;
        let moment = chain.secs(height);
        chain.state.parked.retain(|_, tx| tx.expires > moment);
        while let Some((height, tx)) = chain.state.waiting.pop_due(chain.head) {
            let outcome = chain.deliver(&tx, height);
            chain.state.heights.push(height);
            chain.include(height, tx.hash, (tx, outcome));
        }
    }

    fn resubmit(chain: &mut Chain, raw: &[u8], moment: Time) {
        let _ = chain.submit(raw, moment);
    }
}

fn plain(gas_used: u64) -> Outcome {
    Outcome { gas_used, failure: String::new() }
}

impl Chain {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let seed = Seed::of("aptos", seed);
        let rules = BlockRules { base: BASE, slot_ms: SLOT_MS, jitter_ms: JITTER_MS, first: 0, kept: KEPT };
        Ledger::new(seed, rules, State::new(seed, BASE))
    }

    /// Returns the epoch and round of a block.
    pub(crate) fn round(height: u64) -> (u64, u64) {
        ((height / EPOCH_BLOCKS).saturating_sub(EPOCHS_LESS), height % EPOCH_BLOCKS + 1)
    }

    /// Returns the height of the first block in the epoch of block `height`.
    pub(crate) fn epoch_start(height: u64) -> u64 {
        height - height % EPOCH_BLOCKS
    }

    pub(crate) fn first_version(&self, height: u64) -> u64 {
        let clients = self.state.heights.partition_point(|known| *known < height) as u64;
        VERSIONS + 2 * height + self.state.traffic.count_below(height) + clients
    }

    pub(crate) fn version(&self) -> u64 {
        self.first_version(self.head + 1) - 1
    }

    /// Returns the height of the block with a version, if the node keeps it.
    pub(crate) fn block_of(&self, version: u64) -> Result<u64, Fault> {
        if version < self.first_version(self.oldest()) {
            return Err(Fault::pruned("version_pruned", &format!("Ledger version({version})")));
        }
        let mut low = self.oldest();
        let mut high = self.head + 1;
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if self.first_version(middle) <= version {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Returns the next sequence number of a sender, counting waiting transactions.
    fn expected(&self, sender: &Address) -> u64 {
        let known = self.state.account(sender, self.head).unwrap_or_default().sequence;
        known + self.state.waiting.iter().filter(|tx| tx.sender == *sender).count() as u64
    }

    /// Returns a transaction that is not in a block yet.
    pub(crate) fn pending(&self, hash: &[u8; 32]) -> Option<Arc<Tx>> {
        let mut waiting = self.state.waiting.iter().chain(self.state.parked.values());
        waiting.find(|tx| tx.hash == *hash).cloned()
    }

    /// Checks whether a transaction may run. The gas that it will use is not checked.
    pub(crate) fn check(&self, tx: &Tx, now: Time) -> Result<(), Fault> {
        let refuse = |name, code| Err(Fault::machine(name, code));
        if tx.chain != CHAIN {
            return refuse("BAD_CHAIN_ID", 22);
        }
        if tx.max_gas > MOST_GAS {
            return refuse("MAX_GAS_UNITS_EXCEEDS_MAX_GAS_UNITS_BOUND", 14);
        }
        if tx.max_gas < 2 {
            return refuse("MAX_GAS_UNITS_BELOW_MIN_TRANSACTION_GAS_UNITS", 15);
        }
        if tx.price < LEAST_PRICE {
            return refuse("GAS_UNIT_PRICE_BELOW_MIN_BOUND", 16);
        }
        let Some(account) = self.state.account(&tx.sender, self.head) else {
            return refuse("SENDING_ACCOUNT_DOES_NOT_EXIST", 7);
        };
        if tx.authentication_key() != tx.sender {
            return refuse("INVALID_AUTH_KEY", 2);
        }
        if tx.sequence < account.sequence {
            return refuse("SEQUENCE_NUMBER_TOO_OLD", 3);
        }
        if tx.expires <= now.secs() {
            return refuse("TRANSACTION_EXPIRED", 6);
        }
        if tx.max_gas.saturating_mul(tx.price) > account.balance {
            return refuse("INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE", 5);
        }
        Ok(())
    }

    /// Takes a transaction into the next block, or parks it until its predecessors have arrived.
    pub(crate) fn submit(&mut self, raw: &[u8], now: Time) -> Result<Arc<Tx>, Fault> {
        let wrong = "Failed to deserialize input into SignedTransaction";
        let tx = Arc::new(Tx::decode(raw).ok_or_else(|| Fault::input(wrong))?);
        if let Some(known) = self.pending(&tx.hash) {
            return Ok(known);
        }
        if !tx.is_signed() {
            return Err(Fault::machine("INVALID_SIGNATURE", 1));
        }
        let now = self.moment(now);
        self.check(&tx, now)?;
        let expected = self.expected(&tx.sender);
        if tx.sequence < expected || self.state.parked.contains_key(&(tx.sender, tx.sequence)) {
            return Err(Fault {
                code: "invalid_transaction_update",
                ..Fault::input("Transaction already in mempool with a different payload")
            });
        }
        self.accept(raw.to_vec(), now).ok_or_else(Fault::full)?;
        if tx.sequence > expected {
            self.state.parked.insert((tx.sender, tx.sequence), tx.clone());
            return Ok(tx);
        }
        let next_block = self.head + 1;
        self.state.waiting.push(next_block, tx.clone());
        let mut next = tx.sequence + 1;
        while let Some(follower) = self.state.parked.remove(&(tx.sender, next)) {
            if follower.expires <= now.secs() {
                break;
            }
            self.state.waiting.push(next_block, follower);
            next += 1;
        }
        Ok(tx)
    }

    /// Returns the outcome that a transaction would have now.
    pub(crate) fn run(&self, tx: &Tx) -> Outcome {
        let fail = |failure: &str| Outcome { gas_used: TRANSFER_GAS, failure: failure.into() };
        let Some((to, amount)) = tx.call.transfer() else {
            return fail("Transaction Executed and Committed with Error LINKER_ERROR");
        };
        let balance = self.state.account(&tx.sender, self.head).unwrap_or_default().balance;
        let is_new = self.state.account(&to, self.head).is_none();
        let gas_used = if is_new { ACCOUNT_GAS } else { TRANSFER_GAS };
        if gas_used > tx.max_gas {
            return Outcome { gas_used: tx.max_gas, failure: "Out of gas".into() };
        }
        if is_new && tx.call.module == "coin" {
            return fail(
                "Move abort in 0x1::coin: ECOIN_STORE_NOT_PUBLISHED(0x60005): \
                 Account hasn't registered `CoinStore` for `CoinType`",
            );
        }
        if amount.saturating_add(gas_used.saturating_mul(tx.price)) > balance {
            return fail(
                "Move abort in 0x1::coin: EINSUFFICIENT_BALANCE(0x10006): \
                 Not enough coins to complete transaction",
            );
        }
        plain(gas_used)
    }

    fn deliver(&mut self, tx: &Tx, height: u64) -> Outcome {
        let mut outcome = self.run(tx);
        if tx.expires <= self.time(height).secs() {
            outcome = Outcome { gas_used: 0, failure: "Transaction expired".into() };
        }
        let (to, amount) = tx.call.transfer().unwrap_or(([0; 32], 0));
        if let Some(account) = self.state.sender(&tx.sender) {
            account.sequence += 1;
            let fee = outcome.gas_used.saturating_mul(tx.price);
            let paid = if outcome.failure.is_empty() { amount.saturating_add(fee) } else { fee };
            account.balance = account.balance.saturating_sub(paid);
        }
        if outcome.failure.is_empty() {
            self.state.pay(to, amount);
        }
        outcome
    }

    /// Returns the transactions of block `height` in order.
    pub(crate) fn entries(&self, height: u64) -> Vec<Entry> {
        let own =
            |place: u64, kind, gas| (self.seed.hide("transaction", height << 24 | place), kind, plain(gas));
        let mut out = vec![own(0, Kind::Metadata, 0)];
        let transfers = self.state.transfers(height).into_iter().zip(1..);
        out.extend(transfers.map(|(transfer, place)| own(place, Kind::Resident(transfer), RESIDENT_GAS.0)));
        for (tx, outcome) in self.included(height) {
            out.push((tx.hash, Kind::Client(tx.clone()), outcome.clone()));
        }
        out.push(own(LAST, Kind::Epilogue, 0));
        let versions = self.first_version(height)..;
        let entry = |((hash, kind, outcome), version)| Entry { version, height, hash, kind, outcome };
        out.into_iter().zip(versions).map(entry).collect()
    }

    /// Finds a committed transaction in a kept block by its hash.
    pub(crate) fn committed(&self, hash: &[u8; 32]) -> Option<Entry> {
        let height = match self.place(hash) {
            Some((height, _)) => height,
            None => self.seed.reveal("transaction", hash)? >> 24,
        };
        let is_kept = (self.oldest()..=self.head).contains(&height);
        self.entries(height).into_iter().find(|entry| is_kept && entry.hash == *hash)
    }

    /// Returns the committed transactions of a client, ordered by sequence number.
    pub(crate) fn sent(&self, sender: &Address) -> Vec<Entry> {
        let mine = |entry: &Entry| matches!(&entry.kind, Kind::Client(tx) if tx.sender == *sender);
        self.included_in(..).flat_map(|(height, _)| self.entries(height)).filter(mine).collect()
    }
}
