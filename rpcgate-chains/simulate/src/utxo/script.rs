//! Scripts: their forms, their text, and their addresses.

use super::coin::{Coin, Kind};
use super::tx::sha256d;
use bech32::{Fe32, Hrp, segwit};

/// The named forms of an output's script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    KeyHash([u8; 20]),
    ScriptHash([u8; 20]),
    Witness(u8, Vec<u8>),
    Data,
    /// The fee output of Elements, which has no script.
    Fee,
    Other,
}

const CHARSET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// Returns a script that pays to the hash of a key.
pub(crate) fn to_key_hash(hash: &[u8; 20]) -> Vec<u8> {
    [&[0x76, 0xa9, 0x14][..], hash, &[0x88, 0xac]].concat()
}

/// Returns a script that pays to the hash of a script.
pub(crate) fn to_script_hash(hash: &[u8; 20]) -> Vec<u8> {
    [&[0xa9, 0x14][..], hash, &[0x87]].concat()
}

/// Returns a script that pays to a witness program.
pub(crate) fn to_witness(version: u8, program: &[u8]) -> Vec<u8> {
    let op = if version == 0 { 0 } else { 0x50 + version };
    [&[op, program.len() as u8][..], program].concat()
}

impl Form {
    /// Returns the form of an output's script.
    pub(crate) fn of(kind: Kind, script: &[u8]) -> Self {
        let hash = |bytes: &[u8]| bytes.try_into().unwrap_or_default();
        match script {
            [] if kind == Kind::Liquid => Form::Fee,
            [0x76, 0xa9, 0x14, key @ .., 0x88, 0xac] if key.len() == 20 => Form::KeyHash(hash(key)),
            [0xa9, 0x14, key @ .., 0x87] if key.len() == 20 => Form::ScriptHash(hash(key)),
            [0x6a, ..] => Form::Data,
            [op @ (0 | 0x51..=0x60), length @ 2..=40, program @ ..]
                if kind.segwit() && program.len() == usize::from(*length) =>
            {
                Form::Witness(op.saturating_sub(0x50), program.to_vec())
            }
            _ => Form::Other,
        }
    }

    /// Returns the name of the form in daemons' answers.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Form::KeyHash(_) => "pubkeyhash",
            Form::ScriptHash(_) => "scripthash",
            Form::Witness(0, program) if program.len() == 20 => "witness_v0_keyhash",
            Form::Witness(0, _) => "witness_v0_scripthash",
            Form::Witness(1, program) if program.len() == 32 => "witness_v1_taproot",
            Form::Witness(..) => "witness_unknown",
            Form::Data => "nulldata",
            Form::Fee => "fee",
            Form::Other => "nonstandard",
        }
    }

    pub(crate) fn address(&self, coin: &Coin) -> Option<String> {
        match self {
            Form::KeyHash(hash) if coin.kind == Kind::Bch => Some(cash_address(coin.hrp, 0, hash)),
            Form::ScriptHash(hash) if coin.kind == Kind::Bch => Some(cash_address(coin.hrp, 8, hash)),
            Form::KeyHash(hash) => Some(base58(coin.prefixes.0, hash)),
            Form::ScriptHash(hash) => Some(base58(coin.prefixes.1, hash)),
            Form::Witness(version, program) => {
                let hrp = Hrp::parse(coin.hrp).ok()?;
                let version = Fe32::try_from(*version).ok()?;
                segwit::encode(hrp, version, program).ok()
            }
            Form::Data | Form::Fee | Form::Other => None,
        }
    }

    /// Returns the form of an address; `None` if it is not an address of the coin.
    pub(crate) fn from_address(coin: &Coin, text: &str) -> Option<Self> {
        if coin.kind.segwit()
            && let Ok((hrp, version, program)) = segwit::decode(text)
        {
            return (hrp.as_str().eq_ignore_ascii_case(coin.hrp))
                .then_some(Form::Witness(version.to_u8(), program));
        }
        if coin.kind == Kind::Bch
            && let Some((kind, hash)) = from_cash_address(coin.hrp, text)
        {
            return if kind == 0 { Some(Form::KeyHash(hash)) } else { Some(Form::ScriptHash(hash)) };
        }
        let bytes = bs58::decode(text).into_vec().ok().filter(|bytes| bytes.len() == 25)?;
        let (body, checksum) = bytes.split_at(21);
        if sha256d(body)[..4] != *checksum {
            return None;
        }
        let hash = body[1..].try_into().ok()?;
        match body[0] {
            prefix if prefix == coin.prefixes.0 => Some(Form::KeyHash(hash)),
            prefix if prefix == coin.prefixes.1 => Some(Form::ScriptHash(hash)),
            _ => None,
        }
    }

    /// Returns the script of the form; `None` for forms without an address.
    pub(crate) fn script(&self) -> Option<Vec<u8>> {
        match self {
            Form::KeyHash(hash) => Some(to_key_hash(hash)),
            Form::ScriptHash(hash) => Some(to_script_hash(hash)),
            Form::Witness(version, program) => Some(to_witness(*version, program)),
            Form::Data | Form::Fee | Form::Other => None,
        }
    }
}

