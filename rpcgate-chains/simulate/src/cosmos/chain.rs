//! The chain: the transactions of each block, and their outcomes.

use super::address::{self, ACCOUNT, Address};
use super::state::{self, COIN, RESIDENT_FEE, State};
use super::tx::{Coin, Content, Mode, Send, Signer, Tx, coins_text};
use crate::Submission;
use crate::inbox::Inbox;
use crate::seed::Seed;
use crate::timeline::Timeline;
use k256::ecdsa::signature::Verifier;
use k256::ecdsa::{Signature, VerifyingKey};
use rpcgate_core::clock::Time;
use std::collections::{BTreeMap, HashMap, VecDeque};
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

/// The positions of the chain's own transactions in the kept blocks; built on the first look-up.
#[derive(Debug, Default)]
struct Index {
    places: HashMap<[u8; 32], (u64, usize)>,
    order: VecDeque<(u64, [u8; 32])>,
    /// The last height in the index.
    last: u64,
}

#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) seed: Seed,
    pub(crate) state: State,
    pub(crate) inbox: Inbox,
    /// The height of the newest block.
    pub(crate) head: u64,
    timeline: Timeline,
    /// Waiting transactions, each with the height of the block that will include it.
    waiting: VecDeque<(u64, Arc<Tx>)>,
    included: BTreeMap<u64, Vec<Entry>>,
    places: HashMap<[u8; 32], (u64, usize)>,
    index: Index,
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
    pub(crate) fn new(seed: u64) -> Self {
        let seed = Seed::of("cosmos", seed);
        Chain {
            seed,
            state: State::new(seed, BASE),
            inbox: Inbox::default(),
            head: 0,
            timeline: Timeline::paced(seed, BASE, SLOT_MS, JITTER_MS),
            waiting: VecDeque::new(),
            included: BTreeMap::new(),
            places: HashMap::new(),
            index: Index::default(),
        }
    }

    pub(crate) fn height(&self, now: Time) -> u64 {
        self.timeline.height(now).max(self.head)
    }

    pub(crate) fn time(&self, height: u64) -> Time {
        self.timeline.time(height)
    }

    /// Returns the height of the oldest block that is kept.
    pub(crate) fn lowest(&self) -> u64 {
        self.head.saturating_sub(KEPT).max(1)
    }

    /// Advances to the blocks of `now` and includes the transactions that wait for them.
    pub(crate) fn advance(&mut self, now: Time) {
        self.head = self.height(now);
        while let Some((height, tx)) = self.waiting.pop_front_if(|(height, _)| *height <= self.head) {
            let outcome = self.deliver(&tx, height);
            let entries = self.included.entry(height).or_default();
            self.places.insert(tx.hash, (height, entries.len()));
            entries.push(Entry { tx, height, outcome });
        }
    }

    /// Takes a transaction into the next block, if it is valid there.
    pub(crate) fn submit(&mut self, raw: &[u8], now: Time) -> (Option<Arc<Tx>>, Outcome) {
        let tx = match Tx::decode(raw) {
            Ok(tx) => Arc::new(tx),
            Err(why) => return (None, Outcome::refused(2, format!("{why}: tx parse error"))),
        };
        if self.places.contains_key(&tx.hash) || self.waiting.iter().any(|(_, known)| known.hash == tx.hash) {
            return (Some(tx), Outcome::refused(19, "tx already in mempool"));
        }
        let outcome = match self.check(&tx, true) {
            Ok(_) => Outcome::default(),
            Err(outcome) => outcome,
        };
        if outcome.code == 0 {
            if self.inbox.take(now.max(self.time(self.head)), raw.to_vec()).is_none() {
                return (Some(tx), Outcome::refused(20, "mempool is full"));
            }
            self.waiting.push_back((self.head + 1, tx.clone()));
        }
        (Some(tx), outcome)
    }

    /// Replays the submissions of a node of the same chain.
    pub(crate) fn replay(&mut self, past: &[Submission]) {
        for Submission { moment, raw } in past {
            self.advance(*moment);
            // If the list was edited, a later transaction may lack its sequence or its coins.
            let _ = self.submit(raw, *moment);
        }
        self.inbox.begin_request();
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
            let (wanted, got) = (signers.len(), content.signatures.len());
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
        for (_, tx) in &self.waiting {
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
        let before = self.waiting.iter().filter(|(_, tx)| behind(tx)).count() as u64;
        let expected = account.sequence + before;
        if info.sequence != expected {
            let log = format!("account sequence mismatch, expected {expected}, got {}", info.sequence);
            return refuse(32, format!("{log}: incorrect account sequence"));
        }
        if !in_earnest {
            return Ok(());
        }
        let mut known = info.key.clone().or(account.key);
        let earlier = self.waiting.iter().flat_map(|(_, tx)| &tx.content.signers);
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
        let entry = |(n, turn): (usize, state::Turn)| {
            let id = height << 8 | n as u64;
            let coin = |amount| vec![Coin { denom: COIN.into(), amount }];
            let mut signature = self.seed.bytes::<64>("signature", id).to_vec();
            signature[32] &= 0x3f;
            let (from, to) = (state::name(&turn.from), state::name(&turn.to));
            let tx = Tx::new(Content {
                sends: vec![Send { from, to, amount: coin(turn.amount) }],
                signers: vec![Signer { key: Some(turn.key), mode: Mode::Direct, sequence: turn.sequence }],
                fee: coin(RESIDENT_FEE),
                gas: RESIDENT_GAS,
                signatures: vec![signature],
                ..Content::default()
            });
            let outcome = Outcome { gas_used: gas(&tx), ..Outcome::default() };
            Entry { tx: Arc::new(tx), height, outcome }
        };
        self.state.turns(height).into_iter().enumerate().map(entry).collect()
    }

    /// Reports whether block `height` may have a transfer from or to an address.
    pub(crate) fn may_concern(&self, height: u64, party: &Address) -> bool {
        let turns = self.state.turns(height);
        self.included.contains_key(&height)
            || turns.iter().any(|turn| turn.from == *party || turn.to == *party)
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Arc<Tx>> {
        self.waiting.iter().map(|(_, tx)| tx)
    }

    pub(crate) fn entries(&self, height: u64) -> Vec<Entry> {
        let mut out = self.traffic(height);
        out.extend(self.included.get(&height).into_iter().flatten().cloned());
        out
    }

    /// Returns a transaction of a kept block.
    pub(crate) fn find(&mut self, hash: &[u8; 32]) -> Option<Entry> {
        let lowest = self.lowest();
        if let Some((height, n)) = self.places.get(hash) {
            let entry = self.included.get(height)?.get(*n)?;
            return (entry.height >= lowest).then(|| entry.clone());
        }
        for height in lowest.max(self.index.last + 1)..=self.head {
            for (n, entry) in self.traffic(height).into_iter().enumerate() {
                self.index.places.insert(entry.tx.hash, (height, n));
                self.index.order.push_back((height, entry.tx.hash));
            }
        }
        self.index.last = self.head;
        while let Some((_, old)) = self.index.order.pop_front_if(|(height, _)| *height < lowest) {
            self.index.places.remove(&old);
        }
        let (height, n) = self.index.places.get(hash).copied()?;
        self.traffic(height).into_iter().nth(n)
    }
}
