//! Outgoing mails.
//!
//! A mail is plain text to one recipient. It is sent through an SMTP server or, without one, written into a folder as
//! an `.eml` file that mail programs open. A mail that is passed in twice is sent twice, and nothing is retried: both
//! are up to the caller.

mod invoices;
mod queue;
mod texts;

pub use queue::MailQueue;

use lettre::message::header::{ContentTransferEncoding, ContentType, MessageId};
use lettre::message::{Body, Mailbox};
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{Error as SmtpError, SMTP_PORT, SUBMISSION_PORT, SUBMISSIONS_PORT};
use lettre::{Address as Mailable, Message};
use rpcgate_core::clock::Time;
use rpcgate_core::secret::{NoRandomness, random_text};
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use time::OffsetDateTime;

/// Deadline of an SMTP server for one mail.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest address that SMTP supports (RFC 5321, 4.5.3.1.3).
const MAX_ADDRESS: usize = 254;
/// Characters of a subject, at most.
const MAX_SUBJECT: usize = 200;

/// A mail address: ASCII, lower case, with a domain that is a name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(Mailable);

impl Address {
    /// The address as text.
    pub fn as_str(&self) -> &str {
        self.0.as_ref()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is not a mail address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadAddress {
    /// It is longer than an address can be.
    #[error("the e-mail address must have at most {MAX_ADDRESS} characters")]
    Long,
    /// It does not have the form of an address, or one that is not supported: quoted, non-ASCII, or with an IP
    /// address.
    #[error("the e-mail address must be of the form name@example.com")]
    Form,
}

/// Parses a mail address and converts it to lower case, so that an account has one name.
///
/// ```
/// use rpcgate_admin::management::mail::address;
///
/// assert_eq!(address("Ada@Example.COM")?.as_str(), "ada@example.com");
/// assert!(address("ada@example.com\r\nBcc: all@example.com").is_err());
/// # Ok::<(), rpcgate_admin::management::mail::BadAddress>(())
/// ```
///
/// # Errors
/// [`BadAddress`] says what is wrong.
pub fn address(text: &str) -> Result<Address, BadAddress> {
    if text.len() > MAX_ADDRESS {
        return Err(BadAddress::Long);
    }
    let plain = |c: char| {
        c.is_ascii_graphic() && !matches!(c, '"' | '(' | ')' | '<' | '>' | '[' | ']' | '\\' | ',' | ';' | ':')
    };
    if !text.chars().all(plain) {
        return Err(BadAddress::Form);
    }
    let address: Mailable = text.to_ascii_lowercase().parse().map_err(|_| BadAddress::Form)?;
    // Some read 127.1 as an IP address, and no host name ends in a number.
    let last = address.domain().rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BadAddress::Form);
    }
    Ok(Address(address))
}

/// A mail without its sender and date.
#[derive(Clone, PartialEq, Eq)]
pub struct Mail {
    /// The recipient.
    pub to: Address,
    /// One line.
    pub subject: String,
    /// Plain text.
    pub text: String,
}

impl fmt::Debug for Mail {
    /// Leaves out the text, which may contain a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail").field("to", &self.to).field("subject", &self.subject).finish_non_exhaustive()
    }
}

/// Why a mail could not be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MailError {
    /// `admin.mail.smtp` names no usable server. The text does not repeat the URL.
    #[error("admin.mail.smtp: {0}")]
    Url(String),
    /// `admin.mail.from` is not a valid sender.
    #[error("admin.mail.from must be a mail address such as \"rpcgate <post@example.com>\"")]
    Sender,
    /// The subject is not a single line of text.
    #[error("the subject of a mail must be one line of at most {MAX_SUBJECT} characters")]
    Subject,
    /// The mail cannot be composed.
    #[error("the mail cannot be composed: {0}")]
    Compose(String),
    /// The server rejects this mail permanently, for example because the recipient does not exist.
    #[error("the mail server refuses the mail: {0}")]
    Refused(String),
    /// The server cannot be reached, rejects the mail temporarily, or does not answer in time. A later try may
    /// succeed. The mail may have been sent nevertheless.
    #[error("the mail server does not take the mail now: {0}")]
    Unavailable(String),
    /// The outbox cannot be written to.
    #[error("{file}: the mail cannot be written: {why}")]
    Outbox {
        /// The file or folder.
        file: String,
        /// Why not.
        why: io::Error,
    },
}

