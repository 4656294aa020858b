//! Multicall3, the contract by which libraries read many values in one call. It is at the same address on every chain.
//!
//! `aggregate3`, `aggregate` and `tryAggregate` run each of their calls on the same state. A nested call of Multicall3
//! returns nothing, so that the cost is proportional to the length of the input.

use super::chain::Chain;
use super::network::{Address, MULTICALL};
use super::token::{Revert, number};

const AGGREGATE: [u8; 4] = [0x25, 0x2d, 0xba, 0x42];
const TRY_AGGREGATE: [u8; 4] = [0xbc, 0xe3, 0x8b, 0xd7];
const AGGREGATE3: [u8; 4] = [0x82, 0xad, 0x56, 0xcb];
const BLOCK_NUMBER: [u8; 4] = [0x42, 0xcb, 0xb1, 0x5c];
const CHAIN_ID: [u8; 4] = [0x34, 0x08, 0xe4, 0x70];
const TIMESTAMP: [u8; 4] = [0x0f, 0x28, 0xc9, 0x7d];
const BALANCE: [u8; 4] = [0x4d, 0x23, 0x01, 0xcc];

/// One call of a set.
struct Inner<'i> {
    target: Address,
    may_fail: bool,
    input: &'i [u8],
}

/// Runs a function of the contract on the state after block `height`.
pub(crate) fn call(chain: &Chain, height: u64, input: &[u8]) -> Result<Vec<u8>, Revert> {
    let (selector, arguments) = input.split_first_chunk::<4>().ok_or(Revert(None))?;
    match *selector {
        AGGREGATE3 => {
            let calls = calls(arguments, 0, 3).ok_or(Revert(None))?;
            Ok([&number(32)[..], &results(chain, height, &calls)?].concat())
        }
        TRY_AGGREGATE => {
            let must_succeed = word(arguments, 0).ok_or(Revert(None))? != 0;
            let mut calls = calls(arguments, 1, 2).ok_or(Revert(None))?;
            calls.iter_mut().for_each(|call| call.may_fail = !must_succeed);
            Ok([&number(32)[..], &results(chain, height, &calls)?].concat())
        }
        AGGREGATE => {
            let calls = calls(arguments, 0, 2).ok_or(Revert(None))?;
            let outputs = calls.iter().map(|call| output(chain, height, call).map(|output| bytes(&output)));
            let outputs = outputs.collect::<Result<Vec<_>, _>>().map_err(|_| FAILED)?;
            Ok([&number(height.into())[..], &number(64), &list(&outputs)].concat())
        }
        BLOCK_NUMBER => Ok(number(height.into()).to_vec()),
        CHAIN_ID => Ok(number(chain.state.network.chain_id.into()).to_vec()),
        TIMESTAMP => Ok(number(chain.secs(height).into()).to_vec()),
        BALANCE => {
            let owner = account(arguments, 0).ok_or(Revert(None))?;
            Ok(number(chain.state.accounts.account(&owner, height).balance).to_vec())
        }
        _ => Err(Revert(None)),
    }
}

const FAILED: Revert = Revert(Some("Multicall3: call failed"));

/// Returns the list of `(bool success, bytes returnData)`.
fn results(chain: &Chain, height: u64, calls: &[Inner<'_>]) -> Result<Vec<u8>, Revert> {
    let result = |call: &Inner<'_>| {
        let (is_success, output) = match output(chain, height, call) {
            Ok(output) => (true, output),
            Err(revert) if call.may_fail => (false, revert.data()),
            Err(_) => return Err(FAILED),
        };
        Ok([&number(is_success.into())[..], &number(64), &bytes(&output)].concat())
    };
    Ok(list(&calls.iter().map(result).collect::<Result<Vec<_>, _>>()?))
}

fn output(chain: &Chain, height: u64, call: &Inner<'_>) -> Result<Vec<u8>, Revert> {
    if call.target == MULTICALL {
        return Ok(Vec::new());
    }
    chain.output(MULTICALL, call.target, height, call.input)
}

