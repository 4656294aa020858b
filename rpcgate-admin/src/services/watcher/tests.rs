pub(super) mod test_chain;

use self::test_chain::{FIRST, Pruning, Tree, TreeChain, TreeNode, TreeNodes, TreeReader};
use super::backlog::Backlogs;
use super::block_watch::{BlockWatch, Then};
use super::watched_chain::{WatchParts, WatchSettings, WatchedChain};
use super::*;
use crate::testing::Site;
use proptest::prelude::*;
use rpcgate_config::ChainSettings;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::clock::Time;
use rpcgate_core::event::{
    BlockRef, ChainEvent, EventType, HealthPhase, IndexedSubscription, MAX_EVENT_BODY, SubscriptionIndex,
};
use rpcgate_layers::nodes::{Pool, PoolLimits};
use rpcgate_store::{MatchedSubscription, Project, SubscriptionId, WatchOutcome, WebhookId};
use std::collections::BTreeMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const PROJECT: ProjectId = ProjectId(77);
const WATCHER: u128 = 5;

/// Returns the endpoint whose subscription has this number of confirmations.
fn endpoint(confirmations: u32) -> WebhookId {
    WebhookId(0x10 + u128::from(confirmations))
}

fn subscription(confirmations: u32) -> IndexedSubscription {
    let id = 0x20 + u128::from(confirmations);
    IndexedSubscription::new(id, "eth", EventType::NewBlock)
        .of_webhook(endpoint(confirmations).0, PROJECT.0)
        .with_confirmations(confirmations)
}

/// Creates a project with an endpoint for each number of confirmations up to 3.
async fn site(config: &str) -> Site {
    let site = Site::of(config).await;
    let tenant = site.tenant().await;
    let project = Project::new(PROJECT, tenant, "watched", site.app.now());
    site.app.store.create_project(&project).await.unwrap();
    for confirmations in 0..4 {
        site.app.store.add_sample_webhook(endpoint(confirmations), PROJECT, site.app.now()).await;
    }
    site
}

fn settings() -> WatchSettings {
    WatchSettings {
        chain: ChainSettings::default(),
        probe_interval: Duration::from_millis(10),
        final_depth: 0,
        catch_up_per_second: 10_000,
        catch_up_blocks: 1_000,
        block_patience: Duration::from_secs(600),
    }
}

/// Returns a chain with this node, watched by [`WATCHER`]. The endpoints subscribe to its blocks.
async fn watched(site: &Site, node: &TreeNode, names_parents: bool) -> WatchedChain {
    let adapter: Arc<dyn Adapter> = Arc::new(TreeChain(TreeReader { names_parents }));
    let index = SubscriptionIndex::default();
    for confirmations in 0..4 {
        index.insert(&subscription(confirmations), |_, _, value| Some(value.to_owned()));
    }
    let parts = WatchParts {
        store: site.app.store.clone(),
        clock: site.clock.clone(),
        index,
        backlogs: Arc::default(),
        metrics: site.app.watch_metrics.clone(),
        watcher: WATCHER,
    };
    let pool = Pool::new(adapter.facts(), Vec::new(), PoolLimits::default(), site.clock.clone());
    let mut chain = WatchedChain::new(adapter, settings(), pool, parts);
    chain.nodes = Arc::new(TreeNodes(vec![node.clone()]));
    let store = &site.app.store;
    assert_eq!(store.claim_chains(WATCHER, &["eth"], 1, LEASE, site.app.now()).await.unwrap(), ["eth"]);
    chain
}

/// Takes steps until nothing is new for longer than the follower's patience.
async fn settle(watch: &mut BlockWatch<'_>) {
    let mut quiet = 0;
    while quiet < 5 {
        quiet = if watch.step().await.unwrap() == Then::Again { 0 } else { quiet + 1 };
    }
}

async fn settled(chain: &WatchedChain) -> BlockWatch<'_> {
    let mut watch = BlockWatch::new(chain, reader(chain));
    settle(&mut watch).await;
    watch
}

/// A watched chain with a node of one block.
struct Scene {
    site: Site,
    tree: Tree,
    node: TreeNode,
    chain: WatchedChain,
}

impl Scene {
    async fn start() -> Self {
        let site = site("").await;
        let (tree, node) = grown(1);
        let chain = watched(&site, &node, true).await;
        Scene { site, tree, node, chain }
    }
}

