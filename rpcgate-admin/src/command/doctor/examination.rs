//! The input of the checks.

use rpcgate_config::Config;
use rpcgate_core::clock::Clock;
use std::path::PathBuf;
use std::sync::Arc;

/// The input of the checks: a configuration and the clock.
#[derive(Clone, Debug)]
pub(super) struct Examination {
    pub(super) config: Arc<Config>,
    /// The files that it was read from: the configuration first, then those of its secrets.
    pub(super) files: Arc<[PathBuf]>,
    pub(super) clock: Arc<dyn Clock>,
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::finding::Finding;
    use super::*;
    use rpcgate_config::Input;
    use rpcgate_core::clock::SystemClock;

    pub(crate) fn examination(text: &str) -> Examination {
        let adapters: Vec<_> = rpcgate_chains::catalog().collect();
        let chains: Vec<_> = adapters.iter().map(|adapter| adapter.facts().name.as_str()).collect();
        let input = Input { chains: &chains, file: Some(("f", text)), ..Input::default() };
        let config = Arc::new(Config::read(&input).unwrap());
        Examination { config, files: [].into(), clock: Arc::new(SystemClock::new()) }
    }

    pub(crate) fn only(findings: &[Finding]) -> &Finding {
        assert_eq!(findings.len(), 1, "{findings:?}");
        &findings[0]
    }
}
