//! Recognises our chains in another gateway's file: by the identifier of a network, by its name, or by words in a text.

use rpcgate_core::chain::ChainName;

const BY_ID: &[(u64, &str)] = &[(1, "eth"), (56, "bsc"), (137, "polygon"), (43_114, "avax")];

/// Other names of our chains, in addition to the paths and aliases of the catalog.
const BY_NAME: &[(&str, &str)] = &[
    ("mainnet", "eth"),
    ("bnb", "bsc"),
    ("binance", "bsc"),
    ("bnb-smart-chain", "bsc"),
    ("matic", "polygon"),
    ("pol", "polygon"),
    ("avalanche-c", "avax"),
    ("dogecoin", "doge"),
    ("bitcoin-cash", "bch"),
    ("elements", "liquid"),
    ("xrpl", "xrp"),
    ("cosmoshub", "cosmos"),
    ("cosmos-hub", "cosmos"),
    ("sol", "solana"),
];

/// Common EVM networks that are not served, for the notes.
const ELSEWHERE: &[(u64, &str)] = &[
    (10, "Optimism"),
    (100, "Gnosis"),
    (250, "Fantom"),
    (324, "zkSync Era"),
    (1_101, "Polygon zkEVM"),
    (8_453, "Base"),
    (17_000, "Holesky"),
    (42_161, "Arbitrum One"),
    (42_220, "Celo"),
    (43_113, "Avalanche Fuji"),
    (59_144, "Linea"),
    (80_002, "Polygon Amoy"),
    (560_048, "Hoodi"),
    (534_352, "Scroll"),
    (11_155_111, "Sepolia"),
];

/// Words that name a test network, or a network other than a chain's main one.
const NOT_MAIN: &[&str] = &[
    "amoy", "arbitrum", "base", "classic", "devnet", "fuji", "goerli", "holesky", "hoodi", "kovan", "mumbai",
    "optimism", "rinkeby", "ropsten", "sepolia", "signet", "testnet", "zkevm",
];

pub(super) fn by_id(id: u64) -> Option<ChainName> {
    BY_ID.iter().find(|(known, _)| *known == id).and_then(|(_, path)| rpcgate_chains::scoped(path))
}

pub(super) fn unserved(id: u64) -> String {
    let name = ELSEWHERE.iter().find(|(known, _)| *known == id);
    name.map_or_else(|| format!("network {id}"), |(_, name)| format!("network {id} ({name})"))
}

/// Returns the chain that `name` as a whole names.
pub(super) fn by_name(name: &str) -> Option<ChainName> {
    let name = name.trim().to_lowercase().replace(['_', ' '], "-");
    let main = name.strip_suffix("-mainnet").unwrap_or(&name);
    if main.split('-').any(|word| NOT_MAIN.contains(&word)) {
        return None;
    }
    rpcgate_chains::scoped(main).or_else(|| {
        let (_, path) = BY_NAME.iter().find(|(known, _)| *known == main)?;
        rpcgate_chains::scoped(path)
    })
}

/// Returns the only chain that the words of `text` name; `None` if they name a test network or several chains.
pub(super) fn by_words(text: &str) -> Option<ChainName> {
    if let Some(chain) = by_name(text.trim_matches('/')) {
        return Some(chain);
    }
    let text = text.to_lowercase();
    let words: Vec<&str> =
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    if words.iter().any(|word| NOT_MAIN.contains(word)) {
        return None;
    }
    // `mainnet` means little next to the name of a chain, and much without one.
    let (main, named): (Vec<&str>, Vec<&str>) = words.into_iter().partition(|word| *word == "mainnet");
    let mut found = named.iter().filter_map(|word| by_name(word));
    let first = found.next().or_else(|| main.first().and_then(|word| by_name(word)))?;
    found.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(found: Option<ChainName>) -> Option<&'static str> {
        found.map(ChainName::as_str)
    }

    #[test]
    fn every_name_in_the_tables_is_a_chain() {
        for (id, name) in BY_ID {
            assert_eq!(path(by_id(*id)), Some(*name));
        }
        for (other, name) in BY_NAME {
            assert_eq!(path(by_name(other)), Some(*name), "{other}");
        }
        for adapter in rpcgate_chains::catalog() {
            let name = adapter.facts().name.as_str();
            assert_eq!(path(by_name(name)), Some(name));
        }
        assert!(ELSEWHERE.iter().all(|(id, _)| by_id(*id).is_none()));
    }

    #[test]
    fn test_networks_are_other_networks() {
        for name in ["sepolia", "ethereum-classic", "bitcoin-testnet-v4", "avalanche-fuji", "solana devnet"] {
            assert_eq!((by_name(name), by_words(name)), (None, None), "{name}");
        }
        assert_eq!(path(by_name("Ethereum Mainnet")), Some("eth"));
    }

    #[test]
    fn a_text_identifies_a_chain_if_its_words_agree() {
        for (text, chain) in [
            ("https://eth-mainnet.g.example.com/v2", Some("eth")),
            ("/rpc/ethereum", Some("eth")),
            ("polygon-mainnet-nodes", Some("polygon")),
            ("mainnet", Some("eth")),
            ("eth and bsc", None),
            ("/bitcoin-cash", Some("bch")),
            ("eth.ethereum", Some("eth")),
            ("main", None),
        ] {
            assert_eq!(path(by_words(text)), chain, "{text}");
        }
    }
}
