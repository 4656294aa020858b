//! Observation of gateways during changes on the management side.

use rpcgate_core::clock::{Clock, SystemClock};
use rpcgate_server::Gateway;
use rpcgate_tests::admin::{ApiUser, TestService};
use rpcgate_tests::client::{TestClient, TestReply};
use rpcgate_tests::gateway::Setup;
use rpcgate_tests::node::Node;
use rpcgate_tests::{SOON, TIMEOUT};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Two gateways and a management API, with the system clock and a plan that refuses nothing.
pub(crate) struct Pair {
    pub(crate) service: TestService,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) operator: ApiUser,
    pub(crate) owner: ApiUser,
    _nodes: [Node; 2],
}

impl Pair {
    pub(crate) async fn start() -> Self {
        let nodes = [Node::evm().await, Node::utxo().await];
        let setup = Setup::of("eth", &nodes[0].url())
            .node("btc", &nodes[1].url())
            .set("plans.enterprise", "per_minute = 1000000")
            .set("plans.enterprise", "per_hour = 1000000")
            .set("plans.premium", "per_minute = 900000");
        let service = TestService::start(setup, Arc::new(SystemClock::new())).await;
        let gateways = vec![service.gateway().await, service.gateway().await];
        let operator = service.operator().await;
        let owner = service.owner("ada@example.com").await;
        let tenant = format!("/operator/tenants/{}", owner.tenant().await);
        operator.put(&tenant, &serde_json::json!({ "tier": "enterprise" })).await;
        Pair { service, gateways, operator, owner, _nodes: nodes }
    }

    /// Makes `call` with `key` repeatedly at both gateways, makes a change, and waits until all answers are of the new
    /// kind. That must happen [soon](SOON) after the answer to the change, and last.
    pub(crate) async fn change<C: Future<Output = ()>>(
        &self,
        what: &str,
        (key, chain, method): (&str, &'static str, &'static str),
        change: C,
        is_new: impl Fn(&TestReply) -> bool + Clone + Send + 'static,
    ) {
        let changed = Arc::new(AtomicU64::new(u64::MAX));
        let warm = Arc::new(AtomicUsize::new(0));
        let mut watching = Vec::new();
        for gateway in &self.gateways {
            let client = TestClient::new(gateway.addr(), Some(key));
            let clock = self.service.clock().clone();
            let is_new = is_new.clone();
            let changed = changed.clone();
            let warm = warm.clone();
            let what = what.to_owned();
            watching.push(tokio::spawn(async move {
                let mut old = 0;
                let mut new = 0;
                let mut late = 0;
                let mut lag = Duration::ZERO;
                while new < 20 {
                    let asked = micros(&*clock);
                    let reply = client.call(chain, method, "[]").await;
                    let since = Duration::from_micros(micros(&*clock).saturating_sub(changed.load(Relaxed)));
                    if is_new(&reply) {
                        assert!(old >= 3, "{what}: so from the start: {reply:?}");
                        if new == 0 {
                            lag = since;
                        }
                        new += 1;
                    } else {
                        assert_eq!(new, 0, "{what}: as before again: {reply:?}");
                        old += 1;
                        late += u32::from(asked >= changed.load(Relaxed));
                        if old == 3 {
                            warm.fetch_add(1, Relaxed);
                        }
                    }
                    sleep(Duration::from_millis(2)).await;
                }
                (lag, late)
            }));
        }
        let wait = async {
            while warm.load(Relaxed) < self.gateways.len() {
                sleep(Duration::from_millis(2)).await;
            }
            change.await;
            changed.store(micros(&**self.service.clock()), Relaxed);
            let mut seen = Vec::new();
            for watch in watching {
                seen.push(watch.await.unwrap());
            }
            seen
        };
        let Ok(seen) = timeout(TIMEOUT, wait).await else { panic!("{what} is never in force") };
        for (lag, late) in seen {
            tell(&format!("{what}: in force after {lag:?}, {late} calls were answered as before"));
            assert!(lag <= SOON, "{what}: only after {lag:?}");
        }
    }
}

/// Prints a line, which `cargo test` shows with `--nocapture` and for a failed test.
#[expect(clippy::print_stderr, reason = "a figure for people who run the tests")]
fn tell(line: &str) {
    eprintln!("{line}");
}

fn micros(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.elapsed().as_micros()).unwrap()
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("service", &self.service).finish_non_exhaustive()
    }
}
