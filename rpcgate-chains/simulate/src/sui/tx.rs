//! Transactions: their BCS encoding, their digest, their signers and their JSON.

use crate::bytes::Reader;
use crate::hash::{base58, is_signed_ed25519, sha256};
use crate::json::{Json, object};
use blake2::Blake2b;
use blake2::digest::{Digest, consts::U32};
use k256::ecdsa::signature::hazmat::PrehashVerifier;

/// An address, the id of an object, or a digest.
pub(crate) type Id = [u8; 32];

/// The longest transaction that is read, in bytes; the protocol's limit.
pub(crate) const LONGEST: usize = 128 << 10;
/// The deepest nesting of a type.
const DEPTH: usize = 16;
/// The module and the function that residents call.
pub(crate) const RECORD: [&str; 2] = ["receipt", "record"];

/// An object at a version, with the digest of its content.
pub(crate) type Reference = (Id, u64, Id);

/// An input of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    Pure(Vec<u8>),
    Owned(Reference),
    Shared { id: Id, version: u64, mutable: bool },
    Receiving(Reference),
}

/// An argument of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Argument {
    Gas,
    Input(u16),
    Result(u16),
    Nested(u16, u16),
}

/// One command of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    MoveCall { package: Id, module: String, function: String, types: Vec<String>, arguments: Vec<Argument> },
    Transfer(Vec<Argument>, Argument),
    Split(Argument, Vec<Argument>),
    Merge(Argument, Vec<Argument>),
    Publish(Vec<Id>),
    Vector(Option<String>, Vec<Argument>),
    Upgrade(Vec<Id>, Id, Argument),
}

/// The inputs and commands of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) inputs: Vec<Input>,
    pub(crate) commands: Vec<Command>,
}

/// A transaction without its signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tx {
    pub(crate) program: Program,
    pub(crate) sender: Id,
    pub(crate) payment: Vec<Reference>,
    pub(crate) owner: Id,
    pub(crate) price: u64,
    pub(crate) budget: u64,
    /// The last epoch in which it may run.
    pub(crate) expires: Option<u64>,
}

pub(crate) fn blake(parts: &[&[u8]]) -> Id {
    let mut hash = Blake2b::<U32>::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

/// Returns an address or an id in hex.
pub(crate) fn hex_id(id: &Id) -> String {
    format!("0x{}", hex::encode(id))
}

/// Reads an address or an id of up to 64 hex digits.
pub(crate) fn parse_id(text: &str) -> Option<Id> {
    let digits = text.strip_prefix("0x").filter(|digits| (1..=64).contains(&digits.len()))?;
    hex::decode(format!("{digits:0>64}")).ok()?.try_into().ok()
}

impl Reader<'_> {
    fn reference(&mut self) -> Option<Reference> {
        Some((self.array()?, self.u64()?, self.sized()?.try_into().ok()?))
    }

    fn input(&mut self) -> Option<Input> {
        Some(match (self.byte()?, self.rest().first()) {
            (0, _) => Input::Pure(self.sized()?),
            (1, Some(0)) => {
                self.byte()?;
                Input::Owned(self.reference()?)
            }
            (1, Some(1)) => {
                self.byte()?;
                let id = self.array()?;
                let version = self.u64()?;
                Input::Shared { id, version, mutable: self.flag()? }
            }
            (1, Some(2)) => {
                self.byte()?;
                Input::Receiving(self.reference()?)
            }
            _ => return None,
        })
    }

    fn argument(&mut self) -> Option<Argument> {
        Some(match self.byte()? {
            0 => Argument::Gas,
            1 => Argument::Input(self.u16()?),
            2 => Argument::Result(self.u16()?),
            3 => Argument::Nested(self.u16()?, self.u16()?),
            _ => return None,
        })
    }

    fn type_tag(&mut self, depth: usize) -> Option<String> {
        const PLAIN: [(u8, &str); 9] = [
            (0, "bool"),
            (1, "u8"),
            (2, "u64"),
            (3, "u128"),
            (4, "address"),
            (5, "signer"),
            (8, "u16"),
            (9, "u32"),
            (10, "u256"),
        ];
        if depth > DEPTH {
            return None;
        }
        match self.byte()? {
            6 => Some(format!("vector<{}>", self.type_tag(depth + 1)?)),
            7 => {
                let package: Id = self.array()?;
                let module = self.text()?;
                let name = self.text()?;
                let inner = self.list(|reader| reader.type_tag(depth + 1))?;
                let digits = hex::encode(package);
                let digits = digits.trim_start_matches('0');
                let inner = if inner.is_empty() { String::new() } else { format!("<{}>", inner.join(", ")) };
                Some(format!("0x{}::{module}::{name}{inner}", if digits.is_empty() { "0" } else { digits }))
            }
            plain => PLAIN.iter().find(|(code, _)| *code == plain).map(|(_, name)| (*name).to_owned()),
        }
    }

    fn command(&mut self) -> Option<Command> {
        Some(match self.byte()? {
            0 => Command::MoveCall {
                package: self.array()?,
                module: self.text()?,
                function: self.text()?,
                types: self.list(|reader| reader.type_tag(0))?,
                arguments: self.list(Reader::argument)?,
            },
            1 => Command::Transfer(self.list(Reader::argument)?, self.argument()?),
            2 => Command::Split(self.argument()?, self.list(Reader::argument)?),
            3 => Command::Merge(self.argument()?, self.list(Reader::argument)?),
            4 => {
                self.list(Reader::sized)?;
                Command::Publish(self.list(Reader::array)?)
            }
            5 => {
                let element = if self.flag()? { Some(self.type_tag(0)?) } else { None };
                Command::Vector(element, self.list(Reader::argument)?)
            }
            6 => {
                self.list(Reader::sized)?;
                Command::Upgrade(self.list(Reader::array)?, self.array()?, self.argument()?)
            }
            _ => return None,
        })
    }

    fn program(&mut self) -> Option<Program> {
        if self.byte()? != 0 {
            // Only validators create transactions of other kinds.
            return None;
        }
        Some(Program { inputs: self.list(Reader::input)?, commands: self.list(Reader::command)? })
    }
}

