use super::*;
use crate::testing::{ApiAnswer, NOON, Site, Visitor};
use axum::body::Body;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use rpcgate_core::backend::usage_sink::{Outcome, Phase};
use rpcgate_core::caller::{KeyId, ProjectQuota};
use rpcgate_core::clock::Time;
use rpcgate_core::safeguard::CoolDown;
use rpcgate_core::secret::KeyHash;
use rpcgate_core::tally::Transport;
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_management::shape::usage::TRUNCATED;
use rpcgate_store::{GatewayReport, Key, Project, Role, fresh_id};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const HOUR: u64 = 3_600;

/// A tenant with projects and keys, whose usage is recorded.
struct UsageFixture {
    site: Site,
    visitor: Visitor,
    sender: SampleShipper,
}

impl UsageFixture {
    async fn of(text: &str) -> Self {
        let site = Site::of(text).await;
        let visitor = site.member(Role::Viewer).await;
        UsageFixture { site, visitor, sender: SampleShipper::new(1) }
    }

    async fn new() -> Self {
        UsageFixture::of("").await
    }

    fn tenant(&self) -> TenantId {
        self.visitor.user.tenant.unwrap()
    }

    async fn project(&self, tenant: TenantId) -> ProjectId {
        let project = Project {
            blocked_methods: vec!["eth_getLogs".into()],
            ..Project::new(ProjectId(fresh_id(NOON)), tenant, "One", NOON)
        };
        self.site.app.store.create_project(&project).await.unwrap();
        project.id
    }

    async fn key(&self, project: ProjectId) -> KeyId {
        let id = KeyId(fresh_id(NOON));
        let mut hash = [0; 32];
        hash[..16].copy_from_slice(&id.0.to_be_bytes());
        let key = Key::new(id, project, "rpcg_0000000", KeyHash(hash), NOON);
        self.site.app.store.create_key(&key, NOON).await.unwrap();
        id
    }

    /// Creates a project with one key.
    async fn one(&self) -> (ProjectId, KeyId) {
        let project = self.project(self.tenant()).await;
        (project, self.key(project).await)
    }

    /// Returns a call of `key`, `back` hours ago.
    fn call(&self, project: ProjectId, key: KeyId, back: u64, items: Vec<SampleLine>) -> SampleRecord {
        let arrival = Time::from_secs(NOON.secs() - back * HOUR);
        SampleRecord { tenant: self.tenant(), project, key, chain: "eth", ..deed(1, arrival, items) }
    }

    async fn ship(&mut self, deeds: &[SampleRecord]) {
        self.site.app.usage.ship(&self.sender.pack(deeds)).await.unwrap();
    }

    async fn ask(&self, path: &str) -> ApiAnswer {
        self.ask_as(&self.visitor, path).await
    }