fn reader(chain: &WatchedChain) -> &dyn rpcgate_core::event::BlockReader {
    chain.adapter.block_reader().unwrap()
}

/// Adds up the deliveries of each endpoint: the number of events of each block, minus its removals.
async fn told(site: &Site) -> BTreeMap<(WebhookId, String), i32> {
    let mut counts = BTreeMap::new();
    for one in site.app.store.sample_deliveries().await {
        if one.status != "held" {
            *counts.entry((one.webhook, one.block_hash)).or_default() += if one.removed { -1 } else { 1 };
        }
    }
    counts.retain(|_, times| *times != 0);
    counts
}

fn grown(blocks: usize) -> (Tree, TreeNode) {
    let tree = Tree::new();
    let node = TreeNode::new(&tree);
    extend(&node, 0, blocks);
    (tree, node)
}

fn extend(node: &TreeNode, depth: usize, length: usize) {
    let mut tip = node.tree.below(node.head(), depth);
    for number in 0..length {
        tip = node.tree.grow(tip, u64::from(number % 4 == 3));
    }
    node.set_head(tip);
}

// Shows (Webhooks).
#[tokio::test]
async fn replacing_blocks_are_marked_and_the_replaced_ones_are_taken_back() {
    let Scene { site, node, chain, .. } = Scene::start().await;
    let mut watch = settled(&chain).await;
    extend(&node, 0, 2);
    settle(&mut watch).await;
    extend(&node, 1, 3);
    // Another process continues in the middle of the reorganisation.
    assert_eq!(watch.step().await.unwrap(), Then::Again);
    settled(&chain).await;
    let all = site.app.store.sample_deliveries().await;
    let mut bodies: Vec<_> = all
        .iter()
        .filter(|one| one.webhook == endpoint(0))
        .map(|one| {
            let body: serde_json::Value = serde_json::from_str(&one.body).unwrap();
            let is = |name: &str| body["data"]["data"].get(name) == Some(&true.into());
            (body["data"]["block_hash"].as_str().unwrap().to_owned(), is("removed"), is("reorganized"))
        })
        .collect();
    bodies.sort();
    let expected = [
        ("b2", false, false),
        ("b3", false, false),
        ("b3", true, false),
        ("b4", false, true),
        ("b5", false, false),
        ("b6", false, false),
    ];
    assert_eq!(bodies, expected.map(|(hash, removed, reorganized)| (hash.to_owned(), removed, reorganized)));
}

// Shows (Webhooks).
#[tokio::test]
async fn an_event_of_any_size_is_matched_as_a_whole_and_stored_in_a_bounded_body() {
    let Scene { site: _site, chain, .. } = Scene::start().await;
    let long = "f".repeat(2 * MAX_EVENT_BODY);
    let filtered = IndexedSubscription::new(0x30, "eth", EventType::NewBlock)
        .of_webhook(endpoint(0).0, PROJECT.0)
        .with_confirmations(9)
        .with_filter(serde_json::json!({"extra": long.as_str()}).as_object().cloned().unwrap());
    chain.index.insert(&filtered, |_, _, value| Some(value.to_owned()));
    let event = ChainEvent::new(EventType::NewBlock).with("extra", long);
    let block = BlockRef::new(2, "b9", "b1", 7);
    let matched = chain.matched(&block, vec![event], true).await.unwrap();
    assert!(matched[0].matched.iter().any(|one| one.subscription == SubscriptionId(0x30)));
    assert!(matched[0].body.len() <= MAX_EVENT_BODY);
    let body: serde_json::Value = serde_json::from_slice(&matched[0].body).unwrap();
    let data = &body["data"]["data"];
    assert_eq!((&data["truncated"], &data["reorganized"]), (&true.into(), &true.into()));
}

// Shows (Webhooks).
#[tokio::test]
async fn a_watcher_without_its_lease_stops_and_the_other_continues_without_a_gap() {
    let Scene { site, node, chain, .. } = Scene::start().await;
    let mut watch = settled(&chain).await;
    extend(&node, 0, 2);
    settle(&mut watch).await;
    site.clock.advance(LEASE);
    let taken = site.app.store.claim_chains(6, &["eth"], 1, LEASE, site.app.now()).await.unwrap();
    assert_eq!(taken, ["eth"]);
    extend(&node, 1, 2);
    assert_eq!(watch.step().await.unwrap(), Then::Stop);
    let mut other = watched_by(&site, &node, 6).await;
    other.watcher = 6;
    settled(&other).await;
    let hashes: Vec<_> =
        told(&site).await.into_keys().filter(|(own, _)| *own == endpoint(0)).map(|(_, hash)| hash).collect();
    assert_eq!(hashes, ["b2", "b4", "b5"]);
}

