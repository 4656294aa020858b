//! Mails over a real mail server.

use rpcgate_core::clock::{ManualClock, SystemClock};
use rpcgate_tests::admin::TestService;
use rpcgate_tests::certificate::TestCertificate;
use rpcgate_tests::gateway::{START, Setup};
use rpcgate_tests::services::postgres::free_port;
use rpcgate_tests::services::smtp::SmtpServer;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const EMAIL: &str = "ada@example.com";

fn setup(url: &str) -> Setup {
    Setup::new()
        .set("admin", "auth_per_minute = 1000")
        .set("admin.challenge", "difficulty = 1000")
        .set("admin.mail", "from = \"rpcgate <post@rpcgate.example>\"")
        .set("admin.mail", &format!("smtp = \"{url}\""))
}

/// Returns the same setup with the authority in this file, which signed the server's certificate.
fn trusting(url: &str, authority: &Path) -> Setup {
    setup(url).set("admin.mail", &format!("smtp_ca = {authority:?}"))
}

fn token(mail: &Value) -> String {
    let content = mail["content"].as_str().unwrap();
    let (_, rest) = content.split_once("/confirm?token=").unwrap();
    rest.split_once("\r\n").unwrap().0.to_owned()
}

async fn confirm(service: &TestService, token: &str) -> u16 {
    let user = service.anonymous();
    user.ask("POST", "/auth/confirm", Some(&json!({ "token": token }))).await.status
}

async fn until_none_waits(service: &TestService) {
    let sent = async {
        while service.waiting_mails().await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(rpcgate_tests::TIMEOUT, sent).await.unwrap();
}

// Shows (Mails and notifications): Mails go to a mail server over STARTTLS or TLS, whose certificate is checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_aiosmtpd), ignore = "needs aiosmtpd (apt install python3-aiosmtpd)")]
async fn mails_go_over_starttls_and_over_tls_from_the_first_byte_with_a_log_in() {
    let certificate = TestCertificate::new();
    let [cert, key] = certificate.files();
    for mut server in [SmtpServer::starttls([&cert, &key]), SmtpServer::implicit_tls([&cert, &key])] {
        let host = format!("post:p%3Aw%25@localhost:{}", server.port());
        let urls = [format!("smtp://{host}?tls=required"), format!("smtps://{host}")];
        let url = &urls[usize::from(server.is_implicit_tls())];
        let service = TestService::start(trusting(url, &cert), Arc::new(SystemClock::new())).await;
        service.anonymous().register(EMAIL).await;
        let mail = server.mail().await;
        assert_eq!((&mail["encrypted"], &mail["user"]), (&json!(true), &json!("post")), "{url}");
        assert_eq!((&mail["from"], &mail["to"]), (&json!("post@rpcgate.example"), &json!([EMAIL])));
        assert_eq!(confirm(&service, &token(&mail)).await, 204);
        until_none_waits(&service).await;
        assert_eq!(server.rest(), [] as [Value; 0]);
        service.stop().await;
    }
}

// Shows (Mails and notifications).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_aiosmtpd), ignore = "needs aiosmtpd (apt install python3-aiosmtpd)")]
async fn a_server_whose_certificate_is_not_trusted_gets_no_mail_and_no_password() {
    let certificate = TestCertificate::new();
    let [cert, key] = certificate.files();
    let mut server = SmtpServer::implicit_tls([&cert, &key]);
    let url = format!("smtps://post:p%3Aw%25@localhost:{}", server.port());
    let service = TestService::start(setup(&url), Arc::new(ManualClock::at(START))).await;
    service.anonymous().register(EMAIL).await;
    let postponed = async {
        while service.mails_counted("postponed") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(rpcgate_tests::TIMEOUT, postponed).await.unwrap();
    assert_eq!((service.waiting_mails().await, server.rest()), (1, Vec::new()));
    service.stop().await;
}

// Shows (Mails and notifications).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_aiosmtpd), ignore = "needs aiosmtpd (apt install python3-aiosmtpd)")]
async fn a_recovered_mail_server_gets_the_waiting_mails_and_a_refused_one_is_not_repeated() {
    let port = free_port();
    let clock = Arc::new(ManualClock::at(START));
    let service = TestService::start(setup(&format!("smtp://localhost:{port}")), clock.clone()).await;
    service.anonymous().register(EMAIL).await;
    service.anonymous().register("gone@example.com").await;
    let tried = async {
        while service.mails_counted("postponed") < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(rpcgate_tests::TIMEOUT, tried).await.unwrap();
    let mut server = SmtpServer::plain_at(port);
    clock.advance(Duration::from_secs(10));
    let mail = server.mail().await;
    assert_eq!(mail["to"], json!([EMAIL]));
    until_none_waits(&service).await;
    assert_eq!(service.mails_counted("refused"), 1);
    assert_eq!(server.rest(), [] as [Value; 0]);
    assert_eq!(confirm(&service, &token(&mail)).await, 204);
    let content = mail["content"].as_str().unwrap();
    for part in [
        "\r\nAuto-Submitted: auto-generated\r\n",
        "\r\nDate: Fri, 15 Jan 2027 08:30:15 +0000\r\n",
        "@rpcgate.example>\r\n",
        "Content-Type: multipart/alternative;",
        "Content-Type: text/plain; charset=utf-8\r\n",
        "Content-Type: text/html; charset=utf-8\r\n",
        "<a href=\"http://127.0.0.1:",
    ] {
        assert!(content.contains(part), "{part} is not in {content}");
    }
    service.stop().await;
}
