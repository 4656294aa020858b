//! The methods about the signatures of a transaction: `getapprovedlist` and `getsignweight`.

use super::address::{base58, long, shown};
use super::tx::Tx;
use crate::json::{Json, object};

/// Returns the accounts that have signed a transaction and, for `getsignweight`, whether they suffice. Every account
/// has one key of weight 1.
pub(super) fn signatures(method: &str, tx: &Tx, visible: bool) -> Json {
    let mut out = object! {};
    let address = |of: &[u8; 20]| shown(&long(of), visible);
    let (signers, refusal) = match (tx.signers(), tx.owner()) {
        (Err(why), _) => (Vec::new(), Some(("SIGNATURE_FORMAT_ERROR", why))),
        (Ok(signers), None) => (signers, Some(("OTHER_ERROR", "Invalid ownerAddress!".to_owned()))),
        (Ok(signers), Some(owner)) if method == "getsignweight" => {
            out.put(
                "permission",
                object! {
                    "permission_name": "owner",
                    "threshold": 1u64,
                    "keys": vec![object! { "address": address(&owner), "weight": 1u64 }],
                },
            );
            let foreign = signers.iter().find(|signer| **signer != owner);
            match foreign {
                Some(foreign) => {
                    let foreign = base58(&long(foreign));
                    let why = format!("{foreign} is not contained of permission.");
                    (Vec::new(), Some(("PERMISSION_ERROR", why)))
                }
                None if signers.is_empty() => (signers, Some(("NOT_ENOUGH_PERMISSION", String::new()))),
                None => (signers, None),
            }
        }
        (Ok(signers), Some(_)) => (signers, None),
    };
    if !signers.is_empty() {
        out.put("approved_list", signers.iter().map(address).collect::<Vec<_>>());
        if method == "getsignweight" {
            out.put("current_weight", 1u64);
        }
    }
    let mut result = object! {};
    if let Some((code, why)) = refusal {
        result.put("code", code);
        if !why.is_empty() {
            result.put("message", why);
        }
    }
    out.put("result", result);
    out.put(
        "transaction",
        object! {
            "result": object! { "result": true },
            "txid": hex::encode(tx.id),
            "transaction": tx.json(None, visible),
        },
    );
    out
}
