//! The forms of UTXO chains' addresses.

/// The forms of a chain's addresses on its main network and on its test networks, whose nodes may replace the main
/// one's.
///
/// ```
/// use rpcgate_chains::family::utxo::{self, AddressForms, Utxo};
/// use rpcgate_core::chain::Facts;
///
/// const FACTS: Facts = utxo::facts("dgb", "DigiByte", 40);
/// const DGB: Utxo = Utxo::new(FACTS)
///     .with_addresses(AddressForms::base58(&[0x1e, 0x3f]).with_bech32(&["dgb"]));
/// # assert_ne!(DGB.addresses(), &AddressForms::ANY);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressForms {
    versions: &'static [u8],
    bech32: &'static [&'static str],
    cash: &'static [&'static str],
}

impl AddressForms {
    /// Any text: addresses are compared as they are written.
    pub const ANY: Self = AddressForms { versions: &[], bech32: &[], cash: &[] };

    /// Accepts base58 with one of these first bytes.
    pub const fn base58(versions: &'static [u8]) -> Self {
        AddressForms { versions, bech32: &[], cash: &[] }
    }

    /// Also accepts Bech32 with one of these human-readable parts.
    #[must_use]
    pub const fn with_bech32(mut self, parts: &'static [&'static str]) -> Self {
        self.bech32 = parts;
        self
    }

    /// Also accepts CashAddr with one of these prefixes, the main network's first. Events use this form.
    #[must_use]
    pub const fn with_cash_addr(mut self, prefixes: &'static [&'static str]) -> Self {
        self.cash = prefixes;
        self
    }
}

#[cfg(feature = "events")]
mod canonical {
    use super::AddressForms;
    use crate::form::checked_base58;
    use bech32::segwit;
    use bs58::Alphabet;
    use std::borrow::Cow;

    const CHARSET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    const CHECKSUM: usize = 8;
    /// The first byte of base58 addresses that pay to a script on Bitcoin's own networks; the others pay to a key.
    const TO_SCRIPT: [u8; 2] = [0x05, 0xc4];
    const MAIN: [u8; 2] = [0x00, 0x05];

    impl AddressForms {
        /// Returns an address in the form of events; `None` if it is not an address of the chain.
        pub(crate) fn canonical(&self, text: &str) -> Option<String> {
            if self == &AddressForms::ANY {
                return Some(text.to_owned());
            }
            if let Some((version, hash)) = self.decoded(text) {
                let Some((main, others)) = self.cash.split_first() else { return Some(text.to_owned()) };
                let prefix = if MAIN.contains(&version) { main } else { others.first().unwrap_or(main) };
                return Some(write_cash_addr(
                    prefix,
                    if TO_SCRIPT.contains(&version) { 8 } else { 0 },
                    &hash,
                ));
            }
            if let Some(address) = self.parse_cash_addr(text) {
                return Some(address);
            }
            let (part, _, _) = segwit::decode(text).ok()?;
            let part = part.to_string().to_ascii_lowercase();
            self.bech32.contains(&part.as_str()).then(|| text.to_ascii_lowercase())
        }

