//! Addresses: a workchain and 32 bytes, in the raw and the user-friendly form.

use super::cell::{Builder, Slice};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Address {
    /// 0 for the workchain of accounts, -1 for the masterchain.
    pub(super) workchain: i8,
    pub(super) account: [u8; 32],
}

impl Address {
    /// Creates an address in the workchain of accounts.
    pub(super) fn base(account: [u8; 32]) -> Self {
        Address { workchain: 0, account }
    }

    /// Reads an address in any form.
    pub(super) fn read(text: &str) -> Option<Self> {
        if let Some((workchain, account)) = text.split_once(':') {
            let account = hex::decode(account).ok()?.try_into().ok()?;
            return Some(Address { workchain: workchain.parse().ok()?, account });
        }
        let bytes: [u8; 36] =
            STANDARD.decode(text.replace('-', "+").replace('_', "/")).ok()?.try_into().ok()?;
        if !matches!(bytes[0] & 0x7f, 0x11 | 0x51) || crc16(&bytes[..34]).to_be_bytes() != bytes[34..] {
            return None;
        }
        let mut account = [0; 32];
        account.copy_from_slice(&bytes[2..34]);
        Some(Address { workchain: bytes[1].cast_signed(), account })
    }

    /// Returns the user-friendly form, bounceable: coins that are sent to it return if there is no account.
    pub(super) fn friendly(&self) -> String {
        self.shown(0x11)
    }

    /// Returns the user-friendly form with this first byte.
    pub(super) fn shown(&self, tag: u8) -> String {
        let mut bytes = vec![tag, self.workchain.cast_unsigned()];
        bytes.extend_from_slice(&self.account);
        bytes.extend_from_slice(&crc16(&bytes).to_be_bytes());
        URL_SAFE.encode(bytes)
    }

    pub(super) fn raw(&self) -> String {
        format!("{}:{}", self.workchain, hex::encode(self.account))
    }

    /// Writes the address into a cell.
    pub(super) fn write(&self, to: Builder) -> Builder {
        let workchain = u64::from(self.workchain.cast_unsigned());
        to.number(0b100, 3).number(workchain, 8).bytes(&self.account)
    }

    /// Reads an address from a cell; `Some(None)` means no address.
    pub(super) fn load(from: &mut Slice<'_>) -> Option<Option<Self>> {
        match from.number(2)? {
            0 => Some(None),
            2 => {
                if from.bit()? {
                    return None;
                }
                let workchain = (from.number(8)? as u8).cast_signed();
                Some(Some(Address { workchain, account: from.bytes(32)?.try_into().ok()? }))
            }
            _ => None,
        }
    }
}

/// Returns the CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8)
            .fold(sum ^ u16::from(*byte) << 8, |sum, _| sum << 1 ^ if sum & 0x8000 != 0 { 0x1021 } else { 0 })
    })
}

/// Writes Base64 as TonCenter does.
pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes Base64.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_an_address_are_read_as_the_same_address() {
        let address = Address::read("EQAkxuybaeBflbgYW3vgQvcFgyAQVcLtXZwdrpeLNqzZ000c").expect("an address");
        assert_eq!(address.raw(), "0:24c6ec9b69e05f95b8185b7be042f70583201055c2ed5d9c1dae978b36acd9d3");
        assert_eq!(address.friendly(), "EQAkxuybaeBflbgYW3vgQvcFgyAQVcLtXZwdrpeLNqzZ000c");
        assert_eq!(Address::read(&address.raw()), Some(address));
        assert_eq!(Address::read(&address.shown(0x51)), Some(address));
        for wrong in ["zzz", "0:12", "EQAkxuybaeBflbgYW3vgQvcFgyAQVcLtXZwdrpeLNqzZ000d", ""] {
            assert_eq!(Address::read(wrong), None, "{wrong}");
        }
    }
}
