//! Transactions: their encoding, their hash, their sign bytes and their JSON.

use super::page::base64;
use crate::grpc::protobuf::{Message, Value, fields};
use crate::hash::sha256;
use crate::json::{Json, object};

/// The only message that is accepted.
pub(crate) const SEND: &str = "/cosmos.bank.v1beta1.MsgSend";
/// The type of its response.
pub(crate) const SENT: &str = "/cosmos.bank.v1beta1.MsgSendResponse";
const KEY: &str = "/cosmos.crypto.secp256k1.PubKey";

/// An amount of one denomination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Coin {
    pub(crate) denom: String,
    /// In the smallest unit.
    pub(crate) amount: u128,
}

impl Coin {
    pub(crate) fn json(&self) -> Json {
        object! { "denom": self.denom.clone(), "amount": self.amount.to_string() }
    }

    fn encode(&self) -> Message {
        Message::default().bytes(1, &self.denom).bytes(2, self.amount.to_string())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut coin = Coin { denom: String::new(), amount: 0 };
        for (field, value) in fields(bytes)? {
            match field {
                1 => coin.denom = value.text()?,
                2 => coin.amount = value.text()?.parse().ok()?,
                _ => return None,
            }
        }
        Some(coin)
    }
}

/// Coins as the SDK writes them in messages: `5uatom,7ustake`.
pub(crate) fn coins_text(coins: &[Coin]) -> String {
    let texts: Vec<_> = coins.iter().map(|coin| format!("{}{}", coin.amount, coin.denom)).collect();
    texts.join(",")
}

/// A transfer of coins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Send {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) amount: Vec<Coin>,
}

impl Send {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut send = Send::default();
        for (field, value) in fields(bytes)? {
            match field {
                1 => send.from = value.text()?,
                2 => send.to = value.text()?,
                3 => send.amount.push(Coin::decode(value.bytes()?)?),
                _ => return None,
            }
        }
        Some(send)
    }

    fn encode(&self) -> Message {
        let coins = self.amount.iter().map(Coin::encode);
        Message::default().bytes(1, &self.from).bytes(2, &self.to).items(3, coins)
    }
}

/// The sign mode of a signer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The signature covers the transaction's bytes.
    Direct,
    /// The signature covers a JSON document, as hardware wallets show it.
    Amino,
}

impl Mode {
    fn number(self) -> u64 {
        match self {
            Mode::Direct => 1,
            Mode::Amino => 127,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Mode::Direct => "SIGN_MODE_DIRECT",
            Mode::Amino => "SIGN_MODE_LEGACY_AMINO_JSON",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signer {
    /// Its compressed secp256k1 key; may be omitted if the chain knows it.
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) mode: Mode,
    pub(crate) sequence: u64,
}

/// The content of a transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) sends: Vec<Send>,
    pub(crate) memo: String,
    pub(crate) timeout_height: u64,
    pub(crate) signers: Vec<Signer>,
    pub(crate) fee: Vec<Coin>,
    pub(crate) gas: u64,
    pub(crate) payer: String,
    pub(crate) granter: String,
    pub(crate) signatures: Vec<Vec<u8>>,
}

/// A transaction with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tx {
    pub(crate) content: Content,
    pub(crate) raw: Vec<u8>,
    pub(crate) hash: [u8; 32],
    body: Vec<u8>,
    auth: Vec<u8>,
}

fn any(url: &str, value: impl AsRef<[u8]>) -> Message {
    Message::default().bytes(1, url).bytes(2, value)
}

fn read_any(value: Value<'_>) -> Option<(String, &[u8])> {
    let mut url = String::new();
    let mut bytes = &[][..];
    for (field, value) in fields(value.bytes()?)? {
        match field {
            1 => url = value.text()?,
            2 => bytes = value.bytes()?,
            _ => return None,
        }
    }
    Some((url, bytes))
}

/// Reads the 33 bytes of a compressed key.
fn read_key(value: Value<'_>) -> Result<Vec<u8>, String> {
    let (url, bytes) = read_any(value).ok_or("broken public key")?;
    if url != KEY {
        return Err(format!("unable to resolve type URL {url}"));
    }
    let key = fields(bytes).and_then(|fields| fields.iter().find(|(field, _)| *field == 1)?.1.bytes());
    match key {
        Some(key) if key.len() == 33 => Ok(key.to_vec()),
        _ => Err("length of pubkey is incorrect".into()),
    }
}

