//! The full node of Aptos: its REST API, version 1.

mod address;
mod chain;
mod fault;
mod framework;
mod show;
mod state;
mod tx;
mod view;

use super::json::{Json, object};
use super::ledger::{LedgerNode, ledger_of};
use super::rest::{self, Rest, RestRequest};
use super::target::Target;
use super::{NodeReply, SimulatedRequest};
use address::{Address, FRAMEWORK, name, read_address};
use chain::Chain;
use fault::Fault;
use rpcgate_core::clock::Time;
use state::{Account, State};
use tx::{COIN, Tx};

/// The default and the largest number of transactions in a page.
const PAGE: u64 = 25;
const MOST: u64 = 100;

/// A pruned full node of the Aptos main network; it keeps about two months of blocks.
///
/// Five accounts hold 1,000 APT each; their Ed25519 secret keys are 32 bytes 1, 32 bytes 2 and so on to 5.
/// Signatures are verified. Only transfers of APT run: a call of any other function is committed as
/// failed. Requests for the state at an older version get the newest state.
#[derive(Debug)]
pub struct AptosNode {
    chain: Chain,
}

fn address(text: &str) -> Result<Address, Fault> {
    read_address(text).ok_or_else(|| {
        Fault::web(format!("failed to parse path `address`: Invalid account address {text:?}"))
    })
}

fn number(text: &str, what: &str) -> Result<u64, Fault> {
    let why = |error| Fault::web(format!("failed to parse {what}: {error}"));
    text.parse().map_err(|error: std::num::ParseIntError| why(error.to_string()))
}

fn parameter(target: &Target, what: &str) -> Result<Option<u64>, Fault> {
    target.get(what).map(|text| number(text, &format!("parameter `{what}`"))).transpose()
}

fn limit(target: &Target) -> Result<u64, Fault> {
    match parameter(target, "limit")? {
        Some(0) => Err(Fault::input("Given limit value (0) must not be zero")),
        limit => Ok(limit.unwrap_or(PAGE).min(MOST)),
    }
}

fn hash(text: &str) -> Result<[u8; 32], Fault> {
    let bytes = hex::decode(text.strip_prefix("0x").unwrap_or(text)).ok();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| Fault::web("failed to parse path `txn_hash`: invalid hash value"))
}

impl AptosNode {
    /// Creates the node of `aptos`.
    pub fn new(seed: u64) -> Self {
        AptosNode { chain: Chain::of_seed(seed) }
    }

    /// Returns the existing ledger version at which a request reads state.
    fn version(&self, target: &Target) -> Result<u64, Fault> {
        let newest = self.chain.version();
        let Some(version) = parameter(target, "ledger_version")? else {
            return Ok(newest);
        };
        if version > newest {
            let by = format!("Ledger version({version})");
            return Err(Fault::missing("version_not_found", "Ledger version", &by));
        }
        self.chain.block_of(version).map(|_| version)
    }

    fn account(&self, text: &str, target: &Target) -> Result<(Address, Account), Fault> {
        let address = address(text)?;
        let version = self.version(target)?;
        let account = self.chain.state.account(&address, self.chain.head).ok_or_else(|| {
            let by = format!("Address({}) and Ledger version({version})", name(&address));
            Fault::missing("account_not_found", "Account", &by)
        })?;
        Ok((address, account))
    }

