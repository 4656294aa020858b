//! Addresses and other values of the XRP Ledger in the form of events.

use crate::form::{base58_with_checksum, checked_base58, direction, is_hex, program_name, whole_number};
use bs58::Alphabet;

/// The bytes before the account in an X-address, of the main network and of test networks.
const X_ADDRESS: [[u8; 2]; 2] = [[0x05, 0x44], [0x04, 0x93]];

/// Returns the classic address of a classic address or of an X-address, whose tag is dropped.
pub(super) fn classic(text: &str) -> Option<String> {
    let body = checked_base58(text, Alphabet::RIPPLE)?;
    let account = match body.as_slice() {
        [0, ..] if body.len() == 21 => return Some(text.to_owned()),
        [a, b, rest @ ..] if X_ADDRESS.contains(&[*a, *b]) && rest.len() == 29 => rest.get(..20)?,
        _ => return None,
    };
    let mut body = vec![0];
    body.extend_from_slice(account);
    Some(base58_with_checksum(body, Alphabet::RIPPLE))
}

/// Accepts a currency: `XRP`, an issued one as `USD.r…`, or the id of a multi-purpose token.
fn currency(text: &str) -> Option<String> {
    if text == "XRP" {
        return Some(text.to_owned());
    }
    if is_hex(text, 48) {
        return Some(text.to_ascii_uppercase());
    }
    let (code, issuer) = text.rsplit_once('.')?;
    let code = match code.len() {
        40 if is_hex(code, 40) => code.to_ascii_uppercase(),
        3 if code.bytes().all(|byte| byte.is_ascii_graphic()) => code.to_owned(),
        _ => return None,
    };
    classic(issuer).map(|issuer| format!("{code}.{issuer}"))
}

/// Reports whether a text is an amount as the ledger writes it: `15`, `0.25`, `1e-7`.
fn is_amount(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "1"));
    text.len() <= 64
        && is_number(integer)
        && (integer == "0" || !integer.starts_with('0'))
        && is_number(fraction)
        && !fraction.ends_with('0')
        && is_number(exponent.strip_prefix('-').unwrap_or(exponent))
}

pub(super) fn canonical(key: &str, value: &str) -> Option<String> {
    match key {
        "address" | "from" | "to" => classic(value),
        "tx_hash" | "block_hash" | "parent_hash" | "nftoken_id" => {
            is_hex(value, 64).then(|| value.to_ascii_uppercase())
        }
        "token" => currency(value),
        "fee" => whole_number(value),
        "value" => is_amount(value).then(|| value.to_owned()),
        "direction" => direction(value),
        "tx_type" | "result" => program_name(value),
        _ => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Shows (Events of chains).
    #[test]
    fn an_x_address_is_its_classic_address() {
        // From the tests of the official clients.
        for (classic, x) in [
            ("r9cZA1mLK5R5Am25ArfXFmqgNwjZgnfk59", "X7AcgcsBL6XDcUb289X4mJ8djcdyKaB5hJDWMArnXr61cqZ"),
            ("r9cZA1mLK5R5Am25ArfXFmqgNwjZgnfk59", "T719a5UwUCnEs54UsxG9CJYYDhwmFCqkr7wxCcNcfZ6p5GZ"),
        ] {
            assert_eq!(canonical("address", classic).as_deref(), Some(classic));
            assert_eq!(canonical("to", x).as_deref(), Some(classic), "{x}");
        }
        for wrong in [
            "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTi",
            "rhb9CJAWyB4rj91VRWn96DkukG4bwdtyTh",
            "1BgGZ9tcN4rm9KBzDn7KprQz87SZ26SAMH",
            "sn3nxiW7v8KXzPzAqzyHXbSSKNuN9",
            "",
        ] {
            assert_eq!(canonical("address", wrong), None, "{wrong}");
        }
    }

    #[test]
    fn other_values_have_one_form_too() {
        let usd = "USD.rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh";
        assert_eq!(canonical("token", usd).as_deref(), Some(usd));
        assert_eq!(canonical("token", "XRP").as_deref(), Some("XRP"));
        let long = format!("{}.rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh", "0e".repeat(20));
        assert_eq!(canonical("token", &long), Some(long.replace("0e", "0E")));
        for wrong in ["usd", "USD.", "USD.r", "US.rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh", "drops"] {
            assert_eq!(canonical("token", wrong), None, "{wrong}");
        }
        assert_eq!(canonical("tx_hash", &"ab".repeat(32)), Some("AB".repeat(32)));
        assert_eq!(canonical("tx_hash", "ab"), None);
        assert_eq!(canonical("tx_type", "OfferCreate").as_deref(), Some("OfferCreate"));
        for value in ["0", "15", "0.25", "1e-7", "1.5e-7", "1111111111111111e20"] {
            assert_eq!(canonical("value", value).as_deref(), Some(value));
        }
        for wrong in ["", ".", "-5", "+5", "05", "1.", "1.50", "1E7", "1e", "1e+7", "inf", "NaN"] {
            assert_eq!(canonical("value", wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(key in prop_oneof!["address", "token", "tx_hash", ".{0,5}"], value in prop_oneof![".{0,80}", "[1-9A-Za-z.]{0,70}"]) {
            if let Some(text) = canonical(&key, &value) {
                prop_assert_eq!(canonical(&key, &text), Some(text.clone()));
            }
        }
    }
}