impl From<SmtpError> for MailError {
    fn from(error: SmtpError) -> Self {
        if error.is_permanent() {
            MailError::Refused(error.to_string())
        } else {
            MailError::Unavailable(error.to_string())
        }
    }
}

impl From<NoRandomness> for MailError {
    fn from(error: NoRandomness) -> Self {
        MailError::Compose(error.to_string())
    }
}

/// How the connection is encrypted.
enum Encryption {
    /// TLS from the first byte.
    Tls(TlsParameters),
    /// STARTTLS before anything confidential is sent; without it the mail is not sent.
    StartTls(TlsParameters),
    /// Not encrypted: the server is on this machine.
    Local,
}

struct Server {
    host: String,
    port: u16,
    login: Option<Credentials>,
    encryption: Encryption,
    hello: ClientId,
}

enum Transport {
    Smtp(Box<Server>),
    Outbox(PathBuf),
}

/// Sends mails.
pub struct Mailer {
    from: Mailbox,
    transport: Transport,
}

impl fmt::Debug for Mailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transport {
            Transport::Smtp(server) => write!(f, "Mailer({}:{})", server.host, server.port),
            Transport::Outbox(folder) => write!(f, "Mailer({})", folder.display()),
        }
    }
}

impl Mailer {
    /// Sends through the server at `url` (`admin.mail.smtp`) with the sender `from`.
    ///
    /// `smtps://user:password@host` is encrypted from the start (port 465). `smtp://…` is encrypted by STARTTLS (port
    /// 587), which the server must offer; only a server on this machine is used without encryption (port 25), unless
    /// the URL ends in `?tls=required`. User and password are percent-encoded. Each mail uses a connection of its own
    /// and is abandoned after 10 s.
    ///
    /// # Errors
    /// [`MailError::Url`] and [`MailError::Sender`].
    pub fn smtp(url: &str, from: &str) -> Result<Self, MailError> {
        Ok(Mailer { from: sender(from)?, transport: Transport::Smtp(Box::new(Server::read(url)?)) })
    }

    /// Writes each mail into `folder` (`admin.mail.outbox`) with the sender `from`. The folder is created if it is
    /// missing. A file whose name ends in `.eml` is complete and readable by its owner alone; the names sort by time.
    ///
    /// # Errors
    /// [`MailError::Outbox`] and [`MailError::Sender`].
    pub fn outbox(folder: impl Into<PathBuf>, from: &str) -> Result<Self, MailError> {
        let (from, folder) = (sender(from)?, folder.into());
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder).map_err(|why| outbox(&folder, why))?;
        Ok(Mailer { from, transport: Transport::Outbox(folder) })
    }

    /// Sends `mail`, dated `now`.
    ///
    /// # Errors
    /// [`MailError`] says whether another try may succeed.
    pub async fn send(&self, mail: &Mail, now: Time) -> Result<(), MailError> {
        let message = self.compose(mail, now)?;
        match &self.transport {
            Transport::Smtp(server) => tokio::time::timeout(DEADLINE, server.send(&message))
                .await
                .map_err(|_| MailError::Unavailable(format!("no answer within {DEADLINE:?}")))?,
            Transport::Outbox(folder) => {
                let mut name = stamp(now);
                name.push('-');
                random_text(8, &mut name)?;
                let (folder, bytes) = (folder.clone(), message.formatted());
                let written = tokio::task::spawn_blocking(move || write(&folder, &name, &bytes)).await;
                written.map_err(|_| MailError::Compose("the thread ended early".into()))?
            }
        }
    }

    fn compose(&self, mail: &Mail, now: Time) -> Result<Message, MailError> {
        // A control character here could start another header line.
        let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        if mail.subject.contains(breaks) || mail.subject.chars().count() > MAX_SUBJECT {
            return Err(MailError::Subject);
        }
        let mut id = String::from("<");
        random_text(24, &mut id)?;
        let id = MessageId::from(format!("{id}@{}>", self.from.email.domain()));
        let date = UNIX_EPOCH
            .checked_add(Duration::from_secs(now.secs()))
            // The header has four digits for the year.
            .filter(|_| now.secs() < 253_402_300_800)
            .ok_or_else(|| MailError::Compose("the date is out of range".into()))?;
        Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, mail.to.0.clone()))
            .subject(mail.subject.as_str())
            .date(date)
            .header(id)
            .header(ContentType::TEXT_PLAIN)
            .body(body(&mail.text))
            .map_err(|error| MailError::Compose(error.to_string()))
    }
}

