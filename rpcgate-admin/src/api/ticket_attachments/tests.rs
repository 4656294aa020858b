use crate::api::tickets::tests::{get, post, ticket, told};
use crate::testing::{Site, Visitor};
use axum::body::Body;
use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
};
use http::{HeaderMap, Method};
use rpcgate_management::attachment::media_type;
use rpcgate_store::{AttachmentKind, AuditSubject, Role};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

async fn attach(site: &Site, visitor: &Visitor, path: &str, content: impl Into<Body>) -> (u16, Value) {
    let answer = site.ask(Some(visitor), Method::POST, &format!("/api/v1{path}"), content).await;
    site.clock.advance(Duration::from_millis(1));
    (answer.status.as_u16(), told(answer.body))
}

async fn download(site: &Site, visitor: &Visitor, path: &str) -> (u16, HeaderMap, Bytes) {
    let request = http::Request::get(format!("/api/v1{path}"))
        .header(AUTHORIZATION, format!("Bearer {}", visitor.token))
        .body(Body::empty());
    let (head, body) = site.raw(request.unwrap()).await;
    (head.status.as_u16(), head.headers, body)
}

// Shows (Management): A ticket has at most 10 attachments of 10 MiB each; they are served with `Content-Disposition:
// attachment`, `nosniff` and a content type that we choose.
#[tokio::test]
async fn a_file_comes_back_as_it_was_and_only_as_something_to_save() {
    let site = Site::new().await;
    let author = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let path = ticket(&site, &author).await;
    let files = format!("{path}/attachments");
    // The file is longer than a chunk, and not a multiple of one.
    let text = "<script>alert('größer')</script>\n".repeat(20_000);
    let (status, made) =
        attach(&site, &author, &format!("{files}?filename=..%2Fseite.html"), text.clone()).await;
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().unwrap();
    let expected = json!({"id": id, "author": "member", "user_id": author.user.id.to_string(),
        "name": "seite.html.txt", "kind": "text", "bytes": text.len(), "created_at": "2026-12-31T12:00:00.001Z"});
    assert_eq!(made, expected);
    assert_eq!(attach(&site, &author, &files, PNG).await.1["name"], "file.png");
    let (status, listed) = get(&site, &author, &files).await;
    assert_eq!((status, &listed[0], &listed[1]["kind"]), (200, &expected, &json!("png")));
    let theirs = files.replace("/support/", "/operator/");
    assert_eq!(get(&site, &operator, &theirs).await, (200, listed));
    let viewer = site.visitor(author.user.tenant, Role::Viewer).await;
    for (visitor, files) in [(&author, &files), (&viewer, &files), (&operator, &theirs)] {
        let (status, headers, content) = download(&site, visitor, &format!("{files}/{id}")).await;
        assert_eq!(status, 200);
        assert!(content == text.as_bytes(), "the content is unchanged");
        assert_eq!(headers[CONTENT_TYPE], "text/plain; charset=utf-8");
        assert_eq!(headers[CONTENT_LENGTH], text.len().to_string());
        let disposition = "attachment; filename=\"seite.html.txt\"; filename*=UTF-8''seite.html.txt";
        assert_eq!(headers[CONTENT_DISPOSITION], disposition);
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers[CONTENT_SECURITY_POLICY], "default-src 'none'; sandbox");
    }
    assert_eq!(attach(&site, &viewer, &files, "x").await.0, 403);
    let entries = site.app.store.audit(AuditSubject::Tenant(author.user.tenant.unwrap()), 99).await.unwrap();
    assert_eq!(entries.iter().filter(|entry| entry.action == "ticket.file_attached").count(), 2);
}

