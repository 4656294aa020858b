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

/// Returns voting thresholds by name; the part of a name before `/` is the object that holds it.
fn thresholds(rows: &[(&'static str, &'static str)]) -> Json {
    let mut out = object! {};
    for (name, ratio) in rows {
        match name.split_once('/') {
            None => out.put(name, *ratio),
            Some((group, name)) => {
                let inner = if let Json::Object(members) = &mut out {
                    members.iter_mut().find(|(known, _)| known == group).map(|(_, inner)| inner)
                } else {
                    None
                };
                match inner {
                    Some(inner) => inner.put(name, *ratio),
                    None => {
                        let mut inner = object! {};
                        inner.put(name, *ratio);
                        out.put(group, inner);
                    }
                }
            }
        }
    }
    out
}

/// Returns the protocol parameters. All script cost models are the same here, since no script runs.
pub(super) fn parameters() -> Json {
    let costs = |count: usize| Json::from(vec![100u64; count]);
    object! {
        "minFeeCoefficient": FEE_PER_BYTE,
        "minFeeConstant": ada(FEE),
        "minFeeReferenceScripts": object! {
            "range": 25_600u64, "base": Json::float(15.0), "multiplier": Json::float(1.2),
        },
        "minUtxoDepositCoefficient": 4_310u64,
        "minUtxoDepositConstant": ada(0),
        "maxBlockBodySize": bytes(90_112),
        "maxBlockHeaderSize": bytes(1_100),
        "maxTransactionSize": bytes(TX_BYTES as u64),
        "maxValueSize": bytes(5_000),
        "maxReferenceScriptsSize": bytes(204_800),
        "stakeCredentialDeposit": ada(2_000_000),
        "stakePoolDeposit": ada(500_000_000),
        "stakePoolRetirementEpochBound": 18u64,
        "stakePoolPledgeInfluence": "3/10",
        "minStakePoolCost": ada(170_000_000),
        "desiredNumberOfStakePools": 500u64,
        "monetaryExpansion": "3/1000",
        "treasuryExpansion": "1/5",
        "collateralPercentage": 150u64,
        "maxCollateralInputs": 3u64,
        "plutusCostModels": object! {
            "plutus:v1": costs(166), "plutus:v2": costs(175), "plutus:v3": costs(297),
        },
        "scriptExecutionPrices": object! { "memory": "577/10000", "cpu": "721/10000000" },
        "maxExecutionUnitsPerTransaction": object! { "memory": 16_500_000u64, "cpu": 10_000_000_000u64 },
        "maxExecutionUnitsPerBlock": object! { "memory": 72_000_000u64, "cpu": 20_000_000_000u64 },
        "stakePoolVotingThresholds": thresholds(&[
            ("noConfidence", "51/100"),
            ("constitutionalCommittee/default", "51/100"),
            ("constitutionalCommittee/stateOfNoConfidence", "51/100"),
            ("hardForkInitiation", "51/100"),
            ("protocolParametersUpdate/security", "51/100"),
        ]),
        "constitutionalCommitteeMinSize": 7u64,
        "constitutionalCommitteeMaxTermLength": 146u64,
        "governanceActionLifetime": 6u64,
        "governanceActionDeposit": ada(100_000_000_000),
        "delegateRepresentativeVotingThresholds": thresholds(&[
            ("noConfidence", "67/100"),
            ("constitution", "3/4"),
            ("constitutionalCommittee/default", "67/100"),
            ("constitutionalCommittee/stateOfNoConfidence", "3/5"),
            ("hardForkInitiation", "3/5"),
            ("protocolParametersUpdate/network", "67/100"),
            ("protocolParametersUpdate/economic", "67/100"),
            ("protocolParametersUpdate/technical", "67/100"),
            ("protocolParametersUpdate/governance", "3/4"),
            ("treasuryWithdrawals", "67/100"),
        ]),
        "delegateRepresentativeDeposit": ada(500_000_000),
        "delegateRepresentativeMaxIdleTime": 20u64,
        "version": object! { "major": 10u64, "minor": 0u64 },
    }
}
