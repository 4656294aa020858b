//! View functions, which only read.

use super::address::{Address, name, read_address};
use super::chain::Chain;
use super::fault::Fault;
use super::tx::{CHAIN, COIN, Call};
use crate::bytes::Reader;
use crate::json::{Json, object};
use serde_json::Value;

/// The object that holds the metadata of the coin.
const METADATA: &str = "0xa";

/// A view request without its arguments.
struct ViewRequest {
    path: String,
    types: Vec<String>,
    arguments: Vec<Address>,
}

fn wrong(why: impl std::fmt::Display) -> Fault {
    Fault::input(format!("Failed to deserialize input into ViewRequest: {why}"))
}

impl ViewRequest {
    /// Reads a request in JSON or BCS. The content type does not distinguish them.
    fn read(body: &[u8]) -> Result<Self, Fault> {
        let Ok(value) = serde_json::from_slice::<Value>(body) else {
            let mut reader = Reader::new(body);
            let call = Call::read(&mut reader).filter(|_| reader.rest().is_empty());
            let call = call.ok_or_else(|| wrong("no function"))?;
            let arguments = call.arguments.iter().map(|bytes| Address::try_from(bytes.as_slice()).ok());
            let arguments = arguments.collect::<Option<_>>().ok_or_else(|| wrong("no address"))?;
            return Ok(ViewRequest { path: call.path(), types: call.types, arguments });
        };
        let texts = |name: &str| -> Result<Vec<String>, Fault> {
            let items = value[name].as_array().ok_or_else(|| wrong(format!("`{name}` is missing")))?;
            let text = |item: &Value| item.as_str().or_else(|| item["inner"].as_str()).map(str::to_owned);
            let texts: Option<_> = items.iter().map(text).collect();
            texts.ok_or_else(|| wrong(format!("`{name}` holds no texts")))
        };
        let path = value["function"].as_str().ok_or_else(|| wrong("`function` is missing"))?;
        let mut parts = path.splitn(2, "::");
        let address = parts.next().and_then(read_address);
        let (Some(address), Some(rest)) = (address, parts.next().filter(|rest| rest.contains("::"))) else {
            return Err(wrong(format!("invalid entry function id {path:?}")));
        };
        let arguments = texts("arguments")?.iter().map(|text| read_address(text)).collect::<Option<_>>();
        Ok(ViewRequest {
            path: format!("{}::{rest}", name(&address)),
            types: texts("type_arguments")?,
            arguments: arguments.ok_or_else(|| wrong("an argument is no address"))?,
        })
    }
}

impl Chain {
    /// Answers `POST /v1/view`.
    pub(crate) fn view(&self, body: &[u8]) -> Result<Json, Fault> {
        let request = ViewRequest::read(body)?;
        let types: Vec<_> = request.types.iter().map(String::as_str).collect();
        let known = |owner: &Address| self.state.account(owner, self.head);
        let text = |number: u64| Json::from(number.to_string());
        let answer = match (request.path.as_str(), types.as_slice(), request.arguments.as_slice()) {
            ("0x1::coin::balance", [COIN], [owner]) => text(known(owner).unwrap_or_default().balance),
            ("0x1::primary_fungible_store::balance", ["0x1::fungible_asset::Metadata"], [owner, asset])
                if read_address(METADATA).as_ref() == Some(asset) =>
            {
                text(known(owner).unwrap_or_default().balance)
            }
            ("0x1::coin::name", [COIN], []) => Json::from("Aptos Coin"),
            ("0x1::coin::symbol", [COIN], []) => Json::from("APT"),
            ("0x1::coin::decimals", [COIN], []) => Json::from(8u32),
            ("0x1::coin::is_account_registered", [COIN], [owner]) => Json::from(known(owner).is_some()),
            ("0x1::coin::paired_metadata", [COIN], []) => {
                object! { "vec": vec![object! { "inner": METADATA }] }
            }
            ("0x1::account::exists_at", [], [owner]) => Json::from(known(owner).is_some()),
            ("0x1::account::get_sequence_number", [], [owner]) => {
                text(known(owner).unwrap_or_default().sequence)
            }
            ("0x1::chain_id::get", [], []) => Json::from(CHAIN),
            ("0x1::block::get_current_block_height", [], []) => text(self.head),
            ("0x1::timestamp::now_microseconds", [], []) => text(self.time(self.head).micros()),
            ("0x1::timestamp::now_seconds", [], []) => text(self.time(self.head).secs()),
            (path, ..) => {
                let why = format!("could not find entry function by path {path} with these arguments");
                return Err(Fault::input(why));
            }
        };
        Ok(Json::Array(vec![answer]))
    }
}
