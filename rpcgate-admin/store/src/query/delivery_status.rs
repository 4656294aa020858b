//! The states of a delivery.

use super::value::unreadable;
use crate::StoreError;
use std::fmt;
use std::str::FromStr;

pub(super) const HELD: &str = DeliveryStatus::Held.name();
pub(super) const PENDING: &str = DeliveryStatus::Pending.name();
pub(super) const FAILED: &str = DeliveryStatus::Failed.name();
pub(super) const WITHHELD: &str = DeliveryStatus::Withheld.name();

/// The state of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryStatus {
    /// Waits for the confirmations of its block.
    Held,
    /// Waits for its next attempt, or for the end of one.
    Pending,
    /// Was acknowledged by the receiver.
    Delivered,
    /// Was given up after all attempts failed.
    Failed,
    /// Was not sent, because too many deliveries of the endpoint waited. A replay sends it.
    Withheld,
}

impl DeliveryStatus {
    /// All states.
    pub const ALL: [DeliveryStatus; 5] = [
        DeliveryStatus::Held,
        DeliveryStatus::Pending,
        DeliveryStatus::Delivered,
        DeliveryStatus::Failed,
        DeliveryStatus::Withheld,
    ];

    /// Returns its name in the API and in the database.
    pub const fn name(self) -> &'static str {
        match self {
            DeliveryStatus::Held => "held",
            DeliveryStatus::Pending => "pending",
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Failed => "failed",
            DeliveryStatus::Withheld => "withheld",
        }
    }

    /// Reports whether no attempt follows.
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
