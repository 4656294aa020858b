//! The framework's account `0x1`: the coin and the framework's own resources, which the first examples of clients read.

use super::address::FRAMEWORK;
use super::chain::Chain;
use super::show::handle;
use super::tx::CHAIN;
use crate::json::{Json, object};

/// The total supply in octas.
const SUPPLY: &str = "119500000000000000";

impl Chain {
    /// Returns the resources of `0x1` by type, without those that every account has.
    pub(crate) fn framework(&self) -> Vec<(&'static str, Json)> {
        let (epoch, _) = Self::round(self.head);
        let micros = |height| Json::from(self.time(height).micros().to_string());
        let counted = |number, count: u64| {
            let mut events = handle(&FRAMEWORK, number);
            events.put("counter", count.to_string());
            events
        };
        let vec = |items: Vec<Json>| object! { "vec": Json::Array(items) };
        let supply = object! { "aggregator": vec(Vec::new()), "integer": vec(vec![object! {
            "limit": u128::MAX.to_string(), "value": SUPPLY,
        }]) };
        vec![
            (
                "0x1::block::BlockResource",
                object! {
                    "epoch_interval": "7200000000", "height": self.head.to_string(),
                    "new_block_events": counted(3, self.head + 1),
                    "update_epoch_interval_events": counted(4, 0),
                },
            ),
            ("0x1::chain_id::ChainId", object! { "id": CHAIN }),
            (
                "0x1::coin::CoinInfo<0x1::aptos_coin::AptosCoin>",
                object! {
                    "decimals": 8u32, "name": "Aptos Coin", "supply": vec(vec![supply]), "symbol": "APT",
                },
            ),
            (
                "0x1::reconfiguration::Configuration",
                object! {
                    "epoch": epoch.to_string(), "events": counted(2, epoch),
                    "last_reconfiguration_time": micros(Self::epoch_start(self.head)),
                },
            ),
            (
                "0x1::staking_config::StakingConfig",
                object! {
                    "allow_validator_set_change": true, "maximum_stake": "5000000000000000",
                    "minimum_stake": "100000000000000", "recurring_lockup_duration_secs": "1209600",
                    "rewards_rate": "21", "rewards_rate_denominator": "1000000",
                    "voting_power_increase_limit": "20",
                },
            ),
            ("0x1::timestamp::CurrentTimeMicroseconds", object! { "microseconds": micros(self.head) }),
            ("0x1::version::Version", object! { "major": "220" }),
        ]
    }
}
