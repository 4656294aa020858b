use super::*;
use crate::management::app_state::AppState;
use crate::management::app_state::tests::Site;
use std::path::Path;

fn mail() -> Mail {
    Mail::new(address("ada@example.com").unwrap(), "Hello", "https://a.example/confirm?token=rpcgc_secret\n")
}

async fn put(app: &AppState, mail: &Mail) {
    app.mails.send(mail, app.now()).await.unwrap();
}

fn outbox(site: &Site) -> &Path {
    &site.app.settings.config.admin.mail.outbox
}

fn files(site: &Site) -> usize {
    std::fs::read_dir(outbox(site)).map_or(0, Iterator::count)
}

fn counted(queue: &MailQueue, outcome: &'static str) -> u64 {
    queue.counts.of(outcome)
}

async fn waiting(site: &Site) -> u64 {
    site.app.store.waiting_mails().await.unwrap()
}

#[tokio::test]
async fn a_mail_is_removed_once_it_is_sent_and_reveals_nothing_before() {
    let site = Site::new().await;
    put(&site.app, &mail().with_preferences("https://a.example/notifications")).await;
    assert_eq!((waiting(&site).await, files(&site)), (1, 0));
    let claimed = site.app.store.claim_mails(1, Duration::ZERO, site.app.now()).await.unwrap();
    let content = &claimed.mails[0].content;
    for planted in ["ada@example.com", "rpcgc_secret", "Hello"] {
        assert!(!content.windows(planted.len()).any(|part| part == planted.as_bytes()), "{planted}");
    }
    site.send_mails().await;
    assert_eq!((waiting(&site).await, files(&site), counted(&site.app.mails, "sent")), (0, 1, 1));
    let file = std::fs::read_dir(outbox(&site)).unwrap().next().unwrap().unwrap().path();
    let sent = std::fs::read_to_string(file).unwrap();
    for part in ["\r\nTo: ada@example.com\r\n", "token=rpcgc_secret\r\n", "<https://a.example/notifications>"]
    {
        assert!(sent.contains(part), "{part} is not in {sent}");
    }
}

