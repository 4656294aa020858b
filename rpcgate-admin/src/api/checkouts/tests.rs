//! Tests of payments through a fake payment provider.

use crate::api::invoices::tests::without_code;
use crate::testing::fixtures::issue;
use crate::testing::stripe::{EVENT_SECRET, StandIn, event, signature};
use crate::testing::{Site, Visitor};
use http::Method;
use rpcgate_config::{LogFormat, PlanChange};
use rpcgate_core::caller::{CustomPlanId, TenantId};
use rpcgate_core::plan::Tier;
use rpcgate_process::testing::CapturedLog;
use rpcgate_store::{AuditSubject, CustomPlan, InvoiceStatus, NewCreditNote, Role, TenantChange};
use serde_json::{Value, json};
use std::time::Duration;

const COMPLETED: &str = "checkout.session.completed";

async fn site() -> (Site, StandIn) {
    let stand_in = StandIn::start().await;
    let site = Site::of(&format!("[billing]\nsuspend_after = \"10d\"\n{}", stand_in.settings())).await;
    (site, stand_in)
}

async fn begin(site: &Site, visitor: &Visitor, body: Value) -> (u16, Value) {
    let path = format!("/api/v1/tenants/{}/billing/checkout", visitor.user.tenant.unwrap_or_default());
    let answer = site.ask(Some(visitor), Method::POST, &path, body.to_string()).await;
    site.clock.advance(Duration::from_millis(1));
    (answer.status.as_u16(), without_code(answer.body))
}

/// Sends an event as the provider does.
async fn report_signed(site: &Site, body: &str, secret: &str) -> (u16, Value) {
    let signed = signature(secret, site.app.now().secs(), body);
    let request = http::Request::post("/api/v1/billing/events").header("stripe-signature", signed);
    let answer = site.send(request.body(body.to_owned().into()).unwrap()).await;
    (answer.status.as_u16(), without_code(answer.body))
}

async fn report(site: &Site, kind: &str, id: &str, status: &str, cents: u64) {
    let (answered, body) = report_signed(site, &event(kind, id, status, cents), EVENT_SECRET).await;
    assert_eq!(answered, 204, "{body}");
}

async fn status(site: &Site, tenant: TenantId, number: rpcgate_store::InvoiceNumber) -> InvoiceStatus {
    site.app.store.invoice(tenant, number).await.unwrap().unwrap().invoice.status
}

// Shows (Plans, bills and payments): Payments use the provider's checkout; its events count once in any order; without
// a provider it is 409.
#[tokio::test]
async fn an_invoice_is_paid_when_the_provider_reports_it_and_once() {
    let (site, stand_in) = site().await;
    let owner = site.member(Role::Billing).await;
    let tenant = owner.user.tenant.unwrap();
    let number = issue(&site, tenant).await;
    let body = json!({"invoice": number.to_string()});
    let (code, answer) = begin(&site, &owner, body.clone()).await;
    assert_eq!((code, &answer["url"]), (201, &json!("https://checkout.stripe.com/c/pay/cs_test_0")));
    assert_eq!(begin(&site, &owner, body.clone()).await, (201, answer), "the same page again");
    let [(id, form)] = &stand_in.accepted()[..] else { panic!("one payment") };
    assert_eq!(form["line_items[0][price_data][unit_amount]"], "1190");
    assert_eq!(form["customer_email"], owner.user.email);
    report(&site, COMPLETED, id, "unpaid", 1_190).await;
    assert_eq!(status(&site, tenant, number).await, InvoiceStatus::Open, "the money has not arrived");
    report(&site, "checkout.session.async_payment_succeeded", id, "paid", 1_190).await;
    assert_eq!(status(&site, tenant, number).await, InvoiceStatus::Paid);
    let before = site.app.store.any_invoice(number).await.unwrap();
    for kind in [COMPLETED, "checkout.session.async_payment_succeeded", "checkout.session.expired", "x.y"] {
        report(&site, kind, id, "paid", 1_190).await;
    }
    assert_eq!(site.app.store.any_invoice(number).await.unwrap(), before, "repeated events change nothing");
    let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 99).await.unwrap();
    let count = |action: &str| audit.iter().filter(|entry| entry.action == action).count();
    assert_eq!((count("checkout.begun"), count("invoice.paid")), (1, 1));
    let refused = (409, json!({"error": "this invoice is not open"}));
    assert_eq!(begin(&site, &owner, body).await, refused);
}

