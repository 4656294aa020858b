//! The methods of an EVM node.

use super::EvmNode;
use super::call::Call;
use super::chain::Chain;
use super::logs::{Kind, Query};
use super::network::{Layout, Word};
use super::params::{BlockId, Params, invalid};
use super::token::number;
use super::tx::{Tx, keccak};
use crate::envelope::Fault;
use crate::json::{Json, object};
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The maximum number of blocks in one `eth_feeHistory`.
const FEE_HISTORY: u64 = 1_024;

impl Chain {
    /// Puts a signed transaction into the pool and returns its hash.
    pub(super) fn submit(&mut self, raw: &[u8]) -> Result<Word, Fault> {
        let refuse = |message: String| Err(Fault::new(-32000, message));
        let (tx, from) = Tx::decode(raw)?;
        let own = self.state.network.chain_id;
        match tx.chain_id {
            None => return refuse("only replay-protected (EIP-155) transactions allowed over RPC".into()),
            Some(id) if id != own => {
                return refuse(format!("invalid sender: invalid chain id for signer: have {id} want {own}"));
            }
            Some(_) => {}
        }
        if self.state.pool.find(&tx.hash).is_some() {
            return refuse("already known".into());
        }
        if tx.tip > tx.max_fee {
            return refuse(format!(
                "max priority fee per gas higher than max fee per gas: maxPriorityFeePerGas: {}, maxFeePerGas: {}",
                tx.tip, tx.max_fee
            ));
        }
        if tx.gas > self.state.network.gas_limit {
            return refuse("exceeds block gas limit".into());
        }
        let least = tx.intrinsic_gas();
        if tx.gas < least {
            return refuse(format!("intrinsic gas too low: gas {}, minimum needed {least}", tx.gas));
        }
        if tx.to.is_none() && tx.input.len() > 49_152 {
            let message = format!("max initcode size exceeded: code size {}, limit 49152", tx.input.len());
            return refuse(message);
        }
        let hash = tx.hash;
        let head = self.head;
        self.state.pool.add(tx, from, &self.state.accounts, head)?;
        Ok(hash)
    }
}

