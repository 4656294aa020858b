//! Addresses of accounts and their text form.

pub(crate) type Address = [u8; 32];

/// The account of the framework, `0x1`.
pub(crate) const FRAMEWORK: Address = {
    let mut address = [0; 32];
    address[31] = 1;
    address
};

/// Returns an address as the API writes it: 64 digits, or a single one for a system address.
pub(crate) fn name(address: &Address) -> String {
    match address {
        [zeros @ .., last] if *last < 16 && zeros.iter().all(|byte| *byte == 0) => format!("0x{last:x}"),
        _ => format!("0x{}", hex::encode(address)),
    }
}

/// Reads an address, with or without its leading zeros and `0x`.
pub(crate) fn read_address(text: &str) -> Option<Address> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let good = (1..=64).contains(&digits.len());
    let bytes = hex::decode(format!("{digits:0>64}")).ok().filter(|_| good)?;
    bytes.try_into().ok()
}
