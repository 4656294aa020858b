//! Mail addresses.

use lettre::Address as Mailable;
use std::fmt;

/// The longest address that SMTP supports (RFC 5321, 4.5.3.1.3).
const MAX_ADDRESS: usize = 254;

/// A mail address: ASCII, lower case, with a domain that is a name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub(super) Mailable);

impl Address {
    /// Returns the address as text.
    pub fn as_str(&self) -> &str {
        self.0.as_ref()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is not a mail address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadAddress {
    /// It is longer than an address can be.
    #[error("the e-mail address must have at most {MAX_ADDRESS} characters")]
    Long,
    /// It does not have the form of an address, or has an unsupported one: quoted, non-ASCII, or with an IP address.
    #[error("the e-mail address must be of the form name@example.com")]
    Form,
}

/// Parses a mail address and converts it to lower case, so that each account has one spelling.
///
/// ```
/// use rpcgate_management::mail::address;
///
/// assert_eq!(address("Ada@Example.COM")?.as_str(), "ada@example.com");
/// assert!(address("ada@example.com\r\nBcc: all@example.com").is_err());
/// # Ok::<(), rpcgate_management::mail::BadAddress>(())
/// ```
///
/// # Errors
/// [`BadAddress`] says what is wrong.
pub fn address(text: &str) -> Result<Address, BadAddress> {
    if text.len() > MAX_ADDRESS {
        return Err(BadAddress::Long);
    }
    let plain = |c: char| {
        c.is_ascii_graphic() && !matches!(c, '"' | '(' | ')' | '<' | '>' | '[' | ']' | '\\' | ',' | ';' | ':')
    };
    if !text.chars().all(plain) {
        return Err(BadAddress::Form);
    }
    let address: Mailable = text.to_ascii_lowercase().parse().map_err(|_| BadAddress::Form)?;
    // Some programs read 127.1 as an IP address, and no host name ends in a number.
    let last = address.domain().rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BadAddress::Form);
    }
    Ok(Address(address))
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_form() {
        let long = format!("{}@{}.example.com", "a".repeat(64), ["b".repeat(60), "c".repeat(60)].join("."));
        for (text, form) in [
            ("ada@example.com", "ada@example.com"),
            ("Ada.King+Test@EXAMPLE.com", "ada.king+test@example.com"),
            ("o'brien@example.com", "o'brien@example.com"),
            ("a@xn--bcher-kva.example", "a@xn--bcher-kva.example"),
            (&long, &long),
        ] {
            assert_eq!(address(text).unwrap().as_str(), form);
        }
        for text in [
            "",
            "ada",
            "@example.com",
            "ada@",
            "ada@@example.com",
            "ada@example..com",
            "ada@-example.com",
            "ada@example.com.",
            " ada@example.com",
            "ada@example.com ",
            "ada@example.com\r\nBcc: all@example.com",
            "ada@example.com\nX: y",
            "ada\r\n@example.com",
            "ada@example.com\0",
            "ada@exa\u{2028}mple.com",
            "Ada <ada@example.com>",
            "<ada@example.com>",
            "ada@example.com,bob@example.com",
            "ada@example.com;bob@example.com",
            "\"ada\r\nRCPT TO:<x@y>\"@example.com",
            "\"ada king\"@example.com",
            "ada(comment)@example.com",
            "ada@[127.0.0.1]",
            "ada@127.0.0.1",
            "ada@127.1",
            "ada@[IPv6:::1]",
            "ada@::1",
            "ädä@example.com",
            // The Kelvin sign, which lower case turns into a plain k.
            "\u{212a}ate@example.com",
        ] {
            assert_eq!(address(text), Err(BadAddress::Form), "{text:?}");
        }
        assert_eq!(address(&format!("{}@example.com", "a".repeat(65))), Err(BadAddress::Form));
        assert_eq!(address(&format!("a@{}example.com", "b.".repeat(130))), Err(BadAddress::Long));
    }
}
