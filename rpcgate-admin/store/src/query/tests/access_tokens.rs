use super::*;
use crate::{AccessToken, AccessTokenId, Swept};

const USER: UserId = UserId(7);

fn token(id: u128) -> AccessToken {
    AccessToken {
        id: AccessTokenId(id),
        user: USER,
        name: "deploy \"1\"".into(),
        scopes: vec!["read".into(), "manage_keys".into()],
        created_at: now(),
        expires_at: later(100),
        used: None,
    }
}

fn text(id: u128) -> Digest {
    Digest::of(&id.to_string())
}

/// A store with a user who has the token 1.
async fn with_token() -> (TestDatabase, Store) {
    let (dir, store) = empty().await;
    let owner = User { confirmed_at: Some(now()), ..user(USER.0, "a@b.example") };
    store.create_user(&owner).await.unwrap();
    store.create_access_token(&token(1), &text(1)).await.unwrap();
    (dir, store)
}

#[tokio::test]
async fn a_token_is_found_by_its_text_until_it_expires() {
    let (_dir, store) = with_token().await;
    let (found, its) = store.access_token(&text(1), later(99)).await.unwrap().unwrap();
    assert_eq!((found, its.id), (token(1), USER));
    assert_eq!(store.access_token(&text(1), later(100)).await.unwrap(), None);
    assert_eq!(store.access_token(&text(2), now()).await.unwrap(), None);
    let taken = store.create_access_token(&token(2), &text(1)).await.unwrap_err();
    assert_eq!(taken.to_string(), "there is already a personal access token with this text");
    let lost = AccessToken { user: UserId(8), ..token(3) };
    assert!(matches!(store.create_access_token(&lost, &text(3)).await, Err(StoreError::NotFound("user"))));
}

#[tokio::test]
async fn the_last_use_is_recorded_once_a_minute() {
    let (_dir, store) = with_token().await;
    for (second, used) in [(0, 0), (59, 0), (60, 60), (61, 60)] {
        let (found, _) = store.access_token(&text(1), now()).await.unwrap().unwrap();
        store.use_access_token(&found, "192.0.2.1", later(second)).await.unwrap();
        let (found, _) = store.access_token(&text(1), now()).await.unwrap().unwrap();
        assert_eq!(found.used, Some((later(used), "192.0.2.1".into())), "{second}");
    }
}

#[tokio::test]
async fn tokens_are_listed_and_revoked_by_their_user_alone() {
    let (_dir, store) = with_token().await;
    store.create_user(&user(8, "c@d.example")).await.unwrap();
    store.create_access_token(&token(2), &text(2)).await.unwrap();
    assert_eq!(store.access_tokens(USER).await.unwrap(), [token(1), token(2)]);
    assert_eq!(store.access_tokens(UserId(8)).await.unwrap(), []);
    let foreign = store.revoke_access_token(UserId(8), AccessTokenId(1)).await;
    assert!(matches!(foreign, Err(StoreError::NotFound("personal access token"))));
    store.revoke_access_token(USER, AccessTokenId(1)).await.unwrap();
    assert_eq!(store.access_tokens(USER).await.unwrap(), [token(2)]);
    assert_eq!(store.access_token(&text(1), now()).await.unwrap(), None);
}

// Shows (Management).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_has_at_most_50_tokens_though_they_are_made_at_once() {
    let (_dir, store) = with_token().await;
    let made = at_once(60, |id| {
        let store = store.clone();
        async move { store.create_access_token(&token(100 + id), &text(100 + id)).await.is_ok() }
    })
    .await;
    assert_eq!(made.iter().filter(|made| **made).count(), 49);
    assert_eq!(store.access_tokens(USER).await.unwrap().len(), 50);
}

#[tokio::test]
async fn tokens_end_with_their_user_and_when_the_account_is_reclaimed() {
    for how in ["disabled", "reset by an operator"] {
        let (_dir, store) = with_token().await;
        if how == "disabled" {
            store.disable_account(USER, true, &entry("x")).await.unwrap();
            assert_eq!(store.access_token(&text(1), now()).await.unwrap(), None);
            let refused = store.create_access_token(&token(2), &text(2)).await;
            assert!(matches!(refused, Err(StoreError::NotFound("user"))));
            store.disable_account(USER, false, &entry("x")).await.unwrap();
        } else {
            store.reset_account(USER, &text(9), later(9), &entry("x")).await.unwrap();
        }
        assert_eq!(store.access_tokens(USER).await.unwrap(), [], "{how}");
    }
    let (_dir, store) = with_token().await;
    store.put_reset("a@b.example", &text(9), later(9), &entry("x")).await.unwrap();
    assert!(
        store
            .reset_password(&text(9), "$argon2id$new", crate::KeptByReset::default(), &entry("x"))
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(store.access_tokens(USER).await.unwrap(), []);
}

#[tokio::test]
async fn an_expired_token_is_removed_after_30_days() {
    let (_dir, store) = with_token().await;
    let days = 30 * 86_400;
    assert_eq!(store.sweep(later(99 + days)).await.unwrap().access_tokens, 0);
    let swept = store.sweep(later(100 + days)).await.unwrap();
    assert_eq!(swept.access_tokens, 1);
    assert_eq!(store.sweep(later(100 + days)).await.unwrap(), Swept::default());
}
