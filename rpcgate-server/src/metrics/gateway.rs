//! Metrics of a gateway's nodes, cache, journal and databases.

use crate::call_log::LogCounts;
use crate::counting::Counting;
use crate::listen::Connections;
use crate::reload::Reloadable;
use crate::state::State;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;
use rpcgate_core::chain::NodePrice;
use rpcgate_core::clock::Clock;
use rpcgate_core::overload::ChainLoads;
use rpcgate_core::recent::RecentRequests;
use rpcgate_layers::call::cache::BoundedReplies;
use rpcgate_layers::grpc::GrpcCounts;
use rpcgate_layers::nodes::{BatchingCounts, NodeHealth, SecondReason};
use rpcgate_layers::redis::CounterState;
use rpcgate_layers::websocket::OpenStreams;
use rpcgate_process::metrics::MetricsWriter;
use rpcgate_process::traces::TraceCounts;
use rpcgate_store::NodeState;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The maximum age of the change feed's last read; beyond it the management database counts as down.
const FEED: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Reloads {
    done: AtomicU64,
    refused: AtomicU64,
}

impl Reloads {
    pub(crate) fn count(&self, is_done: bool) {
        if is_done { &self.done } else { &self.refused }.fetch_add(1, Relaxed);
    }
}

pub(crate) struct Watched {
    pub(crate) reloadable: Arc<Reloadable>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) streams: Arc<OpenStreams>,
    pub(crate) loads: Arc<ChainLoads>,
    pub(crate) state: Option<Arc<State>>,
    pub(crate) replies: Arc<BoundedReplies>,
    pub(crate) counting: Counting,
    pub(crate) reloads: Arc<Reloads>,
    pub(crate) grpc: Arc<GrpcCounts>,
    pub(crate) recent: Option<Arc<RecentRequests>>,
    pub(crate) logged: Option<Arc<LogCounts>>,
    pub(crate) traced: Option<Arc<TraceCounts>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl Collector for Watched {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = MetricsWriter::new(encoder);
        self.gateway(&mut page)?;
        self.streams(&mut page)?;
        self.chains(&mut page)?;
        self.loads(&mut page)?;
        self.grpc(&mut page)?;
        self.nodes(&mut page)?;
        self.hedges(&mut page)?;
        self.arrays(&mut page)?;
        self.cache(&mut page)?;
        match &self.state {
            Some(state) => self.state(&mut page, state),
            None => Ok(()),
        }
    }
}

impl Watched {
    fn gateway(&self, page: &mut MetricsWriter<'_>) -> fmt::Result {
        let version = [([("version", env!("CARGO_PKG_VERSION"))], 1_u64)];
        page.gauges("build_info", "What is running; always 1.", None, version)?;
        let ready = u64::from(self.connections.unready().is_none());
        page.gauge("ready", "Whether it accepts calls, as /readyz reports.", None, ready)?;
        page.gauge("connections", "Client connections that are open.", None, self.connections.open() as u64)?;
        let safeguard = &self.reloadable.safeguard;
        page.gauge(
            "cooled_keys",
            "Keys whose limits are scaled down after a storm.",
            None,
            safeguard.throttled(),
        )?;
        page.counter(
            "storms",
            "Storms of refused requests that had a key's limits scaled down.",
            safeguard.storms(),
        )?;
        if let Some(recent) = &self.recent {
            let remembered = recent.len() as u64;
            page.gauge("explainable_requests", "Requests that can be explained.", None, remembered)?;
            page.counter("unexplained_requests", "Requests that were not remembered.", recent.dropped())?;
        }
        if let Some(logged) = &self.logged {
            page.counters(
                "access_log_lines",
                "Calls to be logged, by outcome.",
                logged.read().map(|(result, count)| ([("result", result)], count)),
            )?;
        }
        if let Some(traced) = &self.traced {
            page.counters(
                "otlp_spans",
                "Spans of traced calls, by outcome.",
                traced.read().map(|(result, count)| ([("result", result)], count)),
            )?;
        }
        if let Some(standing) = self.counting.state() {
            let all = [CounterState::Together, CounterState::Seeding, CounterState::Alone];
            page.gauges(
                "counters",
                "The state of the counters in Redis; 1 for the current state.",
                None,
                all.map(|one| ([("standing", counted(one))], u64::from(one == standing))),
            )?;
        }
        let Reloads { done, refused } = &*self.reloads;
        let reloads = [("done", done), ("refused", refused)];
        page.counters(
            "config_reloads",
            "Configurations that were put in force after the first, or refused.",
            reloads.map(|(result, count)| ([("result", result)], count.load(Relaxed))),
        )
    }