/// The text unchanged, if SMTP can carry it (RFC 5321, 4.5.3.1.6: lines of 998 characters). The crate would encode it
/// because of a line longer than 76 characters, and split links in the file. Single carriage returns, which only some
/// servers treat as line ends, become line ends; other control characters become spaces.
fn body(text: &str) -> Body {
    let text: String = text
        .replace("\r\n", "\n")
        .chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\r' => '\n',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect();
    if !text.is_ascii() || text.lines().any(|line| line.len() > 998) {
        return Body::new(text);
    }
    let lines = text.lines().flat_map(|line| [line, "\r\n"]).collect::<String>();
    Body::dangerous_pre_encoded(lines.into_bytes(), ContentTransferEncoding::SevenBit)
}

fn sender(from: &str) -> Result<Mailbox, MailError> {
    let mailbox: Mailbox = from.parse().map_err(|_| MailError::Sender)?;
    let line = mailbox.name.as_deref().is_none_or(|name| !name.contains(char::is_control));
    if line && !from.contains(char::is_control) { Ok(mailbox) } else { Err(MailError::Sender) }
}

impl Server {
    fn read(url: &str) -> Result<Self, MailError> {
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
        let tls = || TlsParameters::new(host.clone()).map_err(|error| MailError::Url(error.to_string()));
        let (encryption, usual) = match url.scheme_str() {
            Some("smtps") => (Encryption::Tls(tls()?), SUBMISSIONS_PORT),
            Some("smtp") if required || !is_local(&host) => (Encryption::StartTls(tls()?), SUBMISSION_PORT),
            Some("smtp") => (Encryption::Local, SMTP_PORT),
            _ => return Err(wrong("must begin with one of smtp://, smtps://")),
        };
        let port = authority.port_u16().unwrap_or(usual);
        Ok(Server { host, port, login, encryption, hello: ClientId::default() })
    }

