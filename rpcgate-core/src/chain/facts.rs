//! The constants of a chain.

use super::dialect::Dialect;
use super::name::ChainName;
use crate::transport::{Transport, Transports};
use std::time::Duration;

/// The constants of a chain.
///
/// Built by a constructor and setters, so that a new fact breaks no adapter. Run-time names are
/// [interned](crate::intern).
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
    /// Other names that the scope of a key accepts. Never valid in a path.
    pub aliases: &'static [&'static str],
    /// The shape of answers.
    pub dialect: Dialect,
    /// True if the chain is served over HTTP.
    pub https: bool,
    /// True if calls have paths below the chain's own.
    pub rest: bool,
    /// True if clients may post a JSON array of calls.
    pub batch: bool,
    /// True if the chain has a WebSocket stream at `/ws/<path>`. Otherwise a handshake is refused as for no chain.
    pub ws: bool,
    /// The proto packages of its gRPC calls, each including the packages below it. Empty without a gRPC service.
    pub grpc: &'static [&'static str],
    /// The number of blocks on top of a block that make it final for the cache. 0: final at once.
    pub final_depth: u64,
    /// The number of blocks that a node may be behind the others: about half a minute of blocks, and at least 2.
    pub max_lag: u64,
    /// The usual time between two blocks. A height that grows much faster is not trusted at once.
    pub block_time: Duration,
}

impl Facts {
    /// Creates a JSON-RPC 2.0 chain at `/<path>` with batches. Blocks are final at once, and a node may be 2 blocks
    /// behind.
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

    /// Creates a chain at `/<path>` whose calls are paths. Blocks are final at once, and a node may be 2 blocks behind.
    pub const fn rest(path: &'static str, title: &'static str) -> Self {
        Facts { dialect: Dialect::Rest, rest: true, batch: false, ..Facts::json_rpc(path, title) }
    }

    /// Reports whether reads of several clients may be joined into one array. Without ids, or with the HTTP status as
    /// part of answers, the answer to an array says less than those to its calls.
    pub const fn joins_reads(&self) -> bool {
        self.batch && !self.dialect.has_status() && self.dialect.version().is_some()
    }

    /// Returns the transports that the chain supports.
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

    /// Sets other names for the scope of a key.
    #[must_use]
    pub const fn with_aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Sets the form of answers.
    #[must_use]
    pub const fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets whether the chain is served over HTTP.
    #[must_use]
    pub const fn with_https(mut self, https: bool) -> Self {
        self.https = https;
        self
    }

    /// Sets whether the chain accepts batches.
    #[must_use]
    pub const fn with_batch(mut self, batch: bool) -> Self {
        self.batch = batch;
        self
    }

    /// Sets whether the chain has a WebSocket stream.
    #[must_use]
    pub const fn with_ws(mut self, ws: bool) -> Self {
        self.ws = ws;
        self
    }

    /// Sets the proto packages of the gRPC service, including the packages below them. No two chains may share one.
    #[must_use]
    pub const fn with_grpc(mut self, packages: &'static [&'static str]) -> Self {
        self.grpc = packages;
        self
    }

    /// Sets the number of blocks that make a block final. 0: final at once.
    #[must_use]
    pub const fn with_final_depth(mut self, final_depth: u64) -> Self {
        self.final_depth = final_depth;
        self
    }

    /// Sets the number of blocks that a node may be behind the others.
    #[must_use]
    pub const fn with_max_lag(mut self, max_lag: u64) -> Self {
        self.max_lag = max_lag;
        self
    }

    /// Sets the usual time between two blocks.
    #[must_use]
    pub const fn with_block_time(mut self, block_time: Duration) -> Self {
        self.block_time = block_time;
        self
    }
}
