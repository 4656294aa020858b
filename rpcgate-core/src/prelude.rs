//! The most used names in one import: callers and plans, chains and adapters, and in-memory backends.
//!
//! ```
//! use rpcgate_core::prelude::*;
//!
//! let caller = Caller::of(1, Plan::of(Tier::Free));
//! assert_eq!(caller.plan.per_minute, 10);
//! ```

pub use crate::adapter::{Adapter, KeySources, NodeStatus, Permanence, Probe, method_table};
pub use crate::backend::counters::MemoryCounters;
pub use crate::backend::directory::{Directory, KeyLookup};
pub use crate::backend::usage_sink::{MemoryUsageSink, OwnedRecord, Record, UsageSink};
pub use crate::backend::{BoxFuture, Unavailable};
pub use crate::cache_rule::CacheRule;
pub use crate::call::CallView;
pub use crate::caller::{Caller, CallerRef, KeyId, ProjectId, TenantId};
pub use crate::chain::{Chain, ChainName, ChainOverrides, Facts, Finality, Flags, Method, MethodRule};
pub use crate::clock::{Clock, ManualClock, SystemClock, Time};
pub use crate::intern::intern;
pub use crate::overload::{ChainLoads, LoadRules};
pub use crate::plan::{Plan, Tier};
pub use crate::refusal::Refusal;
pub use crate::rest_method::RestMethod;
pub use crate::secret::KeyHash;
pub use crate::tally::Accounting;
pub use crate::window::Windows;
