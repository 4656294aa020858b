//! Changes that gateways publish to each other.

use super::*;
use rpcgate_core::backend::changes::{Change, Numbered};
use rpcgate_core::caller::TenantId;

struct Gateway {
    tells: mpsc::Sender<Numbered>,
    hears: mpsc::Receiver<Numbered>,
}

impl Gateway {
    fn open(settings: &RedisSettings) -> Self {
        let ((tells, reported), (hearing, hears)) = (mpsc::channel(100), mpsc::channel(100));
        tokio::spawn(ChangeRelay::new(settings).unwrap().run(reported, hearing));
        Gateway { tells, hears }
    }

    /// Publishes change after change, from `number` on, until `other` receives one. Returns its number.
    async fn tell_until_heard(&self, other: &mut Gateway, mut number: u64) -> u64 {
        let telling = async {
            loop {
                let change = Numbered { number, change: Change::Tenant(TenantId(9)) };
                self.tells.send(change).await.unwrap();
                number += 1;
                if let Ok(heard) = timeout(Duration::from_millis(50), other.hears.recv()).await {
                    return heard.unwrap();
                }
            }
        };
        let heard = timeout(Duration::from_secs(60), telling).await.unwrap();
        assert_eq!(heard.change, Change::Tenant(TenantId(9)));
        heard.number
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn gateways_publish_changes_to_each_other_also_after_redis_was_gone() {
    let mut redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let (one, mut other) = (Gateway::open(&settings), Gateway::open(&settings));
    let mut other_prefix = Gateway::open(&RedisSettings { prefix: prefix(), ..settings.clone() });
    assert!(one.tell_until_heard(&mut other, 1).await >= 1);
    redis.kill();
    redis.revive();
    assert!(one.tell_until_heard(&mut other, 1_000).await >= 1_000);
    assert!(other_prefix.hears.try_recv().is_err(), "gateways with another prefix receive nothing");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn a_relay_ends_with_its_sender_also_while_redis_is_unreachable() {
    let mut redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let ((tells, reported), (hearing, _hears)) = (mpsc::channel(1), mpsc::channel(1));
    let relay = tokio::spawn(ChangeRelay::new(&settings).unwrap().run(reported, hearing));
    redis.kill();
    drop(tells);
    timeout(Duration::from_secs(60), relay).await.unwrap().unwrap();
}
