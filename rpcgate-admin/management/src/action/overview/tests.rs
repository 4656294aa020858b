//! Tests of the items that need attention and of the first steps, on a complete management side.

use super::attention::MAX_ATTENTION;
use super::first_run::{FirstRun, first_run};
use super::*;
use crate::testing::{NOON, Site, Visitor};
use rpcgate_core::backend::usage_sink::Outcome;
use rpcgate_core::caller::{KeyId, ProjectQuota};
use rpcgate_core::clock::Time;
use rpcgate_core::secret::KeyHash;
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_store::{
    Key, Role, SupportTicket, TicketCategory, TicketId, TicketStatus, Webhook, WebhookId, fresh_id,
};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

const HOUR: u64 = 3_600;

/// A tenant with a project whose usage is recorded.
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
        let fixture =
            Fixture { project: ProjectId(fresh_id(NOON)), site, owner, sender: SampleShipper::new(1) };
        fixture.add_project(fixture.project, "Checkout").await;
        fixture
    }

    async fn add_project(&self, id: ProjectId, name: &str) {
        let project = Project::new(id, self.owner.user.tenant.unwrap(), name, NOON);
        self.site.app.store.create_project(&project).await.unwrap();
    }

    fn actor_with(&self, role: Role) -> Actor {
        Actor {
            user: Arc::new(rpcgate_store::User { role, ..self.owner.user.clone() }),
            address: Ipv4Addr::LOCALHOST.into(),
            run: None,
            scopes: None,
            if_match: None,
            command_line: None,
            is_proved: false,
        }
    }

    fn actor(&self) -> Actor {
        self.actor_with(Role::Owner)
    }

    /// Records a call that costs `cu`, `back` seconds ago.
    async fn call(&mut self, back: u64, cu: u32) {
        let arrival = Time::from_secs(self.site.app.now().secs() - back);
        let line = SampleLine { cu, ..item("eth_call") };
        let tenant = self.owner.user.tenant.unwrap();
        let call =
            SampleRecord { tenant, project: self.project, chain: "eth", ..deed(1, arrival, vec![line]) };
        self.site.app.usage.ship(&self.sender.pack(&[call])).await.unwrap();
    }

    async fn call_of(&mut self, cu: u32, method: &str) {
        let line = SampleLine { cu, ..item(method) };
        let tenant = self.owner.user.tenant.unwrap();
        let now = self.site.app.now();
        let call = SampleRecord { tenant, project: self.project, chain: "eth", ..deed(1, now, vec![line]) };
        self.site.app.usage.ship(&self.sender.pack(&[call])).await.unwrap();
    }

    async fn quota(&self, cu_per_day: u64) {
        let quota = ProjectQuota { cu_per_day, ..ProjectQuota::default() };
        self.site.app.store.put_quota(self.project, &quota, NOON).await.unwrap();
    }

    async fn overview(&self) -> Overview {
        overview(&self.site.app, &self.actor(), Period::Day).await.unwrap()
    }
}

#[tokio::test]
async fn the_overview_counts_the_period_and_the_one_before() {
    let mut fixture = Fixture::new().await;
    fixture.call(0, 10).await;
    fixture.call(3 * HOUR, 20).await;
    fixture.call(30 * HOUR, 40).await;
    let second = ProjectId(fresh_id(NOON));
    fixture.add_project(second, "Staging").await;
    let found = fixture.overview().await;
    let used = found.used.as_ref().unwrap();
    assert_eq!((used.usage.view.totals.requests, used.usage.view.totals.billable_units), (2, 30));
    assert_eq!((used.before.requests, used.before.billable_units), (1, 40));
    assert_eq!((used.chains.starts.len(), used.chains.totals()[23].billable_units), (24, 10));
    let projects: Vec<_> =
        found.projects.iter().map(|one| (one.project.name.as_str(), one.quota.unwrap().used)).collect();
    assert_eq!(projects, [("Checkout", 30), ("Staging", 0)]);
    let first = &found.projects[0];
    assert_eq!((first.totals.requests, first.requests.as_ref().unwrap()[20]), (2, 1));
    assert_eq!(found.projects[1].requests.as_deref(), Some(&[][..]));
    assert!(matches!(found.cost, MonthCost::Cents(_)) && found.attention.is_empty(), "{:?}", found.attention);
    let developer =
        overview(&fixture.site.app, &fixture.actor_with(Role::Developer), Period::Day).await.unwrap();
    assert_eq!(developer.cost, MonthCost::Hidden, "developers read no bills");
    let month = overview(&fixture.site.app, &fixture.actor(), Period::ThirtyDays).await.unwrap();
    let used = month.used.unwrap();
    assert!(used.is_by_method);
    assert_eq!((used.usage.view.totals.requests, used.chains.step), (3, Group::Day));
}

