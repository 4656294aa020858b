//! Sending mails of actions. No action fails because a mail server is away: the mail is tried again for a while.

use super::{Mail, MailError, Mailer};
use rpcgate_core::clock::{Clock, Time};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument;

/// How many mails may wait for another try at a time. A further one is lost, and its user asks for another.
const WAITING: usize = 256;

/// The waits before each further try.
const TRIES: [Duration; 4] =
    [Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(1_200)];

/// Sends mails, and tries those again that found no mail server. Clones share the bound on mails that wait.
#[derive(Clone, Debug)]
pub struct MailQueue {
    mailer: Arc<Mailer>,
    waiting: Arc<Semaphore>,
    clock: Arc<dyn Clock>,
}

impl MailQueue {
    /// An empty queue in front of `mailer`.
    pub fn new(mailer: Mailer, clock: Arc<dyn Clock>) -> Self {
        MailQueue { mailer: Arc::new(mailer), waiting: Arc::new(Semaphore::new(WAITING)), clock }
    }

    /// Sends a mail. An address that takes no mail is no error: its user notices that no mail arrives. A mail server that
    /// is away is none either: the account that was made exists, and its mail comes later or can be asked for again.
    ///
    /// # Errors
    /// [`MailError`] for a mail that cannot be written.
    pub async fn send(&self, mail: &Mail, now: Time) -> Result<(), MailError> {
        let error = match self.mailer.send(mail, now).await {
            Ok(()) => return Ok(()),
            Err(MailError::Refused(why)) => {
                tracing::info!(why, "a mail was refused");
                return Ok(());
            }
            Err(error @ (MailError::Unavailable(_) | MailError::Outbox { .. })) => error,
            Err(error) => return Err(error),
        };
        match self.waiting.clone().try_acquire_owned() {
            Ok(place) => {
                tracing::warn!(%error, "a mail was not sent: it is tried again");
                drop(tokio::spawn(retry(self.clone(), mail.clone(), place).in_current_span()));
            }
            Err(_) => {
                tracing::error!(%error, "a mail was not sent and is lost: {WAITING} wait for another try already");
            }
        }
        Ok(())
    }
}

async fn retry(queue: MailQueue, mail: Mail, _place: OwnedSemaphorePermit) {
    for wait in TRIES {
        tokio::time::sleep(wait).await;
        match queue.mailer.send(&mail, queue.clock.now()).await {
            Ok(()) => return,
            Err(MailError::Unavailable(_) | MailError::Outbox { .. }) => {}
            Err(error) => return tracing::info!(%error, "a mail was not sent"),
        }
    }
    tracing::error!("a mail was not sent and is lost: the mail server was away for too long");
}
