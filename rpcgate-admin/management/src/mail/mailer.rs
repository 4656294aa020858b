//! Composes mails and passes them to a mail server, or writes them into a folder.

use super::forms::{html_part, text_part};
use super::mail_error::{MAX_SUBJECT, MAX_TEXT, MailError};
use super::outbox_folder::OutboxFolder;
use super::smtp::{MailServer, ServerOptions};
use super::{Mail, ends_line};
use crate::egress::tls::reason;
use lettre::Message;
use lettre::message::header::{Header, HeaderName, HeaderValue, MessageId};
use lettre::message::{Mailbox, MultiPart};
use rpcgate_config::MailSettings;
use rpcgate_core::clock::Time;
use rpcgate_layers::transport::trust;
use rpcgate_process::tls::authorities;
use rustls::ClientConfig;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

enum Transport {
    Smtp(Box<MailServer>),
    Outbox(OutboxFolder),
}

/// Sends mails.
pub struct Mailer {
    from: Mailbox,
    transport: Transport,
}

impl fmt::Debug for Mailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transport {
            Transport::Smtp(server) => write!(f, "Mailer({server})"),
            Transport::Outbox(folder) => write!(f, "Mailer({})", folder.path().display()),
        }
    }
}

impl Mailer {
    /// Sends through the server at `url` (`admin.mail.smtp`) with these `settings`.
    ///
    /// `smtps://user:password@host` is encrypted from the start (port 465). `smtp://…` is encrypted by STARTTLS (port
    /// 587), which the server must offer. A server on this machine is used without encryption (port 25), unless the URL
    /// ends in `?tls=required` or `admin.mail.tls` is `required`; with `none`, so is every server with a private
    /// address. A public authority must have signed the server's certificate, or a certificate in the PEM file
    /// `admin.mail.smtp_ca` must make it [trusted](trust::client_config). User and password are percent-encoded. Each
    /// mail has its own connection, and each step of the conversation has the time that RFC 5321 gives it.
    ///
    /// # Errors
    /// [`MailError::Url`], [`MailError::Authorities`] and [`MailError::Sender`].
    pub fn smtp(url: &str, settings: &MailSettings) -> Result<Self, MailError> {
        let from = sender(&settings.from)?;
        let options = ServerOptions {
            trusted: trusted(settings.smtp_ca.as_deref())?,
            tls: settings.tls,
            hello: settings.hello.as_deref(),
            sender_domain: from.email.domain(),
        };
        let server = MailServer::read(url, options)?;
        Ok(Mailer { from, transport: Transport::Smtp(Box::new(server)) })
    }

    /// Writes each mail into `folder` (`admin.mail.outbox`) with the sender `from`, and creates the folder if it is
    /// missing. A file whose name ends in `.eml` is complete and readable only by its owner. The names sort by time.
    ///
    /// # Errors
    /// [`MailError::Outbox`] and [`MailError::Sender`].
    pub fn outbox(folder: impl Into<PathBuf>, from: &str) -> Result<Self, MailError> {
        Ok(Mailer { from: sender(from)?, transport: Transport::Outbox(OutboxFolder::open(folder.into())?) })
    }

    /// Sends `mail`, dated `at`. A mail that is sent again with the same `id` has the same `Message-ID`, and the same
    /// file in a folder.
    ///
    /// # Errors
    /// [`MailError`] says whether another try may succeed.
    pub async fn send(&self, mail: &Mail, id: u128, at: Time) -> Result<(), MailError> {
        let message = self.compose(mail, id, at)?;
        match &self.transport {
            Transport::Smtp(server) => server.send(&message).await,
            Transport::Outbox(folder) => folder.write(id, at, message.formatted()).await,
        }
    }

    /// Checks that mails could be sent now: connects to the mail server and logs in, but sends nothing.
    ///
    /// # Errors
    /// [`MailError::Unavailable`].
    pub async fn greet(&self) -> Result<(), MailError> {
        match &self.transport {
            Transport::Smtp(server) => server.greet().await,
            Transport::Outbox(_) => Ok(()),
        }
    }

