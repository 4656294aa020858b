//! Nodes given with `--node`: real ones that replace simulated ones, or parts of them.

use rpcgate_config::{ANY_NETWORK, Config, ConfigErrors, Input, NodeSettings, Setting, Url};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// The whole node, reached over HTTP: `--node CHAIN=URL`.
    Whole,
    /// Its WebSocket: `--node CHAIN.ws=URL`.
    Ws,
    /// Its gRPC: `--node CHAIN.grpc=URL`.
    Grpc,
}

impl Part {
    fn schemes(self) -> &'static [&'static str] {
        match self {
            Part::Whole => &["http", "https"],
            Part::Ws => &["ws", "wss"],
            Part::Grpc => &["grpc", "grpcs", "http", "https"],
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct ChosenNode {
    chain: String,
    part: Part,
    url: String,
}

impl fmt::Debug for ChosenNode {
    /// The URL is left out, because it may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.chain, self.part)
    }
}

/// An error in a `--node`. The text never repeats the URL, which may contain a password.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadNode {
    /// No chain has this name.
    #[error("--node {0}: there is no such chain; known are {known}", known = names())]
    Chain(String),
    /// The part is neither `ws` nor `grpc`.
    #[error("--node {chain}.{part}: a node has no such part; known are ws and grpc")]
    Part {
        /// The chain.
        chain: String,
        /// The name of the part.
        part: String,
    },
    /// The URL is missing.
    #[error("--node {0}: write CHAIN=URL, as in eth=http://127.0.0.1:8545")]
    Missing(String),
    /// The URL cannot be used.
    #[error("--node {chain}: the URL {why}")]
    Url {
        /// The chain.
        chain: String,
        /// The rest of the sentence.
        why: String,
    },
}

fn names() -> String {
    let names: Vec<_> = rpcgate_chains::catalog().map(|adapter| adapter.facts().name.as_str()).collect();
    names.join(", ")
}

impl ChosenNode {
    /// Checks an option of the command line: chain, part (`url`, `ws` or `grpc`) and URL.
    pub(super) fn new((chain, part, url): &(String, String, String)) -> Result<Self, BadNode> {
        if rpcgate_chains::by_path(chain).is_none() {
            return Err(BadNode::Chain(chain.clone()));
        }
        let part = match part.as_str() {
            "url" => Part::Whole,
            "ws" => Part::Ws,
            "grpc" => Part::Grpc,
            other => return Err(BadNode::Part { chain: chain.clone(), part: other.to_owned() }),
        };
        if url.is_empty() {
            return Err(BadNode::Missing(chain.clone()));
        }
        Url::parse(url, part.schemes()).map_err(|why| BadNode::Url { chain: chain.clone(), why })?;
        Ok(ChosenNode { chain: chain.clone(), part, url: url.clone() })
    }
}

pub(super) fn is_replaced(chosen: &[ChosenNode], chain: &str) -> bool {
    chosen.iter().any(|node| node.chain == chain && node.part == Part::Whole)
}

/// Returns the settings that replace whole nodes by the given ones. Several for one chain form its pool. They may
/// belong to any network, because a demo may show a test node.
pub(super) fn flags(chosen: &[ChosenNode]) -> Vec<Setting> {
    let mut urls: BTreeMap<&str, Vec<&ChosenNode>> = BTreeMap::new();
    for node in chosen {
        urls.entry(&node.chain).or_default().push(node);
    }
    urls.retain(|chain, _| is_replaced(chosen, chain));
    let any =
        |chain: &str| Setting::new(format!("--node {chain}"), format!("chains.{chain}.network"), ANY_NETWORK);
    urls.into_iter().flat_map(|(chain, nodes)| [setting(chain, &nodes), any(chain)]).collect()
}

fn setting(chain: &str, nodes: &[&ChosenNode]) -> Setting {
    let urls: Vec<_> = nodes.iter().map(|node| written(node)).collect();
    Setting::new(format!("--node {chain}"), format!("chains.{chain}.nodes"), urls.join(","))
}

/// Returns the URL as a list element: without commas, which separate elements, and with a scheme for the part.
fn written(node: &ChosenNode) -> String {
    let url = node.url.replace(',', "%2C");
    match (node.part, url.split_once("://")) {
        (Part::Grpc, Some(("http", rest))) => format!("grpc://{rest}"),
        (Part::Grpc, Some(("https", rest))) => format!("grpcs://{rest}"),
        _ => url,
    }
}

/// Replaces single parts of the nodes in `config`, on chains whose nodes were not replaced as a whole.
pub(super) fn replace_parts(chosen: &[ChosenNode], config: &mut Config) -> Result<(), ConfigErrors> {
    for (name, chain) in &mut config.chains {
        let of_chain: Vec<_> = chosen.iter().filter(|node| node.chain == *name).collect();
        if of_chain.is_empty() || is_replaced(chosen, name) {
            continue;
        }
        // The configuration parses them, so that user and password end up in its own fields.
        let flags = [setting(name, &of_chain)];
        let read = Config::read(&Input { chains: &[name], flags: &flags, ..Input::default() })?;
        for node in &mut chain.nodes {
            of_chain.iter().for_each(|chosen| clear(node, chosen.part));
        }
        chain.nodes.retain(|node| node.url.is_some() || node.ws.is_some() || node.grpc.is_some());
        chain.nodes.extend(read.chains.into_values().flat_map(|chain| chain.nodes));
    }
    Ok(())
}

