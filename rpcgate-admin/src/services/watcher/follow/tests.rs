use super::*;
use crate::services::watcher::tests::test_chain::{FIRST, Tree, TreeNode, TreeNodes, TreeReader};
use proptest::prelude::*;
use rpcgate_core::event::EventType;
use std::collections::BTreeMap;

const KEPT: u64 = 64;

/// Applies a follower's findings as the store would, and adds up the events that a receiver gets.
struct Receiver {
    follower: Follower,
    reader: TreeReader,
    nodes: TreeNodes,
    stored: Vec<BlockRef>,
    /// The number of events of each block, minus its removals.
    told: BTreeMap<String, i32>,
    all_gone: usize,
}

impl Receiver {
    fn new(names_parents: bool, nodes: Vec<TreeNode>) -> Self {
        Receiver {
            follower: Follower::new(Vec::new(), KEPT),
            reader: TreeReader { names_parents },
            nodes: TreeNodes(nodes),
            stored: Vec::new(),
            told: BTreeMap::new(),
            all_gone: 0,
        }
    }

    fn restart(&mut self) {
        self.follower = Follower::new(self.stored.clone(), KEPT);
    }

    async fn round(&mut self) -> Result<bool, ReadError> {
        let filter = EventFilter::new([EventType::NewBlock]);
        match self.follower.round(&self.reader, &self.nodes.read(), &filter).await? {
            Finding::Nothing => return Ok(false),
            Finding::Start(block) => self.put(block),
            Finding::Next(next) => {
                assert_eq!(next.events.len(), 1);
                let count = self.told.entry(next.block.hash.clone()).or_default();
                *count += 1;
                assert_eq!(*count, 1, "{} is reported twice", next.block.hash);
                self.put(next.block);
            }
            Finding::Gone(blocks) => {
                for block in blocks {
                    assert_eq!(self.stored.pop().as_ref(), Some(&block));
                    self.follower.take_back();
                    let count = self.told.entry(block.hash.clone()).or_default();
                    *count -= 1;
                    assert_eq!(*count, 0, "{} is taken back but was never reported", block.hash);
                }
            }
            Finding::Gap(next) | Finding::Pruned(next) => panic!("{next:?} does not follow"),
            Finding::AllGone(block) => {
                self.all_gone += 1;
                self.follower.restart(None);
                self.stored.clear();
                self.put(block);
            }
        }
        Ok(true)
    }

    fn put(&mut self, block: BlockRef) {
        self.stored.push(block.clone());
        let surplus = self.stored.len().saturating_sub(KEPT as usize);
        self.stored.drain(..surplus);
        self.follower.append(block);
    }

    /// Runs rounds until nothing is new for longer than a follower's patience.
    async fn settle(&mut self) {
        let mut quiet = 0;
        while quiet <= PATIENCE {
            quiet = if self.round().await.unwrap() { 0 } else { quiet + 1 };
        }
    }

    fn told(&self) -> Vec<String> {
        let mut hashes: Vec<_> =
            self.told.iter().filter(|(_, times)| **times == 1).map(|(hash, _)| hash.clone()).collect();
        hashes.sort_by_key(|hash| hash[1..].parse::<usize>().unwrap());
        hashes
    }

    fn newest(&self) -> Option<u64> {
        self.follower.newest().map(|block| block.height)
    }
}

fn hashes(branch: &[BlockRef]) -> Vec<String> {
    branch.iter().map(|block| block.hash.clone()).collect()
}

/// Returns a tree with a branch of `blocks` blocks above the first, and its node.
fn grown(blocks: usize) -> (Tree, TreeNode) {
    let tree = Tree::new();
    let node = TreeNode::new(&tree);
    extend(&node, 0, blocks, 0);
    (tree, node)
}

/// Lets a node follow a new branch of `length` blocks from `depth` below its head.
fn extend(node: &TreeNode, depth: usize, length: usize, gap: u64) {
    let mut tip = node.tree.below(node.head(), depth);
    for number in 0..length {
        tip = node.tree.grow(tip, if number % 3 == 1 { gap } else { 0 });
    }
    node.set_head(tip);
}

