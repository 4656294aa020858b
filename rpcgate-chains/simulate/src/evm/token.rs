//! The chain's only contract that runs: an ERC-20 token (EIP-20) with its standard functions. The tokens of ERC-721 and
//! ERC-1155 are calls and logs only.

use super::network::{Address, Network, Word};
use super::state::Accounts;
use super::tx::keccak;

/// The effect of a call to the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The return data of the function, ABI-encoded.
    pub(crate) output: Vec<u8>,
    /// The change that it makes, if any.
    pub(crate) effect: Option<Effect>,
}

/// A change to the token's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Tokens move; if a spender moves them, its allowance shrinks.
    Transfer { from: Address, to: Address, amount: u128, spender: Option<Address> },
    /// An allowance is set.
    Approval { owner: Address, spender: Address, amount: u128 },
}

/// The token reverts, with its reason if it gives one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Revert(pub(crate) Option<&'static str>);

impl Revert {
    /// Returns the ABI data of the revert: empty, or `Error(string)`.
    pub(crate) fn data(&self) -> Vec<u8> {
        let Some(reason) = self.0 else { return Vec::new() };
        let mut out = vec![0x08, 0xc3, 0x79, 0xa0];
        out.extend(text(reason));
        out
    }

    /// Returns go-ethereum's error message.
    pub(crate) fn message(&self) -> String {
        self.0.map_or("execution reverted".into(), |reason| format!("execution reverted: {reason}"))
    }
}

/// Returns the topic of `Transfer(address,address,uint256)`.
pub(crate) fn transfer_topic() -> Word {
    keccak(b"Transfer(address,address,uint256)")
}

/// Returns the topic of `Approval(address,address,uint256)`.
pub(crate) fn approval_topic() -> Word {
    keccak(b"Approval(address,address,uint256)")
}

/// Encodes a number as an ABI word.
pub(crate) fn number(value: u128) -> Word {
    let mut out = [0; 32];
    out[16..].copy_from_slice(&value.to_be_bytes());
    out
}

/// Encodes an address as an ABI word.
pub(crate) fn padded(address: &Address) -> Word {
    let mut out = [0; 32];
    out[12..].copy_from_slice(address);
    out
}

/// A transfer of a token whose state is not stored: it is visible only in calls and logs.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) input: Vec<u8>,
    pub(crate) topics: Vec<Word>,
    pub(crate) data: Vec<u8>,
}

/// Creates the log of an ERC-20 transfer.
pub(crate) fn fungible(from: &Address, to: &Address, amount: u128) -> Logged {
    let input = [&[0xa9, 0x05, 0x9c, 0xbb][..], &padded(to), &number(amount)].concat();
    let topics = vec![transfer_topic(), padded(from), padded(to)];
    Logged { input, topics, data: number(amount).to_vec() }
}

/// Returns a transfer of ERC-721: the token's id is a topic.
pub(crate) fn unique(from: &Address, to: &Address, id: u128) -> Logged {
    let input = [&[0x23, 0xb8, 0x72, 0xdd][..], &padded(from), &padded(to), &number(id)].concat();
    let topics = vec![transfer_topic(), padded(from), padded(to), number(id)];
    Logged { input, topics, data: Vec::new() }
}

/// Returns a transfer of ERC-1155: of one id with its amount, or of several as a batch.
pub(crate) fn multiple(from: &Address, to: &Address, items: &[(u128, u128)]) -> Logged {
    let parties = [padded(from), padded(to)].concat();
    let topics = |signature: &[u8]| vec![keccak(signature), padded(from), padded(from), padded(to)];
    if let [(id, amount)] = items {
        let values = [number(*id), number(*amount)].concat();
        let input = [&[0xf2, 0x42, 0x43, 0x2a][..], &parties, &values, &number(160), &number(0)].concat();
        let topics = topics(b"TransferSingle(address,address,address,uint256,uint256)");
        return Logged { input, topics, data: values };
    }
    let count = items.len() as u128;
    let list = |item: fn(&(u128, u128)) -> u128| {
        [vec![number(count)], items.iter().map(|pair| number(item(pair))).collect()].concat().concat()
    };
    let lists = [list(|pair| pair.0), list(|pair| pair.1)].concat();
    // The offsets of the lists, which follow the words before them.
    let place = |words: u128, list: u128| number(32 * (words + list * (count + 1)));
    let data = [&place(2, 0)[..], &place(2, 1), &lists].concat();
    let places = [place(5, 0), place(5, 1), place(5, 2)].concat();
    let input = [&[0x2e, 0xb2, 0xc2, 0xd6][..], &parties, &places, &lists, &number(0)].concat();
    let topics = topics(b"TransferBatch(address,address,address,uint256[],uint256[])");
    Logged { input, topics, data }
}

