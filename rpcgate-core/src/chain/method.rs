//! One row of a chain's method table: a name, and the rule of its calls.

use crate::cache_rule::CacheRule;

/// The rule of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MethodRule {
    /// Its weight in Compute Units.
    pub cu: u32,
    /// Its cache class.
    pub cache: CacheRule,
    /// Its flags.
    pub flags: Flags,
}

impl MethodRule {
    /// The rule of a method that is in no table: 1 Compute Unit, never cached, no flags.
    pub const UNLISTED: MethodRule = MethodRule::new(1);

    /// Creates the rule of a call of weight `cu` that is never cached and has no flags.
    pub const fn new(cu: u32) -> Self {
        MethodRule { cu, cache: CacheRule::Never, flags: Flags::NONE }
    }

    /// Sets the cache class.
    #[must_use]
    pub const fn cached(mut self, cache: CacheRule) -> Self {
        self.cache = cache;
        self
    }

    /// Adds flags.
    #[must_use]
    pub const fn marked(mut self, flags: Flags) -> Self {
        self.flags = self.flags.and(flags);
        self
    }
}

/// Flags of a method that layers act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u16);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// Counts in the heavy budget.
    pub const HEAVY: Flags = Flags(1);
    /// At most one call per key and UTC minute.
    pub const PACED: Flags = Flags(2);
    /// Closed to all callers: it controls the node or its wallet, or the nodes do not serve it.
    pub const CLOSED: Flags = Flags(4);
    /// Submits something. Never retried after a byte was sent, and never sent together with other calls.
    pub const BROADCAST: Flags = Flags(8);
    /// A debugging method on a chain that forbids them before any budget is consulted.
    pub const FORBIDDEN: Flags = Flags(16);
    /// Closed unless the operator opens it.
    pub const OPENABLE: Flags = Flags(32);
    /// Blocked by the operator.
    pub const BLOCKED: Flags = Flags(64);
    /// Its parameters contain a command, by which the adapter [narrows](crate::adapter::Adapter::narrow) its rule.
    pub const COMMANDS: Flags = Flags(128);
    /// Creates state on a single node, such as a filter; the result is its id. Never repeated after a byte was sent,
    /// joined with other calls, or cached.
    pub const MAKES_STATE: Flags = Flags(256);
    /// Uses the state of a [`MAKES_STATE`](Flags::MAKES_STATE) call, so it must reach the same node. The adapter
    /// [finds](crate::adapter::Adapter::state_id) the id. Never repeated, shared or cached.
    pub const USES_STATE: Flags = Flags(512);

    /// Returns the union of both sets.
    #[must_use]
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Returns these flags without those of `other`.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// Returns the flags that are in both sets.
    #[must_use]
    pub const fn only(self, other: Flags) -> Flags {
        Flags(self.0 & other.0)
    }

    /// Reports whether calls with these flags create or use state on a single node.
    pub const fn has_state(self) -> bool {
        self.0 & (Flags::MAKES_STATE.0 | Flags::USES_STATE.0) != 0
    }

    /// Reports whether all flags of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// One row of a chain's method table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Method {
    /// The name as callers send it.
    pub name: &'static str,
    /// The metered name.
    pub metered: &'static str,
    /// Its rule.
    pub rule: MethodRule,
}

impl Method {
    /// Creates a method of weight `cu` that is never cached and has no flags.
    pub const fn new(name: &'static str, cu: u32) -> Self {
        Method { name, metered: name, rule: MethodRule::new(cu) }
    }

    /// Sets the cache class.
    #[must_use]
    pub const fn cached(mut self, cache: CacheRule) -> Self {
        self.rule = self.rule.cached(cache);
        self
    }

    /// Adds flags.
    #[must_use]
    pub const fn marked(mut self, flags: Flags) -> Self {
        self.rule = self.rule.marked(flags);
        self
    }

    /// Sets the metered name.
    #[must_use]
    pub const fn metered_as(mut self, name: &'static str) -> Self {
        self.metered = name;
        self
    }
}

/// The result of a method look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The rule.
    pub rule: MethodRule,
    /// The metered name from the table; `None`: metered as sent.
    pub metered: Option<&'static str>,
}
