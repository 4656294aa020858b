//! The actions of a customer, from the registration to the first invoice, with the pages alone.

use crate::site::{
    Dashboard, EMAIL, NAME, give_password, in_browser, is_content, log_in, log_out, open_menu,
};
use rpcgate_core::clock::Clock;
use rpcgate_tests::TIMEOUT;
use rpcgate_tests::admin::PASSWORD;
use rpcgate_tests::authenticator_app::{AuthenticatorApp, STEP};
use rpcgate_tests::browser::{BrowserKind, NARROW, PageReader, is_installed, skipped};
use rpcgate_tests::until;
use serde_json::json;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

const PROJECT: &str = "Wallet backend";
/// Longer than a month.
const MONTH: Duration = Duration::from_secs(32 * 86_400);

/// Creates an account and confirms its address.
async fn register(dashboard: &Dashboard, reader: &PageReader) {
    reader.open("/").await;
    reader.reads("Log in").await;
    reader.press("main a[href$=register]").await;
    reader.reads("Create an account").await;
    reader.write("name", NAME).await;
    reader.write("email", EMAIL).await;
    reader.write("password", PASSWORD).await;
    reader.press("main form[action$=register] button").await;
    reader.reads("Check your mail").await;
    let token = dashboard.service.mailed(EMAIL).await;
    reader.open(&format!("/confirm?token={token}")).await;
    reader.reads("Confirm your address").await;
    reader.write("password", PASSWORD).await;
    reader.press("main form[action$=confirm] button").await;
    assert!(reader.done().await.starts_with("Your e-mail address is confirmed."));
}

/// Creates a key after the first log-in. Returns it with the command for a first call.
pub(crate) async fn create_key(reader: &PageReader) -> (String, String) {
    reader.open("/").await;
    reader.reads(&format!("Welcome, {NAME}")).await;
    reader.write("name", PROJECT).await;
    reader.press_named("Create the project").await;
    assert!(reader.done().await.starts_with("The project is created."));
    reader.reads(PROJECT).await;
    reader.write("description", "Production").await;
    reader.press_named("Create the key").await;
    reader.reads("Your new key: Production").await;
    let text = |selector: &str| format!("return document.querySelector('{selector}').textContent");
    let key = reader.run(&text(".secret code")).await.as_str().unwrap().to_owned();
    assert!(key.starts_with("rpcg_") && key.len() == 50, "a key is shown");
    let command = reader.run(&text(".snippet pre code")).await.as_str().unwrap().to_owned();
    assert!(command.starts_with("curl ") && command.contains(&key), "{command}");
    (key, command)
}

