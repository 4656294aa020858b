//! A site with an operator and a tenant, for the tests of operators' pages.

use crate::testing::fixtures::{limit_request, ticket};
use crate::testing::{NOON, Site, Visitor};
use crate::tests::hostile::forged;
use crate::tests::{HtmlPage, cookie, get, post};
use http::StatusCode;
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_store::{LimitRequestId, Project, Role, TenantChange, TicketId, fresh_id};
use std::time::Duration;

pub(crate) struct OperatorFixture {
    pub(crate) site: Site,
    pub(crate) operator: Visitor,
    pub(crate) own: String,
    pub(crate) owner: Visitor,
    pub(crate) tenant: TenantId,
    pub(crate) project: ProjectId,
}

impl OperatorFixture {
    pub(crate) async fn named(name: &str) -> Self {
        let site = Site::of("[admin]\nauth_per_minute = 1000\n[admin.challenge]\ndifficulty = 50\n").await;
        let operator = site.operator().await;
        let owner = site.member(Role::Owner).await;
        let own = cookie(&site, &operator);
        let tenant = owner.user.tenant.unwrap();
        let change = TenantChange { name: Some(name.to_owned()), ..TenantChange::default() };
        site.app.store.update_tenant(tenant, &change, NOON).await.unwrap();
        let project = Project::new(ProjectId(fresh_id(NOON)), tenant, name, NOON);
        site.app.store.create_project(&project).await.unwrap();
        OperatorFixture { own, tenant, project: project.id, site, operator, owner }
    }

    pub(crate) async fn get(&self, path: &str) -> HtmlPage {
        get(&self.site, path, &self.own).await
    }

    /// Sends a form as the operator, then advances the clock, because rows of the same time have no order.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> HtmlPage {
        let page = post(&self.site, path, &self.own, fields).await;
        self.site.clock.advance(Duration::from_millis(1));
        page
    }

    /// Records calls of the tenant, which cost `cu` units in total.
    pub(crate) async fn calls(&self, calls: u32, cu: u32) {
        let line = SampleLine { calls, cu, ..item("a") };
        let record = SampleRecord {
            tenant: self.tenant,
            project: self.project,
            chain: "eth",
            ..deed(1, self.site.app.now(), vec![line])
        };
        self.site.app.usage.ship(&SampleShipper::new(self.tenant.0).pack(&[record])).await.unwrap();
    }

    pub(crate) async fn ticket(&self, subject: &str, text: &str) -> TicketId {
        let id = ticket(&self.site, &self.owner, subject, text).await;
        self.site.clock.advance(Duration::from_millis(1));
        id
    }

    /// Requests the premium plan for the tenant.
    pub(crate) async fn request(&self, reason: &str) -> LimitRequestId {
        let id = limit_request(&self.site, &self.owner, reason).await;
        self.site.clock.advance(Duration::from_millis(1));
        id
    }

    pub(crate) async fn assert_operators(&self, path: &str) {
        let shown = self.get(path).await;
        assert_eq!(shown.status, StatusCode::OK, "{path}: {}", shown.text);
        let member = get(&self.site, path, &cookie(&self.site, &self.owner)).await;
        assert_eq!(member.status, StatusCode::NOT_FOUND, "{path}: {}", member.text);
        let (status, place) = {
            let page = get(&self.site, path, "").await;
            (page.status, page.leads_to().1.to_owned())
        };
        assert!(status == StatusCode::SEE_OTHER && place.contains("login"), "{path}: {status} {place}");
    }

    /// Checks that a form is accepted only from operators, and only with its token.
    pub(crate) async fn assert_guarded(&self, path: &str) {
        let bare = forged(&self.site, path, &self.own, &[]).await;
        assert_eq!(bare.status, StatusCode::FORBIDDEN, "{path} without a token: {}", bare.text);
        let member = post(&self.site, path, &cookie(&self.site, &self.owner), &[]).await;
        assert_eq!(member.status, StatusCode::NOT_FOUND, "{path}: {}", member.text);
    }
}
