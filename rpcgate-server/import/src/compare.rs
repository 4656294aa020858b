//! Finds values of the source without effect on the result. A reader may read a value and then ignore it. So each value
//! is changed in turn and the file is read again; if the result stays the same, the value was not carried over, and a
//! note says so.

use super::advice::note_unused;
use super::document::Node;
use super::draft::{Draft, Section};
use super::note::{NoteKind, Notes};
use super::value;
use super::{GatewayChecks, SourceForm};
use rpcgate_core::chain::ChainName;

/// The maximum values visited in all comparisons of one file, so that the largest file takes seconds.
const MAX_VISITS: usize = 8_000_000;

#[derive(PartialEq)]
struct Outcome {
    sections: Vec<Section>,
    notes: Notes,
}

/// Notes each value of `root` whose change leaves `draft`, the result of `root`, the same. [Settled](Node::settle)
/// values, which have a note or no effect, are skipped.
pub(super) fn note_ignored(form: SourceForm, root: &Node, chain: Option<ChainName>, draft: &mut Draft) {
    let mut leaves = Vec::new();
    collect(root, &mut Vec::new(), &mut leaves);
    let most = MAX_VISITS / root.count().max(1);
    if leaves.len() > most {
        let text = format!(
            "it is too large for a comparison of all its values: only the first {most} were compared"
        );
        draft.notes.add(NoteKind::Differs, root.at, "", text);
        leaves.truncate(most);
    }
    let before = Outcome { sections: draft.sections.clone(), notes: std::mem::take(&mut draft.notes) };
    let mut copy = root.clone();
    let checks = draft.checks;
    let ignored: Vec<&Node> = leaves
        .into_iter()
        .filter(|(path, _)| is_ignored(form, &mut copy, path, chain, checks, &before))
        .map(|(_, leaf)| leaf)
        .collect();
    draft.notes = before.notes;
    for leaf in ignored {
        draft.notes.left_out(leaf, "it was read, but nothing in the new file depends on it");
    }
}

/// Collects the unsettled text values, each with the indices of its parents.
fn collect<'n>(node: &'n Node, path: &mut Vec<usize>, leaves: &mut Vec<(Vec<usize>, &'n Node)>) {
    if node.is_settled() {
        return;
    }
    if node.peek().is_some() {
        leaves.push((path.clone(), node));
    }
    for (n, below) in node.children().enumerate() {
        path.push(n);
        collect(below, path, leaves);
        path.pop();
    }
}

/// Reports whether the result stays the same if the text at `path` of `copy` changes. `copy` is restored afterwards.
fn is_ignored(
    form: SourceForm,
    copy: &mut Node,
    path: &[usize],
    chain: Option<ChainName>,
    checks: GatewayChecks,
    before: &Outcome,
) -> bool {
    let Some(leaf) = copy.descendant_mut(path) else { return false };
    let Some(text) = leaf.peek().map(str::to_owned) else { return false };
    leaf.set_text(other(&text));
    copy.forget_uses();
    let mut draft = Draft::new(form.variables(), checks);
    let is_same = match super::read(form, copy, chain, &mut draft) {
        Ok(known) => {
            note_unused(copy, known, &mut draft.notes);
            Outcome { sections: draft.sections, notes: draft.notes } == *before
        }
        Err(_) => false,
    };
    if let Some(leaf) = copy.descendant_mut(path) {
        leaf.set_text(text);
    }
    is_same
}

/// Returns a text of the same kind with another meaning.
fn other(text: &str) -> String {
    match (value::flag(text), value::number(text)) {
        (Some(flag), _) => (!flag).to_string(),
        (None, Some(number)) => number.saturating_add(1).to_string(),
        (None, None) => format!("{text}x"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::yaml::parse;
    use super::*;
    use crate::tests::CHECKS;

    const KONG: &str = "services: [{name: eth, url: 'http://h:1/', routes: [{paths: [/eth]}]}]\nextra: 1\n";

    fn outcome(root: &Node) -> Outcome {
        let mut draft = Draft::new(SourceForm::Kong.variables(), CHECKS);
        let known = crate::read(SourceForm::Kong, root, None, &mut draft).unwrap();
        note_unused(root, known, &mut draft.notes);
        Outcome { sections: draft.sections, notes: draft.notes }
    }

    #[test]
    fn a_value_is_ignored_if_the_result_is_the_same_with_another_one() {
        let root = parse(KONG).unwrap();
        let before = outcome(&root);
        let mut copy = root.clone();
        let mut ignored =
            |path: &[usize]| is_ignored(SourceForm::Kong, &mut copy, path, None, CHECKS, &before);
        assert!(!ignored(&[0, 0, 1]), "the address of a node");
        assert!(!ignored(&[0, 0, 2, 0, 0, 0]), "the path of a route");
        assert!(ignored(&[1]), "a setting that no reader knows");
        copy.forget_uses();
        assert_eq!(outcome(&copy).sections, before.sections, "the copy is as it was");
    }

    #[test]
    fn values_that_a_note_or_a_reader_has_settled_are_not_compared() {
        let root = parse(KONG).unwrap();
        let _ = outcome(&root);
        let mut leaves = Vec::new();
        collect(&root, &mut Vec::new(), &mut leaves);
        let paths: Vec<_> = leaves.iter().map(|(_, leaf)| leaf.path.as_str()).collect();
        assert_eq!(paths, ["services[0].name", "services[0].url", "services[0].routes[0].paths[0]"]);
    }

    #[test]
    fn a_changed_text_is_of_the_same_kind() {
        for (text, changed) in [("true", "false"), ("off", "true"), ("15", "16"), ("15s", "15sx"), ("", "x")]
        {
            assert_eq!(other(text), changed);
        }
    }
}
