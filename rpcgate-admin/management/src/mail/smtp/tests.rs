//! Tests with scripted mail servers.

use super::*;
use crate::mail::{Mail, Mailer, address};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use rpcgate_config::MailSettings;
use rpcgate_core::clock::Time;
use rpcgate_layers::transport::trust;
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

const NOW: Time = Time::from_micros(1_800_000_000_000_042);
const FROM: &str = "rpcgate <post@rpcgate.example>";

fn mail(text: &str) -> Mail {
    Mail::new(address("ada@example.com").unwrap(), "Hello", text)
}

fn mailer(url: &str) -> Mailer {
    mailer_of(url, |_| ())
}

fn mailer_of(url: &str, change: impl FnOnce(&mut MailSettings)) -> Mailer {
    let mut settings = MailSettings::default();
    settings.from = FROM.into();
    change(&mut settings);
    Mailer::smtp(url, &settings).unwrap()
}

/// Runs a server that accepts one connection, greets, and answers each command from `script`. Returns the received
/// lines.
async fn stub(script: &'static [(&'static str, &'static str)]) -> (SocketAddr, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let reported = tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        stream.write_all(b"220 stub\r\n").await.unwrap();
        answer(stream, script).await
    });
    (addr, reported)
}

/// Answers each command with the first entry whose word starts its line. Returns the received lines.
async fn answer(stream: impl AsyncRead + AsyncWrite, script: &[(&'static str, &'static str)]) -> Vec<String> {
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = BufReader::new(read).lines();
    let mut reported = Vec::new();
    let mut data = false;
    while let Ok(Some(line)) = lines.next_line().await {
        let word = if data { line.as_str() } else { line.get(..4).unwrap_or_default() };
        let answer = if data && line != "." {
            None
        } else {
            script.iter().find(|(begin, _)| *begin == word).map(|(_, answer)| *answer)
        };
        data = if data { line != "." } else { answer.is_some_and(|answer| answer.starts_with("354")) };
        reported.push(line);
        if let Some(answer) = answer
            && (write.write_all(answer.as_bytes()).await.is_err() || write.flush().await.is_err())
        {
            break;
        }
    }
    reported
}

const TAKES: &[(&str, &str)] = &[
    ("EHLO", "250-stub\r\n250 AUTH PLAIN\r\n"),
    ("AUTH", "235 welcome\r\n"),
    ("MAIL", "250 ok\r\n"),
    ("RCPT", "250 ok\r\n"),
    ("DATA", "354 go on\r\n"),
    (".", "250 taken\r\n"),
    ("QUIT", "221 bye\r\n"),
];

#[tokio::test]
async fn a_server_gets_the_mail() {
    let (addr, reported) = stub(TAKES).await;
    let post = mailer(&format!("smtp://po%40st:p%3Aw%25@{addr}"));
    post.send(&mail("One\n.\nTwo\n"), 7, NOW).await.unwrap();
    let reported = reported.await.unwrap();
    assert!(reported[0].starts_with("EHLO "), "{reported:?}");
    // \0po@st\0p:w%
    assert_eq!(reported[1], "AUTH PLAIN AHBvQHN0AHA6dyU=");
    assert_eq!(reported[2], "MAIL FROM:<post@rpcgate.example>");
    assert_eq!(reported[3..5], ["RCPT TO:<ada@example.com>", "DATA"]);
    assert_eq!(reported.last().unwrap(), "QUIT");
    let data = &reported[5..reported.len() - 1];
    for line in [
        "From: rpcgate <post@rpcgate.example>",
        "To: ada@example.com",
        "Subject: Hello",
        "Date: Fri, 15 Jan 2027 08:00:00 +0000",
    ] {
        assert!(data.contains(&line.to_owned()), "{line} is not in {data:#?}");
    }
    assert!(data.iter().any(|line| line.starts_with("Message-ID: <") && line.ends_with("@rpcgate.example>")));
    assert!(data.windows(3).any(|lines| lines == ["One", "..", "Two"]), "{data:#?}");
}

