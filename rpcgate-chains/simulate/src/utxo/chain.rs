//! The chain: its blocks and the unspent outputs.

use super::coin::{Coin, DEVELOPER, Hash, Kind};
use super::pool::Pool;
use super::script::{to_key_hash, to_script_hash, to_witness};
use super::tx::{Input, Output, Tx, merkle_root, parse_hash, put_bytes, put_count, sha256d};
use crate::ledger::{BlockRules, Ledger, LedgerState};
use crate::seed::Seed;
use rpcgate_core::clock::Time;
use std::collections::{HashMap, HashSet};

/// The number of blocks in a run, whose hashes are computed together. The hash of a run's newest block does not derive
/// from its header; otherwise a block could only be computed after all blocks below it.
const RUN: u64 = 4_096;
/// The number of runs that are kept.
const RUNS: usize = 16;
/// The number of newest runs that are searched for a block or transaction: more than a day of blocks.
const SEARCHED: usize = 8;
/// The number of blocks before coinbase outputs may be spent.
pub(crate) const MATURITY: u64 = 100;
/// The public key whose secret key is 1.
const PUBLIC_KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) height: u64,
    pub(crate) hash: Hash,
    pub(crate) previous: Hash,
    pub(crate) merkle_root: Hash,
    /// The header as it is hashed.
    pub(crate) header: Vec<u8>,
    pub(crate) nonce: u32,
    pub(crate) txs: Vec<Tx>,
}

/// An output that exists.
#[derive(Debug, Clone)]
pub(crate) struct Coins {
    pub(crate) output: Output,
    /// The block that created it; `None` while its transaction waits in the pool.
    pub(crate) height: Option<u64>,
    pub(crate) coinbase: bool,
}

#[derive(Debug, Default)]
struct Run {
    hashes: Vec<Hash>,
    places: HashMap<Hash, (u64, usize)>,
    used: u64,
}

#[derive(Debug)]
pub(crate) struct UtxoState {
    pub(crate) coin: &'static Coin,
    pub(crate) pool: Pool,
    runs: HashMap<u64, Run>,
    uses: u64,
    /// Outputs that clients' transactions in blocks have spent.
    spent: HashSet<(Hash, u32)>,
}

pub(crate) type Chain = Ledger<UtxoState>;

impl LedgerState for UtxoState {
    type Entry = Tx;

    /// Includes the whole pool in the next block.
    fn advance(chain: &mut Chain, target: u64) {
        if target <= chain.head {
            return;
        }
        let next = chain.head + 1;
        let kind = chain.state.coin.kind;
        for tx in chain.state.pool.drain() {
            for input in &tx.inputs {
                chain.state.spent.insert((input.txid, input.index(kind)));
            }
            chain.include(next, tx.txid(kind), tx);
        }
        chain.head = target;
    }

    fn resubmit(chain: &mut Chain, raw: &[u8], moment: Time) {
        chain.retake(raw, moment);
    }

    fn replayed(chain: &mut Chain) {
        chain.weigh_waiting();
    }
}

impl Chain {
    pub(crate) fn of_coin(coin: &'static Coin, seed: u64) -> Self {
        let seed = Seed::of(coin.name, seed);
        let pool = Pool::default();
        let runs = HashMap::new();
        let spent = HashSet::new();
        Ledger::new(seed, BlockRules::of(coin.base), UtxoState { coin, pool, runs, uses: 0, spent })
    }

    /// Returns the median time of a block and the ten before it.
    pub(crate) fn median_time(&self, height: u64) -> u64 {
        self.secs(height.saturating_sub(5.min(height / 2)))
    }

    /// Returns block `height`, which is not above the newest.
    pub(crate) fn block(&mut self, height: u64) -> Block {
        let previous = height.checked_sub(1).map_or([0; 32], |parent| self.hash(parent));
        let mut block = self.make(height, previous);
        block.hash = self.hash(height);
        block
    }

    /// Returns the hash of block `height`, which is not above the newest.
    pub(crate) fn hash(&mut self, height: u64) -> Hash {
        self.run(height / RUN, height);
        let hashes = self.state.runs.get(&(height / RUN)).map_or(&[][..], |run| &run.hashes);
        hashes.get((height % RUN) as usize).copied().unwrap_or_default()
    }

