//! Stake pools and their rewards in an epoch.

use super::chain::Chain;
use super::network::{ada, epoch};
use super::tx::bech32;
use crate::json::{Json, object};

/// The number of pools.
const POOLS: u64 = 12;
const ADA: u64 = 1_000_000;

impl Chain {
    fn pool_id(&self, n: u64) -> String {
        bech32("pool", &self.seed.bytes::<28>("pool", n))
    }

    fn stake(&self, n: u64) -> u64 {
        let epoch = epoch(self.slot(self.head));
        (10_000_000 + self.seed.below("stake", n, 50_000_000)) * ADA
            + self.seed.below("drift", epoch << 8 | n, 900_000) * ADA
    }

    /// Returns all pools or those in `wanted` by id, with their stake if requested.
    pub(super) fn pools(&self, wanted: Option<&[String]>, with_stake: bool) -> Json {
        let rows = (0..POOLS).map(|n| (n, self.pool_id(n)));
        let rows = rows.filter(|(_, id)| wanted.is_none_or(|wanted| wanted.contains(id)));
        let rows = rows.map(|(n, id)| {
            let owner = self.seed.bytes::<28>("owner", n);
            let mut pool = object! {
                "id": id.clone(),
                "vrfVerificationKeyHash": hex::encode(self.seed.bytes::<32>("vrf", n)),
                "owners": vec![hex::encode(owner)],
                "cost": ada(170 * ADA),
                "margin": format!("{}/100", 1 + n % 5),
                "pledge": ada((100_000 + 50_000 * n) * ADA),
                "rewardAccount": bech32("stake", &[&[0xe1], &owner[..]].concat()),
                "metadata": object! {
                    "hash": hex::encode(self.seed.bytes::<32>("metadata", n)),
                    "url": format!("https://pool-{n}.example/p.json"),
                },
                "relays": vec![object! {
                    "type": "hostname", "hostname": format!("relay.pool-{n}.example"), "port": 3_001u64,
                }],
            };
            if with_stake {
                pool.put("stake", ada(self.stake(n)));
            }
            (id.into(), pool)
        });
        Json::Object(rows.collect())
    }

    /// Returns the registered reward accounts of these credentials: those of pool owners, who delegate to their pools.
    pub(super) fn reward_accounts(&self, credentials: &[[u8; 28]]) -> Json {
        let found = |credential: &[u8; 28]| {
            let n = (0..POOLS).find(|n| self.seed.bytes::<28>("owner", *n) == *credential)?;
            let pool = || object! { "id": self.pool_id(n) };
            Some(object! {
                "from": "verificationKey",
                "credential": hex::encode(credential),
                "stakePool": pool(),
                // The name of the same member for older clients.
                "delegate": pool(),
                "rewards": ada(self.seed.below("rewards", n, 1_000 * ADA)),
                "deposit": ada(2 * ADA),
            })
        };
        credentials.iter().filter_map(found).collect::<Vec<_>>().into()
    }

    /// Returns the rewards of the pools in the running epoch.
    pub(super) fn provenance(&self) -> Json {
        let epoch = epoch(self.slot(self.head));
        let active: u64 = (0..POOLS).map(|n| self.stake(n)).sum();
        let fees = 30_000 * ADA + self.seed.below("fees", epoch, 60_000 * ADA);
        let incentives = 15_000_000 * ADA + self.seed.below("incentives", epoch, 200_000 * ADA);
        let tax = (fees + incentives) / 5;
        let rewards = fees + incentives - tax;
        let rows = (0..POOLS).map(|n| {
            let earned = (u128::from(rewards) * u128::from(self.stake(n)) / u128::from(active)) as u64;
            let pool = object! {
                "relativeStake": format!("{}/{active}", self.stake(n)),
                "blocksMade": 20 + self.seed.below("made", epoch << 8 | n, 60),
                "totalRewards": ada(earned),
                "leaderReward": ada(170 * ADA + earned / 100),
                "delegators": vec![object! {
                    "from": "verificationKey",
                    "credential": hex::encode(self.seed.bytes::<28>("owner", n)),
                    "stake": ada(self.stake(n)),
                }],
            };
            (self.pool_id(n).into(), pool)
        });
        object! {
            "totalStake": ada(37_000_000_000 * ADA + epoch * 1_000 * ADA),
            "activeStake": ada(active),
            "fees": ada(fees),
            "incentives": ada(incentives),
            "treasuryTax": ada(tax),
            "totalRewards": ada(rewards),
            "efficiency": format!("{}/1000", 950 + self.seed.below("efficiency", epoch, 51)),
            "stakePools": Json::Object(rows.collect()),
        }
    }
}
