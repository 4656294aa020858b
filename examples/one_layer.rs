//! How do I use one of the layers in a service that is not a gateway?
//!
//! This is the web API of a small lending library. It does not use JSON-RPC and identifies users by its own tokens. Two
//! layers of rpcgate are axum middleware here: `WindowLayer`, which counts requests per minute, hour and day of a plan,
//! and `HeavyLayer`, which also counts the expensive ones in a smaller budget. Both routes with the layer share it.
//!
//! A layer needs the *caller* ([`CallerRef`]) and, for heavy calls, the *call* ([`CallView`]). A function of yours reads
//! them from the request: [`caller_of`] and [`heavy`] read the extension that this application's middleware has added.
//! rpcgate creates the refusals and rate headers. `own_types.rs` has layers over other types than those of `http`.
//!
//! Run it with `cargo run -p rpcgate-examples --example one_layer`.

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, handler::Handler, middleware, routing};
use http::{StatusCode, header};
use rpcgate_core::prelude::*;
use rpcgate_examples::{BoxError, server};
use rpcgate_layers::prelude::*;
use std::sync::Arc;

/// The application's own table of users.
type Users = [(&'static str, Tier); 2];

/// The application's own middleware, which finds the user of a token or answers with an error.
async fn find_user(State(users): State<Users>, mut request: Request, next: middleware::Next) -> Response {
    let token = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let name = token.and_then(|text| text.strip_prefix("Bearer "));
    let Some((number, (_, tier))) = (1..).zip(users).find(|(_, (user, _))| Some(*user) == name) else {
        return (StatusCode::UNAUTHORIZED, "We do not know you.").into_response();
    };
    request.extensions_mut().insert(Arc::new(Caller::of(number, Plan::of(tier))));
    next.run(request).await
}

/// Returns the caller and the call of a request to a route that is always heavy. Without chains, any name will do.
fn heavy(request: &Request) -> Option<(CallerRef<'_>, CallView<'_>)> {
    let rule = MethodRule::UNLISTED.marked(Flags::HEAVY);
    Some((caller_of(request)?, CallView::new(ChainName::new("library"), "heavy", rule)))
}

/// Builds the library's API. `clock` determines the current minute. A long-running service also calls `sweep` on the
/// counters and the budget from time to time.
fn library(clock: Arc<dyn Clock>) -> Router {
    let heavy = HeavyLayer::new().with_call(clock.clone(), heavy);
    let users: Users = [("ann", Tier::Free), ("ben", Tier::Premium)];
    Router::new()
        .route("/books/{number}", routing::get(async |Path(number): Path<u32>| format!("book {number}")))
        .route("/export", routing::post((async || "all books").layer(heavy.clone())))
        .route("/reports", routing::post((async || "a report").layer(heavy)))
        .route_layer(WindowLayer::new(Arc::new(MemoryCounters::default())).with_caller(clock, caller_of))
        .layer(middleware::from_fn_with_state(users, find_user))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let addr = server::serve(library(Arc::new(SystemClock::new()))).await?;
    let title = "Ann has the free plan: 10 requests a minute, 6 of them heavy";
    let calls = [("/books/7", ""), ("/export", "{}"), ("/reports", "{}")];
    Ok(server::show(title, addr, "authorization: Bearer ann", &calls).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_examples::client::{JsonResponse, post};
    use serde_json::json;
    use std::net::SocketAddr;
    use std::time::Duration;

    /// Starts a library with a stopped clock, twenty seconds into a minute.
    async fn open() -> (SocketAddr, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_020)));
        (server::serve(library(clock.clone())).await.unwrap(), clock)
    }

    async fn ask(addr: SocketAddr, token: &str, path: &str) -> JsonResponse {
        post(addr, path, ("authorization", &format!("Bearer {token}")), &json!({})).await.unwrap()
    }

    #[tokio::test]
    async fn every_answer_to_a_user_has_the_nine_rate_headers_on_every_path() {
        let (addr, _) = open().await;
        let export = ask(addr, "ann", "/export").await;
        assert_eq!((export.status.as_u16(), export.rate_headers()), (200, 9));
        assert_eq!(export.header("x-ratelimit-remaining-minute"), "9");
        let report = ask(addr, "ann", "/reports").await;
        assert_eq!((report.status.as_u16(), report.rate_headers()), (200, 9));
        assert_eq!(
            report.header("x-ratelimit-remaining-minute"),
            "8",
            "both routes count in the same windows"
        );
        let premium = ask(addr, "ben", "/export").await;
        assert_eq!(premium.header("x-ratelimit-remaining-minute"), "99");
        let unknown = ask(addr, "eve", "/export").await;
        assert_eq!((unknown.status.as_u16(), unknown.rate_headers()), (401, 0));
    }

    #[tokio::test]
    async fn heavy_requests_of_both_routes_use_one_budget() {
        let (addr, clock) = open().await;
        for _ in 0..3 {
            assert_eq!(ask(addr, "ann", "/export").await.status.as_u16(), 200);
            assert_eq!(ask(addr, "ann", "/reports").await.status.as_u16(), 200);
        }
        for path in ["/export", "/reports"] {
            let refused = ask(addr, "ann", path).await;
            assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, "40"));
            assert_eq!(refused.rate_headers(), 9);
        }
        assert_eq!(
            ask(addr, "ann", "/books/7").await.status.as_u16(),
            405,
            "GET only, but not refused as heavy"
        );
        assert_eq!(ask(addr, "ben", "/reports").await.status.as_u16(), 200, "another user's budget");
        clock.advance(Duration::from_secs(40));
        assert_eq!(ask(addr, "ann", "/reports").await.status.as_u16(), 200, "the next minute");
    }

    #[tokio::test]
    async fn the_eleventh_request_of_a_minute_is_refused_in_the_form_of_each_transport() {
        let (addr, clock) = open().await;
        for _ in 0..10 {
            ask(addr, "ann", "/export").await;
        }
        let refused = ask(addr, "ann", "/export").await;
        assert_eq!(refused.status.as_u16(), 429);
        assert_eq!(refused.json, json!({"message": Refusal::Window { retry_after: 40 }.message()}));
        assert_eq!((refused.header("retry-after"), refused.rate_headers()), ("40", 9));
        assert_eq!(refused.header("x-ratelimit-remaining-minute"), "0");
        clock.advance(Duration::from_secs(40));
        assert_eq!(ask(addr, "ann", "/export").await.status.as_u16(), 200);
    }
}
