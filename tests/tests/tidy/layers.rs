//! The rules for a layer of `rpcgate-layers`: it works alone, and its example runs it.

use std::collections::HashSet;

use crate::source::{Kind, Source};
use crate::{none, tree};

const HOME: &str = "rpcgate-layers/src/";
const GROUPS: &[&str] = &["request", "call"];

/// Returns the module path of a file: `call/cache/mod.rs` and `call/cache.rs` are both `call::cache`.
fn module(path: &str) -> Option<Vec<&str>> {
    let inside = path.strip_prefix(HOME)?.strip_suffix(".rs")?;
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    Some(inside.split('/').collect())
}

/// Returns group and name of every layer: `call` and `cache` for `call/cache/lead.rs`.
fn layers(sources: &[Source]) -> HashSet<(&str, &str)> {
    let modules = sources.iter().filter(|source| is_layer(source)).filter_map(|source| module(&source.path));
    modules
        .filter_map(|own| Some((*own.first()?, *own.get(1)?)))
        .filter(|(group, _)| GROUPS.contains(group))
        .collect()
}

/// Returns imports of other layers, or of the stack, the only file that knows the order of layers.
fn sibling_imports(source: &Source, layers: &HashSet<(&str, &str)>) -> Vec<String> {
    let Some(own) = module(&source.path).filter(|own| own.len() > 1 && GROUPS.contains(&own[0])) else {
        return Vec::new();
    };
    let paths = source.paths();
    let foreign = paths.iter().filter(|named| !named.test).filter(|named| {
        let Some(target) = resolve(&own, &named.segments) else {
            return false;
        };
        match target.as_slice() {
            ["stack", ..] => true,
            [group, "*"] => GROUPS.contains(group),
            [group, layer, ..] => layers.contains(&(*group, *layer)) && (*group, *layer) != (own[0], own[1]),
            _ => false,
        }
    });
    foreign.map(|named| source.at(named.line, &named.segments.join("::"))).collect()
}

/// Returns the path from the crate's root that `crate::`, `self::` or `super::` leads to.
fn resolve<'a>(own: &[&'a str], segments: &'a [String]) -> Option<Vec<&'a str>> {
    let ups = segments.iter().take_while(|segment| *segment == "super").count();
    let (base, skip) = match segments.first()?.as_str() {
        "crate" => (0, 1),
        "self" => (own.len(), 1),
        "super" => (own.len().checked_sub(ups)?, ups),
        _ => return None,
    };
    Some(own[..base].iter().copied().chain(segments[skip..].iter().map(String::as_str)).collect())
}

/// Returns layer files without an example that runs the layer and asserts.
fn missing_doctest(source: &Source) -> Vec<String> {
    if !source.path.starts_with(HOME) || !is_layer(source) || runs_layer(source) {
        return Vec::new();
    }
    vec![source.at(1, "a layer without a doctest that calls `.layer()` and asserts")]
}

/// Reports whether a file implements `Layer<…>`, the decision of a gate or of a caller policy, or an `x_layer!` macro
/// writes its plumbing. The file that defines such a macro is plumbing, shared by layers.
fn is_layer(source: &Source) -> bool {
    if !source.path.starts_with(HOME) {
        return false;
    }
    let code: Vec<_> = source.code().collect();
    let word = |at: usize| {
        code.get(at).filter(|token| token.kind == Kind::Word).map_or("", |token| token.text.as_str())
    };
    let mark = |at: usize| {
        code.get(at).filter(|token| token.kind == Kind::Mark).map_or("", |token| token.text.as_str())
    };
    let plumbing = |at: usize| word(at) == "macro_rules" && word(at + 2).ends_with("_layer");
    if (0..code.len()).any(plumbing) {
        return false;
    }
    (0..code.len()).any(|at| {
        if word(at).ends_with("_layer") && mark(at + 1) == "!" {
            return true;
        }
        if word(at) != "impl" {
            return false;
        }
        let end = (at..code.len()).find(|at| matches!(mark(*at), "{" | ";")).unwrap_or(code.len());
        let Some(before_for) = (at..end).find(|at| word(*at) == "for") else {
            return false;
        };
        let decides = matches!(word(before_for - 1), "CallPolicy" | "CallerPolicy");
        decides || (at..before_for).any(|at| word(at) == "Layer" && mark(at + 1) == "<")
    })
}