impl EvmNode {
    pub(super) fn call(&mut self, method: &str, params: Value, now: Time) -> Result<Json, Fault> {
        if method.starts_with("bor_") && self.chain.state.network.layout == Layout::Bor {
            return self.bor(method, params);
        }
        let take = |required, most| Params::take(params, required, most);
        let chain = &mut self.chain;
        match method {
            "web3_clientVersion" => take(0, 0).map(|_| chain.state.network.client.into()),
            "web3_sha3" => take(1, 1)?.data(0).map(|data| Json::data(&keccak(&data))),
            "net_version" => take(0, 0).map(|_| chain.state.network.chain_id.to_string().into()),
            "net_listening" => take(0, 0).map(|_| true.into()),
            "net_peerCount" => take(0, 0).map(|_| "0x32".into()),
            "rpc_modules" => {
                take(0, 0).map(|_| object! { "eth": "1.0", "net": "1.0", "rpc": "1.0", "web3": "1.0" })
            }
            "eth_chainId" => take(0, 0).map(|_| Json::quantity(chain.state.network.chain_id)),
            "eth_blockNumber" => take(0, 0).map(|_| Json::quantity(chain.head)),
            "eth_syncing" => take(0, 0).map(|_| false.into()),
            "eth_accounts" => take(0, 0).map(|_| Vec::<Json>::new().into()),
            "eth_gasPrice" => take(0, 0)
                .map(|_| Json::quantity(chain.base_fee(chain.head) + u128::from(chain.state.network.tip))),
            "eth_maxPriorityFeePerGas" => take(0, 0).map(|_| Json::quantity(chain.state.network.tip)),
            "eth_blobBaseFee" if chain.has_blobs() => take(0, 0).map(|_| "0x1".into()),
            "eth_baseFee" if chain.state.network.layout == Layout::Coreth => {
                take(0, 0).map(|_| Json::quantity(chain.base_fee(chain.head + 1)))
            }
            "eth_feeHistory" => take(2, 3).and_then(|params| self.fee_history(&params)),
            "eth_getBalance" => {
                let params = take(2, 2)?;
                let height = chain.state_at(params.block(1)?)?;
                Ok(Json::quantity(chain.state.accounts.account(&params.address(0)?, height).balance))
            }
            "eth_getTransactionCount" => {
                let params = take(2, 2)?;
                let address = params.address(0)?;
                let id = params.block(1)?;
                let nonce = chain.state.accounts.account(&address, chain.state_at(id)?).nonce;
                Ok(Json::quantity(if id == BlockId::Pending {
                    chain.state.pool.nonce(&address, nonce)
                } else {
                    nonce
                }))
            }
            "eth_getCode" => {
                let params = take(2, 2)?;
                let height = chain.state_at(params.block(1)?)?;
                Ok(Json::data(&chain.state.accounts.code(&params.address(0)?, height)))
            }
            "eth_getStorageAt" => take(3, 3).and_then(|params| self.storage(&params)),
            "eth_getBlockByNumber" => {
                let params = take(2, 2)?;
                let id = params.block_number(0)?;
                let full = params.flag(1)?;
                if id == BlockId::Pending {
                    return Ok(chain.pending_json(full));
                }
                Ok(chain.height_of(id).map(|height| chain.block_json(height, full)).into())
            }
            "eth_getBlockByHash" => {
                let params = take(2, 2)?;
                let id = BlockId::Hash(params.hash(0)?);
                let full = params.flag(1)?;
                Ok(chain.height_of(id).map(|height| chain.block_json(height, full)).into())
            }
            "eth_getHeaderByNumber" | "eth_getHeaderByHash" => {
                let params = take(1, 1)?;
                let id = if method.ends_with("Hash") {
                    BlockId::Hash(params.hash(0)?)
                } else {
                    params.block_number(0)?
                };
                Ok(chain.height_of(id).map(|height| chain.header_json(height, &chain.entries(height))).into())
            }
            "eth_getBlockTransactionCountByNumber" | "eth_getBlockTransactionCountByHash" => {
                let params = take(1, 1)?;
                let id = if method.ends_with("Hash") {
                    BlockId::Hash(params.hash(0)?)
                } else {
                    params.block_number(0)?
                };
                let count = if id == BlockId::Pending {
                    Some(chain.state.pool.iter().count())
                } else {
                    chain.height_of(id).map(|height| chain.entries(height).len())
                };
                Ok(count.map(|count| Json::quantity(count as u64)).into())
            }
            "eth_getUncleCountByBlockNumber" | "eth_getUncleCountByBlockHash" => {
                let params = take(1, 1)?;
                let id = if method.ends_with("Hash") {
                    BlockId::Hash(params.hash(0)?)
                } else {
                    params.block_number(0)?
                };
                Ok(chain.height_of(id).map(|_| Json::from("0x0")).into())
            }
            "eth_getUncleByBlockNumberAndIndex" => {
                take(2, 2).and_then(|p| p.block_number(0)).map(|_| Json::Null)
            }
            "eth_getUncleByBlockHashAndIndex" => take(2, 2).and_then(|p| p.hash(0)).map(|_| Json::Null),
            "eth_getBlockReceipts" => {
                let id = take(1, 1)?.block(0)?;
                Ok(chain.height_of(id).map(|height| chain.receipts(height)).into())
            }
            "eth_getTransactionByBlockNumberAndIndex" | "eth_getTransactionByBlockHashAndIndex" => {
                let params = take(2, 2)?;
                let id = if method.contains("Hash") {
                    BlockId::Hash(params.hash(0)?)
                } else {
                    params.block_number(0)?
                };
                let index = params.number(1)? as usize;
                Ok(chain
                    .height_of(id)
                    .map_or(Json::Null, |height| chain.tx_json(height, index, &chain.entries(height))))
            }
            "eth_getTransactionByHash" => {
                let hash = take(1, 1)?.hash(0)?;
                Ok(match (chain.position(&hash), chain.state.pool.find(&hash)) {
                    (Some((height, index)), _) => chain.tx_json(height, index, &chain.entries(height)),
                    (None, Some((tx, from))) => chain.waiting_json(tx, from),
                    (None, None) => chain
                        .find_announced(&hash)
                        .map(|entry| chain.waiting_json(&entry.tx, &entry.from))
                        .into(),
                })
            }
            "eth_getTransactionReceipt" => {
                let hash = take(1, 1)?.hash(0)?;
                let receipt = chain
                    .position(&hash)
                    .and_then(|(height, index)| chain.receipts(height).into_iter().nth(index));
                Ok(receipt.into())
            }
            "eth_call" => {
                let params = take(1, 4)?;
                let height = chain.state_at(params.block(1)?)?;
                Ok(Json::data(&chain.run(&Call::read(params.get(0), 0)?, height)?.output))
            }
            "eth_estimateGas" => {
                let params = take(1, 4)?;
                let height = chain.state_at(params.block(1)?)?;
                Ok(Json::quantity(chain.run(&Call::read(params.get(0), 0)?, height)?.gas))
            }
            "eth_createAccessList" => {
                let params = take(1, 3)?;
                let height = chain.state_at(params.block(1)?)?;
                let gas = chain.run(&Call::read(params.get(0), 0)?, height)?.gas;
                Ok(object! { "accessList": Vec::<Json>::new(), "gasUsed": Json::quantity(gas) })
            }
            "eth_simulateV1" => {
                let params = take(1, 2)?;
                chain.simulate(params.get(0), chain.state_at(params.block(1)?)?)
            }
            "eth_getLogs" => chain.logs(&Query::read(take(1, 1)?.get(0))?).map(Json::from),
            "eth_newFilter" => {
                let query = Query::read(take(1, 1)?.get(0))?;
                Ok(self.filters.open(Kind::Logs(query), chain, now))
            }
            "eth_newBlockFilter" => take(0, 0).map(|_| self.filters.open(Kind::Blocks, chain, now)),
            "eth_newPendingTransactionFilter" => {
                take(0, 1).map(|_| self.filters.open(Kind::Pending, chain, now))
            }
            "eth_getFilterChanges" => self.filters.changes(filter_id(&take(1, 1)?)?, chain, now),
            "eth_getFilterLogs" => self.filters.logs(filter_id(&take(1, 1)?)?, chain, now),
            "eth_uninstallFilter" => Ok(self.filters.close(filter_id(&take(1, 1)?)?).into()),
            "eth_subscribe" | "eth_unsubscribe" => Err(Fault::new(-32001, "notifications not supported")),
            "eth_sendRawTransaction" => take(1, 1)?.data(0).and_then(|raw| self.send(raw, now)),
            "eth_sendTransaction" | "eth_signTransaction" => {
                Call::read(take(1, 1)?.get(0), 0)?;
                Err(Fault::new(-32000, "unknown account"))
            }
            "eth_sign" => take(2, 2)?.address(0).and_then(|_| Err(Fault::new(-32000, "unknown account"))),
            "txpool_status" => take(0, 0).map(|_| {
                object! { "pending": Json::quantity(chain.state.pool.iter().count() as u64), "queued": "0x0" }
            }),
            "txpool_content" => take(0, 0).map(|_| self.pool_content()),
            _ => Err(unknown(method)),
        }
    }

