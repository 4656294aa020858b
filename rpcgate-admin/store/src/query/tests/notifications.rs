//! Tests of the data that notifications need from the management database.

use super::*;
use crate::NotificationId;

#[tokio::test]
async fn an_allowance_is_that_of_the_plan_for_each_key_that_can_be_used() {
    let (_dir, store) = empty().await;
    let asked = [TENANT, OTHER, TenantId(9)].into();
    let plans = Plans::default();
    let allowances = async |plans: &Plans, at| store.daily_allowances(&asked, plans, at).await.unwrap();
    assert_eq!(allowances(&plans, now()).await, [(TENANT, 0), (OTHER, 0)].into());
    let ending = Key { expires_at: Some(later(60)), ..key(KeyId(6), KeyHash::of("ending")) };
    for key in [key(KEY, hash()), ending, key(KeyId(7), KeyHash::of("revoked"))] {
        store.create_key(&key, now()).await.unwrap();
    }
    store.revoke_key(TENANT, KeyId(7), now()).await.unwrap();
    assert_eq!(allowances(&plans, now()).await, [(TENANT, 100_000), (OTHER, 0)].into());
    assert_eq!(allowances(&plans, later(60)).await, [(TENANT, 50_000), (OTHER, 0)].into());
    assert_eq!(store.active_keys(TENANT, None, later(60)).await.unwrap(), 1);
    let mut own = plans.clone();
    own.standard.per_day = 7;
    assert_eq!(allowances(&own, now()).await, [(TENANT, 14), (OTHER, 0)].into());
    // Operators' settings override the file.
    let change = PlanChange { per_day: Some(30), ..PlanChange::default() };
    store.put_plan(Tier::Standard, &change, now()).await.unwrap();
    store
        .put_plan(Tier::Free, &PlanChange { per_hour: Some(1), ..PlanChange::default() }, now())
        .await
        .unwrap();
    assert_eq!(allowances(&own, now()).await, [(TENANT, 60), (OTHER, 0)].into());
    assert_eq!(store.daily_allowances(&[].into(), &own, now()).await.unwrap(), [].into());
}

#[tokio::test]
async fn a_notification_keeps_the_user_and_time_of_its_first_reading() {
    let (_dir, store) = empty().await;
    let unconfirmed = user(13, "e@f.example");
    let both = [user(11, "a@b.example"), user(12, "c@d.example")];
    let [one, other] = both.map(|user| User { confirmed_at: Some(now()), ..user });
    for user in [&one, &other, &unconfirmed] {
        store.create_user(user).await.unwrap();
    }
    let [one, other, unconfirmed] = [one, other, unconfirmed].map(|user| user.id);
    let first = NotificationId(1);
    let second = NotificationId(2);
    assert_eq!(store.read_notification(one, first, later(1)).await.unwrap(), later(1));
    assert_eq!(store.read_notification(one, first, later(2)).await.unwrap(), later(1));
    assert_eq!(store.read_notification(one, second, later(3)).await.unwrap(), later(3));
    let read = async |user| store.read_notifications(user).await.unwrap();
    assert_eq!(read(one).await, [(first, later(1)), (second, later(3))].into());
    assert_eq!(read(other).await, [].into());
    let nobody = store.read_notification(UserId(99), first, now()).await.unwrap_err();
    assert_eq!(nobody.to_string(), "there is no such user");

    store.read_notification(unconfirmed, first, later(9)).await.unwrap();
    assert_eq!(rows(&store, "notification_reads").await, 3);
    let year = 400 * 86_400;
    assert_eq!(store.sweep(later(year + 1)).await.unwrap().reads, 0);
    assert_eq!(rows(&store, "notification_reads").await, 2, "the marks of a removed user are removed");
    assert_eq!(store.sweep(later(year + 2)).await.unwrap().reads, 1);
    assert_eq!(read(one).await, [(second, later(3))].into());
}