fn base58(prefix: u8, hash: &[u8; 20]) -> String {
    let mut bytes = [&[prefix][..], hash].concat();
    bytes.extend_from_slice(&sha256d(&bytes)[..4]);
    bs58::encode(bytes).into_string()
}

/// Returns the checksum of CashAddr.
fn cash_checksum(prefix: &str, payload: impl Iterator<Item = u8>) -> u64 {
    const GENERATOR: [u64; 5] =
        [0x98_f2bc_8e61, 0x79_b76d_99e2, 0xf3_3e5f_b3c4, 0xae_2eab_e2a8, 0x1e_4f43_e470];
    let start = prefix.bytes().map(|byte| byte & 0x1f).chain([0]);
    start.chain(payload).fold(1, |sum: u64, digit| {
        let top = sum >> 35;
        let sum = (sum & 0x07_ffff_ffff) << 5 ^ u64::from(digit);
        GENERATOR
            .iter()
            .enumerate()
            .fold(sum, |sum, (bit, g)| if top >> bit & 1 == 1 { sum ^ g } else { sum })
    }) ^ 1
}

fn cash_address(prefix: &str, kind: u8, hash: &[u8; 20]) -> String {
    let mut digits = Vec::new();
    let mut held = 0u32;
    let mut bits = 0;
    for byte in [kind].iter().chain(hash) {
        held = held << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            digits.push((held >> bits & 0x1f) as u8);
        }
    }
    if bits > 0 {
        digits.push((held << (5 - bits) & 0x1f) as u8);
    }
    let sum = cash_checksum(prefix, digits.iter().copied().chain([0; 8]));
    digits.extend((0..8).rev().map(|place| (sum >> (5 * place) & 0x1f) as u8));
    let text: String = digits.iter().map(|digit| char::from(CHARSET[usize::from(*digit)])).collect();
    format!("{prefix}:{text}")
}

fn from_cash_address(prefix: &str, text: &str) -> Option<(u8, [u8; 20])> {
    let lower = text.to_lowercase();
    let body = lower.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(':')).unwrap_or(&lower);
    let digits: Vec<u8> = body
        .bytes()
        .map(|c| CHARSET.iter().position(|d| *d == c).map(|at| at as u8))
        .collect::<Option<_>>()?;
    if digits.len() != 42 || cash_checksum(prefix, digits.iter().copied()) != 0 {
        return None;
    }
    let mut held = 0u32;
    let mut bits = 0;
    let mut bytes = Vec::new();
    for digit in &digits[..34] {
        held = held << 5 | u32::from(*digit);
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits & 0xff) as u8);
        }
    }
    let (kind, hash) = bytes.split_first()?;
    Some((*kind, hash.try_into().ok()?)).filter(|(kind, _)| matches!(kind, 0 | 8))
}

