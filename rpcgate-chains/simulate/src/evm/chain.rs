//! The chain: the transactions of each block.

use super::network::{Address, Layout, Network, Word};
use super::params::BlockId;
use super::pool::Pool;
use super::state::{Accounts, KEPT};
use super::token::{self, Effect};
use super::tx::{Tx, keccak};
use crate::envelope::Fault;
use crate::ledger::{BlockRules, Ledger, LedgerState};
use crate::seed::Seed;
use rpcgate_core::clock::Time;

/// The number of included client transactions that are remembered.
const REMEMBERED: usize = 10_000;

/// A log, without its position in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) address: Address,
    pub(crate) topics: Vec<Word>,
    pub(crate) data: Vec<u8>,
}

/// A transaction in a block, with its result.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) tx: Tx,
    pub(crate) from: Address,
    pub(crate) gas_used: u64,
    pub(crate) success: bool,
    pub(crate) logs: Vec<Log>,
    pub(crate) created: Option<Address>,
}

#[derive(Debug)]
pub(crate) struct EvmState {
    pub(crate) network: &'static Network,
    pub(crate) accounts: Accounts,
    pub(crate) pool: Pool,
}

pub(crate) type Chain = Ledger<EvmState>;

impl LedgerState for EvmState {
    type Entry = Entry;

    /// Includes transactions of the pool. The content of a block does not depend on the times at which clients read.
    fn advance(chain: &mut Chain, target: u64) {
        while chain.head < target {
            if !chain.state.pool.may_enter(&chain.state.accounts, chain.head, chain.least_base_fee()) {
                chain.head = target;
                return;
            }
            // Every few thousand blocks the base fee falls to its minimum, and some blocks have no traffic. A valid
            // transaction then enters at the latest, which bounds this loop.
            chain.head += 1;
            chain.fill(chain.head);
        }
    }

    fn resubmit(chain: &mut Chain, raw: &[u8], _: Time) {
        let _ = chain.submit(raw);
    }
}

impl Chain {
    pub(crate) fn of_network(network: &'static Network, seed: u64) -> Self {
        let seed = Seed::of(network.name, seed);
        let accounts = Accounts::new(network, seed);
        Ledger::new(seed, BlockRules::of(network.base), EvmState { network, accounts, pool: Pool::default() })
    }

    /// Includes the transactions of the pool that fit into block `height`.
    fn fill(&mut self, height: u64) {
        let base_fee = self.base_fee(height);
        let traffic: u64 = self.traffic(height).iter().map(|entry| entry.gas_used).sum();
        let mut room = self.state.network.gas_limit.saturating_sub(traffic);
        while let Some((tx, from)) = self.state.pool.next(&self.state.accounts, height, base_fee, room) {
            let entry = self.execute(tx, from, height, base_fee);
            room = room.saturating_sub(entry.gas_used);
            self.include(height, entry.tx.hash, entry);
        }
        self.forget(REMEMBERED);
    }

    fn execute(&mut self, tx: Tx, from: Address, height: u64, base_fee: u128) -> Entry {
        let mut gas_used = tx.intrinsic_gas();
        let mut entry = Entry { tx, from, gas_used, success: true, logs: Vec::new(), created: None };
        let nonce = entry.tx.nonce;
        match entry.tx.to {
            None => {
                let address = created_address(&from, nonce);
                gas_used += 200 * entry.tx.input.len() as u64;
                self.state.accounts.deploy(address, height, &entry.tx.input);
                entry.created = Some(address);
            }
            Some(to) if to == self.state.network.token && !entry.tx.input.is_empty() => {
                gas_used += TOKEN_GAS;
                match token::call(self.state.network, &self.state.accounts, height, from, &entry.tx.input) {
                    Ok(outcome) if entry.tx.value == 0 => {
                        if let Some(effect) = outcome.effect {
                            entry.logs.push(self.apply(effect, height));
                        }
                    }
                    _ => entry.success = false,
                }
            }
            Some(_) => {}
        }
        if gas_used > entry.tx.gas {
            entry.success = false;
            entry.logs.clear();
            entry.created = None;
        }
        entry.gas_used = gas_used.min(entry.tx.gas);
        let fee = entry.tx.price(base_fee).saturating_mul(u128::from(entry.gas_used));
        let value = if entry.success { entry.tx.value } else { 0 };
        self.state.accounts.change(&from, height, |account| {
            account.nonce = nonce + 1;
            account.balance = account.balance.saturating_sub(fee).saturating_sub(value);
        });
        if let Some(to) = entry.tx.to.or(entry.created) {
            self.state
                .accounts
                .change(&to, height, |account| account.balance = account.balance.saturating_add(value));
        }
        entry
    }

