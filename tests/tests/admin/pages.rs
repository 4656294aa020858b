//! The pages in a real browser.

use rpcgate_core::clock::SystemClock;
use rpcgate_tests::admin::{PASSWORD, TestService};
use rpcgate_tests::browser::{self, Browser, ELSEWHERE, PageReader};
use rpcgate_tests::gateway::Setup;
use serde_json::{Value, json};
use std::panic::resume_unwind;
use std::sync::Arc;

const EMAIL: &str = "ada@example.com";
/// A name that has an effect if it is interpreted as markup.
const NASTY: &str = "<script>window.owned=1</script><img src=x onerror=\"window.owned=1\"> & O'Ada";

/// Runs a test with a browser, which is closed in any case.
async fn in_browser<F: Future<Output = ()> + Send + 'static>(
    host: &str,
    is_narrow: bool,
    read: impl FnOnce(Arc<TestService>, PageReader) -> F,
) {
    let Some(browser) = Browser::start(is_narrow).await else { return };
    let service = Arc::new(TestService::start(Setup::new(), Arc::new(SystemClock::new())).await);
    let base = format!("http://{host}:{}", service.addr().port());
    let reader = browser.reader(&base);
    let outcome = tokio::spawn(read(service.clone(), reader)).await;
    browser.stop().await;
    if let Err(error) = outcome {
        resume_unwind(error.into_panic());
    }
    Arc::into_inner(service).unwrap().stop().await;
}

/// Registers and logs in with the pages alone.
async fn come_in(service: &TestService, reader: &PageReader) {
    reader.open("/").await;
    reader.reads("Log in").await;
    reader.press("a[href=register]").await;
    reader.reads("Create an account").await;
    reader.write("name", NASTY).await;
    reader.write("email", EMAIL).await;
    reader.write("password", PASSWORD).await;
    reader.press("form[action=register] button").await;
    reader.reads("Check your mail").await;

    let token = service.mailed(EMAIL).await;
    reader.open(&format!("/confirm?token={token}")).await;
    reader.reads("Confirm your address").await;
    assert!(service.mails(EMAIL).await[0].contains(&format!("/confirm?token={token}")));
    reader.write("password", PASSWORD).await;
    reader.press("form[action=confirm] button").await;
    let said = reader.find("[role=status]").await.text().await.unwrap();
    assert_eq!(said, "Your e-mail address is confirmed. You can create API keys now.");
    log_in(reader).await;
}

async fn log_in(reader: &PageReader) {
    reader.reads("Log in").await;
    reader.write("email", EMAIL).await;
    reader.write("password", PASSWORD).await;
    reader.press("form[action=login] button").await;
    reader.reads(&format!("Welcome, {NASTY}")).await;
    assert_eq!(reader.path().await, "/");
}

async fn log_out(reader: &PageReader) {
    if reader.run("return innerWidth").await == json!(browser::NARROW) {
        reader.press(".burger").await;
    }
    reader.press("button.account").await;
    reader.press("form[action=logout] button").await;
    reader.reads("Log in").await;
    assert_eq!(reader.path().await, "/login");
    reader.open("/").await;
    reader.reads("Log in").await;
    assert_eq!(reader.path().await, "/login");
}

/// Returns whether no foreign script has run, and the number of foreign scripts and images on the page.
async fn strange(reader: &PageReader) -> Value {
    let script = "return [window.owned === undefined, \
                  document.querySelectorAll('script:not([src^=\"static/\"]), img').length]";
    reader.run(script).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_registers_confirms_and_logs_in_and_out() {
    in_browser("127.0.0.1", false, async |service: Arc<TestService>, reader: PageReader| {
        come_in(&service, &reader).await;
        assert_eq!(strange(&reader).await, json!([true, 0]));
        let planted = "const script = document.createElement('script'); script.textContent = 'window.owned = 1'; \
                       document.body.append(script); return window.owned === undefined";
        assert_eq!(reader.run(planted).await, json!(true), "the policy lets no script into a page");
        assert_eq!(reader.run("return document.cookie").await, json!(""), "no script reads the cookie");

        reader.press("a[href='swagger/']").await;
        reader.find("#swagger-ui .opblock").await;
        reader.open("/").await;
        log_out(&reader).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_work_over_plain_http_and_on_a_phone() {
    in_browser(ELSEWHERE, true, async |service: Arc<TestService>, reader: PageReader| {
        reader.open("/register").await;
        assert_eq!(reader.run("return [isSecureContext, innerWidth]").await, json!([false, browser::NARROW]));
        come_in(&service, &reader).await;
        log_out(&reader).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_that_was_refused_can_be_sent_again() {
    in_browser("127.0.0.1", false, async |_: Arc<TestService>, reader: PageReader| {
        reader.open("/register").await;
        // Input that the browser would reject.
        reader.run("document.querySelector('form').noValidate = true").await;
        reader.write("email", "ada").await;
        reader.write("password", PASSWORD).await;
        reader.press("form button").await;
        let reported = reader.find("[role=alert]").await.text().await.unwrap();
        assert_eq!(reported, "The e-mail address must be of the form name@example.com.");
        assert_eq!([reader.written("email").await, reader.written("password").await], ["ada", ""]);
        reader.write("email", EMAIL).await;
        reader.write("password", PASSWORD).await;
        reader.press("form button").await;
        reader.reads("Check your mail").await;

        reader.open("/login").await;
        reader.write("email", EMAIL).await;
        reader.write("password", "not the password").await;
        reader.press("form button").await;
        let reported = reader.find("[role=alert]").await.text().await.unwrap();
        assert_eq!(reported, "The e-mail address or the password is wrong.");
        assert_eq!([reader.written("email").await, reader.written("password").await], [EMAIL, ""]);
        let focus = reader.run("return document.activeElement.name").await;
        assert_eq!(focus, json!("password"), "where to go on");
        // The Enter key.
        reader.write("password", &format!("{PASSWORD}\u{e007}")).await;
        reader.reads("Welcome").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_on_another_site_cannot_log_a_user_out() {
    in_browser("127.0.0.1", false, async |service: Arc<TestService>, reader: PageReader| {
        come_in(&service, &reader).await;
        let target = format!("{}/logout", reader.base);
        let page =
            format!("data:text/html,<form method=post action={target}><button>A prize</button></form>");
        reader.client.goto(&page).await.unwrap();
        reader.press("button").await;
        reader.reads("Not permitted").await;
        let reported = reader.find("[role=alert]").await.text().await.unwrap();
        assert_eq!(reported, "This form was not sent from one of our pages.");
        reader.open("/").await;
        reader.reads(&format!("Welcome, {NASTY}")).await;
    })
    .await;
}
