//! The JSON of the ledger.

use super::address::{Address, name, read_address};
use super::chain::{Chain, Entry, Kind};
use super::state::{Account, RESIDENT_GAS};
use super::tx::{CHAIN, COIN, Call, Tx, request, sha3, shown_signature};
use crate::json::{Json, object};

const SYSTEM: &str = "0x1";

/// The resource type of an account.
pub(crate) const ACCOUNT: &str = "0x1::account::Account";
/// The resource type of an account's coins.
pub(crate) const STORE: &str = "0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>";

fn event(kind: &str, data: Json) -> Json {
    // Module events, unlike events of handles, have no creation number.
    let guid = object! { "creation_number": "0", "account_address": "0x0" };
    object! { "guid": guid, "sequence_number": "0", "type": kind.to_owned(), "data": data }
}

fn key_hash(address: &Address, kind: &str) -> String {
    format!("0x{}", hex::encode(sha3(&[&address[..], kind.as_bytes()].concat())))
}

pub(crate) fn handle(address: &Address, number: u64) -> Json {
    let id = object! { "addr": name(address), "creation_num": number.to_string() };
    object! { "counter": "0", "guid": object! { "id": id } }
}

/// Returns the account resource in the given state.
pub(crate) fn account_resource(address: &Address, account: &Account) -> Json {
    let none = || object! { "for": object! { "vec": Json::Array(Vec::new()) } };
    object! {
        "type": ACCOUNT,
        "data": object! {
            "authentication_key": Json::data(address),
            "coin_register_events": handle(address, 0),
            "guid_creation_num": "4",
            "key_rotation_events": handle(address, 1),
            "rotation_capability_offer": none(),
            "sequence_number": account.sequence.to_string(),
            "signer_capability_offer": none(),
        },
    }
}

pub(crate) fn coin_resource(address: &Address, account: &Account) -> Json {
    object! {
        "type": STORE,
        "data": object! {
            "coin": object! { "value": account.balance.to_string() },
            "deposit_events": handle(address, 2),
            "frozen": false,
            "withdraw_events": handle(address, 3),
        },
    }
}

fn change(address: &Address, kind: &str, resource: Json) -> Json {
    object! {
        "address": name(address), "state_key_hash": key_hash(address, kind), "data": resource,
        "type": "write_resource",
    }
}

