//! The order of the layers as types.

/// Marks a type whose layer precedes layer `B` on the stack.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not lie before `{B}` on the stack",
    label = "calls that have passed the layer of `{Self}` cannot enter the layer of `{B}`",
    note = "the order of the layers is fixed; see the documentation of the stack"
)]
pub trait Before<B> {}

macro_rules! stack {
    ($($(#[$doc:meta])* $layer:ident)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub enum $layer {}
        )*
        stack!(@pairs $($layer)*);
    };
    (@pairs $first:ident $($later:ident)*) => {
        $(impl Before<$later> for $first {})*
        stack!(@pairs $($later)*);
    };
    (@pairs) => {};
}

stack! {
    /// Read and parsed.
    Parsed
    /// Checked against the project's method lists and the chain's blocked methods.
    Listed
    /// Given a slot in the chain's load.
    Placed
    /// Counted in the plan windows.
    Windowed
    /// For a chain that is served here.
    Served
    /// Checked against the per-key pace.
    Paced
    /// Counted in the heavy budget.
    Budgeted
    /// Not a closed method.
    Opened
    /// Reserved in the project's quota.
    Reserved
    /// Looked up in the cache.
    Cached
    /// Without open calls.
    Settled
}
