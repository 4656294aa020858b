//! Addresses: bech32 texts with the chain's prefixes.

use crate::hash::sha256;
use bech32::{Bech32, Hrp};
use ripemd::{Digest, Ripemd160};

/// The bytes of an address: 20 for a key, 32 for contracts and modules.
pub(crate) type Address = Vec<u8>;

/// The prefix of an account's address.
pub(crate) const ACCOUNT: &str = "cosmos";
/// The prefix of a validator operator's address.
pub(crate) const OPERATOR: &str = "cosmosvaloper";
/// The prefix of a consensus key's address.
pub(crate) const CONSENSUS: &str = "cosmosvalcons";

/// Returns the address of a secp256k1 key.
pub(crate) fn of_key(key: &[u8]) -> Address {
    Ripemd160::digest(sha256(key)).to_vec()
}

/// Returns the text of an address; empty if the prefix is not valid bech32.
pub(crate) fn text(prefix: &str, address: &[u8]) -> String {
    let hrp = Hrp::parse(prefix);
    hrp.ok().and_then(|hrp| bech32::encode::<Bech32>(hrp, address).ok()).unwrap_or_default()
}

/// Reads an address. An error is the reason why it is invalid.
pub(crate) fn read(prefix: &str, text: &str) -> Result<Address, String> {
    if text.trim().is_empty() {
        return Err("empty address string is not allowed".into());
    }
    let (hrp, address) = bech32::decode(text).map_err(|error| format!("decoding bech32 failed: {error}"))?;
    // The library also accepts the checksum of bech32m.
    if !self::text(hrp.as_str(), &address).eq_ignore_ascii_case(text) {
        return Err("decoding bech32 failed: invalid checksum".into());
    }
    if hrp.to_lowercase() != prefix {
        return Err(format!(
            "hrp does not match bech32 prefix: expected '{prefix}' got '{hrp}': internal logic error"
        ));
    }
    match address.len() {
        0 => Err("addresses cannot be empty: unknown address".into()),
        1..=255 => Ok(address),
        length => Err(format!("address max length is 255, got {length}: unknown address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_address_that_wallets_show() {
        let key = hex::decode("0223aa679d6d5344e201e0df9f02ab15a84726eee0dfb4e953c46a9e2cb52349dc").unwrap();
        let address = of_key(&key);
        assert_eq!(text(ACCOUNT, &address), "cosmos15yk64u7zc9g9k2yr2wmzeva5qgwxps6yxj00e7");
        assert_eq!(read(ACCOUNT, "cosmos15yk64u7zc9g9k2yr2wmzeva5qgwxps6yxj00e7"), Ok(address));
    }

    #[test]
    fn an_address_of_another_chain_is_refused() {
        for wrong in ["", "x", "cosmos15yk64u7zc9g9k2yr2wmzeva5qgwxps6yxj00e8"] {
            assert!(read(ACCOUNT, wrong).is_err(), "{wrong}");
        }
        let other = text("osmo", &[7; 20]);
        assert!(read(ACCOUNT, &other).unwrap_err().contains("got 'osmo'"));
        let modern = bech32::encode::<bech32::Bech32m>(Hrp::parse(ACCOUNT).unwrap(), &[7; 20]).unwrap();
        assert!(read(ACCOUNT, &modern).is_err());
    }
}
