//! The subscriptions, in linked lists by filter key and value.
//!
//! A subscription is linked into two lists, of its endpoint and of its indexed filter value, by links in its slot. So
//! adding and removing one takes constant time.

use super::members::Members;
use super::names::Names;
use super::scalar::{Scalar, ScalarRef};
use super::slab::{NONE, Slab};
use super::{IndexedSubscription, SubscriptionMatch};
use crate::event::EventType;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// The preferred index keys, if their values are as rare as others.
const PREFERRED: [&str; 3] = ["address", "token", "contract"];

#[derive(Clone, Copy, Debug)]
struct Links {
    next: u32,
    previous: u32,
}

const ALONE: Links = Links { next: NONE, previous: NONE };

/// The list that contains a subscription.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// No list: no event can match the subscription.
    Never,
    /// The list of all events of a chain and type.
    ByType(u32),
    /// The list of a value.
    ByValue(u32),
}

#[derive(Debug)]
struct Slot {
    /// In halves, which need less alignment.
    id: [u64; 2],
    endpoint: u32,
    confirmations: u32,
    found: Found,
    /// The list of the indexed value.
    together: Links,
    own: Links,
    rest: Option<Box<Rest>>,
}

/// The filter without its indexed value.
#[derive(Debug)]
struct Rest(Vec<(u32, Scalar)>);

#[derive(Debug)]
struct Endpoint {
    webhook: u128,
    project: u128,
    first: u32,
    /// The list of the project's endpoints.
    own: Links,
}

/// The subscriptions with this value of this key.
#[derive(Debug)]
struct Group {
    list: u32,
    key: u32,
    value: Scalar,
    first: u32,
    count: u32,
}

#[derive(Debug)]
struct TypeList {
    /// The subscriptions without a filter.
    first: u32,
    counts: TypeCounts,
    /// The index keys of the others, with the number of values of each.
    keys: HashMap<u32, u32, RandomState>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TypeCounts {
    pub(super) all: u32,
    pub(super) without_address: u32,
}

#[derive(Debug, Default)]
pub(super) struct SubscriptionTable {
    hasher: RandomState,
    slots: Slab<Slot>,
    by_id: HashTable<u32>,
    endpoints: Slab<Endpoint>,
    by_webhook: HashMap<u128, u32, RandomState>,
    /// The first endpoint of each project.
    by_project: HashMap<u128, u32, RandomState>,
    /// For each chain, the first of one list per event type. They are never removed.
    by_chain: HashMap<Box<str>, u32, RandomState>,
    types: Vec<TypeList>,
    groups: Slab<Group>,
    by_value: HashTable<u32>,
    names: Names,
}

fn halves(id: u128) -> [u64; 2] {
    [(id >> 64) as u64, id as u64]
}

fn joined([high, low]: [u64; 2]) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

impl SubscriptionTable {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn clear(&mut self) {
        *self = SubscriptionTable::default();
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = u128> {
        self.slots.iter().map(|slot| joined(slot.id))
    }

    #[cfg(test)]
    pub(super) fn most_together(&self) -> u32 {
        self.groups.iter().map(|group| group.count).max().unwrap_or_default()
    }

    pub(super) fn chains(&self) -> impl Iterator<Item = &str> {
        let lists = self.by_chain.iter().filter(|(_, first)| {
            let mut lists = self.types.iter().skip(**first as usize).take(EventType::ALL.len());
            lists.any(|list| list.counts.all > 0)
        });
        lists.map(|(chain, _)| &**chain)
    }

    fn list(&self, chain: &str, kind: EventType) -> Option<u32> {
        self.by_chain.get(chain).map(|first| first + kind as u32)
    }

    pub(super) fn counts(&self, chain: &str, kind: EventType) -> Option<TypeCounts> {
        Some(self.types.get(self.list(chain, kind)? as usize)?.counts)
    }

    /// Reports whether the filter of an activity subscription has this address.
    pub(super) fn watches(&self, chain: &str, address: &str) -> bool {
        let key = self.names.get(PREFERRED[0]);
        let list = self.list(chain, EventType::AddressActivity);
        list.zip(key).is_some_and(|(list, key)| self.group(list, key, &ScalarRef::text(address)).is_some())
    }

