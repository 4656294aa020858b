//! Checkpoints, coins and the transactions that move them.

use super::program::{Change, Coin};
use super::tx::{Id, Program, Reference, Tx, blake, unpack};
use crate::ledger::{BlockRules, EPOCH, Ledger, LedgerState, Payment, ResidentTraffic};
use crate::seed::Seed;
use rpcgate_core::clock::Time;
use std::collections::{BTreeMap, HashMap};

/// The checkpoint and epoch at the epoch of the simulated chains.
const BASE: u64 = 231_000_000;
const BASE_EPOCH: u64 = 994;
/// The first checkpoint with traffic; older ones were pruned long ago.
const FIRST: u64 = BASE - 40_000_000;
/// The number of transactions before that.
const EARLIER: u64 = 4_300_000_000;
/// The number of checkpoints that are kept: a month of them.
const KEPT: u64 = 10_368_000;
/// The price of a unit of gas, in MIST.
pub(crate) const PRICE: u64 = 750;
/// The computation units of a small transaction.
pub(crate) const UNITS: u64 = 1_000;
/// The fee for storing a coin, its refundable part, and its non-refundable part.
const STORED: u64 = 988_000;
const REBATE: u64 = 978_120;
const LOST: u64 = STORED - REBATE;
const SUI: u64 = 1_000_000_000;
/// The version of residents' coins before their first turn.
const FIRST_VERSION: u64 = 600_000_000;
/// The owner of the coins that every client can spend: the address of the Ed25519 key whose secret is 1.
const FAUCET_KEY: &str = "4cb5abf6ad79fbf5abbccafcc269d85cd2651ed4b885b5869f241aedf0a5ba29";
const FAUCET_COINS: u64 = 10;
/// The pair of residents that call the package which records payments.
const RECORDING_PAIR: u64 = 7;

/// The parts of a gas charge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gas {
    pub(crate) computation: u64,
    pub(crate) storage: u64,
    pub(crate) rebate: u64,
    pub(crate) lost: u64,
}

impl Gas {
    /// Returns the charge of a transaction that writes and deletes these numbers of coins.
    pub(crate) fn of(price: u64, written: u64, taken: u64) -> Gas {
        Gas {
            computation: price * UNITS,
            storage: written * STORED,
            rebate: taken * REBATE,
            lost: taken * LOST,
        }
    }

    /// Returns the amount that the payer loses.
    pub(crate) fn net(self) -> i128 {
        i128::from(self.computation) + i128::from(self.storage) - i128::from(self.rebate)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) tx: Tx,
    pub(crate) raw: Vec<u8>,
    pub(crate) digest: Id,
    /// The signatures as bytes, as they were sent.
    pub(crate) signatures: Vec<Vec<u8>>,
    pub(crate) checkpoint: u64,
    pub(crate) failure: Option<String>,
    pub(crate) gas: Gas,
    /// The coin that paid the gas.
    pub(crate) gas_coin: Id,
    pub(crate) changes: Vec<Change>,
    pub(crate) dependencies: Vec<Id>,
    /// The results of each command.
    pub(crate) results: Vec<Vec<(Id, u64)>>,
    /// The payment that the package recorded: the only Move event of the chain.
    pub(crate) recorded: Option<Recorded>,
}

/// A payment that the package recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recorded {
    pub(crate) package: Id,
    pub(crate) coin: Id,
    pub(crate) from: Id,
    pub(crate) to: Id,
    pub(crate) value: u64,
}

/// The objects, which are coins.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) traffic: ResidentTraffic,
    addresses: Vec<Id>,
    /// Residents' coins by id: `true` for one that pays gas, and its owner.
    ids: HashMap<Id, (bool, u64)>,
    /// Coins that clients changed, with the transaction that changed them; `None` for a deleted one.
    pub(crate) coins: BTreeMap<Id, (Option<Coin>, Id)>,
    /// The last version of deleted coins.
    pub(crate) gone: HashMap<Id, u64>,
}

pub(crate) type Chain = Ledger<Objects>;

impl LedgerState for Objects {
    type Entry = Entry;

    fn resubmit(chain: &mut Chain, raw: &[u8], moment: Time) {
        if let Some([tx, signatures @ ..]) = unpack(raw).as_deref() {
            let _ = chain.execute(tx, signatures.to_vec(), moment);
        }
    }
}

/// Returns the digest of a coin's content at a version.
pub(crate) fn object_digest(id: &Id, version: u64) -> Id {
    blake(&[b"Object::", id, &version.to_le_bytes()])
}

pub(crate) fn reference(id: Id, version: u64) -> Reference {
    (id, version, object_digest(&id, version))
}

