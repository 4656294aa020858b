//! Tests of the data for a tenant's overview.

use super::webhooks::{WEBHOOK, webhook};
use super::*;
use crate::{KeyName, ProjectCounts, Webhook, WebhookId};

const SECOND: ProjectId = ProjectId(40);

#[tokio::test]
async fn the_keys_and_endpoints_of_projects_are_counted() {
    let (_site, store) = seeded().await;
    store.create_project(&project(SECOND)).await.unwrap();
    let count = async |tenant| store.project_counts(tenant, &[PROJECT, SECOND], later(60)).await.unwrap();
    let of_first = |keys, webhooks| [(PROJECT, ProjectCounts { keys, webhooks })].into();
    assert_eq!(count(TENANT).await, of_first(1, 0));
    store.create_webhook(TENANT, &webhook(WEBHOOK), now()).await.unwrap();
    let expired = Key { expires_at: Some(later(30)), ..key(KeyId(50), KeyHash::of("another")) };
    store.create_key(&expired, now()).await.unwrap();
    assert_eq!(count(TENANT).await, of_first(1, 1), "an expired key cannot be used");
    assert!(count(OTHER).await.is_empty(), "they are another tenant's");
    store.revoke_key(TENANT, KEY, now()).await.unwrap();
    store.delete_webhook(TENANT, WEBHOOK, now()).await.unwrap();
    assert!(count(TENANT).await.is_empty());
    assert!(store.project_counts(TENANT, &[], now()).await.unwrap().is_empty());
}

// Shows (Dashboard).
#[tokio::test]
async fn failing_endpoints_are_found_without_those_that_users_disabled() {
    let (_site, store) = empty().await;
    let made = [
        Webhook { failing_since: Some(later(2)), ..webhook(WebhookId(60)) },
        Webhook { failing_since: Some(later(1)), ..webhook(WebhookId(61)) },
        Webhook {
            active: false,
            failing_since: Some(later(3)),
            disabled_at: Some(later(4)),
            ..webhook(WebhookId(62))
        },
        Webhook { active: false, failing_since: Some(later(5)), ..webhook(WebhookId(63)) },
        webhook(WebhookId(64)),
    ];
    for one in &made {
        store.create_webhook(TENANT, one, now()).await.unwrap();
    }
    let found = async |tenant, limit| {
        let found = store.failing_webhooks(tenant, limit).await.unwrap();
        found.into_iter().map(|webhook| webhook.id.0).collect::<Vec<_>>()
    };
    assert_eq!(found(TENANT, 9).await, [61, 60, 62]);
    assert_eq!(found(TENANT, 1).await, [61]);
    assert!(found(OTHER, 9).await.is_empty());
    store.delete_webhook(TENANT, WebhookId(61), now()).await.unwrap();
    assert_eq!(found(TENANT, 9).await, [60, 62]);
}

#[tokio::test]
async fn keys_are_named_to_their_tenant_alone() {
    let (_site, store) = seeded().await;
    store.create_project(&project(SECOND)).await.unwrap();
    let newer = Key {
        project: SECOND,
        description: "newer".into(),
        created_at: later(5),
        ..key(KeyId(51), KeyHash::of("newer"))
    };
    store.create_key(&newer, now()).await.unwrap();
    store.revoke_key(TENANT, KEY, now()).await.unwrap();
    let first = KeyName {
        id: KEY,
        project: PROJECT,
        description: "for \"tests\"".into(),
        prefix: "rpcg_0123456".into(),
        is_revoked: true,
    };
    let names = store.newest_key_names(TENANT, None, 9).await.unwrap();
    assert_eq!(names.iter().map(|name| name.id).collect::<Vec<_>>(), [newer.id, KEY]);
    assert_eq!(names[1], first);
    assert_eq!(store.newest_key_names(TENANT, None, 1).await.unwrap().len(), 1);
    assert_eq!(store.newest_key_names(TENANT, Some(PROJECT), 9).await.unwrap(), std::slice::from_ref(&first));
    assert!(store.newest_key_names(OTHER, None, 9).await.unwrap().is_empty());
    assert_eq!(store.key_names(TENANT, &[KEY, KeyId(404)]).await.unwrap(), [first]);
    assert!(store.key_names(OTHER, &[KEY, newer.id]).await.unwrap().is_empty());
    assert!(store.key_names(TENANT, &[]).await.unwrap().is_empty());
}
