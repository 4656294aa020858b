//! Messages and transactions as cells, and external messages to a wallet.

use super::address::{Address, base64};
use super::cell::{Builder, Cell, Slice, dictionary};
use crate::json::{Json, object};
use std::sync::Arc;

/// A message that an account received or sent.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// `None` for an external message.
    pub(super) source: Option<Address>,
    /// The account that receives it; the sender itself for an external message.
    pub(super) destination: Address,
    /// `true` for an external outgoing message.
    pub(super) is_outside: bool,
    /// In nanotons.
    pub(super) value: u64,
    pub(super) fwd_fee: u64,
    pub(super) created_lt: u64,
    pub(super) cell: Arc<Cell>,
    pub(super) body: Arc<Cell>,
}

/// A transaction: the effect of one incoming message.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) account: Address,
    pub(super) lt: u64,
    /// The height of the workchain block that contains it.
    pub(super) height: u64,
    /// Unix time in seconds.
    pub(super) utime: u64,
    pub(super) incoming: Message,
    pub(super) outgoing: Vec<Message>,
    /// In nanotons, including the fees of sent messages.
    pub(super) fee: u64,
    /// `true` if code ran, which requires an account with code.
    pub(super) is_active: bool,
}

impl Message {
    /// Creates a message between two accounts; `bounce` and the members after it are as the sender wrote them.
    pub(super) fn internal(
        source: Address,
        destination: Address,
        value: u64,
        fwd_fee: u64,
        (created_lt, created_at): (u64, u64),
        (bounce, tail): (bool, &Arc<Cell>),
    ) -> Self {
        let to = Builder::default().bit(false).bit(true).bit(bounce).bit(false);
        let to = destination.write(source.write(to)).coins(value).bit(false).coins(0).coins(fwd_fee);
        let to = to.number(created_lt, 64).number(created_at, 32);
        let body = body_of(&mut tail.slice()).unwrap_or_default();
        // A body that was inline after the shorter head of a message without a sender may not fit after the full head.
        let cell = if to.room() >= tail.slice().left() {
            to.rest(tail.slice()).done()
        } else {
            to.number(0b01, 2).reference(body.clone()).done()
        };
        let source = Some(source);
        let is_outside = false;
        Message { source, destination, is_outside, value, fwd_fee, created_lt, cell, body }
    }

    /// Creates an external message by which a contract reports an event.
    pub(super) fn outside(
        source: Address,
        body: Arc<Cell>,
        fwd_fee: u64,
        (created_lt, created_at): (u64, u64),
    ) -> Self {
        let to = source.write(Builder::default().number(0b11, 2)).number(0, 2);
        let to = to.number(created_lt, 64).number(created_at, 32).number(0b01, 2);
        let cell = to.reference(body.clone()).done();
        Message {
            source: Some(source),
            destination: source,
            is_outside: true,
            value: 0,
            fwd_fee,
            created_lt,
            cell,
            body,
        }
    }

