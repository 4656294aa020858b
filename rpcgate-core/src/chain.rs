//! Chains as the stack sees them: facts, the method table with the operator's changes, and the head.

mod chains;
mod configured;
mod dialect;
mod facts;
mod finality;
mod method;
mod name;
mod node_allowance;
mod node_methods;
mod overrides;

pub use chains::Chains;
pub use configured::Chain;
pub use dialect::Dialect;
pub use facts::Facts;
pub use finality::{ChainHead, Finality};
pub use method::{Flags, Found, Method, MethodRule};
pub use name::ChainName;
pub use node_allowance::{MAX_MONTHLY_CALLS, MAX_NODE_RATE, NodeAllowance, NodePrice, NodeRate, OverBudget};
pub use node_methods::NodeMethods;
pub use overrides::ChainOverrides;