/// Like [`watched`], for another watcher, which already has the lease.
async fn watched_by(site: &Site, node: &TreeNode, watcher: u128) -> WatchedChain {
    site.app.store.release_chains(watcher, &["eth"], site.app.now()).await.unwrap();
    let chain = watched(site, node, true).await;
    site.app.store.release_chains(WATCHER, &["eth"], site.app.now()).await.unwrap();
    let taken = site.app.store.claim_chains(watcher, &["eth"], 1, LEASE, site.app.now()).await.unwrap();
    assert_eq!(taken, ["eth"]);
    chain
}

// Shows (Webhooks): Following begins with the first subscription and ends with the last; after an outage the watcher
// catches up, up to a bound.
#[tokio::test]
async fn a_subscription_counts_from_the_next_block_and_a_chain_without_one_is_forgotten() {
    let Scene { site, node, chain, .. } = Scene::start().await;
    let mut watch = BlockWatch::new(&chain, reader(&chain));
    for confirmations in 1..4 {
        chain.index.remove(subscription(confirmations).id);
    }
    settle(&mut watch).await;
    extend(&node, 0, 1);
    settle(&mut watch).await;
    chain.index.insert(&subscription(1), |_, _, value| Some(value.to_owned()));
    extend(&node, 0, 2);
    settle(&mut watch).await;
    let one = (endpoint(0), endpoint(1));
    let expected = [(one.0, "b2"), (one.0, "b3"), (one.0, "b4"), (one.1, "b3")];
    let mut keys: Vec<_> = told(&site).await.into_keys().collect();
    keys.sort();
    assert_eq!(keys, expected.map(|(endpoint, hash)| (endpoint, hash.to_owned())));
    chain.index.clear();
    assert!(matches!(watch.step().await.unwrap(), Then::Wait(_)));
    assert!(site.app.store.followed_chains().await.unwrap().is_empty());
    extend(&node, 0, 5);
    chain.index.insert(&subscription(0), |_, _, value| Some(value.to_owned()));
    settle(&mut watch).await;
    assert_eq!(told(&site).await.len(), 4, "it begins at the head");
}

// Shows (Webhooks).
#[tokio::test]
async fn after_an_outage_blocks_are_read_in_order_and_those_beyond_the_bound_are_skipped() {
    let Scene { site, tree, node, mut chain } = Scene::start().await;
    chain.settings.catch_up_blocks = 4;
    settle(&mut BlockWatch::new(&chain, reader(&chain))).await;
    extend(&node, 0, 3);
    settle(&mut BlockWatch::new(&chain, reader(&chain))).await;
    assert_eq!(told(&site).await.into_keys().filter(|(own, _)| *own == endpoint(0)).count(), 3);
    let mut tip = node.head();
    for _ in 0..9 {
        tip = tree.grow(tip, 0);
    }
    node.set_head(tip);
    settle(&mut BlockWatch::new(&chain, reader(&chain))).await;
    let own = told(&site).await.into_keys().filter(|(own, _)| *own == endpoint(0));
    let heights: Vec<_> = own.map(|(_, hash)| hash[1..].parse::<usize>().unwrap()).collect();
    let newest: Vec<_> = (0..4).rev().map(|depth| tree.below(tip, depth)).collect();
    assert!(newest.iter().all(|block| heights.contains(block)) && heights.len() == 7, "{heights:?}");
    assert!(metrics(&site).contains("skipped_blocks_total{chain=\"eth\"} 5"), "{}", metrics(&site));
}

// Shows (Webhooks).
#[tokio::test]
async fn a_missing_block_at_the_bound_is_skipped_up_to_the_next_one() {
    let Scene { site, tree, node, mut chain } = Scene::start().await;
    chain.settings.catch_up_blocks = 4;
    let mut watch = settled(&chain).await;
    let mut tip = node.head();
    let mut last = Vec::new();
    for gap in [0, 0, 0, 0, 1, 0, 0, 0] {
        tip = tree.grow(tip, gap);
        last.push(tree.block(tip).hash);
    }
    node.set_head(tip);
    assert!(tree.branch(tip).iter().all(|block| block.height != node.height() - 4));
    settle(&mut watch).await;
    let own = told(&site).await.into_keys().filter(|(own, _)| *own == endpoint(0));
    assert_eq!(own.map(|(_, hash)| hash).collect::<Vec<_>>(), last[5..]);
}