impl Program {
    /// Decodes a whole program, as an inspection sends it without a sender.
    pub(crate) fn decode(raw: &[u8]) -> Option<Program> {
        let mut reader = Reader::new(raw);
        let program = reader.program()?;
        reader.rest().is_empty().then_some(program)
    }
}

impl Tx {
    /// Decodes a whole transaction.
    pub(crate) fn decode(raw: &[u8]) -> Option<Tx> {
        let mut reader = Reader::new(raw);
        if raw.len() > LONGEST || reader.byte()? != 0 {
            return None;
        }
        let program = reader.program()?;
        let sender = reader.array()?;
        let payment = reader.list(Reader::reference)?;
        let owner = reader.array()?;
        let price = reader.u64()?;
        let budget = reader.u64()?;
        let expires = if reader.flag()? { Some(reader.u64()?) } else { None };
        reader.rest().is_empty().then_some(Tx { program, sender, payment, owner, price, budget, expires })
    }

    /// Returns the bytes of a transaction that transfers one object. With a `recorder`, it first passes the object to
    /// the function `record` of that package.
    pub(crate) fn handing_over(
        object: Reference,
        (from, to): (&Id, &Id),
        coin: Reference,
        price: u64,
        budget: u64,
        recorder: Option<&Id>,
    ) -> Vec<u8> {
        let reference = |(id, version, digest): &Reference| {
            [&id[..], &version.to_le_bytes(), &[32], &digest[..]].concat()
        };
        let mut out = vec![0, 0, 2, 1, 0];
        out.extend(reference(&object));
        out.extend([0, 32]);
        out.extend_from_slice(to);
        out.push(1 + u8::from(recorder.is_some()));
        if let Some(package) = recorder {
            // A call with no types and the two inputs.
            out.push(0);
            out.extend_from_slice(package);
            for name in RECORD {
                out.push(name.len() as u8);
                out.extend_from_slice(name.as_bytes());
            }
            out.extend([0, 2, 1, 0, 0, 1, 1, 0]);
        }
        // Transfer a list of one, the first input, to the second input.
        out.extend([1, 1, 1, 0, 0, 1, 1, 0]);
        out.extend_from_slice(from);
        out.push(1);
        out.extend(reference(&coin));
        out.extend_from_slice(from);
        out.extend_from_slice(&price.to_le_bytes());
        out.extend_from_slice(&budget.to_le_bytes());
        out.push(0);
        out
    }

    pub(crate) fn json(&self) -> Json {
        object! {
            "messageVersion": "v1",
            "transaction": self.program.json(),
            "sender": hex_id(&self.sender),
            "gasData": object! {
                "payment": self.payment.iter().map(reference_json).collect::<Vec<_>>(),
                "owner": hex_id(&self.owner),
                "price": self.price.to_string(),
                "budget": self.budget.to_string(),
            },
        }
    }
}

