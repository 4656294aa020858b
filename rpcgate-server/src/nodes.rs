//! From the nodes of a configuration to a chain's pool.

use rpcgate_admin::store::NodeState;
use rpcgate_core::chain::{Chain, Facts};
use rpcgate_core::clock::Clock;
use rpcgate_core::config;
use rpcgate_layers::upstream::{NodeConfig, NodeHealth, NodeUrl, NodeView, Pool, PoolLimits};
use std::fmt::Write;
use std::sync::Arc;

/// The pool of a chain with these facts; `None` if it is off or has no node that takes HTTP. The error is the end of a sentence.
pub(crate) fn pool(
    facts: &Facts,
    config: &config::ChainSettings,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<Pool>>, String> {
    if !config.enabled {
        return Ok(None);
    }
    let nodes =
        config.nodes.iter().filter(|node| node.url.is_some()).map(node).collect::<Result<Vec<_>, _>>()?;
    let limits = PoolLimits {
        timeout: config.timeout,
        in_flight: config.max_in_flight as usize,
        max_lag: config.max_lag,
        ..PoolLimits::default()
    };
    Ok((!nodes.is_empty()).then(|| Pool::new(facts, nodes, limits, clock.clone())))
}

/// How the nodes of `pool` stand, held against the head of their chain.
pub(crate) fn states(pool: &Pool, chain: Option<&Chain>) -> Vec<NodeState> {
    let head = chain.and_then(|chain| chain.head().height());
    let state = |view: NodeView<'_>| NodeState {
        chain: pool.chain().as_str().to_owned(),
        node: view.name.to_string(),
        priority: view.priority,
        standing: view.standing.name().to_owned(),
        reason: reason(view.standing, pool.max_lag()),
        height: view.height,
        lag: head.zip(view.height).map(|(head, height)| head.saturating_sub(height)),
        latency_micros: view.latency.as_micros() as u64,
        in_flight: view.in_flight as u64,
    };
    pool.nodes().map(state).collect()
}

/// Why a node stands as it does, for people.
fn reason(standing: NodeHealth, max_lag: u64) -> String {
    let secs = |left: std::time::Duration| left.as_secs_f64().ceil();
    match standing {
        NodeHealth::Well => "answers".into(),
        NodeHealth::Syncing => "says that it has not caught up, or has no block yet".into(),
        NodeHealth::Behind { blocks } => format!("{blocks} blocks behind; {max_lag} are allowed"),
        NodeHealth::Silent => "did not answer its last probes".into(),
        NodeHealth::Ejected { left } => {
            format!("its last answers were none, or it asked for a pause: asked again in {} s", secs(left))
        }
        NodeHealth::Unreachable { left } => format!("no connection: tried again in {} s", secs(left)),
    }
}

/// Whether two configurations of a chain make the same pool, so that the one at work may stay.
pub(crate) fn is_same_pool(a: &config::ChainSettings, b: &config::ChainSettings) -> bool {
    let bounds =
        |chain: &config::ChainSettings| (chain.enabled, chain.timeout, chain.max_in_flight, chain.max_lag);
    a.nodes == b.nodes && bounds(a) == bounds(b)
}

fn node(node: &config::NodeSettings) -> Result<NodeConfig, String> {
    let url = node.url.as_ref().map_or("", config::Url::expose);
    let url = match (&node.user, url.split_once("://")) {
        (Some(user), Some((scheme, rest))) => {
            let password = node.password.as_ref().map_or("", config::Secret::expose);
            format!("{scheme}://{}:{}@{rest}", escaped(user), escaped(password))
        }
        _ => url.to_owned(),
    };
    let url: NodeUrl = url.parse().map_err(|error| format!("url: {error}"))?;
    let mut made = NodeConfig::new(url);
    for (name, value) in &node.headers {
        let pair = name.parse().ok().zip(value.expose().parse().ok());
        made.headers.push(pair.ok_or_else(|| format!("headers: {name:?} is not allowed by HTTP"))?);
    }
    for (_, value) in &mut made.headers {
        value.set_sensitive(true);
    }
    made.max_batch = Some(node.max_batch as usize);
    made.priority = node.priority;
    Ok(made)
}

/// Every byte but letters and digits percent-escaped, so that it is read back as it was wherever it stands in a URL.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(byte.into());
        } else {
            // Writing to a text does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::clock::SystemClock;
    use rpcgate_core::config::{Config, Input};

    fn chain(text: &str) -> config::ChainSettings {
        let input = Input { chains: &["eth"], file: Some(("f", text)), ..Input::default() };
        Config::read(&input).unwrap().chains.remove("eth").unwrap()
    }

    fn made(text: &str) -> Result<Option<Arc<Pool>>, String> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        pool(rpcgate_chains::eth::adapter().facts(), &chain(text), &clock)
    }

    #[test]
    fn a_chain_without_an_http_node_or_switched_off_has_no_pool() {
        for text in [
            "",
            "[chains.eth]\nnodes = [\"ws://h/\"]\n",
            "[chains.eth]\nenabled = false\nnodes = [\"http://h/\"]\n",
        ] {
            assert!(made(text).unwrap().is_none(), "{text}");
        }
    }

    #[test]
    fn nodes_keep_their_login_batch_and_order() {
        let text = "[[chains.eth.nodes]]\nurl = \"http://a/\"\nuser = \"r/c\"\npassword = \"p@:ss\"\nmax_batch = 5\n\
                    [[chains.eth.nodes]]\nurl = \"https://b:8545/x\"\n";
        let pool = made(text).unwrap().unwrap();
        let shown: Vec<_> = pool.nodes().map(|node| (node.name.to_string(), node.max_batch)).collect();
        assert_eq!(shown.len(), 2);
        assert!(shown[0].0.ends_with(":***@a") && shown[0].1 == Some(5), "{shown:?}");
        assert_eq!(shown[1], ("https://b:8545/x".to_owned(), Some(100)));
    }

    #[test]
    fn a_pool_stays_unless_its_nodes_or_bounds_change() {
        let base = chain("[chains.eth]\nnodes = [\"http://h/\"]\n");
        assert!(is_same_pool(
            &base,
            &chain("[chains.eth]\nnodes = [\"http://h/\"]\ncu = { eth_call = 1 }\n")
        ));
        for other in [
            "[chains.eth]\nnodes = [\"http://h/\"]\ntimeout = \"1s\"\n",
            "[chains.eth]\nnodes = [\"http://i/\"]\n",
            "[chains.eth]\nnodes = [\"http://h/\"]\nmax_lag = 9\n",
            "[[chains.eth.nodes]]\nurl = \"http://h/\"\npriority = 1\n",
            "[chains.eth]\nnodes = [\"http://h/\"]\nenabled = false\n",
        ] {
            assert!(!is_same_pool(&base, &chain(other)), "{other}");
        }
    }
}
