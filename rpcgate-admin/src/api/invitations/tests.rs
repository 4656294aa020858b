use crate::api::accounts::tests::{PASSWORD, ask, login, post, register, register_confirmed, site, tokens};
use crate::testing::{ApiAnswer, NOON, Site, Visitor};
use http::header::RETRY_AFTER;
use http::{Method, StatusCode};
use rpcgate_management::action::invitations::LIFE;
use rpcgate_store::{AuditSubject, LOCK, Role, User};
use serde_json::{Value, json};
use std::time::Duration;

const INVITED: &str = "guest@example.com";

fn reported(answer: &ApiAnswer) -> (StatusCode, &str) {
    (answer.status, answer.body["error"].as_str().unwrap_or_default())
}

fn path(host: &Visitor) -> String {
    format!("/tenants/{}/invitations", host.user.tenant.unwrap())
}

/// Invites as `host`. The clock advances so that mails and entries have an order.
async fn invite(site: &Site, host: &Visitor, email: &str, role: &str) -> ApiAnswer {
    let body = json!({"email": email, "role": role});
    let answer = ask(site, Some(&host.token), Method::POST, &path(host), Some(body)).await;
    site.clock.advance(Duration::from_millis(1));
    answer
}

async fn open(site: &Site, host: &Visitor) -> Value {
    ask(site, Some(&host.token), Method::GET, &path(host), None).await.body
}

async fn accept(site: &Site, token: &str) -> ApiAnswer {
    post(site, "/auth/invitation", json!({"token": token, "name": " Ada ", "password": PASSWORD})).await
}

