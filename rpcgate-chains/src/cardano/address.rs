use crate::form::is_hex;
use bech32::Bech32;
use bech32::primitives::decode::CheckedHrpstring;

/// Returns an address in the form of blocks: lower-case bech32, or base58 for the Byron era.
pub(super) fn canonical(text: &str) -> Option<String> {
    match CheckedHrpstring::new::<Bech32>(text) {
        Ok(checked) => {
            let word = checked.hrp().to_lowercase();
            let mut bytes = checked.byte_iter();
            let head = bytes.next()?;
            let length = 1 + bytes.count();
            // The upper half of the first byte is the kind of the address, the lower one its network.
            let network = if word == "addr" { 1 } else { 0 };
            let is_kind = match head >> 4 {
                0..=3 => length == 57,
                // With a pointer to a registration of a stake key, in three numbers of variable length.
                4 | 5 => (32..=59).contains(&length),
                6 | 7 => length == 29,
                _ => false,
            };
            let is_address =
                matches!(word.as_str(), "addr" | "addr_test") && head & 0x0f == network && is_kind;
            is_address.then(|| text.to_ascii_lowercase())
        }
        Err(_) => is_byron(text).then(|| text.to_owned()),
    }
}

/// Reports whether a text is a Byron-era address: base58 of a CBOR list of its content (tag 24) and a CRC-32.
fn is_byron(text: &str) -> bool {
    // The longest ones have a derivation path and a network, and about 120 characters.
    if text.len() > 200 {
        return false;
    }
    let Ok(bytes) = bs58::decode(text).into_vec() else { return false };
    let rest = bytes.strip_prefix(&[0x82, 0xd8, 0x18]);
    let content = rest.and_then(|rest| match rest {
        [0x58, length, rest @ ..] => rest.split_at_checked((*length).into()),
        [head @ 0x40..=0x57, rest @ ..] => rest.split_at_checked((head - 0x40).into()),
        _ => None,
    });
    let Some((content, sum)) = content else { return false };
    let sum = match sum {
        [0x1a, sum @ ..] => sum.try_into().ok().map(u32::from_be_bytes),
        // Numbers are in their shortest form.
        [0x19, high, low] => Some(u32::from_be_bytes([0, 0, *high, *low])),
        [0x18, low] => Some(u32::from(*low)),
        [low @ ..0x18] => Some(u32::from(*low)),
        _ => None,
    };
    sum == Some(crc32(content))
}

/// CRC-32 with the polynomial of Ethernet.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

/// Returns a token in the form that blocks have: `lovelace`, or the policy's hash and, after a dot, the asset's name if
/// it has one, both in hex. `None` for any other text.
pub(super) fn token(text: &str) -> Option<String> {
    if text == "lovelace" {
        return Some(text.to_owned());
    }
    let (policy, asset) = text.split_once('.').map_or((text, None), |(policy, asset)| (policy, Some(asset)));
    let is_asset = asset.is_none_or(|asset| {
        (2..=64).contains(&asset.len()) && asset.len().is_multiple_of(2) && is_hex(asset, asset.len())
    });
    (is_hex(policy, 56) && is_asset).then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_eras_have_one_form() {
        // From CIP-19: with a payment and a stake key, with a pointer, without a stake key.
        for address in [
            "addr1qx2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzer3n0d3vllmyqwsx5wktcd8cc3sq835lu7drv2xwl2wywfgse35a3x",
            "addr1gx2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzer5pnz75xxcrzqf96k",
            "addr1vx2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzers66hrl8",
            "addr_test1vz2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzerspjrlsz",
        ] {
            assert_eq!(canonical(address).as_deref(), Some(address));
            assert_eq!(canonical(&address.to_uppercase()).as_deref(), Some(address));
            let broken = address.replace("2fxv2", "2fxv3");
            assert_eq!(canonical(&broken), None, "{broken}");
        }
        for byron in [
            "Ae2tdPwUPEZFRbyhz3cpfC2CumGzNkFBN2L42rcUc2yjQpEkxDbkPodpMAi",
            "37btjrVyb4KDXBNC4haBVPCrro8AQPHwvCMp3RFhhSVWwfFmZ6wwzSK6JK1hY6wHNmtrpTf1kdbva8TCneM2YsiXT7mrzT21EacHnPpz5YyUdj64na",
        ] {
            assert_eq!(canonical(byron).as_deref(), Some(byron));
            assert_eq!(canonical(&byron.replace('C', "D")), None);
        }
        for wrong in ["", "addr1", "stake1uyehkck0lajq8gr28t9uxnuvgcqrc6070x3k9r8048z8y5gh6ffgw", "é", "Ae2"]
        {
            assert_eq!(canonical(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tokens_have_one_form() {
        let policy = "AB".repeat(28);
        assert_eq!(token("lovelace").as_deref(), Some("lovelace"));
        assert_eq!(token(&policy), Some("ab".repeat(28)));
        assert_eq!(token(&format!("{policy}.4D")), Some(format!("{}.4d", "ab".repeat(28))));
        let long = format!("{policy}.{}", "00".repeat(33));
        for wrong in ["", "ada", "ab", &format!("{policy}."), &format!("{policy}.x"), &long] {
            assert_eq!(token(wrong), None, "{wrong}");
        }
    }
}
