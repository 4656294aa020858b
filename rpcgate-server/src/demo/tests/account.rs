//! The demo's account: created once, completed after an interruption, and never reset.

use super::*;
use rpcgate_config::LogFormat;
use rpcgate_core::backend::changes::ChangeFeed;
use rpcgate_core::caller::{KeyId, ProjectId, Scope, TenantId};
use rpcgate_core::secret::{KeyForge, KeyHash, shown};
use rpcgate_process::testing::CapturedLog;
use rpcgate_simulate::SimulatedRequest;
use rpcgate_store::{Key, Project, Role, Store, Tenant, User, UserId, url_of};
use std::fs;
use tempfile::TempDir;

pub(super) async fn store(home: &TempDir) -> Store {
    Store::open(&url_of(&home.path().join("rpcgate.db")), true).await.unwrap()
}

pub(super) fn remembered(home: &TempDir) -> DemoState {
    DemoState::read(&kept(home)).unwrap()
}

fn ids(state: &DemoState) -> [String; 3] {
    [state.tenant.to_string(), state.project.to_string(), state.key.to_string()]
}

fn ids_of(sheet: &Value) -> [String; 3] {
    ["tenant_id", "project_id", "key_id"].map(|name| sheet[name].as_str().unwrap().to_owned())
}

async fn stored(store: &Store, state: &DemoState) -> (Tenant, Key) {
    let tenant = store.tenant(state.tenant).await.unwrap().unwrap();
    (tenant, store.key(state.tenant, state.key).await.unwrap().unwrap())
}

/// Returns the status of a call with `key`, and the limit of its plan.
async fn status(demo: &Demo, key: &str) -> (u16, Option<String>) {
    let answer = ask_as(demo, key, "eth", &call("eth_chainId", &json!([])).to_string()).await;
    let limit = answer.headers().get("x-ratelimit-limit-minute");
    (answer.status().as_u16(), limit.map(|limit| limit.to_str().unwrap().to_owned()))
}

async fn is_served(demo: &Demo) -> bool {
    ask(demo, "eth", &call("eth_chainId", &json!([]))).await["result"] == "0x1"
}

#[tokio::test]
async fn the_account_is_in_the_database_and_its_ids_are_those_of_demo_json() {
    let home = tempfile::tempdir().unwrap();
    let demo = start(&options(home.path())).await;
    let state = remembered(&home);
    let sheet = sheet(&demo);
    assert_eq!((ids_of(&sheet), &sheet["api_key"]), (ids(&state), &json!(state.api_key)));
    let store = store(&home).await;
    let (tenant, key) = stored(&store, &state).await;
    assert_eq!((tenant.name.as_str(), tenant.tier, tenant.suspended), ("demo", Tier::Enterprise, false));
    assert_eq!((key.project, key.hash, key.scope), (state.project, KeyHash::of(&state.api_key), Scope::All));
    assert_eq!((key.prefix.as_str(), key.revoked_at, key.expires_at), (&state.api_key[..12], None, None));
    let user = store.user_by_email("demo@example.com").await.unwrap().unwrap();
    assert_eq!((user.tenant, user.role), (Some(state.tenant), Role::Owner));
    assert!(user.confirmed_at.is_some(), "the demo's user needs no confirmation mail");
    let projects = store.projects(state.tenant).await.unwrap();
    assert_eq!(projects.iter().map(|project| project.id).collect::<Vec<_>>(), [state.project]);
    for name in ["rpcgate.db", "rpcgate-usage.db", "journal"] {
        assert!(home.path().join(name).exists(), "{name}");
    }
    assert!(is_served(&demo).await);

    let changes = store.newest_change().await.unwrap();
    demo.stop().await;
    start(&options(home.path())).await.stop().await;
    assert_eq!(store.newest_change().await.unwrap(), changes, "another start changes nothing");
    assert_eq!(store.since(0).await.unwrap().len(), 1, "the key, and nothing of it twice");
}

