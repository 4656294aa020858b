//! A management side that is killed while it makes deliveries and follows a chain.

use crate::*;
use rpcgate_store::{Store, url_of};
use std::fs;
use std::sync::Mutex;

/// The number of parallel deliveries of a process that is killed at rest, and of one that is killed at work.
const AT_REST: usize = 1;
const AT_WORK: usize = 8;
/// The time that the chain advances while the watcher runs, and while it does not.
const WATCHED: Duration = Duration::from_secs(60);
const UNWATCHED: Duration = Duration::from_secs(40);

/// An endpoint of a process that is killed again and again.
struct Killed {
    chains: Chains,
    receiver: Arc<WebhookReceiver>,
    setup: Setup,
    site: Site,
    owner: ApiUser,
    project: String,
    endpoint: String,
    from: u64,
    /// For each kill the deliveries that had arrived and were not marked: exactly these, or some of these.
    exactly: Vec<BTreeSet<String>>,
    at_most: Vec<BTreeSet<String>>,
}

fn sending(setup: &Setup, at_once: usize) -> Setup {
    setup.clone().set("webhooks", &format!("per_endpoint = {at_once}"))
}

fn held_by(kills: &[BTreeSet<String>], id: &str) -> usize {
    kills.iter().filter(|unmarked| unmarked.contains(id)).count()
}

impl Killed {
    async fn start() -> (Self, Process) {
        let chains = Chains::start(&["eth"]);
        let receiver = Arc::new(WebhookReceiver::start().await);
        let setup = chains
            .setup()
            .set("gateway", "key_secret = \"the same at every host\"")
            .set("admin", "listen = \"127.0.0.1:0\"")
            .set("admin.jwt", "secret = \"the same at every host, and long enough\"");
        let site = Site::new(sending(&setup, AT_REST));
        fs::create_dir_all(site.database().parent().unwrap()).unwrap();
        let process = site.manage().await;
        let mut owner = ApiUser::at(process.addr());
        owner.register("ada@example.com").await;
        let token = json!({ "token": site.mailed().await });
        let confirmed = owner.ask("POST", "/auth/confirm", Some(&token)).await;
        assert_eq!(confirmed.status, 204, "{confirmed:?}");
        owner.log_in("ada@example.com").await;
        let project = owner.project("wallet").await;
        let subscriptions = ["new_block", "token_transfer", "contract_event"]
            .map(|kind| json!({ "chain": "eth", "event_type": kind }));
        let url = receiver.url("/");
        let (endpoint, _) = endpoint(&owner, &project, &url, &subscriptions).await;
        let from = chains.height("eth");
        let killed = Killed {
            chains,
            receiver,
            setup,
            site,
            owner,
            project,
            endpoint,
            from,
            exactly: Vec::new(),
            at_most: Vec::new(),
        };
        killed.followed().await;
        (killed, process)
    }

    async fn followed(&self) {
        let store = Store::open(&url_of(&self.site.database()), false).await.unwrap();
        let height = Some(self.chains.height("eth"));
        let is_followed = async || {
            let followed = store.followed("eth").await.unwrap();
            followed.blocks.last().map(|block| block.height) == height
        };
        until_within(2 * TIMEOUT, "the chain is followed", is_followed).await;
        store.close().await;
    }

    fn arrivals(&self) -> BTreeMap<String, usize> {
        let mut arrivals = BTreeMap::new();
        for delivery in self.receiver.received() {
            *arrivals.entry(delivery.id().to_owned()).or_default() += 1;
        }
        arrivals
    }

    /// Returns the deliveries that have arrived, without those that have not been repeated since a kill.
    fn arrived(&self) -> BTreeSet<String> {
        let arrivals = self.arrivals().into_iter();
        let again = arrivals.filter(|(id, count)| *count > held_by(&self.exactly, id));
        again.map(|(id, _)| id).collect()
    }