fn text(text: &str) -> Vec<u8> {
    let mut out = [number(32), number(text.len() as u128)].concat();
    out.extend(text.as_bytes());
    out.resize(64 + text.len().next_multiple_of(32), 0);
    out
}

/// Returns argument `index` of the call as a word.
fn word(input: &[u8], index: usize) -> Result<Word, Revert> {
    let bytes = input.get(4 + 32 * index..36 + 32 * index).ok_or(Revert(None))?;
    bytes.try_into().map_err(|_| Revert(None))
}

fn address(input: &[u8], index: usize) -> Result<Address, Revert> {
    let word = word(input, index)?;
    word[12..].try_into().map_err(|_| Revert(None))
}

/// Reads an amount; one beyond 128 bits becomes the maximum, which no account has.
fn amount(input: &[u8], index: usize) -> Result<u128, Revert> {
    let word = word(input, index)?;
    let low: [u8; 16] = word[16..].try_into().map_err(|_| Revert(None))?;
    Ok(if word[..16].iter().all(|b| *b == 0) { u128::from_be_bytes(low) } else { u128::MAX })
}

/// Runs a function of the token for `caller` on the state after block `height`.
pub(crate) fn call(
    network: &Network,
    state: &Accounts,
    height: u64,
    caller: Address,
    input: &[u8],
) -> Result<Outcome, Revert> {
    let view = |output: Vec<u8>| Ok(Outcome { output, effect: None });
    let done = |effect| Ok(Outcome { output: number(1).to_vec(), effect: Some(effect) });
    let held = |owner: &Address| state.account(owner, height).tokens;
    let short = Revert(Some("ERC20: transfer amount exceeds balance"));
    match input.get(..4).unwrap_or_default() {
        [0x06, 0xfd, 0xde, 0x03] => view(text(network.token_name)),
        [0x95, 0xd8, 0x9b, 0x41] => view(text(network.token_symbol)),
        [0x31, 0x3c, 0xe5, 0x67] => view(number(network.token_decimals.into()).to_vec()),
        [0x18, 0x16, 0x0d, 0xdd] => view(number(state.supply()).to_vec()),
        [0x70, 0xa0, 0x82, 0x31] => view(number(held(&address(input, 0)?)).to_vec()),
        [0xdd, 0x62, 0xed, 0x3e] => {
            view(number(state.allowance(address(input, 0)?, address(input, 1)?)).to_vec())
        }
        [0xa9, 0x05, 0x9c, 0xbb] => {
            let to = address(input, 0)?;
            let amount = amount(input, 1)?;
            if held(&caller) < amount {
                return Err(short);
            }
            done(Effect::Transfer { from: caller, to, amount, spender: None })
        }
        [0x09, 0x5e, 0xa7, 0xb3] => {
            let spender = address(input, 0)?;
            let amount = amount(input, 1)?;
            done(Effect::Approval { owner: caller, spender, amount })
        }
        [0x23, 0xb8, 0x72, 0xdd] => {
            let from = address(input, 0)?;
            let to = address(input, 1)?;
            let amount = amount(input, 2)?;
            if state.allowance(from, caller) < amount {
                return Err(Revert(Some("ERC20: transfer amount exceeds allowance")));
            }
            if held(&from) < amount {
                return Err(short);
            }
            done(Effect::Transfer { from, to, amount, spender: Some(caller) })
        }
        _ => Err(Revert(None)),
    }
}
