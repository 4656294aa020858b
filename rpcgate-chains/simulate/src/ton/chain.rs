//! The chain: a masterchain, one workchain of accounts, and the messages to wallets.

use super::address::Address;
use super::cell::{Builder, Cell};
use super::message::{Message, Order, Step};
use crate::hash::is_signed_ed25519;
use crate::ledger::{BlockRules, Ledger, LedgerState};
use crate::seed::Seed;
use rpcgate_core::clock::Time;
use std::sync::Arc;

/// The height of the masterchain at the epoch.
const BASE: u64 = 55_000_000;
const SLOT_MS: u64 = 5_000;
const JITTER_MS: u64 = 1_500;
/// The offset of workchain block numbers. Each masterchain block has one workchain block.
const AHEAD: u64 = 5_300_000;
/// The logical time of a block.
const BLOCK_LT: u64 = 1_000_000;
/// Pairs of accounts that pay each other in turn, one pair in each block.
const PAIRS: u64 = 8;
/// The interval of an account's transactions whose hash is not the hash of their cell. It bounds the computation of an
/// account's history, which otherwise starts at its first transaction.
const ANCHOR: u64 = 64;
const TON: i64 = 1_000_000_000;

/// The number that distinguishes wallets of this version.
const WALLET_ID: u64 = 698_983_191;
/// Fees in nanotons: for running a wallet, for forwarding a message, and for receiving a payment.
const RUN_FEE: u64 = 77 + 3_308 * 400;
const FORWARD_FEE: u64 = 266_668;
const PAID_FEE: u64 = 77 + 309 * 400;
/// The fee that a resident pays for receiving a payment, including its external message about the payment.
const TOLD_FEE: u64 = PAID_FEE + FORWARD_FEE + FORWARD_FEE / 2;
/// The operation of a resident's message about a payment.
const PAYMENT: u64 = 0x9a3f_5c01;

/// Wallets of version 4 that hold 10,000 TON: their accounts and public keys. The seeds of the secret keys are the
/// numbers 1 to 4 as 32 bytes.
const DEVELOPERS: [(&str, &str); 4] = [
    (
        "24c6ec9b69e05f95b8185b7be042f70583201055c2ed5d9c1dae978b36acd9d3",
        "4cb5abf6ad79fbf5abbccafcc269d85cd2651ed4b885b5869f241aedf0a5ba29",
    ),
    (
        "69bb129be737020dc2a4fad24363661533d46e1b78a0263865b3dd150e730f11",
        "7422b9887598068e32c4448a949adb290d0f4e35b9e01b0ee5f1a1e600fe2674",
    ),
    (
        "b4c8d91be23a8b9fca3340ad189235bb22a5931511b1249b5f1769cbe18e30c5",
        "f381626e41e7027ea431bfe3009e94bdd25a746beec468948d6c3c7c5dc9a54b",
    ),
    (
        "56c20dd4ab3f125a20771feafd3fef57c1a9dc3ce6f6bff0b48c24d64d88be1b",
        "fd50b8e3b144ea244fbf7737f550bc8dd0c2650bbc1aada833ca17ff8dbf329b",
    ),
];

/// A wallet that exists from the start.
#[derive(Debug, Clone, Copy)]
struct Wallet {
    address: Address,
    key: [u8; 32],
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) step: Step,
    pub(super) cell: Arc<Cell>,
    pub(super) hash: [u8; 32],
}

/// The wallets, and what their owners ordered.
#[derive(Debug)]
pub(crate) struct Wallets {
    developers: Vec<Wallet>,
    residents: Vec<Wallet>,
    /// The transactions of clients' messages, by logical time.
    steps: Vec<Step>,
}

pub(super) type Chain = Ledger<Wallets>;

impl LedgerState for Wallets {
    type Entry = ();

    fn resubmit(chain: &mut Chain, raw: &[u8], moment: Time) {
        let _ = chain.submit(raw, moment);
    }
}

fn key(text: &str) -> Option<[u8; 32]> {
    hex::decode(text).ok()?.try_into().ok()
}

