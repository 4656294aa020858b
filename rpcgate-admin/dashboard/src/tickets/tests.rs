//! Tests of the support pages: tickets, comments, files.

use super::*;
use crate::testing::{Site, Visitor};
use crate::tests::hostile::{
    HOSTILE, assert_for, assert_protected, assert_shown, cookies, everybody, forged, led_id,
};
use crate::tests::{HtmlPage, cookie, form_token, get, post};
use axum::body::Body;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, COOKIE};
use rpcgate_store::Role;
use std::time::Duration;

/// Creates a ticket and returns its identifier.
async fn written(site: &Site, own: &str, subject: &str, text: &str) -> String {
    let form = [("category", "problem"), ("subject", subject), ("text", text), ("plan", "")];
    let made = post(site, "/support/new", own, &form).await;
    // Rows of the same time have no order.
    site.clock.advance(Duration::from_millis(1));
    led_id(&made)
}

/// Sends a file as a browser does.
async fn attached(
    site: &Site,
    path: &str,
    own: &str,
    (name, content): (&str, &[u8]),
    token: &str,
) -> HtmlPage {
    let mut body = format!(
        "--b7\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n{token}\r\n--b7\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: text/html\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(content);
    body.extend_from_slice(b"\r\n--b7--\r\n");
    let request = http::Request::post(path).header("sec-fetch-site", "same-origin").header(COOKIE, own);
    let request = request.header(CONTENT_TYPE, "multipart/form-data; boundary=b7");
    let (head, body) = site.raw(request.body(Body::from(body)).unwrap()).await;
    site.clock.advance(Duration::from_millis(1));
    HtmlPage { status: head.status, headers: head.headers, text: String::from_utf8_lossy(&body).into_owned() }
}

#[tokio::test]
async fn a_ticket_is_written_answered_closed_rated_and_reopened() {
    let site = Site::new().await;
    let visitor = site.member(Role::Developer).await;
    let own = cookie(&site, &visitor);
    assert!(get(&site, "/support", &own).await.text.contains("No tickets yet"));
    let id = written(&site, &own, "Null receipts", "First line\nsecond line\n\nNext").await;
    let path = format!("/support/{id}");
    let page = get(&site, &format!("{path}?done=ticket-written"), &own).await;
    assert!(page.text.contains("We have received your ticket."), "{}", page.text);
    assert!(page.text.contains("<p>First line<br>second line</p>") && page.text.contains("Waiting for us"));

    let comment = post(&site, &format!("{path}/comments"), &own, &[("text", "More")]).await;
    assert_eq!(
        comment.leads_to(),
        (StatusCode::SEE_OTHER, format!("../../support/{id}?done=comment-added").as_str())
    );
    let closed = post(&site, &format!("{path}/close"), &own, &[]).await;
    assert_eq!(closed.leads_to().1, format!("../../support/{id}?done=ticket-closed"));
    let again = post(&site, &format!("{path}/close"), &own, &[]).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.text);
    let late = post(&site, &format!("{path}/comments"), &own, &[("text", "Late")]).await;
    assert_eq!(late.status, StatusCode::CONFLICT);

    let page = get(&site, &path, &own).await;
    assert!(page.text.contains("How did we do?") && !page.text.contains("Send the answer"), "{}", page.text);
    let rate = format!("{path}/rating");
    post(&site, &rate, &own, &[("text", "x")]).await.assert_wrong("rating", "Not sent: ");
    post(&site, &rate, &own, &[("rating", "6")]).await.assert_wrong("rating", "Not sent: ");
    let rated = post(&site, &rate, &own, &[("rating", "5"), ("text", "Fast")]).await;
    assert_eq!(rated.status, StatusCode::SEE_OTHER, "{}", rated.text);
    let page = get(&site, &path, &own).await;
    assert!(page.text.contains("5 of 5") && page.text.contains("Fast"), "{}", page.text);
    assert_eq!(post(&site, &rate, &own, &[("rating", "1")]).await.status, StatusCode::CONFLICT);
    let open = post(&site, &format!("{path}/reopen"), &own, &[]).await;
    assert_eq!(open.leads_to().1, format!("../../support/{id}?done=ticket-reopened"));
    assert!(get(&site, &path, &own).await.text.contains("Send the answer"));
}

