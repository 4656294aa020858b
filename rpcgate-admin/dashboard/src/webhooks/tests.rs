//! Tests of webhook endpoints as a browser sees them.

use crate::projects::tests::{HOSTILE, ProjectFixture, expect_sound};
use crate::submission_ids::SubmissionIds;
use crate::testing::NOON;
use crate::tests::HtmlPage;
use http::StatusCode;
use http::header::CACHE_CONTROL;
use rpcgate_store::{DeliveryStatus, Webhook};
use std::time::Duration;

impl ProjectFixture {
    async fn endpoints(&self) -> Vec<Webhook> {
        self.site.app.store.webhooks(self.tenant(), self.project).await.unwrap()
    }

    fn endpoint(&self, rest: &str) -> String {
        format!("/webhooks/{}{rest}", self.webhook.id)
    }

    async fn save(&self, fields: &[(&str, &str)]) -> HtmlPage {
        self.post(&self.endpoint("/settings"), fields).await
    }
}

/// Returns the number of secrets that a page shows.
fn shown_secrets(page: &HtmlPage) -> usize {
    let words = page.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("whsec_") && word.len() == 70).count()
}

// Shows (Dashboard).
#[tokio::test]
async fn an_endpoint_is_added_and_its_secret_is_shown_once() {
    let fixture = ProjectFixture::new().await;
    let project = fixture.project.to_string();
    fixture.site.clock.advance(Duration::from_millis(1));
    let fields =
        [("project_id", project.as_str()), ("url", "https://b.example/in"), ("standard_headers", "yes")];
    let made = fixture.post("/webhooks", &fields).await;
    assert_eq!((made.status, made.header(CACHE_CONTROL)), (StatusCode::CREATED, "no-store"), "{}", made.text);
    expect_sound(&made, "the new endpoint");
    assert_eq!(shown_secrets(&made), 1, "{}", made.text);
    for part in
        ["b.example/in", "def is_genuine(", "value=\"Go\"", "/subscriptions\">I have stored the secret"]
    {
        assert!(made.text.contains(part), "{part}: {}", made.text);
    }
    let [_, stored] = &fixture.endpoints().await[..] else { panic!("there are two") };
    assert_eq!((stored.url.as_str(), stored.standard_headers), ("https://b.example/in", true));
    let list = fixture.get("/webhooks").await;
    assert!(list.text.contains(">b.example/in</a>") && shown_secrets(&list) == 0, "{}", list.text);
    assert!(!list.text.contains("token=secret"), "a query may hold a secret: {}", list.text);
    let again = fixture.post(&format!("/webhooks/{}/secret", stored.id), &[]).await;
    assert_eq!(again.status, StatusCode::OK);
    let reloaded =
        crate::tests::get(&fixture.site, &format!("/webhooks/{}/secret", stored.id), &fixture.cookie).await;
    let target = format!("../../webhooks/{}/settings", stored.id);
    assert_eq!(reloaded.leads_to(), (StatusCode::SEE_OTHER, target.as_str()));
}

#[tokio::test]
async fn the_error_of_an_endpoint_is_shown_at_its_field() {
    let fixture = ProjectFixture::new().await;
    let project = fixture.project.to_string();
    for (url, text) in [
        ("", "The address must begin with one of http://, https://."),
        ("ftp://a.example/", "The address must begin with one of http://, https://."),
        ("https://a:b@a.example/", "The address must not contain a user name or a password."),
        ("https://a.example/<script>", "The address is not a URL."),
    ] {
        for path in ["/webhooks".to_owned(), fixture.endpoint("/settings")] {
            let fields = [("project_id", project.as_str()), ("url", url), ("active", "yes")];
            let wrong = fixture.post(&path, &fields).await;
            assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{url}");
            assert!(wrong.text.contains(&format!("<a href=\"#url\">{text}</a>")), "{url}: {}", wrong.text);
            assert!(!wrong.text.contains("<script>"), "{}", wrong.text);
            expect_sound(&wrong, &path);
        }
    }
    let wrong = fixture.post("/webhooks", &[("project_id", ""), ("url", "https://a.example/")]).await;
    assert!(wrong.text.contains("<a href=\"#project_id\">Choose a project.</a>"), "{}", wrong.text);
    assert_eq!(fixture.endpoints().await, std::slice::from_ref(&fixture.webhook));
}

