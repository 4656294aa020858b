//! Observers see calls when their account is settled, with all that is known of them: for logs of calls, and for traces.

use super::usage_sink::Line;
use crate::node_try::NodeTry;
use crate::recent::{CallFacts, RequestFacts};
use crate::trace::{CallTrace, TraceSampling};
use std::fmt::Debug;
use std::sync::Arc;

/// Sees every set of calls. Like a sink, it does not block.
pub trait CallObserver: Send + Sync + Debug {
    /// Sees a set before its record goes to the sink.
    fn see(&self, settled: &SettledCalls<'_>);
}

/// A set of calls whose account is settled, or the begin of something that lasts.
#[derive(Clone, Copy, Debug)]
pub struct SettledCalls<'a> {
    /// What holds for all of it.
    pub facts: &'a RequestFacts,
    /// The part of the caller's key that a log may show.
    pub prefix: &'a str,
    /// Whether they were a message on a stream.
    pub is_message: bool,
    /// The calls, as they are recorded.
    pub lines: &'a [Line<'a>],
    /// What else is known of each, in the same order.
    pub calls: &'a [CallFacts],
    /// The tries at nodes.
    pub tries: &'a [NodeTry],
    /// Their trace, if they have one.
    pub trace: Option<&'a Arc<CallTrace>>,
}

/// Which calls have a trace, and who sees those whose trace is recorded.
#[derive(Clone, Debug)]
pub struct CallTracing {
    /// Which calls.
    pub sampling: TraceSampling,
    /// Who sees them.
    pub observer: Arc<dyn CallObserver>,
}
