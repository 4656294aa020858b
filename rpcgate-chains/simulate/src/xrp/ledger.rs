//! The ledgers: their balances and transactions.

use super::fields::{
    BAD_AMOUNT, BAD_AUTH, DISABLED, EARLY, Engine, FULL, LOW_FEE, NO_ACCOUNT, NO_FEE, OTHER_NETWORK, PAST,
    PATH_DRY, REDUNDANT, SUCCESS, TOO_LATE, TOO_LITTLE, UNFUNDED, type_name,
};
use super::root::{Root, meta};
use super::settings::SettingsTraffic;
use super::wire::{Account, Fields, Hash, Malformed, Value, account_of, drops, half};
use crate::hash::is_signed_ed25519;
use crate::ledger::{BlockHistory, BlockRules, History, Ledger, LedgerState, Payment, ResidentTraffic};
use crate::seed::Seed;
use k256::ecdsa::signature::hazmat::PrehashVerifier;
use rpcgate_core::clock::Time;
use std::collections::HashMap;

/// The index of the newest ledger at the epoch of the simulated chains.
const BASE: u64 = 101_200_000;
/// The first ledger with traffic; older ones were pruned long ago.
const FIRST: u64 = BASE - 3_000_000;
/// The minimum number of ledgers that the server keeps: two weeks of them. It drops old ones in thousands.
const KEPT: u64 = 302_000;
const DROPPED: u64 = 1_000;
/// The seconds from the Unix epoch to that of the XRP Ledger, 2000-01-01T00:00:00Z.
pub(crate) const RIPPLE_EPOCH: u64 = 946_684_800;
/// The resolution of close times, in seconds.
pub(crate) const RESOLUTION: u64 = 10;
/// The minimum fee, and the reserve of an account, in drops.
pub(crate) const FEE: u64 = 10;
pub(crate) const RESERVE: u64 = 1_000_000;
pub(crate) const RESERVE_INCREMENT: u64 = 200_000;
const TRAFFIC_FEE: u64 = 12;
/// The total of all coins before any fee of this chain was burned.
const COINS: u64 = 99_985_700_000_000_000;
/// The account of the phrase "masterpassphrase", which owns everything on a fresh ledger.
pub(crate) const GENESIS: Account = [
    0xb5, 0xf7, 0x62, 0x79, 0x8a, 0x53, 0xd5, 0x43, 0xa0, 0x14, 0xca, 0xf8, 0xb2, 0x97, 0xcf, 0xf8, 0xf2,
    0xf9, 0x37, 0xe8,
];
const GENESIS_BALANCE: u64 = 1_000_000_000_000;
const RESIDENT_BALANCE: u64 = 50_000_000_000;

/// The changes of an account by clients.
#[derive(Debug, Clone, Copy)]
struct Change {
    /// The change of its balance over all time.
    gain: i64,
    sequence: Option<u64>,
    last: (Hash, u64),
}

/// A transaction in a ledger.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) tx: Fields,
    pub(crate) hash: Hash,
    pub(crate) meta: Fields,
    /// The amount that the destination received; `None` if it received nothing.
    pub(crate) delivered: Option<u64>,
}

/// A ledger's header.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) index: u64,
    pub(crate) hash: Hash,
    pub(crate) parent: Hash,
    pub(crate) coins: u64,
    pub(crate) tx_hash: Hash,
    pub(crate) account_hash: Hash,
    /// In seconds since the ledger's own epoch.
    pub(crate) close: u64,
    pub(crate) parent_close: u64,
}

/// The result of a submission.
#[derive(Debug)]
pub(crate) struct Submitted {
    pub(crate) tx: Fields,
    pub(crate) hash: Hash,
    pub(crate) engine: Engine,
}

/// The accounts: residents, and the changes by clients.
#[derive(Debug)]
pub(crate) struct Accounts {
    pub(crate) traffic: ResidentTraffic,
    residents: HashMap<Account, u64>,
    keys: Vec<[u8; 33]>,
    settings: SettingsTraffic,
    changes: History<Account, Change>,
    /// Fees of clients, cumulative.
    burned: BlockHistory<u64>,
}

pub(crate) type Chain = Ledger<Accounts>;

impl LedgerState for Accounts {
    type Entry = Entry;

    fn resubmit(chain: &mut Chain, raw: &[u8], moment: Time) {
        let _ = chain.submit(raw, moment);
    }
}

