//! Turn: what becomes ready within a few turns of the runtime is let go at once, so that it is written in a row and wakes
//! whoever reads it once (`docs/decisions/0012-turns.md`).
//!
//! Calls on their way to a node and answers on their way to a client stand in one line, of which each thread has its own.
//! Whoever comes first leads: it gives way to the runtime once, and again as long as a turn brought others, and then all
//! go. Nobody depends on who leads, for it may be a future that its owner does not poll for a while: whoever follows gives
//! way too, and goes after [`TURNS`] in any case.

use parking_lot::{Mutex, MutexGuard};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// For how many turns anybody waits at most.
const TURNS: u8 = 3;
/// How many follow at most. The next one lets all go.
const FOLLOWERS: usize = 128;

thread_local! {
    static HERE: Arc<Mutex<Line>> = Arc::default();
}

/// Those who wait on one thread.
#[derive(Debug, Default)]
struct Line {
    /// How many groups have gone. Who waits goes when this is no longer what it was.
    gone: u64,
    is_led: bool,
    followers: Vec<Waker>,
    /// An empty list that has its memory already.
    spare: Vec<Waker>,
}

/// Lets all go who wait in `line`. What wakes them runs without the lock: it is whoever's code.
fn let_go(line: &Mutex<Line>, mut here: MutexGuard<'_, Line>) {
    here.gone += 1;
    here.is_led = false;
    let spare = std::mem::take(&mut here.spare);
    let mut woken = std::mem::replace(&mut here.followers, spare);
    drop(here);
    woken.drain(..).for_each(Waker::wake);
    line.lock().spare = woken;
}

/// A wait of one turn of the runtime, or of up to [`TURNS`] while others come who wait too. On a runtime that is not
/// tokio's, a turn is until the next poll.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    line: Arc<Mutex<Line>>,
    /// The line's `gone` when this one came.
    group: u64,
    turns: u8,
    leads: bool,
    /// How many followed at the last look.
    seen: usize,
}

impl Place {
    fn take(waker: &Waker) -> Self {
        let line = HERE.with(Arc::clone);
        let mut here = line.lock();
        let (group, leads) = (here.gone, !here.is_led);
        here.is_led = true;
        if !leads {
            here.followers.push(waker.clone());
        }
        if here.followers.len() > FOLLOWERS {
            let_go(&line, here);
        } else {
            drop(here);
        }
        Place { line, group, turns: 0, leads, seen: 0 }
    }

    /// Whether it may go, asked once a turn.
    fn may_go(&mut self) -> bool {
        self.turns += 1;
        let here = self.line.lock();
        if here.gone != self.group {
            return true;
        }
        let came = here.followers.len() - self.seen;
        if self.turns >= TURNS || (self.leads && came == 0) {
            let_go(&self.line, here);
            return true;
        }
        self.seen += came;
        false
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.leads {
            let here = self.line.lock();
            if here.gone == self.group {
                let_go(&self.line, here);
            }
        }
    }
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.place {
            None => self.place = Some(Place::take(cx.waker())),
            Some(place) => {
                if place.may_go() {
                    self.place = None;
                    return Poll::Ready(());
                }
            }
        }
        pin!(tokio::task::yield_now()).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Somebody who waits, polled by hand: without a runtime giving way rings at once.
    #[derive(Default)]
    struct Waits {
        turn: Turn,
        bell: Arc<Bell>,
    }

    impl Waits {
        fn came() -> Self {
            let mut waits = Waits::default();
            assert!(!waits.goes(), "everybody gives way once");
            waits
        }

        fn goes(&mut self) -> bool {
            let waker = Waker::from(self.bell.clone());
            let goes = Pin::new(&mut self.turn).poll(&mut Context::from_waker(&waker)).is_ready();
            self.bell.0.store(0, Relaxed);
            goes
        }

        fn was_woken(&self) -> bool {
            self.bell.0.load(Relaxed) > 0
        }
    }

    #[test]
    fn who_is_alone_goes_after_one_turn() {
        for _ in 0..3 {
            assert!(Waits::came().goes());
        }
    }

    #[test]
    fn all_go_in_the_first_turn_that_brings_nobody() {
        let mut first = Waits::came();
        let mut second = Waits::came();
        assert!(!first.goes());
        assert!(!second.was_woken() && !second.goes());
        assert!(first.goes());
        assert!(second.was_woken() && second.goes());
    }

    #[test]
    fn who_came_last_goes_in_the_same_turn_as_the_first() {
        let mut first = Waits::came();
        let others: Vec<_> = (1..TURNS)
            .map(|_| {
                let other = Waits::came();
                assert!(!first.goes());
                other
            })
            .collect();
        let mut last = Waits::came();
        assert!(!last.was_woken());
        assert!(first.goes(), "however many come, nobody waits longer");
        assert!(others.iter().all(Waits::was_woken) && last.was_woken());
        assert!(last.goes());
    }

    #[test]
    fn nobody_waits_for_a_leader_that_is_not_polled() {
        let mut first = Waits::came();
        let mut second = Waits::came();
        let mut third = Waits::came();
        for _ in 1..TURNS {
            assert!(!second.goes());
        }
        assert!(second.goes());
        assert!(third.was_woken() && third.goes());
        assert!(Waits::came().goes(), "the next one leads");
        assert!(first.goes());
    }

    #[test]
    fn a_leader_that_is_given_up_lets_the_others_go() {
        let first = Waits::came();
        let mut second = Waits::came();
        drop(first);
        assert!(second.was_woken() && second.goes());
    }

    #[test]
    fn a_leader_whose_group_has_gone_takes_none_of_the_next_with_it() {
        let first = Waits::came();
        let mut second = Waits::came();
        for _ in 0..TURNS {
            second.goes();
        }
        let (mut third, fourth) = (Waits::came(), Waits::came());
        drop(first);
        assert!(!fourth.was_woken());
        assert!(!third.goes() && third.goes() && fourth.was_woken());
    }

    #[test]
    fn when_very_many_wait_they_go_at_once() {
        let first = Waits::came();
        let mut others: Vec<_> = (0..FOLLOWERS).map(|_| Waits::came()).collect();
        assert!(!others.iter().any(Waits::was_woken));
        let mut last = Waits::came();
        assert!(others.iter().all(Waits::was_woken) && others.iter_mut().all(Waits::goes) && last.goes());
        drop(first);
    }

    #[test]
    fn a_leader_that_moves_to_another_thread_lets_those_go_who_came_with_it() {
        let mut first = Waits::came();
        let mut second = Waits::came();
        let mut first = std::thread::spawn(move || {
            let mut other = Waits::came();
            assert!(!first.goes() && first.goes());
            assert!(!other.was_woken() && other.goes(), "it leads a group of its own");
            first
        })
        .join()
        .unwrap();
        assert!(second.was_woken() && second.goes());
        assert!(!first.goes(), "a turn that is over begins anew");
    }
}
