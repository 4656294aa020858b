//! The chain: its blocks, with their transactions and receipts.

use super::gas::{gas, total_gas};
use super::state::{Account, GAS_PRICE, State};
use super::tx::{Action, Hash, Permission, Tx, sha256};
use crate::json::{Json, object};
use crate::ledger::{BlockRules, Ledger, LedgerState, Payment, ResidentTraffic};
use crate::seed::Seed;
use rpcgate_core::clock::Time;

/// The height at the epoch of the simulated chains.
const BASE: u64 = 179_500_000;
/// The first block with traffic; older ones were garbage-collected long ago.
const FIRST: u64 = BASE - 10_000_000;
/// The number of blocks that are kept: two and a half days of them.
pub(crate) const KEPT: u64 = 180_000;
/// The number of blocks in an epoch.
pub(crate) const EPOCH_LENGTH: u64 = 43_200;
/// The number of blocks during which a transaction may refer to a block: a day of them.
const VALIDITY: u64 = 86_400;
/// The maximum gas that a transaction may attach to its calls.
const MOST_GAS: u64 = 300_000_000_000_000;
/// The accounts at which a new shard begins.
const BOUNDARIES: [&str; 8] = [
    "650",
    "aurora",
    "aurora-0",
    "earn.kaiching",
    "game.hot.tg",
    "game.hot.tg-0",
    "kkuuue2akv_1630967379.near",
    "tge-lockup.sweat",
];
pub(crate) const SHARDS: u64 = BOUNDARIES.len() as u64 + 1;

/// The final status of a transaction or a receipt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Status {
    Value(Vec<u8>),
    Receipt(Hash),
    Failure(Json),
}

#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) id: Hash,
    pub(crate) height: u64,
    pub(crate) executor: String,
    pub(crate) logs: Vec<String>,
    pub(crate) receipts: Vec<Hash>,
    pub(crate) gas: u64,
    pub(crate) status: Status,
}

/// A receipt that runs in a block.
#[derive(Debug, Clone)]
pub(crate) struct Receipt {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) actions: Vec<Action>,
    pub(crate) outcome: Outcome,
}

/// A transaction in a block, with all its outcomes.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) tx: Tx,
    pub(crate) outcome: Outcome,
    pub(crate) receipts: Vec<Receipt>,
}

impl Entry {
    /// Returns the height of the block in which its last receipt ran.
    pub(crate) fn end(&self) -> u64 {
        self.receipts.iter().map(|receipt| receipt.outcome.height).fold(self.outcome.height, u64::max)
    }
}

/// The reason for which a transaction is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The bytes are not a transaction.
    Unreadable,
    /// `InvalidTxError` of the protocol.
    Invalid(Json),
    /// The node is full.
    Full,
}

pub(crate) type Chain = Ledger<State>;

impl LedgerState for State {
    type Entry = Entry;

    fn resubmit(chain: &mut Chain, raw: &[u8], moment: Time) {
        let _ = chain.submit(raw, moment);
    }
}

/// Returns the shard that holds an account.
pub(crate) fn shard(account: &str) -> u64 {
    BOUNDARIES.iter().filter(|boundary| **boundary <= account).count() as u64
}

