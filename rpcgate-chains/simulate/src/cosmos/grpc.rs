//! The gRPC services of the SDK's modules. The REST API is defined by them (`google.api.http` in the SDK's `.proto`
//! files), so each call is answered by its path there.

use super::CosmosNode;
use super::fault::Fault;
use crate::grpc::GrpcFailure;
use crate::grpc::schema::{JsonForm, Schema};
use crate::json::Json;
use crate::target::Target;
use rpcgate_core::clock::Time;
use serde_json::Value;
use std::sync::LazyLock;

/// Members that are decimals of the SDK (`cosmos.Dec`).
const DECIMALS: &[&str] = &[
    "annual_provisions",
    "delegator_shares",
    "goal_bonded",
    "inflation",
    "inflation_max",
    "inflation_min",
    "inflation_rate_change",
    "max_change_rate",
    "max_rate",
    "min_commission_rate",
    "rate",
    "shares",
];

#[expect(clippy::expect_used, reason = "a test reads the files as well")]
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    Schema::read(FILES, JsonForm::Canonical { decimals: DECIMALS }).expect("proto/cosmos compiles")
});

macro_rules! files {
    ($($path:literal),* $(,)?) => { &[$(($path, include_str!(concat!("../../proto/", $path)))),*] };
}

const FILES: &[(&str, &str)] = files![
    "google/protobuf/any.proto",
    "google/protobuf/duration.proto",
    "google/protobuf/timestamp.proto",
    "tendermint/abci/types.proto",
    "tendermint/p2p/types.proto",
    "tendermint/version/types.proto",
    "tendermint/types/types.proto",
    "tendermint/types/params.proto",
    "cosmos/base/v1beta1/coin.proto",
    "cosmos/base/query/v1beta1/pagination.proto",
    "cosmos/base/abci/v1beta1/abci.proto",
    "cosmos/base/node/v1beta1/query.proto",
    "cosmos/base/tendermint/v1beta1/query.proto",
    "cosmos/consensus/v1/query.proto",
    "cosmos/crypto/ed25519/keys.proto",
    "cosmos/crypto/secp256k1/keys.proto",
    "cosmos/tx/signing/v1beta1/signing.proto",
    "cosmos/tx/v1beta1/service.proto",
    "cosmos/auth/v1beta1/query.proto",
    "cosmos/bank/v1beta1/query.proto",
    "cosmos/mint/v1beta1/query.proto",
    "cosmos/staking/v1beta1/query.proto",
];

/// The services, and the start of their paths in the REST API.
const SERVICES: &[(&str, &str)] = &[
    ("/cosmos.auth.v1beta1.Query/", "auth/v1beta1"),
    ("/cosmos.bank.v1beta1.Query/", "bank/v1beta1"),
    ("/cosmos.base.node.v1beta1.Service/", "base/node/v1beta1"),
    ("/cosmos.base.tendermint.v1beta1.Service/", "base/tendermint/v1beta1"),
    ("/cosmos.consensus.v1.Query/", "consensus/v1"),
    ("/cosmos.mint.v1beta1.Query/", "mint/v1beta1"),
    ("/cosmos.staking.v1beta1.Query/", "staking/v1beta1"),
    ("/cosmos.tx.v1beta1.Service/", "tx/v1beta1"),
];

