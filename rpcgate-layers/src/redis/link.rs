//! The link to Redis: one task that owns the connection. Commands that arrive while answers are pending are sent
//! together in one pipeline. The link is a circuit breaker: after an answer has not arrived in time, no call waits for
//! Redis until another attempt has succeeded.

use super::report::Report;
use super::script::{Answered, BadAnswer, Code, Digests};
use super::shared::{Ask, Item, Order, Shared};
use super::tls::client;
use super::{BadRedis, CounterState, Seed};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline, Value};
use std::collections::{VecDeque, hash_map::RandomState};
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

/// The interval at which owed counts and idle slices are sent to Redis, and the connection is checked.
const TICK: Duration = Duration::from_millis(500);
/// The time between two attempts to reach Redis.
const PAUSE: Duration = Duration::from_millis(250);
const CONNECT: Duration = Duration::from_secs(1);
/// The maximum number of commands in one pipeline.
const TOGETHER: usize = 256;

#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("does not answer")]
    Silent,
    #[error("{0}")]
    Redis(#[from] redis::RedisError),
    #[error(transparent)]
    Answer(#[from] BadAnswer),
    #[error("has lost its counters")]
    OtherEra,
    #[error("its counters are being seeded by another gateway")]
    Seeding,
    #[error("its counters are lost, and their values cannot be read from the database")]
    NoSeed,
}

pub(super) type Orders = mpsc::UnboundedReceiver<Order>;

/// Counts to be sent to Redis exactly once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Unsettled {
    pub(super) number: u64,
    pub(super) items: Vec<Item>,
}

/// The task that executes the orders.
#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    pub(super) shared: Arc<Shared>,
    pub(super) seed: Arc<dyn Seed>,
    /// The id of this gateway, which is valid until it stops.
    pub(super) gateway: u64,
    pub(super) receipts: u64,
    /// Counts that may or may not have been added: they are sent again under the same number.
    pub(super) unsettled: VecDeque<Unsettled>,
    /// The last known number of times that counters were lowered.
    pub(super) lowered: Option<u64>,
    /// The report to the newest known comparison.
    pub(super) report: Report,
    /// The comparison that this gateway makes, if any. It ends with the link.
    pub(super) comparing: JoinSet<()>,
}

impl Link {
    pub(super) fn new(url: &str, shared: Arc<Shared>, seed: Arc<dyn Seed>) -> Result<Self, BadRedis> {
        // Hash keys of the standard library are random.
        let gateway = RandomState::new().build_hasher().finish();
        Ok(Link {
            client: client(url)?,
            shared,
            seed,
            gateway,
            receipts: 0,
            unsettled: VecDeque::new(),
            lowered: None,
            report: Report::default(),
            comparing: JoinSet::new(),
        })
    }

    /// Connects to Redis again and again, until no handle is left that could send an order.
    pub(super) async fn run(mut self, mut orders: Orders) {
        let mut reported = String::new();
        let seed = self.seed.clone();
        if alone(&mut orders, seed.ready()).await.is_none() {
            return;
        }
        loop {
            let Some(broken) = self.life(&mut orders, &mut reported).await else { return };
            self.shared.set_state(match broken {
                Broken::Seeding | Broken::NoSeed => CounterState::Seeding,
                _ => CounterState::Alone,
            });
            let why = broken.to_string();
            if why != reported {
                match broken {
                    // The usual case when several gateways start at once: the next attempt finds the counters.
                    Broken::Seeding => tracing::info!("redis: {why}; this gateway counts alone until then"),
                    _ => tracing::error!("redis: {why}; this gateway counts alone"),
                }
                reported = why;
            }
            if alone(&mut orders, sleep(PAUSE)).await.is_none() {
                return;
            }
        }
    }

    /// Runs one connection until it breaks. Returns `None` if it was closed.
    async fn life(&mut self, orders: &mut Orders, reported: &mut String) -> Option<Broken> {
        let mut connection = match alone(orders, connect(self.client.clone())).await? {
            Ok(connection) => connection,
            Err(broken) => return Some(broken),
        };
        if let Err(broken) = alone(orders, self.join(&mut connection)).await? {
            return Some(broken);
        }
        self.shared.set_state(CounterState::Together);
        tracing::info!(gateways = self.shared.gateways.load(Relaxed), "redis: counting together");
        reported.clear();
        let served = self.serve(&mut connection, orders).await;
        self.shared.set_state(CounterState::Alone);
        match served {
            Ok(done) => {
                if let Some(done) = done {
                    // The caller of `close` may have gone.
                    let _ = done.send(());
                }
                None
            }
            Err(broken) => Some(broken),
        }
    }

