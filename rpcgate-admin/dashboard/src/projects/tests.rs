//! Tests of projects as a browser sees them, and of rules for all pages of projects, chains and webhooks: the roles
//! that may open them, the fields that their forms need, and the escaping of stored texts.

use crate::testing::{NOON, Site, Visitor};
use crate::tests::{HtmlPage, attributes, cookie, get, post, sent};
use http::StatusCode;
use http::header::CACHE_CONTROL;
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::event::EventType;
use rpcgate_core::secret::KeyHash;
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_store::{
    ChainEventId, DeliveryId, DeliveryStatus, Key, LoggedEvent, Project, Role, SubscriptionId, Webhook,
    WebhookId, WebhookSubscription, fresh_id,
};
use std::sync::Mutex;
use std::time::Duration;

/// Texts that become markup or code if they are not escaped.
pub(crate) const HOSTILE: [&str; 8] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' autofocus onfocus='alert(1)",
    "</title><svg/onload=alert(1)>",
    "</textarea><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}<b>",
    "&lt;script&gt;alert(1)",
];

pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars() {
        match letter {
            '&' => shown.push_str("&#38;"),
            '<' => shown.push_str("&#60;"),
            '>' => shown.push_str("&#62;"),
            '"' => shown.push_str("&#34;"),
            '\'' => shown.push_str("&#39;"),
            other => shown.push(other),
        }
    }
    shown
}

/// A tenant with a project that has a key, an endpoint, a subscription and a failed delivery.
pub(crate) struct ProjectFixture {
    pub(crate) site: Site,
    pub(crate) owner: Visitor,
    pub(crate) cookie: String,
    pub(crate) project: ProjectId,
    pub(crate) key: KeyId,
    pub(crate) webhook: Webhook,
    pub(crate) subscription: SubscriptionId,
    pub(crate) delivery: DeliveryId,
    sender: Mutex<SampleShipper>,
}

impl ProjectFixture {
    pub(crate) async fn new() -> Self {
        ProjectFixture::of("Checkout").await
    }

    /// Makes a fixture with `text` in everything that has a text.
    pub(crate) async fn of(text: &str) -> Self {
        let site = Site::of(
            "[admin]\nauth_per_minute = 1000\n[chains.eth]\nnodes = [\"http://127.0.0.1:1/\"]\n[plans.free]\nprojects = 30\n\
             keys_per_project = 30\nwebhooks_per_project = 30\nsubscriptions_per_webhook = 30\n",
        )
        .await;
        let owner = site.member(Role::Owner).await;
        let tenant = owner.user.tenant.unwrap();
        let project = Project {
            blocked_methods: vec![text.replace(' ', "_")],
            ..Project::new(ProjectId(fresh_id(NOON)), tenant, text, NOON)
        };
        site.app.store.create_project(&project).await.unwrap();
        let key = key_of(project.id, text);
        site.app.store.create_key(&key, NOON).await.unwrap();
        let webhook = Webhook {
            id: WebhookId(fresh_id(NOON)),
            project: project.id,
            url: format!("https://hooks.example/{}?token=secret", text.replace(['?', '#'], "")),
            secret: vec![1],
            next_secret: None,
            active: true,
            standard_headers: false,
            failing_since: None,
            disabled_at: None,
            created_at: NOON,
            updated_at: NOON,
        };
        site.app.store.create_webhook(tenant, &webhook, NOON).await.unwrap();
        let filter = serde_json::json!({text: text, "number": 5}).as_object().cloned();
        let subscription = WebhookSubscription {
            id: SubscriptionId(fresh_id(NOON)),
            webhook: webhook.id,
            chain: "eth".into(),
            kind: EventType::TokenTransfer,
            filter,
            confirmations: 0,
            created_at: NOON,
        };
        site.app.store.create_subscription(tenant, &subscription, NOON).await.unwrap();
        let event = LoggedEvent {
            id: ChainEventId(fresh_id(NOON)),
            chain: "eth".into(),
            kind: EventType::TokenTransfer,
            block_num: 26_452_218,
            block_hash: text.into(),
            removed: false,
            body: serde_json::json!({"data": text}).to_string().into_bytes(),
            created_at: NOON,
        };
        let delivery = DeliveryId(fresh_id(NOON));
        site.app.store.log_event(&webhook, (delivery, DeliveryStatus::Failed), &event).await.unwrap();
        for at in [0, 3] {
            let at = NOON.plus(Duration::from_secs(at));
            let failure = (Some(503), text, text.as_bytes());
            site.app.store.failed_attempt(delivery, failure, at).await.unwrap();
        }
        let cookie = cookie(&site, &owner);
        ProjectFixture {
            cookie,
            owner,
            project: project.id,
            key: key.id,
            webhook,
            subscription: subscription.id,
            delivery,
            sender: Mutex::new(SampleShipper::new(1)),
            site,
        }
    }

