//! All keys of a gateway: those of its configuration and, after them, those of the management database.

use super::directory::StoreDirectory;
use crate::assemble::FileDirectory;
use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use rpcgate_config::{Config, KeySettings, Secret};
use rpcgate_core::backend::directory::{Directory, KeyLookup};
use rpcgate_core::backend::{BoxFuture, Unavailable};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The keys of both sources. A key that is in both belongs to the configuration.
#[derive(Debug)]
pub(crate) struct Keys {
    file: FileDirectory,
    /// The used keys of the configuration, by text. A look-up in the configuration costs a digest of the key, which
    /// takes longer than several layers, and the database's directory takes longer than this map.
    seen: ArcSwap<Seen>,
    written: Mutex<Written>,
    stored: Option<Arc<StoreDirectory>>,
}

/// The configuration's settings about keys.
#[derive(Debug, PartialEq)]
struct Written {
    keys: BTreeMap<String, KeySettings>,
    /// The secrets of the database's keys, the current one first.
    secrets: Vec<Secret>,
}

impl Written {
    fn of(config: &Config) -> Self {
        let gateway = &config.gateway;
        let secrets = gateway.key_secret.iter().chain(&gateway.former_key_secrets).cloned().collect();
        Written { keys: config.keys.clone(), secrets }
    }
}

type Seen = HashMap<Box<str>, KeyLookup, RandomState>;

impl Keys {
    pub(crate) fn new(config: &Config, stored: Option<Arc<StoreDirectory>>) -> Self {
        Keys {
            file: FileDirectory::new(config),
            seen: ArcSwap::default(),
            written: Mutex::new(Written::of(config)),
            stored,
        }
    }

    /// Replaces the keys by those of `config`, the secrets of the database's keys, and the plans of all keys.
    pub(crate) fn replace(&self, config: &Config) {
        self.file.replace(config);
        // In this order, entries that a concurrent call adds from the previous configuration go into the dropped map.
        self.seen.store(Arc::default());
        let Some(stored) = &self.stored else { return };
        stored.plans(&config.plans);
        let mut written = self.written.lock();
        let now = Written::of(config);
        if written.secrets != now.secrets {
            stored.accept(config.gateway.key_forge());
        }
        if written.keys != now.keys {
            stored.forget(|key, _| !matches!(self.file.peek(key), KeyLookup::Unknown));
        }
        *written = now;
    }
}

impl Directory for Keys {
    fn peek(&self, key: &str) -> KeyLookup {
        let seen = self.seen.load();
        if let Some(known) = seen.get(key) {
            return known.clone();
        }
        // Remembered database keys are not in the configuration, which was searched before their look-up.
        if let Some(known) = self.stored.as_ref().and_then(|stored| stored.remembered(key)) {
            return known;
        }
        match (self.file.peek(key), &self.stored) {
            (KeyLookup::Unknown, Some(stored)) => stored.judge(key),
            (KeyLookup::Unknown, None) => KeyLookup::Unknown,
            // Only existing keys are remembered, so callers without one cannot fill the memory. If the configuration
            // has changed or another key was just added, a later call remembers this key.
            (known, _) => {
                let mut more = Seen::clone(&seen);
                more.insert(key.into(), known.clone());
                self.seen.compare_and_swap(&seen, Arc::new(more));
                known
            }
        }
    }

