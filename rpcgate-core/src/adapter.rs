//! What a gateway must know of a chain's node API. One implementation a chain, in a file of its own.

use crate::call::CallView;
use crate::chain::{Chain, Facts, Method, Rule};
use std::fmt::Debug;

/// A chain's node API, as far as the road depends on it.
///
/// An adapter is a table first: [`facts`](Adapter::facts) and [`methods`](Adapter::methods). The functions below
/// answer what no table can.
pub trait Adapter: Send + Sync + Debug + 'static {
    /// What is fixed about the chain.
    fn facts(&self) -> &'static Facts;

    /// The methods with a weight, a class or a mark of their own.
    fn methods(&self) -> Vec<Method>;

    /// What holds for a method that is not among [`methods`](Adapter::methods): by default 1 Compute Unit, not cached.
    /// Families of methods (`debug_*`) get their marks here.
    fn unlisted(&self, method: &str) -> Rule {
        let _ = method;
        Rule::UNLISTED
    }

    /// What the raw `result` of a call in a cache class says of its own permanence. Asked once, when an answer is
    /// about to be kept, and allowed to look into the result by a partial parse.
    fn settled(&self, call: CallView<'_>, result: &[u8], chain: &Chain) -> Settled;

    /// The call that asks a node for its newest height.
    fn probe(&self) -> Probe;

    /// The height in the raw `result` of the [`probe`](Adapter::probe).
    fn height(&self, result: &[u8]) -> Option<u64>;
}

/// How permanent a result is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// It will never change.
    Yes,
    /// A reorganisation, or time, may still change it.
    NotYet,
    /// It says that something is not known yet: never kept.
    Unknown,
}

/// A JSON-RPC call the gateway makes on its own behalf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Its method.
    pub method: &'static str,
    /// Its parameters, as JSON.
    pub params: &'static str,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cache_rule::CacheRule;
    use crate::chain::{ChainName, Dialect, Flags};

    /// A made-up chain with a method of every kind.
    #[derive(Debug)]
    pub(crate) struct Toy;

    impl Adapter for Toy {
        fn facts(&self) -> &'static Facts {
            static FACTS: Facts = Facts {
                name: ChainName::new("toy"),
                title: "Toy",
                aliases: &["playground"],
                dialect: Dialect::JsonRpc2,
                batch: true,
                ws: false,
                grpc: false,
                final_depth: 2,
            };
            &FACTS
        }

        fn methods(&self) -> Vec<Method> {
            vec![
                Method::new("toy_id", 0).cached(CacheRule::Static),
                Method::new("toy_read", 5).cached(CacheRule::secs(2)),
                Method::new("toy_block", 10).cached(CacheRule::immutable(2)),
                Method::new("toy_scan", 75).marked(Flags::HEAVY),
                Method::new("toy_send", 20).marked(Flags::BROADCAST),
            ]
        }

        fn unlisted(&self, method: &str) -> Rule {
            let flags = match method.split_once('_') {
                Some(("probe", _)) => Flags::HEAVY.and(Flags::OPENABLE),
                Some(("admin", _)) => Flags::CLOSED,
                _ => Flags::NONE,
            };
            Rule { flags, ..Rule::UNLISTED }
        }

        fn settled(&self, _: CallView<'_>, result: &[u8], _: &Chain) -> Settled {
            if result == b"null" { Settled::Unknown } else { Settled::Yes }
        }

        fn probe(&self) -> Probe {
            Probe { method: "toy_height", params: "[]" }
        }

        fn height(&self, result: &[u8]) -> Option<u64> {
            std::str::from_utf8(result).ok()?.parse().ok()
        }
    }
}
