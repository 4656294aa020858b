use crate::form::lower_hex;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Returns the raw form, `0:` and 64 lower-case digits, of an address in any form: raw, or user-friendly in either
/// alphabet of Base64, bounceable or not, for the main or the test network. `None` for any other text, and for a wrong
/// checksum.
pub(super) fn raw(text: &str) -> Option<String> {
    if let Some((workchain, account)) = text.split_once(':') {
        let number: i8 = workchain.parse().ok()?;
        let account = lower_hex(account, 64).filter(|_| number.to_string() == workchain)?;
        return Some(format!("{number}:{account}"));
    }
    if text.len() != 48 {
        return None;
    }
    let bytes = STANDARD.decode(text.replace('-', "+").replace('_', "/")).ok()?;
    let (body, sum) = bytes.split_at_checked(34)?;
    let tag = body.first()?;
    let workchain = body.get(1)?;
    let account = body.get(2..)?;
    let is_address = matches!(tag & 0x7f, 0x11 | 0x51) && crc16(body).to_be_bytes() == sum;
    is_address.then(|| written(workchain.cast_signed(), account))
}

/// Returns the raw form of an account in a workchain.
pub(super) fn written(workchain: i8, account: &[u8]) -> String {
    format!("{workchain}:{}", hex::encode(account))
}

/// Returns the account of an address in raw form, in Base64.
pub(super) fn account(raw: &str) -> Option<String> {
    let (_, digits) = raw.split_once(':')?;
    hex::decode(digits).ok().map(|bytes| STANDARD.encode(bytes))
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8)
            .fold(sum ^ u16::from(*byte) << 8, |sum, _| sum << 1 ^ if sum & 0x8000 != 0 { 0x1021 } else { 0 })
    })
}

/// Converts a hash in hex or in either alphabet of Base64 to TonCenter's form.
pub(super) fn hash(text: &str) -> Option<String> {
    let bytes = match text.len() {
        64 => hex::decode(text).ok()?,
        44 => STANDARD.decode(text.replace('-', "+").replace('_', "/")).ok()?,
        _ => return None,
    };
    (bytes.len() == 32).then(|| STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_an_address_are_one() {
        let form = "0:24c6ec9b69e05f95b8185b7be042f70583201055c2ed5d9c1dae978b36acd9d3";
        for text in [
            form,
            "0:24C6EC9B69E05F95B8185B7BE042F70583201055C2ED5D9C1DAE978B36ACD9D3",
            "EQAkxuybaeBflbgYW3vgQvcFgyAQVcLtXZwdrpeLNqzZ000c",
            "UQAkxuybaeBflbgYW3vgQvcFgyAQVcLtXZwdrpeLNqzZ0xDZ",
        ] {
            assert_eq!(raw(text).as_deref(), Some(form), "{text}");
        }
        let master = format!("-1:{}", "33".repeat(32));
        assert_eq!(raw(&master).as_deref(), Some(master.as_str()));
        for friendly in [
            "Ef8zMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzM0vF",
            "kf8zMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzM_BP",
        ] {
            assert_eq!(raw(friendly).as_deref(), Some(master.as_str()));
        }
        for wrong in [
            "",
            "0:12",
            "00:24c6ec9b69e05f95b8185b7be042f70583201055c2ed5d9c1dae978b36acd9d3",
            "+0:24c6ec9b69e05f95b8185b7be042f70583201055c2ed5d9c1dae978b36acd9d3",
            "128:24c6ec9b69e05f95b8185b7be042f70583201055c2ed5d9c1dae978b36acd9d3",
            "EQAkxuybaeBflbgYW3vgQvcFgyAQVcLtXZwdrpeLNqzZ000d",
            "EQAkxuybaeBflbgYW3vgQvcFgyAQVcLtXZwdrpeLNqzZ000",
            "é:24c6ec9b69e05f95b8185b7be042f70583201055c2ed5d9c1dae978b36acd9d3",
        ] {
            assert_eq!(raw(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn hashes_are_written_as_toncenter_writes_them() {
        let form = STANDARD.encode([0xfb; 32]);
        for text in [form.clone(), form.replace('+', "-").replace('/', "_"), "fb".repeat(32), "FB".repeat(32)]
        {
            assert_eq!(hash(&text).as_ref(), Some(&form), "{text}");
        }
        assert_eq!(hash("fb"), None);
        assert_eq!(account(&format!("0:{}", "fb".repeat(32))), Some(form));
    }
}