fn metrics(site: &Site) -> String {
    let mut page = String::new();
    let mut registry = prometheus_client::registry::Registry::default();
    site.app.watch_metrics.register(&mut registry);
    prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
    page
}

/// Advances the clock while the watcher keeps its lease.
async fn pass(site: &Site, seconds: u64) {
    site.clock.advance(Duration::from_secs(seconds));
    site.app.store.claim_chains(WATCHER, &["eth"], 1, LEASE, site.app.now()).await.unwrap();
}

/// Returns the blocks that were delivered to the first endpoint.
async fn hashes_told(site: &Site) -> Vec<String> {
    let own = told(site).await.into_keys().filter(|(own, _)| *own == endpoint(0));
    own.map(|(_, hash)| hash).collect()
}

fn subscribe_to_activity(chain: &WatchedChain) {
    let activity = IndexedSubscription::new(0x40, "eth", EventType::AddressActivity)
        .of_webhook(endpoint(0).0, PROJECT.0);
    chain.index.insert(&activity, |_, _, value| Some(value.to_owned()));
}

// Shows (Webhooks): A block whose events no node shows, or that the nodes have lost, delays later blocks for at most
// ten minutes.
#[tokio::test]
async fn a_block_without_readable_events_is_reported_without_them_after_the_timeout() {
    let Scene { site, node, chain, .. } = Scene::start().await;
    subscribe_to_activity(&chain);
    let mut watch = settled(&chain).await;
    extend(&node, 0, 2);
    node.hide_events(node.height() - 1);
    assert!(watch.step().await.is_err());
    pass(&site, 599).await;
    assert!(watch.step().await.is_err(), "the nodes may lack them for a while");
    assert!(metrics(&site).contains("watched_blocks_behind{chain=\"eth\"} 2"), "{}", metrics(&site));
    // A step without any answer restarts the wait.
    node.set_down(true);
    assert!(watch.step().await.is_err());
    node.set_down(false);
    pass(&site, 1).await;
    assert!(watch.step().await.is_err());
    assert_eq!(hashes_told(&site).await, [""; 0]);
    pass(&site, 600).await;
    settle(&mut watch).await;
    assert_eq!(hashes_told(&site).await, ["b2", "b3"]);
    assert!(metrics(&site).contains("unread_blocks_total{chain=\"eth\"} 1"), "{}", metrics(&site));
}

// Shows (Webhooks).
#[tokio::test]
async fn blocks_that_the_nodes_have_lost_are_skipped_after_the_timeout() {
    let Scene { site, node, chain, .. } = Scene::start().await;
    let mut watch = settled(&chain).await;
    extend(&node, 0, 3);
    node.lose(node.height() - 2);
    assert!(watch.step().await.is_err());
    pass(&site, 599).await;
    assert!(watch.step().await.is_err());
    pass(&site, 1).await;
    settle(&mut watch).await;
    assert_eq!(hashes_told(&site).await, ["b3", "b4"]);
}

async fn look(watch: &mut BlockWatch<'_>, times: usize) {
    for _ in 0..times {
        let _ = watch.step().await;
    }
}

/// Returns the hashes of the newest blocks, in the order of [`hashes_told`].
fn newest_hashes(branch: &[BlockRef], count: usize) -> Vec<String> {
    let newest = &branch[branch.len() - count..];
    let mut hashes: Vec<_> = newest.iter().map(|block| block.hash.clone()).collect();
    hashes.sort();
    hashes
}