    /// Computes run `number` up to block `height`.
    fn run(&mut self, number: u64, height: u64) {
        self.state.uses += 1;
        let mut run = self.state.runs.remove(&number).unwrap_or_default();
        run.used = self.state.uses;
        let first = number * RUN;
        while first + (run.hashes.len() as u64) <= height {
            let next = first + run.hashes.len() as u64;
            let previous = match run.hashes.last() {
                Some(hash) => *hash,
                None if number == 0 => [0; 32],
                None => self.joint(number - 1),
            };
            let block = self.make(next, previous);
            for (index, tx) in block.txs.iter().enumerate() {
                run.places.insert(tx.txid(self.state.coin.kind), (next, index));
            }
            run.hashes.push(match self.known(next) {
                Some(hash) => hash,
                None if next % RUN == RUN - 1 => self.joint(number),
                None => block.hash,
            });
        }
        self.state.runs.insert(number, run);
        if self.state.runs.len() > RUNS {
            let oldest = self.state.runs.iter().min_by_key(|(_, run)| run.used).map(|(number, _)| *number);
            oldest.and_then(|number| self.state.runs.remove(&number));
        }
    }

    /// Returns the hash of the network's own block at this height, if clients know it.
    fn known(&self, height: u64) -> Option<Hash> {
        let (known, hash) = self.state.coin.known;
        if height == known { parse_hash(hash) } else { None }
    }

    /// Returns the hash of the newest block of a run.
    fn joint(&self, run: u64) -> Hash {
        let mut hash: Hash = self.seed.bytes("joint", run);
        hash[28..].fill(0);
        hash
    }

    /// Returns the height of the block with `hash`, if it is in a kept run or one of the newest.
    pub(crate) fn find_block(&mut self, hash: &Hash) -> Option<u64> {
        self.search(|run, first| {
            run.hashes.iter().position(|known| known == hash).map(|at| first + at as u64)
        })
    }

    /// Returns the position of a client's transaction, however old.
    pub(crate) fn home(&self, txid: &Hash) -> Option<(u64, usize)> {
        let (height, index) = self.place(txid)?;
        let traffic = self.spends(height).is_some();
        Some((height, 1 + usize::from(traffic) + index))
    }

    /// Returns the position of a transaction, if it is a client's or its block is in a kept run or one of the newest.
    pub(crate) fn find_tx(&mut self, txid: &Hash) -> Option<(u64, usize)> {
        if let Some(home) = self.home(txid) {
            return Some(home);
        }
        self.search(|run, _| run.places.get(txid).copied())
    }