    async fn ask_as(&self, visitor: &Visitor, path: &str) -> ApiAnswer {
        self.site.ask(Some(visitor), Method::GET, &format!("/api/v1{path}"), Body::empty()).await
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.ask(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
        answer.body
    }

    /// Returns the status and the message of a refused request.
    async fn refused(&self, path: &str) -> (u16, String) {
        let answer = self.ask(path).await;
        (answer.status.as_u16(), answer.body["error"].as_str().unwrap_or_default().to_owned())
    }

    async fn csv(&self, path: &str) -> (HeaderMap, String) {
        let request = Request::get(format!("/api/v1{path}"))
            .header(http::header::AUTHORIZATION, format!("Bearer {}", self.visitor.token))
            .header(ACCEPT, "text/csv")
            .extension(axum::extract::ConnectInfo(std::net::SocketAddr::from(([192, 0, 2, 1], 9))))
            .body(Body::empty())
            .unwrap();
        let router = crate::router::router(&self.site.app, &CancellationToken::new());
        let (head, body) = router.oneshot(request).await.unwrap().into_parts();
        assert_eq!(head.status, StatusCode::OK);
        let body = body.collect().await.unwrap().to_bytes();
        (head.headers, String::from_utf8(body.to_vec()).unwrap())
    }
}

fn costing(method: &str, cu: u32) -> SampleLine {
    SampleLine { cu, ..item(method) }
}

fn refusal(method: &str) -> SampleLine {
    SampleLine { cu: 0, status: 429, outcome: Outcome::Refused, ..item(method) }
}

#[tokio::test]
async fn a_view_has_every_field_of_the_specification() {
    let mut office = UsageFixture::new().await;
    let (project, key) = office.one().await;
    let call = office.call(project, key, 0, vec![costing("eth_call", 26), refusal("eth_getLogs")]);
    office.ship(&[call]).await;
    let sums = |requests, billed, units, refused, latency| {
        json!({"requests": requests, "billed_requests": billed, "billable_units": units, "errors": refused,
            "rejected": refused, "cache_hits": 0, "request_bytes": 100 * requests,
            "response_bytes": 200 * requests, "ws_connections": 0, "ws_refused": 0, "ws_messages": 0,
            "avg_latency_ms": latency})
    };
    let row = |method, status, mut sums: Value| {
        for (name, value) in [("chain", json!("eth")), ("method", method), ("transport", json!("http"))] {
            sums[name] = value;
        }
        sums["status"] = status;
        sums
    };
    let from = "2026-12-30T13:00:00.000Z";
    let to = "2026-12-31T13:00:00.000Z";
    let percent = 26.0 / 100_000.0 * 100.0;
    let running = |from, requests, limit: bool| {
        json!({"from": from, "to": to, "billable_units": 26, "requests": requests, "enforced": false,
            "cu_limit": limit.then_some(100_000), "cu_remaining": limit.then_some(99_974),
            "cu_percent": limit.then_some(percent), "over": false})
    };
    let mut rolling = running(from, 2, true);
    (rolling["enforced"], rolling["enforced_by"]) = (json!(true), json!("cu_per_day"));
    let mut today = running("2026-12-31T00:00:00.000Z", 1, true);
    today["requests_limit"] = json!(10_000);
    let expected = json!({
        "tenant_id": office.tenant().to_string(),
        "project_id": project.to_string(),
        "projects": 1,
        "from": from,
        "to": to,
        "period": "24h",
        "group_by": ["chain", "method", "transport", "status"],
        "totals": sums(2, 1, 26, 1, 1.5),
        "rows": [row(json!("eth_call"), json!(200), sums(1, 1, 26, 0, 1.5)),
            row(json!("eth_getLogs"), json!(429), sums(1, 0, 0, 1, 0.0))],
        "truncated": false,
        "history_from": "2026-12-31T12:00:00.000Z",
        "current_period": {"rolling_24h": rolling, "today": today,
            "month": running("2026-12-01T00:00:00.000Z", 2, false)},
        "quota_projects": [{"project_id": project.to_string(), "cu_per_day": 100_000, "cu_per_month": null,
            "rps_limit": null, "has_quota_row": false, "cu_used_24h": 26, "cu_remaining": 99_974,
            "cu_percent": percent, "over": false}],
        "limits": {"tier": "free", "requests_per_second": null, "requests_per_minute": 10,
            "requests_per_hour": 500, "requests_per_day": 10_000, "heavy_per_minute": 6, "rps_limit": null,
            "cu_per_day": 100_000, "cu_per_month": null, "projects_with_quota": 0,
            "blocked_methods": ["eth_getLogs"]},
        "source": {"rows": "hourly_rollups", "current_period": "hourly_rollups"},
    });
    assert_eq!(office.get("/usage?group_by=chain,method,transport,status").await, expected);
    let by_id = format!("/tenants/{}/usage?group_by=chain,method,transport,status", office.tenant());
    assert_eq!(office.get(&by_id).await, expected);
}

#[tokio::test]
async fn streams_have_rows_of_their_own_and_the_bytes_of_an_end_are_not_added_again() {
    let mut office = UsageFixture::new().await;
    let (project, key) = office.one().await;
    let part = |phase, calls, bytes_out, outcome| {
        let item = SampleLine { cu: 0, status: 101, calls, bytes_in: 0, bytes_out, outcome, ..item("-") };
        SampleRecord { phase, transport: Transport::Ws, ..office.call(project, key, 1, vec![item]) }
    };
    let deeds = [
        part(Phase::Begin, 1, 0, Outcome::Answered),
        part(Phase::Begin, 2, 0, Outcome::Refused),
        part(Phase::Pushed, 3, 500, Outcome::Answered),
        part(Phase::End, 1, 500, Outcome::Abandoned),
    ];
    office.ship(&deeds).await;
    let view = office.get("/usage?group_by=method").await;
    let counters = |of: &Value| {
        ["ws_connections", "ws_refused", "ws_messages", "response_bytes", "requests"]
            .map(|name| of[name].as_u64().unwrap())
    };
    assert_eq!(counters(&view["totals"]), [1, 2, 3, 500, 0]);
    let mut rows: Vec<_> = view["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["method"].as_str().unwrap(), counters(row)))
        .collect();
    rows.sort_unstable();
    assert_eq!(
        rows,
        [
            ("WS:connect", [1, 2, 0, 0, 0]),
            ("WS:disconnect", [0, 0, 0, 500, 0]),
            ("WS:message", [0, 0, 3, 500, 0]),
        ]
    );
}

#[tokio::test]
async fn each_grouping_name_is_a_field_of_the_rows() {
    let mut office = UsageFixture::new().await;
    let (project, key) = office.one().await;
    office.ship(&[office.call(project, key, 1, vec![item("eth_call")])]).await;
    for (group, value) in [
        ("hour", json!("2026-12-31T11:00:00.000Z")),
        ("day", json!("2026-12-31T00:00:00.000Z")),
        ("chain", json!("eth")),
        ("method", json!("eth_call")),
        ("key", json!(key.to_string())),
        ("project", json!(project.to_string())),
        ("transport", json!("http")),
        ("status", json!(200)),
    ] {
        let body = office.get(&format!("/usage?group_by={group}")).await;
        assert_eq!(body["group_by"], json!([group]));
        assert_eq!(body["rows"][0][group], value);
        assert_eq!(body["rows"][0].as_object().unwrap().len(), 13, "{group}");
    }
}

// Shows (Usage): A tenant's `cu_limit` is the sum over its projects.
#[tokio::test]
async fn ceilings_of_projects_add_up_and_each_is_held_to_its_own() {
    let mut office = UsageFixture::new().await;
    let (first, key) = office.one().await;
    let (second, other) = office.one().await;
    let quota = ProjectQuota { cu_per_day: 50, cu_per_month: Some(1_000), rps_limit: Some(3), has_row: true };
    office.site.app.store.put_quota(first, &quota, NOON).await.unwrap();
    let calls = [
        office.call(first, key, 23, vec![costing("eth_call", 50)]),
        office.call(first, key, 24, vec![costing("eth_call", 7)]),
        office.call(second, other, 0, vec![costing("eth_call", 5)]),
    ];
    office.ship(&calls).await;
    let body = office.get("/usage?chain=btc").await;
    assert_eq!(body["totals"]["requests"], 0, "the filter applies");
    let of = |id: ProjectId| {
        let all = body["quota_projects"].as_array().unwrap();
        all.iter().find(|quota| quota["project_id"] == id.to_string()).unwrap().clone()
    };
    assert_eq!((&of(first)["cu_used_24h"], &of(first)["over"]), (&json!(50), &json!(true)));
    assert_eq!((&of(first)["cu_remaining"], &of(first)["has_quota_row"]), (&json!(0), &json!(true)));
    assert_eq!((&of(second)["cu_used_24h"], &of(second)["over"]), (&json!(5), &json!(false)));
    let rolling = &body["current_period"]["rolling_24h"];
    assert_eq!((&rolling["billable_units"], &rolling["cu_limit"]), (&json!(55), &json!(100_050)));
    assert_eq!((&rolling["cu_remaining"], &rolling["over"]), (&json!(99_995), &json!(false)));
    let month = &body["current_period"]["month"];
    assert_eq!((&month["billable_units"], &month["cu_limit"]), (&json!(62), &Value::Null));
    assert_eq!(body["current_period"]["today"]["billable_units"], 5);
    assert!(body.get("project_id").is_none() && body["limits"].get("blocked_methods").is_none());
    let limits = |name: &str| body["limits"][name].clone();
    assert_eq!((limits("rps_limit"), limits("projects_with_quota")), (Value::Null, json!(1)));

    let body = office.get(&format!("/usage?project_id={first}")).await;
    assert_eq!((&body["projects"], &body["project_id"]), (&json!(1), &json!(first.to_string())));
    let rolling = &body["current_period"]["rolling_24h"];
    assert_eq!((&rolling["over"], &rolling["enforced"]), (&json!(true), &json!(true)));
    let month = &body["current_period"]["month"];
    assert_eq!((&month["cu_limit"], &month["cu_percent"]), (&json!(1_000), &json!(5.7)));
    assert_eq!(month["enforced"], false);
    assert_eq!((&body["limits"]["rps_limit"], &body["limits"]["cu_per_month"]), (&json!(3), &json!(1_000)));
}

// Shows (Limits, budget and quota).
#[tokio::test]
async fn limits_list_the_throttled_keys_with_their_limits_and_the_end() {
    let office = UsageFixture::new().await;
    let (first, key) = office.one().await;
    let (second, other) = office.one().await;
    let deleted = office.project(office.tenant()).await;
    let lost = office.key(deleted).await;
    let store = &office.site.app.store;
    store.delete_project(office.tenant(), deleted, NOON).await.unwrap();
    let quota = ProjectQuota { cu_per_day: 50, cu_per_month: None, rps_limit: Some(3), has_row: true };
    store.put_quota(second, &quota, NOON).await.unwrap();
    let outsider = office.site.member(Role::Viewer).await;
    let tell = async |id, cooled: &[(TenantId, ProjectId, KeyId, u64, u64)]| {
        let cooled = cooled.iter().map(|&(tenant, project, key, percent, secs)| {
            let end = NOON.plus(Duration::from_secs(secs));
            CoolDown { tenant, project, key, percent, end }
        });
        let report = GatewayReport { id, at: office.site.app.now(), nodes: Vec::new() };
        store.put_report(&report, &cooled.collect::<Vec<_>>()).await.unwrap();
    };
    let cooled = async |query: &str| {
        let limits = office.get(&format!("/usage{query}")).await["limits"].clone();
        assert_eq!(limits["requests_per_minute"], 10, "the plan's own figures stand as they are");
        limits.get("cooled_keys").cloned()
    };
    let ours = office.tenant();
    tell(1, &[]).await;
    assert_eq!(cooled("").await, None, "without a storm the view is the specification's");
    tell(1, &[(ours, first, key, 25, 600), (ours, second, other, 25, 300), (ours, deleted, lost, 25, 900)])
        .await;
    tell(2, &[(ours, first, key, 50, 900), (outsider.user.tenant.unwrap(), first, lost, 25, 900)]).await;
    let left = json!({"key": key.to_string(), "project_id": first.to_string(),
        "until": "2026-12-31T12:15:00.000Z", "requests_per_minute": 2, "requests_per_hour": 125,
        "requests_per_day": 2_500, "rps_limit": null});
    let others = json!({"key": other.to_string(), "project_id": second.to_string(),
        "until": "2026-12-31T12:05:00.000Z", "requests_per_minute": 2, "requests_per_hour": 125,
        "requests_per_day": 2_500, "rps_limit": 1});
    let mut both = [left, others.clone()];
    both.sort_by_key(|one| one["key"].to_string());
    assert_eq!(cooled("").await, Some(json!(both)));
    assert_eq!(cooled(&format!("?project_id={second}")).await, Some(json!([others])));
    let theirs = office.ask_as(&outsider, "/usage").await.body;
    assert_eq!((theirs["projects"].as_u64(), theirs["limits"].get("cooled_keys")), (Some(0), None));

    office.site.clock.advance(Duration::from_secs(59));
    assert_eq!(cooled("").await, Some(json!(both)));
    office.site.clock.advance(Duration::from_secs(1));
    assert_eq!(cooled("").await, None, "gateways without reports have ended");
    office.site.clock.set(NOON.plus(Duration::from_secs(300)));
    tell(1, &[(ours, first, key, 25, 600), (ours, second, other, 25, 300)]).await;
    let left = json!([{"key": key.to_string(), "project_id": first.to_string(),
        "until": "2026-12-31T12:10:00.000Z", "requests_per_minute": 2, "requests_per_hour": 125,
        "requests_per_day": 2_500, "rps_limit": null}]);
    assert_eq!(
        cooled("").await,
        Some(left),
        "an ended cool-down is not shown, however late the gateway notices"
    );
}

#[tokio::test]
async fn the_requests_of_today_are_those_counted_in_the_windows() {
    let mut office = UsageFixture::of("[plans.free]\nper_day = 70\n").await;
    let (project, key) = office.one().await;
    let revoked = office.key(project).await;
    office.site.app.store.revoke_key(office.tenant(), revoked, NOON).await.unwrap();
    let theirs = office.site.tenant().await;
    let their_project = office.project(theirs).await;
    let their_key = office.key(their_project).await;
    let batch = office.call(project, key, 0, vec![costing("eth_chainId", 0), item("a"), item("b")]);
    let calls = [
        batch.clone(),
        SampleRecord { windowed: 0, ..office.call(project, key, 0, vec![refusal("a")]) },
        office.call(project, revoked, 12, vec![item("a")]),
        office.call(project, key, 13, vec![item("a")]),
        SampleRecord { tenant: theirs, project: their_project, key: their_key, ..batch },
    ];
    office.ship(&calls).await;
    let body = office.get("/usage").await;
    let today = &body["current_period"]["today"];
    assert_eq!((&today["requests"], &today["requests_limit"]), (&json!(2), &json!(70)));
    assert_eq!(body["current_period"]["rolling_24h"]["requests"], 6);
}

#[tokio::test]
async fn usage_of_a_deleted_project_is_in_rows_and_totals_and_counts_against_no_ceiling() {
    let mut office = UsageFixture::new().await;
    let (kept, key) = office.one().await;
    let (deleted, its_key) = office.one().await;
    let (third, third_key) = office.one().await;
    let batch = |cu| vec![costing("eth_call", cu), costing("eth_call", cu)];
    let calls = [
        office.call(kept, key, 0, batch(13)),
        office.call(deleted, its_key, 0, batch(90_000)),
        office.call(third, third_key, 1, batch(500)),
        // Yesterday, in the same month.
        office.call(third, third_key, 13, batch(7)),
        office.call(deleted, its_key, 13, batch(60_000)),
    ];
    office.ship(&calls).await;
    let figures = |body: &Value| {
        ["rolling_24h", "today", "month"].map(|name| {
            let window = &body["current_period"][name];
            let number = |field: &str| window[field].as_u64();
            (number("billable_units"), number("requests"), number("cu_limit"), number("cu_remaining"))
        })
    };
    let window = |units, requests, limit: Option<u64>| {
        (Some(units), Some(requests), limit, limit.map(|limit| limit.saturating_sub(units)))
    };
    let before =
        [window(301_040, 10, Some(300_000)), window(181_026, 3, Some(300_000)), window(301_040, 10, None)];
    let body = office.get("/usage?group_by=project").await;
    assert_eq!((figures(&body), &body["totals"]["billable_units"]), (before, &json!(301_040)));
    assert_eq!(body["current_period"]["rolling_24h"]["over"], true);

    office.site.app.store.delete_project(office.tenant(), deleted, NOON).await.unwrap();
    let body = office.get("/usage?group_by=project").await;
    let living = [window(1_040, 6, Some(200_000)), window(1_026, 2, Some(200_000)), window(1_040, 6, None)];
    assert_eq!(figures(&body), living);
    assert_eq!(body["current_period"]["rolling_24h"]["over"], false);
    assert_eq!(body["current_period"]["today"]["requests_limit"], 20_000, "of the two keys that are left");
    let quotas = body["quota_projects"].as_array().unwrap();
    let used: Vec<_> = quotas.iter().map(|quota| quota["cu_used_24h"].as_u64().unwrap()).collect();
    assert_eq!(
        (used.len(), used.iter().sum::<u64>()),
        (2, 1_040),
        "the windows are the sum of their projects"
    );
    assert_eq!(
        (&body["totals"]["billable_units"], &body["totals"]["requests"]),
        (&json!(301_040), &json!(10))
    );
    let rows = body["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["project"] == deleted.to_string()).unwrap();
    assert_eq!((rows.len(), &row["billable_units"]), (3, &json!(300_000)));
    let one = office.get(&format!("/usage?project_id={kept}")).await;
    assert_eq!(
        figures(&one),
        [window(26, 2, Some(100_000)), window(26, 1, Some(100_000)), window(26, 2, None)]
    );
    let (status, text) = office.refused(&format!("/usage?project_id={deleted}")).await;
    assert_eq!((status, text.as_str()), (404, "project not found"));
}

#[tokio::test]
async fn the_day_of_the_current_windows_begins_at_midnight_for_each_tenant_and_project() {
    let mut office = UsageFixture::new().await;
    let (first, key) = office.one().await;
    let (second, other) = office.one().await;
    let theirs = office.site.tenant().await;
    let their_project = office.project(theirs).await;
    let their_key = office.key(their_project).await;
    // The last second of NOON's day.
    let late = Time::from_secs(NOON.secs() + 12 * HOUR - 1);
    let calls = [
        office.call(first, key, 12, vec![item("a")]),
        office.call(first, key, 13, vec![item("a")]),
        office.call(second, other, 0, vec![item("a"), item("b")]),
        SampleRecord { arrival: late, ..office.call(second, other, 0, vec![item("a")]) },
        SampleRecord {
            tenant: theirs,
            project: their_project,
            key: their_key,
            ..office.call(first, key, 0, vec![item("a")])
        },
    ];
    office.ship(&calls).await;
    let today = async |office: &UsageFixture, query: &str| {
        office.get(&format!("/usage{query}")).await["current_period"]["today"]["requests"].clone()
    };
    let only = |project| format!("?project_id={project}");
    office.site.clock.set(late);
    let again = async |office: &mut UsageFixture| {
        office.visitor = office.site.visitor(Some(office.tenant()), Role::Viewer).await;
    };
    again(&mut office).await;
    assert_eq!(today(&office, "").await, 3);
    assert_eq!(today(&office, &only(first)).await, 1);
    assert_eq!(today(&office, &only(second)).await, 2);
    office.site.clock.set(Time::from_secs(late.secs() + 1));
    again(&mut office).await;
    for query in [String::new(), only(first), only(second)] {
        assert_eq!(today(&office, &query).await, 0, "a new day");
    }
}

// Shows (Usage): Truncated usage keeps the newest hours and days.
#[tokio::test]
async fn the_newest_of_truncated_hours_and_days_are_shown() {
    let mut office = UsageFixture::new().await;
    let (project, key) = office.one().await;
    let deeds: Vec<_> =
        [30, 6, 1].map(|back| office.call(project, key, back, ["a", "b"].map(item).into())).into();
    office.ship(&deeds).await;
    let reported = async |query: &str, name: &str| {
        let body = office.get(&format!("/usage?period=7d&{query}")).await;
        assert_eq!(body["truncated"], true, "{query}");
        let rows = body["rows"].as_array().unwrap();
        rows.iter()
            .map(|row| format!("{} {}", row[name].as_str().unwrap(), row["method"]))
            .collect::<Vec<_>>()
    };
    let newest = ["2026-12-31T11:00:00.000Z \"a\"", "2026-12-31T11:00:00.000Z \"b\""];
    assert_eq!(reported("group_by=hour,method&limit=2", "hour").await, newest);
    assert_eq!(reported("group_by=hour&limit=1", "hour").await, ["2026-12-31T11:00:00.000Z null"]);
    assert_eq!(reported("group_by=day&limit=1", "day").await, ["2026-12-31T00:00:00.000Z null"]);
    // The rows are nevertheless in the order of the groups.
    let newest = [
        "2026-12-31T06:00:00.000Z \"a\"",
        "2026-12-31T11:00:00.000Z \"a\"",
        "2026-12-31T11:00:00.000Z \"b\"",
    ];
    assert_eq!(reported("group_by=method,hour&limit=3", "hour").await, newest);
}

#[tokio::test]
async fn rows_are_cut_and_totals_are_not() {
    let mut office = UsageFixture::new().await;
    let (project, key) = office.one().await;
    let items = ["a", "b", "c"].map(item).into();
    office.ship(&[office.call(project, key, 0, items)]).await;
    let body = office.get("/usage?group_by=method&limit=2").await;
    assert_eq!((body["rows"].as_array().unwrap().len(), &body["truncated"]), (2, &json!(true)));
    assert_eq!(body["totals"]["requests"], 3);
    let body = office.get("/usage?group_by=method&limit=3&method=b&transport=http").await;
    assert_eq!((&body["rows"][0]["method"], &body["truncated"]), (&json!("b"), &json!(false)));
    assert_eq!(body["totals"]["requests"], 1);
    let window = "from=2026-12-31T11:30:00.000Z&to=2026-12-31T12:00:00.000Z";
    let body = office.get(&format!("/usage?{window}&period=7d")).await;
    assert_eq!(
        (&body["from"], &body["to"]),
        (&json!("2026-12-31T11:00:00.000Z"), &json!("2026-12-31T12:00:00.000Z"))
    );
    assert_eq!((&body["period"], &body["totals"]["requests"]), (&Value::Null, &json!(0)));
}

#[tokio::test]
async fn a_parameter_that_makes_no_sense_is_refused_by_its_name() {
    let office = UsageFixture::new().await;
    let (project, _) = office.one().await;
    let tenant = office.tenant();
    for base in ["/usage".to_owned(), format!("/tenants/{tenant}/usage")] {
        for (query, name) in [
            ("period=1h", "period"),
            ("from=yesterday", "from"),
            ("from=2026-12-31T00:00:00.000Z&to=x", "to"),
            ("to=2026-12-31T00:00:00.000Z", "to"),
            ("from=2026-01-01T00:00:00.000Z&to=2026-12-31T00:00:00.000Z", "from"),
            ("group_by=hour,day", "group_by"),
            ("group_by=chain,method,key,project,status", "group_by"),
            ("group_by=nothing", "group_by"),
            ("project_id=1", "project_id"),
            ("key=1", "key"),
            ("transport=tcp", "transport"),
            ("limit=0", "limit"),
            ("limit=5001", "limit"),
            ("limit=1&limit=2", "`limit`"),
        ] {
            let (status, text) = office.refused(&format!("{base}?{query}")).await;
            assert!(status == 400 && text.starts_with(name), "{base}?{query}: {status} {text}");
        }
    }
    for (path, name) in [
        ("usage?period=week", "period"),
        ("usage-chart?interval=minute", "interval"),
        ("usage-chart?period=day", "period"),
        ("usage-chart?transport=tcp", "transport"),
        ("metrics?limit=x", "limit"),
    ] {
        let (status, text) = office.refused(&format!("/projects/{project}/{path}")).await;
        assert!(status == 400 && text.starts_with(name), "{path}: {status} {text}");
    }
}

#[tokio::test]
async fn resources_of_another_tenant_are_not_found() {
    let office = UsageFixture::new().await;
    let (project, _) = office.one().await;
    let theirs = office.site.tenant().await;
    let their_project = office.project(theirs).await;
    let their_key = office.key(their_project).await;
    let deleted = office.project(office.tenant()).await;
    office.site.app.store.delete_project(office.tenant(), deleted, NOON).await.unwrap();
    for (path, noun) in [
        (format!("/usage?project_id={their_project}"), "project"),
        (format!("/usage?project_id={deleted}"), "project"),
        (format!("/usage?key={their_key}"), "key"),
        (format!("/tenants/{theirs}/usage"), "tenant"),
        (format!("/tenants/{theirs}/usage?period=nonsense"), "tenant"),
        ("/tenants/1/usage".to_owned(), "tenant"),
        (format!("/tenants/{}/usage?project_id={their_project}", office.tenant()), "project"),
        (format!("/projects/{their_project}/usage"), "project"),
        (format!("/projects/{their_project}/usage-chart"), "project"),
        (format!("/projects/{their_project}/metrics"), "project"),
        (format!("/projects/{deleted}/metrics"), "project"),
        ("/projects/x/usage".to_owned(), "project"),
        (format!("/projects/{project}/usage-chart?key={their_key}"), "key"),
        (format!("/projects/{project}/metrics?key={their_key}"), "key"),
    ] {
        assert_eq!(office.refused(&path).await, (404, format!("{noun} not found")), "{path}");
    }
}

#[tokio::test]
async fn an_operator_reads_any_tenants_usage_by_its_id_alone() {
    let mut office = UsageFixture::new().await;
    let (project, key) = office.one().await;
    office.ship(&[office.call(project, key, 0, vec![item("a")])]).await;
    let operator = office.site.operator().await;
    let path = format!("/tenants/{}/usage?project_id={project}", office.tenant());
    let answer = office.ask_as(&operator, &path).await;
    assert_eq!((answer.status, &answer.body["totals"]["requests"]), (StatusCode::OK, &json!(1)));
    let nobody = format!("/tenants/{}/usage", TenantId(7));
    assert_eq!(office.ask_as(&operator, &nobody).await.status, StatusCode::NOT_FOUND);
    for path in ["/usage".to_owned(), format!("/projects/{project}/usage")] {
        assert_eq!(office.ask_as(&operator, &path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
}

// Shows (Management).
#[tokio::test]
async fn rows_come_as_csv_that_no_spreadsheet_runs() {
    let mut office = UsageFixture::new().await;
    let (project, key) = office.one().await;
    let items = vec![item("=HYPERLINK(\"x\",\"y\")"), costing("eth_call", 26)];
    office.ship(&[office.call(project, key, 0, items)]).await;
    let (headers, text) = office.csv("/usage?group_by=hour,method").await;
    assert_eq!(
        text,
        "\u{feff}hour,method,requests,billed_requests,billable_units,errors,rejected,cache_hits,request_bytes,\
         response_bytes,ws_connections,ws_refused,ws_messages,avg_latency_ms\r\n\
         2026-12-31T12:00:00.000Z,\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\",1,1,1,0,0,0,100,200,0,0,0,1.5\r\n\
         2026-12-31T12:00:00.000Z,eth_call,1,1,26,0,0,0,100,200,0,0,0,1.5\r\n"
    );
    assert_eq!(headers[CONTENT_TYPE], "text/csv; charset=utf-8; header=present");
    let name = "attachment; filename=\"usage-2026-12-30T13-2026-12-31T13.csv\"";
    assert_eq!(
        (&headers[CONTENT_DISPOSITION], &headers[TRUNCATED]),
        (&name.parse().unwrap(), &"false".parse().unwrap())
    );
    assert!(headers.get_all(VARY).iter().any(|value| value == "accept"));
    let (headers, text) =
        office.csv(&format!("/tenants/{}/usage?group_by=method&limit=1", office.tenant())).await;
    assert_eq!((&headers[TRUNCATED], text.lines().count()), (&"true".parse().unwrap(), 2));
    assert_eq!(office.ask("/usage").await.headers[CONTENT_TYPE], "application/json");
}

#[tokio::test]
async fn a_project_has_sums_of_its_day_its_month_and_its_chains() {
    let mut office = UsageFixture::new().await;
    let (project, key) = office.one().await;
    let (second, other) = office.one().await;
    let calls = [
        office.call(project, key, 0, vec![costing("eth_call", 26)]),
        SampleRecord { chain: "btc", ..office.call(project, key, 0, vec![costing("getblock", 5)]) },
        office.call(project, key, 48, vec![costing("eth_call", 26)]),
        office.call(project, key, 24 * 30, vec![costing("eth_call", 26)]),
        office.call(second, other, 0, vec![costing("eth_call", 26)]),
    ];
    office.ship(&calls).await;
    let path = format!("/projects/{project}/usage");
    let chain = |cu, count| json!({"cu": cu, "request_count": count});
    let day = json!({"project_id": project.to_string(), "total_cu": 31, "request_count": 2, "period": "24h",
        "by_chain": {"eth": chain(26, 1), "btc": chain(5, 1)}});
    assert_eq!(office.get(&path).await, day);
    assert_eq!(office.get(&format!("{path}?period=day")).await, day);
    let month = json!({"project_id": project.to_string(), "total_cu": 57, "request_count": 3, "period": "30d",
        "by_chain": {"eth": chain(52, 2), "btc": chain(5, 1)}});
    assert_eq!(office.get(&format!("{path}?period=month")).await, month);
}

#[tokio::test]
async fn a_chart_has_a_point_for_every_hour_or_day() {
    let mut office = UsageFixture::new().await;
    let (project, key) = office.one().await;
    let calls = [
        office.call(project, key, 0, vec![costing("eth_call", 26)]),
        office.call(project, key, 23, vec![refusal("eth_call")]),
        SampleRecord { chain: "btc", ..office.call(project, key, 0, vec![item("getblock")]) },
    ];
    office.ship(&calls).await;
    let path = format!("/projects/{project}/usage-chart");
    let body = office.get(&format!("{path}?chain=eth")).await;
    let points = body["points"].as_array().unwrap();
    assert_eq!((&body["interval"], &body["period"], points.len()), (&json!("hour"), &json!("24h"), 24));
    assert_eq!((&points[0]["at"], &points[0]["rejected"]), (&json!("2026-12-30T13:00:00.000Z"), &json!(1)));
    assert_eq!((&points[1]["at"], &points[1]["requests"]), (&json!("2026-12-30T14:00:00.000Z"), &json!(0)));
    assert_eq!(
        (&points[23]["at"], &points[23]["billable_units"]),
        (&json!("2026-12-31T12:00:00.000Z"), &json!(26))
    );
    let body = office.get(&format!("{path}?interval=day")).await;
    let points = body["points"].as_array().unwrap();
    let reported: Vec<_> =
        points.iter().map(|point| (point["at"].as_str().unwrap(), &point["requests"])).collect();
    assert_eq!(reported, [("2026-12-30T00:00:00.000Z", &json!(1)), ("2026-12-31T00:00:00.000Z", &json!(2))]);
    let body = office.get(&format!("{path}?period=30d")).await;
    assert_eq!((&body["interval"], body["points"].as_array().unwrap().len()), (&json!("day"), 31));
    let body = office.get(&format!("{path}?period=7d")).await;
    assert_eq!((&body["interval"], body["points"].as_array().unwrap().len()), (&json!("hour"), 168));
    let longest = "from=2026-09-30T12:30:00.000Z&to=2026-12-31T12:30:00.000Z&interval=hour";
    let body = office.get(&format!("{path}?{longest}")).await;
    assert_eq!(body["points"].as_array().unwrap().len(), 92 * 24 + 1);
}

#[tokio::test]
async fn metrics_have_errors_refusals_cache_hits_and_latency_by_chain_and_method() {
    let mut office = UsageFixture::new().await;
    let (project, key) = office.one().await;
    let hit = SampleLine { cached: true, ..item("eth_call") };
    let failed = SampleLine { outcome: Outcome::NodeError, ..item("getblock") };
    let calls = [
        office.call(project, key, 0, vec![hit, refusal("eth_getLogs")]),
        SampleRecord { chain: "btc", ..office.call(project, key, 1, vec![failed]) },
    ];
    office.ship(&calls).await;
    let path = format!("/projects/{project}/metrics");
    let calls = |requests, errors, rejected, hits, latency| {
        json!({"requests": requests, "errors": errors, "rejected": rejected, "cache_hits": hits,
            "avg_latency_ms": latency})
    };
    let method = |chain, method, mut calls: Value| {
        (calls["chain"], calls["method"]) = (json!(chain), json!(method));
        calls
    };
    let call = calls(1, 0, 0, 1, 1.5);
    let logs = calls(1, 1, 1, 0, 0.0);
    let block = calls(1, 1, 0, 0, 1.5);
    let expected = json!({
        "project_id": project.to_string(),
        "from": "2026-12-30T13:00:00.000Z",
        "to": "2026-12-31T13:00:00.000Z",
        "period": "24h",
        "totals": calls(3, 2, 1, 1, 1.5),
        "by_chain": {"eth": calls(2, 1, 1, 1, 1.5), "btc": block.clone()},
        "by_method": [method("btc", "getblock", block), method("eth", "eth_call", call),
            method("eth", "eth_getLogs", logs)],
        "truncated": false,
    });
    assert_eq!(office.get(&path).await, expected);
    let body = office.get(&format!("{path}?limit=1")).await;
    assert_eq!((&body["truncated"], &body["totals"]["requests"]), (&json!(true), &json!(3)));
    assert_eq!(body["by_chain"].as_object().unwrap().len(), 2, "chains are not cut");
}

#[tokio::test]
async fn a_call_of_a_moment_ago_is_shown_and_one_that_left_the_window_is_not() {
    let mut office = UsageFixture::new().await;
    let (project, key) = office.one().await;
    office.ship(&[office.call(project, key, 0, vec![costing("eth_call", 26)])]).await;
    let used =
        async |office: &UsageFixture| office.get("/usage").await["quota_projects"][0]["cu_used_24h"].clone();
    assert_eq!(used(&office).await, 26);
    // Sessions live longer than a day, tokens do not.
    let later = NOON.plus(Duration::from_secs(24 * HOUR));
    office.site.clock.set(later);
    let visitor = office.site.visitor(Some(office.tenant()), Role::Viewer).await;
    office.visitor = visitor;
    assert_eq!(used(&office).await, 0);
    assert_eq!(office.get("/usage?period=7d").await["totals"]["billable_units"], 26);
}

#[tokio::test]
async fn a_tenant_without_projects_has_used_nothing_and_is_over_nothing() {
    let office = UsageFixture::new().await;
    let body = office.get("/usage").await;
    assert_eq!(body["tenant_id"], office.tenant().to_string());
    assert_eq!((&body["projects"], &body["rows"]), (&json!(0), &json!([])));
    assert_eq!((&body["quota_projects"], &body["history_from"]), (&json!([]), &Value::Null));
    assert!(body.get("project_id").is_none() && body["limits"].get("blocked_methods").is_none());
    let rolling = &body["current_period"]["rolling_24h"];
    assert_eq!((&rolling["cu_limit"], &rolling["over"]), (&json!(0), &json!(false)));
    assert_eq!(body["current_period"]["today"]["requests_limit"], 0);
}
