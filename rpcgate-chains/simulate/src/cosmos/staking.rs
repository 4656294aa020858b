//! Validators and delegations.

use super::address::{ACCOUNT, CONSENSUS, OPERATOR, read, text};
use super::chain::Chain;
use super::fault::Fault;
use super::page::{Page, base64};
use super::state::COIN;
use crate::hash::sha256;
use crate::json::{Json, object};
use crate::seed::Seed;
use crate::target::Target;
use crate::utc;
use rpcgate_core::clock::Time;

/// The number of bonded validators, and the number of jailed ones.
const BONDED: u64 = 60;
const JAILED: u64 = 12;
const MILLION: u128 = 1_000_000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Validator {
    seed: Seed,
    n: u64,
}

impl Validator {
    fn operator(self) -> [u8; 20] {
        self.seed.bytes("operator", self.n)
    }

    pub(crate) fn key(self) -> [u8; 32] {
        self.seed.bytes("consensus key", self.n)
    }

    /// Returns the address of the consensus key: the first 20 bytes of the key's hash.
    pub(crate) fn consensus(self) -> Vec<u8> {
        sha256(&self.key())[..20].to_vec()
    }

    fn is_bonded(self) -> bool {
        self.n < BONDED
    }

    fn status(self) -> &'static str {
        match self.n {
            _ if self.is_bonded() => "BOND_STATUS_BONDED",
            n if n % 4 == 0 => "BOND_STATUS_UNBONDING",
            _ => "BOND_STATUS_UNBONDED",
        }
    }

    /// Returns the delegated tokens, in `uatom`: the first validators have the most.
    fn tokens(self) -> u128 {
        let share = if self.is_bonded() { 24_000_000 / (u128::from(self.n) + 2) } else { 2_000 };
        (share * MILLION) + u128::from(self.seed.below("tokens", self.n, 900_000_000_000))
    }

    fn public_key(self) -> Json {
        object! { "@type": "/cosmos.crypto.ed25519.PubKey", "key": base64(self.key()) }
    }

    fn json(self) -> Json {
        let seed = self.seed;
        let n = self.n;
        let started = Time::from_secs(1_577_836_800 + seed.below("started", n, 150_000_000));
        let unbonding = self.status() == "BOND_STATUS_UNBONDING";
        let left = Time::from_secs(1_767_225_600 - seed.below("left", n, 1_000_000));
        let unbonding_height = if self.is_bonded() { 0 } else { 29_000_000 - seed.below("left", n, 150_000) };
        let unbonding_ids = if unbonding { vec![Json::from((900_000 + n).to_string())] } else { Vec::new() };
        let rate = |percent: u64| format!("0.{percent:02}0000000000000000");
        object! {
            "operator_address": text(OPERATOR, &self.operator()),
            "consensus_pubkey": self.public_key(),
            "jailed": !self.is_bonded(),
            "status": self.status(),
            "tokens": self.tokens().to_string(),
            "delegator_shares": format!("{}.000000000000000000", self.tokens()),
            "description": object! {
                "moniker": format!("validator {n}"),
                "identity": hex::encode_upper(seed.bytes::<8>("identity", n)),
                "website": format!("https://validator-{n}.example"),
                "security_contact": "",
                "details": "",
            },
            "unbonding_height": unbonding_height.to_string(),
            "unbonding_time": utc::seconds(if self.is_bonded() { Time::default() } else { left }),
            "commission": object! {
                "commission_rates": object! {
                    "rate": rate(5 + seed.below("rate", n, 6)), "max_rate": rate(20),
                    "max_change_rate": rate(1),
                },
                "update_time": utc::seconds(started),
            },
            "min_self_delegation": "1",
            "unbonding_on_hold_ref_count": "0",
            "unbonding_ids": Json::Array(unbonding_ids),
        }
    }
}

fn coin(amount: u128) -> Json {
    object! { "denom": COIN, "amount": amount.to_string() }
}

/// Returns the key of a store in which an address follows its length.
fn key(address: &[u8]) -> Vec<u8> {
    let mut key = vec![address.len() as u8];
    key.extend_from_slice(address);
    key
}

fn page(target: &Target, items: Vec<(Vec<u8>, Json)>, name: &'static str) -> Result<Json, Fault> {
    let (shown, pagination) = Page::read(target)?.cut(items);
    let mut out = object! {};
    out.put(name, Json::Array(shown));
    out.put("pagination", pagination);
    Ok(out)
}

impl Chain {
    fn validators(&self) -> impl Iterator<Item = Validator> {
        let seed = self.seed;
        (0..BONDED + JAILED).map(move |n| Validator { seed, n })
    }

    /// Returns the validators that produce blocks.
    pub(crate) fn bonded(&self) -> impl Iterator<Item = Validator> {
        self.validators().filter(|validator| validator.is_bonded())
    }

    /// Returns the consensus address of the proposer of block `height`.
    pub(crate) fn proposer(&self, height: u64) -> Vec<u8> {
        Validator { seed: self.seed, n: self.seed.below("proposer", height, BONDED) }.consensus()
    }

    fn validator(&self, operator: &str) -> Result<Validator, Fault> {
        let address = read(OPERATOR, operator).map_err(Fault::argument)?;
        let found = self.validators().find(|validator| validator.operator()[..] == address[..]);
        found.ok_or_else(|| Fault::not_found(format!("validator {operator} not found")))
    }

