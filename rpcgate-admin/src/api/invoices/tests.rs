//! Tests of bills and invoices, for members and operators.

use crate::testing::fixtures::issue;
use crate::testing::{Site, Visitor};
use axum::body::Body;
use http::Method;
use http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY, X_CONTENT_TYPE_OPTIONS,
};
use rpcgate_core::clock::Time;
use rpcgate_core::plan::{Price, Tier};
use rpcgate_core::usage::sample::{SampleLine, SampleRecord, SampleShipper, deed, item};
use rpcgate_management::action::billing::closing::close_months;
use rpcgate_store::{AuditSubject, InvoiceNumber, Role, TenantChange};
use serde_json::{Value, json};
use std::time::Duration;

/// The start of December 2026, the month of the clock.
const DECEMBER: u64 = 1_796_083_200;

async fn ask(site: &Site, visitor: &Visitor, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = site.ask(Some(visitor), method, &format!("/api/v1{path}"), body).await;
    site.clock.advance(Duration::from_millis(1));
    (answer.status.as_u16(), without_code(answer.body))
}

/// Returns a body, without the code if it is an error.
pub(crate) fn without_code(mut body: Value) -> Value {
    if let Some(members) = body.as_object_mut().filter(|members| members.contains_key("error")) {
        members.retain(|name, _| name == "error");
    }
    body
}

