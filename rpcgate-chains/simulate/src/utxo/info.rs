//! The status of a daemon: its chain, its pool, its network and itself.

use super::UtxoNode;
use super::coin::{Kind, LIQUID_BITCOIN};
use super::script::asm;
use super::show::difficulty;
use super::tx::shown;
use crate::envelope::Fault;
use crate::json::{Json, object};
use rpcgate_core::clock::Time;

const PEERS: u64 = 8;

impl UtxoNode {
    /// Runs the methods that need no parameters.
    pub(super) fn info(&mut self, name: &str, now: Time) -> Result<Json, Fault> {
        match name {
            "getblockchaininfo" => Ok(self.blockchain_info()),
            "getnetworkinfo" => Ok(self.network_info()),
            "getmempoolinfo" => Ok(self.mempool_info()),
            "getmininginfo" => Ok(self.mining_info()),
            "getnetworkhashps" => Ok(Json::float(self.hash_rate())),
            "gettxoutsetinfo" => Ok(self.tx_out_set_info()),
            "getconnectioncount" => Ok(PEERS.into()),
            "getpeerinfo" => Ok((0..PEERS).map(|id| self.peer(id, now)).collect::<Vec<_>>().into()),
            "getnettotals" => Ok(object! {
                "totalbytesrecv": self.chain.head * 900, "totalbytessent": self.chain.head * 2_100,
                "timemillis": now.millis(),
                "uploadtarget": object! {
                    "timeframe": 86_400u32, "target": 0u32, "target_reached": false,
                    "serve_historical_blocks": true, "bytes_left_in_cycle": 0u32, "time_left_in_cycle": 0u32,
                },
            }),
            "getindexinfo" => {
                Ok(object! { "txindex": object! { "synced": true, "best_block_height": self.chain.head } })
            }
            "getsidechaininfo" => Ok(object! {
                "fedpeg_script": hex::encode(self.chain.challenge()),
                "current_fedpeg_programs": vec![hex::encode(self.chain.challenge())],
                "current_fedpegscripts": vec![hex::encode(self.chain.challenge())],
                "pegged_asset": pegged_asset(),
                "parent_blockhash": "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f",
                "parent_chain_has_pow": true,
                "enforce_pak": true,
                "pegin_confirmation_depth": 102u32,
            }),
            "dumpassetlabels" => Ok(object! { "bitcoin": pegged_asset() }),
            _ => Err(Fault::new(-32601, "Method not found")),
        }
    }

    /// Hashes per second, from the work of a block and the time between blocks.
    fn hash_rate(&self) -> f64 {
        difficulty(self.chain.state.coin.bits) * 4_294_967_296.0 / 3.5
    }

