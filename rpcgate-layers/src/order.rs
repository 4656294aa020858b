//! A check of the order of a stack, for readable compiler messages.
//!
//! Layers of calls in a wrong order do not compile, because the resulting service accepts no calls. If such a service
//! is called as a method (`.call(…)`, `.oneshot(…)`), the compiler only says that the method does not exist (E0599). If
//! it is the argument of a function, such as [`check_order`] or those of axum and hyper, the message names the two
//! layers in the wrong order.

use tower_service::Service;

/// Returns `service`, which accepts requests of type `R`. If its layers are in a wrong order, the compiler names the
/// two layers:
///
/// ```compile_fail,E0277
/// use rpcgate_core::backend::counters::MemoryCounters;
/// use rpcgate_core::call::{Budgeted, Calls, Parsed};
/// use rpcgate_layers::{call::heavy::HeavyLayer, call::quota::QuotaLayer, order::check_order};
/// use std::{convert::Infallible, sync::Arc};
/// use tower::{Layer, service_fn};
///
/// let quota = QuotaLayer::new(Arc::new(MemoryCounters::default()));
/// let end = service_fn(async |calls: Calls<Budgeted>| Ok::<_, Infallible>(calls));
/// // error[E0277]: `Reserved` does not lie before `Budgeted` on the stack
/// check_order::<Calls<Parsed>, _>((quota, HeavyLayer::new()).layer(end));
/// ```
///
/// In the correct order it compiles:
///
/// ```
/// use rpcgate_core::backend::counters::MemoryCounters;
/// use rpcgate_core::call::{Calls, Parsed, Reserved};
/// use rpcgate_layers::{call::heavy::HeavyLayer, call::quota::QuotaLayer, order::check_order};
/// use std::{convert::Infallible, sync::Arc};
/// use tower::{Layer, service_fn};
///
/// let quota = QuotaLayer::new(Arc::new(MemoryCounters::default()));
/// let end = service_fn(async |calls: Calls<Reserved>| Ok::<_, Infallible>(calls));
/// check_order::<Calls<Parsed>, _>((HeavyLayer::new(), quota).layer(end));
/// ```
pub fn check_order<R, S>(service: S) -> S
where
    S: Service<R>,
{
    service
}