    /// Reads an external message. An error is the reason why it is invalid.
    pub(super) fn external(cell: &Arc<Cell>) -> Result<Self, &'static str> {
        const BROKEN: &str = "cannot unpack external message";
        let mut slice = cell.slice();
        if slice.number(2) != Some(0b10) {
            return Err("external message must begin with ext_in_msg_info$10");
        }
        if slice.number(2) != Some(0) {
            return Err(BROKEN);
        }
        let destination = Address::load(&mut slice).flatten().ok_or(BROKEN)?;
        slice.coins().ok_or(BROKEN)?;
        let body = body_of(&mut slice).ok_or(BROKEN)?;
        let cell = cell.clone();
        let source = None;
        let is_outside = false;
        Ok(Message { source, destination, is_outside, value: 0, fwd_fee: 0, created_lt: 0, cell, body })
    }

    /// Creates an empty external message.
    pub(super) fn nothing(destination: Address) -> Self {
        let cell = Arc::new(Cell::default());
        let body = cell.clone();
        let source = None;
        let is_outside = false;
        Message { source, destination, is_outside, value: 0, fwd_fee: 0, created_lt: 0, cell, body }
    }

    /// Returns the message as TonCenter shows it; `address` writes the friendly form of an address, or no address.
    pub(super) fn json(&self, address: fn(String) -> Json) -> Json {
        let mut slice = self.body.slice();
        let text = match slice.number(32) {
            Some(0) => text_of(slice),
            _ => None,
        };
        let data = match &text {
            Some(text) => object! { "@type": "msg.dataText", "text": base64(text.as_bytes()) },
            None => object! { "@type": "msg.dataRaw", "body": base64(&self.body.bag()), "init_state": "" },
        };
        object! {
            "@type": "raw.message",
            "hash": base64(&self.cell.hash),
            "source": address(self.source.map_or_else(String::new, |source| source.friendly())),
            "destination": address(if self.is_outside { String::new() } else { self.destination.friendly() }),
            "value": self.value.to_string(),
            "extra_currencies": Json::Array(Vec::new()),
            "fwd_fee": self.fwd_fee.to_string(),
            "ihr_fee": "0",
            "created_lt": self.created_lt.to_string(),
            "body_hash": base64(&self.body.hash),
            "msg_data": data,
            "message": text.unwrap_or_default(),
        }
    }
}

/// Returns the text of a comment, which may span several cells.
fn text_of(mut slice: Slice<'_>) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        bytes.extend(slice.bytes(slice.left() / 8)?);
        match slice.reference() {
            Some(next) => slice = next.slice(),
            None => return String::from_utf8(bytes).ok(),
        }
    }
}

/// Returns the part after a message's head: optional code and data for a new account, then the body.
fn body_of(slice: &mut Slice<'_>) -> Option<Arc<Cell>> {
    if slice.bit()? {
        if slice.bit()? {
            slice.reference()?;
        } else {
            // No depth and no special role, then code, data and libraries.
            if slice.bit()? || slice.bit()? {
                return None;
            }
            for _ in 0..3 {
                if slice.bit()? {
                    slice.reference()?;
                }
            }
        }
    }
    if slice.bit()? {
        return slice.reference().cloned();
    }
    Some(Builder::default().rest(slice.clone()).done())
}

/// An order: a message to a wallet of version 4.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) signature: Vec<u8>,
    /// The signed hash.
    pub(super) hash: [u8; 32],
    pub(super) wallet_id: u64,
    pub(super) valid_until: u64,
    pub(super) seqno: u64,
    pub(super) payments: Vec<Payment>,
}

/// One message that a wallet is to send.
#[derive(Debug)]
pub(super) struct Payment {
    pub(super) mode: u64,
    pub(super) destination: Address,
    pub(super) value: u64,
    pub(super) bounce: bool,
    /// The part after the head, as it goes into the message.
    pub(super) tail: Arc<Cell>,
}

impl Order {
    /// Reads the body of a message to a wallet.
    pub(super) fn read(body: &Cell) -> Option<Self> {
        let mut slice = body.slice();
        let signature = slice.bytes(64)?;
        let hash = Builder::default().rest(slice.clone()).done().hash;
        let wallet_id = slice.number(32)?;
        let valid_until = slice.number(32)?;
        let seqno = slice.number(32)?;
        // Plugins are not supported.
        if slice.number(8)? != 0 {
            return None;
        }
        let mut payments = Vec::new();
        while let Some(cell) = slice.reference() {
            payments.push(Payment::read(slice.number(8)?, cell)?);
        }
        Some(Order { signature, hash, wallet_id, valid_until, seqno, payments })
    }
}