#[tokio::test]
async fn settings_are_changed_where_they_differ() {
    let fixture = ProjectFixture::new().await;
    let url = fixture.webhook.url.clone();
    let saved = fixture.save(&[("url", &url), ("active", "yes"), ("standard_headers", "yes")]).await;
    let target = format!("../../webhooks/{}/settings?done=webhook-saved", fixture.webhook.id);
    assert_eq!(saved.leads_to(), (StatusCode::SEE_OTHER, target.as_str()));
    let stored = &fixture.endpoints().await[0];
    assert!(stored.active && stored.standard_headers);
    let audit = rpcgate_store::AuditSubject::Tenant(fixture.tenant());
    let audit = fixture.site.app.store.audit(audit, 9).await.unwrap();
    let entry = audit.iter().find(|entry| entry.action == "webhook.changed").unwrap();
    assert_eq!(entry.detail, "standard_headers");
    fixture.save(&[("url", &url)]).await;
    let page = fixture.get(&fixture.endpoint("/settings")).await;
    assert!(
        page.text.contains("Switched off")
            && !page.text.contains("id=\"active\" name=\"active\" value=\"yes\" checked")
    );
    fixture.site.app.store.mark_disabled(fixture.webhook.id, NOON).await.unwrap();
    for rest in ["", "/settings"] {
        let page = fixture.get(&fixture.endpoint(rest)).await;
        assert!(
            page.text.contains("Switched off after failures") && page.text.contains("31 Dec 2026, 12:00 UTC")
        );
    }
    assert!(fixture.get("/webhooks").await.text.contains("class=\"badge bad\">Switched off after failures"));
}

// Shows (Dashboard).
#[tokio::test]
async fn a_secret_is_replaced_with_an_overlap() {
    let fixture = ProjectFixture::new().await;
    let path = fixture.endpoint("/secret");
    let wrong = fixture.post(&path, &[("overlap_hours", "73")]).await;
    assert_eq!((wrong.status, shown_secrets(&wrong)), (StatusCode::BAD_REQUEST, 0));
    assert!(wrong.text.contains("<title>Not replaced: "), "{}", wrong.text);
    assert!(
        wrong.text.contains("<a href=\"#overlap_hours\">The overlap must be at most 72.</a>"),
        "{}",
        wrong.text
    );
    let replaced = fixture.post(&path, &[("overlap_hours", "24")]).await;
    assert_eq!((replaced.status, replaced.header(CACHE_CONTROL)), (StatusCode::OK, "no-store"));
    assert_eq!(shown_secrets(&replaced), 1);
    assert!(replaced.text.contains("1 Jan 2027, 12:00 UTC") && replaced.text.contains("X-Signature-Next"));
    let settings = fixture.get(&fixture.endpoint("/settings")).await;
    assert!(settings.text.contains("Two secrets sign until <time"), "{}", settings.text);
    assert_eq!(shown_secrets(&settings), 0);
    let alone = fixture.post(&path, &[("overlap_hours", "0")]).await;
    assert!(alone.text.contains("Only the new secret signs from now on."), "{}", alone.text);
    assert_eq!(fixture.endpoints().await[0].next_secret, None);
}

