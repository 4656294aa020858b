//! The steps of a conversation with a mail server: their deadlines, and the meaning of a refusal.

use super::MailError;
use super::server_stream::{HelloCommand, ServerStream};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail, Quit, Rcpt, Starttls};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use lettre::transport::smtp::response::{Response, Severity};
use lettre::{Address, Message};
use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

/// The deadline of a connection to one address. RFC 5321 sets none; relays use this one.
pub(super) const CONNECT: Duration = Duration::from_secs(30);
/// The deadline of the greeting and of the answers to `EHLO`, `STARTTLS`, `AUTH`, `MAIL` and `RCPT` (RFC 5321, sections
/// 4.5.3.2.1 to 4.5.3.2.3).
pub(super) const REPLY: Duration = Duration::from_secs(300);
/// The deadline of the answer to `DATA` (section 4.5.3.2.4).
const DATA_REPLY: Duration = Duration::from_secs(120);
/// The deadline for sending a block of the mail (section 4.5.3.2.5).
const BLOCK_SENT: Duration = Duration::from_secs(180);
const BLOCK: usize = 64 << 10;
/// The deadline of the answer to the end of the mail (section 4.5.3.2.6). A slow server may already have accepted the
/// mail, so a shorter deadline would send copies.
const END_REPLY: Duration = Duration::from_secs(600);
/// The deadline of the answer to `QUIT`, which decides nothing.
const QUIT_REPLY: Duration = Duration::from_secs(1);

/// Waits for the greeting and introduces this host. Returns `None` if the server does not know `EHLO` (RFC 5321,
/// section 3.2); the library has then ended the conversation.
pub(super) async fn open<S>(
    mut stream: ServerStream<S>,
    hello: &ClientId,
) -> Result<Option<AsyncSmtpConnection>, MailError>
where
    S: AsyncRead + AsyncWrite + Send + Sync + Unpin + Debug + 'static,
{
    // The library reads the greeting and the answer to EHLO in one step.
    if timeout(REPLY, stream.wait_readable()).await.is_err() {
        return Err(MailError::Unavailable(format!("no greeting within {REPLY:?}")));
    }
    let command = stream.command();
    let opening = AsyncSmtpConnection::connect_with_transport(Box::new(stream), hello);
    match waited(REPLY, "EHLO", opening).await? {
        Ok(server) => Ok(Some(server)),
        Err(error) if command == HelloCommand::Ehlo && is_unknown_command(&error) => Ok(None),
        Err(error) => Err(rejected(&error)),
    }
}

fn is_unknown_command(error: &SmtpError) -> bool {
    error.status().is_some_and(|code| matches!(u16::from(code), 500 | 502))
}

/// Asks a server to encrypt the connection. TLS starts with the next byte. `server` is `None` if the server does not
/// know `EHLO`, which STARTTLS needs.
pub(super) async fn start_tls(server: Option<AsyncSmtpConnection>) -> Result<(), MailError> {
    let not_offered = MailError::Unavailable("it does not offer STARTTLS".into());
    let Some(mut server) = server else { return Err(not_offered) };
    if !server.can_starttls() {
        close(server).await;
        return Err(not_offered);
    }
    let answer = within(REPLY, "STARTTLS", server.command(Starttls)).await?;
    expect(&answer, "STARTTLS", Severity::PositiveCompletion)
}

/// Runs one step of the conversation within `time`.
///
/// # Errors
/// [`MailError::Rejected`] for a permanent refusal, [`MailError::Unavailable`] for all other failures.
pub(super) async fn within<T>(
    time: Duration,
    step: &str,
    work: impl Future<Output = Result<T, SmtpError>>,
) -> Result<T, MailError> {
    waited(time, step, work).await?.map_err(|error| rejected(&error))
}

async fn waited<T>(
    time: Duration,
    step: &str,
    work: impl Future<Output = Result<T, SmtpError>>,
) -> Result<Result<T, SmtpError>, MailError> {
    let done = timeout(time, work).await;
    done.map_err(|_| MailError::Unavailable(format!("no answer to {step} within {time:?}")))
}

/// Sends a mail over an open connection, and ends the conversation.
pub(super) async fn send_and_close(
    mut server: AsyncSmtpConnection,
    message: &Message,
) -> Result<(), MailError> {
    let sent = transfer(&mut server, message).await;
    // The server has decided about the mail, so an error while closing does not matter.
    close(server).await;
    sent
}

