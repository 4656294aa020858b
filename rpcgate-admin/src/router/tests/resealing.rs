//! Stored secrets are encrypted with the new key after a rotation.

use crate::api::accounts::tests::site;
use crate::api::factors::tests::{account_with_app, begun, verify};
use crate::testing::fixtures::{project, webhook};
use crate::testing::{Site, rotation};
use http::StatusCode;
use rpcgate_config::Secret;
use rpcgate_management::action::resealing::{Resealed, reseal};
use rpcgate_management::identity::webhook_secret::{SecretUse, WebhookSecret};
use rpcgate_store::Role;

// Shows (Commands and configuration).
#[tokio::test]
async fn data_sealed_with_a_former_secret_stays_readable() {
    let site = site().await;
    let (_, authenticator, recovery) = account_with_app(&site).await;
    let owner = site.member(Role::Owner).await;
    let listening = webhook(&site, owner.user.tenant.unwrap(), project(&site, &owner).await).await;
    let tenant = owner.user.tenant.unwrap();
    let current = SecretUse::Current;
    let secret = WebhookSecret::open(&site.app.sealing, listening.id, current, &listening.secret).unwrap();
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