#[tokio::test]
async fn a_refusal_states_whether_another_try_may_help() {
    let (addr, reported) = stub(&[
        ("EHLO", "250 stub\r\n"),
        ("MAIL", "250 ok\r\n"),
        ("RCPT", "550 5.1.1 no such reader\r\n"),
        ("QUIT", "221 bye\r\n"),
    ])
    .await;
    let post = mailer(&format!("smtp://{addr}"));
    let found = post.send(&mail("x"), 7, NOW).await;
    assert!(matches!(&found, Err(MailError::Refused(why)) if why.contains("no such reader")), "{found:?}");
    assert!(!reported.await.unwrap().contains(&"DATA".to_owned()));

    let (addr, _) =
        stub(&[("EHLO", "250 stub\r\n"), ("MAIL", "451 later\r\n"), ("QUIT", "221 bye\r\n")]).await;
    let found = mailer(&format!("smtp://{addr}")).send(&mail("x"), 7, NOW).await;
    assert!(matches!(&found, Err(MailError::Unavailable(why)) if why.contains("later")), "{found:?}");
}

#[tokio::test]
async fn a_refused_log_in_does_not_count_against_the_mail() {
    let (addr, reported) = stub(&[
        ("EHLO", "250-stub\r\n250 AUTH PLAIN\r\n"),
        ("AUTH", "535 wrong\r\n"),
        ("QUIT", "221 bye\r\n"),
    ])
    .await;
    let post = mailer(&format!("smtp://user:secret@{addr}"));
    let found = post.send(&mail("x"), 7, NOW).await;
    assert!(matches!(&found, Err(MailError::Rejected(why)) if !why.contains("secret")), "{found:?}");
    assert!(!reported.await.unwrap().iter().any(|line| line.starts_with("MAIL")));
    assert!(!format!("{post:?}").contains("secret"));
}

#[tokio::test]
async fn a_server_is_greeted_and_logged_in_to_without_a_mail() {
    let (addr, reported) = stub(TAKES).await;
    mailer(&format!("smtp://user:secret@{addr}")).greet().await.unwrap();
    let reported = reported.await.unwrap();
    let words: Vec<_> = reported.iter().map(|line| line.get(..4).unwrap_or_default()).collect();
    assert_eq!(words, ["EHLO", "AUTH", "QUIT"]);
    let (addr, _) = stub(&[("EHLO", "250-stub\r\n250 AUTH PLAIN\r\n"), ("AUTH", "535 wrong\r\n")]).await;
    let found = mailer(&format!("smtp://user:secret@{addr}")).greet().await;
    assert!(matches!(&found, Err(MailError::Rejected(why)) if !why.contains("secret")), "{found:?}");
}

