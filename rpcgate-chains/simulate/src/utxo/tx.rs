//! Transactions and their encoding.

use super::coin::{Hash, Kind};
use crate::bytes::Reader;
use crate::hash::sha256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tx {
    pub(crate) version: i32,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) locktime: u32,
    /// The part after the lock time: Dash's payload of special transactions, Elements' proofs and witnesses.
    pub(crate) tail: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) txid: Hash,
    pub(crate) vout: u32,
    pub(crate) script: Vec<u8>,
    pub(crate) sequence: u32,
    pub(crate) witness: Vec<Vec<u8>>,
    /// Elements' issuance of an asset.
    pub(crate) issuance: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    /// In 10^-8 coins; 0 if it is confidential.
    pub(crate) value: u64,
    pub(crate) script: Vec<u8>,
    /// Elements' asset, value and nonce, as encoded.
    pub(crate) sealed: Option<Sealed>,
}

/// Elements' fields of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) asset: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) nonce: Vec<u8>,
}

pub(crate) fn sha256d(bytes: &[u8]) -> Hash {
    sha256(&sha256(bytes))
}

/// Returns a hash in its displayed form.
pub(crate) fn shown(hash: &Hash) -> String {
    let mut backwards = *hash;
    backwards.reverse();
    hex::encode(backwards)
}

/// Reads a hash in its displayed form.
pub(crate) fn parse_hash(text: &str) -> Option<Hash> {
    let mut out = [0; 32];
    hex::decode_to_slice(text, &mut out).ok()?;
    out.reverse();
    Some(out)
}

/// Returns the root of the tree over `hashes`; zeros for none.
pub(crate) fn merkle_root(mut hashes: Vec<Hash>) -> Hash {
    while hashes.len() > 1 {
        if hashes.len() % 2 == 1 {
            hashes.extend(hashes.last().copied());
        }
        hashes = hashes.chunks(2).map(|pair| sha256d(&[pair[0], pair[1]].concat())).collect();
    }
    hashes.first().copied().unwrap_or_default()
}

/// Writes a number in the protocol's variable form (CompactSize).
pub(crate) fn put_count(count: usize, out: &mut Vec<u8>) {
    match count {
        0..=0xfc => out.push(count as u8),
        0xfd..=0xffff => {
            out.push(0xfd);
            out.extend((count as u16).to_le_bytes());
        }
        _ => {
            out.push(0xfe);
            out.extend((count as u32).to_le_bytes());
        }
    }
}

/// Writes bytes after their length.
pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_count(bytes.len(), out);
    out.extend(bytes);
}

impl Reader<'_> {
    /// Reads a count in its shortest form, at most the number of unread bytes.
    fn count(&mut self) -> Option<usize> {
        let count = match self.take(1)?[0] {
            0xfd => Some(u64::from(u16::from_le_bytes(self.array()?))).filter(|count| *count >= 0xfd)?,
            0xfe => Some(u64::from(self.u32()?)).filter(|count| *count > 0xffff)?,
            0xff => return None,
            small => small.into(),
        };
        usize::try_from(count).ok().filter(|count| *count <= self.rest().len())
    }

    fn counted(&mut self) -> Option<Vec<u8>> {
        let count = self.count()?;
        self.take(count).map(<[u8]>::to_vec)
    }

    fn stack(&mut self) -> Option<Vec<Vec<u8>>> {
        (0..self.count()?).map(|_| self.counted()).collect()
    }

    /// Reads a field of Elements: absent, explicit or a commitment, by its first byte.
    fn sealed(&mut self, explicit: usize) -> Option<Vec<u8>> {
        let length = match self.rest().first()? {
            0 => 1,
            1 => 1 + explicit,
            2..=11 => 33,
            _ => return None,
        };
        self.take(length).map(<[u8]>::to_vec)
    }
}

impl Tx {
    /// Decodes exactly one transaction; `None` for any other bytes.
    pub(crate) fn decode(kind: Kind, raw: &[u8]) -> Option<Self> {
        let reader = &mut Reader::new(raw);
        let version = i32::from_le_bytes(reader.array()?);
        let mut witnesses = false;
        if kind == Kind::Liquid {
            witnesses = match reader.take(1)?[0] {
                0 => false,
                1 => true,
                _ => return None,
            };
        } else if kind.segwit() && reader.rest().starts_with(&[0, 1]) {
            reader.take(2)?;
            witnesses = true;
        }
        let mut inputs: Vec<Input> =
            (0..reader.count()?).map(|_| Input::read(kind, reader)).collect::<Option<_>>()?;
        let outputs: Vec<Output> =
            (0..reader.count()?).map(|_| Output::read(kind, reader)).collect::<Option<_>>()?;
        let mut tail = Vec::new();
        if witnesses && kind != Kind::Liquid {
            for input in &mut inputs {
                input.witness = reader.stack()?;
            }
            if inputs.iter().all(|input| input.witness.is_empty()) {
                return None;
            }
        }
        let locktime = reader.u32()?;
        let rest = reader.rest();
        match kind {
            Kind::Dash if version & 0xffff >= 3 && version >> 16 != 0 => tail = reader.counted()?,
            Kind::Liquid if witnesses => {
                for input in &mut inputs {
                    reader.counted()?;
                    reader.counted()?;
                    input.witness = reader.stack()?;
                    reader.stack()?;
                }
                for _ in 0..outputs.len() {
                    reader.counted()?;
                    reader.counted()?;
                }
                tail = rest.to_vec();
            }
            _ => {}
        }
        (reader.rest().is_empty() && !inputs.is_empty()).then_some(Tx {
            version,
            inputs,
            outputs,
            locktime,
            tail,
        })
    }

