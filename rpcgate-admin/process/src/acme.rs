//! Certificates by ACME (RFC 8555): the program orders its certificate, answers the authority's checks, and renews it.
//!
//! The certificate is a file in `acme.dir`, which [`tls::watch`](super::tls::watch) loads like any other. Programs that
//! share the folder order one at a time, and each can answer the checks of every order. A failed order changes only the
//! time of the next one.

mod answer;
pub mod due;
pub mod folder;
pub mod held;
mod https;
mod order;

pub use folder::AcmeFolder;

pub(crate) use answer::{answer_over_tls, is_check};

use due::{OrderReason, begun, done, failed, pause, reason};
use folder::{LastOrder, OrderState};
use held::HeldCertificate;
use order::{AcmeClient, bounded};
use ring::rand::{SecureRandom, SystemRandom};
use rpcgate_config::{AcmeSettings, moment_text};
use rpcgate_core::clock::{Clock, Time};
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

const EVERY: Duration = Duration::from_secs(5);
const WITHIN: Duration = Duration::from_secs(600);
/// The longest time until a newly signed certificate becomes valid. Clocks differ, and not every authority backdates
/// its certificates.
const EARLY: Duration = Duration::from_secs(3_600);

/// The error for an unusable setting of `[acme]`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("acme.{key}: {why}")]
pub struct BadAcme {
    /// The key in `[acme]`.
    pub key: &'static str,
    /// The error.
    pub why: String,
}

/// The results of this program's orders.
#[derive(Debug, Default)]
pub struct OrderCounts {
    /// Successful orders.
    pub done: AtomicU64,
    /// Failed orders.
    pub failed: AtomicU64,
    /// Consecutive failures since the last success, including those of other programs and from before the start.
    pub failures: AtomicU64,
}

/// The result of a check of the folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OrderStep {
    /// No order is due, the next one must wait, or another program orders.
    Nothing,
    /// A new certificate is in the folder.
    Done {
        /// The end of its validity.
        until: Time,
    },
    /// The order failed. The certificate in use stays.
    Failed {
        /// The reason.
        why: String,
        /// The number of consecutive failures.
        failures: u32,
        /// The earliest time of the next order.
        next: Time,
    },
    /// The folder cannot be used, so nothing is ordered.
    Unusable(String),
}

/// Orders the certificate of `[acme]` when one is due.
pub struct CertificateOrders {
    client: Arc<AcmeClient>,
    clock: Arc<dyn Clock>,
    counts: Arc<OrderCounts>,
    reported: AtomicU64,
}

impl fmt::Debug for CertificateOrders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateOrders").field("dir", &self.client.settings.dir).finish_non_exhaustive()
    }
}

impl CertificateOrders {
    /// Creates orders with these settings and counters. Creates the folder.
    ///
    /// # Errors
    /// [`BadAcme`].
    pub fn new(
        settings: &AcmeSettings,
        clock: Arc<dyn Clock>,
        counts: Arc<OrderCounts>,
    ) -> Result<Self, BadAcme> {
        let client = AcmeClient::new(settings)?;
        let bad =
            |error: io::Error| BadAcme { key: "dir", why: format!("{}: {error}", settings.dir.display()) };
        client.folder.make().map_err(bad)?;
        Ok(CertificateOrders { client: Arc::new(client), clock, counts, reported: AtomicU64::new(0) })
    }

    /// Checks these settings and the files that they name, without changes.
    ///
    /// # Errors
    /// [`BadAcme`].
    pub fn check(settings: &AcmeSettings) -> Result<(), BadAcme> {
        AcmeClient::new(settings).map(drop)
    }

