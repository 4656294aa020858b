//! The demo's management side: API, janitor, chain watcher and webhook dispatcher, on the gateway's databases.

use super::DemoError;
use super::account::{PAUSE, RetryCount};
use super::sheet::{dashboard, reachable};
use rpcgate_admin::services::api::Api;
use rpcgate_admin::services::dispatcher::Dispatcher;
use rpcgate_admin::services::janitor::Janitor;
use rpcgate_admin::services::watcher::Watcher;
use rpcgate_config::{Config, Url};
use rpcgate_core::clock::Clock;
use rpcgate_management::app_state::AppState;
use rpcgate_process::tls::{Certificate, CertificatePaths};
use rpcgate_process::traces::TraceExporter;
use std::net::SocketAddr;
use std::sync::Arc;

/// The running management side. Dropping it stops it at once.
#[derive(Debug)]
pub(super) struct Management {
    app: Arc<AppState>,
    api: Api,
    janitor: Janitor,
    dispatcher: Dispatcher,
    watcher: Watcher,
    traces: Option<TraceExporter>,
    certificate: Option<Arc<Certificate>>,
    requested: SocketAddr,
    gateway: GatewayAddresses,
}

/// The gateway's addresses, which the pages show to users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GatewayAddresses {
    pub(super) http: SocketAddr,
    pub(super) grpc: Option<SocketAddr>,
}

impl GatewayAddresses {
    fn of(self, mut config: Config) -> Config {
        config.gateway.listen = self.http;
        config.gateway.grpc_listen = self.grpc;
        config
    }
}

impl Management {
    /// Opens the databases of `config` and serves at `admin.listen`; port 0 picks a free one.
    pub(super) async fn start(
        config: &Config,
        gateway: GatewayAddresses,
        clock: Arc<dyn Clock>,
    ) -> Result<Management, DemoError> {
        let requested = config.admin.listen;
        let paths = CertificatePaths::of_management(&config.admin.tls, &config.acme);
        let certificate = paths.map(|paths| Certificate::load(&paths).map(Arc::new)).transpose()?;
        let mut app = open(&gateway.of(config.clone()), &clock).await?;
        let traces = match app.start_traces() {
            Ok(traces) => traces,
            Err(error) => {
                app.close().await;
                return Err(error.into());
            }
        };
        let app = Arc::new(app);
        let api = match Api::start(&app, requested, certificate.clone()) {
            Ok(api) => api,
            Err(source) => {
                app.close().await;
                return Err(DemoError::Admin { listen: requested, source });
            }
        };
        let janitor = Janitor::start(&app);
        let dispatcher = Dispatcher::start(&app);
        let watcher = Watcher::start(&app);
        let management =
            Management { app, api, janitor, dispatcher, watcher, traces, certificate, requested, gateway };
        // Its URLs contain the address, which is known only now.
        let settled = management.reload(config.clone())?;
        management.serve(&settled);
        Ok(management)
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.api.addr()
    }

    pub(super) fn app(&self) -> &AppState {
        &self.app
    }

    /// Builds the state of the API for `config` on the open databases.
    pub(super) fn reload(&self, config: Config) -> Result<Arc<AppState>, DemoError> {
        let mut config = self.gateway.of(config);
        // The pages must use the same URL as the demo's file, or they would offer no passkeys.
        let dashboard = Url::parse(&dashboard(&config, self.addr()), &["http", "https"]);
        config.admin.dash_url = dashboard.ok().or(config.admin.dash_url);
        config.admin.listen = reachable(self.addr());
        let paths = CertificatePaths::of_management(&config.admin.tls, &config.acme);
        let renewed = match (&self.certificate, paths.filter(|_| !config.admin.tls.acme)) {
            (Some(certificate), Some(paths)) => Some((certificate, paths.load()?)),
            _ => None,
        };
        let app = Arc::new(self.app.reload(config)?);
        if let Some((certificate, loaded)) = renewed {
            certificate.replace(loaded);
        }
        Ok(app)
    }

    /// Serves `app` from the next request on.
    pub(super) fn serve(&self, app: &Arc<AppState>) {
        self.api.serve(app);
        self.janitor.serve(app);
        self.dispatcher.serve(app);
        self.watcher.serve(app);
    }

    /// Returns the setting of `config` that needs a restart, in addition to those that the gateway reports.
    pub(super) fn asleep(&self, config: &Config) -> Option<&'static str> {
        if config.admin.listen != self.requested {
            return Some("admin.listen");
        }
        let is_served = config.admin.tls.pair().is_some();
        (is_served != self.certificate.is_some() || config.admin.tls.acme).then_some("admin.tls")
    }

    /// Finishes the requests in flight and returns the number of cut connections.
    pub(super) async fn drain(self) -> usize {
        let (cut, ()) = tokio::join!(self.api.drain(), self.dispatcher.stop());
        self.janitor.stop().await;
        self.watcher.stop().await;
        if let Some(traces) = self.traces {
            traces.stop().await;
        }
        self.app.close().await;
        cut
    }
}

async fn open(config: &Config, clock: &Arc<dyn Clock>) -> Result<AppState, DemoError> {
    let mut patience = RetryCount::new();
    loop {
        match AppState::open(config.clone(), clock.clone()).await.map_err(DemoError::from) {
            Err(error) if patience.bears(&error) => tokio::time::sleep(PAUSE).await,
            done => return done,
        }
    }
}
