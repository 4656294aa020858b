//! Tests with scripted mail servers.

use super::conversation::SmtpStream;
use super::*;
use crate::management::mail::{Mail, Mailer, address};
use lettre::transport::smtp::client::AsyncTokioStream;
use rpcgate_core::clock::Time;
use rpcgate_core::config::MailSettings;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadBuf};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

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

/// A server that accepts one connection and answers each command as `script` says: with the first entry whose
/// word begins the line. It returns the received lines.
async fn stub(script: &'static [(&'static str, &'static str)]) -> (SocketAddr, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let reported = tokio::spawn(async move {
        let (read, mut write) = listener.accept().await.unwrap().0.into_split();
        let mut lines = BufReader::new(read).lines();
        let (mut reported, mut data) = (Vec::new(), false);
        write.write_all(b"220 stub\r\n").await.unwrap();
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
                && write.write_all(answer.as_bytes()).await.is_err()
            {
                break;
            }
        }
        reported
    });
    (addr, reported)
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
async fn a_refusal_says_whether_another_try_may_help() {
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
async fn a_refused_log_in_is_no_property_of_the_mail() {
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

/// What a server does at each step, and how long it takes for it.
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

/// The client's end of a connection in memory. A paused clock moves on as soon as no task can run. While bytes are on their
/// way through a socket that would be at once, and every deadline would end.
#[derive(Debug)]
struct MemoryStream(BufReader<DuplexStream>);

impl AsyncRead for MemoryStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for MemoryStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl AsyncTokioStream for MemoryStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::from(([127, 0, 0, 1], SMTP_PORT)))
    }
}

impl SmtpStream for MemoryStream {
    async fn wait_readable(&mut self) -> io::Result<()> {
        self.0.fill_buf().await.map(drop)
    }
}

fn connection() -> (MemoryStream, DuplexStream) {
    let (client, server) = tokio::io::duplex(64 << 10);
    (MemoryStream(BufReader::new(client)), server)
}

/// Sends a mail over a connection, as [`MailServer::send`] does it without TLS and without a login.
async fn send_over(stream: MemoryStream) -> Result<(), MailError> {
    let message = mailer("smtp://localhost").compose(&mail("x"), 7, NOW)?;
    send_and_close(open(stream, &ClientId::Domain("rpcgate.example".into())).await?, &message).await
}

/// A connection to a server with this behaviour, and the number of mails that the server has accepted. An empty answer
/// closes the connection.
fn server(behaviour: Behaviour) -> (MemoryStream, Arc<AtomicUsize>) {
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

/// What becomes of a mail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Sent,
    Retried,
    RetriedAndAlerted,
    Dropped,
}

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
async fn a_server_that_says_nothing_is_left_after_five_minutes() {
    let (stream, _server) = connection();
    let before = tokio::time::Instant::now();
    let found = send_over(stream).await;
    assert!(matches!(&found, Err(MailError::Unavailable(why)) if why.contains("no greeting")), "{found:?}");
    assert_eq!(before.elapsed().as_secs(), 300);
}

#[tokio::test]
async fn this_host_introduces_itself_with_the_domain_of_the_sender_or_the_configured_name() {
    let (addr, reported) = stub(TAKES).await;
    mailer(&format!("smtp://{addr}")).send(&mail("x"), 7, NOW).await.unwrap();
    assert_eq!(reported.await.unwrap()[0], "EHLO rpcgate.example");
    let (addr, reported) = stub(TAKES).await;
    let named = mailer_of(&format!("smtp://{addr}"), |mail| mail.hello = Some("[192.0.2.7]".into()));
    named.send(&mail("x"), 7, NOW).await.unwrap();
    assert_eq!(reported.await.unwrap()[0], "EHLO [192.0.2.7]");
    // A sender without a domain: the name of the host if it is qualified, and else an address literal.
    let host = |name: &str| hello("localhost", || ClientId::Domain(name.into())).to_string();
    assert_eq!((host("a.example").as_str(), host("a").as_str()), ("a.example", "[127.0.0.1]"));
}

