//! The management API next to the gateway, and its log-ins.

use super::account::{remembered, store};
use super::*;
use rpcgate_config::LogFormat;
use rpcgate_core::secret::{KeyHash, shown};
use rpcgate_management::gateway_urls::GatewayUrls;
use rpcgate_management::identity::password::{Password, Passwords};
use rpcgate_process::testing::CapturedLog;
use rpcgate_store::{Key, Project, Role, Store, Tenant, User, UserId, url_of};

const USER: &str = "demo@example.com";
const OPERATOR: &str = "operator@example.com";

async fn get(url: &str) -> (u16, String) {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let request = http::Request::get(format!("/{path}")).header("host", address);
    let request = request.body(Full::new(bytes::Bytes::new())).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    driver.abort();
    (status, String::from_utf8_lossy(&body).into_owned())
}

async fn get_admin(demo: &Demo, path: &str) -> (u16, String) {
    get(&format!("{}{path}", sheet(demo)["admin"].as_str().unwrap())).await
}

/// Reports whether `login`, an object with `email` and `password`, can log in.
async fn logs_in(demo: &Demo, login: &Value) -> bool {
    let url = format!("{}/api/v1/auth/login", sheet(demo)["admin"].as_str().unwrap());
    let body = json!({ "email": login["email"], "password": login["password"] }).to_string();
    let answer = post(&url, &[("content-type".into(), "application/json".into())], &body).await;
    assert!(matches!(answer.status().as_u16(), 200 | 401), "{answer:?}");
    assert_eq!(answer.status() == 200, answer.body()["token"].is_string(), "{answer:?}");
    answer.status() == 200
}

async fn user(store: &Store, email: &str) -> User {
    store.user_by_email(email).await.unwrap().unwrap()
}

async fn fits(user: &User, password: &Value) -> bool {
    let stored = user.password.as_deref();
    Passwords::new(1, 0).verify(password.as_str().unwrap(), stored).await.unwrap()
}

#[tokio::test]
async fn the_management_api_is_served_at_the_address_in_demo_json() {
    let home = tempfile::tempdir().unwrap();
    let demo = start(&options(home.path())).await;
    let sheet = sheet(&demo);
    assert_eq!(sheet["admin"], format!("http://{}", demo.admin()));
    assert_ne!(demo.admin(), demo.addr());
    assert_eq!(get_admin(&demo, "/readyz").await.0, 200);
    let (status, document) = get_admin(&demo, "/openapi.json").await;
    assert_eq!(status, 200);
    assert!(document.contains(sheet["admin"].as_str().unwrap()), "the port that was picked is in its URLs");
    let urls = GatewayUrls::of(&demo.management.app().settings.config);
    let gateway = sheet["gateway"].as_str().unwrap();
    assert_eq!(urls.http("eth"), format!("{gateway}/eth"), "its pages lead to the port that was picked");
    let dashboard = format!("http://localhost:{}/", demo.admin().port());
    assert_eq!(sheet["dashboard"], dashboard);
    let start = format!("{}/api/v1/auth/passkeys/login/start", sheet["admin"].as_str().unwrap());
    let begun = post(&start, &[("content-type".into(), "application/json".into())], "{}").await;
    assert_eq!(begun.body()["options"]["publicKey"]["rpId"], "localhost", "{begun:?}");
    assert_eq!(get_admin(&demo, "/swagger/").await.0, 200);
    assert_eq!(get_admin(&demo, "/api/v1/plans").await.0, 401, "no user is logged in");
    let welcome = demo.welcome();
    assert!(welcome.contains(&format!("http://{}/swagger/", demo.admin())), "{welcome}");
    assert!(welcome.contains(&format!("The dashboard is at {dashboard}: ")), "{welcome}");
    for secret in [&sheet["password"], &sheet["operator"]["password"]] {
        assert!(!welcome.contains(secret.as_str().unwrap()), "{welcome}");
    }
    assert_eq!(Path::new(sheet["outbox"].as_str().unwrap()), home.path().join("outbox"));
    assert!(home.path().join("outbox").is_dir());
    let admin = demo.admin();
    assert_eq!(demo.stop().await, Drained { cut: 0 });
    assert!(TcpStream::connect(admin).await.is_err());
}