    fn blockchain_info(&mut self) -> Json {
        let kind = self.chain.state.coin.kind;
        let head = self.chain.head;
        let chain = &mut self.chain;
        let mut out = object! {
            "chain": chain.state.coin.chain,
            "blocks": head,
            "headers": head,
            "bestblockhash": shown(&chain.hash(head)),
        };
        if kind != Kind::Liquid {
            out.put("difficulty", Json::float(difficulty(chain.state.coin.bits)));
        }
        if kind.single_address() {
            out.put("time", chain.secs(head));
        }
        out.put("mediantime", chain.median_time(head));
        out.put("verificationprogress", 1u32);
        out.put("initialblockdownload", false);
        if kind != Kind::Liquid {
            out.put("chainwork", chain.chainwork(head));
        }
        out.put("size_on_disk", head * 700);
        out.put("pruned", false);
        let buried = |height: u64| object! { "type": "buried", "active": true, "height": height };
        match kind {
            Kind::Ltc => {
                let signalled = |since: u64| {
                    let bip9 = object! {
                        "status": "active", "start_time": 1_614_841_200u32, "timeout": 1_646_377_200u32, "since": since,
                    };
                    object! { "type": "bip9", "bip9": bip9, "height": since, "active": true }
                };
                let forks = object! {
                    "bip34": buried(710_000), "bip66": buried(811_879), "bip65": buried(918_684),
                    "csv": buried(1_201_536), "segwit": buried(1_201_536),
                    "taproot": signalled(2_257_920), "mweb": signalled(2_257_920),
                };
                out.put("softforks", forks);
            }
            Kind::Dash => {
                let forks = object! {
                    "bip34": buried(1), "bip66": buried(245_817), "bip65": buried(619_382), "bip147": buried(939_456),
                    "csv": buried(622_944), "dip0001": buried(782_208), "dip0003": buried(1_028_160),
                    "dip0008": buried(1_088_640), "v19": buried(1_899_072), "v20": buried(1_987_776),
                };
                out.put("softforks", forks);
            }
            Kind::Doge => {
                let fork = |id: &'static str, version: u32| {
                    object! { "id": id, "version": version, "reject": object! { "status": true } }
                };
                out.put("softforks", vec![fork("bip34", 2), fork("bip66", 3), fork("bip65", 4)]);
                let csv = object! { "status": "failed", "startTime": 1_456_790_400u32, "timeout": 1_462_060_800u32, "since": 0u32 };
                out.put("bip9_softforks", object! { "csv": csv });
            }
            Kind::Liquid => {
                let challenge = chain.challenge();
                out.put("current_params_root", shown(&chain.seed.bytes::<32>("params", 0)));
                out.put("current_signblock_asm", asm(&challenge, false));
                out.put("current_signblock_hex", hex::encode(&challenge));
                out.put("max_block_witness", 1_325u32);
                out.put("current_fedpeg_program", hex::encode(&challenge));
                out.put("current_fedpeg_script", hex::encode(&challenge));
                out.put("extension_space", Vec::<Json>::new());
                out.put("epoch_length", 20_160u32);
                out.put("total_valid_epochs", 2u32);
                out.put("epoch_age", head % 20_160);
            }
            Kind::Btc | Kind::Bch => {}
        }
        out.put("warnings", "");
        out
    }

    fn network_info(&self) -> Json {
        let coin = self.chain.state.coin;
        let network = |name: &'static str, reachable: bool| {
            object! {
                "name": name, "limited": !reachable, "reachable": reachable, "proxy": "",
                "proxy_randomize_credentials": false,
            }
        };
        let (code, names) = coin.services;
        let fee = Json::amount(coin.fees.0);
        let mut out = object! {
            "version": coin.version.0,
            "subversion": coin.version.1,
            "protocolversion": coin.protocol,
            "localservices": code,
            "localservicesnames": names.to_vec(),
            "localrelay": true,
            "timeoffset": 0u32,
            "networkactive": true,
            "connections": PEERS,
            "connections_in": 0u32,
            "connections_out": PEERS,
            "networks": vec![network("ipv4", true), network("ipv6", true), network("onion", false)],
            "relayfee": fee.clone(),
            "incrementalfee": fee,
            "localaddresses": Vec::<Json>::new(),
            "warnings": "",
        };
        if coin.kind == Kind::Bch {
            out.put("excessutxocharge", Json::amount(0u64));
        }
        if coin.kind == Kind::Dash {
            out.set("buildversion", "v22.1.3");
            out.put("connections_mn", 0u32);
            out.put("socketevents", "epoll");
        }
        out
    }

    fn mempool_info(&self) -> Json {
        let chain = &self.chain;
        let kind = self.chain.state.coin.kind;
        let size = chain.state.pool.iter().count();
        let bytes: usize = chain.state.pool.iter().map(|waiting| chain.size(&waiting.tx)).sum();
        let least = Json::amount(chain.state.coin.fees.0);
        let mut out = object! {
            "loaded": true, "size": size, "bytes": bytes, "usage": bytes * 5, "maxmempool": 300_000_000u32,
            "mempoolminfee": least.clone(), "minrelaytxfee": least.clone(),
        };
        match kind {
            Kind::Btc | Kind::Liquid => {
                let fees = chain.state.pool.iter().fold(0u64, |sum, waiting| sum.saturating_add(waiting.fee));
                out.put("total_fee", Json::amount(fees));
                out.put("incrementalrelayfee", least);
                out.put("unbroadcastcount", 0u32);
                out.put("fullrbf", false);
            }
            Kind::Ltc => out.put("unbroadcastcount", 0u32),
            Kind::Dash => {
                out.put("instantsendlocks", size);
                out.put("unbroadcastcount", 0u32);
            }
            Kind::Bch | Kind::Doge => {}
        }
        out
    }

    fn mining_info(&self) -> Json {
        let chain = &self.chain;
        let kind = self.chain.state.coin.kind;
        let mut out = object! { "blocks": chain.head };
        match kind {
            Kind::Btc | Kind::Ltc | Kind::Liquid => {
                out.put("currentblockweight", 4_000u32);
                out.put("currentblocktx", chain.state.pool.iter().count());
            }
            Kind::Bch | Kind::Doge | Kind::Dash => {
                out.put("currentblocksize", 1_000u32);
                out.put("currentblocktx", chain.state.pool.iter().count());
            }
        }
        if kind == Kind::Ltc {
            out.put("currentblockmwebweight", 0u32);
        }
        if kind != Kind::Liquid {
            out.put("difficulty", Json::float(difficulty(chain.state.coin.bits)));
            out.put("networkhashps", Json::float(self.hash_rate()));
        }
        out.put("pooledtx", chain.state.pool.iter().count());
        out.put("chain", chain.state.coin.chain);
        out.put("warnings", "");
        out
    }

    fn tx_out_set_info(&mut self) -> Json {
        let head = self.chain.head;
        let chain = &mut self.chain;
        let hash = shown(&chain.seed.bytes::<32>("outputs", head));
        let name = if chain.state.coin.kind == Kind::Btc { "hash_serialized_3" } else { "hash_serialized_2" };
        let mut out = object! {
            "height": head,
            "bestblock": shown(&chain.hash(head)),
            "transactions": head + head / 3,
            "txouts": head + head / 3,
            "bogosize": head * 75,
            "disk_size": head * 60,
            "total_amount": Json::amount(u128::from(chain.state.coin.reward) * u128::from(head)),
        };
        out.put(name, hash);
        out
    }

    fn peer(&self, id: u64, now: Time) -> Json {
        let coin = self.chain.state.coin;
        let byte = |n: u64| 1 + self.chain.seed.below("peer", id * 4 + n, 250);
        let since = self.since.unwrap_or(now).secs();
        object! {
            "id": id,
            // A network that is reserved for documentation (RFC 5737).
            "addr": format!("198.51.100.{}:{}", byte(0), 8_000 + byte(1)),
            "services": coin.services.0,
            "servicesnames": coin.services.1.to_vec(),
            "relaytxes": true,
            "lastsend": now.secs(),
            "lastrecv": now.secs(),
            "bytessent": 1_000 * byte(2),
            "bytesrecv": 3_000 * byte(3),
            "conntime": since,
            "timeoffset": 0u32,
            "pingtime": Json::float(0.001 * byte(0) as f64),
            "minping": Json::float(0.001),
            "version": coin.protocol,
            "subver": coin.version.1,
            "inbound": false,
            "startingheight": self.chain.head,
            "synced_headers": self.chain.head,
            "synced_blocks": self.chain.head,
            "inflight": Vec::<Json>::new(),
        }
    }
}

/// Returns the id of Liquid's bitcoin as it is shown.
fn pegged_asset() -> String {
    let mut id = [0; 32];
    id.copy_from_slice(&LIQUID_BITCOIN[1..]);
    shown(&id)
}