/// Returns the sent mails, the oldest first.
fn mails(site: &Site) -> Vec<String> {
    let folder = &site.app.settings.config.admin.mail.outbox;
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

/// Returns the token of the newest mail that has one. Mails of the same millisecond have no order.
fn token(site: &Site) -> String {
    const LINK: &str = "http://127.0.0.1:8081/invitation?token=";
    let mails = mails(site);
    let (_, rest) = mails.iter().rev().find_map(|mail| mail.split_once(LINK)).unwrap();
    rest.lines().next().unwrap().to_owned()
}

async fn user(site: &Site, email: &str) -> Option<User> {
    site.app.store.user_by_email(email).await.unwrap()
}

#[tokio::test]
async fn an_invited_user_joins_with_the_link_in_the_mail() {
    let site = site().await;
    let host = site.member(Role::Admin).await;
    let tenant = host.user.tenant.unwrap();
    let answer = invite(&site, &host, "Guest@Example.com", "developer").await;
    let id = answer.body["id"].as_str().unwrap().to_owned();
    let expected = json!({"id": id, "email": INVITED, "role": "developer", "created_at": "2026-12-31T12:00:00.000Z",
        "expires_at": "2027-01-07T12:00:00.000Z"});
    assert_eq!((answer.status, &answer.body), (StatusCode::CREATED, &expected));
    assert_eq!(open(&site, &host).await, json!([expected]));
    let [mail] = &mails(&site)[..] else { panic!("there must be one mail") };
    assert!(mail.contains("To: guest@example.com\r\n") && mail.contains(&host.user.email), "{mail}");
    assert!(!answer.body.to_string().contains(&token(&site)), "the token is in the mail alone");

    site.clock.set(NOON.plus(LIFE - Duration::from_secs(1)));
    let answer = accept(&site, &token(&site)).await;
    let joined = json!({"email": INVITED, "name": "Ada", "confirmed": true});
    assert_eq!((answer.status, answer.body), (StatusCode::CREATED, joined));
    let made = user(&site, INVITED).await.unwrap();
    assert_eq!((made.tenant, made.role, made.name.as_str()), (Some(tenant), Role::Developer, "Ada"));
    site.clock.advance(Duration::from_secs(1));
    let (access, _) = tokens(&site, INVITED).await;
    let me = ask(&site, Some(&access), Method::GET, "/auth/me", None).await.body;
    assert_eq!((&me["role"], &me["confirmed"]), (&json!("developer"), &json!(true)));
    assert_eq!(me["tenant_id"], tenant.to_string());
    let again = accept(&site, &token(&site)).await;
    assert_eq!(
        reported(&again),
        (StatusCode::BAD_REQUEST, "the token is not valid, was used, or has expired")
    );
    let entries = site.app.store.audit(AuditSubject::Tenant(tenant), 9).await.unwrap();
    let entries: Vec<_> = entries.iter().rev().filter(|entry| entry.action.starts_with("member.")).collect();
    let [invited, joined] = entries[..] else { panic!("{entries:?}") };
    assert_eq!(
        (invited.action.as_str(), invited.user, invited.subject.as_str(), invited.detail.as_str()),
        ("member.invited", Some(host.user.id), id.as_str(), "guest@example.com, developer")
    );
    assert_eq!(
        (joined.action.as_str(), joined.user, joined.subject.as_str()),
        ("member.joined", Some(made.id), made.id.to_string().as_str())
    );
}

#[tokio::test]
async fn an_address_with_an_account_is_answered_like_one_without() {
    let site = site().await;
    register_confirmed(&site, INVITED).await;
    site.clock.advance(Duration::from_millis(1));
    let host = site.member(Role::Owner).await;
    let known = invite(&site, &host, INVITED, "viewer").await;
    let sent = mails(&site).pop().unwrap();
    assert!(sent.contains("To: guest@example.com\r\n") && sent.contains("belongs to an account"), "{sent}");
    assert!(!sent.contains("token="), "{sent}");
    let free = invite(&site, &host, "other@example.com", "viewer").await;
    assert_eq!((known.status, free.status), (StatusCode::CREATED, StatusCode::CREATED));
    let names = |answer: &ApiAnswer| {
        let members = answer.body.as_object().unwrap().keys();
        let headers = answer.headers.keys().map(ToString::to_string);
        members.cloned().chain(headers).collect::<Vec<_>>()
    };
    assert_eq!(names(&known), names(&free));
    assert_eq!(open(&site, &host).await, json!([known.body, free.body]));
    for answer in [known, free] {
        let it = format!("{}/{}", path(&host), answer.body["id"].as_str().unwrap());
        let gone = ask(&site, Some(&host.token), Method::DELETE, &it, None).await;
        assert_eq!(gone.status, StatusCode::NO_CONTENT);
    }
    assert_ne!(user(&site, INVITED).await.unwrap().tenant, host.user.tenant);
}

#[tokio::test]
async fn a_member_is_not_invited() {
    let site = site().await;
    let host = site.member(Role::Owner).await;
    let answer = invite(&site, &host, &host.user.email.to_uppercase(), "viewer").await;
    assert_eq!(
        reported(&answer),
        (StatusCode::CONFLICT, "there is already a member with this e-mail address")
    );
    assert_eq!((open(&site, &host).await, mails(&site).len()), (json!([]), 0));
}

#[tokio::test]
async fn only_the_newest_link_of_an_address_works_and_no_withdrawn_one() {
    let site = site().await;
    let host = site.member(Role::Owner).await;
    let first = invite(&site, &host, INVITED, "owner").await;
    let old = token(&site);
    let second = invite(&site, &host, "GUEST@example.com", "viewer").await;
    let new = token(&site);
    assert_ne!(first.body["id"], second.body["id"]);
    assert_eq!(open(&site, &host).await, json!([second.body]));
    assert_eq!(accept(&site, &old).await.status, StatusCode::BAD_REQUEST);
    let withdraw = async |host: &Visitor, id: &Value| {
        let it = format!("{}/{}", path(host), id.as_str().unwrap());
        let answer = ask(&site, Some(&host.token), Method::DELETE, &it, None).await;
        site.clock.advance(Duration::from_millis(1));
        answer
    };
    let outsider = site.member(Role::Owner).await;
    for (by, id) in [(&host, &first.body["id"]), (&outsider, &second.body["id"])] {
        assert_eq!(reported(&withdraw(by, id).await), (StatusCode::NOT_FOUND, "invitation not found"));
    }
    assert_eq!(withdraw(&host, &second.body["id"]).await.status, StatusCode::NO_CONTENT);
    assert_eq!(withdraw(&host, &second.body["id"]).await.status, StatusCode::NOT_FOUND);
    assert_eq!(accept(&site, &new).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(user(&site, INVITED).await, None);
    let tenant = host.user.tenant.unwrap();
    let [newest, ..] = &site.app.store.audit(AuditSubject::Tenant(tenant), 9).await.unwrap()[..] else {
        panic!()
    };
    assert_eq!((newest.action.as_str(), newest.detail.as_str()), ("invitation.withdrawn", INVITED));
}

#[tokio::test]
async fn a_link_is_valid_for_a_week_and_only_for_its_purpose() {
    let site = site().await;
    let host = site.member(Role::Owner).await;
    invite(&site, &host, INVITED, "viewer").await;
    let good = token(&site);
    for strange in ["", "rpcgi_", &good[..48], &good.replace("rpcgi_", "rpcgc_")] {
        assert_eq!(accept(&site, strange).await.status, StatusCode::BAD_REQUEST, "{strange}");
    }
    assert_eq!(post(&site, "/auth/confirm", json!({"token": good})).await.status, StatusCode::BAD_REQUEST);
    let computed = site.app.passwords.computed();
    site.clock.set(NOON.plus(LIFE));
    assert_eq!(accept(&site, &good).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(site.app.passwords.computed(), computed, "no password is hashed without an invitation");
    assert_eq!(user(&site, INVITED).await, None);
}

#[tokio::test]
async fn an_invalid_acceptance_is_refused_with_the_reason_and_keeps_the_invitation() {
    let site = site().await;
    let host = site.member(Role::Owner).await;
    invite(&site, &host, INVITED, "viewer").await;
    let good = json!({"token": token(&site), "password": PASSWORD});
    for (field, value, text) in [
        ("password", json!("short"), "the password must have at least 10 characters"),
        ("name", json!("a\nb"), "`name` must not contain control characters"),
        ("role", json!("owner"), "unknown field `role`: expected one of `token`, `name`, `password`"),
        (
            "email",
            json!("x@example.com"),
            "unknown field `email`: expected one of `token`, `name`, `password`",
        ),
    ] {
        let mut form = good.clone();
        form[field] = value;
        assert_eq!(reported(&post(&site, "/auth/invitation", form).await), (StatusCode::BAD_REQUEST, text));
    }
    site.clock.advance(Duration::from_millis(1));
    register_confirmed(&site, INVITED).await;
    let taken = post(&site, "/auth/invitation", good.clone()).await;
    assert_eq!(reported(&taken), (StatusCode::CONFLICT, "there is already a user with this e-mail address"));
    assert_ne!(user(&site, INVITED).await.unwrap().tenant, host.user.tenant);
    invite(&site, &host, "b@example.com", "viewer").await;
    let answer = post(&site, "/auth/invitation", json!({"token": token(&site), "password": PASSWORD})).await;
    assert_eq!((answer.status, &answer.body["name"]), (StatusCode::CREATED, &json!("")));
    assert_eq!(login(&site, "b@example.com", PASSWORD).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_user_without_the_permission_to_invite_sends_no_mail() {
    let site = site().await;
    let admin = site.member(Role::Admin).await;
    let refused = (StatusCode::FORBIDDEN, "your role does not permit this");
    assert_eq!(reported(&invite(&site, &admin, INVITED, "owner").await), refused);
    let developer = site.visitor(admin.user.tenant, Role::Developer).await;
    assert_eq!(reported(&invite(&site, &developer, INVITED, "viewer").await), refused);
    for email in ["guest", "a@b.example\r\nBcc: c@d.example", ""] {
        assert_eq!(invite(&site, &admin, email, "viewer").await.status, StatusCode::BAD_REQUEST);
    }
    assert_eq!(invite(&site, &admin, INVITED, "king").await.status, StatusCode::BAD_REQUEST);
    assert_eq!((open(&site, &admin).await, mails(&site).len()), (json!([]), 0));
    assert_eq!(invite(&site, &admin, INVITED, "admin").await.status, StatusCode::CREATED);

    register(&site, "new@example.com").await;
    let (access, _) = tokens(&site, "new@example.com").await;
    let tenant = user(&site, "new@example.com").await.unwrap().tenant.unwrap();
    let body = json!({"email": "b@example.com", "role": "viewer"});
    let path = format!("/tenants/{tenant}/invitations");
    let answer = ask(&site, Some(&access), Method::POST, &path, Some(body)).await;
    let text = "confirm your e-mail address first";
    assert_eq!(reported(&answer), (StatusCode::FORBIDDEN, text));
}

#[tokio::test]
async fn a_hundred_invitations_may_be_open_and_one_more_when_one_is_withdrawn() {
    let site = site().await;
    let host = site.member(Role::Owner).await;
    let mut first = Value::Null;
    for number in 0..100 {
        let answer = invite(&site, &host, &format!("{number}@example.com"), "viewer").await;
        assert_eq!(answer.status, StatusCode::CREATED);
        first = answer.body["id"].clone();
    }
    let answer = invite(&site, &host, INVITED, "viewer").await;
    let text = "a tenant may have 100 open invitations: withdraw one, or wait until one expires";
    assert_eq!(reported(&answer), (StatusCode::CONFLICT, text));
    assert_eq!(mails(&site).len(), 100);
    let it = format!("{}/{}", path(&host), first.as_str().unwrap());
    let gone = ask(&site, Some(&host.token), Method::DELETE, &it, None).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert_eq!(invite(&site, &host, INVITED, "viewer").await.status, StatusCode::CREATED);
    assert_eq!(open(&site, &host).await.as_array().unwrap().len(), 100);
}

#[tokio::test]
async fn invitations_to_one_address_are_limited() {
    let site = site().await;
    let host = site.member(Role::Owner).await;
    for _ in 0..5 {
        assert_eq!(invite(&site, &host, INVITED, "viewer").await.status, StatusCode::CREATED);
    }
    let answer = invite(&site, &host, INVITED, "viewer").await;
    assert_eq!(reported(&answer), (StatusCode::TOO_MANY_REQUESTS, "too many attempts, try again later"));
    let wait: u64 = answer.headers[RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!(wait.abs_diff(LOCK.as_secs()) <= 1, "{wait}");
    assert_eq!(mails(&site).len(), 5);
    assert_eq!(invite(&site, &host, "b@example.com", "viewer").await.status, StatusCode::CREATED);
    assert_eq!(accept(&site, &token(&site)).await.status, StatusCode::CREATED);
}

// Shows (Accounts and second factors): Invitations to one address are bounded across tenants.
#[tokio::test]
async fn an_address_gets_at_most_five_invitations_from_all_senders() {
    let site = site().await;
    let mut answers = Vec::new();
    for _ in 0..4 {
        let host = site.member(Role::Owner).await;
        for _ in 0..3 {
            answers.push(invite(&site, &host, INVITED, "viewer").await.status);
        }
    }
    assert!(answers[..5].iter().all(|status| *status == StatusCode::CREATED), "{answers:?}");
    assert!(answers[5..].iter().all(|status| *status == StatusCode::TOO_MANY_REQUESTS), "{answers:?}");
    assert_eq!(mails(&site).len(), 5);
    site.clock.advance(LOCK);
    let host = site.member(Role::Owner).await;
    assert_eq!(invite(&site, &host, INVITED, "viewer").await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn inviting_and_accepting_count_with_the_attempts_of_a_client() {
    let site = Site::of("[admin]\nauth_per_minute = 3\n").await;
    let host = site.member(Role::Owner).await;
    assert_eq!(invite(&site, &host, INVITED, "viewer").await.status, StatusCode::CREATED);
    let good = token(&site);
    assert_eq!(accept(&site, "rpcgi_").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(login(&site, INVITED, PASSWORD).await.status, StatusCode::UNAUTHORIZED);
    for answer in [invite(&site, &host, "b@example.com", "viewer").await, accept(&site, &good).await] {
        assert_eq!(reported(&answer), (StatusCode::TOO_MANY_REQUESTS, "too many attempts, try again later"));
        assert!(answer.headers.contains_key(RETRY_AFTER));
    }
    assert_eq!(mails(&site).len(), 1);
    site.clock.advance(Duration::from_secs(60));
    assert_eq!(accept(&site, &good).await.status, StatusCode::CREATED);
}

// Shows (Mails and notifications).
#[tokio::test]
async fn an_unavailable_mailer_fails_no_request_and_is_retried() {
    let site = site().await;
    let host = site.member(Role::Owner).await;
    let other = site.member(Role::Owner).await;
    std::fs::remove_dir_all(&site.app.settings.config.admin.mail.outbox).unwrap();
    for email in [INVITED, &other.user.email] {
        let answer = invite(&site, &host, email, "viewer").await;
        assert_eq!(answer.status, StatusCode::CREATED);
    }
    std::fs::create_dir(&site.app.settings.config.admin.mail.outbox).unwrap();
    site.clock.advance(Duration::from_secs(10));
    site.send_mails().await;
    assert_eq!(mails(&site).len(), 2);
}
