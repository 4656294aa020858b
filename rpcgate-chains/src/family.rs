//! Families of chains with the same node API. A chain of a family consists of its facts and its deviations.

mod closed;
pub mod evm;
mod node_errors;
pub mod params;
mod unserved;
pub mod utxo;

pub use closed::Closing;
pub(crate) use closed::{by_reason, listed, mark, marks, narrow};
pub(crate) use node_errors::says;
use rpcgate_core::chain::Method;
pub(crate) use unserved::UnservedErrors;

/// Merges a chain's changes into its family's table: rows of `own` replace rows of the same name or are added, and the
/// methods of `lacking` are left out.
pub(crate) fn table(family: &[Method], own: &[Method], lacking: &[&str]) -> Vec<Method> {
    let inherited = family
        .iter()
        .filter(|row| !lacking.contains(&row.name) && own.iter().all(|other| other.name != row.name));
    inherited.chain(own).copied().collect()
}

/// Reports whether a pattern equals `method` or, if it ends in `*`, is a prefix of it.
pub(crate) fn matches(pattern: &str, method: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => method.starts_with(prefix),
        None => pattern == method,
    }
}

/// Reports whether the last word of a method's name means a submission. A wrong guess is harmless: a read that counts
/// as a submission is only not retried.
pub(crate) fn submits(verb: &str) -> bool {
    ["send", "submit", "cancel"].iter().any(|word| verb.starts_with(word))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rpcgate_core::adapter::{Adapter, Permanence};
    use rpcgate_core::cache_rule::CacheDecision;
    use rpcgate_core::call::CallView;
    use rpcgate_core::chain::{Chain, Flags};
    use std::sync::Arc;

    /// Returns a chain with default settings whose newest block is `head`; 0 if it is not known yet.
    pub(crate) fn at(adapter: impl Adapter, head: u64) -> Chain {
        let chain = Chain::deployed(Arc::new(adapter));
        chain.head().set(head);
        chain
    }

    /// Returns the adapter's judgement of a result, and its treatment in the cache.
    pub(crate) fn judged(
        chain: &Chain,
        method: &str,
        params: &str,
        result: &str,
    ) -> (Permanence, CacheDecision) {
        let rule = chain.look_up(method).rule;
        let call = CallView::new(chain.name(), method, rule).with_params(params.as_bytes());
        let settled = chain.adapter().settled(call, result.as_bytes(), chain.finality());
        let keep = match settled {
            Permanence::Unknown => CacheDecision::No,
            known => rule.cache.keep(known == Permanence::Yes),
        };
        (settled, keep)
    }

    /// Returns the methods of `names` whose mark is not as expected.
    pub(crate) fn wrong<'a>(chain: &Chain, names: &[&'a str], mark: Flags, expected: bool) -> Vec<&'a str> {
        names.iter().copied().filter(|name| chain.look_up(name).rule.flags.has(mark) != expected).collect()
    }

    #[test]
    fn a_chains_rows_replace_the_familys() {
        let family = [Method::new("a", 1), Method::new("b", 1), Method::new("c", 1)];
        let own = [Method::new("b", 7), Method::new("d", 2)];
        let rows: Vec<_> = table(&family, &own, &["c"]).iter().map(|row| (row.name, row.rule.cu)).collect();
        assert_eq!(rows, [("a", 1), ("b", 7), ("d", 2)]);
    }

    #[test]
    fn a_pattern_with_a_star_is_a_beginning() {
        assert!(matches("dump*", "dumpwallet") && matches("dump*", "dump") && matches("stop", "stop"));
        assert!(!matches("dump*", "undump") && !matches("stop", "stopped") && !matches("stop", "STOP"));
    }
}
