//! The spans of calls (`telemetry.otlp`): one per request, with a child span for each try at a node. The exporter task
//! writes them after the request has ended; until then the facts of the request wait in a queue.
//!
//! A span contains no parameter, body, header or client address, and of a key only its identifier.

use crate::call_log::{cache_word, method_word, outcome_word};
use arc_swap::ArcSwap;
use rpcgate_config::OtlpSettings;
use rpcgate_core::backend::call_observer::{CallObserver, CallTracing, SettledCalls};
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::call::NO_METHOD;
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::node_try::{NodeTry, TryEnd};
use rpcgate_core::recent::{CallFacts, RecentCall, RequestFacts};
use rpcgate_core::trace::{CallTrace, TraceSampling};
use rpcgate_layers::nodes::Pools;
use rpcgate_process::traces::{
    BadCollector, Event, KeyValue, SpanData, SpanKind, SpanQueue, SpanSource, TraceCounts, TraceExporter,
    span, span_time,
};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

const PROGRAM: &str = "rpcgate-server";

#[derive(Debug)]
pub(crate) struct CallTraces {
    /// The sampling rule and the observer of traced calls.
    pub(crate) tracing: CallTracing,
    pub(crate) counts: Arc<TraceCounts>,
    pub(crate) exporter: TraceExporter,
}

impl CallTraces {
    /// Starts to export traces if `settings` name a collector. The names of nodes are looked up in `pools`.
    ///
    /// # Errors
    /// [`BadCollector`]
    pub(crate) fn start(
        settings: &OtlpSettings,
        clock: &Arc<dyn Clock>,
        pools: &Arc<ArcSwap<Pools>>,
    ) -> Result<Option<Self>, BadCollector> {
        let Some((queue, exporter)) = TraceExporter::start(settings, PROGRAM, clock)? else {
            return Ok(None);
        };
        let sampling = TraceSampling::of_millionths(settings.ratio.millionths());
        let counts = queue.counts().clone();
        let observer = Arc::new(TraceObserver { queue, pools: pools.clone() });
        Ok(Some(CallTraces { tracing: CallTracing { sampling, observer }, counts, exporter }))
    }
}

#[derive(Debug)]
struct TraceObserver {
    queue: SpanQueue<TracedRequest>,
    pools: Arc<ArcSwap<Pools>>,
}

impl CallObserver for TraceObserver {
    fn see(&self, settled: &SettledCalls<'_>) {
        let Some(trace) = settled.trace else { return };
        self.queue.push(1 + settled.tries.len(), || TracedRequest {
            trace: trace.clone(),
            facts: *settled.facts,
            is_message: settled.is_message,
            calls: settled
                .lines
                .iter()
                .zip(settled.calls)
                .map(|(line, facts)| RecentCall { method: method_word(line), facts: *facts })
                .collect(),
            tries: settled.tries.to_vec(),
            pools: self.pools.clone(),
        });
    }
}

/// A request that has ended and whose spans are not yet written.
struct TracedRequest {
    trace: Arc<CallTrace>,
    facts: RequestFacts,
    is_message: bool,
    calls: Vec<RecentCall>,
    tries: Vec<NodeTry>,
    pools: Arc<ArcSwap<Pools>>,
}

impl SpanSource for TracedRequest {
    fn write(self, spans: &mut Vec<SpanData>) {
        spans.push(self.server());
        spans.extend(self.tries.iter().filter_map(|one| self.client(one)));
    }
}

impl TracedRequest {
    fn server(&self) -> SpanData {
        let RequestFacts { arrival, latency, .. } = self.facts;
        let mut attributes = self.attributes();
        let mut events = Vec::new();
        let is_failed = |call: &&RecentCall| error(&call.facts).is_some();
        let error = match &self.calls[..] {
            [call] => {
                attributes.extend(call_attributes(call));
                error(&call.facts)
            }
            calls => {
                let all = calls.len();
                attributes.push(KeyValue::new("rpcgate.calls", number(all)));
                let time = span_time(arrival.plus(latency));
                let event = |call| Event::new("call", time, call_attributes(call), 0);
                events = calls.iter().map(event).collect();
                let failed = calls.iter().filter(is_failed).count();
                (failed > 0).then(|| format!("{failed} of {all} calls were refused or failed").into())
            }
        };
        let CallTrace { context, parent, .. } = *self.trace;
        let times = [arrival, arrival.plus(latency)];
        let mut span = span(context, parent, SpanKind::Server, self.name(), times, error);
        span.attributes = attributes;
        span.events.events = events;
        span
    }