// Shows (Webhooks).
#[tokio::test]
async fn following_begins_at_the_head_and_continues_without_a_gap() {
    let (_, node) = grown(5);
    let mut receiver = Receiver::new(true, vec![node.clone()]);
    receiver.settle().await;
    assert_eq!((receiver.newest(), receiver.told().len()), (Some(FIRST + 5), 0));
    extend(&node, 0, 3, 0);
    receiver.restart();
    receiver.settle().await;
    assert_eq!(receiver.told(), ["b6", "b7", "b8"]);
}

// Shows (Webhooks): A node that is shorter, silent or on another branch of the same length takes no event back.
#[tokio::test]
async fn a_node_that_is_shorter_or_does_not_answer_takes_nothing_back() {
    let (tree, node) = grown(5);
    let mut receiver = Receiver::new(true, vec![node.clone()]);
    receiver.settle().await;
    extend(&node, 0, 3, 0);
    receiver.settle().await;
    let head = node.head();
    let reported = receiver.told();
    for depth in 1..=8 {
        node.set_head(tree.below(head, depth));
        receiver.settle().await;
        assert_eq!((receiver.told(), receiver.newest()), (reported.clone(), Some(FIRST + 8)), "{depth}");
    }
    node.set_down(true);
    assert!(receiver.round().await.is_err());
    node.set_down(false);
    node.set_head(head);
    receiver.settle().await;
    assert_eq!(receiver.told(), reported);
}

// Shows (Webhooks).
#[tokio::test]
async fn a_longer_branch_is_followed_at_once_and_another_after_three_rounds() {
    let (_, node) = grown(3);
    let mut receiver = Receiver::new(true, vec![node.clone()]);
    receiver.settle().await;
    extend(&node, 0, 3, 0);
    receiver.settle().await;
    extend(&node, 2, 3, 0);
    assert!(receiver.round().await.unwrap());
    assert_eq!(receiver.told(), ["b4"]);
    receiver.settle().await;
    assert_eq!(receiver.told(), ["b4", "b7", "b8", "b9"]);
    for length in [2, 1] {
        extend(&node, 2, length, 0);
        let rounds = [receiver.round().await.unwrap(), receiver.round().await.unwrap()];
        assert_eq!(rounds, [false, false], "it may be another node behind the same address");
        receiver.settle().await;
        let branch = node.tree.branch(node.head());
        assert_eq!(receiver.told(), hashes(&branch[4..]));
    }
}

// Shows (Webhooks).
#[tokio::test]
async fn the_longer_branch_of_two_nodes_is_followed() {
    let (tree, one) = grown(4);
    let other = TreeNode::new(&tree);
    other.set_head(one.head());
    let mut receiver = Receiver::new(true, vec![one.clone(), other.clone()]);
    receiver.settle().await;
    extend(&one, 0, 2, 0);
    receiver.settle().await;
    extend(&other, 0, 2, 0);
    receiver.settle().await;
    assert_eq!(receiver.told(), ["b5", "b6"], "one of the same length is no reason");
    extend(&other, 0, 1, 0);
    receiver.settle().await;
    assert_eq!(receiver.told(), ["b7", "b8", "b9"]);
    extend(&one, 0, 1, 0);
    receiver.settle().await;
    assert_eq!(receiver.told(), ["b7", "b8", "b9"]);
    other.set_down(true);
    receiver.settle().await;
    assert_eq!(receiver.told(), ["b5", "b6", "b10"], "the other one may be gone for good");
}

// Shows (Webhooks).
#[tokio::test]
async fn a_node_that_fails_is_replaced_by_another_of_the_same_branch() {
    let (tree, one) = grown(4);
    let other = TreeNode::new(&tree);
    other.set_head(one.head());
    let mut receiver = Receiver::new(false, vec![one.clone(), other.clone()]);
    receiver.settle().await;
    one.set_down(true);
    other.set_head(tree.grow(other.head(), 0));
    receiver.settle().await;
    assert_eq!((receiver.told(), receiver.follower.current), (vec!["b5".to_owned()], Some(1)));
}