    fn accounts(&self, text: &str, path: &[&str], target: &Target) -> Result<Json, Fault> {
        match path {
            [] => {
                let (address, account) = self.account(text, target)?;
                Ok(object! {
                    "sequence_number": account.sequence.to_string(),
                    "authentication_key": Json::data(&address),
                })
            }
            ["resources"] => {
                let (address, account) = self.account(text, target)?;
                let own = show::account_resource(&address, &account);
                if address != FRAMEWORK {
                    return Ok(Json::Array(vec![own, show::coin_resource(&address, &account)]));
                }
                let system = self.chain.framework().into_iter();
                let system = system.map(|(kind, data)| object! { "type": kind, "data": data });
                Ok(Json::Array([own].into_iter().chain(system).collect()))
            }
            ["resource", kind] => {
                let (address, account) = self.account(text, target)?;
                match kind.replace(' ', "").as_str() {
                    show::ACCOUNT => Ok(show::account_resource(&address, &account)),
                    show::STORE => Ok(show::coin_resource(&address, &account)),
                    kind if address == FRAMEWORK
                        && let Some((kind, data)) =
                            self.chain.framework().into_iter().find(|(known, _)| *known == kind) =>
                    {
                        Ok(object! { "type": kind, "data": data })
                    }
                    kind => {
                        let version = self.version(target)?;
                        let place = format!("Address({}), Struct tag({kind})", name(&address));
                        let by = format!("{place} and Ledger version({version})");
                        Err(Fault::missing("resource_not_found", "Resource", &by))
                    }
                }
            }
            ["balance", asset] => {
                let address = address(text)?;
                self.version(target)?;
                let is_coin = *asset == COIN || read_address(asset) == read_address("0xa");
                let account = self.chain.state.account(&address, self.chain.head).filter(|_| is_coin);
                Ok(Json::from(account.unwrap_or_default().balance))
            }
            ["modules"] => {
                let address = address(text)?;
                self.version(target)?;
                let system = ["aptos_account", "coin"].iter().filter_map(|module| show::module(module));
                let is_system = name(&address) == "0x1";
                Ok(Json::Array(if is_system { system.collect() } else { Vec::new() }))
            }
            ["module", wanted] => {
                let address = address(text)?;
                let version = self.version(target)?;
                let module = (name(&address) == "0x1").then(|| show::module(wanted)).flatten();
                module.ok_or_else(|| {
                    let place = format!("Address({}), Module name({wanted})", name(&address));
                    let by = format!("{place} and Ledger version({version})");
                    Fault::missing("module_not_found", "Module", &by)
                })
            }
            ["transactions"] => self.sent(text, target),
            _ => Err(Fault::no_path()),
        }
    }

    /// Returns the transactions of an account by sequence number; by default the last ones.
    fn sent(&self, text: &str, target: &Target) -> Result<Json, Fault> {
        let (address, account) = self.account(text, target)?;
        let limit = limit(target)?;
        let start = parameter(target, "start")?.unwrap_or_else(|| account.sequence.saturating_sub(limit));
        let end = start.saturating_add(limit).min(account.sequence);
        let chain = &self.chain;
        let found: Vec<_> = if chain.state.transfer_of(&address, 0).is_some() {
            let heights = (start..end).filter_map(|sequence| chain.state.transfer_of(&address, sequence));
            let kept = heights.filter(|height| *height >= chain.oldest());
            let mine = |entry: &chain::Entry| matches!(&entry.kind, chain::Kind::Resident(transfer) if transfer.from == address);
            kept.flat_map(|height| chain.entries(height)).filter(mine).collect()
        } else {
            let skipped = usize::try_from(start).unwrap_or(usize::MAX);
            chain.sent(&address).into_iter().skip(skipped).take(limit as usize).collect()
        };
        Ok(Json::Array(found.iter().map(|entry| chain.shown(entry)).collect()))
    }

    /// Returns transactions by version; by default the last ones.
    fn transactions(&self, target: &Target) -> Result<Json, Fault> {
        let limit = limit(target)?;
        let newest = self.chain.version();
        let start = parameter(target, "start")?.unwrap_or((newest + 1).saturating_sub(limit));
        if start > newest {
            let why =
                format!("Given start value ({start}) is higher than the current ledger version, it must be");
            return Err(Fault::input(format!("{why} < {newest}")));
        }
        let end = start.saturating_add(limit).min(newest + 1);
        let mut height = self.chain.block_of(start)?;
        let mut out = Vec::new();
        while self.chain.first_version(height) < end {
            let entries = self.chain.entries(height);
            let wanted = entries.iter().filter(|entry| (start..end).contains(&entry.version));
            out.extend(wanted.map(|entry| self.chain.shown(entry)));
            height += 1;
        }
        Ok(Json::Array(out))
    }

    fn block(&self, height: u64, target: &Target) -> Json {
        self.chain.block(height, target.get("with_transactions") == Some("true"))
    }