    fn fee_history(&self, params: &Params) -> Result<Json, Fault> {
        let chain = &self.chain;
        let count = match params.get(0) {
            Value::Number(count) => count.as_u64().ok_or_else(|| invalid(0, "not a count of blocks"))?,
            _ => params.number(0)?,
        };
        let newest = match params.block_number(1)? {
            BlockId::Number(number) if number > chain.head => {
                let message = format!("request beyond head block: requested {number}, head {}", chain.head);
                return Err(Fault::new(-32000, message));
            }
            id => chain.height_of(id).unwrap_or(chain.head),
        };
        let percentiles = match params.get(2) {
            Value::Null => Vec::new(),
            Value::Array(list) => {
                list.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>().unwrap_or(vec![-1.0])
            }
            _ => {
                return Err(invalid(2, "json: cannot unmarshal into Go value of type []float64"));
            }
        };
        let ordered = percentiles.windows(2).all(|pair| pair[0] <= pair[1]);
        if !ordered || percentiles.iter().any(|percentile| !(0.0..=100.0).contains(percentile)) {
            return Err(Fault::new(-32000, "invalid reward percentile"));
        }
        let count = count.min(FEE_HISTORY).min(newest + 1);
        let first = newest + 1 - count;
        let fees: Vec<Json> =
            (first..=newest + 1).map(|height| Json::quantity(chain.base_fee(height))).collect();
        let mut ratios = Vec::new();
        let mut rewards = Vec::new();
        for height in first..=newest {
            let entries = chain.entries(height);
            let used: u64 = entries.iter().map(|entry| entry.gas_used).sum();
            ratios.push(Json::float(used as f64 / chain.state.network.gas_limit as f64));
            let base_fee = chain.base_fee(height);
            let mut tips: Vec<(u128, u64)> = entries
                .iter()
                .map(|entry| (entry.tx.price(base_fee).saturating_sub(base_fee), entry.gas_used))
                .collect();
            tips.sort_unstable();
            rewards.push(
                percentiles.iter().map(|percentile| reward(&tips, used, *percentile)).collect::<Vec<Json>>(),
            );
        }
        if count == 0 {
            return Ok(object! { "oldestBlock": "0x0", "gasUsedRatio": Json::Null });
        }
        let mut out = object! { "oldestBlock": Json::quantity(first) };
        if !percentiles.is_empty() {
            out.put("reward", rewards);
        }
        out.put("baseFeePerGas", fees);
        out.put("gasUsedRatio", ratios);
        if chain.has_blobs() {
            out.put("baseFeePerBlobGas", vec!["0x1"; count as usize + 1]);
            out.put("blobGasUsedRatio", vec![0u64; count as usize]);
        }
        Ok(out)
    }

