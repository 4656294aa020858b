//! The methods of an XRP Ledger server.

use super::ledger::{FEE, GENESIS};
use super::root::root_index;
use super::show::{Choice, View, account_root};
use super::wire::{Account, Hash, parse_address, upper};
use super::{Context, XrpNode};
use crate::json::{Json, object};
use serde_json::{Map, Value};

/// The longest transaction that is read, in bytes.
const LONGEST: usize = 1 << 20;
/// The maximum number of ledgers that one `tx` searches.
const RANGE: u64 = 1_000;

pub(super) type Params = Map<String, Value>;

/// An error inside the result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trouble {
    pub(super) name: &'static str,
    /// Code and message; some errors have neither.
    pub(super) words: Option<(u32, String)>,
    pub(super) more: Vec<(&'static str, Json)>,
}

impl Trouble {
    pub(super) fn new(name: &'static str, code: u32, message: impl Into<String>) -> Self {
        Trouble { name, words: Some((code, message.into())), more: Vec::new() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Trouble::new("invalidParams", 31, message)
    }

    fn missing(field: &str) -> Self {
        Trouble::invalid(format!("Missing field '{field}'."))
    }

    fn with(mut self, more: Vec<(&'static str, Json)>) -> Self {
        self.more.extend(more);
        self
    }
}

/// Reports whether rippled serves `method` only to administrators.
pub(super) fn is_for_administrators(method: &str) -> bool {
    const METHODS: &[&str] = &[
        "can_delete",
        "connect",
        "consensus_info",
        "fetch_info",
        "get_counts",
        "ledger_accept",
        "ledger_cleaner",
        "ledger_request",
        "log_level",
        "logrotate",
        "peers",
        "print",
        "stop",
        "tx_reduce_relay",
        "unl_list",
        "validation_create",
        "validator_info",
        "validator_list_sites",
        "validators",
        "wallet_propose",
    ];
    METHODS.contains(&method) || method.starts_with("peer_reservations_")
}

impl XrpNode {
    pub(super) fn call(&mut self, method: &str, params: &Params, context: Context) -> Result<Json, Trouble> {
        let chain = &self.chain;
        match method {
            "server_info" => Ok(object! { "info": chain.info(context, true) }),
            "server_state" => Ok(object! { "state": chain.info(context, false) }),
            "fee" => Ok(chain.fee()),
            "ledger" => self.ledger(params, context),
            "ledger_current" => Ok(object! { "ledger_current_index": chain.head + 1 }),
            "ledger_closed" => {
                Ok(object! { "ledger_hash": upper(&chain.hash(chain.head)), "ledger_index": chain.head })
            }
            "account_info" => self.account_info(params, context),
            "account_lines" | "account_objects" | "account_offers" | "account_channels" => {
                self.account_list(method, params)
            }
            "ledger_entry" => self.ledger_entry(params),
            "tx" => self.tx(params, context),
            "random" => {
                Ok(object! { "random": upper(&chain.seed.bytes::<32>("random", context.now.micros())) })
            }
            "ping" => Ok(object! {}),
            "version" => Ok(object! {
                "version": object! { "first": "1.0.0", "good": "1.0.0", "last": "2.0.0" },
            }),
            "submit" => self.submit(params, context),
            "submit_multisigned" => match params.get("tx_json") {
                None => Err(Trouble::missing("tx_json")),
                Some(Value::Object(tx)) if !tx.contains_key("Signers") => {
                    Err(Trouble::missing("tx_json.Signers"))
                }
                Some(Value::Object(_)) => {
                    Err(Trouble::new("notEnabled", 12, "Not enabled in configuration."))
                }
                Some(_) => Err(Trouble::invalid("Invalid field 'tx_json', not object.")),
            },
            "sign" | "sign_for" | "channel_authorize" => {
                Err(Trouble::new("notSupported", 75, "Signing is not supported by this server."))
            }
            _ => Err(Trouble::new("unknownCmd", 32, "Unknown method.")),
        }
    }

    /// Returns the ledger that the parameters select; by default the open one.
    fn view(&self, params: &Params) -> Result<View, Trouble> {
        let chain = &self.chain;
        let not_found = || Trouble::new("lgrNotFound", 21, "ledgerNotFound");
        if let Some(hash) = params.get("ledger_hash") {
            let text = hash.as_str().ok_or_else(|| Trouble::invalid("ledgerHashNotString"))?;
            let hash = parse_hash(text).ok_or_else(|| Trouble::invalid("ledgerHashMalformed"))?;
            return chain.index_of(&hash).map(View::Closed).ok_or_else(not_found);
        }
        let malformed = || Trouble::invalid("ledgerIndexMalformed");
        let index = match params.get("ledger_index").or_else(|| params.get("ledger")) {
            None | Some(Value::Null) => return Ok(View::Open(chain.head + 1)),
            Some(Value::String(text)) => match text.as_str() {
                "current" => return Ok(View::Open(chain.head + 1)),
                "validated" | "closed" => return Ok(View::Closed(chain.head)),
                text => text.parse().map_err(|_| malformed())?,
            },
            Some(Value::Number(index)) => {
                index.as_u64().filter(|index| *index <= u64::from(u32::MAX)).ok_or_else(malformed)?
            }
            Some(_) => return Err(malformed()),
        };
        if chain.has(index) { Ok(View::Closed(index)) } else { Err(not_found()) }
    }

    /// Returns the members that identify the ledger of an answer.
    fn named(&self, view: View) -> Vec<(&'static str, Json)> {
        match view {
            View::Closed(index) => vec![
                ("ledger_hash", upper(&self.chain.hash(index)).into()),
                ("ledger_index", index.into()),
                ("validated", true.into()),
            ],
            View::Open(index) => {
                vec![("ledger_current_index", index.into()), ("validated", false.into())]
            }
        }
    }

    fn place(&self, mut out: Json, view: View) -> Json {
        for (name, value) in self.named(view) {
            out.put(name, value);
        }
        out
    }

    fn account(params: &Params) -> Result<(Account, String), Trouble> {
        let text = match params.get("account").or_else(|| params.get("ident")) {
            None => return Err(Trouble::missing("account")),
            Some(account) => account.as_str().ok_or_else(|| Trouble::invalid("Invalid field 'account'."))?,
        };
        let account =
            parse_address(text).ok_or_else(|| Trouble::new("actMalformed", 35, "Account malformed."))?;
        Ok((account, text.to_owned()))
    }

    fn no_account(&self, text: String, view: View) -> Trouble {
        let mut more = self.named(view);
        more.push(("account", text.into()));
        Trouble::new("actNotFound", 19, "Account not found.").with(more)
    }

    fn account_info(&self, params: &Params, context: Context) -> Result<Json, Trouble> {
        let (account, text) = XrpNode::account(params)?;
        let view = self.view(params)?;
        let queue = flag(params, "queue", context)?;
        let signers = flag(params, "signer_lists", context)?;
        if queue && matches!(view, View::Closed(_)) {
            return Err(Trouble::invalid("Invalid parameters."));
        }
        let Some(root) = self.chain.root(&account, view.index()) else {
            return Err(self.no_account(text, view));
        };
        let mut data = account_root(&account, &root);
        let mut flags = object! {};
        for name in FLAGS {
            flags.put(name, false);
        }
        let lists = || Json::Array(Vec::new());
        if signers && context.version == 1 {
            data.put("signer_lists", lists());
        }
        let mut out = object! { "account_data": data, "account_flags": flags };
        if signers && context.version > 1 {
            out.put("signer_lists", lists());
        }
        if queue {
            out.put("queue_data", object! { "txn_count": 0u64 });
        }
        Ok(self.place(out, view))
    }

    /// Accounts own nothing but XRP here.
    fn account_list(&self, method: &str, params: &Params) -> Result<Json, Trouble> {
        let (account, text) = XrpNode::account(params)?;
        let view = self.view(params)?;
        if self.chain.root(&account, view.index()).is_none() {
            return Err(self.no_account(text, view));
        }
        let name = match method {
            "account_lines" => "lines",
            "account_objects" => "account_objects",
            "account_offers" => "offers",
            _ => "channels",
        };
        let mut out = object! { "account": text };
        out.put(name, Json::Array(Vec::new()));
        Ok(self.place(out, view))
    }

    fn ledger_entry(&self, params: &Params) -> Result<Json, Trouble> {
        let view = self.view(params)?;
        let text = match params.get("account_root") {
            Some(Value::String(text)) => text,
            Some(_) => return Err(Trouble { words: None, ..Trouble::new("malformedAddress", 0, "") }),
            None if params.contains_key("index") => {
                return Err(
                    Trouble { words: None, ..Trouble::new("entryNotFound", 0, "") }.with(self.named(view))
                );
            }
            None => return Err(Trouble::invalid("No ledger_entry params provided.")),
        };
        let malformed = || Trouble { words: None, ..Trouble::new("malformedAddress", 0, "") };
        let account = parse_address(text).ok_or_else(malformed)?;
        let index = upper(&root_index(&account));
        let Some(root) = self.chain.root(&account, view.index()) else {
            return Err(
                Trouble { words: None, ..Trouble::new("entryNotFound", 0, "") }.with(self.named(view))
            );
        };
        let out = object! { "index": index, "node": account_root(&account, &root) };
        Ok(self.place(out, view))
    }

    fn ledger(&self, params: &Params, context: Context) -> Result<Json, Trouble> {
        let chain = &self.chain;
        if ["full", "accounts"]
            .iter()
            .any(|name| params.get(*name).is_some_and(|value| value != &Value::Bool(false)))
        {
            return Err(Trouble::new("noPermission", 6, "You don't have permission for this command."));
        }
        let show = Choice {
            version: context.version,
            transactions: flag(params, "transactions", context)?,
            expand: flag(params, "expand", context)?,
            binary: flag(params, "binary", context)?,
        };
        if !["ledger", "ledger_hash", "ledger_index"].iter().any(|name| params.contains_key(*name)) {
            let closed = chain.ledger(View::Closed(chain.head), show);
            let open = chain.ledger(View::Open(chain.head + 1), show);
            return Ok(object! {
                "closed": object! { "ledger": closed }, "open": object! { "ledger": open },
            });
        }
        let view = self.view(params)?;
        Ok(self.place(object! { "ledger": chain.ledger(view, show) }, view))
    }

    fn tx(&self, params: &Params, context: Context) -> Result<Json, Trouble> {
        if params.contains_key("ctid") && params.contains_key("transaction") {
            return Err(Trouble::invalid("Invalid parameters."));
        }
        let Some(text) = params.get("transaction").and_then(Value::as_str) else {
            return Err(Trouble::invalid("Invalid parameters."));
        };
        let Some(hash) = parse_hash(text) else {
            return Err(Trouble::new("notImpl", 74, "Not implemented."));
        };
        let binary = flag(params, "binary", context)?;
        let range = match (params.get("min_ledger"), params.get("max_ledger")) {
            (Some(min), Some(max)) => match (min.as_u64(), max.as_u64()) {
                (Some(min), Some(max)) if min <= max && max - min > RANGE => {
                    return Err(Trouble::new("excessiveLgrRange", 78, "Ledger range exceeds 1000."));
                }
                (Some(min), Some(max)) if min <= max => Some((min, max)),
                _ => return Err(Trouble::new("invalidLgrRange", 79, "Ledger range is invalid.")),
            },
            _ => None,
        };
        let Some((index, entry)) = self.chain.transaction(&hash) else {
            let trouble = Trouble::new("txnNotFound", 29, "Transaction not found.");
            return Err(match range {
                Some((min, max)) => {
                    let all = self.chain.has(min) && self.chain.has(max);
                    trouble.with(vec![("searched_all", all.into())])
                }
                None => trouble,
            });
        };
        Ok(self.chain.show_tx(index, &entry, binary, context.version))
    }

    fn submit(&mut self, params: &Params, context: Context) -> Result<Json, Trouble> {
        let Some(blob) = params.get("tx_blob") else {
            return Err(if params.contains_key("tx_json") {
                Trouble::new("notSupported", 75, "Signing is not supported by this server.")
            } else {
                Trouble::invalid("Invalid parameters.")
            });
        };
        let raw = blob
            .as_str()
            .filter(|text| text.len() <= 2 * LONGEST)
            .and_then(|text| hex::decode(text).ok())
            .filter(|raw| !raw.is_empty())
            .ok_or_else(|| Trouble::invalid("Invalid parameters."))?;
        let submitted = self.chain.submit(&raw, context.now).map_err(|why| Trouble {
            name: "invalidTransaction",
            words: None,
            more: vec![("error_exception", why.0.into())],
        })?;
        let engine = submitted.engine;
        let open = self.chain.head + 1;
        let account = submitted.tx.account("Account").unwrap_or(GENESIS);
        let next = self.chain.root(&account, open).map_or(0, |root| root.sequence);
        let mut tx = submitted.tx.json();
        tx.put("hash", upper(&submitted.hash));
        let out = object! {
            "accepted": engine.enters(),
            "account_sequence_available": next,
            "account_sequence_next": next,
            "applied": engine.enters(),
            "broadcast": engine.enters(),
            "engine_result": engine.name,
            "engine_result_code": engine.code,
            "engine_result_message": engine.message,
            "kept": engine.enters(),
            "open_ledger_cost": FEE.to_string(),
            "queued": false,
            "tx_blob": upper(&raw),
            "tx_json": tx,
            "validated_ledger_index": self.chain.head,
        };
        Ok(out)
    }
}

/// Flags of an account, as `account_info` names them.
const FLAGS: [&str; 11] = [
    "allowTrustLineClawback",
    "defaultRipple",
    "depositAuth",
    "disableMasterKey",
    "disallowIncomingCheck",
    "disallowIncomingNFTokenOffer",
    "disallowIncomingPayChan",
    "disallowIncomingTrustline",
    "disallowIncomingXRP",
    "globalFreeze",
    "noFreeze",
];

/// Reads a flag. Version 1 accepts any value, version 2 only booleans.
fn flag(params: &Params, name: &'static str, context: Context) -> Result<bool, Trouble> {
    match params.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) if context.version > 1 => Err(Trouble::invalid(format!("Invalid field '{name}'."))),
        Some(Value::Number(number)) => Ok(number.as_f64() != Some(0.0)),
        Some(_) => Ok(true),
    }
}

fn parse_hash(text: &str) -> Option<Hash> {
    hex::decode(text).ok()?.try_into().ok()
}
