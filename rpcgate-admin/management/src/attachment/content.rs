//! Detects the kind of a file by its first bytes.

use rpcgate_store::AttachmentKind;

/// The maximum size of a file in bytes (contract, "Accounts, second factors, money").
pub const MAX_BYTES: usize = 10 << 20;

/// Returns the kind of `content`, or `None` if it is not accepted. All text, including HTML and scripts, counts as
/// plain text and is never served as anything else.
///
/// ```
/// use rpcgate_management::attachment::sniff;
/// use rpcgate_store::AttachmentKind;
///
/// assert_eq!(sniff(b"%PDF-1.7 ..."), Some(AttachmentKind::Pdf));
/// assert_eq!(sniff(b"<html><script>alert(1)</script>"), Some(AttachmentKind::Text));
/// assert_eq!(sniff(b"MZ\x90\x00\x03"), None);
/// ```
pub fn sniff(content: &[u8]) -> Option<AttachmentKind> {
    // Many formats, such as office documents, are ZIP archives inside. All are served as ZIP.
    if content.starts_with(b"PK\x03\x04") || content.starts_with(b"PK\x05\x06") {
        return Some(AttachmentKind::Zip);
    }
    if is_capture(content) {
        return Some(AttachmentKind::Capture);
    }
    let found = infer::get(content);
    match found.map(|found| found.mime_type()) {
        Some("image/png") => Some(AttachmentKind::Png),
        Some("image/jpeg") => Some(AttachmentKind::Jpeg),
        Some("image/gif") => Some(AttachmentKind::Gif),
        Some("image/webp") => Some(AttachmentKind::Webp),
        Some("application/pdf") => Some(AttachmentKind::Pdf),
        Some("application/gzip") => Some(AttachmentKind::Gzip),
        Some("application/x-bzip2") => Some(AttachmentKind::Bzip2),
        Some("application/x-xz") => Some(AttachmentKind::Xz),
        Some("application/zstd") => Some(AttachmentKind::Zstd),
        Some("application/x-tar") => Some(AttachmentKind::Tar),
        Some("application/x-7z-compressed") => Some(AttachmentKind::SevenZip),
        // Text may start like a file of a different kind, for example with "BM" like a bitmap.
        _ if is_text(content) => Some(AttachmentKind::Text),
        // Programs contain non-ASCII bytes too, so a known program is not text.
        None if is_byte_text(content) => Some(AttachmentKind::ByteText),
        _ => None,
    }
}

/// Reports whether a file starts like a packet capture: pcap in both byte orders, with microseconds or nanoseconds, or
/// pcapng.
fn is_capture(content: &[u8]) -> bool {
    const BEGINNINGS: [[u8; 4]; 5] = [
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    BEGINNINGS.iter().any(|beginning| content.starts_with(beginning))
}

/// Reports whether a control character is usual in logs: line breaks, tabs, page breaks, backspaces, bells and terminal
/// escapes.
const fn is_of_logs(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | b'\t' | 0x0c | 0x08 | 0x07 | 0x1b)
}

fn is_text(content: &[u8]) -> bool {
    let is_plain = |c: char| !c.is_control() || u8::try_from(c).is_ok_and(is_of_logs);
    std::str::from_utf8(content).is_ok_and(|text| text.chars().all(is_plain))
}

/// Reports whether a file is text in a single-byte encoding: its only ASCII control characters are those of logs, and
/// most bytes are printable ASCII.
fn is_byte_text(content: &[u8]) -> bool {
    let is_plain = |byte: &u8| *byte >= 0x80 || !byte.is_ascii_control() || is_of_logs(*byte);
    let beyond = content.iter().filter(|byte| **byte >= 0x80).count();
    content.iter().all(is_plain) && beyond <= content.len() / 2
}

/// Returns the `Content-Type` with which a file is served.
pub const fn media_type(kind: AttachmentKind) -> &'static str {
    match kind {
        AttachmentKind::Png => "image/png",
        AttachmentKind::Jpeg => "image/jpeg",
        AttachmentKind::Gif => "image/gif",
        AttachmentKind::Webp => "image/webp",
        AttachmentKind::Pdf => "application/pdf",
        AttachmentKind::Zip => "application/zip",
        AttachmentKind::Gzip => "application/gzip",
        AttachmentKind::Bzip2 => "application/x-bzip2",
        AttachmentKind::Xz => "application/x-xz",
        AttachmentKind::Zstd => "application/zstd",
        AttachmentKind::Tar => "application/x-tar",
        AttachmentKind::SevenZip => "application/x-7z-compressed",
        AttachmentKind::Capture => "application/vnd.tcpdump.pcap",
        AttachmentKind::Text => "text/plain; charset=utf-8",
        // Only the author knows the encoding.
        AttachmentKind::ByteText => "text/plain",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Management): Logs, packet captures and archives are attached to tickets and keep their names; no file is
    // served as something that a browser runs.
    #[test]
    fn the_first_bytes_show_the_type_of_a_file() {
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
            (b"\x1b[32mINFO\x1b[0m started\r\n", AttachmentKind::Text),
            (b"gr\xf6\xdfe: 5 \xb5s\n", AttachmentKind::ByteText),
            (b"BZh91AY&SY\0\0", AttachmentKind::Bzip2),
            (b"\xfd7zXZ\0\0\x04", AttachmentKind::Xz),
            (b"\x28\xb5\x2f\xfd\x24\0", AttachmentKind::Zstd),
            (b"7z\xbc\xaf\x27\x1c\0\x04", AttachmentKind::SevenZip),
            (b"\xd4\xc3\xb2\xa1\x02\0\x04\0", AttachmentKind::Capture),
            (b"\x0a\x0d\x0d\x0a\x1c\0\0\0", AttachmentKind::Capture),
            (b"PK\x05\x06\0\0", AttachmentKind::Zip),
        ] {
            assert_eq!(sniff(content), Some(kind), "{kind}");
        }
    }

    #[test]
    fn files_that_a_browser_could_run_are_plain_text_and_programs_are_refused() {
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
            b"\xff\xfea\0",
            b"\xc3\xa4\xf6\xfcx",
            b"\x1b[0m\x01",
            b"\0asm\x01\0\0\0",
        ] {
            assert_eq!(sniff(content), None, "{content:?}");
        }
    }

    #[test]
    fn a_document_of_an_office_program_is_an_archive() {
        let mut document = b"PK\x03\x04\x14\0\x06\0\x08\0".to_vec();
        document.extend([0; 16]);
        document.extend(b"\x13\0\0\0[Content_Types].xml");
        document.extend(b"PK\x03\x04word/document.xml");
        assert_eq!(sniff(&document), Some(AttachmentKind::Zip));
    }

    // Shows (Management).
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
