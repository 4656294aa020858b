use super::*;
use crate::app_state::AppState;
use crate::testing::Site;
use rpcgate_config::Url;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

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

// Shows (Mails and notifications): Mails wait in the database, sealed; each is sent once by one of several senders,
// again after a kill, at most nine times and within a day.
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

// Shows (Mails and notifications).
#[tokio::test]
async fn an_undeliverable_mail_is_tried_nine_times_within_a_day_and_then_dropped() {
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

// Shows (Mails and notifications).
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

// Shows (Mails and notifications).
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

// Shows (Mails and notifications).
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
    // The first sender was only slow. It writes the same file and changes nothing in the database.
    site.app.mails.attempt(&claimed.mails[0], site.app.now()).await.unwrap();
    assert_eq!((waiting(&site).await, files(&site)), (0, 1));
}

#[tokio::test]
async fn a_mail_sealed_with_another_secret_is_dropped() {
    let site = Site::new().await;
    put(&site.app, &mail()).await;
    let mut config = site.app.settings.config.clone();
    config.admin.jwt.secret = Some(rpcgate_config::Secret::new("another secret of thirty-two bytes or so"));
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
async fn the_newest_of_too_many_mails_for_one_recipient_wait() {
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

/// Makes a queue whose server answers the end of a mail to `slow@example.com` when `release` is cancelled. Also returns
/// the number of mails that the server has accepted.
async fn slow_server(site: &Site, release: &CancellationToken) -> (MailQueue, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = accepted.clone();
    let release = release.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let count = count.clone();
            let release = release.clone();
            tokio::spawn(async move {
                let (read, mut write) = stream.into_split();
                let mut lines = BufReader::new(read).lines();
                let mut is_slow = false;
                write.write_all(b"220 x\r\n").await.unwrap();
                while let Ok(Some(line)) = lines.next_line().await {
                    is_slow |= line == "RCPT TO:<slow@example.com>";
                    let answer = match line.get(..4).unwrap_or(&line) {
                        "EHLO" | "MAIL" | "RCPT" | "QUIT" => "250 ok\r\n",
                        "DATA" => "354 go on\r\n",
                        "." => {
                            if is_slow {
                                release.cancelled().await;
                            }
                            count.fetch_add(1, Ordering::Relaxed);
                            "250 queued\r\n"
                        }
                        _ => continue,
                    };
                    if write.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let mut config = site.app.settings.config.clone();
    config.admin.mail.smtp = Some(Url::parse(&format!("smtp://{addr}"), &["smtp"]).unwrap());
    (site.app.reload(config).unwrap().mails.clone(), accepted)
}

fn slow_mail() -> Mail {
    Mail::new(address("slow@example.com").unwrap(), "Hello", "x")
}

// Shows (Mails and notifications).
#[tokio::test]
async fn mails_for_which_the_server_takes_its_time_delay_no_other_mail() {
    let site = Site::new().await;
    let release = CancellationToken::new();
    let (queue, accepted) = slow_server(&site, &release).await;
    for _ in 0..20 {
        put(&site.app, &slow_mail()).await;
    }
    let mut works = JoinSet::new();
    queue.begin_due(&mut works, site.app.now()).await.unwrap();
    put(&site.app, &mail()).await;
    queue.begin_due(&mut works, site.app.now()).await.unwrap();
    let sent = async {
        while counted(&queue, "sent") == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), sent).await.unwrap();
    assert_eq!((accepted.load(Ordering::Relaxed), waiting(&site).await), (1, 20));
    release.cancel();
    while works.join_next().await.is_some() {}
    assert_eq!((accepted.load(Ordering::Relaxed), waiting(&site).await), (21, 0));
}

// Shows (Mails and notifications): A mail for which the server takes its time is sent by one sender and delays no other
// mail.
#[tokio::test]
async fn a_mail_for_which_the_server_takes_its_time_is_claimed_by_no_other_sender() {
    let site = Site::new().await;
    let release = CancellationToken::new();
    let (mut queue, accepted) = slow_server(&site, &release).await;
    queue.renewal = Duration::from_millis(1);
    put(&site.app, &slow_mail()).await;
    let begun = site.app.now();
    let claimed = site.app.store.claim_mails(9, LEASE, begun).await.unwrap().mails.remove(0);
    // The conversation has lasted 50 s.
    let sender = queue.clone();
    let late = begun.plus(Duration::from_secs(50));
    let attempt = tokio::spawn(async move { sender.attempt(&claimed, late).await.unwrap() });
    let after_the_first_claim = begun.plus(LEASE + Duration::from_secs(10));
    let renewed = async {
        while site.app.store.are_mails_due(after_the_first_claim).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), renewed).await.unwrap();
    assert_eq!(queue.deliver(after_the_first_claim).await.unwrap(), 0);
    release.cancel();
    assert_eq!(attempt.await.unwrap(), Outcome::Sent);
    assert_eq!((accepted.load(Ordering::Relaxed), waiting(&site).await), (1, 0));
}

// Shows (Mails and notifications).
#[tokio::test]
async fn a_mail_that_a_misconfigured_relay_rejects_waits_and_is_counted_apart() {
    let site = Site::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (read, mut write) = stream.into_split();
        write.write_all(b"554 5.7.1 no service\r\n").await.unwrap();
        let _ = BufReader::new(read).lines().next_line().await;
    });
    let mut config = site.app.settings.config.clone();
    config.admin.mail.smtp = Some(Url::parse(&format!("smtp://{addr}"), &["smtp"]).unwrap());
    let queue = site.app.reload(config).unwrap().mails.clone();
    put(&site.app, &mail()).await;
    assert_eq!(queue.deliver(site.app.now()).await.unwrap(), 1);
    assert_eq!((waiting(&site).await, counted(&queue, "rejected"), counted(&queue, "refused")), (1, 1, 0));
}
