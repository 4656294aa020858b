//! One world: its chains, their nodes, a gateway's stack and its clients, through several lives of the process.

use crate::arrivals::{NodeArrivals, ReportedSeconds};
use crate::check::{DEADLINE, KnownChain, PRICES};
use crate::client::CalledChain;
use crate::nodes::NODES;
use crate::pools::PoolKind;
use crate::report::KeyLimits;
use crate::{
    Clock, Dice, Duration, ForkingChain, RandomClient, START, SimulationReport, TestSeed, UnreliableNodes,
    VirtualClock, between,
};
use arc_swap::ArcSwap;
use rpcgate_core::backend::counters::MemoryCounters;
use rpcgate_core::backend::directory::MemoryDirectory;
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::{Chain, ChainOverrides};
use rpcgate_core::clock::ManualClock;
use rpcgate_core::plan::{Plan, Tier};
use rpcgate_core::secret::KeyHash;
use rpcgate_core::tally::Accounting;
use rpcgate_layers::nodes::{NodeConfig, NodeDrains, Pool, Pools, SecondReason, watch_head};
use rpcgate_layers::stack::{HttpStack, Parts, http_stack};
use rpcgate_server::journal::{Journal, JournalOptions};
use rpcgate_tests::gateway::Setup;
use rpcgate_tests::process::Site;
use rpcgate_tests::stored_usage::StoredUsage;
use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

/// The HTTP stack, as it is served.
pub(crate) type Stack = HttpStack;

const LIVES: u64 = 2;
const LONGEST: u64 = 240;
/// The interval of probes of the nodes, of changes of their moods, and of changes of drained nodes.
const PROBE: Duration = Duration::from_secs(5);
const MOOD: u64 = 40;
const DRAIN: u64 = 25;

/// The chains: their paths, the seconds between two blocks, and the number after which their hashes begin.
const CHAINS: [(&str, u64, u64); 2] = [("eth", 12, 0), ("polygon", 2, 1 << 40)];

/// Empty databases that every world copies.
pub(crate) struct EmptyDatabases {
    site: Site,
    real: Runtime,
}

impl EmptyDatabases {
    pub(crate) fn new() -> Self {
        let real = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let site = Site::new(Setup::new());
        real.block_on(async {
            site.within(Arc::new(ManualClock::at(START))).await.drain().await;
        });
        EmptyDatabases { site, real }
    }
}

pub(crate) struct World<'e> {
    empty: &'e EmptyDatabases,
    seed: u64,
    dice: Dice,
    site: Site,
    kind: PoolKind,
    blocks: [Arc<Mutex<ForkingChain>>; 2],
    /// The counters outlive the process, as they would in Redis.
    counters: Arc<MemoryCounters>,
    callers: Vec<(String, Caller)>,
    report: Arc<Mutex<SimulationReport>>,
    jumps: bool,
    elapsed: Duration,
    set: i64,
    /// The number of minutes that the wall clock has entered.
    minutes: u64,
}

impl<'e> World<'e> {
    pub(crate) fn new(seed: u64, empty: &'e EmptyDatabases) -> Self {
        let mut dice = TestSeed(seed).dice(0);
        let site = Site::new(Setup::new());
        fs::create_dir_all(site.database().parent().unwrap()).unwrap();
        fs::copy(empty.site.database(), site.database()).unwrap();
        fs::copy(empty.site.usage_database(), site.usage_database()).unwrap();
        let callers = (1..=between(&mut dice, 2, 5)).map(|number| caller(number, &mut dice)).collect();
        let jumps = dice.below(2) == 0;
        let kind = PoolKind::ALL[seed as usize % PoolKind::ALL.len()];
        World {
            empty,
            seed,
            dice,
            site,
            kind,
            blocks: CHAINS.map(|(_, _, hashes)| Arc::new(Mutex::new(ForkingChain::new(hashes)))),
            counters: Arc::default(),
            callers,
            report: Arc::default(),
            jumps,
            elapsed: Duration::ZERO,
            set: 0,
            minutes: 1,
        }
    }

