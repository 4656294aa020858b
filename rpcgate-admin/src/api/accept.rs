//! Content negotiation between HTML and JSON (RFC 9110, section 12.5.1).

use http::HeaderMap;
use http::header::ACCEPT;

/// Returns the weight in thousandths that `accept` gives to the media type `kind/part`. The most specific range
/// decides.
fn weight(accept: &str, kind: &str, part: &str) -> u32 {
    let mut best = (0, 0);
    for range in accept.split(',') {
        let mut pieces = range.split(';').map(str::trim);
        let media = pieces.next().unwrap_or_default();
        let Some((its_kind, its_part)) = media.split_once('/') else { continue };
        let specific = match (its_kind, its_part) {
            ("*", "*") => 1,
            (its, "*") if its.eq_ignore_ascii_case(kind) => 2,
            (its, rest) if its.eq_ignore_ascii_case(kind) && rest.eq_ignore_ascii_case(part) => 3,
            _ => continue,
        };
        let quality = pieces.find_map(|piece| {
            let (name, value) = piece.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>().unwrap_or_default())
        });
        let thousandths = (quality.unwrap_or(1.0).clamp(0.0, 1.0) * 1_000.0) as u32;
        if specific > best.0 {
            best = (specific, thousandths);
        }
    }
    best.1
}

/// Reports whether the client prefers HTML to JSON. Without a preference it gets JSON.
pub(super) fn prefers_html(headers: &HeaderMap) -> bool {
    let given: Vec<_> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let accept = given.join(",");
    weight(&accept, "text", "html") > weight(&accept, "application", "json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn clients_that_prefer_html_get_html() {
        for (accept, expected) in [
            ("", false),
            ("*/*", false),
            ("application/json", false),
            ("text/html", true),
            ("TEXT/HTML", true),
            ("text/*", true),
            ("text/html, application/json", false),
            ("text/html, application/json;q=0.9", true),
            ("text/html;q=0.5, application/json;q=0.9", false),
            ("text/html;q=0", false),
            ("text/html;q=0, */*", false),
            ("text/html;q=x", false),
            ("text/html;q=NaN", false),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("nonsense", false),
        ] {
            let headers = [(ACCEPT, HeaderValue::from_str(accept).unwrap())].into_iter().collect();
            assert_eq!(prefers_html(&headers), expected, "{accept}");
        }
        assert!(!prefers_html(&HeaderMap::new()));
    }
}
