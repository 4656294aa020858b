//! Tests of the plan, of requests for another plan, of bills and of payments.

use super::*;
use crate::testing::Site;
use crate::testing::fixtures::issue;
use crate::testing::stripe::StandIn;
use crate::tests::hostile::{
    HOSTILE, assert_for, assert_protected, assert_shown, cookies, everybody, forged,
};
use crate::tests::{cookie, get, post};
use http::StatusCode;
use http::header::CONTENT_SECURITY_POLICY;
use rpcgate_core::plan::{Price, Tier};
use rpcgate_store::Role;

fn line(chain: &str, kind: LineKind, amount: u128) -> InvoiceLine {
    InvoiceLine {
        month: Time::from_secs(0),
        kind,
        chain: chain.into(),
        tier: Tier::Standard,
        price: Price(1),
        calls: 1,
        units: 1,
        amount: Amount(amount),
        custom_plan: None,
    }
}

#[test]
fn the_expected_amount_is_never_below_the_amount_owed() {
    let period = Time::from_secs(0)..Time::from_secs(30 * 86_400);
    for (total, day, expected) in
        [(100, 15, 200), (100, 30, 100), (100, 40, 100), (0, 1, 0), (u64::MAX, 1, u64::MAX)]
    {
        assert_eq!(
            at_this_pace(total, &period, Time::from_secs(day * 86_400)),
            expected,
            "{total} at day {day}"
        );
    }
    assert_eq!(at_this_pace(1, &period, Time::from_secs(0)), 30 * 86_400, "the first second");
}

#[test]
fn chains_are_summed_and_the_dearest_is_first() {
    let lines = [
        line("eth", LineKind::Usage, 10),
        line("btc", LineKind::Usage, 60),
        line("eth", LineKind::Usage, 20),
        line("", LineKind::Plan, 999),
        line("", LineKind::Usage, 0),
    ];
    let shown: Vec<_> =
        by_chain(&lines).into_iter().map(|one| (one.chain, one.amount.0, one.width)).collect();
    let expected = [("btc", 60, "100.0%"), ("eth", 30, "50.0%"), ("all chains", 0, "0.0%")];
    assert_eq!(shown, expected.map(|(chain, amount, width)| (chain.to_owned(), amount, width.to_owned())));
    assert!(by_chain(&[]).is_empty());
}

