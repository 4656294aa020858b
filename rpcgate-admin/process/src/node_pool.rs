//! Builds a chain's pool from the nodes of a configuration, for every program that calls nodes.

use rpcgate_config::{
    ANY_NETWORK, BatchingSettings, ChainSettings, HedgeSettings, NodeSettings, Secret, Url,
};
use rpcgate_core::chain::Facts;
use rpcgate_core::clock::Clock;
use rpcgate_core::tally::Transport;
use rpcgate_layers::nodes::{
    BatchingPolicy, ExpectedNetwork, HedgePolicy, NodeConfig, NodeDrains, NodeSpendings, NodeUrl, Pool,
    PoolLimits, RetryPolicy,
};
use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Builds the pool of a chain with these facts; `None` if the chain is off or has no node. Its nodes use the drains in
/// `drains`, and their calls are counted in `spendings`.
///
/// # Errors
/// The end of a sentence: the reason why an address, a header or the file of authorities of a node cannot be used.
pub fn node_pool(
    facts: &Facts,
    config: &ChainSettings,
    clock: &Arc<dyn Clock>,
    drains: &NodeDrains,
    spendings: &NodeSpendings,
) -> Result<Option<Arc<Pool>>, String> {
    if !config.enabled {
        return Ok(None);
    }
    let nodes = config.nodes.iter().filter_map(|settings| node(config, settings).transpose());
    let mut seen: HashMap<String, u32> = HashMap::new();
    let known = |node: Result<NodeConfig, String>| {
        node.map(|node| {
            let name = node.name().to_string();
            let drain = drains.of(facts.name, &name);
            // Nodes that differ only in a secret are separate accounts at a provider.
            let number = seen.entry(name.clone()).and_modify(|number| *number += 1).or_insert(1);
            let counted = if *number == 1 { name } else { format!("{name} #{number}") };
            let node = node.with_drain(drain);
            if node.allowance.is_none() {
                return node;
            }
            let allowance = node.allowance;
            let spending = spendings.of(facts.name, &counted);
            node.with_allowance(allowance, spending)
        })
    };
    let nodes = nodes.map(known).collect::<Result<Vec<_>, _>>()?;
    let next_node_after = (!config.next_node_after.is_zero()).then_some(config.next_node_after);
    let retry = RetryPolicy::default().with_deadline(config.timeout).with_next_node_after(next_node_after);
    let limits = PoolLimits::default()
        .with_retry(retry)
        .with_in_flight(config.max_in_flight as usize)
        .with_max_lag(config.max_lag)
        .with_broadcast_nodes(config.broadcast_nodes as usize)
        .with_batching(batching(&config.batching))
        .with_hedge(hedge(&config.hedge));
    Ok((!nodes.is_empty()).then(|| Pool::new(facts, nodes, limits, clock.clone())))
}

/// Reports whether two configurations of a chain make the same pool, so that the current one can stay.
pub fn is_same_pool(a: &ChainSettings, b: &ChainSettings) -> bool {
    let bounds = |chain: &ChainSettings| (chain.enabled, chain.timeout, chain.max_in_flight, chain.max_lag);
    a.nodes == b.nodes
        && (&a.network, &a.ca_file) == (&b.network, &b.ca_file)
        && (&a.batching, &a.hedge) == (&b.batching, &b.hedge)
        && (a.broadcast_nodes, a.next_node_after) == (b.broadcast_nodes, b.next_node_after)
        && bounds(a) == bounds(b)
}

/// Reports whether a node of `old` is missing in `new`, or has a new address, login or network there. Its earlier
/// answers may come from a different network.
pub fn has_lost_node(old: &ChainSettings, new: &ChainSettings) -> bool {
    type Identity<'s> = (
        [Option<&'s Url>; 3],
        (Option<&'s str>, Option<&'s Secret>),
        &'s BTreeMap<String, Secret>,
        Option<&'s str>,
    );
    fn identity<'s>(chain: &'s ChainSettings, node: &'s NodeSettings) -> Identity<'s> {
        let addresses = [node.url.as_ref(), node.ws.as_ref(), node.grpc.as_ref()];
        let login = (node.user.as_deref(), node.password.as_ref());
        (addresses, login, &node.headers, chain.network_of(node))
    }
    let is_unchanged = |node: &NodeSettings| {
        new.enabled && new.nodes.iter().any(|other| identity(new, other) == identity(old, node))
    };
    old.enabled && !old.nodes.iter().all(is_unchanged)
}

