//! The chain: the transactions of each block, and their outcomes.

use super::address::{self, ACCOUNT, Address};
use super::state::{self, COIN, RESIDENT_FEE, State};
use super::tx::{Coin, Content, Mode, Send, Signer, Tx, coins_text};
use crate::ledger::{BlockRules, Ledger, LedgerState};
use crate::seed::Seed;
use k256::ecdsa::signature::Verifier;
use k256::ecdsa::{Signature, VerifyingKey};
use rpcgate_core::clock::Time;
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) const CHAIN: &str = "cosmoshub-4";
/// The number of blocks that a node keeps: those of a day.
pub(crate) const KEPT: u64 = 14_400;
/// The height at the epoch.
const BASE: u64 = 29_100_000;
const SLOT_MS: u64 = 6_000;
const JITTER_MS: u64 = 900;
/// The longest memo, in characters.
const MEMO: usize = 256;
/// The gas limit of a resident's transaction.
const RESIDENT_GAS: u64 = 120_000;

/// The outcome of a transaction. The code is 0 for success.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) code: u32,
    pub(crate) log: String,
    pub(crate) gas_used: u64,
}

impl Outcome {
    /// Creates an error of the SDK from its code and its text without the common ending.
    fn refused(code: u32, log: impl Into<String>) -> Self {
        Outcome { code, log: log.into(), gas_used: 0 }
    }

    pub(crate) fn codespace(&self) -> &'static str {
        if self.code == 0 { "" } else { "sdk" }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) tx: Arc<Tx>,
    pub(crate) height: u64,
    pub(crate) outcome: Outcome,
}

/// A transfer with its addresses decoded.
struct Move<'a> {
    from: Address,
    to: Address,
    coins: &'a [Coin],
}

pub(crate) type Chain = Ledger<State>;

impl LedgerState for State {
    type Entry = Entry;

    fn advance(chain: &mut Chain, height: u64) {
        chain.head = height;
        while let Some((height, tx)) = chain.state.waiting.pop_due(chain.head) {
            let outcome = chain.deliver(&tx, height);
            chain.include(height, tx.hash, Entry { tx, height, outcome });
        }
    }

    fn resubmit(chain: &mut Chain, raw: &[u8], moment: Time) {
        let _ = chain.submit(raw, moment);
    }
}

/// Gas that is used before a transaction's messages run: for signatures and bytes.
fn entry_gas(tx: &Tx) -> u64 {
    36_000 + 10 * tx.raw.len() as u64 + 1_000 * tx.content.signatures.len() as u64
}

/// Returns the gas of a whole transaction.
pub(crate) fn gas(tx: &Tx) -> u64 {
    let coins: usize = tx.content.sends.iter().map(|send| send.amount.len()).sum();
    entry_gas(tx) + 21_500 * tx.content.sends.len() as u64 + 4_200 * coins as u64
}

fn out_of_gas(wanted: u64, used: u64) -> Outcome {
    let log = format!("out of gas in location: txSize; gasWanted: {wanted}, gasUsed: {used}: out of gas");
    Outcome { gas_used: used, ..Outcome::refused(11, log) }
}

/// Returns the required signers, in the order of the messages.
fn signers(content: &Content) -> Result<Vec<Address>, String> {
    let mut out: Vec<Address> = Vec::new();
    for send in &content.sends {
        let address = address::read(ACCOUNT, &send.from)?;
        if !out.contains(&address) {
            out.push(address);
        }
    }
    if !content.payer.is_empty() {
        let payer = address::read(ACCOUNT, &content.payer)?;
        if !out.contains(&payer) {
            out.push(payer);
        }
    }
    Ok(out)
}

/// Returns the account that pays the fee.
fn payer(content: &Content, signers: &[Address]) -> Address {
    let named = address::read(ACCOUNT, &content.payer).ok();
    named.or_else(|| signers.first().cloned()).unwrap_or_default()
}

/// Reports whether the SDK accepts a denomination: a letter, then 2 to 127 letters, digits and a few signs.
pub(crate) fn is_denom(denom: &str) -> bool {
    let good = |c: u8| c.is_ascii_alphanumeric() || b"/:._-".contains(&c);
    (3..=128).contains(&denom.len())
        && denom.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
        && denom.bytes().all(good)
}

