//! Example code for receivers that verify deliveries, from the guide.

use super::parts::{CodeSnippet, CodeVariant};

const GUIDE: &str = include_str!("../../../docs/webhooks.md");

/// Returns the functions of the guide that verify a signature, one for each language.
pub(crate) fn snippet() -> CodeSnippet {
    let section = GUIDE.split("\n## Verifying\n").nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    CodeSnippet { name: "verifying", variants: section.split("\n### ").skip(1).filter_map(variant).collect() }
}

/// Reads a subsection: a language, and its code between fences.
fn variant(part: &'static str) -> Option<CodeVariant> {
    let (head, rest) = part.split_once('\n')?;
    let language = head.split(" (").next()?.trim();
    let (_, fenced) = rest.split_once("```")?.1.split_once('\n')?;
    let code = fenced.split("\n```").next()?;
    Some(CodeVariant { language, code: code.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_a_function_for_each_language() {
        let snippet = snippet();
        let languages: Vec<_> = snippet.variants.iter().map(|variant| variant.language).collect();
        assert_eq!(languages, ["Python", "JavaScript", "Go", "Rust"]);
        for (variant, part) in snippet.variants.iter().zip([
            "def is_genuine(",
            "function isGenuine(",
            "func IsGenuine(",
            "pub fn is_genuine(",
        ]) {
            assert!(variant.code.contains(part) && !variant.code.contains("```"), "{}", variant.code);
            assert!(variant.code.contains("sha256="), "{}", variant.code);
        }
    }
}
