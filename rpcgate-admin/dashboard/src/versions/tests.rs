use super::*;
use crate::projects::tests::ProjectFixture;
use crate::testing::{NOON, Site};
use crate::tests::{HtmlPage, attributes, cookie, get, post};
use http::StatusCode;
use rpcgate_config::PlanChange;
use rpcgate_core::caller::{CustomPlanId, ProjectId, ProjectQuota};
use rpcgate_core::plan::Tier;
use rpcgate_store::{
    ContractId, CustomPlan, CustomPlanChange, Figures, Project, ProjectChange, Role, TenantChange,
    TenantContract, WebhookChange, fresh_id,
};
use std::pin::Pin;
use std::time::Duration;

/// Returns the version in a page's form for `action`.
fn version_in(page: &HtmlPage, action: &str) -> String {
    let is_it = |form: &&str| {
        attributes(form, "action").first().is_some_and(|to| to.ends_with(action.trim_start_matches('/')))
    };
    let form = page.text.split("<form").skip(1).find(is_it);
    let form = form.unwrap_or_else(|| panic!("no form for {action}: {}", page.text));
    let form = form.split("</form>").next().unwrap();
    let version = form.split("name=\"version\" value=\"").nth(1);
    let version = version.unwrap_or_else(|| panic!("no version for {action}: {form}"));
    version.split('"').next().unwrap().to_owned()
}

type Fields<'f> = &'f [(&'f str, &'f str)];

type Change<'c> = Pin<Box<dyn Future<Output = ()> + 'c>>;

struct OpenForm<'f> {
    site: &'f Site,
    own: &'f str,
    page: &'f str,
    action: &'f str,
    fields: Fields<'f>,
}

impl OpenForm<'_> {
    async fn sent(&self, version: &str) -> HtmlPage {
        let fields = [self.fields, &[(VERSION, version)]].concat();
        post(self.site, self.action, self.own, &fields).await
    }

    /// Checks that the form is refused if `change` happens while it is open, that it then shows each pair of `beside`
    /// (the current and the submitted value), and that it is accepted when it is sent again.
    async fn assert_noticed(&self, change: Change<'_>, beside: Fields<'_>) {
        let OpenForm { site, own, page, action, .. } = self;
        let opened = get(site, page, own).await;
        assert_eq!(opened.status, StatusCode::OK, "{page}: {}", opened.text);
        let first = version_in(&opened, action);
        change.await;
        let stale = self.sent(&first).await;
        assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED, "{action}: {}", stale.text);
        assert!(stale.text.contains("This was changed after you had opened it"), "{action}: {}", stale.text);
        for (now, sent) in beside {
            let row = format!("<td>{now}</td><td>{sent}</td>");
            assert!(stale.text.contains(&row), "{action}: {row}: {}", stale.text);
        }
        let fresh = version_in(&stale, action);
        assert_ne!(fresh, first, "{action}");
        let done = self.sent(&fresh).await;
        assert_eq!(done.status, StatusCode::SEE_OTHER, "{action}: {}", done.text);
        site.clock.advance(Duration::from_millis(1));
    }
}