impl Chain {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let seed = Seed::of("cosmos", seed);
        let rules = BlockRules { base: BASE, slot_ms: SLOT_MS, jitter_ms: JITTER_MS, first: 1, kept: KEPT };
        Ledger::new(seed, rules, State::new(seed, BASE))
    }

    /// Takes a transaction into the next block, if it is valid there.
    pub(crate) fn submit(&mut self, raw: &[u8], now: Time) -> (Option<Arc<Tx>>, Outcome) {
        let tx = match Tx::decode(raw) {
            Ok(tx) => Arc::new(tx),
            Err(why) => return (None, Outcome::refused(2, format!("{why}: tx parse error"))),
        };
        if self.place(&tx.hash).is_some() || self.state.waiting.iter().any(|known| known.hash == tx.hash) {
            return (Some(tx), Outcome::refused(19, "tx already in mempool"));
        }
        let outcome = match self.check(&tx, true) {
            Ok(_) => Outcome::default(),
            Err(outcome) => outcome,
        };
        if outcome.code == 0 {
            if self.accept(raw.to_vec(), now).is_none() {
                return (Some(tx), Outcome::refused(20, "mempool is full"));
            }
            let next = self.head + 1;
            self.state.waiting.push(next, tx.clone());
        }
        (Some(tx), outcome)
    }

    /// Checks a transaction for the next block, after all waiting transactions; returns the gas that it will use. If
    /// not `in_earnest`, skips the checks of signatures, fees and gas limits.
    pub(crate) fn check(&self, tx: &Tx, in_earnest: bool) -> Result<u64, Outcome> {
        let content = &tx.content;
        let refuse = |code, log: String| Err(Outcome::refused(code, log));
        if content.sends.is_empty() {
            return refuse(18, "must contain at least one message: invalid request".into());
        }
        let signers =
            signers(content).map_err(|why| Outcome::refused(2, format!("{why}: tx parse error")))?;
        if in_earnest && content.signatures.is_empty() {
            return refuse(15, "no signatures supplied".into());
        }
        if in_earnest && content.signatures.len() != signers.len() || content.signers.len() != signers.len() {
            let wanted = signers.len();
            let got = content.signatures.len();
            return refuse(4, format!("wrong number of signers; expected {wanted}, got {got}: unauthorized"));
        }
        if content.timeout_height != 0 && self.head >= content.timeout_height {
            let log = format!("block height: {}, timeout height: {}", self.head, content.timeout_height);
            return refuse(30, format!("{log}: tx timeout height"));
        }
        if content.memo.len() > MEMO {
            let log = format!("maximum number of characters is {MEMO} but received {}", content.memo.len());
            return refuse(12, format!("{log} characters: memo too large"));
        }
        if in_earnest && content.gas < entry_gas(tx) {
            return Err(out_of_gas(content.gas, entry_gas(tx)));
        }
        self.check_fee(content, &signers, in_earnest)?;
        for (n, (signer, info)) in signers.iter().zip(&content.signers).enumerate() {
            self.check_signer(tx, n, signer, info, in_earnest)?;
        }
        Ok(gas(tx))
    }

    fn check_fee(&self, content: &Content, signers: &[Address], in_earnest: bool) -> Result<(), Outcome> {
        let refuse = |code, log: String| Err(Outcome::refused(code, log));
        let paid: u128 = content.fee.iter().filter(|coin| coin.denom == COIN).map(|coin| coin.amount).sum();
        let least = u128::from(content.gas).saturating_mul(5).div_ceil(1_000);
        if in_earnest && paid < least {
            let got = coins_text(&content.fee);
            return refuse(
                13,
                format!("insufficient fees; got: {got} required: {least}{COIN}: insufficient fee"),
            );
        }
        let payer = payer(content, signers);
        let Some(mut account) = self.state.account(&payer, self.head) else {
            let name = state::name(&payer);
            return refuse(9, format!("fee payer address: {name} does not exist: unknown address"));
        };
        for tx in self.state.waiting.iter() {
            let before = self::signers(&tx.content).unwrap_or_default();
            if self::payer(&tx.content, &before) == payer {
                // The coins were there when that transaction was accepted.
                let _ = state::take(&mut account.coins, &tx.content.fee);
            }
        }
        state::take(&mut account.coins, &content.fee).map_err(|why| Outcome::refused(5, why))
    }

    fn check_signer(
        &self,
        tx: &Tx,
        n: usize,
        signer: &Address,
        info: &Signer,
        in_earnest: bool,
    ) -> Result<(), Outcome> {
        let refuse = |code, log: String| Err(Outcome::refused(code, log));
        let name = state::name(signer);
        let Some(account) = self.state.account(signer, self.head) else {
            return refuse(9, format!("account {name} does not exist: unknown address"));
        };
        if info.key.as_ref().is_some_and(|key| address::of_key(key) != *signer) {
            let log = format!("pubKey does not match signer address {name} with signer index: {n}");
            return refuse(8, format!("{log}: invalid pubkey"));
        }
        let behind = |tx: &Tx| signers(&tx.content).unwrap_or_default().contains(signer);
        let before = self.state.waiting.iter().filter(|tx| behind(tx)).count() as u64;
        let expected = account.sequence + before;
        if info.sequence != expected {
            let log = format!("account sequence mismatch, expected {expected}, got {}", info.sequence);
            return refuse(32, format!("{log}: incorrect account sequence"));
        }
        if !in_earnest {
            return Ok(());
        }
        let mut known = info.key.clone().or(account.key);
        let earlier = self.state.waiting.iter().flat_map(|tx| &tx.content.signers);
        let earlier = earlier.filter_map(|info| info.key.clone()).find(|key| address::of_key(key) == *signer);
        let Some(key) = known.take().or(earlier) else {
            return refuse(8, "pubkey on account is not set: invalid pubkey".into());
        };
        let signed = tx.signed(info.mode, CHAIN, account.number, info.sequence);
        let verified = VerifyingKey::from_sec1_bytes(&key).ok().and_then(|key| {
            let signature = Signature::from_slice(tx.content.signatures.get(n)?).ok()?;
            key.verify(&signed, &signature).ok()
        });
        if verified.is_none() {
            let number = account.number;
            return refuse(
                4,
                format!(
                    "signature verification failed; please verify account number ({number}) and chain-id \
                     ({CHAIN}): (unable to verify single signer signature): unauthorized"
                ),
            );
        }
        Ok(())
    }

    /// Applies a checked transaction in block `height`.
    fn deliver(&mut self, tx: &Tx, height: u64) -> Outcome {
        let content = &tx.content;
        if content.timeout_height != 0 && height > content.timeout_height {
            let log = format!("block height: {height}, timeout height: {}", content.timeout_height);
            return Outcome::refused(30, format!("{log}: tx timeout height"));
        }
        let signers = signers(content).unwrap_or_default();
        let Some(purse) = self.state.sender(&payer(content, &signers)) else {
            return Outcome::refused(9, "fee payer address does not exist: unknown address");
        };
        if let Err(why) = state::take(&mut purse.coins, &content.fee) {
            return Outcome { gas_used: entry_gas(tx), ..Outcome::refused(5, why) };
        }
        for (signer, info) in signers.iter().zip(&content.signers) {
            if let Some(account) = self.state.sender(signer) {
                account.sequence += 1;
                account.key = account.key.take().or_else(|| info.key.clone());
            }
        }
        if gas(tx) > content.gas {
            return out_of_gas(content.gas, gas(tx));
        }
        let gas_used = gas(tx);
        match self.transfer(&content.sends) {
            Ok(()) => Outcome { gas_used, ..Outcome::default() },
            Err((index, code, why)) => {
                let log = format!("failed to execute message; message index: {index}: {why}");
                Outcome { gas_used, ..Outcome::refused(code, log) }
            }
        }
    }

    /// Performs all transfers or none; on failure returns the index, code and text of the one that failed.
    fn transfer(&mut self, sends: &[Send]) -> Result<(), (usize, u32, String)> {
        let moves = self.tried(sends)?;
        for Move { from, to, coins } in moves {
            if let Some(account) = self.state.sender(&from) {
                // `tried` has done this on a copy without an error.
                let _ = state::take(&mut account.coins, coins);
            }
            self.state.pay(&to, coins);
        }
        Ok(())
    }

    /// Tries transfers on copies of the accounts.
    fn tried<'a>(&self, sends: &'a [Send]) -> Result<Vec<Move<'a>>, (usize, u32, String)> {
        let mut purses = HashMap::new();
        let mut out = Vec::new();
        for (index, send) in sends.iter().enumerate() {
            let from = address::read(ACCOUNT, &send.from)
                .map_err(|why| (index, 7, format!("invalid from address: {why}: invalid address")))?;
            let to = address::read(ACCOUNT, &send.to)
                .map_err(|why| (index, 7, format!("invalid to address: {why}: invalid address")))?;
            let sorted = send.amount.windows(2).all(|two| two[0].denom < two[1].denom);
            let valid = send.amount.iter().all(|coin| is_denom(&coin.denom) && coin.amount > 0);
            if send.amount.is_empty() || !sorted || !valid {
                return Err((index, 10, format!("{}: invalid coins", coins_text(&send.amount))));
            }
            let coins = |address: &Address| {
                let account = self.state.account(address, self.head);
                account.map(|account| account.coins).unwrap_or_default()
            };
            let purse = purses.entry(from.clone()).or_insert_with(|| coins(&from));
            state::take(purse, &send.amount).map_err(|why| (index, 5, why))?;
            let purse = purses.entry(to.clone()).or_insert_with(|| coins(&to));
            for coin in &send.amount {
                let amount = purse.entry(coin.denom.clone()).or_default();
                *amount = amount.saturating_add(coin.amount);
            }
            out.push(Move { from, to, coins: &send.amount });
        }
        Ok(out)
    }

    /// Returns the gas that a transaction would use if it were delivered now, or its error.
    pub(crate) fn simulate(&self, tx: &Tx) -> Result<u64, Outcome> {
        let used = self.check(tx, false)?;
        self.tried(&tx.content.sends).map_err(|(index, code, why)| {
            let log = format!("failed to execute message; message index: {index}: {why}");
            Outcome { gas_used: used, ..Outcome::refused(code, log) }
        })?;
        Ok(used)
    }

    /// Returns the chain's own transactions in block `height`. Their signatures are random, since the keys do not
    /// exist.
    fn traffic(&self, height: u64) -> Vec<Entry> {
        let entry = |(n, transfer): (usize, state::Transfer)| {
            let id = height << 8 | n as u64;
            let coin = |amount| vec![Coin { denom: COIN.into(), amount }];
            let mut signature = self.seed.bytes::<64>("signature", id).to_vec();
            signature[32] &= 0x3f;
            let from = state::name(&transfer.from);
            let to = state::name(&transfer.to);
            let tx = Tx::new(Content {
                sends: vec![Send { from, to, amount: coin(transfer.amount) }],
                signers: vec![Signer {
                    key: Some(transfer.key),
                    mode: Mode::Direct,
                    sequence: transfer.sequence,
                }],
                fee: coin(RESIDENT_FEE),
                gas: RESIDENT_GAS,
                signatures: vec![signature],
                ..Content::default()
            });
            let outcome = Outcome { gas_used: gas(&tx), ..Outcome::default() };
            Entry { tx: Arc::new(tx), height, outcome }
        };
        self.state.transfers(height).into_iter().enumerate().map(entry).collect()
    }

    /// Reports whether block `height` may have a transfer from or to an address.
    pub(crate) fn may_concern(&self, height: u64, party: &Address) -> bool {
        let transfers = self.state.transfers(height);
        !self.included(height).is_empty()
            || transfers.iter().any(|transfer| transfer.from == *party || transfer.to == *party)
    }

    pub(crate) fn entries(&self, height: u64) -> Vec<Entry> {
        let mut out = self.traffic(height);
        out.extend_from_slice(self.included(height));
        out
    }

    /// Returns a transaction of a kept block.
    pub(crate) fn committed(&mut self, hash: &[u8; 32]) -> Option<Entry> {
        let lowest = self.oldest();
        if let Some((height, entry)) = self.find(hash) {
            return (height >= lowest).then(|| entry.clone());
        }
        for height in lowest.max(self.state.index.last + 1)..=self.head {
            for (n, entry) in self.traffic(height).into_iter().enumerate() {
                self.state.index.places.insert(entry.tx.hash, (height, n));
                self.state.index.order.push_back((height, entry.tx.hash));
            }
        }
        self.state.index.last = self.head;
        while let Some((_, old)) = self.state.index.order.pop_front_if(|(height, _)| *height < lowest) {
            self.state.index.places.remove(&old);
        }
        let (height, n) = self.state.index.places.get(hash).copied()?;
        self.traffic(height).into_iter().nth(n)
    }
}