    fn streams(&self, page: &mut MetricsWriter<'_>) -> fmt::Result {
        let mut open = self.streams.by_chain();
        open.sort_by_key(|(chain, _)| chain.as_str());
        page.gauges(
            "ws_streams",
            "WebSocket streams that are open.",
            None,
            open.iter().map(|(chain, count)| ([("chain", chain.as_str())], *count as u64)),
        )?;
        page.counters(
            "ws_closed",
            "WebSocket streams that have ended, by reason.",
            self.streams.closed().map(|(reason, count)| ([("reason", reason.name())], count)),
        )
    }

    fn chains(&self, page: &mut MetricsWriter<'_>) -> fmt::Result {
        let chains = self.reloadable.chains.load();
        let mut all: Vec<_> = chains.iter().map(|chain| (chain.name().as_str(), chain)).collect();
        all.sort_by_key(|(name, _)| *name);
        page.gauges(
            "chain_served",
            "Whether a chain is on and has a node.",
            None,
            all.iter().map(|(name, chain)| ([("chain", *name)], u64::from(chain.is_served()))),
        )?;
        let heights =
            all.iter().filter_map(|(name, chain)| Some(([("chain", *name)], chain.head().height()?)));
        page.gauges("chain_height", "The newest block that a chain's nodes have shown.", None, heights)
    }

    fn loads(&self, page: &mut MetricsWriter<'_>) -> fmt::Result {
        let all = self.loads.all();
        page.gauges(
            "chain_under_way",
            "Calls and batches in flight of a chain.",
            None,
            all.iter().map(|(chain, load)| ([("chain", chain.as_str())], load.in_flight() as u64)),
        )?;
        let now = self.clock.elapsed();
        let limited = all.iter().filter(|(_, load)| !load.is_idle(now));
        page.gauges(
            "chain_limit",
            "The limit of calls and batches in flight of an overloaded chain; absent while it is not overloaded.",
            None,
            limited.filter_map(|(chain, load)| Some(([("chain", chain.as_str())], load.limit()? as u64))),
        )?;
        // A set is refused for one reason. The label stays for the queries of operators.
        let rows = all
            .iter()
            .map(|(chain, load)| ([("chain", chain.as_str()), ("reason", "share")], load.turned_away()));
        page.counters(
            "chain_shed",
            "Calls and batches that were refused because a chain is overloaded.",
            rows,
        )
    }

    fn grpc(&self, page: &mut MetricsWriter<'_>) -> fmt::Result {
        let ended = self.grpc.ended();
        let rows = ended
            .iter()
            .map(|(chain, status, calls)| ([("chain", chain.as_str()), ("status", *status)], *calls));
        page.counters("grpc_calls", "gRPC calls that ended, by the status that their client got.", rows)?;
        let open = self.grpc.open() as u64;
        page.gauge("grpc_streams", "gRPC calls that are being answered message by message.", None, open)
    }

