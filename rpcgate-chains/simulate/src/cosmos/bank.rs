//! Balances and accounts.

use super::address::{ACCOUNT, Address, read};
use super::chain::{Chain, is_denom};
use super::fault::Fault;
use super::page::Page;
use super::state::{Account, COIN, Coins, name};
use super::tx::{Coin, key_json};
use crate::json::{Json, object};
use crate::target::Target;

fn denom(target: &Target) -> Result<&str, Fault> {
    let denom = target.get("denom").unwrap_or_default();
    if is_denom(denom) { Ok(denom) } else { Err(Fault::argument(format!("invalid denom: {denom}"))) }
}

fn owner(text: &str) -> Result<Address, Fault> {
    read(ACCOUNT, text).map_err(|why| Fault::argument(format!("invalid address: {why}")))
}

fn one(coins: &Coins, denom: &str) -> Json {
    Coin { denom: denom.into(), amount: coins.get(denom).copied().unwrap_or(0) }.json()
}

fn listed(coins: Coins, target: &Target, name: &'static str) -> Result<Json, Fault> {
    let keyed = coins.into_iter().filter(|(_, amount)| *amount > 0);
    let keyed = keyed.map(|(denom, amount)| (denom.clone().into_bytes(), Coin { denom, amount }.json()));
    let (shown, pagination) = Page::read(target)?.cut(keyed.collect());
    let mut out = object! {};
    out.put(name, Json::Array(shown));
    out.put("pagination", pagination);
    Ok(out)
}

fn metadata() -> Json {
    let unit = |denom: &'static str, exponent: u32, aliases: Vec<&'static str>| {
        object! { "denom": denom, "exponent": exponent, "aliases": aliases }
    };
    object! {
        "description": "The native staking token of the Cosmos Hub.",
        "denom_units": vec![
            unit(COIN, 0, vec!["microatom"]), unit("matom", 3, vec!["milliatom"]), unit("atom", 6, vec![]),
        ],
        "base": COIN, "display": "atom", "name": "Cosmos Hub Atom", "symbol": "ATOM", "uri": "",
        "uri_hash": "",
    }
}

fn base_account(address: &[u8], account: &Account) -> Json {
    object! {
        "@type": "/cosmos.auth.v1beta1.BaseAccount",
        "address": name(address),
        "pub_key": account.key.as_deref().map(key_json),
        "account_number": account.number.to_string(),
        "sequence": account.sequence.to_string(),
    }
}

impl Chain {
    fn coins(&self, owner: &[u8]) -> Coins {
        self.state.account(owner, self.head).map(|account| account.coins).unwrap_or_default()
    }

    /// Answers `bank/v1beta1/…`.
    pub(crate) fn bank(&self, path: &[&str], target: &Target) -> Result<Json, Fault> {
        match path {
            ["balances", address] => listed(self.coins(&owner(address)?), target, "balances"),
            ["spendable_balances", address] => listed(self.coins(&owner(address)?), target, "balances"),
            ["balances" | "spendable_balances", address, "by_denom"] => {
                let coins = self.coins(&owner(address)?);
                Ok(object! { "balance": one(&coins, denom(target)?) })
            }
            ["supply"] => listed(self.state.supply(self.head), target, "supply"),
            ["supply", "by_denom"] => {
                Ok(object! { "amount": one(&self.state.supply(self.head), denom(target)?) })
            }
            // The path from before denominations had slashes; clients still use it.
            ["supply", denom] if is_denom(denom) => {
                Ok(object! { "amount": one(&self.state.supply(self.head), denom) })
            }
            ["params"] => {
                let params =
                    object! { "send_enabled": Json::Array(Vec::new()), "default_send_enabled": true };
                Ok(object! { "params": params })
            }
            ["denoms_metadata"] => {
                let (shown, pagination) =
                    Page::read(target)?.cut(vec![(COIN.as_bytes().to_vec(), metadata())]);
                Ok(object! { "metadatas": Json::Array(shown), "pagination": pagination })
            }
            ["denoms_metadata", denom] if *denom == COIN => Ok(object! { "metadata": metadata() }),
            ["denoms_metadata", denom] => Err(Fault::not_found(format!("client metadata for denom {denom}"))),
            _ => Err(Fault::not_implemented()),
        }
    }

    /// Answers `auth/v1beta1/…`.
    pub(crate) fn auth(&self, path: &[&str], target: &Target) -> Result<Json, Fault> {
        let find = |text: &str| {
            let address = read(ACCOUNT, text).map_err(Fault::argument)?;
            let account = self.state.account(&address, self.head);
            let account = account.ok_or_else(|| Fault::not_found(format!("account {text} not found")))?;
            Ok(base_account(&address, &account))
        };
        match path {
            ["accounts", address] => Ok(object! { "account": find(address)? }),
            ["account_info", address] => {
                let Json::Object(mut members) = find(address)? else {
                    return Err(Fault::unknown("account is of no known kind"));
                };
                members.retain(|(name, _)| name != "@type");
                Ok(object! { "info": Json::Object(members) })
            }
            ["accounts"] => {
                let all = self.state.all(self.head);
                let all = all.into_iter().map(|(address, account)| {
                    let shown = base_account(&address, &account);
                    (address, shown)
                });
                let (shown, pagination) = Page::read(target)?.cut(all.collect());
                Ok(object! { "accounts": Json::Array(shown), "pagination": pagination })
            }
            ["bech32"] => Ok(object! { "bech32_prefix": ACCOUNT }),
            ["params"] => {
                let params = object! {
                    "max_memo_characters": "256", "tx_sig_limit": "7", "tx_size_cost_per_byte": "10",
                    "sig_verify_cost_ed25519": "590", "sig_verify_cost_secp256k1": "1000",
                };
                Ok(object! { "params": params })
            }
            _ => Err(Fault::not_implemented()),
        }
    }
}