    /// Composes the mail in the form of RFC 5322, with a plain-text and an HTML part. It is marked as sent by a
    /// program, so that other programs do not answer it (RFC 3834).
    pub(super) fn compose(&self, mail: &Mail, id: u128, at: Time) -> Result<Message, MailError> {
        // A control character here could start another header line.
        if mail.subject.contains(ends_line) || mail.subject.chars().count() > MAX_SUBJECT {
            return Err(MailError::Subject);
        }
        if mail.text.len() > MAX_TEXT {
            return Err(MailError::Long);
        }
        let id = MessageId::from(format!("<{id:032x}@{}>", self.from.email.domain()));
        let date = UNIX_EPOCH
            .checked_add(Duration::from_secs(at.secs()))
            // The header has four digits for the year.
            .filter(|_| at.secs() < 253_402_300_800)
            .ok_or_else(|| MailError::Compose("the date is out of range".into()))?;
        let mut message = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, mail.to.0.clone()))
            .subject(mail.subject.as_str())
            .date(date)
            .header(id)
            .header(AutoSubmitted);
        if let Some(url) = &mail.preferences {
            if !url.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '<' | '>')) {
                return Err(MailError::Compose("the URL of the preferences is not one".into()));
            }
            message = message.header(ListUnsubscribe(format!("<{url}>")));
        }
        // Mail programs prefer the last part (RFC 2046, 5.1.4).
        let forms = MultiPart::alternative().singlepart(text_part(&mail.text)).singlepart(html_part(mail)?);
        message.multipart(forms).map_err(|error| MailError::Compose(error.to_string()))
    }
}

/// Returns TLS settings that trust the certificates in this file in addition to the public authorities.
fn trusted(file: Option<&Path>) -> Result<ClientConfig, MailError> {
    let named = file.map(authorities).transpose().map_err(MailError::Authorities)?;
    trust::client_config(&named.unwrap_or_default()).map_err(|error| {
        let file = file.unwrap_or(Path::new("")).display();
        MailError::Authorities(format!("{file}: {}", reason(&error)))
    })
}

fn sender(from: &str) -> Result<Mailbox, MailError> {
    let mailbox: Mailbox = from.parse().map_err(|_| MailError::Sender)?;
    let line = mailbox.name.as_deref().is_none_or(|name| !name.contains(char::is_control));
    if line && !from.contains(char::is_control) { Ok(mailbox) } else { Err(MailError::Sender) }
}

/// `Auto-Submitted: auto-generated` (RFC 3834, 5).
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(AutoSubmitted)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".into())
    }
}

/// `List-Unsubscribe` (RFC 2369, 3.2): a URL in angle brackets.
#[derive(Clone)]
struct ListUnsubscribe(String);

