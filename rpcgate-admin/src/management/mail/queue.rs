//! Sends the mails of actions. No action fails because the mail server is down: the mail is retried later.

use super::{Mail, MailError, Mailer};
use rpcgate_core::clock::{Clock, Time};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument;

/// Mails that may wait for a retry at once. Any further mail is lost, and its recipient has to request another.
const WAITING: usize = 256;

/// The pauses before the retries.
const RETRY_PAUSES: [Duration; 4] =
    [Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(1_200)];

/// Sends mails, and retries those that did not reach a mail server. Clones share the limit on waiting mails.
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

    /// Sends a mail. An address that refuses it is not an error, since the person who typed the address notices that no mail
    /// comes. An unreachable server is not an error either: the account exists, and the mail comes later or can be requested
    /// again.
    ///
    /// # Errors
    /// [`MailError`] for a mail that cannot be composed.
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
            Ok(permit) => {
                tracing::warn!(%error, "a mail could not be sent and will be retried");
                drop(tokio::spawn(retry(self.clone(), mail.clone(), permit).in_current_span()));
            }
            Err(_) => {
                tracing::error!(%error, "a mail could not be sent and is lost: {WAITING} mails wait for a retry already");
            }
        }
        Ok(())
    }
}

async fn retry(queue: MailQueue, mail: Mail, _permit: OwnedSemaphorePermit) {
    for wait in RETRY_PAUSES {
        tokio::time::sleep(wait).await;
        match queue.mailer.send(&mail, queue.clock.now()).await {
            Ok(()) => return,
            Err(MailError::Unavailable(_) | MailError::Outbox { .. }) => {}
            Err(error) => return tracing::info!(%error, "a mail could not be sent"),
        }
    }
    tracing::error!("a mail could not be sent and is lost: the mail server was unreachable for too long");
}