#[tokio::test]
async fn a_start_that_was_killed_halfway_is_completed_by_the_next() {
    for done in 0..=3 {
        let home = tempfile::tempdir().unwrap();
        let state = DemoState::open(&Dir::open(home.path()).unwrap()).unwrap();
        let store = store(&home).await;
        let tenant = state.tenant;
        if done > 0 {
            let tier = Tier::Standard;
            let tenant = Tenant::new(tenant, "demo", tier, NOW);
            store.create_tenant(&tenant).await.unwrap();
        }
        if done > 1 {
            let user = User {
                id: UserId(1),
                tenant: Some(tenant),
                email: "demo@example.com".into(),
                name: "demo".into(),
                role: Role::Owner,
                password: None,
                confirmed_at: Some(NOW),
                created_at: NOW,
            };
            store.create_user(&user).await.unwrap();
        }
        if done > 2 {
            store.create_project(&project(&state)).await.unwrap();
        }
        let demo = start(&options(home.path())).await;
        assert!(is_served(&demo).await, "{done}");
        let now = remembered(&home);
        assert_eq!((ids(&now), &now.api_key), (ids(&state), &state.api_key), "{done}");
        let (tenant, key) = stored(&store, &state).await;
        assert_eq!(tenant.tier, if done > 0 { Tier::Standard } else { Tier::Enterprise }, "{done}");
        assert_eq!(key.hash, KeyHash::of(&state.api_key), "{done}");
        let user = store.user_by_email("demo@example.com").await.unwrap().unwrap();
        assert_eq!(user.tenant, Some(state.tenant), "{done}");
        assert_eq!(store.projects(state.tenant).await.unwrap().len(), 1, "{done}");
    }
}

fn project(state: &DemoState) -> Project {
    Project::new(state.project, state.tenant, "demo", NOW)
}

#[tokio::test]
async fn a_key_replacement_that_was_killed_halfway_is_completed_by_the_next_start() {
    let home = tempfile::tempdir().unwrap();
    start(&options(home.path())).await.stop().await;
    let old = remembered(&home);
    let store = store(&home).await;
    // The old key is revoked and the new one stored in `state.json`, but not in the database.
    store.revoke_key(old.tenant, old.key, NOW).await.unwrap();
    let mut new = old.clone();
    new.renew(&KeyForge::new(old.key_secret.as_bytes())).unwrap();
    new.keep(&Dir::open(home.path()).unwrap()).unwrap();
    let demo = start(&options(home.path())).await;
    assert_eq!((remembered(&home), ids_of(&sheet(&demo))), (new.clone(), ids(&new)));
    assert!(is_served(&demo).await);
    assert_eq!(status(&demo, &old.api_key).await.0, 401);
}

#[tokio::test]
async fn a_folder_of_the_former_version_keeps_its_key_ids_and_blocks() {
    let home = tempfile::tempdir().unwrap();
    let key = KeyForge::new(b"a secret of the former version").make().unwrap();
    let text = json!({
        "seed": 7_777,
        "key_secret": "a secret of the former version",
        "api_key": key,
        "tenant_id": "3d7a7a3c-4c5e-4f52-9d1e-0a5bbd7a0001",
        "project_id": "3d7a7a3c-4c5e-4f52-9d1e-0a5bbd7a0002",
        "key_id": "3d7a7a3c-4c5e-4f52-9d1e-0a5bbd7a0003",
    });
    fs::write(home.path().join("state.json"), text.to_string()).unwrap();
    let demo = start(&options(home.path())).await;
    let sheet = sheet(&demo);
    for name in ["api_key", "tenant_id", "project_id", "key_id"] {
        assert_eq!(sheet[name], text[name], "{name}");
    }
    let latest = call("eth_getBlockByNumber", &json!(["latest", false]));
    let mut node = rpcgate_simulate::node("eth", 7_777).unwrap();
    let method = http::Method::POST;
    let body = latest.to_string();
    let request = SimulatedRequest { method: &method, path: "/", body: body.as_bytes() };
    let block: Value = serde_json::from_slice(&node.handle(&request, NOW).body).unwrap();
    assert!(block["result"]["hash"].is_string());
    assert_eq!(ask(&demo, "eth", &latest).await, block);
}