// Shows (Webhooks): A watcher that was away for longer than nodes keep blocks continues at their oldest block and
// counts the gap.
#[tokio::test]
async fn pruned_blocks_are_skipped_and_counted_up_to_the_oldest_available_block() {
    for (pruning, names_parents) in Pruning::ALL.into_iter().flat_map(|one| [(one, true), (one, false)]) {
        let site = site("").await;
        let (tree, node) = grown(1);
        let chain = watched(&site, &node, names_parents).await;
        let mut watch = settled(&chain).await;
        let newest = node.height();
        extend(&node, 0, 40);
        let branch = tree.branch(node.head());
        let lowest = branch[branch.len() - 8].height;
        node.prune(lowest, pruning);
        look(&mut watch, 8).await;
        pass(&site, 599).await;
        look(&mut watch, 8).await;
        assert_eq!(hashes_told(&site).await, [""; 0], "{pruning:?}");
        // A step without any answer restarts the wait.
        node.set_down(true);
        look(&mut watch, 1).await;
        node.set_down(false);
        pass(&site, 1).await;
        look(&mut watch, 8).await;
        assert_eq!(hashes_told(&site).await, [""; 0], "{pruning:?}");
        pass(&site, 600).await;
        look(&mut watch, 20).await;
        assert_eq!(hashes_told(&site).await, newest_hashes(&branch, 8), "{pruning:?}");
        let skipped = format!("skipped_blocks_total{{chain=\"eth\"}} {}", lowest - newest - 1);
        let shown = metrics(&site);
        assert!(shown.contains(&skipped) && !shown.contains("lost_reorganisations_total{"), "{shown}");
        extend(&node, 0, 1);
        settle(&mut watch).await;
        let branch = tree.branch(node.head());
        assert_eq!(hashes_told(&site).await, newest_hashes(&branch, 9), "{pruning:?}");
    }
}

// Shows (Webhooks).
#[tokio::test]
async fn the_pruned_node_with_the_most_blocks_is_read() {
    let site = site("").await;
    let (tree, first) = grown(1);
    let nodes: Vec<_> = [first.clone(), TreeNode::new(&tree), TreeNode::new(&tree)].into();
    nodes.iter().for_each(|node| node.set_head(first.head()));
    let mut chain = watched(&site, &first, true).await;
    chain.nodes = Arc::new(TreeNodes(nodes.clone()));
    let mut watch = settled(&chain).await;
    extend(&first, 0, 30);
    nodes.iter().for_each(|node| node.set_head(first.head()));
    let branch = tree.branch(first.head());
    nodes[0].prune(branch[branch.len() - 3].height, Pruning::Refuses);
    nodes[1].prune(branch[branch.len() - 6].height, Pruning::Nothing);
    nodes[2].set_down(true);
    look(&mut watch, 4).await;
    pass(&site, 600).await;
    look(&mut watch, 20).await;
    assert_eq!(hashes_told(&site).await, newest_hashes(&branch, 6));
}

// Shows (Webhooks).
#[tokio::test]
async fn a_node_that_has_stopped_does_not_hide_that_others_have_pruned_what_comes_next() {
    let site = site("").await;
    let (tree, stopped) = grown(1);
    let node = TreeNode::new(&tree);
    node.set_head(stopped.head());
    let mut chain = watched(&site, &node, true).await;
    chain.nodes = Arc::new(TreeNodes(vec![stopped, node.clone()]));
    subscribe_to_activity(&chain);
    let mut watch = settled(&chain).await;
    extend(&node, 0, 30);
    let branch = tree.branch(node.head());
    node.prune(branch[branch.len() - 4].height, Pruning::Nothing);
    look(&mut watch, 4).await;
    pass(&site, 600).await;
    look(&mut watch, 20).await;
    assert_eq!(hashes_told(&site).await, newest_hashes(&branch, 4));
}

// Shows (Webhooks).
#[tokio::test]
async fn catching_up_beyond_the_bound_skips_to_the_oldest_block_that_the_node_has() {
    let Scene { site, tree, node, mut chain } = Scene::start().await;
    chain.settings.catch_up_blocks = 20;
    let mut watch = settled(&chain).await;
    extend(&node, 0, 60);
    let branch = tree.branch(node.head());
    node.prune(branch[branch.len() - 6].height, Pruning::Refuses);
    settle(&mut watch).await;
    assert_eq!(hashes_told(&site).await, newest_hashes(&branch, 5), "following goes on behind the oldest");
}

// Shows (Webhooks).
#[tokio::test]
async fn a_chain_whose_nodes_lack_the_next_block_resumes_at_the_head_after_the_timeout() {
    let Scene { site, tree, node, chain } = Scene::start().await;
    let mut watch = settled(&chain).await;
    extend(&node, 0, 12);
    node.prune(node.height() + 1, Pruning::Nothing);
    look(&mut watch, 8).await;
    assert!(!metrics(&site).contains("lost_reorganisations_total{"));
    pass(&site, 600).await;
    look(&mut watch, 4).await;
    assert!(metrics(&site).contains("lost_reorganisations_total{chain=\"eth\"} 1"), "{}", metrics(&site));
    let followed = site.app.store.followed("eth").await.unwrap().blocks;
    let hashes: Vec<_> = followed.iter().map(|block| block.hash.as_str()).collect();
    assert_eq!(hashes, [tree.block(node.head()).hash]);
}

