//! The JSON of ledgers, transactions and the server's status.

use super::Context;
use super::ledger::{Chain, Entry, FEE, Header, RESERVE, RESERVE_INCREMENT, RESOLUTION, RIPPLE_EPOCH};
use super::root::{Root, root_index};
use super::wire::{Account, address, base58, upper};
use crate::json::{Json, object};
use crate::utc;
use rpcgate_core::clock::Time;

const VERSION: &str = "2.5.0";
pub(super) const NETWORK: u64 = 0;
/// The number of transactions that a ledger is expected to take at the base fee.
const EXPECTED: u64 = 128;
/// The prefix of a node's public key in base58.
const NODE_KEY: u8 = 28;

/// The ledger that a request selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Closed(u64),
    Open(u64),
}

impl View {
    pub(super) fn index(self) -> u64 {
        let (View::Closed(index) | View::Open(index)) = self;
        index
    }
}

/// The form in which a ledger is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub(super) version: u64,
    pub(super) transactions: bool,
    pub(super) expand: bool,
    pub(super) binary: bool,
}

/// Writes a time as `2026-Nov-22 01:43:03.123456 UTC`, with this fraction.
fn words(seconds: u64, fraction: &str) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = iso(seconds);
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let month = part(5..7).parse::<usize>().ok().and_then(|month| MONTHS.get(month - 1)).copied();
    format!("{}-{}-{} {}.{fraction} UTC", part(0..4), month.unwrap_or_default(), part(8..10), part(11..19))
}

pub(super) fn iso(seconds: u64) -> String {
    utc::seconds(Time::from_secs(seconds))
}

/// Returns an account root as `account_info` and `ledger_entry` show it.
pub(super) fn account_root(account: &Account, root: &Root) -> Json {
    object! {
        "Account": address(account),
        "Balance": root.balance.to_string(),
        "Flags": 0u64,
        "LedgerEntryType": "AccountRoot",
        "OwnerCount": 0u64,
        "PreviousTxnID": upper(&root.last.0),
        "PreviousTxnLgrSeq": root.last.1,
        "Sequence": root.sequence,
        "index": upper(&root_index(account)),
    }
}

impl Header {
    /// Returns the header's bytes, without its own hash.
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(118);
        out.extend_from_slice(&(self.index as u32).to_be_bytes());
        out.extend_from_slice(&self.coins.to_be_bytes());
        out.extend_from_slice(&self.parent);
        out.extend_from_slice(&self.tx_hash);
        out.extend_from_slice(&self.account_hash);
        out.extend_from_slice(&(self.parent_close as u32).to_be_bytes());
        out.extend_from_slice(&(self.close as u32).to_be_bytes());
        out.extend_from_slice(&[RESOLUTION as u8, 0]);
        out
    }
}

impl Chain {
    pub(super) fn ledger(&self, view: View, show: Choice) -> Json {
        let index = view.index();
        let number: Json = if show.version > 1 { index.into() } else { index.to_string().into() };
        let mut out = match view {
            View::Open(_) if show.binary => object! { "closed": false },
            View::Open(_) => object! {
                "closed": false, "ledger_index": number, "parent_hash": upper(&self.hash(index - 1)),
            },
            View::Closed(_) if show.binary => {
                object! { "closed": true, "ledger_data": upper(&self.header(index).bytes()) }
            }
            View::Closed(_) => {
                let header = self.header(index);
                let close = header.close + RIPPLE_EPOCH;
                object! {
                    "account_hash": upper(&header.account_hash),
                    "close_flags": 0u64,
                    "close_time": header.close,
                    "close_time_human": words(close, "000000000"),
                    "close_time_iso": iso(close),
                    "close_time_resolution": RESOLUTION,
                    "closed": true,
                    "ledger_hash": upper(&header.hash),
                    "ledger_index": number,
                    "parent_close_time": header.parent_close,
                    "parent_hash": upper(&header.parent),
                    "total_coins": header.coins.to_string(),
                    "transaction_hash": upper(&header.tx_hash),
                }
            }
        };
        if show.transactions {
            let entries = self.entries(index);
            let shown: Vec<Json> =
                entries.iter().map(|entry| self.listed(index, entry, view, show)).collect();
            out.put("transactions", shown);
        }
        out
    }

