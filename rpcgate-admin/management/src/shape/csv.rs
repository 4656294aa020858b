//! CSV (RFC 4180) and its content negotiation.

use http::HeaderMap;
use http::header::ACCEPT;

/// The media type of CSV with the names of the columns in the first line.
pub(crate) const MEDIA_TYPE: &str = "text/csv; charset=utf-8; header=present";

/// Returns an empty file. It begins with a byte order mark, without which spreadsheet programs do not read UTF-8.
pub(crate) fn file() -> String {
    String::from('\u{feff}')
}

/// Reports whether a client prefers CSV to JSON (RFC 9110, section 12.5.1). CSV must be named explicitly: a client that
/// accepts anything gets JSON.
pub fn is_requested(headers: &HeaderMap) -> bool {
    let mut csv = None;
    let mut json = None;
    let mut any = 0;
    let ranges = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    for range in ranges.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let quality = quality.map_or(Some(1_000), thousandths).unwrap_or_default();
        match name.as_str() {
            "text/csv" => csv = Some(quality),
            "application/json" => json = Some(quality),
            "application/*" | "*/*" => any = quality.max(any),
            _ => {}
        }
    }
    let csv = csv.unwrap_or_default();
    // A named type takes precedence over a wildcard.
    csv > 0 && json.map_or(csv >= any, |json| csv > json)
}

fn thousandths(quality: &str) -> Option<u32> {
    let quality: f32 = quality.parse().ok()?;
    (0.0..=1.0).contains(&quality).then(|| (quality * 1_000.0).round() as u32)
}

/// Returns `text` in a form that no spreadsheet evaluates as a formula, because clients choose some of the texts.
///
/// A spreadsheet may use a separator other than the comma, so the text after each separator is treated like the start
/// of a cell. Such a spreadsheet ignores the quotation marks around a cell: a line break in the cell starts a new line,
/// and a quotation mark after a separator opens a cell.
pub(crate) fn harmless(text: String) -> String {
    let is_sign = |c: char| matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠');
    let is_skipped = |c: char| c.is_whitespace() || c == '"';
    let is_formula = |part: &str| part.trim_start_matches(is_skipped).starts_with(is_sign);
    let begins_blank = text.starts_with(['\t', '\r', '\n']);
    if !begins_blank && !text.split(SEPARATORS).any(is_formula) {
        return text;
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for (place, part) in text.split_inclusive(SEPARATORS).enumerate() {
        if is_formula(part) || (place == 0 && begins_blank) {
            safe.push('\'');
        }
        safe.push_str(part);
    }
    safe
}

/// Cell separators other than the comma, and line breaks.
const SEPARATORS: [char; 5] = [';', '\t', '|', '\r', '\n'];

/// Appends a line of cells, quoted where necessary.
pub(crate) fn line(text: &mut String, cells: impl Iterator<Item = String>) {
    for (place, cell) in cells.enumerate() {
        if place > 0 {
            text.push(',');
        }
        if cell.contains([',', '"', '\r', '\n']) {
            text.push('"');
            text.push_str(&cell.replace('"', "\"\""));
            text.push('"');
        } else {
            text.push_str(&cell);
        }
    }
    text.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(accept: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, http::HeaderValue::from_static(value));
        }
        is_requested(&headers)
    }

    #[test]
    fn csv_is_returned_if_the_client_prefers_it() {
        for accept in [
            &["text/csv"][..],
            &["Text/CSV; charset=utf-8; q=0.5"],
            &["text/csv, */*"],
            &["text/csv, application/json;q=0.9"],
            &["application/json;q=0.1", "text/csv;q=0.2"],
            &["application/json;q=0, text/csv;q=0.001"],
        ] {
            assert!(wanted(accept), "{accept:?}");
        }
        for accept in [
            &[][..],
            &["*/*"],
            &["text/*"],
            &["application/json"],
            &["text/csv;q=0"],
            &["text/csv;q=0, */*"],
            &["text/csv;q=nonsense"],
            &["text/csv;q=0.5, */*"],
            &["application/json, text/csv"],
            &["text/csvx"],
        ] {
            assert!(!wanted(accept), "{accept:?}");
        }
    }

    #[test]
    fn a_cell_is_quoted_where_it_must_be() {
        let mut text = String::new();
        line(&mut text, ["a", "b,c", "say \"x\"", "two\nlines", "", " d "].map(str::to_owned).into_iter());
        assert_eq!(text, "a,\"b,c\",\"say \"\"x\"\"\",\"two\nlines\",, d \r\n");
    }

    // Shows (Management).
    #[test]
    fn no_spreadsheet_runs_a_cell() {
        for text in ["=1+1", "+1", "-1", "@SUM(A1)", "  =1", "＝1", "-", "\"=1", " \" =1"] {
            assert_eq!(harmless(text.to_owned()), format!("'{text}"));
        }
        for (text, safe) in [
            ("x;=1+1", "x;'=1+1"),
            ("a|b; @c", "a|b;' @c"),
            ("=1;=2", "'=1;'=2"),
            ("\t=1", "'\t'=1"),
            ("\r=1", "'\r'=1"),
            ("\n=1", "'\n'=1"),
            ("x\t-1", "x\t'-1"),
            ("x\r\n=1;", "x\r\n'=1;"),
            ("x;\"=1;", "x;'\"=1;"),
            ("x|\"\" @c", "x|'\"\" @c"),
        ] {
            assert_eq!(harmless(text.to_owned()), safe);
        }
        for text in [
            "eth_call",
            "a=b",
            "",
            "200",
            "(other)",
            "'quoted",
            "a; b",
            "Mozilla/5.0 (X11; Linux)",
            "a;\"b\"",
        ] {
            assert_eq!(harmless(text.to_owned()), text);
        }
    }
}
