//! Checks of every page: it fits the window, the browser has no complaints, and axe finds nothing serious, in both
//! themes, on a phone and on a wide screen.
//!
//! `AXE_SCRIPT` names a file with the script of axe-core, which `.ci/run` downloads. Without it axe does not run, and
//! tests that need it fail if services are required.

use crate::month::{Words, two_months};
use crate::site::{Dashboard, EMAIL, OPERATOR, in_browser, log_in, log_out};
use crate::visited::{GATES, every_page, flaws, shape};
use rpcgate_tests::browser::{BrowserKind, NARROW, PageReader, WIDE, skipped};
use serde_json::{Value, json};
use std::env;
use std::fs;
use std::sync::Arc;

/// The pages of customers that must be found, so that links to them cannot disappear unnoticed.
const OF_CUSTOMERS: [&str; 39] = [
    "/",
    "/projects",
    "/projects/*",
    "/projects/*/keys/*/revoke",
    "/projects/*/limits",
    "/projects/*/settings",
    "/projects/*/delete",
    "/projects/*/events",
    "/usage",
    "/explain",
    "/webhooks",
    "/webhooks/*",
    "/webhooks/*/subscriptions",
    "/webhooks/*/settings",
    "/webhooks/*/replay",
    "/webhooks/*/delete",
    "/deliveries/*",
    "/chains",
    "/chains/*",
    "/plan",
    "/plan/request",
    "/billing",
    "/billing/next",
    "/invoices/*",
    "/team",
    "/audit",
    "/support",
    "/support/new",
    "/support/*",
    "/notifications",
    "/account",
    "/account/security",
    "/account/security/totp",
    "/account/security/passkeys/new",
    "/account/notifications",
    "/account/tokens",
    "/account/tokens/*/revoke",
    "/email",
    "/webhooks/*/subscriptions/*/delete",
];

/// The pages of operators that must be found.
const OF_OPERATORS: [&str; 26] = [
    "/operator",
    "/operator/tenants",
    "/operator/tenants/*",
    "/operator/tenants/*/suspend",
    "/operator/tenants/*/delete",
    "/operator/tenants/*/contracts",
    "/operator/limit-requests",
    "/operator/limit-requests/*",
    "/operator/tickets",
    "/operator/tickets/*",
    "/operator/invoices",
    "/operator/invoices/*",
    "/operator/nodes",
    "/operator/chains",
    "/operator/chains/*/switch",
    "/operator/chains/*/cache",
    "/operator/weights",
    "/operator/weights/*",
    "/operator/plans",
    "/operator/plans/*",
    "/operator/config",
    "/operator/users",
    "/operator/users/*",
    "/operator/users/*/disable",
    "/operator/explain",
    "/operator/audit",
];

/// Returns the serious or critical rules of axe that the page breaks, with the first elements that break them.
const ASK_AXE: &str = "
    const done = arguments[arguments.length - 1];
    axe.run(document, { resultTypes: ['violations'] }).then(
      ({ violations }) => done(violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(
        ({ id, nodes }) => `${id}: ${nodes.length} times, at ` + nodes.slice(0, 3).map(
          ({ target, any }) => `${target.join(' ')} (${any.map(({ message }) => message).join('; ').slice(0, 160)})`
        ).join(' and '))),
      (error) => done([String(error)]));";

async fn axe_findings(reader: &PageReader, axe: &str) -> Vec<String> {
    reader.run(axe).await;
    let found = reader.client.execute_async(ASK_AXE, Vec::new()).await.unwrap();
    found.as_array().unwrap().iter().map(|one| one.as_str().unwrap_or_default().to_owned()).collect()
}

/// The flaws, page by page.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    async fn look(&mut self, reader: &PageReader, path: &str, axe: Option<&str>) {
        for is_dark in [false, true] {
            reader.prefer_dark(is_dark).await;
            let found = match axe {
                Some(axe) => axe_findings(reader, axe).await,
                None if is_dark => Vec::new(),
                None => flaws(reader).await,
            };
            let theme = if is_dark { "dark" } else { "light" };
            self.0.extend(found.into_iter().map(|one| format!("{} ({theme}): {one}", shape(path))));
        }
    }
}

/// Checks all pages: of visitors, customers and operators.
async fn look_at_all(dashboard: &Dashboard, reader: &PageReader, axe: Option<&str>) {
    // axe checks usual texts, and the width is checked with unusually long ones.
    let words = if axe.is_some() { Words::usual() } else { Words::endless() };
    two_months(dashboard, &words).await;
    let mut findings = Findings::default();
    for path in GATES {
        reader.open(path).await;
        reader.find("h1").await;
        findings.look(reader, path, axe).await;
    }
    let mut missing = Vec::new();
    for (email, expected) in [(EMAIL, &OF_CUSTOMERS[..]), (OPERATOR, &OF_OPERATORS[..])] {
        log_in(reader, email).await;
        reader.complaints().await;
        let first = if email == EMAIL { ["/"] } else { ["/operator"] };
        let look = async |reader: &PageReader, path: &str| findings.look(reader, path, axe).await;
        let seen = every_page(reader, &first, look).await;
        missing.extend(expected.iter().filter(|page| !seen.contains(**page)).copied());
        reader.open("/").await;
        log_out(reader).await;
    }
    assert!(
        findings.0.is_empty() && missing.is_empty(),
        "{}\nno page leads to: {missing:?}",
        findings.0.join("\n")
    );
}

/// Reads the script of axe.
fn axe() -> Option<String> {
    let Some(file) = env::var_os("AXE_SCRIPT") else {
        skipped("AXE_SCRIPT names no file with the script of axe-core");
        return None;
    };
    Some(fs::read_to_string(file).unwrap())
}

async fn check(width: u64, with_axe: bool) {
    let axe = if with_axe { axe() } else { None };
    if with_axe && axe.is_none() {
        return;
    }
    let kind = BrowserKind { width, ..BrowserKind::default() };
    in_browser(kind, async move |dashboard: Arc<Dashboard>, reader: PageReader| {
        look_at_all(&dashboard, &reader, axe.as_deref()).await;
    })
    .await;
}

// Shows (Dashboard): Every page fits its window, at 320 px too, and neither the browser nor axe reports a serious
// problem.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_fits_a_wide_screen_and_the_browser_complains_of_none() {
    check(WIDE, false).await;
}

// Shows (Dashboard).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_fits_a_phone_and_the_browser_complains_of_none() {
    check(NARROW, false).await;
}

// Shows (Dashboard).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn axe_finds_nothing_serious_on_a_wide_screen() {
    check(WIDE, true).await;
}

// Shows (Dashboard).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn axe_finds_nothing_serious_on_a_phone() {
    check(NARROW, true).await;
}

// Shows (Dashboard).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn axe_would_find_what_is_wrong() {
    let Some(axe) = axe() else { return };
    in_browser(BrowserKind::default(), async move |_: Arc<Dashboard>, reader: PageReader| {
        reader.open("/login").await;
        assert_eq!(axe_findings(&reader, &axe).await, Vec::<String>::new());
        let spoilt = "document.querySelector('label').remove(); return true";
        assert_eq!(reader.run(spoilt).await, Value::Bool(true));
        let found = axe_findings(&reader, &axe).await;
        assert!(found.iter().any(|one| one.starts_with("label")), "{found:?}");
        let spoilt = "document.querySelector('main').style.width = '2000px'; return true";
        reader.run(spoilt).await;
        assert_ne!(reader.overflow().await, json!([]), "an overflow is seen");
    })
    .await;
}