/// The read methods with the rest of their paths. Methods of the same name share one path. A member in braces is part
/// of the path; every other member is in the query.
const PATHS: &[(&str, &str)] = &[
    ("Account", "accounts/{address}"),
    ("AccountInfo", "account_info/{address}"),
    ("Accounts", "accounts"),
    ("AllBalances", "balances/{address}"),
    ("AnnualProvisions", "annual_provisions"),
    ("Balance", "balances/{address}/by_denom"),
    ("Bech32Prefix", "bech32"),
    ("Config", "config"),
    ("Delegation", "validators/{validator_addr}/delegations/{delegator_addr}"),
    ("DelegatorDelegations", "delegations/{delegator_addr}"),
    ("DelegatorUnbondingDelegations", "delegators/{delegator_addr}/unbonding_delegations"),
    ("DenomMetadata", "denoms_metadata/{denom}"),
    ("DenomsMetadata", "denoms_metadata"),
    ("GetBlockByHeight", "blocks/{height}"),
    ("GetBlockWithTxs", "txs/block/{height}"),
    ("GetLatestBlock", "blocks/latest"),
    ("GetLatestValidatorSet", "validatorsets/latest"),
    ("GetNodeInfo", "node_info"),
    ("GetSyncing", "syncing"),
    ("GetTx", "txs/{hash}"),
    ("GetTxsEvent", "txs"),
    ("GetValidatorSetByHeight", "validatorsets/{height}"),
    ("Inflation", "inflation"),
    ("Params", "params"),
    ("Pool", "pool"),
    ("SpendableBalanceByDenom", "spendable_balances/{address}/by_denom"),
    ("SpendableBalances", "spendable_balances/{address}"),
    ("Status", "status"),
    ("SupplyOf", "supply/by_denom"),
    ("TotalSupply", "supply"),
    ("Validator", "validators/{validator_addr}"),
    ("ValidatorDelegations", "validators/{validator_addr}/delegations"),
    ("Validators", "validators"),
];

pub(crate) fn services() -> &'static Schema {
    &SCHEMA
}

impl From<Fault> for GrpcFailure {
    fn from(fault: Fault) -> Self {
        GrpcFailure { code: fault.code, message: fault.message }
    }
}

impl CosmosNode {
    /// Answers the call at `path`.
    pub(super) fn answer(&mut self, path: &str, message: &[u8], now: Time) -> Result<Vec<u8>, GrpcFailure> {
        let method = SCHEMA.method(path).ok_or_else(|| unknown(path))?;
        let request = SCHEMA.decode(&method.input, message);
        let request = request.ok_or_else(|| {
            GrpcFailure::invalid_argument(format!("the request is not a {} message", method.input))
        })?;
        let json = match method.name.as_str() {
            "BroadcastTx" => self.chain.broadcast(request.to_string().as_bytes(), now)?,
            "Simulate" => self.chain.simulation(request.to_string().as_bytes())?,
            name => self.look_up(path, name, &request)?,
        };
        Ok(SCHEMA.encode(&method.output, &json))
    }

    fn look_up(&mut self, path: &str, name: &str, request: &Value) -> Result<Json, GrpcFailure> {
        let start = SERVICES.iter().find(|(service, _)| path.starts_with(service)).map(|(_, start)| *start);
        let rest = PATHS.iter().find(|(known, _)| *known == name).map(|(_, rest)| *rest);
        let (start, rest) = start.zip(rest).ok_or_else(|| unknown(path))?;
        let mut query = Vec::new();
        parameters("", request, &mut query);
        let mut segments: Vec<String> = start.split('/').map(str::to_owned).collect();
        for part in rest.split('/') {
            segments.push(match member(part) {
                // An absent member has its default, which the REST query cannot express.
                Some(name) => match query.iter().position(|(known, _)| known == name) {
                    Some(at) => query.swap_remove(at).1,
                    None if name == "height" => "0".to_owned(),
                    None => String::new(),
                },
                None => part.to_owned(),
            });
        }
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        Ok(self.read(&segments, &Target::of_query(query))?)
    }
}

/// Returns the member that a path segment of [`PATHS`] names in braces.
fn member(part: &str) -> Option<&str> {
    part.strip_prefix('{')?.strip_suffix('}')
}

/// Returns the text of grpc-go for a path that no service has.
fn unknown(path: &str) -> GrpcFailure {
    let name = path.trim_start_matches('/');
    let (service, method) = name.split_once('/').unwrap_or((name, ""));
    let is_known = SCHEMA.services().iter().any(|known| known == service);
    GrpcFailure::unimplemented(if is_known {
        format!("unknown method {method} for service {service}")
    } else {
        format!("unknown service {service}")
    })
}

/// Writes the members of a request as query parameters. Members of a nested message have its name and a point as their
/// prefix.
fn parameters(before: &str, request: &Value, out: &mut Vec<(String, String)>) {
    match request {
        Value::Object(members) => {
            for (name, value) in members {
                let name = if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
                parameters(&name, value, out);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| parameters(before, item, out)),
        Value::String(text) => out.push((before.to_owned(), text.clone())),
        Value::Null => {}
        other => out.push((before.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests;
