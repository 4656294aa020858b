//! The Prometheus metrics at `telemetry.listen`: requests by route, mails, webhook deliveries, the watched chains, and
//! whether the database answers. `docs/watching.md` lists the names and labels.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use prometheus_client::encoding::text;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use rpcgate_core::clock::{Clock, Time};
use rpcgate_management::app_state::AppState;
use rpcgate_management::request_metrics::Requests;
use rpcgate_process::metrics::{CertificateMetrics, MetricsFormat, ProgramMetrics};
use rpcgate_process::tls::Certificate;
use rpcgate_store::Store;
use std::sync::Arc;
use std::time::Duration;

/// The time within which the database must answer. Otherwise it counts as down.
const DEADLINE: Duration = Duration::from_secs(1);
const WEEK: u64 = 7 * 86_400 * 1_000_000;

struct Page {
    registry: Registry,
    database: Gauge,
    waiting_mails: Gauge,
    oldest_due_delivery: Gauge,
    unmatched_payments: Gauge,
    store: Store,
    clock: Arc<dyn Clock>,
}

pub(crate) fn router(app: &AppState, certificate: Option<Arc<Certificate>>) -> Router {
    let mut all = Registry::default();
    all.register_collector(Box::new(ProgramMetrics));
    let registry = all.sub_registry_with_prefix("rpcgate_admin");
    let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("build", "What is running", build);
    let Requests { answered, took } = &app.requests;
    registry.register("requests", "Requests by route, method and status", answered.clone());
    let help = "Time from a request's head to its answer's";
    registry.register_with_unit("request_duration", help, Unit::Seconds, took.clone());
    if let Some(traces) = &app.traces {
        registry.register_collector(traces.metric());
    }
    app.watch_metrics.register(registry);
    let database = Gauge::default();
    registry.register("database_up", "Whether the management database answers", database.clone());
    registry.register("mails", "Mails by the outcome of an attempt", app.mails.counts().family());
    let help = "Failed removals of old rows of a kind";
    registry.register("cleanup_failures", help, app.cleanup_failures.family());
    let waiting_mails = Gauge::default();
    registry.register("waiting_mails", "Mails that wait to be sent", waiting_mails.clone());
    registry.register("delivery_attempts", "Attempts at deliveries by outcome", app.deliveries.attempts());
    let help = "Attempts at deliveries that are being made";
    registry.register("deliveries_in_flight", help, app.deliveries.in_flight());
    let oldest_due_delivery = Gauge::default();
    let help = "The time since the longest-waiting delivery has been due";
    registry.register_with_unit("oldest_due_delivery", help, Unit::Seconds, oldest_due_delivery.clone());
    let unmatched_payments = Gauge::default();
    let help = "Payments of the last seven days that match nothing that is due";
    registry.register("unmatched_payments", help, unmatched_payments.clone());
    if let Some(certificate) = certificate {
        registry.register_collector(Box::new(CertificateMetrics(certificate)));
    }
    let store = app.store.clone();
    let clock = app.clock.clone();
    let page = Arc::new(Page {
        registry: all,
        database,
        waiting_mails,
        oldest_due_delivery,
        unmatched_payments,
        store,
        clock,
    });
    Router::new().route("/metrics", get(show)).with_state(page)
}