    fn nodes(&self, page: &mut MetricsWriter<'_>) -> fmt::Result {
        let nodes = named(self.reloadable.nodes());
        let rows = |number: fn(&NodeState) -> Option<f64>| {
            nodes.iter().filter_map(move |(name, node)| {
                Some(([("chain", node.chain.as_str()), ("node", name.as_str())], number(node)?))
            })
        };
        let fit = |node: &NodeState| Some(f64::from(u8::from(NodeHealth::is_fit_name(&node.standing))));
        page.gauges("node_well", "Whether a node can be reached and has caught up.", None, rows(fit))?;
        page.gauges(
            "node_standing",
            "The state of a node; 1 for the current state.",
            None,
            nodes.iter().map(|(name, node)| {
                let standing = ("standing", node.standing.as_str());
                ([("chain", node.chain.as_str()), ("node", name.as_str()), standing], 1_u64)
            }),
        )?;
        let height = |node: &NodeState| node.height.map(|height| height as f64);
        page.gauges("node_height", "The newest block of a node.", None, rows(height))?;
        let lag = |node: &NodeState| node.lag.map(|lag| lag as f64);
        page.gauges("node_lag_blocks", "Blocks that a node is behind its chain.", None, rows(lag))?;
        // A latency of 0 means that nothing was measured yet.
        let latency =
            |node: &NodeState| Some(node.latency_micros as f64 / 1e6).filter(|seconds| *seconds > 0.0);
        page.gauges(
            "node_latency",
            "The time that a node's answers take.",
            Some(&Unit::Seconds),
            rows(latency),
        )?;
        let in_flight = |node: &NodeState| Some(node.in_flight as f64);
        page.gauges("node_requests_in_flight", "Requests that a node is working on.", None, rows(in_flight))?;
        let rate = |node: &NodeState| node.rate_limit.map(f64::from);
        let help = "The maximum calls per second from this gateway to a node.";
        page.gauges("node_rate_limit", help, None, rows(rate))?;
        let budget = |node: &NodeState| node.monthly_calls.map(|calls| calls as f64);
        page.gauges("node_month_budget", "The maximum calls to a node per month.", None, rows(budget))?;
        let calls = |node: &NodeState| node.month_calls.map(|calls| calls as f64);
        let help = "Calls to a node this month, for nodes with a limit or a price.";
        page.gauges("node_month_calls", help, None, rows(calls))?;
        let cost = |node: &NodeState| {
            let price = node.price_per_million.map(NodePrice);
            price.zip(node.month_calls).map(|(price, calls)| price.of_calls(calls))
        };
        page.gauges("node_month_cost", "The cost of this month's calls to a node.", None, rows(cost))?;
        let limited = nodes.iter().filter(|(_, node)| node.month_calls.is_some());
        let passed_over = limited.flat_map(|(name, node)| {
            [("rate", node.over_rate), ("budget", node.over_budget)].map(|(reason, count)| {
                let node = [("chain", node.chain.as_str()), ("node", name.as_str()), ("reason", reason)];
                (node, count)
            })
        });
        let help = "Times a node was skipped because it had reached its limit.";
        page.counters("node_passed_over", help, passed_over)
    }

    fn hedges(&self, page: &mut MetricsWriter<'_>) -> fmt::Result {
        let pools = self.reloadable.pools.load();
        let mut hedged: Vec<_> =
            pools.iter().filter_map(|pool| Some((pool.chain(), pool.hedges()?))).collect();
        hedged.sort_by_key(|(chain, _)| chain.as_str());
        let rows = hedged.iter().flat_map(|(chain, counts)| {
            [("sent", counts.sent), ("won", counts.won), ("withheld", counts.withheld)]
                .map(|(outcome, count)| ([("chain", chain.as_str()), ("outcome", outcome)], count))
        });
        page.counters(
            "node_hedges",
            "Reads that took unusually long, by the outcome of their hedges.",
            rows,
        )?;
        let mut all: Vec<_> = pools.iter().collect();
        all.sort_by_key(|pool| pool.chain().as_str());
        let rows = all.iter().flat_map(|pool| {
            let row = |reason: SecondReason| {
                let labels = [("chain", pool.chain().as_str()), ("reason", reason.name())];
                (labels, pool.second_requests(reason))
            };
            SecondReason::ALL.map(row)
        });
        let help = "Reads that were sent to another node while the first was still working on them.";
        page.counters("node_second_requests", help, rows)
    }

