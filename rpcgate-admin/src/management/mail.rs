//! Outgoing mails.
//!
//! A mail has one recipient, and is written as plain text; its HTML form is made of that. [`MailQueue`] stores it in the
//! database, sealed because it may contain a token, and sends it from there: through an SMTP server or, without one,
//! into a folder, as an `.eml` file that mail programs open. A mail server that is away makes no action fail, and a
//! mail survives a restart. A mail may be sent twice if a program is killed between sending it and removing it; both
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
pub(in crate::management) use invoices::{day, dollars};
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
    /// A mail to one recipient. The `subject` is one line. The `text` is plain: a blank line separates paragraphs, and
    /// a line that is a URL becomes a link in the HTML form.
    pub fn new(to: Address, subject: impl Into<String>, text: impl Into<String>) -> Self {
        Mail { to, subject: subject.into(), text: text.into(), useful_for: None, preferences: None }
    }

    /// The same mail, not sent any more after this time, for example because its link has expired by then.
    #[must_use]
    pub fn useful_for(self, life: Duration) -> Self {
        Mail { useful_for: Some(life), ..self }
    }

    /// The same mail, which the recipient can switch off at this URL (`List-Unsubscribe`, RFC 2369).
    #[must_use]
    pub fn with_preferences(self, url: impl Into<String>) -> Self {
        Mail { preferences: Some(url.into()), ..self }
    }
}

/// Whether a program may begin a new line at a character, which therefore does not belong in a subject.
fn ends_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

impl fmt::Debug for Mail {
    /// Leaves out the text, which may contain a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail").field("to", &self.to).field("subject", &self.subject).finish_non_exhaustive()
    }
}