#[derive(Clone, Copy)]
struct Behaviour {
    greeting: (u64, &'static str),
    ehlo: (u64, &'static str),
    mail: (u64, &'static str),
    rcpt: (u64, &'static str),
    data: (u64, &'static str),
    end: (u64, &'static str),
}

const NORMAL: Behaviour = Behaviour {
    greeting: (0, "220 mx.example ESMTP"),
    ehlo: (0, "250 mx.example"),
    mail: (0, "250 2.1.0 ok"),
    rcpt: (0, "250 2.1.5 ok"),
    data: (0, "354 go on"),
    end: (0, "250 2.0.0 queued"),
};

/// Returns a connection in memory and the server's end of it. A paused clock advances when no task can run, so bytes in
/// flight in a socket would end every deadline at once.
fn connection() -> (ServerStream<DuplexStream>, DuplexStream) {
    let (client, server) = tokio::io::duplex(64 << 10);
    (ServerStream::new(client), server)
}

/// Sends a mail over a connection like [`MailServer::send`], without TLS and log-in.
async fn send_over(stream: ServerStream<DuplexStream>) -> Result<(), MailError> {
    let message = mailer("smtp://localhost").compose(&mail("x"), 7, NOW)?;
    let server = open(stream, &ClientId::Domain("rpcgate.example".into())).await?;
    send_and_close(server.unwrap(), &message).await
}

/// Returns a connection to a server with this behaviour, and the number of mails that the server has accepted. An empty
/// answer closes the connection.
fn server(behaviour: Behaviour) -> (ServerStream<DuplexStream>, Arc<AtomicUsize>) {
    let (client, server) = connection();
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = accepted.clone();
    tokio::spawn(async move {
        let (read, mut write) = tokio::io::split(server);
        let mut lines = BufReader::new(read).lines();
        let mut next = Some(behaviour.greeting);
        let mut is_data = false;
        loop {
            if let Some((seconds, answer)) = next {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                if answer.is_empty() || write.write_all(format!("{answer}\r\n").as_bytes()).await.is_err() {
                    return;
                }
                is_data = answer.starts_with("354") && !is_data;
            }
            let Ok(Some(line)) = lines.next_line().await else { return };
            next = match line.get(..4).unwrap_or(&line) {
                "." if is_data => {
                    if behaviour.end.1.starts_with('2') {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Some(behaviour.end)
                }
                _ if is_data => None,
                "EHLO" => Some(behaviour.ehlo),
                "MAIL" => Some(behaviour.mail),
                "RCPT" => Some(behaviour.rcpt),
                "DATA" => Some(behaviour.data),
                _ => Some((0, "221 bye")),
            };
        }
    });
    (client, accepted)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Sent,
    Retried,
    RetriedAndAlerted,
    Dropped,
}

// Shows (Mails and notifications): No mail is lost unless its recipient was refused, and a slow server gets one copy
// (promise 84).
#[tokio::test(start_paused = true)]
async fn no_mail_is_lost_unless_its_recipient_is_refused_and_a_slow_server_gets_one_copy() {
    use Fate::{Dropped, Retried, RetriedAndAlerted, Sent};
    let short = "504 5.5.2 Helo command rejected: need fully-qualified hostname";
    let table = [
        ("all is well", NORMAL, Sent),
        ("a slow greeting", Behaviour { greeting: (290, "220 x"), ..NORMAL }, Sent),
        ("a slow EHLO", Behaviour { ehlo: (290, "250 x"), ..NORMAL }, Sent),
        ("a slow MAIL", Behaviour { mail: (290, "250 ok"), ..NORMAL }, Sent),
        ("a slow RCPT", Behaviour { rcpt: (290, "250 ok"), ..NORMAL }, Sent),
        ("a slow DATA", Behaviour { data: (110, "354 go on"), ..NORMAL }, Sent),
        ("a mail that is scanned for long", Behaviour { end: (590, "250 ok"), ..NORMAL }, Sent),
        ("no greeting", Behaviour { greeting: (4_000, "220 x"), ..NORMAL }, Retried),
        ("no answer to RCPT", Behaviour { rcpt: (4_000, "250 ok"), ..NORMAL }, Retried),
        ("no answer to DATA", Behaviour { data: (4_000, "354 go on"), ..NORMAL }, Retried),
        ("busy at once", Behaviour { greeting: (0, "421 4.3.2 too many connections"), ..NORMAL }, Retried),
        (
            "not for us",
            Behaviour { greeting: (0, "554 5.7.1 no service for you"), ..NORMAL },
            RetriedAndAlerted,
        ),
        ("a short name at EHLO", Behaviour { ehlo: (0, short), ..NORMAL }, RetriedAndAlerted),
        ("a short name at RCPT", Behaviour { rcpt: (0, short), ..NORMAL }, RetriedAndAlerted),
        ("a log-in is needed", Behaviour { mail: (0, "530 5.7.0 log in"), ..NORMAL }, RetriedAndAlerted),
        (
            "a sender of another domain",
            Behaviour { mail: (0, "550 5.1.8 who?"), ..NORMAL },
            RetriedAndAlerted,
        ),
        (
            "a sender without a mailbox",
            Behaviour { mail: (0, "550 5.1.1 who?"), ..NORMAL },
            RetriedAndAlerted,
        ),
        ("greylisting", Behaviour { rcpt: (0, "450 4.7.1 come back later"), ..NORMAL }, Retried),
        ("a full mailbox", Behaviour { rcpt: (0, "452 4.2.2 over quota"), ..NORMAL }, Retried),
        (
            "553 of qmail",
            Behaviour { rcpt: (0, "553 sorry, not in my rcpthosts"), ..NORMAL },
            RetriedAndAlerted,
        ),
        (
            "554 of Postfix",
            Behaviour { rcpt: (0, "554 5.7.1 Relay access denied"), ..NORMAL },
            RetriedAndAlerted,
        ),
        (
            "550 of Exchange",
            Behaviour { rcpt: (0, "550 5.7.54 unable to relay"), ..NORMAL },
            RetriedAndAlerted,
        ),
        ("550 of Exim", Behaviour { rcpt: (0, "550 relay not permitted"), ..NORMAL }, RetriedAndAlerted),
        ("no such mailbox", Behaviour { rcpt: (0, "550 5.1.1 no such user"), ..NORMAL }, Dropped),
        (
            "a disabled mailbox",
            Behaviour { rcpt: (0, "550-5.2.1 it is\r\n550 5.2.1 disabled"), ..NORMAL },
            Dropped,
        ),
        ("an unknown domain", Behaviour { end: (0, "550 5.1.2 no such domain"), ..NORMAL }, Dropped),
        ("spam", Behaviour { end: (0, "554 5.7.1 looks like spam"), ..NORMAL }, RetriedAndAlerted),
        ("too large", Behaviour { end: (0, "552 5.3.4 too big"), ..NORMAL }, RetriedAndAlerted),
        ("no disk", Behaviour { end: (0, "451 4.3.0 disk full"), ..NORMAL }, Retried),
        ("cut before the end", Behaviour { end: (0, ""), ..NORMAL }, Retried),
        ("cut at RCPT", Behaviour { rcpt: (0, ""), ..NORMAL }, Retried),
        ("DATA is answered out of order", Behaviour { data: (0, "250 ok"), ..NORMAL }, Retried),
        ("the end is answered out of order", Behaviour { end: (0, "354 go on"), ..NORMAL }, Retried),
        ("no mail server", Behaviour { greeting: (0, "HTTP/1.1 400 Bad Request"), ..NORMAL }, Retried),
    ];
    for (name, behaviour, expected) in table {
        let (stream, accepted) = server(behaviour);
        let found = send_over(stream).await;
        let fate = match &found {
            Ok(()) => Sent,
            Err(MailError::Unavailable(_)) => Retried,
            Err(MailError::Rejected(_)) => RetriedAndAlerted,
            Err(MailError::Refused(_)) => Dropped,
            Err(other) => panic!("{name}: {other}"),
        };
        assert_eq!(fate, expected, "{name}: {found:?}");
        assert_eq!(accepted.load(Ordering::Relaxed), usize::from(expected == Sent), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_abandoned_after_five_minutes() {
    let (stream, _server) = connection();
    let before = tokio::time::Instant::now();
    let found = send_over(stream).await;
    assert!(matches!(&found, Err(MailError::Unavailable(why)) if why.contains("no greeting")), "{found:?}");
    assert_eq!(before.elapsed().as_secs(), 300);
}

// Shows (Mails and notifications): The host introduces itself with a fully qualified name; mails go without TLS only to
// private addresses.
#[tokio::test]
async fn this_host_introduces_itself_with_the_domain_of_the_sender_or_the_configured_name() {
    let (addr, reported) = stub(TAKES).await;
    mailer(&format!("smtp://{addr}")).send(&mail("x"), 7, NOW).await.unwrap();
    assert_eq!(reported.await.unwrap()[0], "EHLO rpcgate.example");
    let (addr, reported) = stub(TAKES).await;
    let named = mailer_of(&format!("smtp://{addr}"), |mail| mail.hello = Some("[192.0.2.7]".into()));
    named.send(&mail("x"), 7, NOW).await.unwrap();
    assert_eq!(reported.await.unwrap()[0], "EHLO [192.0.2.7]");
    // A sender without a domain: the host's name if it is qualified, or else an address literal.
    let host = |name: &str| hello("localhost", || ClientId::Domain(name.into())).to_string();
    assert_eq!((host("a.example").as_str(), host("a").as_str()), ("a.example", "[127.0.0.1]"));
}

// Shows (Mails and notifications).
#[tokio::test]
async fn without_tls_a_mail_goes_to_private_addresses_only() {
    let none = |settings: &mut MailSettings| settings.tls = MailTls::None;
    // The name is resolved for each mail, so its address is checked then.
    let (addr, reported) = stub(TAKES).await;
    mailer_of(&format!("smtp://u:p@localhost:{}", addr.port()), none).send(&mail("x"), 7, NOW).await.unwrap();
    assert!(reported.await.unwrap().contains(&"DATA".to_owned()));
    let options = ServerOptions {
        trusted: trust::client_config(&[]).unwrap(),
        tls: MailTls::None,
        hello: None,
        sender_domain: "rpcgate.example",
    };
    let mut server = MailServer::read("smtp://relay", options).unwrap();
    server.url.host = "192.0.2.1".into();
    let found = server.addresses().await;
    assert!(
        matches!(&found, Err(MailError::Unavailable(why)) if why.contains("no private address")),
        "{found:?}"
    );
}

/// Answers of a server that does not know `EHLO`.
const OLD: [&[(&str, &str)]; 2] = [
    &[
        ("EHLO", "500 unknown\r\n"),
        ("HELO", "250 stub\r\n"),
        ("MAIL", "250 ok\r\n"),
        ("RCPT", "250 ok\r\n"),
        ("DATA", "354 go on\r\n"),
        (".", "250 taken\r\n"),
        ("QUIT", "221 bye\r\n"),
    ],
    &[("EHLO", "502 unknown\r\n"), ("HELO", "502 unknown\r\n"), ("QUIT", "221 bye\r\n")],
];

// Shows (Mails and notifications).
#[tokio::test]
async fn a_server_that_does_not_know_ehlo_is_greeted_with_helo() {
    for (script, is_taken) in OLD.into_iter().zip([true, false]) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let reported = tokio::spawn(async move {
            let mut reported = Vec::new();
            for _ in 0..2 {
                let mut stream = listener.accept().await.unwrap().0;
                stream.write_all(b"220 stub\r\n").await.unwrap();
                reported.push(answer(stream, script).await);
            }
            reported
        });
        let found = mailer(&format!("smtp://{addr}")).send(&mail("x"), 7, NOW).await;
        let is_as_expected =
            if is_taken { found.is_ok() } else { matches!(&found, Err(MailError::Rejected(_))) };
        assert!(is_as_expected, "{found:?}");
        let reported = reported.await.unwrap();
        assert_eq!(reported[0], ["EHLO rpcgate.example", "QUIT"]);
        assert_eq!(reported[1][0], "HELO rpcgate.example");
        assert_eq!(reported[1].contains(&"DATA".to_owned()), is_taken, "{reported:?}");
    }
    // Without EHLO there is no STARTTLS.
    let (addr, reported) = stub(OLD[0]).await;
    let found = mailer(&format!("smtp://{addr}?tls=required")).send(&mail("x"), 7, NOW).await;
    assert!(matches!(&found, Err(MailError::Unavailable(why)) if why.contains("STARTTLS")), "{found:?}");
    assert_eq!(reported.await.unwrap(), ["EHLO rpcgate.example", "QUIT"]);
}

// Shows (Mails and notifications).
#[tokio::test]
async fn no_byte_is_sent_unencrypted_if_encryption_is_required() {
    let (addr, reported) = stub(TAKES).await;
    let post = mailer(&format!("smtp://user:secret@{addr}?tls=required"));
    let found = post.send(&mail("x"), 7, NOW).await;
    assert!(matches!(&found, Err(MailError::Unavailable(why)) if why.contains("STARTTLS")), "{found:?}");
    let reported = reported.await.unwrap();
    assert!(reported.iter().all(|line| line.starts_with("EHLO") || line == "QUIT"), "{reported:?}");

    // A server that greets without TLS on a port for TLS.
    let (addr, reported) = stub(TAKES).await;
    let found = mailer(&format!("smtps://user:secret@{addr}")).send(&mail("x"), 7, NOW).await;
    assert!(matches!(&found, Err(MailError::Unavailable(_))), "{found:?}");
    assert!(!reported.await.unwrap().iter().any(|line| line.starts_with("AUTH") || line.starts_with("MAIL")));
}

/// Runs a server with a self-signed certificate of an authority, as `openssl req -x509` makes it, for `name` and until
/// this year. It encrypts from the first byte, or after STARTTLS. Returns the lines received under TLS, and the
/// certificate in PEM form.
async fn tls_stub(
    name: &str,
    until: i32,
    is_starttls: bool,
) -> (SocketAddr, JoinHandle<Vec<String>>, String) {
    let mut own = CertificateParams::new(vec![name.to_owned()]).unwrap();
    own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    own.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().unwrap();
    let own = own.self_signed(&key).unwrap();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let reported = tokio::spawn(async move {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        if is_starttls {
            for answer in ["220 stub\r\n", "250-stub\r\n250 STARTTLS\r\n", "220 go on\r\n"] {
                if answer != "220 stub\r\n" {
                    stream.read_line(&mut String::new()).await.unwrap();
                }
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
        let accepted = TlsAcceptor::from(Arc::new(server)).accept(stream).await;
        let Ok(mut stream) = accepted else { return Vec::new() };
        if !is_starttls {
            stream.write_all(b"220 stub\r\n").await.unwrap();
        }
        answer(stream, TAKES).await
    });
    (addr, reported, own.pem())
}

// Shows (Mails and notifications).
#[tokio::test]
async fn a_named_certificate_of_a_mail_server_is_trusted_for_its_names_and_its_time_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let not_named = "the certificate is that of an authority, and not named as trusted";
    let expired = "the certificate has expired";
    let foreign = "the certificate is not valid for localhost: it is for mail.example";
    for is_starttls in [true, false] {
        for (name, until, is_named, expected) in [
            ("localhost", 4_000, true, None),
            ("localhost", 4_000, false, Some(not_named)),
            ("localhost", 2_020, true, Some(expired)),
            ("mail.example", 4_000, true, Some(foreign)),
        ] {
            let (addr, reported, pem) = tls_stub(name, until, is_starttls).await;
            std::fs::write(&file, pem).unwrap();
            let login = format!("user:secret@localhost:{}", addr.port());
            let url =
                if is_starttls { format!("smtp://{login}?tls=required") } else { format!("smtps://{login}") };
            let mailer = mailer_of(&url, |mail| mail.smtp_ca = is_named.then(|| file.clone()));
            let found = mailer.send(&mail("x"), 7, NOW).await.map_err(|error| error.to_string());
            let failed =
                expected.map(|why| format!("the mail server does not take the mail now: TLS failed: {why}"));
            assert_eq!(found.err(), failed, "{name}, {until}, {is_named}, {is_starttls}");
            let reported = reported.await.unwrap();
            let is_sent = reported.iter().any(|line| line.starts_with("DATA"));
            assert_eq!(is_sent, expected.is_none(), "{reported:?}");
            let is_told = reported.iter().any(|line| line.starts_with("AUTH"));
            assert_eq!(is_told, expected.is_none(), "{reported:?}");
        }
    }
}
