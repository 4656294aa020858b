//! Matches withdrawals with deposits, for chains whose transactions report them separately.

use std::collections::{HashMap, VecDeque};

/// A transfer: a withdrawal, or a part of it, and its deposit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Move<P> {
    pub(crate) token: String,
    /// `None` if more arrives than has left: it was minted in the transaction.
    pub(crate) from: Option<P>,
    /// `None` if more leaves than arrives: it was burned.
    pub(crate) to: Option<P>,
    pub(crate) amount: u128,
}

/// The unmatched withdrawals of one transaction. A deposit takes from the oldest withdrawals of its token first, so
/// that each unit is moved once.
#[derive(Debug)]
pub(crate) struct Moves<P> {
    open: HashMap<String, VecDeque<(P, u128)>>,
    /// Tokens in the order of their first withdrawals.
    tokens: Vec<String>,
    made: Vec<Move<P>>,
}

impl<P: Clone> Moves<P> {
    pub(crate) fn new() -> Self {
        Moves { open: HashMap::new(), tokens: Vec::new(), made: Vec::new() }
    }

    pub(crate) fn withdraw(&mut self, token: &str, from: P, amount: u128) {
        if amount == 0 {
            return;
        }
        match self.open.get_mut(token) {
            Some(open) => open.push_back((from, amount)),
            None => {
                self.tokens.push(token.to_owned());
                self.open.insert(token.to_owned(), VecDeque::from([(from, amount)]));
            }
        }
    }

    pub(crate) fn deposit(&mut self, token: &str, to: &P, mut amount: u128) {
        let mut open = self.open.get_mut(token);
        while amount > 0 {
            let next = open.as_mut().and_then(|open| open.pop_front());
            let (from, taken) = match next {
                Some((from, left)) => {
                    let taken = left.min(amount);
                    if let (Some(open), true) = (open.as_mut(), left > taken) {
                        open.push_front((from.clone(), left - taken));
                    }
                    (Some(from), taken)
                }
                None => (None, amount),
            };
            amount -= taken;
            self.made.push(Move { token: token.to_owned(), from, to: Some(to.clone()), amount: taken });
        }
    }

    /// Returns the transfers, and the withdrawals without a deposit.
    pub(crate) fn done(mut self) -> Vec<Move<P>> {
        for token in self.tokens {
            for (from, amount) in self.open.remove(&token).unwrap_or_default() {
                self.made.push(Move { token: token.clone(), from: Some(from), to: None, amount });
            }
        }
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(token: &str, from: Option<char>, to: Option<char>, amount: u128) -> Move<char> {
        Move { token: token.to_owned(), from, to, amount }
    }

    #[test]
    fn a_deposit_takes_from_the_oldest_withdrawals_of_its_token() {
        let mut moves = Moves::new();
        moves.withdraw("x", 'a', 5);
        moves.withdraw("y", 'c', 1);
        moves.withdraw("x", 'b', 5);
        moves.withdraw("x", 'z', 0);
        moves.deposit("x", &'d', 7);
        moves.deposit("x", &'e', 2);
        moves.deposit("z", &'f', 9);
        moves.deposit("y", &'f', 0);
        assert_eq!(
            moves.done(),
            [
                made("x", Some('a'), Some('d'), 5),
                made("x", Some('b'), Some('d'), 2),
                made("x", Some('b'), Some('e'), 2),
                made("z", None, Some('f'), 9),
                made("x", Some('b'), None, 1),
                made("y", Some('c'), None, 1),
            ]
        );
    }
}