        /// Returns a node's address in the form of events.
        pub(crate) fn of_node<'a>(&self, text: &'a str) -> Cow<'a, str> {
            // Every other node writes its addresses in one form only.
            match self.cash {
                [] => Cow::Borrowed(text),
                _ => self.canonical(text).map_or(Cow::Borrowed(text), Cow::Owned),
            }
        }

        fn decoded(&self, text: &str) -> Option<(u8, [u8; 20])> {
            let body = checked_base58(text, Alphabet::BITCOIN)?;
            let (version, key) = body.split_first().filter(|(version, _)| self.versions.contains(version))?;
            Some((*version, key.try_into().ok()?))
        }

        /// Parses a CashAddr address with or without its prefix, and converts it to one without tokens if possible.
        fn parse_cash_addr(&self, text: &str) -> Option<String> {
            let is_mixed =
                text.bytes().any(|c| c.is_ascii_lowercase()) && text.bytes().any(|c| c.is_ascii_uppercase());
            if is_mixed || text.len() > 128 {
                return None;
            }
            let lower = text.to_ascii_lowercase();
            let (prefixes, body) = match lower.split_once(':') {
                Some((prefix, body)) => {
                    let known = self.cash.iter().position(|known| *known == prefix)?;
                    (self.cash.get(known..=known)?, body)
                }
                None => (self.cash, lower.as_str()),
            };
            let digit = |c: u8| CHARSET.iter().position(|known| *known == c).map(|index| index as u8);
            let digits: Vec<u8> = body.bytes().map(digit).collect::<Option<_>>()?;
            let payload = digits.get(..digits.len().checked_sub(CHECKSUM)?)?;
            let prefix = prefixes.iter().find(|prefix| checksum(prefix, digits.iter().copied()) == 0)?;
            let bytes = eight_bits(payload)?;
            let (version, hash) = bytes.split_first()?;
            // A key or a script, each with tokens or without them, and its hash: 160 bits, or 256 for scripts.
            let kind = version >> 3;
            let size = version & 7;
            let is_known = matches!((kind, size, hash.len()), (0..=3, 0, 20) | (1 | 3, 3, 32));
            is_known.then(|| write_cash_addr(prefix, (kind & 1) << 3 | size, hash))
        }
    }

    /// Converts five-bit digits to bytes; the remaining bits must be zero.
    fn eight_bits(digits: &[u8]) -> Option<Vec<u8>> {
        let mut held = 0u32;
        let mut bits = 0;
        let mut out = Vec::with_capacity(digits.len());
        for digit in digits {
            held = (held << 5 | u32::from(*digit)) & 0xfff;
            bits += 5;
            if bits >= 8 {
                bits -= 8;
                out.push((held >> bits) as u8);
            }
        }
        (bits < 5 && held & ((1 << bits) - 1) == 0).then_some(out)
    }

    fn five_bits(bytes: impl Iterator<Item = u8>) -> Vec<u8> {
        let mut held = 0u32;
        let mut bits = 0;
        let mut out = Vec::new();
        for byte in bytes {
            held = (held << 8 | u32::from(byte)) & 0xfff;
            bits += 8;
            while bits >= 5 {
                bits -= 5;
                out.push((held >> bits & 0x1f) as u8);
            }
        }
        if bits > 0 {
            out.push((held << (5 - bits) & 0x1f) as u8);
        }
        out
    }

    /// Computes the CashAddr checksum: 0 for digits that end with theirs.
    fn checksum(prefix: &str, digits: impl Iterator<Item = u8>) -> u64 {
        const GENERATOR: [u64; 5] =
            [0x98_f2bc_8e61, 0x79_b76d_99e2, 0xf3_3e5f_b3c4, 0xae_2eab_e2a8, 0x1e_4f43_e470];
        let start = prefix.bytes().map(|byte| byte & 0x1f).chain([0]);
        start.chain(digits).fold(1, |sum: u64, digit| {
            let top = sum >> 35;
            let sum = (sum & 0x07_ffff_ffff) << 5 ^ u64::from(digit);
            let is_set = |bit: usize| top >> bit & 1 == 1;
            GENERATOR.iter().enumerate().fold(sum, |sum, (bit, g)| if is_set(bit) { sum ^ g } else { sum })
        }) ^ 1
    }

    fn write_cash_addr(prefix: &str, version: u8, hash: &[u8]) -> String {
        let mut digits = five_bits([version].into_iter().chain(hash.iter().copied()));
        let sum = checksum(prefix, digits.iter().copied().chain([0; CHECKSUM]));
        digits.extend((0..CHECKSUM).rev().map(|index| (sum >> (5 * index) & 0x1f) as u8));
        let text = digits.iter().filter_map(|digit| CHARSET.get(usize::from(*digit)));
        format!("{prefix}:{}", text.map(|c| char::from(*c)).collect::<String>())
    }
}

#[cfg(test)]
#[cfg(feature = "events")]
mod tests {
    use crate::family::utxo::Utxo;
    use crate::{bch, btc, dash, doge, liquid, ltc};
    use proptest::prelude::*;

    const CHAINS: [Utxo; 6] = [btc::BTC, ltc::LTC, bch::BCH, doge::DOGE, dash::DASH, liquid::LIQUID];

    fn canonical(chain: &Utxo, text: &str) -> Option<String> {
        chain.addresses().canonical(text)
    }

