//! Tests that each mail links to the page of its subject.

use crate::api::accounts::tests::{ask, mails};
use crate::testing::fixtures::webhook;
use crate::testing::{Site, Visitor};
use http::Method;
use rpcgate_management::action::webhook_failures::{notify_of_withheld, take_turns};
use rpcgate_store::{EndpointTransitions, Role};
use serde_json::{Value, json};

async fn done(site: &Site, by: &Visitor, method: Method, path: &str, body: Value) -> Value {
    let answer = ask(site, Some(&by.token), method, path, Some(body)).await;
    assert!(answer.status.is_success(), "{path}: {} {}", answer.status, answer.body);
    answer.body
}

// Shows (Mails and notifications): Each mail links directly to its object.
#[tokio::test]
async fn each_mail_leads_to_its_object() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let tenant = owner.user.tenant.unwrap();
    let viewer = site.visitor(Some(tenant), Role::Viewer).await;

    let projects = format!("/tenants/{tenant}/projects");
    let project = done(&site, &owner, Method::POST, &projects, json!({"name": "p"})).await;
    let project = project["id"].as_str().unwrap().to_owned();
    let keys = format!("/projects/{project}/keys");
    done(&site, &owner, Method::POST, &keys, json!({"description": "x"})).await;
    let form = json!({"name": "x", "scopes": ["read"]});
    done(&site, &owner, Method::POST, "/auth/tokens", form).await;
    let member = format!("/tenants/{tenant}/members/{}", viewer.user.id);
    done(&site, &owner, Method::PUT, &member, json!({"role": "developer"})).await;
    let preference = json!({"kind": "account.suspension", "mail": true});
    done(&site, &viewer, Method::PUT, "/notifications/preferences", preference).await;
    let endpoint = webhook(&site, tenant, project.parse().unwrap()).await;
    let turns = EndpointTransitions {
        gone: vec![(endpoint.id, endpoint.url.clone())],
        ..EndpointTransitions::default()
    };
    take_turns(&site.app, &turns, |_| false, |_| false).await.unwrap();
    notify_of_withheld(&site.app).await.unwrap();
    let operated = format!("/operator/tenants/{tenant}");
    for status in ["suspended", "active"] {
        done(&site, &operator, Method::PUT, &operated, json!({"status": status})).await;
    }
    site.send_mails().await;

    let mails = mails(&site);
    let expect = |to: &Visitor, subject: &str, page: &str| {
        let address = format!("\r\nTo: {}\r\n", to.user.email);
        let about =
            |mail: &&String| mail.contains(&address) && mail.contains(&format!("\r\nSubject: {subject}"));
        let found: Vec<_> = mails.iter().filter(about).collect();
        let [mail] = &found[..] else { panic!("{subject}: {} mails of {mails:?}", found.len()) };
        assert!(mail.contains(&format!("\r\nhttp://127.0.0.1:8081/{page}\r\n")), "{page} is not in {mail}");
    };
    expect(&owner, "An API key was created", &format!("projects/{project}"));
    expect(&owner, "An API key was created", "password/forgot");
    expect(&owner, "An access token was created", "account/tokens");
    expect(&owner, "The webhook", &format!("webhooks/{}", endpoint.id));
    expect(&owner, "Your organisation is suspended", "billing");
    expect(&owner, "Your organisation is active again", "billing");
    expect(&viewer, "Your role was changed", "team");
    expect(&viewer, "Your organisation is suspended", "usage");
}
