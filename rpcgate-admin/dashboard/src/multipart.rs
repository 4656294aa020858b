//! Forms with a file: `multipart/form-data` (RFC 7578). The body is complete and bounded, and no part is copied.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use memchr::memmem::find;
use rpcgate_management::error::ActionError;

const MAX_PARTS: usize = 20;

/// The maximum bytes of a part's headers.
const MAX_HEAD: usize = 8 << 10;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Multipart(Vec<FormPart>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct FormPart {
    name: String,
    /// The name of the file, if the field is a file.
    file: Option<String>,
    content: Bytes,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SentFile<'f> {
    pub(super) name: &'f str,
    pub(super) content: &'f Bytes,
}

fn malformed() -> ActionError {
    ActionError::invalid("the form is incomplete")
}

impl Multipart {
    /// Reads a form.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] for a malformed body.
    pub(super) fn read(headers: &HeaderMap, body: &Bytes) -> Result<Self, ActionError> {
        let boundary = headers.get(CONTENT_TYPE).and_then(|kind| boundary(kind.to_str().ok()?));
        let delimiter = format!("\r\n--{}", boundary.ok_or_else(malformed)?);
        // The first delimiter has no line break before it.
        let start = delimiter.get(2..).unwrap_or_default();
        let mut at = if body.starts_with(start.as_bytes()) { start.len() } else { return Err(malformed()) };
        let mut parts = Vec::new();
        loop {
            let rest = body.get(at..).unwrap_or_default();
            if rest.starts_with(b"--") {
                return Ok(Multipart(parts));
            }
            if !rest.starts_with(b"\r\n") || parts.len() == MAX_PARTS {
                return Err(malformed());
            }
            let head_at = at + 2;
            // A part without headers has no name, so at least one header is present.
            let head = body.get(head_at..).unwrap_or_default();
            let head = head.get(..MAX_HEAD.min(head.len())).unwrap_or_default();
            let head_end = head_at + find(head, b"\r\n\r\n").ok_or_else(malformed)?;
            let content_at = head_end + 4;
            let content = body.get(content_at..).unwrap_or_default();
            let content_end = content_at + find(content, delimiter.as_bytes()).ok_or_else(malformed)?;
            let head = String::from_utf8_lossy(body.get(head_at..head_end).unwrap_or_default()).into_owned();
            if let Some((name, file)) = disposition(&head) {
                parts.push(FormPart { name, file, content: body.slice(content_at..content_end) });
            }
            at = content_end + delimiter.len();
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let mut its = self.0.iter().filter(|part| part.name == name && part.file.is_none());
        str::from_utf8(&its.next()?.content).ok()
    }

    /// Returns the file of a field; `None` if the user chose none, in which case browsers send an empty file without a
    /// name.
    pub(super) fn file(&self, name: &str) -> Option<SentFile<'_>> {
        let mut its = self.0.iter().filter(|part| part.name == name);
        let FormPart { file, content, .. } = its.next()?;
        let name = file.as_deref()?;
        (!name.is_empty() || !content.is_empty()).then_some(SentFile { name, content })
    }
}

/// Returns the delimiter of the parts.
fn boundary(kind: &str) -> Option<&str> {
    let (name, parameters) = kind.split_once(';')?;
    let is_form = name.trim().eq_ignore_ascii_case("multipart/form-data");
    let mut parameters = parameters.split(';').filter_map(|one| one.trim().split_once('='));
    let (_, boundary) = parameters.find(|(name, _)| name.eq_ignore_ascii_case("boundary"))?;
    let boundary = boundary.trim_matches('"');
    (is_form && (1..=70).contains(&boundary.len())).then_some(boundary)
}

/// Returns the name of a field, and that of its file.
fn disposition(head: &str) -> Option<(String, Option<String>)> {
    let line = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    let (kind, _) = line.split_once(';')?;
    let name = parameter(line, "name")?;
    kind.trim().eq_ignore_ascii_case("form-data").then(|| (name, parameter(line, "filename")))
}

/// Returns a quoted parameter. Browsers write `%22` for a quotation mark in it.
fn parameter(line: &str, name: &str) -> Option<String> {
    let opening = format!("; {name}=\"");
    let (_, rest) = line.split_once(&opening)?;
    let (value, _) = rest.split_once('"')?;
    Some(value.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const KIND: &str = "multipart/form-data; boundary=----x7";

    fn read(kind: &'static str, body: &str) -> Result<Multipart, ActionError> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        Multipart::read(&headers, &Bytes::copy_from_slice(body.as_bytes()))
    }

    const FORM: &str = "------x7\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\ntoken\r\n\
        ------x7\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a %22b%22.txt\"\r\n\
        Content-Type: text/plain\r\n\r\nline\r\n\r\n--no end\r\n------x7--\r\n";

    #[test]
    fn a_form_has_texts_and_files() {
        let form = read(KIND, FORM).unwrap();
        assert_eq!((form.text("csrf"), form.text("file"), form.text("other")), (Some("token"), None, None));
        let file = form.file("file").unwrap();
        assert_eq!((file.name, &file.content[..]), ("a \"b\".txt", &b"line\r\n\r\n--no end"[..]));
        assert!(form.file("csrf").is_none());
        assert_eq!(read("Multipart/Form-Data; charset=utf-8; boundary=\"----x7\"", FORM).unwrap(), form);
    }

    #[test]
    fn a_file_field_without_a_choice_is_empty() {
        let form = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"\"\r\n\r\n\r\n--b--\r\n";
        assert!(read("multipart/form-data; boundary=b", form).unwrap().file("file").is_none());
    }

    #[test]
    fn an_incomplete_form_is_refused() {
        for (kind, body) in [
            ("application/x-www-form-urlencoded", FORM),
            ("multipart/form-data", FORM),
            ("multipart/form-data; boundary=", FORM),
            ("multipart/form-data; boundary=other", FORM),
            (KIND, ""),
            (KIND, "------x7"),
            (KIND, "------x7\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nendless"),
            (KIND, "------x7\r\nContent-Disposition: form-data"),
        ] {
            assert!(read(kind, body).is_err(), "{kind}: {body}");
        }
        let cut = FORM.strip_suffix("--\r\n").unwrap();
        assert!(read(KIND, cut).is_err(), "the end is missing");
    }

    // Shows (Dashboard).
    #[test]
    fn a_form_has_no_more_parts_and_no_longer_heads_than_allowed() {
        let part = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n";
        let kind = "multipart/form-data; boundary=b";
        assert!(read(kind, &format!("{}--b--", part.repeat(MAX_PARTS))).is_ok());
        assert!(read(kind, &format!("{}--b--", part.repeat(MAX_PARTS + 1))).is_err());
        let head = |length: usize| format!("--b\r\nx: {}\r\n\r\n1\r\n--b--", "y".repeat(length));
        assert!(read(kind, &head(1_000)).is_ok());
        assert!(read(kind, &head(MAX_HEAD)).is_err());
    }
}
