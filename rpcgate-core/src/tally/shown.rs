//! The data of a settled tally for observers and explanations.

use super::{Accounting, Tally};
use crate::backend::call_observer::{CallObserver, SettledCalls};
use crate::backend::usage_sink::{Line, Outcome};
use crate::call::{CallState, Entry};
use crate::chain::Flags;
use crate::fault::Cause;
use crate::quota::Grant;
use crate::recent::{CacheUse, CallFacts, QuotaUse, RequestFacts};
use crate::reply::Source;
use smallvec::SmallVec;
use std::time::Duration;

impl Tally {
    pub(super) fn remember<'m>(
        &self,
        calls: impl ExactSizeIterator<Item = (CallFacts, &'m [u8])> + Clone,
        latency: Duration,
        grant: Option<Grant>,
        charged: u64,
        is_lasting: bool,
    ) {
        let Some(recent) = &self.accounting.recent else { return };
        recent.remember(&self.facts(latency, grant, charged, is_lasting), calls, self.tries.as_slice());
    }

    pub(super) fn observers(&self) -> impl Iterator<Item = &dyn CallObserver> {
        let Accounting { observer, tracing, .. } = &*self.accounting;
        let is_recorded = || self.tries.trace().is_some_and(|trace| trace.is_sampled());
        let traced = tracing.as_ref().filter(|_| is_recorded()).map(|tracing| &*tracing.observer);
        observer.as_deref().into_iter().chain(traced)
    }

    #[cold]
    pub(super) fn show(
        &self,
        observer: &dyn CallObserver,
        lines: &[Line<'_>],
        latency: Duration,
        grant: Option<Grant>,
        charged: u64,
        is_lasting: bool,
    ) {
        let calls: SmallVec<[CallFacts; 1]> = lines
            .iter()
            .zip(&self.entries)
            .enumerate()
            .map(|(index, (line, entry))| {
                let cu = line.cu;
                let status = line.status;
                let outcome = line.outcome;
                CallFacts { cu, status, outcome, ..self.call_facts(entry, index) }
            })
            .collect();
        observer.see(&SettledCalls {
            facts: &self.facts(latency, grant, charged, is_lasting),
            prefix: &self.caller.prefix,
            is_message: self.stream.is_some(),
            lines,
            calls: &calls,
            tries: self.tries.as_slice(),
            trace: self.tries.trace(),
        });
    }

    fn facts(&self, latency: Duration, grant: Option<Grant>, charged: u64, is_lasting: bool) -> RequestFacts {
        let caller = &self.caller;
        let quota = grant.map(|grant| QuotaUse {
            ceiling: caller.quota.cu_per_day,
            before: grant.used,
            reserved: grant.units,
            charged,
        });
        RequestFacts {
            request: self.request,
            key: caller.key,
            project: caller.project,
            tenant: caller.tenant,
            tier: caller.plan.tier,
            transport: self.transport,
            chain: self.chain.name(),
            is_batch: self.batch,
            is_lasting,
            is_cooled: self.throttled_until.is_some(),
            arrival: self.arrival,
            started: self.started,
            latency,
            windows: self.windows,
            counted: self.counted,
            quota,
            refused: self.refused,
            tries_left_out: self.tries.left_out(),
        }
    }

    /// Returns the data of the call at `index`, without the fields that its line has.
    pub(super) fn call_facts(&self, entry: &Entry, index: usize) -> CallFacts {
        let (refusal, fault) = match &entry.state {
            CallState::Refused(refusal) => (Some(*refusal), None),
            CallState::Failed(fault) => (None, Some(*fault)),
            _ => (None, None),
        };
        CallFacts {
            weight: entry.call.rule.cu,
            cu: 0,
            status: 0,
            outcome: Outcome::Answered,
            cache: self.cache_use(entry, index),
            refusal,
            fault,
        }
    }

    fn cache_use(&self, entry: &Entry, index: usize) -> CacheUse {
        let rule = &entry.call.rule;
        let of_node = || {
            let is_cacheable = rule.cache.is_cached()
                && !rule.flags.has(Flags::BROADCAST)
                && !entry.call.is_notification(&self.body);
            if is_cacheable { CacheUse::Miss } else { CacheUse::Uncacheable }
        };
        match &entry.state {
            CallState::Answered(reply) => match reply.from {
                Source::Stored => CacheUse::Hit,
                Source::Shared => CacheUse::Joined,
                Source::Own { .. } => CacheUse::NotAsked,
                Source::Node | Source::NodeForAll | Source::Unserved => of_node(),
            },
            CallState::Parked => CacheUse::Joined,
            CallState::Open | CallState::Refused(_) => CacheUse::NotAsked,
            CallState::Sent => of_node(),
            // A call that was not tried failed with the identical call that it had joined.
            CallState::Failed(fault) => match of_node() {
                CacheUse::Miss if fault.cause != Cause::NoNode && !self.was_tried(index) => CacheUse::Joined,
                other => other,
            },
        }
    }

    fn was_tried(&self, index: usize) -> bool {
        self.tries.left_out() > 0 || self.tries.as_slice().iter().any(|one| one.calls.has(index))
    }
}