#[tokio::test]
async fn a_payment_ends_a_suspension_for_the_debt() {
    let (site, stand_in) = site().await;
    let tenant = site.tenant().await;
    let number = issue(&site, tenant).await;
    site.clock.advance(Duration::from_secs(24 * 86_400));
    assert!(site.app.store.suspend_debtor(number, site.app.now()).await.unwrap());
    let owner = site.visitor(Some(tenant), Role::Owner).await;
    assert_eq!(begin(&site, &owner, json!({"invoice": number.to_string()})).await.0, 201);
    let id = stand_in.accepted()[0].0.clone();
    report(&site, COMPLETED, &id, "paid", 1_190).await;
    assert!(!site.app.store.tenant(tenant).await.unwrap().unwrap().suspended);
}

#[tokio::test]
async fn a_plan_starts_when_the_provider_reports_it_and_a_repeated_report_changes_nothing() {
    let (site, stand_in) = site().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let tier = async || site.app.store.tenant(tenant).await.unwrap().unwrap().tier;
    assert_eq!(begin(&site, &owner, json!({"tier": "premium"})).await.0, 201);
    let (id, form) = stand_in.accepted().remove(0);
    assert_eq!((form["mode"].as_str(), tier().await), ("setup", Tier::Free));
    let before = site.app.store.newest_change().await.unwrap();
    report(&site, COMPLETED, &id, "no_payment_required", 0).await;
    assert_eq!(tier().await, Tier::Premium);
    assert!(site.app.store.newest_change().await.unwrap() > before, "gateways hear of it");
    let free = TenantChange { tier: Some(Tier::Free), ..TenantChange::default() };
    site.app.store.update_tenant(tenant, &free, site.app.now()).await.unwrap();
    report(&site, COMPLETED, &id, "no_payment_required", 0).await;
    assert_eq!(tier().await, Tier::Free);
    let changes = site.app.store.tier_changes(tenant, crate::testing::NOON).await.unwrap();
    let moves: Vec<_> = changes.iter().map(|change| (change.before.tier, change.after.tier)).collect();
    assert_eq!(moves, [(Tier::Free, Tier::Premium), (Tier::Premium, Tier::Free)], "fees follow the plan");
}

// Shows (Plans, bills and payments): Members buy visible custom plans, or request them in tickets, by name or
// identifier.
#[tokio::test]
async fn a_visible_custom_plan_with_a_price_is_bought_by_name_or_identifier() {
    let (site, stand_in) = site().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let plan = |id: u128, name: &str, base, is_visible, monthly_fee| CustomPlan {
        id: CustomPlanId(id),
        name: name.into(),
        base,
        is_visible,
        figures: PlanChange { monthly_fee, ..PlanChange::default() }.into(),
        created_at: site.app.now(),
    };
    for plan in [
        plan(1, "startup", Tier::Standard, true, None),
        plan(2, "school", Tier::Free, true, Some(900)),
        plan(3, "gift", Tier::Free, true, None),
        plan(4, "secret", Tier::Premium, false, None),
    ] {
        site.app.store.create_custom_plan(&plan).await.unwrap();
    }
    let unknown = "`tier` names no plan that `GET /plans` lists";
    for (wish, text) in [
        ("gold", unknown),
        ("secret", unknown),
        (&*CustomPlanId(4).to_string(), unknown),
        (&*CustomPlanId(9).to_string(), unknown),
        ("gift", "`tier` must be a paid plan"),
    ] {
        assert_eq!(
            begin(&site, &owner, json!({"tier": wish})).await,
            (400, json!({"error": text})),
            "{wish}"
        );
    }
    let now = async || site.app.store.tenant(tenant).await.unwrap().unwrap().custom_plan;
    let by_id = CustomPlanId(2).to_string();
    for (wish, id) in [("startup", 1), (&*by_id, 2)] {
        let (code, answer) = begin(&site, &owner, json!({"tier": wish})).await;
        assert_eq!(code, 201, "{answer}");
        let (checkout, form) = stand_in.accepted().last().cloned().unwrap();
        assert_eq!(form["metadata[custom_plan]"], CustomPlanId(id).to_string());
        assert_ne!(now().await, Some(CustomPlanId(id)));
        report(&site, COMPLETED, &checkout, "no_payment_required", 0).await;
        assert_eq!(now().await, Some(CustomPlanId(id)));
        let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 9).await.unwrap();
        let moved = audit.iter().find(|entry| entry.action == "tenant.changed").unwrap();
        assert_eq!(moved.detail, ["startup", "school"][id as usize - 1]);
    }
    let same = (409, json!({"error": "the tenant has this plan already"}));
    assert_eq!(begin(&site, &owner, json!({"tier": "school"})).await, same);

    // If a plan is deleted before the provider reports, the tenant stays on its plan.
    assert_eq!(begin(&site, &owner, json!({"tier": "startup"})).await.0, 201);
    let (checkout, _) = stand_in.accepted().last().cloned().unwrap();
    site.app.store.delete_custom_plan(CustomPlanId(1), site.app.now()).await.unwrap();
    report(&site, COMPLETED, &checkout, "no_payment_required", 0).await;
    assert_eq!(now().await, Some(CustomPlanId(2)));
}

