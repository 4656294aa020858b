//! Addresses and the names of types.

use crate::form::is_hex;

const DIGITS: usize = 64;
/// The maximum digits of an address that a node writes in short form in type names: those of system packages.
const SHORT: usize = 4;

/// Returns an address with all its digits, in lower case.
pub(super) fn address(text: &str) -> Option<String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let is_address = (1..=DIGITS).contains(&digits.len()) && is_hex(digits, digits.len());
    is_address.then(|| format!("0x{:0>DIGITS$}", digits.to_ascii_lowercase()))
}

/// Reports whether a text can be the name of a module or of a type in Move.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns a type's name as nodes write it, with any form of its addresses: `0x2::coin::Coin<0x2::sui::SUI>`.
pub(super) fn type_name(text: &str) -> Option<String> {
    if !text.contains("::") {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(['<', '>', ',']) {
        let (name, mark) = match piece.char_indices().next_back() {
            Some((at, mark @ ('<' | '>' | ','))) => (&piece[..at], Some(mark)),
            _ => (piece, None),
        };
        // Nothing may be between two closing marks, or after the last one.
        if !name.trim().is_empty() {
            out.push_str(&single(name.trim())?);
        }
        match mark {
            Some(',') => out.push_str(", "),
            Some(mark) => out.push(mark),
            None => {}
        }
    }
    Some(out)
}

/// Returns a name without parameters: a plain type, or address, module and name.
fn single(text: &str) -> Option<String> {
    let Some((package, path)) = text.split_once("::") else {
        return is_name(text).then(|| text.to_owned());
    };
    let (module, name) = path.split_once("::")?;
    let package = address(package)?;
    let digits = package[2..].trim_start_matches('0');
    let digits = match digits.len() {
        0 => "0",
        1..=SHORT => digits,
        _ => &package[2..],
    };
    (is_name(module) && is_name(name)).then(|| format!("0x{digits}::{module}::{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_all_their_digits() {
        let two = format!("0x{:0>64}", "2");
        for form in ["0x2", "0X02", two.as_str()] {
            assert_eq!(address(form).as_deref(), Some(two.as_str()), "{form}");
        }
        assert_eq!(address("0xAB"), Some(format!("0x{:0>64}", "ab")));
        for wrong in ["", "0x", "2", "0xg", &format!("0x{}", "1".repeat(65))] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_of_types_have_one_form() {
        let long = format!("0x0{}", "b".repeat(63));
        for (text, expected) in [
            ("0x2::sui::SUI", "0x2::sui::SUI"),
            (&format!("0x{:0>64}::sui::SUI", "2"), "0x2::sui::SUI"),
            ("0x0002::coin::Coin< 0x2::sui::SUI >", "0x2::coin::Coin<0x2::sui::SUI>"),
            (
                &format!("0x{}::pool::Swap<0x2::sui::SUI,vector<u8>>", "B".repeat(63)),
                &format!("{long}::pool::Swap<0x2::sui::SUI, vector<u8>>"),
            ),
        ] {
            assert_eq!(type_name(text).as_deref(), Some(expected), "{text}");
        }
        for wrong in ["", "SUI", "0x2::sui", "2::sui::SUI", "0x2::s-ui::SUI", "0x2::sui::SUI::x", "::"] {
            assert_eq!(type_name(wrong), None, "{wrong}");
        }
    }
}
