//! Checks a transaction before it may enter the pool.

use super::chain::{Chain, MATURITY};
use super::coin::Kind;
use super::pool::Waiting;
use super::script::Form;
use super::tx::Tx;
use rpcgate_core::clock::Time;
use std::collections::HashSet;

/// The refusal of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reject {
    /// The reject reason.
    pub(crate) reason: &'static str,
    /// The text that `sendrawtransaction` adds.
    pub(crate) detail: String,
}

impl Reject {
    fn new(reason: &'static str) -> Self {
        Reject { reason, detail: String::new() }
    }
}

/// Returns the fee of a Liquid transaction: Elements writes it as an output without a script.
fn liquid_fee(tx: &Tx) -> u64 {
    let fees = tx.outputs.iter().filter(|output| output.script.is_empty());
    fees.fold(0, |sum, output| sum.saturating_add(output.value))
}

/// Returns an amount in the form of refusals: at least two decimals.
fn money(value: u64) -> String {
    let text = format!("{}.{:08}", value / 100_000_000, value % 100_000_000);
    let spare = text.bytes().rev().take_while(|digit| *digit == b'0').count().min(6);
    text[..text.len() - spare].to_owned()
}

impl Chain {
    /// Puts a transaction back into the pool without a check: it was checked when it was first accepted. The search
    /// range for outputs depends on earlier reads, and a transaction that failed a new check would change its block.
    pub(crate) fn retake(&mut self, raw: &[u8], moment: Time) {
        let kind = self.state.coin.kind;
        let Some(tx) = Tx::decode(kind, raw).filter(|tx| !tx.is_coinbase()) else {
            return;
        };
        let txid = tx.txid(kind);
        let bytes = raw.len();
        if self.state.pool.find(&txid).is_none()
            && self.place(&txid).is_none()
            && self.submissions.has_space(bytes)
        {
            let since = (moment.secs(), self.head);
            let _ = self.accept(raw.to_vec(), moment);
            self.state.pool.push(Waiting { tx, txid, fee: 0, since });
        }
    }

    /// Computes the fees of the transactions that [`Chain::retake`] put into the pool.
    pub(crate) fn weigh_waiting(&mut self) {
        let waiting: Vec<Tx> = self.state.pool.iter().map(|waiting| waiting.tx.clone()).collect();
        let fees: Vec<u64> = waiting.iter().map(|tx| self.fee(tx)).collect();
        for (waiting, fee) in self.state.pool.iter_mut().zip(fees) {
            waiting.fee = fee;
        }
    }

    fn fee(&mut self, tx: &Tx) -> u64 {
        let kind = self.state.coin.kind;
        if kind == Kind::Liquid {
            return liquid_fee(tx);
        }
        let found = tx.inputs.iter().filter_map(|input| self.output(&input.txid, input.index(kind)));
        let value = found.fold(0u64, |sum, coins| sum.saturating_add(coins.output.value));
        tx.outputs.iter().fold(value, |left, output| left.saturating_sub(output.value))
    }

    /// Checks whether a transaction may enter the pool; returns its fee. Scripts are not run: an input only needs bytes
    /// with the shape of a signature.
    pub(crate) fn check(&mut self, tx: &Tx) -> Result<u64, Reject> {
        let kind = self.state.coin.kind;
        let txid = tx.txid(kind);
        if self.state.pool.find(&txid).is_some() {
            return Err(Reject::new("txn-already-in-mempool"));
        }
        if tx.is_coinbase() {
            return Err(Reject::new("coinbase"));
        }
        if tx.outputs.is_empty() {
            return Err(Reject::new("bad-txns-vout-empty"));
        }
        let mut seen = HashSet::new();
        if !tx.inputs.iter().all(|input| seen.insert((input.txid, input.vout))) {
            return Err(Reject::new("bad-txns-inputs-duplicate"));
        }
        if self.find_tx(&txid).is_some() {
            return Err(Reject::new("txn-already-known"));
        }
        let mut value = 0u64;
        for input in &tx.inputs {
            let index = input.index(kind);
            if self.state.pool.spends(kind, &input.txid, index) {
                return Err(Reject::new("txn-mempool-conflict"));
            }
            let coins = self.unspent(&input.txid, index, true).ok_or(Reject::new("missing-inputs"))?;
            let depth = coins.height.map_or(0, |height| self.head + 1 - height);
            if coins.coinbase && depth < MATURITY {
                let detail = format!(", tried to spend coinbase at depth {depth}");
                return Err(Reject { reason: "bad-txns-premature-spend-of-coinbase", detail });
            }
            let proof = match Form::of(kind, &coins.output.script) {
                Form::Witness(..) => !input.witness.is_empty(),
                Form::KeyHash(_) | Form::ScriptHash(_) => !input.script.is_empty(),
                Form::Data | Form::Fee | Form::Other => true,
            };
            if !proof {
                let detail = " (Operation not valid with the current stack size)".to_owned();
                return Err(Reject { reason: "mandatory-script-verify-flag-failed", detail });
            }
            value = value.saturating_add(coins.output.value);
        }
        let paid = tx.outputs.iter().fold(0u64, |sum, output| sum.saturating_add(output.value));
        if kind == Kind::Liquid {
            return self.check_liquid(tx, value, paid);
        }
        if paid > value {
            let detail = format!(", value in ({}) < value out ({})", money(value), money(paid));
            return Err(Reject { reason: "bad-txns-in-belowout", detail });
        }
        let dust = |script: &[u8], value: u64| value < 294 && script.first() != Some(&0x6a);
        if tx.outputs.iter().any(|output| dust(&output.script, output.value)) {
            return Err(Reject::new("dust"));
        }
        self.check_fee(tx, value - paid)
    }

    /// Applies the rule of Elements: outputs equal inputs, and the fee is an output. Confidential values are not
    /// checked.
    fn check_liquid(&self, tx: &Tx, value: u64, paid: u64) -> Result<u64, Reject> {
        let open = |bytes: &[u8]| bytes.first() == Some(&1);
        let sealed = || tx.outputs.iter().filter_map(|output| output.sealed.as_ref());
        if sealed().all(|sealed| open(&sealed.value)) && paid != value {
            return Err(Reject::new("bad-txns-in-ne-out"));
        }
        self.check_fee(tx, liquid_fee(tx))
    }

    fn check_fee(&self, tx: &Tx, fee: u64) -> Result<u64, Reject> {
        let least = self.state.coin.fees.0 * self.size(tx) as u64 / 1_000;
        if fee < least {
            return Err(Reject { reason: "min relay fee not met", detail: format!(", {fee} < {least}") });
        }
        if !self.submissions.has_space(tx.encode(self.state.coin.kind, true).len()) {
            return Err(Reject::new("mempool full"));
        }
        Ok(fee)
    }

    /// Returns the size on which fees are based.
    pub(crate) fn size(&self, tx: &Tx) -> usize {
        tx.weight(self.state.coin.kind).div_ceil(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_in_refusals_keep_two_decimals() {
        assert_eq!(money(5_000_000_000), "50.00");
        assert_eq!(money(5_999_000_000), "59.99");
        assert_eq!(money(1), "0.00000001");
    }
}
