//! Names of methods as usage shows them, and how many of them it tells apart.
//!
//! That is decided in the transaction of a shipment, where it is certain which methods the database has already: a
//! method it has goes on being counted under its name however many are made up after it, and no failed shipment, restart
//! or second gateway lets more in.

use super::fold::join;
use super::rollup::{Rollup, Stream};
use foldhash::fast::RandomState;
use rpcgate_core::caller::{ProjectId, TenantId};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;

/// How many different methods of a project are told apart in an hour (contract, "Usage"). Clients make up names; each
/// is a row.
pub const MOST: usize = 1_000;

/// The method under which the rest is counted.
pub const OTHER: &str = "(other)";

/// The method of an event that names none.
pub const NONE: &str = "-";

/// A method's name as it is stored and shown: what is no UTF-8 is replaced, and so is NUL, which PostgreSQL does not
/// take.
pub fn shown(name: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(name);
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { text }
}

/// A project in an hour.
pub(crate) type MethodScope = (TenantId, ProjectId, u64);

/// Methods that are not to be told apart in a room.
pub(crate) type UnseenMethods = BTreeMap<MethodScope, BTreeSet<String>>;

/// Of a room, what is in the database or will be: `there` and those of `newcomers` that fit. The rest is answered.
pub(crate) fn admit(there: &mut BTreeSet<String>, newcomers: BTreeSet<String>) -> BTreeSet<String> {
    let mut unseen = BTreeSet::new();
    for name in newcomers {
        if there.contains(&name) {
            continue;
        }
        if there.len() < MOST {
            there.insert(name);
        } else {
            unseen.insert(name);
        }
    }
    unseen
}

/// The rollups with the methods of `unseen` as one, in the order they are stored in, no two with the same names.
pub(crate) fn merge<'r>(rollups: &'r [Rollup], unseen: &UnseenMethods) -> Cow<'r, [Rollup]> {
    if unseen.is_empty() {
        return Cow::Borrowed(rollups);
    }
    let mut rollups = rollups.to_vec();
    for rollup in &mut rollups {
        if room(rollup)
            .and_then(|room| unseen.get(&room))
            .is_some_and(|unseen| unseen.contains(&rollup.method))
        {
            rollup.method = OTHER.to_owned();
        }
    }
    join(&mut rollups);
    Cow::Owned(rollups)
}

/// Where the method of a rollup counts; `None` if it does not.
fn room(rollup: &Rollup) -> Option<MethodScope> {
    let counts = rollup.stream == Stream::Call && rollup.method != OTHER;
    counts.then_some((rollup.tenant, rollup.project, rollup.hour))
}

/// Methods that are known to be in the database, so that it is asked only about what seems to be new. It holds hashes
/// of names, at most [`MOST_KNOWN`]: two names with the same hash let one more be told apart than [`MOST`].
#[derive(Debug, Default)]
pub(crate) struct Known {
    rooms: HashMap<MethodScope, HashSet<u64, RandomState>, RandomState>,
    hash: RandomState,
    count: usize,
}

/// At so many names [`Known`] begins anew: some four MiB.
const MOST_KNOWN: usize = 1 << 18;

impl Known {
    /// The methods of `rollups` that are not known, by room.
    pub(crate) fn strangers(&self, rollups: &[Rollup]) -> UnseenMethods {
        let mut strangers = UnseenMethods::new();
        for rollup in rollups {
            let Some(room) = room(rollup) else { continue };
            let hash = self.hash.hash_one(rollup.method.as_str());
            if !self.rooms.get(&room).is_some_and(|names| names.contains(&hash)) {
                strangers.entry(room).or_default().insert(rollup.method.clone());
            }
        }
        strangers
    }

    /// Whether no method that is not known can be in the database.
    pub(crate) fn is_full(&self, room: &MethodScope) -> bool {
        self.rooms.get(room).is_some_and(|names| names.len() >= MOST)
    }

