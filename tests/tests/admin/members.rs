//! From an invitation to a key and the removal of the member.

use rpcgate_core::clock::SystemClock;
use rpcgate_tests::admin::{PASSWORD, TestService};
use rpcgate_tests::client::TestClient;
use rpcgate_tests::gateway::Setup;
use rpcgate_tests::node::Node;
use serde_json::json;
use std::sync::Arc;

const EVE: &str = "eve@example.com";

// Shows (Accounts and second factors): An invited member joins by the mailed link, has the rights of the role, and
// loses access at once when removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invited_member_has_the_permissions_of_the_role_until_removed() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).set("admin", "auth_per_minute = 1000");
    let service = TestService::start(setup, Arc::new(SystemClock::new())).await;
    let gateway = service.gateway().await;
    let ada = service.owner("ada@example.com").await;
    let tenant = ada.tenant().await;
    let project = ada.project("of Ada").await;

    let invitations = format!("/tenants/{tenant}/invitations");
    let made = ada.made(&invitations, &json!({ "email": EVE, "role": "viewer" })).await;
    let token = service.mailed(EVE).await;
    assert!(!made.to_string().contains(&token), "the token is in the mail alone");
    let form = json!({ "token": token, "name": "Eve", "password": PASSWORD });
    let mut eve = service.anonymous();
    let joined = eve.made("/auth/invitation", &form).await;
    assert_eq!(joined, json!({ "email": EVE, "name": "Eve", "confirmed": true }));
    let again = eve.ask("POST", "/auth/invitation", Some(&form)).await;
    assert_eq!(again.status, 400, "an invitation is good once: {again:?}");
    assert_eq!(ada.shown(&invitations).await, json!([]));

    eve.log_in(EVE).await;
    assert_eq!(eve.tenant().await, tenant);
    let keys = format!("/projects/{project}/keys");
    let new = json!({ "description": "Eve's" });
    assert_eq!(eve.shown(&keys).await, json!([]));
    assert_eq!(eve.ask("POST", &keys, Some(&new)).await.status, 403, "a viewer looks and changes nothing");

    let members = ada.shown(&format!("/tenants/{tenant}/members")).await;
    let member =
        |email: &str| members.as_array().unwrap().iter().find(|one| one["email"] == email).unwrap().clone();
    let path = |email: &str| format!("/tenants/{tenant}/members/{}", member(email)["id"].as_str().unwrap());
    ada.put(&path(EVE), &json!({ "role": "developer" })).await;
    let (_, text) = eve.key_with(&project, &new).await;
    let client = TestClient::new(gateway.addr(), Some(&text));
    assert_eq!(client.call("eth", "eth_call", "[]").await.status, 200);

    let alone = ada.ask("DELETE", &path("ada@example.com"), None).await;
    assert_eq!(alone.status, 401, "who leaves gives the password: {alone:?}");
    let proof = json!({ "current_password": PASSWORD });
    assert_eq!(ada.ask("POST", "/auth/proof", Some(&proof)).await.status, 204);
    let last = ada.ask("DELETE", &path("ada@example.com"), None).await;
    assert_eq!(last.status, 409, "the last owner stays: {last:?}");
    ada.delete(&path(EVE)).await;
    assert_eq!(eve.ask("GET", "/auth/me", None).await.status, 401, "at once");
    let login = json!({ "email": EVE, "password": PASSWORD });
    assert_eq!(eve.ask("POST", "/auth/login", Some(&login)).await.status, 401);
    assert_eq!(client.call("eth", "eth_call", "[]").await.status, 200, "the key is the project's");
}
