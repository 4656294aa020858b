//! The chain: its blocks and the unspent outputs.

use super::network::{SLOT_ZERO, TX_BYTES, ada};
use super::tx::{Output, Reference, Tx, bech32, hash28};
use crate::envelope::Fault;
use crate::json::{Json, object};
use crate::ledger::{BlockRules, Ledger, LedgerState};
use crate::seed::Seed;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rpcgate_core::clock::Time;
use std::collections::BTreeMap;

/// The height at the epoch.
const BASE: u64 = 12_860_000;
/// The height of the oldest block that a client can read.
pub(super) const FIRST: u64 = BASE - 8_000_000;
/// The time between blocks: one block in every 20 slots of a second.
const SLOT_MS: u64 = 20_000;
/// Pairs of addresses that redistribute their coins, one pair in each block.
const PAIRS: u64 = 16;
/// The fee that each of a pair pays, in lovelace.
const HALF_FEE: u64 = 87_000;
const ADA: u64 = 1_000_000;
/// The minting of tokens: the interval in blocks, the amount and the fee.
const MINT_BLOCKS: u64 = 4;
pub(super) const MINTED: u64 = 1_000;
const MINT_FEE: u64 = 310_000;

/// An output that is not part of the chain's own traffic, and the blocks that created and spent it.
#[derive(Debug, Clone)]
struct Coin {
    output: Output,
    made: u64,
    spent: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Outputs {
    residents: Vec<Vec<u8>>,
    coins: BTreeMap<Reference, Coin>,
}

pub(super) type Chain = Ledger<Outputs>;

impl LedgerState for Outputs {
    type Entry = Tx;

    fn resubmit(chain: &mut Chain, raw: &[u8], moment: Time) {
        if let Ok(tx) = Tx::read(raw) {
            let _ = chain.submit(&tx, raw.to_vec(), moment);
        }
    }
}

/// Returns the address of the key whose secret half is the number `n` as 32 bytes.
fn developer(n: u8) -> Option<Vec<u8>> {
    let mut secret = [0; 32];
    secret[31] = n;
    let pair = Ed25519KeyPair::from_seed_unchecked(&secret).ok()?;
    Some(account(&hash28(pair.public_key().as_ref())))
}

/// Returns the address of a key hash, without a staking part.
fn account(hash: &[u8; 28]) -> Vec<u8> {
    [&[0x61], &hash[..]].concat()
}

impl Chain {
    pub(super) fn of_seed(seed: u64) -> Self {
        let seed = Seed::of("cardano", seed);
        let mut coins = BTreeMap::new();
        for (n, address) in (1..=4).filter_map(|n| Some((n, developer(n)?))) {
            let output = Output { address, lovelace: 10_000 * ADA, tokens: None };
            let reference = (seed.bytes("genesis", u64::from(n)), 0);
            coins.insert(reference, Coin { output, made: 0, spent: None });
        }
        let residents = (0..2 * PAIRS).map(|n| account(&seed.bytes("resident", n))).collect();
        let rules = BlockRules { slot_ms: SLOT_MS, jitter_ms: SLOT_MS, ..BlockRules::of(BASE) };
        Ledger::new(seed, rules, Outputs { residents, coins })
    }

    pub(super) fn slot(&self, height: u64) -> u64 {
        self.secs(height).saturating_sub(SLOT_ZERO)
    }

    /// Returns the slot and the id of block `height`.
    pub(super) fn point(&self, height: u64) -> Json {
        object! { "slot": self.slot(height), "id": hex::encode(self.seed.hide("block", height)) }
    }

    /// Returns the height of the block with this slot and id.
    pub(super) fn height_of(&self, slot: u64, id: &[u8; 32]) -> Option<u64> {
        let height = self.seed.reveal("block", id)?;
        ((FIRST..=self.head).contains(&height) && self.slot(height) == slot).then_some(height)
    }

    pub(super) fn tip(&self) -> Json {
        self.point(self.head)
    }

