use crate::api::accounts::tests::mails;
use crate::api::tickets::tests::{ask, get, post, ticket};
use crate::router::tests::lists::followed;
use crate::testing::Site;
use http::Method;
use rpcgate_store::{AuditSubject, Role};
use serde_json::{Value, json};
use std::collections::BTreeSet;

// Shows (Management): Notes of operators on tickets are never shown to tenants; answers are mailed.
#[tokio::test]
async fn notes_of_operators_are_never_seen_by_the_tenant() {
    let site = Site::new().await;
    let author = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let path = ticket(&site, &author).await;
    let theirs = path.replace("/support/", "/operator/") + "/comments";
    let before = get(&site, &author, &path).await;
    let note = json!({"text": "A difficult one.", "internal": true});
    let (status, noted) = post(&site, &operator, &theirs, note).await;
    assert_eq!((status, &noted["internal"]), (201, &json!(true)));
    assert_eq!(get(&site, &author, &path).await, before, "not even the time of the last change");
    assert_eq!(get(&site, &author, &format!("{path}/comments")).await, (200, json!([])));
    assert!(mails(&site).is_empty());
    let entries = site.app.store.audit(AuditSubject::Tenant(author.user.tenant.unwrap()), 9).await.unwrap();
    assert!(entries.iter().all(|entry| entry.action != "ticket.noted"), "{entries:?}");
    let own = site.app.store.audit(AuditSubject::User(operator.user.id), 9).await.unwrap();
    assert_eq!(own.iter().filter(|entry| entry.action == "ticket.noted").count(), 1);

    let answer = json!({"text": "It is below the table.", "status": "closed"});
    assert_eq!(post(&site, &operator, &theirs, answer).await.0, 201);
    let (_, seen) = get(&site, &author, &format!("{path}/comments")).await;
    assert_eq!(seen.as_array().unwrap().len(), 1);
    let fields: BTreeSet<_> = seen[0].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = BTreeSet::from(["author", "created_at", "id", "text", "user_id"]);
    assert_eq!(fields, expected, "nothing says that there are notes");
    assert_eq!((&seen[0]["author"], &seen[0]["user_id"]), (&json!("operator"), &Value::Null));
    assert_eq!(get(&site, &author, &path).await.1["status"], "closed");
    let (_, all) = get(&site, &operator, &theirs).await;
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert_eq!((&all[0]["internal"], &all[1]["internal"]), (&json!(true), &json!(false)));

    let late = (409, json!({"error": "the ticket is closed: open it first"}));
    assert_eq!(post(&site, &operator, &theirs, json!({"text": "One more."})).await, late);
    assert_eq!(post(&site, &operator, &theirs, json!({"text": "x", "internal": true})).await.0, 201);
    let wrong = json!({"text": "x", "internal": true, "status": "open"});
    assert_eq!(post(&site, &operator, &theirs, wrong).await.0, 400);
}

#[tokio::test]
async fn comments_are_bounded_for_each_side_and_listed_in_pages() {
    let site = Site::new().await;
    let author = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let path = ticket(&site, &author).await;
    let theirs = path.replace("/support/", "/operator/") + "/comments";
    let comments = format!("{path}/comments");
    for number in 0..200 {
        let (status, made) = post(&site, &author, &comments, json!({"text": format!("{number}")})).await;
        assert_eq!(status, 201, "{number} {made}");
    }
    let (status, full) = post(&site, &author, &comments, json!({"text": "one more"})).await;
    assert_eq!(status, 409);
    assert!(full["error"].as_str().unwrap().starts_with("a ticket has at most 200 comments"), "{full}");
    assert_eq!(
        post(&site, &operator, &theirs, json!({"text": "I see."})).await.0,
        201,
        "operators still can"
    );
    let listed = format!("/api/v1{comments}");
    let all = followed(&site, &author, &listed, 1_000).await;
    assert_eq!((all.len(), &all[0]["text"], &all[200]["text"]), (201, &json!("0"), &json!("I see.")));
    assert_eq!(followed(&site, &author, &listed, 70).await, all);
    assert_eq!(get(&site, &author, &format!("{comments}?cursor=x")).await.0, 400);
}

#[tokio::test]
async fn an_author_who_has_left_gets_no_mail() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let author = site.visitor(Some(tenant), Role::Developer).await;
    let path = ticket(&site, &author).await;
    let removal = format!("/tenants/{tenant}/members/{}", author.user.id);
    assert_eq!(ask(&site, &owner, Method::DELETE, &removal, Value::Null).await.0, 204);
    let theirs = path.replace("/support/", "/operator/") + "/comments";
    let operator = site.operator().await;
    assert_eq!(post(&site, &operator, &theirs, json!({"text": "Hello?"})).await.0, 201);
    // The only mail is about the removal.
    assert!(!mails(&site).iter().any(|mail| mail.contains("ticket")), "{:?}", mails(&site));
    assert_eq!(get(&site, &owner, &path).await.1["status"], "answered", "the tenant keeps the ticket");
}