// Shows (Management).
#[tokio::test]
async fn a_file_belongs_to_its_ticket_and_its_tenant() {
    let site = Site::new().await;
    let author = site.member(Role::Owner).await;
    let outsider = site.member(Role::Owner).await;
    let first = ticket(&site, &author).await;
    let second = ticket(&site, &author).await;
    let foreign = ticket(&site, &outsider).await;
    let (_, made) = attach(&site, &author, &format!("{first}/attachments"), "mine").await;
    let id = made["id"].as_str().unwrap();
    for (visitor, path) in
        [(&outsider, &first), (&outsider, &foreign), (&author, &second), (&author, &foreign)]
    {
        let (status, _, body) = download(&site, visitor, &format!("{path}/attachments/{id}")).await;
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status, 404, "{path}: {body}");
    }
    assert_eq!(download(&site, &author, &format!("{first}/attachments/{id}")).await.0, 200);
}

// Shows (Management).
#[tokio::test]
async fn size_number_and_kind_of_files_are_bounded() {
    let site = Site::of("[admin.tickets]\nattachment_bytes = \"11MiB\"\n").await;
    let author = site.member(Role::Owner).await;
    let path = ticket(&site, &author).await;
    let files = format!("{path}/attachments");
    for (content, text) in [
        (&b""[..], "the file is empty"),
        (b"MZ\x90\0\x03", "this kind of file is not accepted"),
        (b"\x7fELF\x02\x01\x01\0", "this kind of file is not accepted"),
    ] {
        let (status, refused) = attach(&site, &author, &files, content).await;
        assert_eq!(status, 400);
        assert!(refused["error"].as_str().unwrap().starts_with(text), "{refused}");
    }
    let full = "x".repeat(10 << 20);
    let (status, refused) = attach(&site, &author, &files, full.clone() + "x").await;
    assert_eq!((status, refused), (413, json!({"error": "the file is larger than 10 MiB"})));
    assert_eq!(attach(&site, &author, &files, full.clone()).await.0, 201);
    let (status, refused) = attach(&site, &author, &files, full).await;
    let text = "the files of an organisation have at most 11 MiB together";
    assert_eq!((status, refused), (409, json!({ "error": text })));
    for number in 1..10 {
        assert_eq!(attach(&site, &author, &files, "x").await.0, 201, "{number}");
    }
    let full = (409, json!({"error": "at most 10 files can be attached to a ticket"}));
    assert_eq!(attach(&site, &author, &files, "x").await, full);
    let (_, listed) = get(&site, &author, &files).await;
    assert_eq!(listed.as_array().unwrap().len(), 10);
    assert_eq!(post(&site, &author, &format!("{path}/close"), Value::Null).await.0, 200);
    assert_eq!(attach(&site, &author, &files, "x").await.0, 409, "it is closed");
}

// Shows (Management).
#[tokio::test]
async fn a_file_of_an_operator_is_seen_by_the_tenant_without_the_operators_identity() {
    let site = Site::new().await;
    let author = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let path = ticket(&site, &author).await;
    let files = format!("{path}/attachments");
    let theirs = files.replace("/support/", "/operator/");
    let (status, made) = attach(&site, &operator, &format!("{theirs}?filename=fix.html"), "a fix").await;
    assert_eq!((status, &made["name"], &made["author"]), (201, &json!("fix.html.txt"), &json!("operator")));
    assert_eq!(made["user_id"], operator.user.id.to_string());
    assert_eq!(get(&site, &operator, &theirs).await, (200, json!([made])));
    let mut seen = made.clone();
    seen["user_id"] = Value::Null;
    assert_eq!(get(&site, &author, &files).await, (200, json!([seen])));
    let (status, _, content) =
        download(&site, &author, &format!("{files}/{}", made["id"].as_str().unwrap())).await;
    assert_eq!((status, &content[..]), (200, &b"a fix"[..]));
    let entries = site.app.store.audit(AuditSubject::Tenant(author.user.tenant.unwrap()), 99).await.unwrap();
    let entry = entries.iter().find(|entry| entry.action == "ticket.file_attached").unwrap();
    assert_eq!(entry.user, Some(operator.user.id));

    assert_eq!(attach(&site, &author, &theirs, "x").await.0, 403);
    let unknown = "/operator/tickets/00000000-0000-7000-8000-000000000000/attachments";
    assert_eq!(attach(&site, &operator, unknown, "x").await.0, 404);
    for (content, status) in [(&b""[..], 400), (b"MZ\x90\0\x03", 400)] {
        assert_eq!(attach(&site, &operator, &theirs, content).await.0, status, "{content:?}");
    }
    assert_eq!(attach(&site, &operator, &theirs, "x".repeat((10 << 20) + 1)).await.0, 413);
    let running = site.app.uploads.begin(author.user.tenant.unwrap()).unwrap();
    assert_eq!(attach(&site, &operator, &theirs, "x").await.0, 429);
    drop(running);
    for number in 1..10 {
        let (visitor, files) = if number % 2 == 0 { (&author, &files) } else { (&operator, &theirs) };
        assert_eq!(attach(&site, visitor, files, "x").await.0, 201, "{number}");
    }
    for (visitor, files) in [(&author, &files), (&operator, &theirs)] {
        assert_eq!(attach(&site, visitor, files, "x").await.0, 409, "both sides count together");
    }
    let closed = ticket(&site, &author).await;
    assert_eq!(post(&site, &author, &format!("{closed}/close"), Value::Null).await.0, 200);
    let closed = format!("{}/attachments", closed.replace("/support/", "/operator/"));
    assert_eq!(attach(&site, &operator, &closed, "x").await.0, 409);
}

