//! The numbers of a program's own calls to nodes.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Begins anywhere, so that the calls of two programs at one node rarely have the same numbers.
static NEXT: LazyLock<AtomicUsize> = LazyLock::new(|| {
    let random = RandomState::new().hash_one(std::process::id());
    AtomicUsize::new((random >> 16) as usize)
});

/// The lowest number of a program's own call. Those of calls of clients are lower, so that a node's log tells them apart.
const FIRST: usize = 1 << 40;

/// The id of the next call that a program makes for itself, such as a probe. The number differs from call to call, so that a
/// late answer to an earlier call is recognised. JSON numbers hold it exactly in every language.
pub fn next_call_number() -> usize {
    FIRST + NEXT.fetch_add(1, Relaxed) % FIRST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_of_a_program_has_a_number_of_its_own_that_a_float_holds() {
        let (one, two) = (next_call_number(), next_call_number());
        assert_ne!(one, two);
        assert!([one, two].iter().all(|number| (FIRST..1 << 53).contains(number)));
    }
}