    /// Returns the delegations of an account: one in two accounts has bonded to one validator or two. Clients cannot
    /// delegate.
    fn delegations(&self, delegator: &[u8]) -> Vec<(Validator, u128)> {
        let Some(account) =
            self.state.account(delegator, self.head).filter(|account| account.number >= 1_000)
        else {
            return Vec::new();
        };
        (0..self.seed.below("delegations", account.number, 3))
            .map(|index| {
                let id = account.number << 2 | index;
                let n = self.seed.below("delegated to", account.number, BONDED / 2) * 2 + index;
                let amount = 1 + self.seed.below("delegated", id, 5_000_000_000);
                (Validator { seed: self.seed, n }, amount.into())
            })
            .collect()
    }

    fn delegation(delegator: &[u8], validator: Validator, amount: u128) -> Json {
        object! {
            "delegation": object! {
                "delegator_address": text(ACCOUNT, delegator),
                "validator_address": text(OPERATOR, &validator.operator()),
                "shares": format!("{amount}.000000000000000000"),
            },
            "balance": coin(amount),
        }
    }

    /// Answers `staking/v1beta1/…`.
    pub(crate) fn staking(&self, path: &[&str], target: &Target) -> Result<Json, Fault> {
        match path {
            ["validators"] => {
                let status = target.get("status").unwrap_or_default();
                if !["", "BOND_STATUS_BONDED", "BOND_STATUS_UNBONDING", "BOND_STATUS_UNBONDED"]
                    .contains(&status)
                {
                    return Err(Fault::argument(format!("invalid validator status {status}")));
                }
                let wanted = self.validators().filter(|one| status.is_empty() || one.status() == status);
                let mut items: Vec<_> = wanted.map(|one| (key(&one.operator()), one.json())).collect();
                items.sort_by(|(one, _), (other, _)| one.cmp(other));
                page(target, items, "validators")
            }
            ["validators", operator] => Ok(object! { "validator": self.validator(operator)?.json() }),
            ["validators", operator, "delegations"] => {
                let validator = self.validator(operator)?;
                let mut items = Vec::new();
                for (address, _) in self.state.all(self.head) {
                    let mine = self.delegations(&address).into_iter().find(|(to, _)| to.n == validator.n);
                    if let Some((validator, amount)) = mine {
                        items.push((key(&address), Self::delegation(&address, validator, amount)));
                    }
                }
                page(target, items, "delegation_responses")
            }
            ["validators", operator, "delegations", delegator] => {
                let validator = self.validator(operator)?;
                let address = read(ACCOUNT, delegator).map_err(Fault::argument)?;
                let mine = self.delegations(&address).into_iter().find(|(to, _)| to.n == validator.n);
                let Some((validator, amount)) = mine else {
                    let why =
                        format!("delegation with delegator {delegator} not found for validator {operator}");
                    return Err(Fault::not_found(why));
                };
                Ok(object! { "delegation_response": Self::delegation(&address, validator, amount) })
            }
            ["delegations", delegator] => {
                let address = read(ACCOUNT, delegator).map_err(Fault::argument)?;
                let items = self.delegations(&address).into_iter().map(|(validator, amount)| {
                    (key(&validator.operator()), Self::delegation(&address, validator, amount))
                });
                let mut items: Vec<_> = items.collect();
                items.sort_by(|(one, _), (other, _)| one.cmp(other));
                page(target, items, "delegation_responses")
            }
            ["delegators", delegator, "unbonding_delegations"] => {
                read(ACCOUNT, delegator).map_err(Fault::argument)?;
                page(target, Vec::new(), "unbonding_responses")
            }
            ["pool"] => {
                let sum = |bonded: bool| -> u128 {
                    self.validators().filter(|one| one.is_bonded() == bonded).map(Validator::tokens).sum()
                };
                let pool = object! {
                    "not_bonded_tokens": sum(false).to_string(), "bonded_tokens": sum(true).to_string(),
                };
                Ok(object! { "pool": pool })
            }
            ["params"] => {
                let params = object! {
                    "unbonding_time": "1814400s", "max_validators": 200u32, "max_entries": 7u32,
                    "historical_entries": 10_000u32, "bond_denom": COIN,
                    "min_commission_rate": "0.050000000000000000",
                };
                Ok(object! { "params": params })
            }
            _ => Err(Fault::not_implemented()),
        }
    }

    /// Returns the validators of block `height` by voting power, each with its power and its priority as a proposer.
    pub(crate) fn powers(&self, height: u64) -> Vec<(Validator, u64, i64)> {
        let mut bonded: Vec<_> = self.bonded().map(|one| ((one.tokens() / MILLION) as u64, one)).collect();
        bonded.sort_by_key(|(power, one)| (std::cmp::Reverse(*power), one.n));
        let row = |(power, one): (u64, Validator)| {
            let priority = self.seed.below("priority", height << 8 | one.n, 2 * power) as i64 - power as i64;
            (one, power, priority)
        };
        bonded.into_iter().map(row).collect()
    }

    /// Answers `validatorsets/…`: the validators of block `height`, by voting power.
    pub(crate) fn validator_set(&self, height: u64, target: &Target) -> Result<Json, Fault> {
        let items = self.powers(height).into_iter().zip(0u64..).map(|((one, power, priority), place)| {
            let shown = object! {
                "address": text(CONSENSUS, &one.consensus()), "pub_key": one.public_key(),
                "voting_power": power.to_string(), "proposer_priority": priority.to_string(),
            };
            (place.to_be_bytes().to_vec(), shown)
        });
        // This list is paged by offset alone; it has no key.
        let items: Vec<_> = items.collect();
        let total = items.len();
        let (shown, _) = Page::read(target)?.cut(items);
        Ok(object! {
            "block_height": height.to_string(),
            "validators": Json::Array(shown),
            "pagination": object! { "next_key": Json::Null, "total": total.to_string() },
        })
    }
}