impl Chain {
    pub(super) fn of_seed(seed: u64) -> Self {
        let seed = Seed::of("ton", seed);
        let developer = |(account, public): &(&str, &str)| {
            Some(Wallet { address: Address::base(key(account)?), key: key(public)? })
        };
        let resident =
            |n| Wallet { address: Address::base(seed.bytes("resident", n)), key: seed.bytes("key", n) };
        let wallets = Wallets {
            developers: DEVELOPERS.iter().filter_map(developer).collect(),
            residents: (0..2 * PAIRS).map(resident).collect(),
            steps: Vec::new(),
        };
        let rules = BlockRules { slot_ms: SLOT_MS, jitter_ms: JITTER_MS, ..BlockRules::of(BASE) };
        Ledger::new(seed, rules, wallets)
    }

    /// Returns the newest block at or before a Unix time in seconds.
    pub(super) fn at(&self, secs: u64) -> u64 {
        self.height_at(Time::from_millis(secs.saturating_mul(1_000).saturating_add(999)))
    }

    /// Returns the logical time at which block `height` starts.
    pub(super) fn lt(height: u64) -> u64 {
        height * BLOCK_LT
    }

    /// Returns the block that contains a logical time.
    pub(super) fn of_lt(lt: u64) -> u64 {
        lt / BLOCK_LT
    }

    /// Returns the number of a block in its own chain, by its height in the masterchain.
    pub(super) fn seqno(workchain: i64, height: u64) -> u64 {
        if workchain == 0 { height + AHEAD } else { height }
    }

    /// Returns the masterchain height of a block of either chain.
    pub(super) fn of_seqno(workchain: i64, seqno: u64) -> Option<u64> {
        if workchain == 0 { seqno.checked_sub(AHEAD) } else { Some(seqno) }
    }

    fn wallet(&self, address: &Address) -> Option<&Wallet> {
        self.state.developers.iter().chain(&self.state.residents).find(|wallet| wallet.address == *address)
    }

    /// Returns the number of the last turn of a resident's pair up to block `height`.
    fn turn(pair: u64, height: u64) -> u64 {
        ((height + PAIRS - pair) / PAIRS).saturating_sub(1)
    }

    fn amount(&self, pair: u64, turn: u64) -> u64 {
        100_000_000 + self.seed.below("amount", pair << 48 | turn >> 1, 900_000_000_000)
    }

    /// Returns the chain's own two transactions in block `height`: one of a pair pays the other.
    fn own(&self, height: u64) -> [Step; 2] {
        let pair = height % PAIRS;
        let turn = height / PAIRS;
        let side = turn & 1;
        let payer = self.state.residents[(2 * pair + side) as usize].address;
        let payee = self.state.residents[(2 * pair + 1 - side) as usize].address;
        let lt = Chain::lt(height) + 1;
        let utime = self.secs(height);
        let order = Builder::default()
            .bytes(&self.seed.bytes::<32>("r", height))
            .bytes(&self.seed.bytes::<32>("s", height));
        let order = order.number(WALLET_ID, 32).number(utime + 60, 32).number(turn / 2, 32).number(3, 16);
        let outside = payer.write(Builder::default().number(0b1000, 4)).coins(0).number(0b01, 2);
        let external = Message::external(&outside.reference(order.done()).done());
        let external = external.unwrap_or_else(|_| Message::nothing(payer));
        let amount = self.amount(pair, turn);
        let tail = Builder::default().number(0, 2).done();
        let sent = Message::internal(payer, payee, amount, FORWARD_FEE, (lt + 1, utime), (true, &tail));
        let step = |account, lt, incoming, outgoing, fee| Step {
            account,
            lt,
            height,
            utime,
            incoming,
            outgoing,
            fee,
            is_active: true,
        };
        let fee = RUN_FEE + FORWARD_FEE + FORWARD_FEE / 2;
        let told = Builder::default().number(PAYMENT, 32).number(turn, 64).coins(amount).done();
        let told = Message::outside(payee, told, FORWARD_FEE, (lt + 3, utime));
        [step(payer, lt, external, vec![sent.clone()], fee), step(payee, lt + 2, sent, vec![told], TOLD_FEE)]
    }

    pub(super) fn block(&self, height: u64) -> Vec<Step> {
        let clients = self.state.steps.iter().filter(|step| step.height == height).cloned();
        self.own(height).into_iter().chain(clients).collect()
    }

