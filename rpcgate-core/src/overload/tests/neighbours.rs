//! Projects that share a chain, in simulated time: a project is refused only for its own load.

use crate::caller::ProjectId;
use crate::overload::*;
use crate::plan::Tier;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const MILLI: u64 = 1_000;
const SECOND: u64 = 1_000_000;

/// A project that keeps `lanes` calls in flight, like a client with that number of connections.
#[derive(Clone, Copy, Debug)]
struct Project {
    lanes: usize,
    /// The microseconds that a node works on one of its calls.
    takes: u64,
    /// The microseconds between an answer or a refusal and the next call of a connection.
    rests: u64,
    tier: Tier,
    method: u64,
}

impl Project {
    fn of(lanes: usize, takes_millis: u64) -> Self {
        let takes = takes_millis * MILLI;
        let rests = 100 * MILLI;
        Project { lanes, takes, rests, tier: Tier::Free, method: 1 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Outcome {
    answered: usize,
    refused: usize,
    refused_when_idle: usize,
    refused_below_share: usize,
    in_flight: usize,
}

/// A chain with one node, which works on at most `slots` calls at a time.
struct Chain {
    load: Arc<ChainLoad>,
    slots: usize,
    now: u64,
    next: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    waiting: VecDeque<(u64, usize)>,
    entered: BTreeMap<u64, (LoadSlot, usize)>,
    working: usize,
    outcomes: Vec<Outcome>,
    dice: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives(usize),
    Answered(u64),
}

impl Chain {
    fn new(slots: usize) -> Self {
        Chain {
            load: Arc::new(ChainLoad::new(LoadRules::default())),
            slots,
            now: 0,
            next: 0,
            events: BinaryHeap::new(),
            waiting: VecDeque::new(),
            entered: BTreeMap::new(),
            working: 0,
            outcomes: Vec::new(),
            dice: 1,
        }
    }

    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % 1_000
    }

    fn at(&mut self, time: u64, event: Event) {
        self.next += 1;
        self.events.push(Reverse((time, self.next, event)));
    }

    /// Runs the projects for `secs` seconds. The calls of the previous run end first.
    fn run(&mut self, secs: u64, projects: &[Project]) -> Vec<Outcome> {
        self.outcomes = vec![Outcome::default(); projects.len()];
        let end = self.now + secs * SECOND;
        for (who, project) in projects.iter().enumerate() {
            for _ in 0..project.lanes {
                let first = self.now + self.roll() * project.rests / 1_000;
                self.at(first, Event::Arrives(who));
            }
        }
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            self.now = self.now.max(time);
            match event {
                Event::Arrives(_) if time >= end => {}
                Event::Arrives(who) => self.arrive(who, projects),
                Event::Answered(call) => self.answer(call, projects, end),
            }
        }
        self.outcomes.clone()
    }

    fn arrive(&mut self, who: usize, projects: &[Project]) {
        let project = projects[who];
        let time = Duration::from_micros(self.now);
        // A refusal may change the limit.
        let share = self.share(project.tier);
        match self.load.enter(ProjectId(who as u128 + 1), project.tier, time) {
            Ok(slot) => {
                self.next += 1;
                let call = self.next;
                self.entered.insert(call, (slot, who));
                self.outcomes[who].in_flight += 1;
                self.waiting.push_back((call, who));
                self.work(projects);
            }
            Err(ChainOverloaded) => {
                let its = self.outcomes[who].in_flight;
                let outcome = &mut self.outcomes[who];
                outcome.refused += 1;
                outcome.refused_when_idle += usize::from(its == 0);
                outcome.refused_below_share += usize::from(its < share);
                let again = self.now + 10 * project.rests;
                self.at(again, Event::Arrives(who));
            }
        }
    }

    fn share(&self, tier: Tier) -> usize {
        let weights = LoadRules::default().weights.map(|weight| weight as usize);
        let active = self.load.active();
        let all: usize = active.iter().zip(weights).map(|(active, weight)| *active as usize * weight).sum();
        // A refused project with nothing in flight is not counted; that is a separate failure.
        (self.load.limit().unwrap_or(usize::MAX / 1_000) * weights[tier as usize] / all.max(1)).max(1)
    }

    fn work(&mut self, projects: &[Project]) {
        while self.working < self.slots
            && let Some((call, who)) = self.waiting.pop_front()
        {
            self.working += 1;
            let ends = self.now + projects[who].takes * (900 + self.roll() / 5) / 1_000;
            self.at(ends, Event::Answered(call));
        }
    }

    fn answer(&mut self, call: u64, projects: &[Project], end: u64) {
        let Some((slot, who)) = self.entered.remove(&call) else { return };
        slot.answered(projects[who].method, Duration::from_micros(self.now));
        self.working -= 1;
        self.outcomes[who].answered += 1;
        self.outcomes[who].in_flight -= 1;
        if self.now < end {
            let again = self.now + projects[who].rests;
            self.at(again, Event::Arrives(who));
        }
        self.work(projects);
    }
}

/// Runs one quiet project next to `noisy` others, whose calls become slow at a node with enough capacity.
fn neighbours_of(noisy: usize, lanes: usize, quiet: Project) -> (Chain, Outcome) {
    let mut chain = Chain::new(usize::MAX);
    let with = |others: Project| [vec![quiet], vec![others; noisy]].concat();
    chain.run(6, &with(Project::of(lanes, 2)));
    let outcomes = chain.run(20, &with(Project { rests: MILLI, ..Project::of(lanes, 4_000) }));
    let first = outcomes[0];
    (chain, first)
}

// Shows (Hostile and odd traffic): A project within its fair share is not refused because another project is slow, and
// never while it has no open call (promise 78).
#[test]
fn a_project_is_not_refused_because_the_calls_of_another_one_are_slow() {
    for (noisy, lanes) in [(1, 60), (64, 1), (64, 8), (8, 40)] {
        let (_, quiet) = neighbours_of(noisy, lanes, Project::of(1, 2));
        assert_eq!(quiet.refused, 0, "{noisy} projects with {lanes} calls each: {quiet:?}");
        assert!(quiet.answered > 150, "{quiet:?}");
    }
}

// Shows (Hostile and odd traffic).
#[test]
fn a_project_with_many_open_calls_is_not_refused_while_its_answers_are_in_time() {
    for method in [1, 2] {
        let (chain, quiet) = neighbours_of(1, 60, Project { method, rests: MILLI, ..Project::of(40, 20) });
        assert_eq!(quiet.refused, 0, "{quiet:?} {:?}", chain.load.limit());
    }
}

// Shows (Hostile and odd traffic).
#[test]
fn a_project_delayed_by_a_greedy_one_keeps_its_share_of_open_calls() {
    let mut chain = Chain::new(usize::MAX);
    let quiet = Project { rests: 50 * MILLI, ..Project::of(20, 80) };
    chain.run(6, &[quiet, Project::of(60, 2)]);
    // The node takes more than twice the time for all other calls while it works on the slow ones.
    let slowed = Project { takes: 200 * MILLI, ..quiet };
    let outcomes = chain.run(4, &[slowed, Project { rests: MILLI, ..Project::of(60, 4_000) }]);
    assert!(chain.load.limit().is_some_and(|limit| limit < 20), "{:?}", chain.load.limit());
    assert_eq!(outcomes[0].refused, 0, "{outcomes:?}");
}

// Shows (Hostile and odd traffic).
#[test]
fn a_greedy_project_is_still_refused_where_it_overloads_the_node() {
    let mut chain = Chain::new(16);
    let greedy = Project { rests: MILLI, ..Project::of(8, 50) };
    let modest = Project::of(1, 50);
    chain.run(6, &[greedy, modest]);
    let outcomes = chain.run(20, &[Project { lanes: 400, ..greedy }, modest]);
    assert!(outcomes[0].refused > 1_000, "{outcomes:?}");
    assert_eq!(outcomes[1].refused, 0, "{outcomes:?}");
    // Half of the node's capacity.
    assert!(outcomes[0].answered > 3_200, "it is not shut out: {outcomes:?}");
}

fn tier() -> impl Strategy<Value = Tier> {
    (0..Tier::ALL.len()).prop_map(|n| Tier::ALL[n])
}

prop_compose! {
    fn project(most: u64)(
        lanes in 1..60_usize,
        takes in 1..most,
        rests in 1..200_u64,
        tier in tier(),
        method in 1..4_u64,
    ) -> Project {
        Project { lanes, takes: takes * MILLI, rests: rests * MILLI, tier, method }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    // Shows (Hostile and odd traffic).
    #[test]
    fn no_project_is_refused_below_its_share_under_any_load_of_others(
        slots in 4..400_usize,
        before in proptest::collection::vec(project(60), 1..12),
        slowed in proptest::collection::vec(1..80_u64, 12),
    ) {
        let mut chain = Chain::new(slots);
        chain.run(3, &before);
        let after: Vec<_> = before
            .iter()
            .zip(slowed)
            .map(|(project, times)| Project { takes: (project.takes * times).min(5 * SECOND), ..*project })
            .collect();
        for outcome in chain.run(6, &after) {
            prop_assert_eq!((outcome.refused_when_idle, outcome.refused_below_share), (0, 0), "{:?}", outcome);
            prop_assert_eq!(outcome.in_flight, 0);
        }
        prop_assert_eq!((chain.load.in_flight(), chain.load.slots_in_use()), (0, 0));
    }

    // Shows (Hostile and odd traffic).
    #[test]
    fn a_project_whose_calls_are_as_quick_as_before_is_not_refused(
        quiet in project(60),
        noisy in proptest::collection::vec(project(60), 1..12),
        times in 20..2_000_u64,
    ) {
        let mut chain = Chain::new(usize::MAX);
        chain.run(4, &[vec![quiet], noisy.clone()].concat());
        let slow = noisy
            .iter()
            .map(|project| Project { takes: (project.takes * times).min(5 * SECOND), rests: MILLI, ..*project });
        let outcomes = chain.run(8, &[vec![quiet], slow.collect()].concat());
        prop_assert_eq!(outcomes[0].refused, 0, "{:?}", outcomes);
    }
}
