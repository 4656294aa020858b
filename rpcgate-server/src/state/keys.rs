//! All keys of a gateway: those of its configuration and, behind them, those of the management database.

use super::directory::StoreDirectory;
use crate::assemble::FileDirectory;
use parking_lot::Mutex;
use rpcgate_core::config::{Config, Key};
use rpcgate_core::seam::directory::{Directory, Peek};
use rpcgate_core::seam::{Away, Later};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A key that stands in both is the configuration's.
#[derive(Debug)]
pub(crate) struct Keys {
    file: FileDirectory,
    written: Mutex<BTreeMap<String, Key>>,
    stored: Option<Arc<StoreDirectory>>,
}

impl Keys {
    pub(crate) fn new(config: &Config, stored: Option<Arc<StoreDirectory>>) -> Self {
        Keys { file: FileDirectory::new(config), written: Mutex::new(config.keys.clone()), stored }
    }

    /// Puts the keys of `config`, and its plans for all keys, in the place of the former ones.
    pub(crate) fn replace(&self, config: &Config) {
        self.file.replace(config);
        let Some(stored) = &self.stored else { return };
        stored.plans(&config.plans);
        let mut written = self.written.lock();
        if *written != config.keys {
            stored.forget(|key, _| !matches!(self.file.peek(key), Peek::Unknown));
            written.clone_from(&config.keys);
        }
    }
}

impl Directory for Keys {
    fn peek(&self, key: &str) -> Peek {
        let Some(stored) = &self.stored else { return self.file.peek(key) };
        // What is remembered of the database is not the configuration's: it was asked first when the key was looked
        // up. Asking it again would cost a hash that is dearer than several stations.
        if let Some(known) = stored.remembered(key) {
            return known;
        }
        match self.file.peek(key) {
            Peek::Unknown => stored.peek(key),
            known => known,
        }
    }

    fn fetch<'a>(&'a self, key: &'a str) -> Later<'a, Result<Peek, Away>> {
        match (self.file.peek(key), &self.stored) {
            (Peek::Unknown, Some(stored)) => stored.fetch(key),
            (known, _) => Box::pin(std::future::ready(Ok(known))),
        }
    }
}
