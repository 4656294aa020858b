//! Observers of settled calls and all data about them, for call logs and traces.

use super::usage_sink::Line;
use crate::node_try::NodeTry;
use crate::recent::{CallFacts, RequestFacts};
use crate::trace::{CallTrace, TraceSampling};
use std::fmt::Debug;
use std::sync::Arc;

/// An observer of every set of calls. Like a sink, it does not block.
pub trait CallObserver: Send + Sync + Debug {
    /// Observes a set before its record goes to the sink.
    fn see(&self, settled: &SettledCalls<'_>);
}

/// A settled set of calls, or the begin of a long call.
#[derive(Clone, Copy, Debug)]
pub struct SettledCalls<'a> {
    /// The data of the whole set.
    pub facts: &'a RequestFacts,
    /// The part of the caller's key that a log may show.
    pub prefix: &'a str,
    /// True if they were a message on a stream.
    pub is_message: bool,
    /// The calls, as recorded.
    pub lines: &'a [Line<'a>],
    /// Further data of each call, in the same order.
    pub calls: &'a [CallFacts],
    /// The tries at nodes.
    pub tries: &'a [NodeTry],
    /// Their trace, if they have one.
    pub trace: Option<&'a Arc<CallTrace>>,
}

/// The sampling of calls, and the observer of the recorded ones.
#[derive(Clone, Debug)]
pub struct CallTracing {
    /// The sampling decision.
    pub sampling: TraceSampling,
    /// The observer of recorded calls.
    pub observer: Arc<dyn CallObserver>,
}