/// The contents of the authority files of a chain's nodes; `None` for a file that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeAuthorities(BTreeMap<PathBuf, Option<Vec<u8>>>);

impl NodeAuthorities {
    /// Reads the files.
    pub fn read(config: &ChainSettings) -> Self {
        let files = config.nodes.iter().filter_map(|node| config.ca_file_of(node));
        NodeAuthorities(files.map(|file| (file.to_owned(), std::fs::read(file).ok())).collect())
    }
}

fn batching(settings: &BatchingSettings) -> Option<BatchingPolicy> {
    settings.enabled.then(|| {
        BatchingPolicy::default()
            .with_wait(settings.wait)
            .with_max_calls(settings.max_calls as usize)
            .with_timeout(settings.timeout)
    })
}

fn hedge(settings: &HedgeSettings) -> Option<HedgePolicy> {
    settings.enabled.then(|| {
        HedgePolicy::default()
            .with_percentile(settings.percentile)
            .with_at_least(settings.at_least)
            .with_max_percent(settings.max_percent)
    })
}

fn node(chain: &ChainSettings, settings: &NodeSettings) -> Result<Option<NodeConfig>, String> {
    let mut node = None;
    for (key, url, transport) in [
        ("url", &settings.url, Transport::Http),
        ("ws", &settings.ws, Transport::Ws),
        ("grpc", &settings.grpc, Transport::Grpc),
    ] {
        let Some(url) = url else { continue };
        let address = address(settings, key, url, transport)?;
        node = Some(match node {
            Some(node) => NodeConfig::with_address(node, address),
            None => NodeConfig::new(address),
        });
    }
    let Some(mut node) = node else { return Ok(None) };
    for (name, value) in &settings.headers {
        let pair = name.parse().ok().zip(value.expose().parse().ok());
        node.headers.push(pair.ok_or_else(|| format!("headers: {name:?} is not allowed by HTTP"))?);
    }
    for (_, value) in &mut node.headers {
        value.set_sensitive(true);
    }
    node.network = match chain.network_of(settings) {
        None => ExpectedNetwork::OfChain,
        Some(ANY_NETWORK) => ExpectedNetwork::Any,
        Some(name) => ExpectedNetwork::Named(name.to_owned()),
    };
    if let Some(file) = chain.ca_file_of(settings) {
        let wrong = |why: &dyn fmt::Display| format!("ca_file: {}: {why}", file.display());
        let pem = std::fs::read(file).map_err(|error| wrong(&error))?;
        node = node.trusting(&pem).map_err(|error| wrong(&error))?;
    }
    node.max_batch = Some(settings.max_batch as usize);
    node.priority = settings.priority;
    node.allowance = settings.allowance();
    Ok(Some(node.with_methods(settings.taken()).with_archive(settings.archive)))
}

/// Returns an address of a node, the value of `key`, with the node's user and password.
fn address(settings: &NodeSettings, key: &str, url: &Url, transport: Transport) -> Result<NodeUrl, String> {
    let url = url.expose();
    let url = match (&settings.user, url.split_once("://")) {
        (Some(user), Some((scheme, rest))) => {
            let password = settings.password.as_ref().map_or("", Secret::expose);
            format!("{scheme}://{}:{}@{rest}", escaped(user), escaped(password))
        }
        _ => url.to_owned(),
    };
    NodeUrl::parse(&url, transport).map_err(|error| format!("{key}: {error}"))
}

