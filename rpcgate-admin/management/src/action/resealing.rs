//! The rotation of `admin.jwt.secret`: seals stored secrets with the current secret instead of a former one.

use crate::app_state::AppState;
use crate::error::ActionError;
use crate::identity::sealing::SealedFor;
use crate::webhook::signature::{SEALED_NEXT_SECRET, SEALED_SECRET};
use rpcgate_store::{SecretColumn, StoredSecret};

const PAGE: u64 = 200;

/// The outcome of a rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resealed {
    /// Secrets that were sealed again with the current secret.
    pub renewed: u64,
    /// Secrets that none of the configured secrets opens.
    pub lost: u64,
}

fn row(secret: &StoredSecret) -> SealedFor<'static> {
    let table = match secret.place {
        SecretColumn::Totp => "totp",
        SecretColumn::Webhook => SEALED_SECRET,
        SecretColumn::NextWebhook => SEALED_NEXT_SECRET,
    };
    SealedFor { table, row: secret.row }
}

/// Seals all stored secrets with the current `admin.jwt.secret`, after which they no longer need the former ones.
/// Several programs may do this at once.
///
/// # Errors
/// [`ActionError::Unavailable`]; the secrets renewed before the error stay so.
pub async fn reseal(app: &AppState) -> Result<Resealed, ActionError> {
    let mut resealed = Resealed::default();
    for place in SecretColumn::ALL {
        let mut after = None;
        loop {
            let page = app.store.stored_secrets(place, after, PAGE).await?;
            after = page.last().map(|last| last.row);
            for secret in &page {
                match app.sealing.renewed(row(secret), &secret.sealed) {
                    Ok(None) => {}
                    Ok(Some(sealed)) => {
                        resealed.renewed += u64::from(app.store.seal_again(secret, &sealed).await?);
                    }
                    Err(_) => resealed.lost += 1,
                }
            }
            if (page.len() as u64) < PAGE {
                break;
            }
        }
    }
    Ok(resealed)
}
