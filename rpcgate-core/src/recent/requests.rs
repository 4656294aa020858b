//! The in-memory store of recent requests.

use super::request::{CallFacts, RecentCall, RecentRequest, RequestFacts};
use crate::backend::usage_sink::shown_method;
use crate::caller::RequestId;
use crate::node_try::NodeTry;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The chunks per shard. The oldest one is dropped whole when its space is needed.
const CHUNKS: usize = 8;

/// The maximum number of requests per chunk, so that a search never holds a lock for long.
const MOST_ROWS: usize = 512;

/// The capacity of a chunk for calls and tries beyond one per request. The largest batch fits into any chunk.
const SPARE: usize = 128;

/// The capacity of a chunk for method names in bytes: per request, and additionally for the largest batch.
const NAME: usize = 32;
const SPARE_NAMES: usize = 32 << 10;

/// A bounded store of recent requests. Each thread writes into its own shard and never waits: a request that finds its
/// shard and the next one locked is dropped.
pub struct RecentRequests {
    shards: Box<[Shard]>,
    rows: usize,
    chunks: usize,
    dropped: AtomicU64,
}

/// Aligned to its own cache lines, so that threads do not slow each other down.
#[repr(align(128))]
#[derive(Default)]
struct Shard(Mutex<VecDeque<Chunk>>);

#[derive(Default)]
struct Chunk {
    requests: Vec<StoredRequest>,
    calls: Vec<(CallFacts, u32)>,
    tries: Vec<NodeTry>,
    names: Vec<u8>,
}

/// A request, and the ends of its parts of the lists. They begin at the ends of the previous request.
struct StoredRequest {
    facts: RequestFacts,
    calls: u32,
    tries: u32,
}

impl Chunk {
    fn has_capacity(&self, rows: usize, calls: usize, tries: usize, names: usize) -> bool {
        self.requests.len() < rows
            && self.calls.len() + calls <= rows + SPARE
            && self.tries.len() + tries <= rows + SPARE
            && self.names.len() + names <= rows * NAME + SPARE_NAMES
    }

    fn clear(&mut self) {
        self.requests.clear();
        self.calls.clear();
        self.tries.clear();
        self.names.clear();
    }

    fn find(&self, request: RequestId) -> Option<RecentRequest> {
        let index = self.requests.iter().rposition(|stored| stored.facts.request == request)?;
        let stored = self.requests.get(index)?;
        let before = index.checked_sub(1).and_then(|before| self.requests.get(before));
        let (calls, tries) = before.map_or((0, 0), |before| (before.calls as usize, before.tries as usize));
        let mut named = match calls.checked_sub(1).and_then(|last| self.calls.get(last)) {
            Some((_, end)) => *end as usize,
            None => 0,
        };
        let call = |(facts, end): &(CallFacts, u32)| {
            let name = self.names.get(named..*end as usize).unwrap_or_default();
            named = *end as usize;
            RecentCall { method: shown_method(name).into_owned(), facts: *facts }
        };
        Some(RecentRequest {
            facts: stored.facts,
            calls: self.calls.get(calls..stored.calls as usize)?.iter().map(call).collect(),
            tries: self.tries.get(tries..stored.tries as usize)?.to_vec(),
        })
    }
}

/// Returns the number of this thread among those that have stored a request.
fn index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static INDEX: usize = NEXT.fetch_add(1, Relaxed);
    }
    INDEX.with(|index| *index)
}

impl RecentRequests {
    /// Creates a store of at most `limit` requests from `threads` threads. Its memory grows with their number.
    pub fn new(limit: usize, threads: usize) -> Self {
        let limit = limit.max(1);
        let count = threads.clamp(1, limit);
        let of_shard = limit / count;
        let rows = (of_shard / CHUNKS).clamp(1, MOST_ROWS);
        let shards = (0..count).map(|_| Shard::default()).collect();
        RecentRequests { shards, rows, chunks: (of_shard / rows).max(1), dropped: AtomicU64::new(0) }
    }

