//! The rotation of `admin.jwt.secret`: seals stored secrets with the current secret instead of a former one.

use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::identity::sealing::SealedFor;
use crate::management::webhook::signature::{SEALED_NEXT_SECRET, SEALED_SECRET};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::management::api::accounts::tests::site;
    use crate::management::api::factors::tests::{account_with_app, begun, verify};
    use crate::management::api::webhooks::tests::{project, webhook};
    use crate::management::app_state::tests::{Site, rotation};
    use crate::management::identity::webhook_secret::{SecretUse, WebhookSecret};
    use http::StatusCode;
    use rpcgate_config::Secret;
    use rpcgate_store::Role;

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn data_sealed_with_a_former_secret_stays_readable() {
        let site = site().await;
        let (_, authenticator, recovery) = account_with_app(&site).await;
        let owner = site.member(Role::Owner).await;
        let listening = webhook(&site, owner.user.tenant.unwrap(), project(&site, &owner).await).await;
        let (tenant, current) = (owner.user.tenant.unwrap(), SecretUse::Current);
        let secret =
            WebhookSecret::open(&site.app.sealing, listening.id, current, &listening.secret).unwrap();
        let [_, during, after] = rotation(&site);

        let site = site.reloaded(during);
        let used = verify(&site, &begun(&site).await, ("recovery_code", &recovery[0])).await;
        assert_eq!(used.status, StatusCode::OK, "{}", used.body);
        let again = verify(&site, &begun(&site).await, ("recovery_code", &recovery[0])).await;
        assert_eq!(again.status, StatusCode::UNAUTHORIZED, "each is used once");
        assert_eq!(reseal(&site.app).await.unwrap(), Resealed { renewed: 2, lost: 0 });
        assert_eq!(reseal(&site.app).await.unwrap(), Resealed::default());

        let site = site.reloaded(after);
        let code = verify(&site, &begun(&site).await, ("code", &authenticator.shows(&site))).await;
        assert_eq!(code.status, StatusCode::OK, "{}", code.body);
        let stored = site.app.store.webhook(tenant, listening.id).await.unwrap().unwrap();
        let opened = WebhookSecret::open(&site.app.sealing, listening.id, current, &stored.secret);
        assert_eq!(opened.unwrap(), secret);
        let recovered = verify(&site, &begun(&site).await, ("recovery_code", &recovery[1])).await;
        assert_eq!(recovered.status, StatusCode::UNAUTHORIZED, "a hash cannot be made again");
    }

    #[tokio::test]
    async fn data_that_no_secret_opens_is_counted() {
        let site = Site::new().await;
        let owner = site.member(Role::Owner).await;
        webhook(&site, owner.user.tenant.unwrap(), project(&site, &owner).await).await;
        let mut config = site.app.settings.config.clone();
        config.admin.jwt.secret = Some(Secret::new("a secret that has sealed nothing at all"));
        let site = site.reloaded(config);
        assert_eq!(reseal(&site.app).await.unwrap(), Resealed { renewed: 0, lost: 1 });
    }
}
