//! Coalesced resumption: futures that become ready within a few polls of the runtime resume together. Their bytes are
//! then written in a row, and the reader is woken once ([decision
//! 12](https://github.com/rpcgate/rpcgate/blob/main/docs/decisions/0012-answers-leave-together.md)).
//!
//! Calls to a node and responses to a client wait in one queue per thread. The first future in the queue is the leader.
//! It yields to the runtime once, and again while each yield adds futures; then all resume. Followers do not depend on
//! the leader, whose owner may not poll it for a while: a follower yields too, and resumes after three yields in any
//! case.
//!
//! A future that yields is woken by the thread on which it yielded. tokio moves neither such a future nor the wait for
//! its sockets away from a blocked thread. So code that finds threads of the runtime blocked, for example by a disk,
//! calls [`resume_everywhere`], and other threads resume the futures that wait there.

use parking_lot::{Mutex, MutexGuard};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use tokio::runtime::Handle;

const YIELDS: u8 = 3;
/// The maximum number of followers. The next one resumes all.
const FOLLOWERS: usize = 128;

/// The queues of all threads that have one.
static EVERYWHERE: Mutex<Vec<Weak<Mutex<Queue>>>> = Mutex::new(Vec::new());

thread_local! {
    static HERE: Arc<Mutex<Queue>> = {
        let here = Arc::new(Mutex::new(Queue { runtime: Handle::try_current().ok(), ..Queue::default() }));
        let mut everywhere = EVERYWHERE.lock();
        everywhere.retain(|queue| queue.strong_count() > 0);
        everywhere.push(Arc::downgrade(&here));
        here
    };
}

/// Resumes the futures that wait on any thread, even a blocked one that would not resume them itself. Lets another
/// thread of the runtime, if any, wait for the sockets.
pub fn resume_everywhere() {
    let queues: Vec<_> = EVERYWHERE.lock().iter().filter_map(Weak::upgrade).collect();
    queues.iter().for_each(|queue| resume_with_leader(queue));
}

fn resume_with_leader(queue: &Mutex<Queue>) {
    // The blocked thread may have been the one that waited for the sockets. Any task wakes another thread, which waits
    // for them after the task.
    let runtime = queue.lock().runtime.clone();
    if let Some(runtime) = runtime {
        runtime.spawn(std::future::ready(()));
    }
    if let Some(leader) = resume_all(queue, queue.lock()) {
        leader.wake();
    }
}

#[derive(Debug, Default)]
struct Queue {
    runtime: Option<Handle>,
    /// The number of groups that have resumed. A waiting future resumes when it changes.
    resumed: u64,
    /// The waker of the first future of the group. Its own yield wakes it; this waker is for [`resume_everywhere`].
    leader: Option<Waker>,
    /// True if the leader is polled after each of its wakes.
    is_prompt: bool,
    followers: Vec<Waker>,
    /// An empty list with allocated memory.
    spare: Vec<Waker>,
}

/// Resumes all futures that wait in `queue` except the leader, which is returned because its own yield wakes it. The
/// wakers are external code, so they run without the lock.
fn resume_all(queue: &Mutex<Queue>, mut here: MutexGuard<'_, Queue>) -> Option<Waker> {
    here.resumed += 1;
    let leader = here.leader.take();
    let spare = mem::take(&mut here.spare);
    let mut woken = mem::replace(&mut here.followers, spare);
    drop(here);
    woken.drain(..).for_each(Waker::wake);
    queue.lock().spare = woken;
    leader
}

/// Waits for one yield to the runtime, or up to [`YIELDS`] while other futures join. On a runtime other than tokio's, a
/// yield lasts until the next poll.
#[derive(Debug, Default)]
pub(crate) struct Coalesce {
    waiting: Option<Waiting>,
    is_prompt: bool,
}

#[cfg(feature = "upstream")]
impl Coalesce {
    /// Creates a future for an owner that has one task and polls this future in every poll of the task, until it is
    /// ready or dropped. If leader and followers are all of this kind, the followers need not yield: they are polled
    /// when the leader resumes.
    pub(crate) const fn prompt() -> Self {
        Coalesce { waiting: None, is_prompt: true }
    }
}