    fn apply(&mut self, effect: Effect, height: u64) -> Log {
        let address = self.state.network.token;
        match effect {
            Effect::Transfer { from, to, amount, spender } => {
                self.state
                    .accounts
                    .change(&from, height, |account| account.tokens = account.tokens.saturating_sub(amount));
                self.state
                    .accounts
                    .change(&to, height, |account| account.tokens = account.tokens.saturating_add(amount));
                if let Some(spender) = spender {
                    let left = self.state.accounts.allowance(from, spender).saturating_sub(amount);
                    self.state.accounts.allow(from, spender, left);
                }
                transfer_log(address, &from, &to, amount)
            }
            Effect::Approval { owner, spender, amount } => {
                self.state.accounts.allow(owner, spender, amount);
                let topics = vec![token::approval_topic(), token::padded(&owner), token::padded(&spender)];
                Log { address, topics, data: token::number(amount).to_vec() }
            }
        }
    }

    /// Returns the chain's own transactions in block `height`: transfers of coins and of tokens of every standard
    /// between residents.
    fn traffic(&self, height: u64) -> Vec<Entry> {
        if height == 0 {
            return Vec::new();
        }
        (0..self.seed.below("traffic", height, 5).min(4))
            .map(|index| self.resident_entry(height, index))
            .collect()
    }

    fn resident_entry(&self, height: u64, index: u64) -> Entry {
        let id = height << 8 | index;
        let (from, nonce) = self.state.accounts.resident_turn(height, index);
        let peer = self.state.accounts.resident(self.seed.below("peer", id, 64));
        let amount = u128::from(1 + self.seed.below("amount", id, 5_000_000));
        let item = u128::from(self.seed.below("item", id, 10_000));
        let [unique, multiple] = self.state.accounts.collections();
        let (contract, logged) = match (index, height % 3) {
            (0, _) => (None, None),
            (2, 0) => (Some(unique), Some(token::unique(&from, &peer, item))),
            (2, count) => {
                let items: Vec<_> = (0..u128::from(count)).map(|n| (item + n, 1 + amount % 100)).collect();
                (Some(multiple), Some(token::multiple(&from, &peer, &items)))
            }
            _ => (Some(self.state.network.token), Some(token::fungible(&from, &peer, amount))),
        };
        let (input, logs) = match (contract, logged) {
            (Some(address), Some(token::Logged { input, topics, data })) => {
                (input, vec![Log { address, topics, data }])
            }
            _ => (Vec::new(), Vec::new()),
        };
        let gas = if contract.is_some() { TOKEN_GAS } else { 0 };
        let gas_used = super::tx::intrinsic_gas(false, &input, &[]) + gas;
        let mut s: Word = self.seed.bytes("s", id);
        s[0] &= 0x3f;
        let tx = Tx {
            kind: 2,
            chain_id: Some(self.state.network.chain_id),
            nonce,
            max_fee: self.base_fee(height) * 2 + u128::from(self.state.network.tip),
            tip: self.state.network.tip.into(),
            gas: gas_used * 6 / 5,
            to: Some(contract.unwrap_or(peer)),
            value: if contract.is_some() { 0 } else { amount * 1_000_000_000 },
            size: 110 + input.len(),
            input,
            access_list: Vec::new(),
            v: id % 2,
            r: self.seed.bytes("r", id),
            s,
            hash: self.seed.hide("transaction", id),
        };
        Entry { tx, from, gas_used, success: true, logs, created: None }
    }

    /// Returns the traffic of the next block, `height`. Streams of pending transactions announce it.
    pub(crate) fn announced(&self, height: u64) -> Vec<Entry> {
        self.traffic(height)
    }

    /// Returns a transaction that is announced for the next block.
    pub(crate) fn find_announced(&self, hash: &Word) -> Option<Entry> {
        let id = self.seed.reveal("transaction", hash)?;
        let index = (id & 0xff) as usize;
        (id >> 8 == self.head + 1).then(|| self.traffic(self.head + 1).into_iter().nth(index)).flatten()
    }

