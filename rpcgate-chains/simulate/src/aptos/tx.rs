//! Transactions: their bytes, their hash and their signers.

use super::address::{Address, name, read_address};
use crate::bytes::{Reader, Writer};
use crate::hash::is_signed_ed25519;
use crate::json::{Json, object};
use sha3::{Digest, Sha3_256};

/// The chain id that a transaction names.
pub(crate) const CHAIN: u8 = 1;

/// The type of the chain's own coin.
pub(crate) const COIN: &str = "0x1::aptos_coin::AptosCoin";

pub(crate) fn sha3(bytes: &[u8]) -> [u8; 32] {
    Sha3_256::digest(bytes).into()
}

/// A call of a module's function with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) address: Address,
    pub(crate) module: String,
    pub(crate) function: String,
    /// Type arguments as text.
    pub(crate) types: Vec<String>,
    /// The arguments, each encoded.
    pub(crate) arguments: Vec<Vec<u8>>,
}

/// The deepest nesting of a type that is read.
const DEPTH: usize = 8;

fn read_type(reader: &mut Reader<'_>, depth: usize) -> Option<String> {
    const PLAIN: [&str; 6] = ["bool", "u8", "u64", "u128", "address", "signer"];
    if depth == 0 {
        return None;
    }
    Some(match reader.length()? {
        plain @ 0..=5 => PLAIN.get(plain).copied()?.to_owned(),
        6 => format!("vector<{}>", read_type(reader, depth - 1)?),
        7 => {
            let address = reader.array()?;
            let module = reader.text()?;
            let item = reader.text()?;
            let inner = reader.list(|reader| read_type(reader, depth - 1))?.join(", ");
            let inner = if inner.is_empty() { inner } else { format!("<{inner}>") };
            format!("{}::{module}::{item}{inner}", name(&address))
        }
        8 => "u16".into(),
        9 => "u32".into(),
        10 => "u256".into(),
        _ => return None,
    })
}

/// Writes a type. Of the compound types it supports only structs without type arguments.
fn write_type(writer: Writer, text: &str) -> Option<Writer> {
    let mut parts = text.split("::");
    let address = read_address(parts.next()?)?;
    let module = parts.next()?;
    let item = parts.next()?;
    if parts.next().is_some() || item.contains('<') {
        return None;
    }
    let writer = writer.length(7).raw(&address).sized(module.as_bytes()).sized(item.as_bytes());
    Some(writer.length(0))
}

impl Call {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let address = reader.array()?;
        let module = reader.text()?;
        let function = reader.text()?;
        let types = reader.list(|reader| read_type(reader, DEPTH))?;
        let arguments = reader.list(Reader::sized)?;
        Some(Call { address, module, function, types, arguments })
    }

    fn write(&self, writer: Writer) -> Option<Writer> {
        let writer = writer.raw(&self.address).sized(self.module.as_bytes()).sized(self.function.as_bytes());
        let mut writer = writer.length(self.types.len());
        for text in &self.types {
            writer = write_type(writer, text)?;
        }
        writer = writer.length(self.arguments.len());
        Some(self.arguments.iter().fold(writer, |writer, argument| writer.sized(argument)))
    }

    /// Returns the path of the function: `0x1::module::function`.
    pub(crate) fn path(&self) -> String {
        format!("{}::{}::{}", name(&self.address), self.module, self.function)
    }

    /// Returns the receiver and amount, if the call is a transfer of the chain's own coin.
    pub(crate) fn transfer(&self) -> Option<(Address, u64)> {
        let types: Vec<_> = self.types.iter().map(String::as_str).collect();
        let arguments: Vec<_> = self.arguments.iter().map(Vec::as_slice).collect();
        match (self.path().as_str(), types.as_slice(), arguments.as_slice()) {
            ("0x1::aptos_account::transfer", [], [to, amount])
            | ("0x1::aptos_account::transfer_coins" | "0x1::coin::transfer", [COIN], [to, amount]) => {
                Some(((*to).try_into().ok()?, u64::from_le_bytes((*amount).try_into().ok()?)))
            }
            _ => None,
        }
    }

    pub(crate) fn json(&self) -> Json {
        let arguments = match self.transfer() {
            Some((to, amount)) => vec![Json::from(name(&to)), Json::from(amount.to_string())],
            // The types of the parameters are unknown, so arguments are shown as bytes.
            None => self.arguments.iter().map(|bytes| Json::data(bytes)).collect(),
        };
        object! {
            "function": self.path(), "type_arguments": self.types.clone(),
            "arguments": Json::Array(arguments),
            "type": "entry_function_payload",
        }
    }
}