#[derive(Debug)]
struct Waiting {
    queue: Arc<Mutex<Queue>>,
    /// The queue's `resumed` at the time of joining.
    group: u64,
    yields: u8,
    leads: bool,
    /// True if the future relies on its leader and does not yield.
    relies: bool,
    seen: usize,
}

impl Waiting {
    fn take(waker: &Waker, is_prompt: bool) -> Self {
        let queue = HERE.with(Arc::clone);
        let mut here = queue.lock();
        let group = here.resumed;
        let leads = here.leader.is_none();
        let relies = !leads && is_prompt && here.is_prompt;
        if leads {
            here.leader = Some(waker.clone());
            here.is_prompt = is_prompt;
        } else {
            here.followers.push(waker.clone());
        }
        if here.followers.len() > FOLLOWERS {
            resume_all(&queue, here);
        } else {
            drop(here);
        }
        Waiting { queue, group, yields: 0, leads, relies, seen: 0 }
    }

    /// Reports whether the future may resume. Called once per yield, or more often if it relies on its leader.
    fn may_resume(&mut self) -> bool {
        let here = self.queue.lock();
        if here.resumed != self.group || self.relies {
            return here.resumed != self.group;
        }
        self.yields += 1;
        let came = here.followers.len() - self.seen;
        if self.yields >= YIELDS || (self.leads && came == 0) {
            resume_all(&self.queue, here);
            return true;
        }
        self.seen += came;
        false
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.leads {
            let here = self.queue.lock();
            if here.resumed == self.group {
                resume_all(&self.queue, here);
            }
        }
    }
}