    /// Returns the transaction of the residents whose turn is in block `height`: its inputs, outputs and fee.
    pub(super) fn traffic(&self, height: u64) -> (Vec<Reference>, Vec<(Reference, Output)>, u64) {
        let places = [0, 1].map(|side| 2 * (height % PAIRS) + side);
        let spent = places.map(|place| self.resident(place, height - 1));
        let made = places.map(|place| self.resident(place, height));
        let sum = |rows: &[(Reference, Output)]| rows.iter().map(|(_, output)| output.lovelace).sum::<u64>();
        let fee = sum(&spent).saturating_sub(sum(&made));
        (spent.map(|(reference, _)| reference).into(), made.into(), fee)
    }

    /// Returns a resident's only output as of block `head`. The last block with its pair's turn created it.
    fn resident(&self, place: u64, head: u64) -> (Reference, Output) {
        let pair = place / 2;
        let side = place % 2;
        let height = head.saturating_sub((head + PAIRS - pair) % PAIRS);
        let turns = height.cast_signed() - BASE.cast_signed();
        let share = self.seed.below("share", height, 400_000 * ADA);
        let base = 1_000_000 * ADA
            - (turns / PAIRS.cast_signed() * HALF_FEE.cast_signed()).clamp(0, 1 << 38).cast_unsigned();
        let lovelace = if side == 0 { base - share } else { base + share };
        let address = self.state.residents[place as usize].clone();
        let output = Output { address, lovelace, tokens: None };
        ((self.seed.hide("transaction", height), side), output)
    }

    /// Returns the hash of the script by which tokens are minted.
    pub(super) fn policy(&self) -> [u8; 28] {
        self.seed.bytes("policy", 0)
    }

    /// Returns the single output of the minter as of block `head`, which holds all tokens.
    fn mint(&self, head: u64) -> (Reference, Output) {
        let height = head - head % MINT_BLOCKS;
        let turns = (height.cast_signed() - BASE.cast_signed()) / MINT_BLOCKS.cast_signed();
        let fees = (turns * MINT_FEE.cast_signed()).clamp(0, 1 << 42).cast_unsigned();
        let tokens = Some((height / MINT_BLOCKS * MINTED, self.policy()));
        let address = account(&self.seed.bytes("minter", 0));
        let output = Output { address, lovelace: 10_000_000 * ADA - fees, tokens };
        ((self.seed.hide("mint", height), 0), output)
    }

    /// Returns the transaction in block `height` that mints tokens, if there is one: its input, output and fee.
    pub(super) fn minting(&self, height: u64) -> Option<(Reference, (Reference, Output), u64)> {
        if !height.is_multiple_of(MINT_BLOCKS) {
            return None;
        }
        let ((spent, before), made) = (self.mint(height - 1), self.mint(height));
        let fee = before.lovelace.saturating_sub(made.1.lovelace);
        Some((spent, made, fee))
    }

    /// Returns all outputs that are unspent as of the newest block.
    pub(super) fn unspent(&self) -> impl Iterator<Item = (Reference, Output)> + '_ {
        let own = (0..2 * PAIRS).map(|place| self.resident(place, self.head)).chain([self.mint(self.head)]);
        let clients =
            self.state.coins.iter().filter(|(_, coin)| {
                coin.made <= self.head && coin.spent.is_none_or(|height| height > self.head)
            });
        own.chain(clients.map(|(reference, coin)| (*reference, coin.output.clone())))
    }

    /// Returns an output that no block and no waiting transaction has spent.
    fn spendable(&self, reference: &Reference) -> Option<Output> {
        match self.state.coins.get(reference) {
            Some(coin) => coin.spent.is_none().then(|| coin.output.clone()),
            None => self.unspent().find(|(known, _)| known == reference).map(|(_, output)| output),
        }
    }

    /// Takes a transaction into the next block, or refuses it with the node's code.
    pub(super) fn submit(&mut self, tx: &Tx, bytes: Vec<u8>, now: Time) -> Result<(), Fault> {
        self.check(tx)?;
        if self.accept(bytes, now).is_none() {
            return Err(mempool("The mempool is full."));
        }
        let height = self.head + 1;
        for input in &tx.inputs {
            if let Some(coin) = self.state.coins.get_mut(input) {
                coin.spent = Some(height);
            }
        }
        for (index, output) in tx.outputs.iter().enumerate() {
            let coin = Coin { output: output.clone(), made: height, spent: None };
            self.state.coins.insert((tx.id, index as u64), coin);
        }
        self.include(height, tx.id, tx.clone());
        Ok(())
    }