    /// Searches the kept runs, then the newest ones, from new to old.
    fn search<T>(&mut self, look: impl Fn(&Run, u64) -> Option<T>) -> Option<T> {
        let newest = self.head / RUN;
        self.run(newest, self.head);
        if let Some(found) = self.state.runs.iter().find_map(|(number, run)| look(run, number * RUN)) {
            return Some(found);
        }
        for number in (0..newest).rev().take(SEARCHED - 1) {
            let last = number * RUN + RUN - 1;
            if self.state.runs.get(&number).is_none_or(|run| run.hashes.len() as u64 != RUN) {
                self.run(number, last);
                let found = self.state.runs.get(&number).and_then(|run| look(run, number * RUN));
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    pub(crate) fn tx_at(&mut self, height: u64, index: usize) -> Option<Tx> {
        self.transactions(height).into_iter().nth(index)
    }

    /// Returns an output that no block has spent and, if `with_pool`, no transaction in the pool.
    pub(crate) fn unspent(&mut self, txid: &Hash, vout: u32, with_pool: bool) -> Option<Coins> {
        let kind = self.state.coin.kind;
        if with_pool && self.state.pool.spends(kind, txid, vout) {
            return None;
        }
        if with_pool && let Some(waiting) = self.state.pool.find(txid) {
            let output = waiting.tx.outputs.get(vout as usize)?.clone();
            return Some(Coins { output, height: None, coinbase: false });
        }
        let (height, index) = self.find_tx(txid)?;
        let taken = self.state.spent.contains(&(*txid, vout))
            || (index == 0 && vout == 0 && self.is_traffic(height) && height + MATURITY < self.head);
        let output = self.tx_at(height, index)?.outputs.get(vout as usize)?.clone();
        let lost = output.script.first() == Some(&0x6a) || height == 0;
        (!taken && !lost).then_some(Coins { output, height: Some(height), coinbase: index == 0 })
    }

    /// Returns an output, spent or not.
    pub(crate) fn output(&mut self, txid: &Hash, vout: u32) -> Option<Coins> {
        if let Some(waiting) = self.state.pool.find(txid) {
            let output = waiting.tx.outputs.get(vout as usize)?.clone();
            return Some(Coins { output, height: None, coinbase: false });
        }
        let (height, index) = self.find_tx(txid)?;
        let output = self.tx_at(height, index)?.outputs.get(vout as usize)?.clone();
        Some(Coins { output, height: Some(height), coinbase: index == 0 })
    }

    /// Reports whether the chain's traffic spends the coinbase of block `height`. It spends only those of even blocks.
    /// The spending blocks have odd heights and are never spent, so that each block can be computed from two.
    fn is_traffic(&self, height: u64) -> bool {
        height > 0 && height.is_multiple_of(2) && !self.seed.word("traffic", height).is_multiple_of(4)
    }

    /// Returns the block whose coinbase the chain's own traffic spends in block `height`.
    fn spends(&self, height: u64) -> Option<u64> {
        height.checked_sub(MATURITY + 1).filter(|made| self.is_traffic(*made))
    }

    pub(crate) fn transactions(&self, height: u64) -> Vec<Tx> {
        let mut txs = Vec::new();
        if let Some(made) = self.spends(height) {
            txs.push(self.traffic(height, made));
        }
        txs.extend_from_slice(self.included(height));
        txs.insert(0, self.coinbase(height, &txs));
        txs
    }

    /// Returns a payment from the coinbase of block `made`.
    fn traffic(&self, height: u64, made: u64) -> Tx {
        let kind = self.state.coin.kind;
        let seed = self.seed;
        let funds = self.transactions(made)[0].txid(kind);
        let hash = seed.bytes("payee", height);
        let payee = match seed.below("form", height, 3) {
            0 if kind.segwit() => to_witness(0, &hash),
            1 => to_script_hash(&hash),
            _ => to_key_hash(&hash),
        };
        let mut signature = vec![0x30, 0x44, 0x02, 0x20];
        let mut numbers: [u8; 64] = seed.bytes("signature", height);
        numbers[0] &= 0x7f;
        numbers[32] &= 0x7f;
        signature.extend(&numbers[..32]);
        signature.extend([0x02, 0x20]);
        signature.extend(&numbers[32..]);
        signature.push(if kind == Kind::Bch { 0x41 } else { 0x01 });
        let mut script = Vec::new();
        put_bytes(&signature, &mut script);
        put_bytes(&hex::decode(PUBLIC_KEY).unwrap_or_default(), &mut script);
        let fee = self.state.coin.fees.1 / 4;
        let paid = 1 + seed.below("paid", height, self.state.coin.reward / 2);
        let mut outputs = vec![
            Output::new(kind, paid, payee),
            Output::new(kind, self.state.coin.reward - paid - fee, to_key_hash(&DEVELOPER)),
        ];
        // Where no coinbase has an output with data.
        if !kind.segwit() && seed.below("memo", height, 2) == 0 {
            let mut memo = vec![0x6a];
            put_bytes(format!("payment {}", height % 10_000).as_bytes(), &mut memo);
            outputs.push(Output::new(kind, 0, memo));
        }
        if kind == Kind::Liquid {
            outputs.push(Output::new(kind, fee, Vec::new()));
        }
        Tx { version: 2, inputs: vec![Input::new(funds, 0, script)], outputs, locktime: 0, tail: Vec::new() }
    }

    fn coinbase(&self, height: u64, others: &[Tx]) -> Tx {
        let kind = self.state.coin.kind;
        let mut script = Vec::new();
        let digits = height.to_le_bytes();
        // The height as a script number (BIP 34), whose highest bit is the sign.
        let length = (1..8).find(|length| height >> (8 * length - 1) == 0).unwrap_or(8);
        put_bytes(&digits[..length], &mut script);
        put_bytes(b"simulated", &mut script);
        put_bytes(&self.seed.bytes::<8>("extra", height), &mut script);
        let mut input = Input::new([0; 32], u32::MAX, script);
        let payee = if kind.segwit() && height % 4 == 1 {
            to_witness(0, &DEVELOPER)
        } else {
            to_key_hash(&DEVELOPER)
        };
        let mut outputs = vec![Output::new(kind, self.state.coin.reward, payee)];
        let mut version = 2;
        let mut tail = Vec::new();
        if kind.segwit() {
            let reserved = [0; 32];
            let hashes = [[0; 32]].into_iter().chain(others.iter().map(|tx| tx.hash(kind))).collect();
            let commitment = sha256d(&[merkle_root(hashes), reserved].concat());
            let script = [&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed][..], &commitment].concat();
            outputs.push(Output::new(kind, 0, script));
            input.witness = vec![reserved.to_vec()];
        }
        if kind == Kind::Liquid {
            // No proofs of issuance, one witness item, no peg-in; no proofs for the outputs.
            tail = vec![0, 0, 1];
            put_bytes(&[0; 32], &mut tail);
            tail.extend(vec![0; 1 + 2 * outputs.len()]);
        }
        if kind == Kind::Dash {
            version = 3 | 5 << 16;
            tail = [&2u16.to_le_bytes()[..], &(height as u32).to_le_bytes()].concat();
            tail.extend(self.seed.bytes::<32>("masternodes", height / 16));
            tail.extend(self.seed.bytes::<32>("quorums", height / 16));
        }
        Tx { version, inputs: vec![input], outputs, locktime: 0, tail }
    }

    /// Creates a block on top of `previous`, with the hash of its header.
    fn make(&self, height: u64, previous: Hash) -> Block {
        let txs = self.transactions(height);
        let merkle_root = merkle_root(txs.iter().map(|tx| tx.txid(self.state.coin.kind)).collect());
        let nonce = self.seed.word("nonce", height) as u32;
        let mut header = self.state.coin.block_version.to_le_bytes().to_vec();
        header.extend(previous);
        header.extend(merkle_root);
        header.extend((self.secs(height) as u32).to_le_bytes());
        if self.state.coin.kind == Kind::Liquid {
            header.extend((height as u32).to_le_bytes());
            put_bytes(&self.challenge(), &mut header);
        } else {
            header.extend(self.state.coin.bits.to_le_bytes());
            header.extend(nonce.to_le_bytes());
        }
        Block { height, hash: sha256d(&header), previous, merkle_root, header, nonce, txs }
    }

    /// Returns the script that Liquid's blocks must satisfy: a signature of the federation's only functionary.
    pub(crate) fn challenge(&self) -> Vec<u8> {
        let mut script = vec![0x51, 0x21];
        script.extend(hex::decode(PUBLIC_KEY).unwrap_or_default());
        script.extend([0x51, 0xae]);
        script
    }

    /// Returns bytes with the shape of a solution of the challenge.
    pub(crate) fn solution(&self, height: u64) -> Vec<u8> {
        let mut signature = vec![0x30, 0x44, 0x02, 0x20, 0x01];
        signature.extend(self.seed.bytes::<31>("solution r", height));
        signature.extend([0x02, 0x20, 0x01]);
        signature.extend(self.seed.bytes::<31>("solution s", height));
        let mut script = vec![0];
        put_bytes(&signature, &mut script);
        script
    }

    /// Returns the part between a block's hashed header and its transactions.
    pub(crate) fn header_tail(&self, block: &Block) -> Vec<u8> {
        let mut out = Vec::new();
        match self.state.coin.kind {
            Kind::Liquid => put_bytes(&self.solution(block.height), &mut out),
            Kind::Doge => {
                let (tx, parent) = self.merged(block);
                out = tx.encode(Kind::Doge, true);
                out.extend(sha256d(&parent));
                // No branch and index 0, for the parent's tree and for the tree of merged chains.
                out.extend([0; 10]);
                out.extend(parent);
            }
            _ => {}
        }
        out
    }

    /// Returns the coinbase and the header of the parent chain's block that names this block (merged mining).
    pub(crate) fn merged(&self, block: &Block) -> (Tx, Vec<u8>) {
        let mut shown = block.hash;
        shown.reverse();
        let mut script = vec![0xfa, 0xbe, b'm', b'm'];
        script.extend(shown);
        script.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        let mut push = Vec::new();
        put_bytes(&script, &mut push);
        let outputs = vec![Output::new(Kind::Doge, 625_000_000, to_key_hash(&DEVELOPER))];
        let input = Input::new([0; 32], u32::MAX, push);
        let tx = Tx { version: 1, inputs: vec![input], outputs, locktime: 0, tail: Vec::new() };
        let mut parent = 0x2000_0000u32.to_le_bytes().to_vec();
        parent.extend(self.seed.bytes::<32>("parent", block.height));
        parent.extend(tx.txid(Kind::Doge));
        parent.extend((self.secs(block.height) as u32).to_le_bytes());
        parent.extend(self.state.coin.bits.to_le_bytes());
        parent.extend(block.nonce.to_le_bytes());
        (tx, parent)
    }

    pub(crate) fn block_bytes(&self, block: &Block) -> Vec<u8> {
        let mut out = block.header.clone();
        out.extend(self.header_tail(block));
        put_count(block.txs.len(), &mut out);
        block.txs.iter().for_each(|tx| out.extend(tx.encode(self.state.coin.kind, true)));
        out
    }
}
