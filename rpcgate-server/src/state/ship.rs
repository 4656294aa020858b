//! The shipper: what is in the journal comes into the usage database, each record once.
//!
//! What was read is folded, and stored in one transaction with the marks that say up to where. So whatever is killed
//! at whatever moment, the next shipment begins where the last one that was stored ends. When it is not known whether
//! one was, the marks are read again: they know.

use super::pack::{Filled, Pack};
use crate::journal::Journal;
use rpcgate_admin::store::{ShipError, StoreError, UsageStore};
use rpcgate_admin::usage::Shipment;
use rpcgate_core::clock::Clock;
use rpcgate_core::journal::{GatewayId, SegmentId};
use rpcgate_core::seam::Later;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time between two looks at the journal.
const EVERY: Duration = Duration::from_millis(200);
/// Time until another attempt after one that failed.
const AGAIN: Duration = Duration::from_millis(500);
/// Time between two ends of the segments that are written to, so that they can be removed.
const ROTATION: Duration = Duration::from_secs(60);
/// Bytes of the journal that one shipment holds at most, and how few it goes down to when the database does not take
/// so much within its deadline.
const MOST: u64 = 2 << 20;
const LEAST: u64 = 64 << 10;

/// Where shipments go.
pub(super) trait Harbour: Send + Sync + fmt::Debug {
    /// Up to where the segments of a gateway were shipped, from segment `oldest` on.
    fn marks(
        &self,
        gateway: GatewayId,
        oldest: SegmentId,
    ) -> Later<'_, Result<Vec<(SegmentId, u64)>, StoreError>>;

    /// Takes all of a shipment or nothing.
    fn ship<'a>(&'a self, shipment: &'a Shipment) -> Later<'a, Result<(), ShipError>>;
}

impl Harbour for UsageStore {
    fn marks(
        &self,
        gateway: GatewayId,
        oldest: SegmentId,
    ) -> Later<'_, Result<Vec<(SegmentId, u64)>, StoreError>> {
        Box::pin(self.marks(gateway, oldest))
    }

    fn ship<'a>(&'a self, shipment: &'a Shipment) -> Later<'a, Result<(), ShipError>> {
        Box::pin(self.ship(shipment))
    }
}

/// Why something was not shipped now.
#[derive(Debug, thiserror::Error)]
pub(super) enum Delay {
    #[error(transparent)]
    Marks(#[from] StoreError),
    #[error(transparent)]
    Ship(#[from] ShipError),
    #[error("the work was cut off: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Ships one journal.
#[derive(Debug)]
pub(super) struct Shipper {
    journal: Arc<Journal>,
    harbour: Arc<dyn Harbour>,
    clock: Arc<dyn Clock>,
    /// `None` as long as it is not known what the database holds.
    pack: Option<Pack>,
    most: u64,
    rotated: Duration,
    away: bool,
}

impl Shipper {
    pub(super) fn new(journal: Arc<Journal>, harbour: Arc<dyn Harbour>, clock: Arc<dyn Clock>) -> Self {
        let rotated = clock.elapsed();
        Shipper { journal, harbour, clock, pack: None, most: MOST, rotated, away: false }
    }

    /// Ships again and again, until `closing`.
    pub(super) async fn run(mut self, closing: CancellationToken) -> Self {
        while !closing.is_cancelled() {
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

    /// Ships everything that is in the journal now, however often that must be tried.
    pub(super) async fn ship_all(&mut self) {
        loop {
            match self.round().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Bytes in the journal that are not shipped, as far as that is known.
    pub(super) fn left(&self) -> u64 {
        let segments = self.journal.segments();
        segments
            .iter()
            .map(|segment| segment.len - self.pack.as_ref().map_or(0, |pack| pack.at(segment)))
            .sum()
    }

    /// Ships once; whether there is more.
    async fn round(&mut self) -> Result<bool, Delay> {
        let shipped = self.ship().await;
        match &shipped {
            Ok(_) => {
                self.most = self.most.saturating_mul(2).min(MOST);
                if std::mem::take(&mut self.away) {
                    tracing::info!("usage is shipped again");
                }
            }
            Err(delay) => {
                // Perhaps it was more than can be done in time.
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

    /// A pack that begins where the database says.
    async fn unpacked(&self) -> Result<Pack, Delay> {
        let segments = self.journal.segments();
        let marks = match segments.first() {
            Some(oldest) => self.harbour.marks(self.journal.gateway(), oldest.id).await?,
            None => Vec::new(),
        };
        let present: HashSet<SegmentId> = segments.iter().map(|segment| segment.id).collect();
        Ok(Pack::new(marks.into_iter().filter(|(segment, _)| present.contains(segment))))
    }

    async fn ship(&mut self) -> Result<bool, Delay> {
        // Taken out: should this end halfway, however that comes about, the marks are read anew.
        let mut pack = match self.pack.take() {
            Some(pack) => pack,
            None => self.unpacked().await?,
        };
        let now = self.clock.elapsed();
        // While the database is away, segments are better few and long.
        let rotates = !self.away && now.saturating_sub(self.rotated) >= ROTATION;
        if !rotates && pack.is_idle(&self.journal.segments(), now) {
            self.pack = Some(pack);
            return Ok(false);
        }
        if rotates {
            self.rotated = now;
        }
        let (journal, most) = (self.journal.clone(), self.most);
        let work = move || {
            if rotates {
                journal.rotate();
            }
            pack.tidy(&journal, now);
            let filled = pack.fill(&journal, most, now);
            (pack, filled)
        };
        let (pack, filled) = tokio::task::spawn_blocking(work).await?;
        let Filled { shipment, more } = &filled;
        if !filled.is_empty() {
            self.harbour.ship(shipment).await?;
        }
        self.pack = Some(pack);
        Ok(*more)
    }
}

#[cfg(test)]
mod tests;