#[tokio::test]
async fn a_mail_that_cannot_be_sent_is_tried_nine_times_within_a_day_and_then_given_up() {
    let site = Site::new().await;
    std::fs::remove_dir(outbox(&site)).unwrap();
    put(&site.app, &mail()).await;
    let mut tries = 0;
    for pause in PAUSES {
        site.send_mails().await;
        tries += 1;
        assert_eq!(counted(&site.app.mails, "postponed"), tries);
        site.clock.advance(pause - Duration::from_secs(1));
        assert_eq!(site.app.mails.deliver(site.app.now()).await.unwrap(), 0, "it is not its time yet");
        site.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(waiting(&site).await, 1);
    site.send_mails().await;
    assert_eq!((waiting(&site).await, counted(&site.app.mails, "given_up")), (0, 1));
    assert!(PAUSES.iter().sum::<Duration>() < LIFE);
}

#[tokio::test]
async fn why_mails_cannot_be_sent_is_new_once_until_one_is_sent_or_another_reason_comes() {
    let site = Site::new().await;
    let mails = &site.app.mails;
    assert!(mails.is_new_failure("the server is away"));
    assert!(!mails.clone().is_new_failure("the server is away"), "clones send the mails of the same queue");
    let again = site.app.reload(site.app.settings.config.clone()).unwrap();
    assert!(!again.mails.is_new_failure("the server is away"), "a reload repeats nothing");
    assert!(mails.is_new_failure("the server is full"));
    put(&site.app, &mail()).await;
    site.send_mails().await;
    assert!(mails.is_new_failure("the server is full"));
}

#[tokio::test]
async fn a_mail_is_not_sent_when_it_is_of_no_use_any_more() {
    let site = Site::new().await;
    std::fs::remove_dir(outbox(&site)).unwrap();
    put(&site.app, &mail().useful_for(Duration::from_secs(300))).await;
    put(&site.app, &mail().useful_for(Duration::from_secs(9 * 86_400))).await;
    site.send_mails().await;
    std::fs::create_dir(outbox(&site)).unwrap();
    site.clock.advance(Duration::from_secs(300));
    site.send_mails().await;
    assert_eq!((waiting(&site).await, files(&site)), (0, 1), "the other one is still useful");
    assert_eq!(counted(&site.app.mails, "given_up"), 1);
    std::fs::remove_dir_all(outbox(&site)).unwrap();
    put(&site.app, &mail().useful_for(Duration::from_secs(9 * 86_400))).await;
    site.clock.advance(LIFE);
    site.send_mails().await;
    assert_eq!((waiting(&site).await, counted(&site.app.mails, "given_up")), (0, 2), "a day is the most");
}

#[tokio::test]
async fn two_hosts_send_each_mail_once() {
    let site = Site::new().await;
    let other = AppState::open(site.app.settings.config.clone(), site.clock.clone()).await.unwrap();
    for _ in 0..19 {
        put(&site.app, &mail()).await;
    }
    let now = site.app.now();
    let work = |queue: MailQueue| async move {
        let mut done = 0;
        loop {
            match queue.deliver(now).await.unwrap() {
                0 => return done,
                some => done += some,
            }
        }
    };
    let (one, two) =
        tokio::join!(tokio::spawn(work(site.app.mails.clone())), tokio::spawn(work(other.mails.clone())));
    assert_eq!(one.unwrap() + two.unwrap(), 19);
    assert_eq!(files(&site), 19);
    assert_eq!(counted(&site.app.mails, "sent") + counted(&other.mails, "sent"), 19);
}

#[tokio::test]
async fn a_mail_of_a_sender_that_was_killed_is_sent_by_the_next_one_after_a_minute() {
    let site = Site::new().await;
    put(&site.app, &mail()).await;
    let claimed = site.app.store.claim_mails(9, LEASE, site.app.now()).await.unwrap();
    assert_eq!(claimed.mails.len(), 1);
    site.clock.advance(LEASE - Duration::from_secs(1));
    assert_eq!(site.app.mails.deliver(site.app.now()).await.unwrap(), 0, "another one may still send it");
    site.clock.advance(Duration::from_secs(1));
    site.send_mails().await;
    assert_eq!((waiting(&site).await, files(&site)), (0, 1));
    // The first sender was only slow: its file is the same, and it changes nothing any more.
    site.app.mails.attempt(&claimed.mails[0], site.app.now()).await.unwrap();
    assert_eq!((waiting(&site).await, files(&site)), (0, 1));
}

#[tokio::test]
async fn a_mail_that_was_sealed_with_another_secret_is_given_up() {
    let site = Site::new().await;
    put(&site.app, &mail()).await;
    let mut config = site.app.settings.config.clone();
    config.admin.jwt.secret =
        Some(rpcgate_core::config::Secret::new("another secret of thirty-two bytes or so"));
    let again = site.app.reload(config).unwrap();
    assert_eq!(again.mails.deliver(site.app.now()).await.unwrap(), 1);
    assert_eq!((waiting(&site).await, files(&site)), (0, 0));
    assert_eq!(counted(&site.app.mails, "given_up"), 1, "the counters outlive a reload");
}

#[tokio::test]
async fn a_mail_that_cannot_be_composed_is_an_error_of_its_author() {
    let site = Site::new().await;
    let bad = Mail::new(address("ada@example.com").unwrap(), "a\r\nBcc: all@example.com", "x");
    assert!(matches!(site.app.mails.send(&bad, site.app.now()).await, Err(MailError::Subject)));
    assert_eq!(waiting(&site).await, 0);
}

#[tokio::test]
async fn of_too_many_mails_for_one_recipient_the_newest_wait() {
    let site = Site::new().await;
    std::fs::remove_dir(outbox(&site)).unwrap();
    for _ in 0..25 {
        put(&site.app, &mail()).await;
        site.clock.advance(Duration::from_millis(1));
    }
    assert_eq!((waiting(&site).await, counted(&site.app.mails, "dropped")), (20, 5));
    let other = Mail::new(address("b@example.com").unwrap(), "Hello", "x");
    put(&site.app, &other).await;
    assert_eq!(waiting(&site).await, 21, "others are not held");
}