    /// Learns that `names` are in the database.
    pub(crate) fn learn<'n>(&mut self, room: MethodScope, names: impl IntoIterator<Item = &'n str>) {
        if self.count >= MOST_KNOWN {
            self.rooms.clear();
            self.count = 0;
        }
        let known = self.rooms.entry(room).or_default();
        let before = known.len();
        known.extend(names.into_iter().map(|name| self.hash.hash_one(name)));
        self.count += known.len() - before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Metrics;
    use rpcgate_core::caller::KeyId;
    use rpcgate_core::tally::Transport;

    #[test]
    fn a_name_is_shown_as_text_without_nul() {
        assert!(matches!(shown(b"eth_call"), Cow::Borrowed("eth_call")));
        assert_eq!(shown(b"a\0b"), "a\u{fffd}b");
        assert_eq!(shown(b"a\xff\xfe"), "a\u{fffd}\u{fffd}");
        assert_eq!(shown(b"'; DROP TABLE rollups; --"), "'; DROP TABLE rollups; --");
    }

    fn rollup(method: &str, requests: u64) -> Rollup {
        Rollup {
            hour: 5,
            tenant: TenantId(1),
            project: ProjectId(2),
            key: KeyId(3),
            chain: "toy".into(),
            method: method.into(),
            transport: Transport::Http,
            status: 200,
            stream: Stream::Call,
            metrics: Metrics { requests, ..Default::default() },
            window_requests: requests,
        }
    }

    const ROOM: MethodScope = (TenantId(1), ProjectId(2), 5);

    fn set<'n>(names: impl IntoIterator<Item = &'n str>) -> BTreeSet<String> {
        names.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn those_that_are_there_stay_and_newcomers_fill_the_rest() {
        let mut there: BTreeSet<String> = (0..MOST - 2).map(|n| format!("m{n:04}")).collect();
        let unseen = admit(&mut there, set(["m0001", "z1", "z2", "z3"]));
        assert_eq!(unseen, set(["z3"]));
        assert_eq!(there.len(), MOST);
        assert!(there.contains("z2"));
        assert_eq!(admit(&mut there, set(["m0001", "z2", "a"])), set(["a"]));
    }

    #[test]
    fn the_crowd_becomes_one_row() {
        let rollups = [rollup("(other)", 1), rollup("a", 2), rollup("b", 4), rollup("c", 8)];
        assert!(matches!(merge(&rollups, &UnseenMethods::new()), Cow::Borrowed(_)));
        let unseen =
            UnseenMethods::from([(ROOM, set(["a", "c"])), ((TenantId(1), ProjectId(9), 5), set(["b"]))]);
        let merged = merge(&rollups, &unseen);
        assert_eq!(*merged, [rollup(OTHER, 11), rollup("b", 4)]);
    }

    #[test]
    fn streams_and_the_rest_are_no_methods() {
        let stream = Rollup { stream: Stream::Connect, ..rollup("WS:connect", 1) };
        let rollups = [stream.clone(), rollup(OTHER, 1), rollup("a", 1), rollup("WS:connect", 1)];
        let strangers = Known::default().strangers(&rollups);
        assert_eq!(strangers, UnseenMethods::from([(ROOM, set(["a", "WS:connect"]))]));
        let merged = merge(&rollups, &strangers);
        assert_eq!(*merged, [rollup(OTHER, 3), stream], "the bookkeeping of streams keeps its name");
    }

    #[test]
    fn what_was_learnt_is_no_stranger_until_there_is_too_much_of_it() {
        let mut known = Known::default();
        let rollups = [rollup("a", 1), rollup("b", 1)];
        known.learn(ROOM, ["a"]);
        assert_eq!(known.strangers(&rollups), UnseenMethods::from([(ROOM, set(["b"]))]));
        let later = Rollup { hour: 6, ..rollup("a", 1) };
        assert_eq!(known.strangers(&[later]).len(), 1, "an hour later it is new again");
        assert!(!known.is_full(&ROOM));
        let names: Vec<String> = (0..MOST_KNOWN).map(|n| n.to_string()).collect();
        for (hour, names) in names.chunks(MOST).enumerate() {
            let room = (TenantId(7), ProjectId(7), hour as u64);
            known.learn(room, names.iter().map(String::as_str));
            assert!(known.is_full(&room) || names.len() < MOST);
        }
        known.learn(ROOM, ["b"]);
        assert!(known.count <= MOST_KNOWN && known.rooms.len() <= MOST_KNOWN / MOST + 1);
        assert_eq!(known.rooms.values().map(HashSet::len).sum::<usize>(), known.count);
    }
}
