//! The objects that every transaction may read: the system state, `0x5`, and the clock, `0x6`.

use super::chain::Chain;
use super::show::Object;
use super::tx::{Id, hex_id};
use crate::json::object;

/// The version of the system state: the first transaction of an epoch changes it.
const STATE_VERSION: u64 = 2;

impl Chain {
    /// Returns the current state of a system object; `None` for any other id.
    pub(super) fn system(&self, id: &Id) -> Option<Object> {
        let (last, zeros) = id.split_last()?;
        if zeros.iter().any(|byte| *byte != 0) {
            return None;
        }
        let uid = object! { "id": hex_id(id) };
        let (kind, version, fields, content) = match last {
            5 => {
                let fields = object! { "id": uid, "version": STATE_VERSION.to_string() };
                ("0x3::sui_system::SuiSystemState", self.epoch(self.head), fields, STATE_VERSION)
            }
            6 => {
                let millis = self.millis(self.head);
                let fields = object! { "id": uid, "timestamp_ms": millis.to_string() };
                ("0x2::clock::Clock", self.head, fields, millis)
            }
            _ => return None,
        };
        Some(Object {
            kind,
            version,
            owner: object! { "Shared": object! { "initial_shared_version": 1u64 } },
            previous: self.seed.bytes("prologue", version),
            rebate: "0",
            is_public: false,
            fields,
            content,
        })
    }
}