#[tokio::test]
async fn a_test_event_leads_to_its_delivery() {
    let fixture = ProjectFixture::new().await;
    let sent = fixture.post(&fixture.endpoint("/test"), &[]).await;
    let (status, target) = sent.leads_to();
    assert_eq!(status, StatusCode::SEE_OTHER, "{}", sent.text);
    let path = target.trim_start_matches("../").to_owned();
    assert!(path.starts_with("deliveries/") && path.ends_with("?done=test-event-sent"), "{path}");
    let page = fixture.get(&format!("/{path}")).await;
    for part in
        ["A test event is on its way", ">test</span>", "No attempt has ended yet.", "&#34;test&#34;:true"]
    {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let url = fixture.webhook.url.clone();
    fixture.save(&[("url", &url)]).await;
    let refused = fixture.post(&fixture.endpoint("/test"), &[]).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(refused.text.contains("The webhook is switched off: switch it on first."), "{}", refused.text);
}

#[tokio::test]
async fn a_range_is_replayed_and_an_empty_one_is_reported() {
    let fixture = ProjectFixture::new().await;
    let path = fixture.endpoint("/replay");
    let replay = async |from: &str, to: &str| fixture.post(&path, &[("from", from), ("to", to)]).await;
    for (from, to, field, text) in [
        ("", "2026-12-31T13:00", "from", "Enter a time, such as 2026-11-19T14:26, in UTC."),
        ("2026-12-31T13:00", "soon", "to", "Enter a time, such as 2026-11-19T14:26, in UTC."),
        ("2026-12-31T13:00", "2026-12-31T12:00", "to", "The end must be later than the begin."),
    ] {
        let wrong = replay(from, to).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
        assert!(
            wrong.text.contains(&format!("<a href=\"#{field}\">{text}</a>")),
            "{from} {to}: {}",
            wrong.text
        );
        assert!(wrong.text.contains(&format!("value=\"{to}\"")), "{}", wrong.text);
    }
    let once = SubmissionIds::of_page(NOON).next();
    let early = [("from", "2026-12-30T12:00"), ("to", "2026-12-31T11:00"), ("once", once.as_str())];
    for _ in 0..2 {
        let empty = fixture.post(&path, &early).await;
        assert_eq!(empty.status, StatusCode::OK, "a second click gets the same page");
        assert!(empty.text.contains("Nothing was sent to this endpoint in that time."), "{}", empty.text);
    }
    let done = replay("2026-12-31T12:00", "2026-12-31T12:01").await;
    let target = format!("../../webhooks/{}?done=replay-begun", fixture.webhook.id);
    assert_eq!(done.leads_to(), (StatusCode::SEE_OTHER, target.as_str()));
    fixture.site.app.store.make_all_replays(fixture.site.app.now()).await;
    let all =
        fixture.site.app.store.deliveries(fixture.tenant(), fixture.webhook.id, None, None, 9).await.unwrap();
    let replayed: Vec<_> =
        all.iter().filter(|one| one.replay && one.status == DeliveryStatus::Pending).collect();
    assert_eq!((all.len(), replayed.len()), (2, 1));
    let page = fixture.get(&fixture.endpoint("")).await;
    assert!(page.text.contains("<span class=\"tag\">replay</span>"), "{}", page.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn an_endpoint_in_use_is_deleted_by_its_name() {
    let fixture = ProjectFixture::of("in").await;
    let path = fixture.endpoint("/delete");
    let question = fixture.get(&path).await;
    for part in [
        "<h1>Delete hooks.example/in?</h1>",
        "This endpoint is in use: 0 of 1 deliveries of the last 24 hours have arrived.",
        "No deliveries are waiting.",
        "Type <b>hooks.example/in</b> to confirm",
    ] {
        assert!(question.text.contains(part), "{part}: {}", question.text);
    }
    assert_eq!(fixture.post(&path, &[("confirm", "hooks")]).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(fixture.endpoints().await.len(), 1);
    let done = fixture.post(&path, &[("confirm", "hooks.example/in")]).await;
    assert_eq!(done.leads_to(), (StatusCode::SEE_OTHER, "../../webhooks?done=webhook-deleted"));
    assert!(fixture.endpoints().await.is_empty());
    let empty = fixture.get("/webhooks").await;
    assert!(empty.text.contains("No webhooks yet") && empty.text.contains("href=\"#new\""), "{}", empty.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_hostile_address_is_text_on_the_page_of_the_secret() {
    for text in HOSTILE {
        let fixture = ProjectFixture::of(text).await;
        let page = fixture.post(&fixture.endpoint("/secret"), &[("overlap_hours", "0")]).await;
        assert_eq!((page.status, shown_secrets(&page)), (StatusCode::OK, 1), "{}", page.text);
        expect_sound(&page, text);
    }
}
