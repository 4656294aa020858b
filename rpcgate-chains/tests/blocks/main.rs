//! Blocks of every chain, read from simulated nodes and from hand-written answers in the form of the nodes'
//! documentation. The package does not include these tests, since it does not include the simulated nodes.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]
#![expect(clippy::needless_pass_by_value, reason = "callers write their parameters in place")]

mod aptos;
mod arbitrary;
mod cardano;
mod cosmos;
mod evm;
mod near;
mod node;
mod reading;
mod solana;
mod sui;
mod ton;
mod tron;
mod utxo;
mod xlm;
mod xrp;

use node::{ScriptedNode, SimulatedNode};
use reading::{Reader, all, only};
use rpcgate_chains::catalog;
use rpcgate_core::adapter::Adapter;
use rpcgate_core::event::{BlockRef, EventType, ReadError};
use std::sync::{Arc, LazyLock};

/// All chains, in the catalog's order.
static CHAINS: LazyLock<Vec<&str>> = LazyLock::new(|| names(catalog()));

/// Chains whose simulated nodes have a block at every height up to the newest one.
static BY_HEIGHT: LazyLock<Vec<&str>> = LazyLock::new(|| {
    names(catalog().filter(|one| !["xlm", "cardano", "solana"].contains(&one.facts().name.as_str())))
});

fn names(adapters: impl Iterator<Item = Arc<dyn Adapter>>) -> Vec<&'static str> {
    adapters.map(|adapter| adapter.facts().name.as_str()).collect()
}

/// Returns the expected parent of a block: empty for Aptos, which has none.
fn parent<'a>(chain: &str, hash: &'a str) -> &'a str {
    if chain == "aptos" { "" } else { hash }
}

// Shows (Events of chains): A block always reads the same; one that follows another than the known block names its own
// parent; heights above the head have no block.
#[test]
fn every_simulated_block_follows_the_one_before_it_and_is_found_again() {
    for &chain in BY_HEIGHT.iter() {
        let reader = Reader::of(chain);
        let node = SimulatedNode::of(chain);
        let blocks = reader.some(&node, 12);
        for pair in blocks.windows(2) {
            assert_eq!(pair[1].block.parent, parent(chain, &pair[0].block.hash), "{chain}");
            assert_eq!(pair[1].block.height, pair[0].block.height + 1, "{chain}");
            assert!(pair[1].block.timestamp >= pair[0].block.timestamp, "{chain}");
        }
        for one in &blocks {
            assert_eq!(reader.at(&node, &one.block), Ok(Some(one.block.clone())), "{chain}");
            assert!((1_799_980_000..=1_800_000_000).contains(&one.block.timestamp), "{chain}");
        }
        let again = reader.some(&node, 12);
        assert_eq!(again, blocks, "{chain}: a block has the same events however often it is read");
    }
}

#[test]
fn a_filter_may_name_every_scalar_of_every_event_as_it_is() {
    for &chain in BY_HEIGHT.iter() {
        let reader = Reader::of(chain);
        let node = SimulatedNode::of(chain);
        for event in reader.some(&node, 12).into_iter().flat_map(|block| block.events) {
            for (name, value) in &event.data {
                let Some(text) = value.as_str() else { continue };
                assert_eq!(
                    reader.canonical(name, text).as_deref(),
                    Some(text),
                    "{chain}: {name} of {event:?}"
                );
            }
        }
    }
}

// Shows (Events of chains).
#[test]
fn nothing_is_above_the_newest_block() {
    for &chain in BY_HEIGHT.iter() {
        let reader = Reader::of(chain);
        let node = SimulatedNode::of(chain);
        let head = reader.head(&node).unwrap();
        assert_eq!(reader.after(&node, &head, &all()), Ok(None), "{chain}");
        let above = BlockRef { height: head.height + 1_000, ..head };
        assert_eq!(reader.at(&node, &above), Ok(None), "{chain}");
        assert_eq!(reader.after(&node, &above, &all()), Ok(None), "{chain}");
    }
}

// Shows (Events of chains).
#[test]
fn a_block_that_follows_another_than_the_known_one_names_its_own_parent() {
    for &chain in BY_HEIGHT.iter() {
        let reader = Reader::of(chain);
        let node = SimulatedNode::of(chain);
        let known = reader.back(&node, 20);
        let other = BlockRef { hash: "of a chain that is gone".into(), ..known.clone() };
        let next = reader.after(&node, &other, &all()).unwrap().unwrap();
        assert_eq!(next.block.parent, parent(chain, &known.hash), "{chain}");
        assert_eq!(reader.at(&node, &other), Ok(Some(known)), "{chain}");
    }
}

// Shows (Events of chains): Only subscribed events are fetched and made.
#[test]
fn only_what_is_wanted_is_fetched_and_made() {
    for (chain, alone, with_transactions) in
        [("tron", 1, 2), ("cosmos", 2, 3), ("near", 2, 12), ("sui", 2, 3)]
    {
        let reader = Reader::of(chain);
        let node = SimulatedNode::of(chain);
        let known = reader.back(&node, 20);
        let count = |wanted| {
            let before = node.asked().len();
            let events = reader.after(&node, &known, &wanted).unwrap().unwrap().events;
            (node.asked().len() - before, events.len())
        };
        assert_eq!(count(only(&[])), (alone, 0), "{chain}");
        assert_eq!(count(only(&[EventType::NewBlock])), (alone, 1), "{chain}");
        let (calls, _) = count(only(&[EventType::TokenTransfer]));
        assert!((with_transactions - 1..=with_transactions + 3).contains(&calls), "{chain}: {calls}");
        for kind in reader.kinds() {
            let events = reader.after(&node, &known, &only(&[*kind])).unwrap().unwrap().events;
            assert!(events.iter().all(|event| event.kind == *kind), "{chain} {kind}");
        }
    }
}

// Shows (Events of chains).
#[test]
fn activity_is_reported_only_for_watched_addresses() {
    for &chain in BY_HEIGHT.iter() {
        let reader = Reader::of(chain);
        let node = SimulatedNode::of(chain);
        let every = reader.first(&node, EventType::AddressActivity).1;
        let address = every.data["address"].as_str().unwrap().to_owned();
        let watched = address.clone();
        let wanted =
            only(&[EventType::AddressActivity]).with_addresses(Arc::new(move |address| address == watched));
        let mut known = reader.back(&node, 50);
        let mut told = 0;
        while let Some(next) = reader.after(&node, &known, &wanted).unwrap() {
            assert!(next.events.iter().all(|event| event.data["address"] == address.as_str()), "{chain}");
            told += next.events.len();
            known = next.block;
        }
        assert!(told > 0, "{chain}");
        assert_eq!(reader.canonical("address", &address), Some(address), "{chain}");
    }
}

// Shows (Events of chains).
#[test]
fn an_error_of_the_node_is_handed_on() {
    for &chain in CHAINS.iter() {
        let reader = Reader::of(chain);
        let known = BlockRef::new(7, "h", "p", 0).with_position("1");
        for error in [
            ReadError::Unreachable("away".into()),
            ReadError::Refused { code: 503, message: "busy".into() },
            ReadError::Refused { code: -32_000, message: "Server error".into() },
        ] {
            let node = ScriptedNode::new(|_, _| Err(error.clone()));
            assert_eq!(reader.head(&node), Err(error.clone()), "{chain}");
            assert_eq!(reader.at(&node, &known), Err(error.clone()), "{chain}");
            assert_eq!(reader.after(&node, &known, &all()), Err(error.clone()), "{chain}");
        }
    }
}
