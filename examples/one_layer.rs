//! How do I use one of the layers in a service that is not a gateway?
//!
//! This is the web API of a small lending library. It does not use JSON-RPC, identifies users by its own tokens, and
//! has its own request and response types. It uses two layers of rpcgate: `WindowLayer`, which counts requests per
//! minute, hour and day of a plan, and `HeavyLayer`, which also counts the expensive ones in a smaller budget.
//!
//! A layer needs the *caller* ([`CallerRef`]) and, for heavy calls, the *call* ([`CallView`]). Your own function reads
//! them from the request:
//!
//! 1. **Over `http::Request`**, as axum middleware: the functions [`user`] and [`export`] read the extensions that this
//!    application's middleware has added to the request. rpcgate creates the refusals and rate headers.
//! 2. **Over your own types**: [`Order`] and [`Slip`] are plain structs. Two small traits define the refusal of an
//!    order ([`RejectWith`]) and the place of the windows' state in a slip ([`SetRateLimit`]). The content of an order
//!    decides whether it is heavy.
//!
//! Both ways share the same counters and the same budget.
//!
//! Run it with `cargo run -p rpcgate-examples --example one_layer`.
#![expect(clippy::print_stdout, reason = "it prints what to try")]

use axum::extract::{Extension, Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, handler::Handler, middleware, routing};
use http::{StatusCode, header};
use rpcgate_core::prelude::*;
use rpcgate_layers::{headers::write_rates, prelude::*};
use serde_json::{Value, json};
use std::{collections::HashMap, convert::Infallible, sync::Arc};
use tower::{Layer, ServiceExt, service_fn, util::BoxCloneSyncService};

/// The application's own table of users, by token.
type Users = HashMap<&'static str, Arc<Caller>>;

fn users() -> Users {
    // The layers identify a caller by key, project and tenant. Here all three have the number of the user.
    let user = |number, tier| {
        Arc::new(Caller::new(KeyId(number), ProjectId(number), TenantId(number), Plan::of(tier)))
    };
    HashMap::from([("ann", user(1, Tier::Free)), ("ben", user(2, Tier::Premium))])
}

/// The application's own middleware, which finds the user or answers with an error.
async fn find_user(
    State(users): State<Arc<Users>>,
    mut request: Request,
    next: middleware::Next,
) -> Response {
    let token = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(user) = token.and_then(|text| users.get(text.strip_prefix("Bearer ")?)) else {
        return problem(StatusCode::UNAUTHORIZED, "We do not know you.").into_response();
    };
    request.extensions_mut().insert(user.clone());
    next.run(request).await
}

fn problem(status: StatusCode, text: &str) -> (StatusCode, Json<Value>) {
    (status, Json(json!({"problem": text})))
}

/// Returns the caller of a request. `find_user` comes first; without it the layer would refuse every request.
fn user(request: &Request) -> Option<CallerRef<'_>> {
    request.extensions().get::<Arc<Caller>>().map(CallerRef::from)
}

/// Calls need the name of a chain; without chains, any name will do.
const LIBRARY: ChainName = ChainName::new("library");

/// A call that uses the heavy budget.
const HEAVY: MethodRule = MethodRule::UNLISTED.marked(Flags::HEAVY);

/// Returns the caller and the call of a request to the one route that is always heavy.
fn export(request: &Request) -> Option<(CallerRef<'_>, CallView<'_>)> {
    Some((user(request)?, CallView::new(LIBRARY, "export", HEAVY)))
}

/// The body of `POST /reports`.
#[derive(serde::Deserialize)]
struct ReportRequest {
    year: u16,
    /// Print page by page, which is expensive.
    #[serde(default)]
    full: bool,
}

/// An order of a report.
struct Order {
    user: Arc<Caller>,
    report: ReportRequest,
}

/// The response to an order.
struct Slip {
    status: StatusCode,
    body: Value,
    retry_after: Option<u64>,
    windows: Option<Windows>,
}

impl RejectWith<Slip> for Order {
    /// The refusal can name the year, because it is created from the order.
    fn refuse(self, refusal: Refusal) -> Slip {
        let text = format!("No report of {} now: {refusal}.", self.report.year);
        Slip {
            status: refusal.status(),
            body: json!({"problem": text}),
            retry_after: refusal.retry_after(),
            windows: None,
        }
    }
}

impl SetRateLimit for Slip {
    fn rate(&mut self, windows: &Windows) {
        self.windows = Some(*windows);
    }
}

impl IntoResponse for Slip {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(windows) = self.windows {
            write_rates(&windows, response.headers_mut());
        }
        response
    }
}

/// The innermost service, which prints reports.
async fn press(order: Order) -> Result<Slip, Infallible> {
    let ReportRequest { year, full } = order.report;
    let body = json!({"report": year, "pages": if full { 800 } else { 2 }});
    Ok(Slip { status: StatusCode::CREATED, body, retry_after: None, windows: None })
}

/// Builds the library's API. `clock` determines the current minute.
fn library(clock: Arc<dyn Clock>) -> Router {
    // A long-running service also calls `sweep` on both from time to time.
    let counters = Arc::new(MemoryCounters::default());
    let budget = Arc::new(Heavy::default());

    // First way: axum middleware. A layer around one route (`export`), and one around several.
    let export = HeavyLayer::by(budget.clone()).with_call(clock.clone(), export);
    let pages = Router::new()
        .route("/books/{number}", routing::get(async |Path(number): Path<u32>| Json(json!({"book": number}))))
        .route("/export", routing::post((async || Json(json!({"books": [1, 2, 3]}))).layer(export)))
        .route_layer(WindowLayer::new(counters.clone()).with_caller(clock.clone(), user));

    // Second way: a stack over the application's own types, called by a handler.
    let windows =
        WindowLayer::new(counters).with_caller(clock.clone(), |order: &Order| Some((&order.user).into()));
    let heavy = HeavyLayer::by(budget).with_call(clock, |order: &Order| {
        let rule = if order.report.full { HEAVY } else { MethodRule::UNLISTED };
        Some(((&order.user).into(), CallView::new(LIBRARY, "report", rule)))
    });
    let press = BoxCloneSyncService::new((windows, heavy).layer(service_fn(press)));
    let reports = Router::new().route("/reports", routing::post(report)).with_state(press);

    pages.merge(reports).layer(middleware::from_fn_with_state(Arc::new(users()), find_user))
}

