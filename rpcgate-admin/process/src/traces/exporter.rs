//! The task that sends spans.

use super::queue::{SpanQueue, SpanSource, TraceCounts};
use crate::tls::trust_anchors;
use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use opentelemetry_proto::transform::common::tonic::Attributes;
use opentelemetry_sdk::trace::SpanData;
use rpcgate_config::OtlpSettings;
use rpcgate_core::clock::Clock;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Extensions, Request, Status};

const LOG_EVERY: Duration = Duration::from_secs(60);

/// The error for an unusable setting of a collector.
#[derive(Debug, thiserror::Error)]
#[error("telemetry.otlp.{key}: {why}")]
pub struct BadCollector {
    /// The key in `[telemetry.otlp]`.
    pub key: &'static str,
    /// The error.
    pub why: String,
}

/// Sends the spans of a queue until it is stopped. Ends at once when dropped.
#[derive(Debug)]
pub struct TraceExporter {
    stop: CancellationToken,
    patience: Duration,
    task: Option<JoinHandle<()>>,
}

impl TraceExporter {
    /// Starts to send queued spans with the service name of the settings, or else `program`; `None` without a
    /// collector. Connects when the first spans arrive. Runs inside a tokio runtime.
    ///
    /// # Errors
    /// [`BadCollector`]
    pub fn start<T: SpanSource>(
        settings: &OtlpSettings,
        program: &'static str,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<(SpanQueue<T>, Self)>, BadCollector> {
        let Some(endpoint) = endpoint(settings)? else { return Ok(None) };
        let (queue, receiver) = SpanQueue::new(settings.queue as usize);
        let stop = CancellationToken::new();
        let work = ExporterTask {
            receiver,
            client: TraceServiceClient::new(endpoint.connect_lazy()),
            metadata: metadata(settings)?,
            resource: resource(settings, program),
            settings: settings.clone(),
            counts: queue.counts().clone(),
            clock: clock.clone(),
            log: FailureLog::default(),
            stop: stop.clone(),
        };
        let task = Some(tokio::spawn(work.run()));
        Ok(Some((queue, TraceExporter { stop, patience: settings.timeout, task })))
    }

    /// Sends the queued spans for at most `telemetry.otlp.timeout`, and ends.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let Some(mut task) = self.task.take() else { return };
        if timeout(self.patience, &mut task).await.is_err() {
            task.abort();
            tracing::warn!("spans that were not sent in time are lost");
        }
    }
}

