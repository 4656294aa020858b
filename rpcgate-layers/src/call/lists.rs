//! Method lists: a project's allow and block lists, and the methods an operator has blocked on a chain.
//!
//! Stands before the plan windows, so a method that a project may not call uses none of its requests. A debugging
//! method where those are forbidden outright is refused here too, before any budget is consulted. Refuses with
//! [`Refusal::NotPermitted`] and [`Refusal::DebugForbidden`].
//!
//! ```
//! use rpcgate_core::call::CallView;
//! use rpcgate_core::chain::{ChainName, MethodRule};
//! use rpcgate_core::clock::Time;
//! use rpcgate_core::refusal::Refusal;
//! use rpcgate_core::backend::suite;
//! use rpcgate_layers::call::lists::Lists;
//! use rpcgate_layers::gate::CallPolicy;
//!
//! let mut caller = suite::caller(1);
//! caller.lists.blocked.insert(Box::from(&b"toy_send"[..]));
//! let call = |method| CallView::new(ChainName::new("toy"), method, MethodRule::UNLISTED);
//! assert_eq!(Lists.decide(call("toy_read"), &caller, Time::default()), Ok(()));
//! assert_eq!(Lists.decide(call("toy_send"), &caller, Time::default()), Err(Refusal::NotPermitted));
//! ```

use crate::gate::{CallPolicy, gate_layer};
use rpcgate_core::call::{CallView, Listed};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::Flags;
use rpcgate_core::clock::Time;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::tally::Tally;

gate_layer! {
    /// Holds every call against the method lists.
    ListsLayer, Lists
}

/// The decision.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lists;

impl ListsLayer {
    /// The layer. All it needs is in the caller and in the call's marks.
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
        let rule = MethodRule { flags, ..MethodRule::UNLISTED };
        Lists.decide(CallView::new(ChainName::new("toy"), "toy_read", rule), caller, Time::default())
    }

    #[test]
    fn a_forbidden_method_is_refused_whatever_the_lists_say() {
        let mut caller = suite::caller(1);
        caller.lists.allowed.insert(Box::from(&b"toy_read"[..]));
        assert_eq!(decide(&caller, Flags::FORBIDDEN), Err(Refusal::DebugForbidden));
        assert_eq!(decide(&caller, Flags::NONE), Ok(()));
    }

    #[test]
    fn what_the_operator_blocks_is_not_permitted() {
        assert_eq!(decide(&suite::caller(1), Flags::BLOCKED), Err(Refusal::NotPermitted));
    }

    #[test]
    fn a_method_missing_from_a_non_empty_allow_list_is_not_permitted() {
        let mut caller = suite::caller(1);
        caller.lists.allowed.insert(Box::from(&b"toy_id"[..]));
        assert_eq!(decide(&caller, Flags::NONE), Err(Refusal::NotPermitted));
    }
}
