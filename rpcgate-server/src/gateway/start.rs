//! The start of a gateway.

use super::options::Resolved;
use super::unused::warn_of_unused;
use super::{Gateway, StartOptions};
use crate::assemble::{self, Backends};
use crate::call_log::CallLog;
use crate::call_traces::CallTraces;
use crate::explain;
use crate::grpc_reflection::GrpcReflection;
use crate::listen::Connections;
use crate::listen::http::{Bounds, Entry, Listener};
use crate::metrics::{self, MetricsListener, Reloads, Watched};
use crate::node_spending::NodeSpendingStore;
use crate::reload::Reloadable;
use crate::start_error::StartError;
use crate::state::State;
use crate::transports::Transports;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rpcgate_config::Config;
use rpcgate_core::backend::call_observer::CallObserver;
use rpcgate_core::clock::Clock;
use rpcgate_core::recent::RecentRequests;
use rpcgate_layers::call::cache::BoundedReplies;
use rpcgate_layers::gateway::Housekeeping;
use rpcgate_layers::nodes::Pools;
use rpcgate_process::acme::CertificateOrders;
use rpcgate_process::proxy_protocol::ProxyPeers;
use rpcgate_process::tls::watch::watch;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

impl Gateway {
    /// Starts a gateway. When this returns, it accepts connections.
    ///
    /// # Errors
    /// [`StartError`]; then nothing runs.
    pub async fn start(config: Config, options: StartOptions) -> Result<Gateway, StartError> {
        let clock = options.clock.clone();
        let state = options.state.clone();
        let bounds = Bounds::new(&config.gateway.limits, options.connections);
        let streams = options.streams();
        let Resolved { keys, directory, sink, journal, counting } = options.resolve(&config)?;
        warn_of_unused(&config, state.is_some());

        let metrics_listener = bind_metrics(&config)?;
        let listener = bind(&config)?;
        let grpc_listener = bind_grpc(&config)?;
        let call_log = open_log(&config)?;
        let reloadable = Arc::new(Reloadable::new(config.clone(), clock.clone(), keys, state.clone())?);
        let spending =
            NodeSpendingStore::start(&config, state.as_deref(), reloadable.spendings.clone(), clock.clone())?;
        if let Some(state) = &state {
            connect(state, &reloadable);
        }
        let orders = orders(&config, &reloadable, &clock)?;

        let chains = reloadable.chains.clone();
        let pools = reloadable.pools.clone();
        let safeguard = reloadable.safeguard.clone();
        let traces = CallTraces::start(&config.telemetry.otlp, &clock, &pools)?;
        let is_scraped = metrics_listener.is_some();
        let (sink, calls) = assemble::observed(sink, journal.as_ref(), is_scraped, safeguard.clone());
        let replies = Arc::new(BoundedReplies::new(config.cache.bytes));
        let recent = state.as_ref().and_then(|state| remembering(&config, state, &pools));
        let backends = Backends {
            clock: clock.clone(),
            sink: sink.clone(),
            directory,
            counters: counting.backend(),
            replies: replies.clone(),
            recent: recent.clone(),
            observer: call_log.clone().map(|log| log as Arc<dyn CallObserver>),
            tracing: traces.as_ref().map(|traces| traces.tracing.clone()),
        };
        let mut parts = assemble::parts(&config, backends, chains, pools, safeguard);
        let connections = Connections::new(sink, state.clone());
        if let Some(certificate) = &reloadable.certificate {
            connections.wait_for(certificate.clone());
        }
        parts.spawn = connections.clone();
        parts.stream_limits.max_open = streams;
        let reflection = GrpcReflection::new(&config.gateway, &parts)?;
        let stack = Transports::new(&parts, &connections, reflection);
        let streams = parts.streams.clone();

        let addr = listener.addr();
        let proxies = ProxyPeers::new(&config.gateway.proxy_protocol);
        let first = Entry {
            certificate: reloadable.http_certificate().cloned(),
            h2c: config.gateway.h2c,
            websocket: true,
            proxies: proxies.clone(),
        };
        let mut accepting =
            vec![tokio::spawn(listener.serve(stack.clone(), bounds.clone(), first, connections.clone()))];
        let grpc_addr = grpc_listener.as_ref().map(Listener::addr);
        if let Some(listener) = grpc_listener {
            let certificate = reloadable.certificate.clone();
            let second = Entry { certificate, h2c: false, websocket: false, proxies };
            accepting.push(tokio::spawn(listener.serve(stack, bounds, second, connections.clone())));
        }
        // Tasks of `reloadable` probe the nodes; a reload starts and stops them.
        let sweeping = tokio::spawn(Housekeeping::of(&parts).run()).abort_handle();
        let reloads = Arc::<Reloads>::default();
        let renewing = reloadable.certificate.as_ref().map(|certificate| {
            tokio::spawn(watch(Arc::downgrade(certificate), clock.clone())).abort_handle()
        });
        let ordering = orders.map(|orders| tokio::spawn(orders.run()).abort_handle());
        let metrics = metrics_listener.zip(calls).map(|(listener, calls)| {
            let addr = listener.addr();
            let watched = Watched {
                reloadable: reloadable.clone(),
                connections: connections.clone(),
                streams: streams.clone(),
                loads: parts.loads.clone(),
                state: state.clone(),
                replies,
                counting: counting.clone(),
                reloads: reloads.clone(),
                grpc: parts.grpc_counts.clone(),
                recent: recent.clone(),
                logged: call_log.as_ref().map(|log| log.counts.clone()),
                traced: traces.as_ref().map(|traces| traces.counts.clone()),
                clock,
            };
            tracing::info!(%addr, "metrics at /metrics");
            (addr, tokio::spawn(listener.serve(metrics::page(calls, watched))).abort_handle())
        });
        log_serving(addr, &reloadable);
        if let Some(addr) = grpc_addr {
            tracing::info!(%addr, "serving over TLS, for gRPC");
        }
        let accepting = Mutex::new(accepting);
        Ok(Gateway {
            addr,
            grpc_addr,
            reloadable,
            state,
            connections,
            streams,
            counting,
            accepting,
            sweeping,
            renewing,
            spending,
            ordering,
            metrics,
            reloads,
            traces: Mutex::new(traces.map(|traces| traces.exporter)),
        })
    }
}

