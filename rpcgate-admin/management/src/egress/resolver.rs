//! Name resolution with limits on slow names.

use parking_lot::Mutex;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::clock::Clock;
use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of concurrent resolutions. The operating system resolves a name in its own thread, which cannot be
/// stopped.
const AT_ONCE: usize = 64;
/// The number of additional resolutions of slow names.
const SLOW_AT_ONCE: usize = 64;
/// The time after which a name is slow, and the time for which all names of its zone then count as slow.
const SLOW: Duration = Duration::from_secs(1);
const REMEMBERED: Duration = Duration::from_secs(300);
const MAX_ZONES: usize = 10_000;

/// Resolves names.
pub trait Resolver: Send + Sync + Debug {
    /// Returns the addresses of `name`.
    ///
    /// # Errors
    /// The reason why the name has no address or cannot be resolved.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// The operating system's resolver. Slow names have their own slots, so that a user who chooses unresponsive names does
/// not delay others.
#[derive(Clone)]
pub struct SystemResolver(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    lookup: Box<Lookup>,
    slow_after: Duration,
    places: Arc<Semaphore>,
    slow_places: Arc<Semaphore>,
    /// Zones with a slow name, and the time at which it was slow.
    slow: Mutex<HashMap<String, Duration>>,
}

impl Debug for SystemResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemResolver").field("slow", &self.0.slow.lock().len()).finish_non_exhaustive()
    }
}

impl SystemResolver {
    /// Makes a resolver that knows no slow zone.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let lookup = |name: &str| Ok((name, 0).to_socket_addrs()?.map(|found| found.ip()).collect());
        SystemResolver::with(clock, Box::new(lookup), SLOW)
    }

    fn with(clock: Arc<dyn Clock>, lookup: Box<Lookup>, slow_after: Duration) -> Self {
        SystemResolver(Arc::new(Shared {
            clock,
            lookup,
            slow_after,
            places: Arc::new(Semaphore::new(AT_ONCE)),
            slow_places: Arc::new(Semaphore::new(SLOW_AT_ONCE)),
            slow: Mutex::default(),
        }))
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let shared = self.0.clone();
            let permit = loop {
                let is_slow = shared.is_slow(zone(name));
                let places = if is_slow { &shared.slow_places } else { &shared.places };
                let permit = places.clone().acquire_owned().await.map_err(io::Error::other)?;
                // Meanwhile, other calls may have found that the zone is slow.
                if is_slow || !shared.is_slow(zone(name)) {
                    break permit;
                }
            };
            // It runs in its own task, because it holds its slot until its thread is free, even if the caller is
            // cancelled.
            let found = tokio::spawn(shared.look_up(name.to_owned(), permit));
            found.await.map_err(io::Error::other)?
        })
    }
}

impl Shared {
    async fn look_up(self: Arc<Self>, name: String, permit: OwnedSemaphorePermit) -> io::Result<Vec<IpAddr>> {
        let permit = Arc::new(Mutex::new(Some(permit)));
        let shared = self.clone();
        let taken = permit.clone();
        let looked_up = name.clone();
        let mut found = tokio::task::spawn_blocking(move || {
            let found = (shared.lookup)(&looked_up);
            drop(taken.lock().take());
            found
        });
        tokio::select! {
            biased;
            found = &mut found => return found.map_err(io::Error::other)?,
            () = tokio::time::sleep(self.slow_after) => {}
        }
        self.remember(zone(&name));
        if let Ok(slow) = self.slow_places.clone().try_acquire_owned() {
            // Its normal slot becomes free for other names.
            if let Some(permit) = permit.lock().as_mut() {
                *permit = slow;
            }
        }
        found.await.map_err(io::Error::other)?
    }

    fn is_slow(&self, zone: &str) -> bool {
        let now = self.clock.elapsed();
        self.slow.lock().get(zone).is_some_and(|at| now.saturating_sub(*at) < REMEMBERED)
    }

    fn remember(&self, zone: &str) {
        let now = self.clock.elapsed();
        let mut slow = self.slow.lock();
        if slow.len() >= MAX_ZONES {
            slow.retain(|_, at| now.saturating_sub(*at) < REMEMBERED);
        }
        if slow.len() < MAX_ZONES {
            slow.insert(zone.to_owned(), now);
        }
    }
}

/// Returns the part of a name that usually has one owner: the last two labels, or three below suffixes such as `co.uk`.
fn zone(name: &str) -> &str {
    let mut labels = name.rsplit('.');
    let last = labels.next().unwrap_or_default();
    let second = labels.next().unwrap_or_default();
    let dots = if last.len() == 2 && second.len() <= 3 { 3 } else { 2 };
    let begin = name.rmatch_indices('.').nth(dots - 1).map(|(at, _)| at + 1);
    begin.and_then(|begin| name.get(begin..)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::clock::{ManualClock, Time};
    use std::sync::mpsc;

    #[test]
    fn a_zone_belongs_to_one_owner() {
        for (name, expected) in [
            ("a.b.evil.example", "evil.example"),
            ("evil.example", "evil.example"),
            ("localhost", "localhost"),
            ("a.shop.co.uk", "shop.co.uk"),
            ("shop.co.uk", "shop.co.uk"),
            ("a.b.firma.de", "firma.de"),
            ("", ""),
        ] {
            assert_eq!(zone(name), expected, "{name}");
        }
    }

    #[tokio::test]
    async fn hanging_name_look_ups_use_no_slots_of_others() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1)));
        let (open, closed) = mpsc::channel::<()>();
        let closed = Mutex::new(closed);
        let lookup = move |name: &str| {
            if name.ends_with("evil.example") {
                // Blocks until the test ends.
                let _ = closed.lock().recv();
            }
            Ok(vec![IpAddr::from([9, 9, 9, 9])])
        };
        let resolver = SystemResolver::with(clock.clone(), Box::new(lookup), Duration::from_millis(20));
        for round in 0..2 {
            for number in 0..AT_ONCE + 1 {
                let resolver = resolver.clone();
                let name = format!("{round}-{number}.evil.example");
                tokio::spawn(async move { resolver.resolve(&name).await });
            }
            // It waits at most until the slots of the first round are free.
            let found = resolver.resolve("good.example").await.unwrap();
            assert_eq!(found, [IpAddr::from([9, 9, 9, 9])]);
        }
        let shared = &resolver.0;
        assert!(shared.is_slow("evil.example") && !shared.is_slow("good.example"));
        assert!(shared.places.available_permits() > 0);
        clock.advance(REMEMBERED);
        assert!(!shared.is_slow("evil.example"));
        drop(open);
    }

    #[test]
    fn the_slow_zones_that_are_remembered_are_bounded() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1)));
        let resolver = SystemResolver::new(clock.clone());
        for number in 0..=MAX_ZONES {
            resolver.0.remember(&format!("{number}.example"));
        }
        assert_eq!(resolver.0.slow.lock().len(), MAX_ZONES);
        clock.advance(REMEMBERED);
        resolver.0.remember("new.example");
        assert_eq!(resolver.0.slow.lock().len(), 1);
    }
}