#[tokio::test]
async fn the_document_lists_every_type_with_which_a_file_can_come() {
    let document = Site::new().await.text("/openapi.json").await;
    let document: Value = serde_json::from_str(&document).unwrap();
    let expected: BTreeSet<_> =
        AttachmentKind::ALL.map(|kind| media_type(kind).split(';').next().unwrap()).into();
    for path in ["/support/tickets", "/operator/tickets"] {
        let path = format!("/api/v1{path}/{{id}}/attachments/{{attachment_id}}");
        let content = document["paths"][&path]["get"]["responses"]["200"]["content"].as_object().unwrap();
        assert_eq!(content.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected, "{path}");
    }
    let binary = json!({"type": "string", "format": "binary", "description": "The content of a file."});
    assert_eq!(document["components"]["schemas"]["FileContent"], binary);
}

#[tokio::test]
async fn a_tenant_uploads_one_file_at_a_time() {
    let site = Site::new().await;
    let author = site.member(Role::Owner).await;
    let other = site.member(Role::Owner).await;
    let path = ticket(&site, &author).await;
    let its = ticket(&site, &other).await;
    let running = site.app.uploads.begin(author.user.tenant.unwrap()).unwrap();
    assert_eq!(attach(&site, &author, &format!("{path}/attachments"), "x").await.0, 429);
    assert_eq!(attach(&site, &other, &format!("{its}/attachments"), "x").await.0, 201);
    drop(running);
    assert_eq!(attach(&site, &author, &format!("{path}/attachments"), "x").await.0, 201);
    assert_eq!(
        attach(&site, &author, &format!("{path}/attachments"), "y").await.0,
        201,
        "the first has ended"
    );
}

// Shows (Management).
#[cfg(unix)]
#[tokio::test]
async fn a_file_that_the_check_refuses_or_cannot_check_is_not_stored() {
    let script = "if grep -q EICAR; then exit 1; fi; test ! -e ";
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("broken");
    let script = format!("{script}'{}' || exit 2", broken.display());
    let site = Site::of(&format!("[admin.tickets]\nscan = [\"sh\", \"-c\", {script:?}]\n")).await;
    let author = site.member(Role::Owner).await;
    let files = ticket(&site, &author).await + "/attachments";
    assert_eq!(attach(&site, &author, &files, "a clean file").await.0, 201);
    let refused = (400, json!({"error": "the malware check refuses this file"}));
    assert_eq!(attach(&site, &author, &files, "this is EICAR").await, refused);
    std::fs::write(&broken, "").unwrap();
    assert_eq!(
        attach(&site, &author, &files, "a clean file").await.0,
        503,
        "an unchecked file is not stored"
    );
    let (_, listed) = get(&site, &author, &files).await;
    assert_eq!(listed.as_array().unwrap().len(), 1);
}

