//! Tests of a ticket.

use super::super::tests::fixture::OperatorFixture;
use crate::tests::hostile::{HOSTILE, assert_shown};
use crate::tests::{HtmlPage, cookie, form_token, get};
use axum::body::Body;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, COOKIE};
use rpcgate_store::{TicketAttachmentId, TicketId};

const WAITING: &str = "<span class=\"badge warn\">Waiting for us</span>";

// Shows (Dashboard).
#[tokio::test]
async fn a_ticket_is_answered_noted_closed_and_reopened() {
    let fixture = OperatorFixture::named("Acme").await;
    let id = fixture.ticket("Null receipts", "One\ntwo\n\nthree").await;
    let path = format!("/operator/tickets/{id}");
    let theirs = format!("/support/{id}");
    let page = fixture.get(&path).await.text;
    assert!(page.contains("<p>One<br>two</p>") && page.contains(WAITING), "{page}");
    let comments = format!("{path}/comments");
    let noted =
        fixture.post(&comments, &[("text", "He owes us"), ("internal", "yes"), ("status", "closed")]).await;
    assert!(noted.leads_to().1.ends_with("?done=note-left"), "{}", noted.text);
    let page = fixture.get(&path).await.text;
    assert!(
        page.contains("Internal note</span>") && page.contains(WAITING),
        "a note changes no status: {page}"
    );
    let answered = fixture.post(&comments, &[("text", "Mended"), ("status", "answered")]).await;
    assert!(answered.leads_to().1.ends_with("?done=ticket-answered"), "{}", answered.text);
    let customer = get(&fixture.site, &theirs, &cookie(&fixture.site, &fixture.owner)).await.text;
    assert!(customer.contains("Mended") && !customer.contains("He owes us"), "{customer}");
    assert!(
        fixture.get(&path).await.text.contains("<span class=\"badge info\">Waiting for the tenant</span>")
    );
    fixture
        .post(&comments, &[("text", " "), ("status", "answered")])
        .await
        .assert_wrong("text", "Not sent: ");
    fixture
        .post(&comments, &[("text", "Kept"), ("status", "odd")])
        .await
        .assert_wrong("status", "Not sent: ");
    let status = format!("{path}/status");
    let closed = fixture.post(&status, &[("status", "closed")]).await;
    assert!(closed.leads_to().1.ends_with("?done=ticket-status-set"), "{}", closed.text);
    let page = fixture.get(&path).await.text;
    assert!(page.contains("Reopen the ticket") && !page.contains("Attach the file"), "{page}");
    let late = fixture.post(&comments, &[("text", "Late"), ("status", "answered")]).await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    assert!(late.text.contains("Late"), "what was written is kept: {}", late.text);
    fixture.post(&status, &[("status", "open")]).await;
    assert!(fixture.get(&path).await.text.contains("Close the ticket"));
}

// Shows (Dashboard).
#[tokio::test]
async fn only_operators_see_the_ticket_page_and_no_text_is_markup() {
    for hostile in HOSTILE {
        let fixture = OperatorFixture::named(hostile).await;
        let path = format!("/operator/tickets/{}", fixture.ticket(hostile, hostile).await);
        let comments = format!("{path}/comments");
        fixture.post(&comments, &[("text", hostile), ("internal", "yes")]).await;
        fixture.post(&comments, &[("text", hostile), ("status", "answered")]).await;
        assert_shown(&fixture.get(&path).await, hostile);
        let refused = fixture.post(&comments, &[("text", hostile), ("status", hostile)]).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(!refused.text.contains("alert(1)</script>"), "{}", refused.text);
    }
    let fixture = OperatorFixture::named("Acme").await;
    let path = format!("/operator/tickets/{}", fixture.ticket("Subject", "Text").await);
    fixture.assert_operators(&path).await;
    for form in ["comments", "status"] {
        fixture.assert_guarded(&format!("{path}/{form}")).await;
        let unknown = format!("/operator/tickets/{}/{form}", TicketId(7));
        let fields = [("text", "x"), ("status", "closed")];
        assert_eq!(fixture.post(&unknown, &fields).await.status, StatusCode::NOT_FOUND, "{unknown}");
    }
    assert_eq!(
        fixture.get(&format!("/operator/tickets/{}", TicketId(7))).await.status,
        StatusCode::NOT_FOUND
    );
    let unknown = format!("{path}/files/{}", TicketAttachmentId(7));
    assert_eq!(fixture.get(&unknown).await.status, StatusCode::NOT_FOUND);
}

/// Sends a file as a browser does.
async fn attached(fixture: &OperatorFixture, path: &str, name: &str, token: &str) -> HtmlPage {
    let body = format!(
        "--b7\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n{token}\r\n--b7\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: text/html\r\n\r\n\
         what the log says\r\n--b7--\r\n"
    );
    let request =
        http::Request::post(path).header("sec-fetch-site", "same-origin").header(COOKIE, &fixture.own);
    let request = request.header(CONTENT_TYPE, "multipart/form-data; boundary=b7");
    let (head, body) = fixture.site.raw(request.body(Body::from(body)).unwrap()).await;
    HtmlPage { status: head.status, headers: head.headers, text: String::from_utf8_lossy(&body).into_owned() }
}

// Shows (Dashboard).
#[tokio::test]
async fn a_file_of_an_operator_is_one_of_the_ticket() {
    let fixture = OperatorFixture::named("Acme").await;
    let id = fixture.ticket("Subject", "Text").await;
    let path = format!("/operator/tickets/{id}");
    let token = form_token(&fixture.site, &fixture.own);
    let files = format!("{path}/files");
    assert_eq!(attached(&fixture, &files, "a.txt", "wrong").await.status, StatusCode::FORBIDDEN);
    let sent = attached(&fixture, &files, "a.txt", &token).await;
    assert!(sent.leads_to().1.ends_with("?done=file-attached"), "{}", sent.text);
    let page = fixture.get(&path).await.text;
    let address = page.split(&format!("operator/tickets/{id}/files/")).nth(1).unwrap();
    let file = address.split('"').next().unwrap();
    let got = fixture.get(&format!("{files}/{file}")).await;
    assert_eq!((got.status, got.text.as_str()), (StatusCode::OK, "what the log says"));
    assert!(got.header(CONTENT_DISPOSITION).starts_with("attachment"), "{got:?}");
    let customer =
        get(&fixture.site, &format!("/support/{id}"), &cookie(&fixture.site, &fixture.owner)).await;
    assert!(customer.text.contains("a.txt"), "{}", customer.text);
    let member = get(&fixture.site, &format!("{files}/{file}"), &cookie(&fixture.site, &fixture.owner)).await;
    assert_eq!(member.status, StatusCode::NOT_FOUND);
}