async fn transfer(server: &mut AsyncSmtpConnection, message: &Message) -> Result<(), MailError> {
    let envelope = message.envelope();
    let content = message.formatted();
    let mut parameters = Vec::new();
    if !content.is_ascii() {
        parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    let is_ascii = |address: &Address| AsRef::<str>::as_ref(address).is_ascii();
    if !envelope.to().iter().chain(envelope.from()).all(is_ascii) {
        if !server.server_info().supports_feature(Extension::SmtpUtfEight) {
            return Err(MailError::Unavailable("it does not offer SMTPUTF8, which the address needs".into()));
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    // A refusal of the sender says nothing about the recipient, whatever its code.
    let answer =
        within(REPLY, "MAIL", server.command(Mail::new(envelope.from().cloned(), parameters))).await?;
    expect(&answer, "MAIL", Severity::PositiveCompletion)?;
    for to in envelope.to() {
        let answer = waited(REPLY, "RCPT", server.command(Rcpt::new(to.clone(), Vec::new()))).await?;
        expect(&answer.map_err(|error| of_recipient(&error))?, "RCPT", Severity::PositiveCompletion)?;
    }
    let answer =
        waited(DATA_REPLY, "DATA", server.command(Data)).await?.map_err(|error| of_recipient(&error))?;
    // After any other answer the server would read the mail as commands.
    expect(&answer, "DATA", Severity::PositiveIntermediate)?;
    let blocks = u32::try_from(content.len() / BLOCK + 1).unwrap_or(u32::MAX);
    let time = BLOCK_SENT.saturating_mul(blocks).saturating_add(END_REPLY);
    let answer = waited(time, "the end of the mail", server.message(&content))
        .await?
        .map_err(|error| of_recipient(&error))?;
    expect(&answer, "the end of the mail", Severity::PositiveCompletion)
}

pub(super) async fn close(mut server: AsyncSmtpConnection) {
    let _ = timeout(QUIT_REPLY, server.command(Quit)).await;
}

fn expect(answer: &Response, step: &str, severity: Severity) -> Result<(), MailError> {
    if answer.code().severity == severity {
        return Ok(());
    }
    Err(MailError::Unavailable(format!("the answer to {step} is {}, which is out of order", answer.code())))
}

fn rejected(error: &SmtpError) -> MailError {
    if error.is_permanent() {
        MailError::Rejected(error.to_string())
    } else {
        MailError::Unavailable(error.to_string())
    }
}

/// Classifies a refusal after `RCPT`. It is final only if it is about the recipient's address. A relay whose
/// configuration differs from ours refuses every recipient with 504, 530, 550 5.7.1, 553 or 554, and a mail that is
/// dropped for that is lost.
fn of_recipient(error: &SmtpError) -> MailError {
    let text = error.source().map(ToString::to_string).unwrap_or_default();
    if error.is_permanent() && names_recipient(&text) {
        return MailError::Refused(error.to_string());
    }
    rejected(error)
}

/// Reports whether a refusal starts with an enhanced status code (RFC 3463) which says that the recipient's address
/// does not exist, is wrong or has moved, or that its mailbox is disabled. 5.1.7 and 5.1.8 are about the sender, and
/// servers use 5.1.0 for both.
fn names_recipient(text: &str) -> bool {
    let code = text.split_whitespace().next().unwrap_or_default();
    let numbers: Option<Vec<u16>> = code.split('.').map(|number| number.parse().ok()).collect();
    matches!(numbers.as_deref(), Some([5, 1, 1..=4 | 6 | 10] | [5, 2, 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_codes_of_recipients_are_about_the_recipient() {
        for text in [
            "5.1.1 no such user",
            "5.1.2 unknown domain",
            "5.1.3",
            "5.1.6 moved",
            "5.1.10 null MX",
            "5.2.1 off",
        ] {
            assert!(names_recipient(text), "{text}");
        }
        for text in [
            "",
            "no such user",
            "4.1.1 later",
            "5.1.0 address rejected",
            "5.1.7 bad sender",
            "5.1.8 bad sender's domain",
            "5.2.2 mailbox full",
            "5.7.1 relaying denied",
            "5.5.2 need a fully-qualified hostname",
            "5.1",
            "5.1.1.1",
            "5.1.x",
        ] {
            assert!(!names_recipient(text), "{text}");
        }
    }
}