/// Percent-escapes every byte but letters and digits, so that the text is read back unchanged from any part of a URL.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(byte.into());
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::{Config, Input};
    use rpcgate_core::clock::{ManualClock, SystemClock, Time};
    use rpcgate_core::month::CalendarMonth;
    use rpcgate_layers::nodes::NodeMonth;

    fn chain(text: &str) -> ChainSettings {
        let input = Input { chains: &["eth"], file: Some(("f", text)), ..Input::default() };
        Config::read(&input).unwrap().chains.remove("eth").unwrap()
    }

    fn made(text: &str) -> Result<Option<Arc<Pool>>, String> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        node_pool(
            rpcgate_chains::eth::adapter().facts(),
            &chain(text),
            &clock,
            &NodeDrains::default(),
            &NodeSpendings::default(),
        )
    }

    #[test]
    fn a_chain_without_a_node_or_switched_off_has_no_pool() {
        for text in ["", "[chains.eth]\nenabled = false\nnodes = [\"http://h/\"]\n"] {
            assert!(made(text).unwrap().is_none(), "{text}");
        }
    }

    #[test]
    fn a_node_without_http_is_named_by_its_first_address() {
        let text = "[chains.eth]\nnodes = [\"ws://a:1\", \"grpc://b:2\", \"http://c:3\"]\n";
        let pool = made(text).unwrap().unwrap();
        let names: Vec<_> = pool.nodes().map(|node| node.name.to_string()).collect();
        assert_eq!(names, ["ws://a:1", "grpc://b:2", "http://c:3"]);
        assert!([Transport::Http, Transport::Ws, Transport::Grpc].iter().all(|by| pool.has(*by)));
        let pool = made("[chains.eth]\nnodes = [\"wss://u:secret@a/\"]\n").unwrap().unwrap();
        assert!(pool.has(Transport::Ws) && !pool.has(Transport::Http) && !pool.has(Transport::Grpc));
        assert_eq!(pool.nodes().next().unwrap().name.to_string(), "wss://u:***@a");
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
    fn a_node_has_an_address_for_each_protocol_with_the_same_login() {
        let text = "[[chains.eth.nodes]]\nurl = \"http://a/\"\nws = \"wss://a:8546/\"\ngrpc = \"http://a:9090\"\n\
                    user = \"rpc\"\npassword = \"hunter2\"\n";
        let chain_settings = chain(text);
        let node = node(&chain_settings, &chain_settings.nodes[0]).unwrap().unwrap();
        let shown = |transport| node.address(transport).map(ToString::to_string);
        assert_eq!(shown(Transport::Http).as_deref(), Some("http://rpc:***@a"));
        assert_eq!(shown(Transport::Ws).as_deref(), Some("wss://rpc:***@a:8546"));
        assert_eq!(shown(Transport::Grpc).as_deref(), Some("http://rpc:***@a:9090"));
        assert_eq!(node.name().to_string(), "http://rpc:***@a");
    }

    #[test]
    fn the_methods_and_the_drain_state_of_a_node_come_with_it() {
        let text = "[[chains.eth.nodes]]\nurl = \"http://a/\"\nexcept = [\"trace_*\"]\narchive = true\n";
        let chain_settings = chain(text);
        let node = node(&chain_settings, &chain_settings.nodes[0]).unwrap().unwrap();
        assert!(node.is_archive && !node.methods.takes(b"trace_block", b"trace_block"));
        assert!(node.methods.takes(b"eth_call", b"eth_call"));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let drains = NodeDrains::default();
        drains.set([("eth".to_owned(), "http://a".to_owned())].into());
        let facts = rpcgate_chains::eth::adapter();
        let pool = node_pool(facts.facts(), &chain(text), &clock, &drains, &NodeSpendings::default())
            .unwrap()
            .unwrap();
        let health = |pool: &Pool| pool.nodes().next().map(|node| node.health.name());
        assert_eq!(health(&pool), Some("drained"));
        drains.set([].into());
        assert_eq!(health(&pool), Some("well"));
    }

    #[test]
    fn a_nodes_count_outlasts_its_pool_and_nodes_of_one_name_count_separately() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Time::from_secs(1_793_491_200)));
        let drains = NodeDrains::default();
        let spendings = NodeSpendings::default();
        let facts = rpcgate_chains::eth::adapter();
        let pool = |text: &str| {
            node_pool(facts.facts(), &chain(text), &clock, &drains, &spendings).unwrap().unwrap()
        };
        let two = |calls: u32| {
            let node = |user: &str| {
                format!("[[chains.eth.nodes]]\nurl = \"http://{user}:x@a/\"\nmonthly_calls = {calls}\n")
            };
            format!("{}{}[[chains.eth.nodes]]\nurl = \"http://own/\"\n", node("u"), node("u"))
        };
        let first = pool(&two(10));
        let kept = |node: &str, calls| NodeMonth {
            chain: "eth".into(),
            node: node.into(),
            month: CalendarMonth::of(clock.now()),
            calls,
        };
        let masked = first.nodes().next().unwrap().name.to_string();
        spendings.restore(&[kept(&masked, 10), kept(&format!("{masked} #2"), 3)], clock.now());
        let shown = |pool: &Pool| {
            pool.nodes().map(|node| (node.health.name(), node.spending.month_calls)).collect::<Vec<_>>()
        };
        assert_eq!(shown(&first), [("spent", 10), ("well", 3), ("well", 0)]);
        assert_eq!(shown(&pool(&two(20))), [("well", 10), ("well", 3), ("well", 0)], "with another budget");
        assert_eq!(spendings.months(clock.now()).len(), 2, "a node without an allowance is not counted");
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
            "[chains.eth]\nnodes = [\"http://h/\"]\nbroadcast_nodes = 2\n",
            "[chains.eth]\nnodes = [\"http://h/\"]\nnext_node_after = \"9s\"\n",
            "[chains.eth]\nnodes = [\"http://h/\"]\nhedge.enabled = true\n",
            "[chains.eth]\nnodes = [\"http://h/\"]\nbatching.enabled = true\n",
            "[[chains.eth.nodes]]\nurl = \"http://h/\"\npriority = 1\n",
            "[[chains.eth.nodes]]\nurl = \"http://h/\"\nmethods = [\"eth_call\"]\n",
            "[[chains.eth.nodes]]\nurl = \"http://h/\"\narchive = true\n",
            "[[chains.eth.nodes]]\nurl = \"http://h/\"\nrate_limit = 9\n",
            "[[chains.eth.nodes]]\nurl = \"http://h/\"\nmonthly_calls = 9\n",
            "[chains.eth]\nnodes = [\"http://h/\"]\nenabled = false\n",
            "[chains.eth]\nnodes = [\"http://h/\"]\nnetwork = \"any\"\n",
            "[chains.eth]\nnodes = [\"http://h/\"]\nca_file = \"a.pem\"\n",
        ] {
            assert!(!is_same_pool(&base, &chain(other)), "{other}");
        }
    }

    // Shows (Nodes and cache).
    #[test]
    fn a_node_is_lost_if_no_node_of_the_new_list_is_the_same() {
        let two = "[[chains.eth.nodes]]\nurl = \"http://a/\"\n[[chains.eth.nodes]]\nurl = \"http://b/\"\n";
        let lost = |old: &str, new: &str| has_lost_node(&chain(old), &chain(new));
        assert!(!lost(two, &format!("{two}priority = 3\n[[chains.eth.nodes]]\nurl = \"http://c/\"\n")));
        for new in [
            "[chains.eth]\nnodes = [\"http://a/\"]\n".to_owned(),
            two.replace("//b/", "//b:1/"),
            format!("{two}headers = {{ x-key = \"k\" }}\n"),
            format!("{two}network = \"any\"\n"),
            format!("{two}network = \"11155111\"\n"),
            format!("[chains.eth]\nenabled = false\n{two}"),
        ] {
            assert!(lost(two, &new), "{new}");
        }
        assert!(!lost("[chains.eth]\nenabled = false\nnodes = [\"http://a/\"]\n", "[chains.eth]\n"));
    }

    // Shows (Nodes and cache).
    #[test]
    fn authorities_are_those_of_the_node_or_else_of_its_chain_and_a_bad_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        let text = |at_node: bool| {
            let line = format!("ca_file = {file:?}\n");
            let (chain, node) = if at_node { ("", &line[..]) } else { (&line[..], "") };
            format!("[chains.eth]\n{chain}[[chains.eth.nodes]]\nurl = \"https://a/\"\n{node}")
        };
        let shown = |error: String| error.replace(&file.display().to_string(), "FILE");
        for at_node in [true, false] {
            let _ = std::fs::remove_file(&file);
            let missing = made(&text(at_node)).map_err(shown).unwrap_err();
            assert!(missing.starts_with("ca_file: FILE: No such file"), "{missing}");
            std::fs::write(&file, "no certificate").unwrap();
            let before = NodeAuthorities::read(&chain(&text(at_node)));
            let bad = made(&text(at_node)).map_err(shown).unwrap_err();
            assert_eq!(bad, "ca_file: FILE: no usable certificate of an authority in the PEM text");
            std::fs::write(&file, "another").unwrap();
            assert_ne!(NodeAuthorities::read(&chain(&text(at_node))), before, "a reload sees the new file");
        }
    }
}