async fn show(State(page): State<Arc<Page>>, headers: HeaderMap) -> Response {
    let answer = tokio::time::timeout(DEADLINE, page.store.newest_change()).await;
    page.database.set(i64::from(matches!(answer, Ok(Ok(_)))));
    if let Ok(Ok(waiting)) = tokio::time::timeout(DEADLINE, page.store.waiting_mails()).await {
        page.waiting_mails.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }
    let now = page.clock.now();
    if let Ok(Ok(due)) = tokio::time::timeout(DEADLINE, page.store.oldest_due_delivery(now)).await {
        let age = due.map_or(0, |due| now.since(due).as_secs());
        page.oldest_due_delivery.set(i64::try_from(age).unwrap_or(i64::MAX));
    }
    let week_ago = Time::from_micros(now.micros().saturating_sub(WEEK));
    if let Ok(Ok(count)) = tokio::time::timeout(DEADLINE, page.store.unmatched_payments_since(week_ago)).await
    {
        page.unmatched_payments.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    let mut text = String::new();
    match text::encode(&mut text, &page.registry) {
        Ok(()) => {
            let format = MetricsFormat::preferred(&headers);
            ([(CONTENT_TYPE, format.content_type())], format.page(text)).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "it is public where it belongs")]
#[path = "../../tests/src/observability.rs"]
mod observability;

#[cfg(test)]
mod tests {
    use super::observability::{mistakes, values};
    use super::*;
    use crate::testing::Site;
    use axum::body::Body;
    use axum::extract::ConnectInfo;
    use http::{Method, Request};
    use http_body_util::BodyExt;
    use rcgen::{CertificateParams, KeyPair};
    use rpcgate_config::{AcmeSettings, AdminTls};
    use rpcgate_management::mail::MailCounts;
    use rpcgate_management::webhook::DeliveryCounts;
    use rpcgate_process::tls::CertificatePaths;
    use tokio_util::sync::CancellationToken;
    use tower::ServiceExt;

    async fn ask(router: &Router, method: &str, path: &str) -> (StatusCode, String) {
        let peer = ConnectInfo(std::net::SocketAddr::from(([192, 0, 2, 1], 7)));
        let request = Request::builder().method(method).uri(path).extension(peer);
        let request = request.header(http::header::ACCEPT, "application/openmetrics-text");
        let request = request.body(Body::empty()).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        let (head, body) = answer.into_parts();
        (head.status, String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn requests_are_counted_by_route_and_unknown_paths_have_no_name() {
        let site = Site::new().await;
        let served = crate::router::router(&site.app, &CancellationToken::new());
        for _ in 0..2 {
            assert_eq!(ask(&served, "GET", "/api/v1/projects/nobodys").await.0, StatusCode::UNAUTHORIZED);
        }
        for n in 0..100 {
            ask(&served, "GET", &format!("/no/such/path/{n}")).await;
            ask(&served, &format!("VERB{n}"), "/healthz").await;
        }
        let (status, text) = ask(&router(&site.app, None), "GET", "/metrics").await;
        assert_eq!(status, StatusCode::OK);
        let lines: Vec<_> =
            text.lines().filter(|line| line.starts_with("rpcgate_admin_requests_total")).collect();
        assert_eq!(lines.len(), 3, "{text}");
        let labels = "{route=\"/api/v1/projects/{id}\",method=\"GET\"";
        for line in [
            format!("rpcgate_admin_requests_total{labels},status=\"401\"}} 2"),
            format!("rpcgate_admin_request_duration_seconds_count{labels}}} 2"),
            "rpcgate_admin_requests_total{route=\"(none)\",method=\"GET\",status=\"404\"} 100".into(),
            "rpcgate_admin_database_up 1".into(),
        ] {
            assert!(text.lines().any(|reported| reported == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n") && !text.contains("nobodys") && !text.contains("VERB"), "{text}");
        let memory = text.lines().any(|line| line.starts_with("process_resident_memory_bytes "));
        assert!(memory || !cfg!(target_os = "linux"), "{text}");
    }

    // Shows (Traces, logs and metrics).
    #[tokio::test]
    async fn the_dashboard_and_the_alerts_use_metrics_of_the_management_side() {
        let mut site = Site::of("[telemetry.otlp]\nurl = \"http://127.0.0.1:1\"\n").await;
        let _traces = Arc::get_mut(&mut site.app).unwrap().start_traces().unwrap();
        let app = &site.app;
        app.requests.count(Some("/a"), &Method::GET, StatusCode::OK, Duration::from_millis(3));
        let watched = &app.watch_metrics;
        watched.followed("eth", 7, 1, 12);
        watched.count("eth", "new_block");
        watched.withheld("eth", 1);
        watched.reorganised("eth", 1);
        watched.lost("eth");
        watched.skipped("eth", 1);
        watched.unread("eth");
        for outcome in MailCounts::outcomes() {
            app.mails.counts().of(outcome);
        }
        for step in ["accounts", "sessions"] {
            app.cleanup_failures.of(step);
        }
        for outcome in DeliveryCounts::OUTCOMES {
            app.deliveries.of(outcome);
        }
        let dir = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let made = CertificateParams::new(vec!["a.example".into()]).unwrap().self_signed(&key).unwrap();
        let text = format!("{}{}", key.serialize_pem(), made.pem());
        std::fs::write(dir.path().join("certificate.pem"), text).unwrap();
        let mut tls = AdminTls::default();
        let mut acme = AcmeSettings::default();
        (tls.acme, acme.dir) = (true, dir.path().to_owned());
        let paths = CertificatePaths::of_management(&tls, &acme).unwrap();
        let certificate = Some(Arc::new(Certificate::load(&paths).unwrap()));
        let (_, page) = ask(&router(app, certificate), "GET", "/metrics").await;
        let mails = "rpcgate_admin_mails_total";
        let attempts = "rpcgate_admin_delivery_attempts_total";
        let spans = "rpcgate_admin_otlp_spans_total";
        let all = [(mails, "outcome"), (attempts, "outcome"), (spans, "result")];
        let all = all.map(|(name, label)| (name, label, values(&page, name, label)));
        let closed = all.each_ref().map(|(name, label, all)| {
            assert!(all.len() > 1, "{name} {all:?}");
            (*name, *label, all.iter().map(String::as_str).collect())
        });
        let ours = |name: &str| name.starts_with("rpcgate_admin_");
        let (mistakes, compared) = mistakes(ours, &page, &closed);
        assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
        assert!(compared > 20, "{compared}");
    }

    #[tokio::test]
    async fn counts_outlive_a_reload_and_an_unreachable_database_is_reported() {
        let site = Site::new().await;
        site.app.requests.count(Some("/a"), &Method::GET, StatusCode::OK, Duration::from_millis(3));
        let again = Arc::new(site.app.reload(site.app.settings.config.clone()).unwrap());
        again.store.close().await;
        let (_, text) = ask(&router(&again, None), "GET", "/metrics").await;
        assert!(text.contains("rpcgate_admin_database_up 0\n"), "{text}");
        assert!(text.contains("{route=\"/a\",method=\"GET\",status=\"200\"} 1\n"), "{text}");
        let bucket =
            "rpcgate_admin_request_duration_seconds_bucket{le=\"0.005\",route=\"/a\",method=\"GET\"} 1\n";
        assert!(text.contains(bucket), "{text}");
    }
}
