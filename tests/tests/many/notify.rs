//! PostgreSQL notifies gateways of changes; they also poll for changes.

use crate::*;
use sea_orm::{ConnectionTrait, Database, DatabaseConnection};

/// The connections on which gateways listen for notifications.
const EARS: &str = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";

/// Closes these connections and returns their number.
async fn deafen(server: &DatabaseConnection) -> u64 {
    let end = format!("SELECT pg_terminate_backend(pid) {EARS}");
    server.execute_unprepared(&end).await.unwrap().rows_affected()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(all(have_postgres, have_redis)),
    ignore = "needs postgresql and redis-server (apt install postgresql redis-server)"
)]
async fn a_revoked_key_is_refused_also_at_gateways_without_notifications() {
    let node = Node::evm().await;
    let cluster = Cluster::new(2, Setup::of("eth", &node.url()).set("plans.enterprise", PLENTY)).await;
    let processes = cluster.start().await;
    let server = Database::connect(&cluster.url).await.unwrap();
    for _ in 0..3 {
        let look = async {
            // The gateways open them again.
            while server.execute_unprepared(&format!("SELECT 1 {EARS}")).await.unwrap().rows_affected() < 2 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(TIMEOUT, look).await.is_ok(), "gateways do not wait for a notification");
        let key = cluster.key(Tier::Enterprise).await;
        let clients: Vec<_> = processes.iter().map(|process| key.client(process.addr())).collect();
        for client in &clients {
            assert_eq!(client.call("eth", "eth_chainId", "[]").await.status, 200);
        }
        assert_eq!(deafen(&server).await, 2);
        cluster.store.revoke_key(key.tenant, key.key, now()).await.unwrap();
        for client in &clients {
            let look = async {
                while client.call("eth", "eth_chainId", "[]").await.status != 401 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            assert!(tokio::time::timeout(TIMEOUT, look).await.is_ok(), "never refused");
        }
    }
}
