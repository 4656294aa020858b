//! Calls that several gateways have sent to nodes, in Redis.
//!
//! Each gateway says how many it has sent by itself, and the sum is everyone's. So what is said twice counts once, nothing is lost
//! while Redis is away, and a Redis that has lost everything has it back within a second. What gateways have sent that are long
//! gone is one number. If one of them comes back nevertheless, its calls count twice, and never too little.

use super::link::connect;
use super::tls::client;
use super::{BadRedis, RedisSettings};
use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue, Pipeline};
use std::fmt;
use std::time::Duration;
use tokio::time::timeout;

/// The time that Redis may take to answer. No call waits for it.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a month is kept, in seconds: longer than it lasts.
const KEPT: u64 = 40 * 86_400;
/// The largest number of nodes that are asked for at once.
const TOGETHER: usize = 64;
/// Tells Redis and adds up. It is sent whole each time, which is once a second, so that Redis need not know it.
const EXCHANGE: &str = include_str!("lua/node_months.lua");
/// The seconds without a word after which a gateway may be taken for one that does not come back,
const SILENCE: u64 = 3_600;
/// and the gateways that are still told apart then. A gateway has a new name if it is started without its former journal: what
/// the oldest of them have sent is kept as one number.
const APART: u64 = 64;

/// Counts that one gateway shares with others.
pub struct SharedNodeMonths {
    client: Client,
    prefix: String,
    /// The name under which this gateway counts.
    gateway: String,
    connection: Option<MultiplexedConnection>,
}

impl fmt::Debug for SharedNodeMonths {
    /// Without the URL, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedNodeMonths").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Why counts were not shared.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotShared(String);

impl SharedNodeMonths {
    /// Counts in the Redis of `settings`, of the gateway with this name, which no other one may have. Nothing is connected before
    /// the first question.
    ///
    /// # Errors
    /// [`BadRedis`] for an invalid URL, or one that names files which cannot be used.
    pub fn new(settings: &RedisSettings, gateway: &str) -> Result<Self, BadRedis> {
        Ok(SharedNodeMonths {
            client: client(&settings.url)?,
            prefix: settings.prefix.clone(),
            gateway: gateway.to_owned(),
            connection: None,
        })
    }

    fn key(&self, name: &str) -> String {
        format!("{}node-month:{name}", self.prefix)
    }

    /// When each gateway has said something about it.
    fn seen_key(&self, name: &str) -> String {
        format!("{}node-month-seen:{name}", self.prefix)
    }

    /// What this gateway has said before of each of these: a month of a node.
    ///
    /// # Errors
    /// [`NotShared`].
    pub async fn former(&mut self, names: &[String]) -> Result<Vec<u64>, NotShared> {
        let mut all = Vec::with_capacity(names.len());
        for names in names.chunks(TOGETHER) {
            let mut pipe = Pipeline::with_capacity(names.len());
            for name in names {
                pipe.cmd("HGET").arg(self.key(name)).arg(&self.gateway);
            }
            let known: Vec<Option<u64>> = self.ask(&pipe).await?;
            all.extend(known.into_iter().map(Option::unwrap_or_default));
        }
        whole(all, names.len())
    }

    /// Says how many calls this gateway has sent, by month and node, and returns how many the others have.
    ///
    /// # Errors
    /// [`NotShared`].
    pub async fn exchange(&mut self, own: &[(String, u64)]) -> Result<Vec<u64>, NotShared> {
        let mut all = Vec::with_capacity(own.len());
        for own in own.chunks(TOGETHER) {
            let mut pipe = Pipeline::with_capacity(1);
            pipe.cmd("EVAL").arg(EXCHANGE).arg(2 * own.len());
            for (name, _) in own {
                pipe.arg(self.key(name)).arg(self.seen_key(name));
            }
            pipe.arg(&self.gateway).arg(KEPT).arg(SILENCE).arg(APART);
            for (_, calls) in own {
                pipe.arg(*calls);
            }
            let sums: Vec<Vec<u64>> = self.ask(&pipe).await?;
            let everyone = sums.into_iter().flatten().zip(own);
            all.extend(everyone.map(|(everyone, (_, calls))| everyone.saturating_sub(*calls)));
        }
        whole(all, own.len())
    }

    async fn ask<T: FromRedisValue>(&mut self, pipe: &Pipeline) -> Result<T, NotShared> {
        let connected = match self.connection.take() {
            Some(connection) => Ok(connection),
            None => connect(self.client.clone()).await,
        };
        let mut connection = connected.map_err(|broken| NotShared(broken.to_string()))?;
        let asked = timeout(PATIENCE, pipe.query_async(&mut connection)).await;
        let answer = asked.map_err(|_| NotShared("does not answer".into()))?;
        let answer = answer.map_err(|error| NotShared(error.to_string()))?;
        self.connection = Some(connection);
        Ok(answer)
    }
}

fn whole(counts: Vec<u64>, expected: usize) -> Result<Vec<u64>, NotShared> {
    if counts.len() == expected { Ok(counts) } else { Err(NotShared("answers strangely".into())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_redis_that_is_not_there_is_an_error_without_its_password() {
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let url = format!("redis://:hunter2@127.0.0.1:{port}/0");
        let settings = RedisSettings { url, prefix: "p:".into(), patience: Duration::from_secs(1) };
        let mut shared = SharedNodeMonths::new(&settings, "a").unwrap();
        assert_eq!(shared.key("2026-11:eth:http://a"), "p:node-month:2026-11:eth:http://a");
        assert_eq!(shared.seen_key("2026-11:eth:http://a"), "p:node-month-seen:2026-11:eth:http://a");
        let away = shared.exchange(&[("2026-11:eth:http://a".into(), 7)]).await.unwrap_err();
        assert!(!away.to_string().contains("hunter2") && !format!("{shared:?}").contains("hunter2"));
        assert_eq!(shared.former(&[]).await, Ok(vec![]), "nothing is asked");
    }
}