    /// Returns a transaction in a ledger's list.
    fn listed(&self, index: u64, entry: &Entry, view: View, show: Choice) -> Json {
        let hash = upper(&entry.hash);
        if !show.expand {
            return hash.into();
        }
        let closed = matches!(view, View::Closed(_));
        let meta_name = if show.version > 1 || show.binary { "meta" } else { "metaData" };
        let mut out = match (show.binary, show.version > 1) {
            (true, _) => {
                let mut out = object! { "tx_blob": upper(&entry.tx.encode()) };
                if show.version > 1 {
                    out.put("hash", hash);
                }
                if closed {
                    let name = if show.version > 1 { "meta_blob" } else { "meta" };
                    out.put(name, upper(&entry.meta.encode()));
                }
                return out;
            }
            (false, false) => {
                let mut out = entry.tx.json();
                out.put("hash", hash);
                out
            }
            (false, true) => {
                let mut out = object! { "hash": hash, "tx_json": entry.tx.json(), "validated": closed };
                if closed {
                    out.put("close_time_iso", iso(self.header(index).close + RIPPLE_EPOCH));
                    out.put("ledger_hash", upper(&self.hash(index)));
                    out.put("ledger_index", index);
                }
                out
            }
        };
        if closed {
            out.put(meta_name, entry.meta_json());
        }
        out
    }

    /// Answers `tx`.
    pub(super) fn show_tx(&self, index: u64, entry: &Entry, binary: bool, version: u64) -> Json {
        let validated = index <= self.head;
        let hash = upper(&entry.hash);
        let mut out = match (version > 1, binary) {
            (false, false) => entry.tx.json(),
            (false, true) => object! { "tx": upper(&entry.tx.encode()) },
            (true, false) => object! { "tx_json": entry.tx.json() },
            (true, true) => object! { "tx_blob": upper(&entry.tx.encode()) },
        };
        out.put("hash", hash);
        out.put("validated", validated);
        if !validated {
            return out;
        }
        match (version > 1, binary) {
            (true, true) => out.put("meta_blob", upper(&entry.meta.encode())),
            (false, true) => out.put("meta", upper(&entry.meta.encode())),
            _ => out.put("meta", entry.meta_json()),
        }
        let close = self.header(index).close;
        let place = entry.meta.number("TransactionIndex").unwrap_or(0);
        let ctid = format!("C{:07X}{place:04X}{NETWORK:04X}", index & 0x0fff_ffff);
        if version > 1 {
            if let Some(Json::Object(tx)) = out.member("tx_json") {
                tx.push(("ctid".into(), ctid.clone().into()));
                tx.push(("date".into(), close.into()));
                tx.push(("ledger_index".into(), index.into()));
            }
            out.put("close_time_iso", iso(close + RIPPLE_EPOCH));
            out.put("ledger_hash", upper(&self.hash(index)));
        } else {
            out.put("date", close);
            out.put("inLedger", index);
        }
        out.put("ctid", ctid);
        out.put("ledger_index", index);
        out
    }

    /// Answers `fee`.
    pub(super) fn fee(&self) -> Json {
        let waiting = self.entries(self.head + 1).len();
        let fee = || Json::from(FEE.to_string());
        object! {
            "current_ledger_size": waiting.to_string(),
            "current_queue_size": "0",
            "drops": object! {
                "base_fee": fee(), "median_fee": "5000", "minimum_fee": fee(), "open_ledger_fee": fee(),
            },
            "expected_ledger_size": EXPECTED.to_string(),
            "ledger_current_index": self.head + 1,
            "levels": object! {
                "median_level": "128000", "minimum_level": "256", "open_ledger_level": "256",
                "reference_level": "256",
            },
            "max_queue_size": (20 * EXPECTED).to_string(),
        }
    }