/// Returns a script as text. In an input's script, signatures end with the name of their hash type.
pub(crate) fn asm(script: &[u8], input: bool) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut rest = script;
    while let Some((op, after)) = rest.split_first() {
        let wide = usize::from(*op).saturating_sub(0x4b);
        let (length, after) = match *op {
            0x01..=0x4b => (usize::from(*op), after),
            0x4c..=0x4e => {
                let width = 1 << (wide - 1);
                let Some((size, after)) = after.split_at_checked(width) else {
                    words.push("[error]".into());
                    break;
                };
                (size.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), after)
            }
            op => {
                words.push(opcode(op));
                rest = after;
                continue;
            }
        };
        let Some((data, after)) = after.split_at_checked(length) else {
            words.push("[error]".into());
            break;
        };
        words.push(pushed(data, input));
        rest = after;
    }
    words.join(" ")
}

fn pushed(data: &[u8], input: bool) -> String {
    if data.len() <= 4 {
        let number = data.iter().rev().fold(0i64, |sum, byte| sum << 8 | i64::from(*byte));
        let sign = data.last().is_some_and(|byte| byte & 0x80 != 0);
        let mask = if data.is_empty() { 0 } else { 0x80i64 << (8 * (data.len() - 1)) };
        return if sign { (-(number & !mask)).to_string() } else { number.to_string() };
    }
    if let [0x30, .., kind] = data
        && input
        && (60..=73).contains(&data.len())
    {
        let name = match kind {
            0x01 => "ALL",
            0x02 => "NONE",
            0x03 => "SINGLE",
            0x41 => "ALL|FORKID",
            0x81 => "ALL|ANYONECANPAY",
            _ => return hex::encode(data),
        };
        return format!("{}[{name}]", hex::encode(&data[..data.len() - 1]));
    }
    hex::encode(data)
}

fn opcode(op: u8) -> String {
    let name = match op {
        0 => "0",
        0x4f => "-1",
        0x51..=0x60 => return (op - 0x50).to_string(),
        0x61 => "OP_NOP",
        0x63 => "OP_IF",
        0x64 => "OP_NOTIF",
        0x67 => "OP_ELSE",
        0x68 => "OP_ENDIF",
        0x69 => "OP_VERIFY",
        0x6a => "OP_RETURN",
        0x75 => "OP_DROP",
        0x76 => "OP_DUP",
        0x7c => "OP_SWAP",
        0x82 => "OP_SIZE",
        0x87 => "OP_EQUAL",
        0x88 => "OP_EQUALVERIFY",
        0xa6 => "OP_RIPEMD160",
        0xa8 => "OP_SHA256",
        0xa9 => "OP_HASH160",
        0xaa => "OP_HASH256",
        0xac => "OP_CHECKSIG",
        0xad => "OP_CHECKSIGVERIFY",
        0xae => "OP_CHECKMULTISIG",
        0xaf => "OP_CHECKMULTISIGVERIFY",
        0xb1 => "OP_CHECKLOCKTIMEVERIFY",
        0xb2 => "OP_CHECKSEQUENCEVERIFY",
        0xba => "OP_CHECKSIGADD",
        _ => "OP_UNKNOWN",
    };
    name.into()
}

/// Returns a descriptor with its checksum (BIP 380).
pub(crate) fn described(descriptor: &str) -> String {
    const INPUT: &str =
        "0123456789()[],'/*abcdefgh@:$%{}IJKLMNOPQRSTUVWXYZ&+-.;<=>?!^_|~ijklmnopqrstuvwxyzABCDEFGH`#\"\\ ";
    const GENERATOR: [u64; 5] =
        [0xf5_dee5_1989, 0xa9_fdca_3312, 0x1b_ab10_e32d, 0x37_06b1_677a, 0x64_4d62_6ffd];
    let step = |sum: u64, digit: u64| {
        let top = sum >> 35;
        let sum = (sum & 0x07_ffff_ffff) << 5 ^ digit;
        GENERATOR
            .iter()
            .enumerate()
            .fold(sum, |sum, (bit, g)| if top >> bit & 1 == 1 { sum ^ g } else { sum })
    };
    let mut sum = 1;
    let mut group = 0;
    let mut held = 0;
    for c in descriptor.chars() {
        let place = INPUT.find(c).unwrap_or(0) as u64;
        sum = step(sum, place & 31);
        (group, held) = (group * 3 + (place >> 5), held + 1);
        if held == 3 {
            sum = step(sum, group);
            (group, held) = (0, 0);
        }
    }
    if held > 0 {
        sum = step(sum, group);
    }
    let sum = (0..8).fold(sum, |sum, _| step(sum, 0)) ^ 1;
    let text: String = (0..8).map(|n| char::from(CHARSET[(sum >> (5 * (7 - n)) & 31) as usize])).collect();
    format!("{descriptor}#{text}")
}

