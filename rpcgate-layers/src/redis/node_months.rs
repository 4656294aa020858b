//! The calls that several gateways have sent to nodes, in Redis.
//!
//! Each gateway reports its own total, and the sum of all totals is the shared count. So a repeated report counts once,
//! nothing is lost while Redis is unreachable, and a Redis that has lost everything has it back within a second. The
//! totals of gateways that have been silent for long are one number. If such a gateway comes back nevertheless, its
//! calls count twice, but never too little.

use super::link::connect;
use super::tls::client;
use super::{BadRedis, RedisSettings};
use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue, Pipeline};
use std::fmt;
use std::time::Duration;
use tokio::time::timeout;

/// The time limit of an answer of Redis. No call waits for it.
const PATIENCE: Duration = Duration::from_secs(5);
/// The seconds for which a month is kept: longer than the month.
const TTL: u64 = 40 * 86_400;
/// The maximum number of nodes in one request.
const TOGETHER: usize = 64;
/// The script that stores the totals and returns the sums. It is sent as a whole each time, which is once a second, so
/// that Redis need not know it.
const EXCHANGE: &str = include_str!("lua/node_months.lua");
/// The seconds of silence after which a gateway may be gone for good.
const SILENCE: u64 = 3_600;
/// The number of gateways with a total of their own. A gateway has a new name if it is started without its former
/// journal. Beyond this number, the totals of the oldest silent ones are kept as one number.
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

/// The reason why counts were not shared.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotShared(String);

impl SharedNodeMonths {
    /// Creates counts in the Redis of `settings` for the gateway with this name, which must be unique. It connects
    /// before the first request, not earlier.
    ///
    /// # Errors
    /// [`BadRedis`] for an invalid URL, or one that names files that cannot be used.
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

    /// Returns the key for the times of each gateway's last report.
    fn seen_key(&self, name: &str) -> String {
        format!("{}node-month-seen:{name}", self.prefix)
    }

    /// Returns the totals that this gateway has reported earlier. Each name is a month of a node.
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
        complete(all, names.len())
    }

    /// Reports the total of this gateway for each month and node, and returns the sum of the others' totals.
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
            pipe.arg(&self.gateway).arg(TTL).arg(SILENCE).arg(APART);
            for (_, calls) in own {
                pipe.arg(*calls);
            }
            let sums: Vec<Vec<u64>> = self.ask(&pipe).await?;
            let everyone = sums.into_iter().flatten().zip(own);
            all.extend(everyone.map(|(everyone, (_, calls))| everyone.saturating_sub(*calls)));
        }
        complete(all, own.len())
    }

    async fn ask<T: FromRedisValue>(&mut self, pipe: &Pipeline) -> Result<T, NotShared> {
        let connected = match self.connection.take() {
            Some(connection) => Ok(connection),
            None => connect(self.client.clone()).await,
        };
        let mut connection = connected.map_err(|broken| NotShared(broken.to_string()))?;
        let reply = timeout(PATIENCE, pipe.query_async(&mut connection)).await;
        let answer = reply.map_err(|_| NotShared("does not answer".into()))?;
        let answer = answer.map_err(|error| NotShared(error.to_string()))?;
        self.connection = Some(connection);
        Ok(answer)
    }
}

fn complete(counts: Vec<u64>, expected: usize) -> Result<Vec<u64>, NotShared> {
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
