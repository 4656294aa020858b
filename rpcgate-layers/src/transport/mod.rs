//! How a node is reached. Each module is one protocol; which node is asked is decided in [`nodes`](crate::nodes).

pub mod h1;
