//! The difference between a thread that waits for the disk and one that waits for a processor. Both take long, but only
//! for the first it helps to keep records in memory, where a kill would lose them.

use std::fs;

/// The id of a thread whose id is not known.
const UNKNOWN: u32 = 0;

thread_local! {
    static ID: u32 = id().unwrap_or(UNKNOWN);
}

fn id() -> Option<u32> {
    fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}

pub(super) fn this_thread() -> u32 {
    ID.try_with(|id| *id).unwrap_or(UNKNOWN)
}

/// Reports whether a thread of this process is running or ready to run; false if the operating system does not know.
pub(super) fn is_runnable(thread: u32) -> bool {
    thread != UNKNOWN
        && fs::read_to_string(format!("/proc/self/task/{thread}/stat")).is_ok_and(|stat| {
            // The state follows the name, which may contain anything.
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
        })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    #[test]
    fn a_computing_thread_is_runnable_and_a_waiting_one_is_not() {
        let busy = AtomicU32::new(0);
        let idle = AtomicU32::new(0);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                busy.store(this_thread(), Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let waiting = scope.spawn(|| {
                idle.store(this_thread(), Ordering::Relaxed);
                std::thread::park();
            });
            let of = |thread: &AtomicU32| is_runnable(thread.load(Ordering::Relaxed));
            let both_are_told = || busy.load(Ordering::Relaxed) != 0 && idle.load(Ordering::Relaxed) != 0;
            for _ in 0..10_000 {
                if both_are_told() && of(&busy) && !of(&idle) {
                    break;
                }
                std::thread::yield_now();
            }
            let seen = (of(&busy), of(&idle), is_runnable(UNKNOWN), is_runnable(u32::MAX));
            stop.store(true, Ordering::Relaxed);
            waiting.thread().unpark();
            assert_eq!(seen, (true, false, false, false));
        });
        assert!(is_runnable(this_thread()));
    }
}
