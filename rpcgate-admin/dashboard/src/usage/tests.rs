//! Tests of the usage explorer as a browser sees it.

use crate::testing::{NOON, Site, Visitor};
use crate::tests::{HtmlPage, cookie, get};
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_store::{Project, Role, fresh_id};

struct Fixture {
    site: Site,
    owner: Visitor,
    sender: SampleShipper,
    project: ProjectId,
}

impl Fixture {
    async fn new() -> Self {
        let site = Site::new().await;
        let owner = site.member(Role::Owner).await;
        let project = Project::new(ProjectId(fresh_id(NOON)), owner.user.tenant.unwrap(), "Checkout", NOON);
        site.app.store.create_project(&project).await.unwrap();
        Fixture { site, owner, sender: SampleShipper::new(1), project: project.id }
    }

    async fn page(&self, path: &str) -> HtmlPage {
        get(&self.site, path, &cookie(&self.site, &self.owner)).await
    }

    async fn call(&mut self, chain: &'static str, back: u64, items: Vec<SampleLine>) {
        let arrival = Time::from_secs(NOON.secs() - back * 3_600);
        let tenant = self.owner.user.tenant.unwrap();
        let project = self.project;
        let call = SampleRecord { tenant, project, chain, ..deed(1, arrival, items) };
        self.site.app.usage.ship(&self.sender.pack(&[call])).await.unwrap();
    }
}

