//! Layers that see calls. They pass on a set of calls, [`Calls`](rpcgate_core::call::Calls). A settled call keeps its
//! position in the set.

pub mod batch;
pub mod body;
pub mod cache;
pub mod closed;
pub mod each;
mod gzip;
pub mod heavy;
pub mod join;
pub mod lists;
pub mod overload;
pub mod pace;
mod pieces;
pub mod quota;
pub(crate) mod rest;
pub mod served;
pub mod split;
pub mod window;

use rpcgate_core::chain::Flags;
use rpcgate_core::tally::Tally;

/// Reports whether any call of the set has all of these flags. In most sets no call has a flag that a layer acts on.
fn is_any_marked(tally: &Tally, flags: Flags) -> bool {
    tally.entries.iter().any(|entry| entry.call.rule.flags.has(flags))
}
