//! A Rust source as tokens, so that rules see code and not the words of a comment.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Word,
    Number,
    /// A string of any kind; its text is the part between the quotes, with escapes as written.
    Text,
    /// A line of documentation, without its marker.
    Doc,
    Char,
    Lifetime,
    Mark,
}

/// A token. Comments other than documentation are not tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) line: usize,
    /// True for a token under `#[cfg(test)]`.
    pub(crate) test: bool,
}

#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) tokens: Vec<Token>,
    /// The number of lines, without those under `#[cfg(test)]`.
    pub(crate) lines: usize,
}

/// A function with an attribute whose path ends in `test`.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct TestFunction {
    pub(crate) name: String,
    /// The line of its first attribute.
    pub(crate) line: usize,
}

/// A path in the code: `a::b::c`. The paths of a `use` are listed one by one.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Named {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    pub(crate) test: bool,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let mut tokens = tokens(text);
        let mut lines = text.lines().count();
        for range in test_ranges(&tokens) {
            lines -= tokens[range.end - 1].line - tokens[range.start].line + 1;
            tokens[range].iter_mut().for_each(|token| token.test = true);
        }
        if is_test_file(path) {
            lines = 0;
            tokens.iter_mut().for_each(|token| token.test = true);
        }
        Source { path: path.to_owned(), tokens, lines }
    }

    /// Reports whether the file belongs to the sources of one of the main crates.
    pub(crate) fn is_shipped(&self) -> bool {
        self.path.starts_with("rpcgate-") && self.path.contains("/src/")
    }

    pub(crate) fn code(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().filter(|token| !token.test && token.kind != Kind::Doc)
    }

    /// Returns every occurrence of this sequence of tokens, without documentation between them.
    pub(crate) fn find<'a>(&'a self, pattern: &'a [&str]) -> impl Iterator<Item = &'a Token> {
        let code: Vec<_> = self.tokens.iter().filter(|token| token.kind != Kind::Doc).collect();
        let hits: Vec<_> = code
            .windows(pattern.len())
            .filter(|window| {
                window
                    .iter()
                    .zip(pattern)
                    .all(|(token, text)| token.kind != Kind::Text && token.text == *text)
            })
            .map(|window| window[0])
            .collect();
        hits.into_iter()
    }

    pub(crate) fn test_functions(&self) -> Vec<TestFunction> {
        let code: Vec<_> = self.tokens.iter().filter(|token| token.kind != Kind::Doc).collect();
        let named = |at: usize, text: &str| code.get(at).is_some_and(|token| token.text == text);
        let mut functions = Vec::new();
        // The line of the first attribute of the item, and whether one of its attributes marks a test.
        let mut first = None;
        let mut marked = false;
        let mut at = 0;
        while at < code.len() {
            if named(at, "#") && named(at + 1, "[") {
                first = first.or(Some(code[at].line));
                let mut last = at + 2;
                while named(last + 1, "::") {
                    last += 2;
                }
                marked |= named(last, "test");
                let mut depth = 1;
                at += 2;
                while depth > 0 && at < code.len() {
                    depth = depth + usize::from(named(at, "[")) - usize::from(named(at, "]"));
                    at += 1;
                }
                continue;
            }
            if named(at, "fn")
                && let (true, Some(name), Some(line)) = (marked, code.get(at + 1), first)
            {
                functions.push(TestFunction { name: name.text.clone(), line });
            }
            if !named(at, "async") && !named(at, "pub") {
                (first, marked) = (None, false);
            }
            at += 1;
        }
        functions
    }

    pub(crate) fn paths(&self) -> Vec<Named> {
        let code: Vec<_> = self.tokens.iter().filter(|token| token.kind != Kind::Doc).collect();
        let mut named = Vec::new();
        let mut at = 0;
        while at < code.len() {
            let token = code[at];
            let is_use = is_word(token, "use") && code.get(at + 1).is_some_and(|next| next.text != "<");
            if is_use {
                at = use_tree(&code, at + 1, &[], &mut named);
            } else if token.kind == Kind::Word {
                let mut segments = vec![token.text.clone()];
                while code.get(at + 1).is_some_and(|next| next.text == "::")
                    && let Some(next) = code.get(at + 2).filter(|next| next.kind == Kind::Word)
                {
                    segments.push(next.text.clone());
                    at += 2;
                }
                named.push(Named { segments, line: token.line, test: token.test });
            }
            at += 1;
        }
        named
    }

    /// Returns every path that the module re-exports: `pub use a::B;`.
    pub(crate) fn exports(&self) -> Vec<Named> {
        let code: Vec<_> = self.tokens.iter().filter(|token| token.kind != Kind::Doc).collect();
        let mut named = Vec::new();
        for (at, _) in code.iter().enumerate().filter(|(_, token)| is_word(token, "pub")) {
            let restricted = code.get(at + 1).is_some_and(|next| next.text == "(");
            let after = if restricted {
                code[at..].iter().position(|token| token.text == ")").map_or(code.len(), |end| at + end + 1)
            } else {
                at + 1
            };
            if code.get(after).is_some_and(|token| is_word(token, "use")) {
                use_tree(&code, after + 1, &[], &mut named);
            }
        }
        named
    }

    pub(crate) fn at(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

fn is_word(token: &Token, text: &str) -> bool {
    token.kind == Kind::Word && token.text == text
}

fn is_test_file(path: &str) -> bool {
    let inside = path.split_once("/src/").map_or("", |(_, inside)| inside);
    inside.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// Reads one tree of a `use` from `at`. Returns the index of the token that ends it.
fn use_tree(code: &[&Token], mut at: usize, before: &[String], named: &mut Vec<Named>) -> usize {
    let mut segments = before.to_vec();
    let mut ended = false;
    let line = code.get(at).map_or(0, |token| token.line);
    let test = code.get(at).is_some_and(|token| token.test);
    while let Some(token) = code.get(at) {
        match token.text.as_str() {
            "::" => {}
            "{" => {
                ended = true;
                at += 1;
                while code.get(at).is_some_and(|token| token.text != "}") {
                    at = use_tree(code, at, &segments, named);
                    if code.get(at).is_some_and(|token| token.text == ",") {
                        at += 1;
                    }
                }
            }
            "as" => at += 1,
            "," | "}" | ";" => break,
            _ => segments.push(token.text.clone()),
        }
        at += 1;
    }
    if !ended && segments.len() > before.len() {
        named.push(Named { segments, line, test });
    }
    at
}

/// Returns ranges of tokens that `#[cfg(test)]` or `#[cfg(all(test, …))]` takes out of the build.
fn test_ranges(tokens: &[Token]) -> Vec<std::ops::Range<usize>> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let attribute =
            text(at) == "#" && text(at + 1) == "[" && text(at + 2) == "cfg" && text(at + 3) == "(";
        let bare = text(at + 4) == "test" && text(at + 5) == ")";
        let among = text(at + 4) == "all" && text(at + 5) == "(" && text(at + 6) == "test";
        if !(attribute && (bare || among)) {
            at += 1;
            continue;
        }
        let start = at;
        while text(at) == "#" {
            at = closing(tokens, at + 1) + 1;
        }
        while at < tokens.len() && text(at) != ";" && text(at) != "{" {
            at = if matches!(text(at), "(" | "[") { closing(tokens, at) } else { at } + 1;
        }
        at = if text(at) == "{" { closing(tokens, at) } else { at } + 1;
        at = at.min(tokens.len());
        ranges.push(start..at);
    }
    ranges
}

