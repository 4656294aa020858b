//! The actions of an operator.

use crate::customer::reload_until;
use crate::month::{Words, two_months};
use crate::site::{Dashboard, OPERATOR, in_browser, is_content, log_in, log_out};
use crate::visited::headline;
use rpcgate_tests::TIMEOUT;
use rpcgate_tests::browser::{BrowserKind, NARROW, PageReader};
use rpcgate_tests::client::TestClient;
use rpcgate_tests::until_within;
use std::sync::Arc;

/// Waits until calls with a key are answered with a text that contains `part`.
async fn answered(dashboard: &Dashboard, key: &str, part: &str) {
    let client = TestClient::new(dashboard.gateway(), Some(key));
    let is_so = async || client.call("eth", "eth_blockNumber", "[]").await.text().contains(part);
    until_within(TIMEOUT, &format!("calls are answered with {part:?}"), is_so).await;
}

const SERVED: &str = "\"result\"";

pub(crate) async fn works(dashboard: &Dashboard, reader: &PageReader) {
    let words = Words::usual();
    let (owner, _) = two_months(dashboard, &words).await;
    answered(dashboard, &owner.text, SERVED).await;
    log_in(reader, OPERATOR).await;

    // The page shows the node that is behind, with its lag.
    reader.go("Nodes").await;
    reader.reads("Nodes").await;
    reload_until(reader, "999,940").await;
    reader.sees("1,000,000").await;
    reader.sees("Behind").await;
    is_content(reader).await;

    // Saves a weight after a confirmation.
    reader.go("CU weights").await;
    reader.reads("CU weights").await;
    reader.open("/operator/weights/eth").await;
    let weight = reader.find("input[aria-label='Weight of eth_call']").await;
    weight.clear().await.unwrap();
    weight.send_keys("77").await.unwrap();
    reader.press_named("What if?").await;
    reader.sees("Not saved").await;
    reader.sees(&words.tenant).await;
    reader.press_named("Save").await;
    assert!(reader.done().await.starts_with("The weights are saved."));
    is_content(reader).await;

    // Switches a chain off and on again.
    reader.go("Chains").await;
    reader.reads("Chains").await;
    reader.press("a[href$='operator/chains/eth/switch']").await;
    reader.reads("Switch Ethereum off?").await;
    reader.write("confirm", "eth").await;
    reader.press_named("Switch the chain off").await;
    assert_eq!(reader.done().await, "The chain is switched off.");
    answered(dashboard, &owner.text, "not available").await;
    reader.press("a[href$='operator/chains/eth/switch']").await;
    reader.press_named("Switch the chain on").await;
    assert_eq!(reader.done().await, "The chain is switched on.");
    answered(dashboard, &owner.text, SERVED).await;
    is_content(reader).await;

    // Grants the request for a higher limit.
    reader.go("Limit requests").await;
    reader.reads("Limit requests").await;
    reader.press_named(&words.tenant).await;
    reader.sees("two million requests a day").await;
    reader.press("main button[name=status][value=approved]").await;
    assert!(reader.done().await.starts_with("The request is approved"));
    is_content(reader).await;

    // Suspends the tenant, whose calls are refused, and restores it.
    reader.go("Tenants").await;
    reader.reads("Tenants").await;
    reader.press_named(&words.tenant).await;
    reader.reads(&words.tenant).await;
    let headline = headline(reader).await.to_lowercase();
    assert!(headline.contains("standard"), "{headline}");
    reader.press("main a[href$='/suspend']").await;
    reader.write("confirm", &words.tenant).await;
    reader.press("main button.destroy").await;
    assert!(reader.done().await.starts_with("The tenant is suspended."));
    answered(dashboard, &owner.text, "suspended").await;
    reader.press("main a[href$='/reactivate']").await;
    reader.press("main form[action$='/reactivate'] button").await;
    assert!(reader.done().await.starts_with("The tenant is served again"));
    answered(dashboard, &owner.text, SERVED).await;
    is_content(reader).await;

    // Answers the waiting ticket.
    let waiting = words.subjects.last().unwrap();
    reader.go("Tickets").await;
    reader.reads("Tickets").await;
    reader.press_named(waiting).await;
    reader.reads(waiting).await;
    reader.write("text", "The invoice counts the calls of November.").await;
    reader.press("main form[action$='/comments'] button").await;
    assert!(reader.done().await.starts_with("The answer is sent."));
    reader.sees("The invoice counts the calls of November.").await;
    is_content(reader).await;
    log_out(reader).await;
}

// Shows (Dashboard): An operator tunes, switches, grants, suspends and answers in a browser.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_tunes_switches_grants_suspends_and_answers() {
    in_browser(BrowserKind::default(), async |dashboard: Arc<Dashboard>, reader: PageReader| {
        works(&dashboard, &reader).await;
    })
    .await;
}

// Shows (Dashboard).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_does_the_same_on_a_phone_at_night() {
    let phone = BrowserKind { width: NARROW, ..BrowserKind::default() };
    in_browser(phone, async |dashboard: Arc<Dashboard>, reader: PageReader| {
        reader.prefer_dark(true).await;
        works(&dashboard, &reader).await;
    })
    .await;
}
