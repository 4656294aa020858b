//! `rpcgate-admin run`: serve until told to stop.

use super::{Failure, configuration, log, placed};
use crate::cli::Role;
use crate::house::House;
use crate::role::api::Api;
use crate::role::janitor::Janitor;
use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_core::config::Config;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The roles that are built.
const BUILT: [Role; 2] = [Role::Api, Role::Janitor];

/// Serves what `file` says, as `roles`, all that are built if there is none. SIGTERM and SIGINT drain, SIGHUP reads the
/// file again.
///
/// # Errors
/// [`Failure::Configuration`] for a configuration that cannot be used and a role that is not built yet,
/// [`Failure::Other`] for anything else that keeps it from starting.
pub async fn execute(file: &Path, roles: &[Role]) -> Result<(), Failure> {
    let roles = chosen(roles)?;
    let config = configuration(file)?;
    log::install(&config.telemetry)?;
    let mut signals = Signals::listen()?;
    let service = Service::start(config, roles, Arc::new(SystemClock::new()))
        .await
        .map_err(|error| placed(file, error))?;
    while let Told::Reload = signals.next().await {
        told(service.reload(configuration(file).map_err(Failure::from)));
    }
    tracing::info!("draining");
    match service.stop().await {
        0 => tracing::info!("drained"),
        cut => tracing::warn!(cut, "drained; connections that were not done in time were cut"),
    }
    Ok(())
}

/// The roles that were asked for, if they are built.
fn chosen(asked: &[Role]) -> Result<&[Role], Failure> {
    if asked.is_empty() {
        return Ok(&BUILT);
    }
    match asked.iter().find(|role| !BUILT.contains(role)) {
        None => Ok(asked),
        Some(role) => {
            let name = format!("{role:?}").to_lowercase();
            Err(Failure::Configuration(format!("--role {name}: is not built yet: choose of api, janitor")))
        }
    }
}

/// The management side, running.
struct Service {
    house: Arc<House>,
    api: Option<Api>,
    metrics: Option<Api>,
    janitor: Option<Janitor>,
}

impl Service {
    async fn start(config: Config, roles: &[Role], clock: Arc<dyn Clock>) -> Result<Self, Failure> {
        let (listen, scraped) = (config.admin.listen, config.telemetry.listen);
        let house = Arc::new(House::open(config, clock).await?);
        let api = roles.contains(&Role::Api).then(|| Api::start(&house, listen)).transpose();
        let api = api.map_err(|error| Failure::Other(format!("admin.listen: {listen}: {error}")))?;
        let metrics = scraped.map(|addr| {
            // Two programs on a host with one file would want the same.
            Api::metrics(&house, addr).map_err(|error| {
                let hint = "each program on a host needs one of its own (RPCGATE_TELEMETRY__LISTEN)";
                Failure::Other(format!("telemetry.listen: {addr}: {error}; {hint}"))
            })
        });
        let metrics = metrics.transpose()?;
        if let Some(metrics) = &metrics {
            tracing::info!(addr = %metrics.addr(), "metrics at /metrics");
        }
        let janitor = roles.contains(&Role::Janitor).then(|| Janitor::start(house.clone()));
        match &api {
            Some(api) => tracing::info!(listen = %api.addr(), "serving the management API"),
            None => tracing::info!("running without the management API"),
        }
        Ok(Service { house, api, metrics, janitor })
    }

    /// Puts a configuration in force as far as that needs no restart; what differs and does.
    fn reload(&self, config: Result<Config, Failure>) -> Result<Vec<&'static str>, Failure> {
        let (config, old) = (config?, &self.house.settings.config);
        let asleep = needs_restart(old, &config);
        let house = Arc::new(self.house.refitted(config)?);
        if let Some(api) = &self.api {
            api.serve(&house);
        }
        Ok(asleep)
    }

    /// Ends everything; the number of connections that had to be cut.
    async fn stop(self) -> usize {
        let cut = match self.api {
            Some(api) => api.drain().await,
            None => 0,
        };
        if let Some(janitor) = self.janitor {
            janitor.stop().await;
        }
        if let Some(metrics) = self.metrics {
            metrics.drain().await;
        }
        self.house.close().await;
        cut
    }
}

/// The tables that differ in something that is not live.
fn needs_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let changes = [
        ("database", new.database != old.database),
        ("admin.listen", new.admin.listen != old.admin.listen),
        ("shutdown", new.shutdown != old.shutdown),
        ("telemetry", new.telemetry != old.telemetry),
    ];
    changes.into_iter().filter(|(_, differs)| *differs).map(|(table, _)| table).collect()
}