    fn fetch<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<KeyLookup, Unavailable>> {
        match (self.file.peek(key), &self.stored) {
            (KeyLookup::Unknown, Some(stored)) => stored.fetch(key),
            (known, _) => Box::pin(std::future::ready(Ok(known))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::directory::KeySource;
    use super::*;
    use rpcgate_config::{Input, Overlay, PlanChange, Plans, QuotaChange};
    use rpcgate_core::backend::suite;
    use rpcgate_core::caller::Scope;
    use rpcgate_core::clock::{ManualClock, Time};
    use rpcgate_core::plan::Tier;
    use rpcgate_core::secret::{KeyForge, KeyHash};
    use rpcgate_store::{StoredKey, Terms};

    const OURS: &str = "aaaaaaaaaaaaaaaa";

    #[derive(Debug)]
    struct Source(KeyHash);

    impl KeySource for Source {
        fn look_up<'a>(
            &'a self,
            hash: KeyHash,
            _: &'a Plans,
            _: Time,
        ) -> BoxFuture<'a, Result<Option<StoredKey>, Unavailable>> {
            let stored = (hash == self.0).then(|| StoredKey {
                caller: suite::caller(7),
                terms: Terms::default(),
                revoked: false,
            });
            Box::pin(std::future::ready(Ok(stored)))
        }
    }

    fn config(text: &str) -> Config {
        Config::read(&Input { chains: &["eth"], file: Some(("f", text)), ..Input::default() }).unwrap()
    }

    fn ours(more: &str) -> Config {
        config(&format!("[keys.a]\nkey = \"{OURS}\"\n{more}"))
    }

    fn made() -> String {
        KeyForge::new(b"ours").make().unwrap()
    }

    /// Returns the keys of `config` in front of a database, and the key in the database.
    fn keys(config: &Config) -> (Keys, String) {
        let theirs = made();
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_000_000)));
        let stored = Arc::new(StoreDirectory::new(None, Plans::default(), clock));
        stored.open(Arc::new(Source(KeyHash::of(&theirs))));
        stored.reached();
        (Keys::new(config, Some(stored)), theirs)
    }

    async fn ask(keys: &Keys, key: &str) -> KeyLookup {
        match keys.peek(key) {
            KeyLookup::Miss => keys.fetch(key).await.unwrap(),
            known => known,
        }
    }

    fn is_stored(known: &KeyLookup) -> bool {
        matches!(known, KeyLookup::Known(caller) if caller.key == suite::caller(7).key)
    }

    fn is_written(known: &KeyLookup) -> bool {
        matches!(known, KeyLookup::Known(_)) && !is_stored(known)
    }

    #[tokio::test]
    async fn a_key_in_both_is_the_one_of_the_configuration() {
        let (keys, theirs) = keys(&ours(""));
        for _ in 0..3 {
            assert!(is_written(&ask(&keys, OURS).await));
            assert!(is_stored(&ask(&keys, &theirs).await));
        }
        keys.replace(&ours(&format!("[keys.s]\nkey = \"{theirs}\"\n")));
        for _ in 0..3 {
            assert!(is_written(&ask(&keys, OURS).await));
            assert!(is_written(&ask(&keys, &theirs).await), "also when it was the database's before");
        }
    }

    #[tokio::test]
    async fn a_key_that_was_used_follows_the_next_configuration() {
        for keys in [keys(&ours("")).0, Keys::new(&ours(""), None)] {
            assert!(is_written(&ask(&keys, OURS).await));
            keys.replace(&ours("revoked = true\n"));
            assert!(matches!(ask(&keys, OURS).await, KeyLookup::Revoked(_)));
            keys.replace(&ours("chains = [\"eth\"]\n"));
            let KeyLookup::Known(caller) = ask(&keys, OURS).await else { panic!("it is let in again") };
            assert!(caller.scope != Scope::All);
            keys.replace(&config(""));
            assert!(matches!(ask(&keys, OURS).await, KeyLookup::Revoked(_)), "gone is revoked");
        }
    }

    // Shows (Streams).
    #[tokio::test]
    async fn a_changed_stream_limit_applies_at_once_to_keys_of_both_sources() {
        let (keys, theirs) = keys(&ours(""));
        let streams = async || {
            let mut streams = Vec::new();
            for key in [OURS, &theirs] {
                let KeyLookup::Known(caller) = ask(&keys, key).await else { panic!("it is known") };
                streams.push((caller.plan.ws_connections, caller.plan.ws_connections_per_key));
            }
            streams
        };
        assert_eq!(streams().await, [(5, 5); 2]);
        let changed = "[plans.free]\nws_connections = 9\nws_connections_per_key = 1\n";
        keys.replace(&ours(changed));
        assert_eq!(streams().await, [(9, 1); 2]);
        let set = PlanChange { ws_connections: Some(3), ..PlanChange::default() };
        let overlay = Overlay { plans: [(Tier::Free, set)].into(), ..Overlay::default() };
        keys.replace(&overlay.over(&ours(changed)));
        assert_eq!(streams().await, [(3, 1); 2]);
    }

    // Shows (Plans, bills and payments).
    #[tokio::test]
    async fn a_changed_plan_quota_applies_at_once_to_keys_of_both_sources() {
        let (keys, theirs) = keys(&ours(""));
        let quotas = async || {
            let mut quotas = Vec::new();
            for key in [OURS, &theirs] {
                let KeyLookup::Known(caller) = ask(&keys, key).await else { panic!("it is known") };
                quotas.push((caller.quota.cu_per_day, caller.quota.rps_limit));
            }
            quotas
        };
        assert_eq!(quotas().await, [(100_000, None); 2]);
        let changed = "[plans.free]\ncu_per_day = 9\nrps_limit = 3\n";
        keys.replace(&ours(changed));
        assert_eq!(quotas().await, [(9, Some(3)); 2]);
        let quota = QuotaChange { cu_per_day: Some(4), ..QuotaChange::default() };
        let set = PlanChange { quota, ..PlanChange::default() };
        let overlay = Overlay { plans: [(Tier::Free, set)].into(), ..Overlay::default() };
        keys.replace(&overlay.over(&ours(changed)));
        assert_eq!(quotas().await, [(4, Some(3)); 2]);
        keys.replace(&overlay.over(&ours("project = \"own\"\n[projects.own]\ncu_per_day = 77\n")));
        assert_eq!(quotas().await, [(77, None), (4, None)], "a quota of its own prevails");
    }

    // Shows (Commands and configuration): Secrets of keys and tokens are rotated over two reloads with nothing refused
    // in between.
    #[tokio::test]
    async fn the_secret_of_keys_is_rotated_over_two_reloads() {
        let secret = |current: &str, former: &str| {
            ours(&format!("[gateway]\nkey_secret = \"{current}\"\nformer_key_secrets = [{former}]\n"))
        };
        let first = "the first secret";
        let second = "the second secret";
        let old = KeyForge::new(first.as_bytes()).make().unwrap();
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_000_000)));
        let forge = secret(first, "").gateway.key_forge();
        let stored = Arc::new(StoreDirectory::new(forge, Plans::default(), clock));
        stored.open(Arc::new(Source(KeyHash::of(&old))));
        stored.reached();
        let keys = Keys::new(&secret(first, ""), Some(stored));
        let new = KeyForge::new(second.as_bytes()).make().unwrap();
        assert!(is_stored(&ask(&keys, &old).await));
        assert!(matches!(keys.peek(&new), KeyLookup::Unknown), "refused without a look-up");
        keys.replace(&secret(second, &format!("{first:?}")));
        assert!(is_stored(&keys.peek(&old)), "it stays remembered");
        assert!(matches!(keys.peek(&new), KeyLookup::Miss), "and keys of the new secret are looked up");
        keys.replace(&secret(second, ""));
        assert!(matches!(keys.peek(&old), KeyLookup::Unknown), "the former secret is gone");
        assert!(matches!(keys.peek(&new), KeyLookup::Miss));
        assert!(is_written(&ask(&keys, OURS).await), "keys of the file do not depend on it");
    }

    #[tokio::test]
    async fn only_the_configurations_keys_are_remembered_here() {
        let (keys, theirs) = keys(&ours(""));
        for key in [OURS, &theirs, "", "\0", OURS] {
            ask(&keys, key).await;
        }
        for _ in 0..100 {
            assert!(matches!(ask(&keys, &made()).await, KeyLookup::Unknown));
        }
        let seen: Vec<Box<str>> = keys.seen.load().keys().cloned().collect();
        assert_eq!(seen, [Box::<str>::from(OURS)]);
        let alone = Keys::new(&ours(""), None);
        assert!(matches!(alone.peek(&theirs), KeyLookup::Unknown));
        assert!(is_written(&alone.peek(OURS)));
        assert_eq!(alone.seen.load().len(), 1);
    }
}
