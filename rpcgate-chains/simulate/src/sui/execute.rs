//! Checks and executes transactions.

use super::chain::{Chain, Entry, Gas, PRICE, UNITS, object_digest, reference};
use super::program::{Change, Coin, Run};
use super::tx::{Command, Id, Input, Program, Reference, Tx, blake, digest, hex_id, signer};
use crate::hash::base58;
use rpcgate_core::clock::Time;
use std::collections::BTreeMap;

const LEAST_BUDGET: u64 = PRICE * UNITS;
const MOST_BUDGET: u64 = 50_000_000_000;

/// The highest price that may be offered for a unit of gas.
const MOST_PRICE: u64 = 100_000;

fn too_dear(price: u64) -> String {
    format!("Gas price {price} exceeds the maximum gas price of {MOST_PRICE}")
}

/// The coin that pays for a dry run, and its balance.
const MOCK: Id = [0xff; 32];
const MOCK_BALANCE: u64 = 1_000_000_000_000_000_000;

fn new_id(digest: &Id, n: u64) -> Id {
    // The scheme of the protocol: a tag for regular objects, the transaction, and a counter.
    blake(&[&[0xf1], digest, &n.to_le_bytes()])
}

impl Chain {
    /// Checks a transaction's inputs as validators do and runs it, without storing anything.
    pub(crate) fn try_out(&self, raw: &[u8], tx: Tx) -> Result<Entry, String> {
        self.try_with(raw, tx, None)
    }

    fn try_with(&self, raw: &[u8], tx: Tx, mock: Option<(Id, Coin)>) -> Result<Entry, String> {
        let problem = |what: String| {
            format!(
                "Transaction validator signing failed due to issues with transaction inputs, please review the \
                 errors and try again:\n- {what}"
            )
        };
        if tx.expires.is_some_and(|epoch| epoch < self.epoch(self.head)) {
            return Err(problem("Transaction Expired".into()));
        }
        if tx.price < PRICE {
            let what = format!("Gas price {} under reference gas price (RGP) {PRICE}", tx.price);
            return Err(problem(what));
        }
        if tx.price > MOST_PRICE {
            return Err(problem(too_dear(tx.price)));
        }
        if tx.budget < LEAST_BUDGET || tx.budget > MOST_BUDGET {
            let (word, bound) = if tx.budget < LEAST_BUDGET {
                ("lower than min", LEAST_BUDGET)
            } else {
                ("higher than max", MOST_BUDGET)
            };
            return Err(problem(format!("Gas budget: {} is {word}: {bound}", tx.budget)));
        }
        for command in &tx.program.commands {
            let package = match command {
                Command::MoveCall { package, .. } | Command::Upgrade(_, package, _) => *package,
                Command::Publish(_) | Command::Vector(..) => [0; 32],
                _ => continue,
            };
            // No packages are simulated.
            return Err(problem(format!("Dependent package not found on-chain: {}", hex_id(&package))));
        }
        let mut coins = BTreeMap::new();
        let mut dependencies = Vec::new();
        let mut check = |(id, version, digest): &Reference, owner: &Id| {
            let made = mock.filter(|(mock, _)| mock == id).map(|(_, coin)| (coin, [0; 32]));
            let Some((coin, last)) = made.or_else(|| self.coin(id)) else {
                return Err(problem(format!(
                    "Could not find the referenced object {} at version None",
                    hex_id(id)
                )));
            };
            if coin.version != *version {
                return Err(problem(format!(
                    "Transaction needs to be rebuilt because object {} version {version:#x} is unavailable for \
                     consumption, current version: {:#x}",
                    hex_id(id),
                    coin.version
                )));
            }
            if object_digest(id, *version) != *digest {
                return Err(problem(format!(
                    "Invalid Object digest for object {}. Expected digest : {}",
                    hex_id(id),
                    base58(&object_digest(id, *version))
                )));
            }
            if coin.owner != *owner {
                return Err(problem(format!(
                    "Transaction was not signed by the correct sender: Object {} is owned by account address {}, \
                     but given owner/signer address is {}",
                    hex_id(id),
                    hex_id(&coin.owner),
                    hex_id(owner)
                )));
            }
            if coins.insert(*id, Some(coin)).is_some() {
                return Err(problem(format!(
                    "Mutable object {} cannot appear more than one in one transaction",
                    hex_id(id)
                )));
            }
            if made.is_none() {
                dependencies.push(last);
            }
            Ok(coin)
        };
        for input in &tx.program.inputs {
            match input {
                Input::Pure(_) => {}
                Input::Owned(reference) => {
                    check(reference, &tx.sender)?;
                }
                Input::Shared { id, .. } | Input::Receiving((id, ..)) => {
                    return Err(problem(format!(
                        "Could not find the referenced object {} at version None",
                        hex_id(id)
                    )));
                }
            }
        }
        let mut funds = 0u64;
        for payment in &tx.payment {
            funds = funds.saturating_add(check(payment, &tx.owner)?.balance);
        }
        let Some((gas_coin, ..)) = tx.payment.first().copied() else {
            return Err(problem("Gas object is not an owned object with owner: None".into()));
        };
        if funds < tx.budget {
            let what =
                format!("Balance of gas object {funds} is lower than the needed amount: {}.", tx.budget);
            return Err(problem(what));
        }
        dependencies.sort_unstable();
        dependencies.dedup();
        Ok(self.run(raw, tx, gas_coin, coins, dependencies))
    }

