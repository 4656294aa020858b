//! Traffic that needs no history: residents in pairs take turns to pay each other the same amount. The number of
//! payments gives the balance and the sequence number of each resident.

use crate::seed::Seed;

/// Traffic with the same number of payments in every block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResidentTraffic {
    seed: Seed,
    /// The number of pairs; each payment is that of the next pair.
    pairs: u64,
    per_block: u64,
    first: u64,
    most: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payment {
    /// Its number, counted from 0.
    pub(crate) number: u64,
    pub(crate) pair: u64,
    /// The number of the pair's earlier payments.
    pub(crate) round: u64,
    pub(crate) payer: u64,
    pub(crate) payee: u64,
    pub(crate) amount: u64,
}

/// The result of a resident's payments so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Balance {
    pub(crate) sent: u64,
    /// The change of the balance, negative while the other resident of the pair has the payment.
    pub(crate) gain: i64,
    pub(crate) last: Option<u64>,
}

impl ResidentTraffic {
    pub(crate) fn new(seed: Seed, pairs: u64, per_block: u64, first: u64, most: u64) -> Self {
        ResidentTraffic { seed, pairs, per_block, first, most }
    }

    /// Returns the number of residents, which are numbered from 0.
    pub(crate) fn residents(self) -> u64 {
        2 * self.pairs
    }

    /// Returns the number of payments up to and including block `height`.
    pub(crate) fn count_at(self, height: u64) -> u64 {
        (height + 1).saturating_sub(self.first) * self.per_block
    }

    pub(crate) fn of_block(self, height: u64) -> impl Iterator<Item = Payment> {
        let end = self.count_at(height);
        let begin = if height >= self.first { end - self.per_block } else { end };
        (begin..end).map(move |number| self.payment(number))
    }

    /// Returns the block of a payment, and its index there.
    pub(crate) fn position(self, number: u64) -> (u64, usize) {
        (self.first + number / self.per_block, (number % self.per_block) as usize)
    }

    pub(crate) fn payment(self, number: u64) -> Payment {
        let pair = number % self.pairs;
        let round = number / self.pairs;
        let payer = 2 * pair + (round & 1);
        Payment { number, pair, round, payer, payee: payer ^ 1, amount: self.amount(pair, round / 2) }
    }

    fn amount(self, pair: u64, exchange: u64) -> u64 {
        1 + self.seed.below("amount", exchange * self.pairs + pair, self.most)
    }

    /// Returns the number of a pair's payments among the first `passed`.
    pub(crate) fn rounds(self, pair: u64, passed: u64) -> u64 {
        (passed + self.pairs - 1 - pair) / self.pairs
    }

    /// Returns the result of a resident's payments among the first `passed`.
    pub(crate) fn balance(self, resident: u64, passed: u64) -> Balance {
        let pair = resident / 2;
        let rounds = self.rounds(pair, passed);
        let first = resident.is_multiple_of(2);
        let away = if rounds % 2 == 1 { self.amount(pair, rounds / 2) as i64 } else { 0 };
        Balance {
            sent: if first { rounds.div_ceil(2) } else { rounds / 2 },
            gain: if first { -away } else { away },
            last: rounds.checked_sub(1).map(|round| round * self.pairs + pair),
        }
    }
}

/// The number of groups; each has four residents, which are two pairs.
const GROUPS: u64 = 16;
/// The number of blocks after which a resident pays again.
const ROUND: u64 = 2 * GROUPS;

/// Traffic in rounds: in every even block, some pairs of one group pay; in the next block the payees return the amount.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupTraffic {
    seed: Seed,
    /// The number of paying pairs of each group, at most two.
    pairs: [u64; GROUPS as usize],
    most: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupPayment {
    pub(crate) payer: u64,
    pub(crate) payee: u64,
    /// The number of the payer's earlier payments.
    pub(crate) sequence: u64,
    pub(crate) amount: u64,
}

impl GroupTraffic {
    /// The number of residents, which are numbered from 0.
    pub(crate) const RESIDENTS: u64 = 4 * GROUPS;

    pub(crate) fn new(seed: Seed, most: u64, pairs: impl Fn(u64) -> u64) -> Self {
        GroupTraffic { seed, pairs: std::array::from_fn(|group| pairs(group as u64)), most }
    }

    fn pairs(&self, group: u64) -> u64 {
        self.pairs[(group % GROUPS) as usize]
    }