impl Chain {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let seed = Seed::of("xrp", seed);
        let traffic = ResidentTraffic::new(seed, 32, 4, FIRST, 90_000_000);
        let key = |n| {
            let mut key: [u8; 33] = seed.bytes("key", n);
            key[0] = 2 + (key[0] & 1);
            key
        };
        let keys: Vec<[u8; 33]> = (0..traffic.residents()).map(key).collect();
        let settings = SettingsTraffic::new(seed, key(traffic.residents()), FIRST);
        let residents = keys.iter().zip(0..).map(|(key, n)| (account_of(key), n)).collect();
        let changes = History::default();
        let burned = BlockHistory::default();
        let rules = BlockRules { base: BASE, slot_ms: 4_000, jitter_ms: 900, first: FIRST, kept: KEPT };
        Ledger::new(seed, rules, Accounts { traffic, residents, keys, settings, changes, burned })
    }

    /// Returns the index of the oldest ledger that the server keeps.
    pub(crate) fn oldest_ledger(&self) -> u64 {
        (self.oldest() / DROPPED * DROPPED).max(FIRST)
    }

    pub(crate) fn hash(&self, index: u64) -> Hash {
        self.seed.hide("ledger", index)
    }

    /// Returns the index of a ledger that the server keeps.
    pub(crate) fn index_of(&self, hash: &Hash) -> Option<u64> {
        self.seed.reveal("ledger", hash).filter(|index| self.has(*index))
    }

    pub(crate) fn has(&self, index: u64) -> bool {
        (self.oldest_ledger()..=self.head).contains(&index)
    }

    /// Returns the close time of a ledger, rounded to the resolution; equal times are moved apart by a second.
    fn close(&self, index: u64) -> u64 {
        let rounded = |index| (self.time(index).secs() + RESOLUTION / 2) / RESOLUTION * RESOLUTION;
        let own = rounded(index);
        let alike = (1..RESOLUTION).take_while(|back| rounded(index - back) == own).count() as u64;
        own + alike - RIPPLE_EPOCH
    }

    /// Seconds since a ledger was closed.
    pub(crate) fn age(&self, index: u64, now: Time) -> u64 {
        now.since(self.time(index)).as_secs()
    }

    pub(crate) fn header(&self, index: u64) -> Header {
        let hashes: Vec<Hash> = self.entries(index).iter().map(|entry| entry.hash).collect();
        Header {
            index,
            hash: self.hash(index),
            parent: self.hash(index - 1),
            coins: COINS
                - TRAFFIC_FEE * (self.state.traffic.count_at(index) + self.state.settings.count_at(index))
                - self.burned(index),
            tx_hash: half(&[&hashes.concat()]),
            account_hash: self.seed.bytes("accounts", index),
            close: self.close(index),
            parent_close: self.close(index - 1),
        }
    }

    fn burned(&self, index: u64) -> u64 {
        self.state.burned.at(index).copied().unwrap_or(0)
    }

    /// Returns the transactions of a ledger, including the open one.
    pub(crate) fn entries(&self, index: u64) -> Vec<Entry> {
        let mut out: Vec<Entry> = Vec::new();
        if index <= self.head {
            out.extend(self.state.traffic.of_block(index).map(|payment| self.resident_entry(payment)));
            out.extend(self.settings_entry(index));
        }
        out.extend_from_slice(self.included(index));
        out
    }

    /// Returns a transaction and its ledger, which is the open one while it waits.
    pub(crate) fn transaction(&self, hash: &Hash) -> Option<(u64, Entry)> {
        if let Some((index, entry)) = self.find(hash) {
            return Some((index, entry.clone()));
        }
        if let Some(index) = self.state.settings.find(hash) {
            return if self.has(index) { Some((index, self.settings_entry(index)?)) } else { None };
        }
        let number = self.seed.reveal("transaction", hash)?;
        let (index, _) = self.state.traffic.position(number);
        self.has(index).then(|| (index, self.resident_entry(self.state.traffic.payment(number))))
    }

    fn resident(&self, n: u64) -> Account {
        self.state.keys.get(n as usize).map(|key| account_of(key)).unwrap_or_default()
    }

    /// Returns resident `n` after the first `count` payments, without the changes by clients.
    fn resident_root(&self, n: u64, passed: u64) -> Root {
        let balance = self.state.traffic.balance(n, passed);
        let paid = balance.sent * TRAFFIC_FEE;
        Root {
            balance: RESIDENT_BALANCE.saturating_sub(paid).saturating_add_signed(balance.gain),
            sequence: self.seed.below("sequence", n, 9_000_000) + 70_000_000 + balance.sent,
            last: balance
                .last
                .map(|number| (self.seed.hide("transaction", number), self.state.traffic.position(number).0))
                .unwrap_or_default(),
        }
    }

    fn change(&self, account: &Account, index: u64) -> Option<Change> {
        self.state.changes.at(account, index).copied()
    }

    fn joined(base: Option<Root>, change: Option<Change>) -> Option<Root> {
        let Some(change) = change else { return base };
        let base = base.unwrap_or(Root { balance: 0, sequence: change.sequence?, last: change.last });
        Some(Root {
            balance: base.balance.saturating_add_signed(change.gain),
            sequence: change.sequence.unwrap_or(base.sequence),
            last: if change.last.1 >= base.last.1 { change.last } else { base.last },
        })
    }

    /// Returns an account as of ledger `index`, which may be the open one.
    pub(crate) fn root(&self, account: &Account, index: u64) -> Option<Root> {
        let base = if *account == GENESIS {
            Some(Root { balance: GENESIS_BALANCE, sequence: 1, last: ([0; 32], 0) })
        } else if *account == self.state.settings.account {
            let count = self.state.settings.count_at(index.min(self.head));
            let balance = RESIDENT_BALANCE.saturating_sub(count * TRAFFIC_FEE);
            Some(Root {
                balance,
                sequence: self.state.settings.sequence(count),
                last: self.state.settings.last(count),
            })
        } else {
            let passed = self.state.traffic.count_at(index.min(self.head));
            self.state.residents.get(account).map(|n| self.resident_root(*n, passed))
        };
        Chain::joined(base, self.change(account, index))
    }

    fn resident_entry(&self, payment: Payment) -> Entry {
        let (index, place) = self.state.traffic.position(payment.number);
        let from = self.resident(payment.payer);
        let to = self.resident(payment.payee);
        let root = |n, account: &Account, passed| {
            Chain::joined(Some(self.resident_root(n, passed)), self.change(account, index - 1))
        };
        let signature: [u8; 70] = self.seed.bytes("signature", payment.number);
        let before = root(payment.payer, &from, payment.number);
        let tx = Fields::default()
            .with("TransactionType", Value::Number(0))
            .with("Flags", Value::Number(0))
            .with("Sequence", Value::Number(before.map_or(0, |root| root.sequence)))
            .with("LastLedgerSequence", Value::Number(index + 18))
            .with("Amount", drops(payment.amount))
            .with("Fee", drops(TRAFFIC_FEE))
            .with(
                "SigningPubKey",
                Value::Bytes(
                    self.state.keys.get(payment.payer as usize).map(|key| key.to_vec()).unwrap_or_default(),
                ),
            )
            .with("TxnSignature", Value::Bytes(signature.to_vec()))
            .with("Account", Value::Bytes(from.to_vec()))
            .with("Destination", Value::Bytes(to.to_vec()));
        let nodes = [
            (from, before, root(payment.payer, &from, payment.number + 1)),
            (to, root(payment.payee, &to, payment.number), root(payment.payee, &to, payment.number + 1)),
        ];
        let hash = self.seed.hide("transaction", payment.number);
        Entry { tx, hash, meta: meta(&nodes, place, SUCCESS), delivered: Some(payment.amount) }
    }

    fn settings_entry(&self, index: u64) -> Option<Entry> {
        let account = self.state.settings.account;
        let place = self.state.traffic.of_block(index).count();
        let before = self.root(&account, index - 1);
        let sequence = before.map_or(0, |root| root.sequence);
        let (tx, hash) = self.state.settings.transaction(index, sequence, TRAFFIC_FEE)?;
        let after = before.map(|root| Root {
            balance: root.balance.saturating_sub(TRAFFIC_FEE),
            sequence: sequence + 1,
            ..root
        });
        Some(Entry { tx, hash, meta: meta(&[(account, before, after)], place, SUCCESS), delivered: None })
    }

    /// Reads a signed transaction and, if it is valid, puts it into the open ledger.
    pub(crate) fn submit(&mut self, raw: &[u8], now: Time) -> Result<Submitted, Malformed> {
        let tx = Fields::decode(raw)?;
        let missing = Malformed("Field not found");
        let kind =
            tx.number("TransactionType").and_then(type_name).ok_or(Malformed("Invalid transaction type"))?;
        let account = tx.account("Account").ok_or(missing)?;
        let fee = tx.drops("Fee").ok_or(missing)?;
        let sequence = tx.number("Sequence").ok_or(missing)?;
        let key = tx.bytes("SigningPubKey").ok_or(missing)?.to_vec();
        if !is_signed(&tx, &key) {
            return Err(Malformed("fails local checks: Invalid signature."));
        }
        let hash = half(&[b"TXN\0", &tx.encode()]);
        let open = self.head + 1;
        let engine = self.check(&tx, kind, account, fee, sequence, &key)?;
        let mut submitted = Submitted { tx, hash, engine };
        if engine.enters() {
            if self.accept(raw.to_vec(), now).is_none() {
                submitted.engine = FULL;
                return Ok(submitted);
            }
            self.apply(&submitted, account, fee, sequence, open);
        }
        Ok(submitted)
    }

    /// Runs rippled's checks in their order.
    fn check(
        &self,
        tx: &Fields,
        kind: &str,
        account: Account,
        fee: u64,
        sequence: u64,
        key: &[u8],
    ) -> Result<Engine, Malformed> {
        let open = self.head + 1;
        if tx.number("NetworkID").is_some() {
            return Ok(OTHER_NETWORK);
        }
        if !matches!(kind, "Payment" | "AccountSet") {
            return Ok(DISABLED);
        }
        let mut issued = false;
        if kind == "Payment" {
            let amount = tx.bytes("Amount").ok_or(Malformed("Field not found"))?;
            issued = amount.len() == 48;
            let to = tx.account("Destination").ok_or(Malformed("Field not found"))?;
            if !issued && tx.drops("Amount").is_none_or(|amount| amount == 0) {
                return Ok(BAD_AMOUNT);
            }
            if to == account && !issued {
                return Ok(REDUNDANT);
            }
        }
        let Some(root) = self.root(&account, open) else { return Ok(NO_ACCOUNT) };
        if sequence != root.sequence {
            return Ok(if sequence < root.sequence { PAST } else { EARLY });
        }
        if tx.number("LastLedgerSequence").is_some_and(|last| last < open) {
            return Ok(TOO_LATE);
        }
        if fee < FEE {
            return Ok(LOW_FEE);
        }
        if root.balance < fee {
            return Ok(NO_FEE);
        }
        if account_of(key) != account {
            return Ok(BAD_AUTH);
        }
        if issued {
            return Ok(PATH_DRY);
        }
        let (Some(amount), Some(to)) = (tx.drops("Amount"), tx.account("Destination")) else {
            return Ok(SUCCESS);
        };
        if self.root(&to, open).is_none() && amount < RESERVE {
            return Ok(TOO_LITTLE);
        }
        Ok(if root.balance < amount.saturating_add(fee.max(RESERVE)) { UNFUNDED } else { SUCCESS })
    }

    fn apply(&mut self, submitted: &Submitted, account: Account, fee: u64, sequence: u64, open: u64) {
        let Submitted { tx, hash, engine } = submitted;
        let moved = match (engine == &SUCCESS, tx.drops("Amount"), tx.account("Destination")) {
            (true, Some(amount), Some(to)) => Some((amount, to)),
            _ => None,
        };
        let spent = fee + moved.map_or(0, |(amount, _)| amount);
        let last = (*hash, open);
        let mut nodes = Vec::new();
        let before = self.root(&account, open);
        self.alter(account, open, -(spent as i64), Some(sequence + 1), last);
        nodes.push((account, before, self.root(&account, open)));
        if let Some((amount, to)) = moved {
            let before = self.root(&to, open);
            // The first sequence number of a new account is the index of the ledger that created it.
            self.alter(to, open, amount as i64, before.is_none().then_some(open), last);
            nodes.push((to, before, self.root(&to, open)));
        }
        let place = self.included(open).len()
            + self.state.traffic.of_block(open).count()
            + usize::from(self.state.settings.is_due(open));
        let delivered = moved.map(|(amount, _)| amount);
        let meta = meta(&nodes, place, *engine);
        self.include(open, *hash, Entry { tx: tx.clone(), hash: *hash, meta, delivered });
        let sum = self.burned(open) + fee;
        self.state.burned.set(open, sum);
    }

    fn alter(&mut self, account: Account, height: u64, gain: i64, sequence: Option<u64>, last: (Hash, u64)) {
        let before = self.change(&account, height);
        let change = Change {
            gain: before.map_or(0, |change| change.gain).saturating_add(gain),
            sequence: sequence.or(before.and_then(|change| change.sequence)),
            last,
        };
        self.state.changes.set(account, height, change);
    }
}

/// Reports whether the signature of a transaction matches the key that it names.
fn is_signed(tx: &Fields, key: &[u8]) -> bool {
    let Some(signature) = tx.bytes("TxnSignature") else { return false };
    let body = [b"STX\0", tx.unsigned().as_slice()].concat();
    if let [0xed, point @ ..] = key {
        return is_signed_ed25519(point, &body, signature);
    }
    let key = k256::ecdsa::VerifyingKey::from_sec1_bytes(key);
    let signature = k256::ecdsa::Signature::from_der(signature);
    match (key, signature) {
        (Ok(key), Ok(signature)) => key.verify_prehash(&half(&[&body]), &signature).is_ok(),
        _ => false,
    }
}