    /// Stores a request: its data, its calls with their methods, and the tries of its calls.
    pub fn remember<'m>(
        &self,
        facts: &RequestFacts,
        calls: impl ExactSizeIterator<Item = (CallFacts, &'m [u8])> + Clone,
        tries: &[NodeTry],
    ) {
        let names: usize = calls.clone().map(|(_, name)| name.len()).sum();
        let here = index();
        let free = |step: usize| self.shards.get((here + step) % self.shards.len())?.0.try_lock();
        let Some(mut chunks) = free(0).or_else(|| free(1)) else {
            self.dropped.fetch_add(1, Relaxed);
            return;
        };
        let fits = |chunk: &Chunk| chunk.has_capacity(self.rows, calls.len(), tries.len(), names);
        if !chunks.back().is_some_and(fits) {
            // The oldest chunk becomes the newest and keeps its memory.
            let mut next =
                if chunks.len() < self.chunks { None } else { chunks.pop_front() }.unwrap_or_default();
            next.clear();
            if !fits(&next) {
                self.dropped.fetch_add(1, Relaxed);
                return;
            }
            chunks.push_back(next);
        }
        let Some(chunk) = chunks.back_mut() else { return };
        for (call, name) in calls {
            chunk.names.extend_from_slice(name);
            chunk.calls.push((call, chunk.names.len() as u32));
        }
        chunk.tries.extend_from_slice(tries);
        let calls = chunk.calls.len() as u32;
        let tries = chunk.tries.len() as u32;
        chunk.requests.push(StoredRequest { facts: *facts, calls, tries });
    }

    /// Returns a stored request. A search takes milliseconds, but holds each lock only for a small part of that.
    pub fn find(&self, request: RequestId) -> Option<RecentRequest> {
        self.shards.iter().find_map(|shard| {
            // From the newest chunk to the oldest: a concurrent push moves no chunk past this search.
            (0..self.chunks).find_map(|back| {
                let chunks = shard.0.lock();
                let index = chunks.len().checked_sub(back + 1)?;
                chunks.get(index)?.find(request)
            })
        })
    }

    /// Returns the number of requests that were dropped because of concurrent writes.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Returns the number of stored requests.
    pub fn len(&self) -> usize {
        let len = |shard: &Shard| shard.0.lock().iter().map(|chunk| chunk.requests.len()).sum::<usize>();
        self.shards.iter().map(len).sum()
    }

    /// Reports whether no request is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for RecentRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentRequests").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::usage_sink::Outcome;
    use crate::caller::{KeyId, ProjectId, TenantId};
    use crate::chain::ChainName;
    use crate::clock::Time;
    use crate::node_try::{NodeChoice, NodeTries};
    use crate::plan::Tier;
    use crate::recent::CacheUse;
    use crate::transport::Transport;
    use std::time::Duration;

    fn facts(request: u128) -> RequestFacts {
        RequestFacts {
            request: RequestId(request),
            key: KeyId(1),
            project: ProjectId(2),
            tenant: TenantId(3),
            tier: Tier::Free,
            transport: Transport::Http,
            chain: ChainName::new("toy"),
            is_batch: false,
            is_lasting: false,
            is_cooled: false,
            arrival: Time::default(),
            started: Duration::ZERO,
            latency: Duration::ZERO,
            windows: None,
            counted: 0,
            quota: None,
            refused: None,
            tries_left_out: 0,
        }
    }

    const CALL: CallFacts = CallFacts {
        weight: 5,
        cu: 5,
        status: 200,
        outcome: Outcome::Answered,
        cache: CacheUse::Miss,
        refusal: None,
        fault: None,
    };

    fn put(recent: &RecentRequests, request: u128, names: &[&str], tries: usize) {
        let mut made = NodeTries::default();
        (0..tries).for_each(|node| made.push((1, node), NodeChoice::Turn));
        recent.remember(&facts(request), names.iter().map(|name| (CALL, name.as_bytes())), made.as_slice());
    }