fn read_signer(bytes: &[u8]) -> Result<Signer, String> {
    let mut signer = Signer { key: None, mode: Mode::Direct, sequence: 0 };
    for (field, value) in fields(bytes).ok_or("broken signer info")? {
        match field {
            1 => signer.key = Some(read_key(value)?),
            2 => {
                let single = value.bytes().and_then(fields).unwrap_or_default();
                let single =
                    single.iter().find(|(field, _)| *field == 1).and_then(|(_, value)| value.bytes());
                let single = single.and_then(fields).ok_or("only single signers are supported")?;
                signer.mode = match single.iter().find(|(field, _)| *field == 1) {
                    Some((_, Value::Number(1))) => Mode::Direct,
                    Some((_, Value::Number(127))) => Mode::Amino,
                    _ => return Err("unsupported sign mode".into()),
                };
            }
            3 => signer.sequence = value.number().ok_or("broken sequence")?,
            _ => return Err(format!("errUnknownField \"SignerInfo\": {{TagNum: {field}}}")),
        }
    }
    Ok(signer)
}

impl Content {
    fn read_body(&mut self, bytes: &[u8]) -> Result<(), String> {
        for (field, value) in fields(bytes).ok_or("broken body")? {
            match field {
                1 => {
                    let (url, message) = read_any(value).ok_or("broken message")?;
                    if url != SEND {
                        return Err(format!("unable to resolve type URL {url}"));
                    }
                    self.sends.push(Send::decode(message).ok_or("broken MsgSend")?);
                }
                2 => self.memo = value.text().ok_or("broken memo")?,
                3 => self.timeout_height = value.number().ok_or("broken timeout height")?,
                // Extension options, which a node may ignore.
                2047 => {}
                _ => return Err(format!("errUnknownField \"TxBody\": {{TagNum: {field}}}")),
            }
        }
        Ok(())
    }

    fn read_auth(&mut self, bytes: &[u8]) -> Result<(), String> {
        for (field, value) in fields(bytes).ok_or("broken auth info")? {
            let bytes = value.bytes().ok_or("broken auth info")?;
            match field {
                1 => self.signers.push(read_signer(bytes)?),
                2 => self.read_fee(bytes).ok_or("broken fee")?,
                _ => return Err(format!("errUnknownField \"AuthInfo\": {{TagNum: {field}}}")),
            }
        }
        Ok(())
    }

    fn read_fee(&mut self, bytes: &[u8]) -> Option<()> {
        for (field, value) in fields(bytes)? {
            match field {
                1 => self.fee.push(Coin::decode(value.bytes()?)?),
                2 => self.gas = value.number()?,
                3 => self.payer = value.text()?,
                4 => self.granter = value.text()?,
                _ => return None,
            }
        }
        Some(())
    }

    fn body(&self) -> Vec<u8> {
        let sends = self.sends.iter().map(|send| any(SEND, send.encode()));
        Message::default().items(1, sends).bytes(2, &self.memo).number(3, self.timeout_height).done()
    }

    fn auth(&self) -> Vec<u8> {
        let signers = self.signers.iter().map(|signer| {
            let mode = Message::default().number(1, signer.mode.number());
            let info = Message::default();
            let info = match &signer.key {
                Some(key) => info.item(1, any(KEY, Message::default().bytes(1, key))),
                None => info,
            };
            info.item(2, Message::default().item(1, mode)).number(3, signer.sequence)
        });
        let fee = Message::default().items(1, self.fee.iter().map(Coin::encode)).number(2, self.gas);
        let fee = fee.bytes(3, &self.payer).bytes(4, &self.granter);
        Message::default().items(1, signers).item(2, fee).done()
    }
}

impl Tx {
    pub(crate) fn new(content: Content) -> Self {
        let body = content.body();
        let auth = content.auth();
        let raw = Message::default().bytes(1, &body).bytes(2, &auth).items(3, &content.signatures).done();
        Tx { hash: sha256(&raw), content, raw, body, auth }
    }

    /// Decodes a transaction. An error is the reason why its bytes are invalid.
    pub(crate) fn decode(raw: &[u8]) -> Result<Self, String> {
        let mut content = Content::default();
        let mut body = Vec::new();
        let mut auth = Vec::new();
        for (field, value) in fields(raw).ok_or("unexpected EOF")? {
            let bytes = value.bytes().ok_or("expected 2 wire type, got 0")?.to_vec();
            match field {
                1 => body = bytes,
                2 => auth = bytes,
                3 => content.signatures.push(bytes),
                _ => return Err(format!("errUnknownField \"TxRaw\": {{TagNum: {field}}}")),
            }
        }
        content.read_body(&body)?;
        content.read_auth(&auth)?;
        Ok(Tx { hash: sha256(raw), content, raw: raw.to_vec(), body, auth })
    }

