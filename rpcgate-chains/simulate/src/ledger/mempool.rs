//! Transactions that wait for their block.

use std::collections::VecDeque;

/// The waiting transactions in order of arrival, each with the height of the block that will include it.
#[derive(Debug)]
pub(crate) struct Mempool<T>(VecDeque<(u64, T)>);

impl<T> Default for Mempool<T> {
    fn default() -> Self {
        Mempool(VecDeque::new())
    }
}

impl<T> Mempool<T> {
    /// Adds a transaction for block `height`, which is not below those of earlier ones.
    pub(crate) fn push(&mut self, height: u64, tx: T) {
        self.0.push_back((height, tx));
    }

    /// Removes and returns the first transaction whose block is `head` or earlier.
    pub(crate) fn pop_due(&mut self, head: u64) -> Option<(u64, T)> {
        self.0.pop_front_if(|(height, _)| *height <= head)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, tx)| tx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_leave_in_order_once_their_block_exists() {
        let mut pool = Mempool::default();
        for (height, tx) in [(5, 'a'), (5, 'b'), (7, 'c')] {
            pool.push(height, tx);
        }
        assert_eq!(pool.pop_due(4), None);
        assert_eq!(
            (pool.pop_due(6), pool.pop_due(6), pool.pop_due(6)),
            (Some((5, 'a')), Some((5, 'b')), None)
        );
        assert_eq!(pool.iter().collect::<Vec<_>>(), [&'c']);
    }
}