async fn get(site: &Site, visitor: &Visitor, path: &str) -> (u16, Value) {
    ask(site, visitor, Method::GET, path, Value::Null).await
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn the_bill_of_the_current_month_has_what_its_invoice_will_have() {
    let text = "[billing]\ntax_name = \"VAT\"\ntax_basis_points = 1900\n[billing.fees]\nstandard = 3100\n";
    let site = Site::of(text).await;
    let owner = site.member(Role::Billing).await;
    let tenant = owner.user.tenant.unwrap();
    let path = format!("/tenants/{tenant}/billing");
    let (status, empty) = get(&site, &owner, &path).await;
    let period = json!({"from": "2026-12-01T00:00:00.000Z", "to": "2027-01-01T00:00:00.000Z"});
    let expected = json!({"period": period, "plan": {"name": "free", "tier": "free", "monthly_fee_cents": 0, "price_per_cu": 0.0},
        "lines": [], "subtotal_cents": 0, "taxes": [{"name": "VAT", "basis_points": 1900, "cents": 0}],
        "total_cents": 0, "currency": "usd", "invoices": []});
    assert_eq!((status, empty), (200, expected));

    close_months(&site.app).await.unwrap();
    let at = site.app.now();
    let standard = TenantChange { tier: Some(Tier::Standard), ..TenantChange::default() };
    site.app.store.update_tenant(tenant, &standard, at).await.unwrap();
    let call = SampleRecord {
        tenant,
        chain: "eth",
        price: Price(1_000_000_000_000),
        ..deed(110, at, vec![SampleLine { cu: 7, ..item("a") }])
    };
    site.app.usage.ship(&SampleShipper::new(1).pack(&[call])).await.unwrap();
    site.clock.set(at.plus(Duration::from_secs(3_600)));
    let owner = site.visitor(Some(tenant), Role::Owner).await;
    let (_, bill) = get(&site, &owner, &path).await;
    let month = "2026-12-01T00:00:00.000Z";
    let lines = json!([
        {"kind": "plan", "month": month, "chain": null, "tier": "standard", "custom_plan": null, "calls": null, "compute_units": null,
            "seconds": 3600, "price": 31.0, "amount": "0.041666666666"},
        {"kind": "usage", "month": month, "chain": "eth", "tier": "standard", "custom_plan": null, "calls": 1, "compute_units": 7,
            "seconds": null, "price": 1.0, "amount": "7.000000000000"}]);
    assert_eq!(bill["lines"], lines);
    assert_eq!((&bill["subtotal_cents"], &bill["taxes"][0]["cents"]), (&json!(704), &json!(134)));
    assert_eq!(bill["total_cents"], 838);
    let plan =
        json!({"name": "standard", "tier": "standard", "monthly_fee_cents": 3100, "price_per_cu": 0.001});
    assert_eq!(bill["plan"], plan);

    site.clock.set(Time::from_secs(DECEMBER + 32 * 86_400));
    close_months(&site.app).await.unwrap();
    let owner = site.visitor(Some(tenant), Role::Owner).await;
    let (_, bill) = get(&site, &owner, &path).await;
    assert_eq!(
        (&bill["period"]["from"], &bill["lines"][0]["seconds"]),
        (&json!("2027-01-01T00:00:00.000Z"), &json!(86_400))
    );
    assert_eq!(bill["lines"].as_array().unwrap().len(), 1, "what is on an invoice is not owed again");
    assert_eq!(bill["invoices"][0]["number"], "2027-000001");
    let (_, invoice) = get(&site, &owner, &format!("/tenants/{tenant}/invoices/2027-000001")).await;
    assert_eq!(invoice["lines"][1], lines[1]);
    assert_eq!((&invoice["period"], &invoice["status"]), (&period, &json!("open")));
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn an_invoice_is_read_by_its_tenant_and_no_other() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let outsider = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let number = issue(&site, tenant).await;
    let summary = json!({"number": "2026-000001", "tenant_id": tenant.to_string(), "status": "open",
        "period": {"from": "2026-11-01T00:00:00.000Z", "to": "2026-12-01T00:00:00.000Z"},
        "issued_at": "2026-12-31T12:00:00.000Z", "due_at": "2027-01-14T12:00:00.000Z", "settled_at": null,
        "total_cents": 1190, "credited_cents": 0, "due_cents": 1190, "currency": "usd"});
    let list = get(&site, &owner, &format!("/tenants/{tenant}/invoices")).await;
    assert_eq!(list, (200, json!([summary])));
    let mut whole = summary;
    let more = json!({"seller": {"name": "Acme", "address": ["1 Main Street", "Springfield"], "tax_id": "DE1"},
        "customer": "Bank & Söhne <b>", "customer_address": ["1 High <b>Street"], "customer_tax_id": "GB1", "subtotal_cents": 1000,
        "lines": [{"kind": "usage", "month": "2026-11-01T00:00:00.000Z", "chain": "eth", "tier": "standard", "custom_plan": null, "calls": 400,
            "compute_units": 10000, "seconds": null, "price": 0.001, "amount": "10.000000000000"}],
        "taxes": [{"name": "VAT", "basis_points": 1900, "cents": 190}], "credit_notes": [], "note": null});
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let path = format!("/tenants/{tenant}/invoices/{number}");
    assert_eq!(get(&site, &owner, &path).await, (200, whole.clone()));
    let operator = site.operator().await;
    assert_eq!(get(&site, &operator, &format!("/operator/invoices/{number}")).await, (200, whole));
    let unknown = (404, json!({"error": "invoice not found"}));
    let theirs = outsider.user.tenant.unwrap();
    assert_eq!(get(&site, &outsider, &format!("/tenants/{theirs}/invoices/{number}")).await, unknown);
    assert_eq!(get(&site, &owner, &format!("/tenants/{tenant}/invoices/2026-1")).await, unknown);
    let viewer = site.visitor(Some(tenant), Role::Developer).await;
    assert_eq!(get(&site, &viewer, &path).await.0, 403);
}

// Shows (Plans, bills and payments): Operators mark invoices as paid or cancelled, and issue credit notes.
#[tokio::test]
async fn an_operator_marks_an_invoice_as_paid_or_cancelled_once() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let tenant = owner.user.tenant.unwrap();
    let other = site.tenant().await;
    let paid = issue(&site, tenant).await;
    let void = issue(&site, other).await;
    let path = |number: InvoiceNumber| format!("/operator/invoices/{number}");
    let body = json!({"status": "paid", "note": "By transfer"});
    let put = async |number, body| ask(&site, &operator, Method::PUT, &path(number), body).await;
    let (status, done) = put(paid, body.clone()).await;
    assert_eq!((status, &done["status"], &done["note"]), (200, &json!("paid"), &json!("By transfer")));
    assert_eq!((&done["due_cents"], &done["settled_at"]), (&json!(0), &json!("2026-12-31T12:00:00.000Z")));
    let again = put(paid, json!({"status": "paid", "note": "Twice"})).await;
    assert_eq!(again, (200, done), "it stays as it is");
    let refused = (409, json!({"error": "this has been decided already"}));
    assert_eq!(put(paid, json!({"status": "void"})).await, refused);
    assert_eq!(put(void, json!({"status": "void"})).await.1["status"], "void");
    assert_eq!(put(void, json!({"status": "paid"})).await, refused);
    for wrong in [json!({}), json!({"status": "open"}), json!({"status": "paid", "note": " "})] {
        assert_eq!(put(void, wrong.clone()).await.0, 400, "{wrong}");
    }
    assert_eq!(put(InvoiceNumber { year: 2026, serial: 9 }, body).await.0, 404);
    let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 9).await.unwrap();
    let entries: Vec<_> = audit.iter().map(|entry| (entry.action.as_str(), entry.detail.as_str())).collect();
    assert_eq!(entries.iter().filter(|(action, _)| action.starts_with("invoice.")).count(), 2, "{entries:?}");
    assert!(entries.contains(&("invoice.paid", "By transfer")), "{entries:?}");
}

