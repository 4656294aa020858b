//! A collector of traces (OTLP over gRPC) that stores the spans that it receives.

#![expect(clippy::unwrap_used, reason = "a collector of the tests that cannot start fails its test")]

use crate::certificate::TestCertificate;
use crate::until;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::AbortHandle;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

/// A received span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CollectedSpan {
    /// The service.
    pub service: String,
    /// The trace id in hexadecimal.
    pub trace: String,
    /// The span id in hexadecimal.
    pub id: String,
    /// The id of the parent span, or empty.
    pub parent: String,
    /// The name.
    pub name: String,
    /// True for a span of kind server, false for one of kind client.
    pub is_server: bool,
    /// The error message, if the span failed.
    pub error: Option<String>,
    /// The attributes, values as text.
    pub attributes: BTreeMap<String, String>,
    /// The attributes of the events.
    pub events: Vec<BTreeMap<String, String>>,
}

impl CollectedSpan {
    /// Returns the value of an attribute, or an empty text.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// Returns the `traceparent` of the span with these flags.
    pub fn traceparent(&self, flags: &str) -> String {
        format!("00-{}-{}-{flags}", self.trace, self.id)
    }

    fn of(service: &str, span: &Span) -> Self {
        let error = span.status.as_ref().filter(|status| status.code == StatusCode::Error as i32);
        CollectedSpan {
            service: service.to_owned(),
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            name: span.name.clone(),
            is_server: span.kind == SpanKind::Server as i32,
            error: error.map(|status| status.message.clone()),
            attributes: texts(&span.attributes),
            events: span.events.iter().map(|event| texts(&event.attributes)).collect(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(is)) => is.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}

#[derive(Debug, Default)]
struct Shared {
    spans: Mutex<Vec<CollectedSpan>>,
    /// Everything received, as text.
    whole: Mutex<String>,
    rejects: AtomicI64,
}

/// A collector. It stops when dropped.
#[derive(Debug)]
pub struct TraceCollector {
    addr: SocketAddr,
    is_secure: bool,
    shared: Arc<Shared>,
    serving: AbortHandle,
}

impl TraceCollector {
    /// Starts a collector.
    ///
    /// # Panics
    /// When it cannot listen.
    pub fn start() -> Self {
        TraceCollector::with(None)
    }

    /// Starts a collector that serves TLS with this certificate.
    ///
    /// # Panics
    /// When it cannot listen.
    pub fn secure(certificate: &TestCertificate) -> Self {
        let [cert, key] = certificate.files().map(|file| std::fs::read(file).unwrap());
        TraceCollector::with(Some(ServerTlsConfig::new().identity(Identity::from_pem(cert, key))))
    }

    fn with(tls: Option<ServerTlsConfig>) -> Self {
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addr = incoming.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let service = TraceServiceServer::from_arc(shared.clone());
        let mut server = Server::builder();
        let is_secure = tls.is_some();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        let server = server.add_service(service).serve_with_incoming(incoming);
        TraceCollector { addr, is_secure, shared, serving: tokio::spawn(server).abort_handle() }
    }

    /// Returns the collector's URL.
    pub fn url(&self) -> String {
        if self.is_secure {
            // The name in its certificate.
            return format!("https://localhost:{}", self.addr.port());
        }
        format!("http://{}", self.addr)
    }

    /// Reports `spans` rejected spans in the answer to each further request.
    pub fn reject(&self, spans: i64) {
        self.shared.rejects.store(spans, Relaxed);
    }

    /// Returns the received spans.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        self.shared.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until at least `spans` spans have arrived, and returns them.
    pub async fn got(&self, spans: usize) -> Vec<CollectedSpan> {
        until(&format!("{spans} spans at a collector"), || self.spans().len() >= spans).await;
        self.spans()
    }

    /// Returns everything received, headers included, as text.
    pub fn whole(&self) -> String {
        self.shared.whole.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for TraceCollector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[tonic::async_trait]
impl TraceService for Shared {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(whole, "{:?}\n{:?}", request.metadata().clone().into_headers(), request.get_ref());
        drop(whole);
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        for of_resource in request.into_inner().resource_spans {
            let resource = texts(&of_resource.resource.unwrap_or_default().attributes);
            let service = resource.get("service.name").cloned().unwrap_or_default();
            let all = of_resource.scope_spans.iter().flat_map(|of_scope| &of_scope.spans);
            spans.extend(all.map(|span| CollectedSpan::of(&service, span)));
        }
        let rejected_spans = self.rejects.load(Relaxed);
        let partial = ExportTracePartialSuccess { rejected_spans, ..Default::default() };
        let partial_success = (rejected_spans > 0).then_some(partial);
        Ok(Response::new(ExportTraceServiceResponse { partial_success }))
    }
}