#[tokio::test]
async fn the_credentials_in_demo_json_log_in_and_survive_a_second_start() {
    let home = tempfile::tempdir().unwrap();
    let lines = CapturedLog::default();
    let _listening = lines.capture("warn", LogFormat::Text);
    let mut seen = Vec::new();
    for _ in 0..2 {
        let demo = start(&options(home.path())).await;
        let sheet = sheet(&demo);
        let store = store(&home).await;
        assert_eq!((&sheet["email"], &sheet["operator"]["email"]), (&json!(USER), &json!(OPERATOR)));
        for login in [&sheet, &sheet["operator"]] {
            assert!(logs_in(&demo, login).await);
            assert!(!logs_in(&demo, &json!({ "email": login["email"], "password": "another one" })).await);
        }
        let operator = user(&store, OPERATOR).await;
        assert!(operator.is_operator() && operator.confirmed_at.is_some());
        seen.push((remembered(&home), sheet["password"].clone(), user(&store, USER).await, operator));
        demo.stop().await;
    }
    assert_eq!(seen[0], seen[1], "nothing was hashed anew");
    assert_eq!(lines.text(), "");
}

#[tokio::test]
async fn a_changed_password_stays_and_the_log_states_that_demo_json_has_the_old_one() {
    let home = tempfile::tempdir().unwrap();
    let lines = CapturedLog::default();
    let _listening = lines.capture("warn", LogFormat::Text);
    start(&options(home.path())).await.stop().await;
    let store = store(&home).await;
    let passwords = Passwords::new(1, 0);
    let hash = passwords.hash(Password::new("another password").unwrap()).await.unwrap();
    store.set_password(user(&store, USER).await.id, &hash).await.unwrap();
    // The same password with another hash is not a change.
    let same = remembered(&home).operator.password;
    let again = passwords.hash(Password::new(same.as_str()).unwrap()).await.unwrap();
    store.set_password(user(&store, OPERATOR).await.id, &again).await.unwrap();

    for reported in 1..=2 {
        let demo = start(&options(home.path())).await;
        assert_eq!(user(&store, USER).await.password.as_deref(), Some(&*hash));
        assert_eq!(user(&store, OPERATOR).await.password.as_deref(), Some(&*again));
        let text = lines.text();
        assert_eq!(text.matches("this password was changed").count(), reported, "{text}");
        assert!(text.contains(USER) && !text.contains(OPERATOR), "{text}");
        assert!(!text.contains(&same) && !text.contains(&remembered(&home).owner.password), "{text}");
        assert!(!fits(&user(&store, USER).await, &sheet(&demo)["password"]).await);
        demo.stop().await;
    }
}

#[tokio::test]
async fn a_folder_of_the_former_version_gets_its_logins() {
    let home = tempfile::tempdir().unwrap();
    let made = DemoState::open(&Dir::open(home.path()).unwrap()).unwrap();
    let text = json!({
        "seed": made.seed,
        "key_secret": made.key_secret,
        "api_key": made.api_key,
        "tenant_id": made.tenant.to_string(),
        "project_id": made.project.to_string(),
        "key_id": made.key.to_string(),
    });
    std::fs::write(home.path().join("state.json"), text.to_string()).unwrap();
    // The account as that version created it: the key exists, the user has no password.
    let database = store(&home).await;
    let tenant = Tenant::new(made.tenant, "demo", Tier::Standard, NOW);
    database.create_tenant(&tenant).await.unwrap();
    let before = User {
        id: UserId(1),
        tenant: Some(made.tenant),
        email: USER.into(),
        name: String::new(),
        role: Role::Owner,
        password: None,
        confirmed_at: Some(NOW),
        created_at: NOW,
    };
    database.create_user(&before).await.unwrap();
    let project = Project::new(made.project, made.tenant, "demo", NOW);
    database.create_project(&project).await.unwrap();
    let key = Key {
        description: "demo".into(),
        ..Key::new(made.key, made.project, shown(&made.api_key), KeyHash::of(&made.api_key), NOW)
    };
    database.create_key(&key, NOW).await.unwrap();

    let demo = start(&options(home.path())).await;
    let sheet = sheet(&demo);
    assert_eq!(sheet["api_key"], made.api_key);
    let now = user(&database, USER).await;
    assert_eq!((now.id, now.role), (before.id, Role::Owner));
    assert!(fits(&now, &sheet["password"]).await);
    assert!(fits(&user(&database, OPERATOR).await, &sheet["operator"]["password"]).await);
}