    fn amount(&self, couple: u64, pair: u64) -> u64 {
        1 + self.seed.below("amount", couple << 1 | pair, self.most)
    }

    /// Returns the position of a resident in the round; `None` for one that never pays.
    fn position(&self, n: u64) -> Option<u64> {
        let group = n / 4;
        let pair = n % 4 / 2;
        let role = n % 2;
        (pair < self.pairs(group)).then_some(2 * group + role)
    }

    /// Returns the number of payments that a resident has made up to block `height`.
    pub(crate) fn sent(&self, n: u64, height: u64) -> u64 {
        self.position(n).map_or(0, |position| (height + ROUND - position) / ROUND)
    }

    /// Returns the block of a resident's payment with this sequence number.
    pub(crate) fn block_of(&self, n: u64, sequence: u64) -> Option<u64> {
        Some(self.position(n)? + sequence * ROUND)
    }

    pub(crate) fn of_block(&self, height: u64) -> impl Iterator<Item = GroupPayment> {
        let couple = height / 2;
        let role = height % 2;
        let group = couple % GROUPS;
        (0..self.pairs(group)).map(move |pair| {
            let payer = 4 * group + 2 * pair + role;
            let sequence = self.sent(payer, height.saturating_sub(1));
            GroupPayment { payer, payee: payer ^ 1, sequence, amount: self.amount(couple, pair) }
        })
    }

    /// Returns the number of payments in all blocks below `height`.
    pub(crate) fn count_below(&self, height: u64) -> u64 {
        let whole: u64 = self.pairs.iter().map(|pairs| 2 * pairs).sum();
        let part: u64 = (0..height % ROUND).map(|position| self.pairs(position / 2)).sum();
        height / ROUND * whole + part
    }

    /// Returns the change of a resident's balance: not 0 only between the two blocks of its pair.
    pub(crate) fn gain(&self, n: u64, height: u64) -> i64 {
        let group = n / 4;
        let pair = n % 4 / 2;
        if pair >= self.pairs(group) || height % ROUND != 2 * group {
            return 0;
        }
        let amount = self.amount(height / 2, pair).cast_signed();
        if n.is_multiple_of(2) { -amount } else { amount }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_balance_of_a_resident_is_the_sum_of_its_turns() {
        let traffic = ResidentTraffic::new(Seed::of("xrp", 5), 3, 4, 100, 1_000);
        let mut gains = [0i64; 6];
        let mut sent = [0u64; 6];
        let mut last = [None; 6];
        assert_eq!(traffic.of_block(99).count(), 0);
        for height in 100..140 {
            for (index, payment) in traffic.of_block(height).enumerate() {
                assert_eq!(traffic.position(payment.number), (height, index));
                gains[payment.payer as usize] -= payment.amount as i64;
                gains[payment.payee as usize] += payment.amount as i64;
                sent[payment.payer as usize] += 1;
                last[payment.payer as usize] = Some(payment.number);
                last[payment.payee as usize] = Some(payment.number);
            }
            for resident in 0..traffic.residents() {
                let at = resident as usize;
                let balance = Balance { sent: sent[at], gain: gains[at], last: last[at] };
                assert_eq!(
                    traffic.balance(resident, traffic.count_at(height)),
                    balance,
                    "{resident} at {height}"
                );
            }
        }
    }

    #[test]
    fn the_payments_of_groups_cancel_out_and_are_counted() {
        let traffic = GroupTraffic::new(Seed::of("aptos", 5), 1_000, |group| group % 3);
        let mut gains = [0i64; GroupTraffic::RESIDENTS as usize];
        let mut sent = [0u64; GroupTraffic::RESIDENTS as usize];
        let start = 640;
        for height in start..start + 100 {
            let payments: Vec<_> = traffic.of_block(height).collect();
            for payment in &payments {
                assert_eq!(traffic.block_of(payment.payer, payment.sequence), Some(height));
                gains[payment.payer as usize] -= payment.amount as i64;
                gains[payment.payee as usize] += payment.amount as i64;
                sent[payment.payer as usize] += 1;
            }
            let count = payments.len() as u64;
            assert_eq!(traffic.count_below(height + 1), traffic.count_below(height) + count);
            for n in 0..GroupTraffic::RESIDENTS {
                assert_eq!(traffic.gain(n, height), gains[n as usize], "{n} at {height}");
                let more = traffic.sent(n, height) - traffic.sent(n, start - 1);
                assert_eq!(more, sent[n as usize], "{n} at {height}");
            }
        }
    }
}
