//! The shipper, which moves the records of the journal into the usage database, each exactly once.
//!
//! Records are folded, and stored in one transaction with the marks of how far the journal was read. So if a process is
//! killed at any time, the next shipment begins where the last stored one ends. If it is unknown whether a shipment was
//! stored, the marks are read again.

use super::allowances::{Allowances, CachedAllowances};
use super::batcher::{Filled, SegmentBatcher};
use super::shipping::Shipping;
use crate::journal::Journal;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::caller::TenantId;
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::journal::{GatewayId, SegmentId};
use rpcgate_core::usage::Shipment;
use rpcgate_store::{ShipError, StoreError, UsageStore};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The interval of reads of the journal.
const EVERY: Duration = Duration::from_millis(200);
/// The pause after a failed attempt.
const AGAIN: Duration = Duration::from_millis(500);
/// The interval of rotations. Segments can be removed only once they are sealed.
const ROTATION: Duration = Duration::from_secs(60);
/// The maximum bytes of a shipment, and the minimum to which it shrinks while the database misses its deadline.
const MOST: u64 = 2 << 20;
const LEAST: u64 = 64 << 10;

/// The interval of checks for notifications that no shipment has raised, also after a failed check.
const REMINDER: Duration = Duration::from_secs(60);
const REMINDER_AGAIN: Duration = Duration::from_secs(5);
/// The time after the end of a day in which that day is checked too.
const REST_OF_DAY: Duration = Duration::from_secs(300);

pub(super) trait UsageDestination: Send + Sync + fmt::Debug {
    /// Returns the shipped positions in the segments of a gateway, from segment `oldest` on.
    fn marks(
        &self,
        gateway: GatewayId,
        oldest: SegmentId,
    ) -> BoxFuture<'_, Result<Vec<(SegmentId, u64)>, StoreError>>;

    /// Stores a whole shipment or nothing, and raises the notifications due under these daily allowances.
    fn ship<'a>(
        &'a self,
        shipment: &'a Shipment,
        allowances: &'a BTreeMap<TenantId, u64>,
    ) -> BoxFuture<'a, Result<(), ShipError>>;

    /// Raises a day's due notifications that no shipment raised. `allowances` has the allowances of its tenants.
    fn remind<'a>(
        &'a self,
        day: u64,
        allowances: &'a CachedAllowances,
        now: Time,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
}

impl UsageDestination for UsageStore {
    fn marks(
        &self,
        gateway: GatewayId,
        oldest: SegmentId,
    ) -> BoxFuture<'_, Result<Vec<(SegmentId, u64)>, StoreError>> {
        Box::pin(self.marks(gateway, oldest))
    }

    fn ship<'a>(
        &'a self,
        shipment: &'a Shipment,
        allowances: &'a BTreeMap<TenantId, u64>,
    ) -> BoxFuture<'a, Result<(), ShipError>> {
        Box::pin(self.ship_with_allowances(shipment, allowances))
    }

    fn remind<'a>(
        &'a self,
        day: u64,
        allowances: &'a CachedAllowances,
        now: Time,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let requests = self.daily_requests(day).await?;
            let allowances = allowances.now(requests.keys().copied().collect()).await?;
            self.remind(day, &requests, &allowances, now).await
        })
    }
}

