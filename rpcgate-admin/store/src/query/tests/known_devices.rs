use super::*;
use crate::DeviceFamiliarity::{First, Known, New};

#[tokio::test]
async fn a_device_is_known_after_its_first_log_in_to_the_same_user_alone() {
    let (_dir, store) = empty().await;
    for (id, email) in [(1, "a@b.example"), (2, "c@d.example")] {
        // An account that is never confirmed is removed.
        store.create_user(&User { confirmed_at: Some(now()), ..user(id, email) }).await.unwrap();
    }
    let note = async |id, device, at| store.note_device(UserId(id), device, later(at)).await.unwrap();
    assert_eq!(note(1, "phone", 0).await, First);
    assert_eq!(note(1, "phone", 1).await, Known);
    assert_eq!(note(1, "desk", 2).await, New);
    assert_eq!(note(2, "desk", 3).await, First);
    let error = store.note_device(UserId(9), "desk", now()).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no such user");
    // The phone was used at 1 s and the desk at 2 s.
    let half_a_year = 180 * 86_400;
    assert_eq!(note(1, "desk", half_a_year + 1).await, Known);
    assert_eq!(note(1, "phone", half_a_year + 1).await, New, "forgotten");
    assert_eq!(store.sweep(later(half_a_year + 3)).await.unwrap().devices, 1, "the other user's");
    assert_eq!(rows(&store, "known_devices").await, 2);
}

// Shows (Mails and notifications).
#[tokio::test]
async fn a_bounded_number_of_devices_is_remembered_and_the_least_recent_is_forgotten() {
    let (_dir, store) = empty().await;
    store.create_user(&user(1, "a@b.example")).await.unwrap();
    for number in 0..60 {
        store.note_device(UserId(1), &number.to_string(), later(number)).await.unwrap();
    }
    assert_eq!(rows(&store, "known_devices").await, 50);
    assert_eq!(store.note_device(UserId(1), "10", later(99)).await.unwrap(), Known);
    assert_eq!(store.note_device(UserId(1), "9", later(99)).await.unwrap(), New);
}