/// Returns the index of the bracket that closes the one at `open`.
fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.kind == Kind::Mark {
            match token.text.as_str() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
    }
    tokens.len() - 1
}

struct Reader<'a> {
    left: &'a str,
    line: usize,
    tokens: Vec<Token>,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut reader = Reader { left: text, line: 1, tokens: Vec::new() };
    while !reader.left.is_empty() {
        reader.step();
    }
    reader.tokens
}

impl Reader<'_> {
    fn step(&mut self) {
        let left = self.left;
        let first = left.chars().next().unwrap();
        if left.starts_with("//") {
            let end = left.find('\n').unwrap_or(left.len());
            let doc = (left.starts_with("///") && !left.starts_with("////")) || left.starts_with("//!");
            if doc {
                self.push(Kind::Doc, &left[3..end]);
            }
            self.skip(end);
        } else if left.starts_with("/*") {
            self.block_comment();
        } else if let Some((open, hashes)) = raw_text(left) {
            let mark = format!("\"{}", "#".repeat(hashes));
            let end = left[open..].find(&mark).map_or(left.len(), |at| open + at);
            self.push(Kind::Text, &left[open..end]);
            self.skip((end + mark.len()).min(left.len()));
        } else if let Some(open) =
            ["\"", "b\"", "c\""].iter().find(|open| left.starts_with(**open)).map(|o| o.len())
        {
            let end = quoted(left, open, '"');
            self.push(Kind::Text, &left[open..end]);
            self.skip((end + 1).min(left.len()));
        } else if first == '\'' || left.starts_with("b'") {
            self.char_or_lifetime();
        } else if first.is_alphabetic() || first == '_' {
            let raw = if left.starts_with("r#") { 2 } else { 0 };
            let end = raw + word_len(&left[raw..]);
            self.push(Kind::Word, &left[raw..end]);
            self.skip(end);
        } else if first.is_ascii_digit() {
            let mut end = word_len(left);
            if left[end..].starts_with('.') && left[end + 1..].starts_with(|next: char| next.is_ascii_digit())
            {
                end += 1 + word_len(&left[end + 1..]);
            }
            self.push(Kind::Number, &left[..end]);
            self.skip(end);
        } else {
            let end = if left.starts_with("::") { 2 } else { first.len_utf8() };
            if !first.is_whitespace() {
                self.push(Kind::Mark, &left[..end]);
            }
            self.skip(end);
        }
    }

    fn char_or_lifetime(&mut self) {
        let left = self.left;
        let open = left.find('\'').unwrap() + 1;
        let mut chars = left[open..].chars();
        let first = chars.next();
        let second = chars.next();
        if first == Some('\\') || second == Some('\'') {
            let end = quoted(left, open, '\'');
            self.push(Kind::Char, &left[open..end]);
            self.skip((end + 1).min(left.len()));
        } else {
            let end = open + word_len(&left[open..]);
            self.push(Kind::Lifetime, &left[open..end]);
            self.skip(end);
        }
    }

    fn block_comment(&mut self) {
        let left = self.left;
        let mut depth = 0;
        let mut at = 0;
        while at < left.len() {
            let step = match &left.as_bytes()[at..] {
                [b'/', b'*', ..] => {
                    depth += 1;
                    2
                }
                [b'*', b'/', ..] => {
                    depth -= 1;
                    2
                }
                _ => 1,
            };
            at += step;
            if depth == 0 {
                break;
            }
        }
        if left.starts_with("/*!") || (left.starts_with("/**") && at > 4) {
            let inside = &left[3..at.saturating_sub(2).max(3)];
            let line = self.line;
            for (below, text) in inside.lines().enumerate() {
                self.tokens.push(Token {
                    kind: Kind::Doc,
                    text: text.to_owned(),
                    line: line + below,
                    test: false,
                });
            }
        }
        self.skip(at);
    }

    fn push(&mut self, kind: Kind, text: &str) {
        self.tokens.push(Token { kind, text: text.to_owned(), line: self.line, test: false });
    }

    fn skip(&mut self, bytes: usize) {
        self.line += self.left[..bytes].matches('\n').count();
        self.left = &self.left[bytes..];
    }
}

