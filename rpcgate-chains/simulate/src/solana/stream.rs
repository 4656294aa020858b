//! Solana's publish and subscribe API: slots, roots, accounts, programs, logs and signatures. It lacks the
//! subscriptions that a validator disables by default (blocks, votes, slot updates).

use super::SolanaNode;
use super::chain::{Chain, Commitment, Key, SYSTEM, TransactionSignature};
use super::method::{Encoding, commitment, invalid, key, parameter};
use crate::envelope::{Fault, Request};
use crate::hash::{base58, from_base58};
use crate::json::{Json, object};
use crate::ledger::{Payment, ResidentTraffic};
use crate::stream::{
    BlockStream, BlockSubscription, SUBSCRIPTIONS, Sessions, StreamCall, StreamRpc, Subscriptions, answer,
};
use rpcgate_core::clock::Time;
use serde_json::Value;

/// The subscriptions of one client.
pub(crate) type Session = Subscriptions<Subscription>;

#[derive(Debug)]
pub(crate) struct Subscription {
    id: u64,
    subject: Subject,
    commitment: Commitment,
    /// The newest slot that was sent to the client.
    told: u64,
    /// `true` if the subscription ends with its last message.
    is_over: bool,
}

/// The subject of a subscription.
#[derive(Debug)]
enum Subject {
    Slot,
    Root,
    Account(Key, Encoding),
    /// The accounts of a program, if their filters can match: plain accounts have no data.
    Program {
        is_system: bool,
        encoding: Encoding,
    },
    /// The logs of all transactions, or of those that mention an account.
    Logs(Option<Key>),
    Signature(TransactionSignature),
}

impl Subject {
    /// Returns the subject and the name of the notification of a `…Subscribe`; `None` for any other method.
    fn read(method: &str, params: &Value) -> Result<Option<Self>, Fault> {
        let first = parameter(params, 0);
        let options = parameter(params, 1);
        if matches!(method, "accountSubscribe" | "programSubscribe" | "logsSubscribe" | "signatureSubscribe")
            && first.is_null()
        {
            return Err(invalid("`params` should have at least 1 argument(s)"));
        }
        Ok(Some(match method {
            "slotSubscribe" => Subject::Slot,
            "rootSubscribe" => Subject::Root,
            "accountSubscribe" => Subject::Account(key(first)?, Encoding::read(options)?),
            "programSubscribe" => {
                let filters = options["filters"].as_array().cloned().unwrap_or_default();
                let matches = filters.iter().all(|filter| filter["dataSize"] == 0);
                Subject::Program {
                    is_system: key(first)? == SYSTEM && matches,
                    encoding: Encoding::read(options)?,
                }
            }
            "logsSubscribe" => match first {
                Value::String(name) if matches!(name.as_str(), "all" | "allWithVotes") => Subject::Logs(None),
                Value::Object(filter) => {
                    match filter.get("mentions").and_then(Value::as_array).map(Vec::as_slice) {
                        Some([one]) => Subject::Logs(Some(key(one)?)),
                        _ => return Err(invalid("Invalid Request: Only 1 address supported")),
                    }
                }
                _ => return Err(invalid("Invalid params: unknown variant of a filter of logs.")),
            },
            "signatureSubscribe" => {
                let signature = first.as_str().and_then(from_base58);
                Subject::Signature(signature.ok_or_else(|| invalid("Invalid param: WrongSize"))?)
            }
            _ => return Ok(None),
        }))
    }

    fn notification(&self) -> &'static str {
        match self {
            Subject::Slot => "slotNotification",
            Subject::Root => "rootNotification",
            Subject::Account(..) => "accountNotification",
            Subject::Program { .. } => "programNotification",
            Subject::Logs(_) => "logsNotification",
            Subject::Signature(_) => "signatureNotification",
        }
    }
}

/// Returns a notification's value with the slot to which it belongs.
fn in_context(slot: u64, value: Json) -> Json {
    object! { "context": object! { "slot": slot }, "value": value }
}

impl Chain {
    fn concerns(&self, payment: Payment, key: &Key) -> bool {
        [payment.payer, payment.payee].iter().any(|n| self.resident(*n) == *key)
    }