// Shows (Webhooks).
#[tokio::test]
async fn a_node_that_has_stopped_does_not_hide_that_the_next_block_cannot_be_read() {
    let site = site("").await;
    let (tree, stopped) = grown(1);
    let node = TreeNode::new(&tree);
    node.set_head(stopped.head());
    let mut chain = watched(&site, &node, true).await;
    chain.nodes = Arc::new(TreeNodes(vec![stopped, node.clone()]));
    subscribe_to_activity(&chain);
    let mut watch = settled(&chain).await;
    extend(&node, 0, 2);
    node.hide_events(node.height() - 1);
    settle(&mut watch).await;
    assert_eq!(hashes_told(&site).await, [""; 0]);
    pass(&site, 600).await;
    settle(&mut watch).await;
    assert_eq!(hashes_told(&site).await, ["b2", "b3"]);
}

// Shows (Webhooks).
#[tokio::test]
async fn a_chain_whose_nodes_cannot_be_used_is_not_claimed_again_and_again() {
    let site = site("").await;
    let adapter: Arc<dyn Adapter> = Arc::new(TreeChain(TreeReader { names_parents: true }));
    let mut watches = Watches::new(&site.app, vec![adapter.clone()]);
    watches.claim(&site.app, &[(adapter, settings())], vec!["eth"]).await.unwrap();
    assert!(watches.running.is_empty());
    assert!(!watches.is_claim_due(&site.app, &["eth"]));
}

// Shows (Webhooks): Watchers share the chains: a new one gets its share, one chain at a time, from those that have
// more.
#[tokio::test]
async fn an_added_watcher_gets_its_share_chain_by_chain_and_all_when_the_other_stops() {
    let chains = ["eth", "bsc", "polygon", "btc", "near"];
    let of = |name: &str| format!("[chains.{name}]\nnodes = [\"http://127.0.0.1:1\"]\n");
    let site = site(&chains.map(of).concat()).await;
    let with_settings = |adapter: Arc<dyn Adapter>| {
        let settings = watch_settings(&*adapter, &site.app.settings.config)?;
        Some((adapter, settings))
    };
    let subscribed: Vec<_> = rpcgate_chains::catalog().filter_map(with_settings).collect();
    let names: Vec<_> = subscribed.iter().map(|(adapter, _)| adapter.facts().name.as_str()).collect();
    assert_eq!(names.len(), chains.len());
    let claim =
        async |watches: &mut Watches| watches.claim(&site.app, &subscribed, names.clone()).await.unwrap();
    let mut first = Watches::new(&site.app, Vec::new());
    let mut second = Watches::new(&site.app, Vec::new());
    claim(&mut first).await;
    claim(&mut first).await;
    assert_eq!(first.running.len(), 5);
    let mut seen = Vec::new();
    for _ in 0..5 {
        claim(&mut second).await;
        claim(&mut first).await;
        seen.push((first.running.len(), second.running.len()));
        assert!(second.running.keys().all(|name| !first.running.contains_key(name)));
        site.clock.advance(CLAIM_EVERY);
    }
    assert_eq!(seen, [(4, 0), (3, 1), (3, 2), (3, 2), (3, 2)]);
    first.stop(&site.app).await;
    claim(&mut second).await;
    assert_eq!(second.running.len(), 5, "nothing is left to one that has stopped");
    second.stop(&site.app).await;
}

// Shows (Webhooks).
#[tokio::test]
async fn a_clock_set_back_keeps_no_stale_count_of_waiting_deliveries() {
    let site = site("").await;
    let backlogs = Backlogs::up_to(1);
    let now = site.app.now();
    let before = Time::from_micros(now.micros() - 1);
    for (at, has_room) in [(now, true), (now.plus(Duration::from_secs(9)), false), (before, true)] {
        let mut matched = MatchedSubscription {
            subscription: SubscriptionId(1),
            webhook: endpoint(0),
            project: PROJECT,
            confirmations: 0,
            is_delivered: true,
        };
        backlogs.count(&site.app.store, vec![endpoint(0)], at).await.unwrap();
        assert_eq!(backlogs.admit(&mut matched), has_room, "{at:?}");
    }
}

