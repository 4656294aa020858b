//! The recent requests of a gateway, in memory, to explain each: caller, plan, limits, cache, tried nodes, and cost.
//!
//! A settling [tally](crate::tally) writes into the [`RecentRequests`] of its [`Accounting`](crate::tally::Accounting).
//! Of a call, only the method name is kept: no parameters, no body, no key.
//!
//! ```
//! # use rpcgate_core::{adapter::*, call::CallView, chain::{Facts, Finality, Method}};
//! # use rpcgate_core::backend::{counters::MemoryCounters, usage_sink::MemoryUsageSink};
//! use rpcgate_core::call::{Call, Entry, Payload};
//! use rpcgate_core::{caller::*, chain::Chain, clock::*, plan::{Plan, Tier}, refusal::Refusal, tally::*};
//! use rpcgate_core::recent::RecentRequests;
//! use std::sync::Arc;
//!
//! # #[derive(Debug)] struct Still(Facts);
//! # impl Adapter for Still {
//! #     fn facts(&self) -> &Facts { &self.0 }
//! #     fn methods(&self) -> Vec<Method> { Vec::new() }
//! #     fn settled(&self, _: CallView<'_>, _: &[u8], _: &Finality) -> Permanence { Permanence::Yes }
//! #     fn probe(&self) -> Probe { Probe::Rest { target: "/head", body: None } }
//! #     fn seen(&self, _: &[u8]) -> Option<NodeStatus> { None }
//! # }
//! # let clock = Arc::new(ManualClock::at(Time::from_secs(1_000)));
//! # let chain = Arc::new(Chain::deployed(Arc::new(Still(Facts::json_rpc("still", "Still")))));
//! # let caller = Arc::new(Caller::new(KeyId(1), ProjectId(2), TenantId(3), Plan::of(Tier::Free)));
//! # let counters = Arc::<MemoryCounters>::default();
//! # let sink = Arc::<MemoryUsageSink>::default();
//! let recent = Arc::new(RecentRequests::new(1_000, 1));
//! let accounting = Accounting::new(clock.clone(), counters, sink).remembering(recent.clone());
//! # let arrival = clock.now();
//! # let started = clock.elapsed();
//! let mut tally = Tally::new(RequestId(7), Transport::Http, chain, caller, arrival, started, Arc::new(accounting));
//! tally.entries.push(Entry::refused(Call::unread(Payload::Unread), Refusal::Suspended));
//! drop(tally);
//! let request = recent.find(RequestId(7)).unwrap();
//! assert_eq!(request.calls[0].facts.refusal, Some(Refusal::Suspended));
//! ```

mod request;
mod requests;

pub use request::{CacheUse, CallFacts, QuotaUse, RecentCall, RecentRequest, RequestFacts};
pub use requests::RecentRequests;
