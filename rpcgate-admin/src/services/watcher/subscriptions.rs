//! Keeps the index of subscriptions up to date: reads all of them once, and then those of each project in the change
//! feed.

use rpcgate_core::adapter::Adapter;
use rpcgate_core::backend::Unavailable;
use rpcgate_core::backend::changes::{AT_ONCE, Change, ChangeFeed};
use rpcgate_core::caller::ProjectId;
use rpcgate_core::event::{IndexedSubscription, SubscriptionIndex};
use rpcgate_store::{Store, StoreError, SubscriptionId};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

const PAGE: u64 = 5_000;

#[derive(Debug, thiserror::Error)]
pub(super) enum StaleIndex {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the change feed cannot be read")]
    Feed,
}

impl From<Unavailable> for StaleIndex {
    fn from(_: Unavailable) -> Self {
        StaleIndex::Feed
    }
}

/// The index of subscriptions, and the last change that it contains.
#[derive(Debug)]
pub(super) struct Subscriptions {
    index: SubscriptionIndex,
    adapters: HashMap<&'static str, Arc<dyn Adapter>>,
    /// The last change that was applied, or `None` before the first full read.
    number: Option<u64>,
}

impl Subscriptions {
    pub(super) fn new(adapters: impl IntoIterator<Item = Arc<dyn Adapter>>) -> Self {
        let named = |adapter: Arc<dyn Adapter>| (adapter.facts().name.as_str(), adapter);
        let adapters = adapters.into_iter().map(named).collect();
        Subscriptions { index: SubscriptionIndex::default(), adapters, number: None }
    }

    pub(super) fn index(&self) -> &SubscriptionIndex {
        &self.index
    }

    /// Reports whether all subscriptions were read once.
    pub(super) fn is_read(&self) -> bool {
        self.number.is_some()
    }

    /// Reads the changes, or all subscriptions if the changes are unknown. After an error the next call reads the rest.
    pub(super) async fn refresh(&mut self, store: &Store) -> Result<(), StaleIndex> {
        let Some(mut number) = self.number else { return self.load(store).await };
        loop {
            let changes = store.since(number).await?;
            let Some(first) = changes.first() else { return self.check_age(store, number).await };
            if first.number > number + 1 && store.oldest_change().await? > number + 1 {
                return self.load(store).await;
            }
            let last = changes.last().map_or(number, |last| last.number);
            let is_full = changes.len() >= AT_ONCE;
            let mut projects = BTreeSet::new();
            for change in changes {
                match change.change {
                    Change::Project(id) => {
                        projects.insert(id);
                    }
                    Change::Tenant(id) => projects.extend(store.projects_with_webhooks(id).await?),
                    _ => {}
                }
            }
            for project in projects {
                self.reload(store, project).await?;
            }
            number = last;
            self.number = Some(number);
            if !is_full {
                return Ok(());
            }
        }
    }

    /// Reads all subscriptions again if the database has fewer changes than were read, because an older one has
    /// replaced it.
    async fn check_age(&mut self, store: &Store, number: u64) -> Result<(), StaleIndex> {
        if store.newest_change().await? < number { self.load(store).await } else { Ok(()) }
    }

    async fn load(&mut self, store: &Store) -> Result<(), StaleIndex> {
        // The number is read first, so that changes during the load are read again.
        let number = store.newest_change().await?;
        let mut read = HashSet::new();
        let mut after = None;
        loop {
            let page = store.indexed_subscriptions(None, after, PAGE).await?;
            for subscription in &page {
                self.insert(subscription);
                read.insert(subscription.id);
            }
            match page.last() {
                Some(last) if page.len() as u64 == PAGE => after = Some(SubscriptionId(last.id)),
                _ => break,
            }
        }
        self.index.retain(|id| read.contains(&id));
        self.number = Some(number);
        tracing::info!(subscriptions = self.index.len(), "read the subscriptions of webhooks");
        Ok(())
    }

    async fn reload(&self, store: &Store, project: ProjectId) -> Result<(), StaleIndex> {
        let mut all = Vec::new();
        loop {
            let after = all.last().map(|last: &IndexedSubscription| SubscriptionId(last.id));
            let page = store.indexed_subscriptions(Some(project), after, PAGE).await?;
            let is_last = (page.len() as u64) < PAGE;
            all.extend(page);
            if is_last {
                break;
            }
        }
        self.index.replace_project(project.0, &all, |chain, key, value| self.canonical(chain, key, value));
        Ok(())
    }

    fn insert(&self, subscription: &IndexedSubscription) {
        self.index.insert(subscription, |chain, key, value| self.canonical(chain, key, value));
    }

    fn canonical(&self, chain: &str, key: &str, value: &str) -> Option<String> {
        match self.adapters.get(chain)?.block_reader() {
            Some(reader) => reader.canonical(key, value),
            None => Some(value.to_owned()),
        }
    }
}
