//! The events of one TON transaction.

use super::address::raw;
use super::body::Body;
use super::phases;
use crate::activity::Activity;
use crate::answer::{Amount, TEXT_BYTES, number};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rpcgate_core::event::{ChainEvent, EventFilter, EventType, ReadError};
use serde::Deserialize;

/// The native coin's name in transfers.
const TON: &str = "TON";
/// The name of all jettons in transfers: only the wallet's contract knows which one it is.
const JETTON: &str = "jetton";

/// An address, which some methods wrap in an object. A missing one is empty.
#[derive(Deserialize)]
#[serde(untagged)]
enum Address {
    Text(String),
    Object { account_address: String },
}

impl Address {
    fn raw(&self) -> Result<Option<String>, ReadError> {
        let (Address::Text(text) | Address::Object { account_address: text }) = self;
        match text.as_str() {
            "" => Ok(None),
            text => raw(text).map(Some).ok_or(ReadError::Unreadable("an address")),
        }
    }
}

#[derive(Deserialize)]
struct TransactionId {
    #[serde(deserialize_with = "number")]
    lt: u64,
    hash: String,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    body: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    source: Address,
    destination: Address,
    value: Amount,
    #[serde(default)]
    msg_data: Option<Content>,
}

impl Message {
    fn body(&self) -> Body {
        let text = self.msg_data.as_ref().and_then(|data| data.body.as_deref()).unwrap_or_default();
        Body::read(&STANDARD.decode(text).unwrap_or_default())
    }
}

/// A transaction as `getBlockTransactionsExt` shows it.
#[derive(Deserialize)]
pub(super) struct Transaction {
    #[serde(default)]
    account: Option<String>,
    #[serde(default)]
    address: Option<Address>,
    transaction_id: TransactionId,
    /// The transaction itself, a bag of cells in Base64.
    #[serde(default)]
    data: Option<String>,
    #[serde(default)]
    in_msg: Option<Message>,
    #[serde(default)]
    out_msgs: Vec<Message>,
}

impl Transaction {
    pub(super) fn account(&self) -> Result<String, ReadError> {
        // The account is in raw form there, or in the form of TON's own library, which the address also has.
        let named = self.account.as_deref().and_then(raw);
        let named = match (named, &self.address) {
            (None, Some(address)) => address.raw()?,
            (named, _) => named,
        };
        named.ok_or(ReadError::Unreadable("the account of a transaction"))
    }

    pub(super) fn lt(&self) -> u64 {
        self.transaction_id.lt
    }

    /// Reports its success, if the node shows it.
    fn succeeded(&self) -> Option<bool> {
        phases::succeeded(&STANDARD.decode(self.data.as_deref()?).ok()?)
    }

    pub(super) fn events(&self, filter: &EventFilter, out: &mut Vec<ChainEvent>) -> Result<(), ReadError> {
        let account = self.account()?;
        let event =
            |kind| ChainEvent::new(kind).with("tx_hash", &*self.transaction_id.hash).with("lt", self.lt());
        if filter.wants(EventType::AddressActivity) {
            let mut event = event(EventType::AddressActivity);
            if let Some(succeeded) = self.succeeded() {
                event = event.with("success", succeeded);
            }
            self.activity(&account)?.events(&event, filter, out);
        }
        if filter.wants(EventType::TokenTransfer)
            && let Some(message) = &self.in_msg
            && let Some(source) = message.source.raw()?
        {
            if message.value.0 > 0 {
                let event = event(EventType::TokenTransfer).with("token", TON).with("from", &*source);
                out.push(event.with("to", &*account).with("value", message.value.0.to_string()));
            }
            out.extend(self.jettons(message, event(EventType::TokenTransfer), &account)?);
        }
        if filter.wants(EventType::ContractEvent) {
            for (index, message) in self.out_msgs.iter().enumerate() {
                if message.destination.raw()?.is_some() {
                    continue;
                }
                let mut event =
                    event(EventType::ContractEvent).with("address", &*account).with("index", index);
                if let Body::Other(Some(operation)) = message.body() {
                    event = event.with("opcode", format!("0x{operation:08x}"));
                }
                let body = message.msg_data.as_ref().and_then(|data| data.body.as_deref());
                if let Some(body) = body.filter(|body| body.len() <= TEXT_BYTES) {
                    event = event.with("body", body);
                }
                out.push(event);
            }
        }
        Ok(())
    }

    /// Returns the jetton transfer of the incoming message. A failed one is no transfer, and is returned to its sender
    /// if that requested it.
    fn jettons(
        &self,
        message: &Message,
        event: ChainEvent,
        account: &str,
    ) -> Result<Option<ChainEvent>, ReadError> {
        let Body::JettonReceived { amount, from } = message.body() else { return Ok(None) };
        if self.succeeded() == Some(false) {
            return Ok(None);
        }
        let mut event =
            event.with("token", JETTON).with("jetton_wallet", account).with("value", amount.to_string());
        if let Some(from) = from {
            event = event.with("from", from);
        }
        for sent in &self.out_msgs {
            match sent.body() {
                Body::Bounced => return Ok(None),
                Body::JettonNotified { amount: named } if named == amount => {
                    if let Some(owner) = sent.destination.raw()? {
                        event = event.with("to", owner);
                    }
                }
                _ => {}
            }
        }
        Ok(Some(event))
    }

    fn activity(&self, account: &str) -> Result<Activity, ReadError> {
        let mut activity = Activity::default();
        activity.touches(account);
        if let Some(message) = &self.in_msg
            && let Some(source) = message.source.raw()?
        {
            activity.is_paid(account, "", Some(message.value.0));
            activity.sends(&source);
        }
        for message in &self.out_msgs {
            if let Some(destination) = message.destination.raw()? {
                activity.pays(account, "", Some(message.value.0));
                activity.receives(&destination);
            }
        }
        Ok(activity)
    }
}