/// Returns the length of the opening of a raw string, and its number of hashes.
fn raw_text(left: &str) -> Option<(usize, usize)> {
    let prefix = ["r", "br", "cr"].iter().find(|prefix| {
        left.strip_prefix(**prefix).is_some_and(|rest| rest.trim_start_matches('#').starts_with('"'))
    })?;
    let hashes = left[prefix.len()..].chars().take_while(|mark| *mark == '#').count();
    Some((prefix.len() + hashes + 1, hashes))
}

/// Returns the offset of the quote that closes the literal that was opened before `from`.
fn quoted(left: &str, from: usize, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in left[from..].char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return from + at,
            _ => {}
        }
    }
    left.len()
}

fn word_len(left: &str) -> usize {
    left.find(|character: char| !(character.is_alphanumeric() || character == '_')).unwrap_or(left.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(Kind, String)> {
        Source::new("x.rs", text).tokens.into_iter().map(|token| (token.kind, token.text)).collect()
    }

    #[test]
    fn strings_comments_and_lifetimes_are_distinguished() {
        use Kind::{Char, Doc, Lifetime, Mark, Number, Text, Word};
        let text = r##"/// d "x
fn f<'a>('\'', 'b', b'"') { /* "no" /* nested */ */ r#"a"b"#; "q\"" } // "no"
-32_601 1.5 0..9"##;
        let expected = [
            (Doc, " d \"x"),
            (Word, "fn"),
            (Word, "f"),
            (Mark, "<"),
            (Lifetime, "a"),
            (Mark, ">"),
            (Mark, "("),
            (Char, "\\'"),
            (Mark, ","),
            (Char, "b"),
            (Mark, ","),
            (Char, "\""),
            (Mark, ")"),
            (Mark, "{"),
            (Text, "a\"b"),
            (Mark, ";"),
            (Text, "q\\\""),
            (Mark, "}"),
            (Mark, "-"),
            (Number, "32_601"),
            (Number, "1.5"),
            (Number, "0"),
            (Mark, "."),
            (Mark, "."),
            (Number, "9"),
        ];
        let expected: Vec<_> = expected.into_iter().map(|(kind, text)| (kind, text.to_owned())).collect();
        assert_eq!(shown(text), expected);
    }

    #[test]
    fn code_under_cfg_test_is_a_test() {
        let text = "fn a() {}\n#[cfg(test)]\n#[path = \"x\"]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nuse d;\n";
        let source = Source::new("x.rs", text);
        let code: Vec<_> =
            source.code().filter(|token| token.kind == Kind::Word).map(|token| &token.text).collect();
        assert_eq!(code, ["fn", "a", "fn", "c"]);
        assert_eq!(source.lines, 2);
        assert_eq!(Source::new("x.rs", "#[cfg(not(test))]\nfn a() {}").lines, 2);
        assert_eq!(Source::new("rpcgate-x/src/a/tests.rs", text).code().count(), 0);
    }

    #[test]
    fn paths_are_written_out() {
        let source =
            Source::new("x.rs", "use a::{self, b::{c, d as e}, f::*};\npub use g;\nlet x = h::i::<T>::j(k);");
        let named = source.paths();
        let paths: Vec<_> = named.iter().map(|named| (named.segments.join("::"), named.line)).collect();
        let expected =
            ["a::self", "a::b::c", "a::b::d", "a::f::*", "pub", "g", "let", "x", "h::i", "T", "j", "k"];
        let mut lines = vec![1; 4];
        lines.extend([2; 2]);
        lines.extend([3; 6]);
        assert_eq!(paths.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), expected);
        assert_eq!(paths.iter().map(|(_, line)| *line).collect::<Vec<_>>(), lines);
    }
}