    // Shows (Events of chains).
    #[test]
    fn base58_is_kept_exactly_and_of_its_own_chain() {
        // Of the secret key 1, as the coins' own tools show it.
        for (chain, address) in [
            (btc::BTC, "1BgGZ9tcN4rm9KBzDn7KprQz87SZ26SAMH"),
            (btc::BTC, "3JvL6Ymt8MVWiCNHC7oWU6nLeHNJKLZGLN"),
            (ltc::LTC, "LVuDpNCSSj6pQ7t9Pv6d6sUkLKoqDEVUnJ"),
            (doge::DOGE, "DFpN6QqFfUm3gKNaxN6tNcab1FArL9cZLE"),
            (dash::DASH, "XmN7PQYWKn5MJFna5fRYgP6mxT2F7xpekE"),
        ] {
            assert_eq!(canonical(&chain, address).as_deref(), Some(address));
            let takers = CHAINS.iter().filter(|other| canonical(other, address).is_some()).count();
            // Bitcoin Cash also has Bitcoin's form, and Litecoin once had its addresses of scripts.
            let expected = match address.as_bytes() {
                [b'1', ..] => 2,
                [b'3', ..] => 3,
                _ => 1,
            };
            assert_eq!(takers, expected, "{address}");
        }
        assert_eq!(canonical(&btc::BTC, "1BgGZ9tcN4rm9KBzDn7KprQz87SZ26SAMh"), None, "its checksum is wrong");
        assert_eq!(canonical(&btc::BTC, "0xdAC17F958D2ee523a2206206994597C13D831ec7"), None);
    }

    // Shows (Events of chains).
    #[test]
    fn bech32_is_in_lower_case() {
        let address = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
        assert_eq!(canonical(&btc::BTC, &address.to_uppercase()).as_deref(), Some(address));
        let taproot = "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0";
        assert_eq!(canonical(&btc::BTC, taproot).as_deref(), Some(taproot));
        assert_eq!(canonical(&btc::BTC, "bc1qW508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"), None, "of two cases");
        assert_eq!(canonical(&ltc::LTC, address), None, "of another chain");
        for address in
            ["ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5"]
        {
            assert_eq!(canonical(&btc::BTC, address), None, "{address}");
        }
        assert_eq!(canonical(&bch::BCH, address), None, "Bitcoin Cash has no Bech32");
    }

    // Shows (Events of chains).
    #[test]
    fn bitcoin_cash_addresses_have_one_form_for_every_spelling() {
        // From the specification of CashAddr.
        for (legacy, cash) in [
            ("1BpEi6DfDAUFd7GtittLSdBeYJvcoaVggu", "bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a"),
            ("3CWFddi6m4ndiGyKqzYvsFYagqDLPVMTzC", "bitcoincash:ppm2qsznhks23z7629mms6s4cwef74vcwvn0h829pq"),
        ] {
            let (_, bare) = cash.split_once(':').unwrap();
            for text in [legacy, cash, bare, &cash.to_uppercase(), &bare.to_uppercase()] {
                assert_eq!(canonical(&bch::BCH, text).as_deref(), Some(cash), "{text}");
            }
            assert_eq!(bch::BCH.addresses().of_node(legacy), cash);
        }
        for wrong in [
            "bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6q",
            "bchtest:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a",
            "ecash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a",
            "bitcoincash:",
            "bitcoincash:qQm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a",
        ] {
            assert_eq!(canonical(&bch::BCH, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn addresses_of_test_networks_are_accepted_by_their_chains() {
        for (chain, address) in [
            (btc::BTC, "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"),
            (btc::BTC, "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"),
            (btc::BTC, "mrCDrCybB6J1vRfbwM5hemdJz73FwDBC8r"),
            (ltc::LTC, "mrCDrCybB6J1vRfbwM5hemdJz73FwDBC8r"),
        ] {
            assert_eq!(canonical(&chain, address).as_deref(), Some(address));
        }
        let cash = canonical(&bch::BCH, "mrCDrCybB6J1vRfbwM5hemdJz73FwDBC8r").unwrap();
        assert!(cash.starts_with("bchtest:q"), "{cash}");
        assert_eq!(canonical(&bch::BCH, &cash), Some(cash));
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in prop_oneof![".{0,140}", "bitcoincash:[qpzry9x8]{0,60}", "[1-9A-Za-z]{20,50}", "(bc|ex)1[qpz0-9]{0,60}"]) {
            for chain in &CHAINS {
                if let Some(address) = canonical(chain, &text) {
                    prop_assert_eq!(canonical(chain, &address), Some(address.clone()));
                }
            }
        }
    }
}