    /// Returns at most `count` transactions of an account, from `lt` (by default the newest) down, excluding those at
    /// or before `to_lt`.
    pub(super) fn history(&self, account: &Address, lt: Option<u64>, to_lt: u64, count: usize) -> Vec<Entry> {
        let most = lt.unwrap_or(u64::MAX);
        let clients = self
            .state
            .steps
            .iter()
            .rev()
            .filter(|step| step.account == *account && step.height <= self.head && step.lt <= most);
        let mut clients = clients.peekable();
        let resident = self.state.residents.iter().position(|wallet| wallet.address == *account);
        let pair = resident.map(|place| place as u64 / 2);
        let start = self.head.min(Chain::of_lt(most));
        let mut next = pair.and_then(|pair| start.checked_sub((start + PAIRS - pair) % PAIRS));
        let mut found: Vec<(Step, bool)> = Vec::new();
        loop {
            let own =
                next.and_then(|height| self.own(height).into_iter().find(|step| step.account == *account));
            if own.as_ref().is_some_and(|step| step.lt > most) {
                next = next.and_then(|height| height.checked_sub(PAIRS));
                continue;
            }
            let is_clients = match (&own, clients.peek()) {
                (None, None) => break,
                (Some(own), Some(step)) => step.lt > own.lt,
                (own, _) => own.is_none(),
            };
            let step = if is_clients { clients.next().cloned() } else { own };
            let Some(step) = step else { break };
            let is_anchor = !is_clients && (step.height / PAIRS).is_multiple_of(ANCHOR);
            if !is_clients {
                next = next.and_then(|height| height.checked_sub(PAIRS));
            }
            let is_last = found.len() >= count && is_anchor;
            found.push((step, is_anchor));
            if is_last {
                break;
            }
        }
        let mut before = ([0; 32], 0);
        let mut out = Vec::new();
        for (step, is_anchor) in found.into_iter().rev() {
            let state = |lt| self.seed.bytes::<32>("state", lt);
            let cell = step.cell(before, (state(before.1), state(step.lt)));
            let hash = if is_anchor { self.seed.bytes("anchor", step.lt) } else { cell.hash };
            before = (hash, step.lt);
            out.push(Entry { step, cell, hash });
        }
        out.reverse();
        out.truncate(count);
        out.retain(|entry| entry.step.lt > to_lt);
        out
    }

    /// Returns the balance of an account in nanotons; `None` if it never received coins.
    pub(super) fn balance(&self, account: &Address) -> Option<u64> {
        let steps =
            self.state.steps.iter().filter(|step| step.account == *account && step.height <= self.head);
        let mut origin = None;
        if self.state.developers.iter().any(|wallet| wallet.address == *account) {
            origin = Some(10_000 * TON);
        } else if let Some(place) = self.state.residents.iter().position(|wallet| wallet.address == *account)
        {
            let pair = place as u64 / 2;
            let side = place as i64 % 2;
            let turn = Chain::turn(pair, self.head);
            let count = turn.cast_signed() + 1 - (BASE / PAIRS).cast_signed();
            let paying = (count + 1 - side).div_euclid(2);
            let fee = (RUN_FEE + FORWARD_FEE + FORWARD_FEE / 2).cast_signed();
            let fees = paying * fee + (count - paying) * TOLD_FEE.cast_signed();
            let open = if turn & 1 == 0 { self.amount(pair, turn).cast_signed() } else { 0 };
            origin = Some(1_000_000 * TON - fees + if side == 0 { -open } else { open });
        }
        let mut known = origin;
        for step in steps {
            let sent: u64 = step.outgoing.iter().map(|message| message.value).sum();
            let change = step.incoming.value.cast_signed() - sent.cast_signed() - step.fee.cast_signed();
            known = Some(known.unwrap_or(0) + change);
        }
        known.map(|balance| u64::try_from(balance).unwrap_or(0))
    }

    /// Returns the state of a wallet that exists from the start: its sequence number and public key.
    pub(super) fn wallet_state(&self, address: &Address) -> Option<(u64, [u8; 32])> {
        let wallet = self.wallet(address)?;
        let own = self.state.residents.iter().position(|resident| resident.address == *address);
        let paid = |place: usize| (Chain::turn(place as u64 / 2, self.head) + 2 - place as u64 % 2) / 2;
        let turns = own.map_or(0, paid);
        let orders = self.state.steps.iter().filter(|step| {
            step.account == *address && step.height <= self.head && step.incoming.source.is_none()
        });
        Some((turns + orders.count() as u64, wallet.key))
    }