// Shows (Dashboard): The usage explorer has all filters and groupings of `GET /usage`, in an address that can be
// shared; a refused query has the reason at its field.
#[tokio::test]
async fn the_choice_is_shown_and_the_sums_match_the_api() {
    let mut fixture = Fixture::new().await;
    fixture.call("eth", 1, vec![SampleLine { cu: 15, ..item("a") }, item("b")]).await;
    fixture.call("btc", 2, vec![SampleLine { cu: 3, cached: true, ..item("a") }]).await;
    let page = fixture.page("/usage").await;
    assert_eq!(page.status, StatusCode::OK);
    for text in [
        "30 Dec, 13:00 to 31 Dec, 13:00 UTC · 1 project · grouped by chain and method",
        "<dt>Requests</dt><dd class=\"big\">3</dd><dd><small>3 billed</small></dd>",
        "<dt>Compute Units</dt><dd class=\"big\">19</dd><dd><small>free on your plan</small></dd>",
        "<dt>Cache hits</dt><dd class=\"big\">33.3 %</dd>",
        "<td><a href=\"usage?chain=eth\">eth</a></td><td class=\"id\"><a href=\"usage?method=a\">a</a></td>",
        "<th scope=\"row\" colspan=\"2\">All 3 rows</th><td class=\"num\">3</td>",
        "<h2>Compute Units by chain</h2>",
        "<title>11:00 UTC: 16 CU (eth 16)</title>",
        "<option value=\"a\"></option>",
        "href=\"usage.csv\"",
        "/api/v1/usage?period=24h&#38;group_by=chain%2Cmethod",
        "Single requests are stored since 31 Dec 2026, for 90 days; the billing ledger for 400 days.",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    let first = page.text.find("usage?chain=eth").unwrap();
    assert!(first < page.text.find("usage?chain=btc").unwrap(), "the row with the most CU is first");
    let one = fixture
        .page(&format!("/usage?chain=btc&project_id={}&group_by=&measure=latency", fixture.project))
        .await;
    for text in [
        "<option value=\"btc\" selected>btc</option>",
        "selected>Checkout</option>",
        "<h2>Mean latency by chain</h2>",
        "name=\"measure\" value=\"latency\"",
        "<dt>Requests</dt><dd class=\"big\">1</dd>",
        "<h2 id=\"rows\">All usage</h2>",
    ] {
        assert!(one.text.contains(text), "{text}: {}", one.text);
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn every_grouping_and_measure_has_a_page() {
    let mut fixture = Fixture::new().await;
    fixture.call("eth", 1, vec![item("a"), item("b")]).await;
    for group in ["hour", "day", "chain", "method", "key", "project", "transport", "status"] {
        for measure in ["requests", "cu", "errors", "latency", "bytes"] {
            let page = fixture.page(&format!("/usage?group_by={group}&measure={measure}&period=30d")).await;
            assert_eq!(page.status, StatusCode::OK, "{group} {measure}: {}", page.text);
            assert!(page.text.contains("<tfoot>"), "{group} {measure}");
        }
    }
    for period in ["7d", "today", "month"] {
        let page = fixture.page(&format!("/usage?period={period}&group_by=day,key,transport,status")).await;
        assert_eq!(page.status, StatusCode::OK, "{period}");
    }
    let page = fixture.page("/usage?period=&from=2026-12-31T10:00&to=2026-12-31T12:00&group_by=hour").await;
    assert!(page.text.contains("31 Dec, 10:00 to 31 Dec, 12:00 UTC"), "{}", page.text);
    assert!(page.text.contains(">31 Dec, 11:00</a>"), "{}", page.text);
}

// Shows (Dashboard): The usage view shows no price for a period in which the plan has changed.
#[tokio::test]
async fn units_have_a_price_only_if_the_plan_has_not_changed_in_the_period() {
    let mut fixture = Fixture::new().await;
    fixture.call("eth", 1, vec![SampleLine { cu: 15, ..item("a") }]).await;
    let tenant = fixture.owner.user.tenant.unwrap();
    let before = Time::from_secs(NOON.secs() - 3 * 86_400);
    fixture.site.app.store.set_tier(tenant, Tier::Premium, before).await.unwrap();
    let day = fixture.page("/usage").await;
    assert!(day.text.contains(" each, the current price<"), "{}", day.text);
    let week = fixture.page("/usage?period=7d").await;
    assert!(week.text.contains("no price, because the plan has changed in this period"), "{}", week.text);
    assert!(!week.text.contains("the current price"), "{}", week.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_refused_query_explains_the_reason_at_its_field_and_keeps_the_choice() {
    let fixture = Fixture::new().await;
    for (query, field, text) in [
        ("group_by=hour&group_by=day", "group_by", "The grouping takes hour or day, not both."),
        ("transport=smoke&chain=eth", "transport", "The transport must be one of http, ws, grpc."),
        ("period=&to=2026-12-31T12:00", "to", "The end needs the begin."),
        (
            "period=&from=yesterday",
            "from",
            "The begin must be a day and a time in UTC, such as 2027-01-31T12:00.",
        ),
        ("group_by=hour,chain,method,key,status", "group_by", "takes at most 4 names"),
    ] {
        let page = fixture.page(&format!("/usage?{query}")).await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{query}");
        assert!(page.text.contains(&format!("href=\"#{field}\"")), "{query}: {}", page.text);
        assert!(page.text.contains(text), "{query}: {}", page.text);
        assert!(page.text.contains("<title>Not shown: Usage"), "{query}: {}", page.text);
    }
    let filtered = fixture.page("/usage?transport=smoke&chain=eth").await;
    assert!(filtered.text.contains("<option value=\"eth\" selected>"), "{}", filtered.text);
    let foreign = fixture.page("/usage?project_id=0190163d-8694-739b-aea5-966c26f8ad91").await;
    assert_eq!(foreign.status, StatusCode::NOT_FOUND);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_page_without_usage_gives_advice() {
    let mut fixture = Fixture::new().await;
    let page = fixture.page("/usage").await;
    assert!(
        page.text.contains("No calls in this time")
            && page.text.contains("Single requests are stored for 90 days"),
        "{}",
        page.text
    );
    fixture.call("eth", 1, vec![item("a")]).await;
    let page = fixture.page("/usage?chain=btc&period=7d").await;
    assert!(
        page.text.contains("No usage matches") && page.text.contains("href=\"usage?period=7d\""),
        "{}",
        page.text
    );
}

// Shows (Dashboard): The rows of the usage explorer as CSV are a file that no spreadsheet executes.
#[tokio::test]
async fn the_rows_are_a_file_that_no_spreadsheet_runs() {
    let mut fixture = Fixture::new().await;
    fixture.call("eth", 1, vec![item("=1+1"), item("a")]).await;
    let file = fixture.page("/usage.csv?group_by=method").await;
    assert_eq!(
        (file.status, file.header(CONTENT_TYPE)),
        (StatusCode::OK, "text/csv; charset=utf-8; header=present")
    );
    assert_eq!(
        file.header(CONTENT_DISPOSITION),
        "attachment; filename=\"usage-2026-12-30T13-2026-12-31T13.csv\""
    );
    let lines: Vec<_> = file.text.lines().collect();
    assert!(lines[0].starts_with("\u{feff}method,requests,"), "{}", file.text);
    assert!(lines[1].starts_with("'=1+1,1,") && lines[2].starts_with("a,1,"), "{}", file.text);
    let nobody = get(&fixture.site, "/usage.csv", "").await;
    assert_eq!(nobody.leads_to(), (StatusCode::SEE_OTHER, "login?next=usage.csv"));
    let page = fixture.page("/usage?method=%3Cscript%3E&sort=%22%3E&page=x").await;
    assert!(
        page.text.contains("value=\"&#60;script&#62;\"") && !page.text.contains("<script>"),
        "{}",
        page.text
    );
}

// Shows (Dashboard).
#[tokio::test]
async fn another_tenants_usage_is_not_shown() {
    let mut fixture = Fixture::new().await;
    fixture.call("eth", 1, vec![item("secret")]).await;
    let other = fixture.site.member(Role::Owner).await;
    let page = get(&fixture.site, "/usage", &cookie(&fixture.site, &other)).await;
    assert!(page.text.contains("No calls in this time") && !page.text.contains("secret"), "{}", page.text);
    let operator = fixture.site.operator().await;
    let page = get(&fixture.site, "/usage", &cookie(&fixture.site, &operator)).await;
    assert_eq!(page.status, StatusCode::NOT_FOUND, "operators have no usage of their own");
}

// Shows (Dashboard): Long methods are cut on the usage page and stay complete for keyboards and screen readers.
#[tokio::test]
async fn a_long_name_is_cut_visually_and_complete_for_assistive_technology() {
    let mut fixture = Fixture::new().await;
    let long = format!("eth_{}_end_of_the_name", "x".repeat(230));
    fixture.call("eth", 1, vec![item(&long), item("eth_call")]).await;
    let page = fixture.page("/usage?group_by=method").await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    for text in [
        &format!(
            "<td class=\"id\"><a class=\"cut\" href=\"usage?method={long}&#38;group_by=method\">{long}</a></td>"
        ),
        "<td class=\"id\"><a href=\"usage?method=eth_call&#38;group_by=method\">eth_call</a></td>",
        "…end_of_the_name",
        "Long names are shortened here. The rows below have the full names.",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    // The row with its link, and the form's list of methods.
    assert_eq!(page.text.matches(&long).count(), 3, "{}", page.text);
    let filtered = fixture.page(&format!("/usage?group_by=method&method={long}")).await;
    let whole = format!("<span class=\"cut\" tabindex=\"0\">{long}</span>");
    assert!(filtered.text.contains(&whole), "{}", filtered.text);
    let call = "<code class=\"id grow cut\" tabindex=\"0\">http://127.0.0.1:8081/api/v1/usage?";
    assert!(filtered.text.contains(call), "{}", filtered.text);
    let short = fixture.page("/usage?group_by=chain").await;
    assert!(!short.text.contains("Long names") && !short.text.contains("<a class=\"cut\""), "{}", short.text);
}