// Shows (Webhooks).
#[tokio::test]
async fn nodes_that_never_answer_do_not_keep_others_from_being_asked() {
    let (tree, last) = grown(4);
    let mut nodes: Vec<_> = (0..4).map(|_| TreeNode::new(&tree)).collect();
    for node in &nodes {
        node.set_head(last.head());
        node.set_down(true);
    }
    nodes.push(last.clone());
    let mut receiver = Receiver::new(true, nodes);
    receiver.settle().await;
    extend(&last, 0, 2, 0);
    receiver.settle().await;
    assert_eq!(
        (receiver.told(), receiver.follower.current),
        (vec!["b5".to_owned(), "b6".to_owned()], Some(4))
    );
}

// Shows (Webhooks).
#[tokio::test]
async fn following_continues_below_every_known_block_without_inventing_events() {
    for names_parents in [true, false] {
        let (_, node) = grown(2);
        extend(&node, 0, 2, 0);
        let mut receiver = Receiver::new(names_parents, vec![node.clone()]);
        receiver.settle().await;
        extend(&node, 0, KEPT as usize + 6, 0);
        receiver.settle().await;
        let reported = receiver.told();
        extend(&node, KEPT as usize + 3, KEPT as usize + 5, 0);
        receiver.settle().await;
        assert_eq!((receiver.all_gone, receiver.newest()), (1, Some(node.height())));
        assert!(reported.iter().all(|hash| receiver.told[hash] == 1), "nothing is taken back");
    }
}

#[derive(Clone, Debug)]
enum Move {
    /// A branch of this length, from this depth below the head, with skipped heights.
    Branch(usize, usize, u64),
    /// A jump to any block that ever existed.
    Jump(prop::sample::Index),
    Look(usize),
    Restart,
    Down(bool),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        6 => (0..=10_usize, 1..=12_usize, 0..3_u64).prop_map(|(depth, length, gap)| Move::Branch(depth, length, gap)),
        2 => any::<prop::sample::Index>().prop_map(Move::Jump),
        5 => (1..16_usize).prop_map(Move::Look),
        2 => Just(Move::Restart),
        1 => any::<bool>().prop_map(Move::Down),
    ];
    prop::collection::vec(one, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    // Shows (Webhooks): After any reorganisations a receiver's sum of events is the canonical chain.
    #[test]
    fn a_receivers_sum_of_events_is_the_canonical_chain_after_any_reorganisations(
        names_parents in any::<bool>(),
        moves in moves(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let tree = Tree::new();
        let node = TreeNode::new(&tree);
        let mut receiver = Receiver::new(names_parents, vec![node.clone()]);
        runtime.block_on(receiver.settle());
        for one in moves {
            match one {
                Move::Branch(depth, length, gap) => {
                    // The first block stays, because the blocks below it are unknown.
                    let depth = depth.min(tree.branch(node.head()).len() - 1).min(KEPT as usize / 2);
                    extend(&node, depth, length, gap);
                }
                Move::Jump(to) => {
                    let to = to.index(tree.len());
                    let branch = hashes(&tree.branch(to));
                    if receiver.stored.iter().any(|block| branch.contains(&block.hash)) {
                        node.set_head(to);
                    }
                }
                Move::Look(times) => {
                    for _ in 0..times {
                        let _ = runtime.block_on(receiver.round());
                    }
                }
                Move::Restart => receiver.restart(),
                Move::Down(is_down) => node.set_down(is_down),
            }
        }
        node.set_down(false);
        runtime.block_on(receiver.settle());
        if receiver.all_gone == 0 {
            // A node that is only shorter does not remove the known blocks above its head.
            let newest = receiver.follower.newest().unwrap().hash[1..].parse::<usize>().unwrap();
            let branch = tree.branch(newest);
            prop_assert!(branch.contains(&tree.block(node.head())));
            let mut expected = hashes(&branch[1..]);
            expected.sort_by_key(|hash| hash[1..].parse::<usize>().unwrap());
            prop_assert_eq!(receiver.told(), expected);
        }
    }
}