    pub(crate) fn name(&self) -> String {
        hex::encode_upper(self.hash)
    }

    /// Returns the bytes that a signer signs.
    pub(crate) fn signed(&self, mode: Mode, chain: &str, account: u64, sequence: u64) -> Vec<u8> {
        match mode {
            Mode::Direct => Message::default()
                .bytes(1, &self.body)
                .bytes(2, &self.auth)
                .bytes(3, chain)
                .number(4, account)
                .done(),
            Mode::Amino => self.amino(chain, account, sequence).into_bytes(),
        }
    }

    /// Returns the JSON of the Amino encoding: members sorted by name.
    fn amino(&self, chain: &str, account: u64, sequence: u64) -> String {
        let coins = |coins: &[Coin]| -> Vec<_> {
            let coin =
                |coin: &Coin| object! { "amount": coin.amount.to_string(), "denom": coin.denom.clone() };
            coins.iter().map(coin).collect()
        };
        let content = &self.content;
        let sends = content.sends.iter().map(|send| {
            let value = object! {
                "amount": coins(&send.amount), "from_address": send.from.clone(),
                "to_address": send.to.clone(),
            };
            object! { "type": "cosmos-sdk/MsgSend", "value": value }
        });
        let mut fee = object! { "amount": coins(&content.fee), "gas": content.gas.to_string() };
        for (name, text) in [("granter", &content.granter), ("payer", &content.payer)] {
            if !text.is_empty() {
                fee.put(name, text.clone());
            }
        }
        let mut document = object! {
            "account_number": account.to_string(), "chain_id": chain.to_owned(), "fee": fee,
            "memo": content.memo.clone(), "msgs": sends.collect::<Vec<_>>(), "sequence": sequence.to_string(),
        };
        if content.timeout_height > 0 {
            document.put("timeout_height", content.timeout_height.to_string());
        }
        let mut text = String::new();
        document.write(&mut text);
        // Go's writer escapes characters with a meaning in HTML.
        text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
    }

    pub(crate) fn json(&self) -> Json {
        let content = &self.content;
        let coins = |coins: &[Coin]| coins.iter().map(Coin::json).collect::<Vec<_>>();
        let messages = content.sends.iter().map(|send| {
            object! {
                "@type": SEND, "from_address": send.from.clone(), "to_address": send.to.clone(),
                "amount": coins(&send.amount),
            }
        });
        let signers = content.signers.iter().map(|signer| {
            object! {
                "public_key": signer.key.as_deref().map(key_json),
                "mode_info": object! { "single": object! { "mode": signer.mode.name() } },
                "sequence": signer.sequence.to_string(),
            }
        });
        object! {
            "body": object! {
                "messages": messages.collect::<Vec<_>>(),
                "memo": content.memo.clone(),
                "timeout_height": content.timeout_height.to_string(),
                "unordered": false,
                "timeout_timestamp": Json::Null,
                "extension_options": Json::Array(Vec::new()),
                "non_critical_extension_options": Json::Array(Vec::new()),
            },
            "auth_info": object! {
                "signer_infos": signers.collect::<Vec<_>>(),
                "fee": object! {
                    "amount": coins(&content.fee), "gas_limit": content.gas.to_string(),
                    "payer": content.payer.clone(), "granter": content.granter.clone(),
                },
                "tip": Json::Null,
            },
            "signatures": content.signatures.iter().map(base64).collect::<Vec<_>>(),
        }
    }
}

pub(crate) fn key_json(key: &[u8]) -> Json {
    object! { "@type": KEY, "key": base64(key) }
}

