//! Tests of the first page as a browser sees it.

use crate::testing::{NOON, Site, Visitor};
use crate::tests::{HtmlPage, cookie, get};
use http::StatusCode;
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::caller::{KeyId, ProjectId};
use rpcgate_core::clock::Time;
use rpcgate_core::secret::KeyHash;
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_management::action::notifications::raise;
use rpcgate_store::{Key, NotificationKind, Project, Role, fresh_id};
use std::time::Duration;

const NASTY: &str = "<script>alert(1)</script>\"'&";
const SHOWN: &str = "&#60;script&#62;alert(1)&#60;/script&#62;&#34;&#39;&#38;";

struct Fixture {
    site: Site,
    owner: Visitor,
    sender: SampleShipper,
}

impl Fixture {
    async fn new() -> Self {
        // Longer than the tests advance the clock.
        let site = Site::of("[admin.jwt]\naccess_ttl = \"10h\"\nrefresh_ttl = \"24h\"\n").await;
        let owner = site.member(Role::Owner).await;
        Fixture { site, owner, sender: SampleShipper::new(1) }
    }

    async fn page(&self, path: &str) -> HtmlPage {
        let page = get(&self.site, path, &cookie(&self.site, &self.owner)).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.text);
        page
    }

    async fn project(&self, name: &str) -> ProjectId {
        let project = Project::new(ProjectId(fresh_id(NOON)), self.owner.user.tenant.unwrap(), name, NOON);
        self.site.app.store.create_project(&project).await.unwrap();
        project.id
    }

    async fn key(&self, project: ProjectId) {
        let key = Key::new(KeyId(fresh_id(NOON)), project, "rpcg_0000000", KeyHash([7; 32]), NOON);
        self.site.app.store.create_key(&key, NOON).await.unwrap();
    }

    /// Records calls of a project, `back` hours ago.
    async fn call(&mut self, project: ProjectId, back: u64, items: Vec<SampleLine>) {
        let arrival = Time::from_secs(NOON.secs() - back * 3_600);
        let tenant = self.owner.user.tenant.unwrap();
        let call = SampleRecord { tenant, project, chain: "eth", ..deed(1, arrival, items) };
        self.site.app.usage.ship(&self.sender.pack(&[call])).await.unwrap();
    }
}

// Shows (Dashboard): The first page leads to the first call, shows it, and then has the overview.
#[tokio::test]
async fn the_first_steps_lead_to_the_first_call_and_vanish() {
    let mut fixture = Fixture::new().await;
    let page = fixture.page("/").await;
    assert!(page.text.contains("1 of 4 done") && page.text.contains("Three more steps"), "{}", page.text);
    assert!(page.text.contains("<form method=\"post\" action=\"projects\""), "{}", page.text);
    assert!(!page.text.contains("data-live"), "nothing to wait for yet");
    let project = fixture.project(NASTY).await;
    let page = fixture.page("/").await;
    assert!(
        page.text.contains(&format!("href=\"projects/{project}\"")) && page.text.contains(SHOWN),
        "{}",
        page.text
    );
    fixture.key(project).await;
    let page = fixture.page("/").await;
    assert!(page.text.contains("3 of 4 done") && page.text.contains("One more step"), "{}", page.text);
    assert!(page.text.contains("id=\"first-run\" data-live"), "{}", page.text);
    fixture.call(project, 0, vec![SampleLine { cu: 7, ..item(NASTY) }]).await;
    let page = fixture.page("/").await;
    assert!(
        page.text.contains("id=\"first-run\" data-live") && page.text.contains("It works."),
        "{}",
        page.text
    );
    assert!(
        page.text.contains(&format!("<span class=\"id\">{SHOWN}</span> on eth: 200 in 1.5 ms, 7 CU")),
        "{}",
        page.text
    );
    fixture.site.clock.advance(Duration::from_secs(3_600));
    let page = fixture.page("/").await;
    assert!(!page.text.contains("first-run") && page.text.contains("<h1>Overview</h1>"), "{}", page.text);
    assert!(!page.text.contains("<script>alert"), "{}", page.text);
}