async fn report(
    State(press): State<BoxCloneSyncService<Order, Slip, Infallible>>,
    Extension(user): Extension<Arc<Caller>>,
    Json(report): Json<ReportRequest>,
) -> Slip {
    let Ok(slip) = press.oneshot(Order { user, report }).await;
    slip
}

#[tokio::main]
async fn main() -> Result<(), rpcgate_examples::BoxError> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    println!("A library. Ann has the free plan: 10 requests a minute, 6 of them heavy. Try:\n");
    println!("    curl -i http://{addr}/books/7 -H 'authorization: Bearer ann'");
    println!("\nand, seven times within a minute, either of these (both use one budget):\n");
    println!("    curl -i http://{addr}/export -H 'authorization: Bearer ann' -d ''");
    println!(
        "    curl -i http://{addr}/reports -H 'authorization: Bearer ann' -H 'content-type: application/json' \
         -d '{{\"year\":1999,\"full\":true}}'"
    );
    axum::serve(listener, library(Arc::new(SystemClock::new()))).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_examples::client::{JsonResponse, post};
    use std::net::SocketAddr;
    use std::time::Duration;

    /// Starts a library with a stopped clock, twenty seconds into a minute.
    async fn open() -> (SocketAddr, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_020)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(axum::serve(listener, library(clock.clone())).into_future());
        (addr, clock)
    }

    async fn ask(addr: SocketAddr, token: &str, path: &str, body: Value) -> JsonResponse {
        post(addr, path, ("authorization", &format!("Bearer {token}")), &body).await.unwrap()
    }

    #[tokio::test]
    async fn every_answer_to_a_user_has_the_nine_rate_headers_on_every_path() {
        let (addr, _) = open().await;
        let export = ask(addr, "ann", "/export", json!({})).await;
        assert_eq!((export.status.as_u16(), export.rate_headers()), (200, 9));
        assert_eq!(export.header("x-ratelimit-remaining-minute"), "9");
        let report = ask(addr, "ann", "/reports", json!({"year": 1999})).await;
        assert_eq!((report.status.as_u16(), report.rate_headers()), (201, 9));
        assert_eq!(report.json, json!({"report": 1999, "pages": 2}));
        assert_eq!(report.header("x-ratelimit-remaining-minute"), "8", "both ways count in the same windows");
        let premium = ask(addr, "ben", "/export", json!({})).await;
        assert_eq!(premium.header("x-ratelimit-remaining-minute"), "99");
        let unknown = ask(addr, "eve", "/export", json!({})).await;
        assert_eq!((unknown.status.as_u16(), unknown.rate_headers()), (401, 0));
    }

    #[tokio::test]
    async fn heavy_orders_of_both_kinds_use_one_budget() {
        let (addr, clock) = open().await;
        let full = || json!({"year": 1999, "full": true});
        for _ in 0..3 {
            assert_eq!(ask(addr, "ann", "/export", json!({})).await.status.as_u16(), 200);
            assert_eq!(ask(addr, "ann", "/reports", full()).await.status.as_u16(), 201);
        }
        let export = ask(addr, "ann", "/export", json!({})).await;
        assert_eq!((export.status.as_u16(), export.header("retry-after")), (429, "40"));
        assert_eq!(export.rate_headers(), 9);
        let report = ask(addr, "ann", "/reports", full()).await;
        assert_eq!((report.status.as_u16(), report.header("retry-after")), (429, "40"));
        assert!(report.json["problem"].as_str().unwrap().starts_with("No report of 1999 now"));
        assert_eq!(report.rate_headers(), 9);
        let light = ask(addr, "ann", "/reports", json!({"year": 1999})).await;
        assert_eq!(light.status.as_u16(), 201, "a short report is not heavy");
        assert_eq!(ask(addr, "ben", "/reports", full()).await.status.as_u16(), 201, "another user's budget");
        clock.advance(Duration::from_secs(40));
        assert_eq!(ask(addr, "ann", "/reports", full()).await.status.as_u16(), 201, "the next minute");
    }

    #[tokio::test]
    async fn the_eleventh_request_of_a_minute_is_refused_in_the_words_of_each_way() {
        let (addr, clock) = open().await;
        for _ in 0..10 {
            assert_eq!(ask(addr, "ann", "/reports", json!({"year": 1999})).await.status.as_u16(), 201);
        }
        let report = ask(addr, "ann", "/reports", json!({"year": 1999})).await;
        assert_eq!(report.status.as_u16(), 429);
        assert!(report.json["problem"].is_string());
        let export = ask(addr, "ann", "/export", json!({})).await;
        assert_eq!(export.status.as_u16(), 429);
        assert_eq!(export.json, json!({"message": Refusal::Window { retry_after: 40 }.message()}));
        for refused in [report, export] {
            assert_eq!((refused.header("retry-after"), refused.rate_headers()), ("40", 9));
            assert_eq!(refused.header("x-ratelimit-remaining-minute"), "0");
        }
        clock.advance(Duration::from_secs(40));
        assert_eq!(ask(addr, "ann", "/export", json!({})).await.status.as_u16(), 200);
    }
}
