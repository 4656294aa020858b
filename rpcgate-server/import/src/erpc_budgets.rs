//! Reads the budgets of eRPC's rate limiters, which projects, keys and upstreams name.

use super::accounts::KeyWindows;
use super::document::Node;
use super::draft::Draft;
use super::nodes::is_rate_limit;
use super::note::NoteKind;
use super::value;
use std::collections::BTreeMap;

/// The note about a setting of a budget that has no counterpart.
const NO_SETTING: &str = "limits of rpcgate have no such setting";

/// Limits per second, and in the windows of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Budget {
    pub(super) second: Option<u64>,
    pub(super) windows: KeyWindows,
}

/// The budgets of `rateLimiters`, each with its source.
#[derive(Debug, Default)]
pub(super) struct Budgets<'n>(BTreeMap<String, (Budget, &'n Node)>);

impl<'n> Budgets<'n> {
    pub(super) fn read(limiters: Option<&'n Node>, draft: &mut Draft) -> Self {
        let mut budgets = Budgets::default();
        for node in limiters.map_or(&[][..], |node| node.list("budgets")) {
            let Some(id) = node.get("id").and_then(Node::peek) else { continue };
            let mut budget = Budget::default();
            for rule in node.list("rules") {
                if let Ok((bound, slot)) = limit(rule, &mut budget) {
                    *slot = Some(slot.map_or(bound, |known| known.min(bound)));
                }
            }
            if budgets.0.insert(id.to_owned(), (budget, node)).is_some() {
                draft.notes.add(NoteKind::LeftOut, node.at, &node.path, "an earlier budget has the same id");
            }
        }
        budgets
    }

    /// Returns the calls per second of the budget that `node` names, and marks it as carried over. Returns `None` if
    /// the budget has other limits too, or if a node cannot have this rate.
    pub(super) fn rate(&self, node: &Node, draft: &mut Draft) -> Option<u64> {
        let (budget, _) = self.0.get(node.peek()?)?;
        let is_rate = budget.windows == KeyWindows::default() && budget.second.is_some_and(is_rate_limit);
        if is_rate { self.named(Some(node), draft)?.second } else { None }
    }

    /// Returns the budget that `node` names and marks it as carried over. Its settings without a counterpart are noted.
    pub(super) fn named(&self, node: Option<&Node>, draft: &mut Draft) -> Option<Budget> {
        let node = node?;
        let (budget, from) = self.0.get(node.peek()?)?;
        if *budget == Budget::default() {
            return None;
        }
        node.text();
        for field in from.fields() {
            match field.key.as_str() {
                "id" => drop(field.value.text()),
                "rules" => field.value.items().iter().for_each(|rule| read_rule(rule, draft)),
                _ => draft.notes.left_out(&field.value, NO_SETTING),
            }
        }
        Some(*budget)
    }
}

/// Returns the limit of a rule and its slot in the budget. The error is the reason why it has none.
fn limit<'b>(rule: &Node, budget: &'b mut Budget) -> Result<(u64, &'b mut Option<u64>), &'static str> {
    let text = |key: &str| rule.get(key).and_then(Node::peek);
    if text("method").is_some_and(|method| method != "*") {
        return Err("this rule is for single methods; rpcgate limits keys, projects and nodes");
    }
    let bound =
        text("maxCount").and_then(value::number).ok_or("its maxCount cannot be read as a whole number")?;
    let slot = match text("period").and_then(value::period) {
        Some(1) => &mut budget.second,
        Some(60) => &mut budget.windows.minute,
        Some(3_600) => &mut budget.windows.hour,
        Some(86_400) => &mut budget.windows.day,
        _ => return Err("limits are for a second, a minute, an hour or a day"),
    };
    Ok((bound, slot))
}

/// Notes the settings of a rule that our limits do not have. The rest of the rule is carried over.
fn read_rule(rule: &Node, draft: &mut Draft) {
    if let Err(why) = limit(rule, &mut Budget::default()) {
        draft.notes.left_out(rule, why);
        return;
    }
    for field in rule.fields() {
        let is_off = |text: &str| {
            value::flag(text) == Some(false) || value::number(text).or_else(|| value::millis(text)) == Some(0)
        };
        let why = match field.key.as_str() {
            "method" | "maxCount" | "period" => {
                field.value.text();
                continue;
            }
            _ if field.value.peek().is_some_and(is_off) => {
                field.value.text();
                continue;
            }
            "waitTime" => "no call waits for a limit: it is refused at once, or sent to another node",
            "perIP" => "limits belong to keys, projects and nodes, not to the addresses of clients",
            "perUser" => "a minute, an hour and a day are counted for each key, a second for each project",
            "perNetwork" => "the limits of a key and of a project count the calls of all chains together",
            _ => NO_SETTING,
        };
        draft.notes.left_out(&field.value, why);
    }
}
