//! Tests of API keys as a browser sees them.

use crate::projects::tests::{HOSTILE, ProjectFixture, escaped, expect_sound};
use crate::testing::NOON;
use crate::tests::{HtmlPage, attributes, get, newcomer, post, site};
use http::StatusCode;
use http::header::CACHE_CONTROL;
use rpcgate_core::caller::{KeyId, Scope};
use rpcgate_core::clock::Time;
use rpcgate_core::secret::KeyHash;
use rpcgate_store::{Key, TenantChange};
use std::time::Duration;

impl ProjectFixture {
    async fn keys(&self) -> Vec<Key> {
        self.site.app.store.keys(self.tenant(), self.project).await.unwrap()
    }

    async fn newest_key(&self) -> Key {
        self.keys().await.pop().unwrap()
    }

    async fn make(&self, fields: &[(&str, &str)]) -> HtmlPage {
        self.site.clock.advance(Duration::from_millis(1));
        self.post(&format!("/projects/{}/keys", self.project), fields).await
    }
}

fn shown_keys(page: &HtmlPage) -> Vec<String> {
    let words = page.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("rpcg_") && word.len() > 20).map(str::to_owned).collect()
}

// Shows (Dashboard): A new key and a secret of a webhook are shown once, and no cache keeps them.
#[tokio::test]
async fn a_new_key_is_shown_once_with_code_in_five_languages() {
    let fixture = ProjectFixture::new().await;
    let made = fixture.make(&[("description", "refund-service"), ("chains", "eth"), ("chains", "btc")]).await;
    assert_eq!((made.status, made.header(CACHE_CONTROL)), (StatusCode::CREATED, "no-store"));
    expect_sound(&made, "the new key");
    let keys = shown_keys(&made);
    // Once to copy it, and once for each language.
    assert_eq!(keys.len(), 6, "{}", made.text);
    assert!(keys.iter().all(|key| *key == keys[0] && fixture.site.app.forge.is_genuine(key)), "{keys:?}");
    for part in [
        "Your new key: refund-service",
        "<span class=\"tag\">btc</span>",
        "value=\"curl\"",
        "value=\"JavaScript\"",
        "value=\"Python\"",
        "value=\"Go\"",
        "value=\"Rust\"",
        "http://127.0.0.1:8080/eth",
        "id=\"first-call\" data-live",
        "Waiting for the first call",
    ] {
        assert!(made.text.contains(part), "{part}: {}", made.text);
    }
    let stored = fixture.newest_key().await;
    assert_eq!((stored.hash, stored.description.as_str()), (KeyHash::of(&keys[0]), "refund-service"));
    assert_eq!(stored.scope, Scope::Only(["btc".into(), "eth".into()].into()));

    let again = fixture.get(&format!("/projects/{}/keys", fixture.project)).await;
    assert!(shown_keys(&again).is_empty(), "{}", again.text);
    assert!(again.text.contains(&format!("{}…", stored.prefix)) && again.text.contains("YOUR_API_KEY"));
    assert!(again.text.contains("id=\"first-call\" data-live"), "{}", again.text);
    let list = fixture.get(&format!("/projects/{}", fixture.project)).await;
    assert!(shown_keys(&list).is_empty() && list.text.contains("refund-service"), "{}", list.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn the_first_call_of_the_newest_key_is_seen() {
    let fixture = ProjectFixture::new().await;
    let path = format!("/projects/{}/keys", fixture.project);
    assert!(fixture.get(&path).await.text.contains("Waiting for the first call"));
    fixture.call(0, 1).await;
    let page = fixture.get(&path).await;
    assert!(!page.text.contains("Waiting for the first call"), "{}", page.text);
    assert!(
        page.text.contains("<span class=\"id\">eth_blockNumber</span> on eth was answered with 200"),
        "{}",
        page.text
    );
    fixture.call(0, 1).await;
    let page = fixture.get(&path).await;
    assert!(page.text.contains("was answered with 200: 2 calls, "), "{}", page.text);
    let change = TenantChange { suspended: Some(true), ..TenantChange::default() };
    fixture.site.app.store.update_tenant(fixture.tenant(), &change, NOON).await.unwrap();
    let page = fixture.get(&path).await;
    assert!(!page.text.contains("It works within a second"), "{}", page.text);
    assert!(page.text.contains("as soon as your organisation is no longer suspended"), "{}", page.text);
}

#[tokio::test]
async fn the_end_of_a_key_is_chosen() {
    let fixture = ProjectFixture::new().await;
    let day = 86_400;
    for (fields, expected) in [
        ([("expires_in", ""), ("expires_at", "")], None),
        ([("expires_in", ""), ("expires_at", "2027-03-01")], None),
        ([("expires_in", "30"), ("expires_at", "")], Some(NOON.secs() + 30 * day)),
        ([("expires_in", "date"), ("expires_at", "2027-01-01")], Some(NOON.secs() + day / 2)),
    ] {
        let made = fixture.make(&[("description", "x"), fields[0], fields[1]]).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
        let end = fixture.newest_key().await.expires_at.map(Time::secs);
        assert_eq!(end, expected, "{fields:?}");
    }
    let number = fixture.keys().await.len();
    for (choice, date, text) in [
        ("date", "", "Enter a date, such as 2027-01-31."),
        ("date", "soon", "Enter a date, such as 2027-01-31."),
        ("forever", "", "Enter a date, such as 2027-01-31."),
        ("date", "2026-12-31", "The date must be in the future."),
    ] {
        let fields =
            [("description", "<kept>"), ("chains", "btc"), ("expires_in", choice), ("expires_at", date)];
        let wrong = fixture.make(&fields).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{choice} {date}");
        for part in [
            text,
            "<title>Not created: ",
            "<a href=\"#expires_at\">",
            "value=\"&#60;kept&#62;\"",
            "name=\"chains\" value=\"btc\" checked",
        ] {
            assert!(wrong.text.contains(part), "{part}: {}", wrong.text);
        }
        expect_sound(&wrong, "the form");
    }
    let wrong = fixture.make(&[("description", "x"), ("chains", "nosuchchain")]).await;
    assert!(
        wrong.text.contains("<a href=\"#chains\">The list of chains has an unknown chain at position 1.</a>"),
        "{}",
        wrong.text
    );
    assert_eq!(fixture.keys().await.len(), number);
}

#[tokio::test]
async fn an_unconfirmed_user_sees_a_link_to_confirm_the_address_instead_of_the_form() {
    let site = site().await;
    let own = newcomer(&site).await;
    let made = post(&site, "/projects", &own, &[("name", "First")]).await;
    let path = format!("/{}", made.leads_to().1.split('?').next().unwrap());
    let page = get(&site, &path, &own).await;
    assert!(page.text.contains("Confirm your e-mail address first"), "{}", page.text);
    assert!(!page.text.contains("name=\"expires_in\""), "{}", page.text);
    let refused = post(&site, &format!("{path}/keys"), &own, &[("description", "x")]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
    assert!(refused.text.contains("Confirm your e-mail address first"), "{}", refused.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_key_is_revoked_and_its_name_is_typed_if_it_is_in_use() {
    let fixture = ProjectFixture::of("checkout-worker").await;
    let list = format!("/projects/{}", fixture.project);
    let path = format!("{list}/keys/{}/revoke", fixture.key);
    let question = fixture.get(&path).await;
    assert!(
        !question.text.contains("name=\"confirm\"") && !question.text.contains("is in use"),
        "{}",
        question.text
    );
    fixture.call(2, 10_807).await;
    fixture.call(10 * 24, 3).await;
    let question = fixture.get(&path).await;
    for part in [
        "<h1>Revoke checkout-worker?</h1>",
        "This key is in use: 10,807 requests in the last 7 days, 10,810 requests in the last 30",
        "rpcg_0123456…",
        "Type <b>checkout-worker</b> to confirm",
        "class=\"btn destroy\">Revoke the key</button>",
    ] {
        assert!(question.text.contains(part), "{part}: {}", question.text);
    }
    let wrong = fixture.post(&path, &[("confirm", "checkout")]).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(
        wrong.text.contains("<title>Not done: ") && wrong.text.contains("<a href=\"#confirm\">"),
        "{}",
        wrong.text
    );
    assert_eq!(fixture.newest_key().await.revoked_at, None);
    let done = fixture.post(&path, &[("confirm", "checkout-worker")]).await;
    let target = format!("../../../../projects/{}?done=key-revoked", fixture.project);
    assert_eq!(done.leads_to(), (StatusCode::SEE_OTHER, target.as_str()));
    assert_eq!(fixture.newest_key().await.revoked_at, Some(NOON));
    let page = fixture.get(&format!("{list}?done=key-revoked")).await;
    assert!(
        page.text.contains("role=\"status\"") && page.text.contains("The API key is revoked."),
        "{}",
        page.text
    );
    assert!(
        page.text.contains("0 usable, 30 allowed") && page.text.contains("No API key yet"),
        "{}",
        page.text
    );
    let ended = fixture.get(&format!("{list}?show=ended")).await;
    assert!(ended.text.contains("revoked <time") && !ended.text.contains("/revoke\""), "{}", ended.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_key_is_made_and_revoked_while_its_use_cannot_be_read() {
    let fixture = ProjectFixture::of("checkout-worker").await;
    fixture.site.app.usage.close().await;
    let made = fixture.make(&[("description", "refund-service")]).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    assert_eq!(shown_keys(&made).len(), 6, "{}", made.text);

    let projects = fixture.get("/projects").await;
    for part in ["Usage cannot be read at the moment", "1 of 30 that your plan allows"] {
        assert!(projects.text.contains(part), "{part}: {}", projects.text);
    }
    let list = fixture.get(&format!("/projects/{}", fixture.project)).await;
    for part in ["Usage cannot be read at the moment", "refund-service", "2 usable, 30 allowed", "/revoke\""]
    {
        assert!(list.text.contains(part), "{part}: {}", list.text);
    }
    expect_sound(&list, "the keys");
    let path = format!("/projects/{}/keys/{}/revoke", fixture.project, fixture.key);
    let question = fixture.get(&path).await;
    for part in ["The usage of this key cannot be read at the moment.", "Type <b>checkout-worker</b>"] {
        assert!(question.text.contains(part), "{part}: {}", question.text);
    }
    assert_eq!(fixture.post(&path, &[]).await.status, StatusCode::BAD_REQUEST);
    let done = fixture.post(&path, &[("confirm", "checkout-worker")]).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    let stored = fixture.site.app.store.key(fixture.tenant(), fixture.key).await.unwrap().unwrap();
    assert_eq!(stored.revoked_at, Some(fixture.site.app.now()));
}

#[tokio::test]
async fn the_page_of_a_project_lists_the_users_of_each_key() {
    let fixture = ProjectFixture::new().await;
    fixture.call(1, 1_234).await;
    let page = fixture.get(&format!("/projects/{}", fixture.project)).await;
    let usage = format!("../usage?project_id={}&amp;key={}", fixture.project, fixture.key);
    for part in [
        "<dd class=\"big\">1,234</dd>",
        "1 usable, 30 allowed by your plan",
        &format!("<a href=\"{usage}\">1,234</a>"),
        "never</td>",
        "ws://127.0.0.1:8080/ws/eth",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let chains: Vec<_> =
        attributes(&page.text, "value").into_iter().filter(|value| *value == "eth").collect();
    assert_eq!(chains.len(), 1, "the chains to choose from: {}", page.text);
}

#[tokio::test]
async fn a_key_without_a_description_is_named_by_its_prefix() {
    let fixture = ProjectFixture::of("").await;
    let page = fixture.get(&format!("/projects/{}", fixture.project)).await;
    assert!(page.text.contains("aria-label=\"Revoke rpcg_0123456…\""), "{}", page.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn a_hostile_description_is_text_on_the_page_of_the_new_key() {
    let fixture = ProjectFixture::new().await;
    for text in HOSTILE {
        let made = fixture.make(&[("description", text)]).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
        expect_sound(&made, text);
        assert!(made.text.contains(&format!("Your new key: {}", escaped(text))), "{}", made.text);
        assert!(escaped(text) == text || !made.text.contains(text), "{}", made.text);
    }
}

#[tokio::test]
async fn more_keys_than_the_plan_allows_are_refused_with_a_message() {
    let fixture = ProjectFixture::new().await;
    for number in 0..29_u128 {
        let key = Key {
            id: KeyId(number + 1),
            hash: KeyHash::of(&number.to_string()),
            ..fixture.newest_key().await
        };
        fixture.site.app.store.create_key(&key, NOON).await.unwrap();
    }
    let full = fixture.make(&[("description", "x")]).await;
    assert_eq!(full.status, StatusCode::CONFLICT);
    assert!(full.text.contains("The plan allows 30 ") && shown_keys(&full).is_empty(), "{}", full.text);
}
