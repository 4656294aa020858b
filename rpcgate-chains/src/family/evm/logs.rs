//! Logs of a block: events of contracts, including token transfers.

use super::signatures::{BATCH, SINGLE, TOPICS, TRANSFER};
use super::text;
use rpcgate_core::event::{ChainEvent, EventFilter, EventType, ReadError};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// The maximum tokens reported per ERC-1155 batch. A log may name 100,000 for the gas of a block.
const MOST_OF_BATCH: usize = 4_096;
const WORD: usize = 64;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawLog<'a> {
    address: String,
    topics: Vec<String>,
    #[serde(borrow)]
    data: Cow<'a, str>,
    block_hash: String,
    transaction_hash: String,
    transaction_index: String,
    log_index: String,
    removed: Option<bool>,
}

pub(super) struct Log {
    address: String,
    topics: Vec<String>,
    data: String,
    tx_hash: String,
    log_index: u64,
    pub(super) tx_index: u64,
}

struct TokenTransfer {
    standard: &'static str,
    from: String,
    to: String,
    operator: Option<String>,
    value: String,
    token_id: Option<String>,
    /// The index in a batch, which may have the same id twice.
    batch_index: Option<usize>,
}

impl RawLog<'_> {
    /// Returns the log, if it is one of the block with this hash.
    ///
    /// # Errors
    /// The log belongs to a different block: the chain was reorganised between two calls, and the block has to be read
    /// again.
    pub(super) fn of_block(self, block: &str) -> Result<Log, ReadError> {
        let wrong = || ReadError::Unreadable("a log is not as its API says");
        if self.removed == Some(true) || !self.block_hash.eq_ignore_ascii_case(block) {
            return Err(ReadError::Unreadable("a log is of another block"));
        }
        if self.topics.len() > 4 {
            return Err(wrong());
        }
        Ok(Log {
            address: text::address(&self.address).ok_or_else(wrong)?,
            topics: self
                .topics
                .iter()
                .map(|topic| text::hash(topic).ok_or_else(wrong))
                .collect::<Result<_, _>>()?,
            data: text::data(&self.data).ok_or_else(wrong)?,
            tx_hash: text::hash(&self.transaction_hash).ok_or_else(wrong)?,
            log_index: text::quantity(&self.log_index).ok_or_else(wrong)?,
            tx_index: text::quantity(&self.transaction_index).ok_or_else(wrong)?,
        })
    }
}

impl Log {
    pub(super) fn push_events(&self, filter: &EventFilter, events: &mut Vec<ChainEvent>) {
        if filter.wants(EventType::ContractEvent) {
            events.push(self.contract_event());
        }
        if !filter.wants(EventType::TokenTransfer) && !filter.wants(EventType::AddressActivity) {
            return;
        }
        for transfer in self.transfers() {
            if filter.wants(EventType::TokenTransfer) {
                events.push(self.with_transfer(ChainEvent::new(EventType::TokenTransfer), &transfer));
            }
            let is_self = transfer.from == transfer.to;
            let parties = [(&transfer.from, "out"), (&transfer.to, "in")];
            for (address, direction) in parties.into_iter().take(if is_self { 1 } else { 2 }) {
                if filter.watches(address) {
                    let event = ChainEvent::new(EventType::AddressActivity)
                        .with("address", address.as_str())
                        .with("direction", if is_self { "self" } else { direction })
                        .with("kind", "token");
                    events.push(self.with_transfer(event, &transfer));
                }
            }
        }
    }

