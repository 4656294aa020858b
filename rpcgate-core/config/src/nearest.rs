//! Suggestions for misspelled words.

/// Returns the word of `known` with the fewest edits from `word`; the first of several.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().min_by_key(|candidate| distance(word, candidate))
}

/// Returns the name of `known` that `name` is probably a misspelling of, if one is similar enough.
pub(super) fn near_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).filter(|near| similar(name, near)).map(str::to_owned)
}

/// Reports whether one word may be a misspelling of the other: at most a third of the letters differ.
pub(super) fn similar(a: &str, b: &str) -> bool {
    distance(a, b) * 3 <= a.chars().count().max(b.chars().count())
}

/// Returns the number of characters to insert, remove, replace or swap with a neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                if swapped { best.min(rows[i - 2][j - 2] + 1) } else { best }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, edits) in
            [("", "abc", 3), ("listen", "listn", 1), ("listne", "listen", 1), ("abc", "abc", 0)]
        {
            assert_eq!(distance(a, b), edits, "{a} {b}");
        }
    }

    #[test]
    fn words_that_differ_in_a_third_are_similar() {
        for (a, b) in [("etc", "eth"), ("etherum", "ethereum"), ("eth_cal", "eth_call")] {
            assert!(similar(a, b), "{a} {b}");
        }
        for (a, b) in [("base", "bsc"), ("arbitrum", "aptos"), ("ab", "cd")] {
            assert!(!similar(a, b), "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_word_wins() {
        assert_eq!(nearest("lisen", ["limits", "listen", "tls"]), Some("listen"));
        assert_eq!(nearest("x", []), None);
    }
}