pub(crate) fn digest(raw: &[u8]) -> Id {
    blake(&[b"TransactionData::", raw])
}

/// Splits a submission into transaction and signatures, as a node stores them: each after its length.
pub(crate) fn unpack(kept: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = kept;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let (length, more) = rest.split_first_chunk::<4>()?;
        let (part, more) = more.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        out.push(part.to_vec());
        rest = more;
    }
    Some(out)
}

/// Recovers the signer of a transaction's bytes; `None` if the signature is invalid or its scheme unknown.
pub(crate) fn signer(raw: &[u8], signature: &[u8]) -> Option<Id> {
    // The intent: a transaction, version 0, of Sui.
    let message = blake(&[&[0, 0, 0], raw]);
    let (scheme, rest) = signature.split_first()?;
    let (signature, key) = rest.split_at_checked(64)?;
    match (scheme, key.len()) {
        (0, 32) => {
            if !is_signed_ed25519(key, &message, signature) {
                return None;
            }
        }
        (1, 33) => {
            let point = k256::ecdsa::VerifyingKey::from_sec1_bytes(key).ok()?;
            let signature = k256::ecdsa::Signature::from_slice(signature).ok()?;
            point.verify_prehash(&sha256(&message), &signature).ok()?;
        }
        _ => return None,
    }
    Some(blake(&[&[*scheme], key]))
}

/// Returns an object's id, version and digest.
pub(crate) fn reference_json((id, version, digest): &Reference) -> Json {
    object! { "objectId": hex_id(id), "version": *version, "digest": base58(digest) }
}

impl Program {
    /// Returns the typed value of a pure input, derived from the commands that use it.
    fn pure(&self, index: usize, bytes: &[u8]) -> Json {
        let own = |argument: &Argument| *argument == Argument::Input(index as u16);
        let raw = || bytes.iter().map(|byte| Json::from(*byte)).collect::<Vec<_>>();
        for command in &self.commands {
            match command {
                Command::Split(_, amounts) if amounts.iter().any(own) => {
                    if let Ok(bytes) = bytes.try_into() {
                        let value = u64::from_le_bytes(bytes).to_string();
                        return object! { "type": "pure", "valueType": "u64", "value": value };
                    }
                }
                Command::Transfer(_, to) if own(to) => {
                    if let Ok(bytes) = bytes.try_into() {
                        return object! { "type": "pure", "valueType": "address", "value": hex_id(bytes) };
                    }
                }
                _ => {}
            }
        }
        object! { "type": "pure", "valueType": Json::Null, "value": raw() }
    }

    fn json(&self) -> Json {
        let object_input = |kind: &'static str, (id, version, digest): &Reference| {
            object! {
                "type": "object", "objectType": kind, "objectId": hex_id(id),
                "version": version.to_string(), "digest": base58(digest),
            }
        };
        let inputs: Vec<Json> = self
            .inputs
            .iter()
            .enumerate()
            .map(|(index, input)| match input {
                Input::Pure(bytes) => self.pure(index, bytes),
                Input::Owned(reference) => object_input("immOrOwnedObject", reference),
                Input::Receiving(reference) => object_input("receiving", reference),
                Input::Shared { id, version, mutable } => object! {
                    "type": "object", "objectType": "sharedObject", "objectId": hex_id(id),
                    "initialSharedVersion": version.to_string(), "mutable": *mutable,
                },
            })
            .collect();
        let commands: Vec<Json> = self.commands.iter().map(Command::json).collect();
        object! { "kind": "ProgrammableTransaction", "inputs": inputs, "transactions": commands }
    }
}

impl Argument {
    fn json(&self) -> Json {
        match self {
            Argument::Gas => "GasCoin".into(),
            Argument::Input(index) => object! { "Input": u32::from(*index) },
            Argument::Result(index) => object! { "Result": u32::from(*index) },
            Argument::Nested(index, part) => {
                object! { "NestedResult": vec![u32::from(*index), u32::from(*part)] }
            }
        }
    }
}