impl Drop for TraceExporter {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Checks that the collector accepts a connection.
///
/// # Errors
/// The reason why it does not.
pub async fn check_collector(settings: &OtlpSettings) -> Result<(), String> {
    let endpoint = endpoint(settings).map_err(|error| error.to_string())?;
    let Some(endpoint) = endpoint else { return Ok(()) };
    match timeout(settings.timeout, endpoint.connect()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(cause(&error)),
        Err(_) => Err("no connection in time".into()),
    }
}

fn endpoint(settings: &OtlpSettings) -> Result<Option<Endpoint>, BadCollector> {
    let Some(url) = &settings.url else { return Ok(None) };
    let bad = |error: tonic::transport::Error| BadCollector { key: "url", why: cause(&error) };
    let endpoint = Endpoint::from_shared(url.expose().to_owned()).map_err(bad)?;
    let endpoint = endpoint.connect_timeout(settings.timeout).timeout(settings.timeout);
    if url.scheme() != "https" {
        return Ok(Some(endpoint));
    }
    let own = settings.ca_file.as_deref().map(trust_anchors).transpose();
    let own = own.map_err(|why| BadCollector { key: "ca_file", why })?.unwrap_or_default();
    let tls = ClientTlsConfig::new().with_webpki_roots().trust_anchors(own);
    endpoint.tls_config(tls).map(Some).map_err(bad)
}

fn metadata(settings: &OtlpSettings) -> Result<MetadataMap, BadCollector> {
    let mut headers = http::HeaderMap::new();
    for (name, value) in &settings.headers {
        let bad = || BadCollector { key: "headers", why: format!("one cannot be sent: {name:?}") };
        let name: http::HeaderName = name.parse().map_err(|_| bad())?;
        let mut value = http::HeaderValue::from_str(value.expose()).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(MetadataMap::from_headers(headers))
}

fn resource(settings: &OtlpSettings, program: &'static str) -> Resource {
    let name = settings.service_name.clone().unwrap_or_else(|| program.to_owned());
    let described = [
        KeyValue::new("service.name", name),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("host.name", crate::host_name()),
        KeyValue::new("process.pid", i64::from(std::process::id())),
    ];
    Resource { attributes: Attributes::from(described).0, ..Resource::default() }
}

/// Returns the innermost cause of an error; the outer ones only say that something failed.
fn cause(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

struct ExporterTask<T> {
    receiver: Receiver<T>,
    client: TraceServiceClient<Channel>,
    metadata: MetadataMap,
    resource: Resource,
    settings: OtlpSettings,
    counts: Arc<TraceCounts>,
    clock: Arc<dyn Clock>,
    log: FailureLog,
    stop: CancellationToken,
}

impl<T: SpanSource> ExporterTask<T> {
    async fn run(mut self) {
        while let Some(first) = self.next().await {
            let mut spans = Vec::new();
            first.write(&mut spans);
            self.fill(&mut spans).await;
            let number = spans.len() as u64;
            match self.send(spans).await {
                Ok(rejected) => {
                    self.counts.sent.fetch_add(number - rejected, Relaxed);
                    self.counts.rejected.fetch_add(rejected, Relaxed);
                    if self.log.ends() {
                        tracing::info!("the collector of traces takes spans again");
                    }
                }
                Err(status) => {
                    self.counts.failed.fetch_add(number, Relaxed);
                    if self.log.is_due(self.clock.elapsed()) {
                        let code = status.code();
                        let why = cause(&status);
                        tracing::warn!(?code, "spans cannot be sent to the collector and are dropped: {why}");
                    }
                    // Pauses before the next attempt; meanwhile the queue fills.
                    let _ = timeout(self.settings.interval, self.stop.cancelled()).await;
                }
            }
        }
    }

    async fn next(&mut self) -> Option<T> {
        tokio::select! {
            biased;
            item = self.receiver.recv() => item,
            () = self.stop.cancelled() => {
                // Refuses new items and drains the queue.
                self.receiver.close();
                self.receiver.recv().await
            }
        }
    }

    /// Adds spans until there are enough to send, or the interval is over.
    async fn fill(&mut self, spans: &mut Vec<SpanData>) {
        let enough = self.settings.batch as usize;
        let late = sleep(self.settings.interval);
        tokio::pin!(late);
        while spans.len() < enough {
            let item = tokio::select! {
                biased;
                item = self.receiver.recv() => item,
                () = self.stop.cancelled() => {
                    self.receiver.close();
                    self.receiver.recv().await
                }
                () = &mut late => return,
            };
            match item {
                Some(item) => item.write(spans),
                None => return,
            }
        }
    }

    /// Sends spans, and returns the number that the collector rejected.
    async fn send(&mut self, spans: Vec<SpanData>) -> Result<u64, Status> {
        let number = spans.len() as u64;
        let scope = InstrumentationScope {
            name: "rpcgate".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let spans = spans.into_iter().map(Into::into).collect();
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, schema_url: String::new() }];
        let resource = Some(self.resource.clone());
        let resource_spans = vec![ResourceSpans { resource, scope_spans, schema_url: String::new() }];
        let message = ExportTraceServiceRequest { resource_spans };
        let request = Request::from_parts(self.metadata.clone(), Extensions::default(), message);
        // The channel's deadline does not include the connection setup.
        let sent = timeout(self.settings.timeout, self.client.export(request)).await;
        let answer = sent.map_err(|_| Status::deadline_exceeded("no answer in time"))??.into_inner();
        let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
        Ok(u64::try_from(rejected).unwrap_or(0).min(number))
    }
}

#[derive(Default)]
struct FailureLog {
    last: Option<Duration>,
    fails: bool,
}

impl FailureLog {
    /// Records a failure, and reports whether it is logged at `now`.
    fn is_due(&mut self, now: Duration) -> bool {
        self.fails = true;
        let is_due = self.last.is_none_or(|last| now.saturating_sub(last) >= LOG_EVERY);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }

    /// Records a success, and reports whether a failure preceded it.
    fn ends(&mut self) -> bool {
        std::mem::take(&mut self.fails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::Url;
    use std::fs;

    // Shows (Traces, logs and metrics).
    #[test]
    fn a_file_of_authorities_that_cannot_be_used_is_named_where_there_is_tls() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let opened = |url: &str| {
            let mut settings = OtlpSettings::default();
            settings.url = Some(Url::parse(url, &["http", "https"]).unwrap());
            settings.ca_file = Some(file.clone());
            endpoint(&settings).map(|endpoint| endpoint.is_some()).map_err(|error| error.to_string())
        };
        let named = format!("telemetry.otlp.ca_file: {}: ", file.display());
        assert!(opened("https://c:4317").unwrap_err().starts_with(&named));
        fs::write(&file, "").unwrap();
        assert_eq!(opened("https://c:4317"), Err(format!("{named}holds no certificate")));
        assert_eq!(opened("http://c:4317"), Ok(true));
    }

    #[test]
    fn an_unreachable_collector_is_logged_once_a_minute() {
        let mut log = FailureLog::default();
        let due = [0, 1, 59, 60, 61, 119, 120].map(|secs| log.is_due(Duration::from_secs(secs)));
        assert_eq!(due, [true, false, false, true, false, false, true]);
        assert_eq!((log.ends(), log.ends()), (true, false));
    }
}
