//! The numbers that replace the ids of clients in calls to nodes.

use crate::transport::h1::NUMBERS;
use rpcgate_core::tally::Tally;

/// Returns the number of the call at position 0 of a set. It is random, so that a late answer to an earlier call on the
/// same connection is not mistaken for that to this call, and so that no client can know the numbers of others.
pub(super) fn first_index(tally: &Tally) -> usize {
    (tally.request.0 as u32 as usize) * NUMBERS
}

pub(super) fn is_in_set(number: usize, first: usize) -> bool {
    (first..first + NUMBERS).contains(&number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use rpcgate_core::caller::RequestId;

    #[test]
    fn numbers_towards_nodes_differ_from_set_to_set() {
        let fixture = Fixture::new();
        let first = |request| {
            let mut tally = fixture.tally();
            tally.request = RequestId(request);
            first_index(&tally)
        };
        assert_eq!((first(0), first(1), first(2)), (0, 128, 256), "a set has 100 places");
    }
}
