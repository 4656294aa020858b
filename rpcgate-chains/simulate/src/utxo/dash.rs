//! Methods of Dash alone: masternodes, governance, quorums.

use super::UtxoNode;
use super::method::Args;
use super::script::Form;
use super::tx::shown;
use crate::envelope::Fault;
use crate::json::{Json, object};
use rpcgate_core::clock::Time;
use std::borrow::Cow;

const MASTERNODES: u64 = 24;
/// The number of governance objects.
const OBJECTS: u64 = 3;

impl UtxoNode {
    pub(super) fn dash(&mut self, name: &str, args: &Args, now: Time) -> Result<Json, Fault> {
        let head = self.chain.head;
        match name {
            "masternode" => match args.text(0)? {
                "count" => {
                    let part = |n: u64| object! { "total": n, "enabled": n };
                    let evo = MASTERNODES / 6;
                    Ok(object! {
                        "total": MASTERNODES, "enabled": MASTERNODES,
                        "details": object! { "regular": part(MASTERNODES - evo), "evo": part(evo) },
                    })
                }
                "list" => self.masternodes(args, 1),
                "status" => Err(Fault::new(-32603, "This is not a masternode")),
                "winners" => {
                    let row = (head.saturating_sub(5)..=head + 5).map(|height| {
                        (Cow::Owned(height.to_string()), Json::from(self.payee(height % MASTERNODES)))
                    });
                    Ok(Json::Object(row.collect()))
                }
                other => Err(Fault::new(-32601, format!("Command not found: {other}"))),
            },
            "masternodelist" => self.masternodes(args, 0),
            "gobject" => match args.text(0)? {
                "list" => {
                    let list = (0..OBJECTS).map(|n| {
                        let object = self.governance_object(n, now);
                        (Cow::Owned(shown(&self.chain.seed.bytes::<32>("object", n))), object)
                    });
                    Ok(Json::Object(list.collect()))
                }
                "count" => Ok(object! {
                    "objects_total": OBJECTS, "proposals": OBJECTS - 1, "triggers": 1u32, "other": 0u32, "erased": 0u32,
                    "votes": OBJECTS * MASTERNODES,
                }),
                "get" => {
                    let wanted = args.text(1)?;
                    let known =
                        (0..OBJECTS).find(|n| shown(&self.chain.seed.bytes::<32>("object", *n)) == wanted);
                    let n = known.ok_or_else(|| Fault::new(-8, "Unknown governance object"))?;
                    Ok(self.governance_object(n, now))
                }
                other => Err(Fault::new(-32601, format!("Command not found: {other}"))),
            },
            "getgovernanceinfo" => {
                let cycle = 16_616;
                Ok(object! {
                    "governanceminquorum": 10u32, "proposalfee": Json::amount(100_000_000u64),
                    "superblockcycle": cycle, "superblockmaturitywindow": 1_662u32,
                    "lastsuperblock": head / cycle * cycle, "nextsuperblock": (head / cycle + 1) * cycle,
                    "fundingthreshold": MASTERNODES / 10,
                })
            }
            "mnsync" => match args.text(0)? {
                "status" => Ok(object! {
                    "AssetID": 999u32, "AssetName": "MASTERNODE_SYNC_FINISHED",
                    "AssetStartTime": self.since.unwrap_or(now).secs(), "Attempt": 0u32,
                    "IsBlockchainSynced": true, "IsSynced": true,
                }),
                _ => Err(Fault::new(-1, "mnsync [status | next | reset]\n")),
            },
            "quorum" => match args.text(0)? {
                "list" => {
                    let names = ["llmq_50_60", "llmq_60_75", "llmq_400_60", "llmq_400_85", "llmq_100_67"];
                    let list = names.iter().zip(0u64..).map(|(name, n)| {
                        let hashes: Vec<_> = (0..4)
                            .map(|k| shown(&self.chain.seed.bytes::<32>(name, head / 288 * 4 + n + k)))
                            .collect();
                        (Cow::Borrowed(*name), Json::from(hashes))
                    });
                    Ok(Json::Object(list.collect()))
                }
                other => Err(Fault::new(-32601, format!("Command not found: {other}"))),
            },
            "spork" => Ok(object! {
                "SPORK_2_INSTANTSEND_ENABLED": 0u32, "SPORK_3_INSTANTSEND_BLOCK_FILTERING": 0u32,
                "SPORK_9_SUPERBLOCKS_ENABLED": 0u32, "SPORK_17_QUORUM_DKG_ENABLED": 0u32,
                "SPORK_19_CHAINLOCKS_ENABLED": 0u32, "SPORK_21_QUORUM_ALL_CONNECTED": 0u32,
                "SPORK_23_QUORUM_POSE": 0u32,
            }),
            _ => {
                let height = head.saturating_sub(1);
                Ok(object! {
                    "blockhash": shown(&self.chain.hash(height)), "height": height,
                    "signature": hex::encode(self.chain.seed.bytes::<96>("lock", height)), "known_block": true,
                })
            }
        }
    }

