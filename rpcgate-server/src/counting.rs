//! The counters of a gateway: in its own process, or in Redis, shared with other gateways.

use crate::start_error::StartError;
use rpcgate_config::{Config, Url};
use rpcgate_core::backend::counters::{Counters, MemoryCounters, Restored};
use rpcgate_layers::redis::{ChangeRelay, CounterState, RedisCounters, RedisSettings, Seed};
use std::sync::Arc;
use std::time::Duration;

/// The time limit for returning unused reservations to Redis at shutdown.
const CLOSE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(crate) enum Counting {
    /// In this process only.
    Here(Arc<MemoryCounters>),
    /// In Redis, shared with other gateways.
    Together(Arc<RedisCounters>),
}

impl Counting {
    /// Opens the counters that `config` selects. Must run inside a tokio runtime.
    pub(crate) fn open(config: &Config, seed: Arc<dyn Seed>) -> Result<Self, StartError> {
        Ok(match settings(config) {
            None => Counting::Here(Arc::default()),
            Some(settings) => Counting::Together(Arc::new(RedisCounters::new(&settings, seed)?)),
        })
    }

    /// Reports the errors that [`open`](Self::open) would return.
    pub(crate) fn check(config: &Config) -> Result<(), StartError> {
        settings(config).map_or(Ok(()), |settings| Ok(RedisCounters::check(&settings)?))
    }

    /// Returns the relay that sends changes to other gateways; `None` without Redis. Errors as for
    /// [`open`](Self::open).
    pub(crate) fn relay(config: &Config) -> Result<Option<ChangeRelay>, StartError> {
        Ok(settings(config).map(|settings| ChangeRelay::new(&settings)).transpose()?)
    }

    pub(crate) fn backend(&self) -> Arc<dyn Counters> {
        match self {
            Counting::Here(counters) => counters.clone(),
            Counting::Together(counters) => counters.clone(),
        }
    }

    pub(crate) fn restore(&self, restored: &Restored) {
        match self {
            Counting::Here(counters) => counters.restore(restored),
            Counting::Together(counters) => counters.restore(restored),
        }
    }

    /// Waits until the shared counters are in use, at most for `limit`.
    pub(crate) async fn joined(&self, limit: Duration) {
        if let Counting::Together(counters) = self
            && tokio::time::timeout(limit, counters.joined()).await.is_err()
        {
            tracing::warn!(
                "starting without Redis: windows and quotas are counted by this gateway alone until it is back"
            );
        }
    }

    /// Returns the status of the counters in Redis; `None` without Redis.
    pub(crate) fn state(&self) -> Option<CounterState> {
        match self {
            Counting::Here(_) => None,
            Counting::Together(counters) => Some(counters.state()),
        }
    }

    /// Returns unused reservations. Must be called after the last call.
    pub(crate) async fn close(&self) {
        if let Counting::Together(counters) = self
            && tokio::time::timeout(CLOSE, counters.close()).await.is_err()
        {
            tracing::warn!("redis: unused reservations were not released in time");
        }
    }
}

pub(crate) fn settings(config: &Config) -> Option<RedisSettings> {
    let redis = &config.redis;
    let url = redis.url.as_ref().map(Url::expose)?.to_owned();
    Some(RedisSettings { url, prefix: redis.prefix.clone(), patience: redis.timeout })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::Input;
    use rpcgate_layers::redis::NoSeed;

    fn config(text: &str) -> Config {
        Config::read(&Input { file: Some(("f", text)), ..Input::default() }).unwrap()
    }

    #[tokio::test]
    async fn counters_are_in_the_process_unless_a_redis_is_named() {
        let here = Counting::open(&Config::default(), Arc::new(NoSeed)).unwrap();
        assert!(matches!(here, Counting::Here(_)) && here.state().is_none());
        let config = config("[redis]\nurl = \"redis://127.0.0.1:1\"\nprefix = \"p:\"\ntimeout = \"20ms\"\n");
        let expected = RedisSettings {
            url: "redis://127.0.0.1:1".into(),
            prefix: "p:".into(),
            patience: Duration::from_millis(20),
        };
        assert_eq!(settings(&config), Some(expected));
        let together = Counting::open(&config, Arc::new(NoSeed)).unwrap();
        together.joined(Duration::from_millis(1)).await;
        assert_eq!(together.state(), Some(CounterState::Alone), "it continues without a server");
        together.close().await;
    }

    #[test]
    fn an_impossible_redis_is_found_by_a_check() {
        let error = Counting::check(&config("[redis]\nurl = \"redis://u:hunter2@h/seven\"\n")).unwrap_err();
        assert!(error.is_configuration() && error.to_string().starts_with("redis.url: "), "{error}");
        assert!(!error.to_string().contains("hunter2"));
        assert!(Counting::check(&Config::default()).is_ok());
    }
}