    pub(crate) fn tenant(&self) -> TenantId {
        self.owner.user.tenant.unwrap()
    }

    /// Opens the page at `path`, which must exist.
    pub(crate) async fn get(&self, path: &str) -> HtmlPage {
        let page = get(&self.site, path, &self.cookie).await;
        assert_eq!(page.status, StatusCode::OK, "{path} {}", page.text);
        page
    }

    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> HtmlPage {
        post(&self.site, path, &self.cookie, fields).await
    }

    /// Records calls of the key, `back` hours ago.
    pub(crate) async fn call(&self, back: u64, calls: u32) {
        let calls = SampleLine { calls, ..item("eth_blockNumber") };
        let record = SampleRecord {
            tenant: self.tenant(),
            project: self.project,
            key: self.key,
            chain: "eth",
            ..deed(1, Time::from_secs(NOON.secs() - back * 3_600), vec![calls])
        };
        let shipment = self.sender.lock().unwrap().pack(&[record]);
        self.site.app.usage.ship(&shipment).await.unwrap();
    }

    fn read(&self) -> Vec<String> {
        let ProjectFixture { project, delivery, webhook: Webhook { id: webhook, .. }, .. } = self;
        vec![
            "/projects".into(),
            format!("/projects/{project}"),
            format!("/projects/{project}?show=ended"),
            format!("/projects/{project}/keys"),
            format!("/projects/{project}/limits"),
            format!("/projects/{project}/settings"),
            format!("/projects/{project}/events"),
            "/chains".into(),
            "/chains/eth".into(),
            "/webhooks".into(),
            format!("/webhooks?project_id={project}"),
            format!("/webhooks/{webhook}"),
            format!("/webhooks/{webhook}/subscriptions"),
            format!("/webhooks/{webhook}/settings"),
            format!("/deliveries/{delivery}"),
        ]
    }

    /// The pages that need a permission for changes.
    fn manage(&self) -> Vec<String> {
        let ProjectFixture { project, key, subscription, webhook: Webhook { id: webhook, .. }, .. } = self;
        vec![
            format!("/projects/{project}/delete"),
            format!("/projects/{project}/keys/{key}/revoke"),
            format!("/webhooks/{webhook}/replay"),
            format!("/webhooks/{webhook}/delete"),
            format!("/webhooks/{webhook}/subscriptions/{subscription}/delete"),
        ]
    }