// Shows (Commands and configuration).
#[tokio::test]
async fn the_plan_stays_until_another_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let limits =
        [(Tier::Free, "10"), (Tier::Standard, "50"), (Tier::Premium, "100"), (Tier::Enterprise, "1000")];
    let store = store(&home).await;
    for (asked, set_before, expected) in [
        (None, None, Tier::Enterprise),
        (Some(Tier::Free), None, Tier::Free),
        (None, None, Tier::Free),
        (None, Some(Tier::Premium), Tier::Premium),
        (Some(Tier::Standard), Some(Tier::Free), Tier::Standard),
        (Some(Tier::Enterprise), None, Tier::Enterprise),
    ] {
        if let Some(tier) = set_before {
            store.set_tier(remembered(&home).tenant, tier, NOW).await.unwrap();
        }
        let demo = start(&DemoOptions { plan: asked, ..options(home.path()) }).await;
        assert!(demo.welcome().contains(&format!("(plan: {})", expected.name())), "{}", demo.welcome());
        let limit = limits.iter().find(|(tier, _)| *tier == expected).unwrap().1;
        let key = remembered(&home).api_key;
        assert_eq!(status(&demo, &key).await, (200, Some(limit.to_owned())), "{asked:?}");
        assert_eq!(store.tenant(remembered(&home).tenant).await.unwrap().unwrap().tier, expected);
        demo.stop().await;
    }
}

#[tokio::test]
async fn the_plan_that_was_asked_for_limits_the_key() {
    let home = tempfile::tempdir().unwrap();
    let demo = start(&DemoOptions { plan: Some(Tier::Free), ..options(home.path()) }).await;
    let key = remembered(&home).api_key;
    let body = call("eth_chainId", &json!([])).to_string();
    for left in (0..10).rev() {
        let answer = ask_as(&demo, &key, "eth", &body).await;
        assert_eq!(answer.headers()["x-ratelimit-remaining-minute"], left.to_string());
    }
    let answer = ask_as(&demo, &key, "eth", &body).await;
    assert_eq!(answer.body()["message"], "API rate limit exceeded");
}

#[tokio::test]
async fn another_secret_gets_another_key_and_ends_the_old_one() {
    let home = tempfile::tempdir().unwrap();
    let lines = CapturedLog::default();
    let _listening = lines.capture("warn", LogFormat::Text);
    start(&options(home.path())).await.stop().await;
    let old = remembered(&home);
    let options =
        with_file(options(home.path()), &home, "[gateway]\nkey_secret = \"a secret of the operator\"\n");
    let mut keys = Vec::new();
    for _ in 0..2 {
        assert_eq!(lines.text().matches("new API key").count(), keys.len(), "{}", lines.text());
        let demo = start(&options).await;
        let new = remembered(&home);
        assert!(KeyForge::new(b"a secret of the operator").is_genuine(&new.api_key));
        assert_eq!(
            (sheet(&demo)["api_key"].as_str(), ids_of(&sheet(&demo))),
            (Some(&*new.api_key), ids(&new))
        );
        assert!(is_served(&demo).await);
        assert_eq!(status(&demo, &old.api_key).await.0, 401);
        demo.stop().await;
        keys.push(new);
        if keys.len() == 2 {
            break;
        }
    }
    assert_eq!(keys[0], keys[1], "once is enough");
    assert_ne!((keys[0].api_key.as_str(), keys[0].key), (old.api_key.as_str(), old.key));
    assert_eq!((keys[0].tenant, keys[0].project), (old.tenant, old.project));
    assert_eq!(
        lines.text().matches("has another secret than gateway.key_secret").count(),
        1,
        "{}",
        lines.text()
    );
    assert!(!lines.text().contains(&old.api_key) && !lines.text().contains(&keys[0].api_key));
    assert!(stored(&store(&home).await, &old).await.1.revoked_at.is_some());
}