/// Reads a transaction that was written as JSON, with either spelling of its members.
pub(crate) fn from_json(tx: &serde_json::Value) -> Option<Tx> {
    use super::page::unbase64;
    use serde_json::Value as Any;
    let pick = |value: &Any, snake: &str, camel: &str| value.get(snake).or_else(|| value.get(camel)).cloned();
    let text =
        |value: Option<Any>| value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    // Numbers of 64 bits are strings in this JSON; short ones may be plain numbers.
    let number = |value: Option<Any>| match value {
        None | Some(Any::Null) => Some(0),
        Some(Any::String(text)) => text.parse().ok(),
        Some(value) => value.as_u64(),
    };
    let list = |value: Option<Any>| value.and_then(|value| value.as_array().cloned()).unwrap_or_default();
    let coins = |value: Option<Any>| -> Option<Vec<Coin>> {
        let read = |coin: &Any| {
            let amount = text(coin.get("amount").cloned()).parse().ok()?;
            Some(Coin { denom: text(coin.get("denom").cloned()), amount })
        };
        list(value).iter().map(read).collect()
    };
    let body = pick(tx, "body", "body")?;
    let auth = pick(tx, "auth_info", "authInfo").unwrap_or_default();
    let fee = pick(&auth, "fee", "fee").unwrap_or_default();
    let mut content = Content {
        memo: text(pick(&body, "memo", "memo")),
        timeout_height: number(pick(&body, "timeout_height", "timeoutHeight"))?,
        fee: coins(pick(&fee, "amount", "amount"))?,
        gas: number(pick(&fee, "gas_limit", "gasLimit"))?,
        payer: text(pick(&fee, "payer", "payer")),
        granter: text(pick(&fee, "granter", "granter")),
        ..Content::default()
    };
    for message in list(pick(&body, "messages", "messages")) {
        if text(message.get("@type").cloned()) != SEND {
            return None;
        }
        content.sends.push(Send {
            from: text(pick(&message, "from_address", "fromAddress")),
            to: text(pick(&message, "to_address", "toAddress")),
            amount: coins(message.get("amount").cloned())?,
        });
    }
    for info in list(pick(&auth, "signer_infos", "signerInfos")) {
        let key = match pick(&info, "public_key", "publicKey") {
            None | Some(Any::Null) => None,
            Some(key) => Some(unbase64(&text(key.get("key").cloned())).filter(|key| key.len() == 33)?),
        };
        let single = pick(&info, "mode_info", "modeInfo").and_then(|mode| mode.get("single").cloned());
        let mode = match single.and_then(|single| single.get("mode").cloned()) {
            Some(mode) if mode == "SIGN_MODE_LEGACY_AMINO_JSON" || mode == 127 => Mode::Amino,
            _ => Mode::Direct,
        };
        let sequence = number(info.get("sequence").cloned())?;
        content.signers.push(Signer { key, mode, sequence });
    }
    let signatures = list(pick(tx, "signatures", "signatures"));
    content.signatures = signatures.iter().map(|one| unbase64(one.as_str()?)).collect::<Option<_>>()?;
    Some(Tx::new(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Tx {
        let amount = vec![Coin { denom: "uatom".into(), amount: 7 }];
        let send = Send { from: "cosmos1from".into(), to: "cosmos1to".into(), amount: amount.clone() };
        let signer = Signer { key: Some(vec![2; 33]), mode: Mode::Amino, sequence: 9 };
        Tx::new(Content {
            sends: vec![send],
            memo: "a<b".into(),
            signers: vec![signer],
            fee: amount,
            gas: 90_000,
            signatures: vec![vec![1; 64]],
            ..Content::default()
        })
    }

    #[test]
    fn bytes_and_json_read_back() {
        let tx = sample();
        assert_eq!(Tx::decode(&tx.raw), Ok(tx.clone()));
        let mut out = String::new();
        tx.json().write(&mut out);
        assert_eq!(from_json(&serde_json::from_str(&out).unwrap()), Some(tx));
    }

    #[test]
    fn the_old_form_is_signed_in_the_order_of_names() {
        let signed = sample().signed(Mode::Amino, "cosmoshub-4", 5, 9);
        let text = String::from_utf8(signed).unwrap();
        assert!(
            text.starts_with(r#"{"account_number":"5","chain_id":"cosmoshub-4","fee":{"amount":"#),
            "{text}"
        );
        assert!(text.contains(r#""memo":"a\u003cb","msgs":[{"type":"cosmos-sdk/MsgSend","value":{"amount""#));
    }

    #[test]
    fn malformed_transactions_are_refused_with_a_reason() {
        let foreign = any("/cosmos.gov.v1.MsgVote", b"x");
        let foreign = Message::default().item(1, Message::default().item(1, foreign)).done();
        assert_eq!(Tx::decode(&foreign), Err("unable to resolve type URL /cosmos.gov.v1.MsgVote".into()));
        for broken in [&b"\xff"[..], b"\x08\x01", b"\x22\x00", b"\x0a\x01\x08"] {
            assert!(Tx::decode(broken).is_err(), "{broken:?}");
        }
    }
}