    fn names(recent: &RecentRequests, request: u128) -> Option<(Vec<String>, usize)> {
        let found = recent.find(RequestId(request))?;
        assert_eq!(found.facts.request, RequestId(request));
        Some((found.calls.into_iter().map(|call| call.method).collect(), found.tries.len()))
    }

    #[test]
    fn a_request_is_found_with_its_own_calls_and_tries() {
        let recent = RecentRequests::new(1_000, 1);
        put(&recent, 1, &["a"], 1);
        put(&recent, 2, &["bb", "", "ccc"], 2);
        put(&recent, 3, &["d"], 0);
        assert_eq!(names(&recent, 1), Some((vec!["a".into()], 1)));
        assert_eq!(names(&recent, 2), Some((vec!["bb".into(), String::new(), "ccc".into()], 2)));
        assert_eq!(names(&recent, 3), Some((vec!["d".into()], 0)));
        assert_eq!(names(&recent, 4), None);
    }

    // Shows (Traces, logs and metrics): Stored requests and queries about them are bounded, and no request waits for
    // them.
    #[test]
    fn the_oldest_are_forgotten_and_the_bound_is_never_passed() {
        for (limit, threads) in [(1, 1), (7, 1), (64, 1), (100, 4), (10_000, 1)] {
            let recent = RecentRequests::new(limit, threads);
            for request in 0..3 * limit as u128 {
                put(&recent, request, &["a"], 1);
                assert!(recent.len() <= limit, "{limit}");
            }
            let newest = 3 * limit as u128 - 1;
            assert!(names(&recent, newest).is_some(), "{limit}");
            assert_eq!(names(&recent, 0), None, "{limit}");
            // One thread uses one shard.
            let stored = limit / threads;
            assert!(recent.len() >= stored - stored / CHUNKS - 1, "{limit}: {}", recent.len());
        }
    }

    // Shows (Traces, logs and metrics).
    #[test]
    fn batches_replace_older_requests_within_the_bound() {
        let recent = RecentRequests::new(64, 1);
        for request in 0..500 {
            put(&recent, request, &["some_method"; 100], 64);
        }
        assert_eq!(names(&recent, 499).unwrap().0.len(), 100);
        let shard = recent.shards[0].0.lock();
        assert!(shard.len() <= CHUNKS, "{}", shard.len());
        for chunk in shard.iter() {
            assert!(chunk.calls.len() <= recent.rows + SPARE && chunk.tries.len() <= recent.rows + SPARE);
        }
    }

    #[test]
    fn names_are_bounded_in_bytes() {
        let recent = RecentRequests::new(8, 1);
        let long = "x".repeat(SPARE_NAMES + 2 * NAME);
        put(&recent, 1, &[&long], 0);
        assert_eq!((names(&recent, 1), recent.dropped()), (None, 1));
        let largest = "x".repeat(256);
        put(&recent, 2, &[largest.as_str(); 100], 0);
        assert!(names(&recent, 2).is_some());
    }

    // Shows (Traces, logs and metrics).
    #[test]
    fn a_writer_never_waits_for_a_lock() {
        let recent = RecentRequests::new(64, 1);
        let held = recent.shards[0].0.lock();
        put(&recent, 1, &["a"], 0);
        drop(held);
        assert_eq!((names(&recent, 1), recent.dropped()), (None, 1));
        put(&recent, 2, &["a"], 0);
        assert!(names(&recent, 2).is_some());
    }

    #[test]
    fn requests_of_many_threads_are_all_found() {
        let recent = RecentRequests::new(100_000, 4);
        std::thread::scope(|scope| {
            for thread in 0..4_u128 {
                let recent = &recent;
                scope.spawn(move || (0..1_000).for_each(|n| put(recent, thread << 64 | n, &["a"], 1)));
            }
        });
        let dropped = usize::try_from(recent.dropped()).unwrap();
        assert_eq!(recent.len() + dropped, 4_000);
        let found = (0..4_u128).flat_map(|thread| (0..1_000).map(move |n| thread << 64 | n));
        assert_eq!(found.filter(|id| names(&recent, *id).is_some()).count(), recent.len());
    }
}