// Shows (Webhooks): Waiting deliveries are bounded; disabled endpoints and suspended tenants get none.
// Shows (Webhooks): Every matched event is delivered, waits, or is marked as withheld in the log; its users are
// notified once, and a replay sends it (promise 85).
#[tokio::test]
async fn an_endpoint_gets_no_more_deliveries_than_may_wait_and_the_log_has_them_all() {
    let Scene { site, node, mut chain, .. } = Scene::start().await;
    chain.backlogs = Arc::new(Backlogs::up_to(3));
    let mut watch = settled(&chain).await;
    for _ in 0..6 {
        extend(&node, 0, 1);
        settle(&mut watch).await;
    }
    for confirmations in 0..4 {
        let own = site.app.store.sample_deliveries().await;
        let own = own.into_iter().filter(|one| one.webhook == endpoint(confirmations));
        let (withheld, sent): (Vec<_>, Vec<_>) = own.partition(|one| one.status == "withheld");
        assert_eq!((sent.len(), withheld.len()), (3, 3), "{confirmations}");
    }
    assert_eq!(site.app.store.sample_log(PROJECT).await, 6);
}

// Shows (Webhooks).
#[tokio::test]
async fn a_change_of_health_is_reported_once_even_if_the_watcher_restarts() {
    let Scene { site, chain, .. } = Scene::start().await;
    let health = IndexedSubscription::new(9, "eth", EventType::Health)
        .of_webhook(endpoint(0).0, PROJECT.0)
        .with_confirmations(3);
    chain.index.insert(&health, |_, _, value| Some(value.to_owned()));
    let phases = async || -> Vec<String> {
        let all = site.app.store.sample_deliveries().await;
        let phase = |body: &str| {
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            body["data"]["data"]["phase"].as_str().unwrap().to_owned()
        };
        all.iter().filter(|one| one.status == "pending").map(|one| phase(&one.body)).collect()
    };
    use HealthPhase::{Degraded, Healthy};
    for (phase, expected) in [(Healthy, 0), (Degraded, 1), (Degraded, 1), (Healthy, 2), (Healthy, 2)] {
        site.clock.advance(Duration::from_secs(5));
        assert_eq!(chain.report(phase).await.unwrap(), WatchOutcome::Done);
        assert_eq!(phases().await.len(), expected);
    }
    assert_eq!(phases().await, ["Degraded", "Healthy"]);
}

#[derive(Clone, Debug)]
enum Move {
    Branch(usize, usize),
    Look(usize),
    Restart,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => (0..=10_usize, 1..=11_usize).prop_map(|(depth, length)| Move::Branch(depth, length)),
        4 => (1..12_usize).prop_map(Move::Look),
        1 => Just(Move::Restart),
    ];
    prop::collection::vec(one, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    // Shows (Webhooks).
    #[test]
    fn every_endpoints_sum_of_deliveries_is_the_canonical_chain(
        names_parents in any::<bool>(),
        moves in moves(),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let site = site("").await;
            let (tree, node) = grown(0);
            let chain = watched(&site, &node, names_parents).await;
            let mut watch = settled(&chain).await;
            for one in moves {
                match one {
                    Move::Branch(depth, length) => {
                        extend(&node, depth.min(tree.branch(node.head()).len() - 1), length);
                    }
                    Move::Look(steps) => {
                        for _ in 0..steps {
                            watch.step().await.unwrap();
                        }
                    }
                    Move::Restart => watch = BlockWatch::new(&chain, reader(&chain)),
                }
            }
            settle(&mut watch).await;
            let branch = tree.branch(node.head());
            let reported = told(&site).await;
            let head = node.height();
            for confirmations in 0..4 {
                let own: Vec<_> = reported.iter().filter(|((own, _), _)| *own == endpoint(confirmations)).collect();
                assert!(own.iter().all(|(_, times)| **times == 1), "{own:?}");
                let hashes: Vec<_> = own.iter().map(|((_, hash), _)| hash.as_str()).collect();
                for block in &branch[1..] {
                    let is_due = block.height + u64::from(confirmations) <= head;
                    // A block that had its confirmations on a longer branch stays reported.
                    assert!(hashes.contains(&block.hash.as_str()) || !is_due, "{confirmations}: {block:?} {hashes:?}");
                }
                let known = |hash: &&str| branch[1..].iter().any(|block| block.hash == **hash);
                assert!(hashes.iter().all(known), "{confirmations}: {hashes:?} {branch:?}");
            }
        });
    }
}