    pub(crate) fn entries(&self, height: u64) -> Vec<Entry> {
        let mut out = self.traffic(height);
        out.extend_from_slice(self.included(height));
        out
    }

    /// Returns the block and index of an included transaction.
    pub(crate) fn position(&self, hash: &Word) -> Option<(u64, usize)> {
        if let Some((height, index)) = self.place(hash) {
            return Some((height, self.traffic(height).len() + index));
        }
        let id = self.seed.reveal("transaction", hash)?;
        let height = id >> 8;
        let index = (id & 0xff) as usize;
        (height <= self.head && index < self.traffic(height).len()).then_some((height, index))
    }

    /// Returns the base fee per gas of block `height`, in wei. It stays within a quarter of the chain's average and
    /// changes by less than an eighth per block (EIP-1559). Wallets rely on this when they set a fee.
    pub(crate) fn base_fee(&self, height: u64) -> u128 {
        const STRETCH: u64 = 16;
        let goal = |stretch| u128::from(self.seed.below("fee", stretch, 1_000));
        let stretch = height / STRETCH;
        let at = u128::from(height % STRETCH);
        let whole = u128::from(STRETCH);
        let thousandths = (goal(stretch) * (whole - at) + goal(stretch + 1) * at) / whole;
        self.least_base_fee() + u128::from(self.state.network.base_fee) * thousandths / 2_000
    }

    fn least_base_fee(&self) -> u128 {
        u128::from(self.state.network.base_fee) * 3 / 4
    }

    /// Returns the height of a block that exists; `None` for one that does not exist or is only pending.
    pub(crate) fn height_of(&self, id: BlockId) -> Option<u64> {
        let height = match id {
            BlockId::Earliest => 0,
            BlockId::Finalized => self.head.saturating_sub(self.state.network.lag.1),
            BlockId::Safe => self.head.saturating_sub(self.state.network.lag.0),
            BlockId::Latest => self.head,
            BlockId::Pending => return None,
            BlockId::Number(number) => number,
            BlockId::Hash(hash) => self.seed.reveal("block", &hash)?,
        };
        (height <= self.head).then_some(height)
    }

    /// Returns the height whose state is requested. Refuses blocks that do not exist and state that was pruned.
    pub(crate) fn state_at(&self, id: BlockId) -> Result<u64, Fault> {
        if id == BlockId::Pending {
            return Ok(self.head);
        }
        let height = self.height_of(id).ok_or_else(|| match id {
            BlockId::Hash(_) => Fault::new(-32000, "header for hash not found"),
            _ => Fault::new(-32000, "header not found"),
        })?;
        if height + KEPT <= self.head {
            let root = hex::encode(self.state_root(height));
            let message =
                format!("missing trie node {root} (path ) state 0x{root} is not available, not found");
            return Err(Fault::new(-32000, message));
        }
        Ok(height)
    }

    /// Returns a placeholder for the state root, since the state is not a tree here.
    pub(crate) fn state_root(&self, height: u64) -> Word {
        self.seed.bytes("state", height)
    }

    /// Reports whether blocks have blob members.
    pub(crate) fn has_blobs(&self) -> bool {
        self.state.network.layout != Layout::Bor
    }
}

/// Gas of a token function beyond the intrinsic gas.
pub(crate) const TOKEN_GAS: u64 = 24_000;

fn transfer_log(address: Address, from: &Address, to: &Address, amount: u128) -> Log {
    let topics = vec![token::transfer_topic(), token::padded(from), token::padded(to)];
    Log { address, topics, data: token::number(amount).to_vec() }
}

/// Returns the address of a created contract, from its creator and the creator's nonce.
pub(crate) fn created_address(from: &Address, nonce: u64) -> Address {
    use alloy_rlp::{Encodable, Header};
    let mut body = Vec::new();
    from.as_slice().encode(&mut body);
    nonce.encode(&mut body);
    let mut list = Vec::new();
    Header { list: true, payload_length: body.len() }.encode(&mut list);
    list.extend(body);
    let mut address = [0; 20];
    address.copy_from_slice(&keccak(&list)[12..]);
    address
}