impl Payment {
    fn read(mode: u64, cell: &Arc<Cell>) -> Option<Self> {
        let mut slice = cell.slice();
        if slice.bit()? {
            return None;
        }
        let _ = slice.bit()?;
        let bounce = slice.bit()?;
        let _ = slice.bit()?;
        Address::load(&mut slice)?;
        let destination = Address::load(&mut slice)??;
        let value = slice.coins()?;
        if slice.bit()? {
            return None;
        }
        slice.coins()?;
        slice.coins()?;
        slice.number(64)?;
        slice.number(32)?;
        let tail = Builder::default().rest(slice).done();
        body_of(&mut tail.slice())?;
        Some(Payment { mode, destination, value, bounce, tail })
    }
}

impl Step {
    /// Returns the storage fee of the account, in nanotons.
    pub(super) fn storage_fee(&self) -> u64 {
        if self.is_active { 77 } else { 0 }
    }

    /// Returns the transaction as a cell. `before` is the hash and logical time of the account's previous transaction.
    pub(super) fn cell(&self, before: ([u8; 32], u64), states: ([u8; 32], [u8; 32])) -> Arc<Cell> {
        let state = |to: Builder| to.number(if self.is_active { 0b10 } else { 0b00 }, 2);
        let sent: Vec<_> = self
            .outgoing
            .iter()
            .enumerate()
            .map(|(key, message)| (key as u64, message.cell.clone()))
            .collect();
        let out = dictionary(&sent, 15);
        let messages = Builder::default().bit(true).bit(out.is_some()).reference(self.incoming.cell.clone());
        let messages = out.into_iter().fold(messages, Builder::reference).done();
        let forwarded: u64 = self.outgoing.iter().map(|message| message.fwd_fee).sum();
        let update = Builder::default().number(0x72, 8).bytes(&states.0).bytes(&states.1).done();
        let to = Builder::default().number(0b0111, 4).bytes(&self.account.account).number(self.lt, 64);
        let to = to.bytes(&before.0).number(before.1, 64).number(self.utime, 32);
        let to = state(state(to.number(self.outgoing.len() as u64, 15)));
        to.coins(self.fee.saturating_sub(forwarded))
            .bit(false)
            .reference(messages)
            .reference(update)
            .reference(self.description())
            .done()
    }

    /// Encodes the phases of the transaction.
    fn description(&self) -> Arc<Cell> {
        let is_internal = self.incoming.source.is_some();
        let storage = self.storage_fee();
        let to =
            Builder::default().number(0, 4).bit(is_internal).bit(true).coins(storage).bit(false).bit(false);
        let to = if is_internal {
            to.bit(true).bit(false).coins(self.incoming.value).bit(false)
        } else {
            to.bit(false)
        };
        if !self.is_active {
            // The compute phase is skipped.
            return to.bit(false).number(0, 2).bit(false).bit(true).bit(false).bit(false).done();
        }
        let forwarded: u64 = self.outgoing.iter().map(|message| message.fwd_fee).sum();
        let action_fee = forwarded / 2;
        let gas_fee = self.fee.saturating_sub(storage + forwarded + action_fee);
        let run = Builder::default().amount(gas_fee / 400, 3).amount(1_000_000, 3).bit(false).number(0, 8);
        let run = run.number(0, 32).bit(false).number(62, 32).bytes(&[0; 32]).bytes(&[0; 32]).done();
        let count = self.outgoing.len() as u64;
        let acted = Builder::default().number(0b110, 3).bit(false).bit(forwarded != 0);
        let acted = if forwarded != 0 { acted.coins(forwarded + action_fee) } else { acted };
        let acted = acted.bit(action_fee != 0);
        let acted = if action_fee != 0 { acted.coins(action_fee) } else { acted };
        let acted = acted.number(0, 32).bit(false).number(count, 16).number(0, 32).number(count, 16);
        let acted = acted.bytes(&[0; 32]).amount(count, 3).amount(705 * count, 3).done();
        to.bit(true)
            .number(0b100, 3)
            .coins(gas_fee)
            .reference(run)
            .bit(true)
            .reference(acted)
            .bit(false)
            .bit(false)
            .bit(false)
            .done()
    }
}

impl Default for Cell {
    fn default() -> Self {
        Cell::clone(&Builder::default().done())
    }
}