    pub(super) fn matches(&self, members: &Members<'_>, found: &mut Vec<SubscriptionMatch>) {
        let Some(number) = self.list(members.chain, members.event.kind) else { return };
        let Some(list) = self.types.get(number as usize) else { return };
        self.collect(list.first, members, found);
        if list.keys.is_empty() {
            return;
        }
        for (name, value) in members.each() {
            let Some(key) = self.names.get(name).filter(|key| list.keys.contains_key(key)) else { continue };
            let group = self.group(number, key, &value).and_then(|group| self.groups.get(group));
            if let Some(group) = group {
                self.collect(group.first, members, found);
            }
        }
    }

    /// Adds the subscriptions of a list whose other filter members match.
    fn collect(&self, first: u32, members: &Members<'_>, found: &mut Vec<SubscriptionMatch>) {
        let mut next = first;
        while let Some(slot) = self.slots.get(next) {
            next = slot.together.next;
            let rest = slot.rest.as_deref().map_or(&[][..], |rest| &rest.0);
            let is_met = rest.iter().all(|(key, value)| {
                let name = self.names.name(*key);
                name.and_then(|name| members.get(name)).is_some_and(|own| own == value.as_ref())
            });
            let Some(endpoint) = self.endpoints.get(slot.endpoint).filter(|_| is_met) else { continue };
            found.push(SubscriptionMatch {
                subscription: joined(slot.id),
                webhook: endpoint.webhook,
                project: endpoint.project,
                confirmations: slot.confirmations,
            });
        }
    }

    fn group(&self, list: u32, key: u32, value: &ScalarRef<'_>) -> Option<u32> {
        let hash = self.hasher.hash_one((list, key, value));
        let is_it = |number: &u32| {
            let group = self.groups.get(*number);
            group
                .is_some_and(|group| group.list == list && group.key == key && group.value.as_ref() == *value)
        };
        self.by_value.find(hash, is_it).copied()
    }

    fn slot_of(&self, id: u128) -> Option<u32> {
        let is_it = |number: &u32| self.slots.get(*number).is_some_and(|slot| slot.id == halves(id));
        self.by_id.find(self.hasher.hash_one(halves(id)), is_it).copied()
    }

    pub(super) fn insert(
        &mut self,
        subscription: &IndexedSubscription,
        canonical: &dyn Fn(&str, &str, &str) -> Option<String>,
    ) {
        self.remove(subscription.id);
        // `None` below means that all 2^32 numbers are in use.
        let Some(list) = self.type_list(&subscription.chain, subscription.kind) else { return };
        let Some(endpoint) = self.endpoint(subscription) else { return };
        let slot = Slot {
            id: halves(subscription.id),
            endpoint,
            confirmations: subscription.confirmations,
            found: Found::Never,
            together: ALONE,
            own: ALONE,
            rest: None,
        };
        let Some(number) = self.slots.insert(slot) else { return };
        let slots = &self.slots;
        let hasher = &self.hasher;
        let hash_of = |number: &u32| hasher.hash_one(slots.get(*number).map_or([0, 0], |slot| slot.id));
        self.by_id.insert_unique(hasher.hash_one(halves(subscription.id)), number, hash_of);
        if let Some(endpoint) = self.endpoints.get_mut(endpoint) {
            let second = std::mem::replace(&mut endpoint.first, number);
            link(&mut self.slots, number, second, |slot| &mut slot.own);
        }
        match canonical_filter(subscription, canonical) {
            Some(filter) if filter.is_empty() => self.find_by_type(number, list),
            Some(filter) => {
                let at = self.rarest(list, subscription.kind, &filter);
                self.find_by_value(number, list, filter, at);
            }
            None => {}
        }
    }

    fn find_by_type(&mut self, number: u32, list: u32) {
        let Some(types) = self.types.get_mut(list as usize) else { return };
        types.counts.all += 1;
        types.counts.without_address += 1;
        let second = std::mem::replace(&mut types.first, number);
        link(&mut self.slots, number, second, |slot| &mut slot.together);
        if let Some(slot) = self.slots.get_mut(number) {
            slot.found = Found::ByType(list);
        }
    }

