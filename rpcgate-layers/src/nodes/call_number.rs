//! The ids of the gateway's own calls to nodes.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Starts at a random number, so that the calls of two gateways to one node rarely have the same ids.
static NEXT: LazyLock<AtomicUsize> = LazyLock::new(|| {
    let random = RandomState::new().hash_one(std::process::id());
    AtomicUsize::new((random >> 16) as usize)
});

/// The lowest id of the gateway's own calls. Ids of client calls are lower, so that a node's log shows which is which.
const FIRST: usize = 1 << 40;

/// Returns the id of the next call that the gateway makes for itself, such as a probe. Each call has another id, so
/// that a late answer to an earlier call is recognised. JSON numbers hold the id exactly in every language.
pub fn next_call_number() -> usize {
    FIRST + NEXT.fetch_add(1, Relaxed) % FIRST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_of_a_program_has_its_own_number_that_fits_a_float() {
        let one = next_call_number();
        let two = next_call_number();
        assert_ne!(one, two);
        assert!([one, two].iter().all(|number| (FIRST..1 << 53).contains(number)));
    }
}
