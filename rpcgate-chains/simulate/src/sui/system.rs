//! The objects that every transaction may read: the system state, `0x5`, and the clock, `0x6`.

use super::chain::{Chain, object_digest};
use super::show::Options;
use super::tx::{Id, base58, hex_id};
use crate::json::{Json, object};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The version of the system state: the first transaction of an epoch changes it.
const STATE_VERSION: u64 = 2;

/// A shared object without a key; only one of its kind exists.
struct System {
    kind: &'static str,
    fields: Json,
    /// The content after the id, in BCS.
    content: [u8; 8],
    version: u64,
}

impl Chain {
    fn system(&self, id: &Id) -> Option<System> {
        let (last, zeros) = id.split_last()?;
        if zeros.iter().any(|byte| *byte != 0) {
            return None;
        }
        let uid = object! { "id": hex_id(id) };
        match last {
            5 => Some(System {
                kind: "0x3::sui_system::SuiSystemState",
                fields: object! { "id": uid, "version": STATE_VERSION.to_string() },
                content: STATE_VERSION.to_le_bytes(),
                version: self.epoch(self.head),
            }),
            6 => {
                let millis = self.millis(self.head);
                Some(System {
                    kind: "0x2::clock::Clock",
                    fields: object! { "id": uid, "timestamp_ms": millis.to_string() },
                    content: millis.to_le_bytes(),
                    version: self.head,
                })
            }
            _ => None,
        }
    }

    /// Returns the current state of a system object; `None` for any other id.
    pub(super) fn system_json(&self, id: &Id, options: Options<'_>) -> Option<Json> {
        let System { kind, fields, content, version } = self.system(id)?;
        let mut out = object! {
            "objectId": hex_id(id), "version": version.to_string(), "digest": base58(&object_digest(id, version)),
        };
        if options.wants("showType") {
            out.put("type", kind);
        }
        if options.wants("showOwner") {
            out.put("owner", object! { "Shared": object! { "initial_shared_version": 1u64 } });
        }
        if options.wants("showPreviousTransaction") {
            out.put("previousTransaction", base58(&self.seed.bytes::<32>("prologue", version)));
        }
        if options.wants("showStorageRebate") {
            out.put("storageRebate", "0");
        }
        if options.wants("showDisplay") {
            out.put("display", object! { "data": Json::Null, "error": Json::Null });
        }
        if options.wants("showContent") {
            out.put(
                "content",
                object! {
                    "dataType": "moveObject", "type": kind, "hasPublicTransfer": false, "fields": fields,
                },
            );
        }
        if options.wants("showBcs") {
            let bytes = STANDARD.encode([&id[..], &content].concat());
            out.put(
                "bcs",
                object! {
                    "dataType": "moveObject", "type": kind, "hasPublicTransfer": false, "version": version,
                    "bcsBytes": bytes,
                },
            );
        }
        Some(object! { "data": out })
    }
}