impl Chain {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let seed = Seed::of("sui", seed);
        let traffic = ResidentTraffic::new(seed, 8, 1, FIRST, 1);
        let key = |n| seed.bytes::<32>("key", n);
        let addresses: Vec<Id> = (0..traffic.residents()).map(|n| blake(&[&[0], &key(n)])).collect();
        let mut ids = HashMap::new();
        for n in 0..traffic.residents() {
            ids.insert(seed.bytes("gas", n), (true, n));
            ids.insert(seed.bytes("coin", n / 2), (false, n / 2));
        }
        let faucet = blake(&[&[0], &hex::decode(FAUCET_KEY).unwrap_or_default()]);
        let coins = (0..FAUCET_COINS)
            .map(|n| {
                let coin = Coin { version: 1, owner: faucet, balance: 1_000 * SUI };
                (seed.bytes("faucet", n), (Some(coin), seed.bytes("genesis", 0)))
            })
            .collect();
        let rules = BlockRules { base: BASE, slot_ms: 250, jitter_ms: 90, first: FIRST, kept: KEPT };
        Ledger::new(seed, rules, Objects { traffic, addresses, ids, coins, gone: HashMap::new() })
    }

    /// Returns the epoch of a checkpoint; an epoch lasts a day.
    pub(crate) fn epoch(&self, checkpoint: u64) -> u64 {
        (BASE_EPOCH + self.time(checkpoint).day()).saturating_sub(EPOCH.day())
    }

    /// Returns the gas of all transactions of an epoch, up to a checkpoint.
    pub(crate) fn rolling(&self, checkpoint: u64) -> Gas {
        let day = self.time(checkpoint).day();
        let before = self.height_at(Time::from_secs(day * 86_400 - 1)).max(FIRST - 1);
        let count = self.state.traffic.count_at(checkpoint) - self.state.traffic.count_at(before);
        let own = Gas::of(PRICE, 2 * count, 2 * count);
        let mut sum = Gas { computation: PRICE * UNITS * count, ..own };
        for entry in self.included_in(before + 1..=checkpoint).flat_map(|(_, entries)| entries) {
            sum.computation += entry.gas.computation;
            sum.storage += entry.gas.storage;
            sum.rebate += entry.gas.rebate;
            sum.lost += entry.gas.lost;
        }
        sum
    }

    /// Returns the number of transactions up to a checkpoint.
    pub(crate) fn total(&self, checkpoint: u64) -> u64 {
        let clients: usize = self.included_in(..=checkpoint).map(|(_, entries)| entries.len()).sum();
        EARLIER + self.state.traffic.count_at(checkpoint) + clients as u64
    }

    pub(crate) fn checkpoint_digest(&self, checkpoint: u64) -> Id {
        self.seed.hide("checkpoint", checkpoint)
    }

    /// Returns the number of a checkpoint, by its digest.
    pub(crate) fn checkpoint_of(&self, digest: &Id) -> Option<u64> {
        self.seed.reveal("checkpoint", digest)
    }

    /// Returns the digests of a checkpoint's transactions.
    pub(crate) fn listed(&self, checkpoint: u64) -> Vec<Id> {
        let mut out: Vec<Id> = self
            .state
            .traffic
            .of_block(checkpoint)
            .map(|payment| self.seed.hide("transaction", payment.number))
            .collect();
        out.extend(self.included(checkpoint).iter().map(|entry| entry.digest));
        out
    }

    /// Returns an executed transaction, in a checkpoint or not yet.
    pub(crate) fn transaction(&self, digest: &Id) -> Option<Entry> {
        if let Some((_, entry)) = self.find(digest) {
            return Some(entry.clone());
        }
        let number = self.seed.reveal("transaction", digest)?;
        let traffic = self.state.traffic;
        let (checkpoint, _) = traffic.position(number);
        (self.oldest()..=self.head)
            .contains(&checkpoint)
            .then(|| self.resident_entry(traffic.payment(number)))
    }

    /// Returns the package that records payments. Only residents can call it.
    pub(crate) fn recorder(&self) -> Id {
        self.seed.bytes("recorder", 0)
    }

    fn resident(&self, n: u64) -> Id {
        self.state.addresses.get(n as usize).copied().unwrap_or_default()
    }

    /// Returns the coin with which resident `n` pays gas, after its pair's first `rounds` turns.
    fn gas_coin(&self, n: u64, rounds: u64) -> (Coin, Option<u64>) {
        // The first of a pair pays in the even rounds.
        let sent = if n.is_multiple_of(2) { rounds.div_ceil(2) } else { rounds / 2 };
        let last = sent.checked_sub(1).map(|before| 2 * before + (n & 1));
        let spent = Gas::of(PRICE, 2, 2).net() * i128::from(sent);
        let balance = i128::from(20_000_000 * SUI) - spent;
        let version = FIRST_VERSION + last.map_or(0, |round| round + 1);
        let balance = u64::try_from(balance).unwrap_or(0);
        (Coin { version, owner: self.resident(n), balance }, last)
    }

    /// Returns the coin that a pair passes back and forth, after `rounds` turns.
    fn traded_coin(&self, pair: u64, rounds: u64) -> (Coin, Option<u64>) {
        let owner = self.resident(2 * pair + (rounds & 1));
        let balance = SUI + self.seed.below("ball", pair, 9 * SUI);
        (Coin { version: FIRST_VERSION + rounds, owner, balance }, rounds.checked_sub(1))
    }

    fn resident_entry(&self, payment: Payment) -> Entry {
        let Payment { pair, round, payer, payee, number, .. } = payment;
        let (traded, gas_id): (Id, Id) = (self.seed.bytes("coin", pair), self.seed.bytes("gas", payer));
        let ((before, last), (after, _)) = (self.traded_coin(pair, round), self.traded_coin(pair, round + 1));
        let ((paid, paid_last), (left, _)) = (self.gas_coin(payer, round), self.gas_coin(payer, round + 1));
        let from = self.resident(payer);
        let to = self.resident(payee);
        let recorded = (pair == RECORDING_PAIR).then(|| Recorded {
            package: self.recorder(),
            coin: traded,
            from,
            to,
            value: before.balance,
        });
        let raw = Tx::handing_over(
            reference(traded, before.version),
            (&from, &to),
            reference(gas_id, paid.version),
            PRICE,
            5_000_000,
            recorded.as_ref().map(|recorded| &recorded.package),
        );
        let program = Program { inputs: Vec::new(), commands: Vec::new() };
        let tx = Tx::decode(&raw).unwrap_or(Tx {
            program,
            sender: self.resident(payer),
            payment: Vec::new(),
            owner: self.resident(payer),
            price: PRICE,
            budget: 0,
            expires: None,
        });
        let mut signature = vec![0];
        signature.extend_from_slice(&self.seed.bytes::<64>("signature", number));
        signature.extend_from_slice(&self.seed.bytes::<32>("key", payer));
        let of_round = |round: u64| self.seed.hide("transaction", round * 8 + pair);
        let mut dependencies: Vec<Id> = last.into_iter().chain(paid_last).map(of_round).collect();
        dependencies.dedup();
        Entry {
            digest: self.seed.hide("transaction", number),
            checkpoint: self.state.traffic.position(number).0,
            failure: None,
            gas: Gas::of(PRICE, 2, 2),
            gas_coin: gas_id,
            changes: vec![
                Change { id: traded, before: Some(before), after: Some(after) },
                Change { id: gas_id, before: Some(paid), after: Some(left) },
            ],
            dependencies,
            results: vec![Vec::new(); tx.program.commands.len()],
            recorded,
            signatures: vec![signature],
            tx,
            raw,
        }
    }

    /// Returns the current state of a coin, and the transaction that last changed it.
    pub(crate) fn coin(&self, id: &Id) -> Option<(Coin, Id)> {
        if let Some((coin, digest)) = self.state.coins.get(id) {
            return coin.map(|coin| (coin, *digest));
        }
        let (is_gas, n) = *self.state.ids.get(id)?;
        let pair = if is_gas { n / 2 } else { n };
        let rounds = self.state.traffic.rounds(pair, self.state.traffic.count_at(self.head));
        let (coin, last) = if is_gas { self.gas_coin(n, rounds) } else { self.traded_coin(n, rounds) };
        let digest = last.map_or_else(
            || self.seed.bytes("genesis", 0),
            |round| self.seed.hide("transaction", round * 8 + pair),
        );
        Some((coin, digest))
    }

    pub(crate) fn last_version(&self, id: &Id) -> Option<u64> {
        self.state.gone.get(id).copied()
    }

    /// Returns all coins of an owner, ordered by id.
    pub(crate) fn coins_of(&self, owner: &Id) -> Vec<(Id, Coin, Id)> {
        let own = self.state.coins.iter().filter_map(|(id, (coin, digest))| Some((*id, (*coin)?, *digest)));
        let theirs = self
            .state
            .addresses
            .iter()
            .zip(0..)
            .filter(|(address, _)| *address == owner)
            .flat_map(|(_, n): (_, u64)| [self.seed.bytes("gas", n), self.seed.bytes("coin", n / 2)])
            .filter_map(|id| self.coin(&id).map(|(coin, digest)| (id, coin, digest)));
        let mut all: Vec<_> = own.chain(theirs).filter(|(_, coin, _)| coin.owner == *owner).collect();
        all.sort_by_key(|(id, ..)| *id);
        all
    }
}