#[tokio::test]
async fn a_viewer_reads_whom_to_ask() {
    let fixture = Fixture::new().await;
    let viewer = fixture.site.visitor(fixture.owner.user.tenant, Role::Viewer).await;
    let page = get(&fixture.site, "/", &cookie(&fixture.site, &viewer)).await;
    assert!(page.text.contains("Your role may not create projects."), "{}", page.text);
    assert!(!page.text.contains("action=\"projects\""), "{}", page.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn the_overview_has_figures_charts_and_their_tables() {
    let mut fixture = Fixture::new().await;
    let project = fixture.project("Checkout").await;
    fixture.call(project, 30, vec![item("a")]).await;
    let refused = SampleLine { cu: 0, status: 429, outcome: Outcome::Refused, ..item("b") };
    fixture.call(project, 2, vec![SampleLine { cu: 90_000, ..item("a") }, refused, item("c")]).await;
    let page = fixture.page("/").await;
    for text in [
        "<p class=\"hero\"><b>3</b> <span>▲ 200 %</span> <small>than the 24 hours before</small>",
        "<dt>Compute Units</dt><dd>90,001</dd>",
        "<dt>Errors</dt><dd>33.3 %<small>1</small></dd>",
        "<b>90,001</b> of 100,000 CU",
        "90 % of the rolling 24 hours, 9,999 CU left",
        "<b>Checkout</b> has used 90 % of its Compute Units.",
        "href=\"usage?period=24h&#38;chain=eth&#38;method=a\"",
        "<title>10:00 UTC: 3 requests</title>",
        "<th scope=\"row\">10:00</th><td class=\"num\">90,001</td>",
        "<title>10:00 UTC: 1 of 3 failed</title>",
        "aria-label=\"eth: 1 error in 24 hours\"",
        "<dt>Cost this month</dt>",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    assert!(!page.text.contains(" style=") && page.text.len() < 150_000, "{}", page.text.len());
    let month = fixture.page("/?period=30d").await;
    assert!(month.text.contains("<p class=\"hero\"><b>4</b></p>"), "nothing was before: {}", month.text);
    assert!(month.text.contains("href=\"./?period=30d\" aria-current=\"page\""), "{}", month.text);
    let strange = fixture.page("/?period=%3Cscript%3E").await;
    assert!(
        strange.text.contains("href=\"./\" aria-current=\"page\">24 hours</a>"),
        "an unknown period is the default one"
    );
}

#[tokio::test]
async fn roles_without_access_to_bills_see_no_cost() {
    let mut fixture = Fixture::new().await;
    let project = fixture.project("Checkout").await;
    fixture.call(project, 2, vec![item("a")]).await;
    let developer = fixture.site.visitor(fixture.owner.user.tenant, Role::Developer).await;
    let page = get(&fixture.site, "/", &cookie(&fixture.site, &developer)).await;
    assert!(
        page.text.contains("<h1>Overview</h1>") && !page.text.contains("Cost this month"),
        "{}",
        page.text
    );
}

// Shows (Dashboard): While usage cannot be read, the first page leads to keys, bills show invoices, lists of methods
// and weights are saved, and other notifications are read.
#[tokio::test]
async fn the_first_page_leads_to_the_keys_while_usage_cannot_be_read() {
    let mut fixture = Fixture::new().await;
    let project = fixture.project(NASTY).await;
    fixture.key(project).await;
    fixture.call(project, 2, vec![item("a")]).await;
    let tenant = fixture.owner.user.tenant.unwrap();
    raise(&fixture.site.app, tenant, NotificationKind::Suspension, "Your organisation is active again")
        .await
        .unwrap();
    fixture.site.app.usage.close().await;
    for path in ["/", "/?period=30d"] {
        let page = fixture.page(path).await;
        for text in [
            "Usage cannot be read at the moment, so its numbers and charts are missing.",
            &format!("<a href=\"projects/{project}\">{SHOWN}</a></th><td class=\"num p2\">1</td>"),
            "href=\"projects\"",
            "Your organisation is active again",
        ] {
            assert!(page.text.contains(text), "{path}: {text}: {}", page.text);
        }
        for text in ["<figure", "class=\"hero\"", "Requests per", "Cost this month"] {
            assert!(!page.text.contains(text), "{path}: {text}: {}", page.text);
        }
    }
    let key =
        get(&fixture.site, &format!("/projects/{project}"), &cookie(&fixture.site, &fixture.owner)).await;
    assert_eq!(key.status, StatusCode::OK, "{}", key.text);
}

// Shows (Dashboard): A tenant with too many rows by chain and method for one answer sees its sums on the first page.
#[tokio::test]
async fn a_month_of_very_much_usage_is_shown_in_sums() {
    let mut fixture = Fixture::new().await;
    fixture.site.bound_usage(3, 9);
    let project = fixture.project("Checkout").await;
    for method in ["a", "b", "c", "d"] {
        fixture.call(project, 2, vec![SampleLine { cu: 5, ..item(method) }]).await;
    }
    let page = fixture.page("/?period=30d").await;
    for text in [
        "<p class=\"hero\"><b>4</b></p>",
        "<dt>Compute Units</dt><dd>20</dd>",
        "There are too many calls in this period to list them by method.",
        "<figcaption><h2>Requests</h2></figcaption>",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    assert!(!page.text.contains("by chain"), "{}", page.text);
}
