use crate::*;
use rpcgate_core::backend::changes::{Change, Numbered};
use rpcgate_core::caller::TenantId;
use rpcgate_layers::redis::ChangeRelay;
use tokio::sync::mpsc;

/// The changes that a gateway publishes, and those of other gateways.
struct Gateway {
    own: mpsc::Sender<Numbered>,
    others: mpsc::Receiver<Numbered>,
}

impl Gateway {
    fn open(settings: &RedisSettings) -> Self {
        let ((own, published), (received, others)) = (mpsc::channel(100), mpsc::channel(100));
        tokio::spawn(ChangeRelay::new(settings).unwrap().run(published, received));
        Gateway { own, others }
    }

    /// Publishes change after change, starting with `number`, until `other` receives one. Returns its number.
    async fn publish_until_received(&self, other: &mut Gateway, mut number: u64) -> u64 {
        let publishing = async {
            loop {
                let change = Numbered { number, change: Change::Tenant(TenantId(9)) };
                self.own.send(change).await.unwrap();
                number += 1;
                if let Ok(received) = timeout(Duration::from_millis(50), other.others.recv()).await {
                    return received.unwrap();
                }
            }
        };
        let received = timeout(Duration::from_secs(60), publishing).await.unwrap();
        assert_eq!(received.change, Change::Tenant(TenantId(9)));
        received.number
    }
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn gateways_publish_changes_to_each_other_also_after_redis_was_gone() {
    let mut redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let one = Gateway::open(&settings);
    let mut other = Gateway::open(&settings);
    let mut other_prefix = Gateway::open(&RedisSettings { prefix: prefix(), ..settings.clone() });
    assert!(one.publish_until_received(&mut other, 1).await >= 1);
    redis.kill();
    redis.revive();
    assert!(one.publish_until_received(&mut other, 1_000).await >= 1_000);
    assert!(other_prefix.others.try_recv().is_err(), "gateways with another prefix receive nothing");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn a_relay_ends_with_its_sender_also_while_redis_is_unreachable() {
    let mut redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let ((own, published), (received, _others)) = (mpsc::channel(1), mpsc::channel(1));
    let relay = tokio::spawn(ChangeRelay::new(&settings).unwrap().run(published, received));
    redis.kill();
    drop(own);
    timeout(Duration::from_secs(60), relay).await.unwrap().unwrap();
}