#[tokio::test]
async fn the_index_follows_endpoints_subscriptions_and_suspensions_by_the_change_feed() {
    let site = site("").await;
    let store = &site.app.store;
    store.add_sample_subscription(&subscription(1), site.app.now()).await;
    let adapter: Arc<dyn Adapter> = Arc::new(TreeChain(TreeReader { names_parents: true }));
    let mut subscriptions = Subscriptions::new([adapter]);
    assert!(!subscriptions.is_read());
    subscriptions.refresh(store).await.unwrap();
    assert!(subscriptions.is_read() && subscriptions.index().len() == 1);
    for confirmations in [0, 2] {
        store.add_sample_subscription(&subscription(confirmations), site.app.now()).await;
    }
    subscriptions.refresh(store).await.unwrap();
    assert_eq!(subscriptions.index().len(), 3);
    let own = store.tenants_named("Site", 1).await.unwrap()[0].id;
    store.suspend(own, site.app.now()).await.unwrap();
    subscriptions.refresh(store).await.unwrap();
    assert!(subscriptions.index().is_empty());
    store.reactivate(own, site.app.now()).await.unwrap();
    store.remove_sample_subscription(SubscriptionId(subscription(1).id), PROJECT, site.app.now()).await;
    subscriptions.refresh(store).await.unwrap();
    let index = subscriptions.index();
    assert!(index.len() == 2 && index.chains() == ["eth"] && index.wants("eth", EventType::NewBlock));
}

/// Runs a node over HTTP that shows a branch.
async fn served(node: TreeNode) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let Ok((mut socket, _)) = listener.accept().await else { return };
            let node = node.clone();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                let mut buffer = [0; 4096];
                loop {
                    let text = String::from_utf8_lossy(&seen).into_owned();
                    let head = text.find("\r\n\r\n");
                    let length = text.to_lowercase().split("content-length: ").nth(1).and_then(|rest| {
                        rest.split("\r\n").next().and_then(|length| length.parse::<usize>().ok())
                    });
                    if let Some((head, length)) =
                        head.zip(length).filter(|(head, length)| seen.len() >= head + 4 + length)
                    {
                        let call: serde_json::Value =
                            serde_json::from_slice(&seen[head + 4..head + 4 + length]).unwrap();
                        seen.drain(..head + 4 + length);
                        let result =
                            node.answer(call["method"].as_str().unwrap(), &call["params"].to_string());
                        let answer =
                            serde_json::json!({"jsonrpc": "2.0", "id": call["id"], "result": result})
                                .to_string();
                        let answer =
                            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
                        if socket.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                        continue;
                    }
                    match socket.read(&mut buffer).await {
                        Ok(0) | Err(_) => return,
                        Ok(read) => seen.extend_from_slice(&buffer[..read]),
                    }
                }
            });
        }
    });
    addr
}

async fn until(is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
}

// Shows (Webhooks).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_of_a_node_over_a_socket_become_deliveries_after_the_first_subscription() {
    let (_, node) = grown(1);
    let addr = served(node.clone()).await;
    let config = format!("[chains.eth]\nprobe_interval = \"100ms\"\nnodes = [\"http://{addr}\"]\n");
    let site = site(&config).await;
    let store = &site.app.store;
    let adapter: Arc<dyn Adapter> = Arc::new(TreeChain(TreeReader { names_parents: true }));
    let watcher = Watcher::of(&site.app, vec![adapter.clone()]);
    let idle = Watcher::of(&site.app, vec![adapter]);
    store.add_sample_subscription(&subscription(0), site.app.now()).await;
    until(async || store.followed_chains().await.unwrap() == ["eth"]).await;
    extend(&node, 0, 3);
    until(async || told(&site).await.len() == 3).await;
    store.add_sample_subscription(&subscription(1), site.app.now()).await;
    until(async || {
        extend(&node, 0, 1);
        told(&site).await.keys().any(|(own, _)| *own == endpoint(1))
    })
    .await;
    store.remove_sample_subscription(SubscriptionId(subscription(0).id), PROJECT, site.app.now()).await;
    store.remove_sample_subscription(SubscriptionId(subscription(1).id), PROJECT, site.app.now()).await;
    until(async || store.followed_chains().await.unwrap().is_empty()).await;
    let heights = store.followed("eth").await.unwrap().blocks;
    assert!(heights.is_empty() && node.height() > FIRST);
    watcher.stop().await;
    idle.stop().await;
}