    /// Checks the folder every 5 seconds, forever, and orders a certificate when due.
    pub async fn run(self) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut unusable = None;
        loop {
            ticks.tick().await;
            match self.step().await {
                OrderStep::Unusable(why) => {
                    if unusable.as_ref() != Some(&why) {
                        tracing::error!(
                            "the folder of certificates cannot be used, nothing is ordered: {why}"
                        );
                        unusable = Some(why);
                    }
                    continue;
                }
                OrderStep::Nothing => {}
                OrderStep::Done { until } => {
                    tracing::info!(
                        until = moment_text(until),
                        "the certificate authority has signed a certificate"
                    );
                }
                OrderStep::Failed { why, failures, next } => {
                    let next = moment_text(next);
                    tracing::error!(failures, next, "no certificate was signed: {why}");
                }
            }
            unusable = None;
        }
    }

    /// Checks the folder now, and orders a certificate if due.
    pub async fn step(&self) -> OrderStep {
        let client = self.client.clone();
        let now = self.clock.now();
        let order = match in_background(move || begin(&client, now)).await {
            Ok(Ok(order)) => order,
            Ok(Err(idle)) => {
                self.rest(&idle);
                return OrderStep::Nothing;
            }
            Err(error) => {
                return OrderStep::Unusable(format!("{}: {error}", self.client.folder.path().display()));
            }
        };
        let domains = self.client.settings.domains.join(" ");
        tracing::info!(domains, "ordering a certificate: {}", order.reason);
        let client = self.client.clone();
        // In a separate task, so that a panic over an unexpected answer ends only this order.
        let ordering = AbortOnDropHandle::new(tokio::spawn(async move { client.order().await }));
        let ordered = match tokio::time::timeout(WITHIN, ordering).await {
            Ok(Ok(ordered)) => ordered,
            Ok(Err(error)) => Err(bounded(&format!("the order ended unexpectedly: {error}"))),
            Err(_) => Err("it was not done within 10 minutes".to_owned()),
        };
        let client = self.client.clone();
        let now = self.clock.now();
        let step = in_background(move || Ok(end(&client, order, ordered, now))).await;
        let step = step.unwrap_or_else(|error: io::Error| OrderStep::Unusable(error.to_string()));
        match &step {
            OrderStep::Done { .. } => {
                self.counts.done.fetch_add(1, Relaxed);
                self.counts.failures.store(0, Relaxed);
            }
            OrderStep::Failed { failures, next, .. } => {
                self.counts.failed.fetch_add(1, Relaxed);
                self.counts.failures.store((*failures).into(), Relaxed);
                self.reported.store(next.secs(), Relaxed);
            }
            OrderStep::Nothing | OrderStep::Unusable(_) => {}
        }
        step
    }

    fn rest(&self, idle: &IdleOrders) {
        match idle {
            IdleOrders::Elsewhere => {}
            IdleOrders::NotDue => self.counts.failures.store(0, Relaxed),
            IdleOrders::Paused { reason, last, next } => {
                self.counts.failures.store(last.failures.into(), Relaxed);
                // The program that failed has already logged it, and logs it once.
                if self.reported.swap(next.secs(), Relaxed) == next.secs() {
                    return;
                }
                let failures = last.failures;
                let next = moment_text(*next);
                let why = if failures == 0 {
                    "one was signed lately".to_owned()
                } else {
                    format!("the last order failed: {}", last.why)
                };
                tracing::warn!(failures, next, "no certificate is ordered yet: {reason}; {why}");
            }
        }
    }
}

#[derive(Debug)]
struct DueOrder {
    reason: OrderReason,
    order: LastOrder,
    state: OrderState,
    _lock: File,
}

#[derive(Debug)]
enum IdleOrders {
    /// No order is due.
    NotDue,
    /// An order is due for this reason, but the last one forbids it until `next`.
    Paused { reason: OrderReason, last: Box<LastOrder>, next: Time },
    /// Another program orders.
    Elsewhere,
}

