//! Closed methods and the reasons. The same table decides about calls and generates the lists of `docs/chains.md`.

use super::matches;
use rpcgate_core::adapter::ClosedMethods;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Flags, Method, MethodRule};

/// Methods, or some of their calls, that are closed to all callers, with the reason.
#[derive(Clone, Copy, Debug)]
pub struct Closing {
    methods: &'static [&'static str],
    only: Option<Only>,
    because: &'static str,
    openable: bool,
}

/// The closed calls of a method that is otherwise open.
#[derive(Clone, Copy, Debug)]
struct Only {
    words: &'static str,
    is_meant: fn(&CallView<'_>) -> bool,
}

impl Closing {
    /// Closes methods by name, or by a prefix written `dump*`. `because` is the reason, without its full stop.
    pub const fn new(methods: &'static [&'static str], because: &'static str) -> Self {
        Closing { methods, only: None, because, openable: false }
    }

    /// Closes only the calls for which `is_meant` holds; `words` describe them, as "with `url`". The methods must be
    /// marked [`Flags::COMMANDS`]; the tables of a family do that themselves.
    #[must_use]
    pub const fn only(mut self, words: &'static str, is_meant: fn(&CallView<'_>) -> bool) -> Self {
        self.only = Some(Only { words, is_meant });
        self
    }

    /// Allows the operator to open them.
    #[must_use]
    pub const fn openable(mut self) -> Self {
        self.openable = true;
        self
    }

    fn concerns(&self, method: &str) -> bool {
        self.methods.iter().any(|pattern| matches(pattern, method))
    }

    const fn mark(&self) -> Flags {
        if self.openable { Flags::OPENABLE } else { Flags::CLOSED }
    }
}

/// Returns the marks of `method`: closed, openable, or to be narrowed by its parameters.
pub(crate) fn marks(table: &[Closing], method: &str) -> Flags {
    table.iter().filter(|row| row.concerns(method)).fold(Flags::NONE, |marks, row| match row.only {
        None => marks.and(row.mark()),
        Some(_) => marks.and(Flags::COMMANDS),
    })
}

pub(crate) fn mark(table: &[Closing], methods: &mut [Method]) {
    for method in methods {
        method.rule.flags = method.rule.flags.and(marks(table, method.name));
    }
}

pub(crate) fn narrow(table: &[Closing], call: CallView<'_>) -> MethodRule {
    let mut rule = call.rule;
    let is_of = |row: &Closing| std::str::from_utf8(call.sent).is_ok_and(|sent| row.concerns(sent));
    for row in table {
        if row.only.is_some_and(|only| is_of(row) && (only.is_meant)(&call)) {
            rule.flags = rule.flags.and(row.mark());
        }
    }
    rule
}

pub(crate) fn listed(table: &[Closing]) -> Vec<ClosedMethods> {
    let words = |row: &Closing| {
        let methods = row.methods.iter().map(|name| (*name).to_owned()).collect();
        ClosedMethods::new(methods, row.because)
            .with_only(row.only.map_or("", |only| only.words))
            .with_openable(row.openable)
    };
    table.iter().map(words).collect()
}

/// Returns names grouped by the reason for which each is closed, in the order of first appearance.
pub(crate) fn by_reason(
    names: &[(&'static str, &'static str)],
    name: impl Fn(&str) -> String,
) -> Vec<ClosedMethods> {
    let mut rows: Vec<ClosedMethods> = Vec::new();
    for (method, because) in names {
        match rows.iter_mut().find(|row| row.because == *because) {
            Some(row) => row.methods.push(name(method)),
            None => rows.push(ClosedMethods::new(vec![name(method)], because)),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::chain::ChainName;

    const TABLE: &[Closing] = &[
        Closing::new(&["stop", "log*"], "It controls the node"),
        Closing::new(&["scan"], "It holds up the node").openable(),
        Closing::new(&["say"], "It dials").only("with `url`", |call| call.params == b"url"),
    ];

    #[test]
    fn methods_are_closed_by_name_and_calls_by_their_parameters() {
        assert_eq!(marks(TABLE, "stop"), Flags::CLOSED);
        assert_eq!(marks(TABLE, "logger"), Flags::CLOSED);
        assert_eq!(marks(TABLE, "scan"), Flags::OPENABLE);
        assert_eq!(marks(TABLE, "say"), Flags::COMMANDS);
        assert_eq!(marks(TABLE, "Stop"), Flags::NONE);
        let ask = |params: &'static str| {
            let rule = MethodRule::UNLISTED.marked(marks(TABLE, "say"));
            let call = CallView::new(ChainName::new("toy"), "say", rule).with_params(params.as_bytes());
            narrow(TABLE, call).flags.has(Flags::CLOSED)
        };
        assert!(ask("url") && !ask(""));
    }

    #[test]
    fn the_documented_methods_are_those_of_the_table() {
        let reported = listed(TABLE);
        assert_eq!(reported[0].methods, ["stop", "log*"]);
        assert_eq!(
            (reported[1].openable, &*reported[2].only, reported[2].because),
            (true, "with `url`", "It dials")
        );
        let rows = by_reason(&[("a", "x"), ("b", "y"), ("c", "x")], |name| format!("{name}_*"));
        assert_eq!(rows[0].methods, ["a_*", "c_*"]);
        assert_eq!((rows[1].because, rows.len()), ("y", 2));
    }
}