    fn storage(&self, params: &Params) -> Result<Json, Fault> {
        let address = params.address(0)?;
        let slot = params.get(1).as_str().unwrap_or("");
        let digits = slot.strip_prefix("0x").unwrap_or(slot);
        if digits.len() > 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Fault::new(-32602, "unable to decode storage key: hex string invalid"));
        }
        let height = self.chain.state_at(params.block(2)?)?;
        // Only the token's first storage slot is shown: its total supply.
        let first = digits.bytes().all(|digit| digit == b'0');
        let shown = first
            && !self.chain.state.accounts.code(&address, height).is_empty()
            && address == self.chain.state.network.token;
        let value: Word = if shown { number(self.chain.state.accounts.supply()) } else { [0; 32] };
        Ok(Json::data(&value))
    }

    fn send(&mut self, raw: Vec<u8>, now: Time) -> Result<Json, Fault> {
        let hash = self.chain.submit(&raw)?;
        let moment = self.chain.moment(now);
        self.chain.submissions.take_any(moment, raw);
        Ok(Json::data(&hash))
    }

    fn pool_content(&self) -> Json {
        let chain = &self.chain;
        let mut senders: Vec<(String, Json)> = Vec::new();
        for (tx, from) in chain.state.pool.iter() {
            let name = format!("0x{}", hex::encode(from));
            let entry = (tx.nonce.to_string().into(), chain.waiting_json(tx, from));
            match senders.iter_mut().find(|(known, _)| *known == name) {
                Some((_, Json::Object(members))) => members.push(entry),
                _ => senders.push((name, Json::Object(vec![entry]))),
            }
        }
        let pending = senders.into_iter().map(|(name, value)| (name.into(), value)).collect();
        object! { "pending": Json::Object(pending), "queued": Json::Object(Vec::new()) }
    }

    /// Runs the methods that Polygon's Bor adds for block producers.
    fn bor(&self, method: &str, params: Value) -> Result<Json, Fault> {
        let chain = &self.chain;
        let author =
            |height: u64| Json::data(&chain.seed.bytes::<20>("miner", chain.seed.below("turn", height, 21)));
        let signers = || (0..21).map(|n| chain.seed.bytes::<20>("miner", n));
        let found = |id| chain.height_of(id).ok_or_else(|| Fault::new(-32000, "unknown block"));
        match method {
            "bor_getAuthor" => found(Params::take(params, 0, 1)?.block(0)?).map(author),
            "bor_getCurrentProposer" => Params::take(params, 0, 0).map(|_| author(chain.head)),
            "bor_getSigners" => {
                found(Params::take(params, 0, 1)?.block(0)?)?;
                Ok(signers().map(|signer| Json::data(&signer)).collect::<Vec<_>>().into())
            }
            "bor_getSignersAtHash" => {
                found(BlockId::Hash(Params::take(params, 1, 1)?.hash(0)?))?;
                Ok(signers().map(|signer| Json::data(&signer)).collect::<Vec<_>>().into())
            }
            "bor_getCurrentValidators" => {
                Params::take(params, 0, 0)?;
                let one = |(id, signer): (usize, [u8; 20])| {
                    object! { "ID": id + 1, "signer": Json::data(&signer), "power": 10u64, "accum": 0u64 }
                };
                Ok(signers().enumerate().map(one).collect::<Vec<_>>().into())
            }
            "bor_getRootHash" => {
                let params = Params::take(params, 2, 2)?;
                let bound = |index: usize| match params.get(index) {
                    Value::Number(n) => n.as_u64().ok_or_else(|| invalid(index, "not a block number")),
                    _ => params.number(index),
                };
                let first = bound(0)?;
                let last = bound(1)?;
                if first > last || last > chain.head {
                    return Err(Fault::new(-32000, "invalid start and end block"));
                }
                let ends = [chain.block_hash(first), chain.block_hash(last)].concat();
                Ok(hex::encode(keccak(&ends)).into())
            }
            _ => Err(unknown(method)),
        }
    }
}

fn unknown(method: &str) -> Fault {
    Fault::new(-32601, format!("the method {method} does not exist/is not available"))
}

fn filter_id(params: &Params) -> Result<&str, Fault> {
    params
        .get(0)
        .as_str()
        .ok_or_else(|| invalid(0, "json: cannot unmarshal non-string into Go value of type rpc.ID"))
}

fn reward(tips: &[(u128, u64)], used: u64, percentile: f64) -> Json {
    let mark = used as f64 * percentile / 100.0;
    let mut sum = 0.0;
    for (tip, gas) in tips {
        sum += *gas as f64;
        if sum >= mark {
            return Json::quantity(*tip);
        }
    }
    Json::quantity(0u64)
}
