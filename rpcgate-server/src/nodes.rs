//! From the nodes of a configuration to a chain's pool.

use rpcgate_core::chain::ChainName;
use rpcgate_core::clock::Clock;
use rpcgate_core::config;
use rpcgate_layers::upstream::{NodeConfig, NodeUrl, Pool, PoolLimits};
use std::fmt::Write;
use std::sync::Arc;

/// The pool of `chain`; `None` if it is off or has no node that takes HTTP. The error is the end of a sentence.
pub(crate) fn pool(
    chain: ChainName,
    config: &config::Chain,
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
        ..PoolLimits::default()
    };
    Ok((!nodes.is_empty()).then(|| Pool::new(chain, nodes, limits, clock.clone())))
}

/// Whether two configurations of a chain make the same pool, so that the one at work may stay.
pub(crate) fn is_same_pool(a: &config::Chain, b: &config::Chain) -> bool {
    (a.enabled, &a.nodes, a.timeout, a.max_in_flight) == (b.enabled, &b.nodes, b.timeout, b.max_in_flight)
}

fn node(node: &config::Node) -> Result<NodeConfig, String> {
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

    fn chain(text: &str) -> config::Chain {
        let input = Input { chains: &["eth"], file: Some(("f", text)), ..Input::default() };
        Config::read(&input).unwrap().chains.remove("eth").unwrap()
    }

    fn made(text: &str) -> Result<Option<Arc<Pool>>, String> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        pool(ChainName::new("eth"), &chain(text), &clock)
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
            "[chains.eth]\nnodes = [\"http://h/\"]\nenabled = false\n",
        ] {
            assert!(!is_same_pool(&base, &chain(other)), "{other}");
        }
    }
}
