//! Checks a transaction, and computes its effects and cost.

use super::address::{Address, short};
use super::chain::{Chain, Entry, FREE_NET, Outcome, Receipt, TRX, net};
use super::token::{self, Ask, TOKEN};
use super::tx::{Contract, Tx};
use rpcgate_core::clock::Time;

/// The price of a byte beyond the free bandwidth, in sun.
const NET_PRICE: i64 = 1_000;
/// The price of energy, in sun.
const ENERGY_PRICE: i64 = 100;

impl Chain {
    /// Checks whether a transaction could run; an error is java-tron's reason.
    pub(super) fn check(&self, contract: &Contract) -> Result<(), &'static str> {
        let (owner, amount) = match contract {
            Contract::Transfer { owner, to, amount } => {
                let owner = short(owner).ok_or("Invalid ownerAddress!")?;
                let to = short(to).ok_or("Invalid toAddress!")?;
                if owner == to {
                    return Err("Cannot transfer TRX to yourself.");
                }
                if self.account(&owner).is_none() {
                    return Err("Validate TransferContract error, no OwnerAccount.");
                }
                if *amount <= 0 {
                    return Err("Amount must be greater than 0.");
                }
                if to == TOKEN {
                    return Err("Cannot transfer TRX to a smartContract.");
                }
                let fee = if self.account(&to).is_none() { TRX } else { 0 };
                (owner, amount.checked_add(fee).ok_or("long overflow")?)
            }
            Contract::Trigger { owner, contract, value, .. } => {
                let owner = short(owner).ok_or("Invalid ownerAddress!")?;
                if short(contract) != Some(TOKEN) {
                    return Err("No contract or not a valid smart contract");
                }
                if *value < 0 {
                    return Err("callValue must be >= 0");
                }
                if self.account(&owner).is_none() {
                    return Err("Validate InternalTransfer error, no OwnerAccount.");
                }
                (owner, *value)
            }
            Contract::Other(_) => return Err("This kind of contract is not simulated."),
        };
        match self.account(&owner) {
            Some(account) if account.balance >= amount => Ok(()),
            _ => Err("Validate TransferContract error, balance is not sufficient."),
        }
    }

    /// Runs a checked transaction and puts it into the next block; returns code and text if it cannot pay for its
    /// bandwidth, or the node is full. It takes effect at once: a node's answers include waiting transactions.
    pub(super) fn take(
        &mut self,
        tx: Tx,
        bytes: Vec<u8>,
        moment: Time,
    ) -> Result<(), (&'static str, &'static str)> {
        const POOR: (&str, &str) = ("BANDWITH_ERROR", "Account resource insufficient error.");
        let (Some(owner), Some(contract)) = (tx.owner(), tx.body.contracts.first()) else {
            return Err(POOR);
        };
        let account = self.account(&owner).ok_or(POOR)?;
        let height = self.head + 1;
        let millis = moment.millis();
        let size = net(&tx);
        let mut receipt = Receipt {
            outcome: Outcome::Success,
            fee: if tx.body.data.is_empty() { 0 } else { TRX },
            net_usage: 0,
            net_fee: 0,
            energy: 0,
            energy_fee: 0,
            moved: None,
        };
        let used = self.net_used(&account, millis);
        let makes = match contract {
            Contract::Transfer { to, .. } => short(to).filter(|to| self.account(to).is_none()),
            _ => None,
        };
        if makes.is_some() {
            // A new account costs a flat fee instead of bandwidth, and a creation fee.
            receipt.net_fee = TRX / 10;
            receipt.fee += TRX;
        } else if used + size <= FREE_NET {
            receipt.net_usage = size;
        } else {
            receipt.net_fee = size * NET_PRICE;
        }
        receipt.fee += receipt.net_fee;
        let mut left = account.balance - receipt.fee;
        let mut paid = None;
        match contract {
            Contract::Transfer { to, amount, .. } => {
                left -= amount;
                paid = short(to).map(|to| (to, *amount, 0));
            }
            Contract::Trigger { data, value, .. } => {
                self.run(&owner, data, *value, &mut receipt);
                let most = tx.body.fee_limit.min(left.max(0));
                receipt.energy_fee = receipt.energy * ENERGY_PRICE;
                if receipt.energy_fee > most {
                    receipt.outcome = Outcome::OutOfEnergy;
                    receipt.moved = None;
                    receipt.energy = most / ENERGY_PRICE;
                    receipt.energy_fee = receipt.energy * ENERGY_PRICE;
                }
                receipt.fee += receipt.energy_fee;
                left -= receipt.energy_fee;
                if let Some((_, to, amount)) = receipt.moved {
                    paid = Some((to, 0, amount));
                }
            }
            Contract::Other(_) => {}
        }
        if left < 0 {
            return Err(POOR);
        }
        self.accept(bytes, moment).ok_or(("SERVER_BUSY", "Server busy."))?;
        let created = self.millis(height);
        let change = self.state.changes.entry(owner).or_default();
        change.sun -= account.balance - left;
        change.last = millis;
        change.net = used + receipt.net_usage;
        if let Some((to, sun, tokens)) = paid {
            change.tokens -= tokens;
            // Tokens alone do not create an account.
            let is_known = makes.is_none();
            let other = self.state.changes.entry(to).or_default();
            other.sun += sun;
            other.tokens += tokens;
            if !is_known {
                other.created = Some(created);
            }
        }
        let id = tx.id;
        self.include(height, id, Entry { tx, receipt });
        Ok(())
    }

    fn run(&self, owner: &Address, data: &[u8], value: i64, receipt: &mut Receipt) {
        (receipt.outcome, receipt.energy) = match token::ask(data) {
            // The contract accepts no coins.
            Some(Ask::Transfer { to, amount }) if value == 0 && amount <= self.tokens(owner) => {
                receipt.moved = Some((*owner, to, amount));
                let is_new = self.tokens(&to) == 0;
                (Outcome::Success, if is_new { token::SEND_NEW_ENERGY } else { token::SEND_ENERGY })
            }
            Some(Ask::Constant(_) | Ask::Balance(_)) if value == 0 => (Outcome::Success, token::READ_ENERGY),
            _ => (Outcome::Revert, token::REVERT_ENERGY),
        };
    }
}