/// The reason why a shipment failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Delay {
    #[error(transparent)]
    Marks(#[from] StoreError),
    #[error(transparent)]
    Ship(#[from] ShipError),
    #[error("the work was cut off: {0}")]
    Task(#[from] tokio::task::JoinError),
}

#[derive(Debug)]
pub(super) struct Shipper {
    journal: Arc<Journal>,
    destination: Arc<dyn UsageDestination>,
    clock: Arc<dyn Clock>,
    /// `None` while the content of the database is unknown.
    batcher: Option<SegmentBatcher>,
    most: u64,
    rotated: Duration,
    away: bool,
    allowances: CachedAllowances,
    /// The time of the next check for notifications that no shipment has raised.
    reminder: Duration,
    shipping: Arc<Shipping>,
    /// The unshipped bytes when they were last known, and the size of the journal at that time.
    known: Option<(u64, u64)>,
}

impl Shipper {
    pub(super) fn new(
        journal: Arc<Journal>,
        destination: Arc<dyn UsageDestination>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let rotated = clock.elapsed();
        Shipper {
            journal,
            destination,
            clock,
            batcher: None,
            most: MOST,
            rotated,
            away: false,
            allowances: CachedAllowances::default(),
            reminder: Duration::ZERO,
            shipping: Arc::default(),
            known: None,
        }
    }

    pub(super) fn showing(mut self, shipping: Arc<Shipping>) -> Self {
        self.shipping = shipping;
        self
    }

    /// Raises the notifications of later shipments, with the allowances of `source`.
    pub(super) fn notify(&mut self, source: Arc<dyn Allowances>) {
        self.allowances.ask(source);
    }

    pub(super) async fn run(mut self, closing: CancellationToken) -> Self {
        while !closing.is_cancelled() {
            self.remind().await;
            let pause = match self.round().await {
                Ok(true) => continue,
                Ok(false) => EVERY,
                Err(_) => AGAIN,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = closing.cancelled() => {}
            }
        }
        self
    }

    /// Ships everything that is in the journal now, with repeated attempts.
    pub(super) async fn ship_all(&mut self) {
        loop {
            match self.round().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Raises notifications that shipments left due, at intervals: the allowance of a tenant was unknown, it is lower
    /// now, or the process was killed between the shipment and the notification. A shipment soon after midnight may
    /// concern the day before.
    async fn remind(&mut self) {
        let elapsed = self.clock.elapsed();
        if !self.allowances.is_open() || elapsed < self.reminder {
            return;
        }
        let now = self.clock.now();
        let before = Time::from_micros(now.micros().saturating_sub(REST_OF_DAY.as_micros() as u64));
        let mut pause = REMINDER;
        for day in before.day()..=now.day() {
            if let Err(error) = self.destination.remind(day, &self.allowances, now).await {
                tracing::debug!("it is not known whether a notification is due: {error}");
                pause = REMINDER_AGAIN;
            }
        }
        self.reminder = elapsed.saturating_add(pause);
    }

    /// Returns the unshipped bytes in the known segments.
    pub(super) fn left(&self) -> u64 {
        let segments = self.journal.segments();
        segments
            .iter()
            .map(|segment| segment.len - self.batcher.as_ref().map_or(0, |batcher| batcher.at(segment)))
            .sum()
    }

    /// Returns an estimate while the content of the database is unknown.
    fn unshipped(&mut self) -> u64 {
        let size = self.journal.segments().iter().map(|segment| segment.len).sum::<u64>();
        if self.batcher.is_none()
            && let Some((left, before)) = self.known
        {
            // Nothing is removed in the meantime.
            return left + size.saturating_sub(before);
        }
        let left = self.left();
        self.known = Some((left, size));
        left
    }

    /// Ships once. Returns whether there is more.
    async fn round(&mut self) -> Result<bool, Delay> {
        let begun = self.clock.elapsed();
        // Records that wait in memory are in no segment yet, and as old as the disk's stall.
        let journal = self.journal.status();
        let waits = journal.stalled || journal.queued_bytes > 0;
        let shipped = self.ship().await;
        let left = self.unshipped();
        match &shipped {
            Ok(more) => {
                self.shipping.went_well(left, *more || waits, begun);
                self.most = self.most.saturating_mul(2).min(MOST);
                if std::mem::take(&mut self.away) {
                    tracing::info!("usage is shipped again");
                }
            }
            Err(delay) => {
                self.shipping.failed(left);
                // Perhaps it was more than the database can take in time.
                self.most = (self.most / 4).max(LEAST);
                if !std::mem::replace(&mut self.away, true) {
                    tracing::warn!("usage cannot be shipped and stays in the journal: {delay}");
                } else {
                    tracing::debug!("usage still cannot be shipped: {delay}");
                }
            }
        }
        shipped
    }

    async fn batcher_at_marks(&self) -> Result<SegmentBatcher, Delay> {
        let segments = self.journal.segments();
        let marks = match segments.first() {
            Some(oldest) => self.destination.marks(self.journal.gateway(), oldest.id).await?,
            None => Vec::new(),
        };
        let present: HashSet<SegmentId> = segments.iter().map(|segment| segment.id).collect();
        Ok(SegmentBatcher::new(marks.into_iter().filter(|(segment, _)| present.contains(segment))))
    }

    async fn ship(&mut self) -> Result<bool, Delay> {
        // Taken out, so that the marks are read again if this is interrupted.
        let mut batcher = match self.batcher.take() {
            Some(batcher) => batcher,
            None => self.batcher_at_marks().await?,
        };
        let now = self.clock.elapsed();
        // While the database is away, few long segments are better.
        let rotates = !self.away && now.saturating_sub(self.rotated) >= ROTATION;
        if !rotates && batcher.is_idle(&self.journal.segments(), now) {
            self.batcher = Some(batcher);
            return Ok(false);
        }
        if rotates {
            self.rotated = now;
        }
        let journal = self.journal.clone();
        let most = self.most;
        let work = move || {
            if rotates {
                journal.rotate();
            }
            batcher.tidy(&journal, now);
            let filled = batcher.fill(&journal, most, now);
            (batcher, filled)
        };
        let (batcher, filled) = tokio::task::spawn_blocking(work).await?;
        let Filled { shipment, more } = &filled;
        if !filled.is_empty() {
            let tenants = shipment.folded.admitted.keys().map(|(tenant, _)| *tenant);
            let allowances = self.allowances.of(tenants, now).await;
            self.destination.ship(shipment, &allowances).await?;
            self.shipping.arrived();
        }
        self.batcher = Some(batcher);
        Ok(*more)
    }
}

#[cfg(test)]
mod tests;
