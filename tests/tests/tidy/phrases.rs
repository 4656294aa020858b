//! The language of comments and documents: phrases that a reader must read twice, counted.
//!
//! Each row allows as many hits as well-known code bases have: one in 2,000 lines.

use crate::{none, tree};

/// Lines of comments and documents for which a row may have one hit.
const LINES_PER_HIT: usize = 2_000;

/// A name for the findings, and the phrases that count as its hits.
const ROWS: &[(&str, &[&str])] = &[
    ("of which", &["of which", "of whom"]),
    ("beside", &["beside", "besides"]),
    ("told of", &["told of", "tell of", "tells of", "telling of"]),
    ("so many", &["so many", "so much"]),
    ("as far as", &["as far as"]),
    ("in place of", &["in place of", "in its place", "in their place"]),
    ("nobody", &["nobody", "somebody", "whoever"]),
    ("is none", &["is none", "are none"]),
    ("anew", &["anew"]),
    ("stands", &["stand for", "stand in", "stand beside", "stands for", "stands in", "stands beside"]),
    ("by now", &["by now", "of another |", "such a one", "the like"]),
];

/// The row of documentation comments that open with a clause instead of a noun or a verb.
const CLAUSE: &str = "a clause as the heading of a doc comment";

/// The words that open such a clause.
const CLAUSE_WORDS: [&str; 4] = ["what", "who", "how", "whether"];

/// A paragraph of a comment or a document.
struct Paragraph {
    path: String,
    line: usize,
    /// Lower-case words. The end of a sentence or clause is a word of its own, so that no phrase spans it.
    words: Vec<String>,
    /// True for the first paragraph of a documentation comment of an item.
    is_heading: bool,
}

const END: &str = "|";

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        let ends = word.ends_with(['.', ',', ':', ';', '?', '!']);
        let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_' && c != '`');
        if !word.is_empty() {
            words.push(word.to_lowercase());
        }
        if ends {
            words.push(END.to_owned());
        }
    }
    words
}

/// The paragraphs of a file, and the number of their lines.
fn paragraphs(path: &str, text: &str) -> (Vec<Paragraph>, usize) {
    let is_code = path.ends_with(".rs");
    let mut all: Vec<Paragraph> = Vec::new();
    let mut lines = 0;
    let mut before: Option<&str> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let (marker, content) = match is_code {
            false => ("", line),
            true => match ["///", "//!", "//"].iter().find_map(|m| Some((*m, line.strip_prefix(m)?))) {
                Some((marker, content)) => (marker, content.trim()),
                None => {
                    before = None;
                    continue;
                }
            },
        };
        if content.is_empty() {
            // A documentation comment goes on after an empty line of its own.
            before = before.filter(|_| is_code).map(|_| "");
            continue;
        }
        lines += 1;
        match all.last_mut().filter(|_| before == Some(marker)) {
            Some(paragraph) => paragraph.words.extend(words(content)),
            None => all.push(Paragraph {
                path: path.to_owned(),
                line: number + 1,
                words: words(content),
                is_heading: marker == "///" && before.is_none(),
            }),
        }
        before = Some(marker);
    }
    (all, lines)
}

fn opens_with_clause(paragraph: &Paragraph) -> bool {
    paragraph.is_heading
        && paragraph.words.first().is_some_and(|first| CLAUSE_WORDS.contains(&first.as_str()))
}

fn hits(paragraph: &Paragraph, phrases: &[&str]) -> usize {
    let found = |phrase: &&str| {
        let phrase: Vec<_> = phrase.split(' ').collect();
        paragraph.words.windows(phrase.len()).filter(|window| window.iter().eq(phrase.iter())).count()
    };
    phrases.iter().map(found).sum()
}

/// Rows with more hits than `lines` allow, each with the places of its hits.
fn too_frequent(paragraphs: &[Paragraph], lines: usize) -> Vec<String> {
    let allowed = lines / LINES_PER_HIT;
    let mut findings = Vec::new();
    let mut judge = |name: &str, count: &dyn Fn(&Paragraph) -> usize| {
        let found: Vec<_> = paragraphs.iter().filter(|paragraph| count(paragraph) > 0).collect();
        let total: usize = found.iter().map(|paragraph| count(paragraph)).sum();
        if total > allowed {
            let places = found.iter().map(|paragraph| format!("    {}:{}", paragraph.path, paragraph.line));
            let places = places.collect::<Vec<_>>().join("\n");
            findings.push(format!("\"{name}\": {total} hits, allowed are {allowed}\n{places}"));
        }
    };
    for (name, phrases) in ROWS {
        judge(name, &|paragraph| hits(paragraph, phrases));
    }
    judge(CLAUSE, &|paragraph| usize::from(opens_with_clause(paragraph)));
    findings
}

#[test]
fn comments_and_documents_are_in_plain_english() {
    let files = tree::files().into_iter();
    // This file has the phrases themselves.
    let read = files.filter(|file| file.path.ends_with(".rs") || file.path.ends_with(".md"));
    let read = read.filter(|file| !file.path.ends_with("/phrases.rs"));
    let mut all = Vec::new();
    let mut lines = 0;
    for file in read {
        let (found, count) = paragraphs(&file.path, &file.text.unwrap_or_default());
        all.extend(found);
        lines += count;
    }
    none(
        &too_frequent(&all, lines),
        "Write the subject first, an active verb, one idea per sentence, and numbers instead of \"so many\".",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str, lines: usize) -> usize {
        too_frequent(&paragraphs(path, text).0, lines).len()
    }

    #[test]
    fn a_phrase_counts_in_comments_and_documents_and_across_lines() {
        assert_eq!(found("a.rs", "/// Reads a list of\n/// which it keeps one.\nfn f() {}\n", 1_999), 1);
        assert_eq!(found("a.rs", "fn f() {\n    // It stands for all.\n}\n", 0), 1);
        assert_eq!(found("a.md", "Two lists, of which one\nis empty.\n", 0), 1);
        assert_eq!(found("a.rs", "fn f() { \"so many\" }\n", 0), 0);
        assert_eq!(found("a.rs", "/// A list of. Which?\nfn f() {}\n", 0), 0);
        assert_eq!(found("a.rs", "/// Reads a list of which it keeps one.\nfn f() {}\n", 2_000), 0);
    }

    #[test]
    fn a_clause_counts_as_the_heading_of_an_item_alone() {
        assert_eq!(found("a.rs", "/// What it reads.\nfn f() {}\n", 0), 1);
        assert_eq!(found("a.rs", "/// Whether it is\n/// read.\nfn f() {}\n", 0), 1);
        assert_eq!(found("a.rs", "/// Reads.\n///\n/// How it reads is private.\nfn f() {}\n", 0), 0);
        assert_eq!(found("a.rs", "//! What it reads.\n", 0), 0);
        assert_eq!(found("a.md", "What it reads.\n", 0), 0);
    }
}