    /// Executes orders until the link is closed or the connection breaks.
    async fn serve(
        &mut self,
        connection: &mut MultiplexedConnection,
        orders: &mut Orders,
    ) -> Result<Option<oneshot::Sender<()>>, Broken> {
        // Counts that were made alone while this gateway joined.
        self.settle(connection, false).await?;
        let mut taken = Vec::with_capacity(TOGETHER);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {
                    let heard = self.beat(connection, 0).await?;
                    self.settle(connection, false).await?;
                    self.compare(connection, heard).await?;
                }
                count = orders.recv_many(&mut taken, TOGETHER) => {
                    if count == 0 {
                        self.settle(connection, true).await?;
                        self.leave(connection).await?;
                        return Ok(None);
                    }
                    if let Some(done) = self.together(connection, &mut taken).await? {
                        // Pending requests are decided without Redis, and their counts are sent to it.
                        self.shared.set_state(CounterState::Alone);
                        orders.close();
                        while let Ok(order) = orders.try_recv() {
                            if let Order::Ask(ask) = order {
                                (ask.then)(None);
                            }
                        }
                        self.settle(connection, true).await?;
                        self.leave(connection).await?;
                        return Ok(Some(done));
                    }
                }
            }
        }
    }

    /// Sends the waiting commands in one pipeline and distributes the answers. Returns the sender of an order to close,
    /// if there is one.
    async fn together(
        &self,
        connection: &mut MultiplexedConnection,
        orders: &mut Vec<Order>,
    ) -> Result<Option<oneshot::Sender<()>>, Broken> {
        let mut pipe = Pipeline::with_capacity(orders.len());
        let mut waiting = Vec::new();
        let mut closing = None;
        for order in orders.drain(..) {
            match order {
                Order::Ask(Ask { command, then }) => {
                    pipe.add_command(command);
                    waiting.push(then);
                }
                Order::Close(done) => closing = Some(done),
            }
        }
        if waiting.is_empty() {
            return Ok(closing);
        }
        let (answers, in_time) = match self.send_timed(connection, &pipe).await {
            Ok(answers) => answers,
            Err(broken) => {
                // Must come first: a caller that learns now that it gets no answer must not send the command again.
                self.shared.set_state(CounterState::Alone);
                waiting.into_iter().for_each(|then| then(None));
                return Err(broken);
            }
        };
        let mut broken = None;
        for (then, answer) in waiting.into_iter().zip(answers) {
            match Answered::read(answer) {
                Ok(answered) => {
                    if in_time {
                        self.shared.clock(answered.time);
                    }
                    if answered.code == Code::OtherEra {
                        self.shared.set_state(CounterState::Alone);
                        broken = Some(Broken::OtherEra);
                    }
                    then(Some(answered));
                }
                Err(bad) => {
                    self.shared.set_state(CounterState::Alone);
                    broken = Some(bad.into());
                    then(None);
                }
            }
        }
        broken.map_or(Ok(closing), Err)
    }

    pub(super) async fn send(
        &self,
        connection: &mut MultiplexedConnection,
        pipe: &Pipeline,
    ) -> Result<Vec<Value>, Broken> {
        Ok(self.send_timed(connection, pipe).await?.0)
    }

    /// As [`send`](Self::send). Also returns whether the answers were read as soon as they arrived: only then is their
    /// time exact.
    async fn send_timed(
        &self,
        connection: &mut MultiplexedConnection,
        pipe: &Pipeline,
    ) -> Result<(Vec<Value>, bool), Broken> {
        let patience = self.shared.patience;
        let began = Instant::now();
        let mut sending = pin!(connection.send_packed_commands(pipe, 0, pipe.len()));
        let mut answers = timeout(patience, &mut sending).await;
        let stood_still = began.elapsed() > patience.saturating_mul(2);
        if answers.is_err() && stood_still {
            // This process was suspended, which says nothing about Redis: the answers may have arrived long ago.
            answers = timeout(patience, &mut sending).await;
        }
        let answers = answers.map_err(|_| Broken::Silent)??;
        let is_complete = answers.len() == pipe.len();
        if is_complete { Ok((answers, began.elapsed() <= patience)) } else { Err(BadAnswer::Strange.into()) }
    }

    /// Runs one script for the link itself.
    pub(super) async fn run_script(
        &self,
        connection: &mut MultiplexedConnection,
        command: redis::Cmd,
    ) -> Result<Answered, Broken> {
        let mut pipe = Pipeline::with_capacity(1);
        pipe.add_command(command);
        let (mut answers, in_time) = self.send_timed(connection, &pipe).await?;
        let answered = Answered::read(answers.pop().ok_or(BadAnswer::Strange)?)?;
        if in_time {
            self.shared.clock(answered.time);
        }
        if answered.code == Code::OtherEra { Err(Broken::OtherEra) } else { Ok(answered) }
    }
}

/// Waits for `what` while no order can be executed. Returns `None` if the link was closed.
async fn alone<T>(orders: &mut Orders, what: impl Future<Output = T>) -> Option<T> {
    let mut what = pin!(what);
    loop {
        tokio::select! {
            biased;
            done = &mut what => return Some(done),
            order = orders.recv() => match order? {
                Order::Ask(ask) => (ask.then)(None),
                Order::Close(done) => {
                    // The caller of `close` may have gone.
                    let _ = done.send(());
                    return None;
                }
            },
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // No call may wait for the link after its end.
        self.shared.set_state(CounterState::Alone);
    }
}

pub(super) async fn connect(client: Client) -> Result<MultiplexedConnection, Broken> {
    // The link has its own deadlines.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    Ok(timeout(CONNECT, connecting).await.map_err(|_| Broken::Silent)??)
}

pub(super) fn digests(answers: Vec<Value>) -> Result<Digests, Broken> {
    Digests::read(answers).map_err(Broken::from)
}