// Shows (Dashboard): A form that was opened before another user's change does not undo it: it shows the current values
// next to the submitted ones, and can be sent again.
#[tokio::test]
async fn a_form_of_a_member_notices_a_concurrent_change() {
    let fixture = ProjectFixture::new().await;
    let site = &fixture.site;
    let store = &fixture.site.app.store;
    let tenant = fixture.tenant();
    let project = fixture.project;
    let webhook = fixture.webhook.id;
    let me = fixture.owner.user.id;
    let form =
        async |page: &str, action: &str, fields: Fields<'_>, change: Change<'_>, beside: Fields<'_>| {
            OpenForm { site, own: &fixture.cookie, page, action, fields }
                .assert_noticed(change, beside)
                .await;
        };
    let change_project = |change: ProjectChange| {
        Box::pin(async move { drop(store.update_project(tenant, project, &change, NOON).await.unwrap()) })
    };
    let rename_tenant = |name: &str| {
        let change = TenantChange { name: Some(name.to_owned()), ..TenantChange::default() };
        Box::pin(async move { drop(store.update_tenant(tenant, &change, NOON).await.unwrap()) })
    };
    let change_webhook = |change: WebhookChange| {
        Box::pin(async move { drop(store.update_webhook(tenant, webhook, &change, NOON).await.unwrap()) })
    };
    let rename_user =
        |id, name: &'static str| Box::pin(async move { store.rename_user(id, name).await.unwrap() });

    let path = format!("/projects/{project}/settings");
    let theirs = ProjectChange { name: Some("Theirs".into()), ..ProjectChange::default() };
    form(&path, &path, &[("name", "Mine")], change_project(theirs), &[("Theirs", "Mine")]).await;

    let path = format!("/projects/{project}/limits");
    let theirs = ProjectChange { allowed_methods: Some(vec!["eth_call".into()]), ..ProjectChange::default() };
    let fields = [("allowed_methods", "eth_getLogs\r\neth_gasPrice"), ("blocked_methods", "")];
    let beside = [("eth_call", "eth_getLogs\neth_gasPrice"), ("Checkout", "–")];
    form(&path, &path, &fields, change_project(theirs), &beside).await;

    let path = format!("/webhooks/{webhook}/settings");
    let theirs =
        WebhookChange { url: Some("https://hooks.example/theirs".into()), ..WebhookChange::default() };
    let fields = [("url", "https://hooks.example/mine"), ("active", "yes"), ("standard_headers", "yes")];
    let beside = [("https://hooks.example/theirs", "https://hooks.example/mine"), ("no", "yes")];
    form(&path, &path, &fields, change_webhook(theirs), &beside).await;

    let member = site.visitor(Some(tenant), Role::Developer).await.user.id;
    let action = format!("/team/members/{member}/role");
    let theirs = rename_user(member, "Theirs");
    form("/team", &action, &[("role", "admin")], theirs, &[("developer", "admin")]).await;

    let theirs = rename_tenant("Theirs");
    form("/team", "/team/name", &[("tenant_name", "Mine")], theirs, &[("Theirs", "Mine")]).await;

    let theirs = rename_user(me, "Theirs");
    form("/account", "/account/name", &[("name", "Mine")], theirs, &[("Theirs", "Mine")]).await;

    let path = format!("/team/members/{member}/remove");
    let email = format!("{member}@example.com");
    form(&path, &path, &[("confirm", &email)], rename_user(member, "Again"), &[]).await;

    let path = format!("/webhooks/{webhook}/delete");
    let theirs = WebhookChange { active: Some(false), ..WebhookChange::default() };
    form(&path, &path, &[("confirm", "hooks.example/mine")], change_webhook(theirs), &[]).await;

    let path = format!("/projects/{project}/delete");
    let theirs = ProjectChange { allowed_methods: Some(Vec::new()), ..ProjectChange::default() };
    form(&path, &path, &[("confirm", "Mine")], change_project(theirs), &[]).await;
}