    /// One connection per mail. A pool would take back a connection whose conversation was cut off, and read the rest
    /// of it as replies to the next mail.
    async fn send(&self, message: &Message) -> Result<(), MailError> {
        let tls = match &self.encryption {
            Encryption::Tls(tls) => Some(tls.clone()),
            Encryption::StartTls(_) | Encryption::Local => None,
        };
        let to = (self.host.as_str(), self.port);
        let mut server =
            AsyncSmtpConnection::connect_tokio1(to, Some(DEADLINE), &self.hello, tls, None).await?;
        if let Encryption::StartTls(tls) = &self.encryption {
            if !server.can_starttls() {
                server.abort().await;
                return Err(MailError::Unavailable("it does not offer STARTTLS".into()));
            }
            server.starttls(tls.clone(), &self.hello).await?;
        }
        if let Some(login) = &self.login {
            // A rejected password is the operator's problem and says nothing about the mail.
            let logged_in = server.auth(DEFAULT_MECHANISMS, login).await;
            logged_in.map_err(|error| MailError::Unavailable(error.to_string()))?;
        }
        server.send(message.envelope(), &message.formatted()).await?;
        // The server has accepted the mail, so an error in closing does not matter.
        let _ = tokio::time::timeout(Duration::from_secs(1), server.quit()).await;
        Ok(())
    }
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

/// A time as a file name that sorts by time: `20270115T080000.000000Z`.
fn stamp(now: Time) -> String {
    let seconds = i64::try_from(now.secs()).unwrap_or(i64::MAX);
    let date = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (hour, minute, second) = date.to_hms();
    format!(
        "{:04}{:02}{:02}T{hour:02}{minute:02}{second:02}.{:06}Z",
        date.year(),
        u8::from(date.month()),
        date.day(),
        now.micros() % 1_000_000
    )
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), MailError> {
    let (fresh, done) = (folder.join(format!(".{name}.tmp")), folder.join(format!("{name}.eml")));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let write = || {
        let mut file = options.open(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, &done)
    };
    write().map_err(|why| {
        // Half a mail is useless, and a failure to remove it does not change the error.
        let _ = fs::remove_file(&fresh);
        outbox(&done, why)
    })
}

fn outbox(file: &Path, why: io::Error) -> MailError {
    MailError::Outbox { file: file.display().to_string(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    const NOW: Time = Time::from_micros(1_800_000_000_000_042);
    const FROM: &str = "rpcgate <post@rpcgate.example>";

    fn mail(text: &str) -> Mail {
        Mail { to: address("ada@example.com").unwrap(), subject: "Hello".into(), text: text.into() }
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
        let post = Mailer::smtp(&format!("smtp://po%40st:p%3Aw%25@{addr}"), FROM).unwrap();
        post.send(&mail("One\n.\nTwo\n"), NOW).await.unwrap();
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
        let body: Vec<_> =
            data.iter().skip_while(|line| !line.is_empty()).skip(1).map(String::as_str).collect();
        assert_eq!(body[..3], ["One", "..", "Two"]);
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
        let post = Mailer::smtp(&format!("smtp://{addr}"), FROM).unwrap();
        let found = post.send(&mail("x"), NOW).await;
        assert!(
            matches!(&found, Err(MailError::Refused(why)) if why.contains("no such reader")),
            "{found:?}"
        );
        assert!(!reported.await.unwrap().contains(&"DATA".to_owned()));

        let (addr, _) =
            stub(&[("EHLO", "250 stub\r\n"), ("MAIL", "451 later\r\n"), ("QUIT", "221 bye\r\n")]).await;
        let found = Mailer::smtp(&format!("smtp://{addr}"), FROM).unwrap().send(&mail("x"), NOW).await;
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
        let post = Mailer::smtp(&format!("smtp://user:secret@{addr}"), FROM).unwrap();
        let found = post.send(&mail("x"), NOW).await;
        assert!(matches!(&found, Err(MailError::Unavailable(why)) if !why.contains("secret")), "{found:?}");
        assert!(!reported.await.unwrap().iter().any(|line| line.starts_with("MAIL")));
        assert!(!format!("{post:?}").contains("secret"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_nothing_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let post = Mailer::smtp(&format!("smtp://{}", listener.local_addr().unwrap()), FROM).unwrap();
        let before = tokio::time::Instant::now();
        assert!(matches!(post.send(&mail("x"), NOW).await, Err(MailError::Unavailable(_))));
        assert!(before.elapsed() <= DEADLINE + Duration::from_secs(1));
    }

    #[tokio::test]
    async fn no_byte_is_sent_unencrypted_if_encryption_is_required() {
        let (addr, reported) = stub(TAKES).await;
        let post = Mailer::smtp(&format!("smtp://user:secret@{addr}?tls=required"), FROM).unwrap();
        let found = post.send(&mail("x"), NOW).await;
        assert!(matches!(&found, Err(MailError::Unavailable(why)) if why.contains("STARTTLS")), "{found:?}");
        let reported = reported.await.unwrap();
        assert!(reported.iter().all(|line| line.starts_with("EHLO") || line == "QUIT"), "{reported:?}");

        // A server that greets without TLS on a port for TLS.
        let (addr, reported) = stub(TAKES).await;
        let found =
            Mailer::smtp(&format!("smtps://user:secret@{addr}"), FROM).unwrap().send(&mail("x"), NOW).await;
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
            let server = Server::read(url).unwrap();
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
            let found = Server::read(url).err().map(|error| error.to_string());
            assert_eq!(found, Some(format!("admin.mail.smtp: {why}")), "{url}");
        }
    }

    #[test]
    fn an_address_has_one_form() {
        let long = format!("{}@{}.example.com", "a".repeat(64), ["b".repeat(60), "c".repeat(60)].join("."));
        for (text, form) in [
            ("ada@example.com", "ada@example.com"),
            ("Ada.King+Test@EXAMPLE.com", "ada.king+test@example.com"),
            ("o'brien@example.com", "o'brien@example.com"),
            ("a@xn--bcher-kva.example", "a@xn--bcher-kva.example"),
            (&long, &long),
        ] {
            assert_eq!(address(text).unwrap().as_str(), form);
        }
        for text in [
            "",
            "ada",
            "@example.com",
            "ada@",
            "ada@@example.com",
            "ada@example..com",
            "ada@-example.com",
            "ada@example.com.",
            " ada@example.com",
            "ada@example.com ",
            "ada@example.com\r\nBcc: all@example.com",
            "ada@example.com\nX: y",
            "ada\r\n@example.com",
            "ada@example.com\0",
            "ada@exa\u{2028}mple.com",
            "Ada <ada@example.com>",
            "<ada@example.com>",
            "ada@example.com,bob@example.com",
            "ada@example.com;bob@example.com",
            "\"ada\r\nRCPT TO:<x@y>\"@example.com",
            "\"ada king\"@example.com",
            "ada(comment)@example.com",
            "ada@[127.0.0.1]",
            "ada@127.0.0.1",
            "ada@127.1",
            "ada@[IPv6:::1]",
            "ada@::1",
            "ädä@example.com",
            // The Kelvin sign, whose lower case is a plain k.
            "\u{212a}ate@example.com",
        ] {
            assert_eq!(address(text), Err(BadAddress::Form), "{text:?}");
        }
        assert_eq!(address(&format!("{}@example.com", "a".repeat(65))), Err(BadAddress::Form));
        assert_eq!(address(&format!("a@{}example.com", "b.".repeat(130))), Err(BadAddress::Long));
    }

    #[tokio::test]
    async fn nothing_in_a_mail_begins_a_header() {
        let folder = tempfile::tempdir().unwrap();
        let post = Mailer::outbox(folder.path(), FROM).unwrap();
        for subject in
            ["a\r\nBcc: all@example.com", "a\nb", "a\rb", "a\0", "a\u{85}b", "a\u{2028}b", &"a".repeat(201)]
        {
            let mail = Mail { subject: subject.into(), ..mail("x") };
            assert!(matches!(post.send(&mail, NOW).await, Err(MailError::Subject)), "{subject:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        for from in [
            "",
            "post",
            "a@b.example\r\nBcc: c@d.example",
            "\"a\r\nX: y\" <a@b.example>",
            "a@b.example, c@d.example",
        ] {
            assert!(matches!(Mailer::outbox(folder.path(), from), Err(MailError::Sender)), "{from:?}");
            assert!(matches!(Mailer::smtp("smtp://localhost", from), Err(MailError::Sender)), "{from:?}");
        }
        let mail = Mail { subject: "Grüße ☃".into(), ..mail("\r\nBcc: all@example.com\r\n\r\n.\r\n") };
        post.send(&mail, NOW).await.unwrap();
        let text = only(folder.path());
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        assert!(!head.contains("Bcc") && head.is_ascii(), "{head}");
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn only(folder: &Path) -> String {
        let names = names(folder);
        assert_eq!(names.len(), 1, "{names:?}");
        fs::read_to_string(folder.join(&names[0])).unwrap()
    }

    #[tokio::test]
    async fn an_outbox_holds_whole_mails_in_the_order_of_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let post = Mailer::outbox(&path, FROM).unwrap();
        let times = [0, 999_999, 1_000_000, 86_400_000_000, 40_000_000_000_000];
        for after in times.into_iter().rev() {
            let mail = mail(&format!("after {after}"));
            post.send(&mail, NOW.plus(Duration::from_micros(after))).await.unwrap();
        }
        let names = names(&path);
        assert!(names[0].starts_with("20270115T080000.000042Z-") && names[0].ends_with(".eml"), "{names:?}");
        for (name, after) in names.iter().zip(times) {
            let text = fs::read_to_string(path.join(name)).unwrap();
            assert!(text.contains(&format!("\r\n\r\nafter {after}")), "{name}: {text}");
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path.join(&names[0])), mode(&path)), (0o600, 0o700));
        }
    }

    #[tokio::test]
    async fn two_mails_of_one_moment_are_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let post = Mailer::outbox(folder.path(), FROM).unwrap();
        for _ in 0..10 {
            post.send(&mail("x"), NOW).await.unwrap();
        }
        assert_eq!(names(folder.path()).len(), 10);
    }

    #[tokio::test]
    async fn an_outbox_that_is_gone_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outbox");
        let post = Mailer::outbox(&path, FROM).unwrap();
        fs::remove_dir(&path).unwrap();
        let found = post.send(&mail("x"), NOW).await.unwrap_err().to_string();
        assert!(found.starts_with(path.to_str().unwrap()), "{found}");
        fs::write(&path, "a file").unwrap();
        assert!(matches!(Mailer::outbox(&path, FROM), Err(MailError::Outbox { .. })));
    }