// Shows (Dashboard).
#[tokio::test]
async fn a_quota_is_mentioned_when_it_is_nearly_used_and_when_it_is_reached() {
    let mut fixture = Fixture::new().await;
    fixture.quota(1_000).await;
    fixture.call(2 * HOUR, 790).await;
    assert!(fixture.overview().await.attention.is_empty());
    fixture.call(HOUR, 30).await;
    let project = fixture.project;
    let [Attention::QuotaNear { project: near, name, percent, until }] =
        &fixture.overview().await.attention[..]
    else {
        panic!("one item");
    };
    assert_eq!((*near, name.as_str(), percent.round()), (project, "Checkout", 82.0));
    // 180 are left, at (790 + 30) / 3 an hour.
    assert_eq!(until.map(|until| (until.secs() - NOON.secs()) / 60), Some(45));
    fixture.call(0, 180).await;
    let reached = Attention::QuotaReached { project, name: "Checkout".into() };
    assert_eq!(fixture.overview().await.attention, [reached]);
}

// Shows (Dashboard): A member sees at most three waiting matters, the worst first: suspension, quota, invoices,
// endpoints that fail, answered tickets.
#[tokio::test]
async fn the_worst_is_first_and_three_are_shown() {
    let mut fixture = Fixture::new().await;
    fixture.quota(100).await;
    fixture.call(HOUR, 90).await;
    let store = &fixture.site.app.store;
    let tenant = fixture.owner.user.tenant.unwrap();
    let webhook = Webhook {
        id: WebhookId(fresh_id(NOON)),
        project: fixture.project,
        url: "https://hooks.acme.example/".into(),
        secret: vec![1],
        next_secret: None,
        active: true,
        standard_headers: false,
        failing_since: Some(NOON),
        disabled_at: None,
        created_at: NOON,
        updated_at: NOON,
    };
    store.create_webhook(tenant, &webhook, NOON).await.unwrap();
    let ticket = SupportTicket {
        id: TicketId(fresh_id(NOON)),
        tenant,
        user: fixture.owner.user.id,
        category: TicketCategory::Other,
        status: TicketStatus::Answered,
        subject: "Slow answers".into(),
        text: "They take long.".into(),
        limit_request: None,
        satisfaction: None,
        created_at: NOON,
        updated_at: NOON,
        closed_at: None,
    };
    store.create_ticket(ticket, None, 10).await.unwrap();
    let found = fixture.overview().await.attention;
    assert!(
        matches!(
            &found[..],
            [Attention::WebhookFails { .. }, Attention::QuotaNear { .. }, Attention::TicketAnswered { subject, .. }]
                if subject == "Slow answers"
        ),
        "{found:?}"
    );
    let change = rpcgate_store::TenantChange { suspended: Some(true), ..Default::default() };
    store.update_tenant(tenant, &change, NOON).await.unwrap();
    let found = fixture.overview().await.attention;
    let is_overdue = found.iter().any(|one| matches!(one, Attention::InvoiceOverdue { .. }));
    assert_eq!((found.len(), &found[0]), (MAX_ATTENTION, &Attention::Suspended { is_overdue }));
}