// Shows (Dashboard).
#[tokio::test]
async fn only_members_with_the_right_see_bills() {
    let site = Site::new().await;
    let all = everybody(&site).await;
    let visitors = cookies(&all);
    let of = |name: &str| visitors.iter().find(|(own, _)| *own == name).unwrap().1;
    let tenant = all[0].2.user.tenant.unwrap();
    let number = issue(&site, tenant).await;
    let readers = ["owner", "admin", "billing"];
    let members = ["owner", "admin", "billing", "developer", "viewer"];
    let invoice = format!("/invoices/{number}");
    for path in ["/billing", "/billing/next", invoice.as_str(), &format!("{invoice}/pay")] {
        assert_for(&site, path, &visitors, &readers).await;
    }
    for path in ["/plan", "/plan/request"] {
        assert_for(&site, path, &visitors, &members).await;
    }
    assert!(!get(&site, "/plan", of("developer")).await.text.contains("href=\"billing\""), "no such entry");
    assert_protected(&site, &format!("{invoice}/pay"), of("billing"), of("developer")).await;
    assert_protected(&site, "/plan/checkout", of("billing"), of("developer")).await;
    assert_protected(&site, "/plan/request", of("developer"), of("viewer")).await;
    let outsider = cookie(&site, &site.member(Role::Owner).await);
    for path in [invoice.as_str(), &format!("{invoice}/pay"), "/invoices/2026-000099", "/invoices/x"] {
        assert_eq!(get(&site, path, &outsider).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(post(&site, &format!("{invoice}/pay"), &outsider, &[]).await.status, StatusCode::NOT_FOUND);
}

// Shows (Dashboard).
#[tokio::test]
async fn an_invoice_is_a_sheet_and_names_are_not_run() {
    let site = Site::new().await;
    let owner = site.member(Role::Billing).await;
    let own = cookie(&site, &owner);
    let empty = get(&site, "/billing", &own).await;
    assert!(empty.text.contains("No invoice yet") && empty.text.contains("$0.00"), "{}", empty.text);
    let number = issue(&site, owner.user.tenant.unwrap()).await;
    let bill = get(&site, "/billing", &own).await;
    assert!(bill.text.contains("$11.90") && bill.text.contains("Open, due 14 Jan 2027"), "{}", bill.text);
    assert!(bill.text.contains(&format!("href=\"invoices/{number}\"")), "{}", bill.text);
    let sheet = get(&site, &format!("/invoices/{number}"), &own).await;
    for text in
        ["Bank &#38; Söhne &#60;b&#62;", "1 Main Street", "DE1", "VAT 19 %", "Compute Units on eth", "11.90"]
    {
        assert!(sheet.text.contains(text), "{text}: {}", sheet.text);
    }
    assert!(!sheet.text.contains("<style"), "the policy of pages forbids it");
    assert!(!sheet.text.contains("Pay $"), "no provider is configured");
    let pay = post(&site, &format!("/invoices/{number}/pay"), &own, &[]).await;
    assert_eq!(pay.status, StatusCode::CONFLICT);
    assert!(pay.text.contains("Billing provider not configured."), "{}", pay.text);
    assert_eq!(get(&site, "/billing?before=x", &own).await.status, StatusCode::BAD_REQUEST);
}

// Shows (Dashboard): A payment begins on our own page, which links to the provider.
#[tokio::test]
async fn a_payment_begins_on_a_page_of_ours_that_links_to_the_provider() {
    let stand_in = StandIn::start().await;
    let site = Site::of(&stand_in.settings()).await;
    let owner = site.member(Role::Billing).await;
    let own = cookie(&site, &owner);
    let number = issue(&site, owner.user.tenant.unwrap()).await;
    let path = format!("/invoices/{number}");
    let sheet = get(&site, &path, &own).await;
    assert!(sheet.text.contains("Pay $11.90"), "{}", sheet.text);
    let page = post(&site, &format!("{path}/pay"), &own, &[]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(page.text.contains("href=\"https://checkout.stripe.com/c/pay/cs_test_0\""), "{}", page.text);
    assert!(page.header(CONTENT_SECURITY_POLICY).contains("form-action 'self'"));
    let plan = get(&site, "/plan", &own).await;
    for row in [
        "Compute Units in 24 hours, each project</th><td class=\"num\">100,000</td>",
        "Webhooks, each project",
        "Subscriptions, each webhook",
    ] {
        assert!(plan.text.contains(row), "{row}: {}", plan.text);
    }
    assert!(plan.text.contains("Move to Premium") && !plan.text.contains("Move to Free"), "{}", plan.text);
    let page = post(&site, "/plan/checkout", &own, &[("plan", "premium")]).await;
    assert!(page.text.contains("Open checkout.stripe.com"), "{}", page.text);
    for name in HOSTILE.into_iter().chain(["free", ""]) {
        let refused = post(&site, "/plan/checkout", &own, &[("plan", name)]).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{name}: {}", refused.text);
        assert!(!refused.text.contains("alert(1)</script>") && !refused.text.contains("onerror=alert(1)>"));
    }
}

#[tokio::test]
async fn a_request_for_another_plan_shows_its_state() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let own = cookie(&site, &owner);
    let form = get(&site, "/plan/request", &own).await;
    assert!(
        form.text.contains("value=\"premium\"") && !form.text.contains("value=\"free\""),
        "{}",
        form.text
    );
    let ask = async |plan: &str, reason: &str| {
        post(&site, "/plan/request", &own, &[("requested_plan", plan), ("reason", reason)]).await
    };
    ask("premium", "").await.assert_wrong("reason", "Not sent: ");
    let wrong = ask("gold", "Kept reason").await;
    wrong.assert_wrong("requested_plan", "Not sent: ");
    assert!(wrong.text.contains("Kept reason"), "{}", wrong.text);
    let sent = ask("premium", HOSTILE[0]).await;
    assert_eq!(sent.leads_to(), (StatusCode::SEE_OTHER, "../plan/request?done=limit-requested"));
    let shown = get(&site, "/plan/request", &own).await;
    assert_shown(&shown, HOSTILE[0]);
    assert!(shown.text.contains("Waiting for our decision") && !shown.text.contains("Send the request"));
    assert!(get(&site, "/plan", &own).await.text.contains("waits for our decision"));
    let again = ask("premium", "Again").await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert!(again.text.contains("A limit request is pending already."), "{}", again.text);
    assert_eq!(forged(&site, "/plan/request", &own, &[]).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn plans_are_shown_side_by_side_with_the_current_one() {
    let site = Site::new().await;
    let own = cookie(&site, &site.member(Role::Viewer).await);
    let page = get(&site, "/plan", &own).await;
    for text in ["Requests a day, each key", "10,000", "Fee a month", "Free <span class=\"badge info\">Yours"]
    {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    assert!(!page.text.contains("Ask for a higher limit"), "a viewer cannot");
}

// Shows (Dashboard).
#[tokio::test]
async fn invoices_are_read_while_usage_cannot_be() {
    let site = Site::new().await;
    let owner = site.member(Role::Billing).await;
    let own = cookie(&site, &owner);
    let number = issue(&site, owner.user.tenant.unwrap()).await;
    site.app.usage.close().await;
    let bill = get(&site, "/billing", &own).await;
    assert_eq!(bill.status, StatusCode::OK, "{}", bill.text);
    for text in [
        "Usage cannot be read at the moment, so the cost of this month so far is not shown.",
        &format!("href=\"invoices/{number}\""),
        "<dt>Plan fee</dt>",
        "$11.90",
    ] {
        assert!(bill.text.contains(text), "{text}: {}", bill.text);
    }
    assert!(!bill.text.contains("at this pace"), "{}", bill.text);
}
