//! The limit on separately counted methods, and the names for the others.
//!
//! The transaction of a shipment decides, because only the database knows its methods: a stored method keeps its name,
//! and no failed shipment, restart or second gateway admits more.

use super::rollup::{Rollup, Stream, join};
use crate::caller::{ProjectId, TenantId};
use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;

/// The number of methods per project and hour that are counted separately. Clients can invent names, and each is a row.
pub const MOST: usize = 1_000;

/// The method under which the others are counted.
pub const OTHER: &str = "(other)";

/// The method of an event without one.
pub const NONE: &str = "-";

/// A tenant, a project, and the number of an hour counted from the epoch: the scope of the limit.
pub type MethodScope = (TenantId, ProjectId, u64);

/// Methods that are not counted separately, by scope.
pub type UnseenMethods = BTreeMap<MethodScope, BTreeSet<String>>;

/// Adds the `newcomers` that fit to `there`, the stored methods of a scope. Returns the others.
pub fn admit(there: &mut BTreeSet<String>, newcomers: BTreeSet<String>) -> BTreeSet<String> {
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

/// Returns the rollups with the methods of `unseen` combined, in storage order, with unique names.
pub fn merge<'r>(rollups: &'r [Rollup], unseen: &UnseenMethods) -> Cow<'r, [Rollup]> {
    if unseen.is_empty() {
        return Cow::Borrowed(rollups);
    }
    let mut rollups = rollups.to_vec();
    for rollup in &mut rollups {
        if scope(rollup)
            .and_then(|scope| unseen.get(&scope))
            .is_some_and(|unseen| unseen.contains(&rollup.method))
        {
            rollup.method = OTHER.to_owned();
        }
    }
    join(&mut rollups);
    Cow::Owned(rollups)
}

/// Returns the scope of a rollup's method; `None` if the limit does not apply.
fn scope(rollup: &Rollup) -> Option<MethodScope> {
    let counts = rollup.stream == Stream::Call && rollup.method != OTHER;
    counts.then_some((rollup.tenant, rollup.project, rollup.hour))
}

/// The stored methods as at most 262,144 hashes, so that the database is queried only about new ones. Two names with
/// the same hash admit one method more than [`MOST`].
#[derive(Debug, Default)]
pub struct KnownMethods {
    scopes: HashMap<MethodScope, HashSet<u64, RandomState>, RandomState>,
    hash: RandomState,
    count: usize,
}

/// The number of names at which [`KnownMethods`] is cleared: about 4 MiB.
const MOST_KNOWN: usize = 1 << 18;

impl KnownMethods {
    /// Returns the unknown methods of `rollups`, by scope.
    pub fn unknown(&self, rollups: &[Rollup]) -> UnseenMethods {
        let mut unknown = UnseenMethods::new();
        for rollup in rollups {
            let Some(scope) = scope(rollup) else { continue };
            let hash = self.hash.hash_one(rollup.method.as_str());
            if !self.scopes.get(&scope).is_some_and(|names| names.contains(&hash)) {
                unknown.entry(scope).or_default().insert(rollup.method.clone());
            }
        }
        unknown
    }

    /// Reports whether the database has the maximum number of methods of a scope, so that an unknown one is not in it.
    pub fn is_full(&self, scope: &MethodScope) -> bool {
        self.scopes.get(scope).is_some_and(|names| names.len() >= MOST)
    }

    /// Adds stored `names`.
    pub fn learn<'n>(&mut self, scope: MethodScope, names: impl IntoIterator<Item = &'n str>) {
        if self.count >= MOST_KNOWN {
            self.scopes.clear();
            self.count = 0;
        }
        let known = self.scopes.entry(scope).or_default();
        let before = known.len();
        known.extend(names.into_iter().map(|name| self.hash.hash_one(name)));
        self.count += known.len() - before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::KeyId;
    use crate::transport::Transport;
    use crate::usage::Metrics;

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

    const SCOPE: MethodScope = (TenantId(1), ProjectId(2), 5);

    fn set<'n>(names: impl IntoIterator<Item = &'n str>) -> BTreeSet<String> {
        names.into_iter().map(str::to_owned).collect()
    }

    // Shows (Usage).
    #[test]
    fn existing_methods_stay_and_new_ones_fill_the_rest() {
        let mut there: BTreeSet<String> = (0..MOST - 2).map(|n| format!("m{n:04}")).collect();
        let unseen = admit(&mut there, set(["m0001", "z1", "z2", "z3"]));
        assert_eq!(unseen, set(["z3"]));
        assert_eq!(there.len(), MOST);
        assert!(there.contains("z2"));
        assert_eq!(admit(&mut there, set(["m0001", "z2", "a"])), set(["a"]));
    }

    #[test]
    fn unseen_methods_become_one_row() {
        let rollups = [rollup("(other)", 1), rollup("a", 2), rollup("b", 4), rollup("c", 8)];
        assert!(matches!(merge(&rollups, &UnseenMethods::new()), Cow::Borrowed(_)));
        let unseen =
            UnseenMethods::from([(SCOPE, set(["a", "c"])), ((TenantId(1), ProjectId(9), 5), set(["b"]))]);
        let merged = merge(&rollups, &unseen);
        assert_eq!(*merged, [rollup(OTHER, 11), rollup("b", 4)]);
    }

    #[test]
    fn streams_and_the_rest_are_not_methods() {
        let stream = Rollup { stream: Stream::Connect, ..rollup("WS:connect", 1) };
        let rollups = [stream.clone(), rollup(OTHER, 1), rollup("a", 1), rollup("WS:connect", 1)];
        let unknown = KnownMethods::default().unknown(&rollups);
        assert_eq!(unknown, UnseenMethods::from([(SCOPE, set(["a", "WS:connect"]))]));
        let merged = merge(&rollups, &unknown);
        assert_eq!(*merged, [rollup(OTHER, 3), stream], "the bookkeeping of streams keeps its name");
    }

    #[test]
    fn a_learned_method_is_known_until_the_table_is_full() {
        let mut known = KnownMethods::default();
        let rollups = [rollup("a", 1), rollup("b", 1)];
        known.learn(SCOPE, ["a"]);
        assert_eq!(known.unknown(&rollups), UnseenMethods::from([(SCOPE, set(["b"]))]));
        let later = Rollup { hour: 6, ..rollup("a", 1) };
        assert_eq!(known.unknown(&[later]).len(), 1, "an hour later it is new again");
        assert!(!known.is_full(&SCOPE));
        let names: Vec<String> = (0..MOST_KNOWN).map(|n| n.to_string()).collect();
        for (hour, names) in names.chunks(MOST).enumerate() {
            let scope = (TenantId(7), ProjectId(7), hour as u64);
            known.learn(scope, names.iter().map(String::as_str));
            assert!(known.is_full(&scope) || names.len() < MOST);
        }
        known.learn(SCOPE, ["b"]);
        assert!(known.count <= MOST_KNOWN && known.scopes.len() <= MOST_KNOWN / MOST + 1);
        assert_eq!(known.scopes.values().map(HashSet::len).sum::<usize>(), known.count);
    }
}