    /// Returns the filter member to index: the one with the rarest value, so that an event is not compared with all
    /// subscriptions to a popular token. Activity is indexed by address for [`watches`](Self::watches).
    fn rarest(&self, list: u32, kind: EventType, filter: &[(&str, Scalar)]) -> usize {
        let cost = |at: &usize| {
            let (name, value) = &filter[*at];
            let is_address = kind == EventType::AddressActivity && *name == PREFERRED[0];
            let group = self.names.get(name).and_then(|key| self.group(list, key, &value.as_ref()));
            let shared = group.and_then(|group| self.groups.get(group)).map_or(0, |group| group.count);
            let preferred = PREFERRED.iter().position(|known| known == name).unwrap_or(PREFERRED.len());
            (!is_address, shared, preferred)
        };
        (0..filter.len()).min_by_key(cost).unwrap_or_default()
    }

    fn find_by_value(&mut self, number: u32, list: u32, mut filter: Vec<(&str, Scalar)>, at: usize) {
        let (name, value) = filter.swap_remove(at);
        let Some(group) = self.group_for(list, name, value) else { return };
        let Some(found) = self.groups.get_mut(group) else { return };
        found.count += 1;
        let second = std::mem::replace(&mut found.first, number);
        link(&mut self.slots, number, second, |slot| &mut slot.together);
        let rest: Vec<_> =
            filter.into_iter().filter_map(|(name, value)| Some((self.names.take(name)?, value))).collect();
        if let Some(slot) = self.slots.get_mut(number) {
            slot.found = Found::ByValue(group);
            slot.rest = (!rest.is_empty()).then(|| Box::new(Rest(rest)));
        }
        if let Some(types) = self.types.get_mut(list as usize) {
            types.counts.all += 1;
            types.counts.without_address += u32::from(name != PREFERRED[0]);
        }
    }

    fn group_for(&mut self, list: u32, name: &str, value: Scalar) -> Option<u32> {
        let known = self.names.get(name).and_then(|key| self.group(list, key, &value.as_ref()));
        if known.is_some() {
            return known;
        }
        let key = self.names.take(name)?;
        let hash = self.hasher.hash_one((list, key, value.as_ref()));
        let number = self.groups.insert(Group { list, key, value, first: NONE, count: 0 })?;
        let groups = &self.groups;
        let hasher = &self.hasher;
        let hash_of = |number: &u32| groups.get(*number).map_or(0, |group| hash_of(hasher, group));
        self.by_value.insert_unique(hash, number, hash_of);
        if let Some(types) = self.types.get_mut(list as usize) {
            *types.keys.entry(key).or_default() += 1;
        }
        Some(number)
    }

    fn type_list(&mut self, chain: &str, kind: EventType) -> Option<u32> {
        if !self.by_chain.contains_key(chain) {
            let first = u32::try_from(self.types.len()).ok()?;
            let list = |_| TypeList { first: NONE, counts: TypeCounts::default(), keys: HashMap::default() };
            self.types.extend(EventType::ALL.map(list));
            self.by_chain.insert(chain.into(), first);
        }
        self.list(chain, kind)
    }

    fn endpoint(&mut self, subscription: &IndexedSubscription) -> Option<u32> {
        let IndexedSubscription { webhook, project, .. } = *subscription;
        if let Some(known) = self.by_webhook.get(&webhook) {
            return Some(*known);
        }
        let number = self.endpoints.insert(Endpoint { webhook, project, first: NONE, own: ALONE })?;
        self.by_webhook.insert(webhook, number);
        let second = self.by_project.insert(project, number).unwrap_or(NONE);
        if let Some(endpoint) = self.endpoints.get_mut(number) {
            endpoint.own.next = second;
        }
        if let Some(second) = self.endpoints.get_mut(second) {
            second.own.previous = number;
        }
        Some(number)
    }

    pub(super) fn remove(&mut self, id: u128) -> bool {
        let Some(number) = self.slot_of(id) else { return false };
        let slots = &self.slots;
        let hasher = &self.hasher;
        let is_it = |other: &u32| *other == number;
        if let Ok(entry) = self.by_id.find_entry(hasher.hash_one(halves(id)), is_it) {
            entry.remove();
        }
        let Some(slot) = slots.get(number) else { return false };
        let endpoint = slot.endpoint;
        let found = slot.found;
        let together = slot.together;
        let own = slot.own;
        unlink(&mut self.slots, together, |slot| &mut slot.together);
        unlink(&mut self.slots, own, |slot| &mut slot.own);
        match found {
            Found::Never => {}
            Found::ByType(list) => self.leave_type(list, number, together.next),
            Found::ByValue(group) => self.leave_group(group, number, together.next),
        }
        self.leave_endpoint(endpoint, number, own.next);
        if let Some(rest) = self.slots.remove(number).and_then(|slot| slot.rest) {
            for (key, _) in rest.0 {
                self.names.give_back(key);
            }
        }
        true
    }