/// A signed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tx {
    pub(crate) sender: Address,
    pub(crate) sequence: u64,
    pub(crate) call: Call,
    pub(crate) max_gas: u64,
    pub(crate) price: u64,
    /// Unix time in seconds.
    pub(crate) expires: u64,
    pub(crate) chain: u8,
    pub(crate) key: [u8; 32],
    pub(crate) signature: [u8; 64],
    pub(crate) hash: [u8; 32],
    /// The encoding without the signature.
    unsigned: Vec<u8>,
}

/// Reads a JSON number or a number in a string.
fn digits(value: &serde_json::Value) -> Option<u64> {
    value.as_str().map_or_else(|| value.as_u64(), |text| text.parse().ok())
}

fn hash(signed: &[u8]) -> [u8; 32] {
    sha3(&[&sha3(b"APTOS::Transaction")[..], &[0], signed].concat())
}

impl Tx {
    /// Decodes a transaction with an Ed25519 signature.
    pub(crate) fn decode(raw: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(raw);
        let sender = reader.array()?;
        let sequence = reader.u64()?;
        // Only payloads that call an entry function are read.
        if reader.length()? != 2 {
            return None;
        }
        let call = Call::read(&mut reader)?;
        let max_gas = reader.u64()?;
        let price = reader.u64()?;
        let expires = reader.u64()?;
        let chain = reader.byte()?;
        let unsigned = raw.strip_suffix(reader.rest())?.to_vec();
        if reader.length()? != 0 {
            return None;
        }
        let key = reader.sized()?.try_into().ok()?;
        let signature = reader.sized()?.try_into().ok()?;
        let tx = Tx {
            sender,
            sequence,
            call,
            max_gas,
            price,
            expires,
            chain,
            key,
            signature,
            hash: hash(raw),
            unsigned,
        };
        reader.rest().is_empty().then_some(tx)
    }

    /// Reads a transaction in JSON and returns its bytes. Only transfers are accepted: without the module's code, the
    /// encoding of other functions' arguments is unknown.
    pub(crate) fn encode(tx: &serde_json::Value) -> Option<Vec<u8>> {
        let payload = &tx["payload"];
        if payload["type"] != "entry_function_payload" {
            return None;
        }
        let mut path = payload["function"].as_str()?.split("::");
        let address = read_address(path.next()?)?;
        let module = path.next()?;
        let function = path.next()?;
        let types = payload["type_arguments"].as_array()?.iter();
        let arguments = payload["arguments"].as_array()?;
        let [to, amount] = arguments.as_slice() else {
            return None;
        };
        let call = Call {
            address,
            module: module.into(),
            function: function.into(),
            types: types.map(|text| text.as_str().map(str::to_owned)).collect::<Option<_>>()?,
            arguments: vec![read_address(to.as_str()?)?.to_vec(), digits(amount)?.to_le_bytes().to_vec()],
        };
        call.transfer()?;
        let signature = &tx["signature"];
        let bytes = |text: &serde_json::Value| hex::decode(text.as_str()?.trim_start_matches("0x")).ok();
        let key = bytes(&signature["public_key"])?;
        let signed = bytes(&signature["signature"])?;
        if signature["type"] != "ed25519_signature" {
            return None;
        }
        let writer = Writer::default().raw(&read_address(tx["sender"].as_str()?)?);
        let writer = call.write(writer.u64(digits(&tx["sequence_number"])?).length(2))?;
        let writer = writer.u64(digits(&tx["max_gas_amount"])?).u64(digits(&tx["gas_unit_price"])?);
        // The JSON has no chain id, so it belongs to this chain.
        let writer = writer.u64(digits(&tx["expiration_timestamp_secs"])?).raw(&[CHAIN]);
        Some(writer.length(0).sized(&key).sized(&signed).done())
    }

    /// Reports whether the signature is valid for the sender's key.
    pub(crate) fn is_signed(&self) -> bool {
        let message = [&sha3(b"APTOS::RawTransaction")[..], &self.unsigned].concat();
        is_signed_ed25519(&self.key, &message, &self.signature)
    }

    /// Returns the authentication key, by which an account verifies signatures.
    pub(crate) fn authentication_key(&self) -> Address {
        sha3(&[&self.key[..], &[0]].concat())
    }

    /// Returns the members that a transaction has both before and after it is committed.
    pub(crate) fn json(&self) -> Json {
        request(
            self.sender,
            self.sequence,
            [self.max_gas, self.price, self.expires],
            &self.call,
            signature(self),
        )
    }
}

fn signature(tx: &Tx) -> Json {
    shown_signature(&tx.key, &tx.signature)
}

