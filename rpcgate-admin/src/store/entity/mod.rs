//! The tables, one file each. Moments are microseconds since 1970 in a `bigint`, as core counts them.

pub(super) mod attempts;
pub(super) mod audit;
pub(super) mod block_keys;
pub(super) mod blocks;
pub(super) mod chain_switches;
pub(super) mod changes;
pub(super) mod confirmations;
pub(super) mod gateways;
pub(super) mod invitations;
pub(super) mod keys;
pub(super) mod limit_requests;
pub(super) mod marks;
pub(super) mod plans;
pub(super) mod projects;
pub(super) mod quotas;
pub(super) mod refreshes;
pub(super) mod rollups;
pub(super) mod sessions;
pub(super) mod solved;
pub(super) mod tenants;
pub(super) mod users;
pub(super) mod weights;