    fn check(&self, tx: &Tx) -> Result<(), Fault> {
        let refuse = |code: i64, message: &str, data: Json| {
            Err(Fault { code, message: message.to_owned(), data: Some(data) })
        };
        if tx.inputs.is_empty() {
            return Err(Fault::new(3121, "The transaction spends nothing: its set of inputs is empty."));
        }
        let slot = self.slot(self.head);
        let (from, to) = tx.valid;
        if from.is_some_and(|from| slot < from) || to.is_some_and(|to| slot >= to) {
            let mut interval = object! {};
            for (name, bound) in [("invalidBefore", from), ("invalidAfter", to)] {
                if let Some(bound) = bound {
                    interval.put(name, bound);
                }
            }
            let data = object! { "validityInterval": interval, "currentSlot": slot };
            return refuse(3118, "The transaction is outside of its validity interval.", data);
        }
        if tx.size > TX_BYTES {
            let size = |count: usize| object! { "bytes": count };
            let data = object! {
                "measuredTransactionSize": size(tx.size), "maximumTransactionSize": size(TX_BYTES),
            };
            return refuse(3119, "The transaction is too large.", data);
        }
        if tx.fee < tx.least_fee() {
            let data = object! { "minimumRequiredFee": ada(tx.least_fee()), "providedFee": ada(tx.fee) };
            return refuse(3122, "The transaction's fee is less than its size asks for.", data);
        }
        let spent: Vec<_> = tx.inputs.iter().map(|input| (input, self.spendable(input))).collect();
        let unknown = spent.iter().filter(|(_, output)| output.is_none()).map(|((id, index), _)| {
            object! { "transaction": object! { "id": hex::encode(id) }, "index": *index }
        });
        let unknown: Vec<_> = unknown.collect();
        if !unknown.is_empty() {
            let data = object! { "unknownOutputReferences": unknown };
            return refuse(3117, "The transaction spends outputs that are unknown, or spent already.", data);
        }
        let elsewhere: Vec<_> = tx.outputs.iter().filter(|output| output.address[0] & 0x0f != 1).collect();
        if !elsewhere.is_empty() {
            let entities = elsewhere.iter().map(|output| bech32("addr_test", &output.address));
            let data = object! {
                "expectedNetwork": "mainnet", "discriminatedType": "address",
                "invalidEntities": entities.collect::<Vec<_>>(),
            };
            return refuse(3124, "The transaction pays to addresses of another network.", data);
        }
        if tx.is_more || tx.has_scripts {
            return Err(mempool("Tokens, scripts, certificates and governance are not simulated."));
        }
        let consumed = spent
            .iter()
            .flat_map(|(_, output)| output)
            .fold(0u64, |sum, output| sum.saturating_add(output.lovelace));
        let produced = tx.outputs.iter().fold(tx.fee, |sum, output| sum.saturating_add(output.lovelace));
        if consumed != produced {
            let data = object! { "valueConsumed": ada(consumed), "valueProduced": ada(produced) };
            return refuse(3123, "The transaction makes more or less than it spends.", data);
        }
        let forged = tx.forged();
        if !forged.is_empty() {
            let data = object! { "invalidSignatories": forged };
            return refuse(3100, "Some signatures of the transaction are invalid.", data);
        }
        let signers: Vec<_> = tx.signatures.iter().map(|(key, _)| hash28(key)).collect();
        let needed = spent.iter().flat_map(|(_, output)| output).filter_map(Output::key);
        let missing = needed.filter(|key| !signers.iter().any(|signer| signer == *key));
        let missing: Vec<_> = missing.map(hex::encode).collect();
        if !missing.is_empty() {
            let data = object! { "missingSignatories": missing };
            return refuse(3101, "Signatures are missing from the transaction.", data);
        }
        Ok(())
    }
}

/// Returns the error for a refusal without a specific code.
fn mempool(why: &'static str) -> Fault {
    let message = "The transaction is not taken into the mempool.".to_owned();
    Fault { code: 3997, message, data: Some(object! { "unexpectedError": why }) }
}
