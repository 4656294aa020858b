//! gRPC calls among the open streams. They end for the same reasons, and have the same limits if they are streams.

use super::{CloseReason, KeyStreams, OpenStreams};
use rpcgate_core::caller::{Caller, KeyId, ProjectId};
use rpcgate_core::chain::ChainName;
use rpcgate_core::refusal::Refusal;
use std::future::{Future, pending};
use std::sync::Arc;

/// A gRPC call among the open streams, until it is dropped.
pub(crate) struct CallPermit {
    streams: Arc<OpenStreams>,
    key: Arc<KeyStreams>,
    id: (KeyId, ProjectId),
    is_counted: bool,
}

impl OpenStreams {
    /// Registers a call of `caller`, whose key is `text`, on `chain`, so that it ends when the streams of the key do.
    /// It does not count as a stream yet.
    pub(crate) fn follow(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        text: Option<&str>,
        chain: ChainName,
    ) -> CallPermit {
        let key = self.open.lock().hold(caller, text, chain);
        CallPermit { streams: self.clone(), key, id: (caller.key, caller.project), is_counted: false }
    }
}

impl CallPermit {
    /// Counts the call as a stream, once.
    ///
    /// # Errors
    /// Returns [`Refusal::TooManyStreams`] if the key or its project has reached the limit of its plan.
    pub(crate) fn count(&mut self) -> Result<(), Refusal> {
        if !self.is_counted {
            let caller = self.key.caller();
            self.streams.open.lock().count(&caller)?;
            self.is_counted = true;
        }
        Ok(())
    }

    pub(crate) fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Waits until the call has to end immediately. If a shutdown gives streams some time, calls get all of it.
    pub(crate) fn end_reason(&self) -> impl Future<Output = CloseReason> + Send + 'static {
        let mut endings = self.key.endings();
        async move {
            let ending =
                endings.wait_for(|ending| ending.is_some_and(|ending| ending.spread.is_zero())).await;
            match ending.ok().and_then(|ending| *ending) {
                Some(ending) => ending.reason,
                None => pending().await,
            }
        }
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let (key, project) = self.id;
        let mut open = self.streams.open.lock();
        if self.is_counted {
            open.uncount(project, key);
        }
        open.release(key, &self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::super::StreamLimits;
    use super::super::tests::{ETH, Fixture, KEY, caller};
    use super::*;
    use futures_util::FutureExt;
    use rpcgate_core::secret::KeyHash;
    use std::time::Duration;

    impl Fixture {
        fn follow(&self) -> CallPermit {
            self.streams.follow(&self.caller, Some(KEY), ETH)
        }
    }

    // Shows (Streams).
    #[test]
    fn calls_that_count_share_the_bounds_of_streams_and_others_have_none() {
        let fixture = Fixture::new(caller(1, 1));
        let followed: Vec<_> = (0..9).map(|_| fixture.follow()).collect();
        let mut calls = [fixture.follow(), fixture.follow()];
        let stream = fixture.open();
        assert_eq!((calls[0].count(), calls[0].count()), (Ok(()), Ok(())), "once");
        assert_eq!(calls[1].count(), Err(Refusal::TooManyStreams), "the key has two");
        assert!(fixture.streams.admit(&fixture.caller, Some(KEY), ETH, &StreamLimits::default()).is_err());
        assert_eq!(fixture.streams.count(), 1, "WebSocket streams alone");
        drop(stream);
        assert_eq!(calls[1].count(), Ok(()));
        drop((calls, followed));
        let open = fixture.streams.open.lock();
        assert!(open.keys.is_empty() && open.projects.is_empty(), "nothing is left behind");
    }

    // Shows (Streams).
    #[tokio::test]
    async fn a_call_ends_when_its_key_is_revoked_and_at_the_end_of_a_shutdown() {
        let fixture = Fixture::new(caller(1, 1));
        let call = fixture.follow();
        fixture.streams.check().await;
        assert_eq!(call.end_reason().now_or_never(), None);
        fixture.streams.shut_down(Duration::from_secs(9));
        let late = fixture.follow();
        assert_eq!((call.end_reason().now_or_never(), late.end_reason().now_or_never()), (None, None));
        fixture.streams.shut_down(Duration::ZERO);
        for call in [&call, &late, &fixture.follow()] {
            assert_eq!(call.end_reason().now_or_never(), Some(CloseReason::Shutdown));
        }
        let fixture = Fixture::new(caller(1, 1));
        let call = fixture.follow();
        let ending = call.end_reason();
        fixture.directory.revoke(KeyHash::of(KEY));
        fixture.streams.check().await;
        assert_eq!(ending.now_or_never(), Some(CloseReason::KeyRevoked));
    }
}
