//! Checks that every node frames its answers as recorded: bodies that are not a call, notifications, ids of every kind,
//! batches, verbs and paths. `RPCGATE_WRITE_GOLDEN=1 cargo test -p rpcgate-simulate --test wire` records the answers
//! again. Record only after a change in the behaviour of a node's real software.

#![expect(clippy::unwrap_used, reason = "all of this is a test: what goes wrong fails it")]

use http::Method;
use ring::digest::{SHA256, digest};
use rpcgate_core::clock::Time;
use rpcgate_simulate::{SimulatedRequest, node};
use std::fmt::Write;
use std::path::Path;

const RECORDING: &str = "golden/wire.txt";
/// The maximum length of a recorded answer; longer answers are recorded by length and hash.
const SHOWN: usize = 400;

/// Chains that speak JSON-RPC, with a method that takes no parameters.
const RPC: &[(&str, &str)] = &[
    ("eth", "eth_chainId"),
    ("avax", "eth_blockNumber"),
    ("btc", "getblockcount"),
    ("dash", "getbestblockhash"),
    ("xrp", "ledger_current"),
    ("near", "gas_price"),
    ("sui", "sui_getChainIdentifier"),
    ("cardano", "queryNetwork/tip"),
    ("ton", "getMasterchainInfo"),
];

/// Bodies around a method `M`.
const BODIES: &[&str] = &[
    "",
    "{nope",
    "1",
    "null",
    "\"x\"",
    "[]",
    " [ ] ",
    "[1]",
    "[[]]",
    "{}",
    "{\"id\":1}",
    "{\"id\":1,\"method\":null}",
    "{\"id\":1,\"method\":5}",
    "{\"method\":5}",
    "{\"id\":1,\"method\":\"\"}",
    "{\"method\":\"M\"}",
    "{\"id\":null,\"method\":\"M\"}",
    "{\"id\":7,\"method\":\"M\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0041\",\"method\":\"M\",\"params\":[]}",
    "{\"jsonrpc\":\"2.0\",\"id\":1e3,\"method\":\"M\",\"params\":null}",
    "{\"jsonrpc\":\"2.0\",\"id\":{ \"a\": 1 },\"method\":\"M\",\"params\":{}}",
    "{\"id\":1,\"method\":\"M\",\"params\":\"x\"}",
    "{\"id\":1,\"method\":\"M\",\"params\":[1,2,3,4]}",
    "{\"id\":1,\"method\":\"no_such\"}",
    "{\"method\":\"no_such\"}",
    "[{\"id\":1,\"method\":\"M\"},{\"method\":\"M\"},1,{},{\"id\":2,\"method\":\"no_such\"},{\"id\":3,\"method\":7}]",
    "[{\"method\":\"M\"},{\"method\":\"no_such\"}]",
    "[{\"method\":\"M\"}]",
];

/// Paths of chains that speak REST, or both REST and JSON-RPC.
const PATHS: &[(&str, &[&str])] = &[
    ("xlm", &["/", "/info", "/info/", "/%69nfo", "/quorum?compact=true", "/metrics?enable=ledger", "/none"]),
    (
        "tron",
        &[
            "/",
            "/wallet/getnowblock",
            "/wallet/getnowblock?visible=true",
            "/wallet/getblockbynum?num=7",
            "/wallet/getblockbynum?num=x",
            "/wallet/broadcasthex",
            "/wallet/none",
            "/none",
        ],
    ),
    (
        "cosmos",
        &[
            "/",
            "/cosmos/base/tendermint/v1beta1/syncing",
            "/cosmos/base/tendermint/v1beta1/syncing/",
            "/cosmos/base/tendermint/v1beta1/blocks/x",
            "/cosmos/mint/v1beta1/inflation",
            "/cosmos/tx/v1beta1/txs",
            "/cosmos/tx/v1beta1/simulate",
            "/cosmos/none",
            "/none",
        ],
    ),
    (
        "aptos",
        &[
            "/",
            "/v1",
            "/v1/",
            "/v1/-/healthy?duration_secs=x",
            "/v1/estimate_gas_price",
            "/v1/accounts/0x1",
            "/v1/accounts/zz",
            "/v1/blocks/by_height/99999999999",
            "/v1/transactions?limit=0",
            "/v1/transactions",
            "/v1/view",
            "/v1/none",
            "/none",
        ],
    ),
    (
        "ton",
        &[
            "/",
            "/jsonRPC",
            "/getMasterchainInfo",
            "/getAddressBalance",
            "/getAddressBalance?address",
            "/getAddressBalance?address=x%41+y",
            "/lookupBlock?workchain=0&shard=-9223372036854775808&seqno=1",
            "/lookupBlock?workchain=z",
            "/sendBoc",
            "/none",
        ],
    ),
    ("near", &["/status", "/status?x", "/none"]),
    ("cardano", &["/health", "/health/", "/none"]),
    ("eth", &["/none"]),
    ("btc", &["/none"]),
    ("xrp", &["/none"]),
    ("sui", &["/none"]),
];

fn record(chain: &str, verb: &Method, path: &str, body: &str, shown: &str, out: &mut String) {
    let mut node = node(chain, 7).unwrap();
    let request = SimulatedRequest { method: verb, path, body: body.as_bytes() };
    let reply = node.handle(&request, Time::from_secs(1_800_000_000));
    let text = String::from_utf8(reply.body).unwrap();
    let answer = if text.len() > SHOWN {
        let hash = hex::encode(&digest(&SHA256, text.as_bytes()).as_ref()[..8]);
        format!("{} bytes {hash} {:?}…", text.len(), text.chars().take(60).collect::<String>())
    } else {
        format!("{text:?}")
    };
    writeln!(out, "{chain} {verb} {path} {shown}\n    {} {} {answer}", reply.status, reply.content_type)
        .unwrap();
}

#[test]
fn every_node_frames_its_answers_as_recorded() {
    let mut out = String::new();
    for (chain, method) in RPC {
        for body in BODIES {
            let body = body.replace('M', method);
            record(chain, &Method::POST, "/", &body, &body, &mut out);
        }
        for calls in [1_000, 1_001] {
            let call = format!("{{\"id\":1,\"method\":\"{method}\"}}");
            let body = format!("[{}]", vec![call; calls].join(","));
            record(chain, &Method::POST, "/", &body, &format!("{calls} calls"), &mut out);
        }
        for verb in [Method::GET, Method::HEAD, Method::PUT, Method::OPTIONS] {
            record(chain, &verb, "/", "", "", &mut out);
            record(chain, &verb, "/", "{}", "{}", &mut out);
        }
    }
    for (chain, paths) in PATHS {
        for path in *paths {
            for verb in [Method::GET, Method::HEAD, Method::DELETE] {
                record(chain, &verb, path, "", "", &mut out);
            }
            for body in ["", "{nope", "[]", "{}"] {
                record(chain, &Method::POST, path, body, body, &mut out);
            }
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORDING);
    if std::env::var_os("RPCGATE_WRITE_GOLDEN").is_some() {
        std::fs::write(&file, &out).unwrap();
    }
    let recorded = std::fs::read_to_string(&file).unwrap();
    for (line, (now, then)) in out.lines().zip(recorded.lines()).enumerate() {
        assert_eq!(now, then, "{RECORDING}, line {}", line + 1);
    }
    assert_eq!(out.lines().count(), recorded.lines().count());
}