/// Runs a copied command until a gateway knows its key.
async fn run(command: String) {
    let answered = async {
        loop {
            let command = format!("{command} --silent --show-error --write-out ' %{{http_code}}'");
            let run = spawn_blocking(move || Command::new("sh").arg("-c").arg(command).output().unwrap());
            let output = run.await.unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let failed = String::from_utf8_lossy(&output.stderr);
            if said.ends_with(" 200") {
                assert!(said.contains("\"result\""), "{said}");
                return;
            }
            assert!(said.ends_with(" 401"), "{said} {failed}");
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(TIMEOUT, answered).await.unwrap();
}

/// Reloads the page until it has this text, as a reader without scripts does.
pub(crate) async fn reload_until(reader: &PageReader, text: &str) {
    let is_there = async {
        loop {
            if reader.told().await.contains(text) {
                return;
            }
            sleep(Duration::from_millis(200)).await;
            reader.client.refresh().await.unwrap();
        }
    };
    if timeout(TIMEOUT, is_there).await.is_err() {
        panic!("never {text:?}:\n{}", reader.told().await);
    }
}

/// Makes the first call as the page says and waits until the page shows it.
async fn make_first_call(reader: &PageReader, command: String, is_live: bool) {
    reader.sees("Waiting for the first call").await;
    run(command).await;
    if is_live {
        reader.sees("See it in the usage view").await;
    } else {
        // A reload of the answer to a form would send the form again.
        reader.press_named("Check again").await;
        reload_until(reader, "See it in the usage view").await;
    }
    reader.press_named("See it in the usage view").await;
    reader.reads("Usage").await;
    let rows = reader.run("return document.querySelector('#rows').closest('section').innerText").await;
    assert!(rows.as_str().unwrap().contains("eth"), "{rows}");
    reader.open("/").await;
    reader.reads("Overview").await;
    reader.sees("Your first call has arrived").await;
}

pub(crate) async fn add_webhook(dashboard: &Dashboard, reader: &PageReader, is_live: bool) {
    reader.go("Webhooks").await;
    reader.reads("Webhooks").await;
    reader.write("url", &dashboard.receiver.url("/hook")).await;
    reader.press_named("Add the endpoint").await;
    reader.reads("Your new endpoint").await;
    let secret = reader.find(".secret code").await.text().await.unwrap();
    assert!(secret.starts_with("whsec_"), "a secret is shown");
    reader.press_named("I have stored the secret").await;
    reader.sees("No subscriptions yet").await;
    reader.choose("event_type", "new_block").await;
    reader.choose("chain", "eth").await;
    reader.press_named("Add the subscription").await;
    assert!(reader.done().await.starts_with("The subscription is added."));
    reader.press_named("Deliveries").await;
    reader.press_named("Send a test event").await;
    assert_eq!(reader.done().await, "A test event is on its way to the endpoint.");
    until("a test event arrives", || dashboard.receiver.count() > 0).await;
    if is_live {
        reader.find("#state .badge.ok").await;
    } else {
        reload_until(reader, "Delivered").await;
    }
    reader.sees("Attempt 1").await;
    reader.go("Webhooks").await;
    reader.sees("/hook").await;
}

pub(crate) async fn ask_for_more(reader: &PageReader) {
    reader.go("Plan and limits").await;
    reader.reads("Plan and limits").await;
    reader.press_named("Ask for a higher limit").await;
    reader.reads("Ask for a higher limit").await;
    reader.choose("requested_plan", "standard").await;
    reader.write("reason", "Two million requests a day from October on.").await;
    reader.press_named("Send the request").await;
    assert!(reader.done().await.starts_with("Your request is sent."));
    reader.sees("Two million requests").await;
}

pub(crate) async fn ask_for_help(reader: &PageReader) {
    reader.go("Support").await;
    reader.reads("Support").await;
    reader.press_named("New ticket").await;
    reader.reads("New ticket").await;
    reader.choose("category", "problem").await;
    reader.write("subject", "A call is refused").await;
    reader.write("text", "It was answered with 429.\nWhy is that?").await;
    reader.press_named("Send the ticket").await;
    assert!(reader.done().await.starts_with("We have received your ticket."));
    reader.reads("A call is refused").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answer.log");
    std::fs::write(&file, "429 Too Many Requests\n").unwrap();
    reader.attach("file", file.to_str().unwrap()).await;
    reader.press_named("Attach the file").await;
    reader.sees("The file is attached.").await;
    reader.sees("answer.log").await;
}

/// Opens the security page from the menu of the account.
async fn open_security(reader: &PageReader) {
    open_menu(reader).await;
    reader.press("#account a[href$='account/security']").await;
    reader.reads("Security").await;
}

/// Adds an authenticator app, with a mistake at first.
pub(crate) async fn add_app(dashboard: &Dashboard, reader: &PageReader) -> AuthenticatorApp {
    open_security(reader).await;
    reader.press_named("Set up an app").await;
    reader.reads("Add an authenticator app").await;
    reader.press_named("Show the secret").await;
    let app = AuthenticatorApp::typed(&reader.find("main code.id").await.text().await.unwrap());
    is_content(reader).await;
    reader.write("code", &app.wrong(dashboard.clock.now())).await;
    reader.press_named("Turn on").await;
    reader.find("main [role=alert]").await;
    // A browser reports a refused form.
    assert!(reader.complaints().await.iter().all(|complaint| complaint.contains("status of 4")));
    reader.write("code", &app.shows(dashboard.clock.now())).await;
    reader.press_named("Turn on").await;
    reader.reads("Keep these recovery codes").await;
    let codes = reader.run("return document.querySelectorAll('main ol code').length").await;
    assert_eq!(codes, json!(10));
    reader.press_named("I have stored them").await;
    reader.reads("Security").await;
    app
}

async fn add_passkey(reader: &PageReader) {
    reader.plug_authenticator().await;
    open_security(reader).await;
    reader.press_named("Add a passkey").await;
    reader.reads("Add a passkey").await;
    reader.write("name", "Laptop").await;
    reader.press("main [data-use]:not([hidden])").await;
    assert_eq!(reader.done().await, "The passkey is added.");
    reader.sees("Laptop").await;
}

/// Logs in with the password and a code of the app. A code works once, so the clock is advanced to the next one.
pub(crate) async fn log_in_by_code(dashboard: &Dashboard, reader: &PageReader, app: &AuthenticatorApp) {
    dashboard.clock.jump(2 * STEP);
    reader.open("/login").await;
    give_password(reader, EMAIL).await;
    reader.reads("Second factor").await;
    reader.write("code", &app.shows(dashboard.clock.now())).await;
    reader.press_named("Log in").await;
    reader.find("body.app").await;
}

async fn log_in_by_passkey(reader: &PageReader) {
    reader.open("/login").await;
    reader.press("main [data-use]:not([hidden])").await;
    reader.find("body.app").await;
}

/// Reads the invoice of the current month before it is issued.
async fn read_next_invoice(reader: &PageReader) {
    reader.go("Billing").await;
    reader.reads("Billing").await;
    reader.press("main a[href$='billing/next']").await;
    reader.reads("Next invoice").await;
    let sheet = reader.run("return document.querySelector('.sheet').innerText").await;
    let sheet = sheet.as_str().unwrap();
    assert!(sheet.contains("Preliminary: this is not an invoice.") && sheet.contains("on eth"), "{sheet}");
    is_content(reader).await;
}

/// Reads the invoice of the month of the first call.
pub(crate) async fn read_invoice(reader: &PageReader) {
    reader.go("Billing").await;
    reader.reads("Billing").await;
    reader.press("section:has(#invoices) tbody a[href*='invoices/']").await;
    reader.reads("Invoice 20").await;
    reader.sees(NAME_OF_TENANT).await;
    let sheet = reader.run("return document.querySelector('.sheet').innerText").await;
    assert!(sheet.as_str().unwrap().contains("eth"), "{sheet}");
}

/// The name of a tenant without another name: the address of its owner.
const NAME_OF_TENANT: &str = EMAIL;

async fn lives(dashboard: Arc<Dashboard>, reader: PageReader, is_dark: bool) {
    if !is_installed("curl") {
        return skipped("curl is missing, install curl");
    }
    reader.prefer_dark(is_dark).await;
    register(&dashboard, &reader).await;
    is_content(&reader).await;
    log_in(&reader, EMAIL).await;
    let (_, command) = create_key(&reader).await;
    make_first_call(&reader, command, true).await;
    is_content(&reader).await;
    read_next_invoice(&reader).await;
    add_webhook(&dashboard, &reader, true).await;
    ask_for_more(&reader).await;
    ask_for_help(&reader).await;
    let app = add_app(&dashboard, &reader).await;
    add_passkey(&reader).await;
    is_content(&reader).await;
    log_out(&reader).await;
    log_in_by_code(&dashboard, &reader, &app).await;
    log_out(&reader).await;
    log_in_by_passkey(&reader).await;
    is_content(&reader).await;

    // A month later the session has expired.
    dashboard.clock.jump(MONTH);
    dashboard.service.bill().await;
    log_in_by_passkey(&reader).await;
    read_invoice(&reader).await;
    is_content(&reader).await;
}

// Shows (Dashboard): A customer does everything in a browser, from the registration with its puzzle to the first
// invoice: project, key, first call, webhook, higher limit, ticket, app, passkey; on a phone too, light and dark.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_comes_calls_asks_and_reads_an_invoice() {
    in_browser(BrowserKind::default(), async |dashboard: Arc<Dashboard>, reader: PageReader| {
        lives(dashboard, reader, false).await;
    })
    .await;
}

// Shows (Dashboard).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_does_the_same_on_a_phone_at_night() {
    let phone = BrowserKind { width: NARROW, ..BrowserKind::default() };
    in_browser(phone, async |dashboard: Arc<Dashboard>, reader: PageReader| {
        lives(dashboard, reader, true).await;
    })
    .await;
}

/// A script that returns the background and the text colour of the page.
const COLOURS: &str = "const style = getComputedStyle(document.body); \
                       return style.backgroundColor + ' ' + style.color";

// Shows (Dashboard).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn colours_follow_the_browser_until_a_user_chooses() {
    in_browser(BrowserKind::default(), async |dashboard: Arc<Dashboard>, reader: PageReader| {
        dashboard.owner().await;
        log_in(&reader, EMAIL).await;
        let light = reader.run(COLOURS).await;
        reader.prefer_dark(true).await;
        let dark = reader.run(COLOURS).await;
        assert_ne!(light, dark);
        for (choice, expected) in [("light", &light), ("dark", &dark), ("system", &dark)] {
            open_menu(&reader).await;
            reader.press(&format!("#account button[value={choice}]")).await;
            let chosen = format!("#account button[value={choice}][aria-pressed=true]");
            reader.find(&chosen).await;
            assert_eq!(&reader.run(COLOURS).await, expected, "{choice}");
        }
        reader.prefer_dark(false).await;
        assert_eq!(reader.run(COLOURS).await, light);
        is_content(&reader).await;
    })
    .await;
}