    fn forms(&self) -> Vec<String> {
        let ProjectFixture { project, delivery, webhook: Webhook { id: webhook, .. }, .. } = self;
        let mut forms = self.manage();
        forms.extend([
            "/projects".into(),
            format!("/projects/{project}/settings"),
            format!("/projects/{project}/limits"),
            format!("/projects/{project}/keys"),
            "/webhooks".into(),
            format!("/webhooks/{webhook}/settings"),
            format!("/webhooks/{webhook}/secret"),
            format!("/webhooks/{webhook}/test"),
            format!("/webhooks/{webhook}/subscriptions"),
            format!("/deliveries/{delivery}/retry"),
        ]);
        forms
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("name", "Changed".into()),
            ("description", "changed".into()),
            ("project_id", self.project.to_string()),
            ("url", "https://changed.example/".into()),
            ("chain", "eth".into()),
            ("event_type", "new_block".into()),
            ("from", "2026-12-31T11:00".into()),
            ("to", "2026-12-31T13:00".into()),
            ("confirm", "Checkout".into()),
        ]
    }

    async fn expect_unchanged(&self) {
        let tenant = self.tenant();
        let store = &self.site.app.store;
        let [project] = &store.projects(tenant).await.unwrap()[..] else { panic!("there is one project") };
        assert_eq!((project.name.as_str(), project.blocked_methods.len()), ("Checkout", 1));
        let [key] = &store.keys(tenant, self.project).await.unwrap()[..] else { panic!("there is one key") };
        assert_eq!(key.revoked_at, None);
        assert_eq!(store.webhooks(tenant, self.project).await.unwrap(), std::slice::from_ref(&self.webhook));
        assert_eq!(store.subscriptions(tenant, self.webhook.id, None, 9).await.unwrap().len(), 1);
        let deliveries = store.deliveries(tenant, self.webhook.id, None, None, 9).await.unwrap();
        assert_eq!((deliveries.len(), deliveries[0].status), (1, DeliveryStatus::Failed));
    }
}

fn key_of(project: ProjectId, description: &str) -> Key {
    Key {
        description: description.into(),
        ..Key::new(KeyId(fresh_id(NOON)), project, "rpcg_0123456", KeyHash::of(description), NOON)
    }
}

/// Checks the rules for every page: it loads nothing foreign, no cache stores it, its links stay below the root, its
/// fields have labels, and each of its forms that posts has a token.
pub(crate) fn expect_sound(page: &HtmlPage, path: &str) {
    let text = &page.text;
    assert_eq!(page.header(CACHE_CONTROL), "no-store", "{path}");
    for stray in [" style=", " onclick=", " onload=", "<style", "href=\"javascript:"] {
        assert!(!text.contains(stray), "{path}: {stray}");
    }
    assert_eq!(text.matches("<script").count(), text.matches("<script src=\"").count(), "{path}");
    assert_eq!(text.matches("<h1").count(), 1, "{path}");
    for link in ["href", "src", "action"].map(|name| attributes(text, name)).concat() {
        assert!(!link.starts_with('/') && !link.contains(':'), "{path}: {link} does not stay below us");
    }
    let ids = attributes(text, "id");
    for (at, id) in ids.iter().enumerate() {
        assert!(!ids[..at].contains(id), "{path}: {id} is there twice");
    }
    for name in ["for", "aria-labelledby", "aria-describedby"] {
        for field in attributes(text, name).iter().flat_map(|names| names.split(' ')) {
            assert!(ids.contains(&field), "{path}: {name} {field}");
        }
    }
    let forms = text
        .split("<form")
        .skip(1)
        .filter(|form| form.split('>').next().unwrap().contains("method=\"post\""));
    for form in forms {
        assert!(form.split("</form>").next().unwrap().contains("name=\"csrf\""), "{path}: {form}");
    }
}