    /// Runs a transaction without effect. A transaction that names no gas coin gets a mock coin, so that a client can
    /// learn the cost.
    pub(crate) fn dry_run(&self, raw: &[u8], mut tx: Tx) -> Result<Entry, String> {
        if !tx.payment.is_empty() {
            return self.try_out(raw, tx);
        }
        let coin = Coin { version: 0, owner: tx.owner, balance: MOCK_BALANCE };
        let payment = reference(MOCK, 0);
        tx.payment.push(payment);
        self.try_with(raw, tx, Some((MOCK, coin)))
    }

    /// Runs commands on coins that were checked.
    fn run(
        &self,
        raw: &[u8],
        tx: Tx,
        gas_coin: Id,
        coins: BTreeMap<Id, Option<Coin>>,
        dependencies: Vec<Id>,
    ) -> Entry {
        let digest = digest(raw);
        let before = coins.clone();
        let mut smashed = coins;
        for (id, ..) in tx.payment.iter().skip(1) {
            let more = smashed.insert(*id, None).flatten().map_or(0, |coin| coin.balance);
            if let Some(Some(coin)) = smashed.get_mut(&gas_coin) {
                coin.balance = coin.balance.saturating_add(more);
            }
        }
        let lamport = 1 + before.values().flatten().map(|coin| coin.version).max().unwrap_or(0);
        let mut run = Run::new(&tx.program, gas_coin, smashed.clone(), digest, new_id);
        let mut failure = run.all().err();
        let charge = |after: &BTreeMap<Id, Option<Coin>>| {
            Gas::of(tx.price, after.values().flatten().count() as u64, before.len() as u64)
        };
        let Run { coins: done, results, .. } = run;
        let left = |after: &BTreeMap<Id, Option<Coin>>| {
            let coin = after.get(&gas_coin).copied().flatten();
            coin.map(|coin| i128::from(coin.balance) - charge(after).net()).filter(|left| *left >= 0)
        };
        if failure.is_none() && (left(&done).is_none() || charge(&done).net() > i128::from(tx.budget)) {
            failure = Some("InsufficientGas".to_owned());
        }
        let mut after = if failure.is_some() { smashed } else { done.clone() };
        let gas = charge(&after);
        if let (Some(left), Some(Some(coin))) = (left(&after), after.get_mut(&gas_coin)) {
            coin.balance = u64::try_from(left).unwrap_or(coin.balance);
        }
        let shown = results.iter().map(|given| {
            given
                .iter()
                .map(|id| (*id, done.get(id).copied().flatten().map_or(0, |coin| coin.balance)))
                .collect()
        });
        let results = shown.collect();
        let changes = after
            .into_iter()
            .filter(|(id, coin)| coin.is_some() || before.contains_key(id))
            .map(|(id, coin)| Change {
                id,
                before: before.get(&id).copied().flatten(),
                after: coin.map(|coin| Coin { version: lamport, ..coin }),
            })
            .collect();
        Entry {
            tx,
            raw: raw.to_vec(),
            digest,
            signatures: Vec::new(),
            checkpoint: self.head + 1,
            failure,
            gas,
            gas_coin,
            changes,
            dependencies,
            results,
            recorded: None,
        }
    }