/// Reports whether an example that runs creates a service with `.layer(…)` and asserts something about it afterwards.
/// The debug output of a layer is not an outcome.
fn runs_layer(source: &Source) -> bool {
    let mut inside = false;
    let mut runs = false;
    let mut is_made = false;
    for token in source.tokens.iter().filter(|token| token.kind == Kind::Doc && !token.test) {
        let line = token.text.trim();
        if let Some(info) = line.strip_prefix("```") {
            inside = !inside;
            runs = inside && matches!(info.trim(), "" | "rust" | "edition2024");
            is_made = false;
        } else if runs {
            is_made |= line.contains(".layer(");
            if is_made && line.contains("assert") && !line.contains("{:?}") {
                return true;
            }
        }
    }
    false
}

/// Returns the layers that the function `name` mounts, in order, including those of the stacks that it calls.
fn mounted<'s>(source: &'s str, name: &str) -> Vec<&'s str> {
    let body = source.split(&format!("pub fn {name}")).nth(1).unwrap_or_default();
    let body = body.split("\n}\n").next().unwrap_or_default();
    let body = body.split_once("let layers = (").map_or("", |(_, layers)| layers);
    let mut layers = Vec::new();
    for line in body.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        layers.extend(line.split_once("Layer::").map(|(layer, _)| layer));
        for part in ["admission_stack", "call_stack"].into_iter().filter(|part| *part != name) {
            if line.contains(&format!("{part}(")) {
                layers.extend(mounted(source, part));
            }
        }
    }
    layers
}

/// Returns the layers in the first column of a page's table.
fn documented(page: &str) -> Vec<&str> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("Layer`").map(|(layer, _)| layer))
        .collect()
}

// Shows (Order of decisions).
#[test]
fn the_document_names_the_layers_in_the_order_of_the_stack() {
    let source = tree::read("rpcgate-layers/src/stack.rs");
    let page = tree::read("docs/layers.md");
    let whole = if source.contains("pub fn http_stack") { "http_stack" } else { "stack" };
    assert_eq!(documented(&page), mounted(&source, whole));
    assert_eq!(documented(&page).len(), 16);
}

#[test]
fn no_layer_imports_a_sibling() {
    let sources = tree::sources();
    let layers = layers(sources);
    let findings: Vec<_> = sources.iter().flat_map(|source| sibling_imports(source, &layers)).collect();
    none(
        &findings,
        "A layer can be used alone. Shared code belongs in core or in a module beside the layers; only stack.rs joins them.",
    );
}

#[test]
fn every_layer_has_a_doctest_that_runs_it_and_asserts() {
    let findings: Vec<_> = tree::sources().iter().flat_map(missing_doctest).collect();
    none(
        &findings,
        "Run the layer in the module documentation (`.layer(…)`, then a request), and assert the outcome.",
    );
}

/// Finds service futures named by another crate's combinator: the name is part of this crate's interface.
fn foreign_futures(source: &Source) -> Vec<String> {
    let code: Vec<_> = source.code().collect();
    let mut findings = Vec::new();
    for (at, token) in code.iter().enumerate() {
        let names = |at: usize, text: &str| code.get(at).is_some_and(|token| token.text == text);
        if token.text == "type" && names(at + 1, "Future") {
            let definition = code[at..].iter().take_while(|token| token.text != ";");
            if definition.clone().any(|token| token.text == "Either") {
                findings.push(source.at(token.line, "type Future = Either"));
            }
        }
    }
    findings
}

