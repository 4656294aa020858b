//! The constants of a chain.

use super::dialect::Dialect;
use super::name::ChainName;
use crate::transport::{Transport, Transports};
use std::time::Duration;

/// The constants of a chain.
///
/// A constructor makes them and setters change them, so that a new fact breaks no adapter. Names that are known only at run
/// time are [interned](crate::intern).
///
/// ```
/// use rpcgate_core::chain::Facts;
///
/// // Blocks come every four seconds and are final at once.
/// static FACTS: Facts = Facts::rest("algo", "Algorand").with_aliases(&["algorand"]).with_max_lag(8);
/// assert!(FACTS.rest && !FACTS.batch);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Facts {
    /// The path name.
    pub name: ChainName,
    /// The name in prose.
    pub title: &'static str,
    /// Other names that are accepted in the scope of a key; never in a path.
    pub aliases: &'static [&'static str],
    /// The shape of answers.
    pub dialect: Dialect,
    /// Whether the chain is served over HTTP.
    pub https: bool,
    /// Whether calls have paths below the chain's own.
    pub rest: bool,
    /// Whether a JSON array of calls may be posted.
    pub batch: bool,
    /// Whether the chain has a WebSocket stream at `/ws/<path>`. A handshake for a chain without one is refused like one for
    /// a chain that does not exist.
    pub ws: bool,
    /// The proto packages whose gRPC calls are the chain's, each with the packages below it; none: the chain has no gRPC
    /// service.
    pub grpc: &'static [&'static str],
    /// The number of blocks on top of a block that make its data final for the cache. 0: final at once.
    pub final_depth: u64,
    /// The number of blocks that a node may be behind the others: about half a minute of blocks, and at least two.
    pub max_lag: u64,
    /// The usual time between two blocks. A height that grows much faster is not believed at once.
    pub block_time: Duration,
}

impl Facts {
    /// A chain at `/<path>` whose nodes accept JSON-RPC 2.0, alone and in batches, by `POST`. Its blocks are final at once,
    /// and a node may be 2 blocks behind.
    pub const fn json_rpc(path: &'static str, title: &'static str) -> Self {
        Facts {
            name: ChainName::new(path),
            title,
            aliases: &[],
            dialect: Dialect::JsonRpc2,
            https: true,
            rest: false,
            batch: true,
            ws: false,
            grpc: &[],
            final_depth: 0,
            max_lag: 2,
            block_time: Duration::from_secs(1),
        }
    }

    /// A chain at `/<path>` whose calls are paths, without an envelope. Its blocks are final at once, and a node may be
    /// 2 blocks behind.
    pub const fn rest(path: &'static str, title: &'static str) -> Self {
        Facts { dialect: Dialect::Rest, rest: true, batch: false, ..Facts::json_rpc(path, title) }
    }

    /// Whether single reads of several clients may be sent to a node as one array. Where the HTTP status is part of an
    /// answer, or a call has no id, the answer to an array does not say the same as the answers to its calls.
    pub const fn joins_reads(&self) -> bool {
        self.batch && !self.dialect.has_status() && self.dialect.version().is_some()
    }

    /// The transports by which the chain can be served.
    pub const fn transports(&self) -> Transports {
        let mut all = Transports::NONE;
        if self.https {
            all = all.with(Transport::Http);
        }
        if self.ws {
            all = all.with(Transport::Ws);
        }
        if !self.grpc.is_empty() {
            all = all.with(Transport::Grpc);
        }
        all
    }

    /// The same with other names that keys may be scoped to.
    #[must_use]
    pub const fn with_aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// The same with answers in another form.
    #[must_use]
    pub const fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// The same, served over HTTP or not.
    #[must_use]
    pub const fn with_https(mut self, https: bool) -> Self {
        self.https = https;
        self
    }

    /// The same, with batches or without.
    #[must_use]
    pub const fn with_batch(mut self, batch: bool) -> Self {
        self.batch = batch;
        self
    }

    /// The same, with a WebSocket stream or without.
    #[must_use]
    pub const fn with_ws(mut self, ws: bool) -> Self {
        self.ws = ws;
        self
    }

    /// The same, with a gRPC service in these proto packages and the packages below them. No two chains may share one.
    #[must_use]
    pub const fn with_grpc(mut self, packages: &'static [&'static str]) -> Self {
        self.grpc = packages;
        self
    }

    /// The same with another number of blocks that make a block final. 0: final at once.
    #[must_use]
    pub const fn with_final_depth(mut self, final_depth: u64) -> Self {
        self.final_depth = final_depth;
        self
    }

    /// The same with another number of blocks that a node may be behind the others.
    #[must_use]
    pub const fn with_max_lag(mut self, max_lag: u64) -> Self {
        self.max_lag = max_lag;
        self
    }

    /// The same with another usual time between two blocks.
    #[must_use]
    pub const fn with_block_time(mut self, block_time: Duration) -> Self {
        self.block_time = block_time;
        self
    }
}