    fn read(&self, path: &[&str], target: &Target) -> Result<Json, Fault> {
        let chain = &self.chain;
        match path {
            [] => Ok(chain.ledger()),
            ["-", "healthy"] => {
                parameter(target, "duration_secs")?;
                // Blocks always arrive on time here, so every age is accepted.
                Ok(object! { "message": "aptos-node:ok" })
            }
            ["accounts", account, rest @ ..] => self.accounts(account, rest, target),
            ["blocks", "by_height", height] => {
                let height = number(height, "path `block_height`")?;
                if height > chain.head {
                    let by = format!("Block height({height})");
                    return Err(Fault::missing("block_not_found", "Block", &by));
                }
                if height < chain.oldest() {
                    return Err(Fault::pruned("block_pruned", &format!("Block({height})")));
                }
                Ok(self.block(height, target))
            }
            ["blocks", "by_version", version] => {
                let version = number(version, "path `version`")?;
                if version > chain.version() {
                    let by = format!("Ledger version({version})");
                    return Err(Fault::missing("version_not_found", "Ledger version", &by));
                }
                Ok(self.block(chain.block_of(version)?, target))
            }
            ["transactions"] => self.transactions(target),
            ["transactions", "by_version", version] => {
                let version = number(version, "path `txn_version`")?;
                let missing = || {
                    let by = format!("Ledger version({version})");
                    Fault::missing("transaction_not_found", "Transaction", &by)
                };
                if version > chain.version() {
                    return Err(missing());
                }
                let entries = chain.entries(chain.block_of(version)?);
                let found = entries.iter().find(|entry| entry.version == version);
                found.map(|entry| chain.shown(entry)).ok_or_else(missing)
            }
            ["transactions", "by_hash" | "wait_by_hash", text] => {
                let hash = hash(text)?;
                if let Some(tx) = chain.pending(&hash) {
                    return Ok(Chain::shown_pending(&tx));
                }
                let found = chain.committed(&hash);
                found.map(|entry| chain.shown(&entry)).ok_or_else(|| {
                    let by = format!("Transaction hash(0x{})", hex::encode(hash));
                    Fault::missing("transaction_not_found", "Transaction", &by)
                })
            }
            ["estimate_gas_price"] => Ok(object! {
                "deprioritized_gas_estimate": 100u32, "gas_estimate": 100u32,
                "prioritized_gas_estimate": 150u32,
            }),
            _ => Err(Fault::no_path()),
        }
    }

    /// Reads the bytes of a transaction in BCS or JSON. The content type does not distinguish them.
    fn raw(body: &[u8]) -> Result<Vec<u8>, Fault> {
        match serde_json::from_slice::<serde_json::Value>(body) {
            Ok(value) => Tx::encode(&value)
                .ok_or_else(|| Fault::input("Failed to parse SubmitTransactionRequest into a transaction")),
            Err(_) => Ok(body.to_vec()),
        }
    }

    fn post(&mut self, path: &[&str], body: &[u8], now: Time) -> Result<(u16, Json), Fault> {
        match path {
            ["view"] => Ok((200, self.chain.view(body)?)),
            ["transactions"] => {
                let tx = self.chain.submit(&Self::raw(body)?, now)?;
                Ok((202, Chain::shown_pending(&tx)))
            }
            ["transactions", "simulate"] => {
                let wrong = || Fault::input("Failed to deserialize input into SignedTransaction");
                let tx = Tx::decode(&Self::raw(body)?).ok_or_else(wrong)?;
                // A signed transaction could be submitted, so a simulation refuses it.
                if tx.is_signed() {
                    return Err(Fault::input("Simulated transactions must not have a valid signature"));
                }
                self.chain.check(&tx, now)?;
                Ok((200, Json::Array(vec![self.chain.shown_simulated(&tx)])))
            }
            _ => Err(Fault::no_path()),
        }
    }
}

impl Rest for AptosNode {
    type Error = Fault;

    fn run(&mut self, call: RestRequest<'_>, now: Time) -> Result<NodeReply, Fault> {
        let Some((&"v1", path)) = call.path.split_first() else {
            return Err(Fault::no_path());
        };
        let (status, value) = match *call.verb {
            http::Method::GET | http::Method::HEAD => (200, self.read(path, call.query)?),
            http::Method::POST => self.post(path, call.body, now)?,
            _ => return Err(Fault::no_verb()),
        };
        Ok(NodeReply::of(status, &value))
    }
}

impl LedgerNode for AptosNode {
    ledger_of!(State);

    fn respond(&mut self, request: &SimulatedRequest<'_>, now: Time) -> NodeReply {
        rest::serve(self, request, now)
    }
}

#[cfg(test)]
mod tests;
