//! The numbers under which calls travel that are not sent under their own id.

use rpcgate_core::tally::Tally;

/// The number of the call at place 0 of a set. It differs from set to set, so that an answer that a node meant for an earlier
/// call on the same connection is not taken for this one's.
pub(super) fn first_index(tally: &Tally) -> usize {
    const PLACES: usize = 128;
    (tally.request.0 as u32 as usize) * PLACES
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
