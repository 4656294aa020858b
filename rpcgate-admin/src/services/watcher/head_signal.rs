//! A node's subscription to new heads. Each of its messages triggers a check for new blocks.

use rpcgate_core::event::HeadSubscription;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::tally::Transport;
use rpcgate_layers::nodes::{NodeIndex, NodeRequestError, Pool};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;

/// The maximum size of a message in bytes. Its contents are ignored.
const LARGEST: usize = 4 << 20;

/// The time of silence after which another stream is opened.
const SILENCE: Duration = Duration::from_secs(120);

/// The first and the longest pause before another stream is opened.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Notifies `looks` when a node of the pool reports a new head, until this is dropped. The chain is also checked at
/// intervals, so a lost stream only costs time.
pub(super) async fn notify(pool: Arc<Pool>, subscription: HeadSubscription, looks: Arc<Notify>) {
    let [mut pause, longest] = PAUSES;
    let mut turn = 0;
    while pool.has(Transport::Ws) {
        let fit: Vec<_> = pool.nodes().filter(|node| node.health.is_fit()).map(|node| node.index).collect();
        if let Some(node) = fit.get(turn % fit.len().max(1)) {
            match listen(&pool, *node, subscription, &looks).await {
                Ok(()) => pause = PAUSES[0],
                Err(error) => {
                    tracing::debug!(chain = %pool.chain(), %error, "no subscription to new heads");
                    pause = (2 * pause).min(longest);
                }
            }
        }
        turn += 1;
        sleep(pause).await;
    }
    pending::<()>().await;
}

/// Listens until the stream ends. An error means that there was no message.
async fn listen(
    pool: &Pool,
    node: NodeIndex,
    subscription: HeadSubscription,
    looks: &Notify,
) -> Result<(), NodeRequestError> {
    let mut stream = pool.open_messages(node, LARGEST).await?;
    stream.send(subscription.subscribe).await?;
    // The first message answers the subscription itself.
    let first = tokio::time::timeout(SILENCE, stream.next()).await;
    first.unwrap_or(Err(Fault::sent(Cause::Timeout)))?;
    while let Ok(Ok(_)) = tokio::time::timeout(SILENCE, stream.next()).await {
        looks.notify_one();
    }
    Ok(())
}
