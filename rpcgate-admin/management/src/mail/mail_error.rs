//! The reasons why a mail could not be sent.

use rpcgate_store::StoreError;
use std::io;

pub(super) const MAX_SUBJECT: usize = 200;
pub(super) const MAX_TEXT: usize = 64 << 10;

/// The reason why a mail could not be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MailError {
    /// `admin.mail.smtp` names no usable server. The text does not repeat the URL.
    #[error("admin.mail.smtp: {0}")]
    Url(String),
    /// The file of `admin.mail.smtp_ca` cannot be used.
    #[error("admin.mail.smtp_ca: {0}")]
    Authorities(String),
    /// `admin.mail.from` is not a valid sender.
    #[error("admin.mail.from must be a mail address such as \"rpcgate <post@example.com>\"")]
    Sender,
    /// The subject is not a single line of text.
    #[error("the subject of a mail must be one line of at most {MAX_SUBJECT} characters")]
    Subject,
    /// The text is too long.
    #[error("the text of a mail must have at most {} KiB", MAX_TEXT >> 10)]
    Long,
    /// The mail cannot be composed.
    #[error("the mail cannot be composed: {0}")]
    Compose(String),
    /// The mail cannot be stored until it is sent.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The server refuses the recipient, for example because the address does not exist. Another try would fail too.
    #[error("the mail server refuses the recipient: {0}")]
    Refused(String),
    /// The server answers with a permanent error (5yz) that is not about the recipient: it does not relay for us,
    /// requires a log-in, or refuses our name. An operator has to correct that before the mail can be sent.
    #[error("the mail server rejects our mails: {0}")]
    Rejected(String),
    /// The server cannot be reached, answers with a temporary error, or does not answer in time. A later try may
    /// succeed. The mail may have been sent nevertheless.
    #[error("the mail server does not take the mail now: {0}")]
    Unavailable(String),
    /// The outbox cannot be written to.
    #[error("{file}: the mail cannot be written: {why}")]
    Outbox {
        /// The file or folder.
        file: String,
        /// The reason.
        why: io::Error,
    },
}