/// Sends a file with an idempotency key. Returns the status and the body, and whether the answer is a repeated one.
async fn attach_once(
    site: &Site,
    visitor: &Visitor,
    path: &str,
    key: &str,
    content: impl Into<Body>,
) -> (u16, Value, bool) {
    let request = http::Request::post(format!("/api/v1{path}"))
        .header(AUTHORIZATION, format!("Bearer {}", visitor.token))
        .header("Idempotency-Key", key);
    let answer = site.send(request.body(content.into()).unwrap()).await;
    (answer.status.as_u16(), answer.body, answer.headers.contains_key("idempotency-replayed"))
}

// Shows (Management).
#[tokio::test]
async fn a_file_that_is_sent_again_with_its_key_is_not_attached_twice() {
    let site = Site::new().await;
    let author = site.member(Role::Owner).await;
    let operator = site.operator().await;
    let path = ticket(&site, &author).await;
    let theirs = path.replace("/support/", "/operator/");
    let file = "größer\n".repeat(100_000);
    for (visitor, path, key) in [(&author, &path, "mine"), (&operator, &theirs, "ours")] {
        let files = format!("{path}/attachments?filename=a.txt");
        let (status, first, again) = attach_once(&site, visitor, &files, key, file.clone()).await;
        assert_eq!((status, again), (201, false), "{first}");
        let repeated = attach_once(&site, visitor, &files, key, file.clone()).await;
        assert_eq!(repeated, (201, first.clone(), true));
        let (status, refused, _) = attach_once(&site, visitor, &files, key, file.clone() + "x").await;
        assert_eq!((status, &refused["code"]), (409, &json!("idempotency_key_reused")));
        let named = format!("{path}/attachments?filename=b.txt");
        let (status, refused, _) = attach_once(&site, visitor, &named, key, file.clone()).await;
        assert_eq!((status, &refused["code"]), (409, &json!("idempotency_key_reused")));
        let (_, listed) = get(&site, visitor, &format!("{path}/attachments")).await;
        let ids: Vec<_> = listed.as_array().unwrap().iter().map(|file| &file["id"]).collect();
        assert_eq!(ids.iter().filter(|id| ***id == first["id"]).count(), 1, "{listed}");
    }
    let (_, listed) = get(&site, &author, &format!("{path}/attachments")).await;
    assert_eq!(listed.as_array().unwrap().len(), 2);
}

// Shows (Management).
#[tokio::test]
async fn an_upload_with_a_key_is_answered_again_and_retried_if_it_was_refused() {
    let site = Site::new().await;
    let author = site.member(Role::Owner).await;
    let path = ticket(&site, &author).await;
    let files = format!("{path}/attachments");
    let (status, refused, _) = attach_once(&site, &author, &files, "k", "").await;
    assert_eq!(status, 400, "{refused}");
    let (status, refused, _) = attach_once(&site, &author, &files, "k", vec![b'x'; (10 << 20) + 1]).await;
    assert_eq!(status, 413, "{refused}");
    let (status, first, _) = attach_once(&site, &author, &files, "k", "x").await;
    assert_eq!(status, 201, "{first}");
    assert_eq!(post(&site, &author, &format!("{path}/close"), Value::Null).await.0, 200);
    assert_eq!(attach_once(&site, &author, &files, "k", "x").await, (201, first, true));
    let (status, refused, _) = attach_once(&site, &author, &files, "other", "x").await;
    assert_eq!((status, &refused["code"]), (409, &json!("conflict")));
    let (status, refused, _) = attach_once(&site, &author, &files, "two\tparts", "x").await;
    assert_eq!((status, &refused["field"]), (400, &json!("Idempotency-Key")));
    let permits = site.app.uploads.begin(author.user.tenant.unwrap());
    assert!(permits.is_some(), "no upload of the tenant counts as running any more");
    let (status, refused, _) = attach_once(&site, &author, &files, "k", "x").await;
    assert_eq!(status, 429, "an upload with a key counts: {refused}");
}