#[tokio::test]
async fn a_new_folder_with_a_configured_secret_has_one_key_and_nothing_to_report() {
    let home = tempfile::tempdir().unwrap();
    let lines = CapturedLog::default();
    let _listening = lines.capture("warn", LogFormat::Text);
    let options =
        with_file(options(home.path()), &home, "[gateway]\nkey_secret = \"a secret of the operator\"\n");
    let demo = start(&options).await;
    assert!(is_served(&demo).await);
    assert!(!lines.text().contains("API key"), "{}", lines.text());
    assert_eq!(store(&home).await.since(0).await.unwrap().len(), 1);
}

#[tokio::test]
async fn suspended_tenants_and_revoked_keys_stay_so() {
    let home = tempfile::tempdir().unwrap();
    let lines = CapturedLog::default();
    let _listening = lines.capture("warn", LogFormat::Text);
    start(&options(home.path())).await.stop().await;
    let state = remembered(&home);
    let store = store(&home).await;
    let other = KeyForge::new(state.key_secret.as_bytes()).make().unwrap();
    let key = Key { id: KeyId(9), hash: KeyHash::of(&other), ..stored(&store, &state).await.1 };
    store.create_key(&Key { prefix: shown(&other).into(), ..key }, NOW).await.unwrap();
    store.revoke_key(state.tenant, KeyId(9), NOW).await.unwrap();
    store.suspend(state.tenant, NOW).await.unwrap();

    let demo = start(&options(home.path())).await;
    assert_eq!(remembered(&home), state, "a suspended key is no bad key");
    assert_eq!((status(&demo, &state.api_key).await.0, status(&demo, &other).await.0), (402, 401));
    assert!(lines.text().contains("the demo's tenant is suspended"), "{}", lines.text());
    assert!(stored(&store, &state).await.0.suspended);
    store.reactivate(state.tenant, NOW).await.unwrap();
    until("it is active again", async || is_served(&demo).await).await;
    assert_eq!(status(&demo, &other).await.0, 401);
}

#[tokio::test]
async fn a_demo_whose_own_key_was_revoked_gets_a_new_one_and_logs_it() {
    let home = tempfile::tempdir().unwrap();
    let lines = CapturedLog::default();
    let _listening = lines.capture("warn", LogFormat::Text);
    let demo = start(&options(home.path())).await;
    let old = remembered(&home);
    let store = store(&home).await;
    assert!(is_served(&demo).await);
    store.revoke_key(old.tenant, old.key, NOW).await.unwrap();
    until("it is refused", async || status(&demo, &old.api_key).await.0 == 401).await;
    demo.stop().await;
    assert!(!lines.text().contains("API key"), "{}", lines.text());

    let demo = start(&options(home.path())).await;
    let new = remembered(&home);
    assert!(is_served(&demo).await);
    assert_eq!((ids_of(&sheet(&demo)), new.tenant, new.project), (ids(&new), old.tenant, old.project));
    assert_eq!(status(&demo, &old.api_key).await.0, 401, "the old one is not good again");
    assert!(stored(&store, &old).await.1.revoked_at.is_some());
    assert!(lines.text().contains("the demo has a new API key: the old one was revoked"), "{}", lines.text());
    assert!(!lines.text().contains(&new.api_key), "{}", lines.text());
    demo.stop().await;
    let demo = start(&options(home.path())).await;
    assert_eq!(remembered(&home), new);
    assert_eq!(lines.text().matches("new API key").count(), 1, "{}", lines.text());
    drop(demo);
}

#[tokio::test]
async fn a_key_put_into_state_json_by_hand_replaces_the_old_one() {
    let home = tempfile::tempdir().unwrap();
    start(&options(home.path())).await.stop().await;
    let old = remembered(&home);
    let api_key = KeyForge::new(old.key_secret.as_bytes()).make().unwrap();
    let repaired = DemoState { api_key, ..old.clone() };
    repaired.keep(&Dir::open(home.path()).unwrap()).unwrap();
    let demo = start(&options(home.path())).await;
    let new = remembered(&home);
    assert_eq!(DemoState { key: old.key, ..new.clone() }, repaired);
    assert_ne!(new.key, old.key, "the usage of two keys with one identifier could not be distinguished");
    assert_eq!((status(&demo, &new.api_key).await.0, status(&demo, &old.api_key).await.0), (200, 401));
    assert_eq!(ids_of(&sheet(&demo)), ids(&new));
}