pub(crate) fn shown_signature(key: &[u8], signature: &[u8]) -> Json {
    object! { "public_key": Json::data(key), "signature": Json::data(signature), "type": "ed25519_signature" }
}

/// Returns the members that the sender sets; `limits` are the maximum gas, its price and the expiration.
pub(crate) fn request(
    sender: Address,
    sequence: u64,
    limits: [u64; 3],
    call: &Call,
    signature: Json,
) -> Json {
    let [max_gas, price, expires] = limits;
    object! {
        "sender": name(&sender), "sequence_number": sequence.to_string(),
        "max_gas_amount": max_gas.to_string(),
        "gas_unit_price": price.to_string(), "expiration_timestamp_secs": expires.to_string(),
        "payload": call.json(), "signature": signature, "replay_protection_nonce": Json::Null,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ring::signature::{Ed25519KeyPair, KeyPair};

    /// Signed by the official client with the key of 32 bytes 1.
    const BYTES: &str = "7df415e5b21bdaa8b2946e8f1f4278b39904e51a69627494cd3e6f2996732fbd00000000000000000200000000000000000000000000000000000000000000000000000000000000010d6170746f735f6163636f756e74087472616e73666572000220090909090909090909090909090909090909090909090909090909090909090908c409000000000000d007000000000000640000000000000000b33f71000000000100208a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c40e8c6e9c0eafd36b0fbfe332b5c7f28dc17c2b8ae01337fe2d1e1b67b657a4cc0a2c119c4bda859cb65e809ec1e0f829b6a67caa3446576bb009e53a30d210409";

    /// Returns the bytes of a transfer by developer `n`, whose key is 32 bytes `n`.
    pub(crate) fn transfer(
        n: u8,
        sequence: u64,
        to: Address,
        amount: u64,
        expires: u64,
        price: u64,
    ) -> Vec<u8> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[n; 32]).unwrap();
        let key = pair.public_key().as_ref();
        let call = Call {
            address: read_address("0x1").unwrap(),
            module: "aptos_account".into(),
            function: "transfer".into(),
            types: Vec::new(),
            arguments: vec![to.to_vec(), amount.to_le_bytes().to_vec()],
        };
        let sender = sha3(&[key, &[0]].concat());
        let writer = call.write(Writer::default().raw(&sender).u64(sequence).length(2)).unwrap();
        let unsigned = writer.u64(2_000).u64(price).u64(expires).raw(&[1]).done();
        let message = [&sha3(b"APTOS::RawTransaction")[..], &unsigned].concat();
        let signature = pair.sign(&message);
        Writer::default().raw(&unsigned).length(0).sized(key).sized(signature.as_ref()).done()
    }

    #[test]
    fn a_transaction_of_the_official_client_has_the_stated_hash() {
        let raw = hex::decode(BYTES).unwrap();
        let tx = Tx::decode(&raw).unwrap();
        let hash = "5ecfe13df5e70b42423ecefb7f56b669c790054e907e67599ade16054d1c1b17";
        assert_eq!(hex::encode(tx.hash), hash);
        assert!(tx.is_signed());
        assert_eq!(tx.authentication_key(), tx.sender);
        assert_eq!(tx.call.transfer(), Some(([9; 32], 2_500)));
        assert_eq!(transfer(1, 0, [9; 32], 2_500, 1_900_000_000, 100), raw);
    }

    #[test]
    fn the_json_of_a_transaction_has_its_bytes() {
        let raw = hex::decode(BYTES).unwrap();
        let mut out = String::new();
        Tx::decode(&raw).unwrap().json().write(&mut out);
        assert_eq!(Tx::encode(&serde_json::from_str(&out).unwrap()), Some(raw));
    }

    #[test]
    fn random_bytes_are_not_a_transaction() {
        let raw = hex::decode(BYTES).unwrap();
        assert_eq!(Tx::decode(&raw[..raw.len() - 1]), None);
        assert_eq!(Tx::decode(&[&raw[..], &[0]].concat()), None);
        assert_eq!(Tx::decode(b"rubbish"), None);
        let mut forged = raw;
        forged[33] = 1;
        assert!(!Tx::decode(&forged).unwrap().is_signed());
    }

    #[test]
    fn addresses_are_read_in_short_and_long_form() {
        assert_eq!(name(&read_address("0x1").unwrap()), "0x1");
        assert_eq!(name(&read_address("10").unwrap()).len(), 66);
        assert_eq!(read_address(&name(&[9; 32])), Some([9; 32]));
        for wrong in ["", "0x", "0xzz", &"1".repeat(65)] {
            assert_eq!(read_address(wrong), None, "{wrong}");
        }
    }
}
