//! The states of a delivery.

use super::value::unreadable;
use crate::StoreError;
use std::fmt;
use std::str::FromStr;

/// Waiting for confirmations.
pub(super) const HELD: &str = DeliveryStatus::Held.name();
/// Waiting for its next attempt.
pub(super) const PENDING: &str = DeliveryStatus::Pending.name();
/// Given up, because all attempts have failed.
pub(super) const FAILED: &str = DeliveryStatus::Failed.name();
/// Waiting for a replay, since too many deliveries of its endpoint waited.
pub(super) const WITHHELD: &str = DeliveryStatus::Withheld.name();

/// The state of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryStatus {
    /// It waits for the confirmations of its block.
    Held,
    /// It waits for its next attempt, or for the end of one.
    Pending,
    /// The receiver has acknowledged it.
    Delivered,
    /// All attempts have failed.
    Failed,
    /// It was not sent, because too many deliveries of the endpoint waited. A replay sends it.
    Withheld,
}

impl DeliveryStatus {
    /// Every state.
    pub const ALL: [DeliveryStatus; 5] = [
        DeliveryStatus::Held,
        DeliveryStatus::Pending,
        DeliveryStatus::Delivered,
        DeliveryStatus::Failed,
        DeliveryStatus::Withheld,
    ];

    /// Its name in the API and in the database.
    pub const fn name(self) -> &'static str {
        match self {
            DeliveryStatus::Held => "held",
            DeliveryStatus::Pending => "pending",
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Failed => "failed",
            DeliveryStatus::Withheld => "withheld",
        }
    }

    /// Whether no attempt follows.
    pub const fn is_final(self) -> bool {
        matches!(self, DeliveryStatus::Delivered | DeliveryStatus::Failed | DeliveryStatus::Withheld)
    }
}

impl fmt::Display for DeliveryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DeliveryStatus {
    type Err = StoreError;

    fn from_str(name: &str) -> Result<Self, StoreError> {
        let found = DeliveryStatus::ALL.into_iter().find(|status| status.name() == name);
        found.ok_or_else(|| unreadable("status of a delivery", name))
    }
}
