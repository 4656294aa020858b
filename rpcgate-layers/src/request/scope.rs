//! Chain scope: a key may be limited to some chains.
//!
//! Stands behind suspension and before the body is read. Scopes hold canonical names; aliases (`ethereum`) are resolved
//! when a scope is written, not here. Refuses with [`Refusal::OutOfScope`].
//!
//! ```
//! use rpcgate_core::{caller::Scope, chain::ChainName, refusal::Refusal, backend::suite};
//! use rpcgate_layers::request::{policy::CallerPolicy, scope::ChainScope};
//!
//! let mut caller = suite::caller(1);
//! caller.scope = Scope::Only(["btc".into()].into());
//! assert_eq!(ChainScope.decide(&caller, ChainName::new("btc")), Ok(()));
//! assert_eq!(ChainScope.decide(&caller, ChainName::new("ltc")), Err(Refusal::OutOfScope));
//! ```

use super::policy::{CallerPolicy, policy_layer};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::ChainName;
use rpcgate_core::refusal::Refusal;

policy_layer! {
    /// Refuses requests for chains outside the key's scope.
    ScopeLayer, ChainScope
}

/// The decision.
#[derive(Clone, Copy, Debug)]
pub struct ChainScope;

impl CallerPolicy for ChainScope {
    fn decide(&self, caller: &Caller, chain: ChainName) -> Result<(), Refusal> {
        if caller.scope.allows(chain) { Ok(()) } else { Err(Refusal::OutOfScope) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::suite;
    use rpcgate_core::caller::Scope;

    #[test]
    fn an_empty_scope_allows_nothing() {
        let mut caller = suite::caller(1);
        assert_eq!(ChainScope.decide(&caller, ChainName::new("toy")), Ok(()), "unscoped");
        caller.scope = Scope::Only([].into());
        assert_eq!(ChainScope.decide(&caller, ChainName::new("toy")), Err(Refusal::OutOfScope));
    }
}
