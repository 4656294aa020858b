//! Stores the configurations that a program accepts, in the background.

use super::{AcceptedConfig, Store};
use rpcgate_core::clock::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The number of configurations that may wait for the database, which is more reloads than happen during an outage.
const WAITING: usize = 64;

const PAUSE: Duration = Duration::from_secs(5);

/// The interval at which the newest configuration is stored again to record that it is still in force.
const AGAIN: Duration = Duration::from_secs(86_400);

/// Queues the configurations that a program accepts.
#[derive(Clone, Debug)]
pub struct ConfigRecorder(mpsc::Sender<AcceptedConfig>);

/// The queued configurations. [`run`](Self::run) stores them once the database is open.
#[derive(Debug)]
pub struct ConfigRecording(mpsc::Receiver<AcceptedConfig>);

impl ConfigRecorder {
    /// Creates a recorder and the queue that it fills.
    pub fn new() -> (Self, ConfigRecording) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (ConfigRecorder(sender), ConfigRecording(receiver))
    }

    /// Queues a configuration without waiting.
    pub fn record(&self, accepted: AcceptedConfig) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.0.try_send(accepted) {
            tracing::warn!(
                "an accepted configuration is not stored as a version: {WAITING} others are waiting already"
            );
        }
    }
}

impl ConfigRecording {
    /// Stores the queued configurations in order until the recorder is dropped. Waits for a database that is
    /// unavailable.
    pub async fn run(mut self, store: Store, clock: Arc<dyn Clock>) {
        let mut newest: Option<AcceptedConfig> = None;
        loop {
            let accepted = tokio::select! {
                accepted = self.0.recv() => match accepted {
                    Some(accepted) => accepted,
                    None => return,
                },
                () = tokio::time::sleep(AGAIN) => match &newest {
                    Some(newest) => AcceptedConfig { is_start: false, ..newest.clone() },
                    None => continue,
                },
            };
            let mut is_logged = false;
            loop {
                match store.record_config(&accepted, clock.now()).await {
                    Ok(number) => {
                        tracing::debug!(number, "the configuration is stored as a version");
                        break;
                    }
                    Err(error) if !is_logged => {
                        tracing::warn!(%error, "the configuration is not stored as a version yet");
                        is_logged = true;
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(PAUSE).await;
            }
            newest = Some(accepted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDatabase;
    use crate::{ConfigScope, ConfigVersionFilter};
    use rpcgate_config::Config;
    use rpcgate_core::clock::{ManualClock, Time};

    fn accepted(bytes: u64, is_start: bool) -> AcceptedConfig {
        let mut config = Config::default();
        config.cache.bytes = bytes;
        let scope = ConfigScope::Gateway("one".into());
        let origin = ("web-1".to_owned(), "web-1: a.toml".to_owned());
        AcceptedConfig::new(&config, scope, origin, is_start, Time::from_secs(1))
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn configurations_accepted_before_the_database_opens_are_stored_in_order() {
        let site = TestDatabase::of(module_path!());
        let (recorder, recording) = ConfigRecorder::new();
        for bytes in [0, 1, 1, 2] {
            recorder.record(accepted(bytes, bytes == 0));
        }
        let store = site.store_within(Duration::from_secs(60)).await.unwrap();
        drop(recorder);
        recording.run(store.clone(), Arc::new(ManualClock::at(Time::from_secs(9)))).await;
        let stored = store.config_versions(&ConfigVersionFilter::default(), None, 9).await.unwrap();
        let bytes: Vec<_> = stored.iter().map(|one| one.lines.get("cache.bytes").unwrap()).collect();
        assert_eq!(bytes, ["\"2B\"", "\"1B\"", "\"0B\""]);
        assert!(stored.iter().all(|one| one.started == Some(stored[2].number)), "{stored:?}");
    }

    #[test]
    fn more_than_anybody_needs_is_dropped_and_nothing_waits() {
        let (recorder, mut recording) = ConfigRecorder::new();
        for _ in 0..WAITING + 3 {
            recorder.record(accepted(0, false));
        }
        drop(recorder);
        let mut waiting = 0;
        while recording.0.try_recv().is_ok() {
            waiting += 1;
        }
        assert_eq!(waiting, WAITING);
    }
}
