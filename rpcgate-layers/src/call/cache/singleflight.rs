//! Calls in flight: the leader that sends each call, its followers, and its outcome.
//!
//! Nearly all calls have no follower, so leading allocates nothing: a call in flight is found by the bytes of its own
//! request body, and the first follower allocates the slot for the outcome.

use bytes::Bytes;
use hashbrown::HashTable;
use parking_lot::Mutex;
use rpcgate_core::backend::reply_store::ReplySought;
use rpcgate_core::caller::ProjectId;
use rpcgate_core::chain::ChainName;
use rpcgate_core::fault::Fault;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::Form;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;

const SHARDS: usize = 64;
/// The age at which a call in flight gets no more followers. Its node may be stuck, and others with the same request
/// must not all wait for it. So the same slow call is sent at most once in this time.
pub(super) const JOINABLE: Duration = Duration::from_secs(2);

/// All calls in flight that others may follow.
#[derive(Debug)]
pub struct SingleFlight {
    map: Arc<Map>,
}

#[derive(Debug)]
struct Map {
    shards: [Shard; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    flying: Mutex<Flying>,
    /// The number of calls that have ended in this shard; changed only under the lock.
    landed: AtomicU64,
}

#[derive(Debug, Default)]
struct Flying {
    table: HashTable<SharedCall>,
    /// The number of calls that have begun in this shard.
    begun: u64,
}

impl Default for SingleFlight {
    fn default() -> Self {
        SingleFlight { map: Arc::new(Map { shards: std::array::from_fn(|_| Shard::default()) }) }
    }
}

impl Map {
    fn shard(&self, hash: u64) -> &Shard {
        // The tables use the lowest and the highest bits of the hash.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    fn followers(&self, name: SharedCallName) -> usize {
        let flying = self.shard(name.hash).flying.lock();
        let shared_call = flying.table.find(name.hash, |shared_call| shared_call.name == name);
        shared_call
            .and_then(|shared_call| shared_call.followers.as_ref())
            .map_or(0, |followers| followers.count())
    }

    /// Reports whether a later identical call has begun because this one took too long.
    fn is_superseded(&self, name: SharedCallName) -> bool {
        let flying = self.shard(name.hash).flying.lock();
        let shared_call = flying.table.find(name.hash, |shared_call| shared_call.name == name);
        shared_call.is_some_and(|shared_call| shared_call.is_superseded)
    }

    /// Ends a call. `landing` is called only if the call has followers.
    fn land(&self, name: SharedCallName, landing: impl FnOnce() -> LeadOutcome) {
        let shard = self.shard(name.hash);
        let mut flying = shard.flying.lock();
        let landed = flying.table.find_entry(name.hash, |shared_call| shared_call.name == name);
        let shared_call = landed.ok().map(|entry| entry.remove().0);
        // Changed only under the lock, so no end is lost between load and store.
        shard.landed.store(shard.landed.load(Ordering::Relaxed) + 1, Ordering::Release);
        drop(flying);
        // Followers join under the lock, so no more can join here.
        if let Some(followers) = shared_call.and_then(|shared_call| shared_call.followers)
            && followers.count() > 0
        {
            let _ = followers.landing.set(Box::new(landing()));
            followers.landed.notify_waiters();
        }
    }
}

/// A call in flight, found by its key or by its name.
#[derive(Debug)]
struct SharedCall {
    name: SharedCallName,
    begun_at: Duration,
    /// True once a later identical call gets the new followers.
    is_superseded: bool,
    chain: ChainName,
    epoch: u32,
    /// Contains method and parameters; usually the body of the request.
    text: Bytes,
    method: Range<usize>,
    params: Range<usize>,
    /// `None` until the first follower.
    followers: Option<Arc<Followers>>,
}

/// A hash, and a number that is unique in the shard of the hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SharedCallName {
    hash: u64,
    number: u64,
}

impl SharedCall {
    fn new(name: SharedCallName, begun_at: Duration, sought: &ReplySought<'_>, body: &Bytes) -> Self {
        let method = sought.method();
        let params = sought.params();
        let (text, method, params) = match (range_within(body, method), range_within(body, params)) {
            (Some(method), Some(params)) => (body.clone(), method, params),
            _ => {
                ([method, params].concat().into(), 0..method.len(), method.len()..method.len() + params.len())
            }
        };
        SharedCall {
            name,
            begun_at,
            is_superseded: false,
            chain: sought.chain(),
            epoch: sought.epoch(),
            text,
            method,
            params,
            followers: None,
        }
    }