impl Future for Coalesce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let is_prompt = self.is_prompt;
        let waiting = match &mut self.waiting {
            Some(waiting) => {
                if waiting.may_resume() {
                    self.waiting = None;
                    return Poll::Ready(());
                }
                waiting
            }
            none => none.insert(Waiting::take(cx.waker(), is_prompt)),
        };
        if waiting.relies { Poll::Pending } else { pin!(tokio::task::yield_now()).poll(cx) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// A waiting future that is polled by hand. Without a runtime, a yield wakes it immediately.
    #[derive(Default)]
    struct Waits {
        turn: Coalesce,
        wakes: Arc<WakeCount>,
    }

    impl Waits {
        fn came() -> Self {
            let mut waits = Waits::default();
            assert!(!waits.goes(), "every future yields once");
            waits
        }

        fn goes(&mut self) -> bool {
            let waker = Waker::from(self.wakes.clone());
            let goes = Pin::new(&mut self.turn).poll(&mut Context::from_waker(&waker)).is_ready();
            self.wakes.0.store(0, Relaxed);
            goes
        }

        fn was_woken(&self) -> bool {
            self.wakes.0.load(Relaxed) > 0
        }
    }

    #[test]
    fn a_future_that_is_alone_resumes_after_one_yield() {
        for _ in 0..3 {
            assert!(Waits::came().goes());
        }
    }

    #[test]
    fn all_resume_in_the_first_turn_without_a_new_future() {
        let mut first = Waits::came();
        let mut second = Waits::came();
        assert!(!first.goes());
        assert!(!second.was_woken() && !second.goes());
        assert!(first.goes());
        assert!(second.was_woken() && second.goes());
    }

    #[test]
    fn the_last_follower_resumes_in_the_same_turn_as_the_leader() {
        let mut first = Waits::came();
        let others: Vec<_> = (1..YIELDS)
            .map(|_| {
                let other = Waits::came();
                assert!(!first.goes());
                other
            })
            .collect();
        let mut last = Waits::came();
        assert!(!last.was_woken());
        assert!(first.goes(), "more followers do not make it wait longer");
        assert!(others.iter().all(Waits::was_woken) && last.was_woken());
        assert!(last.goes());
    }

    #[test]
    fn followers_do_not_wait_for_a_leader_that_is_not_polled() {
        let mut first = Waits::came();
        let mut second = Waits::came();
        let mut third = Waits::came();
        for _ in 1..YIELDS {
            assert!(!second.goes());
        }
        assert!(second.goes());
        assert!(third.was_woken() && third.goes());
        assert!(Waits::came().goes(), "the next one leads");
        assert!(first.goes());
    }

    #[test]
    fn followers_of_a_dropped_leader_resume() {
        let first = Waits::came();
        let mut second = Waits::came();
        drop(first);
        assert!(second.was_woken() && second.goes());
    }

    #[test]
    fn a_leader_whose_group_has_resumed_does_not_resume_the_next_group() {
        let first = Waits::came();
        let mut second = Waits::came();
        for _ in 0..YIELDS {
            second.goes();
        }
        let mut third = Waits::came();
        let fourth = Waits::came();
        drop(first);
        assert!(!fourth.was_woken());
        assert!(!third.goes() && third.goes() && fourth.was_woken());
    }

    #[test]
    fn futures_on_a_blocked_thread_are_resumed_by_another_thread() {
        let (came, has_come) = std::sync::mpsc::channel();
        let (unblock, blocked) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            came.send(([Waits::came(), Waits::came()], HERE.with(Arc::clone))).unwrap();
            blocked.recv().unwrap();
        });
        let ([mut first, mut second], queue) = has_come.recv().unwrap();
        assert!(!first.was_woken() && !second.was_woken());
        assert!(EVERYWHERE.lock().iter().any(|known| known.as_ptr() == Arc::as_ptr(&queue)));
        // Only the futures of that thread: other tests wait on theirs.
        resume_with_leader(&queue);
        assert!(first.was_woken() && first.goes());
        assert!(second.was_woken() && second.goes());
        unblock.send(()).unwrap();
        thread.join().unwrap();
    }

    /// Polls the future. Returns whether it resumes, and whether it has yielded instead.
    fn polled(turn: &mut Coalesce) -> (bool, bool) {
        let wakes = Arc::<WakeCount>::default();
        let waker = Waker::from(wakes.clone());
        let goes = Pin::new(turn).poll(&mut Context::from_waker(&waker)).is_ready();
        (goes, wakes.0.load(Relaxed) > 0)
    }

    #[test]
    fn a_prompt_follower_of_a_prompt_leader_waits_for_it_without_yielding() {
        for is_dropped in [false, true] {
            let mut leader = Coalesce::prompt();
            let mut follower = Coalesce::prompt();
            assert_eq!(polled(&mut leader), (false, true));
            let wakes = Arc::<WakeCount>::default();
            let waker = Waker::from(wakes.clone());
            assert!(Pin::new(&mut follower).poll(&mut Context::from_waker(&waker)).is_pending());
            for _ in 0..2 * YIELDS {
                assert_eq!(polled(&mut follower), (false, false), "whatever else wakes its task");
            }
            assert_eq!(wakes.0.load(Relaxed), 0);
            if is_dropped {
                drop(leader);
            } else {
                assert_eq!((polled(&mut leader), polled(&mut leader)), ((false, true), (true, false)));
            }
            assert_eq!(wakes.0.load(Relaxed), 1);
            assert_eq!(polled(&mut follower), (true, false));
        }
    }

    #[test]
    fn a_follower_of_any_other_leader_and_any_other_follower_yield() {
        for (leads, follows) in [(false, true), (true, false)] {
            let of = |is_prompt| if is_prompt { Coalesce::prompt() } else { Coalesce::default() };
            let mut leader = of(leads);
            let mut follower = of(follows);
            assert_eq!(polled(&mut leader), (false, true));
            for _ in 0..YIELDS {
                assert_eq!(polled(&mut follower), (false, true));
            }
            assert_eq!(polled(&mut follower), (true, false), "although its leader is not polled");
            assert_eq!(polled(&mut leader), (true, false));
        }
    }

    #[test]
    fn very_many_futures_resume_at_once() {
        let first = Waits::came();
        let mut others: Vec<_> = (0..FOLLOWERS).map(|_| Waits::came()).collect();
        assert!(!others.iter().any(Waits::was_woken));
        let mut last = Waits::came();
        assert!(others.iter().all(Waits::was_woken) && others.iter_mut().all(Waits::goes) && last.goes());
        drop(first);
    }

    #[test]
    fn followers_of_a_leader_on_another_thread_resume() {
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
        assert!(!first.goes(), "a new turn begins after the last one");
    }
}
