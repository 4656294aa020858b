//! Method lists: a project's allow and block lists, and the methods that an operator has blocked on a chain.
//!
//! The layer comes before the plan windows, so a method that a project may not call uses none of its requests. It also
//! refuses debugging methods where they are forbidden, before any budget is checked. The layer refuses with
//! [`Refusal::NotPermitted`] and [`Refusal::DebugForbidden`].
//!
//! ```
//! use rpcgate_core::call::CallView;
//! use rpcgate_core::chain::{ChainName, MethodRule};
//! use rpcgate_layers::call::lists::ListsLayer;
//! use rpcgate_layers::testing::Fixture;
//! use std::convert::Infallible;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let blocked = Box::from(&b"toy_send"[..]);
//! let Fixture { caller, clock, .. } = Fixture::with_caller(|caller| caller.lists.blocked = [blocked].into());
//! let layer = ListsLayer::new().with_call(clock, move |request: &http::Request<&'static str>| {
//!     let call = CallView::new(ChainName::new("toy"), request.body(), MethodRule::UNLISTED);
//!     Some((caller.clone().into(), call))
//! });
//! let inner = service_fn(async |_: http::Request<&'static str>| Ok::<_, Infallible>(http::Response::new(bytes::Bytes::new())));
//! let service = layer.layer(inner);
//! for (method, status) in [("toy_read", 200), ("toy_send", 403)] {
//!     let response = service.clone().oneshot(http::Request::new(method)).await.unwrap();
//!     assert_eq!(response.status(), status);
//! }
//! # });
//! ```

use crate::gate::{CallPolicy, gate_layer};
use rpcgate_core::call::{CallView, Listed};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::Flags;
use rpcgate_core::clock::Time;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Tally;

gate_layer! {
    /// Checks every call against the method lists.
    ListsLayer, Lists
}

/// The policy of [`ListsLayer`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Lists;

impl ListsLayer {
    /// Creates the layer. The caller and the marks of the call hold everything it needs.
    pub fn new() -> Self {
        Self::by(std::sync::Arc::new(Lists))
    }
}

impl Default for ListsLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl CallPolicy for Lists {
    type At = Listed;

    fn concerns(&self, tally: &Tally) -> bool {
        !tally.caller.lists.is_empty()
            || super::is_any_marked(tally, Flags::FORBIDDEN)
            || super::is_any_marked(tally, Flags::BLOCKED)
    }

    fn decide(&self, call: CallView<'_>, caller: &Caller, _: Time) -> Result<(), Refusal> {
        if call.rule.flags.has(Flags::FORBIDDEN) {
            return Err(Refusal::DebugForbidden);
        }
        if call.rule.flags.has(Flags::BLOCKED) || !caller.lists.allows(call.method, call.sent) {
            return Err(Refusal::NotPermitted);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::suite;
    use rpcgate_core::chain::{ChainName, MethodRule};

    fn decide(caller: &Caller, flags: Flags) -> Result<(), Refusal> {
        let rule = MethodRule::UNLISTED.marked(flags);
        Lists.decide(CallView::new(ChainName::new("toy"), "toy_read", rule), caller, Time::default())
    }

    #[test]
    fn a_forbidden_method_is_refused_for_any_lists() {
        let mut caller = suite::caller(1);
        caller.lists.allowed.insert(Box::from(&b"toy_read"[..]));
        assert_eq!(decide(&caller, Flags::FORBIDDEN), Err(Refusal::DebugForbidden));
        assert_eq!(decide(&caller, Flags::NONE), Ok(()));
    }

    #[test]
    fn a_method_that_the_operator_blocks_is_not_permitted() {
        assert_eq!(decide(&suite::caller(1), Flags::BLOCKED), Err(Refusal::NotPermitted));
    }

    #[test]
    fn a_method_missing_from_a_non_empty_allow_list_is_not_permitted() {
        let mut caller = suite::caller(1);
        caller.lists.allowed.insert(Box::from(&b"toy_id"[..]));
        assert_eq!(decide(&caller, Flags::NONE), Err(Refusal::NotPermitted));
    }
}
