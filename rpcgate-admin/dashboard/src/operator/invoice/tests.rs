//! Tests of operators' actions on invoices, and of the list of invoices.

use super::super::tests::fixture::OperatorFixture;
use super::*;
use crate::testing::fixtures::issue;
use crate::tests::{cookie, get};
use http::StatusCode;
use std::time::Duration;

#[test]
fn an_amount_is_read_as_people_write_it() {
    for (text, cents) in [
        ("120.50", Some(12_050)),
        ("$1,204.5", Some(120_450)),
        ("7", Some(700)),
        ("0.01", Some(1)),
        ("", None),
        (".5", None),
        ("1.234", None),
        ("1.2.3", None),
        ("-1", None),
        ("x", None),
        ("184467440737095516160", None),
    ] {
        assert_eq!(cents_of(text), cents, "{text}");
    }
}

// Shows (Dashboard).
#[tokio::test]
async fn invoices_are_for_operators_alone_and_the_overdue_ones_are_listed_first() {
    let fixture = OperatorFixture::named("Acme").await;
    let number = issue(&fixture.site, fixture.tenant).await;
    let path = format!("/operator/invoices/{number}");
    fixture.assert_operators("/operator/invoices").await;
    fixture.assert_operators(&path).await;
    for form in ["ask", "do"] {
        fixture.assert_guarded(&format!("{path}/{form}")).await;
        let unknown =
            fixture.post(&format!("/operator/invoices/2026-999999/{form}"), &[("act", "paid")]).await;
        assert_eq!(unknown.status, StatusCode::NOT_FOUND, "{form}");
    }
    for unknown in ["2026-999999", "x"] {
        let page = fixture.get(&format!("/operator/invoices/{unknown}")).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{unknown}");
    }
    let has = async |query: &str| {
        let page = fixture.get(&format!("/operator/invoices{query}")).await;
        assert_eq!(page.status, StatusCode::OK, "{query}");
        page.text.contains(&format!("operator/invoices/{number}\""))
    };
    assert!(
        !has("").await && has("?state=open").await && has("?state=all").await && !has("?state=paid").await
    );
    assert!(has(&format!("?state=all&tenant={}", fixture.tenant)).await);
    assert!(!has(&format!("?state=all&tenant={}", fixture.site.tenant().await)).await);
    fixture.get("/operator/invoices?tenant=x").await.assert_wrong("tenant", "Not shown: ");
    assert_eq!(fixture.get("/operator/invoices?after=x").await.status, StatusCode::BAD_REQUEST);
    let page = fixture.get(&path).await.text;
    assert!(page.contains("Bank &#38; Söhne &#60;b&#62;") && !page.contains("Söhne <b>"), "{page}");
}

#[tokio::test]
async fn an_invoice_that_was_not_paid_in_time_waits_for_operators() {
    let fixture = OperatorFixture::named("Acme").await;
    let number = issue(&fixture.site, fixture.tenant).await;
    fixture.site.clock.advance(Duration::from_secs(15 * 86_400));
    // Their sessions have ended meanwhile.
    let own = cookie(&fixture.site, &fixture.site.operator().await);
    let has = async |query: &str| {
        let page = get(&fixture.site, &format!("/operator/invoices{query}"), &own).await;
        assert_eq!(page.status, StatusCode::OK, "{query}");
        page.text.contains(&format!("operator/invoices/{number}\""))
    };
    assert!(has("").await && !has("?state=open").await && has("?state=all").await);
    assert!(!has(&format!("?after={number}")).await, "it is behind this place");
    let first = get(&fixture.site, "/operator", &own).await.text;
    assert!(first.contains(&format!("{number} of Bank &#38; Söhne &#60;b&#62; is overdue since")), "{first}");
}

// Shows (Dashboard).
#[tokio::test]
async fn an_invoice_is_asked_about_and_then_paid() {
    let fixture = OperatorFixture::named("Acme").await;
    let path = format!("/operator/invoices/{}", issue(&fixture.site, fixture.tenant).await);
    let note = "Wire <b> of today";
    let question = fixture.post(&format!("{path}/ask"), &[("act", "paid"), ("note", note)]).await;
    assert_eq!(question.status, StatusCode::OK, "{}", question.text);
    assert!(
        question.text.contains("$11.90") && question.text.contains("name=\"act\" value=\"paid\""),
        "{}",
        question.text
    );
    assert!(!question.text.contains(note), "{}", question.text);
    assert!(fixture.get(&path).await.text.contains("Mark as paid…"), "asking changes nothing");
    let done = fixture.post(&format!("{path}/do"), &[("act", "paid"), ("note", note)]).await;
    assert!(done.leads_to().1.ends_with("?done=invoice-paid"), "{}", done.text);
    let page = fixture.get(&path).await.text;
    assert!(!page.contains("Mark as paid…") && page.contains("Wire &#60;b&#62; of today"), "{page}");
    let other = fixture.post(&format!("{path}/do"), &[("act", "void")]).await;
    assert_eq!(other.status, StatusCode::CONFLICT, "{}", other.text);
    let none = fixture.post(&format!("{path}/ask"), &[("act", "burn")]).await;
    assert_eq!(none.status, StatusCode::BAD_REQUEST);
    assert!(none.text.contains("Choose what to do with the invoice."), "{}", none.text);
}

// Shows (Dashboard).
#[tokio::test]
async fn an_invoice_is_credited_and_cancelled() {
    let fixture = OperatorFixture::named("Acme").await;
    let path = format!("/operator/invoices/{}", issue(&fixture.site, fixture.tenant).await);
    let ask = format!("{path}/ask");
    let act = format!("{path}/do");
    let credit = [("act", "credit"), ("amount", "1.90"), ("reason", "A bad day")];
    let question = fixture.post(&ask, &credit).await.text;
    assert!(
        question.contains("Credit $1.90 of") && question.contains("$10.00 instead of $11.90"),
        "{question}"
    );
    for (amount, reason, field) in [("x", "why", "amount"), ("0", "why", "amount"), ("1", " ", "reason")] {
        let wrong = [("act", "credit"), ("amount", amount), ("reason", reason)];
        fixture.post(&ask, &wrong).await.assert_wrong(field, "Not done: ");
    }
    assert!(question.contains("name=\"credited\" value=\"0\""), "{question}");
    let sent = [credit[0], credit[1], credit[2], ("credited", "0")];
    let done = fixture.post(&act, &sent).await;
    assert!(done.leads_to().1.ends_with("?done=invoice-credited"), "{}", done.text);
    let again = fixture.post(&act, &sent).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.text);
    assert!(again.text.contains("was credited in the meantime"), "{}", again.text);
    assert!(fixture.get(&path).await.text.contains("To be paid in USD"));
    let more = fixture.post(&act, &[("act", "credit"), ("amount", "100"), ("reason", "Too much")]).await;
    assert_eq!(more.status, StatusCode::CONFLICT, "{}", more.text);
    assert!(
        fixture
            .post(&ask, &[("act", "void")])
            .await
            .text
            .contains("no longer owes the $10.00 of this invoice")
    );
    let done = fixture.post(&act, &[("act", "void")]).await;
    assert!(done.leads_to().1.ends_with("?done=invoice-cancelled"), "{}", done.text);
    let page = fixture.get(&path).await.text;
    assert!(!page.contains("Issue a credit note…") && page.contains("Cancelled"), "{page}");
}
