//! The whole stack: every layer in the one order in which they are right. This file alone knows that order.

use crate::call::batch::{Batch, BatchLayer};
use crate::call::body::BodyLimits;
use crate::call::cache::{Cache, CacheLayer};
use crate::call::closed::{Closed, ClosedLayer};
use crate::call::heavy::{Heavy, HeavyLayer};
use crate::call::lists::{Lists, ListsLayer};
use crate::call::pace::{Pace, PaceLayer};
use crate::call::quota::{Quota, QuotaLayer};
use crate::call::served::{Served, ServedLayer};
use crate::call::window::{Window, WindowLayer};
use crate::gate::Gate;
use crate::nodes::Pools;
use crate::request::authenticate::{Authenticate, AuthenticateLayer};
use crate::request::policy::Enforce;
use crate::request::route::{HeadLimits, Route, RouteLayer};
use crate::request::safeguard::{Safeguard, SafeguardLayer, Safeguarded};
use crate::request::scope::{ChainScope, ScopeLayer};
use crate::request::suspend::{Suspend, SuspendLayer};
use crate::respond::{Respond, RespondLayer};
use crate::spawn::Spawn;
use crate::upstream::{ReplyLimits, Upstream};
use arc_swap::ArcSwap;
use rpcgate_core::backend::directory::Directory;
use rpcgate_core::backend::reply_store::ReplyStore;
use rpcgate_core::chain::Chains;
use rpcgate_core::envelope::Limits;
use rpcgate_core::memory::MemoryBudget;
use rpcgate_core::plan::BatchCounts;
use rpcgate_core::tally::Accounting;
use std::sync::Arc;
use tower_layer::Layer;

/// What the stack is built from: backends and values, no configuration.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The chains, replaced as a whole when one changes.
    pub chains: Arc<ArcSwap<Chains>>,
    /// Their nodes.
    pub pools: Arc<ArcSwap<Pools>>,
    /// The keys.
    pub directory: Arc<dyn Directory>,
    /// Clock, counters and sink.
    pub accounting: Arc<Accounting>,
    /// Where answers are kept.
    pub replies: Arc<dyn ReplyStore>,
    /// What runs a call that others wait for when its own client has left.
    pub spawn: Arc<dyn Spawn>,
    /// The bound on all bodies in memory.
    pub room: Arc<MemoryBudget>,
    /// Limits of a request's head.
    pub head: HeadLimits,
    /// Limits of a request's body.
    pub body: BodyLimits,
    /// Limits of what is in the body.
    pub envelope: Limits,
    /// What a batch counts as.
    pub batch: BatchCounts,
    /// How much of an answer is held.
    pub reply: ReplyLimits,
    /// The heavy budget, shared with whoever sweeps it.
    pub heavy: Arc<Heavy>,
    /// The pace, shared with whoever sweeps it.
    pub pace: Arc<Pace>,
    /// The safeguard, shared with whoever sweeps it.
    pub safeguard: Arc<Safeguard>,
}

/// The layers that see calls.
pub type CallStack =
    Gate<Window<Gate<Gate<Gate<Gate<Quota<Cache<Upstream>>, Closed>, Heavy>, Pace>, Served>>, Lists>;

/// All layers.
pub type HttpStack =
    Respond<Route<Authenticate<Safeguarded<Enforce<Enforce<Batch<CallStack>, ChainScope>, Suspend>>>>>;

/// Builds the stack. Every clone of it shares what stands behind the backends; a server keeps one per connection.
pub fn http_stack(parts: Parts) -> HttpStack {
    let Parts {
        chains,
        pools,
        directory,
        accounting,
        replies,
        spawn,
        room,
        head,
        body,
        envelope,
        batch,
        reply,
        heavy,
        pace,
        safeguard,
    } = parts;
    let accounting = Arc::new(safeguard.watch(&accounting));
    let layers = (
        // Everything that leaves passes here, so every answer carries its id and the headers it owes.
        RespondLayer::new(accounting.clock.clone()),
        // Costs nothing and needs nobody: strangers at a wrong door are turned away before any look-up.
        RouteLayer::new(chains).with_limits(head),
        // From here on there is a caller, and an account that records whatever happens.
        AuthenticateLayer::new(directory, accounting.clone()),
        // Whoever was in a storm of refusals has smaller limits, and every answer from here on says so.
        SafeguardLayer::by(safeguard),
        // A suspended tenant is told so whatever it asks for, before its body is worth reading.
        SuspendLayer::new(),
        // A key's scope needs the chain alone.
        ScopeLayer::new(),
        // The body is read and parsed once; behind this layer there are only calls.
        BatchLayer::new().with_body(body).with_envelope(envelope).with_answer(reply.max).with_room(room),
        // A method that the project may not call must not use up its requests.
        ListsLayer::new(),
        // The plan's requests, counted before anything that costs more.
        WindowLayer::new(accounting.counters.clone()).with_batches(batch),
        // To ask for a chain that is off is a request, but nothing more.
        ServedLayer::new(),
        // One call a minute of what is paced, before the budget it would use.
        PaceLayer::by(pace),
        // The heavy budget, consulted even for what is closed.
        HeavyLayer::by(heavy),
        // What nobody may call, before it could be reserved.
        ClosedLayer::new(),
        // Cached answers cost too, so the quota stands before the cache.
        QuotaLayer::new(accounting.counters.clone()),
        // What is known need not be asked; what is asked by many is asked once.
        CacheLayer::new(replies, accounting.clock.clone()).with_spawn(spawn),
    );
    layers.layer(Upstream::new(pools).with_limits(reply))
}

#[cfg(test)]
mod tests {
    /// The layers in the order of the source above, in words for people in `docs/layers.md`.
    fn layers(source: &str) -> Vec<&str> {
        let stack = source.split("let layers = (").nth(1).unwrap().split("layers.layer").next().unwrap();
        stack
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .filter_map(|line| line.trim().split_once("Layer::").map(|(name, _)| name))
            .collect()
    }

    #[test]
    fn the_document_names_the_layers_in_the_order_of_the_stack() {
        let document = include_str!("../../docs/layers.md");
        let named: Vec<_> = document
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once("Layer`").map(|(name, _)| name))
            .collect();
        assert_eq!(layers(include_str!("stack.rs")), named);
        assert_eq!(named.len(), 15);
    }
}