/// Runs `work` on a blocking thread, because a network folder may be slow.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Returns the order that is due at `now`, stored as begun, or the reason why no order begins.
fn begin(client: &AcmeClient, now: Time) -> io::Result<Result<DueOrder, IdleOrders>> {
    let folder = &client.folder;
    let domains = &client.settings.domains;
    let directory = client.settings.directory_url();
    let order_reason = |state: &OrderState| -> Result<OrderReason, IdleOrders> {
        let held = HeldCertificate::read(&folder.certificate());
        let reason = reason(&held, state, directory, domains, now).ok_or(IdleOrders::NotDue)?;
        let next = pause(state, directory, domains, &reason, now);
        match (next, state.order(directory, domains)) {
            (Some(next), Some(last)) => {
                Err(IdleOrders::Paused { reason, last: Box::new(last.clone()), next })
            }
            _ => Ok(reason),
        }
    };
    if let Err(idle) = order_reason(&folder.state()) {
        let may_run = matches!(&idle, IdleOrders::Paused { last, .. } if last.is_unfinished());
        let runs = may_run && folder.lock()?.is_none();
        return Ok(Err(if runs { IdleOrders::Elsewhere } else { idle }));
    }
    folder.make()?;
    let Some(lock) = folder.lock()? else { return Ok(Err(IdleOrders::Elsewhere)) };
    // Another program may have ordered until now.
    let state = folder.state();
    let reason = match order_reason(&state) {
        Ok(reason) => reason,
        Err(idle) => return Ok(Err(idle)),
    };
    let order = begun(&state, directory, domains, now, share());
    let state = state.with(order.clone(), now);
    folder.set_state(&state)?;
    folder.clear_answers()?;
    Ok(Ok(DueOrder { reason, order, state, _lock: lock }))
}

fn end(client: &AcmeClient, due: DueOrder, ordered: Result<String, String>, now: Time) -> OrderStep {
    let folder = &client.folder;
    let stored = ordered.and_then(|pem| {
        let until = usable(&pem, &client.settings.domains, now)?;
        folder
            .set_certificate(&pem)
            .map_err(|error| format!("{}: {error}", folder.certificate().display()))?;
        Ok(until)
    });
    let (step, state) = match stored {
        Ok(until) => {
            let state = due.state.with(done(due.order, now), now);
            let directory = client.settings.directory_url();
            if let Err(error) = folder.set_authority(directory) {
                tracing::warn!(%error, "the issuer of the certificate cannot be stored");
            }
            (OrderStep::Done { until }, OrderState { signed_by: Some(directory.to_owned()), ..state })
        }
        Err(why) => {
            let order = failed(due.order, why.clone(), client.http.requested_pause(), now);
            let step = OrderStep::Failed { why, failures: order.failures, next: order.next() };
            (step, due.state.with(order, now))
        }
    };
    // If this fails, the state from the start of the order remains: a failed order.
    if let Err(error) = folder.clear_answers().and_then(|()| folder.set_state(&state)) {
        tracing::warn!(%error, "the result of an order of a certificate cannot be stored");
    }
    step
}

/// Returns the end of a newly signed certificate, if it can be used soon for all of these names.
fn usable(pem: &str, domains: &[String], now: Time) -> Result<Time, String> {
    let wrong = |why: String| format!("the certificate that was signed cannot be used: {why}");
    let held = HeldCertificate::of(pem).map_err(wrong)?;
    if let Some(name) = domains.iter().find(|name| !held.is_for(name)) {
        return Err(wrong(format!("it is not for {name}")));
    }
    if now.plus(EARLY) < held.valid.start {
        return Err(wrong(format!("it is valid only from {}", moment_text(held.valid.start))));
    }
    if held.valid.end <= now {
        return Err(wrong(format!("it has expired, at {}", moment_text(held.valid.end))));
    }
    Ok(held.valid.end)
}

/// Returns a random extension of a pause, so that many programs do not order at the same time.
fn share() -> u8 {
    let mut share = [0];
    let _ = SystemRandom::new().fill(&mut share);
    share[0]
}

#[cfg(test)]
mod tests;