    /// Runs a program without effect for a sender that pays with a mock coin.
    pub(crate) fn inspect(
        &self,
        raw: &[u8],
        program: Program,
        sender: Id,
        price: u64,
    ) -> Result<Entry, String> {
        if price > MOST_PRICE {
            return Err(too_dear(price));
        }
        let gas_coin = [0; 32];
        let mut coins =
            BTreeMap::from([(gas_coin, Some(Coin { version: 0, owner: sender, balance: u64::MAX / 2 }))]);
        for input in &program.inputs {
            if let Input::Owned((id, ..)) = input {
                let coin = self.coin(id).map(|(coin, _)| coin);
                let coin = coin.ok_or_else(|| {
                    format!("Could not find the referenced object {} at version None", hex_id(id))
                })?;
                coins.insert(*id, Some(coin));
            }
        }
        let payment = vec![reference(gas_coin, 0)];
        let tx = Tx { program, sender, payment, owner: sender, price, budget: MOST_BUDGET, expires: None };
        Ok(self.run(raw, tx, gas_coin, coins, Vec::new()))
    }

    /// Executes a signed transaction. Returns `Ok(None)` if the node is full.
    pub(crate) fn execute(
        &mut self,
        raw: &[u8],
        signatures: Vec<Vec<u8>>,
        now: Time,
    ) -> Result<Option<Entry>, String> {
        let invalid = |why: &str| format!("Invalid user signature: {why}");
        let tx = Tx::decode(raw)
            .ok_or_else(|| "Deserialization error: the bytes are no transaction".to_owned())?;
        let mut wanted = vec![tx.sender];
        if tx.owner != tx.sender {
            wanted.push(tx.owner);
        }
        if signatures.len() != wanted.len() {
            return Err(invalid(&format!(
                "Expect {} signer signatures but got {}",
                wanted.len(),
                signatures.len()
            )));
        }
        let signers: Option<Vec<Id>> = signatures.iter().map(|signature| signer(raw, signature)).collect();
        let signers = signers.ok_or_else(|| invalid("Signature is not valid: Fail to verify user sig"))?;
        if let Some(missing) = wanted.iter().find(|wanted| !signers.contains(wanted)) {
            return Err(invalid(&format!("Expect signer {} but got none of it", hex_id(missing))));
        }
        if let Some((_, entry)) = self.find(&digest(raw)) {
            // The same transaction again has the same effects.
            return Ok(Some(entry.clone()));
        }
        let mut entry = self.try_out(raw, tx)?;
        let mut kept = (raw.len() as u32).to_le_bytes().to_vec();
        kept.extend_from_slice(raw);
        for signature in &signatures {
            kept.extend_from_slice(&(signature.len() as u32).to_le_bytes());
            kept.extend_from_slice(signature);
        }
        if self.accept(kept, now).is_none() {
            return Ok(None);
        }
        entry.signatures = signatures;
        for change in &entry.changes {
            self.state.coins.insert(change.id, (change.after, entry.digest));
            if let (Some(before), None) = (change.before, change.after) {
                self.state.gone.insert(change.id, before.version + 1);
            }
        }
        self.include(entry.checkpoint, entry.digest, entry.clone());
        Ok(Some(entry))
    }
}
