//! `rpcgate-admin run`: runs the services until it is stopped.

use super::{configuration, with_origin};
use crate::cli::Service;
use crate::services::api::Api;
use crate::services::dispatcher::Dispatcher;
use crate::services::janitor::Janitor;
use crate::services::watcher::Watcher;
use rpcgate_config::{Config, ConfigProgram};
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_management::app_state::AppState;
use rpcgate_process::acme::CertificateOrders;
use rpcgate_process::reload::{log_drain, log_reload};
use rpcgate_process::tls::watch::watch;
use rpcgate_process::tls::{Certificate, CertificatePaths};
use rpcgate_process::traces::TraceExporter;
use rpcgate_process::{Failure, ProcessSignal, Signals, host_name, log, log_warnings, origin};
use rpcgate_store::{AcceptedConfig, ConfigRecorder, ConfigScope};
use std::path::Path;
use std::sync::Arc;
use tokio::task::AbortHandle;

const ALL: [Service; 4] = [Service::Api, Service::Janitor, Service::Dispatcher, Service::Watcher];

/// Runs the services in `roles` with the configuration in `file`, or all of them if `roles` is empty. SIGTERM and
/// SIGINT drain, SIGHUP reloads the file.
///
/// # Errors
/// [`Failure::Configuration`] for an unusable configuration, [`Failure::Other`] for any other error at the start.
pub async fn execute(file: &Path, roles: &[Service]) -> Result<(), Failure> {
    let roles = if roles.is_empty() { &ALL } else { roles };
    let config = configuration(file)?;
    log::install(&config.telemetry)?;
    log_warnings(file, &config);
    let mut signals = Signals::listen()?;
    let accepted = config.clone();
    let service = RunningServices::start(config, roles, Arc::new(SystemClock::new()))
        .await
        .map_err(|error| with_origin(file, error))?;
    service.record(file, &accepted, true);
    while let ProcessSignal::Reload = signals.next().await {
        let config = configuration(file).map_err(Failure::from);
        let accepted = config.as_ref().ok().cloned();
        let done = service.reload(config);
        if let (Ok(_), Some(accepted)) = (&done, &accepted) {
            service.record(file, accepted, false);
        }
        log_reload(done);
    }
    tracing::info!("draining");
    log_drain(service.stop().await);
    Ok(())
}

struct RunningServices {
    app: Arc<AppState>,
    api: Option<Api>,
    certificate: Option<Arc<Certificate>>,
    /// Watches the certificate's files.
    renewing: Option<AbortHandle>,
    /// Orders the certificate, if that is configured.
    ordering: Option<AbortHandle>,
    metrics: Option<Api>,
    janitor: Option<Janitor>,
    dispatcher: Option<Dispatcher>,
    watcher: Option<Watcher>,
    recorder: ConfigRecorder,
    recording: AbortHandle,
    traces: Option<TraceExporter>,
}

impl RunningServices {
    async fn start(config: Config, roles: &[Service], clock: Arc<dyn Clock>) -> Result<Self, Failure> {
        let listen = config.admin.listen;
        let scraped = config.telemetry.listen;
        let paths = CertificatePaths::of_management(&config.admin.tls, &config.acme)
            .filter(|_| roles.contains(&Service::Api));
        let certificate = paths.map(|paths| Certificate::load(&paths).map(Arc::new)).transpose()?;
        let orders = certificate.as_ref().filter(|_| config.admin.tls.acme).map(|certificate| {
            CertificateOrders::new(&config.acme, clock.clone(), certificate.orders.clone())
        });
        let orders = orders.transpose()?;
        let mut app = AppState::open(config, clock.clone()).await?;
        let traces = app.start_traces().map_err(|error| Failure::Configuration(error.to_string()))?;
        let app = Arc::new(app);
        let api = roles.contains(&Service::Api).then(|| Api::start(&app, listen, certificate.clone()));
        let api = api.transpose();
        let api = api.map_err(|error| Failure::Other(format!("admin.listen: {listen}: {error}")))?;
        let metrics = scraped.map(|addr| {
            // Two programs on one host with the same file would use the same address.
            Api::metrics(&app, addr, certificate.clone()).map_err(|error| {
                let hint = "each program on a host needs one of its own (RPCGATE_TELEMETRY__LISTEN)";
                Failure::Other(format!("telemetry.listen: {addr}: {error}; {hint}"))
            })
        });
        let metrics = metrics.transpose()?;
        if let Some(metrics) = &metrics {
            tracing::info!(addr = %metrics.addr(), "metrics at /metrics");
        }
        let janitor = roles.contains(&Service::Janitor).then(|| Janitor::start(&app));
        let dispatcher = roles.contains(&Service::Dispatcher).then(|| Dispatcher::start(&app));
        let watcher = roles.contains(&Service::Watcher).then(|| Watcher::start(&app));
        match &api {
            Some(api) => {
                tracing::info!(listen = %api.addr(), tls = certificate.is_some(), "serving the management API");
            }
            None => tracing::info!("running without the management API"),
        }
        let renewing = certificate
            .as_ref()
            .map(|certificate| tokio::spawn(watch(Arc::downgrade(certificate), clock)).abort_handle());
        let ordering = orders.map(|orders| tokio::spawn(orders.run()).abort_handle());
        let (recorder, recording) = ConfigRecorder::new();
        let recording = tokio::spawn(recording.run(app.store.clone(), app.clock.clone())).abort_handle();
        Ok(RunningServices {
            app,
            api,
            certificate,
            renewing,
            ordering,
            metrics,
            janitor,
            dispatcher,
            watcher,
            recorder,
            recording,
            traces,
        })
    }

