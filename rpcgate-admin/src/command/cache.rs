//! `rpcgate-admin cache`: the gateways' caches.

use super::command_error::CommandError;
use super::console::Console;
use super::printer::Printable;
use crate::cli::cache::{CacheClearArgs, CacheCommand};
use rpcgate_management::action::operator::chains;
use serde::Serialize;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
struct ClearedCache {
    chain: &'static str,
}

impl Printable for ClearedCache {
    const COLUMNS: &'static [(&'static str, usize)] = &[("CHAIN", 12)];

    fn cells(&self) -> Vec<String> {
        vec![self.chain.to_owned()]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![("chain", self.chain.to_owned()), ("cache", "emptied at every gateway".to_owned())]
    }
}

pub(super) async fn execute(console: &mut Console<'_>, command: &CacheCommand) -> Result<(), CommandError> {
    let CacheCommand::Clear(CacheClearArgs { chain, .. }) = command;
    let chain = chains::clear_cache(&console.app, &console.actor(), chain).await?;
    Ok(console.printer.object(&ClearedCache { chain })?)
}

#[cfg(test)]
mod tests {
    use crate::command::console::tests::run;
    use crate::testing::Site;
    use rpcgate_core::backend::changes::{Change, ChangeFeed};

    #[tokio::test]
    async fn gateways_are_asked_to_empty_the_cache_of_an_existing_chain() {
        let site = Site::new().await;
        let done = run(&site, None, "cache clear --chain eth --json").await;
        assert_eq!((done.code, &done.json()[0]["chain"]), (0, &"eth".into()), "{}", done.messages);
        let changes = site.app.store.since(0).await.unwrap();
        let last = changes.last().map(|one| one.change.clone());
        assert_eq!(last, Some(Change::Cache("eth".into())));
        assert_eq!(run(&site, None, "cache clear --chain gold").await.code, 3);
    }
}