    pub(super) fn data((seqno, key): (u64, [u8; 32])) -> Arc<Cell> {
        Builder::default().number(seqno, 32).number(WALLET_ID, 32).bytes(&key).bit(false).done()
    }

    /// Returns the number that distinguishes a wallet from others with the same key.
    pub(super) fn wallet_id() -> u64 {
        WALLET_ID
    }

    /// Takes an external message as the bytes of a bag; returns its hash, or the lite server's reason for refusing it.
    pub(super) fn submit(&mut self, bag: &[u8], now: Time) -> Result<[u8; 32], String> {
        let root = Cell::of_bag(bag).map_err(|why| format!("cannot deserialize bag-of-cells: {why}"))?;
        let message = Message::external(&root).map_err(str::to_owned)?;
        let moment = self.moment(now);
        let account = message.destination;
        let rejected = |what: String| {
            format!(
                "cannot apply external message to current state : External message was not accepted\nCannot run \
                 message on account: inbound external message rejected by account {} before smart-contract \
                 execution{what}",
                hex::encode_upper(account.account)
            )
        };
        let Some((seqno, key)) = self.wallet_state(&account) else {
            let why = "cannot apply external message to current state : Failed to unpack account state";
            return Err(why.into());
        };
        let exit = |code: u32| Err(rejected(format!("\nexitcode={code}, steps=62, gas_used=0")));
        let Some(order) = Order::read(&message.body) else {
            return exit(9);
        };
        if order.valid_until <= moment.secs() {
            return exit(36);
        }
        if order.seqno != seqno {
            return exit(33);
        }
        if order.wallet_id != WALLET_ID {
            return exit(34);
        }
        if !is_signed_ed25519(&key, &order.hash, &order.signature) {
            return exit(35);
        }
        if self.balance(&account).is_none_or(|balance| balance < RUN_FEE) {
            return Err(rejected(String::new()));
        }
        let is_waiting =
            self.state.steps.iter().any(|step| {
                step.account == account && step.height > self.head && step.incoming.source.is_none()
            });
        if is_waiting {
            // A second message with the same number is forwarded, but never enters a block.
            return Ok(root.hash);
        }
        if self.accept(bag.to_vec(), moment).is_none() {
            return Err("too many external messages in the queue".into());
        }
        self.run(message, &order);
        Ok(root.hash)
    }

    /// Executes an order in the next block. A wallet skips the payments that it cannot afford.
    fn run(&mut self, incoming: Message, order: &Order) {
        let account = incoming.destination;
        let height = self.head + 1;
        let utime = self.secs(height);
        let taken = self.state.steps.iter().filter(|step| step.height == height).count() as u64;
        let mut lt = Chain::lt(height) + 10 * (1 + taken);
        let mut left = self.balance(&account).unwrap_or(0).saturating_sub(RUN_FEE);
        let mut fee = RUN_FEE;
        let first = lt;
        let mut outgoing = Vec::new();
        for payment in &order.payments {
            let cost = FORWARD_FEE + FORWARD_FEE / 2;
            // Mode 128 sends the whole balance, from which the fee is deducted.
            let value = if payment.mode & 128 != 0 { left.saturating_sub(cost) } else { payment.value };
            if value.checked_add(cost).is_none_or(|all| all > left) {
                continue;
            }
            left -= value + cost;
            fee += cost;
            lt += 1;
            let head = (lt, utime);
            let tail = (payment.bounce, &payment.tail);
            outgoing.push(Message::internal(account, payment.destination, value, FORWARD_FEE, head, tail));
        }
        let mut arrivals = Vec::new();
        for message in &outgoing {
            lt += 1;
            let is_active = self.wallet(&message.destination).is_some();
            arrivals.push(Step {
                account: message.destination,
                lt,
                height,
                utime,
                incoming: message.clone(),
                outgoing: Vec::new(),
                fee: if is_active { PAID_FEE } else { 0 },
                is_active,
            });
        }
        self.state.steps.push(Step {
            account,
            lt: first,
            height,
            utime,
            incoming,
            outgoing,
            fee,
            is_active: true,
        });
        self.state.steps.extend(arrivals);
    }
}