#[cfg(test)]
mod tests {
    use super::super::coin::{COINS, DEVELOPER};
    use super::*;

    #[test]
    fn addresses_match_published_ones() {
        // Secret key 1, as BIP 173 and the coins' own tools show it; CashAddr from the table in its specification.
        let row = [
            ("btc", "1BgGZ9tcN4rm9KBzDn7KprQz87SZ26SAMH"),
            ("ltc", "LVuDpNCSSj6pQ7t9Pv6d6sUkLKoqDEVUnJ"),
            ("doge", "DFpN6QqFfUm3gKNaxN6tNcab1FArL9cZLE"),
            ("dash", "XmN7PQYWKn5MJFna5fRYgP6mxT2F7xpekE"),
        ];
        for (name, address) in row {
            let coin = COINS.iter().find(|coin| coin.name == name).expect("a coin");
            assert_eq!(Form::KeyHash(DEVELOPER).address(coin).as_deref(), Some(address));
        }
        assert_eq!(
            Form::Witness(0, DEVELOPER.to_vec()).address(&COINS[0]).as_deref(),
            Some("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4")
        );
        let mut hash = [0; 20];
        hex::decode_to_slice("76a04053bda0a88bda5177b86a15c3b29f559873", &mut hash).expect("hex");
        assert_eq!(
            Form::KeyHash(hash).address(&COINS[2]).as_deref(),
            Some("bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a")
        );
    }

    #[test]
    fn addresses_lead_back_to_their_scripts() {
        for coin in &COINS {
            let mut forms = vec![Form::KeyHash([7; 20]), Form::ScriptHash([9; 20])];
            if coin.kind.segwit() {
                forms.extend([
                    Form::Witness(0, vec![3; 20]),
                    Form::Witness(0, vec![3; 32]),
                    Form::Witness(1, vec![4; 32]),
                ]);
            }
            for form in forms {
                let address = form.address(coin).expect("an address");
                assert_eq!(Form::from_address(coin, &address).as_ref(), Some(&form), "{address}");
                assert_eq!(Form::of(coin.kind, &form.script().expect("a script")), form);
                let last = if address.ends_with('x') { "q" } else { "x" };
                let wrong = format!("{}{last}", &address[..address.len() - 1]);
                assert_eq!(Form::from_address(coin, &wrong), None);
            }
        }
    }

    #[test]
    fn descriptors_carry_the_checksum_of_bip_380() {
        assert_eq!(described("raw(deadbeef)"), "raw(deadbeef)#89f8spxm");
    }

    #[test]
    fn scripts_read_as_daemons_write_them() {
        assert_eq!(
            asm(&hex::decode("76a914fc7250a211deddc70ee5a2738de5f07817351cef88ac").expect("hex"), false),
            "OP_DUP OP_HASH160 fc7250a211deddc70ee5a2738de5f07817351cef OP_EQUALVERIFY OP_CHECKSIG"
        );
        assert_eq!(asm(&[0x02, 0x01, 0x02, 0x51, 0x00, 0x01, 0x81], false), "513 1 0 -1");
        assert_eq!(asm(&[0x4c, 0x05, 1, 2, 3, 4, 5, 0x4d], false), "0102030405 [error]");
    }
}
