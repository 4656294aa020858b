//! Constants of the network that no transaction changes here.

use crate::json::{Json, object};

/// The fee for each byte of a transaction, in lovelace.
pub(super) const FEE_PER_BYTE: u64 = 44;
/// The fixed fee of a transaction, in lovelace.
pub(super) const FEE: u64 = 155_381;
/// The largest transaction, in bytes.
pub(super) const TX_BYTES: usize = 16_384;
/// The Unix time of slot 0 in seconds, as if slots had always been one second long.
pub(super) const SLOT_ZERO: u64 = 1_591_566_291;
/// The first slot and the epoch of the era in which slots became one second long.
const SHELLEY: (u64, u64) = (4_492_800, 208);
/// The number of slots in an epoch.
pub(super) const EPOCH_SLOTS: u64 = 432_000;
/// The epoch in which the present era began.
const CONWAY: u64 = 507;
/// The Unix time at which the network started, in seconds.
const NETWORK_START: u64 = 1_506_203_091;
/// The start of the network.
pub(super) const START: &str = "2017-09-23T21:44:51Z";

pub(super) fn epoch(slot: u64) -> u64 {
    slot.saturating_sub(SHELLEY.0) / EPOCH_SLOTS + SHELLEY.1
}

pub(super) fn era_start() -> Json {
    let slot = (CONWAY - SHELLEY.1) * EPOCH_SLOTS + SHELLEY.0;
    // The network started this long before slot 0.
    let seconds = SLOT_ZERO + slot - NETWORK_START;
    object! { "time": object! { "seconds": seconds }, "slot": slot, "epoch": CONWAY }
}

/// The eras, each with its first epoch, the slots of its epochs, and the milliseconds of its slots.
const ERAS: [(u64, u64, u64); 7] = [
    (0, 21_600, 20_000),
    (208, EPOCH_SLOTS, 1_000),
    (236, EPOCH_SLOTS, 1_000),
    (251, EPOCH_SLOTS, 1_000),
    (290, EPOCH_SLOTS, 1_000),
    (365, EPOCH_SLOTS, 1_000),
    (CONWAY, EPOCH_SLOTS, 1_000),
];

/// Returns the eras from the first to the present one, by which clients convert slots to times.
pub(super) fn era_summaries() -> Json {
    let bound = |epoch: u64| {
        let (seconds, slot) = match epoch.checked_sub(SHELLEY.1) {
            Some(later) => {
                let slot = SHELLEY.0 + later * EPOCH_SLOTS;
                (SLOT_ZERO + slot - NETWORK_START, slot)
            }
            None => (epoch * 21_600 * 20, epoch * 21_600),
        };
        object! { "time": object! { "seconds": seconds }, "slot": slot, "epoch": epoch }
    };
    let ends = ERAS.iter().skip(1).map(|(epoch, ..)| Some(*epoch)).chain([None]);
    let rows = ERAS.iter().zip(ends).map(|((start, slots, millis), end)| {
        object! {
            "start": bound(*start),
            // The current era has no known end before the next one is agreed on; only one or two epochs are certain.
            "end": bound(end.unwrap_or(CONWAY + 1_000)),
            "parameters": object! {
                "epochLength": *slots,
                "slotLength": object! { "milliseconds": *millis },
                "safeZone": if *slots == EPOCH_SLOTS { 129_600u64 } else { 4_320 },
            },
        }
    });
    rows.collect::<Vec<_>>().into()
}

/// Returns the configuration with which an era began; `None` for an era without one.
pub(super) fn genesis(era: &str) -> Option<Json> {
    Some(match era {
        "byron" => object! {
            "era": era.to_owned(),
            "genesisKeyHashes": Json::Array(Vec::new()),
            "genesisDelegations": object! {},
            "startTime": START,
            "initialFunds": object! {},
            "initialVouchers": object! {},
            "securityParameter": 2_160u64,
            "networkMagic": 764_824_073u64,
            "updatableParameters": object! { "slotDuration": 20_000u64, "maxBlockSize": bytes(2_000_000) },
        },
        "shelley" => object! {
            "era": era.to_owned(),
            "startTime": START,
            "networkMagic": 764_824_073u64,
            "network": "mainnet",
            "activeSlotsCoefficient": "1/20",
            "securityParameter": 2_160u64,
            "epochLength": EPOCH_SLOTS,
            "slotsPerKesPeriod": 129_600u64,
            "maxKesEvolutions": 62u64,
            "slotLength": object! { "milliseconds": 1_000u64 },
            "updateQuorum": 5u64,
            "maxLovelaceSupply": 45_000_000_000_000_000u64,
            "initialParameters": parameters(),
            "initialDelegates": Json::Array(Vec::new()),
            "initialFunds": object! {},
            "initialStakePools": object! { "stakePools": object! {}, "delegators": object! {} },
        },
        "alonzo" => object! { "era": era.to_owned(), "updatableParameters": parameters() },
        "conway" => object! {
            "era": era.to_owned(),
            "constitution": object! { "metadata": object! { "url": "", "hash": "0".repeat(64) } },
            "constitutionalCommittee": object! { "members": Json::Array(Vec::new()), "quorum": "2/3" },
            "updatableParameters": parameters(),
        },
        _ => return None,
    })
}

/// Returns a value of `lovelace` and no other asset.
pub(super) fn ada(lovelace: u64) -> Json {
    object! { "ada": object! { "lovelace": lovelace } }
}

fn bytes(count: u64) -> Json {
    object! { "bytes": count }
}

/// Returns the protocol parameters. All script cost models are the same here, since no script runs.
pub(super) fn parameters() -> Json {
    Json::written(include_str!("parameters.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_are_those_by_which_transactions_are_checked() {
        let parameters: serde_json::Value = serde_json::from_str(&parameters().text()).unwrap();
        assert_eq!(parameters["minFeeCoefficient"], FEE_PER_BYTE);
        assert_eq!(parameters["minFeeConstant"]["ada"]["lovelace"], FEE);
        assert_eq!(parameters["maxTransactionSize"]["bytes"], TX_BYTES);
    }
}
