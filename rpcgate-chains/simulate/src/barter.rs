//! Traffic that needs no history: residents in pairs take turns to pay each other the same amount. The number of turns
//! gives the balance and the number of payments of each resident.

use super::seed::Seed;

/// The payments of one chain: payer, payee and time of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Barter {
    seed: Seed,
    /// The number of pairs, which take turns.
    pairs: u64,
    per_block: u64,
    first: u64,
    most: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Its number, counted from 0.
    pub(crate) number: u64,
    pub(crate) pair: u64,
    /// The number of the pair's earlier turns.
    pub(crate) round: u64,
    pub(crate) payer: u64,
    pub(crate) payee: u64,
    pub(crate) amount: u64,
}

/// The result of a resident's turns so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) sent: u64,
    /// The change of the balance, negative while the other resident of the pair has the payment.
    pub(crate) gain: i64,
    pub(crate) last: Option<u64>,
}

impl Barter {
    pub(crate) fn new(seed: Seed, pairs: u64, per_block: u64, first: u64, most: u64) -> Self {
        Barter { seed, pairs, per_block, first, most }
    }

    /// Returns the number of residents, which are numbered from 0.
    pub(crate) fn residents(self) -> u64 {
        2 * self.pairs
    }

    /// Returns the number of turns up to and including block `height`.
    pub(crate) fn passed(self, height: u64) -> u64 {
        (height + 1).saturating_sub(self.first) * self.per_block
    }

    pub(crate) fn of_block(self, height: u64) -> impl Iterator<Item = Turn> {
        let end = self.passed(height);
        let begin = if height >= self.first { end - self.per_block } else { end };
        (begin..end).map(move |number| self.turn(number))
    }

    /// Returns the block of a turn, and its index there.
    pub(crate) fn place(self, number: u64) -> (u64, usize) {
        (self.first + number / self.per_block, (number % self.per_block) as usize)
    }

    pub(crate) fn turn(self, number: u64) -> Turn {
        let (pair, round) = (number % self.pairs, number / self.pairs);
        let payer = 2 * pair + (round & 1);
        Turn { number, pair, round, payer, payee: payer ^ 1, amount: self.amount(pair, round / 2) }
    }

    fn amount(self, pair: u64, exchange: u64) -> u64 {
        1 + self.seed.below("amount", exchange * self.pairs + pair, self.most)
    }

    /// Returns the number of a pair's turns among the first `passed`.
    pub(crate) fn rounds(self, pair: u64, passed: u64) -> u64 {
        (passed + self.pairs - 1 - pair) / self.pairs
    }

    /// Returns the result of a resident's turns among the first `passed`.
    pub(crate) fn standing(self, resident: u64, passed: u64) -> Standing {
        let pair = resident / 2;
        let rounds = self.rounds(pair, passed);
        let first = resident.is_multiple_of(2);
        let away = if rounds % 2 == 1 { self.amount(pair, rounds / 2) as i64 } else { 0 };
        Standing {
            sent: if first { rounds.div_ceil(2) } else { rounds / 2 },
            gain: if first { -away } else { away },
            last: rounds.checked_sub(1).map(|round| round * self.pairs + pair),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_balance_of_a_resident_is_the_sum_of_its_turns() {
        let barter = Barter::new(Seed::of("xrp", 5), 3, 4, 100, 1_000);
        let (mut gains, mut sent, mut last) = ([0i64; 6], [0u64; 6], [None; 6]);
        assert_eq!(barter.of_block(99).count(), 0);
        for height in 100..140 {
            for (index, turn) in barter.of_block(height).enumerate() {
                assert_eq!(barter.place(turn.number), (height, index));
                gains[turn.payer as usize] -= turn.amount as i64;
                gains[turn.payee as usize] += turn.amount as i64;
                sent[turn.payer as usize] += 1;
                last[turn.payer as usize] = Some(turn.number);
                last[turn.payee as usize] = Some(turn.number);
            }
            for resident in 0..barter.residents() {
                let place = resident as usize;
                let standing = Standing { sent: sent[place], gain: gains[place], last: last[place] };
                assert_eq!(
                    barter.standing(resident, barter.passed(height)),
                    standing,
                    "{resident} at {height}"
                );
            }
        }
    }
}