fn clear(node: &mut NodeSettings, part: Part) {
    match part {
        Part::Whole => node.url = None,
        Part::Ws => node.ws = None,
        Part::Grpc => node.grpc = None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(text: &str) -> Result<ChosenNode, BadNode> {
        let (name, url) = text.split_once('=').unwrap_or((text, ""));
        let (chain, part) = name.split_once('.').unwrap_or((name, "url"));
        ChosenNode::new(&(chain.into(), part.into(), url.into()))
    }

    fn chosen(texts: &[&str]) -> Vec<ChosenNode> {
        texts.iter().map(|text| choose(text).unwrap()).collect()
    }

    fn read(base: &[Setting], chosen: &[ChosenNode]) -> Config {
        let names: Vec<_> = rpcgate_chains::catalog().map(|adapter| adapter.facts().name.as_str()).collect();
        let flags = flags(chosen);
        let input = Input { chains: &names, base, flags: &flags, ..Input::default() };
        let mut config = Config::read(&input).unwrap();
        replace_parts(chosen, &mut config).unwrap();
        config
    }

    fn nodes(config: &Config, chain: &str) -> Vec<String> {
        let show = |node: &NodeSettings| {
            let urls = [&node.url, &node.ws, &node.grpc].map(|url| url.as_ref().map(ToString::to_string));
            format!(
                "{} {}",
                urls.into_iter().flatten().collect::<Vec<_>>().join(" "),
                node.user.as_deref().unwrap_or("-")
            )
        };
        config.chains[chain].nodes.iter().map(show).collect()
    }

    fn simulated() -> Vec<Setting> {
        ["eth", "btc"]
            .map(|chain| Setting::new("demo", format!("chains.{chain}.nodes"), format!("http://{chain}:1")))
            .into()
    }

    #[test]
    fn chosen_nodes_replace_the_simulated_one_and_make_a_pool() {
        let config = read(&simulated(), &chosen(&["eth=http://a:1", "eth=https://b/x?y=z"]));
        assert_eq!(nodes(&config, "eth"), ["http://a:1 -", "https://b/x?y=*** -"]);
        assert_eq!(nodes(&config, "btc"), ["http://btc:1 -"]);
        let network = |chain: &str| config.chains[chain].network.as_deref();
        assert_eq!((network("eth"), network("btc")), (Some("any"), None));
    }

    #[test]
    fn a_login_becomes_user_and_password() {
        let config = read(&simulated(), &chosen(&["btc=http://u:p%40,q@127.0.0.1:19443"]));
        let node = &config.chains["btc"].nodes[0];
        assert_eq!(nodes(&config, "btc"), ["http://127.0.0.1:19443 u"]);
        assert_eq!(node.password.as_ref().map(rpcgate_config::Secret::expose), Some("p@,q"));
    }

    #[test]
    fn a_part_alone_leaves_the_rest_of_the_node() {
        let config = read(&simulated(), &chosen(&["eth.ws=ws://a:2", "eth.grpc=https://u@a:3"]));
        assert_eq!(nodes(&config, "eth"), ["http://eth:1 -", "ws://a:2 -", "grpcs://a:3 u"]);
        let config = read(&simulated(), &chosen(&["eth.ws=ws://a:2", "eth=http://a:1"]));
        assert_eq!(nodes(&config, "eth"), ["ws://a:2 -", "http://a:1 -"]);
    }

    #[test]
    fn errors_do_not_contain_the_url() {
        for (text, why) in [
            ("eht=http://h", "--node eht: there is no such chain; known are eth, bsc, "),
            ("=http://h", "--node : there is no such chain"),
            ("eth.http=http://h", "--node eth.http: a node has no such part; known are ws and grpc"),
            ("eth=", "--node eth: write CHAIN=URL, as in eth=http://127.0.0.1:8545"),
            ("eth", "--node eth: write CHAIN=URL, as in eth=http://127.0.0.1:8545"),
            ("eth=ws://h", "--node eth: the URL must begin with one of http://, https://"),
            ("eth.ws=http://h", "--node eth: the URL must begin with one of ws://, wss://"),
            ("eth=http://", "--node eth: the URL must name a host"),
            ("eth=http://u:secret@h:99999", "--node eth: the URL has a port that is not between 1 and 65535"),
        ] {
            let error = choose(text).unwrap_err().to_string();
            assert!(error.starts_with(why) && !error.contains("secret"), "{text}: {error}");
        }
        let debug = format!("{:?}", chosen(&["eth=http://u:secret@h"]));
        assert!(!debug.contains("secret"), "{debug}");
    }
}
