//! Advice about settings without a counterpart: the reason, and the alternative.

use super::document::Node;
use super::note::Notes;

/// Advice about the settings at a path. In `path`, `*` matches one key or one item of a list.
pub(super) struct Advice {
    pub(super) path: &'static str,
    pub(super) text: &'static str,
}

pub(super) const fn advice(path: &'static str, text: &'static str) -> Advice {
    Advice { path, text }
}

const UNKNOWN: &str = "rpcgate has no such setting; docs/rpcgate.example.toml lists all that it has";

/// Notes everything in `root` that no reader has used.
pub(super) fn note_unused(root: &Node, known: &[Advice], notes: &mut Notes) {
    for field in root.fields() {
        visit(&field.value, &mut vec![field.key.clone()], known, notes);
    }
}

fn visit(node: &Node, path: &mut Vec<String>, known: &[Advice], notes: &mut Notes) {
    // A marked node is done, with everything below it.
    if node.is_nothing() || node.is_marked() {
        return;
    }
    let more_exact = || known.iter().any(|advice| is_below(advice.path, path));
    if !node.is_used() && (node.peek().is_some() || !more_exact()) {
        notes.left_out(node, find(known, path));
        return;
    }
    for (n, item) in node.items().iter().enumerate() {
        path.push(n.to_string());
        visit(item, path, known, notes);
        path.pop();
    }
    for field in node.fields() {
        path.push(field.key.clone());
        visit(&field.value, path, known, notes);
        path.pop();
    }
}

/// Returns the advice for `path`, or for the setting that contains it.
fn find(known: &[Advice], path: &[String]) -> &'static str {
    let fits = |advice: &&Advice| {
        let pattern: Vec<&str> = advice.path.split('.').collect();
        pattern.len() <= path.len() && starts(&pattern, path)
    };
    let best = known.iter().filter(fits).max_by_key(|advice| advice.path.split('.').count());
    best.map_or(UNKNOWN, |advice| advice.text)
}

fn is_below(pattern: &str, path: &[String]) -> bool {
    let pattern: Vec<&str> = pattern.split('.').collect();
    pattern.len() > path.len() && starts(&pattern, path)
}

fn starts(pattern: &[&str], path: &[String]) -> bool {
    pattern.iter().zip(path).all(|(wanted, key)| *wanted == "*" || wanted == key)
}

#[cfg(test)]
mod tests {
    use super::super::document::yaml::parse;
    use super::*;

    const KNOWN: &[Advice] = &[advice("a", "all of a"), advice("a.*.b", "b of a"), advice("c.d", "d of c")];

    fn notes(text: &str, used: &[&str]) -> Vec<String> {
        let root = parse(text).unwrap();
        for key in used {
            root.at_keys(&key.split('.').collect::<Vec<_>>()).unwrap().text();
        }
        let mut notes = Notes::default();
        note_unused(&root, KNOWN, &mut notes);
        notes.sorted().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_most_exact_advice_is_given_once_for_what_is_unused() {
        assert_eq!(
            notes("a:\n  x: 1\n  y: {b: 2, z: 3}\nc:\n  d: 4\n  e: 5\nf: {g: 1, h: 2}\n", &["c.e"]),
            [
                "2: a.x: not carried over: all of a",
                "3: a.y.b: not carried over: b of a",
                "3: a.y.z: not carried over: all of a",
                "5: c.d: not carried over: d of c",
                &format!("7: f: not carried over: {UNKNOWN}"),
            ]
        );
    }

    #[test]
    fn used_or_empty_leaves_need_no_note() {
        assert_eq!(notes("a: ~\nf: 1\n", &["f"]), [""; 0]);
    }
}