    fn signature(&self) -> Option<&'static str> {
        self.topics.first().and_then(|topic| TOPICS.get(topic)).copied()
    }

    fn contract_event(&self) -> ChainEvent {
        let topics: Vec<Value> = self.topics.iter().map(|topic| topic.as_str().into()).collect();
        let mut event = ChainEvent::new(EventType::ContractEvent)
            .with("address", self.address.as_str())
            .with("topics", topics)
            .with("data", self.data.as_str())
            .with("tx_hash", self.tx_hash.as_str())
            .with("log_index", self.log_index);
        for (name, topic) in ["topic0", "topic1", "topic2", "topic3"].into_iter().zip(&self.topics) {
            event = event.with(name, topic.as_str());
        }
        match self.signature().and_then(|signature| signature.split_once('(')) {
            Some((name, _)) => event.with("event", name),
            None => event,
        }
    }

    fn with_transfer(&self, event: ChainEvent, transfer: &TokenTransfer) -> ChainEvent {
        let mut event = event
            .with("standard", transfer.standard)
            .with("token", self.address.as_str())
            .with("from", transfer.from.as_str())
            .with("to", transfer.to.as_str())
            .with("value", transfer.value.as_str())
            .with("tx_hash", self.tx_hash.as_str())
            .with("log_index", self.log_index);
        if let Some(id) = &transfer.token_id {
            event = event.with("token_id", id.as_str());
        }
        if let Some(index) = transfer.batch_index {
            event = event.with("batch_index", index);
        }
        if let Some(operator) = &transfer.operator {
            event = event.with("operator", operator.as_str());
        }
        event
    }

    fn word(&self, index: usize) -> Option<&str> {
        let start = index.checked_mul(WORD)?.checked_add(2)?;
        self.data.get(start..start.checked_add(WORD)?)
    }

    fn number(&self, index: usize) -> Option<String> {
        self.word(index).and_then(text::decimal)
    }

    /// Returns a word that counts words or bytes of the data.
    fn small(&self, index: usize) -> Option<usize> {
        let (high, low) = self.word(index)?.split_at_checked(WORD - 8)?;
        if high.bytes().any(|digit| digit != b'0') {
            return None;
        }
        usize::from_str_radix(low, 16).ok()
    }

    fn is_of_words(&self, words: usize) -> bool {
        self.data.len() == 2 + words * WORD
    }

    fn topic_address(&self, index: usize) -> Option<String> {
        self.topics.get(index)?.get(2..).and_then(text::address_in)
    }

    /// Returns the log's transfers. Any contract may write a log, so one that breaks its standard has none.
    fn transfers(&self) -> Vec<TokenTransfer> {
        let transfers = match (self.signature(), self.topics.len()) {
            (Some(TRANSFER), 3) => self.fungible().map(|transfer| vec![transfer]),
            (Some(TRANSFER), 4) => self.non_fungible().map(|transfer| vec![transfer]),
            (Some(SINGLE), 4) => self.multiple(|log| {
                log.is_of_words(2).then(|| Some(vec![(log.number(0)?, log.number(1)?)])).flatten()
            }),
            (Some(BATCH), 4) => self.multiple(Log::batch).map(|mut transfers| {
                for (index, transfer) in transfers.iter_mut().enumerate() {
                    transfer.batch_index = Some(index);
                }
                transfers
            }),
            _ => None,
        };
        transfers.unwrap_or_default()
    }

    /// ERC-20 has the parties in its topics and the value in its data.
    fn fungible(&self) -> Option<TokenTransfer> {
        let value = self.number(0).filter(|_| self.is_of_words(1))?;
        Some(TokenTransfer {
            standard: "erc20",
            from: self.topic_address(1)?,
            to: self.topic_address(2)?,
            operator: None,
            value,
            token_id: None,
            batch_index: None,
        })
    }

    /// ERC-721 has the same signature, with the token's id as a fourth topic.
    fn non_fungible(&self) -> Option<TokenTransfer> {
        let id = self.topics.get(3)?.get(2..).and_then(text::decimal).filter(|_| self.is_of_words(0))?;
        Some(TokenTransfer {
            standard: "erc721",
            from: self.topic_address(1)?,
            to: self.topic_address(2)?,
            operator: None,
            value: "1".to_owned(),
            token_id: Some(id),
            batch_index: None,
        })
    }

    /// ERC-1155: one transfer for each pair of id and value.
    fn multiple(&self, pairs: impl Fn(&Self) -> Option<Vec<(String, String)>>) -> Option<Vec<TokenTransfer>> {
        let operator = self.topic_address(1)?;
        let from = self.topic_address(2)?;
        let to = self.topic_address(3)?;
        let transfer = |(id, value)| TokenTransfer {
            standard: "erc1155",
            from: from.clone(),
            to: to.clone(),
            operator: Some(operator.clone()),
            value,
            token_id: Some(id),
            batch_index: None,
        };
        Some(pairs(self)?.into_iter().map(transfer).collect())
    }

    /// Returns the ids and values of a batch: two lists, whose offsets in the data are its first words.
    fn batch(&self) -> Option<Vec<(String, String)>> {
        let list = |index| {
            let index = self.small(index).filter(|index| index.is_multiple_of(32))? / 32;
            Some((index, self.small(index)?))
        };
        let ((ids, count), (values, same)) = (list(0)?, list(1)?);
        if count != same || count > MOST_OF_BATCH {
            return None;
        }
        (1..=count).map(|n| Some((self.number(ids + n)?, self.number(values + n)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::evm::signatures::SIGNATURES;
    use proptest::prelude::*;

    const OPERATOR: &str = "0x00000000000000000000000011111111111111111111111111111111111111aa";
    const FROM: &str = "0x000000000000000000000000222222222222222222222222222222222222bbbb";
    const TO: &str = "0x00000000000000000000000033333333333333333333333333333333333333cc";

    fn topic(signature: &str) -> String {
        TOPICS.iter().find(|(_, known)| **known == signature).unwrap().0.clone()
    }

    fn log(topics: &[&str], words: &[u64]) -> Log {
        Log {
            address: "0xdac17f958d2ee523a2206206994597c13d831ec7".into(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            data: format!("0x{}", words.iter().map(|word| format!("{word:064x}")).collect::<String>()),
            tx_hash: format!("0x{}", "77".repeat(32)),
            log_index: 5,
            tx_index: 2,
        }
    }

    fn events_of(log: &Log, kind: EventType) -> Vec<Value> {
        let mut events = Vec::new();
        log.push_events(&EventFilter::new([kind]), &mut events);
        assert!(events.iter().all(|event| event.kind == kind));
        events.into_iter().map(|event| event.data.into()).collect()
    }

    #[test]
    fn topics_are_the_published_ones() {
        for (signature, topic) in [
            (TRANSFER, "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"),
            (SINGLE, "0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62"),
            (BATCH, "0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb"),
        ] {
            assert_eq!(self::topic(signature), topic);
        }
        assert_eq!(TOPICS.len(), SIGNATURES.len());
    }

    // Shows (Events of chains): EVM chains: transfers are reported by the exact rules of their standards, a batch as
    // one event for each id; a failed transaction moves nothing.
    #[test]
    fn a_transfer_of_erc_20_and_of_erc_721_differ_by_their_topics() {
        let transfer = topic(TRANSFER);
        let fungible = events_of(&log(&[&transfer, FROM, TO], &[1_500]), EventType::TokenTransfer);
        let id = format!("0x{:064x}", 42);
        let single = events_of(&log(&[&transfer, FROM, TO, &id], &[]), EventType::TokenTransfer);
        let common = serde_json::json!({
            "token": "0xdac17f958d2ee523a2206206994597c13d831ec7",
            "from": "0x222222222222222222222222222222222222bbbb",
            "to": "0x33333333333333333333333333333333333333cc",
            "tx_hash": format!("0x{}", "77".repeat(32)),
            "log_index": 5,
        });
        let with = |more: &[(&str, &str)]| {
            let mut all = common.clone();
            more.iter().for_each(|(name, value)| all[*name] = (*value).into());
            vec![all]
        };
        assert_eq!(fungible, with(&[("standard", "erc20"), ("value", "1500")]));
        assert_eq!(single, with(&[("standard", "erc721"), ("value", "1"), ("token_id", "42")]));
    }

    // Shows (Events of chains).
    #[test]
    fn a_batch_is_one_transfer_for_each_id() {
        let single =
            events_of(&log(&[&topic(SINGLE), OPERATOR, FROM, TO], &[9, 3]), EventType::TokenTransfer);
        assert_eq!((single.len(), single[0].get("batch_index")), (1, None));
        assert_eq!(single[0]["operator"], "0x11111111111111111111111111111111111111aa");
        let words = [0x40, 0xa0, 2, 7, 8, 2, 100, 200];
        let batch = log(&[&topic(BATCH), OPERATOR, FROM, TO], &words);
        let pairs: Vec<_> = events_of(&batch, EventType::TokenTransfer)
            .into_iter()
            .map(|event| {
                assert_eq!((&event["standard"], &event["log_index"]), (&"erc1155".into(), &5.into()));
                (event["token_id"].clone(), event["value"].clone())
            })
            .collect();
        assert_eq!(pairs, [("7".into(), "100".into()), ("8".into(), "200".into())]);
    }

    // Shows (Webhooks): No two events of a block are the same.
    #[test]
    fn no_two_transfers_of_a_batch_are_the_same_event() {
        let words = [0x40, 0xa0, 2, 7, 7, 2, 100, 100];
        let batch = log(&[&topic(BATCH), OPERATOR, FROM, TO], &words);
        for kind in [EventType::TokenTransfer, EventType::AddressActivity] {
            let events = events_of(&batch, kind);
            for (index, event) in events.iter().enumerate() {
                assert!(!events[index + 1..].contains(event), "{event}");
            }
        }
    }

    // Shows (Events of chains).
    #[test]
    fn a_batch_beyond_the_bound_reports_no_transfer() {
        let batch = |count: usize| {
            let mut words = vec![0x40, (0x60 + 32 * count) as u64, count as u64];
            words.extend(vec![1; count]);
            words.push(count as u64);
            words.extend(vec![1; count]);
            events_of(&log(&[&topic(BATCH), OPERATOR, FROM, TO], &words), EventType::TokenTransfer).len()
        };
        assert_eq!(batch(MOST_OF_BATCH), MOST_OF_BATCH);
        assert_eq!(batch(MOST_OF_BATCH + 1), 0);
    }

    // Shows (Events of chains).
    #[test]
    fn a_log_that_only_resembles_a_transfer_reports_no_transfer() {
        let transfer = topic(TRANSFER);
        let single = topic(SINGLE);
        let batch = topic(BATCH);
        let dirty = format!("0x01{}", &FROM[4..]);
        for log in [
            log(&[&transfer, FROM, TO], &[]),
            log(&[&transfer, FROM, TO], &[1, 2]),
            log(&[&transfer, &dirty, TO], &[1]),
            log(&[&transfer], &[1, 2, 3]),
            log(&[&transfer, FROM, TO, TO], &[1]),
            log(&[&single, OPERATOR, FROM, TO], &[1]),
            log(&[&single, FROM, TO], &[1, 2]),
            log(&[&batch, OPERATOR, FROM, TO], &[0x40, 0x80, 1, 7]),
            log(&[&batch, OPERATOR, FROM, TO], &[0x40, 0x80, 1, 7, 2, 1, 1]),
            log(&[&batch, OPERATOR, FROM, TO], &[0x41, 0x80, 1, 7, 1, 1]),
            log(&[&batch, OPERATOR, FROM, TO], &[u64::MAX, 0x80, 1, 7, 1, 1]),
            log(&[], &[]),
        ] {
            assert_eq!(events_of(&log, EventType::TokenTransfer), Vec::<Value>::new());
            assert_eq!(events_of(&log, EventType::ContractEvent).len(), 1, "the log itself is told");
        }
    }

    #[test]
    fn a_log_is_reported_with_its_topics_and_a_well_known_name() {
        let log = log(&[&topic("Approval(address,address,uint256)"), FROM, TO], &[1]);
        let event = &events_of(&log, EventType::ContractEvent)[0];
        assert_eq!(event["event"], "Approval");
        assert_eq!((&event["topic1"], &event["topics"][1]), (&FROM.into(), &FROM.into()));
        assert_eq!(event.get("topic3"), None);
        assert_eq!(event["data"], format!("0x{:064x}", 1));
    }

    #[test]
    fn both_parties_of_a_transfer_are_active_once() {
        let log = |to| log(&[&topic(TRANSFER), FROM, to], &[1]);
        let directions = |events: Vec<Value>| {
            let shown = |event: &Value| (event["address"].clone(), event["direction"].clone());
            events.iter().map(shown).collect::<Vec<_>>()
        };
        let address = |word: &str| Value::from(format!("0x{}", &word[26..]));
        assert_eq!(
            directions(events_of(&log(TO), EventType::AddressActivity)),
            [(address(FROM), "out".into()), (address(TO), "in".into())]
        );
        let own = events_of(&log(FROM), EventType::AddressActivity);
        assert_eq!(own[0]["kind"], "token");
        assert_eq!(directions(own), [(address(FROM), "self".into())]);
    }

    proptest! {
        #[test]
        fn no_data_is_too_strange(
            signature in 0..SIGNATURES.len(),
            topics in proptest::collection::vec("0x0{24}[0-9a-f]{40}", 0..4),
            words in proptest::collection::vec(prop_oneof![0u64..12, (0u64..12).prop_map(|n| n * 32), any::<u64>()], 0..12),
        ) {
            let first = topic(SIGNATURES[signature]);
            let mut all = vec![first.as_str()];
            all.extend(topics.iter().map(String::as_str));
            let log = log(&all, &words);
            let transfers = events_of(&log, EventType::TokenTransfer);
            prop_assert!(transfers.len() <= words.len().max(1));
            prop_assert!(transfers.iter().all(|event| event["value"].is_string()));
        }
    }
}