    fn leave_type(&mut self, list: u32, number: u32, next: u32) {
        let Some(types) = self.types.get_mut(list as usize) else { return };
        types.counts.all -= 1;
        types.counts.without_address -= 1;
        if types.first == number {
            types.first = next;
        }
    }

    fn leave_group(&mut self, number: u32, slot: u32, next: u32) {
        let Some(group) = self.groups.get_mut(number) else { return };
        group.count -= 1;
        if group.first == slot {
            group.first = next;
        }
        let list = group.list;
        let key = group.key;
        let is_empty = group.first == NONE;
        let has_address = self.names.get(PREFERRED[0]) == Some(key);
        if let Some(types) = self.types.get_mut(list as usize) {
            types.counts.all -= 1;
            types.counts.without_address -= u32::from(!has_address);
            if is_empty && let Some(values) = types.keys.get_mut(&key) {
                *values -= 1;
                if *values == 0 {
                    types.keys.remove(&key);
                }
            }
        }
        if is_empty && let Some(group) = self.groups.get(number) {
            let hash = hash_of(&self.hasher, group);
            if let Ok(entry) = self.by_value.find_entry(hash, |other| *other == number) {
                entry.remove();
            }
            self.groups.remove(number);
            self.names.give_back(key);
        }
    }

    fn leave_endpoint(&mut self, number: u32, slot: u32, next: u32) {
        let Some(endpoint) = self.endpoints.get_mut(number) else { return };
        if endpoint.first == slot {
            endpoint.first = next;
        }
        if endpoint.first != NONE {
            return;
        }
        let Endpoint { webhook, project, own, .. } = *endpoint;
        self.endpoints.remove(number);
        self.by_webhook.remove(&webhook);
        if let Some(next) = self.endpoints.get_mut(own.next) {
            next.own.previous = own.previous;
        }
        match self.endpoints.get_mut(own.previous) {
            Some(previous) => previous.own.next = own.next,
            None if own.next == NONE => {
                self.by_project.remove(&project);
            }
            None => {
                self.by_project.insert(project, own.next);
            }
        }
    }

    pub(super) fn remove_project(&mut self, project: u128) {
        while let Some(endpoint) =
            self.by_project.get(&project).and_then(|number| self.endpoints.get(*number))
        {
            let Some(id) = self.slots.get(endpoint.first).map(|slot| joined(slot.id)) else { return };
            self.remove(id);
        }
    }
}

fn hash_of(hasher: &RandomState, group: &Group) -> u64 {
    hasher.hash_one((group.list, group.key, group.value.as_ref()))
}

fn link(slots: &mut Slab<Slot>, number: u32, second: u32, links: impl Fn(&mut Slot) -> &mut Links) {
    if let Some(slot) = slots.get_mut(number) {
        *links(slot) = Links { next: second, previous: NONE };
    }
    if let Some(second) = slots.get_mut(second) {
        links(second).previous = number;
    }
}

fn unlink(slots: &mut Slab<Slot>, own: Links, links: impl Fn(&mut Slot) -> &mut Links) {
    if let Some(previous) = slots.get_mut(own.previous) {
        links(previous).next = own.next;
    }
    if let Some(next) = slots.get_mut(own.next) {
        links(next).previous = own.previous;
    }
}

/// Returns the filter in canonical form; `None` if no event can match it.
fn canonical_filter<'s>(
    subscription: &'s IndexedSubscription,
    canonical: &dyn Fn(&str, &str, &str) -> Option<String>,
) -> Option<Vec<(&'s str, Scalar)>> {
    let members = subscription.filter.iter().flatten();
    let member = |(key, value): (&'s String, &serde_json::Value)| {
        let value = Scalar::of(value)?;
        let value = match value.as_text() {
            Some(text) => Scalar::with_text(canonical(&subscription.chain, key, text)?),
            None => value,
        };
        Some((key.as_str(), value))
    };
    members.map(member).collect()
}
