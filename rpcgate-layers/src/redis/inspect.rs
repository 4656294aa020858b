//! A check of a Redis server, for operators: whether it is suitable for counters.

use super::BadRedis;
use super::link::connect;
use super::tls::client;
use rpcgate_core::clock::Time;
use std::time::Duration;
use tokio::time::timeout;

/// The time limit of the server's answers.
const PATIENCE: Duration = Duration::from_secs(3);

/// The condition of a Redis server, according to the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedisCondition {
    /// The version.
    pub version: String,
    /// True if the server belongs to a cluster.
    pub is_clustered: bool,
    /// True if the server is a replica, which takes no writes.
    pub is_replica: bool,
    /// The policy for evicting keys when the memory is full (`maxmemory-policy`).
    pub policy: String,
    /// The used memory in bytes.
    pub used: u64,
    /// The memory limit in bytes; 0 for no limit.
    pub most: u64,
    /// The time of the server's clock.
    pub now: Time,
}

/// The reason why the condition of a server is unknown.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotInspected {
    /// The URL, or a file that it names, cannot be used.
    #[error(transparent)]
    Settings(#[from] BadRedis),
    /// The server cannot be reached, or refuses to answer.
    #[error("{0}")]
    Silent(String),
}

/// Queries the condition of the server at `url`. It changes nothing there, and takes at most four seconds.
///
/// # Errors
/// [`NotInspected`].
pub async fn inspect(url: &str) -> Result<RedisCondition, NotInspected> {
    let silent = |why: String| NotInspected::Silent(why);
    let mut connection = connect(client(url)?).await.map_err(|broken| silent(broken.to_string()))?;
    let reply = timeout(PATIENCE, async {
        let info: String = redis::cmd("INFO").query_async(&mut connection).await?;
        let now: (u64, u64) = redis::cmd("TIME").query_async(&mut connection).await?;
        Ok::<_, redis::RedisError>((info, now))
    });
    let (info, (secs, micros)) = reply
        .await
        .map_err(|_| silent("does not answer".into()))?
        .map_err(|error| silent(error.to_string().trim_end_matches('.').to_owned()))?;
    let now = Time::from_micros(secs.saturating_mul(1_000_000).saturating_add(micros));
    condition(&info, now).ok_or_else(|| silent("is no Redis: its answer to INFO cannot be read".into()))
}

/// Reads the lines `name:value` of INFO. A missing limit or policy means that the server has none.
fn condition(info: &str, now: Time) -> Option<RedisCondition> {
    let value =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let number = |name: &str| value(name).and_then(|text| text.parse().ok()).unwrap_or_default();
    Some(RedisCondition {
        version: value("redis_version")?.to_owned(),
        is_clustered: value("cluster_enabled") == Some("1"),
        is_replica: value("role") == Some("slave"),
        policy: value("maxmemory_policy").unwrap_or("noeviction").to_owned(),
        used: number("used_memory"),
        most: number("maxmemory"),
        now,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_info_is_read_by_whole_names() {
        let info = "# Server\r\nredis_version:7.2.4\r\nredis_mode:standalone\r\n\r\n# Memory\r\nused_memory:1048576\r\n\
                    used_memory_human:1.00M\r\nmaxmemory:2097152\r\nmaxmemory_policy:allkeys-lru\r\n\
                    # Replication\r\nrole:master\r\n# Cluster\r\ncluster_enabled:0\r\n";
        let now = Time::from_secs(5);
        let read = condition(info, now).unwrap();
        let expected = RedisCondition {
            version: "7.2.4".into(),
            is_clustered: false,
            is_replica: false,
            policy: "allkeys-lru".into(),
            used: 1 << 20,
            most: 1 << 21,
            now,
        };
        assert_eq!(read, expected);
        let other = condition("redis_version:6.0\nrole:slave\ncluster_enabled:1\n", now).unwrap();
        assert!(other.is_clustered && other.is_replica && other.policy == "noeviction" && other.most == 0);
        assert_eq!(condition("# Server\r\nhello:1\r\n", now), None);
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_named_without_its_password() {
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let found = inspect(&format!("redis://:hunter2@127.0.0.1:{port}/0")).await.unwrap_err();
        assert!(matches!(&found, NotInspected::Silent(why) if !why.contains("hunter2")), "{found}");
        let found = inspect("http://u:hunter2@h").await.unwrap_err();
        assert!(matches!(&found, NotInspected::Settings(why) if !why.to_string().contains("hunter2")));
    }
}