#[tokio::test]
async fn without_tls_a_mail_goes_to_private_addresses_only() {
    let none = |settings: &mut MailSettings| settings.tls = MailTls::None;
    for (address, expected) in [
        ("127.0.0.1", true),
        ("10.1.2.3", true),
        ("172.31.0.1", true),
        ("192.168.0.1", true),
        ("::1", true),
        ("fd00::1", true),
        ("::ffff:10.0.0.1", true),
        ("172.32.0.1", false),
        ("100.64.0.1", false),
        ("169.254.1.1", false),
        ("8.8.8.8", false),
        ("2001:db8::1", false),
        ("fe80::1", false),
        ("::ffff:8.8.8.8", false),
    ] {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(is_private(address), expected, "{address}");
        let mut settings = MailSettings::default();
        none(&mut settings);
        settings.from = FROM.into();
        let url = format!("smtp://{}", SocketAddr::new(address, 25));
        assert_eq!(Mailer::smtp(&url, &settings).is_ok(), expected, "{url}");
    }
    // The name is resolved for each mail, so its address is checked then.
    let (addr, reported) = stub(TAKES).await;
    mailer_of(&format!("smtp://u:p@localhost:{}", addr.port()), none).send(&mail("x"), 7, NOW).await.unwrap();
    assert!(reported.await.unwrap().contains(&"DATA".to_owned()));
    let server = MailServer {
        host: "192.0.2.1".into(),
        port: 25,
        login: None,
        encryption: Encryption::Private,
        hello: ClientId::Ipv4([127, 0, 0, 1].into()),
    };
    let found = server.addresses().await;
    assert!(
        matches!(&found, Err(MailError::Unavailable(why)) if why.contains("no private address")),
        "{found:?}"
    );
}

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

fn read(url: &str, tls: MailTls) -> Result<MailServer, MailError> {
    let options = ServerOptions { authorities: None, tls, hello: None, sender_domain: "rpcgate.example" };
    MailServer::read(url, options)
}

#[test]
fn a_url_says_how_private_the_connection_is() {
    for (url, encryption, port) in [
        ("smtps://u:p@mail.example.com", "tls", 465),
        ("smtps://localhost:9465", "tls", 9465),
        ("smtp://mail.example.com", "starttls", 587),
        ("smtp://10.0.0.1:2525", "starttls", 2525),
        ("smtp://localhost.example.com", "starttls", 587),
        ("smtp://LOCALHOST", "local", 25),
        ("smtp://127.0.0.1:1025/", "local", 1025),
        ("smtp://[::1]", "local", 25),
        ("smtp://localhost?tls=required", "starttls", 587),
    ] {
        let server = read(url, MailTls::Auto).unwrap();
        let found = match server.encryption {
            Encryption::Tls(_) => "tls",
            Encryption::StartTls(_) => "starttls",
            Encryption::Private => "local",
        };
        assert_eq!((found, server.port), (encryption, port), "{url}");
    }
    for (url, why) in [
        ("mail.example.com", "must begin with one of smtp://, smtps://"),
        ("http://u:secret@mail.example.com", "must begin with one of smtp://, smtps://"),
        ("smtp://", "must be a URL"),
        ("smtps://u:se%zzcret@h", "has a user or password with a broken percent-escape"),
        ("smtps://u:secret%2@h", "has a user or password with a broken percent-escape"),
        ("smtps://u:%ff@h", "has a user or password with a broken percent-escape"),
        ("smtps://secret@h", "has a user without a password"),
        ("smtp://h?tls=opportunistic", "may end in ?tls=required and in nothing else"),
    ] {
        let found = read(url, MailTls::Auto).err().map(|error| error.to_string());
        assert_eq!(found, Some(format!("admin.mail.smtp: {why}")), "{url}");
    }
    for (url, tls, expected) in [
        ("smtp://localhost", MailTls::Required, Some("starttls")),
        ("smtp://relay", MailTls::None, Some("local")),
        ("smtp://relay?tls=required", MailTls::None, None),
        ("smtps://relay", MailTls::None, None),
        ("smtps://relay", MailTls::Required, Some("tls")),
    ] {
        let found = read(url, tls).ok().map(|server| match server.encryption {
            Encryption::Tls(_) => "tls",
            Encryption::StartTls(_) => "starttls",
            Encryption::Private => "local",
        });
        assert_eq!(found, expected, "{url} {tls:?}");
    }
}