    /// Runs the world and returns its events and broken promises.
    pub(crate) fn run(mut self) -> SimulationReport {
        for life in 1..=LIVES {
            self.live(life);
        }
        let events = self.empty.real.block_on(async { StoredUsage::open(&self.site).await.events().await });
        let limits: BTreeMap<_, _> =
            self.callers.iter().map(|(key, caller)| (key.clone(), limits(caller))).collect();
        let mut report = std::mem::take(&mut *self.report.lock().unwrap());
        report.check_windows(&limits, self.minutes, self.jumps);
        let heaviest = PRICES.iter().map(|(_, units)| *units).max().unwrap_or_default();
        report.check_records(&events, &limits, heaviest);
        report.reorganisations =
            self.blocks.iter().map(|blocks| blocks.lock().unwrap().reorganisations).sum();
        report
    }

    /// Runs one life of the process: it starts, serves, and is killed with calls in flight. The next one starts and
    /// ships the content of the journal.
    fn live(&mut self, life: u64) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let journal = runtime.block_on(self.serve(life));
        // The content of the disk at this moment, before anything of the process ends cleanly.
        let killed = tempfile::tempdir().unwrap();
        self.keep_journal(&killed);
        drop((runtime, journal));
        fs::remove_dir_all(self.site.journal()).unwrap();
        fs::create_dir_all(self.site.journal()).unwrap();
        for file in fs::read_dir(killed.path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), self.site.journal().join(file.file_name())).unwrap();
        }
        let clock = ManualClock::at(START.plus(self.elapsed));
        self.empty.real.block_on(async {
            self.site.within(Arc::new(clock)).await.drain().await;
        });
    }

    fn keep_journal(&self, to: &TempDir) {
        for file in fs::read_dir(self.site.journal()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), to.path().join(file.file_name())).unwrap();
        }
    }

    async fn serve(&mut self, life: u64) -> Arc<Journal> {
        let clock = Arc::new(VirtualClock::after(self.elapsed, self.set));
        let config = self.site.config();
        let options = JournalOptions { shards: 1, ..JournalOptions::new(&config.journal, clock.clone()) };
        let journal = Journal::open(options).unwrap();
        journal.admit();
        let chains: Vec<_> = (0..CHAINS.len()).map(|place| self.chain(life, place, &clock)).collect();
        let stack = self.stack(&clock, &chains, &journal);
        for client in 0..between(&mut self.dice, 2, 7) {
            let (key, _) = &self.callers[self.dice.below(self.callers.len() as u64) as usize];
            let client = RandomClient {
                stack: stack.clone(),
                key: key.clone(),
                clock: clock.clone(),
                chains: chains.iter().map(|chain| chain.called.clone()).collect(),
                report: self.report.clone(),
                dice: TestSeed(self.seed).dice(1_000 * life + client),
                name: format!("{life}-{client}"),
            };
            // It ends with the runtime.
            tokio::spawn(client.live());
        }
        let mut minute = clock.now().minute();
        for second in 1..=between(&mut self.dice, 60, LONGEST) {
            sleep(Duration::from_secs(1)).await;
            for ((_, block, _), blocks) in CHAINS.iter().zip(&self.blocks) {
                if second.is_multiple_of(*block) {
                    blocks.lock().unwrap().grow(&mut self.dice, clock.elapsed());
                }
            }
            if second.is_multiple_of(MOOD) {
                chains.iter().for_each(|chain| chain.nodes.change());
            }
            if second.is_multiple_of(DRAIN) {
                chains.iter().for_each(|chain| chain.drain(&mut self.dice, clock.elapsed()));
            }
            if self.jumps && self.dice.below(60) == 0 {
                clock.jump(between(&mut self.dice, 0, 7_200) as i64 - 3_600);
                // The previous minute may have begun within this second.
                self.minutes += 1;
            }
            let now = clock.now().minute();
            self.minutes += u64::from(now != minute);
            minute = now;
        }
        sleep(Duration::from_millis(self.dice.below(1_000))).await;
        self.minutes += u64::from(clock.now().minute() != minute);
        (self.elapsed, self.set) = (clock.elapsed(), clock.set());
        let mut report = self.report.lock().unwrap();
        chains.iter().for_each(|chain| chain.report(&mut report, self.elapsed));
        drop(report);
        journal
    }

    /// Creates a chain for one life, with a pool of nodes whose heads are watched.
    fn chain(&mut self, life: u64, place: usize, clock: &Arc<VirtualClock>) -> ServedChain {
        let (name, _, _) = CHAINS[place];
        let (limits, rules) = self.kind.pool();
        let arrivals = Arc::new(Mutex::new(NodeArrivals::new(rules)));
        let blocks = self.blocks[place].clone();
        let liar = Some(self.dice.below(6) as usize).filter(|node| *node < NODES);
        let dice = TestSeed(self.seed).dice(100 * life + place as u64);
        let nodes = UnreliableNodes::new(name, clock.clone(), (blocks.clone(), arrivals.clone()), liar, dice);
        let adapter = rpcgate_chains::by_path(name).unwrap();
        let overrides = ChainOverrides::default().with_timeout(DEADLINE);
        let chain = Arc::new(Chain::new(adapter, overrides, true, Arc::default()));
        let drains = NodeDrains::default();
        let config = |node| {
            let config = NodeConfig::new(node_url(node).parse().unwrap()).with_dialer(nodes.dialer(node));
            let drain = drains.of(chain.name(), &config.name().to_string());
            config.with_drain(drain)
        };
        let pool = Pool::new(chain.facts(), (0..NODES).map(config).collect(), limits, clock.clone());
        // It ends with the runtime.
        tokio::spawn(watch_head(pool.clone(), chain.clone(), PROBE));
        let known = KnownChain { name, blocks, has_liar: liar.is_some() };
        ServedChain { chain, pool, nodes, drains, called: CalledChain { known, arrivals } }
    }

    fn stack(&self, clock: &Arc<VirtualClock>, chains: &[ServedChain], journal: &Arc<Journal>) -> Stack {
        let accounting = Accounting::new(clock.clone(), self.counters.clone(), journal.clone());
        let callers = self.callers.iter().map(|(key, caller)| (KeyHash::of(key), Arc::new(caller.clone())));
        let pools: Pools = chains.iter().map(|chain| chain.pool.clone()).collect();
        http_stack(&Parts::new(
            Arc::new(ArcSwap::from_pointee(chains.iter().map(|chain| chain.chain.clone()).collect())),
            Arc::new(ArcSwap::from_pointee(pools)),
            Arc::new(MemoryDirectory::new(callers)),
            Arc::new(accounting),
        ))
    }
}