// Shows (Dashboard): A call shows its success only if it succeeded, and a suspended tenant is not shown one.
#[tokio::test]
async fn the_first_steps_end_with_the_first_call() {
    let mut fixture = Fixture::new().await;
    let steps = async |fixture: &Fixture| first_run(&fixture.site.app, &fixture.actor()).await.unwrap();
    let FirstRun::Steps(first) = steps(&fixture).await else { panic!("no call was made") };
    assert_eq!(
        (first.is_confirmed, first.project.map(|project| project.name)),
        (true, Some("Checkout".into()))
    );
    assert!(!first.has_key);
    let key = Key::new(KeyId(fresh_id(NOON)), fixture.project, "rpcg_0000000", KeyHash([7; 32]), NOON);
    fixture.site.app.store.create_key(&key, NOON).await.unwrap();
    assert!(matches!(steps(&fixture).await, FirstRun::Steps(steps) if steps.has_key));
    let refused = SampleLine { cu: 0, status: 403, outcome: Outcome::Refused, ..item("debug_all") };
    let tenant = fixture.owner.user.tenant.unwrap();
    let project = fixture.project;
    let refused = SampleRecord { tenant, project, chain: "bsc", ..deed(1, NOON, vec![refused]) };
    fixture.site.app.usage.ship(&fixture.sender.pack(&[refused])).await.unwrap();
    assert_eq!(steps(&fixture).await, FirstRun::Over, "a refused call does not show that it works");
    fixture.call(0, 5).await;
    let FirstRun::FirstCall(call) = steps(&fixture).await else { panic!("a call was made") };
    assert_eq!((call.chain.as_str(), call.method.as_str(), call.status), ("eth", "eth_call", 200));
    assert_eq!((call.at, call.metrics.billable_units), (NOON, 5));
    for (suspended, is_shown) in [(true, false), (false, true)] {
        let change = rpcgate_store::TenantChange { suspended: Some(suspended), ..Default::default() };
        fixture.site.app.store.update_tenant(tenant, &change, NOON).await.unwrap();
        assert_eq!(matches!(steps(&fixture).await, FirstRun::FirstCall(_)), is_shown);
    }
    fixture.site.clock.advance(Duration::from_secs(HOUR));
    assert_eq!(steps(&fixture).await, FirstRun::Over);
    let operator = Actor { user: Arc::new(fixture.site.operator().await.user), ..fixture.actor() };
    assert!(matches!(first_run(&fixture.site.app, &operator).await, Err(ActionError::Forbidden(_))));
}

// Shows (Dashboard).
#[tokio::test]
async fn a_tenant_with_too_many_rows_gets_its_sums() {
    let mut fixture = Fixture::new().await;
    // Grouped by two names, more than 3 rows are refused; by one name, more than 4; by none, more than 9.
    fixture.site.bound_usage(3, 9);
    for cu in [1, 2, 3, 4] {
        fixture.call_of(cu, &format!("m{cu}")).await;
    }
    let found = overview(&fixture.site.app, &fixture.actor(), Period::ThirtyDays).await.unwrap();
    let used = found.used.unwrap();
    assert!(!used.is_by_method && used.chains.is_merged);
    assert_eq!((used.usage.view.totals.requests, used.usage.view.totals.billable_units), (4, 10));
    let over_time: u64 = used.chains.totals().iter().map(|day| day.billable_units).sum();
    assert_eq!((over_time, found.projects[0].quota.unwrap().used), (10, 10));
    assert_eq!(found.projects[0].requests, None, "projects are not told apart over time");
}

// Shows (Dashboard).
#[tokio::test]
async fn while_usage_cannot_be_read_the_overview_has_everything_else() {
    let mut fixture = Fixture::new().await;
    fixture.call(0, 10).await;
    let app = fixture.site.app.clone();
    let actor = fixture.actor();
    let change = rpcgate_store::TenantChange { suspended: Some(true), ..Default::default() };
    app.store.update_tenant(fixture.owner.user.tenant.unwrap(), &change, NOON).await.unwrap();
    app.usage.close().await;
    let found = overview(&app, &actor, Period::Day).await.unwrap();
    assert!(found.used.is_none());
    assert_eq!((found.cost, found.all_projects), (MonthCost::Unknown, 1));
    assert_eq!(found.attention, [Attention::Suspended { is_overdue: false }]);
    let [ProjectUse { project, quota: None, requests: None, .. }] = &found.projects[..] else {
        panic!("{:?}", found.projects);
    };
    assert_eq!(project.id, fixture.project);
    assert_eq!(overview_without_usage(&app, &actor).await.unwrap(), found);
    let developer = overview(&app, &fixture.actor_with(Role::Developer), Period::Day).await.unwrap();
    assert_eq!(developer.cost, MonthCost::Hidden);
}