#[tokio::test]
async fn a_database_of_the_configuration_is_respected_and_may_be_shared() {
    let shared = tempfile::tempdir().unwrap();
    let homes = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let text = format!("[database]\nurl = {:?}\n", url_of(&shared.path().join("all.db")));
    let mut demos = Vec::new();
    for home in &homes {
        let demo = start(&with_file(options(home.path()), home, &text)).await;
        assert!(is_served(&demo).await);
        assert!(!home.path().join("rpcgate.db").exists() && home.path().join("journal").exists());
        demos.push(demo);
    }
    assert!(shared.path().join("all-usage.db").exists());
    let store = Store::open(&url_of(&shared.path().join("all.db")), true).await.unwrap();
    let tenants = [remembered(&homes[0]).tenant, remembered(&homes[1]).tenant];
    assert_ne!(tenants[0], tenants[1]);
    let emails = ["demo@example.com".to_owned(), format!("demo+{}@example.com", tenants[1])];
    for (tenant, email) in tenants.into_iter().zip(emails) {
        assert_eq!(store.tenant(tenant).await.unwrap().unwrap().name, "demo");
        assert_eq!(store.user_by_email(&email).await.unwrap().unwrap().tenant, Some(tenant));
    }
    for demo in demos {
        demo.stop().await;
    }
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_named() {
    let home = tempfile::tempdir().unwrap();
    let missing = url_of(&home.path().join("nowhere/x.db"));
    let outdated = url_of(&home.path().join("x.db"));
    for (text, code, words) in [
        ("url = \"postgres://u:hunter2@h/db?sslmode=hunter2\"".to_owned(), 2, "database.url: "),
        (format!("url = {missing:?}"), 1, "nowhere/x.db: the folder"),
        (format!("url = {outdated:?}\nmigrate = false"), 1, "x.db: the schema is not up to date"),
    ] {
        let options = with_file(options(home.path()), &home, &format!("[database]\n{text}\n"));
        let prepared = Prepared::new(&options).await.unwrap();
        let failure = Failure::from(prepared.start(StartOptions::default()).await.unwrap_err());
        let said = failure.to_string();
        assert!(failure.code() == code && said.contains(words) && !said.contains("hunter2"), "{said}");
        assert!(!home.path().join(FILE).exists());
    }
    // None of them prevents a later start.
    assert!(is_served(&start(&options(home.path())).await).await);
}

#[tokio::test]
async fn a_reload_needs_no_restart_and_leaves_the_account_alone() {
    let home = tempfile::tempdir().unwrap();
    let options = with_file(options(home.path()), &home, "");
    let demo = start(&options).await;
    with_file(options, &home, "[chains.eth]\ncu = { eth_chainId = 7 }\n");
    assert_eq!(demo.reload().unwrap(), Vec::<&str>::new());
    let key = remembered(&home).api_key;
    let answer = ask_as(&demo, &key, "eth", &call("eth_chainId", &json!([])).to_string()).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["x-compute-units"]),
        (200, &"7".parse().unwrap())
    );
}

#[tokio::test]
async fn ids_are_those_that_the_database_has_for_the_key() {
    let home = tempfile::tempdir().unwrap();
    start(&options(home.path())).await.stop().await;
    let first = remembered(&home);
    // The text was kept, its identifiers were not.
    let lost = DemoState { tenant: TenantId(1), project: ProjectId(2), key: KeyId(3), ..first.clone() };
    lost.keep(&Dir::open(home.path()).unwrap()).unwrap();
    let demo = start(&options(home.path())).await;
    assert_eq!(ids_of(&sheet(&demo)), ids(&first));
    assert!(is_served(&demo).await);
}