struct ServedChain {
    chain: Arc<Chain>,
    pool: Arc<Pool>,
    nodes: Arc<UnreliableNodes>,
    drains: NodeDrains,
    called: CalledChain,
}

impl ServedChain {
    /// Drains some but not all of the nodes, and resumes the others.
    fn drain(&self, dice: &mut Dice, now: Duration) {
        let spared = dice.below(NODES as u64) as usize;
        let drained: Vec<_> = (0..NODES).filter(|node| *node != spared && dice.below(3) == 0).collect();
        let views = self.pool.nodes().filter(|view| drained.contains(&view.index.get()));
        let names = views.map(|view| (self.chain.name().as_str().to_owned(), view.name.to_string()));
        self.drains.set(names.collect());
        self.called.arrivals.lock().unwrap().drain(&drained, now);
    }

    /// Adds the arrivals at the nodes until `now`.
    fn report(&self, report: &mut SimulationReport, now: Duration) {
        let mut arrivals = self.called.arrivals.lock().unwrap();
        let reported = |reason| self.pool.second_requests(reason);
        let reported = ReportedSeconds {
            hedges: reported(SecondReason::Hedge),
            trials: reported(SecondReason::Trial),
            slow: reported(SecondReason::Slow),
        };
        arrivals.compare(reported, now);
        arrivals.broken.drain(..).for_each(|what| report.broken(format!("{}: {what}", self.chain.name())));
        report.repeats += arrivals.repeats;
        report.hedges += reported.hedges;
        report.trials += reported.trials;
        report.writes += arrivals.writes;
        report.gathered += self.pool.arrays().unwrap_or_default().calls;
    }
}

/// Returns the address of a node, which only its dialer reads.
fn node_url(node: usize) -> String {
    format!("http://node-{node}.invalid")
}

fn limits(caller: &Caller) -> KeyLimits {
    KeyLimits { project: caller.project, per_minute: caller.plan.per_minute, units: caller.quota.cu_per_day }
}

/// Creates a key with its own plan and quota.
fn caller(number: u64, dice: &mut Dice) -> (String, Caller) {
    let id = u128::from(number);
    let mut plan = Plan::of(Tier::Premium);
    (plan.per_minute, plan.per_hour) = (between(dice, 3, 60), 100_000);
    let mut caller = Caller::of(id, plan);
    caller.quota.cu_per_day = between(dice, 200, 8_000);
    (format!("rpcg_{number:x<45}"), caller)
}