#[tokio::test]
async fn operators_list_the_invoices_in_each_state() {
    let site = Site::new().await;
    let mut numbers = Vec::new();
    for _ in 0..4 {
        let tenant = site.tenant().await;
        numbers.push((tenant, issue(&site, tenant).await));
    }
    let settle = async |number: InvoiceNumber, status: &str| {
        let (operator, path) = (site.operator().await, format!("/operator/invoices/{number}"));
        assert_eq!(ask(&site, &operator, Method::PUT, &path, json!({ "status": status })).await.0, 200);
    };
    settle(numbers[0].1, "paid").await;
    settle(numbers[1].1, "void").await;
    let of = async |operator: &Visitor, query: &str| {
        let (status, list) = get(&site, operator, &format!("/operator/invoices{query}")).await;
        assert_eq!(status, 200, "{list}");
        let list = list.as_array().unwrap().iter();
        list.map(|one| one["number"].as_str().unwrap()[5..].parse().unwrap()).collect::<Vec<u64>>()
    };
    let operator = site.operator().await;
    assert_eq!(of(&operator, "").await, [4, 3, 2, 1]);
    assert_eq!(of(&operator, "?limit=2&cursor=2026-000004").await, [3, 2]);
    assert_eq!(of(&operator, "?status=open").await, [4, 3]);
    assert_eq!(of(&operator, "?status=overdue").await, [0; 0]);
    assert_eq!(of(&operator, "?status=paid").await, [1]);
    assert_eq!(of(&operator, "?status=void").await, [2]);
    assert_eq!(of(&operator, &format!("?tenant_id={}", numbers[2].0)).await, [3]);
    site.clock.advance(Duration::from_secs(14 * 86_400));
    let operator = site.operator().await;
    assert_eq!(of(&operator, "?status=open").await, [0; 0]);
    assert_eq!(of(&operator, "?status=overdue").await, [4, 3]);
    for wrong in ["?status=closed", "?tenant_id=x", "?cursor=4", "?limit=0"] {
        assert_eq!(get(&site, &operator, &format!("/operator/invoices{wrong}")).await.0, 400, "{wrong}");
    }
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn credit_notes_reduce_what_is_owed_until_nothing_is() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let tenant = owner.user.tenant.unwrap();
    let number = issue(&site, tenant).await;
    let path = format!("/operator/invoices/{number}/credit-notes");
    let post = async |cents: u64| {
        let body = json!({"cents": cents, "reason": "An outage"});
        ask(&site, &operator, Method::POST, &path, body).await
    };
    let (status, first) = post(119).await;
    let expected = json!({"number": "C2026-000001", "invoice": "2026-000001", "issued_at": "2026-12-31T12:00:00.000Z",
        "reason": "An outage", "net_cents": 100, "tax_cents": 19, "total_cents": 119});
    assert_eq!((status, first), (201, expected.clone()));
    let whole = async || get(&site, &owner, &format!("/tenants/{tenant}/invoices/{number}")).await.1;
    let invoice = whole().await;
    assert_eq!((&invoice["credit_notes"], &invoice["due_cents"]), (&json!([expected]), &json!(1_071)));
    assert_eq!((&invoice["status"], &invoice["total_cents"]), (&json!("open"), &json!(1_190)));
    let (status, refused) = post(1_072).await;
    let why = json!({"error": "at most 1071 cents of this invoice can be credited"});
    assert_eq!((status, refused), (409, why));
    assert_eq!(post(0).await.0, 400);
    assert_eq!(post(1_071).await.0, 201);
    let invoice = whole().await;
    assert_eq!((&invoice["status"], &invoice["credited_cents"]), (&json!("paid"), &json!(1_190)));
    assert_eq!(post(1).await.0, 409, "nothing is left");

    let other = issue(&site, site.tenant().await).await;
    let cancel = json!({"status": "void"});
    ask(&site, &operator, Method::PUT, &format!("/operator/invoices/{other}"), cancel).await;
    let path = format!("/operator/invoices/{other}/credit-notes");
    let body = json!({"cents": 1, "reason": "x"});
    assert_eq!(ask(&site, &operator, Method::POST, &path, body).await.0, 409);
}

#[tokio::test]
async fn an_invoice_has_at_most_a_hundred_credit_notes() {
    let site = Site::new().await;
    let operator = site.operator().await;
    let number = issue(&site, site.tenant().await).await;
    let path = format!("/operator/invoices/{number}/credit-notes");
    for n in 0..=100 {
        let (status, answer) =
            ask(&site, &operator, Method::POST, &path, json!({"cents": 1, "reason": "x"})).await;
        assert_eq!(status, if n < 100 { 201 } else { 409 }, "{answer}");
    }
}

