//! A chain with nodes of limited capacity, under changing load, in simulated time.

mod neighbours;

use super::*;
use crate::caller::ProjectId;
use crate::plan::Tier;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const MICROS: u64 = 1_000_000;

/// A node that works on `slots` calls at a time, `takes` microseconds each, and queues the others.
struct Simulation {
    load: Arc<ChainLoad>,
    slots: usize,
    takes: u64,
    kind: u64,
    now: u64,
    working: BinaryHeap<Reverse<(u64, u64)>>,
    entered: std::collections::HashMap<u64, (LoadSlot, usize, u64)>,
    waiting: VecDeque<u64>,
    calls: u64,
    /// A source of small irregularities.
    dice: u64,
    answered: Vec<(u64, usize)>,
    refused: Vec<usize>,
}

impl Simulation {
    fn new(slots: usize, takes_millis: u64) -> Self {
        Self::by(LoadRules::default(), slots, takes_millis)
    }

    fn by(rules: LoadRules, slots: usize, takes_millis: u64) -> Self {
        Simulation {
            load: Arc::new(ChainLoad::new(rules)),
            slots,
            takes: takes_millis * 1_000,
            kind: 7,
            now: 0,
            working: BinaryHeap::new(),
            entered: std::collections::HashMap::new(),
            waiting: VecDeque::new(),
            calls: 0,
            dice: 1,
            answered: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn capacity(&self) -> u64 {
        self.slots as u64 * MICROS / self.takes
    }

    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % 1_000
    }

    /// Calls for `secs` seconds, with each project at its rate and on its tier. Resets the counts first.
    fn run(&mut self, secs: u64, projects: &[(u64, Tier)]) -> &mut Self {
        (self.answered, self.refused) = (Vec::new(), vec![0; projects.len()]);
        let end = self.now + secs * MICROS;
        let mut next: Vec<u64> = projects.iter().map(|_| self.now).collect();
        loop {
            let (who, at) = next.iter().copied().enumerate().min_by_key(|(_, at)| *at).unwrap_or((0, end));
            if let Some(Reverse((done, _))) = self.working.peek().copied()
                && done <= at.min(end)
            {
                self.complete();
                continue;
            }
            if at >= end {
                break;
            }
            self.now = at;
            // Between zero and two of the average intervals.
            next[who] = at + (2 * MICROS / projects[who].0.max(1)) * (self.roll() + 1) / 1_000 + 1;
            self.arrive(who, projects[who].1);
        }
        self.now = end;
        self
    }

    fn arrive(&mut self, who: usize, tier: Tier) {
        let project = ProjectId(who as u128 + 1);
        match self.load.enter(project, tier, Duration::from_micros(self.now)) {
            Err(_) => self.refused[who] += 1,
            Ok(slot) => {
                self.calls += 1;
                self.entered.insert(self.calls, (slot, who, self.now));
                self.waiting.push_back(self.calls);
                self.work();
            }
        }
    }

    fn work(&mut self) {
        while self.working.len() < self.slots
            && let Some(call) = self.waiting.pop_front()
        {
            let takes = self.takes * (800 + self.roll() * 2 / 5) / 1_000;
            self.working.push(Reverse((self.now + takes, call)));
        }
    }

    fn complete(&mut self) {
        let Some(Reverse((done, call))) = self.working.pop() else { return };
        self.now = self.now.max(done);
        let (slot, who, since) = self.entered.remove(&call).unwrap();
        slot.answered(self.kind, Duration::from_micros(done));
        self.answered.push((done - since, who));
        self.work();
    }

    fn p99(&self) -> u64 {
        let mut all: Vec<u64> = self.answered.iter().map(|(took, _)| *took).collect();
        all.sort_unstable();
        all[all.len() * 99 / 100] / 1_000
    }

    fn all_refused(&self) -> usize {
        self.refused.iter().sum()
    }
}

const FREE: Tier = Tier::Free;

// Shows (Hostile and odd traffic).
#[test]
fn three_times_the_capacity_changes_neither_throughput_nor_latency_much() {
    for (slots, millis) in [(16, 60), (32, 50), (64, 100), (256, 100)] {
        let mut node = Simulation::new(slots, millis);
        let capacity = node.capacity();
        node.run(10, &[(capacity / 2, FREE)]);
        let usual = node.p99();
        assert_eq!(node.all_refused(), 0, "half of the capacity is no load");
        node.run(5, &[(capacity * 3, FREE)]).run(20, &[(capacity * 3, FREE)]);
        let good = node.answered.len() as u64 / 20;
        let late = node.p99();
        assert!(good * 100 >= capacity * 85, "{slots} {millis}: {good} of {capacity} a second");
        assert!(late <= usual * 4, "{slots} {millis}: {late} ms after {usual} ms");
        node.run(5, &[(capacity / 2, FREE)]).run(5, &[(capacity / 2, FREE)]);
        assert_eq!(node.all_refused(), 0, "{slots} {millis}: the load is over");
        assert!(node.p99() <= usual * 3 / 2, "{slots} {millis}: {} ms", node.p99());
    }
}

#[test]
fn a_modest_project_is_served_while_a_greedy_one_is_refused() {
    let mut node = Simulation::new(32, 50);
    let capacity = node.capacity();
    node.run(10, &[(capacity / 4, FREE), (capacity / 8, FREE)]);
    let both = [(capacity * 3, FREE), (capacity / 8, FREE)];
    node.run(5, &both).run(20, &both);
    let modest = node.answered.iter().filter(|(_, who)| *who == 1).count();
    assert!(node.refused[1] * 50 <= modest, "{} refused of {modest}", node.refused[1]);
    assert!(node.refused[0] > 1_000, "{}", node.refused[0]);
}

// Shows (Hostile and odd traffic).
#[test]
fn projects_of_higher_tiers_have_larger_shares() {
    let mut node = Simulation::new(32, 50);
    let capacity = node.capacity();
    node.run(10, &[(capacity / 4, FREE), (capacity / 4, Tier::Enterprise)]);
    let both = [(capacity * 2, FREE), (capacity * 2, Tier::Enterprise)];
    node.run(5, &both).run(20, &both);
    let of = |who| node.answered.iter().filter(|(_, its)| *its == who).count();
    assert!(of(1) > of(0) * 2, "{} against {}", of(1), of(0));
    assert!(of(0) > 100, "a lower one is not shut out: {}", of(0));
}

// Shows (Hostile and odd traffic).
#[test]
fn ordinary_changes_refuse_no_call() {
    // A much slower node replaces one, as its answers show.
    let mut node = Simulation::new(100_000, 2);
    node.run(5, &[(1_000, FREE)]);
    (node.takes, node.kind) = (120_000, 8);
    node.run(10, &[(1_000, FREE)]);
    assert_eq!((node.all_refused(), node.load.limit()), (0, None));
    // A burst that the node handles easily.
    node.run(1, &[(20_000, FREE)]);
    assert_eq!((node.all_refused(), node.load.limit()), (0, None));
    // Few calls, however late.
    let mut node = Simulation::new(4, 20);
    node.run(5, &[(20, FREE)]);
    node.takes = 900_000;
    node.run(5, &[(5, FREE)]);
    assert_eq!((node.all_refused(), node.load.limit()), (0, None));
    // Answers that are later than usual but still fast.
    let mut node = Simulation::new(100_000, 1);
    node.run(5, &[(2_000, FREE)]);
    node.takes = 70_000;
    node.run(5, &[(2_000, FREE)]);
    assert_eq!((node.all_refused(), node.load.limit()), (0, None));
}

// Shows (Hostile and odd traffic).
#[test]
fn the_state_of_a_past_load_has_no_effect_after_an_idle_time() {
    let after_load = || {
        let mut node = Simulation::new(32, 50);
        let capacity = node.capacity();
        node.run(10, &[(capacity / 2, FREE)]).run(10, &[(capacity * 3, FREE)]);
        while !node.working.is_empty() {
            node.complete();
        }
        node.refused = vec![0];
        node
    };
    let burst = |node: &mut Simulation| {
        (0..500).for_each(|_| node.arrive(0, FREE));
        node.all_refused()
    };
    let is_idle = |node: &Simulation| node.load.is_idle(Duration::from_micros(node.now));
    let mut soon = after_load();
    assert!(!is_idle(&soon) && soon.load.limit().is_some());
    assert!(burst(&mut soon) > 0, "the load has just ended");
    let mut later = after_load();
    later.now += 5 * MICROS;
    assert!(is_idle(&later) && later.load.limit().is_some());
    assert_eq!((burst(&mut later), later.load.limit(), is_idle(&later)), (0, None, false));
}

#[test]
fn a_node_that_has_become_slow_for_good_is_used_fully_again() {
    let mut node = Simulation::new(100_000, 10);
    node.run(5, &[(1_000, FREE)]);
    node.takes = 600_000;
    node.run(30, &[(1_000, FREE)]).run(5, &[(1_000, FREE)]);
    assert_eq!(node.all_refused(), 0, "{:?}", node.load.limit());
}

#[test]
fn a_slot_is_free_after_every_kind_of_end() {
    let load = Arc::new(ChainLoad::new(LoadRules::default().with_least(8)));
    let enter = |at| load.enter(ProjectId(1), Tier::Premium, Duration::from_secs(at)).unwrap();
    enter(0).answered(1, Duration::from_secs(1));
    enter(1).abandoned(1, Duration::from_secs(2));
    enter(2).passed(Duration::from_secs(3));
    drop(enter(3));
    assert_eq!(load.in_flight(), 0);
}

#[test]
fn an_abandoned_wait_counts_as_late_and_never_as_usual() {
    let load = Arc::new(ChainLoad::new(LoadRules::default()));
    let mut now = Duration::ZERO;
    let mut round = |ends: fn(LoadSlot, Duration), takes: Duration| {
        let entered: Vec<_> = (0..64).filter_map(|_| load.enter(ProjectId(1), FREE, now).ok()).collect();
        now += takes;
        entered.into_iter().for_each(|slot| ends(slot, now));
    };
    (0..5).for_each(|_| round(|slot, now| slot.answered(1, now), Duration::from_millis(200)));
    (0..20).for_each(|_| round(|slot, now| slot.abandoned(1, now), Duration::from_millis(10)));
    assert_eq!(load.limit(), None, "a client that leaves early says nothing");
    (0..4).for_each(|_| round(|slot, now| slot.abandoned(1, now), Duration::from_secs(5)));
    assert!(load.limit().is_some_and(|limit| limit < 64), "{:?}", load.limit());
    // Without latency samples, the limit must not stay closed.
    (0..20).for_each(|_| round(LoadSlot::passed, Duration::from_secs(1)));
    assert!(load.limit().is_none_or(|limit| limit > 1_000), "{:?}", load.limit());
    assert_eq!(load.in_flight(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    // Shows (Hostile and odd traffic).
    #[test]
    fn after_any_load_everybody_is_admitted_again_within_five_seconds(
        slots in 4..200_usize,
        millis in 5..200_u64,
        loads in proptest::collection::vec((1..40_u64, 1..3_u64), 1..6),
    ) {
        let mut node = Simulation::new(slots, millis);
        let tenth = (node.capacity() / 10).clamp(1, 500);
        node.run(5, &[(tenth * 4, FREE)]);
        for (tenths, secs) in loads {
            node.run(secs, &[(tenth * tenths, FREE)]);
            prop_assert!(node.load.limit().is_none_or(|limit| limit >= 4));
        }
        let held = node.load.in_flight() as u64 * node.takes / slots as u64 / MICROS;
        // The gateway cannot speed up what waits at the node.
        node.run(5 + held, &[(tenth * 4, FREE)]).run(5, &[(tenth * 4, FREE)]);
        prop_assert_eq!(node.all_refused(), 0, "{:?}", node.load.limit());
        while !node.working.is_empty() {
            node.complete();
        }
        prop_assert_eq!(node.load.in_flight(), 0);
        prop_assert!(node.load.slots_in_use() == 0);
    }
}