/// Returns the calls in the list whose offset is argument `index`. Each has `words` words before its input: the target,
/// a flag that allows failure if `words` is 3, and the offset of the input.
fn calls(arguments: &[u8], index: usize, words: usize) -> Option<Vec<Inner<'_>>> {
    let list = arguments.get(word(arguments, index)?..)?;
    let count = word(list, 0)?;
    let rows = list.get(32..)?;
    // The offset of each call takes a word.
    if count > rows.len() / 32 {
        return None;
    }
    let inner = |n: usize| {
        let row = rows.get(word(rows, n)?..)?;
        let input = row.get(word(row, words - 1)?..)?;
        let input = input.get(32..)?.get(..word(input, 0)?)?;
        Some(Inner { target: account(row, 0)?, may_fail: words == 3 && word(row, 1)? != 0, input })
    };
    (0..count).map(inner).collect()
}

/// Returns word `index` as an offset or a length; `None` if no input can have it.
fn word(bytes: &[u8], index: usize) -> Option<usize> {
    let word: [u8; 32] = bytes.get(index.checked_mul(32)?..)?.first_chunk().copied()?;
    let (high, low) = word.split_at(28);
    if high.iter().any(|byte| *byte != 0) {
        return None;
    }
    usize::try_from(u32::from_be_bytes(low.try_into().ok()?)).ok()
}

fn account(bytes: &[u8], index: usize) -> Option<Address> {
    bytes.get(32 * index + 12..32 * index + 32)?.try_into().ok()
}

/// Encodes `bytes` by the ABI: the length, and the content in whole words.
fn bytes(content: &[u8]) -> Vec<u8> {
    let mut out = [&number(content.len() as u128)[..], content].concat();
    out.resize(32 + content.len().next_multiple_of(32), 0);
    out
}

/// Encodes a list by the ABI: its length, the offset of each item, and the items.
fn list(items: &[Vec<u8>]) -> Vec<u8> {
    let mut out = number(items.len() as u128).to_vec();
    let mut place = 32 * items.len();
    for item in items {
        out.extend(number(place as u128));
        place += item.len();
    }
    out.extend(items.iter().flatten());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evm::network::NETWORKS;
    use crate::evm::token::padded;

    fn chain() -> Chain {
        Chain::of_network(&NETWORKS[0], 7)
    }

    fn balance_of(owner: &Address) -> Vec<u8> {
        [&[0x70, 0xa0, 0x82, 0x31][..], &padded(owner)].concat()
    }

    /// Encodes an `aggregate3` of these calls, which may fail.
    fn aggregate3(calls: &[(Address, Vec<u8>)]) -> Vec<u8> {
        let row = |(target, input): &(Address, Vec<u8>)| {
            [&padded(target)[..], &number(1), &number(96), &bytes(input)].concat()
        };
        let rows: Vec<_> = calls.iter().map(row).collect();
        [&AGGREGATE3[..], &number(32), &list(&rows)].concat()
    }

    #[test]
    fn calls_are_run_one_after_another_and_a_failed_one_is_marked() {
        let chain = chain();
        let token = chain.state.network.token;
        let owner = chain.state.accounts.resident(0);
        let input = aggregate3(&[
            (token, balance_of(&owner)),
            (token, vec![1, 2, 3, 4]),
            (MULTICALL, aggregate3(&[])),
            (owner, Vec::new()),
        ]);
        let output = call(&chain, chain.head, &input).unwrap();
        let rows = &output[64..];
        assert_eq!((word(&output, 0), word(&output, 1)), (Some(32), Some(4)));
        let row = |n: usize| &rows[word(rows, n).unwrap()..];
        assert_eq!((word(row(0), 0), word(row(0), 2)), (Some(1), Some(32)));
        let held = chain.state.accounts.account(&owner, chain.head).tokens;
        assert_eq!(row(0)[96..128], number(held));
        assert_eq!(word(row(1), 0), Some(0), "the token has no such function");
        assert_eq!((word(row(2), 0), word(row(2), 2)), (Some(1), Some(0)));
        assert_eq!((word(row(3), 0), word(row(3), 2)), (Some(1), Some(0)));
    }

    #[test]
    fn malformed_input_reverts() {
        let chain = chain();
        let whole = aggregate3(&[(chain.state.network.token, vec![1; 4])]);
        for end in 0..whole.len() - 28 {
            assert!(call(&chain, chain.head, &whole[..end]).is_err(), "{end}");
        }
        let endless = [&AGGREGATE3[..], &number(32), &number(u32::MAX.into())].concat();
        assert!(call(&chain, chain.head, &endless).is_err());
        assert!(call(&chain, chain.head, &[&AGGREGATE3[..], &[0xff; 64]].concat()).is_err());
    }
}
