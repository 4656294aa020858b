//! One row of a chain's method table: a name, and the rule of its calls.

use crate::cache_rule::CacheRule;

/// What the stack needs to know about a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MethodRule {
    /// Its weight in Compute Units.
    pub cu: u32,
    /// Its cache class.
    pub cache: CacheRule,
    /// Its marks.
    pub flags: Flags,
}

impl MethodRule {
    /// The rule of a method that is in no table: 1 Compute Unit, never cached, unmarked.
    pub const UNLISTED: MethodRule = MethodRule::new(1);

    /// A call of weight `cu` that is never cached and has no marks.
    pub const fn new(cu: u32) -> Self {
        MethodRule { cu, cache: CacheRule::Never, flags: Flags::NONE }
    }

    /// The same in a cache class.
    #[must_use]
    pub const fn cached(mut self, cache: CacheRule) -> Self {
        self.cache = cache;
        self
    }

    /// The same with more marks.
    #[must_use]
    pub const fn marked(mut self, flags: Flags) -> Self {
        self.flags = self.flags.and(flags);
        self
    }
}

/// Marks of a method that layers act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u16);

impl Flags {
    /// No mark.
    pub const NONE: Flags = Flags(0);
    /// Counts in the heavy budget.
    pub const HEAVY: Flags = Flags(1);
    /// At most one call per key and UTC minute.
    pub const PACED: Flags = Flags(2);
    /// Closed to all callers: it controls the node or its wallet, or the nodes do not serve it.
    pub const CLOSED: Flags = Flags(4);
    /// Submits something: never retried once a byte was sent, never sent together with other calls.
    pub const BROADCAST: Flags = Flags(8);
    /// A debugging method where those are forbidden before any budget is consulted.
    pub const FORBIDDEN: Flags = Flags(16);
    /// Closed unless the operator opens it.
    pub const OPENABLE: Flags = Flags(32);
    /// Blocked by the operator.
    pub const BLOCKED: Flags = Flags(64);
    /// Its parameters contain a command: the adapter [narrows](crate::adapter::Adapter::narrow) its rule by them.
    pub const COMMANDS: Flags = Flags(128);
    /// Makes something that exists at the node alone, such as a filter; its result is the id. Such a call is never repeated
    /// once a byte was sent, never sent together with other calls and never cached.
    pub const MAKES_STATE: Flags = Flags(256);
    /// Uses what a call with [`MAKES_STATE`](Flags::MAKES_STATE) has made: it must reach the node that made it. The adapter
    /// [finds](crate::adapter::Adapter::state_id) the id. Such a call is never repeated, shared or cached either.
    pub const USES_STATE: Flags = Flags(512);

    /// Both sets of marks.
    #[must_use]
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// These marks without those of `other`.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// Those of these marks that are in `other`.
    #[must_use]
    pub const fn only(self, other: Flags) -> Flags {
        Flags(self.0 & other.0)
    }

    /// Whether calls with these marks make or use something that exists at one node alone.
    pub const fn has_state(self) -> bool {
        self.0 & (Flags::MAKES_STATE.0 | Flags::USES_STATE.0) != 0
    }

    /// Whether all marks of `other` are set.
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
    /// The name under which it is metered.
    pub metered: &'static str,
    /// Its rule.
    pub rule: MethodRule,
}

impl Method {
    /// A method of weight `cu` that is never cached and has no marks.
    pub const fn new(name: &'static str, cu: u32) -> Self {
        Method { name, metered: name, rule: MethodRule::new(cu) }
    }

    /// The same method with a cache class.
    #[must_use]
    pub const fn cached(mut self, cache: CacheRule) -> Self {
        self.rule = self.rule.cached(cache);
        self
    }

    /// The same method with more marks.
    #[must_use]
    pub const fn marked(mut self, flags: Flags) -> Self {
        self.rule = self.rule.marked(flags);
        self
    }

    /// The same, metered under another name.
    #[must_use]
    pub const fn metered_as(mut self, name: &'static str) -> Self {
        self.metered = name;
        self
    }
}

/// The result of looking up a method: its rule, and the name under which it is metered if the table contains it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The rule.
    pub rule: MethodRule,
    /// `None`: metered as sent.
    pub metered: Option<&'static str>,
}