    fn arrays(&self, page: &mut MetricsWriter<'_>) -> fmt::Result {
        let pools = self.reloadable.pools.load();
        let mut batching: Vec<_> =
            pools.iter().filter_map(|pool| Some((pool.chain(), pool.arrays()?))).collect();
        batching.sort_by_key(|(chain, _)| chain.as_str());
        let rows = |count: fn(&BatchingCounts) -> u64| {
            batching.iter().map(move |(chain, counts)| ([("chain", chain.as_str())], count(counts)))
        };
        let help = "Batched requests with single reads of several clients.";
        page.counters("node_arrays", help, rows(|counts| counts.arrays))?;
        page.counters("node_array_calls", "Calls in batched requests.", rows(|counts| counts.calls))?;
        let help = "Batched requests whose calls were sent individually afterwards.";
        page.counters("node_arrays_abandoned", help, rows(|counts| counts.abandoned))
    }

    fn cache(&self, page: &mut MetricsWriter<'_>) -> fmt::Result {
        let looks = self.replies.looks();
        page.counters(
            "cache_lookups",
            "Cache lookups, by result.",
            [("hit", looks.hits), ("miss", looks.misses)]
                .map(|(result, count)| ([("result", result)], count)),
        )?;
        page.gauge("cache", "Memory that cached answers take up.", Some(&Unit::Bytes), self.replies.bytes())?;
        page.gauge("cache_entries", "Cached answers.", None, self.replies.entries())
    }

    fn state(&self, page: &mut MetricsWriter<'_>, state: &State) -> fmt::Result {
        let journal = state.journal().status();
        page.gauge("journal_segments", "Segments of the journal on the disk.", None, journal.segments)?;
        page.gauge(
            "journal",
            "Bytes of the journal on the disk.",
            Some(&Unit::Bytes),
            journal.segment_bytes,
        )?;
        let help = "Bytes of records in memory because the disk does not accept them.";
        page.gauge("journal_memory", help, Some(&Unit::Bytes), journal.queued_bytes)?;
        let help = "Whether records go to memory.";
        page.gauge("journal_stalled", help, None, u64::from(journal.stalled))?;
        let help = "Whether the memory for records is almost full.";
        page.gauge("journal_full", help, None, u64::from(journal.full))?;
        page.counter("journal_lost_records", "Records lost for lack of space.", journal.lost_records)?;
        page.counter("journal_lost_calls", "Calls in lost records.", journal.lost_calls)?;
        page.counter("journal_lost_units", "Compute Units charged in lost records.", journal.lost_cu)?;
        let now = self.clock.elapsed();
        let shipping = state.shipping().read(now);
        let help = "Bytes of the journal that are not in the usage database.";
        page.gauge("journal_unshipped", help, Some(&Unit::Bytes), shipping.left)?;
        let help = "Time since all of the journal was in the usage database.";
        page.gauge("journal_lag", help, Some(&Unit::Seconds), shipping.lag.as_secs_f64())?;
        page.counter("shipments", "Shipments that the usage database accepted.", shipping.shipments)?;
        page.counter(
            "failed_shipments",
            "Shipments that the usage database did not accept.",
            shipping.failures,
        )?;
        let age = state.directory().age();
        let feed_up = age.is_some_and(|age| age <= FEED);
        page.gauges(
            "database_up",
            "Whether a database answered when it was last asked.",
            None,
            [("management", feed_up), ("usage", shipping.is_up)]
                .map(|(database, is_up)| ([("database", database)], u64::from(is_up))),
        )?;
        if let Some(age) = age {
            let help = "Time since the management database's changes were last read.";
            page.gauge("change_feed_age", help, Some(&Unit::Seconds), age.as_secs_f64())?;
        }
        page.gauge(
            "known_keys",
            "Keys of the management database in memory.",
            None,
            state.directory().known(),
        )
    }
}

const fn counted(standing: CounterState) -> &'static str {
    match standing {
        CounterState::Together => "together",
        CounterState::Seeding => "seeding",
        CounterState::Alone => "alone",
    }
}

/// Returns the nodes with names that are unique within their chain.
fn named(nodes: Vec<NodeState>) -> Vec<(String, NodeState)> {
    let mut seen: HashMap<(String, String), u32> = HashMap::new();
    let name = |node: NodeState| {
        let count = seen.entry((node.chain.clone(), node.node.clone())).or_default();
        *count += 1;
        let name = if *count == 1 { node.node.clone() } else { format!("{} #{count}", node.node) };
        (name, node)
    };
    nodes.into_iter().map(name).collect()
}
