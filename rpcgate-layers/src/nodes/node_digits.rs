//! The digits that name a node in the ids of state that exists at one node only, such as filters.
//!
//! They are eight hexadecimal digits of a hash of the node's name, which is its first address without secrets. So they
//! are the same at every gateway and after a restart, stay the same when a key in the address is replaced, and do not
//! reveal the address. The first digit is not 0, so that clients that read ids as numbers keep all eight.

use bytes::Bytes;
use sha1::{Digest, Sha1};

/// The start of an id in JSON.
const BEGINNING: &[u8] = b"\"0x";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeDigits([u8; NodeDigits::LEN]);

impl NodeDigits {
    pub(crate) const LEN: usize = 8;
    /// The offset of the digits in an id in JSON.
    pub(crate) const AT: usize = BEGINNING.len();

    /// Returns the digits of the node with this name. Another `salt` gives other digits.
    pub(crate) fn of(name: &str, salt: u32) -> Self {
        let hash = Sha1::new().chain_update(salt.to_be_bytes()).chain_update(name).finalize();
        let number = hash.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let mut digits = [0; NodeDigits::LEN];
        let number = number | 1 << 31;
        for (at, digit) in digits.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(number >> (28 - 4 * at) & 15) as usize];
        }
        NodeDigits(digits)
    }

    /// Returns the digits in an id, which is a JSON string without escapes: `0x`, the digits, and the digits of the
    /// node's own id. `None` for any other text.
    pub(crate) fn of_id(id: &[u8]) -> Option<Self> {
        let digits = id_digits(id)?;
        let (name, own) = digits.split_first_chunk::<{ NodeDigits::LEN }>()?;
        (!own.is_empty()).then(|| NodeDigits(name.map(|digit| digit.to_ascii_lowercase())))
    }

    /// Returns the id that the client gets. `own` is the node's own id in JSON. `None` if it is not a hexadecimal
    /// number.
    pub(crate) fn name(self, own: &[u8]) -> Option<Bytes> {
        let digits = id_digits(own.trim_ascii()).filter(|digits| !digits.is_empty())?;
        Some([BEGINNING, &self.0, digits, b"\""].concat().into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn id_digits(id: &[u8]) -> Option<&[u8]> {
    let digits = id.strip_prefix(BEGINNING)?.strip_suffix(b"\"")?;
    digits.iter().all(u8::is_ascii_hexdigit).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::config::{NodeConfig, make_distinct};

    fn node(url: &str) -> NodeConfig {
        NodeConfig::new(url.parse().unwrap())
    }

    // Shows (Nodes and cache).
    #[test]
    fn a_name_never_changes_and_does_not_depend_on_the_secrets_of_the_address() {
        // Ids that clients hold must stay valid across an upgrade.
        assert_eq!(NodeDigits::of("http://10.0.0.1:8545", 0).as_bytes(), b"c9f56a71");
        let digits = |url: &str| node(url).digits;
        let secret = "https://user:hunter2@node.example/v3?apikey=abc";
        assert_eq!(digits(secret), digits("https://user:sesame@node.example/v3?apikey=xyz"));
        assert_ne!(digits("http://10.0.0.1:8545"), digits("http://10.0.0.2:8545"));
    }

    #[test]
    fn a_name_begins_with_a_digit_that_no_number_drops() {
        assert!((0..1_000).all(|salt| NodeDigits::of("x", salt).as_bytes()[0] >= b'8'));
    }

    #[test]
    fn nodes_of_a_pool_have_different_digits_even_if_they_differ_in_their_keys_alone() {
        let urls = ["https://h/?apikey=a", "https://h/?apikey=b", "https://i/", "https://h/?apikey=c"];
        let mut nodes: Vec<_> = urls.iter().map(|url| node(url)).collect();
        make_distinct(&mut nodes);
        let mut digits: Vec<_> = nodes.iter().map(|node| node.digits.0).collect();
        assert_eq!(nodes[0].digits, node(urls[0]).digits, "the first one has those that it has alone");
        digits.sort_unstable();
        digits.dedup();
        assert_eq!(digits.len(), nodes.len());
    }

    #[test]
    fn an_id_is_named_and_read() {
        let digits = NodeDigits::of("x", 0);
        for own in ["\"0x1\"", "\"0xfe704947a3cd3ca12541458a4321c869\"", "\"0x00\"", " \"0xAB\""] {
            let named = digits.name(own.as_bytes()).unwrap();
            assert_eq!(NodeDigits::of_id(&named), Some(digits), "{own}");
            let cut = [&named[..NodeDigits::AT], &named[NodeDigits::AT + NodeDigits::LEN..]].concat();
            assert_eq!(cut, own.trim().as_bytes(), "the node gets its own id");
        }
        for own in ["1", "null", "\"1\"", "\"0x\"", "\"0xzz\"", "\"0x1", "{}", "", "\"0x\\u0031\""] {
            assert_eq!(digits.name(own.as_bytes()), None, "{own}");
        }
        let upper = String::from_utf8(digits.name(b"\"0xab\"").unwrap().to_vec()).unwrap().to_uppercase();
        assert_eq!(NodeDigits::of_id(upper.replace("0X", "0x").as_bytes()), Some(digits));
    }

    #[test]
    fn a_text_that_is_not_an_id_names_no_node() {
        for id in [
            "\"0x12345678\"",
            "\"0x1234567\"",
            "\"0x1\"",
            "\"0x1234567g9\"",
            "\"123456789a\"",
            "1",
            "null",
            "",
            "\"",
        ] {
            assert_eq!(NodeDigits::of_id(id.as_bytes()), None, "{id}");
        }
    }
}
