//! The same actions without scripts. Registrations and passkeys need scripts, so the account is created over the API.

use crate::customer::{
    add_app, add_webhook, ask_for_help, ask_for_more, create_key, log_in_by_code, read_invoice, reload_until,
};
use crate::operator;
use crate::site::{Dashboard, EMAIL, NAME, OPERATOR, in_browser, is_content, log_in, log_out};
use rpcgate_tests::TIMEOUT;
use rpcgate_tests::browser::{BrowserKind, NARROW, PageReader};
use rpcgate_tests::client::TestClient;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

fn without_scripts(width: u64) -> BrowserKind {
    BrowserKind { width, runs_scripts: false, ..BrowserKind::default() }
}

async fn call(dashboard: &Dashboard, key: &str) {
    let client = TestClient::new(dashboard.gateway(), Some(key));
    let answered = async {
        while client.call("eth", "eth_blockNumber", "[]").await.status != 200 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, answered).await.unwrap();
}

async fn lives(dashboard: Arc<Dashboard>, reader: PageReader) {
    let user = dashboard.service.owner(EMAIL).await;
    let renamed = user.ask("PUT", "/auth/me", Some(&json!({ "name": NAME }))).await;
    assert!(renamed.status < 300, "{renamed:?}");
    log_in(&reader, EMAIL).await;
    let has_scripts = "return document.querySelector('[data-copy]:not([hidden])') !== null";
    let (key, _) = create_key(&reader).await;
    assert_eq!(reader.run(has_scripts).await, json!(false), "no script of the page runs");
    call(&dashboard, &key).await;
    reader.press_named("Check again").await;
    reload_until(&reader, "See it in the usage view").await;
    reader.press_named("See it in the usage view").await;
    reader.reads("Usage").await;
    add_webhook(&dashboard, &reader, false).await;
    ask_for_more(&reader).await;
    ask_for_help(&reader).await;
    let app = add_app(&dashboard, &reader).await;
    log_out(&reader).await;
    log_in_by_code(&dashboard, &reader, &app).await;
    is_content(&reader).await;
    dashboard.clock.jump(Duration::from_secs(32 * 86_400));
    dashboard.service.bill().await;
    log_in_by_code(&dashboard, &reader, &app).await;
    read_invoice(&reader).await;
    is_content(&reader).await;
}

// Shows (Dashboard): All of this except registrations and passkeys needs no script.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_needs_no_scripts_after_the_registration() {
    in_browser(without_scripts(1440), lives).await;
}

// Shows (Dashboard).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_needs_no_scripts_on_a_phone() {
    in_browser(without_scripts(NARROW), lives).await;
}

// Shows (Dashboard).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_needs_no_scripts() {
    in_browser(without_scripts(1440), async |dashboard: Arc<Dashboard>, reader: PageReader| {
        operator::works(&dashboard, &reader).await;
    })
    .await;
}

// Shows (Dashboard).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_without_scripts_states_its_requirements() {
    in_browser(without_scripts(1440), async |dashboard: Arc<Dashboard>, reader: PageReader| {
        reader.open("/register").await;
        reader.reads("Create an account").await;
        reader.sees("Registering needs JavaScript").await;
        dashboard.service.operator().await;
        log_in(&reader, OPERATOR).await;
        is_content(&reader).await;
    })
    .await;
}
