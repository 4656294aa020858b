//! Signed transactions: their encoding, their hash and their signer.

use super::network::{Address, Word};
use crate::envelope::Fault;
use crate::json::{Json, object};
use alloy_rlp::{Decodable, Encodable, Header};
use k256::ecdsa::{RecoveryId, Signature, VerifyingKey};
use sha3::{Digest, Keccak256};

/// A transaction of type 0 (legacy), 1 (EIP-2930) or 2 (EIP-1559).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tx {
    pub(crate) kind: u8,
    /// `None` for a legacy transaction that is not bound to a chain (before EIP-155).
    pub(crate) chain_id: Option<u64>,
    pub(crate) nonce: u64,
    /// The maximum price per gas: the gas price of types 0 and 1.
    pub(crate) max_fee: u128,
    /// The maximum share of it for the block's producer: the gas price of types 0 and 1.
    pub(crate) tip: u128,
    pub(crate) gas: u64,
    /// `None` creates a contract.
    pub(crate) to: Option<Address>,
    pub(crate) value: u128,
    pub(crate) input: Vec<u8>,
    pub(crate) access_list: Vec<(Address, Vec<Word>)>,
    /// As encoded: 0 or 1 for typed transactions.
    pub(crate) v: u64,
    pub(crate) r: Word,
    pub(crate) s: Word,
    pub(crate) hash: Word,
    pub(crate) size: usize,
}

/// Half the order of secp256k1; EIP-2 refuses an `s` above it.
const HALF_ORDER: Word = [
    0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x5d,
    0x57, 0x6e, 0x73, 0x57, 0xa4, 0x50, 0x1d, 0xdf, 0xe9, 0x2f, 0x46, 0x68, 0x1b, 0x20, 0xa0,
];

pub(crate) fn keccak(bytes: &[u8]) -> Word {
    Keccak256::digest(bytes).into()
}

fn rlp(error: alloy_rlp::Error) -> Fault {
    Fault::new(-32000, format!("rlp: {error}"))
}

/// Reads a number of up to 256 bits. A number beyond 128 bits is more than any account has, so it becomes the maximum.
fn amount(buf: &mut &[u8]) -> alloy_rlp::Result<u128> {
    let bytes = word(buf)?;
    let (high, low) = bytes.split_at(16);
    let mut fit = [0; 16];
    fit.copy_from_slice(low);
    Ok(if high.iter().all(|b| *b == 0) { u128::from_be_bytes(fit) } else { u128::MAX })
}

/// Reads a number of up to 256 bits as 32 bytes.
fn word(buf: &mut &[u8]) -> alloy_rlp::Result<Word> {
    let bytes = Header::decode_bytes(buf, false)?;
    if bytes.len() > 32 {
        return Err(alloy_rlp::Error::Overflow);
    }
    if bytes.first() == Some(&0) {
        return Err(alloy_rlp::Error::LeadingZero);
    }
    let mut out = [0; 32];
    out[32 - bytes.len()..].copy_from_slice(bytes);
    Ok(out)
}

fn recipient(buf: &mut &[u8]) -> alloy_rlp::Result<Option<Address>> {
    let bytes = Header::decode_bytes(buf, false)?;
    match bytes.len() {
        0 => Ok(None),
        20 => Ok(bytes.try_into().ok()),
        _ => Err(alloy_rlp::Error::UnexpectedLength),
    }
}

fn access_list(buf: &mut &[u8]) -> alloy_rlp::Result<Vec<(Address, Vec<Word>)>> {
    let mut entries = Header::decode_bytes(buf, true)?;
    let mut out = Vec::new();
    while !entries.is_empty() {
        let mut entry = Header::decode_bytes(&mut entries, true)?;
        let address = recipient(&mut entry)?.ok_or(alloy_rlp::Error::UnexpectedLength)?;
        let mut keys = Header::decode_bytes(&mut entry, true)?;
        let mut words = Vec::new();
        while !keys.is_empty() {
            let key = Header::decode_bytes(&mut keys, false)?;
            words.push(key.try_into().map_err(|_| alloy_rlp::Error::UnexpectedLength)?);
        }
        if !entry.is_empty() {
            return Err(alloy_rlp::Error::UnexpectedLength);
        }
        out.push((address, words));
    }
    Ok(out)
}

impl Tx {
    /// Decodes a signed transaction and recovers its sender. Refuses with go-ethereum's messages.
    pub(crate) fn decode(raw: &[u8]) -> Result<(Self, Address), Fault> {
        let kind = match raw.first() {
            None => return Err(Fault::new(-32000, "typed transaction too short")),
            Some(0xc0..) => 0,
            Some(kind @ (1 | 2)) if raw.len() > 1 => *kind,
            Some(1 | 2) => return Err(Fault::new(-32000, "typed transaction too short")),
            Some(_) => return Err(Fault::new(-32000, "transaction type not supported")),
        };
        let mut rest = if kind == 0 { raw } else { &raw[1..] };
        let fields = Header::decode_bytes(&mut rest, true).map_err(rlp)?;
        if !rest.is_empty() {
            return Err(rlp(alloy_rlp::Error::UnexpectedLength));
        }
        let (tx, signed) = Tx::fields(kind, fields, raw).map_err(rlp)?;
        let from = tx.sender(&signed)?;
        Ok((tx, from))
    }

