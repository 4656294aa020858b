//! Outgoing mails.
//!
//! A mail has one recipient and is written as plain text, from which the HTML part is made. [`MailQueue`] stores it in
//! the database, sealed because it may contain a token, and sends it from there: through an SMTP server or, without
//! one, into a folder as an `.eml` file, which mail programs open. An outage of the mail server fails no action, and
//! mails survive a restart. A mail may be sent twice if the program is killed between sending and removing it. Both
//! copies have the same `Message-ID`, by which mail servers recognise them.

mod address;
mod forms;
mod invoices;
mod mail_error;
mod mailer;
mod object;
mod outbox_folder;
mod queue;
mod security_event;
mod smtp;
mod texts;

pub use address::{Address, BadAddress, address};
pub(crate) use invoices::{day, dollars};
pub use mail_error::MailError;
pub use mailer::Mailer;
pub use object::MailObject;
pub use queue::{MailCounts, MailQueue};
pub use security_event::SecurityEvent;

use std::fmt;
use std::time::Duration;

/// A mail without its sender and date.
#[derive(Clone, PartialEq, Eq)]
pub struct Mail {
    to: Address,
    subject: String,
    text: String,
    useful_for: Option<Duration>,
    preferences: Option<String>,
}

impl Mail {
    /// Makes a mail. The `subject` is one line. The `text` is plain: a blank line separates paragraphs, and a line that
    /// is a URL becomes a link in the HTML part.
    pub fn new(to: Address, subject: impl Into<String>, text: impl Into<String>) -> Self {
        Mail { to, subject: subject.into(), text: text.into(), useful_for: None, preferences: None }
    }

    /// Limits the time in which the mail is sent, for example because its link expires then.
    #[must_use]
    pub fn useful_for(self, life: Duration) -> Self {
        Mail { useful_for: Some(life), ..self }
    }

    /// Adds the URL at which the recipient can switch these mails off (`List-Unsubscribe`, RFC 2369).
    #[must_use]
    pub fn with_preferences(self, url: impl Into<String>) -> Self {
        Mail { preferences: Some(url.into()), ..self }
    }
}

/// Reports whether a program may start a new line at this character. A subject must not contain it.
fn ends_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

impl fmt::Debug for Mail {
    /// Leaves out the text, which may contain a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail").field("to", &self.to).field("subject", &self.subject).finish_non_exhaustive()
    }
}
