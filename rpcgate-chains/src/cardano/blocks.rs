//! Blocks of Cardano and their events, by Ogmios over WebSocket.
//!
//! Ogmios finds blocks by points (a slot and an id) and returns the blocks after a point. So [`BlockRef::position`] has
//! the block's slot and the points of its known ancestors, at most [`ANCESTORS`], newest first: `slot,slot:id,slot:id`.
//! With them a fork is found from any block after it, unless it is deeper. The parent of the head is unknown.
//!
//! Times are those of slots of one second, which the chain has since the Shelley era.
//!
//! **Activity**: addresses of outputs, with `value` for their lovelace. An input names the output that it spends and
//! not the address, which only an index would know: the direction is `in`, unless the spent output is of the same
//! block. If a script of a transaction fails, its collateral is spent, and `success` is false.
//!
//! **Transfers**: each asset of each output, with only `to`, including change to the same address. The token is
//! `lovelace`, or the policy and, after a dot, the asset's name in hex.
//!
//! **Events of contracts**: the scripts of a transaction's witnesses, its redeemers, and what it mints (or burns, with
//! a negative value).

use super::Cardano;
use super::address::{canonical, token};
use super::shapes::shapes;
use super::transaction::{Transaction, events};
use crate::answer::read;
use crate::following::new_block;
use crate::form::{hex_bytes, lower_hex, program_name};
use crate::kinds::KINDS;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::event::{
    BlockEvents, BlockReader, BlockRef, EventFilter, EventShape, EventType, NodeCalls, ReadError,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The maximum number of ancestors whose points a block's place has.
const ANCESTORS: usize = 12;
/// Ogmios' code if no point is in its chain.
const NO_INTERSECTION: i64 = 1_000;
/// The maximum answers read to reach one block: the way back, ancestors, and rollbacks meanwhile.
const ANSWERS: usize = 4 * ANCESTORS;

#[derive(Deserialize, Clone, PartialEq, Eq)]
struct Point {
    slot: u64,
    id: String,
}

#[derive(Deserialize)]
struct Tip {
    slot: u64,
    id: String,
    height: u64,
}

#[derive(Deserialize)]
struct Intersection {
    intersection: Value,
    tip: Tip,
}

/// The next block, or the point of a rollback. An enum tagged by the direction would buffer the whole answer, including
/// content of senders, and fail on deep nesting, such as metadata.
#[derive(Deserialize)]
struct Next {
    direction: Direction,
    block: Option<Block>,
    point: Option<Value>,
    tip: Tip,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Forward,
    Backward,
}

#[derive(Deserialize)]
struct Block {
    id: String,
    ancestor: String,
    height: u64,
    slot: u64,
    #[serde(default)]
    transactions: Vec<Transaction>,
}

#[derive(Deserialize)]
struct EraStart {
    time: Seconds,
    slot: u64,
}

#[derive(Deserialize)]
struct Seconds {
    seconds: u64,
}

/// Returns the block's own point and those of its ancestors that its place names.
fn points(known: &BlockRef) -> Result<Vec<Point>, ReadError> {
    let mut rows = known.position.split(',');
    let slot = rows.next().and_then(|slot| slot.parse().ok());
    let own = slot.map(|slot| Point { slot, id: known.hash.clone() });
    let others = rows.map(|row| {
        let (slot, id) = row.split_once(':')?;
        Some(Point { slot: slot.parse().ok()?, id: id.to_owned() })
    });
    let points: Option<Vec<Point>> = std::iter::once(own).chain(others.take(ANCESTORS)).collect();
    points.ok_or(ReadError::Unreadable("the place of a known block"))
}

fn position(slot: u64, ancestors: &[Point]) -> String {
    let mut position = slot.to_string();
    for point in ancestors.iter().take(ANCESTORS) {
        position.push_str(&format!(",{}:{}", point.slot, point.id));
    }
    position
}

async fn time(node: &dyn NodeCalls, slot: u64) -> Result<i64, ReadError> {
    const WRONG: ReadError = ReadError::Unreadable("the time of a slot");
    let answer = node.stream_call("queryNetwork/startTime", "{}".into()).await?;
    let start: String = read(&answer, "the start of the network")?;
    let answer = node.stream_call("queryLedgerState/eraStart", "{}".into()).await?;
    let era: EraStart = read(&answer, "the start of the era")?;
    let start = seconds(&start).ok_or(WRONG)?;
    let since = i128::from(era.time.seconds) + i128::from(slot) - i128::from(era.slot);
    i64::try_from(i128::from(start) + since).map_err(|_| WRONG)
}

/// Returns the seconds since 1970 of a time such as `2017-09-23T21:44:51Z`.
fn seconds(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, mark: char, most: [i64; 3]| -> Option<[i64; 3]> {
        let mut parts = text.split(mark);
        let mut next = |most: i64| {
            let part = parts.next()?;
            let is_plain = part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|number| is_plain && *number <= most)
        };
        let numbers = [next(most[0])?, next(most[1])?, next(most[2])?];
        parts.next().is_none().then_some(numbers)
    };
    let [year, month, day] = numbers(date, '-', [9_999, 12, 31])?;
    let [hour, minute, second] = numbers(time.split('.').next()?, ':', [23, 59, 60])?;
    // Days since 1970, with years that begin in March, so that a leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = days + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Returns the index of the newest point of `points` that is in the node's chain, and the chain's tip.
async fn intersect(node: &dyn NodeCalls, points: &[Point]) -> Result<(usize, Tip), ReadError> {
    let rows: Vec<_> = points.iter().map(|point| json!({ "slot": point.slot, "id": point.id })).collect();
    let answer = node.stream_call("findIntersection", json!({ "points": rows }).to_string()).await?;
    let found: Intersection = read(&answer, "an intersection")?;
    let point = Point::deserialize(found.intersection).ok();
    let index = points.iter().position(|known| Some(known) == point.as_ref());
    Ok((index.ok_or(ReadError::Unreadable("an intersection"))?, found.tip))
}

struct Reached {
    block: Block,
    ancestors: Vec<Point>,
}

impl Reached {
    async fn at(&self, node: &dyn NodeCalls) -> Result<BlockRef, ReadError> {
        let Block { id, ancestor, height, slot, .. } = &self.block;
        let at = BlockRef::new(*height, &**id, &**ancestor, time(node, *slot).await?);
        Ok(at.with_position(position(*slot, &self.ancestors)))
    }
}

/// Reads from the point with index `from`, the newest in the node's chain, up to block `height`; `None` if the chain
/// ends before it. `newest` is the height of the first point.
async fn reach(
    node: &dyn NodeCalls,
    points: &[Point],
    newest: u64,
    from: usize,
    height: u64,
) -> Result<Option<Reached>, ReadError> {
    const WRONG: ReadError = ReadError::Unreadable("the next block");
    let mut ancestors = points.get(from..).unwrap_or_default().to_vec();
    let mut last = newest.checked_sub(from as u64).ok_or(WRONG)?;
    for _ in 0..ANSWERS {
        let answer = node.stream_call("nextBlock", "{}".into()).await?;
        let Next { direction, block, point, tip } = read(&answer, "the next block")?;
        match direction {
            Direction::Backward => {
                // The first answer goes back to the intersection. A later one is a fork that the node has just left.
                let point = Point::deserialize(point.ok_or(WRONG)?).map_err(|_| WRONG)?;
                let position = ancestors.iter().position(|known| *known == point).ok_or(WRONG)?;
                ancestors.drain(..position);
                last = last.checked_sub(position as u64).ok_or(WRONG)?;
            }
            Direction::Forward => {
                let block = block.ok_or(WRONG)?;
                let is_next = ancestors.first().is_some_and(|parent| parent.id == block.ancestor);
                if !is_next || last.checked_add(1) != Some(block.height) || block.height > height {
                    return Err(WRONG);
                }
                if block.height == height {
                    return Ok(Some(Reached { block, ancestors }));
                }
                last = block.height;
                ancestors.insert(0, Point { slot: block.slot, id: block.id });
            }
        }
        // At the tip, the next answer would wait for a block.
        if tip.height < height || ancestors.first().is_some_and(|point| point.id == tip.id) {
            return Ok(None);
        }
    }
    Err(WRONG)
}

impl BlockReader for Cardano {
    fn kinds(&self) -> &'static [EventType] {
        KINDS
    }

    fn shapes(&self, kind: EventType) -> Option<&'static [EventShape]> {
        shapes(kind)
    }

    fn head<'a>(&'a self, node: &'a dyn NodeCalls) -> BoxFuture<'a, Result<BlockRef, ReadError>> {
        Box::pin(async move {
            // Every answer about an intersection has the tip with its height.
            let params = r#"{"points":["origin"]}"#;
            let answer = node.stream_call("findIntersection", params.into()).await?;
            let Intersection { tip, .. } = read(&answer, "the tip of the chain")?;
            let at = BlockRef::new(tip.height, tip.id, "", time(node, tip.slot).await?);
            Ok(at.with_position(position(tip.slot, &[])))
        })
    }

    /// Returns `None`, as if the block did not exist, after a fork that is deeper than its known ancestors.
    fn at<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
    ) -> BoxFuture<'a, Result<Option<BlockRef>, ReadError>> {
        Box::pin(async move {
            let points = points(known)?;
            match intersect(node, &points).await {
                Ok((0, _)) => Ok(Some(known.clone())),
                Ok((_, tip)) if tip.height < known.height => Ok(None),
                Ok((from, _)) => match reach(node, &points, known.height, from, known.height).await? {
                    Some(reached) => reached.at(node).await.map(Some),
                    None => Ok(None),
                },
                Err(ReadError::Refused { code: NO_INTERSECTION, .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Returns `None`, as for a missing block, if the chain forked before the known ancestors. The head, and
    /// [`at`](BlockReader::at), show that it is another chain.
    fn after<'a>(
        &'a self,
        node: &'a dyn NodeCalls,
        known: &'a BlockRef,
        filter: &'a EventFilter,
    ) -> BoxFuture<'a, Result<Option<BlockEvents>, ReadError>> {
        Box::pin(async move {
            let points = points(known)?;
            let (from, tip) = match intersect(node, &points).await {
                Err(ReadError::Refused { code: NO_INTERSECTION, .. }) => return Ok(None),
                found => found?,
            };
            if tip.height <= known.height {
                return Ok(None);
            }
            let Some(reached) = reach(node, &points, known.height, from, known.height + 1).await? else {
                return Ok(None);
            };
            let at = reached.at(node).await?;
            let transactions = &reached.block.transactions;
            let mut found = Vec::new();
            if filter.wants(EventType::NewBlock) {
                found.push(new_block(&at, transactions.len()).with("slot", reached.block.slot));
            }
            events(transactions, filter, &mut found);
            Ok(Some(BlockEvents { block: at, events: found }))
        })
    }

    fn canonical(&self, key: &str, value: &str) -> Option<String> {
        match key {
            "address" | "from" | "to" => canonical(value),
            "token" => token(value),
            "tx_hash" | "block_hash" | "parent_hash" => lower_hex(value, 64),
            "script" => lower_hex(value, 56),
            "redeemer" => hex_bytes(value),
            "language" | "purpose" => program_name(value),
            _ => Some(value.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_networks_are_read() {
        for (text, expected) in [
            ("2017-09-23T21:44:51Z", Some(1_506_203_091)),
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2024-02-29T12:00:00.5Z", Some(1_709_208_000)),
            ("2022-06-01T00:00:00Z", Some(1_654_041_600)),
            ("2017-09-23T21:44:51", None),
            ("2017-09-23", None),
            ("2017-13-23T21:44:51Z", None),
            ("2017-09-23T21:44Z", None),
            ("-1-09-23T21:44:51Z", None),
            ("99999999999999999999-01-01T00:00:00Z", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn a_place_names_a_bounded_number_of_ancestors() {
        let point = |slot: u64| Point { slot, id: format!("{slot:x}") };
        let ancestors: Vec<_> = (0..40).rev().map(point).collect();
        let known = BlockRef::new(7, "28", "27", 0).with_position(position(40, &ancestors));
        let read = points(&known).unwrap();
        assert_eq!(read.len(), 1 + ANCESTORS);
        assert!(read[0] == point(40) && read[1] == point(39) && read[ANCESTORS] == point(40 - 12));
        for wrong in ["", "x", "1,", "1,2", "1,x:2"] {
            assert!(points(&known.clone().with_position(wrong)).is_err(), "{wrong}");
        }
        assert_eq!(points(&known.with_position("5")).map(|points| points.len()).ok(), Some(1));
    }
}
