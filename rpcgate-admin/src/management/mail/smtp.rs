//! Mail servers (SMTP, RFC 5321; STARTTLS, RFC 3207; implicit TLS, RFC 8314).

use super::MailError;
use lettre::Message;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{Error as SmtpError, SMTP_PORT, SUBMISSION_PORT, SUBMISSIONS_PORT};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// Deadline of a mail server for one mail.
const DEADLINE: Duration = Duration::from_secs(10);

/// How the connection is encrypted.
enum Encryption {
    /// TLS from the first byte.
    Tls(TlsParameters),
    /// STARTTLS before anything confidential is sent; without it the mail is not sent.
    StartTls(TlsParameters),
    /// Not encrypted: the server is on this machine.
    Local,
}

/// A mail server.
pub(super) struct MailServer {
    host: String,
    port: u16,
    login: Option<Credentials>,
    encryption: Encryption,
    hello: ClientId,
}

impl fmt::Display for MailServer {
    /// Leaves out the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl MailServer {
    /// The server at `url`. Its certificate must be signed by a public authority or by one of `authorities`, in PEM
    /// format.
    ///
    /// # Errors
    /// [`MailError::Url`].
    pub(super) fn read(url: &str, authorities: Option<&[u8]>) -> Result<Self, MailError> {
        let wrong = |why: &str| MailError::Url(why.into());
        let url: http::Uri = url.parse().map_err(|_| wrong("must be a URL"))?;
        let authority = url.authority().ok_or_else(|| wrong("must name a host"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(wrong("must name a host"));
        }
        let login = match authority.as_str().rsplit_once('@') {
            None => None,
            Some((login, _)) => {
                let (user, password) =
                    login.split_once(':').ok_or_else(|| wrong("has a user without a password"))?;
                let decoded = decode(user).zip(decode(password));
                let (user, password) =
                    decoded.ok_or_else(|| wrong("has a user or password with a broken percent-escape"))?;
                Some(Credentials::new(user, password))
            }
        };
        let required = match url.query() {
            None | Some("") => false,
            Some("tls=required") => true,
            Some(_) => return Err(wrong("may end in ?tls=required and in nothing else")),
        };
        let tls = || {
            let mut builder = TlsParameters::builder(host.clone());
            if let Some(pem) = authorities {
                builder = builder.add_root_certificate(Certificate::from_pem(pem)?);
            }
            builder.build()
        };
        let tls = || tls().map_err(|error: SmtpError| MailError::Url(error.to_string()));
        let (encryption, usual) = match url.scheme_str() {
            Some("smtps") => (Encryption::Tls(tls()?), SUBMISSIONS_PORT),
            Some("smtp") if required || !is_local(&host) => (Encryption::StartTls(tls()?), SUBMISSION_PORT),
            Some("smtp") => (Encryption::Local, SMTP_PORT),
            _ => return Err(wrong("must begin with one of smtp://, smtps://")),
        };
        let port = authority.port_u16().unwrap_or(usual);
        Ok(MailServer { host, port, login, encryption, hello: ClientId::default() })
    }

    /// Sends a mail, within the deadline.
    ///
    /// # Errors
    /// [`MailError::Refused`] if another try is of no use, [`MailError::Unavailable`].
    pub(super) async fn send(&self, message: &Message) -> Result<(), MailError> {
        let sent = tokio::time::timeout(DEADLINE, self.converse(message)).await;
        let mut connection =
            sent.map_err(|_| MailError::Unavailable(format!("no answer within {DEADLINE:?}")))??;
        // The server has accepted the mail, so an error in closing does not matter.
        let _ = tokio::time::timeout(Duration::from_secs(1), connection.quit()).await;
        Ok(())
    }

    /// Connects, encrypts the connection and logs in as for a mail, but sends none, within the deadline.
    ///
    /// # Errors
    /// [`MailError::Unavailable`].
    pub(super) async fn greet(&self) -> Result<(), MailError> {
        let connected = tokio::time::timeout(DEADLINE, self.connect()).await;
        let mut connection =
            connected.map_err(|_| MailError::Unavailable(format!("no answer within {DEADLINE:?}")))??;
        // It would take a mail, so an error in closing does not matter.
        let _ = tokio::time::timeout(Duration::from_secs(1), connection.quit()).await;
        Ok(())
    }

    /// Returns the connection over which the mail was sent. There is one connection per mail: a pool would take back a
    /// connection whose conversation was cut off, and read the rest of it as replies to the next mail.
    async fn converse(&self, message: &Message) -> Result<AsyncSmtpConnection, MailError> {
        let mut server = self.connect().await?;
        match server.send(message.envelope(), &message.formatted()).await {
            Ok(_) => Ok(server),
            Err(error) if error.is_permanent() => Err(MailError::Refused(error.to_string())),
            Err(error) => Err(unavailable(error)),
        }
    }

    /// A connection that takes a mail.
    async fn connect(&self) -> Result<AsyncSmtpConnection, MailError> {
        let tls = match &self.encryption {
            Encryption::Tls(tls) => Some(tls.clone()),
            Encryption::StartTls(_) | Encryption::Local => None,
        };
        let to = (self.host.as_str(), self.port);
        // What the server refuses before it has seen the mail says nothing about the mail.
        let connected = AsyncSmtpConnection::connect_tokio1(to, Some(DEADLINE), &self.hello, tls, None).await;
        let mut server = connected.map_err(unavailable)?;
        if let Encryption::StartTls(tls) = &self.encryption {
            if !server.can_starttls() {
                server.abort().await;
                return Err(MailError::Unavailable("it does not offer STARTTLS".into()));
            }
            server.starttls(tls.clone(), &self.hello).await.map_err(unavailable)?;
        }
        if let Some(login) = &self.login {
            server.auth(DEFAULT_MECHANISMS, login).await.map_err(unavailable)?;
        }
        Ok(server)
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "functions that make errors take ownership of their values"
)]
fn unavailable(error: SmtpError) -> MailError {
    MailError::Unavailable(error.to_string())
}

fn is_local(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Decodes percent-escapes.
fn decode(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first == b'%' {
            let digits;
            (digits, rest) = rest.split_at_checked(2)?;
            bytes.extend(hex::decode(digits).ok()?);
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::management::mail::{Mail, Mailer, address};
    use rpcgate_core::clock::Time;
    use std::net::SocketAddr;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    const NOW: Time = Time::from_micros(1_800_000_000_000_042);
    const FROM: &str = "rpcgate <post@rpcgate.example>";

    fn mail(text: &str) -> Mail {
        Mail::new(address("ada@example.com").unwrap(), "Hello", text)
    }

    fn mailer(url: &str) -> Mailer {
        Mailer::smtp(url, None, FROM).unwrap()
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
                data =
                    if data { line != "." } else { answer.is_some_and(|answer| answer.starts_with("354")) };
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
        assert!(
            data.iter().any(|line| line.starts_with("Message-ID: <") && line.ends_with("@rpcgate.example>"))
        );
        assert!(data.windows(3).any(|lines| lines == ["One", "..", "Two"]), "{data:#?}");
    }

    #[tokio::test]
    async fn a_refusal_says_whether_another_try_may_help() {
        let (addr, reported) = stub(&[
            ("EHLO", "250 stub\r\n"),
            ("MAIL", "250 ok\r\n"),
            ("RCPT", "550 no such reader\r\n"),
            ("QUIT", "221 bye\r\n"),
        ])
        .await;
        let post = mailer(&format!("smtp://{addr}"));
        let found = post.send(&mail("x"), 7, NOW).await;
        assert!(
            matches!(&found, Err(MailError::Refused(why)) if why.contains("no such reader")),
            "{found:?}"
        );
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
        assert!(matches!(&found, Err(MailError::Unavailable(why)) if !why.contains("secret")), "{found:?}");
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
        assert!(matches!(&found, Err(MailError::Unavailable(why)) if !why.contains("secret")), "{found:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_nothing_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let post = mailer(&format!("smtp://{}", listener.local_addr().unwrap()));
        let before = tokio::time::Instant::now();
        assert!(matches!(post.send(&mail("x"), 7, NOW).await, Err(MailError::Unavailable(_))));
        assert!(before.elapsed() <= DEADLINE + Duration::from_secs(1));
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
        assert!(
            !reported.await.unwrap().iter().any(|line| line.starts_with("AUTH") || line.starts_with("MAIL"))
        );
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
            let server = MailServer::read(url, None).unwrap();
            let found = match server.encryption {
                Encryption::Tls(_) => "tls",
                Encryption::StartTls(_) => "starttls",
                Encryption::Local => "local",
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
            let found = MailServer::read(url, None).err().map(|error| error.to_string());
            assert_eq!(found, Some(format!("admin.mail.smtp: {why}")), "{url}");
        }
    }
}