#[test]
fn no_future_of_a_service_is_an_either_of_another_crate() {
    let shipped = tree::sources().iter().filter(|source| source.path.starts_with(HOME));
    let findings: Vec<_> = shipped.flat_map(foreign_futures).collect();
    none(&findings, "Give the future a name of its own, or use `future::ResponseFuture`.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_that_is_an_either_is_found() {
        let found = |text: &str| foreign_futures(&Source::new("rpcgate-layers/src/call/a.rs", text)).len();
        assert_eq!(found("impl X { type Future = Either<A, futures_util::future::Either<B, C>>; }"), 1);
        assert_eq!(found("impl X { type Future = ResponseFuture<A>; fn f() -> Either<A, B> {} }"), 0);
    }

    fn siblings(path: &str, text: &str) -> Vec<String> {
        let layers = [("call", "quota"), ("call", "cache"), ("request", "scope")].into();
        sibling_imports(&Source::new(path, text), &layers)
    }

    fn doctest(text: &str) -> usize {
        missing_doctest(&Source::new("rpcgate-layers/src/call/heavy.rs", text)).len()
    }

    #[test]
    fn an_imported_sibling_is_found_in_every_spelling() {
        let path = "rpcgate-layers/src/call/cache/store.rs";
        for text in [
            "use crate::call::quota::Quota;",
            "use crate::{gate::Gate, call::{cache::Rule, quota::Quota}};",
            "use super::super::quota;",
            "fn f() { crate::request::scope::allowed() }",
            "use crate::call::*;",
            "use crate::stack::Stack;",
        ] {
            assert_eq!(siblings(path, text).len(), 1, "{text}");
        }
    }

    #[test]
    fn imports_of_a_layers_own_and_shared_files_are_accepted() {
        let path = "rpcgate-layers/src/call/cache/store.rs";
        let text = "use super::Rule; use crate::call::cache::Key; use self::inner::X; use crate::gate::Gate; use super::super::shared::X; use rpcgate_core::call::Call;
            #[cfg(test)] mod tests { use crate::call::quota::Quota; }";
        assert_eq!(siblings(path, text), [""; 0]);
        assert_eq!(siblings("rpcgate-layers/src/stack.rs", "use crate::call::quota::Quota;"), [""; 0]);
        assert_eq!(siblings("rpcgate-layers/src/call/mod.rs", "pub use self::quota::Quota;"), [""; 0]);
    }

    #[test]
    fn a_layer_without_an_asserting_doctest_is_found() {
        let layer = "impl<S> Layer<S> for HeavyLayer { }";
        let gate = "impl CallPolicy for Heavy { }";
        let example =
            "//! ```\n//! let service = layer.layer(inner);\n//! assert!(service.call());\n//! ```\n";
        for text in [layer, gate, "impl<S, C: Clone> tower_layer::Layer<S> for X<C> {}"] {
            assert_eq!(doctest(text), 1, "{text}");
            assert_eq!(doctest(&format!("{example}{text}")), 0, "{text}");
        }
        for fence in ["```ignore", "```no_run", "```text", "```compile_fail"] {
            let example = example.replacen("```", fence, 1);
            assert_eq!(doctest(&format!("{example}{layer}")), 1, "{fence}");
        }
        for rest in [
            "//! ```\n//! run();\n//! ```\n//! .layer( assert\n",
            "//! ```\n//! assert!(helper());\n//! ```\n",
            "//! ```\n//! assert!(helper());\n//! layer.layer(inner);\n//! ```\n",
            "//! ```\n//! layer.layer(inner);\n//! ```\n//! ```\n//! assert!(helper());\n//! ```\n",
            "//! ```\n//! layer.layer(inner);\n//! assert!(format!(\"{:?}\", layer));\n//! ```\n",
        ] {
            assert_eq!(doctest(&format!("{rest}{layer}")), 1, "{rest}");
        }
        for text in [
            "impl<L: Layer<S>> Stack<L> {}",
            "macro_rules! policy_layer { () => { impl<S> Layer<S> for X {} } }",
        ] {
            assert_eq!(doctest(text), 0, "{text}");
        }
    }

    #[test]
    fn a_stack_mounts_the_layers_of_the_stacks_that_it_calls() {
        let source = "pub fn http_stack() {\n let layers = (\n  // ALayer::new()\n  BLayer::new(),\n  \
            f(|inner| admission_stack(inner)),\n  DLayer::new()\n    .with(1),\n );\n}\n\
            pub fn admission_stack() {\n let layers = (\n  CLayer::new(),\n );\n}\n";
        assert_eq!(mounted(source, "http_stack"), ["B", "C", "D"]);
        assert_eq!(documented("| `BLayer` | x |\n| text |\n| `CLayer` | y |"), ["B", "C"]);
    }

    #[test]
    fn layers_are_known_by_their_group_and_name() {
        let sources = [
            Source::new("rpcgate-layers/src/call/cache/lead.rs", "impl<S> Layer<S> for CacheLayer {}"),
            Source::new("rpcgate-layers/src/call/shared.rs", "struct Shared;"),
            Source::new("rpcgate-layers/src/stack.rs", "impl<S> Layer<S> for Stack {}"),
        ];
        assert_eq!(layers(&sources), [("call", "cache")].into());
    }
}
