//! The tables, one file each. Moments are microseconds since 1970 in a `bigint`, as core counts them.

pub(super) mod block_keys;
pub(super) mod blocks;
pub(super) mod chain_switches;
pub(super) mod changes;
pub(super) mod keys;
pub(super) mod marks;
pub(super) mod plans;
pub(super) mod projects;
pub(super) mod quotas;
pub(super) mod rollups;
pub(super) mod tenants;
pub(super) mod users;
pub(super) mod weights;
