//! Calls that change nothing: `eth_call`, `eth_estimateGas` and similar methods.

use super::chain::{Chain, TOKEN_GAS};
use super::multicall;
use super::network::{Address, MULTICALL};
use super::params::{bytes, fixed, invalid, number};
use super::token::{self, Revert};
use super::tx::intrinsic_gas;
use crate::envelope::Fault;
use crate::json::{Json, object};
use serde_json::Value;

#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    pub(crate) from: Address,
    pub(crate) to: Option<Address>,
    value: u128,
    gas: Option<u128>,
    price: u128,
    pub(crate) input: Vec<u8>,
}

impl Call {
    /// Reads the object that is argument `index`.
    pub(crate) fn read(value: &Value, index: usize) -> Result<Self, Fault> {
        let Some(object) = value.as_object() else {
            return Err(invalid(
                index,
                "json: cannot unmarshal non-object into Go value of type ethapi.TransactionArgs",
            ));
        };
        let member = |name: &str| object.get(name).filter(|value| !value.is_null());
        let wrong = |why: String| invalid(index, why);
        let amount = |name: &str| member(name).map(number).transpose().map_err(wrong);
        let data = |name: &str| {
            let text = member(name).map(|value| value.as_str().unwrap_or(""));
            text.map(bytes).transpose().map_err(|why| invalid(index, why))
        };
        let input = data("input")?;
        let old = data("data")?;
        if input.is_some() && old.is_some() && input != old {
            let why = "both \"data\" and \"input\" are set and not equal. Please use \"input\" to pass transaction call data";
            return Err(Fault::new(-32000, why));
        }
        let price = amount("gasPrice")?;
        let max = amount("maxFeePerGas")?;
        if price.is_some() && max.is_some() {
            return Err(Fault::new(
                -32000,
                "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified",
            ));
        }
        Ok(Call {
            from: member("from").map(fixed).transpose().map_err(wrong)?.unwrap_or_default(),
            to: member("to").map(fixed).transpose().map_err(wrong)?,
            value: amount("value")?.unwrap_or(0),
            gas: amount("gas")?,
            price: price.or(max).unwrap_or(0),
            input: input.or(old).unwrap_or_default(),
        })
    }
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) output: Vec<u8>,
    pub(crate) gas: u64,
}

impl Chain {
    /// Runs a call on the state after block `height`.
    pub(crate) fn run(&self, call: &Call, height: u64) -> Result<Ran, Fault> {
        let account = self.state.accounts.account(&call.from, height);
        let limit = call.gas.unwrap_or(u128::from(self.state.network.gas_limit));
        let want = if call.price == 0 {
            call.value
        } else {
            call.value.saturating_add(call.price.saturating_mul(limit))
        };
        if want > account.balance {
            return Err(Fault::new(
                -32000,
                format!(
                    "insufficient funds for gas * price + value: address 0x{} have {} want {want}",
                    hex::encode(call.from),
                    account.balance
                ),
            ));
        }
        let mut gas = intrinsic_gas(call.to.is_none(), &call.input, &[]);
        let mut output = Vec::new();
        match call.to {
            None => gas += 200 * call.input.len() as u64,
            Some(to) => {
                if to == self.state.network.token || to == MULTICALL {
                    gas += TOKEN_GAS;
                }
                let result = self.output(call.from, to, height, &call.input);
                output = result.map_err(|revert| Fault {
                    code: 3,
                    message: revert.message(),
                    data: Some(Json::data(&revert.data())),
                })?;
            }
        }
        if u128::from(gas) > limit {
            let message = format!("intrinsic gas too low: have {limit}, want {gas}");
            return Err(Fault::new(-32000, message));
        }
        Ok(Ran { output, gas })
    }

    /// Returns a contract's output for `from` on the state after block `height`; empty if no contract runs at `to`.
    pub(crate) fn output(
        &self,
        from: Address,
        to: Address,
        height: u64,
        input: &[u8],
    ) -> Result<Vec<u8>, Revert> {
        if to == self.state.network.token {
            let outcome = token::call(self.state.network, &self.state.accounts, height, from, input);
            outcome.map(|outcome| outcome.output)
        } else if to == MULTICALL {
            multicall::call(self, height, input)
        } else {
            Ok(Vec::new())
        }
    }

    /// Answers `eth_simulateV1`: each call runs alone on the state of block `height`.
    pub(crate) fn simulate(&self, options: &Value, height: u64) -> Result<Json, Fault> {
        let Some(states) =
            options.get("blockStateCalls").and_then(Value::as_array).filter(|list| !list.is_empty())
        else {
            return Err(Fault::new(-32602, "empty input"));
        };
        if states.len() > 256 {
            return Err(Fault::new(-38026, "too many blocks"));
        }
        let mut blocks = Vec::new();
        for (offset, state) in states.iter().enumerate() {
            let number = height + 1 + offset as u64;
            let mut results = Vec::new();
            let mut used = 0;
            for call in state.get("calls").and_then(Value::as_array).into_iter().flatten() {
                let call = Call::read(call, 0)?;
                let mut result = match self.run(&call, height) {
                    Ok(ran) => {
                        used += ran.gas;
                        object! {
                            "returnData": Json::data(&ran.output), "logs": Vec::<Json>::new(),
                            "gasUsed": Json::quantity(ran.gas), "status": "0x1",
                        }
                    }
                    Err(fault) if fault.code == 3 => object! {
                        "returnData": fault.data.clone().unwrap_or(Json::Null), "logs": Vec::<Json>::new(),
                        "gasUsed": Json::quantity(TOKEN_GAS), "status": "0x0", "error": fault.json(),
                    },
                    Err(fault) => return Err(fault),
                };
                result.put("maxUsedGas", Json::quantity(used));
                results.push(result);
            }
            let mut block = self.header_json(number, &[]);
            block.set("gasUsed", Json::quantity(used));
            block.put("uncles", Vec::<Json>::new());
            block.put("transactions", Vec::<Json>::new());
            block.put("calls", results);
            blocks.push(block);
        }
        Ok(blocks.into())
    }
}