/// The readable modules and their functions: name, parameters, return types, whether they are view functions, and
/// whether they have a type parameter.
type Function = (&'static str, &'static [&'static str], &'static [&'static str], bool, bool);
const MODULES: [(&str, &[Function]); 2] = [
    (
        "aptos_account",
        &[
            ("transfer", &["&signer", "address", "u64"], &[], false, false),
            ("transfer_coins", &["&signer", "address", "u64"], &[], false, true),
        ],
    ),
    (
        "coin",
        &[
            ("balance", &["address"], &["u64"], true, true),
            ("decimals", &[], &["u8"], true, true),
            ("name", &[], &["0x1::string::String"], true, true),
            ("symbol", &[], &["0x1::string::String"], true, true),
            ("transfer", &["&signer", "address", "u64"], &[], false, true),
        ],
    ),
];

/// Returns the ABI of a system module.
pub(crate) fn module(wanted: &str) -> Option<Json> {
    let (module, functions) = MODULES.iter().find(|(module, _)| *module == wanted)?;
    let texts = |texts: &[&'static str]| texts.iter().copied().map(Json::from).collect::<Vec<_>>();
    let functions = functions.iter().map(|(name, params, returned, is_view, is_generic)| {
        let generic =
            if *is_generic { vec![object! { "constraints": Json::Array(Vec::new()) }] } else { Vec::new() };
        object! {
            "name": *name, "visibility": "public", "is_entry": !is_view, "is_view": *is_view,
            "generic_type_params": generic, "params": texts(params), "return": texts(returned),
        }
    });
    // The bytecode of a module begins with these bytes and its version.
    let abi = object! {
        "address": SYSTEM, "name": *module, "friends": Json::Array(Vec::new()),
        "exposed_functions": functions.collect::<Vec<_>>(), "structs": Json::Array(Vec::new()),
    };
    Some(object! { "bytecode": "0xa11ceb0b07000000", "abi": abi })
}

impl Chain {
    /// Answers `GET /v1`.
    pub(crate) fn ledger(&self) -> Json {
        object! {
            "chain_id": CHAIN,
            "epoch": Self::round(self.head).0.to_string(),
            "ledger_version": self.version().to_string(),
            "oldest_ledger_version": self.first_version(self.oldest()).to_string(),
            "ledger_timestamp": self.time(self.head).micros().to_string(),
            "node_role": "full_node",
            "oldest_block_height": self.oldest().to_string(),
            "block_height": self.head.to_string(),
            "git_hash": hex::encode(self.seed.bytes::<20>("build", 0)),
        }
    }

    /// Returns a block, with its transactions if requested.
    pub(crate) fn block(&self, height: u64, with_transactions: bool) -> Json {
        let mut out = object! {
            "block_height": height.to_string(),
            "block_hash": Json::data(&self.block_hash(height)),
            "block_timestamp": self.time(height).micros().to_string(),
            "first_version": self.first_version(height).to_string(),
            "last_version": (self.first_version(height + 1) - 1).to_string(),
        };
        if with_transactions {
            let entries = self.entries(height);
            out.put("transactions", entries.iter().map(|entry| self.shown(entry)).collect::<Vec<_>>());
        }
        out
    }

    /// Returns the members at the start of every committed transaction.
    fn front(&self, entry: &Entry) -> Json {
        let word = |tag: &str| Json::data(&self.seed.bytes::<32>(tag, entry.version));
        // The state has a checkpoint at the end of each block.
        let checkpoint = matches!(entry.kind, Kind::Epilogue).then(|| word("checkpoint"));
        let failure = entry.outcome.failure.clone();
        object! {
            "version": entry.version.to_string(),
            "hash": Json::data(&entry.hash),
            "state_change_hash": word("change"),
            "event_root_hash": word("events"),
            "state_checkpoint_hash": checkpoint,
            "gas_used": entry.outcome.gas_used.to_string(),
            "success": failure.is_empty(),
            "vm_status": if failure.is_empty() { "Executed successfully".to_owned() } else { failure },
            "accumulator_root_hash": word("accumulator"),
        }
    }

    /// Returns the changes and events of a transfer.
    fn effects(&self, entry: &Entry, from: &Address, to: Option<(Address, u64)>) -> (Json, Json) {
        let state = |address: &Address| self.state.account(address, entry.height).unwrap_or_default();
        let sender = state(from);
        let mut changes = vec![
            change(from, ACCOUNT, account_resource(from, &sender)),
            change(from, STORE, coin_resource(from, &sender)),
        ];
        let mut events = Vec::new();
        if let Some((to, amount)) = to.filter(|_| entry.outcome.failure.is_empty()) {
            changes.push(change(&to, STORE, coin_resource(&to, &state(&to))));
            for (kind, account) in [("0x1::coin::CoinWithdraw", from), ("0x1::coin::CoinDeposit", &to)] {
                let data = object! {
                    "account": name(account), "amount": amount.to_string(), "coin_type": COIN,
                };
                events.push(event(kind, data));
            }
        }
        let gas = entry.outcome.gas_used;
        let fee = object! {
            "execution_gas_units": (gas / 2).to_string(), "io_gas_units": (gas - gas / 2).to_string(),
            "storage_fee_octas": "0", "storage_fee_refund_octas": "0",
            "total_charge_gas_units": gas.to_string(),
        };
        events.push(event("0x1::transaction_fee::FeeStatement", fee));
        (Json::Array(changes), Json::Array(events))
    }

    fn user(&self, entry: &Entry, from: &Address, to: Option<(Address, u64)>, request: Json) -> Json {
        let mut out = self.front(entry);
        let (changes, events) = self.effects(entry, from, to);
        out.put("changes", changes);
        out.extend(request);
        out.put("events", events);
        out.put("timestamp", self.time(entry.height).micros().to_string());
        out.put("type", "user_transaction");
        out
    }

    /// Returns a committed transaction as the API shows it.
    pub(crate) fn shown(&self, entry: &Entry) -> Json {
        let timestamp = self.time(entry.height).micros().to_string();
        match &entry.kind {
            Kind::Client(tx) => self.user(entry, &tx.sender, tx.call.transfer(), tx.json()),
            Kind::Resident(transfer) => {
                let call = Call {
                    address: read_address(SYSTEM).unwrap_or_default(),
                    module: "aptos_account".into(),
                    function: "transfer".into(),
                    types: Vec::new(),
                    arguments: vec![transfer.to.to_vec(), transfer.amount.to_le_bytes().to_vec()],
                };
                // The key is unknown, so the signature is random bytes.
                let signature =
                    shown_signature(&transfer.key, &self.seed.bytes::<64>("signature", entry.version));
                let limits = [2_000, RESIDENT_GAS.1, self.time(entry.height).secs() + 20];
                let asked = request(transfer.from, transfer.sequence, limits, &call, signature);
                self.user(entry, &transfer.from, Some((transfer.to, transfer.amount)), asked)
            }
            Kind::Metadata => {
                let (epoch, round) = Self::round(entry.height);
                let proposer =
                    self.seed.bytes::<32>("validator", self.seed.below("proposer", entry.height, 140));
                let mut votes = self.seed.bytes::<18>("votes", entry.height).to_vec();
                votes.iter_mut().for_each(|byte| *byte |= 0xb6);
                let hash = Json::data(&self.block_hash(entry.height));
                let data = object! {
                    "hash": hash.clone(), "epoch": epoch.to_string(), "round": round.to_string(),
                    "height": entry.height.to_string(), "proposer": Json::data(&proposer),
                    "failed_proposer_indices": Json::Array(Vec::new()),
                    "previous_block_votes_bitvec": Json::data(&votes),
                    "time_microseconds": timestamp.clone(),
                };
                let mut out = self.front(entry);
                out.put("changes", Json::Array(Vec::new()));
                out.put("id", hash);
                out.put("epoch", epoch.to_string());
                out.put("round", round.to_string());
                out.put("events", Json::Array(vec![event("0x1::block::NewBlock", data)]));
                out.put("previous_block_votes_bitvec", votes);
                out.put("proposer", Json::data(&proposer));
                out.put("failed_proposer_indices", Json::Array(Vec::new()));
                out.put("timestamp", timestamp);
                out.put("type", "block_metadata_transaction");
                out
            }
            Kind::Epilogue => {
                let used = self.entries(entry.height).iter().map(|entry| entry.outcome.gas_used).sum::<u64>();
                let end = object! {
                    "block_gas_limit_reached": false, "block_output_limit_reached": false,
                    "block_effective_block_gas_units": used, "block_approx_output_size": used * 40,
                };
                let mut out = self.front(entry);
                out.put("changes", Json::Array(Vec::new()));
                out.put("timestamp", timestamp);
                out.put("block_end_info", end);
                out.put("type", "block_epilogue_transaction");
                out
            }
        }
    }

    pub(crate) fn shown_pending(tx: &Tx) -> Json {
        let mut out = object! { "hash": Json::data(&tx.hash) };
        out.extend(tx.json());
        out.put("type", "pending_transaction");
        out
    }

    /// Returns a transaction as it would be shown in the newest block.
    pub(crate) fn shown_simulated(&self, tx: &Tx) -> Json {
        let version = self.version();
        let height = self.head;
        let outcome = self.run(tx);
        let kind = Kind::Client(std::sync::Arc::new(tx.clone()));
        self.shown(&Entry { version, height, hash: tx.hash, kind, outcome })
    }
}