// Shows (Dashboard).
#[tokio::test]
async fn every_text_of_a_ticket_is_shown_and_none_is_run() {
    let site = Site::new().await;
    let visitor = site.member(Role::Developer).await;
    let own = cookie(&site, &visitor);
    for text in HOSTILE {
        let id = written(&site, &own, text, text).await;
        let path = format!("/support/{id}");
        assert_eq!(
            post(&site, &format!("{path}/comments"), &own, &[("text", text)]).await.status,
            StatusCode::SEE_OTHER
        );
        let page = get(&site, &path, &own).await;
        assert_shown(&page, text);
        let list = get(&site, "/support", &own).await;
        assert_shown(&list, text);
        assert_eq!(post(&site, &format!("{path}/close"), &own, &[]).await.status, StatusCode::SEE_OTHER);
        let rated = post(&site, &format!("{path}/rating"), &own, &[("rating", "1"), ("text", text)]).await;
        assert_eq!(rated.status, StatusCode::SEE_OTHER, "{}", rated.text);
        assert_shown(&get(&site, &path, &own).await, text);
        // The values that a form keeps are in fields.
        let refused =
            post(&site, "/support/new", &own, &[("category", text), ("subject", text), ("text", text)]).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(
            !refused.text.contains("alert(1)</script>") && !refused.text.contains("onerror=alert(1)>"),
            "{}",
            refused.text
        );
    }
}