#[tokio::test]
async fn one_of_parallel_settlements_decides() {
    let site = Site::new().await;
    let operator = site.operator().await;
    let number = issue(&site, site.tenant().await).await;
    let path = format!("/operator/invoices/{number}");
    let settle = |status: &str| ask(&site, &operator, Method::PUT, &path, json!({ "status": status }));
    let (a, b, c, d) = tokio::join!(settle("paid"), settle("void"), settle("paid"), settle("void"));
    let mut statuses = [a.0, b.0, c.0, d.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 409, 409]);
}

/// Returns an invoice as HTML, and the response head.
async fn page(site: &Site, visitor: &Visitor, path: &str, accept: &str) -> (http::response::Parts, String) {
    let request = http::Request::get(format!("/api/v1{path}"))
        .header(AUTHORIZATION, format!("Bearer {}", visitor.token))
        .header(ACCEPT, accept);
    let (head, body) = site.raw(request.body(Body::empty()).unwrap()).await;
    (head, String::from_utf8(body.to_vec()).unwrap())
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn the_bill_of_the_current_month_is_a_printable_page_marked_as_preliminary() {
    let site = Site::of("[billing]\nseller = \"Acme\"\n").await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let path = format!("/tenants/{tenant}/billing");
    let (head, html) = page(&site, &owner, &path, "text/html").await;
    assert_eq!((head.status.as_u16(), &head.headers[VARY]), (200, &"accept".parse().unwrap()));
    for text in [
        "<h1>Preliminary, 2026-12</h1>",
        "<p class=\"warning\">Preliminary: this is not an invoice.",
        "<dd>None, preliminary</dd>",
        "<strong>Acme</strong>",
        "Total so far in USD",
    ] {
        assert!(html.contains(text), "{text}\n{html}");
    }
    assert!(!html.contains("<script") && !html.contains("href="), "{html}");
    let (head, json) = page(&site, &owner, &path, "application/json").await;
    assert_eq!(head.headers[CONTENT_TYPE], "application/json", "{json}");
}

// Shows (Plans, bills and payments).
#[tokio::test]
async fn an_invoice_is_a_page_for_printing_that_runs_nothing() {
    let site = Site::new().await;
    let owner = site.member(Role::Owner).await;
    let tenant = owner.user.tenant.unwrap();
    let path = format!("/tenants/{tenant}/invoices/{}", issue(&site, tenant).await);
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let (head, html) = page(&site, &owner, &path, browser).await;
    assert_eq!(head.status, 200);
    assert_eq!(head.headers[CONTENT_TYPE], "text/html; charset=utf-8");
    for text in [
        "<h1>Invoice 2026-000001</h1>",
        "<strong>Acme</strong>",
        "<span>Springfield</span>",
        "Tax number: DE1",
        "<span>1 High &#60;b&#62;Street</span>",
        "Tax number: GB1",
        "<dd>2026-12-31</dd>",
        "<dd>2026-11 (UTC)</dd>",
        "<dd>2027-01-14</dd>",
        "<dd>open</dd>",
        "Compute Units on eth, plan standard",
        ">10000</td>",
        ">0.001</td>",
        ">10.00</td>",
        "VAT 19 %",
        ">1.90</td>",
        ">11.90</td>",
        "@media print",
    ] {
        assert!(html.contains(text), "{text}\n{html}");
    }
    assert!(!html.contains("<b>") && html.contains("Bank &#38; Söhne &#60;b&#62;"), "{html}");
    assert!(!html.contains("<script") && !html.contains("src=") && !html.contains("href="), "{html}");
    let style = html.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let digest = ring::digest::digest(&ring::digest::SHA256, style.as_bytes());
    let digest = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, digest);
    let policy = head.headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.starts_with(&format!("default-src 'none'; style-src 'sha256-{digest}'; ")), "{policy}");
    assert_eq!(head.headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
    assert_eq!(head.headers[CACHE_CONTROL], "no-store");
    assert_eq!(head.headers[VARY], "accept");
    let (head, json) = page(&site, &owner, &path, "*/*").await;
    assert_eq!(head.headers[CONTENT_TYPE], "application/json");
    assert!(json.starts_with('{'));

    let operator = site.operator().await;
    let body = json!({"cents": 190, "reason": "x"});
    let credit = "/operator/invoices/2026-000001/credit-notes";
    assert_eq!(ask(&site, &operator, Method::POST, credit, body).await.0, 201);
    let (_, html) = page(&site, &owner, &path, "text/html").await;
    assert!(
        html.contains("Credit note C2026-000001 of 2026-12-31") && html.contains(">-1.90</td>"),
        "{html}"
    );
    assert!(html.contains("To be paid in USD") && html.contains(">10.00</td>"), "{html}");
    let viewer = site.visitor(Some(tenant), Role::Viewer).await;
    assert_eq!(page(&site, &viewer, &path, browser).await.0.status, 403);
}
