//! Mails of actions. Nobody is refused because a mail server is away: the mail is tried again for a while.

use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::mail::{Mail, MailError};
use rpcgate_core::clock::Time;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;

/// Mails that wait for another try, at once. What comes then is lost, and whoever waits for it asks for another.
pub(crate) const WAITING: usize = 256;

/// How long is waited before each further try.
const TRIES: [Duration; 4] =
    [Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(1_200)];

/// Sends a mail. That an address takes no mail is no error: whoever typed it finds out by waiting. Nor is it that the
/// server is away: an account that was made is there, and its mail comes later or can be asked for again.
///
/// # Errors
/// [`ActionError::Broken`] for a mail that cannot be written.
pub(in crate::management::action) async fn send(
    app: &Arc<AppState>,
    mail: &Mail,
    now: Time,
) -> Result<(), ActionError> {
    let error = match app.mailer.send(mail, now).await {
        Ok(()) => return Ok(()),
        Err(MailError::Refused(why)) => {
            tracing::info!(why, "a mail was refused");
            return Ok(());
        }
        Err(error @ (MailError::Unavailable(_) | MailError::Outbox { .. })) => error,
        Err(error) => return Err(error.into()),
    };
    match app.mails.clone().try_acquire_owned() {
        Ok(place) => {
            tracing::warn!(%error, "a mail was not sent: it is tried again");
            drop(tokio::spawn(retry(app.clone(), mail.clone(), place).in_current_span()));
        }
        Err(_) => {
            tracing::error!(%error, "a mail was not sent and is lost: {WAITING} wait for another try already");
        }
    }
    Ok(())
}

async fn retry(app: Arc<AppState>, mail: Mail, _place: OwnedSemaphorePermit) {
    for wait in TRIES {
        tokio::time::sleep(wait).await;
        match app.mailer.send(&mail, app.now()).await {
            Ok(()) => return,
            Err(MailError::Unavailable(_) | MailError::Outbox { .. }) => {}
            Err(error) => return tracing::info!(%error, "a mail was not sent"),
        }
    }
    tracing::error!("a mail was not sent and is lost: the mail server was away for too long");
}