    /// Reads the list's payload; returns the transaction and the bytes whose hash was signed.
    fn fields(kind: u8, fields: &[u8], raw: &[u8]) -> alloy_rlp::Result<(Self, Vec<u8>)> {
        let buf = &mut &*fields;
        let mut chain_id = if kind == 0 { None } else { Some(u64::decode(buf)?) };
        let nonce = u64::decode(buf)?;
        let tip = amount(buf)?;
        let max_fee = if kind == 2 { amount(buf)? } else { tip };
        let gas = u64::decode(buf)?;
        let to = recipient(buf)?;
        let value = amount(buf)?;
        let input = Header::decode_bytes(buf, false)?.to_vec();
        let access_list = if kind == 0 { Vec::new() } else { access_list(buf)? };
        let mut body = fields[..fields.len() - buf.len()].to_vec();
        let v = u64::decode(buf)?;
        let r = word(buf)?;
        let s = word(buf)?;
        if !buf.is_empty() {
            return Err(alloy_rlp::Error::UnexpectedLength);
        }
        if kind == 0 && v >= 35 {
            let id = (v - 35) / 2;
            chain_id = Some(id);
            id.encode(&mut body);
            body.extend([0x80, 0x80]);
        }
        let mut signed = if kind == 0 { Vec::new() } else { vec![kind] };
        Header { list: true, payload_length: body.len() }.encode(&mut signed);
        signed.extend(body);
        let hash = keccak(raw);
        let size = raw.len();
        let tx = Tx {
            kind,
            chain_id,
            nonce,
            max_fee,
            tip,
            gas,
            to,
            value,
            input,
            access_list,
            v,
            r,
            s,
            hash,
            size,
        };
        Ok((tx, signed))
    }

    /// Returns the address whose key signed `signed`.
    fn sender(&self, signed: &[u8]) -> Result<Address, Fault> {
        let invalid = || Fault::new(-32000, "invalid sender: invalid transaction v, r, s values");
        let parity = self.parity().ok_or_else(invalid)?;
        if self.s > HALF_ORDER {
            return Err(invalid());
        }
        let signature = Signature::from_scalars(self.r, self.s).map_err(|_| invalid())?;
        let id = RecoveryId::new(parity == 1, false);
        let key =
            VerifyingKey::recover_from_prehash(&keccak(signed), &signature, id).map_err(|_| invalid())?;
        let point = key.to_sec1_point(false);
        let hash = keccak(&point.as_bytes()[1..]);
        let mut address = [0; 20];
        address.copy_from_slice(&hash[12..]);
        Ok(address)
    }

    /// Returns the recovery id: 0 or 1.
    fn parity(&self) -> Option<u8> {
        match (self.kind, self.v) {
            (0, 27 | 28) => Some((self.v - 27) as u8),
            (0, 35..) => Some(((self.v - 35) % 2) as u8),
            (1 | 2, 0 | 1) => Some(self.v as u8),
            _ => None,
        }
    }

    /// Returns the gas that is due before any code runs (the yellow paper's intrinsic gas with EIP-2028, 2930 and
    /// 3860).
    pub(crate) fn intrinsic_gas(&self) -> u64 {
        intrinsic_gas(self.to.is_none(), &self.input, &self.access_list)
    }

    pub(crate) fn price(&self, base_fee: u128) -> u128 {
        self.max_fee.min(base_fee.saturating_add(self.tip))
    }

    /// Returns the maximum cost for the sender.
    pub(crate) fn cost(&self) -> u128 {
        self.max_fee.saturating_mul(u128::from(self.gas)).saturating_add(self.value)
    }

    /// Returns the members that do not depend on a block.
    pub(crate) fn json(&self, from: &Address) -> Json {
        let mut out = object! {
            "type": Json::quantity(self.kind),
            "nonce": Json::quantity(self.nonce),
            "gas": Json::quantity(self.gas),
            "to": self.to.as_ref().map(|to| Json::data(to)),
            "value": Json::quantity(self.value),
            "input": Json::data(&self.input),
            "r": Json::quantity_of(&self.r),
            "s": Json::quantity_of(&self.s),
            "v": Json::quantity(self.v),
            "hash": Json::data(&self.hash),
            "from": Json::data(from),
        };
        if let Some(id) = self.chain_id {
            out.put("chainId", Json::quantity(id));
        }
        if self.kind != 0 {
            out.put("yParity", Json::quantity(self.v));
            let list: Vec<Json> = self.access_list.iter().map(access_entry).collect();
            out.put("accessList", list);
        }
        if self.kind == 2 {
            out.put("maxFeePerGas", Json::quantity(self.max_fee));
            out.put("maxPriorityFeePerGas", Json::quantity(self.tip));
        }
        out
    }
}

fn access_entry((address, keys): &(Address, Vec<Word>)) -> Json {
    let keys: Vec<Json> = keys.iter().map(|key| Json::data(key)).collect();
    object! { "address": Json::data(address), "storageKeys": keys }
}

pub(crate) fn intrinsic_gas(create: bool, input: &[u8], access_list: &[(Address, Vec<Word>)]) -> u64 {
    let data: u64 = input.iter().map(|byte| if *byte == 0 { 4 } else { 16 }).sum();
    let creation = if create { 32_000 + 2 * (input.len() as u64).div_ceil(32) } else { 0 };
    let list: u64 = access_list.iter().map(|(_, keys)| 2_400 + 1_900 * keys.len() as u64).sum();
    21_000 + data + creation + list
}