    /// Returns the span name: the chain, and the method of a single call.
    fn name(&self) -> Cow<'static, str> {
        let chain = self.facts.chain.as_str();
        match &self.calls[..] {
            _ if self.facts.is_batch => format!("{chain} batch").into(),
            [call] if call.method != NO_METHOD => format!("{chain} {}", call.method).into(),
            _ => chain.into(),
        }
    }

    fn attributes(&self) -> Vec<KeyValue> {
        let facts = &self.facts;
        let mut attributes = vec![
            KeyValue::new("rpcgate.chain", facts.chain.as_str()),
            KeyValue::new("rpcgate.transport", facts.transport.name()),
            KeyValue::new("rpcgate.request_id", facts.request.to_string()),
            KeyValue::new("rpcgate.key_id", facts.key.to_string()),
            KeyValue::new("rpcgate.project_id", facts.project.to_string()),
            KeyValue::new("rpcgate.tenant_id", facts.tenant.to_string()),
            KeyValue::new("rpcgate.plan", facts.tier.name()),
        ];
        for (name, is) in [
            ("rpcgate.batch", facts.is_batch),
            ("rpcgate.message", self.is_message),
            ("rpcgate.lasting", facts.is_lasting),
        ] {
            if is {
                attributes.push(KeyValue::new(name, true));
            }
        }
        if facts.tries_left_out > 0 {
            attributes.push(KeyValue::new("rpcgate.tries_left_out", i64::from(facts.tries_left_out)));
        }
        attributes
    }

    /// Returns the span of a try, if the try was sampled.
    fn client(&self, one: &NodeTry) -> Option<SpanData> {
        let context = self.trace.context.with_span(one.span?);
        let end = self.facts.arrival.plus(self.facts.latency);
        let began = one.began.map_or(self.facts.arrival, |began| self.at(began));
        let ended = match (one.took, one.end) {
            (Some(took), _) => began.plus(took),
            // The try was still running when its request ended.
            (None, TryEnd::Running) => end,
            (None, _) => began,
        };
        let (word, error) = match one.end {
            TryEnd::Running => ("running", None),
            TryEnd::Answered => ("answered", None),
            TryEnd::IdleClosed => ("idle_closed", Some("the node had closed the idle connection".into())),
            TryEnd::Stopped => ("stopped", None),
            TryEnd::Failed(fault) => ("failed", Some(fault.to_string().into())),
        };
        let mut attributes = vec![
            KeyValue::new("rpcgate.chain", self.facts.chain.as_str()),
            KeyValue::new("rpcgate.node", i64::from(one.node) + 1),
            KeyValue::new("rpcgate.node_choice", one.choice.name()),
            KeyValue::new("rpcgate.try", word),
        ];
        if self.calls.len() > 1 {
            let calls = (0..self.calls.len()).filter(|index| one.calls.has(*index)).count();
            attributes.push(KeyValue::new("rpcgate.calls", number(calls)));
        }
        // In a newer pool the same index may belong to another node.
        let pools = self.pools.load();
        let pool = pools.get(self.facts.chain).filter(|pool| pool.number() == one.pool);
        if let Some(node) = pool.and_then(|pool| pool.nodes().nth(one.node.into())) {
            attributes.push(KeyValue::new("server.address", node.name.host().to_owned()));
            attributes.push(KeyValue::new("server.port", i64::from(node.name.port())));
        }
        let parent = Some(self.trace.context.span);
        let times = [began, ended.max(began)];
        let span = span(context, parent, SpanKind::Client, self.name(), times, error);
        Some(SpanData { attributes, ..span })
    }

    /// Converts a reading of the monotonic clock to wall-clock time.
    fn at(&self, elapsed: Duration) -> Time {
        self.facts.arrival.plus(elapsed.saturating_sub(self.facts.started))
    }
}

/// Returns the reason why a call was not answered.
fn error(facts: &CallFacts) -> Option<Cow<'static, str>> {
    match (facts.refusal, facts.fault, facts.outcome) {
        (Some(refusal), ..) => Some(refusal.message().into()),
        (None, Some(fault), _) => Some(fault.to_string().into()),
        (None, None, Outcome::Abandoned) => Some("the client left".into()),
        (None, None, Outcome::Refused) => Some("refused".into()),
        (None, None, Outcome::Failed) => Some("no node answered".into()),
        (None, None, Outcome::Answered | Outcome::NodeError) => None,
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn call_attributes(RecentCall { method, facts }: &RecentCall) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new("rpc.method", method.clone()),
        KeyValue::new("http.response.status_code", i64::from(facts.status)),
        KeyValue::new("rpcgate.outcome", outcome_word(facts.outcome)),
        KeyValue::new("rpcgate.cache", cache_word(facts.cache)),
        KeyValue::new("rpcgate.cu", i64::from(facts.cu)),
    ];
    if let Some(refusal) = facts.refusal {
        attributes.push(KeyValue::new("rpcgate.refusal_code", i64::from(refusal.code())));
        attributes.push(KeyValue::new("rpcgate.refusal", refusal.message()));
    }
    if let Some(fault) = facts.fault {
        attributes.push(KeyValue::new("rpcgate.fault", fault.to_string()));
    }
    attributes
}

#[cfg(test)]
mod tests;
