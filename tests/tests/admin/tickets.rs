//! A support ticket with a file, over real connections.

use rpcgate_core::clock::SystemClock;
use rpcgate_tests::TIMEOUT;
use rpcgate_tests::admin::{ApiUser, TestService};
use rpcgate_tests::client::{Connection, TestClient, TestReply};
use rpcgate_tests::gateway::Setup;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const LARGEST: usize = 10 << 20;

async fn service() -> TestService {
    let setup =
        Setup::new().set("admin", "auth_per_minute = 1000").set("admin.challenge", "difficulty = 100");
    TestService::start(setup, Arc::new(SystemClock::new())).await
}

async fn ticket(user: &ApiUser) -> String {
    let form = json!({ "category": "problem", "subject": "It fails", "text": "Always." });
    let made = user.made("/support/tickets", &form).await;
    format!("/support/tickets/{}", made["id"].as_str().unwrap())
}

async fn send(service: &TestService, user: &ApiUser, method: &str, path: &str, body: &[u8]) -> TestReply {
    let bearer = user.bearer();
    let client = TestClient::new(service.addr(), None);
    client.send(method, &format!("/api/v1{path}"), &[("authorization", &bearer)], body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_with_a_large_file_is_answered_by_an_operator() {
    let service = service().await;
    let ada = service.owner("ada@example.com").await;
    let eve = service.owner("eve@example.com").await;
    let operator = service.operator().await;
    let path = ticket(&ada).await;
    let files = format!("{path}/attachments");
    let log: Vec<u8> = (0..LARGEST).map(|n| b"0123456789abcdef\n"[n * 31 % 17]).collect();
    let made = send(&service, &ada, "POST", &format!("{files}?filename=a.log"), &log).await;
    assert_eq!(made.status, 201, "{made:?}");
    let file = format!("{files}/{}", made.json()["id"].as_str().unwrap());
    let too_large = send(&service, &ada, "POST", &files, &[&log[..], b"x"].concat()).await;
    assert_eq!(too_large.status, 413, "{too_large:?}");

    let theirs = file.replace("/support/", "/operator/");
    for (user, file) in [(&ada, &file), (&operator, &theirs)] {
        let reply = send(&service, user, "GET", file, b"").await;
        assert_eq!(reply.status, 200);
        assert!(reply.body == log, "the file is unchanged");
        let disposition = reply.header("content-disposition").unwrap();
        assert!(disposition.starts_with("attachment; filename=\"a.log\""), "{disposition}");
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    }
    assert_eq!(send(&service, &eve, "GET", &file, b"").await.status, 404, "another tenant");

    let comments = path.replace("/support/", "/operator/") + "/comments";
    operator.made(&comments, &json!({ "text": "Between us.", "internal": true })).await;
    operator.made(&comments, &json!({ "text": "Try again.", "status": "closed" })).await;
    let seen = ada.shown(&format!("{path}/comments")).await;
    assert_eq!((seen.as_array().unwrap().len(), &seen[0]["text"]), (1, &json!("Try again.")));
    assert_eq!(ada.shown(&path).await["status"], "closed");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_breaks_off_frees_its_slot_for_the_next_one() {
    let service = service().await;
    let ada = service.owner("ada@example.com").await;
    let files = ticket(&ada).await + "/attachments";
    let mut cut = Connection::open(service.addr()).await.unwrap();
    let head = format!(
        "POST /api/v1{files} HTTP/1.1\r\nhost: a\r\nauthorization: {}\r\nexpect: 100-continue\r\n\
         content-length: 1000\r\n\r\n",
        ada.bearer()
    );
    cut.write(head.as_bytes()).await.unwrap();
    assert_eq!(cut.read(true).await.unwrap().status, 100, "the upload is running");
    cut.write(b"half").await.unwrap();
    // An empty file is refused and leaves nothing, but only if no other upload is running.
    assert_eq!(send(&service, &ada, "POST", &files, b"").await.status, 429);
    drop(cut);
    let free = tokio::time::timeout(TIMEOUT, async {
        while send(&service, &ada, "POST", &files, b"").await.status != 400 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    assert!(free.await.is_ok(), "it has ended with its connection");
    assert_eq!(send(&service, &ada, "POST", &files, b"whole").await.status, 201);
    service.stop().await;
}