    /// Encodes the transaction, with or without witnesses.
    pub(crate) fn encode(&self, kind: Kind, witnesses: bool) -> Vec<u8> {
        let witnesses = witnesses && kind.segwit() && self.has_witness();
        let mut out = self.version.to_le_bytes().to_vec();
        if kind == Kind::Liquid {
            out.push(witnesses.into());
        } else if witnesses {
            out.extend([0, 1]);
        }
        put_count(self.inputs.len(), &mut out);
        for input in &self.inputs {
            out.extend(input.txid);
            out.extend(input.vout.to_le_bytes());
            put_bytes(&input.script, &mut out);
            out.extend(input.sequence.to_le_bytes());
            out.extend(&input.issuance);
        }
        put_count(self.outputs.len(), &mut out);
        for output in &self.outputs {
            match &output.sealed {
                Some(sealed) => {
                    out.extend(&sealed.asset);
                    out.extend(&sealed.value);
                    out.extend(&sealed.nonce);
                }
                None => out.extend(output.value.to_le_bytes()),
            }
            put_bytes(&output.script, &mut out);
        }
        if witnesses && kind != Kind::Liquid {
            for input in &self.inputs {
                put_count(input.witness.len(), &mut out);
                input.witness.iter().for_each(|item| put_bytes(item, &mut out));
            }
        }
        out.extend(self.locktime.to_le_bytes());
        match kind {
            Kind::Dash if !self.tail.is_empty() => put_bytes(&self.tail, &mut out),
            Kind::Liquid if witnesses => out.extend(&self.tail),
            _ => {}
        }
        out
    }

    fn has_witness(&self) -> bool {
        !self.tail.is_empty() || self.inputs.iter().any(|input| !input.witness.is_empty())
    }

    pub(crate) fn txid(&self, kind: Kind) -> Hash {
        sha256d(&self.encode(kind, false))
    }

    /// Returns the hash of its whole encoding.
    pub(crate) fn hash(&self, kind: Kind) -> Hash {
        sha256d(&self.encode(kind, true))
    }

    /// Its weight (BIP 141).
    pub(crate) fn weight(&self, kind: Kind) -> usize {
        3 * self.encode(kind, false).len() + self.encode(kind, true).len()
    }

    /// Reports whether it is a coinbase transaction.
    pub(crate) fn is_coinbase(&self) -> bool {
        matches!(&self.inputs[..], [input] if input.txid == [0; 32] && input.vout == u32::MAX)
    }
}

impl Input {
    /// Creates an input that spends an output.
    pub(crate) fn new(txid: Hash, vout: u32, script: Vec<u8>) -> Self {
        Input { txid, vout, script, sequence: u32::MAX, witness: Vec::new(), issuance: Vec::new() }
    }

    fn read(kind: Kind, reader: &mut Reader<'_>) -> Option<Self> {
        let txid = reader.array()?;
        let vout = reader.u32()?;
        let mut input = Input::new(txid, vout, reader.counted()?);
        input.sequence = reader.u32()?;
        if kind == Kind::Liquid && vout != u32::MAX && vout & (1 << 31) != 0 {
            let before = reader.rest();
            reader.take(64)?;
            reader.sealed(8)?;
            reader.sealed(8)?;
            input.issuance = before[..before.len() - reader.rest().len()].to_vec();
        }
        Some(input)
    }

    /// Returns the index of the output that it spends; Elements keeps flags in the two upper bits.
    pub(crate) fn index(&self, kind: Kind) -> u32 {
        if kind == Kind::Liquid && self.vout != u32::MAX { self.vout & 0x3fff_ffff } else { self.vout }
    }
}

impl Output {
    /// Creates an output with an explicit value; on Liquid, of bitcoin.
    pub(crate) fn new(kind: Kind, value: u64, script: Vec<u8>) -> Self {
        let sealed = (kind == Kind::Liquid).then(|| Sealed {
            asset: super::coin::LIQUID_BITCOIN.to_vec(),
            value: [&[1][..], &value.to_be_bytes()].concat(),
            nonce: vec![0],
        });
        Output { value, script, sealed }
    }

    fn read(kind: Kind, reader: &mut Reader<'_>) -> Option<Self> {
        if kind != Kind::Liquid {
            let value = u64::from_le_bytes(reader.array()?);
            return Some(Output { value, script: reader.counted()?, sealed: None });
        }
        let sealed =
            Sealed { asset: reader.sealed(32)?, value: reader.sealed(8)?, nonce: reader.sealed(32)? };
        let value = match sealed.value.split_first() {
            Some((1, bytes)) => u64::from_be_bytes(bytes.try_into().ok()?),
            _ => 0,
        };
        Some(Output { value, script: reader.counted()?, sealed: Some(sealed) })
    }
}
