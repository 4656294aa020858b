//! File names. They are only for display: a file is stored and found by its identifier.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rpcgate_store::AttachmentKind;

const MAX_CHARACTERS: usize = 100;

const MAX_EXTENSION: usize = 16;

/// The name of a file without a name.
const UNNAMED: &str = "file";

/// Characters that RFC 5987 requires to be percent-encoded in a parameter value.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Extensions of files that a browser or a system runs when they are opened. No file keeps one, because its content is
/// of a different kind.
const RUN: [&str; 44] = [
    "ade", "app", "appx", "bat", "cmd", "com", "cpl", "desktop", "dll", "dmg", "exe", "hta", "htm", "html",
    "htc", "inf", "ins", "iso", "jar", "js", "jse", "lnk", "mht", "mjs", "msc", "msi", "msp", "pif", "pkg",
    "ps1", "psm1", "reg", "scr", "sct", "sh", "svg", "url", "vb", "vbe", "vbs", "wsf", "wsh", "xht", "xhtml",
];

/// The extensions that clearly belong to a kind. The first one is added to a name whose extension is not kept.
const fn extensions(kind: AttachmentKind) -> &'static [&'static str] {
    match kind {
        AttachmentKind::Png => &["png"],
        AttachmentKind::Jpeg => &["jpg", "jpeg"],
        AttachmentKind::Gif => &["gif"],
        AttachmentKind::Webp => &["webp"],
        AttachmentKind::Pdf => &["pdf"],
        AttachmentKind::Zip => &["zip"],
        AttachmentKind::Gzip => &["gz", "tgz"],
        AttachmentKind::Bzip2 => &["bz2", "tbz2"],
        AttachmentKind::Xz => &["xz", "txz"],
        AttachmentKind::Zstd => &["zst", "tzst"],
        AttachmentKind::Tar => &["tar"],
        AttachmentKind::SevenZip => &["7z"],
        AttachmentKind::Capture => &["pcap", "pcapng", "cap"],
        AttachmentKind::Text | AttachmentKind::ByteText => {
            &["txt", "log", "json", "csv", "md", "toml", "yaml", "yml"]
        }
    }
}

/// Returns the name under which a file of this `kind` is shown and saved: the last part of `given`, without misleading
/// or harmful characters (control characters, characters that reverse the direction of text, and those that file
/// systems forbid). An extension stays, unless systems run such files; then an extension of the kind is added.
///
/// ```
/// use rpcgate_management::attachment::file_name;
/// use rpcgate_store::AttachmentKind;
///
/// assert_eq!(file_name("../../etc/passwd", AttachmentKind::Text), "passwd");
/// assert_eq!(file_name("C:\\photo.exe", AttachmentKind::Png), "photo.exe.png");
/// assert_eq!(file_name("report.docx", AttachmentKind::Zip), "report.docx");
/// ```
pub fn file_name(given: &str, kind: AttachmentKind) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let shown: String = last.chars().filter(|c| !is_invisible(*c)).map(harmless).collect();
    let name = shown.trim_matches(|c: char| c == '.' || c.is_whitespace());
    let own = extensions(kind).first().copied().unwrap_or("bin");
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if is_allowed(extension) => (stem, Some(extension)),
        Some(_) => (name, Some(own)),
        None if name.is_empty() => (UNNAMED, Some(own)),
        None => (name, None),
    };
    let length = extension.map_or(0, |extension| extension.chars().count() + 1);
    let stem: String = stem.chars().take(MAX_CHARACTERS - length).collect();
    match extension {
        Some(extension) => format!("{stem}.{extension}"),
        None => stem.trim_end().to_owned(),
    }
}

fn is_allowed(extension: &str) -> bool {
    let is_plain = !extension.is_empty() && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_plain && extension.len() <= MAX_EXTENSION && !RUN.contains(&extension.to_ascii_lowercase().as_str())
}

/// Reports whether a character is invisible or changes the display of other characters.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn harmless(c: char) -> char {
    if matches!(c, '<' | '>' | ':' | '"' | '|' | '?' | '*') { '_' } else { c }
}

/// Returns the `Content-Disposition` that makes a browser save a file under `name` (RFC 6266): in ASCII for old
/// clients, and in full.
pub fn disposition(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '.' | '_');
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", utf8_percent_encode(name, ENCODED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Shows (Management).
    #[test]
    fn a_file_keeps_its_name_without_folders_and_without_an_extension_that_systems_run() {
        for (given, kind, name) in [
            ("", AttachmentKind::Text, "file.txt"),
            (" . ", AttachmentKind::Png, "file.png"),
            (".htaccess", AttachmentKind::Text, "htaccess"),
            ("report.docx", AttachmentKind::Zip, "report.docx"),
            ("colours.log", AttachmentKind::Text, "colours.log"),
            ("latin1.log", AttachmentKind::ByteText, "latin1.log"),
            ("trace.pcap", AttachmentKind::Capture, "trace.pcap"),
            ("old.log.bz2", AttachmentKind::Bzip2, "old.log.bz2"),
            ("syslog.1", AttachmentKind::Text, "syslog.1"),
            ("Dockerfile", AttachmentKind::Text, "Dockerfile"),
            ("x.JaR", AttachmentKind::Zip, "x.JaR.zip"),
            ("x.ex e", AttachmentKind::Text, "x.ex e.txt"),
            ("a/b\\c.log", AttachmentKind::Text, "c.log"),
            ("page.html", AttachmentKind::Text, "page.html.txt"),
            ("archive.tar.gz", AttachmentKind::Gzip, "archive.tar.gz"),
            ("x.JPEG", AttachmentKind::Jpeg, "x.JPEG"),
            ("photo\u{202e}gnp.exe", AttachmentKind::Zip, "photognp.exe.zip"),
            ("a\r\nSet-Cookie: x=1.txt", AttachmentKind::Text, "aSet-Cookie_ x=1.txt"),
            ("größe?.csv", AttachmentKind::Text, "größe_.csv"),
            (".png", AttachmentKind::Png, "png"),
        ] {
            assert_eq!(file_name(given, kind), name, "{given:?}");
        }
        let long = file_name(&format!("{}.txt", "ü".repeat(300)), AttachmentKind::Text);
        assert_eq!(long.chars().count(), MAX_CHARACTERS);
        assert!(long.ends_with("ü.txt"));
    }

    #[test]
    fn the_header_names_the_file_in_ascii_and_in_full() {
        let header = "attachment; filename=\"gr__e _1_.txt\"; filename*=UTF-8''gr%C3%B6%C3%9Fe%20%281%29.txt";
        assert_eq!(disposition("größe (1).txt"), header);
    }

    proptest! {
        #[test]
        fn no_name_breaks_the_header_or_leads_elsewhere(given in any::<String>()) {
            for kind in AttachmentKind::ALL {
                let name = file_name(&given, kind);
                prop_assert!(!name.contains(['/', '\\', '"', '\r', '\n', '\0']), "{name:?}");
                prop_assert!(name.chars().count() <= MAX_CHARACTERS && !name.starts_with('.'));
                prop_assert_eq!(file_name(&name, kind), name.clone(), "a clean name stays");
                let header = disposition(&name);
                prop_assert!(header.bytes().all(|b| (b' '..=b'~').contains(&b)), "{}", header);
                prop_assert_eq!(header.matches('"').count(), 2);
                prop_assert!(http::HeaderValue::from_str(&header).is_ok());
            }
        }
    }
}