impl Chain {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let seed = Seed::of("near", seed);
        let rules = BlockRules { base: BASE, slot_ms: 1_200, jitter_ms: 300, first: FIRST, kept: KEPT };
        Ledger::new(seed, rules, State::new(seed, ResidentTraffic::new(seed, 16, 2, FIRST, 9_000_000)))
    }

    /// Returns the time of a block in nanoseconds since the Unix epoch.
    pub(crate) fn nanos(&self, height: u64) -> u64 {
        self.time(height).micros() * 1_000 + self.fraction(height)
    }

    /// Returns the nanoseconds of a block's time below the microsecond.
    pub(crate) fn fraction(&self, height: u64) -> u64 {
        self.seed.below("nanos", height, 1_000)
    }

    pub(crate) fn chunk_hash(&self, height: u64, shard: u64) -> Hash {
        self.seed.hide("chunk", height * 16 + shard)
    }

    /// Returns the height and shard of an existing chunk.
    pub(crate) fn find_chunk(&self, hash: &Hash) -> Option<(u64, u64)> {
        let id = self.seed.reveal("chunk", hash)?;
        let height = id / 16;
        let shard = id % 16;
        (height <= self.head && shard < SHARDS).then_some((height, shard))
    }

    pub(crate) fn entries(&self, height: u64) -> Vec<Entry> {
        let mut out: Vec<Entry> =
            self.state.traffic.of_block(height).map(|payment| self.resident_entry(payment)).collect();
        out.extend_from_slice(self.included(height));
        out
    }

    /// Returns the receipts that run in a block: those of the transactions of the two blocks before it.
    pub(crate) fn receipts_of(&self, height: u64) -> Vec<(Entry, Receipt)> {
        let mut out = Vec::new();
        for entry in (height - 2..height).flat_map(|before| self.entries(before)) {
            let due = entry.receipts.iter().filter(|receipt| receipt.outcome.height == height);
            out.extend(due.map(|receipt| (entry.clone(), receipt.clone())));
        }
        out
    }

    /// Returns a transaction that is in a block or will be in the next one.
    pub(crate) fn transaction(&self, hash: &Hash) -> Option<Entry> {
        if let Some((_, entry)) = self.find(hash) {
            return Some(entry.clone());
        }
        let traffic = self.state.traffic;
        let number = self.seed.reveal("transaction", hash)?;
        let (height, _) = traffic.position(number);
        (self.oldest()..=self.head).contains(&height).then(|| self.resident_entry(traffic.payment(number)))
    }

    pub(crate) fn receipt(&self, id: &Hash) -> Option<Entry> {
        if let Some(hash) = self.state.receipts.get(id) {
            return self.find(hash).map(|(_, entry)| entry.clone());
        }
        let number = self.seed.reveal("receipt", id)?;
        self.transaction(&self.seed.hide("transaction", number))
    }

    fn resident_entry(&self, payment: Payment) -> Entry {
        let (height, _) = self.state.traffic.position(payment.number);
        let (signer, key) = self.state.resident(payment.payer);
        let (receiver, action, log) = self.state.payment(payment);
        let actions = vec![action];
        let tx = Tx {
            nonce: self.state.first_nonce(payment.payer) + payment.round / 2 + 1,
            block: self.block_hash(height - 3),
            signature: self.seed.bytes::<64>("signature", payment.number).to_vec(),
            hash: self.seed.hide("transaction", payment.number),
            signer,
            key,
            receiver,
            actions,
        };
        let id = self.seed.hide("receipt", payment.number);
        let (outcome, gas) = first_outcome(&tx, height, id);
        let receipt = Receipt {
            from: tx.signer.clone(),
            to: tx.receiver.clone(),
            actions: tx.actions.clone(),
            outcome: Outcome {
                id,
                height: height + 1,
                executor: tx.receiver.clone(),
                logs: log.into_iter().collect(),
                receipts: Vec::new(),
                gas,
                status: Status::Value(Vec::new()),
            },
        };
        Entry { tx, outcome, receipts: vec![receipt] }
    }

    /// Takes a signed transaction into the next block and returns its hash.
    pub(crate) fn submit(&mut self, raw: &[u8], now: Time) -> Result<Hash, Refusal> {
        let tx = Tx::decode(raw).ok_or(Refusal::Unreadable)?;
        if self.place(&tx.hash).is_some() {
            // A node accepts the same bytes again without an error.
            return Ok(tx.hash);
        }
        let signer = self.validate(&tx).map_err(Refusal::Invalid)?;
        self.accept(raw.to_vec(), now).ok_or(Refusal::Full)?;
        let hash = tx.hash;
        let entry = self.execute(tx, signer);
        for receipt in &entry.receipts {
            self.state.receipts.insert(receipt.outcome.id, hash);
        }
        self.include(entry.outcome.height, hash, entry);
        Ok(hash)
    }

    /// Runs the protocol's checks before a transaction enters a chunk. Returns the signer's account.
    fn validate(&self, tx: &Tx) -> Result<Account, Json> {
        if !tx.is_signed() {
            return Err("InvalidSignature".into());
        }
        let age = self.block_by_hash(&tx.block).map(|height| self.head - height);
        if age.is_none_or(|age| age > VALIDITY) {
            return Err("Expired".into());
        }
        let calls = tx.actions.iter().map(|action| match action {
            Action::FunctionCall { gas, .. } => *gas,
            _ => 0,
        });
        let attached = calls.clone().fold(0, u64::saturating_add);
        if attached > MOST_GAS {
            return Err(object! {
                "ActionsValidation": object! {
                    "TotalPrepaidGasExceeded":
                        object! { "limit": MOST_GAS, "total_prepaid_gas": attached },
                },
            });
        }
        let is_call = |action: &Action| matches!(action, Action::FunctionCall { .. });
        if tx.actions.iter().zip(calls).any(|(action, gas)| is_call(action) && gas == 0) {
            return Err(object! { "ActionsValidation": "FunctionCallZeroAttachedGas" });
        }
        let signer = self
            .state
            .newest(&tx.signer)
            .ok_or_else(|| object! { "SignerDoesNotExist": object! { "signer_id": tx.signer.clone() } })?;
        let key_error = |why: Json| object! { "InvalidAccessKeyError": why };
        let Some((nonce, permission)) = signer.keys.get(&tx.key) else {
            return Err(key_error(object! {
                "AccessKeyNotFound":
                    object! { "account_id": tx.signer.clone(), "public_key": tx.key.text() },
            }));
        };
        if tx.nonce <= *nonce {
            return Err(object! { "InvalidNonce": object! { "ak_nonce": *nonce, "tx_nonce": tx.nonce } });
        }
        let bound = (self.head + 1) * 1_000_000;
        if tx.nonce >= bound {
            return Err(object! {
                "NonceTooLarge": object! { "tx_nonce": tx.nonce, "upper_bound": bound },
            });
        }
        let cost = tx.deposits().saturating_add(u128::from(total_gas(&tx.actions)) * GAS_PRICE);
        if signer.amount < cost {
            return Err(object! {
                "NotEnoughBalance": object! {
                    "balance": signer.amount.to_string(), "cost": cost.to_string(),
                    "signer_id": tx.signer.clone(),
                },
            });
        }
        if let Permission::Calls { receiver, methods, .. } = permission {
            match tx.actions.as_slice() {
                [Action::FunctionCall { .. }] if tx.receiver != *receiver => {
                    return Err(key_error(object! {
                        "ReceiverMismatch":
                            object! { "ak_receiver": receiver.clone(), "tx_receiver": tx.receiver.clone() },
                    }));
                }
                [Action::FunctionCall { deposit, .. }] if *deposit > 0 => {
                    return Err(key_error("DepositWithFunctionCall".into()));
                }
                [Action::FunctionCall { method, .. }] if !methods.is_empty() && !methods.contains(method) => {
                    return Err(key_error(object! {
                        "MethodNameMismatch": object! { "method_name": method.clone() },
                    }));
                }
                [Action::FunctionCall { .. }] => {}
                _ => return Err(key_error("RequiresFullAccess".into())),
            }
        }
        Ok(signer)
    }

    fn execute(&mut self, tx: Tx, mut signer: Account) -> Entry {
        let height = self.head + 1;
        signer.amount -= tx.deposits().saturating_add(u128::from(total_gas(&tx.actions)) * GAS_PRICE);
        if let Some((nonce, _)) = signer.keys.get_mut(&tx.key) {
            *nonce = tx.nonce;
        }
        self.state.put(&tx.signer, height, Some(signer));
        let id = sha256(&[&tx.hash, &height.to_le_bytes()]);
        let (outcome, gas) = first_outcome(&tx, height, id);
        let ran = self.state.run(&tx.signer, &tx.receiver, &tx.actions, height + 1);
        if ran.spent > 0
            && let Some(mut account) = self.state.newest(&tx.signer)
        {
            account.tokens = account.tokens.saturating_sub(ran.spent);
            self.state.put(&tx.signer, height + 1, Some(account));
        }
        let refund = if ran.failure.is_some() { tx.deposits() } else { 0 };
        let refund_id = sha256(&[&id, b"refund"]);
        let mut receipts = vec![Receipt {
            from: tx.signer.clone(),
            to: tx.receiver.clone(),
            actions: tx.actions.clone(),
            outcome: Outcome {
                id,
                height: height + 1,
                executor: tx.receiver.clone(),
                logs: ran.logs,
                receipts: if refund > 0 { vec![refund_id] } else { Vec::new() },
                gas,
                status: ran.failure.map_or(Status::Value(ran.value), Status::Failure),
            },
        }];
        if refund > 0 {
            self.state.give(&tx.signer, height + 2, refund, 0);
            receipts.push(Receipt {
                from: "system".into(),
                to: tx.signer.clone(),
                actions: vec![Action::Transfer(refund)],
                outcome: Outcome {
                    id: refund_id,
                    height: height + 2,
                    executor: tx.signer.clone(),
                    logs: Vec::new(),
                    receipts: Vec::new(),
                    gas: 0,
                    status: Status::Value(Vec::new()),
                },
            });
        }
        Entry { tx, outcome, receipts }
    }
}

/// Returns the outcome of the conversion of a transaction into its receipt, and the gas of running the receipt.
fn first_outcome(tx: &Tx, height: u64, receipt: Hash) -> (Outcome, u64) {
    let made = gas(&tx.actions);
    let outcome = Outcome {
        id: tx.hash,
        height,
        executor: tx.signer.clone(),
        logs: Vec::new(),
        receipts: vec![receipt],
        gas: made,
        status: Status::Receipt(receipt),
    };
    (outcome, total_gas(&tx.actions) - made)
}