impl Command {
    fn json(&self) -> Json {
        let list = |arguments: &[Argument]| Json::Array(arguments.iter().map(Argument::json).collect());
        let ids = |ids: &[Id]| Json::Array(ids.iter().map(|id| hex_id(id).into()).collect());
        match self {
            Command::MoveCall { package, module, function, types, arguments } => {
                let mut call = object! {
                    "package": hex_id(package), "module": module.clone(), "function": function.clone(),
                };
                if !types.is_empty() {
                    call.put("type_arguments", types.clone());
                }
                if !arguments.is_empty() {
                    call.put("arguments", list(arguments));
                }
                object! { "MoveCall": call }
            }
            Command::Transfer(objects, to) => object! { "TransferObjects": vec![list(objects), to.json()] },
            Command::Split(coin, amounts) => object! { "SplitCoins": vec![coin.json(), list(amounts)] },
            Command::Merge(coin, coins) => object! { "MergeCoins": vec![coin.json(), list(coins)] },
            Command::Publish(dependencies) => object! { "Publish": ids(dependencies) },
            Command::Vector(element, items) => {
                object! { "MakeMoveVec": vec![Json::from(element.clone()), list(items)] }
            }
            Command::Upgrade(dependencies, package, ticket) => object! {
                "Upgrade": vec![ids(dependencies), hex_id(package).into(), ticket.json()],
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    /// Built and signed by an official client with the Ed25519 key whose secret is 1.
    const BUILT: &str = "AAADAAjoAwAAAAAAAAAI0AcAAAAAAAAAIKurq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urAwIAAgEAAAEBAAECAwAAAAADAAABAAECAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgRjb2luBXZhbHVlAgcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgNzdWkDU1VJAAYBAQDQwske2jS7+67Gz7nHu5E+V9qzy+xAGKSz9eVVMc1jrwEREREREREREREREREREREREREREREREREREREREREREQcAAAAAAAAAIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB0MLJHto0u/uuxs+5x7uRPlfas8vsQBiks/XlVTHNY6/oAwAAAAAAAEBLTAAAAAAAAA==";
    const SIGNATURE: &str = "AHnqJV56++Ysv1x9vZ6aAvRs78PDOahg/0rYtNUz47na3sc8E4FznvOVDzcrJT3DY1VRBtnsDhRmUAT0zsYXXAxMtav2rXn79au8yvzCadhc0mUe1LiFtYafJBrt8KW6KQ==";

    #[test]
    fn a_transaction_of_an_official_client_is_read_with_its_digest_and_signer() {
        let raw = STANDARD.decode(BUILT).expect("base64");
        let tx = Tx::decode(&raw).expect("a transaction");
        assert_eq!(base58(&digest(&raw)), "HfkLqKTGfbwcDUeuGZG2wnL3BxLGjcAPSLyTvnaa7CWR");
        let signature = STANDARD.decode(SIGNATURE).expect("base64");
        assert_eq!(signer(&raw, &signature), Some(tx.sender));
        assert_eq!(hex_id(&tx.sender), "0xd0c2c91eda34bbfbaec6cfb9c7bb913e57dab3cbec4018a4b3f5e55531cd63af");
        assert_eq!(signer(&raw[1..], &signature), None);
        let Command::MoveCall { types, .. } = &tx.program.commands[2] else { panic!() };
        assert_eq!(types, &["0x2::sui::SUI", "vector<u8>"]);
        assert_eq!((tx.price, tx.budget, tx.expires), (1_000, 5_000_000, None));
        for cut in [0, 1, 40, raw.len() - 1] {
            assert_eq!(Tx::decode(&raw[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn written_values_are_read_back() {
        let object = ([1; 32], 5, [2; 32]);
        let coin = ([3; 32], 6, [4; 32]);
        let transfer = Command::Transfer(vec![Argument::Input(0)], Argument::Input(1));
        let call = Command::MoveCall {
            package: [5; 32],
            module: "receipt".into(),
            function: "record".into(),
            types: Vec::new(),
            arguments: vec![Argument::Input(0), Argument::Input(1)],
        };
        for (recorder, commands) in [(None, vec![transfer.clone()]), (Some([5; 32]), vec![call, transfer])] {
            let raw = Tx::handing_over(object, (&[8; 32], &[7; 32]), coin, 750, 9, recorder.as_ref());
            let tx = Tx::decode(&raw).expect("a transaction");
            assert_eq!(tx.program.inputs, [Input::Owned(object), Input::Pure(vec![7; 32])]);
            assert_eq!(tx.program.commands, commands);
            assert_eq!((tx.sender, tx.payment, tx.budget), ([8; 32], vec![coin], 9));
        }
    }
}