// Shows (Dashboard): Pages of projects, chains and webhooks open only for their roles, forms of others change nothing,
// and resources of another tenant do not exist.
#[tokio::test]
async fn each_role_opens_only_its_pages() {
    let fixture = ProjectFixture::new().await;
    for role in Role::ALL {
        let visitor = fixture.site.visitor(Some(fixture.tenant()), role).await;
        let own = cookie(&fixture.site, &visitor);
        let manages = matches!(role, Role::Developer | Role::Admin | Role::Owner);
        for path in fixture.read() {
            let page = get(&fixture.site, &path, &own).await;
            assert_eq!(page.status, StatusCode::OK, "{role:?} {path} {}", page.text);
            expect_sound(&page, &path);
            let offers =
                ["/delete\"", "/revoke\"", "Create the ", "Save the ", "Send a test event", "Send again"];
            let is_offered = offers.iter().any(|offer| page.text.contains(offer));
            assert!(manages || !is_offered, "{role:?} {path} offers what it refuses: {}", page.text);
        }
        for path in fixture.manage() {
            let page = get(&fixture.site, &path, &own).await;
            let expected = if manages { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(page.status, expected, "{role:?} {path} {}", page.text);
            expect_sound(&page, &path);
        }
        if manages {
            let made = post(&fixture.site, "/projects", &own, &[("name", "One")]).await;
            assert_eq!(made.status, StatusCode::SEE_OTHER, "{role:?} {}", made.text);
        }
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn forms_of_others_change_nothing() {
    let fixture = ProjectFixture::new().await;
    let site = &fixture.site;
    let tenant = fixture.tenant();
    let viewer = cookie(site, &site.visitor(Some(tenant), Role::Viewer).await);
    let billing = cookie(site, &site.visitor(Some(tenant), Role::Billing).await);
    let operator = cookie(site, &site.operator().await);
    let outsider = cookie(site, &site.member(Role::Owner).await);
    let fields = fixture.fields();
    let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for path in fixture.forms() {
        for refused in [&viewer, &billing] {
            assert_eq!(post(site, &path, refused, &fields).await.status, StatusCode::FORBIDDEN, "{path}");
        }
        assert_eq!(post(site, &path, &operator, &fields).await.status, StatusCode::NOT_FOUND, "{path}");
        // The project in the form or in the address belongs to another tenant.
        if path != "/projects" {
            assert_eq!(post(site, &path, &outsider, &fields).await.status, StatusCode::NOT_FOUND, "{path}");
        }
        let without_token = sent(site, &path, &fixture.cookie, fields.clone()).await;
        assert_eq!(without_token.status, StatusCode::FORBIDDEN, "{path}");
        let foreign_token = crate::tests::form_token(site, &viewer);
        let mut with_foreign = fields.clone();
        with_foreign.push(("csrf", &foreign_token));
        assert_eq!(
            sent(site, &path, &fixture.cookie, with_foreign).await.status,
            StatusCode::FORBIDDEN,
            "{path}"
        );
        let nobody = post(site, &path, "", &fields).await;
        assert_eq!(nobody.status, StatusCode::SEE_OTHER, "{path}");
        let target = nobody.leads_to().1;
        assert!(target.contains("login?next=") && target.ends_with("&done=session-over"), "{path}: {target}");
    }
    fixture.expect_unchanged().await;
}

// Shows (Dashboard).
#[tokio::test]
async fn resources_of_other_tenants_are_not_found() {
    let fixture = ProjectFixture::new().await;
    let site = &fixture.site;
    let outsider = cookie(site, &site.member(Role::Owner).await);
    let operator = cookie(site, &site.operator().await);
    for path in fixture.read().into_iter().chain(fixture.manage()) {
        assert_eq!(get(site, &path, &operator).await.status, StatusCode::NOT_FOUND, "{path}");
        let nobody = get(site, &path, "").await;
        assert_eq!(nobody.status, StatusCode::SEE_OTHER, "{path}");
        assert!(nobody.leads_to().1.contains("login"), "{path}");
        if !["/projects", "/chains", "/chains/eth", "/webhooks"].contains(&path.as_str()) {
            let page = get(site, &path, &outsider).await;
            assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
            assert!(!page.text.contains("Checkout"), "{path}");
        }
    }
    let other = ProjectId(fresh_id(NOON));
    for path in [
        "/projects/x".to_owned(),
        format!("/projects/{other}"),
        format!("/projects/{other}/keys/{}/revoke", fixture.key),
        format!("/projects/{}/keys/{}/revoke", fixture.project, KeyId(7)),
        "/webhooks/x".into(),
        "/webhooks?project_id=x".into(),
        format!("/webhooks/{}/subscriptions/{}/delete", fixture.webhook.id, SubscriptionId(7)),
        "/deliveries/x".into(),
        "/chains/ethereum".into(),
        "/chains/%3Cscript%3E".into(),
    ] {
        assert_eq!(get(site, &path, &fixture.cookie).await.status, StatusCode::NOT_FOUND, "{path}");
    }
}

// Shows (Dashboard): Stored and typed texts of projects, keys, webhooks, subscriptions and deliveries are never markup
// (promise 41).
#[tokio::test]
async fn stored_texts_stay_texts_on_every_page() {
    for text in HOSTILE {
        let fixture = ProjectFixture::of(text).await;
        let mut seen = 0;
        for path in fixture.read().into_iter().chain(fixture.manage()) {
            let page = fixture.get(&path).await;
            expect_sound(&page, &path);
            let shown = escaped(text);
            assert!(shown == text || !page.text.contains(text), "{path} {text}: {}", page.text);
            seen += usize::from(page.text.contains(&shown));
        }
        assert!(seen > 12, "{text} is shown on {seen} pages");
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn typed_texts_come_back_as_texts() {
    let fixture = ProjectFixture::new().await;
    let project = fixture.project;
    let webhook = fixture.webhook.id;
    for text in HOSTILE {
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(
                ["q", "chain", "event_type", "from", "to", "status", "show", "cursor", "page"]
                    .map(|name| (name, text)),
            )
            .finish();
        for path in [
            format!("/projects?{query}"),
            format!("/projects/{project}?{query}"),
            format!("/projects/{project}/events?{query}"),
            format!("/chains?{query}"),
            format!("/chains/eth?{query}"),
            format!("/webhooks?{query}"),
            format!("/webhooks/{webhook}?{query}"),
            format!("/webhooks/{webhook}/replay?{query}"),
        ] {
            let page = get(&fixture.site, &path, &fixture.cookie).await;
            assert!(
                page.status.is_success() || page.status == StatusCode::BAD_REQUEST,
                "{path} {}",
                page.status
            );
            expect_sound(&page, &path);
            assert!(escaped(text) == text || !page.text.contains(text), "{path}: {}", page.text);
        }
        let long = format!("{text}{}", "x".repeat(300));
        let fields = [
            "description",
            "chains",
            "expires_in",
            "expires_at",
            "filter",
            "confirmations",
            "url",
            "confirm",
            "overlap_hours",
        ];
        let mut fields: Vec<_> = fields.into_iter().map(|name| (name, long.as_str())).collect();
        fields.push(("name", &long));
        let id = project.to_string();
        fields.push(("project_id", &id));
        fixture.call(1, 1).await;
        for path in [
            "/projects".to_owned(),
            format!("/projects/{project}/settings"),
            format!("/projects/{project}/delete"),
            format!("/projects/{project}/keys"),
            format!("/projects/{project}/keys/{}/revoke", fixture.key),
            "/webhooks".into(),
            format!("/webhooks/{webhook}/settings"),
            format!("/webhooks/{webhook}/secret"),
            format!("/webhooks/{webhook}/subscriptions"),
            format!("/webhooks/{webhook}/replay"),
            format!("/webhooks/{webhook}/delete"),
        ] {
            let page = fixture.post(&path, &fields).await;
            assert_eq!(page.status, StatusCode::BAD_REQUEST, "{path} {}", page.text);
            expect_sound(&page, &path);
            assert!(
                page.text.contains("role=\"alert\"") && page.text.contains("<title>Not "),
                "{path} {}",
                page.text
            );
            assert!(escaped(text) == text || !page.text.contains(text), "{path}: {}", page.text);
        }
    }
    fixture.expect_unchanged().await;
}

#[tokio::test]
async fn a_project_is_created_renamed_and_deleted() {
    let fixture = ProjectFixture::new().await;
    let wrong = fixture.post("/projects", &[("name", " ")]).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    for part in [
        "<title>Not created: Projects",
        "<a href=\"#name\">The name must not be empty.</a>",
        "aria-invalid=\"true\" aria-describedby=\"name-hint name-error\"",
    ] {
        assert!(wrong.text.contains(part), "{part}: {}", wrong.text);
    }
    let made = fixture.post("/projects", &[("name", " Second ")]).await;
    let (status, target) = made.leads_to();
    assert_eq!(status, StatusCode::SEE_OTHER);
    assert!(target.starts_with("projects/") && target.ends_with("?done=project-created"), "{target}");
    let page = fixture.get(&format!("/{target}")).await;
    assert!(
        page.text.contains("The project is created.") && page.text.contains("No API key yet"),
        "{}",
        page.text
    );
    let path = format!("/{}", target.split('?').next().unwrap());

    let renamed = fixture.post(&format!("{path}/settings"), &[("name", "Third")]).await;
    assert_eq!(renamed.status, StatusCode::SEE_OTHER);
    let list = fixture.get("/projects").await;
    assert!(list.text.contains(">Third</a>") && !list.text.contains("Second"), "{}", list.text);
    assert!(list.text.contains("2 of 30 that your plan allows"), "{}", list.text);

    let question = fixture.get(&format!("{path}/delete")).await;
    assert!(!question.text.contains("name=\"confirm\""), "it is not in use: {}", question.text);
    let deleted = fixture.post(&format!("{path}/delete"), &[]).await;
    assert_eq!(deleted.leads_to(), (StatusCode::SEE_OTHER, "../../projects?done=project-deleted"));
    assert!(!fixture.get("/projects").await.text.contains("Third"));
}

// Shows (Dashboard): A resource in use is ended only by its name, and the page shows how much it is used.
#[tokio::test]
async fn the_name_of_a_project_in_use_is_typed_before_it_is_deleted() {
    let fixture = ProjectFixture::new().await;
    fixture.call(2, 1_234).await;
    fixture.call(20 * 24, 1_000).await;
    let path = format!("/projects/{}/delete", fixture.project);
    let question = fixture.get(&path).await;
    for part in [
        "<h1>Delete Checkout?</h1>",
        "This project is in use: 1,234 requests in the last 7 days, 2,234 requests in the last 30, the newest in the \
         hour from 31 Dec 2026, 10:00 UTC.",
        "Its API key is revoked",
        "Its webhook is deleted",
        "Type <b>Checkout</b> to confirm",
    ] {
        assert!(question.text.contains(part), "{part}: {}", question.text);
    }
    for typed in ["", "checkout", "Checkout!"] {
        let page = fixture.post(&path, &[("confirm", typed)]).await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{typed}");
        assert!(page.text.contains("Type Checkout to confirm"), "{}", page.text);
    }
    fixture.expect_unchanged().await;
    let page = fixture.post(&path, &[("confirm", " Checkout ")]).await;
    assert_eq!(page.leads_to(), (StatusCode::SEE_OTHER, "../../projects?done=project-deleted"));
    let store = &fixture.site.app.store;
    assert!(store.project(fixture.tenant(), fixture.project).await.unwrap().is_none());
    assert!(store.key(fixture.tenant(), fixture.key).await.unwrap().unwrap().revoked_at.is_some());
}

#[tokio::test]
async fn the_list_has_the_usage_of_each_project_and_the_plan_bounds_it() {
    let fixture = ProjectFixture::new().await;
    fixture.call(2, 5).await;
    let page = fixture.get("/projects").await;
    assert!(page.text.contains("<td class=\"num\">5</td>"), "{}", page.text);
    assert!(
        page.text.contains("role=\"meter\" aria-label=\"Compute Units of Checkout in 24 hours\""),
        "{}",
        page.text
    );
    assert!(page.text.contains("<small>of 100,000</small>"), "{}", page.text);
    for number in 0..31 {
        let project = Project::new(
            ProjectId(fresh_id(NOON.plus(Duration::from_millis(number)))),
            fixture.tenant(),
            format!("P{number}"),
            NOON.plus(Duration::from_millis(number)),
        );
        let made = fixture.site.app.store.create_project(&project).await;
        assert_eq!(made.is_ok(), number < 29, "{number}");
    }
    let page = fixture.get("/projects").await;
    assert!(page.text.contains("30 of 30 that your plan allows"), "{}", page.text);
    let full = fixture.post("/projects", &[("name", "One more")]).await;
    assert_eq!(full.status, StatusCode::CONFLICT);
    assert!(full.text.contains("The plan allows 30 "), "{}", full.text);
}