#[tokio::test]
async fn demos_on_one_database_have_an_operator_each() {
    let shared = tempfile::tempdir().unwrap();
    let homes = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let url = url_of(&shared.path().join("all.db"));
    let text = format!("[database]\nurl = {url:?}\n");
    let mut found = Vec::new();
    for home in [&homes[0], &homes[1], &homes[0], &homes[1]] {
        let demo = start(&with_file(options(home.path()), home, &text)).await;
        let sheet = sheet(&demo);
        let store = Store::open(&url, true).await.unwrap();
        for login in [&sheet, &sheet["operator"]] {
            let user = user(&store, login["email"].as_str().unwrap()).await;
            assert!(fits(&user, &login["password"]).await, "{user:?}");
        }
        found.push((sheet["operator"].clone(), sheet["email"].clone()));
        demo.stop().await;
    }
    assert_eq!(found[..2], found[2..]);
    let other = format!("operator+{}@example.com", remembered(&homes[1]).tenant);
    assert_eq!((&found[0].0["email"], &found[1].0["email"]), (&json!(OPERATOR), &json!(other)));
}

#[tokio::test]
async fn the_error_for_an_address_in_use_names_its_option_and_nothing_is_left_running() {
    let home = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = taken.local_addr().unwrap();
    let prepared = Prepared::new(&DemoOptions { admin, ..options(home.path()) }).await.unwrap();
    let failure = Failure::from(prepared.start(StartOptions::default()).await.unwrap_err());
    let text = failure.to_string();
    assert!(text.starts_with(&format!("admin.listen: {admin}: ")) && text.contains("--admin"), "{text}");
    assert_eq!(failure.code(), 1);
    assert!(!home.path().join(FILE).exists());
    start(&options(home.path())).await.stop().await;
}

#[tokio::test]
async fn a_reload_reaches_the_management_api_and_a_bad_one_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let lines = CapturedLog::default();
    let _listening = lines.capture("warn", LogFormat::Text);
    let options = with_file(options(home.path()), &home, "");
    let demo = start(&options).await;
    let other = "https://api.example.com";
    let options = with_file(options, &home, &format!("[admin]\napi_url = {other:?}\n"));
    assert_eq!(demo.reload().unwrap(), Vec::<&str>::new());
    assert!(get_admin(&demo, "/openapi.json").await.1.contains(other));
    with_file(options, &home, "[admin]\nmail.from = \"a@b@c\"\n[chains.eth]\ncu = { eth_chainId = 7 }\n");
    assert_eq!(Failure::from(demo.reload().unwrap_err()).code(), 2);
    assert!(get_admin(&demo, "/openapi.json").await.1.contains(other));
    let key = remembered(&home).api_key;
    let answer = ask_as(&demo, &key, "eth", &call("eth_chainId", &json!([])).to_string()).await;
    assert_ne!(answer.headers()["x-compute-units"], "7");
    assert!(!lines.text().contains("no effect"), "{}", lines.text());
}

// Shows (Commands and configuration).
#[tokio::test]
async fn a_certificate_for_the_management_side_is_served_and_an_ordered_one_is_refused() {
    use rustls_pki_types::pem::PemObject;
    let home = tempfile::tempdir().unwrap();
    let cert = home.path().join("admin.pem");
    let key = home.path().join("admin.key");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let text = format!("[admin.tls]\ncert = {:?}\nkey = {:?}\n", cert.display(), key.display());
    let demo = start(&with_file(options(&home.path().join("demo")), &home, &text)).await;
    let sheet = sheet(&demo);
    assert_eq!(sheet["admin"], format!("https://{}", demo.admin()));
    assert!(sheet["dashboard"].as_str().unwrap().starts_with("https://"));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls_pki_types::CertificateDer::from_pem_file(&cert).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(demo.admin()).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let request = http::Request::get("/healthz").header("host", "localhost");
    let answer = sender.send_request(request.body(Full::new(bytes::Bytes::new())).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    driver.abort();
    std::fs::write(home.path().join("rpcgate.toml"), "").unwrap();
    assert!(demo.reload().unwrap().contains(&"admin.tls"), "it is served until the demo starts again");
    demo.stop().await;

    let text = "[admin.tls]\nacme = true\n[acme]\ndomains = [\"dash.example.com\"]\n";
    let options = with_file(options(&home.path().join("other")), &home, text);
    let refused = Prepared::new(&options).await.unwrap_err();
    assert!(matches!(refused, DemoError::AdminAcme), "{refused}");
}
