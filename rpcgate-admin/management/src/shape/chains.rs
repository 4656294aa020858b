//! JSON shapes of the chain catalog.

use crate::action::chains::CatalogEntry;
use serde::Serialize;
use utoipa::ToSchema;

/// A chain of the catalog.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Chain)]
pub struct ChainJson {
    /// Its path at the gateway, without the slash.
    #[schema(example = "eth")]
    pub name: &'static str,
    /// Its title.
    #[schema(example = "Ethereum")]
    pub title: &'static str,
    /// Other names that the scope of a key may use.
    pub aliases: &'static [&'static str],
    /// The transports by which it can be called: http, ws, grpc.
    pub transports: Vec<&'static str>,
    /// True if several calls can be sent as one JSON array.
    pub batch: bool,
    /// True if it is switched on.
    pub enabled: bool,
    /// True if it is switched on and has a node, so that it can be called.
    pub served: bool,
}

impl From<CatalogEntry> for ChainJson {
    fn from(CatalogEntry { facts, enabled, served }: CatalogEntry) -> Self {
        let transports = [("http", facts.https), ("ws", facts.ws), ("grpc", !facts.grpc.is_empty())];
        ChainJson {
            name: facts.name.as_str(),
            title: facts.title,
            aliases: facts.aliases,
            transports: transports.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect(),
            batch: facts.batch,
            enabled,
            served,
        }
    }
}