/// Tells the log how a reload ended; those are the tables that differ and need a restart.
fn told(done: Result<Vec<&'static str>, Failure>) {
    match done {
        Ok(asleep) if asleep.is_empty() => tracing::info!("configuration reloaded"),
        Ok(asleep) => {
            tracing::warn!(
                tables = %asleep.join(", "),
                "configuration reloaded; these tables differ and need a restart"
            );
        }
        Err(failure) => {
            for fault in failure.to_string().lines() {
                tracing::error!("configuration not reloaded, the old one stays in force: {fault}");
            }
        }
    }
}

/// What a signal says.
enum Told {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// The signals that a server obeys.
struct Signals {
    term: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Obeys signals from now on, instead of dying of them.
    fn listen() -> io::Result<Self> {
        Ok(Signals {
            term: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.term.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.hangup.recv() => Told::Reload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::house::tests::Site;
    use rpcgate_core::config::suite::{ReloadTable, changes};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    fn free(site: &Site) -> Config {
        let mut config = site.house.settings.config.clone();
        config.admin.listen.set_port(0);
        config
    }

    async fn get(service: &Service, path: &str) -> String {
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

    #[test]
    fn a_role_that_is_not_built_yet_is_refused_and_none_means_all() {
        assert_eq!(chosen(&[]).unwrap(), BUILT);
        assert_eq!(chosen(&[Role::Janitor]).unwrap(), [Role::Janitor]);
        for (role, name) in [(Role::Dispatcher, "dispatcher"), (Role::Watcher, "watcher")] {
            let failure = chosen(&[Role::Api, role]).unwrap_err();
            assert_eq!(
                (failure.code(), failure.to_string()),
                (2, format!("--role {name}: is not built yet: choose of api, janitor"))
            );
        }
    }

    #[tokio::test]
    async fn a_secret_that_is_missing_is_a_fault_of_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let (file, database) = (dir.path().join("rpcgate.toml"), dir.path().join("rpcgate.db"));
        let url = crate::store::url_of(&database);
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
        let service = Service::start(free(&site), &BUILT, site.clock.clone()).await.unwrap();
        assert!(get(&service, "/readyz").await.starts_with("HTTP/1.1 200 OK"));
        assert_eq!(service.stop().await, 0);
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_named() {
        let site = Site::new().await;
        let first = Service::start(free(&site), &[Role::Api], site.clock.clone()).await.unwrap();
        let mut config = free(&site);
        config.admin.listen = first.api.as_ref().unwrap().addr();
        let failure = Service::start(config, &[Role::Api], site.clock.clone()).await.err().unwrap();
        assert!(
            failure.code() == 1 && failure.to_string().starts_with("admin.listen: 127.0.0.1:"),
            "{failure}"
        );
    }

    #[tokio::test]
    async fn metrics_have_an_address_of_their_own_and_one_that_is_taken_is_named() {
        let site = Site::new().await;
        let mut config = free(&site);
        config.telemetry.listen = Some("127.0.0.1:0".parse().unwrap());
        let service = Service::start(config.clone(), &[Role::Api], site.clock.clone()).await.unwrap();
        let metrics = service.metrics.as_ref().unwrap();
        let page = fetch(metrics, "/metrics").await;
        assert!(
            page.contains("application/openmetrics-text") && page.contains("rpcgate_admin_database_up 1"),
            "{page}"
        );
        assert!(fetch(metrics, "/readyz").await.starts_with("HTTP/1.1 404 "));
        assert!(get(&service, "/metrics").await.starts_with("HTTP/1.1 404 "));
        config.telemetry.listen = Some(metrics.addr());
        let failure = Service::start(config, &[Role::Janitor], site.clock.clone()).await.err().unwrap();
        assert!(failure.code() == 1 && failure.to_string().starts_with("telemetry.listen: 127"), "{failure}");
        assert_eq!(service.stop().await, 0);
    }

    #[test]
    fn what_needs_a_restart_is_what_the_document_says() {
        let table = ReloadTable::read(include_str!("../../../docs/operations.md"));
        for (key, before, after) in changes() {
            let tables = needs_restart(&before, &after);
            assert_eq!(!tables.is_empty(), table.needs_restart(&key, 1), "{key}: {tables:?}");
        }
    }

    #[tokio::test]
    async fn a_reload_takes_what_needs_no_restart_and_a_bad_one_changes_nothing() {
        let site = Site::new().await;
        let service = Service::start(free(&site), &[Role::Api], site.clock.clone()).await.unwrap();
        let mut config = free(&site);
        config.admin.api_url = rpcgate_core::config::Url::parse("https://api.example.com", &["https"]).ok();
        config.shutdown.grace *= 2;
        assert_eq!(service.reload(Ok(config.clone())).unwrap(), ["shutdown"]);
        assert!(get(&service, "/openapi.json").await.contains("https://api.example.com"));
        config.admin.api_url = None;
        config.admin.jwt.secret = None;
        assert!(service.reload(Ok(config)).is_err());
        assert!(service.reload(Err(Failure::Configuration("a: wrong".into()))).is_err());
        assert!(get(&service, "/openapi.json").await.contains("https://api.example.com"));
    }
}