    /// Answers `server_info` (`human`) or, in whole units, `server_state`.
    pub(super) fn info(&self, context: Context, human: bool) -> Json {
        let Context { now, since, .. } = context;
        let uptime = now.since(since).as_secs();
        let proposers = 34 + self.seed.below("proposers", self.head, 2);
        let converge = 2_900 + self.seed.below("converge", self.head, 300);
        let key: [u8; 33] = self.seed.bytes("server", 0);
        let phase = |micros: u64, transitions: &'static str| {
            object! { "duration_us": micros.to_string(), "transitions": transitions }
        };
        let full = now.since(since).as_micros() as u64;
        let mut out = object! {
            "build_version": VERSION,
            "complete_ledgers": format!("{}-{}", self.oldest_ledger(), self.head),
            "initial_sync_duration_us": "187604823",
            "io_latency_ms": 1u64,
            "jq_trans_overflow": "0",
            "last_close": if human {
                object! { "converge_time_s": Json::float(converge as f64 / 1_000.0), "proposers": proposers }
            } else {
                object! { "converge_time": converge, "proposers": proposers }
            },
            "load_factor": if human { 1u64 } else { 256 },
            "network_id": NETWORK,
            "peer_disconnects": (uptime / 600).to_string(),
            "peer_disconnects_resources": "0",
            "peers": 21 + self.seed.below("peers", now.secs() / 60, 6),
            "ports": vec![object! { "port": "51235", "protocol": vec!["peer"] }],
            "pubkey_node": base58(NODE_KEY, &key),
            "server_state": "full",
            "server_state_duration_us": full.to_string(),
            "state_accounting": object! {
                "connected": phase(181_602_704, "1"), "disconnected": phase(1_124_561, "1"),
                "full": phase(full, "1"), "syncing": phase(4_877_558, "1"), "tracking": phase(0, "1"),
            },
            "time": words(now.secs(), &format!("{:06}", now.micros() % 1_000_000)),
            "uptime": uptime,
            "validation_quorum": 28u64,
        };
        let hash = upper(&self.hash(self.head));
        let seq = self.head;
        if human {
            out.put("hostid", "GULF");
            out.put(
                "validated_ledger",
                object! {
                    "age": self.age(seq, now), "base_fee_xrp": Json::Number("1e-05".into()), "hash": hash,
                    "reserve_base_xrp": Json::Number((RESERVE / 1_000_000).to_string()),
                    "reserve_inc_xrp": Json::float(RESERVE_INCREMENT as f64 / 1_000_000.0), "seq": seq,
                },
            );
        } else {
            out.put("load_base", 256u64);
            out.put("load_factor_fee_escalation", 256u64);
            out.put("load_factor_fee_queue", 256u64);
            out.put("load_factor_fee_reference", 256u64);
            out.put("load_factor_server", 256u64);
            out.put("validated_ledger", object! {
                "base_fee": FEE, "close_time": self.header(seq).close, "hash": hash, "reserve_base": RESERVE,
                "reserve_inc": RESERVE_INCREMENT, "seq": seq,
            });
        }
        out
    }
}

impl Entry {
    pub(super) fn meta_json(&self) -> Json {
        let mut meta = self.meta.json();
        if let Some(delivered) = self.delivered {
            meta.put("delivered_amount", delivered.to_string());
        }
        meta
    }
}

impl Json {
    fn member(&mut self, name: &str) -> Option<&mut Json> {
        match self {
            Json::Object(members) => {
                members.iter_mut().find(|(known, _)| known == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_form_of_rippled() {
        assert_eq!(words(1_800_000_000, "5"), "2027-Jan-15 08:00:00.5 UTC");
        assert_eq!(iso(1_800_000_000), "2027-01-15T08:00:00Z");
    }
}