/// Returns the amounts and reasons of the payments that match nothing, the oldest first.
async fn unmatched(site: &Site) -> Vec<(u64, String)> {
    let all = site.app.store.unmatched_payments(99).await.unwrap();
    all.into_iter().rev().map(|one| (one.cents, one.reason)).collect()
}

// Shows (Plans, bills and payments): A payment of the right amount pays an invoice that a credit note has reduced; an
// excess payment is reported to operators once.
#[tokio::test]
async fn a_payment_of_the_credited_amount_pays_the_invoice_and_the_rest_is_recorded() {
    let (site, stand_in) = site().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let number = issue(&site, tenant).await;
    assert_eq!(begin(&site, &owner, json!({"invoice": number.to_string()})).await.0, 201);
    let credit = NewCreditNote {
        invoice: number,
        year: 2027,
        cents: 190,
        seen_credited: None,
        reason: "x".into(),
        user: None,
    };
    site.app.store.issue_credit_note(&credit, site.app.now()).await.unwrap();
    let id = stand_in.accepted()[0].0.clone();
    for _ in 0..2 {
        report(&site, COMPLETED, &id, "paid", 1_190).await;
    }
    assert_eq!(status(&site, tenant, number).await, InvoiceStatus::Paid);
    assert_eq!(unmatched(&site).await, [(190, "more was paid than was owed: return the rest".to_owned())]);
    let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 9).await.unwrap();
    let paid = audit.iter().find(|entry| entry.action == "invoice.paid").unwrap();
    assert_eq!(paid.detail, format!("1190 cents, checkout {id}"), "the whole payment is in the audit");
    assert_eq!(audit.iter().filter(|entry| entry.action == "payment.unmatched").count(), 1);
}

/// Returns a completed event with a changed session.
fn changed(id: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut body: Value = serde_json::from_str(&event(COMPLETED, id, "paid", 1_190)).unwrap();
    change(&mut body["data"]["object"]);
    body.to_string()
}

