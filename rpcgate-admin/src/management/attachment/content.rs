//! What a file is, by its first bytes.

use crate::store::AttachmentKind;

/// Bytes of a file, at most (contract, "Accounts, second factors, money").
pub const MAX_BYTES: usize = 10 << 20;

/// What `content` is; `None` for a kind that is not accepted. Everything that is text counts as plain text, HTML and
/// scripts too, and is never served as anything else.
///
/// ```
/// use rpcgate_admin::management::attachment::sniff;
/// use rpcgate_admin::store::AttachmentKind;
///
/// assert_eq!(sniff(b"%PDF-1.7 ..."), Some(AttachmentKind::Pdf));
/// assert_eq!(sniff(b"<html><script>alert(1)</script>"), Some(AttachmentKind::Text));
/// assert_eq!(sniff(b"MZ\x90\x00\x03"), None);
/// ```
pub fn sniff(content: &[u8]) -> Option<AttachmentKind> {
    match infer::get(content).map(|found| found.mime_type()) {
        Some("image/png") => Some(AttachmentKind::Png),
        Some("image/jpeg") => Some(AttachmentKind::Jpeg),
        Some("image/gif") => Some(AttachmentKind::Gif),
        Some("image/webp") => Some(AttachmentKind::Webp),
        Some("application/pdf") => Some(AttachmentKind::Pdf),
        Some("application/zip") => Some(AttachmentKind::Zip),
        Some("application/gzip") => Some(AttachmentKind::Gzip),
        // Text may begin like a file of another kind: with "BM", as a bitmap does.
        _ => is_text(content).then_some(AttachmentKind::Text),
    }
}

fn is_text(content: &[u8]) -> bool {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    std::str::from_utf8(content).is_ok_and(|text| text.chars().all(is_plain))
}

/// The `Content-Type` with which a file is served.
pub const fn media_type(kind: AttachmentKind) -> &'static str {
    match kind {
        AttachmentKind::Png => "image/png",
        AttachmentKind::Jpeg => "image/jpeg",
        AttachmentKind::Gif => "image/gif",
        AttachmentKind::Webp => "image/webp",
        AttachmentKind::Pdf => "application/pdf",
        AttachmentKind::Zip => "application/zip",
        AttachmentKind::Gzip => "application/gzip",
        AttachmentKind::Text => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_what_a_file_is() {
        for (content, kind) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], AttachmentKind::Png),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", AttachmentKind::Jpeg),
            (b"GIF89a\x01\0\x01\0", AttachmentKind::Gif),
            (b"RIFF\x24\0\0\0WEBPVP8 ", AttachmentKind::Webp),
            (b"%PDF-1.7\n%\xe2\xe3", AttachmentKind::Pdf),
            (b"PK\x03\x04\x14\0\0\0\x08\0", AttachmentKind::Zip),
            (b"\x1f\x8b\x08\0\0\0\0\0", AttachmentKind::Gzip),
            (b"at 12:00 it failed\r\n\tagain\n", AttachmentKind::Text),
            ("größer".as_bytes(), AttachmentKind::Text),
            (b"BM is what a bitmap begins with", AttachmentKind::Text),
        ] {
            assert_eq!(sniff(content), Some(kind), "{kind}");
        }
    }

    #[test]
    fn what_a_browser_could_run_is_plain_text_and_what_a_computer_could_run_is_refused() {
        for content in [
            "<!DOCTYPE html><script>alert(1)</script>",
            "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
            "<?xml version='1.0'?><a/>",
            "#!/bin/sh\nrm -rf /\n",
        ] {
            assert_eq!(sniff(content.as_bytes()), Some(AttachmentKind::Text), "{content}");
        }
        for content in [
            &b"MZ\x90\0\x03\0\0\0\x04"[..],
            b"\x7fELF\x02\x01\x01\0",
            b"\xcf\xfa\xed\xfe\x07\0\0\x01",
            b"\xca\xfe\xba\xbe\0\0\0\x34",
            b"text\0with a zero",
            b"\x1b[31mcolour\x1b[0m",
            b"\xff\xfea\0",
            b"\xc3\x28",
            b"\0asm\x01\0\0\0",
        ] {
            assert_eq!(sniff(content), None, "{content:?}");
        }
    }

    #[test]
    fn no_file_is_served_as_something_that_a_browser_runs() {
        for kind in AttachmentKind::ALL {
            let media_type = media_type(kind);
            for part in ["html", "xml", "svg", "script", "octet"] {
                assert!(!media_type.contains(part), "{media_type}");
            }
        }
    }
}
