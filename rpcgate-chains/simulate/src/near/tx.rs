//! Signed transactions: their Borsh encoding, their hash and their signature.

use crate::bytes::Reader;
use crate::hash::{base58, is_signed_ed25519};
use crate::json::{Json, object};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k256::ecdsa::{RecoveryId, Signature, VerifyingKey};

pub(crate) type Hash = [u8; 32];

/// A public key: 32 bytes for Ed25519, 64 for secp256k1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) Vec<u8>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Permission {
    Full,
    /// Only calls of one contract.
    Calls {
        allowance: Option<u128>,
        receiver: String,
        methods: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    CreateAccount,
    DeployContract(Vec<u8>),
    FunctionCall { method: String, args: Vec<u8>, gas: u64, deposit: u128 },
    Transfer(u128),
    Stake(u128, Key),
    AddKey(Key, u64, Permission),
    DeleteKey(Key),
    DeleteAccount(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tx {
    pub(crate) signer: String,
    pub(crate) key: Key,
    pub(crate) nonce: u64,
    pub(crate) receiver: String,
    pub(crate) block: Hash,
    pub(crate) actions: Vec<Action>,
    /// 64 bytes for Ed25519, 65 for secp256k1.
    pub(crate) signature: Vec<u8>,
    pub(crate) hash: Hash,
}

pub(crate) fn sha256(parts: &[&[u8]]) -> Hash {
    crate::hash::sha256(&parts.concat())
}

/// Reports whether a name is a valid account id.
pub(crate) fn is_account_id(name: &str) -> bool {
    let parts = || name.split(['.', '-', '_']);
    (2..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte))
        && parts().all(|part| !part.is_empty())
}

/// Reports whether a name is the hex of an Ed25519 key: an implicit account, which needs no creation.
pub(crate) fn is_implicit(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

impl Key {
    /// Writes `ed25519:` or `secp256k1:` and the key in base58.
    pub(crate) fn text(&self) -> String {
        format!("{}:{}", if self.0.len() == 32 { "ed25519" } else { "secp256k1" }, base58(&self.0))
    }

    /// Reads the text of [`Key::text`].
    pub(crate) fn parse(text: &str) -> Option<Key> {
        let (curve, body) = text.split_once(':')?;
        if body.len() > 90 {
            return None;
        }
        let bytes = bs58::decode(body).into_vec().ok()?;
        let length = match curve {
            "ed25519" => 32,
            "secp256k1" => 64,
            _ => return None,
        };
        (bytes.len() == length).then_some(Key(bytes))
    }
}

impl Reader<'_> {
    fn borsh_count(&mut self) -> Option<usize> {
        self.u32().map(|count| count as usize)
    }

    fn borsh_bytes(&mut self) -> Option<Vec<u8>> {
        let length = self.borsh_count()?;
        self.take(length).map(<[u8]>::to_vec)
    }

    fn borsh_text(&mut self) -> Option<String> {
        String::from_utf8(self.borsh_bytes()?).ok()
    }

    fn account(&mut self) -> Option<String> {
        self.borsh_text().filter(|name| is_account_id(name))
    }

    fn key(&mut self) -> Option<Key> {
        let length = match self.byte()? {
            0 => 32,
            1 => 64,
            _ => return None,
        };
        self.take(length).map(|bytes| Key(bytes.to_vec()))
    }

    fn action(&mut self) -> Option<Action> {
        Some(match self.byte()? {
            0 => Action::CreateAccount,
            1 => Action::DeployContract(self.borsh_bytes()?),
            2 => Action::FunctionCall {
                method: self.borsh_text()?,
                args: self.borsh_bytes()?,
                gas: self.u64()?,
                deposit: self.u128()?,
            },
            3 => Action::Transfer(self.u128()?),
            4 => Action::Stake(self.u128()?, self.key()?),
            5 => {
                let key = self.key()?;
                let nonce = self.u64()?;
                let permission = match self.byte()? {
                    0 => {
                        let allowance = match self.byte()? {
                            0 => None,
                            1 => Some(self.u128()?),
                            _ => return None,
                        };
                        let receiver = self.borsh_text()?;
                        let count = self.borsh_count()?;
                        let methods = (0..count).map(|_| self.borsh_text()).collect::<Option<_>>()?;
                        Permission::Calls { allowance, receiver, methods }
                    }
                    1 => Permission::Full,
                    _ => return None,
                };
                Action::AddKey(key, nonce, permission)
            }
            6 => Action::DeleteKey(self.key()?),
            7 => Action::DeleteAccount(self.account()?),
            // Delegated actions and global contracts are not simulated.
            _ => return None,
        })
    }
}

impl Tx {
    /// Decodes exactly one signed transaction; `None` for any other bytes.
    pub(crate) fn decode(raw: &[u8]) -> Option<Tx> {
        let mut reader = Reader::new(raw);
        let signer = reader.account()?;
        let key = reader.key()?;
        let nonce = reader.u64()?;
        let receiver = reader.account()?;
        let block = reader.array()?;
        let count = reader.borsh_count()?;
        let actions = (0..count).map(|_| reader.action()).collect::<Option<Vec<_>>>()?;
        let body = raw.get(..raw.len() - reader.rest().len())?;
        let length = match reader.byte()? {
            0 => 64,
            1 => 65,
            _ => return None,
        };
        let signature = reader.take(length)?.to_vec();
        let hash = sha256(&[body]);
        reader.rest().is_empty().then_some(Tx {
            signer,
            key,
            nonce,
            receiver,
            block,
            actions,
            signature,
            hash,
        })
    }

    /// Reports whether the signature matches the key that the transaction names.
    pub(crate) fn is_signed(&self) -> bool {
        match (self.key.0.len(), self.signature.as_slice()) {
            (32, signature) if signature.len() == 64 => is_signed_ed25519(&self.key.0, &self.hash, signature),
            (64, [signature @ .., parity]) => {
                let point =
                    Signature::from_slice(signature).ok().zip(RecoveryId::from_byte(*parity)).and_then(
                        |(signature, id)| VerifyingKey::recover_from_prehash(&self.hash, &signature, id).ok(),
                    );
                point.is_some_and(|point| {
                    point.to_sec1_point(false).as_bytes().get(1..) == Some(&self.key.0[..])
                })
            }
            _ => false,
        }
    }

    pub(crate) fn deposits(&self) -> u128 {
        let of = |action: &Action| match action {
            Action::Transfer(deposit) | Action::FunctionCall { deposit, .. } => *deposit,
            _ => 0,
        };
        self.actions.iter().map(of).fold(0, u128::saturating_add)
    }

    /// Returns the transaction as blocks and statuses show it.
    pub(crate) fn json(&self) -> Json {
        let curve = if self.signature.len() == 64 { "ed25519" } else { "secp256k1" };
        object! {
            "actions": self.actions.iter().map(Action::json).collect::<Vec<_>>(),
            "hash": base58(&self.hash),
            "nonce": self.nonce,
            "priority_fee": 0u64,
            "public_key": self.key.text(),
            "receiver_id": self.receiver.clone(),
            "signature": format!("{curve}:{}", base58(&self.signature)),
            "signer_id": self.signer.clone(),
        }
    }
}

impl Permission {
    pub(crate) fn json(&self) -> Json {
        match self {
            Permission::Full => "FullAccess".into(),
            Permission::Calls { allowance, receiver, methods } => object! {
                "FunctionCall": object! {
                    "allowance": allowance.map(|amount| amount.to_string()),
                    "method_names": methods.clone(),
                    "receiver_id": receiver.clone(),
                },
            },
        }
    }
}

impl Action {
    pub(crate) fn json(&self) -> Json {
        match self {
            Action::CreateAccount => "CreateAccount".into(),
            Action::DeployContract(code) => {
                object! { "DeployContract": object! { "code": STANDARD.encode(sha256(&[code])) } }
            }
            Action::FunctionCall { method, args, gas, deposit } => object! {
                "FunctionCall": object! {
                    "args": STANDARD.encode(args), "deposit": deposit.to_string(), "gas": *gas,
                    "method_name": method.clone(),
                },
            },
            Action::Transfer(deposit) => object! { "Transfer": object! { "deposit": deposit.to_string() } },
            Action::Stake(stake, key) => {
                object! { "Stake": object! { "public_key": key.text(), "stake": stake.to_string() } }
            }
            Action::AddKey(key, nonce, permission) => object! {
                "AddKey": object! {
                    "access_key": object! { "nonce": *nonce, "permission": permission.json() },
                    "public_key": key.text(),
                },
            },
            Action::DeleteKey(key) => object! { "DeleteKey": object! { "public_key": key.text() } },
            Action::DeleteAccount(heir) => {
                object! { "DeleteAccount": object! { "beneficiary_id": heir.clone() } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signed by an official client with the key whose secret is 1.
    const SIGNED: &str = "CQAAAHRlc3QubmVhcgBMtav2rXn79au8yvzCadhc0mUe1LiFtYafJBrt8KW6KQcAAAAAAAAACAAAAGJvYi5uZWFyCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkHAAAAAAMAAACh7czOG8LTAAAAAAAAAgsAAABmdF90cmFuc2ZlciUAAAB7InJlY2VpdmVyX2lkIjoiYS5uZWFyIiwiYW1vdW50IjoiNSJ9AOBX60gbAAABAAAAAAAAAAAAAAAAAAAABQBMtav2rXn79au8yvzCadhc0mUe1LiFtYafJBrt8KW6KQAAAAAAAAAAAQYATLWr9q15+/WrvMr8wmnYXNJlHtS4hbWGnyQa7fCluikBAwAAAAECAwcJAAAAdGVzdC5uZWFyAMjfpRUJvcIq21ofkEfNa02oAFfL4XWjtHSXZ582uku/ZLRLm8QGYJefV/1uhXIQviTd0lgTgfT1I1CTWfHghgg=";

    #[test]
    fn a_transaction_of_an_official_client_is_read_with_its_hash() {
        let raw = STANDARD.decode(SIGNED).expect("base64");
        let tx = Tx::decode(&raw).expect("a transaction");
        assert_eq!((tx.signer.as_str(), tx.receiver.as_str(), tx.nonce), ("test.near", "bob.near", 7));
        assert_eq!(base58(&tx.hash), "EdkTScMGbokvyzLg6YCZbECshUFfYqVDS8gDU3StVWsE");
        assert_eq!(tx.actions.len(), 7);
        assert_eq!(tx.deposits(), 10u128.pow(24) + 1);
        assert!(tx.is_signed());
        for cut in [0, 5, 60, raw.len() - 1] {
            assert_eq!(Tx::decode(&raw[..cut]), None, "{cut}");
        }
        let mut other = raw.clone();
        other[80] ^= 1;
        assert!(Tx::decode(&other).is_none_or(|tx| !tx.is_signed()));
        let longer = [raw, vec![0]].concat();
        assert_eq!(Tx::decode(&longer), None);
    }

    #[test]
    fn account_names_follow_the_rules() {
        for good in ["test.near", "a-b_c.near", "00", &"f".repeat(64)] {
            assert!(is_account_id(good), "{good}");
        }
        for wrong in ["", "a", "A.near", ".near", "a..b", "a-.b", "a b", &"f".repeat(65)] {
            assert!(!is_account_id(wrong), "{wrong}");
        }
    }
}
