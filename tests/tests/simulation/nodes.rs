//! Nodes at the end of the stack, without sockets.

use crate::{Clock, Dice, Duration, ForkingChain, VirtualClock, between};
use http::StatusCode;
use rpcgate_core::call::{Before, CallState, Calls, Settled};
use rpcgate_core::chain::Chain;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::reply::{Form, Reply, Source};
use rpcgate_core::tally::Tally;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::time::sleep;
use tower::Service;

/// How far a node may be behind the chain, and still on a branch that was replaced.
pub(crate) const BEHIND: Duration = Duration::from_secs(20);
/// The most that a node takes for an answer.
pub(crate) const SLOWEST: Duration = Duration::from_secs(5);
/// How long a call waits for a node that hangs.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
/// By how many blocks a node lies about its height.
const LIE: u64 = 500;

/// What a node does with calls, for a while.
#[derive(Debug)]
struct Mood {
    behind: Duration,
    /// Of a hundred requests.
    fails: u64,
    hangs: u64,
    refuses: u64,
    slow: bool,
    lies: bool,
}

#[derive(Debug)]
struct Shared {
    clock: Arc<VirtualClock>,
    chain: Arc<Mutex<ForkingChain>>,
    moods: Vec<Mood>,
    dice: Dice,
}

/// Three nodes of one chain, of which each request gets one by chance.
#[derive(Clone, Debug)]
pub(crate) struct UnreliableNodes(Arc<Mutex<Shared>>);

impl UnreliableNodes {
    pub(crate) fn new(clock: Arc<VirtualClock>, chain: Arc<Mutex<ForkingChain>>, dice: Dice) -> Self {
        let shared = Shared { clock, chain, moods: Vec::new(), dice };
        let nodes = UnreliableNodes(Arc::new(Mutex::new(shared)));
        nodes.change();
        nodes
    }

    /// Each node is in another mood from now on. One of them at most lies.
    pub(crate) fn change(&self) {
        let mut shared = self.0.lock().unwrap();
        let dice = &mut shared.dice;
        let liar = dice.below(6);
        let mut mood = |number: u64| {
            let is_bad = dice.below(3) == 0;
            let of_a_hundred = |dice: &mut Dice, most| if is_bad { dice.below(most) } else { 0 };
            Mood {
                behind: Duration::from_millis(dice.below(BEHIND.as_millis() as u64)),
                fails: of_a_hundred(dice, 60),
                hangs: of_a_hundred(dice, 15),
                refuses: of_a_hundred(dice, 30),
                slow: dice.below(3) == 0,
                lies: number == liar,
            }
        };
        let moods = (0..3).map(&mut mood).collect();
        shared.moods = moods;
    }

    /// Sets the head that probes of these nodes give: of three heights the second (`rpcgate_layers::nodes::watch_head`).
    pub(crate) fn probed(&self, chain: &Chain) {
        let shared = self.0.lock().unwrap();
        let now = shared.clock.elapsed();
        let blocks = shared.chain.lock().unwrap();
        let height =
            |mood: &Mood| blocks.height(now.saturating_sub(mood.behind)) + if mood.lies { LIE } else { 0 };
        let mut heights: Vec<_> = shared.moods.iter().map(height).collect();
        heights.sort_unstable();
        chain.head().set(heights[1]);
    }

    /// How long the next request takes, and what becomes of it: an answer from the chain as it was so long ago, or a fault.
    fn next(&self) -> (Duration, Result<Duration, Fault>) {
        let mut shared = self.0.lock().unwrap();
        let Shared { moods, dice, .. } = &mut *shared;
        let mood = &moods[dice.below(3) as usize];
        let most = if mood.slow { SLOWEST } else { Duration::from_millis(300) };
        let took = Duration::from_millis(between(dice, 1, most.as_millis() as u64));
        let chance = dice.below(100);
        if chance < mood.hangs {
            return (TIMEOUT, Err(Fault::sent(Cause::Timeout)));
        }
        if chance < mood.hangs + mood.fails {
            return (took, Err(Fault::sent(Cause::Broken)));
        }
        if chance < mood.hangs + mood.fails + mood.refuses {
            return (Duration::from_millis(1), Err(Fault::unsent(Cause::Connect)));
        }
        (took, Ok(mood.behind))
    }

    /// The answer of a node that sees the chain as it was `behind` ago.
    fn answer(&self, method: &[u8], params: &Value, behind: Duration) -> Form {
        let shared = self.0.lock().unwrap();
        let at = shared.clock.elapsed().saturating_sub(behind);
        let blocks = shared.chain.lock().unwrap();
        let result = match method {
            b"eth_blockNumber" => json!(format!("{:#x}", blocks.height(at))),
            b"eth_getBlockByNumber" => {
                let height = u64::from_str_radix(&params[0].as_str().unwrap()[2..], 16).unwrap();
                let block =
                    |hash| json!({ "number": format!("{height:#x}"), "hash": format!("{hash:#066x}") });
                blocks.hash(height, at).map_or(Value::Null, block)
            }
            b"eth_getTransactionCount" => {
                let error = json!({ "code": -32000, "message": params[0] }).to_string();
                return Form::Error(error.into(), StatusCode::OK);
            }
            // What was asked comes back, so that a client sees whether the answer is its own.
            _ => json!(params.to_string()),
        };
        Form::Result(result.to_string().into())
    }

    async fn serve(&self, tally: &mut Tally) {
        let open: Vec<_> = (0..tally.entries.len()).filter(|at| tally.entries[*at].is_open()).collect();
        let (took, fate) = self.next();
        if fate.map_or_else(|fault| fault.sent, |_| true) {
            for at in &open {
                tally.entries[*at].state = CallState::Sent;
            }
        }
        sleep(took).await;
        for at in open {
            let call = &tally.entries[at].call;
            let method = call.method(&tally.body).to_vec();
            let params = call.view(&tally.body, tally.chain.name()).params;
            let params = serde_json::from_slice(params).unwrap_or_default();
            tally.entries[at].state = match fate {
                Ok(behind) => {
                    let form = self.answer(&method, &params, behind);
                    CallState::Answered(Reply { form, from: Source::Node })
                }
                Err(fault) => CallState::Failed(fault),
            };
        }
    }
}

impl<A: Before<Settled>> Service<Calls<A>> for UnreliableNodes {
    type Response = Calls<Settled>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Calls<Settled>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, calls: Calls<A>) -> Self::Future {
        let (nodes, mut calls): (_, Calls<Settled>) = (self.clone(), calls.at());
        Box::pin(async move {
            if calls.tally().has_open() {
                nodes.serve(calls.tally_mut()).await;
            }
            Ok(calls)
        })
    }
}