    fn is(&self, sought: &ReplySought<'_>) -> bool {
        self.name.hash == sought.hashed()
            && self.chain == sought.chain()
            && self.epoch == sought.epoch()
            && self.text.get(self.method.clone()) == Some(sought.method())
            && self.text.get(self.params.clone()) == Some(sought.params())
    }
}

/// Returns the position of `part` in `outer` if it is a slice of it.
fn range_within(outer: &[u8], part: &[u8]) -> Option<Range<usize>> {
    if part.is_empty() {
        return Some(0..0);
    }
    let start = part.as_ptr().addr().checked_sub(outer.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (end <= outer.len()).then_some(start..end)
}

#[derive(Debug, Default)]
struct Followers {
    count: AtomicUsize,
    landing: OnceLock<Box<LeadOutcome>>,
    landed: Notify,
}

impl Followers {
    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// The outcome of a call that others follow.
#[derive(Clone, Debug)]
pub(super) enum LeadOutcome {
    Answered(Form),
    /// No node could serve the call, as this error says.
    Unserved(Form),
    Failed(Fault),
    /// The call was refused, as a call of this project.
    Refused(Refusal, ProjectId),
    /// The outcome says nothing about the followers' calls: each follower sends its own.
    Unshared,
    /// The leader was dropped before its end. One follower may become the leader.
    Lost,
}

#[derive(Debug)]
pub(super) enum Joined {
    Lead(Lead),
    Follow(Follow),
}

/// A snapshot of the number of ended calls in a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Landed(u64);

impl SingleFlight {
    /// Returns the number of calls that have ended in the shard of `sought`. Read it before the look-up in the store:
    /// if the look-up finds nothing and the call then leads without an end in between, it has missed no answer.
    pub(super) fn landed(&self, sought: &ReplySought<'_>) -> Landed {
        Landed(self.map.shard(sought.hashed()).landed.load(Ordering::Acquire))
    }

    /// Follows an identical call that is not too old at `now`, or leads a new one. `body` is the buffer that most
    /// likely contains the parts of `sought`.
    pub(super) fn join(&self, sought: &ReplySought<'_>, body: &Bytes, now: Duration) -> Joined {
        let hash = sought.hashed();
        let shard = self.map.shard(hash);
        let mut flying = shard.flying.lock();
        let is_match = |shared_call: &SharedCall| !shared_call.is_superseded && shared_call.is(sought);
        if let Some(shared_call) = flying.table.find_mut(hash, is_match) {
            if now.saturating_sub(shared_call.begun_at) < JOINABLE {
                let followers = shared_call.followers.get_or_insert_default().clone();
                followers.count.fetch_add(1, Ordering::Relaxed);
                return Joined::Follow(Follow { name: shared_call.name, followers });
            }
            shared_call.is_superseded = true;
        }
        flying.begun += 1;
        let name = SharedCallName { hash, number: flying.begun };
        let shared_call = SharedCall::new(name, now, sought, body);
        flying.table.insert_unique(hash, shared_call, |shared_call| shared_call.name.hash);
        let since = Landed(shard.landed.load(Ordering::Relaxed));
        drop(flying);
        Joined::Lead(Lead { name, begun_at: now, own: 0, since })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.map.shards.iter().all(|shard| shard.flying.lock().table.is_empty())
    }
}

/// The duty to fetch an answer for the followers. It belongs to [`Leads`], which end it in any case.
#[must_use = "followers would wait for ever"]
#[derive(Debug)]
pub(super) struct Lead {
    name: SharedCallName,
    begun_at: Duration,
    own: usize,
    since: Landed,
}

impl Lead {
    /// Reports whether a call may have ended after `landed` was read and before this one began.
    pub(super) fn is_later_than(&self, landed: Landed) -> bool {
        self.since != landed
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct EndingLead<'a> {
    map: &'a Map,
    lead: &'a Lead,
}

impl EndingLead<'_> {
    pub(super) fn hash(self) -> u64 {
        self.lead.name.hash
    }

    /// Reports whether a later identical call has begun at `now`. It may have brought a newer answer.
    pub(super) fn is_superseded(self, now: Duration) -> bool {
        // The age check avoids the lock in nearly all cases.
        now.saturating_sub(self.lead.begun_at) >= JOINABLE && self.map.is_superseded(self.lead.name)
    }
}

/// The calls that a set leads, with the positions of their entries. Dropping it loses the calls that have not ended,
/// and their followers are notified.
#[derive(Debug, Default)]
pub(super) struct Leads {
    map: Option<Arc<Map>>,
    list: SmallVec<[(usize, Lead); 1]>,
    /// The number of ended calls.
    over: usize,
}

impl Leads {
    pub(super) fn push(&mut self, in_flight: &SingleFlight, index: usize, lead: Lead, more: usize) {
        self.map.get_or_insert_with(|| in_flight.map.clone());
        if self.list.is_empty() && more > 0 {
            self.list.reserve(1 + more);
        }
        self.list.push((index, lead));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Counts `follow` if it follows one of these calls. Such a follower ends with the set and keeps no call alive.
    pub(super) fn own(&mut self, follow: &Follow) {
        if let Some((_, lead)) = self.list.iter_mut().find(|(_, lead)| lead.name == follow.name) {
            lead.own += 1;
        }
    }

    /// Reports whether another set waits for one of these calls.
    pub(super) fn is_followed(&self) -> bool {
        let Some(map) = &self.map else { return false };
        let left = self.list.get(self.over..).unwrap_or_default();
        left.iter().any(|(_, lead)| map.followers(lead.name) > lead.own)
    }

    pub(super) fn land_last(&mut self, landing: LeadOutcome) {
        if let Some(map) = &self.map
            && let Some((_, lead)) = self.list.pop()
        {
            map.land(lead.name, || landing);
        }
    }

    /// Reports whether a later identical call has begun at `now`, because the first of these calls took too long.
    pub(super) fn is_superseded(&self, now: Duration) -> bool {
        let (Some(map), Some((_, lead))) = (&self.map, self.list.first()) else { return false };
        EndingLead { map, lead }.is_superseded(now)
    }

    /// Ends all calls. `keep` is called first with the position of each; `landing` is called only if the call has
    /// followers.
    pub(super) fn land(
        mut self,
        mut keep: impl FnMut(usize, EndingLead<'_>),
        landing: impl Fn(usize) -> LeadOutcome,
    ) {
        let Some(map) = self.map.clone() else { return };
        while let Some((index, lead)) = self.list.get(self.over) {
            keep(*index, EndingLead { map: &map, lead });
            self.over += 1;
            map.land(lead.name, || landing(*index));
        }
    }
}

impl Drop for Leads {
    fn drop(&mut self) {
        let Some(map) = &self.map else { return };
        for (_, lead) in self.list.get(self.over..).unwrap_or_default() {
            map.land(lead.name, || LeadOutcome::Lost);
        }
    }
}

#[derive(Debug)]
pub(super) struct Follow {
    name: SharedCallName,
    followers: Arc<Followers>,
}

impl Follow {
    pub(super) async fn landing(&self) -> LeadOutcome {
        loop {
            let mut landed = std::pin::pin!(self.followers.landed.notified());
            // Enabled before the check, so that an end in between wakes this task.
            landed.as_mut().enable();
            if let Some(landing) = self.followers.landing.get() {
                return (**landing).clone();
            }
            landed.await;
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.followers.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::chain::ChainName;

    const NOW: Duration = Duration::from_secs(100);
    const BODY: Bytes = Bytes::from_static(br#"{"method":"toy_read","params":[1]}"#);

    fn sought(params: &[u8]) -> ReplySought<'_> {
        ReplySought::new(ChainName::new("toy"), b"toy_read", params)
    }

    /// Returns the leads, and whether they may have missed an end since `landed`.
    fn lead(in_flight: &SingleFlight, landed: Landed) -> (Leads, bool) {
        let Joined::Lead(lead) = in_flight.join(&sought(b"[1]"), &BODY, NOW) else {
            panic!("another call leads")
        };
        let mut leads = Leads::default();
        let is_later = lead.is_later_than(landed);
        leads.push(in_flight, 0, lead, 0);
        (leads, is_later)
    }

    fn follow(in_flight: &SingleFlight) -> Follow {
        let Joined::Follow(follow) = in_flight.join(&sought(b"[1]"), &BODY, NOW) else {
            panic!("it is led already")
        };
        follow
    }

    #[test]
    fn a_leader_is_informed_of_a_landing_that_its_look_up_missed() {
        let in_flight = SingleFlight::default();
        let before = in_flight.landed(&sought(b"[1]"));
        let (mut first, is_later) = lead(&in_flight, before);
        assert!(!is_later, "no call has landed");
        first.land_last(LeadOutcome::Lost);
        let (second, is_later) = lead(&in_flight, before);
        assert!(is_later);
        drop(second);
        let now = in_flight.landed(&sought(b"[1]"));
        assert_ne!(now, before);
        assert!(!lead(&in_flight, now).1);
        assert!(in_flight.is_empty());
    }

    #[test]
    fn the_outcome_of_a_call_without_followers_is_not_built() {
        let in_flight = SingleFlight::default();
        let nothing = || in_flight.landed(&sought(b"[1]"));
        lead(&in_flight, nothing()).0.land(|_, _| {}, |_| panic!("there is no follower"));
        let (first, _) = lead(&in_flight, nothing());
        drop(follow(&in_flight));
        assert!(!first.is_followed());
        first.land(|_, _| {}, |_| panic!("there is no follower left"));
    }

    #[tokio::test]
    async fn followers_that_a_dropped_set_has_not_answered_get_lost() {
        let in_flight = SingleFlight::default();
        let (mut leads, _) = lead(&in_flight, in_flight.landed(&sought(b"[1]")));
        let Joined::Lead(other) = in_flight.join(&sought(b"[2]"), &BODY, NOW) else {
            panic!("no call leads it")
        };
        leads.push(&in_flight, 1, other, 0);
        let followers = [follow(&in_flight), follow(&in_flight)];
        assert!(leads.is_followed());
        leads.own(&followers[0]);
        assert!(leads.is_followed(), "the other one belongs to another set");
        leads.own(&followers[1]);
        assert!(!leads.is_followed());
        let failing =
            std::panic::AssertUnwindSafe(|| leads.land(|_, _| panic!("no room"), |_| LeadOutcome::Lost));
        assert!(std::panic::catch_unwind(failing).is_err());
        for follow in followers {
            assert!(matches!(follow.landing().await, LeadOutcome::Lost));
        }
        assert!(in_flight.is_empty());
    }

    #[test]
    fn a_call_that_takes_long_is_joined_no_more_and_a_later_one_is() {
        let in_flight = SingleFlight::default();
        let at = |millis| NOW + Duration::from_millis(millis);
        let join = |now| in_flight.join(&sought(b"[1]"), &BODY, now);
        let (first, _) = lead(&in_flight, in_flight.landed(&sought(b"[1]")));
        assert!(matches!(join(at(1_999)), Joined::Follow(_)));
        assert!(!first.is_superseded(at(2_000)), "no call has come since");
        let Joined::Lead(later) = join(at(2_000)) else { panic!("the first one takes too long") };
        let mut second = Leads::default();
        second.push(&in_flight, 0, later, 0);
        let Joined::Follow(followed) = join(at(3_999)) else { panic!("another one leads") };
        assert_eq!(followed.name, second.list[0].1.name);
        assert!(first.is_superseded(at(3_999)) && !second.is_superseded(at(3_999)));
        first.land(|_, lead| assert!(lead.is_superseded(at(4_000))), |_| LeadOutcome::Lost);
        assert!(matches!(join(at(3_999)), Joined::Follow(_)), "the end of the first one changes nothing");
        drop(second);
        assert!(in_flight.is_empty());
    }

    #[test]
    fn a_call_is_found_by_all_its_bytes_in_any_buffer() {
        let in_flight = SingleFlight::default();
        let chain = ChainName::new("toy");
        let method = BODY.slice(11..19);
        let params = BODY.slice(30..33);
        let within = ReplySought::new(chain, &method, &params);
        assert_eq!((within.method(), within.params()), (&b"toy_read"[..], &b"[1]"[..]));
        let mut leads = Leads::default();
        for (index, sought) in
            [within, ReplySought::new(chain, b"toy_read", b""), sought(b"[1 ]")].iter().enumerate()
        {
            let Joined::Lead(lead) = in_flight.join(sought, &BODY, NOW) else {
                panic!("{sought:?} is another call")
            };
            leads.push(&in_flight, index, lead, 0);
        }
        for sought in [sought(b"[1]"), sought(b""), sought(b"[1 ]")] {
            assert!(matches!(in_flight.join(&sought, &BODY, NOW), Joined::Follow(_)), "{sought:?}");
        }
        let elsewhere = ReplySought::new(ChainName::new("toz"), b"toy_read", b"[1]");
        let Joined::Lead(lead) = in_flight.join(&elsewhere, &BODY, NOW) else { panic!("another chain's") };
        leads.push(&in_flight, 3, lead, 0);
        drop(leads);
        assert!(in_flight.is_empty());
    }
}