    /// Stores the accepted configuration in `file` as a version, at the start or at a reload.
    fn record(&self, file: &Path, config: &Config, is_start: bool) {
        let host = host_name();
        let location = origin(&host, Some(file));
        let scope = ConfigScope::Management(location.clone());
        let accepted = AcceptedConfig::new(config, scope, (host, location), is_start, self.app.now());
        self.recorder.record(accepted);
    }

    /// Applies all parts of a new configuration that need no restart, and returns the tables that need one.
    fn reload(&self, config: Result<Config, Failure>) -> Result<Vec<&'static str>, Failure> {
        let config = config?;
        let old = &self.app.settings.config;
        let pending = ConfigProgram::Management.needs_restart(old, &config);
        let paths = CertificatePaths::of_management(&config.admin.tls, &old.acme);
        let renewed = match (&self.certificate, paths) {
            (Some(current), Some(paths)) => Some((current, paths.load()?)),
            _ => None,
        };
        let app = Arc::new(self.app.reload(config)?);
        if let Some((certificate, loaded)) = renewed {
            certificate.replace(loaded);
        }
        if let Some(api) = &self.api {
            api.serve(&app);
        }
        if let Some(janitor) = &self.janitor {
            janitor.serve(&app);
        }
        if let Some(dispatcher) = &self.dispatcher {
            dispatcher.serve(&app);
        }
        if let Some(watcher) = &self.watcher {
            watcher.serve(&app);
        }
        Ok(pending)
    }

    /// Stops all services, and returns the number of connections that were cut.
    async fn stop(self) -> usize {
        let api = async {
            match self.api {
                Some(api) => api.drain().await,
                None => 0,
            }
        };
        let dispatcher = async {
            if let Some(dispatcher) = self.dispatcher {
                dispatcher.stop().await;
            }
        };
        // Each may need the whole grace period.
        let (cut, ()) = tokio::join!(api, dispatcher);
        if let Some(janitor) = self.janitor {
            janitor.stop().await;
        }
        if let Some(watcher) = self.watcher {
            watcher.stop().await;
        }
        if let Some(metrics) = self.metrics {
            metrics.drain().await;
        }
        if let Some(traces) = self.traces {
            traces.stop().await;
        }
        self.recording.abort();
        for task in [self.renewing, self.ordering].into_iter().flatten() {
            task.abort();
        }
        self.app.close().await;
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;
    use rpcgate_store::ConfigVersionFilter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    fn free(site: &Site) -> Config {
        let mut config = site.app.settings.config.clone();
        config.admin.listen.set_port(0);
        config
    }

    async fn get(service: &RunningServices, path: &str) -> String {
        fetch(service.api.as_ref().unwrap(), path).await
    }

    async fn fetch(api: &Api, path: &str) -> String {
        let mut stream = TcpStream::connect(api.addr()).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_secret_that_is_missing_is_a_fault_of_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rpcgate.toml");
        let database = dir.path().join("rpcgate.db");
        let url = rpcgate_store::url_of(&database);
        let text = format!(
            "[telemetry]\nlog_filter = \"off\"\n[gateway]\nkey_secret = \"0123456789abcdef\"\n[database]\nurl = \"{url}\"\n"
        );
        std::fs::write(&file, text).unwrap();
        let failure = execute(&file, &[]).await.unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(
            failure.to_string().starts_with("admin.jwt.secret: is needed here and is not set"),
            "{failure}"
        );
        assert!(!database.exists(), "nothing is made");
    }

    #[tokio::test]
    async fn it_serves_until_it_is_stopped() {
        let site = Site::new().await;
        let service = RunningServices::start(free(&site), &ALL, site.clock.clone()).await.unwrap();
        assert!(get(&service, "/readyz").await.starts_with("HTTP/1.1 200 OK"));
        assert_eq!(service.stop().await, 0);
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_named() {
        let site = Site::new().await;
        let first = RunningServices::start(free(&site), &[Service::Api], site.clock.clone()).await.unwrap();
        let mut config = free(&site);
        config.admin.listen = first.api.as_ref().unwrap().addr();
        let failure =
            RunningServices::start(config, &[Service::Api], site.clock.clone()).await.err().unwrap();
        assert!(
            failure.code() == 1 && failure.to_string().starts_with("admin.listen: 127.0.0.1:"),
            "{failure}"
        );
    }

    // Shows (Traces, logs and metrics).
    #[tokio::test]
    async fn metrics_have_an_address_of_their_own_and_one_that_is_taken_is_named() {
        let site = Site::new().await;
        let mut config = free(&site);
        config.telemetry.listen = Some("127.0.0.1:0".parse().unwrap());
        let service =
            RunningServices::start(config.clone(), &[Service::Api], site.clock.clone()).await.unwrap();
        let metrics = service.metrics.as_ref().unwrap();
        let page = fetch(metrics, "/metrics").await;
        assert!(
            page.contains("text/plain; version=0.0.4") && page.contains("rpcgate_admin_database_up 1"),
            "{page}"
        );
        assert!(fetch(metrics, "/readyz").await.starts_with("HTTP/1.1 404 "));
        assert!(get(&service, "/metrics").await.starts_with("HTTP/1.1 404 "));
        config.telemetry.listen = Some(metrics.addr());
        let failure =
            RunningServices::start(config, &[Service::Janitor], site.clock.clone()).await.err().unwrap();
        assert!(failure.code() == 1 && failure.to_string().starts_with("telemetry.listen: 127"), "{failure}");
        assert_eq!(service.stop().await, 0);
    }

    #[tokio::test]
    async fn the_configuration_that_is_served_is_a_version() {
        let site = Site::new().await;
        let config = free(&site);
        let service =
            RunningServices::start(config.clone(), &[Service::Janitor], site.clock.clone()).await.unwrap();
        service.record(Path::new("/none/rpcgate.toml"), &config, true);
        let filter = ConfigVersionFilter::default();
        let stored = async {
            loop {
                let stored = site.app.store.config_versions(&filter, None, 9).await.unwrap();
                if !stored.is_empty() {
                    break stored;
                }
                tokio::task::yield_now().await;
            }
        };
        let stored = tokio::time::timeout(std::time::Duration::from_secs(60), stored).await.unwrap();
        assert_eq!(stored[0].scope.source(), "management");
        assert_eq!(stored[0].who, format!("{}: /none/rpcgate.toml", host_name()));
        assert_eq!(stored[0].started, Some(stored[0].number));
        assert_eq!(service.stop().await, 0);
    }

    #[tokio::test]
    async fn a_reload_applies_settings_that_need_no_restart_and_a_bad_one_changes_nothing() {
        let site = Site::new().await;
        let service = RunningServices::start(free(&site), &[Service::Api], site.clock.clone()).await.unwrap();
        let mut config = free(&site);
        config.admin.api_url = rpcgate_config::Url::parse("https://api.example.com", &["https"]).ok();
        config.shutdown.grace *= 2;
        assert_eq!(service.reload(Ok(config.clone())).unwrap(), ["shutdown"]);
        assert!(get(&service, "/openapi.json").await.contains("https://api.example.com"));
        config.admin.api_url = None;
        config.admin.jwt.secret = None;
        assert!(service.reload(Ok(config)).is_err());
        assert!(service.reload(Err(Failure::Configuration("a: wrong".into()))).is_err());
        assert!(get(&service, "/openapi.json").await.contains("https://api.example.com"));
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn the_certificate_is_loaded_at_the_start_replaced_by_a_reload_and_in_the_metrics() {
        let site = Site::new().await;
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let key = rcgen::KeyPair::generate().unwrap();
            let params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
            let files = ["pem", "key"].map(|end| dir.path().join(format!("{name}.{end}")));
            std::fs::write(&files[0], params.self_signed(&key).unwrap().pem()).unwrap();
            std::fs::write(&files[1], key.serialize_pem()).unwrap();
            files
        };
        let with = |[cert, key]: [std::path::PathBuf; 2]| {
            let mut config = free(&site);
            config.telemetry.listen = Some("127.0.0.1:0".parse().unwrap());
            (config.admin.tls.cert, config.admin.tls.key) = (Some(cert), Some(key));
            config
        };
        let none = ["cert.pem", "key.pem"].map(|name| dir.path().join(name));
        let failure = RunningServices::start(with(none.clone()), &[Service::Api], site.clock.clone())
            .await
            .err()
            .unwrap();
        assert!(failure.code() == 2 && failure.to_string().starts_with("admin.tls.cert: "), "{failure}");

        let service =
            RunningServices::start(with(put("first")), &[Service::Api], site.clock.clone()).await.unwrap();
        let certificate = service.certificate.clone().unwrap();
        let first = certificate.loaded();
        let page = fetch(service.metrics.as_ref().unwrap(), "/metrics").await;
        for line in
            ["rpcgate_admin_certificate_renewals_total{result=\"done\"} 0\n", "certificate_expiry_seconds "]
        {
            assert!(page.contains(line), "{page}");
        }
        assert!(service.reload(Ok(with(none))).is_err());
        assert!(Arc::ptr_eq(&first, &certificate.loaded()), "a bad one changes nothing");
        assert!(service.reload(Ok(with(put("second")))).unwrap().is_empty());
        assert!(!Arc::ptr_eq(&first, &certificate.loaded()));
        assert_eq!(service.reload(Ok(free(&site))).unwrap(), ["admin.tls", "telemetry"]);
        assert_eq!(service.stop().await, 0);
    }
}