// Shows (Plans, bills and payments): A payment is booked or reported, never dropped; one that does not match the
// checkout's session, mode, amount and currency completes nothing (promise 88).
#[tokio::test]
async fn a_payment_is_booked_or_reported_and_one_that_does_not_fit_completes_nothing() {
    /// The name of a case, the change to the payment, and the reported reason.
    type OddPayment = (&'static str, fn(&mut Value), &'static str);
    let odd: [OddPayment; 12] = [
        ("one cent less", |s| s["amount_total"] = 1_189.into(), "its amount is not 1190 cents"),
        ("more", |s| s["amount_total"] = 1_500.into(), "its amount is not 1190 cents"),
        ("no amount", |s| s["amount_total"] = Value::Null, "its amount is not 1190 cents"),
        ("nothing", |s| s["amount_total"] = 0.into(), "its amount is not 1190 cents"),
        ("too much to count", |s| s["amount_total"] = u64::MAX.into(), "its amount is not 1190 cents"),
        ("euros", |s| s["currency"] = "eur".into(), "its currency is not usd"),
        ("no currency", |s| s["currency"] = Value::Null, "its currency is not usd"),
        ("another mode", |s| s["mode"] = "subscription".into(), "its mode is not payment"),
        ("no mode", |s| s["mode"] = Value::Null, "its mode is not payment"),
        (
            "a payment link",
            |s| s["id"] = "cs_of_a_payment_link".into(),
            "it was not made on the page of the checkout that it names",
        ),
        (
            "an unknown checkout",
            |s| s["client_reference_id"] = "00000000-0000-7000-8000-000000000000".into(),
            "it names no checkout of this service",
        ),
        ("no reference", |s| s["client_reference_id"] = Value::Null, "it names no checkout of this service"),
    ];
    let (site, stand_in) = site().await;
    let operator = site.operator().await;
    for (name, change, reason) in odd {
        let owner = site.member(Role::Owner).await;
        let tenant = owner.user.tenant.unwrap();
        let number = issue(&site, tenant).await;
        let body = json!({"invoice": number.to_string()});
        assert_eq!(begin(&site, &owner, body).await.0, 201, "{name}");
        let id = stand_in.accepted().last().unwrap().0.clone();
        let before = unmatched(&site).await.len();
        for _ in 0..2 {
            assert_eq!(report_signed(&site, &changed(&id, change), EVENT_SECRET).await.0, 204, "{name}");
        }
        assert_eq!(status(&site, tenant, number).await, InvoiceStatus::Open, "{name}");
        let found = unmatched(&site).await;
        assert_eq!((found.len(), found.last().unwrap().1.as_str()), (before + 1, reason), "{name}: once");
        let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 9).await.unwrap();
        let recorded = audit.iter().filter(|entry| entry.action == "payment.unmatched").count();
        let names_checkout = !reason.contains("no checkout");
        assert_eq!(recorded, usize::from(names_checkout), "{name}");
        let path = "/api/v1/notifications";
        let message =
            site.ask(Some(&owner), Method::GET, path, axum::body::Body::empty()).await.body.to_string();
        assert_eq!(
            message.contains(&format!("could not be assigned: {reason}")),
            names_checkout,
            "{name}: {message}"
        );
        // A later event about the checkout's own session with the right amount still counts.
        report(&site, "checkout.session.async_payment_succeeded", &id, "paid", 1_190).await;
        assert_eq!(status(&site, tenant, number).await, InvoiceStatus::Paid, "{name}");
    }
    let answer = site.ask(
        Some(&operator),
        Method::GET,
        "/api/v1/operator/payments?limit=2",
        axum::body::Body::empty(),
    );
    let list = answer.await.body;
    assert_eq!((list.as_array().unwrap().len(), &list[0]["cents"]), (2, &json!(1_190)));
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_plan_is_completed_by_the_session_of_its_checkout_alone() {
    let (site, stand_in) = site().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let tier = async || site.app.store.tenant(tenant).await.unwrap().unwrap().tier;
    assert_eq!(begin(&site, &owner, json!({"tier": "enterprise"})).await.0, 201);
    let id = stand_in.accepted()[0].0.clone();
    let foreign = |kind: &str| {
        let event = event(kind, &id, "no_payment_required", 0);
        event.replace(&format!("cs_test_{id}"), "cs_of_a_payment_link")
    };
    assert_eq!(report_signed(&site, &foreign(COMPLETED), EVENT_SECRET).await.0, 204);
    assert_eq!((tier().await, unmatched(&site).await.len()), (Tier::Free, 1));
    assert_eq!(report_signed(&site, &foreign("checkout.session.expired"), EVENT_SECRET).await.0, 204);
    assert_eq!(begin(&site, &owner, json!({"tier": "enterprise"})).await.0, 201);
    assert_eq!(stand_in.accepted().len(), 1, "the end of another session does not end the page");
    report(&site, COMPLETED, &id, "no_payment_required", 0).await;
    assert_eq!(tier().await, Tier::Enterprise);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_payment_of_too_little_or_of_a_settled_invoice_pays_nothing() {
    let (site, stand_in) = site().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let number = issue(&site, tenant).await;
    let invoice = json!({"invoice": number.to_string()});
    assert_eq!(begin(&site, &owner, invoice.clone()).await.0, 201);
    let id = stand_in.accepted()[0].0.clone();
    let lines = CapturedLog::default();
    let guard = lines.capture("info", LogFormat::Text);
    report(&site, COMPLETED, &id, "paid", 1_189).await;
    drop(guard);
    let text = lines.text();
    let reported = "a payment matches nothing that is due";
    assert!(text.lines().any(|line| line.contains("ERROR") && line.contains(reported)), "{text}");
    assert_eq!(status(&site, tenant, number).await, InvoiceStatus::Open);
    assert_eq!(begin(&site, &owner, invoice).await.0, 201, "it can be paid on another page");
    let id = stand_in.accepted()[1].0.clone();
    site.app.store.settle_invoice(number, InvoiceStatus::Void, None, site.app.now()).await.unwrap();
    report(&site, COMPLETED, &id, "paid", 1_190).await;
    assert_eq!(status(&site, tenant, number).await, InvoiceStatus::Void);
    let reasons: Vec<_> = unmatched(&site).await.into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons, ["its amount is not 1190 cents", "the invoice is not open: return it"]);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn a_page_that_has_ended_is_not_returned_again_and_neither_is_an_old_one() {
    let (site, stand_in) = site().await;
    let tenant = site.tenant().await;
    let number = issue(&site, tenant).await;
    let pages = async || {
        let owner = site.visitor(Some(tenant), Role::Owner).await;
        assert_eq!(begin(&site, &owner, json!({"invoice": number.to_string()})).await.0, 201);
        stand_in.accepted().len()
    };
    assert_eq!((pages().await, pages().await), (1, 1));
    let id = stand_in.accepted()[0].0.clone();
    report(&site, "checkout.session.expired", &id, "unpaid", 1_190).await;
    assert_eq!((pages().await, pages().await), (2, 2));
    site.clock.advance(Duration::from_secs(23 * 3_600));
    assert_eq!(pages().await, 3);
    report(&site, COMPLETED, &id, "paid", 1_190).await;
    assert_eq!(
        status(&site, tenant, number).await,
        InvoiceStatus::Paid,
        "an event that comes out of order counts"
    );
}

#[tokio::test]
async fn an_unreachable_provider_is_retried_with_the_same_payment() {
    let (site, stand_in) = site().await;
    let owner = site.member(Role::Owner).await;
    let number = issue(&site, owner.user.tenant.unwrap()).await;
    let body = json!({"invoice": number.to_string()});
    stand_in.fail(Some(500));
    let (code, answer) = begin(&site, &owner, body.clone()).await;
    assert_eq!((code, answer), (503, json!({"error": "service temporarily unavailable"})));
    stand_in.fail(None);
    assert_eq!(begin(&site, &owner, body.clone()).await.0, 201);
    assert_eq!(begin(&site, &owner, body).await.0, 201);
    assert_eq!(stand_in.accepted().len(), 1);
    let before = stand_in.accepted()[0].0.clone();
    let plan = json!({"tier": "premium"});
    stand_in.fail(Some(402));
    let (code, answer) = begin(&site, &owner, plan.clone()).await;
    assert_eq!((code, answer), (500, json!({"error": "internal error"})));
    stand_in.fail(None);
    assert_eq!(begin(&site, &owner, plan).await.0, 201, "a payment that was refused is not asked for again");
    assert_ne!(stand_in.accepted()[1].0, before);
}

#[tokio::test]
async fn an_unpayable_object_is_refused_with_the_reason() {
    let (site, _stand_in) = site().await;
    let tenant = site.tenant().await;
    let owner = site.visitor(Some(tenant), Role::Owner).await;
    let operator = site.operator().await;
    let number = issue(&site, tenant).await;
    let foreign = issue(&site, site.tenant().await).await;
    for (body, code, text) in [
        (json!({}), 400, "exactly one of `tier` and `invoice` must be given"),
        (
            json!({"tier": "premium", "invoice": number.to_string()}),
            400,
            "exactly one of `tier` and `invoice` must be given",
        ),
        (json!({"invoice": "5"}), 400, "`invoice` must be the number of an invoice"),
        (json!({"tier": "free"}), 400, "`tier` must be a paid plan"),
        (json!({"invoice": foreign.to_string()}), 404, "invoice not found"),
        (json!({"invoice": "2026-999999"}), 404, "invoice not found"),
    ] {
        assert_eq!(begin(&site, &owner, body.clone()).await, (code, json!({ "error": text })), "{body}");
    }
    let premium = TenantChange { tier: Some(Tier::Premium), ..TenantChange::default() };
    site.app.store.update_tenant(tenant, &premium, site.app.now()).await.unwrap();
    let (code, answer) = begin(&site, &owner, json!({"tier": "premium"})).await;
    assert_eq!((code, answer), (409, json!({"error": "the tenant has this plan already"})));
    let path = format!("/api/v1/operator/invoices/{number}/credit-notes");
    let credit = json!({"cents": 1_141, "reason": "x"}).to_string();
    assert_eq!(site.ask(Some(&operator), Method::POST, &path, credit).await.status, 201);
    let (code, answer) = begin(&site, &owner, json!({"invoice": number.to_string()})).await;
    assert_eq!((code, answer), (409, json!({"error": "this amount is too small for the payment provider"})));
    site.clock.advance(Duration::from_secs(15 * 86_400));
    let owner = site.visitor(Some(tenant), Role::Owner).await;
    let (code, answer) = begin(&site, &owner, json!({"tier": "enterprise"})).await;
    assert_eq!((code, answer), (409, json!({"error": "an invoice is overdue: pay it first"})));
}

#[tokio::test]
async fn a_tenant_begins_at_most_fifty_payments_in_a_day() {
    let (site, stand_in) = site().await;
    let owner = site.member(Role::Owner).await;
    let plans = ["standard", "premium", "enterprise"];
    for n in 0..50 {
        assert_eq!(begin(&site, &owner, json!({"tier": plans[n % 3]})).await.0, 201);
        let id = stand_in.accepted()[n].0.clone();
        report(&site, "checkout.session.expired", &id, "unpaid", 0).await;
    }
    let (code, answer) = begin(&site, &owner, json!({"tier": "premium"})).await;
    assert_eq!((code, answer), (409, json!({"error": "at most 50 payments can be begun in a day"})));
}

#[tokio::test]
async fn events_without_the_signature_of_the_provider_are_refused_and_limited() {
    let (site, stand_in) = site().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let number = issue(&site, tenant).await;
    begin(&site, &owner, json!({"invoice": number.to_string()})).await;
    let paid = event(COMPLETED, &stand_in.accepted()[0].0, "paid", 1_190);
    let refused = (400, json!({"error": "the signature is not valid"}));
    for _ in 0..60 {
        assert_eq!(report_signed(&site, &paid, "whsec_another").await, refused);
    }
    assert_eq!(report_signed(&site, &paid, "whsec_another").await.0, 429);
    assert_eq!(status(&site, tenant, number).await, InvoiceStatus::Open);
    assert_eq!(report_signed(&site, "{}", EVENT_SECRET).await.0, 400);
    assert_eq!(
        report_signed(&site, &paid, EVENT_SECRET).await.0,
        204,
        "those of the provider are not limited"
    );
    assert_eq!(status(&site, tenant, number).await, InvoiceStatus::Paid);
    let long = "x".repeat(65 * 1_024);
    assert_eq!(report_signed(&site, &long, EVENT_SECRET).await.0, 413);
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn without_a_provider_an_operator_marks_invoices_as_paid() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let refused = (409, json!({"error": "billing provider not configured"}));
    assert_eq!(begin(&site, &owner, json!({"tier": "premium"})).await, refused);
    assert_eq!(report_signed(&site, "{}", EVENT_SECRET).await, refused);
}

#[tokio::test]
async fn a_payment_that_the_provider_could_not_begin_is_begun_by_the_same_request_later() {
    let (site, stand_in) = site().await;
    let owner = site.member(Role::Billing).await;
    let tenant = owner.user.tenant.unwrap();
    let body = json!({"invoice": issue(&site, tenant).await.to_string()}).to_string();
    let send = async || {
        let request = http::Request::post(format!("/api/v1/tenants/{tenant}/billing/checkout"))
            .header("authorization", format!("Bearer {}", owner.token))
            .header("idempotency-key", "once");
        site.send(request.body(body.clone().into()).unwrap()).await.status.as_u16()
    };
    stand_in.fail(Some(500));
    assert_eq!(send().await, 503);
    assert_eq!(send().await, 503, "it is tried again");
    stand_in.fail(None);
    assert_eq!(send().await, 201);
    assert_eq!(send().await, 201, "the first answer");
    assert_eq!(stand_in.accepted().len(), 1);
}