impl Header for ListUnsubscribe {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("List-Unsubscribe")
    }

    fn parse(text: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(ListUnsubscribe(text.to_owned()))
    }

    fn display(&self) -> HeaderValue {
        // The URL needs no encoding, and the encoder would break a long one in two.
        HeaderValue::dangerous_new_pre_encoded(Self::name(), self.0.clone(), self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::address;
    use std::fs;

    const NOW: Time = Time::from_micros(1_800_000_000_000_042);
    const FROM: &str = "rpcgate <post@rpcgate.example>";

    fn mail(text: &str) -> Mail {
        Mail::new(address("ada@example.com").unwrap(), "Hello", text)
    }

    #[tokio::test]
    async fn nothing_in_a_mail_begins_a_header() {
        let folder = tempfile::tempdir().unwrap();
        let post = Mailer::outbox(folder.path(), FROM).unwrap();
        for subject in
            ["a\r\nBcc: all@example.com", "a\nb", "a\rb", "a\0", "a\u{85}b", "a\u{2028}b", &"a".repeat(201)]
        {
            let mail = Mail { subject: subject.into(), ..mail("x") };
            assert!(matches!(post.send(&mail, 7, NOW).await, Err(MailError::Subject)), "{subject:?}");
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
            assert!(
                matches!(Mailer::smtp("smtp://localhost", &settings_of(from)), Err(MailError::Sender)),
                "{from:?}"
            );
        }
        let mail = Mail { subject: "Grüße ☃".into(), ..mail("\r\nBcc: all@example.com\r\n\r\n.\r\n") };
        post.send(&mail, 7, NOW).await.unwrap();
        let text = only(folder.path());
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        assert!(!head.contains("Bcc") && head.is_ascii(), "{head}");
    }

    fn settings_of(from: &str) -> MailSettings {
        let mut settings = MailSettings::default();
        settings.from = from.into();
        settings
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
    async fn an_outbox_contains_whole_mails_in_the_order_of_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let post = Mailer::outbox(&path, FROM).unwrap();
        let times = [0, 999_999, 1_000_000, 86_400_000_000, 40_000_000_000_000];
        for after in times.into_iter().rev() {
            let mail = mail(&format!("after {after}"));
            post.send(&mail, 7, NOW.plus(Duration::from_micros(after))).await.unwrap();
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
        for id in 0..10 {
            post.send(&mail("x"), id, NOW).await.unwrap();
        }
        assert_eq!(names(folder.path()).len(), 10);
    }

    #[tokio::test]
    async fn a_missing_outbox_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outbox");
        let post = Mailer::outbox(&path, FROM).unwrap();
        fs::remove_dir(&path).unwrap();
        let found = post.send(&mail("x"), 7, NOW).await.unwrap_err().to_string();
        assert!(found.starts_with(path.to_str().unwrap()), "{found}");
        fs::write(&path, "a file").unwrap();
        assert!(matches!(Mailer::outbox(&path, FROM), Err(MailError::Outbox { .. })));
    }

    #[tokio::test]
    async fn a_mail_that_is_sent_again_is_the_same_mail() {
        let folder = tempfile::tempdir().unwrap();
        let post = Mailer::outbox(folder.path(), FROM).unwrap();
        for _ in 0..2 {
            post.send(&mail("x"), 7, NOW).await.unwrap();
        }
        let id = "\r\nMessage-ID: <00000000000000000000000000000007@rpcgate.example>\r\n";
        assert!(only(folder.path()).contains(id), "{}", only(folder.path()));
    }

    // Shows (Mails and notifications).
    #[test]
    fn a_mail_states_that_a_program_sent_it_and_how_to_switch_it_off() {
        let post = Mailer::outbox(tempfile::tempdir().unwrap().path().join("a"), FROM).unwrap();
        let shown = |mail: &Mail| String::from_utf8(post.compose(mail, 7, NOW).unwrap().formatted()).unwrap();
        let plain = shown(&mail("x"));
        assert!(plain.contains("\r\nAuto-Submitted: auto-generated\r\n"), "{plain}");
        assert!(!plain.contains("List-Unsubscribe"), "{plain}");
        let url = format!("https://dash.rpcgate.example/{}/notifications", "deep/".repeat(30));
        let switchable = shown(&mail("x").with_preferences(url.as_str()));
        assert!(switchable.contains(&format!("\r\nList-Unsubscribe: <{url}>\r\n")), "{switchable}");
        for url in ["https://a.example/\r\nBcc: b@c.example", "https://a.example/>, <mailto:b@c.example"] {
            let composed = post.compose(&mail("x").with_preferences(url), 7, NOW);
            assert!(matches!(composed, Err(MailError::Compose(_))), "{url}");
        }
    }

    #[test]
    fn a_text_has_a_bound() {
        let post = Mailer::outbox(tempfile::tempdir().unwrap().path().join("a"), FROM).unwrap();
        assert!(post.compose(&mail(&"x".repeat(MAX_TEXT)), 7, NOW).is_ok());
        assert!(matches!(post.compose(&mail(&"x".repeat(MAX_TEXT + 1)), 7, NOW), Err(MailError::Long)));
    }

    #[test]
    fn authorities_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let mut settings = settings_of(FROM);
        settings.smtp_ca = Some(file.clone());
        let open = || Mailer::smtp("smtps://mail.example.com", &settings).unwrap_err().to_string();
        assert!(open().starts_with(&format!("admin.mail.smtp_ca: {}: ", file.display())), "{}", open());
        fs::write(&file, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        let named = format!("admin.mail.smtp_ca: {}: ", file.display());
        assert_eq!(open(), format!("{named}the certificate cannot be used"));
        fs::write(&file, "").unwrap();
        assert_eq!(open(), format!("{named}holds no certificate"));
    }

    #[tokio::test]
    async fn a_time_that_no_header_can_represent_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let post = Mailer::outbox(folder.path(), FROM).unwrap();
        for late in [Time::from_secs(253_402_300_800), Time::from_micros(u64::MAX)] {
            assert!(matches!(post.send(&mail("x"), 7, late).await, Err(MailError::Compose(_))));
        }
        post.send(&mail("x"), 7, Time::from_secs(253_402_300_799)).await.unwrap();
    }
}
