//! One world: a chain, its nodes, a gateway's stack and its clients, through several lives of the process.

use crate::{
    Clock, Dice, Duration, ForkingChain, RandomClient, START, SimulationReport, TestSeed, UnreliableNodes,
    VirtualClock, between,
};
use arc_swap::ArcSwap;
use rpcgate_core::backend::counters::MemoryCounters;
use rpcgate_core::backend::directory::MemoryDirectory;
use rpcgate_core::caller::{Caller, KeyId, ProjectId, TenantId};
use rpcgate_core::chain::Chain;
use rpcgate_core::clock::ManualClock;
use rpcgate_core::plan::{Plan, Tier};
use rpcgate_core::secret::KeyHash;
use rpcgate_core::tally::Accounting;
use rpcgate_layers::call::batch::{Batch, BatchLayer};
use rpcgate_layers::request::route::Entrance;
use rpcgate_layers::respond::{Respond, RespondLayer};
use rpcgate_layers::stack::{AdmissionStack, CallStack, Parts, admission_stack, call_stack};
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
use tower::Layer;

/// The stack of HTTP, with nodes that need no sockets at its end.
pub(crate) type Stack = Respond<AdmissionStack<Batch<CallStack<UnreliableNodes>>>>;

/// Lives of the process.
const LIVES: u64 = 2;
/// Seconds of the longest life.
const LONGEST: u64 = 240;
/// The units of the heaviest method that clients call.
const HEAVIEST: u64 = 20;
/// Seconds between two blocks, two probes of the nodes, and two changes of their moods.
const BLOCK: u64 = 12;
const PROBE: u64 = 5;
const MOOD: u64 = 40;

/// Databases without content, which every world copies.
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

/// The world of a seed.
pub(crate) struct World<'e> {
    empty: &'e EmptyDatabases,
    seed: u64,
    dice: Dice,
    site: Site,
    chain: Arc<Mutex<ForkingChain>>,
    /// They outlive the process, as they would in Redis.
    counters: Arc<MemoryCounters>,
    callers: Vec<(String, Caller)>,
    report: Arc<Mutex<SimulationReport>>,
    jumps: bool,
    elapsed: Duration,
    set: i64,
    /// Minutes that the wall clock has come to.
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
        World {
            empty,
            seed,
            dice,
            site,
            chain: Arc::new(Mutex::new(ForkingChain::new())),
            counters: Arc::default(),
            callers,
            report: Arc::default(),
            jumps,
            elapsed: Duration::ZERO,
            set: 0,
            minutes: 1,
        }
    }

    /// Everything that happens in it, and what was broken.
    pub(crate) fn run(mut self) -> SimulationReport {
        for life in 1..=LIVES {
            self.live(life);
        }
        let events = self.empty.real.block_on(async { StoredUsage::open(&self.site).await.events().await });
        let limits = self.callers.iter().map(|(key, caller)| (key.clone(), caller.plan.per_minute)).collect();
        let ceilings: BTreeMap<_, _> =
            self.callers.iter().map(|(_, caller)| (caller.project, caller.quota.cu_per_day)).collect();
        let mut report = std::mem::take(&mut *self.report.lock().unwrap());
        report.check_windows(&limits, self.minutes, self.jumps);
        report.check_records(&events, &ceilings, HEAVIEST);
        report.reorganisations = self.chain.lock().unwrap().reorganisations;
        report
    }

    /// One life of the process: it begins, serves, and is killed with calls in flight. Then the next one begins, which ships
    /// what is in the journal.
    fn live(&mut self, life: u64) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let journal = runtime.block_on(self.serve(life));
        // What the disk has at this moment, before anything of the process ends in good order.
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
        let chain = Arc::new(Chain::deployed(rpcgate_chains::by_path("eth").unwrap()));
        let nodes = UnreliableNodes::new(clock.clone(), self.chain.clone(), TestSeed(self.seed).dice(life));
        nodes.probed(&chain);
        let stack = self.stack(&clock, &chain, &journal, nodes.clone());
        for client in 0..between(&mut self.dice, 2, 7) {
            let (key, _) = &self.callers[self.dice.below(self.callers.len() as u64) as usize];
            let client = RandomClient {
                stack: stack.clone(),
                key: key.clone(),
                clock: clock.clone(),
                chain: self.chain.clone(),
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
            if second.is_multiple_of(BLOCK) {
                self.chain.lock().unwrap().grow(&mut self.dice, clock.elapsed());
            }
            if second.is_multiple_of(PROBE) {
                nodes.probed(&chain);
            }
            if second.is_multiple_of(MOOD) {
                nodes.change();
            }
            if self.jumps && self.dice.below(60) == 0 {
                clock.jump(between(&mut self.dice, 0, 7_200) as i64 - 3_600);
                // The minute before it may have begun within this second.
                self.minutes += 1;
            }
            let now = clock.now().minute();
            self.minutes += u64::from(now != minute);
            minute = now;
        }
        sleep(Duration::from_millis(self.dice.below(1_000))).await;
        self.minutes += u64::from(clock.now().minute() != minute);
        (self.elapsed, self.set) = (clock.elapsed(), clock.set());
        journal
    }

    fn stack(
        &self,
        clock: &Arc<VirtualClock>,
        chain: &Arc<Chain>,
        journal: &Arc<Journal>,
        nodes: UnreliableNodes,
    ) -> Stack {
        let accounting = Accounting::new(clock.clone(), self.counters.clone(), journal.clone());
        let callers = self.callers.iter().map(|(key, caller)| (KeyHash::of(key), Arc::new(caller.clone())));
        let parts = Parts::new(
            Arc::new(ArcSwap::from_pointee([chain.clone()].into_iter().collect())),
            Arc::new(ArcSwap::from_pointee([].into_iter().collect())),
            Arc::new(MemoryDirectory::new(callers)),
            Arc::new(accounting),
        );
        // As in `rpcgate_layers::stack::http_stack`.
        let calls = call_stack(&parts, nodes);
        let batch = BatchLayer::new()
            .with_body(parts.body)
            .with_envelope(parts.envelope)
            .with_answer(parts.reply.max)
            .with_room(parts.room.clone());
        RespondLayer::new(clock.clone()).layer(admission_stack(&parts, Entrance::HTTP, batch.layer(calls)))
    }
}

/// A key with a plan and a quota of its own.
fn caller(number: u64, dice: &mut Dice) -> (String, Caller) {
    let id = u128::from(number);
    let mut plan = Plan::of(Tier::Premium);
    (plan.per_minute, plan.per_hour) = (between(dice, 3, 60), 100_000);
    let mut caller = Caller::new(KeyId(id), ProjectId(id), TenantId(id), plan);
    caller.quota.cu_per_day = between(dice, 200, 8_000);
    (format!("rpcg_{number:x<45}"), caller)
}