// Shows (Dashboard).
#[tokio::test]
async fn a_form_of_an_operator_notices_a_concurrent_change() {
    let site = Site::of("[chains.eth]\nnodes = [\"http://127.0.0.1:1/\"]\n").await;
    let own = cookie(&site, &site.operator().await);
    let store = &site.app.store;
    let tenant = site.tenant().await;
    let project = Project::new(ProjectId(fresh_id(NOON)), tenant, "Checkout", NOON);
    store.create_project(&project).await.unwrap();
    let contract = TenantContract {
        id: ContractId(fresh_id(NOON)),
        tenant,
        figures: Figures { plan: PlanChange { per_hour: Some(7), ..PlanChange::default() } },
        from: NOON,
        until: None,
        note: String::new(),
        created_at: NOON,
    };
    store.create_contract(&contract, NOON).await.unwrap();
    let plan = CustomPlan {
        id: CustomPlanId(fresh_id(NOON)),
        name: "own".into(),
        base: Tier::Premium,
        is_visible: false,
        figures: Figures::default(),
        created_at: NOON,
    };
    store.create_custom_plan(&plan).await.unwrap();
    let form =
        async |page: &str, action: &str, fields: Fields<'_>, change: Change<'_>, beside: Fields<'_>| {
            OpenForm { site: &site, own: &own, page, action, fields }.assert_noticed(change, beside).await;
        };
    let rename_tenant = |name: &str| {
        let change = TenantChange { name: Some(name.to_owned()), ..TenantChange::default() };
        Box::pin(async move { drop(store.update_tenant(tenant, &change, NOON).await.unwrap()) })
    };
    let rename_plan = |name: &str| {
        let id = plan.id;
        let change = CustomPlanChange { name: Some(name.to_owned()), ..CustomPlanChange::default() };
        Box::pin(async move { drop(store.update_custom_plan(id, &change, NOON).await.unwrap()) })
    };
    let end_contract = |hours: u64| {
        let id = contract.id;
        let end = NOON.plus(Duration::from_secs(hours * 3_600));
        Box::pin(async move { drop(store.set_contract_end(tenant, id, Some(end), NOON).await.unwrap()) })
    };
    let set_weight =
        |cu| Box::pin(async move { store.put_weight("eth", "eth_getLogs", cu, NOON).await.unwrap() });

    let path = "/operator/plans/standard";
    let theirs = Box::pin(async {
        let change = PlanChange { per_day: Some(9), ..PlanChange::default() };
        store.put_plan(Tier::Standard, &change, NOON).await.unwrap();
    });
    let fields = [("per_hour", "7"), ("per_day", "50,000"), ("do", "save")];
    form(path, path, &fields, theirs, &[("2500", "7"), ("9", "50000")]).await;

    let path = format!("/operator/plans/{}", plan.id);
    let fields = [("name", "mine"), ("visibility", "visible"), ("do", "save")];
    let beside = [("theirs", "mine"), ("Only tenants that you move to it", "All tenants")];
    form(&path, &path, &fields, rename_plan("theirs"), &beside).await;
    let path = format!("{path}/delete");
    form(&path, &path, &[], rename_plan("again"), &[]).await;

    let path = format!("/operator/tenants/{tenant}/contracts/{}", contract.id);
    let beside = [("2027-01-01T12:00", "2027-01-31T12:00")];
    form(&path, &path, &[("until", "2027-01-31T12:00")], end_contract(24), &beside).await;
    let path = format!("{path}/end");
    form(&path, &path, &[], end_contract(48), &[]).await;

    let path = "/operator/weights/eth";
    let fields = [("cu-eth_getLogs", "1,000"), ("do", "save")];
    form(path, path, &fields, set_weight(80), &[("80", "1000")]).await;
    let page = format!("{path}/reset?method=eth_getLogs");
    form(&page, "/operator/weights/eth/reset", &[("method", "eth_getLogs")], set_weight(90), &[]).await;

    let path = "/operator/chains/eth/switch";
    let theirs = Box::pin(async { store.switch_chain("eth", false, NOON).await.unwrap() });
    form(path, path, &[("to", "off")], theirs, &[]).await;

    let page = format!("/operator/tenants/{tenant}");
    let action = format!("{page}/plan");
    form(&page, &action, &[("plan", "premium")], rename_tenant("Theirs"), &[]).await;
    let action = format!("{page}/projects/{}/quota", project.id);
    let theirs = Box::pin(async {
        let quota = ProjectQuota { cu_per_day: 5, ..ProjectQuota::default() };
        store.put_quota(project.id, &quota, NOON).await.unwrap();
    });
    form(&page, &action, &[("cu_per_day", "7"), ("do", "save")], theirs, &[("5", "7")]).await;
    let path = format!("{page}/suspend");
    form(&path, &path, &[], rename_tenant("Again"), &[]).await;
    let path = format!("{page}/reactivate");
    form(&path, &path, &[], rename_tenant("Once more"), &[]).await;
    let path = format!("{page}/delete");
    form(&path, &path, &[("confirm", "Last")], rename_tenant("Last"), &[]).await;
}

// Shows (Dashboard).
#[tokio::test]
async fn a_form_that_is_refused_for_another_reason_keeps_its_version() {
    let fixture = ProjectFixture::new().await;
    let path = format!("/projects/{}/settings", fixture.project);
    let first = version_in(&fixture.get(&path).await, &path);
    let theirs = ProjectChange { name: Some("Theirs".into()), ..ProjectChange::default() };
    fixture.site.app.store.update_project(fixture.tenant(), fixture.project, &theirs, NOON).await.unwrap();
    let wrong = fixture.post(&path, &[("name", ""), (VERSION, &first)]).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert_eq!(version_in(&wrong, &path), first, "what was changed meanwhile was not shown yet");
    let stale = fixture.post(&path, &[("name", "Mine"), (VERSION, &first)]).await;
    assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED);
    assert!(stale.text.contains("value=\"Mine\""), "what was typed stays: {}", stale.text);
    let fields = [("per_hour", "7"), ("do", "ask"), (VERSION, "0123")];
    let operator = cookie(&fixture.site, &fixture.site.operator().await);
    let answer = post(&fixture.site, "/operator/plans/standard", &operator, &fields).await;
    assert_eq!(version_in(&answer, "/operator/plans/standard"), "0123", "an answer is about the same form");
}

#[test]
fn an_invalid_version_matches_no_version() {
    let of = |text: &str| condition(&FieldList::of(text).unwrap());
    let version = Version([7; 16]);
    assert_eq!(of(&format!("version={}", FormVersion::from(version))), Some(IfMatch::OneOf(vec![version])));
    assert_eq!(of("name=x"), None);
    assert_eq!(of("version="), None);
    for wrong in ["version=x", "version=07", "version=*", "version=07070707070707070707070707070707ff"] {
        assert_eq!(of(wrong), Some(IfMatch::OneOf(vec![])), "{wrong}");
    }
}