// Shows (Dashboard): Files of tickets are uploaded by a form and downloaded as files to save.
#[tokio::test]
async fn files_are_uploaded_and_downloaded_as_files() {
    let site = Site::new().await;
    let visitor = site.member(Role::Developer).await;
    let own = cookie(&site, &visitor);
    let id = written(&site, &own, "A file", "See it").await;
    let path = format!("/support/{id}/files");
    let token = form_token(&site, &own);
    let script = b"<script>alert(1)</script>";
    let forged = attached(&site, &path, &own, ("a.txt", script), "0123").await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN, "{}", forged.text);
    let up = attached(&site, &path, &own, ("a%22><img src=x onerror=alert(1)>.html", script), &token).await;
    assert_eq!(
        up.leads_to(),
        (StatusCode::SEE_OTHER, format!("../../support/{id}?done=file-attached").as_str()),
        "{}",
        up.text
    );
    let page = get(&site, &format!("/support/{id}"), &own).await;
    assert!(page.text.contains("1 of 10") && !page.text.contains("onerror=alert(1)>"), "{}", page.text);
    let (_, rest) = page.text.split_once("/files/").unwrap();
    let file = format!("{path}/{}", rest.split('"').next().unwrap());
    let down = get(&site, &file, &own).await;
    assert_eq!((down.status, down.text.as_bytes()), (StatusCode::OK, &script[..]));
    assert!(down.header(CONTENT_DISPOSITION).starts_with("attachment"), "it is saved and never shown");
    assert!(down.header(CONTENT_TYPE).starts_with("text/plain"));

    for (name, content, status) in [
        ("", &b""[..], StatusCode::BAD_REQUEST),
        ("empty.txt", b"", StatusCode::BAD_REQUEST),
        ("a.exe", b"MZ\x90\x00\x03", StatusCode::BAD_REQUEST),
    ] {
        let refused = attached(&site, &path, &own, (name, content), &token).await;
        assert_eq!(refused.status, status, "{name}: {}", refused.text);
        assert!(refused.text.contains("role=\"alert\""), "{name}: {}", refused.text);
    }
    let large = vec![b'x'; rpcgate_management::attachment::MAX_BYTES + 1];
    let refused = attached(&site, &path, &own, ("large.txt", &large), &token).await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(refused.text.contains("The file is larger than 10 MiB."), "{}", refused.text);

    let outsider = cookie(&site, &site.member(Role::Owner).await);
    assert_eq!(get(&site, &file, &outsider).await.status, StatusCode::NOT_FOUND);
    let foreign = attached(&site, &path, &outsider, ("a.txt", b"x"), &form_token(&site, &outsider)).await;
    assert_eq!(foreign.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn forms_show_their_errors_and_keep_the_input() {
    let site = Site::new().await;
    let own = cookie(&site, &site.member(Role::Developer).await);
    let new = async |category: &str, subject: &str, text: &str| {
        post(&site, "/support/new", &own, &[("category", category), ("subject", subject), ("text", text)])
            .await
    };
    new("nothing", "Kept", "Text").await.assert_wrong("category", "Not sent: ");
    let wrong = new("problem", "", "Kept text").await;
    wrong.assert_wrong("subject", "Not sent: ");
    assert!(wrong.text.contains("Kept text"), "{}", wrong.text);
    new("problem", "Kept", "").await.assert_wrong("text", "Not sent: ");
    let long = "x".repeat(5_001);
    new("problem", "Kept", &long).await.assert_wrong("text", "Not sent: ");
    let id = written(&site, &own, "One", "Text").await;
    post(&site, &format!("/support/{id}/comments"), &own, &[("text", " ")])
        .await
        .assert_wrong("text", "Not sent: ");
}

#[tokio::test]
async fn a_link_names_the_request_that_a_ticket_is_about() {
    let site = Site::new().await;
    let own = cookie(&site, &site.member(Role::Developer).await);
    let request = RequestId(7).to_string();
    let filled = get(&site, &format!("/support/new?request={request}"), &own).await;
    assert!(filled.text.contains(&format!("This is about the request {request}.")), "{}", filled.text);
    assert!(filled.text.contains("value=\"problem\" selected"), "{}", filled.text);
    for other in ["", "7", "%3Cscript%3E"] {
        let empty = get(&site, &format!("/support/new?request={other}"), &own).await;
        assert_eq!(empty.status, StatusCode::OK, "{other}");
        assert!(!empty.text.contains("This is about"), "{other}: {}", empty.text);
    }
}

#[tokio::test]
async fn a_ticket_for_a_higher_limit_is_linked_to_its_request() {
    let site = Site::new().await;
    let visitor = site.member(Role::Developer).await;
    let own = cookie(&site, &visitor);
    let filled = get(&site, "/support/new?category=limit_increase", &own).await;
    assert!(filled.text.contains("value=\"limit_increase\" selected"), "{}", filled.text);
    let form =
        [("category", "limit_increase"), ("subject", "More"), ("text", "We grow"), ("plan", "standard")];
    let id = led_id(&post(&site, "/support/new", &own, &form).await);
    let page = get(&site, &format!("/support/{id}"), &own).await;
    assert!(page.text.contains("href=\"../plan/request\""), "{}", page.text);
    let requests = get(&site, "/plan/request", &own).await;
    assert!(
        requests.text.contains("We grow") && requests.text.contains("Waiting for our decision"),
        "{}",
        requests.text
    );
}

// Shows (Dashboard): Pages for members admit the roles that the API admits; forms without their token and resources of
// other tenants are refused.
#[tokio::test]
async fn roles_decide_who_writes_and_tenants_who_reads() {
    let site = Site::new().await;
    let all = everybody(&site).await;
    let visitors = cookies(&all);
    let of = |name: &str| visitors.iter().find(|(own, _)| *own == name).unwrap().1;
    let members = ["owner", "admin", "billing", "developer", "viewer"];
    let writers = ["owner", "admin", "billing", "developer"];
    let id = written(&site, of("owner"), "Ours", "Text").await;
    for path in ["/support".to_owned(), format!("/support/{id}")] {
        assert_for(&site, &path, &visitors, &members).await;
    }
    assert_for(&site, "/support/new", &visitors, &writers).await;
    let read = get(&site, &format!("/support/{id}"), of("viewer")).await;
    for action in ["Close, it is solved", "Send the answer", "Attach the file"] {
        assert!(!read.text.contains(action), "a viewer does not see: {action}");
    }
    for action in ["comments", "close", "reopen", "rating"] {
        assert_protected(&site, &format!("/support/{id}/{action}"), of("developer"), of("viewer")).await;
    }
    assert_protected(&site, "/support/new", of("developer"), of("viewer")).await;
    let outsider: Visitor = site.member(Role::Owner).await;
    let outsider = cookie(&site, &outsider);
    assert_eq!(get(&site, &format!("/support/{id}"), &outsider).await.status, StatusCode::NOT_FOUND);
    for action in ["comments", "close", "reopen", "rating"] {
        let form = [("text", "x"), ("rating", "3")];
        let foreign = post(&site, &format!("/support/{id}/{action}"), &outsider, &form).await;
        assert_eq!(foreign.status, StatusCode::NOT_FOUND, "{action}: {}", foreign.text);
    }
    for strange in ["/support/7", "/support/0190163d-8694-739b-aea5-966c26f8ad91"] {
        assert_eq!(get(&site, strange, of("owner")).await.status, StatusCode::NOT_FOUND, "{strange}");
    }
    assert_eq!(forged(&site, "/support/new", of("owner"), &[]).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_list_is_filtered_and_paged() {
    let site = Site::of("[admin.tickets]\nopen = 100\n").await;
    let own = cookie(&site, &site.member(Role::Developer).await);
    for number in 0..=SHOWN {
        written(&site, &own, &format!("Ticket {number}."), "Text").await;
    }
    let first = get(&site, "/support?status=open", &own).await;
    assert!(
        first.text.contains(&format!("Ticket {SHOWN}.")) && !first.text.contains("Ticket 0."),
        "{}",
        first.text
    );
    let (_, rest) = first.text.split_once("href=\"support?status=open&#38;before=").unwrap();
    let next = format!("/support?status=open&before={}", rest.split('"').next().unwrap());
    let second = get(&site, &next, &own).await;
    assert!(second.text.contains("Ticket 0.") && !second.text.contains("Ticket 1."), "{}", second.text);
    assert!(get(&site, "/support?status=closed", &own).await.text.contains("No ticket has this status"));
    assert_eq!(get(&site, "/support?before=x", &own).await.status, StatusCode::BAD_REQUEST);
}