    async fn ids(&self, status: &str) -> BTreeSet<String> {
        let listed = deliveries(&self.owner, &self.endpoint, status).await;
        listed.iter().map(|delivery| delivery["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Kills the process while one delivery waits for its answer, after all answered ones are marked.
    async fn kill_at_rest(&mut self, process: Process) {
        let before = self.receiver.count();
        let goes_on = async || self.receiver.count() >= before + 10;
        until_within(2 * TIMEOUT, "deliveries are made", goes_on).await;
        self.receiver.hold();
        let all_are_out = async || {
            let open: BTreeSet<_> = self.receiver.open().into_iter().collect();
            let answered = self.arrived().difference(&open).cloned().collect::<BTreeSet<_>>();
            // No other delivery is sent while this one has no answer.
            open.len() == AT_REST && answered.is_subset(&self.ids("delivered").await)
        };
        until_within(TIMEOUT, "what was answered is marked", all_are_out).await;
        let open = self.receiver.open().into_iter().collect();
        process.kill();
        self.exactly.push(open);
    }

    /// Kills the process inside the handler of a delivery, whatever else it does.
    async fn kill_at_work(&mut self, process: Process) {
        let victim = Arc::new(Mutex::new(Some(process)));
        let held = victim.clone();
        self.receiver.strike(10, move || held.lock().unwrap().take().unwrap().kill());
        let is_dead = async || self.receiver.has_struck() && victim.lock().unwrap().is_none();
        until_within(2 * TIMEOUT, "it is killed", is_dead).await;
    }

    async fn start_again(&mut self, at_once: usize) -> Process {
        self.chains.clock.advance(UNWATCHED);
        self.site.change(sending(&self.setup, at_once));
        let process = self.site.manage().await;
        let owner = std::mem::replace(&mut self.owner, ApiUser::at(process.addr()));
        self.owner = owner.moved(process.addr());
        process
    }
}

// Shows (Webhooks): A killed management side repeats at most the deliveries in flight, and neither misses nor repeats a
// block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_management_side_killed_between_sending_and_marking_repeats_and_loses_nothing() {
    let (mut killed, mut process) = Killed::start().await;
    for next in [AT_REST, AT_WORK] {
        killed.chains.clock.advance(WATCHED);
        killed.kill_at_rest(process).await;
        process = killed.start_again(next).await;
        killed.receiver.answer(204);
    }
    for _ in 0..2 {
        killed.chains.clock.advance(WATCHED);
        killed.kill_at_work(process).await;
        process = killed.start_again(AT_WORK).await;
        // No answer was sent since, so every delivery in the state delivered was marked before.
        let pending = killed.ids("pending").await;
        killed.at_most.push(killed.arrived().intersection(&pending).cloned().collect());
        killed.receiver.answer(204);
    }
    killed.followed().await;
    all_delivered(&killed.owner, &[&killed.endpoint]).await;

    let arrivals = killed.arrivals();
    for (id, count) in &arrivals {
        let exactly = held_by(&killed.exactly, id);
        let at_most = held_by(&killed.at_most, id);
        let allowed = 1 + exactly..=1 + exactly + at_most;
        assert!(allowed.contains(count), "{id} arrived {count} times, and {exactly} to {at_most} were cut");
    }
    assert!(killed.exactly.iter().all(|unmarked| unmarked.len() == AT_REST));
    assert!(killed.at_most.iter().all(|unmarked| !unmarked.is_empty()), "there was something to repeat");
    let delivered = killed.ids("delivered").await;
    assert_eq!(delivered, arrivals.into_keys().collect(), "all that was made has arrived");

    // Each event is one delivery, and each block is one event.
    let mut bodies: BTreeMap<Vec<u8>, BTreeSet<String>> = BTreeMap::new();
    for delivery in killed.receiver.received() {
        bodies.entry(delivery.body.clone()).or_default().insert(delivery.id().to_owned());
    }
    assert!(bodies.values().all(|ids| ids.len() == 1));
    let log = killed.owner.all(&format!("/projects/{}/events?limit=1000", killed.project)).await;
    assert_eq!(log.len(), bodies.len());
    let events: Vec<Value> = bodies.keys().map(|body| serde_json::from_slice(body).unwrap()).collect();
    let blocks = events.iter().filter(|event| event["event_type"] == "new_block");
    let mut heights: Vec<_> = blocks.map(height_of).collect();
    heights.sort_unstable();
    let expected: Vec<_> = (killed.from + 1..=killed.chains.height("eth")).collect();
    assert_eq!(heights, expected, "no block is missing or told of twice");
    assert!(process.stop().await.0.success());
}
