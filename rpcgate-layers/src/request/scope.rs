//! Chain scope: a key may be limited to some chains.
//!
//! The layer comes after suspension and before the body is read. Scopes contain canonical names; aliases (`ethereum`)
//! are resolved when a scope is written, not here. The layer refuses with [`Refusal::OutOfScope`].
//!
//! ```
//! use rpcgate_core::{caller::Scope, chain::ChainName};
//! use rpcgate_layers::request::scope::ScopeLayer;
//! use rpcgate_layers::testing::Fixture;
//! use std::convert::Infallible;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let caller = Fixture::with_caller(|caller| caller.scope = Scope::Only(["btc".into()].into())).caller;
//! let layer = ScopeLayer::new()
//!     .with_caller(move |request: &http::Request<ChainName>| Some((caller.clone().into(), *request.body())));
//! let inner = service_fn(async |_: http::Request<ChainName>| Ok::<_, Infallible>(http::Response::new(bytes::Bytes::new())));
//! let service = layer.layer(inner);
//! for (chain, status) in [("btc", 200), ("ltc", 403)] {
//!     let response = service.clone().oneshot(http::Request::new(ChainName::new(chain))).await.unwrap();
//!     assert_eq!(response.status(), status);
//! }
//! # });
//! ```

use super::policy::{CallerPolicy, policy_layer};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::ChainName;
use rpcgate_core::refusal::Refusal;

policy_layer! {
    /// Refuses requests for chains outside the key's scope.
    ScopeLayer, ChainScope
}

/// The policy of [`ScopeLayer`].
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