fn bind(config: &Config) -> Result<Listener, StartError> {
    let addr = config.gateway.listen;
    Listener::bind(addr).map_err(|source| StartError::Listen { addr, source })
}

fn bind_grpc(config: &Config) -> Result<Option<Listener>, StartError> {
    let bind = |addr| Listener::bind(addr).map_err(|source| StartError::ListenGrpc { addr, source });
    config.gateway.grpc_listen.map(bind).transpose()
}

fn bind_metrics(config: &Config) -> Result<Option<MetricsListener>, StartError> {
    let bind = |addr| MetricsListener::bind(addr).map_err(|source| StartError::Telemetry { addr, source });
    config.telemetry.listen.map(bind).transpose()
}

/// Returns the task that orders the certificate, if ACME is on.
fn orders(
    config: &Config,
    reloadable: &Reloadable,
    clock: &Arc<dyn Clock>,
) -> Result<Option<CertificateOrders>, StartError> {
    let certificate = reloadable.certificate.as_ref().filter(|_| config.gateway.tls.acme);
    let orders = certificate
        .map(|certificate| CertificateOrders::new(&config.acme, clock.clone(), certificate.orders.clone()));
    Ok(orders.transpose()?)
}

fn open_log(config: &Config) -> Result<Option<Arc<CallLog>>, StartError> {
    let settings = &config.telemetry.access_log;
    let opened = CallLog::open(settings).map_err(|source| {
        let path = settings.file.as_deref().unwrap_or(Path::new("")).display().to_string();
        StartError::AccessLog { path, source }
    });
    Ok(opened?.map(Arc::new))
}

/// Passes the operators' settings to the gateway, and the gateway's status to the management side.
fn connect(state: &State, reloadable: &Arc<Reloadable>) {
    let reloadable = Arc::downgrade(reloadable);
    let reported = reloadable.clone();
    let cleared = reloadable.clone();
    state.attach(move |overlay| reloadable.upgrade().map_or(Ok(()), |live| live.overlay(overlay)));
    state.attach_caches(move |chain| {
        if let Some(live) = cleared.upgrade() {
            live.clear_cache(chain);
        }
    });
    state.report_status(move || reported.upgrade().map(|live| live.status()).unwrap_or_default());
}

/// Creates the memory of recent requests for the management side, whose database carries the queries.
fn remembering(config: &Config, state: &State, pools: &Arc<ArcSwap<Pools>>) -> Option<Arc<RecentRequests>> {
    let recent = explain::memory(config)?;
    let memory = recent.clone();
    let pools = pools.clone();
    let gateway = state.journal().gateway();
    state.explain_from(move |request| {
        let found = memory.find(request)?;
        Some((found.facts.tenant, explain::explanation(gateway, &found, &pools.load())))
    });
    Some(recent)
}

fn log_serving(addr: SocketAddr, reloadable: &Reloadable) {
    let chains = reloadable.chains.load();
    let served: Vec<&str> =
        chains.iter().filter(|chain| chain.is_served()).map(|chain| chain.name().as_str()).collect();
    tracing::info!(%addr, tls = reloadable.http_certificate().is_some(), chains = %served.join(","), "serving");
}