    /// Returns the notifications for a slot.
    fn of_slot(&self, subject: &Subject, slot: u64) -> Vec<Json> {
        match subject {
            Subject::Slot => {
                let root = slot - Commitment::Finalized.lag();
                vec![object! { "parent": slot - 1, "root": root, "slot": slot }]
            }
            Subject::Root => vec![slot.into()],
            Subject::Account(key, encoding) => {
                let is_changed = self.payments(slot).any(|payment| self.concerns(payment, key));
                let account = is_changed.then(|| self.account(key, slot, *encoding)).flatten();
                account.map(|account| in_context(slot, account)).into_iter().collect()
            }
            Subject::Program { is_system: false, .. } => Vec::new(),
            Subject::Program { is_system: true, encoding } => {
                let changed = self.payments(slot).flat_map(|payment| [payment.payer, payment.payee]);
                let shown = changed.filter_map(|n| {
                    let key = self.resident(n);
                    let account = self.account(&key, slot, *encoding)?;
                    Some(in_context(slot, object! { "pubkey": base58(&key), "account": account }))
                });
                shown.collect()
            }
            Subject::Logs(mentioned) => {
                let payments = self.payments(slot);
                let payments =
                    payments.filter(|payment| mentioned.is_none_or(|key| self.mentions(*payment, &key)));
                let shown = payments.map(|payment| {
                    let value = object! {
                        "signature": base58(&self.signature(payment)), "err": Json::Null,
                        "logs": self.logs(payment),
                    };
                    in_context(slot, value)
                });
                shown.collect()
            }
            Subject::Signature(signature) => {
                let is_there = self.slot_of(signature).is_some_and(|sent| sent <= slot);
                if is_there { vec![in_context(slot, object! { "err": Json::Null })] } else { Vec::new() }
            }
        }
    }
}

impl SolanaNode {
    fn subscribe(&mut self, session: &mut Session, subject: Subject, params: &Value) -> Result<Json, Fault> {
        let commitment = match subject {
            Subject::Slot => Commitment::Processed,
            Subject::Root => Commitment::Finalized,
            _ => commitment(parameter(params, 1))?,
        };
        if session.open.len() >= SUBSCRIPTIONS {
            return Err(Fault::new(
                -32603,
                "Internal error: Subscription refused. Node subscription limit reached",
            ));
        }
        self.subscribed += 1;
        // A transaction that is already in a block is reported at once.
        let is_past = matches!(subject, Subject::Signature(_));
        let told = self.chain.head - commitment.lag() - u64::from(is_past);
        let id = self.subscribed;
        session.open.push(Subscription { id, subject, commitment, told, is_over: false });
        Ok(id.into())
    }
}

impl StreamRpc for SolanaNode {
    fn stream_call(
        &mut self,
        session: &mut Session,
        _: &Request,
        method: &str,
        params: Value,
        _: Time,
    ) -> StreamCall<Fault> {
        match Subject::read(method, &params) {
            Err(fault) => return StreamCall::Answer(Err(fault)),
            Ok(Some(subject)) => return StreamCall::Answer(self.subscribe(session, subject, &params)),
            Ok(None) => {}
        }
        let kind = method.strip_suffix("Unsubscribe");
        let Some(kind @ ("slot" | "root" | "account" | "program" | "logs" | "signature")) = kind else {
            return StreamCall::Ordinary(params);
        };
        let notification = format!("{kind}Notification");
        let place = session
            .open
            .iter()
            .position(|open| parameter(&params, 0) == open.id && open.subject.notification() == notification);
        StreamCall::Answer(match place {
            Some(place) => {
                session.open.remove(place);
                Ok(true.into())
            }
            None => Err(invalid("Invalid subscription id.")),
        })
    }
}

impl BlockStream for SolanaNode {
    type Subscription = Subscription;

    fn clients(&mut self) -> &mut Sessions<Session> {
        &mut self.sessions
    }

    fn hear(&mut self, session: &mut Session, message: &[u8], now: Time, out: &mut Vec<String>) {
        answer(self, session, message, now, out);
    }
}

impl BlockSubscription<ResidentTraffic> for Subscription {
    fn sent(&mut self) -> &mut u64 {
        &mut self.told
    }

    fn lag(&self) -> u64 {
        self.commitment.lag()
    }

    fn of_block(&mut self, chain: &Chain, slot: u64) -> Vec<String> {
        let results = chain.of_slot(&self.subject, slot);
        // A signature is reported once.
        self.is_over = !results.is_empty() && matches!(self.subject, Subject::Signature(_));
        let message = |result| {
            let params = object! { "result": result, "subscription": self.id };
            object! { "jsonrpc": "2.0", "method": self.subject.notification(), "params": params }.text()
        };
        results.into_iter().map(message).collect()
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}