    #[tokio::test]
    async fn the_links_in_a_mail_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let post = Mailer::outbox(folder.path(), FROM).unwrap();
        let (to, token) = (address("ada@example.com").unwrap(), format!("rpcgc_{}", "x".repeat(43)));
        for dash_url in ["http://127.0.0.1:8081", "https://dash.rpcgate.example/some/deeper/path/"] {
            let mail = Mail::confirmation(to.clone(), dash_url, &token, Duration::from_secs(86_400));
            assert!(!format!("{mail:?}").contains(&token));
            post.send(&mail, NOW).await.unwrap();
            let text = only(folder.path());
            let link = format!("\r\n{}/confirm?token={token}\r\n", dash_url.trim_end_matches('/'));
            assert!(text.contains(&link) && text.contains("within 24 hours"), "{text}");
            fs::remove_file(folder.path().join(&names(folder.path())[0])).unwrap();
        }
        let mail = Mail::registered_already(to, "http://127.0.0.1:8081/");
        assert!(mail.text.contains("\nhttp://127.0.0.1:8081/login\n"), "{}", mail.text);
        let (to, host) = (address("ada@example.com").unwrap(), address("host@example.com").unwrap());
        let link = format!("https://dash.rpcgate.example/some/deeper/path/invitation?token={token}");
        let life = Duration::from_secs(7 * 86_400);
        let mail = Mail::invitation(to.clone(), &host, "developer", &link, life);
        assert!(!format!("{mail:?}").contains(&token));
        post.send(&mail, NOW).await.unwrap();
        let text = only(folder.path());
        assert!(text.contains(&format!("\r\n{link}\r\n")) && text.contains("within 7 days"), "{text}");
        assert!(text.contains("host@example.com invites you") && text.contains("\"developer\""), "{text}");
        let mail = Mail::invited_in_vain(to, &host);
        assert!(mail.text.contains("host@example.com") && !mail.text.contains("http"), "{}", mail.text);
    }

    #[test]
    fn text_that_smtp_cannot_carry_is_encoded() {
        for (text, encoding) in [
            ("", ContentTransferEncoding::SevenBit),
            ("a\r\nb\tc\n", ContentTransferEncoding::SevenBit),
            (&"x".repeat(998), ContentTransferEncoding::SevenBit),
            (&"x".repeat(999), ContentTransferEncoding::QuotedPrintable),
            ("a\rb\r\r\n.\r", ContentTransferEncoding::SevenBit),
            ("a\0b\u{7f}", ContentTransferEncoding::SevenBit),
            ("Grüße", ContentTransferEncoding::Base64),
        ] {
            let body = body(text);
            assert_eq!(body.encoding(), encoding, "{text:?}");
            let bytes = body.into_vec();
            assert!(bytes.is_ascii() && !bytes.contains(&0), "{text:?}");
            let lone = |(at, byte): (usize, &u8)| match byte {
                b'\r' => bytes.get(at + 1) != Some(&b'\n'),
                b'\n' => at == 0 || bytes[at - 1] != b'\r',
                _ => false,
            };
            assert!(!bytes.iter().enumerate().any(lone), "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_moment_that_no_header_can_hold_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let post = Mailer::outbox(folder.path(), FROM).unwrap();
        for late in [Time::from_secs(253_402_300_800), Time::from_micros(u64::MAX)] {
            assert!(matches!(post.send(&mail("x"), late).await, Err(MailError::Compose(_))));
        }
        post.send(&mail("x"), Time::from_secs(253_402_300_799)).await.unwrap();
    }
}