    fn payee(&self, n: u64) -> String {
        let form = Form::KeyHash(self.chain.seed.bytes("masternode", n));
        form.address(self.chain.state.coin).unwrap_or_default()
    }

    /// Returns the masternodes by their collateral, in the mode of argument `index`.
    fn masternodes(&self, args: &Args, index: usize) -> Result<Json, Fault> {
        let given = args.list.get(index).is_some_and(|value| !value.is_null());
        let mode = if given { args.text(index)? } else { "json" };
        let filter = if args.list.len() > index + 1 { args.text(index + 1)? } else { "" };
        let seed = self.chain.seed;
        let head = self.chain.head;
        let mut list = Vec::new();
        for n in 0..MASTERNODES {
            let paid = head - (head + MASTERNODES - n) % MASTERNODES.min(head + 1);
            let address = format!("198.51.100.{}:9999", n + 1);
            let value = match mode {
                "json" | "full" | "info" | "recent" => object! {
                    "proTxHash": shown(&seed.bytes::<32>("protx", n)), "address": address, "payee": self.payee(n),
                    "status": "ENABLED", "type": if n % 6 == 5 { "Evo" } else { "Regular" },
                    "pospenaltyscore": 0u32, "consecutivePayments": 0u32,
                    "lastpaidtime": self.chain.secs(paid), "lastpaidblock": paid,
                    "owneraddress": self.payee(n + 1_000), "votingaddress": self.payee(n + 1_000),
                    "collateraladdress": self.payee(n + 2_000),
                    "pubkeyoperator": hex::encode(seed.bytes::<48>("operator", n)),
                },
                "addr" => address.into(),
                "payee" => self.payee(n).into(),
                "status" => "ENABLED".into(),
                "lastpaidblock" => paid.into(),
                "lastpaidtime" => self.chain.secs(paid).into(),
                "protx-hash" => shown(&seed.bytes::<32>("protx", n)).into(),
                "pubkeyoperator" => hex::encode(seed.bytes::<48>("operator", n)).into(),
                _ => return Err(Fault::new(-1, "masternodelist ( \"mode\" \"filter\" )\n")),
            };
            let name = format!("{}-{}", shown(&seed.bytes::<32>("collateral", n)), n % 2);
            let mut text = String::new();
            value.write(&mut text);
            if filter.is_empty() || name.contains(filter) || text.contains(filter) {
                list.push((Cow::Owned(name), value));
            }
        }
        Ok(Json::Object(list))
    }

    fn governance_object(&self, n: u64, now: Time) -> Json {
        let seed = self.chain.seed;
        let kind = if n + 1 == OBJECTS { 2u32 } else { 1 };
        let first = now.secs() / 86_400 * 86_400;
        let last = now.secs() / 86_400 * 86_400 + 2_592_000;
        let text = format!(
            "{{\"end_epoch\":{last},\"name\":\"proposal-{n}\",\"payment_address\":\"{}\",\"payment_amount\":{},\"start_epoch\":{first},\"type\":{kind},\"url\":\"https://example.org/{n}\"}}",
            self.payee(n + 3_000),
            10 + n
        );
        object! {
            "DataHex": hex::encode(&text),
            "DataString": text,
            "Hash": shown(&seed.bytes::<32>("object", n)),
            "CollateralHash": shown(&seed.bytes::<32>("object collateral", n)),
            "ObjectType": kind,
            "CreationTime": first,
            "AbsoluteYesCount": MASTERNODES / 2,
            "YesCount": MASTERNODES * 2 / 3,
            "NoCount": MASTERNODES / 6,
            "AbstainCount": 0u32,
            "fBlockchainValidity": true,
            "IsValidReason": "",
            "fCachedValid": true,
            "fCachedFunding": true,
            "fCachedDelete": false,
            "fCachedEndorsed": false,
        }
    }
}
